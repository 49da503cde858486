#include "engine/text/tool_call.h"

#include <stdint.h>
#include <stdlib.h>

#include "engine/base/utf8.h"
#include "engine/text/tool_call_parser.h"

static const struct {
	const char *name;
	enum tool_format format;
} formats[] = {{"hermes", TOOL_FORMAT_HERMES}, {"llama3", TOOL_FORMAT_LLAMA3}, {"glm", TOOL_FORMAT_GLM},
	{"kimi", TOOL_FORMAT_KIMI}, {"json", TOOL_FORMAT_JSON}};

static const char *const leniency_names[] = {"unclosed", "arguments-as-text", "other-arguments-key", "python-constants",
	"value-as-text", "python-literal", "id-without-prefix", "id-without-index", "no-section", "text-behind",
	"unmarked"};

int tool_format_parse(const char *name, enum tool_format *out, struct error *e)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		if (strcmp(name, formats[i].name) == 0) {
			*out = formats[i].format;
			return 0;
		}
	}
	return error_set(e, ERR_USAGE, "tool format \"%s\": expected hermes, llama3, glm, kimi or json", name);
}

const char *tool_format_name(enum tool_format format)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		if (formats[i].format == format)
			return formats[i].name;
	}
	return "none";
}

enum tool_format tool_format_of_template(struct str template)
{
	/* In this order: GLM's template holds Hermes's mark, too. A template with Qwen3-Coder's <function= asks for XML
	 * inside of it, which is none of the formats. */
	static const struct {
		const char *mark;
		enum tool_format format;
	} marks[] = {{"<function=", TOOL_FORMAT_NONE}, {"<|tool_calls_section_begin|>", TOOL_FORMAT_KIMI},
		{"<arg_key>", TOOL_FORMAT_GLM}, {"<tool_call>", TOOL_FORMAT_HERMES},
		{"<|python_tag|>", TOOL_FORMAT_LLAMA3}};
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		if (str_find(template, str_of(marks[i].mark), 0) != SIZE_MAX)
			return marks[i].format;
	}
	return TOOL_FORMAT_NONE;
}

void tool_leniency_append(unsigned leniencies, struct buf *out)
{
	bool first = true;
	for (size_t i = 0; i < sizeof(leniency_names) / sizeof(leniency_names[0]); i++) {
		if (!(leniencies & 1u << i))
			continue;
		buf_printf(out, "%s%s", first ? "" : ", ", leniency_names[i]);
		first = false;
	}
}

const struct json *tool_function_find(const struct json *tools, struct str name)
{
	JSON_EACH (tool, tools) {
		const struct json *function = json_get(tool, "function");
		if (!function)
			function = tool;
		const struct json *known = json_get(function, "name");
		if (json_is(known, JSON_STRING) && str_equal(known->text, name))
			return function;
	}
	return NULL;
}

/* ---- What the formats share ---- */

struct tool_call *tool_call_new(struct tool_parser *p, struct str raw)
{
	struct tool_calls *calls = p->calls;
	if (calls->count == calls->capacity) {
		size_t capacity = calls->capacity ? 2 * calls->capacity : 4;
		struct tool_call *grown = realloc(calls->items, capacity * sizeof(*grown));
		if (!grown) {
			error_set(p->e, ERR_MEMORY, "out of memory for %zu tool calls", capacity);
			return NULL;
		}
		calls->items = grown;
		calls->capacity = capacity;
	}
	if (calls->count == 0)
		calls->content = utf8_strip(str_part(p->text, 0, (size_t)(raw.data - p->text.data)));
	struct tool_call *call = &calls->items[calls->count++];
	*call = (struct tool_call){.raw = raw};
	return call;
}

int tool_call_fail(struct tool_parser *p, struct tool_call *call, const char *format, ...)
{
	char text[256];
	if (call->error)
		return 0;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	call->error = strdup(text);
	return call->error ? 0 : error_set(p->e, ERR_MEMORY, "out of memory: a tool call");
}

int tool_call_json(struct tool_parser *p, struct tool_call *call, struct str text, const struct json **out)
{
	struct error why = {0};
	struct json_document **document = &call->documents[call->documents[0] != NULL];
	*out = NULL;
	int status = json_parse(text, NULL, JSON_LAST_KEY_WINS, document, &why);
	if (status == ERR_INPUT) {
		status = json_parse(text, NULL, JSON_PYTHON_CONSTANTS, document, NULL);
		call->leniencies |= status == 0 ? TOOL_PYTHON_CONSTANTS : 0u;
	}
	if (status == ERR_MEMORY)
		return error_set(p->e, ERR_MEMORY, "%s", why.message);
	if (status < 0)
		return tool_call_fail(p, call, "no JSON: %s", why.message);
	*out = json_root(*document);
	return 0;
}

int tool_call_arguments(struct tool_parser *p, struct tool_call *call, const struct json *arguments)
{
	if (json_is(arguments, JSON_STRING)) {
		call->leniencies |= TOOL_ARGUMENTS_AS_TEXT;
		TRY(tool_call_json(p, call, arguments->text, &arguments));
	}
	call->arguments = arguments;
	if (arguments && arguments->type != JSON_OBJECT)
		return tool_call_fail(p, call, "the arguments are %s, expected an object", json_type_name(arguments));
	return 0;
}

int tool_call_object(
	struct tool_parser *p, struct tool_call *call, struct str text, const char *key, const char *other_key)
{
	const struct json *object;
	TRY(tool_call_json(p, call, text, &object));
	if (!object)
		return 0;
	if (object->type != JSON_OBJECT)
		return tool_call_fail(p, call, "%s, expected an object", json_type_name(object));
	const struct json *name = json_get(object, "name"), *arguments = json_get(object, key);
	if (json_is(name, JSON_STRING))
		call->name = name->text;
	else
		TRY(tool_call_fail(p, call, "\"name\" is %s, expected a string", json_type_name(name)));
	if (!arguments && other_key && (arguments = json_get(object, other_key)))
		call->leniencies |= TOOL_OTHER_KEY;
	if (!arguments)
		return tool_call_fail(p, call, "no \"%s\"", key);
	return tool_call_arguments(p, call, arguments);
}

/* ---- The whole text ---- */

/* Takes what was thought off the text: up to the last </think>, all of it when <think> is left open. */
static void take_reasoning(struct str *text, struct str *reasoning)
{
	static const char end_mark[] = "</think>";
	size_t end = SIZE_MAX;
	for (size_t at = 0; (at = str_find(*text, str_of(end_mark), at)) != SIZE_MAX; at++)
		end = at;
	struct str stripped = utf8_strip(*text);
	if (end != SIZE_MAX) {
		end += sizeof(end_mark) - 1;
		*reasoning = str_part(*text, 0, end);
		*text = str_from(*text, end);
	} else if (str_starts_with(stripped, str_of("<think>"))) {
		*reasoning = *text;
		*text = str_from(*text, text->length);
	}
}

int tool_calls_parse(
	enum tool_format format, struct str text, const struct json *tools, struct tool_calls *out, struct error *e)
{
	static int (*const parsers[])(struct tool_parser *) = {[TOOL_FORMAT_HERMES] = tool_parse_hermes,
		[TOOL_FORMAT_LLAMA3] = tool_parse_llama3,
		[TOOL_FORMAT_GLM] = tool_parse_glm,
		[TOOL_FORMAT_KIMI] = tool_parse_kimi,
		[TOOL_FORMAT_JSON] = tool_parse_json};
	*out = (struct tool_calls){0};
	if (!text.data)
		text.data = "";
	struct tool_parser p = {.text = text, .tools = tools, .calls = out, .e = e};
	take_reasoning(&p.text, &out->reasoning);
	out->content = utf8_strip(p.text);
	if (format == TOOL_FORMAT_NONE)
		return 0;
	int status = parsers[format](&p);
	if (status < 0)
		tool_calls_free(out);
	return status;
}

void tool_calls_free(struct tool_calls *calls)
{
	for (size_t i = 0; i < calls->count; i++) {
		struct tool_call *call = &calls->items[i];
		free(call->error);
		json_free(call->documents[0]);
		json_free(call->documents[1]);
	}
	free(calls->items);
	*calls = (struct tool_calls){0};
}
