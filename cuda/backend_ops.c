/* The ops of a step: arguments are kept, with device copies of the arrays that lie in host memory. */
#include <string.h>

#include "cuda/internal.h"

/* Bytes between members are never set by those who fill the arguments; graphs compare whole structs (steps.h). */
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
#define PADDING_CLEAR(arguments) __builtin_clear_padding(arguments)
#endif
#endif
#ifndef PADDING_CLEAR
#define PADDING_CLEAR(arguments) ((void)(arguments)) /* then fewer steps are recognised */
#endif

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

/* Keeps a copy of *a as the next op's arguments. */
#define OP_KEEP(c, kind, member, a)                  \
	do {                                         \
		struct op *op_ = op_new(c, kind);    \
		if (op_) {                           \
			op_->member = *(a);          \
			PADDING_CLEAR(&op_->member); \
		}                                    \
	} while (0)

static size_t bytes_of(int count, size_t size)
{
	return (size_t)count * size;
}

int batch_pages(const int32_t *first_position, const int32_t *cu_seqlens, int n_sequences, int page_size, int stride)
{
	int64_t most = 1;

	for (int b = 0; b < n_sequences; b++) {
		int64_t end = (int64_t)first_position[b] + cu_seqlens[b + 1] - cu_seqlens[b];
		int64_t pages = (end + page_size - 1) / page_size;
		most = pages > most ? pages : most;
	}
	return most < stride ? (int)most : stride;
}

/* The tables of an attention op; pointers to its members. */
struct tables {
	const int32_t **cu_seqlens, **first_position, **block_tables;
	int n_sequences, page_size, stride;
};

static bool tables_bring(struct cuda_backend *c, const struct tables *t)
{
	int pages = batch_pages(*t->first_position, *t->cu_seqlens, t->n_sequences, t->page_size, t->stride);
	const struct op_array arrays[] = {
		{t->cu_seqlens, bytes_of(t->n_sequences + 1, sizeof(int32_t)), 0, 0, false},
		{t->first_position, bytes_of(t->n_sequences, sizeof(int32_t)), 0, 0, false},
		{t->block_tables, bytes_of(pages, sizeof(int32_t)), t->n_sequences,
			bytes_of(t->stride, sizeof(int32_t)), false},
	};
	return op_arrays(c, arrays, COUNT(arrays));
}

void cuda_embed(struct backend *b, const struct embed_args *a)
{
	struct embed_args d = *a;
	const struct op_array arrays[] = {{&d.ids, bytes_of(a->n_tokens, sizeof *a->ids), 0, 0, false}};

	if (op_arrays(self(b), arrays, COUNT(arrays)))
		OP_KEEP(self(b), OP_EMBED, embed, &d);
}

void cuda_rmsnorm(struct backend *b, const struct rmsnorm_args *a)
{
	OP_KEEP(self(b), OP_RMSNORM, rmsnorm, a);
}

void cuda_linear(struct backend *b, const struct linear_args *a)
{
	OP_KEEP(self(b), OP_LINEAR, linear, a);
}

void cuda_parts_sum(struct backend *b, const struct parts_sum_args *a)
{
	OP_KEEP(self(b), OP_PARTS_SUM, parts_sum, a);
}

void cuda_row_amax(struct backend *b, const struct row_amax_args *a)
{
	OP_KEEP(self(b), OP_ROW_AMAX, row_amax, a);
}

void cuda_rope_table(struct backend *b, const struct rope_table_args *a)
{
	struct rope_table_args d = *a;
	const struct op_array arrays[] = {
		{&d.positions, bytes_of(a->n_tokens, sizeof *a->positions), 0, 0, false},
		{&d.inverse_frequencies, bytes_of(a->rotary_dim / 2, sizeof(float)), 0, 0, false},
	};

	if (op_arrays(self(b), arrays, COUNT(arrays)))
		OP_KEEP(self(b), OP_ROPE_TABLE, rope_table, &d);
}

void cuda_qkv_finish(struct backend *b, const struct qkv_finish_args *a)
{
	struct qkv_finish_args d = *a;
	const struct op_array arrays[] = {{&d.slots, bytes_of(a->n_tokens, sizeof *a->slots), 0, 0, false}};

	d.saturated = clipped_counter(self(b), a->saturated);
	if (op_arrays(self(b), arrays, COUNT(arrays)))
		OP_KEEP(self(b), OP_QKV_FINISH, qkv_finish, &d);
}

void cuda_attend(struct backend *b, const struct attend_args *a)
{
	struct attend_args d = *a;
	const struct tables tables = {&d.cu_seqlens, &d.first_position, &d.block_tables, a->n_sequences,
		a->geometry.page_size, a->table_stride};

	if (tables_bring(self(b), &tables))
		OP_KEEP(self(b), OP_ATTEND, attend, &d);
}

void cuda_latent_write(struct backend *b, const struct latent_write_args *a)
{
	struct latent_write_args d = *a;
	const struct op_array arrays[] = {{&d.slots, bytes_of(a->n_tokens, sizeof *a->slots), 0, 0, false}};

	d.saturated = clipped_counter(self(b), a->saturated);
	if (op_arrays(self(b), arrays, COUNT(arrays)))
		OP_KEEP(self(b), OP_LATENT_WRITE, latent_write, &d);
}

void cuda_latent_attend(struct backend *b, const struct latent_attend_args *a)
{
	struct latent_attend_args d = *a;
	const struct tables tables = {&d.cu_seqlens, &d.first_position, &d.block_tables, a->n_sequences,
		a->geometry.page_size, a->table_stride};

	if (tables_bring(self(b), &tables))
		OP_KEEP(self(b), OP_LATENT_ATTEND, latent_attend, &d);
}

void cuda_head_linear(struct backend *b, const struct head_linear_args *a)
{
	OP_KEEP(self(b), OP_HEAD_LINEAR, head_linear, a);
}

void cuda_swiglu(struct backend *b, const struct swiglu_args *a)
{
	OP_KEEP(self(b), OP_SWIGLU, swiglu, a);
}

void cuda_route(struct backend *b, const struct route_args *a)
{
	OP_KEEP(self(b), OP_ROUTE, route, a);
}

void cuda_experts(struct backend *b, const struct experts_args *a)
{
	OP_KEEP(self(b), OP_EXPERTS, experts, a);
}

void cuda_copy_pages(struct backend *b, const struct copy_pages_args *a)
{
	struct copy_pages_args d = *a;
	size_t bytes = bytes_of(a->n, sizeof *a->source);
	const struct op_array arrays[] = {{&d.source, bytes, 0, 0, true}, {&d.target, bytes, 0, 0, true}};

	d.saturated = clipped_counter(self(b), a->saturated);
	if (op_arrays(self(b), arrays, COUNT(arrays)))
		OP_KEEP(self(b), OP_COPY_PAGES, copy_pages, &d);
}
