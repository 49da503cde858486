#include "engine/text/pair_map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"

/* The slot that holds key, or the free one where it belongs. PRECOND: the table has a free slot. */
static struct pair_slot *find_slot(const struct pair_map *map, uint64_t key)
{
	size_t i = hash64(&key, sizeof(key)) & map->mask;
	while (map->slots[i].key != key && map->slots[i].key != PAIR_MAP_EMPTY)
		i = (i + 1) & map->mask;
	return &map->slots[i];
}

int pair_map_reserve(struct pair_map *map, size_t entries, struct error *e)
{
	size_t size = 16;
	while (size / 2 < entries && size <= SIZE_MAX / 4)
		size *= 2;
	if (map->slots && size <= map->mask + 1)
		return 0;

	struct pair_map grown = {mem_calloc(size, sizeof(*grown.slots), e), size - 1, map->count};
	if (!grown.slots)
		return ERR_MEMORY;
	for (size_t i = 0; i < size; i++)
		grown.slots[i].key = PAIR_MAP_EMPTY;
	for (size_t i = 0; map->slots && i <= map->mask; i++) {
		if (map->slots[i].key != PAIR_MAP_EMPTY)
			*find_slot(&grown, map->slots[i].key) = map->slots[i];
	}
	free(map->slots);
	*map = grown;
	return 0;
}

int pair_map_put(struct pair_map *map, uint64_t key, struct pair_value value, struct error *e)
{
	assert(key != PAIR_MAP_EMPTY);
	TRY(pair_map_reserve(map, map->count + 1, e));
	struct pair_slot *slot = find_slot(map, key);
	if (slot->key == PAIR_MAP_EMPTY)
		map->count++;
	*slot = (struct pair_slot){key, value};
	return 0;
}

const struct pair_value *pair_map_get(const struct pair_map *map, uint64_t key)
{
	if (!map->slots)
		return NULL;
	const struct pair_slot *slot = find_slot(map, key);
	return slot->key == PAIR_MAP_EMPTY ? NULL : &slot->value;
}

void pair_map_free(struct pair_map *map)
{
	free(map->slots);
	memset(map, 0, sizeof(*map));
}
