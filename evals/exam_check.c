#include "evals/exam_check.h"

#include <float.h>
#include <math.h>

#include "datasets/records.h"
#include "engine/base/buf.h"
#include "engine/base/decimal.h"
#include "engine/base/utf8.h"
#include "evals/exam_calls.h"
#include "evals/regex.h"

struct check {
	const char *name;
	const char *own_key; /* a key of records that this check alone reads; NULL: none */
	/* What "expected" must be. */
	int (*read)(const struct json *doc, const struct json *expected, struct error *e);
	int (*apply)(
		const struct json *doc, const struct json *expected, struct str answer, bool *passed, struct error *e);
	/* The same for a check that reads tool calls; apply is NULL then. */
	int (*apply_calls)(const struct json *doc, const struct json *expected, enum tool_format format,
		const struct answer *answer, struct item_score *out, struct error *e);
};

/* ---- exact ---- */

static int read_text(const struct json *doc, const struct json *expected, struct error *e)
{
	(void)doc;
	if (json_is(expected, JSON_STRING))
		return 0;
	return error_set(e, ERR_INPUT, "\"expected\" is %s, expected string", json_type_name(expected));
}

static int apply_exact(
	const struct json *doc, const struct json *expected, struct str answer, bool *passed, struct error *e)
{
	(void)doc, (void)e;
	*passed = str_equal(utf8_strip(answer), utf8_strip(expected->text));
	return 0;
}

/* ---- contains ---- */

static int read_texts(const struct json *doc, const struct json *expected, struct error *e)
{
	if (!json_is(expected, JSON_ARRAY))
		return json_is(expected, JSON_STRING) && expected->text.length == 0
			? error_set(e, ERR_INPUT, "\"expected\" is empty: every answer contains it")
			: read_text(doc, expected, e);
	if (expected->count == 0)
		return error_set(e, ERR_INPUT, "\"expected\" is an empty list: every answer contains it");
	JSON_EACH (text, expected)
		TRY(read_texts(doc, text, e));
	return 0;
}

static int apply_contains(
	const struct json *doc, const struct json *expected, struct str answer, bool *passed, struct error *e)
{
	(void)doc, (void)e;
	*passed = true;
	if (json_is(expected, JSON_STRING))
		*passed = str_find(answer, expected->text, 0) != (size_t)-1;
	else
		JSON_EACH (text, expected)
			*passed = *passed && str_find(answer, text->text, 0) != (size_t)-1;
	return 0;
}

/* ---- regex ---- */

/* A C string with a NUL inside would be another pattern. */
static int read_pattern(const struct json *doc, const struct json *expected, struct error *e)
{
	struct regex *regex;
	const struct json *value = json_get(doc, "value");
	TRY(read_text(doc, expected, e));
	if (expected->text.length == 0)
		return error_set(e, ERR_INPUT, "\"expected\" is empty: it is found in every answer");
	if (memchr(expected->text.data, '\0', expected->text.length))
		return error_set(e, ERR_INPUT, "\"expected\": a pattern cannot hold U+0000, write \\x00");
	if (value && !json_is(value, JSON_STRING))
		return error_set(e, ERR_INPUT, "\"value\" is %s, expected string", json_type_name(value));
	TRY(regex_new(expected->text.data, &regex, e));
	int groups = regex_group_count(regex);
	regex_delete(regex);
	if (value && groups == 0)
		return error_set(
			e, ERR_INPUT, "\"value\" needs a group in the pattern \"%.*s\"", STR_ARG(expected->text));
	return 0;
}

static int apply_regex(
	const struct json *doc, const struct json *expected, struct str answer, bool *passed, struct error *e)
{
	struct regex *regex;
	struct regex_cursor cursor = {0};
	const struct json *value = json_get(doc, "value");
	int found;

	*passed = false;
	TRY(regex_new(expected->text.data, &regex, e));
	while ((found = regex_next(regex, answer, &cursor, e)) > 0 && !*passed)
		*passed = !value || str_equal(regex_group(regex, answer, 1), value->text);
	regex_delete(regex);
	return found < 0 ? found : 0;
}

/* ---- number ---- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
	return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || (unsigned char)c >= 0x80;
}

/* Commas, currency signs (dollar, cent to yen, euro, rupee, won) and a minus sign as typographers set it. */
static void append_plain(struct str text, struct buf *out)
{
	for (size_t at = 0; at < text.length;) {
		size_t start = at;
		int32_t c = utf8_next(text, &at);
		if (c == ',' || c == '$' || (c >= 0xA2 && c <= 0xA5) || (c >= 0x20A0 && c <= 0x20CF))
			continue;
		if (c == 0x2212)
			buf_append_char(out, '-');
		else
			buf_append(out, text.data + start, at - start);
	}
}

/* Length of the number at the beginning of text (digits, a fraction, an exponent), or 0. */
static size_t number_length(const char *text)
{
	size_t n = 0, digits = 0;
	for (; is_digit(text[n]); n++)
		digits++;
	if (text[n] == '.' && is_digit(text[n + 1]))
		for (n++; is_digit(text[n]); n++)
			digits++;
	if (digits == 0 || (text[n] != 'e' && text[n] != 'E'))
		return digits ? n : 0;
	size_t exponent = n + 1 + (text[n + 1] == '-' || text[n + 1] == '+');
	if (!is_digit(text[exponent]))
		return n;
	while (is_digit(text[exponent]))
		exponent++;
	return exponent;
}

/* The last number of a text. A minus belongs to it unless it joins it to what stands before ("1-3" ends in 3). */
static bool last_number(struct str text, double *out, struct error *e, int *status)
{
	struct buf plain = {0};
	bool found = false;
	append_plain(text, &plain);
	*status = buf_check(&plain, e);
	const char *t = buf_text(&plain);
	for (size_t i = 0; *status == 0 && i < plain.length;) {
		size_t length = number_length(t + i);
		if (length == 0) {
			i++;
			continue;
		}
		struct buf number = {0};
		bool negative = i > 0 && t[i - 1] == '-' && (i < 2 || (!is_word(t[i - 2]) && t[i - 2] != ')'));
		buf_printf(&number, "%s%s%.*s", negative ? "-" : "", t[i] == '.' ? "0" : "", (int)length, t + i);
		*status = buf_check(&number, e);
		if (*status == 0)
			*out = decimal_to_double(buf_text(&number));
		buf_free(&number);
		found = true;
		i += length;
	}
	buf_free(&plain);
	return found;
}

static int expected_number(const struct json *expected, double *out, struct error *e)
{
	int status = 0;
	bool found = json_is(expected, JSON_NUMBER);
	if (found)
		*out = json_double(expected);
	else
		found = json_is(expected, JSON_STRING) && last_number(expected->text, out, e, &status);
	if (found && isfinite(*out))
		return 0;
	if (status < 0)
		return status;
	return found ? error_set(e, ERR_INPUT, "\"expected\" is %.*s, expected a number that a double can hold",
			       (int)(expected->text.length < 80 ? expected->text.length : 80), expected->text.data)
		     : error_set(e, ERR_INPUT, "\"expected\" is %s, expected a number", json_type_name(expected));
}

static int read_number(const struct json *doc, const struct json *expected, struct error *e)
{
	double ignored;
	const struct json *tolerance = json_get(doc, "tolerance");
	if (tolerance && !(json_double(tolerance) >= 0 && json_double(tolerance) <= DBL_MAX))
		return error_set(e, ERR_INPUT, "\"tolerance\": expected a number of 0 or more");
	return expected_number(expected, &ignored, e);
}

/* A tolerance is meant in decimals: 1.1 is within 0.1 of 1.0, though their doubles are a rounding farther apart. */
static int apply_number(
	const struct json *doc, const struct json *expected, struct str answer, bool *passed, struct error *e)
{
	double a = 0, b = 0;
	int status = 0;
	const struct json *given = json_get(doc, "tolerance");
	double tolerance = given ? json_double(given) : 0;
	*passed = false;
	TRY(expected_number(expected, &b, e));
	if (!last_number(answer, &a, e, &status))
		return status;
	double rounding = tolerance > 0 ? 2 * DBL_EPSILON * (fabs(a) + fabs(b)) : 0;
	*passed = fabs(a - b) <= tolerance + rounding;
	return status;
}

/* ---- choice ---- */

static int read_letter(const struct json *doc, const struct json *expected, struct error *e)
{
	(void)doc;
	if (json_is(expected, JSON_STRING) && expected->text.length == 1 && expected->text.data[0] >= 'A' &&
		expected->text.data[0] <= 'J')
		return 0;
	return error_set(e, ERR_INPUT, "\"expected\" of a choice: expected one letter of A to J");
}

/* Whether the byte before or after a letter makes it part of a word. An apostrophe does ("I'm"), a quotation mark of
 * three bytes (U+2018 to U+201D but the apostrophe's U+2019) does not. */
static bool joins(struct str text, size_t at, bool after)
{
	char c = text.data[at];
	if ((unsigned char)c < 0x80)
		return is_word(c) || (c == '\'' && after && at + 1 < text.length && is_word(text.data[at + 1]));
	size_t start = after ? at : at >= 2 ? at - 2 : 0;
	if (start + 3 <= text.length && memcmp(text.data + start, "\xe2\x80", 2) == 0)
		return after && (unsigned char)text.data[start + 2] == 0x99 && start + 3 < text.length &&
			is_word(text.data[start + 3]);
	return true;
}

static int apply_choice(
	const struct json *doc, const struct json *expected, struct str answer, bool *passed, struct error *e)
{
	(void)doc, (void)e;
	char last = '\0';
	for (size_t i = 0; i < answer.length; i++) {
		char c = answer.data[i];
		bool alone = c >= 'A' && c <= 'J' && !(i > 0 && joins(answer, i - 1, false)) &&
			!(i + 1 < answer.length && joins(answer, i + 1, true));
		last = alone ? c : last;
	}
	*passed = last == expected->text.data[0];
	return 0;
}

/* ---- The table ---- */

static const struct check checks[] = {
	{"exact", NULL, read_text, apply_exact, NULL},
	{"contains", NULL, read_texts, apply_contains, NULL},
	{"regex", "value", read_pattern, apply_regex, NULL},
	{"number", "tolerance", read_number, apply_number, NULL},
	{"choice", NULL, read_letter, apply_choice, NULL},
	{"json-schema", NULL, exam_schema_read, exam_schema_apply, NULL},
	{"tool-call", NULL, exam_tool_call_read, NULL, exam_tool_call_apply},
};

enum { CHECK_COUNT = sizeof(checks) / sizeof(checks[0]) };

static int fail_check(struct str name, struct error *e)
{
	struct buf known = {0};
	for (int i = 0; i < CHECK_COUNT; i++)
		buf_printf(&known, "%s%s", i ? ", " : "", checks[i].name);
	int status = error_set(e, ERR_INPUT, "check \"%.*s\", expected one of %s", STR_ARG(name), buf_text(&known));
	buf_free(&known);
	return status;
}

static int find_check(const struct json *doc, const struct check **out, struct error *e)
{
	struct str name;
	TRY(column_string(doc, "check", &name, e));
	for (int i = 0; i < CHECK_COUNT; i++) {
		if (str_is(name, checks[i].name)) {
			*out = &checks[i];
			return 0;
		}
	}
	return fail_check(name, e);
}

/* A key that no one reads would be a wish that is not carried out. */
static int check_foreign_keys(const struct json *doc, const struct check *check, struct error *e)
{
	for (int i = 0; i < CHECK_COUNT; i++)
		if (&checks[i] != check && checks[i].own_key && json_get(doc, checks[i].own_key))
			return error_set(e, ERR_INPUT,
				"\"%s\" belongs to check \"%s\", expected none beside check \"%s\"", checks[i].own_key,
				checks[i].name, check->name);
	return 0;
}

int exam_check_read(const struct json *doc, const struct json **expected, struct error *e)
{
	const struct check *check;
	const struct json *node = json_get(doc, "expected");
	TRY(find_check(doc, &check, e));
	TRY(check_foreign_keys(doc, check, e));
	TRY(check->read(doc, node, e));
	const struct json *first = json_at(node, 0);
	*expected = json_is(first, JSON_STRING) ? first : node;
	return 0;
}

int exam_check_apply(const struct json *doc, enum tool_format format, const struct answer *answer,
	struct item_score *out, struct error *e)
{
	const struct check *check;
	const struct json *expected = json_get(doc, "expected");
	bool passed = false;
	TRY(find_check(doc, &check, e));
	if (check->apply_calls)
		return check->apply_calls(doc, expected, format, answer, out, e);
	if (!answer->truncated)
		TRY(check->apply(doc, expected, answer->text, &passed, e));
	out->value[0] = passed ? 1 : 0;
	return 0;
}
