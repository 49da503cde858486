/* Hand-over between pools. The transfer tag of a page is what its tag was when its sender wrote the last of it: a sender
 * that comes too late, after the page was given to another, exposes itself. */
#include "integrity/guard_state.h"

/* ---- reading ---- */

static void source_tables(struct guard_state *s, struct guard_row *row, const int32_t *pages, int n)
{
	int32_t row_number = (int32_t)(row - s->rows), first_bad = -1;
	int room = n < s->stride ? n : s->stride;

	check_ran(s, GUARD_BOUNDS);
	check_ran(s, GUARD_TAG);
	s->layout.backend->ops->verify_pages(s->layout.backend,
		&(struct verify_pages_args){.block_tables = pages,
			.table_stride = n,
			.n_sequences = 1,
			.n_used = &n,
			.rows = &row_number,
			.expected_stride = s->stride,
			.expected = s->expected_tags,
			.pages = state_level(s) >= GUARD_PAGES ? s->expected_pages : NULL,
			.page_tags = s->tags,
			.n_pages = s->layout.n_pages,
			.first_bad = &first_bad});
	if (first_bad < 0)
		return;
	int32_t page = first_bad < room ? pages[first_bad] : -1;
	bool inside = page_inside(s, page), tag = inside && s->tags[page] != row_tags(s, row)[first_bad];
	guard_fire(s, row,
		&(struct finding){!inside ? GUARD_BOUNDS
				: tag     ? GUARD_TAG
					  : GUARD_OWNER,
			GUARD_AT_TRANSFER, page, first_bad, tag ? row_tags(s, row)[first_bad] : 0,
			tag ? s->tags[page] : 0, "a page to hand over is not the request's"});
}

static void source_content(struct guard_state *s, struct guard_row *row, const int32_t *pages, int n_tokens)
{
	int page_size = s->layout.page_size;

	check_ran(s, GUARD_FILL);
	for (int i = 0; i * page_size < n_tokens; i++) {
		int rest = n_tokens - i * page_size, needed = rest < page_size ? rest : page_size;
		if (!page_inside(s, pages[i]))
			return;
		if (s->fill[pages[i]] < needed)
			guard_fire(s, row,
				&(struct finding){GUARD_FILL, GUARD_AT_TRANSFER, pages[i], i, (uint64_t)needed,
					s->fill[pages[i]], "a page to hand over is not written as far"});
		if (s->sealed && !page_content_holds(s, pages[i]))
			guard_fire(s, row,
				&(struct finding){GUARD_CONTENT, GUARD_AT_TRANSFER, pages[i], i, 0, 0,
					"the values of a page to hand over changed"});
	}
}

int guard_transfer_read(
	void *state, enum kv_guard_phase phase, uint64_t request, const int32_t *pages, int n_tokens, struct error *e)
{
	struct guard_state *s = state;
	struct guard_row *row = row_find(s, request);
	int n = (n_tokens + s->layout.page_size - 1) / s->layout.page_size;
	bool layout_good = state_level(s) < GUARD_PAGES || layout_holds(s, GUARD_AT_TRANSFER);

	if (row) {
		source_tables(s, row, pages, n);
		if (state_level(s) >= GUARD_PAGES && phase == KV_GUARD_BEFORE_READ)
			source_content(s, row, pages, n_tokens);
	}
	if (s->guard->options.observe || (row && !row->condemned && layout_good))
		return 0;
	return guard_refuse(s, request, e);
}

/* ---- writing ---- */

/* Whether the request still holds the page that was written for it. */
static bool lease_holds(const struct guard_state *s, const struct guard_row *row, const struct kv_guard_transfer *t)
{
	return row && t->logical >= 0 && t->logical < row->n_mapped && row_pages(s, row)[t->logical] == t->target &&
		row_tags(s, row)[t->logical] == s->tags[t->target];
}

void guard_transfer_sent(void *state, const struct kv_guard_transfer *t)
{
	struct guard_state *s = state;
	const struct guard_state *from = t->from;
	struct guard_row *row = row_find(s, t->request);

	if (state_level(s) < GUARD_PAGES || !page_inside(s, t->target))
		return;
	check_ran(s, GUARD_TRANSFER);
	if (!lease_holds(s, row, t)) {
		guard_fire(s, row,
			&(struct finding){GUARD_TRANSFER, GUARD_AT_TRANSFER, t->target, t->logical,
				row && t->logical >= 0 && t->logical < row->n_mapped ? row_tags(s, row)[t->logical] : 0,
				s->tags[t->target], "a page was written for a request that does not hold it"});
		if (s->tags[t->target] != 0)
			s->tags[t->target] = ++s->last_tag; /* whoever maps it must not read it */
		s->soiled[t->target] |= SOILED_WRITTEN;
		return;
	}
	s->sent_tags[t->target] = s->tags[t->target];
	if (from && page_inside(from, t->source))
		slots_carry(s, from, t->target, t->source, t->n_tokens);
}

int guard_transfer_received(void *state, const struct kv_guard_transfer *t, struct error *e)
{
	struct guard_state *s = state;
	const struct guard_state *from = t->from;
	struct guard_row *row = row_find(s, t->request);

	if (state_level(s) >= GUARD_PAGES && page_inside(s, t->target)) {
		check_ran(s, GUARD_TRANSFER);
		if (!lease_holds(s, row, t) || s->sent_tags[t->target] != s->tags[t->target])
			guard_fire(s, row,
				&(struct finding){GUARD_TRANSFER, GUARD_AT_TRANSFER, t->target, t->logical,
					s->tags[t->target], s->sent_tags[t->target], "the page did not arrive whole"});
		else if (s->sealed && from && !transfer_alike(s, from->layout.pool, t))
			guard_fire(s, row,
				&(struct finding){GUARD_CONTENT, GUARD_AT_TRANSFER, t->target, t->logical, 0, 0,
					"the page does not hold what was sent"});
		else if (s->sealed && t->n_tokens == s->layout.page_size)
			page_seal(s, t->target);
	}
	if (s->guard->options.observe || (row && !row->condemned))
		return 0;
	return guard_refuse(s, t->request, e);
}
