/* Calls marked by special tokens: Llama 3's JSON, maybe behind <|python_tag|>, and Kimi's sections; plain JSON. */
#include <stdint.h>

#include "engine/base/utf8.h"
#include "engine/text/tool_call_parser.h"

/* ---- Llama 3 ---- */

/* The length of the object that begins at text's first byte, '{': up to the brace that closes it, as far as braces
 * outside of strings tell; the whole text when none does. */
static size_t object_length(struct str text)
{
	int depth = 0;
	bool in_string = false;
	for (size_t i = 0; i < text.length; i++) {
		char c = text.data[i];
		if (in_string && c == '\\')
			i++;
		else if (c == '"')
			in_string = !in_string;
		else if (!in_string && c == '{')
			depth++;
		else if (!in_string && c == '}' && --depth == 0)
			return i + 1;
	}
	return text.length;
}

/* Passes white space and the ';' between calls. */
static size_t skip_between(struct str text, size_t at)
{
	while (at < text.length && (strchr(" \t\r\n;", text.data[at]) && text.data[at]))
		at++;
	return at;
}

/* The object that stands there and means to be a call; empty when what stands there is the answer's own. */
static struct str call_at(struct str text, size_t at)
{
	struct str rest = str_from(text, at), object = {rest.data, 0};
	if (rest.length > 0 && rest.data[0] == '{')
		object.length = object_length(rest);
	return str_find(object, str_of("\"name\""), 0) != SIZE_MAX ? object : (struct str){rest.data, 0};
}

int tool_parse_llama3(struct tool_parser *p)
{
	static const char tag[] = "<|python_tag|>";
	const size_t mark = str_find(p->text, str_of(tag), 0);
	const bool tagged = mark != SIZE_MAX;
	size_t at = skip_between(p->text, tagged ? mark + sizeof(tag) - 1 : 0);
	struct str raw = call_at(p->text, at);
	if (tagged && raw.length == 0) {
		struct tool_call *call = tool_call_new(p, str_from(p->text, mark));
		return call ? tool_call_fail(p, call, "no JSON object behind <|python_tag|>") : ERR_MEMORY;
	}
	while (raw.length > 0) {
		struct tool_call *call = tool_call_new(p, raw);
		if (!call)
			return ERR_MEMORY;
		TRY(tool_call_object(p, call, raw, "parameters", "arguments"));
		at = skip_between(p->text, at + raw.length);
		raw = call_at(p->text, at);
		if (raw.length == 0 && at < p->text.length)
			call->leniencies |= TOOL_TEXT_BEHIND;
	}
	if (tagged)
		p->calls->content = utf8_strip(str_part(p->text, 0, mark));
	return 0;
}

/* ---- Plain JSON ---- */

/* Passes what may stand between objects, brackets of an array included. */
static size_t skip_marks(struct str text, size_t at)
{
	while (at < text.length && text.data[at] && strchr(" \t\r\n;,[]", text.data[at]))
		at++;
	return at;
}

static int parse_objects(struct tool_parser *p, struct str text)
{
	struct str raw;
	for (size_t at = 0; (raw = call_at(text, at = skip_marks(text, at))).length > 0; at += raw.length) {
		struct tool_call *call = tool_call_new(p, raw);
		if (!call)
			return ERR_MEMORY;
		call->leniencies |= TOOL_UNMARKED;
		TRY(tool_call_object(p, call, raw, "arguments", "parameters"));
	}
	return 0;
}

/* The next fenced block, without the word behind its first fence; one that is not closed goes to the end. */
static bool next_block(struct str text, size_t *at, struct str *block)
{
	static const char fence[] = "```";
	size_t open = str_find(text, str_of(fence), *at);
	size_t line = open == SIZE_MAX ? open : str_find(text, str_of("\n"), open);
	if (line == SIZE_MAX)
		return false;
	size_t close = str_find(text, str_of(fence), line);
	*block = str_part(text, line + 1, close == SIZE_MAX ? text.length : close);
	*at = close == SIZE_MAX ? text.length : close + sizeof(fence) - 1;
	return true;
}

int tool_parse_json(struct tool_parser *p)
{
	struct str block;
	size_t at = 0;
	if (str_find(p->text, str_of("<tool_call>"), 0) != SIZE_MAX)
		return tool_parse_hermes(p);
	bool fenced = false;
	while (next_block(p->text, &at, &block)) {
		fenced = true;
		TRY(parse_objects(p, block));
	}
	if (fenced && p->calls->count > 0)
		p->calls->content = utf8_strip(str_part(p->text, 0, str_find(p->text, str_of("```"), 0)));
	return fenced ? 0 : parse_objects(p, p->text);
}

/* ---- Kimi ---- */

static const char section_begin[] = "<|tool_calls_section_begin|>", section_end[] = "<|tool_calls_section_end|>",
		  call_begin[] = "<|tool_call_begin|>", call_end[] = "<|tool_call_end|>",
		  argument_begin[] = "<|tool_call_argument_begin|>";

/* "functions.NAME:INDEX" to its name, and what is missing. */
static void read_id(struct tool_call *call)
{
	static const char prefix[] = "functions.";
	struct str name = call->id;
	if (str_starts_with(name, str_of(prefix)))
		name = str_from(name, sizeof(prefix) - 1);
	else
		call->leniencies |= TOOL_ID_WITHOUT_PREFIX;
	size_t digits = name.length;
	while (digits > 0 && name.data[digits - 1] >= '0' && name.data[digits - 1] <= '9')
		digits--;
	if (digits < name.length && digits > 0 && name.data[digits - 1] == ':')
		name.length = digits - 1;
	else
		call->leniencies |= TOOL_ID_WITHOUT_INDEX;
	call->name = name;
}

/* id, argument mark, JSON. */
static int parse_kimi_call(struct tool_parser *p, struct tool_call *call, struct str inside)
{
	const struct json *arguments;
	size_t mark = str_find(inside, str_of(argument_begin), 0);
	call->id = utf8_strip(str_part(inside, 0, mark == SIZE_MAX ? inside.length : mark));
	read_id(call);
	if (call->name.length == 0)
		TRY(tool_call_fail(p, call, "no name"));
	if (mark == SIZE_MAX)
		return tool_call_fail(p, call, "no %s", argument_begin);
	TRY(tool_call_json(p, call, utf8_strip(str_from(inside, mark + sizeof(argument_begin) - 1)), &arguments));
	return arguments ? tool_call_arguments(p, call, arguments) : 0;
}

static size_t earlier(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* A mark and where it was last found, so that no part of the text is searched twice for it. */
struct mark {
	const char *text;
	size_t found;
	bool searched;
};

static size_t mark_find(struct mark *m, struct str text, size_t from)
{
	if (!m->searched || m->found < from)
		m->found = str_find(text, str_of(m->text), from);
	m->searched = true;
	return m->found;
}

int tool_parse_kimi(struct tool_parser *p)
{
	struct mark begin = {.text = call_begin}, end = {.text = call_end}, close = {.text = section_end};
	const size_t section = str_find(p->text, str_of(section_begin), 0);
	for (size_t at = 0; (at = mark_find(&begin, p->text, at)) != SIZE_MAX;) {
		size_t first = at + sizeof(call_begin) - 1;
		/* A call that is not closed ends where the next mark begins. */
		size_t other = earlier(mark_find(&begin, p->text, first), mark_find(&close, p->text, first));
		size_t last = earlier(mark_find(&end, p->text, first), earlier(other, p->text.length));
		const bool closed = last == end.found, is_first = p->calls->count == 0;
		size_t after = closed ? last + sizeof(call_end) - 1 : last;
		struct tool_call *call = tool_call_new(p, str_part(p->text, at, after));
		if (!call)
			return ERR_MEMORY;
		call->leniencies |= (closed ? 0u : TOOL_UNCLOSED) | (section < at ? 0u : TOOL_NO_SECTION);
		if (is_first && section < at)
			p->calls->content = utf8_strip(str_part(p->text, 0, section));
		TRY(parse_kimi_call(p, call, str_part(p->text, first, last)));
		at = after;
	}
	return 0;
}
