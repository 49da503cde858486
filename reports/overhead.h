/* What is said of interleaved arms: in every block each arm was measured once, in random order, and pairs of one block are
 * compared (INTEGRITY section 7). Pure functions. */
#ifndef ASSAY_REPORTS_OVERHEAD_H
#define ASSAY_REPORTS_OVERHEAD_H

#include "engine/base/error.h"
#include "engine/base/rng.h"

/* One arm in one block. */
struct overhead_sample {
	double tokens_per_s, seconds;
	double cpu_us;     /* of processor time, all threads, for a token of the answers */
	double *latencies; /* [n_latencies] ms of each request, owned by whoever filled it */
	int n_latencies;
	double guard_us, step_us; /* per step */
};

/* A fraction with its 95% interval: 0.01 is 1% more. */
struct overhead_change {
	double value, low, high;
};

enum overhead_measure { OVERHEAD_THROUGHPUT, OVERHEAD_CPU, OVERHEAD_GUARD, OVERHEAD_STEP };

/* A measure of `on` over that of `off`, less one: geometric mean over the blocks, with a t interval of the log ratios.
 * PRECOND: at least two blocks. ERR_MEMORY. */
int overhead_ratio(const struct overhead_sample *off, const struct overhead_sample *on, int n_blocks,
	enum overhead_measure measure, struct overhead_change *out, struct error *e);

enum { OVERHEAD_MOST_BLOCKS = 10000 };

/* Blocks with which an interval of overhead_ratio, which n_blocks gave, would reach `half` either way, where blocks vary as
 * those did; 0: more than OVERHEAD_MOST_BLOCKS. */
int overhead_blocks_for(const struct overhead_change *change, int n_blocks, double half);

int overhead_median(const struct overhead_sample *samples, int n_blocks, enum overhead_measure measure, double *out,
	struct error *e);

enum { OVERHEAD_RESAMPLES = 2000 };

/* The same for the 95th percentile of all latencies of an arm, with the percentile interval of whole blocks drawn with
 * replacement; NaN without latencies. ERR_MEMORY. */
int overhead_p95(const struct overhead_sample *off, const struct overhead_sample *on, int n_blocks, uint64_t seed,
	struct overhead_change *out, struct error *e);

/* Puts 0 .. n - 1 in random order. */
void overhead_shuffle(struct py_random *rng, int *order, int n);

#endif
