#include "reports/report_data.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "engine/base/json_strict.h"
#include "reports/pairing.h"
#include "reports/stats.h"

static int no_memory(struct error *e)
{
	return error_set(e, ERR_MEMORY, "no memory for the rows of a run");
}

static int copy(const char *text, char **out, struct error *e)
{
	*out = strdup(text ? text : "");
	return *out ? 0 : no_memory(e);
}

/* Makes room for one more element of that size behind n. */
static int grow(void *array, size_t n, size_t size, struct error *e)
{
	void **elements = array;
	/* Room doubles whenever n is a power of two. */
	if ((n & (n - 1)) != 0)
		return 0;
	void *grown = reallocarray(*elements, n ? 2 * n : 1, size);
	if (!grown)
		return no_memory(e);
	*elements = grown;
	return 0;
}

/* The variants of a run are read first: every other row names one of them. */
static int find_variant(const struct report_run *run, int64_t id, size_t *out, struct error *e)
{
	for (*out = 0; *out < run->n_variants; ++*out)
		if (run->variants[*out].id == id)
			return 0;
	return error_set(e, ERR_STORE, "%s: run %lld has a row of variant %lld, which it does not have", run->file,
		(long long)run->run.run_id, (long long)id);
}

/* ---- Rows ---- */

static int keep_run(void *context, const struct store_run *row, struct error *e)
{
	struct report_run *run = context;
	const char **texts[] = {&run->run.uid, &run->run.host, &run->run.kind, &run->run.config_hash, &run->run.version,
		&run->run.command, &run->run.model, &run->run.model_fingerprint, &run->run.tokenizer_hash,
		&run->run.template_hash, &run->run.numerics_id, &run->run.provenance.data};
	run->run = *row;
	/* They are borrowed: none may be freed as if it were a copy. */
	const char *borrowed[sizeof(texts) / sizeof(texts[0])];
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		borrowed[i] = *texts[i];
		*texts[i] = NULL;
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char *kept = NULL;
		if (borrowed[i])
			TRY(copy(borrowed[i], &kept, e));
		*texts[i] = kept;
	}
	return 0;
}

static void free_run_texts(struct store_run *run)
{
	const char *texts[] = {run->uid, run->host, run->kind, run->config_hash, run->version, run->command, run->model,
		run->model_fingerprint, run->tokenizer_hash, run->template_hash, run->numerics_id,
		run->provenance.data};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		free((void *)(uintptr_t)texts[i]);
}

static int keep_variant(void *context, const struct store_variant *row, struct error *e)
{
	struct report_run *run = context;
	TRY(grow(&run->variants, run->n_variants, sizeof(*run->variants), e));
	struct report_variant *kept = &run->variants[run->n_variants++];
	*kept = (struct report_variant){.id = row->variant_id,
		.weights_bytes = row->weights_bytes,
		.kv_bytes_per_token = row->kv_bytes_per_token,
		.kv_tokens = row->kv_tokens};
	TRY(copy(row->name, &kept->name, e));
	return copy(row->facts.data, &kept->facts, e);
}

static int keep_result(void *context, const struct store_result *row, struct error *e)
{
	struct report_run *run = context;
	TRY(grow(&run->results, run->n_results, sizeof(*run->results), e));
	struct report_result *kept = &run->results[run->n_results++];
	*kept = (struct report_result){.n = row->n, .value = row->value, .stderr_value = row->stderr_value};
	TRY(find_variant(run, row->variant_id, &kept->variant, e));
	TRY(copy(row->suite, &kept->suite, e));
	TRY(copy(row->task, &kept->task, e));
	return copy(row->metric, &kept->metric, e);
}

static int keep_count(void *context, const struct store_count *row, struct error *e)
{
	struct report_run *run = context;
	TRY(grow(&run->counts, run->n_counts, sizeof(*run->counts), e));
	struct report_count *kept = &run->counts[run->n_counts++];
	*kept = (struct report_count){.n = row->n,
		.prompt_tokens = row->prompt_tokens,
		.cached_tokens = row->cached_tokens,
		.generated_tokens = row->generated_tokens};
	memcpy(kept->by_status, row->by_status, sizeof(kept->by_status));
	TRY(find_variant(run, row->variant_id, &kept->variant, e));
	return copy(row->suite, &kept->suite, e);
}

static int read_latency(struct str text, struct report_latency *out, struct error *e)
{
	struct json_document *document = NULL;
	*out = (struct report_latency){NAN, NAN, NAN, NAN};
	if (text.length == 0)
		return 0;
	TRY(json_parse(text, "measurement", JSON_LAST_KEY_WINS, &document, e));
	const struct json *root = json_root(document);
	*out = (struct report_latency){json_double(json_get(root, "mean")), json_double(json_get(root, "median")),
		json_double(json_get(root, "p95")), json_double(json_get(root, "p99"))};
	json_free(document);
	return 0;
}

static int read_detail(struct str text, struct report_measurement *out, struct error *e)
{
	struct json_document *document = NULL;
	out->cpu_us = NAN;
	if (text.length == 0)
		return 0;
	TRY(json_parse(text, "measurement", JSON_LAST_KEY_WINS, &document, e));
	const struct json *values = json_get(json_root(document), STORE_LATENCIES);
	size_t n = json_is(values, JSON_ARRAY) && values->count < INT_MAX ? values->count : 0;
	out->cpu_us = json_double(json_get(json_root(document), STORE_CPU_US));
	if (n > 0)
		out->latencies = mem_calloc(n, sizeof(*out->latencies), e);
	JSON_EACH (value, out->latencies ? values : NULL)
		if (json_is(value, JSON_NUMBER))
			out->latencies[out->n_latencies++] = json_double(value);
	json_free(document);
	return n > 0 && !out->latencies ? ERR_MEMORY : 0;
}

static int keep_measurement(void *context, const struct store_measurement *row, struct error *e)
{
	struct report_run *run = context;
	TRY(grow(&run->measurements, run->n_measurements, sizeof(*run->measurements), e));
	struct report_measurement *kept = &run->measurements[run->n_measurements++];
	*kept = (struct report_measurement){.block = row->block,
		.concurrency = row->concurrency,
		.input_tokens = row->input_tokens,
		.output_tokens = row->output_tokens,
		.tokens_per_s = row->tokens_per_s,
		.share_of_floor = row->share_of_floor,
		.guard_us_per_step = row->guard_us_per_step,
		.step_us = row->step_us};
	TRY(find_variant(run, row->variant_id, &kept->variant, e));
	TRY(copy(row->arm, &kept->arm, e));
	TRY(copy(row->phase, &kept->phase, e));
	TRY(read_detail(row->detail, kept, e));
	TRY(read_latency(row->ttft_ms, &kept->ttft, e));
	TRY(read_latency(row->itl_ms, &kept->itl, e));
	TRY(read_latency(row->tpot_ms, &kept->tpot, e));
	return read_latency(row->e2e_ms, &kept->e2e, e);
}

static int keep_seconds(void *context, const struct store_sample *row, struct error *e)
{
	struct report_variant *v = context;
	if (row->status == SAMPLE_ERROR)
		return 0;
	TRY(grow(&v->seconds, v->n_seconds, sizeof(*v->seconds), e));
	v->seconds[v->n_seconds++] = row->seconds;
	return 0;
}

static int keep_fault(struct report_fault **rows, size_t *n, const struct store_fault_count *row, struct error *e)
{
	TRY(grow(rows, *n, sizeof(**rows), e));
	struct report_fault *kept = &(*rows)[(*n)++];
	*kept = (struct report_fault){.n = row->n};
	if (row->level)
		TRY(copy(row->level, &kept->level, e));
	TRY(copy(row->model, &kept->model, e));
	TRY(copy(row->site, &kept->site, e));
	return copy(row->key, &kept->key, e);
}

static int keep_outcome(void *context, const struct store_fault_count *row, struct error *e)
{
	struct report_run *run = context;
	return keep_fault(&run->outcomes, &run->n_outcomes, row, e);
}

static int keep_check(void *context, const struct store_fault_count *row, struct error *e)
{
	struct report_run *run = context;
	return keep_fault(&run->checks, &run->n_checks, row, e);
}

static void faults_free(struct report_fault *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(rows[i].level);
		free(rows[i].model);
		free(rows[i].site);
		free(rows[i].key);
	}
	free(rows);
}

/* ---- A run ---- */

static int read_seconds(struct report_run *run, struct store *s, struct error *e)
{
	for (size_t i = 0; i < run->n_variants; i++) {
		struct report_variant *v = &run->variants[i];
		TRY(store_samples_each(s, run->run.run_id, v->id, NULL, keep_seconds, v, e));
		sample_sort(v->seconds, v->n_seconds);
	}
	return 0;
}

int report_data_add(struct report_data *data, struct store *s, int64_t run_id, struct error *e)
{
	TRY(grow(&data->runs, data->n_runs, sizeof(*data->runs), e));
	struct report_run *run = &data->runs[data->n_runs++];
	*run = (struct report_run){0};
	TRY(copy(store_path(s), &run->file, e));
	TRY(store_runs_each(s, run_id, keep_run, run, e));
	TRY(store_variants_each(s, run_id, keep_variant, run, e));
	TRY(store_results_each(s, run_id, keep_result, run, e));
	TRY(store_counts_each(s, run_id, keep_count, run, e));
	if (store_measurements_each(s, run_id, keep_measurement, run, e) < 0)
		return error_prefix(e, "%s: run %lld", run->file, (long long)run_id);
	TRY(store_fault_outcomes_each(s, run_id, keep_outcome, run, e));
	TRY(store_fault_checks_each(s, run_id, keep_check, run, e));
	return read_seconds(run, s, e);
}

int report_data_add_answers(struct report_data *data, const struct answers *answers, struct error *e)
{
	if (!answers->run.run_id)
		return 0;
	for (size_t i = 0; i < data->n_runs; i++)
		if (strcmp(data->runs[i].run.uid, answers->run.uid) == 0)
			return 0;
	struct store *s = NULL;
	TRY(store_open_reading(answers->file, &s, e));
	int status = report_data_add(data, s, answers->run.run_id, e);
	store_close(s);
	return status;
}

static void run_free(struct report_run *run)
{
	for (size_t i = 0; i < run->n_variants; i++) {
		free(run->variants[i].name);
		free(run->variants[i].facts);
		free(run->variants[i].seconds);
	}
	for (size_t i = 0; i < run->n_results; i++) {
		free(run->results[i].suite);
		free(run->results[i].task);
		free(run->results[i].metric);
	}
	for (size_t i = 0; i < run->n_counts; i++)
		free(run->counts[i].suite);
	for (size_t i = 0; i < run->n_measurements; i++) {
		free(run->measurements[i].arm);
		free(run->measurements[i].phase);
		free(run->measurements[i].latencies);
	}
	faults_free(run->outcomes, run->n_outcomes);
	faults_free(run->checks, run->n_checks);
	free(run->variants);
	free(run->results);
	free(run->counts);
	free(run->measurements);
	free_run_texts(&run->run);
	free(run->file);
}

void report_data_free(struct report_data *data)
{
	for (size_t i = 0; i < data->n_runs; i++)
		run_free(&data->runs[i]);
	free(data->runs);
	*data = (struct report_data){0};
}
