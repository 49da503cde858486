#include "evals/run_divergence.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "evals/cli.h"
#include "evals/divergence.h"

struct measurement {
	struct store *store;
	int64_t variant_id;
	const struct divergence_source *source;
	struct shard shard;
	struct engine *baseline, *engine;
	struct suite_outcome *outcome;
	int vocab, piece;                /* piece: rows that the buffers hold */
	float *baseline_rows, *rows;     /* [piece, vocab]; NULL for the baseline itself */
	struct token_divergence *tokens; /* [capacity] of the document in hand */
	int capacity;
};

/* ---- one document ---- */

/* Runs one request to its end. *result is the caller's. */
static int request_run(
	struct engine *engine, const struct engine_request *r, struct engine_result **result, struct error *e)
{
	uint64_t id;
	TRY(engine_submit(engine, r, &id, e));
	while (!(*result = engine_poll(engine))) {
		bool idle;
		TRY(engine_step(engine, &idle, e));
	}
	if ((*result)->finish != ENGINE_FAILED)
		return 0;
	*e = (*result)->error;
	engine_result_free(*result);
	*result = NULL;
	return e->code;
}

/* The rows that predict tokens [from, to). */
static int rows_read(
	struct engine *engine, const struct divergence_document *d, int from, int to, float *rows, struct error *e)
{
	struct engine_request r = {.tokens = d->tokens, .n_tokens = to - 1, .logprobs_from = from, .rows = rows};
	struct engine_result *result;
	TRY(request_run(engine, &r, &result, e));
	engine_result_free(result);
	return 0;
}

static int measure_against_baseline(struct measurement *m, const struct divergence_document *d, struct error *e)
{
	for (int from = d->from, to; from < d->n_tokens; from = to) {
		to = d->n_tokens - from > m->piece ? from + m->piece : d->n_tokens;
		TRY(rows_read(m->baseline, d, from, to, m->baseline_rows, e));
		TRY(rows_read(m->engine, d, from, to, m->rows, e));
		for (int t = from; t < to; t++) {
			size_t row = (size_t)(t - from) * (size_t)m->vocab;
			divergence_of_rows(
				m->baseline_rows + row, m->rows + row, m->vocab, d->tokens[t], &m->tokens[t - d->from]);
		}
	}
	return 0;
}

static int measure_baseline(struct measurement *m, const struct divergence_document *d, struct error *e)
{
	struct engine_request r = {.tokens = d->tokens, .n_tokens = d->n_tokens, .logprobs_from = d->from};
	struct engine_result *result;
	TRY(request_run(m->engine, &r, &result, e));
	for (int i = 0; i < result->n_prompt_logprobs; i++)
		m->tokens[i] = (struct token_divergence){.logprob = (double)result->prompt_logprobs[i]};
	engine_result_free(result);
	return 0;
}

/* A token that a variant cannot have leaves no ratio; NaN is no value at all. */
static int check_tokens(const struct measurement *m, const struct divergence_document *d, struct error *e)
{
	for (int i = 0; i < d->n_tokens - d->from; i++) {
		const struct token_divergence *t = &m->tokens[i];
		if (isnan(t->kl) || isnan(t->logprob))
			return error_set(
				e, ERR_INPUT, "the model's log-probabilities of token %d are not numbers", d->from + i);
		if (isinf(t->logprob) || isinf(t->baseline_logprob))
			return error_set(e, ERR_INPUT, "token %d, id %d, has no probability at all", d->from + i,
				d->tokens[d->from + i]);
	}
	return 0;
}

static int document_measure(struct measurement *m, const struct divergence_document *d, struct error *e)
{
	int n = d->n_tokens - d->from;
	if (n > m->capacity) {
		struct token_divergence *grown = reallocarray(m->tokens, (size_t)n, sizeof(*grown));
		if (!grown)
			return error_set(e, ERR_MEMORY, "no memory for a document of %d tokens", n);
		m->tokens = grown;
		m->capacity = n;
	}
	TRY(m->baseline ? measure_against_baseline(m, d, e) : measure_baseline(m, d, e));
	return check_tokens(m, d, e);
}

/* ---- its row in the store ---- */

struct texts {
	struct buf response, metrics, tokens, logprobs;
};

static void append_number(struct buf *out, int i, double value)
{
	buf_append_text(out, i ? ", " : "");
	json_write_double_or_null(value, out);
}

/* What each token came to: {"kl": [...], "delta_logprob": [...], "flips": [places]}. */
static void append_response(const struct measurement *m, int n, struct buf *out)
{
	const char *between = "";
	buf_append_text(out, "{\"kl\": [");
	for (int i = 0; i < n; i++)
		append_number(out, i, m->tokens[i].kl);
	buf_append_text(out, "], \"delta_logprob\": [");
	for (int i = 0; i < n; i++)
		append_number(out, i, m->tokens[i].logprob - m->tokens[i].baseline_logprob);
	buf_append_text(out, "], \"flips\": [");
	for (int i = 0; i < n; i++) {
		if (!m->tokens[i].flip)
			continue;
		buf_printf(out, "%s%d", between, i);
		between = ", ";
	}
	buf_append_text(out, "]}");
}

/* Means over the document's tokens. */
static void append_metrics(const struct measurement *m, int n, struct buf *out)
{
	double kl = 0, kl_max = 0, delta = 0, logprob = 0, flips = 0;
	for (int i = 0; i < n; i++) {
		const struct token_divergence *t = &m->tokens[i];
		kl += t->kl;
		kl_max = t->kl > kl_max ? t->kl : kl_max;
		delta += t->logprob - t->baseline_logprob;
		logprob += t->logprob;
		flips += t->flip;
	}
	const struct {
		const char *name;
		double value;
	} rows[] = {{"logprob,none", logprob / n}, {"kl,none", kl / n}, {"kl_max,none", kl_max},
		{"flips,none", flips / n}, {"delta_logprob,none", delta / n}};
	size_t count = m->baseline ? sizeof(rows) / sizeof(rows[0]) : 1;
	for (size_t i = 0; i < count; i++) {
		buf_printf(out, "%s\"%s\": ", i ? ", " : "{", rows[i].name);
		json_write_double_or_null(rows[i].value, out);
	}
	buf_append_char(out, '}');
}

static void append_tokens(const struct measurement *m, const struct divergence_document *d, struct texts *t)
{
	for (int i = 0; i < d->n_tokens - d->from; i++) {
		buf_printf(&t->tokens, "%s%d", i ? "," : "[", d->tokens[d->from + i]);
		buf_append_char(&t->logprobs, i ? ',' : '[');
		json_write_float((float)m->tokens[i].logprob, &t->logprobs);
	}
	buf_append_char(&t->tokens, ']');
	buf_append_char(&t->logprobs, ']');
}

/* again: in place of an error that is stored. */
static int document_store(struct measurement *m, const struct divergence_document *d, bool again,
	const struct error *failure, double seconds, struct error *e)
{
	struct texts t = {0};
	int n = d->n_tokens - d->from, status = 0;

	if (!failure->code) {
		append_metrics(m, n, &t.metrics);
		append_tokens(m, d, &t);
		if (m->baseline)
			append_response(m, n, &t.response);
	}
	struct store_sample row = {.variant_id = m->variant_id,
		.suite = divergence_suite,
		.task = d->task,
		.doc_id = d->doc_id,
		.doc_hash = d->doc_hash,
		.prompt_hash = d->prompt_hash,
		.target_hash = d->target_hash,
		.response = t.response.length ? buf_str(&t.response) : str_of("null"),
		.filtered = str_of("{}"),
		.metrics = t.metrics.length ? buf_str(&t.metrics) : str_of("{}"),
		.tokens = buf_str(&t.tokens),
		.token_logprobs = buf_str(&t.logprobs),
		.status = failure->code ? SAMPLE_ERROR : SAMPLE_OK,
		.error = failure->code ? failure->message : NULL,
		.prompt_tokens = d->n_tokens - 1, /* the last one is scored, not read */
		.seconds = seconds};
	struct buf *all[] = {&t.response, &t.metrics, &t.tokens, &t.logprobs};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && status == 0; i++)
		status = buf_check(all[i], e);
	if (status == 0)
		status = again ? store_sample_retry(m->store, &row, e) : store_sample_insert(m->store, &row, e);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		buf_free(all[i]);
	return status;
}

/* ---- all documents ---- */

static double seconds_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int document_run(struct measurement *m, const struct divergence_document *d, struct error *e)
{
	enum store_answered answered;
	struct error failure = {0};

	m->outcome->items++;
	TRY(store_sample_answered(m->store, m->variant_id, divergence_suite, d->task, d->doc_id, d->doc_hash,
		d->prompt_hash, &answered, e));
	if (answered == STORE_CHANGED)
		return error_set(e, ERR_INPUT,
			"%s document %lld of the stored run has another text or prompt: the data changed", d->task,
			(long long)d->doc_id);
	if (answered == STORE_ANSWERED) {
		m->outcome->answered_before++;
		return 0;
	}
	double begun = seconds_now();
	int status = document_measure(m, d, &failure);
	if (status == ERR_MEMORY || status == ERR_DEVICE) {
		*e = failure;
		return status;
	}
	if (status < 0 && m->outcome->errors++ == 0)
		m->outcome->first_error = failure;
	return document_store(m, d, answered == STORE_FAILED, &failure, seconds_now() - begun, e);
}

static int documents_run(struct measurement *m, struct progress *progress, struct error *e)
{
	for (int i = 0; i < divergence_source_count(m->source); i++) {
		struct divergence_document d;
		if (interrupted())
			return error_set(e, ERR_INTERRUPTED, "interrupted: the same command goes on where it stopped");
		TRY(divergence_document_make(m->source, i, &d, e));
		int status = shard_holds(m->shard, d.doc_id) ? document_run(m, &d, e) : 0;
		divergence_document_free(&d);
		TRY(status);
		progress_update(progress, i + 1);
	}
	return 0;
}

static int rows_alloc(struct measurement *m, size_t bytes, struct error *e)
{
	size_t row = (size_t)m->vocab * sizeof(float);
	size_t most = bytes / row;
	m->piece = most < 1 ? 1 : most > INT_MAX ? INT_MAX : (int)most;
	if (!m->baseline)
		return 0;
	m->baseline_rows = mem_calloc((size_t)m->piece, row, e);
	m->rows = mem_calloc((size_t)m->piece, row, e);
	return m->baseline_rows && m->rows ? 0 : ERR_MEMORY;
}

int run_divergence(struct store *store, int64_t run_id, int64_t variant_id, const struct divergence_source *source,
	struct shard shard, struct engine *baseline, struct engine *engine, size_t rows_bytes, struct console *console,
	const char *label, struct suite_outcome *outcome, struct error *e)
{
	struct measurement m = {.store = store,
		.variant_id = variant_id,
		.source = source,
		.shard = shard,
		.baseline = baseline,
		.engine = engine,
		.outcome = outcome,
		.vocab = engine_facts(engine)->vocab_size};
	struct progress progress;

	*outcome = (struct suite_outcome){0};
	int status = rows_alloc(&m, rows_bytes, e);
	if (status == 0) {
		progress_begin(&progress, console, label, divergence_source_count(source), 0);
		status = documents_run(&m, &progress, e);
		progress_end(&progress);
	}
	if (status == 0)
		status = divergence_results_put(store, run_id, variant_id, e);
	free(m.baseline_rows);
	free(m.rows);
	free(m.tokens);
	return status;
}
