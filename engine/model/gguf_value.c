#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/model/gguf.h"

/* ---- One item ---- */

static bool is_integer(enum gguf_type type)
{
	return type <= GGUF_I32 || type == GGUF_U64 || type == GGUF_I64;
}

static uint64_t read_unsigned(const uint8_t *at, size_t size)
{
	uint64_t value = 0;
	memcpy(&value, at, size);
	return value;
}

static int64_t read_integer(enum gguf_type type, const uint8_t *at)
{
	switch (type) {
	case GGUF_U8:
		return *at;
	case GGUF_I8:
		return (int8_t)*at;
	case GGUF_U16:
		return (int64_t)read_unsigned(at, 2);
	case GGUF_I16:
		return (int16_t)read_unsigned(at, 2);
	case GGUF_U32:
		return (int64_t)read_unsigned(at, 4);
	case GGUF_I32:
		return (int32_t)read_unsigned(at, 4);
	case GGUF_U64: {
		uint64_t value = read_unsigned(at, 8);
		return value > INT64_MAX ? INT64_MAX : (int64_t)value;
	}
	default:
		return (int64_t)read_unsigned(at, 8);
	}
}

static double read_number(enum gguf_type type, const uint8_t *at)
{
	float single;
	double value;

	if (type == GGUF_F32) {
		memcpy(&single, at, sizeof(single));
		return (double)single;
	}
	memcpy(&value, at, sizeof(value));
	return value;
}

struct str gguf_next_text(const uint8_t **at)
{
	struct str text = {(const char *)*at + 8, read_unsigned(*at, 8)};
	*at += 8 + text.length;
	return text;
}

int64_t gguf_int_at(const struct gguf_value *value, uint64_t i)
{
	return read_integer(value->type, value->data + i * (value->size / value->count));
}

/* ---- Checked values ---- */

/* The value of a key as an error shows it. */
static void show(const struct gguf_value *v, char *out, size_t size)
{
	const uint8_t *at = v->data;

	if (v->is_array) {
		snprintf(out, size, "an array");
	} else if (v->type == GGUF_STRING) {
		struct str text = gguf_next_text(&at);
		snprintf(out, size, "\"%.*s\"", STR_ARG(text));
	} else if (v->type == GGUF_BOOL) {
		snprintf(out, size, "%s", *at ? "true" : "false");
	} else if (is_integer(v->type)) {
		snprintf(out, size, "%" PRId64, read_integer(v->type, at));
	} else {
		snprintf(out, size, "%g", read_number(v->type, at));
	}
}

static int wrong(
	const struct gguf *g, const char *key, const struct gguf_value *v, const char *expected, struct error *e)
{
	char shown[256];

	show(v, shown, sizeof(shown));
	return error_set(e, ERR_INPUT, "%s: %s is %s, expected %s", gguf_name(g), key, shown, expected);
}

int gguf_int(const struct gguf *g, const char *key, int low, int high, int *value, struct error *e)
{
	const struct gguf_value *v = gguf_find(g, key);
	char expected[64];

	if (!v)
		return 0;
	int64_t wide = v->is_array || !is_integer(v->type) ? INT64_MAX : read_integer(v->type, v->data);
	if (wide < low || wide > high) {
		snprintf(expected, sizeof(expected), "an integer from %d to %d", low, high);
		return wrong(g, key, v, expected, e);
	}
	*value = (int)wide;
	return 1;
}

int gguf_double(const struct gguf *g, const char *key, double low, double high, double *value, struct error *e)
{
	const struct gguf_value *v = gguf_find(g, key);
	char expected[64];

	if (!v)
		return 0;
	double number =
		v->is_array || (v->type != GGUF_F32 && v->type != GGUF_F64) ? NAN : read_number(v->type, v->data);
	if (!(number >= low && number <= high)) {
		snprintf(expected, sizeof(expected), "a number from %g to %g", low, high);
		return wrong(g, key, v, expected, e);
	}
	*value = number;
	return 1;
}

int gguf_bool(const struct gguf *g, const char *key, bool *value, struct error *e)
{
	const struct gguf_value *v = gguf_find(g, key);

	if (!v)
		return 0;
	if (v->is_array || v->type != GGUF_BOOL)
		return wrong(g, key, v, "true or false", e);
	*value = *v->data != 0;
	return 1;
}

int gguf_text(const struct gguf *g, const char *key, struct str *value, struct error *e)
{
	const struct gguf_value *v = gguf_find(g, key);

	if (!v)
		return 0;
	if (v->is_array || v->type != GGUF_STRING)
		return wrong(g, key, v, "a string", e);
	const uint8_t *at = v->data;
	*value = gguf_next_text(&at);
	return 1;
}

int gguf_texts(const struct gguf *g, const char *key, struct gguf_value *value, struct error *e)
{
	const struct gguf_value *v = gguf_find(g, key);

	if (!v)
		return 0;
	if (!v->is_array || v->type != GGUF_STRING)
		return wrong(g, key, v, "an array of strings", e);
	*value = *v;
	return 1;
}

int gguf_ints(const struct gguf *g, const char *key, struct gguf_value *value, struct error *e)
{
	const struct gguf_value *v = gguf_find(g, key);

	if (!v)
		return 0;
	if (!v->is_array || !is_integer(v->type))
		return wrong(g, key, v, "an array of integers", e);
	*value = *v;
	return 1;
}

int gguf_required(int status, const struct gguf *g, const char *key, struct error *e)
{
	return status == 0 ? error_set(e, ERR_INPUT, "%s: %s is missing", gguf_name(g), key) : status;
}
