#include "evals/harness_lines.h"

#include <inttypes.h>
#include <math.h>

#include "engine/base/json_strict.h"

/* What the harness generates where a task does not say. */
enum { HARNESS_TOKENS = 256 };

struct writer {
	const struct suite *suite;
	const char *task;
	int n_filters;
	struct str filters[SUITE_MAX_METRICS]; /* borrowed from the metrics' names */
	struct buf lines[SUITE_MAX_METRICS];   /* by filter */
	struct buf hashes;                     /* of all documents, once */
	struct harness_lines *out;
};

struct str harness_metric(const char *name)
{
	return (struct str){name, strcspn(name, ",")};
}

static struct str filter_of(const char *metric)
{
	const char *comma = strchr(metric, ',');
	return comma ? str_of(comma + 1) : str_of("none");
}

static void find_filters(struct writer *w)
{
	for (int i = 0; i < suite_metric_count(w->suite); i++) {
		struct str filter = filter_of(suite_metric_name(w->suite, i));
		int known = 0;
		while (known < w->n_filters && !str_equal(w->filters[known], filter))
			known++;
		if (known == w->n_filters)
			w->filters[w->n_filters++] = filter;
	}
}

void harness_generation(const struct suite_item *item, struct buf *out)
{
	buf_append_text(out, "{\"until\": [");
	for (int i = 0; i < item->n_until; i++) {
		buf_append_text(out, i ? ", " : "");
		json_write_string(item->until[i], false, out);
	}
	buf_append_text(out, "], \"do_sample\": false, \"temperature\": 0.0");
	if (item->max_tokens != HARNESS_TOKENS)
		buf_printf(out, ", \"max_gen_toks\": %d", item->max_tokens);
	buf_append_char(out, '}');
}

static void append_arguments(const struct suite_item *item, struct buf *out)
{
	int n = item->kind == REQUEST_LOGLIKELIHOOD ? item->n_choices : 1;
	struct buf continuation = {0};
	buf_append_char(out, '{');
	for (int i = 0; i < n; i++) {
		buf_printf(out, "%s\"gen_args_%d\": {\"arg_0\": ", i ? ", " : "", i);
		json_write_string(item->context, false, out);
		buf_append_text(out, ", \"arg_1\": ");
		if (item->kind == REQUEST_LOGLIKELIHOOD) {
			buf_clear(&continuation);
			buf_append_str(&continuation, item->delimiter);
			buf_append_str(&continuation, item->choices[i]);
			json_write_string(buf_str(&continuation), false, out);
		} else {
			harness_generation(item, out);
		}
		buf_append_char(out, '}');
	}
	buf_append_char(out, '}');
	out->failed |= continuation.failed;
	buf_free(&continuation);
}

/* ["-12.5", "True"]: the harness writes what is inside an answer as Python's str(). */
static void append_pair(const struct json *pair, struct buf *out)
{
	const struct json *logprob = json_at(pair, 0);
	buf_append_text(out, "[\"");
	if (json_is(logprob, JSON_NUMBER))
		json_write_double(json_double(logprob), out);
	else
		buf_append_text(out, "nan");
	buf_append_text(out, json_bool(json_at(pair, 1), false) ? "\", \"True\"]" : "\", \"False\"]");
}

static void append_responses(const struct json *response, struct buf *out)
{
	buf_append_text(out, ", \"resps\": [");
	if (json_is(response, JSON_STRING)) {
		buf_append_char(out, '[');
		json_write_string(response->text, false, out);
		buf_append_char(out, ']');
	}
	const char *between = "[";
	JSON_EACH (pair, json_is(response, JSON_ARRAY) ? response : NULL) {
		buf_append_text(out, between);
		append_pair(pair, out);
		buf_append_char(out, ']');
		between = ", [";
	}
	buf_append_char(out, ']');
}

static void append_filtered(
	const struct json *response, const struct json *filtered, struct str filter, struct buf *out)
{
	buf_append_text(out, ", \"filtered_resps\": [");
	const char *between = "";
	if (json_is(response, JSON_STRING)) {
		const struct json *text = json_get_str(filtered, filter);
		json_write_string(json_is(text, JSON_STRING) ? text->text : response->text, false, out);
	}
	JSON_EACH (pair, json_is(response, JSON_ARRAY) ? response : NULL) {
		buf_append_text(out, between);
		append_pair(pair, out);
		between = ", ";
	}
	buf_append_text(out, "], \"filter\": ");
	json_write_string(filter, false, out);
}

/* The names of the filter's metrics, or, with values, their members. */
static void append_metrics(
	const struct suite *s, struct str filter, const struct json *metrics, bool values, struct buf *out)
{
	const char *between = values ? ", " : "";
	for (int i = 0; i < suite_metric_count(s); i++) {
		const char *name = suite_metric_name(s, i);
		if (!str_equal(filter_of(name), filter))
			continue;
		buf_append_text(out, between);
		json_write_string(harness_metric(name), false, out);
		between = ", ";
		if (!values)
			continue;
		const struct json *value = json_get(metrics, name);
		buf_append_text(out, ": ");
		json_write_double_or_null(json_is(value, JSON_NUMBER) ? json_double(value) : NAN, out);
	}
}

static void append_line(struct buf *out, const struct suite *s, const struct suite_item *item,
	const struct store_sample *sample, struct str filter, const struct json *response, const struct json *filtered,
	const struct json *metrics)
{
	buf_printf(out, "{\"doc_id\": %" PRId64 ", \"doc\": ", sample->doc_id);
	json_dump_python(item->doc, -1, false, out);
	buf_append_text(out, ", \"target\": ");
	json_write_string(item->target, false, out);
	buf_append_text(out, ", \"arguments\": ");
	append_arguments(item, out);
	append_responses(response, out);
	append_filtered(response, filtered, filter, out);
	buf_append_text(out, ", \"metrics\": [");
	append_metrics(s, filter, metrics, false, out);
	buf_printf(out, "], \"doc_hash\": \"%s\", \"prompt_hash\": \"%s\", \"target_hash\": \"%s\"", item->doc_hash,
		item->prompt_hash, item->target_hash);
	append_metrics(s, filter, metrics, true, out);
	buf_append_text(out, "}\n");
}

static int check_item(const struct suite_item *item, const struct store_sample *sample, struct error *e)
{
	const struct {
		const char *name, *stored, *made;
	} hashes[] = {{"document", sample->doc_hash, item->doc_hash},
		{"prompt", sample->prompt_hash, item->prompt_hash}, {"target", sample->target_hash, item->target_hash}};
	for (size_t i = 0; i < sizeof(hashes) / sizeof(hashes[0]); i++)
		if (strcmp(hashes[i].stored, hashes[i].made) != 0)
			return error_set(e, ERR_INPUT,
				"the data sets give another %s (%.16s) than the one that was answered (%.16s); "
				"expected --data with those of the run",
				hashes[i].name, hashes[i].made, hashes[i].stored);
	return 0;
}

static int write_sample(void *context, const struct store_sample *sample, struct error *e)
{
	struct writer *w = context;
	struct json_document *response = NULL, *filtered = NULL, *metrics = NULL;
	int status = 0;

	if (strcmp(sample->task, w->task) != 0)
		return 0;
	if (sample->status == SAMPLE_ERROR)
		return error_set(e, ERR_INPUT,
			"%s document %" PRId64 " has no answer, which lm-evaluation-harness has no word for",
			sample->task, sample->doc_id);
	int i = suite_find(w->suite, sample->task, sample->doc_id);
	if (i < 0)
		return error_set(e, ERR_INPUT, "is not among the data sets; expected --data with those of the run");
	const struct suite_item *item = suite_item(w->suite, i);
	TRY(check_item(item, sample, e));
	TRY_CLEANUP(status, json_parse(sample->response, "sample.response", 0, &response, e));
	TRY_CLEANUP(status, json_parse(sample->filtered, "sample.filtered", 0, &filtered, e));
	TRY_CLEANUP(status, json_parse(sample->metrics, "sample.metrics", 0, &metrics, e));
	for (int f = 0; f < w->n_filters; f++) {
		append_line(&w->lines[f], w->suite, item, sample, w->filters[f], json_root(response),
			json_root(filtered), json_root(metrics));
		TRY_CLEANUP(status, buf_check(&w->lines[f], e));
	}
	buf_printf(&w->hashes, "%s%s%s", item->doc_hash, item->prompt_hash, item->target_hash);
	w->out->documents++;
cleanup:
	json_free(response);
	json_free(filtered);
	json_free(metrics);
	return status;
}

/* The harness hashes the hashes of all lines. */
static int hash_task(struct writer *w, struct error *e)
{
	struct sha256 *hash = sha256_new(e);
	if (!hash)
		return ERR_MEMORY;
	for (int f = 0; f < w->n_filters; f++)
		sha256_update(hash, w->hashes.data, w->hashes.length);
	sha256_finish(hash, w->out->task_hash);
	sha256_delete(hash);
	return buf_check(&w->hashes, e);
}

int harness_lines_make(struct store *store, int64_t run_id, int64_t variant_id, const struct suite *suite,
	const char *task, struct harness_lines *out, struct error *e)
{
	struct writer w = {.suite = suite, .task = task, .out = out};
	*out = (struct harness_lines){0};
	find_filters(&w);
	int status = store_samples_each(store, run_id, variant_id, suite_name(suite), write_sample, &w, e);
	if (status == 0)
		status = hash_task(&w, e);
	for (int f = 0; f < w.n_filters; f++) {
		if (status == 0)
			buf_append_str(&out->text, buf_str(&w.lines[f]));
		buf_free(&w.lines[f]);
	}
	buf_free(&w.hashes);
	return status < 0 ? status : buf_check(&out->text, e);
}

void harness_lines_free(struct harness_lines *l)
{
	buf_free(&l->text);
	*l = (struct harness_lines){0};
}
