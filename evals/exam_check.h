/* The checks of an exam: whether an answer passes, by what its question's record says. */
#ifndef ASSAY_EVALS_EXAM_CHECK_H
#define ASSAY_EVALS_EXAM_CHECK_H

#include <stdbool.h>

#include "engine/base/error.h"
#include "engine/base/json_strict.h"
#include "engine/base/str.h"

/* Whether the record's check can be carried out: ERR_INPUT names what is wrong with "check", "expected", "value" or
 * "tolerance", ERR_USAGE a check that is not available yet. *expected is what the target is called. */
int exam_check_read(const struct json *doc, struct str *expected, struct error *e);

/* Carries it out. PRECOND: exam_check_read accepted the record. ERR_INPUT when a pattern takes too long on the answer.
 */
int exam_check_apply(const struct json *doc, struct str answer, bool *passed, struct error *e);

#endif
