/* Products of bf16 weights by cuBLASLt, in place of our own: the ceiling that they are measured against. Its order of
 * sums is its own and may change with the number of tokens, so its answers depend on the batch. */
#ifndef ASSAY_CUDA_LIBRARY_H
#define ASSAY_CUDA_LIBRARY_H

#include <cuda_runtime_api.h>

#include "engine/backend.h"

struct library;

/* The library is looked for here, so that the program starts without it. ERR_USAGE names what is missing. */
int library_open(struct library **out, struct error *e);
void library_close(struct library *l);

/* From the packing of weight_layout.h (of m) to rows of tiles of 32 inputs in lane order, as input_bf16_launch makes x: bytes of
 * both are the same. out: [whole panels of rows, tiles, 32] bf16. */
void library_pack(const struct host_matrix *m, const void *packed, void *out);

/* A whole product (no parts), as linear_launch. */
size_t library_workspace(const struct linear_args *a);
int library_linear(
	struct library *l, const struct linear_args *a, void *workspace, cudaStream_t stream, struct error *e);

#endif
