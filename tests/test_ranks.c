/* Tensor parallelism over thread ranks: the same bits for every number of ranks, transformers' values, refusals of
 * what does not divide, and ranks that fail. */
#include <math.h>
#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/base/number.h"
#include "engine/comm_threads.h"
#include "engine/cpu/cpu_backend.h"
#include "integrity/guard.h"
#include "tests/engine_support.h"

const char *const test_program_name = "ranks";

enum { PROBES = 3, PROMPT_MAX = 90, GENERATE = 10, TOP = 3 };

/* golden/ranks: a Qwen3 of 16 heads and 8 kv heads. */
static const char *tiny_model(void)
{
	return golden_path("ranks");
}

static struct engine *open_ranks(const char *model, const char *variant, int ranks, struct engine_config config)
{
	config.ranks = ranks;
	config.kv_memory = config.kv_memory ? config.kv_memory : 4 << 20;
	config.threads = config.threads ? config.threads : 1;
	return open_with(model, variant, config);
}

/* ---- one output ---- */

/* All that requests of different lengths gave: whole rows of log-probabilities, what was generated and its
 * alternatives. */
struct answer {
	float *rows; /* [prompt, vocab] */
	size_t n_rows;
	int32_t tokens[GENERATE], top_ids[GENERATE * TOP];
	float logprobs[GENERATE], top_values[GENERATE * TOP];
};

struct answers {
	struct answer of[PROBES];
	uint64_t saturated;
};

static const int prompt_lengths[PROBES] = {1, 33, PROMPT_MAX};

static void probe_submit(struct engine *engine, int i, struct answer *a, uint64_t *id)
{
	int32_t tokens[PROMPT_MAX];
	int n = prompt_lengths[i], vocab = engine_facts(engine)->vocab_size;

	for (int t = 0; t < n; t++)
		tokens[t] = (i * 131 + t * (17 + i) + t * t) % (vocab - 20) + 10;
	a->n_rows = (size_t)n * (size_t)vocab;
	a->rows = mem_calloc(a->n_rows, sizeof *a->rows, &test_error);
	ck_assert_ptr_nonnull(a->rows);
	*id = submit(engine,
		&(struct engine_request){.tokens = tokens,
			.n_tokens = n,
			.logprobs_from = 1,
			.rows = a->rows,
			.max_tokens = GENERATE,
			.top_logprobs = TOP,
			.sampling = {.temperature = i == 1 ? 0.8f : 0.0f, .top_k = 40, .seed = 5},
			.ignore_eos = true});
}

static void probe_take(const struct engine_result *r, struct answer *a)
{
	size_t behind = (size_t)(r->n_prompt_logprobs * TOP);

	ck_assert_msg(r->finish == ENGINE_LENGTH, "%s", r->error.message);
	memcpy(a->tokens, r->tokens, sizeof a->tokens);
	memcpy(a->logprobs, r->logprobs, sizeof a->logprobs);
	memcpy(a->top_ids, r->top_ids + behind, sizeof a->top_ids);
	memcpy(a->top_values, r->top_values + behind, sizeof a->top_values);
}

static struct answers probes_ask(struct engine *engine)
{
	struct answers all = {0};
	struct engine_stats stats;
	uint64_t ids[PROBES];

	for (int i = 0; i < PROBES; i++)
		probe_submit(engine, i, &all.of[i], &ids[i]);
	for (int n = 0; n < PROBES; n++) {
		struct engine_result *r = finish_one(engine);
		for (int i = 0; i < PROBES; i++)
			if (ids[i] == r->id)
				probe_take(r, &all.of[i]);
		engine_result_free(r);
	}
	engine_stats(engine, &stats);
	all.saturated = stats.kv_saturated;
	CHECK_OK(engine_audit(engine, &test_error));
	return all;
}

static void answers_free(struct answers *a)
{
	for (int i = 0; i < PROBES; i++)
		free(a->of[i].rows);
}

static void expect_same_bits(const struct answers *a, const struct answers *b, const char *variant, int ranks)
{
	ck_assert_uint_eq(a->saturated, b->saturated);
	for (int i = 0; i < PROBES; i++) {
		const struct answer *x = &a->of[i], *y = &b->of[i];
		ck_assert_uint_eq(x->n_rows, y->n_rows);
		for (size_t k = 0; k < x->n_rows; k++) {
			if (float_bits(x->rows[k]) == float_bits(y->rows[k]))
				continue; /* an assertion for each would take longer than the ranks */
			ck_abort_msg("%s, prompt %d: value %zu is %.9g with %d ranks, %.9g with one", variant, i, k,
				(double)y->rows[k], ranks, (double)x->rows[k]);
		}
		ck_assert_mem_eq(x->tokens, y->tokens, sizeof x->tokens);
		ck_assert_mem_eq(x->logprobs, y->logprobs, sizeof x->logprobs);
		ck_assert_mem_eq(x->top_ids, y->top_ids, sizeof x->top_ids);
		ck_assert_mem_eq(x->top_values, y->top_values, sizeof x->top_values);
	}
}

static const struct {
	bool pocket;
	const char *variant;
	int most; /* ranks, of 2, 4, 8 */
} bit_cases[] = {{true, "bf16/bf16", 2}, {true, "fp8/fp8", 2}, {true, "int4g64/bf16", 2}, {true, "fp8w/f32", 2},
	{true, "bf16/bf16>int4g64/fp8", 2}, {false, "bf16/f32", 8}, {false, "bf16/bf16", 8}, {false, "fp8/fp8", 8},
	{false, "fp8w/bf16", 8}, {false, "int4g32/fp8", 8}, {false, "int4g64/bf16", 4}, {false, "int4/bf16", 2},
	{false, "fp8/bf16>int4g32/fp8", 8}};

START_TEST(every_number_of_ranks_gives_the_same_bits)
{
	const char *model = bit_cases[_i].pocket ? POCKET : tiny_model(), *variant = bit_cases[_i].variant;
	struct answers one = {0};

	for (int ranks = 1; ranks <= bit_cases[_i].most; ranks *= 2) {
		struct engine_config config = {
			.threads = ranks == 2 ? 4 : 1, .chunk = 31, .page_size = ranks == 4 ? 8 : 16};
		struct engine *engine = open_ranks(model, variant, ranks, config);
		ck_assert_int_eq(engine_facts(engine)->ranks, ranks);
		struct answers now = probes_ask(engine);
		engine_close(engine);
		if (ranks == 1) {
			one = now;
			continue;
		}
		expect_same_bits(&one, &now, variant, ranks);
		answers_free(&now);
	}
	answers_free(&one);
}
END_TEST

/* ---- transformers ---- */

static void row_check(struct engine *engine, const struct json *row, int ranks)
{
	int32_t tokens[PROMPT_MAX];
	int n = 0, vocab = engine_facts(engine)->vocab_size;
	float *rows = mem_calloc((size_t)vocab, sizeof *rows, &test_error);

	for (const struct json *id = json_get(row, "ids")->child; id; id = id->next)
		tokens[n++] = (int32_t)json_double(id);
	engine_result_free(ask(
		engine, &(struct engine_request){.tokens = tokens, .n_tokens = n, .logprobs_from = n, .rows = rows}));
	int v = 0;
	for (const struct json *value = json_get(row, "logprobs")->child; value; value = value->next, v++)
		ck_assert_msg(fabs((double)rows[v] - json_double(value)) <= 2e-4,
			"%d ranks, after %d tokens, id %d: %.6f, expected %.6f", ranks, n, v, (double)rows[v],
			json_double(value));
	ck_assert_int_eq(v, vocab);
	free(rows);
}

START_TEST(values_are_those_of_transformers)
{
	struct buf text = test_read_file(golden_path("ranks/rows.json"));
	struct json_document *document;
	int n = 0;

	CHECK_OK(json_parse(buf_str(&text), "rows.json", 0, &document, &test_error));
	for (int ranks = 1; ranks <= 8; ranks *= 8) {
		struct engine *engine = open_ranks(tiny_model(), "bf16/f32", ranks, (struct engine_config){0});
		for (const struct json *row = json_get(json_root(document), "rows")->child; row; row = row->next, n++)
			row_check(engine, row, ranks);
		engine_close(engine);
	}
	ck_assert_int_eq(n, 6);
	json_free(document);
	buf_free(&text);
}
END_TEST

/* ---- the serving core ---- */

/* Many requests that share prefixes, in a cache that is too small for all, under the strictest guard. */
struct day {
	struct engine_stats stats;
	uint64_t hash, incidents, verified;
};

static struct day day_of(const char *model, const char *variant, int ranks)
{
	struct guard guard;
	struct day day = {0};
	guard_init(&guard, &(struct guard_options){.level = GUARD_DIGEST, .audit_every = 1});
	struct engine *engine = open_ranks(model, variant, ranks,
		(struct engine_config){.guard = &guard.table, .kv_memory = 320 << 10, .chunk = 24, .pad_decode = true});
	int vocab = engine_facts(engine)->vocab_size;

	for (int i = 0; i < 14; i++) {
		int32_t tokens[60];
		int n = 20 + i * 13 % 40;
		for (int t = 0; t < n; t++)
			tokens[t] = (t < 20 - i % 4 ? t * 7 : t * 11 + i) % vocab;
		submit(engine,
			&(struct engine_request){.tokens = tokens,
				.n_tokens = n,
				.logprobs_from = -1,
				.max_tokens = 4 + i % 9,
				.ignore_eos = true});
	}
	for (int i = 0; i < 14; i++) {
		struct engine_result *r = finish_one(engine);
		ck_assert_msg(r->finish == ENGINE_LENGTH, "%s", r->error.message);
		for (int t = 0; t < r->n_generated; t++)
			day.hash = (day.hash ^ (uint64_t)r->tokens[t] ^ (uint64_t)float_bits(r->logprobs[t]) << 32) *
				UINT64_C(0x9e3779b97f4a7c15);
		engine_result_free(r);
	}
	CHECK_OK(engine_audit(engine, &test_error));
	CHECK_OK(guard_proved(&guard, &test_error));
	engine_stats(engine, &day.stats);
	day.incidents = guard.incidents;
	day.verified = guard.verified_steps;
	engine_close(engine);
	return day;
}

START_TEST(caching_preemption_and_guards_go_on)
{
	static const char *const variants[] = {"bf16/f32", "bf16/f32>bf16/fp8"};
	const char *variant = variants[_i];
	struct day one = day_of(tiny_model(), variant, 1);

	ck_assert_uint_eq(one.incidents, 0);
	ck_assert_uint_gt(one.stats.preemptions + one.stats.pages_evicted, 0);
	ck_assert_uint_gt(one.stats.cached_tokens, 0);
	ck_assert_uint_gt(one.stats.pages_copied, 0);
	for (int ranks = 2; ranks <= 8; ranks *= 2) {
		struct day day = day_of(tiny_model(), variant, ranks);
		ck_assert_mem_eq(&day, &one, sizeof day);
	}
}
END_TEST

static int spoil_countdown;
static struct backend_ops spoiling_ops;
static void (*plain_attend)(struct backend *b, const struct attend_args *a);

static void spoiling_attend(struct backend *b, const struct attend_args *a)
{
	plain_attend(b, a);
	if (--spoil_countdown == 0)
		((uint8_t *)a->layer.k)[(size_t)a->block_tables[0] * (size_t)a->geometry.page_size *
			(size_t)a->geometry.n_kv_heads * (size_t)a->geometry.head_dim] ^= 1;
}

/* What is broken in one rank's memory is found. */
START_TEST(a_digest_covers_every_rank)
{
	struct guard guard;
	struct backend *backends[2];
	struct engine_config config = {.guard = &guard.table, .rank_backends = backends};
	int32_t tokens[40];

	guard_init(&guard, &(struct guard_options){.level = GUARD_DIGEST});
	for (int r = 0; r < 2; r++)
		CHECK_OK(cpu_backend_new(1, NULL, &backends[r], &test_error));
	spoiling_ops = *backends[_i]->ops;
	plain_attend = spoiling_ops.attend;
	spoiling_ops.attend = spoiling_attend;
	backends[_i]->ops = &spoiling_ops;
	spoil_countdown = 12; /* of two layers in each step: the prompt's first page is full and sealed by then */
	struct engine *engine = open_ranks(tiny_model(), "bf16/fp8", 2, config);
	for (int t = 0; t < COUNT(tokens); t++)
		tokens[t] = t * 3 + 10;
	struct engine_result *r = ask(engine,
		&(struct engine_request){.tokens = tokens,
			.n_tokens = COUNT(tokens),
			.logprobs_from = -1,
			.max_tokens = 30,
			.ignore_eos = true});
	ck_assert_int_eq(r->finish, ENGINE_FAILED);
	ck_assert_msg(strstr(r->error.message, "digest guard"), "%s", r->error.message);
	engine_result_free(r);
	engine_close(engine);
}
END_TEST

START_TEST(calibration_sees_every_rank)
{
	float amax[2][4];

	for (int i = 0; i < 2; i++) {
		struct engine *engine = open_ranks(tiny_model(), "bf16/f32", i ? 8 : 1, (struct engine_config){0});
		struct answers a = probes_ask(engine);
		ck_assert_int_eq(engine_facts(engine)->n_layers, 2);
		CHECK_OK(engine_kv_amax(engine, amax[i], &test_error));
		answers_free(&a);
		engine_close(engine);
	}
	ck_assert_mem_eq(amax[0], amax[1], sizeof amax[0]);
	ck_assert_float_gt(amax[0][0], 0.0f);
}
END_TEST

/* What is said of an engine counts the group: one model, one cache. */
START_TEST(facts_are_of_the_group)
{
	struct engine_facts one = {0};

	for (int ranks = 1; ranks <= 8; ranks *= 2) {
		struct engine *engine =
			open_ranks(tiny_model(), "int4g32/bf16", ranks, (struct engine_config){.kv_memory = 1 << 20});
		const struct engine_facts *f = engine_facts(engine);
		one = ranks == 1 ? *f : one;
		ck_assert_uint_eq(f->parameters, one.parameters);
		ck_assert_uint_eq(f->weights_bytes, one.weights_bytes);
		ck_assert_uint_eq(f->layer_parameters, one.layer_parameters);
		ck_assert_uint_eq(f->head_parameters, one.head_parameters);
		ck_assert_uint_eq(f->kv_bytes_per_token, one.kv_bytes_per_token);
		ck_assert_uint_eq(f->kv_tokens, one.kv_tokens);
		engine_close(engine);
	}
}
END_TEST

/* ---- refusals ---- */

static const struct {
	bool pocket;
	const char *variant;
	int ranks;
	const char *messages[3];
} refused[] = {
	{true, "int4/bf16", 2,
		{"2 ranks with int4 weights: expected 1. ", "o_proj 1 (128 inputs, 2 kv heads)", "multiples of 128"}},
	{true, "bf16/bf16>int4/bf16", 2, {"2 ranks with int4 weights", "expected 1. ", "o_proj 1"}},
	{true, "bf16/bf16", 4,
		{"4 ranks with bf16 weights: expected 1 or 2. ", "2 kv heads", "down_proj 4 (384 inputs)"}},
	{true, "bf16/bf16", 3, {"3 ranks", "expected 1 or 2. ", "o_proj 2"}},
	{false, "int4g64/bf16", 8, {"8 ranks with int4g64", "expected 1, 2 or 4. ", "multiples of 64"}},
	{false, "bf16/bf16", 5, {"5 ranks", "expected 1, 2, 4 or 8. ", "8 kv heads"}},
	{false, "bf16/bf16", 9, {"9 ranks", "at most 8", "9"}},
	{false, "bf16/bf16", 1 << 20, {"1048576 ranks", "at most 8", "8"}},
};

START_TEST(what_does_not_divide_is_refused)
{
	struct engine_config config = {.model = refused[_i].pocket ? POCKET : tiny_model(), .ranks = refused[_i].ranks};
	struct engine *engine;
	struct error e = {0};

	CHECK_OK(variant_parse(refused[_i].variant, &config.variant, &test_error));
	ck_assert_int_eq(engine_open(&config, &engine, &e), ERR_USAGE);
	ck_assert_ptr_null(engine);
	for (int m = 0; m < 3; m++)
		ck_assert_msg(
			strstr(e.message, refused[_i].messages[m]), "%s: no '%s'", e.message, refused[_i].messages[m]);
}
END_TEST

START_TEST(one_backend_is_for_one_rank)
{
	struct engine_config config = {.model = POCKET, .ranks = 2};
	struct engine *engine;
	struct error e = {0};

	CHECK_OK(variant_parse("bf16/bf16", &config.variant, &test_error));
	CHECK_OK(cpu_backend_new(1, NULL, &config.backend, &test_error));
	ck_assert_int_eq(engine_open(&config, &engine, &e), ERR_USAGE);
	ck_assert_msg(strstr(e.message, "2 ranks") && strstr(e.message, "backend"), "%s", e.message);
}
END_TEST

/* ---- ranks that fail ---- */

/* An end of a group that fails at its n-th call. */
struct failing {
	struct comm base;
	struct comm *inner;
	int left; /* calls until then; less than 0: none fails */
};

static struct failing *failing(struct comm *c)
{
	return (struct failing *)c;
}

#define INNER(c) failing(c)->inner
#define COUNTED(c, e, call) \
	failing(c)->left-- == 0 ? error_set(e, ERR_DEVICE, "a planted cause in a " #call) : INNER(c)->ops->call

static int failing_gather(struct comm *c, const void *own, size_t bytes, void *all, struct error *e)
{
	return COUNTED(c, e, all_gather)(INNER(c), own, bytes, all, e);
}

static int failing_max(struct comm *c, float *values, size_t count, struct error *e)
{
	return COUNTED(c, e, all_reduce_max)(INNER(c), values, count, e);
}

static int failing_send(struct comm *c, int to, const void *data, size_t bytes, struct error *e)
{
	return COUNTED(c, e, send)(INNER(c), to, data, bytes, e);
}

static int failing_receive(struct comm *c, int from, void *data, size_t bytes, struct error *e)
{
	return COUNTED(c, e, receive)(INNER(c), from, data, bytes, e);
}

static int failing_barrier(struct comm *c, struct error *e)
{
	return INNER(c)->ops->barrier(INNER(c), e);
}

static void failing_give_up(struct comm *c, const struct error *cause)
{
	INNER(c)->ops->give_up(INNER(c), cause);
}

static void failing_destroy(struct comm *c)
{
	INNER(c)->ops->destroy(INNER(c));
}

static const struct comm_ops failing_ops = {
	.name = "failing",
	.all_gather = failing_gather,
	.all_reduce_max = failing_max,
	.send = failing_send,
	.receive = failing_receive,
	.barrier = failing_barrier,
	.give_up = failing_give_up,
	.destroy = failing_destroy,
};

static void failing_group(int size, struct failing *ends, struct comm **out)
{
	struct comm *inner[COMM_MAX_RANKS];

	CHECK_OK(comm_threads_new(size, inner, &test_error));
	for (int r = 0; r < size; r++) {
		ends[r] = (struct failing){{&failing_ops, r, size}, inner[r], -1};
		out[r] = &ends[r].base;
	}
}

/* Steps until one fails; then every further one does, and says the same. */
static void expect_failed(struct engine *engine, const char *message)
{
	int32_t tokens[40] = {1, 2, 3};
	struct error e = {0}, again = {0};
	bool idle;

	submit(engine,
		&(struct engine_request){
			.tokens = tokens, .n_tokens = 40, .logprobs_from = 1, .max_tokens = 20, .ignore_eos = true});
	for (int i = 0; i < 30 && e.code == 0; i++)
		engine_step(engine, &idle, &e);
	ck_assert_int_eq(e.code, ERR_DEVICE);
	ck_assert_int_eq(error_exit_code(e.code), 4);
	ck_assert_msg(strstr(e.message, message), "%s: expected %s", e.message, message);
	ck_assert_int_eq(engine_step(engine, &idle, &again), ERR_DEVICE);
	ck_assert_str_eq(again.message, e.message);
	engine_close(engine);
}

/* Calls of a step of two layers in fp8: two of each kind a layer, then messages. */
static const int fail_at[] = {0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 25};

START_TEST(a_rank_that_fails_ends_the_step)
{
	for (int rank = 0; rank < 4; rank++) {
		struct failing ends[COMM_MAX_RANKS];
		struct comm *comms[COMM_MAX_RANKS];
		char message[64];
		failing_group(4, ends, comms);
		ends[rank].left = fail_at[_i];
		struct engine *engine = open_ranks(
			tiny_model(), "fp8/bf16", 4, (struct engine_config){.rank_comms = comms, .chunk = 16});
		snprintf(message, sizeof message, "rank %d failed: a planted cause in a ", rank);
		expect_failed(engine, message);
	}
}
END_TEST

static int finish_countdown;
static struct backend_ops unfinished_ops;
static int (*plain_finish)(struct backend *b, struct error *e);

static int finish_failing(struct backend *b, struct error *e)
{
	if (--finish_countdown < 0)
		return error_set(e, ERR_DEVICE, "a planted device error");
	return plain_finish(b, e);
}

START_TEST(a_device_that_fails_is_named)
{
	struct backend *backends[4];
	char message[64];

	for (int r = 0; r < 4; r++)
		CHECK_OK(cpu_backend_new(1, NULL, &backends[r], &test_error));
	unfinished_ops = *backends[_i]->ops;
	plain_finish = unfinished_ops.finish;
	unfinished_ops.finish = finish_failing;
	backends[_i]->ops = &unfinished_ops;
	finish_countdown = 3;
	struct engine *engine =
		open_ranks(tiny_model(), "bf16/bf16", 4, (struct engine_config){.rank_backends = backends});
	snprintf(message, sizeof message, "rank %d failed: a planted device error", _i);
	expect_failed(engine, message);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *output = test_case(suite, "one output", 120);
	tcase_add_loop_test(output, every_number_of_ranks_gives_the_same_bits, 0, COUNT(bit_cases));
	tcase_add_test(output, values_are_those_of_transformers);
	TCase *serving = test_case(suite, "serving", 120);
	tcase_add_loop_test(serving, caching_preemption_and_guards_go_on, 0, 2);
	tcase_add_loop_test(serving, a_digest_covers_every_rank, 0, 2);
	tcase_add_test(serving, calibration_sees_every_rank);
	tcase_add_test(serving, facts_are_of_the_group);
	TCase *refusals = test_case(suite, "refusals", 60);
	tcase_add_loop_test(refusals, what_does_not_divide_is_refused, 0, COUNT(refused));
	tcase_add_test(refusals, one_backend_is_for_one_rank);
	TCase *failures = test_case(suite, "failures", 60);
	tcase_add_loop_test(failures, a_rank_that_fails_ends_the_step, 0, COUNT(fail_at));
	tcase_add_loop_test(failures, a_device_that_fails_is_named, 0, 4);
}
