/* The program on suites of several tasks, exams and samples: what it prints, stores and tries again. */
#include "tests/program_store.h"

const char *const test_program_name = "program_suites";

static const char *database(void)
{
	return path_in(scratch_folder(), "a.db");
}

#define CAPITAL(id, country, check, rest)                                                                             \
	"{\"id\": " id ", \"prompt\": \"Question: What is the capital of " country "?\\nAnswer:\", \"check\": " check \
	", \"stop\": \"\\n\"" rest "}\n"

/* Right, wrong, cut by the length limit, without an answer. */
static const char exam[] = CAPITAL("1", "France", "\"exact\", \"expected\": \"Paris\"", "")
	CAPITAL("2", "Italy", "\"exact\", \"expected\": \"Paris\"", "")
		CAPITAL("3", "Italy", "\"contains\", \"expected\": \"R\"", ", \"max_tokens\": 1")
			CAPITAL("4", "Italy", "\"contains\", \"expected\": \"Rome\"", ", \"max_tokens\": 5000");

static const char *exam_file(void)
{
	return test_write_file("Capitals.jsonl", exam, sizeof(exam) - 1);
}

START_TEST(exams_are_passed_of_all)
{
	const char *db = database(), *path = exam_file();
	struct outcome o = RUN("run", "--suite", path, "--db", db);
	expect_exit(&o, 4);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.err), "items without an answer: 1; the first: Capitals needs 5000"));
	ck_assert_msg(strstr(buf_text(&o.out), "1 / 4") != NULL, "%s", buf_text(&o.out));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "1 truncated, 1 error\n"));
	outcome_free(&o);
	expect_sql(db, "SELECT doc_id, status, json_extract(metrics, '$.passed,none') FROM sample ORDER BY doc_id",
		"0|ok|1.0\n1|ok|0.0\n2|truncated|0.0\n3|error|-\n");
	o = RUN("show", "1", "--db", db, "--json", "--samples", path);
	expect_exit(&o, 0);
	struct json_document *document;
	CHECK_OK(json_parse(buf_str(&o.out), "show", 0, &document, &test_error));
	const struct json *suite =
		json_get(json_get(json_at(json_get(json_root(document), "variants"), 0), "suites"), "Capitals");
	const struct json *passed = json_get(suite, "passed,none"), *states = json_get(suite, "states");
	ck_assert_double_eq(json_double(json_get(passed, "passed")), 1);
	ck_assert_double_eq(json_double(json_get(passed, "total")), 4);
	ck_assert_double_eq(json_double(json_get(states, "ok")), 2);
	ck_assert_double_eq(json_double(json_get(states, "truncated")), 1);
	ck_assert_double_eq(json_double(json_get(states, "empty")), 0);
	ck_assert_double_eq(json_double(json_get(states, "error")), 1);
	ck_assert_double_eq(json_double(json_get(states, "context_cut")), 0);
	json_free(document);
	outcome_free(&o);
}
END_TEST

/* A run with errors is not complete: the same command tries those items again, and only those. */
START_TEST(errors_are_tried_again)
{
	const char *db = database(), *path = exam_file();
	struct outcome o = RUN("run", "--suite", path, "--db", db);
	expect_exit(&o, 4);
	outcome_free(&o);
	sqlite3 *handle;
	ck_assert_int_eq(sqlite3_open(db, &handle), SQLITE_OK);
	ck_assert_int_eq(
		sqlite3_exec(handle,
			"UPDATE sample SET status = 'error', error = 'lost', response = 'null', metrics = '{}' "
			"WHERE doc_id = 0",
			NULL, NULL, NULL),
		SQLITE_OK);
	sqlite3_close(handle);
	o = RUN("run", "--suite", path, "--db", db);
	expect_exit(&o, 4);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.err), "run 1 goes on"));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.err), "2 answers were stored before"));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.err), "2 items that had no answer are tried again"));
	outcome_free(&o);
	expect_sql(db, "SELECT doc_id, status, error IS NULL FROM sample ORDER BY doc_id",
		"0|ok|1\n1|ok|1\n2|truncated|1\n3|error|0\n");
	expect_sql(db, "SELECT n, value FROM suite_result", "3|0.333333333333333\n");
	expect_sql(db, "SELECT status FROM run", "failed\n");
}
END_TEST

START_TEST(tasks_are_shown_by_show)
{
	const char *db = database();
	struct outcome o = RUN("run", "--suite", "mmlu,recall", "--limit", "2", "--db", db);
	expect_exit(&o, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "mmlu             acc,none          bf16/bf16  24  "));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "recall filler=0  exact_match,none  bf16/bf16   2  1.0000"));
	ck_assert_ptr_null(strstr(buf_text(&o.out), "mmlu_months"));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "'show 1' also has the 12 tasks of mmlu.\n"));
	outcome_free(&o);
	o = RUN("show", "1", "--db", db);
	expect_exit(&o, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "mmlu_months            acc,none          bf16/bf16   2  "));
	outcome_free(&o);
	expect_sql(db, "SELECT for_gating, count(DISTINCT task) FROM run JOIN sample USING (run_id)", "0|13\n");
	expect_sql(db,
		"SELECT json_array_length(provenance, '$.suites[0].tasks'), json_extract(provenance, "
		"'$.suites[0].tasks[1].name'), json_type(provenance, '$.suites[0].tasks[1].group'), "
		"json_type(provenance, '$.suites[1].tasks') FROM run",
		"12|mmlu_animal_sounds|null|-\n");
	expect_sql(db,
		"SELECT abs(whole.value - sum(part.value * part.n) / sum(part.n)) < 1e-12 FROM suite_result AS whole"
		" JOIN suite_result AS part USING (suite) WHERE whole.task = 'mmlu' AND part.task <> 'mmlu'",
		"1\n");
}
END_TEST

/* The same items, with the same prompts, as in a run of all; fit for gating. */
START_TEST(samples_are_those_of_the_whole)
{
	const char *db = database();
	struct outcome o = RUN("run", "--suite", "gsm8k", "--sample", "5", "--db", db, "--quiet");
	expect_exit(&o, 0);
	outcome_free(&o);
	expect_sql(db,
		"SELECT for_gating, json_extract(provenance, '$.sample'), count(*), max(doc_id) > 4 FROM run JOIN "
		"sample USING (run_id)",
		"1|5|5|1\n");
	struct outcome whole = RUN("prompts", "--suite", "gsm8k", "--hashes");
	o = RUN("prompts", "--suite", "gsm8k", "--hashes", "--sample", "5");
	expect_exit(&whole, 0);
	expect_exit(&o, 0);
	int lines = 0;
	for (const char *line = buf_text(&o.out); *line; line += strcspn(line, "\n") + 1, lines++) {
		struct str one = {line, strcspn(line, "\n") + 1};
		ck_assert_msg(
			str_find(buf_str(&whole.out), one, 0) != SIZE_MAX, "not of the whole: %.*s", STR_ARG(one));
	}
	ck_assert_int_eq(lines, 1 + 5);
	outcome_free(&whole);
	outcome_free(&o);
	EXPECT_FAILURE(
		RUN("run", "--suite", "gsm8k", "--sample", "5", "--limit", "5", "--db", db), 2, "--limit and --sample");
	EXPECT_FAILURE(RUN("run", "--suite", "gsm8k", "--sample", "0", "--db", db), 2, "--sample: '0'");
}
END_TEST

START_TEST(recall_of_a_model)
{
	const char *db = database();
	struct outcome o = RUN("run", "--suite", "recall:200", "--db", db, "--quiet");
	expect_exit(&o, 0);
	outcome_free(&o);
	expect_sql(db, "SELECT count(*), sum(status = 'ok'), max(prompt_tokens) <= 188 FROM sample", "16|16|1\n");
	expect_sql(db, "SELECT task, n, value > 0.9 FROM suite_result ORDER BY task",
		"recall:200|16|1\ntokens=200|16|1\n");
	EXPECT_FAILURE(RUN("run", "--suite", "recall:1025", "--db", db), 2, "the model's context holds 1024 tokens");
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *exams = test_case(suite, "exams", PROGRAM_SECONDS);
	tcase_add_test(exams, exams_are_passed_of_all);
	tcase_add_test(exams, errors_are_tried_again);
	TCase *tasks = test_case(suite, "tasks", PROGRAM_SECONDS);
	tcase_add_test(tasks, tasks_are_shown_by_show);
	tcase_add_test(tasks, samples_are_those_of_the_whole);
	tcase_add_test(tasks, recall_of_a_model);
}
