#include "reports/report_tools.h"

#include <math.h>

#include "reports/html.h"
#include "reports/tool_answer.h"

static void columns(struct report_table *t, const char *const *names, int n, int n_texts)
{
	for (int i = 0; i < n; i++)
		(i < n_texts ? table_text_column : table_number_column)(t, names[i]);
}

/* ---- Categories ---- */

static void category_row(struct report_table *t, const char *suite, const struct tool_category *c)
{
	table_text(t, suite);
	table_text(t, c->name ? c->name : "all");
	table_int(t, c->n);
	table_percent(t, c->baseline, 2);
	table_percent(t, c->candidate, 2);
	table_percent(t, c->drop, 2);
	table_percent(t, c->interval.low, 2);
	table_percent(t, c->interval.high, 2);
	table_int(t, c->table.b);
	table_int(t, c->table.c);
	table_int(t, c->baseline_calls.called);
	table_int(t, c->candidate_calls.called);
	table_percent(t, tool_validity_share(c->baseline_calls), 2);
	table_percent(t, tool_validity_share(c->candidate_calls), 2);
	table_number(t, c->trigger_f1, 4);
}

static int categories_table(const struct verdict *v, struct table_list *out, struct error *e)
{
	static const char *const names[] = {"suite", "category", "n", "base %", "cand %", "drop", "95% low", "95% high",
		"b lost", "c won", "base calls", "cand calls", "base valid %", "cand valid %", "trigger F1"};
	struct report_table *t = table_list_add(out, "tool_categories", "Tool calls by category", e);
	if (!t)
		return ERR_MEMORY;
	columns(t, names, sizeof(names) / sizeof(names[0]), 2);
	for (size_t i = 0; i < v->n_suites; i++) {
		const struct tool_suite *s = &v->suites[i].tools;
		if (s->n > 1)
			category_row(t, v->suites[i].comparison.suite, &s->whole);
		for (size_t j = 0; j < s->n; j++)
			category_row(t, v->suites[i].comparison.suite, &s->categories[j]);
	}
	buf_append_text(&t->note,
		"Scores and drops in points. Calls: items with a call; valid: of these, items of which every call "
		"names a declared tool and satisfies its schema. Trigger F1: whether the candidate calls where the "
		"baseline does.");
	return 0;
}

/* ---- Errors ---- */

static void error_rows(struct report_table *t, const char *suite, const struct tool_category *c)
{
	for (size_t i = 0; i < c->n_errors; i++) {
		table_text(t, suite);
		table_text(t, c->name ? c->name : "all");
		table_text(t, c->errors[i].type);
		table_int(t, c->errors[i].baseline);
		table_int(t, c->errors[i].candidate);
		table_int(t, c->errors[i].appeared);
		table_int(t, c->errors[i].vanished);
	}
}

static int errors_table(const struct verdict *v, struct table_list *out, struct error *e)
{
	static const char *const names[] = {
		"suite", "category", "error type", "baseline", "candidate", "appeared", "vanished"};
	struct report_table *t = table_list_add(out, "tool_errors", "Tool calls by error type", e);
	if (!t)
		return ERR_MEMORY;
	columns(t, names, sizeof(names) / sizeof(names[0]), 3);
	for (size_t i = 0; i < v->n_suites; i++) {
		const struct tool_suite *s = &v->suites[i].tools;
		if (s->n > 1)
			error_rows(t, v->suites[i].comparison.suite, &s->whole);
		for (size_t j = 0; j < s->n; j++)
			error_rows(t, v->suites[i].comparison.suite, &s->categories[j]);
	}
	buf_append_text(&t->note,
		"Items that fail so, with BFCL's names. Appeared: of the candidate's, items that do not fail so under "
		"the baseline; vanished: the reverse.");
	return 0;
}

int report_tools_tables(const struct verdict *v, struct table_list *out, struct error *e)
{
	TRY(categories_table(v, out, e));
	return errors_table(v, out, e);
}

/* ---- One pair ---- */

int report_calls_html(const struct pair *pair, struct buf *out, struct error *e)
{
	struct tool_answer a = {0}, b = {0};
	struct table_list list = {0};
	int status = tool_answer_read(pair->baseline, &a, e);
	if (status == 1)
		status = tool_answer_read(pair->candidate, &b, e);
	if (status == 1)
		status = tool_answers_table(&a, &b, &list, e);
	for (size_t i = 0; i < list.n && status == 0; i++)
		html_table(out, list.tables[i]);
	table_list_free(&list);
	tool_answer_free(&a);
	tool_answer_free(&b);
	return status < 0 ? status : 0;
}
