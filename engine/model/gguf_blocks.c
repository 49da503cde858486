#include "engine/model/gguf_blocks.h"

#include <assert.h>
#include <string.h>

#include "engine/base/number.h"

enum { SMALL = 32, LARGE = 256, HALF = SMALL / 2 };

static float read_f16(const uint8_t *at)
{
	uint16_t code;
	memcpy(&code, at, sizeof(code));
	return f16_to_float(code);
}

/* ---- Blocks of 32 ---- */

/* d, int8[32]: w = d q */
static void q8_0(const uint8_t *block, float *out)
{
	float d = read_f16(block);
	const uint8_t *codes = block + 2;
	for (int i = 0; i < SMALL; i++)
		out[i] = (float)(int8_t)codes[i] * d;
}

/* d, nibbles[16]: the low ones are values 0..15, the high ones 16..31; w = d (q - 8) */
static void q4_0(const uint8_t *block, float *out)
{
	float d = read_f16(block);
	const uint8_t *nibbles = block + 2;
	for (int i = 0; i < HALF; i++) {
		out[i] = d * (float)((nibbles[i] & 15) - 8);
		out[i + HALF] = d * (float)((nibbles[i] >> 4) - 8);
	}
}

/* d, m, nibbles[16]: w = d q + m */
static void q4_1(const uint8_t *block, float *out)
{
	float d = read_f16(block), m = read_f16(block + 2);
	const uint8_t *nibbles = block + 4;
	for (int i = 0; i < HALF; i++) {
		out[i] = d * (float)(nibbles[i] & 15) + m;
		out[i + HALF] = d * (float)(nibbles[i] >> 4) + m;
	}
}

/* Codes of 5 bits: bit i of the word is bit 4 of value i. */
static void five_bits(const uint8_t *word, const uint8_t *nibbles, int out[SMALL])
{
	uint32_t high;
	memcpy(&high, word, sizeof(high));
	for (int i = 0; i < HALF; i++) {
		out[i] = (nibbles[i] & 15) | (int)((high >> i & 1) << 4);
		out[i + HALF] = (nibbles[i] >> 4) | (int)((high >> (i + HALF) & 1) << 4);
	}
}

/* d, word, nibbles[16]: w = d (q - 16) */
static void q5_0(const uint8_t *block, float *out)
{
	float d = read_f16(block);
	int codes[SMALL];
	five_bits(block + 2, block + 6, codes);
	for (int i = 0; i < SMALL; i++)
		out[i] = d * (float)(codes[i] - 16);
}

/* d, m, word, nibbles[16]: w = d q + m */
static void q5_1(const uint8_t *block, float *out)
{
	float d = read_f16(block), m = read_f16(block + 2);
	int codes[SMALL];
	five_bits(block + 4, block + 8, codes);
	for (int i = 0; i < SMALL; i++)
		out[i] = d * (float)codes[i] + m;
}

/* ---- Blocks of 256 ---- */

/* Scale and minimum of sub-block j of 8: 6 bits each, in 12 bytes. */
static void scale_and_minimum(const uint8_t *packed, int j, float *scale, float *minimum)
{
	if (j < 4) {
		*scale = (float)(packed[j] & 63);
		*minimum = (float)(packed[j + 4] & 63);
	} else {
		*scale = (float)((packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4);
		*minimum = (float)((packed[j + 4] >> 4) | (packed[j] >> 6) << 4);
	}
}

/* d, m, 12 bytes of scales, nibbles[128]: 32 bytes hold sub-blocks 2i (low) and 2i + 1 (high); w = (d s) q - (m n) */
static void q4_k(const uint8_t *block, float *out)
{
	float d = read_f16(block), m = read_f16(block + 2);
	for (int j = 0; j < LARGE / SMALL; j++) {
		const uint8_t *nibbles = block + 16 + j / 2 * SMALL;
		int shift = j % 2 * 4;
		float scale, minimum;
		scale_and_minimum(block + 4, j, &scale, &minimum);
		scale *= d;
		minimum *= m;
		for (int i = 0; i < SMALL; i++)
			*out++ = scale * (float)(nibbles[i] >> shift & 15) - minimum;
	}
}

/* As q4_k, with 32 bytes before the nibbles: bit j of byte i is bit 4 of value i of sub-block j. */
static void q5_k(const uint8_t *block, float *out)
{
	float d = read_f16(block), m = read_f16(block + 2);
	const uint8_t *high = block + 16;
	for (int j = 0; j < LARGE / SMALL; j++) {
		const uint8_t *nibbles = block + 48 + j / 2 * SMALL;
		int shift = j % 2 * 4;
		float scale, minimum;
		scale_and_minimum(block + 4, j, &scale, &minimum);
		scale *= d;
		minimum *= m;
		for (int i = 0; i < SMALL; i++)
			*out++ = scale * (float)((nibbles[i] >> shift & 15) | (high[i] >> j & 1) << 4) - minimum;
	}
}

/* nibbles[128], pairs of bits[64], int8 scales[16], d: w = (d s) (q - 32). Each half of 128 values is four runs of
 * 32: run r takes the low (r < 2) or high nibbles of 32 bytes and bits 2r, 2r + 1 of the 32 bytes of pairs. */
static void q6_k(const uint8_t *block, float *out)
{
	const uint8_t *scales = block + 192;
	float d = read_f16(block + 208);
	for (int run = 0; run < LARGE / SMALL; run++) {
		int half = run / 4, r = run % 4, shift = r / 2 * 4;
		const uint8_t *nibbles = block + half * 64 + r % 2 * SMALL, *pairs = block + 128 + half * SMALL;
		for (int i = 0; i < SMALL; i++) {
			float scale = d * (float)(int8_t)scales[run * 2 + i / HALF];
			int code = (nibbles[i] >> shift & 15) | (pairs[i] >> 2 * r & 3) << 4;
			*out++ = scale * (float)(code - 32);
		}
	}
}

void gguf_blocks_to_float(enum tensor_type type, const uint8_t *data, uint64_t n, float *out)
{
	static void (*const widen[TENSOR_TYPE_COUNT])(const uint8_t *block, float *out) = {
		[TENSOR_Q4_0] = q4_0,
		[TENSOR_Q4_1] = q4_1,
		[TENSOR_Q5_0] = q5_0,
		[TENSOR_Q5_1] = q5_1,
		[TENSOR_Q8_0] = q8_0,
		[TENSOR_Q4_K] = q4_k,
		[TENSOR_Q5_K] = q5_k,
		[TENSOR_Q6_K] = q6_k,
	};
	uint64_t block = tensor_type_block(type);

	assert(widen[type] && n % block == 0);
	for (uint64_t done = 0; done < n; done += block, data += tensor_type_size(type))
		widen[type](data, out + done);
}
