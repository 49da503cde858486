/* JSON, RFC 8259 exactly: what is judged or trusted is read here (files of users, model output), with bounded depth,
 * strings with lengths (U+0000 is kept), numbers with their text, the last of doubled keys or a refusal of them.
 * The tree lives in its document and is freed with it. Behind each text and key stands a NUL that is not counted. */
#ifndef ASSAY_ENGINE_BASE_JSON_STRICT_H
#define ASSAY_ENGINE_BASE_JSON_STRICT_H

#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/str.h"

enum json_type { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
	enum json_type type;
	bool shadowed;            /* a later member of the same object has this key */
	struct str text;          /* string: decoded bytes (a lone surrogate is U+FFFD); number: its text as written */
	struct str key;           /* decoded key, where the parent is an object */
	const struct json *child; /* first element or member, in the order of the text */
	const struct json *next;  /* next sibling */
	size_t count;             /* elements or members; a doubled key counts once per occurrence */
};

struct json_document;

enum json_flags {
	JSON_LAST_KEY_WINS = 0,
	JSON_REFUSE_DOUBLED_KEYS = 1, /* an error that names the key */
	/* NaN, Infinity and -Infinity are numbers with that text, as Python's json.loads has it: only where a reference
	 * that reads with it is followed. json_is_python_constant tells them. */
	JSON_PYTHON_CONSTANTS = 2,
	/* The text is one line of a file: errors tell the column alone, and the caller names file and line before it. */
	JSON_LINE = 4,
};

/* Parses the whole of text (white space may surround the one value). name stands before "line L, column C: ..." in
 * errors (NULL: nothing). Depth is bounded at 512. text may be freed afterwards. UTF-8 must be valid. */
int json_parse(struct str text, const char *name, int flags, struct json_document **out, struct error *e);
void json_free(struct json_document *document);
const struct json *json_root(const struct json_document *document);

/* The last member of that key, or NULL (also when object is NULL or no object). Keys are case-sensitive. */
const struct json *json_get(const struct json *object, const char *key);
const struct json *json_get_str(const struct json *object, struct str key);
/* Element i of an array, or NULL. */
const struct json *json_at(const struct json *array, size_t i);

#define JSON_EACH(item, parent) \
	for (const struct json *item = (parent) ? (parent)->child : NULL; item; item = item->next)

bool json_is(const struct json *value, enum json_type type); /* false for NULL */
bool json_bool(const struct json *value, bool fallback);     /* fallback unless true or false */
/* A number that JSON has no word for: NaN, Infinity, -Infinity. */
bool json_is_python_constant(const struct json *value);
/* The nearest double, in any locale; NaN when it is no number. */
double json_double(const struct json *number);
/* True and *out when the number is written as an integer (no '.', 'e') that fits; "-0" is 0. */
bool json_int64(const struct json *number, int64_t *out);
const char *json_type_name(const struct json *value); /* "missing" for NULL, else "null", "boolean", "number", ... */

/* Python's json.dumps(value, indent=indent, ensure_ascii=ensure_ascii): indent < 0 is None (one line, ", " and ": ").
 * A doubled key is written once, at the place of its first occurrence with its last value, as a dict would.
 * Floats are written as Python's repr. doc_hash of lm-evaluation-harness is the sha256 of this with indent 2,
 * ensure_ascii false. */
void json_dump_python(const struct json *value, int indent, bool ensure_ascii, struct buf *out);

/* A string as a JSON string with its quotes; control characters, '"' and '\\' escaped as json.dumps does;
 * invalid UTF-8 becomes U+FFFD. */
void json_write_string(struct str s, bool ensure_ascii, struct buf *out);
/* The shortest decimal that reads back as the same double, in Python's repr form (1.0, 1e-07, 0.1); NaN, Infinity as Python. */
void json_write_double(double value, struct buf *out);
/* The shortest decimal that reads back as the same float. */
void json_write_float(float value, struct buf *out);
/* The same as JSON: null where the value is not finite, for which JSON has no word. */
void json_write_double_or_null(double value, struct buf *out);
void json_write_float_or_null(float value, struct buf *out);

#endif
