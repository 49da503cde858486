#include "reports/report_tables.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "engine/base/json_strict.h"
#include "reports/pivot.h"
#include "reports/stats.h"

void report_variant_label(const struct report_data *data, const struct report_run *run, size_t variant, struct buf *out)
{
	buf_append_text(out, run->variants[variant].name);
	if (data->n_runs > 1)
		buf_printf(out, " (run %" PRId64 ")", run->run.run_id);
}

static void label_cell(
	struct report_table *t, const struct report_data *data, const struct report_run *run, size_t variant)
{
	struct buf label = {0};
	report_variant_label(data, run, variant, &label);
	table_str(t, buf_str(&label));
	t->failed = t->failed || label.failed;
	buf_free(&label);
}

/* "int4/fp8" in its two parts; false for a phase-split variant. */
static bool split_variant(const char *name, char *weights, char *kv, size_t size)
{
	const char *slash = strchr(name, '/');
	if (!slash || strchr(name, '>') || strlen(name) >= size)
		return false;
	memcpy(weights, name, (size_t)(slash - name));
	weights[slash - name] = '\0';
	snprintf(kv, size, "%s", slash + 1);
	return true;
}

/* Moves the pivot into a table, where it compares at least two columns. */
static int add_pivot(struct pivot *p, const char *id, const char *title, const char *const *keys, int digits,
	const char *note, struct table_list *out, struct error *e)
{
	int status = p->failed ? error_set(e, ERR_MEMORY, "no memory for the table %s", id) : 0;
	if (status == 0 && pivot_columns(p) > 1) {
		struct report_table *t = table_list_add(out, id, title, e);
		status = t ? pivot_table(p, keys, digits, t, e) : ERR_MEMORY;
		if (t)
			buf_append_text(&t->note, note);
	}
	pivot_free(p);
	return status;
}

/* ---- Accuracy ---- */

/* by: 'k' KV format, 'w' weight format, 'r' run. */
static int accuracy_pivot(const struct report_data *data, char by, const char *id, const char *title,
	struct table_list *out, struct error *e)
{
	static const char *const fixed[] = {"weights", "KV", "variant"};
	const char *names[] = {"task", "metric", by == 'k' ? fixed[0] : by == 'w' ? fixed[1] : fixed[2], "run"};
	struct pivot p = {.n_keys = by == 'r' || data->n_runs == 1 ? 3 : 4};
	for (size_t r = 0; r < data->n_runs; r++) {
		const struct report_run *run = &data->runs[r];
		char number[32], weights[64], kv[64];
		snprintf(number, sizeof(number), "%" PRId64, run->run.run_id);
		for (size_t i = 0; i < run->n_results; i++) {
			const struct report_result *x = &run->results[i];
			const char *name = run->variants[x->variant].name;
			bool simple = split_variant(name, weights, kv, sizeof(kv));
			const char *keys[] = {x->task, x->metric, by == 'k' ? weights : by == 'w' ? kv : name, number};
			if (by == 'r')
				pivot_add(&p, keys, number, x->value);
			else if (simple)
				pivot_add(&p, keys, by == 'k' ? kv : weights, x->value);
		}
	}
	return add_pivot(&p, id, title, names, 4, "", out, e);
}

static int results_table(const struct report_data *data, struct table_list *out, struct error *e)
{
	struct report_table *t = table_list_add(out, "results", "Results of every task", e);
	if (!t)
		return ERR_MEMORY;
	table_text_column(t, "task");
	table_text_column(t, "metric");
	table_text_column(t, "variant");
	table_number_column(t, "n");
	table_number_column(t, "value");
	table_number_column(t, "± stderr");
	for (size_t r = 0; r < data->n_runs; r++)
		for (size_t i = 0; i < data->runs[r].n_results; i++) {
			const struct report_result *x = &data->runs[r].results[i];
			table_text(t, x->task);
			table_text(t, x->metric);
			label_cell(t, data, &data->runs[r], x->variant);
			table_int(t, x->n);
			table_number(t, x->value, 4);
			table_number(t, x->stderr_value, 4);
		}
	return 0;
}

int report_accuracy_tables(const struct report_data *data, struct table_list *out, struct error *e)
{
	TRY(accuracy_pivot(data, 'k', "accuracy_by_kv", "Accuracy by KV format", out, e));
	TRY(accuracy_pivot(data, 'w', "accuracy_by_weights", "Accuracy by weight format", out, e));
	if (data->n_runs > 1)
		TRY(accuracy_pivot(data, 'r', "accuracy_by_run", "Accuracy by run", out, e));
	return results_table(data, out, e);
}

/* ---- Capacity ---- */

int report_capacity_table(const struct report_data *data, struct table_list *out, struct error *e)
{
	struct report_table *t = table_list_add(out, "capacity", "Capacity and checkpoint size by format", e);
	if (!t)
		return ERR_MEMORY;
	table_text_column(t, "variant");
	table_number_column(t, "weights, MiB");
	table_number_column(t, "of its run's first, %");
	table_number_column(t, "KV bytes per token");
	table_number_column(t, "KV budget, MiB");
	table_number_column(t, "KV tokens");
	table_number_column(t, "of its run's first, %");
	for (size_t r = 0; r < data->n_runs; r++)
		for (size_t i = 0; i < data->runs[r].n_variants; i++) {
			const struct report_variant *v = &data->runs[r].variants[i];
			const struct report_variant *first = data->runs[r].variants;
			label_cell(t, data, &data->runs[r], i);
			table_number(t, (double)v->weights_bytes / 1048576, 2);
			table_percent(t, (double)v->weights_bytes / (double)first->weights_bytes, 1);
			table_int(t, v->kv_bytes_per_token);
			table_number(t, (double)v->kv_bytes_per_token * (double)v->kv_tokens / 1048576, 1);
			table_int(t, v->kv_tokens);
			table_percent(t, (double)v->kv_tokens / (double)first->kv_tokens, 1);
		}
	return 0;
}

/* ---- Speed ---- */

/* by: 'k' KV format, 'w' weight format. A line per concurrency and the other format. */
static int speed_pivot(const struct report_data *data, const char *phase, char by, const char *id, const char *title,
	struct table_list *out, struct error *e)
{
	const char *names[] = {"concurrency", by == 'k' ? "weights" : "KV", "tokens in + out", "guard"};
	struct pivot p = {.n_keys = PIVOT_KEYS};
	for (size_t r = 0; r < data->n_runs; r++)
		for (size_t i = 0; i < data->runs[r].n_measurements; i++) {
			const struct report_measurement *m = &data->runs[r].measurements[i];
			char concurrency[32], length[64], weights[64], kv[64];
			if (strcmp(m->phase, phase) != 0 || m->block != 0 ||
				!split_variant(data->runs[r].variants[m->variant].name, weights, kv, sizeof(kv)))
				continue;
			snprintf(concurrency, sizeof(concurrency), "%" PRId64, m->concurrency);
			snprintf(length, sizeof(length), "%" PRId64 " + %" PRId64, m->input_tokens, m->output_tokens);
			const char *keys[] = {concurrency, by == 'k' ? weights : kv, length, m->arm};
			pivot_add(&p, keys, by == 'k' ? kv : weights, m->tokens_per_s);
		}
	return add_pivot(&p, id, title, names, 1, "Tokens per second.", out, e);
}

static void latency_cells(struct report_table *t, const struct report_latency *l, bool tail)
{
	table_number(t, l->median, 2);
	table_number(t, l->p95, 2);
	if (tail)
		table_number(t, l->p99, 2);
}

static int measurements_table(const struct report_data *data, struct table_list *out, struct error *e)
{
	static const char *const texts[] = {"variant", "guard", "phase"};
	static const char *const numbers[] = {"concurrency", "in", "out", "tokens/s", "of the floor, %", "TTFT ms",
		"p95", "p99", "ITL ms", "p95", "p99", "TPOT ms", "p95", "E2E ms", "p95", "p99"};
	struct report_table *t = table_list_add(out, "speed", "Throughput and latency by concurrency", e);
	if (!t)
		return ERR_MEMORY;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		table_text_column(t, texts[i]);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		table_number_column(t, numbers[i]);
	for (size_t r = 0; r < data->n_runs; r++)
		for (size_t i = 0; i < data->runs[r].n_measurements; i++) {
			const struct report_measurement *m = &data->runs[r].measurements[i];
			if (m->block != 0)
				continue;
			label_cell(t, data, &data->runs[r], m->variant);
			table_text(t, m->arm);
			table_text(t, m->phase);
			table_int(t, m->concurrency);
			table_int(t, m->input_tokens);
			table_int(t, m->output_tokens);
			table_number(t, m->tokens_per_s, 1);
			table_percent(t, m->share_of_floor, 0);
			latency_cells(t, &m->ttft, true);
			latency_cells(t, &m->itl, true);
			latency_cells(t, &m->tpot, false);
			latency_cells(t, &m->e2e, true);
		}
	buf_append_text(&t->note,
		"Latencies are medians, 95th and 99th percentiles in milliseconds. The floor is the least time that "
		"the machine's "
		"measured bandwidth or arithmetic allows.");
	return 0;
}

int report_speed_tables(const struct report_data *data, struct table_list *out, struct error *e)
{
	TRY(speed_pivot(data, "decode", 'k', "decode_by_kv", "Decode: KV format by concurrency", out, e));
	TRY(speed_pivot(data, "decode", 'w', "decode_by_weights", "Decode: weight format by concurrency", out, e));
	TRY(speed_pivot(data, "prefill", 'w', "prefill_by_weights", "Prefill: weight format by concurrency", out, e));
	return measurements_table(data, out, e);
}

/* ---- Latency of answers ---- */

static void quantile_cells(struct report_table *t, const struct report_variant *v, double q)
{
	struct quantile_ranks ranks = quantile_ranks((int64_t)v->n_seconds, q, 0.95);
	table_number(t, 1e3 * sample_quantile(v->seconds, v->n_seconds, q), 2);
	table_number(t, ranks.low > 0 ? 1e3 * v->seconds[ranks.low - 1] : NAN, 2);
	table_number(t, ranks.high > 0 ? 1e3 * v->seconds[ranks.high - 1] : NAN, 2);
}

int report_latency_table(const struct report_data *data, struct table_list *out, struct error *e)
{
	static const char *const columns[] = {
		"n", "p50 ms", "low", "high", "p95 ms", "low", "high", "p99 ms", "low", "high"};
	struct report_table *t = table_list_add(out, "latency", "How long answers took", e);
	if (!t)
		return ERR_MEMORY;
	table_text_column(t, "variant");
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		table_number_column(t, columns[i]);
	for (size_t r = 0; r < data->n_runs; r++)
		for (size_t i = 0; i < data->runs[r].n_variants; i++) {
			const struct report_variant *v = &data->runs[r].variants[i];
			if (v->n_seconds == 0 || !(v->seconds[v->n_seconds - 1] > 0))
				continue;
			label_cell(t, data, &data->runs[r], i);
			table_int(t, (int64_t)v->n_seconds);
			quantile_cells(t, v, 0.5);
			quantile_cells(t, v, 0.95);
			quantile_cells(t, v, 0.99);
		}
	buf_append_text(&t->note,
		"From submission to the last token, while other items were answered: the wait in the queue counts. "
		"Intervals are "
		"distribution-free, 95%; a bound that so few answers do not give is left out. Answers of one run "
		"depend on each "
		"other, so these intervals describe this run and decide nothing.");
	return 0;
}

/* ---- Errors ---- */

int report_errors_table(const struct report_data *data, struct table_list *out, struct error *e)
{
	struct report_table *t = table_list_add(out, "not_ok", "Answers that are not ok", e);
	if (!t)
		return ERR_MEMORY;
	table_text_column(t, "suite");
	table_text_column(t, "variant");
	table_number_column(t, "answers");
	for (int i = SAMPLE_OK + 1; i < SAMPLE_STATUS_COUNT; i++)
		table_number_column(t, sample_status_name((enum sample_status)i));
	for (size_t r = 0; r < data->n_runs; r++)
		for (size_t i = 0; i < data->runs[r].n_counts; i++) {
			const struct report_count *c = &data->runs[r].counts[i];
			if (c->by_status[SAMPLE_OK] == c->n)
				continue;
			table_text(t, c->suite);
			label_cell(t, data, &data->runs[r], c->variant);
			table_int(t, c->n);
			for (int j = SAMPLE_OK + 1; j < SAMPLE_STATUS_COUNT; j++)
				table_int(t, c->by_status[j]);
		}
	return 0;
}

/* ---- Provenance ---- */

enum { MOST_FACTS = 400 };

static void fact(struct report_table *t, const char *name, const char *value)
{
	table_text(t, name);
	table_text(t, value ? value : "not known");
}

static void time_fact(struct report_table *t, const char *name, int64_t ns)
{
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm tm;
	table_text(t, name);
	if (ns > 0 && gmtime_r(&seconds, &tm))
		table_textf(t, "%04d-%02d-%02d %02d:%02d:%02d UTC", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
			tm.tm_hour, tm.tm_min, tm.tm_sec);
	else
		table_text(t, "not yet");
}

/* The leaves of a JSON value, a line each, named by their way. */
static void leaves(struct report_table *t, const struct json *value, const struct buf *way)
{
	size_t i = 0;
	if (!json_is(value, JSON_OBJECT) && !json_is(value, JSON_ARRAY)) {
		struct buf text = {0};
		if (json_is(value, JSON_STRING))
			buf_append_str(&text, value->text);
		else
			json_dump_python(value, -1, false, &text);
		table_str(t, buf_str(way));
		table_str(t, buf_str(&text));
		buf_free(&text);
		return;
	}
	JSON_EACH (member, value) {
		struct buf name = {0};
		if (table_rows(t) >= MOST_FACTS)
			return;
		buf_append_str(&name, buf_str(way));
		if (json_is(value, JSON_ARRAY)) {
			buf_printf(&name, "[%zu]", i++);
		} else {
			buf_append_text(&name, way->length ? "." : "");
			buf_append_str(&name, member->key);
		}
		leaves(t, member, &name);
		buf_free(&name);
	}
}

int report_provenance_table(const struct report_run *run, struct table_list *out, struct error *e)
{
	const struct store_run *r = &run->run;
	struct report_table *t = table_list_add(out, "provenance", "Provenance", e);
	struct json_document *document = NULL;
	struct buf way = {0};
	if (!t)
		return ERR_MEMORY;
	if (json_parse(str_of(r->provenance.data), "provenance", JSON_LAST_KEY_WINS, &document, e) < 0)
		return error_prefix(e, "%s: run %" PRId64, run->file, r->run_id);
	table_text_column(t, "fact");
	table_text_column(t, "value");
	fact(t, "database", run->file);
	table_text(t, "run");
	table_textf(t, "%" PRId64 " (%s)", r->run_id, r->uid);
	fact(t, "kind", r->kind);
	fact(t, "status", run_status_name(r->status));
	fact(t, "for gating", r->for_gating ? "yes" : "no: only a part of the items");
	fact(t, "command", r->command);
	fact(t, "program", r->version);
	fact(t, "host", r->host);
	time_fact(t, "started", r->started);
	time_fact(t, "finished", r->finished);
	table_text(t, "seconds at work");
	table_number(t, r->seconds, 2);
	table_text(t, "resumptions");
	table_int(t, r->resumptions);
	fact(t, "model", r->model);
	fact(t, "model fingerprint", r->model_fingerprint);
	fact(t, "tokenizer", r->tokenizer_hash);
	fact(t, "chat template", r->template_hash);
	fact(t, "numerics", r->numerics_id);
	fact(t, "configuration", r->config_hash);
	leaves(t, json_root(document), &way);
	json_free(document);
	return 0;
}
