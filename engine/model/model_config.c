#include "engine/model/model_config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"

/* A row per architecture (MODELS.md section 2; the defaults are transformers'). */
static const struct model_family families[] = {
	{.name = "llama", .max_positions = 2048, .mlp_bias_choice = true},
	{.name = "qwen2", .max_positions = 32768, .qkv_bias = true},
	{.name = "qwen3", .max_positions = 32768, .qk_norm = true, .head_dim = 128},
};

enum { FAMILY_COUNT = sizeof(families) / sizeof(families[0]) };

const struct model_family *model_family_find(struct str name)
{
	for (int i = 0; i < FAMILY_COUNT; i++)
		if (str_is(name, families[i].name))
			return &families[i];
	return NULL;
}

const char *model_family_names(void)
{
	return "llama, qwen2, qwen3";
}

static int find_family(const struct config_object *o, const struct model_family **out, struct error *e)
{
	struct str name;

	TRY(config_required(config_text(o, "model_type", &name, e), o, "model_type", e));
	*out = model_family_find(name);
	return *out ? 0 : config_not_built(o, "model_type", name, model_family_names(), e);
}

static int refuse_quantised(const struct config_object *o, struct error *e)
{
	static const char *const keys[] = {"quantization_config", "compression_config"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		struct config_object child;
		struct str method = str_of("unnamed");
		int found = config_child(o, keys[i], &child, e);
		TRY(found);
		if (!found)
			continue;
		TRY(config_text(&child, "quant_method", &method, e));
		return config_not_built(&child, "quant_method", method, "checkpoints that are not quantised", e);
	}
	return 0;
}

static int required_size(const struct config_object *o, const char *key, int high, int *value, struct error *e)
{
	return config_required(config_int(o, key, 1, high, value, e), o, key, e);
}

/* H, L, N, G, D, I, V and the longest context. */
static int parse_sizes(
	const struct config_object *o, const struct model_family *family, struct model_config *m, struct error *e)
{
	TRY(required_size(o, "hidden_size", MODEL_MAX_HIDDEN, &m->hidden_size, e));
	TRY(required_size(o, "num_hidden_layers", MODEL_MAX_LAYERS, &m->n_layers, e));
	TRY(required_size(o, "num_attention_heads", MODEL_MAX_HEADS, &m->n_heads, e));
	TRY(required_size(o, "intermediate_size", MODEL_MAX_INNER, &m->inner_size, e));
	TRY(required_size(o, "vocab_size", MODEL_MAX_VOCAB, &m->vocab_size, e));
	m->n_kv_heads = m->n_heads;
	TRY(config_int(o, "num_key_value_heads", 1, MODEL_MAX_HEADS, &m->n_kv_heads, e));
	m->head_dim = family->head_dim ? family->head_dim : m->hidden_size / m->n_heads;
	TRY(config_int(o, "head_dim", 1, MODEL_MAX_HEAD_DIM, &m->head_dim, e));
	m->max_positions = family->max_positions;
	TRY(config_int(o, "max_position_embeddings", 1, MODEL_MAX_POSITIONS, &m->max_positions, e));
	if (m->n_heads % m->n_kv_heads != 0)
		return error_set(e, ERR_INPUT,
			"%s: %snum_key_value_heads is %d, expected a divisor of num_attention_heads %d", o->file,
			o->path, m->n_kv_heads, m->n_heads);
	if (m->head_dim < 1 || m->head_dim > MODEL_MAX_HEAD_DIM || m->head_dim % 2 != 0)
		return error_set(e, ERR_INPUT,
			"%s: %shead_dim is %d (hidden_size %d, num_attention_heads %d), expected an even number from 2 "
			"to %d",
			o->file, o->path, m->head_dim, m->hidden_size, m->n_heads, MODEL_MAX_HEAD_DIM);
	return 0;
}

/* Attention over a window of positions, in all layers or some, is not built. */
static int refuse_windows(const struct config_object *o, struct error *e)
{
	const struct json *layers = json_get(o->json, "layer_types");
	bool window = false;

	TRY(config_bool(o, "use_sliding_window", &window, e));
	if (window)
		return config_not_built(o, "use_sliding_window", str_of("true"), "false", e);
	JSON_EACH (item, layers) {
		if (!json_is(item, JSON_STRING) || !str_is(item->text, "full_attention"))
			return config_not_built(o, "layer_types", item->text, "full_attention", e);
	}
	return 0;
}

/* Norms, biases, activation and rope. */
static int parse_block(
	const struct config_object *o, const struct model_family *family, struct model_config *m, struct error *e)
{
	double eps = 1e-6; /* as transformers' LlamaConfig */
	struct str activation = str_of("silu");

	TRY(config_double(o, "rms_norm_eps", 1e-30, 1.0, &eps, e));
	m->norm_eps = (float)eps;
	TRY(config_text(o, "hidden_act", &activation, e));
	if (!str_is(activation, "silu"))
		return config_not_built(o, "hidden_act", activation, "silu", e);
	TRY(refuse_windows(o, e));
	m->qkv_bias = family->qkv_bias;
	m->qk_norm = family->qk_norm;
	if (!family->qkv_bias) {
		TRY(config_bool(o, "attention_bias", &m->qkv_bias, e));
		m->o_bias = m->qkv_bias;
	}
	if (family->mlp_bias_choice)
		TRY(config_bool(o, "mlp_bias", &m->mlp_bias, e));
	TRY(rope_config_parse(o, m->head_dim, m->max_positions, &m->rope, e));
	if (m->rope.rotary_dim != m->head_dim)
		return error_set(e, ERR_INPUT,
			"%s: %spartial_rotary_factor: a rope over %d of %d dimensions is not built for %s", o->file,
			o->path, m->rope.rotary_dim, m->head_dim, m->family);
	return 0;
}

/* An id, a list of ids, or nothing (absent or null: what was known before stays). */
static int parse_eos(const struct config_object *o, struct model_config *m, struct error *e)
{
	const struct json *list = json_get(o->json, "eos_token_id");
	int token;

	if (!json_is(list, JSON_ARRAY)) {
		int found = config_int(o, "eos_token_id", 0, INT_MAX, &token, e);
		TRY(found);
		if (found) {
			m->eos_tokens[0] = token;
			m->n_eos_tokens = 1;
		}
		return 0;
	}
	if (list->count > MODEL_MAX_EOS)
		return error_set(e, ERR_INPUT, "%s: %seos_token_id lists %zu tokens, at most %d are supported", o->file,
			o->path, list->count, MODEL_MAX_EOS);
	m->n_eos_tokens = 0;
	JSON_EACH (item, list) {
		int64_t wide;
		if (!json_int64(item, &wide) || wide < 0 || wide > INT_MAX)
			return config_wrong(o, "eos_token_id", item, "token ids from 0 to 2147483647", e);
		m->eos_tokens[m->n_eos_tokens++] = (int32_t)wide;
	}
	return 0;
}

/* What a wrapper of a language model may say outside text_config; the inside is read later and wins. */
static int parse_outer(const struct config_object *o, struct model_config *m, struct error *e)
{
	TRY(refuse_quantised(o, e));
	TRY(config_bool(o, "tie_word_embeddings", &m->tied_embeddings, e));
	TRY(config_int(o, "bos_token_id", 0, INT_MAX, &m->bos_token, e));
	return parse_eos(o, m, e);
}

/* generation_config.json lies beside config.json, and errors say so. */
static int parse_generation(const struct json *json, const char *config_name, struct model_config *m, struct error *e)
{
	const char *slash = strrchr(config_name, '/');
	int folder_length = slash ? (int)(slash + 1 - config_name) : 0;
	char name[1024];
	struct config_object o;

	snprintf(name, sizeof(name), "%.*sgeneration_config.json", folder_length, config_name);
	TRY(config_object_root(json, name, &o, e));
	return parse_eos(&o, m, e);
}

int model_config_parse(const struct json *config_json, const char *name, const struct json *generation_json,
	struct model_config *config, struct error *e)
{
	struct config_object root, text;
	const struct model_family *family;
	struct model_config m;
	int nested;

	memset(&m, 0, sizeof(m));
	m.bos_token = -1;
	TRY(config_object_root(config_json, name, &root, e));
	TRY(parse_outer(&root, &m, e));
	nested = config_child(&root, "text_config", &text, e);
	TRY(nested);
	if (nested)
		TRY(parse_outer(&text, &m, e));
	else
		text = root;
	TRY(find_family(&text, &family, e));
	snprintf(m.family, sizeof(m.family), "%s", family->name);
	TRY(parse_sizes(&text, family, &m, e));
	TRY(parse_block(&text, family, &m, e));
	if (generation_json)
		TRY(parse_generation(generation_json, name, &m, e));
	*config = m;
	return 0;
}

int model_config_read(const char *folder, struct model_config *config, struct error *e)
{
	struct json_document *document = NULL, *generation = NULL;
	char *generation_path = NULL;
	char *path = path_join(folder, "config.json", e);
	int status = path ? 0 : ERR_MEMORY;

	if (!path)
		goto cleanup;
	TRY_CLEANUP(status, config_read_json(path, JSON_LAST_KEY_WINS, &document, e));
	generation_path = path_join(folder, "generation_config.json", e);
	if (!generation_path) {
		status = ERR_MEMORY;
		goto cleanup;
	}
	if (file_exists(generation_path))
		TRY_CLEANUP(status, config_read_json(generation_path, JSON_LAST_KEY_WINS, &generation, e));
	status = model_config_parse(json_root(document), path, generation ? json_root(generation) : NULL, config, e);
cleanup:
	json_free(generation);
	json_free(document);
	free(generation_path);
	free(path);
	return status;
}
