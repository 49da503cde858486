#include <stdlib.h>
#include <time.h>

#include "engine/base/hash.h"
#include "engine/base/json_strict.h"
#include "evals/bench_report.h"
#include "evals/cli.h"
#include "evals/command_line.h"
#include "evals/engine_options.h"
#include "evals/model_path.h"
#include "evals/option_values.h"
#include "evals/run_guard.h"
#include "evals/variant_facts.h"

enum {
	DEFAULT_INPUT = 512,
	DEFAULT_OUTPUT = 64,
	DEFAULT_REPEAT = 4,
	MOST_CONCURRENCY = 4096,
	MOST_PROBE_TOKENS = 8192, /* of a step, while it is found how many requests fit */
};

struct bench {
	const struct options *options;
	struct console console;
	char *model, *db;
	struct store *store;
	int64_t run_id; /* 0: none yet */
	int concurrency[CLI_MAX_LIST];
	int n_concurrency, most; /* the largest of them */
	struct load load;        /* what all levels have in common */
	int repeat;
	char kv[CLI_MAX_LIST][VARIANT_NAME_SIZE]; /* KV formats for which it was found how many requests fit */
	int n_kv;
	struct run_guard guard; /* of the engine in hand */
	struct bench_report report;
};

static int64_t utc_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double seconds_since(int64_t started)
{
	return (double)(utc_now() - started) * 1e-9;
}

/* ---- what a run's record says ---- */

static void append_provenance(const struct bench *b, const struct engine_facts *f, struct buf *out)
{
	const struct options *o = b->options;

	buf_append_text(out, "{\"engine\": ");
	engine_options_json(o, f, out);
	buf_append_text(out, ", \"concurrency\": [");
	for (int i = 0; i < b->n_concurrency; i++)
		buf_printf(out, "%s%d", i ? ", " : "", b->concurrency[i]);
	buf_printf(out,
		"], \"input\": %d, \"output\": %d, \"repeat\": %d, \"shared_prefix\": %d, \"seed\": %llu, "
		"\"residents\": %s, \"random_weights\": %s}",
		b->load.input, b->load.output, b->repeat, b->load.shared_prefix, (unsigned long long)b->load.seed,
		o->residents ? "true" : "false", o->random_weights ? "true" : "false");
}

/* A benchmark is never gone on with: its hash holds the moment of its start. */
static int config_hash(const struct buf *command, char out[SHA256_HEX_SIZE], struct error *e)
{
	struct sha256 *hash = sha256_new(e);
	int64_t started = utc_now();

	if (!hash)
		return ERR_MEMORY;
	sha256_update(hash, &started, sizeof started);
	sha256_update(hash, buf_text(command), command->length);
	sha256_finish(hash, out);
	sha256_delete(hash);
	return 0;
}

static int run_begin(struct bench *b, struct engine *engine, struct error *e)
{
	const struct engine_facts *facts = engine_facts(engine);
	char fingerprint[SHA256_HEX_SIZE], hash[SHA256_HEX_SIZE];
	struct buf provenance = {0}, command = {0};
	bool resumed;

	TRY(engine_fingerprint(engine, fingerprint, e));
	append_provenance(b, facts, &provenance);
	command_line_append(&command);
	int status = buf_check(&provenance, e);
	if (status == 0)
		status = buf_check(&command, e);
	if (status == 0)
		status = config_hash(&command, hash, e);
	if (status == 0) {
		struct store_run row = {.kind = "bench",
			.config_hash = hash,
			.version = ASSAY_VERSION,
			.command = buf_text(&command),
			.model = b->model,
			.model_fingerprint = fingerprint,
			.numerics_id = facts->numerics,
			.for_gating = true, /* nothing was left out; it has no answers to gate on */
			.provenance = buf_str(&provenance)};
		status = store_run_begin(b->store, &row, &b->run_id, &resumed, e);
	}
	buf_free(&provenance);
	buf_free(&command);
	return status;
}

/* ---- levels ---- */

/* Some requests first, so that pages and scratch memory have been touched. */
static int warm_up(struct engine *engine, const struct load *load, struct error *e)
{
	struct load short_load = *load;
	struct load_result ignored;

	short_load.requests = load->concurrency;
	short_load.output = load->output < 2 ? load->output : 2;
	int status = load_run(engine, &short_load, &ignored, e);
	load_result_free(&ignored);
	return status;
}

static int level_run(struct bench *b, struct engine *engine, const char *variant, int64_t variant_id, int concurrency,
	struct load *load, struct error *e)
{
	struct load_result result;

	load->concurrency = concurrency;
	load->requests = b->repeat * concurrency;
	TRY(warm_up(engine, load, e));
	load->first_request += (uint64_t)concurrency;
	int64_t started = utc_now();
	int status = load_run(engine, load, &result, e);
	load->first_request += (uint64_t)load->requests;
	if (status == 0) {
		struct bench_level level = {variant, variant_id, engine_facts(engine), load, &result, started};
		status = bench_report_level(&b->report, b->store, &level, e);
	}
	load_result_free(&result);
	return status;
}

static int levels_run(struct bench *b, struct engine *engine, const char *variant, int64_t *variant_id, struct error *e)
{
	static const struct variant_counts none;
	struct load load = b->load;

	TRY(load_check(&b->load, engine_facts(engine), e));
	if (b->run_id == 0)
		TRY(run_begin(b, engine, e));
	TRY(variant_facts_put(b->store, engine, variant, &none, &b->guard.guard, variant_id, e));
	for (int i = 0; i < b->n_concurrency; i++) {
		console_note(&b->console, "%s, %d at a time", variant, b->concurrency[i]);
		TRY(level_run(b, engine, variant, *variant_id, b->concurrency[i], &load, e));
	}
	return variant_facts_put(b->store, engine, variant, &none, &b->guard.guard, variant_id, e);
}

/* ---- residents ---- */

/* The largest n for which that many fit, by running them. One at least does: load_check. guess: where to begin; most:
 * no more than that. */
static int residents_find(struct bench *b, struct engine *engine, int guess, int most, int *out, struct error *e)
{
	struct load load = b->load;
	int fits = 1, too_many = most + 1;

	load.shared_prefix = 0;
	for (int n = guess < most ? guess : most; fits + 1 < too_many;) {
		bool yes;
		load.concurrency = n;
		console_detail(&b->console, "do %d requests of %d tokens fit?", n, load.input + load.output);
		TRY(load_fits(engine, &load, &yes, e));
		load.first_request += (uint64_t)n;
		if (yes)
			fits = n;
		else
			too_many = n;
		/* beside the guess first: that is mostly where the border lies */
		n = yes && n == guess                        ? n + 1
			: !yes && n == guess && n - 1 > fits ? n - 1
							     : fits + (too_many - fits) / 2;
	}
	*out = fits;
	return 0;
}

/* A step so long that all prompts are in before the first answer ends: only then are all of them there at once. */
static int probe_tokens(const struct bench *b, const struct engine_facts *f, int64_t most)
{
	int64_t tokens = most * b->load.input / b->load.output + most;
	int64_t least = most > f->max_batch_tokens ? most : f->max_batch_tokens;
	tokens = tokens > MOST_PROBE_TOKENS ? MOST_PROBE_TOKENS : tokens;
	return (int)(tokens < least ? least : tokens);
}

static int residents_measure(struct bench *b, struct engine_config config, const char *kv, int64_t variant_id,
	const struct engine_facts *f, struct error *e)
{
	int64_t page = f->page_size, pages = (int64_t)f->kv_tokens / page, whole = b->load.input + b->load.output - 1;
	/* what can be there whole at one time: more may run without waiting where short answers end before others begin */
	int64_t guess = pages / ((whole + page - 1) / page), most = guess;
	int64_t started = utc_now();
	struct engine *engine;
	int residents = 0;

	if (most > MOST_CONCURRENCY) {
		console_note(&b->console, "%s: no more than %d requests are tried; the pages would do for %lld",
			config.variant.name, MOST_CONCURRENCY, (long long)guess);
		most = guess = MOST_CONCURRENCY;
	}
	config.max_requests = (int)most;
	config.max_batch_tokens = probe_tokens(b, f, most);
	TRY(engine_options_open(b->options, &config, &engine, e));
	console_note(&b->console, "%s: how many requests of %d tokens fit at once", config.variant.name,
		b->load.input + b->load.output);
	int status = residents_find(b, engine, (int)guess, (int)most, &residents, e);
	if (status == 0) {
		struct bench_residents row = {kv, variant_id, engine_facts(engine), b->load.input, b->load.output,
			residents, started, seconds_since(started)};
		status = bench_report_residents(&b->report, b->store, &row, e);
	}
	engine_close(engine);
	return status;
}

/* "fp8", or "bf16>fp8" where prompts and answers are kept in different formats. */
static void kv_name(const struct variant *v, char out[VARIANT_NAME_SIZE])
{
	if (v->split && strcmp(v->prefill.kv, v->decode.kv) != 0)
		snprintf(out, VARIANT_NAME_SIZE, "%s>%s", v->prefill.kv, v->decode.kv);
	else
		snprintf(out, VARIANT_NAME_SIZE, "%s", v->decode.kv);
}

/* Whether a variant with these KV formats has been filled: weights change nothing of how many fit. */
static bool kv_is_known(struct bench *b, const char *kv)
{
	for (int i = 0; i < b->n_kv; i++)
		if (strcmp(b->kv[i], kv) == 0)
			return true;
	snprintf(b->kv[b->n_kv++], VARIANT_NAME_SIZE, "%s", kv);
	return false;
}

static int bench_variant(struct bench *b, const char *text, struct error *e)
{
	struct engine_config config;
	struct engine *engine;
	int64_t variant_id = 0;
	char kv[VARIANT_NAME_SIZE];

	TRY(engine_options(b->options, b->model, text, &config, e));
	if (config.max_requests == 0)
		config.max_requests = b->most;
	config.progress = console_loading;
	config.progress_context = &b->console;
	TRY(run_guard_init(&b->guard, b->options, e));
	b->guard.store = b->store;
	b->guard.variant = config.variant.name;
	config.guard = &b->guard.guard.table;
	TRY(engine_options_open(b->options, &config, &engine, e));
	struct engine_facts facts = *engine_facts(engine);
	console_detail(&b->console, "%s: loaded in %.2f s", config.variant.name, facts.load_seconds);
	int status = levels_run(b, engine, config.variant.name, &variant_id, e);
	engine_close(engine);
	if (status == 0)
		status = run_guard_check(&b->guard, e);
	TRY(status);
	kv_name(&config.variant, kv);
	return b->options->residents && !kv_is_known(b, kv) ? residents_measure(b, config, kv, variant_id, &facts, e)
							    : 0;
}

/* ---- the command ---- */

static int concurrency_parse(struct bench *b, struct error *e)
{
	const struct options *o = b->options;

	for (int i = 0; i < o->n_concurrency; i++) {
		uint64_t value;
		if (!option_parse_uint(o->concurrency[i], &value) || value < 1 || value > MOST_CONCURRENCY)
			return error_set(e, ERR_USAGE, "--concurrency '%s': expected numbers from 1 to %d",
				o->concurrency[i], MOST_CONCURRENCY);
		b->concurrency[b->n_concurrency++] = (int)value;
		b->most = (int)value > b->most ? (int)value : b->most;
	}
	if (b->n_concurrency == 0)
		b->concurrency[b->n_concurrency++] = b->most = 1;
	return 0;
}

static int options_check(struct bench *b, struct error *e)
{
	const struct options *o = b->options;

	TRY(engine_backend_check(o, e));
	TRY(concurrency_parse(b, e));
	if (b->load.shared_prefix > b->load.input)
		return error_set(e, ERR_USAGE, "--shared-prefix %d: the prompts have %d tokens (--input)",
			b->load.shared_prefix, b->load.input);
	for (int i = 0; i < o->n_variants; i++) {
		struct engine_config ignored;
		TRY(engine_options(o, NULL, o->variants[i], &ignored, e));
	}
	if (o->machine)
		return 0;
	if (o->random_weights && o->model)
		return error_set(e, ERR_USAGE, "--model %s, --random-weights %s: expected one of them", o->model,
			o->random_weights);
	if (!o->random_weights)
		TRY(model_path(o, &b->model, e));
	else if (!(b->model = strdup(o->random_weights)))
		return error_set(e, ERR_MEMORY, "out of memory for the name of a model");
	b->db = db_path(o, e);
	return b->db ? 0 : e->code;
}

static int variants_run(struct bench *b, struct error *e)
{
	const struct options *o = b->options;

	TRY(store_open(b->db, &b->store, e));
	int status = 0;
	for (int i = 0; i < (o->n_variants ? o->n_variants : 1) && status == 0; i++)
		status = bench_variant(b, o->n_variants ? o->variants[i] : NULL, e);
	if (b->run_id == 0)
		return status;
	struct error finish = {0};
	int finished = store_run_finish(b->store,
		status == 0                         ? RUN_COMPLETE
			: status == ERR_INTERRUPTED ? RUN_INTERRUPTED
						    : RUN_FAILED,
		&finish);
	if (status == 0 && finished < 0)
		*e = finish;
	return status < 0 ? status : finished;
}

static int bench_print(struct bench *b, struct error *e)
{
	struct buf out = {0};
	int status = 0;

	if (b->options->json) {
		bench_report_json(&b->report, b->run_id, &out);
	} else {
		if (b->run_id > 0)
			buf_printf(&out, "%d tokens in, %d out; %d requests for each at once; run %lld in %s\n",
				b->load.input, b->load.output, b->repeat, (long long)b->run_id, b->db);
		status = bench_report_text(&b->report, b->run_id, b->console.color_output, &out, e);
	}
	if (status == 0)
		status = buf_check(&out, e);
	if (status == 0)
		fwrite(buf_text(&out), 1, out.length, stdout);
	buf_free(&out);
	return status;
}

/* The ceilings of what the model will run on. */
static int machine_measure(struct bench *b, struct error *e)
{
	const struct options *o = b->options;

	b->report.on_device = o->backend && strcmp(o->backend, "cuda") == 0;
	if (!b->report.on_device)
		return engine_machine(o->threads, &b->report.machine, e);
	return cuda_machine_measure(o->device, &b->report.device, e) < 0 ? error_prefix(e, "--backend cuda") : 0;
}

static int bench(struct bench *b, struct error *e)
{
	TRY(options_check(b, e));
	interrupt_handlers_install();
	console_note(&b->console, "measuring the machine");
	TRY(machine_measure(b, e));
	if (!b->options->machine)
		TRY(variants_run(b, e));
	return bench_print(b, e);
}

int cmd_bench(const struct options *o, struct error *e)
{
	struct bench b = {.options = o,
		.load = {.input = o->input ? o->input : DEFAULT_INPUT,
			.output = o->output ? o->output : DEFAULT_OUTPUT,
			.shared_prefix = o->shared_prefix,
			.seed = o->has_seed ? o->seed : 0},
		.repeat = o->repeat ? o->repeat : DEFAULT_REPEAT};

	console_init(&b.console, o, stdout, stderr);
	bench_report_init(&b.report);
	int status = bench(&b, e);
	bench_report_free(&b.report);
	store_close(b.store);
	free(b.model);
	free(b.db);
	return error_exit_code(status);
}
