#include "reports/store_internal.h"

#include <assert.h>
#include <inttypes.h>

static const char *const sample_status_names[SAMPLE_STATUS_COUNT] = {"ok", "truncated", "empty", "error"};

const char *sample_status_name(enum sample_status status)
{
	return sample_status_names[status];
}

static enum sample_status sample_status_of(const char *name)
{
	for (int i = 0; i < SAMPLE_STATUS_COUNT; i++)
		if (name && strcmp(name, sample_status_names[i]) == 0)
			return (enum sample_status)i;
	return SAMPLE_ERROR;
}

/* ---- Variants ---- */

int store_variant_add(struct store *s, const struct store_variant *variant, int64_t *variant_id, struct error *e)
{
	assert(s->run_id);
	TRY(store_check_json(s, variant->facts, "facts", "add a variant", e));
	struct store_binder b = {0};
	TRY(store_prepare(s,
		"INSERT INTO variant (run_id, name, weights_bytes, kv_bytes_per_token, kv_tokens, facts)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
		" ON CONFLICT (run_id, name) DO UPDATE SET weights_bytes = excluded.weights_bytes,"
		" kv_bytes_per_token = excluded.kv_bytes_per_token, kv_tokens = excluded.kv_tokens, facts = "
		"excluded.facts"
		" RETURNING variant_id",
		&b.statement, e));
	bind_int(&b, s->run_id);
	bind_text(&b, variant->name);
	bind_int(&b, variant->weights_bytes);
	bind_int(&b, variant->kv_bytes_per_token);
	bind_int(&b, variant->kv_tokens);
	bind_str(&b, variant->facts);
	int status = store_step(s, b.statement, &b, "add a variant", e);
	if (status == 1) {
		*variant_id = sqlite3_column_int64(b.statement, 0);
		/* The row is written when the statement ends. */
		status = store_step(s, b.statement, NULL, "add a variant", e);
	}
	sqlite3_finalize(b.statement);
	return status;
}

int store_variants_each(struct store *s, int64_t run_id, store_visit_variant *visit, void *context, struct error *e)
{
	struct store_binder b = {0};
	TRY(store_prepare(s,
		"SELECT variant_id, name, weights_bytes, kv_bytes_per_token, kv_tokens, facts FROM variant"
		" WHERE run_id = ?1 ORDER BY variant_id",
		&b.statement, e));
	bind_int(&b, run_id);
	int status;
	while ((status = store_step(s, b.statement, &b, "read the variants", e)) == 1) {
		struct store_variant variant = {
			.variant_id = sqlite3_column_int64(b.statement, 0),
			.name = column_text(b.statement, 1),
			.weights_bytes = sqlite3_column_int64(b.statement, 2),
			.kv_bytes_per_token = sqlite3_column_int64(b.statement, 3),
			.kv_tokens = sqlite3_column_int64(b.statement, 4),
			.facts = column_str(b.statement, 5),
		};
		TRY_CLEANUP(status, visit(context, &variant, e));
	}
cleanup:
	sqlite3_finalize(b.statement);
	return status;
}

/* ---- Samples ---- */

static int sample_failed(struct store *s, const struct store_sample *sample, struct error *e)
{
	if (sqlite3_extended_errcode(s->db) != SQLITE_CONSTRAINT_UNIQUE)
		return store_fail(s, "add a sample", e);
	return error_set(e, ERR_STORE,
		"%s: run %" PRId64 " holds an answer to %s document %" PRId64 " of suite %s already", s->path,
		s->run_id, sample->task, sample->doc_id, sample->suite);
}

static void bind_sample(struct store_binder *b, int64_t run_id, const struct store_sample *sample)
{
	bind_int(b, run_id);
	bind_int(b, sample->variant_id);
	bind_text(b, sample->suite);
	bind_text(b, sample->task);
	bind_int(b, sample->doc_id);
	bind_text(b, sample->doc_hash);
	bind_text(b, sample->prompt_hash);
	bind_text(b, sample->target_hash);
	bind_str(b, sample->response);
	bind_str(b, sample->filtered);
	bind_str(b, sample->metrics);
	bind_str(b, sample->tokens);
	bind_str(b, sample->token_logprobs);
	bind_text(b, sample_status_name(sample->status));
	bind_text(b, sample->finish_reason);
	bind_text(b, sample->error);
	bind_int(b, sample->prompt_tokens);
	bind_int(b, sample->cached_tokens);
	bind_int(b, sample->generated_tokens);
	bind_double(b, sample->seconds);
	bind_int(b, store_clock(CLOCK_REALTIME));
	bind_int(b, sample->context_cut);
}

static int check_sample(struct store *s, const struct store_sample *sample, struct error *e)
{
	const struct {
		const char *name;
		struct str text;
		bool needed;
	} texts[] = {{"response", sample->response, true}, {"filtered", sample->filtered, true},
		{"metrics", sample->metrics, true}, {"tokens", sample->tokens, false},
		{"token_logprobs", sample->token_logprobs, false}};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].needed || texts[i].text.length)
			TRY(store_check_json(s, texts[i].text, texts[i].name, "add a sample", e));
	return 0;
}

int store_sample_insert(struct store *s, const struct store_sample *sample, struct error *e)
{
	assert(s->run_id);
	TRY(check_sample(s, sample, e));
	if (!s->insert_sample)
		TRY(store_prepare(s,
			"INSERT INTO sample (run_id, variant_id, suite, task, doc_id, doc_hash, prompt_hash, "
			"target_hash, response,"
			" filtered, metrics, tokens, token_logprobs, status, finish_reason, error, prompt_tokens, "
			"cached_tokens,"
			" generated_tokens, seconds, finished, context_cut)"
			" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, "
			"?19, ?20, ?21, ?22)",
			&s->insert_sample, e));
	struct store_binder b = {s->insert_sample, 0, SQLITE_OK};
	bind_sample(&b, s->run_id, sample);
	int status = b.failure ? store_step(s, b.statement, &b, "add a sample", e) : 0;
	if (!b.failure && sqlite3_step(b.statement) != SQLITE_DONE)
		status = sample_failed(s, sample, e);
	sqlite3_reset(b.statement);
	sqlite3_clear_bindings(b.statement);
	return status < 0 ? status : store_run_beat(s, e);
}

/* Takes away the error that the run holds for that item. */
static int delete_failed(struct store *s, const struct store_sample *sample, struct error *e)
{
	struct store_binder b = {0};
	TRY(store_prepare(s,
		"DELETE FROM sample WHERE run_id = ?1 AND variant_id = ?2 AND suite = ?3 AND task = ?4 AND doc_id = ?5"
		" AND status = 'error'",
		&b.statement, e));
	bind_int(&b, s->run_id);
	bind_int(&b, sample->variant_id);
	bind_text(&b, sample->suite);
	bind_text(&b, sample->task);
	bind_int(&b, sample->doc_id);
	TRY(store_run_statement(s, &b, "answer an item again", e));
	if (sqlite3_changes(s->db) == 1)
		return 0;
	return error_set(e, ERR_STORE,
		"%s: run %" PRId64 " holds no error of %s document %" PRId64
		" of suite %s that could be answered again",
		s->path, s->run_id, sample->task, sample->doc_id, sample->suite);
}

int store_sample_retry(struct store *s, const struct store_sample *sample, struct error *e)
{
	assert(s->run_id);
	TRY(store_begin(s, "answer an item again", e));
	int status = delete_failed(s, sample, e);
	if (status == 0)
		status = store_sample_insert(s, sample, e);
	return store_end(s, status, "answer an item again", e);
}

int store_sample_answered(struct store *s, int64_t variant_id, const char *suite, const char *task, int64_t doc_id,
	const char *doc_hash, const char *prompt_hash, enum store_answered *answered, struct error *e)
{
	assert(s->run_id);
	if (!s->find_sample)
		TRY(store_prepare(s,
			"SELECT doc_hash = ?6 AND prompt_hash = ?7, status = 'error' FROM sample"
			" WHERE run_id = ?1 AND variant_id = ?2 AND suite = ?3 AND task = ?4 AND doc_id = ?5",
			&s->find_sample, e));
	struct store_binder b = {s->find_sample, 0, SQLITE_OK};
	bind_int(&b, s->run_id);
	bind_int(&b, variant_id);
	bind_text(&b, suite);
	bind_text(&b, task);
	bind_int(&b, doc_id);
	bind_text(&b, doc_hash);
	bind_text(&b, prompt_hash);
	int status = store_step(s, b.statement, &b, "look for a sample", e);
	if (status >= 0) {
		bool same = status == 1 && sqlite3_column_int(b.statement, 0);
		bool failed = status == 1 && sqlite3_column_int(b.statement, 1);
		*answered = status == 0 ? STORE_NEW : !same ? STORE_CHANGED : failed ? STORE_FAILED : STORE_ANSWERED;
	}
	sqlite3_reset(b.statement);
	sqlite3_clear_bindings(b.statement);
	return status < 0 ? status : 0;
}

static void read_sample(sqlite3_stmt *row, struct store_sample *sample)
{
	*sample = (struct store_sample){
		.variant_id = sqlite3_column_int64(row, 0),
		.suite = column_text(row, 1),
		.task = column_text(row, 2),
		.doc_id = sqlite3_column_int64(row, 3),
		.doc_hash = column_text(row, 4),
		.prompt_hash = column_text(row, 5),
		.target_hash = column_text(row, 6),
		.response = column_str(row, 7),
		.filtered = column_str(row, 8),
		.metrics = column_str(row, 9),
		.tokens = column_str(row, 10),
		.token_logprobs = column_str(row, 11),
		.status = sample_status_of(column_text(row, 12)),
		.finish_reason = column_text(row, 13),
		.error = column_text(row, 14),
		.prompt_tokens = sqlite3_column_int64(row, 15),
		.cached_tokens = sqlite3_column_int64(row, 16),
		.generated_tokens = sqlite3_column_int64(row, 17),
		.seconds = sqlite3_column_double(row, 18),
		.context_cut = sqlite3_column_int64(row, 19),
	};
}

/* What is wrong with a sample's texts is found by whoever reads them, who need not know where they stand. */
static int visit_sample(struct store *s, int64_t run_id, const struct store_sample *sample, store_visit_sample *visit,
	void *context, struct error *e)
{
	int status = visit(context, sample, e);
	if (status != ERR_INPUT)
		return status;
	return error_prefix(e, "%.300s: run %" PRId64 ": suite %.80s: %.80s document %" PRId64, s->path, run_id,
		sample->suite, sample->task, sample->doc_id);
}

int store_samples_each(struct store *s, int64_t run_id, int64_t variant_id, const char *suite,
	store_visit_sample *visit, void *context, struct error *e)
{
	struct store_binder b = {0};
	TRY(store_prepare(s,
		"SELECT variant_id, suite, task, doc_id, doc_hash, prompt_hash, target_hash, response, filtered, "
		"metrics, tokens,"
		" token_logprobs, status, finish_reason, error, prompt_tokens, cached_tokens, generated_tokens, "
		"seconds, context_cut FROM sample"
		" WHERE run_id = ?1 AND (?2 = 0 OR variant_id = ?2) AND (?3 IS NULL OR suite = ?3)"
		" ORDER BY variant_id, suite, task, doc_id",
		&b.statement, e));
	bind_int(&b, run_id);
	bind_int(&b, variant_id);
	bind_text(&b, suite);
	int status;
	while ((status = store_step(s, b.statement, &b, "read the samples", e)) == 1) {
		struct store_sample sample;
		read_sample(b.statement, &sample);
		TRY_CLEANUP(status, visit_sample(s, run_id, &sample, visit, context, e));
	}
cleanup:
	sqlite3_finalize(b.statement);
	return status;
}

int store_counts_each(struct store *s, int64_t run_id, store_visit_count *visit, void *context, struct error *e)
{
	struct store_binder b = {0};
	TRY(store_prepare(s,
		"SELECT variant_id, suite, count(*), sum(status = 'ok'), sum(status = 'truncated'), sum(status = "
		"'empty'),"
		" sum(status = 'error'), sum(prompt_tokens), sum(cached_tokens), sum(generated_tokens),"
		" sum(context_cut > 0) FROM sample"
		" WHERE run_id = ?1 GROUP BY variant_id, suite ORDER BY variant_id, min(sample_id)",
		&b.statement, e));
	bind_int(&b, run_id);
	int status;
	while ((status = store_step(s, b.statement, &b, "count the samples", e)) == 1) {
		struct store_count count = {
			.variant_id = sqlite3_column_int64(b.statement, 0),
			.suite = column_text(b.statement, 1),
			.n = sqlite3_column_int64(b.statement, 2),
			.prompt_tokens = sqlite3_column_int64(b.statement, 7),
			.cached_tokens = sqlite3_column_int64(b.statement, 8),
			.generated_tokens = sqlite3_column_int64(b.statement, 9),
			.contexts_cut = sqlite3_column_int64(b.statement, 10),
		};
		for (int i = 0; i < SAMPLE_STATUS_COUNT; i++)
			count.by_status[i] = sqlite3_column_int64(b.statement, 3 + i);
		TRY_CLEANUP(status, visit(context, &count, e));
	}
cleanup:
	sqlite3_finalize(b.statement);
	return status;
}

/* ---- Results of suites ---- */

int store_suite_result_put(struct store *s, const struct store_result *result, struct error *e)
{
	assert(s->run_id);
	struct store_binder b = {0};
	TRY(store_prepare(s,
		"INSERT INTO suite_result (run_id, variant_id, suite, task, metric, n, value, stderr)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
		" ON CONFLICT (run_id, variant_id, suite, task, metric)"
		" DO UPDATE SET n = excluded.n, value = excluded.value, stderr = excluded.stderr",
		&b.statement, e));
	bind_int(&b, s->run_id);
	bind_int(&b, result->variant_id);
	bind_text(&b, result->suite);
	bind_text(&b, result->task ? result->task : result->suite);
	bind_text(&b, result->metric);
	bind_int(&b, result->n);
	bind_double(&b, result->value);
	bind_double(&b, result->stderr_value);
	return store_run_statement(s, &b, "store a result", e);
}

int store_results_each(struct store *s, int64_t run_id, store_visit_result *visit, void *context, struct error *e)
{
	struct store_binder b = {0};
	TRY(store_prepare(s,
		"SELECT variant_id, suite, task, metric, n, value, stderr FROM suite_result WHERE run_id = ?1"
		" ORDER BY min(suite_result_id) OVER (PARTITION BY suite), min(suite_result_id) OVER (PARTITION BY "
		"suite, task,"
		" metric), variant_id",
		&b.statement, e));
	bind_int(&b, run_id);
	int status;
	while ((status = store_step(s, b.statement, &b, "read the results", e)) == 1) {
		struct store_result result = {
			.variant_id = sqlite3_column_int64(b.statement, 0),
			.suite = column_text(b.statement, 1),
			.task = column_text(b.statement, 2),
			.metric = column_text(b.statement, 3),
			.n = sqlite3_column_int64(b.statement, 4),
			.value = column_double(b.statement, 5),
			.stderr_value = column_double(b.statement, 6),
		};
		TRY_CLEANUP(status, visit(context, &result, e));
	}
cleanup:
	sqlite3_finalize(b.statement);
	return status;
}
