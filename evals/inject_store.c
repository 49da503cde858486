#include "evals/inject_store.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json_strict.h"
#include "evals/run_report.h"
#include "integrity/workload.h"

/* ---- facts as JSON ---- */

enum fact_kind { FACT_BOOL, FACT_INT, FACT_SET, FACT_STEPS, FACT_TARGET };

#define FACT(kind, member)                                          \
	{                                                           \
#member, kind, offsetof(struct trial_facts, member) \
	}

static const struct {
	const char *name;
	enum fact_kind kind;
	size_t at;
} facts[] = {
	FACT(FACT_BOOL, fired),
	FACT(FACT_TARGET, target),
	FACT(FACT_INT, step),
	FACT(FACT_BOOL, crashed),
	FACT(FACT_BOOL, hang),
	FACT(FACT_BOOL, stopped),
	FACT(FACT_SET, wrong),
	FACT(FACT_SET, failed),
	FACT(FACT_SET, loud),
	FACT(FACT_SET, finished),
	FACT(FACT_SET, contaminated),
	FACT(FACT_SET, leaked),
	FACT(FACT_SET, touched),
	FACT(FACT_SET, told),
	FACT(FACT_INT, late_tokens),
	FACT(FACT_INT, early_incidents),
	FACT(FACT_INT, incidents),
	FACT(FACT_SET, checks),
	FACT(FACT_INT, first_check),
	FACT(FACT_STEPS, checked_steps),
	FACT(FACT_BOOL, unproved),
};

static int64_t fact_read(const struct trial_facts *f, enum fact_kind kind, size_t at)
{
	const void *member = (const char *)f + at;

	switch (kind) {
	case FACT_BOOL:
		return *(const bool *)member;
	case FACT_INT:
		return *(const int *)member;
	case FACT_SET:
		return *(const uint32_t *)member;
	case FACT_STEPS:
		return (int64_t) * (const uint64_t *)member;
	default:
		return *(const int64_t *)member;
	}
}

static void fact_write(struct trial_facts *f, enum fact_kind kind, size_t at, int64_t value)
{
	void *member = (char *)f + at;

	switch (kind) {
	case FACT_BOOL:
		*(bool *)member = value != 0;
		break;
	case FACT_INT:
		*(int *)member = (int)value;
		break;
	case FACT_SET:
		*(uint32_t *)member = (uint32_t)value;
		break;
	case FACT_STEPS:
		*(uint64_t *)member = (uint64_t)value;
		break;
	default:
		*(int64_t *)member = value;
	}
}

static void facts_json(const struct trial_facts *f, struct buf *out)
{
	buf_append_char(out, '{');
	for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
		buf_printf(out, "%s\"%s\": %" PRId64, i ? ", " : "", facts[i].name,
			fact_read(f, facts[i].kind, facts[i].at));
	buf_append_text(out, ", ");
	json_member_text(out, "message", f->message);
	buf_append_char(out, '}');
}

static int facts_parse(struct str text, struct trial_facts *out, struct error *e)
{
	struct json_document *document;

	*out = (struct trial_facts){0};
	TRY(json_parse(text, "a stored trial", 0, &document, e));
	for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
		int64_t value = 0;
		if (!json_int64(json_get(json_root(document), facts[i].name), &value)) {
			json_free(document);
			return error_set(e, ERR_STORE, "a stored trial: no whole number '%s'", facts[i].name);
		}
		fact_write(out, facts[i].kind, facts[i].at, value);
	}
	const struct json *message = json_get(json_root(document), "message");
	if (json_is(message, JSON_STRING))
		snprintf(out->message, sizeof out->message, "%.*s", (int)message->text.length, message->text.data);
	json_free(document);
	return 0;
}

/* ---- to the store ---- */

struct rows {
	struct store_fault_trial row[CAMPAIGN_LEVELS + 1];
	struct buf details[CAMPAIGN_LEVELS + 1];
	char replay[CAMPAIGN_LEVELS + 1][CAMPAIGN_REPLAY_SIZE];
	int number[CAMPAIGN_LEVELS + 1]; /* row, from 1 on, of phase + 1; 0: none */
	int n;
};

static const char *variant_of(const struct campaign_options *o, uint64_t workload)
{
	struct workload w;

	workload_make(&w, workload, o->model->vocab, &o->model->secrets);
	return w.variant;
}

static void row_make(struct rows *rows, const struct campaign_options *o, const struct campaign_trial *t, int phase)
{
	static const char *const models[FAULT_MODELS + 1] = {
		"none", "M1", "M2", "M3", "M4", "M5", "M6", "M7", "M8", "M9", "M10", "M11", "M12", "M13"};
	const struct fault_type *type = t->plan.type;
	const struct trial_facts *f = phase < 0 ? &t->observed : &t->enforced[phase];
	const char *level = guard_level_name(phase < 0 ? GUARD_DIGEST : o->levels[phase]);
	enum trial_outcome outcome = phase < 0 ? campaign_observed(t) : campaign_enforced(t, phase);
	int i = rows->n++;

	facts_json(f, &rows->details[i]);
	campaign_replay_line(&t->plan, phase < 0 ? NULL : level, rows->replay[i]);
	rows->number[phase + 1] = i + 1;
	rows->row[i] = (struct store_fault_trial){.trial = t->number,
		.mode = phase < 0 ? "observed" : "enforced",
		.level = level,
		.variant = variant_of(o, t->plan.workload),
		.seed = t->plan.seed,
		.workload = t->plan.workload,
		.site = type ? type->name : "none",
		.model = models[type ? type->model : 0],
		.occurrence = t->plan.occurrence,
		.target = f->target,
		.outcome = trial_outcome_name(outcome),
		.check = f->first_check < 0 ? NULL : guard_check_name((enum guard_check)f->first_check),
		.late_tokens = f->late_tokens,
		.collateral = phase < 0 ? 0 : trial_collateral(f, &t->observed),
		.replay = rows->replay[i],
		.detail = buf_str(&rows->details[i])};
}

static void incident_make(
	const struct rows *rows, const struct campaign_incident *from, struct buf *what, struct store_incident *out)
{
	const struct guard_incident *i = &from->incident;

	buf_printf(what, "{\"pool\": %d, ", i->pool);
	json_member_text(what, "what", i->what);
	buf_append_char(what, '}');
	*out = (struct store_incident){.fault_trial_id = rows->number[from->phase + 1],
		.variant = rows->row[0].variant,
		.time = i->time,
		.check = guard_check_name(i->check),
		.phase = guard_moment_name(i->moment),
		.request = i->request,
		.page = i->page,
		.logical = i->logical,
		.expected = i->expected,
		.actual = i->actual,
		.step = i->step,
		.tokens_emitted = i->emitted,
		.detail = buf_str(what)};
}

int inject_store_trial(
	struct store *s, const struct campaign_options *o, const struct campaign_trial *t, struct error *e)
{
	struct rows rows = {.n = 0};
	size_t n = (size_t)t->n_incidents;
	struct store_incident *incidents = mem_calloc(n, sizeof *incidents, e);
	struct buf *what = mem_calloc(n, sizeof *what, e);
	int status = incidents && what ? 0 : ERR_MEMORY;

	for (int phase = t->plan.type ? -1 : 0; phase < o->n_levels; phase++)
		row_make(&rows, o, t, phase);
	for (size_t i = 0; status == 0 && i < n; i++)
		incident_make(&rows, &t->incidents[i], &what[i], &incidents[i]);
	if (status == 0)
		status = store_fault_trials_insert(s, rows.row, rows.n, incidents, (int)n, e);
	for (size_t i = 0; what && i < n; i++)
		buf_free(&what[i]);
	for (int i = 0; i < rows.n; i++)
		buf_free(&rows.details[i]);
	free(incidents);
	free(what);
	return status;
}

/* ---- and back ---- */

struct loading {
	struct campaign *campaign;
	int64_t known;
	int64_t trial; /* whose rows are being read */
	int runs;
};

static int row_load(void *context, const struct store_fault_trial *row, struct error *e)
{
	struct loading *l = context;
	const struct campaign_options *o = &l->campaign->options;
	bool observed = strcmp(row->mode, "observed") == 0;
	int level = 0;

	if (row->trial < 0 || row->trial >= l->campaign->n_trials)
		return error_set(e, ERR_STORE, "a stored trial has number %lld of %lld", (long long)row->trial,
			(long long)l->campaign->n_trials);
	struct campaign_trial *t = &l->campaign->trials[row->trial];
	while (!observed && level < o->n_levels && strcmp(guard_level_name(o->levels[level]), row->level) != 0)
		level++;
	if (level == o->n_levels)
		return error_set(
			e, ERR_STORE, "a stored trial of guard '%s', which this campaign does not ask for", row->level);
	TRY(facts_parse(row->detail, observed ? &t->observed : &t->enforced[level], e));
	l->runs = l->trial == row->trial ? l->runs + 1 : 1;
	l->trial = row->trial;
	if (l->runs == o->n_levels + (t->plan.type != NULL)) {
		t->done = true;
		l->known++;
	}
	return 0;
}

int inject_store_load(struct store *s, int64_t run_id, struct campaign *c, int64_t *known, struct error *e)
{
	struct loading l = {.campaign = c, .trial = -1};

	TRY(store_fault_trials_each(s, run_id, row_load, &l, e));
	*known = l.known;
	return 0;
}
