/* A text cut into pieces: what each stage of the tokenizer hands to the next. */
#ifndef ASSAY_ENGINE_TEXT_PIECES_H
#define ASSAY_ENGINE_TEXT_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/str.h"

enum { PIECE_TEXT = -1 };

struct piece {
	uint32_t start, length; /* bytes of the text */
	int32_t id;             /* an added token, which no stage touches again; PIECE_TEXT: still text */
	bool first;             /* begins where the caller's own text begins */
};

struct pieces {
	struct str text; /* borrowed */
	struct piece *list;
	size_t count;
	size_t capacity;
};

int pieces_push(struct pieces *p, struct piece piece, struct error *e);
void pieces_free(struct pieces *p); /* zeroes *p */

static inline struct str piece_text(const struct pieces *p, const struct piece *piece)
{
	return (struct str){p->text.data + piece->start, piece->length};
}

/* A part of a piece, as text. */
static inline struct piece piece_part(const struct piece *whole, size_t start, size_t end)
{
	return (struct piece){
		whole->start + (uint32_t)start, (uint32_t)(end - start), PIECE_TEXT, whole->first && start == 0};
}

#endif
