/* The post-processor of tokenizer.json: the ids that go before and behind a text. */
#ifndef ASSAY_ENGINE_TEXT_POST_PROCESSOR_H
#define ASSAY_ENGINE_TEXT_POST_PROCESSOR_H

#include "engine/base/error.h"
#include "engine/base/json_strict.h"
#include "engine/text/tokenizer.h"

struct post_processor {
	struct token_ids before, behind;
};

/* From the value of "post_processor"; null or NULL: nothing is added. *p starts zeroed. */
int post_processor_init(struct post_processor *p, const struct json *spec, struct error *e);
void post_processor_free(struct post_processor *p);

#endif
