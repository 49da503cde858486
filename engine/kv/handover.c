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

static struct kv_guard_transfer transfer_of(const struct kv_handover *h, int logical)
{
	int page_size = h->to->geometry.page_size, rest = h->n_tokens - logical * page_size;

	return (struct kv_guard_transfer){.from = h->from->guard_state,
		.request = h->request,
		.logical = logical,
		.source = h->source[logical],
		.target = h->target[logical],
		.n_tokens = rest < page_size ? rest : page_size};
}

static int pages_read(const struct kv_handover *h, enum kv_guard_phase phase, struct error *e)
{
	return h->from->guard->transfer_read(h->from->guard_state, phase, h->request, h->source, h->n_tokens, e);
}

int kv_handover(const struct kv_handover *h, uint64_t *saturated, struct error *e)
{
	int page_size = h->to->geometry.page_size, whole = h->n_tokens / page_size, rest = h->n_tokens % page_size;
	const struct kv_guard *guard = h->to->guard;

	TRY(pages_read(h, KV_GUARD_BEFORE_READ, e));
	pages_copy(h, h->first, whole - h->first, page_size, saturated);
	pages_copy(h, whole, rest > 0, rest, saturated);
	TRY(h->to->backend->ops->finish(h->to->backend, e));
	TRY(pages_read(h, KV_GUARD_BEFORE_PUBLISH, e));
	for (int i = h->first; i < whole + (rest > 0); i++) {
		struct kv_guard_transfer t = transfer_of(h, i);
		guard->transfer_sent(h->to->guard_state, &t);
	}
	for (int i = h->first; i < whole + (rest > 0); i++) {
		struct kv_guard_transfer t = transfer_of(h, i);
		TRY(guard->transfer_received(h->to->guard_state, &t, e));
	}
	return 0;
}
