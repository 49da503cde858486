/* Joining the shards of a run that was split over machines. */
#ifndef ASSAY_REPORTS_STORE_MERGE_H
#define ASSAY_REPORTS_STORE_MERGE_H

#include "reports/store.h"

/* A run of some store that was run with --shard. */
struct store_shard {
	struct store *store;
	int64_t run_id;
};

/* Mean of n values and its standard error. */
typedef void store_mean(const double *values, int n, double *value, double *stderr_value);

/* Whether a run's provenance says that it is a shard. */
bool store_run_is_shard(const struct store_run *run);

/* Joins shards into a new complete run of s, in one step: all of it or nothing. The results of suites and tasks are
 * computed again from the answers.
 * ERR_INPUT, naming the runs: no shard, not complete, of different configurations, one twice, one missing, an answer
 * that belongs to another shard, not all items answered, joined before. PRECOND: n > 0, s writes no run. */
int store_merge(struct store *s, const struct store_shard *shards, size_t n, store_mean *mean, int64_t *run_id,
	struct error *e);

#endif
