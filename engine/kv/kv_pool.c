#include "engine/kv/kv_pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

uint64_t kv_bytes_per_token(const struct model_config *config, enum kv_format format)
{
	uint64_t values = 2 * (uint64_t)config->n_kv_heads * (uint64_t)config->head_dim;
	return values * (uint64_t)config->n_layers * kv_format_size(format);
}

static int layers_alloc(struct kv_pool *pool, struct error *e)
{
	const struct kv_geometry *g = &pool->geometry;
	size_t bytes = (size_t)g->n_pages * (size_t)g->page_size * (size_t)g->n_kv_heads * (size_t)g->head_dim *
		kv_format_size(pool->format);

	for (int l = 0; l < pool->n_ranks * pool->n_layers; l++) {
		struct kv_layer *layer = &pool->layers[l];
		struct backend *b = pool->backends[l / pool->n_layers];
		layer->format = pool->format;
		layer->k_scale = layer->v_scale = 1.0f;
		layer->k = b->ops->alloc(b, bytes, e);
		layer->v = b->ops->alloc(b, bytes, e);
		if (!layer->k || !layer->v)
			return error_prefix(e, "KV cache of %d pages", g->n_pages);
	}
	return 0;
}

static int pages_init(struct kv_pool *pool, struct error *e)
{
	int n = pool->geometry.n_pages;

	pool->layers = mem_calloc((size_t)pool->n_ranks * (size_t)pool->n_layers, sizeof *pool->layers, e);
	pool->free_pages = mem_calloc((size_t)n, sizeof *pool->free_pages, e);
	pool->references = mem_calloc((size_t)n, sizeof *pool->references, e);
	pool->cached = mem_calloc((size_t)n, sizeof *pool->cached, e);
	pool->quarantined = mem_calloc((size_t)n, sizeof *pool->quarantined, e);
	if (!pool->layers || !pool->free_pages || !pool->references || !pool->cached || !pool->quarantined)
		return ERR_MEMORY;
	for (int page = n - 1; page >= 1; page--)
		pool->free_pages[pool->n_free++] = page;
	return layers_alloc(pool, e);
}

enum { MOST_PAGES = 1 << 26 };

int kv_pool_init(struct kv_pool *pool, struct backend *const *backends, int n_ranks, const struct model_config *config,
	enum kv_format format, int page_size, uint64_t budget, const struct kv_guard *guard,
	const struct fault_hook *faults, struct error *e)
{
	*pool = (struct kv_pool){.backend = backends[0],
		.n_ranks = n_ranks,
		.faults = faults,
		.format = format,
		.n_layers = config->n_layers};
	memcpy(pool->backends, backends, (size_t)n_ranks * sizeof(struct backend *));
	if (page_size < 1 || ATTENTION_BLOCK % page_size != 0)
		return error_set(e, ERR_USAGE, "page size %d: expected a divisor of %d", page_size, ATTENTION_BLOCK);

	uint64_t page_bytes = kv_bytes_per_token(config, format) * (uint64_t)page_size, n = budget / page_bytes;
	if (n < 2)
		return error_set(e, ERR_USAGE,
			"KV memory of %llu bytes: expected at least %llu (two pages of %d tokens)",
			(unsigned long long)budget, (unsigned long long)(2 * page_bytes), page_size);
	if (n > MOST_PAGES)
		return error_set(e, ERR_USAGE, "KV memory of %llu bytes: expected at most %llu (%d pages of %d tokens)",
			(unsigned long long)budget, (unsigned long long)(MOST_PAGES * page_bytes), MOST_PAGES,
			page_size);
	pool->geometry = (struct kv_geometry){page_size, (int)n, config->n_kv_heads / n_ranks, config->head_dim};
	int status = pages_init(pool, e);
	if (status == 0)
		status = guard->open(guard->context,
			&(struct kv_guard_layout){pool->backend, pool, page_size, (int)n, config->n_layers, false},
			&pool->guard_state, e);
	if (status == 0)
		pool->guard = guard;
	else
		kv_pool_free(pool);
	return status;
}

void kv_pool_free(struct kv_pool *pool)
{
	if (pool->guard)
		pool->guard->close(pool->guard_state);
	for (int l = 0; pool->layers && l < pool->n_ranks * pool->n_layers; l++) {
		struct backend *b = pool->backends[l / pool->n_layers];
		b->ops->free(b, pool->layers[l].k);
		b->ops->free(b, pool->layers[l].v);
	}
	free(pool->layers);
	free(pool->free_pages);
	free(pool->references);
	free(pool->cached);
	free(pool->quarantined);
	*pool = (struct kv_pool){0};
}

void kv_pool_set_scales(struct kv_pool *pool, int layer, float k_scale, float v_scale)
{
	for (int r = 0; r < pool->n_ranks; r++) {
		pool->layers[r * pool->n_layers + layer].k_scale = k_scale;
		pool->layers[r * pool->n_layers + layer].v_scale = v_scale;
	}
	pool->guard->scales_set(pool->guard_state, layer, k_scale, v_scale);
}

void kv_pool_copy(const struct kv_copy *copy, uint64_t *saturated)
{
	struct kv_pool *to = copy->to;

	for (int l = 0; copy->n > 0 && l < to->n_ranks * to->n_layers; l++) {
		struct backend *b = to->backends[l / to->n_layers];
		b->ops->copy_pages(b,
			&(struct copy_pages_args){.from_geometry = copy->from->geometry,
				.to_geometry = to->geometry,
				.from = copy->from->layers[l],
				.to = to->layers[l],
				.source = copy->source,
				.target = copy->target,
				.n = copy->n,
				.n_tokens = copy->n_tokens,
				.saturated = saturated});
	}
}

int kv_pool_finish(const struct kv_pool *pool, struct error *e)
{
	for (int r = 0; r < pool->n_ranks; r++)
		TRY(pool->backends[r]->ops->finish(pool->backends[r], e));
	return 0;
}

int32_t kv_pool_alloc(struct kv_pool *pool, uint64_t request)
{
	if (pool->n_free == 0)
		return 0;
	int32_t page = pool->free_pages[--pool->n_free];
	pool->references[page] = 1;
	pool->guard->page_allocated(pool->guard_state, page, request);
	return (int32_t)fault_at(pool->faults, FAULT_POOL_ALLOC, pool, request, 0, page);
}

static bool is_idle(const struct kv_pool *pool, int32_t page)
{
	return pool->cached[page] && pool->references[page] == 1 && !pool->quarantined[page];
}

void kv_pool_retain(struct kv_pool *pool, int32_t page)
{
	int64_t added = fault_at(pool->faults, FAULT_POOL_RETAIN, pool, 0, page, 1);

	pool->n_idle -= is_idle(pool, page);
	pool->references[page] = (uint16_t)(pool->references[page] + added);
}

static void page_free(struct kv_pool *pool, int32_t page, uint64_t request)
{
	pool->guard->page_freed(pool->guard_state, page, request);
	if (pool->quarantined[page])
		return;
	int64_t times = fault_at(pool->faults, FAULT_POOL_FREE, pool, request, page, 1);
	while (times-- > 0 && pool->n_free < pool->geometry.n_pages)
		pool->free_pages[pool->n_free++] = page;
}

void kv_pool_release(struct kv_pool *pool, int32_t page, uint64_t request)
{
	assert(page > 0 && page < pool->geometry.n_pages);
	int64_t left = pool->references[page] > 0 ? pool->references[page] - 1 : 0;

	left = fault_at(pool->faults, FAULT_POOL_LEFT, pool, request, page, left);
	pool->references[page] = (uint16_t)left;
	if (left > 0)
		pool->n_idle += is_idle(pool, page);
	else
		page_free(pool, page, request);
}

void kv_pool_cache(struct kv_pool *pool, int32_t page)
{
	pool->cached[page] = 1;
	pool->references[page]++;
}

void kv_pool_uncache(struct kv_pool *pool, int32_t page)
{
	pool->n_idle -= is_idle(pool, page);
	pool->cached[page] = 0;
	if (pool->references[page] > 0 && --pool->references[page] == 0)
		page_free(pool, page, 0);
}

/* Counted afresh: where a page is in quarantine, references were wrong, and what was counted by them is too. */
static int idle_count(const struct kv_pool *pool)
{
	int n = 0;
	for (int page = 1; page < pool->geometry.n_pages; page++)
		n += is_idle(pool, page);
	return n;
}

void kv_pool_quarantine(struct kv_pool *pool, int32_t page)
{
	int kept = 0;

	if (pool->quarantined[page])
		return;
	pool->quarantined[page] = 1;
	pool->n_idle = idle_count(pool);
	pool->n_quarantined++;
	for (int i = 0; i < pool->n_free; i++)
		if (pool->free_pages[i] != page)
			pool->free_pages[kept++] = pool->free_pages[i];
	pool->n_free = kept;
}

void kv_pool_readmit(struct kv_pool *pool, int32_t page, int references)
{
	assert(pool->quarantined[page]);
	pool->quarantined[page] = 0;
	pool->n_quarantined--;
	pool->references[page] = (uint16_t)references;
	pool->n_idle = idle_count(pool);
	if (references == 0)
		pool->free_pages[pool->n_free++] = page;
}

void kv_pool_recount(struct kv_pool *pool)
{
	pool->n_idle = 0;
	for (int32_t page = 1; page < pool->geometry.n_pages; page++)
		pool->n_idle += is_idle(pool, page);
}

int kv_pool_available(const struct kv_pool *pool)
{
	return pool->n_free + pool->n_idle;
}

int kv_pool_in_use(const struct kv_pool *pool)
{
	return kv_pool_usable(pool) - kv_pool_available(pool);
}

int kv_pool_usable(const struct kv_pool *pool)
{
	return pool->geometry.n_pages - 1;
}
