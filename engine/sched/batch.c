#include "engine/sched/batch.h"

#include <stdlib.h>
#include <string.h>

/* The fixed size that n sequences are padded to. */
static int padded_size(int n, int most)
{
	int size = 1;
	while (size < n)
		size *= 2;
	return size < most ? size : most;
}

int batch_init(struct batch *b, int max_tokens, int max_requests, int table_stride, struct error *e)
{
	int max_sequences = padded_size(max_requests, max_tokens);
	size_t tokens = (size_t)max_tokens, sequences = (size_t)max_sequences;

	*b = (struct batch){.max_tokens = max_tokens, .max_sequences = max_sequences, .table_stride = table_stride};
	b->ids = mem_calloc(tokens, sizeof *b->ids, e);
	b->positions = mem_calloc(tokens, sizeof *b->positions, e);
	b->slots = mem_calloc(tokens, sizeof *b->slots, e);
	b->cu_seqlens = mem_calloc(sequences + 1, sizeof *b->cu_seqlens, e);
	b->first_position = mem_calloc(sequences + 1, sizeof *b->first_position, e);
	b->block_tables = mem_calloc(sequences * (size_t)table_stride, sizeof *b->block_tables, e);
	b->scheduled = mem_calloc(sequences, sizeof *b->scheduled, e);
	b->request_ids = mem_calloc(sequences, sizeof *b->request_ids, e);
	b->own = mem_calloc(sequences, sizeof *b->own, e);
	b->emitted = mem_calloc(sequences, sizeof *b->emitted, e);
	b->validated = mem_calloc(sequences, sizeof *b->validated, e);
	b->bad = mem_calloc(sequences, sizeof *b->bad, e);
	b->rows = mem_calloc(tokens, sizeof *b->rows, e);
	b->row_sequence = mem_calloc(tokens, sizeof *b->row_sequence, e);
	b->row_position = mem_calloc(tokens, sizeof *b->row_position, e);
	if (!b->ids || !b->positions || !b->slots || !b->cu_seqlens || !b->first_position || !b->block_tables ||
		!b->scheduled || !b->request_ids || !b->own || !b->emitted || !b->validated || !b->bad || !b->rows ||
		!b->row_sequence || !b->row_position)
		return ERR_MEMORY;
	return 0;
}

void batch_free(struct batch *b)
{
	void *arrays[] = {b->ids, b->positions, b->slots, b->cu_seqlens, b->first_position, b->block_tables,
		b->scheduled, b->request_ids, b->own, b->emitted, b->validated, b->bad, b->rows, b->row_sequence,
		b->row_position};

	for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
		free(arrays[i]);
	*b = (struct batch){0};
}

void batch_clear(struct batch *b)
{
	b->cu_seqlens[0] = 0;
	b->forward = (struct forward_batch){.ids = b->ids,
		.positions = b->positions,
		.slots = b->slots,
		.cu_seqlens = b->cu_seqlens,
		.first_position = b->first_position,
		.block_tables = b->block_tables,
		.table_stride = b->table_stride,
		.rows = b->rows};
}

static void row_want(struct batch *b, struct request *r, int sequence, int position, int token)
{
	if (!request_wants_row(r, position, token, &b->rows[b->forward.n_rows]))
		return;
	b->row_sequence[b->forward.n_rows] = sequence;
	b->row_position[b->forward.n_rows++] = position;
}

static int32_t *table_row(const struct batch *b, int sequence)
{
	return b->block_tables + (size_t)sequence * (size_t)b->table_stride;
}

/* The first `used` logical pages of the request, as row s of the block tables. */
static void table_write(struct batch *b, const struct instance *in, const struct request *r, int s, int used)
{
	const struct kv_pool *pool = in->pool;
	const struct fault_hook *faults = pool->faults;
	int32_t *table = table_row(b, s);

	if (!fault_at(faults, FAULT_TABLE_RENEW, pool, r->id, s, 1))
		return;
	int n = (int)fault_at(faults, FAULT_TABLE_LENGTH, pool, r->id, s, used);
	for (int i = 0; i < n; i++)
		table[i] = (int32_t)fault_at(faults, FAULT_TABLE_ENTRY, pool, r->id, i, r->map.pages[i]);
	int row = (int)fault_at(faults, FAULT_TABLE_ROW, pool, r->id, used, s);
	if (row != s)
		memcpy(table, table_row(b, row), (size_t)used * sizeof *table);
}

void batch_add(struct batch *b, const struct instance *in, struct request *r, int count)
{
	const struct kv_pool *pool = in->pool;
	int s = b->forward.n_sequences++, page_size = pool->geometry.page_size;

	b->scheduled[s] = r;
	b->request_ids[s] = r->id;
	b->own[s] = r->tokens;
	b->emitted[s] = r->n_tokens - r->n_prompt;
	b->validated[s] = 0;
	b->bad[s] = 0;
	b->first_position[s] = (int32_t)fault_at(pool->faults, FAULT_LENGTH, pool, r->id, count, r->n_computed);
	table_write(b, in, r, s, instance_pages(in, r->n_computed + count));
	for (int i = 0; i < count; i++) {
		int t = b->forward.n_tokens++, position = r->n_computed + i;
		int64_t slot = (int64_t)r->map.pages[position / page_size] * page_size + position % page_size;
		b->ids[t] = r->tokens[position];
		b->positions[t] = (int32_t)fault_at(pool->faults, FAULT_POSITION, pool, r->id, position, position);
		b->slots[t] = fault_at(pool->faults, FAULT_SLOT, pool, r->id, position, slot);
		row_want(b, r, s, position, t);
	}
	b->cu_seqlens[s + 1] = b->forward.n_tokens;
}

void batch_pad(struct batch *b, const struct kv_pool *pool)
{
	int n = b->forward.n_sequences, page_size = pool->geometry.page_size;

	if (n != b->forward.n_tokens)
		return;
	for (int size = padded_size(n, b->max_tokens), s = n; s < size; s++) {
		b->scheduled[s] = NULL;
		b->request_ids[s] = 0;
		b->own[s] = NULL;
		b->emitted[s] = 0;
		b->validated[s] = 0;
		b->bad[s] = 0;
		b->block_tables[(size_t)s * (size_t)b->table_stride] = 0;
		b->first_position[s] = 0;
		b->ids[s] = b->positions[s] = 0;
		b->slots[s] = fault_at(pool->faults, FAULT_PADDING_SLOT, pool, 0, s, (s - n) % page_size);
		b->cu_seqlens[s + 1] = s + 1;
		b->forward.n_sequences = b->forward.n_tokens = s + 1;
	}
}

void batch_park_bad(struct batch *b, int page_size)
{
	for (int s = 0; s < b->forward.n_sequences; s++) {
		if (!b->bad[s])
			continue;
		memset(table_row(b, s), 0, (size_t)b->table_stride * sizeof *b->block_tables);
		b->first_position[s] = 0;
		for (int t = b->cu_seqlens[s]; t < b->cu_seqlens[s + 1]; t++)
			b->slots[t] = (t - b->cu_seqlens[s]) % page_size;
	}
}
