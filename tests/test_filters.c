/* Filters and exact_match against lm-evaluation-harness, the regular expressions below them against Python's re. */
#include "datasets/records.h"
#include "evals/filters.h"
#include "evals/metrics.h"
#include "evals/regex.h"
#include "evals/suite.h"
#include "tests/support.h"

const char *const test_program_name = "filters";

/* Every line of a file of {"filter", "input", "output"} and {"metric", "pred", "ref", "exact_match"} agrees. */
static void check_golden_file(const char *path, size_t at_least)
{
	struct records expected, actual;
	struct buf out = {0};
	CHECK_OK(records_load(&expected, path, &test_error));
	ck_assert_uint_ge(expected.count, at_least);
	CHECK_OK(suite_rescore_filters(path, &out, &test_error));
	CHECK_OK(records_load(&actual, test_write_file("out.jsonl", out.data, out.length), &test_error));
	ck_assert_uint_eq(actual.count, expected.count);
	for (size_t i = 0; i < expected.count; i++) {
		const struct json *want = expected.items[i].doc, *got = actual.items[i].doc;
		if (json_get(want, "filter")) {
			struct str a = json_get(want, "output")->text, b = json_get(got, "output")->text;
			ck_assert_msg(
				str_equal(a, b), "line %zu: '%.*s', expected '%.*s'", i + 1, STR_ARG(b), STR_ARG(a));
		} else {
			double a = json_double(json_get(want, "exact_match")),
			       b = json_double(json_get(got, "exact_match"));
			ck_assert_msg(a == b, "line %zu: %g, expected %g", i + 1, b, a);
		}
	}
	records_free(&expected);
	records_free(&actual);
	buf_free(&out);
}

START_TEST(goldens_agree)
{
	check_golden_file(golden_path("suites/filters.jsonl"), 90);
}
END_TEST

START_TEST(shared_goldens_agree)
{
	const char *path = shared_path("golden/filters.jsonl");
	if (!path)
		SKIP("no golden/filters.jsonl");
	check_golden_file(path, 300);
}
END_TEST

/* ---- Numbers that are not numbers: responses found in the wild, values of lm-evaluation-harness 4e7e0d47 ---- */

static const struct {
	const char *response, *gold, *flexible;
	double right;
} odd_numbers[] = {
	{" **Answer: \\$18 per day.**", "#### 18", "$18", 1},
	{" So the total is 42...", "#### 42", "42...", 0},
	{" It is 7, I think... yes.", "#### 7", "...", 0},
	{" She earns $18.00.", "#### 18", "$18.00.", 0},
	{" \\boxed{70{,}000}", "#### 70000", "000", 0},
	{" 5 (five) o'clock, at 3 p.m.,,", "#### 5", ".,,", 0},
	{" 540 metres (=0.54 km)", "#### 540", "0.54", 0},
	{" 1-3", "#### 3", "-3", 0},
	{" \xef\xbc\x91\xef\xbc\x98", "#### 18", "[invalid]", 0},
	{"", "#### 8", "[invalid]", 0},
};

static void check_extraction(const char *name, struct str response, struct str gold, struct str want, double right)
{
	struct filter *filter;
	struct exact_match *metric;
	struct buf out = {0};
	double value = -1;
	CHECK_OK(filter_new(str_of(name), &filter, &test_error));
	CHECK_OK(exact_match_new(str_of("gsm8k"), &metric, &test_error));
	CHECK_OK(filter_apply(filter, response, &out, &test_error));
	ck_assert_msg(str_equal(buf_str(&out), want), "%s of '%.*s': '%s'", name, STR_ARG(response), buf_text(&out));
	CHECK_OK(exact_match_score(metric, buf_str(&out), gold, &value, &test_error));
	ck_assert_double_eq(value, right);
	filter_delete(filter);
	exact_match_delete(metric);
	buf_free(&out);
}

START_TEST(odd_numbers_are_extracted_as_by_the_harness)
{
	struct str response = str_of(odd_numbers[_i].response), gold = str_of(odd_numbers[_i].gold);
	check_extraction("gsm8k:strict-match", response, gold, str_of("[invalid]"), 0);
	check_extraction(
		"gsm8k:flexible-extract", response, gold, str_of(odd_numbers[_i].flexible), odd_numbers[_i].right);
}
END_TEST

START_TEST(shared_odd_numbers_agree)
{
	const char *responses = shared_path("trials/T33/responses.jsonl"),
		   *expected = shared_path("trials/T33/expected.json");
	if (!responses || !expected)
		SKIP("no trials/T33");
	struct records r;
	struct json_document *document;
	struct buf text = test_read_file(expected);
	CHECK_OK(records_load(&r, responses, &test_error));
	CHECK_OK(json_parse(buf_str(&text), expected, 0, &document, &test_error));
	const struct json *rows = json_get(json_root(document), "rows");
	ck_assert_uint_eq(rows->count, r.count);
	for (size_t i = 0; i < r.count; i++) {
		const struct json *row = json_at(rows, i);
		struct str response = json_get(r.items[i].doc, "response")->text,
			   gold = json_get(r.items[i].doc, "target")->text;
		check_extraction("gsm8k:strict-match", response, gold, json_get(row, "strict")->text,
			json_double(json_get(row, "strict_match")));
		check_extraction("gsm8k:flexible-extract", response, gold, json_get(row, "flexible")->text,
			json_double(json_get(row, "flexible_match")));
	}
	json_free(document);
	records_free(&r);
	buf_free(&text);
}
END_TEST

/* ---- Regular expressions ---- */

/* CPython 3.11.7: "|".join(re.findall(pattern, text)) and re.sub(pattern, "", text). */
static const struct {
	const char *pattern, *text, *found, *removed;
} regex_cases[] = {
	{"a*", "baac", "|aa||", "bc"},
	{"a|b*", "abb c", "a|bb|||", " c"},
	{"x", "", "", ""},
	{"x*", "", "", ""},
	{"\\.$", "18.\n", ".", "18\n"},
	{"\\.$", "18.\n\n", "", "18.\n\n"},
	{"\\.$", "18.", ".", "18"},
	{"a.c", "a\rc a\nc a\303\251c", "a\rc|a\303\251c", " a\nc "},
	{"(?s).*#### ", "a\n#### b#### 7", "a\n#### b#### ", "7"},
	{"[0-9]", "1\331\2432", "1|2", "\331\243"},
};

START_TEST(matches_are_those_of_python)
{
	struct regex *regex;
	struct buf found = {0}, removed = {0};
	struct regex_cursor cursor = {0};
	struct str text = str_of(regex_cases[_i].text);
	CHECK_OK(regex_new(regex_cases[_i].pattern, &regex, &test_error));
	ck_assert_int_eq(regex_group_count(regex), 0);
	int status;
	for (int i = 0; (status = regex_next(regex, text, &cursor, &test_error)) > 0; i++) {
		buf_append_text(&found, i ? "|" : "");
		buf_append_str(&found, regex_group(regex, text, 0));
		ck_assert_int_lt(i, 20);
	}
	CHECK_OK(status);
	ck_assert_str_eq(buf_text(&found), regex_cases[_i].found);
	CHECK_OK(regex_remove(regex, text, &removed, &test_error));
	ck_assert_str_eq(buf_text(&removed), regex_cases[_i].removed);
	regex_delete(regex);
	buf_free(&found);
	buf_free(&removed);
}
END_TEST

START_TEST(a_bad_pattern_is_refused)
{
	struct regex *regex = NULL;
	ck_assert_int_eq(regex_new("a(b", &regex, &test_error), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "a(b"));
	ck_assert_ptr_null(regex);
	regex_delete(NULL);
}
END_TEST

START_TEST(bytes_that_are_no_text_do_no_harm)
{
	static const char bytes[] = "\xff#### \xc3"
				    "7\xed\xa0\x80 12\xf0\x9f";
	struct str response = {bytes, sizeof(bytes) - 1};
	check_extraction("gsm8k:flexible-extract", response, str_of("12"), str_of("12"), 1);
	check_extraction("gsm8k:strict-match", response, response, str_of("[invalid]"), 0);
}
END_TEST

/* ---- What is refused ---- */

static const struct {
	const char *line;
	int code;
	const char *message;
} bad_lines[] = {
	{"{\"filter\": \"gsm8k:no-such\", \"input\": \"\"}", ERR_INPUT,
		"\"gsm8k:no-such\" (known: gsm8k:strict-match,"},
	{"{\"filter\": \"gsm8k\", \"input\": \"\"}", ERR_INPUT, "\"gsm8k\""},
	{"{\"filter\": 3, \"input\": \"\"}", ERR_INPUT, "column \"filter\" is number"},
	{"{\"filter\": \"gsm8k:strict-match\"}", ERR_INPUT, "column \"input\" is missing"},
	{"{\"metric\": \"bleu\", \"pred\": \"\", \"ref\": \"\"}", ERR_INPUT, "\"bleu\" (known: gsm8k,"},
	{"{\"metric\": \"gsm8k\", \"pred\": \"\"}", ERR_INPUT, "column \"ref\" is missing"},
	{"{}", ERR_INPUT, "expected an object with \"filter\""},
	{"[]", ERR_INPUT, "expected an object with \"filter\""},
	{"{\"filter\"", ERR_INPUT, "expected"},
};

START_TEST(bad_lines_are_named)
{
	struct buf text = {0}, out = {0};
	buf_printf(&text, "{\"filter\": \"gsm8k:strict-match\", \"input\": \"\"}\n\n%s\n", bad_lines[_i].line);
	const char *path = test_write_file("lines.jsonl", text.data, text.length);
	ck_assert_int_eq(suite_rescore_filters(path, &out, &test_error), bad_lines[_i].code);
	ck_assert_msg(
		strstr(test_error.message, "lines.jsonl:3: ") && strstr(test_error.message, bad_lines[_i].message),
		"%s", test_error.message);
	buf_free(&text);
	buf_free(&out);
}
END_TEST

START_TEST(an_empty_file_gives_nothing)
{
	struct buf out = {0};
	CHECK_OK(suite_rescore_filters(test_write_file("none.jsonl", "", 0), &out, &test_error));
	ck_assert_uint_eq(out.length, 0);
	ck_assert_int_eq(suite_rescore_filters("/nowhere.jsonl", &out, &test_error), ERR_MISSING);
	buf_free(&out);
}
END_TEST

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

void test_program_cases(Suite *suite)
{
	TCase *goldens = test_case(suite, "goldens", 60);
	tcase_add_test(goldens, goldens_agree);
	tcase_add_test(goldens, shared_goldens_agree);
	tcase_add_loop_test(goldens, odd_numbers_are_extracted_as_by_the_harness, 0, COUNT(odd_numbers));
	tcase_add_test(goldens, shared_odd_numbers_agree);
	TCase *regex = test_case(suite, "regex", 0);
	tcase_add_loop_test(regex, matches_are_those_of_python, 0, COUNT(regex_cases));
	tcase_add_test(regex, a_bad_pattern_is_refused);
	tcase_add_test(regex, bytes_that_are_no_text_do_no_harm);
	TCase *refuse = test_case(suite, "refuse", 0);
	tcase_add_loop_test(refuse, bad_lines_are_named, 0, COUNT(bad_lines));
	tcase_add_test(refuse, an_empty_file_gives_nothing);
}
