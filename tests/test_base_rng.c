/* Philox against the known answers of Random123, random.Random against CPython. */
#include "engine/base/json_strict.h"
#include "engine/base/rng.h"
#include "tests/support.h"
#include "tests/tsv.h"

const char *const test_program_name = "base_rng";

/* The kat_vectors file of Random123, "philox4x32 10": counter, key, result. */
static const struct {
	uint32_t counter[4];
	uint32_t key[2];
	uint32_t result[4];
} philox_cases[] = {
	{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
	{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff},
		{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
	{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
		{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

START_TEST(philox_known_answers)
{
	uint32_t out[4];
	philox4x32(philox_cases[_i].counter, philox_cases[_i].key, out);
	for (int i = 0; i < 4; i++)
		ck_assert_uint_eq(out[i], philox_cases[_i].result[i]);
}
END_TEST

/* About the end of a counter's first word. */
START_TEST(philox_lanes_are_philox)
{
	const uint64_t firsts[] = {0, 5, UINT32_MAX - 3, UINT64_C(7) << 32};
	const uint32_t key[2] = {0xa4093822, 0x299f31d0};
	for (int i = 0; i < 4; i++) {
		uint32_t lanes[4][PHILOX_LANES];
		philox4x32_lanes(firsts[i], 9, 1, key, lanes);
		for (uint64_t l = 0; l < PHILOX_LANES; l++) {
			uint64_t n = firsts[i] + l;
			uint32_t counter[4] = {(uint32_t)n, (uint32_t)(n >> 32), 9, 1}, out[4];
			philox4x32(counter, key, out);
			for (int word = 0; word < 4; word++)
				ck_assert_uint_eq(lanes[word][l], out[word]);
		}
	}
}
END_TEST

START_TEST(philox_may_write_over_its_counter)
{
	uint32_t counter[4] = {0, 0, 0, 0};
	philox4x32(counter, philox_cases[0].key, counter);
	ck_assert_mem_eq(counter, philox_cases[0].result, sizeof(counter));
}
END_TEST

START_TEST(philox_uniform_is_the_first_word)
{
	/* 0x6627e8 of the first known answer. */
	ck_assert_float_eq(philox_uniform(0, 0), 6694888.0f / 16777216.0f);
	ck_assert_float_ne(philox_uniform(0, 1), philox_uniform(0, 0));
	ck_assert_float_ne(philox_uniform(0, UINT64_C(1) << 32), philox_uniform(0, 0));
	ck_assert_float_ne(philox_uniform(1, 0), philox_uniform(0, 0));
	ck_assert_float_ne(philox_uniform(UINT64_C(1) << 32, 0), philox_uniform(0, 0));
	double sum = 0;
	int count[16] = {0};
	for (uint64_t i = 0; i < 65536; i++) {
		float u = philox_uniform(UINT64_C(0x123456789abcdef), i);
		ck_assert(u >= 0.0f && u < 1.0f);
		sum += (double)u;
		count[(int)(u * 16.0f)]++;
	}
	/* Six standard errors of a uniform's mean, and of a bin of one sixteenth. */
	ck_assert_double_eq_tol(sum / 65536, 0.5, 0.0068);
	for (int bin = 0; bin < 16; bin++)
		ck_assert_msg(abs(count[bin] - 4096) < 372, "bin %d holds %d of 65536", bin, count[bin]);
}
END_TEST

/* Appends sample(range(n), k) as "a b c". */
static void write_sample(struct py_random *r, uint32_t n, uint32_t k, struct buf *out)
{
	uint32_t *values = mem_calloc(k, sizeof(*values), NULL);
	ck_assert_ptr_nonnull(values);
	ck_assert_int_eq(py_random_sample(r, n, k, values), 0);
	for (uint32_t i = 0; i < k; i++)
		buf_printf(out, i ? " %u" : "%u", values[i]);
	free(values);
}

static void write_draws(const char *kind, struct py_random *r, uint64_t n, uint64_t k, size_t draws, struct buf *out)
{
	if (strcmp(kind, "u32") == 0) {
		for (uint64_t skipped = 0; skipped < k; skipped++)
			py_random_u32(r);
		for (size_t i = 0; i < draws; i++)
			buf_printf(out, i ? " %u" : "%u", py_random_u32(r));
		return;
	}
	ck_assert_str_eq(kind, "below");
	for (size_t i = 0; i < draws; i++)
		buf_printf(out, i ? " %llu" : "%llu", (unsigned long long)py_random_below(r, n));
}

static size_t count_char(const char *text, char c)
{
	size_t count = 0;
	for (; *text; text++)
		count += *text == c;
	return count;
}

START_TEST(draws_as_cpython)
{
	struct tsv t = tsv_open("python_random_sample.tsv");
	size_t lines = 0;
	for (; tsv_next(&t); lines++) {
		char *kind = tsv_text(&t, 0);
		char *expected = tsv_text(&t, 4);
		uint64_t n = tsv_u64(&t, 2, 10);
		uint64_t k = tsv_u64(&t, 3, 10);
		struct py_random r;
		py_random_seed(&r, tsv_u64(&t, 1, 10));
		struct buf drawn = {0};
		if (strcmp(kind, "sample") == 0) {
			for (size_t call = 0; call <= count_char(expected, ';'); call++) {
				if (call > 0)
					buf_append_char(&drawn, ';');
				write_sample(&r, (uint32_t)n, (uint32_t)k, &drawn);
			}
		} else {
			write_draws(kind, &r, n, k, count_char(expected, ' ') + 1, &drawn);
		}
		ck_assert_msg(strcmp(buf_text(&drawn), expected) == 0, "line %zu: drew %s, expected %s", t.line,
			buf_text(&drawn), expected);
		buf_free(&drawn);
		free(kind);
		free(expected);
	}
	ck_assert_uint_ge(lines, 40);
}
END_TEST

/* "n=7473,k=5" or "seed=42 n=7473 k=5 first3": seed 1234 where none is named. False for another kind of key. */
static bool parse_golden_key(const char *key, unsigned long long *seed, unsigned *n, unsigned *k)
{
	*seed = 1234;
	return sscanf(key, "n=%u,k=%u", n, k) == 2 || sscanf(key, "seed=%llu n=%u k=%u", seed, n, k) == 3;
}

static void check_golden_samples(const struct json *calls)
{
	unsigned long long seed;
	unsigned n, k;
	if (!parse_golden_key(calls->key.data, &seed, &n, &k)) {
		unsigned bits;
		if (sscanf(calls->key.data, "getrandbits%u_", &bits) != 1)
			return;
		struct py_random r;
		py_random_seed(&r, 1234);
		JSON_EACH (draw, calls)
			ck_assert_double_eq(json_double(draw), (double)(py_random_u32(&r) >> (32 - bits)));
		return;
	}
	struct py_random r;
	py_random_seed(&r, seed);
	JSON_EACH (call, calls) {
		struct buf drawn = {0};
		struct buf expected = {0};
		write_sample(&r, n, k, &drawn);
		JSON_EACH (value, call)
			buf_printf(&expected, value == call->child ? "%s" : " %s", value->text.data);
		ck_assert_msg(strcmp(buf_text(&drawn), buf_text(&expected)) == 0, "%s: drew %s, expected %s",
			calls->key.data, buf_text(&drawn), buf_text(&expected));
		buf_free(&drawn);
		buf_free(&expected);
	}
}

START_TEST(draws_as_the_shared_golden)
{
	const char *path = shared_path("golden/python_random_sample.json");
	if (!path)
		SKIP("no golden/python_random_sample.json");
	struct buf content = test_read_file(path);
	struct json_document *document;
	CHECK_OK(json_parse(buf_str(&content), path, JSON_REFUSE_DOUBLED_KEYS, &document, &test_error));
	ck_assert_uint_ge(json_root(document)->count, 10);
	JSON_EACH (member, json_root(document))
		check_golden_samples(member);
	json_free(document);
	buf_free(&content);
}
END_TEST

/* A sample holds k different values below n, whichever method is chosen. */
START_TEST(sample_has_no_repeats)
{
	static const struct {
		uint32_t n, k;
	} sizes[] = {{100, 100}, {5000, 1000}, {100000, 20000}, {1000000, 3}};
	uint32_t n = sizes[_i].n;
	uint32_t k = sizes[_i].k;
	uint32_t *values = mem_calloc(k, sizeof(*values), NULL);
	bool *seen = mem_calloc(n, sizeof(*seen), NULL);
	ck_assert(values && seen);
	struct py_random r;
	py_random_seed(&r, 11);
	ck_assert_int_eq(py_random_sample(&r, n, k, values), 0);
	for (uint32_t i = 0; i < k; i++) {
		ck_assert_uint_lt(values[i], n);
		ck_assert_msg(!seen[values[i]], "%u was drawn twice", values[i]);
		seen[values[i]] = true;
	}
	free(values);
	free(seen);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *philox = test_case(suite, "philox", 0);
	tcase_add_loop_test(philox, philox_known_answers, 0, (int)(sizeof(philox_cases) / sizeof(philox_cases[0])));
	tcase_add_test(philox, philox_lanes_are_philox);
	tcase_add_test(philox, philox_may_write_over_its_counter);
	tcase_add_test(philox, philox_uniform_is_the_first_word);

	TCase *python = test_case(suite, "python", 0);
	tcase_add_test(python, draws_as_cpython);
	tcase_add_test(python, draws_as_the_shared_golden);
	tcase_add_loop_test(python, sample_has_no_repeats, 0, 4);
}
