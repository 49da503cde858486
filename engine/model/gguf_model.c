#include "engine/model/gguf_model.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_SIZE = 96 };

#define ROPE_FREQUENCIES "rope_freqs.weight"

/* ---- The description ---- */

struct reader {
	const struct gguf *file;
	const struct model_family *family;
	struct model_config *config;
	char key[KEY_SIZE];
};

/* "llama.<suffix>" into r->key. */
static const char *family_key(struct reader *r, const char *suffix)
{
	snprintf(r->key, sizeof(r->key), "%s.%s", r->family->name, suffix);
	return r->key;
}

static int required_size(struct reader *r, const char *suffix, int high, int *value, struct error *e)
{
	const char *key = family_key(r, suffix);
	return gguf_required(gguf_int(r->file, key, 1, high, value, e), r->file, key, e);
}

static int optional_size(struct reader *r, const char *suffix, int high, int *value, struct error *e)
{
	return gguf_int(r->file, family_key(r, suffix), 1, high, value, e);
}

static int find_family(struct reader *r, struct error *e)
{
	static const char key[] = "general.architecture";
	struct str name;

	TRY(gguf_required(gguf_text(r->file, key, &name, e), r->file, key, e));
	r->family = model_family_find(name);
	if (!r->family)
		return error_set(e, ERR_INPUT, "%s: %s '%.*s' is not built; built: %s", gguf_name(r->file), key,
			STR_ARG(name), model_family_names());
	snprintf(r->config->family, sizeof(r->config->family), "%s", r->family->name);
	return 0;
}

/* What would give other numbers than the forward pass that is built. */
static int refuse_others(struct reader *r, struct error *e)
{
	int parts = 1, experts = 0, window = 0;

	TRY(gguf_int(r->file, "split.count", 0, INT_MAX, &parts, e));
	if (parts > 1)
		return error_set(e, ERR_INPUT, "%s: split.count is %d: a model in several files is not built",
			gguf_name(r->file), parts);
	TRY(gguf_int(r->file, family_key(r, "expert_count"), 0, INT_MAX, &experts, e));
	if (experts > 0)
		return error_set(e, ERR_INPUT, "%s: %s is %d: a mixture of experts is not built", gguf_name(r->file),
			r->key, experts);
	TRY(gguf_int(r->file, family_key(r, "attention.sliding_window"), 0, INT_MAX, &window, e));
	if (window > 0)
		return error_set(e, ERR_INPUT, "%s: %s is %d: attention over a window is not built", gguf_name(r->file),
			r->key, window);
	return 0;
}

static int read_heads(struct reader *r, struct error *e)
{
	struct model_config *m = r->config;
	int value_length;

	TRY(required_size(r, "attention.head_count", MODEL_MAX_HEADS, &m->n_heads, e));
	m->n_kv_heads = m->n_heads;
	TRY(optional_size(r, "attention.head_count_kv", MODEL_MAX_HEADS, &m->n_kv_heads, e));
	if (m->n_heads % m->n_kv_heads != 0)
		return error_set(e, ERR_INPUT, "%s: %s is %d, expected a divisor of the head_count %d",
			gguf_name(r->file), r->key, m->n_kv_heads, m->n_heads);
	m->head_dim = m->hidden_size / m->n_heads;
	TRY(optional_size(r, "attention.key_length", MODEL_MAX_HEAD_DIM, &m->head_dim, e));
	if (m->head_dim < 1 || m->head_dim > MODEL_MAX_HEAD_DIM || m->head_dim % 2 != 0)
		return error_set(e, ERR_INPUT,
			"%s: heads of %d values (embedding_length %d, head_count %d), expected an even number from 2 "
			"to %d",
			gguf_name(r->file), m->head_dim, m->hidden_size, m->n_heads, MODEL_MAX_HEAD_DIM);
	value_length = m->head_dim;
	TRY(optional_size(r, "attention.value_length", MODEL_MAX_HEAD_DIM, &value_length, e));
	if (value_length != m->head_dim)
		return error_set(e, ERR_INPUT, "%s: %s is %d, expected the length of a key, %d", gguf_name(r->file),
			r->key, value_length, m->head_dim);
	return 0;
}

static int read_sizes(struct reader *r, struct error *e)
{
	struct model_config *m = r->config;
	const struct tensor *embedding = gguf_tensor_find(r->file, "token_embd.weight");
	double eps;

	TRY(required_size(r, "embedding_length", MODEL_MAX_HIDDEN, &m->hidden_size, e));
	TRY(required_size(r, "block_count", MODEL_MAX_LAYERS, &m->n_layers, e));
	TRY(required_size(r, "feed_forward_length", MODEL_MAX_INNER, &m->inner_size, e));
	TRY(required_size(r, "context_length", MODEL_MAX_POSITIONS, &m->max_positions, e));
	TRY(read_heads(r, e));
	const char *key = family_key(r, "attention.layer_norm_rms_epsilon");
	TRY(gguf_required(gguf_double(r->file, key, 1e-30, 1.0, &eps, e), r->file, key, e));
	m->norm_eps = (float)eps;
	if (!embedding || embedding->rank != 2 || embedding->shape[0] < 1 || embedding->shape[0] > MODEL_MAX_VOCAB)
		return error_set(e, ERR_INPUT, "%s: tensor \"token_embd.weight\" %s", gguf_name(r->file),
			embedding ? "is no matrix of a row per token" : "is missing");
	m->vocab_size = (int)embedding->shape[0];
	return 0;
}

/* Divisors of the frequencies, which stand for llama3's scaling. */
static int read_rope_divisors(struct reader *r, struct error *e)
{
	struct rope_config *rope = &r->config->rope;
	const struct tensor *t = gguf_tensor_find(r->file, ROPE_FREQUENCIES);
	float divisor;

	if (!t)
		return 0;
	if (t->type != TENSOR_F32 || t->rank != 1 || t->count != (uint64_t)rope->rotary_dim / 2)
		return error_set(e, ERR_INPUT,
			"%s: tensor \"" ROPE_FREQUENCIES "\" has %llu values of type %s, expected %d of type F32",
			gguf_name(r->file), (unsigned long long)t->count, tensor_type_name(t->type),
			rope->rotary_dim / 2);
	for (uint64_t i = 0; i < t->count; i++) {
		tensor_to_float(t, i, 1, &divisor);
		if (!isfinite(divisor) || divisor <= 0.0f)
			return error_set(e, ERR_INPUT,
				"%s: tensor \"" ROPE_FREQUENCIES "\": value %llu is %g, expected a positive number",
				gguf_name(r->file), (unsigned long long)i, (double)divisor);
	}
	rope->divisors = t->data;
	return 0;
}

static int read_rope(struct reader *r, struct error *e)
{
	struct rope_config *rope = &r->config->rope;
	struct str type = str_of("none");

	rope->theta = 10000.0;
	rope->factor = 1.0;
	TRY(gguf_double(r->file, family_key(r, "rope.freq_base"), 1.0, 1e12, &rope->theta, e));
	rope->rotary_dim = r->config->head_dim;
	TRY(optional_size(r, "rope.dimension_count", MODEL_MAX_HEAD_DIM, &rope->rotary_dim, e));
	if (rope->rotary_dim != r->config->head_dim)
		return error_set(e, ERR_INPUT, "%s: %s: a rope over %d of %d dimensions is not built for %s",
			gguf_name(r->file), r->key, rope->rotary_dim, r->config->head_dim, r->family->name);
	TRY(gguf_text(r->file, family_key(r, "rope.scaling.type"), &type, e));
	if (str_is(type, "linear")) {
		rope->scaling = ROPE_SCALING_LINEAR;
		const char *key = family_key(r, "rope.scaling.factor");
		TRY(gguf_required(gguf_double(r->file, key, 1e-3, 1e6, &rope->factor, e), r->file, key, e));
	} else if (!str_is(type, "none")) {
		return error_set(e, ERR_INPUT, "%s: %s '%.*s' is not built; built: none, linear", gguf_name(r->file),
			r->key, STR_ARG(type));
	}
	return read_rope_divisors(r, e);
}

static bool has_tensor(const struct reader *r, const char *name)
{
	return gguf_tensor_find(r->file, name) != NULL;
}

/* What the family leaves to the checkpoint shows in the tensors of the first layer. */
static int read_choices(struct reader *r, struct error *e)
{
	struct model_config *m = r->config;
	int token = -1;

	m->qk_norm = r->family->qk_norm;
	if (!m->qk_norm && has_tensor(r, "blk.0.attn_q_norm.weight"))
		return error_set(e, ERR_INPUT,
			"%s: tensor \"blk.0.attn_q_norm.weight\": norms of q and k are not built for %s",
			gguf_name(r->file), r->family->name);
	m->qkv_bias = r->family->qkv_bias || has_tensor(r, "blk.0.attn_q.bias");
	m->o_bias = has_tensor(r, "blk.0.attn_output.bias");
	m->mlp_bias = has_tensor(r, "blk.0.ffn_gate.bias");
	m->tied_embeddings = !has_tensor(r, "output.weight");
	m->bos_token = -1;
	TRY(gguf_int(r->file, "tokenizer.ggml.bos_token_id", 0, INT_MAX, &m->bos_token, e));
	int found = gguf_int(r->file, "tokenizer.ggml.eos_token_id", 0, INT_MAX, &token, e);
	TRY(found);
	if (found)
		m->eos_tokens[m->n_eos_tokens++] = token;
	return 0;
}

/* ---- Names ---- */

struct name_pair {
	const char *file, *model;
};

static const struct name_pair outer_names[] = {
	{"token_embd", "model.embed_tokens"},
	{"output_norm", "model.norm"},
	{"output", "lm_head"},
};

static const struct name_pair layer_names[] = {
	{"attn_norm", "input_layernorm"},
	{"attn_q", "self_attn.q_proj"},
	{"attn_k", "self_attn.k_proj"},
	{"attn_v", "self_attn.v_proj"},
	{"attn_output", "self_attn.o_proj"},
	{"attn_q_norm", "self_attn.q_norm"},
	{"attn_k_norm", "self_attn.k_norm"},
	{"ffn_norm", "post_attention_layernorm"},
	{"ffn_gate", "mlp.gate_proj"},
	{"ffn_up", "mlp.up_proj"},
	{"ffn_down", "mlp.down_proj"},
};

enum {
	OUTER_NAMES = sizeof(outer_names) / sizeof(outer_names[0]),
	LAYER_NAMES = sizeof(layer_names) / sizeof(layer_names[0])
};

static const struct name_pair *find_name(const struct name_pair *pairs, size_t count, struct str name, bool in_file)
{
	for (size_t i = 0; i < count; i++)
		if (str_is(name, in_file ? pairs[i].file : pairs[i].model))
			return &pairs[i];
	return NULL;
}

/* prefix, "L." at the front of a name: the rest behind it, and L as it is written. */
static bool split_layer(const char *name, const char *prefix, struct str *layer, const char **rest)
{
	if (strncmp(name, prefix, strlen(prefix)) != 0)
		return false;
	const char *digits = name + strlen(prefix);
	size_t length = strspn(digits, "0123456789");
	if (length == 0 || length > 4 || (digits[0] == '0' && length > 1) || digits[length] != '.')
		return false;
	*layer = (struct str){digits, length};
	*rest = digits + length + 1;
	return true;
}

/* Writes the other spelling of a name; false: there is none. */
static bool translate(const char *name, bool in_file, char out[GGUF_MODEL_NAME_SIZE])
{
	struct str layer = {NULL, 0};
	const char *rest = name;
	bool in_layer = split_layer(name, in_file ? "blk." : "model.layers.", &layer, &rest);
	const char *kind = strrchr(rest, '.');

	if (!kind || (strcmp(kind, ".weight") != 0 && strcmp(kind, ".bias") != 0))
		return false;
	struct str stem = {rest, (size_t)(kind - rest)};
	const struct name_pair *pair = in_layer ? find_name(layer_names, LAYER_NAMES, stem, in_file)
						: find_name(outer_names, OUTER_NAMES, stem, in_file);
	if (!pair)
		return false;
	const char *other = in_file ? pair->model : pair->file;
	if (in_layer)
		snprintf(out, GGUF_MODEL_NAME_SIZE, "%s.%.*s.%s%s", in_file ? "model.layers" : "blk", STR_ARG(layer),
			other, kind);
	else
		snprintf(out, GGUF_MODEL_NAME_SIZE, "%s%s", other, kind);
	return true;
}

void gguf_model_name_in_file(const char *name, char out[GGUF_MODEL_NAME_SIZE])
{
	if (!translate(name, false, out))
		snprintf(out, GGUF_MODEL_NAME_SIZE, "%s", name);
}

/* The model's name of a file's tensor; false: none is known. */
static bool model_name(const char *file, char out[GGUF_MODEL_NAME_SIZE])
{
	if (strcmp(file, ROPE_FREQUENCIES) != 0)
		return translate(file, true, out);
	snprintf(out, GGUF_MODEL_NAME_SIZE, "%s", file);
	return true;
}

/* Converters keep the rows of Llama's q and k as the pairs that their rope turns together. */
static int heads_in_pairs(const struct reader *r, const char *file)
{
	struct str layer;
	const char *rest;

	if (strcmp(r->family->name, "llama") != 0 || !split_layer(file, "blk.", &layer, &rest))
		return 0;
	if (strcmp(rest, "attn_q.weight") == 0 || strcmp(rest, "attn_q.bias") == 0)
		return r->config->n_heads;
	if (strcmp(rest, "attn_k.weight") == 0 || strcmp(rest, "attn_k.bias") == 0)
		return r->config->n_kv_heads;
	return 0;
}

static bool is_quantised(const struct gguf *g)
{
	for (size_t i = 0; i < gguf_tensor_count(g); i++)
		if (gguf_tensor_at(g, i)->type >= TENSOR_PLAIN_COUNT)
			return true;
	return false;
}

/* Rows can be put back only if they are what the description says, and one by one only if a row is no part of a
 * block. */
static int check_pairs(const struct reader *r, const struct tensor *t, struct error *e)
{
	int64_t rows = t->rank ? t->shape[0] : 0;

	if (t->pair_heads == 0 ||
		(rows == (int64_t)t->pair_heads * r->config->head_dim &&
			(t->rank == 2 || tensor_type_block(t->type) == 1)))
		return 0;
	return error_set(e, ERR_INPUT, "%s: tensor \"%s\" has %lld rows of type %s, expected %d for %d heads",
		gguf_name(r->file), t->name, (long long)rows, tensor_type_name(t->type),
		t->pair_heads * r->config->head_dim, t->pair_heads);
}

static int read_tensors(const struct reader *r, struct gguf_model *out, struct error *e)
{
	size_t n = gguf_tensor_count(r->file);
	bool quantised = is_quantised(r->file);

	out->tensors = mem_calloc(n, sizeof(*out->tensors), e);
	out->names = mem_calloc(n, GGUF_MODEL_NAME_SIZE, e);
	if (!out->tensors || !out->names)
		return ERR_MEMORY;
	for (size_t i = 0; i < n; i++) {
		const struct tensor *from = gguf_tensor_at(r->file, i);
		struct tensor *t = &out->tensors[out->count];
		char *name = out->names + out->count * GGUF_MODEL_NAME_SIZE;
		if (!model_name(from->name, name))
			continue;
		*t = *from;
		t->round_to_bf16 = quantised && t->rank == 2;
		t->pair_heads = heads_in_pairs(r, from->name);
		TRY(check_pairs(r, t, e));
		t->name = name;
		out->count++;
	}
	return 0;
}

int gguf_model_read(const struct gguf *g, struct gguf_model *out, struct error *e)
{
	struct reader r = {.file = g, .config = &out->config};

	TRY(find_family(&r, e));
	TRY(refuse_others(&r, e));
	TRY(read_sizes(&r, e));
	TRY(read_rope(&r, e));
	TRY(read_choices(&r, e));
	return read_tensors(&r, out, e);
}

void gguf_model_free(struct gguf_model *m)
{
	free(m->tensors);
	free(m->names);
	*m = (struct gguf_model){0};
}

bool gguf_model_is_described_by(const struct gguf_model *m, const struct gguf_key *key)
{
	size_t length = strlen(m->config.family);

	return key->name.length > length && memcmp(key->name.data, m->config.family, length) == 0 &&
		key->name.data[length] == '.';
}
