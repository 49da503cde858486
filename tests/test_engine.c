/* The engine: one distinct output whatever surrounds a request, memory, requests, and the interfaces that rooms above
 * fill. */
#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/base/number.h"
#include "engine/kv/fault_hook.h"
#include "engine/kv/kv_guard.h"
#include "tests/engine_support.h"
#include "tests/tiny_model.h"

const char *const test_program_name = "engine";

/* ---- determinism ---- */

static const char *const all_variants[] = {"bf16/f32", "bf16/bf16", "bf16/fp8", "fp8/f32", "fp8/bf16", "fp8/fp8",
	"int4/f32", "int4/bf16", "int4/fp8", "fp8w/bf16", "int4g32/fp8", "int4g64/bf16"};
enum { PROBE_TOKENS = 100, PROBE_GENERATE = 12 };

/* Slow builds take every fifth variant: f32 and fp8 caches, and weights of three formats. */
static int variant_step(void)
{
	return test_build_is_slow() ? 5 : 1;
}

/* Ids that never were text: a walk through the vocabulary. */
static void prompt_make(int32_t *tokens, int n, int seed)
{
	for (int i = 0; i < n; i++)
		tokens[i] = (seed * 131 + i * (17 + seed) + i * i) % 900 + 100;
}

/* The whole output of the probe as bits: prompt log-probabilities, generated ids, their log-probabilities. */
struct probe {
	uint32_t bits[PROBE_TOKENS + 2 * PROBE_GENERATE];
};

static struct engine_request probe_request(int32_t *tokens)
{
	prompt_make(tokens, PROBE_TOKENS, 1);
	return (struct engine_request){.tokens = tokens,
		.n_tokens = PROBE_TOKENS,
		.logprobs_from = 1,
		.max_tokens = PROBE_GENERATE,
		.ignore_eos = true};
}

static struct probe probe_take(const struct engine_result *r)
{
	struct probe p = {{0}};
	ck_assert_int_eq(r->finish, ENGINE_LENGTH);
	ck_assert_int_eq(r->n_generated, PROBE_GENERATE);
	for (int i = 0; i < PROBE_TOKENS - 1; i++)
		p.bits[i] = float_bits(r->prompt_logprobs[i]);
	for (int i = 0; i < PROBE_GENERATE; i++) {
		p.bits[PROBE_TOKENS + i] = (uint32_t)r->tokens[i];
		p.bits[PROBE_TOKENS + PROBE_GENERATE + i] = float_bits(r->logprobs[i]);
	}
	return p;
}

/* The probe among `others` requests of other prompts and lengths, some before and some after it. */
static struct probe probe_among(struct engine *engine, int others)
{
	int32_t tokens[PROBE_TOKENS], other[200];
	struct engine_request r = probe_request(tokens);
	struct probe p = {{0}};
	uint64_t id = 0;

	for (int i = 0; i <= others; i++) {
		int n = 1 + (i * 37) % 190;
		prompt_make(other, n, i + 2);
		if (i == others / 2)
			id = submit(engine, &r);
		else
			submit(engine,
				&(struct engine_request){
					.tokens = other, .n_tokens = n, .logprobs_from = -1, .max_tokens = 1 + i % 9});
	}
	for (int i = 0; i <= others; i++) {
		struct engine_result *result = finish_one(engine);
		if (result->id == id)
			p = probe_take(result);
		engine_result_free(result);
	}
	return p;
}

START_TEST(one_prompt_has_one_output_whatever_surrounds_it)
{
	static const struct {
		const char *name;
		int others;
		struct engine_config config;
	} ways[] = {
		{"alone", 0, {.threads = 1}},
		{"two threads", 0, {.threads = 2}},
		{"with one other", 1, {.threads = 1}},
		{"with seven others, two threads", 7, {.threads = 2}},
		{"in a batch of 32", 31, {.threads = 2}},
		{"chunks of 1", 1, {.threads = 1, .chunk = 1}},
		{"chunks of 7", 3, {.threads = 2, .chunk = 7}},
		{"chunks of 64", 2, {.threads = 1, .chunk = 64}},
		{"steps of 33 tokens", 5, {.threads = 1, .max_batch_tokens = 33}},
		{"pages of 1", 2, {.threads = 1, .page_size = 1}},
		{"pages of 64", 2, {.threads = 1, .page_size = 64}},
		{"two at a time", 9, {.threads = 1, .max_requests = 2}},
	};
	const char *variant = all_variants[_i * variant_step()];
	struct probe first = {{0}};

	for (int w = 0; w < COUNT(ways); w++) {
		struct engine_config config = ways[w].config;
		config.kv_memory = 16 << 20;
		struct engine *engine = open_with(POCKET, variant, config);
		struct probe p = probe_among(engine, ways[w].others),
			     again = probe_among(engine, 1); /* pages were recycled */
		if (w == 0)
			first = p;
		ck_assert_msg(memcmp(&p, &first, sizeof p) == 0, "%s: %s gives other bits", variant, ways[w].name);
		ck_assert_msg(memcmp(&again, &first, sizeof p) == 0, "%s: %s, asked again, gives other bits", variant,
			ways[w].name);
		engine_close(engine);
	}
}
END_TEST

START_TEST(instruction_sets_give_the_same_bits)
{
	const char *variant = all_variants[_i * variant_step()];
	static const char *const isas[] = {"scalar", "avx2", "avx512"};
	struct probe first = {{0}};
	int seen = 0;

	for (int i = 0; i < COUNT(isas); i++) {
		struct engine_config config = {.model = POCKET, .threads = 1, .kv_memory = 16 << 20};
		struct engine *engine;
		struct error e = {0};
		CHECK_OK(variant_parse(variant, &config.variant, &test_error));
		setenv("ASSAY_ISA", isas[i], 1);
		if (engine_open(&config, &engine, &e) < 0)
			continue;
		ck_assert_str_eq(engine_facts(engine)->isa, isas[i]);
		struct probe p = probe_among(engine, 0);
		if (seen++ == 0)
			first = p;
		ck_assert_msg(memcmp(&p, &first, sizeof p) == 0, "%s: %s gives other bits", variant, isas[i]);
		engine_close(engine);
	}
	ck_assert_int_ge(seen, 1);
}
END_TEST

/* Formats must differ where they should: a variant that silently ran as another would hide every flip. */
START_TEST(variants_differ_from_each_other)
{
	struct probe seen[COUNT(all_variants)];
	for (int i = 0; i < COUNT(all_variants); i++) {
		struct engine *engine = open_pocket(all_variants[i]);
		seen[i] = probe_among(engine, 0);
		engine_close(engine);
		for (int j = 0; j < i; j++)
			ck_assert_msg(memcmp(&seen[i], &seen[j], sizeof seen[i]) != 0, "%s and %s give the same bits",
				all_variants[i], all_variants[j]);
	}
}
END_TEST

/* ---- memory ---- */

START_TEST(fp8_cache_holds_twice_the_tokens)
{
	static const struct {
		uint64_t budget;
		int page_size;
	} cases[] = {{1 << 20, 16}, {1000003, 16}, {5000000, 64}, {777777, 1}, {64 << 20, 8}};

	for (int i = 0; i < COUNT(cases); i++) {
		struct engine_config config = {
			.threads = 1, .kv_memory = cases[i].budget, .page_size = cases[i].page_size};
		struct engine *bf16 = open_with(POCKET, "bf16/bf16", config),
			      *fp8 = open_with(POCKET, "bf16/fp8", config);
		const struct engine_facts *a = engine_facts(bf16), *b = engine_facts(fp8);
		uint64_t page = (uint64_t)cases[i].page_size;
		ck_assert_uint_eq(
			a->kv_bytes_per_token, 4 * 2 * 2 * 32 * 2); /* layers, K and V, kv heads, head size, bytes */
		ck_assert_uint_eq(b->kv_bytes_per_token * 2, a->kv_bytes_per_token);
		ck_assert_uint_ge(b->kv_tokens, 2 * a->kv_tokens);
		ck_assert_uint_le(b->kv_tokens, 2 * a->kv_tokens + 2 * page);
		engine_close(bf16);
		engine_close(fp8);
	}
}
END_TEST

START_TEST(a_small_pool_serves_requests_one_after_the_other)
{
	/* 12 usable pages of 16 tokens: the probe needs 7, two do not fit together */
	struct engine_config config = {.threads = 1, .kv_memory = 13 * 16 * 1024};
	struct engine *small = open_with(POCKET, "bf16/bf16", config), *large = open_pocket("bf16/bf16");
	int32_t tokens[PROBE_TOKENS];
	struct engine_request r = probe_request(tokens);
	struct engine_stats stats;
	struct probe expected = probe_among(large, 0);

	ck_assert_uint_eq(engine_facts(small)->kv_tokens, 12 * 16);
	for (int i = 0; i < 5; i++)
		submit(small, &r);
	for (int i = 0; i < 5; i++) {
		struct engine_result *result = finish_one(small);
		struct probe p = probe_take(result);
		ck_assert(memcmp(&p, &expected, sizeof p) == 0);
		engine_result_free(result);
	}
	engine_stats(small, &stats);
	ck_assert_int_eq(stats.pages_used_peak, 7);
	ck_assert_uint_eq(stats.prompt_tokens, 5 * PROBE_TOKENS);
	ck_assert_uint_eq(stats.generated_tokens, 5 * PROBE_GENERATE);
	engine_close(small);
	engine_close(large);
}
END_TEST

/* ---- requests ---- */

START_TEST(requests_that_cannot_be_are_refused)
{
	static const int32_t token[2000] = {5}, wrong[] = {1024}, negative[] = {-1};
	static const struct {
		const char *name, *says;
		int code;
		struct engine_request r;
	} cases[] = {
		{"no token", "at least one", ERR_USAGE, {.tokens = token, .logprobs_from = -1}},
		{"id past the vocabulary", "1024", ERR_USAGE, {.tokens = wrong, .n_tokens = 1, .logprobs_from = -1}},
		{"negative id", "-1", ERR_USAGE, {.tokens = negative, .n_tokens = 1, .logprobs_from = -1}},
		{"past the context", "1024", ERR_LIMIT,
			{.tokens = token, .n_tokens = 1000, .max_tokens = 26, .logprobs_from = -1}},
		{"past the pool", "pages", ERR_LIMIT, {.tokens = token, .n_tokens = 300, .logprobs_from = -1}},
		{"log-probability of the first token", "first that has one", ERR_USAGE,
			{.tokens = token, .n_tokens = 2}},
		{"21 alternatives", "20", ERR_USAGE,
			{.tokens = token, .n_tokens = 2, .logprobs_from = -1, .top_logprobs = 21}},
	};
	struct engine *engine =
		open_with(POCKET, "bf16/bf16", (struct engine_config){.threads = 1, .kv_memory = 13 * 16 * 1024});
	struct error e = {0};
	uint64_t id;

	int status = engine_submit(engine, &cases[_i].r, &id, &e);
	ck_assert_msg(status == cases[_i].code, "%s: status %d", cases[_i].name, status);
	ck_assert_msg(strstr(e.message, cases[_i].says), "%s: says '%s'", cases[_i].name, e.message);
	engine_close(engine);
}
END_TEST

START_TEST(scoring_needs_no_more_than_it_scores)
{
	struct engine *engine = open_pocket("bf16/bf16");
	int32_t tokens[1025];
	struct engine_stats stats;

	prompt_make(tokens, 1025, 3);
	/* one token: nothing before it, nothing to score */
	struct engine_result *r =
		ask(engine, &(struct engine_request){.tokens = tokens, .n_tokens = 1, .logprobs_from = 1});
	ck_assert_int_eq(r->n_prompt_logprobs, 0);
	engine_result_free(r);
	/* one more than the context: the last token is scored, never read */
	r = ask(engine, &(struct engine_request){.tokens = tokens, .n_tokens = 1025, .logprobs_from = 1024});
	ck_assert_int_eq(r->n_prompt_logprobs, 1);
	ck_assert(r->prompt_logprobs[0] < 0);
	engine_result_free(r);
	engine_stats(engine, &stats);
	ck_assert_uint_eq(stats.prompt_tokens, 1024);
	engine_close(engine);
}
END_TEST

START_TEST(alternatives_are_ordered_and_hold_the_chosen_token)
{
	struct engine *engine = open_pocket("bf16/bf16");
	int32_t tokens[PROBE_TOKENS];
	struct engine_request request = probe_request(tokens);

	request.top_logprobs = 5;
	struct engine_result *r = ask(engine, &request);
	for (int i = 0; i < r->n_prompt_logprobs + r->n_generated; i++) {
		for (int k = 1; k < 5; k++)
			ck_assert(r->top_values[i * 5 + k] <= r->top_values[i * 5 + k - 1]);
	}
	for (int i = 0; i < r->n_generated; i++) {
		int at = (r->n_prompt_logprobs + i) * 5;
		ck_assert_int_eq(r->top_ids[at], r->tokens[i]);
		ck_assert(r->top_values[at] == r->logprobs[i]);
	}
	for (int i = 0; i < r->n_prompt_logprobs; i++)
		ck_assert_int_eq(r->prompt_greedy[i], r->top_ids[i * 5] == tokens[i + 1]);
	engine_result_free(r);
	engine_close(engine);
}
END_TEST

START_TEST(sampling_is_a_function_of_its_seed)
{
	struct engine *engine = open_pocket("bf16/bf16");
	int32_t tokens[PROBE_TOKENS];
	struct engine_request request = probe_request(tokens);
	struct probe p[3];

	request.sampling.temperature = 1.5f;
	for (int i = 0; i < 3; i++) {
		request.sampling.seed = i == 2 ? 12 : 11;
		struct engine_result *r = ask(engine, &request);
		p[i] = probe_take(r);
		engine_result_free(r);
	}
	ck_assert(memcmp(&p[0], &p[1], sizeof p[0]) == 0);
	ck_assert(memcmp(&p[0], &p[2], sizeof p[0]) != 0);
	engine_close(engine);
}
END_TEST

START_TEST(an_aborted_request_gives_its_pages_back)
{
	struct engine *engine = open_pocket("bf16/bf16");
	int32_t tokens[PROBE_TOKENS];
	struct engine_request request = probe_request(tokens);
	struct engine_stats stats;
	bool idle;

	request.max_tokens = 500;
	uint64_t running = submit(engine, &request);
	CHECK_OK(engine_step(engine, &idle, &test_error));
	uint64_t waiting = submit(engine, &request);
	engine_abort(engine, waiting);
	engine_abort(engine, running);
	engine_abort(engine, 12345);
	CHECK_OK(engine_step(engine, &idle, &test_error));
	for (int i = 0; i < 2; i++) {
		struct engine_result *r = engine_poll(engine);
		ck_assert_ptr_nonnull(r);
		ck_assert_int_eq(r->finish, ENGINE_ABORTED);
		engine_result_free(r);
	}
	CHECK_OK(engine_step(engine, &idle, &test_error));
	ck_assert(idle);
	engine_stats(engine, &stats);
	ck_assert_int_eq(stats.pages_used, 0);
	engine_close(engine);
}
END_TEST

START_TEST(stop_strings_end_the_answer_and_are_cut_off)
{
	static const struct {
		const char *stop, *text;
	} cases[] = {{"=", " Kim has 2 + 3 "}, {"Kim", " "}, {" has", " Kim"}, {"3 = <<2+", " Kim has 2 + "}};
	static const char prompt[] =
		"Question: Kim has 2 pens and finds 3 more. How many pens does Kim have now?\nAnswer:";
	struct engine *engine = open_pocket("bf16/f32");
	struct engine_text *text;
	struct engine_ids ids;

	CHECK_OK(engine_text_open(POCKET, &text, &test_error));
	CHECK_OK(engine_text_encode(text, str_of(prompt), true, &ids, &test_error));
	for (int i = 0; i < COUNT(cases); i++) {
		struct str stops[] = {str_of(""), str_of(cases[i].stop)}; /* an empty one stops nothing */
		struct engine_request request = {.tokens = ids.data,
			.n_tokens = (int)ids.count,
			.logprobs_from = -1,
			.max_tokens = 40,
			.stops = stops,
			.n_stops = 2};
		struct engine_result *r = ask(engine, &request);
		struct str cut = {r->text.data, r->text_cut};
		ck_assert_msg(str_is(cut, cases[i].text), "stop '%s': '%.*s'", cases[i].stop, STR_ARG(cut));
		ck_assert_int_eq(r->finish, ENGINE_STOP);
		engine_result_free(r);
	}
	engine_ids_free(&ids);
	engine_text_close(text);
	engine_close(engine);
}
END_TEST

/* ---- guard and faults: each interface is called where it says, and can act ---- */

struct watcher {
	int allocated, freed, mapped, released, before_read, before_publish, audits;
	uint64_t condemned; /* request to fail before publishing */
};

static int watcher_open(void *context, const struct kv_guard_layout *layout, void **state, struct error *e)
{
	*state = context;
	return layout->page_size == 16 ? 0 : error_set(e, ERR_USAGE, "the watcher covers pages of 16 only");
}

static void watcher_allocated(void *context, int32_t page, uint64_t request)
{
	(void)request;
	((struct watcher *)context)->allocated += page > 0;
}

static void watcher_freed(void *context, int32_t page, uint64_t request)
{
	(void)request;
	((struct watcher *)context)->freed += page > 0;
}

static void watcher_mapped(void *context, uint64_t request, int logical, int32_t page)
{
	(void)request;
	(void)logical;
	((struct watcher *)context)->mapped += page > 0;
}

static void watcher_released(void *context, uint64_t request)
{
	(void)request;
	((struct watcher *)context)->released++;
}

static int watcher_verify(
	void *context, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad, struct error *e)
{
	struct watcher *w = context;
	(void)e;
	w->before_read += phase == KV_GUARD_BEFORE_READ;
	w->before_publish += phase == KV_GUARD_BEFORE_PUBLISH;
	for (int b = 0; b < batch->n_sequences; b++)
		bad[b] |= batch->request[b] == w->condemned;
	return 0;
}

static void watcher_audit(void *context)
{
	((struct watcher *)context)->audits++;
}

static struct kv_guard watcher_guard(struct watcher *w)
{
	struct kv_guard guard = kv_guard_none;
	guard.level = "watcher";
	guard.context = w;
	guard.open = watcher_open;
	guard.page_allocated = watcher_allocated;
	guard.page_freed = watcher_freed;
	guard.page_mapped = watcher_mapped;
	guard.request_released = watcher_released;
	guard.verify = watcher_verify;
	guard.audit = watcher_audit;
	return guard;
}

START_TEST(a_guard_sees_the_bookkeeping_and_fails_only_its_request)
{
	struct watcher w = {.condemned = 2};
	struct kv_guard guard = watcher_guard(&w);
	struct engine *engine = open_with(POCKET, "bf16/bf16",
		(struct engine_config){.threads = 1, .kv_memory = 64 << 20, .no_prefix_cache = true, .guard = &guard});
	struct engine *plain = open_pocket("bf16/bf16");
	struct probe expected = probe_among(plain, 0);
	int32_t tokens[PROBE_TOKENS];
	struct engine_request request = probe_request(tokens);

	for (int i = 0; i < 3; i++)
		submit(engine, &request);
	for (int i = 0; i < 3; i++) {
		struct engine_result *r = finish_one(engine);
		if (r->id == w.condemned) {
			ck_assert_int_eq(r->finish, ENGINE_FAILED);
			ck_assert_int_eq(r->n_generated, 0);
			ck_assert_ptr_nonnull(strstr(r->error.message, "watcher"));
		} else {
			struct probe p = probe_take(r);
			ck_assert(memcmp(&p, &expected, sizeof p) == 0);
		}
		engine_result_free(r);
	}
	ck_assert_int_eq(w.allocated, 21);
	ck_assert_int_eq(w.mapped, 21);
	ck_assert_int_eq(w.freed, 21);
	ck_assert_int_eq(w.released, 3);
	ck_assert_int_ge(w.audits, 6);
	ck_assert_int_ge(w.before_read, PROBE_GENERATE);
	ck_assert_int_eq(w.before_read, w.before_publish);
	engine_close(engine);
	engine_close(plain);
}
END_TEST

START_TEST(an_engine_renewed_has_the_guard_given_now)
{
	struct watcher first = {0}, second = {0};
	struct kv_guard guards[] = {watcher_guard(&first), watcher_guard(&second)};
	struct engine_config config = {.threads = 1, .kv_memory = 64 << 20, .guard = &guards[0]};
	struct engine *engine = open_with(POCKET, "bf16/bf16", config);
	struct probe expected = probe_among(engine, 0);
	struct watcher seen = first;

	config.guard = &guards[1];
	renew_with(engine, POCKET, "bf16/bf16", config);
	struct probe watched = probe_among(engine, 0);
	ck_assert_int_eq(memcmp(&watched, &expected, sizeof expected), 0);
	ck_assert_int_eq(memcmp(&first, &seen, sizeof first), 0);
	ck_assert_int_eq(memcmp(&second, &first, sizeof second), 0);
	config.guard = NULL;
	renew_with(engine, POCKET, "bf16/bf16", config);
	struct probe alone = probe_among(engine, 0);
	ck_assert_int_eq(memcmp(&alone, &expected, sizeof expected), 0);
	ck_assert_int_eq(memcmp(&second, &first, sizeof second), 0);
	engine_close(engine);
}
END_TEST

START_TEST(a_guard_that_refuses_leaves_an_engine_to_close)
{
	struct watcher w = {0};
	struct kv_guard guard = watcher_guard(&w);
	struct engine_config config = {.model = POCKET, .threads = 1, .kv_memory = 1 << 20, .page_size = 32};
	struct engine *engine = open_with(POCKET, "bf16/bf16", config);
	struct error e = {0};

	CHECK_OK(variant_parse("bf16/bf16", &config.variant, &test_error));
	config.guard = &guard;
	ck_assert_int_eq(engine_renew(engine, &config, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.message, "pages of 16"));
	engine_close(engine);
}
END_TEST

START_TEST(a_guard_that_cannot_cover_the_layout_refuses_at_start)
{
	struct watcher w = {0};
	struct kv_guard guard = watcher_guard(&w);
	struct engine_config config = {.model = POCKET, .threads = 1, .page_size = 32, .guard = &guard};
	struct engine *engine;
	struct error e = {0};

	CHECK_OK(variant_parse("bf16/bf16", &config.variant, &test_error));
	ck_assert_int_eq(engine_open(&config, &engine, &e), ERR_USAGE);
	ck_assert_ptr_null(engine);
}
END_TEST

struct fault {
	enum fault_site site;
	int64_t change;
	int fired, seen[FAULT_SITE_COUNT];
};

/* Changes the third value at its site. */
static int64_t fault_fire(void *context, const struct fault_point *point)
{
	struct fault *f = context;
	if (f->seen[point->site]++ != 2 || point->site != f->site)
		return point->value;
	f->fired++;
	return point->value + f->change;
}

START_TEST(a_fault_at_a_site_changes_what_it_should)
{
	static const struct {
		enum fault_site site;
		int64_t change;
		bool visible; /* the output of the request itself changes */
	} cases[] = {{FAULT_POOL_ALLOC, -1, true}, {FAULT_TABLE_ENTRY, 7, true}, {FAULT_SLOT, -2, true},
		{FAULT_POOL_FREE, 1, false}};
	struct fault f = {cases[_i].site, cases[_i].change, 0, {0}};
	struct fault_hook hook = {&f, fault_fire};
	struct engine *engine = open_with(POCKET, "bf16/bf16",
		(struct engine_config){.threads = 1, .kv_memory = 64 << 20, .no_prefix_cache = true, .faults = &hook});
	struct engine *plain = open_pocket("bf16/bf16");
	struct probe clean = probe_among(plain, 0), faulty = probe_among(engine, 0);

	ck_assert_int_eq(f.fired, 1);
	ck_assert_msg((memcmp(&clean, &faulty, sizeof clean) != 0) == cases[_i].visible, "%s",
		fault_site_name(cases[_i].site));
	engine_close(engine);
	engine_close(plain);
}
END_TEST

/* ---- variants and folders ---- */

START_TEST(variants_are_parsed_or_refused_by_the_part_that_is_wrong)
{
	static const struct {
		const char *text, *says;
	} refused[] = {{"", "weights/KV"}, {"bf16", "weights/KV"}, {"bf16/", "weights/KV"}, {"/bf16", "weights/KV"},
		{"fp4/bf16", "'fp4'"}, {"bf16/int8", "'int8'"}, {"bf16/bf16>", "weights/KV"},
		{"bf16/bf16>x/fp8", "'x'"}, {"bf16/bf16/fp8", "'bf16/fp8'"}, {"BF16/bf16", "'BF16'"},
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/bf16", "weights/KV"}};
	struct variant v;
	for (int i = 0; i < COUNT(refused); i++) {
		struct error e = {0};
		ck_assert_msg(variant_parse(refused[i].text, &v, &e) == ERR_USAGE, "'%s' is taken", refused[i].text);
		ck_assert_msg(strstr(e.message, refused[i].says), "'%s': says '%s'", refused[i].text, e.message);
	}
	CHECK_OK(variant_parse("int4g32/fp8", &v, &test_error));
	ck_assert_str_eq(v.name, "int4g32/fp8");
	ck_assert(!v.split);
	CHECK_OK(variant_parse("fp8/bf16>int4/fp8", &v, &test_error));
	ck_assert(v.split);
	ck_assert_str_eq(v.decode.kv, "fp8");
}
END_TEST

/* Bytes of files, mapped or in a memory file system, that this process holds; -1: the system does not say. */
static long file_bytes(void)
{
	struct buf status = {0};
	long total = 0;

	CHECK_OK(file_read("/proc/self/status", &status, &test_error));
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "RssShmem:" : "RssFile:", *line = strstr(buf_text(&status), name);
		total = line && total >= 0 ? total + (strtol(line + strlen(name), NULL, 10) << 10) : -1;
	}
	buf_free(&status);
	return total;
}

/* Threads that read rows bring in what lies around them, too: it goes when the matrix is read. */
START_TEST(of_a_loaded_checkpoint_nothing_stays_in_memory)
{
	enum { MANY = 500000 }; /* rows of 32 bytes */
	struct engine_config config = {.threads = 4, .kv_memory = 1 << 20};
	const char *model = tiny_model(MANY, -1);

	engine_close(open_with(model, "bf16/bf16", config)); /* the program's own pages */
	long before = file_bytes();
	struct engine *engine = open_with(model, "bf16/bf16", config);
	long after = file_bytes();
	engine_close(engine);
	if (before >= 0)
		ck_assert_int_lt(after - before, 512 << 10);
}
END_TEST

START_TEST(an_engine_that_cannot_open_says_why)
{
	static const struct {
		const char *name, *says;
		int code;
		struct engine_config config;
	} cases[] = {
		{"no folder", "config.json", ERR_MISSING, {.model = "/nonexistent/model"}},
		{"page size 3", "3", ERR_USAGE, {.model = POCKET, .page_size = 3}},
		{"page size 128", "128", ERR_USAGE, {.model = POCKET, .page_size = 128}},
		{"no room for two pages", "at least", ERR_USAGE, {.model = POCKET, .kv_memory = 100}},
		{"more pages than can be counted", "at most", ERR_USAGE, {.model = POCKET, .kv_memory = UINT64_MAX}},
		{"too many batch tokens", "65536", ERR_USAGE, {.model = POCKET, .max_batch_tokens = 65537}},
	};
	struct engine_config config = cases[_i].config;
	struct engine *engine;
	struct error e = {0};

	config.threads = 1;
	CHECK_OK(variant_parse("bf16/bf16", &config.variant, &test_error));
	int status = engine_open(&config, &engine, &e);
	ck_assert_msg(status == cases[_i].code, "%s: status %d: %s", cases[_i].name, status, e.message);
	ck_assert_msg(strstr(e.message, cases[_i].says), "%s: says '%s'", cases[_i].name, e.message);
	ck_assert_ptr_null(engine);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *bits = test_case(suite, "bits", 120), *memory = test_case(suite, "memory", 60);
	TCase *requests = test_case(suite, "requests", 60), *hooks = test_case(suite, "hooks", 60),
	      *opening = test_case(suite, "opening", 60);

	int n_variants = (COUNT(all_variants) + variant_step() - 1) / variant_step();
	tcase_add_loop_test(bits, one_prompt_has_one_output_whatever_surrounds_it, 0, n_variants);
	tcase_add_loop_test(bits, instruction_sets_give_the_same_bits, 0, n_variants);
	tcase_add_test(bits, variants_differ_from_each_other);
	tcase_add_test(memory, fp8_cache_holds_twice_the_tokens);
	tcase_add_test(memory, a_small_pool_serves_requests_one_after_the_other);
	tcase_add_loop_test(requests, requests_that_cannot_be_are_refused, 0, 7);
	tcase_add_test(requests, scoring_needs_no_more_than_it_scores);
	tcase_add_test(requests, alternatives_are_ordered_and_hold_the_chosen_token);
	tcase_add_test(requests, sampling_is_a_function_of_its_seed);
	tcase_add_test(requests, an_aborted_request_gives_its_pages_back);
	tcase_add_test(requests, stop_strings_end_the_answer_and_are_cut_off);
	tcase_add_test(hooks, a_guard_sees_the_bookkeeping_and_fails_only_its_request);
	tcase_add_test(hooks, an_engine_renewed_has_the_guard_given_now);
	tcase_add_test(hooks, a_guard_that_refuses_leaves_an_engine_to_close);
	tcase_add_test(hooks, a_guard_that_cannot_cover_the_layout_refuses_at_start);
	tcase_add_loop_test(hooks, a_fault_at_a_site_changes_what_it_should, 0, 4);
	tcase_add_test(opening, variants_are_parsed_or_refused_by_the_part_that_is_wrong);
	tcase_add_test(opening, of_a_loaded_checkpoint_nothing_stays_in_memory);
	tcase_add_loop_test(opening, an_engine_that_cannot_open_says_why, 0, 5);
}
