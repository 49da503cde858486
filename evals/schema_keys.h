/* Looking up many keys in one object: one member after the other would take their product. */
#ifndef ASSAY_EVALS_SCHEMA_KEYS_H
#define ASSAY_EVALS_SCHEMA_KEYS_H

#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/json_strict.h"

struct schema_key {
	const struct json *member;
	size_t index; /* its place in the object */
};

struct schema_keys {
	const struct json *object;
	struct schema_key *sorted; /* [count], by key, without shadowed ones; owned. NULL where sorting does not pay */
	size_t count;
};

/* Borrows the object. 0 or ERR_MEMORY. */
int schema_keys_init(struct schema_keys *k, const struct json *object, size_t look_ups, struct error *e);
void schema_keys_free(struct schema_keys *k); /* zeroes *k */

/* The member of that key, or false. */
bool schema_keys_find(const struct schema_keys *k, struct str key, struct schema_key *out);

/* The comparisons that init and that many look-ups in an object of count members take, and those of one more look-up. */
uint64_t schema_keys_work(size_t count, size_t look_ups);
uint64_t schema_keys_find_work(const struct schema_keys *k);

#endif
