#include "engine/text/pieces.h"

#include <stdlib.h>
#include <string.h>

int pieces_push(struct pieces *p, struct piece piece, struct error *e)
{
	if (p->count == p->capacity) {
		size_t capacity = p->capacity ? p->capacity * 2 : 64;
		struct piece *list = realloc(p->list, capacity * sizeof(*list));
		if (!list)
			return error_set(e, ERR_MEMORY, "out of memory: %zu pieces of a text", capacity);
		p->list = list;
		p->capacity = capacity;
	}
	p->list[p->count++] = piece;
	return 0;
}

void pieces_free(struct pieces *p)
{
	free(p->list);
	memset(p, 0, sizeof(*p));
}
