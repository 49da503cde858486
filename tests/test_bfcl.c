/* BFCL's checker against BFCL's own program: whole lines, literals of Java and JavaScript, the form of outputs. */
#include "datasets/records.h"
#include "evals/bfcl.h"
#include "evals/bfcl_type.h"
#include "tests/support.h"

const char *const test_program_name = "bfcl";

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- Lines judged by the program itself ---- */

static bool same_value(const struct json *a, const struct json *b)
{
	return a && b && a->type == b->type && (a->type != JSON_STRING || str_equal(a->text, b->text));
}

static void check_line(size_t number, struct str want, struct str got)
{
	struct json_document *expected, *actual;
	CHECK_OK(json_parse(want, NULL, JSON_PYTHON_CONSTANTS, &expected, &test_error));
	CHECK_OK(json_parse(got, NULL, JSON_LAST_KEY_WINS, &actual, &test_error));
	static const char *const members[] = {"id", "valid", "error_type"};
	for (int i = 0; i < COUNT(members); i++)
		ck_assert_msg(
			same_value(json_get(json_root(expected), members[i]), json_get(json_root(actual), members[i])),
			"line %zu: another %s: %.*s", number, members[i], STR_ARG(got));
	json_free(expected);
	json_free(actual);
}

/* Every line of a file with "valid" and "error_type" agrees. */
static void check_golden_file(const char *path, const char *data, size_t at_least)
{
	struct buf expected = test_read_file(path), out = {0};
	struct str want, got;
	CHECK_OK(bfcl_rescore(data, path, &out, &test_error));
	struct line_cursor wanted = {.text = buf_str(&expected)}, given = {.text = buf_str(&out)};
	while (line_next(&wanted, &want)) {
		ck_assert(line_next(&given, &got));
		check_line(wanted.line, want, got);
	}
	ck_assert(!line_next(&given, &got));
	ck_assert_uint_ge(wanted.line, at_least);
	buf_free(&expected);
	buf_free(&out);
}

START_TEST(goldens_agree)
{
	check_golden_file(golden_path("tools/bfcl.jsonl"), NULL, 200);
}
END_TEST

START_TEST(shared_goldens_agree)
{
	const char *path = shared_path("golden/bfcl_ast.jsonl");
	const char *data = shared_path("data/bfcl/BFCL_v4_simple_python.json");
	if (!path || !data)
		SKIP("no golden/bfcl_ast.jsonl or data/bfcl");
	struct buf folder = {0};
	buf_append_text(&folder, data);
	*strstr(folder.data, "/bfcl/") = '\0';
	check_golden_file(path, folder.data, 7000);
	buf_free(&folder);
}
END_TEST

/* ---- Strings, orders of calls, optional arguments (ast_checker of gorilla 6ea57973) ---- */

#define STRING "{\"type\": \"string\"}"

static const struct {
	const char *category, *parameter, *truth, *output;
	const char *error_type; /* NULL: valid */
} cases[] = {
	{"simple_python", STRING, "{\"s\": [\"st john's by the sea\"]}", "{\"s\": \"St. John's-by-the_Sea\"}", NULL},
	{"simple_python", STRING, "{\"s\": [\"a b\"]}", "{\"s\": \"a+b\"}", "value_error:string"},
	{"simple_python", STRING, "{\"s\": [\"i\xcc\x87stanbul\"]}", "{\"s\": \"\xc4\xb0stanbul\"}", NULL},
	{"simple_python", STRING, "{\"s\": [\"New York\"]}", "{\"s\": \"New\\tYork\"}", "value_error:string"},
	{"simple_python", STRING,
		"{\"s\": [\"stra\xc3\x9f"
		"e\"]}",
		"{\"s\": \"STRASSE\"}", "value_error:string"},
	{"simple_python", STRING, "{\"s\": [\"x2\"]}", "{\"s\": \"x^2\"}", NULL},
	{"simple_python", STRING, "{\"s\": [\"\", \"a\"]}", "{\"s\": \"\"}", NULL},
	{"simple_python", STRING, "{\"s\": [\"a\\u0000b\"]}", "{\"s\": \"A\\u0000B\"}", NULL},
	{"simple_python", STRING, "{\"s\": [\"a\"], \"t\": [\"x\", \"\"]}", "{\"s\": \"a\"}", NULL},
	{"simple_python", STRING, "{\"s\": [\"a\"], \"t\": [\"x\"]}", "{\"s\": \"a\"}",
		"simple_function_checker:missing_optional"},
	{"simple_python", STRING, "{\"s\": [\"a\"]}", "{\"s\": \"b\", \"s\": \"a\"}", NULL},
	{"simple_python", "{\"type\": \"integer\"}", "{\"s\": [1]}", "{\"s\": 1.0}", "type_error:simple"},
	{"simple_python", "{\"type\": \"integer\"}", "{\"s\": [1]}", "{\"s\": true}", "type_error:simple"},
	{"simple_python", "{\"type\": \"integer\"}", "{\"s\": [9007199254740993]}", "{\"s\": 9007199254740992}",
		"value_error:others"},
	{"simple_python", "{\"type\": \"float\"}", "{\"s\": [5]}", "{\"s\": 5}", NULL},
	{"simple_python", "{\"type\": \"float\"}", "{\"s\": [5.0]}", "{\"s\": NaN}", "value_error:others"},
	{"simple_python", "{\"type\": \"array\", \"items\": {\"type\": \"integer\"}}", "{\"s\": [[1, 2], \"\"]}",
		"{\"s\": []}", NULL},
	{"simple_python", "{\"type\": \"array\", \"items\": {\"type\": \"integer\"}}", "{\"s\": [[1, 2]]}",
		"{\"s\": [2, 1]}", "value_error:list/tuple"},
	{"simple_python", "{\"type\": \"array\", \"items\": {\"type\": \"integer\"}}", "{\"s\": [[1]]}",
		"{\"s\": [\"1\"]}", "type_error:nested"},
	{"simple_python", "{\"type\": \"dict\"}", "{\"s\": [{\"k\": [\"v\", \"\"]}]}", "{\"s\": {}}", NULL},
	{"simple_python", "{\"type\": \"dict\"}", "{\"s\": [{\"k\": [\"v\"]}]}", "{\"s\": {\"l\": \"v\"}}",
		"value_error:dict_key"},
	{"simple_python", "{\"type\": \"dict\"}", "{\"s\": [\"\"]}", "{\"s\": {}}", "dict_checker:unclear"},
	{"simple_python", "{\"type\": \"array\", \"items\": {\"type\": \"dict\"}}", "{\"s\": [[{\"k\": [1]}]]}",
		"{\"s\": [{\"k\": 1}, {\"k\": 1}]}", "value_error:list_dict_count"},
	{"simple_python", STRING, "{\"s\": [\"a\"]}", "5", "ast_decoder:decoder_wrong_output_format"},
	{"irrelevance", STRING, "{}", "{\"s\": \"a\"}", "irrelevance_error:decoder_success"},
	{"irrelevance", STRING, "{}", "5", NULL},
	{"live_relevance", STRING, "{}", "{\"s\": \"a\"}", NULL},
	{"live_relevance", STRING, "{}", "5", "relevance_error:decoder_failed"},
	{"simple_java", "{\"type\": \"String\"}", "{\"s\": [\"a\"]}", "{\"s\": 5}", "type_error:java"},
	{"simple_javascript", "{\"type\": \"String\"}", "{\"s\": [\"a\"]}", "{\"s\": \"'a'\"}", NULL},
};

START_TEST(judges)
{
	struct buf line = {0}, out = {0};
	buf_printf(&line,
		"{\"id\": \"x\", \"category\": \"%s\", \"underscore_to_dot\": true, \"function\": [{\"name\": \"f.g\", "
		"\"parameters\": "
		"{\"properties\": {\"s\": %s, \"t\": {\"type\": \"string\"}}, \"required\": [\"s\"]}}], "
		"\"ground_truth\": "
		"[{\"f.g\": %s}], \"model_output\": [{\"f_g\": %s}]}",
		cases[_i].category, cases[_i].parameter, cases[_i].truth, cases[_i].output);
	CHECK_OK(bfcl_rescore(NULL, test_write_file("x.jsonl", line.data, line.length), &out, &test_error));
	char expected[160];
	if (cases[_i].error_type)
		snprintf(expected, sizeof(expected), "{\"id\": \"x\", \"valid\": false, \"error_type\": \"%s\"}\n",
			cases[_i].error_type);
	else
		snprintf(expected, sizeof(expected), "{\"id\": \"x\", \"valid\": true, \"error_type\": null}\n");
	ck_assert_msg(strcmp(buf_text(&out), expected) == 0, "%s: %s", line.data, buf_text(&out));
	buf_free(&line);
	buf_free(&out);
}
END_TEST

/* Calls and answers in any order; each answer takes the first call that passes, so a complete matching is missed. */
static const struct {
	const char *category, *truths, *outputs, *error_type;
} orders[] = {
	{"parallel", "[{\"f\": {\"s\": [\"b\"]}}, {\"f\": {\"s\": [\"a\"]}}]",
		"[{\"f\": {\"s\": \"a\"}}, {\"f\": {\"s\": \"b\"}}]", "null"},
	{"parallel", "[{\"f\": {\"s\": [\"a\", \"b\"]}}, {\"f\": {\"s\": [\"a\"]}}]",
		"[{\"f\": {\"s\": \"a\"}}, {\"f\": {\"s\": \"b\"}}]",
		"\"parallel_function_checker_no_order:cannot_find_match\""},
	{"parallel", "[{\"f\": {\"s\": [\"a\"]}}]", "[]", "\"parallel_function_checker_no_order:wrong_count\""},
	{"multiple", "[{\"f\": {\"s\": [\"a\"]}}]", "[]", "\"multiple_function_checker:wrong_count\""},
	{"simple_python", "[{\"f\": {\"s\": [\"a\"]}}]", "[]", "\"simple_function_checker:wrong_count\""},
	{"simple_python", "[{\"f\": {\"s\": [\"a\"]}}]", "[{\"f\": {\"s\": \"a\"}, \"g\": {}}]",
		"\"ast_decoder:decoder_wrong_output_format\""},
	{"simple_python", "[{\"f\": {\"s\": [\"a\"]}}]", "\"text\"", "\"ast_decoder:decoder_wrong_output_format\""},
	{"irrelevance", "[]", "[]", "null"},
	{"irrelevance", "[]", "[{}]", "null"},
};

START_TEST(matches_calls)
{
	struct buf line = {0}, out = {0};
	buf_printf(&line,
		"{\"id\": \"x\", \"category\": \"%s\", \"function\": [{\"name\": \"f\", \"parameters\": "
		"{\"properties\": {\"s\": "
		"{\"type\": \"string\"}}, \"required\": [\"s\"]}}], \"ground_truth\": %s, \"model_output\": %s}",
		orders[_i].category, orders[_i].truths, orders[_i].outputs);
	CHECK_OK(bfcl_rescore(NULL, test_write_file("x.jsonl", line.data, line.length), &out, &test_error));
	char expected[160];
	snprintf(expected, sizeof(expected), "\"error_type\": %s}\n", orders[_i].error_type);
	ck_assert_msg(strstr(buf_text(&out), expected) != NULL, "%s: %s", line.data, buf_text(&out));
	buf_free(&line);
	buf_free(&out);
}
END_TEST

/* ---- Literals (java_type_converter and js_type_converter of gorilla 6ea57973) ---- */

static const struct {
	enum bfcl_language language;
	const char *value, *type, *nested, *json;
} literals[] = {
	{BFCL_JAVA, "-123", "integer", "", "-123"},
	{BFCL_JAVA, "007", "short", "", "7"},
	{BFCL_JAVA, "5\n", "integer", "", "5"},
	{BFCL_JAVA, "5.0", "integer", "", "\"5.0\""},
	{BFCL_JAVA, "3e-3F", "float", "", "0.003"},
	{BFCL_JAVA, "3.14", "float", "", "\"3.14\""},
	{BFCL_JAVA, "3", "double", "", "3.0"},
	{BFCL_JAVA, "9223372036854775808L", "long", "", "9223372036854775808"},
	{BFCL_JAVA, "1", "long", "", "\"1\""},
	{BFCL_JAVA, "true", "boolean", "", "true"},
	{BFCL_JAVA, "True", "boolean", "", "\"True\""},
	{BFCL_JAVA, "'a'", "char", "", "\"'a'\""},
	{BFCL_JAVA, "123", "any", "", "\"123\""},
	{BFCL_JAVA, "new int[]{1, 2,}", "Array", "integer", "[1, 2]"},
	{BFCL_JAVA, "new String[]{\"a\"}", "Array", "String", "[\"\\\"a\\\"\"]"},
	{BFCL_JAVA, "new long[]{1L, 2}", "Array", "long", "[1, \"2\"]"},
	{BFCL_JAVA, "new Object[]{1, \"a\", true, 1.5, x}", "Array", "", "[1, \"a\", true, 1.5, \"x\"]"},
	{BFCL_JAVA, "new ArrayList<>(Arrays.asList(\"a\", \"b\"))", "ArrayList", "String", "[\"a\", \"b\"]"},
	{BFCL_JAVA, "new ArrayList<Integer>() {{ add(1); add( 2 ); }}", "ArrayList", "integer", "[1, 2]"},
	{BFCL_JAVA, "new ArrayList<>()", "ArrayList", "String", "[]"},
	{BFCL_JAVA, "list", "ArrayList", "String", "\"list\""},
	{BFCL_JAVA, "new HashMap<String, Object>() {{ put(\"k\", 1); put(\"l\", \"v\"); }}", "HashMap", "",
		"{\"k\": 1, \"l\": \"v\"}"},
	{BFCL_JAVA, "new HashMap<>() {{ }}", "HashMap", "", "{}"},
	{BFCL_JAVA, "new HashMap<>()", "HashMap", "", "{}"},
	{BFCL_JAVASCRIPT, "'abc'", "String", "", "\"abc\""},
	{BFCL_JAVASCRIPT, "abc", "String", "", "\"abc\""},
	{BFCL_JAVASCRIPT, "3.14", "float", "", "3.14"},
	{BFCL_JAVASCRIPT, "3", "float", "", "3.0"},
	{BFCL_JAVASCRIPT, "1e3", "float", "", "\"1e3\""},
	{BFCL_JAVASCRIPT, "123n", "Bigint", "", "123"},
	{BFCL_JAVASCRIPT, "false", "Boolean", "", "false"},
	{BFCL_JAVASCRIPT, "[1, 'two', true]", "array", "", "[1, \"two\", true]"},
	{BFCL_JAVASCRIPT, "new Array(4n, 5)", "array", "Bigint", "[4, \"5\"]"},
	{BFCL_JAVASCRIPT, " [ [1, 2 ], [3,   4]]", "array", "array", "[[1, 2], [3, 4]]"},
	{BFCL_JAVASCRIPT, "new Array([1], [2])", "array", "array", "[[1], [2]]"},
	{BFCL_JAVASCRIPT, "[]", "array", "", "[]"},
	{BFCL_JAVASCRIPT, "{'a': 1, \"b\": [1, 'x'], c: true}", "dict", "",
		"{\"a\": 1, \"b\": [1, \"x\"], \"c\": true}"},
	{BFCL_JAVASCRIPT, "{}", "dict", "", "{}"},
	{BFCL_JAVASCRIPT, "x", "dict", "", "\"x\""},
	{BFCL_JAVASCRIPT, "1_000", "array", "", "\"1_000\""},
	{BFCL_JAVASCRIPT, "[1_000, 1__0, +5, inf, -nan, .5, 1e2]", "array", "",
		"[1000, \"1__0\", 5, Infinity, NaN, 0.5, 100.0]"},
};

START_TEST(converts)
{
	struct bfcl_checker *checker;
	struct buf json = {0};
	CHECK_OK(bfcl_checker_new(&checker, &test_error));
	CHECK_OK(bfcl_convert(checker, literals[_i].language, str_of(literals[_i].value), str_of(literals[_i].type),
		str_of(literals[_i].nested), &json, &test_error));
	ck_assert_msg(strcmp(buf_text(&json), literals[_i].json) == 0, "%s of %s: %s, expected %s", literals[_i].value,
		literals[_i].type, buf_text(&json), literals[_i].json);
	buf_clear(&json);
	int status = bfcl_convert(
		checker, literals[_i].language, str_of("x"), str_of("Queue"), str_of(""), &json, &test_error);
	ck_assert_int_eq(status, ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "\"Queue\""));
	buf_free(&json);
	bfcl_checker_delete(checker);
}
END_TEST

/* ---- What cannot be judged ---- */

static const struct {
	const char *line, *message;
} bad_lines[] = {
	{"{\"id\": \"simple_python_0\"}", "model_output"},
	{"{\"id\": \"nonsense_0\", \"model_output\": []}", "nonsense_0"},
	{"{\"id\": \"simple_python_0\", \"model_output\": []}", "--data"},
	{"{\"id\": \"simple_python_0\", \"function\": [{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": "
	 "{\"type\": "
	 "\"frob\"}}, \"required\": []}}], \"ground_truth\": [{\"f\": {\"a\": [1]}}], \"model_output\": [{\"f\": "
	 "{\"a\": 1}}]}",
		"\"frob\""},
	{"{\"id\": \"simple_python_0\", \"function\": [], \"ground_truth\": [], \"model_output\": [{\"f\": {}}]}",
		"BFCL's form"},
	{"{\"id\": \"multiple_0\", \"function\": [], \"ground_truth\": [{}], \"model_output\": [{\"f\": {}}]}",
		"BFCL's form"},
};

START_TEST(refuses)
{
	struct buf out = {0};
	const char *path = test_write_file("bad.jsonl", bad_lines[_i].line, strlen(bad_lines[_i].line));
	ck_assert_int_eq(bfcl_rescore(NULL, path, &out, &test_error), ERR_INPUT);
	ck_assert_msg(strstr(test_error.message, bad_lines[_i].message) && strstr(test_error.message, "bad.jsonl:1: "),
		"%s", test_error.message);
	buf_free(&out);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *goldens = test_case(suite, "goldens", 0);
	tcase_add_test(goldens, goldens_agree);
	tcase_add_test(goldens, shared_goldens_agree);
	TCase *rules = test_case(suite, "rules", 0);
	tcase_add_loop_test(rules, judges, 0, COUNT(cases));
	tcase_add_loop_test(rules, matches_calls, 0, COUNT(orders));
	tcase_add_loop_test(rules, converts, 0, COUNT(literals));
	tcase_add_loop_test(rules, refuses, 0, COUNT(bad_lines));
}
