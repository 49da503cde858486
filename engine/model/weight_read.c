#include "engine/model/weight_read.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/base/quant.h"
#include "engine/base/thread_pool.h"
#include "engine/model/weight_share.h"

enum { ROWS_AT_ONCE = 64 /* that a thread takes */ };

/* Rows [first, first + n) on their way. */
struct reading {
	const struct fused *f;
	const struct weight_scheme *scheme; /* NULL: as stored */
	int first, n;
	struct weight_matrix *out; /* quantised rows */
	char *stored;              /* or [n, columns] */
	float *scratch;            /* [threads, columns] */
	atomic_int failed;         /* the first row that cannot be had; first + n: none */
};

enum weight_format fused_format(const struct fused *f)
{
	for (int i = 0; i < f->count; i++)
		if (!tensor_is_bf16(f->tensors[i]))
			return WEIGHT_F32;
	return WEIGHT_BF16;
}

/* The tensor that holds a row; *row becomes the row in it. */
static const struct tensor *tensor_of(const struct fused *f, int *row)
{
	int i = 0;
	while (*row >= f->tensors[i]->shape[0])
		*row -= (int)f->tensors[i++]->shape[0];
	return f->tensors[i];
}

/* ---- rows as they are stored ---- */

static int rows_copy(const struct tensor *t, enum weight_format format, int row, int n, float *scratch, void *out)
{
	return format == WEIGHT_BF16 ? tensor_rows_to_bf16(t, row, n, scratch, out)
				     : tensor_rows_to_float(t, row, n, out);
}

/* ---- rows quantised ---- */

static int groups_of(const struct weight_scheme *scheme, int columns)
{
	return scheme->format == WEIGHT_INT4 ? (columns + scheme->group - 1) / scheme->group : 0;
}

/* ERR_INPUT: the row has no values, or one that is not finite. */
static int row_quantize(const struct reading *r, const struct tensor *t, int row_in_tensor, int row, float *scratch)
{
	const struct weight_scheme *scheme = r->scheme;
	int columns = r->f->columns;
	uint8_t *codes = r->out->data + (size_t)row * (size_t)columns;

	if (tensor_rows_to_float(t, row_in_tensor, 1, scratch) < 0)
		return ERR_INPUT;
	float amax = row_amax(scratch, columns);
	if (!isfinite(amax))
		return ERR_INPUT;
	if (scheme->format == WEIGHT_E4M3) {
		r->out->scales[row] = e4m3_scale(amax);
		e4m3_quantize_row(scratch, columns, r->out->scales[row], codes);
	} else {
		int4_quantize_row(scratch, columns, scheme->group, codes,
			r->out->group_scales + (size_t)row * (size_t)groups_of(scheme, columns));
	}
	return 0;
}

/* ---- threads ---- */

static void failed_at(struct reading *r, int row)
{
	int known = atomic_load(&r->failed);
	while (row < known && !atomic_compare_exchange_weak(&r->failed, &known, row))
		;
}

/* Rows [row, row + n) of the whole, which lie in one tensor. */
static void run_read(struct reading *r, const struct tensor *t, int row_in_tensor, int row, int n, float *scratch)
{
	size_t row_bytes = t->size / (size_t)t->shape[0], columns = (size_t)r->f->columns;
	enum weight_format format = fused_format(r->f);

	if (!r->scheme) {
		char *out = r->stored + (size_t)(row - r->first) * columns * host_value_size(format);
		if (rows_copy(t, format, row_in_tensor, n, scratch, out) < 0)
			failed_at(r, row);
	}
	for (int i = 0; r->scheme && i < n; i++)
		if (row_quantize(r, t, row_in_tensor + i, row + i, scratch) < 0)
			failed_at(r, row + i);
	file_map_release(t->data + (size_t)row_in_tensor * row_bytes, (size_t)n * row_bytes);
}

static void block_read(void *argument, int block, int thread)
{
	struct reading *r = argument;
	int row = r->first + block * ROWS_AT_ONCE, end = row + ROWS_AT_ONCE;

	if (end > r->first + r->n)
		end = r->first + r->n;
	while (row < end) {
		int in_tensor = row;
		const struct tensor *t = tensor_of(r->f, &in_tensor);
		int left = (int)t->shape[0] - in_tensor, n = left < end - row ? left : end - row;
		run_read(r, t, in_tensor, row, n, r->scratch + (size_t)thread * (size_t)r->f->columns);
		row += n;
	}
}

void fused_release(const struct fused *f)
{
	for (int i = 0; i < f->count; i++)
		file_map_release(f->tensors[i]->data, f->tensors[i]->size);
}

static int failure_tell(const struct reading *r, int row, struct error *e)
{
	const struct tensor *t = tensor_of(r->f, &row);

	if (tensor_rows_to_float(t, row, 1, r->scratch) < 0)
		return error_set(
			e, ERR_INPUT, "tensor %s: type %s holds no weights", t->name, tensor_type_name(t->type));
	return error_set(e, ERR_INPUT,
		"tensor %s: row %d holds a value that is not finite; it cannot be quantised to %s", t->name, row,
		r->scheme->name);
}

static int rows_read(struct reading *r, struct thread_pool *threads, struct error *e)
{
	int end = r->first + r->n, status = 0;

	r->scratch = mem_calloc((size_t)thread_pool_size(threads) * (size_t)r->f->columns, sizeof *r->scratch, e);
	if (!r->scratch)
		return ERR_MEMORY;
	atomic_init(&r->failed, end);
	thread_pool_run(threads, (r->n + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, block_read, r);
	if (atomic_load(&r->failed) < end)
		status = failure_tell(r, atomic_load(&r->failed), e);
	free(r->scratch);
	return status;
}

int weight_read_rows(const struct fused *f, int first, int n, struct thread_pool *threads, void *out, struct error *e)
{
	struct reading r = {.f = f, .first = first, .n = n, .stored = out};
	return rows_read(&r, threads, e);
}

/* ---- a matrix ---- */

static int matrix_new(
	const struct fused *f, const struct weight_scheme *scheme, struct weight_matrix *w, struct error *e)
{
	enum weight_format format = scheme->quantized ? scheme->format : fused_format(f);
	size_t rows = (size_t)f->rows, row_bytes = (size_t)f->columns * host_value_size(format);
	size_t groups = scheme->quantized ? (size_t)groups_of(scheme, f->columns) : 0;

	w->data = mem_calloc(rows, row_bytes, e);
	w->scales = mem_calloc(format == WEIGHT_E4M3 ? rows : 1, sizeof *w->scales, e);
	w->group_scales = mem_calloc(groups ? rows * groups : 1, sizeof *w->group_scales, e);
	if (!w->data || !w->scales || !w->group_scales)
		return ERR_MEMORY;
	w->m = (struct host_matrix){.format = format,
		.rows = f->rows,
		.columns = f->columns,
		.group = scheme->quantized ? scheme->group : 0,
		.data = w->data,
		.scales = w->scales,
		.group_scales = w->group_scales};
	return 0;
}

int weight_read(const struct fused *f, const struct weight_scheme *scheme, struct thread_pool *threads,
	struct weight_matrix *out, struct error *e)
{
	*out = (struct weight_matrix){0};
	TRY(matrix_new(f, scheme, out, e));
	out->m.threads = threads;
	struct reading r = {.f = f,
		.scheme = scheme->quantized ? scheme : NULL,
		.n = f->rows,
		.out = out,
		.stored = (char *)out->data};
	int status = rows_read(&r, threads, e);
	fused_release(f);
	return status;
}

void weight_matrix_free(struct weight_matrix *w)
{
	free(w->data);
	free(w->scales);
	free(w->group_scales);
}
