#include <math.h>
#include <string.h>
#include <string>

#include "cuda/kernels.cuh"
#include "tests/cuda_cases/case_support.cuh"

extern "C" {
#include "engine/base/number.h"
#include "engine/cpu/ops_pages.h"
}

/* ---- verify ---- */

static const struct verify_case {
	const char *name;
	int n_sequences, table_stride, expected_stride; /* 0: as the tables */
	bool rows, pages;                               /* given */
} verify_cases[] = {
	{"tables of 1", 40, 1, 0, false, false},
	{"tables of 7, pages expected", 64, 7, 0, false, true},
	{"tables of 300, rows", 40, 300, 0, true, false}, /* more than a block has threads */
	{"tables of 40, expectations of 20", 64, 40, 20, true, true},
	{"tables of 129, expectations of 200", 40, 129, 200, false, true},
	{"no sequence", 0, 4, 0, false, false},
};

enum { VERIFY_PAGES = 33 };

struct verify_data {
	std::vector<int32_t> tables, n_used, rows, pages;
	std::vector<uint64_t> expected, page_tags;
	int expected_stride;
};

/* One of the ways in which a table goes wrong, at page i; 0: none. Some leave it right: tags are no page's own. */
static void table_spoil(generator &g, const struct verify_case *c, int sequence, verify_data *d)
{
	static const int32_t outside[] = {0, -1, VERIFY_PAGES, INT32_MAX, INT32_MIN, -VERIFY_PAGES};
	const size_t row = (size_t)(c->rows ? d->rows[(size_t)sequence] : sequence) * (size_t)d->expected_stride;
	int32_t *const table = &d->tables[(size_t)(sequence * c->table_stride)];
	int32_t *const used = &d->n_used[(size_t)sequence];
	const int room = c->table_stride < d->expected_stride ? c->table_stride : d->expected_stride;
	const int i = (int)(g() % (unsigned)room), change = (int)(g() % 8);
	if (change == 1)
		table[i] = outside[g() % 6];
	else if (change == 2)
		d->expected[row + (size_t)i] ^= (uint64_t)1 << (g() % 64);
	else if (change == 3)
		table[i] = 1 + (int32_t)(g() % (VERIFY_PAGES - 1));
	else if (change == 4)
		*used = room + 1 + (int32_t)(g() % 3);
	else if (change == 5)
		*used = g() % 2 ? INT32_MIN : -1;
	else if (change == 6)
		*used = INT32_MAX;
	if (g() % 2) { /* and another one behind */
		const int later = i + (int)(g() % (unsigned)(room - i));
		table[later] = outside[g() % 6];
	}
}

static verify_data verify_make(const struct verify_case *c)
{
	generator g(5);
	verify_data d;
	d.expected_stride = c->expected_stride ? c->expected_stride : c->table_stride;
	const size_t n = (size_t)c->n_sequences;
	for (size_t page = 0; page < VERIFY_PAGES; page++) /* some pages share a tag */
		d.page_tags.push_back(page % 5 == 4 ? d.page_tags[page - 1] : (uint64_t)g() << 32 | g());
	d.tables.assign(n * (size_t)c->table_stride, INT32_MAX);
	d.pages.assign(n * (size_t)d.expected_stride, 0);
	d.expected.assign(d.pages.size(), 0);
	for (size_t b = 0; b < n; b++)
		d.rows.push_back((int32_t)(n - 1 - b));
	for (int b = 0; b < c->n_sequences; b++) {
		const int room = c->table_stride < d.expected_stride ? c->table_stride : d.expected_stride;
		const size_t row = (size_t)(c->rows ? d.rows[(size_t)b] : b) * (size_t)d.expected_stride;
		d.n_used.push_back(b % 3 == 0 ? room : (int32_t)(g() % (unsigned)(room + 1)));
		for (int i = 0; i < d.n_used[(size_t)b]; i++) {
			const int32_t page = 1 + (int32_t)(g() % (VERIFY_PAGES - 1));
			d.tables[(size_t)(b * c->table_stride + i)] = page;
			d.pages[row + (size_t)i] = page;
			d.expected[row + (size_t)i] = d.page_tags[(size_t)page];
		}
		table_spoil(g, c, b, &d);
	}
	return d;
}

static int verify_device(
	const struct verify_case *c, const verify_data &d, std::vector<int32_t> *first_bad, struct error *e)
{
	const device_array<int32_t> tables(d.tables), n_used(d.n_used), rows(d.rows), pages(d.pages);
	const device_array<uint64_t> expected(d.expected), page_tags(d.page_tags);
	const device_array<int32_t> bad(std::vector<int32_t>((size_t)c->n_sequences + 1, 77));
	struct verify_pages_args a = {tables.data, c->table_stride, c->n_sequences, n_used.data,
		c->rows ? rows.data : NULL, c->expected_stride, expected.data, c->pages ? pages.data : NULL,
		page_tags.data, VERIFY_PAGES, bad.data, NULL};
	TRY(verify_pages_launch(&a, 0, e));
	TRY(device_finish("verify pages", e));
	*first_bad = bad.download();
	return 0;
}

static std::vector<int32_t> verify_reference(const struct verify_case *c, const verify_data &d)
{
	std::vector<int32_t> first_bad((size_t)c->n_sequences + 1, 77);
	struct verify_pages_args a = {d.tables.data(), c->table_stride, c->n_sequences, d.n_used.data(),
		c->rows ? d.rows.data() : NULL, c->expected_stride, d.expected.data(), c->pages ? d.pages.data() : NULL,
		d.page_tags.data(), VERIFY_PAGES, first_bad.data(), NULL};
	verify_pages_cpu(&a);
	return first_bad;
}

static int answers_compare(const std::vector<int32_t> &first_bad, const std::vector<int32_t> &expected, struct error *e)
{
	for (size_t b = 0; b < expected.size(); b++)
		if (first_bad[b] != expected[b])
			return error_set(e, ERR_INPUT, "sequence %zu of %zu: first bad page %d, expected %d", b,
				expected.size() - 1, first_bad[b], expected[b]);
	return 0;
}

/* Some are good, and some bad. */
static int answers_mixed(const std::vector<int32_t> &expected, struct error *e)
{
	int clean = 0, n = (int)expected.size() - 1;

	for (int b = 0; b < n; b++)
		clean += expected[(size_t)b] == -1;
	if (n > 0 && (clean < 2 || clean > n - 2))
		return error_set(e, ERR_INPUT, "%d of %d sequences are clean: too few cases", clean, n);
	return 0;
}

static int verify_case_run(const struct verify_case *c, struct error *e)
{
	const verify_data d = verify_make(c);
	const std::vector<int32_t> expected = verify_reference(c, d);
	std::vector<int32_t> first_bad;

	TRY(verify_device(c, d, &first_bad, e));
	TRY(answers_compare(first_bad, expected, e));
	return answers_mixed(expected, e);
}

/* ---- the gate before the reads ---- */

static const struct gate_case {
	const char *name;
	struct verify_case verify;
	int page_size;
} gate_cases[] = {
	{"gate, tables of 1, pages of 1", {NULL, 40, 1, 0, false, false}, 1},
	{"gate, tables of 7, pages of 16", {NULL, 64, 7, 0, true, true}, 16},
	{"gate, tables of 300, pages of 64", {NULL, 33, 300, 0, true, false}, 64},
	{"gate, tables of 40, expectations of 20, pages of 4", {NULL, 40, 40, 20, true, true}, 4},
	{"gate, tables of 129, pages of 3", {NULL, 40, 129, 140, false, true}, 3},
	{"gate, no sequence", {NULL, 0, 4, 0, false, false}, 16},
};

/* The batch beside the tables: sequences of one token and of many, as long as their pages, or where they should not be. */
struct gate_data {
	verify_data verify;
	std::vector<int32_t> cu_seqlens, first_position;
	std::vector<int64_t> slots;
};

static gate_data gate_make(const struct gate_case *c)
{
	generator g(6);
	gate_data d;
	const int stride = c->verify.table_stride, page_size = c->page_size;
	d.verify = verify_make(&c->verify);
	d.cu_seqlens.push_back(0);
	for (int32_t used : d.verify.n_used) {
		const bool inside = used > 0 && used <= stride;
		const int end = inside ? (used - 1) * page_size + 1 + (int)(g() % (unsigned)page_size) : 1;
		const int count = g() % 3 ? 1 : 1 + (int)(g() % (unsigned)end);
		d.first_position.push_back(inside || used == 0 ? end - count : used < 0 ? used : INT32_MAX - count);
		d.cu_seqlens.push_back(d.cu_seqlens.back() + count);
	}
	while (d.slots.size() < (size_t)d.cu_seqlens.back())
		d.slots.push_back((int64_t)((uint64_t)g() << 32 | g()));
	return d;
}

static int64_t gate_pages(int64_t first_position, int count, int page_size, int stride)
{
	const int64_t end = first_position + count, pages = end <= 0 ? 0 : (end - 1) / page_size + 1;
	return pages < stride ? pages : stride;
}

struct gate_passed {
	std::vector<int32_t> tables, first_position;
	std::vector<int64_t> slots;
};

/* What passes of sequence b: all of it, or what begins on page 0. */
static int gate_compare(
	const struct gate_case *c, const gate_data &d, int b, bool bad, const gate_passed &passed, struct error *e)
{
	const int stride = c->verify.table_stride, from = d.cu_seqlens[(size_t)b],
		  count = d.cu_seqlens[(size_t)b + 1] - from;
	const int32_t first = bad ? 0 : d.first_position[(size_t)b];
	if (passed.first_position[(size_t)b] != first)
		return error_set(e, ERR_INPUT, "sequence %d begins at %d, expected %d", b,
			passed.first_position[(size_t)b], first);
	for (int64_t i = 0; i < gate_pages(first, count, c->page_size, stride); i++) {
		const size_t at = (size_t)b * (size_t)stride + (size_t)i;
		if (passed.tables[at] != (bad ? 0 : d.verify.tables[at]))
			return error_set(
				e, ERR_INPUT, "sequence %d, entry %d is page %d", b, (int)i, passed.tables[at]);
	}
	for (int i = 0; i < count; i++) {
		const int64_t slot = bad ? i % c->page_size : d.slots[(size_t)(from + i)];
		if (passed.slots[(size_t)(from + i)] != slot)
			return error_set(e, ERR_INPUT, "sequence %d, token %d goes to slot %lld, expected %lld", b, i,
				(long long)passed.slots[(size_t)(from + i)], (long long)slot);
	}
	return 0;
}

static int gate_case_run(const struct gate_case *c, struct error *e)
{
	const gate_data d = gate_make(c);
	const std::vector<int32_t> expected = verify_reference(&c->verify, d.verify);
	const device_array<int32_t> tables(d.verify.tables), n_used(d.verify.n_used), rows(d.verify.rows),
		pages(d.verify.pages), bad(std::vector<int32_t>(expected.size(), 77));
	const device_array<uint64_t> tags(d.verify.expected), page_tags(d.verify.page_tags);
	const device_array<int32_t> cu_seqlens(d.cu_seqlens), first_position(d.first_position);
	const device_array<int64_t> slots(d.slots), slots_out(d.slots.size() + 1);
	const device_array<int32_t> tables_out(d.verify.tables.size() + 1), first_out(d.first_position.size() + 1);
	const struct page_gate_args a = {
		{tables.data, c->verify.table_stride, c->verify.n_sequences, n_used.data,
			c->verify.rows ? rows.data : NULL, c->verify.expected_stride, tags.data,
			c->verify.pages ? pages.data : NULL, page_tags.data, VERIFY_PAGES, bad.data, NULL},
		cu_seqlens.data, first_position.data, slots.data, c->page_size, tables_out.data, first_out.data,
		slots_out.data};
	TRY(page_gate_launch(&a, 0, e));
	TRY(device_finish("page gate", e));
	TRY(answers_compare(bad.download(), expected, e));
	const gate_passed passed = {tables_out.download(), first_out.download(), slots_out.download()};
	for (int b = 0; b < c->verify.n_sequences; b++)
		TRY(gate_compare(c, d, b, expected[(size_t)b] >= 0, passed, e));
	if (passed.tables.back() != -1 || passed.first_position.back() != -1 || passed.slots.back() != -1)
		return error_set(e, ERR_INPUT, "something was written behind the last sequence");
	if (tables.download() != d.verify.tables || slots.download() != d.slots)
		return error_set(e, ERR_INPUT, "what is checked changed");
	return answers_mixed(expected, e);
}

/* ---- copy ---- */

static const struct copy_case {
	const char *name;
	enum kv_format from, to;
	float from_k, from_v, to_k, to_v; /* scales */
	int page_size, n_kv_heads, head_dim, n_tokens;
	bool latent, same_pool;
} copy_cases[] = {
	{"bf16 as it is", KV_BF16, KV_BF16, 1, 1, 1, 1, 16, 3, 64, 16, false, false},
	{"bf16 as it is, 5 of 16 slots", KV_BF16, KV_BF16, 0.5f, 2, 0.5f, 2, 16, 2, 16, 5, false, false},
	{"fp8 as it is, heads of 6, 1 of 4 slots", KV_E4M3, KV_E4M3, 1, 1, 1, 1, 4, 3, 6, 1, false, false},
	{"f32 within a pool", KV_F32, KV_F32, 1, 1, 1, 1, 2, 2, 4, 2, false, true},
	{"fp8 within a pool, 7 of 8 slots", KV_E4M3, KV_E4M3, 1, 3, 1, 3, 8, 1, 80, 7, false, true},
	{"bf16 to fp8", KV_BF16, KV_E4M3, 1, 1, 0.004f, 0.01f, 16, 2, 64, 16, false, false},
	{"f32 to fp8, pages of 1, heads of 5", KV_F32, KV_E4M3, 1, 1, 0.003f, 0.9f, 1, 3, 5, 1, false, false},
	{"f32 to bf16, 63 of 64 slots", KV_F32, KV_BF16, 1, 0.7f, 1, 1, 64, 1, 6, 63, false, false},
	{"fp8 to bf16", KV_E4M3, KV_BF16, 0.1f, 0.3f, 1, 1, 8, 2, 16, 8, false, false},
	{"fp8 to f32, 9 of 32 slots", KV_E4M3, KV_F32, 0.1f, 0.3f, 1, 1, 32, 1, 24, 9, false, false},
	{"fp8 to another scale, v as it is", KV_E4M3, KV_E4M3, 1, 2, 0.3f, 2, 4, 2, 8, 3, false, false},
	{"bf16 to f32", KV_BF16, KV_F32, 1, 1, 1, 1, 16, 1, 12, 16, false, false},
	{"latent rows of 37, bf16 to fp8", KV_BF16, KV_E4M3, 1, 1, 0.002f, 1, 16, 1, 37, 11, true, false},
	{"no slot", KV_BF16, KV_BF16, 1, 1, 1, 1, 16, 1, 16, 0, false, false},
};
enum {
	VERIFY_CASES = sizeof(verify_cases) / sizeof(verify_cases[0]),
	GATE_CASES = sizeof(gate_cases) / sizeof(gate_cases[0]),
	CHECK_CASES = VERIFY_CASES + GATE_CASES,
	COPY_CASES = sizeof(copy_cases) / sizeof(copy_cases[0]),
	COPY_PAGES = 6,
};

/* Page 2 is copied on, and written twice; page 4 goes to itself. */
static const std::vector<int32_t> sources = {1, 2, 0, 4, 5, 3}, targets = {2, 3, 5, 4, 2, 1};

struct copy_pools {
	std::vector<uint8_t> from_k, from_v, to_k, to_v;
	uint64_t saturated;
};

/* Values of a cache, some of them large, one NaN. */
static std::vector<uint8_t> pool_make(generator &g, enum kv_format format, size_t n)
{
	std::vector<float> values = random_values(g, n);
	std::vector<uint8_t> pool(n * kv_format_size(format));
	for (size_t i = 0; i < n; i++)
		if (i % 5 == 2)
			values[i] *= 30.0f;
	values[n / 2] = NAN;
	kv_store_ref(format, pool.data(), 0, values.data(), (int)n, 1.0f);
	return pool;
}

static struct copy_pages_args copy_arguments(const struct copy_case *c)
{
	struct copy_pages_args a = {};
	a.from_geometry = a.to_geometry = {c->page_size, COPY_PAGES, c->n_kv_heads, c->head_dim};
	a.from = {c->from, NULL, NULL, c->from_k, c->from_v};
	a.to = {c->to, NULL, NULL, c->to_k, c->to_v};
	a.n = (int)sources.size();
	a.n_tokens = c->n_tokens;
	return a;
}

static void copy_reference(const struct copy_case *c, copy_pools *p)
{
	struct copy_pages_args a = copy_arguments(c);
	a.from.k = c->same_pool ? p->to_k.data() : p->from_k.data();
	a.from.v = c->latent ? NULL : c->same_pool ? p->to_v.data() : p->from_v.data();
	a.to.k = p->to_k.data();
	a.to.v = c->latent ? NULL : p->to_v.data();
	a.source = sources.data();
	a.target = targets.data();
	a.saturated = &p->saturated;
	copy_pages_cpu(&a);
}

static int copy_device(const struct copy_case *c, const copy_pools &before, copy_pools *after, struct error *e)
{
	const device_array<uint8_t> from_k(before.from_k), from_v(before.from_v), to_k(before.to_k), to_v(before.to_v);
	const device_array<int32_t> source(sources), target(targets);
	const device_array<uint64_t> saturated(std::vector<uint64_t>(1, before.saturated));
	struct copy_pages_args a = copy_arguments(c);
	a.from.k = c->same_pool ? to_k.data : from_k.data;
	a.from.v = c->latent ? NULL : c->same_pool ? to_v.data : from_v.data;
	a.to.k = to_k.data;
	a.to.v = c->latent ? NULL : to_v.data;
	a.source = source.data;
	a.target = target.data;
	a.saturated = saturated.data;
	TRY(copy_pages_launch(&a, 0, e));
	a.n = 0;
	TRY(copy_pages_launch(&a, 0, e));
	TRY(device_finish("copy pages", e));
	*after = {from_k.download(), from_v.download(), to_k.download(), to_v.download(), saturated.download()[0]};
	return 0;
}

static int copy_case_run(const struct copy_case *c, struct error *e)
{
	generator g(8);
	const size_t n = (size_t)(COPY_PAGES * c->page_size * c->n_kv_heads * c->head_dim);
	copy_pools before, after, expected;
	before.from_k = pool_make(g, c->from, n);
	before.from_v = pool_make(g, c->from, n);
	before.to_k = pool_make(g, c->to, n);
	before.to_v = pool_make(g, c->to, n);
	before.saturated = 4;
	expected = before;
	copy_reference(c, &expected);
	TRY(copy_device(c, before, &after, e));
	TRY(compare_stored("k", c->to, after.to_k.data(), expected.to_k.data(), n, e));
	TRY(compare_stored("v", c->to, after.to_v.data(), expected.to_v.data(), n, e));
	if (after.saturated != expected.saturated)
		return error_set(e, ERR_INPUT, "%llu values clipped, expected %llu",
			(unsigned long long)after.saturated, (unsigned long long)expected.saturated);
	if (after.from_k != before.from_k || after.from_v != before.from_v)
		return error_set(e, ERR_INPUT, "the source changed");
	if (c->n_tokens > 0 && after.to_k == before.to_k)
		return error_set(e, ERR_INPUT, "the target did not change");
	if (c->to == KV_E4M3 && c->from != KV_E4M3 && expected.saturated == before.saturated)
		return error_set(e, ERR_INPUT, "the reference clipped nothing");
	return 0;
}

/* Pages that do not fit each other. */
static int check_copy_refused(struct error *e)
{
	for (int change = 0; change < 5; change++) {
		struct copy_pages_args a = copy_arguments(&copy_cases[0]);
		struct error expected;
		a.to_geometry.page_size += change == 0;
		a.to_geometry.n_kv_heads += change == 1;
		a.to_geometry.head_dim += change == 2;
		a.n_tokens = change == 3 ? -1 : change == 4 ? a.from_geometry.page_size + 1 : a.n_tokens;
		if (copy_pages_launch(&a, 0, &expected) != ERR_INPUT)
			return error_set(e, ERR_INPUT, "misfit %d was not refused", change);
	}
	return 0;
}

static const char *case_name(int i)
{
	if (i < VERIFY_CASES)
		return verify_cases[i].name;
	return i < CHECK_CASES ? gate_cases[i - VERIFY_CASES].name : copy_cases[i - CHECK_CASES].name;
}

static int case_run(int i, bool exact, struct error *e)
{
	(void)exact; /* no sums */
	if (i < VERIFY_CASES)
		return verify_case_run(&verify_cases[i], e);
	if (i < CHECK_CASES)
		return gate_case_run(&gate_cases[i - VERIFY_CASES], e);
	TRY(check_copy_refused(e));
	return copy_case_run(&copy_cases[i - CHECK_CASES], e);
}

extern "C" const struct cuda_case_group page_cases = {"pages", CHECK_CASES + COPY_CASES, case_name, case_run};
