/* The page pool's counts, and the hand-over of pages from one pool to another. */
#include "engine/base/number.h"
#include "engine/cpu/cpu_backend.h"
#include "engine/kv/handover.h"
#include "tests/support.h"

const char *const test_program_name = "kv_pages";

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))
enum { LAYERS = 3, HEADS = 2, DIM = 6, PAGE = 4, PAGES = 8 };

static const struct model_config config = {.n_layers = LAYERS, .n_kv_heads = HEADS, .head_dim = DIM};
static struct backend *backend;

static void pool_open(struct kv_pool *pool, enum kv_format format, int n_pages, const struct kv_guard *guard)
{
	CHECK_OK(kv_pool_init(pool, &backend, 1, &config, format, PAGE,
		kv_bytes_per_token(&config, format) * PAGE * (uint64_t)n_pages, guard, &fault_hook_none, &test_error));
}

static void setup(void)
{
	CHECK_OK(cpu_backend_new(1, NULL, &backend, &test_error));
}

static void teardown(void)
{
	backend->ops->destroy(backend);
}

START_TEST(a_page_is_free_in_use_or_idle)
{
	struct kv_pool pool;

	pool_open(&pool, KV_BF16, PAGES, &kv_guard_none);
	ck_assert_int_eq(kv_pool_usable(&pool), PAGES - 1);
	int32_t page = kv_pool_alloc(&pool, 1);
	ck_assert_int_ge(page, 1);
	kv_pool_retain(&pool, page);
	kv_pool_cache(&pool, page);
	static const struct {
		int in_use, available;
	} after[] = {{1, PAGES - 2}, {1, PAGES - 2}, {0, PAGES - 1}};
	for (int i = 0; i < COUNT(after); i++) { /* two requests leave; the cache stays */
		ck_assert_int_eq(kv_pool_in_use(&pool), after[i].in_use);
		ck_assert_int_eq(kv_pool_available(&pool), after[i].available);
		if (i < 2)
			kv_pool_release(&pool, page, 1);
	}
	ck_assert_int_eq(pool.n_free, PAGES - 2);
	ck_assert_int_eq(pool.n_idle, 1);
	kv_pool_retain(&pool, page); /* a hit */
	ck_assert_int_eq(pool.n_idle, 0);
	kv_pool_uncache(&pool, page);
	ck_assert_int_eq(kv_pool_in_use(&pool), 1);
	kv_pool_release(&pool, page, 1);
	ck_assert_int_eq(pool.n_free, PAGES - 1);
	kv_pool_free(&pool);
}
END_TEST

START_TEST(every_page_but_the_reserved_one_is_handed_out_once)
{
	struct kv_pool pool;
	bool seen[PAGES] = {false};

	pool_open(&pool, KV_F32, PAGES, &kv_guard_none);
	for (int i = 1; i < PAGES; i++) {
		int32_t page = kv_pool_alloc(&pool, 1);
		ck_assert(page >= 1 && page < PAGES && !seen[page]);
		seen[page] = true;
	}
	ck_assert_int_eq(kv_pool_alloc(&pool, 1), 0);
	kv_pool_free(&pool);
}
END_TEST

/* ---- hand-over ---- */

static size_t pool_values(void)
{
	return (size_t)PAGES * HEADS * PAGE * DIM;
}

/* The value of (layer, K or V, page, head, slot, i); every fifth is beyond E4M3. */
static float value_at(int layer, int v, size_t i)
{
	float x = (float)((i * 37 + (size_t)layer * 11 + (size_t)v * 5) % 101) * 0.173f - 8.5f;
	return i % 5 == 0 ? x * 1000.0f : x;
}

static void pool_fill(struct kv_pool *pool)
{
	for (int layer = 0; layer < LAYERS; layer++)
		for (int v = 0; v < 2; v++) {
			void *at = v ? pool->layers[layer].v : pool->layers[layer].k;
			for (size_t i = 0; i < pool_values(); i++) {
				float x = value_at(layer, v, i);
				if (pool->format == KV_F32)
					((float *)at)[i] = x;
				else
					((uint16_t *)at)[i] = float_to_bf16(x);
			}
		}
}

static float stored(const struct kv_pool *pool, int layer, int v, size_t i)
{
	const void *at = v ? pool->layers[layer].v : pool->layers[layer].k;
	return pool->format == KV_F32     ? ((const float *)at)[i]
		: pool->format == KV_BF16 ? bf16_to_float(((const uint16_t *)at)[i])
					  : e4m3_to_float(((const uint8_t *)at)[i]);
}

START_TEST(pages_arrive_converted)
{
	static const struct {
		enum kv_format from, to;
		int first, n_tokens;
		float scale; /* of the target */
	} cases[] = {{KV_BF16, KV_E4M3, 0, 11, 1.0f}, {KV_F32, KV_E4M3, 0, 12, 4.0f}, {KV_BF16, KV_BF16, 0, 9, 1.0f},
		{KV_F32, KV_BF16, 2, 11, 1.0f}, {KV_BF16, KV_E4M3, 0, 1, 0.5f}, {KV_BF16, KV_E4M3, 2, 8, 1.0f}};
	static const int32_t source[] = {3, 1, 6}, target[] = {2, 5, 4};
	struct kv_pool from, to;
	uint64_t saturated = 0, clipped = 0;

	pool_open(&from, cases[_i].from, PAGES, &kv_guard_none);
	pool_open(&to, cases[_i].to, PAGES + 3, &kv_guard_none);
	pool_fill(&from);
	for (int layer = 0; layer < LAYERS; layer++)
		kv_pool_set_scales(&to, layer, cases[_i].scale, cases[_i].scale);
	struct kv_handover h = {&from, &to, 1, source, target, cases[_i].first, cases[_i].n_tokens};
	CHECK_OK(kv_handover(&h, &saturated, &test_error));

	for (int layer = 0; layer < LAYERS; layer++)
		for (int v = 0; v < 2; v++)
			for (int page = 0; page < 3; page++)
				for (int at = 0; at < HEADS * PAGE * DIM; at++) {
					int token = page * PAGE + at / DIM % PAGE, per_page = HEADS * PAGE * DIM;
					float x = stored(&from, layer, v, (size_t)(source[page] * per_page + at));
					float y = stored(&to, layer, v, (size_t)(target[page] * per_page + at));
					bool moved = page >= cases[_i].first && token < cases[_i].n_tokens;
					float expected = !moved ? 0.0f
						: cases[_i].to == KV_E4M3
						? e4m3_to_float(float_to_e4m3(x / cases[_i].scale))
						: bf16_to_float(float_to_bf16(x));
					ck_assert_msg(float_bits(y) == float_bits(expected),
						"layer %d, token %d: %g, not %g", layer, token, (double)y,
						(double)expected);
					float scaled = x / cases[_i].scale;
					clipped += moved && cases[_i].to == KV_E4M3 && (scaled > 448 || scaled < -448);
				}
	ck_assert_uint_eq(saturated, clipped);
	kv_pool_free(&from);
	kv_pool_free(&to);
}
END_TEST

/* What a guard sees of a hand-over: 'o' opened, then 's' and 'r' with the logical page. */
struct witness {
	char seen[64];
	int n, refused;
	const struct kv_pool *to;
	bool written; /* at the time of the first transfer tag the values were there */
};

static int witness_open(void *context, const struct kv_guard_layout *layout, void **state, struct error *e)
{
	(void)layout;
	(void)e;
	*state = context;
	return 0;
}

static void witness_note(struct witness *w, char what, const struct kv_guard_transfer *t)
{
	w->seen[w->n++] = what;
	w->seen[w->n++] = (char)('0' + t->logical);
	w->seen[w->n++] = (char)('0' + t->n_tokens);
}

static void witness_sent(void *state, const struct kv_guard_transfer *t)
{
	struct witness *w = state;
	if (w->n == 0)
		w->written = stored(w->to, LAYERS - 1, 1, (size_t)(t->target * HEADS * PAGE * DIM + 1)) != 0.0f;
	witness_note(w, 's', t);
}

static int witness_received(void *state, const struct kv_guard_transfer *t, struct error *e)
{
	struct witness *w = state;
	witness_note(w, 'r', t);
	return t->logical == w->refused ? error_set(e, ERR_DEVICE, "page %d is not whole", t->target) : 0;
}

START_TEST(the_transfer_tag_is_written_last_and_asked_for)
{
	static const int32_t source[] = {3, 1, 6}, target[] = {2, 5, 4};
	static const struct {
		int first, n_tokens, refused;
		const char *seen;
	} cases[] = {
		{0, 9, -1, "s04s14s21r04r14r21"}, {1, 8, -1, "s14r14"}, {0, 9, 1, "s04s14s21r04r14"}, {2, 8, -1, ""}};
	struct kv_guard guard = kv_guard_none;
	struct kv_pool from, to;
	struct witness w = {.refused = cases[_i].refused, .to = &to};
	uint64_t saturated = 0;
	struct error e = {0};

	guard.context = &w;
	guard.open = witness_open;
	guard.transfer_sent = witness_sent;
	guard.transfer_received = witness_received;
	pool_open(&from, KV_BF16, PAGES, &kv_guard_none);
	pool_open(&to, KV_BF16, PAGES, &guard);
	pool_fill(&from);
	struct kv_handover h = {&from, &to, 1, source, target, cases[_i].first, cases[_i].n_tokens};
	ck_assert_int_eq(kv_handover(&h, &saturated, &e), cases[_i].refused < 0 ? 0 : ERR_DEVICE);
	ck_assert_str_eq(w.seen, cases[_i].seen);
	ck_assert(w.written || w.n == 0);
	kv_pool_free(&from);
	kv_pool_free(&to);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *pool = test_case(suite, "pool", 0), *handover = test_case(suite, "hand-over", 0);

	tcase_add_checked_fixture(pool, setup, teardown);
	tcase_add_checked_fixture(handover, setup, teardown);
	tcase_add_test(pool, a_page_is_free_in_use_or_idle);
	tcase_add_test(pool, every_page_but_the_reserved_one_is_handed_out_once);
	tcase_add_loop_test(handover, pages_arrive_converted, 0, 6);
	tcase_add_loop_test(handover, the_transfer_tag_is_written_last_and_asked_for, 0, 4);
}
