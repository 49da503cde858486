/* The chat templates that a model brings, as text, and the special tokens that they may name. */
#ifndef ASSAY_ENGINE_TEXT_CHAT_SOURCES_H
#define ASSAY_ENGINE_TEXT_CHAT_SOURCES_H

#include "engine/base/error.h"
#include "engine/base/str.h"

enum { CHAT_TOKENS_MAX = 7 };

struct chat_source {
	char *name;  /* "default", "tool_use", ... ; owned */
	char *place; /* where it was read: stands in errors; owned */
	char *text;  /* owned, [length] and a NUL */
	size_t length;
};

struct chat_token {
	const char *role; /* "bos_token" */
	char *text;       /* owned */
};

struct chat_sources {
	struct chat_source *items; /* owned */
	size_t count;
	struct chat_token tokens[CHAT_TOKENS_MAX];
	size_t token_count;
};

/* Of a Hugging Face folder: chat_template.jinja and additional_chat_templates/NAME.jinja, else chat_template in
 * tokenizer_config.json (a text, or a list of names with texts); of a GGUF file: its keys. A model without a template
 * has none: count 0. */
int chat_sources_read(const char *model, struct chat_sources *out, struct error *e);
/* One file as the template "default", without tokens. */
int chat_sources_file(const char *path, struct chat_sources *out, struct error *e);
void chat_sources_free(struct chat_sources *s); /* zeroes *s */

/* NULL where there is none of that name. */
const struct chat_source *chat_sources_find(const struct chat_sources *s, const char *name);

#endif
