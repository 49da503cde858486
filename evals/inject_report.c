#include "evals/inject_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json_strict.h"
#include "evals/console.h"
#include "evals/run_report.h"
#include "reports/stats.h"

/* ---- counting ---- */

/* Which trials count. */
struct scope {
	int model;                     /* 0: all */
	const struct fault_type *type; /* NULL: all */
};

struct tally {
	int activated, masked, benign, late_tokens;
	int outcome[TRIAL_OUTCOME_COUNT]; /* of those that are activated and not masked */
	double low, high;                 /* of the share that is detected, at 95% */
};

static bool in_scope(const struct scope *s, const struct campaign_trial *t)
{
	if (!t->done || !t->plan.type)
		return false;
	return (s->model == 0 || t->plan.type->model == s->model) && (!s->type || t->plan.type == s->type);
}

/* One site in one workload: its trials are no independent evidence about the model. */
struct cluster {
	const struct fault_type *type;
	uint64_t workload;
	int n, detected;
};

static int cluster_compare(const void *a, const void *b)
{
	const struct cluster *x = a, *y = b;
	int by_type = strcmp(x->type->name, y->type->name);

	return by_type ? by_type : (x->workload > y->workload) - (x->workload < y->workload);
}

/* Shares of clusters, each of which counts as one. */
static void clusters_bound(struct cluster *all, int n, struct tally *out)
{
	double k = 0;
	int clusters = 0;

	qsort(all, (size_t)n, sizeof *all, cluster_compare);
	for (int i = 0, j; i < n; i = j, clusters++) {
		int detected = 0;
		for (j = i; j < n && cluster_compare(&all[i], &all[j]) == 0; j++)
			detected += all[j].detected;
		k += (double)detected / (j - i);
	}
	struct interval bounds = exact_interval(k, clusters, 0.95);
	out->low = bounds.low;
	out->high = bounds.high;
}

/* Within a site by Clopper and Pearson; over a model by clusters. */
static void tally_bound(const struct campaign *c, const struct scope *s, int level, struct tally *out)
{
	struct cluster *all = calloc((size_t)c->n_trials + 1, sizeof *all);
	int n = 0, detected = out->outcome[TRIAL_DETECTED];

	out->low = out->high = NAN;
	for (int64_t i = 0; all && i < c->n_trials; i++) {
		const struct campaign_trial *t = &c->trials[i];
		if (!in_scope(s, t) || campaign_observed(t) <= TRIAL_MASKED)
			continue;
		all[n++] = (struct cluster){
			t->plan.type, t->plan.workload, 1, campaign_enforced(t, level) == TRIAL_DETECTED};
	}
	if (n > 0 && !s->type) {
		clusters_bound(all, n, out);
	} else if (n > 0) {
		struct interval bounds = exact_interval(detected, n, 0.95);
		out->low = bounds.low;
		out->high = bounds.high;
	}
	free(all);
}

static struct tally tally_of(const struct campaign *c, const struct scope *s, int level)
{
	struct tally out = {0};

	for (int64_t i = 0; i < c->n_trials; i++) {
		const struct campaign_trial *t = &c->trials[i];
		if (!in_scope(s, t) || campaign_observed(t) == TRIAL_NOT_ACTIVATED)
			continue;
		enum trial_outcome outcome = campaign_enforced(t, level);
		out.activated++;
		out.late_tokens += t->enforced[level].late_tokens;
		if (campaign_observed(t) == TRIAL_MASKED) {
			out.masked++;
			out.benign += outcome == TRIAL_BENIGN;
		} else {
			out.outcome[outcome]++;
		}
	}
	tally_bound(c, s, level, &out);
	return out;
}

static int tally_n(const struct tally *t)
{
	return t->activated - t->masked;
}

static int64_t false_alarms(const struct campaign *c)
{
	int64_t n = 0;

	for (int64_t i = 0; i < c->n_trials; i++) {
		const struct campaign_trial *t = &c->trials[i];
		n += t->done ? t->observed.early_incidents : 0;
		for (int level = 0; t->done && level < c->options.n_levels; level++)
			n += t->enforced[level].early_incidents;
	}
	return n;
}

/* Without a fault every request is innocent. */
static int64_t collateral(const struct campaign *c)
{
	int64_t n = 0;

	for (int64_t i = 0; i < c->n_trials; i++)
		for (int level = 0; c->trials[i].done && level < c->options.n_levels; level++)
			n += trial_collateral(&c->trials[i].enforced[level], &c->trials[i].observed);
	return n;
}

static int64_t checked_steps(const struct campaign *c)
{
	int64_t n = 0;

	for (int64_t i = 0; i < c->n_trials; i++)
		for (int level = 0; c->trials[i].done && level < c->options.n_levels; level++)
			n += (int64_t)c->trials[i].enforced[level].checked_steps;
	return n;
}

static int64_t unproved(const struct campaign *c)
{
	int64_t n = 0;

	for (int64_t i = 0; i < c->n_trials; i++)
		for (int level = 0; c->trials[i].done && level < c->options.n_levels; level++)
			n += c->trials[i].enforced[level].unproved;
	return n;
}

/* Trials in which an answer told another request's code: in the observed runs, or under the guard. */
static int codes_told(const struct campaign *c, int level)
{
	int n = 0;

	for (int64_t i = 0; i < c->n_trials; i++) {
		const struct campaign_trial *t = &c->trials[i];
		n += t->done && (level < 0 ? t->observed.told : t->enforced[level].told) != 0;
	}
	return n;
}

/* A wrong token left at that level: late, or without a word. */
static bool escaped(const struct campaign_trial *t, int level)
{
	enum trial_outcome outcome = campaign_enforced(t, level);
	return t->done && t->plan.type && (trial_outcome_escaped(outcome) || outcome == TRIAL_DETECTED_LATE);
}

static bool declared(const struct campaign *c, const struct fault_type *type, int level)
{
	return type->level > c->options.levels[level];
}

bool inject_report_holds(const struct campaign *c)
{
	for (int64_t i = 0; i < c->n_trials; i++)
		for (int level = 0; level < c->options.n_levels; level++)
			if (escaped(&c->trials[i], level) && !declared(c, c->trials[i].plan.type, level))
				return false;
	return false_alarms(c) == 0 && collateral(c) == 0 && unproved(c) == 0;
}

static const char *level_name(const struct campaign *c, int level)
{
	return guard_level_name(c->options.levels[level]);
}

/* A fault that no level must catch. */
static const char *declared_name(const struct fault_type *type)
{
	return type->level == GUARD_LEVEL_COUNT ? "none" : guard_level_name(type->level);
}

/* ---- JSON ---- */

static const enum trial_outcome shown[] = {
	TRIAL_DETECTED, TRIAL_DETECTED_LATE, TRIAL_SILENT, TRIAL_LEAK, TRIAL_CRASH, TRIAL_HANG};
enum { SHOWN = sizeof shown / sizeof *shown };

/* A site that declares a higher level than this one, and did not once escape it where it did harm. */
static bool declared_for_nothing(const struct campaign *c, const struct fault_type *type, int level, int *harmful)
{
	struct tally t = tally_of(c, &(struct scope){.type = type}, level);
	int escapes = 0;

	for (int i = 0; i < SHOWN; i++)
		escapes += shown[i] == TRIAL_DETECTED ? 0 : t.outcome[shown[i]];
	*harmful = tally_n(&t);
	return declared(c, type, level) && *harmful > 0 && escapes == 0;
}

static void tally_json(const struct tally *t, struct buf *out)
{
	buf_printf(out, "{\"activated\": %d, \"masked\": %d, \"benign\": %d", t->activated, t->masked, t->benign);
	for (int i = 0; i < SHOWN; i++)
		buf_printf(out, ", \"%s\": %d", trial_outcome_name(shown[i]), t->outcome[shown[i]]);
	buf_append_text(out, ", ");
	json_member_double(out, "low", t->low);
	buf_append_text(out, ", ");
	json_member_double(out, "high", t->high);
	buf_append_char(out, '}');
}

static void levels_json(const struct campaign *c, struct buf *out)
{
	buf_append_text(out, "\"levels\": {");
	for (int level = 0; level < c->options.n_levels; level++) {
		const char *separator = "";
		buf_printf(out, "%s\"%s\": {", level ? ", " : "", level_name(c, level));
		for (int model = 1; model <= FAULT_MODELS; model++) {
			struct tally t = tally_of(c, &(struct scope){.model = model}, level);
			if (t.activated == 0)
				continue;
			buf_printf(out, "%s\"M%d\": ", separator, model);
			tally_json(&t, out);
			separator = ", ";
		}
		buf_append_char(out, '}');
	}
	buf_append_char(out, '}');
}

/* How many trials of the site each check noticed in the observed run, masked ones too. */
static void checks_json(const struct campaign *c, const struct fault_type *type, struct buf *out)
{
	const char *separator = "";

	buf_append_text(out, "\"checks\": {");
	for (int check = 0; check < GUARD_CHECK_COUNT; check++) {
		int n = 0;
		for (int64_t i = 0; i < c->n_trials; i++)
			n += in_scope(&(struct scope){.type = type}, &c->trials[i]) &&
				(c->trials[i].observed.checks >> check & 1);
		if (n == 0)
			continue;
		buf_printf(out, "%s\"%s\": %d", separator, guard_check_name((enum guard_check)check), n);
		separator = ", ";
	}
	buf_append_char(out, '}');
}

static void site_json(const struct campaign *c, const struct fault_type *type, struct buf *out)
{
	int activated = 0, masked = 0;

	for (int64_t i = 0; i < c->n_trials; i++) {
		if (!in_scope(&(struct scope){.type = type}, &c->trials[i]))
			continue;
		activated += campaign_observed(&c->trials[i]) != TRIAL_NOT_ACTIVATED;
		masked += campaign_observed(&c->trials[i]) == TRIAL_MASKED;
	}
	buf_printf(out,
		"\"%s\": {\"model\": \"M%d\", \"level\": \"%s\", \"activated\": %d, \"masked\": %d, \"guards\": {",
		type->name, type->model, declared_name(type), activated, masked);
	for (int level = 0; level < c->options.n_levels; level++) {
		struct tally t = tally_of(c, &(struct scope){.type = type}, level);
		buf_printf(out, "%s\"%s\": ", level ? ", " : "", level_name(c, level));
		tally_json(&t, out);
	}
	buf_append_text(out, "}, ");
	checks_json(c, type, out);
	buf_append_char(out, '}');
}

static void escapes_json(const struct campaign *c, struct buf *out)
{
	const char *separator = "";

	buf_append_text(out, "\"escapes\": [");
	for (int64_t i = 0; i < c->n_trials; i++)
		for (int level = 0; level < c->options.n_levels; level++) {
			char line[CAMPAIGN_REPLAY_SIZE];
			if (!escaped(&c->trials[i], level))
				continue;
			campaign_replay_line(&c->trials[i].plan, level_name(c, level), line);
			buf_printf(out, "%s\"%s\"", separator, line);
			separator = ", ";
		}
	buf_append_char(out, ']');
}

static void unseen_json(const struct campaign *c, struct buf *out)
{
	const char *separator = "";

	buf_append_text(out, "\"declared_not_seen\": [");
	for (int level = 0; level < c->options.n_levels; level++)
		for (int i = 0; i < c->options.n_types; i++) {
			int harmful;
			if (!declared_for_nothing(c, c->options.types[i], level, &harmful))
				continue;
			buf_printf(out, "%s\"%s %s\"", separator, level_name(c, level), c->options.types[i]->name);
			separator = ", ";
		}
	buf_append_text(out, "], ");
}

void inject_report_json(const struct campaign *c, struct buf *out)
{
	buf_printf(out, "{\"schema_version\": 1, \"trials\": %" PRId64 ", \"seed\": %" PRIu64 ", ", c->n_trials,
		c->options.seed);
	levels_json(c, out);
	buf_append_text(out, ", \"sites\": {");
	for (int i = 0; i < c->options.n_types; i++) {
		buf_append_text(out, i ? ", " : "");
		site_json(c, c->options.types[i], out);
	}
	buf_printf(out,
		"}, \"false_alarms\": %" PRId64 ", \"collateral\": %" PRId64 ", \"checked_steps\": %" PRId64
		", \"codes_told\": %d, \"holds\": %s, ",
		false_alarms(c), collateral(c), checked_steps(c), codes_told(c, -1),
		inject_report_holds(c) ? "true" : "false");
	unseen_json(c, out);
	escapes_json(c, out);
	buf_append_text(out, "}\n");
}

/* ---- text ---- */

static void table_header(struct table *t, const char *const *names, int n)
{
	for (int i = 0; i < n; i++)
		table_add(t, str_of(names[i]));
}

static void tally_row(struct table *table, const char *name, const struct tally *t)
{
	int n = tally_n(t);

	table_add(table, str_of(name));
	table_printf(table, "%d", t->activated);
	table_printf(table, "%d", t->masked);
	for (int i = 0; i < SHOWN; i++)
		table_printf(table, "%d", t->outcome[shown[i]]);
	if (n == 0) {
		table_add(table, str_of("-"));
		return;
	}
	table_printf(table, "%.1f%% [%.1f, %.1f]", 100.0 * t->outcome[TRIAL_DETECTED] / n, 100 * t->low, 100 * t->high);
}

static const char *const tally_columns[] = {"fault model", "activated", "masked", "detected", "late", "silent", "leak",
	"crash", "hang", "detected of harmful"};

static int level_text(const struct campaign *c, int level, bool color, struct buf *out, struct error *e)
{
	struct table table;
	char name[64];

	buf_printf(out, "guard %s\n", level_name(c, level));
	table_init(&table, "lrrrrrrrrr");
	table_header(&table, tally_columns, 10);
	for (int model = 1; model <= FAULT_MODELS; model++) {
		struct tally t = tally_of(c, &(struct scope){.model = model}, level);
		if (t.activated == 0)
			continue;
		snprintf(name, sizeof name, "M%d %s", model, fault_model_name(model));
		tally_row(&table, name, &t);
	}
	struct tally all = tally_of(c, &(struct scope){0}, level);
	tally_row(&table, "all", &all);
	int status = table_write(&table, color, out, e);
	table_free(&table);
	buf_append_char(out, '\n');
	return status;
}

/* Trials of the model, harmful where they are not noticed, that a check noticed in the observed run; alone: no other. */
static int noticed(const struct campaign *c, int model, int check, bool alone)
{
	int n = 0;

	for (int64_t i = 0; i < c->n_trials; i++) {
		const struct campaign_trial *t = &c->trials[i];
		uint32_t bit = UINT32_C(1) << check;
		if (!in_scope(&(struct scope){.model = model}, t) || campaign_observed(t) <= TRIAL_MASKED)
			continue;
		n += alone ? t->observed.checks == bit : (t->observed.checks & bit) != 0;
	}
	return n;
}

/* A row per check, a column per model; the last column is what would be lost without the check. */
static int matrix_text(const struct campaign *c, bool color, struct buf *out, struct error *e)
{
	struct table table;

	buf_append_text(out, "harmful trials that each check noticed, in the runs where none is stopped\n");
	table_init(&table, "llrrrrrrrrrrrrrr");
	table_add(&table, str_of("check"));
	table_add(&table, str_of("from"));
	for (int model = 1; model <= FAULT_MODELS; model++)
		table_printf(&table, "M%d", model);
	table_add(&table, str_of("it alone"));
	for (int check = 0; check < GUARD_CHECK_COUNT; check++) {
		table_add(&table, str_of(guard_check_name((enum guard_check)check)));
		table_add(&table, str_of(guard_level_name(guard_check_level((enum guard_check)check))));
		for (int model = 1; model <= FAULT_MODELS; model++)
			table_printf(&table, "%d", noticed(c, model, check, false));
		table_printf(&table, "%d", noticed(c, 0, check, true));
	}
	int status = table_write(&table, color, out, e);
	table_free(&table);
	buf_append_char(out, '\n');
	return status;
}

/* The escapes of one site at one level, with the first one's replay line. */
static void site_escapes_text(const struct campaign *c, const struct fault_type *type, int level, struct buf *out)
{
	const struct campaign_trial *first = NULL;
	char line[CAMPAIGN_REPLAY_SIZE];
	int n = 0;

	for (int64_t i = 0; i < c->n_trials; i++) {
		const struct campaign_trial *t = &c->trials[i];
		if (t->plan.type != type || !escaped(t, level))
			continue;
		first = n++ ? first : t;
	}
	if (n == 0)
		return;
	bool known = declared(c, type, level);
	campaign_replay_line(&first->plan, level_name(c, level), line);
	buf_printf(out, "  %s %s: %d, as the site declares: %s\n", level_name(c, level), type->name, n,
		known ? type->reason : "NOT, this level must catch it");
	buf_printf(
		out, "    %s: assay inject --replay '%s'\n", trial_outcome_name(campaign_enforced(first, level)), line);
}

static void escapes_text(const struct campaign *c, struct buf *out)
{
	size_t begin = out->length;

	for (int level = 0; level < c->options.n_levels; level++)
		for (int i = 0; i < c->options.n_types; i++)
			site_escapes_text(c, c->options.types[i], level, out);
	if (out->length > begin)
		buf_append_char(out, '\n');
}

/* The escapes of a level are to be exactly those that are declared: the other direction, which few trials do not settle. */
static void unseen_text(const struct campaign *c, struct buf *out)
{
	size_t begin = out->length;

	for (int level = 0; level < c->options.n_levels; level++)
		for (int i = 0; i < c->options.n_types; i++) {
			const struct fault_type *type = c->options.types[i];
			int harmful;
			if (!declared_for_nothing(c, type, level, &harmful))
				continue;
			buf_printf(out,
				"  %s %s: an escape is declared, but 0 of %d harmful trials escaped (few do not settle "
				"it)\n",
				level_name(c, level), type->name, harmful);
		}
	if (out->length > begin)
		buf_append_char(out, '\n');
}

static void codes_text(const struct campaign *c, struct buf *out)
{
	buf_printf(out, "an answer told another request's code in %d observed runs", codes_told(c, -1));
	for (int level = 0; level < c->options.n_levels; level++)
		buf_printf(out, ", %d under %s", codes_told(c, level), level_name(c, level));
	buf_append_text(out, "\n");
}

static void verdict_text(const struct campaign *c, struct buf *out)
{
	int64_t steps = checked_steps(c), alarms = false_alarms(c);
	struct interval bounds = exact_interval((double)alarms, (double)(steps > 0 ? steps : 1), 0.90);

	if (steps > 0)
		buf_printf(out,
			"%" PRId64 " false alarms in %" PRId64 " checked steps (at most %.2g a step, at 95%%); ",
			alarms, steps, bounds.high);
	else
		buf_append_text(out, "no guard checked a step; ");
	buf_printf(out, "%" PRId64 " requests changed that have nothing to do with the fault\n", collateral(c));
	if (unproved(c) > 0)
		buf_printf(out, "%" PRId64 " runs in which a check of every step never ran\n", unproved(c));
	buf_append_text(out,
		inject_report_holds(c) ? "holds: every escape is one that its site declares\n" : "does not hold\n");
}

int inject_report_text(const struct campaign *c, bool color, struct buf *out, struct error *e)
{
	buf_printf(out, "%" PRId64 " trials, seed %" PRIu64 "\n\n", c->n_trials, c->options.seed);
	if (c->options.n_types > 0) {
		for (int level = 0; level < c->options.n_levels; level++)
			TRY(level_text(c, level, color, out, e));
		TRY(matrix_text(c, color, out, e));
		escapes_text(c, out);
		unseen_text(c, out);
		codes_text(c, out);
	}
	verdict_text(c, out);
	return buf_check(out, e);
}

/* ---- one trial ---- */

static const char *first_check(const struct trial_facts *f)
{
	return f->first_check < 0 ? "-" : guard_check_name((enum guard_check)f->first_check);
}

int inject_trial_text(const struct campaign *c, bool color, struct buf *out, struct error *e)
{
	static const char *const columns[] = {"run", "guard", "step", "outcome", "first check", "findings",
		"wrong answers left", "late tokens", "changed for nothing", "message"};
	const struct campaign_trial *t = &c->trials[0];
	struct table table;

	table_init(&table, "llrllrrrrl");
	table_header(&table, columns, 10);
	for (int level = t->plan.type ? -1 : 0; level < c->options.n_levels; level++) {
		const struct trial_facts *f = level < 0 ? &t->observed : &t->enforced[level];
		table_add(&table, str_of(level < 0 ? "observed" : "enforced"));
		table_add(&table, str_of(level < 0 ? "digest" : level_name(c, level)));
		table_printf(&table, "%d", f->step);
		table_add(&table,
			str_of(trial_outcome_name(level < 0 ? campaign_observed(t) : campaign_enforced(t, level))));
		table_add(&table, str_of(first_check(f)));
		table_printf(&table, "%d", f->incidents);
		table_printf(&table, "%d", __builtin_popcount(f->wrong & ~f->failed));
		table_printf(&table, "%d", f->late_tokens);
		table_printf(&table, "%d", level < 0 ? 0 : trial_collateral(f, &t->observed));
		table_add(&table, str_of(f->message));
	}
	int status = table_write(&table, color, out, e);
	table_free(&table);
	return status;
}

void inject_trial_json(const struct campaign *c, struct buf *out)
{
	const struct campaign_trial *t = &c->trials[0];
	char line[CAMPAIGN_REPLAY_SIZE];

	campaign_replay_line(&t->plan, NULL, line);
	buf_printf(out, "{\"schema_version\": 1, \"replay\": \"%s\", ", line);
	if (t->plan.type) /* else there is no observed run */
		buf_printf(out, "\"step\": %d, \"observed\": \"%s\", ", t->observed.step,
			trial_outcome_name(campaign_observed(t)));
	buf_append_text(out, "\"enforced\": {");
	for (int level = 0; level < c->options.n_levels; level++) {
		const struct trial_facts *f = &t->enforced[level];
		buf_printf(out,
			"%s\"%s\": {\"outcome\": \"%s\", \"first_check\": \"%s\", \"late_tokens\": %d, "
			"\"collateral\": %d}",
			level ? ", " : "", level_name(c, level), trial_outcome_name(campaign_enforced(t, level)),
			first_check(f), f->late_tokens, trial_collateral(f, &t->observed));
	}
	buf_append_text(out, "}}\n");
}

/* ---- the list ---- */

int inject_list_text(bool color, struct buf *out, struct error *e)
{
	static const char *const columns[] = {"site", "model", "where", "caught from", "public bug", "what it does"};
	struct table table;

	table_init(&table, "llllll");
	table_header(&table, columns, 6);
	for (int i = 0; i < fault_type_count(); i++) {
		const struct fault_type *t = fault_type(i);
		table_add(&table, str_of(t->name));
		table_printf(&table, "M%d", t->model);
		table_add(&table, str_of(fault_site_name(t->site)));
		table_add(&table, str_of(declared_name(t)));
		table_add(&table, str_of(t->bug));
		table_printf(&table, "%s; %s", t->does, t->reason);
	}
	int status = table_write(&table, color, out, e);
	table_free(&table);
	return status;
}

void inject_list_json(struct buf *out)
{
	buf_append_text(out, "{\"schema_version\": 1, \"sites\": [");
	for (int i = 0; i < fault_type_count(); i++) {
		const struct fault_type *t = fault_type(i);
		char model[8];
		snprintf(model, sizeof model, "M%d", t->model);
		const char *const members[][2] = {{"site", t->name}, {"model", model},
			{"where", fault_site_name(t->site)}, {"level", declared_name(t)}, {"bug", t->bug},
			{"does", t->does}, {"reason", t->reason}};
		for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
			buf_append_text(out, m ? ", " : i ? ", {" : "{");
			json_member_text(out, members[m][0], members[m][1]);
		}
		buf_append_char(out, '}');
	}
	buf_append_text(out, "]}\n");
}
