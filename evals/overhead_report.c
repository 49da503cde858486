#include "evals/overhead_report.h"

#include "engine/base/json_strict.h"
#include "evals/run_report.h"

static const double half_percent = 0.005;

void overhead_report_init(struct overhead_report *r)
{
	static const char *const headers[] = {"variant", "guard", "at once", "tokens/s", "change", "95%", "CPU time",
		"95%", "p95 latency", "95%", "guard us/step", "step us", "share", "under 1%"};

	*r = (struct overhead_report){0};
	table_init(&r->table, "llrrrrrrrrrrrl");
	for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
		table_add(&r->table, str_of(headers[i]));
}

void overhead_report_free(struct overhead_report *r)
{
	buf_free(&r->rows);
	table_free(&r->table);
}

/* What an arm measured, over the blocks of a level. */
struct arm_summary {
	double tokens_per_s;      /* mean */
	double guard_us, step_us; /* medians: a block in which the process had to wait says nothing of either */
	struct overhead_change throughput, cpu, p95;
	int blocks; /* for half a percent of throughput either way; 0: out of reach */
};

static int arm_summarize(const struct overhead_level *level, int arm, struct arm_summary *out, struct error *e)
{
	const struct overhead_sample *off = level->samples[0], *on = level->samples[arm];

	*out = (struct arm_summary){0};
	for (int i = 0; i < level->n_blocks; i++)
		out->tokens_per_s += on[i].tokens_per_s / level->n_blocks;
	TRY(overhead_median(on, level->n_blocks, OVERHEAD_GUARD, &out->guard_us, e));
	TRY(overhead_median(on, level->n_blocks, OVERHEAD_STEP, &out->step_us, e));
	TRY(overhead_ratio(off, on, level->n_blocks, OVERHEAD_THROUGHPUT, &out->throughput, e));
	out->blocks = overhead_blocks_for(&out->throughput, level->n_blocks, half_percent);
	TRY(overhead_ratio(off, on, level->n_blocks, OVERHEAD_CPU, &out->cpu, e));
	return overhead_p95(off, on, level->n_blocks, level->seed, &out->p95, e);
}

/* Whether the throughput is shown to fall by less than 1%: by the bound, and only where the A/A arm, which is the
 * baseline itself, lies within 1% of it. */
static const char *claim(const struct overhead_change *change, const struct overhead_change *aa)
{
	if (!(aa->low > -0.01 && aa->high < 0.01))
		return "not resolved";
	return change->low > -0.01 ? "yes" : change->high < -0.01 ? "no" : "not shown";
}

static void add_change(struct table *t, const struct overhead_change *c)
{
	table_printf(t, "%+.2f%%", 100 * c->value);
	table_printf(t, "%+.2f .. %+.2f", 100 * c->low, 100 * c->high);
}

static void add_row(struct overhead_report *r, const struct overhead_level *level, int arm, const struct arm_summary *s,
	const struct arm_summary *aa)
{
	struct table *t = &r->table;

	table_add(t, str_of(level->variant));
	table_add(t, str_of(level->arms[arm]));
	table_printf(t, "%d", level->concurrency);
	table_printf(t, "%.1f", s->tokens_per_s);
	if (arm == 0) {
		for (int i = 0; i < 6; i++)
			table_add(t, str_of(""));
	} else {
		add_change(t, &s->throughput);
		add_change(t, &s->cpu);
		add_change(t, &s->p95);
	}
	table_printf(t, "%.2f", s->guard_us);
	table_printf(t, "%.0f", s->step_us);
	table_printf(t, "%.3f%%", 100 * s->guard_us / s->step_us);
	table_add(t, str_of(arm > 1 ? claim(&s->throughput, &aa->throughput) : ""));
}

static void append_change(struct buf *out, const char *name, const struct overhead_change *c)
{
	buf_printf(out, ", \"%s\": {", name);
	json_member_double(out, "value", c->value);
	buf_append_text(out, ", ");
	json_member_double(out, "low", c->low);
	buf_append_text(out, ", ");
	json_member_double(out, "high", c->high);
	buf_append_char(out, '}');
}

static void append_row(struct buf *out, const struct overhead_level *level, int arm, const struct arm_summary *s,
	const struct arm_summary *aa)
{
	buf_append_text(out, out->length ? ", {" : "{");
	json_member_text(out, "variant", level->variant);
	buf_append_text(out, ", ");
	json_member_text(out, "arm", level->arms[arm]);
	buf_printf(out,
		", \"concurrency\": %d, \"input\": %d, \"output\": %d, \"blocks\": %d, "
		"\"blocks_for_half_percent\": ",
		level->concurrency, level->input, level->output, level->n_blocks);
	if (s->blocks)
		buf_printf(out, "%d, ", s->blocks);
	else
		buf_append_text(out, "null, ");
	json_member_double(out, "tokens_per_s", s->tokens_per_s);
	append_change(out, "throughput_change", &s->throughput);
	append_change(out, "cpu_time_change", &s->cpu);
	append_change(out, "p95_latency_change", &s->p95);
	append_change(out, "aa_throughput_change", &aa->throughput);
	append_change(out, "aa_cpu_time_change", &aa->cpu);
	append_change(out, "aa_p95_latency_change", &aa->p95);
	buf_append_text(out, ", ");
	json_member_double(out, "guard_us_per_step", s->guard_us);
	buf_append_text(out, ", ");
	json_member_double(out, "step_us", s->step_us);
	buf_append_text(out, ", ");
	json_member_double(out, "guard_share", s->guard_us / s->step_us);
	buf_append_char(out, '}');
}

int overhead_report_level(struct overhead_report *r, const struct overhead_level *level, struct error *e)
{
	struct arm_summary aa;

	TRY(arm_summarize(level, 1, &aa, e));
	for (int arm = 0; arm < level->n_arms; arm++) {
		struct arm_summary s;
		TRY(arm_summarize(level, arm, &s, e));
		add_row(r, level, arm, &s, &aa);
		if (arm == 0)
			continue;
		append_row(&r->rows, level, arm, &s, &aa);
		r->out_of_reach |= s.blocks == 0;
		if (s.blocks > level->n_blocks && s.blocks > r->blocks_advised)
			r->blocks_advised = s.blocks;
	}
	return 0;
}

int overhead_report_text(const struct overhead_report *r, bool color, struct buf *out, struct error *e)
{
	TRY(table_write(&r->table, color, out, e));
	buf_append_text(out,
		"\nChanges in percent, against none: means over the blocks. none (A/A) is none once more: its interval "
		"is\n"
		"what this measurement can resolve. CPU time: of all threads, for a token of the answers. Guard "
		"us/step:\n"
		"the time in the guard's functions, by the clock.\n");
	if (r->out_of_reach)
		buf_printf(out,
			"To bring every change of tokens/s, that of A/A too, within half a percent either way takes "
			"more than\n%d blocks on this machine as it is now.\n",
			OVERHEAD_MOST_BLOCKS);
	else if (r->blocks_advised)
		buf_printf(out,
			"To bring every change of tokens/s, that of A/A too, within half a percent either way takes "
			"about\n--blocks %d on this machine as it is now.\n",
			r->blocks_advised);
	return 0;
}

void overhead_report_json(const struct overhead_report *r, int64_t run_id, struct buf *out)
{
	buf_append_text(out, "{\"schema_version\": 1, ");
	json_member_int(out, "run", run_id);
	buf_append_text(out, ", \"rows\": [");
	buf_append_str(out, buf_str(&r->rows));
	buf_append_text(out, "]}\n");
}
