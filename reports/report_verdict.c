#include "reports/report_verdict.h"

#include <inttypes.h>
#include <math.h>

#include "engine/base/json_strict.h"
#include "reports/html.h"
#include "reports/report_tools.h"
#include "reports/word_diff.h"

/* ---- Tables ---- */

static void columns(struct report_table *t, const char *const *names, size_t n, size_t n_texts)
{
	for (size_t i = 0; i < n; i++)
		(i < n_texts ? table_text_column : table_number_column)(t, names[i]);
}

/* Items that would decide; 0: decided, or no number does. */
static void items_needed(struct report_table *t, const struct endpoint *x)
{
	if (x->n_needed)
		table_int(t, x->n_needed);
	else
		table_number(t, NAN, 0);
}

static const char *outcome_mark(enum outcome outcome)
{
	return outcome == OUTCOME_PASS ? "✓ pass" : outcome == OUTCOME_FAIL ? "✗ fail" : "? inconclusive";
}

static int endpoints_table(const struct verdict *v, struct table_list *out, struct error *e)
{
	static const char *const names[] = {"endpoint", "unit", "verdict", "n", "drop", "95% low", "95% high",
		"lower bound", "upper bound", "margin", "p", "p (Holm)", "n needed", "bounds by"};
	struct report_table *t = table_list_add(out, "endpoints", "What decides", e);
	if (!t)
		return ERR_MEMORY;
	columns(t, names, 13, 3);
	table_text_column(t, names[13]);
	for (size_t i = 0; i < v->n_endpoints; i++) {
		const struct endpoint *x = &v->endpoints[i];
		bool points = strcmp(x->unit, "points") == 0;
		void (*value)(struct report_table *, double, int) = points ? table_percent : table_number;
		table_text(t, x->name);
		table_text(t, x->unit);
		table_text(t, outcome_mark(x->outcome));
		table_int(t, x->n);
		const double values[] = {x->drop, x->interval.low, x->interval.high, x->lower, x->upper, x->margin};
		for (size_t j = 0; j < sizeof(values) / sizeof(values[0]); j++)
			value(t, values[j], points ? 2 : 4);
		table_p(t, x->p_pass);
		table_p(t, x->p_holm);
		items_needed(t, x);
		table_text(t, x->method);
	}
	buf_printf(&t->note,
		"A positive drop is worse. Pass: the one-sided %g%% upper bound lies below the margin; fail: the lower "
		"bound lies "
		"above it. p is of H0: the drop is the margin or more.",
		v->n_endpoints ? 100 * (1 - v->endpoints[0].alpha) : 95);
	return 0;
}

static void suite_row(struct report_table *t, const struct comparison *c, const struct endpoint *x)
{
	table_text(t, c->suite ? c->suite : "pooled");
	table_text(t, c->metric ? c->metric : "");
	table_text(t, x ? outcome_mark(x->outcome) : "");
	table_int(t, c->n);
	table_percent(t, c->baseline, 2);
	table_percent(t, c->candidate, 2);
	table_percent(t, c->drop, 2);
	table_percent(t, c->interval.low, 2);
	table_percent(t, c->interval.high, 2);
	table_percent(t, x ? x->margin : NAN, 2);
	table_p(t, x ? x->p_holm : NAN);
	table_int(t, c->table.b);
	table_int(t, c->table.c);
	table_percent(t, c->flips, 2);
	table_p(t, c->mcnemar.two_sided);
	table_int(t, c->errors);
	table_int(t, c->truncated);
	table_int(t, c->unmatched);
	table_percent(t, c->coverage, 1);
	if (x)
		items_needed(t, x);
	else
		table_text(t, "");
}

static int suites_table(const struct verdict *v, struct table_list *out, struct error *e)
{
	static const char *const names[] = {"suite", "metric", "verdict", "n", "base %", "cand %", "drop", "95% low",
		"95% high", "margin", "p (Holm)", "b lost", "c won", "flips %", "McNemar p", "errors", "cut",
		"unmatched", "coverage %", "n needed"};
	struct report_table *t = table_list_add(out, "suites", "Suites", e);
	bool judged = v->n_endpoints > 0;
	if (!t)
		return ERR_MEMORY;
	columns(t, names, sizeof(names) / sizeof(names[0]), 3);
	suite_row(t, &v->pooled, judged ? &v->endpoints[0] : NULL);
	for (size_t i = 0; i < v->n_suites; i++)
		suite_row(t, &v->suites[i].comparison, judged ? &v->suites[i].endpoint : NULL);
	buf_append_text(&t->note,
		"Scores, drops, intervals and margins in points; b: the baseline alone is right, c: the candidate "
		"alone; flips "
		"are both. Intervals are Tango's score intervals of the paired drop. Errors, cut and unmatched items "
		"are no "
		"pairs.");
	return 0;
}

static int transitions_table(const struct verdict *v, struct table_list *out, struct error *e)
{
	static const char *const names[] = {
		"suite", "right → right", "right → wrong", "wrong → right", "wrong → wrong", "pairs"};
	struct report_table *t = table_list_add(out, "transitions", "From the baseline to the candidate", e);
	if (!t)
		return ERR_MEMORY;
	columns(t, names, 6, 1);
	for (size_t i = 0; i <= v->n_suites; i++) {
		const struct comparison *c = i ? &v->suites[i - 1].comparison : &v->pooled;
		if (!c->has_table && i)
			continue;
		table_text(t, c->suite ? c->suite : "pooled");
		table_int(t, c->table.a);
		table_int(t, c->table.b);
		table_int(t, c->table.c);
		table_int(t, c->table.d);
		table_int(t, c->n);
	}
	return 0;
}

static int divergence_table(const struct verdict *v, struct table_list *out, struct error *e)
{
	static const char *const names[] = {"suite", "items", "Δ log-probability", "95% low", "95% high",
		"KL per token", "items with KL", "answer length ratio", "A/A flips %", "A/A pairs"};
	struct report_table *t = table_list_add(out, "divergence", "What accuracy does not show", e);
	if (!t)
		return ERR_MEMORY;
	columns(t, names, sizeof(names) / sizeof(names[0]), 1);
	for (size_t i = 0; i <= v->n_suites; i++) {
		const struct comparison *c = i ? &v->suites[i - 1].comparison : &v->pooled;
		table_text(t, c->suite ? c->suite : "pooled");
		table_int(t, c->logprob_n);
		table_number(t, c->delta_logprob, 5);
		table_number(t, c->logprob_interval.low, 5);
		table_number(t, c->logprob_interval.high, 5);
		table_number(t, c->kl, 6);
		table_int(t, c->kl_n);
		table_percent(t, c->length_ratio, 1);
		table_percent(t, c->aa_flips, 2);
		table_int(t, c->aa_n);
	}
	buf_append_text(&t->note,
		"Δ log-probability: of the gold choice, candidate minus baseline, in nat. Length ratio: generated "
		"tokens, in "
		"percent of the baseline's.");
	if (v->aa_wanted)
		buf_append_text(&t->note,
			" One side does not answer the same way twice: its flips against itself (A/A) belong beside "
			"the flips above.");
	return 0;
}

static int differences_table(const struct verdict *v, struct table_list *out, struct error *e)
{
	struct report_table *t = table_list_add(out, "differences", "What differs between the configurations", e);
	if (!t)
		return ERR_MEMORY;
	table_text_column(t, "what");
	table_text_column(t, "baseline");
	table_text_column(t, "candidate");
	for (size_t i = 0; i < v->n_differences; i++) {
		table_text(t, v->differences[i].name);
		table_text(t, v->differences[i].baseline);
		table_text(t, v->differences[i].candidate);
	}
	return 0;
}

int report_verdict_tables(const struct verdict *v, struct table_list *out, struct error *e)
{
	TRY(endpoints_table(v, out, e));
	TRY(suites_table(v, out, e));
	TRY(differences_table(v, out, e));
	TRY(transitions_table(v, out, e));
	TRY(report_tools_tables(v, out, e));
	return divergence_table(v, out, e);
}

/* ---- The banner ---- */

static void append_upper(struct buf *out, const char *word)
{
	for (; *word; word++)
		buf_append_char(out, *word >= 'a' && *word <= 'z' ? (char)(*word - 'a' + 'A') : *word);
}

void report_banner_html(const struct verdict *v, struct buf *out)
{
	if (v->n_endpoints == 0)
		return;
	const char *word = outcome_name(v->outcome);
	buf_printf(out, "<div class=\"verdict %s\">\n<p><span class=\"word\">%s ", word,
		v->outcome == OUTCOME_PASS           ? "✓"
			: v->outcome == OUTCOME_FAIL ? "✗"
						     : "?");
	append_upper(out, word);
	buf_printf(out, "</span> · exit code %d</p>\n<p>", v->exit_code);
	html_text(out, str_of(v->reason));
	buf_append_text(out, "</p>\n");
	if (v->caveat[0]) {
		buf_append_text(out, "<p>");
		html_text(out, str_of(v->caveat));
		buf_append_text(out, "</p>\n");
	}
	buf_append_text(out, "</div>\n");
}

void report_banner_markdown(const struct verdict *v, struct buf *out)
{
	if (v->n_endpoints == 0)
		return;
	buf_append_text(out, "**");
	append_upper(out, outcome_name(v->outcome));
	buf_printf(out, "** (exit code %d): ", v->exit_code);
	markdown_text(out, str_of(v->reason));
	if (v->caveat[0]) {
		buf_append_char(out, ' ');
		markdown_text(out, str_of(v->caveat));
	}
	buf_append_text(out, "\n\n");
}

/* ---- Flips ---- */

/* One side of a diff, what the other has not marked, cut at the limit. */
static void append_answer(struct buf *out, const struct word_diff *diff, size_t length, enum word_change mine)
{
	const char *mark = mine == WORD_REMOVED ? "del" : "ins";
	size_t left = REPORT_ANSWER_BYTES;
	buf_append_text(out, "<pre>");
	for (size_t i = 0; i < diff->n && left > 0; i++) {
		const struct word_run *run = &diff->runs[i];
		bool marked = run->change == mine;
		if (!marked && run->change != WORD_SAME)
			continue;
		size_t shown = run->text.length < left ? run->text.length : left;
		if (marked)
			buf_printf(out, "<%s>", mark);
		html_text_cut(out, run->text, shown);
		if (marked)
			buf_printf(out, "</%s>", mark);
		left -= shown;
	}
	if (length == 0)
		buf_append_text(out, "<span class=\"cut\">nothing</span>");
	else if (length > REPORT_ANSWER_BYTES)
		buf_printf(out, "<span class=\"cut\"> (cut: %zu bytes in all)</span>", length);
	buf_append_text(out, "</pre>\n");
}

static int parse_array(struct str text, struct json_document **out)
{
	*out = NULL;
	return text.length ? json_parse(text, NULL, JSON_LAST_KEY_WINS, out, NULL) : ERR_INPUT;
}

static double number_at(struct str array, size_t i)
{
	struct json_document *document;
	if (parse_array(array, &document) < 0)
		return NAN;
	double value = json_double(json_at(json_root(document), i));
	json_free(document);
	return value;
}

/* The first token that differs, with the log-probability that each side gave to its own. */
static void append_divergence(struct buf *out, const struct store_sample *a, const struct store_sample *b)
{
	struct json_document *x = NULL, *y = NULL;
	if (parse_array(a->tokens, &x) == 0 && parse_array(b->tokens, &y) == 0) {
		const struct json *p = json_root(x)->child, *q = json_root(y)->child;
		size_t i = 0;
		for (; p && q && str_equal(p->text, q->text); p = p->next, q = q->next)
			i++;
		if (p || q) {
			double base = number_at(a->token_logprobs, i), candidate = number_at(b->token_logprobs, i);
			buf_printf(out, "<p class=\"faint\">First different token: number %zu (", i + 1);
			html_text(out, p ? p->text : str_of("none"));
			buf_append_text(out, " and ");
			html_text(out, q ? q->text : str_of("none"));
			buf_append_char(out, ')');
			if (isfinite(base) && isfinite(candidate))
				buf_printf(out, ", log-probabilities %.3f and %.3f", base, candidate);
			buf_append_text(out, ".</p>\n");
		}
	}
	json_free(x);
	json_free(y);
}

static void append_side(struct buf *out, const char *side, const struct store_sample *x, const char *metric)
{
	struct buf extracted = {0};
	pair_extracted(x, metric, &extracted);
	buf_printf(out, "<p><strong>%s</strong>: ", side);
	if (extracted.length) {
		buf_append_text(out, "answer ");
		html_text_cut(out, buf_str(&extracted), 200);
		buf_append_text(out, " · ");
	}
	if (x->finish_reason) {
		buf_append_text(out, "ended by ");
		html_text(out, str_of(x->finish_reason));
		buf_append_text(out, " · ");
	}
	buf_printf(out, "%" PRId64 " tokens · %.0f ms</p>\n", x->generated_tokens, 1e3 * x->seconds);
	buf_free(&extracted);
}

static void append_item(struct buf *out, const struct report_item *item)
{
	if (item->gold.length) {
		buf_append_text(out, "<p><strong>Right answer</strong>: ");
		html_text_cut(out, item->gold, REPORT_ANSWER_BYTES);
		buf_append_text(out, "</p>\n");
	}
	if (item->prompt.length) {
		/* The question is at the end, behind the solved examples. */
		size_t skipped =
			item->prompt.length > REPORT_ANSWER_BYTES ? item->prompt.length - REPORT_ANSWER_BYTES : 0;
		while (skipped > 0 && ((unsigned char)item->prompt.data[skipped] & 0xc0) == 0x80)
			skipped--;
		buf_append_text(out, "<details>\n<summary>Prompt</summary>\n<pre>");
		if (skipped)
			buf_printf(out, "<span class=\"cut\">%zu bytes before … </span>", skipped);
		html_text(out, (struct str){item->prompt.data + skipped, item->prompt.length - skipped});
		buf_append_text(out, "</pre>\n</details>\n");
	}
}

static int append_flip(struct buf *out, const struct suite_pairs *suite, const struct pair *p,
	const struct report_item *item, struct error *e)
{
	struct buf a = {0}, b = {0};
	struct word_diff diff = {0};
	pair_response(p->baseline, &a);
	pair_response(p->candidate, &b);
	int status = buf_check(&a, e);
	if (status == 0)
		status = buf_check(&b, e);
	if (status == 0)
		status = word_diff_make(buf_str(&a), buf_str(&b), &diff, e);
	buf_printf(out, "<details>\n<summary>%s ", pair_is_regression(p) ? "▼ lost:" : "▲ won:");
	html_text(out, str_of(p->baseline->task));
	buf_printf(out, " document %" PRId64 "</summary>\n", p->baseline->doc_id);
	append_item(out, item);
	append_divergence(out, p->baseline, p->candidate);
	if (status == 0)
		status = report_calls_html(p, out, e);
	buf_append_text(out, "<div class=\"sides\">\n<div>\n");
	append_side(out, "Baseline", p->baseline, suite->metric);
	append_answer(out, &diff, a.length, WORD_REMOVED);
	buf_append_text(out, "</div>\n<div>\n");
	append_side(out, "Candidate", p->candidate, suite->metric);
	append_answer(out, &diff, b.length, WORD_ADDED);
	buf_append_text(out, "</div>\n</div>\n</details>\n");
	word_diff_free(&diff);
	buf_free(&a);
	buf_free(&b);
	return status;
}

int report_flips_html(const struct verdict *v, report_find_item *find, void *context, struct buf *out, struct error *e)
{
	int64_t shown = 0, all = 0;
	for (int regressions = 1; regressions >= 0; regressions--)
		for (size_t s = 0; s < v->pairing->n_suites; s++) {
			const struct suite_pairs *suite = &v->pairing->suites[s];
			for (size_t i = 0; i < suite->n; i++) {
				const struct pair *p = &suite->pairs[i];
				if (!pair_is_flip(p) || pair_is_regression(p) != (regressions == 1))
					continue;
				if (all++ == 0)
					buf_append_text(out, "<h3>Flips, regressions first</h3>\n");
				if (shown == REPORT_FLIPS)
					continue;
				struct report_item item = {0};
				if (find && !find(context, &v->pairing->baseline, p->baseline, &item))
					item = (struct report_item){0};
				TRY(append_flip(out, suite, p, &item, e));
				shown++;
			}
		}
	if (all > shown)
		buf_printf(out,
			"<p class=\"note\">Shown are %" PRId64 " of %" PRId64
			" flips; <code>assay compare --flips</code> lists them all.</p>\n",
			shown, all);
	if (all == 0)
		buf_append_text(out, "<p class=\"note\">No answer flipped.</p>\n");
	return buf_check(out, e);
}
