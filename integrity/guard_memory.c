/* Memory of a guard's books: arrays one after the other in few large pages. A step reads so much between two checks that the
 * processor forgets where small pages are too, and to look one up costs more than to read from it. */
#include "integrity/guard_memory.h"

#include <assert.h>
#include <stdint.h>

#include "engine/base/memory_gap.h"

enum { LINE = 64 }; /* bytes of a line of the caches: arrays begin with one */

static size_t array_bytes(const struct guard_array *a)
{
	return (a->count * a->size + LINE - 1) / LINE * LINE + MEMORY_GAP;
}

/* Books of a pool whose pages are not used cost nothing. */
static int block_map(struct guard_memory *m, size_t bytes, struct error *e)
{
	assert(m->n_blocks < (int)(sizeof m->blocks / sizeof *m->blocks));
	struct large_block *block = &m->blocks[m->n_blocks];
	TRY(large_block_map(block, bytes, e));
	m->n_blocks++;
	m->at = block->start;
	m->end = block->end;
	return 0;
}

int guard_memory_take(struct guard_memory *m, const struct guard_array *arrays, size_t n, struct error *e)
{
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		if (arrays[i].size != 0 && arrays[i].count > (PTRDIFF_MAX / 64 - LINE - MEMORY_GAP) / arrays[i].size)
			return error_set(
				e, ERR_MEMORY, "no memory for %zu x %zu bytes", arrays[i].count, arrays[i].size);
		bytes += array_bytes(&arrays[i]);
	}
	if (bytes > (size_t)(m->end - m->at))
		TRY(block_map(m, bytes, e));
	for (size_t i = 0; i < n; i++) {
		size_t used = arrays[i].count * arrays[i].size, taken = array_bytes(&arrays[i]);
		*arrays[i].array = used ? m->at : NULL;
		memory_forbid(m->at + used, taken - used);
		m->at += taken;
	}
	return 0;
}

void guard_memory_free(struct guard_memory *m)
{
	for (int i = 0; i < m->n_blocks; i++)
		large_block_unmap(&m->blocks[i]);
	*m = (struct guard_memory){0};
}
