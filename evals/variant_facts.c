#include "evals/variant_facts.h"

#include <inttypes.h>

#include "engine/base/json_strict.h"

static const struct counter {
	const char *name;
	size_t member;
} counters[] = {
	{"computed", offsetof(struct variant_counts, computed)},
	{"cached", offsetof(struct variant_counts, cached)},
	{"generated", offsetof(struct variant_counts, generated)},
	{"replayed", offsetof(struct variant_counts, replayed)},
	{"preemptions", offsetof(struct variant_counts, preemptions)},
	{"pages_used_peak", offsetof(struct variant_counts, pages_used_peak)},
	{"evicted", offsetof(struct variant_counts, evicted)},
	{"copied", offsetof(struct variant_counts, copied)},
	{"transferred", offsetof(struct variant_counts, transferred)},
};
enum { N_COUNTERS = sizeof counters / sizeof *counters };

static uint64_t *counter_of(struct variant_counts *c, const struct counter *counter)
{
	return (uint64_t *)(void *)((char *)c + counter->member);
}

/* ---- reading ---- */

struct wanted {
	const char *name;
	struct variant_counts *counts;
};

static uint64_t read_count(const struct json *object, const char *name)
{
	int64_t value = 0;
	return json_int64(json_get(object, name), &value) && value > 0 ? (uint64_t)value : 0;
}

static int keep_counts(void *context, const struct store_variant *v, struct error *e)
{
	struct wanted *w = context;
	struct json_document *document = NULL;

	if (strcmp(v->name, w->name) != 0)
		return 0;
	TRY(json_parse(v->facts, "variant.facts", JSON_LAST_KEY_WINS, &document, e));
	const struct json *facts = json_root(document), *kv = json_get(facts, "kv");
	w->counts->steps = read_count(facts, "steps");
	w->counts->kv_saturated = read_count(facts, "kv_saturated");
	for (int i = 0; i < N_COUNTERS; i++)
		*counter_of(w->counts, &counters[i]) = read_count(kv, counters[i].name);
	json_free(document);
	return 0;
}

int variant_counts_stored(
	struct store *s, int64_t run_id, const char *name, struct variant_counts *out, struct error *e)
{
	struct wanted wanted = {name, out};

	*out = (struct variant_counts){0};
	return store_variants_each(s, run_id, keep_counts, &wanted, e);
}

/* ---- writing ---- */

static struct variant_counts counts_now(const struct engine *engine, const struct variant_counts *before)
{
	struct engine_stats stats;
	struct variant_counts c = *before;

	engine_stats(engine, &stats);
	uint64_t peak = (uint64_t)stats.pages_used_peak;
	c.steps += stats.steps;
	c.kv_saturated += stats.kv_saturated;
	c.computed += stats.prompt_tokens;
	c.cached += stats.cached_tokens;
	c.generated += stats.generated_tokens;
	c.replayed += stats.replayed_tokens;
	c.preemptions += stats.preemptions;
	c.pages_used_peak = peak > c.pages_used_peak ? peak : c.pages_used_peak;
	c.evicted += stats.pages_evicted;
	c.copied += stats.pages_copied;
	c.transferred += stats.pages_transferred;
	return c;
}

static void append_facts(
	const struct engine_facts *f, struct variant_counts *c, const struct guard *guard, struct buf *out)
{
	buf_printf(out,
		"{\"parameters\": %" PRIu64 ", \"kv_pages\": %d, \"page_size\": %d, \"kv_scale_source\": \"%s\", "
		"\"kv_scale_min\": ",
		f->parameters, f->n_pages, f->page_size, f->kv_scale_source);
	json_write_float(f->kv_scale_min, out);
	buf_append_text(out, ", \"kv_scale_max\": ");
	json_write_float(f->kv_scale_max, out);
	buf_printf(
		out, ", \"kv_saturated\": %" PRIu64 ", \"steps\": %" PRIu64 ", \"kv\": {", c->kv_saturated, c->steps);
	for (int i = 0; i < N_COUNTERS; i++)
		buf_printf(out, "%s\"%s\": %" PRIu64, i ? ", " : "", counters[i].name, *counter_of(c, &counters[i]));
	buf_append_char(out, '}');
	if (guard) {
		buf_append_text(out, ", \"guard\": ");
		guard_summary(guard, out);
	}
	buf_append_char(out, '}');
}

int variant_facts_put(struct store *s, struct engine *engine, const char *name, const struct variant_counts *before,
	const struct guard *guard, int64_t *variant_id, struct error *e)
{
	const struct engine_facts *f = engine_facts(engine);
	struct variant_counts counts = counts_now(engine, before);
	struct buf facts = {0};

	append_facts(f, &counts, guard, &facts);
	struct store_variant row = {.name = name,
		.weights_bytes = (int64_t)f->weights_bytes,
		.kv_bytes_per_token = (int64_t)f->kv_bytes_per_token,
		.kv_tokens = (int64_t)f->kv_tokens,
		.facts = buf_str(&facts)};
	int status = buf_check(&facts, e);
	if (status == 0)
		status = store_variant_add(s, &row, variant_id, e);
	buf_free(&facts);
	return status;
}
