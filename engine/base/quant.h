/* Quantising rows: the definitions of the weight and activation formats (NUMERICS sections 1 and 2). */
#ifndef ASSAY_ENGINE_BASE_QUANT_H
#define ASSAY_ENGINE_BASE_QUANT_H

#include <stdint.h>

/* Largest magnitude of row[n]; NaN if any is NaN; 0 for n = 0. */
float row_amax(const float *row, int n);

/* Dynamic E4M3 scale for a row of that amax: amax / 448, and 1 where that is 0 in float. */
float e4m3_scale(float amax);

/* codes[i] = E4M3(row[i] / scale). */
void e4m3_quantize_row(const float *row, int n, float scale, uint8_t *codes);

/* Symmetric INT4: per group of `group` inputs (the last may be shorter) scale = bf16(amax / 7),
 * q = clamp(rint(w / scale), -8, 7), 0 where the scale is 0 or w / scale is NaN.
 * q8: [n], q + 8 in 0..15. scales: [ceil(n / group)], bf16. */
void int4_quantize_row(const float *row, int n, int group, uint8_t *q8, uint16_t *scales);

#endif
