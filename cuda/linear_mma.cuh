/* Products on tensor cores. A warp makes FRAGMENTS_M x FRAGMENTS_N fragments of 16 x 8 outputs. */
#ifndef ASSAY_CUDA_LINEAR_MMA_CUH
#define ASSAY_CUDA_LINEAR_MMA_CUH

#include "cuda/linear_tile.cuh"

/* Where the outputs of a warp are, and their sums. */
template <class Tile> struct mma_sums {
	enum {
		FRAGMENTS_M = Tile::WARP_M / 16,
		FRAGMENTS_N = Tile::WARP_N / 8,
		SUMS = FRAGMENTS_M * FRAGMENTS_N * 4,
	};
	typedef float fragments[FRAGMENTS_M][FRAGMENTS_N][4];
	fragments sum;

	static __device__ __forceinline__ int lane()
	{
		return (int)threadIdx.x % WARP;
	}
	/* First row and panel of the warp, in the block's tile. */
	static __device__ __forceinline__ int warp_row()
	{
		return (int)threadIdx.x / WARP / Tile::WARPS_N * Tile::WARP_M;
	}
	static __device__ __forceinline__ int warp_panel()
	{
		return (int)threadIdx.x / WARP % Tile::WARPS_N * FRAGMENTS_N;
	}
	/* Of a thread's first sum, in the block's tile; sum i is so far from it. */
	static __device__ __forceinline__ int first_row()
	{
		return warp_row() + lane() / 4;
	}
	static __device__ __forceinline__ int first_column()
	{
		return warp_panel() * WEIGHT_PANEL + lane() % 4 * 2;
	}
	static __device__ __forceinline__ int row_offset(int i)
	{
		return i / (4 * FRAGMENTS_N) * 16 + i % 4 / 2 * 8;
	}
	static __device__ __forceinline__ int column_offset(int i)
	{
		return i / 4 % FRAGMENTS_N * WEIGHT_PANEL + i % 2;
	}
	__device__ __forceinline__ float *sums()
	{
		return &sum[0][0][0];
	}
	static __device__ __forceinline__ void fragments_clear(fragments &f)
	{
#pragma unroll
		for (int i = 0; i < SUMS; i++)
			(&f[0][0][0])[i] = 0.0f;
	}
	/* y = scale of the output * sum; weights without a scale leave this out. */
	__device__ __forceinline__ void rows_scale(const linear_operands &p, const linear_block &b)
	{
#pragma unroll
		for (int n = 0; n < FRAGMENTS_N; n++) {
			const int panel = b.first_panel + warp_panel() + n;
			float2 scale = make_float2(0.0f, 0.0f);
			if (panel < p.n_panels)
				scale = reinterpret_cast<const float2 *>(
					b.scales)[panel * (WEIGHT_PANEL / 2) + lane() % 4];
#pragma unroll
			for (int m = 0; m < FRAGMENTS_M; m++) {
#pragma unroll
				for (int i = 0; i < 4; i++)
					sum[m][n][i] *= i % 2 ? scale.y : scale.x;
			}
		}
	}
};

/* acc += one tile of K, two steps of 16. Weights gives a lane's pairs of bf16, Input those of a row. */
template <class Tile, class Weights, class Input>
static __device__ __forceinline__ void tile_multiply(
	const unsigned char *x, const unsigned char *w, typename mma_sums<Tile>::fragments &acc)
{
	typedef mma_sums<Tile> place;
	const int lane = place::lane(), g = lane / 4, t = lane % 4;
	uint32_t a[place::FRAGMENTS_M][2][4];

#pragma unroll
	for (int m = 0; m < place::FRAGMENTS_M; m++) {
#pragma unroll
		for (int half = 0; half < 2; half++) {
			const int row = place::warp_row() + 16 * m + 8 * half + g;
			uint32_t pair[4];
			Input::fragment(x + row * Input::ROW_BYTES, t, pair);
#pragma unroll
			for (int i = 0; i < 4; i++)
				a[m][i / 2][i % 2 * 2 + half] = pair[i];
		}
	}
#pragma unroll
	for (int n = 0; n < place::FRAGMENTS_N; n++) {
		uint32_t b[4];
		Weights::fragment(w + (place::warp_panel() + n) * Tile::DEPTH * Weights::BYTES, lane, b);
#pragma unroll
		for (int m = 0; m < place::FRAGMENTS_M; m++) {
			mma_bf16(acc[m][n], a[m][0], b);
			mma_bf16(acc[m][n], a[m][1], b + 2);
		}
	}
}

/* ---- weights: a lane's share of a tile of K of a panel ---- */

struct weights_bf16 {
	enum { BYTES = 512, SCALED = false };
	static __device__ __forceinline__ void fragment(const unsigned char *tile, int lane, uint32_t pair[4])
	{
		const uint4 own = reinterpret_cast<const uint4 *>(tile)[lane];
		pair[0] = own.x;
		pair[1] = own.y;
		pair[2] = own.z;
		pair[3] = own.w;
	}
};

struct weights_e4m3 {
	enum { BYTES = 256, SCALED = true };
	static __device__ __forceinline__ void fragment(const unsigned char *tile, int lane, uint32_t pair[4])
	{
		const uint2 own = reinterpret_cast<const uint2 *>(tile)[lane];
		e4m3_quad_widen(own.x, pair);
		e4m3_quad_widen(own.y, pair + 2);
	}
};

struct weights_int4 {
	enum { BYTES = 128 };
	static __device__ __forceinline__ void fragment(const unsigned char *tile, int lane, uint32_t pair[4])
	{
		int4_octet_widen(reinterpret_cast<const uint32_t *>(tile)[lane], pair);
	}
};

/* ---- products ---- */

/* One running sum over the part, and at its end the scale of the output. */
template <class Tile, class Weights, class Input> struct product_plain : mma_sums<Tile> {
	enum { WEIGHT_BYTES = Weights::BYTES };
	typedef Input input;

	__device__ __forceinline__ product_plain(const linear_operands &, const linear_block &)
	{
	}
	__device__ __forceinline__ void clear()
	{
		this->fragments_clear(this->sum);
	}
	__device__ __forceinline__ void multiply(const unsigned char *x, const unsigned char *w)
	{
		tile_multiply<Tile, Weights, Input>(x, w, this->sum);
	}
	__device__ __forceinline__ void tile_end(const linear_operands &, const linear_block &, bool)
	{
	}
	__device__ __forceinline__ void part_end(const linear_operands &p, const linear_block &b)
	{
		if (Weights::SCALED)
			this->rows_scale(p, b);
	}
};

/* The sum of each group by itself, then its scale times it (NUMERICS section 1). The scales of a group are fetched
 * while the group before it is summed. */
template <class Tile, class Input> struct product_int4 : mma_sums<Tile> {
	enum { WEIGHT_BYTES = weights_int4::BYTES };
	typedef Input input;
	typedef mma_sums<Tile> base;
	typename base::fragments inner;
	uint32_t scale[base::FRAGMENTS_N]; /* bf16, of both columns of a lane */
	int group, tiles_left;             /* of the group */

	__device__ __forceinline__ product_int4(const linear_operands &p, const linear_block &b)
	{
		group = p.first_tile / p.tiles_per_block;
		tiles_left = p.tiles_per_block;
		scales_fetch(p, b);
	}
	__device__ __forceinline__ void clear()
	{
		this->fragments_clear(inner);
		this->fragments_clear(this->sum);
	}
	__device__ __forceinline__ void scales_fetch(const linear_operands &p, const linear_block &b)
	{
#pragma unroll
		for (int n = 0; n < base::FRAGMENTS_N; n++) {
			const int panel = b.first_panel + base::warp_panel() + n;
			const size_t at = ((size_t)panel * (size_t)p.n_groups + (size_t)group) * (WEIGHT_PANEL / 2);
			scale[n] = 0;
			if (panel < p.n_panels && group < p.n_groups)
				scale[n] = reinterpret_cast<const uint32_t *>(b.scales)[at + base::lane() % 4];
		}
	}
	__device__ __forceinline__ void multiply(const unsigned char *x, const unsigned char *w)
	{
		tile_multiply<Tile, weights_int4, Input>(x, w, inner);
	}
	__device__ __forceinline__ void tile_end(const linear_operands &p, const linear_block &b, bool last_of_part)
	{
		if (--tiles_left > 0 && !last_of_part)
			return;
#pragma unroll
		for (int n = 0; n < base::FRAGMENTS_N; n++) {
			const float2 s = bf16_pair_widen(scale[n]);
#pragma unroll
			for (int m = 0; m < base::FRAGMENTS_M; m++) {
#pragma unroll
				for (int i = 0; i < 4; i++)
					this->sum[m][n][i] =
						fmaf(i % 2 ? s.y : s.x, inner[m][n][i], this->sum[m][n][i]);
			}
		}
		this->fragments_clear(inner); /* of the next group */
		tiles_left = p.tiles_per_block;
		group++;
		scales_fetch(p, b);
	}
	__device__ __forceinline__ void part_end(const linear_operands &, const linear_block &)
	{
	}
};

/* E4M3 by E4M3. The tensor core's own sums are added to f32 every PROMOTION tiles of the part. */
template <class Tile> struct product_w8a8 : mma_sums<Tile> {
	enum { WEIGHT_BYTES = weights_e4m3::BYTES, PROMOTION = 128 / TILE_K };
	typedef input_e4m3 input;
	typedef mma_sums<Tile> base;
	typename base::fragments inner;
	int tiles_left;

	__device__ __forceinline__ product_w8a8(const linear_operands &, const linear_block &)
	{
	}
	__device__ __forceinline__ void clear()
	{
		tiles_left = PROMOTION;
		this->fragments_clear(inner);
		this->fragments_clear(this->sum);
	}
	__device__ __forceinline__ void multiply(const unsigned char *x, const unsigned char *w)
	{
		const int g = base::lane() / 4, t = base::lane() % 4;
		uint32_t a[base::FRAGMENTS_M][4];
#pragma unroll
		for (int m = 0; m < base::FRAGMENTS_M; m++) {
#pragma unroll
			for (int half = 0; half < 2; half++) {
				const int row = base::warp_row() + 16 * m + 8 * half + g;
				uint32_t quad[2];
				input::fragment(x + row * input::ROW_BYTES, t, quad);
				a[m][half] = quad[0];
				a[m][2 + half] = quad[1];
			}
		}
#pragma unroll
		for (int n = 0; n < base::FRAGMENTS_N; n++) {
			const unsigned char *tile = w + (base::warp_panel() + n) * Tile::DEPTH * WEIGHT_BYTES;
			const uint2 own = reinterpret_cast<const uint2 *>(tile)[base::lane()];
			const uint32_t b[2] = {own.x, own.y};
#pragma unroll
			for (int m = 0; m < base::FRAGMENTS_M; m++)
				mma_e4m3(inner[m][n], a[m], b);
		}
	}
	__device__ __forceinline__ void tile_end(const linear_operands &, const linear_block &, bool last_of_part)
	{
		if (--tiles_left > 0 && !last_of_part)
			return;
#pragma unroll
		for (int i = 0; i < base::SUMS; i++)
			this->sums()[i] += (&inner[0][0][0])[i];
		this->fragments_clear(inner);
		tiles_left = PROMOTION;
	}
	__device__ __forceinline__ void part_end(const linear_operands &p, const linear_block &b)
	{
		this->rows_scale(p, b);
#pragma unroll
		for (int i = 0; i < base::FRAGMENTS_M * 2; i++) {
			const int m = i / 2, row = base::warp_row() + 8 * i + base::lane() / 4;
			const float scale = row < b.n_rows ? e4m3_input_scale(p.amax[b.first_row + row]) : 0.0f;
#pragma unroll
			for (int n = 0; n < base::FRAGMENTS_N; n++) {
				this->sum[m][n][i % 2 * 2] *= scale;
				this->sum[m][n][i % 2 * 2 + 1] *= scale;
			}
		}
	}
};

#endif
