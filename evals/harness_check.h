/* Whether a results file of lm-evaluation-harness says of a task what the task's samples say. */
#ifndef ASSAY_EVALS_HARNESS_CHECK_H
#define ASSAY_EVALS_HARNESS_CHECK_H

#include "engine/base/json_strict.h"
#include "evals/harness_graph.h"
#include "reports/store.h"

/* A task of a results file. */
struct harness_task {
	const char *suite, *name;  /* what it is called in the store */
	const struct json *config; /* its member of "configs"; NULL: none */
};

/* What is made of a metric's values. */
enum harness_aggregation {
	HARNESS_MEAN,
	HARNESS_MEAN_OF_NUMBERS, /* a mean, as far as is known: not of values that are lists */
	HARNESS_OTHER,
};
/* By the configuration, or by what it leaves unsaid; for assay's suites, whose metrics are means, the configuration is not
 * asked. */
enum harness_aggregation harness_aggregation_of(const struct harness_task *task, struct str metric);

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

/* Compares with the results of the task ({"acc,none": 0.5, ...}; NULL: none); adds the standard errors of means to found.
 * ERR_INPUT, naming metric and both values: a metric that not every document has or the results have no number for, a mean
 * or its standard error that is another (by more than 1e-9 of it), or a result that no sample bears out. */
int harness_sums_check(const struct harness_sums *s, int64_t documents, const struct json *results,
	const struct harness_task *task, struct harness_stderrs *found, struct error *e);

/* Whether each result that is no task's is a group's, and the mean of those of the tasks below it, by size or plain, to
 * 1e-9; and the group's "sample_len", where it has one, the number of their documents. Adds standard errors to found,
 * which holds the tasks': the pooled ones, those of a plain mean, or what the file says where that is another of the known
 * formulas'; what else it says is told in found->others. ERR_INPUT, naming group, metric and the values. */
int harness_groups_check(struct harness_graph *graph, struct harness_stderrs *found, struct error *e);

#endif
