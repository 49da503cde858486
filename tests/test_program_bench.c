/* `assay bench`, and the engine's options as the program takes them: what they say and leave in the store. No time is
 * judged. */
#include <time.h>

#include "tests/program_store.h"

const char *const test_program_name = "program_bench";

static const char *database(void)
{
	return path_in(scratch_folder(), "a.db");
}

/* ---- bench ---- */

/* Refused before anything is measured. */
static const struct {
	const char *arguments[8];
	const char *message, *more;
} bad_cases[] = {
	{{"--concurrency", "1,x"}, "--concurrency", "'x'"},
	{{"--concurrency", "4097"}, "4096", "'4097'"},
	{{"--concurrency", "0"}, "4096", "'0'"},
	{{"--variant", "int5/fp8"}, "int5", "int4g32"},
	{{"--input", "0"}, "--input", "0"},
	{{"--repeat", "0"}, "--repeat", "0"},
	{{"--input", "8", "--shared-prefix", "9"}, "--shared-prefix 9", "8 tokens"},
	{{"--input", "1000", "--output", "2000"}, "--input 1000 --output 2000", "context"},
	{{"--input", "100", "--kv-memory", "64KiB"}, "--kv-memory", "163 tokens"},
	{{"--random-weights", POCKET "/config.json", "--model", POCKET}, "--random-weights", "one of them"},
	{{"--random-weights", POCKET "/tokenizer.json"}, "tokenizer.json", "model_type"},
	{{"--random-weights", "/nonexistent/config.json"}, "/nonexistent/config.json", "No such file"},
};

START_TEST(bench_bad_options)
{
	struct call c = {.arguments = {"bench", "--db", database()}};
	memcpy(c.arguments + 3, bad_cases[_i].arguments, sizeof(bad_cases[_i].arguments));
	EXPECT_FAILURE(program_run(&c), 2, bad_cases[_i].message, bad_cases[_i].more);
}
END_TEST

#define BENCH(db, ...) RUN("bench", "--input", "20", "--output", "5", "--json", "--quiet", "--db", db, __VA_ARGS__)

/* The median of a request's parts is no longer than that of the whole. */
static void check_latencies(const struct json *row)
{
	static const char *const names[] = {"ttft_ms", "itl_ms", "tpot_ms", "e2e_ms"};
	double whole = json_double(json_path(row, "e2e_ms/median"));
	for (int i = 0; i < COUNT(names); i++) {
		const struct json *latency = json_path(row, names[i]);
		double median = json_double(json_path(latency, "median")), p95 = json_double(json_path(latency, "p95"));
		ck_assert_msg(median > 0 && median <= whole, "%s %g of %g", names[i], median, whole);
		ck_assert(p95 >= median && json_double(json_path(latency, "p99")) >= p95);
		ck_assert(json_double(json_path(latency, "mean")) > 0);
	}
}

static void check_row(const struct json *row, const char *phase, int concurrency)
{
	ck_assert(str_is(json_path(row, "variant")->text, "bf16/fp8"));
	ck_assert(str_is(json_path(row, "phase")->text, phase));
	ck_assert_int_eq(json_path_int(row, "concurrency"), concurrency);
	ck_assert_int_eq(json_path_int(row, "input"), 20);
	ck_assert_int_eq(json_path_int(row, "output"), 5);
	ck_assert_int_eq(json_path_int(row, "detail/requests"), 3 * concurrency);
	ck_assert(json_double(json_path(row, "tokens_per_s")) > 0);
	ck_assert(json_double(json_path(row, "share_of_floor")) > 0);
	check_latencies(row);
}

START_TEST(bench_levels)
{
	static const char *const phases[] = {"prefill", "decode", "mixed"};
	static const int levels[] = {1, 3};
	const char *db = database();
	struct outcome o = BENCH(db, "--concurrency", "1,3", "--repeat", "3", "--variant", "bf16/fp8");
	expect_exit(&o, 0);
	struct json_document *document = parse(buf_str(&o.out));
	const struct json *root = json_root(document), *rows = json_path(root, "rows");
	ck_assert(str_is(root->child->key, "schema_version") && json_path_int(root, "run") == 1);
	ck_assert(json_double(json_path(root, "machine/flops")) > 0);
	ck_assert_uint_eq(rows->count, 6);
	for (size_t i = 0; i < 6; i++) {
		const struct json *row = json_at(rows, i);
		int n = levels[i / 3] * 3;
		check_row(row, phases[i % 3], levels[i / 3]);
		if (i % 3 != 2)
			continue;
		/* random prompts: but for an id in common at the start, each is computed, and all of its answer */
		ck_assert_int_eq(
			json_path_int(row, "detail/prompt_tokens") + json_path_int(row, "detail/cached_tokens"),
			20 * n);
		ck_assert_int_le(json_path_int(row, "detail/cached_tokens"), 2 * n);
		ck_assert_int_eq(json_path_int(row, "detail/generated_tokens"), 5 * n);
		ck_assert_int_eq(json_path_int(row, "detail/preemptions"), 0);
	}
	ck_assert_uint_eq(json_path(root, "residents")->count, 0);
	expect_sql(db, "SELECT kind, status FROM run", "bench|complete\n");
	expect_sql(db,
		"SELECT concurrency, phase, tokens_per_s > 0, json_extract(ttft_ms, '$.p99') > 0, arm, block FROM "
		"measurement "
		"ORDER BY measurement_id",
		"1|prefill|1|1|none|0\n1|decode|1|1|none|0\n1|mixed|1|1|none|0\n3|prefill|1|1|none|0\n3|decode|1|1|"
		"none|0\n"
		"3|mixed|1|1|none|0\n");
	json_free(document);
	outcome_free(&o);
}
END_TEST

START_TEST(bench_answers_of_one_token)
{
	struct outcome o = RUN("bench", "--input", "9", "--output", "1", "--json", "--quiet", "--db", database());
	expect_exit(&o, 0);
	struct json_document *document = parse(buf_str(&o.out));
	const struct json *rows = json_path(json_root(document), "rows");
	ck_assert_uint_eq(rows->count, 2); /* nothing is decoded beyond the prompt's own step */
	ck_assert(str_is(json_path(rows, "0/phase")->text, "prefill") &&
		str_is(json_path(rows, "1/phase")->text, "mixed"));
	ck_assert(json_is(json_path(rows, "1/itl_ms"), JSON_NULL) && json_is(json_path(rows, "1/tpot_ms"), JSON_NULL));
	json_free(document);
	outcome_free(&o);
}
END_TEST

/* The seed decides weights, too. */
START_TEST(bench_random_weights)
{
	static const char *const seeds[] = {"1", "1", "2"};
	const char *db = database();
	for (int i = 0; i < COUNT(seeds); i++) {
		struct outcome o =
			BENCH(db, "--random-weights", POCKET "/config.json", "--seed", seeds[i], "--repeat", "1");
		expect_exit(&o, 0);
		outcome_free(&o);
	}
	expect_sql(db,
		"SELECT model_fingerprint = (SELECT model_fingerprint FROM run WHERE run_id = 1) FROM run ORDER BY "
		"run_id",
		"1\n1\n0\n");
	expect_sql(db,
		"SELECT DISTINCT json_extract(provenance, '$.random_weights'), weights_bytes FROM run JOIN variant "
		"USING (run_id)",
		"1|1837312\n");
}
END_TEST

/* What the prompts have in common is computed once; the seed decides them. */
START_TEST(bench_shared_prefix)
{
	const char *db = database();
	struct outcome o = BENCH(db, "--concurrency", "2", "--shared-prefix", "20", "--seed", "7", "--repeat", "5");
	expect_exit(&o, 0);
	outcome_free(&o);
	/* all but the last token, whose logits are asked for; the requests that warm up come first */
	expect_sql(db,
		"SELECT json_extract(detail, '$.cached_tokens'), json_extract(detail, '$.seed') FROM measurement WHERE "
		"phase = 'mixed'",
		"190|7\n");
}
END_TEST

/* 24 slots of each request are two pages of 16; one page of the budget is nobody's. */
static const struct {
	const char *variant, *memory;
	int residents, kv_tokens;
} resident_cases[] = {
	{"bf16/bf16", "256KiB", 7, 240}, {"bf16/fp8", "256KiB", 15, 496}, {"bf16/bf16", "48KiB", 1, 32},
	{"bf16/bf16>bf16/fp8", "256KiB", 7, 496}, /* where prompts are computed, tokens take twice the room */
};

START_TEST(bench_residents)
{
	const char *db = database();
	struct outcome o = BENCH(db, "--residents", "--variant", resident_cases[_i].variant, "--kv-memory",
		resident_cases[_i].memory, "--repeat", "1");
	expect_exit(&o, 0);
	struct json_document *document = parse(buf_str(&o.out));
	const struct json *found = json_path(json_root(document), "residents/0");
	ck_assert_int_eq(json_path_int(found, "residents"), resident_cases[_i].residents);
	ck_assert_int_eq(json_path_int(found, "kv_tokens"), resident_cases[_i].kv_tokens);
	ck_assert_int_eq(json_path_int(found, "tokens_per_request"), 25);
	json_free(document);
	outcome_free(&o);
	ck_assert_int_eq(sql_int(db, "SELECT concurrency FROM measurement WHERE phase = 'residents'"),
		resident_cases[_i].residents);
}
END_TEST

/* Weights change nothing of how many fit: each KV format is filled once. */
START_TEST(bench_residents_once_for_a_format)
{
	const char *db = database();
	struct outcome o = RUN("bench", "--input", "20", "--output", "5", "--quiet", "--db", db, "--residents",
		"--kv-memory", "64KiB", "--repeat", "1", "--variant", "bf16/bf16", "--variant", "int4/bf16",
		"--variant", "int4/fp8");
	expect_exit(&o, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "requests resident"));
	outcome_free(&o);
	expect_sql(db,
		"SELECT name, concurrency FROM measurement JOIN variant USING (variant_id) WHERE phase = 'residents'",
		"bf16/bf16|1\nint4/fp8|3\n");
}
END_TEST

static int64_t levels_so_far(const char *db)
{
	return access(db, F_OK) == 0 && sql_int(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'measurement'")
		? sql_int(db, "SELECT count(*) FROM measurement")
		: 0;
}

/* What was measured before the signal stays. */
START_TEST(bench_interrupted)
{
	const char *db = database();
	struct program p = program_start(&(struct call){.arguments = {"bench", "--input", "9", "--output", "50", "--db",
								db, "--concurrency", "1,1000", "--repeat", "9"}});
	while (levels_so_far(db) == 0)
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	ck_assert_int_eq(kill(p.pid, SIGINT), 0);
	struct outcome o = program_wait(p);
	EXPECT_FAILURE(o, 130, "interrupted");
	expect_sql(db, "SELECT status, kind FROM run", "interrupted|bench\n");
	ck_assert_int_ge(levels_so_far(db), 1);
}
END_TEST

/* ---- options of the engine ---- */

#define ARC(db, ...) RUN("run", "--suite", "arc_easy,recall", "--limit", "30", "--db", db, "--quiet", __VA_ARGS__)

static void run_ok(struct outcome o)
{
	expect_exit(&o, 0);
	outcome_free(&o);
}

/* Caching, padding and a deadline that is not reached change no answer; only the last makes it another configuration. */
START_TEST(options_change_no_answer)
{
	const char *db = database();
	run_ok(ARC(db, "--threads", "1"));
	run_ok(ARC(db, "--no-prefix-cache"));
	run_ok(ARC(db, "--pad-decode"));
	run_ok(ARC(db, "--deadline", "100000"));
	run_ok(ARC(db, "--max-requests", "1", "--no-prefix-cache", "--pad-decode"));
	struct buf expected = answers(db, 1);
	for (int run = 2; run <= 5; run++) {
		struct buf actual = answers(db, run);
		expect_same(&actual, &expected);
		buf_free(&actual);
	}
	buf_free(&expected);
	expect_sql(db,
		"SELECT count(DISTINCT config_hash), sum(config_hash = (SELECT config_hash FROM run WHERE run_id = 1)) "
		"FROM run",
		"2|4\n");
	expect_sql(db,
		"SELECT json_extract(provenance, '$.engine.prefix_cache'), json_extract(provenance, "
		"'$.engine.pad_decode'), "
		"json_extract(provenance, '$.engine.deadline') FROM run ORDER BY run_id",
		"1|0|-\n0|0|-\n1|1|-\n1|0|100000.0\n0|1|-\n");
}
END_TEST

/* The engine's own counters agree with what the samples say. */
START_TEST(counters_agree_with_samples)
{
	const char *db = database();
	struct outcome o = ARC(db, "--json", "--variant", "bf16/bf16", "--variant", "fp8/bf16>int4/fp8");
	expect_exit(&o, 0);
	struct json_document *document = parse(buf_str(&o.out));
	const struct json *variants = json_path(json_root(document), "variants");
	for (size_t i = 0; i < 2; i++) {
		const struct json *v = json_at(variants, i), *kv = json_path(v, "kv");
		char query[256];
		snprintf(query, sizeof(query),
			"SELECT sum(cached_tokens) = %" PRId64 ", sum(generated_tokens) = %" PRId64
			", sum(prompt_tokens) - sum(cached_tokens) = %" PRId64
			" FROM sample JOIN variant USING (variant_id) "
			"WHERE name = '%.*s'",
			json_path_int(kv, "cached"), json_path_int(kv, "generated"), json_path_int(kv, "computed"),
			STR_ARG(json_path(v, "name")->text));
		expect_sql(db, query, "1|1|1\n");
		ck_assert_int_gt(json_path_int(kv, "computed"), 0);
		ck_assert_int_gt(json_path_int(kv, "cached"), 0);
		ck_assert_int_gt(json_path_int(kv, "pages_used_peak"), 0);
		ck_assert_int_eq(json_path_int(kv, "preemptions") + json_path_int(kv, "replayed"), 0);
		ck_assert_int_eq(json_path_int(kv, "transferred") > 0, i == 1);
	}
	json_free(document);
	outcome_free(&o);
}
END_TEST

/* A nanosecond is over before anything runs. */
START_TEST(deadline_is_an_error_of_its_item)
{
	const char *db = database();
	struct outcome o = ARC(db, "--deadline", "1e-9");
	expect_exit(&o, 5);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.err), "no item was answered: "));
	outcome_free(&o);
	expect_sql(db,
		"SELECT suite, status, response, error LIKE '%longer than the 1e-09 seconds that --deadline allows', "
		"count(*) FROM "
		"sample GROUP BY 1, 2, 3, 4",
		"arc_easy|error|null|1|30\nrecall|error|null|1|30\n");
	o = RUN("generate", "--prompt", "Once", "--deadline", "1e-9", "--json");
	expect_exit(&o, 4);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "\"finish_reason\": \"timeout\""));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.err), "1 of 1 prompts ran into the deadline of 1e-09 s"));
	outcome_free(&o);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *bench = test_case(suite, "bench", 120);
	tcase_add_loop_test(bench, bench_bad_options, 0, COUNT(bad_cases));
	tcase_add_test(bench, bench_levels);
	tcase_add_test(bench, bench_answers_of_one_token);
	tcase_add_test(bench, bench_random_weights);
	tcase_add_test(bench, bench_shared_prefix);
	tcase_add_loop_test(bench, bench_residents, 0, COUNT(resident_cases));
	tcase_add_test(bench, bench_residents_once_for_a_format);
	tcase_add_test(bench, bench_interrupted);

	TCase *options = test_case(suite, "options", 60);
	tcase_add_test(options, options_change_no_answer);
	tcase_add_test(options, counters_agree_with_samples);
	tcase_add_test(options, deadline_is_an_error_of_its_item);
}
