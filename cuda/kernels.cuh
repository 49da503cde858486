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
#include "engine/backend.h"

/* PRECOND: x, weight and y aligned to 16 bytes where hidden % 4 == 0. */
int rmsnorm_launch(const struct rmsnorm_args *a, cudaStream_t stream, struct error *e);

/* Matrix products: weights of weight_layout.h in every format. Inputs are rounded to bf16 for BF16, E4M3 and INT4
 * weights, to E4M3 with the token's scale where the weight wants it (quantize_input; amax is then needed), and stay f32
 * for F32; sums are f32. PRECOND: x aligned to 16 bytes where columns % 4 == 0. workspace: device memory of at least the bytes that the function beside it says, aligned to
 * 256, free again when the launched work is done (NULL where that is 0). More tokens need more, never less, so the
 * bytes of the largest batch do for all. */
size_t linear_workspace(const struct weight *w, int n_tokens);
int linear_launch(const struct linear_args *a, void *workspace, cudaStream_t stream, struct error *e);

/* y = the tree of the parts (+ bias) (+ residual); residual may be y. */
int parts_sum_launch(const struct parts_sum_args *a, cudaStream_t stream, struct error *e);

/* All matrices of a call have one shape and format. Where they want E4M3 input, amax is found here. */
size_t head_linear_workspace(const struct weight *w, int n_heads, int n_tokens);
int head_linear_launch(const struct head_linear_args *a, void *workspace, cudaStream_t stream, struct error *e);

/* All gate_up have one shape and format, and all down. y may be the residual. PRECOND: the experts of a token are in
 * range and ascend, as route gives them. The workspace depends on the sizes and the weights' shapes alone. */
size_t experts_workspace(const struct experts_args *a);
int experts_launch(const struct experts_args *a, void *workspace, cudaStream_t stream, struct error *e);

/* PRECOND: head_dim a multiple of 16, at most 128; k and v aligned to 16 bytes. */
int attend_launch(const struct attend_args *a, cudaStream_t stream, struct error *e);
}

#endif
