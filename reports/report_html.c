#include "reports/report_html.h"

#include <inttypes.h>

#include "reports/html.h"
#include "reports/plot.h"
#include "reports/report_faults.h"
#include "reports/report_overhead.h"
#include "reports/report_tables.h"

/* ---- Pieces ---- */

static void begin_section(struct buf *out, const char *id, const char *title)
{
	buf_printf(out, "<section id=\"%s\">\n<h2>%s</h2>\n", id, title);
}

static void end_section(struct buf *out)
{
	buf_append_text(out, "</section>\n");
}

/* Writes the tables that were added, and frees them. status: of the adding. */
static int write_tables(struct table_list *list, int status, struct buf *out, struct error *e)
{
	if (status == 0)
		status = table_list_check(list, e);
	for (size_t i = 0; i < list->n && status == 0; i++)
		html_table(out, list->tables[i]);
	table_list_free(list);
	return status;
}

/* Draws the plot, where it was made and gnuplot is there, and frees it. status: of the making. */
static int write_plot(struct plot *plot, int status, struct buf *out, struct error *e)
{
	struct buf svg = {0};
	if (status == 0)
		status = plot_draw(plot, &svg, e);
	if (status == 0 && svg.length)
		html_image(out, buf_str(&svg), buf_text(&plot->alternative));
	buf_free(&svg);
	plot_free(plot);
	return status;
}

/* ---- Verdicts ---- */

static int write_verdict(const struct report_page *page, size_t number, struct buf *out, struct error *e)
{
	const struct verdict *v = page->verdicts[number - 1];
	struct table_list tables = {0};
	struct plot plot = {0};
	buf_printf(out, "<section id=\"verdict-%zu\">\n<h2>", number);
	html_text(out, str_of(v->pairing->candidate.label));
	buf_append_text(out, " against ");
	html_text(out, str_of(v->pairing->baseline.label));
	buf_append_text(out, "</h2>\n");
	report_banner_html(v, out);
	TRY(write_tables(&tables, report_verdict_tables(v, &tables, e), out, e));
	TRY(write_plot(&plot, plot_forest(v, &plot, e), out, e));
	TRY(write_plot(&plot, plot_margins(v, &plot, e), out, e));
	TRY(report_flips_html(v, page->find_item, page->find_context, out, e));
	end_section(out);
	return 0;
}

/* ---- Runs ---- */

static bool has_variants(const struct report_data *data)
{
	for (size_t i = 0; i < data->n_runs; i++)
		if (data->runs[i].n_variants)
			return true;
	return false;
}

static int write_accuracy(const struct report_data *data, struct buf *out, struct error *e)
{
	struct table_list tables = {0};
	if (!has_variants(data))
		return 0;
	begin_section(out, "accuracy", "Accuracy and capacity");
	TRY(write_tables(&tables, report_accuracy_tables(data, &tables, e), out, e));
	TRY(write_tables(&tables, report_capacity_table(data, &tables, e), out, e));
	end_section(out);
	return 0;
}

static bool has_measurements(const struct report_data *data)
{
	for (size_t i = 0; i < data->n_runs; i++)
		if (data->runs[i].n_measurements)
			return true;
	return false;
}

static int write_speed(const struct report_data *data, struct buf *out, struct error *e)
{
	struct table_list tables = {0};
	struct plot plot = {0};
	if (!has_measurements(data))
		return 0;
	begin_section(out, "speed", "Throughput and latency");
	TRY(write_plot(&plot, plot_throughput(data, "decode", &plot, e), out, e));
	TRY(write_plot(&plot, plot_throughput(data, "prefill", &plot, e), out, e));
	TRY(write_tables(&tables, report_speed_tables(data, &tables, e), out, e));
	TRY(write_plot(&plot, plot_overhead(data, &plot, e), out, e));
	TRY(write_tables(&tables, report_overhead_table(data, &tables, e), out, e));
	end_section(out);
	return 0;
}

static int write_faults(const struct report_data *data, struct buf *out, struct error *e)
{
	struct table_list tables = {0};
	if (!report_has_faults(data))
		return 0;
	begin_section(out, "faults", "Planted faults");
	for (size_t i = 0; i < data->n_runs; i++) {
		struct plot plot = {0};
		TRY(write_plot(&plot, plot_faults(&data->runs[i], &plot, e), out, e));
	}
	TRY(write_tables(&tables, report_fault_outcomes_table(data, &tables, e), out, e));
	for (size_t i = 0; i < data->n_runs; i++)
		if (data->runs[i].n_checks)
			TRY(write_tables(&tables, report_fault_checks_table(&data->runs[i], &tables, e), out, e));
	end_section(out);
	return 0;
}

static bool has_answers(const struct report_data *data)
{
	for (size_t i = 0; i < data->n_runs; i++)
		if (data->runs[i].n_counts)
			return true;
	return false;
}

static int write_answers(const struct report_data *data, struct buf *out, struct error *e)
{
	struct table_list tables = {0};
	if (!has_answers(data))
		return 0;
	begin_section(out, "answers", "Answers");
	for (size_t i = 0; i < data->n_runs; i++) {
		struct plot plot = {0};
		TRY(write_plot(&plot, plot_latency(&data->runs[i], &plot, e), out, e));
	}
	TRY(write_tables(&tables, report_latency_table(data, &tables, e), out, e));
	TRY(write_tables(&tables, report_errors_table(data, &tables, e), out, e));
	end_section(out);
	return 0;
}

static int write_provenance(const struct report_data *data, struct buf *out, struct error *e)
{
	begin_section(out, "provenance", "Provenance");
	for (size_t i = 0; i < data->n_runs; i++) {
		struct table_list tables = {0};
		buf_printf(out, "<details%s>\n<summary>Run %" PRId64 " of ", data->n_runs == 1 ? " open" : "",
			data->runs[i].run.run_id);
		html_text(out, str_of(data->runs[i].file));
		buf_append_text(out, ": ");
		html_text(out, str_of(data->runs[i].run.model));
		buf_append_text(out, "</summary>\n");
		TRY(write_tables(&tables, report_provenance_table(&data->runs[i], &tables, e), out, e));
		buf_append_text(out, "</details>\n");
	}
	end_section(out);
	return 0;
}

/* ---- The page ---- */

static void write_contents(const struct report_page *page, struct buf *out)
{
	buf_append_text(out, "<nav aria-label=\"Contents\"><ul>\n");
	for (size_t i = 0; i < page->n_verdicts; i++) {
		buf_printf(out, "<li><a href=\"#verdict-%zu\">", i + 1);
		html_text(out, str_of(page->verdicts[i]->pairing->candidate.label));
		buf_append_text(out, "</a></li>\n");
	}
	if (page->data && page->data->n_runs) {
		if (has_variants(page->data))
			buf_append_text(out, "<li><a href=\"#accuracy\">Accuracy and capacity</a></li>\n");
		if (has_measurements(page->data))
			buf_append_text(out, "<li><a href=\"#speed\">Throughput and latency</a></li>\n");
		if (report_has_faults(page->data))
			buf_append_text(out, "<li><a href=\"#faults\">Planted faults</a></li>\n");
		if (has_answers(page->data))
			buf_append_text(out, "<li><a href=\"#answers\">Answers</a></li>\n");
		buf_append_text(out, "<li><a href=\"#provenance\">Provenance</a></li>\n");
	}
	buf_append_text(out, "<li><a href=\"#method\">Method</a></li>\n</ul></nav>\n");
}

static const char method[] =
	"<p>Two runs of a suite answered the same items, so they are compared item by item: pairs are keyed by suite, "
	"task "
	"and document, and their document and prompt are the same by their hashes. Items without an answer, cut by the "
	"length limit or without a partner are no pairs; they are counted.</p>\n"
	"<p>The drop is the baseline's score minus the candidate's. Its interval is Tango's score interval for paired "
	"proportions; with fewer than ten discordant pairs the bounds that decide are Clopper and Pearson's. A pass "
	"says "
	"that the one-sided upper bound of the drop lies below the margin, a fail that the lower bound lies above it; "
	"all "
	"else is inconclusive, with the number of items that would decide. McNemar's test is exact. Holm's method "
	"adjusts "
	"p values where several suites are looked at.</p>\n"
	"<p>The engine gives the same bits to the same request, whatever else it answers: two runs of one "
	"configuration "
	"have no flips. A server need not, and is measured against itself.</p>\n";

static void write_notes(const struct report_page *page, struct buf *out)
{
	for (size_t i = 0; i < page->n_notes; i++) {
		buf_append_text(out, "<p class=\"note\">");
		html_text(out, str_of(page->notes[i]));
		buf_append_text(out, "</p>\n");
	}
}

static void begin_page(const char *title, struct buf *out)
{
	html_begin(out, title);
	buf_append_text(out, "<header>\n<h1>");
	html_text(out, str_of(title));
	buf_append_text(out, "</h1>\n");
}

int report_html_write_error(const char *title, const char *message, struct buf *out, struct error *e)
{
	begin_page(title, out);
	buf_append_text(out,
		"</header>\n<main>\n<div class=\"verdict fail\">\n<p><span class=\"word\">✗ ERROR</span> · nothing "
		"was judged</p>\n<p>");
	html_text(out, str_of(message));
	buf_append_text(out, "</p>\n</div>\n</main>\n");
	html_end(out);
	return buf_check(out, e);
}

int report_html_write(const struct report_page *page, struct buf *out, struct error *e)
{
	begin_page(page->title, out);
	write_contents(page, out);
	buf_append_text(out, "</header>\n<main>\n");
	write_notes(page, out);
	for (size_t i = 0; i < page->n_verdicts; i++)
		TRY(write_verdict(page, i + 1, out, e));
	if (page->data && page->data->n_runs) {
		TRY(write_accuracy(page->data, out, e));
		TRY(write_speed(page->data, out, e));
		TRY(write_faults(page->data, out, e));
		TRY(write_answers(page->data, out, e));
		TRY(write_provenance(page->data, out, e));
	}
	begin_section(out, "method", "Method");
	buf_append_text(out, method);
	end_section(out);
	buf_append_text(out, "</main>\n");
	html_end(out);
	return buf_check(out, e);
}
