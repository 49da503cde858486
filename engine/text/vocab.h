/* The vocabulary: spelling to id and id to spelling, model tokens and added tokens in one table. */
#ifndef ASSAY_ENGINE_TEXT_VOCAB_H
#define ASSAY_ENGINE_TEXT_VOCAB_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/str.h"

enum vocab_flag {
	VOCAB_PRESENT = 1, /* the id has a spelling; ids may have holes between them */
	VOCAB_MODEL = 2,   /* the merges may give it; an added token alone is found in the text only */
	VOCAB_ADDED = 4,
	VOCAB_SPECIAL = 8, /* control tokens */
};

struct vocab_token {
	uint32_t start; /* into text */
	uint32_t length;
	uint8_t flags;
};

struct vocab {
	struct vocab_token *tokens; /* [size], by id */
	size_t size;                /* largest id + 1 */
	size_t capacity;
	size_t count; /* ids that are present */
	struct buf text;
	uint32_t *index; /* [mask + 1]: id + 1 by hash of the spelling, 0 free, at most half full */
	size_t mask;
};

/* Ids stay below this, and below VOCAB_HOLES + 8 for each token, so that a few bytes of a file never ask for
 * gigabytes. */
enum { VOCAB_ID_END = 1 << 24, VOCAB_HOLES = 1 << 16 };

/* Adds a spelling. PRECOND: 0 <= id < VOCAB_ID_END, the id and the spelling are not there yet. */
int vocab_add(struct vocab *v, struct str text, int32_t id, uint8_t flags, struct error *e);

/* The id of a spelling, -1 where it is not there. */
int32_t vocab_find(const struct vocab *v, struct str text);

/* The id of a spelling that the merges may give, else -1. */
int32_t vocab_find_model(const struct vocab *v, struct str text);

bool vocab_has(const struct vocab *v, int32_t id);

/* Empty for an unknown id. Borrowed. */
struct str vocab_text(const struct vocab *v, int32_t id);

uint8_t vocab_flags(const struct vocab *v, int32_t id); /* 0 for an unknown id */

void vocab_free(struct vocab *v); /* zeroes *v */

#endif
