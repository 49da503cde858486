/* Weights that are drawn: by the seed alone, of the size that a model needs, and there again when they were dropped from
 * memory. */
#include <math.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/thread_pool.h"
#include "engine/model/checkpoint.h"
#include "tests/support.h"

const char *const test_program_name = "random_weights";

enum { ROWS = 300, COLUMNS = 48 };

static const char config[] =
	"{\"model_type\":\"llama\",\"hidden_size\":48,\"intermediate_size\":8,\"num_hidden_layers\":1,"
	"\"num_attention_heads\":1,\"vocab_size\":300}";

static struct checkpoint *open_drawn(uint64_t seed)
{
	struct checkpoint *c = NULL;
	scratch_folder();
	CHECK_OK(checkpoint_random(test_write_file("config.json", config, strlen(config)), seed, &c, &test_error));
	return c;
}

static const struct tensor *require(struct checkpoint *c, const char *name, int64_t rows, int64_t columns)
{
	const struct tensor *t = NULL;
	CHECK_OK(checkpoint_require(c, name, rows, columns, &t, &test_error));
	ck_assert_str_eq(t->name, name);
	ck_assert_int_eq(t->type, TENSOR_BF16);
	ck_assert_int_eq(t->rank, columns ? 2 : 1);
	ck_assert_int_eq(t->shape[0], rows);
	ck_assert_uint_eq(t->count, (uint64_t)rows * (uint64_t)(columns ? columns : 1));
	ck_assert_uint_eq(t->size, 2 * t->count);
	return t;
}

/* A variance of 1 / columns, a mean of nothing, both signs, no two values in a row the same by construction. */
START_TEST(matrices_have_their_variance)
{
	static float values[ROWS * COLUMNS];
	struct checkpoint *c = open_drawn(1);
	const struct tensor *t = require(c, "model.embed_tokens.weight", ROWS, COLUMNS);
	double sum = 0, squares = 0;
	float largest = 0;
	CHECK_OK(tensor_to_float(t, 0, ROWS * COLUMNS, values));
	for (int i = 0; i < ROWS * COLUMNS; i++) {
		sum += (double)values[i];
		squares += (double)values[i] * (double)values[i];
		largest = fabsf(values[i]) > largest ? fabsf(values[i]) : largest;
	}
	ck_assert_double_eq_tol(sum / (ROWS * COLUMNS), 0, 0.01);
	ck_assert_double_eq_tol(squares / (ROWS * COLUMNS) * COLUMNS, 1, 0.05);
	ck_assert_double_eq_tol((double)largest, sqrt(3.0 / COLUMNS), 0.01);
	checkpoint_close(c);
}
END_TEST

START_TEST(vectors)
{
	float values[5];
	struct checkpoint *c = open_drawn(1);
	CHECK_OK(tensor_to_float(require(c, "model.layers.0.input_layernorm.weight", 5, 0), 0, 5, values));
	for (int i = 0; i < 5; i++)
		ck_assert_float_eq(values[i], 1.0f);
	CHECK_OK(tensor_to_float(require(c, "model.layers.0.self_attn.q_proj.bias", 5, 0), 0, 5, values));
	for (int i = 0; i < 5; i++)
		ck_assert(values[i] != 0.0f && fabsf(values[i]) <= 0.0201f);
	CHECK_OK(tensor_to_float(require(c, "one", 1, 1), 0, 1, values));
	/* what a model may have is not there */
	ck_assert_ptr_null(checkpoint_find(c, "lm_head.weight"));
	ck_assert_ptr_null(checkpoint_use(c, "one"));
	checkpoint_close(c);
}
END_TEST

START_TEST(the_seed_decides)
{
	char prints[3][SHA256_HEX_SIZE];
	const uint64_t seeds[] = {1, 1, UINT64_C(1) << 32 | 1};
	for (int i = 0; i < 3; i++) {
		struct checkpoint *c = open_drawn(seeds[i]);
		require(c, "a", 3, 7);
		require(c, "b", 3, 7);
		CHECK_OK(checkpoint_fingerprint(c, prints[i], &test_error));
		checkpoint_close(c);
	}
	ck_assert_str_eq(prints[0], prints[1]);
	ck_assert_str_ne(prints[0], prints[2]);
}
END_TEST

/* Sizes about what a thread draws at a time. */
START_TEST(threads_change_nothing)
{
	static const int64_t shapes[][2] = {{1, 1}, {9, 7}, {65536, 0}, {65537, 0}, {701, 300}};
	struct checkpoint *alone = open_drawn(3);

	for (int i = 0; i < 5; i++)
		require(alone, "a", shapes[i][0], shapes[i][1]);
	for (int n = 1; n <= 5; n += 2) {
		struct thread_pool *threads = thread_pool_new(n, &test_error);
		char prints[2][SHA256_HEX_SIZE];
		struct checkpoint *c = open_drawn(3);
		checkpoint_use_threads(c, threads);
		for (int i = 0; i < 5; i++)
			require(c, "a", shapes[i][0], shapes[i][1]);
		CHECK_OK(checkpoint_fingerprint(alone, prints[0], &test_error));
		CHECK_OK(checkpoint_fingerprint(c, prints[1], &test_error));
		ck_assert_str_eq(prints[0], prints[1]);
		checkpoint_close(c);
		thread_pool_delete(threads);
	}
	checkpoint_close(alone);
}
END_TEST

/* sha256 of 701 x 300 values of seed 3 as the first tensor: Philox4x32-10 and the rounding written again in NumPy 2. */
START_TEST(values_are_those_of_the_definition)
{
	char hash[SHA256_HEX_SIZE];
	struct checkpoint *c = open_drawn(3);
	const struct tensor *t = require(c, "a", 701, 300);
	sha256_hex(t->data, t->size, hash);
	ck_assert_str_eq(hash, "3156fa2b0cad8483f32945c18551b853199fa4a90809f6c54fa4a4292cede35d");
	checkpoint_close(c);
}
END_TEST

/* Tensors of one shape are not the same, and stay when a reader lets go of their memory. */
START_TEST(values_stay)
{
	struct checkpoint *c = open_drawn(1);
	const struct tensor *a = require(c, "a", ROWS, COLUMNS), *b = require(c, "b", ROWS, COLUMNS);
	static uint8_t before[2 * ROWS * COLUMNS];
	ck_assert_int_ne(memcmp(a->data, b->data, a->size), 0);
	memcpy(before, a->data, a->size);
	file_map_release(a->data, a->size);
	ck_assert_int_eq(memcmp(a->data, before, a->size), 0);
	checkpoint_close(c);
}
END_TEST

static void check_fails(int status, int code, const char *piece)
{
	ck_assert_msg(status == code && strstr(test_error.message, piece), "%d: %s", status, test_error.message);
}

START_TEST(refused)
{
	struct checkpoint *c = NULL;
	const struct tensor *t = NULL;
	scratch_folder();
	check_fails(checkpoint_random("/nonexistent/config.json", 1, &c, &test_error), ERR_MISSING,
		"/nonexistent/config.json");
	ck_assert_ptr_null(c);
	check_fails(checkpoint_random(test_write_file("config.json", "{}", 2), 1, &c, &test_error), ERR_INPUT,
		"config.json");
	check_fails(checkpoint_random(test_write_file("config.json", "{", 1), 1, &c, &test_error), ERR_INPUT,
		"config.json");
	c = open_drawn(1);
	check_fails(checkpoint_require(c, "huge", 1 << 24, 1 << 24, &t, &test_error), ERR_MEMORY, "huge");
	require(c, "small", 2, 2); /* and it goes on */
	checkpoint_close(c);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *all = test_case(suite, "drawn", 0);
	tcase_add_test(all, matrices_have_their_variance);
	tcase_add_test(all, vectors);
	tcase_add_test(all, the_seed_decides);
	tcase_add_test(all, threads_change_nothing);
	tcase_add_test(all, values_are_those_of_the_definition);
	tcase_add_test(all, values_stay);
	tcase_add_test(all, refused);
}
