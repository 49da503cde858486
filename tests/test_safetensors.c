#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/safetensors.h"
#include "tests/support.h"

const char *const test_program_name = "safetensors";

/* A file in memory of exactly its size, so that a read past its end is seen: length, header, data bytes 1, 2, 3, ... */
static uint8_t *build_file(const char *header, size_t data_size, size_t *size)
{
	uint64_t length = strlen(header);
	*size = sizeof(length) + length + data_size;
	uint8_t *bytes = malloc(*size);
	ck_assert_ptr_nonnull(bytes);
	memcpy(bytes, &length, sizeof(length));
	memcpy(bytes + sizeof(length), header, length);
	for (size_t i = 0; i < data_size; i++)
		bytes[sizeof(length) + length + i] = (uint8_t)(i + 1);
	return bytes;
}

/* "name TYPE [shape] +offset; ..." of all tensors in their order. */
static void describe(const struct safetensors *s, const uint8_t *data, struct buf *out)
{
	for (int i = 0; i < safetensors_count(s); i++) {
		const struct tensor *t = safetensors_at(s, i);
		buf_printf(out, "%s%s %s [", i ? "; " : "", t->name, tensor_type_name(t->type));
		for (int d = 0; d < t->rank; d++)
			buf_printf(out, "%s%lld", d ? "," : "", (long long)t->shape[d]);
		buf_printf(out, "] +%td", t->data - data);
		ck_assert_uint_eq(t->size, t->count * tensor_type_size(t->type));
		ck_assert_ptr_eq(safetensors_find(s, t->name), t);
	}
}

#define ENTRY(name, dtype, shape, begin, end) \
	"\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end "]}"

static const struct {
	const char *name, *header;
	size_t data_size;
	const char *expected;
} good[] = {
	{"no tensors", "{}", 0, ""},
	{"one", "{" ENTRY("a", "F32", "2", 0, 8) "}", 8, "a F32 [2] +0"},
	{"order of offset, not of text", "{" ENTRY("b", "I8", "1", 2, 3) "," ENTRY("a", "BF16", "1", 0, 2) "}", 3,
		"a BF16 [1] +0; b I8 [1] +2"},
	{"unaligned", "{" ENTRY("a", "U8", "1", 0, 1) "," ENTRY("b", "F64", "1", 1, 9) "}", 9,
		"a U8 [1] +0; b F64 [1] +1"},
	{"scalar", "{" ENTRY("a", "F32", "", 0, 4) "}", 4, "a F32 [] +0"},
	{"empty between two",
		"{" ENTRY("a", "F32", "1", 0, 4) "," ENTRY("z", "F32", "0,3", 4, 4) "," ENTRY("b", "F32", "", 4, 8) "}",
		8, "a F32 [1] +0; z F32 [0,3] +4; b F32 [] +4"},
	{"only empty", "{" ENTRY("z", "BF16", "0", 0, 0) "}", 0, "z BF16 [0] +0"},
	{"empty at the end", "{" ENTRY("a", "I16", "1", 0, 2) "," ENTRY("z", "I64", "0", 2, 2) "}", 2,
		"a I16 [1] +0; z I64 [0] +2"},
	{"zero before huge dimensions", "{" ENTRY("z", "F64", "0,9223372036854775807,9223372036854775807", 0, 0) "}", 0,
		"z F64 [0,9223372036854775807,9223372036854775807] +0"},
	{"eight dimensions", "{" ENTRY("a", "BOOL", "1,1,1,1,1,1,1,2", 0, 2) "}", 2, "a BOOL [1,1,1,1,1,1,1,2] +0"},
	{"metadata", "{\"__metadata__\":{\"format\":\"pt\",\"x\":\"\"}," ENTRY("a", "U8", "1", 0, 1) "}", 1,
		"a U8 [1] +0"},
	{"empty metadata", "{\"__metadata__\":{}," ENTRY("a", "U8", "1", 0, 1) "}", 1, "a U8 [1] +0"},
	{"null metadata", "{\"__metadata__\":null," ENTRY("a", "U8", "1", 0, 1) "}", 1, "a U8 [1] +0"},
	{"padded header", "{" ENTRY("a", "U8", "1", 0, 1) "}     ", 1, "a U8 [1] +0"},
	{"unknown member", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"note\":[{}]}}", 1,
		"a U8 [1] +0"},
	{"empty name, name in UTF-8", "{" ENTRY("", "U8", "1", 0, 1) "," ENTRY("\\u00e9", "U8", "1", 1, 2) "}", 2,
		" U8 [1] +0; \xc3\xa9 U8 [1] +1"},
};

START_TEST(accepts_good_files)
{
	size_t size;
	uint8_t *bytes = build_file(good[_i].header, good[_i].data_size, &size);
	struct safetensors *s = NULL;
	CHECK_OK(safetensors_parse(bytes, size, "good.safetensors", &s, &test_error));
	struct buf text = {0};
	describe(s, bytes + size - good[_i].data_size, &text);
	ck_assert_msg(strcmp(buf_text(&text), good[_i].expected) == 0, "%s: %s", good[_i].name, buf_text(&text));
	ck_assert_ptr_null(safetensors_find(s, "not there"));
	buf_free(&text);
	safetensors_close(s);
	free(bytes);
}
END_TEST

START_TEST(accepts_every_type)
{
	static const char *const types[] = {"F64", "I64", "U64", "F32", "I32", "U32", "F16", "BF16", "I16", "U16",
		"F8_E4M3", "F8_E5M2", "I8", "U8", "BOOL"};
	static const int sizes[] = {8, 8, 8, 4, 4, 4, 2, 2, 2, 2, 1, 1, 1, 1, 1};
	for (int i = 0; i < 15; i++) {
		struct buf header = {0}, text = {0};
		struct safetensors *s;
		char expected[32];
		size_t size;
		buf_printf(&header, "{\"a\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,%d]}}", types[i],
			3 * sizes[i]);
		uint8_t *bytes = build_file(buf_text(&header), (size_t)(3 * sizes[i]), &size);
		CHECK_OK(safetensors_parse(bytes, size, types[i], &s, &test_error));
		describe(s, safetensors_at(s, 0)->data, &text);
		snprintf(expected, sizeof(expected), "a %s [3] +0", types[i]);
		ck_assert_str_eq(buf_text(&text), expected);
		safetensors_close(s);
		free(bytes);
		buf_free(&header);
		buf_free(&text);
	}
}
END_TEST

static const struct {
	const char *name, *header;
	size_t data_size;
	const char *expected; /* part of the message */
} bad[] = {
	{"no text", "", 0, "header: line 1"},
	{"no JSON", "abc", 0, "header: line 1"},
	{"array", "[]", 0, "the header is array, expected an object"},
	{"number", "1", 0, "the header is number"},
	{"two values", "{}{}", 0, "header: line 1"},
	{"escape behind the header", "{}\\u0000", 0, "header: line 1"},
	{"doubled tensor", "{" ENTRY("a", "U8", "1", 0, 1) "," ENTRY("a", "U8", "1", 1, 2) "}", 2, "\"a\""},
	{"doubled tensor, escaped", "{" ENTRY("a", "U8", "1", 0, 1) "," ENTRY("\\u0061", "U8", "1", 1, 2) "}", 2,
		"\"a\""},
	{"doubled member", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
		"\"shape\""},
	{"doubled metadata", "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "\"__metadata__\""},
	{"metadata with a number", "{\"__metadata__\":{\"step\":0}}", 0, "\"step\" is number, expected a string"},
	{"metadata is a tensor", "{" ENTRY("__metadata__", "U8", "1", 0, 1) "}", 1, "\"shape\" is array"},
	{"metadata is text", "{\"__metadata__\":\"pt\"}", 0, "__metadata__ is string"},
	{"entry is null", "{\"a\":null}", 0, "tensor \"a\": its entry is null"},
	{"no dtype", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "tensor \"a\": dtype is missing"},
	{"unknown dtype", "{" ENTRY("a", "F4", "2", 0, 1) "}", 1, "tensor \"a\": dtype \"F4\" is not supported"},
	{"dtype in small letters", "{" ENTRY("a", "bf16", "1", 0, 2) "}", 2, "dtype \"bf16\""},
	{"dtype and NUL", "{" ENTRY("a", "U8\\u0000", "1", 0, 1) "}", 1, "tensor \"a\": dtype \"U8"},
	{"dtype is a number", "{\"a\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "dtype is number"},
	{"no shape", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "tensor \"a\": shape is missing"},
	{"shape is a number", "{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1, "shape is number"},
	{"nine dimensions", "{" ENTRY("a", "U8", "1,1,1,1,1,1,1,1,1", 0, 1) "}", 1, "9 dimensions, at most 8"},
	{"negative dimension", "{" ENTRY("a", "U8", "1,-1", 0, 1) "}", 1, "dimension 1 is -1"},
	{"fraction", "{" ENTRY("a", "U8", "1.0", 0, 1) "}", 1, "dimension 0 is 1.0"},
	{"exponent", "{" ENTRY("a", "U8", "1e0", 0, 1) "}", 1, "dimension 0 is 1e0"},
	{"dimension is text", "{" ENTRY("a", "U8", "\"1\"", 0, 1) "}", 1, "dimension 0 is string"},
	{"dimension of 2^63", "{" ENTRY("a", "U8", "0,9223372036854775808", 0, 0) "}", 0,
		"dimension 1 is 9223372036854775808"},
	{"elements overflow", "{" ENTRY("a", "U8", "4294967296,4294967296", 0, 0) "}", 0, "elements overflows"},
	{"elements overflow before a zero", "{" ENTRY("a", "U8", "4294967296,4294967296,0", 0, 0) "}", 0,
		"elements overflows"},
	{"bytes overflow", "{" ENTRY("a", "F64", "2305843009213693952", 0, 0) "}", 0, "bytes overflows"},
	{"no offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "tensor \"a\": data_offsets is missing"},
	{"one offset", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1,
		"data_offsets is array of another"},
	{"three offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}", 1,
		"data_offsets is array of another"},
	{"offset of 2^63", "{" ENTRY("a", "U8", "1", 0, 9223372036854775808) "}", 1, "[0, 9223372036854775808]"},
	{"offset of 2^64 + 1", "{" ENTRY("a", "U8", "1", 0, 18446744073709551617) "}", 1, "[0, 18446744073709551617]"},
	{"offset of 2^63 - 1", "{" ENTRY("a", "U8", "9223372036854775807", 0, 9223372036854775807) "}", 1,
		"reach past the 1 bytes"},
	{"fraction in offsets", "{" ENTRY("a", "U8", "1", 0, 1.0) "}", 1, "[0, 1.0]"},
	{"negative offset", "{" ENTRY("a", "U8", "1", -1, 0) "}", 1, "[-1, 0]"},
	{"reversed offsets", "{" ENTRY("a", "U8", "1", 1, 0) "}", 1, "[1, 0]"},
	{"offsets disagree with shape", "{" ENTRY("a", "F32", "2", 0, 4) "}", 4,
		"hold 4 bytes, its shape and dtype F32 need 8"},
	{"data end early", "{" ENTRY("a", "F32", "2", 0, 8) "}", 7, "reach past the 7 bytes"},
	{"tail", "{" ENTRY("a", "U8", "1", 0, 1) "}", 2, "end at offset 1, but 2 bytes of data"},
	{"data without tensors", "{}", 1, "end at offset 0, but 1 bytes"},
	{"hole at the start", "{" ENTRY("a", "U8", "1", 1, 2) "}", 2, "tensor \"a\" begins at offset 1"},
	{"hole between", "{" ENTRY("a", "U8", "1", 0, 1) "," ENTRY("b", "U8", "1", 2, 3) "}", 3,
		"tensor \"b\" begins at offset 2"},
	{"overlap", "{" ENTRY("a", "U8", "2", 0, 2) "," ENTRY("b", "U8", "1", 1, 2) "}", 2,
		"tensors \"a\" and \"b\" overlap"},
	{"same bytes twice", "{" ENTRY("a", "U8", "2", 0, 2) "," ENTRY("b", "U8", "2", 0, 2) "}", 2, "overlap"},
	{"empty inside another", "{" ENTRY("a", "U8", "2", 0, 2) "," ENTRY("z", "U8", "0", 1, 1) "}", 2, "overlap"},
	{"NUL in a name", "{" ENTRY("a\\u0000b", "U8", "1", 0, 1) "}", 1, "U+0000"},
};

static void check_refused(const uint8_t *bytes, size_t size, const char *name, const char *expected)
{
	struct safetensors *s = (struct safetensors *)&test_error;
	int status = safetensors_parse(bytes, size, "bad.safetensors", &s, &test_error);
	ck_assert_msg(status == ERR_INPUT && test_error.code == ERR_INPUT, "%s: status %d", name, status);
	ck_assert_ptr_null(s);
	ck_assert_msg(strncmp(test_error.message, "bad.safetensors: ", 17) == 0 && strstr(test_error.message, expected),
		"%s: %s", name, test_error.message);
}

START_TEST(refuses_bad_files)
{
	size_t size;
	uint8_t *bytes = build_file(bad[_i].header, bad[_i].data_size, &size);
	check_refused(bytes, size, bad[_i].name, bad[_i].expected);
	free(bytes);
}
END_TEST

START_TEST(refuses_every_truncation)
{
	size_t size;
	uint8_t *bytes = build_file("{" ENTRY("a", "F32", "2", 0, 8) "," ENTRY("b", "U8", "3", 8, 11) "}", 11, &size);
	for (size_t n = 0; n < size; n++) {
		uint8_t *shorter = malloc(n ? n : 1);
		ck_assert_ptr_nonnull(shorter);
		memcpy(shorter, bytes, n);
		check_refused(n ? shorter : NULL, n, "truncated", "");
		free(shorter);
	}
	free(bytes);
}
END_TEST

START_TEST(refuses_header_lengths)
{
	static const struct {
		uint64_t length;
		const char *expected;
	} cases[] = {
		{3, "cut short"},
		{100 * 1000 * 1000, "cut short"},
		{100 * 1000 * 1000 + 1, "at most 100000000 are accepted"},
		{UINT64_C(1) << 63, "at most 100000000 are accepted"},
		{UINT64_MAX - 7, "at most 100000000 are accepted"},
		{UINT64_MAX, "at most 100000000 are accepted"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t size;
		uint8_t *bytes = build_file("{}", 0, &size);
		memcpy(bytes, &cases[i].length, sizeof(cases[i].length));
		check_refused(bytes, size, "header length", cases[i].expected);
		free(bytes);
	}
}
END_TEST

/* A header of many tensors takes neither long nor much; each is found by its name. */
START_TEST(reads_many_tensors)
{
	enum { COUNT = 20000 };
	struct buf header = {0};
	for (int i = 0; i < COUNT; i++)
		buf_printf(&header, "%c\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
			i ? ',' : '{', i, COUNT - 1 - i, COUNT - i);
	buf_append_char(&header, '}');
	size_t size;
	uint8_t *bytes = build_file(buf_text(&header), COUNT, &size);
	struct safetensors *s;
	CHECK_OK(safetensors_parse(bytes, size, "many", &s, &test_error));
	ck_assert_int_eq(safetensors_count(s), COUNT);
	for (int i = 0; i < COUNT; i++) {
		char name[16];
		snprintf(name, sizeof(name), "t%d", i);
		const struct tensor *t = safetensors_find(s, name);
		ck_assert_ptr_nonnull(t);
		ck_assert_ptr_eq(t, safetensors_at(s, COUNT - 1 - i));
		ck_assert_uint_eq(*t->data, (uint8_t)(COUNT - i));
	}
	safetensors_close(s);
	free(bytes);
	buf_free(&header);
}
END_TEST

START_TEST(opens_files)
{
	size_t size;
	struct safetensors *s;
	uint8_t *bytes = build_file("{" ENTRY("a", "U8", "3", 0, 3) "}", 3, &size);
	scratch_folder();
	CHECK_OK(safetensors_open(test_write_file("good.safetensors", bytes, size), &s, &test_error));
	ck_assert_mem_eq(safetensors_find(s, "a")->data, "\1\2\3", 3);
	safetensors_close(s);

	const char *path = test_write_file("cut.safetensors", bytes, size - 1);
	ck_assert_int_eq(safetensors_open(path, &s, &test_error), ERR_INPUT);
	ck_assert_ptr_null(s);
	ck_assert_ptr_nonnull(strstr(test_error.message, path));
	ck_assert_int_eq(safetensors_open(test_write_file("empty.safetensors", "", 0), &s, &test_error), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "0 bytes"));
	ck_assert_int_eq(safetensors_open("/nowhere/x.safetensors", &s, &test_error), ERR_MISSING);
	ck_assert_ptr_nonnull(strstr(test_error.message, "/nowhere/x.safetensors"));
	safetensors_close(NULL);
	free(bytes);
}
END_TEST

/* The reference (safetensors 0.8) loads those without a message; doubled keys are refused here, whatever it does. */
static const struct {
	const char *file, *expected;
	const char *message; /* part of the error when the file is to be refused */
} trials[] = {
	{"T19/dup_gap", NULL, "\"a\""},
	{"T19/dup_same", NULL, "\"a\""},
	{"T19/dup_shape", NULL, "\"a\""},
	{"T21/meta_int", NULL, "\"step\""},
	{"T21/meta_tensor", NULL, "__metadata__"},
	{"T21/meta_empty", "a F32 [2] +0", NULL},
	{"T21/meta_null", "a F32 [2] +0", NULL},
	{"T23/zero_mid", "a F32 [1] +0; z F32 [0,3] +4; b F32 [] +4", NULL},
	{"T23/zero_only", "z BF16 [0] +0", NULL},
	{"T23/empty", "", NULL},
	{"T23/hole", NULL, "hole"},
	{"T23/tail", NULL, "end at offset 4"},
	{"T23/overlap", NULL, "overlap"},
};

START_TEST(reads_field_files)
{
	char relative[64];
	snprintf(relative, sizeof(relative), "trials/%s.safetensors", trials[_i].file);
	const char *path = shared_path(relative);
	if (!path)
		SKIP("no shared trials");
	struct safetensors *s;
	int status = safetensors_open(path, &s, &test_error);
	if (trials[_i].message) {
		ck_assert_int_eq(status, ERR_INPUT);
		ck_assert_msg(strstr(test_error.message, trials[_i].message), "%s", test_error.message);
		return;
	}
	ck_assert_msg(status >= 0, "%s: %s", relative, test_error.message);
	struct buf text = {0};
	int count = safetensors_count(s);
	describe(s, count ? safetensors_at(s, 0)->data : NULL, &text);
	ck_assert_str_eq(buf_text(&text), trials[_i].expected);
	buf_free(&text);
	safetensors_close(s);
}
END_TEST

START_TEST(names_and_sizes_of_types)
{
	static const struct {
		enum tensor_type type;
		const char *name;
		size_t size;
	} cases[] = {
		{TENSOR_F64, "F64", 8},
		{TENSOR_F32, "F32", 4},
		{TENSOR_F16, "F16", 2},
		{TENSOR_BF16, "BF16", 2},
		{TENSOR_F8_E4M3, "F8_E4M3", 1},
		{TENSOR_F8_E5M2, "F8_E5M2", 1},
		{TENSOR_I64, "I64", 8},
		{TENSOR_I32, "I32", 4},
		{TENSOR_I16, "I16", 2},
		{TENSOR_I8, "I8", 1},
		{TENSOR_U64, "U64", 8},
		{TENSOR_U32, "U32", 4},
		{TENSOR_U16, "U16", 2},
		{TENSOR_U8, "U8", 1},
		{TENSOR_BOOL, "BOOL", 1},
	};
	ck_assert_uint_eq(sizeof(cases) / sizeof(cases[0]), TENSOR_PLAIN_COUNT);
	for (size_t i = 0; i < TENSOR_PLAIN_COUNT; i++) {
		ck_assert_str_eq(tensor_type_name(cases[i].type), cases[i].name);
		ck_assert_uint_eq(tensor_type_size(cases[i].type), cases[i].size);
	}
}
END_TEST

/* A one-dimensional tensor over bytes. */
static struct tensor tensor_over(enum tensor_type type, const void *bytes, size_t count)
{
	size_t size = count * tensor_type_size(type);
	return (struct tensor){.name = "t",
		.type = type,
		.rank = 1,
		.shape = {(int64_t)count},
		.count = count,
		.data = bytes,
		.size = size};
}

/* The value of a code by the definition of a binary format: sign, exponent bits with that bias, mantissa bits. */
static double value_of_code(uint32_t code, int exponent_bits, int mantissa_bits, int bias, bool has_infinity)
{
	uint32_t mantissa = code & ((1u << mantissa_bits) - 1), top = (1u << exponent_bits) - 1;
	uint32_t exponent = code >> mantissa_bits & top;
	double sign = code >> (exponent_bits + mantissa_bits) ? -1.0 : 1.0;
	if (exponent == top && (has_infinity || mantissa == (1u << mantissa_bits) - 1))
		return mantissa ? NAN : sign * INFINITY;
	double fraction = ldexp(mantissa, -mantissa_bits);
	return sign * (exponent ? ldexp(1.0 + fraction, (int)exponent - bias) : ldexp(fraction, 1 - bias));
}

static void check_all_codes(enum tensor_type type, int exponent_bits, int mantissa_bits, int bias, bool has_infinity)
{
	size_t count = (size_t)1 << (1 + exponent_bits + mantissa_bits), width = tensor_type_size(type);
	uint8_t *bytes = malloc(1 + count * width);
	float *floats = malloc(count * sizeof(*floats));
	ck_assert(bytes && floats);
	for (uint32_t code = 0; code < count; code++)
		memcpy(bytes + 1 + code * width, &code, width); /* one byte off any alignment */
	struct tensor t = tensor_over(type, bytes + 1, count);
	ck_assert_int_eq(tensor_to_float(&t, 0, count, floats), 0);
	for (uint32_t code = 0; code < count; code++) {
		double expected = value_of_code(code, exponent_bits, mantissa_bits, bias, has_infinity);
		double actual = floats[code];
		bool same =
			isnan(expected) ? isnan(actual) : actual == expected && signbit(actual) == signbit(expected);
		ck_assert_msg(
			same, "%s code 0x%x: %.17g, expected %.17g", tensor_type_name(type), code, actual, expected);
	}
	free(floats);
	free(bytes);
}

START_TEST(widens_every_code)
{
	check_all_codes(TENSOR_F16, 5, 10, 15, true);
	check_all_codes(TENSOR_BF16, 8, 7, 127, true);
	check_all_codes(TENSOR_F8_E4M3, 4, 3, 7, false);
	check_all_codes(TENSOR_F8_E5M2, 5, 2, 15, true);
}
END_TEST

START_TEST(widens_known_values)
{
	static const uint8_t bytes[] = {0x38, 0x7e, 0x7f, 0x01, 0x80, 0x3c, 0x7b, 0x00, 0x7c, 0x80, 0x3f};
	float out[4];
	struct tensor t = tensor_over(TENSOR_F8_E4M3, bytes, 5);
	ck_assert_int_eq(tensor_to_float(&t, 0, 4, out), 0);
	ck_assert(out[0] == 1.0F && out[1] == 448.0F && isnan(out[2]) && out[3] == 0x1p-9F);
	t = tensor_over(TENSOR_F8_E5M2, bytes, 7);
	ck_assert_int_eq(tensor_to_float(&t, 5, 2, out), 0);
	ck_assert(out[0] == 1.0F && out[1] == 57344.0F);
	t = tensor_over(TENSOR_F16, bytes + 7, 1);
	ck_assert_int_eq(tensor_to_float(&t, 0, 1, out), 0);
	ck_assert(out[0] == INFINITY);
	t = tensor_over(TENSOR_BF16, bytes + 9, 1);
	ck_assert_int_eq(tensor_to_float(&t, 0, 1, out), 0);
	ck_assert(out[0] == 1.0F);
}
END_TEST

START_TEST(widens_parts)
{
	static const float floats[] = {1.5F, -2.25F, 3e38F, 1e-45F, -0.0F};
	static const double doubles[] = {0.1, 1.0 + 0x1p-24, 1e300, -1e-300, 0x1.ffffffp127};
	static const float rounded[] = {0.1F, 1.0F, INFINITY, -0.0F, INFINITY};
	float out[6] = {7, 7, 7, 7, 7, 7};
	struct tensor t = tensor_over(TENSOR_F32, floats, 5);
	ck_assert_int_eq(tensor_to_float(&t, 1, 3, out + 1), 0);
	ck_assert_mem_eq(out + 1, floats + 1, 3 * sizeof(float));
	ck_assert(out[0] == 7.0F && out[4] == 7.0F);
	t = tensor_over(TENSOR_F64, doubles, 5);
	ck_assert_int_eq(tensor_to_float(&t, 0, 5, out), 0);
	for (int i = 0; i < 5; i++)
		ck_assert_msg(memcmp(&out[i], &rounded[i], sizeof(float)) == 0, "element %d: %.9g", i, (double)out[i]);
	ck_assert(out[5] == 7.0F);
	ck_assert_int_eq(tensor_to_float(&t, 5, 0, out + 5), 0);
	t = tensor_over(TENSOR_F32, NULL, 0);
	ck_assert_int_eq(tensor_to_float(&t, 0, 0, out + 5), 0);
	ck_assert(out[5] == 7.0F);
}
END_TEST

START_TEST(widens_no_integers)
{
	static const uint64_t zero = 0;
	for (enum tensor_type type = TENSOR_I64; type < TENSOR_PLAIN_COUNT; type++) {
		float out = 7.0F;
		struct tensor t = tensor_over(type, &zero, 1);
		ck_assert_int_eq(tensor_to_float(&t, 0, 1, &out), ERR_INPUT);
		ck_assert(out == 7.0F);
	}
}
END_TEST

#define COUNT(table) (int)(sizeof(table) / sizeof((table)[0]))

void test_program_cases(Suite *suite)
{
	TCase *files = test_case(suite, "files", 60);
	tcase_add_loop_test(files, accepts_good_files, 0, COUNT(good));
	tcase_add_test(files, accepts_every_type);
	tcase_add_loop_test(files, refuses_bad_files, 0, COUNT(bad));
	tcase_add_test(files, refuses_every_truncation);
	tcase_add_test(files, refuses_header_lengths);
	tcase_add_test(files, reads_many_tensors);
	tcase_add_test(files, opens_files);
	tcase_add_loop_test(files, reads_field_files, 0, COUNT(trials));
	TCase *tensors = test_case(suite, "tensors", 0);
	tcase_add_test(tensors, names_and_sizes_of_types);
	tcase_add_test(tensors, widens_every_code);
	tcase_add_test(tensors, widens_known_values);
	tcase_add_test(tensors, widens_parts);
	tcase_add_test(tensors, widens_no_integers);
}
