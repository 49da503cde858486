/* The serving core: one distinct output, as bits, for each prompt, whatever the scheduler, the prefix cache, preemption
 * and the hand-over do around it. ASSAY_TEST_LONG=1 takes all prompts, batch sizes and lengths (minutes). */
#include <stdlib.h>

#include "engine/base/number.h"
#include "tests/engine_support.h"

const char *const test_program_name = "serving";

/* The first FEW stand for all in a slow build. */
static const char *const variants[] = {"bf16/f32", "int4/fp8", "fp8/bf16>int4/fp8", "bf16/bf16", "bf16/fp8", "fp8/f32",
	"fp8/bf16", "fp8/fp8", "int4/f32", "int4/bf16"};
enum { FEW = 3, PROMPTS = 50, LONGEST = 110, GENERATE = 8, SCORED = 3 };

static bool is_long(void)
{
	return getenv("ASSAY_TEST_LONG") != NULL;
}

static int n_prompts(void)
{
	return is_long() ? PROMPTS : 12;
}

/* Prompts come in families of five that share 20, 32, 45, … first tokens; the fourth of each is the bare prefix, the
 * fifth repeats the first. */
static int prompt_make(int32_t *tokens, int index)
{
	int family = index / 5, member = index % 5 == 4 ? 0 : index % 5;
	int shared = 20 + 13 * family % 50, n = member == 3 ? shared : shared + 1 + (7 * family + 11 * member) % 39;

	for (int i = 0; i < n; i++) {
		int from = i < shared ? family : 17 * (index - index % 5 + member) + 3;
		tokens[i] = (from * 131 + i * (17 + from) + i * i) % 900 + 100;
	}
	return n;
}

/* All that is asked of a prompt: the last log-probabilities, ids and log-probabilities of what follows. */
struct output {
	uint32_t bits[SCORED + 2 * GENERATE];
};

static struct engine_request prompt_request(int32_t *tokens, int index)
{
	int n = prompt_make(tokens, index);
	return (struct engine_request){.tokens = tokens,
		.n_tokens = n,
		.logprobs_from = n - SCORED,
		.max_tokens = GENERATE,
		.sampling = {.temperature = index % 2 ? 0.9f : 0.0f, .seed = (uint64_t)index / 5},
		.ignore_eos = true};
}

static void output_take(struct output *o, const struct engine_result *r)
{
	ck_assert_int_eq(r->finish, ENGINE_LENGTH);
	ck_assert_int_eq(r->n_generated, GENERATE);
	ck_assert_int_eq(r->n_prompt_logprobs, SCORED);
	for (int i = 0; i < SCORED; i++)
		o->bits[i] = float_bits(r->prompt_logprobs[i]);
	for (int i = 0; i < GENERATE; i++) {
		o->bits[SCORED + i] = (uint32_t)r->tokens[i];
		o->bits[SCORED + GENERATE + i] = float_bits(r->logprobs[i]);
	}
}

/* Asks prompts [first, first + n), in that order or backwards, at once. */
static void batch_ask(struct engine *engine, int first, int n, bool backwards, struct output *out)
{
	int32_t tokens[LONGEST];
	uint64_t ids[PROMPTS];

	for (int k = 0; k < n; k++) {
		int i = backwards ? n - 1 - k : k;
		struct engine_request r = prompt_request(tokens, first + i);
		ids[i] = submit(engine, &r);
	}
	for (int k = 0; k < n; k++) {
		struct engine_result *result = finish_one(engine);
		int i = 0;
		while (i < n && ids[i] != result->id)
			i++;
		ck_assert_int_lt(i, n);
		output_take(&out[i], result);
		engine_result_free(result);
	}
	CHECK_OK(engine_audit(engine, &test_error));
}

static void same(const struct output *got, const struct output *expected, int first, int n, const char *how)
{
	for (int i = 0; i < n; i++)
		ck_assert_msg(memcmp(&got[i], &expected[first + i], sizeof *got) == 0, "prompt %d: %s gives other bits",
			first + i, how);
}

/* Each prompt alone, computed whole. */
static void alone(const char *variant, struct output *out)
{
	struct engine *engine = open_with(
		POCKET, variant, (struct engine_config){.threads = 1, .kv_memory = 8 << 20, .no_prefix_cache = true});
	for (int i = 0; i < n_prompts(); i++)
		batch_ask(engine, i, 1, false, &out[i]);
	engine_close(engine);
}

static uint64_t page_bytes(const char *variant)
{
	return (uint64_t)16 * 4 * 2 * 2 * 32 *
		(strstr(variant, "/f32")                                               ? 4
				: strstr(variant, "bf16>") || !strstr(variant, "/fp8") ? 2
										       : 1);
}

START_TEST(one_prompt_has_one_output)
{
	static const struct {
		const char *name;
		int at_once, pages; /* 0: plenty */
		struct engine_config config;
	} ways[] = {
		{"two threads", 1, 0, {.threads = 2}},
		{"cache on, one after the other", 1, 0, {.threads = 1}},
		{"two at a time", 2, 0, {.threads = 1}},
		{"seven at a time, two threads", 7, 0, {.threads = 2}},
		{"32 at a time", 32, 0, {.threads = 2}},
		{"all at once", PROMPTS, 0, {.threads = 2, .max_requests = 50}},
		{"chunks of 1", 4, 0, {.threads = 1, .chunk = 1}},
		{"chunks of 7", 4, 0, {.threads = 1, .chunk = 7}},
		{"chunks of 16", 5, 0, {.threads = 1, .chunk = 16}},
		{"chunks of 64", 5, 0, {.threads = 1, .chunk = 64}},
		{"steps of 33 tokens", 9, 0, {.threads = 1, .max_batch_tokens = 33}},
		{"pages of 1", 6, 0, {.threads = 1, .page_size = 1}},
		{"pages of 64", 6, 0, {.threads = 1, .page_size = 64}},
		{"padded", 5, 0, {.threads = 1, .pad_decode = true}},
		{"padded in a full batch", 6, 0,
			{.threads = 1, .pad_decode = true, .max_requests = 3, .max_batch_tokens = 3}},
		{"pages recycled", 6, 9, {.threads = 1, .no_prefix_cache = true}},
		{"preempted", 12, 14, {.threads = 1}},
		{"preempted, cache off, padded", 12, 14, {.threads = 1, .no_prefix_cache = true, .pad_decode = true}},
	};
	static struct output expected[PROMPTS], got[PROMPTS];
	const char *variant = variants[_i];
	uint64_t preemptions = 0;

	alone(variant, expected);
	for (int w = 0; w < COUNT(ways); w++) {
		struct engine_config config = ways[w].config;
		struct engine_stats stats;
		int n = n_prompts(), group = ways[w].at_once < n ? ways[w].at_once : n;
		config.kv_memory = ways[w].pages ? page_bytes(variant) * (uint64_t)(ways[w].pages + 1) : 32 << 20;
		struct engine *engine = open_with(POCKET, variant, config);
		for (int round = 0; round <= (ways[w].pages != 0); round++) { /* a second round finds used pages */
			for (int first = 0; first < n; first += group) {
				int here = n - first < group ? n - first : group;
				batch_ask(engine, first, here, round == 1, got);
				same(got, expected, first, here, ways[w].name);
			}
		}
		engine_stats(engine, &stats);
		preemptions += stats.preemptions;
		ck_assert_int_eq(stats.cached_tokens > 0, !config.no_prefix_cache);
		engine_close(engine);
	}
	ck_assert_uint_gt(preemptions, 0);
}
END_TEST

START_TEST(every_batch_size_gives_the_same_bits)
{
	static struct output expected[PROMPTS], got[PROMPTS];
	int step = is_long() ? 1 : 10;

	alone(variants[_i], expected);
	struct engine *engine =
		open_with(POCKET, variants[_i], (struct engine_config){.threads = 2, .kv_memory = 32 << 20});
	for (int size = 2; size <= 32; size += step)
		for (int first = 0; first < n_prompts(); first += size) {
			int here = n_prompts() - first < size ? n_prompts() - first : size;
			batch_ask(engine, first, here, size % 2 == 0, got);
			same(got, expected, first, here, "a batch");
			engine_cache_clear(engine);
		}
	engine_close(engine);
}
END_TEST

/* Puts the first n tokens of a prompt, and no more, in the cache: a prompt of one token more that is only scored. */
static void prefix_put(struct engine *engine, const int32_t *tokens, int n)
{
	int32_t longer[LONGEST + 1];

	memcpy(longer, tokens, (size_t)n * sizeof *tokens);
	longer[n] = 99; /* no prompt holds it */
	engine_result_free(
		ask(engine, &(struct engine_request){.tokens = longer, .n_tokens = n + 1, .logprobs_from = -1}));
}

START_TEST(a_prefix_cached_at_every_length_gives_the_same_bits)
{
	static struct output expected[PROMPTS];
	int32_t tokens[LONGEST];
	struct output got;
	int page_size = _i % 2 ? 16 : 4, step = is_long() ? 1 : 5;

	alone(variants[_i], expected);
	struct engine *engine = open_with(POCKET, variants[_i],
		(struct engine_config){.threads = 1, .kv_memory = 8 << 20, .page_size = page_size});
	for (int p = 0; p < n_prompts(); p += step) {
		struct engine_request r = prompt_request(tokens, p);
		for (int n = 0; n <= r.n_tokens; n++) {
			engine_cache_clear(engine);
			if (n > 0)
				prefix_put(engine, tokens, n);
			struct engine_result *result = ask(engine, &r);
			int usable = r.n_tokens - SCORED - 1; /* the first row that is wanted is computed */
			ck_assert_msg(result->cached_tokens == (n < usable ? n : usable),
				"prompt %d after %d of its tokens: %d cached", p, n, result->cached_tokens);
			output_take(&got, result);
			engine_result_free(result);
			same(&got, expected, p, 1, "a cached prefix");
		}
	}
	CHECK_OK(engine_audit(engine, &test_error));
	engine_close(engine);
}
END_TEST

/* ---- what a split variant means ---- */

START_TEST(a_split_into_equal_halves_is_no_split)
{
	static struct output whole[PROMPTS], split[PROMPTS];

	alone("int4/fp8", whole);
	alone("int4/fp8>int4/fp8", split);
	same(split, whole, 0, n_prompts(), "a split");
}
END_TEST

START_TEST(a_split_answers_first_as_its_prefill_and_then_as_its_decode)
{
	static struct output prefill[PROMPTS], decode[PROMPTS], split[PROMPTS];
	int others = 0;

	alone("fp8/bf16", prefill);
	alone("int4/fp8", decode);
	alone("fp8/bf16>int4/fp8", split);
	for (int p = 0; p < n_prompts(); p++) {
		for (int i = 0; i <= SCORED; i++) /* scores of the prompt, then the first token */
			ck_assert_uint_eq(split[p].bits[i], prefill[p].bits[i]);
		ck_assert_uint_eq(split[p].bits[SCORED + GENERATE], prefill[p].bits[SCORED + GENERATE]);
		others += memcmp(&split[p], &prefill[p], sizeof split[p]) != 0 &&
			memcmp(&split[p], &decode[p], sizeof split[p]) != 0;
	}
	ck_assert_int_eq(others, n_prompts());
}
END_TEST

START_TEST(a_split_hands_over_what_is_not_there)
{
	struct engine *engine =
		open_with(POCKET, "bf16/bf16>bf16/fp8", (struct engine_config){.threads = 1, .kv_memory = 8 << 20});
	int32_t tokens[LONGEST];
	struct engine_request r = prompt_request(tokens, 0);
	struct engine_stats first, second;
	int pages = (r.n_tokens + 15) / 16, whole = r.n_tokens / 16;

	ck_assert_uint_eq(
		engine_facts(engine)->prefill_kv_bytes_per_token, 2 * engine_facts(engine)->kv_bytes_per_token);
	engine_result_free(ask(engine, &r));
	engine_stats(engine, &first);
	ck_assert_uint_eq(first.pages_transferred, (uint64_t)pages);
	engine_result_free(ask(engine, &r)); /* whole pages of the prompt are in the second pool already */
	engine_stats(engine, &second);
	ck_assert_uint_eq(second.pages_transferred, (uint64_t)(pages + pages - whole));
	r.max_tokens = 1; /* ends where it began */
	engine_result_free(ask(engine, &r));
	engine_stats(engine, &first);
	ck_assert_uint_eq(first.pages_transferred, second.pages_transferred);
	engine_close(engine);
}
END_TEST

/* The next turn of a talk: a prompt, what was answered to it, and a few tokens more. */
static struct engine_result *next_turn(struct engine *engine, int32_t *talk, int *n)
{
	enum { ANSWER = 40 };
	int prompt = prompt_make(talk, 1);
	struct engine_result *r = ask(engine,
		&(struct engine_request){.tokens = talk,
			.n_tokens = prompt,
			.logprobs_from = -1,
			.max_tokens = ANSWER,
			.ignore_eos = true});

	memcpy(talk + prompt, r->tokens, ANSWER * sizeof *talk);
	engine_result_free(r);
	for (*n = prompt + ANSWER; *n < prompt + ANSWER + 3; ++*n)
		talk[*n] = 200 + *n;
	return ask(engine,
		&(struct engine_request){.tokens = talk,
			.n_tokens = *n,
			.logprobs_from = *n - SCORED,
			.max_tokens = GENERATE,
			.ignore_eos = true});
}

/* What one variant generated may stand in a later prompt only where the same variant computes prompts. */
START_TEST(an_answer_is_reused_by_its_own_writer_alone)
{
	static const struct {
		const char *variant;
		bool reused;
	} cases[] = {
		{"int4/fp8", true}, {"bf16/f32", true}, {"fp8/bf16>int4/fp8", false}, {"bf16/bf16>bf16/fp8", false}};
	struct engine_config config = {.threads = 1, .kv_memory = 8 << 20};
	struct engine *caching = open_with(POCKET, cases[_i].variant, config);
	config.no_prefix_cache = true;
	struct engine *plain = open_with(POCKET, cases[_i].variant, config);
	int32_t talk[2 * LONGEST];
	struct output a, b;
	int n, prompt = prompt_make(talk, 1);

	struct engine_result *r = next_turn(caching, talk, &n), *expected = next_turn(plain, talk, &n);
	output_take(&a, r);
	output_take(&b, expected);
	same(&a, &b, 0, 1, "a later turn");
	ck_assert_int_eq(r->cached_tokens > prompt, cases[_i].reused);
	ck_assert_int_ge(r->cached_tokens, prompt - 1);
	engine_result_free(r);
	engine_result_free(expected);
	engine_close(caching);
	engine_close(plain);
}
END_TEST

/* ---- reuse, order, ends ---- */

START_TEST(what_is_asked_twice_is_computed_once)
{
	struct engine *engine =
		open_with(POCKET, "bf16/bf16", (struct engine_config){.threads = 1, .kv_memory = 8 << 20});
	struct engine_stats stats;
	static struct output out[PROMPTS];
	int32_t tokens[LONGEST];
	int n = prompt_request(tokens, 0).n_tokens;

	/* submitted together: the second waits for the first */
	uint64_t ids[2];
	for (int i = 0; i < 2; i++)
		ids[i] = submit(
			engine, &(struct engine_request){.tokens = tokens, .n_tokens = n, .logprobs_from = n - 1});
	for (int i = 0; i < 2; i++) {
		struct engine_result *r = finish_one(engine);
		ck_assert_uint_eq(r->id, ids[i]);
		ck_assert_int_eq(r->cached_tokens, i == 0 ? 0 : n - 2);
		engine_result_free(r);
	}
	engine_stats(engine, &stats);
	ck_assert_uint_eq(stats.prompt_tokens, (uint64_t)(n - 1 + 1));
	ck_assert_uint_eq(stats.cached_tokens, (uint64_t)(n - 2));
	ck_assert_uint_eq(stats.pages_copied, (n - 2) % 16 != 0);
	batch_ask(engine, 0, 5, false, out);
	engine_stats(engine, &stats);
	ck_assert_int_eq(stats.pages_used, 0);
	ck_assert_int_gt(stats.pages_cached, 0);
	engine_cache_clear(engine);
	engine_stats(engine, &stats);
	ck_assert_int_eq(stats.pages_cached, 0);
	engine_close(engine);
}
END_TEST

static bool same_stats(const struct engine_stats *a, const struct engine_stats *b)
{
	return memcmp(a, b, offsetof(struct engine_stats, pages_cached) + sizeof a->pages_cached) == 0;
}

/* With requests in every state left in it: nothing of them is there afterwards. */
START_TEST(an_engine_renewed_is_as_opened)
{
	struct engine_config config = {.threads = 2, .kv_memory = 14 * page_bytes(variants[_i]), .max_requests = 4};
	struct engine *engine = open_with(POCKET, variants[_i], config);
	static struct output first[PROMPTS], again[PROMPTS];
	struct engine_stats before, after;
	int32_t tokens[LONGEST];
	bool idle;
	int n = n_prompts();

	batch_ask(engine, 0, n, false, first);
	engine_stats(engine, &before);
	struct engine_request whole = prompt_request(tokens, 1),
			      short_one = {.tokens = tokens,
				      .n_tokens = 1,
				      .max_tokens = 1,
				      .logprobs_from = -1,
				      .ignore_eos = true};
	submit(engine, &short_one);
	for (int i = 0; i < 6; i++)
		submit(engine, &whole);
	for (int i = 0; i < 2; i++)
		CHECK_OK(engine_step(engine, &idle, &test_error));
	submit(engine, &whole);
	for (int times = 0; times < 2; times++) {
		renew_with(engine, POCKET, variants[_i], config);
		engine_stats(engine, &after);
		ck_assert(same_stats(&after, &(struct engine_stats){0}));
		ck_assert_ptr_null(engine_poll(engine));
		batch_ask(engine, 0, n, false, again);
		same(again, first, 0, n, "an engine renewed");
		engine_stats(engine, &after);
		ck_assert(same_stats(&after, &before));
	}
	engine_close(engine);
}
END_TEST

START_TEST(an_aborted_request_leaves_nothing)
{
	struct engine *engine =
		open_with(POCKET, "bf16/bf16", (struct engine_config){.threads = 1, .kv_memory = 8 << 20, .chunk = 16});
	int32_t tokens[LONGEST];
	struct engine_request r = prompt_request(tokens, 0);
	struct engine_stats stats;
	bool idle;

	r.max_tokens = 100;
	for (int steps = 1; steps <= 12; steps++) { /* in its prompt, then in its answer */
		uint64_t id = submit(engine, &r);
		for (int i = 0; i < steps; i++)
			CHECK_OK(engine_step(engine, &idle, &test_error));
		engine_abort(engine, id);
		struct engine_result *result = finish_one(engine);
		ck_assert_int_eq(result->finish, ENGINE_ABORTED);
		ck_assert_int_eq(result->cached_tokens, 0);
		engine_result_free(result);
		engine_stats(engine, &stats);
		ck_assert_int_eq(stats.pages_used, 0);
		ck_assert_int_eq(stats.pages_cached, 0);
		CHECK_OK(engine_audit(engine, &test_error));
	}
	engine_close(engine);
}
END_TEST

START_TEST(a_deadline_ends_a_request)
{
	struct engine *engine =
		open_with(POCKET, "bf16/bf16", (struct engine_config){.threads = 1, .kv_memory = 8 << 20});
	int32_t tokens[LONGEST];
	struct engine_request r = prompt_request(tokens, 0);

	r.deadline = 1e-9;
	struct engine_result *result = ask(engine, &r);
	ck_assert_int_eq(result->finish, ENGINE_DEADLINE);
	ck_assert_str_eq(engine_finish_name(result->finish), "timeout");
	ck_assert_int_eq(result->n_generated, 0);
	engine_result_free(result);
	r.deadline = 1e9;
	result = ask(engine, &r);
	ck_assert_int_eq(result->finish, ENGINE_LENGTH);
	for (int i = 1; i < GENERATE; i++)
		ck_assert(result->token_seconds[i] >= result->token_seconds[i - 1]);
	ck_assert(result->seconds_queued <= result->token_seconds[0]);
	ck_assert(result->token_seconds[0] == result->seconds_to_first);
	engine_result_free(result);
	engine_close(engine);
}
END_TEST

START_TEST(the_oldest_request_is_never_preempted)
{
	/* 8 requests that grow from 1 page to 6 in 12 pages */
	struct engine_config config = {
		.threads = 1, .kv_memory = page_bytes("bf16/bf16") * 13, .no_prefix_cache = true};
	struct engine *engine = open_with(POCKET, "bf16/bf16", config);
	int32_t tokens[] = {100, 101, 102, 103};
	int preemptions[8] = {0};
	uint64_t ids[8], sum = 0;
	struct engine_stats stats;

	for (int i = 0; i < 8; i++)
		ids[i] = submit(engine,
			&(struct engine_request){.tokens = tokens,
				.n_tokens = 4,
				.logprobs_from = -1,
				.max_tokens = 90,
				.ignore_eos = true});
	for (int i = 0; i < 8; i++) {
		struct engine_result *r = finish_one(engine);
		preemptions[r->id - ids[0]] = r->preemptions;
		sum += (uint64_t)r->preemptions;
		engine_result_free(r);
	}
	engine_stats(engine, &stats);
	ck_assert_int_eq(preemptions[0], 0);
	ck_assert_uint_gt(sum, 0);
	ck_assert_uint_eq(stats.preemptions, sum);
	ck_assert_uint_gt(stats.replayed_tokens, 0);
	ck_assert_uint_eq(stats.generated_tokens, 8 * 90); /* each counted once */
	ck_assert_uint_eq(stats.prompt_tokens, 8 * 4);
	ck_assert_int_eq(stats.pages_used_peak, 12);
	engine_close(engine);
}
END_TEST

/* Pools of exactly what a request needs, with part of its prompt in the cache: it does without the copy. */
START_TEST(a_request_may_need_every_page)
{
	static const char *const both[] = {"bf16/bf16", "bf16/bf16>bf16/bf16"};
	int32_t tokens[LONGEST];
	struct output got, expected;

	for (int p = 0; p < 8; p++) {
		struct engine_request r = prompt_request(tokens, p);
		int pages = (r.n_tokens + GENERATE - 1 + 15) / 16;
		struct engine_config config = {.threads = 1,
			.kv_memory = page_bytes(both[_i]) * (uint64_t)(pages + 1),
			.no_prefix_cache = true};
		struct engine *plain = open_with(POCKET, both[_i], config);
		batch_ask(plain, p, 1, false, &expected);
		engine_close(plain);
		config.no_prefix_cache = false;
		for (int n = 1; n < r.n_tokens; n++) {
			struct engine *exact = open_with(POCKET, both[_i], config);
			prefix_put(exact, tokens, n);
			batch_ask(exact, p, 1, false, &got);
			same(&got, &expected, 0, 1, "a pool of exactly its pages");
			engine_close(exact);
		}
	}
}
END_TEST

void test_program_cases(Suite *suite)
{
	double limit = is_long() ? 3600 : 120;
	TCase *bits = test_case(suite, "bits", limit), *split = test_case(suite, "split", 60),
	      *reuse = test_case(suite, "reuse", 60);

	int n = test_build_is_slow() && !is_long() ? FEW : COUNT(variants);

	tcase_add_loop_test(bits, one_prompt_has_one_output, 0, n);
	tcase_add_loop_test(bits, every_batch_size_gives_the_same_bits, 0, n);
	tcase_add_loop_test(bits, a_prefix_cached_at_every_length_gives_the_same_bits, 0, n);
	tcase_add_test(split, a_split_into_equal_halves_is_no_split);
	tcase_add_test(split, a_split_answers_first_as_its_prefill_and_then_as_its_decode);
	tcase_add_test(split, a_split_hands_over_what_is_not_there);
	tcase_add_loop_test(split, an_answer_is_reused_by_its_own_writer_alone, 0, 4);
	tcase_add_test(reuse, what_is_asked_twice_is_computed_once);
	tcase_add_loop_test(reuse, a_request_may_need_every_page, 0, 2);
	tcase_add_test(reuse, an_aborted_request_leaves_nothing);
	tcase_add_loop_test(reuse, an_engine_renewed_is_as_opened, 0, FEW);
	tcase_add_test(reuse, a_deadline_ends_a_request);
	tcase_add_test(reuse, the_oldest_request_is_never_preempted);
}
