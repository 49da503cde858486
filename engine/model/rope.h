/* Rotary position embedding: what a config says of it, and the angles per position. */
#ifndef ASSAY_ENGINE_MODEL_ROPE_H
#define ASSAY_ENGINE_MODEL_ROPE_H

#include <stdint.h>

#include "engine/base/error.h"
#include "engine/model/config_object.h"

enum rope_kind { ROPE_HALF_SPLIT, ROPE_INTERLEAVED };
enum rope_scaling { ROPE_SCALING_NONE, ROPE_SCALING_LINEAR, ROPE_SCALING_LLAMA3, ROPE_SCALING_YARN };

struct rope_config {
	enum rope_kind kind;
	enum rope_scaling scaling;
	double theta;
	int rotary_dim; /* R: the first R of D dims rotate */
	double factor;
	double low_freq_factor, high_freq_factor;            /* llama3 */
	double original_max_positions;                       /* llama3, yarn */
	double beta_fast, beta_slow, mscale, mscale_all_dim; /* yarn */
	const uint8_t *divisors; /* [R/2] floats, not aligned, borrowed from a GGUF file: each divides its f_i; NULL: none */
};

/* Reads theta, the scaling and the rotated share of head_dim out of a model's config: rope_scaling, or else
 * rope_parameters; rope_theta and partial_rotary_factor inside it, or else beside it; `rope_type` or `type`. Unscaled
 * with theta 10000 where nothing is said, as in transformers. Types that are not built are refused by name. kind is
 * left alone: it is the family's. */
int rope_config_parse(
	const struct config_object *config, int head_dim, int max_positions, struct rope_config *rope, struct error *e);

/* f_i for i in [0, R/2): angles per position (after scaling), in float as transformers computes them. out: [R/2].
 * PRECOND: R is even, the scaling is none, linear or llama3. */
void rope_inverse_frequencies(const struct rope_config *rope, float *out);

#endif
