/* The keys of one JSON object in a hash table, to find doubled ones in linear time. Shared by parser and writer. */
#ifndef ASSAY_ENGINE_BASE_JSON_KEYS_H
#define ASSAY_ENGINE_BASE_JSON_KEYS_H

#include "engine/base/json_strict.h"

struct json_keys_slot {
	const struct json *first; /* members of one key, in the order of the text; NULL: a free slot */
	const struct json *last;
};

/* Starts zeroed; reused for one object after the other. */
struct json_keys {
	struct json_keys_slot *slots; /* [capacity], at most half full */
	size_t capacity;              /* a power of two */
	size_t allocated;
	uint64_t seed; /* drawn at random, so that nobody can choose keys that collide */
};

/* Empties the table and makes room for count keys. 0 or ERR_MEMORY. */
int json_keys_reset(struct json_keys *keys, size_t count);

/* The slot of that key, or the free slot where it belongs. */
struct json_keys_slot *json_keys_slot(struct json_keys *keys, struct str key);

/* Zeroes *keys. */
void json_keys_free(struct json_keys *keys);

#endif
