#include "evals/engine_options.h"

#include <string.h>

#include "cuda/cuda_backend.h"
#include "engine/base/json_strict.h"

enum { MOST_RANKS = 8 }; /* that --tp takes */

static bool on_cuda(const struct options *o)
{
	return o->backend && strcmp(o->backend, "cuda") == 0;
}

/* CUDA graphs are made for padded batches. */
static bool pads(const struct options *o)
{
	return o->pad_decode || on_cuda(o);
}

int engine_backend_check(const struct options *o, struct error *e)
{
	if (on_cuda(o) || (!o->device && !o->gemm))
		return 0;
	return error_set(e, ERR_USAGE, "--%s says something of CUDA: expected --backend cuda beside it",
		o->gemm ? "gemm" : "device");
}

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
		.pad_decode = pads(o),
		.random_weights = o->random_weights != NULL,
		.weights_seed = o->has_seed ? o->seed : 0};
	TRY(engine_backend_check(o, e));
	return variant_parse(variant ? variant : "bf16/bf16", &out->variant, e);
}

int engine_options_open(
	const struct options *o, const struct engine_config *config, struct engine **out, struct error *e)
{
	struct cuda_options cuda = {.device = o->device, .library = o->gemm && strcmp(o->gemm, "library") == 0};
	struct backend *backends[MOST_RANKS];
	struct comm *comms[MOST_RANKS];
	struct engine_config chosen = *config;
	int status = 0;

	*out = NULL;
	if (!on_cuda(o))
		return engine_open(config, out, e);
	if (config->ranks > 1) {
		status = cuda_ranks_new(&cuda, config->ranks, backends, comms, e);
		chosen.rank_backends = backends;
		chosen.rank_comms = comms;
	} else {
		status = cuda_backend_new(&cuda, &chosen.backend, e);
	}
	return status < 0 ? error_prefix(e, "--backend cuda") : engine_open(&chosen, out, e);
}

void engine_options_print(const struct options *o, struct buf *out)
{
	int last = o->device + (o->ranks > 1 ? o->ranks - 1 : 0);

	if (on_cuda(o) && last > o->device)
		buf_printf(out, "backend   cuda, devices %d to %d\n", o->device, last);
	else if (on_cuda(o))
		buf_printf(out, "backend   cuda, device %d\n", o->device);
	if (o->ranks > 1)
		buf_printf(out, "ranks     %d\n", o->ranks);
}

void engine_options_members(const struct options *o, struct buf *out)
{
	if (on_cuda(o))
		buf_printf(out, ", \"backend\": \"cuda\", \"device\": %d", o->device);
	if (o->ranks > 1)
		buf_printf(out, ", \"tp\": %d", o->ranks);
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
		o->no_prefix_cache ? "false" : "true", pads(o) ? "true" : "false");
	if (o->deadline > 0)
		json_write_double(o->deadline, out);
	else
		buf_append_text(out, "null");
	buf_printf(out, ", \"guard\": \"%s\", \"guard_mode\": \"%s\"}", o->guard ? o->guard : "none",
		o->guard_mode ? o->guard_mode : "enforce");
}
