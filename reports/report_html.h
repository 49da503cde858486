/* The page that people open: one self-contained HTML file that works without scripts and without a network. Whatever a
 * model said is escaped. */
#ifndef ASSAY_REPORTS_REPORT_HTML_H
#define ASSAY_REPORTS_REPORT_HTML_H

#include "reports/report_data.h"
#include "reports/report_verdict.h"

struct report_page {
	const char *title;
	const struct verdict *const *verdicts; /* [n_verdicts], each with its pairing */
	size_t n_verdicts;
	const struct report_data *data; /* the runs themselves; NULL: none */
	const char *const *notes;       /* [n_notes] what could not be compared, and why */
	size_t n_notes;
	report_find_item *find_item; /* NULL: flips are shown without their prompts */
	void *find_context;
};

/* Appends the page. Plots are drawn by gnuplot where it is installed; without it the tables alone stand. */
int report_html_write(const struct report_page *page, struct buf *out, struct error *e);

/* Appends the page of what could not be judged: the title and why. */
int report_html_write_error(const char *title, const char *message, struct buf *out, struct error *e);

#endif
