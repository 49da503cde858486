#include <math.h>

#include "engine/base/decimal.h"
#include "engine/base/json_keys.h"
#include "engine/base/json_strict.h"
#include "engine/base/utf8.h"

/* What json.dumps writes for a character that needs an escape. */
static void write_escape(int32_t c, struct buf *out)
{
	static const char letters[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
	if (c == '"' || c == '\\') {
		buf_append_char(out, '\\');
		buf_append_char(out, (char)c);
	} else if (c < (int32_t)sizeof(letters) && letters[c]) {
		buf_append_char(out, '\\');
		buf_append_char(out, letters[c]);
	} else if (c >= 0x10000) {
		uint32_t offset = (uint32_t)c - 0x10000;
		buf_printf(out, "\\u%04x\\u%04x", 0xd800 + (offset >> 10), 0xdc00 + (offset & 0x3ff));
	} else {
		buf_printf(out, "\\u%04x", (unsigned)c);
	}
}

void json_write_string(struct str s, bool ensure_ascii, struct buf *out)
{
	buf_append_char(out, '"');
	size_t run = 0; /* start of the bytes not yet copied */
	for (size_t position = 0; position < s.length;) {
		size_t start = position;
		int32_t c = utf8_next(s, &position);
		/* json.dumps escapes U+007F only where it escapes all but printable ASCII. */
		bool plain = c >= 0x20 && c != '"' && c != '\\' && (c < 0x7f || !ensure_ascii);
		if (plain)
			continue;
		if (start > run)
			buf_append(out, s.data + run, start - run);
		run = position;
		if (c >= 0)
			write_escape(c, out);
		else if (ensure_ascii)
			write_escape(0xfffd, out);
		else
			utf8_append(out, 0xfffd);
	}
	if (s.length > run)
		buf_append(out, s.data + run, s.length - run);
	buf_append_char(out, '"');
}

/* True when value has no digits to write: written here as Python does. */
static bool write_not_finite(double value, struct buf *out)
{
	if (isfinite(value))
		return false;
	buf_append_text(out, isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
	return true;
}

void json_write_double(double value, struct buf *out)
{
	if (!write_not_finite(value, out))
		decimal_write_double(value, out);
}

void json_write_float(float value, struct buf *out)
{
	if (!write_not_finite((double)value, out))
		decimal_write_float(value, out);
}

struct dump {
	struct buf *out;
	int indent;
	bool ensure_ascii;
};

static void dump_value(const struct dump *d, const struct json *value, int depth);

/* What stands before an element, or before the closing bracket when depth is the container's own. */
static void dump_break(const struct dump *d, int depth)
{
	if (d->indent < 0)
		return;
	buf_append_char(d->out, '\n');
	for (size_t left = (size_t)d->indent * (size_t)depth; left > 0;) {
		static const char spaces[] = "                                ";
		size_t some = left < sizeof(spaces) - 1 ? left : sizeof(spaces) - 1;
		buf_append(d->out, spaces, some);
		left -= some;
	}
}

static void dump_comma(const struct dump *d)
{
	buf_append_text(d->out, d->indent < 0 ? ", " : ",");
}

static void dump_array(const struct dump *d, const struct json *array, int depth)
{
	buf_append_char(d->out, '[');
	JSON_EACH (item, array) {
		if (item != array->child)
			dump_comma(d);
		dump_break(d, depth + 1);
		dump_value(d, item, depth + 1);
	}
	if (array->child)
		dump_break(d, depth);
	buf_append_char(d->out, ']');
}

static void dump_member(const struct dump *d, struct str key, const struct json *value, int depth)
{
	dump_break(d, depth);
	json_write_string(key, d->ensure_ascii, d->out);
	buf_append_text(d->out, ": ");
	dump_value(d, value, depth);
}

/* The members of an object that has doubled keys: a dict keeps the first place and the last value. */
static void dump_doubled_members(const struct dump *d, const struct json *object, int depth)
{
	struct json_keys keys = {0};
	if (json_keys_reset(&keys, object->count) < 0) {
		d->out->failed = true;
		return;
	}
	JSON_EACH (member, object) {
		struct json_keys_slot *slot = json_keys_slot(&keys, member->key);
		slot->first = slot->first ? slot->first : member;
		slot->last = member;
	}
	JSON_EACH (member, object) {
		const struct json_keys_slot *slot = json_keys_slot(&keys, member->key);
		if (slot->first != member)
			continue;
		if (member != object->child)
			dump_comma(d);
		dump_member(d, member->key, slot->last, depth);
	}
	json_keys_free(&keys);
}

static bool has_doubled_keys(const struct json *object)
{
	JSON_EACH (member, object) {
		if (member->shadowed)
			return true;
	}
	return false;
}

static void dump_object(const struct dump *d, const struct json *object, int depth)
{
	buf_append_char(d->out, '{');
	if (has_doubled_keys(object)) {
		dump_doubled_members(d, object, depth + 1);
	} else {
		JSON_EACH (member, object) {
			if (member != object->child)
				dump_comma(d);
			dump_member(d, member->key, member, depth + 1);
		}
	}
	if (object->child)
		dump_break(d, depth);
	buf_append_char(d->out, '}');
}

/* An integer stays as it was written (Python's are unbounded); anything else went through a float. */
static void dump_number(const struct dump *d, const struct json *number)
{
	bool is_float = false;
	for (size_t i = 0; i < number->text.length; i++)
		is_float |= strchr(".eE", number->text.data[i]) != NULL;
	if (is_float)
		json_write_double(json_double(number), d->out);
	else
		buf_append_text(d->out, str_is(number->text, "-0") ? "0" : number->text.data);
}

static void dump_value(const struct dump *d, const struct json *value, int depth)
{
	switch (value->type) {
	case JSON_NULL:
		buf_append_text(d->out, "null");
		break;
	case JSON_FALSE:
		buf_append_text(d->out, "false");
		break;
	case JSON_TRUE:
		buf_append_text(d->out, "true");
		break;
	case JSON_NUMBER:
		dump_number(d, value);
		break;
	case JSON_STRING:
		json_write_string(value->text, d->ensure_ascii, d->out);
		break;
	case JSON_ARRAY:
		dump_array(d, value, depth);
		break;
	case JSON_OBJECT:
		dump_object(d, value, depth);
		break;
	}
}

void json_dump_python(const struct json *value, int indent, bool ensure_ascii, struct buf *out)
{
	struct dump d = {out, indent, ensure_ascii};
	dump_value(&d, value, 0);
}

void json_write_double_or_null(double value, struct buf *out)
{
	if (isfinite(value))
		json_write_double(value, out);
	else
		buf_append_text(out, "null");
}

void json_write_float_or_null(float value, struct buf *out)
{
	if (isfinite(value))
		json_write_float(value, out);
	else
		buf_append_text(out, "null");
}
