/* Device functions that need more than C++: each is inline PTX on a GPU and has a plain twin for the CPU that stands
 * in for it (tests/cuda_on_cpu). Fragment layouts are those of the PTX ISA, "Matrix Fragments for mma.m16n8k16". */
#ifndef ASSAY_CUDA_DEVICE_MATH_CUH
#define ASSAY_CUDA_DEVICE_MATH_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "engine/base/exp_constants.h"
#ifndef __CUDACC__
#include "engine/base/number.h"
#endif

enum { WARP = 32 };
#define WHOLE_WARP 0xffffffffu

/* The value itself. What is computed from it is computed where it is used: the compiler cannot do that before a loop and
 * keep the results in registers all the while. */
static __device__ __forceinline__ int computed_here(int value)
{
#ifdef __CUDACC__
	asm volatile("" : "+r"(value));
#endif
	return value;
}

/* ---- number formats ---- */

/* Two floats rounded to bf16 (nearest even), low in the low half. */
static __device__ __forceinline__ uint32_t bf16_pair(float low, float high)
{
#ifdef __CUDACC__
	uint32_t pair;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
	return pair;
#else
	return (uint32_t)float_to_bf16(high) << 16 | float_to_bf16(low);
#endif
}

static __device__ __forceinline__ float2 bf16_pair_widen(uint32_t pair)
{
	return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

/* Conversions of E4M3 are instructions from compute capability 8.9 on; before, and on the CPU, they are made of integers
 * and exact multiplications. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define E4M3_INSTRUCTIONS
#endif

static __device__ __forceinline__ float e4m3_widen(uint32_t code)
{
	const uint32_t sign = (code & 0x80u) << 24, magnitude = code & 0x7fu;
	/* exponent and mantissa where f32 has them; its exponent counts from 127, not 7 */
	const float value = __uint_as_float(magnitude << 20) * 0x1p120f;
	return __uint_as_float(sign | (magnitude == 0x7fu ? 0x7fc00000u : __float_as_uint(value)));
}

/* Nearest even, clipped to 448; NaN stays NaN. */
static __device__ __forceinline__ uint32_t e4m3_narrow(float value)
{
	const uint32_t bits = __float_as_uint(value), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
	if (magnitude > 0x7f800000u)
		return sign | 0x7fu;
	if (magnitude >= 0x43e00000u) /* 448 and above */
		return sign | 0x7eu;
	if (magnitude < 0x3c800000u) /* below 2^-6: a multiple of 2^-9; 8 steps are the smallest normal */
		return sign | (uint32_t)rintf(__uint_as_float(magnitude) * 512.0f);
	const uint32_t rounded = magnitude + 0x7ffffu + (magnitude >> 20 & 1u);
	return sign | ((rounded >> 20) - (120u << 3));
}

/* Two E4M3 codes, the low one in the low byte. */
static __device__ __forceinline__ float2 e4m3_pair_widen(uint16_t pair)
{
#ifdef E4M3_INSTRUCTIONS
	float low, high;
	asm("{\n\t"
	    ".reg .b32 both;\n\t"
	    ".reg .b16 first, second;\n\t"
	    "cvt.rn.f16x2.e4m3x2 both, %2;\n\t"
	    "mov.b32 {first, second}, both;\n\t"
	    "cvt.f32.f16 %0, first;\n\t"
	    "cvt.f32.f16 %1, second;\n\t"
	    "}"
		: "=f"(low), "=f"(high)
		: "h"(pair));
	return make_float2(low, high);
#else
	return make_float2(e4m3_widen(pair & 0xffu), e4m3_widen((uint32_t)pair >> 8));
#endif
}

/* Two floats rounded to E4M3 (nearest even, clipped to 448), low in the low byte. */
static __device__ __forceinline__ uint16_t e4m3_pair(float low, float high)
{
#ifdef E4M3_INSTRUCTIONS
	uint16_t pair;
	asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
	return pair;
#else
	return (uint16_t)(e4m3_narrow(high) << 8 | e4m3_narrow(low));
#endif
}

/* The scale of a token whose largest magnitude is amax, as e4m3_scale of engine/base/quant.h. */
static __device__ __forceinline__ float e4m3_input_scale(float amax)
{
	const float scale = amax / 448.0f;
	return scale == 0.0f ? 1.0f : scale;
}

/* ---- exp ---- */

/* The CPU's exp_ref, operation by operation: 0 below -87.3, infinity above 88.7, NaN stays NaN. */
static __device__ __forceinline__ float exp_device(float x)
{
	if (x < EXP_LOWEST)
		return 0.0f;
	if (x > EXP_HIGHEST)
		return __uint_as_float(0x7f800000u);
	if (x != x)
		return x;
	float n = rintf(x * EXP_LOG2E);
	float r = fmaf(n, -EXP_LN2_LOW, fmaf(n, -EXP_LN2_HIGH, x));
	float p = EXP_C0;
	p = fmaf(p, r, EXP_C1);
	p = fmaf(p, r, EXP_C2);
	p = fmaf(p, r, EXP_C3);
	p = fmaf(p, r, EXP_C4);
	p = fmaf(p, r, EXP_C5);
	p = fmaf(p, r * r, r) + 1.0f;
	int half = (int)n / 2, rest = (int)n - half;
	return p * __uint_as_float((uint32_t)(half + 127) << 23) * __uint_as_float((uint32_t)(rest + 127) << 23);
}

/* ---- weights to pairs of bf16, exactly ---- */

/* a b + c of pairs of bf16, rounded once. */
static __device__ __forceinline__ uint32_t bf16_pair_fma(uint32_t a, uint32_t b, uint32_t c)
{
#ifdef __CUDACC__
	uint32_t pair;
	asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pair) : "r"(a), "r"(b), "r"(c));
	return pair;
#else
	const float2 x = bf16_pair_widen(a), y = bf16_pair_widen(b), z = bf16_pair_widen(c);
	return bf16_pair(fmaf(x.x, y.x, z.x), fmaf(x.y, y.y, z.y));
#endif
}

/* Four E4M3 codes to pairs of bf16. PRECOND: none is NaN. */
static __device__ __forceinline__ void e4m3_quad_widen(uint32_t codes, uint32_t pair[2])
{
	const uint32_t two_to_120 = 0x7b807b80u, minus_zero = 0x80008000u;
#pragma unroll
	for (int i = 0; i < 2; i++) {
		const uint32_t both = codes >> 16 * i;
		const uint32_t high = (both & 0xffu) << 8 | (both & 0xff00u) << 16; /* a code on top of each half */
		/* exponent and mantissa where bf16 has them; its exponent counts from 127, not 7 */
		const uint32_t bits = (high & 0x80008000u) | (high >> 4 & 0x07f007f0u);
		pair[i] = bf16_pair_fma(bits, two_to_120, minus_zero);
	}
}

/* A lane's word of INT4 (weight_layout.h) to its pairs of q in bf16. */
static __device__ __forceinline__ void int4_octet_widen(uint32_t word, uint32_t pair[4])
{
	const uint32_t one = 0x3f803f80u, minus_136 = 0xc308c308u;
#pragma unroll
	for (int i = 0; i < 4; i++) /* 128 + (q + 8), as bf16 holds it */
		pair[i] = bf16_pair_fma((word >> 4 * i & 0x000f000fu) | 0x43004300u, one, minus_136);
}

/* ---- matrix product of a warp ---- */

/* c += a b for a 16 x 16 tile a and a 16 x 8 tile b, all 32 lanes together. Lane = 4 g + t holds, as pairs of bf16
 * along k,
 *   a[0]: row g, k 2t;  a[1]: row g + 8, k 2t;  a[2]: row g, k 2t + 8;  a[3]: row g + 8, k 2t + 8
 *   b[0]: column g, k 2t;  b[1]: column g, k 2t + 8
 *   c[0], c[1]: row g, columns 2t, 2t + 1;  c[2], c[3]: row g + 8. */
static __device__ __forceinline__ void mma_bf16(float c[4], const uint32_t a[4], const uint32_t b[2])
{
#ifdef __CUDACC__
	asm volatile(
		"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
		"{%0, %1, %2, %3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
	struct fragments {
		uint32_t a[4], b[2];
	} own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
	const cuda_on_cpu_gathered<fragments> warp = cuda_on_cpu_gather(own);
	const int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
	float2 left[2][8], right[2][8]; /* two rows of a, two columns of b, in pairs along k */
	for (int pair = 0; pair < 8; pair++) {
		const fragments row = warp[4 * g + pair % 4];
		for (int i = 0; i < 2; i++) {
			left[i][pair] = bf16_pair_widen(row.a[i + pair / 4 * 2]);
			right[i][pair] = bf16_pair_widen(warp[4 * (2 * t + i) + pair % 4].b[pair / 4]);
		}
	}
	for (int i = 0; i < 4; i++) {
		for (int pair = 0; pair < 8; pair++) {
			c[i] = fmaf(left[i / 2][pair].x, right[i % 2][pair].x, c[i]);
			c[i] = fmaf(left[i / 2][pair].y, right[i % 2][pair].y, c[i]);
		}
	}
#endif
}

/* mma_e4m3 in two steps of bf16, which holds every code: where a lane has four codes, two pairs. */
static __device__ __forceinline__ void mma_e4m3_widened(float c[4], const uint32_t a[4], const uint32_t b[2])
{
#pragma unroll
	for (int step = 0; step < 2; step++) {
		uint32_t left[2][2], right[2]; /* [row][pair] */
		e4m3_quad_widen(b[step], right);
#pragma unroll
		for (int row = 0; row < 2; row++) { /* may be NaN, unlike weights */
#pragma unroll
			for (int i = 0; i < 2; i++) {
				const float2 pair = e4m3_pair_widen((uint16_t)(a[2 * step + row] >> 16 * i));
				left[row][i] = bf16_pair(pair.x, pair.y);
			}
		}
		const uint32_t both[4] = {left[0][0], left[1][0], left[0][1], left[1][1]};
		mma_bf16(c, both, right);
	}
}

/* c += a b for a 16 x 32 tile a and a 32 x 8 tile b of E4M3 codes, from compute capability 8.9 on. As mma_bf16, with
 * four codes where that has a pair:
 *   a[0]: row g, k 4t;  a[1]: row g + 8, k 4t;  a[2]: row g, k 4t + 16;  a[3]: row g + 8, k 4t + 16
 *   b[0]: column g, k 4t;  b[1]: column g, k 4t + 16
 * The tensor core adds in fewer bits than f32 has: c must not stay in it for long. */
static __device__ __forceinline__ void mma_e4m3(float c[4], const uint32_t a[4], const uint32_t b[2])
{
#ifdef E4M3_INSTRUCTIONS
	asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
		     "{%8, %9}, {%0, %1, %2, %3};"
		     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif defined(__CUDACC__)
	mma_e4m3_widened(c, a, b);
#else
	struct fragments {
		uint32_t a[4], b[2];
	} own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
	const cuda_on_cpu_gathered<fragments> warp = cuda_on_cpu_gather(own);
	const int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
	float left[2][32], right[2][32]; /* two rows of a, two columns of b */
	for (int k = 0; k < 32; k++) {
		const int half = k / 16, from = k % 16 / 4, shift = k % 4 * 8;
		for (int i = 0; i < 2; i++) {
			left[i][k] = e4m3_widen(warp[4 * g + from].a[i + 2 * half] >> shift & 0xffu);
			right[i][k] = e4m3_widen(warp[4 * (2 * t + i) + from].b[half] >> shift & 0xffu);
		}
	}
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 32; k++)
			c[i] = fmaf(left[i / 2][k], right[i % 2][k], c[i]);
#endif
}

/* ---- copies that travel while the thread goes on ---- */

/* 16 bytes from global to shared memory, zeros where !valid (from is then not read, but must be an address). Both
 * are aligned. */
static __device__ __forceinline__ void copy_async(void *to, const void *from, bool valid)
{
#ifdef __CUDACC__
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
		     :
		     : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "r"(valid ? 16 : 0)
		     : "memory");
#else
	cuda_on_cpu_copy_async(to, from, 16, valid ? 16 : 0);
#endif
}

/* Ends the group of this thread's copies since the last commit. */
static __device__ __forceinline__ void copy_commit(void)
{
#ifdef __CUDACC__
	asm volatile("cp.async.commit_group;" ::: "memory");
#else
	cuda_on_cpu_copy_commit();
#endif
}

/* Waits until at most PENDING of this thread's newest groups are under way. Others see the data after a barrier. */
template <int PENDING> static __device__ __forceinline__ void copy_wait(void)
{
#ifdef __CUDACC__
	asm volatile("cp.async.wait_group %0;" : : "n"(PENDING) : "memory");
#else
	cuda_on_cpu_copy_wait(PENDING);
#endif
}

#endif
