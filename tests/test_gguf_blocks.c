/* Every tensor type of GGUF files widens as in the PyPI package gguf, to the bit (golden/gguf/make_blocks.py). */
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/number.h"
#include "engine/model/tensor.h"
#include "tests/support.h"

const char *const test_program_name = "gguf_blocks";

static const enum tensor_type types[] = {TENSOR_F32, TENSOR_F16, TENSOR_BF16, TENSOR_Q4_0, TENSOR_Q4_1, TENSOR_Q5_0,
	TENSOR_Q5_1, TENSOR_Q8_0, TENSOR_Q4_K, TENSOR_Q5_K, TENSOR_Q6_K};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

static const uint16_t extreme_halves[] = {
	0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x3c00, 0xbc00, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00};
static const uint8_t extreme_fills[] = {0x00, 0xff, 0x0f, 0xf0, 0x80, 0x7f, 0x55};

/* ---- The blocks ---- */

static void append_random(uint64_t seed, size_t count, struct buf *out)
{
	for (size_t done = 0; done < count; done += 8) {
		uint64_t z = seed += 0x9e3779b97f4a7c15U;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
		z = (z ^ z >> 27) * 0x94d049bb133111ebU;
		z ^= z >> 31;
		buf_append(out, &z, count - done < 8 ? count - done : 8);
	}
}

/* Where a block keeps its half floats; returns how many. */
static int half_places(enum tensor_type type, size_t places[2])
{
	places[0] = type == TENSOR_Q6_K ? 208 : 0;
	places[1] = 2;
	return type == TENSOR_Q4_0 || type == TENSOR_Q5_0 || type == TENSOR_Q8_0 || type == TENSOR_Q6_K ? 1 : 2;
}

static void append_extreme(enum tensor_type type, struct buf *out)
{
	size_t size = tensor_type_size(type), places[2];
	int n = half_places(type, places);
	for (size_t fill = 0; fill < sizeof(extreme_fills); fill++)
		for (int place = 0; place < n; place++)
			for (size_t half = 0; half < sizeof(extreme_halves) / sizeof(extreme_halves[0]); half++) {
				uint8_t block[256];
				uint16_t one = 0x3c00;
				memset(block, extreme_fills[fill], size);
				for (int other = 0; other < n; other++)
					memcpy(block + places[other], &one, sizeof(one));
				memcpy(block + places[place], &extreme_halves[half], sizeof(one));
				buf_append(out, block, size);
			}
}

/* ---- Widening ---- */

/* The floats' bits, every NaN the same. offset: bytes that the data lie off any alignment. */
static uint32_t *widened(enum tensor_type type, const void *data, size_t size, size_t offset, size_t *count)
{
	*count = size / tensor_type_size(type) * tensor_type_block(type);
	uint8_t *copy = malloc(size + offset);
	float *values = malloc(*count * sizeof(float));
	uint32_t *bits = malloc(*count * sizeof(*bits));
	ck_assert(copy && values && bits);
	memcpy(copy + offset, data, size);
	struct tensor t = {.type = type,
		.rank = 1,
		.shape = {(int64_t)*count},
		.count = *count,
		.data = copy + offset,
		.size = size};
	ck_assert_int_eq(tensor_to_float(&t, 0, *count, values), 0);
	memcpy(bits, values, *count * sizeof(*bits));
	for (size_t i = 0; i < *count; i++)
		if ((bits[i] & 0x7fffffff) > 0x7f800000)
			bits[i] = 0x7fc00000;
	free(copy);
	free(values);
	return bits;
}

/* The golden line of a type; the fields behind its name and kind. */
static bool golden_line(enum tensor_type type, const char *kind, struct buf *first, struct buf *second)
{
	struct buf file = test_read_file(golden_path("gguf/blocks.tsv"));
	char prefix[64];
	snprintf(prefix, sizeof(prefix), "\n%s\t%s\t", tensor_type_name(type), kind);
	const char *line = strstr(buf_text(&file), prefix);
	if (line) {
		line += strlen(prefix);
		size_t length = strcspn(line, "\t");
		buf_append(first, line, length);
		line += length + 1;
		buf_append(second, line, strcspn(line, "\n"));
	}
	buf_free(&file);
	return line != NULL;
}

static void check_hash(enum tensor_type type, const char *kind, const struct buf *blocks)
{
	struct buf expected_count = {0}, expected_hash = {0};
	char hash[SHA256_HEX_SIZE];
	size_t count;
	uint32_t *bits = widened(type, blocks->data, blocks->length, 1, &count);
	ck_assert(golden_line(type, kind, &expected_count, &expected_hash));
	ck_assert_uint_eq(blocks->length / tensor_type_size(type), strtoul(buf_text(&expected_count), NULL, 10));
	sha256_hex(bits, count * sizeof(*bits), hash);
	ck_assert_msg(
		strcmp(hash, buf_text(&expected_hash)) == 0, "%s, %s blocks differ", tensor_type_name(type), kind);
	free(bits);
	buf_free(&expected_count);
	buf_free(&expected_hash);
}

START_TEST(random_blocks)
{
	size_t size = tensor_type_size(types[_i]);
	struct buf blocks = {0};
	append_random((uint64_t)_i + 1, (1U << 18) / size * size, &blocks);
	check_hash(types[_i], "random", &blocks);
	buf_free(&blocks);
}
END_TEST

START_TEST(extreme_blocks)
{
	struct buf blocks = {0};
	append_extreme(types[_i], &blocks);
	check_hash(types[_i], "extreme", &blocks);
	buf_free(&blocks);
}
END_TEST

static unsigned hex_digit(char c)
{
	return c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a' + 10);
}

static uint8_t hex_byte(const struct buf *text, size_t i)
{
	return (uint8_t)(hex_digit(text->data[2 * i]) << 4 | hex_digit(text->data[2 * i + 1]));
}

/* One block in full: where a hash would only say that something differs, this says which value. */
START_TEST(shown_blocks)
{
	struct buf block = {0}, expected = {0};
	uint8_t bytes[256];
	size_t count;
	ck_assert(golden_line(types[_i], "shown", &block, &expected));
	for (size_t i = 0; i < block.length / 2; i++)
		bytes[i] = hex_byte(&block, i);
	uint32_t *bits = widened(types[_i], bytes, block.length / 2, 3, &count);
	ck_assert_uint_eq(count * 8, expected.length);
	for (size_t i = 0; i < count; i++) {
		uint32_t value = 0;
		for (size_t byte = 0; byte < 4; byte++)
			value = value << 8 | hex_byte(&expected, 4 * i + byte);
		ck_assert_msg(bits[i] == value, "%s: value %zu is %08x, expected %08x", tensor_type_name(types[_i]), i,
			bits[i], value);
	}
	free(bits);
	buf_free(&block);
	buf_free(&expected);
}
END_TEST

/* ---- Rows ---- */

/* [2, 64] of Q8_0: four blocks with scales 1, 2, 4 and 8 and codes that count. */
static struct tensor counting_matrix(uint8_t data[4 * 34])
{
	static const uint16_t scales[4] = {0x3c00, 0x4000, 0x4400, 0x4800};
	for (int b = 0; b < 4; b++) {
		memcpy(data + 34 * b, &scales[b], 2);
		for (int i = 0; i < 32; i++)
			data[34 * b + 2 + i] = (uint8_t)(i - 16);
	}
	return (struct tensor){
		.type = TENSOR_Q8_0, .rank = 2, .shape = {2, 64}, .count = 128, .data = data, .size = 4 * 34};
}

START_TEST(parts_begin_at_blocks)
{
	uint8_t data[4 * 34];
	struct tensor t = counting_matrix(data);
	float values[64];
	ck_assert_int_eq(tensor_to_float(&t, 32, 64, values), 0);
	ck_assert(values[0] == -32.0f && values[31] == 30.0f && values[32] == -64.0f && values[63] == 60.0f);
	ck_assert_int_eq(tensor_to_float(&t, 128, 0, values), 0);
	ck_assert_int_eq(tensor_rows_to_float(&t, 1, 1, values), 0);
	ck_assert(values[0] == -64.0f && values[63] == 120.0f);
}
END_TEST

/* Rounded once to BF16, to nearest even, as floats and as codes; not rounded where the file is not quantised. */
START_TEST(rows_are_rounded_where_they_should)
{
	static const float stored[4] = {1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f, -3.0f, 0x1.010101p0f};
	static const float rounded[4] = {1.0f, 1.0f + 0x1p-6f, -3.0f, 0x1.02p0f};
	struct tensor t = {.type = TENSOR_F32,
		.rank = 2,
		.shape = {2, 2},
		.count = 4,
		.data = (const uint8_t *)stored,
		.size = 16};
	float values[4], row[2];
	uint16_t codes[4];
	ck_assert(!tensor_is_bf16(&t));
	ck_assert_int_eq(tensor_rows_to_float(&t, 0, 2, values), 0);
	ck_assert_mem_eq(values, stored, sizeof(values));
	t.round_to_bf16 = true;
	ck_assert(tensor_is_bf16(&t));
	ck_assert_int_eq(tensor_rows_to_float(&t, 0, 2, values), 0);
	ck_assert_int_eq(tensor_rows_to_bf16(&t, 0, 2, row, codes), 0);
	for (int i = 0; i < 4; i++) {
		ck_assert_float_eq(values[i], rounded[i]);
		ck_assert_float_eq(bf16_to_float(codes[i]), rounded[i]);
	}
}
END_TEST

/* Two heads of six rows: pairs 0 1, 2 3, 4 5 of the file are rows 0 3, 1 4, 2 5. */
START_TEST(rows_in_pairs_become_halves)
{
	static const int expected[12] = {0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};
	float stored[12], values[12];
	for (int i = 0; i < 12; i++)
		stored[i] = (float)i;
	struct tensor t = {.type = TENSOR_F32,
		.rank = 1,
		.shape = {12},
		.count = 12,
		.data = (const uint8_t *)stored,
		.size = 48,
		.pair_heads = 2};
	ck_assert_int_eq(tensor_rows_to_float(&t, 0, 12, values), 0);
	for (int i = 0; i < 12; i++)
		ck_assert_msg(values[i] == (float)expected[i], "row %d is %g", i, (double)values[i]);
	t.rank = 2;
	t.shape[1] = 1;
	ck_assert_int_eq(tensor_rows_to_float(&t, 7, 3, values), 0);
	ck_assert(values[0] == 8.0f && values[1] == 10.0f && values[2] == 7.0f);
}
END_TEST

START_TEST(integers_are_no_weights)
{
	static const uint8_t data[8] = {1};
	struct tensor t = {.type = TENSOR_I32, .rank = 2, .shape = {1, 2}, .count = 2, .data = data, .size = 8};
	float row[2];
	ck_assert_int_eq(tensor_rows_to_float(&t, 0, 1, row), ERR_INPUT);
	t.round_to_bf16 = true;
	uint16_t codes[2];
	ck_assert_int_eq(tensor_rows_to_bf16(&t, 0, 1, row, codes), ERR_INPUT);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *blocks = test_case(suite, "blocks", 60), *rows = test_case(suite, "rows", 0);

	tcase_add_loop_test(blocks, random_blocks, 0, TYPES);
	tcase_add_loop_test(blocks, extreme_blocks, 3, TYPES);
	tcase_add_loop_test(blocks, shown_blocks, 0, TYPES);
	tcase_add_test(rows, parts_begin_at_blocks);
	tcase_add_test(rows, rows_are_rounded_where_they_should);
	tcase_add_test(rows, rows_in_pairs_become_halves);
	tcase_add_test(rows, integers_are_no_weights);
}
