/* The block formats of GGUF files: 32 or 256 values that share scales. Every product and sum is rounded to float
 * where the formats' own definition rounds it, so that two programs which follow it agree to the last bit. */
#ifndef ASSAY_ENGINE_MODEL_GGUF_BLOCKS_H
#define ASSAY_ENGINE_MODEL_GGUF_BLOCKS_H

#include <stdint.h>

#include "engine/model/tensor.h"

/* Widens n values of data that need not be aligned. PRECOND: a block type; n is a multiple of its block. */
void gguf_blocks_to_float(enum tensor_type type, const uint8_t *data, uint64_t n, float *out);

#endif
