#include "evals/generate_chat.h"

#include <stdlib.h>

#include "engine/base/file.h"
#include "evals/chat_date.h"
#include "evals/model_path.h"
#include "evals/tool_verdict.h"

static int tools_open(struct generate_chat *c, const char *path, struct error *e)
{
	struct buf text = {0};
	int status = file_read(path, &text, e);
	if (status == 0)
		status = json_parse(buf_str(&text), path, JSON_LAST_KEY_WINS, &c->tools, e);
	if (status == 0 && !json_is(json_root(c->tools), JSON_ARRAY))
		status = error_set(e, ERR_INPUT, "%s holds %s, expected an array of tools", path,
			json_type_name(json_root(c->tools)));
	if (status == 0 && tools_check(json_root(c->tools), e) < 0)
		status = error_prefix(e, "%s", path);
	buf_free(&text);
	return status;
}

int generate_chat_open(struct generate_chat *c, const struct options *o, struct error *e)
{
	char *model;
	*c = (struct generate_chat){0};
	if (!o->chat && (o->tools || o->template || o->date || o->tool_format))
		return error_set(e, ERR_USAGE, "--%s: expected --chat with it",
			o->tools                 ? "tools"
				: o->template    ? "template"
				: o->tool_format ? "tool-format"
						 : "date");
	if (!o->chat)
		return 0;
	TRY(chat_date_parse(o->date, &c->now, e));
	TRY(model_path(o, &model, e));
	int status = engine_template_open(model, o->template, &c->template, e);
	if (status == 0)
		c->tool_format = tool_format_of_template(engine_template_source(c->template, true));
	if (status == 0 && o->tools)
		status = tools_open(c, o->tools, e);
	if (status == 0 && o->tool_format)
		status = tool_format_parse(o->tool_format, &c->tool_format, e);
	free(model);
	return status;
}

void generate_chat_close(struct generate_chat *c)
{
	engine_template_close(c->template);
	json_free(c->tools);
	for (size_t i = 0; i < c->n_offered; i++)
		json_free(c->offered[i]);
	free(c->offered);
	*c = (struct generate_chat){0};
}

static int user_message(struct str prompt, struct json_document **out, struct error *e)
{
	struct buf text = {0};
	buf_append_text(&text, "[{\"role\": \"user\", \"content\": ");
	json_write_string(prompt, false, &text);
	buf_append_text(&text, "}]");
	int status = buf_check(&text, e);
	if (status == 0)
		status = json_parse(buf_str(&text), "the prompt", JSON_LAST_KEY_WINS, out, e);
	buf_free(&text);
	return status;
}

int generate_chat_render(
	const struct generate_chat *c, const struct json *line, struct str prompt, struct buf *out, struct error *e)
{
	struct json_document *messages = NULL;
	struct engine_chat chat = {.messages = json_get(line, "messages"),
		.tools = json_get(line, "tools"),
		.variables = line,
		.add_generation_prompt = true,
		.now = &c->now};
	if (json_is(chat.tools, JSON_ARRAY))
		TRY(tools_check(chat.tools, e));
	if (!chat.messages)
		TRY(user_message(prompt, &messages, e));
	if (messages)
		chat.messages = json_root(messages);
	if (!chat.tools && c->tools)
		chat.tools = json_root(c->tools);
	int status = engine_template_render(c->template, &chat, NULL, out, e);
	json_free(messages);
	return status;
}

/* ---- Calls ---- */

/* A document of its own: the line is gone when the answer comes. */
static int tools_copy(const struct json *tools, struct json_document **out, struct error *e)
{
	struct buf text = {0};
	json_dump_python(tools, -1, false, &text);
	int status = buf_check(&text, e);
	if (status == 0)
		status = json_parse(buf_str(&text), "tools", JSON_PYTHON_CONSTANTS, out, e);
	buf_free(&text);
	return status;
}

int generate_chat_offer(struct generate_chat *c, const struct json *line, struct error *e)
{
	const struct json *tools = json_get(line, "tools");
	if (!tools && c->tools)
		tools = json_root(c->tools);
	if (c->n_offered == c->capacity) {
		size_t capacity = c->capacity ? 2 * c->capacity : 64;
		struct json_document **grown = reallocarray(c->offered, capacity, sizeof(struct json_document *));
		if (!grown)
			return error_set(e, ERR_MEMORY, "out of memory for %zu questions", capacity);
		c->offered = grown;
		c->capacity = capacity;
	}
	struct json_document **offered = &c->offered[c->n_offered++];
	*offered = NULL;
	return c->template && json_is(tools, JSON_ARRAY) ? tools_copy(tools, offered, e) : 0;
}

/* valid below 0: a tool's schema cannot be judged, and why says so. */
static void append_calls(const struct tool_calls *calls, int valid, const struct error *why, struct buf *out)
{
	struct buf leniencies = {0};
	tool_calls_leniencies(calls, &leniencies);
	buf_append_text(out, ", \"tool_calls\": ");
	tool_calls_append(calls, out);
	buf_printf(out, ", \"tool_calls_valid\": %s, \"tool_leniencies\": ",
		calls->count == 0 || valid < 0 ? "null"
			: valid                ? "true"
					       : "false");
	json_write_string(buf_str(&leniencies), false, out);
	if (valid < 0) {
		buf_append_text(out, ", \"tool_error\": ");
		json_write_string(str_of(why->message), false, out);
	}
	out->failed |= leniencies.failed;
	buf_free(&leniencies);
}

int generate_chat_calls(const struct generate_chat *c, size_t i, struct str text, struct buf *out, struct error *e)
{
	struct tool_calls calls;
	struct buf reason = {0};
	struct error why = {0};
	if (!c->offered[i])
		return 0;
	if (c->tool_format == TOOL_FORMAT_NONE) {
		buf_append_text(out, ", \"tool_calls\": null, \"tool_calls_valid\": null, \"tool_leniencies\": null");
		return 0;
	}
	const struct json *tools = json_root(c->offered[i]);
	TRY(tool_calls_parse(c->tool_format, text, tools, &calls, e));
	int valid = tool_calls_valid(&calls, tools, &reason, &why);
	append_calls(&calls, valid, &why, out);
	buf_free(&reason);
	tool_calls_free(&calls);
	return 0;
}
