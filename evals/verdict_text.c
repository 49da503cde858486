#include "evals/verdict_text.h"

#include <inttypes.h>
#include <math.h>

#include "evals/console.h"
#include "reports/tool_answer.h"

enum { ANSWER_COLUMNS = 48 };

/* ---- Cells ---- */

/* "1.14", or "-" where nothing is known. */
static void add_number(struct table *t, double value, double scale, int digits)
{
	char text[64];
	if (isnan(value)) {
		table_add(t, str_of("-"));
		return;
	}
	snprintf(text, sizeof(text), "%.*f", digits, scale * value);
	/* what rounds to nothing has no sign */
	bool zero = text[0] == '-' && strspn(text + 1, "0.") == strlen(text + 1);
	table_add(t, str_of(zero ? text + 1 : text));
}

static void add_interval(struct table *t, struct interval i, double scale, int digits)
{
	if (isnan(i.low))
		table_add(t, str_of("-"));
	else
		table_printf(t, "%.*f .. %.*f", digits, scale * i.low, digits, scale * i.high);
}

/* A p that four digits cannot tell from nothing is said to be small. */
static void add_p(struct table *t, double p)
{
	if (p < 0.00005)
		table_add(t, str_of("<0.0001"));
	else
		add_number(t, p, 1, 4);
}

static void add_headers(struct table *t, const char *const *names)
{
	for (int i = 0; i < t->columns; i++)
		table_add(t, str_of(names[i]));
}

static int finish(struct table *t, bool color, struct buf *out, struct error *e)
{
	int status = table_write(t, color, out, e);
	table_free(t);
	return status;
}

/* ---- Suites ---- */

static void add_comparison(struct table *t, const char *name, const struct comparison *c, const struct endpoint *x)
{
	table_add(t, str_of(name));
	table_printf(t, "%" PRId64, c->n);
	add_number(t, c->baseline, 100, 2);
	add_number(t, c->candidate, 100, 2);
	add_number(t, c->drop, 100, 2);
	add_interval(t, c->interval, 100, 2);
	table_printf(t, "%" PRId64, c->table.a);
	table_printf(t, "%" PRId64, c->table.b);
	table_printf(t, "%" PRId64, c->table.c);
	table_printf(t, "%" PRId64, c->table.d);
	add_p(t, c->n ? c->mcnemar.two_sided : NAN);
	add_number(t, c->delta_logprob, 1, 4);
	add_number(t, c->kl, 1, 5);
	add_number(t, c->length_ratio, 100, 0);
	table_printf(t, "%" PRId64, c->errors + c->truncated + c->unmatched);
	if (x)
		table_add(t, str_of(outcome_name(x->outcome)));
}

static int append_suites(const struct verdict *v, bool color, struct buf *out, struct error *e)
{
	static const char *const names[] = {"suite", "n", "base %", "cand %", "drop", "95% interval", "both", "lost",
		"won", "neither", "McNemar p", "Δ log-prob.", "KL", "length %", "no pair", "verdict"};
	struct table t;
	table_init(&t, v->policy ? "lrrrrrrrrrrrrrrl" : "lrrrrrrrrrrrrrr");
	add_headers(&t, names);
	for (size_t i = 0; i < v->n_suites; i++)
		add_comparison(&t, v->suites[i].comparison.suite, &v->suites[i].comparison,
			v->policy ? &v->suites[i].endpoint : NULL);
	if (!v->pairing->overlap[0])
		add_comparison(&t, "pooled", &v->pooled, v->policy ? &v->endpoints[0] : NULL);
	return finish(&t, color, out, e);
}

/* ---- Tool calls ---- */

static void add_category(struct table *t, const char *suite, const struct tool_category *c)
{
	table_add(t, str_of(suite));
	table_add(t, str_of(c->name ? c->name : "all"));
	table_printf(t, "%" PRId64, c->n);
	add_number(t, c->baseline, 100, 2);
	add_number(t, c->candidate, 100, 2);
	add_number(t, c->drop, 100, 2);
	add_interval(t, c->interval, 100, 2);
	table_printf(t, "%" PRId64, c->table.b);
	table_printf(t, "%" PRId64, c->table.c);
	add_number(t, tool_validity_share(c->baseline_calls), 100, 2);
	add_number(t, tool_validity_share(c->candidate_calls), 100, 2);
	add_number(t, c->trigger_f1, 1, 4);
}

static int append_categories(const struct verdict *v, bool color, struct buf *out, struct error *e)
{
	static const char *const names[] = {"suite", "tool calls in", "n", "base %", "cand %", "drop", "95% interval",
		"lost", "won", "valid base %", "valid cand %", "trigger F1"};
	struct table t;
	table_init(&t, "llrrrrrrrrrr");
	add_headers(&t, names);
	for (size_t i = 0; i < v->n_suites; i++) {
		const struct tool_suite *s = &v->suites[i].tools;
		if (s->n > 1)
			add_category(&t, v->suites[i].comparison.suite, &s->whole);
		for (size_t j = 0; j < s->n; j++)
			add_category(&t, v->suites[i].comparison.suite, &s->categories[j]);
	}
	return finish(&t, color, out, e);
}

/* Of each suite as a whole: the report has them by category. */
static int append_errors(const struct verdict *v, bool color, struct buf *out, struct error *e)
{
	static const char *const names[] = {"suite", "error type", "baseline", "candidate", "appeared", "vanished"};
	struct table t;
	table_init(&t, "llrrrr");
	add_headers(&t, names);
	for (size_t i = 0; i < v->n_suites; i++) {
		const struct tool_category *c = &v->suites[i].tools.whole;
		for (size_t j = 0; j < c->n_errors; j++) {
			table_add(&t, str_of(v->suites[i].comparison.suite));
			table_add(&t, str_of(c->errors[j].type));
			table_printf(&t, "%" PRId64, c->errors[j].baseline);
			table_printf(&t, "%" PRId64, c->errors[j].candidate);
			table_printf(&t, "%" PRId64, c->errors[j].appeared);
			table_printf(&t, "%" PRId64, c->errors[j].vanished);
		}
	}
	return finish(&t, color, out, e);
}

static int append_tools(const struct verdict *v, bool color, struct buf *out, struct error *e)
{
	bool any = false, errors = false;
	for (size_t i = 0; i < v->n_suites; i++) {
		any = any || v->suites[i].tools.n > 0;
		errors = errors || v->suites[i].tools.whole.n_errors > 0;
	}
	if (any) {
		buf_append_char(out, '\n');
		TRY(append_categories(v, color, out, e));
	}
	if (errors) {
		buf_append_char(out, '\n');
		TRY(append_errors(v, color, out, e));
	}
	return 0;
}

/* ---- Endpoints ---- */

static void add_endpoint(struct table *t, const struct endpoint *x)
{
	bool points = strcmp(x->unit, "points") == 0;
	double scale = points ? 100 : 1;
	int digits = points ? 2 : 4;
	table_add(t, str_of(x->name));
	table_add(t, str_of(tier_name(x->tier)));
	table_printf(t, "%" PRId64, x->n);
	add_number(t, x->drop, scale, digits);
	add_number(t, x->lower, scale, digits);
	add_number(t, x->upper, scale, digits);
	table_printf(t, "%g %s", scale * x->margin, points && x->margin == 0.01 ? "point" : x->unit);
	add_p(t, x->p_pass);
	add_p(t, x->p_holm);
	table_add(t, str_of(outcome_name(x->outcome)));
	if (x->n_needed)
		table_printf(t, "%" PRId64, x->n_needed);
	else
		table_add(t, str_of("-"));
}

/* What decides: the endpoints, and the suites that the policy does not only report. */
static int append_endpoints(const struct verdict *v, bool color, struct buf *out, struct error *e)
{
	static const char *const names[] = {
		"endpoint", "tier", "n", "drop", "lower", "upper", "margin", "p", "p (Holm)", "verdict", "n needed"};
	struct table t;
	table_init(&t, "llrrrrlrrlr");
	add_headers(&t, names);
	for (size_t i = 0; i < v->n_endpoints; i++)
		add_endpoint(&t, &v->endpoints[i]);
	for (size_t i = 0; i < v->n_suites; i++)
		if (v->suites[i].endpoint.tier != TIER_ADVISORY)
			add_endpoint(&t, &v->suites[i].endpoint);
	return finish(&t, color, out, e);
}

/* ---- Notes ---- */

static void note_overlap(const struct verdict *v, struct buf *out)
{
	struct error overlap = {0};
	if (pairing_check_overlap(v->pairing, &overlap) < 0)
		buf_printf(out, "No pooled row: %s.\n", overlap.message);
}

static void note_missing(const struct verdict *v, struct buf *out)
{
	const struct comparison *c = &v->pooled;
	if (v->pairing->overlap[0] || c->errors + c->truncated + c->unmatched == 0)
		return;
	buf_printf(out,
		"Without a pair: %" PRId64 " errors, %" PRId64 " truncated, %" PRId64 " unmatched (%" PRId64
		" only in the baseline, %" PRId64 " only in the candidate).",
		c->errors, c->truncated, c->unmatched, c->only_baseline, c->only_candidate);
	if (c->has_table)
		buf_printf(out, " If all were regressions the drop were %.2f points.", 100 * c->worst_drop);
	buf_append_char(out, '\n');
}

static void note_each_suite(const struct verdict *v, struct buf *out)
{
	for (size_t i = 0; i < v->n_suites; i++) {
		const struct comparison *c = &v->suites[i].comparison;
		if (!c->has_table)
			buf_printf(out, "%s: its answers are not right or wrong, it is not in the table.\n", c->suite);
		if (c->length_unusual)
			buf_printf(out, "%s: the candidate's answers are %.0f%% as long as the baseline's.\n", c->suite,
				100 * c->length_ratio);
		if (c->design_effect > 1)
			buf_printf(out, "%s: %" PRId64 " source documents, design effect %.3f.\n", c->suite,
				c->clusters, c->design_effect);
	}
}

static void append_notes(const struct verdict *v, struct buf *out)
{
	note_overlap(v, out);
	note_missing(v, out);
	note_each_suite(v, out);
	if (v->pairing->unverified)
		buf_printf(out,
			"Hashes of document, prompt or target are not known for %" PRId64 " pairs: that they are the "
			"same was not checked.\n",
			v->pairing->unverified);
	if (v->pooled.aa_n > 0 && !v->pairing->overlap[0])
		buf_printf(out, "A/A: the baseline against another run of itself flips %.2f%% of %" PRId64 " items.\n",
			100 * v->pooled.aa_flips, v->pooled.aa_n);
	else if (v->aa_wanted && v->pooled.aa_n == 0)
		buf_append_text(out,
			"A/A: not measured. A target that is no engine of ours need not answer the same twice: "
			"run the baseline again.\n");
}

/* Runs of two programs differ in all that either says of itself; --json holds it all. */
enum { MOST_DIFFERENCES = 16 };

static void append_sides(const struct verdict *v, struct buf *out)
{
	buf_append_text(out, "baseline   ");
	text_append_printable(out, str_of(v->pairing->baseline.label));
	buf_append_text(out, "\ncandidate  ");
	text_append_printable(out, str_of(v->pairing->candidate.label));
	buf_append_char(out, '\n');
	for (size_t i = 0; i < v->n_differences && i < MOST_DIFFERENCES; i++) {
		buf_append_text(out, i ? ", " : "differs in ");
		text_append_printable(out, str_of(v->differences[i].name));
	}
	if (v->n_differences > MOST_DIFFERENCES)
		buf_printf(out, " and %zu more", v->n_differences - MOST_DIFFERENCES);
	buf_append_text(out, v->n_differences ? "\n\n" : "\n");
}

static void append_verdict(const struct verdict *v, bool color, struct buf *out)
{
	static const char *const colors[] = {"\x1b[1;32m", "\x1b[1;31m", "\x1b[1;33m"};
	buf_printf(
		out, "\n%s%s%s: ", color ? colors[v->outcome] : "", outcome_name(v->outcome), color ? "\x1b[0m" : "");
	text_append_printable(out, str_of(v->reason));
	buf_append_text(out, ".\n");
}

int verdict_text(const struct verdict *v, bool color, struct buf *out, struct error *e)
{
	append_sides(v, out);
	TRY(append_suites(v, color, out, e));
	TRY(append_tools(v, color, out, e));
	if (v->policy) {
		buf_append_char(out, '\n');
		TRY(append_endpoints(v, color, out, e));
	}
	struct buf notes = {0};
	append_notes(v, &notes);
	if (notes.length) {
		buf_append_char(out, '\n');
		buf_append_str(out, buf_str(&notes));
	}
	buf_free(&notes);
	if (v->policy)
		append_verdict(v, color, out);
	return buf_check(out, e);
}

/* ---- Flips ---- */

static void add_answer(struct table *t, const struct store_sample *sample, const char *metric)
{
	struct buf text = {0}, whole = {0}, clipped = {0};
	pair_extracted(sample, metric, &text);
	if (text.length == 0)
		pair_response(sample, &text);
	text_append_printable(&whole, buf_str(&text));
	text_append_clipped(&clipped, buf_str(&whole), ANSWER_COLUMNS);
	table_add(t, buf_str(&clipped));
	buf_free(&text);
	buf_free(&whole);
	buf_free(&clipped);
}

/* Why the calls of the wrong side are wrong. */
static int add_error_type(struct table *t, const struct store_sample *wrong, struct error *e)
{
	struct tool_answer answer;
	int status = tool_answer_read(wrong, &answer, e);
	table_add(t, answer.error_type);
	tool_answer_free(&answer);
	return status < 0 ? status : 0;
}

static int add_flips(struct table *t, const struct pairing *p, bool regressions, struct error *e)
{
	for (size_t i = 0; i < p->n_suites; i++)
		for (const struct pair *pair = p->suites[i].pairs; pair < p->suites[i].pairs + p->suites[i].n; pair++) {
			if (!p->suites[i].binary || !pair_is_flip(pair) || pair_is_regression(pair) != regressions)
				continue;
			table_add(t, str_of(pair->baseline->suite));
			table_printf(t, "%s/%" PRId64, pair->baseline->task, pair->baseline->doc_id);
			table_add(t, str_of(regressions ? "lost" : "won"));
			add_answer(t, pair->baseline, p->suites[i].metric);
			add_answer(t, pair->candidate, p->suites[i].metric);
			if (t->columns == 6)
				TRY(add_error_type(t, regressions ? pair->candidate : pair->baseline, e));
		}
	return 0;
}

int verdict_flips_text(const struct verdict *v, bool color, struct buf *out, struct error *e)
{
	static const char *const names[] = {"suite", "item", "change", "baseline", "candidate", "wrong by"};
	struct table t;
	bool calls = false;
	for (size_t i = 0; i < v->n_suites; i++)
		calls = calls || v->suites[i].tools.n > 0;
	table_init(&t, calls ? "llllll" : "lllll");
	add_headers(&t, names);
	int status = add_flips(&t, v->pairing, true, e);
	if (status == 0)
		status = add_flips(&t, v->pairing, false, e);
	buf_append_char(out, '\n');
	if (status == 0)
		return finish(&t, color, out, e);
	table_free(&t);
	return status;
}
