/* The pre-tokenizer chain of tokenizer.json: cuts the text into the pieces that merges may not cross. */
#ifndef ASSAY_ENGINE_TEXT_PRETOKENIZE_H
#define ASSAY_ENGINE_TEXT_PRETOKENIZE_H

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/json_strict.h"
#include "engine/text/pieces.h"

struct pretokenizer;
struct pattern_scratch;

/* From the value of "pre_tokenizer"; null, an empty Sequence or NULL give *out == NULL: the text stays whole. */
int pretokenizer_new(const struct json *spec, struct pretokenizer **out, struct error *e);
void pretokenizer_delete(struct pretokenizer *p);

/* Working memory; starts zeroed, with pattern set. */
struct pretokenize_scratch {
	struct pattern_scratch *pattern; /* borrowed */
	struct pieces spare;
	struct buf texts[2];
	int next_text; /* the one that holds nothing needed */
};

void pretokenize_scratch_free(struct pretokenize_scratch *s);

/* Cuts the text pieces of *pieces further. Their text may then lie in the scratch, until its next use. */
int pretokenizer_run(
	const struct pretokenizer *p, struct pretokenize_scratch *s, struct pieces *pieces, struct error *e);

#endif
