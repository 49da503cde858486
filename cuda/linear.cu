/* Matrix products: which kernel, over which memory. */
#include "cuda/kernels.cuh"
#include "cuda/launch.cuh"
#include "cuda/linear.cuh"

enum input_format input_format_of(const struct weight *w)
{
	if (w->format == WEIGHT_F32)
		return INPUT_F32;
	return w->quantize_input ? INPUT_E4M3 : INPUT_BF16;
}

/* Whether the product reads x as it is. */
static bool input_direct(const struct weight *w, int n_tokens)
{
	const enum input_format format = input_format_of(w);
	return w->columns % 4 == 0 && (format == INPUT_F32 || (format == INPUT_BF16 && n_tokens <= LINEAR_SMALL));
}

static int sizes_check(const struct weight *w, struct error *e)
{
	const int unit = w->format == WEIGHT_INT4 ? w->group : (int)WEIGHT_K_TILE;

	if (w->format < WEIGHT_F32 || w->format > WEIGHT_INT4 || (w->quantize_input && w->format != WEIGHT_E4M3))
		return error_set(e, ERR_INPUT, "linear: weights of format %d, input %s: not known", (int)w->format,
			w->quantize_input ? "rounded to e4m3" : "as it is");
	if (w->format == WEIGHT_INT4 && (w->group <= 0 || (w->group % WEIGHT_K_TILE != 0 && w->group < w->columns)))
		return error_set(e, ERR_INPUT, "linear: int4 groups of %d inputs: a multiple of %d expected", w->group,
			(int)WEIGHT_K_TILE);
	if (w->parts != 1 && w->parts != 2 && w->parts != 4 && w->parts != 8)
		return error_set(e, ERR_INPUT, "linear: %d parts: 1, 2, 4 or 8 expected", w->parts);
	if (w->parts > 1 && w->columns % (w->parts * unit) != 0)
		return error_set(e, ERR_INPUT, "linear: %d columns in %d parts: each must be a multiple of %d",
			w->columns, w->parts, unit);
	return 0;
}

int linear_operands_init(
	struct linear_operands *p, const struct weight *weights, int n_matrices, int n_tokens, struct error *e)
{
	const struct weight *w = &weights[0];

	TRY(sizes_check(w, e));
	*p = {};
	p->n_matrices = n_matrices < LINEAR_MATRICES ? n_matrices : (int)LINEAR_MATRICES;
	for (int i = 0; i < p->n_matrices; i++)
		p->matrix[i] = {static_cast<const unsigned char *>(weights[i].data),
			static_cast<const unsigned char *>(weights[i].scales)};
	p->rows = w->rows;
	p->n_tiles = weight_tiles(w->columns);
	p->n_panels = weight_panels(w->rows);
	p->x_stride = p->n_tiles * WEIGHT_K_TILE;
	p->n_tokens = n_tokens;
	p->n_parts = w->parts;
	p->tiles_per_part = p->n_tiles / w->parts;
	if (w->format == WEIGHT_INT4) {
		p->n_groups = weight_groups(w->columns, w->group);
		p->tiles_per_block = weight_tiles(w->group < w->columns ? w->group : w->columns);
	}
	p->y_stride = (size_t)w->rows;
	return 0;
}

int linear_operands_launch(
	const struct linear_operands *p, const struct weight *w, bool direct, cudaStream_t stream, struct error *e)
{
	if (p->n_tokens == 0 || p->rows == 0 || p->n_matrices == 0)
		return 0;
	switch (w->format) {
	case WEIGHT_F32:
		return linear_f32_launch(p, stream, e);
	case WEIGHT_BF16:
		return linear_bf16_launch(p, direct, stream, e);
	case WEIGHT_E4M3:
		return w->quantize_input ? linear_w8a8_launch(p, stream, e) : linear_e4m3_launch(p, direct, stream, e);
	case WEIGHT_INT4:
		return linear_int4_launch(p, direct, stream, e);
	}
	return 0;
}

/* ---- one matrix ---- */

size_t linear_workspace(const struct weight *w, int n_tokens)
{
	if (input_direct(w, n_tokens))
		return 0;
	return workspace_piece(input_rows_bytes(input_format_of(w), n_tokens, w->columns));
}

int linear_launch(const struct linear_args *a, void *workspace, cudaStream_t stream, struct error *e)
{
	const struct weight *w = a->weight;
	const bool apart = a->part_count > 0, direct = input_direct(w, a->n_tokens);
	linear_operands p;

	TRY(linear_operands_init(&p, w, 1, a->n_tokens, e));
	if (a->part_first < 0 || a->part_count < 0 || a->part_first > w->parts - a->part_count)
		return error_set(e, ERR_INPUT, "linear: parts [%d, %d) of %d", a->part_first,
			a->part_first + a->part_count, w->parts);
	if (w->quantize_input && !a->amax)
		return error_set(e, ERR_INPUT, "linear: the weights want their input in e4m3, and amax is missing");
	if (a->n_tokens == 0)
		return 0;
	p.x = a->x;
	p.amax = a->amax;
	if (direct)
		p.x_stride = w->columns;
	p.bias = apart ? NULL : a->bias;
	p.residual = apart ? NULL : a->residual;
	p.y = a->y;
	if (apart) {
		p.first_tile = a->part_first * p.tiles_per_part;
		p.n_parts = a->part_count;
		p.y = a->parts_out;
		p.part_stride = (size_t)a->n_tokens * (size_t)w->rows;
	}
	if (!direct) {
		struct input_rows in = {};
		in.x = a->x;
		in.row_stride = (size_t)w->columns;
		in.rows_per_group = in.n_rows = a->n_tokens;
		in.columns = w->columns;
		in.amax = const_cast<float *>(a->amax);
		TRY(input_rows_launch(&in, input_format_of(w), workspace, stream, e));
		p.x = workspace;
	}
	return linear_operands_launch(&p, w, direct, stream, e);
}

/* ---- a matrix per head ---- */

size_t head_linear_workspace(const struct weight *w, int n_heads, int n_tokens)
{
	const int n_rows = n_heads * n_tokens;
	const size_t rows = workspace_piece(input_rows_bytes(input_format_of(w), n_rows, w->columns));
	return rows + (w->quantize_input ? workspace_piece((size_t)n_rows * sizeof(float)) : 0);
}

int head_linear_launch(const struct head_linear_args *a, void *workspace, cudaStream_t stream, struct error *e)
{
	const struct weight *w = &a->weights[0];
	const enum input_format format = input_format_of(w);
	const int n_rows = a->n_heads * a->n_tokens;
	const size_t matrix_bytes = input_rows_bytes(format, a->n_tokens, w->columns);
	unsigned char *const rows = static_cast<unsigned char *>(workspace);
	struct input_rows in = {};

	if (n_rows == 0)
		return 0;
	in.x = a->x;
	in.row_stride = (size_t)a->x_stride;
	in.group_stride = (size_t)a->x_head_stride;
	in.rows_per_group = a->n_tokens;
	in.n_rows = n_rows;
	in.columns = w->columns;
	in.find_amax = w->quantize_input;
	if (in.find_amax)
		in.amax = reinterpret_cast<float *>(rows + workspace_piece(matrix_bytes * (size_t)a->n_heads));
	TRY(input_rows_launch(&in, format, workspace, stream, e));
	for (int head = 0; head < a->n_heads; head += LINEAR_MATRICES) {
		linear_operands p;
		TRY(linear_operands_init(&p, w + head, a->n_heads - head, a->n_tokens, e));
		p.x = rows + (size_t)head * matrix_bytes;
		p.amax = in.find_amax ? in.amax + (size_t)head * (size_t)a->n_tokens : NULL;
		p.y = a->y + (size_t)head * (size_t)a->y_head_stride;
		p.y_stride = (size_t)a->y_stride;
		p.y_matrix_stride = (size_t)a->y_head_stride;
		TRY(linear_operands_launch(&p, w, false, stream, e));
	}
	return 0;
}
