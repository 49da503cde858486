/* A watcher between the engine and the guard that changes, at one moment, what the guard is there to check: tables,
 * lengths, slots, books, values. With planted bugs of the guard itself. */
#ifndef ASSAY_TESTS_HOSTILE_GUARD_H
#define ASSAY_TESTS_HOSTILE_GUARD_H

#include "integrity/guard_state.h"
#include "tests/serving_workload.h"

enum { VICTIM = 2, PEER = 3, REQUESTS = 3, GENERATED = 12, SEEN = 64 };

struct hostile;
struct attack {
	const char *name;
	enum guard_level level; /* the lowest that notices */
	enum guard_check check;
	enum guard_moment moment;
	bool window;     /* after the guard's first check */
	bool all_fail;   /* every request of the step is withheld, not the victim alone */
	bool none_fails; /* contained without a victim */
	bool peer_falls; /* for its page was written */
	bool deadly;     /* the engine itself would not survive it */
	bool padded;     /* needs rows of padding */
	void (*act)(struct hostile *h, const struct kv_guard_batch *batch, int b);
};

struct hostile {
	const struct attack *attack;
	const struct kv_guard *inner;
	struct guard guard;
	struct kv_guard table;
	struct kv_pool *pool;
	bool done;
	uint64_t done_step;
	struct guard_incident seen[SEEN];
	int n_seen;
	/* planted bugs of the guard */
	bool refresh, unstamped_read, unstamped_publish, blind;
	bool frozen_tags;
};

static inline int32_t *table_entry(const struct kv_guard_batch *batch, int b, int logical)
{
	return (int32_t *)batch->block_tables + b * batch->table_stride + logical;
}

static inline int row_of(const struct kv_guard_batch *batch, uint64_t request)
{
	for (int b = 0; b < batch->n_sequences; b++)
		if (batch->request[b] == request)
			return b;
	return -1;
}

static inline int64_t *slot_entry(const struct kv_guard_batch *batch, int b)
{
	return (int64_t *)batch->slots + batch->cu_seqlens[b];
}

static inline int batch_page_size(const struct hostile *h)
{
	return h->pool->geometry.page_size;
}

static inline void entry_to_peer(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)h;
	*table_entry(batch, b, 1) = *table_entry(batch, row_of(batch, PEER), 1);
}

static inline void entry_to_own_other(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)h;
	*table_entry(batch, b, 1) = *table_entry(batch, b, 0);
}

static inline void entry_to_free(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	*table_entry(batch, b, 0) = h->pool->free_pages[0];
}

static inline void entry_reserved(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)h;
	*table_entry(batch, b, 0) = 0;
}

static inline void entry_negative(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)h;
	*table_entry(batch, b, 2) = -1;
}

static inline void entry_beyond(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	*table_entry(batch, b, 2) = h->pool->geometry.n_pages;
}

static inline void entry_far(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)h;
	*table_entry(batch, b, 2) |= 1 << 30;
}

static inline void position_negative(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)h;
	*((int32_t *)batch->first_position + b) = -1;
}

static inline void length_endless(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)h;
	*((int32_t *)batch->first_position + b) = INT32_MAX;
}

static inline void length_longer(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)h;
	(*((int32_t *)batch->first_position + b))++;
}

static inline void length_shorter(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)h;
	(*((int32_t *)batch->first_position + b))--;
}

static inline void slot_next(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)h;
	(*slot_entry(batch, b))++;
}

static inline void slot_of_peer(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)h;
	*slot_entry(batch, b) = *slot_entry(batch, row_of(batch, PEER)) - 2;
}

static inline void slot_outside(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)h;
	*slot_entry(batch, b) = INT64_C(1) << 40;
}

static inline void position_of_token(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)h;
	(*((int32_t *)batch->positions + batch->cu_seqlens[b]))++;
}

static inline void token_of_last_step(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)h;
	*((int32_t *)batch->tokens + batch->cu_seqlens[b]) ^= 1;
}

static inline void padding_reads(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)h;
	*table_entry(batch, row_of(batch, 0), 0) = *table_entry(batch, b, 0);
}

static inline void padding_writes(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)h;
	*slot_entry(batch, row_of(batch, 0)) = *slot_entry(batch, b) - 1;
}

static inline void reference_lost(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	h->pool->references[*table_entry(batch, b, 0)] = 0;
}

static inline void reference_extra(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	h->pool->references[*table_entry(batch, b, 0)]++;
}

static inline void reference_before_write(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	h->pool->references[*slot_entry(batch, b) / batch_page_size(h)] = 2;
}

static inline void free_list_twice(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)batch;
	(void)b;
	h->pool->free_pages[h->pool->n_free] = h->pool->free_pages[0];
	h->pool->n_free++;
}

static inline void free_list_short(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)batch;
	(void)b;
	h->pool->n_free--;
}

/* The page that the sequence writes to: nobody else holds it. */
static inline int32_t tail_page(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	return (int32_t)(*slot_entry(batch, b) / batch_page_size(h));
}

static inline void page_freed_early(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	kv_pool_release(h->pool, tail_page(h, batch, b), VICTIM);
}

static inline void page_given_away(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	kv_pool_release(h->pool, tail_page(h, batch, b), VICTIM);
	kv_pool_alloc(h->pool, 99);
}

static inline void scale_lost(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)batch;
	(void)b;
	h->pool->layers[1].v_scale *= 2.0f;
}

static inline void value_flipped(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	const struct kv_geometry *g = &h->pool->geometry;
	size_t page_bytes = (size_t)(g->page_size * g->n_kv_heads * g->head_dim) * kv_format_size(h->pool->format);
	((uint8_t *)h->pool->layers[2].v)[(size_t)*table_entry(batch, b, 0) * page_bytes + page_bytes / 2] ^= 1;
}

static inline void late_sender(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	struct kv_guard_transfer t = {.request = 77, .logical = 1, .target = *table_entry(batch, b, 1), .n_tokens = 16};
	h->inner->transfer_sent(h->pool->guard_state, &t);
}

static const struct attack attacks[] = {
	{"a page of another request", GUARD_TAGS, GUARD_TAG, GUARD_AT_READ, .act = entry_to_peer},
	{"whose page it is", GUARD_PAGES, GUARD_OWNER, GUARD_AT_READ, .act = entry_to_peer},
	{"own page elsewhere", GUARD_TAGS, GUARD_TAG, GUARD_AT_READ, .act = entry_to_own_other},
	{"own page, its position", GUARD_PAGES, GUARD_POSITION, GUARD_AT_READ, .act = entry_to_own_other},
	{"a free page", GUARD_TAGS, GUARD_TAG, GUARD_AT_READ, .act = entry_to_free},
	{"page 0", GUARD_TAGS, GUARD_BOUNDS, GUARD_AT_READ, .act = entry_reserved},
	{"page -1", GUARD_TAGS, GUARD_BOUNDS, GUARD_AT_READ, .deadly = true, .act = entry_negative},
	{"the page after the last", GUARD_TAGS, GUARD_BOUNDS, GUARD_AT_READ, .deadly = true, .act = entry_beyond},
	{"a high bit of a page", GUARD_TAGS, GUARD_BOUNDS, GUARD_AT_READ, .deadly = true, .act = entry_far},
	{"position -1", GUARD_TAGS, GUARD_BOUNDS, GUARD_AT_READ, .deadly = true, .act = position_negative},
	{"more pages than a table has", GUARD_TAGS, GUARD_BOUNDS, GUARD_AT_READ, .deadly = true, .act = length_endless},
	{"one token too long", GUARD_PAGES, GUARD_LENGTH, GUARD_AT_READ, .act = length_longer},
	{"a slot not written", GUARD_PAGES, GUARD_FILL, GUARD_AT_READ, .act = length_longer},
	{"one token too short", GUARD_PAGES, GUARD_LENGTH, GUARD_AT_READ, .act = length_shorter},
	{"the slot after", GUARD_PAGES, GUARD_WRITE, GUARD_AT_READ, .act = slot_next},
	{"a slot of another request", GUARD_PAGES, GUARD_WRITE, GUARD_AT_READ, .act = slot_of_peer},
	{"a slot outside", GUARD_PAGES, GUARD_WRITE, GUARD_AT_READ, .deadly = true, .act = slot_outside},
	{"another holder of the page", GUARD_PAGES, GUARD_WRITE, GUARD_AT_READ, .act = reference_before_write},
	{"position of a token", GUARD_CHAIN, GUARD_CHAIN_LINK, GUARD_AT_READ, .act = position_of_token},
	{"token of the last step", GUARD_CHAIN, GUARD_CHAIN_LINK, GUARD_AT_READ, .act = token_of_last_step},
	{"padding reads", GUARD_PAGES, GUARD_PADDING, GUARD_AT_READ, .none_fails = true, .padded = true,
		.act = padding_reads},
	{"padding writes", GUARD_PAGES, GUARD_PADDING, GUARD_AT_READ, .none_fails = true, .padded = true,
		.act = padding_writes},
	{"reference lost", GUARD_PAGES, GUARD_REFERENCES, GUARD_AT_AUDIT, .none_fails = true, .act = reference_lost},
	{"reference too many", GUARD_PAGES, GUARD_REFERENCES, GUARD_AT_AUDIT, .none_fails = true,
		.act = reference_extra},
	{"free list twice", GUARD_PAGES, GUARD_FREE_LIST, GUARD_AT_AUDIT, .none_fails = true, .act = free_list_twice},
	{"free list short", GUARD_PAGES, GUARD_FREE_LIST, GUARD_AT_AUDIT, .none_fails = true, .act = free_list_short},
	{"freed early", GUARD_TAGS, GUARD_TAG, GUARD_AT_READ, .act = page_freed_early},
	{"given to another", GUARD_TAGS, GUARD_TAG, GUARD_AT_READ, .act = page_given_away},
	{"a scale lost", GUARD_PAGES, GUARD_LAYOUT, GUARD_AT_READ, .all_fail = true, .act = scale_lost},
	{"a value changed", GUARD_DIGEST, GUARD_CONTENT, GUARD_AT_SWEEP, .act = value_flipped},
	{"a late sender", GUARD_PAGES, GUARD_TRANSFER, GUARD_AT_TRANSFER, .act = late_sender},
	{"a late sender's victim", GUARD_PAGES, GUARD_TAG, GUARD_AT_READ, .act = late_sender},
	{"in the window, another's page", GUARD_TAGS, GUARD_TAG, GUARD_AT_PUBLISH, .window = true,
		.act = entry_to_peer},
	{"in the window, freed early", GUARD_TAGS, GUARD_TAG, GUARD_AT_PUBLISH, .window = true,
		.act = page_freed_early},
	{"in the window, length", GUARD_PAGES, GUARD_LENGTH, GUARD_AT_PUBLISH, .window = true, .act = length_shorter},
	{"in the window, slot", GUARD_PAGES, GUARD_WRITE, GUARD_AT_PUBLISH, .window = true, .peer_falls = true,
		.act = slot_of_peer},
};

static inline void hostile_note(void *context, const struct guard_incident *i)
{
	struct hostile *h = context;
	if (h->n_seen < SEEN)
		h->seen[h->n_seen++] = *i;
}

static inline int hostile_open(void *context, const struct kv_guard_layout *layout, void **state, struct error *e)
{
	struct hostile *h = context;
	h->pool = layout->pool;
	return h->inner->open(h->inner->context, layout, state, e);
}

/* Every request decodes and has emitted something: the moment to strike. */
static inline bool is_ripe(const struct kv_guard_batch *batch)
{
	int real = 0;

	for (int b = 0; b < batch->n_sequences; b++)
		real += batch->request[b] != 0 && batch->emitted[b] >= 3;
	return real == REQUESTS && batch->n_tokens == batch->n_sequences;
}

static inline void strike(struct hostile *h, const struct kv_guard_batch *batch)
{
	if (h->done || !h->attack || !is_ripe(batch))
		return;
	h->done = true;
	h->done_step = batch->step;
	h->attack->act(h, batch, row_of(batch, VICTIM));
}

static inline void expectations_refresh(struct hostile *h, const struct kv_guard_batch *batch)
{
	struct guard_state *s = h->pool->guard_state;

	for (int b = 0; b < batch->n_sequences; b++) {
		struct guard_row *row = row_find(s, batch->request[b]);
		for (int i = 0; row && i < row->n_mapped; i++) {
			int32_t page = *table_entry(batch, b, i);
			if (!page_inside(s, page))
				continue;
			row_pages(s, row)[i] = page;
			row_tags(s, row)[i] = s->tags[page];
		}
	}
}

static inline int hostile_verify(
	void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad, struct error *e)
{
	struct guard_state *s = state;
	struct hostile *h = s->guard->options.sink_context;

	if (phase == KV_GUARD_BEFORE_READ && h->attack && !h->attack->window)
		strike(h, batch);
	if (h->refresh)
		expectations_refresh(h, batch);
	if ((phase == KV_GUARD_BEFORE_READ ? h->unstamped_read : h->unstamped_publish) && is_ripe(batch))
		return 0;
	if (h->blind) {
		for (int b = 0; b < batch->n_sequences; b++)
			batch->validated[b] = batch->epoch;
		return 0;
	}
	int status = h->inner->verify(state, phase, batch, bad, e);
	if (phase == KV_GUARD_BEFORE_READ && h->attack && h->attack->window)
		strike(h, batch);
	return status;
}

/* A tag that never changes. */
static inline void hostile_allocated(void *state, int32_t page, uint64_t request)
{
	struct guard_state *s = state;
	struct hostile *h = s->guard->options.sink_context;

	h->inner->page_allocated(state, page, request);
	if (!h->frozen_tags)
		return;
	struct guard_row *row = row_find(s, request);
	s->tags[page] = 7;
	if (row)
		row->issued_tag = 7;
}

static inline void hostile_init(struct hostile *h, const struct attack *attack, enum guard_level level, bool observe)
{
	*h = (struct hostile){.attack = attack};
	guard_init(&h->guard,
		&(struct guard_options){
			.level = level, .observe = observe, .audit_every = 1, .sink = hostile_note, .sink_context = h});
	h->inner = &h->guard.table;
	h->table = h->guard.table;
	h->table.context = h;
	h->table.open = hostile_open;
	h->table.verify = hostile_verify;
	h->table.page_allocated = hostile_allocated;
}

/* ---- what the three requests answer ---- */

struct answers {
	uint64_t bits[REQUESTS];
	bool failed[REQUESTS];
	int generated[REQUESTS];
};

static inline void requests_submit(struct engine *engine)
{
	int32_t tokens[REQUESTS][64];

	for (int i = 0; i < REQUESTS; i++) {
		int n = 37 + 3 * i;
		for (int t = 0; t < n; t++)
			tokens[i][t] = 100 + 7 * i + (t * (3 + i)) % 600;
		submit(engine,
			&(struct engine_request){.tokens = tokens[i],
				.n_tokens = n,
				.max_tokens = GENERATED,
				.logprobs_from = -1,
				.ignore_eos = true});
	}
}

/* Of REQUESTS requests that were submitted. */
static inline void answers_collect(struct engine *engine, struct answers *out)
{
	for (int i = 0; i < REQUESTS; i++) {
		struct engine_result *r = finish_one(engine);
		out->bits[r->id - 1] = answer_bits(r);
		out->failed[r->id - 1] = r->finish == ENGINE_FAILED;
		out->generated[r->id - 1] = r->n_generated;
		engine_result_free(r);
	}
}

static inline void answers_take(struct engine *engine, struct answers *out)
{
	requests_submit(engine);
	answers_collect(engine, out);
}

static inline struct engine *guarded_engine(const struct kv_guard *guard, bool padded)
{
	return open_with(POCKET, "bf16/bf16",
		(struct engine_config){.threads = 1, .kv_memory = 1 << 20, .pad_decode = padded, .guard = guard});
}

static inline struct answers clean_answers(void)
{
	struct answers clean;
	struct engine *engine = guarded_engine(NULL, false);
	answers_take(engine, &clean);
	engine_close(engine);
	return clean;
}

static inline const struct guard_incident *incident_of(const struct hostile *h, enum guard_check check)
{
	for (int i = 0; i < h->n_seen; i++)
		if (h->seen[i].check == check)
			return &h->seen[i];
	return NULL;
}

#endif
