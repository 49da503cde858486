/* Looking after a store: check, vacuum, export, and the joining of shards. */
#include <math.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reports/store_care.h"
#include "reports/store_merge.h"
#include "tests/store_fixture.h"

const char *const test_program_name = "store_care";

static void run_sql(const char *path, const char *sql)
{
	sqlite3 *db = NULL;
	char *message = NULL;
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	int code = sqlite3_exec(db, sql, NULL, NULL, &message);
	ck_assert_msg(code == SQLITE_OK, "%s: %s", sql, message);
	sqlite3_close(db);
}

static struct store *reading(const char *path)
{
	struct store *s = NULL;
	CHECK_OK(store_open_reading(path, &s, &test_error));
	return s;
}

/* A path of its own that lasts. */
static char *kept_path(const char *name)
{
	char *path = strdup(fixture_path(name));
	ck_assert_ptr_nonnull(path);
	return path;
}

/* ---- Check ---- */

static int take_problem(void *context, const char *problem, struct error *e)
{
	buf_printf(context, "%s\n", problem);
	return buf_check(context, e);
}

static struct buf problems(const char *path)
{
	struct buf text = {0};
	struct store *s = reading(path);
	CHECK_OK(store_check(s, take_problem, &text, &test_error));
	store_close(s);
	return text;
}

static char *sound_store(void)
{
	char *path = kept_path("x.db");
	struct store *s = fixture_open(path);
	fixture_begin(s, "c", false);
	int64_t variant = fixture_add_variant(s, "bf16/bf16");
	for (int i = 0; i < 3; i++) {
		struct store_sample x = fixture_sample(variant, i);
		CHECK_OK(store_sample_insert(s, &x, &test_error));
	}
	struct store_result r = {variant, "gsm8k", NULL, "exact_match,strict-match", 3, 1, 0};
	CHECK_OK(store_suite_result_put(s, &r, &test_error));
	CHECK_OK(store_run_finish(s, RUN_COMPLETE, &test_error));
	store_close(s);
	return path;
}

START_TEST(check_finds_nothing)
{
	char *path = sound_store();
	struct buf text = problems(path);
	ck_assert_str_eq(buf_text(&text), "");
	struct store *s = reading(path);
	int64_t rows = 0;
	CHECK_OK(store_rows(s, "sample", &rows, &test_error));
	ck_assert_int_eq(rows, 3);
	store_close(s);
	buf_free(&text);
	free(path);
}
END_TEST

static const struct {
	const char *sql, *problem;
} spoilers[] = {
	{"UPDATE sample SET variant_id = 9", "points at a missing row of variant"},
	{"UPDATE run SET uid = 'R'", "its uid is 'R', expected r and 15 hex digits"},
	{"UPDATE run SET provenance = '[]'", "run 1: its provenance is no JSON object"},
	{"UPDATE run SET provenance = '{'", "run 1: its provenance is no JSON object"},
	{"UPDATE run SET finished = NULL", "run 1 is complete and has no end"},
	{"UPDATE run SET finished = 1", "run 1 ended before it began"},
	{"UPDATE variant SET facts = 'x'", "variant 1 (bf16/bf16): its facts are no JSON object"},
	{"UPDATE sample SET metrics = '{\"a\": NaN}' WHERE doc_id = 2", "run 1, gsm8k document 2: metrics is no JSON"},
	{"UPDATE sample SET tokens = '[' WHERE doc_id = 1", "run 1, gsm8k document 1: tokens is no JSON"},
	{"UPDATE sample SET status = 'error' WHERE doc_id = 1", "gsm8k document 1 is an error and does not say which"},
	{"DELETE FROM sample WHERE doc_id = 0", "strict-match is of 3 items, but 2 answers are there"},
	{"UPDATE run SET provenance = '{\"shard\": {\"index\": 1, \"count\": 2}}'",
		"is shard 1/2 and holds gsm8k document 1"},
	{"ALTER TABLE sample DROP COLUMN context_cut", "its tables and columns are not those of its schema version"},
	{"CREATE TABLE notes (text)", "its tables and columns are not those of its schema version"},
	{"INSERT INTO measurement (run_id, variant_id, arm, block, phase, concurrency, input_tokens, output_tokens, "
	 "started,"
	 " seconds, itl_ms, detail) VALUES (1, 1, 'none', 0, 'decode', 1, 1, 1, 1, 1, 'x', '{}')",
		"measurement 1: a latency is no JSON object"},
};

START_TEST(check_finds)
{
	char *path = sound_store();
	run_sql(path, spoilers[_i].sql);
	struct buf text = problems(path);
	ck_assert_msg(strstr(buf_text(&text), spoilers[_i].problem) != NULL, "'%s' lacks '%s'", buf_text(&text),
		spoilers[_i].problem);
	buf_free(&text);
	free(path);
}
END_TEST

START_TEST(check_finds_damage)
{
	char *path = sound_store();
	struct buf file = test_read_file(path);
	/* The index of the answers no longer agrees with its table: there, no hash follows the names. */
	int changed = 0;
	for (size_t at = 0; (at = str_find(buf_str(&file), STR("gsm8kgsm8k"), at)) != SIZE_MAX; at++) {
		bool table = str_find((struct str){file.data + at, 16}, STR("d0"), 0) != SIZE_MAX;
		file.data[at] = table ? 'g' : 'h';
		changed += !table;
	}
	ck_assert_int_gt(changed, 0);
	const char *bad = test_write_file("bad.db", file.data, file.length);
	struct buf text = problems(bad);
	ck_assert_msg(text.length > 0, "damage was not seen");
	buf_free(&text);
	buf_free(&file);
	free(path);
}
END_TEST

/* ---- Vacuum and export ---- */

START_TEST(vacuum_waits_for_no_writer)
{
	char *path = sound_store();
	struct store *writer = fixture_open(path);
	fixture_begin(writer, "d", false);
	struct store *s = fixture_open(path);
	struct error e = {0};
	ck_assert_int_eq(store_vacuum(s, &e), ERR_STORE);
	ck_assert_msg(strstr(e.message, "run 2 is being written by process") != NULL, "%s", e.message);
	CHECK_OK(store_run_finish(writer, RUN_COMPLETE, &test_error));
	store_close(writer);
	CHECK_OK(store_vacuum(s, &test_error));
	store_close(s);
	struct buf text = problems(path);
	ck_assert_str_eq(buf_text(&text), "");
	buf_free(&text);
	free(path);
}
END_TEST

/* While a run writes: the copy holds what was stored, and its run, whose lock is elsewhere, counts as interrupted. */
START_TEST(export_beside_a_writer)
{
	char *path = sound_store();
	struct store *writer = fixture_open(path);
	fixture_begin(writer, "d", false);
	int64_t variant = fixture_add_variant(writer, "int4/fp8");
	struct store_sample x = fixture_sample(variant, 0);
	CHECK_OK(store_sample_insert(writer, &x, &test_error));
	char *copy = kept_path("copy.db");
	struct store *s = reading(path);
	struct buf expected = fixture_samples(s, 2);
	CHECK_OK(store_export(s, copy, &test_error));
	struct error e = {0};
	ck_assert_int_eq(store_export(s, copy, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.message, "exists already"));
	char below[4200];
	snprintf(below, sizeof(below), "%s/x.db", path); /* in a file, not a folder */
	ck_assert_int_eq(store_export(s, below, &e), ERR_IO);
	ck_assert_msg(strstr(e.message, below) && strstr(e.message, "cannot be written"), "%s", e.message);
	store_close(s);
	store_close(writer);
	ck_assert_int_eq(fixture_facts(copy, 2).status, RUN_INTERRUPTED);
	s = reading(copy);
	struct buf rows = fixture_samples(s, 2);
	ck_assert_str_eq(buf_text(&rows), buf_text(&expected));
	store_close(s);
	struct buf text = problems(copy);
	ck_assert_str_eq(buf_text(&text), "");
	buf_free(&text);
	buf_free(&rows);
	buf_free(&expected);
	free(copy);
	free(path);
}
END_TEST

/* ---- Shards ---- */

enum { ITEMS = 7, SHARDS = 3 };

struct shard_case {
	int index, count, skip, add; /* skip, add: a document that is left out, or too much; -1: none */
	const char *whole, *version, *variant, *provenance; /* NULL: the usual ones */
	bool interrupted;
};

static void add_sample(struct store *s, int64_t variant, int doc_id)
{
	struct store_sample x = fixture_sample(variant, doc_id);
	struct buf metrics = {0};
	buf_printf(&metrics, "{\"exact_match,strict-match\": %d.0}", doc_id % 2);
	x.metrics = buf_str(&metrics);
	CHECK_OK(store_sample_insert(s, &x, &test_error));
	buf_free(&metrics);
}

/* One firing of a guard outside of any trial, and a trial with one. */
static void add_findings(struct store *s, int shard)
{
	struct store_incident found = {.variant = "bf16/bf16",
		.time = shard,
		.check = "C1",
		.phase = "prefill",
		.page = -1,
		.logical = 5,
		.expected = UINT64_MAX - (uint64_t)shard,
		.actual = 7,
		.detail = STR("{}")};
	struct store_fault_trial trial = {.trial = shard,
		.mode = "enforced",
		.level = "pages",
		.variant = "bf16/bf16",
		.seed = UINT64_MAX,
		.site = "pool.free.early",
		.model = "M1",
		.outcome = "detected",
		.check = "C2",
		.replay = "again",
		.detail = STR("{}")};
	CHECK_OK(store_incident_insert(s, &found, &test_error));
	found.check = "C2";
	found.fault_trial_id = 1;
	CHECK_OK(store_fault_trials_insert(s, &trial, 1, &found, 1, &test_error));
}

/* Writes one shard into that store; returns its run. */
static int64_t write_shard(struct store *s, const struct shard_case *c)
{
	struct buf provenance = {0};
	struct store_run run = fixture_run("");
	char config[32];
	int64_t run_id = 0;
	bool resumed = false;
	static int next;
	snprintf(config, sizeof(config), "shard %d", next++);
	if (c->count)
		buf_printf(&provenance,
			"{\"limit\": null, \"shard\": {\"index\": %d, \"count\": %d, \"whole\": \"%s\", "
			"\"whole_for_gating\": true}, \"suites\": [{\"name\": \"gsm8k\", \"items\": %d}]}",
			c->index, c->count, c->whole ? c->whole : "whole", ITEMS);
	else
		buf_append_text(&provenance, c->provenance ? c->provenance : "{}");
	run.config_hash = config;
	run.for_gating = false;
	run.provenance = buf_str(&provenance);
	if (c->version)
		run.version = c->version;
	CHECK_OK(store_run_begin(s, &run, &run_id, &resumed, &test_error));
	int64_t variant = fixture_add_variant(s, c->variant ? c->variant : "bf16/bf16");
	for (int i = 0; i < ITEMS; i++)
		if ((i % (c->count ? c->count : 1) == c->index - 1 && i != c->skip) || i == c->add)
			add_sample(s, variant, i);
	struct store_result r = {variant, "gsm8k", NULL, "exact_match,strict-match", 2, 0.5, 0.5};
	CHECK_OK(store_suite_result_put(s, &r, &test_error));
	add_findings(s, c->index);
	CHECK_OK(store_run_finish(s, c->interrupted ? RUN_INTERRUPTED : RUN_COMPLETE, &test_error));
	buf_free(&provenance);
	return run_id;
}

static struct store_mean mean(const double *values, int n)
{
	double sum = 0;
	for (int i = 0; i < n; i++)
		sum += values[i];
	return (struct store_mean){n, sum / n, n < 2 ? (double)NAN : 0.25};
}

static struct store_mean pool(const struct store_mean *tasks, int n)
{
	struct store_mean all = {0, 0, 0.125};
	for (int i = 0; i < n; i++) {
		all.n += tasks[i].n;
		all.value += tasks[i].value / n;
	}
	return all;
}

static const struct store_math math = {mean, pool, NULL};

/* A result of a metric that no answer has, and one that no shard has. */
static int own_results(struct store *s, int64_t run_id, const struct store_result *wanted, store_visit_result *visit,
	void *context, struct error *e)
{
	struct store_result own = *wanted;
	(void)s, (void)run_id;
	own.n = 7;
	own.value = 0.5;
	own.stderr_value = (double)NAN;
	if (!wanted->task) {
		own.task = "extra";
		return visit(context, &own, e);
	}
	return strcmp(wanted->metric, "own,none") == 0 && visit(context, &own, e) == 0;
}

static const struct store_math own_math = {mean, pool, own_results};

static int take_result(void *context, const struct store_result *r, struct error *e)
{
	buf_printf(context, "%s %s %" PRId64 " %g %g\n", r->suite, r->metric, r->n, r->value, r->stderr_value);
	return buf_check(context, e);
}

static int take_incident(void *context, const struct store_incident *i, struct error *e)
{
	buf_printf(context, "%s %d %" PRIu64 " %" PRId64 " %" PRId64 "%s\n", i->check, (int)i->time, i->expected,
		i->page, i->logical, i->fault_trial_id ? " of a trial" : "");
	return buf_check(context, e);
}

static int take_check(void *context, const struct store_fault_count *count, struct error *e)
{
	buf_printf(context, "%s %s %s %s %" PRId64 "\n", count->level, count->model, count->site, count->key, count->n);
	return buf_check(context, e);
}

/* What guards found in the shards is there, each firing with the trial that it belongs to. */
static void expect_findings(struct store *s, int64_t run_id)
{
	struct buf found = {0};
	CHECK_OK(store_incidents_each(s, run_id, take_incident, &found, &test_error));
	ck_assert_str_eq(buf_text(&found),
		"C1 1 18446744073709551614 -1 5\nC2 1 18446744073709551614 -1 5 of a trial\n"
		"C1 2 18446744073709551613 -1 5\nC2 2 18446744073709551613 -1 5 of a trial\n"
		"C1 3 18446744073709551612 -1 5\nC2 3 18446744073709551612 -1 5 of a trial\n");
	buf_clear(&found);
	CHECK_OK(store_fault_outcomes_each(s, run_id, take_check, &found, &test_error));
	ck_assert_str_eq(buf_text(&found), "pages M1 pool.free.early detected 3\n");
	buf_free(&found);
}

static int take_whole(void *context, const struct store_run *run, struct error *e)
{
	(void)e;
	ck_assert_str_eq(run->config_hash, "whole");
	ck_assert_str_eq(run->kind, "run");
	ck_assert(run->status == RUN_COMPLETE && run->for_gating && run->finished >= run->started);
	ck_assert_msg(str_find(run->provenance, STR("\"shard\": {"), 0) == SIZE_MAX, "still a shard");
	ck_assert_msg(str_find(run->provenance, STR("\"merged\": [{\"uid\": \"r"), 0) != SIZE_MAX, "%s",
		run->provenance.data);
	ck_assert(!store_run_is_shard(run));
	++*(int *)context;
	return 0;
}

START_TEST(shards_are_joined)
{
	char *path = sound_store(); /* a run of another configuration is there */
	char *part = kept_path("part.db");
	struct store *s = fixture_open(part);
	int64_t ids[SHARDS];
	for (int i = 0; i < SHARDS; i++)
		ids[i] = write_shard(s, &(struct shard_case){.index = i + 1, .count = SHARDS, .skip = -1, .add = -1});
	store_close(s);
	struct store *from = reading(part);
	struct store *to = fixture_open(path);
	/* In whatever order. */
	struct store_shard shards[SHARDS] = {{from, ids[2]}, {from, ids[0]}, {from, ids[1]}};
	int64_t run_id = 0;
	CHECK_OK(store_merge(to, shards, SHARDS, &math, &run_id, &test_error));
	ck_assert_int_eq(run_id, 2);
	int runs = 0;
	CHECK_OK(store_runs_each(to, run_id, take_whole, &runs, &test_error));
	ck_assert_int_eq(runs, 1);
	struct buf results = {0};
	CHECK_OK(store_results_each(to, run_id, take_result, &results, &test_error));
	char expected[128];
	snprintf(expected, sizeof(expected), "gsm8k exact_match,strict-match %d %g 0.25\n", ITEMS, 3.0 / 7);
	ck_assert_str_eq(buf_text(&results), expected);
	expect_findings(to, run_id);
	struct buf rows = fixture_samples(to, run_id);
	int lines = 0;
	for (size_t i = 0; i < rows.length; i++)
		lines += rows.data[i] == '\n';
	ck_assert_int_eq(lines, ITEMS);

	struct error e = {0};
	ck_assert_int_eq(store_merge(to, shards, SHARDS, &math, &run_id, &e), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(e.message, "holds these shards joined already, as run 2"));
	store_close(to);
	store_close(from);
	struct buf text = problems(path);
	ck_assert_str_eq(buf_text(&text), "");
	buf_free(&text);
	buf_free(&rows);
	buf_free(&results);
	free(part);
	free(path);
}
END_TEST

/* What stands in the place of shard 3 of 3, and why it is refused. index 0: nothing does. */
static const struct {
	struct shard_case third;
	const char *says;
} refused[] = {
	{{.index = 0}, "shards are missing: 3/3"},
	{{.index = 2, .count = 3, .skip = -1, .add = -1}, "the same shard is there twice"},
	{{.index = 3, .count = 4, .skip = -1, .add = -1}, "are parts of different splits"},
	{{.index = 3, .count = 3, .skip = -1, .add = -1, .whole = "other"}, "of different configurations: variants"},
	{{.index = 3, .count = 3, .skip = -1, .add = -1, .whole = "other", .version = "9"},
		"of different configurations: program version 0.1.0 and 9"},
	{{.index = 3, .count = 3, .skip = -1, .add = -1, .interrupted = true}, "(shard 3/3) is interrupted"},
	{{.index = 3, .count = 3, .skip = 5, .add = -1},
		"the shards hold 6 answers to gsm8k under bf16/bf16, expected 7"},
	{{.index = 3, .count = 3, .skip = -1, .add = 0},
		"(shard 3/3) holds gsm8k document 0, which is another shard's"},
	{{.index = 3, .count = 3, .skip = -1, .add = -1, .variant = "int4/fp8"}, "has a variant int4/fp8 that"},
	{{.index = 1, .skip = -1, .add = -1}, "is no shard: it was not run with --shard"},
	{{.index = 1, .skip = -1, .add = -1, .provenance = "{\"shard\": {\"index\": 4, \"count\": 3}}"},
		"its provenance does not tell its shard"},
};

/* Also a metric that counts for some items alone, which is null for the others. */
START_TEST(results_that_are_no_means)
{
	char *path = kept_path("x.db"), *part = kept_path("part.db");
	struct store *s = fixture_open(part);
	struct store_shard shards[2];
	for (int i = 0; i < 2; i++)
		shards[i].run_id =
			write_shard(s, &(struct shard_case){.index = i + 1, .count = 2, .skip = -1, .add = -1});
	store_close(s);
	run_sql(part,
		"INSERT INTO suite_result (run_id, variant_id, suite, task, metric, n, value)"
		" SELECT run_id, variant_id, suite, task, 'own,none', 3, 0.25 FROM suite_result;"
		"UPDATE sample SET metrics = '{\"exact_match,strict-match\": null}' WHERE doc_id = 1");
	struct store *from = reading(part), *to = fixture_open(path);
	shards[0].store = shards[1].store = from;
	int64_t run_id = 0;
	struct buf results = {0};
	CHECK_OK(store_merge(to, shards, 2, &own_math, &run_id, &test_error));
	CHECK_OK(store_results_each(to, run_id, take_result, &results, &test_error));
	char expected[256];
	snprintf(expected, sizeof(expected),
		"gsm8k exact_match,strict-match 6 %g 0.25\ngsm8k own,none 7 0.5 nan\n"
		"gsm8k exact_match,strict-match 7 0.5 nan\ngsm8k own,none 7 0.5 nan\n",
		2.0 / 6);
	ck_assert_str_eq(buf_text(&results), expected);
	buf_free(&results);
	store_close(to);
	store_close(from);
	free(part);
	free(path);
}
END_TEST

START_TEST(shards_are_refused)
{
	char *path = kept_path("x.db");
	char *part = kept_path("part.db");
	struct store *s = fixture_open(part);
	struct store_shard shards[SHARDS];
	size_t n = 0;
	for (int i = 0; i < 2; i++)
		shards[n++].run_id =
			write_shard(s, &(struct shard_case){.index = i + 1, .count = SHARDS, .skip = -1, .add = -1});
	if (refused[_i].third.index)
		shards[n++].run_id = write_shard(s, &refused[_i].third);
	store_close(s);
	struct store *from = reading(part);
	for (size_t i = 0; i < n; i++)
		shards[i].store = from;
	struct store *to = fixture_open(path);
	struct error e = {0};
	int64_t run_id = 7;
	ck_assert_int_eq(store_merge(to, shards, n, &math, &run_id, &e), ERR_INPUT);
	ck_assert_msg(strstr(e.message, refused[_i].says) != NULL, "'%s' lacks '%s'", e.message, refused[_i].says);
	ck_assert_int_eq(run_id, 0);
	/* All of it or nothing. */
	int64_t rows = -1;
	CHECK_OK(store_rows(to, "run", &rows, &test_error));
	ck_assert_int_eq(rows, 0);
	store_close(to);
	store_close(from);
	free(part);
	free(path);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *check = test_case(suite, "check", 0);
	tcase_add_test(check, check_finds_nothing);
	tcase_add_loop_test(check, check_finds, 0, (int)(sizeof(spoilers) / sizeof(spoilers[0])));
	tcase_add_test(check, check_finds_damage);

	TCase *copies = test_case(suite, "copies", 0);
	tcase_add_test(copies, vacuum_waits_for_no_writer);
	tcase_add_test(copies, export_beside_a_writer);

	TCase *merge = test_case(suite, "merge", 0);
	tcase_add_test(merge, shards_are_joined);
	tcase_add_test(merge, results_that_are_no_means);
	tcase_add_loop_test(merge, shards_are_refused, 0, (int)(sizeof(refused) / sizeof(refused[0])));
}
