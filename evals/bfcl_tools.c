/* Functions of BFCL as tools. First the hints that BFCL adds to what it reads, then its cast of types; where it gives
 * up at a depth, so does this, and the tool's schema keeps a word that is no type of JSON Schema. */
#include "evals/bfcl.h"

/* BFCL's words for types to JSON Schema's (its GORILLA_TO_OPENAPI). */
static const char *const types[][2] = {{"integer", "integer"}, {"number", "number"}, {"float", "number"},
	{"string", "string"}, {"boolean", "boolean"}, {"bool", "boolean"}, {"array", "array"}, {"list", "array"},
	{"dict", "object"}, {"object", "object"}, {"tuple", "array"}, {"any", "string"}, {"byte", "integer"},
	{"short", "integer"}, {"long", "integer"}, {"double", "number"}, {"char", "string"}, {"ArrayList", "array"},
	{"Array", "array"}, {"HashMap", "object"}, {"Hashtable", "object"}, {"Queue", "array"}, {"Stack", "array"},
	{"Any", "string"}, {"String", "string"}, {"Bigint", "integer"}};

static const struct {
	const char *name, *function_hint;
} languages[] = {
	[BFCL_PYTHON] = {"Python", " Note that the provided function is in Python 3 syntax."},
	[BFCL_JAVA] = {"Java", " Note that the provided function is in Java 8 SDK syntax."},
	[BFCL_JAVASCRIPT] = {"JavaScript", " Note that the provided function is in JavaScript syntax."},
};

/* ---- Writing an object with changed members ---- */

struct writer {
	struct buf *out;
	enum bfcl_language language;
};

static void dump(const struct writer *w, const struct json *value)
{
	json_dump_python(value, -1, false, w->out);
}

/* A key, after a comma unless the object has just begun. */
static void write_key(const struct writer *w, const char *key, struct str key_text)
{
	if (w->out->length > 0 && w->out->data[w->out->length - 1] != '{')
		buf_append_text(w->out, ", ");
	json_write_string(key ? str_of(key) : key_text, false, w->out);
	buf_append_text(w->out, ": ");
}

static void write_text(const struct writer *w, const char *text)
{
	json_write_string(str_of(text), false, w->out);
}

/* The members that count, each once: calls go to visit. */
#define EACH_MEMBER(member, object) \
	JSON_EACH (member, object)  \
		if (!member->shadowed)

static struct str text_of(const struct json *value)
{
	return json_is(value, JSON_STRING) ? value->text : (struct str){0};
}

static const char *mapped_type(struct str type)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (str_is(type, types[i][0]))
			return types[i][1];
	}
	return NULL;
}

/* ---- The cast of types ---- */

static void write_properties(const struct writer *w, const struct json *properties);

static bool is_array_or_object(const char *type)
{
	return strcmp(type, "array") == 0 || strcmp(type, "object") == 0;
}

/* "items" of a parameter: its type, and below that one level of items or the properties of objects. */
static void write_items(const struct writer *w, const struct json *items, bool deeper)
{
	const char *type = mapped_type(text_of(json_get(items, "type")));
	if (!json_is(items, JSON_OBJECT) || !type) {
		dump(w, items);
		return;
	}
	bool is_array = strcmp(type, "array") == 0;
	buf_append_char(w->out, '{');
	EACH_MEMBER(member, items)
	{
		write_key(w, NULL, member->key);
		if (str_is(member->key, "type"))
			write_text(w, type);
		else if (deeper && is_array && str_is(member->key, "items"))
			write_items(w, member, false);
		else if (deeper && strcmp(type, "object") == 0 && str_is(member->key, "properties"))
			write_properties(w, member);
		else
			dump(w, member);
	}
	buf_append_char(w->out, '}');
}

static void write_description(const struct writer *w, const struct json *description, const char *suffix)
{
	struct buf text = {0};
	buf_append_str(&text, text_of(description));
	buf_append_text(&text, suffix);
	json_write_string(buf_str(&text), false, w->out);
	w->out->failed |= text.failed;
	buf_free(&text);
}

/* A parameter: a type that is not known is "string", "float" is told in words and as a format. */
static void write_property(const struct writer *w, const struct json *property)
{
	const struct json *type_node = json_get(property, "type");
	const char *type = mapped_type(text_of(type_node));
	const bool is_float = str_is(text_of(type_node), "float"), has_properties = json_get(property, "properties");
	type = type ? type : "string";
	const char *suffix = is_float ? " This is a float type value." : "";
	buf_append_char(w->out, '{');
	EACH_MEMBER(member, property)
	{
		write_key(w, NULL, member->key);
		if (str_is(member->key, "type"))
			write_text(w, type);
		else if (is_float && str_is(member->key, "description"))
			write_description(w, member, suffix);
		else if (is_float && str_is(member->key, "format"))
			write_text(w, "float");
		else if (is_array_or_object(type) && str_is(member->key, "properties"))
			write_properties(w, member);
		else if (is_array_or_object(type) && !has_properties && str_is(member->key, "items"))
			write_items(w, member, true);
		else
			dump(w, member);
	}
	if (is_float && !json_get(property, "format")) {
		write_key(w, "format", (struct str){0});
		write_text(w, "float");
	}
	if (!type_node) {
		write_key(w, "type", (struct str){0});
		write_text(w, type);
	}
	buf_append_char(w->out, '}');
}

static void write_properties(const struct writer *w, const struct json *properties)
{
	if (!json_is(properties, JSON_OBJECT)) {
		dump(w, properties);
		return;
	}
	buf_append_char(w->out, '{');
	EACH_MEMBER(property, properties)
	{
		write_key(w, NULL, property->key);
		if (json_is(property, JSON_OBJECT))
			write_property(w, property);
		else
			dump(w, property);
	}
	buf_append_char(w->out, '}');
}

/* ---- Java and JavaScript: every parameter is a string that holds a literal ---- */

static bool has_element_hint(enum bfcl_language language, struct str type)
{
	return language == BFCL_JAVA ? str_is(type, "ArrayList") || str_is(type, "Array") : str_is(type, "array");
}

/* What is said behind the description of a parameter. */
static void append_literal_hint(const struct writer *w, const struct json *property, struct str type, struct buf *out)
{
	const char *language = languages[w->language].name;
	if (str_is(type, "any"))
		buf_printf(out, " This parameter can be of any type of %s object in string representation.", language);
	else
		buf_printf(out, " This is %s %.*s type parameter in string representation.", language, STR_ARG(type));
	struct str element = text_of(json_get(json_get(property, "items"), "type"));
	if (has_element_hint(w->language, type))
		buf_printf(out, " The list elements are of type %.*s; they are not in string representation.",
			STR_ARG(element));
	const struct json *properties = json_get(property, "properties");
	if (w->language == BFCL_JAVASCRIPT && str_is(type, "dict") && properties) {
		buf_append_text(out,
			" The dictionary entries have the following schema; they are not in string representation. ");
		json_dump_python(properties, -1, true, out);
	}
}

static void write_literal_property(const struct writer *w, const struct json *property)
{
	struct str type = text_of(json_get(property, "type"));
	const bool no_items = has_element_hint(w->language, type);
	const bool no_properties = w->language == BFCL_JAVASCRIPT && str_is(type, "dict");
	struct buf hint = {0};
	append_literal_hint(w, property, type, &hint);
	buf_append_char(w->out, '{');
	EACH_MEMBER(member, property)
	{
		if ((no_items && str_is(member->key, "items")) || (no_properties && str_is(member->key, "properties")))
			continue;
		write_key(w, NULL, member->key);
		if (str_is(member->key, "type"))
			write_text(w, "string");
		else if (str_is(member->key, "description"))
			write_description(w, member, buf_text(&hint));
		else
			dump(w, member);
	}
	if (!json_get(property, "description")) {
		write_key(w, "description", (struct str){0});
		json_write_string(buf_str(&hint), false, w->out);
	}
	buf_append_char(w->out, '}');
	w->out->failed |= hint.failed;
	buf_free(&hint);
}

static void write_literal_properties(const struct writer *w, const struct json *properties)
{
	buf_append_char(w->out, '{');
	EACH_MEMBER(property, properties)
	{
		write_key(w, NULL, property->key);
		write_literal_property(w, property);
	}
	buf_append_char(w->out, '}');
}

/* ---- Functions ---- */

static void write_parameters(const struct writer *w, const struct json *parameters)
{
	buf_append_char(w->out, '{');
	EACH_MEMBER(member, parameters)
	{
		write_key(w, NULL, member->key);
		if (str_is(member->key, "type"))
			write_text(w, "object");
		else if (!str_is(member->key, "properties"))
			dump(w, member);
		else if (w->language == BFCL_PYTHON)
			write_properties(w, member);
		else
			write_literal_properties(w, member);
	}
	if (!json_get(parameters, "type")) {
		write_key(w, "type", (struct str){0});
		write_text(w, "object");
	}
	buf_append_char(w->out, '}');
}

static void write_name(const struct writer *w, struct str name)
{
	size_t from = w->out->length;
	json_write_string(name, false, w->out);
	for (size_t i = from; i < w->out->length; i++) {
		if (w->out->data[i] == '.')
			w->out->data[i] = '_';
	}
}

static int write_function(const struct writer *w, const struct json *function, struct error *e)
{
	if (!json_is(json_get(function, "name"), JSON_STRING) ||
		!json_is(json_get(function, "parameters"), JSON_OBJECT))
		return error_set(e, ERR_INPUT, "a function without \"name\" or \"parameters\"");
	buf_append_text(w->out, "{\"type\": \"function\", \"function\": {");
	EACH_MEMBER(member, function)
	{
		write_key(w, NULL, member->key);
		if (str_is(member->key, "name"))
			write_name(w, member->text);
		else if (str_is(member->key, "description"))
			write_description(w, member, languages[w->language].function_hint);
		else if (str_is(member->key, "parameters"))
			write_parameters(w, member);
		else
			dump(w, member);
	}
	buf_append_text(w->out, "}}");
	return 0;
}

int bfcl_tools_append(const struct json *functions, enum bfcl_language language, struct buf *out, struct error *e)
{
	const struct writer w = {out, language};
	if (!json_is(functions, JSON_ARRAY))
		return error_set(e, ERR_INPUT, "\"function\" is %s, expected array", json_type_name(functions));
	buf_append_char(out, '[');
	JSON_EACH (function, functions) {
		if (function != functions->child)
			buf_append_text(out, ", ");
		TRY(write_function(&w, function, e));
	}
	buf_append_char(out, ']');
	return buf_check(out, e);
}
