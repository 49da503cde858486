/* Calls between <tool_call> and </tool_call>: Hermes and Qwen with JSON inside, GLM with a name and tagged values. */
#include <stdint.h>

#include "engine/base/utf8.h"
#include "engine/text/tool_call_parser.h"

/* The next part of text between two marks, from *at on. false: no opening mark. Without a closing one the part goes to
 * the end of the text, and *closed is false. *raw has the marks. */
static bool next_tagged(struct str text, size_t *at, const char *open, const char *close, struct str *raw,
	struct str *inside, bool *closed)
{
	size_t start = str_find(text, str_of(open), *at);
	if (start == SIZE_MAX)
		return false;
	size_t first = start + strlen(open), end = str_find(text, str_of(close), first);
	*closed = end != SIZE_MAX;
	if (!*closed)
		end = text.length;
	*inside = str_part(text, first, end);
	*at = *closed ? end + strlen(close) : end;
	*raw = str_part(text, start, *at);
	return true;
}

/* 1 and a new call with what stands inside its marks, 0 at the end. */
static int next_call(struct tool_parser *p, size_t *at, struct tool_call **call, struct str *inside)
{
	struct str raw;
	bool closed;
	if (!next_tagged(p->text, at, "<tool_call>", "</tool_call>", &raw, inside, &closed))
		return 0;
	*call = tool_call_new(p, raw);
	if (!*call)
		return ERR_MEMORY;
	if (!closed)
		(*call)->leniencies |= TOOL_UNCLOSED;
	return 1;
}

int tool_parse_hermes(struct tool_parser *p)
{
	struct str inside;
	struct tool_call *call;
	size_t at = 0;
	int found;
	while ((found = next_call(p, &at, &call, &inside)) > 0)
		TRY(tool_call_object(p, call, utf8_strip(inside), "arguments", NULL));
	return found;
}

/* ---- GLM ---- */

static bool is_string_parameter(const struct json *function, struct str key)
{
	const struct json *properties = json_get(json_get(function, "parameters"), "properties");
	const struct json *type = json_get(json_get_str(properties, key), "type");
	return json_is(type, JSON_STRING) && str_is(type->text, "string");
}

static bool is_json(struct str text, int flags)
{
	struct json_document *document = NULL;
	bool good = json_parse(text, NULL, flags, &document, NULL) == 0;
	json_free(document);
	return good;
}

/* A value typed by the schema: a string as it stands, the rest as JSON; else what Python would read, else as text. */
static void append_value(
	struct tool_call *call, const struct json *function, struct str key, struct str value, struct buf *json)
{
	static const char *const literals[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
	if (is_string_parameter(function, key)) {
		json_write_string(value, false, json);
		return;
	}
	struct str stripped = utf8_strip(value);
	if (is_json(stripped, JSON_PYTHON_CONSTANTS)) {
		buf_append_str(json, stripped);
		return;
	}
	for (size_t i = 0; i < sizeof(literals) / sizeof(literals[0]); i++) {
		if (str_is(stripped, literals[i][0])) {
			call->leniencies |= TOOL_PYTHON_LITERAL;
			buf_append_text(json, literals[i][1]);
			return;
		}
	}
	call->leniencies |= TOOL_VALUE_AS_TEXT;
	json_write_string(value, false, json);
}

/* The arguments of a call as a JSON object. */
static int append_arguments(struct tool_parser *p, struct tool_call *call, struct str body, struct buf *json)
{
	const struct json *function = tool_function_find(p->tools, call->name);
	struct str raw, key, value;
	bool closed;
	buf_append_char(json, '{');
	for (size_t at = 0; next_tagged(body, &at, "<arg_key>", "</arg_key>", &raw, &key, &closed);) {
		key = utf8_strip(key);
		if (!closed)
			return tool_call_fail(p, call, "<arg_key> is not closed");
		size_t next = str_find(body, str_of("<arg_key>"), at),
		       opened = str_find(body, str_of("<arg_value>"), at);
		if (opened == SIZE_MAX || opened > next)
			return tool_call_fail(p, call, "argument \"%.*s\" has no <arg_value>", STR_ARG(key));
		next_tagged(body, &at, "<arg_value>", "</arg_value>", &raw, &value, &closed);
		if (!closed)
			call->leniencies |= TOOL_UNCLOSED;
		buf_append_text(json, json->length > 1 ? ", " : "");
		json_write_string(key, false, json);
		buf_append_text(json, ": ");
		append_value(call, function, key, value, json);
	}
	buf_append_char(json, '}');
	return buf_check(json, p->e);
}

/* "name", then maybe a line feed, then the arguments. */
static int parse_glm_call(struct tool_parser *p, struct tool_call *call, struct str inside)
{
	struct buf json = {0};
	inside = utf8_strip(inside);
	size_t line = str_find(inside, str_of("\n"), 0), key = str_find(inside, str_of("<arg_key>"), 0);
	size_t end = line < key ? line : key;
	call->name = utf8_strip(str_part(inside, 0, end == SIZE_MAX ? inside.length : end));
	if (call->name.length == 0)
		return tool_call_fail(p, call, "no name");
	int status = append_arguments(p, call, inside, &json);
	if (status == 0 && !call->error)
		status = tool_call_json(p, call, buf_str(&json), &call->arguments);
	buf_free(&json);
	return status;
}

int tool_parse_glm(struct tool_parser *p)
{
	struct str inside;
	struct tool_call *call;
	size_t at = 0;
	int found;
	while ((found = next_call(p, &at, &call, &inside)) > 0)
		TRY(parse_glm_call(p, call, inside));
	return found;
}
