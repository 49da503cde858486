/* The decoder chain of tokenizer.json: from the spellings of tokens back to text. */
#ifndef ASSAY_ENGINE_TEXT_TOKEN_DECODER_H
#define ASSAY_ENGINE_TEXT_TOKEN_DECODER_H

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/json_strict.h"
#include "engine/base/str.h"

struct token_decoder;

/* From the value of "decoder". null or NULL: tokens are joined with spaces. */
int token_decoder_new(const struct json *spec, struct token_decoder **out, struct error *e);
void token_decoder_delete(struct token_decoder *d);

/* The spellings of a run of tokens, one after the other. Starts zeroed. */
struct spellings {
	struct buf text;
	size_t *ends; /* [count] */
	size_t count, capacity;
	bool failed; /* out of memory */
};

void spellings_add(struct spellings *s, struct str token);
void spellings_free(struct spellings *s);

/* Appends the text of all tokens. *tokens is used up. */
void token_decoder_text(const struct token_decoder *d, struct spellings *tokens, struct buf *out);

/* Appends the bytes of one token, whatever stands beside it: parts that look at its neighbours (Strip, the first
 * mark of Metaspace) leave it as it is, and bytes that are no UTF-8 yet stay. */
void token_decoder_bytes(const struct token_decoder *d, struct str token, struct buf *out);

#endif
