/* Memory of a guard's books. Internal to the guard's files. */
#ifndef ASSAY_INTEGRITY_GUARD_MEMORY_H
#define ASSAY_INTEGRITY_GUARD_MEMORY_H

#include <stddef.h>

#include "engine/base/large_memory.h"

/* Starts as {0}; taken from twice. */
struct guard_memory {
	struct large_block blocks[2]; /* owned */
	int n_blocks;
	char *at, *end; /* what is left of the last */
};

struct guard_array {
	void **array; /* out: zeros, at the start of a line of the caches; NULL for none */
	size_t count, size;
};

/* All of them side by side, in the order given, where room is left behind what was taken before. At most 64 arrays. */
int guard_memory_take(struct guard_memory *m, const struct guard_array *arrays, size_t n, struct error *e);
void guard_memory_free(struct guard_memory *m);

#endif
