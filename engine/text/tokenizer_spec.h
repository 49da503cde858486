/* A tokenizer as its file describes it, before it is built: tokenizer.json and other formats fill the same. */
#ifndef ASSAY_ENGINE_TEXT_TOKENIZER_SPEC_H
#define ASSAY_ENGINE_TEXT_TOKENIZER_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/json_strict.h"
#include "engine/base/str.h"
#include "engine/text/tokenizer.h"
#include "engine/text/vocab.h"

struct spec_token {
	struct str text;
	int32_t id;
};

struct spec_merge {
	struct str left, right;
};

struct spec_added {
	struct str content;
	bool special;     /* a control token */
	bool normalized;  /* looked for after the normaliser, and as the normaliser leaves it */
	bool lstrip;      /* takes the white space before it */
	bool rstrip;      /* and behind it */
	bool single_word; /* only where no word character touches it */
};

/* All texts are borrowed from what the spec was read from. */
struct tokenizer_spec {
	struct spec_token *tokens; /* the model's vocabulary; owned */
	size_t token_count;
	struct spec_merge *merges; /* by rank; owned */
	size_t merge_count;
	bool has_unk;
	struct str unk;     /* stands for what the vocabulary cannot spell; without it that is left out */
	bool fuse_unk;      /* one for a run of them */
	bool byte_fallback; /* spells unknown characters as <0xNN> first */
	bool ignore_merges; /* a piece that is a token is that token, whatever the merges give */

	/* Owned; filled by spec_add. Those that the vocabulary lacks get the ids after it in this order; from
	 * own_added on the count begins anew behind the largest id so far. */
	struct spec_added *added;
	size_t added_count, added_capacity;
	size_t own_added;
	struct vocab places; /* content -> index into added */
	bool split_special;  /* control tokens in the text are text */

	const struct json *normalizer; /* each as tokenizer.json has it; may be NULL */
	const struct json *pre_tokenizer;
	const struct json *post_processor;
	const struct json *decoder;

	struct str bos, eos; /* length 0: none */
};

/* Appends to added, or replaces what was said of the same token; once special, a token stays so. An empty one is
 * left out. */
int spec_add(struct tokenizer_spec *spec, struct spec_added added, struct error *e);

/* NULL where there is none of that content. Valid until the next spec_add. */
const struct spec_added *spec_find_added(const struct tokenizer_spec *spec, struct str content);

void tokenizer_spec_free(struct tokenizer_spec *spec); /* zeroes *spec */

/* fingerprint: 64 hex digits (tokenizer_fingerprint). */
int tokenizer_build(
	const struct tokenizer_spec *spec, const char *fingerprint, struct tokenizer **out, struct error *e);

#endif
