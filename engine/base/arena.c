#include "engine/base/arena.h"

#include <stdalign.h>
#include <stdlib.h>

enum { ALIGNMENT = alignof(max_align_t), FIRST_BLOCK = 4096, LAST_BLOCK = 1 << 20 };

struct arena_block {
	struct arena_block *next;
	size_t used, capacity;
	alignas(max_align_t) char bytes[];
};

/* Blocks grow with what was used, so that a small job takes little and a large one few calls. */
static struct arena_block *block_new(const struct arena *a, size_t bytes)
{
	size_t capacity = a->used < FIRST_BLOCK ? FIRST_BLOCK : a->used < LAST_BLOCK ? a->used : LAST_BLOCK;
	if (capacity < bytes)
		capacity = bytes;
	struct arena_block *block = calloc(1, sizeof *block + capacity);
	if (block)
		block->capacity = capacity;
	return block;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
	if (bytes >= a->limit || bytes + ALIGNMENT > a->limit - a->used)
		return NULL;
	size_t rounded = bytes == 0 ? ALIGNMENT : (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	struct arena_block *block = a->blocks;
	if (!block || rounded > block->capacity - block->used) {
		block = block_new(a, rounded);
		if (!block)
			return NULL;
		block->next = a->blocks;
		a->blocks = block;
	}
	void *memory = block->bytes + block->used;
	block->used += rounded;
	a->used += rounded;
	return memory;
}

void arena_free(struct arena *a)
{
	while (a->blocks) {
		struct arena_block *next = a->blocks->next;
		free(a->blocks);
		a->blocks = next;
	}
	a->used = 0;
}
