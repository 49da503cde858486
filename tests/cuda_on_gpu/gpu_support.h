/* Measuring on a GPU. */
#ifndef ASSAY_TESTS_CUDA_ON_GPU_GPU_SUPPORT_H
#define ASSAY_TESTS_CUDA_ON_GPU_GPU_SUPPORT_H

#ifdef __cplusplus
extern "C" {
#endif

#include "engine/base/error.h"

/* What the device can do at most, as its maker or a measurement says; 0: not known, no share is printed. */
struct gpu_peaks {
	double bytes_per_s, tensor_flops_per_s, fma_flops_per_s;
};

/* Times each kernel over sizes that fill the device and prints a line for each. 0, or a negative code. */
int gpu_measure(const struct gpu_peaks *peaks, struct error *e);

#ifdef __cplusplus
}
#endif

#endif
