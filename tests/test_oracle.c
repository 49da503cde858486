/* The oracle's word on contaminations made by hand, on two requests that share nothing, or everything. */
#include <string.h>

#include "integrity/oracle.h"
#include "tests/engine_support.h"

const char *const test_program_name = "oracle";

enum { PAGE = 4, PROMPT = 9, GENERATED = 4, LAYERS = 4 };

/* What the point gives; false: as it is. */
typedef bool point_function(struct kv_pool *pool, const struct fault_point *p, int64_t *value);

struct deed {
	const char *name;
	enum fault_site site;
	uint64_t request; /* 0: any */
	int64_t index;    /* -1: any */
	point_function *act;
	bool alike; /* both have the same prompt */
	bool contaminated[2], leaked[2], fails;
};

struct scene {
	const struct deed *deed;
	struct oracle oracle;
	struct fault_hook hook;
	bool done;
	int32_t pages[2][8]; /* as the tables had them, by request */
};

static struct scene scene;

static int64_t scene_at(void *context, const struct fault_point *p)
{
	struct scene *s = context;
	const struct deed *d = s->deed;
	int64_t value = p->value;

	if (p->site == FAULT_TABLE_ENTRY && p->request >= 1 && p->request <= 2 && p->index < 8)
		s->pages[p->request - 1][p->index] = (int32_t)p->value;
	if (!d->act || s->done || p->site != d->site || (d->request && p->request != d->request) ||
		(d->index >= 0 && p->index != d->index))
		return p->value;
	s->done = d->act((struct kv_pool *)(uintptr_t)p->pool, p, &value);
	return s->done ? value : p->value;
}

/* ---- deeds ---- */

static bool other_page(struct kv_pool *pool, const struct fault_point *p, int64_t *value)
{
	(void)pool;
	*value = scene.pages[0][p->index];
	return true;
}

static bool own_first_page(struct kv_pool *pool, const struct fault_point *p, int64_t *value)
{
	(void)pool;
	*value = scene.pages[p->request - 1][0];
	return true;
}

static bool next(struct kv_pool *pool, const struct fault_point *p, int64_t *value)
{
	(void)pool;
	*value = p->value + 1;
	return true;
}

static bool first_slot_of_first(struct kv_pool *pool, const struct fault_point *p, int64_t *value)
{
	(void)pool;
	(void)p;
	*value = (int64_t)scene.pages[0][0] * PAGE;
	return scene.pages[0][0] != 0;
}

static bool outside(struct kv_pool *pool, const struct fault_point *p, int64_t *value)
{
	(void)p;
	*value = (int64_t)pool->geometry.n_pages * PAGE;
	return true;
}

static bool scale(struct kv_pool *pool, const struct fault_point *p, int64_t *value)
{
	(void)p;
	(void)value;
	pool->layers[2].k_scale = 0.5f;
	return true;
}

static size_t page_bytes(const struct kv_pool *pool)
{
	return (size_t)(PAGE * pool->geometry.n_kv_heads * pool->geometry.head_dim) * kv_format_size(pool->format);
}

/* V of the last layer in the first request's first page; change: as it is, or with a bit flipped. */
static bool upload(struct kv_pool *pool, int change)
{
	char values[4096];
	size_t bytes = page_bytes(pool);
	char *there = (char *)pool->layers[LAYERS - 1].v + (size_t)scene.pages[0][0] * bytes;

	if (scene.pages[0][0] == 0)
		return false;
	ck_assert_uint_le(bytes, sizeof values);
	memcpy(values, there, bytes);
	values[0] = (char)(values[0] ^ change);
	pool->backend->ops->upload(pool->backend, there, values, bytes);
	return true;
}

static bool upload_same(struct kv_pool *pool, const struct fault_point *p, int64_t *value)
{
	(void)value;
	return p->index > 2 && upload(pool, 0); /* what is written already */
}

static bool upload_flipped(struct kv_pool *pool, const struct fault_point *p, int64_t *value)
{
	(void)value;
	return p->index > 2 && upload(pool, 4);
}

/* A page of the second request, over the first's: in all layers. */
static bool upload_others(struct kv_pool *pool, const struct fault_point *p, int64_t *value)
{
	size_t bytes = page_bytes(pool);
	(void)value;
	if (p->index <= 2 || scene.pages[0][0] == 0 || scene.pages[1][0] == 0)
		return false;
	for (int i = 0; i < 2 * LAYERS; i++) {
		char values[4096];
		char *memory = i % 2 ? pool->layers[i / 2].v : pool->layers[i / 2].k;
		memcpy(values, memory + (size_t)scene.pages[1][0] * bytes, bytes);
		pool->backend->ops->upload(pool->backend, memory + (size_t)scene.pages[0][0] * bytes, values, bytes);
	}
	return true;
}

static const struct deed deeds[] = {
	{.name = "nothing"},
	{"a page of another's", FAULT_TABLE_ENTRY, 2, 0, other_page, false, {false, true}, {false, true}, false},
	{"a page of another's with the same tokens", FAULT_TABLE_ENTRY, 2, 0, other_page, true, {false, false},
		{false, false}, false},
	{"an own page at another place", FAULT_TABLE_ENTRY, 2, 1, own_first_page, false, {false, true}, {false, false},
		false},
	{"the slot after its own", FAULT_SLOT, 1, 2, next, false, {true, false}, {false, false}, false},
	{"a slot of another's", FAULT_SLOT, 2, 3, first_slot_of_first, false, {true, true}, {true, false}, false},
	{"the position after its own", FAULT_POSITION, 1, 5, next, false, {true, false}, {false, false}, false},
	{"one position more", FAULT_LENGTH, 2, -1, next, false, {false, true}, {false, false}, false},
	{"a slot outside", FAULT_SLOT, 1, 2, outside, false, {false, false}, {false, false}, true},
	{"a page outside", FAULT_TABLE_ENTRY, 1, 1, outside, false, {false, false}, {false, false}, true},
	{"a scale", FAULT_STEP, 0, -1, scale, false, {true, true}, {false, false}, false},
	{"the same values again", FAULT_STEP, 0, -1, upload_same, false, {false, false}, {false, false}, false},
	{"a flipped bit", FAULT_STEP, 0, -1, upload_flipped, false, {true, false}, {false, false}, false},
	{"another's values", FAULT_STEP, 0, -1, upload_others, false, {true, false}, {true, false}, false},
};

/* ---- the scene ---- */

static uint64_t prompt_submit(struct engine *engine, int first_token)
{
	int32_t tokens[PROMPT];
	for (int i = 0; i < PROMPT; i++)
		tokens[i] = first_token + 7 * i;
	return submit(engine,
		&(struct engine_request){.tokens = tokens,
			.n_tokens = PROMPT,
			.max_tokens = GENERATED,
			.logprobs_from = -1,
			.ignore_eos = true});
}

static struct engine *scene_open(const struct deed *d)
{
	struct engine_config config = {
		.threads = 1, .page_size = PAGE, .kv_memory = 1 << 18, .no_prefix_cache = true, .faults = &scene.hook};

	memset(&scene, 0, sizeof scene);
	scene.deed = d;
	scene.hook = (struct fault_hook){&scene, scene_at};
	CHECK_OK(engine_cpu_backend(1, &config.backend, &test_error));
	oracle_init(&scene.oracle, config.backend, &kv_guard_none, NULL);
	config.guard = &scene.oracle.table;
	return open_with(POCKET, "bf16/fp8", config);
}

/* True: no step failed. */
static bool scene_run(struct engine *engine)
{
	for (int answered = 0; answered < 2;) {
		bool idle;
		if (engine_step(engine, &idle, &test_error) < 0)
			return false;
		for (struct engine_result *r; (r = engine_poll(engine)); answered++)
			engine_result_free(r);
	}
	return true;
}

START_TEST(the_oracle_says_what_is_true)
{
	const struct deed *d = &deeds[_i];
	struct engine *engine = scene_open(d);

	prompt_submit(engine, 50);
	prompt_submit(engine, d->alike ? 50 : 500);
	bool ran = scene_run(engine);
	ck_assert_msg(ran == !d->fails, "%s: %s", d->name, ran ? "ran on" : test_error.message);
	if (!ran)
		ck_assert_ptr_nonnull(strstr(test_error.message, "illegal memory access"));
	ck_assert_msg(scene.done == (d->act != NULL), "%s: was not done", d->name);
	for (int i = 0; i < 2; i++) {
		const struct oracle_request *r = &scene.oracle.requests[i + 1];
		ck_assert_msg(r->contaminated == d->contaminated[i], "%s: request %d contaminated: %d", d->name, i + 1,
			r->contaminated);
		ck_assert_msg(r->leaked == d->leaked[i], "%s: request %d leaked: %d", d->name, i + 1, r->leaked);
		if (r->leaked)
			ck_assert_uint_eq(r->leak_from, (uint64_t)(2 - i));
	}
	ck_assert_uint_ge(scene.oracle.reads, d->fails ? 0 : 2 * (9 + 10 + 11 + 12));
	engine_close(engine);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *cases = test_case(suite, "deeds", 0);
	tcase_add_loop_test(cases, the_oracle_says_what_is_true, 0, COUNT(deeds));
}
