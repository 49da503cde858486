/* Tool calls of two runs beside each other: what is counted, what is written of them, and answers that try to break
 * the writing. */
#include <math.h>

#include "engine/base/json_strict.h"
#include "reports/markdown.h"
#include "reports/report_tools.h"
#include "reports/report_verdict.h"
#include "reports/tool_answer.h"
#include "reports/verdict_json.h"
#include "tests/store_fixture.h"

const char *const test_program_name = "tool_results";

/* ---- One answer ---- */

static const struct {
	const char *filtered, *line, *type; /* line NULL: no calls */
} answers_read[] = {
	{"{\"calls\": \"[]\", \"error_type\": \"\"}", "", ""},
	{"{\"calls\": \"[{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"a\\\": 1, \\\"b\\\": [\\\"x\\\"]}}]\", "
	 "\"error_type\": \"value_error:string: a\"}",
		"f(a=1, b=[\"x\"])", "value_error:string"},
	{"{\"calls\": \"[{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {}}, {\\\"name\\\": \\\"\\\", \\\"error\\\": "
	 "\\\"no "
	 "JSON\\\", \\\"raw\\\": \\\"{x\\\"}]\", \"error_type\": \"ast_decoder:decoder_failed\", \"invalid\": \"no "
	 "JSON\"}",
		"f();  broken: {x", "ast_decoder:decoder_failed"},
	/* arguments that JSON cannot write, arguments that are no object, none */
	{"{\"calls\": \"[{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": \\\"{'a': NaN}\\\"}, {\\\"name\\\": \\\"g\\\", "
	 "\\\"arguments\\\": [1]}, {\\\"name\\\": \\\"h\\\"}, 7]\", \"error_type\": \"\"}",
		"f(\"{'a': NaN}\"); g([1]); h(); ()", ""},
	{"{\"strict-match\": \"\\\"calls\\\"\"}", NULL, NULL},
	{"{\"calls\": \"[]\"}", NULL, NULL},
	{"{\"calls\": [], \"error_type\": \"\"}", NULL, NULL},
	{"{\"calls\": \"{}\", \"error_type\": \"\"}", NULL, NULL},
	{"{\"calls\": \"[\", \"error_type\": \"\"}", NULL, NULL},
	{"{\"calls\": \"[]\", \"error_type\": \"\"", NULL, NULL},
	{"", NULL, NULL},
};

START_TEST(answers_are_read)
{
	const struct store_sample sample = {.filtered = str_of(answers_read[_i].filtered)};
	struct tool_answer a;
	struct buf line = {0};
	int status = tool_answer_read(&sample, &a, &test_error);
	ck_assert_int_eq(status, answers_read[_i].line != NULL);
	if (status == 1) {
		tool_answer_line(&a, &line);
		ck_assert_str_eq(buf_text(&line), answers_read[_i].line);
		ck_assert(str_is(a.type, answers_read[_i].type));
	}
	tool_answer_free(&a);
	buf_free(&line);
}
END_TEST

/* ---- Two runs ---- */

/* An answer to an item on one side: its calls as JSON, or NULL for what could not be read as any. */
struct side {
	const char *calls, *error_type, *invalid;
};

static const struct item {
	const char *task;
	int doc_id;
	struct side baseline, candidate;
} items[] = {
	{"toolcall_simple_python", 0, {"[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "", ""},
		{"[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "", ""}},
	{"toolcall_simple_python", 1, {"[{\"name\": \"f\", \"arguments\": {\"a\": 1, \"city\": \"Oslo\"}}]", "", ""},
		{"[{\"name\": \"f\", \"arguments\": {\"a\": 2, \"unit\": \"C\"}}]", "value_error:others: a", ""}},
	{"toolcall_simple_python", 2, {"[{\"name\": \"f\", \"arguments\": {\"a\": 3}}]", "value_error:others: a", ""},
		{"[]", "ast_decoder:decoder_failed", ""}},
	{"toolcall_simple_python", 3, {"[{\"name\": \"f\", \"arguments\": {\"a\": 4}}]", "value_error:others: b", ""},
		{"[{\"name\": \"f\", \"arguments\": {\"a\": 5}}]", "value_error:others: a", ""}},
	{"toolcall_irrelevance", 0,
		{"[{\"name\": \"g\", \"arguments\": {}}]", "irrelevance_error:decoder_success: g",
			"no tool is called g"},
		{"[]", "", ""}},
	{"toolcall_irrelevance", 1, {"[]", "", ""}, {"[]", "", ""}},
};

static void add_answer(struct store *s, int64_t variant, const struct item *item, const struct side *side)
{
	struct store_sample x = fixture_sample(variant, item->doc_id);
	struct buf filtered = {0}, metrics = {0};
	bool called = strcmp(side->calls, "[]") != 0;
	buf_append_text(&filtered, "{\"calls\": ");
	json_write_string(str_of(side->calls), false, &filtered);
	buf_append_text(&filtered, ", \"leniencies\": \"\", \"error_type\": ");
	json_write_string(str_of(side->error_type), false, &filtered);
	buf_append_text(&filtered, ", \"invalid\": ");
	json_write_string(str_of(side->invalid), false, &filtered);
	buf_append_char(&filtered, '}');
	buf_printf(&metrics, "{\"ast,none\": %d.0, \"valid,none\": %s, \"called,none\": %d.0}", !*side->error_type,
		!called                  ? "null"
			: *side->invalid ? "0.0"
					 : "1.0",
		called);
	x.suite = "toolcall";
	x.task = item->task;
	x.filtered = buf_str(&filtered);
	x.metrics = buf_str(&metrics);
	CHECK_OK(store_sample_insert(s, &x, &test_error));
	buf_free(&filtered);
	buf_free(&metrics);
}

struct compared {
	struct pairing pairing;
	struct policy policy;
	struct verdict verdict;
};

/* Compares two variants that answer those items so. */
static void compare(struct compared *c, const struct item *rows, size_t n)
{
	struct answers baseline = {0}, candidate = {0};
	const char *path = fixture_path("calls.db");
	struct store *s = fixture_open(path);
	*c = (struct compared){0};
	fixture_begin(s, "c", false);
	int64_t a = fixture_add_variant(s, "bf16/bf16"), b = fixture_add_variant(s, "int4/fp8");
	for (size_t i = 0; i < n; i++) {
		add_answer(s, a, &rows[i], &rows[i].baseline);
		add_answer(s, b, &rows[i], &rows[i].candidate);
	}
	CHECK_OK(store_run_finish(s, RUN_COMPLETE, &test_error));
	store_close(s);
	CHECK_OK(answers_load("1:bf16/bf16", path, &baseline, &test_error));
	CHECK_OK(answers_load("1:int4/fp8", path, &candidate, &test_error));
	CHECK_OK(pairing_make(&baseline, &candidate, NULL, 0, NULL, &c->pairing, &test_error));
	policy_init(&c->policy);
	CHECK_OK(verdict_make(&c->pairing, &c->policy, &c->verdict, &test_error));
}

static void compared_free(struct compared *c)
{
	verdict_free(&c->verdict);
	policy_free(&c->policy);
	pairing_free(&c->pairing);
}

/* "type baseline candidate appeared vanished", a line each. */
static void expect_errors(const struct tool_category *c, const char *expected)
{
	struct buf text = {0};
	for (size_t i = 0; i < c->n_errors; i++)
		buf_printf(&text, "%s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", c->errors[i].type,
			c->errors[i].baseline, c->errors[i].candidate, c->errors[i].appeared, c->errors[i].vanished);
	ck_assert_str_eq(buf_text(&text), expected);
	buf_free(&text);
}

START_TEST(categories_are_counted)
{
	struct compared c;
	compare(&c, items, sizeof(items) / sizeof(items[0]));
	const struct tool_suite *s = &c.verdict.suites[0].tools;
	ck_assert_uint_eq(s->n, 2);
	const struct tool_category *none = &s->categories[0], *python = &s->categories[1];
	ck_assert_str_eq(none->name, "irrelevance");
	ck_assert_str_eq(python->name, "simple_python");
	ck_assert_ptr_null(s->whole.name);
	ck_assert_int_eq(python->n, 4);
	ck_assert_int_eq(python->table.a, 1);
	ck_assert_int_eq(python->table.b, 1);
	ck_assert_int_eq(python->table.c, 0);
	ck_assert_int_eq(python->table.d, 2);
	ck_assert_double_eq_tol(python->drop, 0.25, 1e-15);
	ck_assert_int_eq(none->table.c, 1);
	ck_assert_int_eq(s->whole.n, 6);
	ck_assert_double_eq_tol(s->whole.baseline, 3.0 / 6, 1e-15);
	ck_assert_double_eq_tol(s->whole.candidate, 3.0 / 6, 1e-15);
	/* calls: 4 and 3 of the four, 1 and 0 of the two */
	ck_assert_int_eq(s->whole.baseline_calls.called, 5);
	ck_assert_int_eq(s->whole.baseline_calls.valid, 4);
	ck_assert_double_eq_tol(tool_validity_share(s->whole.baseline_calls), 0.8, 1e-15);
	ck_assert(isnan(tool_validity_share(none->candidate_calls)));
	ck_assert_double_eq_tol(python->trigger_f1, 2.0 * 3 / (2 * 3 + 1), 1e-15);
	ck_assert_double_eq(none->trigger_f1, 0);
	ck_assert_double_eq_tol(s->whole.trigger_f1, 2.0 * 3 / (5 + 3), 1e-15);
	expect_errors(python, "value_error:others 2 2 1 1\nast_decoder:decoder_failed 0 1 1 0\n");
	expect_errors(none, "irrelevance_error:decoder_success 1 0 0 1\n");
	expect_errors(&s->whole,
		"value_error:others 2 2 1 1\nast_decoder:decoder_failed 0 1 1 0\nirrelevance_error:decoder_success 1 0 "
		"0 "
		"1\n");
	compared_free(&c);
}
END_TEST

/* The tables of a report, and the calls of a flip, as text. */
START_TEST(tables_tell_of_calls)
{
	struct compared c;
	struct table_list list = {0};
	struct buf out = {0};
	compare(&c, items, sizeof(items) / sizeof(items[0]));
	CHECK_OK(report_tools_tables(&c.verdict, &list, &test_error));
	ck_assert_uint_eq(list.n, 2);
	ck_assert_uint_eq(table_rows(list.tables[0]), 3);
	ck_assert_uint_eq(table_rows(list.tables[1]), 6);
	table_markdown(list.tables[1], &out);
	ck_assert_ptr_nonnull(
		strstr(buf_text(&out), "| toolcall | simple&#95;python | value&#95;error:others | 2 | 2 | 1 | 1 |"));
	table_list_free(&list);
	buf_clear(&out);

	const struct pair *flip = NULL;
	for (size_t i = 0; i < c.pairing.n_pairs; i++)
		if (pair_is_regression(&c.pairing.pairs[i]))
			flip = &c.pairing.pairs[i];
	ck_assert_ptr_nonnull(flip);
	struct tool_answer a, b;
	ck_assert_int_eq(tool_answer_read(flip->baseline, &a, &test_error), 1);
	ck_assert_int_eq(tool_answer_read(flip->candidate, &b, &test_error), 1);
	CHECK_OK(tool_answers_table(&a, &b, &list, &test_error));
	table_markdown(list.tables[0], &out);
	ck_assert_str_eq(buf_text(&out),
		"### Calls\n\n| call | baseline | candidate | change |\n| --- | --- | --- | --- |\n"
		"| call 1 | f | f |  |\n|   a | 1 | 2 | changed |\n|   city | \"Oslo\" |  | missing |\n"
		"|   unit |  | \"C\" | added |\n| wrong by |  | value&#95;error:others: a | added |\n\n");
	tool_answer_free(&a);
	tool_answer_free(&b);
	table_list_free(&list);
	buf_free(&out);
	compared_free(&c);
}
END_TEST

static const struct json *at(const struct json *root, const char *const *way)
{
	for (; *way; way++)
		root = json_get(root, *way);
	return root;
}

START_TEST(json_tells_of_calls)
{
	struct compared c;
	struct buf out = {0};
	struct json_document *document = NULL;
	compare(&c, items, sizeof(items) / sizeof(items[0]));
	CHECK_OK(verdict_json(&c.verdict, true, &out, &test_error));
	CHECK_OK(json_parse(buf_str(&out), NULL, JSON_REFUSE_DOUBLED_KEYS, &document, &test_error));
	const struct json *root = json_root(document);
	const struct json *calls = at(root, (const char *const[]){"suites", "toolcall", "tool_calls", NULL});
	ck_assert_double_eq(json_double(json_get(calls, "n")), 6);
	const struct json *error =
		at(calls, (const char *const[]){"categories", "simple_python", "errors", "value_error:others", NULL});
	ck_assert_double_eq(json_double(json_get(error, "candidate")), 2);
	ck_assert_double_eq(json_double(json_get(error, "appeared")), 1);
	ck_assert(json_is(
		at(calls, (const char *const[]){"categories", "irrelevance", "validity", "candidate", "share", NULL}),
		JSON_NULL));
	/* flips come by suite, task and document: the one that was won first */
	const struct json *flip = json_at(json_get(root, "flips"), 1), *baseline = json_get(flip, "baseline");
	ck_assert(str_is(json_get(baseline, "extracted")->text, "f(a=1, city=\"Oslo\")"));
	ck_assert(str_is(
		at(json_at(json_get(baseline, "calls"), 0), (const char *const[]){"arguments", "city", NULL})->text,
		"Oslo"));
	ck_assert(str_is(
		at(flip, (const char *const[]){"candidate", "error_type", NULL})->text, "value_error:others: a"));
	json_free(document);
	buf_free(&out);
	compared_free(&c);
}
END_TEST

/* ---- Answers that try to break the writing ---- */

#define EVIL "</td></tr></table><script>alert(1)</script>|`\\u202e\\u0000\\u001b[31m"

static const struct item evils[] = {
	{"toolcall_</script>\"", 0, {"[{\"name\": \"" EVIL "\", \"arguments\": {\"" EVIL "\": \"" EVIL "\"}}]", "", ""},
		{"[{\"name\": \"" EVIL "\", \"error\": \"" EVIL "\", \"raw\": \"" EVIL "\"}]",
			"a\"b\\c\x01</td>: " EVIL, "</pre>" EVIL}},
	{"toolcall_</script>\"", 1, {"[{\"name\": {\"a\": 1}, \"arguments\": null}, [], 7]", "", ""}, {"[]", ": ", ""}},
	{"toolcall_</script>\"", 2, {"[{\"arguments\": [1, {\"x\": \"y\"}]}]", "", ""},
		{"[{\"name\": 1, \"arguments\": {\"a\": 1, \"a\": 2}}]", "a\"b\\c\x01</td>", ""}},
};

/* Markup is ours alone. */
static void expect_escaped(const struct buf *page)
{
	static const char *const never[] = {"<script", "</script", "\x1b", "\xe2\x80\xae", "</td></tr></table><"};
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		ck_assert_msg(strstr(buf_text(page), never[i]) == NULL, "the page holds '%s'", never[i]);
	ck_assert_uint_eq(strlen(buf_text(page)), page->length);
	int opened = 0, closed = 0;
	for (const char *t = buf_text(page); (t = strstr(t, "<t")); t++)
		opened++;
	for (const char *t = buf_text(page); (t = strstr(t, "</t")); t++)
		closed++;
	ck_assert_int_eq(opened, closed);
}

START_TEST(hostile_calls_are_escaped)
{
	struct compared c;
	struct buf out = {0};
	struct json_document *document = NULL;
	compare(&c, evils, sizeof(evils) / sizeof(evils[0]));
	ck_assert_int_eq(c.verdict.suites[0].tools.whole.table.b, 3);
	CHECK_OK(report_flips_html(&c.verdict, NULL, NULL, &out, &test_error));
	expect_escaped(&out);
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "alert(1)"));
	buf_clear(&out);
	CHECK_OK(verdict_markdown(&c.verdict, &out, &test_error));
	ck_assert_ptr_null(strstr(buf_text(&out), "<script"));
	buf_clear(&out);
	CHECK_OK(verdict_json(&c.verdict, true, &out, &test_error));
	CHECK_OK(json_parse(buf_str(&out), NULL, JSON_REFUSE_DOUBLED_KEYS, &document, &test_error));
	json_free(document);
	buf_free(&out);
	compared_free(&c);
}
END_TEST

/* A thousand calls of a thousand arguments: the page shows the beginning of each. */
START_TEST(many_calls_are_cut)
{
	struct buf many = {0}, out = {0};
	buf_append_char(&many, '[');
	for (int i = 0; i < 300; i++) {
		buf_printf(&many, "%s{\"name\": \"f\", \"arguments\": {", i ? ", " : "");
		for (int j = 0; j < 300; j++)
			buf_printf(&many, "%s\"a%d\": \"%0*d\"", j ? ", " : "", j, i == 0 && j == 0 ? 5000 : 1, 7);
		buf_append_text(&many, "}}");
	}
	buf_append_char(&many, ']');
	const struct item item = {"toolcall_multiple", 0, {buf_text(&many), "", ""}, {"[]", "x", ""}};
	struct compared c;
	compare(&c, &item, 1);
	struct tool_answer a, b;
	struct table_list list = {0};
	ck_assert_int_eq(tool_answer_read(c.pairing.pairs[0].baseline, &a, &test_error), 1);
	ck_assert_int_eq(tool_answer_read(c.pairing.pairs[0].candidate, &b, &test_error), 1);
	CHECK_OK(tool_answers_table(&a, &b, &list, &test_error));
	ck_assert_uint_le(table_rows(list.tables[0]), TOOL_ROWS + 8);
	table_markdown(list.tables[0], &out);
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "0… (5002 bytes in all) |"));
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "More than 200 rows: the rest is left out."));
	/* why it is wrong is still told */
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "| wrong by |  | x | added |"));
	tool_answer_free(&a);
	tool_answer_free(&b);
	table_list_free(&list);
	compared_free(&c);
	buf_free(&many);
	buf_free(&out);
}
END_TEST

/* Suites without tools have no such tables. */
START_TEST(other_suites_have_none)
{
	static const struct item none = {"toolcall_multiple", 0, {"[]", "", ""}, {"[]", "", ""}};
	struct compared c;
	compare(&c, &none, 1);
	ck_assert_uint_eq(c.verdict.suites[0].tools.n, 1);
	compared_free(&c);
	struct store_sample x = fixture_sample(1, 0);
	struct tool_answer a;
	ck_assert_int_eq(tool_answer_read(&x, &a, &test_error), 0);
	const struct suite_pairs no_pairs = {.binary = true};
	struct tool_suite s;
	CHECK_OK(tool_suite_make(&no_pairs, &s, &test_error));
	ck_assert_uint_eq(s.n, 0);
	tool_suite_free(&s);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *t = test_case(suite, "tool results", 60);
	tcase_add_loop_test(t, answers_are_read, 0, (int)(sizeof(answers_read) / sizeof(answers_read[0])));
	tcase_add_test(t, categories_are_counted);
	tcase_add_test(t, tables_tell_of_calls);
	tcase_add_test(t, json_tells_of_calls);
	tcase_add_test(t, hostile_calls_are_escaped);
	tcase_add_test(t, many_calls_are_cut);
	tcase_add_test(t, other_suites_have_none);
}
