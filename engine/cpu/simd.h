/* Vectors of 8 and 16 floats over three instruction sets; each operation gives the same bits in all of them. A file that includes
 * this is compiled once per set (meson.build), with KERNEL_ISA naming it. */
#ifndef ASSAY_ENGINE_CPU_SIMD_H
#define ASSAY_ENGINE_CPU_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "engine/base/exp_constants.h"
#include "engine/base/number.h"
#include "engine/cpu/ref.h"

#define SIMD_INLINE static inline __attribute__((always_inline))

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>

typedef __m256 f32x8;

SIMD_INLINE f32x8 v8_set(float x) { return _mm256_set1_ps(x); }
SIMD_INLINE f32x8 v8_load(const float *p) { return _mm256_loadu_ps(p); }
SIMD_INLINE void v8_store(float *p, f32x8 x) { _mm256_storeu_ps(p, x); }
SIMD_INLINE f32x8 v8_add(f32x8 a, f32x8 b) { return _mm256_add_ps(a, b); }
SIMD_INLINE f32x8 v8_sub(f32x8 a, f32x8 b) { return _mm256_sub_ps(a, b); }
SIMD_INLINE f32x8 v8_mul(f32x8 a, f32x8 b) { return _mm256_mul_ps(a, b); }
SIMD_INLINE f32x8 v8_div(f32x8 a, f32x8 b) { return _mm256_div_ps(a, b); }
SIMD_INLINE f32x8 v8_fma(f32x8 a, f32x8 b, f32x8 c) { return _mm256_fmadd_ps(a, b, c); }
/* a > b ? a : b, which takes b where a is NaN */
SIMD_INLINE f32x8 v8_max(f32x8 a, f32x8 b) { return _mm256_max_ps(a, b); }

/* (l0+l4, l1+l5, l2+l6, l3+l7): the first step of lane_tree. */
SIMD_INLINE __m128 v8_fold(f32x8 x)
{
	return _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
}

/* lane_tree of ref.h. */
SIMD_INLINE float v8_tree(f32x8 x)
{
	__m128 four = v8_fold(x);
	__m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
	return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

/* lane_tree of four vectors at once. */
SIMD_INLINE void v8_tree4(f32x8 a, f32x8 b, f32x8 c, f32x8 d, float out[4])
{
	__m128 r0 = v8_fold(a), r1 = v8_fold(b), r2 = v8_fold(c), r3 = v8_fold(d);
	_MM_TRANSPOSE4_PS(r0, r1, r2, r3);
	_mm_storeu_ps(out, _mm_add_ps(_mm_add_ps(r0, r2), _mm_add_ps(r1, r3)));
}

/* exp_ref of 8 values. */
SIMD_INLINE f32x8 v8_exp(f32x8 x)
{
	const __m256 lowest = v8_set(EXP_LOWEST), highest = v8_set(EXP_HIGHEST);
	__m256 n = _mm256_round_ps(v8_mul(x, v8_set(EXP_LOG2E)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	__m256 r = v8_fma(n, v8_set(-EXP_LN2_LOW), v8_fma(n, v8_set(-EXP_LN2_HIGH), x));
	__m256 p = v8_set(EXP_C0);
	p = v8_fma(p, r, v8_set(EXP_C1));
	p = v8_fma(p, r, v8_set(EXP_C2));
	p = v8_fma(p, r, v8_set(EXP_C3));
	p = v8_fma(p, r, v8_set(EXP_C4));
	p = v8_fma(p, r, v8_set(EXP_C5));
	p = v8_add(v8_fma(p, v8_mul(r, r), r), v8_set(1.0f));
	/* (int)n / 2 rounds towards zero, as in C */
	__m256i k = _mm256_cvtps_epi32(n);
	__m256i half = _mm256_srai_epi32(_mm256_add_epi32(k, _mm256_srli_epi32(k, 31)), 1), rest = _mm256_sub_epi32(k, half);
	const __m256i bias = _mm256_set1_epi32(127);
	__m256 first = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
	__m256 second = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
	p = v8_mul(v8_mul(p, first), second);
	p = _mm256_blendv_ps(p, _mm256_setzero_ps(), _mm256_cmp_ps(x, lowest, _CMP_LT_OQ));
	p = _mm256_blendv_ps(p, v8_set(INFINITY), _mm256_cmp_ps(x, highest, _CMP_GT_OQ));
	return _mm256_blendv_ps(p, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

SIMD_INLINE f32x8 v8_from_bf16(const uint16_t *p)
{
	__m128i codes = _mm_loadu_si128((const __m128i *)(const void *)p);
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(codes), 16));
}

/* E4M3 bits moved to where a half has them are 2^-8 of the value, subnormals included; the NaN code apart. */
SIMD_INLINE f32x8 v8_from_e4m3_codes(__m128i codes)
{
	__m128i wide = _mm_cvtepu8_epi16(codes);
	__m128i magnitude = _mm_and_si128(wide, _mm_set1_epi16(0x7f));
	__m128i sign = _mm_slli_epi16(_mm_and_si128(wide, _mm_set1_epi16(0x80)), 8);
	__m128i nan = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f));
	__m128i half = _mm_or_si128(_mm_or_si128(_mm_slli_epi16(magnitude, 7), sign), _mm_and_si128(nan, _mm_set1_epi16(0x7e00)));
	return v8_mul(_mm256_cvtph_ps(half), v8_set(256.0f));
}

SIMD_INLINE f32x8 v8_from_e4m3(const uint8_t *p)
{
	return v8_from_e4m3_codes(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

#else /* plain C: any machine */

typedef struct {
	float lane[8];
} f32x8;

#define V8_EACH(expression)                    \
	f32x8 out;                             \
	for (int i = 0; i < 8; i++)            \
		out.lane[i] = (expression);    \
	return out

SIMD_INLINE f32x8 v8_set(float x) { V8_EACH(x); }
SIMD_INLINE f32x8 v8_load(const float *p) { V8_EACH(p[i]); }
SIMD_INLINE void v8_store(float *p, f32x8 x) { memcpy(p, x.lane, sizeof x.lane); }
SIMD_INLINE f32x8 v8_add(f32x8 a, f32x8 b) { V8_EACH(a.lane[i] + b.lane[i]); }
SIMD_INLINE f32x8 v8_sub(f32x8 a, f32x8 b) { V8_EACH(a.lane[i] - b.lane[i]); }
SIMD_INLINE f32x8 v8_mul(f32x8 a, f32x8 b) { V8_EACH(a.lane[i] * b.lane[i]); }
SIMD_INLINE f32x8 v8_div(f32x8 a, f32x8 b) { V8_EACH(a.lane[i] / b.lane[i]); }
SIMD_INLINE f32x8 v8_fma(f32x8 a, f32x8 b, f32x8 c) { V8_EACH(fmaf(a.lane[i], b.lane[i], c.lane[i])); }
SIMD_INLINE f32x8 v8_max(f32x8 a, f32x8 b) { V8_EACH(a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]); }
SIMD_INLINE float v8_tree(f32x8 x) { return lane_tree(x.lane); }
SIMD_INLINE void v8_tree4(f32x8 a, f32x8 b, f32x8 c, f32x8 d, float out[4])
{
	out[0] = lane_tree(a.lane), out[1] = lane_tree(b.lane), out[2] = lane_tree(c.lane), out[3] = lane_tree(d.lane);
}
SIMD_INLINE f32x8 v8_exp(f32x8 x) { V8_EACH(exp_ref(x.lane[i])); }
SIMD_INLINE f32x8 v8_from_bf16(const uint16_t *p) { V8_EACH(bf16_to_float(p[i])); }
SIMD_INLINE f32x8 v8_from_e4m3(const uint8_t *p) { V8_EACH(e4m3_to_float(p[i])); }

#endif

/* ---- 16 lanes: one panel of a packed matrix ---- */

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)

typedef __m512 f32x16;

SIMD_INLINE f32x16 v16_set(float x) { return _mm512_set1_ps(x); }
SIMD_INLINE f32x16 v16_load(const float *p) { return _mm512_loadu_ps(p); }
SIMD_INLINE void v16_store(float *p, f32x16 x) { _mm512_storeu_ps(p, x); }
SIMD_INLINE f32x16 v16_add(f32x16 a, f32x16 b) { return _mm512_add_ps(a, b); }
SIMD_INLINE f32x16 v16_mul(f32x16 a, f32x16 b) { return _mm512_mul_ps(a, b); }
SIMD_INLINE f32x16 v16_fma(f32x16 a, f32x16 b, f32x16 c) { return _mm512_fmadd_ps(a, b, c); }
SIMD_INLINE f32x16 v16_from_bf16(const uint16_t *p)
{
	__m256i codes = _mm256_loadu_si256((const __m256i *)(const void *)p);
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(codes), 16));
}
/* Without the NaN code, which packing refuses. The byte, sign-extended and moved by 7, is a half of 2^-8 of the value once the second
 * sign bit is gone. */
SIMD_INLINE f32x16 v16_from_e4m3(const uint8_t *p)
{
	__m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p));
	__m256i half = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16((short)0xbfff));
	return _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0f));
}

typedef __m512i u32x16;

SIMD_INLINE u32x16 v16_words(const uint8_t *p) { return _mm512_loadu_si512(p); }
/* q of nibble j in each lane: the permutation looks at the lowest four bits alone. */
SIMD_INLINE f32x16 v16_nibble(u32x16 words, int j)
{
	const __m512 values = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
	return _mm512_permutexvar_ps(_mm512_srli_epi32(words, (unsigned)(4 * j)), values);
}

#else

typedef struct {
	f32x8 low, high;
} f32x16;

SIMD_INLINE f32x16 v16_set(float x) { return (f32x16){v8_set(x), v8_set(x)}; }
SIMD_INLINE f32x16 v16_load(const float *p) { return (f32x16){v8_load(p), v8_load(p + 8)}; }
SIMD_INLINE void v16_store(float *p, f32x16 x)
{
	v8_store(p, x.low);
	v8_store(p + 8, x.high);
}
SIMD_INLINE f32x16 v16_add(f32x16 a, f32x16 b) { return (f32x16){v8_add(a.low, b.low), v8_add(a.high, b.high)}; }
SIMD_INLINE f32x16 v16_mul(f32x16 a, f32x16 b) { return (f32x16){v8_mul(a.low, b.low), v8_mul(a.high, b.high)}; }
SIMD_INLINE f32x16 v16_fma(f32x16 a, f32x16 b, f32x16 c)
{
	return (f32x16){v8_fma(a.low, b.low, c.low), v8_fma(a.high, b.high, c.high)};
}
SIMD_INLINE f32x16 v16_from_bf16(const uint16_t *p) { return (f32x16){v8_from_bf16(p), v8_from_bf16(p + 8)}; }

#if defined(__AVX2__)

SIMD_INLINE f32x8 v8_from_e4m3_half(__m128i half)
{
	return v8_mul(_mm256_cvtph_ps(_mm_and_si128(half, _mm_set1_epi16((short)0xbfff))), v8_set(256.0f));
}
/* Without the NaN code, which packing refuses. The byte, sign-extended and moved by 7, is a half of 2^-8 of the value once the second
 * sign bit is gone. */
SIMD_INLINE f32x16 v16_from_e4m3(const uint8_t *p)
{
	__m256i wide = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p)), 7);
	return (f32x16){v8_from_e4m3_half(_mm256_castsi256_si128(wide)), v8_from_e4m3_half(_mm256_extracti128_si256(wide, 1))};
}

typedef struct {
	__m256i low, high;
} u32x16;

SIMD_INLINE u32x16 v16_words(const uint8_t *p)
{
	return (u32x16){_mm256_loadu_si256((const __m256i *)(const void *)p), _mm256_loadu_si256((const __m256i *)(const void *)(p + 32))};
}
/* 2^23 with q + 8 in its lowest bits, less 2^23 + 8. */
SIMD_INLINE f32x8 v8_nibble(__m256i words, int j)
{
	__m256i q8 = _mm256_and_si256(_mm256_srli_epi32(words, 4 * j), _mm256_set1_epi32(15));
	return v8_sub(_mm256_castsi256_ps(_mm256_or_si256(q8, _mm256_set1_epi32(0x4b000000))), v8_set(8388616.0f));
}
SIMD_INLINE f32x16 v16_nibble(u32x16 words, int j) { return (f32x16){v8_nibble(words.low, j), v8_nibble(words.high, j)}; }

#else

SIMD_INLINE f32x16 v16_from_e4m3(const uint8_t *p) { return (f32x16){v8_from_e4m3(p), v8_from_e4m3(p + 8)}; }

typedef struct {
	uint32_t lane[16];
} u32x16;

SIMD_INLINE u32x16 v16_words(const uint8_t *p)
{
	u32x16 words;
	memcpy(&words, p, sizeof words);
	return words;
}
SIMD_INLINE f32x16 v16_nibble(u32x16 words, int j)
{
	f32x16 out;
	for (int i = 0; i < 16; i++)
		(i < 8 ? out.low.lane : out.high.lane)[i % 8] = (float)((int)(words.lane[i] >> (4 * j) & 15) - 8);
	return out;
}

#endif

#endif

#endif
