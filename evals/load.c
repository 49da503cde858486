#include "evals/load.h"

#include <stdlib.h>
#include <time.h>

#include "engine/base/rng.h"
#include "evals/cli.h"

struct loop {
	struct engine *engine;
	const struct load *load;
	struct load_result *result;
	int32_t *tokens; /* [input] the prompt in hand */
	int submitted, finished;
};

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void load_prompt(const struct load *load, uint64_t number, int vocab, int32_t *tokens)
{
	const uint32_t key[2] = {(uint32_t)load->seed, (uint32_t)(load->seed >> 32)};

	for (int i = 0; i < load->input; i++) {
		/* request 0 of the counter is the prefix's own */
		uint64_t request = i < load->shared_prefix ? 0 : number + 1;
		uint32_t counter[4] = {(uint32_t)i, 0, (uint32_t)request, (uint32_t)(request >> 32)}, bits[4];
		philox4x32(counter, key, bits);
		tokens[i] = (int32_t)(((uint64_t)bits[0] * (uint64_t)vocab) >> 32);
	}
}

static int request_submit(struct loop *l, uint64_t *id, struct error *e)
{
	const struct load *load = l->load;

	load_prompt(load, load->first_request + (uint64_t)l->submitted, engine_facts(l->engine)->vocab_size, l->tokens);
	struct engine_request request = {.tokens = l->tokens,
		.n_tokens = load->input,
		.logprobs_from = -1,
		.max_tokens = load->output,
		.ignore_eos = true};
	TRY(engine_submit(l->engine, &request, id, e));
	l->submitted++;
	return 0;
}

static int latencies_add(struct load_result *out, const struct engine_result *r, struct error *e)
{
	double rest = r->seconds - r->seconds_to_first;

	TRY(distribution_add(&out->ttft, r->seconds_to_first * 1e3, e));
	TRY(distribution_add(&out->e2e, r->seconds * 1e3, e));
	if (r->n_generated > 1)
		TRY(distribution_add(&out->tpot, rest * 1e3 / (r->n_generated - 1), e));
	for (int i = 1; i < r->n_generated; i++)
		TRY(distribution_add(&out->itl, (r->token_seconds[i] - r->token_seconds[i - 1]) * 1e3, e));
	out->latency += r->seconds;
	out->queued_longest = r->seconds_queued > out->queued_longest ? r->seconds_queued : out->queued_longest;
	return 0;
}

static int results_take(struct loop *l, struct error *e)
{
	for (struct engine_result *r; (r = engine_poll(l->engine)); l->finished++) {
		int status = r->finish == ENGINE_FAILED ? error_set(e, r->error.code, "%s", r->error.message)
							: latencies_add(l->result, r, e);
		engine_result_free(r);
		TRY(status);
	}
	return 0;
}

static int step(struct loop *l, struct error *e)
{
	struct engine_stats before, after;
	double start = now();
	bool idle = false;

	engine_stats(l->engine, &before);
	TRY(engine_step(l->engine, &idle, e));
	engine_stats(l->engine, &after);
	struct load_result *out = l->result;
	bool prefilled = after.prompt_tokens > before.prompt_tokens;
	struct load_steps *steps = prefilled ? &out->prefill : &out->decode;
	steps->steps++;
	steps->prompt_tokens += after.prompt_tokens - before.prompt_tokens;
	steps->generated_tokens += after.generated_tokens - before.generated_tokens;
	steps->seconds += now() - start;
	out->running_peak = after.running > out->running_peak ? after.running : out->running_peak;
	return interrupted() ? error_set(e, ERR_INTERRUPTED, "interrupted: what was measured so far is stored") : 0;
}

static int loop_run(struct loop *l, struct error *e)
{
	const struct load *load = l->load;
	struct engine_stats before, after;
	double start = now();
	uint64_t id;

	engine_stats(l->engine, &before);
	while (l->finished < load->requests) {
		while (l->submitted < load->requests && l->submitted - l->finished < load->concurrency)
			TRY(request_submit(l, &id, e));
		TRY(step(l, e));
		TRY(results_take(l, e));
	}
	engine_stats(l->engine, &after);
	l->result->seconds = now() - start;
	l->result->cached_tokens = after.cached_tokens - before.cached_tokens;
	l->result->replayed_tokens = after.replayed_tokens - before.replayed_tokens;
	l->result->preemptions = after.preemptions - before.preemptions;
	return 0;
}

/* What must be in the pages of one instance at a time. */
static int part_check(const struct load *load, const char *what, int64_t tokens, uint64_t held,
	uint64_t bytes_per_token, const struct engine_facts *f, struct error *e)
{
	uint64_t page = (uint64_t)f->page_size, pages = ((uint64_t)tokens + page - 1) / page;

	if ((uint64_t)tokens <= held)
		return 0;
	return error_set(e, ERR_USAGE,
		"--input %d --output %d: %s needs %lld tokens of KV cache; --kv-memory holds %llu there, and would "
		"have to be %llu bytes",
		load->input, load->output, what, (long long)tokens, (unsigned long long)held,
		(unsigned long long)((pages + 1) * page * bytes_per_token)); /* page 0 is reserved */
}

int load_check(const struct load *load, const struct engine_facts *f, struct error *e)
{
	int64_t tokens = (int64_t)load->input + load->output - 1;

	if (tokens > f->max_positions)
		return error_set(e, ERR_USAGE, "--input %d --output %d: the model's context is %d tokens", load->input,
			load->output, f->max_positions);
	TRY(part_check(load, "one request", tokens, f->kv_tokens, f->kv_bytes_per_token, f, e));
	return part_check(load, "one prompt", load->input, f->prefill_kv_tokens, f->prefill_kv_bytes_per_token, f, e);
}

int load_run(struct engine *engine, const struct load *load, struct load_result *out, struct error *e)
{
	struct loop l = {.engine = engine, .load = load, .result = out};

	*out = (struct load_result){0};
	l.tokens = mem_calloc((size_t)load->input, sizeof *l.tokens, e);
	int status = l.tokens ? loop_run(&l, e) : ERR_MEMORY;
	free(l.tokens);
	return status;
}

void load_result_free(struct load_result *r)
{
	distribution_free(&r->ttft);
	distribution_free(&r->itl);
	distribution_free(&r->tpot);
	distribution_free(&r->e2e);
}

/* ---- how many fit ---- */

/* Withdraws what still runs, so that the engine is as it was. */
static int give_up(struct loop *l, const uint64_t *ids, struct error *e)
{
	for (int i = 0; i < l->submitted; i++)
		engine_abort(l->engine, ids[i]);
	while (l->finished < l->submitted) {
		bool idle = false;
		TRY(engine_step(l->engine, &idle, e));
		TRY(results_take(l, e));
	}
	return 0;
}

static int fit_run(struct loop *l, uint64_t *ids, bool *fits, struct error *e)
{
	struct engine_stats before, stats;

	engine_stats(l->engine, &before);
	while (l->submitted < l->load->concurrency)
		TRY(request_submit(l, &ids[l->submitted], e));
	while (l->finished < l->load->concurrency) {
		TRY(step(l, e));
		engine_stats(l->engine, &stats);
		if (stats.waiting > 0 || stats.preemptions > before.preemptions) {
			*fits = false;
			return give_up(l, ids, e);
		}
		TRY(results_take(l, e));
	}
	*fits = true;
	return 0;
}

int load_fits(struct engine *engine, const struct load *load, bool *fits, struct error *e)
{
	struct load_result result = {0};
	struct loop l = {.engine = engine, .load = load, .result = &result};
	uint64_t *ids = mem_calloc((size_t)load->concurrency, sizeof *ids, e);

	l.tokens = mem_calloc((size_t)load->input, sizeof *l.tokens, e);
	int status = ids && l.tokens ? fit_run(&l, ids, fits, e) : ERR_MEMORY;
	free(l.tokens);
	free(ids);
	load_result_free(&result);
	return status;
}
