/* Launchers of the CUDA kernels. Each takes the op's arguments of engine/backend.h, starts the work on a stream and
 * returns 0, or ERR_INPUT for sizes that the kernel does not take, or ERR_DEVICE. Work that fails later is reported
 * by the stream.
 *
 * Kernels read device memory only: pointers that backend.h leaves in host memory (cu_seqlens, first_position,
 * block_tables) are device copies here. structs pointed to by the arguments (struct weight) are read by the
 * launcher, on the host. */
#ifndef ASSAY_CUDA_KERNELS_CUH
#define ASSAY_CUDA_KERNELS_CUH

#include <cuda_runtime.h>

extern "C" {
#include "cuda/logits.h"
#include "engine/backend.h"

/* PRECOND: x, weight and y aligned to 16 bytes where hidden % 4 == 0. */
int rmsnorm_launch(const struct rmsnorm_args *a, cudaStream_t stream, struct error *e);

/* BF16 weights of weight_layout.h. x is rounded to bf16, sums are f32. PRECOND: columns % 4 == 0, x aligned to 16
 * bytes, a part is a multiple of 32 columns where there are several. */
int linear_bf16_launch(const struct linear_args *a, cudaStream_t stream, struct error *e);

/* PRECOND: head_dim a multiple of 16, at most 128; k and v aligned to 16 bytes. */
int attend_launch(const struct attend_args *a, cudaStream_t stream, struct error *e);

/* PRECOND: table aligned to 16 bytes where a row is a multiple of 16 bytes, out likewise; ids in range. */
int embed_launch(const struct embed_args *a, cudaStream_t stream, struct error *e);

/* The bits of swiglu_ref. PRECOND: gate_up and y aligned to 16 bytes where inner % 4 == 0. */
int swiglu_launch(const struct swiglu_args *a, cudaStream_t stream, struct error *e);

/* The bits of row_amax_ref. PRECOND: x aligned to 16 bytes where columns % 4 == 0. */
int row_amax_launch(const struct row_amax_args *a, cudaStream_t stream, struct error *e);

/* The bits of route_cpu. At most ROUTE_EXPERTS_MAX experts. */
enum { ROUTE_EXPERTS_MAX = 1024 };
int route_launch(const struct route_args *a, cudaStream_t stream, struct error *e);

/* Everything after the product with the head: log-softmax with the bits of row_softmax_ref, the target's
 * log-probability, argmax, the likeliest tokens, the drawn token, whole rows. */
int logits_tail_launch(const struct logits_tail_args *a, cudaStream_t stream, struct error *e);
}

#endif
