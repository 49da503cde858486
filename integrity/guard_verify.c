/* The check of a step's batch, before its pages are read and again before its output is published. */
#include "integrity/guard_state.h"

enum { NO_ANSWER = INT32_MAX }; /* of verify_pages yet: what is no answer is not a good one */

/* One verify call, and one sequence of it. */
struct view {
	struct guard_state *s;
	const struct kv_guard_batch *batch;
	enum guard_moment moment;
	int b, first_token, count; /* the sequence's tokens in the batch */
	struct guard_row *row;
};

uint64_t chain_next(uint64_t before, int32_t token, int32_t position)
{
	uint64_t h = before ^ ((uint64_t)(uint32_t)token << 32 | (uint32_t)position);

	h *= UINT64_C(0xff51afd7ed558ccd);
	h = (h ^ h >> 32) * UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 29;
}

static struct view view_of(struct guard_state *s, const struct kv_guard_batch *batch, enum guard_moment moment, int b)
{
	return (struct view){.s = s,
		.batch = batch,
		.moment = moment,
		.b = b,
		.first_token = batch->cu_seqlens[b],
		.count = batch->cu_seqlens[b + 1] - batch->cu_seqlens[b],
		.row = s->row_of[b]};
}

static RARE void view_fire(const struct view *v, enum guard_check check, int64_t logical, int64_t page,
	uint64_t expected, uint64_t actual, const char *what)
{
	guard_fire(v->s, v->row,
		&(struct finding){check, v->moment, (int32_t)page, (int32_t)logical, expected, actual, what});
}

static const int32_t *table_of(const struct view *v)
{
	return v->batch->block_tables + (size_t)v->b * (size_t)v->batch->table_stride;
}

/* ---- tables ---- */

static RARE bool mapped_elsewhere(const struct view *v, int32_t page)
{
	const int32_t *pages = row_pages(v->s, v->row);

	for (int i = 0; i < v->row->n_mapped; i++)
		if (pages[i] == page)
			return true;
	return false;
}

/* What is wrong with an entry, as verify_pages would say that it is bad; false: nothing. */
static RARE bool entry_explain(const struct view *v, int32_t logical)
{
	struct guard_state *s = v->s;
	int room = v->batch->table_stride < s->stride ? v->batch->table_stride : s->stride;

	if (logical >= room) {
		view_fire(v, GUARD_BOUNDS, logical, -1, (uint64_t)room, (uint64_t)logical + 1,
			"more logical pages are read than a table holds");
		return true;
	}
	int32_t page = table_of(v)[logical], expected = row_pages(s, v->row)[logical];
	uint64_t tag = row_tags(s, v->row)[logical];
	if (!page_inside(s, page)) {
		view_fire(v, GUARD_BOUNDS, logical, page, (uint64_t)(int64_t)expected, (uint64_t)(int64_t)page,
			"the page is outside of the pool");
		return true;
	}
	bool other_tag = s->tags[page] != tag;
	if (other_tag)
		view_fire(v, GUARD_TAG, logical, page, tag, s->tags[page],
			"the page was allocated again, freed, or never mapped here");
	if (state_level(s) < GUARD_PAGES || page == expected)
		return other_tag;
	bool own = mapped_elsewhere(v, page);
	view_fire(v, own ? GUARD_POSITION : GUARD_OWNER, logical, page, (uint64_t)(int64_t)expected, (uint64_t)page,
		own ? "a page of the request at another logical position" : "a page that is not the request's");
	return true;
}

static bool is_answer(int32_t first_bad)
{
	return first_bad >= -1 && first_bad != NO_ANSWER;
}

/* What verify_pages says counts, also where the host's copy of the table does not show it: the device may have read
 * another, or could not check at all. */
static RARE void answer_fire(const struct view *v, int32_t first_bad)
{
	if (!is_answer(first_bad) || !v->row)
		view_fire(v, GUARD_EPOCH, -1, -1, v->batch->epoch, 0, "the check of the pages gave no answer");
	else if (!entry_explain(v, first_bad))
		view_fire(v, GUARD_TAG, first_bad, -1, 0, 0, "the device found another page than the table now holds");
}

/* The sequences cut the batch's tokens in parts, none empty: without that no sequence can even be withheld. */
static int parts_check(struct guard_state *s, const struct kv_guard_batch *batch, struct error *e)
{
	const int32_t *cu = batch->cu_seqlens;
	int b = 0;

	check_ran(s, GUARD_BOUNDS);
	while (b < batch->n_sequences && cu[b] >= 0 && cu[b + 1] > cu[b])
		b++;
	if (cu[0] == 0 && b == batch->n_sequences && cu[b] == batch->n_tokens)
		return 0;
	guard_fire(s, NULL,
		&(struct finding){GUARD_BOUNDS, GUARD_AT_READ, -1, -1, (uint64_t)batch->n_tokens,
			(uint64_t)cu[batch->n_sequences], "the sequences are not parts of the batch"});
	return error_set(e, ERR_DEVICE, "the %s guard found a batch whose sequences are not parts of it",
		guard_level_name(state_level(s)));
}

static bool range_check(const struct view *v)
{
	int first = v->batch->first_position[v->b];

	check_ran(v->s, GUARD_BOUNDS);
	if (first >= 0)
		return true;
	view_fire(v, GUARD_BOUNDS, -1, -1, 0, (uint64_t)(int64_t)first, "a sequence begins before position 0");
	return false;
}

/* Before the reads an enforcing guard can wait for the answer: the device parks what it finds bad, and without an answer
 * nothing is published. Ranks have tables of their own each, so none could park for all. */
static void tables_verify(
	struct guard_state *s, const struct kv_guard_batch *batch, enum guard_moment moment, const uint8_t *bad)
{
	int page_size = s->layout.page_size;
	bool can_wait = moment == GUARD_AT_READ && !s->guard->options.observe && s->layout.pool->n_ranks == 1;
	struct verify_deferral deferral = {.cu_seqlens = batch->cu_seqlens,
		.first_position = batch->first_position,
		.slots = batch->slots,
		.page_size = page_size};

	for (int b = 0; b < batch->n_sequences; b++) {
		struct guard_row *row = row_again(s, batch->request[b], s->row_numbers[b]);
		int64_t end = (int64_t)batch->first_position[b] + batch->cu_seqlens[b + 1] - batch->cu_seqlens[b];
		int64_t used = end < 0 ? -1 : (end + page_size - 1) / page_size;
		s->row_numbers[b] = row ? (int32_t)(row - s->rows) : 0;
		s->row_of[b] = row;
		s->n_used[b] = row && !bad[b] ? (int32_t)(used <= INT32_MAX ? used : INT32_MAX) : 0;
		s->first_bad[b] = NO_ANSWER;
	}
	s->layout.backend->ops->verify_pages(s->layout.backend,
		&(struct verify_pages_args){.block_tables = batch->block_tables,
			.table_stride = batch->table_stride,
			.n_sequences = batch->n_sequences,
			.n_used = s->n_used,
			.rows = s->row_numbers,
			.expected_stride = s->stride,
			.expected = s->expected_tags,
			.pages = state_level(s) >= GUARD_PAGES ? s->expected_pages : NULL,
			.page_tags = s->tags,
			.n_pages = s->layout.n_pages,
			.first_bad = s->first_bad,
			.deferral = can_wait ? &deferral : NULL});
	s->deferred = deferral.deferred;
}

/* ---- lengths, fills, writes ---- */

static void length_check(const struct view *v)
{
	int first = v->batch->first_position[v->b], mapped = v->row->n_mapped * v->s->layout.page_size;

	check_ran(v->s, GUARD_LENGTH);
	if (first != v->row->n_ready)
		view_fire(v, GUARD_LENGTH, first / v->s->layout.page_size, -1, (uint64_t)v->row->n_ready,
			(uint64_t)first, "the sequence begins elsewhere than where the request stands");
	else if (first + v->count > mapped)
		view_fire(v, GUARD_LENGTH, -1, -1, (uint64_t)mapped, (uint64_t)(first + v->count),
			"tokens beyond the pages that the request maps");
}

/* Every slot that is read before this step's tokens was written. Leading pages that were seen full stay so under the same
 * tag; after another finding they are looked at again. */
static void fill_check(const struct view *v, bool table_good)
{
	struct guard_state *s = v->s;
	const int32_t *table = table_of(v);
	int page_size = s->layout.page_size, first = v->batch->first_position[v->b];
	int last = first / page_size, room = v->batch->table_stride, logical = table_good ? v->row->n_full : 0;

	check_ran(s, GUARD_FILL);
	for (; logical <= last && logical < room; logical++) {
		int needed = logical < last ? page_size : first % page_size;
		int32_t page = table[logical];
		if (page_inside(s, page) && s->fill[page] < needed) {
			view_fire(v, GUARD_FILL, logical, page, (uint64_t)needed, s->fill[page],
				"slots are read that were not written");
			return;
		}
	}
	if (table_good && last < room)
		v->row->n_full = last;
}

/* The next slot of the request, written by it alone. */
static bool slot_check(const struct view *v, int t, int position, bool page_begins)
{
	struct guard_state *s = v->s;
	int page_size = s->layout.page_size, logical = position / page_size, offset = position % page_size;
	int64_t slot = v->batch->slots[t];

	if (logical >= v->row->n_mapped) {
		view_fire(v, GUARD_WRITE, logical, -1, (uint64_t)v->row->n_mapped, (uint64_t)logical + 1,
			"a write beyond the pages that the request maps");
		return false;
	}
	int32_t page = row_pages(s, v->row)[logical];
	int64_t expected = (int64_t)page * page_size + offset;
	if (slot != expected) {
		view_fire(v, GUARD_WRITE, logical, slot / page_size, (uint64_t)expected, (uint64_t)slot,
			"K, V go to another slot than the request's next");
		return false;
	}
	if (!page_begins || !page_inside(s, page))
		return true;
	const struct kv_pool *pool = s->layout.pool;
	if (pool->references[page] != 1 || pool->cached[page] || s->holders[page] != 1) {
		view_fire(v, GUARD_WRITE, logical, page, 1, pool->references[page],
			"a page is written that others hold too");
		return false;
	}
	if (s->fill[page] != offset) {
		view_fire(v, GUARD_FILL, logical, page, (uint64_t)offset, s->fill[page],
			"the page holds more or fewer tokens than the request wrote");
		return false;
	}
	return true;
}

static void writes_check(const struct view *v)
{
	int page_size = v->s->layout.page_size, ready = v->row->n_ready;

	check_ran(v->s, GUARD_WRITE);
	for (int i = 0; i < v->count; i++)
		if (!slot_check(v, v->first_token + i, ready + i, i == 0 || (ready + i) % page_size == 0))
			return;
}

/* ---- chain ---- */

static void tokens_check(const struct view *v)
{
	const int32_t *own = v->batch->own[v->b];
	int ready = v->row->n_ready, page_size = v->s->layout.page_size;

	check_ran(v->s, GUARD_CHAIN_LINK);
	for (int i = 0; i < v->count; i++) {
		int t = v->first_token + i, position = v->batch->positions[t];
		if (position == ready + i && v->batch->tokens[t] == own[ready + i])
			continue;
		bool moved = position != ready + i;
		view_fire(v, GUARD_CHAIN_LINK, (ready + i) / page_size, -1,
			moved ? (uint64_t)(ready + i) : (uint64_t)own[ready + i],
			moved ? (uint64_t)position : (uint64_t)v->batch->tokens[t],
			moved ? "a token has another position" : "another token than the request's goes in");
		return;
	}
}

/* The slot of the last token before position `end`, as the table says where it is, holds what was written for the request. */
static EVERY_STEP void tail_check(const struct view *v, int end)
{
	struct guard_state *s = v->s;
	int page_size = s->layout.page_size, logical = (end - 1) / page_size;

	if (end < 1 || logical >= v->batch->table_stride)
		return;
	int32_t page = table_of(v)[logical];
	check_ran(s, GUARD_CHAIN_LINK);
	if (!page_inside(s, page))
		return;
	uint64_t there = s->chain[slot_of(s, page, (end - 1) % page_size)];
	if (there != v->row->chain)
		view_fire(v, GUARD_CHAIN_LINK, logical, page, v->row->chain, there,
			"the last slot holds another token, position or past");
}

/* ---- sequences ---- */

static void padding_check(const struct view *v)
{
	const struct kv_guard_batch *batch = v->batch;
	int page_size = v->s->layout.page_size;
	bool good = table_of(v)[0] == 0 && batch->first_position[v->b] == 0;

	check_ran(v->s, GUARD_PADDING);
	for (int t = v->first_token; good && t < v->first_token + v->count; t++)
		good = batch->slots[t] >= 0 && batch->slots[t] < page_size && batch->positions[t] == 0;
	if (!good)
		view_fire(v, GUARD_PADDING, 0, table_of(v)[0], 0, (uint64_t)table_of(v)[0],
			"a row of padding touches more than page 0");
}

/* The pages that a row of padding reads are pages, as at every level. */
static bool padding_range_check(const struct view *v)
{
	const struct kv_guard_batch *batch = v->batch;
	int64_t end = (int64_t)batch->first_position[v->b] + v->count;
	int64_t used = (end + v->s->layout.page_size - 1) / v->s->layout.page_size, logical = 0;

	if (!range_check(v))
		return false;
	while (logical < used && logical < batch->table_stride &&
		(table_of(v)[logical] == 0 || page_inside(v->s, table_of(v)[logical])))
		logical++;
	if (logical == used)
		return true;
	view_fire(v, GUARD_BOUNDS, logical, -1, (uint64_t)used, (uint64_t)logical,
		"a row of padding reads what is no page of the pool");
	return false;
}

static void request_check(struct view *v, int32_t first_bad)
{
	struct guard_state *s = v->s;

	check_ran(s, GUARD_TAG);
	if (first_bad != -1)
		answer_fire(v, first_bad);
	if (state_level(s) < GUARD_PAGES)
		return;
	check_ran(s, GUARD_OWNER);
	check_ran(s, GUARD_POSITION);
	length_check(v);
	fill_check(v, first_bad == -1);
	writes_check(v);
	if (state_level(s) < GUARD_CHAIN)
		return;
	tokens_check(v);
	if (v->moment == GUARD_AT_READ)
		tail_check(v, v->row->n_ready);
}

/* True when every check of the sequence ran. */
static bool sequence_check(struct view *v, int32_t first_bad)
{
	struct guard_state *s = v->s;

	if (v->batch->request[v->b] == 0) {
		if (padding_range_check(v) && state_level(s) >= GUARD_PAGES)
			padding_check(v);
		return true;
	}
	if (!v->row) {
		view_fire(v, state_level(s) >= GUARD_PAGES ? GUARD_OWNER : GUARD_TAG, 0, -1, 0, v->batch->request[v->b],
			"a request that maps no page is in the batch");
		return s->guard->options.observe;
	}
	v->row->emitted = v->batch->emitted[v->b];
	if (range_check(v))
		request_check(v, first_bad);
	return true;
}

/* ---- the answer that comes with the step ---- */

/* What is found of a sequence whose entry `logical` is bad, but for what request_check looked at without knowing. */
static bool table_explain(const struct view *v, int32_t logical)
{
	if (!entry_explain(v, logical))
		return false;
	if (state_level(v->s) >= GUARD_PAGES)
		fill_check(v, false);
	return true;
}

/* Before the host parks a sequence for another reason, and its table is gone. */
static void table_explain_now(const struct view *v)
{
	int32_t logical = 0, used = v->row ? v->s->n_used[v->b] : 0;

	while (logical < used && !table_explain(v, logical))
		logical++;
}

/* Of a sequence that the device found bad before its reads, and parked; or that it said nothing of. */
static void answer_take(const struct view *v, int32_t first_bad)
{
	answer_fire(v, first_bad);
	if (is_answer(first_bad) && v->row && state_level(v->s) >= GUARD_PAGES)
		fill_check(v, false);
}

static void answers_take(struct guard_state *s, const struct kv_guard_batch *batch, uint8_t *bad)
{
	for (int b = 0; b < batch->n_sequences; b++) {
		int32_t first_bad = s->first_bad[b];
		bool late = s->deferred && !bad[b] && first_bad != -1;
		s->parked[b] = late && s->row_of[b] && is_answer(first_bad);
		if (!late)
			continue;
		struct view v = view_of(s, batch, GUARD_AT_READ, b);
		answer_take(&v, first_bad);
		bad[b] = 1;
	}
	s->deferred = false;
}

/* ---- what the step wrote ---- */

static void slot_written(struct guard_state *s, int64_t slot, int32_t token, uint64_t link)
{
	int64_t page = slot / s->layout.page_size;
	int offset = (int)(slot % s->layout.page_size);

	if (slot < 0 || !page_inside(s, page))
		return;
	s->tokens[slot] = token;
	if (s->chain)
		s->chain[slot] = link;
	if (s->fill[page] != offset)
		return;
	s->fill[page]++;
	if (s->sealed && s->fill[page] == s->layout.page_size)
		page_seal(s, (int32_t)page);
}

/* The request stands where the step brought it; what it wrote is noted where it was written. */
static void sequence_commit(const struct view *v)
{
	struct guard_state *s = v->s;
	const struct kv_guard_batch *batch = v->batch;
	struct guard_row *row = v->row;
	const int32_t *own = batch->own[v->b];

	for (int i = 0; i < v->count; i++) {
		int t = v->first_token + i;
		if (s->chain) {
			row->chain = chain_next(row->chain, own[row->n_ready + i], row->n_ready + i);
			row->written = chain_next(row->written, batch->tokens[t], batch->positions[t]);
		}
		slot_written(s, batch->slots[t], batch->tokens[t], row->written);
	}
	row->n_ready += v->count;
}

/* Padding, and a sequence that is bad since the step ran: what it wrote beyond page 0 and the request's own pages belongs to
 * others, and is no longer what they wrote. */
static RARE void strays_commit(const struct view *v)
{
	const struct kv_guard_batch *batch = v->batch;
	struct guard_state *s = v->s;

	if (s->parked[v->b])
		return;
	for (int t = v->first_token; t < v->first_token + v->count; t++) {
		int64_t page = batch->slots[t] / s->layout.page_size;
		if (batch->slots[t] < 0 || !page_inside(s, page))
			continue;
		bool alone = v->row && mapped_elsewhere(v, (int32_t)page) && s->holders[page] == 1;
		if (alone && s->index_tags[page] == 0)
			continue;
		s->soiled[page] |= SOILED_WRITTEN;
		mappers_fire(s,
			&(struct finding){GUARD_WRITE, GUARD_AT_PUBLISH, (int32_t)page, -1, 0,
				(uint64_t)batch->slots[t], "another sequence wrote to the page"});
	}
}

static void padding_commit(const struct view *v)
{
	for (int t = v->first_token; t < v->first_token + v->count; t++)
		slot_written(v->s, v->batch->slots[t], v->batch->tokens[t], 0);
}

static void batch_commit(struct guard_state *s, const struct kv_guard_batch *batch, const uint8_t *bad)
{
	for (int b = 0; b < batch->n_sequences; b++) {
		struct view v = view_of(s, batch, GUARD_AT_PUBLISH, b);
		if (bad[b])
			strays_commit(&v);
		else if (batch->request[b] == 0)
			padding_commit(&v);
		else if (v.row)
			sequence_commit(&v);
	}
}

/* After all that the step wrote is noted: the last slot of every sequence again, and whose pages were written over. */
static void batch_conclude(struct guard_state *s, const struct kv_guard_batch *batch, uint8_t *bad)
{
	for (int b = 0; b < batch->n_sequences; b++) {
		struct view v = view_of(s, batch, GUARD_AT_PUBLISH, b);
		if (bad[b] || !v.row)
			continue;
		if (s->chain)
			tail_check(&v, v.row->n_ready);
		bad[b] |= v.row->condemned;
	}
}

/* ---- the step ---- */

static void batch_check(struct guard_state *s, const struct kv_guard_batch *batch, enum guard_moment moment,
	bool layout_good, uint8_t *bad)
{
	for (int b = 0; b < batch->n_sequences; b++) {
		if (bad[b])
			continue;
		struct view v = view_of(s, batch, moment, b);
		uint64_t incidents = s->guard->incidents;
		if (sequence_check(&v, s->deferred ? -1 : s->first_bad[b]))
			batch->validated[b] = batch->epoch;
		if (s->guard->options.observe)
			continue;
		bad[b] = !layout_good || (v.row ? v.row->condemned : s->guard->incidents != incidents);
		if (bad[b] && s->deferred)
			table_explain_now(&v);
	}
}

int guard_verify(
	void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad, struct error *e)
{
	struct guard_state *s = state;
	bool publish = phase == KV_GUARD_BEFORE_PUBLISH, layout_good = true;
	enum guard_moment moment = publish ? GUARD_AT_PUBLISH : GUARD_AT_READ;

	if (batch->n_sequences > s->most_sequences)
		return error_set(e, ERR_DEVICE, "the %s guard was reserved for %d sequences, the batch has %d",
			guard_level_name(state_level(s)), s->most_sequences, batch->n_sequences);
	check_ahead(s, batch);
	s->step = batch->step;
	TRY(parts_check(s, batch, e));
	if (publish)
		answers_take(s, batch, bad);
	batch_ahead(s, batch);
	if (s->sealed && publish)
		pages_sweep(s);
	if (state_level(s) >= GUARD_PAGES)
		layout_good = layout_holds(s, moment);
	tables_verify(s, batch, moment, bad);
	batch_check(s, batch, moment, layout_good, bad);
	if (!publish)
		return 0;
	if (state_level(s) >= GUARD_PAGES) {
		batch_commit(s, batch, bad);
		batch_conclude(s, batch, bad);
	}
	s->guard->verified_steps++;
	return 0;
}

void guard_not_validated(void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, int b)
{
	struct guard_state *s = state;

	guard_fire(s, row_find(s, batch->request[b]),
		&(struct finding){GUARD_EPOCH, phase == KV_GUARD_BEFORE_READ ? GUARD_AT_READ : GUARD_AT_PUBLISH, -1, -1,
			batch->epoch, batch->validated[b], "the check of the sequence did not run"});
}
