/* What a check of a batch reads, asked of memory before it is needed. A step reads all weights between two checks: of what
 * the guard keeps nothing is in the caches then, its code neither, and the misses one after the other take longer than the
 * check itself. Asked for together they take as long as a few. Nothing is decided here, and nothing is believed: where a
 * guess is wrong, only time is lost. */
#include "integrity/guard_state.h"

enum { LINE = 64 }; /* bytes of a line of the caches */

static inline void line_ahead(const void *at)
{
	__builtin_prefetch(at);
	__asm__ volatile(""); /* or the compiler finds that these functions do nothing, and leaves them out */
}

static inline void lines_ahead(const void *from, size_t bytes)
{
	const char *start = from;

	for (size_t i = 0; i < bytes; i += LINE)
		line_ahead(start + i);
}

/* What does not depend on the batch. Where it lies does not change while the pool lives. */
void ahead_plan(struct guard_state *s)
{
	const struct kv_pool *pool = s->layout.pool;
	const struct backend *backend = s->layout.backend;
	const struct guard_range plan[GUARD_RANGES] = {
		{&s->guard->options, offsetof(struct guard, fired) - offsetof(struct guard, options)},
		{&backend->ops, 1},
		{&backend->ops->verify_pages, 1},
		{(const void *)(uintptr_t)backend->ops->verify_pages, LINE},
		{pool, sizeof *pool},
		{pool->layers, 2 * LINE}, /* from there the processor sees how it goes on */
		{s->layers, s->layers ? 2 * LINE : 0},
	};

	memcpy(s->ahead, plan, sizeof plan);
}

static void arrays_ahead(const struct kv_guard_batch *batch)
{
	size_t n = (size_t)batch->n_sequences;

	lines_ahead(batch->cu_seqlens, n * sizeof *batch->cu_seqlens);
	lines_ahead(batch->first_position, n * sizeof *batch->first_position);
	lines_ahead(batch->request, n * sizeof *batch->request);
	lines_ahead(batch->emitted, n * sizeof *batch->emitted);
	lines_ahead(batch->validated, n * sizeof *batch->validated);
	lines_ahead(batch->slots, n * sizeof *batch->slots);
}

void check_ahead(const struct guard_state *s, const struct kv_guard_batch *batch)
{
	size_t n = (size_t)batch->n_sequences;

	lines_ahead(s, offsetof(struct guard_state, memory));
	arrays_ahead(batch);
	for (int i = 0; i < GUARD_RANGES; i++)
		lines_ahead(s->ahead[i].from, s->ahead[i].bytes);
	lines_ahead(s->row_of, n * sizeof *s->row_of);
	lines_ahead(s->row_numbers, n * sizeof *s->row_numbers);
	lines_ahead(s->n_used, n * sizeof *s->n_used);
	lines_ahead(s->first_bad, n * sizeof *s->first_bad);
}

/* The page that the sequence goes on in: what is known of it, and the slot that is written. */
static void page_ahead(const struct guard_state *s, int64_t slot)
{
	const struct kv_pool *pool = s->layout.pool;
	int64_t page = slot / s->layout.page_size;

	if (slot < 0 || !page_inside(s, page))
		return;
	line_ahead(&s->holders[page]);
	line_ahead(&s->fill[page]);
	line_ahead(&s->tokens[slot]);
	line_ahead(&pool->references[page]);
	line_ahead(&pool->cached[page]);
	if (s->chain)
		line_ahead(&s->chain[slot]);
}

/* Logical pages that the sequence uses, as far as both tables hold them. */
static size_t pages_used(const struct guard_state *s, const struct kv_guard_batch *batch, int b)
{
	int room = batch->table_stride < s->stride ? batch->table_stride : s->stride;
	int64_t end = (int64_t)batch->first_position[b] + batch->cu_seqlens[b + 1] - batch->cu_seqlens[b];
	int64_t last = end > 0 ? (end - 1) / s->layout.page_size : 0;

	return (size_t)(last < room ? last + 1 : room);
}

/* The row is taken to be that of the sequence with this number in the last batch. */
static void row_ahead(const struct guard_state *s, const struct kv_guard_batch *batch, int b)
{
	size_t used = pages_used(s, batch, b), row = (size_t)s->row_numbers[b];

	line_ahead(&s->rows[row]);
	lines_ahead(batch->block_tables + (size_t)b * (size_t)batch->table_stride, used * sizeof(int32_t));
	lines_ahead(s->expected_tags + row * (size_t)s->stride, used * sizeof(uint64_t));
	if (state_level(s) < GUARD_PAGES)
		return;
	lines_ahead(s->expected_pages + row * (size_t)s->stride, used * sizeof(int32_t));
	page_ahead(s, batch->slots[batch->cu_seqlens[b]]);
}

void batch_ahead(const struct guard_state *s, const struct kv_guard_batch *batch)
{
	for (int b = 0; b < batch->n_sequences; b++)
		row_ahead(s, batch, b);
}
