/* The page pool: one set of physical pages that all layers share, each layer with its own K and V memory. Ranks
 * share the pages too, each with memory for its own kv heads: one set of books stands for all. Page 0 is reserved
 * for padding and never handed out. Pages are counted by reference: a page is free, mapped by requests, or idle
 * (held by the prefix cache alone, which gives it up when pages are needed). */
#ifndef ASSAY_ENGINE_KV_KV_POOL_H
#define ASSAY_ENGINE_KV_KV_POOL_H

#include "engine/backend.h"
#include "engine/comm.h"
#include "engine/kv/fault_hook.h"
#include "engine/kv/kv_guard.h"
#include "engine/model/model_config.h"

struct kv_pool {
	struct backend *backend; /* rank 0's */
	struct backend *backends[COMM_MAX_RANKS];
	int n_ranks;
	const struct kv_guard *guard;
	void *guard_state; /* what the guard knows of this pool */
	const struct fault_hook *faults;
	struct kv_geometry geometry; /* of one rank's memory: its share of the kv heads */
	enum kv_format format;
	int n_layers;
	struct kv_layer *layers; /* [n_ranks, n_layers] */
	int32_t *free_pages;     /* stack of n_free pages, lowest on top at the start */
	int n_free;
	uint16_t *references; /* [n_pages] requests that map the page, and the prefix cache; 0: free */
	uint8_t *cached;      /* [n_pages] the prefix cache is one of them */
	int n_idle;           /* pages that the prefix cache alone holds, without those in quarantine */
	uint8_t *quarantined; /* [n_pages] not handed out until the guard finds that nothing speaks against it */
	int n_quarantined;
};

/* Bytes of K and V of one token over all layers. */
uint64_t kv_bytes_per_token(const struct model_config *config, enum kv_format format);

/* backends: [n_ranks], n_ranks divides the kv heads. pages = budget of all ranks / bytes per page. ERR_USAGE when
 * fewer than two fit, or page_size does not divide 64. */
int kv_pool_init(struct kv_pool *pool, struct backend *const *backends, int n_ranks, const struct model_config *config,
	enum kv_format format, int page_size, uint64_t budget, const struct kv_guard *guard,
	const struct fault_hook *faults, struct error *e);
void kv_pool_free(struct kv_pool *pool); /* zeroes *pool */

static inline const struct kv_layer *kv_pool_layer(const struct kv_pool *pool, int rank, int layer)
{
	return &pool->layers[rank * pool->n_layers + layer];
}

/* The first n_tokens slots of page source[i] of `from` to page target[i] of `to`, of every layer and rank, converted
 * to the format of `to`. saturated (or NULL): += values that this clipped. */
struct kv_copy {
	const struct kv_pool *from;
	struct kv_pool *to;             /* of the same model, page size and ranks */
	const int32_t *source, *target; /* [n] */
	int n, n_tokens;
};
void kv_pool_copy(const struct kv_copy *copy, uint64_t *saturated);

/* Waits for what was copied to the pool. */
int kv_pool_finish(const struct kv_pool *pool, struct error *e);

/* Scales of one layer's K and V (fp8): stored value = value / scale. */
void kv_pool_set_scales(struct kv_pool *pool, int layer, float k_scale, float v_scale);

/* A page with one reference for the request, or 0 when none is free. */
int32_t kv_pool_alloc(struct kv_pool *pool, uint64_t request);

/* One more request maps the page. */
void kv_pool_retain(struct kv_pool *pool, int32_t page);

/* A request gives up its reference; the page is free after the last. */
void kv_pool_release(struct kv_pool *pool, int32_t page, uint64_t request);

/* The prefix cache becomes a holder of a page that a request maps, or gives it up. */
void kv_pool_cache(struct kv_pool *pool, int32_t page);
void kv_pool_uncache(struct kv_pool *pool, int32_t page);

/* The page leaves the free list, and does not come back to it when its last holder gives it up. */
void kv_pool_quarantine(struct kv_pool *pool, int32_t page);

/* The end of that: the page has so many holders, the cache among them, and is free without any. */
void kv_pool_readmit(struct kv_pool *pool, int32_t page, int references);

/* Counts the idle pages again. */
void kv_pool_recount(struct kv_pool *pool);

/* Pages that may still be handed out; those that requests map; all but page 0. */
int kv_pool_available(const struct kv_pool *pool);
int kv_pool_in_use(const struct kv_pool *pool);
int kv_pool_usable(const struct kv_pool *pool);

#endif
