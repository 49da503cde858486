#include "evals/generate_chat.h"

#include <stdlib.h>

#include "engine/base/file.h"
#include "evals/chat_date.h"
#include "evals/model_path.h"

static int tools_open(struct generate_chat *c, const char *path, struct error *e)
{
	struct buf text = {0};
	int status = file_read(path, &text, e);
	if (status == 0)
		status = json_parse(buf_str(&text), path, JSON_LAST_KEY_WINS, &c->tools, e);
	if (status == 0 && !json_is(json_root(c->tools), JSON_ARRAY))
		status = error_set(e, ERR_INPUT, "%s holds %s, expected an array of tools", path,
			json_type_name(json_root(c->tools)));
	buf_free(&text);
	return status;
}

int generate_chat_open(struct generate_chat *c, const struct options *o, struct error *e)
{
	char *model;
	*c = (struct generate_chat){0};
	if (!o->chat && (o->tools || o->template || o->date))
		return error_set(e, ERR_USAGE, "--%s: expected --chat with it",
			o->tools              ? "tools"
				: o->template ? "template"
					      : "date");
	if (!o->chat)
		return 0;
	TRY(chat_date_parse(o->date, &c->now, e));
	TRY(model_path(o, &model, e));
	int status = engine_template_open(model, o->template, &c->template, e);
	if (status == 0 && o->tools)
		status = tools_open(c, o->tools, e);
	free(model);
	return status;
}

void generate_chat_close(struct generate_chat *c)
{
	engine_template_close(c->template);
	json_free(c->tools);
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
