/* Plots by gnuplot, an external program that may be missing. What it reads is made here: fixed scripts, numbers, and
 * labels of letters, digits and a few marks. No text of a model, and no other program is run. */
#ifndef ASSAY_REPORTS_PLOT_H
#define ASSAY_REPORTS_PLOT_H

#include "reports/report_data.h"
#include "reports/verdict.h"

struct plot {
	struct buf script;      /* complete; empty: there is nothing to draw */
	struct buf alternative; /* what it shows, in words */
};
void plot_free(struct plot *p);

/* Drops with their intervals and margins, a line each. Points where unit is "points". */
int plot_forest(const struct verdict *v, struct plot *out, struct error *e);
/* How far the log-probability of each gold choice moved, as a histogram. */
int plot_margins(const struct verdict *v, struct plot *out, struct error *e);
/* Throughput over concurrency, a line per variant; phase "decode" or "prefill". The concurrency at which a variant's
 * cache is full is marked. */
int plot_throughput(const struct report_data *data, const char *phase, struct plot *out, struct error *e);
/* Faults by check: the share of trials in which it fired, as a heat map. */
int plot_faults(const struct report_run *run, struct plot *out, struct error *e);
/* What guards cost, with intervals, the budget and the A/A interval, a line each. */
int plot_overhead(const struct report_data *data, struct plot *out, struct error *e);
/* Share of answers that took at most that long, a line per variant of a run. */
int plot_latency(const struct report_run *run, struct plot *out, struct error *e);

/* The bare <svg> of a script; out stays empty where gnuplot is not installed or draws nothing. ERR_IO only where this
 * process fails. */
int plot_draw(const struct plot *p, struct buf *out, struct error *e);

/* Appends a label that gnuplot takes for nothing but text: letters, digits, blank and ./>_-+:% stay, the rest is ?. */
void plot_label(struct buf *out, const char *text);

#endif
