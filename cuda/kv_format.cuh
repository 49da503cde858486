/* Formats of the cache on the device: a value, and a pair of neighbours, as stored and widened (NUMERICS section 1). */
#ifndef ASSAY_CUDA_KV_FORMAT_CUH
#define ASSAY_CUDA_KV_FORMAT_CUH

#include "cuda/device_math.cuh"

struct cache_f32 {
	enum { SIZE = 4 };
	typedef float value;
	typedef float2 pair;
	static __device__ __forceinline__ float2 widen(float2 stored)
	{
		return stored;
	}
	static __device__ __forceinline__ float widen_one(float stored)
	{
		return stored;
	}
	static __device__ __forceinline__ float narrow_one(float value)
	{
		return value;
	}
	static __device__ __forceinline__ bool clips(float)
	{
		return false;
	}
};

struct cache_bf16 {
	enum { SIZE = 2 };
	typedef uint16_t value;
	typedef uint32_t pair;
	static __device__ __forceinline__ float2 widen(uint32_t stored)
	{
		return bf16_pair_widen(stored);
	}
	static __device__ __forceinline__ float widen_one(uint16_t stored)
	{
		return bf16_pair_widen(stored).x;
	}
	static __device__ __forceinline__ uint16_t narrow_one(float value)
	{
		return (uint16_t)(bf16_pair(value, 0.0f) & 0xffffu);
	}
	static __device__ __forceinline__ bool clips(float)
	{
		return false;
	}
};

struct cache_e4m3 {
	enum { SIZE = 1 };
	typedef uint8_t value;
	typedef uint16_t pair;
	static __device__ __forceinline__ float2 widen(uint16_t stored)
	{
		return e4m3_pair_widen(stored);
	}
	static __device__ __forceinline__ float widen_one(uint8_t stored)
	{
		return e4m3_pair_widen(stored).x;
	}
	static __device__ __forceinline__ uint8_t narrow_one(float value)
	{
		return (uint8_t)(e4m3_pair(value, 0.0f) & 0xffu);
	}
	static __device__ __forceinline__ bool clips(float value)
	{
		return fabsf(value) > 448.0f;
	}
};

/* Stores value / scale; returns whether it was clipped. */
template <class Cache>
static __device__ __forceinline__ bool cache_store(typename Cache::value *to, float value, float scale)
{
	const float scaled = value / scale;
	*to = Cache::narrow_one(scaled);
	return Cache::clips(scaled);
}

/* *saturated += the lanes' counts. NULL: not counted. PRECOND: a whole warp calls. */
static __device__ __forceinline__ void saturated_add(uint64_t *saturated, unsigned count)
{
	static_assert(sizeof(unsigned long long) == sizeof(uint64_t), "what atomicAdd takes");
	if (!saturated)
		return;
	for (int step = WARP / 2; step > 0; step /= 2)
		count += __shfl_xor_sync(WHOLE_WARP, count, step);
	if (threadIdx.x % WARP == 0 && count > 0)
		atomicAdd(reinterpret_cast<unsigned long long *>(saturated), (unsigned long long)count);
}

#endif
