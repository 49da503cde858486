/* Launchers of the CUDA kernels. Each takes the op's arguments of engine/backend.h, starts the work on a stream and
 * returns 0, or ERR_INPUT for sizes that the kernel does not take, or ERR_DEVICE. Work that fails later is reported
 * by the stream.
 *
 * Kernels read device memory only: pointers that backend.h leaves in host memory (cu_seqlens, first_position,
 * block_tables) are device copies here. structs pointed to by the arguments (struct weight) are read by the
 * launcher, on the host. The header can be read by C, where the host side of the backend is written. */
#ifndef ASSAY_CUDA_KERNELS_CUH
#define ASSAY_CUDA_KERNELS_CUH

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "cuda/logits.h"
#include "cuda/page_gate.h"
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

/* Rows of x as bf16, in tiles of 32 in lane order (weight_layout.h), zeros behind the columns. */
int input_bf16_launch(const float *x, int n_tokens, int columns, void *out, cudaStream_t stream, struct error *e);

/* y = the tree of the parts (+ bias) (+ residual); residual may be y. */
int parts_sum_launch(const struct parts_sum_args *a, cudaStream_t stream, struct error *e);

/* All matrices of a call have one shape and format. Where they want E4M3 input, amax is found here. */
size_t head_linear_workspace(const struct weight *w, int n_heads, int n_tokens);
int head_linear_launch(const struct head_linear_args *a, void *workspace, cudaStream_t stream, struct error *e);

/* All gate_up have one shape and format, and all down. y may be the residual. PRECOND: the experts of a token are in
 * range and ascend, as route gives them. The workspace depends on the sizes and the weights' shapes alone. */
size_t experts_workspace(const struct experts_args *a);
int experts_launch(const struct experts_args *a, void *workspace, cudaStream_t stream, struct error *e);

/* Bits of the CPU's. */
int rope_table_launch(const struct rope_table_args *a, cudaStream_t stream, struct error *e);

/* Bits of the CPU's, a NaN of the cache in any of its codes. saturated is device memory too; values are added to it. */
int qkv_finish_launch(const struct qkv_finish_args *a, cudaStream_t stream, struct error *e);

/* Head sizes up to 256. PRECOND: k and v aligned to 16 bytes.
 *
 * Where a step has few rows, attend_split_launch lets several blocks share the positions of each, with the same
 * bits: attend_split_bytes of device memory, aligned to 16 bytes, are its scratch until the work is done; 0 bytes:
 * attend_launch has blocks enough, and it does the same. */
int attend_launch(const struct attend_args *a, cudaStream_t stream, struct error *e);
size_t attend_split_bytes(const struct attend_args *a);
int attend_split_launch(const struct attend_args *a, void *scratch, cudaStream_t stream, struct error *e);

/* Of the geometry of latent layers only page_size and n_pages are read: they have one kv head of `width` values. */
int latent_write_launch(const struct latent_write_args *a, cudaStream_t stream, struct error *e);

/* value_width up to 512; width up to what shared memory holds of 64 rows: some 790 values of f32, 1430 of bf16. As
 * attend otherwise. */
int latent_attend_launch(const struct latent_attend_args *a, cudaStream_t stream, struct error *e);
size_t latent_attend_split_bytes(const struct latent_attend_args *a);
int latent_attend_split_launch(const struct latent_attend_args *a, void *scratch, cudaStream_t stream, struct error *e);

/* Its answers are the CPU's. All of first_bad[B] is written. */
int verify_pages_launch(const struct verify_pages_args *a, cudaStream_t stream, struct error *e);

/* The same answers, and what may pass. PRECOND: no sequence has more tokens than a row of the tables holds. */
int page_gate_launch(const struct page_gate_args *a, cudaStream_t stream, struct error *e);

/* As if the pages were copied one after another. PRECOND: every page is in [0, n_pages) of its pool; k and v aligned to
 * 16 bytes. */
int copy_pages_launch(const struct copy_pages_args *a, cudaStream_t stream, struct error *e);

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

#ifdef __cplusplus
}
#endif

#endif
