/* Guards where pages change hands: prefix cache, copy on write, hand-over. */
#include "tests/hostile_guard.h"

const char *const test_program_name = "guard_moves";

enum { PROMPT = 43, TAIL_PAGE = 2 };

struct ambush;
struct trap {
	const struct ambush *ambush;
	const struct kv_guard *inner;
	struct guard guard;
	struct kv_guard table;
	struct kv_pool *pools[2];
	int n_pools;
	uint64_t victim; /* the request that is waited for */
	bool done;
	struct guard_incident seen[SEEN];
	int n_seen;
};

struct ambush {
	const char *name;
	enum guard_level level;
	enum guard_check check;
	enum guard_moment moment;
	bool split; /* in a hand-over; else in the second request, which finds the first one's prompt in the cache */
	bool admission, tokens, writer, copy_dropped, copy_flipped, copy_stale, page_stale, value, fill_dropped;
	bool sent_dropped, sent_flipped, source_flipped, source_other;
};

static const struct ambush ambushes[] = {
	{"other tokens in a page of the cache", GUARD_PAGES, GUARD_KEY, GUARD_AT_ADMISSION, .tokens = true},
	{"another variant's page", GUARD_PAGES, GUARD_KEY, GUARD_AT_ADMISSION, .writer = true},
	{"a page given to another under the cache", GUARD_TAGS, GUARD_TAG, GUARD_AT_READ, .page_stale = true},
	{"a tail given to another under the cache", GUARD_TAGS, GUARD_TAG, GUARD_AT_COPY, .copy_stale = true},
	{"a copy that was not made", GUARD_PAGES, GUARD_FILL, GUARD_AT_ADMISSION, .copy_dropped = true},
	{"a copy with another value", GUARD_DIGEST, GUARD_CONTENT, GUARD_AT_COPY, .copy_flipped = true},
	{"a value of a page of the cache", GUARD_DIGEST, GUARD_CONTENT, GUARD_AT_ADMISSION, .value = true},
	{"a page that was not sent", GUARD_PAGES, GUARD_TRANSFER, GUARD_AT_TRANSFER, .split = true,
		.sent_dropped = true},
	{"a page that arrived with another value", GUARD_DIGEST, GUARD_CONTENT, GUARD_AT_TRANSFER, .split = true,
		.sent_flipped = true},
	{"a value before it is sent", GUARD_DIGEST, GUARD_CONTENT, GUARD_AT_TRANSFER, .split = true,
		.source_flipped = true},
	{"another page is sent", GUARD_TAGS, GUARD_TAG, GUARD_AT_TRANSFER, .split = true, .source_other = true},
};

static void trap_note(void *context, const struct guard_incident *i)
{
	struct trap *t = context;
	if (t->n_seen < SEEN)
		t->seen[t->n_seen++] = *i;
}

static struct trap *trap_of(void *state)
{
	return ((struct guard_state *)state)->guard->options.sink_context;
}

static bool springs(struct trap *t, bool kind, uint64_t request)
{
	if (!kind || t->done || request != t->victim)
		return false;
	t->done = true;
	return true;
}

static void value_flip(const struct kv_pool *pool, int32_t page)
{
	const struct kv_geometry *g = &pool->geometry;
	size_t bytes = (size_t)(g->page_size * g->n_kv_heads * g->head_dim) * kv_format_size(pool->format);
	((uint8_t *)pool->layers[1].k)[(size_t)page * bytes + 1] ^= 1;
}

static int trap_open(void *context, const struct kv_guard_layout *layout, void **state, struct error *e)
{
	struct trap *t = context;
	t->pools[t->n_pools++] = layout->pool;
	return t->inner->open(t->inner->context, layout, state, e);
}

static int trap_admitted(void *state, const struct kv_guard_admission *a, struct error *e)
{
	struct trap *t = trap_of(state);
	struct kv_guard_admission changed = *a;
	int32_t tokens[PROMPT];
	const int32_t *mapped = row_find(state, a->request) ? row_pages(state, row_find(state, a->request)) : NULL;

	if (springs(t, t->ambush->tokens, a->request)) {
		memcpy(tokens, a->tokens, (size_t)a->n_ready * sizeof *tokens);
		tokens[5]++;
		changed.tokens = tokens;
	}
	if (springs(t, t->ambush->writer, a->request))
		changed.writer++;
	if (springs(t, t->ambush->value, a->request))
		value_flip(t->pools[0], mapped[1]);
	if (springs(t, t->ambush->page_stale, a->request)) {
		t->inner->page_freed(state, mapped[1], 0);
		t->inner->page_allocated(state, mapped[1], 99);
	}
	return t->inner->request_admitted(state, &changed, e);
}

static int trap_copy_begin(void *state, const struct kv_guard_copy *copy, struct error *e)
{
	struct trap *t = trap_of(state);
	if (springs(t, t->ambush->copy_stale, copy->request)) {
		t->inner->page_freed(state, copy->source, 0);
		t->inner->page_allocated(state, copy->source, 99);
	}
	return t->inner->copy_begin(state, copy, e);
}

static void trap_copy_end(void *state, const struct kv_guard_copy *copy)
{
	struct trap *t = trap_of(state);
	if (springs(t, t->ambush->copy_dropped, copy->request))
		return;
	if (springs(t, t->ambush->copy_flipped, copy->request))
		value_flip(t->pools[0], copy->target);
	t->inner->copy_end(state, copy);
}

static int trap_transfer_read(
	void *state, enum kv_guard_phase phase, uint64_t request, const int32_t *pages, int n_tokens, struct error *e)
{
	struct trap *t = trap_of(state);
	if (springs(t, t->ambush->source_flipped, request))
		value_flip(t->pools[0], pages[0]);
	if (springs(t, t->ambush->source_other, request))
		((int32_t *)pages)[1] = pages[0];
	return t->inner->transfer_read(state, phase, request, pages, n_tokens, e);
}

static void trap_sent(void *state, const struct kv_guard_transfer *transfer)
{
	struct trap *t = trap_of(state);
	if (springs(t, t->ambush->sent_dropped && transfer->logical == 2, transfer->request))
		return;
	if (springs(t, t->ambush->sent_flipped && transfer->logical == 2, transfer->request))
		value_flip(t->pools[1], transfer->target);
	t->inner->transfer_sent(state, transfer);
}

static void trap_set(struct trap *t, const struct ambush *ambush, enum guard_level level)
{
	*t = (struct trap){.ambush = ambush, .victim = 2};
	guard_init(&t->guard,
		&(struct guard_options){.level = level, .audit_every = 1, .sink = trap_note, .sink_context = t});
	t->inner = &t->guard.table;
	t->table = t->guard.table;
	t->table.context = t;
	t->table.open = trap_open;
	t->table.request_admitted = trap_admitted;
	t->table.copy_begin = trap_copy_begin;
	t->table.copy_end = trap_copy_end;
	t->table.transfer_read = trap_transfer_read;
	t->table.transfer_sent = trap_sent;
}

/* The same prompt, and another end, three times one after the other. */
static struct engine_result *ask_again(struct engine *engine, int last)
{
	int32_t tokens[PROMPT];

	for (int i = 0; i < PROMPT; i++)
		tokens[i] = 100 + i * 5 % 700;
	tokens[PROMPT - 1] = 900 + last;
	return ask(engine,
		&(struct engine_request){.tokens = tokens,
			.n_tokens = PROMPT,
			.max_tokens = 8,
			.logprobs_from = -1,
			.ignore_eos = true});
}

static const struct guard_incident *trap_incident(const struct trap *t)
{
	for (int i = 0; i < t->n_seen; i++)
		if (t->seen[i].check == t->ambush->check)
			return &t->seen[i];
	return NULL;
}

static struct engine *trapped_engine(struct trap *t)
{
	return open_with(POCKET, t->ambush->split ? "bf16/bf16>bf16/fp8" : "bf16/bf16",
		(struct engine_config){.threads = 1, .kv_memory = 1 << 20, .guard = &t->table});
}

/* Answers without an ambush. */
static void clean_bits(const struct ambush *ambush, uint64_t bits[3])
{
	struct ambush none = {.split = ambush->split};
	struct trap t;

	trap_set(&t, &none, GUARD_NONE);
	t.table = kv_guard_none;
	struct engine *engine = trapped_engine(&t);
	for (int i = 0; i < 3; i++) {
		struct engine_result *r = ask_again(engine, i);
		ck_assert_int_eq(r->finish, ENGINE_LENGTH);
		bits[i] = answer_bits(r);
		engine_result_free(r);
	}
	engine_close(engine);
}

START_TEST(only_the_request_that_finds_the_wrong_page_falls)
{
	const struct ambush *ambush = &ambushes[_i];
	uint64_t clean[3];

	clean_bits(ambush, clean);
	for (int level = ambush->level; level < GUARD_LEVEL_COUNT; level++) {
		struct trap t;
		trap_set(&t, ambush, (enum guard_level)level);
		struct engine *engine = trapped_engine(&t);
		for (int i = 0; i < 3; i++) {
			struct engine_result *r = ask_again(engine, i);
			bool falls = i == 1;
			ck_assert_msg((r->finish == ENGINE_FAILED) == falls, "%s, level %d: request %d %s",
				ambush->name, level, i + 1, falls ? "goes on" : r->error.message);
			ck_assert_int_eq(r->n_generated, !falls ? 8 : ambush->split); /* the prompt gave one */
			if (!falls)
				ck_assert_msg(answer_bits(r) == clean[i], "%s, level %d: request %d has other bits",
					ambush->name, level, i + 1);
			engine_result_free(r);
		}
		const struct guard_incident *found = trap_incident(&t);
		ck_assert_msg(t.done, "%s: the moment never came", ambush->name);
		ck_assert_msg(found, "%s: level %d did not notice", ambush->name, level);
		ck_assert_msg(found->moment == ambush->moment, "%s: noticed at %s", ambush->name,
			guard_moment_name(found->moment));
		ck_assert_uint_eq(found->request, 2);
		engine_close(engine);
	}
}
END_TEST

START_TEST(no_check_fires_below_its_level)
{
	const struct ambush *ambush = &ambushes[_i];
	struct trap t;

	if (ambush->level == GUARD_TAGS)
		return;
	trap_set(&t, ambush, ambush->level - 1);
	struct engine *engine = trapped_engine(&t);
	for (int i = 0; i < 3; i++)
		engine_result_free(ask_again(engine, i));
	ck_assert_msg(t.done, "%s: the moment never came", ambush->name);
	ck_assert_msg(!trap_incident(&t), "%s: noticed below its level", ambush->name);
	engine_close(engine);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *moves = test_case(suite, "moves", 0);

	tcase_add_loop_test(moves, only_the_request_that_finds_the_wrong_page_falls, 0, COUNT(ambushes));
	tcase_add_loop_test(moves, no_check_fires_below_its_level, 0, COUNT(ambushes));
}
