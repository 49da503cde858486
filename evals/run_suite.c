#include "evals/run_suite.h"

#include <math.h>
#include <stdlib.h>

struct evaluation {
	struct store *store;
	int64_t run_id, variant_id;
	struct suite *suite;
	bool *failed; /* [items of the suite] the store holds an error of it, which this answer replaces */
	struct shard shard;
	struct target *target;
	struct suite_outcome *outcome;
	struct progress progress;
	int items;    /* of the suite that are in the shard */
	int64_t done; /* answered now and before */
};

/* ---- one answer to one row ---- */

/* A sample's JSON texts. */
struct texts {
	struct buf response, filtered, metrics, tokens, logprobs;
};

static void texts_free(struct texts *t)
{
	struct buf *all[] = {&t->response, &t->filtered, &t->metrics, &t->tokens, &t->logprobs};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		buf_free(all[i]);
}

static void append_response(const struct target_answer *a, struct texts *t)
{
	if (a->error.code) {
		buf_append_text(&t->response, "null");
		return;
	}
	if (a->item->kind == REQUEST_GENERATE) {
		json_write_string(a->answer.text, false, &t->response);
		for (int i = 0; i < a->n_generated; i++) {
			buf_printf(&t->tokens, "%s%d", i ? "," : "[", a->tokens[i]);
			buf_append_char(&t->logprobs, i ? ',' : '[');
			json_write_float(a->logprobs[i], &t->logprobs);
		}
		buf_append_text(&t->tokens, a->n_generated ? "]" : "[]");
		buf_append_text(&t->logprobs, a->n_generated ? "]" : "[]");
		return;
	}
	for (int i = 0; i < a->item->n_choices; i++) {
		buf_append_text(&t->response, i ? ", [" : "[[");
		json_write_double_or_null(a->answer.logprobs[i], &t->response);
		buf_append_text(&t->response, a->answer.is_greedy[i] ? ", true]" : ", false]");
	}
	buf_append_char(&t->response, ']');
}

static void append_score(const struct item_score *score, struct texts *t)
{
	buf_append_char(&t->filtered, '{');
	for (int i = 0; i < score->n_filters; i++) {
		buf_append_text(&t->filtered, i ? ", " : "");
		json_write_string(str_of(score->filter[i]), false, &t->filtered);
		buf_append_text(&t->filtered, ": ");
		json_write_string(buf_str(&score->filtered[i]), false, &t->filtered);
	}
	buf_append_char(&t->filtered, '}');
	buf_append_char(&t->metrics, '{');
	for (int i = 0; i < score->n_metrics; i++) {
		buf_append_text(&t->metrics, i ? ", " : "");
		json_write_string(str_of(score->metric[i]), false, &t->metrics);
		buf_append_text(&t->metrics, ": ");
		json_write_double_or_null(score->value[i], &t->metrics);
	}
	buf_append_char(&t->metrics, '}');
}

static enum sample_status answer_status(const struct target_answer *a)
{
	if (a->error.code)
		return SAMPLE_ERROR;
	if (a->item->kind != REQUEST_GENERATE)
		return SAMPLE_OK;
	if (a->finish == ENGINE_LENGTH)
		return SAMPLE_TRUNCATED;
	return a->answer.text.length == 0 ? SAMPLE_EMPTY : SAMPLE_OK;
}

/* An answer that cannot be judged is an error of its item. */
static void answer_score(const struct evaluation *v, struct target_answer *a, struct item_score *score)
{
	struct error e = {0};
	if (a->error.code == 0 && suite_score(v->suite, a->item, &a->answer, score, &e) < 0)
		a->error = e;
}

static int sample_put(const struct evaluation *v, const struct store_sample *row, struct error *e)
{
	int item = suite_find(v->suite, row->task, row->doc_id);
	return v->failed[item] ? store_sample_retry(v->store, row, e) : store_sample_insert(v->store, row, e);
}

static int sample_store(struct evaluation *v, struct target_answer *a, struct error *e)
{
	const struct suite_item *item = a->item;
	struct item_score score = {0};
	struct texts t = {0};
	int status = 0;

	answer_score(v, a, &score);
	append_response(a, &t);
	append_score(&score, &t);
	struct store_sample row = {.variant_id = v->variant_id,
		.suite = suite_name(v->suite),
		.task = item->task,
		.doc_id = item->doc_id,
		.doc_hash = item->doc_hash,
		.prompt_hash = item->prompt_hash,
		.target_hash = item->target_hash,
		.response = buf_str(&t.response),
		.filtered = buf_str(&t.filtered),
		.metrics = buf_str(&t.metrics),
		.tokens = buf_str(&t.tokens),
		.token_logprobs = buf_str(&t.logprobs),
		.status = answer_status(a),
		.finish_reason =
			item->kind == REQUEST_GENERATE && !a->error.code ? engine_finish_name(a->finish) : NULL,
		.error = a->error.code ? a->error.message : NULL,
		.prompt_tokens = a->prompt_tokens,
		.cached_tokens = a->cached_tokens,
		.generated_tokens = a->n_generated,
		.context_cut = a->context_cut,
		.seconds = a->seconds};
	const struct buf *all[] = {&t.response, &t.filtered, &t.metrics, &t.tokens, &t.logprobs};
	for (size_t i = 0; i < sizeof all / sizeof *all && status == 0; i++)
		status = buf_check(all[i], e);
	if (status == 0)
		status = sample_put(v, &row, e);
	texts_free(&t);
	item_score_free(&score);
	return status;
}

/* ---- all answers ---- */

static int answer_take(struct evaluation *v, struct error *e)
{
	struct target_answer *a = NULL;

	TRY(target_take(v->target, &a, e));
	int status = sample_store(v, a, e);
	if (a->error.code) {
		if (v->outcome->errors++ == 0)
			v->outcome->first_error = a->error;
	}
	v->outcome->contexts_cut += a->context_cut > 0;
	target_answer_free(a);
	progress_update(&v->progress, ++v->done);
	return status;
}

/* Items of the shard that are not answered yet, in order. ERR_INPUT when the data changed under an interrupted run. */
static int pending_items(struct evaluation *v, int *pending, int *n_pending, struct error *e)
{
	for (int i = 0; i < suite_count(v->suite); i++) {
		const struct suite_item *item = suite_item(v->suite, i);
		enum store_answered answered;
		if (!shard_holds(v->shard, item->doc_id))
			continue;
		v->items++;
		TRY(store_sample_answered(v->store, v->variant_id, suite_name(v->suite), item->task, item->doc_id,
			item->doc_hash, item->prompt_hash, &answered, e));
		if (answered == STORE_CHANGED)
			return error_set(e, ERR_INPUT,
				"%s item %d of the stored run has another document or prompt: the data changed",
				item->task, item->doc_id);
		v->failed[i] = answered == STORE_FAILED;
		v->outcome->tried_again += v->failed[i];
		if (answered == STORE_NEW || answered == STORE_FAILED)
			pending[(*n_pending)++] = i;
	}
	return 0;
}

static int answer_pending(struct evaluation *v, const int *pending, int n_pending, struct error *e)
{
	for (int next = 0; next < n_pending || target_in_flight(v->target) > 0;) {
		if (interrupted())
			return error_set(e, ERR_INTERRUPTED, "interrupted: the same command goes on where it stopped");
		if (next < n_pending && target_has_room(v->target))
			TRY(target_submit(v->target, suite_item(v->suite, pending[next++]), e));
		else
			TRY(answer_take(v, e));
	}
	return 0;
}

/* ---- results ---- */

struct columns { /* values of each metric over the items */
	struct evaluation *evaluation;
	double *values; /* [metrics, items] */
	bool *scored;   /* [items] */
};

static int column_visit(void *context, const struct store_sample *sample, struct error *e)
{
	struct columns *c = context;
	const struct suite *suite = c->evaluation->suite;
	struct json_document *document = NULL;
	int item = suite_find(suite, sample->task, sample->doc_id);

	if (sample->status == SAMPLE_ERROR || item < 0)
		return 0;
	TRY(json_parse(sample->metrics, "sample.metrics", JSON_LAST_KEY_WINS, &document, e));
	for (int m = 0; m < suite_metric_count(suite); m++) {
		const struct json *value = json_get(json_root(document), suite_metric_name(suite, m));
		c->values[(size_t)m * (size_t)suite_count(suite) + (size_t)item] =
			json_is(value, JSON_NUMBER) ? json_double(value) : NAN;
	}
	c->scored[item] = true;
	json_free(document);
	return 0;
}

static int result_put(void *context, const char *task, const struct metric_summary *summary, struct error *e)
{
	const struct evaluation *v = context;
	const struct store_result result = {.variant_id = v->variant_id,
		.suite = suite_name(v->suite),
		.task = task,
		.metric = summary->name,
		.n = summary->n,
		.value = summary->value,
		.stderr_value = summary->stderr_value};
	return store_suite_result_put(v->store, &result, e);
}

static int results_put(struct evaluation *v, struct error *e)
{
	const struct suite *suite = v->suite;
	size_t items = (size_t)suite_count(suite);
	struct columns c = {.evaluation = v};
	int status = 0;

	c.values = mem_calloc((size_t)suite_metric_count(suite) * items + 1, sizeof *c.values, e);
	c.scored = mem_calloc(items + 1, sizeof *c.scored, e);
	if (!c.values || !c.scored)
		TRY_CLEANUP(status, ERR_MEMORY);
	TRY_CLEANUP(
		status, store_samples_each(v->store, v->run_id, v->variant_id, suite_name(suite), column_visit, &c, e));
	TRY_CLEANUP(status, suite_summarize(suite, c.values, c.scored, result_put, v, e));
cleanup:
	free(c.values);
	free(c.scored);
	return status;
}

int run_suite(struct store *store, int64_t run_id, int64_t variant_id, struct suite *suite, struct shard shard,
	struct target *target, struct console *console, const char *label, struct suite_outcome *outcome,
	struct error *e)
{
	struct evaluation v = {.store = store,
		.run_id = run_id,
		.variant_id = variant_id,
		.suite = suite,
		.shard = shard,
		.target = target,
		.outcome = outcome};
	int n_pending = 0, *pending = mem_calloc((size_t)suite_count(suite) + 1, sizeof *pending, e);

	*outcome = (struct suite_outcome){0};
	v.failed = mem_calloc((size_t)suite_count(suite) + 1, sizeof *v.failed, e);
	int status = pending && v.failed ? 0 : ERR_MEMORY;
	if (status == 0)
		status = pending_items(&v, pending, &n_pending, e);
	outcome->items = v.items;
	v.done = outcome->answered_before = v.items - n_pending;
	if (status == 0) {
		progress_begin(&v.progress, console, label, v.items, v.done);
		status = answer_pending(&v, pending, n_pending, e);
		progress_end(&v.progress);
	}
	if (status == 0)
		status = results_put(&v, e);
	free(v.failed);
	free(pending);
	return status;
}
