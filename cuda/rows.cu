/* Ops that are cheap per token: embedding, SwiGLU, the largest magnitude of a row. Neighbouring threads take
 * neighbouring values, so rows need no alignment of their own. */
#include "cuda/device_math.cuh"
#include "cuda/kernels.cuh"
#include "cuda/launch.cuh"

enum {
	ROW_THREADS = 256,
	ROW_WARPS = ROW_THREADS / WARP,
	SWIGLU_PER_THREAD = 4, /* loads under way together */
	SWIGLU_PER_BLOCK = ROW_THREADS * SWIGLU_PER_THREAD,
};

/* ---- embed ---- */

/* PRECOND: grid.x = T. */
static __global__ void __launch_bounds__(ROW_THREADS) embed_f32_kernel(
	const float *table /* [V, H] */, const int32_t *ids /* [T] */, int hidden, float *out /* [T, H] */)
{
	const size_t from = (size_t)ids[blockIdx.x] * (size_t)hidden, to = (size_t)blockIdx.x * (size_t)hidden;
	for (int i = (int)threadIdx.x; i < hidden; i += ROW_THREADS)
		out[to + (size_t)i] = table[from + (size_t)i];
}

/* PRECOND: grid.x = T. */
static __global__ void __launch_bounds__(ROW_THREADS) embed_bf16_kernel(
	const uint16_t *table /* [V, H] */, const int32_t *ids /* [T] */, int hidden, float *out /* [T, H] */)
{
	const size_t from = (size_t)ids[blockIdx.x] * (size_t)hidden, to = (size_t)blockIdx.x * (size_t)hidden;
	for (int i = (int)threadIdx.x; i < hidden; i += ROW_THREADS)
		out[to + (size_t)i] = bf16_pair_widen(table[from + (size_t)i]).x;
}

int embed_launch(const struct embed_args *a, cudaStream_t stream, struct error *e)
{
	if (a->format != WEIGHT_F32 && a->format != WEIGHT_BF16)
		return error_set(e, ERR_INPUT, "embed: a table of format %d: f32 or bf16 expected", (int)a->format);
	if (a->n_tokens == 0)
		return 0;
	if (a->format == WEIGHT_F32)
		LAUNCH(embed_f32_kernel, (unsigned)a->n_tokens, ROW_THREADS, 0, stream,
			static_cast<const float *>(a->table), a->ids, a->hidden, a->out);
	else
		LAUNCH(embed_bf16_kernel, (unsigned)a->n_tokens, ROW_THREADS, 0, stream,
			static_cast<const uint16_t *>(a->table), a->ids, a->hidden, a->out);
	return launch_status(cudaGetLastError(), "embed", e);
}

/* ---- swiglu ---- */

/* PRECOND: grid = T, I / SWIGLU_PER_BLOCK rounded up. */
static __global__ void __launch_bounds__(ROW_THREADS)
	swiglu_kernel(const float *gate_up /* [T, 2 I] */, int inner, float *y /* [T, I] */)
{
	const float *const gate = gate_up + (size_t)blockIdx.x * 2 * (size_t)inner, *const up = gate + inner;
	float *const out = y + (size_t)blockIdx.x * (size_t)inner;

#pragma unroll
	for (int k = 0; k < SWIGLU_PER_THREAD; k++) {
		const int i = (int)blockIdx.y * SWIGLU_PER_BLOCK + k * ROW_THREADS + (int)threadIdx.x;
		if (i < inner)
			out[i] = gate[i] / (1.0f + exp_device(-gate[i])) * up[i];
	}
}

int swiglu_launch(const struct swiglu_args *a, cudaStream_t stream, struct error *e)
{
	if (a->n_tokens == 0)
		return 0;
	const dim3 grid((unsigned)a->n_tokens, (unsigned)((a->inner + SWIGLU_PER_BLOCK - 1) / SWIGLU_PER_BLOCK));
	LAUNCH(swiglu_kernel, grid, ROW_THREADS, 0, stream, a->gate_up, a->inner, a->y);
	return launch_status(cudaGetLastError(), "swiglu", e);
}

/* ---- row_amax ---- */

/* Without its sign a float orders as its bits do, NaN above infinity, and a maximum has no order: the bits of the CPU's
 * row_amax. PRECOND: grid.x = T. */
static __global__ void __launch_bounds__(ROW_THREADS)
	row_amax_kernel(const float *x /* [T, columns] */, int columns, float *amax /* [T] */)
{
	__shared__ uint32_t warp_most[ROW_WARPS];
	const float *const row = x + (size_t)blockIdx.x * (size_t)columns;
	uint32_t most = 0;

#pragma unroll 4
	for (int i = (int)threadIdx.x; i < columns; i += ROW_THREADS) {
		const uint32_t magnitude = __float_as_uint(row[i]) & 0x7fffffffu;
		most = magnitude > most ? magnitude : most;
	}
	for (int step = WARP / 2; step > 0; step /= 2) {
		const uint32_t other = __shfl_xor_sync(WHOLE_WARP, most, step);
		most = other > most ? other : most;
	}
	if (threadIdx.x % WARP == 0)
		warp_most[threadIdx.x / WARP] = most;
	__syncthreads();
	if (threadIdx.x > 0)
		return;
	for (uint32_t other : warp_most)
		most = other > most ? other : most;
	amax[blockIdx.x] = __uint_as_float(most);
}

int row_amax_launch(const struct row_amax_args *a, cudaStream_t stream, struct error *e)
{
	if (a->n_tokens == 0)
		return 0;
	LAUNCH(row_amax_kernel, (unsigned)a->n_tokens, ROW_THREADS, 0, stream, a->x, a->columns, a->amax);
	return launch_status(cudaGetLastError(), "row_amax", e);
}
