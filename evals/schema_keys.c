#include "evals/schema_keys.h"

#include <stdlib.h>

static int compare_str(struct str a, struct str b)
{
	if (a.length != b.length)
		return a.length < b.length ? -1 : 1;
	return a.length == 0 ? 0 : memcmp(a.data, b.data, a.length);
}

static int compare_keys(const void *a, const void *b)
{
	const struct schema_key *x = a, *y = b;
	return compare_str(x->member->key, y->member->key);
}

static int compare_with_key(const void *key, const void *element)
{
	const struct schema_key *x = element;
	return compare_str(*(const struct str *)key, x->member->key);
}

/* Comparisons of a look-up among n sorted ones; sorting takes n times as many. */
static uint64_t sorted_steps(size_t n)
{
	uint64_t steps = 1;
	for (; n > 1; n /= 2)
		steps++;
	return steps;
}

static uint64_t linear_work(size_t count, size_t look_ups)
{
	return (uint64_t)look_ups * (count + 1);
}

static uint64_t sorted_work(size_t count, size_t look_ups)
{
	return ((uint64_t)look_ups + count) * sorted_steps(count);
}

uint64_t schema_keys_work(size_t count, size_t look_ups)
{
	uint64_t linear = linear_work(count, look_ups), sorted = sorted_work(count, look_ups);
	return sorted < linear ? sorted : linear;
}

uint64_t schema_keys_find_work(const struct schema_keys *k)
{
	return k->sorted ? sorted_steps(k->count) : linear_work(k->object->count, 1);
}

int schema_keys_init(struct schema_keys *k, const struct json *object, size_t look_ups, struct error *e)
{
	*k = (struct schema_keys){.object = object};
	if (sorted_work(object->count, look_ups) >= linear_work(object->count, look_ups))
		return 0;
	k->sorted = mem_calloc(object->count, sizeof(*k->sorted), e);
	if (!k->sorted)
		return ERR_MEMORY;
	size_t index = 0;
	JSON_EACH (member, object) {
		if (!member->shadowed)
			k->sorted[k->count++] = (struct schema_key){member, index};
		index++;
	}
	qsort(k->sorted, k->count, sizeof(*k->sorted), compare_keys);
	return 0;
}

void schema_keys_free(struct schema_keys *k)
{
	free(k->sorted);
	*k = (struct schema_keys){0};
}

bool schema_keys_find(const struct schema_keys *k, struct str key, struct schema_key *out)
{
	if (k->sorted) {
		const struct schema_key *found =
			bsearch(&key, k->sorted, k->count, sizeof(*k->sorted), compare_with_key);
		if (found)
			*out = *found;
		return found;
	}
	*out = (struct schema_key){0};
	JSON_EACH (member, k->object) {
		out->member = member;
		if (!member->shadowed && str_equal(member->key, key))
			return true;
		out->index++;
	}
	return false;
}
