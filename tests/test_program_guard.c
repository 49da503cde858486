/* Guards as the program takes them, and `assay overhead`. No time is judged. */
#include "evals/run_guard.h"
#include "tests/program_store.h"
#include "tests/store_fixture.h"

const char *const test_program_name = "program_guard";

static const char *database(const char *name)
{
	return path_in(scratch_folder(), name);
}

/* ---- options ---- */

static const struct {
	const char *arguments[8];
	const char *message, *more;
} bad_cases[] = {
	{{"generate", "--prompt", "a", "--guard", "page"}, "--guard", "chain"},
	{{"generate", "--prompt", "a", "--guard-mode", "observe"}, "--guard-mode", "--guard tags"},
	{{"generate", "--prompt", "a", "--guard", "none", "--audit-every", "3"}, "--audit-every", "--guard tags"},
	{{"generate", "--prompt", "a", "--guard", "tags", "--guard-mode", "abort"}, "--guard-mode", "observe"},
	{{"generate", "--prompt", "a", "--guard", "tags", "--audit-every", "0"}, "--audit-every", "1"},
	{{"overhead", "--arms", "pages,all"}, "--arms", "'all'"},
	{{"overhead", "--concurrency", "0"}, "--concurrency", "'0'"},
	{{"overhead", "--blocks", "1"}, "--blocks", "2"},
	{{"overhead", "--guard", "tags"}, "--guard", "belongs to"},
};

START_TEST(bad_options)
{
	struct call c = {0};
	memcpy(c.arguments, bad_cases[_i].arguments, sizeof(bad_cases[_i].arguments));
	EXPECT_FAILURE(program_run(&c), 2, bad_cases[_i].message, bad_cases[_i].more);
}
END_TEST

/* ---- runs ---- */

static const char *const levels[] = {"none", "tags", "pages", "chain", "digest"};
static const char *const variants[] = {"bf16/bf16", "bf16/bf16>bf16/fp8"};

/* Every level gives the bits of none, checks every step, and finds nothing. */
START_TEST(a_guarded_run_answers_the_same)
{
	const char *db = database("a.db"), *variant = variants[_i];

	for (int i = 0; i < COUNT(levels); i++) {
		struct outcome o = RUN("run", "--suite", "recall", "--limit", "6", "--variant", variant, "--guard",
			levels[i], "--db", db, "--json", "--quiet");
		expect_exit(&o, 0);
		ck_assert_uint_eq(o.err.length, 0);
		struct json_document *d = parse(buf_str(&o.out));
		const struct json *guard = json_path(json_root(d), "variants/0/facts/guard");
		ck_assert(str_is(json_path(guard, "level")->text, levels[i]));
		ck_assert_int_eq(json_path_int(guard, "incidents"), 0);
		ck_assert_int_eq(json_path_int(guard, "steps") > 0, i > 0);
		json_free(d);
		outcome_free(&o);
		struct buf first = answers(db, 1), here = answers(db, i + 1);
		ck_assert_str_eq(buf_text(&here), buf_text(&first));
		buf_free(&first);
		buf_free(&here);
	}
	expect_sql(db, "SELECT count(*) FROM incident", "0\n");
	expect_sql(db, "SELECT group_concat(json_extract(provenance, '$.engine.guard')) FROM run",
		"none,tags,pages,chain,digest\n");
}
END_TEST

START_TEST(the_table_says_what_was_checked)
{
	struct outcome o = RUN("run", "--suite", "recall", "--limit", "3", "--guard", "pages", "--guard-mode",
		"observe", "--audit-every", "2", "--db", database("a.db"));
	expect_exit(&o, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "\nguard pages (observing): "));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), " checks, 0 incidents\n"));
	outcome_free(&o);
}
END_TEST

/* ---- incidents ---- */

static const struct guard_incident incident = {.time = INT64_C(1767225600123456789),
	.check = GUARD_OWNER,
	.moment = GUARD_AT_READ,
	.pool = 1,
	.request = 12,
	.page = 7,
	.logical = 2,
	.expected = 5,
	.actual = UINT64_MAX,
	.step = 99,
	.emitted = 4,
	.what = "a page that is not the request's"};

START_TEST(an_incident_is_a_line_of_json)
{
	struct guard_incident unnamed = {
		.check = GUARD_FREE_LIST, .moment = GUARD_AT_AUDIT, .page = -1, .logical = -1, .what = ""};
	struct buf out = {0};

	incident_json(&incident, "bf16/fp8", &out);
	ck_assert_str_eq(buf_text(&out),
		"{\"event\": \"incident\", \"time\": \"2026-01-01T00:00:00.123Z\", \"variant\": \"bf16/fp8\", "
		"\"check\": \"owner\", \"phase\": \"before_read\", \"pool\": 1, \"request\": 12, \"page\": 7, "
		"\"logical_position\": 2, \"expected\": \"5\", \"actual\": \"18446744073709551615\", \"step\": 99, "
		"\"tokens_emitted\": 4, \"detail\": \"a page that is not the request's\"}");
	buf_clear(&out);
	incident_json(&unnamed, "", &out);
	json_free(parse(buf_str(&out)));
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "\"page\": null, \"logical_position\": null"));
	buf_free(&out);
}
END_TEST

START_TEST(an_incident_is_a_row)
{
	const char *db = database("a.db");
	struct options o = {.guard = "pages", .quiet = true};
	struct run_guard g;

	CHECK_OK(run_guard_init(&g, &o, &test_error));
	g.store = fixture_open(db);
	g.variant = "bf16/fp8";
	fixture_begin(g.store, "c", false);
	g.guard.options.sink(g.guard.options.sink_context, &incident);
	CHECK_OK(run_guard_check(&g, &test_error));
	store_close(g.store);
	expect_sql(db,
		"SELECT variant || ' ' || check_name || ' ' || phase || ' ' || request || ' ' || page || ' ' || "
		"logical_position || ' ' || expected || ' ' || actual || ' ' || step || ' ' || tokens_emitted FROM "
		"incident",
		"bf16/fp8 owner before_read 12 7 2 5 18446744073709551615 99 4\n");
	expect_sql(db, "SELECT json_extract(detail, '$.level') || json_extract(detail, '$.mode') FROM incident",
		"pagesenforce\n");
	struct outcome shown = RUN("show", "1", "--db", db);
	expect_exit(&shown, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&shown.out), "bf16/fp8  owner  before_read          1\n"));
	outcome_free(&shown);
}
END_TEST

/* ---- overhead ---- */

START_TEST(overhead_measures_every_arm_in_every_block)
{
	const char *db = database("a.db");
	struct outcome o = RUN("overhead", "--arms", "tags,chain", "--concurrency", "1,2", "--input", "20", "--output",
		"4", "--repeat", "1", "--blocks", "3", "--kv-memory", "1MiB", "--db", db, "--json", "--quiet");

	expect_exit(&o, 0);
	struct json_document *d = parse(buf_str(&o.out));
	const struct json *rows = json_path(json_root(d), "rows");
	static const char *const arms[] = {"none (A/A)", "tags", "chain"};
	ck_assert_int_eq((int)rows->count, 6);
	int i = 0;
	JSON_EACH (row, rows) {
		ck_assert(str_is(json_path(row, "arm")->text, arms[i % 3]));
		ck_assert_int_eq(json_path_int(row, "concurrency"), 1 + i / 3);
		ck_assert_int_eq(json_path_int(row, "blocks"), 3);
		double value = json_double(json_path(row, "throughput_change/value"));
		ck_assert(json_double(json_path(row, "throughput_change/low")) <= value);
		ck_assert(json_double(json_path(row, "throughput_change/high")) >= value);
		enum json_type blocks = json_path(row, "blocks_for_half_percent")->type;
		ck_assert(blocks == JSON_NULL || blocks == JSON_NUMBER);
		ck_assert(json_double(json_path(row, "guard_us_per_step")) > 0);
		ck_assert(json_double(json_path(row, "guard_share")) < 1);
		ck_assert_int_eq(json_path(row, "aa_throughput_change/low")->type, JSON_NUMBER);
		i++;
	}
	json_free(d);
	outcome_free(&o);
	expect_sql(db, "SELECT count(*) FROM measurement", "24\n");
	expect_sql(db, "SELECT kind || ' ' || status FROM run", "overhead complete\n");
	expect_sql(
		db, "SELECT count(DISTINCT arm) || ' ' || min(block) || ' ' || max(block) FROM measurement", "4 1 3\n");
	static const char *const arms_by_name[] = {"none (A/A)", "chain", "tags"};
	o = RUN("report", "--markdown", "-", "--db", db);
	expect_exit(&o, 0);
	const char *table = strstr(buf_text(&o.out), "Overhead of the guards");
	ck_assert_ptr_nonnull(table);
	/* at each concurrency the A/A arm, then the others with its interval beside */
	for (i = 0; i < 6; i++) {
		table = strstr(table, "\n| bf16/bf16 | ");
		ck_assert_msg(table && strncmp(table + 15, arms_by_name[i % 3], strlen(arms_by_name[i % 3])) == 0, "%s",
			buf_text(&o.out));
		table++;
	}
	outcome_free(&o);
}
END_TEST

/* Before anything is measured, also of the variants that could be. */
START_TEST(overhead_refuses_what_would_not_run)
{
	static const struct {
		const char *option, *value, *message, *more;
	} cases[] = {
		{"--max-requests", "2", "--concurrency 3", "at most 2"},
		{"--kv-memory", "64KiB", "one prompt needs 97 tokens", "131072 bytes"},
		{"--tp", "2", "2 ranks with int4", "expected 1"},
	};
	const char *db = database("a.db");

	EXPECT_FAILURE(RUN("overhead", "--input", "97", "--output", "4", "--concurrency", "3", "--blocks", "2",
			       "--variant", "bf16/bf16>bf16/fp8", "--variant", "int4/bf16", cases[_i].option,
			       cases[_i].value, "--db", db, "--quiet"),
		2, cases[_i].message, cases[_i].more);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *options = test_case(suite, "options", 0), *runs = test_case(suite, "runs", 300);
	TCase *incidents = test_case(suite, "incidents", 0), *overhead = test_case(suite, "overhead", 300);

	tcase_add_loop_test(options, bad_options, 0, COUNT(bad_cases));
	tcase_add_loop_test(runs, a_guarded_run_answers_the_same, 0, COUNT(variants));
	tcase_add_test(runs, the_table_says_what_was_checked);
	tcase_add_test(incidents, an_incident_is_a_line_of_json);
	tcase_add_test(incidents, an_incident_is_a_row);
	tcase_add_test(overhead, overhead_measures_every_arm_in_every_block);
	tcase_add_loop_test(overhead, overhead_refuses_what_would_not_run, 0, 3);
}
