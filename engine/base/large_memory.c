#include "engine/base/large_memory.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "engine/base/memory_gap.h"

enum {
	LINE = 64,            /* bytes of a line of the caches */
	LARGE_PAGE = 1 << 21, /* of x86-64, and the usual one of AArch64 */
	LARGE_FROM = 1 << 17, /* bytes for which one of them is asked for */
	SMALL_PAGE = 1 << 12,
	LARGEST_SLAB = 1 << 26,
};

static size_t rounded(size_t bytes, size_t to)
{
	return (bytes + to - 1) / to * to;
}

/* ---- a block ---- */

int large_block_map(struct large_block *block, size_t bytes, struct error *e)
{
	*block = (struct large_block){0};
	if (bytes > PTRDIFF_MAX - 2 * (size_t)LARGE_PAGE)
		return error_set(e, ERR_MEMORY, "no memory for %zu bytes", bytes);
	bool large = bytes >= LARGE_FROM;
	size_t size = rounded(bytes ? bytes : 1, large ? LARGE_PAGE : SMALL_PAGE);
	size_t mapped = large ? size + LARGE_PAGE : size;
	void *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		return error_set(e, ERR_MEMORY, "no memory for %zu bytes", bytes);
	uintptr_t start = (uintptr_t)base;
	block->base = base;
	block->mapped = mapped;
	block->start = (char *)base + (large ? rounded(start, LARGE_PAGE) - start : 0);
	block->end = block->start + size;
	if (large)
		(void)madvise(
			block->start, size, MADV_HUGEPAGE); /* advice: without it everything is as right, and slower */
	return 0;
}

void large_block_unmap(struct large_block *block)
{
	if (!block->base)
		return;
	memory_allow(block->base, block->mapped); /* whatever is mapped there next */
	munmap(block->base, block->mapped);
	*block = (struct large_block){0};
}

/* ---- pieces ---- */

/* At the start of its block. */
struct slab {
	struct large_block block;
	struct slabs *owner; /* that cuts pieces from it; NULL: nobody does any more */
	char *at;            /* what is left of it begins there */
	size_t live;         /* pieces */
};

_Static_assert(sizeof(struct slab) <= LINE, "a slab's own record takes one line");

/* In the line before each piece. */
struct piece {
	struct slab *slab; /* NULL: it was given */
	size_t bytes;
};

static struct slab *slab_open(size_t bytes, struct error *e)
{
	struct large_block block;

	if (large_block_map(&block, bytes, e) < 0)
		return NULL;
	struct slab *slab = (struct slab *)(void *)block.start;
	*slab = (struct slab){.block = block, .at = block.start + LINE};
	return slab;
}

static void slab_close(struct slab *slab)
{
	struct large_block block = slab->block; /* the slab lies in it */

	if (slab->owner)
		slab->owner->current = NULL;
	large_block_unmap(&block);
}

void slabs_end(struct slabs *slabs)
{
	if (slabs->current)
		slabs->current->owner = NULL;
	slabs->current = NULL;
}

/* A new slab to cut from, or NULL where it cannot be had or is too small for so many bytes. */
static struct slab *slab_next(struct slabs *slabs, size_t bytes)
{
	size_t size = slabs->next ? slabs->next : LARGE_PAGE;

	while (size < LINE + bytes && size < LARGEST_SLAB)
		size *= 2;
	struct slab *slab = size < LINE + bytes ? NULL : slab_open(size, NULL);
	if (!slab)
		return NULL;
	slabs_end(slabs);
	slab->owner = slabs;
	slabs->current = slab;
	slabs->next = size < LARGEST_SLAB ? 2 * size : size;
	return slab;
}

/* The slab that has room for so many bytes; in want of a shared one, one for them alone. */
static struct slab *slab_for(struct slabs *slabs, size_t bytes, struct error *e)
{
	struct slab *slab = slabs ? slabs->current : NULL;

	if (slab && bytes <= (size_t)(slab->block.end - slab->at))
		return slab;
	slab = slabs ? slab_next(slabs, bytes) : NULL;
	return slab ? slab : slab_open(LINE + bytes, e);
}

void *slab_take(struct slabs *slabs, size_t bytes, struct error *e)
{
	if (bytes > PTRDIFF_MAX - 4 * (size_t)LARGE_PAGE) {
		error_set(e, ERR_MEMORY, "no memory for %zu bytes", bytes);
		return NULL;
	}
	size_t taken = LINE + rounded(bytes, LINE) + MEMORY_GAP;
	struct slab *slab = slab_for(slabs, taken, e);
	if (!slab)
		return NULL;
	struct piece *piece = (struct piece *)(void *)slab->at;
	char *start = slab->at + LINE;
	*piece = (struct piece){slab, bytes};
	memory_forbid(piece, LINE);
	memory_forbid(start + bytes, taken - LINE - bytes);
	slab->at += taken;
	slab->live++;
	return start;
}

void slab_give(void *memory)
{
	if (!memory)
		return;
	struct piece *piece = (struct piece *)(void *)((char *)memory - LINE);
	memory_allow(piece, LINE);
	struct slab *slab = piece->slab;
	assert(slab);
	memory_forbid(memory, piece->bytes);
	piece->slab = NULL;
	memory_forbid(piece, LINE);
	if (--slab->live == 0)
		slab_close(slab);
}
