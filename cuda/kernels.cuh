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

/* BF16 weights of weight_layout.h. x is rounded to bf16, sums are f32. PRECOND: columns % 4 == 0, x aligned to 16
 * bytes, a part is a multiple of 32 columns where there are several. */
int linear_bf16_launch(const struct linear_args *a, cudaStream_t stream, struct error *e);

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

/* As if the pages were copied one after another. PRECOND: every page is in [0, n_pages) of its pool; k and v aligned to
 * 16 bytes. */
int copy_pages_launch(const struct copy_pages_args *a, cudaStream_t stream, struct error *e);
}

#endif
