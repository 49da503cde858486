/* A context and its continuation as the ids that a log-likelihood is taken of, by the rules of
 * lm-evaluation-harness. */
#ifndef ASSAY_ENGINE_TEXT_ENCODE_PAIR_H
#define ASSAY_ENGINE_TEXT_ENCODE_PAIR_H

#include "engine/text/tokenizer.h"

/* Appends the ids of a text; specials are not added to one that begins with the text of the prefix token (BOS,
 * else EOS), as a rendered chat template does. */
int encode_once(const struct tokenizer *t, struct str text, enum tokenizer_specials specials, struct token_ids *ids,
	struct error *e);

/* Appends the ids of the context, then those of the continuation, to *whole; *n_context: how many are the
 * context's. White space (Python's) at the end of the context counts as the continuation's. The continuation is
 * what the two encoded as one text have beyond the length of the context encoded alone. A context without ids
 * becomes the prefix token (BOS, else EOS), unless the continuation begins with it already: ERR_INPUT when the
 * tokenizer has neither. Special tokens are added as specials says, but not to a text that begins with the prefix
 * token's text. */
int encode_pair(const struct tokenizer *t, struct str context, struct str continuation,
	enum tokenizer_specials specials, struct token_ids *whole, size_t *n_context, struct error *e);

#endif
