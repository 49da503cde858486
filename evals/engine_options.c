#include "evals/engine_options.h"

#include "engine/base/json_strict.h"

int engine_options(
	const struct options *o, const char *model, const char *variant, struct engine_config *out, struct error *e)
{
	*out = (struct engine_config){.model = model,
		.threads = o->threads,
		.ranks = o->ranks,
		.page_size = o->page_size,
		.kv_memory = o->kv_memory,
		.max_batch_tokens = o->max_batch_tokens,
		.chunk = o->chunk,
		.max_requests = o->max_requests,
		.no_prefix_cache = o->no_prefix_cache,
		.pad_decode = o->pad_decode,
		.random_weights = o->random_weights != NULL,
		.weights_seed = o->has_seed ? o->seed : 0};
	return variant_parse(variant ? variant : "bf16/bf16", &out->variant, e);
}

void engine_options_json(const struct options *o, const struct engine_facts *f, struct buf *out)
{
	buf_printf(out, "{\"backend\": \"%s\", \"isa\": \"%s\", \"family\": ", f->backend, f->isa);
	json_write_string(str_of(f->family), false, out);
	buf_printf(out,
		", \"threads\": %d, \"tp\": %d, \"page_size\": %d, \"max_batch_tokens\": %d, \"chunk\": %d, "
		"\"max_requests\": %d, "
		"\"prefix_cache\": %s, \"pad_decode\": %s, \"deadline\": ",
		f->threads, f->ranks, f->page_size, f->max_batch_tokens, f->chunk, f->max_requests,
		o->no_prefix_cache ? "false" : "true", o->pad_decode ? "true" : "false");
	if (o->deadline > 0)
		json_write_double(o->deadline, out);
	else
		buf_append_text(out, "null");
	buf_printf(out, ", \"guard\": \"%s\", \"guard_mode\": \"%s\"}", o->guard ? o->guard : "none",
		o->guard_mode ? o->guard_mode : "enforce");
}
