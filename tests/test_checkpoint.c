#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/model/checkpoint.h"
#include "tests/support.h"

const char *const test_program_name = "checkpoint";

static const char config[] =
	"{\"model_type\":\"llama\",\"hidden_size\":4,\"intermediate_size\":8,\"num_hidden_layers\":1,"
	"\"num_attention_heads\":1,\"vocab_size\":3}";

/* ---- Folders built by the tests ---- */

/* A safetensors file in the newest scratch folder. entries: the members of its header. */
static void write_weights(const char *name, const char *entries, const char *data, size_t data_size)
{
	struct buf file = {0};
	uint64_t length = strlen(entries) + 2;
	buf_append(&file, &length, sizeof(length));
	buf_printf(&file, "{%s}", entries);
	buf_append(&file, data, data_size);
	test_write_file(name, file.data, file.length);
	buf_free(&file);
}

static void write_text(const char *name, const char *text)
{
	test_write_file(name, text, strlen(text));
}

/* A fresh folder with a config. */
static const char *new_folder(void)
{
	const char *folder = scratch_folder();
	write_text("config.json", config);
	return folder;
}

#define B_ENTRY "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]}"
#define A_ENTRY "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[12,20]}"
#define A_ALONE "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
#define DATA "\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20\21\22\23\24"

/* b [2, 3] BF16 with bytes 1..12, a [2] F32 with bytes 13..20. */
static const char *folder_of_one_file(void)
{
	const char *folder = new_folder();
	write_weights("model.safetensors", B_ENTRY "," A_ENTRY, DATA, 20);
	return folder;
}

/* The same tensors in two shards; the first also holds another `a`, which the index does not choose. */
static const char *folder_of_shards(void)
{
	const char *folder = new_folder();
	write_weights("one.safetensors", B_ENTRY "," A_ENTRY, "\1\2\3\4\5\6\7\10\11\12\13\14wrong!!!", 20);
	write_weights("two.safetensors", A_ALONE ",\"extra\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[8,9]}",
		DATA "x" + 12, 9);
	write_text("model.safetensors.index.json",
		"{\"metadata\":{\"total_size\":29},\"weight_map\":{"
		"\"a\":\"two.safetensors\",\"b\":\"one.safetensors\"}}");
	return folder;
}

static void check_contents(struct checkpoint *c)
{
	const struct tensor *a, *b;
	CHECK_OK(checkpoint_require(c, "a", 2, 0, &a, &test_error));
	CHECK_OK(checkpoint_require(c, "b", 2, 3, &b, &test_error));
	ck_assert_ptr_eq(checkpoint_find(c, "a"), a);
	ck_assert_ptr_null(checkpoint_find(c, "c"));
	ck_assert_ptr_null(checkpoint_find(c, ""));
	ck_assert(a->type == TENSOR_F32 && a->size == 8 && memcmp(a->data, "\15\16\17\20\21\22\23\24", 8) == 0);
	ck_assert(b->type == TENSOR_BF16 && b->size == 12 && memcmp(b->data, DATA, 12) == 0);
}

START_TEST(opens_one_file)
{
	struct checkpoint *c;
	CHECK_OK(checkpoint_open(folder_of_one_file(), &c, &test_error));
	ck_assert_str_eq(checkpoint_config(c)->family, "llama");
	ck_assert_int_eq(checkpoint_config(c)->hidden_size, 4);
	check_contents(c);
	checkpoint_close(c);
	checkpoint_close(NULL);
}
END_TEST

START_TEST(opens_shards)
{
	struct checkpoint *c;
	CHECK_OK(checkpoint_open(folder_of_shards(), &c, &test_error));
	check_contents(c);
	ck_assert_ptr_null(checkpoint_find(c, "extra"));
	checkpoint_close(c);
}
END_TEST

/* As transformers chooses: the single file, when it is there. */
START_TEST(prefers_the_single_file)
{
	struct checkpoint *c;
	const char *folder = folder_of_one_file();
	write_text("model.safetensors.index.json", "not JSON");
	CHECK_OK(checkpoint_open(folder, &c, &test_error));
	check_contents(c);
	checkpoint_close(c);
}
END_TEST

START_TEST(opens_no_tensors)
{
	struct checkpoint *c;
	const char *folder = new_folder();
	write_weights("model.safetensors", "", "", 0);
	CHECK_OK(checkpoint_open(folder, &c, &test_error));
	ck_assert_ptr_null(checkpoint_find(c, "a"));
	checkpoint_close(c);
	folder = new_folder();
	write_text("model.safetensors.index.json", "{\"weight_map\":{}}");
	CHECK_OK(checkpoint_open(folder, &c, &test_error));
	ck_assert_ptr_null(checkpoint_find(c, "a"));
	checkpoint_close(c);
}
END_TEST

/* Layers past num_hidden_layers (multi-token prediction) lie in the file and disturb nobody. */
START_TEST(ignores_further_layers)
{
	struct checkpoint *c;
	const struct tensor *t;
	const char *folder = new_folder();
	write_weights("model.safetensors",
		"\"model.layers.0.input_layernorm.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
		"\"model.layers.1.eh_proj.weight\":{\"dtype\":\"I64\",\"shape\":[1,1,1],\"data_offsets\":[4,12]}",
		DATA, 12);
	CHECK_OK(checkpoint_open(folder, &c, &test_error));
	CHECK_OK(checkpoint_require(c, "model.layers.0.input_layernorm.weight", 1, 0, &t, &test_error));
	checkpoint_close(c);
}
END_TEST

/* ---- What is required ---- */

START_TEST(requires_shapes)
{
	static const struct {
		const char *name;
		int64_t rows, columns;
		const char *expected;
	} cases[] = {
		{"a", 3, 0, "/two.safetensors: tensor \"a\" has shape [2], expected [3]"},
		{"a", 2, 1, "/two.safetensors: tensor \"a\" has shape [2], expected [2, 1]"},
		{"a", 1, 2, "/two.safetensors: tensor \"a\" has shape [2], expected [1, 2]"},
		{"b", 6, 0, "/one.safetensors: tensor \"b\" has shape [2, 3], expected [6]"},
		{"b", 2, 0, "/one.safetensors: tensor \"b\" has shape [2, 3], expected [2]"},
		{"b", 3, 2, "/one.safetensors: tensor \"b\" has shape [2, 3], expected [3, 2]"},
		{"b", 2, 4, "/one.safetensors: tensor \"b\" has shape [2, 3], expected [2, 4]"},
		{"c", 5, 7, ": tensor \"c\" [5, 7] is missing"},
		{"extra", 1, 0, ": tensor \"extra\" [1] is missing"},
	};
	struct checkpoint *c;
	const char *folder = folder_of_shards();
	CHECK_OK(checkpoint_open(folder, &c, &test_error));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct tensor *t = NULL;
		ck_assert_int_eq(checkpoint_require(c, cases[i].name, cases[i].rows, cases[i].columns, &t, &test_error),
			ERR_INPUT);
		ck_assert_ptr_null(t);
		ck_assert_msg(strncmp(test_error.message, folder, strlen(folder)) == 0, "%s", test_error.message);
		ck_assert_str_eq(test_error.message + strlen(folder), cases[i].expected);
	}
	checkpoint_close(c);

	folder = folder_of_one_file();
	CHECK_OK(checkpoint_open(folder, &c, &test_error));
	const struct tensor *t;
	ck_assert_int_eq(checkpoint_require(c, "lm_head.weight", 3, 4, &t, &test_error), ERR_INPUT);
	ck_assert_str_eq(
		test_error.message + strlen(folder), "/model.safetensors: tensor \"lm_head.weight\" [3, 4] is missing");
	checkpoint_close(c);
}
END_TEST

START_TEST(shows_scalars_and_many_dimensions)
{
	struct checkpoint *c;
	const struct tensor *t;
	const char *folder = new_folder();
	write_weights("model.safetensors",
		"\"s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
		"\"z\":{\"dtype\":\"U8\",\"shape\":[0,9223372036854775807,9223372036854775807,9223372036854775807,"
		"9223372036854775807,9223372036854775807,9223372036854775807,9223372036854775807],\"data_offsets\":[1,"
		"1]}",
		DATA, 1);
	CHECK_OK(checkpoint_open(folder, &c, &test_error));
	ck_assert_int_eq(checkpoint_require(c, "s", 1, 0, &t, &test_error), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "has shape [], expected [1]"));
	ck_assert_int_eq(checkpoint_require(c, "z", INT64_MAX, INT64_MAX, &t, &test_error), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "has shape [0, 9223372036854775807, 9223372036854775807, "));
	ck_assert_ptr_nonnull(strstr(test_error.message, "], expected [9223372036854775807, 9223372036854775807]"));
	checkpoint_close(c);
}
END_TEST

/* ---- Fingerprint ---- */

static void fingerprint_of(const char *folder, bool use_a, bool use_b, char out[SHA256_HEX_SIZE])
{
	struct checkpoint *c;
	const struct tensor *t;
	CHECK_OK(checkpoint_open(folder, &c, &test_error));
	if (use_b)
		CHECK_OK(checkpoint_require(c, "b", 2, 3, &t, &test_error));
	if (use_a) {
		CHECK_OK(checkpoint_require(c, "a", 2, 0, &t, &test_error));
		CHECK_OK(checkpoint_require(c, "a", 2, 0, &t, &test_error));
	}
	CHECK_OK(checkpoint_fingerprint(c, out, &test_error));
	checkpoint_close(c);
}

/* Expected by Python's hashlib over the same fields: per tensor the name's length (u64, little endian) and the name, the
 * type's likewise, the rank, the dimensions (8 bytes each), the data. */
START_TEST(fingerprint_is_known)
{
	char out[SHA256_HEX_SIZE];
	fingerprint_of(folder_of_one_file(), true, true, out);
	ck_assert_str_eq(out, "1b43216ced1b8fdec48b8c921ab259f81ce1eb29db623cdc8ea10f8efc213a6f");
	fingerprint_of(folder_of_shards(), true, true, out);
	ck_assert_str_eq(out, "1b43216ced1b8fdec48b8c921ab259f81ce1eb29db623cdc8ea10f8efc213a6f");
	fingerprint_of(folder_of_one_file(), false, false, out);
	ck_assert_str_eq(out, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}
END_TEST

START_TEST(fingerprint_depends_on_all)
{
	static const struct {
		const char *what, *entries, *data;
	} cases[] = {
		{"a byte", B_ENTRY "," A_ENTRY, "\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20\21\22\23\25"},
		{"a type", "\"b\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[0,12]}," A_ENTRY, DATA},
		{"an order of data", "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[8,20]}," A_ALONE,
			DATA},
	};
	char whole[SHA256_HEX_SIZE], part[SHA256_HEX_SIZE], changed[SHA256_HEX_SIZE];
	fingerprint_of(folder_of_one_file(), true, true, whole);
	fingerprint_of(folder_of_one_file(), true, false, part);
	ck_assert_str_ne(whole, part);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *folder = new_folder();
		write_weights("model.safetensors", cases[i].entries, cases[i].data, 20);
		fingerprint_of(folder, true, true, changed);
		ck_assert_msg(strcmp(changed, whole) != 0, "%s changes nothing", cases[i].what);
	}
}
END_TEST

/* ---- Refused ---- */

static void check_refused(const char *folder, int code, const char *expected)
{
	struct checkpoint *c = (struct checkpoint *)&test_error;
	int status = checkpoint_open(folder, &c, &test_error);
	ck_assert_msg(status == code && test_error.code == code, "status %d: %s", status, test_error.message);
	ck_assert_ptr_null(c);
	ck_assert_msg(strncmp(test_error.message, folder, strlen(folder)) == 0 && strstr(test_error.message, expected),
		"%s, expected %s", test_error.message, expected);
}

static const struct {
	const char *index, *expected;
	int code;
} bad_indexes[] = {
	{"", ".index.json: line 1", ERR_INPUT},
	{"{", ".index.json: line 1", ERR_INPUT},
	{"[]", ".index.json: the file holds array", ERR_INPUT},
	{"{}", ".index.json: weight_map is missing", ERR_INPUT},
	{"{\"weight_map\":null}", "weight_map is missing", ERR_INPUT},
	{"{\"weight_map\":[]}", "weight_map is array, expected an object", ERR_INPUT},
	{"{\"weight_map\":{\"a\":1}}", "weight_map.a is number \"1\", expected the name of a file", ERR_INPUT},
	{"{\"weight_map\":{\"a\":null}}", "weight_map.a is null \"\", expected the name of a file", ERR_INPUT},
	{"{\"weight_map\":{\"a\":\"\"}}", "weight_map.a is string \"\", expected the name of a file", ERR_INPUT},
	{"{\"weight_map\":{\"a\":\".\"}}", "\".\", expected the name of a file", ERR_INPUT},
	{"{\"weight_map\":{\"a\":\"..\"}}", "\"..\", expected the name of a file", ERR_INPUT},
	{"{\"weight_map\":{\"a\":\"../two.safetensors\"}}", "expected the name of a file", ERR_INPUT},
	{"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "expected the name of a file", ERR_INPUT},
	{"{\"weight_map\":{\"a\":\"./two.safetensors\"}}", "expected the name of a file", ERR_INPUT},
	{"{\"weight_map\":{\"a\":\"two.safetensors\\u0000x\"}}", "expected the name of a file", ERR_INPUT},
	{"{\"weight_map\":{\"a\":\"two.safetensors\",\"a\":\"one.safetensors\"}}", "\"a\"", ERR_INPUT},
	{"{\"weight_map\":{\"a\":\"two.safetensors\",\"b\":\"two.safetensors\"}}",
		"/two.safetensors: lacks tensor \"b\", which model.safetensors.index.json puts there", ERR_INPUT},
	{"{\"weight_map\":{\"a\\u0000\":\"two.safetensors\"}}", "/two.safetensors: lacks tensor \"a", ERR_INPUT},
	{"{\"weight_map\":{\"a\":\"two.safetensors\",\"b\":\"three.safetensors\"}}",
		"/three.safetensors: is missing, but model.safetensors.index.json names it", ERR_MISSING},
	{"{\"weight_map\":{\"a\":\"broken.safetensors\",\"b\":\"three.safetensors\"}}",
		"/three.safetensors: is missing", ERR_MISSING},
	{"{\"weight_map\":{\"a\":\"folder\"}}", "/folder: is missing", ERR_MISSING},
	{"{\"weight_map\":{\"a\":\"two.safetensors\",\"b\":\"broken.safetensors\"}}", "/broken.safetensors: 3 bytes",
		ERR_INPUT},
};

START_TEST(refuses_bad_indexes)
{
	const char *folder = folder_of_shards();
	char path[4096];
	snprintf(path, sizeof(path), "%s/folder", folder);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	write_text("broken.safetensors", "abc");
	write_text("model.safetensors.index.json", bad_indexes[_i].index);
	check_refused(folder, bad_indexes[_i].code, bad_indexes[_i].expected);
}
END_TEST

START_TEST(refuses_bad_folders)
{
	const char *folder;
	check_refused("/nowhere", ERR_MISSING, "/config.json");
	folder = scratch_folder();
	check_refused(folder, ERR_MISSING, "/config.json");
	folder = new_folder();
	check_refused(folder, ERR_MISSING, ": holds neither model.safetensors nor model.safetensors.index.json");
	folder = new_folder();
	write_text("model.safetensors", "abc");
	check_refused(folder, ERR_INPUT, "/model.safetensors: 3 bytes");
	folder = folder_of_one_file();
	write_text("config.json", "{\"model_type\":\"mamba\"}");
	check_refused(folder, ERR_INPUT, "/config.json: model_type 'mamba' is not built");
}
END_TEST

/* ---- Files from elsewhere ---- */

/* Copies a shared file into the newest scratch folder; false where it is absent. */
static bool copy_shared(const char *relative, const char *name)
{
	const char *path = shared_path(relative);
	if (!path)
		return false;
	struct buf bytes = test_read_file(path);
	test_write_file(name, buf_text(&bytes), bytes.length);
	buf_free(&bytes);
	return true;
}

/* An index names two shards, only one is there; a stray file beside them must not be read. */
START_TEST(reads_field_index)
{
	const char *folder = new_folder();
	if (!copy_shared("trials/T25/model.safetensors.index.json", "model.safetensors.index.json") ||
		!copy_shared("trials/T25/model-00001-of-00002.safetensors", "model-00001-of-00002.safetensors") ||
		!copy_shared("trials/T25/stray.safetensors", "stray.safetensors"))
		SKIP("no shared trials");
	check_refused(folder, ERR_MISSING, "/model-00002-of-00002.safetensors: is missing");

	struct checkpoint *c;
	const struct tensor *t;
	float out[2];
	write_text("model.safetensors.index.json",
		"{\"weight_map\":{\"model.norm.weight\":\"model-00001-of-00002.safetensors\"}}");
	CHECK_OK(checkpoint_open(folder, &c, &test_error));
	CHECK_OK(checkpoint_require(c, "model.norm.weight", 2, 0, &t, &test_error));
	ck_assert_int_eq(tensor_to_float(t, 0, 2, out), 0);
	ck_assert(out[0] == 1.0F && out[1] == 2.0F);
	checkpoint_close(c);
}
END_TEST

/* Requires every tensor of a Llama checkpoint with the shape that its config gives. */
static void require_all(const char *folder)
{
	static const char *const names[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
		"self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"};
	struct checkpoint *c;
	const struct tensor *t;
	char name[96];
	CHECK_OK(checkpoint_open(folder, &c, &test_error));
	const struct model_config *m = checkpoint_config(c);
	int q = m->n_heads * m->head_dim, kv = m->n_kv_heads * m->head_dim;
	const int shapes[][2] = {{q, m->hidden_size}, {kv, m->hidden_size}, {kv, m->hidden_size}, {m->hidden_size, q},
		{m->inner_size, m->hidden_size}, {m->inner_size, m->hidden_size}, {m->hidden_size, m->inner_size}};
	CHECK_OK(checkpoint_require(c, "model.embed_tokens.weight", m->vocab_size, m->hidden_size, &t, &test_error));
	CHECK_OK(checkpoint_require(c, "model.norm.weight", m->hidden_size, 0, &t, &test_error));
	ck_assert_int_eq(checkpoint_find(c, "lm_head.weight") == NULL, m->tied_embeddings);
	for (int layer = 0; layer < m->n_layers; layer++) {
		for (int i = 0; i < 7; i++) {
			snprintf(name, sizeof(name), "model.layers.%d.%s.weight", layer, names[i]);
			CHECK_OK(checkpoint_require(c, name, shapes[i][0], shapes[i][1], &t, &test_error));
		}
	}
	char fingerprint[SHA256_HEX_SIZE];
	CHECK_OK(checkpoint_fingerprint(c, fingerprint, &test_error));
	ck_assert_uint_eq(strlen(fingerprint), SHA256_HEX_SIZE - 1);
	checkpoint_close(c);
}

static const char *const folders[] = {"golden/tiny/llama", "pocket/model", "trials/T55/hf"};

START_TEST(opens_shared_models)
{
	const char *path = shared_path(folders[_i]);
	if (!path)
		SKIP("no shared models");
	require_all(path);
}
END_TEST

#define COUNT(table) (int)(sizeof(table) / sizeof((table)[0]))

void test_program_cases(Suite *suite)
{
	TCase *opened = test_case(suite, "opened", 0);
	tcase_add_test(opened, opens_one_file);
	tcase_add_test(opened, opens_shards);
	tcase_add_test(opened, prefers_the_single_file);
	tcase_add_test(opened, opens_no_tensors);
	tcase_add_test(opened, ignores_further_layers);
	tcase_add_test(opened, requires_shapes);
	tcase_add_test(opened, shows_scalars_and_many_dimensions);
	TCase *fingerprints = test_case(suite, "fingerprints", 0);
	tcase_add_test(fingerprints, fingerprint_is_known);
	tcase_add_test(fingerprints, fingerprint_depends_on_all);
	TCase *refused = test_case(suite, "refused", 0);
	tcase_add_loop_test(refused, refuses_bad_indexes, 0, COUNT(bad_indexes));
	tcase_add_test(refused, refuses_bad_folders);
	TCase *shared = test_case(suite, "shared", 0);
	tcase_add_test(shared, reads_field_index);
	tcase_add_loop_test(shared, opens_shared_models, 0, COUNT(folders));
}
