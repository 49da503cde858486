/* Runs that are split, joined, looked after and reported on, as a user does it. */
#include "tests/program_store.h"

const char *const test_program_name = "program_report";

#define VARIANTS "--variant", "bf16/bf16", "--variant", "int4/fp8"

static void run_ok(struct outcome o)
{
	expect_exit(&o, 0);
	outcome_free(&o);
}

/* ---- Shards ---- */

/* One run in two halves, joined, is the run that one machine makes: every answer and every result. */
START_TEST(shards_make_the_whole)
{
	const char *folder = scratch_folder();
	const char *whole = path_in(folder, "whole.db"), *all = path_in(folder, "all.db");
	const char *parts[] = {path_in(folder, "1.db"), path_in(folder, "2.db")};
	run_ok(RUN("run", "--limit", "9", VARIANTS, "--quiet", "--db", whole));
	for (int i = 0; i < 2; i++)
		run_ok(RUN("run", "--limit", "9", VARIANTS, "--quiet", "--db", parts[i], "--shard", i ? "2/2" : "1/2"));
	ck_assert_int_eq(sql_int(parts[0], "SELECT count(*) FROM sample"), 3 * 2 * 5); /* 0, 2, 4, 6, 8 */
	ck_assert_int_eq(sql_int(parts[1], "SELECT count(*) FROM sample"), 3 * 2 * 4);
	expect_sql(parts[1],
		"SELECT json_extract(provenance, '$.shard.index'), json_extract(provenance, '$.shard.count') FROM run",
		"2|2\n");
	ck_assert_int_eq(sql_int(parts[0], "SELECT for_gating FROM run"), 0);

	EXPECT_FAILURE(RUN("db", "merge", "--db", all, parts[1]), 2, "shards are missing: 1/2", "not for gating");
	run_ok(RUN("db", "merge", "--db", all, parts[1], parts[0]));
	struct buf expected = answers(whole, 1), joined = answers(all, 1);
	expect_same(&joined, &expected);
	buf_free(&expected);
	buf_free(&joined);
	struct buf hash = sql(whole, "SELECT config_hash FROM run");
	expect_sql(all, "SELECT config_hash FROM run", buf_text(&hash));
	buf_free(&hash);
	struct outcome check = RUN("db", "check", "--db", all, "--json");
	expect_exit(&check, 0);
	struct json_document *document = parse(buf_str(&check.out));
	ck_assert(json_is(json_path(json_root(document), "sound"), JSON_TRUE));
	ck_assert_int_eq(json_path_int(json_root(document), "rows/sample"), 54);
	json_free(document);
	outcome_free(&check);
	/* It counts as the run of that configuration: nothing is left to do. */
	struct outcome again =
		RUN("run", "--limit", "9", VARIANTS, "--shard", "1/2", "--db", parts[0], "--quiet", "--json");
	expect_exit(&again, 0);
	outcome_free(&again);
}
END_TEST

START_TEST(shards_of_one_store)
{
	const char *db = path_in(scratch_folder(), "x.db");
	for (int i = 0; i < 2; i++)
		run_ok(RUN("run", "--limit", "3", "--suite", "recall", "--quiet", "--db", db, "--shard",
			i ? "2/2" : "1/2"));
	struct outcome o = RUN("db", "merge", "--db", db);
	expect_exit(&o, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "2 shards are run 3 of "));
	outcome_free(&o);
	ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM sample WHERE run_id = 3"), 3);
	EXPECT_FAILURE(RUN("db", "merge", "--db", db), 2, "holds these shards joined already, as run 3");
}
END_TEST

START_TEST(shards_are_refused)
{
	static const char *const wrong[] = {"0/2", "3/2", "2", "1/0", "a/b", "1/2/3", "-1/2", "1/ 2", "1/5000"};
	for (int i = 0; i < COUNT(wrong); i++)
		EXPECT_FAILURE(RUN("run", "--shard", wrong[i], "--dry-run"), 2, "--shard", "expected I/N");
}
END_TEST

/* A split into more parts than there are documents joins like any other. */
START_TEST(shards_may_be_empty)
{
	const char *folder = scratch_folder();
	const char *whole = path_in(folder, "whole.db"), *all = path_in(folder, "new/all.db");
	const char *parts[] = {path_in(folder, "1.db"), path_in(folder, "2.db"), path_in(folder, "3.db")};
	static const char *const shards[] = {"1/3", "2/3", "3/3"};
	run_ok(RUN("run", "--limit", "2", VARIANTS, "--quiet", "--db", whole));
	for (int i = 0; i < 3; i++) {
		struct outcome o = RUN("run", "--limit", "2", VARIANTS, "--db", parts[i], "--shard", shards[i]);
		expect_exit(&o, 0);
		ck_assert_msg((strstr(buf_text(&o.err), "shard 3 of 3 holds none of the items") != NULL) == (i == 2),
			"%s", buf_text(&o.err));
		outcome_free(&o);
	}
	expect_sql(parts[2], "SELECT status, for_gating, (SELECT count(*) FROM sample) FROM run", "complete|0|0\n");
	EXPECT_FAILURE(RUN("db", "merge", "--db", all, parts[0], parts[1]), 2, "shards are missing: 3/3");
	/* what was refused leaves no store behind */
	ck_assert_int_ne(access(all, F_OK), 0);
	run_ok(RUN("db", "merge", "--db", all, parts[2], parts[0], parts[1]));
	struct buf expected = answers(whole, 1), joined = answers(all, 1);
	expect_same(&joined, &expected);
	buf_free(&expected);
	buf_free(&joined);
	/* nor does it take one away that was there */
	EXPECT_FAILURE(RUN("db", "merge", "--db", all, parts[0]), 2, "shards are missing");
	ck_assert_int_eq(sql_int(all, "SELECT count(*) FROM run"), 1);
}
END_TEST

/* ---- The store ---- */

START_TEST(db_commands)
{
	const char *folder = scratch_folder();
	const char *db = path_in(folder, "x.db"), *copy = path_in(folder, "copy.db");
	EXPECT_FAILURE(RUN("db"), 2, "check");
	EXPECT_FAILURE(RUN("db", "chek"), 2, "db 'chek': expected check, vacuum, merge or export");
	EXPECT_FAILURE(RUN("db", "export", "--db", db), 2, "FILE is missing");
	EXPECT_FAILURE(RUN("db", "check", "more", "--db", db), 2, "db check takes no 'more'");
	EXPECT_FAILURE(RUN("db", "check", "--db", db), 2, db);
	EXPECT_FAILURE(RUN("db", "vacuum", "--db", db), 2, "no such database");
	run_ok(RUN("run", "--limit", "2", "--suite", "recall", "--quiet", "--db", db));
	run_ok(RUN("db", "export", copy, "--db", db));
	EXPECT_FAILURE(RUN("db", "export", copy, "--db", db), 2, "exists already");
	EXPECT_FAILURE(RUN("db", "merge", copy, "--db", db), 2, "holds no shards");
	EXPECT_FAILURE(RUN("db", "merge", path_in(folder, "copy.db:1"), "--db", db), 2, "is no shard");
	struct buf expected = answers(db, 1), copied = answers(copy, 1);
	expect_same(&copied, &expected);
	buf_free(&expected);
	buf_free(&copied);
	run_ok(RUN("db", "vacuum", "--db", copy));
	run_ok(RUN("db", "check", "--db", copy));
}
END_TEST

/* What is wrong is printed, and the exit code says so. */
START_TEST(db_check_fails)
{
	const char *db = path_in(scratch_folder(), "x.db");
	sqlite3 *handle = NULL;
	run_ok(RUN("run", "--limit", "2", "--suite", "recall", "--quiet", "--db", db));
	ck_assert_int_eq(sqlite3_open(db, &handle), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(handle, "UPDATE run SET uid = char(27) || '[m'", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(handle);
	struct outcome o = RUN("db", "check", "--db", db);
	expect_exit(&o, 4);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "run 1: its uid is '\\x1b[m', expected r and 15 hex digits"));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.err), "problems found: 1"));
	outcome_free(&o);
}
END_TEST

/* ---- Reports ---- */

START_TEST(reports_of_a_run)
{
	const char *folder = scratch_folder();
	const char *db = path_in(folder, "x.db"), *html = path_in(folder, "x.html");
	EXPECT_FAILURE(RUN("report", "--db", db), 2, "--html FILE");
	EXPECT_FAILURE(RUN("report", "--db", db, "--html", html), 2, db);
	run_ok(RUN("run", "--limit", "5", VARIANTS, "--suite", "gsm8k,arc_easy", "--quiet", "--db", db));
	EXPECT_FAILURE(RUN("report", "7", "--db", db, "--html", html), 2, "no run '7'");
	EXPECT_FAILURE(
		RUN("report", "--db", db, "--html", path_in(POCKET "/config.json", "x.html")), 4, "cannot be written");
	run_ok(RUN("report", "--db", db, "--html", html));
	struct buf page = test_read_file(html);
	static const char *const parts[] = {"<!DOCTYPE html>", "run 1 int4/fp8 against run 1 bf16/bf16", "INCONCLUSIVE",
		"Accuracy by run", "Capacity and checkpoint size by format", "How long answers took", "Provenance"};
	for (int i = 0; i < COUNT(parts); i++)
		ck_assert_msg((strstr(buf_text(&page), parts[i]) != NULL) == (strcmp(parts[i], "Accuracy by run") != 0),
			"%s", parts[i]);
	buf_free(&page);

	/* The same run gives the same bytes. */
	struct outcome first = RUN("report", "1", "--db", db, "--csv", "-"),
		       second = RUN("report", "--db", db, "--csv", "-");
	expect_exit(&first, 0);
	expect_same(&second.out, &first.out);
	ck_assert_ptr_nonnull(
		strstr(buf_text(&first.out), "suites,\"run 1 int4/fp8 against run 1 bf16/bf16\",1,\"n\",10\r\n"));
	outcome_free(&first);
	outcome_free(&second);
	struct outcome markdown = RUN("report", "--db", db, "--markdown", "-");
	expect_exit(&markdown, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&markdown.out), "**INCONCLUSIVE** (exit code 3): "));
	outcome_free(&markdown);
}
END_TEST

/* Two runs over other prompts: said, not compared, and no failure. */
START_TEST(what_cannot_be_compared)
{
	const char *db = path_in(scratch_folder(), "x.db");
	run_ok(RUN("run", "--limit", "2", "--suite", "gsm8k", "--quiet", "--db", db));
	run_ok(RUN("run", "--limit", "2", "--suite", "gsm8k", "--fewshot", "1", "--quiet", "--db", db));
	struct outcome o = RUN("report", "1", "2", "--db", db, "--markdown", "-");
	expect_exit(&o, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.err), "run 2 bf16/bf16 is not compared: "));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "### Accuracy by run"));
	outcome_free(&o);
}
END_TEST

START_TEST(nothing_to_report)
{
	const char *db = path_in(scratch_folder(), "x.db");
	run_ok(RUN("run", "--limit", "1", "--suite", "recall", "--quiet", "--db", db));
	sqlite3 *handle = NULL;
	ck_assert_int_eq(sqlite3_open(db, &handle), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(handle, "UPDATE run SET status = 'interrupted'", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(handle);
	EXPECT_FAILURE(RUN("report", "--db", db, "--csv", "-"), 5, "holds no complete run");
	run_ok(RUN("report", "1", "--db", db, "--csv", "-"));
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *shards = test_case(suite, "shards", 120);
	tcase_add_test(shards, shards_make_the_whole);
	tcase_add_test(shards, shards_of_one_store);
	tcase_add_test(shards, shards_are_refused);
	tcase_add_test(shards, shards_may_be_empty);

	TCase *store = test_case(suite, "store", 120);
	tcase_add_test(store, db_commands);
	tcase_add_test(store, db_check_fails);

	TCase *reports = test_case(suite, "reports", 120);
	tcase_add_test(reports, reports_of_a_run);
	tcase_add_test(reports, what_cannot_be_compared);
	tcase_add_test(reports, nothing_to_report);
}
