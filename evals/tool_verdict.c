#include "evals/tool_verdict.h"

#include <stdlib.h>

#include "datasets/records.h"
#include "engine/base/file.h"
#include "evals/json_schema.h"

/* ---- Tools ---- */

static int tool_check(const struct json *tool, size_t i, struct error *e)
{
	const struct json *inner = json_get(tool, "function"), *function = inner ? inner : tool;
	const struct json *name = json_get(function, "name"), *parameters = json_get(function, "parameters");
	if (!json_is(function, JSON_OBJECT))
		return error_set(e, ERR_INPUT, "tools[%zu]: %s is %s, expected an object", i,
			inner ? "\"function\"" : "it", json_type_name(function));
	if (!json_is(name, JSON_STRING) || name->text.length == 0)
		return error_set(e, ERR_INPUT, "tools[%zu]: \"name\" is %s, expected a text that is not empty", i,
			json_is(name, JSON_STRING) ? "empty" : json_type_name(name));
	if (parameters && !json_is(parameters, JSON_OBJECT) && !json_is(parameters, JSON_TRUE) &&
		!json_is(parameters, JSON_FALSE))
		return error_set(e, ERR_INPUT, "tools[%zu] (%.*s): \"parameters\" is %s, expected a JSON Schema", i,
			STR_ARG(name->text), json_type_name(parameters));
	return 0;
}

int tools_check(const struct json *tools, struct error *e)
{
	size_t i = 0;
	JSON_EACH (tool, tools)
		TRY(tool_check(tool, i++, e));
	return 0;
}

/* ---- Validity ---- */

/* The schemas of tools, compiled when they are first called: a text may hold many calls. */
struct schemas {
	struct compiled {
		const struct json *parameters;
		struct json_schema *schema;
	} * items;
	size_t count;
};

static void schemas_free(struct schemas *s)
{
	for (size_t i = 0; i < s->count; i++)
		json_schema_delete(s->items[i].schema);
	free(s->items);
}

static int schema_of(struct schemas *s, const struct json *parameters, struct json_schema **out, struct error *e)
{
	for (size_t i = 0; i < s->count; i++) {
		if (s->items[i].parameters == parameters) {
			*out = s->items[i].schema;
			return 0;
		}
	}
	struct compiled *grown = reallocarray(s->items, s->count + 1, sizeof(*grown));
	if (!grown)
		return error_set(e, ERR_MEMORY, "out of memory for %zu schemas", s->count + 1);
	s->items = grown;
	TRY(json_schema_new(parameters, out, e));
	grown[s->count++] = (struct compiled){parameters, *out};
	return 0;
}

/* A tool without "parameters" takes any. */
static int check_schema(struct schemas *schemas, const struct json *function, const struct tool_call *call,
	struct buf *why, struct error *e)
{
	const struct json *parameters = json_get(function, "parameters");
	struct json_schema *schema = NULL;
	struct buf reason = {0};
	if (!parameters)
		return 1;
	int result = schema_of(schemas, parameters, &schema, e);
	if (result == 0)
		result = json_schema_check(schema, call->arguments, &reason, e);
	if (result == 0)
		buf_printf(why, "%.*s: %s", STR_ARG(call->name), buf_text(&reason));
	if (result < 0)
		error_prefix(e, "tool %.*s", STR_ARG(call->name));
	buf_free(&reason);
	return result;
}

static int call_valid(struct schemas *schemas, const struct tool_call *call, const struct json *tools, struct buf *why,
	struct error *e)
{
	const struct json *function = tool_function_find(tools, call->name);
	if (call->error) {
		buf_append_text(why, call->error);
		return 0;
	}
	if (call->leniencies & TOOL_PYTHON_CONSTANTS) {
		buf_printf(why, "%.*s: NaN or Infinity, which JSON does not have", STR_ARG(call->name));
		return 0;
	}
	if (!function) {
		buf_printf(why, "no tool is called \"%.*s\"", STR_ARG(call->name));
		return 0;
	}
	return check_schema(schemas, function, call, why, e);
}

int tool_calls_valid(const struct tool_calls *calls, const struct json *tools, struct buf *why, struct error *e)
{
	struct schemas schemas = {0};
	int result = 1;
	for (size_t i = 0; i < calls->count && result == 1; i++)
		result = call_valid(&schemas, &calls->items[i], tools, why, e);
	schemas_free(&schemas);
	return result;
}

/* ---- Words ---- */

/* Arguments as JSON; those that hold what JSON has no word for (NaN, 1e400) as text in Python's writing. */
static void append_arguments(const struct json *arguments, struct buf *out)
{
	struct json_document *document = NULL;
	struct buf text = {0};
	json_dump_python(arguments, -1, false, &text);
	if (json_parse(buf_str(&text), NULL, JSON_LAST_KEY_WINS, &document, NULL) == 0)
		buf_append_str(out, buf_str(&text));
	else
		json_write_string(buf_str(&text), false, out);
	out->failed |= text.failed;
	json_free(document);
	buf_free(&text);
}

void tool_calls_append(const struct tool_calls *calls, struct buf *out)
{
	buf_append_char(out, '[');
	for (size_t i = 0; i < calls->count; i++) {
		const struct tool_call *call = &calls->items[i];
		buf_append_text(out, i ? ", {\"name\": " : "{\"name\": ");
		json_write_string(call->name, false, out);
		if (call->error) {
			buf_append_text(out, ", \"error\": ");
			json_write_string(str_of(call->error), false, out);
			buf_append_text(out, ", \"raw\": ");
			json_write_string(call->raw, false, out);
		} else {
			buf_append_text(out, ", \"arguments\": ");
			append_arguments(call->arguments, out);
		}
		buf_append_char(out, '}');
	}
	buf_append_char(out, ']');
}

void tool_calls_leniencies(const struct tool_calls *calls, struct buf *out)
{
	unsigned all = 0;
	for (size_t i = 0; i < calls->count; i++)
		all |= calls->items[i].leniencies;
	tool_leniency_append(all, out);
}

/* ---- What is kept ---- */

int tool_calls_keep(const struct tool_calls *calls, struct buf *error_type, struct buf *invalid, struct item_score *out,
	struct error *e)
{
	static const char *const names[] = {"calls", "leniencies", "error_type", "invalid"};
	struct buf texts[] = {{0}, {0}, *error_type, *invalid};
	int status = 0;
	*error_type = *invalid = (struct buf){0};
	tool_calls_append(calls, &texts[0]);
	tool_calls_leniencies(calls, &texts[1]);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		out->filter[out->n_filters] = names[i];
		out->filtered[out->n_filters++] = texts[i];
		if (status == 0)
			status = buf_check(&texts[i], e);
	}
	return status;
}

/* ---- The command ---- */

static void append_member(struct buf *out, const char *name, struct str text)
{
	buf_printf(out, ", \"%s\": ", name);
	json_write_string(text, false, out);
}

static void append_line(const struct tool_calls *calls, int valid, const struct buf *why, struct buf *out)
{
	struct buf leniencies = {0};
	tool_calls_leniencies(calls, &leniencies);
	buf_append_text(out, "{\"calls\": ");
	tool_calls_append(calls, out);
	append_member(out, "content", calls->content);
	append_member(out, "leniencies", buf_str(&leniencies));
	buf_printf(out, ", \"valid\": %s", calls->count == 0 ? "null" : valid ? "true" : "false");
	if (!valid)
		append_member(out, "why", buf_str(why));
	buf_append_text(out, "}\n");
	out->failed |= leniencies.failed;
	buf_free(&leniencies);
}

static int read_format(const struct json *line, enum tool_format *format, struct error *e)
{
	const struct json *name = json_get(line, "format");
	if (json_is(name, JSON_STRING))
		return tool_format_parse(name->text.data, format, e);
	if (name || *format == TOOL_FORMAT_NONE)
		return error_set(e, ERR_INPUT,
			"\"format\" is %s, expected hermes, llama3, glm, kimi or json, here or in --tool-format",
			json_type_name(name));
	return 0;
}

static int rescore_line(const struct json *line, enum tool_format format, struct buf *out, struct error *e)
{
	const struct json *tools = json_get(line, "tools");
	struct tool_calls calls;
	struct str text;
	struct buf why = {0};
	struct error unjudged = {0};
	TRY(column_string(line, "text", &text, e));
	TRY(read_format(line, &format, e));
	if (tools && !json_is(tools, JSON_ARRAY))
		return error_set(e, ERR_INPUT, "\"tools\" is %s, expected array", json_type_name(tools));
	TRY(tool_calls_parse(format, text, tools, &calls, e));
	int valid = tool_calls_valid(&calls, tools, &why, &unjudged);
	if (valid >= 0) {
		append_line(&calls, valid, &why, out);
	} else {
		buf_append_text(out, "{\"error\": ");
		json_write_string(str_of(unjudged.message), false, out);
		buf_append_text(out, "}\n");
	}
	buf_free(&why);
	tool_calls_free(&calls);
	return 0;
}

int tool_calls_rescore(const char *path, enum tool_format format, struct buf *out, struct error *e)
{
	struct buf text = {0};
	struct str line;
	int status = 0;
	TRY_CLEANUP(status, file_read(path, &text, e));
	struct line_cursor cursor = {.text = buf_str(&text)};
	while (line_next(&cursor, &line)) {
		struct json_document *document = NULL;
		status = json_parse(line, NULL, JSON_LINE | JSON_LAST_KEY_WINS, &document, e);
		if (status == 0)
			status = rescore_line(json_root(document), format, out, e);
		json_free(document);
		if (status < 0)
			TRY_CLEANUP(status, error_prefix(e, "%s:%zu", input_name(path), cursor.line));
	}
	TRY_CLEANUP(status, buf_check(out, e));
cleanup:
	buf_free(&text);
	return status;
}
