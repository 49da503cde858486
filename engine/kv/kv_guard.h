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
	struct backend *backend;    /* verify_pages runs there */
	const struct kv_pool *pool; /* alive until close; its books are what audit reads */
	int page_size, n_pages, n_layers;
	bool latent; /* MLA rows instead of K and V */
};

/* One step's batch, as the kernels see it. Borrowed for the call. */
struct kv_guard_batch {
	uint64_t step;
	int n_sequences, n_tokens;
	const uint64_t *request;       /* [B] ids; 0: a row of padding, which must touch page 0 alone */
	const int32_t *cu_seqlens;     /* [B + 1] */
	const int32_t *first_position; /* [B] */
	const int32_t *block_tables;   /* [B, table_stride] */
	int table_stride;
	const int64_t *slots;  /* [T] */
	const int32_t *tokens; /* [T] ids whose K, V are written in this step */
};

struct kv_guard {
	const char *level; /* "none", "tags", "pages", "chain", "digest" */
	void *context;     /* handed to open */

	/* Called for each pool of the engine (a split variant has two): *state is handed to every other function. */
	int (*open)(void *context, const struct kv_guard_layout *layout, void **state, struct error *e);
	void (*close)(void *state); /* not called when open failed */
	void (*page_allocated)(void *state, int32_t page, uint64_t request);
	void (*page_freed)(void *state, int32_t page, uint64_t request);
	/* The bookkeeping intends logical page `logical` of the request to be `page`: the expectation, never refreshed
	 * from a table. Pages that the prefix cache shares are mapped before prefix_hit. */
	void (*page_mapped)(void *state, uint64_t request, int logical, int32_t page);
	/* The first n_tokens tokens of the request are in its pages already: written by others. */
	void (*prefix_hit)(void *state, uint64_t request, const int32_t *tokens, int n_tokens);
	/* The request maps nothing in this pool any more: it ended, was preempted or handed over. */
	void (*request_released)(void *state, uint64_t request);
	/* bad[b] is set for a sequence that must not be read or published: its output of this step is withheld and it
	 * is aborted. A guard that could not check says so by an error: nothing of the step is published. */
	int (*verify)(void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad,
		struct error *e);
	/* Hand-over into this pool: the sender says that logical page `logical`, whose first n_tokens slots it wrote, is
	 * whole; then the receiver asks, before it maps the page. ERR_DEVICE aborts the request. */
	void (*transfer_sent)(void *state, uint64_t request, int logical, int32_t page, int n_tokens);
	int (*transfer_received)(
		void *state, uint64_t request, int logical, int32_t page, int n_tokens, struct error *e);
	void (*audit)(void *state); /* free list and reference counts, at admission, at release, every 64 steps */
};

extern const struct kv_guard kv_guard_none;

#endif
