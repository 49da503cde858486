/* Frozen tables of tests/golden/ops, and the hash that makes the inputs which they do not hold (make_ops.py has the
 * same). */
#ifndef ASSAY_TESTS_OPS_GOLDEN_H
#define ASSAY_TESTS_OPS_GOLDEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support.h"
#include "tests/tsv.h"

/* splitmix64 of (seed << 32) + index + 1. */
static inline uint64_t hash_at(uint64_t seed, uint64_t index)
{
	uint64_t z = ((seed << 32) + index + 1) * UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* In [-1, 1), a multiple of 2^-23. */
static inline float hash_value(uint64_t seed, uint64_t index)
{
	return (float)((int64_t)(hash_at(seed, index) >> 40) - (1 << 23)) * 0x1p-23f;
}

/* count values that the caller frees. */
static inline float *hash_values(uint64_t seed, size_t count)
{
	float *out = malloc((count ? count : 1) * sizeof *out);
	ck_assert_ptr_nonnull(out);
	for (size_t i = 0; i < count; i++)
		out[i] = hash_value(seed, i);
	return out;
}

/* Calls row with the fields of each line of tests/golden/ops/NAME; returns how many there were. A line with another
 * number of fields fails the test. */
static inline int golden_each(const char *name, size_t n_fields, void (*row)(char **field))
{
	char path[64];
	int rows = 0;

	snprintf(path, sizeof path, "ops/%s", name);
	for (struct tsv t = tsv_open(path); tsv_next(&t); rows++) {
		char *field[TSV_FIELDS];
		ck_assert_msg(
			t.count == n_fields, "%s, line %zu: %zu fields, not %zu", name, t.line, t.count, n_fields);
		for (size_t i = 0; i < n_fields; i++)
			field[i] = tsv_text(&t, i);
		row(field);
		for (size_t i = 0; i < n_fields; i++)
			free(field[i]);
	}
	return rows;
}

static inline int golden_int(const char *field)
{
	char *end;
	long value = strtol(field, &end, 10);
	ck_assert_msg(end != field && *end == '\0', "no integer: %s", field);
	return (int)value;
}

static inline double golden_double(const char *field)
{
	char *end;
	double value = strtod(field, &end);
	ck_assert_msg(end != field && *end == '\0', "no number: %s", field);
	return value;
}

/* Reads exactly n comma-separated numbers. */
static inline void golden_list(const char *field, double *out, int n)
{
	for (int i = 0; i < n; i++) {
		char *end;
		out[i] = strtod(field, &end);
		ck_assert_msg(end != field && *end == (i + 1 < n ? ',' : '\0'), "not %d numbers: %s", n, field);
		field = end + 1;
	}
}

/* The largest |got - want| is at most tolerance * max |want|. */
static inline void check_close(const float *got, const double *want, int n, double tolerance, const char *what)
{
	double largest = 0.0;
	for (int i = 0; i < n; i++)
		largest = want[i] > largest ? want[i] : -want[i] > largest ? -want[i] : largest;
	for (int i = 0; i < n; i++) {
		double error = (double)got[i] - want[i];
		ck_assert_msg(error <= tolerance * largest && -error <= tolerance * largest,
			"%s: value %d is %.9g, not %.9g (of at most %.3g)", what, i, (double)got[i], want[i], largest);
	}
}

static inline void check_same_bits(const float *got, const float *want, size_t n, const char *what)
{
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(memcmp(got + i, want + i, sizeof *got) == 0, "%s: value %zu is %a, not %a", what, i,
			(double)got[i], (double)want[i]);
}

#endif
