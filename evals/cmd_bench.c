#include <math.h>
#include <time.h>

#include "engine/base/json_strict.h"
#include "evals/cli.h"
#include "evals/console.h"
#include "evals/distribution.h"
#include "evals/engine_options.h"
#include "evals/model_path.h"

enum { DEFAULT_INPUT = 512, DEFAULT_OUTPUT = 64, DEFAULT_REPEAT = 3, MOST_CONCURRENCY = 4096 };

struct bench {
	const struct options *options;
	struct console console;
	char *model;
	struct engine_machine machine;
	int concurrency[CLI_MAX_LIST];
	int n_concurrency, most; /* the largest of them */
	int input, output, repeat;
	struct buf rows; /* JSON, after the first with a comma before */
	struct table table;
};

/* One batch of equal requests: when they had their first tokens, when they were done. */
struct measurement {
	double prefill_seconds; /* until the last first token */
	double decode_seconds;  /* from there on */
	int decode_tokens, decode_steps;
	struct distribution ttft, itl, tpot, e2e; /* milliseconds */
};

static void measurement_free(struct measurement *m)
{
	distribution_free(&m->ttft);
	distribution_free(&m->itl);
	distribution_free(&m->tpot);
	distribution_free(&m->e2e);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Prompts of ids that are no text: a walk through the vocabulary, another one for each request, so that none shares a
 * prefix. */
static int requests_submit(struct engine *engine, int concurrency, int input, int output, struct error *e)
{
	int vocab = engine_facts(engine)->vocab_size;
	int32_t *tokens = mem_calloc((size_t)input, sizeof *tokens, e);
	int status = tokens ? 0 : ERR_MEMORY;

	for (int r = 0; r < concurrency && status == 0; r++) {
		uint64_t id, state = (uint64_t)r + 1;
		for (int i = 0; i < input; i++) {
			state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
			tokens[i] = (int32_t)((state >> 33) % (uint64_t)vocab);
		}
		struct engine_request request = {.tokens = tokens,
			.n_tokens = input,
			.logprobs_from = -1,
			.max_tokens = output,
			.ignore_eos = true};
		status = engine_submit(engine, &request, &id, e);
	}
	free(tokens);
	return status;
}

static int results_take(struct engine *engine, struct measurement *m, int output, int *finished, struct error *e)
{
	for (struct engine_result *r; (r = engine_poll(engine)); (*finished)++) {
		int status = r->finish == ENGINE_FAILED ? error_set(e, r->error.code, "%s", r->error.message) : 0;
		if (status == 0)
			status = distribution_add(&m->ttft, r->seconds_to_first * 1e3, e);
		if (status == 0)
			status = distribution_add(&m->e2e, r->seconds * 1e3, e);
		if (status == 0 && output > 1)
			status = distribution_add(&m->tpot, (r->seconds - r->seconds_to_first) * 1e3 / (output - 1), e);
		engine_result_free(r);
		TRY(status);
	}
	return 0;
}

static int measure_once(
	struct engine *engine, int concurrency, int input, int output, struct measurement *m, struct error *e)
{
	struct engine_stats before, stats;
	double start = now(), step_start = start;
	int finished = 0;

	engine_stats(engine, &before);
	m->prefill_seconds = 0;
	m->decode_tokens = m->decode_steps = 0;
	TRY(requests_submit(engine, concurrency, input, output, e));
	while (finished < concurrency) {
		bool idle;
		uint64_t generated;
		engine_stats(engine, &stats);
		generated = stats.generated_tokens;
		TRY(engine_step(engine, &idle, e));
		engine_stats(engine, &stats);
		double step_end = now();
		bool prefilled = m->prefill_seconds > 0;
		if (!prefilled && stats.prompt_tokens - before.prompt_tokens >= (uint64_t)concurrency * (uint64_t)input)
			m->prefill_seconds = step_end - start;
		if (prefilled) {
			m->decode_steps++;
			m->decode_tokens += (int)(stats.generated_tokens - generated);
			for (uint64_t i = generated; i < stats.generated_tokens; i++)
				TRY(distribution_add(&m->itl, (step_end - step_start) * 1e3, e));
		}
		step_start = step_end;
		TRY(results_take(engine, m, output, &finished, e));
	}
	m->decode_seconds = step_start - start - m->prefill_seconds;
	return 0;
}

/* Least seconds that the machine's ceilings allow: arithmetic, or reading weights and cache. */
static double floor_seconds(
	const struct bench *b, const struct engine_facts *f, double tokens, double head_rows, double bytes)
{
	double flops = 2.0 * ((double)f->layer_parameters * tokens + (double)f->head_parameters * head_rows);
	return fmax(flops / b->machine.flops_all, bytes / b->machine.read_all);
}

static double prefill_floor(const struct bench *b, const struct engine_facts *f, int concurrency)
{
	double tokens = (double)concurrency * b->input;
	double steps = ceil(tokens / f->max_batch_tokens);
	return floor_seconds(b, f, tokens, concurrency, steps * (double)f->bytes_per_step);
}

static double decode_floor(
	const struct bench *b, const struct engine_facts *f, int concurrency, const struct measurement *m)
{
	double context = b->input + b->output / 2.0, steps = m->decode_steps;
	double bytes = (double)f->bytes_per_step + (double)concurrency * context * (double)f->kv_bytes_per_token;
	return steps *
		floor_seconds(b, f, (double)m->decode_tokens / fmax(steps, 1),
			(double)m->decode_tokens / fmax(steps, 1), bytes);
}

struct row {
	const char *variant, *phase;
	int concurrency;
	double tokens_per_s, share;
};

static void row_write(struct bench *b, const struct row *r, struct measurement *m)
{
	struct {
		const char *name;
		struct distribution *d;
	} latencies[] = {{"ttft_ms", &m->ttft}, {"itl_ms", &m->itl}, {"tpot_ms", &m->tpot}, {"e2e_ms", &m->e2e}};

	buf_printf(&b->rows,
		"%s\n    {\"variant\": \"%s\", \"phase\": \"%s\", \"concurrency\": %d, \"input\": %d, \"output\": %d, "
		"\"tokens_per_s\": ",
		b->rows.length ? "," : "", r->variant, r->phase, r->concurrency, b->input, b->output);
	json_write_double(r->tokens_per_s, &b->rows);
	for (size_t i = 0; i < sizeof latencies / sizeof *latencies; i++) {
		buf_printf(&b->rows, ", \"%s\": ", latencies[i].name);
		distribution_write(latencies[i].d, &b->rows);
	}
	buf_append_text(&b->rows, ", \"share_of_floor\": ");
	json_write_double(r->share, &b->rows);
	buf_append_char(&b->rows, '}');

	table_add(&b->table, str_of(r->variant));
	table_add(&b->table, str_of(r->phase));
	table_printf(&b->table, "%d", r->concurrency);
	table_printf(&b->table, "%.1f", r->tokens_per_s);
	table_printf(&b->table, "%.0f%%", r->share * 100);
	table_printf(&b->table, "%.1f", distribution_quantile(&m->ttft, 0.5));
	for (int i = 0; i < 2; i++) {
		if (m->itl.count > 0)
			table_printf(&b->table, "%.2f", distribution_quantile(&m->itl, i ? 0.95 : 0.5));
		else
			table_add(&b->table, str_of("-"));
	}
}

/* The repetition of median speed stands for each phase; latencies are those of all repetitions. */
static int bench_point(struct bench *b, struct engine *engine, const char *variant, int concurrency, struct error *e)
{
	const struct engine_facts *f = engine_facts(engine);
	struct distribution prefill = {0}, prefill_share = {0}, decode = {0}, decode_share = {0};
	struct measurement m = {0};
	int status = measure_once(
		engine, concurrency, b->input, b->output, &m, e); /* a warm-up: pages and scratch are touched */

	measurement_free(&m);
	for (int i = 0; i < b->repeat && status == 0; i++) {
		status = measure_once(engine, concurrency, b->input, b->output, &m, e);
		if (status == 0)
			status = distribution_add(&prefill, (double)concurrency * b->input / m.prefill_seconds, e);
		if (status == 0)
			status = distribution_add(
				&prefill_share, prefill_floor(b, f, concurrency) / m.prefill_seconds, e);
		if (status == 0 && m.decode_steps > 0)
			status = distribution_add(&decode, m.decode_tokens / m.decode_seconds, e);
		if (status == 0 && m.decode_steps > 0)
			status = distribution_add(
				&decode_share, decode_floor(b, f, concurrency, &m) / m.decode_seconds, e);
	}
	if (status == 0) {
		struct row row = {variant, "prefill", concurrency, distribution_quantile(&prefill, 0.5),
			distribution_quantile(&prefill_share, 0.5)};
		row_write(b, &row, &m);
		row = (struct row){variant, "decode", concurrency, distribution_quantile(&decode, 0.5),
			distribution_quantile(&decode_share, 0.5)};
		if (decode.count > 0)
			row_write(b, &row, &m);
	}
	distribution_free(&prefill);
	distribution_free(&prefill_share);
	distribution_free(&decode);
	distribution_free(&decode_share);
	measurement_free(&m);
	return status;
}

/* All requests of a row must run at once, or its speeds would be those of waves. */
static int fit_check(const struct bench *b, const struct engine_facts *f, struct error *e)
{
	int64_t tokens = (int64_t)b->input + b->output - 1, page = f->page_size;
	int64_t pages = (tokens + page - 1) / page * b->most;

	if (b->most > f->max_requests)
		return error_set(e, ERR_USAGE,
			"--concurrency %d: the engine runs %d requests at once (--max-requests, "
			"--max-batch-tokens)",
			b->most, f->max_requests);
	if (tokens > f->max_positions)
		return error_set(e, ERR_USAGE, "--input %d --output %d: the model's context is %d tokens", b->input,
			b->output, f->max_positions);
	if (pages > f->n_pages - 1)
		return error_set(e, ERR_USAGE,
			"--concurrency %d needs %lld KV pages of %d tokens; --kv-memory holds %d", b->most,
			(long long)pages, f->page_size, f->n_pages - 1);
	return 0;
}

static int bench_variant(struct bench *b, const char *text, struct error *e)
{
	struct engine_config config;
	struct engine *engine;

	TRY(engine_options(b->options, b->model, text, &config, e));
	if (config.max_requests == 0)
		config.max_requests = b->most;
	config.progress = console_loading;
	config.progress_context = &b->console;
	TRY(engine_open(&config, &engine, e));
	console_detail(&b->console, "%s: loaded in %.2f s", config.variant.name, engine_facts(engine)->load_seconds);
	int status = fit_check(b, engine_facts(engine), e);
	for (int i = 0; i < b->n_concurrency && status == 0; i++) {
		console_note(&b->console, "%s, %d at a time", config.variant.name, b->concurrency[i]);
		status = bench_point(b, engine, config.variant.name, b->concurrency[i], e);
	}
	engine_close(engine);
	return status;
}

static int concurrency_parse(struct bench *b, struct error *e)
{
	const struct options *o = b->options;

	for (int i = 0; i < o->n_concurrency; i++) {
		char *end;
		long value = strtol(o->concurrency[i], &end, 10);
		if (*end || end == o->concurrency[i] || value < 1 || value > MOST_CONCURRENCY)
			return error_set(e, ERR_USAGE, "--concurrency '%s': expected numbers from 1 to %d",
				o->concurrency[i], MOST_CONCURRENCY);
		b->concurrency[b->n_concurrency++] = (int)value;
		b->most = (int)value > b->most ? (int)value : b->most;
	}
	if (b->n_concurrency == 0)
		b->concurrency[b->n_concurrency++] = b->most = 1;
	return 0;
}

static void machine_write(const struct engine_machine *m, struct buf *out)
{
	const struct {
		const char *name;
		double value;
	} rates[] = {{"read_bytes_per_s_one", m->read_one}, {"read_bytes_per_s", m->read_all},
		{"flops_one", m->flops_one}, {"flops", m->flops_all}};

	buf_append_text(out, "{\"cpu\": ");
	json_write_string(str_of(m->cpu), false, out);
	buf_printf(out, ", \"isa\": \"%s\", \"threads\": %d", m->isa, m->threads);
	for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
		buf_printf(out, ", \"%s\": ", rates[i].name);
		json_write_double(rates[i].value, out);
	}
	buf_append_char(out, '}');
}

static int bench_print(struct bench *b, struct error *e)
{
	const struct engine_machine *m = &b->machine;
	struct buf out = {0};
	int status = 0;

	if (b->options->json) {
		buf_append_text(&out, "{\"schema_version\": 1, \"machine\": ");
		machine_write(m, &out);
		buf_printf(&out, ", \"rows\": [%s]}\n", buf_text(&b->rows));
	} else {
		buf_printf(&out,
			"%s, %s kernels: reads %.1f GB/s with one thread, %.1f with %d; %.1f GFLOP/s with one, %.1f "
			"with %d\n",
			m->cpu, m->isa, m->read_one * 1e-9, m->read_all * 1e-9, m->threads, m->flops_one * 1e-9,
			m->flops_all * 1e-9, m->threads);
		if (b->rows.length) {
			buf_printf(&out, "\n%d tokens in, %d out; medians of %d\n", b->input, b->output, b->repeat);
			status = table_write(&b->table, b->console.color_output, &out, e);
		}
	}
	if (status == 0)
		status = buf_check(&out, e);
	if (status == 0)
		fwrite(buf_text(&out), 1, out.length, stdout);
	buf_free(&out);
	return status;
}

static int bench(struct bench *b, struct error *e)
{
	const struct options *o = b->options;
	static const char *const columns[] = {
		"variant", "phase", "concurrency", "tokens/s", "of the floor", "TTFT ms", "ITL ms", "ITL p95"};

	TRY(concurrency_parse(b, e));
	for (int i = 0; i < o->n_variants; i++) {
		struct engine_config ignored;
		TRY(engine_options(o, NULL, o->variants[i], &ignored, e));
	}
	console_note(&b->console, "measuring the machine");
	TRY(engine_machine(o->threads, &b->machine, e));
	for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
		table_add(&b->table, str_of(columns[i]));
	if (!o->machine) {
		TRY(model_path(o, &b->model, e));
		for (int i = 0; i < (o->n_variants ? o->n_variants : 1); i++)
			TRY(bench_variant(b, o->n_variants ? o->variants[i] : NULL, e));
	}
	return bench_print(b, e);
}

int cmd_bench(const struct options *o, struct error *e)
{
	struct bench b = {.options = o,
		.input = o->input ? o->input : DEFAULT_INPUT,
		.output = o->output ? o->output : DEFAULT_OUTPUT,
		.repeat = o->repeat ? o->repeat : DEFAULT_REPEAT};

	console_init(&b.console, o, stdout, stderr);
	table_init(&b.table, "llrrrrrr");
	int status = bench(&b, e);
	table_free(&b.table);
	buf_free(&b.rows);
	free(b.model);
	return error_exit_code(status);
}
