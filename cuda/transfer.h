/* Bulk copies between pageable host memory and the device, through two pinned buffers: while one travels the other is
 * filled. */
#ifndef ASSAY_CUDA_TRANSFER_H
#define ASSAY_CUDA_TRANSFER_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#include "engine/base/error.h"

enum { TRANSFER_BYTES = 4 << 20 };

struct transfer {
	cudaStream_t stream;
	char *pinned[2];     /* [TRANSFER_BYTES] */
	cudaEvent_t idle[2]; /* behind the last copy from or to it */
	int next;
};

int transfer_init(struct transfer *t, cudaStream_t stream, struct error *e);
void transfer_free(struct transfer *t);

/* Returns when host may be written again; the copy is in the stream. */
int transfer_up(struct transfer *t, void *device, const void *host, size_t bytes, struct error *e);

/* Returns when host holds what the stream's work before left there. */
int transfer_down(struct transfer *t, void *host, const void *device, size_t bytes, struct error *e);

#endif
