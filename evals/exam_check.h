/* The checks of an exam: whether an answer passes, by what its question's record says. */
#ifndef ASSAY_EVALS_EXAM_CHECK_H
#define ASSAY_EVALS_EXAM_CHECK_H

#include "evals/suite.h"

/* Whether the record's check can be carried out: ERR_INPUT names what is wrong with "check", "expected", "value",
 * "tolerance" or "tools". *expected is what the target is called: a text (of several the first), or else JSON. */
int exam_check_read(const struct json *doc, const struct json **expected, struct error *e);

/* Carries it out: out->value[0] is 1 for an answer that passes, else 0, as for each that the length limit cut; tool calls
 * are kept in "filtered". format: how the model writes them. PRECOND: exam_check_read accepted the record. ERR_INPUT when
 * a pattern takes too long on the answer, ERR_LIMIT when a schema does. */
int exam_check_apply(const struct json *doc, enum tool_format format, const struct answer *answer,
	struct item_score *out, struct error *e);

#endif
