/* Status codes of the CUDA runtime, for the host side. */
#ifndef ASSAY_CUDA_STATUS_H
#define ASSAY_CUDA_STATUS_H

#include <cuda_runtime_api.h>

#include "engine/base/error.h"

/* 0, or ERR_DEVICE (ERR_MEMORY where there is not enough) with what was being done and what the runtime says. */
static inline int cuda_status(cudaError_t status, const char *what, struct error *e)
{
	if (status == cudaSuccess)
		return 0;
	return error_set(e, status == cudaErrorMemoryAllocation ? ERR_MEMORY : ERR_DEVICE, "%s: CUDA error %d: %s",
		what, (int)status, cudaGetErrorString(status));
}

#endif
