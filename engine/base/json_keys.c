#include "engine/base/json_keys.h"

#include <unistd.h>
#include <xxhash.h>

int json_keys_reset(struct json_keys *keys, size_t count)
{
	size_t capacity = 32;
	while (capacity / 2 < count)
		capacity *= 2;
	if (keys->allocated < capacity) {
		/* Without random bytes the table works as well; only hostile keys could slow it down. */
		if (!keys->slots && getentropy(&keys->seed, sizeof(keys->seed)) != 0)
			keys->seed = 0;
		free(keys->slots);
		keys->allocated = 0;
		keys->slots = mem_calloc(capacity, sizeof(*keys->slots), NULL);
		if (!keys->slots)
			return ERR_MEMORY;
		keys->allocated = capacity;
	} else {
		memset(keys->slots, 0, capacity * sizeof(*keys->slots));
	}
	keys->capacity = capacity;
	return 0;
}

struct json_keys_slot *json_keys_slot(struct json_keys *keys, struct str key)
{
	size_t i = (size_t)XXH3_64bits_withSeed(key.data, key.length, keys->seed);
	for (;; i++) {
		struct json_keys_slot *slot = &keys->slots[i & (keys->capacity - 1)];
		if (!slot->first || str_equal(slot->first->key, key))
			return slot;
	}
}

void json_keys_free(struct json_keys *keys)
{
	free(keys->slots);
	*keys = (struct json_keys){0};
}
