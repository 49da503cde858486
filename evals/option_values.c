#include "evals/option_values.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evals/cli.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool option_parse_uint(const char *text, uint64_t *out)
{
	uint64_t value = 0;
	for (const char *c = text; *c; c++) {
		if (!is_digit(*c) || __builtin_mul_overflow(value, 10u, &value) ||
			__builtin_add_overflow(value, (uint64_t)(*c - '0'), &value))
			return false;
	}
	*out = value;
	return *text != '\0';
}

static const char *skip_digits(const char *c)
{
	while (is_digit(*c))
		c++;
	return c;
}

static bool is_number(const char *text)
{
	const char *c = skip_digits(text);
	bool digits = c > text;
	if (*c == '.') {
		const char *fraction = c + 1;
		c = skip_digits(fraction);
		digits = digits || c > fraction;
	}
	if (digits && (*c == 'e' || *c == 'E')) {
		c++;
		if (*c == '+' || *c == '-')
			c++;
		if (!is_digit(*c))
			return false;
		c = skip_digits(c);
	}
	return digits && *c == '\0';
}

bool option_parse_number(const char *text, double *out)
{
	if (!is_number(text))
		return false;
	locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (!c_locale)
		return false;
	*out = strtod_l(text, NULL, c_locale);
	freelocale(c_locale);
	return isfinite(*out);
}

/* ---- Sizes ---- */

/* The fraction of a unit after the point, rounded down: up to nine digits. */
static bool parse_fraction(const char *digits, size_t length, uint64_t unit, uint64_t *out)
{
	uint64_t numerator = 0;
	uint64_t denominator = 1;
	if (length < 1 || length > 9)
		return false;
	for (size_t i = 0; i < length; i++) {
		numerator = numerator * 10 + (uint64_t)(digits[i] - '0');
		denominator *= 10;
	}
	*out = numerator * unit / denominator; /* below 2^30 * 2^30 */
	return true;
}

int parse_size(const char *text, uint64_t *out)
{
	static const struct {
		const char *name;
		uint64_t bytes;
	} units[] = {{"", 1}, {"KiB", 1u << 10}, {"MiB", 1u << 20}, {"GiB", 1u << 30}};
	const char *end = skip_digits(text);
	const char *fraction = *end == '.' ? end + 1 : NULL;
	const char *suffix = fraction ? skip_digits(fraction) : end;
	char whole[24] = "";
	if (end == text || (size_t)(end - text) >= sizeof(whole))
		return ERR_USAGE;
	memcpy(whole, text, (size_t)(end - text));
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		uint64_t bytes = 0;
		uint64_t rest = 0;
		if (strcmp(suffix, units[i].name) != 0)
			continue;
		if (!option_parse_uint(whole, &bytes) || __builtin_mul_overflow(bytes, units[i].bytes, &bytes))
			return ERR_USAGE;
		bool fits = !fraction ||
			(units[i].bytes > 1 &&
				parse_fraction(fraction, (size_t)(suffix - fraction), units[i].bytes, &rest));
		if (!fits || __builtin_add_overflow(bytes, rest, out))
			return ERR_USAGE;
		return 0;
	}
	return ERR_USAGE;
}

/* ---- Names ---- */

bool option_same_name(const char *a, const char *b)
{
	while (*a && lower(*a) == lower(*b)) {
		a++;
		b++;
	}
	return *a == *b;
}

static int min_int(int a, int b)
{
	return a < b ? a : b;
}

int option_distance(const char *a, const char *b, int limit)
{
	enum { LONGEST = 40 };
	size_t n = strlen(a);
	size_t m = strlen(b);
	if (n > LONGEST || m > LONGEST)
		return limit + 1;
	int rows[3][LONGEST + 1]; /* the last three rows of the table, row i in rows[i % 3] */
	for (size_t j = 0; j <= m; j++)
		rows[0][j] = (int)j;
	for (size_t i = 1; i <= n; i++) {
		int *row = rows[i % 3];
		const int *above = rows[(i - 1) % 3];
		row[0] = (int)i;
		for (size_t j = 1; j <= m; j++) {
			int change = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
			row[j] = min_int(above[j - 1] + change, 1 + min_int(above[j], row[j - 1]));
			if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
				row[j] = min_int(row[j], rows[(i - 2) % 3][j - 2] + 1);
		}
	}
	return min_int(rows[n % 3][m], limit + 1);
}

const char *option_nearest(const char *text, const char *const *candidates)
{
	int limit = min_int(3, (int)(strnlen(text, 12) + 1) / 3);
	const char *nearest = NULL;
	for (; *candidates; candidates++) {
		int distance = option_distance(text, *candidates, limit);
		if (distance <= limit) {
			limit = distance - 1; /* only a nearer one replaces it */
			nearest = *candidates;
		}
	}
	return nearest;
}
