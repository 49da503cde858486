#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/hash.h"
#include "engine/base/json_strict.h"
#include "evals/cli.h"
#include "evals/command_line.h"
#include "evals/engine_options.h"
#include "evals/load.h"
#include "evals/model_path.h"
#include "evals/option_values.h"
#include "evals/overhead_report.h"
#include "evals/variant_facts.h"
#include "integrity/guard.h"
#include "integrity/guard_clock.h"

enum {
	DEFAULT_INPUT = 512,
	DEFAULT_OUTPUT = 64,
	DEFAULT_REPEAT = 1, /* the shorter a block, the less a machine changes within it */
	DEFAULT_BLOCKS = 40,
	MOST_CONCURRENCY = 4096,
};

struct watch {
	struct guard guard;
	struct guard_clock clock;
};

struct measuring {
	const struct options *options;
	struct console console;
	char *model, *db;
	struct store *store;
	int64_t run_id; /* 0: none yet */
	int concurrency[CLI_MAX_LIST];
	int n_concurrency, most;
	struct {
		const char *name;
		enum guard_level level;
	} arms[OVERHEAD_ARMS]; /* none, the A/A arm, then those asked for */
	int n_arms, blocks, repeat;
	struct load load;
	struct py_random rng;
	/* of the variant in hand */
	struct engine_config config;
	struct engine *engine;
	struct watch watches[2]; /* the engine lets go of one when it has the next */
	int turn;
	int64_t variant_id;
	struct overhead_report report;
};

static int64_t utc_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- the run's record ---- */

static void append_provenance(const struct measuring *m, const struct engine_facts *f, struct buf *out)
{
	buf_append_text(out, "{\"engine\": ");
	engine_options_json(m->options, f, out);
	buf_append_text(out, ", \"arms\": [");
	for (int i = 0; i < m->n_arms; i++)
		buf_printf(out, "%s\"%s\"", i ? ", " : "", m->arms[i].name);
	buf_append_text(out, "], \"concurrency\": [");
	for (int i = 0; i < m->n_concurrency; i++)
		buf_printf(out, "%s%d", i ? ", " : "", m->concurrency[i]);
	buf_printf(out, "], \"input\": %d, \"output\": %d, \"repeat\": %d, \"blocks\": %d, \"seed\": %llu}",
		m->load.input, m->load.output, m->repeat, m->blocks, (unsigned long long)m->load.seed);
}

/* A measurement is never gone on with: its hash holds the moment of its start. */
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

static int run_begin(struct measuring *m, struct engine *engine, struct error *e)
{
	const struct engine_facts *facts = engine_facts(engine);
	char fingerprint[SHA256_HEX_SIZE], hash[SHA256_HEX_SIZE];
	struct buf provenance = {0}, command = {0};
	bool resumed;

	TRY(engine_fingerprint(engine, fingerprint, e));
	append_provenance(m, facts, &provenance);
	command_line_append(&command);
	int status = buf_check(&provenance, e);
	if (status == 0)
		status = buf_check(&command, e);
	if (status == 0)
		status = config_hash(&command, hash, e);
	if (status == 0) {
		struct store_run row = {.kind = "overhead",
			.config_hash = hash,
			.version = ASSAY_VERSION,
			.command = buf_text(&command),
			.model = m->model,
			.model_fingerprint = fingerprint,
			.numerics_id = facts->numerics,
			.for_gating = true, /* nothing was left out; it has no answers to gate on */
			.provenance = buf_str(&provenance)};
		status = store_run_begin(m->store, &row, &m->run_id, &resumed, e);
	}
	buf_free(&provenance);
	buf_free(&command);
	return status;
}

/* ---- one arm in one block ---- */

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

/* Of all threads of the process. */
static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Runs the load and takes what was measured; the latencies move from the result to the sample. */
static int load_measure(struct engine *engine, const struct load *load, const struct guard_clock *clock,
	struct overhead_sample *out, struct error *e)
{
	uint64_t before = clock->nanoseconds;
	double cpu_before = cpu_seconds();
	struct load_result r;

	int status = load_run(engine, load, &r, e);
	if (status == 0) {
		double steps = (double)(r.prefill.steps + r.decode.steps);
		*out = (struct overhead_sample){.tokens_per_s = (double)load->requests * load->output / r.seconds,
			.seconds = r.seconds,
			.cpu_us = (cpu_seconds() - cpu_before) * 1e6 / load->requests / load->output,
			.latencies = r.e2e.values,
			.n_latencies = (int)r.e2e.count,
			.guard_us = (double)(clock->nanoseconds - before) / 1e3 / steps,
			.step_us = (r.prefill.seconds + r.decode.seconds) * 1e6 / steps};
		r.e2e = (struct distribution){0};
	}
	load_result_free(&r);
	return status;
}

static int variant_put(struct measuring *m, struct error *e)
{
	static const struct variant_counts none;

	if (m->run_id == 0)
		TRY(run_begin(m, m->engine, e));
	return variant_facts_put(m->store, m->engine, m->config.variant.name, &none, NULL, &m->variant_id, e);
}

static int sample_put(struct measuring *m, int arm, int block, const struct load *load, int64_t started,
	const struct overhead_sample *sample, struct error *e)
{
	struct store_measurement row = {.variant_id = m->variant_id,
		.arm = m->arms[arm].name,
		.block = block,
		.phase = "mixed",
		.concurrency = load->concurrency,
		.input_tokens = load->input,
		.output_tokens = load->output,
		.started = started,
		.seconds = sample->seconds,
		.tokens_per_s = sample->tokens_per_s,
		.share_of_floor = (double)NAN,
		.guard_us_per_step = sample->guard_us,
		.step_us = sample->step_us};
	struct distribution latencies = {sample->latencies, (size_t)sample->n_latencies, (size_t)sample->n_latencies};
	struct buf e2e = {0}, detail = {0};

	/* in full: their tail is compared over all blocks together */
	buf_append_text(&detail, "{\"" STORE_CPU_US "\": ");
	json_write_double_or_null(sample->cpu_us, &detail);
	buf_append_text(&detail, ", \"" STORE_LATENCIES "\": [");
	for (int i = 0; i < sample->n_latencies; i++) {
		buf_append_text(&detail, i ? ", " : "");
		json_write_double_or_null(sample->latencies[i], &detail);
	}
	buf_append_text(&detail, "]}");
	distribution_write(&latencies, &e2e);
	row.e2e_ms = buf_str(&e2e);
	row.detail = buf_str(&detail);
	int status = buf_check(&e2e, e);
	if (status == 0)
		status = buf_check(&detail, e);
	if (status == 0)
		status = store_measurement_put(m->store, &row, e);
	buf_free(&e2e);
	buf_free(&detail);
	return status;
}

static int arm_measure(struct engine *engine, const struct watch *watch, const struct load *load,
	struct overhead_sample *out, struct error *e)
{
	const struct guard *guard = &watch->guard;

	TRY(warm_up(engine, load, e));
	struct load measured = *load;
	measured.first_request += (uint64_t)load->concurrency;
	TRY(load_measure(engine, &measured, &watch->clock, out, e));
	if (guard->incidents > 0)
		return error_set(e, ERR_DEVICE, "the %s guard found %llu incidents while it was measured",
			guard_level_name(guard->options.level), (unsigned long long)guard->incidents);
	return guard_proved(guard, e);
}

/* Everything anew but the weights, under the arm's guard. */
static int arm_run(
	struct measuring *m, int arm, int block, const struct load *load, struct overhead_sample *out, struct error *e)
{
	int64_t started = utc_now();

	m->turn = !m->turn;
	struct watch *w = &m->watches[m->turn];
	guard_init(&w->guard,
		&(struct guard_options){.level = m->arms[arm].level, .audit_every = m->options->audit_every});
	guard_clock_init(&w->clock, &w->guard.table);
	m->config.guard = &w->clock.table;
	TRY(engine_renew(m->engine, &m->config, e));
	TRY(arm_measure(m->engine, w, load, out, e));
	return sample_put(m, arm, block, load, started, out, e);
}

/* ---- blocks ---- */

static int blocks_run(struct measuring *m, struct overhead_level *level, struct error *e)
{
	struct load load = m->load;

	load.concurrency = level->concurrency;
	load.requests = m->repeat * level->concurrency;
	for (int block = 0; block < m->blocks; block++) {
		int order[OVERHEAD_ARMS];
		overhead_shuffle(&m->rng, order, m->n_arms);
		/* every arm of a block answers the same prompts */
		load.first_request = (uint64_t)block * (uint64_t)(load.requests + load.concurrency);
		console_note(&m->console, "%s, %d at a time, block %d of %d", level->variant, level->concurrency,
			block + 1, m->blocks);
		for (int i = 0; i < m->n_arms; i++)
			TRY(arm_run(m, order[i], block + 1, &load, &level->samples[order[i]][block], e));
		level->n_blocks = block + 1;
	}
	return 0;
}

static int level_run(struct measuring *m, int concurrency, struct error *e)
{
	struct overhead_level level = {.variant = m->config.variant.name,
		.concurrency = concurrency,
		.input = m->load.input,
		.output = m->load.output,
		.n_arms = m->n_arms,
		.seed = m->load.seed};
	int status = 0;

	for (int i = 0; i < m->n_arms && status == 0; i++) {
		level.arms[i] = m->arms[i].name;
		level.samples[i] = mem_calloc((size_t)m->blocks, sizeof *level.samples[i], e);
		status = level.samples[i] ? 0 : ERR_MEMORY;
	}
	if (status == 0)
		status = blocks_run(m, &level, e);
	if (status == 0)
		status = overhead_report_level(&m->report, &level, e);
	for (int i = 0; i < m->n_arms; i++) {
		for (int block = 0; level.samples[i] && block < m->blocks; block++)
			free(level.samples[i][block].latencies);
		free(level.samples[i]);
	}
	return status;
}

static int levels_run(struct measuring *m, struct error *e)
{
	const struct engine_facts *f = engine_facts(m->engine);

	TRY(load_check(&m->load, f, e));
	if (m->most > f->max_requests)
		return error_set(e, ERR_USAGE,
			"--concurrency %d: at most %d requests run at a time here (--max-requests, "
			"--max-batch-tokens)",
			m->most, f->max_requests);
	TRY(variant_put(m, e));
	for (int i = 0; i < m->n_concurrency; i++)
		TRY(level_run(m, m->concurrency[i], e));
	return 0;
}

/* The weights are loaded once: to load them takes longer than to measure, and arms that are close in time share more of
 * what disturbs them. */
static int variant_run(struct measuring *m, const char *text, struct error *e)
{
	TRY(engine_options(m->options, m->model, text, &m->config, e));
	if (m->config.max_requests == 0)
		m->config.max_requests = m->most;
	TRY(engine_options_open(m->options, &m->config, &m->engine, e));
	int status = levels_run(m, e);
	engine_close(m->engine);
	return status;
}

/* ---- the command ---- */

static int concurrency_parse(struct measuring *m, struct error *e)
{
	const struct options *o = m->options;

	for (int i = 0; i < o->n_concurrency; i++) {
		uint64_t value;
		if (!option_parse_uint(o->concurrency[i], &value) || value < 1 || value > MOST_CONCURRENCY)
			return error_set(e, ERR_USAGE, "--concurrency '%s': expected numbers from 1 to %d",
				o->concurrency[i], MOST_CONCURRENCY);
		m->concurrency[m->n_concurrency++] = (int)value;
		m->most = (int)value > m->most ? (int)value : m->most;
	}
	if (m->n_concurrency == 0)
		m->concurrency[m->n_concurrency++] = m->most = 1;
	return 0;
}

static void arm_add(struct measuring *m, const char *name, enum guard_level level)
{
	m->arms[m->n_arms].name = name;
	m->arms[m->n_arms++].level = level;
}

/* none is the baseline whether it is named or not. */
static int arms_parse(struct measuring *m, struct error *e)
{
	const struct options *o = m->options;

	arm_add(m, STORE_ARM_NONE, GUARD_NONE);
	arm_add(m, STORE_ARM_NULL, GUARD_NONE);
	for (int i = 0; i < o->n_arms; i++) {
		enum guard_level level;
		if (guard_level_parse(o->arms[i], &level, e) < 0)
			return error_prefix(e, "--arms");
		if (level != GUARD_NONE)
			arm_add(m, guard_level_name(level), level);
	}
	if (o->n_arms == 0)
		arm_add(m, guard_level_name(GUARD_PAGES), GUARD_PAGES);
	return 0;
}

static int options_check(struct measuring *m, struct error *e)
{
	const struct options *o = m->options;

	TRY(concurrency_parse(m, e));
	TRY(arms_parse(m, e));
	for (int i = 0; i < o->n_variants; i++) {
		struct engine_config ignored;
		TRY(engine_options(o, NULL, o->variants[i], &ignored, e));
	}
	TRY(model_path(o, &m->model, e));
	for (int i = 0; i < o->n_variants; i++) {
		struct engine_config config;
		TRY(engine_options(o, m->model, o->variants[i], &config, e));
		TRY(engine_ranks_check(&config, e));
	}
	m->db = db_path(o, e);
	return m->db ? 0 : e->code;
}

static int variants_run(struct measuring *m, struct error *e)
{
	const struct options *o = m->options;
	struct error finish = {0};
	int status = 0;

	TRY(store_open(m->db, &m->store, e));
	for (int i = 0; i < (o->n_variants ? o->n_variants : 1) && status == 0; i++)
		status = variant_run(m, o->n_variants ? o->variants[i] : NULL, e);
	if (m->run_id == 0)
		return status;
	enum run_status end = status == 0 ? RUN_COMPLETE : status == ERR_INTERRUPTED ? RUN_INTERRUPTED : RUN_FAILED;
	int finished = store_run_finish(m->store, end, &finish);
	if (status == 0 && finished < 0)
		*e = finish;
	return status < 0 ? status : finished;
}

static int measuring_print(struct measuring *m, struct error *e)
{
	struct buf out = {0};
	int status = 0;

	if (m->options->json) {
		overhead_report_json(&m->report, m->run_id, &out);
	} else {
		buf_printf(&out,
			"%d tokens in, %d out; %d requests for each at once; %d blocks, fresh pages for each arm; "
			"run %lld in %s\n",
			m->load.input, m->load.output, m->repeat, m->blocks, (long long)m->run_id, m->db);
		status = overhead_report_text(&m->report, m->console.color_output, &out, e);
	}
	if (status == 0)
		status = buf_check(&out, e);
	if (status == 0)
		fwrite(buf_text(&out), 1, out.length, stdout);
	buf_free(&out);
	return status;
}

static int overhead(struct measuring *m, struct error *e)
{
	TRY(options_check(m, e));
	interrupt_handlers_install();
	py_random_seed(&m->rng, m->load.seed);
	TRY(variants_run(m, e));
	return measuring_print(m, e);
}

int cmd_overhead(const struct options *o, struct error *e)
{
	struct measuring m = {.options = o,
		.load = {.input = o->input ? o->input : DEFAULT_INPUT,
			.output = o->output ? o->output : DEFAULT_OUTPUT,
			.seed = o->has_seed ? o->seed : 0},
		.repeat = o->repeat ? o->repeat : DEFAULT_REPEAT,
		.blocks = o->blocks ? o->blocks : DEFAULT_BLOCKS};

	console_init(&m.console, o, stdout, stderr);
	overhead_report_init(&m.report);
	int status = overhead(&m, e);
	overhead_report_free(&m.report);
	store_close(m.store);
	free(m.model);
	free(m.db);
	return error_exit_code(status);
}
