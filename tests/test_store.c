/* The result store with one process: what goes in comes out, runs are gone on with, names are found. */
#include <math.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/json_strict.h"
#include "tests/store_fixture.h"

const char *const test_program_name = "store";

/* One value that SQLite itself reads from the file, as text. */
static const char *query(const char *path, const char *sql)
{
	static char value[4096];
	sqlite3 *db = NULL;
	sqlite3_stmt *statement = NULL;
	ck_assert_int_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	ck_assert_msg(
		sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
	ck_assert_msg(sqlite3_step(statement) == SQLITE_ROW, "%s: %s", sql, sqlite3_errmsg(db));
	const char *text = (const char *)sqlite3_column_text(statement, 0);
	snprintf(value, sizeof(value), "%s", text ? text : "NULL");
	sqlite3_finalize(statement);
	sqlite3_close(db);
	return value;
}

/* ---- A new file ---- */

START_TEST(new_file)
{
	const char *path = fixture_path("a/b c/x.db");
	struct store *s = fixture_open(path);
	ck_assert_str_eq(store_path(s), path);
	ck_assert_str_eq(query(path, "PRAGMA journal_mode"), "wal");
	store_close(s);
	ck_assert_str_eq(query(path, "PRAGMA application_id"), "1098085241"); /* 0x41737379, "Assy" */
	ck_assert_str_eq(query(path, "PRAGMA user_version"), "2");
	ck_assert_str_eq(query(path,
				 "SELECT group_concat(name, ' ') FROM (SELECT name FROM pragma_table_list"
				 " WHERE strict = 1 ORDER BY name)"),
		"fault_trial incident measurement run sample suite_result variant");
	ck_assert_str_eq(
		query(path, "SELECT count(*) FROM pragma_table_list WHERE strict = 0 AND name NOT LIKE 'sqlite_%'"),
		"0");
	ck_assert_str_eq(query(path, "PRAGMA integrity_check"), "ok");

	/* The columns that scripts of users may rely on. */
	query(path, "SELECT count(*) FROM (SELECT run_id, started, status FROM run)");
	query(path, "SELECT count(*) FROM (SELECT variant_id, run_id, name FROM variant)");
	query(path,
		"SELECT count(*) FROM (SELECT run_id, variant_id, suite, task, doc_id, doc_hash, prompt_hash, "
		"target_hash,"
		" response, filtered, metrics, status FROM sample)");

	struct stat before;
	struct stat after;
	ck_assert_int_eq(stat(path, &before), 0);
	store_close(fixture_open(path));
	ck_assert_int_eq(stat(path, &after), 0);
	ck_assert_int_eq(before.st_size, after.st_size);
	store_close(NULL);
}
END_TEST

/* An empty file is what a process that was killed early leaves. */
START_TEST(empty_file)
{
	scratch_folder();
	const char *path = test_write_file("empty.db", "", 0);
	store_close(fixture_open(path));
	ck_assert_str_eq(query(path, "PRAGMA user_version"), "2");
}
END_TEST

/* Names that mean something else to SQLite are files like any other. */
START_TEST(odd_names)
{
	static const char *const names[] = {":memory:", "file:x?mode=memory", "a%20b#c?d.db", "-", " "};
	ck_assert_int_eq(chdir(scratch_folder()), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct store *s = fixture_open(names[i]);
		fixture_begin(s, "c", false);
		store_close(s);
		ck_assert_msg(access(names[i], F_OK) == 0, "%s", names[i]);
		ck_assert_int_eq(fixture_facts(names[i], 0).n, 1);
	}
}
END_TEST

/* ---- Rows ---- */

static int take_variant(void *context, const struct store_variant *v, struct error *e)
{
	struct buf *out = context;
	buf_printf(out, "%" PRId64 " %s %" PRId64 " %" PRId64 " %" PRId64 " %s\n", v->variant_id, v->name,
		v->weights_bytes, v->kv_bytes_per_token, v->kv_tokens, v->facts.data);
	return buf_check(out, e);
}

static int take_result(void *context, const struct store_result *r, struct error *e)
{
	struct buf *out = context;
	buf_printf(out, "%s/%s %s %" PRId64 ": %" PRId64 " %g %g\n", r->suite, r->task, r->metric, r->variant_id, r->n,
		r->value, r->stderr_value);
	return buf_check(out, e);
}

static int take_count(void *context, const struct store_count *c, struct error *e)
{
	struct buf *out = context;
	buf_printf(out,
		"%" PRId64 " %s %" PRId64 " (%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 ") %" PRId64 " %" PRId64
		" %" PRId64 "\n",
		c->variant_id, c->suite, c->n, c->by_status[0], c->by_status[1], c->by_status[2], c->by_status[3],
		c->prompt_tokens, c->cached_tokens, c->generated_tokens);
	return buf_check(out, e);
}

START_TEST(variants_come_back)
{
	struct store *s = fixture_open(fixture_path("x.db"));
	int64_t run = fixture_begin(s, "c", false);
	int64_t a = fixture_add_variant(s, "bf16/bf16");
	int64_t b = fixture_add_variant(s, "int4/fp8");
	ck_assert_int_ne(a, b);
	/* The same name again renews the facts and keeps the id. */
	struct store_variant again = fixture_variant("bf16/bf16");
	int64_t id = 0;
	again.kv_tokens = INT64_MAX;
	again.facts = STR("{}");
	CHECK_OK(store_variant_add(s, &again, &id, &test_error));
	ck_assert_int_eq(id, a);
	struct buf out = {0};
	CHECK_OK(store_variants_each(s, run, take_variant, &out, &test_error));
	ck_assert_str_eq(buf_text(&out),
		"1 bf16/bf16 1835008 512 9223372036854775807 {}\n"
		"2 int4/fp8 1835008 512 4096 {\"kv_scale\": \"1.0\", \"saturated\": 0}\n");
	buf_free(&out);
	store_close(s);
}
END_TEST

/* Two samples that hold something in every column; response becomes the JSON of said. */
static void two_samples(
	int64_t variant, struct buf *said, struct buf *json, struct store_sample *x, struct store_sample *y)
{
	/* Every byte that a model may say, as JSON keeps it. */
	for (int c = 0; c < 128; c++)
		buf_append_char(said, (char)c);
	buf_append_text(said, "Việt 日本語 😀 \xe2\x80\xa8 \xef\xbf\xbe");
	json_write_string(buf_str(said), false, json);

	*x = fixture_sample(variant, 3);
	x->response = buf_str(json);
	x->status = SAMPLE_TRUNCATED;
	x->finish_reason = "length";
	x->tokens = STR("[1, 2, 3]");
	x->token_logprobs = STR("[-0.1, -0.25, -3e-05]");
	x->seconds = 1e-9;
	*y = fixture_sample(variant, -1);
	y->suite = "arc_easy";
	y->task = "arc_easy";
	y->response = STR("[[-1.5, false], [-0.25, true]]");
	y->filtered = STR("{}");
	y->status = SAMPLE_ERROR;
	y->finish_reason = NULL;
	y->error = "no answer";
}

static void check_samples(struct store *s, int64_t run_id, int64_t variant_id, const char *suite,
	const struct store_sample *a, const struct store_sample *b)
{
	struct buf expected = {0};
	struct buf got = {0};
	if (a)
		fixture_append_sample(&expected, a, &test_error);
	if (b)
		fixture_append_sample(&expected, b, &test_error);
	CHECK_OK(store_samples_each(s, run_id, variant_id, suite, fixture_append_sample, &got, &test_error));
	ck_assert_str_eq(buf_text(&got), buf_text(&expected));
	buf_free(&expected);
	buf_free(&got);
}

START_TEST(samples_come_back)
{
	const char *path = fixture_path("x.db");
	struct store *s = fixture_open(path);
	int64_t run = fixture_begin(s, "c", false);
	int64_t variant = fixture_add_variant(s, "bf16/bf16");
	struct buf said = {0};
	struct buf json = {0};
	struct store_sample x;
	struct store_sample y;
	two_samples(variant, &said, &json, &x, &y);
	CHECK_OK(store_sample_insert(s, &x, &test_error));
	CHECK_OK(store_sample_insert(s, &y, &test_error));
	check_samples(s, run, 0, NULL, &y, &x);
	check_samples(s, run, variant, "arc_easy", &y, NULL);
	check_samples(s, run, variant + 1, NULL, NULL, NULL);
	check_samples(s, run + 1, 0, NULL, NULL, NULL);

	/* What was said is read back from the stored JSON to the byte. */
	struct json_document *document = NULL;
	CHECK_OK(json_parse(buf_str(&json), "response", 0, &document, &test_error));
	ck_assert(str_equal(json_root(document)->text, buf_str(&said)));
	json_free(document);

	struct buf counts = {0};
	CHECK_OK(store_counts_each(s, run, take_count, &counts, &test_error));
	ck_assert_str_eq(buf_text(&counts), "1 gsm8k 1 (0 1 0 0) 100 64 7\n1 arc_easy 1 (0 0 0 1) 100 64 7\n");
	store_close(s);

	ck_assert_str_eq(query(path, "SELECT group_concat(status) FROM (SELECT status FROM sample ORDER BY status)"),
		"error,truncated");
	ck_assert_str_eq(query(path, "SELECT count(*) FROM sample WHERE tokens IS NULL AND error = 'no answer'"), "1");
	ck_assert_str_eq(
		query(path, "SELECT json_extract(token_logprobs, '$[2]') FROM sample WHERE doc_id = 3"), "-3.0e-05");
	buf_free(&said);
	buf_free(&json);
	buf_free(&counts);
}
END_TEST

START_TEST(answered_once)
{
	const char *path = fixture_path("x.db");
	struct store *s = fixture_open(path);
	int64_t run = fixture_begin(s, "c", false);
	int64_t a = fixture_add_variant(s, "bf16/bf16");
	int64_t b = fixture_add_variant(s, "int4/fp8");
	struct store_sample x = fixture_sample(a, 0);
	ck_assert_int_eq(fixture_answered(s, &x), STORE_NEW);
	CHECK_OK(store_sample_insert(s, &x, &test_error));
	ck_assert_int_eq(fixture_answered(s, &x), STORE_ANSWERED);

	/* The same again is an error and changes nothing. */
	struct error e = {0};
	struct store_sample second = x;
	second.response = STR("\"another\"");
	ck_assert_int_eq(store_sample_insert(s, &second, &e), ERR_STORE);
	ck_assert_ptr_nonnull(strstr(e.message, "holds an answer to gsm8k document 0 of suite gsm8k already"));
	ck_assert_str_eq(query(path, "SELECT response FROM sample"), "\" 18\\n#### 18\"");

	/* Another document, prompt: changed; another variant, task, suite, id: new. */
	struct store_sample changed = x;
	changed.doc_hash = "d1";
	ck_assert_int_eq(fixture_answered(s, &changed), STORE_CHANGED);
	changed = x;
	changed.prompt_hash = "p1";
	ck_assert_int_eq(fixture_answered(s, &changed), STORE_CHANGED);
	struct store_sample others[] = {x, x, x, x};
	others[0].variant_id = b;
	others[1].task = "gsm8k_cot";
	others[2].suite = "GSM8K";
	others[3].doc_id = 1;
	for (size_t i = 0; i < 4; i++) {
		ck_assert_int_eq(fixture_answered(s, &others[i]), STORE_NEW);
		CHECK_OK(store_sample_insert(s, &others[i], &test_error));
		ck_assert_int_eq(fixture_answered(s, &others[i]), STORE_ANSWERED);
	}
	CHECK_OK(store_run_finish(s, RUN_COMPLETE, &test_error));

	/* Another run has answered nothing. */
	ck_assert_int_ne(fixture_begin(s, "c", false), run);
	ck_assert_int_eq(fixture_answered(s, &x), STORE_NEW);
	store_close(s);
}
END_TEST

/* Rows that break the schema's rules leave nothing behind and do not spoil the next. */
START_TEST(bad_rows)
{
	const char *path = fixture_path("x.db");
	struct store *s = fixture_open(path);
	fixture_begin(s, "c0", false);
	int64_t foreign = fixture_add_variant(s, "bf16/bf16");
	CHECK_OK(store_run_finish(s, RUN_COMPLETE, &test_error));
	fixture_begin(s, "c", false);
	int64_t variant = fixture_add_variant(s, "bf16/bf16");

	struct store_sample bad[7];
	for (size_t i = 0; i < 7; i++)
		bad[i] = fixture_sample(variant, 0);
	bad[0].metrics = STR("{\"acc,none\": NaN}");
	bad[1].response = STR("not json");
	bad[2].filtered = (struct str){NULL, 0};
	bad[3].variant_id = foreign; /* of another run */
	bad[4].variant_id = 99;
	bad[5].tokens = STR("[1, 2");
	bad[6].suite = NULL;
	for (size_t i = 0; i < 7; i++) {
		struct error e = {0};
		ck_assert_msg(store_sample_insert(s, &bad[i], &e) == ERR_STORE, "row %zu", i);
		ck_assert_msg(strstr(e.message, "could not add a sample") != NULL, "row %zu: %s", i, e.message);
	}
	struct error e = {0};
	struct store_variant v = fixture_variant("x/y");
	int64_t id = 0;
	v.facts = STR("{");
	ck_assert_int_eq(store_variant_add(s, &v, &id, &e), ERR_STORE);
	ck_assert_str_eq(query(path, "SELECT count(*) FROM sample"), "0");
	struct store_sample good = fixture_sample(variant, 0);
	CHECK_OK(store_sample_insert(s, &good, &test_error));
	store_close(s);

	s = fixture_open(path);
	struct store_run run = fixture_run("c2");
	bool resumed = false;
	run.provenance = STR("[1,");
	ck_assert_int_eq(store_run_begin(s, &run, &id, &resumed, &e), ERR_STORE);
	run.provenance = STR("{}");
	run.kind = "walk";
	ck_assert_int_eq(store_run_begin(s, &run, &id, &resumed, &e), ERR_STORE);
	run.kind = "run";
	CHECK_OK(store_run_begin(s, &run, &id, &resumed, &test_error));
	store_close(s);
	ck_assert_str_eq(query(path, "SELECT count(*) FROM run"), "3");
}
END_TEST

START_TEST(results_come_back)
{
	struct store *s = fixture_open(fixture_path("x.db"));
	int64_t run = fixture_begin(s, "c", false);
	int64_t a = fixture_add_variant(s, "bf16/bf16");
	int64_t b = fixture_add_variant(s, "int4/fp8");
	struct store_result puts[] = {
		{a, "mmlu", NULL, "acc,none", 3, 0.5, 0.1}, {a, "mmlu", "mmlu_law", "acc,none", 1, 1, (double)NAN},
		{a, "arc_easy", NULL, "acc,none", 2, 0.25, 0.125},
		{a, "arc_easy", NULL, "acc_norm,none", 2, 0.75, 0.125},
		{b, "arc_easy", NULL, "acc_norm,none", 2, 0.5, 0.125}, {b, "arc_easy", NULL, "acc,none", 2, 0, 0},
		{a, "mmlu", NULL, "acc,none", 4, 0.625, 0.2}, /* in place of the first */
	};
	for (size_t i = 0; i < sizeof(puts) / sizeof(puts[0]); i++)
		CHECK_OK(store_suite_result_put(s, &puts[i], &test_error));
	struct buf out = {0};
	CHECK_OK(store_results_each(s, run, take_result, &out, &test_error));
	ck_assert_str_eq(buf_text(&out),
		"mmlu/mmlu acc,none 1: 4 0.625 0.2\n"
		"mmlu/mmlu_law acc,none 1: 1 1 nan\n"
		"arc_easy/arc_easy acc,none 1: 2 0.25 0.125\n"
		"arc_easy/arc_easy acc,none 2: 2 0 0\n"
		"arc_easy/arc_easy acc_norm,none 1: 2 0.75 0.125\n"
		"arc_easy/arc_easy acc_norm,none 2: 2 0.5 0.125\n");
	buf_free(&out);
	store_close(s);
}
END_TEST

static int stop_at_once(void *context, const struct store_sample *x, struct error *e)
{
	++*(int *)context;
	(void)x;
	return error_set(e, ERR_LIMIT, "enough");
}

START_TEST(visit_may_stop)
{
	struct store *s = fixture_open(fixture_path("x.db"));
	int64_t run = fixture_begin(s, "c", false);
	int64_t variant = fixture_add_variant(s, "bf16/bf16");
	for (int i = 0; i < 3; i++) {
		struct store_sample x = fixture_sample(variant, i);
		CHECK_OK(store_sample_insert(s, &x, &test_error));
	}
	int calls = 0;
	struct error e = {0};
	ck_assert_int_eq(store_samples_each(s, run, 0, NULL, stop_at_once, &calls, &e), ERR_LIMIT);
	ck_assert_str_eq(e.message, "enough");
	ck_assert_int_eq(calls, 1);
	struct store_sample x = fixture_sample(variant, 3);
	CHECK_OK(store_sample_insert(s, &x, &test_error));
	store_close(s);
}
END_TEST

START_TEST(errors_are_answered_again)
{
	const char *path = fixture_path("x.db");
	struct store *s = fixture_open(path);
	int64_t run = fixture_begin(s, "c", false);
	int64_t variant = fixture_add_variant(s, "bf16/bf16");
	struct store_sample failed = fixture_sample(variant, 0);
	struct store_sample good = failed;
	struct error e = {0};
	failed.status = SAMPLE_ERROR;
	failed.response = STR("null");
	failed.error = "the server hung up";
	good.context_cut = 17;
	/* Nothing is there to be answered again. */
	ck_assert_int_eq(store_sample_retry(s, &good, &e), ERR_STORE);
	ck_assert_ptr_nonnull(strstr(e.message, "holds no error of gsm8k document 0 of suite gsm8k"));
	ck_assert_int_eq(fixture_answered(s, &good), STORE_NEW);

	CHECK_OK(store_sample_insert(s, &failed, &test_error));
	ck_assert_int_eq(fixture_answered(s, &good), STORE_FAILED);
	struct store_sample changed = good;
	changed.prompt_hash = "p1";
	ck_assert_int_eq(fixture_answered(s, &changed), STORE_CHANGED);
	/* A row that is refused leaves the error where it was; another error may take its place. */
	struct store_sample bad = good;
	bad.metrics = STR("{");
	ck_assert_int_eq(store_sample_retry(s, &bad, &e), ERR_STORE);
	check_samples(s, run, 0, NULL, &failed, NULL);
	failed.error = "again";
	CHECK_OK(store_sample_retry(s, &failed, &test_error));
	check_samples(s, run, 0, NULL, &failed, NULL);
	CHECK_OK(store_sample_retry(s, &good, &test_error));
	check_samples(s, run, 0, NULL, &good, NULL);
	/* An answer stays. */
	ck_assert_int_eq(store_sample_retry(s, &good, &e), ERR_STORE);
	check_samples(s, run, 0, NULL, &good, NULL);
	store_close(s);
	ck_assert_str_eq(query(path, "SELECT context_cut FROM sample"), "17");
}
END_TEST

static int take_measurement(void *context, const struct store_measurement *m, struct error *e)
{
	struct buf *out = context;
	buf_printf(out, "%" PRId64 " %s %" PRId64 " %s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %g %g|",
		m->variant_id, m->arm, m->block, m->phase, m->concurrency, m->input_tokens, m->output_tokens,
		m->started, m->seconds, m->tokens_per_s);
	const struct str texts[] = {m->ttft_ms, m->itl_ms, m->tpot_ms, m->e2e_ms, m->detail};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		buf_append_str(out, texts[i]);
		buf_append_char(out, '|');
	}
	buf_printf(out, "%g %g %g\n", m->share_of_floor, m->guard_us_per_step, m->step_us);
	return buf_check(out, e);
}

static int take_incident(void *context, const struct store_incident *i, struct error *e)
{
	struct buf *out = context;
	buf_printf(out,
		"%s %" PRId64 " %s %s %" PRIu64 " %" PRId64 " %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64
		" %.*s\n",
		i->variant, i->time, i->check, i->phase, i->request, i->page, i->logical, i->expected, i->actual,
		i->step, i->tokens_emitted, STR_ARG(i->detail));
	return buf_check(out, e);
}

START_TEST(incidents_come_back)
{
	const char *path = fixture_path("x.db");
	struct store *s = fixture_open(path);
	int64_t run = fixture_begin(s, "c", false);
	struct store_incident named = {.variant = "bf16/bf16",
		.time = 7,
		.check = "tag",
		.phase = "before_read",
		.request = 3,
		.page = 0,
		.logical = 2,
		.expected = UINT64_MAX,
		.actual = UINT64_C(1) << 63,
		.step = 40,
		.tokens_emitted = 5,
		.detail = STR("{\"pool\": 0}")};
	struct store_incident unnamed = {.variant = "bf16/fp8",
		.time = 8,
		.check = "free_list",
		.phase = "audit",
		.page = -1,
		.logical = -1,
		.detail = STR("{}")};
	struct error e = {0};

	CHECK_OK(store_incident_insert(s, &named, &test_error));
	CHECK_OK(store_incident_insert(s, &unnamed, &test_error));
	named.detail = STR("{");
	ck_assert_int_eq(store_incident_insert(s, &named, &e), ERR_STORE);
	named.detail = STR("{}");
	named.fault_trial_id = 99; /* there is no such trial */
	ck_assert_int_eq(store_incident_insert(s, &named, &e), ERR_STORE);

	struct buf out = {0};
	CHECK_OK(store_incidents_each(s, run, take_incident, &out, &test_error));
	ck_assert_str_eq(buf_text(&out),
		"bf16/bf16 7 tag before_read 3 0 2 18446744073709551615 9223372036854775808 40 5 {\"pool\": 0}\n"
		"bf16/fp8 8 free_list audit 0 -1 -1 0 0 0 0 {}\n");
	buf_free(&out);
	store_close(s);
	ck_assert_str_eq(query(path, "SELECT count(*) FROM incident WHERE page IS NULL"), "1");
}
END_TEST

START_TEST(measurements_come_back)
{
	struct store *s = fixture_open(fixture_path("x.db"));
	int64_t run = fixture_begin(s, "c", false);
	int64_t variant = fixture_add_variant(s, "bf16/bf16");
	struct store_measurement m = {.variant_id = variant,
		.arm = "none",
		.phase = "prefill",
		.concurrency = 8,
		.input_tokens = 512,
		.output_tokens = 64,
		.started = 5,
		.seconds = 1.5,
		.tokens_per_s = 1000,
		.ttft_ms = STR("{\"mean\": 2.5}"),
		.share_of_floor = 0.5,
		.guard_us_per_step = (double)NAN,
		.step_us = (double)NAN,
		.detail = STR("{}")};
	struct store_measurement decode = m;
	decode.phase = "decode";
	decode.ttft_ms = (struct str){NULL, 0};
	decode.e2e_ms = STR("{\"p95\": 9}");
	CHECK_OK(store_measurement_put(s, &m, &test_error));
	CHECK_OK(store_measurement_put(s, &decode, &test_error));
	m.tokens_per_s = 2000; /* in place of the first */
	CHECK_OK(store_measurement_put(s, &m, &test_error));

	struct error e = {0};
	struct store_measurement bad = m;
	bad.itl_ms = STR("{\"mean\": NaN}");
	ck_assert_int_eq(store_measurement_put(s, &bad, &e), ERR_STORE);
	bad = m;
	bad.variant_id = 99;
	ck_assert_int_eq(store_measurement_put(s, &bad, &e), ERR_STORE);

	struct buf out = {0};
	CHECK_OK(store_measurements_each(s, run, take_measurement, &out, &test_error));
	ck_assert_str_eq(buf_text(&out),
		"1 none 0 decode 8 512 64 5 1.5 1000||||{\"p95\": 9}|{}|0.5 nan nan\n"
		"1 none 0 prefill 8 512 64 5 1.5 2000|{\"mean\": 2.5}||||{}|0.5 nan nan\n");
	buf_free(&out);
	store_close(s);
}
END_TEST

/* ---- Older files ---- */

/* A file that assay 0.1.0 wrote with schema version 1. */
static const char *version_1_file(void)
{
	struct buf script = test_read_file(golden_path("store/version_1.sql"));
	const char *path = fixture_path("old.db");
	sqlite3 *db = NULL;
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	ck_assert_msg(sqlite3_exec(db, buf_text(&script), NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
	sqlite3_close(db);
	buf_free(&script);
	return path;
}

START_TEST(version_1_is_migrated)
{
	static const char digest[] =
		"SELECT count(*) || ' ' || sum(length(response)) || ' ' || sum(seconds) FROM sample";
	char path[4096], before[256], copy[4200];
	struct error e = {0};
	struct store *s = NULL;
	snprintf(path, sizeof(path), "%s", version_1_file());
	snprintf(before, sizeof(before), "%s", query(path, digest));
	snprintf(copy, sizeof(copy), "%s-v1", path);
	/* Who only reads changes nothing. */
	ck_assert_int_eq(store_open_reading(path, &s, &e), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(e.message, "is of schema version 1, expected 2"));
	ck_assert_str_eq(query(path, "PRAGMA user_version"), "1");

	store_close(fixture_open(path));
	ck_assert_str_eq(query(path, "PRAGMA user_version"), "2");
	ck_assert_str_eq(query(path, "PRAGMA integrity_check"), "ok");
	ck_assert_str_eq(query(path, "SELECT count(*) FROM pragma_foreign_key_check"), "0");
	ck_assert_str_eq(query(path, digest), before);
	ck_assert_str_eq(query(path, "SELECT count(*) FROM sample WHERE context_cut = 0"), "12");
	/* The file as it was lies beside it. */
	ck_assert_str_eq(query(copy, "PRAGMA user_version"), "1");
	ck_assert_str_eq(query(copy, digest), before);

	/* It has the tables of a new file, and is read and written like one. */
	const char *fresh = fixture_path("fresh.db");
	static const char columns[] =
		"SELECT group_concat(text, ' ') FROM (SELECT t.name || '.' || c.name || ' ' || c.type AS text"
		" FROM pragma_table_list t, pragma_table_info(t.name) c WHERE t.name <> 'sqlite_schema'"
		" ORDER BY t.name, c.cid)";
	char expected[4096];
	store_close(fixture_open(fresh));
	snprintf(expected, sizeof(expected), "%s", query(fresh, columns));
	ck_assert_msg(strcmp(query(path, columns), expected) == 0, "other columns than those of a new file");
	s = fixture_open(path);
	ck_assert_int_eq(fixture_begin(s, "c", false), 2);
	int64_t variant = fixture_add_variant(s, "bf16/bf16");
	struct store_sample x = fixture_sample(variant, 0);
	x.context_cut = 3;
	CHECK_OK(store_sample_insert(s, &x, &test_error));
	check_samples(s, 2, 0, NULL, &x, NULL);
	store_close(s);
}
END_TEST

/* No copy, no change: a name that cannot be written leaves the file as it was. */
START_TEST(migration_needs_its_copy)
{
	const char *path = version_1_file();
	char part[4200];
	struct store *s = NULL;
	struct error e = {0};
	snprintf(part, sizeof(part), "%s-v1.part", path);
	ck_assert_int_eq(mkdir(part, 0755), 0);
	ck_assert_int_eq(store_open(path, &s, &e), ERR_IO);
	ck_assert_msg(strstr(e.message, "could not keep a copy") != NULL, "%s", e.message);
	ck_assert_str_eq(query(path, "PRAGMA user_version"), "1");
	ck_assert_int_eq(rmdir(part), 0);
	store_close(fixture_open(path));
	ck_assert_str_eq(query(path, "PRAGMA user_version"), "2");
}
END_TEST

/* ---- Going on with a run ---- */

START_TEST(resume_rules)
{
	const char *path = fixture_path("x.db");
	struct store *s = fixture_open(path);
	int64_t found = -1;
	CHECK_OK(store_run_find_resumable(s, "c", &found, &test_error));
	ck_assert_int_eq(found, 0);
	int64_t first = fixture_begin(s, "c", false);
	CHECK_OK(store_run_finish(s, RUN_INTERRUPTED, &test_error));
	CHECK_OK(store_run_find_resumable(s, "c", &found, &test_error));
	ck_assert_int_eq(found, first);

	/* Interrupted, failed, and left by a process that died: all are gone on with. */
	ck_assert_int_eq(fixture_begin(s, "c", true), first);
	CHECK_OK(store_run_finish(s, RUN_FAILED, &test_error));
	ck_assert_int_eq(fixture_begin(s, "c", true), first);
	store_close(s);
	ck_assert_str_eq(query(path, "SELECT status FROM run"), "running");
	ck_assert_int_eq(fixture_facts(path, first).status, RUN_INTERRUPTED);
	s = fixture_open(path);
	ck_assert_int_eq(fixture_begin(s, "c", true), first);
	ck_assert_int_eq(fixture_facts(path, first).status, RUN_RUNNING);
	CHECK_OK(store_run_finish(s, RUN_COMPLETE, &test_error));
	struct fixture_run_facts facts = fixture_facts(path, first);
	ck_assert(facts.status == RUN_COMPLETE && facts.finished && facts.resumptions == 3 && facts.pid == getpid());

	/* A complete one is not; another configuration has its own. */
	int64_t second = fixture_begin(s, "c", false);
	ck_assert_int_gt(second, first);
	CHECK_OK(store_run_finish(s, RUN_INTERRUPTED, &test_error));
	int64_t other = fixture_begin(s, "d", false);
	ck_assert_int_gt(other, second);
	CHECK_OK(store_run_finish(s, RUN_INTERRUPTED, &test_error));
	ck_assert_int_eq(fixture_begin(s, "c", true), second);
	store_close(s);
}
END_TEST

START_TEST(resumed_rows)
{
	struct store *s = fixture_open(fixture_path("x.db"));
	fixture_begin(s, "c", false);
	int64_t variant = fixture_add_variant(s, "bf16/bf16");
	struct store_sample x = fixture_sample(variant, 0);
	CHECK_OK(store_sample_insert(s, &x, &test_error));
	CHECK_OK(store_run_finish(s, RUN_INTERRUPTED, &test_error));
	fixture_begin(s, "c", true);
	ck_assert_int_eq(fixture_add_variant(s, "bf16/bf16"), variant);
	ck_assert_int_eq(fixture_answered(s, &x), STORE_ANSWERED);
	struct error e = {0};
	ck_assert_int_eq(store_sample_insert(s, &x, &e), ERR_STORE);
	store_close(s);
}
END_TEST

/* The time at work adds up, also of a process that did not finish: it is written with samples, a second apart. */
START_TEST(seconds_add_up)
{
	const char *path = fixture_path("x.db");
	struct store *s = fixture_open(path);
	int64_t run = fixture_begin(s, "c", false);
	int64_t variant = fixture_add_variant(s, "bf16/bf16");
	struct store_sample x = fixture_sample(variant, 0);
	CHECK_OK(store_sample_insert(s, &x, &test_error));
	ck_assert_double_eq(fixture_facts(path, run).seconds, 0);
	usleep(1050000);
	x.doc_id = 1;
	CHECK_OK(store_sample_insert(s, &x, &test_error));
	double first = fixture_facts(path, run).seconds;
	ck_assert_double_ge(first, 1.05);
	store_close(s);
	s = fixture_open(path);
	fixture_begin(s, "c", true);
	usleep(200000);
	CHECK_OK(store_run_finish(s, RUN_COMPLETE, &test_error));
	ck_assert_double_ge(fixture_facts(path, run).seconds, first + 0.2);
	ck_assert_double_le(fixture_facts(path, run).seconds, first + 20);
	store_close(s);
}
END_TEST

/* ---- Finding a run ---- */

START_TEST(find_by_name)
{
	const char *path = fixture_path("x.db");
	struct store *s = fixture_open(path);
	struct error e = {0};
	int64_t id = 0;
	ck_assert_int_eq(store_run_find(s, "latest", &id, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.message, "holds no runs yet"));
	char uids[3][STORE_UID_SIZE];
	for (int i = 0; i < 3; i++) {
		int64_t run = fixture_begin(s, i == 0 ? "a" : i == 1 ? "b" : "c", false);
		ck_assert_int_eq(run, i + 1);
		CHECK_OK(store_run_finish(s, RUN_COMPLETE, &test_error));
		struct fixture_run_facts facts = fixture_facts(path, run);
		ck_assert_uint_eq(strlen(facts.uid), 16);
		snprintf(uids[i], sizeof(uids[i]), "%s", facts.uid);
	}
	CHECK_OK(store_run_find(s, "2", &id, &test_error));
	ck_assert_int_eq(id, 2);
	CHECK_OK(store_run_find(s, "002", &id, &test_error));
	ck_assert_int_eq(id, 2);
	CHECK_OK(store_run_find(s, "latest", &id, &test_error));
	ck_assert_int_eq(id, 3);
	for (int i = 0; i < 3; i++) {
		CHECK_OK(store_run_find(s, uids[i], &id, &test_error));
		ck_assert_int_eq(id, i + 1);
		/* Eleven of sixteen characters: two runs of three share as many once in 2^39 times. */
		uids[i][11] = '\0';
		CHECK_OK(store_run_find(s, uids[i], &id, &test_error));
		ck_assert_int_eq(id, i + 1);
	}
	ck_assert_int_eq(store_run_find(s, "r", &id, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.message, "ambiguous"));
	static const char *const unknown[] = {
		"0", "4", "99999999999999999999", "", "Latest", "rz", "x", "1 ", "-1", "%", "r%"};
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		ck_assert_msg(store_run_find(s, unknown[i], &id, &e) == ERR_USAGE, "'%s'", unknown[i]);
		ck_assert_msg(strstr(e.message, "among the 3 of") != NULL, "'%s': %s", unknown[i], e.message);
	}
	store_close(s);
}
END_TEST

START_TEST(ids_are_not_used_twice)
{
	const char *path = fixture_path("x.db");
	struct store *s = fixture_open(path);
	fixture_begin(s, "a", false);
	int64_t variant = fixture_add_variant(s, "bf16/bf16");
	struct store_sample x = fixture_sample(variant, 0);
	CHECK_OK(store_sample_insert(s, &x, &test_error));
	store_close(s);
	sqlite3 *db = NULL;
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(db, "PRAGMA foreign_keys = ON; DELETE FROM run", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	ck_assert_str_eq(query(path, "SELECT count(*) FROM sample"), "0"); /* its rows go with it */
	s = fixture_open(path);
	ck_assert_int_eq(fixture_begin(s, "a", false), 2);
	store_close(s);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *files = test_case(suite, "files", 0);
	tcase_add_test(files, new_file);
	tcase_add_test(files, empty_file);
	tcase_add_test(files, odd_names);

	TCase *rows = test_case(suite, "rows", 0);
	tcase_add_test(rows, variants_come_back);
	tcase_add_test(rows, samples_come_back);
	tcase_add_test(rows, answered_once);
	tcase_add_test(rows, bad_rows);
	tcase_add_test(rows, results_come_back);
	tcase_add_test(rows, visit_may_stop);
	tcase_add_test(rows, errors_are_answered_again);
	tcase_add_test(rows, incidents_come_back);
	tcase_add_test(rows, measurements_come_back);

	TCase *older = test_case(suite, "older", 0);
	tcase_add_test(older, version_1_is_migrated);
	tcase_add_test(older, migration_needs_its_copy);

	TCase *resume = test_case(suite, "resume", 0);
	tcase_add_test(resume, resume_rules);
	tcase_add_test(resume, resumed_rows);
	tcase_add_test(resume, seconds_add_up);

	TCase *find = test_case(suite, "find", 0);
	tcase_add_test(find, find_by_name);
	tcase_add_test(find, ids_are_not_used_twice);
}
