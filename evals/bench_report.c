#include "evals/bench_report.h"

#include <inttypes.h>
#include <math.h>

#include "engine/base/json_strict.h"

/* ---- life ---- */

static void headers_add(struct table *t, const char *const *headers, int n)
{
	for (int i = 0; i < n; i++)
		table_add(t, str_of(headers[i]));
}

void bench_report_init(struct bench_report *r)
{
	static const char *const levels[] = {"variant", "at once", "tokens/s", "prefill/s", "of floor", "decode/s",
		"of floor", "TTFT ms", "p95", "ITL ms", "p95", "TPOT ms", "E2E ms", "p95", "queued ms", "preempted"};
	static const char *const fits[] = {"KV", "bytes/token", "tokens held", "tokens/request", "requests resident"};

	*r = (struct bench_report){0};
	table_init(&r->levels, "lrrrrrrrrrrrrrrr");
	headers_add(&r->levels, levels, sizeof levels / sizeof *levels);
	table_init(&r->fits, "lrrrr");
	headers_add(&r->fits, fits, sizeof fits / sizeof *fits);
}

void bench_report_free(struct bench_report *r)
{
	table_free(&r->levels);
	table_free(&r->fits);
	buf_free(&r->rows);
	buf_free(&r->residents);
}

/* ---- one phase of a level ---- */

struct phase {
	const char *name;
	const struct load_steps *steps;
	double tokens_per_s, share, seconds;
};

/* Least seconds that the machine's ceilings allow for those steps: arithmetic, or reading weights and cache. first: how
 * many of the tokens generated were an answer's first, which comes out of the prompt's own pass. */
static double floor_seconds(
	const struct bench_report *r, const struct bench_level *l, const struct load_steps *s, int first)
{
	const struct engine_facts *f = l->facts;
	double rows = (double)s->generated_tokens, decoded = fmax(rows - first, 0),
	       context = l->load->input + l->load->output / 2.0;
	double flops = 2.0 *
		((double)f->layer_parameters * ((double)s->prompt_tokens + decoded) +
			(double)f->head_parameters * rows);
	double bytes = (double)s->steps * (double)f->bytes_per_step + decoded * context * (double)f->kv_bytes_per_token;
	return r->on_device ? fmax(flops / r->device.tensor_flops, bytes / r->device.copy)
			    : fmax(flops / r->machine.flops_all, bytes / r->machine.read_all);
}

static int phases_of(
	const struct bench_report *r, const struct bench_level *l, struct load_steps *all, struct phase phases[3])
{
	const struct load_result *x = l->result;
	const struct load_steps *p = &x->prefill, *d = &x->decode;
	int first = l->load->requests, n = 0;

	*all = (struct load_steps){p->steps + d->steps, p->prompt_tokens + d->prompt_tokens,
		p->generated_tokens + d->generated_tokens, x->seconds};
	phases[n++] = (struct phase){"prefill", p, (double)p->prompt_tokens / p->seconds,
		floor_seconds(r, l, p, first) / p->seconds, p->seconds};
	if (d->steps > 0)
		phases[n++] = (struct phase){"decode", d, (double)d->generated_tokens / d->seconds,
			floor_seconds(r, l, d, 0) / d->seconds, d->seconds};
	phases[n++] = (struct phase){"mixed", all, (double)all->generated_tokens / x->seconds,
		floor_seconds(r, l, all, first) / x->seconds, x->seconds};
	return n;
}

static void append_number(struct buf *out, const char *name, double value)
{
	buf_printf(out, ", \"%s\": ", name);
	json_write_double_or_null(value, out);
}

static void append_detail(const struct bench_level *l, const struct phase *p, struct buf *out)
{
	const struct load_result *x = l->result;
	const struct load_steps *s = p->steps;

	buf_printf(out,
		"{\"requests\": %d, \"steps\": %" PRId64 ", \"prompt_tokens\": %" PRIu64
		", \"generated_tokens\": %" PRIu64 ", \"shared_prefix\": %d, \"seed\": %" PRIu64,
		l->load->requests, s->steps, s->prompt_tokens, s->generated_tokens, l->load->shared_prefix,
		l->load->seed);
	if (strcmp(p->name, "mixed") == 0) {
		double input = (double)l->load->requests * l->load->input, output = (double)s->generated_tokens;
		buf_printf(out,
			", \"cached_tokens\": %" PRIu64 ", \"replayed_tokens\": %" PRIu64 ", \"preemptions\": %" PRIu64
			", \"running_peak\": %d",
			x->cached_tokens, x->replayed_tokens, x->preemptions, x->running_peak);
		append_number(out, "queued_longest_ms", x->queued_longest * 1e3);
		append_number(out, "concurrency", x->latency / x->seconds);
		append_number(out, "request_throughput", l->load->requests / x->seconds);
		append_number(out, "input_throughput", input / x->seconds);
		append_number(out, "output_throughput", output / x->seconds);
		append_number(out, "total_throughput", (input + output) / x->seconds);
	}
	buf_append_char(out, '}');
}

enum { LATENCIES = 4 };
static const char *const latency_names[LATENCIES] = {"ttft_ms", "itl_ms", "tpot_ms", "e2e_ms"};

/* The same for each phase of a level: latencies are those of whole requests. */
static void latencies_write(struct load_result *x, struct buf out[LATENCIES])
{
	struct distribution *all[LATENCIES] = {&x->ttft, &x->itl, &x->tpot, &x->e2e};
	for (int i = 0; i < LATENCIES; i++)
		distribution_write(all[i], &out[i]);
}

/* A latency that was not measured is NULL in the store. */
static struct str measured(const struct buf *latency)
{
	return str_is(buf_str(latency), "null") ? (struct str){0} : buf_str(latency);
}

static int phase_store(struct store *s, const struct bench_level *l, const struct phase *p,
	const struct buf latencies[LATENCIES], const struct buf *detail, struct error *e)
{
	struct store_measurement m = {.variant_id = l->variant_id,
		.arm = "none",
		.phase = p->name,
		.concurrency = l->load->concurrency,
		.input_tokens = l->load->input,
		.output_tokens = l->load->output,
		.started = l->started,
		.seconds = p->seconds,
		.tokens_per_s = p->tokens_per_s,
		.ttft_ms = measured(&latencies[0]),
		.itl_ms = measured(&latencies[1]),
		.tpot_ms = measured(&latencies[2]),
		.e2e_ms = measured(&latencies[3]),
		.share_of_floor = p->share,
		.guard_us_per_step = NAN,
		.step_us = p->seconds * 1e6 / (double)p->steps->steps,
		.detail = buf_str(detail)};
	return store_measurement_put(s, &m, e);
}

static void phase_json(struct bench_report *r, const struct bench_level *l, const struct phase *p,
	const struct buf latencies[LATENCIES], const struct buf *detail)
{
	struct buf *out = &r->rows;

	buf_printf(out,
		"%s\n  {\"variant\": \"%s\", \"phase\": \"%s\", \"concurrency\": %d, \"input\": %d, \"output\": %d",
		out->length ? "," : "", l->variant, p->name, l->load->concurrency, l->load->input, l->load->output);
	append_number(out, "tokens_per_s", p->tokens_per_s);
	for (int i = 0; i < LATENCIES; i++)
		buf_printf(out, ", \"%s\": %s", latency_names[i], buf_text(&latencies[i]));
	append_number(out, "share_of_floor", p->share);
	buf_printf(out, ", \"detail\": %s}", buf_text(detail));
}

/* ---- the table ---- */

/* The median, and a high quantile where one is wanted. */
static void add_latency(struct table *t, struct distribution *d, bool p95)
{
	for (int i = 0; i <= p95; i++) {
		if (d->count > 0)
			table_printf(t, "%.1f", distribution_quantile(d, i ? 0.95 : 0.5));
		else
			table_add(t, str_of("-"));
	}
}

static void level_line(struct bench_report *r, const struct bench_level *l, const struct phase *phases, int n)
{
	struct table *t = &r->levels;
	struct load_result *x = l->result;

	table_add(t, str_of(l->variant));
	table_printf(t, "%d", l->load->concurrency);
	table_printf(t, "%.1f", phases[n - 1].tokens_per_s);
	for (int i = 0; i < 2; i++) {
		bool there = i < n - 1;
		if (there)
			table_printf(t, "%.1f", phases[i].tokens_per_s);
		else
			table_add(t, str_of("-"));
		if (there)
			table_printf(t, "%.0f%%", phases[i].share * 100);
		else
			table_add(t, str_of("-"));
	}
	add_latency(t, &x->ttft, true);
	add_latency(t, &x->itl, true);
	add_latency(t, &x->tpot, false);
	add_latency(t, &x->e2e, true);
	table_printf(t, "%.1f", x->queued_longest * 1e3);
	table_printf(t, "%" PRIu64, x->preemptions);
}

int bench_report_level(struct bench_report *r, struct store *s, const struct bench_level *l, struct error *e)
{
	struct load_steps all;
	struct phase phases[3];
	struct buf latencies[LATENCIES] = {0};
	int n = phases_of(r, l, &all, phases), status = 0;

	latencies_write(l->result, latencies);
	for (int i = 0; i < LATENCIES && status == 0; i++)
		status = buf_check(&latencies[i], e);
	for (int i = 0; i < n && status == 0; i++) {
		struct buf detail = {0};
		append_detail(l, &phases[i], &detail);
		status = buf_check(&detail, e);
		if (status == 0)
			status = phase_store(s, l, &phases[i], latencies, &detail, e);
		phase_json(r, l, &phases[i], latencies, &detail);
		buf_free(&detail);
	}
	level_line(r, l, phases, n);
	for (int i = 0; i < LATENCIES; i++)
		buf_free(&latencies[i]);
	return status;
}

/* ---- residents ---- */

int bench_report_residents(struct bench_report *r, struct store *s, const struct bench_residents *x, struct error *e)
{
	const struct engine_facts *f = x->facts;
	uint64_t memory = (f->kv_tokens + (uint64_t)f->page_size) * f->kv_bytes_per_token; /* page 0 too */
	struct buf detail = {0};

	buf_printf(&detail,
		"{\"kv\": \"%s\", \"kv_memory\": %" PRIu64 ", \"kv_bytes_per_token\": %" PRIu64
		", \"kv_tokens\": %" PRIu64 ", \"page_size\": %d, \"tokens_per_request\": %d, \"residents\": %d}",
		x->kv, memory, f->kv_bytes_per_token, f->kv_tokens, f->page_size, x->input + x->output, x->residents);
	buf_printf(&r->residents, "%s\n  %s", r->residents.length ? "," : "", buf_text(&detail));
	table_add(&r->fits, str_of(x->kv));
	table_printf(&r->fits, "%" PRIu64, f->kv_bytes_per_token);
	table_printf(&r->fits, "%" PRIu64, f->kv_tokens);
	table_printf(&r->fits, "%d", x->input + x->output);
	table_printf(&r->fits, "%d", x->residents);
	r->any_residents = true;
	struct store_measurement m = {.variant_id = x->variant_id,
		.arm = "none",
		.phase = "residents",
		.concurrency = x->residents,
		.input_tokens = x->input,
		.output_tokens = x->output,
		.started = x->started,
		.seconds = x->seconds,
		.tokens_per_s = NAN,
		.share_of_floor = NAN,
		.guard_us_per_step = NAN,
		.step_us = NAN,
		.detail = buf_str(&detail)};
	int status = buf_check(&detail, e);
	if (status == 0)
		status = store_measurement_put(s, &m, e);
	buf_free(&detail);
	return status;
}

/* ---- all of it ---- */

static void machine_text(const struct engine_machine *m, struct buf *out)
{
	buf_printf(out,
		"%s, %s kernels: reads %.1f GB/s with one thread, %.1f with %d; %.1f GFLOP/s with one, %.1f with %d\n",
		m->cpu, m->isa, m->read_one * 1e-9, m->read_all * 1e-9, m->threads, m->flops_one * 1e-9,
		m->flops_all * 1e-9, m->threads);
}

static void machine_json(const struct engine_machine *m, struct buf *out)
{
	buf_append_text(out, "{\"cpu\": ");
	json_write_string(str_of(m->cpu), false, out);
	buf_printf(out, ", \"isa\": \"%s\", \"threads\": %d", m->isa, m->threads);
	append_number(out, "read_bytes_per_s_one", m->read_one);
	append_number(out, "read_bytes_per_s", m->read_all);
	append_number(out, "flops_one", m->flops_one);
	append_number(out, "flops", m->flops_all);
	buf_append_char(out, '}');
}

static void device_text(const struct cuda_machine *m, struct buf *out)
{
	buf_printf(out,
		"%s, compute capability %d.%d, %d multiprocessors, %.1f GiB: copies %.1f GB/s (read and written); "
		"%.2f TFLOP/s of bf16 products\n",
		m->name, m->major, m->minor, m->multiprocessors, (double)m->memory / (1 << 30), m->copy * 1e-9,
		m->tensor_flops * 1e-12);
}

static void device_json(const struct cuda_machine *m, struct buf *out)
{
	buf_append_text(out, "{\"device\": ");
	json_write_string(str_of(m->name), false, out);
	buf_printf(out, ", \"compute_capability\": \"%d.%d\", \"multiprocessors\": %d, \"memory_bytes\": %zu", m->major,
		m->minor, m->multiprocessors, m->memory);
	append_number(out, "copy_bytes_per_s", m->copy);
	append_number(out, "tensor_flops", m->tensor_flops);
	buf_append_char(out, '}');
}

int bench_report_text(const struct bench_report *r, int64_t run_id, bool color, struct buf *out, struct error *e)
{
	if (r->on_device)
		device_text(&r->device, out);
	else
		machine_text(&r->machine, out);
	if (run_id == 0)
		return 0;
	buf_append_char(out, '\n');
	TRY(table_write(&r->levels, color, out, e));
	if (!r->any_residents)
		return 0;
	buf_append_char(out, '\n');
	return table_write(&r->fits, color, out, e);
}

void bench_report_json(const struct bench_report *r, int64_t run_id, struct buf *out)
{
	buf_append_text(out, "{\"schema_version\": 1, \"machine\": ");
	if (r->on_device)
		device_json(&r->device, out);
	else
		machine_json(&r->machine, out);
	if (run_id > 0)
		buf_printf(out, ", \"run\": %" PRId64, run_id);
	buf_printf(out, ", \"rows\": [%s], \"residents\": [%s]}\n", buf_text(&r->rows), buf_text(&r->residents));
}
