/* The tables of a report that come from runs alone. Each function adds a table where there is something to say. */
#ifndef ASSAY_REPORTS_REPORT_TABLES_H
#define ASSAY_REPORTS_REPORT_TABLES_H

#include "reports/report_data.h"
#include "reports/table.h"

/* Accuracy: by KV format where several are there, by weight format likewise, by run likewise, and all of it. */
int report_accuracy_tables(const struct report_data *data, struct table_list *out, struct error *e);
/* Bytes of weights, KV bytes per token, KV tokens. */
int report_capacity_table(const struct report_data *data, struct table_list *out, struct error *e);
/* Tokens per second: KV format by concurrency, weight format by concurrency, prefill by weights, and all of it. */
int report_speed_tables(const struct report_data *data, struct table_list *out, struct error *e);
/* How long answers took. */
int report_latency_table(const struct report_data *data, struct table_list *out, struct error *e);
/* Answers that are not ok, by suite and variant. */
int report_errors_table(const struct report_data *data, struct table_list *out, struct error *e);
/* Everything that says how a run came about. */
int report_provenance_table(const struct report_run *run, struct table_list *out, struct error *e);

/* "bf16/bf16", with the run where there are several. */
void report_variant_label(
	const struct report_data *data, const struct report_run *run, size_t variant, struct buf *out);

#endif
