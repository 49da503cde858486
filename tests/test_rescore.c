/* Rescoring of sample lines against the results that lm-evaluation-harness computed from the same responses. */
#include <math.h>

#include "datasets/records.h"
#include "evals/suite.h"
#include "tests/command.h"
#include "tests/support.h"

const char *const test_program_name = "rescore";

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const gsm8k[] = {"gsm8k"}, *const arc[] = {"arc"}, *const both_arc[] = {"arc_challenge", "ARC_Easy"},
			 *const arc_easy[] = {"arc_easy"}, *const everything[] = {"gsm8k", "arc", "arc_easy", "mmlu"},
			 *const mmlu[] = {"mmlu"};

static struct rescore_report report;

/* The results as JSON; the caller frees *document. */
static const struct json *rescored(
	const char *const *names, int n_names, const char *data, const char *path, struct json_document **document)
{
	struct buf out = {0};
	CHECK_OK(suite_rescore(names, n_names, data, path, &out, &report, &test_error));
	CHECK_OK(json_parse(buf_str(&out), "results", JSON_REFUSE_DOUBLED_KEYS, document, &test_error));
	buf_free(&out);
	const struct json *root = json_root(*document);
	ck_assert_double_eq(json_double(json_get(root, "schema_version")), 1);
	ck_assert_ptr_eq(root->child, json_get(root, "schema_version"));
	ck_assert(json_is(json_get(root, "groups"), JSON_OBJECT));
	return json_get(root, "results");
}

static void check_value(const struct json *want, const struct json *got)
{
	ck_assert_msg(got != NULL, "'%.*s' is missing", STR_ARG(want->key));
	ck_assert_msg(got->type == want->type, "'%.*s' is %s", STR_ARG(want->key), json_type_name(got));
	if (want->type == JSON_NUMBER)
		ck_assert_msg(fabs(json_double(want) - json_double(got)) <= 1e-12, "'%.*s': %.17g, expected %.17g",
			STR_ARG(want->key), json_double(got), json_double(want));
	else
		ck_assert_msg(str_equal(want->text, got->text), "'%.*s': '%.*s', expected '%.*s'", STR_ARG(want->key),
			STR_ARG(got->text), STR_ARG(want->text));
}

/* The task's results have the members of the expected ones, in their order. */
static void check_task(const struct json *want, const struct json *results)
{
	const struct json *got = json_get_str(results, want->key);
	ck_assert_msg(got && got->count == want->count, "task '%.*s'", STR_ARG(want->key));
	const struct json *in_order = got->child;
	JSON_EACH (value, want) {
		ck_assert_msg(str_equal(in_order->key, value->key), "'%.*s' comes where '%.*s' should",
			STR_ARG(in_order->key), STR_ARG(value->key));
		check_value(value, in_order);
		in_order = in_order->next;
	}
}

static struct json_document *load_json(const char *path)
{
	struct buf text = test_read_file(path);
	struct json_document *document;
	CHECK_OK(json_parse(buf_str(&text), path, 0, &document, &test_error));
	buf_free(&text);
	return document;
}

static void check_file(
	const char *const *names, int n_names, const char *data, const char *path, const char *expected, size_t n_tasks)
{
	struct json_document *want = load_json(expected), *got;
	const struct json *results = rescored(names, n_names, data, path, &got);
	ck_assert_uint_eq(results->count, n_tasks);
	JSON_EACH (task, results)
		check_task(json_get_str(json_get(json_root(want), "results"), task->key), results);
	json_free(want);
	json_free(got);
}

static const char *golden_data(void)
{
	return golden_path("suites/data");
}

START_TEST(goldens_agree)
{
	const char *expected = golden_path("suites/results.json");
	check_file(gsm8k, 1, golden_data(), golden_path("suites/gsm8k.samples.jsonl"), expected, 1);
	ck_assert_uint_eq(report.scored, 10);
	ck_assert_uint_eq(report.differing, 0);
	check_file(arc, 1, NULL, golden_path("suites/arc.samples.jsonl"), expected, 2);
	ck_assert_uint_eq(report.scored, 7);
	ck_assert_uint_eq(report.differing, 0);
	check_file(both_arc, 2, NULL, golden_path("suites/arc.samples.jsonl"), expected, 2);
	check_file(arc_easy, 1, NULL, golden_path("suites/arc.samples.jsonl"), expected, 1);
	ck_assert_uint_eq(report.skipped, 1);
}
END_TEST

static const struct {
	const char *samples, *results;
	size_t lines, n_tasks;
} shared_cases[] = {
	{"golden/rescore/gsm8k_5shot.samples.jsonl.gz", "golden/rescore/gsm8k_5shot.results.json", 2638, 1},
	{"golden/rescore/arc_0shot.samples.jsonl.gz", "golden/rescore/arc_0shot.results.json", 3548, 2},
	{"golden/rescore/mmlu_5shot.samples.jsonl.gz", "golden/rescore/mmlu_5shot.results.json", 14042, 57 + 4 + 1},
	{"golden/lm_eval_output/samples_gsm8k_2026-11-29T14-19-07.651703.jsonl",
		"golden/lm_eval_output/results_2026-11-29T14-19-07.651703.json", 8, 1},
	{"golden/lm_eval_output/samples_arc_easy_2026-11-29T14-19-34.396428.jsonl",
		"golden/lm_eval_output/results_2026-11-29T14-19-34.396428.json", 4, 1},
	{"golden/lm_eval_output/samples_arc_challenge_2026-11-29T14-19-34.396428.jsonl",
		"golden/lm_eval_output/results_2026-11-29T14-19-34.396428.json", 4, 1},
};

START_TEST(shared_goldens_agree)
{
	const char *samples = shared_path(shared_cases[_i].samples), *results = shared_path(shared_cases[_i].results),
		   *data = shared_path("data");
	if (!samples || !results || !data)
		SKIP("no %s", shared_cases[_i].samples);
	check_file(everything, 4, data, samples, results, shared_cases[_i].n_tasks);
	ck_assert_uint_eq(report.scored, shared_cases[_i].lines);
	ck_assert_uint_eq(report.differing, 0);
	ck_assert_uint_eq(report.skipped, 0);
}
END_TEST

/* The groups of tasks; one has a member of one document, and so no standard error. */
START_TEST(groups_agree)
{
	const char *data = golden_path("harness/data"), *samples = golden_path("harness/mmlu.samples.jsonl");
	check_file(mmlu, 1, data, samples, golden_path("harness/mmlu.results.json"), 4 + 3 + 1);
	ck_assert_uint_eq(report.scored, 10);
	ck_assert_uint_eq(report.differing, 0);

	struct json_document *want = load_json(golden_path("harness/mmlu.results.json")), *got;
	const struct json *results = rescored(mmlu, 1, data, samples, &got);
	const struct json *groups = json_get(json_root(got), "groups");
	ck_assert_uint_eq(groups->count, 4);
	ck_assert(str_is(groups->child->key, "mmlu_stem"));
	JSON_EACH (group, groups)
		check_task(json_get_str(json_get(json_root(want), "groups"), group->key), groups);
	ck_assert(str_is(json_get(json_get(results, "mmlu"), "acc_stderr,none")->text, "N/A"));
	json_free(want);
	json_free(got);

	static const char *const stem[] = {"MMLU_STEM"}, *const subject[] = {"mmlu_anatomy"};
	results = rescored(stem, 1, data, samples, &got);
	ck_assert_uint_eq(results->count, 3); /* two subjects and their group */
	ck_assert_uint_eq(json_get(json_root(got), "groups")->count, 1);
	ck_assert_uint_eq(report.skipped, 5);
	json_free(got);
	results = rescored(subject, 1, data, samples, &got);
	ck_assert_uint_eq(results->count, 1);
	ck_assert_uint_eq(json_get(json_root(got), "groups")->count, 0);
	json_free(got);
}
END_TEST

/* Without data the tasks are those that the lines name. */
START_TEST(tasks_without_data)
{
	static const char lines[] =
		"{\"task\": \"mmlu_a\", \"doc_id\": 0, \"doc\": {\"question\": \"q\", \"choices\": [\"a\", \"b\", "
		"\"c\", "
		"\"d\"], \"answer\": 1}, \"resps\": [[[-2, false]], [[-1, true]], [[-3, false]], [[-4, false]]]}\n"
		"{\"task\": \"mmlu_pro_b\", \"doc_id\": 0, \"doc\": {\"answer\": \"C\"}, \"resps\": [[\"the answer is "
		"(C).\"]], "
		"\"filter\": \"custom-extract\"}\n";
	static const char *const both[] = {"mmlu", "mmlu_pro"}, *const one[] = {"mmlu_pro_b"};
	const char *path = test_write_file("s.jsonl", lines, sizeof(lines) - 1);
	struct json_document *document;
	const struct json *results = rescored(both, 2, NULL, path, &document);
	ck_assert_uint_eq(report.scored, 2);
	ck_assert_double_eq(json_double(json_get(json_get(results, "mmlu_a"), "acc,none")), 1);
	ck_assert_double_eq(json_double(json_get(json_get(results, "mmlu_pro_b"), "exact_match,custom-extract")), 1);
	json_free(document);
	results = rescored(one, 1, NULL, path, &document);
	ck_assert_uint_eq(results->count, 1);
	ck_assert_uint_eq(report.skipped, 1);
	json_free(document);
}
END_TEST

/* ---- Order, differences ---- */

/* Lines of a file in reverse. */
static const char *reversed(const char *path)
{
	struct buf text = test_read_file(path), out = {0};
	size_t end = text.length;
	while (end > 0) {
		size_t start = end - 1;
		while (start > 0 && text.data[start - 1] != '\n')
			start--;
		buf_append(&out, text.data + start, end - start);
		end = start;
	}
	const char *written = test_write_file("reversed.jsonl", out.data, out.length);
	buf_free(&text);
	buf_free(&out);
	return written;
}

START_TEST(the_order_of_the_lines_does_not_matter)
{
	struct buf forward = {0}, backward = {0};
	const char *path = golden_path("suites/gsm8k.samples.jsonl");
	CHECK_OK(suite_rescore(gsm8k, 1, golden_data(), path, &forward, &report, &test_error));
	CHECK_OK(suite_rescore(gsm8k, 1, golden_data(), reversed(path), &backward, &report, &test_error));
	ck_assert_str_eq(buf_text(&forward), buf_text(&backward));
	buf_free(&forward);
	buf_free(&backward);
}
END_TEST

#define GSM8K_DOC "\"doc\": {\"question\": \"q\", \"answer\": \"#### 4\"}"

static const struct {
	const char *name, *members; /* besides task, doc_id, doc, resps [["#### 4"]] and the filter strict-match */
	size_t differing;
} difference_cases[] = {
	{"nothing recorded", "", 0},
	{"both agree", ", \"filtered_resps\": [\"4\"], \"exact_match\": 1.0", 0},
	{"the metric differs", ", \"filtered_resps\": [\"4\"], \"exact_match\": 0.0", 1},
	{"the filtered text differs", ", \"filtered_resps\": [\"4.\"], \"exact_match\": 1.0", 1},
	{"both differ in one line", ", \"filtered_resps\": [\"5\"], \"exact_match\": 0.0", 1},
	{"of another type", ", \"exact_match\": true", 1},
	{"filtered of another shape", ", \"filtered_resps\": {}", 1},
};

START_TEST(differences_from_what_is_recorded_are_counted)
{
	struct buf text = {0};
	buf_printf(&text,
		"{\"task\": \"gsm8k\", \"doc_id\": 0, " GSM8K_DOC
		", \"resps\": [[\"#### 4\"]], \"filter\": \"strict-match\"%s}\n",
		difference_cases[_i].members);
	struct json_document *document;
	const struct json *results =
		rescored(gsm8k, 1, NULL, test_write_file("s.jsonl", text.data, text.length), &document);
	ck_assert_msg(report.differing == difference_cases[_i].differing, "%s", difference_cases[_i].name);
	ck_assert_uint_eq(report.scored, 1);
	const struct json *task = json_get(results, "gsm8k");
	ck_assert_double_eq(json_double(json_get(task, "exact_match,strict-match")), 1.0);
	ck_assert(str_is(json_get(task, "exact_match_stderr,strict-match")->text, "N/A"));
	ck_assert_ptr_null(json_get(task, "exact_match,flexible-extract"));
	json_free(document);
	buf_free(&text);
}
END_TEST

#define ARC_DOC                                                                                               \
	"\"doc\": {\"question\": \"q\", \"choices\": {\"text\": [\"a\", \"b\"], \"label\": [\"A\", \"B\"]}, " \
	"\"answerKey\": \"B\"}"

/* resps of a question of two choices whose right one is the second. */
static const struct {
	const char *resps;
	double acc;
} logprob_cases[] = {
	{"[[[-2, false]], [[-1, true]]]", 1},
	{"[[[\"-2\", \"False\"]], [[\"-1e-07\", \"True\"]]]", 1},
	{"[[[-1.5, false]], [[-1.5, true]]]", 0},
	{"[[[\"-inf\", \"False\"]], [[\"-inf\", \"False\"]]]", 0},
	{"[[[\"-inf\", \"False\"]], [[\"-9e99\", \"False\"]]]", 1},
	{"[[[\"-1\", \"False\"]], [[\"nan\", \"False\"]]]", 1},
	{"[[[-1, true], [-9, true]], [[-2, true], [0, true]]]", 0},
};

START_TEST(logprobs_are_numbers_or_their_text)
{
	struct buf text = {0};
	buf_printf(&text, "{\"doc_id\": 7, " ARC_DOC ", \"resps\": %s}\n", logprob_cases[_i].resps);
	struct json_document *document;
	const struct json *results =
		rescored(arc_easy, 1, NULL, test_write_file("s.jsonl", text.data, text.length), &document);
	ck_assert_double_eq(json_double(json_get(json_get(results, "arc_easy"), "acc,none")), logprob_cases[_i].acc);
	json_free(document);
	buf_free(&text);
}
END_TEST

/* The harness's lines name no task: the file's name does. */
START_TEST(the_file_names_the_task)
{
	static const char line[] = "{\"doc_id\": 0, " ARC_DOC ", \"resps\": [[[-2, false]], [[-1, true]]]}\n";
	struct json_document *document;
	const struct json *results = rescored(arc, 1, NULL,
		test_write_file("samples_arc_challenge_2026-01-01T00-00-00.jsonl", line, sizeof(line) - 1), &document);
	ck_assert_uint_eq(results->count, 1);
	ck_assert_ptr_nonnull(json_get(results, "arc_challenge"));
	json_free(document);
	struct buf out = {0};
	ck_assert_int_eq(suite_rescore(arc, 1, NULL, test_write_file("some.jsonl", line, sizeof(line) - 1), &out,
				 &report, &test_error),
		ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "names no \"task\""));
}
END_TEST

/* ---- What is refused ---- */

#define GSM8K_LINE(members) "{\"task\": \"gsm8k\", " members "}\n"
#define WHOLE_LINE GSM8K_LINE("\"doc_id\": 0, " GSM8K_DOC ", \"resps\": [[\"\"]], \"filter\": \"strict-match\"")

static const struct {
	const char *lines;
	int code;
	const char *message;
} bad_cases[] = {
	{"", ERR_EMPTY, "no line of the suites asked for"},
	{"\n \n", ERR_EMPTY, "no line of the suites asked for"},
	{"{\"task\": \"arc_easy\", \"doc_id\": 0}\n", ERR_EMPTY, "(1 lines of others)"},
	{"[]\n", ERR_INPUT, "s.jsonl:1: expected a JSON object"},
	{WHOLE_LINE "{\"task\"\n", ERR_INPUT, "s.jsonl:2: "},
	{WHOLE_LINE "\n" WHOLE_LINE, ERR_INPUT,
		"s.jsonl:3: doc_id 0 of gsm8k (exact_match,strict-match) is already in line 1"},
	{"{\"task\": 3}\n", ERR_INPUT, "column \"task\" is number"},
	{GSM8K_LINE("\"doc_id\": \"0\""), ERR_INPUT, "\"doc_id\" is string"},
	{GSM8K_LINE("\"doc_id\": -1"), ERR_INPUT, "\"doc_id\" is number"},
	{GSM8K_LINE("\"doc_id\": 1.0"), ERR_INPUT, "\"doc_id\" is number"},
	{GSM8K_LINE("\"doc_id\": 5"), ERR_INPUT, "doc_id 5, but "},
	{GSM8K_LINE("\"doc_id\": 9223372036854775807"), ERR_INPUT, "doc_id 9223372036854775807, but "},
	{GSM8K_LINE("\"doc_id\": 0, \"doc_hash\": \"00\""), ERR_INPUT, "doc_hash 00 is not that of "},
	{GSM8K_LINE("\"doc_id\": 0, \"doc\": 3"), ERR_INPUT, "column \"doc\" is number"},
	{GSM8K_LINE("\"doc_id\": 0, \"doc\": {\"question\": \"q\"}"), ERR_INPUT, "column \"answer\" is missing"},
	{GSM8K_LINE("\"doc_id\": 0"), ERR_INPUT, "column \"resps\" is missing"},
	{GSM8K_LINE("\"doc_id\": 0, \"resps\": []"), ERR_INPUT, "\"resps\" is not [[text]]"},
	{GSM8K_LINE("\"doc_id\": 0, \"resps\": [[1]]"), ERR_INPUT, "\"resps\" is not [[text]]"},
	{GSM8K_LINE("\"doc_id\": 0, \"resps\": [[\"\"]], \"filter\": \"none\""), ERR_INPUT,
		"filter \"none\" is none of gsm8k's (strict"},
	{GSM8K_LINE("\"doc_id\": 0, \"resps\": [[\"\"]]"), ERR_INPUT, "filter \"none\" is none of gsm8k's (strict"},
	{GSM8K_LINE("\"doc_id\": 0, \"resps\": [[\"\"]], \"filter\": 1"), ERR_INPUT, "column \"filter\" is number"},
};

START_TEST(bad_lines_are_named)
{
	struct buf out = {0};
	const char *path = test_write_file("s.jsonl", bad_cases[_i].lines, strlen(bad_cases[_i].lines));
	ck_assert_int_eq(suite_rescore(gsm8k, 1, golden_data(), path, &out, &report, &test_error), bad_cases[_i].code);
	ck_assert_msg(strstr(test_error.message, "s.jsonl") && strstr(test_error.message, bad_cases[_i].message), "%s",
		test_error.message);
	buf_free(&out);
}
END_TEST

static const struct {
	const char *members;
	const char *message;
} bad_arc_cases[] = {
	{ARC_DOC ", \"resps\": [[[-1, true]]]", "holds 1 responses, expected one for each of 2 choices"},
	{ARC_DOC ", \"resps\": [[[-1, true]], [[true, -1]]]", "response 1 is not"},
	{ARC_DOC ", \"resps\": [[[\"x\", true]], [[1, -1]]]", "response 0 is not"},
	{ARC_DOC ", \"resps\": [[[\"[1]\", true]], [[1, -1]]]", "response 0 is not"},
	{ARC_DOC ", \"resps\": [[[\"\", true]], [[1, -1]]]", "response 0 is not"},
	{ARC_DOC ", \"resps\": [3, 4]", "response 0 is not"},
	{"\"doc\": {\"choices\": {\"text\": [\"a\"], \"label\": [\"A\"]}, \"answerKey\": \"B\"}",
		"\"answerKey\" is \"B\""},
	{"\"doc\": {\"choices\": {\"text\": [\"a\"], \"label\": [\"A\", \"B\"]}, \"answerKey\": \"A\"}",
		"1 texts and 2 labels"},
	{"\"doc\": {\"choices\": {\"text\": [], \"label\": []}, \"answerKey\": \"A\"}", "0 texts and 0 labels"},
	{"\"doc\": {\"choices\": {\"text\": [\"a\", 3], \"label\": [\"A\", \"B\"]}, \"answerKey\": \"A\"}",
		"text 1 is number"},
	{"\"doc\": {\"choices\": {\"text\": [\"a\", \"b\"]}, \"answerKey\": \"A\"}",
		"column \"choices\": column \"label\" is missing"},
	{"\"doc\": {\"choices\": [], \"answerKey\": \"A\"}", "column \"choices\" is array, expected object"},
};

START_TEST(bad_choices_are_named)
{
	struct buf text = {0}, out = {0};
	buf_printf(&text, "{\"doc_id\": 0, %s}\n", bad_arc_cases[_i].members);
	const char *path = test_write_file("s.jsonl", text.data, text.length);
	ck_assert_int_eq(suite_rescore(arc_easy, 1, NULL, path, &out, &report, &test_error), ERR_INPUT);
	ck_assert_msg(
		strstr(test_error.message, "s.jsonl:1: ") && strstr(test_error.message, bad_arc_cases[_i].message),
		"%s", test_error.message);
	buf_free(&text);
	buf_free(&out);
}
END_TEST

START_TEST(what_is_missing_is_named)
{
	struct buf out = {0};
	const char *samples = golden_path("suites/gsm8k.samples.jsonl");
	static const char *const unknown[] = {"mmluu"};
	ck_assert_int_eq(suite_rescore(unknown, 1, NULL, "/nowhere.jsonl", &out, &report, &test_error), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(test_error.message, "unknown suite \"mmluu\" (known: gsm8k, gsm8k_cot, "));
	ck_assert_ptr_nonnull(strstr(test_error.message, ", FILE.jsonl, arc, filters)"));
	ck_assert_int_eq(suite_rescore(gsm8k, 1, NULL, "/nowhere.jsonl", &out, &report, &test_error), ERR_MISSING);
	ck_assert_int_eq(suite_rescore(gsm8k, 1, NULL, samples, &out, &report, &test_error), ERR_INPUT);
	ck_assert_ptr_nonnull(
		strstr(test_error.message, "samples.jsonl:1: the line holds no \"doc\": expected --data"));
	ck_assert_int_eq(suite_rescore(gsm8k, 1, "/nowhere", samples, &out, &report, &test_error), ERR_MISSING);
	ck_assert_ptr_nonnull(strstr(test_error.message, "/nowhere/gsm8k/test.jsonl"));
	ck_assert_uint_eq(out.length, 0);
	buf_free(&out);
}
END_TEST

/* ---- assay rescore ---- */

START_TEST(rescore_prints_results)
{
	struct options o = {.suites = {"gsm8k"},
		.n_suites = 1,
		.data = golden_data(),
		.arguments = {golden_path("suites/gsm8k.samples.jsonl")},
		.n_arguments = 1,
		.quiet = true};
	struct buf got = command_output(cmd_rescore, &o, 0);
	struct json_document *document;
	CHECK_OK(json_parse(buf_str(&got), "output", 0, &document, &test_error));
	ck_assert_ptr_nonnull(json_get(json_get(json_root(document), "results"), "gsm8k"));
	json_free(document);
	buf_free(&got);
	static const char line[] = "{\"filter\": \"gsm8k:strict-match\", \"input\": \"#### 5 \\u00e9\"}\n";
	o.suites[0] = "filters";
	o.arguments[0] = test_write_file("line.jsonl", line, sizeof(line) - 1);
	got = command_output(cmd_rescore, &o, 0);
	ck_assert_str_eq(buf_text(&got), "{\"output\": \"5\"}\n");
	buf_free(&got);
}
END_TEST

static const struct {
	struct options options;
	int exit_code;
	const char *message;
} command_cases[] = {
	{{.arguments = {"f"}, .n_arguments = 1}, 2, "expected --suite"},
	{{.suites = {"gsm8k"}, .n_suites = 1}, 2, "expected one file of sample lines"},
	{{.suites = {"gsm8k"}, .n_suites = 1, .arguments = {"f", "g"}, .n_arguments = 2}, 2, "found 2"},
	{{.suites = {"mmul"}, .n_suites = 1, .arguments = {"f"}, .n_arguments = 1}, 2, "unknown suite \"mmul\""},
	{{.suites = {"recall:9"}, .n_suites = 1, .arguments = {"f"}, .n_arguments = 1}, 2,
		"\"recall:9\" is no suite of lm-evaluation-harness"},
	{{.suites = {"mmlu"}, .n_suites = 1, .data = "/nowhere", .arguments = {"f"}, .n_arguments = 1}, 2,
		"/nowhere/mmlu/test: "},
	{{.suites = {"gsm8k", "filters"}, .n_suites = 2, .arguments = {"f"}, .n_arguments = 1}, 2,
		"unknown suite \"filters\""},
	{{.suites = {"gsm8k"}, .n_suites = 1, .arguments = {"/nowhere.jsonl"}, .n_arguments = 1}, 2, "/nowhere.jsonl"},
	{{.suites = {"filters"}, .n_suites = 1, .arguments = {"/nowhere.jsonl"}, .n_arguments = 1}, 2,
		"/nowhere.jsonl"},
	{{.suites = {"gsm8k"}, .n_suites = 1, .arguments = {"/dev/null"}, .n_arguments = 1}, 5,
		"no line of the suites"},
};

START_TEST(rescore_refuses_with_an_empty_output)
{
	struct buf got = command_output(cmd_rescore, &command_cases[_i].options, command_cases[_i].exit_code);
	ck_assert_msg(strstr(test_error.message, command_cases[_i].message) != NULL, "%s", test_error.message);
	ck_assert_uint_eq(got.length, 0);
	buf_free(&got);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *goldens = test_case(suite, "goldens", 120);
	tcase_add_test(goldens, goldens_agree);
	tcase_add_loop_test(goldens, shared_goldens_agree, 0, COUNT(shared_cases));
	tcase_add_test(goldens, groups_agree);
	tcase_add_test(goldens, tasks_without_data);
	TCase *lines = test_case(suite, "lines", 0);
	tcase_add_test(lines, the_order_of_the_lines_does_not_matter);
	tcase_add_loop_test(lines, differences_from_what_is_recorded_are_counted, 0, COUNT(difference_cases));
	tcase_add_loop_test(lines, logprobs_are_numbers_or_their_text, 0, COUNT(logprob_cases));
	tcase_add_test(lines, the_file_names_the_task);
	TCase *refuse = test_case(suite, "refuse", 0);
	tcase_add_loop_test(refuse, bad_lines_are_named, 0, COUNT(bad_cases));
	tcase_add_loop_test(refuse, bad_choices_are_named, 0, COUNT(bad_arc_cases));
	tcase_add_test(refuse, what_is_missing_is_named);
	TCase *command = test_case(suite, "command", 0);
	tcase_add_test(command, rescore_prints_results);
	tcase_add_loop_test(command, rescore_refuses_with_an_empty_output, 0, COUNT(command_cases));
}
