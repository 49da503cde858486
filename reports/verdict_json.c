#include "reports/verdict_json.h"

#include <inttypes.h>
#include <math.h>

#include "engine/base/json_strict.h"
#include "reports/tool_answer.h"

/* ---- Members: each begins with its comma ---- */

static void member(struct buf *out, const char *name)
{
	char last = out->length ? out->data[out->length - 1] : '{';
	buf_append_text(out, last == '{' ? "" : ", ");
	json_write_string(str_of(name), false, out);
	buf_append_text(out, ": ");
}

static void member_int(struct buf *out, const char *name, int64_t value)
{
	member(out, name);
	buf_printf(out, "%" PRId64, value);
}

static void member_double(struct buf *out, const char *name, double value)
{
	member(out, name);
	json_write_double_or_null(value, out);
}

static void member_str(struct buf *out, const char *name, struct str value)
{
	member(out, name);
	json_write_string(value, false, out);
}

static void member_text(struct buf *out, const char *name, const char *value)
{
	if (value) {
		member_str(out, name, str_of(value));
	} else {
		member(out, name);
		buf_append_text(out, "null");
	}
}

static void begin(struct buf *out, const char *name)
{
	member(out, name);
	buf_append_char(out, '{');
}

static void end(struct buf *out)
{
	buf_append_char(out, '}');
}

/* ---- Comparisons ---- */

/* What every paired comparison says first. */
static void drop_members(struct buf *out, int64_t n, const struct paired_table *table, double baseline,
	double candidate, double drop, struct interval interval)
{
	member_int(out, "n", n);
	member_int(out, "a", table->a);
	member_int(out, "b", table->b);
	member_int(out, "c", table->c);
	member_int(out, "d", table->d);
	member_double(out, "baseline", baseline);
	member_double(out, "candidate", candidate);
	member_double(out, "drop", drop);
	member_double(out, "low", interval.low);
	member_double(out, "high", interval.high);
}

static void comparison_members(struct buf *out, const struct comparison *c)
{
	drop_members(out, c->n, &c->table, c->baseline, c->candidate, c->drop, c->interval);
	member_double(out, "mcnemar_p", c->mcnemar.two_sided);
	member_double(out, "mcnemar_one_sided_p", c->mcnemar.regression);
	member_double(out, "mid_p", c->mcnemar.mid_p);
	member_double(out, "flips", c->flips);
	member_int(out, "unmatched", c->unmatched);
	member_int(out, "only_baseline", c->only_baseline);
	member_int(out, "only_candidate", c->only_candidate);
	member_int(out, "errors", c->errors);
	member_int(out, "truncated", c->truncated);
	member_double(out, "coverage", c->coverage);
	member_double(out, "worst_drop", c->worst_drop);
	member_int(out, "clusters", c->clusters);
	member_double(out, "design_effect", c->design_effect);
	if (c->suite)
		member_text(out, "metric", c->metric);
	begin(out, "delta_logprob");
	member_int(out, "n", c->logprob_n);
	member_double(out, "mean", c->delta_logprob);
	member_double(out, "low", c->logprob_interval.low);
	member_double(out, "high", c->logprob_interval.high);
	end(out);
	member_double(out, "kl_per_token", c->kl);
	member_double(out, "length_ratio", c->length_ratio);
	member_double(out, "aa_flips", c->aa_flips);
}

/* ---- Tool calls ---- */

static void validity_members(struct buf *out, const char *name, struct tool_validity v)
{
	begin(out, name);
	member_int(out, "called", v.called);
	member_int(out, "valid", v.valid);
	member_double(out, "share", tool_validity_share(v));
	end(out);
}

static void category_members(struct buf *out, const struct tool_category *c)
{
	drop_members(out, c->n, &c->table, c->baseline, c->candidate, c->drop, c->interval);
	begin(out, "validity");
	validity_members(out, "baseline", c->baseline_calls);
	validity_members(out, "candidate", c->candidate_calls);
	end(out);
	member_double(out, "trigger_f1", c->trigger_f1);
	begin(out, "errors");
	for (size_t i = 0; i < c->n_errors; i++) {
		const struct tool_error *error = &c->errors[i];
		begin(out, error->type);
		member_int(out, "baseline", error->baseline);
		member_int(out, "candidate", error->candidate);
		member_int(out, "appeared", error->appeared);
		member_int(out, "vanished", error->vanished);
		end(out);
	}
	end(out);
}

static void tool_members(struct buf *out, const struct tool_suite *s)
{
	if (s->n == 0)
		return;
	begin(out, "tool_calls");
	category_members(out, &s->whole);
	begin(out, "categories");
	for (size_t i = 0; i < s->n; i++) {
		begin(out, s->categories[i].name);
		category_members(out, &s->categories[i]);
		end(out);
	}
	end(out);
	end(out);
}

/* ---- Endpoints ---- */

static void judgement_members(struct buf *out, const struct endpoint *x)
{
	member_double(out, "margin", x->margin);
	member_text(out, "tier", tier_name(x->tier));
	member_double(out, "lower_bound", x->lower);
	member_double(out, "upper_bound", x->upper);
	member_text(out, "method", x->method);
	member_double(out, "p", x->p_pass);
	member_double(out, "p_holm", x->p_holm);
	member_double(out, "p_fail", x->p_fail);
	member_double(out, "p_fail_holm", x->p_fail_holm);
	member_text(out, "verdict", outcome_name(x->outcome));
	member(out, "n_needed");
	if (x->n_needed)
		buf_printf(out, "%" PRId64, x->n_needed);
	else
		buf_append_text(out, "null");
	member_text(out, "reason", x->reason);
}

static void endpoint_members(struct buf *out, const struct verdict *v, const struct endpoint *x)
{
	if (x == &v->endpoints[0]) {
		comparison_members(out, &v->pooled);
	} else {
		member_int(out, "n", x->n);
		member_text(out, "unit", x->unit);
		member_double(out, "drop", x->drop);
		member_double(out, "low", x->interval.low);
		member_double(out, "high", x->interval.high);
		member_double(out, "coverage", x->coverage);
	}
	judgement_members(out, x);
}

/* ---- Sides, flips, policy ---- */

static void side(struct buf *out, const char *name, const struct answers *a)
{
	begin(out, name);
	member_text(out, "label", a->label);
	member_text(out, "file", a->file);
	if (a->variant_id) {
		member_int(out, "run", a->run.run_id);
		member_text(out, "uid", a->run.uid);
		member_text(out, "variant", a->variant);
		member_text(out, "model", a->run.model);
	}
	end(out);
}

static int answer(
	struct buf *out, const char *name, const struct store_sample *sample, const char *metric, struct error *e)
{
	struct buf text = {0};
	struct tool_answer calls;
	begin(out, name);
	pair_extracted(sample, metric, &text);
	member_str(out, "extracted", buf_str(&text));
	buf_clear(&text);
	pair_response(sample, &text);
	member_str(out, "response", buf_str(&text));
	member_text(out, "finish_reason", sample->finish_reason);
	member_int(out, "tokens", sample->generated_tokens);
	int status = tool_answer_read(sample, &calls, e);
	if (status == 1) {
		buf_append_text(out, ", ");
		tool_answer_json(&calls, out);
	}
	end(out);
	tool_answer_free(&calls);
	buf_free(&text);
	return status < 0 ? status : 0;
}

static int flips(struct buf *out, const struct pairing *p, struct error *e)
{
	const char *between = "";
	member(out, "flips");
	buf_append_char(out, '[');
	for (size_t i = 0; i < p->n_suites; i++)
		for (const struct pair *pair = p->suites[i].pairs; pair < p->suites[i].pairs + p->suites[i].n; pair++) {
			if (!p->suites[i].binary || !pair_is_flip(pair))
				continue;
			buf_printf(out, "%s\n{", between);
			member_text(out, "suite", pair->baseline->suite);
			member_text(out, "task", pair->baseline->task);
			member_int(out, "doc_id", pair->baseline->doc_id);
			member_text(out, "change", pair_is_regression(pair) ? "regression" : "improvement");
			TRY(answer(out, "baseline", pair->baseline, p->suites[i].metric, e));
			TRY(answer(out, "candidate", pair->candidate, p->suites[i].metric, e));
			end(out);
			between = ",";
		}
	buf_append_char(out, ']');
	return 0;
}

static void differences(struct buf *out, const struct verdict *v)
{
	member(out, "differences");
	buf_append_char(out, '[');
	for (size_t i = 0; i < v->n_differences; i++) {
		buf_append_text(out, i ? ", {" : "{");
		member_text(out, "name", v->differences[i].name);
		member_text(out, "baseline", v->differences[i].baseline);
		member_text(out, "candidate", v->differences[i].candidate);
		end(out);
	}
	buf_append_char(out, ']');
}

static void judged(struct buf *out, const struct verdict *v)
{
	member_text(out, "verdict", outcome_name(v->outcome));
	member_text(out, "reason", v->reason);
	member_int(out, "exit_code", v->exit_code);
	begin(out, "policy");
	member_text(out, "file", v->policy->file);
	member_double(out, "alpha", v->policy->alpha);
	member_double(out, "power", v->policy->power);
	member_double(out, "min_coverage", v->policy->min_coverage);
	end(out);
	begin(out, "endpoints");
	for (size_t i = 0; i < v->n_endpoints; i++) {
		begin(out, v->endpoints[i].name);
		endpoint_members(out, v, &v->endpoints[i]);
		end(out);
	}
	end(out);
}

int verdict_json(const struct verdict *v, bool with_flips, struct buf *out, struct error *e)
{
	buf_append_char(out, '{');
	member_int(out, "schema_version", 1);
	if (v->policy)
		judged(out, v);
	side(out, "baseline", &v->pairing->baseline);
	side(out, "candidate", &v->pairing->candidate);
	if (v->pairing->overlap[0]) {
		member(out, "pooled");
		buf_append_text(out, "null");
	} else {
		begin(out, "pooled");
		comparison_members(out, &v->pooled);
		end(out);
	}
	begin(out, "suites");
	for (size_t i = 0; i < v->n_suites; i++) {
		const struct suite_verdict *suite = &v->suites[i];
		buf_append_text(out, i ? ", " : "");
		json_write_string(str_of(suite->comparison.suite), false, out);
		buf_append_text(out, ": {");
		comparison_members(out, &suite->comparison);
		if (v->policy)
			judgement_members(out, &suite->endpoint);
		tool_members(out, &suite->tools);
		end(out);
	}
	end(out);
	member_int(out, "hashes_unknown", v->pairing->unverified);
	differences(out, v);
	if (with_flips)
		TRY(flips(out, v->pairing, e));
	buf_append_text(out, "}\n");
	return buf_check(out, e);
}
