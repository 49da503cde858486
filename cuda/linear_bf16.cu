#include "cuda/linear_mma.cuh"

/* Up to 16 tokens the weights are read once at the speed of memory: many small blocks, deep pipelines. Above, tiles
 * grow so that fewer bytes cross the L2 cache for each product. */
typedef linear_tile<LINEAR_SMALL, 32, 1, 2, 8, 2> bf16_small;
typedef linear_tile<64, 64, 2, 2, 4, 2> bf16_medium;
typedef linear_tile<128, 128, 4, 2, 3, 2> bf16_large;

int linear_bf16_launch(const struct linear_operands *p, bool direct, cudaStream_t stream, struct error *e)
{
	if (direct)
		return tile_launch<bf16_small, product_plain<bf16_small, weights_bf16, input_f32>>(
			p, "linear bf16", stream, e);
	if (p->n_tokens <= 2 * bf16_medium::M)
		return tile_launch<bf16_medium, product_plain<bf16_medium, weights_bf16, input_bf16>>(
			p, "linear bf16", stream, e);
	return tile_launch<bf16_large, product_plain<bf16_large, weights_bf16, input_bf16>>(
		p, "linear bf16", stream, e);
}
