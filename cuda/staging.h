/* Host arrays on the device: token ids, positions, slots, block tables, expected tags ... whatever backend.h leaves in
 * host memory and kernels read.
 *
 * Each array keeps its place on the device as long as it is in use, beside a copy in pinned memory of what the device
 * holds. An array that comes again is compared with that copy, and only the range that changed travels. So the tables
 * that were checked before a step, the ones that attention reads and the ones that are checked again behind it are the
 * same bytes of the device, and a step that differs from the last one in a few ids sends a few ids.
 *
 * Use: staging_put for each array, staging_send, launches, staging_launched. */
#ifndef ASSAY_CUDA_STAGING_H
#define ASSAY_CUDA_STAGING_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"

struct staged; /* one array's place */

struct staging {
	cudaStream_t stream;
	cudaEvent_t sent;     /* behind the newest copy to the device */
	bool in_flight;       /* it may not have been reached: pinned memory must stay as it is */
	bool batch;           /* arrays do not change: each is compared once */
	uint64_t clock;       /* of uses and changes */
	struct staged *first; /* places by age, newest last */
	int n_staged, capacity;
	char *near_host, *near_device; /* small arrays lie together, so that neighbours travel in one copy */
	size_t near_used;
};

int staging_init(struct staging *s, cudaStream_t stream, struct error *e);
void staging_free(struct staging *s); /* PRECOND: the stream is idle */

/* An array of the caller, or a table of which the first `bytes` of every row are in use. */
struct staging_array {
	const void *host;
	size_t bytes;  /* of a row */
	int rows;      /* 1: no table */
	size_t stride; /* bytes from row to row, where there are several */
	bool changes;  /* it may change within a batch */
};

enum { STAGING_BUSY = 1 };

/* Where the device will have the array. STAGING_BUSY, and nothing done: launches that were announced by earlier calls
 * still need what stood there; make them (staging_send, staging_launched) and ask again. */
int staging_put(struct staging *s, const struct staging_array *a, const void **device, struct error *e);

/* A number that changes with what is at that place of the device. */
uint64_t staging_version(const struct staging *s, const void *device);

/* Starts the copies of what changed. */
int staging_send(struct staging *s, struct error *e);

/* All launches that use what was put are in the stream, behind staging_send. */
void staging_launched(struct staging *s);

/* From here on until its end the caller's arrays do not change. */
void staging_batch(struct staging *s, bool begins);

#endif
