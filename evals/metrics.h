/* Metrics of lm-evaluation-harness: exact_match (its port of Hugging Face evaluate's), acc, acc_norm. The mean and its
 * standard error are metric_mean in suite.h. */
#ifndef ASSAY_EVALS_METRICS_H
#define ASSAY_EVALS_METRICS_H

#include "engine/base/error.h"
#include "engine/base/str.h"

struct exact_match; /* a compiled row of the table of what a task ignores: used by one thread at a time */

/* name is a task's ("gsm8k", "mmlu_pro"); an unknown one is ERR_INPUT naming it and the known ones. */
int exact_match_new(struct str name, struct exact_match **out, struct error *e);
void exact_match_delete(struct exact_match *m);
const char *exact_match_name(const struct exact_match *m);

/* *value = 1.0 when prediction and reference are equal after what the task ignores is taken out of both, else 0.0. */
int exact_match_score(
	const struct exact_match *m, struct str prediction, struct str reference, double *value, struct error *e);

/* numpy.argmax: the lowest index of the largest value, or of the first NaN. PRECOND: n >= 1. */
int argmax(const double *values, int n);

/* acc_norm's choice: argmax of logprobs[i] / number of code points of choices[i] (without the delimiter). PRECOND: n
 * >= 1. */
int argmax_norm(const double *logprobs, const struct str *choices, int n);

#endif
