#include "evals/json_schema.h"

#include <stdlib.h>

#include "engine/base/json_number.h"
#include "evals/json_schema_type.h"

/* Finding each reference's target walks through the document. */
enum { MAX_REFERENCES = 8192, REFERENCE_WORK = 50000000 };

/* What a keyword's value must be. */
enum form {
	FORM_ANY,
	FORM_BOOLEAN,
	FORM_TEXT,
	FORM_ARRAY,
	FORM_TEXTS, /* strings, each once */
	FORM_TYPE,  /* a type, or some of them */
	FORM_NUMBER,
	FORM_POSITIVE,
	FORM_COUNT, /* an integer from 0 up */
	FORM_REFERENCE,
	FORM_PATTERN,
	FORM_SCHEMA,
	FORM_SCHEMAS, /* at least one */
	FORM_SCHEMA_MAP,
	FORM_PATTERN_MAP, /* patterns to schemas */
	FORM_TEXTS_MAP,
};

static const struct keyword_row {
	const char *name;
	enum schema_keyword keyword;
	enum form form;
} rows[] = {
	{"$ref", SCHEMA_REF, FORM_REFERENCE}, {"type", SCHEMA_TYPE, FORM_TYPE}, {"enum", SCHEMA_ENUM, FORM_ARRAY},
	{"const", SCHEMA_CONST, FORM_ANY}, {"multipleOf", SCHEMA_MULTIPLE_OF, FORM_POSITIVE},
	{"minimum", SCHEMA_MINIMUM, FORM_NUMBER}, {"maximum", SCHEMA_MAXIMUM, FORM_NUMBER},
	{"exclusiveMinimum", SCHEMA_EXCLUSIVE_MINIMUM, FORM_NUMBER},
	{"exclusiveMaximum", SCHEMA_EXCLUSIVE_MAXIMUM, FORM_NUMBER}, {"minLength", SCHEMA_MIN_LENGTH, FORM_COUNT},
	{"maxLength", SCHEMA_MAX_LENGTH, FORM_COUNT}, {"pattern", SCHEMA_PATTERN, FORM_PATTERN},
	{"minItems", SCHEMA_MIN_ITEMS, FORM_COUNT}, {"maxItems", SCHEMA_MAX_ITEMS, FORM_COUNT},
	{"uniqueItems", SCHEMA_UNIQUE_ITEMS, FORM_BOOLEAN}, {"prefixItems", SCHEMA_PREFIX_ITEMS, FORM_SCHEMAS},
	{"items", SCHEMA_ITEMS, FORM_SCHEMA}, {"contains", SCHEMA_CONTAINS, FORM_SCHEMA},
	{"minContains", SCHEMA_MIN_CONTAINS, FORM_COUNT}, {"maxContains", SCHEMA_MAX_CONTAINS, FORM_COUNT},
	{"minProperties", SCHEMA_MIN_PROPERTIES, FORM_COUNT}, {"maxProperties", SCHEMA_MAX_PROPERTIES, FORM_COUNT},
	{"required", SCHEMA_REQUIRED, FORM_TEXTS}, {"dependentRequired", SCHEMA_DEPENDENT_REQUIRED, FORM_TEXTS_MAP},
	{"properties", SCHEMA_PROPERTIES, FORM_SCHEMA_MAP},
	{"patternProperties", SCHEMA_PATTERN_PROPERTIES, FORM_PATTERN_MAP},
	{"additionalProperties", SCHEMA_ADDITIONAL_PROPERTIES, FORM_SCHEMA},
	{"propertyNames", SCHEMA_PROPERTY_NAMES, FORM_SCHEMA},
	{"dependentSchemas", SCHEMA_DEPENDENT_SCHEMAS, FORM_SCHEMA_MAP}, {"allOf", SCHEMA_ALL_OF, FORM_SCHEMAS},
	{"anyOf", SCHEMA_ANY_OF, FORM_SCHEMAS}, {"oneOf", SCHEMA_ONE_OF, FORM_SCHEMAS},
	{"not", SCHEMA_NOT, FORM_SCHEMA}, {"if", SCHEMA_IF, FORM_SCHEMA}, {"then", SCHEMA_THEN, FORM_SCHEMA},
	{"else", SCHEMA_ELSE, FORM_SCHEMA}, {"unevaluatedProperties", SCHEMA_UNEVALUATED_PROPERTIES, FORM_SCHEMA},
	{"$defs", SCHEMA_ANNOTATION, FORM_SCHEMA_MAP}, {"definitions", SCHEMA_ANNOTATION, FORM_SCHEMA_MAP},
	{"$id", SCHEMA_ANNOTATION, FORM_TEXT},     /* schema_names_add */
	{"$anchor", SCHEMA_ANNOTATION, FORM_TEXT}, /* schema_names_add */
	{"$schema", SCHEMA_ANNOTATION, FORM_TEXT}, {"$comment", SCHEMA_ANNOTATION, FORM_TEXT},
	{"title", SCHEMA_ANNOTATION, FORM_TEXT}, {"description", SCHEMA_ANNOTATION, FORM_TEXT},
	{"format", SCHEMA_ANNOTATION, FORM_TEXT}, /* not asserted */
	{"contentEncoding", SCHEMA_ANNOTATION, FORM_TEXT}, {"contentMediaType", SCHEMA_ANNOTATION, FORM_TEXT},
	{"contentSchema", SCHEMA_ANNOTATION, FORM_SCHEMA}, {"default", SCHEMA_ANNOTATION, FORM_ANY},
	{"examples", SCHEMA_ANNOTATION, FORM_ARRAY}, {"example", SCHEMA_ANNOTATION, FORM_ANY}, /* OpenAPI's */
	{"deprecated", SCHEMA_ANNOTATION, FORM_BOOLEAN}, {"readOnly", SCHEMA_ANNOTATION, FORM_BOOLEAN},
	{"writeOnly", SCHEMA_ANNOTATION, FORM_BOOLEAN},
	{"optional", SCHEMA_ANNOTATION, FORM_ANY}, /* BFCL's functions have it */
};

int schema_fail(const struct json_schema *s, const char *format, ...)
{
	char message[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	struct str place = buf_str(&s->place);
	return error_set(
		s->e, ERR_INPUT, "schema at %.*s: %s", STR_ARG(place.length ? place : str_of("its root")), message);
}

/* Goes down one step of the place; the return value goes back to schema_leave. */
static size_t place_enter(struct json_schema *s, struct str step)
{
	size_t length = s->place.length;
	buf_append_char(&s->place, '/');
	buf_append_str(&s->place, step);
	return length;
}

static void place_leave(struct json_schema *s, size_t length)
{
	s->place.length = length;
}

/* ---- Values of keywords ---- */

static int fail_form(const struct json_schema *s, const char *name, const struct json *value, const char *expected)
{
	return schema_fail(s, "\"%s\" is %s, expected %s", name, json_type_name(value), expected);
}

static bool is_type_name(const struct json *value)
{
	static const char *const types[] = {"null", "boolean", "object", "array", "number", "string", "integer"};
	for (size_t i = 0; json_is(value, JSON_STRING) && i < sizeof(types) / sizeof(types[0]); i++) {
		if (str_is(value->text, types[i]))
			return true;
	}
	return false;
}

static int check_type(const struct json_schema *s, const char *name, const struct json *value)
{
	if (is_type_name(value))
		return 0;
	if (json_is(value, JSON_STRING))
		return schema_fail(s, "\"%s\" names no type: \"%.*s\"", name, STR_ARG(value->text));
	if (!json_is(value, JSON_ARRAY) || value->count == 0)
		return fail_form(s, name, value, "a type or an array of types");
	JSON_EACH (item, value) {
		if (!is_type_name(item))
			return schema_fail(s, "\"%s\" holds what is no type", name);
	}
	return 0;
}

static int check_texts(const struct json_schema *s, const char *name, const struct json *value)
{
	if (!json_is(value, JSON_ARRAY))
		return fail_form(s, name, value, "an array of strings");
	JSON_EACH (item, value) {
		if (!json_is(item, JSON_STRING))
			return schema_fail(s, "\"%s\" holds %s, expected strings", name, json_type_name(item));
	}
	return 0;
}

static int check_texts_map(const struct json_schema *s, const char *name, const struct json *value)
{
	if (!json_is(value, JSON_OBJECT))
		return fail_form(s, name, value, "an object of arrays of strings");
	JSON_EACH (member, value)
		TRY(check_texts(s, name, member));
	return 0;
}

static bool is_above(const struct json *value, bool zero_too)
{
	double number = json_double(value);
	return number > 0 || (zero_too && number == 0);
}

/* Of forms that hold no schema. */
static int check_form(const struct json_schema *s, const char *name, enum form form, const struct json *value)
{
	switch (form) {
	case FORM_BOOLEAN:
		return json_is(value, JSON_TRUE) || json_is(value, JSON_FALSE) ? 0
									       : fail_form(s, name, value, "a boolean");
	case FORM_TEXT:
	case FORM_REFERENCE:
	case FORM_PATTERN:
		return json_is(value, JSON_STRING) ? 0 : fail_form(s, name, value, "a string");
	case FORM_ARRAY:
		return json_is(value, JSON_ARRAY) ? 0 : fail_form(s, name, value, "an array");
	case FORM_TEXTS:
		return check_texts(s, name, value);
	case FORM_TEXTS_MAP:
		return check_texts_map(s, name, value);
	case FORM_TYPE:
		return check_type(s, name, value);
	case FORM_NUMBER:
		return json_is(value, JSON_NUMBER) ? 0 : fail_form(s, name, value, "a number");
	case FORM_POSITIVE:
		return is_above(value, false) ? 0 : fail_form(s, name, value, "a number above 0");
	case FORM_COUNT:
		return json_is_integral(value) && is_above(value, true)
			? 0
			: fail_form(s, name, value, "an integer from 0 up");
	default:
		return 0;
	}
}

/* ---- Nodes ---- */

static size_t table_slot(const struct json_schema *s, const struct json *source)
{
	return ((uintptr_t)source >> 4) % s->capacity;
}

static int table_grow(struct json_schema *s)
{
	size_t capacity = s->capacity ? 2 * s->capacity : 16;
	struct schema_node **old = s->table, **table = mem_calloc(capacity, sizeof(*table), s->e);
	size_t old_capacity = s->capacity;
	if (!table)
		return ERR_MEMORY;
	s->table = table;
	s->capacity = capacity;
	for (size_t i = 0; i < old_capacity; i++) {
		for (struct schema_node *node = old[i], *next; node; node = next) {
			next = node->next_in_table;
			size_t slot = table_slot(s, node->source);
			node->next_in_table = table[slot];
			table[slot] = node;
		}
	}
	free(old);
	return 0;
}

static struct schema_node *table_find(const struct json_schema *s, const struct json *source)
{
	if (s->capacity == 0)
		return NULL;
	struct schema_node *node = s->table[table_slot(s, source)];
	while (node && node->source != source)
		node = node->next_in_table;
	return node;
}

static struct schema_node *node_new(struct json_schema *s, const struct json *source)
{
	if (s->n_nodes == s->capacity && table_grow(s) < 0)
		return NULL;
	struct schema_node *node = mem_calloc(1, sizeof(*node), s->e);
	if (!node)
		return NULL;
	size_t slot = table_slot(s, source);
	node->source = source;
	node->next_in_table = s->table[slot];
	s->table[slot] = node;
	s->n_nodes++;
	return node;
}

/* ---- Keywords that hold schemas ---- */

static int node_at(
	struct json_schema *s, const struct json *source, const struct json *resource, struct schema_node **out);

static int use_nodes_new(struct json_schema *s, struct schema_use *use, size_t count)
{
	use->nodes = mem_calloc(count, sizeof(struct schema_node *), s->e);
	use->count = count;
	return use->nodes ? 0 : ERR_MEMORY;
}

static int use_patterns_new(struct json_schema *s, struct schema_use *use, size_t count)
{
	use->patterns = mem_calloc(count, sizeof(struct ecma_pattern *), s->e);
	use->count = count;
	return use->patterns ? 0 : ERR_MEMORY;
}

static int add_pattern(struct json_schema *s, struct schema_use *use, size_t i, struct str source)
{
	struct error why = {0};
	if (ecma_pattern_new(source, &use->patterns[i], &why) < 0)
		return schema_fail(s, "\"%s\": %s", use->name, why.message);
	return 0;
}

/* An array or object of schemas, in the order of the text; a shadowed member has no node. */
static int read_children(struct json_schema *s, const struct schema_node *node, struct schema_use *use, enum form form)
{
	const bool is_map = form == FORM_SCHEMA_MAP || form == FORM_PATTERN_MAP;
	if (!json_is(use->value, is_map ? JSON_OBJECT : JSON_ARRAY) || (!is_map && use->value->count == 0))
		return fail_form(s, use->name, use->value, is_map ? "an object of schemas" : "an array of schemas");
	TRY(use_nodes_new(s, use, use->value->count));
	if (form == FORM_PATTERN_MAP)
		TRY(use_patterns_new(s, use, use->value->count));
	if (use->keyword == SCHEMA_PROPERTIES)
		TRY(schema_keys_init(&use->keys, use->value, use->value->count, s->e));
	size_t i = 0;
	JSON_EACH (child, use->value) {
		char number[24];
		snprintf(number, sizeof(number), "%zu", i);
		size_t place = place_enter(s, is_map ? child->key : str_of(number));
		if (form == FORM_PATTERN_MAP && !child->shadowed)
			TRY(add_pattern(s, use, i, child->key));
		if (!child->shadowed)
			TRY(node_at(s, child, node->resource, &use->nodes[i]));
		place_leave(s, place);
		i++;
	}
	return 0;
}

static int add_reference(struct json_schema *s, struct schema_node *node, struct schema_use *use)
{
	TRY(use_nodes_new(s, use, 1));
	size_t n = s->n_references;
	if (n == MAX_REFERENCES)
		return schema_fail(s, "more than %d references", MAX_REFERENCES);
	if ((n & (n - 1)) == 0) { /* full at each power of two */
		size_t capacity = n ? 2 * n : 1;
		struct schema_reference *grown = realloc(s->references, capacity * sizeof(*grown));
		if (!grown)
			return error_set(s->e, ERR_MEMORY, "out of memory for %zu references", capacity);
		s->references = grown;
	}
	s->references[s->n_references++] = (struct schema_reference){node, use};
	return 0;
}

static int read_use(struct json_schema *s, struct schema_node *node, struct schema_use *use, enum form form)
{
	TRY(check_form(s, use->name, form, use->value));
	switch (form) {
	case FORM_SCHEMAS:
	case FORM_SCHEMA_MAP:
	case FORM_PATTERN_MAP:
		return read_children(s, node, use, form);
	case FORM_SCHEMA:
		TRY(use_nodes_new(s, use, 1));
		return node_at(s, use->value, node->resource, &use->nodes[0]);
	case FORM_PATTERN:
		TRY(use_patterns_new(s, use, 1));
		return add_pattern(s, use, 0, use->value->text);
	case FORM_REFERENCE:
		return add_reference(s, node, use);
	default:
		return 0;
	}
}

static const struct keyword_row *row_find(struct str name)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (str_is(name, rows[i].name))
			return &rows[i];
	}
	return NULL;
}

static int compare_uses(const void *a, const void *b)
{
	const struct schema_use *x = a, *y = b;
	return (int)x->keyword - (int)y->keyword;
}

/* Fills node->uses, sorted: read_use takes their addresses, so they are sorted before. */
static int list_uses(struct json_schema *s, struct schema_node *node)
{
	node->uses = mem_calloc(node->source->count, sizeof(*node->uses), s->e);
	if (!node->uses)
		return ERR_MEMORY;
	JSON_EACH (member, node->source) {
		const struct keyword_row *row = row_find(member->key);
		if (member->shadowed)
			continue;
		if (!row && str_starts_with(member->key, str_of("x-")))
			continue;
		if (!row)
			return schema_fail(
				s, "unknown keyword \"%.*s\": what it demands cannot be judged", STR_ARG(member->key));
		node->uses[node->n_uses++] =
			(struct schema_use){.keyword = row->keyword, .name = row->name, .value = member};
	}
	qsort(node->uses, node->n_uses, sizeof(*node->uses), compare_uses);
	return 0;
}

static int node_read(struct json_schema *s, struct schema_node *node)
{
	TRY(schema_names_add(s, node->source, &node->resource));
	TRY(list_uses(s, node));
	for (size_t i = 0; i < node->n_uses; i++) {
		struct schema_use *use = &node->uses[i];
		size_t place = place_enter(s, str_of(use->name));
		TRY(read_use(s, node, use, row_find(str_of(use->name))->form));
		place_leave(s, place);
	}
	return 0;
}

static int node_at(
	struct json_schema *s, const struct json *source, const struct json *resource, struct schema_node **out)
{
	if (!json_is(source, JSON_OBJECT) && !json_is(source, JSON_TRUE) && !json_is(source, JSON_FALSE))
		return schema_fail(s, "%s, expected a schema: an object, true or false", json_type_name(source));
	*out = table_find(s, source);
	if (*out)
		return 0;
	struct schema_node *node = node_new(s, source);
	if (!node)
		return ERR_MEMORY;
	node->resource = resource ? resource : source;
	*out = node;
	return source->type == JSON_OBJECT ? node_read(s, node) : 0;
}

const struct schema_use *schema_use_of(const struct schema_node *node, enum schema_keyword keyword)
{
	for (size_t i = 0; i < node->n_uses; i++) {
		if (node->uses[i].keyword == keyword)
			return &node->uses[i];
	}
	return NULL;
}

/* ---- The whole ---- */

/* A target that is no subschema yet is read now, and may hold references itself. */
static int resolve_references(struct json_schema *s)
{
	while (s->n_resolved < s->n_references) {
		struct schema_reference r = s->references[s->n_resolved++];
		const struct json *target, *resource;
		s->place.length = 0;
		TRY(schema_reference_find(s, r.use->value->text, r.node->resource, &target, &resource));
		TRY(node_at(s, target, resource, &r.use->nodes[0]));
		r.use->nodes[0]->is_target = true;
	}
	return 0;
}

int json_schema_new(const struct json *schema, struct json_schema **out, struct error *e)
{
	struct error why = {0};
	struct json_schema *s = mem_calloc(1, sizeof(*s), e);
	if (!s)
		return ERR_MEMORY;
	s->e = e ? e : &why;
	s->work = REFERENCE_WORK;
	int status = node_at(s, schema, NULL, &s->root);
	if (status == 0)
		status = resolve_references(s);
	if (status == 0)
		status = buf_check(&s->place, s->e);
	buf_free(&s->place);
	s->e = NULL;
	if (status < 0) {
		json_schema_delete(s);
		return status;
	}
	*out = s;
	return 0;
}

static void node_delete(struct schema_node *node)
{
	for (size_t i = 0; i < node->n_uses; i++) {
		struct schema_use *use = &node->uses[i];
		for (size_t p = 0; use->patterns && p < use->count; p++)
			ecma_pattern_delete(use->patterns[p]);
		free(use->patterns);
		schema_keys_free(&use->keys);
		free(use->nodes);
	}
	free(node->uses);
	free(node);
}

void json_schema_delete(struct json_schema *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->capacity; i++) {
		for (struct schema_node *node = s->table[i], *next; node; node = next) {
			next = node->next_in_table;
			node_delete(node);
		}
	}
	free(s->table);
	free(s->references);
	schema_names_free(s);
	free(s);
}
