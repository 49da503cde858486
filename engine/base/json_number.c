#include "engine/base/json_number.h"

#include <math.h>

enum {
	MAX_DIGITS = 4300,      /* sys.int_info.default_max_str_digits */
	DOUBLE_TEXT_SIZE = 320, /* the largest double has 309 digits before the point */
};

bool json_is_integer(const struct json *value)
{
	if (!json_is(value, JSON_NUMBER) || json_is_python_constant(value))
		return false;
	for (size_t i = 0; i < value->text.length; i++) {
		char c = value->text.data[i];
		if (c == '.' || c == 'e' || c == 'E')
			return false;
	}
	return true;
}

bool json_is_integral(const struct json *value)
{
	if (json_is_integer(value))
		return true;
	double number = json_double(value); /* NaN for what is no number */
	return isfinite(number) && trunc(number) == number;
}

/* ---- Order ---- */

/* The digits of an integer without its sign. */
static struct str digits_of(struct str integer, bool *negative)
{
	*negative = integer.length > 0 && integer.data[0] == '-';
	struct str digits = {integer.data + *negative, integer.length - *negative};
	if (str_is(digits, "0"))
		*negative = false;
	return digits;
}

static int compare_digits(struct str a, struct str b)
{
	if (a.length != b.length)
		return a.length < b.length ? -1 : 1;
	int order = memcmp(a.data, b.data, a.length);
	return order < 0 ? -1 : order > 0;
}

/* Two integers in decimal without leading zeros. */
static int compare_integers(struct str a, struct str b)
{
	bool a_negative, b_negative;
	struct str a_digits = digits_of(a, &a_negative);
	struct str b_digits = digits_of(b, &b_negative);
	if (a_negative != b_negative)
		return a_negative ? -1 : 1;
	int order = compare_digits(a_digits, b_digits);
	return a_negative ? -order : order;
}

static enum json_order compare_integer_double(struct str integer, double number)
{
	if (isnan(number))
		return JSON_UNORDERED;
	if (isinf(number))
		return number > 0 ? JSON_LESS : JSON_GREATER;
	double whole = trunc(number);
	char text[DOUBLE_TEXT_SIZE];
	snprintf(text, sizeof(text), "%.0f", whole); /* exact: glibc prints every digit */
	int order = compare_integers(integer, str_of(text));
	if (order == 0)
		order = number > whole ? -1 : number < whole;
	return (enum json_order)order;
}

enum json_order json_number_compare(const struct json *a, const struct json *b)
{
	bool a_integer = json_is_integer(a), b_integer = json_is_integer(b);
	if (a_integer && b_integer)
		return (enum json_order)compare_integers(a->text, b->text);
	if (a_integer)
		return compare_integer_double(a->text, json_double(b));
	if (b_integer) {
		enum json_order order = compare_integer_double(b->text, json_double(a));
		return order == JSON_UNORDERED ? order : (enum json_order)(-(int)order);
	}
	double x = json_double(a), y = json_double(b);
	if (isnan(x) || isnan(y))
		return JSON_UNORDERED;
	return x < y ? JSON_LESS : x > y ? JSON_GREATER : JSON_SAME;
}

/* ---- Multiples ---- */

/* rest -= step, both with length digits, the last digit last. */
static void subtract_digits(char *rest, const char *step, size_t length)
{
	int borrow = 0;
	for (size_t i = length; i-- > 0;) {
		int digit = rest[i] - step[i] - borrow;
		borrow = digit < 0;
		rest[i] = (char)(digit + (borrow ? 10 : 0));
	}
}

/* Long division by hand; only whether a rest remains. */
static bool divides(struct str step, struct str value)
{
	char rest[MAX_DIGITS + 1] = {0}, divisor[MAX_DIGITS + 1] = {0};
	size_t length = step.length + 1; /* a rest below the step, times ten */
	for (size_t i = 0; i < step.length; i++)
		divisor[i + 1] = (char)(step.data[i] - '0');
	for (size_t i = 0; i < value.length; i++) {
		memmove(rest, rest + 1, length - 1);
		rest[length - 1] = (char)(value.data[i] - '0');
		while (memcmp(rest, divisor, length) >= 0)
			subtract_digits(rest, divisor, length);
	}
	for (size_t i = 0; i < length; i++) {
		if (rest[i] != 0)
			return false;
	}
	return true;
}

bool json_is_multiple(const struct json *value, const struct json *step)
{
	if (json_is_integer(value) && json_is_integer(step)) {
		bool negative;
		struct str digits = digits_of(value->text, &negative);
		if (digits.length > MAX_DIGITS || step->text.length > MAX_DIGITS)
			return false;
		return divides(step->text, digits);
	}
	double x = json_double(value), y = json_double(step);
	if (json_is_integer(step))
		return fmod(x, y) == 0.0;
	double quotient = x / y;
	if (isinf(quotient) && isfinite(x))
		return fmod(x, y) == 0.0;
	return isfinite(quotient) && trunc(quotient) == quotient;
}

/* ---- Equality ---- */

/* False when the work is used up; at 0 it stays. */
static bool spend(uint64_t *work, uint64_t cost)
{
	*work = *work > cost ? *work - cost : 0;
	return *work > 0;
}

static bool equal_arrays(const struct json *a, const struct json *b, enum json_equality equality, uint64_t *work)
{
	if (a->count != b->count)
		return false;
	for (a = a->child, b = b->child; a; a = a->next, b = b->next) {
		if (!json_equal(a, b, equality, work))
			return false;
	}
	return true;
}

static size_t count_keys(const struct json *object)
{
	size_t count = 0;
	JSON_EACH (member, object)
		count += !member->shadowed;
	return count;
}

static bool equal_objects(const struct json *a, const struct json *b, enum json_equality equality, uint64_t *work)
{
	if (!spend(work, a->count + b->count) || count_keys(a) != count_keys(b))
		return false;
	const struct json *guess = b->child; /* most often the keys stand in the same order */
	JSON_EACH (member, a) {
		if (member->shadowed)
			continue;
		if (!guess || guess->shadowed || !str_equal(guess->key, member->key)) {
			if (!spend(work, b->count))
				return false;
			guess = json_get_str(b, member->key);
		}
		if (!guess || !json_equal(member, guess, equality, work))
			return false;
		guess = guess->next;
	}
	return true;
}

/* What a value is as a number to Python, where a boolean is one. */
static bool equal_boolean_number(const struct json *boolean, const struct json *number)
{
	return json_double(number) == (boolean->type == JSON_TRUE ? 1.0 : 0.0);
}

static bool is_boolean(const struct json *value)
{
	return value->type == JSON_TRUE || value->type == JSON_FALSE;
}

bool json_equal(const struct json *a, const struct json *b, enum json_equality equality, uint64_t *work)
{
	if (!spend(work, 1))
		return false;
	if (a->type != b->type) {
		if (equality == JSON_EQUAL_SCHEMA)
			return false;
		if (is_boolean(a) && b->type == JSON_NUMBER)
			return equal_boolean_number(a, b);
		return is_boolean(b) && a->type == JSON_NUMBER && equal_boolean_number(b, a);
	}
	switch (a->type) {
	case JSON_NUMBER:
		return spend(work, a->text.length + b->text.length) && json_number_compare(a, b) == JSON_SAME;
	case JSON_STRING:
		return a->text.length == b->text.length && spend(work, a->text.length) && str_equal(a->text, b->text);
	case JSON_ARRAY:
		return equal_arrays(a, b, equality, work);
	case JSON_OBJECT:
		return equal_objects(a, b, equality, work);
	default:
		return true;
	}
}
