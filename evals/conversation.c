/* Questions that are conversations, written by the model's chat template. */
#include "evals/suite_type.h"

static int check_template(const struct suite_options *o, bool has_tools, struct error *e)
{
	if (!o->conversations)
		return error_set(e, ERR_USAGE, "a conversation needs the model's chat template: %s",
			o->no_conversations && o->no_conversations->code ? o->no_conversations->message
									 : "no model is named");
	if (has_tools && o->tool_format == TOOL_FORMAT_NONE)
		return error_set(e, ERR_USAGE,
			"the model's chat template shows no known format of tool calls: expected --tool-format hermes, "
			"llama3, glm "
			"or kimi");
	return 0;
}

int conversation_append(struct conversation *c, const struct json *messages, struct error *e)
{
	const struct suite_options *o = c->options;
	TRY(check_template(o, c->tools != NULL, e));
	const struct engine_chat chat = {.messages = messages,
		.tools = c->tools ? json_root(c->tools) : NULL,
		.add_generation_prompt = true,
		.now = o->now};
	return engine_template_render(o->conversations, &chat, NULL, c->out, e);
}
