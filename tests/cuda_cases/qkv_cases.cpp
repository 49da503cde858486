#include <algorithm>
#include <math.h>
#include <numeric>
#include <string.h>
#include <string>

#include "cuda/kernels.cuh"
#include "tests/cuda_cases/case_support.cuh"

extern "C" {
#include "engine/cpu/ref.h"
}

/* Every sum is the reference's, in its order: bits are expected of a GPU too. */

/* ---- rope table ---- */

static const struct rope_case {
	const char *name;
	int rotary_dim;
	float base;
} rope_cases[] = {
	{"rope table of 2", 2, 10000.0f},
	{"rope table of 6", 6, 100.0f},
	{"rope table of 128", 128, 500000.0f},
	{"rope table of 0", 0, 1.0f},
};
static const std::vector<int32_t> positions = {0, 1, 2, 3, 4, 7, 100, 1023, 4096, 32767, 131071, 1048575};

static int rope_case_run(const struct rope_case *c, struct error *e)
{
	const size_t half = (size_t)c->rotary_dim / 2, tokens = positions.size(), n = 2 * half * tokens;
	std::vector<float> frequencies(half), expected(n);
	for (size_t i = 0; i < half; i++)
		frequencies[i] = powf(c->base, -(float)i / (float)half);
	const device_array<int32_t> device_positions(positions);
	const device_array<float> device_frequencies(frequencies);
	device_array<float> table(n);
	struct rope_table_args a = {positions.data(), frequencies.data(), (int)tokens, c->rotary_dim, expected.data()};

	rope_table_ref(&a);
	a = {device_positions.data, device_frequencies.data, (int)tokens, c->rotary_dim, table.data};
	TRY(rope_table_launch(&a, 0, e));
	TRY(device_finish("rope table", e));
	return compare_bits("against rope_table_ref", table.download().data(), expected.data(), n, 2 * half, e);
}

/* ---- qkv finish ---- */

static const struct qkv_case {
	const char *name;
	enum kv_format format;
	int page_size, n_heads, n_kv_heads, head_dim, rotary_dim;
	bool interleaved, bias, norm;
	float k_scale, v_scale;
} qkv_cases_table[] = {
	{"f32, 6/2 heads of 64", KV_F32, 16, 6, 2, 64, 64, false, false, false, 1.0f, 1.0f},
	{"bf16, bias, 4/1 heads of 128, half of them turned", KV_BF16, 1, 4, 1, 128, 64, false, true, false, 0.7f,
		1.3f},
	{"fp8, norms, 3/3 heads of 16", KV_E4M3, 64, 3, 3, 16, 16, false, false, true, 0.01f, 0.5f},
	{"fp8, interleaved, bias, norms, 5/1 heads of 80", KV_E4M3, 8, 5, 1, 80, 80, true, true, true, 0.02f, 0.003f},
	{"bf16, interleaved, 2/1 heads of 6, none turned", KV_BF16, 4, 2, 1, 6, 0, true, false, true, 1.0f, 1.0f},
	{"f32, norms, 2/1 heads of 33", KV_F32, 2, 2, 1, 33, 32, true, true, true, 3.0f, 1.0f},
	{"bf16, norms, 1/1 heads of 256", KV_BF16, 32, 1, 1, 256, 256, false, true, true, 1.0f, 1.0f},
};
enum {
	ROPE_CASES = sizeof(rope_cases) / sizeof(rope_cases[0]),
	QKV_CASES = sizeof(qkv_cases_table) / sizeof(qkv_cases_table[0]),
	TOKENS = 9,
	ROW_NAN = 2,
	ROW_LARGE = 5,
	COUNTED_BEFORE = 3,
};

struct qkv_data {
	const struct qkv_case *shape;
	struct kv_geometry geometry;
	size_t width, cache_bytes;
	std::vector<float> qkv, bias, q_norm, k_norm, rope;
	std::vector<int64_t> slots; /* all other; one of page 0 */
};

/* What the op leaves behind. */
struct qkv_result {
	std::vector<float> qkv;
	std::vector<uint8_t> k, v;
	uint64_t saturated;
};

static qkv_data data_make(const struct qkv_case *c)
{
	generator g(11);
	qkv_data d;
	const int n_pages = 3 + 2 * TOKENS / c->page_size;
	d.shape = c;
	d.geometry = {c->page_size, n_pages, c->n_kv_heads, c->head_dim};
	d.width = (size_t)((c->n_heads + 2 * c->n_kv_heads) * c->head_dim);
	d.cache_bytes = (size_t)(n_pages * c->page_size * c->n_kv_heads * c->head_dim) * kv_format_size(c->format);
	d.qkv = random_values(g, TOKENS * d.width);
	d.bias = random_values(g, d.width);
	d.q_norm = random_values(g, (size_t)c->head_dim);
	d.k_norm = random_values(g, (size_t)c->head_dim);
	d.rope = random_values(g, (size_t)(TOKENS * c->rotary_dim));
	for (size_t i = 0; i < d.width; i++) {
		d.qkv[ROW_LARGE * d.width + i] *= 1e6f;
		if (i % 7 == 3)
			d.qkv[ROW_NAN * d.width + i] = NAN;
	}
	d.slots.resize((size_t)(n_pages * c->page_size));
	std::iota(d.slots.begin(), d.slots.end(), 0);
	std::shuffle(d.slots.begin() + 1, d.slots.end(), g);
	d.slots.resize(TOKENS);
	return d;
}

static struct qkv_finish_args arguments_of(const qkv_data &d)
{
	const struct qkv_case *c = d.shape;
	struct qkv_finish_args a = {};
	a.norm_eps = 1e-6f;
	a.rotary_dim = c->rotary_dim;
	a.rope_interleaved = c->interleaved;
	a.n_tokens = TOKENS;
	a.n_heads = c->n_heads;
	a.geometry = d.geometry;
	a.layer = {c->format, NULL, NULL, c->k_scale, c->v_scale};
	return a;
}

static qkv_result reference_run(const qkv_data &d)
{
	qkv_result r = {d.qkv, std::vector<uint8_t>(d.cache_bytes, 0xa5), std::vector<uint8_t>(d.cache_bytes, 0xa5),
		COUNTED_BEFORE};
	struct qkv_finish_args a = arguments_of(d);
	a.qkv = r.qkv.data();
	a.bias = d.shape->bias ? d.bias.data() : NULL;
	a.q_norm = d.shape->norm ? d.q_norm.data() : NULL;
	a.k_norm = d.shape->norm ? d.k_norm.data() : NULL;
	a.rope = d.rope.data();
	a.layer.k = r.k.data();
	a.layer.v = r.v.data();
	a.slots = d.slots.data();
	a.saturated = &r.saturated;
	qkv_finish_ref(&a);
	return r;
}

/* In launches of `chunk` tokens; counted: with a counter. */
static int device_run(const qkv_data &d, int chunk, bool counted, qkv_result *r, struct error *e)
{
	const device_array<float> qkv(d.qkv), bias(d.bias), q_norm(d.q_norm), k_norm(d.k_norm), rope(d.rope);
	const device_array<uint8_t> k(std::vector<uint8_t>(d.cache_bytes, 0xa5)),
		v(std::vector<uint8_t>(d.cache_bytes, 0xa5));
	const device_array<int64_t> slots(d.slots);
	const device_array<uint64_t> saturated(std::vector<uint64_t>(1, COUNTED_BEFORE));
	struct qkv_finish_args a = arguments_of(d);
	a.bias = d.shape->bias ? bias.data : NULL;
	a.q_norm = d.shape->norm ? q_norm.data : NULL;
	a.k_norm = d.shape->norm ? k_norm.data : NULL;
	a.layer.k = k.data;
	a.layer.v = v.data;
	a.saturated = counted ? saturated.data : NULL;
	for (int first = 0; first < TOKENS; first += chunk) {
		a.qkv = qkv.data + (size_t)first * d.width;
		a.rope = rope.data + first * a.rotary_dim;
		a.slots = slots.data + first;
		a.n_tokens = chunk < TOKENS - first ? chunk : TOKENS - first;
		TRY(qkv_finish_launch(&a, 0, e));
	}
	a.n_tokens = 0;
	TRY(qkv_finish_launch(&a, 0, e));
	TRY(device_finish("qkv finish", e));
	*r = {qkv.download(), k.download(), v.download(), saturated.download()[0]};
	return 0;
}

static int compare_results(const char *what, const qkv_data &d, const qkv_result &r, const qkv_result &expected,
	bool counted, struct error *e)
{
	const enum kv_format format = d.shape->format;
	TRY(compare_stored(what, KV_F32, r.qkv.data(), expected.qkv.data(), r.qkv.size(), e));
	const size_t n = d.cache_bytes / kv_format_size(format);
	TRY(compare_stored((std::string(what) + ", k").c_str(), format, r.k.data(), expected.k.data(), n, e));
	TRY(compare_stored((std::string(what) + ", v").c_str(), format, r.v.data(), expected.v.data(), n, e));
	const uint64_t saturated = counted ? expected.saturated : (uint64_t)COUNTED_BEFORE;
	if (r.saturated != saturated)
		return error_set(e, ERR_INPUT, "%s: %llu values clipped, expected %llu", what,
			(unsigned long long)r.saturated, (unsigned long long)saturated);
	return 0;
}

static int qkv_case_run(const struct qkv_case *c, struct error *e)
{
	const qkv_data d = data_make(c);
	const qkv_result expected = reference_run(d);
	qkv_result r;
	if ((expected.saturated > COUNTED_BEFORE) != (c->format == KV_E4M3))
		return error_set(
			e, ERR_INPUT, "the reference clipped %llu values", (unsigned long long)expected.saturated);
	TRY(device_run(d, TOKENS, true, &r, e));
	TRY(compare_results("against qkv_finish_ref", d, r, expected, true, e));
	TRY(device_run(d, 1, true, &r, e));
	TRY(compare_results("each token alone", d, r, expected, true, e));
	TRY(device_run(d, 4, false, &r, e));
	return compare_results("uncounted", d, r, expected, false, e);
}

static const char *case_name(int i)
{
	return i < ROPE_CASES ? rope_cases[i].name : qkv_cases_table[i - ROPE_CASES].name;
}

static int case_run(int i, bool exact, struct error *e)
{
	(void)exact;
	return i < ROPE_CASES ? rope_case_run(&rope_cases[i], e) : qkv_case_run(&qkv_cases_table[i - ROPE_CASES], e);
}

extern "C" const struct cuda_case_group qkv_cases = {"qkv", ROPE_CASES + QKV_CASES, case_name, case_run};
