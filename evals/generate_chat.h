/* Prompts of `generate --chat`: conversations, put through the model's chat template. */
#ifndef ASSAY_EVALS_GENERATE_CHAT_H
#define ASSAY_EVALS_GENERATE_CHAT_H

#include "engine/engine.h"
#include "evals/cli.h"

struct generate_chat {
	struct engine_template *template; /* NULL: without --chat */
	struct json_document *tools;      /* of --tools, or NULL */
	struct tm now;
};

int generate_chat_open(struct generate_chat *c, const struct options *o, struct error *e);
void generate_chat_close(struct generate_chat *c);

/* Appends the conversation of a line {"messages", "tools"?, ...}, whose other members are variables of the template, or
 * (line NULL or without messages) of one user message that holds the prompt. */
int generate_chat_render(
	const struct generate_chat *c, const struct json *line, struct str prompt, struct buf *out, struct error *e);

#endif
