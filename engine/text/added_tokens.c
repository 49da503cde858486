#include "engine/text/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/utf8.h"
#include "engine/text/unicode.h"

static int new_node(struct added_tokens *a, struct error *e)
{
	if (a->node_count == a->node_capacity) {
		size_t capacity = a->node_capacity ? a->node_capacity * 2 : 64;
		struct added_leaf *leaves = realloc(a->leaves, capacity * sizeof(*leaves));
		if (!leaves || capacity > UINT32_MAX) {
			a->leaves = leaves ? leaves : a->leaves;
			return error_set(e, ERR_MEMORY, "out of memory: the added tokens");
		}
		a->leaves = leaves;
		a->node_capacity = capacity;
	}
	a->leaves[a->node_count++] = (struct added_leaf){.id = -1};
	return 0;
}

static uint64_t edge_key(uint32_t node, char byte)
{
	return (uint64_t)node << 8 | (uint8_t)byte;
}

int added_tokens_add(struct added_tokens *a, struct str text, struct added_leaf leaf, struct error *e)
{
	if (text.length == 0 || text.length > ADDED_LENGTH_MAX)
		return error_set(e, ERR_INPUT,
			"added token %d is %zu bytes long (as the normalizer leaves it), expected 1 to %d", leaf.id,
			text.length, ADDED_LENGTH_MAX);
	if (a->node_count == 0)
		TRY(new_node(a, e));
	uint32_t node = 0;
	for (size_t i = 0; i < text.length; i++) {
		uint64_t key = edge_key(node, text.data[i]);
		const struct pair_value *edge = pair_map_get(&a->edges, key);
		if (edge) {
			node = edge->first;
			continue;
		}
		node = (uint32_t)a->node_count;
		TRY(new_node(a, e));
		TRY(pair_map_put(&a->edges, key, (struct pair_value){node, 0}, e));
	}
	if (a->leaves[node].id >= 0)
		return error_set(e, ERR_INPUT, "the added tokens %d and %d are both \"%.*s\" in the text",
			a->leaves[node].id, leaf.id, STR_ARG(text));
	a->leaves[node] = leaf;
	a->begins[(uint8_t)text.data[0]] = true;
	return 0;
}

void added_tokens_free(struct added_tokens *a)
{
	pair_map_free(&a->edges);
	free(a->leaves);
	memset(a, 0, sizeof(*a));
}

/* The longest token that begins at start, NULL where none does; *end: where it ends. */
static const struct added_leaf *match_at(const struct added_tokens *a, struct str text, size_t start, size_t *end)
{
	const struct added_leaf *longest = NULL;
	uint32_t node = 0;
	for (size_t i = start; i < text.length; i++) {
		const struct pair_value *edge = pair_map_get(&a->edges, edge_key(node, text.data[i]));
		if (!edge)
			break;
		node = edge->first;
		if (a->leaves[node].id >= 0) {
			longest = &a->leaves[node];
			*end = i + 1;
		}
	}
	return longest;
}

/* Where the character before position begins. PRECOND: position > 0. */
static size_t character_before(struct str text, size_t position)
{
	do
		position--;
	while (position > 0 && ((unsigned char)text.data[position] & 0xc0) == 0x80);
	return position;
}

static int32_t character_at(struct str text, size_t position)
{
	return utf8_next(text, &position);
}

static bool stands_alone(struct str text, size_t start, size_t end)
{
	return (start == 0 || !unicode_is_word(character_at(text, character_before(text, start)))) &&
		(end == text.length || !unicode_is_word(character_at(text, end)));
}

static size_t white_space_before(struct str text, size_t start, size_t floor)
{
	while (start > floor) {
		size_t before = character_before(text, start);
		if (!unicode_is_white_space(character_at(text, before)))
			break;
		start = before;
	}
	return start > floor ? start : floor;
}

/* The white space that was read last: tokens inside it need not read it again. */
struct white_run {
	size_t start, end;
};

static size_t white_space_after(struct str text, size_t end, struct white_run *run)
{
	if (end >= run->start && end < run->end)
		return run->end;
	run->start = end;
	while (end < text.length) {
		size_t next = end;
		if (!unicode_is_white_space(utf8_next(text, &next)))
			break;
		end = next;
	}
	run->end = end;
	return end;
}

int added_tokens_split(const struct added_tokens *a, const struct pieces *in, const struct piece *whole,
	struct pieces *out, struct error *e)
{
	struct str text = piece_text(in, whole);
	struct white_run run = {0};
	size_t done = 0; /* the text before it is in *out */
	for (size_t position = 0; position < text.length && a->node_count > 0;) {
		size_t start = position, end = start + 1;
		const struct added_leaf *leaf =
			a->begins[(uint8_t)text.data[start]] ? match_at(a, text, start, &end) : NULL;
		position = end;
		if (!leaf || leaf->is_text || (leaf->single_word && !stands_alone(text, start, end)))
			continue;
		/* The search goes on right behind the token even where rstrip reaches further, as the reference
		 * does. */
		if (leaf->lstrip)
			start = white_space_before(text, start, done);
		if (leaf->rstrip)
			end = white_space_after(text, end, &run);
		if (done < start)
			TRY(pieces_push(out, piece_part(whole, done, start), e));
		struct piece token = piece_part(whole, start, start);
		token.id = leaf->id;
		TRY(pieces_push(out, token, e));
		done = end;
	}
	return done < text.length ? pieces_push(out, piece_part(whole, done, text.length), e) : 0;
}
