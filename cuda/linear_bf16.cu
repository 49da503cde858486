/* y = x W^T on tensor cores. Tiles of M and N differ with the number of tokens, the order over K does not: an output
 * element is the running sum of mma steps over ascending k of its part, and parts are added in the fixed tree
 * (NUMERICS section 3, rule 1). */
#include "cuda/device_math.cuh"
#include "cuda/kernels.cuh"
#include "cuda/launch.cuh"
#include "cuda/weight_layout.h"

enum {
	TILE_K = WEIGHT_K_TILE,
	/* Rows of a stage in shared memory are longer than TILE_K: the lanes of a warp then read from different
	 * banks. */
	X_STRIDE = TILE_K + 8,       /* floats */
	W_STRIDE = (TILE_K + 8) / 2, /* pairs of bf16 */
	PART_LEVELS = 3,             /* 8 parts */
};

/* A block makes M x N outputs with WARPS_M x WARPS_N warps; STAGES tiles of K are on their way or in use. */
template <int M_, int N_, int WARPS_M_, int WARPS_N_, int STAGES_> struct linear_tile {
	enum {
		M = M_,
		N = N_,
		WARPS_N = WARPS_N_,
		STAGES = STAGES_,
		THREADS = WARPS_M_ * WARPS_N_ * WARP,
		WARP_M = M_ / WARPS_M_, /* of one warp */
		WARP_N = N_ / WARPS_N_,
		FRAGMENTS_M = WARP_M / 16,
		FRAGMENTS_N = WARP_N / 8,
		X_STAGE = M_ * X_STRIDE, /* floats */
		W_STAGE = N_ * W_STRIDE, /* pairs */
		SHARED_BYTES = STAGES_ * (X_STAGE * 4 + W_STAGE * 4),
	};
};

/* Up to 16 tokens the weights are read once at the speed of memory: many small blocks, deep pipelines. Above, tiles
 * grow so that fewer bytes cross the L2 cache for each product. */
typedef linear_tile<16, 32, 1, 2, 8> tile_small;
typedef linear_tile<64, 64, 2, 2, 4> tile_medium;
typedef linear_tile<128, 128, 4, 2, 3> tile_large;

struct linear_operands {
	const uint32_t *w; /* [rows, w_stride / 2] pairs of bf16 */
	const float *x;    /* [T, columns] */
	int w_stride, rows, columns, n_tokens;
	int first_tile, n_parts, tiles_per_part; /* tiles of TILE_K */
	const float *bias, *residual;            /* [rows], [T, rows] or NULL */
	float *y;                                /* [T, rows], or [n_parts, T, rows] where parts stay apart */
	bool parts_apart;
};

/* Starts the copies of one tile of K into a stage: x as it is in memory, f32. */
template <class Tile>
static __device__ __forceinline__ void stage_load(
	const linear_operands &p, int tile, float *x_stage /* [M, X_STRIDE] */, uint32_t *w_stage /* [N, W_STRIDE] */)
{
	const int k = (p.first_tile + tile) * TILE_K;
	for (int i = (int)threadIdx.x; i < Tile::M * (TILE_K / 4); i += Tile::THREADS) {
		const int row = i / (TILE_K / 4), column = i % (TILE_K / 4) * 4,
			  token = (int)blockIdx.x * Tile::M + row;
		const bool valid = token < p.n_tokens && k + column < p.columns;
		const size_t at = valid ? (size_t)token * (size_t)p.columns + (size_t)(k + column) : 0;
		copy_async(x_stage + row * X_STRIDE + column, p.x + at, valid);
	}
	for (int i = (int)threadIdx.x; i < Tile::N * (TILE_K / 8); i += Tile::THREADS) {
		const int row = i / (TILE_K / 8), pair = i % (TILE_K / 8) * 4, output = (int)blockIdx.y * Tile::N + row;
		const bool valid = output < p.rows;
		const size_t at = valid ? ((size_t)output * (size_t)p.w_stride + (size_t)k) / 2 + (size_t)pair : 0;
		copy_async(w_stage + row * W_STRIDE + pair, p.w + at, valid);
	}
}

/* The running sums of a warp go on over one tile of K. x is rounded to bf16 here. */
template <class Tile>
static __device__ __forceinline__ void stage_multiply(const float *x_stage /* [M, X_STRIDE] */,
	const uint32_t *w_stage /* [N, W_STRIDE] */, float sum[Tile::FRAGMENTS_M][Tile::FRAGMENTS_N][4])
{
	const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, g = lane / 4, t = lane % 4;
	const float *x = x_stage + (warp / Tile::WARPS_N * Tile::WARP_M + g) * X_STRIDE + 2 * t;
	const uint32_t *w = w_stage + (warp % Tile::WARPS_N * Tile::WARP_N + g) * W_STRIDE + t;

#pragma unroll
	for (int k = 0; k < TILE_K; k += 16) {
		uint32_t a[Tile::FRAGMENTS_M][4], b[Tile::FRAGMENTS_N][2];
#pragma unroll
		for (int m = 0; m < Tile::FRAGMENTS_M; m++) {
#pragma unroll
			for (int i = 0; i < 4; i++) {
				const float2 pair = *reinterpret_cast<const float2 *>(
					x + (16 * m + i % 2 * 8) * X_STRIDE + k + i / 2 * 8);
				a[m][i] = bf16_pair(pair.x, pair.y);
			}
		}
#pragma unroll
		for (int n = 0; n < Tile::FRAGMENTS_N; n++) {
			b[n][0] = w[8 * n * W_STRIDE + k / 2];
			b[n][1] = w[8 * n * W_STRIDE + k / 2 + 4];
		}
#pragma unroll
		for (int m = 0; m < Tile::FRAGMENTS_M; m++)
#pragma unroll
			for (int n = 0; n < Tile::FRAGMENTS_N; n++)
				mma_bf16(sum[m][n], a[m], b[n]);
	}
}

/* Adds a finished part to the tree: level l of waiting holds a sum of 2^l parts until its sibling is done. After the
 * last part sum is the root. waiting is indexed at run time, so it lies in local memory: it is touched once a part,
 * and registers stay free. */
template <int COUNT>
static __device__ __forceinline__ void parts_add(int part, float *sum /* [COUNT] */, float waiting[PART_LEVELS][COUNT])
{
	int level = 0;
#pragma unroll 1
	for (; part >> level & 1; level++) {
#pragma unroll
		for (int i = 0; i < COUNT; i++)
			sum[i] = waiting[level][i] + sum[i];
	}
	if (level == PART_LEVELS)
		return;
#pragma unroll
	for (int i = 0; i < COUNT; i++)
		waiting[level][i] = sum[i];
}

/* Writes a warp's sums: a part as it is, a product with bias and residual. residual may be y: one thread reads and
 * writes it. */
template <class Tile>
static __device__ __forceinline__ void sums_store(
	const linear_operands &p, int part, const float sum[Tile::FRAGMENTS_M][Tile::FRAGMENTS_N][4])
{
	const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
	const int token = (int)blockIdx.x * Tile::M + warp / Tile::WARPS_N * Tile::WARP_M + lane / 4;
	const int output = (int)blockIdx.y * Tile::N + warp % Tile::WARPS_N * Tile::WARP_N + lane % 4 * 2;
	float *const y = p.y + (p.parts_apart ? (size_t)part * (size_t)p.n_tokens * (size_t)p.rows : 0);

#pragma unroll
	for (int m = 0; m < Tile::FRAGMENTS_M; m++) {
#pragma unroll
		for (int n = 0; n < Tile::FRAGMENTS_N; n++) {
#pragma unroll
			for (int i = 0; i < 4; i++) {
				const int row = token + 16 * m + i / 2 * 8, column = output + 8 * n + i % 2;
				if (row >= p.n_tokens || column >= p.rows)
					continue;
				const size_t at = (size_t)row * (size_t)p.rows + (size_t)column;
				float value = sum[m][n][i];
				if (p.bias)
					value += p.bias[column];
				if (p.residual)
					value += p.residual[at];
				y[at] = value;
			}
		}
	}
}

/* PRECOND: Tile::THREADS threads, Tile::SHARED_BYTES of dynamic shared memory; grid = tiles of T, tiles of rows. */
template <class Tile>
static __global__ void __launch_bounds__(Tile::THREADS, 2) linear_bf16_kernel(const linear_operands p)
{
	DYNAMIC_SHARED(shared);
	float *const x_stages = reinterpret_cast<float *>(shared);
	uint32_t *const w_stages = reinterpret_cast<uint32_t *>(x_stages + Tile::STAGES * Tile::X_STAGE);
	const int n_tiles = p.n_parts * p.tiles_per_part;
	enum { SUMS = Tile::FRAGMENTS_M * Tile::FRAGMENTS_N * 4 };
	float sum[Tile::FRAGMENTS_M][Tile::FRAGMENTS_N][4] = {};
	float waiting[PART_LEVELS][SUMS];

	for (int tile = 0; tile < Tile::STAGES - 1; tile++) {
		if (tile < n_tiles)
			stage_load<Tile>(p, tile, x_stages + tile * Tile::X_STAGE, w_stages + tile * Tile::W_STAGE);
		copy_commit();
	}
	int part = 0, tiles_left = p.tiles_per_part;
	for (int tile = 0; tile < n_tiles; tile++) {
		copy_wait<Tile::STAGES - 2>();
		__syncthreads(); /* this tile is there for all, and all have left the stage that is filled next */
		const int next = tile + Tile::STAGES - 1, filled = next % Tile::STAGES, used = tile % Tile::STAGES;
		if (next < n_tiles)
			stage_load<Tile>(p, next, x_stages + filled * Tile::X_STAGE, w_stages + filled * Tile::W_STAGE);
		copy_commit();
		stage_multiply<Tile>(x_stages + used * Tile::X_STAGE, w_stages + used * Tile::W_STAGE, sum);
		if (--tiles_left > 0)
			continue;
		if (p.parts_apart)
			sums_store<Tile>(p, part, sum);
		else
			parts_add<SUMS>(part, &sum[0][0][0], waiting);
		part++;
		tiles_left = p.tiles_per_part;
		if (part == p.n_parts)
			break;
#pragma unroll
		for (int i = 0; i < SUMS; i++)
			(&sum[0][0][0])[i] = 0.0f;
	}
	if (!p.parts_apart)
		sums_store<Tile>(p, 0, sum);
}

template <class Tile> static int tile_launch(const linear_operands *p, cudaStream_t stream, struct error *e)
{
	const dim3 grid(
		(unsigned)((p->n_tokens + Tile::M - 1) / Tile::M), (unsigned)((p->rows + Tile::N - 1) / Tile::N));
	TRY(launch_allow_shared(linear_bf16_kernel<Tile>, Tile::SHARED_BYTES, "linear_bf16", e));
	LAUNCH(linear_bf16_kernel<Tile>, grid, Tile::THREADS, Tile::SHARED_BYTES, stream, *p);
	return launch_status(cudaGetLastError(), "linear_bf16", e);
}

static int sizes_check(const struct linear_args *a, struct error *e)
{
	const struct weight *w = a->weight;
	if (w->format != WEIGHT_BF16 || w->columns % 4 != 0)
		return error_set(e, ERR_INPUT,
			"linear_bf16: %d columns of format %d: a multiple of 4 of format bf16 expected", w->columns,
			(int)w->format);
	if (w->parts > 1 && w->columns % (w->parts * TILE_K) != 0)
		return error_set(e, ERR_INPUT, "linear_bf16: %d columns in %d parts: each must be a multiple of %d",
			w->columns, w->parts, (int)TILE_K);
	return 0;
}

int linear_bf16_launch(const struct linear_args *a, cudaStream_t stream, struct error *e)
{
	const struct weight *w = a->weight;
	const bool apart = a->part_count > 0;
	linear_operands p = {};

	TRY(sizes_check(a, e));
	if (a->n_tokens == 0)
		return 0;
	p.w = static_cast<const uint32_t *>(w->data);
	p.x = a->x;
	p.w_stride = weight_stride_bf16(w->columns);
	p.rows = w->rows;
	p.columns = w->columns;
	p.n_tokens = a->n_tokens;
	p.tiles_per_part = p.w_stride / TILE_K / w->parts;
	p.first_tile = apart ? a->part_first * p.tiles_per_part : 0;
	p.n_parts = apart ? a->part_count : w->parts;
	p.bias = apart ? NULL : a->bias;
	p.residual = apart ? NULL : a->residual;
	p.y = apart ? a->parts_out : a->y;
	p.parts_apart = apart;
	if (a->n_tokens <= tile_small::M)
		return tile_launch<tile_small>(&p, stream, e);
	if (a->n_tokens <= 2 * tile_medium::M)
		return tile_launch<tile_medium>(&p, stream, e);
	return tile_launch<tile_large>(&p, stream, e);
}
