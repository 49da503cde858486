/* KL of rows, and what a variant's stored tokens add up to. */
#include <math.h>

#include "engine/base/json_strict.h"
#include "evals/divergence.h"
#include "evals/run_divergence.h"
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
			"%s %s: error %.17g, expected %.17g", result->task, result->metric, result->stderr_value,
			error);
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

/* ---- Engines ---- */

#define POCKET SOURCE_DIR "/datasets/pocket/model"

static struct engine *open_engine(const char *variant)
{
	struct engine_config config = {.model = POCKET, .threads = 1, .kv_memory = 8 << 20};
	struct engine *engine = NULL;
	CHECK_OK(variant_parse(variant, &config.variant, &test_error));
	CHECK_OK(engine_open(&config, &engine, &test_error));
	return engine;
}

struct measured {
	struct buf text;  /* of all samples */
	double kl, ratio; /* results */
	int64_t tokens;
};

static int append_sample(void *context, const struct store_sample *x, struct error *e)
{
	struct measured *m = context;
	buf_printf(&m->text, "%s %" PRId64 " %s %s %.*s %.*s\n", x->task, x->doc_id, x->prompt_hash, x->target_hash,
		(int)x->metrics.length, x->metrics.data, (int)x->tokens.length, x->tokens.data);
	buf_append_str(&m->text, x->response);
	buf_append_str(&m->text, x->token_logprobs);
	return buf_check(&m->text, e);
}

static int take_result(void *context, const struct store_result *r, struct error *e)
{
	struct measured *m = context;
	(void)e;
	if (strcmp(r->metric, "kl,none") == 0)
		m->kl = r->value;
	if (strcmp(r->metric, "perplexity_ratio,none") == 0)
		m->ratio = r->value;
	if (strcmp(r->metric, "tokens,none") == 0)
		m->tokens = (int64_t)r->value;
	return 0;
}

/* Reads the text under one engine against the other, with so much memory for rows. */
static struct measured measure(const struct reading *r, const struct engine_text *text, struct engine *baseline,
	struct engine *engine, size_t rows_bytes)
{
	struct measured m = {0};
	struct store *s = fixture_open(fixture_path("measure.db"));
	int64_t run_id = fixture_begin(s, "measure", false), variant_id;
	struct store_variant v = fixture_variant("int4/fp8");
	struct divergence_source *source;
	struct suite_outcome outcome;
	struct console console;
	const struct options quiet = {.quiet = true};
	console_init(&console, &quiet, stdout, stderr);
	CHECK_OK(store_variant_add(s, &v, &variant_id, &test_error));
	CHECK_OK(divergence_source_text(r, text, engine_facts(engine)->max_positions, 0, &source, &test_error));
	CHECK_OK(run_divergence(s, run_id, variant_id, source, (struct shard){0}, baseline, engine, rows_bytes,
		&console, "test", &outcome, &test_error));
	ck_assert_int_eq(outcome.errors, 0);
	ck_assert_int_eq(outcome.items, divergence_source_count(source));
	CHECK_OK(store_samples_each(s, run_id, 0, NULL, append_sample, &m, &test_error));
	CHECK_OK(store_results_each(s, run_id, take_result, &m, &test_error));
	divergence_source_free(source);
	store_close(s);
	return m;
}

/* The log-probability rows of a whole window and plain sums over them. */
static double direct_kl(struct engine *baseline, struct engine *engine, const struct divergence_document *d)
{
	struct engine *both[2] = {baseline, engine};
	size_t vocab = (size_t)engine_facts(engine)->vocab_size, n = (size_t)(d->n_tokens - d->from);
	float *rows[2];
	double sum = 0;
	for (int i = 0; i < 2; i++) {
		struct engine_result *result;
		uint64_t id;
		bool idle;
		rows[i] = mem_calloc(n + 1, vocab * sizeof(float), &test_error);
		struct engine_request r = {
			.tokens = d->tokens, .n_tokens = d->n_tokens, .logprobs_from = d->from, .rows = rows[i]};
		CHECK_OK(engine_submit(both[i], &r, &id, &test_error));
		while (!(result = engine_poll(both[i])))
			CHECK_OK(engine_step(both[i], &idle, &test_error));
		engine_result_free(result);
	}
	for (size_t v = 0; v < n * vocab; v++)
		sum += exp((double)rows[0][v]) * ((double)rows[0][v] - (double)rows[1][v]);
	free(rows[0]);
	free(rows[1]);
	return sum;
}

/* 130 lines are several windows, the last one short. */
static const char *write_text(int lines)
{
	struct buf text = {0};
	for (int i = 0; i < lines; i++)
		buf_printf(&text, "Leo has %d apples.\n", i * 7919 % 97);
	const char *path = test_write_file("leo.txt", text.data, text.length);
	buf_free(&text);
	return path;
}

START_TEST(pieces_and_windows_change_nothing)
{
	struct engine *baseline = open_engine("bf16/bf16"), *engine = open_engine("int4/fp8");
	struct error why;
	const struct engine_text *text = engine_own_text(engine, &why);
	struct reading r;
	CHECK_OK(reading_open(&r, write_text(130), text, &test_error));
	ck_assert_str_eq(r.name, "leo.txt");
	ck_assert_uint_gt(r.count, 3 * READING_WINDOW / 2);

	struct measured whole = measure(&r, text, baseline, engine, DIVERGENCE_ROWS_BYTES);
	struct measured pieces = measure(&r, text, baseline, engine, 37 * 4 * (size_t)engine_facts(engine)->vocab_size);
	ck_assert_str_eq(buf_text(&pieces.text), buf_text(&whole.text));
	/* each token but the first is scored once */
	ck_assert_int_eq(whole.tokens, (int64_t)r.count - 1);

	struct divergence_source *source;
	double sum = 0;
	CHECK_OK(divergence_source_text(&r, text, engine_facts(engine)->max_positions, 0, &source, &test_error));
	for (int i = 0; i < divergence_source_count(source); i++) {
		struct divergence_document d;
		CHECK_OK(divergence_document_make(source, i, &d, &test_error));
		ck_assert_int_eq(d.from, i ? READING_WINDOW / 2 : 1);
		ck_assert_int_gt(d.n_tokens, d.from);
		ck_assert_int_le(d.n_tokens, READING_WINDOW);
		sum += direct_kl(baseline, engine, &d);
		divergence_document_free(&d);
	}
	/* rows are float32: their sums are one within 1e-6 */
	ck_assert_double_eq_tol(whole.kl, sum / (double)whole.tokens, 2e-6);
	ck_assert_double_gt(whole.kl, 1e-3);
	divergence_source_free(source);

	struct measured self = measure(&r, text, baseline, baseline, DIVERGENCE_ROWS_BYTES);
	ck_assert(self.kl == 0 && self.ratio == 1);
	buf_free(&whole.text);
	buf_free(&pieces.text);
	buf_free(&self.text);
	reading_close(&r);
	engine_close(baseline);
	engine_close(engine);
}
END_TEST

START_TEST(one_row_at_a_time_will_do)
{
	struct engine *baseline = open_engine("bf16/bf16"), *engine = open_engine("bf16/fp8");
	struct error why;
	const struct engine_text *text = engine_own_text(engine, &why);
	struct reading r;
	CHECK_OK(reading_open(&r, write_text(3), text, &test_error));
	struct measured whole = measure(&r, text, baseline, engine, DIVERGENCE_ROWS_BYTES);
	struct measured single = measure(&r, text, baseline, engine, 1);
	ck_assert_str_eq(buf_text(&single.text), buf_text(&whole.text));
	ck_assert_int_eq(single.tokens, (int64_t)r.count - 1);
	buf_free(&whole.text);
	buf_free(&single.text);
	reading_close(&r);
	engine_close(baseline);
	engine_close(engine);
}
END_TEST

static const struct {
	const char *name, *content;
	size_t length;
	int code;
	const char *piece;
} texts[] = {
	{"empty.txt", "", 0, ERR_EMPTY, "0 tokens"},
	{"one.txt", "A", 1, ERR_EMPTY, "1 tokens"},
	{"latin.txt", "caf\xe9 au lait", 12, ERR_INPUT, "UTF-8"},
	{"nul.txt", "a\0b c", 5, 0, ""},
};

START_TEST(texts_are_refused_by_name)
{
	struct engine_text *text;
	struct reading r;
	struct error e = {0};
	const char *path = test_write_file(texts[_i].name, texts[_i].content, texts[_i].length);
	CHECK_OK(engine_text_open(POCKET, &text, &test_error));
	ck_assert_int_eq(reading_open(&r, path, text, &e), texts[_i].code);
	ck_assert_msg(strstr(e.message, texts[_i].piece), "%s", e.message);
	ck_assert_msg(texts[_i].code == 0 || strstr(e.message, texts[_i].name), "%s", e.message);
	reading_close(&r);
	ck_assert_int_eq(reading_open(&r, "/nonexistent/text", text, &e), ERR_MISSING);
	engine_text_close(text);
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
	TCase *engines = test_case(suite, "engines", 120);
	tcase_add_test(engines, pieces_and_windows_change_nothing);
	tcase_add_test(engines, one_row_at_a_time_will_do);
	tcase_add_loop_test(engines, texts_are_refused_by_name, 0, sizeof(texts) / sizeof(texts[0]));
	tcase_add_loop_test(all, a_damaged_sample_is_refused, 0, sizeof(damaged) / sizeof(damaged[0]));
}
