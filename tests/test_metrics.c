/* acc, acc_norm, means, Python's lower, post-processing of answers, limits: against Python, numpy and
 * lm-evaluation-harness. */
#include <math.h>

#include "datasets/records.h"
#include "engine/base/utf8.h"
#include "evals/metrics.h"
#include "evals/postprocess.h"
#include "engine/base/python_text.h"
#include "evals/suite.h"
#include "tests/support.h"

const char *const test_program_name = "metrics";

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- acc, acc_norm ---- */

static const struct {
	const char *name;
	double values[4];
	int n, best; /* numpy.argmax */
} argmax_cases[] = {
	{"one", {-3}, 1, 0},
	{"a tie goes to the lowest index", {-5, -2, -2, -2}, 4, 1},
	{"all equal", {-1, -1, -1}, 3, 0},
	{"minus infinity", {-INFINITY, -INFINITY, -9}, 3, 2},
	{"only minus infinity", {-INFINITY, -INFINITY}, 2, 0},
	{"the first NaN wins", {-1, NAN, 0, NAN}, 4, 1},
	{"the last", {-4, -3, -2, -1}, 4, 3},
	{"zeros of both signs are a tie", {-0.0, 0.0}, 2, 0},
};

START_TEST(argmax_is_that_of_numpy)
{
	ck_assert_msg(argmax(argmax_cases[_i].values, argmax_cases[_i].n) == argmax_cases[_i].best, "%s",
		argmax_cases[_i].name);
}
END_TEST

START_TEST(acc_norm_divides_by_code_points)
{
	/* Five Greek letters are ten bytes: -9 / 5 = -1.8 loses to -3.4 / 2 = -1.7; by bytes it would win. */
	const struct str greek[] = {str_of("\xce\xb1\xce\xb2\xce\xb3\xce\xb4\xce\xb5"), str_of("ab")};
	ck_assert_int_eq(argmax_norm((const double[]){-9, -3.4}, greek, 2), 1);
	ck_assert_int_eq(argmax_norm((const double[]){-8, -3.4}, greek, 2), 0);
	/* A tie after the division, and one of different lengths. */
	const struct str texts[] = {str_of("abcd"), str_of("ab"), str_of("abc")};
	ck_assert_int_eq(argmax_norm((const double[]){-4, -2, -3}, texts, 3), 0);
	/* numpy: -1 / 0 is minus infinity, 0 / 0 NaN, which argmax takes. */
	const struct str empty[] = {str_of("ab"), str_of("")};
	ck_assert_int_eq(argmax_norm((const double[]){-50, -1}, empty, 2), 0);
	ck_assert_int_eq(argmax_norm((const double[]){-50, 0}, empty, 2), 1);
}
END_TEST

/* ---- Mean and standard error: numpy 2.4.6, x.mean() and x.std(ddof=1) / sqrt(n) ---- */

static const struct {
	double values[8];
	int n;
	double mean, error;
} mean_cases[] = {
	{{0}, 0, NAN, NAN},
	{{1}, 1, 1.0, NAN},
	{{1, 0}, 2, 0.5, 0.5},
	{{1, 1, 1}, 3, 1.0, 0.0},
	{{1, 0, 0, 1, 0, 0, 0}, 7, 0.2857142857142857, 0.18442777839082938},
	{{0.25, 0.5, 1, 0, 0.125}, 5, 0.375, 0.17677669529663687},
};

START_TEST(means_have_standard_errors)
{
	struct metric_summary m;
	metric_mean("acc,none", mean_cases[_i].values, mean_cases[_i].n, &m);
	ck_assert_str_eq(m.name, "acc,none");
	ck_assert_int_eq(m.n, mean_cases[_i].n);
	ck_assert_int_eq(isnan(m.value), isnan(mean_cases[_i].mean));
	ck_assert_int_eq(isnan(m.stderr_value), isnan(mean_cases[_i].error));
	if (!isnan(m.value))
		ck_assert_double_eq_tol(m.value, mean_cases[_i].mean, 1e-15);
	if (!isnan(m.stderr_value))
		ck_assert_double_eq_tol(m.stderr_value, mean_cases[_i].error, 1e-15);
}
END_TEST

/* ---- exact_match: its table is tested in test_filters ---- */

START_TEST(recall_ignores_nothing)
{
	struct exact_match *m;
	double value;
	CHECK_OK(exact_match_new(str_of("recall"), &m, &test_error));
	CHECK_OK(exact_match_score(m, str_of("Ida glass lion"), str_of("Ida glass lion"), &value, &test_error));
	ck_assert_double_eq(value, 1.0);
	CHECK_OK(exact_match_score(m, str_of("ida glass lion."), str_of("Ida glass lion"), &value, &test_error));
	ck_assert_double_eq(value, 0.0);
	CHECK_OK(exact_match_score(m, (struct str){0}, (struct str){0}, &value, &test_error));
	ck_assert_double_eq(value, 1.0);
	exact_match_delete(m);
}
END_TEST

/* ---- Lower case ---- */

START_TEST(lower_is_that_of_python)
{
	struct records cases;
	CHECK_OK(records_load(&cases, golden_path("suites/lower.jsonl"), &test_error));
	ck_assert_uint_ge(cases.count, 90);
	for (size_t i = 0; i < cases.count; i++) {
		struct buf out = {0};
		struct str want = json_get(cases.items[i].doc, "output")->text;
		python_lower(json_get(cases.items[i].doc, "input")->text, &out);
		ck_assert_msg(str_equal(buf_str(&out), want), "line %zu: '%s', expected '%.*s'", i + 1, buf_text(&out),
			STR_ARG(want));
		buf_free(&out);
	}
	records_free(&cases);
}
END_TEST

START_TEST(lower_replaces_what_is_no_text)
{
	struct buf out = {0};
	python_lower(str_of("A\xff\xce\xa3"), &out);
	ck_assert_str_eq(buf_text(&out), "a\xef\xbf\xbd\xcf\x83");
	buf_free(&out);
}
END_TEST

/* ---- Post-processing ---- */

/* One record {"text", "until", "think_end"}. */
static bool postprocess(const struct json *record, struct str *out)
{
	struct str until[8];
	int n = 0;
	JSON_EACH (stop, json_get(record, "until"))
		until[n++] = stop->text;
	const struct json *mark = json_get(record, "think_end");
	return answer_postprocess(json_get(record, "text")->text, until, n,
		json_is(mark, JSON_STRING) ? mark->text : (struct str){0}, out);
}

START_TEST(answers_are_cut_as_by_the_harness)
{
	struct records cases;
	CHECK_OK(records_load(&cases, golden_path("suites/postprocess.jsonl"), &test_error));
	ck_assert_uint_ge(cases.count, 15);
	for (size_t i = 0; i < cases.count; i++) {
		const struct json *record = cases.items[i].doc, *mark = json_get(record, "think_end");
		struct str out, want = json_get(record, "out")->text, text = json_get(record, "text")->text;
		bool ended = postprocess(record, &out);
		ck_assert_msg(
			str_equal(out, want), "line %zu: '%.*s', expected '%.*s'", i + 1, STR_ARG(out), STR_ARG(want));
		bool no_mark = json_is(mark, JSON_STRING) && str_find(text, mark->text, 0) == SIZE_MAX;
		ck_assert_msg(ended == !no_mark, "line %zu", i + 1);
	}
	records_free(&cases);
}
END_TEST

START_TEST(shared_answers_are_cut_as_expected)
{
	const char *path = shared_path("trials/T35/cases.jsonl"), *expected = shared_path("trials/T35/expected.json");
	if (!path || !expected)
		SKIP("no trials/T35");
	struct records cases;
	struct buf text = test_read_file(expected);
	struct json_document *document;
	CHECK_OK(records_load(&cases, path, &test_error));
	CHECK_OK(json_parse(buf_str(&text), expected, 0, &document, &test_error));
	const struct json *outs = json_get(json_root(document), "out");
	ck_assert_uint_eq(outs->count, cases.count);
	for (size_t i = 0; i < cases.count; i++) {
		struct str out;
		ck_assert_int_eq(postprocess(cases.items[i].doc, &out), i != 1);
		ck_assert_msg(str_equal(out, json_at(outs, i)->text), "record %zu: '%.*s'", i, STR_ARG(out));
	}
	json_free(document);
	records_free(&cases);
	buf_free(&text);
}
END_TEST

/* ---- Limits: of 3 and of 7 documents ---- */

static const struct {
	double limit;
	int of_three, of_seven;
} limit_cases[] = {{0.5, 2, 4}, {0.1, 1, 1}, {0.999, 3, 7}, {1, 1, 1}, {2.9, 2, 2}, {100, 3, 7}, {3, 3, 3},
	{7.99, 3, 7}, {1e300, 3, 7}, {INFINITY, 3, 7}, {1e-9, 1, 1}, {0, 3, 7}};

START_TEST(limits_are_fractions_or_counts)
{
	ck_assert_int_eq(limit_apply(limit_cases[_i].limit, 3), limit_cases[_i].of_three);
	ck_assert_int_eq(limit_apply(limit_cases[_i].limit, 7), limit_cases[_i].of_seven);
	ck_assert_int_eq(limit_apply(limit_cases[_i].limit, 0), 0);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *choice = test_case(suite, "choice", 0);
	tcase_add_loop_test(choice, argmax_is_that_of_numpy, 0, COUNT(argmax_cases));
	tcase_add_test(choice, acc_norm_divides_by_code_points);
	tcase_add_loop_test(choice, means_have_standard_errors, 0, COUNT(mean_cases));
	TCase *text = test_case(suite, "text", 0);
	tcase_add_test(text, recall_ignores_nothing);
	tcase_add_test(text, lower_is_that_of_python);
	tcase_add_test(text, lower_replaces_what_is_no_text);
	tcase_add_test(text, answers_are_cut_as_by_the_harness);
	tcase_add_test(text, shared_answers_are_cut_as_expected);
	TCase *limit = test_case(suite, "limit", 0);
	tcase_add_loop_test(limit, limits_are_fractions_or_counts, 0, COUNT(limit_cases));
}
