/* Packs a matrix for the CUDA backend, in host memory: the bytes to upload (cuda/weight_layout.h). No CUDA here. */
#ifndef ASSAY_CUDA_WEIGHT_PACK_H
#define ASSAY_CUDA_WEIGHT_PACK_H

#include "engine/backend.h"

struct weight_sizes {
	size_t data, scales; /* bytes; scales 0: none */
};

/* Sizes of the packed matrix. ERR_INPUT for what the kernels do not take: INT4 groups that are not whole tiles of 32
 * inputs (one group that covers the row may have any size), parts that cut a tile or a group, the NaN code among
 * E4M3 weights, INT4 codes above 15. */
int weight_pack_sizes(const struct host_matrix *m, int parts, struct weight_sizes *out, struct error *e);

/* Writes all bytes of data and scales, of those sizes. PRECOND: weight_pack_sizes returned 0; data is aligned to 4
 * bytes. */
void weight_pack_write(const struct host_matrix *m, void *data, void *scales);

#endif
