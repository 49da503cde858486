#include "engine/cpu/ops_pages.h"

#include <assert.h>
#include <string.h>

/* ---- verify ---- */

/* One sequence's table beside what is expected of it. */
struct table_row {
	const int32_t *table;
	const uint64_t *tags;
	const int32_t *pages; /* NULL: not compared */
	int32_t used, room;   /* room: logical pages that both hold */
};

static bool entry_bad(const struct verify_pages_args *a, const struct table_row *row, int32_t i)
{
	int32_t page = row->table[i];
	if (page < 1 || page >= a->n_pages)
		return true;
	return a->page_tags[page] != row->tags[i] || (row->pages && row->pages[i] != page);
}

static int32_t first_bad_page(const struct verify_pages_args *a, const struct table_row *row)
{
	int32_t n = row->used < row->room ? row->used : row->room;

	if (row->used < 0)
		return 0;
	for (int32_t i = 0; i < n; i++)
		if (entry_bad(a, row, i))
			return i;
	return row->used > row->room ? row->room : -1;
}

__attribute__((hot)) void verify_pages_cpu(const struct verify_pages_args *a)
{
	int expected_stride = a->expected_stride ? a->expected_stride : a->table_stride;

	for (int b = 0; b < a->n_sequences; b++) {
		size_t at = (size_t)(a->rows ? a->rows[b] : b) * (size_t)expected_stride;
		struct table_row row = {.table = a->block_tables + (size_t)b * (size_t)a->table_stride,
			.tags = a->expected + at,
			.pages = a->pages ? a->pages + at : NULL,
			.used = a->n_used[b],
			.room = a->table_stride < expected_stride ? a->table_stride : expected_stride};
		a->first_bad[b] = first_bad_page(a, &row);
	}
}

/* ---- copy ---- */

/* K or V of one side of a copy. */
struct page_side {
	const struct kv_layer *layer;
	const struct kv_geometry *geometry;
	void *values;
	float scale;
};

/* Index of the first value of slot 0 of (page, head). */
static size_t side_offset(const struct page_side *side, int page, int head)
{
	const struct kv_geometry *g = side->geometry;
	return ((size_t)page * (size_t)g->n_kv_heads + (size_t)head) * (size_t)g->page_size * (size_t)g->head_dim;
}

static uint64_t head_convert(
	const struct page_side *from, const struct page_side *to, int source, int target, int head, int n_tokens)
{
	int dim = from->geometry->head_dim;
	size_t out = side_offset(to, target, head);
	uint64_t saturated = 0;
	float row[dim];

	for (int slot = 0; slot < n_tokens; slot++) {
		kv_read_ref(from->layer, from->geometry, from->values, from->scale, source, head, slot, row);
		saturated += kv_store_ref(
			to->layer->format, to->values, out + (size_t)slot * (size_t)dim, row, dim, to->scale);
	}
	return saturated;
}

static void head_copy(
	const struct page_side *from, const struct page_side *to, int source, int target, int head, int n_tokens)
{
	size_t size = kv_format_size(from->layer->format);
	char *out = (char *)to->values + side_offset(to, target, head) * size;
	const char *in = (const char *)from->values + side_offset(from, source, head) * size;

	/* memmove: a faulty plan may name one page twice */
	memmove(out, in, (size_t)n_tokens * (size_t)from->geometry->head_dim * size);
}

static uint64_t side_copy(
	const struct copy_pages_args *a, const struct page_side *from, const struct page_side *to, int i)
{
	bool same = from->layer->format == to->layer->format && from->scale == to->scale;
	uint64_t saturated = 0;

	for (int head = 0; head < from->geometry->n_kv_heads; head++) {
		if (same)
			head_copy(from, to, a->source[i], a->target[i], head, a->n_tokens);
		else
			saturated += head_convert(from, to, a->source[i], a->target[i], head, a->n_tokens);
	}
	return saturated;
}

void copy_pages_cpu(const struct copy_pages_args *a)
{
	struct page_side from_k = {&a->from, &a->from_geometry, a->from.k, a->from.k_scale};
	struct page_side from_v = {&a->from, &a->from_geometry, a->from.v, a->from.v_scale};
	struct page_side to_k = {&a->to, &a->to_geometry, a->to.k, a->to.k_scale};
	struct page_side to_v = {&a->to, &a->to_geometry, a->to.v, a->to.v_scale};
	uint64_t saturated = 0;

	assert(a->from_geometry.page_size == a->to_geometry.page_size);
	assert(a->from_geometry.n_kv_heads == a->to_geometry.n_kv_heads &&
		a->from_geometry.head_dim == a->to_geometry.head_dim);
	assert(a->n_tokens >= 0 && a->n_tokens <= a->from_geometry.page_size);
	assert(!a->from.v == !a->to.v);
	for (int i = 0; i < a->n; i++) {
		assert(a->source[i] >= 0 && a->source[i] < a->from_geometry.n_pages);
		assert(a->target[i] >= 0 && a->target[i] < a->to_geometry.n_pages);
		saturated += side_copy(a, &from_k, &to_k, i);
		if (a->from.v)
			saturated += side_copy(a, &from_v, &to_v, i);
	}
	if (a->saturated)
		*a->saturated += saturated;
}
