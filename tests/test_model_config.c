#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/model/model_config.h"
#include "tests/support.h"

const char *const test_program_name = "model_config";

/* A small model; cases append members, and the last of doubled keys wins. */
#define BASE                                                                                             \
	"\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":3," \
	"\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":256,\"rms_norm_eps\":1e-05," \
	"\"max_position_embeddings\":512"

static int parse_text(const char *config, const char *generation, struct model_config *out)
{
	struct json_document *document, *generation_document = NULL;
	CHECK_OK(json_parse(str_of(config), "case", JSON_LAST_KEY_WINS, &document, &test_error));
	if (generation)
		CHECK_OK(json_parse(str_of(generation), "case", JSON_LAST_KEY_WINS, &generation_document, &test_error));
	int status = model_config_parse(json_root(document), "/models/x/config.json",
		generation ? json_root(generation_document) : NULL, out, &test_error);
	json_free(generation_document);
	json_free(document);
	return status;
}

/* The description as text: a case expects parts of it. */
static void describe(const struct model_config *m, struct buf *out)
{
	static const char *const scalings[] = {"none", "linear", "llama3", "yarn"};
	const struct rope_config *r = &m->rope;
	buf_printf(out, "%s H%d L%d N%d G%d D%d I%d V%d P%d eps%g tied%d qkv%d o%d mlp%d qk%d ", m->family,
		m->hidden_size, m->n_layers, m->n_heads, m->n_kv_heads, m->head_dim, m->inner_size, m->vocab_size,
		m->max_positions, (double)m->norm_eps, m->tied_embeddings, m->qkv_bias, m->o_bias, m->mlp_bias,
		m->qk_norm);
	buf_printf(out, "attention%d router%d rope%d %s theta%g R%d factor%g ", m->attention, m->moe.router, r->kind,
		scalings[r->scaling], r->theta, r->rotary_dim, r->factor);
	if (r->scaling == ROPE_SCALING_LLAMA3)
		buf_printf(out, "low%g high%g original%g ", r->low_freq_factor, r->high_freq_factor,
			r->original_max_positions);
	buf_printf(out, "bos%d eos", m->bos_token);
	for (int i = 0; i < m->n_eos_tokens; i++)
		buf_printf(out, "%s%d", i ? "," : "", m->eos_tokens[i]);
	buf_append_char(out, ';');
}

static const struct {
	const char *name, *config, *generation, *expected;
} good[] = {
	{"base", "{" BASE "}", NULL,
		"llama H64 L3 N4 G2 D16 I128 V256 P512 eps1e-05 tied0 qkv0 o0 mlp0 qk0 attention0 router0 rope0 none "
		"theta10000 R16 factor1 bos-1 eos;"},
	{"smallest",
		"{\"model_type\":\"llama\",\"hidden_size\":2,\"intermediate_size\":1,\"num_hidden_layers\":1,"
		"\"num_attention_heads\":1,\"vocab_size\":1}",
		NULL, "H2 L1 N1 G1 D2 I1 V1 P2048 eps1e-06 "},
	{"largest sizes",
		"{" BASE ",\"hidden_size\":65536,\"intermediate_size\":1048576,\"num_hidden_layers\":512,"
		"\"num_attention_heads\":4096,\"num_key_value_heads\":1,\"head_dim\":4096,\"vocab_size\":16777216,"
		"\"max_position_embeddings\":16777216}",
		NULL, "H65536 L512 N4096 G1 D4096 I1048576 V16777216 P16777216 "},
	{"head_dim null", "{" BASE ",\"head_dim\":null}", NULL, "N4 G2 D16 "},
	{"head_dim larger than H/N", "{" BASE ",\"head_dim\":32}", NULL, "N4 G2 D32 "},
	{"H/N rounded down", "{" BASE ",\"num_attention_heads\":5,\"num_key_value_heads\":5}", NULL, "N5 G5 D12 "},
	{"kv heads null", "{" BASE ",\"num_key_value_heads\":null}", NULL, "N4 G4 "},
	{"multi-query", "{" BASE ",\"num_key_value_heads\":1}", NULL, "N4 G1 "},
	{"biases", "{" BASE ",\"attention_bias\":true}", NULL, "qkv1 o1 mlp0 "},
	{"mlp bias", "{" BASE ",\"mlp_bias\":true}", NULL, "qkv0 o0 mlp1 "},
	{"tied", "{" BASE ",\"tie_word_embeddings\":true}", NULL, "tied1 "},
	{"tie null", "{" BASE ",\"tie_word_embeddings\":null}", NULL, "tied0 "},
	{"silu", "{" BASE ",\"hidden_act\":\"silu\"}", NULL, "llama "},
	{"last of doubled keys", "{" BASE ",\"num_hidden_layers\":7}", NULL, "L7 "},
	{"unknown members", "{" BASE ",\"pretraining_tp\":1,\"Hidden_size\":3,\"x\":{\"hidden_size\":[]}}", NULL,
		"H64 "},
	{"no quantisation", "{" BASE ",\"quantization_config\":null}", NULL, "llama "},
	{"one eos", "{" BASE ",\"eos_token_id\":2,\"bos_token_id\":1}", NULL, "bos1 eos2;"},
	{"eos list", "{" BASE ",\"eos_token_id\":[2,0,2147483647]}", NULL, "eos2,0,2147483647;"},
	{"eos null", "{" BASE ",\"eos_token_id\":null}", NULL, "eos;"},
	{"eos list of none", "{" BASE ",\"eos_token_id\":[]}", NULL, "eos;"},
	{"sixteen eos", "{" BASE ",\"eos_token_id\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}", NULL, ",15,16;"},
	{"generation wins", "{" BASE ",\"eos_token_id\":2}", "{\"eos_token_id\":[0,2],\"bos_token_id\":9}",
		"bos-1 eos0,2;"},
	{"generation with one", "{" BASE ",\"eos_token_id\":[2,3]}", "{\"eos_token_id\":5}", "eos5;"},
	{"generation silent", "{" BASE ",\"eos_token_id\":[2,3]}", "{\"temperature\":0.5}", "eos2,3;"},
	{"generation null", "{" BASE ",\"eos_token_id\":2}", "{\"eos_token_id\":null}", "eos2;"},
	{"old rope", "{" BASE ",\"rope_theta\":100000,\"rope_scaling\":null}", NULL, "none theta100000 R16 factor1 "},
	{"new rope", "{" BASE ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5e5}}", NULL,
		"none theta500000 "},
	{"inner theta wins", "{" BASE ",\"rope_theta\":2e4,\"rope_parameters\":{\"rope_theta\":3e4}}", NULL,
		"theta30000 "},
	{"outer theta", "{" BASE ",\"rope_theta\":2e4,\"rope_parameters\":{\"rope_type\":\"default\"}}", NULL,
		"theta20000 "},
	{"linear, old", "{" BASE ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}}", NULL,
		"linear theta10000 R16 factor2.5 "},
	{"rope_type before type",
		"{" BASE ",\"rope_scaling\":{\"type\":\"yarn\",\"rope_type\":\"linear\",\"factor\":4}}", NULL,
		"linear theta10000 R16 factor4 "},
	{"rope_scaling before rope_parameters",
		"{" BASE
		",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},\"rope_parameters\":{\"rope_theta\":3e4}}",
		NULL, "linear theta10000 R16 factor2 "},
	{"empty rope_scaling", "{" BASE ",\"rope_scaling\":{},\"rope_parameters\":{\"rope_theta\":3e4}}", NULL,
		"theta30000 "},
	{"llama3",
		"{" BASE ",\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
		"\"high_freq_factor\":4.0,\"original_max_position_embeddings\":64,\"rope_theta\":500000.0}}",
		NULL, "llama3 theta500000 R16 factor8 low1 high4 original64 "},
	{"llama3, old",
		"{" BASE ",\"rope_theta\":500000.0,\"rope_scaling\":{\"type\":\"llama3\",\"factor\":32.0,"
		"\"low_freq_factor\":1.0,\"high_freq_factor\":4.0}}",
		NULL, "llama3 theta500000 R16 factor32 low1 high4 original512 "},
	{"llama3, window outside",
		"{" BASE ",\"original_max_position_embeddings\":99,\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2,"
		"\"low_freq_factor\":1,\"high_freq_factor\":4,\"original_max_position_embeddings\":64}}",
		NULL, "original99 "},
	{"whole rope", "{" BASE ",\"partial_rotary_factor\":1.0}", NULL, "R16 "},
	{"qwen2",
		"{" BASE
		",\"model_type\":\"qwen2\",\"attention_bias\":false,\"mlp_bias\":true,\"use_sliding_window\":false}",
		NULL, "qwen2 H64 L3 N4 G2 D16 I128 V256 P512 eps1e-05 tied0 qkv1 o0 mlp0 qk0 "},
	{"qwen2, layers in full",
		"{" BASE ",\"model_type\":\"qwen2\",\"layer_types\":[\"full_attention\",\"full_attention\"]}", NULL,
		"qwen2 "},
	{"qwen2, window without use",
		"{" BASE
		",\"model_type\":\"qwen2\",\"sliding_window\":131072,\"max_window_layers\":28,\"layer_types\":null}",
		NULL, "qwen2 "},
	{"qwen2, longest context absent", "{" BASE ",\"model_type\":\"qwen2\",\"max_position_embeddings\":null}", NULL,
		"P32768 "},
	{"qwen3", "{" BASE ",\"model_type\":\"qwen3\",\"head_dim\":32}", NULL,
		"qwen3 H64 L3 N4 G2 D32 I128 V256 P512 eps1e-05 tied0 qkv0 o0 mlp0 qk1 "},
	{"qwen3, head_dim absent", "{" BASE ",\"model_type\":\"qwen3\"}", NULL, "D128 "},
	{"qwen3, biases", "{" BASE ",\"model_type\":\"qwen3\",\"attention_bias\":true}", NULL, "qkv1 o1 mlp0 qk1 "},
	{"text_config",
		"{\"model_type\":\"wrapper\",\"eos_token_id\":7,\"bos_token_id\":6,\"tie_word_embeddings\":true,"
		"\"hidden_size\":9,\"text_config\":{" BASE ",\"bos_token_id\":5}}",
		NULL,
		"llama H64 L3 N4 G2 D16 I128 V256 P512 eps1e-05 tied1 qkv0 o0 mlp0 qk0 attention0 router0 rope0 none "
		"theta10000 R16 factor1 bos5 eos7;"},
};

START_TEST(accepts_good_configs)
{
	struct model_config m;
	memset(&m, 0xff, sizeof(m));
	int status = parse_text(good[_i].config, good[_i].generation, &m);
	ck_assert_msg(status == 0, "%s: %s", good[_i].name, test_error.message);
	struct buf text = {0};
	describe(&m, &text);
	ck_assert_msg(strstr(buf_text(&text), good[_i].expected), "%s: %s", good[_i].name, buf_text(&text));
	buf_free(&text);
}
END_TEST

#define WITH(members) "{" BASE "," members "}"
#define LLAMA3(members)                                                                       \
	WITH("\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1," \
	     "\"high_freq_factor\":4," members "}")

static const struct {
	const char *config, *expected; /* part of the message, after the name of the file */
} bad[] = {
	{"[]", "the file holds array, expected an object"},
	{"null", "the file holds null"},
	{"{}", "model_type is missing"},
	{WITH("\"model_type\":null"), "model_type is missing"},
	{WITH("\"model_type\":1"), "model_type is 1, expected a string"},
	{WITH("\"model_type\":\"qwen3_moe\""), "model_type 'qwen3_moe' is not built; built: llama, qwen2, qwen3"},
	{WITH("\"model_type\":\"Llama\""), "model_type 'Llama' is not built; built: llama"},
	{WITH("\"model_type\":\"llama4\""), "model_type 'llama4' is not built"},
	{WITH("\"model_type\":\"\""), "model_type '' is not built"},
	{WITH("\"model_type\":\"llama\\u0000\""), "model_type 'llama"},
	{WITH("\"quantization_config\":{\"quant_method\":\"fp8\"}"),
		"quantization_config.quant_method 'fp8' is not built; built: checkpoints that are not quantised"},
	{WITH("\"quantization_config\":{}"), "quantization_config.quant_method 'unnamed' is not built"},
	{WITH("\"quantization_config\":\"fp8\""), "quantization_config is \"fp8\", expected an object"},
	{WITH("\"compression_config\":{\"quant_method\":\"compressed-tensors\"}"),
		"compression_config.quant_method 'compressed-tensors' is not built"},
	{"{\"text_config\":" WITH("\"quantization_config\":{\"quant_method\":\"awq\"}") "}",
		"text_config.quantization_config.quant_method 'awq'"},
	{"{\"model_type\":\"llama\",\"text_config\":{}}", "text_config.model_type is missing"},
	{"{\"model_type\":\"llama\",\"text_config\":[]}", "text_config is array, expected an object"},
	{"{\"text_config\":" WITH("\"hidden_size\":0") "}", "text_config.hidden_size is 0, expected an integer from 1"},
	{WITH("\"hidden_act\":\"gelu\""), "hidden_act 'gelu' is not built; built: silu"},
	{WITH("\"hidden_act\":[]"), "hidden_act is array, expected a string"},
	{WITH("\"hidden_size\":null"), "hidden_size is missing"},
	{WITH("\"num_hidden_layers\":null"), "num_hidden_layers is missing"},
	{WITH("\"num_attention_heads\":null"), "num_attention_heads is missing"},
	{WITH("\"intermediate_size\":null"), "intermediate_size is missing"},
	{WITH("\"vocab_size\":null"), "vocab_size is missing"},
	{WITH("\"hidden_size\":64.0"), "hidden_size is 64.0, expected an integer from 1 to 65536"},
	{WITH("\"hidden_size\":1e3"), "hidden_size is 1e3, expected an integer from 1 to 65536"},
	{WITH("\"hidden_size\":\"64\""), "hidden_size is \"64\", expected an integer from 1 to 65536"},
	{WITH("\"hidden_size\":true"), "hidden_size is boolean, expected an integer"},
	{WITH("\"hidden_size\":-64"), "hidden_size is -64, "},
	{WITH("\"hidden_size\":65537"), "hidden_size is 65537, "},
	{WITH("\"hidden_size\":4294967360"), "hidden_size is 4294967360, "}, /* 64 in 32 bits */
	{WITH("\"hidden_size\":18446744073709551680"), "hidden_size is 18446744073709551680, "},
	{WITH("\"num_hidden_layers\":0"), "num_hidden_layers is 0, "},
	{WITH("\"num_hidden_layers\":513"), "num_hidden_layers is 513, "},
	{WITH("\"num_attention_heads\":0"), "num_attention_heads is 0, "},
	{WITH("\"num_attention_heads\":4097"), "num_attention_heads is 4097, "},
	{WITH("\"num_key_value_heads\":0"), "num_key_value_heads is 0, "},
	{WITH("\"num_key_value_heads\":3"), "num_key_value_heads is 3, expected a divisor of num_attention_heads 4"},
	{WITH("\"num_key_value_heads\":8"), "num_key_value_heads is 8, expected a divisor of num_attention_heads 4"},
	{WITH("\"intermediate_size\":0"), "intermediate_size is 0, "},
	{WITH("\"intermediate_size\":1048577"), "intermediate_size is 1048577, "},
	{WITH("\"vocab_size\":0"), "vocab_size is 0, "},
	{WITH("\"vocab_size\":16777217"), "vocab_size is 16777217, "},
	{WITH("\"head_dim\":0"), "head_dim is 0, "},
	{WITH("\"head_dim\":15"), "head_dim is 15 (hidden_size 64, num_attention_heads 4), expected an even number"},
	{WITH("\"head_dim\":4098"), "head_dim is 4098, "},
	{WITH("\"hidden_size\":65536,\"num_attention_heads\":1,\"num_key_value_heads\":1"),
		"head_dim is 65536 (hidden_size 65536, num_attention_heads 1), expected an even number from 2 to 4096"},
	{WITH("\"num_attention_heads\":128,\"num_key_value_heads\":128"), "head_dim is 0 (hidden_size 64"},
	{WITH("\"max_position_embeddings\":0"), "max_position_embeddings is 0, "},
	{WITH("\"max_position_embeddings\":16777217"), "max_position_embeddings is 16777217, "},
	{WITH("\"rms_norm_eps\":0"), "rms_norm_eps is 0, expected a number from 1e-30 to 1"},
	{WITH("\"rms_norm_eps\":-1e-5"), "rms_norm_eps is -1e-5, "},
	{WITH("\"rms_norm_eps\":1e999"), "rms_norm_eps is 1e999, "},
	{WITH("\"rms_norm_eps\":1e-60"), "rms_norm_eps is 1e-60, "}, /* zero as a float */
	{WITH("\"rms_norm_eps\":\"1e-5\""), "rms_norm_eps is \"1e-5\", "},
	{WITH("\"attention_bias\":1"), "attention_bias is 1, expected true or false"},
	{WITH("\"mlp_bias\":\"true\""), "mlp_bias is \"true\", expected true or false"},
	{WITH("\"tie_word_embeddings\":0"), "tie_word_embeddings is 0, expected true or false"},
	{WITH("\"bos_token_id\":-1"), "bos_token_id is -1, "},
	{WITH("\"bos_token_id\":[1]"), "bos_token_id is array, "},
	{WITH("\"eos_token_id\":-1"), "eos_token_id is -1, "},
	{WITH("\"eos_token_id\":2147483648"), "eos_token_id is 2147483648, "},
	{WITH("\"eos_token_id\":\"</s>\""), "eos_token_id is \"</s>\", "},
	{WITH("\"eos_token_id\":[1,2.5]"), "eos_token_id is 2.5, expected token ids"},
	{WITH("\"eos_token_id\":[-1]"), "eos_token_id is -1, expected token ids"},
	{WITH("\"eos_token_id\":[1,null]"), "eos_token_id is null, expected token ids"},
	{WITH("\"eos_token_id\":[[1]]"), "eos_token_id is array, expected token ids"},
	{WITH("\"eos_token_id\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]"),
		"eos_token_id lists 17 tokens, at most 16"},
	{WITH("\"rope_theta\":0"), "rope_theta is 0, "},
	{WITH("\"rope_theta\":1e400"), "rope_theta is 1e400, "},
	{WITH("\"rope_theta\":\"10000\""), "rope_theta is \"10000\", "},
	{WITH("\"rope_scaling\":\"linear\""), "rope_scaling is \"linear\", expected an object"},
	{WITH("\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4}"),
		"rope_scaling.type 'yarn' is not built; built: default, linear, llama3"},
	{WITH("\"rope_parameters\":{\"rope_type\":\"longrope\"}"), "rope_parameters.rope_type 'longrope' is not built"},
	{WITH("\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":2}"),
		"rope_scaling.rope_type 'dynamic' is not built"},
	{WITH("\"rope_scaling\":{\"rope_type\":3}"), "rope_scaling.rope_type is 3, expected a string"},
	{WITH("\"rope_scaling\":{\"type\":\"linear\"}"), "rope_scaling.factor is missing"},
	{WITH("\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}"), "rope_scaling.factor is 0, "},
	{WITH("\"rope_scaling\":{\"type\":\"linear\",\"factor\":\"8\"}"), "rope_scaling.factor is \"8\", "},
	{WITH("\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1e4}}"),
		"rope_parameters.full_attention is an object: a rope per layer type is not built"},
	{LLAMA3("\"factor\":null"), "rope_scaling.factor is missing"},
	{LLAMA3("\"low_freq_factor\":null"), "rope_scaling.low_freq_factor is missing"},
	{LLAMA3("\"high_freq_factor\":null"), "rope_scaling.high_freq_factor is missing"},
	{LLAMA3("\"high_freq_factor\":1"), "rope_scaling.high_freq_factor is 1, expected more than low_freq_factor"},
	{LLAMA3("\"low_freq_factor\":-1"), "rope_scaling.low_freq_factor is -1, "},
	{LLAMA3("\"original_max_position_embeddings\":0"), "rope_scaling.original_max_position_embeddings is 0, "},
	{WITH("\"use_sliding_window\":true"), "use_sliding_window 'true' is not built; built: false"},
	{WITH("\"use_sliding_window\":1"), "use_sliding_window is 1, expected true or false"},
	{WITH("\"layer_types\":[\"full_attention\",\"sliding_attention\"]"),
		"layer_types 'sliding_attention' is not built; built: full_attention"},
	{WITH("\"layer_types\":[null]"), "layer_types '' is not built; built: full_attention"},
	{WITH("\"model_type\":\"qwen3\",\"partial_rotary_factor\":0.5"),
		"partial_rotary_factor: a rope over 64 of 128 dimensions is not built for qwen3"},
	{WITH("\"partial_rotary_factor\":0.5"),
		"partial_rotary_factor: a rope over 8 of 16 dimensions is not built for llama"},
	{WITH("\"partial_rotary_factor\":0"), "0 of the 16 dimensions of a head rotate"},
	{WITH("\"partial_rotary_factor\":1.5"), "partial_rotary_factor is 1.5, "},
};

START_TEST(refuses_bad_configs)
{
	static const char file[] = "/models/x/config.json: ";
	struct model_config m;
	int status = parse_text(bad[_i].config, NULL, &m);
	ck_assert_msg(status == ERR_INPUT, "%s: status %d", bad[_i].config, status);
	ck_assert_msg(strncmp(test_error.message, file, sizeof(file) - 1) == 0 &&
			strncmp(test_error.message + sizeof(file) - 1, bad[_i].expected, strlen(bad[_i].expected)) == 0,
		"%s: %s, expected %s", bad[_i].config, test_error.message, bad[_i].expected);
}
END_TEST

START_TEST(refuses_bad_generation)
{
	struct model_config m;
	ck_assert_int_eq(parse_text("{" BASE "}", "{\"eos_token_id\":\"x\"}", &m), ERR_INPUT);
	ck_assert_str_eq(test_error.message,
		"/models/x/generation_config.json: eos_token_id is \"x\", expected an integer from 0 to 2147483647");
	ck_assert_int_eq(parse_text("{" BASE "}", "[]", &m), ERR_INPUT);
	ck_assert_str_eq(
		test_error.message, "/models/x/generation_config.json: the file holds array, expected an object");
}
END_TEST

/* The folder of a config written below the scratch folder. */
static const char *folder_with(const char *config, const char *generation)
{
	const char *folder = scratch_folder();
	if (config)
		test_write_file("config.json", config, strlen(config));
	if (generation)
		test_write_file("generation_config.json", generation, strlen(generation));
	return folder;
}

START_TEST(reads_folders)
{
	struct model_config m;
	CHECK_OK(model_config_read(folder_with("{" BASE ",\"eos_token_id\":1}", NULL), &m, &test_error));
	ck_assert(m.n_eos_tokens == 1 && m.eos_tokens[0] == 1);
	CHECK_OK(model_config_read(
		folder_with("{" BASE ",\"eos_token_id\":1}", "{\"eos_token_id\":[3,4]}"), &m, &test_error));
	ck_assert(m.n_eos_tokens == 2 && m.eos_tokens[0] == 3 && m.eos_tokens[1] == 4);

	ck_assert_int_eq(model_config_read(folder_with(NULL, NULL), &m, &test_error), ERR_MISSING);
	ck_assert_ptr_nonnull(strstr(test_error.message, "/config.json"));
	ck_assert_int_eq(model_config_read("/nowhere", &m, &test_error), ERR_MISSING);
	ck_assert_ptr_nonnull(strstr(test_error.message, "/nowhere/config.json"));
	ck_assert_int_eq(
		model_config_read(folder_with("{" BASE "}", "{\"eos_token_id\":"), &m, &test_error), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "/generation_config.json: line 1"));
	ck_assert_int_eq(model_config_read(folder_with("", NULL), &m, &test_error), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "/config.json: line 1"));
}
END_TEST

START_TEST(refuses_every_truncation)
{
	static const char whole[] =
		"{" BASE ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5},\"eos_token_id\":[1,2]}";
	struct model_config m;
	scratch_folder();
	for (size_t n = 0; n < sizeof(whole) - 1; n++) {
		const char *path = test_write_file("config.json", whole, n);
		char *folder = strndup(path, strlen(path) - strlen("/config.json"));
		ck_assert_ptr_nonnull(folder);
		ck_assert_int_eq(model_config_read(folder, &m, &test_error), ERR_INPUT);
		ck_assert_msg(
			strstr(test_error.message, "/config.json: line 1"), "%zu bytes: %s", n, test_error.message);
		free(folder);
	}
}
END_TEST

/* ---- Frequencies ---- */

static int64_t ulp_distance(float a, float b)
{
	int32_t x, y;
	memcpy(&x, &a, sizeof(x));
	memcpy(&y, &b, sizeof(y));
	return llabs((int64_t)x - y);
}

/* torch's powf is not correctly rounded: a last digit or two may differ, most may not. */
static void check_frequencies(const struct json *golden)
{
	struct str name = json_get(golden, "name")->text;
	const struct json *expected = json_get(golden, "inv_freq");
	struct model_config m;
	float actual[128];
	int i = 0, different = 0;
	int status = model_config_parse(json_get(golden, "config"), "golden", NULL, &m, &test_error);
	ck_assert_msg(status == 0, "%.*s: %s", STR_ARG(name), test_error.message);
	ck_assert_uint_eq(expected->count, (size_t)m.rope.rotary_dim / 2);
	ck_assert_uint_le(expected->count, 128);
	rope_inverse_frequencies(&m.rope, actual);
	JSON_EACH (item, expected) {
		float value = (float)json_double(item);
		different += actual[i] != value;
		ck_assert_msg(ulp_distance(actual[i], value) <= 2, "%.*s: f[%d] is %.9g, expected %.9g", STR_ARG(name),
			i, (double)actual[i], (double)value);
		i++;
	}
	ck_assert_msg(different <= 1 + m.rope.rotary_dim / 16, "%.*s: %d differ", STR_ARG(name), different);
}

START_TEST(frequencies_equal_transformers)
{
	struct buf text = test_read_file(golden_path("rope_frequencies.json"));
	struct json_document *document;
	CHECK_OK(json_parse(buf_str(&text), "rope_frequencies.json", JSON_REFUSE_DOUBLED_KEYS, &document, &test_error));
	const struct json *cases = json_get(json_root(document), "cases");
	ck_assert(json_is(cases, JSON_ARRAY) && cases->count >= 18);
	JSON_EACH (item, cases)
		check_frequencies(item);
	json_free(document);
	buf_free(&text);
}
END_TEST

/* MODELS.md section 2, Llama-3.1-8B, seven digits. */
START_TEST(frequencies_of_llama_3_1)
{
	static const struct {
		int i;
		double value;
	} known[] = {{0, 1.0}, {28, 3.211446e-03}, {29, 2.166571e-03}, {30, 1.371894e-03}, {32, 5.248462e-04},
		{35, 9.556212e-05}, {63, 3.068926e-07}};
	const struct rope_config rope = {.scaling = ROPE_SCALING_LLAMA3,
		.theta = 5e5,
		.rotary_dim = 128,
		.factor = 8,
		.low_freq_factor = 1,
		.high_freq_factor = 4,
		.original_max_positions = 8192};
	float f[64];
	rope_inverse_frequencies(&rope, f);
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		ck_assert_msg(fabs((double)f[known[i].i] / known[i].value - 1.0) < 4e-7, "f[%d] is %.9g", known[i].i,
			(double)f[known[i].i]);
}
END_TEST

/* ---- Files from elsewhere ---- */

static int read_shared_config(const char *relative, struct model_config *m, bool *absent)
{
	struct json_document *document;
	const char *path = shared_path(relative);
	*absent = path == NULL;
	if (!path)
		return 0;
	struct buf text = test_read_file(path);
	CHECK_OK(json_parse(buf_str(&text), path, JSON_LAST_KEY_WINS, &document, &test_error));
	int status = model_config_parse(json_root(document), relative, NULL, m, &test_error);
	json_free(document);
	buf_free(&text);
	return status;
}

static const struct {
	const char *folder, *refused; /* as this model_type; NULL: accepted */
	const char *expected;
} tiny[] = {
	{"llama", NULL,
		"llama H64 L2 N4 G2 D16 I96 V320 P4096 eps1e-05 tied0 qkv0 o0 mlp0 qk0 attention0 router0 rope0 llama3 "
		"theta500000 R16 factor8 low1 high4 original64 bos0 eos1;"},
	{"qwen2", NULL,
		"qwen2 H64 L2 N4 G2 D16 I96 V320 P4096 eps1e-05 tied1 qkv1 o0 mlp0 qk0 attention0 router0 rope0 none "
		"theta1e+06 R16 factor1 bos0 eos1;"},
	{"qwen3", NULL,
		"qwen3 H64 L2 N4 G2 D32 I96 V320 P4096 eps1e-05 tied0 qkv0 o0 mlp0 qk1 attention0 router0 rope0 none "
		"theta1e+06 R32 factor1 bos0 eos1;"},
	{"qwen3_moe", "qwen3_moe", NULL},
	{"mixtral", "mixtral", NULL},
	{"gemma3", "gemma3_text", NULL},
	{"glm4_moe", "glm4_moe", NULL},
	{"deepseek_v3", "deepseek_v3", NULL},
	{"deepseek_v32", "deepseek_v32", NULL},
	{"kimi_k2", "deepseek_v3", NULL},
	{"glm_moe_dsa", "glm_moe_dsa", NULL},
};

START_TEST(reads_tiny_configs)
{
	char relative[64], expected[96];
	bool absent;
	struct model_config m;
	snprintf(relative, sizeof(relative), "golden/tiny/%s/config.json", tiny[_i].folder);
	int status = read_shared_config(relative, &m, &absent);
	if (absent)
		SKIP("no shared goldens");
	if (tiny[_i].refused) {
		snprintf(expected, sizeof(expected), "model_type '%s' is not built; built: %s", tiny[_i].refused,
			model_family_names());
		ck_assert_int_eq(status, ERR_INPUT);
		ck_assert_msg(strstr(test_error.message, expected), "%s", test_error.message);
		return;
	}
	ck_assert_msg(status == 0, "%s", test_error.message);
	struct buf text = {0};
	describe(&m, &text);
	ck_assert_str_eq(buf_text(&text), tiny[_i].expected);
	buf_free(&text);
}
END_TEST

static const struct {
	const char *file;
	int head_dim, q_rows, kv_rows; /* 0: refused */
} head_dims[] = {
	{"absent", 16, 64, 32},
	{"null", 16, 64, 32},
	{"explicit", 32, 128, 64},
	{"odd", 0, 0, 0}, /* head_dim would be 12, but 5 query heads do not share 2 kv heads */
	{"kv_not_dividing", 0, 0, 0},
};

START_TEST(reads_field_head_dims)
{
	char relative[64];
	bool absent;
	struct model_config m;
	snprintf(relative, sizeof(relative), "trials/T41/%s.config.json", head_dims[_i].file);
	int status = read_shared_config(relative, &m, &absent);
	if (absent)
		SKIP("no shared trials");
	if (head_dims[_i].head_dim == 0) {
		ck_assert_int_eq(status, ERR_INPUT);
		ck_assert_ptr_nonnull(strstr(test_error.message, "num_key_value_heads"));
		return;
	}
	ck_assert_msg(status == 0, "%s: %s", relative, test_error.message);
	ck_assert_int_eq(m.head_dim, head_dims[_i].head_dim);
	ck_assert_int_eq(m.n_heads * m.head_dim, head_dims[_i].q_rows);
	ck_assert_int_eq(m.n_kv_heads * m.head_dim, head_dims[_i].kv_rows);
}
END_TEST

START_TEST(reads_pocket_folder)
{
	const char *path = shared_path("pocket/model");
	struct model_config m;
	if (!path)
		SKIP("no shared pocket model");
	CHECK_OK(model_config_read(path, &m, &test_error));
	struct buf text = {0};
	describe(&m, &text);
	ck_assert_str_eq(buf_text(&text),
		"llama H128 L4 N4 G2 D32 I384 V1024 P1024 eps1e-05 tied1 qkv0 o0 mlp0 qk0 attention0 router0 rope0 "
		"none "
		"theta10000 R32 factor1 bos0 eos0,2;");
	buf_free(&text);
}
END_TEST

#define COUNT(table) (int)(sizeof(table) / sizeof((table)[0]))

void test_program_cases(Suite *suite)
{
	TCase *configs = test_case(suite, "configs", 0);
	tcase_add_loop_test(configs, accepts_good_configs, 0, COUNT(good));
	tcase_add_loop_test(configs, refuses_bad_configs, 0, COUNT(bad));
	tcase_add_test(configs, refuses_bad_generation);
	tcase_add_test(configs, reads_folders);
	tcase_add_test(configs, refuses_every_truncation);
	TCase *frequencies = test_case(suite, "frequencies", 0);
	tcase_add_test(frequencies, frequencies_equal_transformers);
	tcase_add_test(frequencies, frequencies_of_llama_3_1);
	TCase *shared = test_case(suite, "shared", 0);
	tcase_add_loop_test(shared, reads_tiny_configs, 0, COUNT(tiny));
	tcase_add_loop_test(shared, reads_field_head_dims, 0, COUNT(head_dims));
	tcase_add_test(shared, reads_pocket_folder);
}
