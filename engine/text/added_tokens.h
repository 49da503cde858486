/* Added tokens in a text: the longest one at the first place where one begins, again and again. */
#ifndef ASSAY_ENGINE_TEXT_ADDED_TOKENS_H
#define ASSAY_ENGINE_TEXT_ADDED_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/str.h"
#include "engine/text/pair_map.h"
#include "engine/text/pieces.h"

/* An added token is at most so many bytes long: the search may read that much again for each byte of the text. */
enum { ADDED_LENGTH_MAX = 1024 };

struct added_leaf {
	int32_t id; /* -1: no token ends at this node */
	bool lstrip, rstrip, single_word;
	bool is_text; /* found, but left as text */
};

/* A trie of the tokens that are looked for. Starts zeroed. */
struct added_tokens {
	struct pair_map edges;     /* node << 8 | byte -> node */
	struct added_leaf *leaves; /* [node_count], by node; 0 is the root */
	size_t node_count, node_capacity;
	bool begins[256]; /* some token begins with this byte */
};

/* PRECOND: leaf.id >= 0. A text that is there already, empty or too long is refused. */
int added_tokens_add(struct added_tokens *a, struct str text, struct added_leaf leaf, struct error *e);

/* Appends the pieces of one text piece of in: the tokens with their ids, and the text between them. */
int added_tokens_split(const struct added_tokens *a, const struct pieces *in, const struct piece *whole,
	struct pieces *out, struct error *e);

void added_tokens_free(struct added_tokens *a);

#endif
