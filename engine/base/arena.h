/* Memory that is freed as a whole: what lives as long as one parse or one rendering. Bounded. */
#ifndef ASSAY_ENGINE_BASE_ARENA_H
#define ASSAY_ENGINE_BASE_ARENA_H

#include <stddef.h>

struct arena_block;

/* Starts as {.limit = BYTES}. */
struct arena {
	struct arena_block *blocks; /* newest first; owned */
	size_t limit;               /* bytes that may be handed out */
	size_t used;
};

/* Zeroed bytes, aligned for any type, never NULL for a size of 0; NULL beyond the limit or without memory. */
void *arena_alloc(struct arena *a, size_t bytes);
void arena_free(struct arena *a); /* keeps the limit */

#endif
