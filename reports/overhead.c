#include "reports/overhead.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/stats.h"

static double measure_of(const struct overhead_sample *s, enum overhead_measure measure)
{
	switch (measure) {
	case OVERHEAD_THROUGHPUT:
		return s->tokens_per_s;
	case OVERHEAD_CPU:
		return s->cpu_us;
	case OVERHEAD_GUARD:
		return s->guard_us;
	case OVERHEAD_STEP:
		break;
	}
	return s->step_us;
}

int overhead_ratio(const struct overhead_sample *off, const struct overhead_sample *on, int n_blocks,
	enum overhead_measure measure, struct overhead_change *out, struct error *e)
{
	double *values = mem_calloc(2 * (size_t)n_blocks, sizeof *values, e);

	if (!values)
		return ERR_MEMORY;
	for (int i = 0; i < n_blocks; i++) {
		values[i] = measure_of(&off[i], measure);
		values[n_blocks + i] = measure_of(&on[i], measure);
	}
	struct paired_ratio r = paired_ratio(values, values + n_blocks, (size_t)n_blocks, 0.95);
	free(values);
	*out = (struct overhead_change){r.ratio - 1, r.interval.low - 1, r.interval.high - 1};
	return 0;
}

int overhead_blocks_for(const struct overhead_change *change, int n_blocks, double half)
{
	double width = (log1p(change->high) - log1p(change->low)) / 2;
	double sd = width * sqrt(n_blocks) / t_quantile(0.975, n_blocks - 1);
	int low = 2, high = OVERHEAD_MOST_BLOCKS + 1;

	while (low < high) { /* the fewest: the width falls with their number */
		int n = low + (high - low) / 2;
		if (t_quantile(0.975, n - 1) * sd / sqrt(n) <= half)
			high = n;
		else
			low = n + 1;
	}
	return low <= OVERHEAD_MOST_BLOCKS ? low : 0;
}

int overhead_median(const struct overhead_sample *samples, int n_blocks, enum overhead_measure measure, double *out,
	struct error *e)
{
	double *values = mem_calloc((size_t)n_blocks, sizeof *values, e);

	if (!values)
		return ERR_MEMORY;
	for (int i = 0; i < n_blocks; i++)
		values[i] = measure_of(&samples[i], measure);
	sample_sort(values, (size_t)n_blocks);
	*out = sample_quantile(values, (size_t)n_blocks, 0.5);
	free(values);
	return 0;
}

/* A latency and the block that it is from. */
struct timed {
	double value;
	int block;
};

/* All latencies of an arm, ascending; owned. */
struct tail {
	struct timed *items;
	size_t n;
};

static int by_latency(const void *a, const void *b)
{
	double x = ((const struct timed *)a)->value, y = ((const struct timed *)b)->value;
	return (x > y) - (x < y);
}

static int tail_make(const struct overhead_sample *samples, int n_blocks, struct tail *out, struct error *e)
{
	size_t n = 0;
	for (int i = 0; i < n_blocks; i++)
		n += (size_t)samples[i].n_latencies;
	*out = (struct tail){.items = mem_calloc(n, sizeof *out->items, e)};
	if (!out->items)
		return ERR_MEMORY;
	for (int i = 0; i < n_blocks; i++)
		for (int j = 0; j < samples[i].n_latencies; j++)
			out->items[out->n++] = (struct timed){samples[i].latencies[j], i};
	qsort(out->items, out->n, sizeof *out->items, by_latency);
	return 0;
}

/* The 95th percentile (type 7) of the latencies of all blocks, each taken so many times. */
static double tail_p95(const struct tail *tail, const int *times)
{
	size_t total = 0, passed = 0, i = 0;
	for (size_t k = 0; k < tail->n; k++)
		total += (size_t)times[tail->items[k].block];
	if (total == 0)
		return NAN;
	double place = 0.95 * (double)(total - 1);
	size_t below = (size_t)place;
	while (passed + (size_t)times[tail->items[i].block] <= below)
		passed += (size_t)times[tail->items[i++].block];
	double low = tail->items[i].value, high = low;
	if (below + 1 < total) {
		while (passed + (size_t)times[tail->items[i].block] <= below + 1)
			passed += (size_t)times[tail->items[i++].block];
		high = tail->items[i].value;
	}
	return low + (place - (double)below) * (high - low);
}

/* times, replicates: room for [n_blocks] and [OVERHEAD_RESAMPLES]. */
static void tails_compare(const struct tail *off, const struct tail *on, int n_blocks, uint64_t seed, int *times,
	double *replicates, struct overhead_change *out)
{
	struct py_random rng;

	for (int i = 0; i < n_blocks; i++)
		times[i] = 1;
	out->value = tail_p95(on, times) / tail_p95(off, times) - 1;
	py_random_seed(&rng, seed);
	for (int r = 0; r < OVERHEAD_RESAMPLES; r++) {
		memset(times, 0, (size_t)n_blocks * sizeof *times);
		for (int i = 0; i < n_blocks; i++)
			times[py_random_below(&rng, (uint64_t)n_blocks)]++;
		replicates[r] = tail_p95(on, times) / tail_p95(off, times) - 1;
	}
	sample_sort(replicates, OVERHEAD_RESAMPLES);
	out->low = sample_quantile(replicates, OVERHEAD_RESAMPLES, 0.025);
	out->high = sample_quantile(replicates, OVERHEAD_RESAMPLES, 0.975);
}

int overhead_p95(const struct overhead_sample *off, const struct overhead_sample *on, int n_blocks, uint64_t seed,
	struct overhead_change *out, struct error *e)
{
	struct tail tails[2] = {{0}, {0}};
	double *replicates = mem_calloc(OVERHEAD_RESAMPLES, sizeof *replicates, e);
	int *times = mem_calloc((size_t)n_blocks, sizeof *times, e), status = replicates && times ? 0 : ERR_MEMORY;

	*out = (struct overhead_change){NAN, NAN, NAN};
	if (status == 0)
		status = tail_make(off, n_blocks, &tails[0], e);
	if (status == 0)
		status = tail_make(on, n_blocks, &tails[1], e);
	if (status == 0 && tails[0].n > 0 && tails[1].n > 0)
		tails_compare(&tails[0], &tails[1], n_blocks, seed, times, replicates, out);
	free(tails[0].items);
	free(tails[1].items);
	free(replicates);
	free(times);
	return status;
}

void overhead_shuffle(struct py_random *rng, int *order, int n)
{
	for (int i = 0; i < n; i++)
		order[i] = i;
	for (int i = n - 1; i > 0; i--) {
		int j = (int)py_random_below(rng, (uint64_t)i + 1), kept = order[i];
		order[i] = order[j];
		order[j] = kept;
	}
}
