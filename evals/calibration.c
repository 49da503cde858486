#include "evals/calibration.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/json_strict.h"

static const float e4m3_largest = 448.0f;

static bool keeps_fp8(const struct variant *v)
{
	return strcmp(v->prefill.kv, "fp8") == 0 || strcmp(v->decode.kv, "fp8") == 0;
}

int calibration_make(struct calibration *c, const struct options *o, const struct engine_config *variants,
	int n_variants, const struct engine_text *text, struct error *e)
{
	bool wanted = o->kv_scale && strcmp(o->kv_scale, "calibrate") == 0;
	int i = 0;

	*c = (struct calibration){0};
	if (wanted != (o->kv_scale_text != NULL))
		return error_set(e, ERR_USAGE,
			wanted ? "--kv-scale calibrate needs a text: --kv-scale-text FILE"
			       : "--kv-scale-text is read by --kv-scale calibrate, which is missing");
	if (!wanted)
		return 0;
	while (i < n_variants && !keeps_fp8(&variants[i].variant))
		i++;
	if (i == n_variants)
		return error_set(e, ERR_USAGE,
			"--kv-scale calibrate: none of the variants keeps its cache in fp8, as bf16/fp8 does");
	return reading_open(&c->reading, o->kv_scale_text, text, e);
}

void calibration_free(struct calibration *c)
{
	reading_close(&c->reading);
}

bool calibration_wanted(const struct calibration *c, const struct variant *variant)
{
	return c->reading.count > 0 && keeps_fp8(variant);
}

/* ---- the largest values ---- */

static int window_compute(struct engine *engine, const struct divergence_document *d, struct error *e)
{
	struct engine_result *r = NULL;
	uint64_t id;
	bool idle;

	TRY(engine_submit(engine,
		&(struct engine_request){
			.tokens = d->tokens, .n_tokens = d->n_tokens, .logprobs_from = d->n_tokens - 1},
		&id, e));
	while (!(r = engine_poll(engine)))
		TRY(engine_step(engine, &idle, e));
	bool failed = r->finish == ENGINE_FAILED;
	if (failed)
		*e = r->error;
	engine_result_free(r);
	return failed ? e->code : 0;
}

/* Raises amax [n] to what the window's K and V have. */
static int window_measure(
	struct engine *engine, const struct divergence_document *d, float *window, float *amax, int n, struct error *e)
{
	TRY(window_compute(engine, d, e));
	TRY(engine_kv_amax(engine, window, e));
	engine_cache_clear(engine);
	for (int i = 0; i < n; i++)
		amax[i] = fmaxf(amax[i], window[i]);
	return 0;
}

static int text_measure(struct engine *engine, const struct divergence_source *source, float *amax, struct error *e)
{
	int n = 2 * engine_facts(engine)->n_layers, status = 0;
	float *window = mem_calloc((size_t)n, sizeof *window, e);

	if (!window)
		return ERR_MEMORY;
	for (int i = 0; status == 0 && i < divergence_source_count(source); i++) {
		struct divergence_document d;
		status = divergence_document_make(source, i, &d, e);
		if (status == 0)
			status = window_measure(engine, &d, window, amax, n, e);
		divergence_document_free(&d);
		if (status == 0 && interrupted())
			status = error_set(e, ERR_INTERRUPTED, "interrupted");
	}
	free(window);
	return status;
}

static int engine_measure(const struct calibration *c, struct engine *engine, const struct engine_text *text,
	float **scales, struct error *e)
{
	const struct engine_facts *f = engine_facts(engine);
	struct divergence_source *source;

	*scales = mem_calloc(2 * (size_t)f->n_layers, sizeof **scales, e);
	if (!*scales)
		return ERR_MEMORY;
	TRY(divergence_source_text(&c->reading, text, f->max_positions, 0, &source, e));
	int status = text_measure(engine, source, *scales, e);
	divergence_source_free(source);
	for (int i = 0; i < 2 * f->n_layers; i++)
		(*scales)[i] = (*scales)[i] > 0.0f ? (*scales)[i] / e4m3_largest : 1.0f;
	return status;
}

int calibration_scales(const struct calibration *c, const struct engine_config *config, const struct engine_text *text,
	float **scales, struct error *e)
{
	struct engine_config wide = *config;
	char name[VARIANT_NAME_SIZE];
	struct engine *engine;

	*scales = NULL;
	snprintf(name, sizeof name, "%s/f32", config->variant.prefill.weights);
	TRY(variant_parse(name, &wide.variant, e));
	wide.kv_memory = 0;
	wide.guard = NULL;
	wide.no_prefix_cache = false; /* what it holds is read when the request has ended */
	TRY(engine_open(&wide, &engine, e));
	int status = engine_measure(c, engine, text, scales, e);
	engine_close(engine);
	if (status == 0)
		return 0;
	free(*scales);
	*scales = NULL;
	return status;
}

/* ---- what is said of it ---- */

void calibration_identity(const struct calibration *c, struct buf *out)
{
	if (c->reading.count > 0)
		buf_printf(out, "kv_scale %s %d\n", c->reading.file_hash, READING_WINDOW);
}

void calibration_provenance(const struct calibration *c, struct buf *out)
{
	if (c->reading.count == 0)
		return;
	buf_append_text(out, ", \"kv_scale\": {\"calibrated_over\": ");
	json_write_string(str_of(c->reading.path), false, out);
	buf_printf(out, ", \"sha256\": \"%s\", \"tokens\": %zu, \"window\": %d}", c->reading.file_hash,
		c->reading.count, READING_WINDOW);
}
