#include "reports/verdict.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "reports/differences.h"

const char *outcome_name(enum outcome outcome)
{
	static const char *const names[] = {"pass", "fail", "inconclusive"};
	return names[outcome];
}

/* ---- Comparing ---- */

static int nothing_to_compare(const struct pairing *p, const struct comparison *pooled, struct error *e)
{
	if (p->baseline.n == 0 || p->candidate.n == 0)
		return error_set(e, ERR_EMPTY, "nothing to compare: %s holds no answers%s",
			p->baseline.n == 0 ? p->baseline.label : p->candidate.label,
			p->baseline.n + p->candidate.n == 0 ? ", and neither does the other side" : "");
	if (pooled->unmatched == (int64_t)p->n_pairs)
		return error_set(e, ERR_EMPTY,
			"nothing to compare: %s (%zu answers) and %s (%zu answers) have no item of the same suite and "
			"doc_id",
			p->baseline.label, p->baseline.n, p->candidate.label, p->candidate.n);
	for (size_t i = 0; i < p->n_suites; i++)
		if (!p->suites[i].binary)
			return error_set(e, ERR_EMPTY,
				"nothing to compare: %.60s of suite %.60s is not 0 or 1, so that no answer is right or "
				"wrong",
				p->suites[i].metric, p->suites[i].suite);
	return error_set(e, ERR_EMPTY,
		"nothing to compare: no item has a score on both sides (%" PRId64 " errors, %" PRId64
		" truncated, %" PRId64 " unmatched)",
		pooled->errors, pooled->truncated, pooled->unmatched);
}

int verdict_compare(const struct pairing *pairing, struct verdict *out, struct error *e)
{
	*out = (struct verdict){.outcome = OUTCOME_INCONCLUSIVE, .exit_code = 3, .pairing = pairing};
	TRY(comparison_pooled(pairing, &out->pooled, e));
	if (out->pooled.n == 0 && out->pooled.logprob_n == 0 && out->pooled.kl_n == 0)
		return nothing_to_compare(pairing, &out->pooled, e);
	out->suites = mem_calloc(pairing->n_suites, sizeof(*out->suites), e);
	if (!out->suites)
		return ERR_MEMORY;
	while (out->n_suites < pairing->n_suites) {
		const struct suite_pairs *suite = &pairing->suites[out->n_suites];
		struct suite_verdict *verdict = &out->suites[out->n_suites++];
		TRY(comparison_of_suite(pairing, suite, &verdict->comparison, e));
		TRY(tool_suite_make(suite, &verdict->tools, e));
	}
	out->aa_wanted = !(pairing->baseline.deterministic && pairing->candidate.deterministic) &&
		pairing->baseline.variant_id && pairing->candidate.variant_id;
	return differences_find(&pairing->baseline, &pairing->candidate, &out->differences, &out->n_differences, e);
}

static void set_aa(struct comparison *to, const struct comparison *from)
{
	to->aa_n = from->n;
	to->aa_flips = from->n ? from->flips : NAN;
}

int verdict_add_aa(struct verdict *v, const struct pairing *aa, struct error *e)
{
	struct comparison c;
	TRY(comparison_pooled(aa, &c, e));
	set_aa(&v->pooled, &c);
	for (size_t i = 0; i < v->n_suites; i++)
		for (size_t j = 0; j < aa->n_suites; j++) {
			if (strcmp(aa->suites[j].suite, v->suites[i].comparison.suite) != 0)
				continue;
			TRY(comparison_of_suite(aa, &aa->suites[j], &c, e));
			set_aa(&v->suites[i].comparison, &c);
		}
	return 0;
}

void verdict_free(struct verdict *v)
{
	for (size_t i = 0; i < v->n_suites; i++)
		tool_suite_free(&v->suites[i].tools);
	free(v->suites);
	differences_free(v->differences, v->n_differences);
	*v = (struct verdict){0};
}

/* ---- Judging one endpoint ---- */

static struct endpoint endpoint_begin(const struct policy *policy, const char *name, struct policy_endpoint from)
{
	return (struct endpoint){
		.name = name,
		.unit = "points",
		.tier = from.tier,
		.margin = from.margin,
		.alpha = policy->alpha,
		.method = "none",
		.drop = NAN,
		.interval = {NAN, NAN},
		.lower = NAN,
		.upper = NAN,
		.p_pass = NAN,
		.p_fail = NAN,
		.p_holm = NAN,
		.p_fail_holm = NAN,
		.outcome = OUTCOME_INCONCLUSIVE,
	};
}

/* "1 point", "0.25 points", "0.02 nat" */
static void append_amount(struct buf *out, const struct endpoint *x, double value)
{
	bool points = strcmp(x->unit, "points") == 0;
	double shown = points ? 100 * value : value;
	char text[40];
	snprintf(text, sizeof(text), points ? "%.2f" : "%.4f", shown);
	/* -0.00 is zero */
	double rounded = strtod(text, NULL);
	buf_printf(out, "%s %s", rounded == 0 && text[0] == '-' ? text + 1 : text, x->unit);
}

static void append_margin(struct buf *out, const struct endpoint *x)
{
	bool points = strcmp(x->unit, "points") == 0;
	double shown = points ? 100 * x->margin : x->margin;
	buf_printf(out, "the margin of %g %s", shown, points && shown == 1 ? "point" : x->unit);
}

static void append_name(struct buf *out, const struct endpoint *x)
{
	if (strcmp(x->unit, "nat") == 0)
		buf_append_text(out, "the drop of the right choice's log-probability of ");
	else if (strcmp(x->name, "pooled") == 0)
		buf_append_text(out, "the pooled drop of ");
	else
		buf_printf(out, "the drop on %.60s of ", x->name);
	append_amount(out, x, x->drop);
	buf_printf(out, " over %" PRId64 " items ", x->n);
}

static void set_reason(struct endpoint *x, struct buf *text)
{
	snprintf(x->reason, sizeof(x->reason), "%s", buf_text(text));
	buf_free(text);
}

static void explain_bounds(struct endpoint *x)
{
	struct buf text = {0};
	append_name(&text, x);
	if (x->outcome == OUTCOME_PASS || x->outcome == OUTCOME_FAIL) {
		bool pass = x->outcome == OUTCOME_PASS;
		buf_printf(&text, "is %s ", pass ? "below" : "above");
		append_margin(&text, x);
		buf_printf(&text, " (%s bound ", pass ? "upper" : "lower");
		append_amount(&text, x, pass ? x->upper : x->lower);
		buf_append_char(&text, ')');
	} else {
		buf_append_text(&text, "may lie on either side of ");
		append_margin(&text, x);
		buf_append_text(&text, " (bounds ");
		append_amount(&text, x, x->lower);
		buf_append_text(&text, " and ");
		append_amount(&text, x, x->upper);
		buf_append_text(&text, "), ");
		if (x->n_needed)
			buf_printf(&text, "about %" PRId64 " items would decide", x->n_needed);
		else
			buf_append_text(&text, "and no number of items decides a drop at the margin");
	}
	set_reason(x, &text);
}

static void explain_coverage(struct endpoint *x, const struct comparison *c, double minimum)
{
	struct buf text = {0};
	buf_printf(&text, "%.60s has pairs for %.1f%% of its items, expected %g%% (",
		strcmp(x->name, "pooled") == 0 ? "the pooled table" : x->name, 100 * x->coverage, 100 * minimum);
	buf_printf(&text, "%" PRId64 " errors, %" PRId64 " truncated, %" PRId64 " unmatched; at worst a drop of ",
		c->errors, c->truncated, c->unmatched);
	append_amount(&text, x, c->worst_drop);
	buf_append_char(&text, ')');
	set_reason(x, &text);
}

static int64_t whole_size(double size)
{
	return isfinite(size) && size < 9e15 ? (int64_t)size : 0;
}

static void judge_by_bounds(struct endpoint *x)
{
	if (x->upper < x->margin)
		x->outcome = OUTCOME_PASS;
	else if (x->lower > x->margin)
		x->outcome = OUTCOME_FAIL;
}

/* Fills everything but the adjusted p values. */
static struct endpoint judge_table(
	const struct policy *policy, const char *name, struct policy_endpoint from, const struct comparison *c)
{
	struct endpoint x = endpoint_begin(policy, name, from);
	x.n = c->n;
	x.coverage = c->coverage;
	if (c->n > 0) {
		struct drop_bounds bounds = drop_bounds(c->table, policy->alpha, c->design_effect);
		x.drop = c->drop;
		x.interval = c->interval;
		x.lower = bounds.lower;
		x.upper = bounds.upper;
		x.method = bounds.exact ? "exact" : "score";
		x.p_pass = noninferiority_p(c->table, x.margin, c->design_effect);
		x.p_fail = inferiority_p(c->table, x.margin, c->design_effect);
	}
	if (!c->has_table) {
		snprintf(x.reason, sizeof(x.reason), "%.60s has no right or wrong answers to count", name);
	} else if (c->n == 0 || c->coverage < policy->min_coverage) {
		explain_coverage(&x, c, policy->min_coverage);
	} else {
		judge_by_bounds(&x);
		if (x.outcome == OUTCOME_INCONCLUSIVE)
			x.n_needed = whole_size(
				deciding_size(c->table, x.margin, c->design_effect, policy->alpha, policy->power));
		explain_bounds(&x);
	}
	return x;
}

/* Items that decide a mean of that spread, as deciding_size does for a table. */
static double deciding_size_of_mean(const struct endpoint *x, double variance, double power)
{
	double z = normal_quantile(1 - x->alpha) + normal_quantile(power);
	double needed = z * z * variance / (x->margin * x->margin);
	if (needed > (double)x->n)
		return ceil(needed);
	double gap = x->margin - x->drop;
	if (fabs(gap) < 1e-9)
		return NAN;
	return fmax(ceil(z * z * variance / (gap * gap)), (double)x->n + 1);
}

static void bound_mean(struct endpoint *x, const struct comparison *c)
{
	struct interval bounds = t_interval(x->drop, c->logprob_error, c->logprob_df, 1 - 2 * x->alpha);
	double distance = x->drop - x->margin;
	x->method = "t";
	x->lower = bounds.low;
	x->upper = bounds.high;
	if (c->logprob_error > 0) {
		x->p_pass = t_cdf(distance / c->logprob_error, c->logprob_df);
		x->p_fail = t_cdf(-distance / c->logprob_error, c->logprob_df);
	} else { /* every item changed by the same */
		x->p_pass = distance < 0 ? 0 : 1;
		x->p_fail = distance > 0 ? 0 : 1;
	}
}

static void explain_logprob_coverage(struct endpoint *x, const struct comparison *c, double minimum)
{
	if (c->logprob_items == 0)
		snprintf(x->reason, sizeof(x->reason),
			"delta_logprob, which the policy names, cannot be measured: neither side has an answer to a "
			"multiple-choice item of these suites of which the right choice is known");
	else
		snprintf(x->reason, sizeof(x->reason),
			"delta_logprob has the right choice's log-probability on both sides for %.1f%% of the "
			"multiple-choice items (%" PRId64 " of %" PRId64 "), expected %g%%",
			100 * x->coverage, c->logprob_n, c->logprob_items, 100 * minimum);
}

static struct endpoint judge_logprob(const struct policy *policy, const struct comparison *c)
{
	struct endpoint x = endpoint_begin(policy, "delta_logprob", policy->delta_logprob);
	x.unit = "nat";
	x.n = c->logprob_n;
	x.coverage = c->logprob_items ? (double)c->logprob_n / (double)c->logprob_items : 0;
	if (c->logprob_n > 0)
		x.drop = 0 - c->delta_logprob;
	if (isfinite(c->logprob_error)) {
		x.interval = t_interval(x.drop, c->logprob_error, c->logprob_df, 0.95);
		bound_mean(&x, c);
	}
	if (x.coverage < policy->min_coverage) {
		explain_logprob_coverage(&x, c, policy->min_coverage);
	} else if (!isfinite(c->logprob_error)) {
		snprintf(x.reason, sizeof(x.reason),
			"one multiple-choice item says nothing of the spread of its log-probability");
	} else {
		judge_by_bounds(&x);
		double variance = c->logprob_error * c->logprob_error * (double)c->logprob_n;
		if (x.outcome == OUTCOME_INCONCLUSIVE)
			x.n_needed = whole_size(deciding_size_of_mean(&x, variance, policy->power));
		explain_bounds(&x);
	}
	return x;
}

/* ---- Judging all of them ---- */

/* All endpoints, those of suites last. */
static struct endpoint *endpoint_at(struct verdict *v, size_t i)
{
	return i < v->n_endpoints ? &v->endpoints[i] : &v->suites[i - v->n_endpoints].endpoint;
}

static size_t endpoint_count(const struct verdict *v)
{
	return v->n_endpoints + v->n_suites;
}

/* What is not known cannot reject. */
static double known_p(double p)
{
	return isnan(p) ? 1 : p;
}

static void adjust_passes(struct verdict *v, size_t first, size_t n)
{
	double p[STATS_MAX_TESTS] = {0}, adjusted[STATS_MAX_TESTS] = {0};
	for (size_t i = 0; i < n; i++)
		p[i] = known_p(endpoint_at(v, first + i)->p_pass);
	holm_adjust(p, n, adjusted);
	for (size_t i = 0; i < n; i++)
		endpoint_at(v, first + i)->p_holm = adjusted[i];
}

/* Any critical failure fails, so false alarms add up over the critical endpoints. */
static void adjust_failures(struct verdict *v)
{
	double p[STATS_MAX_TESTS] = {0}, adjusted[STATS_MAX_TESTS] = {0};
	struct endpoint *critical[STATS_MAX_TESTS];
	size_t n = 0;
	for (size_t i = 0; i < endpoint_count(v); i++)
		if (endpoint_at(v, i)->tier == TIER_CRITICAL) {
			critical[n] = endpoint_at(v, i);
			p[n] = known_p(critical[n]->p_fail);
			n++;
		}
	holm_adjust(p, n, adjusted);
	for (size_t i = 0; i < n; i++)
		critical[i]->p_fail_holm = adjusted[i];
}

static bool fails_the_verdict(const struct endpoint *x)
{
	return x->tier == TIER_CRITICAL && x->outcome == OUTCOME_FAIL && x->p_fail_holm < x->alpha;
}

static bool holds_up_a_pass(const struct endpoint *x)
{
	return (x->tier == TIER_CRITICAL && x->outcome != OUTCOME_PASS) ||
		(x->tier == TIER_SUPPORTING && x->outcome == OUTCOME_FAIL);
}

/* Runs that cannot be judged by, whatever their numbers. */
static void find_caveat(struct verdict *v, const struct answers *side, const char *which)
{
	size_t used = strlen(v->caveat);
	if (!side->variant_id || used + 1 >= sizeof(v->caveat))
		return;
	const char *why = !side->run.for_gating    ? "has only a part of the items"
		: side->run.status != RUN_COMPLETE ? "is not complete"
						   : NULL;
	if (why)
		snprintf(v->caveat + used, sizeof(v->caveat) - used, "%sthe %s (run %" PRId64 ") %s",
			used ? ", and " : "", which, side->run.run_id, why);
}

static bool chosen_for_reason(const struct verdict *v, const struct endpoint *x)
{
	if (v->outcome == OUTCOME_FAIL)
		return fails_the_verdict(x);
	if (v->outcome == OUTCOME_PASS)
		return x->tier == TIER_CRITICAL;
	return holds_up_a_pass(x);
}

static void explain_verdict(struct verdict *v)
{
	struct buf text = {0};
	const char *between = "";
	if (v->caveat[0]) {
		buf_append_text(&text, v->caveat);
		between = "; ";
	}
	for (size_t i = 0; i < endpoint_count(v); i++) {
		const struct endpoint *x = endpoint_at(v, i);
		if (!chosen_for_reason(v, x))
			continue;
		buf_printf(&text, "%s%s", between, x->reason);
		if (v->outcome == OUTCOME_INCONCLUSIVE && x->outcome == OUTCOME_FAIL && x->tier == TIER_CRITICAL)
			buf_printf(&text, ", not for sure among several endpoints (Holm p %.3f)", x->p_fail_holm);
		between = "; ";
	}
	snprintf(v->reason, sizeof(v->reason), "%s", buf_text(&text));
	buf_free(&text);
}

static void decide(struct verdict *v)
{
	bool fail = false, held_up = v->caveat[0] != '\0';
	for (size_t i = 0; i < endpoint_count(v); i++) {
		fail = fail || fails_the_verdict(endpoint_at(v, i));
		held_up = held_up || holds_up_a_pass(endpoint_at(v, i));
	}
	if (fail && !v->caveat[0])
		v->outcome = OUTCOME_FAIL;
	else
		v->outcome = held_up ? OUTCOME_INCONCLUSIVE : OUTCOME_PASS;
	v->exit_code = v->outcome == OUTCOME_PASS ? 0 : v->outcome == OUTCOME_FAIL ? 1 : 3;
}

static int check_policy(const struct verdict *v, const struct policy *policy, struct error *e)
{
	for (size_t i = 0; i < policy->n_suites; i++) {
		if (!pairing_holds_suite(v->pairing, policy->suites[i].suite)) {
			pairing_unknown_suite(v->pairing, policy->suites[i].suite, e);
			return error_prefix(e, "%s", policy->file);
		}
	}
	if (v->n_suites + 2 > STATS_MAX_TESTS)
		return error_set(e, ERR_USAGE, "%zu suites at once, expected at most %d: choose some with --suite",
			v->n_suites, STATS_MAX_TESTS - 2);
	return 0;
}

static int check_tiers(struct verdict *v, const struct policy *policy, struct error *e)
{
	for (size_t i = 0; i < endpoint_count(v); i++)
		if (endpoint_at(v, i)->tier == TIER_CRITICAL)
			return 0;
	return error_set(e, ERR_USAGE,
		"%s: no endpoint of these runs is critical, so nothing can pass: expected a tier "
		"\"critical\" for pooled, delta_logprob or a suite",
		policy->file ? policy->file : "policy");
}

int verdict_make(const struct pairing *pairing, const struct policy *policy, struct verdict *out, struct error *e)
{
	TRY(verdict_compare(pairing, out, e));
	TRY(pairing_check_overlap(pairing, e));
	TRY(check_policy(out, policy, e));
	out->policy = policy;
	if (out->pooled.n == 0 && out->pooled.logprob_n == 0)
		return nothing_to_compare(pairing, &out->pooled, e);
	out->endpoints[out->n_endpoints++] = judge_table(policy, "pooled", policy->pooled, &out->pooled);
	if (out->pooled.logprob_items > 0 || policy->names_delta_logprob)
		out->endpoints[out->n_endpoints++] = judge_logprob(policy, &out->pooled);
	for (size_t i = 0; i < out->n_suites; i++) {
		const struct comparison *c = &out->suites[i].comparison;
		out->suites[i].endpoint = judge_table(policy, c->suite, policy_of_suite(policy, c->suite), c);
	}
	TRY(check_tiers(out, policy, e));
	adjust_passes(out, 0, out->n_endpoints);
	adjust_passes(out, out->n_endpoints, out->n_suites);
	adjust_failures(out);
	find_caveat(out, &pairing->baseline, "baseline");
	find_caveat(out, &pairing->candidate, "candidate");
	decide(out);
	explain_verdict(out);
	return 0;
}
