#include "engine/sched/scheduler.h"

#include <stdlib.h>

/* ---- life ---- */

static struct instance *prefill(struct scheduler *s)
{
	return &s->instances[0];
}

static struct instance *decode(struct scheduler *s)
{
	return &s->instances[s->n_instances - 1];
}

static int instances_init(struct scheduler *s, const struct scheduler_part *parts, int n_parts, struct error *e)
{
	for (int i = 0; i < n_parts; i++) {
		struct instance *in = &s->instances[s->n_instances++];
		TRY(instance_init(in, parts[i].models, parts[i].pool, parts[i].writer, &s->stats, e));
		in->caching = !s->limits.no_prefix_cache;
		in->prompts_only = i < n_parts - 1;
		in->prompts_arrive = i > 0;
		in->max_requests = s->limits.max_requests;
	}
	return 0;
}

int scheduler_init(struct scheduler *s, struct ranks *ranks, const struct scheduler_part *parts, int n_parts,
	const struct tokenizer *tokenizer, const struct scheduler_limits *limits, struct error *e)
{
	int page_size = parts[0].pool->geometry.page_size, stride = 0;

	*s = (struct scheduler){.ranks = ranks, .tokenizer = tokenizer, .limits = *limits};
	inbox_init(&s->inbox);
	TRY(instances_init(s, parts, n_parts, e));
	for (int i = 0; i < n_parts; i++)
		stride = kv_pool_usable(parts[i].pool) > stride ? kv_pool_usable(parts[i].pool) : stride;
	int longest = (limits->max_positions + page_size - 1) / page_size;
	stride = longest < stride ? longest : stride;
	for (int i = 0; i < n_parts; i++)
		TRY(parts[i].pool->guard->reserve(parts[i].pool->guard_state, limits->max_requests, stride, e));
	return batch_init(&s->batch, limits->max_batch_tokens, limits->max_requests, stride, e);
}

void scheduler_free(struct scheduler *s)
{
	for (int i = 0; i < s->n_instances; i++)
		instance_free(&s->instances[i]);
	inbox_free(&s->inbox);
	request_list_free(&s->waiting);
	request_list_free(&s->done);
	batch_free(&s->batch);
	*s = (struct scheduler){0};
}

/* ---- submission ---- */

/* The last token that is generated is never read back, nor is the last of a prompt that is only scored: neither needs a
 * slot. */
static int64_t slots_needed(const struct engine_request *r)
{
	return (int64_t)r->n_tokens + r->max_tokens - (r->max_tokens == 0 && r->rows ? 0 : 1);
}

static int request_check_pages(struct scheduler *s, const struct engine_request *r, struct error *e)
{
	int64_t slots = slots_needed(r);

	if (slots > s->limits.max_positions)
		return error_set(e, ERR_LIMIT, "%d prompt tokens and %d to generate exceed the model's context of %d",
			r->n_tokens, r->max_tokens, s->limits.max_positions);
	for (int i = 0; i < s->n_instances; i++) {
		const struct instance *in = &s->instances[i];
		int64_t here = in->prompts_only && slots > r->n_tokens ? r->n_tokens : slots;
		if (instance_pages(in, (int)here) > kv_pool_usable(in->pool))
			return error_set(e, ERR_LIMIT, "%lld tokens need %d KV pages of %d tokens; the pool has %d",
				(long long)here, instance_pages(in, (int)here), in->pool->geometry.page_size,
				kv_pool_usable(in->pool));
	}
	return 0;
}

static int request_check(struct scheduler *s, const struct engine_request *r, struct error *e)
{
	int vocab = prefill(s)->models->config->vocab_size;

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
	return request_check_pages(s, r, e);
}

int scheduler_submit(struct scheduler *s, const struct engine_request *r, uint64_t *id, struct error *e)
{
	TRY(request_check(s, r, e));
	*id = inbox_next_id(&s->inbox);

	struct request *request = request_new(r, *id, prefill(s)->models->config->vocab_size, e);
	if (!request)
		return ERR_MEMORY;
	size_t pages = (size_t)instance_pages(prefill(s), (int)slots_needed(r));
	request->map.pages = mem_calloc(pages, sizeof(int32_t), e);
	request->spare_pages = s->n_instances > 1 ? mem_calloc(pages, sizeof(int32_t), e) : NULL;
	if (!request->map.pages || (s->n_instances > 1 && !request->spare_pages)) {
		request_delete(request);
		return ERR_MEMORY;
	}
	inbox_put(&s->inbox, request);
	return 0;
}

void scheduler_abort(struct scheduler *s, uint64_t id)
{
	inbox_abort(&s->inbox, id);
}

static void incoming_take(struct scheduler *s)
{
	struct request_list *running[2];

	for (int i = 0; i < s->n_instances; i++)
		running[i] = &s->instances[i].running;
	inbox_take(&s->inbox, &s->waiting, running, s->n_instances);
}

/* ---- ends ---- */

/* Withdrawals, deadlines, and prompts that are only scored: those end when they are computed; one of a single token has
 * nothing to compute. */
static void end_check(const struct instance *in, struct request *r, double now)
{
	if (r->aborted)
		request_end(r, ENGINE_ABORTED);
	else if (r->deadline > 0.0 && now >= r->deadline)
		request_end(r, ENGINE_DEADLINE);
	else if (in && r->max_tokens == 0 && instance_pending(in, r) <= 0)
		request_end(r, ENGINE_LENGTH);
}

static void running_sweep(struct scheduler *s)
{
	double now = clock_seconds();

	for (int i = 0; i < s->n_instances; i++) {
		struct instance *in = &s->instances[i];
		for (struct request *r = in->running.first, *next; r; r = next) {
			next = r->next;
			end_check(in, r, now);
			if (!r->ended)
				continue;
			instance_release(in, r, r->finish == ENGINE_STOP || r->finish == ENGINE_LENGTH);
			request_list_push(&s->done, r);
		}
	}
}

static void waiting_sweep(struct scheduler *s)
{
	double now = clock_seconds();

	for (struct request *r = s->waiting.first, *next; r; r = next) {
		next = r->next;
		end_check(NULL, r, now);
		if (!r->ended)
			continue;
		request_list_remove(&s->waiting, r);
		request_list_push(&s->done, r);
	}
}

/* ---- admission ---- */

/* Nothing runs in the instance that could give pages up, and the request still finds too few: some are lost, or stay in
 * quarantine. It gets one more step, without what is in the prefix cache, in which the guard may readmit those of the last.
 * True when that is so. */
static bool stuck_fail(struct instance *in, struct request *r)
{
	if (in->running.count > 0)
		return false;
	if (r->stuck) {
		error_set(&r->error, ERR_LIMIT, "%d tokens need %d KV pages: %d can be had, %d are in quarantine",
			r->n_tokens, instance_pages(in, r->n_tokens), kv_pool_available(in->pool),
			in->pool->n_quarantined);
		request_end(r, ENGINE_FAILED);
	}
	radix_cache_make_room(&in->cache, kv_pool_usable(in->pool));
	r->stuck = true;
	return true;
}

static int common_prefix(const struct request *a, const struct request *b, int most)
{
	int n = a->n_prompt < b->n_prompt ? a->n_prompt : b->n_prompt, i = 0;

	n = n < most ? n : most;
	while (i < n && a->tokens[i] == b->tokens[i])
		i++;
	return i;
}

/* What a waiting request would find in the cache once a running one has computed its prompt: whole pages, and the rest
 * too when that one ends there. */
static int prefix_from(const struct instance *in, const struct request *r, const struct request *running, int most)
{
	int shared = common_prefix(r, running, most), page_size = in->pool->geometry.page_size;
	return running->max_tokens == 0 ? shared : shared / page_size * page_size;
}

/* Whether r should wait for a running request that computes a prefix of both. It does where that saves at least a page
 * and a quarter of what is left to compute, so that a row of prompts that each go a little further do not wait for one
 * another in turn. */
static bool held_back(struct instance *in, struct request *r)
{
	int page_size = in->pool->geometry.page_size;
	const struct request *for_it = r->held_for ? request_list_find(&in->running, r->held_for) : NULL;

	if (!in->caching)
		return false;
	if (for_it && for_it->n_computed < r->held_until)
		return true;
	r->held_for = 0;
	int end = instance_read_end(in, r), row = request_first_row(r), most = row < end ? row : end;
	int there = -1;
	for (const struct request *q = in->running.first; q; q = q->next) {
		int shared = prefix_from(in, r, q, most);
		if (q->n_computed >= shared)
			continue;
		if (there < 0)
			there = radix_cache_match(&in->cache, in->writer, r->tokens, most, r->map.pages).n_tokens;
		int saved = shared - there;
		if (saved < page_size || 4 * saved < end - there)
			continue;
		r->held_for = q->id;
		r->held_until = shared;
		return true;
	}
	return false;
}

/* True when a request is to be tried again although nothing runs. */
static bool waiting_admit(struct scheduler *s)
{
	struct instance *in = prefill(s);

	for (struct request *r = s->waiting.first, *next; r && in->running.count < in->max_requests; r = next) {
		next = r->next;
		if (held_back(in, r))
			continue;
		request_list_remove(&s->waiting, r);
		if (!instance_admit(in, r)) {
			request_list_insert(&s->waiting, r);
			return stuck_fail(in, r);
		}
		r->stuck = false;
	}
	return false;
}

/* Requests whose prompt is computed go where they are continued, as far as there is room. */
static bool prompts_hand_over(struct scheduler *s)
{
	bool any = false;

	if (s->n_instances == 1)
		return false;
	for (struct request *r = prefill(s)->running.first, *next; r; r = next) {
		next = r->next;
		if (r->ended || instance_pending(prefill(s), r) > 0)
			continue;
		if (!instance_receive(decode(s), prefill(s), r))
			return stuck_fail(decode(s), r) || any;
		r->stuck = false;
		any = true;
	}
	return any;
}

/* ---- growth ---- */

static void preempt(struct scheduler *s, struct instance *in, struct request *r)
{
	instance_release(in, r, true);
	r->preemptions++;
	s->stats.preemptions++;
	request_list_insert(&s->waiting, r);
}

/* Every running request gets the page that it needs next, the oldest first, from the youngest where none is left. */
static void running_grow(struct scheduler *s, struct instance *in)
{
	for (struct request *r = in->running.first, *next; r; r = next) {
		while (!instance_grow(in, r)) {
			struct request *youngest = in->running.last;
			preempt(s, in, youngest);
			if (youngest == r)
				return;
		}
		next = r->next;
	}
}

/* ---- the step ---- */

/* Decode tokens first (a running answer never waits for a prompt), then prefill chunks in order of submission. */
static void batch_build(struct scheduler *s, struct instance *in)
{
	struct batch *b = &s->batch;

	batch_clear(b);
	for (int chunks = 0; chunks <= 1; chunks++) {
		for (struct request *r = in->running.first; r; r = r->next) {
			int pending = instance_pending(in, r), room = b->max_tokens - b->forward.n_tokens;
			if (pending <= 0 || (pending > 1) != (chunks == 1) || room == 0)
				continue;
			int count = pending < s->limits.chunk ? pending : s->limits.chunk;
			batch_add(b, in, r, count < room ? count : room);
		}
	}
	if (s->limits.pad_decode && b->forward.n_tokens > 0)
		batch_pad(b, in->pool);
}

/* A sequence that the guard did not stamp in this very call was not checked: it counts as bad. */
static void unchecked_withhold(
	const struct batch *b, const struct kv_pool *pool, enum kv_guard_phase phase, const struct kv_guard_batch *view)
{
	for (int i = 0; i < view->n_sequences; i++) {
		if (b->bad[i] || b->validated[i] == view->epoch)
			continue;
		pool->guard->not_validated(pool->guard_state, phase, view, i);
		b->bad[i] = 1;
	}
}

static int guard_verify(struct scheduler *s, struct instance *in, enum kv_guard_phase phase, struct error *e)
{
	const struct forward_batch *batch = &s->batch.forward;
	const struct kv_guard *guard = in->pool->guard;
	struct kv_guard_batch view = {.step = s->stats.steps,
		.epoch = ++s->epoch,
		.n_sequences = batch->n_sequences,
		.n_tokens = batch->n_tokens,
		.request = s->batch.request_ids,
		.cu_seqlens = batch->cu_seqlens,
		.first_position = batch->first_position,
		.block_tables = batch->block_tables,
		.table_stride = batch->table_stride,
		.slots = batch->slots,
		.tokens = batch->ids,
		.positions = batch->positions,
		.own = s->batch.own,
		.emitted = s->batch.emitted,
		.validated = s->batch.validated};
	TRY(guard->verify(in->pool->guard_state, phase, &view, s->batch.bad, e));
	if (guard->enforces)
		unchecked_withhold(&s->batch, in->pool, phase, &view);
	return 0;
}

static void tokens_count(struct scheduler *s, struct request *r, int count)
{
	int end = r->n_computed + count, seen = r->n_seen > r->n_computed ? r->n_seen : r->n_computed;
	int again = (seen < end ? seen : end) - r->n_computed;
	int prompt = (end < r->n_prompt ? end : r->n_prompt) - seen;

	s->stats.replayed_tokens += (uint64_t)again;
	s->stats.prompt_tokens += (uint64_t)(prompt > 0 ? prompt : 0);
	r->n_seen = end > r->n_seen ? end : r->n_seen;
	r->n_computed = end;
}

static void publish(struct scheduler *s, struct instance *in)
{
	const struct model_config *c = in->models->config;
	struct batch *b = &s->batch;

	for (int i = 0; i < b->forward.n_sequences; i++) {
		struct request *r = b->scheduled[i];
		if (!r)
			continue;
		tokens_count(s, r, b->cu_seqlens[i + 1] - b->cu_seqlens[i]);
		if (!b->bad[i])
			continue;
		error_set(&r->error, ERR_DEVICE, "the %s guard withheld the output: a page may not be this request's",
			in->pool->guard->level);
		r->suspect = true;
		request_end(r, ENGINE_FAILED);
	}
	for (int i = 0; i < b->forward.n_rows; i++) {
		struct request *r = b->scheduled[b->row_sequence[i]];
		if (r->ended)
			continue;
		s->stats.generated_tokens += b->rows[i].sample;
		request_take_row(r, b->row_position[i], &b->rows[i], s->tokenizer, c->eos_tokens, c->n_eos_tokens);
	}
	for (int i = 0; i < b->forward.n_sequences; i++)
		if (b->scheduled[i] && !b->scheduled[i]->ended)
			instance_index(in, b->scheduled[i]);
}

static int instance_step(struct scheduler *s, struct instance *in, bool *worked, struct error *e)
{
	int page_size = in->pool->geometry.page_size;

	running_grow(s, in);
	batch_build(s, in);
	if (s->batch.forward.n_tokens == 0)
		return 0;
	*worked = true;
	fault_at(in->pool->faults, FAULT_STEP, in->pool, 0, (int64_t)s->ticks, 0);
	TRY(guard_verify(s, in, KV_GUARD_BEFORE_READ, e));
	batch_park_bad(&s->batch, page_size);
	TRY(ranks_forward(s->ranks, in->models, in->pool, &s->batch.forward, &s->stats.kv_saturated, e));
	TRY(guard_verify(s, in, KV_GUARD_BEFORE_PUBLISH, e));
	publish(s, in);
	return 0;
}

static void stats_renew(struct scheduler *s)
{
	struct engine_stats *stats = &s->stats;

	stats->waiting = s->waiting.count;
	stats->running = stats->pages_used = stats->pages_cached = 0;
	stats->pages_evicted = 0;
	for (int i = 0; i < s->n_instances; i++) {
		const struct instance *in = &s->instances[i];
		stats->running += in->running.count;
		stats->pages_used += kv_pool_in_use(in->pool);
		stats->pages_cached += in->pool->n_idle;
		stats->pages_evicted += in->cache.evicted;
	}
	if (stats->pages_used > stats->pages_used_peak)
		stats->pages_used_peak = stats->pages_used;
}

int scheduler_step(struct scheduler *s, bool *idle, struct error *e)
{
	bool worked = false;

	s->ticks++;
	for (int i = 0; i < s->n_instances; i++)
		s->instances[i].pool->guard->step_begin(s->instances[i].pool->guard_state, s->ticks);
	incoming_take(s);
	waiting_sweep(s);
	running_sweep(s);
	worked = prompts_hand_over(s);
	worked |= waiting_admit(s);
	running_sweep(s); /* what had nothing to compute */
	for (int i = 0; i < s->n_instances; i++) {
		TRY(instance_step(s, &s->instances[i], &worked, e));
		stats_renew(s);
		running_sweep(s);
		worked |= i == 0 && prompts_hand_over(s);
	}
	s->stats.steps += worked;
	*idle = !worked;
	stats_renew(s);
	return 0;
}

struct request *scheduler_take_done(struct scheduler *s)
{
	return request_list_pop(&s->done);
}

void scheduler_cache_clear(struct scheduler *s)
{
	for (int i = 0; i < s->n_instances; i++)
		radix_cache_make_room(&s->instances[i].cache, kv_pool_usable(s->instances[i].pool));
	stats_renew(s);
}
