#include "engine/kv/handover.h"

enum { PAGES_AT_ONCE = 64 };

/* Pages [first, first + n) of a hand-over, as the sender writes them. */
struct piece {
	const struct kv_handover *h;
	int first, n;
	int32_t target[PAGES_AT_ONCE];
};

static int page_tokens(const struct kv_handover *h, int logical)
{
	int page_size = h->to->geometry.page_size, rest = h->n_tokens - logical * page_size;
	return rest < page_size ? rest : page_size;
}

/* n pages of the piece, their first n_tokens slots, of every layer. */
static void pages_copy(const struct piece *p, int from, int n, int n_tokens, uint64_t *saturated)
{
	const struct kv_handover *h = p->h;

	kv_pool_copy(&(struct kv_copy){h->from, h->to, h->source + p->first + from, p->target + from, n, n_tokens},
		saturated);
}

static struct kv_guard_transfer transfer_of(const struct kv_handover *h, int logical, int32_t target)
{
	return (struct kv_guard_transfer){.from = h->from->guard_state,
		.request = h->request,
		.logical = logical,
		.source = h->source[logical],
		.target = target,
		.n_tokens = page_tokens(h, logical)};
}

/* Copies the pages and, when they are there, tags them. */
static int piece_send(struct piece *p, uint64_t *saturated, struct error *e)
{
	const struct kv_handover *h = p->h;
	struct kv_pool *to = h->to;
	int last = page_tokens(h, p->first + p->n - 1), whole = p->n - (last < to->geometry.page_size);

	for (int i = 0; i < p->n; i++)
		p->target[i] = (int32_t)fault_at(
			to->faults, FAULT_TRANSFER_TARGET, to, h->request, p->first + i, h->target[p->first + i]);
	pages_copy(p, 0, whole, to->geometry.page_size, saturated);
	pages_copy(p, whole, p->n - whole, last, saturated);
	TRY(kv_pool_finish(to, e));
	for (int i = 0; i < p->n; i++) {
		struct kv_guard_transfer t = transfer_of(h, p->first + i, p->target[i]);
		to->guard->transfer_sent(to->guard_state, &t);
	}
	return 0;
}

static int pages_read(const struct kv_handover *h, enum kv_guard_phase phase, struct error *e)
{
	return h->from->guard->transfer_read(h->from->guard_state, phase, h->request, h->source, h->n_tokens, e);
}

int kv_handover(const struct kv_handover *h, uint64_t *saturated, struct error *e)
{
	struct kv_pool *to = h->to;
	int page_size = to->geometry.page_size, n_pages = (h->n_tokens + page_size - 1) / page_size;
	int sent = (int)fault_at(to->faults, FAULT_TRANSFER_PAGES, to, h->request, h->first, n_pages);

	TRY(pages_read(h, KV_GUARD_BEFORE_READ, e));
	for (int first = h->first; first < sent; first += PAGES_AT_ONCE) {
		struct piece p = {
			.h = h, .first = first, .n = sent - first < PAGES_AT_ONCE ? sent - first : PAGES_AT_ONCE};
		TRY(piece_send(&p, saturated, e));
	}
	TRY(pages_read(h, KV_GUARD_BEFORE_PUBLISH, e));
	for (int i = h->first; i < n_pages; i++) {
		struct kv_guard_transfer t = transfer_of(h, i, h->target[i]);
		TRY(to->guard->transfer_received(to->guard_state, &t, e));
	}
	return 0;
}
