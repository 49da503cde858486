/* Prompts of `generate --chat`: conversations, put through the model's chat template. */
#ifndef ASSAY_EVALS_GENERATE_CHAT_H
#define ASSAY_EVALS_GENERATE_CHAT_H

#include "engine/engine.h"
#include "evals/cli.h"

struct generate_chat {
	struct engine_template *template; /* NULL: without --chat */
	struct json_document *tools;      /* of --tools, or NULL */
	struct tm now;
	enum tool_format tool_format; /* of --tool-format, else as the template shows */
	struct json_document *
		*offered; /* [n_offered] tools of each question in the order of asking; NULL: none; owned */
	size_t n_offered, capacity;
};

int generate_chat_open(struct generate_chat *c, const struct options *o, struct error *e);
void generate_chat_close(struct generate_chat *c);

/* Appends the conversation of a line {"messages", "tools"?, ...}, whose other members are variables of the template, or
 * (line NULL or without messages) of one user message that holds the prompt. */
int generate_chat_render(
	const struct generate_chat *c, const struct json *line, struct str prompt, struct buf *out, struct error *e);

/* Notes what tools the next question offers: those of its line, else of --tools. */
int generate_chat_offer(struct generate_chat *c, const struct json *line, struct error *e);

/* Appends, where question i offered tools, the members "tool_calls", "tool_calls_valid" and "tool_leniencies" of its
 * answer, whose text has its special tokens. All are null when the format is not known; "tool_error" says which schema
 * cannot be judged. */
int generate_chat_calls(const struct generate_chat *c, size_t i, struct str text, struct buf *out, struct error *e);

#endif
