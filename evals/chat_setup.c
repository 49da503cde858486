#include "evals/chat_setup.h"

#include "evals/chat_date.h"

bool chat_is_multiturn(const struct options *o)
{
	return !o->multiturn || strcmp(o->multiturn, "true") == 0;
}

int chat_options_check(const struct options *o, struct error *e)
{
	if (o->multiturn && !o->apply_chat_template)
		return error_set(e, ERR_USAGE, "--fewshot-as-multiturn: expected --apply-chat-template with it");
	return 0;
}

int chat_setup_open(struct chat_setup *s, const struct options *o, const char *model, struct error *e)
{
	*s = (struct chat_setup){0};
	TRY(chat_date_parse(o->date, &s->now, e));
	if (engine_template_open(model, o->template, &s->conversations, &s->why) == 0)
		s->tool_format = tool_format_of_template(engine_template_source(s->conversations, true));
	else if (o->template || s->why.code == ERR_MEMORY)
		return error_set(e, s->why.code, "%s", s->why.message);
	return o->tool_format ? tool_format_parse(o->tool_format, &s->tool_format, e) : 0;
}

void chat_setup_close(struct chat_setup *s)
{
	engine_template_close(s->conversations);
	*s = (struct chat_setup){0};
}
