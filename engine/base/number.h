/* Number formats and their conversions (NUMERICS section 1). All exact or rounded to nearest even; NaN stays NaN. */
#ifndef ASSAY_ENGINE_BASE_NUMBER_H
#define ASSAY_ENGINE_BASE_NUMBER_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t float_bits(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static inline float float_from_bits(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static inline float bf16_to_float(uint16_t code)
{
	return float_from_bits((uint32_t)code << 16);
}

static inline uint16_t float_to_bf16(float value)
{
	uint32_t bits = float_bits(value);
	if ((bits & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)((bits >> 16) | 0x0040u); /* quiet, so that rounding cannot turn it into infinity */
	return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static inline float f16_to_float(uint16_t code)
{
	uint32_t sign = (uint32_t)(code & 0x8000u) << 16, exponent = (code >> 10) & 31u, mantissa = code & 0x3ffu;
	if (exponent == 31)
		return float_from_bits(sign | 0x7f800000u | mantissa << 13);
	if (exponent == 0) { /* zero and subnormals: mantissa * 2^-24, exact in float */
		float magnitude = (float)mantissa * 0x1p-24f;
		return sign ? -magnitude : magnitude;
	}
	return float_from_bits(sign | (exponent + 112u) << 23 | mantissa << 13);
}

/* E4M3 (fn): bias 7, no infinity, NaN 0x7f and 0xff, largest 448. */
static inline float e4m3_to_float(uint8_t code)
{
	uint32_t sign = (uint32_t)(code & 0x80u) << 24, magnitude = code & 0x7fu;
	if (magnitude == 0x7f)
		return float_from_bits(sign | 0x7fc00000u);
	if (magnitude < 8) { /* zero and subnormals: steps of 2^-9 */
		float value = (float)magnitude * 0x1p-9f;
		return sign ? -value : value;
	}
	return float_from_bits(sign | (magnitude + (120u << 3)) << 20);
}

/* Rounds to nearest even and saturates to +-448. */
static inline uint8_t float_to_e4m3(float value)
{
	uint32_t bits = float_bits(value), sign = (bits >> 24) & 0x80u, magnitude = bits & 0x7fffffffu;
	if (magnitude > 0x7f800000u)
		return (uint8_t)(sign | 0x7fu);
	if (magnitude >= 0x43e00000u) /* 448 and above */
		return (uint8_t)(sign | 0x7eu);
	if (magnitude < 0x3c800000u) /* below 2^-6: a multiple of 2^-9; 8 steps are the smallest normal */
		return (uint8_t)(sign | (uint32_t)rintf(float_from_bits(magnitude) * 512.0f));
	magnitude += 0x7ffffu + ((magnitude >> 20) & 1u);
	return (uint8_t)(sign | ((magnitude >> 20) - (120u << 3)));
}

/* e4m3_to_float(float_to_e4m3(value)) without the code between, and without a branch, so that loops over it become
 * vector code. */
static inline float e4m3_round(float value)
{
	uint32_t bits = float_bits(value), sign = bits & 0x80000000u, magnitude = bits & 0x7fffffffu;
	uint32_t rounded = (magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) & 0xfff00000u;
	/* adding 2^14 to a value below 2^-6 leaves steps of 2^-9 */
	float small = (float_from_bits(magnitude) + 0x1p14f) - 0x1p14f;
	uint32_t result = magnitude < 0x3c800000u ? float_bits(small) : rounded;
	result = magnitude >= 0x43e00000u ? 0x43e00000u : result;
	result = magnitude > 0x7f800000u ? 0x7fc00000u : result;
	return float_from_bits(sign | result);
}

/* E5M2: bias 15, infinity 0x7c, as the top byte of a half. */
static inline float e5m2_to_float(uint8_t code)
{
	return f16_to_float((uint16_t)(code << 8));
}

#endif
