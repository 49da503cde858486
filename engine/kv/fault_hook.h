/* Places in the page bookkeeping where a planned fault may fire: the interface that the engine owns and integrity/
 * fills. A site passes the value it is about to use; the hook returns it, or the wrong one. Off, a site costs one
 * predictable branch. */
#ifndef ASSAY_ENGINE_KV_FAULT_HOOK_H
#define ASSAY_ENGINE_KV_FAULT_HOOK_H

#include <stdint.h>

struct kv_pool;

/* index: what the value belongs to. */
enum fault_site {
	FAULT_POOL_ALLOC,      /* value: the page that the pool hands out */
	FAULT_POOL_FREE,       /* page: how often it goes on the free list */
	FAULT_POOL_LEFT,       /* page: references that are left after one was given up */
	FAULT_POOL_RETAIN,     /* page: references that a new holder adds */
	FAULT_RADIX_EVICT,     /* page: its references, when it is about to be given up */
	FAULT_RADIX_UNINDEX,   /* page: whether it leaves the tree when it is given up */
	FAULT_RADIX_PARENT,    /* another page whose followers hold these tokens, -1: none: the one whose are searched */
	FAULT_RADIX_SHARED,    /* page: tokens that it is found to share with what is asked */
	FAULT_RADIX_HIT,       /* value: the page that is found */
	FAULT_RADIX_INSERT,    /* known tokens: those whose pages the cache may take; less than 0: they are withdrawn */
	FAULT_COPY_ON_WRITE,   /* page that matched in part: whether it is copied */
	FAULT_ADMISSION,       /* most that may be: tokens that are there when a request is taken in */
	FAULT_TABLE_ENTRY,     /* logical page: the physical page that the batch's block table gets */
	FAULT_TABLE_ROW,       /* value: the sequence whose row this one gets */
	FAULT_TABLE_LENGTH,    /* value: entries that are written to the row */
	FAULT_TABLE_RENEW,     /* value: whether the row is written at all, or keeps what the last step left there */
	FAULT_SLOT,            /* position: the physical slot that a token's K, V go to */
	FAULT_POSITION,        /* position: the one that RoPE turns by */
	FAULT_LENGTH,          /* value: position of the first token of a sequence in this step */
	FAULT_PADDING_SLOT,    /* row: the slot that a row of padding writes */
	FAULT_TRANSFER_PAGES,  /* value: pages that a hand-over copies */
	FAULT_TRANSFER_TARGET, /* logical page: the page that it is copied to */
	FAULT_STEP,            /* between the batch and the kernels that read it; value 0 */
	FAULT_SITE_COUNT
};

/* "pool.alloc", "pool.free", … */
const char *fault_site_name(enum fault_site site);

struct fault_point {
	enum fault_site site;
	const struct kv_pool *pool;
	uint64_t request; /* 0: none */
	int64_t index, value;
};

struct fault_hook {
	void *context;
	int64_t (*at)(void *context, const struct fault_point *point);
};

/* The table that does nothing: at is NULL. */
extern const struct fault_hook fault_hook_none;

/* PRECOND: pool is open. In kv_pool.h: pool->faults. */
static inline int64_t fault_at(const struct fault_hook *hook, enum fault_site site, const struct kv_pool *pool,
	uint64_t request, int64_t index, int64_t value)
{
	return __builtin_expect(hook->at != 0, 0)
		? hook->at(hook->context, &(struct fault_point){site, pool, request, index, value})
		: value;
}

#endif
