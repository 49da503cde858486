/* Launcher of the burst that cuda_machine_measure times. */
#ifndef ASSAY_CUDA_MACHINE_CUH
#define ASSAY_CUDA_MACHINE_CUH

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "engine/base/error.h"

enum { MACHINE_THREADS = 256 };

/* sink: [device] [blocks * MACHINE_THREADS], written so that no product is left out. */
int machine_burst_launch(int blocks, int rounds, float *sink, cudaStream_t stream, struct error *e);

double machine_burst_flops(int blocks, int rounds); /* floating-point operations */

#ifdef __cplusplus
}
#endif

#endif
