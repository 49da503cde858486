/* The CPU kernels that exist once per instruction set, as a table; the right one is chosen when the backend starts.
 * Each function does one task of an op on the calling thread and gives the bits of its twin in ref.h. */
#ifndef ASSAY_ENGINE_CPU_KERNELS_H
#define ASSAY_ENGINE_CPU_KERNELS_H

#include "engine/backend.h"

enum {
	LINEAR_TASK_PANELS = 4,  /* panels of 16 rows per task of linear */
	ATTEND_TILE_TOKENS = 16, /* query tokens per task of attend */
};

struct cpu_kernels {
	const char *isa; /* "scalar", "avx2", "avx512" */

	/* Panels [first, end) of the product for all tokens. x: [T, columns], for W8A8 already rounded, with x_scale
	 * [T] (else NULL). */
	void (*linear_panels)(const struct linear_args *a, const float *x, const float *x_scale, int first, int end);

	void (*rmsnorm_row)(const float *x, const float *weight, int hidden, float eps, float *y);
	void (*swiglu_row)(const float *gate, const float *up, int inner, float *y);

	/* codes[k] = E4M3 rounding of x[k] / scale */
	void (*round_row)(const float *x, int columns, float scale, float *codes);

	/* Tokens [first, end) of sequence b, all query heads of one kv head. scratch: attend_scratch_floats(). */
	void (*attend_tile)(const struct attend_args *a, int b, int kv_head, int first, int end, float *scratch);

	/* Largest value, its lowest index, and log sum exp(x - max). */
	void (*row_softmax)(const float *x, int n, float *max, int *argmax, float *log_sum);

	/* Ceilings (machine.c): independent fused multiply-adds in registers, fma_flops operations an iteration;
	 * reading bytes, a multiple of 4096. What they return means nothing. */
	float (*fma_burst)(long iterations);
	int fma_flops;
	float (*read_burst)(const void *data, size_t bytes);
};

/* Head size in whole vectors of 8. */
static inline size_t attend_padded_dim(int head_dim)
{
	return ((size_t)head_dim + 7) & ~(size_t)7;
}

/* Floats of scratch per thread that attend_tile needs: a block of K and V, and q, out, max and sum of each row. */
static inline size_t attend_scratch_floats(int head_dim, int group)
{
	size_t rows = (size_t)ATTEND_TILE_TOKENS * (size_t)group;
	return attend_padded_dim(head_dim) * (2 * ATTENTION_BLOCK + 2 * rows) + 2 * rows;
}

extern const struct cpu_kernels cpu_kernels_scalar;
#if defined(__x86_64__)
extern const struct cpu_kernels cpu_kernels_avx2, cpu_kernels_avx512;
#endif

#endif
