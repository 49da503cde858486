/* Checks of pages whose answer comes with the step, on the CPU that stands in for a GPU: what the device finds bad it keeps
 * from being read, and from being written, by itself. */
#include <stdlib.h>
#include <string.h>

#include "engine/backend.h"
#include "tests/backend_pair.h"
#include "tests/cuda_on_cpu/cuda_on_cpu.h"
#include "tests/engine_support.h"

const char *const test_program_name = "cuda_pages";

/* ---- one layer over a batch of three ---- */

enum { SEQUENCES = 3, TOKENS = 4, STRIDE = 5, PAGE = 4, PAGES = 12, HEADS = 2, DIM = 16, PARKED = 1 };
enum { QKV = TOKENS * (HEADS + 2) * DIM, CACHE = PAGES * PAGE * DIM, OUT = TOKENS * HEADS * DIM };

/* Positions [9], [6, 7], [4] on pages 1 to 3, 4 and 5, 6 and 7; the second sequence has three pages more. */
struct batch_arrays {
	int32_t cu_seqlens[SEQUENCES + 1], first_position[SEQUENCES], tables[SEQUENCES * STRIDE];
	int64_t slots[TOKENS];
	int32_t used[SEQUENCES], pages[SEQUENCES * STRIDE], first_bad[SEQUENCES];
	uint64_t expected[SEQUENCES * STRIDE], tags[PAGES];
};

static struct batch_arrays batch_make(void)
{
	static const int32_t first_page[SEQUENCES] = {1, 4, 6};
	struct batch_arrays a = {.cu_seqlens = {0, 1, 3, 4},
		.first_position = {9, 6, 4},
		.slots = {3 * PAGE + 1, 5 * PAGE + 2, 5 * PAGE + 3, 7 * PAGE},
		.used = {3, 2, 2}};

	for (int i = 0; i < PAGES; i++)
		a.tags[i] = 500 + 3 * (uint64_t)i;
	for (int b = 0; b < SEQUENCES; b++) {
		for (int i = 0; i < (b == PARKED ? STRIDE : a.used[b]); i++) {
			int32_t page = i < a.used[b] ? first_page[b] + i : 6 + i;
			a.tables[b * STRIDE + i] = a.pages[b * STRIDE + i] = page;
			a.expected[b * STRIDE + i] = a.tags[page];
		}
	}
	return a;
}

/* As the engine's batch_park_bad. */
static void host_park(struct batch_arrays *a, int b)
{
	memset(a->tables + b * STRIDE, 0, STRIDE * sizeof *a->tables);
	a->first_position[b] = 0;
	for (int t = a->cu_seqlens[b]; t < a->cu_seqlens[b + 1]; t++)
		a->slots[t] = (t - a->cu_seqlens[b]) % PAGE;
}

struct layer {
	struct backend *backend;
	struct kv_layer cache;
	float *qkv, *out, *x;
	struct weight head;
};

static void *device_new(struct backend *b, size_t floats)
{
	void *memory = b->ops->alloc(b, floats * sizeof(float), &test_error);
	ck_assert_ptr_nonnull(memory);
	return memory;
}

static void layer_open(struct layer *l, bool cuda)
{
	static const float values[16 * 8] = {1};
	struct host_matrix matrix = {.format = WEIGHT_F32, .rows = 16, .columns = 8, .data = values};

	l->backend = backend_new(cuda);
	CHECK_OK(l->backend->ops->weight_pack(l->backend, &matrix, 1, &l->head, &test_error));
	l->cache = (struct kv_layer){KV_F32, device_new(l->backend, CACHE), device_new(l->backend, CACHE), 1.0f, 1.0f};
	l->qkv = device_new(l->backend, QKV);
	l->out = device_new(l->backend, OUT);
	l->x = device_new(l->backend, 8);
}

static void layer_close(struct layer *l)
{
	float *all[] = {l->cache.k, l->cache.v, l->qkv, l->out, l->x};

	for (int i = 0; i < COUNT(all); i++)
		l->backend->ops->free(l->backend, all[i]);
	l->backend->ops->weight_free(l->backend, &l->head);
	l->backend->ops->destroy(l->backend);
}

/* Every value of the cache and of the input is another one. */
static void layer_fill(struct layer *l)
{
	float values[CACHE];

	for (int side = 0; side < 2; side++) {
		for (int i = 0; i < CACHE; i++)
			values[i] = (float)((i * 37 + side * 11) % 1009) / 500.0f - 1.0f;
		l->backend->ops->upload(l->backend, side ? l->cache.v : l->cache.k, values, sizeof values);
	}
	for (int i = 0; i < QKV; i++)
		values[i] = (float)(i * 53 % 997) / 400.0f - 1.2f;
	l->backend->ops->upload(l->backend, l->qkv, values, QKV * sizeof *values);
}

struct outcome {
	float k[CACHE], v[CACHE], out[OUT];
};

static struct verify_pages_args check_of(struct batch_arrays *a, struct verify_deferral *deferral)
{
	*deferral = (struct verify_deferral){
		.cu_seqlens = a->cu_seqlens, .first_position = a->first_position, .slots = a->slots, .page_size = PAGE};
	for (int b = 0; b < SEQUENCES; b++)
		a->first_bad[b] = 77;
	return (struct verify_pages_args){.block_tables = a->tables,
		.table_stride = STRIDE,
		.n_sequences = SEQUENCES,
		.n_used = a->used,
		.expected = a->expected,
		.pages = a->pages,
		.page_tags = a->tags,
		.n_pages = PAGES,
		.first_bad = a->first_bad,
		.deferral = deferral};
}

/* K and V written, attention, a row of logits; the step's end is the caller's. */
static void step_ops(struct layer *l, const struct batch_arrays *a)
{
	const struct backend_ops *ops = l->backend->ops;
	const struct kv_geometry geometry = {PAGE, PAGES, 1, DIM};
	static struct logits_row row;

	ops->batch_begin(l->backend);
	ops->qkv_finish(l->backend,
		&(struct qkv_finish_args){.qkv = l->qkv,
			.rope = l->x,
			.n_tokens = TOKENS,
			.n_heads = HEADS,
			.geometry = geometry,
			.layer = l->cache,
			.slots = a->slots});
	ops->attend(l->backend,
		&(struct attend_args){.q = l->qkv,
			.q_stride = (HEADS + 2) * DIM,
			.n_tokens = TOKENS,
			.n_sequences = SEQUENCES,
			.n_heads = HEADS,
			.scale = 0.25f,
			.geometry = geometry,
			.layer = l->cache,
			.cu_seqlens = a->cu_seqlens,
			.first_position = a->first_position,
			.block_tables = a->tables,
			.table_stride = STRIDE,
			.out = l->out});
	row = (struct logits_row){.target = 3};
	ops->logits(l->backend,
		&(struct logits_args){
			.x = l->x, .head = &l->head, .hidden = 8, .vocab = 16, .rows = &row, .n_rows = 1});
}

static void outcome_take(struct layer *l, struct outcome *o)
{
	const struct backend_ops *ops = l->backend->ops;

	ops->download(l->backend, o->k, l->cache.k, sizeof o->k);
	ops->download(l->backend, o->v, l->cache.v, sizeof o->v);
	ops->download(l->backend, o->out, l->out, sizeof o->out);
	CHECK_OK(ops->finish(l->backend, &test_error));
}

/* A step without any check. */
static void plain_step(struct layer *l, const struct batch_arrays *a, struct outcome *o)
{
	layer_fill(l);
	step_ops(l, a);
	CHECK_OK(l->backend->ops->finish(l->backend, &test_error));
	outcome_take(l, o);
}

static void answers_expect(const char *name, const struct batch_arrays *a, const int32_t expected[SEQUENCES])
{
	for (int b = 0; b < SEQUENCES; b++)
		ck_assert_msg(a->first_bad[b] == expected[b], "%s: sequence %d: first bad page %d, expected %d", name,
			b, a->first_bad[b], expected[b]);
}

/* Of two that are parked either may be the last to write to page 0: then that, and what they read there, is not compared. */
static void outcomes_alike(const char *name, const struct outcome *a, const struct outcome *b, bool two_parked)
{
	int from = two_parked ? PAGE * DIM : 0, row = HEADS * DIM;
	size_t cache = (size_t)(CACHE - from) * sizeof *a->k, out = (size_t)(two_parked ? row : OUT) * sizeof *a->out;

	ck_assert_msg(memcmp(a->out, b->out, out) == 0, "%s: attention has other bits", name);
	ck_assert_msg(memcmp(a->k + from, b->k + from, cache) == 0 && memcmp(a->v + from, b->v + from, cache) == 0,
		"%s: the cache has other bits", name);
}

/* A step behind a check that is deferred: its answer, and the outcome, are as expected. */
static void checked_step(const char *name, struct layer *l, struct batch_arrays *a, int parked_on_host,
	const int32_t expected[SEQUENCES], const struct outcome *outcome)
{
	static const int32_t untouched[SEQUENCES] = {77, 77, 77};
	static struct outcome got;
	struct verify_deferral deferral;
	struct verify_pages_args check = check_of(a, &deferral);

	layer_fill(l);
	l->backend->ops->verify_pages(l->backend, &check);
	ck_assert_msg(deferral.deferred, "%s: the answer is not deferred", name);
	if (parked_on_host >= 0)
		host_park(a, parked_on_host);
	step_ops(l, a);
	answers_expect(name, a, untouched);
	CHECK_OK(l->backend->ops->finish(l->backend, &test_error));
	answers_expect(name, a, expected);
	outcome_take(l, &got);
	outcomes_alike(name, &got, outcome, parked_on_host >= 0);
}

/* Faults of the sequence that is parked, and its first bad page. */
static const struct fault {
	const char *name;
	int32_t first_bad;
	int entry, page;        /* of its table */
	int freed;              /* page whose tag changes */
	int used;               /* pages more than it has */
	int32_t first_position; /* 0: as it is */
} faults[] = {
	{"another's page", 0, .entry = 0, .page = 1},
	{"another's page, where it writes", 1, .entry = 1, .page = 7},
	{"a free page", 1, .entry = 1, .page = 11},
	{"its own other page", 0, .entry = 0, .page = 5},
	{"page 0", 1, .entry = 1, .page = 0},
	{"a negative page", 0, .entry = 0, .page = -1},
	{"the page behind the last", 1, .entry = 1, .page = PAGES},
	{"a far page", 0, .entry = 0, .page = INT32_MAX},
	{"a page freed", 1, .entry = 1, .page = 5, .freed = 5},
	{"more pages than a table has", STRIDE, .entry = 1, .page = 5, .used = STRIDE, .first_position = STRIDE * PAGE},
	{"an endless length", STRIDE, .entry = 1, .page = 5, .used = INT32_MAX - 2, .first_position = INT32_MAX},
	{"a length below nothing", 0, .entry = 1, .page = 5, .used = -3, .first_position = -1},
};

static void fault_plant(const struct fault *f, struct batch_arrays *a)
{
	a->tables[PARKED * STRIDE + f->entry] = f->page;
	a->tags[f->freed] += f->freed > 0;
	a->used[PARKED] += f->used;
	if (f->first_position)
		a->first_position[PARKED] = f->first_position;
}

/* What is found bad reads and writes page 0 alone; before and after it, and beside it, nothing changes. Eager steps, the
 * capture and its graph take turns. */
START_TEST(the_device_parks_what_it_finds_bad)
{
	static const int32_t all_good[SEQUENCES] = {-1, -1, -1};
	static struct outcome clean, parked, both;
	struct layer l;

	cuda_on_cpu_seed((uint64_t)_i);
	layer_open(&l, true);
	struct batch_arrays a = batch_make();
	plain_step(&l, &a, &clean);
	host_park(&a, PARKED);
	plain_step(&l, &a, &parked);
	host_park(&a, 2);
	plain_step(&l, &a, &both);
	ck_assert(
		memcmp(clean.k + PAGE * DIM, parked.k + PAGE * DIM, sizeof clean.k - PAGE * DIM * sizeof(float)) != 0);
	for (int i = 0; i < COUNT(faults); i++) {
		const struct fault *f = &faults[i];
		const int32_t one_bad[SEQUENCES] = {-1, f->first_bad, -1}, two_bad[SEQUENCES] = {-1, f->first_bad, 0};
		a = batch_make();
		checked_step("sound", &l, &a, -1, all_good, &clean);
		fault_plant(f, &a);
		const struct batch_arrays before = a;
		checked_step(f->name, &l, &a, -1, one_bad, &parked);
		ck_assert_msg(memcmp(before.tables, a.tables, sizeof a.tables) == 0 &&
				memcmp(before.slots, a.slots, sizeof a.slots) == 0 &&
				a.first_position[PARKED] == before.first_position[PARKED],
			"%s: host memory changed", f->name);
		checked_step(f->name, &l, &a, -1, one_bad, &parked);
		checked_step(f->name, &l, &a, 2, two_bad, &both);
	}
	a = batch_make();
	checked_step("sound at last", &l, &a, -1, all_good, &clean);
	layer_close(&l);
}
END_TEST

/* A slot is no entry of a table: where it alone goes elsewhere the answer is good, and the write is the caller's to check. */
START_TEST(a_slot_alone_is_not_checked)
{
	static const int32_t all_good[SEQUENCES] = {-1, -1, -1};
	static struct outcome redirected;
	struct batch_arrays a = batch_make();
	struct layer l;

	layer_open(&l, true);
	a.slots[1] = 9 * PAGE;
	plain_step(&l, &a, &redirected);
	checked_step("another slot", &l, &a, -1, all_good, &redirected);
	layer_close(&l);
}
END_TEST

/* What changes behind the step is not answered by the check that was made with it. */
START_TEST(the_second_answer_is_of_what_is_there)
{
	struct verify_deferral deferral;
	struct layer l;

	cuda_on_cpu_seed((uint64_t)_i);
	layer_open(&l, true);
	for (int change = 0; change < 4; change++) {
		struct batch_arrays a = batch_make();
		struct verify_pages_args check = check_of(&a, &deferral);
		if (change == 1)
			a.tables[PARKED * STRIDE] = 9;
		l.backend->ops->verify_pages(l.backend, &check);
		step_ops(&l, &a);
		CHECK_OK(l.backend->ops->finish(l.backend, &test_error));
		if (change == 2)
			a.tags[3]++;
		if (change == 3)
			a.tables[2 * STRIDE + 1] = 6;
		int waits = cuda_on_cpu_waits();
		check = check_of(&a, &deferral);
		check.deferral = NULL;
		l.backend->ops->verify_pages(l.backend, &check);
		answers_expect("after the step", &a,
			(int32_t[SEQUENCES]){change == 2 ? 2 : -1, change == 1 ? 0 : -1, change == 3 ? 1 : -1});
		ck_assert_int_eq(cuda_on_cpu_waits() - waits, change > 0);
	}
	layer_close(&l);
}
END_TEST

/* Without a step the answer comes all the same; a failed one gives none; who asks while another waits is answered. */
START_TEST(an_answer_comes_with_finish_and_with_nothing_else)
{
	static const int32_t untouched[SEQUENCES] = {77, 77, 77}, found[SEQUENCES] = {-1, 1, -1};
	struct batch_arrays a = batch_make(), other = batch_make();
	struct verify_deferral deferral, second;
	struct verify_pages_args check = check_of(&a, &deferral), at_once;
	struct layer l;
	struct error e = {0};

	layer_open(&l, true);
	a.tables[PARKED * STRIDE + 1] = 8;
	l.backend->ops->verify_pages(l.backend, &check);
	answers_expect("no step", &a, untouched);
	at_once = check_of(&other, &second);
	l.backend->ops->verify_pages(l.backend, &at_once);
	ck_assert(!second.deferred);
	answers_expect("asked meanwhile", &other, (int32_t[SEQUENCES]){-1, -1, -1});
	CHECK_OK(l.backend->ops->finish(l.backend, &test_error));
	answers_expect("no step", &a, found);

	check = check_of(&a, &deferral);
	l.backend->ops->verify_pages(l.backend, &check);
	ck_assert(deferral.deferred);
	l.backend->ops->route(l.backend,
		&(struct route_args){.logits = l.x,
			.n_tokens = 1,
			.n_experts = 100000,
			.n_chosen = 1,
			.n_group = 1,
			.topk_group = 1,
			.scaling = 1.0f,
			.experts = (int32_t *)(void *)l.x,
			.weights = l.x});
	step_ops(&l, &a);
	ck_assert_int_eq(l.backend->ops->finish(l.backend, &e), ERR_INPUT);
	answers_expect("a failed step", &a, untouched);
	layer_close(&l);

	layer_open(&l, false); /* the CPU does not let wait */
	check = check_of(&a, &deferral);
	l.backend->ops->verify_pages(l.backend, &check);
	ck_assert(!deferral.deferred);
	answers_expect("the CPU", &a, found);
	layer_close(&l);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *gate = test_case(suite, "gate", 0);
	tcase_add_loop_test(gate, the_device_parks_what_it_finds_bad, 0, 3);
	tcase_add_test(gate, a_slot_alone_is_not_checked);
	tcase_add_loop_test(gate, the_second_answer_is_of_what_is_there, 0, 3);
	tcase_add_test(gate, an_answer_comes_with_finish_and_with_nothing_else);
}
