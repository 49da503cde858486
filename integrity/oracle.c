#include "integrity/oracle.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"

uint64_t oracle_chain(uint64_t before, int32_t token, int32_t position)
{
	uint64_t h = before + UINT64_C(0x9e3779b97f4a7c15) * ((uint64_t)(uint32_t)token << 32 | (uint32_t)position);

	h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	h = (h ^ h >> 27) * UINT64_C(0x94d049bb133111eb);
	return (h ^ h >> 31) | UINT64_C(1) << 63; /* what is written is never 0; bit 63 is not a poison's */
}

static uint64_t poison_next(struct oracle *o)
{
	return ++o->poison;
}

static struct oracle *watcher(struct backend *b)
{
	return (struct oracle *)b->ops;
}

static void trap(struct oracle *o, const char *what)
{
	if (!o->trap)
		o->trap = what;
}

/* ---- pools ---- */

static size_t head_bytes(const struct kv_pool *pool)
{
	return (size_t)pool->geometry.page_size * (size_t)pool->geometry.head_dim * kv_format_size(pool->format);
}

static size_t page_bytes(const struct kv_pool *pool)
{
	return head_bytes(pool) * (size_t)pool->geometry.n_kv_heads;
}

/* The pool that K or V of a layer belongs to, and which layer it is; NULL: none. */
static struct oracle_pool *pool_of(struct oracle *o, const void *memory, int *layer)
{
	for (int i = 0; i < o->n_pools; i++)
		for (int l = 0; l < o->pools[i].pool->n_layers; l++)
			if (o->pools[i].layers[l].k == memory || o->pools[i].layers[l].v == memory) {
				*layer = l;
				return &o->pools[i];
			}
	return NULL;
}

static bool layer_same(const struct kv_layer *a, const struct kv_layer *b)
{
	return a->k == b->k && a->v == b->v && a->format == b->format && a->k_scale == b->k_scale &&
		a->v_scale == b->v_scale;
}

static bool page_inside(const struct oracle_pool *p, int64_t page)
{
	return page >= 0 && page < p->pool->geometry.n_pages;
}

static struct oracle_slot *slot_at(const struct oracle_pool *p, int64_t page, int offset)
{
	return &p->slots[page * p->pool->geometry.page_size + offset];
}

/* ---- requests ---- */

static struct oracle_request *request_at(struct oracle *o, uint64_t id)
{
	return id < ORACLE_REQUESTS ? &o->requests[id] : &o->requests[0];
}

static void page_touch(struct oracle *o, const struct oracle_pool *p, uint64_t request, int64_t page)
{
	if (!o->mark || o->mark->pool != p->pool || page < 1 || page >= p->pool->geometry.n_pages)
		return;
	if (page == o->mark->pages[0] || page == o->mark->pages[1] || p->marked[page])
		request_at(o, request)->touched = true;
}

/* ---- the values of slots ---- */

/* Hash of the first layer's K in a slot. */
static uint64_t values_hash(const struct oracle_pool *p, const char *page, int offset)
{
	const struct kv_geometry *g = &p->pool->geometry;
	size_t bytes = (size_t)g->head_dim * kv_format_size(p->pool->format);
	uint64_t h = 1;

	for (int head = 0; head < g->n_kv_heads; head++)
		h = (h ^ hash64(page + (size_t)head * head_bytes(p->pool) + (size_t)offset * bytes, bytes)) *
			UINT64_C(0x9e3779b97f4a7c15);
	return h;
}

static uint64_t *written_place(struct oracle *o, uint64_t values)
{
	size_t at = (size_t)(values >> 20) % ORACLE_WRITTEN, seen = 0;

	while (o->written[at].values != 0 && o->written[at].values != values && seen++ < 64)
		at = (at + 1) % ORACLE_WRITTEN;
	if (o->written[at].values != values)
		o->written[at].writer = 0;
	o->written[at].values = values;
	return &o->written[at].writer;
}

static void values_note(struct oracle *o, const struct oracle_pool *p, int64_t slot, uint64_t writer)
{
	int page_size = p->pool->geometry.page_size;
	const char *k = p->layers[0].k;
	uint64_t values = values_hash(p, k + (size_t)(slot / page_size) * page_bytes(p->pool), (int)(slot % page_size));

	*written_place(o, values) = writer;
}

/* ---- the step: writes ---- */

static int64_t slots_count(const struct oracle_pool *p)
{
	return (int64_t)p->pool->geometry.n_pages * p->pool->geometry.page_size;
}

static void sequence_written(struct oracle *o, const struct oracle_sequence *s, const int64_t *slots)
{
	int page_size = o->pool->pool->geometry.page_size;
	uint64_t text = 0;

	for (int i = 0; s->request && !s->parked && i < s->stands; i++)
		text = oracle_chain(text, s->own[i], i);
	for (int t = s->begin; t < s->begin + s->count; t++) {
		struct oracle_slot *slot = &o->pool->slots[slots[t]];
		if (s->request == 0 || s->parked) {
			*slot = (struct oracle_slot){.chain = poison_next(o)};
			continue;
		}
		int position = s->stands + t - s->begin;
		*slot = (struct oracle_slot){.chain = oracle_chain(text, o->ids[t], o->positions[t]),
			.text = oracle_chain(text, s->own[position], position),
			.writer = s->request};
		text = slot->text;
		page_touch(o, o->pool, s->request, slots[t] / page_size);
	}
}

/* What the sequence computes from now on is not what its tokens give, from token t of the batch on. */
static void sequence_poison(struct oracle *o, struct oracle_sequence *s, int t, bool foreign, uint64_t from)
{
	struct oracle_request *r = request_at(o, s->request);

	if (s->request == 0 || s->parked)
		return;
	s->contaminated = r->contaminated = true;
	if (foreign && !r->leaked) {
		r->leaked = true;
		r->leak_from = from;
	}
	s->foreign |= foreign;
	for (; t < s->begin + s->count; t++) {
		struct oracle_slot *slot = &o->pool->slots[o->slots[t]];
		slot->chain = poison_next(o);
		slot->foreign |= s->foreign;
	}
}

static void all_poison(struct oracle *o)
{
	for (int b = 0; b < o->n_sequences; b++)
		sequence_poison(o, &o->sequences[b], o->sequences[b].begin, false, 0);
}

static bool slots_inside(struct oracle *o, const struct qkv_finish_args *a)
{
	for (int t = 0; t < a->n_tokens; t++)
		if (a->slots[t] < 0 || a->slots[t] >= slots_count(o->pool)) {
			trap(o, "a write to a slot outside of the cache");
			return false;
		}
	return true;
}

static void watch_qkv_finish(struct backend *b, const struct qkv_finish_args *a)
{
	struct oracle *o = watcher(b);

	if (o->trap || !slots_inside(o, a))
		return;
	if (o->layer == 0) {
		memcpy(o->slots, a->slots, (size_t)a->n_tokens * sizeof *o->slots);
		for (int i = 0; i < o->n_sequences; i++)
			sequence_written(o, &o->sequences[i], a->slots);
	}
	if (!layer_same(&a->layer, &o->pool->layers[o->layer]))
		all_poison(o);
	o->inner->qkv_finish(b, a);
	for (int t = 0; o->layer == 0 && t < a->n_tokens; t++)
		values_note(o, o->pool, a->slots[t], o->pool->slots[a->slots[t]].writer);
}

/* ---- the step: reads ---- */

static bool table_inside(struct oracle *o, const struct attend_args *a, int b)
{
	int count = a->cu_seqlens[b + 1] - a->cu_seqlens[b], page_size = a->geometry.page_size;
	int64_t end = (int64_t)a->first_position[b] + count;

	if (a->first_position[b] < 0 || (end + page_size - 1) / page_size > a->table_stride) {
		trap(o, "a read beyond a block table");
		return false;
	}
	for (int64_t i = 0; i * page_size < end; i++)
		if (!page_inside(o->pool, a->block_tables[(int64_t)b * a->table_stride + i])) {
			trap(o, "a read of a page outside of the cache");
			return false;
		}
	return true;
}

/* The reader of one sequence: what its tokens demand, position by position. */
struct reader {
	struct oracle *oracle;
	struct oracle_sequence *sequence;
	const int32_t *table;
	uint64_t text;
	bool bad, foreign;
	uint64_t from;
};

static void position_read(struct reader *r, int j)
{
	const struct oracle_sequence *s = r->sequence;
	struct oracle *o = r->oracle;
	int page_size = o->pool->pool->geometry.page_size;
	const struct oracle_slot *slot = slot_at(o->pool, r->table[j / page_size], j % page_size);
	bool known = j < s->stands + s->count;

	o->reads++;
	page_touch(o, o->pool, s->request, r->table[j / page_size]);
	if (known)
		r->text = oracle_chain(r->text, s->own[j], j);
	if (known && slot->chain == r->text)
		return;
	o->bad_reads++;
	r->bad = true;
	bool other = slot->writer != 0 && slot->writer != s->request && (!known || slot->text != r->text);
	if ((other || slot->foreign) && !r->foreign) {
		r->foreign = true;
		r->from = slot->writer;
	}
}

static void sequence_read(struct oracle *o, const struct attend_args *a, int b)
{
	struct oracle_sequence *s = &o->sequences[b];
	struct reader r = {.oracle = o, .sequence = s, .table = a->block_tables + (size_t)b * (size_t)a->table_stride};
	int first = a->first_position[b];

	if (s->request == 0 || s->parked)
		return;
	r.bad = first != s->stands;
	for (int j = 0; j < first; j++)
		position_read(&r, j);
	for (int i = 0; i < s->count; i++) {
		position_read(&r, first + i);
		if (r.bad)
			sequence_poison(o, s, s->begin + i, r.foreign, r.from);
	}
}

static void watch_attend(struct backend *b, const struct attend_args *a)
{
	struct oracle *o = watcher(b);

	for (int i = 0; !o->trap && i < o->n_sequences; i++)
		if (table_inside(o, a, i) && o->layer == 0)
			sequence_read(o, a, i);
	if (o->trap)
		return;
	if (!layer_same(&a->layer, &o->pool->layers[o->layer]))
		all_poison(o);
	o->inner->attend(b, a);
	o->layer++;
}

static void watch_embed(struct backend *b, const struct embed_args *a)
{
	struct oracle *o = watcher(b);

	o->layer = 0;
	o->ids = a->ids;
	o->inner->embed(b, a);
}

static void watch_rope_table(struct backend *b, const struct rope_table_args *a)
{
	struct oracle *o = watcher(b);

	o->positions = a->positions;
	o->inner->rope_table(b, a);
}

static int watch_finish(struct backend *b, struct error *e)
{
	struct oracle *o = watcher(b);

	TRY(o->inner->finish(b, e));
	return o->trap ? error_set(e, ERR_DEVICE, "illegal memory access: %s", o->trap) : 0;
}

/* ---- copies ---- */

static void page_copied(struct oracle *o, const struct oracle_pool *from, struct oracle_pool *to, int32_t source,
	int32_t target, int n_tokens)
{
	for (int i = 0; i < n_tokens; i++) {
		int64_t slot = (int64_t)target * to->pool->geometry.page_size + i;
		to->slots[slot] = *slot_at(from, source, i);
		values_note(o, to, slot, to->slots[slot].writer);
	}
}

static void page_poison(struct oracle *o, struct oracle_pool *to, int32_t target, int n_tokens)
{
	for (int i = 0; i < n_tokens; i++)
		slot_at(to, target, i)->chain = poison_next(o);
}

static void watch_copy_pages(struct backend *b, const struct copy_pages_args *a)
{
	struct oracle *o = watcher(b);
	int from_layer = 0, to_layer = 0;
	struct oracle_pool *from = pool_of(o, a->from.k, &from_layer), *to = pool_of(o, a->to.k, &to_layer);

	for (int i = 0; from && to && i < a->n; i++)
		if (!page_inside(from, a->source[i]) || !page_inside(to, a->target[i]))
			trap(o, "a copy of a page outside of the cache");
	if (o->trap)
		return;
	o->inner->copy_pages(b, a);
	if (!from || !to)
		return; /* a guard compares with a copy of its own */
	bool right = from_layer == to_layer && layer_same(&a->from, &from->layers[from_layer]) &&
		layer_same(&a->to, &to->layers[to_layer]);
	for (int i = 0; i < a->n; i++) {
		if (to_layer == 0)
			page_copied(o, from, to, a->source[i], a->target[i], a->n_tokens);
		if (!right)
			page_poison(o, to, a->target[i], a->n_tokens);
	}
}

/* ---- uploads: values that come from nowhere ---- */

static bool slot_changes(const struct oracle_pool *p, const char *there, const char *values, int offset)
{
	const struct kv_geometry *g = &p->pool->geometry;
	size_t bytes = (size_t)g->head_dim * kv_format_size(p->pool->format);

	for (int head = 0; head < g->n_kv_heads; head++) {
		size_t at = (size_t)head * head_bytes(p->pool) + (size_t)offset * bytes;
		if (memcmp(there + at, values + at, bytes) != 0)
			return true;
	}
	return false;
}

/* One page of K or V of one layer. Values that were written to the cache before are their writer's. */
static void page_uploaded(
	struct oracle *o, struct oracle_pool *p, const char *memory, int64_t page, const char *values, bool first)
{
	const char *there = memory + (size_t)page * page_bytes(p->pool);

	for (int i = 0; i < p->pool->geometry.page_size; i++) {
		struct oracle_slot *slot = slot_at(p, page, i);
		if (!slot_changes(p, there, values, i))
			continue;
		slot->chain = poison_next(o);
		if (!first)
			continue;
		uint64_t writer = *written_place(o, values_hash(p, values, i));
		if (writer != 0) {
			slot->writer = writer;
			slot->text = slot->chain;
		}
	}
}

static void watch_upload(struct backend *b, void *device, const void *host, size_t bytes)
{
	struct oracle *o = watcher(b);

	for (int i = 0; i < o->n_pools; i++) {
		struct oracle_pool *p = &o->pools[i];
		size_t page = page_bytes(p->pool), all = page * (size_t)p->pool->geometry.n_pages;
		for (int l = 0; l < 2 * p->pool->n_layers; l++) {
			const char *memory = l % 2 ? p->layers[l / 2].v : p->layers[l / 2].k;
			size_t at = (size_t)((uintptr_t)device - (uintptr_t)memory);
			if (at < all && at % page == 0 && bytes == page)
				page_uploaded(o, p, memory, (int64_t)(at / page), host, l == 0);
		}
	}
	o->inner->upload(b, device, host, bytes);
}

/* ---- between the engine and its guard ---- */

static int watch_open(void *context, const struct kv_guard_layout *layout, void **state, struct error *e)
{
	struct oracle *o = context;
	struct oracle_pool *p = &o->pools[o->n_pools];
	const struct kv_pool *pool = layout->pool;

	if (o->n_pools == 2 || layout->latent)
		return error_set(e, ERR_USAGE, "the oracle watches one or two caches of K and V");
	*p = (struct oracle_pool){.oracle = o, .pool = pool};
	p->layers = mem_calloc((size_t)pool->n_layers, sizeof *p->layers, e);
	p->slots = mem_calloc((size_t)pool->geometry.n_pages * (size_t)pool->geometry.page_size, sizeof *p->slots, e);
	p->marked = mem_calloc((size_t)pool->geometry.n_pages, 1, e);
	int status = p->layers && p->slots && p->marked ? o->guard->open(o->guard->context, layout, &p->guard_state, e)
							: ERR_MEMORY;
	if (status < 0) {
		free(p->layers);
		free(p->slots);
		free(p->marked);
		return status;
	}
	memcpy(p->layers, pool->layers, (size_t)pool->n_layers * sizeof *p->layers);
	o->n_pools++;
	*state = p;
	return 0;
}

static void watch_close(void *state)
{
	struct oracle_pool *p = state;
	struct oracle *oracle = p->oracle;

	oracle->guard->close(p->guard_state);
	free(p->layers);
	free(p->slots);
	free(p->marked);
	*p = (struct oracle_pool){0};
	oracle->n_pools = 0; /* the engine goes */
}

static void watch_scales_set(void *state, int layer, float k_scale, float v_scale)
{
	struct oracle_pool *p = state;

	p->layers[layer].k_scale = k_scale;
	p->layers[layer].v_scale = v_scale;
	p->oracle->guard->scales_set(p->guard_state, layer, k_scale, v_scale);
}

static void batch_begin(struct oracle *o, struct oracle_pool *p, const struct kv_guard_batch *batch)
{
	o->pool = p;
	o->n_sequences = batch->n_sequences;
	for (int b = 0; b < batch->n_sequences; b++)
		o->sequences[b] = (struct oracle_sequence){.request = batch->request[b],
			.own = batch->own[b],
			.begin = batch->cu_seqlens[b],
			.count = batch->cu_seqlens[b + 1] - batch->cu_seqlens[b],
			.stands = request_at(o, batch->request[b])->stands};
}

/* Whoever maps a page that the fault concerns has to do with it, also when a guard stops it before it reads. */
static void tables_touch(struct oracle *o, struct oracle_pool *p, const struct kv_guard_batch *batch)
{
	int page_size = p->pool->geometry.page_size;

	for (int b = 0; b < batch->n_sequences; b++) {
		const int32_t *table = batch->block_tables + (size_t)b * (size_t)batch->table_stride;
		int64_t end = (int64_t)batch->first_position[b] + batch->cu_seqlens[b + 1] - batch->cu_seqlens[b];
		for (int i = 0; i < batch->table_stride && (int64_t)i * page_size < end; i++)
			page_touch(o, p, batch->request[b], table[i]);
	}
}

static void batch_end(struct oracle *o, const struct kv_guard_batch *batch, const uint8_t *bad)
{
	for (int b = 0; b < batch->n_sequences; b++)
		if (batch->request[b] != 0 && !bad[b])
			request_at(o, batch->request[b])->stands += o->sequences[b].count;
}

static int watch_verify(
	void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad, struct error *e)
{
	struct oracle_pool *p = state;
	struct oracle *o = p->oracle;

	if (batch->n_sequences > ORACLE_SEQUENCES || batch->n_tokens > ORACLE_TOKENS)
		return error_set(e, ERR_USAGE, "the oracle watches at most %d sequences and %d tokens of a step",
			ORACLE_SEQUENCES, ORACLE_TOKENS);
	if (phase == KV_GUARD_BEFORE_READ) {
		batch_begin(o, p, batch);
		tables_touch(o, p, batch);
	}
	TRY(o->guard->verify(p->guard_state, phase, batch, bad, e));
	for (int b = 0; phase == KV_GUARD_BEFORE_READ && b < batch->n_sequences; b++)
		o->sequences[b].parked = bad[b];
	if (phase == KV_GUARD_BEFORE_PUBLISH)
		batch_end(o, batch, bad);
	return 0;
}

static void watch_page_mapped(void *state, uint64_t request, int logical, int32_t page)
{
	struct oracle_pool *p = state;

	page_touch(p->oracle, p, request, page);
	p->oracle->guard->page_mapped(p->guard_state, request, logical, page);
}

static void watch_page_allocated(void *state, int32_t page, uint64_t request)
{
	struct oracle_pool *p = state;

	if (page_inside(p, page))
		p->marked[page] = 0;
	p->oracle->guard->page_allocated(p->guard_state, page, request);
}

static void watch_page_indexed(void *state, const struct kv_guard_key *key)
{
	struct oracle_pool *p = state;
	const struct fault_mark *mark = p->oracle->mark;

	if (mark && mark->indexer == key->request && page_inside(p, key->page))
		p->marked[key->page] = 1;
	p->oracle->guard->page_indexed(p->guard_state, key);
}

static int watch_copy_begin(void *state, const struct kv_guard_copy *copy, struct error *e)
{
	struct oracle_pool *p = state;

	page_touch(p->oracle, p, copy->request, copy->source);
	return p->oracle->guard->copy_begin(p->guard_state, copy, e);
}

static int watch_request_admitted(void *state, const struct kv_guard_admission *admission, struct error *e)
{
	struct oracle_pool *p = state;
	struct oracle *o = p->oracle;
	struct oracle_request *r = request_at(o, admission->request);

	r->stands = admission->n_ready;
	if (o->mark && o->mark->next && !o->next_taken_in)
		r->touched = o->next_taken_in = true;
	return p->oracle->guard->request_admitted(p->guard_state, admission, e);
}

static int watch_transfer_read(
	void *state, enum kv_guard_phase phase, uint64_t request, const int32_t *pages, int n_tokens, struct error *e)
{
	struct oracle_pool *p = state;
	int page_size = p->pool->geometry.page_size;

	for (int i = 0; i * page_size < n_tokens; i++)
		page_touch(p->oracle, p, request, pages[i]);
	return p->oracle->guard->transfer_read(p->guard_state, phase, request, pages, n_tokens, e);
}

static void watch_transfer_sent(void *state, const struct kv_guard_transfer *transfer)
{
	struct oracle_pool *p = state;
	struct kv_guard_transfer inner = *transfer;

	if (transfer->from)
		inner.from = ((const struct oracle_pool *)transfer->from)->guard_state;
	p->oracle->guard->transfer_sent(p->guard_state, &inner);
}

static int watch_transfer_received(void *state, const struct kv_guard_transfer *transfer, struct error *e)
{
	struct oracle_pool *p = state;
	struct kv_guard_transfer inner = *transfer;

	inner.from = ((const struct oracle_pool *)transfer->from)->guard_state;
	return p->oracle->guard->transfer_received(p->guard_state, &inner, e);
}

/* ---- what is handed on as it is ---- */

static const struct kv_guard *behind(void *state)
{
	return ((struct oracle_pool *)state)->oracle->guard;
}

static void *state_behind(void *state)
{
	return ((struct oracle_pool *)state)->guard_state;
}

static int pass_reserve(void *state, int max_requests, int table_stride, struct error *e)
{
	return behind(state)->reserve(state_behind(state), max_requests, table_stride, e);
}

static void pass_step_begin(void *state, uint64_t tick)
{
	behind(state)->step_begin(state_behind(state), tick);
}

static void pass_page_freed(void *state, int32_t page, uint64_t request)
{
	behind(state)->page_freed(state_behind(state), page, request);
}

static void pass_page_unindexed(void *state, int32_t page)
{
	behind(state)->page_unindexed(state_behind(state), page);
}

static void pass_copy_end(void *state, const struct kv_guard_copy *copy)
{
	behind(state)->copy_end(state_behind(state), copy);
}

static int pass_page_standing(void *state, uint64_t request, int logical, int32_t page)
{
	return behind(state)->page_standing(state_behind(state), request, logical, page);
}

static void pass_request_released(void *state, uint64_t request)
{
	behind(state)->request_released(state_behind(state), request);
}

static void pass_not_validated(void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, int b)
{
	behind(state)->not_validated(state_behind(state), phase, batch, b);
}

static void pass_audit(void *state)
{
	behind(state)->audit(state_behind(state));
}

static void guard_wrap(struct oracle *o)
{
	o->table = (struct kv_guard){.level = o->guard->level,
		.enforces = o->guard->enforces,
		.context = o,
		.open = watch_open,
		.reserve = pass_reserve,
		.close = watch_close,
		.step_begin = pass_step_begin,
		.scales_set = watch_scales_set,
		.page_allocated = watch_page_allocated,
		.page_freed = pass_page_freed,
		.page_mapped = watch_page_mapped,
		.page_indexed = watch_page_indexed,
		.page_unindexed = pass_page_unindexed,
		.copy_begin = watch_copy_begin,
		.copy_end = pass_copy_end,
		.request_admitted = watch_request_admitted,
		.page_standing = pass_page_standing,
		.request_released = pass_request_released,
		.verify = watch_verify,
		.not_validated = pass_not_validated,
		.transfer_read = watch_transfer_read,
		.transfer_sent = watch_transfer_sent,
		.transfer_received = watch_transfer_received,
		.audit = pass_audit};
}

void oracle_init(struct oracle *o, struct backend *backend, const struct kv_guard *guard, const struct fault_mark *mark)
{
	memset(o, 0, sizeof *o);
	o->ops = *backend->ops;
	o->inner = backend->ops;
	o->guard = guard;
	o->mark = mark;
	o->ops.finish = watch_finish;
	o->ops.upload = watch_upload;
	o->ops.embed = watch_embed;
	o->ops.rope_table = watch_rope_table;
	o->ops.qkv_finish = watch_qkv_finish;
	o->ops.attend = watch_attend;
	o->ops.copy_pages = watch_copy_pages;
	backend->ops = &o->ops;
	guard_wrap(o);
}
