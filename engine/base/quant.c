#include "engine/base/quant.h"

#include <math.h>

#include "engine/base/number.h"

float row_amax(const float *row, int n)
{
	float amax = 0.0f;
	for (int i = 0; i < n; i++) {
		float magnitude = fabsf(row[i]);
		if (!(magnitude <= amax)) /* takes NaN, and keeps it: no comparison with NaN is true */
			amax = magnitude;
		if (isnan(amax))
			return amax;
	}
	return amax;
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

void int4_quantize_row(const float *row, int n, int group, uint8_t *q8, uint16_t *scales)
{
	for (int start = 0, g = 0; start < n; start += group, g++) {
		int count = n - start < group ? n - start : group;
		scales[g] = float_to_bf16(row_amax(row + start, count) / 7.0f);
		float scale = bf16_to_float(scales[g]);
		for (int i = start; i < start + count; i++) {
			float q = scale == 0.0f ? 0.0f : rintf(row[i] / scale);
			if (isnan(q)) /* a NaN or infinite weight: its scale carries it on */
				q = 0.0f;
			q8[i] = (uint8_t)((int)(q < -8.0f ? -8.0f : q > 7.0f ? 7.0f : q) + 8);
		}
	}
}
