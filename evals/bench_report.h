/* What a benchmark says: each level becomes rows in the store, rows of JSON and a line of a table. */
#ifndef ASSAY_EVALS_BENCH_REPORT_H
#define ASSAY_EVALS_BENCH_REPORT_H

#include "cuda/cuda_backend.h"
#include "evals/console.h"
#include "evals/load.h"
#include "reports/store.h"

struct bench_report {
	struct engine_machine machine; /* of --backend cpu */
	struct cuda_machine device;    /* of --backend cuda */
	bool on_device;
	struct buf rows, residents; /* elements of JSON arrays, commas between */
	struct table levels, fits;
	bool any_residents;
};

void bench_report_init(struct bench_report *r);
void bench_report_free(struct bench_report *r);

/* One level: a load that ran under a variant. */
struct bench_level {
	const char *variant;
	int64_t variant_id;
	const struct engine_facts *facts;
	const struct load *load;
	struct load_result *result;
	int64_t started; /* nanoseconds since 1970, UTC */
};

/* Adds the level: phases "prefill" (steps that compute prompts), "decode" (steps without) and "mixed" (all of it; its
 * tokens per second are those of answers over the whole time). */
int bench_report_level(struct bench_report *r, struct store *s, const struct bench_level *level, struct error *e);

/* The most requests of input + output tokens that one budget of KV memory holds. */
struct bench_residents {
	const char *kv; /* "fp8" or "bf16>fp8" */
	int64_t variant_id;
	const struct engine_facts *facts;
	int input, output, residents;
	int64_t started;
	double seconds;
};
int bench_report_residents(
	struct bench_report *r, struct store *s, const struct bench_residents *residents, struct error *e);

/* Appends what is printed; run_id 0: the machine alone was measured. */
int bench_report_text(const struct bench_report *r, int64_t run_id, bool color, struct buf *out, struct error *e);
void bench_report_json(const struct bench_report *r, int64_t run_id, struct buf *out);

#endif
