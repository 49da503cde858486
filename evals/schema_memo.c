#include "evals/schema_memo.h"

#include <stdlib.h>

static size_t slot_of(
	const struct schema_finding *slots, size_t capacity, const struct schema_node *node, const struct json *value)
{
	uint64_t key = ((uint64_t)(uintptr_t)node >> 4) * 0x9e3779b97f4a7c15u ^ (uint64_t)(uintptr_t)value >> 3;
	size_t slot = (size_t)((key * 0x9e3779b97f4a7c15u) >> 32) & (capacity - 1);
	while (slots[slot].node && (slots[slot].node != node || slots[slot].value != value))
		slot = (slot + 1) & (capacity - 1);
	return slot;
}

static int grow(struct schema_memo *m, struct error *e)
{
	size_t capacity = m->capacity ? 2 * m->capacity : 64;
	struct schema_finding *slots = mem_calloc(capacity, sizeof(*slots), e);
	if (!slots)
		return ERR_MEMORY;
	for (size_t i = 0; i < m->capacity; i++)
		if (m->slots[i].node)
			slots[slot_of(slots, capacity, m->slots[i].node, m->slots[i].value)] = m->slots[i];
	free(m->slots);
	m->slots = slots;
	m->capacity = capacity;
	return 0;
}

struct schema_finding *schema_memo_at(
	struct schema_memo *m, const struct schema_node *node, const struct json *value, struct error *e)
{
	if (2 * m->count >= m->capacity && grow(m, e) < 0)
		return NULL;
	struct schema_finding *f = &m->slots[slot_of(m->slots, m->capacity, node, value)];
	if (!f->node) {
		*f = (struct schema_finding){.node = node, .value = value};
		m->count++;
	}
	return f;
}

void schema_memo_free(struct schema_memo *m)
{
	for (size_t i = 0; i < m->capacity; i++)
		free(m->slots[i].seen);
	free(m->slots);
	*m = (struct schema_memo){0};
}
