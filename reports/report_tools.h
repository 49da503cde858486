/* The parts of a report that tell of tool calls. */
#ifndef ASSAY_REPORTS_REPORT_TOOLS_H
#define ASSAY_REPORTS_REPORT_TOOLS_H

#include "reports/table.h"
#include "reports/verdict.h"

/* Tool calls by category, and by error type; no row where the runs hold none. */
int report_tools_tables(const struct verdict *v, struct table_list *out, struct error *e);

/* Appends both sides' calls beside each other; nothing for a pair without calls. */
int report_calls_html(const struct pair *pair, struct buf *out, struct error *e);

#endif
