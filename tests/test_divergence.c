/* KL of rows, and what a variant's stored tokens add up to. */
#include <math.h>

#include "engine/base/json_strict.h"
#include "evals/divergence.h"
#include "tests/store_fixture.h"

const char *const test_program_name = "divergence";

enum { MOST = 64, ROW_CASES = 10 };

static struct json_document *golden(const char *name)
{
	struct buf text = test_read_file(golden_path(name));
	struct json_document *document = NULL;
	CHECK_OK(json_parse(buf_str(&text), name, 0, &document, &test_error));
	buf_free(&text);
	return document;
}

/* ---- Rows ---- */

static int read_row(const struct json *array, float *out)
{
	int n = 0;
	JSON_EACH (x, array)
		out[n++] = json_is(x, JSON_NULL) ? -INFINITY : (float)json_double(x);
	return n;
}

START_TEST(kl_is_that_of_scipy)
{
	struct json_document *document = golden("divergence/rows.json");
	const struct json *cases = json_get(json_root(document), "cases");
	ck_assert_uint_eq(cases->count, ROW_CASES);
	const struct json *c = json_at(cases, (size_t)_i);
	const char *name = json_get(c, "name")->text.data;
	float baseline[MOST], other[MOST];
	struct token_divergence d;
	int n = read_row(json_get(c, "baseline"), baseline);
	ck_assert_int_eq(read_row(json_get(c, "other"), other), n);
	divergence_of_rows(baseline, other, n, (int32_t)json_double(json_get(c, "token")), &d);

	const struct json *kl = json_get(c, "kl");
	double expected = json_is(kl, JSON_NULL) ? INFINITY : json_double(kl);
	ck_assert_msg(isinf(expected) ? isinf(d.kl) && d.kl > 0 : fabs(d.kl - expected) <= 1e-14 + 1e-10 * expected,
		"%s: kl %.17g, expected %.17g", name, d.kl, expected);
	ck_assert_msg(d.kl >= 0, "%s: kl %g", name, d.kl);
	ck_assert_double_eq_tol(d.logprob - d.baseline_logprob, json_double(json_get(c, "delta")), 1e-12);
	ck_assert_msg(d.flip == json_bool(json_get(c, "flip"), false), "%s: flip %d", name, d.flip);
	json_free(document);
}
END_TEST

START_TEST(what_is_no_number_does_not_pass_for_one)
{
	float sound[3] = {-1.0f, -1.1f, -1.2f}, broken[3] = {-1.0f, NAN, -1.2f};
	struct token_divergence d;
	divergence_of_rows(sound, broken, 3, 0, &d);
	ck_assert(isnan(d.kl));
	divergence_of_rows(broken, sound, 3, 0, &d);
	ck_assert(isnan(d.kl));
	divergence_of_rows(sound, sound, 3, 2, &d);
	ck_assert(d.kl == 0 && !d.flip && d.logprob == (double)-1.2f);
}
END_TEST

/* ---- Series ---- */

static void append_member(struct buf *out, const char *name, const struct json *value)
{
	buf_printf(out, "\"%s\": ", name);
	json_dump_python(value, -1, false, out);
}

/* Stores one document of the golden file as the program does. */
static void store_document(
	struct store *s, int64_t variant_id, int64_t doc_id, const struct json *document, bool measured)
{
	struct buf response = {0}, logprobs = {0};
	struct store_sample sample = fixture_sample(variant_id, doc_id);
	if (measured) {
		buf_append_char(&response, '{');
		append_member(&response, "kl", json_get(document, "kl"));
		buf_append_text(&response, ", ");
		append_member(&response, "delta_logprob", json_get(document, "delta_logprob"));
		buf_append_text(&response, ", ");
		append_member(&response, "flips", json_get(document, "flips"));
		buf_append_char(&response, '}');
	}
	json_dump_python(json_get(document, "logprob"), -1, false, &logprobs);
	sample.suite = divergence_suite;
	sample.task = json_get(document, "task")->text.data;
	sample.response = measured ? buf_str(&response) : STR("null");
	sample.token_logprobs = buf_str(&logprobs);
	CHECK_OK(store_sample_insert(s, &sample, &test_error));
	buf_free(&response);
	buf_free(&logprobs);
}

struct check {
	const struct json *expected;
	int64_t variant_id;
	int met;
};

static int check_result(void *context, const struct store_result *result, struct error *e)
{
	struct check *c = context;
	(void)e;
	if (result->variant_id != c->variant_id)
		return 0;
	JSON_EACH (task, c->expected) {
		if (!str_is(json_get(task, "task")->text, result->task))
			continue;
		const struct json *pair = json_get(json_get(task, "results"), result->metric);
		ck_assert_msg(pair, "%s %s is not expected", result->task, result->metric);
		double value = json_double(json_at(pair, 0)), error = json_double(json_at(pair, 1));
		ck_assert_msg(fabs(result->value - value) <= 1e-12 * fabs(value), "%s %s: %.17g, expected %.17g",
			result->task, result->metric, result->value, value);
		ck_assert_msg(isnan(error) ? isnan(result->stderr_value)
					   : fabs(result->stderr_value - error) <= 1e-12 * fabs(error),
			"%s %s: error %.17g, expected %.17g", result->task, result->metric, result->stderr_value, error);
		ck_assert_int_eq(result->n, (int64_t)json_double(json_get(task, "n")));
		c->met++;
	}
	return 0;
}

START_TEST(results_are_those_of_numpy)
{
	struct json_document *document = golden("divergence/series.json");
	const struct json *root = json_root(document);
	struct store *s = fixture_open(fixture_path("series.db"));
	int64_t run_id = fixture_begin(s, "series", false), baseline, candidate, doc_id = 0;
	struct store_variant b = fixture_variant("bf16/bf16"), c = fixture_variant("int4/fp8");
	CHECK_OK(store_variant_add(s, &b, &baseline, &test_error));
	CHECK_OK(store_variant_add(s, &c, &candidate, &test_error));
	JSON_EACH (d, json_get(root, "documents")) {
		store_document(s, baseline, doc_id, d, false);
		store_document(s, candidate, doc_id++, d, true);
	}
	/* an item without an answer adds nothing */
	struct store_sample failed = fixture_sample(candidate, doc_id);
	failed.suite = divergence_suite, failed.task = "b", failed.status = SAMPLE_ERROR, failed.error = "none";
	CHECK_OK(store_sample_insert(s, &failed, &test_error));
	CHECK_OK(divergence_results_put(s, run_id, baseline, &test_error));
	CHECK_OK(divergence_results_put(s, run_id, candidate, &test_error));

	struct check check = {json_get(root, "expected"), candidate, 0};
	CHECK_OK(store_results_each(s, run_id, check_result, &check, &test_error));
	ck_assert_int_eq(check.met, 3 * 12);
	check = (struct check){json_get(root, "expected"), baseline, 0};
	CHECK_OK(store_results_each(s, run_id, check_result, &check, &test_error));
	ck_assert_int_eq(check.met, 3 * 2);
	store_close(s);
	json_free(document);
}
END_TEST

/* What another program may have left in the file. */
static const struct {
	const char *logprobs, *response;
} damaged[] = {
	{"[-1.0, -2.0]", "{\"kl\": [0.1], \"delta_logprob\": [0, 0], \"flips\": []}"},
	{"[-1.0, -2.0]", "{\"kl\": [0.1, 0.2], \"delta_logprob\": 7, \"flips\": []}"},
	{"[-1.0, -2.0]", "{\"kl\": [0.1, 0.2], \"delta_logprob\": [0, 0], \"flips\": [2]}"},
	{"[-1.0, -2.0]", "{\"kl\": [0.1, 0.2], \"delta_logprob\": [0, 0], \"flips\": [-1]}"},
	{"[-1.0, -2.0]", "{\"kl\": [0.1, 0.2], \"delta_logprob\": [0, 0], \"flips\": [\"x\"]}"},
	{"{\"a\": 1}", "null"},
};

START_TEST(a_damaged_sample_is_refused)
{
	struct store *s = fixture_open(fixture_path("damaged.db"));
	int64_t run_id = fixture_begin(s, "damaged", false), variant_id;
	struct store_variant v = fixture_variant("int4/fp8");
	struct error e;
	CHECK_OK(store_variant_add(s, &v, &variant_id, &test_error));
	struct store_sample sample = fixture_sample(variant_id, 0);
	sample.suite = divergence_suite;
	sample.token_logprobs = str_of(damaged[_i].logprobs);
	sample.response = str_of(damaged[_i].response);
	CHECK_OK(store_sample_insert(s, &sample, &test_error));
	ck_assert_int_eq(divergence_results_put(s, run_id, variant_id, &e), ERR_STORE);
	ck_assert_msg(strstr(e.message, "damaged"), "%s", e.message);
	store_close(s);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *all = test_case(suite, "divergence", 0);
	tcase_add_loop_test(all, kl_is_that_of_scipy, 0, ROW_CASES);
	tcase_add_test(all, what_is_no_number_does_not_pass_for_one);
	tcase_add_test(all, results_are_those_of_numpy);
	tcase_add_loop_test(all, a_damaged_sample_is_refused, 0, sizeof(damaged) / sizeof(damaged[0]));
}
