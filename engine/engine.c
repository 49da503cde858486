#include "engine/engine.h"

#include <stdlib.h>

#include "engine/base/thread_pool.h"
#include "engine/cpu/cpu_backend.h"
#include "engine/cpu/machine.h"
#include "engine/model/checkpoint.h"
#include "engine/model/forward.h"
#include "engine/sched/scheduler.h"
#include "engine/text_face.h"

static const struct {
	int page_size, max_batch_tokens, max_requests;
	uint64_t kv_memory;
} defaults = {16, 512, 32, UINT64_C(1) << 30};

enum { MOST_BATCH_TOKENS = 65536, MOST_REQUESTS = 4096, MOST_THREADS = 1024 };

struct engine {
	struct backend *backend;
	struct comm *comm;
	struct checkpoint *checkpoint;
	struct engine_text *text; /* NULL: no_text says why */
	struct error no_text;
	struct model model;
	struct kv_pool pool;
	struct scheduler scheduler;
	struct engine_facts facts;
	bool scheduler_ready;
};

const char *engine_finish_name(enum engine_finish finish)
{
	static const char *const names[] = {"stop", "length", "abort", "error"};
	return names[finish];
}

static int or_default(int value, int fallback)
{
	return value > 0 ? value : fallback;
}

static enum kv_format kv_format_find(const char *name)
{
	enum kv_format f = KV_F32;
	while (f < KV_E4M3 && strcmp(kv_format_name(f), name) != 0)
		f++;
	return f;
}

/* Scales of an fp8 cache: the checkpoint's, else 1 as the peers do. */
static void kv_scales_set(struct engine *engine)
{
	const struct model_weights *w = &engine->model.weights;
	struct engine_facts *facts = &engine->facts;

	facts->kv_scale_min = facts->kv_scale_max = 1.0f;
	facts->kv_scale_source = w->has_kv_scales && engine->pool.format == KV_E4M3 ? "checkpoint" : "one";
	if (engine->pool.format != KV_E4M3)
		return;
	for (int l = 0; l < w->n_layers; l++) {
		const struct layer_weights *layer = &w->layers[l];
		kv_pool_set_scales(&engine->pool, l, layer->k_scale, layer->v_scale);
		const float both[] = {layer->k_scale, layer->v_scale};
		for (int i = 0; i < 2; i++) {
			facts->kv_scale_min = l == 0 && i == 0  ? both[i]
				: both[i] < facts->kv_scale_min ? both[i]
								: facts->kv_scale_min;
			facts->kv_scale_max = l == 0 && i == 0  ? both[i]
				: both[i] > facts->kv_scale_max ? both[i]
								: facts->kv_scale_max;
		}
	}
}

static int model_open(struct engine *engine, const struct engine_config *config, struct error *e)
{
	const struct weight_scheme *scheme = weight_scheme_find(config->variant.decode.weights);
	const struct model_config *c;

	TRY(checkpoint_open(config->model, &engine->checkpoint, e));
	c = checkpoint_config(engine->checkpoint);
	TRY(engine_text_open_if_any(config->model, &engine->text, &engine->no_text, e));
	TRY(model_init(&engine->model, c, engine->backend, engine->comm, engine->facts.max_batch_tokens, e));
	TRY(model_weights_load(&engine->model.weights, engine->checkpoint, scheme, engine->backend, config->progress,
		config->progress_context, e));
	TRY(kv_pool_init(&engine->pool, engine->backend, c, kv_format_find(config->variant.decode.kv),
		engine->facts.page_size, config->kv_memory ? config->kv_memory : defaults.kv_memory,
		config->guard ? config->guard : &kv_guard_none, config->faults ? config->faults : &fault_hook_none, e));
	kv_scales_set(engine);
	return 0;
}

static void step_costs(struct engine *engine)
{
	const struct model_weights *w = &engine->model.weights;
	struct engine_facts *f = &engine->facts;

	f->head_parameters = (uint64_t)w->head.rows * (uint64_t)w->head.columns;
	f->bytes_per_step = w->head.bytes;
	for (int l = 0; l < w->n_layers; l++) {
		const struct weight *all[] = {
			&w->layers[l].qkv, &w->layers[l].o, &w->layers[l].gate_up, &w->layers[l].down};
		for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
			f->layer_parameters += (uint64_t)all[i]->rows * (uint64_t)all[i]->columns;
			f->bytes_per_step += all[i]->bytes;
		}
	}
}

static void facts_fill(struct engine *engine)
{
	struct engine_facts *f = &engine->facts;
	const struct model_config *c = checkpoint_config(engine->checkpoint);

	f->family = c->family;
	f->vocab_size = c->vocab_size;
	f->max_positions = c->max_positions;
	f->n_layers = c->n_layers;
	f->n_pages = engine->pool.geometry.n_pages;
	f->parameters = engine->model.weights.parameters;
	f->weights_bytes = engine->model.weights.bytes;
	f->head_untied = engine->model.weights.head_untied;
	step_costs(engine);
	f->kv_bytes_per_token = kv_bytes_per_token(c, engine->pool.format);
	f->kv_tokens = (uint64_t)kv_pool_usable(&engine->pool) * (uint64_t)f->page_size;
}

int engine_context_length(const char *model, int *positions, struct error *e)
{
	struct checkpoint *checkpoint;

	TRY(checkpoint_open(model, &checkpoint, e));
	*positions = checkpoint_config(checkpoint)->max_positions;
	checkpoint_close(checkpoint);
	return 0;
}

static int options_check(struct engine *engine, const struct engine_config *config, struct error *e)
{
	struct engine_facts *f = &engine->facts;

	if (config->variant.split)
		return error_set(e, ERR_USAGE,
			"variant '%s': prefill and decode in different formats need the hand-over between "
			"instances, which this version does not have; give one weights/KV",
			config->variant.name);
	f->page_size = or_default(config->page_size, defaults.page_size);
	f->max_batch_tokens = or_default(config->max_batch_tokens, defaults.max_batch_tokens);
	f->chunk = or_default(config->chunk, f->max_batch_tokens);
	f->max_requests = or_default(config->max_requests, defaults.max_requests);
	if (f->max_requests > f->max_batch_tokens)
		f->max_requests = f->max_batch_tokens; /* each running request has a token in every step */
	f->threads = or_default(config->threads, thread_count_default());
	if (f->max_batch_tokens > MOST_BATCH_TOKENS || f->max_requests > MOST_REQUESTS || f->threads > MOST_THREADS)
		return error_set(e, ERR_USAGE,
			"%d tokens and %d requests in a batch, %d threads: expected at most %d, %d and %d",
			f->max_batch_tokens, f->max_requests, f->threads, MOST_BATCH_TOKENS, MOST_REQUESTS,
			MOST_THREADS);
	return 0;
}

static int open_all(struct engine *engine, const struct engine_config *config, struct error *e)
{
	struct engine_facts *f = &engine->facts;
	double started = clock_seconds();

	engine->backend = config->backend;
	TRY(options_check(engine, config, e));
	engine->comm = config->comm ? config->comm : comm_self();
	if (!engine->backend) {
		TRY(cpu_backend_new(f->threads, NULL, &engine->backend, e));
		f->isa = cpu_backend_isa(engine->backend);
	} else {
		f->isa = "";
	}
	f->backend = engine->backend->ops->name;
	f->numerics = engine->backend->ops->numerics;
	TRY(model_open(engine, config, e));
	facts_fill(engine);

	struct scheduler_limits limits = {f->max_batch_tokens, f->chunk, f->max_requests, f->max_positions};
	engine->scheduler_ready = true;
	TRY(scheduler_init(
		&engine->scheduler, &engine->model, &engine->pool, engine_text_tokenizer(engine->text), &limits, e));
	f->load_seconds = clock_seconds() - started;
	return 0;
}

int engine_open(const struct engine_config *config, struct engine **out, struct error *e)
{
	struct engine *engine = mem_calloc(1, sizeof *engine, e);
	*out = NULL;
	if (!engine)
		return ERR_MEMORY;
	int status = open_all(engine, config, e);
	if (status < 0) {
		engine_close(engine);
		return status;
	}
	*out = engine;
	return 0;
}

void engine_close(struct engine *engine)
{
	if (!engine)
		return;
	if (engine->scheduler_ready)
		scheduler_free(&engine->scheduler);
	if (engine->pool.backend)
		kv_pool_free(&engine->pool);
	model_free(&engine->model);
	engine_text_close(engine->text);
	checkpoint_close(engine->checkpoint);
	if (engine->backend)
		engine->backend->ops->destroy(engine->backend);
	free(engine);
}

const struct engine_facts *engine_facts(const struct engine *engine)
{
	return &engine->facts;
}

const struct engine_text *engine_own_text(const struct engine *engine, struct error *why)
{
	*why = engine->no_text;
	return engine->text;
}

int engine_machine(int threads, struct engine_machine *out, struct error *e)
{
	return machine_measure(threads, out, e);
}

int engine_fingerprint(const struct engine *engine, char out[65], struct error *e)
{
	return checkpoint_fingerprint(engine->checkpoint, out, e);
}

void engine_stats(const struct engine *engine, struct engine_stats *out)
{
	*out = engine->scheduler.stats;
}

int engine_submit(struct engine *engine, const struct engine_request *request, uint64_t *id, struct error *e)
{
	return scheduler_submit(&engine->scheduler, request, id, e);
}

void engine_abort(struct engine *engine, uint64_t id)
{
	scheduler_abort(&engine->scheduler, id);
}

int engine_step(struct engine *engine, bool *idle, struct error *e)
{
	return scheduler_step(&engine->scheduler, idle, e);
}

struct engine_result *engine_poll(struct engine *engine)
{
	struct request *r = scheduler_take_done(&engine->scheduler);
	return r ? request_finish(r, engine_text_tokenizer(engine->text), NULL) : NULL;
}
