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

/* Compares with the results of the task ({"acc,none": 0.5, ...}; NULL: none) and its part of "configs", which tells what
 * is no mean. ERR_INPUT, naming metric and both values: a metric that not every document has, a mean that is another (by more
 * than 1e-9 of it), or a result that no sample bears out. */
int harness_sums_check(const struct harness_sums *s, int64_t documents, const struct json *results,
	const struct json *config, struct error *e);

/* Whether each group's results are the means of those of the tasks below it, by size or plain, to 1e-9. root: a results
 * file. ERR_INPUT, naming group, metric and the values. */
int harness_groups_check(const struct json *root, struct error *e);

#endif
