/* The normaliser chain of tokenizer.json: what is done to the text before it is split. */
#ifndef ASSAY_ENGINE_TEXT_NORMALIZE_H
#define ASSAY_ENGINE_TEXT_NORMALIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/json_strict.h"
#include "engine/base/str.h"

struct normalizer;
struct pattern_scratch;

/* From the value of "normalizer"; null, an empty Sequence or NULL give *out == NULL: nothing to do. */
int normalizer_new(const struct json *spec, struct normalizer **out, struct error *e);
void normalizer_delete(struct normalizer *n);

/* Working memory; starts zeroed, with pattern and limit set. */
struct normalize_scratch {
	struct pattern_scratch *pattern; /* borrowed */
	size_t limit;                    /* bytes that a result may have before ERR_LIMIT */
	struct buf texts[2];
	int32_t *points; /* code points */
	int32_t *sorted;
	size_t capacity; /* of points and of sorted */
};

void normalize_scratch_free(struct normalize_scratch *s);

/* *result is text itself or lies in the scratch until its next use. *head becomes false when the result's first
 * byte no longer comes from the text's first character. PRECOND: text is valid UTF-8 and not empty. */
int normalizer_run(const struct normalizer *n, struct normalize_scratch *s, struct str text, struct str *result,
	bool *head, struct error *e);

#endif
