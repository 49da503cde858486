/* What the store holds of some runs, in memory: everything that a report draws from but the answers themselves. */
#ifndef ASSAY_REPORTS_REPORT_DATA_H
#define ASSAY_REPORTS_REPORT_DATA_H

#include "reports/store.h"

struct answers;

struct report_variant {
	int64_t id;
	char *name, *facts; /* facts: JSON */
	int64_t weights_bytes, kv_bytes_per_token, kv_tokens;
	double *seconds; /* [n_seconds] of each answer, ascending */
	size_t n_seconds;
};

struct report_result {
	size_t variant; /* index into the run's variants */
	char *suite, *task, *metric;
	int64_t n;
	double value, stderr_value;
};

struct report_count {
	size_t variant;
	char *suite;
	int64_t n;
	int64_t by_status[SAMPLE_STATUS_COUNT];
	int64_t prompt_tokens, cached_tokens, generated_tokens;
};

/* Latencies in milliseconds; NaN: not measured. */
struct report_latency {
	double mean, median, p95, p99;
};

struct report_measurement {
	size_t variant;
	char *arm, *phase;
	int64_t block, concurrency, input_tokens, output_tokens;
	double tokens_per_s, share_of_floor, guard_us_per_step, step_us;
	struct report_latency ttft, itl, tpot, e2e;
	double cpu_us;     /* of an arm in a block, as are these; NaN: not measured */
	double *latencies; /* [n_latencies] owned */
	int n_latencies;
};

/* Trials of a fault campaign that are alike: as struct store_fault_count. */
struct report_fault {
	char *level, *model, *site, *key;
	int64_t n;
};

struct report_run {
	char *file;           /* the database */
	struct store_run run; /* its strings are owned by this object */
	struct report_variant *variants;
	struct report_result *results; /* in the store's order: by suite, task and metric, then by variant */
	struct report_count *counts;
	struct report_measurement *measurements;
	struct report_fault *outcomes, *checks; /* of a fault campaign */
	size_t n_variants, n_results, n_counts, n_measurements, n_outcomes, n_checks;
};

struct report_data {
	struct report_run *runs;
	size_t n_runs;
};

/* Adds a run of an open store. *data starts zeroed and is to be freed on failure, too. */
int report_data_add(struct report_data *data, struct store *s, int64_t run_id, struct error *e);
/* Adds the run that a side of a comparison comes from, unless it is there; nothing for a file of sample lines. */
int report_data_add_answers(struct report_data *data, const struct answers *answers, struct error *e);
void report_data_free(struct report_data *data);

#endif
