/* Chat templates at the command line: `assay template`, `generate --chat`, runs and prompts with --apply-chat-template. */
#include "tests/program.h"
#include "tests/program_store.h"

const char *const test_program_name = "program_chat";

static const char *template_file(const char *text)
{
	return test_write_file("t.jinja", text, strlen(text));
}

/* ---- assay template ---- */

START_TEST(template_writes_lines)
{
	const char *file = template_file("{% for m in messages %}{{ m.content }};{% endfor %}{{ x }}{{ '\\n' }}\n");
	struct buf expected = {0};
	buf_printf(&expected,
		"{\"text\": \"a \xc3\xa9\\\";1.5\\n\"}\n"
		"{\"error\": \"%s:1: messages[0] is number, expected an object\"}\n"
		"{\"error\": \"%s:1: \\\"messages\\\" is empty, expected a list of at least one message\"}\n"
		"{\"error\": \"%s:1: 'NoneType' object is not iterable\"}\n",
		file, file, file);
	expect_output(RUN_WITH("{\"messages\": [{\"role\": \"user\", \"content\": \"a \\u00e9\\\"\"}], \"x\": 1.50}\n"
			       "\n"
			       "{\"messages\": [5]}\n"
			       "{\"messages\": []}\n"
			       "{}",
			      "template", "--template", file),
		buf_text(&expected));
	buf_free(&expected);
}
END_TEST

START_TEST(template_of_the_model)
{
	static const char line[] =
		"{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"add_generation_prompt\": true}\n";
	static const char text[] = "{\"text\": \"<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n\"}\n";
	expect_output(RUN_WITH(line, "template"), text);
	expect_output(RUN_WITH(line, "template", "--model", POCKET), text);
}
END_TEST

static const struct {
	const char *template, *date, *text;
} date_cases[] = {
	{"{{ strftime_now('%d %b %Y') }}", "2025-02-01", "{\"text\": \"01 Feb 2025\"}\n"},
	{"{{ strftime_now('%A %H:%M') }}", "2024-02-29T23:05:00", "{\"text\": \"Thursday 23:05\"}\n"},
	{"{{ date_string if date_string is defined else strftime_now('%d %b %Y') }}", "2025-10-03",
		"{\"text\": \"03 Oct 2025\"}\n"},
};

START_TEST(template_dates)
{
	struct call c = {.arguments = {"template", "--template", template_file(date_cases[_i].template), "--date",
				 date_cases[_i].date},
		.environment = {"LC_ALL=de_DE.UTF-8"},
		.input = str_of("{}")};
	expect_output(program_run(&c), date_cases[_i].text);
}
END_TEST

START_TEST(a_broken_template_is_each_lines_error)
{
	const char *file = template_file("a\n{% if %}");
	struct outcome o = RUN_WITH("{}\n{}\n", "template", "--template", file);
	expect_exit(&o, 2);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.err), "t.jinja:2: expected an expression"));
	const char *first = strstr(buf_text(&o.out), "{\"error\": \"");
	ck_assert_ptr_nonnull(first);
	ck_assert_ptr_nonnull(strstr(first + 1, "{\"error\": \""));
	outcome_free(&o);
}
END_TEST

START_TEST(template_refusals)
{
	const char *file = template_file("x");
	EXPECT_FAILURE(RUN("template", "--template", "/nonexistent/t.jinja"), 2, "/nonexistent/t.jinja");
	EXPECT_FAILURE(RUN("template", "--model", "/nonexistent"), 2, "/nonexistent");
	EXPECT_FAILURE(RUN("template", "--template", "nosuch", "--model", POCKET), 2, "nosuch", "default");
	EXPECT_FAILURE(
		RUN("template", "--template", file, "--date", "tomorrow"), 2, "--date", "tomorrow", "YYYY-MM-DD");
	EXPECT_FAILURE(RUN_WITH("{\n", "template", "--template", file), 2, "standard input:1");
	EXPECT_FAILURE(RUN_WITH("[]\n", "template", "--template", file), 2, "standard input:1", "array");
	EXPECT_FAILURE(RUN("template", "--template", file, "/nonexistent/lines"), 2, "/nonexistent/lines");
}
END_TEST

/* ---- assay generate --chat ---- */

START_TEST(generate_answers_conversations)
{
	static const char lines[] =
		"{\"prompt\": \"What is the capital of France?\"}\n"
		"{\"messages\": [{\"role\": \"user\", \"content\": \"What is the capital of France?\"}]}\n";
	const char *file = test_write_file("chat.jsonl", lines, sizeof lines - 1);
	expect_output(RUN("generate", "--chat", "--prompt", "What is the capital of France?"), "Paris\n");
	expect_output(RUN("generate", "--chat", "--prompts", file), "Paris\nParis\n");
}
END_TEST

START_TEST(generate_refusals)
{
	static const char line[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n",
			  both[] = "{\"messages\": [], \"prompt\": \"a\"}\n";
	const char *messages = strdup(test_write_file("messages.jsonl", line, sizeof line - 1));
	const char *twofold = strdup(test_write_file("both.jsonl", both, sizeof both - 1));
	const char *refusing = template_file("\n{{ raise_exception('not today') }}");
	EXPECT_FAILURE(RUN("generate", "--prompts", messages), 2, "messages.jsonl:1", "--chat");
	EXPECT_FAILURE(RUN("generate", "--chat", "--prompts", twofold), 2, "both.jsonl:1", "expected one of them");
	EXPECT_FAILURE(RUN("generate", "--prompt", "a", "--tools", "t.json"), 2, "--tools", "--chat");
	EXPECT_FAILURE(RUN("generate", "--prompt", "a", "--date", "2025-01-01"), 2, "--date", "--chat");
	EXPECT_FAILURE(
		RUN("generate", "--chat", "--prompt", "a", "--tools", "/nonexistent/t.json"), 2, "/nonexistent/t.json");
	EXPECT_FAILURE(RUN("generate", "--chat", "--prompt", "a", "--template", refusing), 2, "t.jinja:2: not today");
	free((char *)(uintptr_t)messages);
	free((char *)(uintptr_t)twofold);
}
END_TEST

/* ---- Runs ---- */

/* Refuses system turns and tells the date. */
static const char dated[] =
	"{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
	"{{ strftime_now('%d %b %Y') }} {{ m.role }}: {{ m.content }}\n{% endfor %}";

START_TEST(a_run_records_its_conversations)
{
	const char *db = path_in(scratch_folder(), "chat.db"), *file = template_file(dated);
	struct outcome o =
		RUN("run", "--db", db, "--suite", "arc_easy", "--fewshot", "1", "--limit", "3", "--apply-chat-template",
			"--template", file, "--system-instruction", "Be brief.", "--date", "2025-02-01");
	expect_exit(&o, 0);
	ck_assert_ptr_nonnull(
		strstr(buf_text(&o.err), "arc_easy: the chat template refuses system messages: 3 prompts"));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.err), "--date 2025-02-01T00:00:00"));
	outcome_free(&o);
	expect_sql(db,
		"SELECT provenance ->> '$.chat.applied', provenance ->> '$.chat.fewshot_as_multiturn',"
		" provenance ->> '$.chat.system_instruction', provenance ->> '$.chat.date',"
		" provenance ->> '$.suites[0].systems_dropped', template_hash = provenance ->> '$.chat.template_hash',"
		" length(template_hash) FROM run",
		"1|1|Be brief.|2025-02-01T00:00:00|3|1|64\n");
	o = RUN("run", "--db", db, "--suite", "arc_easy", "--fewshot", "1", "--limit", "3", "--apply-chat-template",
		"--template", file, "--date", "2025-02-02");
	expect_exit(&o, 0);
	outcome_free(&o);
	EXPECT_FAILURE(RUN("compare", "1", "2", "--db", db), 2, "prompt_hash", "2025-02-01 and 2025-02-02",
		"--date 2025-02-01");
	/* the same day again: the same prompts */
	o = RUN("run", "--db", db, "--suite", "arc_easy", "--fewshot", "1", "--limit", "3", "--apply-chat-template",
		"--template", file, "--date", "2025-02-02T10:00:00");
	expect_exit(&o, 0);
	outcome_free(&o);
	o = RUN("compare", "2", "3", "--db", db);
	expect_exit(&o, 0);
	outcome_free(&o);
}
END_TEST

START_TEST(a_run_without_a_template_says_so)
{
	const char *db = path_in(scratch_folder(), "plain.db");
	struct outcome o = RUN("run", "--db", db, "--suite", "arc_easy", "--limit", "2");
	expect_exit(&o, 0);
	outcome_free(&o);
	expect_sql(db,
		"SELECT provenance ->> '$.chat.applied', provenance ->> '$.chat.date' IS NULL,"
		" provenance ->> '$.suites[0].systems_dropped', length(template_hash) FROM run",
		"0|1|0|64\n");
}
END_TEST

START_TEST(prompts_as_conversations)
{
	struct outcome o = RUN("prompts", "--suite", "gsm8k", "--fewshot", "0", "--limit", "1", "--samples",
		"--apply-chat-template", "--system-instruction", "Think.");
	expect_exit(&o, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out),
		"\"prompt\": \"<|im_start|>system\\nThink.<|im_end|>\\n<|im_start|>user\\nQuestion: "));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "\\nAnswer:<|im_end|>\\n<|im_start|>assistant\\n\", \"until\""));
	outcome_free(&o);
	EXPECT_FAILURE(RUN("prompts", "--suite", "gsm8k", "--samples", "--fewshot-as-multiturn", "false"), 2,
		"--fewshot-as-multiturn", "--apply-chat-template");
	EXPECT_FAILURE(RUN("run", "--suite", "gsm8k", "--fewshot-as-multiturn", "maybe"), 2, "--fewshot-as-multiturn",
		"maybe");
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *template = test_case(suite, "template", 60);
	tcase_add_test(template, template_writes_lines);
	tcase_add_test(template, template_of_the_model);
	tcase_add_loop_test(template, template_dates, 0, COUNT(date_cases));
	tcase_add_test(template, a_broken_template_is_each_lines_error);
	tcase_add_test(template, template_refusals);
	TCase *generate = test_case(suite, "generate", 60);
	tcase_add_test(generate, generate_answers_conversations);
	tcase_add_test(generate, generate_refusals);
	TCase *runs = test_case(suite, "runs", 120);
	tcase_add_test(runs, a_run_records_its_conversations);
	tcase_add_test(runs, a_run_without_a_template_says_so);
	tcase_add_test(runs, prompts_as_conversations);
}
