#include "engine/text/normalize.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "engine/base/utf8.h"
#include "engine/text/field.h"
#include "engine/text/pattern.h"
#include "engine/text/unicode.h"

enum operation_kind { NORMAL_FORM, LOWERCASE, PREPEND, REPLACE, STRIP };

struct operation {
	enum operation_kind kind;
	utf8proc_option_t form;  /* NORMAL_FORM */
	struct pattern *pattern; /* REPLACE; owned */
	struct buf content;      /* PREPEND, REPLACE */
	bool left, right;        /* STRIP */
};

struct normalizer {
	struct operation *operations;
	size_t count;
	size_t capacity;
};

static const char known_types[] = "Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip";

/* ---- From JSON ---- */

static struct operation *add_operation(struct normalizer *n, enum operation_kind kind, struct error *e)
{
	if (n->count == n->capacity) {
		size_t capacity = n->capacity ? n->capacity * 2 : 4;
		struct operation *operations = realloc(n->operations, capacity * sizeof(*operations));
		if (!operations) {
			error_set(e, ERR_MEMORY, "out of memory: a normalizer of %zu parts", capacity);
			return NULL;
		}
		n->operations = operations;
		n->capacity = capacity;
	}
	struct operation *operation = &n->operations[n->count++];
	*operation = (struct operation){.kind = kind};
	return operation;
}

static int add_form(struct normalizer *n, struct str type, bool *known, struct error *e)
{
	static const struct {
		const char *name;
		int form;
	} forms[] = {
		{"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
		{"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
		{"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
		{"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
	};
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (!str_is(type, forms[i].name))
			continue;
		struct operation *operation = add_operation(n, NORMAL_FORM, e);
		if (!operation)
			return ERR_MEMORY;
		operation->form = (utf8proc_option_t)forms[i].form;
		*known = true;
		return 0;
	}
	*known = false;
	return 0;
}

static int add_content(struct normalizer *n, const struct json *spec, enum operation_kind kind, struct error *e)
{
	const char *where = kind == PREPEND ? "normalizer Prepend" : "normalizer Replace";
	struct str content;
	TRY(field_text(spec, kind == PREPEND ? "prepend" : "content", where, &content, e));
	struct operation *operation = add_operation(n, kind, e);
	if (!operation)
		return ERR_MEMORY;
	buf_append_str(&operation->content, content);
	TRY(buf_check(&operation->content, e));
	return kind == REPLACE ? field_pattern(spec, where, &operation->pattern, e) : 0;
}

static int add_strip(struct normalizer *n, const struct json *spec, struct error *e)
{
	struct operation *operation = add_operation(n, STRIP, e);
	if (!operation)
		return ERR_MEMORY;
	TRY(field_bool(spec, "strip_left", "normalizer Strip", &operation->left, e));
	return field_bool(spec, "strip_right", "normalizer Strip", &operation->right, e);
}

static int add_spec(struct normalizer *n, const struct json *spec, struct error *e)
{
	const struct json *type = json_get(spec, "type");
	if (!json_is(type, JSON_STRING))
		return field_refuse_type(spec, "normalizer", known_types, e);
	if (str_is(type->text, "Sequence")) {
		const struct json *parts;
		TRY(field_array(spec, "normalizers", "normalizer Sequence", &parts, e));
		JSON_EACH (part, parts)
			TRY(add_spec(n, part, e));
		return 0;
	}
	if (str_is(type->text, "Lowercase"))
		return add_operation(n, LOWERCASE, e) ? 0 : ERR_MEMORY;
	if (str_is(type->text, "Prepend"))
		return add_content(n, spec, PREPEND, e);
	if (str_is(type->text, "Replace"))
		return add_content(n, spec, REPLACE, e);
	if (str_is(type->text, "Strip"))
		return add_strip(n, spec, e);
	bool known;
	TRY(add_form(n, type->text, &known, e));
	return known ? 0 : field_refuse_type(spec, "normalizer", known_types, e);
}

int normalizer_new(const struct json *spec, struct normalizer **out, struct error *e)
{
	*out = NULL;
	if (!spec || json_is(spec, JSON_NULL))
		return 0;
	struct normalizer *n = mem_calloc(1, sizeof(*n), e);
	if (!n)
		return ERR_MEMORY;
	int status = add_spec(n, spec, e);
	if (status < 0 || n->count == 0) {
		normalizer_delete(n);
		return status;
	}
	*out = n;
	return 0;
}

void normalizer_delete(struct normalizer *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->count; i++) {
		pattern_delete(n->operations[i].pattern);
		buf_free(&n->operations[i].content);
	}
	free(n->operations);
	free(n);
}

/* ---- Normal forms ---- */

void normalize_scratch_free(struct normalize_scratch *s)
{
	buf_free(&s->texts[0]);
	buf_free(&s->texts[1]);
	free(s->points);
	free(s->sorted);
	memset(s, 0, sizeof(*s));
}

static int grow_points(struct normalize_scratch *s, size_t count, struct error *e)
{
	if (count <= s->capacity)
		return 0;
	size_t capacity = s->capacity * 2 > count ? s->capacity * 2 : count;
	int32_t *points = realloc(s->points, capacity * sizeof(*points));
	if (points)
		s->points = points;
	int32_t *sorted = realloc(s->sorted, capacity * sizeof(*sorted));
	if (sorted)
		s->sorted = sorted;
	if (!points || !sorted)
		return error_set(e, ERR_MEMORY, "out of memory: normalising %zu characters", count);
	s->capacity = capacity;
	return 0;
}

static int combining_class(int32_t code_point)
{
	return unicode_is_new_to_normal_forms(code_point) ? 0 : utf8proc_get_property(code_point)->combining_class;
}

/* Canonical order: the marks [start, end) by their class, equal ones in the order of the text. Counted, so that a
 * text of nothing but marks takes no longer than another. */
static void order_marks(struct normalize_scratch *s, size_t start, size_t end)
{
	bool ordered = true;
	for (size_t i = start + 1; i < end && ordered; i++)
		ordered = combining_class(s->points[i - 1]) <= combining_class(s->points[i]);
	if (ordered)
		return;
	size_t places[257] = {0};
	for (size_t i = start; i < end; i++)
		places[combining_class(s->points[i]) + 1]++;
	for (size_t c = 1; c < 257; c++)
		places[c] += places[c - 1];
	for (size_t i = start; i < end; i++)
		s->sorted[places[combining_class(s->points[i])]++] = s->points[i];
	memcpy(s->points + start, s->sorted, (end - start) * sizeof(*s->points));
}

static int decompose(
	struct normalize_scratch *s, struct str text, utf8proc_option_t form, size_t *count, struct error *e)
{
	enum { DECOMPOSITION_MAX = 32 };
	size_t marks = 0; /* where the marks at the end begin */
	*count = 0;
	for (size_t position = 0; position < text.length;) {
		int32_t parts[DECOMPOSITION_MAX];
		int boundary = UTF8PROC_BOUNDCLASS_START;
		utf8proc_ssize_t n = 1;
		parts[0] = utf8_next(text, &position);
		if (!unicode_is_new_to_normal_forms(parts[0]))
			n = utf8proc_decompose_char(parts[0], parts, DECOMPOSITION_MAX, form, &boundary);
		if (n < 0 || n > DECOMPOSITION_MAX)
			return error_set(e, ERR_INPUT, "normalizer: %s", utf8proc_errmsg(n));
		TRY(grow_points(s, *count + (size_t)n, e));
		for (utf8proc_ssize_t i = 0; i < n; i++) {
			if (combining_class(parts[i]) == 0) {
				order_marks(s, marks, *count);
				marks = *count + 1;
			}
			s->points[(*count)++] = parts[i];
		}
	}
	order_marks(s, marks, *count);
	return 0;
}

static bool is_ascii(struct str text)
{
	for (size_t i = 0; i < text.length; i++) {
		if ((unsigned char)text.data[i] >= 0x80)
			return false;
	}
	return true;
}

/* Composes the points [start, end), which hold no character that is new to the reference. */
static int compose(
	struct normalize_scratch *s, size_t start, size_t end, utf8proc_option_t form, struct buf *out, struct error *e)
{
	utf8proc_ssize_t length = utf8proc_normalize_utf32(s->points + start, (utf8proc_ssize_t)(end - start), form);
	if (length < 0)
		return error_set(e, ERR_INPUT, "normalizer: %s", utf8proc_errmsg(length));
	for (utf8proc_ssize_t i = 0; i < length; i++)
		utf8_append(out, s->points[start + (size_t)i]);
	return 0;
}

/* A character that is new to the reference is a starter there that joins with nothing: no composition reaches across. */
static int normal_form(
	struct normalize_scratch *s, struct str text, utf8proc_option_t form, struct buf *out, struct error *e)
{
	size_t count, start = 0;
	TRY(decompose(s, text, form, &count, e));
	for (size_t i = 0; i < count; i++) {
		if (!unicode_is_new_to_normal_forms(s->points[i]))
			continue;
		int32_t code_point = s->points[i];
		TRY(compose(s, start, i, form, out, e));
		utf8_append(out, code_point);
		start = i + 1;
	}
	return compose(s, start, count, form, out, e);
}

/* ---- The other operations ---- */

static void lowercase(struct str text, struct buf *out)
{
	for (size_t position = 0; position < text.length;) {
		int32_t lower[2];
		int count = unicode_lower(utf8_next(text, &position), lower);
		for (int i = 0; i < count; i++)
			utf8_append(out, lower[i]);
	}
}

static int replace(const struct operation *operation, struct normalize_scratch *s, struct str text, struct buf *out,
	bool *head, struct error *e)
{
	struct pattern_search search = pattern_search_begin(text);
	struct pattern_match match;
	size_t done = 0;
	int found;
	while ((found = pattern_next(operation->pattern, s->pattern, &search, &match, e)) > 0) {
		struct str matched = {text.data + match.start, match.end - match.start};
		/* What stands for several characters counts as coming from the last of them. */
		if (match.start == 0 && match.end > 0 && (operation->content.length == 0 || utf8_count(matched) > 1))
			*head = false;
		buf_append(out, text.data + done, match.start - done);
		buf_append_str(out, buf_str(&operation->content));
		done = match.end;
		if (out->length > s->limit)
			return error_set(e, ERR_LIMIT, "normalizer Replace: a text of %zu bytes grows beyond %zu",
				text.length, s->limit);
	}
	TRY(found);
	buf_append(out, text.data + done, text.length - done);
	return 0;
}

static struct str strip(struct str text, bool left, bool right, bool *head)
{
	size_t start = 0, end = 0;
	bool leading = true;
	for (size_t position = 0; position < text.length;) {
		bool white = unicode_is_white_space(utf8_next(text, &position));
		if (!white)
			end = position;
		else if (leading)
			start = position;
		leading = leading && white;
	}
	start = left ? start : 0;
	end = !right ? text.length : end > start ? end : start;
	if (start > 0)
		*head = false;
	return (struct str){text.data + start, end - start};
}

/* One operation: *result is text itself, a part of it, or *out. */
static int run_operation(const struct operation *operation, struct normalize_scratch *s, struct str text,
	struct buf *out, struct str *result, bool *head, struct error *e)
{
	*result = text;
	buf_clear(out);
	switch (operation->kind) {
	case STRIP:
		*result = strip(text, operation->left, operation->right, head);
		return 0;
	case NORMAL_FORM:
		if (is_ascii(text))
			return 0;
		TRY(normal_form(s, text, operation->form, out, e));
		break;
	case LOWERCASE:
		lowercase(text, out);
		break;
	case PREPEND:
		buf_append_str(out, buf_str(&operation->content));
		buf_append_str(out, text);
		break;
	case REPLACE:
		TRY(replace(operation, s, text, out, head, e));
		break;
	}
	*result = buf_str(out);
	return buf_check(out, e);
}

int normalizer_run(const struct normalizer *n, struct normalize_scratch *s, struct str text, struct str *result,
	bool *head, struct error *e)
{
	assert(text.length > 0);
	int next = 0; /* the buffer that holds nothing needed */
	for (size_t i = 0; i < n->count && text.length > 0; i++) {
		struct buf *out = &s->texts[next];
		struct str changed;
		TRY(run_operation(&n->operations[i], s, text, out, &changed, head, e));
		if (changed.length > s->limit)
			return error_set(e, ERR_LIMIT,
				"normalizer: a text of %zu bytes grows to %zu, at most %zu are taken", text.length,
				changed.length, s->limit);
		if (changed.data == out->data)
			next = !next;
		text = changed;
	}
	*result = text;
	return 0;
}
