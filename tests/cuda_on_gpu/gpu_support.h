/* Measuring on a GPU. */
#ifndef ASSAY_TESTS_CUDA_ON_GPU_GPU_SUPPORT_H
#define ASSAY_TESTS_CUDA_ON_GPU_GPU_SUPPORT_H

#ifdef __cplusplus
extern "C" {
#endif

#include "engine/base/error.h"

/* Measures what the device can do, then times each kernel over sizes that fill it and prints a line for each. 0, or a
 * negative code. */
int gpu_measure(struct error *e);

#ifdef __cplusplus
}
#endif

#endif
