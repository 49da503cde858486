#include "evals/gate_plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "engine/base/json_strict.h"
#include "evals/console.h"
#include "evals/model_path.h"
#include "evals/sides.h"
#include "evals/suite.h"
#include "evals/suite_task.h"

/* Shares of items that may change, and standard deviations in nat of how a log-probability may change. */
static const double discordances[] = {0.02, 0.05, 0.1};
static const double deviations[] = {0.05, 0.1, 0.2};
enum { ASSUMPTIONS = 3 };

struct planned_suite {
	char *name;
	int64_t n;
};

/* A task of a suite whose items are counted already. */
struct planned_task {
	char *name;
	size_t suite;
};

struct plan {
	const struct policy *policy;
	struct planned_suite suites[CLI_MAX_LIST];
	size_t n_suites;
	struct planned_task *tasks; /* [n_tasks] */
	size_t n_tasks;
	int64_t n, multiple_choice;
};

static void plan_free(struct plan *p)
{
	for (size_t i = 0; i < p->n_suites; i++)
		free(p->suites[i].name);
	for (size_t i = 0; i < p->n_tasks; i++)
		free(p->tasks[i].name);
	free(p->tasks);
}

static int add_suite(struct plan *p, const char *name, int64_t n, struct error *e)
{
	if (p->n_suites == CLI_MAX_LIST)
		return error_set(e, ERR_USAGE, "--plan: more than %d suites, choose some with --suite", CLI_MAX_LIST);
	char *copy = strdup(name);
	if (!copy)
		return error_set(e, ERR_MEMORY, "no memory for a plan");
	p->suites[p->n_suites++] = (struct planned_suite){copy, n};
	p->n += n;
	return 0;
}

/* ---- Items ---- */

/* Adds a task of the suite that comes next. One that another suite has, too, would be counted twice. */
static int add_task(struct plan *p, const char *suite, const char *name, struct error *e)
{
	for (size_t i = 0; i < p->n_tasks; i++)
		if (p->tasks[i].suite < p->n_suites && strcmp(p->tasks[i].name, name) == 0)
			return error_set(e, ERR_USAGE,
				"--plan: suites %.80s and %.80s hold the same items (those of %.80s), expected one of "
				"the two",
				p->suites[p->tasks[i].suite].name, suite, name);
	struct planned_task *grown = reallocarray(p->tasks, p->n_tasks + 1, sizeof(*grown));
	if (!grown)
		return error_set(e, ERR_MEMORY, "no memory for a plan");
	p->tasks = grown;
	char *copy = strdup(name);
	if (!copy)
		return error_set(e, ERR_MEMORY, "no memory for a plan");
	p->tasks[p->n_tasks++] = (struct planned_task){copy, p->n_suites};
	return 0;
}

static int count_suite(struct plan *p, const char *name, const struct suite_options *options, struct error *e)
{
	struct suite *suite;
	TRY(suite_open(name, options, &suite, e));
	for (int i = 0; i < suite_count(suite); i++)
		p->multiple_choice += suite_item(suite, i)->kind == REQUEST_LOGLIKELIHOOD;
	int status = 0;
	for (int t = 0; t < suite_task_count(suite) && status == 0; t++)
		status = add_task(p, suite_name(suite), suite_task(suite, t)->name, e);
	if (status == 0)
		status = add_suite(p, suite_name(suite), suite_count(suite), e);
	suite_close(suite);
	return status;
}

static int count_data(struct plan *p, const struct options *o, struct error *e)
{
	char *data = NULL;
	if (o->n_suites == 0)
		return error_set(e, ERR_USAGE, "--plan: no items, expected --suite (with --data) or --baseline");
	TRY(data_path(o, &data, e));
	const struct suite_options options = {.data_folder = data, .fewshot = -1, .seed = 1234};
	int status = 0;
	for (int i = 0; i < o->n_suites && status == 0; i++)
		status = count_suite(p, o->suites[i], &options, e);
	free(data);
	return status;
}

/* A baseline beside itself: how many pairs a comparison with it can have at most. */
static int count_baseline(struct plan *p, const struct options *o, struct error *e)
{
	struct pairing pairing;
	int status = sides_pair(o, o->baseline, o->baseline, p->policy, &pairing, e);
	if (status == 0)
		status = pairing_check_overlap(&pairing, e);
	for (size_t i = 0; i < pairing.n_suites && status == 0; i++) {
		const struct suite_pairs *suite = &pairing.suites[i];
		for (size_t j = 0; j < suite->n; j++)
			p->multiple_choice += !isnan(suite->pairs[j].baseline_logprob);
		if (suite->binary)
			status = add_suite(p, suite->suite, suite->by_state[PAIR_COMPLETE], e);
	}
	pairing_free(&pairing);
	return status;
}

/* ---- What they could decide ---- */

struct prospect {
	double assumed, power, smallest, needed;
};

static struct prospect table_prospect(const struct policy *p, double n, double margin, double psi)
{
	return (struct prospect){psi, noninferiority_power(psi, margin, n, p->alpha),
		smallest_detectable_drop(psi, n, p->alpha, p->power),
		ceil(noninferiority_size(psi, 0, margin, p->alpha, p->power))};
}

/* A mean with that deviation behaves as a drop with its square as discordance. */
static struct prospect mean_prospect(const struct policy *p, double n, double margin, double deviation)
{
	struct prospect x = table_prospect(p, n, margin, deviation * deviation);
	x.assumed = deviation;
	return x;
}

struct planned {
	const char *name;
	int64_t n;
	struct policy_endpoint endpoint;
	bool points;
	struct prospect prospects[ASSUMPTIONS];
};

static struct planned plan_endpoint(
	const struct policy *p, const char *name, int64_t n, struct policy_endpoint endpoint, bool points)
{
	struct planned x = {.name = name, .n = n, .endpoint = endpoint, .points = points};
	for (int i = 0; i < ASSUMPTIONS; i++)
		x.prospects[i] = points ? table_prospect(p, (double)n, endpoint.margin, discordances[i])
					: mean_prospect(p, (double)n, endpoint.margin, deviations[i]);
	return x;
}

/* Pooled, then delta_logprob (where there are multiple-choice items, or where the policy names it), then the suites. */
static size_t plan_all(const struct plan *p, struct planned out[CLI_MAX_LIST + 2])
{
	size_t n = 0;
	out[n++] = plan_endpoint(p->policy, "pooled", p->n, p->policy->pooled, true);
	if (p->multiple_choice || p->policy->names_delta_logprob)
		out[n++] =
			plan_endpoint(p->policy, "delta_logprob", p->multiple_choice, p->policy->delta_logprob, false);
	for (size_t i = 0; i < p->n_suites; i++)
		out[n++] = plan_endpoint(p->policy, p->suites[i].name, p->suites[i].n,
			policy_of_suite(p->policy, p->suites[i].name), true);
	return n;
}

/* ---- Writing ---- */

/* What the policy names and these items cannot tell. */
static void add_unmeasurable(struct table *t, const struct planned *x)
{
	table_add(t, str_of(x->name));
	table_add(t, str_of(tier_name(x->endpoint.tier)));
	table_add(t, str_of("0"));
	table_printf(t, "%g nat", x->endpoint.margin);
	table_add(t, str_of("no multiple choice"));
	for (int i = 0; i < 3; i++)
		table_add(t, str_of("-"));
}

static void add_rows(struct table *t, const struct planned *x)
{
	const char *unit = x->points ? "points" : "nat";
	double scale = x->points ? 100 : 1;
	if (x->n == 0 && !x->points) {
		add_unmeasurable(t, x);
		return;
	}
	for (int i = 0; i < ASSUMPTIONS; i++) {
		const struct prospect *at = &x->prospects[i];
		table_add(t, str_of(i ? "" : x->name));
		table_add(t, str_of(i ? "" : tier_name(x->endpoint.tier)));
		table_printf(t, "%" PRId64, x->n);
		table_printf(t, "%g %s", scale * x->endpoint.margin, unit);
		if (x->points)
			table_printf(t, "%g%% change", 100 * at->assumed);
		else
			table_printf(t, "deviation %g nat", at->assumed);
		table_printf(t, "%.1f%%", 100 * at->power);
		table_printf(t, x->points ? "%.3f %s" : "%.4f %s", scale * at->smallest, unit);
		table_printf(t, "%.0f", at->needed);
	}
}

static int plan_text(const struct planned *all, size_t n, double power, bool color, struct buf *out, struct error *e)
{
	static const char *const names[] = {
		"endpoint", "tier", "n", "margin", "if", "power", "smallest drop found", "n needed"};
	struct table t;
	table_init(&t, "llrrlrrr");
	for (int i = 0; i < t.columns; i++)
		table_add(&t, str_of(names[i]));
	for (size_t i = 0; i < n; i++)
		add_rows(&t, &all[i]);
	int status = table_write(&t, color, out, e);
	table_free(&t);
	buf_printf(out, "\nPower: the chance of a pass if nothing is lost. Found, needed: with a power of %g%%.\n",
		100 * power);
	return status;
}

static void append_planned(const struct planned *x, struct buf *out)
{
	json_write_string(str_of(x->name), false, out);
	buf_printf(out, ": {\"n\": %" PRId64 ", \"tier\": \"%s\", \"margin\": ", x->n, tier_name(x->endpoint.tier));
	json_write_double(x->endpoint.margin, out);
	buf_append_text(out, ", \"if\": [");
	for (int i = 0; i < ASSUMPTIONS && (x->n || x->points); i++) {
		const struct prospect *at = &x->prospects[i];
		buf_printf(out, "%s{\"%s\": ", i ? ", " : "", x->points ? "discordance" : "deviation");
		json_write_double(at->assumed, out);
		buf_append_text(out, ", \"power\": ");
		json_write_double_or_null(at->power, out);
		buf_append_text(out, ", \"smallest_drop\": ");
		json_write_double_or_null(at->smallest, out);
		buf_printf(out, ", \"n_needed\": %.0f}", at->needed);
	}
	buf_append_text(out, "]}");
}

static void plan_json(const struct planned *all, size_t n, size_t n_suites, struct buf *out)
{
	buf_append_text(out, "{\"schema_version\": 1, \"endpoints\": {");
	for (size_t i = 0; i < n; i++) {
		buf_append_text(out, i == n - n_suites ? "}, \"suites\": {" : i ? ", " : "");
		append_planned(&all[i], out);
	}
	buf_append_text(out, "}}\n");
}

int gate_plan(const struct options *o, const struct policy *policy, bool color, struct buf *out, struct error *e)
{
	struct plan p = {.policy = policy};
	struct planned all[CLI_MAX_LIST + 2];
	int status = o->baseline ? count_baseline(&p, o, e) : count_data(&p, o, e);
	if (status == 0 && p.n == 0)
		status = error_set(e, ERR_EMPTY, "--plan: no items to compare");
	if (status == 0) {
		size_t n = plan_all(&p, all);
		if (o->json)
			plan_json(all, n, p.n_suites, out);
		else
			status = plan_text(all, n, policy->power, color, out, e);
	}
	plan_free(&p);
	return status < 0 ? status : buf_check(out, e);
}
