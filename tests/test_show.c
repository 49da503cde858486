/* `assay list` and `assay show`: what they print of a store, as text and as JSON. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/base/json_strict.h"
#include "evals/cli.h"
#include "evals/run_report.h"
#include "tests/store_fixture.h"

const char *const test_program_name = "show";

/* ---- A store with a complete run and an interrupted one ---- */

static void add_samples(struct store *s, int64_t variant, const char *suite, int n)
{
	for (int i = 0; i < n; i++) {
		struct store_sample x = fixture_sample(variant, i);
		x.suite = x.task = suite;
		if (i == 1) {
			x.status = SAMPLE_TRUNCATED;
			x.finish_reason = "length";
			x.response = STR("\" a\\u0000\\u001b[31m long answer that does not fit into a line of sixty "
					 "columns, whatever "
					 "one tries\"");
		}
		if (i == 2) {
			x.status = SAMPLE_ERROR;
			x.finish_reason = NULL;
			x.error = "context too long";
			x.response = STR("\"\"");
		}
		CHECK_OK(store_sample_insert(s, &x, &test_error));
	}
}

static void put(struct store *s, int64_t variant, const char *suite, const char *task, const char *metric, int n,
	double value, double stderr_value)
{
	struct store_result result = {variant, suite, task, metric, n, value, stderr_value};
	CHECK_OK(store_suite_result_put(s, &result, &test_error));
}

static const char *make_store(void)
{
	static char path[4096];
	snprintf(path, sizeof(path), "%s", fixture_path("x.db"));
	struct store *s = fixture_open(path);
	fixture_begin(s, "a", false);
	int64_t bf16 = fixture_add_variant(s, "bf16/bf16");
	int64_t int4 = fixture_add_variant(s, "int4/fp8");
	add_samples(s, bf16, "gsm8k", 3);
	add_samples(s, int4, "gsm8k", 1);
	put(s, bf16, "gsm8k", NULL, "exact_match,strict-match", 3, 0.625, 0.125);
	put(s, int4, "gsm8k", NULL, "exact_match,strict-match", 1, 1, (double)NAN);
	put(s, bf16, "mmlu", NULL, "acc,none", 5, 0.4, 0.2);
	put(s, bf16, "mmlu", "mmlu_law", "acc,none", 2, 0.5, 0.5);
	put(s, bf16, "mmlu", "mmlu_art", "acc,none", 3, 1.0 / 3, 0.25);
	CHECK_OK(store_run_finish(s, RUN_COMPLETE, &test_error));

	struct store_run run = fixture_run("b");
	int64_t run_id = 0;
	bool resumed = false;
	run.model = "org/na\x1bme";
	run.for_gating = false;
	CHECK_OK(store_run_begin(s, &run, &run_id, &resumed, &test_error));
	int64_t fp8 = fixture_add_variant(s, "fp8/fp8");
	add_samples(s, fp8, "recall", 2);
	store_close(s);
	return path;
}

/* ---- Running a command ---- */

struct outcome {
	int exit_code;
	struct error error;
	struct buf output;
};

static struct outcome run_command(command_function *command, const struct options *o)
{
	struct outcome result = {0};
	FILE *file = tmpfile();
	ck_assert_ptr_nonnull(file);
	fflush(stdout);
	int saved = dup(STDOUT_FILENO);
	ck_assert_int_ge(dup2(fileno(file), STDOUT_FILENO), 0);
	result.exit_code = command(o, &result.error);
	fflush(stdout);
	ck_assert_int_ge(dup2(saved, STDOUT_FILENO), 0);
	close(saved);
	rewind(file);
	char block[4096];
	for (size_t n; (n = fread(block, 1, sizeof(block), file)) > 0;)
		buf_append(&result.output, block, n);
	fclose(file);
	return result;
}

static struct outcome list(const char *db, bool json)
{
	struct options o = {.command = "list", .db = db, .json = json, .quiet = true};
	return run_command(cmd_list, &o);
}

static struct outcome show(const char *db, const char *run, const char *samples, bool json)
{
	struct options o = {.command = "show",
		.db = db,
		.json = json,
		.show_samples = samples,
		.arguments = {run},
		.n_arguments = 1};
	return run_command(cmd_show, &o);
}

/* ---- Text ---- */

static void check_text(struct outcome *result, const char *expected)
{
	ck_assert_msg(result->exit_code == 0, "%s", result->error.message);
	ck_assert_str_eq(buf_text(&result->output), expected);
	buf_free(&result->output);
}

/* Replaces what differs between two runs of the test: times and uids. */
static void blank(struct buf *text, const char *after, size_t length)
{
	char *at = strstr(text->data, after);
	ck_assert_msg(at != NULL, "'%s' in '%s'", after, text->data);
	memset(at + strlen(after), '*', length);
}

START_TEST(list_text)
{
	setenv("TZ", "UTC", 1);
	struct outcome result = list(make_store(), false);
	blank(&result.output, "\n  1  ", 16);
	blank(&result.output, "\n  2  ", 16);
	check_text(&result,
		"run  started           status                 model         samples  variants\n"
		"  1  ****************  complete               pocket/model        4  bf16/bf16 int4/fp8\n"
		"  2  ****************  interrupted (limited)  org/na\\x1bme        2  fp8/fp8\n");
}
END_TEST

START_TEST(show_text)
{
	struct outcome result = show(make_store(), "1", NULL, false);
	blank(&result.output, "run 1 (", 16);
	blank(&result.output, "started ", 16);
	blank(&result.output, "****, ", 3);
	check_text(&result,
		"run 1 (****************), complete, started ****************, *** s at work\n"
		"model /data/pocket/model (f00d)\n"
		"\n"
		"suite     metric                    variant    n   value ± stderr  not ok\n"
		"gsm8k     exact_match,strict-match  bf16/bf16  3  0.6250 ± 0.1250  1 truncated, 1 error\n"
		"gsm8k     exact_match,strict-match  int4/fp8   1     1.0000 ± n/a  \n"
		"mmlu      acc,none                  bf16/bf16  5  0.4000 ± 0.2000  \n"
		"mmlu_law  acc,none                  bf16/bf16  2  0.5000 ± 0.5000  \n"
		"mmlu_art  acc,none                  bf16/bf16  3  0.3333 ± 0.2500  \n"
		"\n"
		"variant    weights  KV bytes/token  KV tokens\n"
		"bf16/bf16  1.8 MiB             512       4096\n"
		"int4/fp8   1.8 MiB             512       4096\n"
		"\n"
		"256 of 400 prompt tokens were cached (64%)\n");
}
END_TEST

START_TEST(show_unfinished)
{
	struct outcome result = show(make_store(), "latest", NULL, false);
	blank(&result.output, "run 2 (", 16);
	blank(&result.output, "started ", 16);
	blank(&result.output, "****, ", 3);
	check_text(&result,
		"run 2 (****************), interrupted, started ****************, *** s at work, limited: not for "
		"gating\n"
		"model org/na\\x1bme (f00d)\n"
		"\n"
		"suite   metric     variant  n  value ± stderr  not ok\n"
		"recall  no result  fp8/fp8  2                  1 truncated\n"
		"\n"
		"variant  weights  KV bytes/token  KV tokens\n"
		"fp8/fp8  1.8 MiB             512       4096\n"
		"\n"
		"128 of 200 prompt tokens were cached (64%)\n");
}
END_TEST

static const struct {
	int64_t prompt, cached;
	const char *line; /* "": none */
} cached_cases[] = {
	{1234567, 271605, "\n271,605 of 1,234,567 prompt tokens were cached (22%)\n"},
	{1000, 1000, "\n1,000 of 1,000 prompt tokens were cached (100%)\n"},
	{999, 0, "\n0 of 999 prompt tokens were cached (0%)\n"},
	{0, 0, ""},
};

START_TEST(show_what_was_cached)
{
	const char *path = fixture_path("x.db");
	struct store *s = fixture_open(path);
	fixture_begin(s, "a", false);
	struct store_sample x = fixture_sample(fixture_add_variant(s, "bf16/bf16"), 0);
	x.prompt_tokens = cached_cases[_i].prompt;
	x.cached_tokens = cached_cases[_i].cached;
	CHECK_OK(store_sample_insert(s, &x, &test_error));
	store_close(s);
	struct outcome result = show(path, "1", NULL, false);
	ck_assert_int_eq(result.exit_code, 0);
	const char *found = strstr(buf_text(&result.output), "4096\n");
	ck_assert_ptr_nonnull(found);
	ck_assert_str_eq(found + strlen("4096\n"), cached_cases[_i].line);
	buf_free(&result.output);
}
END_TEST

START_TEST(show_samples_text)
{
	struct outcome result = show(make_store(), "1", "GSM8K", false);
	ck_assert_int_eq(result.exit_code, 0);
	const char *table = strstr(buf_text(&result.output), "\nvariant    task ");
	ck_assert_ptr_nonnull(table);
	ck_assert_str_eq(table,
		"\n"
		"variant    task   doc  status     scores          response\n"
		"bf16/bf16  gsm8k    0  ok         strict-match 1   18\\n#### 18\n"
		"bf16/bf16  gsm8k    1  truncated  strict-match 1   a\\x00\\x1b[31m long answer that does not fit into "
		"a line of…\n"
		"bf16/bf16  gsm8k    2  error      strict-match 1  context too long\n"
		"int4/fp8   gsm8k    0  ok         strict-match 1   18\\n#### 18\n");
	buf_free(&result.output);
}
END_TEST

/* ---- JSON ---- */

static struct json_document *parse(struct outcome *result)
{
	struct json_document *document = NULL;
	ck_assert_msg(result->exit_code == 0, "%s", result->error.message);
	CHECK_OK(json_parse(buf_str(&result->output), "output", JSON_REFUSE_DOUBLED_KEYS, &document, &test_error));
	ck_assert_str_eq(json_root(document)->child->key.data, "schema_version");
	ck_assert(str_is(json_root(document)->child->text, "1"));
	buf_free(&result->output);
	return document;
}

/* The value at a path of keys and indices: "variants 0 suites gsm8k n". */
static const struct json *at(const struct json *value, const char *path)
{
	char word[100];
	while (*path) {
		size_t length = strcspn(path, " ");
		ck_assert_uint_lt(length, sizeof(word));
		memcpy(word, path, length);
		word[length] = '\0';
		value = json_is(value, JSON_ARRAY) ? json_at(value, (size_t)strtoul(word, NULL, 10))
						   : json_get(value, word);
		ck_assert_msg(value != NULL, "no '%s'", path);
		path += length + (path[length] == ' ');
	}
	return value;
}

static void check_at(const struct json *root, const char *path, const char *expected)
{
	const struct json *value = at(root, path);
	ck_assert_msg(
		str_is(value->text, expected), "%s is '%.*s', expected '%s'", path, STR_ARG(value->text), expected);
}

START_TEST(list_json)
{
	struct outcome result = list(make_store(), true);
	struct json_document *document = parse(&result);
	const struct json *root = json_root(document);
	ck_assert_uint_eq(at(root, "runs")->count, 2);
	check_at(root, "runs 0 run", "1");
	check_at(root, "runs 0 status", "complete");
	check_at(root, "runs 0 samples", "4");
	check_at(root, "runs 0 variants 1", "int4/fp8");
	check_at(root, "runs 0 provenance seeds fewshot", "1234");
	check_at(root, "runs 1 status", "interrupted");
	check_at(root, "runs 1 model", "org/na\x1bme");
	ck_assert_int_eq(at(root, "runs 1 for_gating")->type, JSON_FALSE);
	ck_assert_int_eq(at(root, "runs 1 finished")->type, JSON_NULL);
	ck_assert_int_eq(at(root, "runs 1 tokenizer_hash")->type, JSON_NULL);
	json_free(document);
}
END_TEST

START_TEST(show_json)
{
	struct outcome result = show(make_store(), "1", NULL, true);
	struct json_document *document = parse(&result);
	const struct json *root = json_root(document);
	check_at(root, "run", "1");
	check_at(root, "status", "complete");
	check_at(root, "tokens prompt", "400");
	check_at(root, "tokens cached", "256");
	check_at(root, "tokens generated", "28");
	ck_assert(json_is(at(root, "seconds"), JSON_NUMBER));
	ck_assert_uint_eq(at(root, "variants")->count, 2);
	check_at(root, "variants 0 name", "bf16/bf16");
	check_at(root, "variants 0 weights_bytes", "1835008");
	check_at(root, "variants 0 kv_bytes_per_token", "512");
	check_at(root, "variants 0 kv_tokens", "4096");
	check_at(root, "variants 0 facts kv_scale", "1.0");
	ck_assert_uint_eq(at(root, "variants 0 suites")->count, 2);
	check_at(root, "variants 0 suites gsm8k n", "3");
	check_at(root, "variants 0 suites gsm8k exact_match,strict-match value", "0.625");
	check_at(root, "variants 0 suites gsm8k exact_match,strict-match stderr", "0.125");
	check_at(root, "variants 0 suites mmlu acc,none value", "0.4");
	check_at(root, "variants 0 suites mmlu tasks mmlu_law n", "2");
	check_at(root, "variants 0 suites mmlu tasks mmlu_art acc,none value", "0.3333333333333333");
	ck_assert_ptr_null(json_get(at(root, "variants 0 suites gsm8k"), "tasks"));
	ck_assert_uint_eq(at(root, "variants 1 suites")->count, 1);
	ck_assert_int_eq(at(root, "variants 1 suites gsm8k exact_match,strict-match stderr")->type, JSON_NULL);
	ck_assert_ptr_null(json_get(root, "samples"));
	json_free(document);
}
END_TEST

/* The engine's counters stand apart from the other facts; a variant that has none says so. */
START_TEST(show_counters)
{
	const char *path = fixture_path("x.db");
	struct store *s = fixture_open(path);
	fixture_begin(s, "a", false);
	struct store_variant variant = fixture_variant("bf16/bf16");
	int64_t variant_id;
	variant.facts = STR("{\"steps\": 3, \"kv\": {\"computed\": 70, \"cached\": 9}}");
	CHECK_OK(store_variant_add(s, &variant, &variant_id, &test_error));
	fixture_add_variant(s, "int4/fp8");
	store_close(s);
	struct outcome result = show(path, "1", NULL, true);
	struct json_document *document = parse(&result);
	check_at(json_root(document), "variants 0 kv computed", "70");
	check_at(json_root(document), "variants 0 kv cached", "9");
	check_at(json_root(document), "variants 0 facts steps", "3");
	ck_assert_int_eq(at(json_root(document), "variants 1 kv")->type, JSON_NULL);
	json_free(document);
}
END_TEST

START_TEST(show_samples_json)
{
	struct outcome result = show(make_store(), "1", "gsm8k", true);
	struct json_document *document = parse(&result);
	const struct json *root = json_root(document);
	ck_assert_uint_eq(at(root, "samples")->count, 4);
	check_at(root, "samples 0 response", " 18\n#### 18");
	check_at(root, "samples 0 filtered strict-match", "18");
	check_at(root, "samples 0 metrics exact_match,strict-match", "1.0");
	check_at(root, "samples 1 status", "truncated");
	ck_assert_int_eq(at(root, "samples 1 response")->text.data[2], 0); /* U+0000 is kept */
	check_at(root, "samples 2 error", "context too long");
	ck_assert_int_eq(at(root, "samples 2 finish_reason")->type, JSON_NULL);
	ck_assert_int_eq(at(root, "samples 2 token_ids")->type, JSON_NULL);
	check_at(root, "samples 3 variant", "int4/fp8");
	check_at(root, "samples 3 tokens prompt", "100");
	json_free(document);
}
END_TEST

/* ---- Failures ---- */

static void check_failure(struct outcome *result, const char *says)
{
	ck_assert_int_eq(result->exit_code, 2);
	ck_assert_msg(strstr(result->error.message, says) != NULL, "%s", result->error.message);
	ck_assert_uint_eq(result->output.length, 0);
	buf_free(&result->output);
}

START_TEST(unknown_things)
{
	const char *path = make_store();
	for (int json = 0; json < 2; json++) {
		struct outcome result = show(path, "3", NULL, json);
		check_failure(&result, "no run '3' among the 2");
		result = show(path, "1", "recall", json);
		check_failure(&result, "run 1 holds no answers of suite 'recall'; it has: gsm8k");
		result = show("/nonexistent/x.db", "1", NULL, json);
		check_failure(&result, "No such file");
		result = list("/nonexistent/x.db", json);
		check_failure(&result, "No such file");
	}
}
END_TEST

/* A default store that is not there holds no runs. */
START_TEST(no_store_yet)
{
	setenv("XDG_DATA_HOME", scratch_folder(), 1);
	struct outcome result = list(NULL, false);
	check_text(&result, "run  started  status  model  samples  variants\n");
	result = list(NULL, true);
	check_text(&result, "{\"schema_version\": 1, \"runs\": []}\n");
	result = show(NULL, "latest", NULL, false);
	check_failure(&result, "No such file");
}
END_TEST

START_TEST(suites_listed)
{
	struct options o = {.command = "list", .list_suites = true};
	struct outcome result = run_command(cmd_list, &o);
	ck_assert_int_eq(result.exit_code, 0);
	ck_assert_ptr_nonnull(
		strstr(buf_text(&result.output), "\nmmlu, mmlu_<subject>             480     12  four-choice "));
	buf_free(&result.output);
	o.json = true;
	result = run_command(cmd_list, &o);
	struct json_document *document = parse(&result);
	const struct json *suites = at(json_root(document), "suites");
	ck_assert_uint_ge(suites->count, 4);
	ck_assert_double_eq(json_double(json_get(json_at(suites, 0), "items")), 500);
	ck_assert_double_eq(json_double(json_get(json_at(suites, 0), "fewshot")), 5);
	ck_assert(json_is(json_get(json_at(suites, 3), "items"), JSON_NULL)); /* arc_challenge is not bundled */
	json_free(document);
}
END_TEST

START_TEST(times)
{
	static const struct {
		int64_t ns;
		const char *utc, *local;
	} cases[] = {
		{0, "1970-01-01T00:00:00.000Z", "1970-01-01 00:00"},
		{1755784991123456789, "2025-08-21T14:03:11.123Z", "2025-08-21 14:03"},
		{-1, "1969-12-31T23:59:59.999Z", "1969-12-31 23:59"},
		{INT64_MAX, "2262-04-11T23:47:16.854Z", "2262-04-11 23:47"},
	};
	setenv("TZ", "UTC", 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf out = {0};
		append_utc_time(&out, cases[i].ns);
		ck_assert_str_eq(buf_text(&out), cases[i].utc);
		buf_clear(&out);
		append_local_time(&out, cases[i].ns);
		ck_assert_str_eq(buf_text(&out), cases[i].local);
		buf_free(&out);
	}
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *text = test_case(suite, "text", 0);
	tcase_add_test(text, list_text);
	tcase_add_test(text, show_text);
	tcase_add_test(text, show_unfinished);
	tcase_add_loop_test(text, show_what_was_cached, 0, sizeof(cached_cases) / sizeof(cached_cases[0]));
	tcase_add_test(text, show_samples_text);

	TCase *json = test_case(suite, "json", 0);
	tcase_add_test(json, list_json);
	tcase_add_test(json, show_json);
	tcase_add_test(json, show_counters);
	tcase_add_test(json, show_samples_json);

	TCase *failures = test_case(suite, "failures", 0);
	tcase_add_test(failures, unknown_things);
	tcase_add_test(failures, no_store_yet);

	TCase *rest = test_case(suite, "rest", 0);
	tcase_add_test(rest, suites_listed);
	tcase_add_test(rest, times);
}
