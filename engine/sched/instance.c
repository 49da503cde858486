#include "engine/sched/instance.h"

#include <string.h>

#include "engine/base/hash.h"
#include "engine/kv/handover.h"

int instance_init(struct instance *in, struct model *models, struct kv_pool *pool, const char *writer,
	struct engine_stats *stats, struct error *e)
{
	*in = (struct instance){
		.models = models, .pool = pool, .writer = hash64(writer, strlen(writer)), .stats = stats};
	return radix_cache_init(&in->cache, pool, e);
}

void instance_free(struct instance *in)
{
	request_list_free(&in->running);
	radix_cache_free(&in->cache);
	*in = (struct instance){0};
}

int instance_pages(const struct instance *in, int tokens)
{
	int page_size = in->pool->geometry.page_size;
	return (tokens + page_size - 1) / page_size;
}

int instance_read_end(const struct instance *in, const struct request *r)
{
	int end = request_read_end(r);
	return in->prompts_only && end > r->n_prompt ? r->n_prompt : end;
}

int instance_pending(const struct instance *in, const struct request *r)
{
	return instance_read_end(in, r) - r->n_computed;
}

/* ---- mapping ---- */

static void page_map(struct instance *in, struct request *r, int32_t page)
{
	in->pool->guard->page_mapped(in->pool->guard_state, r->id, r->map.n_pages, page);
	r->map.pages[r->map.n_pages++] = page;
}

static void page_map_fresh(struct instance *in, struct request *r)
{
	page_map(in, r, kv_pool_alloc(in->pool, r->id));
}

/* The guard, or the backend, refused the request's pages: r->error says why. */
static void request_fail(struct request *r)
{
	r->suspect = true;
	request_end(r, ENGINE_FAILED);
}

static void match_retain(struct instance *in, const struct radix_match *m, const int32_t *pages)
{
	for (int i = 0; i < m->n_pages; i++)
		kv_pool_retain(in->pool, pages[i]);
	if (m->tail)
		kv_pool_retain(in->pool, m->tail);
}

static void match_release(struct instance *in, const struct radix_match *m, const int32_t *pages, uint64_t request)
{
	for (int i = 0; i < m->n_pages; i++)
		kv_pool_release(in->pool, pages[i], request);
	if (m->tail)
		kv_pool_release(in->pool, m->tail, request);
}

/* Pages for all that is known of the request: those of the cache that hold its first tokens, up to `most` of them, and
 * fresh ones. m->tail is retained, for its first tokens to be copied. False, and nothing changed, when there are not
 * enough. */
static bool pages_map(struct instance *in, struct request *r, int most, struct radix_match *m)
{
	int needed = instance_pages(in, instance_read_end(in, r));

	*m = (struct radix_match){0};
	if (in->caching)
		*m = radix_cache_match(&in->cache, in->writer, r->tokens, most, r->map.pages);
	match_retain(in, m, r->map.pages);
	if (m->tail && kv_pool_available(in->pool) < needed - m->n_pages) {
		/* the page to copy from is one that the request itself needs: it does without the copy */
		kv_pool_release(in->pool, m->tail, r->id);
		m->tail = 0;
		m->n_tokens = m->n_pages * in->pool->geometry.page_size;
	}
	if (kv_pool_available(in->pool) >= needed - m->n_pages)
		radix_cache_make_room(&in->cache, needed - m->n_pages);
	if (in->pool->n_free < needed - m->n_pages) { /* idle pages above one in quarantine cannot be given up */
		match_release(in, m, r->map.pages, r->id);
		return false;
	}
	for (int i = 0; i < m->n_pages; i++)
		page_map(in, r, r->map.pages[i]);
	r->map.n_indexed = m->n_pages;
	while (r->map.n_pages < needed)
		page_map_fresh(in, r);
	return true;
}

/* Copy on write: the first tokens of the page that matched in part go to the request's own. */
static void tail_copy(struct instance *in, struct request *r, const struct radix_match *m)
{
	struct kv_pool *pool = in->pool;
	int page_size = pool->geometry.page_size;
	struct kv_guard_copy copy = {.request = r->id,
		.writer = in->writer,
		.logical = m->n_pages,
		.source = m->tail,
		.target = r->map.pages[m->n_pages],
		.tokens = r->tokens + (size_t)m->n_pages * (size_t)page_size,
		.n_tokens = m->n_tokens % page_size};

	if (!fault_at(pool->faults, FAULT_COPY_ON_WRITE, pool, r->id, m->tail, 1)) {
		kv_pool_release(pool, copy.target, r->id);
		kv_pool_retain(pool, copy.source);
		r->map.pages[copy.logical] = copy.source;
		pool->guard->page_mapped(pool->guard_state, r->id, copy.logical, copy.source);
		return;
	}
	if (pool->guard->copy_begin(pool->guard_state, &copy, &r->error) < 0) {
		request_fail(r);
		if (radix_cache_holds(&in->cache, m->tail))
			radix_cache_forget(&in->cache, m->tail); /* others would find it too */
		return;
	}
	kv_pool_copy(&(struct kv_copy){pool, pool, &copy.source, &copy.target, 1, copy.n_tokens}, NULL);
	pool->guard->copy_end(pool->guard_state, &copy);
	in->stats->pages_copied++;
}

/* n_shared: tokens in pages of the cache. */
static void admission_tell(struct instance *in, struct request *r, int n_shared)
{
	struct kv_guard_admission a = {.request = r->id,
		.writer = in->writer,
		.tokens = r->tokens,
		.n_shared = n_shared,
		.n_ready = r->n_computed};

	if (in->pool->guard->request_admitted(in->pool->guard_state, &a, r->ended ? NULL : &r->error) < 0)
		request_fail(r);
	in->pool->guard->audit(in->pool->guard_state);
}

bool instance_admit(struct instance *in, struct request *r)
{
	int first_row = request_first_row(r), end = instance_read_end(in, r), most = first_row < end ? first_row : end;
	struct radix_match m;

	if (in->running.count == in->max_requests || !pages_map(in, r, most, &m))
		return false;
	if (m.tail) {
		tail_copy(in, r, &m);
		kv_pool_release(in->pool, m.tail, r->id);
	}
	r->n_computed = (int)fault_at(in->pool->faults, FAULT_ADMISSION, in->pool, r->id, most, m.n_tokens);
	if (m.n_tokens > r->n_seen) {
		int more = (m.n_tokens < r->n_prompt ? m.n_tokens : r->n_prompt) - r->n_seen;
		r->cached_tokens += more > 0 ? more : 0;
		in->stats->cached_tokens += (uint64_t)(more > 0 ? more : 0);
		r->n_seen = m.n_tokens;
	}
	if (r->started == 0.0)
		r->started = clock_seconds();
	request_list_insert(&in->running, r);
	admission_tell(in, r, m.n_pages * in->pool->geometry.page_size);
	return true;
}

bool instance_grow(struct instance *in, struct request *r)
{
	while (r->map.n_pages < instance_pages(in, instance_read_end(in, r))) {
		if (kv_pool_available(in->pool) == 0)
			return false;
		radix_cache_make_room(&in->cache, 1);
		if (in->pool->n_free == 0)
			return false;
		page_map_fresh(in, r);
	}
	return true;
}

/* ---- the cache ---- */

static void page_index_tell(struct instance *in, const struct request *r, int i, int n_tokens)
{
	in->pool->guard->page_indexed(in->pool->guard_state,
		&(struct kv_guard_key){.request = r->id,
			.writer = in->writer,
			.logical = i,
			.page = r->map.pages[i],
			.parent = i > 0 ? r->map.pages[i - 1] : 0,
			.tokens = r->tokens + (size_t)i * (size_t)in->pool->geometry.page_size,
			.n_tokens = n_tokens});
}

/* A page of the request, of n_tokens tokens, to the cache. Where the cache holds these tokens already, the bits are the
 * same, and the request goes on with that page. */
static void page_index(struct instance *in, struct request *r, int i, int n_tokens)
{
	struct mapping *map = &r->map;
	int page_size = in->pool->geometry.page_size;
	int32_t holder = radix_cache_insert(&in->cache,
		&(struct radix_page){.writer = in->writer,
			.request = r->id,
			.parent = i > 0 ? map->pages[i - 1] : 0,
			.tokens = r->tokens + (size_t)i * (size_t)page_size,
			.n_tokens = n_tokens,
			.page = map->pages[i]});

	if (holder == map->pages[i])
		page_index_tell(in, r, i, n_tokens);
	if (n_tokens < page_size)
		return;
	map->n_indexed++;
	if (holder == map->pages[i])
		return;
	kv_pool_retain(in->pool, holder);
	kv_pool_release(in->pool, map->pages[i], r->id);
	map->pages[i] = holder;
	in->pool->guard->page_mapped(in->pool->guard_state, r->id, i, holder);
}

/* The page before the next one to index is in the cache still (it was taken out if the request that added it was
 * aborted), and that one is not (it would be in two places of the tree: only broken bookkeeping brings it there). */
static bool may_index(const struct instance *in, const struct mapping *map)
{
	const uint8_t *cached = in->pool->cached;
	int i = map->n_indexed;

	return in->caching && map->pages[i] > 0 && (i == 0 || cached[map->pages[i - 1]]) && !cached[map->pages[i]] &&
		!radix_cache_holds(&in->cache, map->pages[i]);
}

/* Tokens that another request may find in this instance: where prompts arrive, those alone, since what was generated was
 * not made by the variant that computes prompts. */
static int tokens_shareable(const struct instance *in, const struct request *r)
{
	return in->prompts_arrive && r->n_computed > r->n_prompt ? r->n_prompt : r->n_computed;
}

/* Tokens of the request whose pages the cache keeps; less than 0: what it has of them is withdrawn. */
static int tokens_kept(const struct instance *in, const struct request *r, bool keep)
{
	const struct kv_pool *pool = in->pool;
	int mapped = r->map.n_pages * pool->geometry.page_size, known = r->n_tokens < mapped ? r->n_tokens : mapped;

	return (int)fault_at(pool->faults, FAULT_RADIX_INSERT, pool, r->id, known, keep ? tokens_shareable(in, r) : -1);
}

static void pages_index(struct instance *in, struct request *r, int n)
{
	int page_size = in->pool->geometry.page_size;

	while ((r->map.n_indexed + 1) * page_size <= n && may_index(in, &r->map))
		page_index(in, r, r->map.n_indexed, page_size);
}

void instance_index(struct instance *in, struct request *r)
{
	pages_index(in, r, tokens_kept(in, r, true));
}

/* All that the request added goes, and what others added after it. */
static void pages_withdraw(struct instance *in, const struct request *r)
{
	for (int i = 0; i < r->map.n_indexed; i++) {
		int32_t page = r->map.pages[i];
		if (!in->pool->cached[page] || in->cache.nodes[page].request != r->id)
			continue;
		radix_cache_forget(&in->cache, page);
		return; /* the rest was below it */
	}
}

/* What the request maps of the cache, and should not: taken out, for others would find it too. */
static void pages_disown(struct instance *in, const struct request *r)
{
	const struct kv_guard *guard = in->pool->guard;

	for (int i = 0; i < r->map.n_indexed; i++) {
		int32_t page = r->map.pages[i];
		int standing = guard->page_standing(in->pool->guard_state, r->id, i, page);
		if (standing == (KV_PAGE_OWNED | KV_PAGE_CLEAN) || !radix_cache_holds(&in->cache, page))
			continue;
		radix_cache_forget(&in->cache, page);
		return; /* the rest was below it */
	}
}

/* The request gives up what it maps; one that the guard found bad only what is its own, into quarantine. */
static void mapping_release(struct instance *in, const struct request *r)
{
	struct kv_pool *pool = in->pool;
	bool suspect = r->suspect && pool->guard->enforces;

	for (int i = 0; i < r->map.n_pages; i++) {
		int32_t page = r->map.pages[i];
		if (suspect) {
			if (!(pool->guard->page_standing(pool->guard_state, r->id, i, page) & KV_PAGE_OWNED))
				continue;
			kv_pool_quarantine(pool, page);
		}
		kv_pool_release(pool, page, r->id);
	}
}

static void pages_give_up(struct instance *in, struct request *r, bool keep)
{
	int page_size = in->pool->geometry.page_size, n = tokens_kept(in, r, keep);

	if (n < 0) {
		if (r->suspect && in->pool->guard->enforces)
			pages_disown(in, r);
		pages_withdraw(in, r);
	} else {
		pages_index(in, r, n);
		if (n / page_size == r->map.n_indexed && n % page_size > 0 && may_index(in, &r->map))
			page_index(in, r, n / page_size, n % page_size);
	}
	mapping_release(in, r);
	r->map.n_pages = r->map.n_indexed = 0;
	in->pool->guard->request_released(in->pool->guard_state, r->id);
	in->pool->guard->audit(in->pool->guard_state);
}

void instance_release(struct instance *in, struct request *r, bool keep)
{
	pages_give_up(in, r, keep);
	request_list_remove(&in->running, r);
	r->n_computed = 0;
	r->held_for = 0;
}

/* ---- hand-over ---- */

bool instance_receive(struct instance *in, struct instance *from, struct request *r)
{
	int page_size = in->pool->geometry.page_size;
	struct mapping source = r->map;
	struct radix_match m;

	r->map = (struct mapping){.pages = r->spare_pages};
	if (in->running.count == in->max_requests || !pages_map(in, r, r->n_prompt / page_size * page_size, &m)) {
		r->map = source;
		return false;
	}
	if (m.tail) /* the source has the whole of it */
		kv_pool_release(in->pool, m.tail, r->id);
	struct kv_handover h = {from->pool, in->pool, r->id, source.pages, r->map.pages, m.n_pages, r->n_prompt};
	in->stats->pages_transferred += (uint64_t)(instance_pages(in, r->n_prompt) - m.n_pages);
	if (kv_handover(&h, &in->stats->kv_saturated, &r->error) < 0)
		request_fail(r);

	struct mapping target = r->map;
	r->map = source;
	instance_release(from, r, !r->ended);
	r->spare_pages = r->map.pages;
	r->map = target;
	r->n_computed = r->n_prompt;
	request_list_insert(&in->running, r);
	admission_tell(in, r, m.n_pages * page_size);
	if (!r->ended)
		instance_index(in, r);
	return true;
}
