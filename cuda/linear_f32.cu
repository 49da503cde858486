/* F32 weights and input, without tensor cores: each output is one running sum of fused multiply-adds over ascending k
 * of its part, as linear_ref adds. */
#include "cuda/linear_tile.cuh"

/* Warps divide M; the lanes of a warp have neighbouring columns. Weights of a quad of inputs: eight rows in a row, which
 * is all banks once; x is the same for the whole warp. */
template <class Tile> struct product_f32 {
	enum {
		WEIGHT_BYTES = 1024,
		COLUMNS = Tile::N / WARP, /* of a lane */
		ROWS = Tile::WARP_M,
		SUMS = ROWS * COLUMNS,
		QUAD_BYTES = WEIGHT_PANEL * 16,
	};
	typedef input_f32 input;
	float sum[ROWS][COLUMNS];

	__device__ __forceinline__ product_f32(const linear_operands &, const linear_block &)
	{
		static_assert(Tile::WARPS_N == 1, "each warp has all columns");
	}
	static __device__ __forceinline__ int first_row()
	{
		return (int)threadIdx.x / WARP * ROWS;
	}
	static __device__ __forceinline__ int first_column()
	{
		return (int)threadIdx.x % WARP;
	}
	static __device__ __forceinline__ int row_offset(int i)
	{
		return i / COLUMNS;
	}
	static __device__ __forceinline__ int column_offset(int i)
	{
		return i % COLUMNS * WARP;
	}
	__device__ __forceinline__ float *sums()
	{
		return &sum[0][0];
	}
	__device__ __forceinline__ void clear()
	{
#pragma unroll
		for (int i = 0; i < SUMS; i++)
			sums()[i] = 0.0f;
	}
	__device__ __forceinline__ void multiply(const unsigned char *x, const unsigned char *w)
	{
		const unsigned char *const row = x + first_row() * input::ROW_BYTES;
#pragma unroll 2
		for (int quad = 0; quad < TILE_K / 4; quad++) {
			float4 weight[COLUMNS];
#pragma unroll
			for (int n = 0; n < COLUMNS; n++) {
				const int column = first_column() + column_offset(n), panel = column / WEIGHT_PANEL;
				weight[n] = *reinterpret_cast<const float4 *>(w + panel * Tile::DEPTH * WEIGHT_BYTES +
					quad * QUAD_BYTES + column % WEIGHT_PANEL * 16);
			}
#pragma unroll
			for (int m = 0; m < ROWS; m++) {
				const float4 value = reinterpret_cast<const float4 *>(row + m * input::ROW_BYTES)[quad];
#pragma unroll
				for (int n = 0; n < COLUMNS; n++) {
					sum[m][n] = fmaf(weight[n].x, value.x, sum[m][n]);
					sum[m][n] = fmaf(weight[n].y, value.y, sum[m][n]);
					sum[m][n] = fmaf(weight[n].z, value.z, sum[m][n]);
					sum[m][n] = fmaf(weight[n].w, value.w, sum[m][n]);
				}
			}
		}
	}
	__device__ __forceinline__ void tile_end(const linear_operands &, const linear_block &, bool)
	{
	}
	__device__ __forceinline__ void part_end(const linear_operands &, const linear_block &)
	{
	}
};

typedef linear_tile<LINEAR_SMALL, 32, 2, 1, 8, 1> f32_small;
typedef linear_tile<64, 64, 4, 1, 3, 1> f32_medium;

int linear_f32_launch(const struct linear_operands *p, cudaStream_t stream, struct error *e)
{
	if (p->n_tokens <= LINEAR_SMALL)
		return tile_launch<f32_small, product_f32<f32_small>>(p, "linear f32", stream, e);
	return tile_launch<f32_medium, product_f32<f32_medium>>(p, "linear f32", stream, e);
}
