/* Scales of an fp8 KV cache from a text: `--kv-scale calibrate`. Each layer's K and V get their largest magnitude over the
 * text, as a cache in f32 holds them, over 448, the largest value of E4M3. */
#ifndef ASSAY_EVALS_CALIBRATION_H
#define ASSAY_EVALS_CALIBRATION_H

#include "evals/cli.h"
#include "evals/divergence_source.h"

struct calibration {
	struct reading reading; /* count 0: none is asked for */
};

/* ERR_USAGE for one of --kv-scale calibrate and --kv-scale-text without the other, and where no variant keeps an fp8 cache. */
int calibration_make(struct calibration *c, const struct options *o, const struct engine_config *variants,
	int n_variants, const struct engine_text *text, struct error *e);
void calibration_free(struct calibration *c);

/* Whether the variant's scales come from the text. */
bool calibration_wanted(const struct calibration *c, const struct variant *variant);

/* Scales for engine_config.kv_scales, owned by the caller: [n_layers, 2] of K and V. Runs the text, in windows of
 * READING_WINDOW tokens, through the variant's weights (of a split one those that compute prompts) in an engine of its own. */
int calibration_scales(const struct calibration *c, const struct engine_config *config, const struct engine_text *text,
	float **scales, struct error *e);

/* What it adds to the run's identity; to its provenance (JSON members, a comma before each). */
void calibration_identity(const struct calibration *c, struct buf *out);
void calibration_provenance(const struct calibration *c, struct buf *out);

#endif
