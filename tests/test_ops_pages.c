/* Checking tables against tags, and copying pages between caches of every pair of formats. */
#include <math.h>

#include "engine/base/number.h"
#include "engine/cpu/ops_pages.h"
#include "tests/ops_golden.h"

const char *const test_program_name = "ops_pages";

/* ---- verify_pages ---- */

enum { VERIFY_PAGES = 6, VERIFY_STRIDE = 4 };

#define TAG_5 UINT64_C(0xffffffff00000105)
static const uint64_t page_tags[VERIFY_PAGES] = {100, 101, 102, 103, 104, TAG_5};

static const struct {
	const char *name;
	int32_t table[VERIFY_STRIDE];
	int32_t used;
	uint64_t expected[VERIFY_STRIDE];
	int32_t first_bad;
} verify_cases[] = {
	{"clean", {1, 4, 2, 3}, 4, {101, 104, 102, 103}, -1},
	{"last page", {5, 5, 5, 5}, 4, {TAG_5, TAG_5, TAG_5, TAG_5}, -1},
	{"none in use", {-7, 99, 0, 1}, 0, {0, 0, 0, 0}, -1},
	{"rubbish behind the end", {1, 99, -1, 0}, 1, {101, 0, 0, 0}, -1},
	{"page 0, its own tag expected", {0, 1, 2, 3}, 4, {100, 101, 102, 103}, 0},
	{"page 0 inside", {1, 0, 2, 3}, 4, {101, 100, 102, 103}, 1},
	{"negative", {1, 2, -1, 3}, 4, {101, 102, 103, 103}, 2},
	{"most negative", {INT32_MIN, 1, 2, 3}, 4, {101, 101, 102, 103}, 0},
	{"n_pages", {1, 2, 3, 6}, 4, {101, 102, 103, 104}, 3},
	{"far out", {1, INT32_MAX, 3, 4}, 4, {101, 102, 103, 104}, 1},
	{"wrong tag", {1, 2, 3, 4}, 4, {101, 102, 104, 103}, 2},
	{"wrong low half", {5, 1, 1, 1}, 1, {UINT64_C(0xffffffff00000104), 0, 0, 0}, 0},
	{"wrong high half", {5, 1, 1, 1}, 1, {UINT64_C(0xfffffffe00000105), 0, 0, 0}, 0},
	{"wrong tag in the last", {1, 2, 3, 4}, 4, {101, 102, 103, 105}, 3},
	{"two are bad: the first", {1, 3, 3, -4}, 4, {101, 102, 103, 104}, 1},
	{"more than the table holds", {1, 2, 3, 4}, 5, {101, 102, 103, 104}, 4},
	{"far more, and a bad page", {1, 2, 0, 4}, INT32_MAX, {101, 102, 103, 104}, 2},
	{"negative use", {1, 2, 3, 4}, -1, {101, 102, 103, 104}, 0},
};
enum { VERIFY_CASES = sizeof verify_cases / sizeof verify_cases[0] };

/* tags of exactly n_pages in heap memory, so that a read outside is caught where AddressSanitizer runs */
static uint64_t *tags_new(void)
{
	uint64_t *tags = malloc(sizeof page_tags);
	ck_assert_ptr_nonnull(tags);
	memcpy(tags, page_tags, sizeof page_tags);
	return tags;
}

START_TEST(verify_alone)
{
	uint64_t *tags = tags_new();
	int32_t first_bad = 77;

	verify_pages_cpu(&(struct verify_pages_args){.block_tables = verify_cases[_i].table,
		.table_stride = VERIFY_STRIDE,
		.n_sequences = 1,
		.n_used = &verify_cases[_i].used,
		.expected = verify_cases[_i].expected,
		.page_tags = tags,
		.n_pages = VERIFY_PAGES,
		.first_bad = &first_bad});
	ck_assert_msg(first_bad == verify_cases[_i].first_bad, "%s: %d, not %d", verify_cases[_i].name, first_bad,
		verify_cases[_i].first_bad);
	free(tags);
}
END_TEST

/* A bad sequence says nothing of its neighbours. */
START_TEST(verify_batch)
{
	int32_t table[VERIFY_CASES * VERIFY_STRIDE], used[VERIFY_CASES], first_bad[VERIFY_CASES + 1];
	uint64_t expected[VERIFY_CASES * VERIFY_STRIDE], *tags = tags_new();
	struct verify_pages_args args = {.block_tables = table,
		.table_stride = VERIFY_STRIDE,
		.n_sequences = VERIFY_CASES,
		.n_used = used,
		.expected = expected,
		.page_tags = tags,
		.n_pages = VERIFY_PAGES,
		.first_bad = first_bad};

	for (int s = 0; s < VERIFY_CASES; s++) {
		memcpy(table + s * VERIFY_STRIDE, verify_cases[s].table, sizeof verify_cases[s].table);
		memcpy(expected + s * VERIFY_STRIDE, verify_cases[s].expected, sizeof verify_cases[s].expected);
		used[s] = verify_cases[s].used;
		first_bad[s] = 77;
	}
	first_bad[VERIFY_CASES] = 77;
	verify_pages_cpu(&args);
	for (int s = 0; s < VERIFY_CASES; s++)
		ck_assert_msg(first_bad[s] == verify_cases[s].first_bad, "%s: %d", verify_cases[s].name, first_bad[s]);
	ck_assert_int_eq(first_bad[VERIFY_CASES], 77);
	args.n_sequences = 0;
	first_bad[0] = 77;
	verify_pages_cpu(&args);
	ck_assert_int_eq(first_bad[0], 77);
	free(tags);
}
END_TEST

/* ---- copy_pages ---- */

static enum kv_format format_of(const char *name)
{
	return strcmp(name, "f32") == 0 ? KV_F32 : strcmp(name, "bf16") == 0 ? KV_BF16 : KV_E4M3;
}

struct cache {
	struct kv_geometry geometry;
	struct kv_layer layer;
	size_t bytes; /* of k, of v */
};

static void cache_init(
	struct cache *c, enum kv_format format, float k_scale, float v_scale, struct kv_geometry geometry, bool latent)
{
	*c = (struct cache){.geometry = geometry, .layer = {.format = format, .k_scale = k_scale, .v_scale = v_scale}};
	c->bytes = (size_t)(geometry.n_pages * geometry.n_kv_heads * geometry.page_size * geometry.head_dim) *
		kv_format_size(format);
	c->layer.k = malloc(c->bytes);
	c->layer.v = latent ? NULL : malloc(c->bytes);
	ck_assert(c->layer.k && (latent || c->layer.v));
	memset(c->layer.k, 0xaa, c->bytes);
	if (!latent)
		memset(c->layer.v, 0xaa, c->bytes);
}

static void cache_free(struct cache *c)
{
	free(c->layer.k);
	free(c->layer.v);
}

static void copy_page(const struct cache *from, int32_t source, const struct cache *to, int32_t target, int n_tokens,
	uint64_t *saturated)
{
	copy_pages_cpu(&(struct copy_pages_args){.from_geometry = from->geometry,
		.to_geometry = to->geometry,
		.from = from->layer,
		.to = to->layer,
		.source = &source,
		.target = &target,
		.n = 1,
		.n_tokens = n_tokens,
		.saturated = saturated});
}

/* The target holds want (hex, heads of 6 slots) in page 2 and 0xaa everywhere else. */
static void check_page(const struct cache *c, const uint8_t *values, const char *want, const char *what)
{
	size_t slot = (size_t)c->geometry.head_dim * kv_format_size(c->layer.format), page = slot * 16, at = 0;

	ck_assert_uint_eq(strlen(want), slot * 12 * 2);
	for (size_t i = 0; i < c->bytes; i++) {
		bool copied = i / page == 2 && i / slot % 8 < 6;
		unsigned byte = 0xaa;
		if (copied)
			ck_assert_int_eq(sscanf(want + 2 * at++, "%2x", &byte), 1);
		ck_assert_msg(values[i] == byte, "%s: byte %zu is %02x, not %02x", what, i, values[i], byte);
	}
	ck_assert_uint_eq(at, slot * 12);
}

static void copy_row(char **field)
{
	const struct kv_geometry small = {.page_size = 8, .n_pages = 2, .n_kv_heads = 2, .head_dim = 3};
	struct kv_geometry large = small;
	uint64_t seed = (uint64_t)golden_int(field[6]), saturated = 40;
	struct cache from, to;
	char what[64];

	large.n_pages = 4;
	cache_init(&from, format_of(field[0]), (float)golden_double(field[1]), (float)golden_double(field[2]), small,
		false);
	cache_init(
		&to, format_of(field[3]), (float)golden_double(field[4]), (float)golden_double(field[5]), large, false);
	float *k = hash_values(seed, 48), *v = hash_values(seed + 1, 48);
	kv_store_ref(from.layer.format, from.layer.k, 48, k, 48, from.layer.k_scale);
	kv_store_ref(from.layer.format, from.layer.v, 48, v, 48, from.layer.v_scale);
	copy_page(&from, 1, &to, 2, 6, &saturated);
	snprintf(what, sizeof what, "%s to %s", field[0], field[3]);
	check_page(&to, to.layer.k, field[8], what);
	check_page(&to, to.layer.v, field[9], what);
	ck_assert_uint_eq(saturated, 40 + (uint64_t)golden_int(field[7]));
	free(k);
	free(v);
	cache_free(&from);
	cache_free(&to);
}

START_TEST(copy_golden)
{
	ck_assert_int_eq(golden_each("pages.tsv", 10, copy_row), 12);
}
END_TEST

/* Same format and scale: bytes, whatever they mean (signalling NaN, -0, the second NaN of E4M3); none is clipped. */
START_TEST(copy_same_is_bytes)
{
	const struct kv_geometry geometry = {.page_size = 16, .n_pages = 5, .n_kv_heads = 3, .head_dim = 7};
	struct cache from, to;
	uint64_t saturated = 0;

	cache_init(&from, (enum kv_format)_i, 0.3f, 0.7f, geometry, false);
	cache_init(&to, (enum kv_format)_i, 0.3f, 0.7f, geometry, false);
	for (size_t i = 0; i < from.bytes; i++) {
		((uint8_t *)from.layer.k)[i] = (uint8_t)hash_at(90, i);
		((uint8_t *)from.layer.v)[i] = (uint8_t)hash_at(91, i);
	}
	const int32_t source[] = {4, 0, 2}, target[] = {1, 3, 2};
	size_t page = from.bytes / 5;
	copy_pages_cpu(&(struct copy_pages_args){.from_geometry = geometry,
		.to_geometry = geometry,
		.from = from.layer,
		.to = to.layer,
		.source = source,
		.target = target,
		.n = 3,
		.n_tokens = 16,
		.saturated = &saturated});
	for (int i = 0; i < 3; i++) {
		size_t in = (size_t)source[i] * page, out = (size_t)target[i] * page;
		ck_assert_mem_eq((uint8_t *)to.layer.k + out, (uint8_t *)from.layer.k + in, page);
		ck_assert_mem_eq((uint8_t *)to.layer.v + out, (uint8_t *)from.layer.v + in, page);
	}
	for (size_t i = 0; i < page; i++)
		ck_assert(((uint8_t *)to.layer.k)[i] == 0xaa && ((uint8_t *)to.layer.v)[4 * page + i] == 0xaa);
	ck_assert_uint_eq(saturated, 0);
	cache_free(&from);
	cache_free(&to);
}
END_TEST

/* A latent layer has no V; 0 tokens and 0 pages copy nothing; a NULL counter counts nothing. */
START_TEST(copy_latent)
{
	const struct kv_geometry geometry = {.page_size = 8, .n_pages = 3, .n_kv_heads = 1, .head_dim = 6};
	struct cache from, to;
	uint64_t saturated = 0;
	float values[48];

	cache_init(&from, KV_F32, 1.0f, 1.0f, geometry, true);
	cache_init(&to, KV_E4M3, 0.5f, 1.0f, geometry, true);
	for (int i = 0; i < 48; i++)
		values[i] = (float)i * 10.0f; /* above 224 from 23 on */
	memcpy((float *)from.layer.k + 48, values, sizeof values);
	copy_page(&from, 1, &to, 2, 0, &saturated);
	copy_pages_cpu(&(struct copy_pages_args){
		.from_geometry = geometry, .to_geometry = geometry, .from = from.layer, .to = to.layer});
	for (size_t i = 0; i < to.bytes; i++)
		ck_assert_uint_eq(((uint8_t *)to.layer.k)[i], 0xaa);
	copy_page(&from, 1, &to, 2, 5, &saturated);
	ck_assert_uint_eq(saturated, 30 - 23);
	copy_page(&from, 1, &to, 2, 5, NULL);
	for (int i = 0; i < 48; i++) {
		uint8_t want = i < 30 ? float_to_e4m3(values[i] / 0.5f) : 0xaa;
		ck_assert_uint_eq(((uint8_t *)to.layer.k)[96 + i], want);
		ck_assert_uint_eq(((uint8_t *)to.layer.k)[48 + i], 0xaa);
	}
	cache_free(&from);
	cache_free(&to);
}
END_TEST

/* Copy on write inside one pool; a page copied onto itself stays. */
START_TEST(copy_within_pool)
{
	const struct kv_geometry geometry = {.page_size = 8, .n_pages = 4, .n_kv_heads = 2, .head_dim = 4};
	const int32_t source[] = {1, 2, 3}, target[] = {2, 3, 3};
	struct cache c;

	cache_init(&c, KV_BF16, 1.0f, 1.0f, geometry, false);
	for (size_t i = 0; i < c.bytes; i++)
		((uint8_t *)c.layer.k)[i] = ((uint8_t *)c.layer.v)[i] = (uint8_t)hash_at(95, i);
	copy_pages_cpu(&(struct copy_pages_args){.from_geometry = geometry,
		.to_geometry = geometry,
		.from = c.layer,
		.to = c.layer,
		.source = source,
		.target = target,
		.n = 3,
		.n_tokens = 8});
	size_t page = c.bytes / 4;
	for (size_t i = 0; i < c.bytes; i++) { /* in order: page 1 reached 2, then 3 */
		uint8_t want = (uint8_t)hash_at(95, i < page ? i : page + i % page);
		ck_assert(((uint8_t *)c.layer.k)[i] == want && ((uint8_t *)c.layer.v)[i] == want);
	}
	cache_free(&c);
}
END_TEST

/* A NaN stays one through every conversion. */
START_TEST(copy_keeps_nan)
{
	const struct kv_geometry geometry = {.page_size = 8, .n_pages = 2, .n_kv_heads = 1, .head_dim = 2};
	struct cache from, to;
	float out[2];

	cache_init(&from, (enum kv_format)(_i / 3), 1.0f, 1.0f, geometry, false);
	cache_init(&to, (enum kv_format)(_i % 3), 2.0f, 4.0f, geometry, false);
	const float values[2] = {NAN, 1.0f};
	kv_store_ref(from.layer.format, from.layer.k, 16, values, 2, 1.0f);
	kv_store_ref(from.layer.format, from.layer.v, 16, values, 2, 1.0f);
	copy_page(&from, 1, &to, 1, 1, NULL);
	kv_read_ref(&to.layer, &geometry, to.layer.k, to.layer.k_scale, 1, 0, 0, out);
	ck_assert(isnan(out[0]) && out[1] == 1.0f);
	kv_read_ref(&to.layer, &geometry, to.layer.v, to.layer.v_scale, 1, 0, 0, out);
	ck_assert(isnan(out[0]) && out[1] == 1.0f);
	cache_free(&from);
	cache_free(&to);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *verify = test_case(suite, "verify_pages", 0);
	tcase_add_loop_test(verify, verify_alone, 0, VERIFY_CASES);
	tcase_add_test(verify, verify_batch);

	TCase *copy = test_case(suite, "copy_pages", 0);
	tcase_add_test(copy, copy_golden);
	tcase_add_loop_test(copy, copy_same_is_bytes, 0, 3);
	tcase_add_test(copy, copy_latent);
	tcase_add_test(copy, copy_within_pool);
	tcase_add_loop_test(copy, copy_keeps_nan, 0, 9);
}
