/* The checks of an exam that judge JSON: json-schema and tool-call. */
#ifndef ASSAY_EVALS_EXAM_CALLS_H
#define ASSAY_EVALS_EXAM_CALLS_H

#include "engine/engine.h"
#include "evals/suite.h"

/* expected is a schema that can be judged. */
int exam_schema_read(const struct json *doc, const struct json *expected, struct error *e);
/* The answer is JSON that satisfies it, or else its first fenced block is. */
int exam_schema_apply(
	const struct json *doc, const struct json *expected, struct str answer, bool *passed, struct error *e);

/* expected is BFCL's ground truth, [{function: {argument: [accepted values]}}], of functions among the record's
 * "tools"; "" among the values lets an argument be left out; [] wants no call. */
int exam_tool_call_read(const struct json *doc, const struct json *expected, struct error *e);
/* out->value[0] is whether the answer's calls match it as BFCL's AST checker decides: one call, or several in any order;
 * none of an answer that the length limit cut. The calls are kept in "filtered" whatever comes of them. */
int exam_tool_call_apply(const struct json *doc, const struct json *expected, enum tool_format format,
	const struct answer *answer, struct item_score *out, struct error *e);

#endif
