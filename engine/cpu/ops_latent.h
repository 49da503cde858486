/* Multi-head latent attention in its absorbed form (MODELS section 4): one cache row per token, [c (C) | kpe (Dr)],
 * serves all heads. */
#ifndef ASSAY_ENGINE_CPU_OPS_LATENT_H
#define ASSAY_ENGINE_CPU_OPS_LATENT_H

#include "engine/base/thread_pool.h"
#include "engine/cpu/ref.h"

struct product_kernels;

/* Of the geometry of latent layers only page_size is read: they have one kv head of `width` values. */
void latent_write_cpu(const struct latent_write_args *a);

/* Floats of scratch for latent_attend_cpu on that many threads. */
size_t latent_attend_scratch_floats(const struct latent_attend_args *a, int threads);

/* Blocks, running softmax and sums as in attend_ref; the value of a position is the first C of its row. Threads split
 * tokens and heads. */
void latent_attend_cpu(const struct latent_attend_args *a, struct thread_pool *pool, float *scratch);

/* Floats of scratch for head_linear_cpu. */
size_t head_linear_scratch_floats(const struct head_linear_args *a);

/* scratch: 64-byte aligned. y must not overlap x. All matrices of a call have one shape. */
void head_linear_cpu(const struct head_linear_args *a, const struct product_kernels *kernels, float *scratch);

#endif
