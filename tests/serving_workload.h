/* A seeded random workload for the test programs that need one: shared prefixes, withdrawals, preemption, evictions,
 * hand-over, padding, as the engine that it runs on allows. Every answer is compared with the bits that the same request
 * had alone. */
#ifndef ASSAY_TESTS_SERVING_WORKLOAD_H
#define ASSAY_TESTS_SERVING_WORKLOAD_H

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/number.h"
#include "engine/base/rng.h"
#include "tests/engine_support.h"

enum { KINDS = 40, LONGEST = 70, MOST_GENERATED = 24, IN_FLIGHT = 24, FAMILIES = 4 };

/* A request that may be asked again and again, and the bits of its answer. */
struct kind {
	int32_t tokens[LONGEST];
	struct engine_request request;
	bool known;
	uint64_t answer;
};

struct workload {
	struct engine *engine;
	struct py_random rng;
	struct kind kinds[KINDS];
	struct {
		uint64_t id;
		int kind;
	} flights[IN_FLIGHT];
	int n_flights, answered, aborted, failed;
	bool may_fail; /* a request that fails is counted */
};

static inline int below(struct workload *w, int n)
{
	return (int)py_random_below(&w->rng, (uint64_t)n);
}

static inline void kind_make(struct workload *w, struct kind *k)
{
	int family = below(w, FAMILIES), shared = below(w, 40), n = shared + 1 + below(w, LONGEST - 40);

	for (int i = 0; i < n; i++)
		k->tokens[i] = i < shared ? 100 + family * 50 + i : 400 + below(w, 500);
	k->request = (struct engine_request){.tokens = k->tokens,
		.n_tokens = n,
		.logprobs_from = below(w, 2) ? -1 : 1 + below(w, n),
		.max_tokens = below(w, 4) ? 1 + below(w, MOST_GENERATED) : 0,
		.top_logprobs = below(w, 3),
		.sampling = {.temperature = below(w, 2) ? 1.0f : 0.0f, .seed = (uint64_t)below(w, 1000)},
		.ignore_eos = below(w, 2) == 0};
}

static inline uint64_t bits_mix(uint64_t h, uint64_t value)
{
	h = (h ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 29;
}

static inline uint64_t answer_bits(const struct engine_result *r)
{
	int tops = (r->n_prompt_logprobs + r->n_generated) * r->top_logprobs;
	uint64_t h = bits_mix((uint64_t)r->finish, (uint64_t)r->n_generated);

	for (int i = 0; i < r->n_prompt_logprobs; i++)
		h = bits_mix(h, float_bits(r->prompt_logprobs[i]) * UINT64_C(2) + r->prompt_greedy[i]);
	for (int i = 0; i < r->n_generated; i++)
		h = bits_mix(h, (uint64_t)r->tokens[i] << 32 | float_bits(r->logprobs[i]));
	for (int i = 0; i < tops; i++)
		h = bits_mix(h, (uint64_t)r->top_ids[i] << 32 | float_bits(r->top_values[i]));
	return h;
}

/* Each kind alone, in an engine without a prefix cache. */
static inline void kinds_answer(struct workload *w, const char *variant)
{
	struct engine *alone = open_with(
		POCKET, variant, (struct engine_config){.threads = 1, .kv_memory = 8 << 20, .no_prefix_cache = true});
	for (int i = 0; i < KINDS; i++) {
		kind_make(w, &w->kinds[i]);
		struct engine_result *r = ask(alone, &w->kinds[i].request);
		w->kinds[i].answer = answer_bits(r);
		engine_result_free(r);
	}
	engine_close(alone);
}

static inline void flight_end(struct workload *w, const struct engine_result *r)
{
	int at = 0;
	while (at < w->n_flights && w->flights[at].id != r->id)
		at++;
	ck_assert_int_lt(at, w->n_flights);
	if (r->finish == ENGINE_ABORTED) {
		w->aborted++;
	} else if (r->finish == ENGINE_FAILED && w->may_fail) {
		w->failed++;
	} else {
		ck_assert_msg(r->finish != ENGINE_FAILED, "%s", r->error.message);
		ck_assert_msg(answer_bits(r) == w->kinds[w->flights[at].kind].answer, "kind %d has other bits",
			w->flights[at].kind);
		w->answered++;
	}
	w->flights[at] = w->flights[--w->n_flights];
}

static inline bool workload_step(struct workload *w)
{
	bool idle;

	CHECK_OK(engine_step(w->engine, &idle, &test_error));
	if (!w->may_fail)
		CHECK_OK(engine_audit(w->engine, &test_error));
	for (struct engine_result *r; (r = engine_poll(w->engine));) {
		flight_end(w, r);
		engine_result_free(r);
	}
	return idle;
}

static inline void workload_act(struct workload *w)
{
	if (w->n_flights < IN_FLIGHT && below(w, 3) > 0) {
		int kind = below(w, KINDS);
		w->flights[w->n_flights].kind = kind;
		w->flights[w->n_flights++].id = submit(w->engine, &w->kinds[kind].request);
	}
	if (w->n_flights > 0 && below(w, 20) == 0)
		engine_abort(w->engine, w->flights[below(w, w->n_flights)].id);
	if (below(w, 500) == 0)
		engine_cache_clear(w->engine);
}

static inline int number_of(const char *variable, int otherwise)
{
	const char *text = getenv(variable);
	return text ? (int)strtol(text, NULL, 10) : otherwise;
}

static const struct workload_case {
	const char *name, *variant;
	struct engine_config config;
	int pages;
	bool preempts;
} workload_cases[] = {
	{"plain", "bf16/bf16", {.threads = 1}, 400, false},
	{"small pool", "bf16/fp8", {.threads = 1, .max_requests = 12, .chunk = 9}, 17, true},
	{"split", "bf16/bf16>bf16/fp8", {.threads = 1, .max_requests = 8, .chunk = 20}, 24, true},
	{"split, padded, pages of 4", "bf16/bf16>bf16/fp8", {.threads = 1, .page_size = 4, .pad_decode = true}, 60,
		true},
	{"cache off", "bf16/bf16", {.threads = 1, .no_prefix_cache = true, .pad_decode = true}, 14, true},
};

/* The engine of the case, whose pool is small enough for what the case is there for. */
static inline void workload_open(struct workload *w, const struct workload_case *c, uint64_t seed,
	const struct kv_guard *guard, const struct fault_hook *faults)
{
	struct engine_config config = c->config;

	py_random_seed(&w->rng, seed);
	kinds_answer(w, c->variant);
	/* by the larger page of a split variant; the other pool then has more of them, less than its prompts need */
	config.kv_memory =
		(uint64_t)(config.page_size ? config.page_size : 16) * 4 * 2 * 2 * 32 * 2 * (uint64_t)c->pages;
	if (strcmp(c->variant, "bf16/bf16") != 0)
		config.kv_memory /= 2;
	config.guard = guard;
	config.faults = faults;
	w->engine = open_with(POCKET, c->variant, config);
}

/* So many steps in which requests come and go, then until none is left. */
static inline void workload_run(struct workload *w, int steps)
{
	for (int i = 0; i < steps; i++) {
		workload_act(w);
		workload_step(w);
	}
	while (!workload_step(w))
		;
	ck_assert_int_eq(w->n_flights, 0);
}

#endif
