/* Plain C twins of the CPU backend's kernels: they define the order of every sum (NUMERICS section 3). One thread, no
 * SIMD; the kernels must give the same bits, and other backends are compared with them. Weights are in the CPU packing
 * (pack.h). */
#ifndef ASSAY_ENGINE_CPU_REF_H
#define ASSAY_ENGINE_CPU_REF_H

#include "engine/backend.h"

/* Horizontal sums have 8 virtual lanes, element i in lane i mod 8, then this tree. */
static inline float lane_tree(const float lane[8])
{
	return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* Balanced binary tree over n = 1, 2, 4 or 8 parts, in place; returns the sum. */
static inline float parts_tree(float *part, int n)
{
	for (; n > 1; n /= 2)
		for (int i = 0; i < n / 2; i++)
			part[i] = part[2 * i] + part[2 * i + 1];
	return part[0];
}

/* Our own exp in float: within 1 ulp or so; 0 below -87.3, infinity above 88.7; NaN stays NaN. */
float exp_ref(float x);

/* lanes of fma(a[i], b[i]), then the tree. */
float dot_ref(const float *a, const float *b, int n);

/* A running softmax: sum of exp(x - max) so far. Chunks are added in order. */
struct softmax_state {
	float max, sum;
};
void softmax_add(struct softmax_state *s, float max, float sum);

/* Largest value, its lowest index, and log sum exp(x - max) in float, in one pass: chunks of 512 values, each in 8 lanes
 * and the tree, relative to its own maximum, then added to the running softmax. */
void row_softmax_ref(const float *x, int n, float *max, int *argmax, float *log_sum);

void embed_ref(const struct embed_args *a);
void rmsnorm_ref(const struct rmsnorm_args *a);
void linear_ref(const struct linear_args *a);
void parts_sum_ref(const struct parts_sum_args *a);
void row_amax_ref(const struct row_amax_args *a);
void rope_table_ref(const struct rope_table_args *a);
void qkv_finish_ref(const struct qkv_finish_args *a);
void attend_ref(const struct attend_args *a);
void swiglu_ref(const struct swiglu_args *a);

/* Reads head vectors of the cache: position's K or V row of one kv head, widened and scaled. out: [D]. */
void kv_read_ref(const struct kv_layer *layer, const struct kv_geometry *g, const void *values, float scale, int page,
	int head, int offset, float *out);

/* Stores values / scale in the layer's format at element offset `first`; returns how many were clipped. */
uint64_t kv_store_ref(enum kv_format format, void *values, size_t first, const float *in, int n, float scale);

#endif
