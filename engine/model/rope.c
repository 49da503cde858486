#include "engine/model/rope.h"

#include <assert.h>

#include "engine/base/det_math.h"

#define MIN_FACTOR 1e-3
#define MAX_FACTOR 1e6

/* The object that describes the rope. transformers lets the old key win over the new one, unless it is empty. */
static int find_parameters(const struct config_object *config, struct config_object *out, struct error *e)
{
	int found = config_child(config, "rope_scaling", out, e);

	TRY(found);
	if (found && out->json->count > 0)
		return 1;
	found = config_child(config, "rope_parameters", out, e);
	TRY(found);
	JSON_EACH (item, found ? out->json : NULL) {
		if (json_is(item, JSON_OBJECT))
			return error_set(e, ERR_INPUT, "%s: %s%.*s is an object: a rope per layer type is not built",
				out->file, out->path, STR_ARG(item->key));
	}
	return found;
}

/* A number of the parameters, which older configs keep beside them. */
static int inner_or_outer(const struct config_object *inner, const struct config_object *outer, const char *key,
	double low, double high, double *value, struct error *e)
{
	int found = config_double(inner, key, low, high, value, e);

	return found == 0 ? config_double(outer, key, low, high, value, e) : found;
}

static int parse_factor(const struct config_object *parameters, const char *key, double *value, struct error *e)
{
	return config_required(config_double(parameters, key, MIN_FACTOR, MAX_FACTOR, value, e), parameters, key, e);
}

static int parse_llama3(const struct config_object *config, const struct config_object *parameters, int max_positions,
	struct rope_config *rope, struct error *e)
{
	const char *const original = "original_max_position_embeddings";

	rope->scaling = ROPE_SCALING_LLAMA3;
	TRY(parse_factor(parameters, "factor", &rope->factor, e));
	TRY(parse_factor(parameters, "low_freq_factor", &rope->low_freq_factor, e));
	TRY(parse_factor(parameters, "high_freq_factor", &rope->high_freq_factor, e));
	if (rope->high_freq_factor <= rope->low_freq_factor)
		return config_wrong(parameters, "high_freq_factor", json_get(parameters->json, "high_freq_factor"),
			"more than low_freq_factor", e);
	rope->original_max_positions = max_positions;
	return inner_or_outer(config, parameters, original, 1, 1 << 30, &rope->original_max_positions, e);
}

static int parse_scaling(const struct config_object *config, const struct config_object *parameters, int max_positions,
	struct rope_config *rope, struct error *e)
{
	const char *key = "rope_type";
	struct str type = str_of("default");
	int found = config_text(parameters, key, &type, e);

	if (found == 0) {
		key = "type";
		found = config_text(parameters, key, &type, e);
	}
	TRY(found);
	if (str_is(type, "default"))
		return 0;
	if (str_is(type, "linear")) {
		rope->scaling = ROPE_SCALING_LINEAR;
		return parse_factor(parameters, "factor", &rope->factor, e);
	}
	if (str_is(type, "llama3"))
		return parse_llama3(config, parameters, max_positions, rope, e);
	return config_not_built(parameters, key, type, "default, linear, llama3", e);
}

int rope_config_parse(
	const struct config_object *config, int head_dim, int max_positions, struct rope_config *rope, struct error *e)
{
	struct config_object parameters;
	double rotated_share = 1.0;
	int found = find_parameters(config, &parameters, e);

	TRY(found);
	if (!found)
		parameters = *config;
	rope->scaling = ROPE_SCALING_NONE;
	rope->factor = 1.0;
	rope->theta = 10000.0;
	TRY(inner_or_outer(&parameters, config, "rope_theta", 1.0, 1e12, &rope->theta, e));
	TRY(inner_or_outer(&parameters, config, "partial_rotary_factor", 0.0, 1.0, &rotated_share, e));
	rope->rotary_dim = (int)(head_dim * rotated_share);
	if (rope->rotary_dim < 2 || rope->rotary_dim % 2 != 0)
		return error_set(e, ERR_INPUT,
			"%s: %d of the %d dimensions of a head rotate, expected an even number from 2", config->file,
			rope->rotary_dim, head_dim);
	return found ? parse_scaling(config, &parameters, max_positions, rope, e) : 0;
}

/* Llama 3.1's rule: fast waves stay, slow ones are stretched by factor, those between are blended. Each step rounds to
 * float where transformers' does; its "scalar / tensor" is the scalar times the reciprocal. */
static float llama3_frequency(const struct rope_config *rope, float frequency)
{
	float factor = (float)rope->factor;
	float wavelength = (1.0F / frequency) * (float)(2.0 * 3.14159265358979323846);

	if (wavelength > (float)(rope->original_max_positions / rope->low_freq_factor))
		return frequency / factor;
	if (wavelength < (float)(rope->original_max_positions / rope->high_freq_factor))
		return frequency;
	float waves = (1.0F / wavelength) * (float)rope->original_max_positions;
	float smooth = (waves - (float)rope->low_freq_factor) / (float)(rope->high_freq_factor - rope->low_freq_factor);
	return (1.0F - smooth) * frequency / factor + smooth * frequency;
}

void rope_inverse_frequencies(const struct rope_config *rope, float *out)
{
	float theta = (float)rope->theta;

	assert(rope->rotary_dim % 2 == 0 && rope->scaling != ROPE_SCALING_YARN);
	for (int i = 0; i < rope->rotary_dim / 2; i++) {
		float exponent = (float)(2 * i) / (float)rope->rotary_dim;
		float frequency = 1.0F / (float)det_pow(theta, exponent);
		if (rope->scaling == ROPE_SCALING_LINEAR)
			frequency /= (float)rope->factor;
		else if (rope->scaling == ROPE_SCALING_LLAMA3)
			frequency = llama3_frequency(rope, frequency);
		if (rope->divisors) {
			float divisor;
			memcpy(&divisor, rope->divisors + (size_t)i * sizeof(divisor), sizeof(divisor));
			frequency /= divisor;
		}
		out[i] = frequency;
	}
}
