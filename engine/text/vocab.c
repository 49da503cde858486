#include "engine/text/vocab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"

/* The place of a spelling in the index: where it is, or the free slot where it belongs. PRECOND: there is an index. */
static uint32_t *find_slot(const struct vocab *v, struct str text)
{
	size_t i = hash64(text.data, text.length) & v->mask;
	while (v->index[i] != 0 && !str_equal(vocab_text(v, (int32_t)(v->index[i] - 1)), text))
		i = (i + 1) & v->mask;
	return &v->index[i];
}

static int grow_index(struct vocab *v, struct error *e)
{
	if (v->index && v->count < (v->mask + 1) / 2)
		return 0;
	size_t size = v->index ? (v->mask + 1) * 2 : 256;
	uint32_t *index = mem_calloc(size, sizeof(*index), e);
	if (!index)
		return ERR_MEMORY;
	free(v->index);
	v->index = index;
	v->mask = size - 1;
	for (size_t id = 0; id < v->size; id++) {
		if (v->tokens[id].flags & VOCAB_PRESENT)
			*find_slot(v, vocab_text(v, (int32_t)id)) = (uint32_t)id + 1;
	}
	return 0;
}

static int grow_tokens(struct vocab *v, size_t size, struct error *e)
{
	if (size <= v->size)
		return 0;
	if (size > v->capacity) {
		size_t capacity = v->capacity * 2 > size ? v->capacity * 2 : size;
		struct vocab_token *tokens = realloc(v->tokens, capacity * sizeof(*tokens));
		if (!tokens)
			return error_set(e, ERR_MEMORY, "out of memory: a vocabulary of %zu tokens", capacity);
		v->tokens = tokens;
		v->capacity = capacity;
	}
	memset(v->tokens + v->size, 0, (size - v->size) * sizeof(*v->tokens));
	v->size = size;
	return 0;
}

int vocab_add(struct vocab *v, struct str text, int32_t id, uint8_t flags, struct error *e)
{
	assert(id >= 0 && id < VOCAB_ID_END && !vocab_has(v, id));
	if (text.length > UINT32_MAX - v->text.length)
		return error_set(e, ERR_INPUT, "the spellings of the vocabulary are longer than 4 GiB together");
	TRY(grow_tokens(v, (size_t)id + 1, e));
	TRY(grow_index(v, e));

	struct vocab_token token = {(uint32_t)v->text.length, (uint32_t)text.length, flags | VOCAB_PRESENT};
	uint32_t *slot = find_slot(v, text);
	assert(*slot == 0);
	buf_append_str(&v->text, text);
	TRY(buf_check(&v->text, e));
	v->tokens[id] = token;
	*slot = (uint32_t)id + 1;
	v->count++;
	return 0;
}

int32_t vocab_find(const struct vocab *v, struct str text)
{
	if (!v->index)
		return -1;
	return (int32_t)*find_slot(v, text) - 1;
}

int32_t vocab_find_model(const struct vocab *v, struct str text)
{
	int32_t id = vocab_find(v, text);
	return id >= 0 && (v->tokens[id].flags & VOCAB_MODEL) ? id : -1;
}

uint8_t vocab_flags(const struct vocab *v, int32_t id)
{
	return id >= 0 && (size_t)id < v->size ? v->tokens[id].flags : 0;
}

bool vocab_has(const struct vocab *v, int32_t id)
{
	return (vocab_flags(v, id) & VOCAB_PRESENT) != 0;
}

struct str vocab_text(const struct vocab *v, int32_t id)
{
	if (!vocab_has(v, id) || v->tokens[id].length == 0)
		return (struct str){"", 0};
	return (struct str){v->text.data + v->tokens[id].start, v->tokens[id].length};
}

void vocab_free(struct vocab *v)
{
	free(v->tokens);
	free(v->index);
	buf_free(&v->text);
	memset(v, 0, sizeof(*v));
}
