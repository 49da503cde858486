/* The CUDA backend: the op table of engine/backend.h on one device.
 *
 * All work goes to one stream and is made in steps: ops are kept until a result is wanted (finish, download, a check of
 * pages that is not deferred), then launched together, from the third time on as one CUDA graph (steps.h). Arrays that
 * the engine leaves in host memory keep their place on the device (staging.h). Between two ops nothing waits; a step ends
 * with one synchronisation, which brings the rows of logits, the count of clipped values and both checks of the pages,
 * before the reads and behind them. What the first finds bad the device keeps the step from reading (page_gate.h). */
#ifndef ASSAY_CUDA_CUDA_BACKEND_H
#define ASSAY_CUDA_CUDA_BACKEND_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "engine/base/error.h"

struct backend;
struct comm;

struct cuda_options {
	int device;     /* by CUDA's numbers */
	bool no_graphs; /* every step is launched op by op */
	bool library;   /* products of bf16 weights by cuBLASLt: the ceiling, not independent of the batch */
};

/* ERR_USAGE: no such device, no driver, no kernels for it, or a build without the backend; the message names what is
 * missing. */
int cuda_backend_new(const struct cuda_options *o, struct backend **out, struct error *e);

/* A backend for each rank, on the devices o->device and on, and the group that joins them (NCCL). Each array [size]. */
int cuda_ranks_new(
	const struct cuda_options *o, int size, struct backend **backends, struct comm **comms, struct error *e);

/* What a device can do at most, measured. */
struct cuda_machine {
	char name[256];
	int major, minor, multiprocessors;
	size_t memory;       /* bytes */
	double copy;         /* bytes per second read and written by a copy from device to device */
	double tensor_flops; /* floating-point operations per second of bf16 matrix products in registers */
};
int cuda_machine_measure(int device, struct cuda_machine *out, struct error *e);

#ifdef __cplusplus
}
#endif

#endif
