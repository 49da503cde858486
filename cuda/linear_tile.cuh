/* The kernel of every matrix product y = x W^T: tiles, the pipeline over K, the tree of the parts, the end of a row.
 * What a tile of K is multiplied with, and how, is the Product's (linear_mma.cuh, linear_f32.cu).
 *
 * Tiles of M and N differ with the number of tokens, the order over K does not: an output element is a running sum over
 * ascending tiles of its part, and parts are added in the fixed tree (NUMERICS section 3, rule 1). */
#ifndef ASSAY_CUDA_LINEAR_TILE_CUH
#define ASSAY_CUDA_LINEAR_TILE_CUH

#include "cuda/device_math.cuh"
#include "cuda/launch.cuh"
#include "cuda/linear.cuh"

enum { TILE_K = WEIGHT_K_TILE, PART_LEVELS = 3 /* 8 parts */ };

/* A block makes M x N outputs with WARPS_M x WARPS_N warps; STAGES pieces of DEPTH tiles of K are on their way or in
 * use. */
template <int M_, int N_, int WARPS_M_, int WARPS_N_, int STAGES_, int DEPTH_> struct linear_tile {
	enum {
		M = M_,
		N = N_,
		WARPS_M = WARPS_M_,
		WARPS_N = WARPS_N_,
		STAGES = STAGES_,
		DEPTH = DEPTH_,
		THREADS = WARPS_M_ * WARPS_N_ * WARP,
		PANELS = N_ / WEIGHT_PANEL,
		WARP_M = M_ / WARPS_M_, /* of one warp */
		WARP_N = N_ / WARPS_N_,
	};
};

/* ---- inputs: a row's 32 values of a tile in shared memory ---- */

/* f32 as it is in memory. */
struct input_f32 {
	/* longer than the values, so that the rows that a warp reads at once lie in different banks */
	enum { ROW_BYTES = (TILE_K + 8) * 4, PIECES = TILE_K / 4 };
	static __device__ __forceinline__ const void *piece(
		const linear_operands &p, int row, int tile, int piece, bool *valid)
	{
		const int k = tile * TILE_K + piece * 4;
		*valid = *valid && k < p.x_stride;
		return static_cast<const float *>(p.x) + (*valid ? (size_t)row * (size_t)p.x_stride + (size_t)k : 0);
	}
	/* Lane t's values (weight_layout.h), rounded to bf16. */
	static __device__ __forceinline__ void fragment(const unsigned char *row, int t, uint32_t pair[4])
	{
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const float2 values = reinterpret_cast<const float2 *>(row)[4 * i + t];
			pair[i] = bf16_pair(values.x, values.y);
		}
	}
};

/* Rows in lane order, of values of SIZE bytes: a lane's 8 values are one piece. Eight lanes read 128 bytes in a row,
 * which is all banks once. */
template <int SIZE> struct input_lanes {
	enum { ROW_BYTES = TILE_K * SIZE, PIECES = ROW_BYTES / 16 };
	static __device__ __forceinline__ const void *piece(
		const linear_operands &p, int row, int tile, int piece, bool *valid)
	{
		const size_t at = ((size_t)row * (size_t)p.n_tiles + (size_t)tile) * ROW_BYTES + (size_t)piece * 16;
		return static_cast<const unsigned char *>(p.x) + (*valid ? at : 0);
	}
};

struct input_bf16 : input_lanes<2> {
	static __device__ __forceinline__ void fragment(const unsigned char *row, int t, uint32_t pair[4])
	{
		const uint4 lane = reinterpret_cast<const uint4 *>(row)[t];
		pair[0] = lane.x;
		pair[1] = lane.y;
		pair[2] = lane.z;
		pair[3] = lane.w;
	}
};

struct input_e4m3 : input_lanes<1> {
	/* the four codes of each step of 16 */
	static __device__ __forceinline__ void fragment(const unsigned char *row, int t, uint32_t quad[2])
	{
		const uint2 lane = reinterpret_cast<const uint2 *>(row)[t];
		quad[0] = lane.x;
		quad[1] = lane.y;
	}
};

/* ---- what a block works on ---- */

struct linear_block {
	const unsigned char *weights, *scales;
	int first_row, n_rows; /* of x, that the block has; n_rows may be <= 0: nothing to do */
	int first_panel;
	size_t y; /* of its first row and output */
};

template <class Tile> static __device__ __forceinline__ linear_block block_find(const linear_operands &p)
{
	linear_block b;
	const int z = (int)blockIdx.z, start = (int)blockIdx.x * Tile::M;
	const int first = p.row_first ? p.row_first[z] : z * p.n_tokens;
	const int count = p.row_first ? p.row_first[z + 1] - first : p.n_tokens;
	b.weights = p.matrix[z].data;
	b.scales = p.matrix[z].scales;
	b.first_row = first + start;
	b.n_rows = count - start < Tile::M ? count - start : Tile::M;
	b.first_panel = (int)blockIdx.y * Tile::PANELS;
	const size_t row = (size_t)((p.row_first ? first : 0) + start);
	b.y = (size_t)z * p.y_matrix_stride + row * p.y_stride + (size_t)(b.first_panel * WEIGHT_PANEL);
	return b;
}

/* ---- the pipeline ---- */

/* A stage is x, [DEPTH, M, ROW_BYTES], then weights, [PANELS, DEPTH, WEIGHT_BYTES]. */
template <class Tile, class Product> struct linear_stage {
	enum {
		X_BYTES = Tile::M * Product::input::ROW_BYTES, /* of a tile of K */
		W_BYTES = Product::WEIGHT_BYTES,               /* of a tile of K of a panel */
		W_START = Tile::DEPTH * X_BYTES,
		BYTES = W_START + Tile::PANELS * Tile::DEPTH * W_BYTES,
		SHARED_BYTES = Tile::STAGES * BYTES,
	};
};

/* Starts the copies of a stage: tiles [tile, tile + DEPTH), zeros from end on. */
template <class Tile, class Product>
static __device__ __forceinline__ void stage_load(
	const linear_operands &p, const linear_block &b, int tile, int end, unsigned char *stage)
{
	typedef linear_stage<Tile, Product> layout;
	typedef typename Product::input input;
	enum { X_PIECES = Tile::DEPTH * input::PIECES, W_PIECES = Tile::DEPTH * layout::W_BYTES / 16 };

	/* not unrolled: copies wait for nothing, and the registers are the sums' */
#pragma unroll 1
	for (int i = (int)threadIdx.x; i < Tile::M * X_PIECES; i += Tile::THREADS) {
		const int row = i / X_PIECES, depth = i % X_PIECES / input::PIECES, piece = i % input::PIECES;
		bool valid = row < b.n_rows && tile + depth < end;
		const void *from = input::piece(p, b.first_row + row, tile + depth, piece, &valid);
		copy_async(stage + depth * layout::X_BYTES + row * input::ROW_BYTES + piece * 16, from, valid);
	}
#pragma unroll 1
	for (int i = (int)threadIdx.x; i < Tile::PANELS * W_PIECES; i += Tile::THREADS) {
		const int panel = i / W_PIECES, byte = i % W_PIECES * 16;
		const bool valid = b.first_panel + panel < p.n_panels && tile + byte / layout::W_BYTES < end;
		const size_t at =
			((size_t)(b.first_panel + panel) * (size_t)p.n_tiles + (size_t)tile) * layout::W_BYTES +
			(size_t)byte;
		copy_async(stage + layout::W_START + panel * Tile::DEPTH * layout::W_BYTES + byte,
			b.weights + (valid ? at : 0), valid);
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

/* Writes a thread's sums: a part as it is, a product with bias and residual. residual may be y: one thread reads and
 * writes it. */
template <class Product>
static __device__ __forceinline__ void sums_store(
	const linear_operands &p, const linear_block &b, int part, const float sum[Product::SUMS])
{
	const int row = computed_here(Product::first_row()), column = computed_here(Product::first_column());
	const int output = b.first_panel * WEIGHT_PANEL + column;
	const int rows_left = b.n_rows - row, outputs_left = p.rows - output;
	const size_t first = b.y + (size_t)row * p.y_stride + (size_t)column;
	float *const y = p.y + first + (size_t)part * p.part_stride;

#pragma unroll
	for (int i = 0; i < Product::SUMS; i++) {
		if (Product::row_offset(i) >= rows_left || Product::column_offset(i) >= outputs_left)
			continue;
		const size_t at = (size_t)Product::row_offset(i) * p.y_stride + (size_t)Product::column_offset(i);
		float value = sum[i];
		if (p.bias)
			value += p.bias[output + Product::column_offset(i)];
		if (p.residual)
			value += p.residual[first + at];
		y[at] = value;
	}
}

/* PRECOND: Tile::THREADS threads, SHARED_BYTES of dynamic shared memory; grid = tiles of T, tiles of rows, matrices. */
template <class Tile, class Product>
static __global__ void __launch_bounds__(Tile::THREADS, 2) linear_kernel(const linear_operands p)
{
	typedef linear_stage<Tile, Product> layout;
	DYNAMIC_SHARED(shared);
	const linear_block b = block_find<Tile>(p);
	if (b.n_rows <= 0)
		return;
	const int first = p.first_tile, end = first + p.n_parts * p.tiles_per_part;
	float waiting[PART_LEVELS][Product::SUMS];
	Product product(p, b);

	for (int stage = 0; stage < Tile::STAGES - 1; stage++) {
		const int tile = first + stage * Tile::DEPTH;
		if (tile < end)
			stage_load<Tile, Product>(p, b, tile, end, shared + stage * layout::BYTES);
		copy_commit();
	}
	int tile = first, stage = 0, depth = 0;
	const unsigned char *used = shared;
	for (int part = 0; part < p.n_parts; part++) {
		product.clear();
#pragma unroll 1
		for (int left = p.tiles_per_part; left > 0; left--) {
			if (depth == 0) {
				copy_wait<Tile::STAGES - 2>();
				/* the stage is there for all, and all have left the one that is filled next */
				__syncthreads();
				const int next = tile + (Tile::STAGES - 1) * Tile::DEPTH;
				if (next < end)
					stage_load<Tile, Product>(p, b, next, end,
						shared + (stage == 0 ? Tile::STAGES - 1 : stage - 1) * layout::BYTES);
				copy_commit();
				used = shared + stage * layout::BYTES;
				stage = stage + 1 == Tile::STAGES ? 0 : stage + 1;
			}
			product.multiply(
				used + depth * layout::X_BYTES, used + layout::W_START + depth * layout::W_BYTES);
			product.tile_end(p, b, left == 1);
			depth = depth + 1 == Tile::DEPTH ? 0 : depth + 1;
			tile++;
		}
		product.part_end(p, b);
		if (!p.part_stride)
			parts_add<Product::SUMS>(part, product.sums(), waiting);
		if (p.part_stride || part + 1 == p.n_parts)
			sums_store<Product>(p, b, p.part_stride ? part : 0, product.sums());
	}
}

template <class Tile, class Product>
static int tile_launch(const linear_operands *p, const char *what, cudaStream_t stream, struct error *e)
{
	enum { SHARED_BYTES = linear_stage<Tile, Product>::SHARED_BYTES };
	const dim3 grid((unsigned)((p->n_tokens + Tile::M - 1) / Tile::M),
		(unsigned)((p->rows + Tile::N - 1) / Tile::N), (unsigned)p->n_matrices);
	TRY(launch_allow_shared(linear_kernel<Tile, Product>, SHARED_BYTES, what, e));
	LAUNCH((linear_kernel<Tile, Product>), grid, Tile::THREADS, SHARED_BYTES, stream, *p);
	return launch_status(cudaGetLastError(), what, e);
}

#endif
