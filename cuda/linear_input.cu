/* Rows of x as the matrix products read them (weight_layout.h): rounded once, in lane order. */
#include "cuda/device_math.cuh"
#include "cuda/kernels.cuh"
#include "cuda/launch.cuh"
#include "cuda/linear.cuh"

enum { INPUT_THREADS = 256, INPUT_WARPS = INPUT_THREADS / WARP, LANES_PER_TILE = 4, LANE_VALUES = 8 };

static __device__ __forceinline__ const float *input_row(const input_rows &in, int row)
{
	if (in.map)
		return in.x + (size_t)(in.map[row] / in.map_divisor) * in.row_stride;
	return in.x + (size_t)(row / in.rows_per_group) * in.group_stride +
		(size_t)(row % in.rows_per_group) * in.row_stride;
}

/* Value k of a row, zero behind its end. */
static __device__ __forceinline__ float input_value(const input_rows &in, const float *row, int k)
{
	if (k >= in.columns)
		return 0.0f;
	const float value = row[k];
	if (!in.gated)
		return value;
	return value / (1.0f + exp_device(-value)) * row[in.columns + k];
}

/* One block per row. Magnitudes are compared as integers, so that NaN is the largest (row_amax of
 * engine/base/quant.h). */
static __global__ void __launch_bounds__(INPUT_THREADS) input_amax_kernel(const input_rows in)
{
	__shared__ int warp_most[INPUT_WARPS];
	const float *const row = input_row(in, (int)blockIdx.x);
	const int lane = (int)threadIdx.x % WARP;
	int most = 0;

	for (int k = (int)threadIdx.x; k < in.columns; k += INPUT_THREADS) {
		const int magnitude = (int)(__float_as_uint(input_value(in, row, k)) & 0x7fffffffu);
		most = magnitude > most ? magnitude : most;
	}
	for (int step = WARP / 2; step > 0; step /= 2) {
		const int other = __shfl_xor_sync(WHOLE_WARP, most, step);
		most = other > most ? other : most;
	}
	if (lane == 0)
		warp_most[threadIdx.x / WARP] = most;
	__syncthreads();
	if (threadIdx.x > 0)
		return;
	for (int i = 1; i < INPUT_WARPS; i++)
		most = warp_most[i] > most ? warp_most[i] : most;
	in.amax[blockIdx.x] = __uint_as_float((uint32_t)most);
}

/* ---- what a lane stores of its 8 values of a tile ---- */

struct lane_f32 {
	typedef struct {
		float4 low, high;
	} stored;
	enum { IN_ORDER = true, SCALED = false };
	static __device__ __forceinline__ stored make(const float value[LANE_VALUES])
	{
		return {make_float4(value[0], value[1], value[2], value[3]),
			make_float4(value[4], value[5], value[6], value[7])};
	}
};

struct lane_bf16 {
	typedef uint4 stored;
	enum { IN_ORDER = false, SCALED = false };
	static __device__ __forceinline__ stored make(const float value[LANE_VALUES])
	{
		return {bf16_pair(value[0], value[1]), bf16_pair(value[2], value[3]), bf16_pair(value[4], value[5]),
			bf16_pair(value[6], value[7])};
	}
};

struct lane_e4m3 {
	typedef uint2 stored;
	enum { IN_ORDER = false, SCALED = true };
	static __device__ __forceinline__ stored make(const float value[LANE_VALUES])
	{
		return {(uint32_t)e4m3_pair(value[2], value[3]) << 16 | e4m3_pair(value[0], value[1]),
			(uint32_t)e4m3_pair(value[6], value[7]) << 16 | e4m3_pair(value[4], value[5])};
	}
};

/* PRECOND: INPUT_THREADS threads; grid = rows, pieces of as many lanes. */
template <class Lane>
static __global__ void __launch_bounds__(INPUT_THREADS)
	input_rows_kernel(const input_rows in, int n_tiles, typename Lane::stored *out)
{
	const int i = (int)(blockIdx.y * INPUT_THREADS + threadIdx.x), t = i % LANES_PER_TILE;
	if (i >= n_tiles * LANES_PER_TILE)
		return;
	const float *const row = input_row(in, (int)blockIdx.x);
	const float scale = Lane::SCALED ? e4m3_input_scale(in.amax[blockIdx.x]) : 1.0f;
	float value[LANE_VALUES];
#pragma unroll
	for (int j = 0; j < LANE_VALUES; j++) {
		const int k = Lane::IN_ORDER ? LANE_VALUES * t + j : 2 * t + j / 4 * 16 + j / 2 % 2 * 8 + j % 2;
		const int column = i / LANES_PER_TILE * WEIGHT_K_TILE + k;
		value[j] = input_value(in, row, column);
		if (Lane::SCALED && column < in.columns) /* what lies behind stays 0, whatever the scale is */
			value[j] /= scale;
	}
	out[(size_t)blockIdx.x * (size_t)(n_tiles * LANES_PER_TILE) + (size_t)i] = Lane::make(value);
}

template <class Lane>
static int rows_launch(const struct input_rows *in, void *out, cudaStream_t stream, struct error *e)
{
	const int n_tiles = weight_tiles(in->columns), lanes = n_tiles * LANES_PER_TILE;
	const dim3 grid((unsigned)in->n_rows, (unsigned)((lanes + INPUT_THREADS - 1) / INPUT_THREADS));

	if (Lane::SCALED && in->find_amax) {
		LAUNCH(input_amax_kernel, (unsigned)in->n_rows, INPUT_THREADS, 0, stream, *in);
		TRY(launch_status(cudaGetLastError(), "amax of the input", e));
	}
	LAUNCH(input_rows_kernel<Lane>, grid, INPUT_THREADS, 0, stream, *in, n_tiles,
		static_cast<typename Lane::stored *>(out));
	return launch_status(cudaGetLastError(), "input of a product", e);
}

int input_rows_launch(
	const struct input_rows *in, enum input_format format, void *out, cudaStream_t stream, struct error *e)
{
	if (format == INPUT_F32)
		return rows_launch<lane_f32>(in, out, stream, e);
	if (format == INPUT_BF16)
		return rows_launch<lane_bf16>(in, out, stream, e);
	return rows_launch<lane_e4m3>(in, out, stream, e);
}

int input_bf16_launch(const float *x, int n_tokens, int columns, void *out, cudaStream_t stream, struct error *e)
{
	struct input_rows in = {};
	in.x = x;
	in.row_stride = (size_t)columns;
	in.rows_per_group = in.n_rows = n_tokens;
	in.columns = columns;
	return input_rows_launch(&in, INPUT_BF16, out, stream, e);
}

size_t input_rows_bytes(enum input_format format, int n_rows, int columns)
{
	const size_t size = format == INPUT_F32 ? 4 : format == INPUT_BF16 ? 2 : 1;
	return (size_t)n_rows * (size_t)weight_tiles(columns) * WEIGHT_K_TILE * size;
}
