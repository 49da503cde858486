/* A named tensor of a checkpoint, borrowed from its mapping. */
#ifndef ASSAY_ENGINE_MODEL_TENSOR_H
#define ASSAY_ENGINE_MODEL_TENSOR_H

#include <stddef.h>
#include <stdint.h>

enum tensor_type {
	TENSOR_F64,
	TENSOR_F32,
	TENSOR_F16,
	TENSOR_BF16,
	TENSOR_F8_E4M3,
	TENSOR_F8_E5M2,
	TENSOR_I64,
	TENSOR_I32,
	TENSOR_I16,
	TENSOR_I8,
	TENSOR_U64,
	TENSOR_U32,
	TENSOR_U16,
	TENSOR_U8,
	TENSOR_BOOL,
	TENSOR_TYPE_COUNT
};

enum { TENSOR_MAX_RANK = 8 };

struct tensor {
	const char *name;
	enum tensor_type type;
	int rank;                       /* 0 is a scalar: one element */
	int64_t shape[TENSOR_MAX_RANK]; /* row-major, slowest first */
	uint64_t count;                 /* elements; 0 for an empty tensor */
	const uint8_t *data;            /* not aligned; count * element size bytes */
	size_t size;                    /* bytes */
};

size_t tensor_type_size(enum tensor_type type);      /* bytes of one element */
const char *tensor_type_name(enum tensor_type type); /* "BF16", as safetensors spells it */

/* Widens elements [first, first + n) to float (F64 is rounded; integers and bool are refused: returns ERR_INPUT).
 * PRECOND: first + n <= count. */
int tensor_to_float(const struct tensor *t, uint64_t first, uint64_t n, float *out);

#endif
