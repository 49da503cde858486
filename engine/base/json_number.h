/* Numbers and values of JSON compared as Python compares what json.loads makes of them: an integer is exact whatever
 * its size, a number with '.' or an exponent is a double, and the two are compared exactly. */
#ifndef ASSAY_ENGINE_BASE_JSON_NUMBER_H
#define ASSAY_ENGINE_BASE_JSON_NUMBER_H

#include <stdint.h>

#include "engine/base/json_strict.h"

/* Written without '.' and exponent: Python's int. False for what is no number. */
bool json_is_integer(const struct json *value);
/* An integer in value: 1, 1.0 and 1e2, but not 1.5 and not Infinity. */
bool json_is_integral(const struct json *value);

enum json_order { JSON_LESS = -1, JSON_SAME = 0, JSON_GREATER = 1, JSON_UNORDERED = 2 /* NaN has part in it */ };
/* PRECOND: both are numbers. */
enum json_order json_number_compare(const struct json *a, const struct json *b);

/* value is a multiple of step as Python's jsonschema decides: exactly between integers, by the quotient of doubles
 * when the step is none. Integers beyond 4300 digits, which Python refuses, are a multiple of nothing.
 * PRECOND: both are numbers, step is above 0. */
bool json_is_multiple(const struct json *value, const struct json *step);

enum json_equality {
	JSON_EQUAL_PYTHON, /* ==: True equals 1, 1 equals 1.0 */
	JSON_EQUAL_SCHEMA, /* JSON Schema: a boolean equals no number */
};
/* Equal throughout; the last of doubled keys counts. *work goes down by what the comparison costs (about one for each
 * byte or member touched); it ends with false when that is used up, so the caller looks at *work == 0. */
bool json_equal(const struct json *a, const struct json *b, enum json_equality equality, uint64_t *work);

#endif
