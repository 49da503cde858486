#include "engine/model/tensor.h"

#include <assert.h>
#include <string.h>

#include "engine/base/error.h"
#include "engine/base/number.h"
#include "engine/model/gguf_blocks.h"

/* Elements are read as they lie in the file, and the files are little endian. */
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are read in place");

static const struct {
	const char *name;
	size_t size, block;
} types[TENSOR_TYPE_COUNT] = {
	[TENSOR_F64] = {"F64", 8, 1},
	[TENSOR_F32] = {"F32", 4, 1},
	[TENSOR_F16] = {"F16", 2, 1},
	[TENSOR_BF16] = {"BF16", 2, 1},
	[TENSOR_F8_E4M3] = {"F8_E4M3", 1, 1},
	[TENSOR_F8_E5M2] = {"F8_E5M2", 1, 1},
	[TENSOR_I64] = {"I64", 8, 1},
	[TENSOR_I32] = {"I32", 4, 1},
	[TENSOR_I16] = {"I16", 2, 1},
	[TENSOR_I8] = {"I8", 1, 1},
	[TENSOR_U64] = {"U64", 8, 1},
	[TENSOR_U32] = {"U32", 4, 1},
	[TENSOR_U16] = {"U16", 2, 1},
	[TENSOR_U8] = {"U8", 1, 1},
	[TENSOR_BOOL] = {"BOOL", 1, 1},
	[TENSOR_Q4_0] = {"Q4_0", 18, 32},
	[TENSOR_Q4_1] = {"Q4_1", 20, 32},
	[TENSOR_Q5_0] = {"Q5_0", 22, 32},
	[TENSOR_Q5_1] = {"Q5_1", 24, 32},
	[TENSOR_Q8_0] = {"Q8_0", 34, 32},
	[TENSOR_Q4_K] = {"Q4_K", 144, 256},
	[TENSOR_Q5_K] = {"Q5_K", 176, 256},
	[TENSOR_Q6_K] = {"Q6_K", 210, 256},
};

size_t tensor_type_block(enum tensor_type type)
{
	assert(type < TENSOR_TYPE_COUNT);
	return types[type].block;
}

size_t tensor_type_size(enum tensor_type type)
{
	assert(type < TENSOR_TYPE_COUNT);
	return types[type].size;
}

const char *tensor_type_name(enum tensor_type type)
{
	assert(type < TENSOR_TYPE_COUNT);
	return types[type].name;
}

/* The three below copy each element out of its bytes, because nothing aligns the data of a file. */
static void f64_to_floats(const uint8_t *from, uint64_t n, float *out)
{
	for (uint64_t i = 0; i < n; i++) {
		double value;
		memcpy(&value, from + i * sizeof(value), sizeof(value));
		out[i] = (float)value;
	}
}

static void f16_to_floats(const uint8_t *from, uint64_t n, float *out)
{
	for (uint64_t i = 0; i < n; i++) {
		uint16_t code;
		memcpy(&code, from + i * sizeof(code), sizeof(code));
		out[i] = f16_to_float(code);
	}
}

static void bf16_to_floats(const uint8_t *from, uint64_t n, float *out)
{
	for (uint64_t i = 0; i < n; i++) {
		uint16_t code;
		memcpy(&code, from + i * sizeof(code), sizeof(code));
		out[i] = bf16_to_float(code);
	}
}

int tensor_to_float(const struct tensor *t, uint64_t first, uint64_t n, float *out)
{
	assert(first <= t->count && n <= t->count - first);
	/* An empty tensor may have no data at all, and null is no argument of memcpy. */
	const uint8_t *from = n ? t->data + first / types[t->type].block * types[t->type].size : (const uint8_t *)"";
	assert(first % types[t->type].block == 0);
	if (t->type >= TENSOR_PLAIN_COUNT) {
		gguf_blocks_to_float(t->type, from, n, out);
		return 0;
	}
	switch (t->type) {
	case TENSOR_F64:
		f64_to_floats(from, n, out);
		break;
	case TENSOR_F32:
		memcpy(out, from, n * sizeof(float));
		break;
	case TENSOR_F16:
		f16_to_floats(from, n, out);
		break;
	case TENSOR_BF16:
		bf16_to_floats(from, n, out);
		break;
	case TENSOR_F8_E4M3:
		for (uint64_t i = 0; i < n; i++)
			out[i] = e4m3_to_float(from[i]);
		break;
	case TENSOR_F8_E5M2:
		for (uint64_t i = 0; i < n; i++)
			out[i] = e5m2_to_float(from[i]);
		break;
	default:
		return ERR_INPUT;
	}
	return 0;
}

bool tensor_is_bf16(const struct tensor *t)
{
	return t->type == TENSOR_BF16 || t->round_to_bf16;
}

static int64_t row_count(const struct tensor *t)
{
	return t->shape[0];
}

static uint64_t column_count(const struct tensor *t)
{
	assert(t->rank == 1 || t->rank == 2);
	return t->rank == 2 ? (uint64_t)t->shape[1] : 1;
}

/* Where the file has a row of the model: of each head's D rows, row s D/2 + i is there the row 2i + s. */
static int64_t row_in_file(const struct tensor *t, int64_t row)
{
	if (t->pair_heads == 0)
		return row;
	int64_t size = row_count(t) / t->pair_heads, half = size / 2, in_head = row % size;
	return row - in_head + 2 * (in_head % half) + in_head / half;
}

/* How many rows from this one on lie in the file one after the other. */
static int64_t run_length(const struct tensor *t, int64_t n)
{
	return t->pair_heads == 0 ? n : 1;
}

int tensor_rows_to_float(const struct tensor *t, int64_t first, int64_t n, float *out)
{
	uint64_t columns = column_count(t);

	assert(first >= 0 && n >= 0 && n <= row_count(t) - first);
	for (int64_t done = 0, run = run_length(t, n); done < n; done += run, out += (uint64_t)run * columns) {
		uint64_t values = (uint64_t)run * columns;
		TRY(tensor_to_float(t, (uint64_t)row_in_file(t, first + done) * columns, values, out));
		for (uint64_t i = 0; t->round_to_bf16 && i < values; i++)
			out[i] = bf16_to_float(float_to_bf16(out[i]));
	}
	return 0;
}

int tensor_rows_to_bf16(const struct tensor *t, int64_t first, int64_t n, float *row, uint16_t *out)
{
	uint64_t columns = column_count(t);

	assert(tensor_is_bf16(t) && first >= 0 && n >= 0 && n <= row_count(t) - first);
	for (int64_t i = 0; i < n; i++, out += columns) {
		uint64_t start = (uint64_t)row_in_file(t, first + i) * columns;
		if (t->type == TENSOR_BF16) {
			memcpy(out, t->data + start * sizeof(*out), columns * sizeof(*out));
			continue;
		}
		TRY(tensor_to_float(t, start, columns, row));
		for (uint64_t c = 0; c < columns; c++)
			out[c] = float_to_bf16(row[c]);
	}
	return 0;
}
