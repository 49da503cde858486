#include "engine/text/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/utf8.h"

/* One token of the piece so far; the tokens are linked in the order of the text. */
struct bpe_symbol {
	int32_t id;
	int32_t previous, next; /* -1: none */
	bool joined;            /* into the one before it */
};

/* Two neighbours that a merge may join. */
struct bpe_candidate {
	uint64_t order; /* rank << 32 | position of the left one: the smallest goes first */
	uint32_t id;    /* of the two together */
};

/* ---- The model ---- */

static uint64_t pair_key(int32_t left, int32_t right)
{
	return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static int need_token(const struct vocab *vocab, struct str text, size_t rank, int32_t *id, struct error *e)
{
	*id = vocab_find_model(vocab, text);
	if (*id < 0)
		return error_set(e, ERR_INPUT,
			"model: merge %zu needs the token \"%.*s\", which the vocabulary does not have", rank,
			STR_ARG(text));
	return 0;
}

static int add_merges(struct bpe *b, const struct tokenizer_spec *spec, struct error *e)
{
	struct buf joined = {0};
	int status = pair_map_reserve(&b->merges, spec->merge_count, e);
	for (size_t rank = 0; status == 0 && rank < spec->merge_count; rank++) {
		const struct spec_merge *merge = &spec->merges[rank];
		int32_t left, right, both;
		TRY_CLEANUP(status, need_token(b->vocab, merge->left, rank, &left, e));
		TRY_CLEANUP(status, need_token(b->vocab, merge->right, rank, &right, e));
		buf_clear(&joined);
		buf_append_str(&joined, merge->left);
		buf_append_str(&joined, merge->right);
		TRY_CLEANUP(status, buf_check(&joined, e));
		TRY_CLEANUP(status, need_token(b->vocab, buf_str(&joined), rank, &both, e));
		struct pair_value value = {(uint32_t)rank, (uint32_t)both};
		TRY_CLEANUP(status, pair_map_put(&b->merges, pair_key(left, right), value, e));
	}

cleanup:
	buf_free(&joined);
	return status;
}

int bpe_init(struct bpe *b, const struct vocab *vocab, const struct tokenizer_spec *spec, struct error *e)
{
	*b = (struct bpe){.vocab = vocab,
		.has_unk = spec->has_unk,
		.fuse_unk = spec->fuse_unk,
		.byte_fallback = spec->byte_fallback,
		.ignore_merges = spec->ignore_merges};
	if (spec->merge_count > UINT32_MAX)
		return error_set(e, ERR_INPUT, "model: %zu merges are too many", spec->merge_count);
	b->unk = spec->has_unk ? vocab_find_model(vocab, spec->unk) : -1;
	for (int32_t c = 0; c < BPE_DIRECT; c++) {
		char text[4];
		b->characters[c] = vocab_find_model(vocab, (struct str){text, utf8_encode(c, text)});
	}
	for (unsigned byte = 0; byte < 256; byte++) {
		char text[8];
		snprintf(text, sizeof(text), "<0x%02X>", byte);
		b->bytes[byte] = vocab_find_model(vocab, str_of(text));
	}
	return add_merges(b, spec, e);
}

void bpe_free(struct bpe *b)
{
	pair_map_free(&b->merges);
}

void bpe_scratch_free(struct bpe_scratch *s)
{
	free(s->symbols);
	free(s->heap);
	memset(s, 0, sizeof(*s));
}

/* ---- The characters ---- */

static int push_symbol(struct bpe_scratch *s, int32_t id, struct error *e)
{
	if (s->symbol_count == s->symbol_capacity) {
		size_t capacity = s->symbol_capacity ? s->symbol_capacity * 2 : 64;
		struct bpe_symbol *symbols = realloc(s->symbols, capacity * sizeof(*symbols));
		if (!symbols)
			return error_set(e, ERR_MEMORY, "out of memory: a piece of %zu characters", capacity);
		s->symbols = symbols;
		s->symbol_capacity = capacity;
	}
	int32_t i = (int32_t)s->symbol_count++;
	s->symbols[i] = (struct bpe_symbol){id, i - 1, -1, false};
	if (i > 0)
		s->symbols[i - 1].next = i;
	return 0;
}

/* Spells a character as <0xNN> tokens; *done: all of them exist. */
static int push_bytes(const struct bpe *b, struct bpe_scratch *s, struct str character, bool *done, struct error *e)
{
	*done = false;
	for (size_t i = 0; i < character.length; i++) {
		if (b->bytes[(uint8_t)character.data[i]] < 0)
			return 0;
	}
	for (size_t i = 0; i < character.length; i++)
		TRY(push_symbol(s, b->bytes[(uint8_t)character.data[i]], e));
	*done = true;
	return 0;
}

/* Fills symbols with the characters of the piece. An unknown token waits until a known character or the end: so
 * does the reference, where byte tokens overtake it. */
static int push_characters(const struct bpe *b, struct bpe_scratch *s, struct str piece, struct error *e)
{
	bool unk_waits = false;
	s->symbol_count = 0;
	for (size_t position = 0; position < piece.length;) {
		size_t start = position;
		int32_t c = utf8_next(piece, &position);
		struct str character = {piece.data + start, position - start};
		int32_t id = c >= 0 && c < BPE_DIRECT ? b->characters[c] : vocab_find_model(b->vocab, character);
		if (id >= 0) {
			if (unk_waits)
				TRY(push_symbol(s, b->unk, e));
			unk_waits = false;
			TRY(push_symbol(s, id, e));
			continue;
		}
		bool done = false;
		if (b->byte_fallback)
			TRY(push_bytes(b, s, character, &done, e));
		if (done || !b->has_unk)
			continue;
		if (b->unk < 0)
			return error_set(e, ERR_INPUT,
				"the tokenizer's unk_token is not in its vocabulary, and \"%.*s\" needs it",
				STR_ARG(character));
		if (unk_waits && !b->fuse_unk)
			TRY(push_symbol(s, b->unk, e));
		unk_waits = true;
	}
	return unk_waits ? push_symbol(s, b->unk, e) : 0;
}

/* ---- The merges ---- */

static void sift_up(struct bpe_candidate *heap, size_t i)
{
	struct bpe_candidate moved = heap[i];
	for (; i > 0 && moved.order < heap[(i - 1) / 2].order; i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = moved;
}

static void sift_down(struct bpe_candidate *heap, size_t count, size_t i)
{
	struct bpe_candidate moved = heap[i];
	for (size_t child; (child = 2 * i + 1) < count; i = child) {
		if (child + 1 < count && heap[child + 1].order < heap[child].order)
			child++;
		if (moved.order <= heap[child].order)
			break;
		heap[i] = heap[child];
	}
	heap[i] = moved;
}

static const struct pair_value *find_merge(
	const struct bpe *b, const struct bpe_scratch *s, int32_t left, int32_t right)
{
	return pair_map_get(&b->merges, pair_key(s->symbols[left].id, s->symbols[right].id));
}

/* Appends the pair that begins at left, if a merge joins it; the heap's order is the caller's matter. */
static int push_candidate(
	const struct bpe *b, struct bpe_scratch *s, int32_t left, int32_t right, bool *pushed, struct error *e)
{
	const struct pair_value *merge = find_merge(b, s, left, right);
	*pushed = merge != NULL;
	if (!merge)
		return 0;
	if (s->heap_count == s->heap_capacity) {
		size_t capacity = s->heap_capacity ? s->heap_capacity * 2 : 64;
		struct bpe_candidate *heap = realloc(s->heap, capacity * sizeof(*heap));
		if (!heap)
			return error_set(e, ERR_MEMORY, "out of memory: %zu merges of a piece", capacity);
		s->heap = heap;
		s->heap_capacity = capacity;
	}
	s->heap[s->heap_count++] = (struct bpe_candidate){(uint64_t)merge->first << 32 | (uint32_t)left, merge->second};
	return 0;
}

static int push_neighbours(const struct bpe *b, struct bpe_scratch *s, int32_t left, int32_t right, struct error *e)
{
	bool pushed;
	TRY(push_candidate(b, s, left, right, &pushed, e));
	if (pushed)
		sift_up(s->heap, s->heap_count - 1);
	return 0;
}

/* Joins the candidate's two symbols, unless an earlier merge has changed one of them. */
static int apply_candidate(const struct bpe *b, struct bpe_scratch *s, struct bpe_candidate candidate, struct error *e)
{
	int32_t left = (int32_t)(uint32_t)candidate.order;
	struct bpe_symbol *symbol = &s->symbols[left];
	if (symbol->joined || symbol->next < 0)
		return 0;
	const struct pair_value *merge = find_merge(b, s, left, symbol->next);
	if (!merge || merge->second != candidate.id)
		return 0;

	struct bpe_symbol *right = &s->symbols[symbol->next];
	right->joined = true;
	symbol->id = (int32_t)candidate.id;
	symbol->next = right->next;
	if (symbol->next >= 0)
		s->symbols[symbol->next].previous = left;
	if (symbol->previous >= 0)
		TRY(push_neighbours(b, s, symbol->previous, left, e));
	return symbol->next >= 0 ? push_neighbours(b, s, left, symbol->next, e) : 0;
}

static int merge_all(const struct bpe *b, struct bpe_scratch *s, struct error *e)
{
	bool pushed;
	s->heap_count = 0;
	for (size_t i = 1; i < s->symbol_count; i++)
		TRY(push_candidate(b, s, (int32_t)i - 1, (int32_t)i, &pushed, e));
	for (size_t i = s->heap_count / 2; i-- > 0;)
		sift_down(s->heap, s->heap_count, i);
	while (s->heap_count > 0) {
		struct bpe_candidate top = s->heap[0];
		s->heap[0] = s->heap[--s->heap_count];
		if (s->heap_count > 0)
			sift_down(s->heap, s->heap_count, 0);
		TRY(apply_candidate(b, s, top, e));
	}
	return 0;
}

int bpe_encode(const struct bpe *b, struct bpe_scratch *s, struct str piece, struct token_ids *ids, struct error *e)
{
	if (piece.length > INT32_MAX)
		return error_set(e, ERR_LIMIT, "a piece of %zu bytes is too long", piece.length);
	int32_t whole = b->ignore_merges ? vocab_find_model(b->vocab, piece) : -1;
	if (whole >= 0)
		return token_ids_push(ids, whole, e);
	TRY(push_characters(b, s, piece, e));
	TRY(merge_all(b, s, e));
	for (int32_t i = s->symbol_count > 0 ? 0 : -1; i >= 0; i = s->symbols[i].next)
		TRY(token_ids_push(ids, s->symbols[i].id, e));
	return 0;
}
