#include "reports/markdown.h"

#include <inttypes.h>

#include "engine/base/utf8.h"
#include "reports/report_verdict.h"

enum { SHOWN_FLIPS = 50, SHOWN_BYTES = 200 };

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
	for (size_t i = 0; names[i]; i++)
		table_text_column(t, names[i]);
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

static void append_head(const struct verdict *v, struct buf *out)
{
	buf_append_text(out, v->policy ? "## Gate: " : "## Comparison: ");
	markdown_text(out, str_of(v->pairing->candidate.label));
	buf_append_text(out, " against ");
	markdown_text(out, str_of(v->pairing->baseline.label));
	buf_append_text(out, "\n\n");
	report_banner_markdown(v, out);
}

int verdict_markdown(const struct verdict *v, struct buf *out, struct error *e)
{
	struct table_list list = {0};
	int status = report_verdict_tables(v, &list, e);
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

int markdown_write_error(const char *title, const char *message, struct buf *out, struct error *e)
{
	buf_append_text(out, "## ");
	markdown_text(out, str_of(title));
	buf_append_text(out, "\n\n**ERROR**, nothing was judged: ");
	markdown_text(out, str_of(message));
	buf_append_text(out, "\n");
	return buf_check(out, e);
}
