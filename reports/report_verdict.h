/* The parts of a report that come from a verdict: its tables, its flips. */
#ifndef ASSAY_REPORTS_REPORT_VERDICT_H
#define ASSAY_REPORTS_REPORT_VERDICT_H

#include "reports/table.h"
#include "reports/verdict.h"

/* Endpoints, suites, transitions, tool calls, divergence, A/A, differences: one table each where there is something to say. */
int report_verdict_tables(const struct verdict *v, struct table_list *out, struct error *e);

/* The banner: verdict, reason, exit code. */
void report_banner_html(const struct verdict *v, struct buf *out);
void report_banner_markdown(const struct verdict *v, struct buf *out);

/* What an item asked: the store keeps hashes of it only. */
struct report_item {
	struct str prompt, gold; /* borrowed until the next call; length 0: not known */
};
/* Finds the item that a sample of that side answered; false where its data are not at hand or have other hashes. */
typedef bool report_find_item(
	void *context, const struct answers *side, const struct store_sample *sample, struct report_item *out);

/* Items whose answer flipped, regressions first, at most REPORT_FLIPS of them with at most REPORT_ANSWER_BYTES of each
 * answer; what is left out is counted. find may be NULL. */
enum { REPORT_FLIPS = 100, REPORT_ANSWER_BYTES = 4096 };
int report_flips_html(const struct verdict *v, report_find_item *find, void *context, struct buf *out, struct error *e);

#endif
