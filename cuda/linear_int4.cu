/* INT4 weights, widened in registers; a group's own sum comes first. */
#include "cuda/linear_mma.cuh"

/* As those of bf16; there are two sets of sums, so the large tile is narrower. */
typedef linear_tile<LINEAR_SMALL, 32, 1, 2, 8, 4> int4_small;
typedef linear_tile<64, 64, 2, 2, 4, 2> int4_medium;
typedef linear_tile<128, 64, 4, 2, 3, 2> int4_large;

int linear_int4_launch(const struct linear_operands *p, bool direct, cudaStream_t stream, struct error *e)
{
	if (direct)
		return tile_launch<int4_small, product_int4<int4_small, input_f32>>(p, "linear int4", stream, e);
	if (p->n_tokens <= 2 * int4_medium::M)
		return tile_launch<int4_medium, product_int4<int4_medium, input_bf16>>(p, "linear int4", stream, e);
	return tile_launch<int4_large, product_int4<int4_large, input_bf16>>(p, "linear int4", stream, e);
}
