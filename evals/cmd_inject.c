#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "engine/base/hash.h"
#include "engine/base/json_strict.h"
#include "evals/cli.h"
#include "evals/command_line.h"
#include "evals/console.h"
#include "evals/inject_report.h"
#include "evals/inject_store.h"
#include "evals/model_path.h"
#include "evals/run_report.h"

enum { DEFAULT_TRIALS = 1000, DEFAULT_WORKLOADS = 4 };

struct injection {
	const struct options *options;
	struct console console;
	char *model, *db;
	struct trial_model trial_model;
	struct campaign_options asked;
	struct campaign campaign;
	struct campaign_plan replay;
	struct store *store;
	struct progress progress;
	int64_t run_id;
	char fingerprint[SHA256_HEX_SIZE];
	const char *numerics;
};

/* ---- what is asked for ---- */

/* "M7", in either case; 0: no name of a model. */
static int model_number(const char *name)
{
	char *end = NULL;
	long n =
		(name[0] == 'M' || name[0] == 'm') && name[1] >= '1' && name[1] <= '9' ? strtol(name + 1, &end, 10) : 0;

	return n >= 1 && n <= FAULT_MODELS && *end == '\0' ? (int)n : 0;
}

static void type_add(struct campaign_options *o, const struct fault_type *type)
{
	for (int i = 0; i < o->n_types; i++)
		if (o->types[i] == type)
			return;
	o->types[o->n_types++] = type;
}

static int site_add(struct campaign_options *o, const char *name, struct error *e)
{
	int model = model_number(name), before = o->n_types;
	bool all = strcmp(name, "all") == 0, known = all || model > 0;

	for (int i = 0; i < fault_type_count(); i++) {
		const struct fault_type *t = fault_type(i);
		if (!all && t->model != model && strcmp(t->name, name) != 0)
			continue;
		type_add(o, t);
		known = true;
	}
	if (known || o->n_types > before)
		return 0;
	return error_set(e, ERR_USAGE,
		"--sites '%s': expected all, none, a model from M1 to M%d, or a name that 'assay inject --list' shows",
		name, FAULT_MODELS);
}

static int sites_parse(struct injection *j, struct error *e)
{
	const struct options *o = j->options;

	if (o->n_sites == 1 && strcmp(o->sites[0], "none") == 0)
		return 0;
	if (o->n_sites == 0)
		return site_add(&j->asked, "all", e);
	for (int i = 0; i < o->n_sites; i++)
		TRY(site_add(&j->asked, o->sites[i], e));
	return 0;
}

static int levels_parse(struct injection *j, struct error *e)
{
	const struct options *o = j->options;

	for (int i = 0; i < o->n_guards; i++) {
		if (j->asked.n_levels == CAMPAIGN_LEVELS)
			return error_set(e, ERR_USAGE, "--guard: at most %d levels", CAMPAIGN_LEVELS);
		TRY(guard_level_parse(o->guards[i], &j->asked.levels[j->asked.n_levels++], e));
	}
	if (o->n_guards == 0)
		j->asked.levels[j->asked.n_levels++] = GUARD_PAGES;
	return 0;
}

/* The level that the line names, unless --guard names others. */
static int replay_parse(struct injection *j, struct error *e)
{
	const struct options *o = j->options;
	enum guard_level level;

	if (o->n_sites || o->trials || o->has_seed || o->exhaustive)
		return error_set(e, ERR_USAGE, "--replay takes all from its line: --%s does not go with it",
			o->n_sites            ? "sites"
				: o->trials   ? "trials"
				: o->has_seed ? "seed"
					      : "exhaustive");
	TRY(campaign_replay_parse(o->replay, &j->replay, &level, e));
	if (level < GUARD_LEVEL_COUNT && o->n_guards == 0)
		j->asked.levels[0] = level;
	j->asked.replay = &j->replay;
	j->asked.seed = j->replay.seed;
	return 0;
}

/* 32 bits, so that it is easily written down. */
static int seed_draw(uint64_t *out, struct error *e)
{
	uint32_t seed;

	if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
		return error_set(e, ERR_IO, "the system gives no random numbers for a seed");
	*out = seed;
	return 0;
}

static int options_check(struct injection *j, struct error *e)
{
	const struct options *o = j->options;
	struct campaign_options *a = &j->asked;

	TRY(sites_parse(j, e));
	TRY(levels_parse(j, e));
	a->trials = o->trials ? o->trials : o->exhaustive ? DEFAULT_WORKLOADS : DEFAULT_TRIALS;
	a->exhaustive = o->exhaustive;
	a->workers = o->threads;
	a->seed = o->seed;
	if (a->exhaustive && a->n_types == 0)
		return error_set(e, ERR_USAGE, "--exhaustive needs sites to break, and --sites is none");
	if (a->n_types == 0 && a->n_levels == 1 && a->levels[0] == GUARD_NONE)
		return error_set(e, ERR_USAGE,
			"--sites none counts false alarms, and --guard none checks nothing: expected another level");
	if (o->replay)
		TRY(replay_parse(j, e));
	else if (!o->has_seed)
		TRY(seed_draw(&a->seed, e));
	return 0;
}

/* ---- the store ---- */

static void names_append(const struct injection *j, struct buf *out)
{
	const struct campaign_options *a = &j->asked;

	buf_append_text(out, "\"sites\": [");
	for (int i = 0; i < a->n_types; i++)
		buf_printf(out, "%s\"%s\"", i ? ", " : "", a->types[i]->name);
	buf_append_text(out, "], \"guards\": [");
	for (int i = 0; i < a->n_levels; i++)
		buf_printf(out, "%s\"%s\"", i ? ", " : "", guard_level_name(a->levels[i]));
	buf_append_char(out, ']');
}

/* What decides every trial. */
static void provenance_append(const struct injection *j, struct buf *out)
{
	const struct campaign_options *a = &j->asked;

	buf_printf(out, "{\"seed\": %llu, \"trials\": %lld, \"exhaustive\": %s, ", (unsigned long long)a->seed,
		(long long)a->trials, a->exhaustive ? "true" : "false");
	names_append(j, out);
	buf_append_char(out, '}');
}

static int run_begin(struct injection *j, bool *resumed, struct error *e)
{
	struct buf provenance = {0}, command = {0}, key = {0};
	char hash[SHA256_HEX_SIZE];

	provenance_append(j, &provenance);
	command_line_append(&command);
	buf_printf(&key, "%s %s %s %s", ASSAY_VERSION, j->fingerprint, j->numerics, buf_text(&provenance));
	sha256_hex(buf_text(&key), key.length, hash);
	struct store_run row = {.kind = "inject",
		.config_hash = hash,
		.version = ASSAY_VERSION,
		.command = buf_text(&command),
		.model = j->model,
		.model_fingerprint = j->fingerprint,
		.numerics_id = j->numerics,
		.for_gating = true, /* nothing was left out; it has no answers to gate on */
		.provenance = buf_str(&provenance)};
	int status = buf_check(&key, e);
	if (status == 0)
		status = store_run_begin(j->store, &row, &j->run_id, resumed, e);
	buf_free(&provenance);
	buf_free(&command);
	buf_free(&key);
	return status;
}

/* ---- the campaign ---- */

static void trial_detail(struct injection *j, const struct campaign_trial *t)
{
	char line[CAMPAIGN_REPLAY_SIZE];

	for (int level = 0; level < j->asked.n_levels && j->console.verbose; level++) {
		campaign_replay_line(&t->plan, guard_level_name(j->asked.levels[level]), line);
		console_detail(&j->console, "%lld %s (observed %s): %s", (long long)t->number,
			trial_outcome_name(campaign_enforced(t, level)), trial_outcome_name(campaign_observed(t)),
			line);
	}
}

static int trial_take(void *context, const struct campaign_trial *t, struct error *e)
{
	struct injection *j = context;

	trial_detail(j, t);
	return j->store ? inject_store_trial(j->store, &j->asked, t, e) : 0;
}

static void progress_take(void *context, int64_t done, int64_t total)
{
	struct injection *j = context;

	(void)total;
	if (j->progress.console)
		progress_update(&j->progress, done);
}

/* Fingerprint and numerics of the model, for the store. */
static int model_identify(struct injection *j, struct error *e)
{
	struct engine_config config = {.model = j->model, .threads = 1, .kv_memory = 1 << 20};
	struct engine *engine;

	TRY(variant_parse("bf16/bf16", &config.variant, e));
	TRY(engine_open(&config, &engine, e));
	int status = engine_fingerprint(engine, j->fingerprint, e);
	j->numerics = engine_facts(engine)->numerics;
	engine_close(engine);
	return status;
}

static int trials_run(struct injection *j, struct error *e)
{
	int64_t known = 0;
	bool resumed = false;

	TRY(store_open(j->db, &j->store, e));
	TRY(model_identify(j, e));
	TRY(run_begin(j, &resumed, e));
	if (resumed)
		TRY(inject_store_load(j->store, j->run_id, &j->campaign, &known, e));
	if (resumed)
		console_note(&j->console, "going on with run %lld: %lld of %lld trials are there", (long long)j->run_id,
			(long long)known, (long long)j->campaign.n_trials);
	progress_begin(&j->progress, &j->console, "trials", j->campaign.n_trials, known);
	int status = campaign_run(&j->campaign, e);
	progress_end(&j->progress);
	if (status == ERR_INTERRUPTED)
		console_note(&j->console, "the same command with --seed %llu goes on with run %lld",
			(unsigned long long)j->asked.seed, (long long)j->run_id);
	return status;
}

static int run_finish(struct injection *j, int status, struct error *e)
{
	struct error finish = {0};

	if (j->run_id == 0)
		return status;
	enum run_status end = status == 0 ? RUN_COMPLETE : status == ERR_INTERRUPTED ? RUN_INTERRUPTED : RUN_FAILED;
	int finished = store_run_finish(j->store, end, &finish);
	if (status == 0 && finished < 0)
		*e = finish;
	return status < 0 ? status : finished;
}

static int campaign_do(struct injection *j, struct error *e)
{
	console_note(&j->console, "seed %llu", (unsigned long long)j->asked.seed);
	TRY(trial_model_open(&j->trial_model, j->model, e));
	j->asked.model = &j->trial_model;
	j->asked.context = j;
	j->asked.sink = trial_take;
	j->asked.progress = progress_take;
	j->asked.stop = interrupted;
	TRY(campaign_open(&j->campaign, &j->asked, e));
	if (j->asked.replay) /* nothing new: not stored again */
		return campaign_run(&j->campaign, e);
	return run_finish(j, trials_run(j, e), e);
}

/* ---- output ---- */

static int print(struct injection *j, struct error *e)
{
	const struct options *o = j->options;
	bool color = j->console.color_output;
	struct buf out = {0};
	int status = 0;

	if (o->list_sites && o->json)
		inject_list_json(&out);
	else if (o->list_sites)
		status = inject_list_text(color, &out, e);
	else if (j->asked.replay && o->json)
		inject_trial_json(&j->campaign, &out);
	else if (j->asked.replay)
		status = inject_trial_text(&j->campaign, color, &out, e);
	else if (o->json)
		inject_report_json(&j->campaign, &out);
	else
		status = inject_report_text(&j->campaign, color, &out, e);
	if (status == 0)
		status = buf_check(&out, e);
	if (status == 0)
		fwrite(buf_text(&out), 1, out.length, stdout);
	buf_free(&out);
	return status;
}

static int inject(struct injection *j, struct error *e)
{
	if (j->options->list_sites)
		return print(j, e);
	TRY(options_check(j, e));
	TRY(model_path(j->options, &j->model, e));
	j->db = db_path(j->options, e);
	if (!j->db)
		return e->code;
	interrupt_handlers_install();
	TRY(campaign_do(j, e));
	return print(j, e);
}

int cmd_inject(const struct options *o, struct error *e)
{
	struct injection j = {.options = o};

	console_init(&j.console, o, stdout, stderr);
	int status = inject(&j, e);
	bool holds = status < 0 || o->list_sites || o->replay || inject_report_holds(&j.campaign);
	campaign_free(&j.campaign);
	trial_model_free(&j.trial_model);
	store_close(j.store);
	free(j.model);
	free(j.db);
	return status < 0 ? error_exit_code(status) : holds ? 0 : 1;
}
