/* Byte-pair encoding: the characters of a piece, joined pair by pair in the order of the merges. */
#ifndef ASSAY_ENGINE_TEXT_BPE_H
#define ASSAY_ENGINE_TEXT_BPE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/str.h"
#include "engine/text/pair_map.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_spec.h"
#include "engine/text/vocab.h"

enum { BPE_DIRECT = 0x800 };

struct bpe {
	const struct vocab *vocab;      /* borrowed */
	struct pair_map merges;         /* left id << 32 | right id -> rank, id of the two together */
	int32_t characters[BPE_DIRECT]; /* ids of the first characters of Unicode, -1: none */
	int32_t bytes[256];             /* ids of <0x00>..<0xFF>, -1: none */
	bool has_unk;
	int32_t unk; /* -1: named, but not in the vocabulary */
	bool fuse_unk, byte_fallback, ignore_merges;
};

/* Working memory; starts zeroed. */
struct bpe_scratch {
	struct bpe_symbol *symbols;
	size_t symbol_count, symbol_capacity;
	struct bpe_candidate *heap;
	size_t heap_count, heap_capacity;
};

/* vocab holds the model's tokens already and outlives *b. */
int bpe_init(struct bpe *b, const struct vocab *vocab, const struct tokenizer_spec *spec, struct error *e);
void bpe_free(struct bpe *b);

/* Appends the ids of one piece. Time grows as n log n with its characters. PRECOND: piece is valid UTF-8. */
int bpe_encode(const struct bpe *b, struct bpe_scratch *s, struct str piece, struct token_ids *ids, struct error *e);

void bpe_scratch_free(struct bpe_scratch *s);

#endif
