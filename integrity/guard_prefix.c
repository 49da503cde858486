/* The prefix cache: what its entries stand for, what a request finds in it, copy on write. */
#include "integrity/guard_state.h"

/* Where a finding of the prefix cache is made. */
struct place {
	struct guard_state *s;
	struct guard_row *row;
	enum guard_moment moment;
	int32_t page, logical;
};

static void place_fire(
	const struct place *p, enum guard_check check, uint64_t expected, uint64_t actual, const char *what)
{
	if (p->row && p->logical >= 0 && p->logical < p->row->distrusted_from)
		p->row->distrusted_from = p->logical;
	guard_fire(p->s, p->row, &(struct finding){check, p->moment, p->page, p->logical, expected, actual, what});
}

static uint64_t parent_tag(const struct guard_state *s, const struct guard_row *row, int logical)
{
	return logical > 0 ? row_tags(s, row)[logical - 1] : 0;
}

/* ---- entries ---- */

/* What the entry says is what was written: by this request, into this page, after that one. */
static bool entry_check(const struct place *p, const struct kv_guard_key *key)
{
	struct guard_state *s = p->s;
	const struct guard_row *row = p->row;

	if (!row || row->condemned || key->logical < 0 || key->logical >= row->n_mapped) {
		place_fire(p, GUARD_KEY, 0, key->request, "the cache takes pages of a request that has none to give");
		return false;
	}
	if (row_pages(s, row)[key->logical] != key->page) {
		place_fire(p, GUARD_KEY, (uint64_t)row_pages(s, row)[key->logical], (uint64_t)key->page,
			"the cache takes a page that is not the request's");
		return false;
	}
	if (state_level(s) < GUARD_PAGES)
		return true;
	check_ran(s, GUARD_KEY);
	int32_t before = key->logical > 0 ? row_pages(s, row)[key->logical - 1] : 0;
	if (key->parent != before) {
		place_fire(p, GUARD_KEY, (uint64_t)before, (uint64_t)key->parent,
			"the cache puts a page after another than the one before it");
		return false;
	}
	if (s->fill[key->page] < key->n_tokens) {
		place_fire(p, GUARD_FILL, (uint64_t)key->n_tokens, s->fill[key->page],
			"the cache takes a page that is not written yet");
		return false;
	}
	if (memcmp(s->tokens + slot_of(s, key->page, 0), key->tokens, (size_t)key->n_tokens * sizeof *key->tokens) !=
		0) {
		place_fire(p, GUARD_KEY, 0, 0, "the cache is told other tokens than were written");
		return false;
	}
	return true;
}

void guard_page_indexed(void *state, const struct kv_guard_key *key)
{
	struct guard_state *s = state;
	struct place p = {s, row_find(s, key->request), GUARD_AT_INDEX, key->page, key->logical};

	if (!page_inside(s, key->page))
		return;
	if (!entry_check(&p, key)) {
		s->index_tags[key->page] = TAG_DISTRUSTED;
		return;
	}
	s->index_tags[key->page] = row_tags(s, p.row)[key->logical];
	if (state_level(s) < GUARD_PAGES)
		return;
	s->parent_tags[key->page] = parent_tag(s, p.row, key->logical);
	s->writers[key->page] = key->writer;
	if (s->sealed)
		page_seal(s, key->page); /* one filled in part is not written any more either */
}

void guard_page_unindexed(void *state, int32_t page)
{
	struct guard_state *s = state;

	if (page_inside(s, page))
		s->index_tags[page] = 0;
}

/* ---- hits ---- */

/* The first n_tokens tokens of a page of the cache are those that follow the page before it in the request: the whole
 * key, compared. */
static void key_check(const struct place *p, uint64_t writer, const int32_t *tokens, int n_tokens)
{
	struct guard_state *s = p->s;
	uint64_t parent = parent_tag(s, p->row, p->logical);

	check_ran(s, GUARD_KEY);
	if (s->index_tags[p->page] == 0 || s->writers[p->page] != writer) {
		place_fire(p, GUARD_KEY, writer, s->writers[p->page], "the entry is gone, or another variant's");
		return;
	}
	if (s->soiled[p->page] & SOILED_WRITTEN) {
		place_fire(p, GUARD_WRITE, 0, 0, "somebody wrote to the page who should not");
		return;
	}
	if (s->parent_tags[p->page] != parent) {
		place_fire(p, GUARD_KEY, parent, s->parent_tags[p->page], "the page follows another one in the cache");
		return;
	}
	const int32_t *there = s->tokens + slot_of(s, p->page, 0);
	for (int i = 0; i < n_tokens; i++) {
		if (there[i] == tokens[i])
			continue;
		place_fire(p, GUARD_KEY, (uint64_t)tokens[i], (uint64_t)there[i], "the page holds other tokens");
		return;
	}
	if (s->fill[p->page] < n_tokens)
		place_fire(p, GUARD_FILL, (uint64_t)n_tokens, s->fill[p->page], "the page is not written as far");
}

static void content_check(const struct place *p)
{
	if (p->s->sealed && !page_content_holds(p->s, p->page))
		place_fire(p, GUARD_CONTENT, 0, 0, "the values of a page of the cache changed");
}

static void shared_check(struct guard_state *s, struct guard_row *row, const struct kv_guard_admission *a)
{
	int page_size = s->layout.page_size;

	for (int i = 0; i < a->n_shared / page_size && i < row->n_mapped; i++) {
		struct place p = {s, row, GUARD_AT_ADMISSION, row_pages(s, row)[i], i};
		if (!page_inside(s, p.page) || row_tags(s, row)[i] != s->tags[p.page])
			return; /* found by its bounds, or by its tag, before it is read */
		key_check(&p, a->writer, a->tokens + (size_t)i * (size_t)page_size, page_size);
		content_check(&p);
	}
}

/* What was copied or handed over reaches as far as the request is said to be. */
static void rest_check(struct guard_state *s, struct guard_row *row, const struct kv_guard_admission *a)
{
	int page_size = s->layout.page_size;

	check_ran(s, GUARD_FILL);
	for (int i = a->n_shared / page_size; i * page_size < a->n_ready; i++) {
		int rest = a->n_ready - i * page_size, needed = rest < page_size ? rest : page_size;
		int32_t page = i < row->n_mapped ? row_pages(s, row)[i] : -1;
		struct place p = {s, row, GUARD_AT_ADMISSION, page, i};
		if (page_inside(s, page) && s->fill[page] < needed)
			place_fire(&p, GUARD_FILL, (uint64_t)needed, s->fill[page], "the page is not written as far");
	}
}

/* Every slot that the request finds holds its tokens, one after the other. */
static void chain_check(struct guard_state *s, struct guard_row *row, const struct kv_guard_admission *a)
{
	int page_size = s->layout.page_size;

	row->chain = row->written = 0;
	for (int i = 0; i < a->n_ready; i++) {
		int32_t page = i / page_size < row->n_mapped ? row_pages(s, row)[i / page_size] : -1;
		row->chain = chain_next(row->chain, a->tokens[i], i);
		if (i % page_size == 0)
			check_ran(s, GUARD_CHAIN_LINK);
		if (!page_inside(s, page))
			continue;
		uint64_t there = s->chain[slot_of(s, page, i % page_size)];
		row->written = there;
		if (there == row->chain)
			continue;
		struct place p = {s, row, GUARD_AT_ADMISSION, page, i / page_size};
		place_fire(&p, GUARD_CHAIN_LINK, row->chain, there, "a slot holds another token, position or past");
	}
}

int guard_request_admitted(void *state, const struct kv_guard_admission *a, struct error *e)
{
	struct guard_state *s = state;
	struct guard_row *row = row_find(s, a->request);

	if (!row)
		return 0; /* it maps nothing */
	row->n_ready = a->n_ready;
	if (state_level(s) >= GUARD_PAGES) {
		shared_check(s, row, a);
		rest_check(s, row, a);
	}
	if (s->chain)
		chain_check(s, row, a);
	return row->condemned ? guard_refuse(s, a->request, e) : 0;
}

/* ---- copy on write ---- */

int guard_copy_begin(void *state, const struct kv_guard_copy *copy, struct error *e)
{
	struct guard_state *s = state;
	struct guard_row *row = row_find(s, copy->request);
	struct place p = {s, row, GUARD_AT_COPY, copy->source, copy->logical};

	check_ran(s, GUARD_BOUNDS);
	check_ran(s, GUARD_TAG);
	if (!row || !page_inside(s, copy->source) || !page_inside(s, copy->target)) {
		place_fire(&p, GUARD_BOUNDS, 0, (uint64_t)copy->source, "a page to copy is outside of the pool");
	} else if (s->index_tags[copy->source] == 0 || s->index_tags[copy->source] != s->tags[copy->source]) {
		place_fire(&p, GUARD_TAG, s->index_tags[copy->source], s->tags[copy->source],
			"the page to copy from is no longer the cache's");
	} else if (state_level(s) >= GUARD_PAGES) {
		key_check(&p, copy->writer, copy->tokens, copy->n_tokens);
		content_check(&p);
		if (copy->logical >= row->n_mapped || row_pages(s, row)[copy->logical] != copy->target)
			place_fire(&p, GUARD_WRITE, (uint64_t)(int64_t)row_pages(s, row)[copy->logical],
				(uint64_t)copy->target, "the page to copy to is not the request's");
		else if (s->holders[copy->target] != 1 || s->index_tags[copy->target] != 0)
			place_fire(&p, GUARD_WRITE, 1, s->holders[copy->target], "the page to copy to is others' too");
	}
	if (s->guard->options.observe || (row && !row->condemned))
		return 0;
	return guard_refuse(s, copy->request, e);
}

void slots_carry(struct guard_state *to, const struct guard_state *from, int32_t target, int32_t source, int n_tokens)
{
	size_t n = (size_t)n_tokens, there = slot_of(to, target, 0), here = slot_of(from, source, 0);

	to->fill[target] = (uint16_t)n_tokens;
	memmove(to->tokens + there, from->tokens + here, n * sizeof *to->tokens);
	if (to->chain)
		memmove(to->chain + there, from->chain + here, n * sizeof *to->chain);
}

void guard_copy_end(void *state, const struct kv_guard_copy *copy)
{
	struct guard_state *s = state;

	if (state_level(s) < GUARD_PAGES || !page_inside(s, copy->source) || !page_inside(s, copy->target))
		return;
	slots_carry(s, s, copy->target, copy->source, copy->n_tokens);
	if (!s->sealed || pages_alike(s, copy->source, copy->target, copy->n_tokens))
		return;
	s->soiled[copy->target] |= SOILED_CONTENT;
	guard_fire(s, row_find(s, copy->request),
		&(struct finding){GUARD_CONTENT, GUARD_AT_COPY, copy->target, copy->logical, 0, 0,
			"the copy does not hold what was copied"});
}
