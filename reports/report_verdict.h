/* The parts of a report that come from a verdict: its tables, its flips. */
#ifndef ASSAY_REPORTS_REPORT_VERDICT_H
#define ASSAY_REPORTS_REPORT_VERDICT_H

#include "reports/table.h"
#include "reports/verdict.h"

/* Endpoints, suites, transitions, divergence, A/A, differences: one table each where there is something to say. */
int report_verdict_tables(const struct verdict *v, struct table_list *out, struct error *e);

/* The banner: verdict, reason, exit code. */
void report_banner_html(const struct verdict *v, struct buf *out);
void report_banner_markdown(const struct verdict *v, struct buf *out);

/* Items whose answer flipped, regressions first, at most REPORT_FLIPS of them with at most REPORT_ANSWER_BYTES of each
 * answer; what is left out is counted. */
enum { REPORT_FLIPS = 100, REPORT_ANSWER_BYTES = 4096 };
int report_flips_html(const struct verdict *v, struct buf *out, struct error *e);

#endif
