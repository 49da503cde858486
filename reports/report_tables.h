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
/* What a guard costs at one point, as a fraction of the throughput without: interleaved arms against "none". */
struct report_overhead {
	const struct report_run *run;
	const struct report_measurement *point; /* the first of its block */
	size_t pairs;
	double overhead, low, high; /* 95% */
};
#define REPORT_OVERHEAD_BUDGET 0.01
enum { REPORT_OVERHEADS = 200 };
/* Returns how many there are, at most `most`. */
int report_overheads(const struct report_data *data, struct report_overhead *out, int most);

int report_overhead_table(const struct report_data *data, struct table_list *out, struct error *e);
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
