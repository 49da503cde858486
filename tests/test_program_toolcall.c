/* The program on tool calls: runs of the bundled set, exams with tools, calls in generated answers, calls from lines. */
#include "tests/program_store.h"

const char *const test_program_name = "program_toolcall";

static const char tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"add\", \"description\": \"Add two "
			    "numbers\", \"parameters\": {\"type\": "
			    "\"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": "
			    "\"integer\"}}, \"required\": [\"a\", "
			    "\"b\"]}}}]";

static const char *database(void)
{
	return path_in(scratch_folder(), "a.db");
}

/* The bundled model is right on at least 85% of its own tool data; the second variant is held against the first. */
START_TEST(the_bundled_model_calls_tools)
{
	const char *db = database();
	struct outcome o = RUN("run", "--suite", "toolcall", "--limit", "50", "--variant", "bf16/bf16", "--variant",
		"int4/fp8", "--db", db, "--json");
	expect_exit(&o, 0);
	struct json_document *document = parse(buf_str(&o.out));
	const struct json *suite = json_path(json_root(document), "variants/0/suites/toolcall");
	ck_assert_int_eq(json_path_int(suite, "n"), 150);
	expect_sql(db,
		"SELECT value >= 0.85 FROM suite_result WHERE task IN ('toolcall_simple_python', 'toolcall_multiple') "
		"AND "
		"metric = 'ast,none'",
		"1\n1\n1\n1\n");
	expect_sql(db,
		"SELECT variant_id, value <= 1 AND value > 0.8 FROM suite_result WHERE task = suite AND metric = "
		"'trigger_f1,none' "
		"ORDER BY 1",
		"1|1\n2|1\n");
	expect_sql(db,
		"SELECT json_extract(filtered, '$.error_type') LIKE 'irrelevance_error:decoder_success: %', "
		"json_extract(filtered, "
		"'$.calls') LIKE '[{\"name\": %' FROM sample WHERE task = 'toolcall_irrelevance' AND doc_id = 0 AND "
		"variant_id = 1",
		"1|1\n");
	json_free(document);
	outcome_free(&o);
}
END_TEST

static void run_part(const char *db, const char *shard)
{
	struct outcome o = RUN("run", "--suite", "toolcall", "--limit", "5", "--variant", "bf16/bf16", "--variant",
		"int4g64/fp8", "--db", db, shard ? "--shard" : "--quiet", shard);
	expect_exit(&o, 0);
	outcome_free(&o);
}

/* Joined, two shards hold what the undivided run does: agreement with the baseline, too. */
START_TEST(shards_make_the_whole)
{
	const char *folder = scratch_folder(), *whole = path_in(folder, "a.db"), *parts = path_in(folder, "b.db");
	run_part(whole, NULL);
	run_part(parts, "1/2");
	run_part(parts, "2/2");
	struct outcome o = RUN("db", "merge", "--db", parts);
	expect_exit(&o, 0);
	outcome_free(&o);
	struct buf expected = answers(whole, 1), joined = answers(parts, 3);
	expect_same(&joined, &expected);
	ck_assert_ptr_nonnull(strstr(buf_text(&expected), "int4g64/fp8|toolcall|toolcall|trigger_f1,none|15|"));
	buf_free(&expected);
	buf_free(&joined);
}
END_TEST

/* Two runs' calls: by category and error type, and both beside each other for one item. */
START_TEST(calls_are_compared)
{
	static const char right[] = "{\"calls\": \"[{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"a\\\": 1}}]\", "
				    "\"error_type\": \"\", \"invalid\": \"\"}";
	const char *db = database(), *page = path_in(scratch_folder(), "r.html");
	run_part(db, NULL);
	char statement[1024];
	snprintf(statement, sizeof(statement),
		"UPDATE sample SET filtered = '%s', metrics = '{\"ast,none\": 1.0}' WHERE variant_id = 1 AND doc_id = "
		"3 "
		"AND task = 'toolcall_multiple'",
		right);
	sql_change(db, statement);
	sql_change(db,
		"UPDATE sample SET filtered = '{\"calls\": \"[]\", \"error_type\": \"ast_decoder:decoder_failed\", "
		"\"invalid\": \"\"}', metrics = '{\"ast,none\": 0.0}' WHERE variant_id = 2 AND doc_id = 3 AND "
		"task = 'toolcall_multiple'");
	struct outcome o = RUN("compare", "1:bf16/bf16", "1:int4g64/fp8", "--db", db, "--flips");
	expect_exit(&o, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "toolcall  multiple"));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "toolcall  ast_decoder:decoder_failed"));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "lost    f(a=1)"));
	outcome_free(&o);
	o = RUN("diff", "1:bf16/bf16", "1:int4g64/fp8", "--db", db, "--item", "toolcall_multiple/3");
	expect_exit(&o, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "wrong by            ast_decoder:decoder_failed  added"));
	outcome_free(&o);
	o = RUN("diff", "1:bf16/bf16", "1:int4g64/fp8", "--db", db, "--item", "toolcall_multiple/3", "--json");
	expect_exit(&o, 0);
	struct json_document *document = parse(buf_str(&o.out));
	ck_assert_int_eq(json_path_int(json_root(document), "baseline_calls/calls/0/arguments/a"), 1);
	json_free(document);
	outcome_free(&o);
	o = RUN("report", "--db", db, "--html", page);
	expect_exit(&o, 0);
	outcome_free(&o);
	struct buf html = test_read_file(page);
	ck_assert_ptr_nonnull(strstr(buf_text(&html), "<caption>Tool calls by error type</caption>"));
	ck_assert_ptr_nonnull(
		strstr(buf_text(&html), "<summary>Prompt</summary>\n<pre>&lt;|im_start|&gt;system\n# Tools"));
	ck_assert_ptr_nonnull(
		strstr(buf_text(&html), "<th scope=\"row\">call 1</th><td>f</td><td></td><td>missing</td>"));
	buf_free(&html);
}
END_TEST

START_TEST(exams_may_offer_tools)
{
	struct buf exam = {0};
	buf_printf(&exam,
		"{\"id\": 1, \"prompt\": \"What is 88 plus 25?\", \"check\": \"tool-call\", \"expected\": [{\"add\": "
		"{\"a\": [88], \"b\": "
		"[25]}}], \"tools\": %s}\n{\"id\": 2, \"messages\": [{\"role\": \"user\", \"content\": \"What is 88 "
		"plus 25?\"}], "
		"\"check\": \"tool-call\", \"expected\": [{\"add\": {\"a\": [88], \"b\": [26]}}], \"tools\": %s}\n",
		tools, tools);
	const char *db = database(), *path = test_write_file("sums.jsonl", exam.data, exam.length);
	struct outcome o = RUN("run", "--suite", path, "--db", db);
	expect_exit(&o, 0);
	outcome_free(&o);
	expect_sql(db, "SELECT doc_id, json_extract(metrics, '$.passed,none') FROM sample ORDER BY doc_id",
		"0|1.0\n1|0.0\n");
	expect_sql(db,
		"SELECT doc_id, json_extract(json_extract(filtered, '$.calls'), '$[0].arguments.b'), "
		"json_extract(filtered, '$.error_type') <> '' FROM sample ORDER BY doc_id",
		"0|25|0\n1|25|1\n");
	o = RUN("diff", "1", "1", "--db", db, "--item", "sums/1");
	expect_exit(&o, 0);
	ck_assert_msg(
		strstr(buf_text(&o.out), "\ncall 1") && strstr(buf_text(&o.out), "\n  b "), "%s", buf_text(&o.out));
	outcome_free(&o);
	buf_free(&exam);
}
END_TEST

START_TEST(generated_calls_are_read)
{
	const char *path = test_write_file("tools.json", tools, strlen(tools));
	struct outcome o = RUN("generate", "--chat", "--tools", path, "--prompt", "What is 88 plus 25?", "--json",
		"--max-tokens", "60");
	expect_exit(&o, 0);
	struct json_document *document = parse(buf_str(&o.out));
	const struct json *root = json_root(document);
	ck_assert_int_eq(json_path_int(root, "tool_calls/0/arguments/a"), 88);
	ck_assert_int_eq(json_path_int(root, "tool_calls/0/arguments/b"), 25);
	ck_assert(json_is(json_path(root, "tool_calls_valid"), JSON_TRUE));
	ck_assert(str_is(json_path(root, "tool_leniencies")->text, ""));
	json_free(document);
	outcome_free(&o);
	o = RUN("generate", "--chat", "--prompt", "Hi", "--json", "--max-tokens", "1");
	expect_exit(&o, 0);
	ck_assert_ptr_null(strstr(buf_text(&o.out), "tool_calls"));
	outcome_free(&o);
}
END_TEST

/* Cut by the limit a call is unclosed; a schema that cannot be judged is named, the answer is there all the same. */
START_TEST(odd_calls_are_told)
{
	static const char prompts[] =
		"{\"messages\": [{\"role\": \"user\", \"content\": \"What is 8 plus 5?\"}], \"max_tokens\": 28, "
		"\"tools\": [{\"name\": "
		"\"add\", \"description\": \"Add two numbers\", \"parameters\": {\"frob\": 1}}]}\n"
		"{\"messages\": [{\"role\": \"user\", \"content\": \"What is 8 plus 5?\"}], \"max_tokens\": 60, "
		"\"tools\": [{\"name\": "
		"\"add\", \"description\": \"Add two numbers\", \"parameters\": {\"frob\": 1}}]}\n";
	struct outcome o = RUN_WITH(prompts, "generate", "--chat", "--prompts", "-", "--json");
	expect_exit(&o, 0);
	struct str rest = buf_str(&o.out);
	struct json_document *document = parse_line(&rest);
	ck_assert_ptr_nonnull(json_get(json_root(document), "tool_calls"));
	json_free(document);
	document = parse_line(&rest);
	const struct json *root = json_root(document);
	ck_assert(str_is(json_path(root, "tool_calls/0/name")->text, "add"));
	ck_assert(json_is(json_path(root, "tool_calls_valid"), JSON_NULL));
	ck_assert(str_is(json_path(root, "tool_error")->text,
		"tool add: schema at its root: unknown keyword \"frob\": what it demands cannot be judged"));
	json_free(document);
	outcome_free(&o);
}
END_TEST

START_TEST(lines_are_rescored)
{
	expect_output(RUN_WITH("{\"schema\": {\"type\": \"integer\"}, \"instance\": \"1e2\"}\n", "rescore", "--suite",
			      "schema", "-"),
		"{\"valid\": true}\n");
	expect_output(RUN_WITH("{\"id\": \"irrelevance_0\", \"function\": [], \"model_output\": []}\n", "rescore",
			      "--suite", "bfcl", "-"),
		"{\"id\": \"irrelevance_0\", \"valid\": true, \"error_type\": null}\n");
	expect_output(RUN_WITH("{\"text\": \"No.\"}\n", "rescore", "--suite", "toolcall", "--tool-format", "kimi", "-"),
		"{\"calls\": [], \"content\": \"No.\", \"leniencies\": \"\", \"valid\": null}\n");
}
END_TEST

START_TEST(mistakes_are_named)
{
	const char *bad = test_write_file("bad.jsonl", "{\"schema\": 1}\n", 14);
	expect_failure(RUN("rescore", "--suite", "schema", bad), 2, (const char *const[]){"bad.jsonl:1: ", NULL});
	expect_failure(RUN("rescore", "--suite", "toolcall", "--tool-format", "frob", bad), 2,
		(const char *const[]){"tool format \"frob\"", NULL});
	expect_failure(RUN("run", "--suite", "toolcall_nonsense", "--db", database()), 2,
		(const char *const[]){"unknown suite \"toolcall_nonsense\"", NULL});
	expect_failure(RUN("generate", "--tools", bad, "--prompt", "x"), 2,
		(const char *const[]){"--tools: expected --chat with it", NULL});
	const char *nameless = test_write_file("nameless.json", "[{\"function\": {}}]", 18);
	expect_failure(RUN("generate", "--chat", "--tools", nameless, "--prompt", "x"), 2,
		(const char *const[]){"nameless.json: tools[0]: \"name\" is missing", NULL});
	expect_failure(
		RUN_WITH("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"tools\": [{\"name\": 5}]}\n",
			"generate", "--chat", "--prompts", "-"),
		2, (const char *const[]){"standard input:1: tools[0]: \"name\" is number", NULL});
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *program = test_case(suite, "program", PROGRAM_SECONDS);
	tcase_add_test(program, the_bundled_model_calls_tools);
	tcase_add_test(program, shards_make_the_whole);
	tcase_add_test(program, calls_are_compared);
	tcase_add_test(program, exams_may_offer_tools);
	tcase_add_test(program, generated_calls_are_read);
	tcase_add_test(program, odd_calls_are_told);
	tcase_add_test(program, lines_are_rescored);
	tcase_add_test(program, mistakes_are_named);
}
