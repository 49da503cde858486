/* How the CUDA backend packs a matrix (struct weight), [rows, columns] = [outputs, inputs].
 *   BF16: [rows, stride] bf16 row-major, stride = columns rounded up to WEIGHT_K_TILE, zeros behind the columns;
 *         data is aligned to 16 bytes. */
#ifndef ASSAY_CUDA_WEIGHT_LAYOUT_H
#define ASSAY_CUDA_WEIGHT_LAYOUT_H

enum { WEIGHT_K_TILE = 32 }; /* inputs per step of a matrix product; a part of the sum is a whole number of them */

static inline int weight_stride_bf16(int columns)
{
	return (columns + WEIGHT_K_TILE - 1) / WEIGHT_K_TILE * WEIGHT_K_TILE;
}

#endif
