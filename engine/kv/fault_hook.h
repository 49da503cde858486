/* Places in the page bookkeeping where a planned fault may fire: the interface that the engine owns and integrity/
 * fills. A site passes the value it is about to use; the hook returns it, or the wrong one. Off, a site costs one
 * predictable branch. */
#ifndef ASSAY_ENGINE_KV_FAULT_HOOK_H
#define ASSAY_ENGINE_KV_FAULT_HOOK_H

#include <stdint.h>

enum fault_site {
	FAULT_POOL_ALLOC,  /* value: the page that the pool hands out */
	FAULT_POOL_FREE,   /* value: how often the page goes on the free list */
	FAULT_TABLE_ENTRY, /* value: the physical page that the batch's block table gets */
	FAULT_SLOT,        /* value: the physical slot that a token's K, V go to */
	FAULT_LENGTH,      /* value: position of the first token of a sequence in this step */
	FAULT_SITE_COUNT
};

/* "pool.alloc", "pool.free", "table.entry", "slot", "length" */
const char *fault_site_name(enum fault_site site);

struct fault_hook {
	void *context;
	/* request 0: none; index: logical page or token of the request, 0 where there is none */
	int64_t (*at)(void *context, enum fault_site site, uint64_t request, int64_t index, int64_t value);
};

/* The table that does nothing: at is NULL. */
extern const struct fault_hook fault_hook_none;

static inline int64_t fault_at(
	const struct fault_hook *hook, enum fault_site site, uint64_t request, int64_t index, int64_t value)
{
	return __builtin_expect(hook->at != 0, 0) ? hook->at(hook->context, site, request, index, value) : value;
}

#endif
