#include "evals/schema_unique.h"

#include <stdlib.h>

#include "engine/base/json_number.h"

enum { SORT_WORK = 32 }; /* of one item */

struct item {
	uint64_t hash;
	const struct json *value;
};

static bool spend(uint64_t *work, uint64_t cost)
{
	*work = *work > cost ? *work - cost : 0;
	return *work > 0;
}

static uint64_t mix(uint64_t hash, uint64_t more)
{
	hash = (hash ^ more) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 32;
}

static uint64_t hash_str(struct str s)
{
	uint64_t hash = s.length;
	for (size_t i = 0; i < s.length; i++)
		hash = mix(hash, (unsigned char)s.data[i]);
	return hash;
}

/* Equal numbers have the same nearest double, however they are written. */
static uint64_t hash_number(const struct json *number)
{
	double value = json_double(number);
	uint64_t bits = 0;
	if (value != 0.0) /* -0 is 0 */
		memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* The same for equal values. */
static uint64_t hash_value(const struct json *value, uint64_t *work)
{
	if (!spend(work, value->text.length + value->count + 1))
		return 0;
	uint64_t hash = mix((uint64_t)value->type, 1);
	if (value->type == JSON_NUMBER)
		return mix(hash, hash_number(value));
	if (value->type == JSON_STRING)
		return mix(hash, hash_str(value->text));
	JSON_EACH (child, value) {
		if (value->type == JSON_ARRAY) {
			hash = mix(hash, hash_value(child, work));
		} else if (!child->shadowed && spend(work, child->key.length)) {
			/* a sum: the order of members means nothing */
			hash += mix(hash_str(child->key), hash_value(child, work));
		}
	}
	return hash;
}

static int compare_items(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	return (x->hash > y->hash) - (x->hash < y->hash);
}

/* Among items of the same hash each with each: there are few, unless somebody has chosen them so. */
static bool any_neighbours_equal(const struct item *items, size_t n, uint64_t *work)
{
	for (size_t i = 1; i < n; i++) {
		for (size_t j = i; j-- > 0 && items[j].hash == items[i].hash && *work > 0;) {
			if (json_equal(items[j].value, items[i].value, JSON_EQUAL_SCHEMA, work))
				return true;
		}
	}
	return false;
}

int schema_any_equal(const struct json *array, uint64_t *work, struct error *e)
{
	if (!spend(work, SORT_WORK * array->count))
		return 0;
	struct item *items = mem_calloc(array->count, sizeof(*items), e);
	if (!items)
		return ERR_MEMORY;
	size_t n = 0;
	JSON_EACH (value, array)
		items[n++] = (struct item){hash_value(value, work), value};
	qsort(items, n, sizeof(*items), compare_items);
	bool equal = any_neighbours_equal(items, n, work);
	free(items);
	return equal;
}
