#include "engine/kv/radix_cache.h"

#include <stdlib.h>
#include <string.h>

int radix_cache_init(struct radix_cache *c, struct kv_pool *pool, struct error *e)
{
	size_t n = (size_t)pool->geometry.n_pages;

	*c = (struct radix_cache){.pool = pool};
	c->nodes = mem_calloc(n, sizeof *c->nodes, e);
	c->tokens = mem_calloc(n * (size_t)pool->geometry.page_size, sizeof *c->tokens, e);
	c->index = mem_calloc(n, sizeof *c->index, e);
	return c->nodes && c->tokens && c->index ? 0 : ERR_MEMORY;
}

void radix_cache_free(struct radix_cache *c)
{
	free(c->nodes);
	free(c->tokens);
	free(c->index);
	*c = (struct radix_cache){0};
}

/* ---- order of keys ---- */

struct key {
	int32_t parent;
	uint64_t writer;
	const int32_t *tokens;
	int n_tokens;
};

static int32_t *page_tokens(const struct radix_cache *c, int32_t page)
{
	return c->tokens + (size_t)page * (size_t)c->pool->geometry.page_size;
}

static struct key page_key(const struct radix_cache *c, int32_t page)
{
	const struct radix_node *n = &c->nodes[page];
	return (struct key){n->parent, n->writer, page_tokens(c, page), n->n_tokens};
}

static int common_tokens(const int32_t *a, int n_a, const int32_t *b, int n_b)
{
	int n = n_a < n_b ? n_a : n_b, i = 0;
	while (i < n && a[i] == b[i])
		i++;
	return i;
}

/* As words in a dictionary: a key comes before those that go on from it. */
static int key_compare(const struct key *a, const struct key *b)
{
	if (a->parent != b->parent)
		return a->parent < b->parent ? -1 : 1;
	if (a->writer != b->writer)
		return a->writer < b->writer ? -1 : 1;
	int i = common_tokens(a->tokens, a->n_tokens, b->tokens, b->n_tokens);
	if (i < a->n_tokens && i < b->n_tokens)
		return a->tokens[i] < b->tokens[i] ? -1 : 1;
	return (a->n_tokens > b->n_tokens) - (a->n_tokens < b->n_tokens);
}

/* Where in the index the key is or would be. */
static int key_position(const struct radix_cache *c, const struct key *key)
{
	int low = 0, high = c->n_nodes;

	while (low < high) {
		int middle = low + (high - low) / 2;
		struct key there = page_key(c, c->index[middle]);
		if (key_compare(&there, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Tokens that the key shares with the page at that place of the index, 0 for one that is no sibling. */
static int shared_at(const struct radix_cache *c, int position, const struct key *key)
{
	if (position < 0 || position >= c->n_nodes)
		return 0;
	struct key there = page_key(c, c->index[position]);
	if (there.parent != key->parent || there.writer != key->writer)
		return 0;
	return common_tokens(there.tokens, there.n_tokens, key->tokens, key->n_tokens);
}

/* The sibling that shares the most first tokens with the key: in the order of a dictionary it stands next to it. */
static int32_t sibling_nearest(const struct radix_cache *c, const struct key *key, int *shared)
{
	int at = key_position(c, key), here = shared_at(c, at, key), before = shared_at(c, at - 1, key);

	*shared = here >= before ? here : before;
	return *shared == 0 ? 0 : c->index[here >= before ? at : at - 1];
}

/* ---- order of use ---- */

static void use_unlink(struct radix_cache *c, int32_t page)
{
	struct radix_node *n = &c->nodes[page];

	*(n->older ? &c->nodes[n->older].newer : &c->oldest) = n->newer;
	*(n->newer ? &c->nodes[n->newer].older : &c->newest) = n->older;
}

static void use_link(struct radix_cache *c, int32_t page)
{
	c->nodes[page].older = c->newest;
	c->nodes[page].newer = 0;
	*(c->newest ? &c->nodes[c->newest].newer : &c->oldest) = page;
	c->newest = page;
}

/* The page and then each page above it become the most recently used. */
static void page_touch(struct radix_cache *c, int32_t page)
{
	for (; page != 0; page = c->nodes[page].parent) {
		use_unlink(c, page);
		use_link(c, page);
	}
}

/* ---- the tree ---- */

/* Where a fault site is watched: a page other than the key's parent, after which the same tokens come. -1: none. */
static int64_t parent_elsewhere(const struct radix_cache *c, const struct key *key)
{
	for (int i = 0; i < c->n_nodes; i++) {
		struct key there = page_key(c, c->index[i]);
		if (there.parent != key->parent && there.writer == key->writer &&
			common_tokens(there.tokens, there.n_tokens, key->tokens, key->n_tokens) == key->n_tokens)
			return there.parent;
	}
	return -1;
}

struct radix_match radix_cache_match(
	struct radix_cache *c, uint64_t writer, const int32_t *tokens, int n, int32_t *pages)
{
	int page_size = c->pool->geometry.page_size, shared = 0;
	const struct fault_hook *faults = c->pool->faults;
	struct radix_match m = {0};
	int32_t last = 0, parent = 0;

	while (m.n_tokens < n) {
		int rest = n - m.n_tokens;
		struct key key = {parent, writer, tokens + m.n_tokens, rest < page_size ? rest : page_size};
		key.parent = (int32_t)fault_at(
			faults, FAULT_RADIX_PARENT, c->pool, 0, faults->at ? parent_elsewhere(c, &key) : -1, parent);
		int32_t page = sibling_nearest(c, &key, &shared);
		if (shared == 0)
			break;
		shared = (int)fault_at(faults, FAULT_RADIX_SHARED, c->pool, 0, key.n_tokens, shared);
		page = (int32_t)fault_at(faults, FAULT_RADIX_HIT, c->pool, 0, shared, page);
		last = page;
		m.n_tokens += shared;
		if (shared < page_size) {
			m.tail = page;
			break;
		}
		pages[m.n_pages++] = parent = page;
	}
	page_touch(c, last);
	return m;
}

static void node_remove(struct radix_cache *c, int32_t page)
{
	struct radix_node *n = &c->nodes[page];
	struct key key = page_key(c, page);
	int at = key_position(c, &key);

	memmove(c->index + at, c->index + at + 1, (size_t)(c->n_nodes - at - 1) * sizeof *c->index);
	c->n_nodes--;
	use_unlink(c, page);
	if (n->parent)
		c->nodes[n->parent].n_children--;
	c->pool->guard->page_unindexed(c->pool->guard_state, page);
	if (c->pool->cached[page]) /* a page that was taken away from under the cache is another's by now */
		kv_pool_uncache(c->pool, page);
}

int32_t radix_cache_insert(struct radix_cache *c, const struct radix_page *add)
{
	struct key key = {add->parent, add->writer, add->tokens, add->n_tokens};
	int32_t page = add->page;
	int shared;
	int32_t nearest = sibling_nearest(c, &key, &shared);

	if (shared == add->n_tokens) {
		page_touch(c, nearest);
		return nearest;
	}
	if (nearest && shared == c->nodes[nearest].n_tokens)
		node_remove(c, nearest); /* a part of a page that the new one holds whole */
	int at = key_position(c, &key);
	memmove(c->index + at + 1, c->index + at, (size_t)(c->n_nodes - at) * sizeof *c->index);
	c->index[at] = page;
	c->n_nodes++;
	c->nodes[page] = (struct radix_node){
		.parent = add->parent, .n_tokens = add->n_tokens, .writer = add->writer, .request = add->request};
	memcpy(page_tokens(c, page), add->tokens, (size_t)add->n_tokens * sizeof *add->tokens);
	if (add->parent)
		c->nodes[add->parent].n_children++;
	use_link(c, page);
	page_touch(c, add->parent);
	kv_pool_cache(c->pool, page);
	return page;
}

bool radix_cache_holds(const struct radix_cache *c, int32_t page)
{
	if (page < 1 || page >= c->pool->geometry.n_pages)
		return false;
	struct key key = page_key(c, page);
	int at = key_position(c, &key);
	return at < c->n_nodes && c->index[at] == page;
}

/* A child of the page. PRECOND: there is one. */
static int32_t first_child(const struct radix_cache *c, int32_t page)
{
	struct key before_all = {page, 0, NULL, 0};
	return c->index[key_position(c, &before_all)];
}

void radix_cache_forget(struct radix_cache *c, int32_t page)
{
	for (;;) {
		int32_t leaf = page;
		while (c->nodes[leaf].n_children > 0)
			leaf = first_child(c, leaf);
		node_remove(c, leaf);
		if (leaf == page)
			return;
	}
}

static void idle_evict(struct radix_cache *c, int n)
{
	/* A page that a request maps has only such pages above it, so an idle page has none but idle ones below it, and
	 * those are older: every idle page that the walk meets is a leaf by then. */
	for (int32_t page = c->oldest, next; page != 0 && c->pool->n_free < n; page = next) {
		next = c->nodes[page].newer;
		int64_t holders = c->pool->references[page];
		holders = fault_at(c->pool->faults, FAULT_RADIX_EVICT, c->pool, 0, page, holders);
		if (holders != 1 || c->nodes[page].n_children > 0)
			continue;
		c->pool->references[page] = (uint16_t)holders;
		if (fault_at(c->pool->faults, FAULT_RADIX_UNINDEX, c->pool, 0, page, 1))
			node_remove(c, page);
		else
			kv_pool_uncache(c->pool, page);
		c->evicted++;
	}
}

/* Takes out the leaves that only broken bookkeeping leaves behind, whose pages are not the cache's any more: what is above
 * them could never be given up. False: there are none. */
static bool dead_remove(struct radix_cache *c)
{
	bool any = false;

	for (int32_t page = c->oldest, next; page != 0; page = next) {
		next = c->nodes[page].newer;
		if (c->nodes[page].n_children > 0 || (c->pool->cached[page] && c->pool->references[page] > 0))
			continue;
		node_remove(c, page);
		any = true;
	}
	return any;
}

void radix_cache_make_room(struct radix_cache *c, int n)
{
	do
		idle_evict(c, n);
	while (c->pool->n_free < n && dead_remove(c));
}

/* ---- audit ---- */

static int node_audit(const struct radix_cache *c, int32_t page, struct error *e)
{
	const struct radix_node *n = &c->nodes[page];
	int page_size = c->pool->geometry.page_size;

	if (!c->pool->cached[page])
		return error_set(e, ERR_DEVICE, "prefix cache: page %d is in the tree, and not held by it", page);
	if (n->n_tokens < 1 || n->n_tokens > page_size || (n->n_children > 0 && n->n_tokens < page_size))
		return error_set(e, ERR_DEVICE, "prefix cache: page %d of %d tokens has %d children", page, n->n_tokens,
			n->n_children);
	if (n->parent && !c->pool->cached[n->parent])
		return error_set(
			e, ERR_DEVICE, "prefix cache: page %d follows page %d, which is not there", page, n->parent);
	if (n->parent && c->nodes[n->parent].writer != n->writer)
		return error_set(e, ERR_DEVICE, "prefix cache: pages %d and %d are of two writers", n->parent, page);
	return 0;
}

static int index_audit(const struct radix_cache *c, struct error *e)
{
	int children = 0, inner = 0;

	for (int i = 0; i < c->n_nodes; i++) {
		struct key key = page_key(c, c->index[i]);
		TRY(node_audit(c, c->index[i], e));
		children += c->nodes[c->index[i]].n_children;
		inner += key.parent != 0;
		if (i == 0)
			continue;
		struct key before = page_key(c, c->index[i - 1]);
		int shared = shared_at(c, i - 1, &key);
		if (key_compare(&before, &key) >= 0 || shared == before.n_tokens)
			return error_set(e, ERR_DEVICE, "prefix cache: pages %d and %d are not in order",
				c->index[i - 1], c->index[i]);
	}
	if (children != inner)
		return error_set(e, ERR_DEVICE, "prefix cache: %d children are counted, %d are there", children, inner);
	return 0;
}

static int use_audit(const struct radix_cache *c, struct error *e)
{
	int n = 0;
	int32_t before = 0;

	for (int32_t page = c->oldest; page != 0; page = c->nodes[page].newer) {
		const struct radix_node *node = &c->nodes[page];
		if (++n > c->n_nodes || node->older != before || !c->pool->cached[page])
			return error_set(e, ERR_DEVICE, "prefix cache: the order of use is broken at page %d", page);
		before = page;
	}
	if (n != c->n_nodes || c->newest != before)
		return error_set(
			e, ERR_DEVICE, "prefix cache: %d pages in the order of use, %d in the tree", n, c->n_nodes);
	return 0;
}

int radix_cache_audit(const struct radix_cache *c, struct error *e)
{
	int cached = 0;

	TRY(index_audit(c, e));
	TRY(use_audit(c, e));
	for (int page = 0; page < c->pool->geometry.n_pages; page++)
		cached += c->pool->cached[page];
	if (cached != c->n_nodes)
		return error_set(e, ERR_DEVICE, "prefix cache: %d pages are held, %d in the tree", cached, c->n_nodes);
	return 0;
}
