/* Memory of a guard's books: arrays one after the other in few large pages. A step reads so much between two checks that the
 * processor forgets where small pages are too, and to look one up costs more than to read from it. */
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "integrity/guard_memory.h"

/* AddressSanitizer sees what runs over from one array into the next by a gap between them. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
enum { GAP = 64 };
#else
#define ASAN_POISON_MEMORY_REGION(from, bytes) ((void)0)
#define ASAN_UNPOISON_MEMORY_REGION(from, bytes) ((void)0)
enum { GAP = 0 };
#endif

enum {
	LINE = 64,            /* bytes of a line of the caches: arrays begin with one */
	LARGE_PAGE = 1 << 21, /* of x86-64, and the usual one of AArch64 */
	LARGE_FROM = 1 << 17, /* bytes for which one of them is asked for */
	SMALL_BLOCK = 1 << 12,
};

static size_t rounded(size_t bytes, size_t to)
{
	return (bytes + to - 1) / to * to;
}

static size_t array_bytes(const struct guard_array *a)
{
	return rounded(a->count * a->size, LINE) + GAP;
}

/* The kernel gives zeros, and gives them when they are touched: books of a pool whose pages are not used cost nothing. */
static int block_map(struct guard_memory *m, size_t bytes, struct error *e)
{
	bool large = bytes >= LARGE_FROM;
	size_t size = rounded(bytes, large ? LARGE_PAGE : SMALL_BLOCK), whole = large ? size + LARGE_PAGE : size;
	struct guard_block *block = &m->blocks[m->n_blocks];

	block->base = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block->base == MAP_FAILED)
		return error_set(e, ERR_MEMORY, "no memory for %zu bytes", whole);
	block->bytes = whole;
	m->n_blocks++;
	uintptr_t start = (uintptr_t)block->base;
	m->at = (char *)block->base + (large ? rounded(start, LARGE_PAGE) - start : 0);
	m->end = m->at + size;
	if (large)
		(void)madvise(m->at, size, MADV_HUGEPAGE); /* advice: without it everything is as right, and slower */
	return 0;
}

int guard_memory_take(struct guard_memory *m, const struct guard_array *arrays, size_t n, struct error *e)
{
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		if (arrays[i].size != 0 && arrays[i].count > (PTRDIFF_MAX / 64 - LINE - GAP) / arrays[i].size)
			return error_set(
				e, ERR_MEMORY, "no memory for %zu x %zu bytes", arrays[i].count, arrays[i].size);
		bytes += array_bytes(&arrays[i]);
	}
	if (bytes > (size_t)(m->end - m->at)) {
		assert(m->n_blocks < (int)(sizeof m->blocks / sizeof *m->blocks));
		TRY(block_map(m, bytes, e));
	}
	for (size_t i = 0; i < n; i++) {
		size_t used = arrays[i].count * arrays[i].size, taken = array_bytes(&arrays[i]);
		*arrays[i].array = used ? m->at : NULL;
		ASAN_POISON_MEMORY_REGION(m->at + used, taken - used);
		m->at += taken;
	}
	return 0;
}

void guard_memory_free(struct guard_memory *m)
{
	for (int i = 0; i < m->n_blocks; i++) {
		ASAN_UNPOISON_MEMORY_REGION(m->blocks[i].base, m->blocks[i].bytes);
		munmap(m->blocks[i].base, m->blocks[i].bytes);
	}
	*m = (struct guard_memory){0};
}
