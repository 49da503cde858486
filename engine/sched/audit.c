/* Every book of the pages held against the others. */
#include <stdlib.h>

#include "engine/sched/scheduler.h"

/* What is counted of one pool. */
struct count {
	const struct instance *in;
	int *holders; /* [P] requests that map the page, and the cache */
	int *on_list; /* [P] times on the free list */
};

static int table_audit(const struct count *c, const struct request *r, struct error *e)
{
	const struct instance *in = c->in;
	int n_pages = in->pool->geometry.n_pages, page_size = in->pool->geometry.page_size;

	if (r->n_computed < 0 || r->n_computed > r->n_tokens || instance_pages(in, r->n_computed) > r->map.n_pages)
		return error_set(e, ERR_DEVICE, "request %llu: %d of %d tokens are computed, and it maps %d pages",
			(unsigned long long)r->id, r->n_computed, r->n_tokens, r->map.n_pages);
	for (int i = 0; i < r->map.n_pages; i++) {
		int32_t page = r->map.pages[i];
		if (page < 1 || page >= n_pages)
			return error_set(e, ERR_DEVICE, "request %llu: logical page %d is page %d of %d",
				(unsigned long long)r->id, i, page, n_pages);
		c->holders[page]++;
		bool written = (i + 1) * page_size > r->n_computed; /* by a later step */
		if (written && (in->pool->cached[page] || in->pool->references[page] != 1))
			return error_set(e, ERR_DEVICE, "request %llu will write page %d, which has %d holders",
				(unsigned long long)r->id, page, in->pool->references[page]);
	}
	return 0;
}

/* The pages that the request shares with the cache spell its own tokens there. */
static int shared_audit(const struct instance *in, const struct request *r, struct error *e)
{
	int page_size = in->pool->geometry.page_size;

	for (int i = 0; i < r->map.n_indexed; i++) {
		int32_t page = r->map.pages[i];
		const int32_t *there = in->cache.tokens + (size_t)page * (size_t)page_size;
		if (!in->pool->cached[page])
			return 0; /* taken out when the request that added it was aborted */
		if (in->cache.nodes[page].parent != (i > 0 ? r->map.pages[i - 1] : 0) ||
			memcmp(there, r->tokens + (size_t)i * (size_t)page_size, (size_t)page_size * sizeof *there) !=
				0)
			return error_set(e, ERR_DEVICE, "request %llu: page %d of the cache holds other tokens",
				(unsigned long long)r->id, page);
	}
	return 0;
}

static int pool_audit(const struct count *c, struct error *e)
{
	const struct kv_pool *pool = c->in->pool;
	int idle = 0;

	for (int i = 0; i < pool->n_free; i++)
		c->on_list[pool->free_pages[i]]++;
	for (int page = 1; page < pool->geometry.n_pages; page++) {
		int held = c->holders[page] + pool->cached[page];
		idle += pool->cached[page] && held == 1 && !pool->quarantined[page];
		if (held != pool->references[page] || c->on_list[page] != (held == 0 && !pool->quarantined[page]))
			return error_set(e, ERR_DEVICE,
				"page %d: held by %d requests and %d cache, counted %d times, %d times on the free "
				"list",
				page, c->holders[page], pool->cached[page], pool->references[page], c->on_list[page]);
	}
	if (c->on_list[0] > 0 || pool->cached[0] || pool->references[0] > 0)
		return error_set(e, ERR_DEVICE, "page 0, which is reserved, is in use");
	if (idle != pool->n_idle)
		return error_set(e, ERR_DEVICE, "%d pages are idle, %d are counted", idle, pool->n_idle);
	return 0;
}

static int instance_audit(const struct count *c, struct error *e)
{
	uint64_t before = 0;

	for (const struct request *r = c->in->running.first; r; r = r->next) {
		if (r->id <= before)
			return error_set(e, ERR_DEVICE, "request %llu runs after request %llu",
				(unsigned long long)r->id, (unsigned long long)before);
		before = r->id;
		TRY(table_audit(c, r, e));
		TRY(shared_audit(c->in, r, e));
	}
	TRY(pool_audit(c, e));
	return radix_cache_audit(&c->in->cache, e);
}

int scheduler_audit(const struct scheduler *s, struct error *e)
{
	for (int i = 0; i < s->n_instances; i++) {
		struct count c = {.in = &s->instances[i]};
		size_t n = (size_t)c.in->pool->geometry.n_pages;
		c.holders = mem_calloc(n, sizeof *c.holders, e);
		c.on_list = mem_calloc(n, sizeof *c.on_list, e);
		int status = c.holders && c.on_list ? instance_audit(&c, e) : ERR_MEMORY;
		free(c.holders);
		free(c.on_list);
		TRY(status);
	}
	for (const struct request *r = s->waiting.first; r; r = r->next)
		if (r->map.n_pages > 0)
			return error_set(e, ERR_DEVICE, "request %llu waits, and maps %d pages",
				(unsigned long long)r->id, r->map.n_pages);
	return 0;
}
