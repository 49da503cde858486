/* What checks the page bookkeeping: the interface that the engine owns and integrity/ fills. The engine calls every
 * function at the named place; the default, kv_guard_none, is a table of empty functions. A guard watches the tables
 * that the kernel will read. */
#ifndef ASSAY_ENGINE_KV_KV_GUARD_H
#define ASSAY_ENGINE_KV_KV_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"

struct backend;
struct kv_pool;

enum kv_guard_phase {
	KV_GUARD_BEFORE_READ,    /* the batch is built, no kernel has read a page */
	KV_GUARD_BEFORE_PUBLISH, /* the step has run, nothing was published */
};

/* What the guard must be able to cover; it refuses what it cannot. */
struct kv_guard_layout {
	struct backend *backend; /* verify_pages runs there */
	struct kv_pool *pool; /* alive until close; its books are what audit reads, and pages are quarantined there */
	int page_size, n_pages, n_layers;
	bool latent; /* MLA rows instead of K and V */
};

/* One step's batch, as the kernels see it. Borrowed for the call. */
struct kv_guard_batch {
	uint64_t step;
	uint64_t epoch; /* of this call: no two calls have the same, and none is 0 */
	int n_sequences, n_tokens;
	const uint64_t *request;       /* [B] ids; 0: a row of padding, which must touch page 0 alone */
	const int32_t *cu_seqlens;     /* [B + 1] */
	const int32_t *first_position; /* [B] */
	const int32_t *block_tables;   /* [B, table_stride] */
	int table_stride;
	const int64_t *slots;      /* [T] */
	const int32_t *tokens;     /* [T] ids whose K, V are written in this step */
	const int32_t *positions;  /* [T] that RoPE turns them by */
	const int32_t *const *own; /* [B] the request's own tokens from position 0 on, NULL: padding */
	const int32_t *emitted;    /* [B] tokens that were generated for the request before this step */
	uint64_t *validated;       /* [B] out: epoch, where every check of the sequence ran */
};

/* What the prefix cache believes of a page that it takes up. */
struct kv_guard_key {
	uint64_t request; /* that maps the page at `logical` and wrote it */
	uint64_t writer;  /* variant that made the values */
	int logical;
	int32_t page, parent;  /* parent: the page of the cache before it, 0: none */
	const int32_t *tokens; /* [n_tokens] that the page holds */
	int n_tokens;
};

/* What a request finds when it is taken in: the pages of tokens [0, n_shared) are the prefix cache's, of the others up
 * to n_ready the K, V were copied or handed over. */
struct kv_guard_admission {
	uint64_t request, writer;
	const int32_t *tokens; /* [n_ready] */
	int n_shared;          /* a multiple of the page size */
	int n_ready;
};

/* Copy on write: the first n_tokens slots of a page of the cache go to the request's own page `target`. */
struct kv_guard_copy {
	uint64_t request, writer;
	int logical;
	int32_t source, target;
	const int32_t *tokens; /* [n_tokens] that they should hold */
	int n_tokens;
};

/* Hand-over of one page: its first n_tokens slots were written in the target pool. */
struct kv_guard_transfer {
	void *from; /* the state of the pool where the page comes from; NULL: it is not known any more */
	uint64_t request;
	int logical;
	int32_t source, target;
	int n_tokens;
};

enum {
	KV_PAGE_OWNED = 1, /* the request holds it: its reference is to be given up */
	KV_PAGE_CLEAN = 2, /* nothing speaks against what it holds */
};

struct kv_guard {
	const char *level; /* "none", "tags", "pages", "chain", "digest" */
	bool enforces;     /* a sequence that verify did not stamp is not read and not published */
	void *context;     /* handed to open */

	/* Called for each pool of the engine (a split variant has two): *state is handed to every other function. */
	int (*open)(void *context, const struct kv_guard_layout *layout, void **state, struct error *e);
	/* Once, before any request: so many map pages at a time, so many logical pages each. */
	int (*reserve)(void *state, int max_requests, int table_stride, struct error *e);
	void (*close)(void *state);                     /* not called when open failed */
	void (*step_begin)(void *state, uint64_t tick); /* between steps; tick: one more in every step */
	/* The scales that the pool's layer should have from now on. */
	void (*scales_set)(void *state, int layer, float k_scale, float v_scale);

	void (*page_allocated)(void *state, int32_t page, uint64_t request);
	void (*page_freed)(void *state, int32_t page, uint64_t request);
	/* The bookkeeping intends logical page `logical` of the request to be `page`: the one allocated for it just now,
	 * or one of the prefix cache's. */
	void (*page_mapped)(void *state, uint64_t request, int logical, int32_t page);
	void (*page_indexed)(void *state, const struct kv_guard_key *key); /* the prefix cache took the page up */
	void (*page_unindexed)(void *state, int32_t page);                 /* and gave it up */
	/* Before the copy: ERR_DEVICE when the source must not be read. After it. */
	int (*copy_begin)(void *state, const struct kv_guard_copy *copy, struct error *e);
	void (*copy_end)(void *state, const struct kv_guard_copy *copy);
	/* The request's pages are mapped and what was there before it is told; no step has read them. ERR_DEVICE: none may. */
	int (*request_admitted)(void *state, const struct kv_guard_admission *admission, struct error *e);
	/* Of a request that is given up as bad: KV_PAGE_… of what it maps. */
	int (*page_standing)(void *state, uint64_t request, int logical, int32_t page);
	/* The request maps nothing in this pool any more: it ended, was preempted or handed over. */
	void (*request_released)(void *state, uint64_t request);

	/* bad[b] is set for a sequence that must not be read or published: its output of this step is withheld and it
	 * is aborted. One that is set already is not looked at. What the device keeps from being read by itself may be set
	 * in the second phase. A guard that could not check says so by an error: nothing of the step is published. */
	int (*verify)(void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad,
		struct error *e);
	/* The engine found that sequence b of the batch was not stamped. */
	void (*not_validated)(void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, int b);

	/* Hand-over, in the state of the pool where the request is: its pages [0, n) of n_tokens tokens are about to be
	 * read, or were (phase). ERR_DEVICE: they must not be. */
	int (*transfer_read)(void *state, enum kv_guard_phase phase, uint64_t request, const int32_t *pages,
		int n_tokens, struct error *e);
	/* In the state of the pool that takes it: the sender says that the page is whole; then the receiver asks, before
	 * the request runs there. ERR_DEVICE aborts it. */
	void (*transfer_sent)(void *state, const struct kv_guard_transfer *transfer);
	int (*transfer_received)(void *state, const struct kv_guard_transfer *transfer, struct error *e);

	void (*audit)(void *state); /* free list and reference counts, at admission and at release */
};

extern const struct kv_guard kv_guard_none;

#endif
