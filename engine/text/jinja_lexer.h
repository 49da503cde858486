/* A template's text as tokens, split as Jinja does it with trim_blocks and lstrip_blocks on. */
#ifndef ASSAY_ENGINE_TEXT_JINJA_LEXER_H
#define ASSAY_ENGINE_TEXT_JINJA_LEXER_H

#include "engine/base/error.h"
#include "engine/base/str.h"

enum jinja_token_type {
	JINJA_DATA, /* text between tags, white space trimmed as the tags ask */
	JINJA_VARIABLE_BEGIN,
	JINJA_VARIABLE_END,
	JINJA_BLOCK_BEGIN,
	JINJA_BLOCK_END,
	JINJA_NAME,
	JINJA_STRING, /* without its quotes, escapes as written */
	JINJA_INTEGER,
	JINJA_FLOAT,
	JINJA_OPERATOR,
	JINJA_END, /* the last token */
};

struct jinja_token {
	enum jinja_token_type type;
	int line;        /* from 1 */
	struct str text; /* borrowed from the source */
};

struct jinja_tokens {
	struct jinja_token *items; /* owned */
	size_t count, capacity;
};

/* source: line feeds only ("\n"), the file's last one gone. name stands before ":LINE: " in errors. */
int jinja_lex(struct str source, const char *name, struct jinja_tokens *out, struct error *e);
void jinja_tokens_free(struct jinja_tokens *t); /* zeroes *t */

#endif
