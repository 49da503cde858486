/* The pool's books against the guard's: free list, reference counts; and pages that come back from quarantine. */
#include "integrity/guard_state.h"

/* What an audit at admission and at release looks at in a larger pool; the one that comes every so many steps looks at
 * everything. */
enum { AUDIT_PAGES = 4096 };

static int holders_of(const struct guard_state *s, int32_t page)
{
	return s->holders[page] + (s->index_tags[page] != 0);
}

/* A finding about a page condemns no request: the page is never handed out while somebody may hold it. */
static void page_condemn(struct guard_state *s, int32_t page, enum guard_check check, uint64_t expected,
	uint64_t actual, const char *what)
{
	if (s->reported[page])
		return;
	s->reported[page] = 1;
	guard_fire(s, NULL, &(struct finding){check, GUARD_AT_AUDIT, page, -1, expected, actual, what});
	if (s->guard->options.observe)
		return;
	kv_pool_quarantine(s->layout.pool, page);
	s->listed[page] = 0;
}

/* Counts the free list from that place on. */
static void list_count(struct guard_state *s, int from)
{
	const struct kv_pool *pool = s->layout.pool;

	for (int i = from; i < pool->n_free; i++) {
		int32_t page = pool->free_pages[i];
		if (page >= 0 && page < s->layout.n_pages) {
			s->listed[page] = (uint8_t)(s->listed[page] < 2 ? s->listed[page] + 1 : 2);
			continue;
		}
		if (!s->list_broken)
			guard_fire(s, NULL,
				&(struct finding){GUARD_FREE_LIST, GUARD_AT_AUDIT, page, -1,
					(uint64_t)s->layout.n_pages, (uint64_t)page,
					"a page of the free list is outside of the pool"});
		s->list_broken = true;
	}
}

static void page_audit(struct guard_state *s, int32_t page)
{
	const struct kv_pool *pool = s->layout.pool;
	int held = holders_of(s, page), listed = s->listed[page], references = pool->references[page];
	bool in_use = held > 0 || s->tags[page] != 0;

	if (listed > 1 || (listed > 0 && in_use))
		page_condemn(s, page, GUARD_FREE_LIST, in_use ? 0 : 1, (uint64_t)listed,
			in_use ? "a page in use is on the free list" : "a page is on the free list twice");
	else if (listed == 0 && !in_use && references == 0)
		page_condemn(s, page, GUARD_FREE_LIST, 1, 0, "a page is neither free nor in use");
	else if (references != held)
		page_condemn(s, page, GUARD_REFERENCES, (uint64_t)held, (uint64_t)references,
			"the reference count is not the number of holders");
}

/* The end of the free list that is handed out next, and some pages further on than the last time. */
static void part_audit(struct guard_state *s)
{
	const struct kv_pool *pool = s->layout.pool;
	int from = pool->n_free > AUDIT_PAGES ? pool->n_free - AUDIT_PAGES : 0, until = pool->n_free;

	list_count(s, from);
	for (int i = from; i < until && i < pool->n_free; i++)
		if (page_inside(s, pool->free_pages[i]) && !pool->quarantined[pool->free_pages[i]])
			page_audit(s, pool->free_pages[i]);
	from -= until - pool->n_free; /* what was taken out moved the rest */
	for (int i = from > 0 ? from : 0; i < pool->n_free; i++)
		if (page_inside(s, pool->free_pages[i]))
			s->listed[pool->free_pages[i]] = 0;
	for (int i = 0; i < AUDIT_PAGES; i++) {
		s->audit_next = s->audit_next + 1 < s->layout.n_pages ? s->audit_next + 1 : 1;
		int held = holders_of(s, s->audit_next);
		if (!pool->quarantined[s->audit_next] && pool->references[s->audit_next] != held)
			page_condemn(s, s->audit_next, GUARD_REFERENCES, (uint64_t)held,
				pool->references[s->audit_next], "the reference count is not the number of holders");
	}
}

/* The pool hands out as many pages as it counts idle ones: one too many, and it promises what it does not have. */
static void idle_audit(struct guard_state *s)
{
	struct kv_pool *pool = s->layout.pool;
	int idle = 0;

	for (int32_t page = 1; page < s->layout.n_pages; page++)
		idle += (pool->cached[page] != 0) & (pool->references[page] == 1) & (pool->quarantined[page] == 0);
	if (idle == pool->n_idle || s->idle_reported)
		return;
	guard_fire(s, NULL,
		&(struct finding){GUARD_REFERENCES, GUARD_AT_AUDIT, -1, -1, (uint64_t)idle, (uint64_t)pool->n_idle,
			"the count of idle pages is not their number"});
	if (s->guard->options.observe)
		s->idle_reported = true;
	else
		kv_pool_recount(pool);
}

/* What page_audit says of every page, without a branch for each: whether it would find something. */
static bool pages_sound(const struct guard_state *s)
{
	const struct kv_pool *pool = s->layout.pool;
	int unsound = 0;

	for (int32_t page = 1; page < s->layout.n_pages; page++) {
		int held = holders_of(s, page), in_use = (held > 0) | (s->tags[page] != 0);
		int sound = (s->listed[page] == !in_use) & (pool->references[page] == held);
		unsound += (sound | (pool->quarantined[page] != 0)) ^ 1;
	}
	return unsound == 0;
}

static void pages_audit(struct guard_state *s)
{
	for (int32_t page = 1; page < s->layout.n_pages; page++)
		if (!s->layout.pool->quarantined[page])
			page_audit(s, page);
}

static void whole_audit(struct guard_state *s)
{
	const struct kv_pool *pool = s->layout.pool;

	idle_audit(s);
	list_count(s, 0);
	if (!pages_sound(s))
		pages_audit(s);
	if (s->listed[0] || pool->references[0] || pool->cached[0])
		page_condemn(s, 0, GUARD_FREE_LIST, 0, s->listed[0], "page 0, which is reserved, is in use");
	memset(s->listed, 0, (size_t)s->layout.n_pages * sizeof *s->listed);
}

void guard_audit(void *state)
{
	struct guard_state *s = state;

	if (state_level(s) < GUARD_PAGES)
		return;
	check_ran(s, GUARD_FREE_LIST);
	check_ran(s, GUARD_REFERENCES);
	if (s->layout.n_pages <= 2 * AUDIT_PAGES)
		whole_audit(s);
	else
		part_audit(s);
}

/* Pages of earlier steps: free when nobody holds them; back in use when all books agree on who does. */
static void quarantine_prove(struct guard_state *s)
{
	struct kv_pool *pool = s->layout.pool;

	for (int32_t page = 1; page < s->layout.n_pages && pool->n_quarantined > 0; page++) {
		if (!pool->quarantined[page])
			continue;
		int held = holders_of(s, page);
		if (held == 0 && !pool->cached[page]) {
			s->tags[page] = 0;
			s->reported[page] = 0;
			kv_pool_readmit(pool, page, 0);
		} else if (held > 0 && s->tags[page] != 0 && (s->index_tags[page] != 0) == (pool->cached[page] != 0)) {
			s->reported[page] = 0;
			kv_pool_readmit(pool, page, held);
		}
	}
}

void guard_step_begin(void *state, uint64_t tick)
{
	struct guard_state *s = state;

	s->tick = tick;
	if (s->layout.pool->n_quarantined > 0)
		quarantine_prove(s);
	if (tick % (uint64_t)s->guard->options.audit_every != 0 || state_level(s) < GUARD_PAGES)
		return;
	check_ran(s, GUARD_FREE_LIST);
	check_ran(s, GUARD_REFERENCES);
	whole_audit(s);
}
