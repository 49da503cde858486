#include <errno.h>

#include "evals/chat_date.h"
#include "evals/cli.h"
#include "evals/command_line.h"
#include "evals/console.h"
#include "evals/divergence.h"
#include "evals/engine_options.h"
#include "evals/run_divergence.h"
#include "evals/run_guard.h"
#include "evals/run_plan.h"
#include "evals/run_report.h"
#include "evals/run_suite.h"
#include "evals/suite_task.h"
#include "evals/trigger.h"
#include "evals/variant_facts.h"
#include "reports/store.h"

struct run {
	struct run_plan plan;
	struct console console;
	struct store *store;
	int64_t run_id;
	int64_t baseline_id;              /* the first variant; 0 before it is put */
	struct target *baseline;          /* the first variant, open as long as divergence needs it; owned */
	struct divergence_source *source; /* what the first variant left to read; owned */
	int items;
	int errors; /* items without an answer */
	struct error first_error;
	struct run_guard guard; /* of the variant in hand */
	struct buf guards;      /* what is said of it, a line per variant */
};

/* What the chat template did to the prompts that a reader of the results should know. */
static void chat_note(struct run *r)
{
	char date[CHAT_DATE_SIZE];
	bool asked = false;
	struct console *c = &r->console;
	chat_date_print(&r->plan.chat.now, date);
	for (int i = 0; i < r->plan.n_suites; i++) {
		const struct suite_chat *chat = suite_chat(r->plan.suites[i]);
		asked |= chat->asked_for_date;
		if (chat->systems_dropped > 0)
			console_note(c, "%s: the chat template refuses system messages: %d prompts go without theirs",
				suite_name(r->plan.suites[i]), chat->systems_dropped);
	}
	if (asked)
		console_note(c,
			"the chat template is told the date %s; --date %s makes the same prompts on another day", date,
			date);
}

/* Goes on with an interrupted run of this configuration, or starts one. */
static int run_begin(struct run *r, struct engine *engine, struct error *e)
{
	const struct engine_facts *facts = engine_facts(engine);
	struct buf provenance = {0}, command = {0};
	char fingerprint[SHA256_HEX_SIZE], config_hash[SHA256_HEX_SIZE], whole_hash[SHA256_HEX_SIZE];
	int64_t run_id = 0;
	bool resumed = false;

	TRY(engine_fingerprint(engine, fingerprint, e));
	TRY(run_plan_hash(&r->plan, fingerprint, facts->numerics, config_hash, e));
	TRY(run_plan_hash_whole(&r->plan, fingerprint, facts->numerics, whole_hash, e));
	run_plan_provenance(&r->plan, facts, whole_hash, &provenance);
	command_line_append(&command);
	struct store_run row = {.kind = "run",
		.config_hash = config_hash,
		.version = ASSAY_VERSION,
		.command = buf_text(&command),
		.model = r->plan.model,
		.model_fingerprint = fingerprint,
		.tokenizer_hash = engine_text_fingerprint(r->plan.text),
		.template_hash = r->plan.chat.conversations ? engine_template_hash(r->plan.chat.conversations, false)
							    : engine_text_template_hash(r->plan.text),
		.numerics_id = facts->numerics,
		.for_gating = run_plan_for_gating(&r->plan),
		.provenance = buf_str(&provenance)};
	int status = buf_check(&provenance, e);
	if (status == 0)
		status = buf_check(&command, e);
	if (status == 0)
		status = store_run_begin(r->store, &row, &run_id, &resumed, e);
	if (status == 0) {
		r->run_id = run_id;
		console_note(&r->console, "run %lld %s in %s", (long long)run_id, resumed ? "goes on" : "starts",
			r->plan.db);
		chat_note(r);
	}
	buf_free(&provenance);
	buf_free(&command);
	return status;
}

static void outcome_note(struct run *r, const char *label, const struct suite_outcome *o)
{
	if (o->answered_before > 0)
		console_note(&r->console, "%s: %d answers were stored before", label, o->answered_before);
	if (o->tried_again > 0)
		console_note(&r->console, "%s: %d items that had no answer are tried again", label, o->tried_again);
	if (o->contexts_cut > 0)
		console_note(&r->console, "%s: %d contexts were longer than the model's and lost their beginning",
			label, o->contexts_cut);
	if (o->errors > 0)
		console_note(&r->console, "%s: items without an answer: %d; the first: %s", label, o->errors,
			o->first_error.message);
	if (o->errors > 0 && r->errors == 0)
		r->first_error = o->first_error;
	r->errors += o->errors;
	r->items += o->items;
}

static int suite_run(struct run *r, struct suite *suite, struct target *target, const char *name, int64_t variant_id,
	struct error *e)
{
	struct suite_outcome outcome;
	char label[128];
	snprintf(label, sizeof label, "%s %s", suite_name(suite), name);
	int status = run_suite(
		r->store, r->run_id, variant_id, suite, r->plan.shard, target, &r->console, label, &outcome, e);
	outcome_note(r, label, &outcome);
	return status;
}

/* What the first variant leaves for the others to be measured by. */
static int source_make(struct run *r, struct target *target, const char *name, int64_t variant_id, struct error *e)
{
	const struct divergence_plan *d = &r->plan.divergence;
	int most = engine_facts(target_engine(target))->max_positions;

	if (d->reading.count)
		return divergence_source_text(&d->reading, r->plan.text, most, r->plan.options->limit, &r->source, e);
	if (d->answered) {
		console_note(&r->console, "divergence reads %s's own answers: it answers %s first", name,
			suite_name(d->answered));
		TRY(suite_run(r, d->answered, target, name, variant_id, e));
	}
	struct suite *const *suites = d->answered ? &d->answered : r->plan.suites;
	return divergence_source_answers(r->store, r->run_id, variant_id, suites, d->answered ? 1 : r->plan.n_suites,
		r->plan.text, most, &r->source, e);
}

static int divergence_run(struct run *r, struct target *target, const char *name, int64_t variant_id, struct error *e)
{
	struct suite_outcome outcome;
	char label[128];

	if (!r->source)
		TRY(source_make(r, target, name, variant_id, e));
	snprintf(label, sizeof label, "%s %s", divergence_suite, name);
	int status = run_divergence(r->store, r->run_id, variant_id, r->source, r->plan.shard,
		r->baseline ? target_engine(r->baseline) : NULL, target_engine(target), DIVERGENCE_ROWS_BYTES,
		&r->console, label, &outcome, e);
	outcome_note(r, label, &outcome);
	return status;
}

static int suites_run(struct run *r, struct target *target, int64_t variant_id, const char *name, struct error *e)
{
	r->baseline_id = r->baseline_id ? r->baseline_id : variant_id;
	for (int s = 0; s < r->plan.n_suites; s++) {
		TRY(suite_run(r, r->plan.suites[s], target, name, variant_id, e));
		TRY(trigger_put(r->store, r->run_id, r->baseline_id, variant_id, r->plan.suites[s], e));
	}
	return r->plan.divergence.wanted ? divergence_run(r, target, name, variant_id, e) : 0;
}

static int variant_run(struct run *r, struct target *target, const char *name, struct error *e)
{
	struct variant_counts before;
	struct error not_put = {0};
	int64_t variant_id;

	TRY(variant_counts_stored(r->store, r->run_id, name, &before, e));
	TRY(variant_facts_put(r->store, target_engine(target), name, &before, &r->guard.guard, &variant_id, e));
	int status = suites_run(r, target, variant_id, name, e);
	/* again, with what the engine counted meanwhile: also of a run that was interrupted */
	int put = variant_facts_put(
		r->store, target_engine(target), name, &before, &r->guard.guard, &variant_id, &not_put);
	if (status == 0 && put < 0)
		*e = not_put;
	return status < 0 ? status : put;
}

/* Opens the engine of the variant, with scales from a text where they are asked for. */
static int variant_open(struct run *r, struct engine_config *config, struct engine **engine, struct error *e)
{
	float *scales = NULL;

	if (calibration_wanted(&r->plan.calibration, &config->variant))
		TRY(calibration_scales(&r->plan.calibration, config, r->plan.text, &scales, e));
	config->kv_scales = scales;
	int status = engine_options_open(r->plan.options, config, engine, e);
	config->kv_scales = NULL;
	free(scales);
	return status;
}

static int variants_run(struct run *r, struct error *e)
{
	for (int i = 0; i < r->plan.n_variants; i++) {
		struct engine_config *config = &r->plan.engines[i];
		struct engine *engine;
		struct target *target;

		config->progress = console_loading;
		config->progress_context = &r->console;
		TRY(run_guard_init(&r->guard, r->plan.options, e));
		r->guard.variant = config->variant.name;
		config->guard = &r->guard.guard.table;
		TRY(variant_open(r, config, &engine, e));
		console_detail(
			&r->console, "%s: loaded in %.2f s", config->variant.name, engine_facts(engine)->load_seconds);
		if (i == 0 && engine_facts(engine)->head_untied)
			console_note(&r->console,
				"%s: config.json ties lm_head to the embedding, but the checkpoint holds another "
				"lm_head.weight: that one is used",
				r->plan.model);
		int status = i == 0 ? run_begin(r, engine, e) : 0;
		if (status < 0) {
			engine_close(engine);
			return status;
		}
		r->guard.store = r->store;
		TRY(target_new(engine, r->plan.text, &target, e));
		target_set_deadline(target, r->plan.options->deadline);
		target_set_think_end(target, str_of(r->plan.options->think_end));
		status = variant_run(r, target, config->variant.name, e);
		if (status == 0 && r->plan.divergence.wanted && i == 0)
			r->baseline = target;
		else
			target_delete(target);
		TRY(status);
		TRY(run_guard_check(&r->guard, e));
		run_guard_print(&r->guard, &r->guards);
	}
	return 0;
}

static const struct suite *suite_named(const struct run_plan *p, const char *name)
{
	for (int i = 0; i < p->n_suites; i++)
		if (strcmp(suite_name(p->suites[i]), name) == 0)
			return p->suites[i];
	return NULL;
}

/* Of a suite of many tasks the run's own table shows the whole and its groups. */
static bool shows_part(void *context, const char *suite, const char *task)
{
	const struct suite *s = suite_named(context, suite);
	for (int i = 0; s && i < suite_task_count(s); i++)
		if (strcmp(suite_task(s, i)->name, task) == 0)
			return false;
	return true;
}

/* Where the answers are, and a command to look at them, as this program was called. */
static void append_next(const struct run *r, struct buf *text)
{
	buf_printf(text, "\nEvery answer is in %s (run %lld). Next:\n  %s show %lld --samples %s", r->plan.db,
		(long long)r->run_id, program_invocation_name, (long long)r->run_id,
		r->plan.n_suites ? suite_name(r->plan.suites[0]) : divergence_suite);
	if (r->plan.options->db)
		buf_printf(text, " --db %s", r->plan.db);
	buf_append_char(text, '\n');
	for (int i = 0; i < r->plan.n_suites && !r->plan.options->verbose; i++)
		if (suite_task_count(r->plan.suites[i]) > 1)
			buf_printf(text, "'show %lld' also has the %d tasks of %s.\n", (long long)r->run_id,
				suite_task_count(r->plan.suites[i]), suite_name(r->plan.suites[i]));
	if (r->plan.options->limit > 0)
		buf_append_text(text, "--limit was given: this run is not for gating.\n");
	if (r->plan.shard.count)
		buf_printf(text,
			"This is shard %d of %d: it is not for gating until `assay db merge` has joined it with the "
			"others.\n",
			r->plan.shard.index, r->plan.shard.count);
}

static int report_print(struct run *r, struct error *e)
{
	struct buf text = {0};
	int status;

	if (r->plan.options->json) {
		buf_append_char(&text, '{');
		status = run_report_json(r->store, r->run_id, &text, e);
		buf_append_text(&text, "}\n");
	} else {
		const struct report_filter parts = {shows_part, &r->plan};
		status = run_report_tables(r->store, r->run_id, r->plan.options->verbose ? NULL : &parts,
			r->console.color_output, &text, e);
		buf_append_str(&text, buf_str(&r->guards));
		if (status == 0 && !r->plan.options->quiet)
			append_next(r, &text);
	}
	if (status == 0)
		status = buf_check(&text, e);
	if (status == 0)
		fwrite(buf_text(&text), 1, text.length, stdout);
	buf_free(&text);
	return status;
}

static int dry_run(const struct run_plan *p, struct error *e)
{
	struct buf text = {0};
	if (p->options->json)
		run_plan_json(p, &text);
	else
		run_plan_print(p, &text);
	int status = buf_check(&text, e);
	fwrite(buf_text(&text), 1, text.length, stdout);
	buf_free(&text);
	return status;
}

/* --fewshot reaches only suites that have solved examples. */
static void shots_note(struct run *r)
{
	int asked = r->plan.options->fewshot;
	for (int i = 0; i < r->plan.n_suites && asked > 0; i++)
		if (suite_fewshot(r->plan.suites[i]) == 0)
			console_note(&r->console, "--fewshot %d: %s has no solved examples, its prompts go without",
				asked, suite_name(r->plan.suites[i]));
}

static int run_all(struct run *r, struct error *e)
{
	TRY(run_plan_make(&r->plan, r->plan.options, e));
	shots_note(r);
	if (r->plan.options->dry_run)
		return dry_run(&r->plan, e);
	/* from here on there is something to finish; before, a signal ends the program at once */
	interrupt_handlers_install();
	TRY(store_open(r->plan.db, &r->store, e));
	int status = variants_run(r, e);
	bool nothing = r->errors == r->items && (r->items > 0 || r->plan.shard.count == 0);
	if (r->run_id > 0) {
		struct error finish = {0};
		enum run_status end = status == 0 && r->errors == 0 ? RUN_COMPLETE
			: status == ERR_INTERRUPTED                 ? RUN_INTERRUPTED
								    : RUN_FAILED;
		int finished = store_run_finish(r->store, end, &finish);
		if (status == 0 && finished < 0) {
			*e = finish;
			return finished;
		}
	}
	TRY(status);
	if (r->items == 0 && r->plan.shard.count)
		console_note(&r->console, "shard %d of %d holds none of the items: it is complete without an answer",
			r->plan.shard.index, r->plan.shard.count);
	TRY(report_print(r, e));
	if (nothing)
		return error_set(
			e, ERR_EMPTY, "no item was answered: %s", r->items ? r->first_error.message : "there is none");
	if (r->errors > 0)
		return error_set(
			e, ERR_LIMIT, "items without an answer: %d; the first: %s", r->errors, r->first_error.message);
	return 0;
}

int cmd_run(const struct options *o, struct error *e)
{
	struct run r = {.plan = {.options = o}};

	console_init(&r.console, o, stdout, stderr);
	int status = run_all(&r, e);
	divergence_source_free(r.source);
	target_delete(r.baseline);
	store_close(r.store);
	buf_free(&r.guards);
	run_plan_free(&r.plan);
	return error_exit_code(status);
}
