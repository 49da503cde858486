/* Shared by the parsers of the formats. */
#ifndef ASSAY_ENGINE_TEXT_TOOL_CALL_PARSER_H
#define ASSAY_ENGINE_TEXT_TOOL_CALL_PARSER_H

#include "engine/text/tool_call.h"

struct tool_parser {
	struct str text; /* without the reasoning */
	const struct json *tools;
	struct tool_calls *calls;
	struct error *e;
};

/* Formats: append the calls of p->text; a negative status only for want of memory. */
int tool_parse_hermes(struct tool_parser *p);
int tool_parse_glm(struct tool_parser *p);
int tool_parse_llama3(struct tool_parser *p);
int tool_parse_kimi(struct tool_parser *p);
int tool_parse_json(struct tool_parser *p);

/* A new call, NULL when memory is out. The first one ends the content where it begins. */
struct tool_call *tool_call_new(struct tool_parser *p, struct str raw);

/* Notes why it is no call; the first reason stays. Returns 0, or ERR_MEMORY. */
int tool_call_fail(struct tool_parser *p, struct tool_call *call, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Decodes JSON into one of the call's documents; *out is NULL when it is none, and the call fails. */
int tool_call_json(struct tool_parser *p, struct tool_call *call, struct str text, const struct json **out);

/* Sets the arguments, which may be JSON in a string. */
int tool_call_arguments(struct tool_parser *p, struct tool_call *call, const struct json *arguments);

/* {"name": .., key: ..}; other_key, where not NULL, is taken for key, and noted. */
int tool_call_object(
	struct tool_parser *p, struct tool_call *call, struct str text, const char *key, const char *other_key);

static inline struct str str_from(struct str s, size_t from)
{
	return (struct str){s.data + from, s.length - from};
}

static inline struct str str_part(struct str s, size_t from, size_t to)
{
	return (struct str){s.data + from, to - from};
}

#endif
