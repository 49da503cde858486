/* $id, $anchor and $ref of JSON Schema within one document. */
#include <stdlib.h>

#include "engine/base/utf8.h"
#include "evals/json_schema_type.h"

/* Each step of a reference looks through the names. */
enum { MAX_NAMES = 1024, MAX_URI = 4096 };

/* ---- URIs ---- */

/* The length of "scheme:", 0 without one (RFC 3986, 3.1). */
static size_t scheme_length(struct str uri)
{
	for (size_t i = 0; i < uri.length; i++) {
		char c = uri.data[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
		if (c == ':')
			return i > 0 ? i + 1 : 0;
		if (!letter && (i == 0 || !((c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.')))
			return 0;
	}
	return 0;
}

/* The length of what a path begins behind: "scheme://authority". */
static size_t authority_length(struct str uri)
{
	size_t at = scheme_length(uri);
	if (at + 2 > uri.length || uri.data[at] != '/' || uri.data[at + 1] != '/')
		return at;
	for (at += 2; at < uri.length && uri.data[at] != '/';)
		at++;
	return at;
}

/* A reference without fragment, seen from base: as written with a scheme, from the authority's root with "/", else
 * beside base's last segment. */
static void resolve_uri(struct str base, struct str reference, struct buf *out)
{
	if (reference.length == 0) {
		buf_append_str(out, base);
		return;
	}
	if (scheme_length(reference) == 0) {
		size_t keep = authority_length(base);
		for (size_t i = base.length; reference.data[0] != '/' && i > keep; i--) {
			if (base.data[i - 1] == '/') {
				keep = i;
				break;
			}
		}
		buf_append(out, base.data, keep);
	}
	buf_append_str(out, reference);
}

static struct str base_uri(const struct json_schema *s, const struct json *resource)
{
	for (size_t i = 0; i < s->n_names; i++) {
		if (s->names[i].uri && s->names[i].target == resource)
			return str_of(s->names[i].uri);
	}
	return (struct str){"", 0};
}

/* ---- Names ---- */

static struct schema_name *name_new(struct json_schema *s)
{
	size_t n = s->n_names;
	if (n == MAX_NAMES) {
		schema_fail(s, "more than %d of $id and $anchor", MAX_NAMES);
		return NULL;
	}
	if ((n & (n - 1)) == 0) { /* full at each power of two */
		struct schema_name *grown = realloc(s->names, (n ? 2 * n : 1) * sizeof(*grown));
		if (!grown) {
			error_set(s->e, ERR_MEMORY, "out of memory for %zu names of schemas", n + 1);
			return NULL;
		}
		s->names = grown;
	}
	s->names[n] = (struct schema_name){0};
	s->n_names++;
	return &s->names[n];
}

/* Draft 2020-12 allows no more than an empty fragment in an $id. */
static int check_id(const struct json_schema *s, const struct json *id)
{
	if (!json_is(id, JSON_STRING))
		return schema_fail(s, "\"$id\" is %s, expected a string", json_type_name(id));
	size_t fragment = str_find(id->text, str_of("#"), 0);
	if (fragment != SIZE_MAX && fragment + 1 < id->text.length)
		return schema_fail(s, "\"$id\" is \"%.*s\", expected a URI without a fragment", STR_ARG(id->text));
	return 0;
}

static int add_id(struct json_schema *s, const struct json *object, const struct json *id, const struct json **resource)
{
	TRY(check_id(s, id));
	struct buf uri = {0};
	struct str reference = id->text;
	reference.length -= reference.length > 0 && reference.data[reference.length - 1] == '#';
	resolve_uri(base_uri(s, *resource), reference, &uri);
	if (uri.length > MAX_URI) {
		buf_free(&uri);
		return schema_fail(s, "\"$id\" is a URI of more than %d bytes", MAX_URI);
	}
	buf_append_char(&uri, '\0');
	struct schema_name *name = buf_check(&uri, s->e) == 0 ? name_new(s) : NULL;
	if (!name) {
		buf_free(&uri);
		return s->e->code;
	}
	*name = (struct schema_name){.resource = object, .target = object, .uri = uri.data};
	*resource = object;
	return 0;
}

int schema_names_add(struct json_schema *s, const struct json *object, const struct json **resource)
{
	const struct json *id = json_get(object, "$id"), *anchor = json_get(object, "$anchor");
	if (id)
		TRY(add_id(s, object, id, resource));
	if (!anchor)
		return 0;
	if (!json_is(anchor, JSON_STRING))
		return schema_fail(s, "\"$anchor\" is %s, expected a string", json_type_name(anchor));
	struct schema_name *name = name_new(s);
	if (!name)
		return s->e->code;
	*name = (struct schema_name){.resource = *resource, .target = object, .anchor = anchor->text};
	return 0;
}

void schema_names_free(struct json_schema *s)
{
	for (size_t i = 0; i < s->n_names; i++)
		free(s->names[i].uri);
	free(s->names);
}

/* ---- References ---- */

static int spend(struct json_schema *s, uint64_t cost)
{
	if (s->work <= cost)
		return error_set(
			s->e, ERR_LIMIT, "finding what the schema's references mean takes more work than is bounded");
	s->work -= cost;
	return 0;
}

static int fail_reference(const struct json_schema *s, struct str reference, const char *why)
{
	return schema_fail(s, "\"$ref\" is \"%.*s\": %s", STR_ARG(reference), why);
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'    ? c - '0'
		: c >= 'a' && c <= 'f' ? c - 'a' + 10
		: c >= 'A' && c <= 'F' ? c - 'A' + 10
				       : -1;
}

/* %XX of a URI. */
static void decode_percent(struct str text, struct buf *out)
{
	for (size_t i = 0; i < text.length; i++) {
		int high = i + 2 < text.length && text.data[i] == '%' ? hex_digit(text.data[i + 1]) : -1;
		int low = high >= 0 ? hex_digit(text.data[i + 2]) : -1;
		char byte = text.data[i];
		if (low >= 0) {
			byte = (char)(high << 4 | low);
			i += 2;
		}
		buf_append_char(out, byte);
	}
}

/* ~1 and ~0 of a JSON pointer's step. */
static void decode_step(struct str step, struct buf *out)
{
	for (size_t i = 0; i < step.length; i++) {
		bool escaped = step.data[i] == '~' && i + 1 < step.length &&
			(step.data[i + 1] == '0' || step.data[i + 1] == '1');
		if (escaped)
			i++;
		buf_append_char(out, escaped && step.data[i] == '0' ? '~' : escaped ? '/' : step.data[i]);
	}
}

static const struct json *array_step(const struct json *array, struct str step)
{
	size_t index = 0;
	if (step.length == 0 || step.length > 9 || (step.length > 1 && step.data[0] == '0'))
		return NULL;
	for (size_t i = 0; i < step.length; i++) {
		if (step.data[i] < '0' || step.data[i] > '9')
			return NULL;
		index = index * 10 + (size_t)(step.data[i] - '0');
	}
	return json_at(array, index);
}

/* Whether an object is the root of a resource of its own. */
static bool is_resource(const struct json_schema *s, const struct json *value)
{
	for (size_t i = 0; i < s->n_names; i++) {
		if (s->names[i].uri && s->names[i].target == value)
			return true;
	}
	return false;
}

/* pointer is decoded from the URI and begins with '/' or is empty. */
static int follow_pointer(
	struct json_schema *s, struct str pointer, const struct json **at, const struct json **resource)
{
	struct buf step = {0};
	int status = 0;
	for (size_t from = 0; from < pointer.length && *at && status == 0;) {
		size_t end = str_find(pointer, str_of("/"), from + 1);
		if (end == SIZE_MAX)
			end = pointer.length;
		buf_clear(&step);
		status = spend(s, (*at)->count + s->n_names + 1);
		decode_step((struct str){pointer.data + from + 1, end - from - 1}, &step);
		*at = json_is(*at, JSON_ARRAY) ? array_step(*at, buf_str(&step)) : json_get_str(*at, buf_str(&step));
		if (is_resource(s, *at))
			*resource = *at;
		from = end;
	}
	if (status == 0)
		status = buf_check(&step, s->e);
	buf_free(&step);
	return status;
}

static const struct json *find_anchor(const struct json_schema *s, struct str anchor, const struct json *resource)
{
	for (size_t i = 0; i < s->n_names; i++) {
		const struct schema_name *name = &s->names[i];
		if (!name->uri && name->resource == resource && str_equal(name->anchor, anchor))
			return name->target;
	}
	return NULL;
}

static int find_in_resource(struct json_schema *s, struct str reference, struct str fragment,
	const struct json **target, const struct json **resource)
{
	struct buf decoded = {0};
	decode_percent(fragment, &decoded);
	int status = buf_check(&decoded, s->e);
	*target = *resource;
	if (status == 0 && decoded.length > 0 && decoded.data[0] != '/')
		*target = find_anchor(s, buf_str(&decoded), *resource);
	else if (status == 0)
		status = follow_pointer(s, buf_str(&decoded), target, resource);
	buf_free(&decoded);
	if (status == 0 && !*target)
		return fail_reference(s, reference, "nothing is there");
	return status;
}

/* The resource of that URI, seen from another. */
static const struct json *find_resource(const struct json_schema *s, struct str uri, const struct json *from)
{
	struct buf whole = {0};
	const struct json *found = NULL;
	resolve_uri(base_uri(s, from), uri, &whole);
	if (buf_check(&whole, s->e) == 0) {
		for (size_t i = 0; i < s->n_names && !found; i++) {
			if (s->names[i].uri && str_is(buf_str(&whole), s->names[i].uri))
				found = s->names[i].target;
		}
	}
	buf_free(&whole);
	return found;
}

int schema_reference_find(struct json_schema *s, struct str reference, const struct json *resource,
	const struct json **target, const struct json **target_resource)
{
	size_t hash = str_find(reference, str_of("#"), 0);
	struct str uri = {reference.data, hash == SIZE_MAX ? reference.length : hash}, fragment = {"", 0};
	if (hash != SIZE_MAX)
		fragment = (struct str){reference.data + hash + 1, reference.length - hash - 1};
	*target_resource = resource;
	TRY(spend(s, s->n_names * (uri.length > 0 ? 1 + MAX_URI / 64 : 1)));
	if (uri.length > 0) {
		*target_resource = find_resource(s, uri, resource);
		if (!*target_resource)
			return fail_reference(s, reference, "another document, which is not fetched");
	}
	return find_in_resource(s, reference, fragment, target, target_resource);
}
