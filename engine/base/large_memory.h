/* Memory in the large pages of the machine, where it gives them. What is read once in a step, and is more than the processor
 * keeps the places of, is read up to 1.7 times as fast from them as from small ones. */
#ifndef ASSAY_ENGINE_BASE_LARGE_MEMORY_H
#define ASSAY_ENGINE_BASE_LARGE_MEMORY_H

#include <stddef.h>

#include "engine/base/error.h"

/* ---- a block ---- */

struct large_block {
	void *base;
	size_t mapped;
	char *start, *end; /* what is to be used */
};

/* At least so many bytes of zeros, which cost nothing until they are touched; from 128 KiB on in large pages. ERR_MEMORY. */
int large_block_map(struct large_block *block, size_t bytes, struct error *e);
void large_block_unmap(struct large_block *block); /* zeroes *block */

/* ---- pieces ---- */

struct slab;

/* Pieces one after the other in shared blocks: large pages for what is smaller than one. Starts as {0}. */
struct slabs {
	struct slab *current; /* that pieces are cut from */
	size_t next;          /* bytes of the one after it: each is twice as large, up to a bound */
};

/* Zeros, at the start of a line of the caches. slabs NULL: a block of its own. NULL and ERR_MEMORY when it fails. */
void *slab_take(struct slabs *slabs, size_t bytes, struct error *e);
void slab_give(
	void *piece); /* NULL: nothing. A block goes with its last piece; slabs must still be there, or have ended. */
/* No piece is taken any more; those that are left may be given later. */
void slabs_end(struct slabs *slabs);

#endif
