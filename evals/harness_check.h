/* Whether a results file of lm-evaluation-harness says of a task what the task's samples say. */
#ifndef ASSAY_EVALS_HARNESS_CHECK_H
#define ASSAY_EVALS_HARNESS_CHECK_H

#include "engine/base/json_strict.h"
#include "reports/store.h"

/* Sums of the metrics of one task's samples. Zeroed by the caller. */
struct harness_sums {
	struct harness_sum *items; /* owned */
	size_t count, capacity;
};
void harness_sums_free(struct harness_sums *s);

/* Splits "acc,none"; false for another key ("alias", "acc_stderr,none"). */
bool harness_key_is_metric(struct str key, struct str *metric, struct str *filter);

/* Adds the metrics of a sample. */
int harness_sums_add(struct harness_sums *s, const struct store_sample *sample, struct error *e);

/* Standard errors by the samples, of results in the tree of a results file. Zeroed by the caller. */
struct harness_stderrs {
	struct harness_stderr *items; /* owned; by result, once the groups are checked */
	size_t count, capacity;
	struct buf others; /* groups whose file says another, with both; owned */
};
void harness_stderrs_free(struct harness_stderrs *s);

/* The standard error of a result ({"acc,none": 0.5}'s member): the one found here (NaN of one document), else what the
 * results say, NaN for nothing. PRECOND: the groups were checked. ERR_MEMORY. */
int harness_stderr_of(const struct harness_stderrs *s, const struct json *results, const struct json *value,
	double *out, struct error *e);

/* Compares with the results of the task ({"acc,none": 0.5, ...}; NULL: none) and its part of "configs", which tells what
 * is no mean; adds the standard errors of means to found. ERR_INPUT, naming metric and both values: a metric that not every
 * document has, a mean or its standard error that is another (by more than 1e-9 of it), or a result that no sample bears
 * out. */
int harness_sums_check(const struct harness_sums *s, int64_t documents, const struct json *results,
	const struct json *config, struct harness_stderrs *found, struct error *e);

/* Whether each group's results are the means of those of the tasks below it, by size or plain, to 1e-9. Adds their standard
 * errors to found, which holds the tasks': the pooled ones, or those of all the documents where the file says that; what it
 * says else is told in found->others. root: a results file. ERR_INPUT, naming group, metric and the values. */
int harness_groups_check(const struct json *root, struct harness_stderrs *found, struct error *e);

#endif
