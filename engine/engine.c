#include "engine/engine.h"

#include <math.h>
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
	struct ranks ranks;
	struct checkpoint *checkpoint;
	struct engine_text *text; /* NULL: no_text says why */
	struct error no_text;
	struct model
		*models[2]; /* [ranks] of a split variant: for prompts, and for what follows where its weights differ */
	struct kv_pool pools[2];
	int n_parts; /* instances: 1, or 2 of a split variant */
	struct scheduler scheduler;
	struct engine_facts facts;
	bool scheduler_ready;
};

const char *engine_finish_name(enum engine_finish finish)
{
	static const char *const names[] = {"stop", "length", "abort", "error", "timeout"};
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

/* The model that an instance runs, [ranks]: with the same weights, both run one. */
static struct model *part_models(struct engine *engine, int part)
{
	return engine->models[part < engine->n_parts - 1 || engine->models[1] == NULL ? 0 : part];
}

static const struct variant_phase *part_phase(const struct engine *engine, const struct variant *v, int part)
{
	return part < engine->n_parts - 1 ? &v->prefill : &v->decode;
}

static void kv_scale_note(struct engine_facts *facts, float scale, bool first)
{
	if (first || scale < facts->kv_scale_min)
		facts->kv_scale_min = scale;
	if (first || scale > facts->kv_scale_max)
		facts->kv_scale_max = scale;
}

/* Scales of an fp8 cache: the checkpoint's, else 1 as the peers do. */
static void kv_scales_set(struct engine *engine, int part, const float *given)
{
	const struct model_weights *w = &part_models(engine, part)->weights;
	struct kv_pool *pool = &engine->pools[part];
	struct engine_facts *facts = &engine->facts;

	facts->kv_scale_min = facts->kv_scale_max = 1.0f;
	if (pool->format != KV_E4M3) {
		facts->kv_scale_source = "one";
		return;
	}
	facts->kv_scale_source = given ? "given" : w->has_kv_scales ? "checkpoint" : "one";
	for (int l = 0; l < w->n_layers; l++) {
		const struct layer_weights *layer = &w->layers[l];
		float k = given ? given[2 * l] : layer->k_scale, v = given ? given[2 * l + 1] : layer->v_scale;
		kv_pool_set_scales(pool, l, k, v);
		kv_scale_note(facts, k, l == 0);
		kv_scale_note(facts, v, false);
	}
}

static int models_load(struct engine *engine, const struct engine_config *config, const char *weights,
	struct thread_pool *threads, struct model **out, struct error *e)
{
	const struct model_config *c = checkpoint_config(engine->checkpoint);
	const struct weight_scheme *scheme = weight_scheme_find(weights);
	struct ranks *g = &engine->ranks;
	struct weights_ranks all = {.n = g->size, .threads = threads};

	TRY(model_ranks_check(c, scheme, g->size, e));
	*out = mem_calloc((size_t)g->size, sizeof **out, e);
	if (!*out)
		return ERR_MEMORY;
	for (int r = 0; r < g->size; r++) {
		TRY(model_init(&(*out)[r], c, g->backends[r], g->comms[r], engine->facts.max_batch_tokens, e));
		all.weights[r] = &(*out)[r].weights;
		all.backends[r] = g->backends[r];
	}
	return model_weights_load(&all, engine->checkpoint, scheme, config->progress, config->progress_context, e);
}

static int pool_open(struct engine *engine, const struct engine_config *config, int part, struct error *e)
{
	TRY(kv_pool_init(&engine->pools[part], engine->ranks.backends, engine->ranks.size,
		checkpoint_config(engine->checkpoint), kv_format_find(part_phase(engine, &config->variant, part)->kv),
		engine->facts.page_size, config->kv_memory ? config->kv_memory : defaults.kv_memory,
		config->guard ? config->guard : &kv_guard_none, config->faults ? config->faults : &fault_hook_none, e));
	kv_scales_set(engine, part, config->kv_scales);
	return 0;
}

static int pools_open(struct engine *engine, const struct engine_config *config, struct error *e)
{
	for (int part = 0; part < engine->n_parts; part++)
		TRY(pool_open(engine, config, part, e));
	return 0;
}

/* All threads work on the weights; while a model runs they are the backends' own. */
static int weights_open(struct engine *engine, const struct engine_config *config, struct error *e)
{
	const struct variant *v = &config->variant;
	struct thread_pool *threads = thread_pool_new(engine->facts.threads, e);

	if (!threads)
		return e->code;
	checkpoint_use_threads(engine->checkpoint, threads);
	int status = models_load(engine, config, part_phase(engine, v, 0)->weights, threads, &engine->models[0], e);
	if (status == 0 && v->split && strcmp(v->prefill.weights, v->decode.weights) != 0)
		status = models_load(engine, config, v->decode.weights, threads, &engine->models[1], e);
	checkpoint_use_threads(engine->checkpoint, NULL);
	thread_pool_delete(threads);
	return status;
}

static int model_open(struct engine *engine, const struct engine_config *config, struct error *e)
{
	const struct variant *v = &config->variant;

	engine->n_parts = v->split ? 2 : 1;
	if (config->random_weights) {
		TRY(checkpoint_random(config->model, config->weights_seed, &engine->checkpoint, e));
		error_set(&engine->no_text, ERR_MISSING, "%s: random weights have no tokenizer", config->model);
	} else {
		TRY(checkpoint_open(config->model, &engine->checkpoint, e));
		TRY(engine_text_open_if_any(config->model, &engine->text, &engine->no_text, e));
	}
	return weights_open(engine, config, e);
}

/* What one step reads and computes of one rank's weights. */
static void rank_costs(const struct model_weights *w, struct engine_facts *f)
{
	f->bytes_per_step += w->head.bytes;
	for (int l = 0; l < w->n_layers; l++) {
		const struct weight *all[] = {
			&w->layers[l].qkv, &w->layers[l].o, &w->layers[l].gate_up, &w->layers[l].down};
		for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
			f->layer_parameters += (uint64_t)all[i]->rows * (uint64_t)all[i]->columns;
			f->bytes_per_step += all[i]->bytes;
		}
	}
}

static void step_costs(struct engine *engine)
{
	const struct model *models = part_models(engine, engine->n_parts - 1);
	struct engine_facts *f = &engine->facts;

	f->head_parameters = (uint64_t)models->config->vocab_size * (uint64_t)models->config->hidden_size;
	for (int r = 0; r < engine->ranks.size; r++)
		rank_costs(&models[r].weights, f);
}

static void facts_fill(struct engine *engine)
{
	struct engine_facts *f = &engine->facts;
	const struct model_config *c = checkpoint_config(engine->checkpoint);
	const struct kv_pool *prompts = &engine->pools[0], *answers = &engine->pools[engine->n_parts - 1];

	f->family = c->family;
	f->vocab_size = c->vocab_size;
	f->max_positions = c->max_positions;
	f->n_layers = c->n_layers;
	f->n_pages = answers->geometry.n_pages;
	f->parameters = engine->models[0]->weights.parameters;
	f->weights_bytes = engine->models[0]->weights.bytes;
	if (engine->models[1])
		f->weights_bytes += engine->models[1]->weights.bytes;
	f->head_untied = engine->models[0]->weights.head_untied;
	step_costs(engine);
	f->kv_bytes_per_token = kv_bytes_per_token(c, answers->format);
	f->kv_tokens = (uint64_t)kv_pool_usable(answers) * (uint64_t)f->page_size;
	f->prefill_kv_bytes_per_token = kv_bytes_per_token(c, prompts->format);
	f->prefill_kv_tokens = (uint64_t)kv_pool_usable(prompts) * (uint64_t)f->page_size;
}

int engine_context_length(const char *model, int *positions, struct error *e)
{
	struct checkpoint *checkpoint;

	TRY(checkpoint_open(model, &checkpoint, e));
	*positions = checkpoint_config(checkpoint)->max_positions;
	checkpoint_close(checkpoint);
	return 0;
}

int engine_ranks_check(const struct engine_config *config, struct error *e)
{
	const struct variant *v = &config->variant;
	int ranks = or_default(config->ranks, 1);
	struct checkpoint *checkpoint;

	if (ranks == 1)
		return 0;
	TRY(checkpoint_open(config->model, &checkpoint, e));
	const struct model_config *c = checkpoint_config(checkpoint);
	int status = model_ranks_check(c, weight_scheme_find(v->prefill.weights), ranks, e);
	if (status == 0)
		status = model_ranks_check(c, weight_scheme_find(v->decode.weights), ranks, e);
	checkpoint_close(checkpoint);
	return status;
}

static int options_check(struct engine *engine, const struct engine_config *config, struct error *e)
{
	struct engine_facts *f = &engine->facts;

	f->page_size = or_default(config->page_size, defaults.page_size);
	f->max_batch_tokens = or_default(config->max_batch_tokens, defaults.max_batch_tokens);
	f->chunk = or_default(config->chunk, f->max_batch_tokens);
	f->max_requests = or_default(config->max_requests, defaults.max_requests);
	if (f->max_requests > f->max_batch_tokens)
		f->max_requests = f->max_batch_tokens; /* each running request has a token in every step */
	f->threads = or_default(config->threads, thread_count_default());
	f->ranks = or_default(config->ranks, 1);
	if (f->ranks > COMM_MAX_RANKS || (f->ranks > 1 && config->backend))
		return error_set(e, ERR_USAGE, "%d ranks: expected at most %d, %d where a backend is handed in for one",
			f->ranks, COMM_MAX_RANKS, 1);
	if (f->max_batch_tokens > MOST_BATCH_TOKENS || f->max_requests > MOST_REQUESTS || f->threads > MOST_THREADS)
		return error_set(e, ERR_USAGE,
			"%d tokens and %d requests in a batch, %d threads: expected at most %d, %d and %d",
			f->max_batch_tokens, f->max_requests, f->threads, MOST_BATCH_TOKENS, MOST_REQUESTS,
			MOST_THREADS);
	return 0;
}

/* Whose values an instance's pages hold: those of a prompt were made where it was computed, and converted since. */
static int writer_name(const struct variant *v, int part, char *out, size_t size)
{
	const char *weights = v->split ? v->prefill.weights : v->decode.weights;
	const char *kv = v->split ? v->prefill.kv : v->decode.kv;

	return part == 0 ? snprintf(out, size, "%s/%s", weights, kv)
			 : snprintf(out, size, "%s/%s>%s", weights, kv, v->decode.kv);
}

static int scheduler_open(struct engine *engine, const struct engine_config *config, struct error *e)
{
	const struct engine_facts *f = &engine->facts;
	char writers[2][VARIANT_NAME_SIZE];
	struct scheduler_part parts[2];

	for (int part = 0; part < engine->n_parts; part++) {
		writer_name(&config->variant, part, writers[part], sizeof writers[part]);
		parts[part] = (struct scheduler_part){part_models(engine, part), &engine->pools[part], writers[part]};
	}
	struct scheduler_limits limits = {.max_batch_tokens = f->max_batch_tokens,
		.chunk = f->chunk,
		.max_requests = f->max_requests,
		.max_positions = f->max_positions,
		.no_prefix_cache = config->no_prefix_cache,
		.pad_decode = config->pad_decode};
	engine->scheduler_ready = true;
	return scheduler_init(&engine->scheduler, &engine->ranks, parts, engine->n_parts,
		engine_text_tokenizer(engine->text), &limits, e);
}

/* What serves requests with the loaded model. */
static void serving_close(struct engine *engine)
{
	if (engine->scheduler_ready)
		scheduler_free(&engine->scheduler);
	engine->scheduler_ready = false;
	for (int i = 0; i < 2; i++)
		if (engine->pools[i].backend)
			kv_pool_free(&engine->pools[i]);
}

/* What was handed in and is not used: it is taken all the same. */
static void given_destroy(const struct engine_config *config)
{
	int ranks = or_default(config->ranks, 1);

	if (config->backend)
		config->backend->ops->destroy(config->backend);
	for (int r = 0; r < ranks; r++) {
		if (config->rank_backends)
			config->rank_backends[r]->ops->destroy(config->rank_backends[r]);
		if (config->rank_comms)
			config->rank_comms[r]->ops->destroy(config->rank_comms[r]);
	}
}

static int open_all(struct engine *engine, const struct engine_config *config, struct error *e)
{
	struct engine_facts *f = &engine->facts;
	double started = clock_seconds();

	struct backend *const *given = config->rank_backends ? config->rank_backends
		: config->backend                            ? &config->backend
							     : NULL;

	if (options_check(engine, config, e) < 0) {
		given_destroy(config);
		return e->code;
	}
	TRY(ranks_open(&engine->ranks, f->ranks, f->threads, given, config->rank_comms, e));
	f->isa = given ? "" : cpu_backend_isa(engine->ranks.backends[0]);
	f->backend = engine->ranks.backends[0]->ops->name;
	f->numerics = engine->ranks.backends[0]->ops->numerics;
	TRY(model_open(engine, config, e));
	TRY(pools_open(engine, config, e));
	facts_fill(engine);

	TRY(scheduler_open(engine, config, e));
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

int engine_renew(struct engine *engine, const struct engine_config *config, struct error *e)
{
	serving_close(engine);
	TRY(pools_open(engine, config, e));
	return scheduler_open(engine, config, e);
}

void engine_close(struct engine *engine)
{
	if (!engine)
		return;
	serving_close(engine);
	for (int i = 0; i < 2; i++) {
		for (int r = 0; engine->models[i] && r < engine->ranks.size; r++)
			model_free(&engine->models[i][r]);
		free(engine->models[i]);
	}
	engine_text_close(engine->text);
	checkpoint_close(engine->checkpoint);
	ranks_close(&engine->ranks);
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

static float values_amax(const float *values, size_t n)
{
	float amax = 0.0f;
	for (size_t i = 0; i < n; i++)
		amax = fmaxf(amax, fabsf(values[i]));
	return amax;
}

int engine_kv_amax(struct engine *engine, float *amax, struct error *e)
{
	const struct kv_pool *pool = &engine->pools[0];
	const struct kv_geometry *g = &pool->geometry;
	size_t page = (size_t)g->page_size * (size_t)g->n_kv_heads * (size_t)g->head_dim;
	float *values = mem_calloc(page, sizeof *values, e);

	if (!values)
		return ERR_MEMORY;
	if (pool->format != KV_F32) {
		free(values);
		return error_set(
			e, ERR_USAGE, "a cache in %s: calibration reads one in f32", kv_format_name(pool->format));
	}
	memset(amax, 0, 2 * (size_t)pool->n_layers * sizeof *amax);
	for (int i = 0; i < 2 * pool->n_layers * pool->n_ranks; i++) {
		const struct kv_layer *layer = &pool->layers[i / 2];
		struct backend *b = pool->backends[i / 2 / pool->n_layers];
		float *max = &amax[i % (2 * pool->n_layers)];
		for (int p = 1; p < g->n_pages; p++) {
			const float *from = i % 2 ? layer->v : layer->k;
			if (pool->references[p] == 0)
				continue;
			b->ops->download(b, values, from + (size_t)p * page, page * sizeof *values);
			*max = fmaxf(*max, values_amax(values, page));
		}
	}
	free(values);
	return 0;
}

int engine_cpu_backend(int threads, struct backend **out, struct error *e)
{
	return cpu_backend_new(or_default(threads, thread_count_default()), NULL, out, e);
}

void engine_cache_clear(struct engine *engine)
{
	scheduler_cache_clear(&engine->scheduler);
}

int engine_audit(const struct engine *engine, struct error *e)
{
	return scheduler_audit(&engine->scheduler, e);
}

struct engine_result *engine_poll(struct engine *engine)
{
	struct request *r = scheduler_take_done(&engine->scheduler);
	return r ? request_finish(r, engine_text_tokenizer(engine->text), NULL) : NULL;
}
