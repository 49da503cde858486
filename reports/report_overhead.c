#include "reports/report_overhead.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "engine/base/json_strict.h"
#include "reports/report_tables.h"

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

/* Both sides of each block that has both. */
struct pairs {
	struct overhead_sample *none, *arm; /* [n] owned; latencies are the measurements' */
	int n;
};

static void pairs_free(struct pairs *p)
{
	free(p->none);
	free(p->arm);
}

static struct overhead_sample sample_of(const struct report_measurement *m)
{
	return (struct overhead_sample){.tokens_per_s = m->tokens_per_s,
		.cpu_us = m->cpu_us,
		.latencies = m->latencies,
		.n_latencies = m->n_latencies,
		.guard_us = m->guard_us_per_step,
		.step_us = m->step_us};
}

static int pairs_make(struct blocks none, struct blocks arm, struct pairs *out, struct error *e)
{
	size_t most = none.n < arm.n ? none.n : arm.n;
	*out = (struct pairs){.none = mem_calloc(most, sizeof(*out->none), e)};
	out->arm = mem_calloc(most, sizeof(*out->arm), e);
	if (!out->none || !out->arm)
		return ERR_MEMORY;
	for (size_t i = 0, j = 0; i < none.n && j < arm.n && out->n < INT_MAX;) {
		const struct report_measurement *a = &none.items[i], *b = &arm.items[j];
		if (a->block == b->block && a->tokens_per_s > 0 && b->tokens_per_s > 0) {
			out->none[out->n] = sample_of(a);
			out->arm[out->n++] = sample_of(b);
		}
		i += a->block <= b->block;
		j += b->block <= a->block;
	}
	return 0;
}

/* What the measurement's own draws began with. */
static uint64_t seed_of(const struct report_run *run)
{
	struct json_document *document = NULL;
	int64_t seed = 0;
	if (json_parse(run->run.provenance, NULL, JSON_LAST_KEY_WINS, &document, NULL) < 0)
		return 0;
	json_int64(json_get(json_root(document), "seed"), &seed);
	json_free(document);
	return (uint64_t)seed;
}

static int measure_pairs(const struct pairs *p, struct report_overhead *out, struct error *e)
{
	struct overhead_change change;
	TRY(overhead_ratio(p->none, p->arm, p->n, OVERHEAD_THROUGHPUT, &change, e));
	/* Throughput falls where overhead rises: the ends of the interval change places. */
	out->throughput = (struct overhead_change){-change.value, -change.high, -change.low};
	TRY(overhead_ratio(p->none, p->arm, p->n, OVERHEAD_CPU, &out->cpu, e));
	TRY(overhead_p95(p->none, p->arm, p->n, seed_of(out->run), &out->p95, e));
	TRY(overhead_median(p->arm, p->n, OVERHEAD_GUARD, &out->guard_us, e));
	return overhead_median(p->arm, p->n, OVERHEAD_STEP, &out->step_us, e);
}

/* 1: measured; 0: fewer than two pairs. */
static int measure_arm(const struct report_run *run, struct blocks none, struct blocks arm, struct report_overhead *out,
	struct error *e)
{
	struct pairs pairs;
	*out = (struct report_overhead){
		.run = run, .point = arm.items, .is_null = is_null(arm.items), .null_low = NAN, .null_high = NAN};
	int status = pairs_make(none, arm, &pairs, e);
	out->pairs = (size_t)pairs.n;
	if (status == 0 && pairs.n >= 2) {
		status = measure_pairs(&pairs, out, e);
		status = status < 0 ? status : 1;
	}
	pairs_free(&pairs);
	return status;
}

/* All arms at one point: how many. */
static int measure_point(const struct report_run *run, const struct report_measurement *point,
	struct report_overhead *out, int most, struct error *e)
{
	struct blocks none = find_arm(run, point, STORE_ARM_NONE), null = find_arm(run, point, STORE_ARM_NULL);
	int n = 0, has_null = null.n > 0 && most > 0 ? measure_arm(run, none, null, &out[0], e) : 0;
	TRY(has_null);
	n += has_null;
	for (size_t i = 0; i < run->n_measurements && n < most; i++) {
		struct blocks arm = blocks_at(run, i);
		if (arm.n == 0 || !same_point(arm.items, point) || is_null(arm.items) ||
			strcmp(arm.items->arm, STORE_ARM_NONE) == 0)
			continue;
		int measured = measure_arm(run, none, arm, &out[n], e);
		TRY(measured);
		n += measured;
	}
	for (int i = 0; has_null && i < n; i++) {
		out[i].null_low = out[0].throughput.low;
		out[i].null_high = out[0].throughput.high;
	}
	return n;
}

int report_overheads(const struct report_data *data, struct report_overhead *out, int most, struct error *e)
{
	int n = 0;
	for (size_t r = 0; r < data->n_runs; r++) {
		const struct report_run *run = &data->runs[r];
		/* each point has its arm "none", without which nothing can be compared */
		for (size_t i = 0; i < run->n_measurements && n < most; i++) {
			if (strcmp(run->measurements[i].arm, STORE_ARM_NONE) != 0 || blocks_at(run, i).n == 0)
				continue;
			int measured = measure_point(run, &run->measurements[i], out + n, most - n, e);
			TRY(measured);
			n += measured;
		}
	}
	return n;
}

/* ---- The table ---- */

/* As `assay overhead` claims it: nothing under the budget is told apart where the A/A arm itself is beyond it. */
static const char *claim(const struct report_overhead *x)
{
	if (x->is_null)
		return "";
	if (isnan(x->null_low))
		return "no A/A";
	if (!(x->null_low > -REPORT_OVERHEAD_BUDGET && x->null_high < REPORT_OVERHEAD_BUDGET))
		return "not resolved";
	return x->throughput.low > REPORT_OVERHEAD_BUDGET     ? "above 1%"
		: x->throughput.high < REPORT_OVERHEAD_BUDGET ? "within 1%"
							      : "open";
}

static void change_cells(struct report_table *t, const struct overhead_change *c)
{
	table_percent(t, c->value, 2);
	table_percent(t, c->low, 2);
	table_percent(t, c->high, 2);
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
	change_cells(t, &x->throughput);
	table_percent(t, x->null_low, 2);
	table_percent(t, x->null_high, 2);
	table_text(t, claim(x));
	change_cells(t, &x->cpu);
	change_cells(t, &x->p95);
	table_number(t, x->guard_us, 2);
	table_number(t, x->step_us, 0);
	table_percent(t, x->guard_us / x->step_us, 3);
}

int report_overhead_table(const struct report_data *data, struct table_list *out, struct error *e)
{
	static const char *const columns[] = {"variant", "guard", "phase", "concurrency", "pairs", "overhead, %", "low",
		"high", "A/A low", "A/A high", "budget", "CPU time, %", "CPU low", "CPU high", "p95 latency, %",
		"p95 low", "p95 high", "guard µs per step", "step µs", "guard, %"};
	struct report_overhead rows[REPORT_OVERHEADS];
	struct report_table *t = table_list_add(out, "overhead", "Overhead of the guards by concurrency", e);
	if (!t)
		return ERR_MEMORY;
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		(i < 3 || i == 10 ? table_text_column : table_number_column)(t, columns[i]);
	int n = report_overheads(data, rows, REPORT_OVERHEADS, e);
	TRY(n);
	for (int i = 0; i < n; i++)
		overhead_row(data, &rows[i], t);
	buf_append_text(&t->note,
		"Throughput with a guard against throughput without, in interleaved pairs: what is lost (of the change "
		"that the command prints, the negative), by the mean of their logarithms with its 95% t interval, "
		"against a budget of 1%. A/A: the interval of none against none at "
		"the same point, which is what the measurement can resolve; where it reaches 1%, nothing is said of "
		"the budget. CPU time: change of all threads' for a token of the answers, likewise. p95 latency: "
		"change "
		"of the 95th percentile over all blocks, whole blocks drawn 2,000 times. Guard and step: medians of "
		"the "
		"blocks, by the clock.");
	if (n == REPORT_OVERHEADS)
		buf_append_text(&t->note, " More are in the store.");
	return 0;
}
