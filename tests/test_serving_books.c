/* A seeded random workload on a small pool: shared prefixes, withdrawals, preemption, evictions, hand-over, padding. After
 * every step all books of the pages are held against each other (engine_audit); every answer has the bits that the same
 * request had alone; at the end no page is missing. ASSAY_TEST_STEPS=N for more steps, ASSAY_TEST_SEED=N for another
 * workload. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/number.h"
#include "engine/base/rng.h"
#include "tests/engine_support.h"

const char *const test_program_name = "serving_books";

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
	int n_flights, answered, aborted;
};

static int below(struct workload *w, int n)
{
	return (int)py_random_below(&w->rng, (uint64_t)n);
}

static void kind_make(struct workload *w, struct kind *k)
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

static uint64_t bits_mix(uint64_t h, uint64_t value)
{
	h = (h ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 29;
}

static uint64_t answer_bits(const struct engine_result *r)
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
static void kinds_answer(struct workload *w, const char *variant)
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

static void flight_end(struct workload *w, const struct engine_result *r)
{
	int at = 0;
	while (at < w->n_flights && w->flights[at].id != r->id)
		at++;
	ck_assert_int_lt(at, w->n_flights);
	if (r->finish == ENGINE_ABORTED) {
		w->aborted++;
	} else {
		ck_assert_int_ne(r->finish, ENGINE_FAILED);
		ck_assert_msg(answer_bits(r) == w->kinds[w->flights[at].kind].answer, "kind %d has other bits",
			w->flights[at].kind);
		w->answered++;
	}
	w->flights[at] = w->flights[--w->n_flights];
}

static bool workload_step(struct workload *w)
{
	bool idle;

	CHECK_OK(engine_step(w->engine, &idle, &test_error));
	CHECK_OK(engine_audit(w->engine, &test_error));
	for (struct engine_result *r; (r = engine_poll(w->engine));) {
		flight_end(w, r);
		engine_result_free(r);
	}
	return idle;
}

static void workload_act(struct workload *w)
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

static int number_of(const char *variable, int otherwise)
{
	const char *text = getenv(variable);
	return text ? (int)strtol(text, NULL, 10) : otherwise;
}

static const struct {
	const char *name, *variant;
	struct engine_config config;
	int pages;
	bool preempts;
} cases[] = {
	{"plain", "bf16/bf16", {.threads = 1}, 400, false},
	{"small pool", "bf16/fp8", {.threads = 1, .max_requests = 12, .chunk = 9}, 17, true},
	{"split", "bf16/bf16>bf16/fp8", {.threads = 1, .max_requests = 8, .chunk = 20}, 24, true},
	{"split, padded, pages of 4", "bf16/bf16>bf16/fp8", {.threads = 1, .page_size = 4, .pad_decode = true}, 60,
		true},
	{"cache off", "bf16/bf16", {.threads = 1, .no_prefix_cache = true, .pad_decode = true}, 14, true},
};

START_TEST(the_books_agree_after_every_step)
{
	static struct workload w;
	int steps = number_of("ASSAY_TEST_STEPS", 4000) / COUNT(cases), seed = number_of("ASSAY_TEST_SEED", 1);
	struct engine_config config = cases[_i].config;
	struct engine_stats stats;

	w = (struct workload){0};
	py_random_seed(&w.rng, (uint64_t)seed);
	kinds_answer(&w, cases[_i].variant);
	/* by the larger page of a split variant; the other pool then has more of them, less than its prompts need */
	config.kv_memory =
		(uint64_t)(config.page_size ? config.page_size : 16) * 4 * 2 * 2 * 32 * 2 * (uint64_t)cases[_i].pages;
	if (strcmp(cases[_i].variant, "bf16/bf16") != 0)
		config.kv_memory /= 2;
	w.engine = open_with(POCKET, cases[_i].variant, config);
	for (int i = 0; i < steps; i++) {
		workload_act(&w);
		workload_step(&w);
	}
	while (!workload_step(&w))
		;
	ck_assert_int_eq(w.n_flights, 0);
	engine_stats(w.engine, &stats);
	printf("%s, seed %d: %llu steps, %d answered, %d withdrawn; %llu tokens computed, %llu cached, %llu replayed "
	       "in %llu "
	       "preemptions; %llu pages evicted, %llu copied, %llu handed over\n",
		cases[_i].name, seed, (unsigned long long)stats.steps, w.answered, w.aborted,
		(unsigned long long)stats.prompt_tokens, (unsigned long long)stats.cached_tokens,
		(unsigned long long)stats.replayed_tokens, (unsigned long long)stats.preemptions,
		(unsigned long long)stats.pages_evicted, (unsigned long long)stats.pages_copied,
		(unsigned long long)stats.pages_transferred);
	ck_assert_int_gt(w.answered, 0);
	ck_assert_int_gt(w.aborted, 0);
	ck_assert_int_eq(stats.preemptions > 0, cases[_i].preempts);
	ck_assert_int_eq(stats.cached_tokens > 0, !config.no_prefix_cache);
	ck_assert_int_eq(stats.pages_transferred > 0, strchr(cases[_i].variant, '>') != NULL);
	ck_assert_int_eq(stats.pages_used, 0);
	engine_cache_clear(w.engine);
	CHECK_OK(engine_audit(w.engine, &test_error));
	engine_stats(w.engine, &stats);
	ck_assert_int_eq(stats.pages_cached, 0);
	engine_close(w.engine);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *books = test_case(suite, "books", getenv("ASSAY_TEST_STEPS") ? 7200 : 120);

	tcase_add_loop_test(books, the_books_agree_after_every_step, 0, COUNT(cases));
}
