#include "cuda/device_math.cuh"
#include "cuda/kernels.cuh"
#include "cuda/launch.cuh"

enum { RMSNORM_THREADS = 256, RMSNORM_WARPS = RMSNORM_THREADS / WARP };

/* The sum over the block, the same bits in every thread: a tree over the lanes of a warp, then one over the warps.
 * PRECOND: RMSNORM_THREADS threads, all of them; once per kernel. */
static __device__ float block_sum(float value)
{
	__shared__ float warp_sums[RMSNORM_WARPS];
	const int lane = (int)threadIdx.x % WARP;

	for (int step = WARP / 2; step > 0; step /= 2)
		value += __shfl_xor_sync(WHOLE_WARP, value, step);
	if (lane == 0)
		warp_sums[threadIdx.x / WARP] = value;
	__syncthreads();
	value = warp_sums[lane % RMSNORM_WARPS];
	for (int step = RMSNORM_WARPS / 2; step > 0; step /= 2)
		value += __shfl_xor_sync(WHOLE_WARP, value, step);
	return value;
}

/* Values 4 i .. 4 i + 3 of a row, zeros behind its end. Rows are aligned where hidden % 4 == 0. */
static __device__ __forceinline__ float4 row_load(const float *row, int i, int hidden)
{
	if (hidden % 4 == 0)
		return reinterpret_cast<const float4 *>(row)[i];
	const int left = hidden - 4 * i;
	return make_float4(row[4 * i], left > 1 ? row[4 * i + 1] : 0.0f, left > 2 ? row[4 * i + 2] : 0.0f,
		left > 3 ? row[4 * i + 3] : 0.0f);
}

static __device__ __forceinline__ void row_store(float *row, int i, int hidden, float4 value)
{
	if (hidden % 4 == 0) {
		reinterpret_cast<float4 *>(row)[i] = value;
		return;
	}
	const int left = hidden - 4 * i;
	row[4 * i] = value.x;
	if (left > 1)
		row[4 * i + 1] = value.y;
	if (left > 2)
		row[4 * i + 2] = value.z;
	if (left > 3)
		row[4 * i + 3] = value.w;
}

/* One block per token. The order of the sum depends on hidden alone: thread t takes the groups of four values t, t +
 * 256, ... PRECOND: RMSNORM_THREADS threads; grid.x = T. y may be x: a thread writes only what it alone reads. */
static __global__ void __launch_bounds__(RMSNORM_THREADS) rmsnorm_kernel(
	const float *x /* [T, H] */, const float *weight /* [H] */, int hidden, float eps, float *y /* [T, H] */)
{
	const size_t first = (size_t)blockIdx.x * (size_t)hidden;
	const int n_groups = (hidden + 3) / 4;
	float4 squares = make_float4(0.0f, 0.0f, 0.0f, 0.0f);

	for (int i = (int)threadIdx.x; i < n_groups; i += RMSNORM_THREADS) {
		const float4 v = row_load(x + first, i, hidden);
		squares.x = fmaf(v.x, v.x, squares.x);
		squares.y = fmaf(v.y, v.y, squares.y);
		squares.z = fmaf(v.z, v.z, squares.z);
		squares.w = fmaf(v.w, v.w, squares.w);
	}
	const float sum = block_sum((squares.x + squares.y) + (squares.z + squares.w));
	const float r = 1.0f / sqrtf(sum / (float)hidden + eps);

	for (int i = (int)threadIdx.x; i < n_groups; i += RMSNORM_THREADS) {
		const float4 v = row_load(x + first, i, hidden), w = row_load(weight, i, hidden);
		row_store(y + first, i, hidden,
			make_float4(w.x * (v.x * r), w.y * (v.y * r), w.z * (v.z * r), w.w * (v.w * r)));
	}
}

int rmsnorm_launch(const struct rmsnorm_args *a, cudaStream_t stream, struct error *e)
{
	if (a->n_tokens == 0)
		return 0;
	LAUNCH(rmsnorm_kernel, (unsigned)a->n_tokens, RMSNORM_THREADS, 0, stream, a->x, a->weight, a->hidden, a->eps,
		a->y);
	return launch_status(cudaGetLastError(), "rmsnorm", e);
}
