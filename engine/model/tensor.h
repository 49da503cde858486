/* A named tensor of a checkpoint, borrowed from its mapping, and its values as floats. */
#ifndef ASSAY_ENGINE_MODEL_TENSOR_H
#define ASSAY_ENGINE_MODEL_TENSOR_H

#include <stdbool.h>
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
	TENSOR_PLAIN_COUNT, /* those above hold one element after the other, those below blocks (gguf_blocks.h) */
	TENSOR_Q4_0 = TENSOR_PLAIN_COUNT,
	TENSOR_Q4_1,
	TENSOR_Q5_0,
	TENSOR_Q5_1,
	TENSOR_Q8_0,
	TENSOR_Q4_K,
	TENSOR_Q5_K,
	TENSOR_Q6_K,
	TENSOR_TYPE_COUNT
};

enum { TENSOR_MAX_RANK = 8 };

struct tensor {
	const char *name;
	enum tensor_type type;
	int rank;                       /* 0 is a scalar: one element */
	int64_t shape[TENSOR_MAX_RANK]; /* row-major, slowest first */
	uint64_t count;                 /* elements; 0 for an empty tensor */
	const uint8_t *data;            /* not aligned */
	size_t size;                    /* bytes: count / tensor_type_block * tensor_type_size */

	/* How the rows of a file's matrix become those of the model (tensor_rows_to_float): */
	bool round_to_bf16; /* a matrix of a quantised file is rounded to BF16 once, and that is what the model has */
	int pair_heads;     /* of D rows each: the file's pairs 2i, 2i + 1 belong at i, i + D/2; 0: as it stands */
};

size_t tensor_type_block(enum tensor_type type);     /* elements that lie together: 1, 32 or 256 */
size_t tensor_type_size(enum tensor_type type);      /* bytes of one such block: of one element where it is 1 */
const char *tensor_type_name(enum tensor_type type); /* "BF16", "Q4_K", as safetensors and GGUF spell it */

/* Widens elements [first, first + n) as the file has them (F64 is rounded; integers and bool are refused: returns
 * ERR_INPUT). PRECOND: first + n <= count, both multiples of the type's block. */
int tensor_to_float(const struct tensor *t, uint64_t first, uint64_t n, float *out);

/* The model's matrix is BF16: it was stored so, or is rounded to it. */
bool tensor_is_bf16(const struct tensor *t);

/* Rows [first, first + n) of the model's matrix, [n, columns]; a vector has one column. ERR_INPUT as tensor_to_float.
 * PRECOND: rank 1 or 2, a row is a whole number of blocks, pair_heads divides the rows into even numbers. */
int tensor_rows_to_float(const struct tensor *t, int64_t first, int64_t n, float *out);

/* The same as BF16 codes; row is scratch of one row. PRECOND: tensor_is_bf16(t). */
int tensor_rows_to_bf16(const struct tensor *t, int64_t first, int64_t n, float *row, uint16_t *out);

#endif
