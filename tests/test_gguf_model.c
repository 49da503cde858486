/* Models in GGUF files: the description, the tensors' names and rows, the tokenizer, and the values of transformers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/json_strict.h"
#include "engine/model/checkpoint.h"
#include "engine/model/gguf_model.h"
#include "engine/text/tokenizer_gguf.h"
#include "tests/engine_support.h"
#include "tests/gguf_file.h"

const char *const test_program_name = "gguf_model";

/* ---- Two models with all block types (golden/gguf/make_models.py) ---- */

static const char *const names[] = {"llama", "qwen3"};
enum { NAMES = 2 };

static const char *model_file(int i)
{
	return golden_path(i == 0 ? "gguf/llama.gguf" : "gguf/qwen3.gguf");
}

static struct json_document *open_golden(void)
{
	struct buf text = test_read_file(golden_path("gguf/models.json"));
	struct json_document *document;
	CHECK_OK(json_parse(buf_str(&text), "models.json", 0, &document, &test_error));
	buf_free(&text);
	return document;
}

static int read_ids(const struct json *list, int32_t *out)
{
	int n = 0;
	JSON_EACH (id, list)
		out[n++] = (int32_t)json_double(id);
	return n;
}

/* The log-probabilities of what follows n tokens against the golden's. */
static void check_row(struct engine *engine, const struct json *row)
{
	int32_t ids[64];
	int n = read_ids(json_get(row, "ids"), ids), v = 0;
	int vocab = engine_facts(engine)->vocab_size;
	float *rows = calloc((size_t)vocab, sizeof *rows);
	struct engine_request r = {.tokens = ids, .n_tokens = n, .logprobs_from = n, .rows = rows};
	ck_assert_uint_eq(json_get(row, "logprobs")->count, (size_t)vocab);
	engine_result_free(ask(engine, &r));
	JSON_EACH (value, json_get(row, "logprobs")) {
		ck_assert_msg(fabs((double)rows[v] - json_double(value)) <= 2e-4,
			"token %d after %d: %.6f, expected %.6f", v, n, (double)rows[v], json_double(value));
		v++;
	}
	free(rows);
}

START_TEST(values_are_those_of_transformers)
{
	struct json_document *golden = open_golden();
	struct engine *engine =
		open_with(model_file(_i), "bf16/f32", (struct engine_config){.threads = 1, .kv_memory = 1 << 20});
	ck_assert_str_eq(engine_facts(engine)->family, names[_i]);
	JSON_EACH (row, json_get(json_get(json_root(golden), names[_i]), "rows"))
		check_row(engine, row);
	engine_close(engine);
	json_free(golden);
}
END_TEST

START_TEST(tokens_are_those_of_tokenizers)
{
	struct json_document *golden = open_golden();
	const struct json *model = json_get(json_root(golden), names[_i]);
	struct engine_text *text;
	char hash[SHA256_HEX_SIZE];
	CHECK_OK(engine_text_open(model_file(_i), &text, &test_error));
	JSON_EACH (line, json_get(model, "texts")) {
		struct str input = json_get(line, "text")->text;
		struct engine_ids ids;
		int32_t expected[128];
		int n = read_ids(json_get(line, "ids"), expected);
		struct buf back = {0};
		CHECK_OK(engine_text_encode(text, input, true, &ids, &test_error));
		ck_assert_int_eq((int)ids.count, n);
		for (int i = 0; i < n; i++)
			ck_assert_msg(ids.data[i] == expected[i], "'%.*s': token %d is %d, expected %d", STR_ARG(input),
				i, ids.data[i], expected[i]);
		engine_text_decode(text, ids.data, ids.count, true, &back);
		ck_assert_ptr_null(strstr(buf_text(&back), "<|"));
		engine_ids_free(&ids);
		buf_free(&back);
	}
	ck_assert(str_is(engine_text_piece(text, engine_text_bos(text)), "<|begin|>"));
	ck_assert(str_is(engine_text_piece(text, engine_text_eos(text)), "<|end|>"));
	struct str template = json_get(model, "template")->text;
	sha256_hex(template.data, template.length, hash);
	ck_assert_str_eq(engine_text_template_hash(text), hash);
	ck_assert_uint_eq(strlen(engine_text_fingerprint(text)), 64);
	engine_text_close(text);
	json_free(golden);
}
END_TEST

/* Every variant loads, and its answers are finite. */
START_TEST(all_variants_load)
{
	static const char *const variants[] = {
		"bf16/bf16", "fp8/fp8", "fp8w/f32", "int4/fp8", "int4g32/bf16", "int4g64/bf16"};
	for (int v = 0; v < COUNT(variants); v++) {
		struct engine *engine = open_with(
			model_file(_i), variants[v], (struct engine_config){.threads = 1, .kv_memory = 1 << 20});
		int32_t ids[3] = {1, 2, 3};
		struct engine_request r = {.tokens = ids, .n_tokens = 3, .logprobs_from = 1};
		struct engine_result *result = ask(engine, &r);
		ck_assert(isfinite(result->prompt_logprobs[0]) && isfinite(result->prompt_logprobs[1]));
		engine_result_free(result);
		engine_close(engine);
	}
}
END_TEST

START_TEST(tensors_have_the_names_of_checkpoints)
{
	struct checkpoint *c;
	const struct tensor *t;
	char first[SHA256_HEX_SIZE], second[SHA256_HEX_SIZE];
	CHECK_OK(checkpoint_open(model_file(0), &c, &test_error));
	const struct model_config *m = checkpoint_config(c);
	ck_assert(m->n_layers == 2 && m->hidden_size == 64 && m->head_dim == 16 && !m->tied_embeddings &&
		!m->qkv_bias && m->bos_token == 269);
	ck_assert(m->rope.divisors && m->n_eos_tokens == 1 && m->eos_tokens[0] == 270 && m->max_positions == 128);
	CHECK_OK(checkpoint_fingerprint(c, first, &test_error));
	CHECK_OK(checkpoint_require(c, "model.layers.1.self_attn.k_proj.weight", 32, 64, &t, &test_error));
	ck_assert(t->type == TENSOR_Q4_1 && t->pair_heads == 2 && tensor_is_bf16(t));
	CHECK_OK(checkpoint_require(c, "lm_head.weight", m->vocab_size, 64, &t, &test_error));
	ck_assert(t->type == TENSOR_F16 && t->pair_heads == 0 && tensor_is_bf16(t)); /* the file holds block types */
	CHECK_OK(checkpoint_require(c, "model.norm.weight", 64, 0, &t, &test_error));
	ck_assert(t->type == TENSOR_F32 && !tensor_is_bf16(t));
	CHECK_OK(checkpoint_fingerprint(c, second, &test_error));
	ck_assert_str_ne(first, second);
	ck_assert_ptr_null(checkpoint_find(c, "blk.0.attn_q.weight"));
	ck_assert_int_eq(
		checkpoint_require(c, "model.layers.2.self_attn.k_proj.weight", 32, 64, &t, &test_error), ERR_INPUT);
	ck_assert_ptr_nonnull(
		strstr(test_error.message, "llama.gguf: tensor \"blk.2.attn_k.weight\" [32, 64] is missing"));
	ck_assert_int_eq(checkpoint_require(c, "model.norm.weight", 65, 0, &t, &test_error), ERR_INPUT);
	ck_assert_ptr_nonnull(
		strstr(test_error.message, "tensor \"output_norm.weight\" has shape [64], expected [65]"));
	ck_assert_int_eq(checkpoint_require(c, "other", 1, 0, &t, &test_error), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "tensor \"other\" [1] is missing"));
	checkpoint_close(c);
	CHECK_OK(checkpoint_open(model_file(1), &c, &test_error));
	m = checkpoint_config(c);
	ck_assert(m->qk_norm && m->tied_embeddings && m->head_dim == 32 && m->n_heads == 2 && m->n_kv_heads == 1 &&
		!m->rope.divisors);
	CHECK_OK(checkpoint_require(c, "model.layers.0.self_attn.q_norm.weight", 32, 0, &t, &test_error));
	CHECK_OK(checkpoint_require(c, "model.layers.0.self_attn.q_proj.weight", 64, 256, &t, &test_error));
	ck_assert(t->type == TENSOR_Q4_K && t->pair_heads == 0);
	checkpoint_close(c);
}
END_TEST

/* ---- The field's case T55: one model as a folder and as a GGUF file whose tokenizer is not built ---- */

START_TEST(one_model_as_folder_and_file)
{
	const char *paths[] = {shared_path("trials/T55/tied.gguf"), shared_path("trials/T55/hf")};
	static const int32_t ids[4] = {1, 5, 9, 33};
	static const int top[5] = {44, 16, 2, 60, 55};
	static const double logits[6] = {6.23975, 3.49580, 2.57751, 2.52218, 2.28707, 0.23152};
	float rows[2][64];
	if (!paths[0])
		SKIP("no shared trials/T55");
	for (int i = 0; i < 2; i++) {
		struct engine *engine =
			open_with(paths[i], "bf16/f32", (struct engine_config){.threads = 1, .kv_memory = 1 << 20});
		struct engine_request r = {.tokens = ids, .n_tokens = 4, .logprobs_from = 4, .rows = rows[i]};
		engine_result_free(ask(engine, &r));
		engine_close(engine);
		ck_assert_double_eq_tol((double)rows[i][44], -0.29855, 2e-5);
		for (int k = 0; k < 5; k++)
			ck_assert_double_eq_tol((double)(rows[i][top[k]] - rows[i][44]), logits[k] - logits[0], 2e-5);
		ck_assert_double_eq_tol((double)(rows[i][0] - rows[i][44]), logits[5] - logits[0], 2e-5);
	}
	ck_assert_mem_eq(rows[0], rows[1], sizeof rows[0]);
	struct engine_text *text;
	struct error why;
	CHECK_OK(engine_text_open_if_any(paths[0], &text, &why, &test_error));
	ck_assert(text == NULL && why.code == ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(why.message, "tied.gguf: tokenizer.ggml.model 'llama' is not built; built: gpt2"));
}
END_TEST

/* ---- Descriptions ---- */

/* A model of one layer: H 8, N 2, G 1, D 4, I 16, V 3, all F32 and zero but where a case adds or leaves out
 * something. */
struct change {
	const char *without;                 /* a key or tensor that is left out */
	void (*add)(struct gguf_file *file); /* NULL: nothing */
};

static void base_key(struct gguf_file *f, const struct change *c, const char *key, uint32_t value)
{
	if (!c->without || strcmp(c->without, key) != 0)
		file_u32(f, key, value);
}

static void base_tensor(struct gguf_file *f, const struct change *c, const char *name, uint64_t rows, uint64_t columns)
{
	static const float zeros[16 * 8];
	if (!c->without || strcmp(c->without, name) != 0)
		file_tensor(f, name, FILE_F32, rows, columns, zeros, (rows ? rows : 1) * columns * sizeof(float));
}

static struct buf base_file(const char *family, struct change c)
{
	static const char *const layer_matrices[] = {
		"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"};
	static const uint64_t shapes[7][2] = {{8, 8}, {4, 8}, {4, 8}, {8, 8}, {16, 8}, {16, 8}, {8, 16}};
	struct gguf_file f = {0};
	char name[64];
	if (!c.without || strcmp(c.without, "general.architecture") != 0)
		file_text(&f, "general.architecture", family);
	static const struct {
		const char *suffix;
		uint32_t value;
	} keys[] = {{"block_count", 1}, {"context_length", 32}, {"embedding_length", 8}, {"feed_forward_length", 16},
		{"attention.head_count", 2}, {"attention.head_count_kv", 1}};
	for (int i = 0; i < COUNT(keys); i++) {
		snprintf(name, sizeof(name), "%s.%s", family, keys[i].suffix);
		base_key(&f, &c, name, keys[i].value);
	}
	snprintf(name, sizeof(name), "%s.attention.layer_norm_rms_epsilon", family);
	if (!c.without || strcmp(c.without, name) != 0)
		file_f32(&f, name, 1e-5f);
	base_tensor(&f, &c, "token_embd.weight", 3, 8);
	base_tensor(&f, &c, "output_norm.weight", 0, 8);
	base_tensor(&f, &c, "blk.0.attn_norm.weight", 0, 8);
	base_tensor(&f, &c, "blk.0.ffn_norm.weight", 0, 8);
	for (int i = 0; i < 7; i++) {
		snprintf(name, sizeof(name), "blk.0.%s.weight", layer_matrices[i]);
		base_tensor(&f, &c, name, shapes[i][0], shapes[i][1]);
	}
	if (c.add)
		c.add(&f);
	return file_finish(&f);
}

/* Reads the description; *g and *m are the caller's. */
static int read_model(const struct buf *file, struct gguf **g, struct gguf_model *m)
{
	*m = (struct gguf_model){0};
	CHECK_OK(gguf_parse((const uint8_t *)file->data, file->length, "case", g, &test_error));
	return gguf_model_read(*g, m, &test_error);
}

static void add_linear(struct gguf_file *f)
{
	file_text(f, "llama.rope.scaling.type", "linear");
	file_f32(f, "llama.rope.scaling.factor", 4.0f);
}

static void add_frequency(struct gguf_file *f)
{
	file_f32(f, "llama.rope.freq_base", 500000.0f);
}

static void add_biases(struct gguf_file *f)
{
	static const float zeros[16];
	file_tensor(f, "blk.0.attn_q.bias", FILE_F32, 0, 8, zeros, 32);
	file_tensor(f, "blk.0.attn_k.bias", FILE_F32, 0, 4, zeros, 16);
	file_tensor(f, "blk.0.attn_output.bias", FILE_F32, 0, 8, zeros, 32);
	file_tensor(f, "blk.0.ffn_gate.bias", FILE_F32, 0, 16, zeros, 64);
}

static void add_head(struct gguf_file *f)
{
	static const float zeros[24];
	file_tensor(f, "output.weight", FILE_F32, 3, 8, zeros, sizeof(zeros));
	file_u32(f, "tokenizer.ggml.bos_token_id", 1);
	file_u32(f, "tokenizer.ggml.eos_token_id", 2);
}

static void add_long_heads(struct gguf_file *f)
{
	file_u32(f, "qwen3.attention.key_length", 128);
	file_u32(f, "qwen3.attention.value_length", 128);
}

static void add_unknown(struct gguf_file *f)
{
	static const float zeros[2];
	file_tensor(f, "blk.0.attn_sinks.weight", FILE_F32, 0, 2, zeros, 8);
	file_tensor(f, "blk.00.attn_norm.weight", FILE_F32, 0, 2, zeros, 8);
	file_tensor(f, "blk.0.attn_norm", FILE_F32, 0, 2, zeros, 8);
	file_tensor(f, "blk..attn_norm.weight", FILE_F32, 0, 2, zeros, 8);
	file_tensor(f, "blk.99999.attn_norm.weight", FILE_F32, 0, 2, zeros, 8);
	file_tensor(f, "token_embd.weights", FILE_F32, 0, 2, zeros, 8);
	file_tensor(f, "model.norm.weight", FILE_F32, 0, 2, zeros, 8);
	file_tensor(f, ".weight", FILE_F32, 0, 2, zeros, 8);
}

static const struct {
	const char *name, *family;
	struct change change;
	const char *expected; /* a part of the description */
} good[] = {
	{"base", "llama", {NULL, NULL},
		"llama L1 H8 N2 G1 D4 I16 V3 P32 theta10000 R4 scaling0 factor1 tied1 qkv0 o0 mlp0 qk0 bos-1 eos0 "
		"tensors11;"},
	{"kv heads absent", "qwen2", {"qwen2.attention.head_count_kv", NULL}, "N2 G2 D4 "},
	{"a linear rope", "llama", {NULL, add_linear}, "theta10000 R4 scaling1 factor4 "},
	{"another base", "llama", {NULL, add_frequency}, "theta500000 R4 scaling0 factor1 "},
	{"biases", "llama", {NULL, add_biases}, "tied1 qkv1 o1 mlp1 qk0 bos-1 eos0 tensors15;"},
	{"a head and roles", "llama", {NULL, add_head}, "tied0 qkv0 o0 mlp0 qk0 bos1 eos1 tensors12;"},
	{"names that are not known", "llama", {NULL, add_unknown}, "tensors11;"},
	{"qwen2", "qwen2", {NULL, NULL},
		"qwen2 L1 H8 N2 G1 D4 I16 V3 P32 theta10000 R4 scaling0 factor1 tied1 qkv1 o0 mlp0 qk0 "},
	{"qwen3", "qwen3", {NULL, add_long_heads},
		"qwen3 L1 H8 N2 G1 D128 I16 V3 P32 theta10000 R128 scaling0 factor1 tied1 qkv0 o0 mlp0 qk1 "},
};

START_TEST(reads_descriptions)
{
	struct buf file = base_file(good[_i].family, good[_i].change), text = {0};
	struct gguf *g;
	struct gguf_model m;
	ck_assert_msg(read_model(&file, &g, &m) == 0, "%s: %s", good[_i].name, test_error.message);
	const struct model_config *c = &m.config;
	buf_printf(&text, "%s L%d H%d N%d G%d D%d I%d V%d P%d theta%g R%d scaling%d factor%g ", c->family, c->n_layers,
		c->hidden_size, c->n_heads, c->n_kv_heads, c->head_dim, c->inner_size, c->vocab_size, c->max_positions,
		c->rope.theta, c->rope.rotary_dim, c->rope.scaling, c->rope.factor);
	buf_printf(&text, "tied%d qkv%d o%d mlp%d qk%d bos%d eos%d tensors%zu;", c->tied_embeddings, c->qkv_bias,
		c->o_bias, c->mlp_bias, c->qk_norm, c->bos_token, c->n_eos_tokens, m.count);
	ck_assert_msg(strstr(buf_text(&text), good[_i].expected), "%s: %s", good[_i].name, buf_text(&text));
	ck_assert_float_eq(c->norm_eps, 1e-5f);
	for (size_t i = 0; i < m.count; i++) {
		bool pairs = strstr(m.tensors[i].name, "q_proj") || strstr(m.tensors[i].name, "k_proj");
		int heads = strstr(m.tensors[i].name, "q_proj") ? 2 : c->n_kv_heads;
		ck_assert_int_eq(m.tensors[i].pair_heads, pairs && strcmp(c->family, "llama") == 0 ? heads : 0);
		ck_assert(!m.tensors[i].round_to_bf16); /* nothing in it is quantised */
	}
	buf_free(&text);
	gguf_model_free(&m);
	gguf_close(g);
	buf_free(&file);
}
END_TEST

/* Two files that differ in one key of the description are two models. */
START_TEST(fingerprints_know_the_description)
{
	static const struct change changes[] = {{NULL, NULL}, {NULL, add_frequency}, {NULL, add_head}};
	char hashes[3][SHA256_HEX_SIZE];
	for (int i = 0; i < 3; i++) {
		struct buf file = base_file("llama", changes[i]);
		struct checkpoint *c;
		scratch_folder();
		CHECK_OK(checkpoint_open(test_write_file("m.gguf", file.data, file.length), &c, &test_error));
		CHECK_OK(checkpoint_fingerprint(c, hashes[i], &test_error));
		checkpoint_close(c);
		buf_free(&file);
	}
	ck_assert_str_ne(hashes[0], hashes[1]);
	ck_assert_str_eq(
		hashes[0], hashes[2]); /* a tensor counts once it is used, a token of a role is the tokenizer's */
}
END_TEST

#define ADD(name, statement)                        \
	static void add_##name(struct gguf_file *f) \
	{                                           \
		static const float zeros[64] = {1}; \
		(void)zeros;                        \
		statement;                          \
	}
ADD(parts, file_u32(f, "split.count", 3))
ADD(experts, file_u32(f, "llama.expert_count", 8))
ADD(window, file_u32(f, "qwen2.attention.sliding_window", 4096))
ADD(yarn, file_text(f, "qwen2.rope.scaling.type", "yarn"))
ADD(linear_alone, file_text(f, "llama.rope.scaling.type", "linear"))
ADD(part_of_heads, file_u32(f, "llama.rope.dimension_count", 2))
ADD(odd_heads, file_u32(f, "llama.attention.key_length", 3))
ADD(value_length, file_u32(f, "llama.attention.value_length", 8))
ADD(q_norm, file_tensor(f, "blk.0.attn_q_norm.weight", FILE_F32, 0, 4, zeros, 16))
ADD(base_of_text, file_text(f, "llama.rope.freq_base", "10000"))
ADD(bos_of_text, file_text(f, "tokenizer.ggml.bos_token_id", "<s>"))
ADD(few_divisors, file_tensor(f, "rope_freqs.weight", FILE_F32, 0, 1, zeros, 4))
ADD(zero_divisor, file_tensor(f, "rope_freqs.weight", FILE_F32, 0, 2, zeros, 8))
ADD(half_divisors, file_tensor(f, "rope_freqs.weight", FILE_F16, 0, 2, zeros, 4))
ADD(no_heads, file_u32(f, "llama.attention.head_count", 0))
ADD(many_heads, file_u32(f, "llama.attention.head_count", 16))
ADD(kv_heads, file_u32(f, "llama.attention.head_count_kv", 3))
ADD(huge_heads, file_u32(f, "llama.embedding_length", 65536))
ADD(large_hidden, file_u32(f, "llama.embedding_length", 65537))
ADD(heads_by_layer, file_array(f, "llama.attention.head_count", GGUF_U32, 0))
ADD(embedding_vector, file_tensor(f, "token_embd.weight", FILE_F32, 0, 8, zeros, 32))
ADD(short_q, file_tensor(f, "blk.0.attn_q.weight", FILE_F32, 7, 8, zeros, 224))
ADD(long_q_bias, file_tensor(f, "blk.0.attn_q.bias", FILE_F32, 0, 9, zeros, 36))

static const struct {
	const char *family;
	struct change change;
	const char *expected; /* how the message begins, after the name of the file */
} bad[] = {
	{"llama", {"general.architecture", NULL}, "general.architecture is missing"},
	{"gemma3", {NULL, NULL}, "general.architecture 'gemma3' is not built; built: llama, qwen2, qwen3"},
	{"Llama", {NULL, NULL}, "general.architecture 'Llama' is not built"},
	{"qwen2moe", {NULL, NULL}, "general.architecture 'qwen2moe' is not built"},
	{"llama", {"llama.block_count", NULL}, "llama.block_count is missing"},
	{"llama", {"llama.context_length", NULL}, "llama.context_length is missing"},
	{"llama", {"llama.embedding_length", NULL}, "llama.embedding_length is missing"},
	{"llama", {"llama.feed_forward_length", NULL}, "llama.feed_forward_length is missing"},
	{"llama", {"llama.attention.head_count", NULL}, "llama.attention.head_count is missing"},
	{"llama", {"llama.attention.layer_norm_rms_epsilon", NULL},
		"llama.attention.layer_norm_rms_epsilon is missing"},
	{"llama", {"token_embd.weight", NULL}, "tensor \"token_embd.weight\" is missing"},
	{"llama", {"token_embd.weight", add_embedding_vector},
		"tensor \"token_embd.weight\" is no matrix of a row per token"},
	{"llama", {NULL, add_parts}, "split.count is 3: a model in several files is not built"},
	{"llama", {NULL, add_experts}, "llama.expert_count is 8: a mixture of experts is not built"},
	{"qwen2", {NULL, add_window}, "qwen2.attention.sliding_window is 4096: attention over a window is not built"},
	{"qwen2", {NULL, add_yarn}, "qwen2.rope.scaling.type 'yarn' is not built; built: none, linear"},
	{"llama", {NULL, add_linear_alone}, "llama.rope.scaling.factor is missing"},
	{"llama", {NULL, add_base_of_text}, "llama.rope.freq_base is \"10000\", expected a number from 1 to 1e+12"},
	{"llama", {NULL, add_part_of_heads},
		"llama.rope.dimension_count: a rope over 2 of 4 dimensions is not built for llama"},
	{"llama", {NULL, add_odd_heads},
		"heads of 3 values (embedding_length 8, head_count 2), expected an even number"},
	{"llama", {NULL, add_value_length}, "llama.attention.value_length is 8, expected the length of a key, 4"},
	{"llama", {"llama.attention.head_count", add_no_heads},
		"llama.attention.head_count is 0, expected an integer from 1 to 4096"},
	{"llama", {"llama.attention.head_count", add_many_heads},
		"heads of 0 values (embedding_length 8, head_count 16)"},
	{"llama", {"llama.attention.head_count", add_heads_by_layer},
		"llama.attention.head_count is an array, expected an integer"},
	{"llama", {"llama.attention.head_count_kv", add_kv_heads},
		"llama.attention.head_count_kv is 3, expected a divisor of the head_count 2"},
	{"llama", {"llama.embedding_length", add_huge_heads},
		"heads of 32768 values (embedding_length 65536, head_count 2), expected an even number from 2 to 4096"},
	{"llama", {"llama.embedding_length", add_large_hidden},
		"llama.embedding_length is 65537, expected an integer from 1 to 65536"},
	{"llama", {NULL, add_q_norm}, "tensor \"blk.0.attn_q_norm.weight\": norms of q and k are not built for llama"},
	{"llama", {NULL, add_bos_of_text}, "tokenizer.ggml.bos_token_id is \"<s>\", expected an integer"},
	{"llama", {NULL, add_few_divisors},
		"tensor \"rope_freqs.weight\" has 1 values of type F32, expected 2 of type F32"},
	{"llama", {NULL, add_half_divisors},
		"tensor \"rope_freqs.weight\" has 2 values of type F16, expected 2 of type F32"},
	{"llama", {NULL, add_zero_divisor}, "tensor \"rope_freqs.weight\": value 1 is 0, expected a positive number"},
	{"llama", {"blk.0.attn_q.weight", add_short_q},
		"tensor \"blk.0.attn_q.weight\" has 7 rows of type F32, expected 8 for 2 heads"},
	{"llama", {NULL, add_long_q_bias},
		"tensor \"blk.0.attn_q.bias\" has 9 rows of type F32, expected 8 for 2 heads"},
};

START_TEST(refuses_bad_descriptions)
{
	static const char name[] = "case: ";
	struct buf file = base_file(bad[_i].family, bad[_i].change);
	struct gguf *g;
	struct gguf_model m;
	ck_assert_int_eq(read_model(&file, &g, &m), ERR_INPUT);
	ck_assert_msg(strncmp(test_error.message, name, strlen(name)) == 0 &&
			strncmp(test_error.message + strlen(name), bad[_i].expected, strlen(bad[_i].expected)) == 0,
		"%s, expected %s", test_error.message, bad[_i].expected);
	gguf_model_free(&m);
	gguf_close(g);
	buf_free(&file);
}
END_TEST

/* ---- Tokenizers ---- */

/* The bytes that print, two merges, two special tokens. */
struct tokenizer_case {
	const char *model, *pre; /* NULL: absent */
	const char *merge;       /* the second one */
	const char *token;       /* the last one */
	int types;               /* entries of token_type; -1: absent */
	int bos, eos;            /* -1: absent */
	int add_bos, add_eos;    /* -1: absent */
};

static struct buf tokenizer_file(const struct tokenizer_case *c)
{
	struct gguf_file f = {0};
	int tokens = 94 + 4;
	if (c->model)
		file_text(&f, "tokenizer.ggml.model", c->model);
	if (c->pre)
		file_text(&f, "tokenizer.ggml.pre", c->pre);
	file_array(&f, "tokenizer.ggml.tokens", GGUF_STRING, (uint64_t)tokens);
	for (char byte = '!'; byte <= '~'; byte++)
		put_text(&f.keys, (struct str){&byte, 1});
	put_text(&f.keys, str_of("ab"));
	put_text(&f.keys, str_of("abc"));
	put_text(&f.keys, str_of("<s>"));
	put_text(&f.keys, str_of(c->token));
	file_array(&f, "tokenizer.ggml.merges", GGUF_STRING, 2);
	put_text(&f.keys, str_of("a b"));
	put_text(&f.keys, str_of(c->merge));
	if (c->types >= 0) {
		file_array(&f, "tokenizer.ggml.token_type", GGUF_I32, (uint64_t)c->types);
		for (int i = 0; i < c->types; i++)
			put_u32(&f.keys, i == 96 ? 3 : i == 97 ? 4 : 1);
	}
	if (c->bos >= 0)
		file_u32(&f, "tokenizer.ggml.bos_token_id", (uint32_t)c->bos);
	if (c->eos >= 0)
		file_u32(&f, "tokenizer.ggml.eos_token_id", (uint32_t)c->eos);
	if (c->add_bos >= 0)
		file_bool(&f, "tokenizer.ggml.add_bos_token", c->add_bos);
	if (c->add_eos >= 0)
		file_bool(&f, "tokenizer.ggml.add_eos_token", c->add_eos);
	return file_finish(&f);
}

#define TOKENIZER(...)                                                                                               \
	{                                                                                                            \
		.model = "gpt2", .pre = "gpt-2", .merge = "ab c", .token = "<x>", .types = 98, .bos = -1, .eos = -1, \
		.add_bos = -1, .add_eos = -1, __VA_ARGS__                                                            \
	}
#pragma GCC diagnostic ignored "-Woverride-init"

static const struct {
	const char *name;
	struct tokenizer_case c;
	const char *text, *ids; /* with special tokens */
} tokenizers[] = {
	{"merges", TOKENIZER(.bos = 96), "abcab<s>c", "95 94 96 66"},
	{"a user's token", TOKENIZER(.bos = 96), "a<x>b", "64 97 65"},
	{"no types: the roles alone", TOKENIZER(.types = -1, .bos = 96), "<s><x>", "96 27 87 29"},
	{"a role makes a token special", TOKENIZER(.types = -1, .eos = 97), "<s><x>", "27 82 29 97"},
	{"BOS", TOKENIZER(.bos = 96, .add_bos = 1), "ab", "96 94"},
	{"no BOS", TOKENIZER(.bos = 96, .add_bos = 0), "ab", "94"},
	{"EOS", TOKENIZER(.eos = 97, .add_eos = 1), "ab", "94 97"},
	{"BOS and EOS", TOKENIZER(.bos = 96, .eos = 97, .add_bos = 1, .add_eos = 1), "", "96 97"},
	{"BOS by default", TOKENIZER(.pre = "llama-bpe", .bos = 96), "ab", "96 94"},
	{"no BOS by will", TOKENIZER(.pre = "llama-bpe", .bos = 96, .add_bos = 0), "ab", "94"},
	{"whole pieces",
		TOKENIZER(.pre = "llama-bpe", .merge = "b c", .token = "bc", .types = -1, .bos = 96, .add_bos = 0),
		"abc", "95"},
	{"merges before pieces", TOKENIZER(.merge = "b c", .token = "bc", .types = -1), "abc", "94 66"},
	{"qwen2", TOKENIZER(.pre = "qwen2"), "ab12", "94 16 17"},
	{"smollm", TOKENIZER(.pre = "smollm", .merge = "1 2", .token = "12", .types = -1), "12", "16 17"},
	{"gpt-2", TOKENIZER(.merge = "1 2", .token = "12", .types = -1), "12", "97"},
	{"default", TOKENIZER(.pre = "default", .merge = "! !", .token = "!!", .types = -1), "!!ab", "97 94"},
	{"default cuts signs from each other", TOKENIZER(.pre = "default", .merge = "! #", .token = "!#", .types = -1),
		"a!#", "64 97"},
	{"default cuts three digits", TOKENIZER(.pre = "default", .merge = "3 4", .token = "34", .types = -1), "1234",
		"16 17 18 19"},
};

START_TEST(reads_tokenizers)
{
	struct buf file = tokenizer_file(&tokenizers[_i].c), shown = {0};
	struct gguf *g;
	struct tokenizer *t;
	struct token_ids ids = {0};
	CHECK_OK(gguf_parse((const uint8_t *)file.data, file.length, "case", &g, &test_error));
	ck_assert_msg(tokenizer_open_gguf(g, &t, &test_error) == 0, "%s: %s", tokenizers[_i].name, test_error.message);
	gguf_close(g); /* the tokenizer keeps what it needs */
	buf_free(&file);
	CHECK_OK(tokenizer_encode(t, str_of(tokenizers[_i].text), TOKENIZER_SPECIALS, &ids, &test_error));
	for (size_t i = 0; i < ids.count; i++)
		buf_printf(&shown, "%s%d", i ? " " : "", ids.data[i]);
	ck_assert_msg(
		strcmp(buf_text(&shown), tokenizers[_i].ids) == 0, "%s: %s", tokenizers[_i].name, buf_text(&shown));
	ck_assert_int_eq(tokenizer_bos(t), tokenizers[_i].c.bos);
	ck_assert_int_eq(tokenizer_eos(t), tokenizers[_i].c.eos);
	token_ids_free(&ids);
	tokenizer_free(t);
	buf_free(&shown);
}
END_TEST

static const struct {
	struct tokenizer_case c;
	int status;
	const char *expected; /* how the message begins, after the name of the file */
} bad_tokenizers[] = {
	{TOKENIZER(.model = NULL), ERR_MISSING, "the file has no tokenizer (tokenizer.ggml.model)"},
	{TOKENIZER(.model = "llama"), ERR_INPUT,
		"tokenizer.ggml.model 'llama' is not built; built: gpt2 (byte-level BPE)"},
	{TOKENIZER(.model = "bert"), ERR_INPUT, "tokenizer.ggml.model 'bert' is not built"},
	{TOKENIZER(.pre = NULL), ERR_INPUT, "tokenizer.ggml.pre is missing"},
	{TOKENIZER(.pre = "tekken"), ERR_INPUT,
		"tokenizer.ggml.pre 'tekken' is not built; built: default, gpt-2, llama-bpe, qwen2, smollm"},
	{TOKENIZER(.pre = ""), ERR_INPUT, "tokenizer.ggml.pre '' is not built"},
	{TOKENIZER(.types = 97), ERR_INPUT,
		"tokenizer.ggml.token_type has 97 entries, expected one for each of the 98 tokens"},
	{TOKENIZER(.merge = "abc"), ERR_INPUT, "merge 1 is \"abc\", expected two tokens with one space between them"},
	{TOKENIZER(.merge = "a b c"), ERR_INPUT, "merge 1 is \"a b c\", expected two tokens"},
	{TOKENIZER(.merge = "q r"), ERR_INPUT, "model: merge 1 needs the token \"qr\""},
	{TOKENIZER(.token = "\xff"), ERR_INPUT, "token 97 is not UTF-8"},
	{TOKENIZER(.token = "ab"), ERR_INPUT, "the token \"ab\" is in the vocabulary twice"},
	{TOKENIZER(.bos = 98), ERR_INPUT, "tokenizer.ggml.bos_token_id is 98, expected an integer from 0 to 97"},
	{TOKENIZER(.add_bos = 1), ERR_INPUT, "tokenizer.ggml.add_bos_token is true, but the file names no such token"},
	{TOKENIZER(.add_eos = 1), ERR_INPUT, "tokenizer.ggml.add_eos_token is true, but the file names no such token"},
};

START_TEST(refuses_bad_tokenizers)
{
	static const char name[] = "case: ";
	struct buf file = tokenizer_file(&bad_tokenizers[_i].c);
	struct gguf *g;
	struct tokenizer *t;
	CHECK_OK(gguf_parse((const uint8_t *)file.data, file.length, "case", &g, &test_error));
	ck_assert_int_eq(tokenizer_open_gguf(g, &t, &test_error), bad_tokenizers[_i].status);
	ck_assert_msg(strncmp(test_error.message, name, strlen(name)) == 0 &&
			strncmp(test_error.message + strlen(name), bad_tokenizers[_i].expected,
				strlen(bad_tokenizers[_i].expected)) == 0,
		"%s, expected %s", test_error.message, bad_tokenizers[_i].expected);
	gguf_close(g);
	buf_free(&file);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *values = test_case(suite, "values", 60), *descriptions = test_case(suite, "descriptions", 0);
	TCase *tokens = test_case(suite, "tokenizers", 0);

	tcase_add_loop_test(values, values_are_those_of_transformers, 0, NAMES);
	tcase_add_loop_test(values, tokens_are_those_of_tokenizers, 0, NAMES);
	tcase_add_loop_test(values, all_variants_load, 0, NAMES);
	tcase_add_test(values, tensors_have_the_names_of_checkpoints);
	tcase_add_test(values, one_model_as_folder_and_file);
	tcase_add_loop_test(descriptions, reads_descriptions, 0, COUNT(good));
	tcase_add_test(descriptions, fingerprints_know_the_description);
	tcase_add_loop_test(descriptions, refuses_bad_descriptions, 0, COUNT(bad));
	tcase_add_loop_test(tokens, reads_tokenizers, 0, COUNT(tokenizers));
	tcase_add_loop_test(tokens, refuses_bad_tokenizers, 0, COUNT(bad_tokenizers));
}
