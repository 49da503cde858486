/* Members of the JSON objects that describe a tokenizer's parts; where ("pre_tokenizer Split") stands in errors. */
#ifndef ASSAY_ENGINE_TEXT_FIELD_H
#define ASSAY_ENGINE_TEXT_FIELD_H

#include "engine/base/error.h"
#include "engine/base/json_strict.h"
#include "engine/base/str.h"

/* Each gives an error when the member is missing or of another type. */
int field_bool(const struct json *object, const char *key, const char *where, bool *out, struct error *e);
int field_text(const struct json *object, const char *key, const char *where, struct str *out, struct error *e);
int field_array(
	const struct json *object, const char *key, const char *where, const struct json **out, struct error *e);
/* An integer in [0, end). */
int field_int(
	const struct json *object, const char *key, const char *where, int64_t end, int64_t *out, struct error *e);
/* A text of one character. */
int field_character(const struct json *object, const char *key, const char *where, struct str *out, struct error *e);

/* The fallback when the member is missing or null; an error when it is of another type. */
int field_bool_or(
	const struct json *object, const char *key, const char *where, bool fallback, bool *out, struct error *e);

/* Refuses a value of a "type" that is not known here, with the types that are. */
int field_refuse_type(const struct json *object, const char *where, const char *known, struct error *e);

struct pattern;

/* {"pattern": {"String": text} or {"Regex": expression}}. */
int field_pattern(const struct json *object, const char *where, struct pattern **out, struct error *e);

#endif
