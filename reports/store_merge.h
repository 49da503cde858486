/* Joining the shards of a run that was split over machines. */
#ifndef ASSAY_REPORTS_STORE_MERGE_H
#define ASSAY_REPORTS_STORE_MERGE_H

#include "reports/store.h"

/* A run of some store that was run with --shard. */
struct store_shard {
	struct store *store;
	int64_t run_id;
};

/* A result without its name. */
struct store_mean {
	int n;
	double value, stderr_value; /* NaN: none */
};

/* Tasks of a suite, at most. */
enum { STORE_TASKS_MAX = 1024 };

/* Computes, from the answers in s, a result that is more than a mean of its answers' metrics. wanted names it: variant,
 * suite, task (the suite's own name: the suite as a whole) and metric. 1: visited, maybe with others of the suite, where
 * it has a value; 0, without a visit: it is a mean. task NULL: visits those of that metric that a part of the answers may
 * have no value for. */
typedef int store_own_results(struct store *s, int64_t run_id, const struct store_result *wanted,
	store_visit_result *visit, void *context, struct error *e);

/* How results are made of values: the suites know. */
struct store_math {
	/* Of n values. */
	struct store_mean (*mean)(const double *values, int n);
	/* Of n tasks of a suite or a group, at most STORE_TASKS_MAX. */
	struct store_mean (*pool)(const struct store_mean *tasks, int n);
	store_own_results *own; /* NULL: all results are means */
};

/* Whether a run's provenance says that it is a shard. */
bool store_run_is_shard(const struct store_run *run);

/* Joins shards into a new complete run of s, in one step: all of it or nothing. The results of suites,
 * groups and tasks are computed again from the answers; those of parts that the answers do not name ("filler=24") from
 * the shards' own.
 * ERR_INPUT, naming the runs: no shard, not complete, of different configurations, one twice, one missing, an answer
 * that belongs to another shard, not all items answered, joined before. PRECOND: n > 0, s writes no run. */
int store_merge(struct store *s, const struct store_shard *shards, size_t n, const struct store_math *math,
	int64_t *run_id, struct error *e);

#endif
