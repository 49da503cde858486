#include "engine/base/decimal.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>

static locale_t c_locale;

static void c_locale_open(void)
{
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	assert(c_locale);
}

/* The locale of strtod_l below; made once, lives as long as the program. */
static locale_t decimal_locale(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, c_locale_open);
	return c_locale;
}

double decimal_to_double(const char *text)
{
	return strtod_l(text, NULL, decimal_locale());
}

/* digits * 10^exponent */
struct decimal {
	uint64_t digits;
	int exponent;
};

enum precision { PRECISION_FLOAT, PRECISION_DOUBLE };

/* magnitude rounded to count significant digits, count <= 17. */
static struct decimal decimal_round(double magnitude, int count)
{
	char text[40];
	snprintf(text, sizeof(text), "%.*e", count - 1, magnitude);
	struct decimal d = {0, 0};
	/* The decimal point is the locale's: whatever stands between the digits is passed over. */
	const char *at = text;
	for (; *at != 'e'; at++) {
		if (*at >= '0' && *at <= '9')
			d.digits = d.digits * 10 + (uint64_t)(*at - '0');
	}
	d.exponent = (int)strtol(at + 1, NULL, 10) - (count - 1);
	return d;
}

static bool decimal_reads_back(struct decimal d, double magnitude, enum precision precision)
{
	char text[40];
	snprintf(text, sizeof(text), "%" PRIu64 "e%d", d.digits, d.exponent);
	if (precision == PRECISION_FLOAT)
		return strtof_l(text, NULL, decimal_locale()) == (float)magnitude;
	return decimal_to_double(text) == magnitude;
}

/* Up to FLT_DIG or DBL_DIG digits any decimal survives the way into binary and back, so rounding to that many finds it
 * and only its zeros are to be cut off. That holds for normal numbers; a subnormal is tried from one digit on. */
static struct decimal decimal_shortest(double magnitude, enum precision precision)
{
	const bool is_float = precision == PRECISION_FLOAT;
	const bool subnormal = magnitude < (is_float ? (double)FLT_MIN : DBL_MIN);
	const int most = is_float ? FLT_DECIMAL_DIG : DBL_DECIMAL_DIG;
	int unused;
	const bool power_of_two = frexp(magnitude, &unused) == 0.5;
	struct decimal d = {0, 0};
	for (int count = subnormal ? 1 : is_float ? FLT_DIG : DBL_DIG; count <= most; count++) {
		d = decimal_round(magnitude, count);
		if (decimal_reads_back(d, magnitude, precision))
			break;
		/* Below a power of two the neighbours lie half as far as above it, so the next decimal above may read back
		 * where the nearest, below, does not. */
		d.digits += 1;
		if (power_of_two && decimal_reads_back(d, magnitude, precision))
			break;
	}
	while (d.digits != 0 && d.digits % 10 == 0) {
		d.digits /= 10;
		d.exponent += 1;
	}
	return d;
}

/* The layout of repr: exponents from -4 to 15 in plain notation. */
static void decimal_write(double value, enum precision precision, struct buf *out)
{
	assert(isfinite(value));
	struct decimal d = decimal_shortest(fabs(value), precision);
	char digits[24];
	int count = snprintf(digits, sizeof(digits), "%" PRIu64, d.digits);
	int point = d.digits == 0 ? 1 : count + d.exponent; /* place of the decimal point in digits */
	if (signbit(value))
		buf_append_char(out, '-');
	if (point <= -4 || point > 16) {
		buf_append_char(out, digits[0]);
		if (count > 1)
			buf_printf(out, ".%s", digits + 1);
		buf_printf(out, "e%c%02d", point > 0 ? '+' : '-', abs(point - 1));
	} else if (point <= 0) {
		buf_printf(out, "0.%.*s%s", -point, "0000", digits);
	} else if (point >= count) {
		buf_printf(out, "%s%.*s.0", digits, point - count, "0000000000000000");
	} else {
		buf_printf(out, "%.*s.%s", point, digits, digits + point);
	}
}

void decimal_write_double(double value, struct buf *out)
{
	decimal_write(value, PRECISION_DOUBLE, out);
}

void decimal_write_float(float value, struct buf *out)
{
	decimal_write(value, PRECISION_FLOAT, out);
}
