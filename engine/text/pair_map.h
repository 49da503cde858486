/* A hash table from a 64-bit key to two 32-bit values: merges by their pair of ids, trie edges by node and byte. */
#ifndef ASSAY_ENGINE_TEXT_PAIR_MAP_H
#define ASSAY_ENGINE_TEXT_PAIR_MAP_H

#include <stdint.h>

#include "engine/base/error.h"

struct pair_value {
	uint32_t first;
	uint32_t second;
};

struct pair_slot {
	uint64_t key; /* PAIR_MAP_EMPTY: free */
	struct pair_value value;
};

struct pair_map {
	struct pair_slot *slots; /* [mask + 1], a power of two, at most half full; NULL until the first entry */
	size_t mask;
	size_t count;
};

#define PAIR_MAP_EMPTY UINT64_MAX

/* Room for so many entries at once; optional. */
int pair_map_reserve(struct pair_map *map, size_t entries, struct error *e);

/* A later value of the same key takes the place of the earlier one. PRECOND: key != PAIR_MAP_EMPTY. */
int pair_map_put(struct pair_map *map, uint64_t key, struct pair_value value, struct error *e);

/* NULL where the key is not there. */
const struct pair_value *pair_map_get(const struct pair_map *map, uint64_t key);

void pair_map_free(struct pair_map *map); /* zeroes *map */

#endif
