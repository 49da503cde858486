/* The suite of tool calls: items from BFCL's files through a chat template, BFCL's tools, the three metrics, BFCL's
 * means, agreement with a baseline; exam checks on JSON; calls judged from lines. */
#include <math.h>

#include "datasets/records.h"
#include "evals/bfcl.h"
#include "evals/exam_check.h"
#include "evals/suite.h"
#include "evals/suite_task.h"
#include "evals/tool_verdict.h"
#include "evals/trigger.h"
#include "tests/support.h"

const char *const test_program_name = "toolcall";

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static struct json_document *parse(const char *text)
{
	struct json_document *document;
	CHECK_OK(json_parse(str_of(text), "test", JSON_LAST_KEY_WINS, &document, &test_error));
	return document;
}

/* ---- BFCL's functions as tools (convert_to_tool and the language hints of gorilla 6ea57973) ---- */

#define HINT " Note that the provided function is in "
#define WRAP(function) "[{\"type\": \"function\", \"function\": {" function "}}]"

static const struct {
	enum bfcl_language language;
	const char *functions, *tools;
} conversions[] = {
	{BFCL_PYTHON,
		"[{\"name\": \"a.b\", \"description\": \"D.\", \"parameters\": {\"type\": \"dict\", \"properties\": "
		"{\"x\": {\"type\": "
		"\"float\", \"description\": \"d\"}, \"y\": {\"type\": \"tuple\", \"items\": {\"type\": \"float\"}}, "
		"\"z\": {\"type\": "
		"\"frob\", \"default\": 1.50}, \"w\": {\"description\": \"u\"}}, \"required\": [\"x\"]}}]",
		WRAP("\"name\": \"a_b\", \"description\": \"D." HINT
		     "Python 3 syntax.\", \"parameters\": {\"type\": \"object\", "
		     "\"properties\": {\"x\": {\"type\": \"number\", \"description\": \"d This is a float type "
		     "value.\", "
		     "\"format\": \"float\"}, \"y\": {\"type\": \"array\", \"items\": {\"type\": \"number\"}}, \"z\": "
		     "{\"type\": "
		     "\"string\", \"default\": 1.5}, \"w\": {\"description\": \"u\", \"type\": \"string\"}}, "
		     "\"required\": [\"x\"]}")},
	{BFCL_PYTHON,
		"[{\"name\": \"f\", \"description\": \"\", \"parameters\": {\"type\": \"dict\", \"properties\": "
		"{\"l\": {\"type\": "
		"\"array\", \"items\": {\"type\": \"dict\", \"properties\": {\"k\": {\"type\": \"any\"}}}}, \"m\": "
		"{\"type\": \"array\", "
		"\"items\": {\"type\": \"array\", \"items\": {\"type\": \"dict\", \"properties\": {\"k\": {\"type\": "
		"\"any\"}}}}}, "
		"\"o\": {\"type\": \"dict\", \"properties\": {\"p\": {\"type\": \"dict\"}}}}, \"required\": []}}]",
		WRAP("\"name\": \"f\", \"description\": \"" HINT
		     "Python 3 syntax.\", \"parameters\": {\"type\": \"object\", "
		     "\"properties\": {\"l\": {\"type\": \"array\", \"items\": {\"type\": \"object\", \"properties\": "
		     "{\"k\": "
		     "{\"type\": \"string\"}}}}, \"m\": {\"type\": \"array\", \"items\": {\"type\": \"array\", "
		     "\"items\": {\"type\": "
		     "\"object\", \"properties\": {\"k\": {\"type\": \"any\"}}}}}, \"o\": {\"type\": \"object\", "
		     "\"properties\": "
		     "{\"p\": {\"type\": \"object\"}}}}, \"required\": []}")},
	{BFCL_JAVA,
		"[{\"name\": \"f\", \"description\": \"D.\", \"parameters\": {\"type\": \"dict\", \"properties\": "
		"{\"l\": {\"type\": "
		"\"ArrayList\", \"description\": \"d\", \"items\": {\"type\": \"String\"}}, \"o\": {\"type\": \"any\", "
		"\"description\": "
		"\"e\"}}, \"required\": [\"l\"]}}]",
		WRAP("\"name\": \"f\", \"description\": \"D." HINT
		     "Java 8 SDK syntax.\", \"parameters\": {\"type\": \"object\", "
		     "\"properties\": {\"l\": {\"type\": \"string\", \"description\": \"d This is Java ArrayList type "
		     "parameter in "
		     "string representation. The list elements are of type String; they are not in string "
		     "representation.\"}, "
		     "\"o\": {\"type\": \"string\", \"description\": \"e This parameter can be of any type of Java "
		     "object in "
		     "string representation.\"}}, \"required\": [\"l\"]}")},
	{BFCL_JAVASCRIPT,
		"[{\"name\": \"f\", \"description\": \"D.\", \"parameters\": {\"type\": \"dict\", \"properties\": "
		"{\"o\": {\"type\": "
		"\"dict\", \"description\": \"e\", \"properties\": {\"k\": {\"type\": \"\\u00e9\"}}}}, \"required\": "
		"[]}}]",
		WRAP("\"name\": \"f\", \"description\": \"D." HINT
		     "JavaScript syntax.\", \"parameters\": {\"type\": \"object\", "
		     "\"properties\": {\"o\": {\"type\": \"string\", \"description\": \"e This is JavaScript dict type "
		     "parameter in "
		     "string representation. The dictionary entries have the following schema; they are not in string "
		     "representation. {\\\"k\\\": {\\\"type\\\": \\\"\\\\u00e9\\\"}}\"}}, \"required\": []}")},
};

START_TEST(functions_become_tools)
{
	struct json_document *functions = parse(conversions[_i].functions);
	struct buf tools = {0};
	CHECK_OK(bfcl_tools_append(json_root(functions), conversions[_i].language, &tools, &test_error));
	ck_assert_str_eq(buf_text(&tools), conversions[_i].tools);
	buf_free(&tools);
	json_free(functions);
}
END_TEST

/* ---- The suite ---- */

#define QUESTION(id, more)                                                                                      \
	"{\"id\": \"" id                                                                                        \
	"\", \"question\": [[{\"role\": \"user\", \"content\": \"Q\"}]], \"function\": [{\"name\": \"m.add\", " \
	"\"description\": \"d\", \"parameters\": {\"type\": \"dict\", \"properties\": {\"a\": {\"type\": "      \
	"\"integer\", "                                                                                         \
	"\"description\": \"a\"}}, \"required\": [\"a\"]" more "}}]}\n"
#define ANSWER(id) "{\"id\": \"" id "\", \"ground_truth\": [{\"m.add\": {\"a\": [1]}}]}\n"

static struct engine_template *conversations;
static struct suite_options options;

/* A data folder with simple_python (2 items), multiple (1) and irrelevance (1), and a template to write them with. */
static void data_setup(void)
{
	static const char template[] = "{{ tools | tojson }}|{{ messages[0]['content'] }}<tool_call>";
	static const char simple[] = QUESTION("simple_python_0", "") QUESTION("simple_python_1", ", \"frob\": 1");
	static const char answers[] = ANSWER("simple_python_0") ANSWER("simple_python_1");
	test_write_file("bfcl/BFCL_v4_simple_python.json", simple, strlen(simple));
	test_write_file("bfcl/possible_answer/BFCL_v4_simple_python.json", answers, strlen(answers));
	test_write_file("bfcl/BFCL_v4_multiple.json", QUESTION("multiple_0", ""), strlen(QUESTION("multiple_0", "")));
	test_write_file(
		"bfcl/possible_answer/BFCL_v4_multiple.json", ANSWER("multiple_0"), strlen(ANSWER("multiple_0")));
	static const char silent[] = QUESTION("irrelevance_0", "");
	const char *last = test_write_file("bfcl/BFCL_v4_irrelevance.json", silent, strlen(silent));
	char *folder = strdup(last);
	*strstr(folder, "/bfcl/") = '\0';
	CHECK_OK(engine_template_open(
		NULL, test_write_file("t.jinja", template, strlen(template)), &conversations, &test_error));
	static struct tm now;
	options = (struct suite_options){.data_folder = folder,
		.fewshot = -1,
		.seed = 1234,
		.conversations = conversations,
		.tool_format = TOOL_FORMAT_HERMES,
		.now = &now};
}

static void data_teardown(void)
{
	engine_template_close(conversations);
	free((char *)options.data_folder);
}

static struct suite *open_suite(const char *name)
{
	struct suite *suite;
	CHECK_OK(suite_open(name, &options, &suite, &test_error));
	return suite;
}

START_TEST(items_are_made)
{
	struct suite *suite = open_suite("toolcall");
	ck_assert_str_eq(suite_name(suite), "toolcall");
	ck_assert_int_eq(suite_task_count(suite), 3);
	ck_assert_int_eq(suite_count(suite), 4);
	ck_assert_int_eq(suite_file_count(suite), 5);
	const struct suite_item *item = suite_item(suite, 0);
	ck_assert_str_eq(item->task, "toolcall_simple_python");
	ck_assert_int_eq(item->max_tokens, 512);
	ck_assert(str_is(item->target, "[{\"m.add\": {\"a\": [1]}}]"));
	ck_assert(str_starts_with(
		item->context, str_of("[{\"type\": \"function\", \"function\": {\"name\": \"m_add\", ")));
	ck_assert_uint_ne(str_find(item->context, str_of("}]|Q<tool_call>"), 0), SIZE_MAX);
	ck_assert_int_eq(item->tool_format, TOOL_FORMAT_HERMES);
	ck_assert_ptr_nonnull(tool_function_find(item->tools, str_of("m_add")));
	ck_assert_str_eq(suite_item(suite, 3)->task, "toolcall_irrelevance");
	ck_assert_uint_eq(suite_item(suite, 3)->target.length, 0);
	suite_close(suite);
	suite = open_suite("TOOLCALL_multiple");
	ck_assert_str_eq(suite_name(suite), "toolcall_multiple");
	ck_assert_int_eq(suite_count(suite), 1);
	suite_close(suite);
}
END_TEST

#define CALL(json) "<tool_call>\n" json "\n</tool_call>"
static const char right_call[] = CALL("{\"name\": \"m_add\", \"arguments\": {\"a\": 1}}");

static const struct {
	int item;
	const char *text;
	double ast, valid, called; /* valid -1: none */
	const char *error_type, *invalid, *leniencies;
} answers[] = {
	{0, right_call, 1, 1, 1, "", "", ""},
	{2, right_call, 1, 1, 1, "", "", ""},
	{0, "One plus one is two.", 0, -1, 0, "ast_decoder:decoder_failed", "", ""},
	{0, CALL("{\"name\": \"m_add\", \"arguments\": {\"a\": 2}}"), 0, 1, 1, "value_error:others: a", "", ""},
	{0, CALL("{\"name\": \"m.add\", \"arguments\": {\"a\": 1}}"), 0, 0, 1,
		"simple_function_checker:wrong_func_name: m.add", "no tool is called \"m.add\"", ""},
	{0, CALL("{\"name\": \"m_add\", \"arguments\": {\"a\": \"1\"}}"), 0, 0, 1, "type_error:simple: a",
		"m_add: /a: type: string is not integer", ""},
	{0, CALL("{\"name\": \"m_add\", \"arguments\": \"{\\\"a\\\": 1}\"}"), 1, 1, 1, "", "", "arguments-as-text"},
	{0, CALL("{\"name\": \"m_add\", \"arguments\": {\"a\": NaN}}"), 0, 0, 1, "type_error:simple: a",
		"m_add: NaN or Infinity, which JSON does not have", "python-constants"},
	{0, CALL("{\"name\": \"m_add\", \"arguments\": {\"a\": 1}}}"), 0, 0, 1, "ast_decoder:decoder_failed",
		"no JSON: line 1, column 41: expected the end of the text after the JSON value, found '}'", ""},
	{0, CALL("{\"name\": \"m_add\", \"arguments\": [1]}"), 0, 0, 1,
		"ast_decoder:decoder_wrong_output_format: m_add", "the arguments are array, expected an object", ""},
	{3, "No tool fits.", 1, -1, 0, "", "", ""},
	{3, right_call, 0, 1, 1, "irrelevance_error:decoder_success: m_add", "", ""},
};

static void check_text(const struct item_score *score, const char *name, const char *expected)
{
	for (int i = 0; i < score->n_filters; i++) {
		if (strcmp(score->filter[i], name) == 0) {
			ck_assert_str_eq(buf_text(&score->filtered[i]), expected);
			return;
		}
	}
	ck_abort_msg("no %s is kept", name);
}

START_TEST(answers_are_judged)
{
	struct suite *suite = open_suite("toolcall");
	const struct answer answer = {.text = str_of(answers[_i].text)};
	struct item_score score;
	CHECK_OK(suite_score(suite, suite_item(suite, answers[_i].item), &answer, &score, &test_error));
	ck_assert_int_eq(score.n_metrics, 3);
	ck_assert_str_eq(score.metric[0], "ast,none");
	ck_assert_double_eq(score.value[0], answers[_i].ast);
	if (answers[_i].valid < 0)
		ck_assert(isnan(score.value[1]));
	else
		ck_assert_double_eq(score.value[1], answers[_i].valid);
	ck_assert_double_eq(score.value[2], answers[_i].called);
	check_text(&score, "error_type", answers[_i].error_type);
	check_text(&score, "invalid", answers[_i].invalid);
	check_text(&score, "leniencies", answers[_i].leniencies);
	item_score_free(&score);
	suite_close(suite);
}
END_TEST

START_TEST(the_calls_are_kept)
{
	struct suite *suite = open_suite("toolcall");
	const struct answer answer = {.text = str_of("<tool_call>{\"name\": \"m_add\", \"arguments\": {\"a\": "
						     "1}}</tool_call><tool_call>{</tool_call>")};
	struct item_score score;
	CHECK_OK(suite_score(suite, suite_item(suite, 0), &answer, &score, &test_error));
	check_text(&score, "calls",
		"[{\"name\": \"m_add\", \"arguments\": {\"a\": 1}}, {\"name\": \"\", \"error\": \"no JSON: line 1, "
		"column 2: "
		"expected a key in double quotes, found the end of the text\", \"raw\": "
		"\"<tool_call>{</tool_call>\"}]");
	item_score_free(&score);
	suite_close(suite);
}
END_TEST

/* A schema that cannot be judged is an error of its item, by the keyword's name. */
START_TEST(an_unknown_keyword_is_an_error)
{
	struct suite *suite = open_suite("toolcall");
	const struct answer answer = {.text = str_of(right_call)};
	struct item_score score;
	ck_assert_int_eq(suite_score(suite, suite_item(suite, 1), &answer, &score, &test_error), ERR_INPUT);
	ck_assert_str_eq(test_error.message,
		"tool m_add: schema at its root: unknown keyword \"frob\": what it demands cannot be judged");
	suite_close(suite);
}
END_TEST

START_TEST(what_is_missing_is_named)
{
	struct suite *suite;
	struct suite_options less = options;
	less.conversations = NULL;
	ck_assert_int_eq(suite_open("toolcall", &less, &suite, &test_error), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(test_error.message, "needs the model's chat template"));
	less = options;
	less.tool_format = TOOL_FORMAT_NONE;
	ck_assert_int_eq(suite_open("toolcall", &less, &suite, &test_error), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(test_error.message, "--tool-format"));
	less = options;
	less.data_folder = "/nonexistent";
	ck_assert_int_eq(suite_open("toolcall", &less, &suite, &test_error), ERR_MISSING);
	ck_assert_int_eq(suite_open("toolcall_simple_java", &options, &suite, &test_error), ERR_MISSING);
	ck_assert_int_eq(suite_open("toolcall_nonsense", &options, &suite, &test_error), ERR_USAGE);
	static const char other[] = ANSWER("simple_python_0") ANSWER("simple_python_2");
	char path[512];
	snprintf(path, sizeof(path), "%s/bfcl/possible_answer/BFCL_v4_simple_python.json", options.data_folder);
	FILE *file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	fputs(other, file);
	fclose(file);
	ck_assert_int_eq(suite_open("toolcall", &options, &suite, &test_error), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, ":2: \"id\" is not that of "));
}
END_TEST

/* ---- BFCL's means ---- */

struct seen {
	struct {
		char name[64];
		double value, stderr_value;
		int n;
	} results[64];
	int count;
};

static int see(void *context, const char *task, const struct metric_summary *summary, struct error *e)
{
	struct seen *s = context;
	(void)e;
	if (strcmp(summary->name, "ast,none") != 0)
		return 0;
	ck_assert_int_lt(s->count, 64);
	snprintf(s->results[s->count].name, sizeof(s->results[0].name), "%s", task ? task : "all");
	s->results[s->count].value = summary->value;
	s->results[s->count].n = summary->n;
	s->results[s->count++].stderr_value = summary->stderr_value;
	return 0;
}

static double result_named(const struct seen *s, const char *name)
{
	for (int i = 0; i < s->count; i++) {
		if (strcmp(s->results[i].name, name) == 0)
			return s->results[i].value;
	}
	return -1;
}

/* Category i has 2 + i items, of which the first i are right; by hand after BFCL's generate_leaderboard_csv. */
START_TEST(means_are_bfcls)
{
	struct seen seen = {0};
	struct buf text = {0}, truth = {0};
	const char *last = NULL;
	char *folder;
	for (int c = 0; c < bfcl_category_count(); c++) {
		const char *name = bfcl_category_at(c)->name;
		char path[128];
		buf_clear(&text);
		buf_clear(&truth);
		for (int i = 0; i < 2 + c; i++) {
			buf_printf(&text, QUESTION("%s_%d", ""), name, i);
			buf_printf(&truth, ANSWER("%s_%d"), name, i);
		}
		snprintf(path, sizeof(path), "bfcl/BFCL_v4_%s.json", name);
		last = test_write_file(path, text.data, text.length);
		snprintf(path, sizeof(path), "bfcl/possible_answer/BFCL_v4_%s.json", name);
		test_write_file(path, truth.data, truth.length);
	}
	folder = strdup(last);
	*strstr(folder, "/bfcl/") = '\0';
	struct suite_options all = options;
	all.data_folder = folder;
	struct suite *suite;
	CHECK_OK(suite_open("toolcall", &all, &suite, &test_error));
	int items = suite_count(suite), c = -1;
	double *values = mem_calloc((size_t)(3 * items), sizeof(*values), NULL);
	bool *scored = mem_calloc((size_t)items, sizeof(*scored), NULL);
	for (int i = 0; i < items; i++) {
		c += suite_item(suite, i)->doc_id == 0;
		values[i] = suite_item(suite, i)->doc_id < c;
		scored[i] = true;
	}
	CHECK_OK(suite_summarize(suite, values, scored, see, &seen, &test_error));
	double simple = (0.0 / 2 + 1.0 / 3 + 2.0 / 4) / 3, plain = (simple + 3.0 / 5 + 4.0 / 6 + 5.0 / 7) / 4;
	double live = (7.0 + 8 + 9 + 10) / (9 + 10 + 11 + 12), silence = (6.0 / 8 + 11.0 / 13) / 2;
	ck_assert_double_eq_tol(result_named(&seen, "toolcall_mean_simple"), simple, 1e-12);
	ck_assert_double_eq_tol(result_named(&seen, "toolcall_mean_non_live"), plain, 1e-12);
	ck_assert_double_eq_tol(result_named(&seen, "toolcall_mean_live"), live, 1e-12);
	ck_assert_double_eq_tol(result_named(&seen, "toolcall_mean_irrelevance"), silence, 1e-12);
	ck_assert_double_eq_tol(result_named(&seen, "toolcall_mean"), (plain + live + silence) / 3, 1e-12);
	ck_assert_double_eq(result_named(&seen, "toolcall_live_relevance"), 12.0 / 14);
	suite_close(suite);
	free(values);
	free(scored);
	free(folder);
	buf_free(&text);
	buf_free(&truth);
}
END_TEST

START_TEST(agreement_is_an_f1)
{
	static const struct {
		struct trigger_counts counts;
		double f1;
	} table[] = {{{10, 0, 0, 5}, 1}, {{0, 1, 1, 5}, 0}, {{6, 2, 1, 3}, 0.8}, {{1, 0, 0, 0}, 1}};
	for (int i = 0; i < COUNT(table); i++)
		ck_assert_double_eq_tol(trigger_f1(&table[i].counts), table[i].f1, 1e-15);
	ck_assert(isnan(trigger_f1(&(struct trigger_counts){0, 0, 0, 7})));
}
END_TEST

/* ---- Exams ---- */

#define TOOLS                                                                                                  \
	", \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"w.f\", \"parameters\": {\"type\": " \
	"\"object\", "                                                                                         \
	"\"properties\": {\"c\": {\"type\": \"string\"}, \"n\": {\"type\": \"number\"}, \"o\": {\"type\": "    \
	"\"object\"}, \"l\": "                                                                                 \
	"{\"type\": \"array\"}, \"u\": {\"enum\": [\"x\"]}}, \"required\": [\"c\"]}}}]"
#define SCHEMA "{\"check\": \"json-schema\", \"expected\": {\"type\": \"object\", \"required\": [\"a\"]}}"
#define EXPECT(truth) "{\"check\": \"tool-call\", \"expected\": " truth TOOLS "}"
#define MAKE(arguments) CALL("{\"name\": \"w.f\", \"arguments\": " arguments "}")

static const struct {
	const char *record, *answer;
	bool passes;
} exam_cases[] = {
	{SCHEMA, " {\"a\": 1} ", true},
	{SCHEMA, "{\"b\": 1}", false},
	{SCHEMA, "Here:\n```json\n{\"a\": 1}\n```\nand ```json\n{}\n```", true},
	{SCHEMA, "```\n{}\n```\n```\n{\"a\": 1}\n```", false},
	{SCHEMA, "{\"b\": 1} ```\n{\"a\": 1}\n```", true},
	{SCHEMA, "```{\"a\": 1}```", false},
	{SCHEMA, "", false},
	{SCHEMA, "NaN", false},
	{EXPECT("[{\"w.f\": {\"c\": [\"Paris\"]}}]"), MAKE("{\"c\": \"paris\"}"), true},
	{EXPECT("[{\"w.f\": {\"c\": [\"Paris\"]}}]"), MAKE("{\"c\": \"Rome\"}"), false},
	{EXPECT("[{\"w.f\": {\"c\": [\"Paris\"]}}]"), "Paris", false},
	{EXPECT("[{\"w.f\": {\"c\": [\"Paris\"]}}]"), MAKE("{\"c\": \"Paris\"}}"), false},
	{EXPECT("[{\"w.f\": {\"c\": [\"P\"], \"n\": [2, \"\"]}}]"), MAKE("{\"c\": \"P\"}"), true},
	{EXPECT("[{\"w.f\": {\"c\": [\"P\"], \"n\": [2]}}]"), MAKE("{\"c\": \"P\", \"n\": 2.0}"), true},
	{EXPECT("[{\"w.f\": {\"c\": [\"P\"], \"n\": [2.5]}}]"), MAKE("{\"c\": \"P\", \"n\": 2}"), false},
	{EXPECT("[{\"w.f\": {\"c\": [\"P\"], \"o\": [{\"k\": [1]}]}}]"), MAKE("{\"c\": \"P\", \"o\": {\"k\": 1}}"),
		true},
	{EXPECT("[{\"w.f\": {\"c\": [\"P\"], \"l\": [[1, 2]]}}]"), MAKE("{\"c\": \"P\", \"l\": [1, 2]}"), true},
	{EXPECT("[{\"w.f\": {\"c\": [\"P\"], \"l\": [[1, 2]]}}]"), MAKE("{\"c\": \"P\", \"l\": [2, 1]}"), false},
	{EXPECT("[{\"w.f\": {\"c\": [\"P\"], \"u\": [\"x\"]}}]"), MAKE("{\"c\": \"P\", \"u\": \"X\"}"), true},
	{EXPECT("[{\"w.f\": {\"c\": [\"P\"]}}, {\"w.f\": {\"c\": [\"R\"]}}]"),
		MAKE("{\"c\": \"R\"}") MAKE("{\"c\": \"P\"}"), true},
	{EXPECT("[{\"w.f\": {\"c\": [\"P\"]}}, {\"w.f\": {\"c\": [\"R\"]}}]"), MAKE("{\"c\": \"R\"}"), false},
	{EXPECT("[]"), "I cannot.", true},
	{EXPECT("[]"), MAKE("{\"c\": \"P\"}"), false},
};

START_TEST(exam_checks_judge)
{
	struct json_document *record = parse(exam_cases[_i].record);
	const struct json *expected;
	const struct answer answer = {.text = str_of(exam_cases[_i].answer)};
	struct item_score score = {0};
	CHECK_OK(exam_check_read(json_root(record), &expected, &test_error));
	CHECK_OK(exam_check_apply(json_root(record), TOOL_FORMAT_HERMES, &answer, &score, &test_error));
	ck_assert_msg(score.value[0] == exam_cases[_i].passes, "%s: %s", exam_cases[_i].record, exam_cases[_i].answer);
	item_score_free(&score);
	json_free(record);
}
END_TEST

/* What an exam keeps of the calls is what the suites of tool calls keep. */
static const struct {
	const char *record, *answer;
	bool truncated;
	const char *kept[4]; /* calls, leniencies, error_type, invalid */
} kept_cases[] = {
	{EXPECT("[{\"w.f\": {\"c\": [\"Paris\"]}}]"), MAKE("{\"c\": \"Rome\"}"), false,
		{"[{\"name\": \"w.f\", \"arguments\": {\"c\": \"Rome\"}}]", "", "value_error:string: c", ""}},
	{EXPECT("[{\"w.f\": {\"c\": [\"Paris\"]}}]"), MAKE("{\"c\": 5}"), false,
		{"[{\"name\": \"w.f\", \"arguments\": {\"c\": 5}}]", "", "type_error:simple: c",
			"w.f: /c: type: number is not string"}},
	{EXPECT("[{\"w.f\": {\"c\": [\"Paris\"]}}]"), MAKE("{\"c\": \"Paris\"}"), true,
		{"[{\"name\": \"w.f\", \"arguments\": {\"c\": \"Paris\"}}]", "", "truncated", ""}},
	{EXPECT("[{\"w.f\": {\"c\": [\"Paris\"]}}]"), "Paris", false, {"[]", "", "ast_decoder:decoder_failed", ""}},
	{EXPECT("[]"), "I cannot.", false, {"[]", "", "", ""}},
	{SCHEMA, "{\"b\": 1}", false, {NULL}},
};

START_TEST(exams_keep_calls)
{
	static const char *const names[] = {"calls", "leniencies", "error_type", "invalid"};
	struct json_document *record = parse(kept_cases[_i].record);
	const struct json *expected;
	const struct answer answer = {.text = str_of(kept_cases[_i].answer), .truncated = kept_cases[_i].truncated};
	struct item_score score = {0};
	CHECK_OK(exam_check_read(json_root(record), &expected, &test_error));
	CHECK_OK(exam_check_apply(json_root(record), TOOL_FORMAT_HERMES, &answer, &score, &test_error));
	ck_assert_int_eq(score.n_filters, kept_cases[_i].kept[0] ? 4 : 0);
	for (int i = 0; i < score.n_filters; i++) {
		ck_assert_str_eq(score.filter[i], names[i]);
		ck_assert_str_eq(buf_text(&score.filtered[i]), kept_cases[_i].kept[i]);
	}
	ck_assert(score.value[0] == (kept_cases[_i].kept[0] && !kept_cases[_i].kept[2][0]));
	item_score_free(&score);
	json_free(record);
}
END_TEST

static const struct {
	const char *record, *message;
} bad_exams[] = {
	{EXPECT("[{\"none\": {}}]"), "no tool is called \"none\""},
	{EXPECT("[{\"w.f\": {\"c\": \"Paris\"}}]"), "\"expected\" holds string, expected [{\"function\""},
	{EXPECT("[{\"w.f\": 5}]"), "\"expected\" holds object"},
	{EXPECT("[5]"), "\"expected\" holds number"},
	{EXPECT("{}"), "\"expected\" holds object"},
	{"{\"check\": \"tool-call\", \"expected\": [], \"tools\": []}",
		"\"tools\" is empty, expected an array of tools"},
	{"{\"check\": \"json-schema\", \"expected\": {\"type\": \"dict\"}}", "names no type: \"dict\""},
};

START_TEST(exams_are_refused)
{
	struct json_document *record = parse(bad_exams[_i].record);
	const struct json *expected;
	ck_assert_int_eq(exam_check_read(json_root(record), &expected, &test_error), ERR_INPUT);
	ck_assert_msg(strstr(test_error.message, bad_exams[_i].message) != NULL, "%s", test_error.message);
	json_free(record);
}
END_TEST

/* ---- Lines ---- */

/* One line of JSON, fourteen ways, by K2VV's rule (T39; validity by Python's json and jsonschema). */
static const struct {
	const char *call;
	bool valid;
} lines[] = {
	{"{\"name\": \"set\", \"arguments\": {\"n\": 1, \"n\": 2}}", true},
	{"{\"name\": \"set\", \"arguments\": {\"n\": 1}}}", false},
	{"{\"name\": \"set\"}", false},
	{"{\"name\": \"set\", \"parameters\": {\"n\": 1}}", false},
	{"{\"name\": \"set\", \"arguments\": {\"n\": 9007199254740993}}", true},
	{"{\"name\": \"set\", \"arguments\": {\"n\": 3, \"s\": \"a\\u0000b\"}}", true},
	{"{\"name\": \"set\", \"arguments\": {\"n\": NaN}}", false},
	{"{\"name\": \"set\", \"arguments\": {\"n\": 3, \"s\": \"a\nb\"}}", false},
	{"{\"name\": \"set\", \"arguments\": \"{\\\"n\\\": 3}\"}", true},
	{"{\"name\": \"set\", \"arguments\": {\"n\": 3, \"s\": \"\\ud83d\"}}", true},
	{"{\"name\": \"set\", \"arguments\": {\"n\": 1e2}}", true},
	{"{\"Name\": \"set\", \"Arguments\": {\"n\": 1}}", false},
	{"{\"name\": \"set\", \"arguments\": {\"n\": 1}}\n{\"name\": \"set\", \"arguments\": {\"n\": 2}}", false},
	{"{\"name\": \"set\", \"arguments\": {\"n\": 3, \"s\": \"\\d+\"}}", false},
	{"{\"name\": \"set\", \"arguments\": {\"n\": 1, \"z\": 2}}", false},
	{"{\"name\": \"Set\", \"arguments\": {\"n\": 1}}", false},
};

START_TEST(lines_are_judged)
{
	struct buf text = {0}, line = {0}, out = {0};
	buf_printf(&text, "<tool_call>%s</tool_call>", lines[_i].call);
	buf_append_text(&line,
		"{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"set\", \"parameters\": {\"type\": "
		"\"object\", \"properties\": {\"n\": {\"type\": \"integer\"}, \"s\": {\"type\": \"string\"}}, "
		"\"required\": [\"n\"], \"additionalProperties\": false}}}], \"format\": \"hermes\", \"text\": ");
	json_write_string(buf_str(&text), false, &line);
	buf_append_char(&line, '}');
	CHECK_OK(tool_calls_rescore(
		test_write_file("l.jsonl", line.data, line.length), TOOL_FORMAT_NONE, &out, &test_error));
	ck_assert_msg(
		strstr(buf_text(&out), lines[_i].valid ? "\"valid\": true}" : "\"valid\": false, \"why\": \"") != NULL,
		"%s: %s", lines[_i].call, buf_text(&out));
	struct json_document *document = parse(buf_text(&out)); /* what is said is JSON, whatever was read */
	json_free(document);
	buf_free(&text);
	buf_free(&line);
	buf_free(&out);
}
END_TEST

START_TEST(lines_tell_formats)
{
	static const char text[] = "{\"text\": \"No.\"}\n", named[] = "{\"text\": \"No.\", \"format\": \"frob\"}\n";
	struct buf out = {0};
	CHECK_OK(
		tool_calls_rescore(test_write_file("l.jsonl", text, strlen(text)), TOOL_FORMAT_GLM, &out, &test_error));
	ck_assert_str_eq(
		buf_text(&out), "{\"calls\": [], \"content\": \"No.\", \"leniencies\": \"\", \"valid\": null}\n");
	int status =
		tool_calls_rescore(test_write_file("l.jsonl", text, strlen(text)), TOOL_FORMAT_NONE, &out, &test_error);
	ck_assert_int_eq(status, ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "l.jsonl:1: \"format\" is missing"));
	status = tool_calls_rescore(
		test_write_file("l.jsonl", named, strlen(named)), TOOL_FORMAT_GLM, &out, &test_error);
	ck_assert_int_eq(status, ERR_USAGE);
	buf_free(&out);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *tools = test_case(suite, "tools", 0);
	tcase_add_loop_test(tools, functions_become_tools, 0, COUNT(conversions));
	TCase *items = test_case(suite, "suite", 0);
	tcase_add_checked_fixture(items, data_setup, data_teardown);
	tcase_add_test(items, items_are_made);
	tcase_add_loop_test(items, answers_are_judged, 0, COUNT(answers));
	tcase_add_test(items, the_calls_are_kept);
	tcase_add_test(items, an_unknown_keyword_is_an_error);
	tcase_add_test(items, what_is_missing_is_named);
	tcase_add_test(items, means_are_bfcls);
	tcase_add_test(items, agreement_is_an_f1);
	TCase *exams = test_case(suite, "exams", 0);
	tcase_add_loop_test(exams, exam_checks_judge, 0, COUNT(exam_cases));
	tcase_add_loop_test(exams, exams_keep_calls, 0, COUNT(kept_cases));
	tcase_add_loop_test(exams, exams_are_refused, 0, COUNT(bad_exams));
	TCase *texts = test_case(suite, "lines", 0);
	tcase_add_loop_test(texts, lines_are_judged, 0, COUNT(lines));
	tcase_add_test(texts, lines_tell_formats);
}
