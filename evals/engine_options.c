#include "evals/engine_options.h"

#include <string.h>

int engine_options(
	const struct options *o, const char *model, const char *variant, struct engine_config *out, struct error *e)
{
	*out = (struct engine_config){.model = model,
		.threads = o->threads,
		.page_size = o->page_size,
		.kv_memory = o->kv_memory,
		.max_batch_tokens = o->max_batch_tokens,
		.chunk = o->chunk,
		.max_requests = o->max_requests};
	if (o->guard && strcmp(o->guard, "none") != 0)
		return error_set(e, ERR_USAGE, "--guard %s: this version has the level 'none' only", o->guard);
	TRY(variant_parse(variant ? variant : "bf16/bf16", &out->variant, e));
	if (out->variant.split)
		return error_set(e, ERR_USAGE,
			"--variant %s: prefill and decode in different formats need the hand-over between instances, "
			"which "
			"this version does not have; give one weights/KV",
			out->variant.name);
	return 0;
}
