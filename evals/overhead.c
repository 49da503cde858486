#include "evals/overhead.h"

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

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int overhead_median(const struct overhead_sample *samples, int n_blocks, enum overhead_measure measure, double *out,
	struct error *e)
{
	double *values = mem_calloc((size_t)n_blocks, sizeof *values, e);

	if (!values)
		return ERR_MEMORY;
	for (int i = 0; i < n_blocks; i++)
		values[i] = measure_of(&samples[i], measure);
	qsort(values, (size_t)n_blocks, sizeof *values, by_value);
	*out = sample_quantile(values, (size_t)n_blocks, 0.5);
	free(values);
	return 0;
}

/* The 95th percentile of the blocks that are picked. */
static double picked_p95(const struct overhead_sample *samples, const int *picked, int n_blocks, double *room)
{
	size_t n = 0;

	for (int i = 0; i < n_blocks; i++) {
		const struct overhead_sample *s = &samples[picked[i]];
		memcpy(room + n, s->latencies, (size_t)s->n_latencies * sizeof *room);
		n += (size_t)s->n_latencies;
	}
	qsort(room, n, sizeof *room, by_value);
	return sample_quantile(room, n, 0.95);
}

/* Room for all latencies of as many blocks, each as long as the longest. */
static size_t room_needed(const struct overhead_sample *off, const struct overhead_sample *on, int n_blocks)
{
	int most = 1;

	for (int i = 0; i < n_blocks; i++) {
		most = off[i].n_latencies > most ? off[i].n_latencies : most;
		most = on[i].n_latencies > most ? on[i].n_latencies : most;
	}
	return (size_t)most * (size_t)n_blocks;
}

int overhead_p95(const struct overhead_sample *off, const struct overhead_sample *on, int n_blocks, uint64_t seed,
	struct overhead_change *out, struct error *e)
{
	struct py_random rng;
	double *room = mem_calloc(room_needed(off, on, n_blocks), sizeof *room, e);
	double *replicates = mem_calloc(OVERHEAD_RESAMPLES, sizeof *replicates, e);
	int *picked = mem_calloc((size_t)n_blocks + 1, sizeof *picked, e), status = ERR_MEMORY;

	if (!room || !replicates || !picked)
		goto cleanup;
	status = 0;
	for (int i = 0; i < n_blocks; i++)
		picked[i] = i;
	out->value = picked_p95(on, picked, n_blocks, room) / picked_p95(off, picked, n_blocks, room) - 1;
	py_random_seed(&rng, seed);
	for (int r = 0; r < OVERHEAD_RESAMPLES; r++) {
		for (int i = 0; i < n_blocks; i++)
			picked[i] = (int)py_random_below(&rng, (uint64_t)n_blocks);
		replicates[r] = picked_p95(on, picked, n_blocks, room) / picked_p95(off, picked, n_blocks, room) - 1;
	}
	qsort(replicates, OVERHEAD_RESAMPLES, sizeof *replicates, by_value);
	out->low = sample_quantile(replicates, OVERHEAD_RESAMPLES, 0.025);
	out->high = sample_quantile(replicates, OVERHEAD_RESAMPLES, 0.975);
cleanup:
	free(room);
	free(replicates);
	free(picked);
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
