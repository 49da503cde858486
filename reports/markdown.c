#include "reports/markdown.h"

#include <inttypes.h>
#include <math.h>

#include "engine/base/utf8.h"
#include "reports/table.h"

enum { SHOWN_FLIPS = 50, SHOWN_BYTES = 200 };

static void add_columns(struct report_table *t, const char *const *names, size_t n_text)
{
	for (size_t i = 0; names[i]; i++)
		if (i < n_text)
			table_text_column(t, names[i]);
		else
			table_number_column(t, names[i]);
}

/* ---- Suites ---- */

static void add_suite(struct report_table *t, const char *name, const struct comparison *c, const struct endpoint *x)
{
	table_text(t, name);
	table_text(t, x ? outcome_name(x->outcome) : "");
	table_int(t, c->n);
	table_percent(t, c->baseline, 2);
	table_percent(t, c->candidate, 2);
	table_percent(t, c->drop, 2);
	table_percent(t, c->interval.low, 2);
	table_percent(t, c->interval.high, 2);
	table_int(t, c->table.b);
	table_int(t, c->table.c);
	table_number(t, c->mcnemar.two_sided, 4);
	table_number(t, x ? x->p_holm : NAN, 4);
	table_number(t, c->delta_logprob, 4);
	table_int(t, c->errors + c->truncated + c->unmatched);
}

static int add_suites(const struct verdict *v, struct table_list *list, struct error *e)
{
	static const char *const names[] = {"suite", "verdict", "n", "baseline %", "candidate %", "drop", "low", "high",
		"lost", "won", "McNemar p", "p (Holm)", "Δ log-prob.", "no pair", NULL};
	struct report_table *t = table_list_add(list, "suites", "Suites", e);
	if (!t)
		return ERR_MEMORY;
	add_columns(t, names, 2);
	add_suite(t, "all", &v->pooled, v->policy ? &v->endpoints[0] : NULL);
	for (size_t i = 0; i < v->n_suites; i++)
		add_suite(t, v->suites[i].comparison.suite, &v->suites[i].comparison,
			v->policy ? &v->suites[i].endpoint : NULL);
	return 0;
}

/* ---- Endpoints ---- */

static void add_endpoint(struct report_table *t, const struct endpoint *x)
{
	bool points = strcmp(x->unit, "points") == 0;
	double scale = points ? 100 : 1;
	int digits = points ? 2 : 4;
	table_text(t, x->name);
	table_text(t, outcome_name(x->outcome));
	table_text(t, tier_name(x->tier));
	table_textf(t, "%g %s", scale * x->margin, x->unit);
	table_int(t, x->n);
	table_number(t, scale * x->drop, digits);
	table_number(t, scale * x->lower, digits);
	table_number(t, scale * x->upper, digits);
	table_number(t, x->n_needed ? (double)x->n_needed : NAN, 0);
}

static int add_endpoints(const struct verdict *v, struct table_list *list, struct error *e)
{
	static const char *const names[] = {
		"endpoint", "verdict", "tier", "margin", "n", "drop", "lower bound", "upper bound", "n needed", NULL};
	struct report_table *t = table_list_add(list, "endpoints", "Endpoints", e);
	if (!t)
		return ERR_MEMORY;
	add_columns(t, names, 4);
	for (size_t i = 0; i < v->n_endpoints; i++)
		add_endpoint(t, &v->endpoints[i]);
	for (size_t i = 0; i < v->n_suites; i++)
		if (v->suites[i].endpoint.tier != TIER_ADVISORY)
			add_endpoint(t, &v->suites[i].endpoint);
	return 0;
}

/* ---- What differs, and flips ---- */

static int add_differences(const struct verdict *v, struct table_list *list, struct error *e)
{
	static const char *const names[] = {"what differs", "baseline", "candidate", NULL};
	if (v->n_differences == 0)
		return 0;
	struct report_table *t = table_list_add(list, "differences", "What differs", e);
	if (!t)
		return ERR_MEMORY;
	add_columns(t, names, 3);
	for (size_t i = 0; i < v->n_differences; i++) {
		table_text(t, v->differences[i].name);
		table_text(t, v->differences[i].baseline);
		table_text(t, v->differences[i].candidate);
	}
	return 0;
}

static void add_answer(struct report_table *t, const struct store_sample *sample, const char *metric)
{
	struct buf text = {0};
	pair_extracted(sample, metric, &text);
	if (text.length == 0)
		pair_response(sample, &text);
	struct str shown = buf_str(&text);
	if (shown.length > SHOWN_BYTES) {
		shown.length = SHOWN_BYTES;
		text.length = utf8_complete(shown);
		buf_append_text(&text, "…");
	}
	table_str(t, buf_str(&text));
	buf_free(&text);
}

static void add_flip(struct report_table *t, const struct pair *pair, const char *metric)
{
	table_text(t, pair->baseline->task);
	table_textf(t, "%" PRId64, pair->baseline->doc_id);
	table_text(t, pair_is_regression(pair) ? "lost" : "won");
	add_answer(t, pair->baseline, metric);
	add_answer(t, pair->candidate, metric);
}

/* Regressions first: they are what one looks for. */
static int add_flips(const struct verdict *v, struct table_list *list, struct error *e)
{
	static const char *const names[] = {"task", "document", "change", "baseline", "candidate", NULL};
	const struct pairing *p = v->pairing;
	int64_t shown = 0, all = v->pooled.table.b + v->pooled.table.c;
	if (all == 0)
		return 0;
	struct report_table *t = table_list_add(list, "flips", "Flips", e);
	if (!t)
		return ERR_MEMORY;
	add_columns(t, names, 5);
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < p->n_suites; i++)
			for (const struct pair *pair = p->suites[i].pairs; pair < p->suites[i].pairs + p->suites[i].n;
				pair++)
				if (p->suites[i].binary && pair_is_flip(pair) &&
					pair_is_regression(pair) == (round == 0) && shown++ < SHOWN_FLIPS)
					add_flip(t, pair, p->suites[i].metric);
	if (all > SHOWN_FLIPS)
		buf_printf(&t->note, "The first %d of %" PRId64 " flips.", SHOWN_FLIPS, all);
	return 0;
}

/* ---- All of it ---- */

static void append_head(const struct verdict *v, struct buf *out)
{
	static const char *const marks[] = {"✅", "❌", "⚠️"};
	if (v->policy)
		buf_printf(
			out, "## %s Gate: %s (exit %d)\n\n", marks[v->outcome], outcome_name(v->outcome), v->exit_code);
	else
		buf_append_text(out, "## Comparison\n\n");
	markdown_text(out, str_of(v->pairing->candidate.label));
	buf_append_text(out, " against ");
	markdown_text(out, str_of(v->pairing->baseline.label));
	buf_append_text(out, "\n\n");
	if (v->policy) {
		markdown_text(out, str_of(v->reason));
		buf_append_text(out, ".\n\n");
	}
	if (v->pooled.aa_n > 0)
		buf_printf(out, "A/A: the baseline against itself flips %.2f%% of %" PRId64 " items.\n\n",
			100 * v->pooled.aa_flips, v->pooled.aa_n);
	else if (v->aa_wanted)
		buf_append_text(out,
			"A/A: not measured (run the baseline twice: its target need not answer the same again).\n\n");
}

int verdict_markdown(const struct verdict *v, struct buf *out, struct error *e)
{
	struct table_list list = {0};
	int status = v->policy ? add_endpoints(v, &list, e) : 0;
	if (status == 0)
		status = add_suites(v, &list, e);
	if (status == 0)
		status = add_differences(v, &list, e);
	if (status == 0)
		status = add_flips(v, &list, e);
	if (status == 0)
		status = table_list_check(&list, e);
	if (status == 0) {
		append_head(v, out);
		for (size_t i = 0; i < list.n; i++)
			table_markdown(list.tables[i], out);
		status = buf_check(out, e);
	}
	table_list_free(&list);
	return status;
}
