/* Tool calls in a model's own format, read from the text that it generated (special tokens kept), as servers read
 * them. Where servers are lenient so is the parser, and each leniency is noted. Formats: MODELS.md's model cards;
 * Hermes and Qwen <tool_call>{json}</tool_call>, Llama 3 {"name", "parameters"} maybe after <|python_tag|>, GLM
 * <tool_call>name<arg_key>..</arg_key><arg_value>..</arg_value></tool_call>, Kimi <|tool_calls_section_begin|>. The last
 * one, plain JSON, is no model's own: it reads Hermes's calls also where their marks are missing, in fenced blocks or
 * alone, for models that forget them. */
#ifndef ASSAY_ENGINE_TEXT_TOOL_CALL_H
#define ASSAY_ENGINE_TEXT_TOOL_CALL_H

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/json_strict.h"
#include "engine/base/str.h"

enum tool_format {
	TOOL_FORMAT_NONE,
	TOOL_FORMAT_HERMES,
	TOOL_FORMAT_LLAMA3,
	TOOL_FORMAT_GLM,
	TOOL_FORMAT_KIMI,
	TOOL_FORMAT_JSON,
};

/* "hermes", "llama3", "glm", "kimi", "json"; an unknown name is ERR_USAGE with those. */
int tool_format_parse(const char *name, enum tool_format *out, struct error *e);
const char *tool_format_name(enum tool_format format); /* "none" for TOOL_FORMAT_NONE */

/* The format that a chat template asks the model for; TOOL_FORMAT_NONE when it shows none of them. */
enum tool_format tool_format_of_template(struct str template);

/* What was let pass, one bit each. */
enum tool_leniency {
	TOOL_UNCLOSED = 1 << 0,          /* the end mark is missing */
	TOOL_ARGUMENTS_AS_TEXT = 1 << 1, /* a string that holds the JSON of the arguments */
	TOOL_OTHER_KEY = 1 << 2,         /* Llama: "arguments" for "parameters"; plain JSON: the reverse */
	TOOL_PYTHON_CONSTANTS = 1 << 3,  /* NaN, Infinity: Python's json.loads takes them, JSON does not have them */
	TOOL_VALUE_AS_TEXT = 1 << 4,     /* GLM: a value that is no JSON was taken as text */
	TOOL_PYTHON_LITERAL = 1 << 5,    /* GLM: True, False, None */
	TOOL_ID_WITHOUT_PREFIX = 1 << 6, /* Kimi: "NAME:0" for "functions.NAME:0" */
	TOOL_ID_WITHOUT_INDEX = 1 << 7,  /* Kimi: "functions.NAME" */
	TOOL_NO_SECTION = 1 << 8,        /* Kimi: calls outside of a section */
	TOOL_TEXT_BEHIND = 1 << 9,       /* Llama: text behind the last call */
	TOOL_UNMARKED = 1 << 10,         /* plain JSON: without <tool_call> */
};
/* Appends the names of the bits, joined by ", ". */
void tool_leniency_append(unsigned leniencies, struct buf *out);

struct tool_call {
	struct str raw;               /* as written, marks included; borrowed from the text */
	struct str name;              /* empty when none could be read */
	struct str id;                /* Kimi's "functions.NAME:0"; else empty */
	const struct json *arguments; /* as decoded (JSON_PYTHON_CONSTANTS), most often an object; NULL: see error */
	unsigned leniencies;
	char *error; /* why it is no call that can be made; NULL: it is one */
	struct json_document *documents[2];
};

struct tool_calls {
	struct tool_call *items; /* [count] */
	size_t count, capacity;
	struct str content;   /* the text before the first call, without its reasoning; borrowed */
	struct str reasoning; /* up to </think>; borrowed */
};

/* Parses text, which must outlive *out. tools: the array offered ({"type": "function", "function": {..}} or the bare
 * functions), which decides how GLM's values are typed; NULL: none. Text in which no call is begun gives none. Fails
 * only for want of memory. */
int tool_calls_parse(
	enum tool_format format, struct str text, const struct json *tools, struct tool_calls *out, struct error *e);
void tool_calls_free(struct tool_calls *calls);

/* The function of that name among the tools, or NULL. */
const struct json *tool_function_find(const struct json *tools, struct str name);

#endif
