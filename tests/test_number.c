/* Number formats and quantisation, against torch and NumPy by digest, and against their definitions code by code. */
#include <float.h>
#include <math.h>

#include "engine/base/hash.h"
#include "engine/base/number.h"
#include "engine/base/quant.h"
#include "tests/ops_golden.h"

const char *const test_program_name = "number";

/* ---- against torch and NumPy ---- */

enum { BLOCK = 65536 };

/* The inputs of make_numbers.py: all bit patterns, or exponents around the range of E4M3. */
static float sample(bool near, uint64_t i)
{
	uint64_t z = hash_at(near ? 601 : 600, i);
	uint32_t bits = (uint32_t)(z >> 32);
	if (near)
		bits = (bits & 0x807fffffu) | (uint32_t)(113 + (z & 0xffff) % 24) << 23;
	return float_from_bits(bits);
}

static float quiet(float x)
{
	return isnan(x) ? float_from_bits(0x7fc00000u) : x;
}

/* Fills out with one table's results; returns their bytes. */
static size_t convert(const char *table, uint64_t block, void *out)
{
	float *floats = out;
	uint16_t *halves = out;
	uint8_t *codes = out;
	bool near = strstr(table, "near") != NULL;

	for (uint32_t i = 0; i < BLOCK; i++) {
		float x = sample(near, block * BLOCK + i);
		if (strcmp(table, "bf16_to_float") == 0)
			floats[i] = quiet(bf16_to_float((uint16_t)i));
		else if (strcmp(table, "f16_to_float") == 0)
			floats[i] = quiet(f16_to_float((uint16_t)i));
		else if (strcmp(table, "e4m3_to_float") == 0)
			floats[i] = quiet(e4m3_to_float((uint8_t)i));
		else if (strcmp(table, "e5m2_to_float") == 0)
			floats[i] = quiet(e5m2_to_float((uint8_t)i));
		else if (strncmp(table, "float_to_bf16", 13) == 0)
			halves[i] = isnan(x) ? 0x7fc0 : float_to_bf16(x);
		else if (strncmp(table, "float_to_e4m3", 13) == 0)
			codes[i] = isnan(x) ? 0x7f : float_to_e4m3(x);
		else
			ck_abort_msg("unknown table %s", table);
	}
	if (table[0] == 'e')
		return 256 * sizeof(float);
	return strncmp(table, "float_to", 8) != 0 ? BLOCK * sizeof(float) : strstr(table, "bf16") ? BLOCK * 2 : BLOCK;
}

static void number_row(char **field)
{
	static float out[BLOCK];
	char digest[SHA256_HEX_SIZE];
	size_t bytes = convert(field[0], (uint64_t)golden_int(field[1]), out);

	sha256_hex(out, bytes, digest);
	ck_assert_msg(strcmp(digest, field[2]) == 0, "%s, block %s: other results", field[0], field[1]);
}

START_TEST(conversions_golden)
{
	ck_assert_int_eq(golden_each("number.tsv", 3, number_row), 4 + 2 * 16);
}
END_TEST

/* ---- code by code ---- */

START_TEST(bf16_all_codes)
{
	for (uint32_t code = 0; code < 65536; code++) {
		float value = bf16_to_float((uint16_t)code);
		ck_assert_uint_eq(float_bits(value), code << 16);
		uint16_t back = float_to_bf16(value);
		if (isnan(value)) {
			ck_assert(isnan(bf16_to_float(back)));
			ck_assert_uint_eq(back, code | 0x40); /* sign and payload kept, quiet */
		} else {
			ck_assert_uint_eq(back, code);
		}
	}
}
END_TEST

/* Half way between two codes goes to the even one, a float further to the nearer one; past the largest is infinity. */
START_TEST(bf16_ties)
{
	for (uint32_t code = 0; code < 0x7f80; code++) {
		uint32_t tie = code << 16 | 0x8000;
		ck_assert_uint_eq(float_to_bf16(float_from_bits(tie)), code + (code & 1));
		ck_assert_uint_eq(float_to_bf16(float_from_bits(tie - 1)), code);
		ck_assert_uint_eq(float_to_bf16(float_from_bits(tie + 1)), code + 1);
		ck_assert_uint_eq(float_to_bf16(float_from_bits(tie | 0x80000000u)), (code + (code & 1)) | 0x8000);
	}
	ck_assert_uint_eq(float_to_bf16(FLT_MAX), 0x7f80);
	ck_assert_uint_eq(float_to_bf16(-INFINITY), 0xff80);
	/* a NaN whose payload is in the low half only, or all ones */
	ck_assert(isnan(bf16_to_float(float_to_bf16(float_from_bits(0x7f800001u)))));
	ck_assert(isnan(bf16_to_float(float_to_bf16(float_from_bits(0xffffffffu)))));
}
END_TEST

/* sign * m * 2^e in double, from the fields of a small format; the largest exponent is left to the caller. */
static double fields_value(unsigned code, int exponent_bits, int mantissa_bits)
{
	unsigned mantissa = code & ((1u << mantissa_bits) - 1),
		 exponent = code >> mantissa_bits & ((1u << exponent_bits) - 1);
	int bias = (1 << (exponent_bits - 1)) - 1;
	double value = exponent ? ldexp(1.0 + ldexp(mantissa, -mantissa_bits), (int)exponent - bias)
				: ldexp(mantissa, 1 - bias - mantissa_bits);
	return code >> (exponent_bits + mantissa_bits) ? -value : value;
}

/* Exact: the value found by the definition comes back, and with its sign (-0 too). */
static void check_value(float got, double want, unsigned code)
{
	ck_assert_msg(
		(double)got == want && !signbit(got) == !signbit(want), "code %x: %a, not %a", code, (double)got, want);
}

START_TEST(f16_all_codes)
{
	for (unsigned code = 0; code < 65536; code++) {
		float value = f16_to_float((uint16_t)code);
		if ((code & 0x7fff) > 0x7c00)
			ck_assert(isnan(value));
		else if ((code & 0x7fff) == 0x7c00)
			check_value(value, code & 0x8000 ? (double)-INFINITY : (double)INFINITY, code);
		else
			check_value(value, fields_value(code, 5, 10), code);
	}
}
END_TEST

START_TEST(e4m3_all_codes)
{
	for (unsigned code = 0; code < 256; code++) {
		float value = e4m3_to_float((uint8_t)code);
		if ((code & 0x7f) == 0x7f)
			ck_assert(isnan(value));
		else
			check_value(value, fields_value(code, 4, 3), code);
		ck_assert_uint_eq(float_to_e4m3(value), code);
	}
	ck_assert_uint_eq(float_to_e4m3(1.0f), 0x38);
	ck_assert_uint_eq(float_to_e4m3(448.0f), 0x7e);
}
END_TEST

START_TEST(e5m2_all_codes)
{
	for (unsigned code = 0; code < 256; code++) {
		float value = e5m2_to_float((uint8_t)code);
		if ((code & 0x7f) > 0x7c)
			ck_assert(isnan(value));
		else if ((code & 0x7f) == 0x7c)
			check_value(value, code & 0x80 ? (double)-INFINITY : (double)INFINITY, code);
		else
			check_value(value, fields_value(code, 5, 2), code);
	}
}
END_TEST

/* Between neighbours: the tie to the even code, the next floats to their own side; both signs. */
START_TEST(e4m3_ties)
{
	for (unsigned code = 0; code < 0x7e; code++) {
		float low = e4m3_to_float((uint8_t)code), high = e4m3_to_float((uint8_t)(code + 1)),
		      tie = (low + high) / 2.0f;
		for (unsigned sign = 0; sign <= 0x80; sign += 0x80) {
			float s = sign ? -1.0f : 1.0f;
			ck_assert_uint_eq(float_to_e4m3(s * tie), sign | (code + (code & 1)));
			ck_assert_uint_eq(float_to_e4m3(s * nextafterf(tie, 0.0f)), sign | code);
			ck_assert_uint_eq(float_to_e4m3(s * nextafterf(tie, 1e9f)), sign | (code + 1));
			ck_assert_uint_eq(float_to_e4m3(s * nextafterf(high, 0.0f)), sign | (code + 1));
			ck_assert_uint_eq(float_to_e4m3(s * nextafterf(low, 1e9f)), sign | code);
		}
	}
}
END_TEST

START_TEST(e4m3_saturates)
{
	static const float large[] = {448.0f, 449.0f, 463.9f, 464.0f, 465.0f, 480.0f, 512.0f, 1e30f, FLT_MAX, INFINITY};

	for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
		ck_assert_uint_eq(float_to_e4m3(large[i]), 0x7e);
		ck_assert_uint_eq(float_to_e4m3(-large[i]), 0xfe);
	}
	ck_assert_uint_eq(float_to_e4m3(NAN) & 0x7f, 0x7f);
	ck_assert_uint_eq(float_to_e4m3(float_from_bits(0xff800001u)), 0xff);
	ck_assert_uint_eq(float_to_e4m3(-0.0f), 0x80);
	ck_assert_uint_eq(float_to_e4m3(0x1p-149f), 0x00);
	ck_assert_uint_eq(float_to_e4m3(-0x1p-149f), 0x80);
	ck_assert_uint_eq(float_to_e4m3(0x1p-10f), 0x00); /* half a step, to even */
	ck_assert_uint_eq(float_to_e4m3(nextafterf(0x1p-10f, 1.0f)), 0x01);
	ck_assert_uint_eq(float_to_e4m3(0x1.8p-9f), 0x02);
	ck_assert_uint_eq(float_to_e4m3(nextafterf(0x1p-6f, 0.0f)), 0x08); /* to the smallest normal */
}
END_TEST

/* ---- quantising rows ---- */

START_TEST(amax_of_rows)
{
	const float row[] = {1.0f, -3.0f, 2.0f, -0.0f}, nan_row[] = {9.0f, NAN, 1.0f}, nan_last[] = {1.0f, NAN};
	const float infinite[] = {1.0f, -INFINITY, 2.0f};

	ck_assert_float_eq(row_amax(row, 4), 3.0f);
	ck_assert_float_eq(row_amax(row, 1), 1.0f);
	ck_assert_float_eq(row_amax(row, 0), 0.0f);
	ck_assert(float_bits(row_amax(row + 3, 1)) == 0);
	ck_assert_float_nan(row_amax(nan_row, 3));
	ck_assert_float_nan(row_amax(nan_last, 2));
	ck_assert(isinf(row_amax(infinite, 3)));
}
END_TEST

START_TEST(e4m3_rows)
{
	const float row[] = {1.0f, -2.0f, 0.5f, 0.0f, 3.5f};
	uint8_t codes[5];
	float scale = e4m3_scale(row_amax(row, 5));

	ck_assert_float_eq(scale, 3.5f / 448.0f);
	e4m3_quantize_row(row, 5, scale, codes);
	static const uint8_t want[] = {0x70, 0xf8, 0x68, 0x00, 0x7e}; /* 128, -256, 64, 0, 448 */
	ck_assert_mem_eq(codes, want, 5);
	ck_assert_float_eq(e4m3_scale(0.0f), 1.0f);
	ck_assert_float_nan(e4m3_scale(NAN));
}
END_TEST

/* amax / 448 may be too small for a float: no finite row becomes NaN. */
START_TEST(e4m3_tiny_rows)
{
	for (float amax = 0x1p-149f; amax < 1e-37f; amax *= 3.0f) {
		const float row[] = {0.0f, amax, -amax, amax / 2.0f};
		uint8_t codes[4];
		float scale = e4m3_scale(row_amax(row, 4));
		e4m3_quantize_row(row, 4, scale, codes);
		ck_assert(scale > 0.0f);
		for (int i = 0; i < 4; i++) {
			float back = e4m3_to_float(codes[i]) * scale;
			ck_assert_msg(fabsf(back - row[i]) <= amax, "amax %a: %a became %a", (double)amax,
				(double)row[i], (double)back);
		}
	}
}
END_TEST

static void int4_row(char **field)
{
	int n = golden_int(field[0]), group = golden_int(field[1]), zero = golden_int(field[3]);
	int groups = (n + group - 1) / group;
	float *row = hash_values((uint64_t)golden_int(field[2]), (size_t)n);
	uint8_t *q8 = malloc((size_t)n);
	uint16_t *scales = malloc((size_t)groups * sizeof *scales);

	ck_assert(q8 && scales);
	ck_assert_uint_eq(strlen(field[4]), (size_t)(groups * 5 - 1));
	ck_assert_uint_eq(strlen(field[5]), (size_t)n);
	for (int i = 0; i < n; i++)
		row[i] = zero >= 0 && i / group == zero ? 0.0f : row[i] * 0.37f;
	int4_quantize_row(row, n, group, q8, scales);
	for (int g = 0; g < groups; g++) {
		unsigned want;
		ck_assert_int_eq(sscanf(field[4] + 5 * g, "%4x", &want), 1);
		ck_assert_msg(
			scales[g] == want, "n %d, group %d: scale %d is %04x, not %04x", n, group, g, scales[g], want);
	}
	for (int i = 0; i < n; i++) {
		unsigned want;
		ck_assert_int_eq(sscanf(field[5] + i, "%1x", &want), 1);
		ck_assert_msg(q8[i] == want, "n %d, group %d: q %d is %d, not %u", n, group, i, q8[i], want);
	}
	free(row);
	free(q8);
	free(scales);
}

START_TEST(int4_golden)
{
	ck_assert_int_eq(golden_each("int4.tsv", 6, int4_row), 7);
}
END_TEST

static void check_int4(const float *row, int n, uint16_t scale, const uint8_t *want)
{
	uint8_t q8[8];
	uint16_t scales[1] = {0xdead};

	int4_quantize_row(row, n, 8, q8, scales);
	ck_assert_uint_eq(scales[0], scale);
	for (int i = 0; i < n; i++)
		ck_assert_msg(q8[i] == want[i], "q %d is %d, not %d", i, q8[i], want[i]);
}

START_TEST(int4_edges)
{
	/* scale 1: ties to even on both sides */
	const float ties[] = {7.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, -7.0f};
	const uint8_t ties_want[] = {15, 8, 10, 10, 8, 6, 6, 1};
	check_int4(ties, 8, 0x3f80, ties_want);

	/* 8.75 * 2^-133 / 7 is 1.25 steps of the smallest bf16: the scale rounds to one, and q is cut at both ends */
	const float tiny[] = {0x1.18p-130f, -0x1.18p-130f, 0x1p-133f};
	const uint8_t tiny_want[] = {15, 0, 9};
	check_int4(tiny, 3, 0x0001, tiny_want);

	/* too small for any scale: 0 */
	const float nothing[] = {0x1p-140f, -0x1p-149f, 0.0f};
	const uint8_t nothing_want[] = {8, 8, 8};
	check_int4(nothing, 3, 0x0000, nothing_want);

	/* a broken weight breaks the scale, not the program */
	const float broken[] = {1.0f, NAN, -2.0f};
	uint8_t q8[3];
	uint16_t scale;
	int4_quantize_row(broken, 3, 8, q8, &scale);
	ck_assert_float_nan(bf16_to_float(scale));
	for (int i = 0; i < 3; i++)
		ck_assert_uint_lt(q8[i], 16);
	const float infinite[] = {1.0f, -INFINITY};
	int4_quantize_row(infinite, 2, 8, q8, &scale);
	ck_assert_uint_eq(scale, 0x7f80);
	ck_assert(q8[0] < 16 && q8[1] < 16);
	int4_quantize_row(infinite, 0, 8, q8, &scale);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *formats = test_case(suite, "formats", 0);
	tcase_add_test(formats, conversions_golden);
	tcase_add_test(formats, bf16_all_codes);
	tcase_add_test(formats, bf16_ties);
	tcase_add_test(formats, f16_all_codes);
	tcase_add_test(formats, e4m3_all_codes);
	tcase_add_test(formats, e5m2_all_codes);
	tcase_add_test(formats, e4m3_ties);
	tcase_add_test(formats, e4m3_saturates);

	TCase *rows = test_case(suite, "rows", 0);
	tcase_add_test(rows, amax_of_rows);
	tcase_add_test(rows, e4m3_rows);
	tcase_add_test(rows, e4m3_tiny_rows);
	tcase_add_test(rows, int4_golden);
	tcase_add_test(rows, int4_edges);
}
