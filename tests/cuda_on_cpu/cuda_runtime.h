/* Stands in for CUDA's header of this name where kernels are compiled for the CPU: the part of CUDA that they use. */
#ifndef ASSAY_TESTS_CUDA_ON_CPU_CUDA_RUNTIME_H
#define ASSAY_TESTS_CUDA_ON_CPU_CUDA_RUNTIME_H

#include <functional>
#include <math.h>
#include <mutex>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tests/cuda_on_cpu/cuda_runtime_api.h"

/* ---- language ---- */

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
/* Blocks run one at a time, so one copy will do. Its section lets the runtime find and poison it. */
#define __shared__ static __attribute__((section("cuda_on_cpu_shared")))

struct uint3 {
	unsigned x, y, z;
};

struct dim3 {
	unsigned x, y, z;
	dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
	{
	}
};

struct alignas(8) float2 {
	float x, y;
};

struct alignas(16) float4 {
	float x, y, z, w;
};

struct alignas(8) uint2 {
	uint32_t x, y;
};

struct alignas(16) uint4 {
	uint32_t x, y, z, w;
};

static inline float2 make_float2(float x, float y)
{
	return {x, y};
}

static inline float4 make_float4(float x, float y, float z, float w)
{
	return {x, y, z, w};
}

/* Of the running fiber. */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

static inline uint32_t __float_as_uint(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline float __uint_as_float(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* ---- barriers and exchanges ---- All threads of a block, or of a warp, must come to the same line; else the launch
 * fails and names both. Warps are whole, masks full: the kernels of this project use no others. */

void cuda_on_cpu_block_barrier(const char *file, int line);
/* Deposits a lane's bytes and waits for the other lanes. Returns the deposits, `stride` bytes apart, until the
 * lane's next call. */
const void *cuda_on_cpu_warp_exchange(const void *own, size_t bytes, unsigned mask, const char *file, int line);
enum { CUDA_ON_CPU_EXCHANGE = 32 /* bytes between two lanes' deposits */ };

static inline void __syncthreads(const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
	cuda_on_cpu_block_barrier(file, line);
}

static inline void __syncwarp(
	unsigned mask = 0xffffffffu, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
	cuda_on_cpu_warp_exchange(NULL, 0, mask, file, line);
}

template <class T> struct cuda_on_cpu_gathered {
	const unsigned char *deposits;
	const T operator[](int lane) const
	{
		T value;
		memcpy(&value, deposits + (lane & 31) * CUDA_ON_CPU_EXCHANGE, sizeof(T));
		return value;
	}
};

/* Every lane's value, for every lane. */
template <class T>
static inline cuda_on_cpu_gathered<T> cuda_on_cpu_gather(
	const T &own, unsigned mask = 0xffffffffu, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
	static_assert(sizeof(T) <= CUDA_ON_CPU_EXCHANGE, "a deposit has room for it");
	return {static_cast<const unsigned char *>(cuda_on_cpu_warp_exchange(&own, sizeof(T), mask, file, line))};
}

template <class T>
static inline T __shfl_sync(
	unsigned mask, T value, int lane, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
	return cuda_on_cpu_gather(value, mask, file, line)[lane];
}

template <class T>
static inline T __shfl_xor_sync(
	unsigned mask, T value, int lanes, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
	return cuda_on_cpu_gather(value, mask, file, line)[(int)(threadIdx.x % 32) ^ lanes];
}

/* A lane without a neighbour keeps its own value. */
template <class T>
static inline T __shfl_down_sync(
	unsigned mask, T value, unsigned lanes, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
	const unsigned lane = threadIdx.x % 32, from = lane + lanes < 32 ? lane + lanes : lane;
	return cuda_on_cpu_gather(value, mask, file, line)[(int)from];
}

template <class T>
static inline T __shfl_up_sync(
	unsigned mask, T value, unsigned lanes, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
	const unsigned lane = threadIdx.x % 32, from = lane >= lanes ? lane - lanes : lane;
	return cuda_on_cpu_gather(value, mask, file, line)[(int)from];
}

/* ---- atomics: fibers change places at barriers only ---- */

template <class T> static inline T atomicAdd(T *at, T value)
{
	const T old = *at;
	*at = old + value;
	return old;
}

template <class T> static inline T atomicMax(T *at, T value)
{
	const T old = *at;
	if (value > old)
		*at = value;
	return old;
}

template <class T> static inline T atomicCAS(T *at, T expected, T value)
{
	const T old = *at;
	if (old == expected)
		*at = value;
	return old;
}

/* ---- asynchronous copies of a thread: bytes from global memory, then zeros up to size ---- */

void cuda_on_cpu_copy_async(void *to, const void *from, size_t size, size_t bytes);
void cuda_on_cpu_copy_commit(void);
void cuda_on_cpu_copy_wait(int pending);

/* ---- host side ---- */

cudaError_t cuda_on_cpu_allow_shared(const void *kernel, int bytes);
template <class Kernel> static inline cudaError_t cudaFuncSetAttribute(Kernel *kernel, cudaFuncAttribute, int value)
{
	return cuda_on_cpu_allow_shared(reinterpret_cast<const void *>(kernel), value);
}

/* One thread's call of a kernel, with the arguments as they are now. */
template <class... Parameters> struct cuda_on_cpu_call {
	void (*kernel)(Parameters...);
	std::function<void()> with(Parameters... arguments) const
	{
		auto *const called = kernel;
		return [=] { called(arguments...); };
	}
};

template <class... Parameters>
static inline cuda_on_cpu_call<Parameters...> cuda_on_cpu_call_of(void (*kernel)(Parameters...))
{
	return {kernel};
}

/* Whatever is done on a device is done under this lock, and nothing else is asked of the stand-in meanwhile. */
extern std::mutex cuda_on_cpu_lock;
/* The stream's next piece of work: done now, later, or kept in a graph. */
void cuda_on_cpu_stream_add(cudaStream_t stream, const std::function<void()> &work);
/* Whether its device is the calling thread's. */
bool cuda_on_cpu_stream_is_here(cudaStream_t stream);
/* Whether what may be done now or later is done now. Under the lock. */
bool cuda_on_cpu_at_once(void);

/* Runs all blocks to their end, or to the first error, when the stream comes to it. */
void cuda_on_cpu_launch(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
	const std::function<void()> &thread);
unsigned char *cuda_on_cpu_dynamic_shared(void);

#endif
