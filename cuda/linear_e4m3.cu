/* E4M3 weights, widened (W8A16) or with E4M3 input (W8A8). */
#include "cuda/linear_mma.cuh"

/* As those of bf16, shallower where that saves registers; W8A8 holds two sets of sums, so its large tile is narrower. */
typedef linear_tile<LINEAR_SMALL, 32, 1, 2, 8, 2> e4m3_small;
typedef linear_tile<64, 64, 2, 2, 4, 2> e4m3_medium;
typedef linear_tile<128, 128, 4, 2, 4, 1> e4m3_large;
typedef linear_tile<LINEAR_SMALL, 32, 1, 2, 8, 4> w8a8_small;
typedef linear_tile<64, 64, 2, 2, 4, 4> w8a8_medium;
typedef linear_tile<128, 64, 4, 2, 4, 2> w8a8_large;

int linear_e4m3_launch(const struct linear_operands *p, bool direct, cudaStream_t stream, struct error *e)
{
	if (direct)
		return tile_launch<e4m3_small, product_plain<e4m3_small, weights_e4m3, input_f32>>(
			p, "linear e4m3", stream, e);
	if (p->n_tokens <= 2 * e4m3_medium::M)
		return tile_launch<e4m3_medium, product_plain<e4m3_medium, weights_e4m3, input_bf16>>(
			p, "linear e4m3", stream, e);
	return tile_launch<e4m3_large, product_plain<e4m3_large, weights_e4m3, input_bf16>>(
		p, "linear e4m3", stream, e);
}

int linear_w8a8_launch(const struct linear_operands *p, cudaStream_t stream, struct error *e)
{
	if (p->n_tokens <= LINEAR_SMALL)
		return tile_launch<w8a8_small, product_w8a8<w8a8_small>>(p, "linear w8a8", stream, e);
	if (p->n_tokens <= 2 * w8a8_medium::M)
		return tile_launch<w8a8_medium, product_w8a8<w8a8_medium>>(p, "linear w8a8", stream, e);
	return tile_launch<w8a8_large, product_w8a8<w8a8_large>>(p, "linear w8a8", stream, e);
}
