#include "engine/kv/handover.h"

/* `n` pages, their first n_tokens slots, of every layer. */
static void pages_copy(const struct kv_handover *h, int first, int n, int n_tokens, uint64_t *saturated)
{
	struct backend *b = h->to->backend;

	for (int layer = 0; n > 0 && layer < h->to->n_layers; layer++)
		b->ops->copy_pages(b,
			&(struct copy_pages_args){.from_geometry = h->from->geometry,
				.to_geometry = h->to->geometry,
				.from = h->from->layers[layer],
				.to = h->to->layers[layer],
				.source = h->source + first,
				.target = h->target + first,
				.n = n,
				.n_tokens = n_tokens,
				.saturated = saturated});
}

int kv_handover(const struct kv_handover *h, uint64_t *saturated, struct error *e)
{
	int page_size = h->to->geometry.page_size, whole = h->n_tokens / page_size, rest = h->n_tokens % page_size;
	const struct kv_guard *guard = h->to->guard;
	void *state = h->to->guard_state;

	pages_copy(h, h->first, whole - h->first, page_size, saturated);
	pages_copy(h, whole, rest > 0, rest, saturated);
	TRY(h->to->backend->ops->finish(h->to->backend, e));
	for (int i = h->first; i < whole + (rest > 0); i++)
		guard->transfer_sent(state, h->request, i, h->target[i], i < whole ? page_size : rest);
	for (int i = h->first; i < whole + (rest > 0); i++)
		TRY(guard->transfer_received(state, h->request, i, h->target[i], i < whole ? page_size : rest, e));
	return 0;
}
