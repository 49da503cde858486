#include "integrity/guard.h"

#include <string.h>
#include <time.h>

#include "engine/base/buf.h"
#include "integrity/guard_state.h"

/* ---- names ---- */

static const struct {
	const char *name;
	enum guard_level level;
	bool every_step; /* it runs in any step */
} checks[GUARD_CHECK_COUNT] = {
	[GUARD_BOUNDS] = {"bounds", GUARD_TAGS, true},
	[GUARD_TAG] = {"tag", GUARD_TAGS, true},
	[GUARD_EPOCH] = {"epoch", GUARD_TAGS, false},
	[GUARD_OWNER] = {"owner", GUARD_PAGES, true},
	[GUARD_POSITION] = {"position", GUARD_PAGES, true},
	[GUARD_LENGTH] = {"length", GUARD_PAGES, true},
	[GUARD_FILL] = {"fill", GUARD_PAGES, true},
	[GUARD_WRITE] = {"write", GUARD_PAGES, true},
	[GUARD_PADDING] = {"padding", GUARD_PAGES, false},
	[GUARD_KEY] = {"key", GUARD_PAGES, false},
	[GUARD_FREE_LIST] = {"free_list", GUARD_PAGES, true},
	[GUARD_REFERENCES] = {"references", GUARD_PAGES, true},
	[GUARD_TRANSFER] = {"transfer", GUARD_PAGES, false},
	[GUARD_LAYOUT] = {"layout", GUARD_PAGES, true},
	[GUARD_CHAIN_LINK] = {"chain", GUARD_CHAIN, true},
	[GUARD_CONTENT] = {"digest", GUARD_DIGEST, false},
};

static const char *const level_names[GUARD_LEVEL_COUNT] = {"none", "tags", "pages", "chain", "digest"};

const char *guard_level_name(enum guard_level level)
{
	return level_names[level];
}

int guard_level_parse(const char *text, enum guard_level *out, struct error *e)
{
	for (int i = 0; i < GUARD_LEVEL_COUNT; i++) {
		if (strcmp(text, level_names[i]) != 0)
			continue;
		*out = (enum guard_level)i;
		return 0;
	}
	return error_set(e, ERR_USAGE, "guard level '%s': expected none, tags, pages, chain or digest", text);
}

const char *guard_check_name(enum guard_check check)
{
	return checks[check].name;
}

enum guard_level guard_check_level(enum guard_check check)
{
	return checks[check].level;
}

const char *guard_moment_name(enum guard_moment moment)
{
	static const char *const names[GUARD_MOMENT_COUNT] = {
		"before_read", "before_publish", "admission", "mapping", "index", "copy", "transfer", "audit", "sweep"};
	return names[moment];
}

/* ---- findings ---- */

static int64_t now_nanoseconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void guard_fire(struct guard_state *s, struct guard_row *row, const struct finding *f)
{
	struct guard *g = s->guard;
	uint32_t bit = UINT32_C(1) << f->check;

	if (row) {
		if (row->fired & bit)
			return;
		row->fired |= bit;
		row->condemned |= !g->options.observe;
	}
	g->fired[f->check]++;
	g->incidents++;
	if (!g->options.sink)
		return;
	g->options.sink(g->options.sink_context,
		&(struct guard_incident){.time = now_nanoseconds(),
			.check = f->check,
			.moment = f->moment,
			.pool = s->pool_number,
			.request = row ? row->request : 0,
			.page = f->page,
			.logical = f->logical,
			.expected = f->expected,
			.actual = f->actual,
			.step = s->step,
			.emitted = row ? row->emitted : 0,
			.what = f->what});
}

int guard_refuse(const struct guard_state *s, uint64_t request, struct error *e)
{
	return error_set(e, ERR_DEVICE, "the %s guard refused the pages of request %llu",
		guard_level_name(state_level(s)), (unsigned long long)request);
}

int guard_proved(const struct guard *guard, struct error *e)
{
	if (guard->options.level == GUARD_NONE || guard->verified_steps == 0)
		return 0;
	for (int i = 0; i < GUARD_CHECK_COUNT; i++)
		if (checks[i].every_step && checks[i].level <= guard->options.level && guard->ran[i] == 0)
			return error_set(e, ERR_DEVICE, "the %s check of the %s guard never ran in %llu steps",
				checks[i].name, guard_level_name(guard->options.level),
				(unsigned long long)guard->verified_steps);
	return 0;
}

void guard_summary(const struct guard *guard, struct buf *out)
{
	const char *separator = "";

	buf_printf(out, "{\"level\":\"%s\",\"mode\":\"%s\",\"steps\":%llu,\"incidents\":%llu,\"checks\":{",
		guard_level_name(guard->options.level), guard->options.observe ? "observe" : "enforce",
		(unsigned long long)guard->verified_steps, (unsigned long long)guard->incidents);
	for (int i = 0; i < GUARD_CHECK_COUNT; i++) {
		if (checks[i].level > guard->options.level)
			continue;
		buf_printf(out, "%s\"%s\":{\"ran\":%llu,\"fired\":%llu}", separator, checks[i].name,
			(unsigned long long)guard->ran[i], (unsigned long long)guard->fired[i]);
		separator = ",";
	}
	buf_append_text(out, "}}");
}

/* ---- life ---- */

static void guard_close(void *state)
{
	struct guard_state *s = state;
	struct guard_memory memory = s->memory; /* s lies in it */

	digest_close(s);
	guard_memory_free(&memory);
}

/* The state, and the arrays by page that the level needs: what a check of a batch reads comes first. */
static int state_alloc(
	const struct guard *g, const struct kv_guard_layout *layout, struct guard_state **out, struct error *e)
{
	bool pages = g->options.level >= GUARD_PAGES, chain = g->options.level >= GUARD_CHAIN;
	size_t n = (size_t)layout->n_pages, slots = n * (size_t)layout->page_size;
	size_t layers = (size_t)layout->pool->n_ranks * (size_t)layout->n_layers;
	struct guard_state s = {0}, *state;
	const struct guard_array plan[] = {
		{(void **)&state, 1, sizeof s},
		{(void **)&s.layers, pages ? layers : 0, sizeof *s.layers},
		{(void **)&s.tags, n, sizeof *s.tags},
		{(void **)&s.holders, n, sizeof *s.holders},
		{(void **)&s.fill, pages ? n : 0, sizeof *s.fill},
		{(void **)&s.soiled, n, sizeof *s.soiled},
		{(void **)&s.reported, n, sizeof *s.reported},
		{(void **)&s.listed, n, sizeof *s.listed},
		{(void **)&s.index_tags, n, sizeof *s.index_tags},
		{(void **)&s.parent_tags, pages ? n : 0, sizeof *s.parent_tags},
		{(void **)&s.writers, pages ? n : 0, sizeof *s.writers},
		{(void **)&s.sent_tags, pages ? n : 0, sizeof *s.sent_tags},
		{(void **)&s.tokens, pages ? slots : 0, sizeof *s.tokens},
		{(void **)&s.chain, chain ? slots : 0, sizeof *s.chain},
	};

	if (guard_memory_take(&s.memory, plan, sizeof plan / sizeof *plan, e) < 0)
		return error_prefix(e, "guard of %d pages", layout->n_pages);
	*state = s;
	*out = state;
	return 0;
}

static int state_open(struct guard_state *s, struct error *e)
{
	const struct kv_pool *pool = s->layout.pool;

	if (state_level(s) >= GUARD_PAGES) {
		memcpy(s->layers, pool->layers, (size_t)layers_count(s) * sizeof *s->layers);
		s->geometry = pool->geometry;
	}
	ahead_plan(s);
	return state_level(s) >= GUARD_DIGEST ? digest_open(s, e) : 0;
}

static int guard_open(void *context, const struct kv_guard_layout *layout, void **state, struct error *e)
{
	struct guard *g = context;
	struct guard_state *s;

	*state = NULL;
	if (layout->latent)
		return error_set(e, ERR_USAGE, "the %s guard covers caches of K and V, not latent rows",
			guard_level_name(g->options.level));
	if (layout->n_pages < 2 || layout->page_size < 1 || layout->n_layers < 1)
		return error_set(e, ERR_USAGE, "the %s guard cannot cover %d pages of %d tokens and %d layers",
			guard_level_name(g->options.level), layout->n_pages, layout->page_size, layout->n_layers);
	TRY(state_alloc(g, layout, &s, e));
	s->guard = g;
	s->layout = *layout;
	s->pool_number = g->n_pools++ % 2;
	int status = state_open(s, e);
	if (status < 0) {
		guard_close(s);
		return status;
	}
	*state = s;
	return 0;
}

void guard_init(struct guard *guard, const struct guard_options *options)
{
	*guard = (struct guard){.table = kv_guard_none, .options = *options};
	if (guard->options.audit_every == 0)
		guard->options.audit_every = 64;
	if (options->level == GUARD_NONE)
		return;
	guard->table = (struct kv_guard){.level = guard_level_name(options->level),
		.enforces = !options->observe,
		.context = guard,
		.open = guard_open,
		.reserve = guard_reserve,
		.close = guard_close,
		.step_begin = guard_step_begin,
		.scales_set = guard_scales_set,
		.page_allocated = guard_page_allocated,
		.page_freed = guard_page_freed,
		.page_mapped = guard_page_mapped,
		.page_indexed = guard_page_indexed,
		.page_unindexed = guard_page_unindexed,
		.copy_begin = guard_copy_begin,
		.copy_end = guard_copy_end,
		.request_admitted = guard_request_admitted,
		.page_standing = guard_page_standing,
		.request_released = guard_request_released,
		.verify = guard_verify,
		.not_validated = guard_not_validated,
		.transfer_read = guard_transfer_read,
		.transfer_sent = guard_transfer_sent,
		.transfer_received = guard_transfer_received,
		.audit = guard_audit};
}
