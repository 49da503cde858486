#include "engine/sched/scheduler.h"

#include <stdlib.h>

enum { AUDIT_STEPS = 64 };

/* ---- lists ---- */

static void list_init(struct request_list *l)
{
	l->first = NULL;
	l->last = &l->first;
}

static void list_push(struct request_list *l, struct request *r)
{
	r->next = NULL;
	*l->last = r;
	l->last = &r->next;
}

static struct request *list_pop(struct request_list *l)
{
	struct request *r = l->first;
	if (!r)
		return NULL;
	l->first = r->next;
	if (!l->first)
		l->last = &l->first;
	return r;
}

static void list_free(struct request_list *l)
{
	for (struct request *r; l->last && (r = list_pop(l));)
		request_delete(r);
}

/* ---- life ---- */

int scheduler_init(struct scheduler *s, struct model *model, struct kv_pool *pool, const struct tokenizer *tokenizer,
	const struct scheduler_limits *limits, struct error *e)
{
	size_t tokens = (size_t)limits->max_batch_tokens, requests = (size_t)limits->max_requests;
	int page_size = pool->geometry.page_size, longest = (limits->max_positions + page_size - 1) / page_size;

	*s = (struct scheduler){.model = model,
		.pool = pool,
		.tokenizer = tokenizer,
		.guard = pool->guard,
		.faults = pool->faults,
		.limits = *limits,
		.next_id = 1};
	pthread_mutex_init(&s->mutex, NULL);
	list_init(&s->incoming);
	list_init(&s->waiting);
	list_init(&s->running);
	list_init(&s->done);
	s->table_stride = longest < kv_pool_usable(pool) ? longest : kv_pool_usable(pool);
	s->ids = mem_calloc(tokens, sizeof *s->ids, e);
	s->positions = mem_calloc(tokens, sizeof *s->positions, e);
	s->slots = mem_calloc(tokens, sizeof *s->slots, e);
	s->cu_seqlens = mem_calloc(requests + 1, sizeof *s->cu_seqlens, e);
	s->first_position = mem_calloc(requests, sizeof *s->first_position, e);
	s->counts = mem_calloc(requests, sizeof *s->counts, e);
	s->scheduled = mem_calloc(requests, sizeof *s->scheduled, e);
	s->request_ids = mem_calloc(requests, sizeof *s->request_ids, e);
	s->bad = mem_calloc(requests, sizeof *s->bad, e);
	s->block_tables = mem_calloc(requests * (size_t)s->table_stride, sizeof *s->block_tables, e);
	s->rows = mem_calloc(tokens, sizeof *s->rows, e);
	s->row_sequence = mem_calloc(tokens, sizeof *s->row_sequence, e);
	s->row_position = mem_calloc(tokens, sizeof *s->row_position, e);
	if (!s->ids || !s->positions || !s->slots || !s->cu_seqlens || !s->first_position || !s->counts ||
		!s->scheduled || !s->request_ids || !s->bad || !s->block_tables || !s->rows || !s->row_sequence ||
		!s->row_position)
		return ERR_MEMORY;
	return 0;
}

void scheduler_free(struct scheduler *s)
{
	void *arrays[] = {s->aborts, s->ids, s->positions, s->slots, s->cu_seqlens, s->first_position, s->counts,
		s->scheduled, s->request_ids, s->bad, s->block_tables, s->rows, s->row_sequence, s->row_position};

	list_free(&s->incoming);
	list_free(&s->waiting);
	list_free(&s->running);
	list_free(&s->done);
	for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
		free(arrays[i]);
	pthread_mutex_destroy(&s->mutex);
	*s = (struct scheduler){0};
}

/* ---- submission ---- */

static int pages_needed(const struct scheduler *s, int tokens)
{
	return (tokens + s->pool->geometry.page_size - 1) / s->pool->geometry.page_size;
}

/* The last token that is generated is never read back, nor is the last of a prompt that is only scored: neither needs a
 * slot. */
static int64_t slots_needed(const struct engine_request *r)
{
	return (int64_t)r->n_tokens + r->max_tokens - (r->max_tokens == 0 && r->rows ? 0 : 1);
}

static int request_check(const struct scheduler *s, const struct engine_request *r, struct error *e)
{
	int vocab = s->model->config->vocab_size;

	if (r->n_tokens < 1)
		return error_set(e, ERR_USAGE, "a request needs at least one prompt token");
	for (int i = 0; i < r->n_tokens; i++)
		if (r->tokens[i] < 0 || r->tokens[i] >= vocab)
			return error_set(e, ERR_USAGE, "token %d of the prompt is id %d: expected 0 to %d", i,
				r->tokens[i], vocab - 1);
	if (r->max_tokens < 0 || r->top_logprobs < 0 || r->top_logprobs > 20 || r->top_logprobs > vocab)
		return error_set(e, ERR_USAGE,
			"max_tokens %d, top_logprobs %d: expected at least 0, and at most 20 of the latter",
			r->max_tokens, r->top_logprobs);
	if (r->logprobs_from == 0 || r->logprobs_from > r->n_tokens)
		return error_set(e, ERR_USAGE,
			"log-probabilities from token %d: the first that has one is 1, the prompt has %d tokens",
			r->logprobs_from, r->n_tokens);
	if (r->n_stops > 0 && !s->tokenizer)
		return error_set(e, ERR_USAGE, "stop strings need a tokenizer, and the model's folder has none");
	int64_t slots = slots_needed(r);
	if (slots > s->limits.max_positions)
		return error_set(e, ERR_LIMIT, "%d prompt tokens and %d to generate exceed the model's context of %d",
			r->n_tokens, r->max_tokens, s->limits.max_positions);
	if (pages_needed(s, (int)slots) > kv_pool_usable(s->pool))
		return error_set(e, ERR_LIMIT, "%lld tokens need %d KV pages of %d tokens; the pool has %d",
			(long long)slots, pages_needed(s, (int)slots), s->pool->geometry.page_size,
			kv_pool_usable(s->pool));
	return 0;
}

int scheduler_submit(struct scheduler *s, const struct engine_request *r, uint64_t *id, struct error *e)
{
	TRY(request_check(s, r, e));
	pthread_mutex_lock(&s->mutex);
	*id = s->next_id++;
	pthread_mutex_unlock(&s->mutex);

	struct request *request = request_new(r, *id, s->model->config->vocab_size, e);
	if (!request)
		return ERR_MEMORY;
	request->n_pages = pages_needed(s, (int)slots_needed(r));
	request->pages = mem_calloc((size_t)request->n_pages, sizeof *request->pages, e);
	if (!request->pages) {
		request_delete(request);
		return ERR_MEMORY;
	}
	pthread_mutex_lock(&s->mutex);
	list_push(&s->incoming, request);
	pthread_mutex_unlock(&s->mutex);
	return 0;
}

void scheduler_abort(struct scheduler *s, uint64_t id)
{
	pthread_mutex_lock(&s->mutex);
	if (s->n_aborts == s->aborts_capacity) {
		int capacity = s->aborts_capacity ? 2 * s->aborts_capacity : 16;
		uint64_t *grown = realloc(s->aborts, (size_t)capacity * sizeof *grown);
		if (grown) {
			s->aborts = grown;
			s->aborts_capacity = capacity;
		}
	}
	if (s->n_aborts < s->aborts_capacity)
		s->aborts[s->n_aborts++] = id;
	pthread_mutex_unlock(&s->mutex);
}

static void abort_in(struct request_list *list, uint64_t id)
{
	for (struct request *r = list->first; r; r = r->next)
		r->aborted |= r->id == id;
}

/* Takes what other threads left. */
static void incoming_take(struct scheduler *s)
{
	pthread_mutex_lock(&s->mutex);
	for (struct request *r; (r = list_pop(&s->incoming));) {
		list_push(&s->waiting, r);
		s->n_waiting++;
	}
	for (int i = 0; i < s->n_aborts; i++) {
		abort_in(&s->waiting, s->aborts[i]);
		abort_in(&s->running, s->aborts[i]);
	}
	s->n_aborts = 0;
	pthread_mutex_unlock(&s->mutex);
}

/* ---- admission and release ---- */

static bool request_admit(struct scheduler *s, struct request *r)
{
	if (s->n_running == s->limits.max_requests || kv_pool_available(s->pool) < r->n_pages)
		return false;
	for (int i = 0; i < r->n_pages; i++) {
		r->pages[i] = kv_pool_alloc(s->pool, r->id);
		s->guard->page_mapped(s->guard->context, r->id, i, r->pages[i]);
	}
	s->guard->audit(s->guard->context);
	s->n_running++;
	int used = kv_pool_usable(s->pool) - kv_pool_available(s->pool);
	s->stats.pages_used_peak = used > s->stats.pages_used_peak ? used : s->stats.pages_used_peak;
	return true;
}

static void request_release(struct scheduler *s, struct request *r)
{
	for (int i = 0; i < r->n_pages; i++)
		kv_pool_release(s->pool, r->pages[i], r->id);
	s->guard->request_released(s->guard->context, r->id);
	s->guard->audit(s->guard->context);
	s->n_running--;
	list_push(&s->done, r);
}

/* First come, first served: one that does not fit holds back those behind it, so that none starves. */
static void admit_waiting(struct scheduler *s)
{
	for (struct request *r; (r = s->waiting.first);) {
		if (!r->aborted && !request_admit(s, r))
			return;
		list_pop(&s->waiting);
		s->n_waiting--;
		if (r->aborted) {
			r->finish = ENGINE_ABORTED;
			list_push(&s->done, r);
		} else {
			list_push(&s->running, r);
		}
	}
}

/* Moves requests that have ended out of running. */
static void running_sweep(struct scheduler *s, bool (*ended)(const struct request *))
{
	struct request_list kept;
	list_init(&kept);
	for (struct request *r; (r = list_pop(&s->running));) {
		if (ended(r))
			request_release(s, r);
		else
			list_push(&kept, r);
	}
	s->running = kept;
	if (!kept.first)
		list_init(&s->running);
}

/* ---- the batch ---- */

struct step {
	struct forward_batch batch;
	int n_rows;
};

static void sequence_add(struct scheduler *s, struct step *step, struct request *r, int count)
{
	struct forward_batch *batch = &step->batch;
	int b = batch->n_sequences++, page_size = s->pool->geometry.page_size;
	int32_t *table = s->block_tables + (size_t)b * (size_t)s->table_stride;
	int used = pages_needed(s, r->n_computed + count);

	s->scheduled[b] = r;
	s->request_ids[b] = r->id;
	s->counts[b] = count;
	s->bad[b] = 0;
	s->first_position[b] = (int32_t)fault_at(s->faults, FAULT_LENGTH, r->id, r->n_computed, r->n_computed);
	for (int i = 0; i < used; i++)
		table[i] = (int32_t)fault_at(s->faults, FAULT_TABLE_ENTRY, r->id, i, r->pages[i]);
	for (int i = 0; i < count; i++) {
		int t = batch->n_tokens++, position = r->n_computed + i;
		int64_t slot = (int64_t)r->pages[position / page_size] * page_size + position % page_size;
		s->ids[t] = r->tokens[position];
		s->positions[t] = position;
		s->slots[t] = fault_at(s->faults, FAULT_SLOT, r->id, position, slot);
		if (request_wants_row(r, position, t, &s->rows[step->n_rows])) {
			s->row_sequence[step->n_rows] = b;
			s->row_position[step->n_rows++] = position;
		}
	}
	s->cu_seqlens[b + 1] = batch->n_tokens;
}

/* Decode tokens first (a running answer never waits for a prompt), then prefill chunks in order of admission. */
static void batch_build(struct scheduler *s, struct step *step)
{
	s->cu_seqlens[0] = 0;
	for (int prefill = 0; prefill <= 1; prefill++) {
		for (struct request *r = s->running.first; r; r = r->next) {
			int pending = request_pending(r), room = s->limits.max_batch_tokens - step->batch.n_tokens;
			if (pending == 0 || (pending > 1) != (prefill == 1) || room == 0)
				continue;
			int count = pending < s->limits.chunk ? pending : s->limits.chunk;
			sequence_add(s, step, r, count < room ? count : room);
		}
	}
	step->batch.ids = s->ids;
	step->batch.positions = s->positions;
	step->batch.slots = s->slots;
	step->batch.cu_seqlens = s->cu_seqlens;
	step->batch.first_position = s->first_position;
	step->batch.block_tables = s->block_tables;
	step->batch.table_stride = s->table_stride;
	step->batch.rows = s->rows;
	step->batch.n_rows = step->n_rows;
}

static int guard_verify(
	struct scheduler *s, enum kv_guard_phase phase, const struct forward_batch *batch, struct error *e)
{
	struct kv_guard_batch view = {.step = s->stats.steps,
		.n_sequences = batch->n_sequences,
		.n_tokens = batch->n_tokens,
		.request = s->request_ids,
		.cu_seqlens = batch->cu_seqlens,
		.first_position = batch->first_position,
		.block_tables = batch->block_tables,
		.table_stride = batch->table_stride,
		.slots = batch->slots,
		.tokens = batch->ids};
	return s->guard->verify(s->guard->context, phase, &view, s->bad, e);
}

/* A sequence that failed the check before reading must not be read: its tables are pointed at page 0, which is
 * nobody's. */
static void bad_sequences_park(struct scheduler *s, const struct forward_batch *batch)
{
	for (int b = 0; b < batch->n_sequences; b++) {
		if (!s->bad[b])
			continue;
		memset(s->block_tables + (size_t)b * (size_t)s->table_stride, 0,
			(size_t)s->table_stride * sizeof *s->block_tables);
		for (int t = batch->cu_seqlens[b]; t < batch->cu_seqlens[b + 1]; t++)
			s->slots[t] = s->positions[t] % s->pool->geometry.page_size;
	}
}

/* ---- after the forward pass ---- */

static bool has_ended(const struct request *r)
{
	return r->n_computed < 0;
}

/* A request that has ended is marked by n_computed -1 until the sweep. */
static void mark_ended(struct request *r)
{
	r->n_computed = -1;
}

static void publish(struct scheduler *s, const struct step *step)
{
	const struct model_config *c = s->model->config;

	for (int b = 0; b < step->batch.n_sequences; b++) {
		struct request *r = s->scheduled[b];
		int in_prompt = r->n_prompt - r->n_computed;
		s->stats.prompt_tokens += (uint64_t)(in_prompt < 0 ? 0
				: in_prompt < s->counts[b]         ? in_prompt
								   : s->counts[b]);
		r->n_computed += s->counts[b];
		if (s->bad[b]) {
			error_set(&r->error, ERR_DEVICE, "the %s guard found a page that is not this request's",
				s->guard->level);
			r->finish = ENGINE_FAILED;
			mark_ended(r);
		}
	}
	for (int i = 0; i < step->n_rows; i++) {
		struct request *r = s->scheduled[s->row_sequence[i]];
		if (has_ended(r))
			continue;
		s->stats.generated_tokens += s->rows[i].sample;
		if (request_take_row(r, s->row_position[i], &s->rows[i], s->tokenizer, c->eos_tokens, c->n_eos_tokens))
			mark_ended(r);
	}
}

/* Requests that only score their prompt end when it is computed; one of a single token has nothing to compute. */
static void scored_mark(struct scheduler *s)
{
	for (struct request *r = s->running.first; r; r = r->next) {
		if (has_ended(r) || r->max_tokens > 0 || request_pending(r) > 0)
			continue;
		r->finish = ENGINE_LENGTH;
		mark_ended(r);
	}
}

static void aborts_mark(struct scheduler *s)
{
	for (struct request *r = s->running.first; r; r = r->next) {
		if (!r->aborted)
			continue;
		r->finish = ENGINE_ABORTED;
		mark_ended(r);
	}
}

int scheduler_step(struct scheduler *s, bool *idle, struct error *e)
{
	struct step step = {0};

	incoming_take(s);
	aborts_mark(s);
	running_sweep(s, has_ended);
	admit_waiting(s);
	scored_mark(s);
	running_sweep(s, has_ended);
	batch_build(s, &step);
	*idle = step.batch.n_tokens == 0;
	s->stats.waiting = s->n_waiting;
	s->stats.running = s->n_running;
	s->stats.pages_used = kv_pool_usable(s->pool) - kv_pool_available(s->pool);
	if (*idle)
		return 0;

	TRY(guard_verify(s, KV_GUARD_BEFORE_READ, &step.batch, e));
	bad_sequences_park(s, &step.batch);
	TRY(forward(s->model, s->pool, &step.batch, &s->stats.kv_saturated, e));
	TRY(guard_verify(s, KV_GUARD_BEFORE_PUBLISH, &step.batch, e));
	publish(s, &step);
	scored_mark(s);
	running_sweep(s, has_ended);
	if (++s->stats.steps % AUDIT_STEPS == 0)
		s->guard->audit(s->guard->context);
	return 0;
}

struct request *scheduler_take_done(struct scheduler *s)
{
	return list_pop(&s->done);
}
