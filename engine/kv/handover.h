/* Hand-over: the pages of a request go from one pool to another, converted to the format of the target. After a page's
 * values are there its transfer tag is written (kv_guard: transfer_sent), last of all, so that a late writer exposes
 * itself; the receiver asks for it before the page is mapped (transfer_received). */
#ifndef ASSAY_ENGINE_KV_HANDOVER_H
#define ASSAY_ENGINE_KV_HANDOVER_H

#include "engine/kv/kv_pool.h"

struct kv_handover {
	const struct kv_pool *from;
	struct kv_pool *to; /* of the same model and page size */
	uint64_t request;
	const int32_t *source, *target; /* [ceil(n_tokens / page_size)] by logical page */
	int first;                      /* logical pages before it are in the target already */
	int n_tokens;                   /* of the request, all with K, V in source */
};

/* saturated: += values clipped by the target's format. ERR_DEVICE: the backend failed, or the guard refused a page. */
int kv_handover(const struct kv_handover *h, uint64_t *saturated, struct error *e);

#endif
