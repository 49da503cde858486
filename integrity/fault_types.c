/* The table of faults, and how each finds its wrong value. */
#include <stdlib.h>
#include <string.h>

#include "engine/kv/kv_pool.h"
#include "integrity/fault.h"

/* ---- targets ---- */

static int64_t draw(struct fault_injector *f, int64_t n)
{
	return (int64_t)py_random_below(&f->rng, (uint64_t)n);
}

typedef bool page_test(const struct kv_pool *pool, int32_t page);

static bool page_is_live(const struct kv_pool *pool, int32_t page)
{
	return pool->references[page] > 0;
}

static bool page_is_idle(const struct kv_pool *pool, int32_t page)
{
	return pool->cached[page] && pool->references[page] == 1;
}

static bool page_is_cached(const struct kv_pool *pool, int32_t page)
{
	return pool->cached[page] != 0;
}

/* A page that passes, other than `not`, the first from a drawn place on; 0: there is none. */
static int32_t page_draw(struct fault_injector *f, const struct kv_pool *pool, page_test *test, int32_t not )
{
	int n = pool->geometry.n_pages - 1, from = (int)draw(f, n);

	for (int i = 0; i < n; i++) {
		int32_t page = 1 + (from + i) % n;
		if (page != not &&test(pool, page))
			return page;
	}
	return 0;
}

static bool page_instead(struct fault_injector *f, const struct fault_point *p, page_test *test, int64_t *value)
{
	int32_t page = page_draw(f, p->pool, test, (int32_t)p->value);
	*value = page;
	return page != 0;
}

/* ---- values of a page, read and written behind everybody's back ---- */

static size_t page_bytes(const struct kv_pool *pool)
{
	const struct kv_geometry *g = &pool->geometry;
	return (size_t)g->n_kv_heads * (size_t)g->page_size * (size_t)g->head_dim * kv_format_size(pool->format);
}

/* Moves the page between memory [n_layers, 2, page_bytes] and the pool. */
static void page_move(const struct kv_pool *pool, int32_t page, char *values, bool write)
{
	size_t bytes = page_bytes(pool), at = (size_t)page * bytes;

	for (int layer = 0; layer < pool->n_layers; layer++)
		for (int v = 0; v < 2; v++, values += bytes) {
			char *there = (char *)(v ? pool->layers[layer].v : pool->layers[layer].k) + at;
			if (write)
				pool->backend->ops->upload(pool->backend, there, values, bytes);
			else
				pool->backend->ops->download(pool->backend, values, there, bytes);
		}
}

/* Whether this is the occurrence at which the fault fires: what acts otherwise than by its value acts only then. */
static bool is_due(const struct fault_injector *f)
{
	return f->seen == f->occurrence;
}

/* The writer comes when the page was handed out again, and its new holder has written it in a step. */
static void writer_wait(struct fault_injector *f, const struct fault_point *p, int32_t page)
{
	if (is_due(f))
		f->late = (struct fault_late_writer){
			.pool = p->pool, .request = p->request, .page = page, .steps_to_land = -1};
}

static bool page_keep(struct fault_injector *f, const struct kv_pool *pool, int32_t page)
{
	f->late.values = calloc((size_t)pool->n_layers * 2, page_bytes(pool));
	if (f->late.values)
		page_move(pool, page, f->late.values, false);
	return f->late.values != NULL;
}

/* The values, and then the word of the sender that the page is whole. */
static void writer_land(const struct fault_late_writer *late)
{
	const struct kv_pool *pool = late->pool;

	page_move(pool, late->page, late->values, true);
	if (late->tags)
		pool->guard->transfer_sent(pool->guard_state,
			&(struct kv_guard_transfer){.request = late->request,
				.logical = late->logical,
				.target = late->page,
				.n_tokens = pool->geometry.page_size});
}

void fault_late_writer_at(struct fault_injector *f, const struct fault_point *p)
{
	struct fault_late_writer *late = &f->late;

	if (p->pool != late->pool)
		return;
	if (p->site == FAULT_POOL_ALLOC && p->value == late->page && p->request != late->request && late->values)
		late->steps_to_land = 1;
	if (p->site != FAULT_STEP)
		return;
	if (!late->values)
		page_keep(f, late->pool, late->page);
	if (late->steps_to_land < 0 || late->steps_to_land-- > 0)
		return;
	writer_land(late);
	fault_injector_free(f);
	late->pool = NULL;
}

/* ---- M1, M4, M5: counts and lists ---- */

static bool one_less_if_held(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	(void)f;
	*value = p->value - 1;
	return p->value > 1;
}

static bool one_holder(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	(void)f;
	*value = 1;
	return p->value > 1;
}

static bool zero(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	(void)f;
	*value = 0;
	return p->value > 0;
}

static bool twice(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	(void)f;
	*value = 2 * p->value;
	return true;
}

static bool live_page(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	return page_instead(f, p, page_is_live, value);
}

static bool cached_page(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	return page_instead(f, p, page_is_cached, value);
}

/* ---- M2: writers that come late ---- */

static bool freed_page_kept(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	*value = p->value;
	writer_wait(f, p, (int32_t)p->index);
	if (is_due(f))
		page_keep(f, p->pool, (int32_t)p->index);
	return true;
}

/* The page is kept when the hand-over is over. */
static bool transfer_page_kept(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	*value = p->value;
	writer_wait(f, p, (int32_t)p->value);
	return true;
}

static bool transfer_page_kept_and_tagged(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	transfer_page_kept(f, p, value);
	if (is_due(f)) {
		f->late.logical = (int)p->index;
		f->late.tags = true;
	}
	return true;
}

/* ---- M3, M6, M7: what is there, what is found ---- */

static bool all_that_may_be(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	(void)f;
	*value = p->index;
	return p->index > p->value;
}

/* Every page of what is known, where less is computed. */
static bool pages_too_early(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	int page_size = p->pool->geometry.page_size;
	(void)f;
	*value = p->index;
	return p->value >= 0 && p->index / page_size > p->value / page_size;
}

static bool other_parent(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	(void)f;
	*value = p->index;
	return p->index >= 0;
}

static bool aborted_kept(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	(void)f;
	*value = p->index;
	return p->value < 0 && p->index > 0;
}

/* All that was asked of the page, where only its first tokens are the same. */
static bool key_cut_short(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	(void)f;
	*value = p->index;
	return p->index > p->value;
}

/* ---- M8 to M12: slots, positions, tables, rows ---- */

static bool one_more(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	(void)f;
	*value = p->value + 1;
	return true;
}

/* The newest entry stays what the last step left there. */
static bool one_less(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	(void)f;
	*value = p->value - 1;
	return p->value > 0;
}

static bool slot_next(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	int page_size = p->pool->geometry.page_size;
	(void)f;
	*value = p->value + 1;
	return *value % page_size != 0;
}

/* The same offset in a page that somebody holds. */
static bool slot_elsewhere(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	int page_size = p->pool->geometry.page_size;
	int32_t page = page_draw(f, p->pool, page_is_live, (int32_t)(p->value / page_size));
	*value = (int64_t)page * page_size + p->value % page_size;
	return page != 0;
}

/* Page 0 takes the write: the slot keeps what it had. */
static bool slot_reserved(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	(void)f;
	*value = p->value % p->pool->geometry.page_size;
	return true;
}

static bool slot_outside(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	*value = p->value + (int64_t)p->pool->geometry.n_pages * p->pool->geometry.page_size + draw(f, 64);
	return true;
}

static bool page_outside(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	*value = p->pool->geometry.n_pages + draw(f, 1 << 20);
	return true;
}

static bool row_before(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	(void)f;
	*value = p->value - 1;
	return p->value > 0;
}

/* ---- M13: scales, layout, values ---- */

static struct kv_layer *layer_at(const struct fault_point *p, int layer)
{
	return &p->pool->layers[layer]; /* what the kernels are about to be given */
}

static bool scale_lost(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	int layer = (int)draw(f, p->pool->n_layers);
	struct kv_layer *l = layer_at(p, layer);

	*value = p->value;
	if (l->format != KV_E4M3 || (l->k_scale == 1.0f && l->v_scale == 1.0f))
		return false;
	if (is_due(f)) {
		l->k_scale = l->v_scale = 1.0f;
		f->mark.everyone = true;
	}
	return true;
}

static bool layer_swapped(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	struct kv_layer *l = layer_at(p, (int)draw(f, p->pool->n_layers));
	void *k = l->k;

	*value = p->value;
	if (is_due(f)) {
		l->k = l->v;
		l->v = k;
		f->mark.everyone = true;
	}
	return true;
}

static bool bit_flipped(struct fault_injector *f, const struct fault_point *p, int64_t *value)
{
	int32_t page = page_draw(f, p->pool, page_is_idle, 0);
	size_t bytes = (size_t)p->pool->n_layers * 2 * page_bytes(p->pool);

	*value = page;
	if (page == 0 || !is_due(f))
		return page != 0;
	if (!page_keep(f, p->pool, page))
		return false;
	char *values = f->late.values;
	values[draw(f, (int64_t)bytes)] ^= (char)(1 << draw(f, 8));
	page_move(p->pool, page, values, true);
	fault_injector_free(f);
	f->mark = (struct fault_mark){.pool = p->pool, .pages = {page}};
	return true;
}

/* ---- the table ---- */

static const struct fault_type types[] = {
	{"pool.free.early", 1, FAULT_POOL_LEFT, GUARD_TAGS, "frees a page when the first of its holders gives it up",
		"vllm#47021", "freeing takes the tag away from those that still map the page", zero},
	{"radix.evict.in_use", 1, FAULT_RADIX_EVICT, GUARD_TAGS, "evicts a cached page that a request maps",
		"sglang#24226", "eviction frees the page, and with it goes the tag that the request expects",
		one_holder},
	{"transfer.late_write", 2, FAULT_TRANSFER_TARGET, GUARD_PAGES,
		"a hand-over writes and tags a page once more after it was given to another request", "sglang#35049",
		"no table changes: only the transfer tag, written after the page, says whose write it was",
		transfer_page_kept_and_tagged},
	{"transfer.late_untagged", 2, FAULT_TRANSFER_TARGET, GUARD_LEVEL_COUNT,
		"bytes of a hand-over land, without its tag, after their page was given to another request",
		"sglang#24527",
		"the write passes no table; values are compared at hits, hand-overs and by the sweep, not at every "
		"read",
		transfer_page_kept},
	{"pool.free.late_write", 2, FAULT_POOL_FREE, GUARD_LEVEL_COUNT,
		"an ended request's write lands after its page was given to another", "vllm#45357",
		"the write passes no table; values are compared at hits, hand-overs and by the sweep, not at every "
		"read",
		freed_page_kept},
	{"slot.not_written", 3, FAULT_SLOT, GUARD_PAGES,
		"a token's K, V go to the reserved page, its slot keeps what it had", "sglang#22811",
		"only the slots of the step say it: the write check", slot_reserved},
	{"transfer.missing", 3, FAULT_TRANSFER_PAGES, GUARD_PAGES, "the last page of a hand-over is not copied",
		"vllm#40364", "the receiver asks for a transfer tag that nobody wrote", one_less},
	{"admission.counts_more", 3, FAULT_ADMISSION, GUARD_PAGES,
		"a request is taken in as if more of its tokens were cached than are", "vllm#5364",
		"the fill counts of its pages are short of what it reads", all_that_may_be},
	{"radix.insert.early", 3, FAULT_RADIX_INSERT, GUARD_PAGES,
		"the cache takes the pages of a prompt before they are written", "vllm#5364",
		"the fill count of the page is short of its key", pages_too_early},
	{"pool.free.double", 4, FAULT_POOL_FREE, GUARD_TAGS, "a page goes on the free list twice", "vllm#3347",
		"the second owner's allocation takes the first one's tag away", twice},
	{"pool.alloc.duplicate", 4, FAULT_POOL_ALLOC, GUARD_PAGES,
		"an allocation hands out a page that is held already", "sglang#38941",
		"the page has its new holder's tag, and holds what the first one goes on writing", live_page},
	{"copy_on_write.skipped", 4, FAULT_COPY_ON_WRITE, GUARD_PAGES,
		"a partly matching page is shared and written instead of copied", "atlas#1193",
		"the page has two holders when it is written: the write check", zero},
	{"refcount.lost", 5, FAULT_POOL_RETAIN, GUARD_TAGS, "a new holder of a page is not counted", "sglang#27687",
		"the page is freed under its holder, and its tag with it", zero},
	{"refcount.dropped", 5, FAULT_POOL_LEFT, GUARD_TAGS, "a release is counted twice", "vllm#55227",
		"the page is freed under its holder, and its tag with it", one_less_if_held},
	{"radix.hit.stale", 6, FAULT_RADIX_UNINDEX, GUARD_TAGS, "an evicted page stays in the prefix cache",
		"kvcached#362", "the entry stands for the tag that the page had, and it has another by now", zero},
	{"radix.hit.sibling", 6, FAULT_RADIX_HIT, GUARD_PAGES,
		"the prefix cache gives another of its pages than it found", "lmdeploy#4917",
		"the page is live and tagged: only its key speaks against it", cached_page},
	{"radix.key.truncated", 7, FAULT_RADIX_SHARED, GUARD_PAGES,
		"a page's key is compared by its first tokens alone", "CVE-2025-25183",
		"the page is live and tagged: only the full key speaks against it", key_cut_short},
	{"radix.key.no_parent", 7, FAULT_RADIX_PARENT, GUARD_PAGES,
		"a page is found by its own tokens, whatever is before it", "kvcached#446",
		"the page is live and tagged: only the full key speaks against it", other_parent},
	{"slot.off_by_one", 8, FAULT_SLOT, GUARD_PAGES, "a token's K, V go to the slot after its own", "sglang#25015",
		"only the slots of the step say it: the write check", slot_next},
	{"slot.wrong_page", 8, FAULT_SLOT, GUARD_PAGES, "a token's K, V go to a page that another holds",
		"sglang#31218", "only the slots of the step say it: the write check", slot_elsewhere},
	{"position.off_by_one", 8, FAULT_POSITION, GUARD_CHAIN, "a token is turned by the position after its own",
		"TGI#2711", "pages, slots and lengths are right: only the chain of (token, position) is not", one_more},
	{"length.off_by_one", 9, FAULT_LENGTH, GUARD_PAGES, "a sequence is read as if it began a token later",
		"vllm#16370", "the table is right: only the length relations speak against it", one_more},
	{"table.length.short", 9, FAULT_TABLE_LENGTH, GUARD_TAGS, "the newest entry of a block table is not written",
		"vllm#46595", "the entry holds the page of an earlier step, whose tag is another", one_less},
	{"table.entry.out_of_range", 10, FAULT_TABLE_ENTRY, GUARD_TAGS,
		"a block table names a page that does not exist", "vllm#1486", "bounds come before any read",
		page_outside},
	{"slot.out_of_range", 10, FAULT_SLOT, GUARD_PAGES, "a token's K, V go to a slot that does not exist",
		"TensorRT-LLM#15295", "only the slots of the step say it: bounds and the write check", slot_outside},
	{"padding.writes_live_page", 11, FAULT_PADDING_SLOT, GUARD_PAGES, "a row of padding writes a page that is held",
		"vllm#43869", "padding belongs to no request: only the padding check looks at it", slot_elsewhere},
	{"metadata.previous_step", 11, FAULT_TABLE_RENEW, GUARD_TAGS, "a block table is that of the step before",
		"lmdeploy#4569", "the row names pages of another request, whose tags are others", zero},
	{"table.row.swap", 12, FAULT_TABLE_ROW, GUARD_TAGS, "a sequence reads by the block table of the one before it",
		"llama.cpp#27941", "the row names pages of another request, whose tags are others", row_before},
	{"table.entry.swap", 12, FAULT_TABLE_ENTRY, GUARD_TAGS, "a block table names a page of another request",
		"vllm#40766", "the page has another tag", live_page},
	{"transfer.wrong_page", 12, FAULT_TRANSFER_TARGET, GUARD_PAGES, "a hand-over writes a page that is another's",
		"sglang#31471", "the receiver asks for a transfer tag that was written elsewhere", live_page},
	{"radix.insert.aborted", 6, FAULT_RADIX_INSERT, GUARD_PAGES,
		"the cache keeps the pages of a withdrawn request, up to tokens that were never computed",
		"sglang#38319", "the fill count of the page is short of its key", aborted_kept},
	{"scale.missing", 13, FAULT_STEP, GUARD_PAGES, "a layer's cache is read and written with scale 1",
		"sglang#20705", "tables and tags are right: only the layout check looks at scales", scale_lost},
	{"layout.kv_swapped", 13, FAULT_STEP, GUARD_PAGES, "a layer's K and V change places", "TensorRT-LLM#16916",
		"tables and tags are right: only the layout check looks at the layers", layer_swapped},
	{"payload.bitflip", 13, FAULT_STEP, GUARD_DIGEST, "a bit of an idle page of the prefix cache changes",
		"LMCache#4247", "only the values say it: the digest, when the page is found", bit_flipped},
};

int fault_type_count(void)
{
	return (int)(sizeof types / sizeof *types);
}

const struct fault_type *fault_type(int i)
{
	return &types[i];
}

const struct fault_type *fault_type_find(const char *name)
{
	for (int i = 0; i < fault_type_count(); i++)
		if (strcmp(types[i].name, name) == 0)
			return &types[i];
	return NULL;
}

const char *fault_model_name(int model)
{
	static const char *const names[FAULT_MODELS + 1] = {NULL, "page freed while mapped", "late or unordered writer",
		"read before written", "double free, two owners", "reference drift", "stale prefix entry",
		"prefix key omits something", "wrong slot or position", "length and table disagree",
		"index out of range", "padding writes, stale metadata", "wrong owner or row",
		"scale, format or layout"};
	return names[model];
}
