#include "engine/model/tensor.h"

#include <assert.h>
#include <string.h>

#include "engine/base/error.h"
#include "engine/base/number.h"

/* Elements are read as they lie in the file, and safetensors files are little endian. */
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are read in place");

static const struct {
	const char *name;
	size_t size;
} types[TENSOR_TYPE_COUNT] = {
	[TENSOR_F64] = {"F64", 8},
	[TENSOR_F32] = {"F32", 4},
	[TENSOR_F16] = {"F16", 2},
	[TENSOR_BF16] = {"BF16", 2},
	[TENSOR_F8_E4M3] = {"F8_E4M3", 1},
	[TENSOR_F8_E5M2] = {"F8_E5M2", 1},
	[TENSOR_I64] = {"I64", 8},
	[TENSOR_I32] = {"I32", 4},
	[TENSOR_I16] = {"I16", 2},
	[TENSOR_I8] = {"I8", 1},
	[TENSOR_U64] = {"U64", 8},
	[TENSOR_U32] = {"U32", 4},
	[TENSOR_U16] = {"U16", 2},
	[TENSOR_U8] = {"U8", 1},
	[TENSOR_BOOL] = {"BOOL", 1},
};

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
	const uint8_t *from = n ? t->data + first * types[t->type].size : (const uint8_t *)"";
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
