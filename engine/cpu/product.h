/* The kernels inside composed ops (experts, head_linear): handed in, so that one matrix product serves every op. Any
 * twin with the bits of linear_ref and swiglu_ref will do. */
#ifndef ASSAY_ENGINE_CPU_PRODUCT_H
#define ASSAY_ENGINE_CPU_PRODUCT_H

#include "engine/cpu/ref.h"

struct product_kernels {
	void *context; /* first argument of both */
	void (*linear)(void *context, const struct linear_args *a);
	void (*swiglu)(void *context, const struct swiglu_args *a);
};

/* y = x W^T for x [n_tokens, columns], y [n_tokens, rows]; amax [n_tokens] is overwritten where the weight rounds its
 * input. */
static inline void product_run(const struct product_kernels *kernels, const struct weight *w, const float *x,
	int n_tokens, float *amax, float *y)
{
	struct linear_args linear = {.weight = w, .x = x, .n_tokens = n_tokens, .y = y};
	if (w->quantize_input) {
		row_amax_ref(
			&(struct row_amax_args){.x = x, .n_tokens = n_tokens, .columns = w->columns, .amax = amax});
		linear.amax = amax;
	}
	kernels->linear(kernels->context, &linear);
}

#endif
