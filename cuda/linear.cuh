/* Inside the matrix products: what their kernels take, and the launcher of each format. */
#ifndef ASSAY_CUDA_LINEAR_CUH
#define ASSAY_CUDA_LINEAR_CUH

#include <cuda_runtime.h>

#include "cuda/weight_layout.h"

extern "C" {
#include "engine/backend.h"
}

enum {
	LINEAR_MATRICES = 32, /* of a launch */
	LINEAR_SMALL = 16,    /* up to so many tokens one tile of M does */
};

struct linear_matrix {
	const unsigned char *data; /* weight_layout.h */
	const unsigned char *scales;
};

/* A product of each of n_matrices matrices of one shape with its own rows of x. Matrix z has the rows [row_first[z],
 * row_first[z + 1]) of x and y, or, without row_first, n_tokens rows of its own: x from row z * n_tokens on, y from
 * z * y_matrix_stride on. */
struct linear_operands {
	struct linear_matrix matrix[LINEAR_MATRICES];
	int n_matrices, rows, columns;
	int n_tiles, n_panels, n_groups; /* of a matrix */
	const void *x;                   /* f32 rows of x_stride values, or rows that input_rows_launch made */
	int x_stride;
	const float *amax;        /* of the rows of x, where they are E4M3 */
	int n_tokens;             /* with row_first: the most rows that a matrix can have */
	const int32_t *row_first; /* [n_matrices + 1] or NULL */
	int first_tile, n_parts, tiles_per_part, tiles_per_block;
	const float *bias, *residual; /* [rows], as y, or NULL */
	float *y;
	size_t y_stride, y_matrix_stride;
	size_t part_stride; /* parts stay apart, y + part * part_stride each; 0: their tree is the result */
};

/* Rows of x for the tensor core, or for f32: row r of the result is the row r % rows_per_group of group r /
 * rows_per_group; with a map, of a single group, the row map[r] / map_divisor. */
struct input_rows {
	const float *x;
	size_t row_stride, group_stride;
	int rows_per_group, n_rows, columns;
	const int32_t *map;
	int map_divisor;
	bool gated;     /* the row is [gate | up] of `columns` each, its values are silu(gate) * up */
	float *amax;    /* [n_rows] of E4M3, else NULL */
	bool find_amax; /* written before it is read */
};

/* Bytes of a piece of a workspace: the next one is aligned. */
static inline size_t workspace_piece(size_t bytes)
{
	return (bytes + 255) / 256 * 256;
}

enum input_format { INPUT_F32, INPUT_BF16, INPUT_E4M3 };

/* What a weight's product reads. */
enum input_format input_format_of(const struct weight *w);
/* Bytes of rows in that format: tiles of 32 in lane order (f32: in order), zeros behind the columns. */
size_t input_rows_bytes(enum input_format format, int n_rows, int columns);
int input_rows_launch(
	const struct input_rows *in, enum input_format format, void *out, cudaStream_t stream, struct error *e);

/* Sizes and the first n matrices. ERR_INPUT for what the kernels do not take. */
int linear_operands_init(
	struct linear_operands *p, const struct weight *weights, int n_matrices, int n_tokens, struct error *e);
/* From rows that input_rows_launch made, or, direct, from f32 in memory. */
int linear_operands_launch(
	const struct linear_operands *p, const struct weight *w, bool direct, cudaStream_t stream, struct error *e);

/* Of each format. direct: x is f32 as it is in memory, columns % 4 == 0, and there are at most LINEAR_SMALL tokens. */
int linear_f32_launch(const struct linear_operands *p, cudaStream_t stream, struct error *e);
int linear_bf16_launch(const struct linear_operands *p, bool direct, cudaStream_t stream, struct error *e);
int linear_e4m3_launch(const struct linear_operands *p, bool direct, cudaStream_t stream, struct error *e);
int linear_int4_launch(const struct linear_operands *p, bool direct, cudaStream_t stream, struct error *e);
int linear_w8a8_launch(const struct linear_operands *p, cudaStream_t stream, struct error *e);

#endif
