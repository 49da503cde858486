#include "reports/report_overhead.h"

#include <math.h>
#include <stdlib.h>

#include "reports/report_tables.h"

enum { MOST_BLOCKS = 4096 };

/* Blocks of one arm at one point: in the store's order they stand together, by block. */
struct blocks {
	const struct report_measurement *items;
	size_t n;
};

/* The same but for arm and block. */
static bool same_point(const struct report_measurement *a, const struct report_measurement *b)
{
	return a->variant == b->variant && strcmp(a->phase, b->phase) == 0 && a->concurrency == b->concurrency &&
		a->input_tokens == b->input_tokens && a->output_tokens == b->output_tokens;
}

static bool same_arm(const struct report_measurement *a, const struct report_measurement *b)
{
	return strcmp(a->arm, b->arm) == 0 && same_point(a, b);
}

static bool is_null(const struct report_measurement *m)
{
	return strcmp(m->arm, STORE_ARM_NULL) == 0;
}

/* n is 0 unless measurement i is the first of its blocks. */
static struct blocks blocks_at(const struct report_run *run, size_t i)
{
	const struct report_measurement *m = &run->measurements[i];
	struct blocks b = {m, 0};
	if (m->block == 0 || (i > 0 && m[-1].block > 0 && same_arm(&m[-1], m)))
		return b;
	while (i + b.n < run->n_measurements && same_arm(&m[b.n], m))
		b.n++;
	return b;
}

static struct blocks find_arm(const struct report_run *run, const struct report_measurement *point, const char *arm)
{
	for (size_t i = 0; i < run->n_measurements; i++) {
		const struct report_measurement *m = &run->measurements[i];
		struct blocks b = {NULL, 0};
		if (strcmp(m->arm, arm) == 0 && same_point(m, point))
			b = blocks_at(run, i);
		if (b.n > 0)
			return b;
	}
	return (struct blocks){NULL, 0};
}

static double throughput_of(const struct report_measurement *m)
{
	return m->tokens_per_s;
}

static double p95_of(const struct report_measurement *m)
{
	return m->e2e.p95;
}

static double guard_of(const struct report_measurement *m)
{
	return m->guard_us_per_step;
}

static double step_of(const struct report_measurement *m)
{
	return m->step_us;
}

/* Both sides of each block that has both. */
static size_t pair_blocks(struct blocks none, struct blocks arm, double (*measure)(const struct report_measurement *),
	double *off, double *on)
{
	size_t n = 0;
	for (size_t i = 0, j = 0; i < none.n && j < arm.n && n < MOST_BLOCKS;) {
		int64_t a = none.items[i].block, b = arm.items[j].block;
		if (a == b && measure(&none.items[i]) > 0 && measure(&arm.items[j]) > 0) {
			off[n] = measure(&none.items[i]);
			on[n++] = measure(&arm.items[j]);
		}
		i += a <= b;
		j += b <= a;
	}
	return n;
}

/* Of the arm over none, less one; NaN with fewer than two pairs. Returns the pairs. */
static size_t compare(struct blocks none, struct blocks arm, double (*measure)(const struct report_measurement *),
	struct overhead_cost *out)
{
	double off[MOST_BLOCKS], on[MOST_BLOCKS];
	size_t n = pair_blocks(none, arm, measure, off, on);
	*out = (struct overhead_cost){NAN, {NAN, NAN}};
	if (n < 2)
		return n;
	struct paired_ratio ratio = paired_ratio(off, on, n, 0.95);
	*out = (struct overhead_cost){ratio.ratio - 1, {ratio.interval.low - 1, ratio.interval.high - 1}};
	return n;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(struct blocks b, double (*measure)(const struct report_measurement *))
{
	double values[MOST_BLOCKS];
	size_t n = 0;
	for (size_t i = 0; i < b.n && n < MOST_BLOCKS; i++)
		if (!isnan(measure(&b.items[i])))
			values[n++] = measure(&b.items[i]);
	if (n == 0)
		return NAN;
	qsort(values, n, sizeof(*values), ascending);
	return sample_quantile(values, n, 0.5);
}

/* False with fewer than two pairs. */
static bool measure_arm(
	const struct report_run *run, struct blocks none, struct blocks arm, struct report_overhead *out)
{
	struct overhead_cost change;
	*out = (struct report_overhead){
		.run = run, .point = arm.items, .is_null = is_null(arm.items), .null = {NAN, NAN}};
	out->pairs = compare(none, arm, throughput_of, &change);
	if (out->pairs < 2)
		return false;
	/* Throughput falls where overhead rises: the ends of the interval change places. */
	out->throughput = (struct overhead_cost){-change.value, {-change.interval.high, -change.interval.low}};
	compare(none, arm, p95_of, &out->p95);
	out->guard_us = median(arm, guard_of);
	out->step_us = median(arm, step_of);
	return true;
}

/* All arms at one point. */
static int measure_point(
	const struct report_run *run, const struct report_measurement *point, struct report_overhead *out, int most)
{
	struct blocks none = find_arm(run, point, STORE_ARM_NONE), null = find_arm(run, point, STORE_ARM_NULL);
	struct interval resolution = {NAN, NAN};
	int n = 0;
	if (most > 0 && null.n > 0 && measure_arm(run, none, null, &out[n]))
		resolution = out[n++].throughput.interval;
	for (size_t i = 0; i < run->n_measurements && n < most; i++) {
		struct blocks arm = blocks_at(run, i);
		if (arm.n == 0 || !same_point(arm.items, point) || is_null(arm.items) ||
			strcmp(arm.items->arm, STORE_ARM_NONE) == 0)
			continue;
		n += measure_arm(run, none, arm, &out[n]);
	}
	for (int i = 0; i < n; i++)
		out[i].null = resolution;
	return n;
}

int report_overheads(const struct report_data *data, struct report_overhead *out, int most)
{
	int n = 0;
	for (size_t r = 0; r < data->n_runs; r++) {
		const struct report_run *run = &data->runs[r];
		/* each point has its arm "none", without which nothing can be compared */
		for (size_t i = 0; i < run->n_measurements && n < most; i++)
			if (strcmp(run->measurements[i].arm, STORE_ARM_NONE) == 0 && blocks_at(run, i).n > 0)
				n += measure_point(run, &run->measurements[i], out + n, most - n);
	}
	return n;
}

/* ---- The table ---- */

/* As `assay overhead` claims it: nothing under the budget is told apart where the A/A arm itself is beyond it. */
static const char *claim(const struct report_overhead *x)
{
	const struct interval *cost = &x->throughput.interval, *null = &x->null;
	if (x->is_null)
		return "";
	if (isnan(null->low))
		return "no A/A";
	if (!(null->low > -REPORT_OVERHEAD_BUDGET && null->high < REPORT_OVERHEAD_BUDGET))
		return "not resolved";
	return cost->low > REPORT_OVERHEAD_BUDGET     ? "above 1%"
		: cost->high < REPORT_OVERHEAD_BUDGET ? "within 1%"
						      : "open";
}

static void overhead_row(const struct report_data *data, const struct report_overhead *x, struct report_table *t)
{
	struct buf label = {0};
	report_variant_label(data, x->run, x->point->variant, &label);
	table_str(t, buf_str(&label));
	t->failed = t->failed || label.failed;
	buf_free(&label);
	table_text(t, x->point->arm);
	table_text(t, x->point->phase);
	table_int(t, x->point->concurrency);
	table_int(t, (int64_t)x->pairs);
	table_percent(t, x->throughput.value, 2);
	table_percent(t, x->throughput.interval.low, 2);
	table_percent(t, x->throughput.interval.high, 2);
	table_percent(t, x->null.low, 2);
	table_percent(t, x->null.high, 2);
	table_text(t, claim(x));
	table_percent(t, x->p95.value, 2);
	table_percent(t, x->p95.interval.low, 2);
	table_percent(t, x->p95.interval.high, 2);
	table_number(t, x->guard_us, 2);
	table_number(t, x->step_us, 0);
	table_percent(t, x->guard_us / x->step_us, 3);
}

int report_overhead_table(const struct report_data *data, struct table_list *out, struct error *e)
{
	static const char *const columns[] = {"variant", "guard", "phase", "concurrency", "pairs", "overhead, %", "low",
		"high", "A/A low", "A/A high", "budget", "p95 latency, %", "p95 low", "p95 high", "guard µs per step",
		"step µs", "guard, %"};
	struct report_overhead rows[REPORT_OVERHEADS];
	struct report_table *t = table_list_add(out, "overhead", "Overhead of the guards by concurrency", e);
	if (!t)
		return ERR_MEMORY;
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		(i < 3 || i == 10 ? table_text_column : table_number_column)(t, columns[i]);
	int n = report_overheads(data, rows, REPORT_OVERHEADS);
	for (int i = 0; i < n; i++)
		overhead_row(data, &rows[i], t);
	buf_append_text(&t->note,
		"Throughput with a guard against throughput without, in interleaved pairs: the mean of their "
		"logarithms with its 95% t interval, against a budget of 1%. A/A: the interval of none against none at "
		"the same point, which is what the measurement can resolve; where it reaches 1%, nothing is said of "
		"the budget. p95 latency: likewise, of the blocks' own 95th percentiles. Guard and step: medians of "
		"the "
		"blocks, by the clock.");
	if (n == REPORT_OVERHEADS)
		buf_append_text(&t->note, " More are in the store.");
	return 0;
}
