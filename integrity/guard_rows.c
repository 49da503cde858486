/* What each request should map: rows laid out as the block tables. */
#include <stdlib.h>

#include "integrity/guard_state.h"

/* ---- rows by request ---- */

static uint32_t row_home(const struct guard_state *s, uint64_t request)
{
	uint64_t h = request * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(h >> 32) & (uint32_t)(s->lookup_size - 1);
}

/* Where the request is in lookup, or the empty place where it would be. */
static uint32_t row_place(const struct guard_state *s, uint64_t request)
{
	uint32_t mask = (uint32_t)(s->lookup_size - 1), at = row_home(s, request);

	while (s->lookup[at] != 0 && s->rows[s->lookup[at] - 1].request != request)
		at = (at + 1) & mask;
	return at;
}

struct guard_row *row_find(const struct guard_state *s, uint64_t request)
{
	if (request == 0 || s->lookup_size == 0)
		return NULL;
	int32_t found = s->lookup[row_place(s, request)];
	return found ? &s->rows[found - 1] : NULL;
}

struct guard_row *row_take(struct guard_state *s, uint64_t request)
{
	struct guard_row *row = row_find(s, request);
	int i = 0;

	if (row || request == 0)
		return row;
	while (i < s->n_rows && s->rows[i].request != 0)
		i++;
	if (i == s->n_rows)
		return NULL;
	s->lookup[row_place(s, request)] = i + 1;
	s->rows[i] = (struct guard_row){.request = request, .distrusted_from = s->stride};
	return &s->rows[i];
}

/* Without gaps: what comes after the removed place moves up where it may. */
static void lookup_remove(struct guard_state *s, uint32_t hole)
{
	uint32_t mask = (uint32_t)(s->lookup_size - 1);

	for (uint32_t at = (hole + 1) & mask; s->lookup[at] != 0; at = (at + 1) & mask) {
		uint32_t home = row_home(s, s->rows[s->lookup[at] - 1].request);
		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		s->lookup[hole] = s->lookup[at];
		hole = at;
	}
	s->lookup[hole] = 0;
}

static int rows_alloc(struct guard_state *s, struct error *e)
{
	size_t n = (size_t)s->n_rows, entries = n * (size_t)s->stride, sequences = (size_t)s->most_sequences;

	const struct guard_array plan[] = {
		{(void **)&s->row_of, sequences, sizeof *s->row_of},
		{(void **)&s->row_numbers, sequences, sizeof *s->row_numbers},
		{(void **)&s->n_used, sequences, sizeof *s->n_used},
		{(void **)&s->first_bad, sequences, sizeof *s->first_bad},
		{(void **)&s->parked, sequences, sizeof *s->parked},
		{(void **)&s->rows, n, sizeof *s->rows},
		{(void **)&s->expected_pages, entries, sizeof *s->expected_pages},
		{(void **)&s->expected_tags, entries, sizeof *s->expected_tags},
		{(void **)&s->lookup, (size_t)s->lookup_size, sizeof *s->lookup},
	};

	if (guard_memory_take(&s->memory, plan, sizeof plan / sizeof *plan, e) < 0)
		return error_prefix(e, "guard of %d requests of %d pages", s->n_rows, s->stride);
	return 0;
}

int guard_reserve(void *state, int max_requests, int table_stride, struct error *e)
{
	struct guard_state *s = state;

	s->n_rows = max_requests;
	s->stride = table_stride;
	s->most_sequences = 2 * max_requests; /* decode batches are padded to a power of two */
	s->lookup_size = 4;
	while (s->lookup_size < 4 * max_requests)
		s->lookup_size *= 2;
	TRY(rows_alloc(s, e));
	for (size_t i = 0; i < (size_t)s->n_rows * (size_t)s->stride; i++) {
		s->expected_tags[i] = TAG_UNMAPPED;
		s->expected_pages[i] = -1;
	}
	return 0;
}

/* ---- pages ---- */

void guard_page_allocated(void *state, int32_t page, uint64_t request)
{
	struct guard_state *s = state;
	struct guard_row *row = row_take(s, request);

	if (!page_inside(s, page))
		return; /* nothing is issued, so that what is mapped has no tag */
	if (state_level(s) >= GUARD_PAGES) {
		check_ran(s, GUARD_FREE_LIST);
		if (s->tags[page] != 0)
			guard_fire(s, NULL,
				&(struct finding){GUARD_FREE_LIST, GUARD_AT_MAPPING, page, -1, 0, s->tags[page],
					"a page that is in use was handed out"});
		s->fill[page] = 0;
		s->sent_tags[page] = 0;
	}
	if (s->sealed)
		s->sealed[page] = 0;
	s->soiled[page] = s->reported[page] = 0;
	s->tags[page] = ++s->last_tag;
	if (!row)
		return;
	row->issued_page = page;
	row->issued_tag = s->tags[page];
}

void guard_page_freed(void *state, int32_t page, uint64_t request)
{
	struct guard_state *s = state;

	(void)request;
	if (!page_inside(s, page))
		return;
	s->tags[page] = 0;
	if (s->sealed)
		s->sealed[page] = 0;
}

static void holder_add(struct guard_state *s, int32_t page, int change)
{
	if (page_inside(s, page))
		s->holders[page] = (uint16_t)(s->holders[page] + change);
}

/* The page of the cache that takes the place of the request's own, after both were written: the same tokens, and at
 * digest the values that were sealed. */
static void replacement_check(struct guard_state *s, struct guard_row *row, int logical, int32_t own, int32_t page)
{
	size_t page_size = (size_t)s->layout.page_size;
	uint64_t parent = logical > 0 ? row_tags(s, row)[logical - 1] : 0;

	check_ran(s, GUARD_KEY);
	if (!page_inside(s, own) || !page_inside(s, page))
		return; /* found by its bounds */
	bool same = s->parent_tags[page] == parent &&
		memcmp(s->tokens + slot_of(s, own, 0), s->tokens + slot_of(s, page, 0),
			page_size * sizeof *s->tokens) == 0;
	if (same && !s->soiled[page] && (!s->sealed || page_content_holds(s, page)))
		return;
	row->distrusted_from = logical < row->distrusted_from ? logical : row->distrusted_from;
	guard_fire(s, row,
		&(struct finding){same ? GUARD_CONTENT : GUARD_KEY, GUARD_AT_MAPPING, page, logical, parent,
			s->parent_tags[page],
			same ? "a page took the place of another, and its values changed"
			     : "a page took the place of one with other tokens"});
}

void guard_page_mapped(void *state, uint64_t request, int logical, int32_t page)
{
	struct guard_state *s = state;
	struct guard_row *row = row_take(s, request);

	if (!row || logical < 0 || logical >= s->stride)
		return; /* without an expectation nothing of it passes */
	uint64_t tag = TAG_UNMAPPED;
	int32_t expected = page, *pages = row_pages(s, row);
	if (row->issued_tag != 0) {
		tag = row->issued_tag;
		expected = row->issued_page;
		row->issued_tag = 0;
	} else if (page_inside(s, page) && s->index_tags[page] != 0) {
		tag = s->index_tags[page];
	}
	if (logical < row->n_mapped) {
		if (state_level(s) >= GUARD_PAGES)
			replacement_check(s, row, logical, pages[logical], page);
		holder_add(s, pages[logical], -1);
	} else {
		row->n_mapped = logical + 1;
	}
	pages[logical] = expected;
	row_tags(s, row)[logical] = tag;
	holder_add(s, expected, 1);
}

int guard_page_standing(void *state, uint64_t request, int logical, int32_t page)
{
	struct guard_state *s = state;
	const struct guard_row *row = row_find(s, request);

	if (!row || logical < 0 || logical >= row->n_mapped || !page_inside(s, page))
		return 0;
	if (row_pages(s, row)[logical] != page || row_tags(s, row)[logical] != s->tags[page])
		return 0;
	return KV_PAGE_OWNED | (s->soiled[page] || logical >= row->distrusted_from ? 0 : KV_PAGE_CLEAN);
}

/* A page that was allocated for a request that is condemned, and that the bookkeeping lost: nobody else holds it. */
static void stray_quarantine(struct guard_state *s, int32_t page, uint64_t tag)
{
	if (page_inside(s, page) && s->tags[page] == tag && s->holders[page] == 0 && s->index_tags[page] == 0)
		kv_pool_quarantine(s->layout.pool, page);
}

void guard_request_released(void *state, uint64_t request)
{
	struct guard_state *s = state;
	struct guard_row *row = row_find(s, request);

	if (!row)
		return;
	int32_t *pages = row_pages(s, row);
	uint64_t *tags = row_tags(s, row);
	for (int i = 0; i < row->n_mapped; i++) {
		holder_add(s, pages[i], -1);
		if (row->condemned)
			stray_quarantine(s, pages[i], tags[i]);
		pages[i] = -1;
		tags[i] = TAG_UNMAPPED;
	}
	lookup_remove(s, row_place(s, request));
	row->request = 0;
}

void mappers_fire(struct guard_state *s, const struct finding *f)
{
	struct finding named = *f;
	bool any = false;

	for (int i = 0; i < s->n_rows; i++) {
		struct guard_row *row = &s->rows[i];
		for (int logical = 0; row->request != 0 && logical < row->n_mapped; logical++) {
			if (row_pages(s, row)[logical] != f->page)
				continue;
			named.logical = logical;
			guard_fire(s, row, &named);
			any = true;
		}
	}
	if (!any)
		guard_fire(s, NULL, f);
}
