/* --tp as a user gives it: the same rows in the store, refusals, and a rank that runs out of memory. */
#include "tests/program_store.h"

const char *const test_program_name = "program_ranks";

static void run_suite(const char *db, const char *variant, const char *ranks)
{
	struct outcome o = RUN("run", "--suite", "gsm8k,arc_easy", "--limit", "6", "--fewshot", "1", "--model", POCKET,
		"--db", db, "--threads", "2", "--kv-memory", "4MiB", "--variant", variant, "--guard", "digest", "--tp",
		ranks);
	ck_assert_msg(o.exit_code == 0, "%s", buf_text(&o.err));
	outcome_free(&o);
}

START_TEST(two_ranks_store_the_same_rows)
{
	static const char *const variants[] = {"bf16/bf16", "fp8/fp8", "int4g64/bf16", "bf16/bf16>fp8/fp8"};
	const char *folder = scratch_folder();
	struct buf rows[2];

	for (int i = 0; i < 2; i++) {
		char options[64];
		const char *db = path_in(folder, i ? "two.db" : "one.db");
		run_suite(db, variants[_i], i ? "2" : "1");
		rows[i] = answers(db, 1);
		snprintf(options, sizeof options, "%d\n", i + 1);
		expect_sql(db, "SELECT json_extract(provenance, '$.engine.tp') FROM run", options);
	}
	ck_assert_uint_gt(rows[0].length, 1000);
	expect_same(&rows[1], &rows[0]);
	buf_free(&rows[0]);
	buf_free(&rows[1]);
}
END_TEST

static const struct {
	const char *variant, *ranks;
	const char *message;
} refused[] = {
	{"int4/bf16", "2", "2 ranks with int4 weights: expected 1. "},
	{"bf16/bf16", "4", "4 ranks with bf16 weights: expected 1 or 2. "},
	{"bf16/bf16", "3", "3 ranks with bf16 weights: expected 1 or 2. "},
	{"bf16/bf16", "0", "--tp: '0', expected a whole number from 1 to 8"},
	{"bf16/bf16", "9", "--tp: '9', expected a whole number from 1 to 8"},
	{"bf16/bf16", "two", "--tp: 'two'"},
};

START_TEST(what_does_not_divide_is_refused)
{
	EXPECT_FAILURE(RUN("generate", "--prompt", "x", "--model", POCKET, "--variant", refused[_i].variant, "--tp",
			       refused[_i].ranks),
		2, refused[_i].message);
}
END_TEST

/* Before the first variant is run, not when the second one's turn comes. */
START_TEST(a_run_refuses_before_it_begins)
{
	const char *db = path_in(scratch_folder(), "a.db");

	EXPECT_FAILURE(RUN("run", "--suite", "gsm8k", "--limit", "2", "--model", POCKET, "--db", db, "--tp", "2",
			       "--variant", "bf16/bf16", "--variant", "bf16/bf16>int4/bf16"),
		2, "2 ranks with int4 weights");
	ck_assert_int_ne(access(db, F_OK), 0);
}
END_TEST

START_TEST(commands_that_ask_an_engine_take_it)
{
	static const char *const pair = "{\"context\": [100, 200, 300], \"continuation\": [5, 6]}\n";
	struct buf out[2];

	for (int i = 0; i < 2; i++) {
		struct outcome o =
			RUN_WITH(pair, "logprobs", "--model", POCKET, "--variant", "fp8/fp8", "--tp", i ? "2" : "1");
		ck_assert_msg(o.exit_code == 0, "%s", buf_text(&o.err));
		out[i] = o.out;
		buf_free(&o.err);
	}
	expect_same(&out[1], &out[0]);
	for (int i = 0; i < 2; i++)
		buf_free(&out[i]);
}
END_TEST

START_TEST(a_rank_without_memory_ends_the_run)
{
	if (test_build_is_slow())
		SKIP("a sanitizer has its own allocator");
	const char *db = path_in(scratch_folder(), "a.db");
	char preload[4096];
	snprintf(preload, sizeof preload, "LD_PRELOAD=%.*s/tests/rank_fault.so",
		(int)(strrchr(ASSAY_PROGRAM, '/') - ASSAY_PROGRAM), ASSAY_PROGRAM);
	struct outcome o =
		program_run(&(struct call){.arguments = {"run", "--suite", "gsm8k", "--limit", "4", "--model", POCKET,
						   "--db", db, "--threads", "1", "--tp", "2"},
			.environment = {preload}});
	ck_assert_msg(o.exit_code == 4, "exit %d: %s", o.exit_code, buf_text(&o.err));
	const char *named = strstr(buf_text(&o.err), "rank ");
	ck_assert_msg(named && strstr(named, " failed: no memory for "), "%s", buf_text(&o.err));
	outcome_free(&o);
	ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM sample WHERE status = 'ok'"), 0);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *ranks = test_case(suite, "ranks", 120);

	tcase_add_loop_test(ranks, two_ranks_store_the_same_rows, 0, test_build_is_slow() ? 2 : 4);
	tcase_add_loop_test(ranks, what_does_not_divide_is_refused, 0, COUNT(refused));
	tcase_add_test(ranks, a_run_refuses_before_it_begins);
	tcase_add_test(ranks, commands_that_ask_an_engine_take_it);
	tcase_add_test(ranks, a_rank_without_memory_ends_the_run);
}
