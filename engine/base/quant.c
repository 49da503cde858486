#include "engine/base/quant.h"

#include <math.h>

#include "engine/base/number.h"

float row_amax(const float *row, int n)
{
	/* Without its sign a float orders as its bits do, infinity last but NaN, and such a loop becomes vector code. */
	int32_t amax = 0;
	for (int i = 0; i < n; i++) {
		int32_t magnitude = (int32_t)(float_bits(row[i]) & 0x7fffffffU);
		amax = magnitude > amax ? magnitude : amax;
	}
	return float_from_bits((uint32_t)amax);
}

float e4m3_scale(float amax)
{
	float scale = amax / 448.0f;
	return scale == 0.0f ? 1.0f : scale; /* amax 0, or so small that the quotient is */
}

void e4m3_quantize_row(const float *row, int n, float scale, uint8_t *codes)
{
	for (int i = 0; i < n; i++)
		codes[i] = float_to_e4m3(row[i] / scale);
}

/* q + 8 of one value. Clamping before rounding gives the same, and then a sum with 1.5 * 2^23 rounds: to an integer, ties
 * to even. A NaN or infinite weight gives NaN here and code 0: its scale carries it on. */
static uint8_t int4_code(float value, float scale)
{
	float q = value / scale;
	q = q < -8.0f ? -8.0f : q > 7.0f ? 7.0f : q;
	q = (q + 0x1.8p23f) - 0x1.8p23f;
	return (uint8_t)((isnan(q) ? 0 : (int)q) + 8);
}

void int4_quantize_row(const float *row, int n, int group, uint8_t *q8, uint16_t *scales)
{
	for (int start = 0, g = 0; start < n; start += group, g++) {
		int count = n - start < group ? n - start : group;
		scales[g] = float_to_bf16(row_amax(row + start, count) / 7.0f);
		float scale = bf16_to_float(scales[g]);
		for (int i = start; i < start + count; i++)
			q8[i] = scale == 0.0f ? 8 : int4_code(row[i], scale);
	}
}
