#include "engine/text/field.h"

#include "engine/base/utf8.h"
#include "engine/text/pattern.h"

static int wrong(const struct json *object, const char *key, const char *where, const char *expected, struct error *e)
{
	return error_set(e, ERR_INPUT, "%s: \"%s\" is %s, expected %s", where, key,
		json_type_name(json_get(object, key)), expected);
}

int field_bool(const struct json *object, const char *key, const char *where, bool *out, struct error *e)
{
	const struct json *value = json_get(object, key);
	if (!json_is(value, JSON_TRUE) && !json_is(value, JSON_FALSE))
		return wrong(object, key, where, "true or false", e);
	*out = json_bool(value, false);
	return 0;
}

int field_bool_or(
	const struct json *object, const char *key, const char *where, bool fallback, bool *out, struct error *e)
{
	const struct json *value = json_get(object, key);
	*out = fallback;
	return !value || json_is(value, JSON_NULL) ? 0 : field_bool(object, key, where, out, e);
}

int field_text(const struct json *object, const char *key, const char *where, struct str *out, struct error *e)
{
	const struct json *value = json_get(object, key);
	if (!json_is(value, JSON_STRING))
		return wrong(object, key, where, "a string", e);
	*out = value->text;
	return 0;
}

int field_array(const struct json *object, const char *key, const char *where, const struct json **out, struct error *e)
{
	const struct json *value = json_get(object, key);
	if (!json_is(value, JSON_ARRAY))
		return wrong(object, key, where, "an array", e);
	*out = value;
	return 0;
}

int field_int(const struct json *object, const char *key, const char *where, int64_t end, int64_t *out, struct error *e)
{
	const struct json *value = json_get(object, key);
	if (!json_is(value, JSON_NUMBER))
		return wrong(object, key, where, "a number", e);
	if (!json_int64(value, out) || *out < 0 || *out >= end)
		return error_set(e, ERR_INPUT, "%s: \"%s\" is %.*s, expected an integer from 0 to %lld", where, key,
			STR_ARG(value->text), (long long)end - 1);
	return 0;
}

int field_character(const struct json *object, const char *key, const char *where, struct str *out, struct error *e)
{
	TRY(field_text(object, key, where, out, e));
	if (utf8_count(*out) != 1)
		return error_set(
			e, ERR_INPUT, "%s: \"%s\" is \"%.*s\", expected one character", where, key, STR_ARG(*out));
	return 0;
}

int field_refuse_type(const struct json *object, const char *where, const char *known, struct error *e)
{
	const struct json *type = json_get(object, "type");
	if (!json_is(object, JSON_OBJECT) || !json_is(type, JSON_STRING))
		return error_set(e, ERR_INPUT, "%s is %s without a \"type\", expected null or one of: %s", where,
			json_type_name(object), known);
	return error_set(
		e, ERR_INPUT, "%s of type \"%.*s\" is not supported; known: %s", where, STR_ARG(type->text), known);
}

int field_pattern(const struct json *object, const char *where, struct pattern **out, struct error *e)
{
	const struct json *pattern = json_get(object, "pattern");
	const struct json *text = json_get(pattern, "String"), *regex = json_get(pattern, "Regex");
	if (json_is(text, JSON_STRING) && !regex)
		return pattern_new_literal(text->text, out, e);
	if (json_is(regex, JSON_STRING) && !text)
		return pattern_new_regex(regex->text, where, out, e);
	return error_set(e, ERR_INPUT, "%s: \"pattern\" is %s, expected {\"String\": text} or {\"Regex\": expression}",
		where, json_type_name(pattern));
}
