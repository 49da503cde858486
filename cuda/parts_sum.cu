#include "cuda/kernels.cuh"
#include "cuda/launch.cuh"

enum { PARTS_THREADS = 256, PARTS_MAX = 8 };

/* The tree over parts that linear's kernel makes inside. residual may be y: a thread writes only what it alone reads. */
static __global__ void __launch_bounds__(PARTS_THREADS) parts_sum_kernel(const struct parts_sum_args a)
{
	const size_t count = (size_t)a.n_tokens * (size_t)a.rows;
	const size_t i = (size_t)blockIdx.x * PARTS_THREADS + threadIdx.x;
	float part[PARTS_MAX];

	if (i >= count)
		return;
#pragma unroll
	for (int p = 0; p < PARTS_MAX; p++)
		part[p] = p < a.n_parts ? a.parts[(size_t)p * count + i] : 0.0f;
#pragma unroll
	for (int step = 1; step < PARTS_MAX; step *= 2) {
		if (step >= a.n_parts)
			break;
#pragma unroll
		for (int p = 0; p < PARTS_MAX; p += 2 * step)
			part[p] += part[p + step];
	}
	float y = part[0];
	if (a.bias)
		y += a.bias[i % (size_t)a.rows];
	if (a.residual)
		y += a.residual[i];
	a.y[i] = y;
}

int parts_sum_launch(const struct parts_sum_args *a, cudaStream_t stream, struct error *e)
{
	const size_t count = (size_t)a->n_tokens * (size_t)a->rows;

	if (a->n_parts != 1 && a->n_parts != 2 && a->n_parts != 4 && a->n_parts != 8)
		return error_set(e, ERR_INPUT, "parts_sum: %d parts: 1, 2, 4 or 8 expected", a->n_parts);
	if (count == 0)
		return 0;
	LAUNCH(parts_sum_kernel, (unsigned)((count + PARTS_THREADS - 1) / PARTS_THREADS), PARTS_THREADS, 0, stream, *a);
	return launch_status(cudaGetLastError(), "parts_sum", e);
}
