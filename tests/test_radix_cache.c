/* The prefix cache: what is found, what is given up, and the tree against a plain list of all that was put in. */
#include "engine/base/rng.h"
#include "engine/cpu/cpu_backend.h"
#include "engine/kv/radix_cache.h"
#include "tests/support.h"

const char *const test_program_name = "radix_cache";

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))
enum { PAGE = 4, POOL_PAGES = 12, WRITER = 7 };

static struct backend *backend;
static struct kv_pool pool;
static struct radix_cache cache;

static void cache_open(void)
{
	static const struct model_config config = {.n_layers = 1, .n_kv_heads = 1, .head_dim = 2};
	uint64_t bytes = kv_bytes_per_token(&config, KV_F32) * PAGE * POOL_PAGES;

	CHECK_OK(cpu_backend_new(1, NULL, &backend, &test_error));
	CHECK_OK(kv_pool_init(
		&pool, &backend, 1, &config, KV_F32, PAGE, bytes, &kv_guard_none, &fault_hook_none, &test_error));
	CHECK_OK(radix_cache_init(&cache, &pool, &test_error));
}

static void cache_close(void)
{
	radix_cache_free(&cache);
	kv_pool_free(&pool);
	backend->ops->destroy(backend);
}

static int32_t add(uint64_t writer, int32_t parent, const int32_t *tokens, int n, int32_t page)
{
	return radix_cache_insert(&cache,
		&(struct radix_page){.writer = writer,
			.request = 1,
			.parent = parent,
			.tokens = tokens,
			.n_tokens = n,
			.page = page});
}

/* A sequence of a request that ends at once: its pages stay in the cache alone. The last page's number. */
static int32_t sequence_put(uint64_t writer, const int32_t *tokens, int n)
{
	int32_t pages[POOL_PAGES], parent = 0;
	int n_pages = (n + PAGE - 1) / PAGE;

	for (int i = 0; i < n_pages; i++)
		ck_assert_int_ne(pages[i] = kv_pool_alloc(&pool, 1), 0);
	for (int i = 0; i < n_pages; i++) {
		int here = n - i * PAGE < PAGE ? n - i * PAGE : PAGE;
		parent = add(writer, parent, tokens + i * PAGE, here, pages[i]);
	}
	for (int i = 0; i < n_pages; i++)
		kv_pool_release(&pool, pages[i], 1);
	CHECK_OK(radix_cache_audit(&cache, &test_error));
	return parent;
}

static struct radix_match match(uint64_t writer, const int32_t *tokens, int n)
{
	int32_t pages[POOL_PAGES];
	struct radix_match m = radix_cache_match(&cache, writer, tokens, n, pages);

	CHECK_OK(radix_cache_audit(&cache, &test_error));
	ck_assert_int_eq(m.n_pages, m.n_tokens / PAGE);
	ck_assert_int_eq(m.tail != 0, m.n_tokens % PAGE != 0);
	for (int i = 0; i < m.n_pages; i++)
		ck_assert(memcmp(cache.tokens + pages[i] * PAGE, tokens + i * PAGE, PAGE * sizeof *tokens) == 0);
	return m;
}

START_TEST(hits_count_in_tokens)
{
	static const int32_t stored[][10] = {
		{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {1, 2, 3, 4, 5, 6, 20, 21, 22, 23}, {1, 2, 9, 9, 1, 1, 1, 1, 1, 1}};
	static const struct {
		const char *name;
		int32_t tokens[12];
		int n, hit;
	} cases[] = {
		{"nothing asked", {1}, 0, 0},
		{"another first token", {2, 2, 3, 4}, 4, 0},
		{"one token", {1}, 1, 1},
		{"within the first page", {1, 2, 3, 99, 5}, 5, 3},
		{"the other sibling", {1, 2, 9, 8, 5}, 5, 3},
		{"a whole page", {1, 2, 3, 4, 99}, 5, 4},
		{"into the second page", {1, 2, 3, 4, 5, 6, 7, 99}, 8, 7},
		{"into its sibling", {1, 2, 3, 4, 5, 6, 20, 99}, 8, 7},
		{"between the two", {1, 2, 3, 4, 5, 6, 8, 99}, 8, 6},
		{"to the end of a partial page", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 10, 10},
		{"beyond it", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 12, 10},
		{"asked for less than is there", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 9, 9},
		{"asked for a page less one", {1, 2, 3, 4, 5, 6, 7, 8}, 3, 3},
		{"negative tokens are no match of others", {-1, 2, 3, 4}, 4, 0},
	};

	cache_open();
	for (int i = 0; i < COUNT(stored); i++)
		sequence_put(WRITER, stored[i], 10);
	for (int i = 0; i < COUNT(cases); i++) {
		int hit = match(WRITER, cases[i].tokens, cases[i].n).n_tokens;
		ck_assert_msg(hit == cases[i].hit, "%s: %d tokens", cases[i].name, hit);
		hit = match(WRITER + 1, cases[i].tokens, cases[i].n).n_tokens;
		ck_assert_msg(hit == 0, "%s: %d tokens of another writer", cases[i].name, hit);
	}
	cache_close();
}
END_TEST

START_TEST(what_is_there_is_not_put_in_again)
{
	static const int32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8};
	cache_open();
	int32_t part = sequence_put(WRITER, tokens, 6);
	ck_assert_int_eq(cache.n_nodes, 2);
	ck_assert_int_eq(sequence_put(WRITER, tokens, 5), part); /* less than is there */
	ck_assert_int_eq(cache.n_nodes, 2);
	int32_t whole = sequence_put(WRITER, tokens, 8); /* the part gives way */
	ck_assert_int_ne(whole, part);
	ck_assert_int_eq(cache.n_nodes, 2);
	ck_assert_int_eq(sequence_put(WRITER, tokens, 8), whole);
	ck_assert_int_eq(pool.n_free, POOL_PAGES - 1 - 2);
	ck_assert_int_eq(pool.n_idle, 2);
	cache_close();
}
END_TEST

START_TEST(the_least_recently_used_leaf_goes_first)
{
	static const int32_t a[] = {1, 2, 3, 4, 5, 6, 7, 8}, b[] = {1, 2, 3, 4, 9, 9, 9, 9}, c[] = {7, 7, 7, 7};
	cache_open();
	sequence_put(WRITER, a, 8);
	sequence_put(WRITER, b, 8);
	sequence_put(WRITER, c, 4);
	match(WRITER, a, 8); /* b is now the oldest, then c */
	radix_cache_make_room(&cache, pool.n_free + 1);
	ck_assert_int_eq(match(WRITER, b, 8).n_tokens, 4);
	ck_assert_int_eq(match(WRITER, c, 4).n_tokens, 4);
	match(WRITER, a, 8);
	radix_cache_make_room(&cache, pool.n_free + 2); /* c, then the second page of a */
	ck_assert_int_eq(match(WRITER, c, 4).n_tokens, 0);
	ck_assert_int_eq(match(WRITER, a, 8).n_tokens, 4);
	ck_assert_uint_eq(cache.evicted, 3);
	radix_cache_make_room(&cache, 1000); /* no more than there is */
	ck_assert_int_eq(cache.n_nodes, 0);
	ck_assert_int_eq(pool.n_free, POOL_PAGES - 1);
	cache_close();
}
END_TEST

START_TEST(pages_in_use_are_not_given_up)
{
	static const int32_t a[] = {1, 2, 3, 4, 5, 6, 7, 8}, b[] = {8, 7, 6, 5};
	int32_t pages[2];

	cache_open();
	sequence_put(WRITER, a, 8);
	sequence_put(WRITER, b, 4);
	struct radix_match m = radix_cache_match(&cache, WRITER, a, 4, pages);
	ck_assert_int_eq(m.n_pages, 1);
	kv_pool_retain(&pool, pages[0]);
	radix_cache_make_room(&cache, 1000);
	ck_assert_int_eq(cache.n_nodes, 1);
	ck_assert_int_eq(match(WRITER, a, 8).n_tokens, 4);
	kv_pool_release(&pool, pages[0], 1);
	radix_cache_make_room(&cache, 1000);
	ck_assert_int_eq(cache.n_nodes, 0);
	cache_close();
}
END_TEST

START_TEST(forgetting_takes_all_that_follows)
{
	static const int32_t a[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, b[] = {1, 2, 3, 4, 9, 9, 9, 9}, c[] = {7, 7, 7, 7};
	int32_t pages[2];

	cache_open();
	sequence_put(WRITER, a, 9);
	sequence_put(WRITER, b, 8);
	sequence_put(WRITER, c, 4);
	radix_cache_match(&cache, WRITER, b, 8, pages);
	kv_pool_retain(&pool, pages[0]);
	kv_pool_retain(&pool, pages[1]);
	radix_cache_forget(&cache, pages[0]);
	CHECK_OK(radix_cache_audit(&cache, &test_error));
	ck_assert_int_eq(cache.n_nodes, 1);
	ck_assert_int_eq(match(WRITER, a, 9).n_tokens, 0);
	ck_assert_int_eq(pool.n_free, POOL_PAGES - 1 - 3); /* the two that are mapped, and c */
	kv_pool_release(&pool, pages[0], 1);
	kv_pool_release(&pool, pages[1], 1);
	ck_assert_int_eq(pool.n_free, POOL_PAGES - 1 - 1);
	cache_close();
}
END_TEST

/* ---- against a plain list ---- */

enum { SEQUENCE = 14, KEPT = 400 };

/* Tokens from 0 to 2: sequences meet often. */
static int sequence_draw(struct py_random *rng, int32_t *tokens)
{
	int n = 1 + (int)py_random_below(rng, SEQUENCE);
	for (int i = 0; i < n; i++)
		tokens[i] = (int32_t)py_random_below(rng, 3);
	return n;
}

static int common(const int32_t *a, int n_a, const int32_t *b, int n_b)
{
	int i = 0;
	while (i < n_a && i < n_b && a[i] == b[i])
		i++;
	return i;
}

START_TEST(the_longest_prefix_is_found)
{
	static int32_t kept[KEPT][SEQUENCE];
	static int lengths[KEPT];
	struct py_random rng;

	py_random_seed(&rng, (uint64_t)_i);
	cache_open();
	for (int step = 0; step < KEPT; step++) {
		int32_t asked[SEQUENCE];
		int n = sequence_draw(&rng, asked), longest = 0;
		for (int i = 0; i < step; i++) {
			int shared = common(asked, n, kept[i], lengths[i]);
			longest = shared > longest ? shared : longest;
		}
		/* what was given up to make room may be missing: without that nothing is */
		int hit = match(WRITER, asked, n).n_tokens;
		ck_assert_int_le(hit, longest);
		if (cache.evicted == 0)
			ck_assert_int_eq(hit, longest);
		radix_cache_make_room(&cache, (SEQUENCE + PAGE - 1) / PAGE);
		lengths[step] = sequence_draw(&rng, kept[step]);
		sequence_put(WRITER, kept[step], lengths[step]);
		ck_assert_int_eq(match(WRITER, kept[step], lengths[step]).n_tokens, lengths[step]);
	}
	ck_assert_uint_gt(cache.evicted, 0);
	cache_close();
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *c = test_case(suite, "cache", 60);

	tcase_add_test(c, hits_count_in_tokens);
	tcase_add_test(c, what_is_there_is_not_put_in_again);
	tcase_add_test(c, the_least_recently_used_leaf_goes_first);
	tcase_add_test(c, pages_in_use_are_not_given_up);
	tcase_add_test(c, forgetting_takes_all_that_follows);
	tcase_add_loop_test(c, the_longest_prefix_is_found, 0, 5);
}
