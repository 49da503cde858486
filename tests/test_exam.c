/* Exams: what each check passes and fails, and files that are refused by line and name. */
#include <stdlib.h>

#include "evals/exam_check.h"
#include "evals/suite.h"
#include "tests/support.h"

const char *const test_program_name = "exam";

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct json_document *parsed(const char *record)
{
	struct json_document *document;
	CHECK_OK(json_parse(str_of(record), "record", JSON_LAST_KEY_WINS, &document, &test_error));
	return document;
}

/* ---- Checks ---- */

static const struct {
	const char *check; /* members of the record */
	const char *answer;
	bool passes;
} cases[] = {
	{"'check': 'exact', 'expected': 'Paris'", "Paris", true},
	{"'check': 'exact', 'expected': 'Paris'", " \n Paris\t", true},
	{"'check': 'exact', 'expected': ' Paris '", "Paris", true},
	{"'check': 'exact', 'expected': 'Paris'", "\xc2\xa0Paris\xe2\x80\x83", true},
	{"'check': 'exact', 'expected': 'Paris'", "paris", false},
	{"'check': 'exact', 'expected': 'Paris'", "Paris.", false},
	{"'check': 'exact', 'expected': ''", " ", true},
	{"'check': 'contains', 'expected': 'red'", "a redder one", true},
	{"'check': 'contains', 'expected': 'red'", "Red", false},
	{"'check': 'contains', 'expected': ['red', 'blue']", "blue and red", true},
	{"'check': 'contains', 'expected': ['red', 'blue']", "red", false},
	{"'check': 'contains', 'expected': ['red']", "", false},
	{"'check': 'regex', 'expected': '[0-9]{3}'", "no. 123", true},
	{"'check': 'regex', 'expected': '^[0-9]{3}$'", "no. 123", false},
	{"'check': 'regex', 'expected': '(?i)answer: (\\\\w+)', 'value': 'yes'", "ANSWER: yes", true},
	{"'check': 'regex', 'expected': '(?i)answer: (\\\\w+)', 'value': 'yes'", "answer: no", false},
	{"'check': 'regex', 'expected': 'answer: (\\\\w+)', 'value': 'yes'", "answer: no, answer: yes", true},
	{"'check': 'regex', 'expected': 'answer: (\\\\w+)'", "answer: no", true},
	{"'check': 'regex', 'expected': 'x(y)?', 'value': ''", "x", true},
	{"'check': 'regex', 'expected': '\\u00e9'", "caf\xc3\xa9", true},
	{"'check': 'number', 'expected': 18", "It is 18.", true},
	{"'check': 'number', 'expected': 18", "18 of 20", false},
	{"'check': 'number', 'expected': 18", "first 20, then $18", true},
	{"'check': 'number', 'expected': '1,000'",
		"about \xe2\x82\xac"
		"1,000.",
		true},
	{"'check': 'number', 'expected': 1234567.5", "$1,234,567.50", true},
	{"'check': 'number', 'expected': -5", "it is -5", true},
	{"'check': 'number', 'expected': -5",
		"it is \xe2\x88\x92"
		"5",
		true},
	{"'check': 'number', 'expected': -5", "-$5", true},
	{"'check': 'number', 'expected': 3", "1-3", true},
	{"'check': 'number', 'expected': 3", "(2)-3", true},
	{"'check': 'number', 'expected': 0.5", "half, .5", true},
	{"'check': 'number', 'expected': 1e3", "1e3", true},
	{"'check': 'number', 'expected': 1", "1e", true},
	{"'check': 'number', 'expected': 50", "50%", true},
	{"'check': 'number', 'expected': 3.14, 'tolerance': 0.01", "3.15", true},
	{"'check': 'number', 'expected': 1.0, 'tolerance': 0.1", "1.1", true},
	{"'check': 'number', 'expected': 3.14, 'tolerance': 0.01", "3.16", false},
	{"'check': 'number', 'expected': 0.3", "0.30000001", false},
	{"'check': 'number', 'expected': 0", "none", false},
	{"'check': 'number', 'expected': 0", "", false},
	{"'check': 'choice', 'expected': 'B'", "The answer is (B).", true},
	{"'check': 'choice', 'expected': 'B'", "A or B? B", true},
	{"'check': 'choice', 'expected': 'B'", "B, not A", false},
	{"'check': 'choice', 'expected': 'B'", "B. I'm sure", true},
	{"'check': 'choice', 'expected': 'B'", "B. I\xe2\x80\x99m sure", true},
	{"'check': 'choice', 'expected': 'B'",
		"\xe2\x80\x9c"
		"B\xe2\x80\x9d",
		true},
	{"'check': 'choice', 'expected': 'B'", "'B'", true},
	{"'check': 'choice', 'expected': 'B'", "**B**", true},
	{"'check': 'choice', 'expected': 'B'", "B\xc3\xa9", false},
	{"'check': 'choice', 'expected': 'B'",
		"\xc3\x89"
		"B",
		false},
	{"'check': 'choice', 'expected': 'B'", "ABBA", false},
	{"'check': 'choice', 'expected': 'B'", "b", false},
	{"'check': 'choice', 'expected': 'B'", "K B Z", true},
	{"'check': 'choice', 'expected': 'B'", "", false},
};

/* 'a' for "a", so that the tables stay readable. */
static struct json_document *record_of(const char *members)
{
	struct buf text = {0};
	buf_append_char(&text, '{');
	for (const char *c = members; *c; c++)
		buf_append_char(&text, *c == '\'' ? '"' : *c);
	buf_append_char(&text, '}');
	struct json_document *document = parsed(buf_text(&text));
	buf_free(&text);
	return document;
}

START_TEST(checks_pass_and_fail)
{
	struct json_document *record = record_of(cases[_i].check);
	const struct json *expected;
	const struct answer answer = {.text = str_of(cases[_i].answer)};
	struct item_score score = {0};
	CHECK_OK(exam_check_read(json_root(record), &expected, &test_error));
	CHECK_OK(exam_check_apply(json_root(record), TOOL_FORMAT_HERMES, &answer, &score, &test_error));
	ck_assert_msg(score.value[0] == cases[_i].passes, "%s: '%s'", cases[_i].check, cases[_i].answer);
	json_free(record);
}
END_TEST

/* A pattern that backtracks without end is an error of the item. */
START_TEST(a_pattern_that_takes_too_long)
{
	struct json_document *record = record_of("'check': 'regex', 'expected': '(x+x+)+[yz]'");
	struct buf text = {0};
	struct item_score score = {0};
	for (int i = 0; i < 5000; i++)
		buf_append_text(&text, "x");
	const struct answer answer = {.text = buf_str(&text)};
	ck_assert_int_eq(
		exam_check_apply(json_root(record), TOOL_FORMAT_NONE, &answer, &score, &test_error), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "matching a text of 5000 bytes: "));
	buf_free(&text);
	json_free(record);
}
END_TEST

/* ---- Files ---- */

#define GOOD "'id': 1, 'prompt': 'p', "

static const struct {
	const char *members;
	int code;
	const char *message;
} bad_cases[] = {
	{"'id': 1, 'prompt': 'p'", ERR_INPUT, "column \"check\" is missing"},
	{GOOD "'check': 'fuzzy', 'expected': 'x'", ERR_INPUT,
		"check \"fuzzy\", expected one of exact, contains, regex, number, choice, json-schema, tool-call"},
	{GOOD "'check': 'json-schema'", ERR_INPUT, "\"expected\" is missing, expected a JSON Schema"},
	{GOOD "'check': 'json-schema', 'expected': {'frob': 1}", ERR_INPUT,
		"\"expected\": schema at its root: unknown keyword \"frob\""},
	{GOOD "'check': 'tool-call', 'expected': []", ERR_INPUT, "\"tools\" is missing, expected an array of tools"},
	{GOOD "'check': 'tool-call', 'expected': [], 'tools': []", ERR_USAGE,
		"a conversation needs the model's chat template: no model is named"},
	{GOOD "'check': 'exact'", ERR_INPUT, "\"expected\" is missing, expected string"},
	{GOOD "'check': 'exact', 'expected': 4", ERR_INPUT, "\"expected\" is number, expected string"},
	{GOOD "'check': 'contains', 'expected': []", ERR_INPUT, "is an empty list"},
	{GOOD "'check': 'contains', 'expected': ''", ERR_INPUT, "is empty"},
	{GOOD "'check': 'contains', 'expected': ['a', 4]", ERR_INPUT, "\"expected\" is number"},
	{GOOD "'check': 'regex', 'expected': '('", ERR_INPUT, "pattern \"(\": missing closing parenthesis"},
	{GOOD "'check': 'regex', 'expected': 'a\\u0000b'", ERR_INPUT, "cannot hold U+0000"},
	{GOOD "'check': 'regex', 'expected': 'a', 'value': 'a'", ERR_INPUT, "\"value\" needs a group"},
	{GOOD "'check': 'regex', 'expected': '(a)', 'value': 4", ERR_INPUT, "\"value\" is number"},
	{GOOD "'check': 'number', 'expected': 'many'", ERR_INPUT, "\"expected\" is string, expected a number"},
	{GOOD "'check': 'number', 'expected': null", ERR_INPUT, "\"expected\" is null"},
	{GOOD "'check': 'number', 'expected': 1, 'tolerance': -1", ERR_INPUT, "\"tolerance\": expected a number"},
	{GOOD "'check': 'number', 'expected': 1, 'tolerance': '1'", ERR_INPUT, "\"tolerance\": expected a number"},
	{GOOD "'check': 'regex', 'expected': ''", ERR_INPUT, "\"expected\" is empty"},
	{GOOD "'check': 'choice', 'expected': 'K'", ERR_INPUT, "expected one letter of A to J"},
	{GOOD "'check': 'choice', 'expected': 'AB'", ERR_INPUT, "expected one letter of A to J"},
	{"'prompt': 'p', 'check': 'exact', 'expected': 'x'", ERR_INPUT, "column \"id\" is missing"},
	{"'id': 1, 'check': 'exact', 'expected': 'x'", ERR_INPUT, "column \"prompt\" is missing"},
	{"'id': 1, 'prompt': '', 'check': 'exact', 'expected': 'x'", ERR_INPUT, "column \"prompt\" is empty"},
	{"'id': 1, 'messages': [], 'check': 'exact', 'expected': 'x'", ERR_USAGE,
		"a conversation needs the model's chat template: no model is named"},
	{GOOD "'tools': [], 'check': 'exact', 'expected': 'x'", ERR_USAGE,
		"a conversation needs the model's chat template: no model is named"},
	{"'id': 1, 'messages': 5, 'check': 'exact', 'expected': 'x'", ERR_INPUT, "column \"messages\" is number"},
	{GOOD "'messages': [], 'check': 'exact', 'expected': 'x'", ERR_INPUT, "expected one of them"},
	{GOOD "'tools': 5, 'check': 'exact', 'expected': 'x'", ERR_INPUT, "column \"tools\" is number"},
	{GOOD "'tools': [{'name': 'f'}, 5], 'check': 'exact', 'expected': 'x'", ERR_INPUT,
		"tools[1]: it is number, expected an object"},
	{GOOD "'tools': [{'function': 'f'}], 'check': 'exact', 'expected': 'x'", ERR_INPUT,
		"tools[0]: \"function\" is string, expected an object"},
	{GOOD "'tools': [{'type': 'function', 'function': {}}], 'check': 'exact', 'expected': 'x'", ERR_INPUT,
		"tools[0]: \"name\" is missing, expected a text that is not empty"},
	{GOOD "'tools': [{'name': ''}], 'check': 'exact', 'expected': 'x'", ERR_INPUT, "tools[0]: \"name\" is empty"},
	{GOOD "'tools': [{'name': 'f', 'parameters': null}], 'check': 'exact', 'expected': 'x'", ERR_INPUT,
		"tools[0] (f): \"parameters\" is null, expected a JSON Schema"},
	{GOOD "'check': 'exact', 'expected': 'x', 'max_tokens': 0", ERR_INPUT, "column \"max_tokens\""},
	{GOOD "'check': 'exact', 'expected': 'x', 'max_tokens': 1.5", ERR_INPUT, "column \"max_tokens\""},
	{GOOD "'check': 'exact', 'expected': 'x', 'max_tokens': 3000000000", ERR_INPUT, "column \"max_tokens\""},
	{GOOD "'check': 'exact', 'expected': 'x', 'max_tokens': 3e9", ERR_INPUT,
		"column \"max_tokens\": expected a whole number from 1 to 2147483647"},
	{GOOD "'check': 'exact', 'expected': 'x', 'max_tokens': 1e999", ERR_INPUT, "column \"max_tokens\""},
	{GOOD "'check': 'exact', 'expected': 'x', 'max_tokens': '7'", ERR_INPUT, "column \"max_tokens\""},
	{GOOD "'check': 'number', 'expected': 1, 'tolerance': 1e999", ERR_INPUT, "\"tolerance\": expected a number"},
	{GOOD "'check': 'number', 'expected': 1e999", ERR_INPUT, "\"expected\" is 1e999, expected a number that a"},
	{GOOD "'check': 'number', 'expected': '1e999'", ERR_INPUT, "\"expected\" is 1e999, expected a number that a"},
	{GOOD "'check': 'exact', 'expected': 'x', 'expected': 'y'", ERR_INPUT, "key \"expected\" stands there twice"},
	{"'id': '', 'prompt': 'p', 'check': 'exact', 'expected': 'x'", ERR_INPUT, "column \"id\" is empty"},
	{GOOD "'check': 'number', 'expected': 1, 'tolerence': 1", ERR_INPUT,
		"unknown key \"tolerence\", expected of id, prompt, messages, check, expected, max_tokens, stop"},
	{GOOD "'check': 'exact', 'expected': 'x', 'tolerance': 1", ERR_INPUT,
		"\"tolerance\" belongs to check \"number\", expected none beside check \"exact\""},
	{GOOD "'check': 'regex', 'expected': '(x)', 'value': 'x', 'tolerance': 0", ERR_INPUT,
		"\"tolerance\" belongs to check \"number\", expected none beside check \"regex\""},
	{GOOD "'check': 'number', 'expected': 1, 'value': '1'", ERR_INPUT,
		"\"value\" belongs to check \"regex\", expected none beside check \"number\""},
	{GOOD "'check': 'choice', 'expected': 'A', 'value': null", ERR_INPUT,
		"\"value\" belongs to check \"regex\", expected none beside check \"choice\""},
	{GOOD "'check': 'exact', 'expected': 'x', 'max_token': 5", ERR_INPUT, "unknown key \"max_token\""},
	{"'id': 1, 'promt': 'p', 'check': 'exact', 'expected': 'x'", ERR_INPUT, "unknown key \"promt\""},
	{GOOD "'check': 'exact', 'expected': 'x', 'stop': ''", ERR_INPUT, "column \"stop\""},
	{GOOD "'check': 'exact', 'expected': 'x', 'stop': ['a', 3]", ERR_INPUT, "column \"stop\""},
};

static const struct {
	const char *first, *second;
	bool refused;
} id_pairs[] = {
	{"1", "1", true},
	{"1", "1.0", true},
	{"1e2", "100", true},
	{"'a'", "'a'", true},
	{"''", "''", true},
	{"1", "2", false},
	{"1", "'1'", false},
	{"'a'", "'ab'", false},
	{"'a'", "'A'", false},
	{"9007199254740993", "9007199254740992", false},
};

static const struct suite_options nothing;

static const char *exam_file(const char *name, const char *members)
{
	struct buf text = {0};
	buf_append_text(&text, "\n{");
	for (const char *c = members; *c; c++)
		buf_append_char(&text, *c == '\'' ? '"' : *c);
	buf_append_text(&text, "}\n");
	const char *path = test_write_file(name, text.data, text.length);
	buf_free(&text);
	return path;
}

START_TEST(bad_records_are_named)
{
	struct suite *suite;
	const char *path = exam_file("my.jsonl", bad_cases[_i].members);
	ck_assert_int_eq(suite_open(path, &nothing, &suite, &test_error), bad_cases[_i].code);
	ck_assert_msg(strstr(test_error.message, "my.jsonl:2: ") != NULL, "%s", test_error.message);
	ck_assert_msg(strstr(test_error.message, bad_cases[_i].message) != NULL, "%s", test_error.message);
}
END_TEST

/* One id twice in a file, also with others between. */
START_TEST(doubled_ids_are_refused)
{
	struct suite *suite;
	char members[512];
	snprintf(members, sizeof(members),
		"'id': %s, 'prompt': 'p', 'check': 'exact', 'expected': 'x'}\n"
		"{'id': 'between', 'prompt': 'p', 'check': 'exact', 'expected': 'x'}\n"
		"{'id': %s, 'prompt': 'p', 'check': 'exact', 'expected': 'x'",
		id_pairs[_i].first, id_pairs[_i].second);
	const char *path = exam_file("my.jsonl", members);
	int status = suite_open(path, &nothing, &suite, &test_error);
	ck_assert_msg(status == (id_pairs[_i].refused ? ERR_INPUT : 0), "%s %s", members, test_error.message);
	if (status == 0)
		suite_close(suite);
	else
		ck_assert_msg(strstr(test_error.message, "my.jsonl:4: \"id\" ") != NULL &&
				strstr(test_error.message, " is that of line 2") != NULL,
			"%s", test_error.message);
}
END_TEST

/* A number is what it is worth, however it is written. */
START_TEST(limits_are_numbers)
{
	static const struct {
		const char *text;
		int value;
	} limits[] = {{"1e3", 1000}, {"1.0", 1}, {"2147483647", 2147483647}, {"1E9", 1000000000}, {"7", 7}};
	for (size_t i = 0; i < COUNT(limits); i++) {
		struct suite *suite;
		char members[200];
		snprintf(members, sizeof(members), GOOD "'check': 'exact', 'expected': 'x', 'max_tokens': %s",
			limits[i].text);
		CHECK_OK(suite_open(exam_file("e.jsonl", members), &nothing, &suite, &test_error));
		ck_assert_int_eq(suite_item(suite, 0)->max_tokens, limits[i].value);
		suite_close(suite);
	}
}
END_TEST

START_TEST(files_are_found_and_named)
{
	struct suite *suite;
	const char *path = exam_file("My.Exam.jsonl", GOOD "'check': 'exact', 'expected': 'x'");
	CHECK_OK(suite_open(path, &nothing, &suite, &test_error));
	ck_assert_str_eq(suite_name(suite), "My.Exam");
	ck_assert_str_eq(suite_item(suite, 0)->task, "My.Exam");
	ck_assert_int_eq(suite_item(suite, 0)->max_tokens, 256);
	ck_assert_int_eq(suite_item(suite, 0)->n_until, 0);
	suite_close(suite);
	char *folder = strdup(path);
	*strrchr(folder, '/') = '\0';
	const struct suite_options below = {.data_folder = folder};
	CHECK_OK(suite_open("My.Exam.jsonl", &below, &suite, &test_error));
	suite_close(suite);
	ck_assert_int_eq(suite_open("./none.jsonl", &below, &suite, &test_error), ERR_MISSING);
	ck_assert_ptr_nonnull(strstr(test_error.message, "exam ./none.jsonl: no such file, neither is "));
	ck_assert_int_eq(suite_open(folder, &nothing, &suite, &test_error), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(test_error.message, "is no plain file, expected a file"));
	ck_assert_int_eq(suite_open("/dev/null", &nothing, &suite, &test_error), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(test_error.message, "exam /dev/null: is no plain file"));
	free(folder);
	path = exam_file("mmlu_anatomy.jsonl", GOOD "'check': 'exact', 'expected': 'x'");
	ck_assert_int_eq(suite_open(path, &nothing, &suite, &test_error), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(test_error.message, "\"mmlu_anatomy\" is the name of a suite"));
	ck_assert_int_eq(suite_open(test_write_file("empty.jsonl", "\n", 1), &nothing, &suite, &test_error), ERR_EMPTY);
}
END_TEST

START_TEST(a_record_has_its_own_stops_and_limit)
{
	struct suite *suite;
	const char *path = exam_file(
		"e.jsonl", GOOD "'check': 'contains', 'expected': ['x', 'y'], 'stop': ['\\n', 'Q:'], 'max_tokens': 7");
	CHECK_OK(suite_open(path, &nothing, &suite, &test_error));
	const struct suite_item *item = suite_item(suite, 0);
	ck_assert_int_eq(item->max_tokens, 7);
	ck_assert_int_eq(item->n_until, 2);
	ck_assert(str_is(item->until[0], "\n"));
	ck_assert(str_is(item->until[1], "Q:"));
	ck_assert(str_is(item->context, "p"));
	suite_close(suite);
}
END_TEST

/* An answer that the length limit cut fails, also where what there is of it would pass. */
START_TEST(truncated_answers_fail)
{
	struct suite *suite;
	struct item_score score;
	CHECK_OK(suite_open(
		exam_file("e.jsonl", GOOD "'check': 'contains', 'expected': 'x'"), &nothing, &suite, &test_error));
	for (int truncated = 0; truncated < 2; truncated++) {
		const struct answer answer = {.text = str_of("x"), .truncated = truncated};
		CHECK_OK(suite_score(suite, suite_item(suite, 0), &answer, &score, &test_error));
		ck_assert_int_eq(score.n_metrics, 1);
		ck_assert_str_eq(score.metric[0], "passed,none");
		ck_assert_double_eq(score.value[0], truncated ? 0 : 1);
		item_score_free(&score);
	}
	suite_close(suite);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *checks = test_case(suite, "checks", 60);
	tcase_add_loop_test(checks, checks_pass_and_fail, 0, COUNT(cases));
	tcase_add_test(checks, a_pattern_that_takes_too_long);
	TCase *files = test_case(suite, "files", 0);
	tcase_add_loop_test(files, bad_records_are_named, 0, COUNT(bad_cases));
	tcase_add_loop_test(files, doubled_ids_are_refused, 0, COUNT(id_pairs));
	tcase_add_test(files, limits_are_numbers);
	tcase_add_test(files, files_are_found_and_named);
	tcase_add_test(files, a_record_has_its_own_stops_and_limit);
	tcase_add_test(files, truncated_answers_fail);
}
