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
	/* in order, so that C++ reads it too */
	const struct linear_args linear = {w, x, n_tokens, w->quantize_input ? amax : NULL, NULL, NULL, y, 0, 0, NULL};
	if (w->quantize_input) {
		const struct row_amax_args largest = {x, n_tokens, w->columns, amax};
		row_amax_ref(&largest);
	}
	kernels->linear(kernels->context, &linear);
}

#endif
