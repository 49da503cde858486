/* Digests of the values of pages. */
#include "engine/base/hash.h"
#include "integrity/guard_state.h"

enum { SWEEP_BYTES = 1 << 17 }; /* of values in a step, and at least a page */

static size_t head_bytes(const struct kv_geometry *g, enum kv_format format)
{
	return (size_t)g->page_size * (size_t)g->head_dim * kv_format_size(format);
}

int digest_open(struct guard_state *s, struct error *e)
{
	const struct kv_pool *pool = s->layout.pool;
	size_t head = head_bytes(&pool->geometry, pool->format), page = head * (size_t)pool->geometry.n_kv_heads;

	s->digests = mem_calloc((size_t)s->layout.n_pages, sizeof *s->digests, e);
	s->sealed = mem_calloc((size_t)s->layout.n_pages, sizeof *s->sealed, e);
	s->scratch = mem_calloc(head, 1, e);
	if (!s->digests || !s->sealed || !s->scratch)
		return ERR_MEMORY;
	for (int r = 0; r < pool->n_ranks; r++) {
		struct backend *b = pool->backends[r];
		s->staged[r] = (struct kv_layer){.format = pool->format};
		s->staged[r].k = b->ops->alloc(b, page, e);
		s->staged[r].v = b->ops->alloc(b, page, e);
		if (!s->staged[r].k || !s->staged[r].v)
			return ERR_MEMORY;
	}
	return 0;
}

void digest_close(struct guard_state *s)
{
	const struct kv_pool *pool = s->layout.pool;

	for (int r = 0; r < pool->n_ranks; r++) {
		pool->backends[r]->ops->free(pool->backends[r], s->staged[r].k);
		pool->backends[r]->ops->free(pool->backends[r], s->staged[r].v);
	}
	free(s->digests);
	free(s->sealed);
	free(s->scratch);
}

/* The backend whose memory a layer of the pool is: ranks one after the other. */
static struct backend *layer_backend(const struct guard_state *s, int layer)
{
	return s->layout.pool->backends[layer / s->layout.n_layers];
}

/* The first n_tokens slots of a page, of every head of K or V. */
static uint64_t values_digest(
	struct guard_state *s, struct backend *b, const void *values, int32_t page, int n_tokens, uint64_t h)
{
	const struct kv_geometry *g = &s->layout.pool->geometry;
	size_t head = head_bytes(g, s->layout.pool->format), bytes = head / (size_t)g->page_size * (size_t)n_tokens;

	for (int i = 0; i < g->n_kv_heads; i++) {
		size_t at = ((size_t)page * (size_t)g->n_kv_heads + (size_t)i) * head;
		b->ops->download(b, s->scratch, (const char *)values + at, bytes);
		h = (h ^ hash64(s->scratch, bytes)) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 31;
	}
	return h;
}

static uint64_t page_digest(struct guard_state *s, int32_t page, int n_tokens)
{
	const struct kv_pool *pool = s->layout.pool;
	uint64_t h = (uint64_t)n_tokens;

	for (int layer = 0; layer < layers_count(s); layer++) {
		struct backend *b = layer_backend(s, layer);
		h = values_digest(s, b, pool->layers[layer].k, page, n_tokens, h);
		h = values_digest(s, b, pool->layers[layer].v, page, n_tokens, h);
	}
	return h;
}

void page_seal(struct guard_state *s, int32_t page)
{
	if (s->sealed[page] || s->soiled[page])
		return;
	s->digests[page] = page_digest(s, page, s->layout.page_size);
	s->sealed[page] = 1;
}

bool page_content_holds(struct guard_state *s, int32_t page)
{
	if (s->soiled[page])
		return false;
	if (!s->sealed[page])
		return true;
	check_ran(s, GUARD_CONTENT);
	if (page_digest(s, page, s->layout.page_size) == s->digests[page])
		return true;
	s->soiled[page] |= SOILED_CONTENT;
	return false;
}

bool pages_alike(struct guard_state *s, int32_t a, int32_t b, int n_tokens)
{
	check_ran(s, GUARD_CONTENT);
	return page_digest(s, a, n_tokens) == page_digest(s, b, n_tokens);
}

/* One layer of the source page, copied once more beside the pool, against what is in it. */
static bool layer_alike(struct guard_state *s, const struct kv_pool *from, const struct kv_guard_transfer *t, int layer)
{
	const struct kv_pool *to = s->layout.pool;
	struct backend *b = layer_backend(s, layer);
	struct kv_layer *staged = &s->staged[layer / s->layout.n_layers];
	struct kv_geometry one = to->geometry;
	int32_t first = 0;

	one.n_pages = 1;
	staged->k_scale = s->layers[layer].k_scale;
	staged->v_scale = s->layers[layer].v_scale;
	b->ops->copy_pages(b,
		&(struct copy_pages_args){.from_geometry = from->geometry,
			.to_geometry = one,
			.from = from->layers[layer],
			.to = *staged,
			.source = &t->source,
			.target = &first,
			.n = 1,
			.n_tokens = t->n_tokens});
	return values_digest(s, b, staged->k, 0, t->n_tokens, 0) ==
		values_digest(s, b, to->layers[layer].k, t->target, t->n_tokens, 0) &&
		values_digest(s, b, staged->v, 0, t->n_tokens, 0) ==
		values_digest(s, b, to->layers[layer].v, t->target, t->n_tokens, 0);
}

bool transfer_alike(struct guard_state *s, const struct kv_pool *from, const struct kv_guard_transfer *t)
{
	int layer = 0;

	check_ran(s, GUARD_CONTENT);
	while (layer < layers_count(s) && layer_alike(s, from, t, layer))
		layer++;
	if (layer == layers_count(s))
		return true;
	s->soiled[t->target] |= SOILED_CONTENT;
	return false;
}

void pages_sweep(struct guard_state *s)
{
	const struct kv_geometry *g = &s->layout.pool->geometry;
	size_t page_bytes = 2 * (size_t)layers_count(s) * (size_t)g->n_kv_heads * head_bytes(g, s->layout.pool->format);
	size_t left = SWEEP_BYTES / page_bytes > 0 ? SWEEP_BYTES / page_bytes : 1;

	for (int seen = 1; seen < s->layout.n_pages && left > 0; seen++) {
		s->sweep_next = s->sweep_next + 1 < s->layout.n_pages ? s->sweep_next + 1 : 1;
		if (!s->sealed[s->sweep_next] || s->soiled[s->sweep_next])
			continue;
		left--;
		if (!page_content_holds(s, s->sweep_next))
			mappers_fire(s,
				&(struct finding){GUARD_CONTENT, GUARD_AT_SWEEP, s->sweep_next, -1,
					s->digests[s->sweep_next], 0, "the values of a page changed"});
	}
}
