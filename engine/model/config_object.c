#include "engine/model/config_object.h"

#include <math.h>
#include <stdio.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"

int config_read_json(const char *path, int flags, struct json_document **out, struct error *e)
{
	struct buf text = {0};
	int status = file_read(path, &text, e);

	if (status >= 0)
		status = json_parse(buf_str(&text), path, flags, out, e);
	buf_free(&text);
	return status;
}

int config_object_root(const struct json *json, const char *file, struct config_object *out, struct error *e)
{
	if (!json_is(json, JSON_OBJECT))
		return error_set(e, ERR_INPUT, "%s: the file holds %s, expected an object", file, json_type_name(json));
	*out = (struct config_object){.json = json, .file = file};
	return 0;
}

/* The member, or NULL when it is absent or null. */
static const struct json *member(const struct config_object *o, const char *key)
{
	const struct json *value = json_get(o->json, key);

	return json_is(value, JSON_NULL) ? NULL : value;
}

int config_wrong(
	const struct config_object *o, const char *key, const struct json *value, const char *expected, struct error *e)
{
	const char *quote = json_is(value, JSON_STRING) ? "\"" : "";
	bool scalar = json_is(value, JSON_STRING) || json_is(value, JSON_NUMBER);
	struct str shown = scalar ? value->text : str_of(json_type_name(value));

	return error_set(e, ERR_INPUT, "%s: %s%s is %s%.*s%s, expected %s", o->file, o->path, key, quote,
		STR_ARG(shown), quote, expected);
}

int config_not_built(
	const struct config_object *o, const char *key, struct str value, const char *built, struct error *e)
{
	return error_set(
		e, ERR_INPUT, "%s: %s%s '%.*s' is not built; built: %s", o->file, o->path, key, STR_ARG(value), built);
}

int config_required(int status, const struct config_object *o, const char *key, struct error *e)
{
	if (status == 0)
		return error_set(e, ERR_INPUT, "%s: %s%s is missing", o->file, o->path, key);
	return status;
}

int config_int(const struct config_object *o, const char *key, int low, int high, int *value, struct error *e)
{
	const struct json *json = member(o, key);
	char expected[64];
	int64_t wide;

	if (!json)
		return 0;
	if (!json_int64(json, &wide) || wide < low || wide > high) {
		snprintf(expected, sizeof(expected), "an integer from %d to %d", low, high);
		return config_wrong(o, key, json, expected, e);
	}
	*value = (int)wide;
	return 1;
}

int config_double(
	const struct config_object *o, const char *key, double low, double high, double *value, struct error *e)
{
	const struct json *json = member(o, key);
	char expected[64];

	if (!json)
		return 0;
	double number = json_is(json, JSON_NUMBER) ? json_double(json) : NAN;
	if (!(number >= low && number <= high)) {
		snprintf(expected, sizeof(expected), "a number from %g to %g", low, high);
		return config_wrong(o, key, json, expected, e);
	}
	*value = number;
	return 1;
}

int config_bool(const struct config_object *o, const char *key, bool *value, struct error *e)
{
	const struct json *json = member(o, key);

	if (!json)
		return 0;
	if (!json_is(json, JSON_TRUE) && !json_is(json, JSON_FALSE))
		return config_wrong(o, key, json, "true or false", e);
	*value = json_is(json, JSON_TRUE);
	return 1;
}

int config_text(const struct config_object *o, const char *key, struct str *value, struct error *e)
{
	const struct json *json = member(o, key);

	if (!json)
		return 0;
	if (!json_is(json, JSON_STRING))
		return config_wrong(o, key, json, "a string", e);
	*value = json->text;
	return 1;
}

int config_child(const struct config_object *o, const char *key, struct config_object *value, struct error *e)
{
	const struct json *json = member(o, key);

	if (!json)
		return 0;
	if (!json_is(json, JSON_OBJECT))
		return config_wrong(o, key, json, "an object", e);
	value->json = json;
	value->file = o->file;
	snprintf(value->path, sizeof(value->path), "%.30s%.31s.", o->path, key);
	return 1;
}
