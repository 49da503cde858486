/* The two things whose spelling differs between a GPU and the CPU that stands in for it in the tests (NUMERICS
 * section 5): a launch and dynamic shared memory. Kernels use nothing else that a C++ compiler with the stand-in's
 * cuda_runtime.h cannot read. */
#ifndef ASSAY_CUDA_LAUNCH_CUH
#define ASSAY_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

extern "C" {
#include "engine/base/error.h"
}

#ifdef __CUDACC__
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
	(kernel)<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__)
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#else
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                                \
	cuda_on_cpu_launch(reinterpret_cast<const void *>(kernel), (grid), (block), (shared_bytes), (stream), \
		cuda_on_cpu_call_of(kernel).with(__VA_ARGS__))
#define DYNAMIC_SHARED(name) unsigned char *const name = cuda_on_cpu_dynamic_shared()
#endif

/* The status of a CUDA call: 0, or ERR_DEVICE with what was being done and what the runtime says. */
static inline int launch_status(cudaError_t status, const char *what, struct error *e)
{
	if (status == cudaSuccess)
		return 0;
	return error_set(e, ERR_DEVICE, "%s: CUDA error %d: %s", what, (int)status, cudaGetErrorString(status));
}

/* Lets a kernel have more dynamic shared memory than the 48 KB that every kernel may use. */
template <class Kernel>
static inline int launch_allow_shared(Kernel *kernel, size_t bytes, const char *what, struct error *e)
{
	if (bytes <= 48 * 1024)
		return 0;
	return launch_status(
		cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes), what, e);
}

#endif
