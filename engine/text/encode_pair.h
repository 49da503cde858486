/* The ids of a context and its continuation, as lm-evaluation-harness makes them (EVALS section 1.6). */
#ifndef ASSAY_ENGINE_TEXT_ENCODE_PAIR_H
#define ASSAY_ENGINE_TEXT_ENCODE_PAIR_H

#include "engine/text/tokenizer.h"

/* White space (Python's) at the end of the context moves to the front of the continuation; both are encoded together and cut by the
 * number of ids of the context alone. An empty context is the prefix token (BOS, else EOS), unless the continuation begins with it.
 * A context that begins with the prefix token's text gets no special tokens of its own. Appends to *whole; the first *n_context of
 * the appended ids are the context's. */
int encode_pair(const struct tokenizer *t, struct str context, struct str continuation, enum tokenizer_specials specials,
		struct token_ids *whole, size_t *n_context, struct error *e);

/* The token that stands for an empty context: BOS, else EOS, else -1. */
int32_t encode_prefix_token(const struct tokenizer *t);

/* specials, or TOKENIZER_PLAIN where text begins with the prefix token's own text (a rendered chat template): no token twice. */
enum tokenizer_specials encode_specials(const struct tokenizer *t, struct str text, enum tokenizer_specials specials);

#endif
