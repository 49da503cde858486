/* What a model brings for conversations: its chat template, the date that this is told, its format of tool calls. */
#ifndef ASSAY_EVALS_CHAT_SETUP_H
#define ASSAY_EVALS_CHAT_SETUP_H

#include <time.h>

#include "engine/engine.h"
#include "evals/cli.h"

struct chat_setup {
	struct engine_template *conversations; /* NULL: why says what is missing */
	struct error why;
	enum tool_format tool_format; /* of --tool-format, else as the template shows; may be TOOL_FORMAT_NONE */
	struct tm now;
};

/* Whether shots are turns of their own: unless --fewshot-as-multiturn says false. */
bool chat_is_multiturn(const struct options *o);
/* ERR_USAGE for --fewshot-as-multiturn without --apply-chat-template. */
int chat_options_check(const struct options *o, struct error *e);

/* A model without a usable template is no error until --template asks for one; a bad --date or --tool-format is. */
int chat_setup_open(struct chat_setup *s, const struct options *o, const char *model, struct error *e);
void chat_setup_close(struct chat_setup *s);

#endif
