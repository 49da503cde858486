/* The kernels of every instruction set against their plain twins, bit for bit, and the plain twins against double
 * precision on the same quantised operands (NUMERICS section 6). */
#include <math.h>
#include <stdlib.h>

#include "engine/base/number.h"
#include "engine/base/quant.h"
#include "engine/base/rng.h"
#include "engine/base/thread_pool.h"
#include "engine/cpu/cpu_backend.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/pack.h"
#include "engine/cpu/ref.h"
#include "tests/support.h"

const char *const test_program_name = "kernels";

static const char *const isas[] = {"scalar", "avx2", "avx512"};
enum { N_ISAS = 3 };

/* ---- data ---- */

static float *random_floats(size_t n, uint64_t seed, float scale)
{
	float *out = calloc(n + 1, sizeof *out);
	for (size_t i = 0; i < n; i++) /* sum of four uniforms: bell-shaped, with both signs */
		for (int j = 0; j < 4; j++)
			out[i] += (philox_uniform(seed, 4 * i + (size_t)j) - 0.5f) * scale;
	return out;
}

/* One thread or two: the bits must not tell. SKIPs (returns NULL) where the machine lacks the set. */
static struct backend *backend_for(const char *isa, int threads)
{
	struct backend *b = NULL;
	struct error e = {0};
	return cpu_backend_new(threads, isa, &b, &e) == 0 ? b : NULL;
}

static void check_bits(const char *what, const float *got, const float *expected, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(float_bits(got[i]) == float_bits(expected[i]),
			"%s: value %zu is %.9g (%08x), expected %.9g (%08x)", what, i, (double)got[i],
			float_bits(got[i]), (double)expected[i], float_bits(expected[i]));
}

/* ---- linear ---- */

static const struct linear_case {
	const char *name;
	enum weight_format format;
	int rows, columns, tokens, parts, group;
	bool quantize_input, bias, residual;
} linear_cases[] = {
	{"one by one", WEIGHT_BF16, 1, 1, 1, 1, 0, false, false, false},
	{"f32 odd", WEIGHT_F32, 17, 33, 3, 1, 0, false, true, false},
	{"bf16 odd", WEIGHT_BF16, 31, 40, 5, 1, 0, false, true, true},
	{"bf16 smollm2 qkv", WEIGHT_BF16, 960, 576, 9, 1, 0, false, false, false},
	{"bf16 smollm2 down, 8 parts", WEIGHT_BF16, 576, 1536, 13, 8, 0, false, false, true},
	{"bf16 decode", WEIGHT_BF16, 192, 576, 1, 2, 0, false, false, true},
	{"e4m3 W8A16", WEIGHT_E4M3, 65, 192, 7, 2, 0, false, true, false},
	{"e4m3 W8A8", WEIGHT_E4M3, 96, 576, 17, 2, 0, true, false, true},
	{"e4m3 W8A8 decode", WEIGHT_E4M3, 33, 96, 1, 1, 0, true, true, true},
	{"int4 groups of 128, last one short", WEIGHT_INT4, 48, 576, 9, 1, 128, false, false, false},
	{"int4 groups of 32, 4 parts", WEIGHT_INT4, 80, 384, 12, 4, 32, false, true, true},
	{"int4 groups of 64, odd rows", WEIGHT_INT4, 7, 72, 2, 1, 64, false, false, false},
};

struct operands {
	struct host_matrix matrix;
	void *data;
	float *scales, *x, *bias, *residual, *amax;
	uint16_t *group_scales;
};

static void operands_quantize(struct operands *o, const struct linear_case *c, const float *w)
{
	size_t columns = (size_t)c->columns,
	       groups = c->group ? (columns + (size_t)c->group - 1) / (size_t)c->group : 0;
	uint8_t *codes = o->data = calloc((size_t)c->rows * columns, sizeof(float));

	o->scales = calloc((size_t)c->rows, sizeof(float));
	o->group_scales = calloc((size_t)c->rows * groups + 1, sizeof(uint16_t));
	for (size_t r = 0; r < (size_t)c->rows; r++) {
		const float *row = w + r * columns;
		if (c->format == WEIGHT_F32)
			memcpy(codes + r * columns * 4, row, columns * 4);
		for (size_t k = 0; k < columns && c->format == WEIGHT_BF16; k++)
			((uint16_t *)o->data)[r * columns + k] = float_to_bf16(row[k]);
		if (c->format == WEIGHT_E4M3) {
			o->scales[r] = e4m3_scale(row_amax(row, c->columns));
			e4m3_quantize_row(row, c->columns, o->scales[r], codes + r * columns);
		}
		if (c->format == WEIGHT_INT4)
			int4_quantize_row(row, c->columns, c->group, codes + r * columns, o->group_scales + r * groups);
	}
}

static struct operands operands_make(const struct linear_case *c)
{
	struct operands o = {0};
	float *w = random_floats((size_t)(c->rows * c->columns), 1, 0.2f);

	operands_quantize(&o, c, w);
	free(w);
	o.matrix =
		(struct host_matrix){c->format, c->rows, c->columns, c->group, o.data, o.scales, o.group_scales, NULL};
	o.x = random_floats((size_t)(c->tokens * c->columns), 2, 2.0f);
	o.bias = random_floats((size_t)c->rows, 3, 1.0f);
	o.residual = random_floats((size_t)(c->tokens * c->rows), 4, 1.0f);
	o.amax = calloc((size_t)c->tokens, sizeof(float));
	for (int t = 0; t < c->tokens; t++)
		o.amax[t] = row_amax(o.x + t * c->columns, c->columns);
	return o;
}

static void operands_free(struct operands *o)
{
	void *all[] = {o->data, o->scales, o->x, o->bias, o->residual, o->amax, o->group_scales};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
}

static struct linear_args linear_args_make(
	const struct linear_case *c, const struct operands *o, const struct weight *w, float *y)
{
	return (struct linear_args){.weight = w,
		.x = o->x,
		.n_tokens = c->tokens,
		.amax = c->quantize_input ? o->amax : NULL,
		.bias = c->bias ? o->bias : NULL,
		.residual = c->residual ? o->residual : NULL,
		.y = y};
}

START_TEST(linear_kernels_give_the_bits_of_linear_ref)
{
	const struct linear_case *c = &linear_cases[_i / N_ISAS];
	size_t n = (size_t)(c->tokens * c->rows);
	struct operands o = operands_make(c);
	float *expected = calloc(n, sizeof *expected), *y = calloc(n, sizeof *y);

	for (int threads = 1; threads <= 2; threads++) {
		struct backend *b = backend_for(isas[_i % N_ISAS], threads);
		struct weight w;
		if (!b)
			SKIP("this machine has no %s", isas[_i % N_ISAS]);
		CHECK_OK(b->ops->weight_pack(b, &o.matrix, c->parts, &w, &test_error));
		w.quantize_input = c->quantize_input;
		struct linear_args a = linear_args_make(c, &o, &w, expected);
		linear_ref(&a);
		a.y = y;
		b->ops->linear(b, &a);
		check_bits(c->name, y, expected, n);
		b->ops->weight_free(b, &w);
		b->ops->destroy(b);
	}
	operands_free(&o);
	free(expected);
	free(y);
}
END_TEST

START_TEST(threads_that_pack_change_nothing)
{
	const struct linear_case *c = &linear_cases[_i];
	struct operands o = operands_make(c);
	struct weight alone, shared;

	CHECK_OK(weight_pack_cpu(&o.matrix, c->parts, NULL, &alone, &test_error));
	o.matrix.threads = thread_pool_new(3, &test_error);
	CHECK_OK(weight_pack_cpu(&o.matrix, c->parts, NULL, &shared, &test_error));
	size_t panels = (size_t)panel_count(c->rows), data = panels * panel_bytes(c->format, c->columns);
	ck_assert_uint_eq(alone.bytes, shared.bytes);
	ck_assert_mem_eq(alone.data, shared.data, data);
	if (alone.bytes > data)
		ck_assert_mem_eq(alone.scales, shared.scales, alone.bytes - data);
	thread_pool_delete(o.matrix.threads);
	weight_free_cpu(&alone);
	weight_free_cpu(&shared);
	operands_free(&o);
}
END_TEST

/* |error| <= 1e-5 * sum |w x| against f64 on the same quantised operands. */
START_TEST(linear_ref_is_near_double_precision)
{
	const struct linear_case *c = &linear_cases[_i];
	struct operands o = operands_make(c);
	float *y = calloc((size_t)(c->tokens * c->rows), sizeof *y);
	struct weight w;

	CHECK_OK(weight_pack_cpu(&o.matrix, c->parts, NULL, &w, &test_error));
	w.quantize_input = c->quantize_input;
	struct linear_args a = linear_args_make(c, &o, &w, y);
	linear_ref(&a);
	for (int t = 0; t < c->tokens; t++) {
		for (int n = 0; n < c->rows; n++) {
			double sum = 0, magnitude = 0;
			for (int k = 0; k < c->columns; k++) {
				double x = (double)o.x[t * c->columns + k];
				if (c->quantize_input) {
					float scale = e4m3_scale(o.amax[t]);
					x = (double)e4m3_to_float(float_to_e4m3(o.x[t * c->columns + k] / scale)) *
						(double)scale;
				}
				double term =
					(double)weight_code_value(&w, n, k) * (double)weight_scale_value(&w, n, k) * x;
				sum += term;
				magnitude += fabs(term);
			}
			sum += c->bias ? (double)o.bias[n] : 0;
			sum += c->residual ? (double)o.residual[t * c->rows + n] : 0;
			double got = (double)y[t * c->rows + n];
			ck_assert_msg(fabs(got - sum) <= 1e-5 * magnitude + 1e-6,
				"%s: y[%d][%d] is %.9g, expected %.9g", c->name, t, n, got, sum);
		}
	}
	weight_free_cpu(&w);
	operands_free(&o);
	free(y);
}
END_TEST

/* What ranks do: parts apart, then the tree, bias and residual. */
START_TEST(parts_apart_and_summed_are_the_whole_product)
{
	const struct linear_case *c = &linear_cases[_i];
	size_t n = (size_t)(c->tokens * c->rows);
	struct operands o = operands_make(c);
	float *whole = calloc(n, sizeof *whole), *y = calloc(n, sizeof *y), *parts = calloc(8 * n, sizeof *parts);
	struct backend *b = backend_for(NULL, 2);
	struct weight w;

	CHECK_OK(b->ops->weight_pack(b, &o.matrix, c->parts, &w, &test_error));
	w.quantize_input = c->quantize_input;
	struct linear_args a = linear_args_make(c, &o, &w, whole);
	b->ops->linear(b, &a);
	for (int p = 0; p < c->parts; p++) {
		a.part_first = p;
		a.part_count = 1;
		a.parts_out = parts + (size_t)p * n;
		b->ops->linear(b, &a);
	}
	b->ops->parts_sum(b, &(struct parts_sum_args){parts, c->parts, c->tokens, c->rows, a.bias, a.residual, y});
	check_bits(c->name, y, whole, n);
	b->ops->weight_free(b, &w);
	b->ops->destroy(b);
	operands_free(&o);
	free(whole);
	free(y);
	free(parts);
}
END_TEST

/* A row's bits do not depend on how many rows there are. */
START_TEST(a_row_alone_equals_the_row_in_a_batch)
{
	const struct linear_case *c = &linear_cases[_i];
	size_t rows = (size_t)c->rows;
	struct operands o = operands_make(c);
	float *batch = calloc(rows * (size_t)c->tokens, sizeof *batch), *alone = calloc(rows, sizeof *alone);
	struct backend *b = backend_for(NULL, 1);
	struct weight w;

	CHECK_OK(b->ops->weight_pack(b, &o.matrix, c->parts, &w, &test_error));
	w.quantize_input = c->quantize_input;
	struct linear_args a = linear_args_make(c, &o, &w, batch);
	b->ops->linear(b, &a);
	for (int t = 0; t < c->tokens; t++) {
		struct linear_args one = linear_args_make(c, &o, &w, alone);
		one.n_tokens = 1;
		one.x += (size_t)t * (size_t)c->columns;
		one.amax = one.amax ? one.amax + t : NULL;
		one.residual = one.residual ? one.residual + (size_t)t * rows : NULL;
		b->ops->linear(b, &one);
		check_bits(c->name, alone, batch + (size_t)t * rows, rows);
	}
	b->ops->weight_free(b, &w);
	b->ops->destroy(b);
	operands_free(&o);
	free(batch);
	free(alone);
}
END_TEST

/* ---- attention ---- */

static const struct attend_case {
	const char *name;
	enum kv_format format;
	int heads, kv_heads, dim, page_size, length, queries; /* the last `queries` of `length` positions */
	float k_scale, v_scale;
} attend_cases[] = {
	{"one position", KV_F32, 2, 1, 8, 16, 1, 1, 1, 1},
	{"a block less one", KV_BF16, 4, 2, 16, 8, 63, 63, 1, 1},
	{"a block", KV_BF16, 3, 3, 64, 64, 64, 1, 1, 1},
	{"a block and one", KV_E4M3, 9, 3, 64, 16, 65, 65, 1, 1},
	{"long, fp8 with scales", KV_E4M3, 4, 1, 32, 32, 200, 40, 0.5f, 0.25f},
	{"head size 4", KV_F32, 2, 1, 4, 1, 10, 10, 1, 1},
	{"head size 20", KV_BF16, 6, 2, 20, 2, 130, 17, 1, 1},
	{"head size 128", KV_F32, 2, 2, 128, 16, 129, 33, 1, 1},
};

struct cache {
	struct attend_args args;
	float *qkv, *rope, *out;
	void *k, *v;
	int32_t *table, cu_seqlens[2], first_position[1];
	int64_t *slots;
};

/* Fills a cache of shuffled pages through qkv_finish_ref (no rotation: cos 1, sin 0). */
static void cache_make(struct cache *c, const struct attend_case *t)
{
	int width = (t->heads + 2 * t->kv_heads) * t->dim, pages = (t->length + t->page_size - 1) / t->page_size;
	size_t values = (size_t)((pages + 1) * t->page_size * t->kv_heads * t->dim);
	struct kv_geometry g = {t->page_size, pages + 1, t->kv_heads, t->dim};

	*c = (struct cache){.qkv = random_floats((size_t)(t->length * width), 5, 3.0f),
		.k = calloc(values, 4),
		.v = calloc(values, 4)};
	c->rope = calloc((size_t)(t->length * t->dim), sizeof(float));
	c->table = calloc((size_t)pages, sizeof(int32_t));
	c->slots = calloc((size_t)t->length, sizeof(int64_t));
	c->out = calloc((size_t)(t->queries * t->heads * t->dim), sizeof(float));
	for (int p = 0; p < pages; p++)
		c->table[p] = pages - p; /* in reverse, page 0 unused */
	for (int i = 0; i < t->length; i++) {
		c->slots[i] = (int64_t)c->table[i / t->page_size] * t->page_size + i % t->page_size;
		for (int d = 0; d < t->dim / 2; d++)
			c->rope[i * t->dim + d] = 1.0f;
	}
	struct kv_layer layer = {t->format, c->k, c->v, t->k_scale, t->v_scale};
	qkv_finish_ref(&(struct qkv_finish_args){.qkv = c->qkv,
		.rope = c->rope,
		.rotary_dim = t->dim,
		.n_tokens = t->length,
		.n_heads = t->heads,
		.geometry = g,
		.layer = layer,
		.slots = c->slots});
	c->cu_seqlens[1] = t->queries;
	c->first_position[0] = t->length - t->queries;
	c->args = (struct attend_args){.q = c->qkv + (size_t)((t->length - t->queries) * width),
		.q_stride = width,
		.n_tokens = t->queries,
		.n_sequences = 1,
		.n_heads = t->heads,
		.scale = 1.0f / sqrtf((float)t->dim),
		.geometry = g,
		.layer = layer,
		.cu_seqlens = c->cu_seqlens,
		.first_position = c->first_position,
		.block_tables = c->table,
		.table_stride = pages,
		.out = c->out};
}

static void cache_free(struct cache *c)
{
	void *all[] = {c->qkv, c->rope, c->out, c->k, c->v, c->table, c->slots};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
}

START_TEST(attend_kernels_give_the_bits_of_attend_ref)
{
	const struct attend_case *t = &attend_cases[_i / N_ISAS];
	size_t n = (size_t)(t->queries * t->heads * t->dim);
	float *expected = calloc(n, sizeof *expected);
	struct cache c;

	cache_make(&c, t);
	attend_ref(&c.args);
	memcpy(expected, c.out, n * sizeof *expected);
	for (int threads = 1; threads <= 2; threads++) {
		struct backend *b = backend_for(isas[_i % N_ISAS], threads);
		if (!b)
			SKIP("this machine has no %s", isas[_i % N_ISAS]);
		memset(c.out, 0, n * sizeof *c.out);
		b->ops->attend(b, &c.args);
		check_bits(t->name, c.out, expected, n);
		b->ops->destroy(b);
	}
	cache_free(&c);
	free(expected);
}
END_TEST

/* Softmax attention in double precision over what the cache holds. */
START_TEST(attend_ref_is_near_double_precision)
{
	const struct attend_case *t = &attend_cases[_i];
	struct cache c;
	float k[128], v[128];

	cache_make(&c, t);
	attend_ref(&c.args);
	for (int q = 0; q < t->queries; q++) {
		for (int h = 0; h < t->heads; h++) {
			int position = t->length - t->queries + q, kv_head = h / (t->heads / t->kv_heads);
			double sum = 0, out[128] = {0};
			for (int j = 0; j <= position; j++) {
				const struct attend_args *a = &c.args;
				int page = c.table[j / t->page_size], offset = j % t->page_size;
				double score = 0;
				kv_read_ref(&a->layer, &a->geometry, c.k, t->k_scale, page, kv_head, offset, k);
				kv_read_ref(&a->layer, &a->geometry, c.v, t->v_scale, page, kv_head, offset, v);
				for (int d = 0; d < t->dim; d++)
					score += (double)a->q[q * a->q_stride + h * t->dim + d] * (double)k[d];
				double weight = exp(score * (double)a->scale);
				sum += weight;
				for (int d = 0; d < t->dim; d++)
					out[d] += weight * (double)v[d];
			}
			for (int d = 0; d < t->dim; d++) {
				double got = (double)c.out[(q * t->heads + h) * t->dim + d];
				ck_assert_msg(fabs(got - out[d] / sum) <= 2e-5,
					"%s: [%d][%d][%d] is %.9g, expected %.9g", t->name, q, h, d, got, out[d] / sum);
			}
		}
	}
	cache_free(&c);
}
END_TEST

/* ---- rows ---- */

static const int row_sizes[] = {1, 7, 8, 9, 64, 96, 511, 512, 513, 576, 1000, 49152};

START_TEST(row_kernels_give_the_bits_of_their_twins)
{
	int n = row_sizes[_i / N_ISAS];
	struct backend *b = backend_for(isas[_i % N_ISAS], 2);
	float *x = random_floats((size_t)n * 3, 6, 8.0f), *w = random_floats((size_t)n, 7, 1.0f);
	float *y = calloc((size_t)n * 3, sizeof *y), *expected = calloc((size_t)n * 3, sizeof *expected);

	if (!b)
		SKIP("this machine has no %s", isas[_i % N_ISAS]);
	struct rmsnorm_args norm = {x, w, 3, n, 1e-5f, expected};
	rmsnorm_ref(&norm);
	norm.y = y;
	b->ops->rmsnorm(b, &norm);
	check_bits("rmsnorm", y, expected, (size_t)n * 3);

	struct swiglu_args swiglu = {x, 1, n, expected};
	swiglu_ref(&swiglu);
	swiglu.y = y;
	b->ops->swiglu(b, &swiglu);
	check_bits("swiglu", y, expected, (size_t)n);

	const struct cpu_kernels *k = cpu_backend_kernels(b);
	float max[2], log_sum[2];
	int argmax[2];
	row_softmax_ref(x, n, &max[0], &argmax[0], &log_sum[0]);
	k->row_softmax(x, n, &max[1], &argmax[1], &log_sum[1]);
	check_bits("max", &max[1], &max[0], 1);
	check_bits("log sum", &log_sum[1], &log_sum[0], 1);
	ck_assert_int_eq(argmax[1], argmax[0]);
	double sum = 0;
	for (int i = 0; i < n; i++)
		sum += exp((double)x[i] - (double)max[0]);
	ck_assert_double_eq_tol((double)log_sum[0], log(sum), 2e-6);
	b->ops->destroy(b);
	free(x);
	free(w);
	free(y);
	free(expected);
}
END_TEST

static const float exp_inputs[] = {
	0.0f, -0.0f, 1.0f, -1.0f, 0.5f, -87.0f, -87.3f, -87.31f, -100.0f, 88.0f, 88.7f, 88.73f, 1e-30f, -20.5f};

START_TEST(softmax_takes_minus_infinity_and_keeps_what_is_no_number)
{
	static const struct {
		int n, odd; /* all are 1 but: [0, odd) are minus infinity */
		float last;
		double log_sum; /* by Python: log of the sum; NaN: not a number */
	} cases[] = {
		{513, 512, 1, 0},
		{1100, 1, 1, 7.002155954403621},
		{1024, 600, 2, 5.053777817245455},
		{600, 0, NAN, NAN},
		{600, 512, NAN, NAN},
	};
	struct backend *b = backend_for(isas[_i], 1);
	if (!b)
		SKIP("this machine has no %s", isas[_i]);
	for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
		float x[1100], max, log_sum;
		int argmax;
		for (int i = 0; i < cases[c].n; i++)
			x[i] = i < cases[c].odd ? -INFINITY : 1.0f;
		x[cases[c].n - 1] = cases[c].last;
		cpu_backend_kernels(b)->row_softmax(x, cases[c].n, &max, &argmax, &log_sum);
		if (isnan(cases[c].log_sum))
			ck_assert_msg(isnan(log_sum), "case %zu: %g", c, (double)log_sum);
		else
			ck_assert_double_eq_tol((double)log_sum, cases[c].log_sum, 2e-6);
	}
	b->ops->destroy(b);
}
END_TEST

START_TEST(exp_is_right_to_two_units_in_the_last_place)
{
	for (size_t i = 0; i < sizeof exp_inputs / sizeof *exp_inputs; i++) {
		float x = exp_inputs[i], got = exp_ref(x);
		double right = exp((double)x);
		if (x < -87.3f)
			right = 0;
		if (x > 88.72f)
			ck_assert(isinf(got));
		else
			ck_assert_msg(fabs((double)got - right) <= 2.4e-7 * right, "exp(%g) is %.9g, expected %.9g",
				(double)x, (double)got, right);
	}
	ck_assert(isnan(exp_ref(NAN)));
	ck_assert(exp_ref(-INFINITY) == 0.0f);
}
END_TEST

/* ---- logits ---- */

/* An identity head: the logits are x itself. */
static struct weight identity_head(struct backend *b, int n)
{
	float *eye = calloc((size_t)(n * n), sizeof *eye);
	struct weight w;
	for (int i = 0; i < n; i++)
		eye[i * n + i] = 1.0f;
	CHECK_OK(b->ops->weight_pack(b,
		&(struct host_matrix){.format = WEIGHT_F32, .rows = n, .columns = n, .data = eye}, 1, &w, &test_error));
	free(eye);
	return w;
}

START_TEST(logits_report_what_was_asked_of_each_row)
{
	enum { N = 40 };
	struct backend *b = backend_for(isas[_i], 2);
	if (!b)
		SKIP("this machine has no %s", isas[_i]);
	struct weight head = identity_head(b, N);
	float *x = random_floats(2 * N, 8, 6.0f), all[N], top[3];
	int32_t ids[3];

	x[5] = x[9] = 50.0f; /* a tie: the lower index wins */
	struct logits_row rows[2] = {
		{.token = 0, .target = 9, .sample = true, .top_count = 3, .top_ids = ids, .top_logprobs = top},
		{.token = 1, .target = 3, .all_logprobs = all}};
	b->ops->logits(
		b, &(struct logits_args){.x = x, .head = &head, .hidden = N, .vocab = N, .rows = rows, .n_rows = 2});
	ck_assert_int_eq(rows[0].argmax, 5);
	ck_assert_int_eq(rows[0].sampled, 5);
	ck_assert_int_eq(ids[0], 5);
	ck_assert_int_eq(ids[1], 9);
	ck_assert_float_eq(top[0], rows[0].sampled_logprob);
	ck_assert_float_eq(rows[0].target_logprob, top[1]);
	double sum = 0, total = 0;
	for (int i = 0; i < N; i++)
		sum += exp((double)x[N + i]);
	for (int i = 0; i < N; i++) {
		ck_assert_double_eq_tol((double)all[i], (double)x[N + i] - log(sum), 2e-6);
		total += exp((double)all[i]);
	}
	ck_assert_double_eq_tol(total, 1.0, 1e-5);
	ck_assert_float_eq(rows[1].target_logprob, all[3]);
	b->ops->weight_free(b, &head);
	b->ops->destroy(b);
	free(x);
}
END_TEST

START_TEST(sampling_follows_the_distribution_and_its_cuts)
{
	enum { N = 8, DRAWS = 20000 };
	static const struct {
		const char *name;
		struct sampling sampling;
		double expected[N];
	} cases[] = {
		/* logits 3 2 1 0 …: e^0 e^-1 e^-2 … over their sum 1.58152… (first eight terms) */
		{"plain", {1.0f, 0, 1.0f, 7}, {0.63233, 0.23262, 0.08558, 0.03148, 0.01158, 0.00426, 0.00157, 0.00058}},
		{"top_k 2", {1.0f, 2, 1.0f, 7}, {0.73106, 0.26894}},
		{"top_p 0.9", {1.0f, 0, 0.9f, 7}, {0.66524, 0.24473, 0.09003}},
		{"temperature 0.5", {0.5f, 0, 1.0f, 7},
			{0.86466, 0.11702, 0.01584, 0.00214, 0.00029, 0.00004, 0.00001, 0}},
		{"greedy", {0.0f, 0, 1.0f, 7}, {1}},
	};
	struct backend *b = backend_for(NULL, 1);
	struct weight head = identity_head(b, N);
	float x[N];

	for (int i = 0; i < N; i++)
		x[i] = (float)(3 - i);
	int count[N] = {0};
	for (int i = 0; i < DRAWS; i++) {
		struct logits_row row = {
			.target = -1, .sample = true, .sampling = cases[_i].sampling, .position = (uint64_t)i};
		b->ops->logits(b,
			&(struct logits_args){
				.x = x, .head = &head, .hidden = N, .vocab = N, .rows = &row, .n_rows = 1});
		count[row.sampled]++;
	}
	for (int i = 0; i < N; i++) {
		double share = (double)count[i] / DRAWS, p = cases[_i].expected[i], sigma = sqrt(p * (1 - p) / DRAWS);
		ck_assert_msg(fabs(share - p) <= 4.5 * sigma + 1e-5,
			"%s: token %d drawn %.4f of the time, expected %.4f", cases[_i].name, i, share, p);
	}
	b->ops->weight_free(b, &head);
	b->ops->destroy(b);
}
END_TEST

/* NUMERICS section 3, rule 1. */
START_TEST(parts_are_the_largest_number_that_fits)
{
	static const struct {
		int columns, heads, unit, parts;
	} cases[] = {
		{1536, 0, 32, 8},
		{1536, 0, 128, 4},
		{576, 3, 32, 1},
		{128, 2, 32, 2},
		{4096, 8, 32, 8},
		{384, 0, 32, 4},
		{96, 0, 32, 1},
		{1, 1, 32, 1},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		ck_assert_int_eq(linear_parts(cases[i].columns, cases[i].heads, cases[i].unit), cases[i].parts);
}
END_TEST

START_TEST(a_weight_that_is_not_a_number_is_refused)
{
	uint8_t codes[6] = {0x38, 0x7e, 0xfe, 0x00, 0xff, 0x01};
	float scales[2] = {1, 1};
	struct host_matrix m = {.format = WEIGHT_E4M3, .rows = 2, .columns = 3, .data = codes, .scales = scales};
	struct weight w;
	struct error e = {0};

	ck_assert_int_eq(weight_pack_cpu(&m, 1, NULL, &w, &e), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(e.message, "[1, 1]"));
	codes[4] = 0x7e;
	CHECK_OK(weight_pack_cpu(&m, 1, NULL, &w, &test_error));
	weight_free_cpu(&w);
}
END_TEST

/* Whoever checks it, the first one is named. */
START_TEST(the_first_code_that_is_no_weight_is_named)
{
	enum { ROWS = 321, COLUMNS = 5 };
	static uint8_t codes[ROWS * COLUMNS];
	struct host_matrix m = {.rows = ROWS, .columns = COLUMNS, .group = 32, .data = codes};
	char place[32];

	for (int threads = 1; threads <= 3; threads += 2) {
		m.threads = thread_pool_new(threads, &test_error);
		for (int row = 0; row < ROWS; row += 64) {
			struct error e = {0};
			memset(codes, 0, sizeof codes);
			codes[row * COLUMNS + 3] = 0xff;
			codes[ROWS * COLUMNS - 1] = 0x7f;
			snprintf(place, sizeof place, "[%d, 3]", row);
			m.format = WEIGHT_E4M3;
			ck_assert_int_eq(host_matrix_check(&m, &e), ERR_INPUT);
			ck_assert_msg(strstr(e.message, place) && strstr(e.message, "NaN"), "%s", e.message);
			m.format = WEIGHT_INT4;
			codes[row * COLUMNS + 3] = 16;
			ck_assert_int_eq(host_matrix_check(&m, &e), ERR_INPUT);
			ck_assert_msg(strstr(e.message, place) && strstr(e.message, "is 16"), "%s", e.message);
		}
		memset(codes, 15, sizeof codes);
		CHECK_OK(host_matrix_check(&m, &test_error));
		thread_pool_delete(m.threads);
	}
}
END_TEST

START_TEST(an_unknown_instruction_set_is_refused)
{
	struct backend *b = NULL;
	struct error e = {0};
	ck_assert_int_eq(cpu_backend_new(1, "sse9", &b, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.message, "sse9"));
}
END_TEST

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

void test_program_cases(Suite *suite)
{
	TCase *linear = test_case(suite, "linear", 60), *attend = test_case(suite, "attend", 60),
	      *rows = test_case(suite, "rows", 60);
	TCase *logits = test_case(suite, "logits", 60);

	tcase_add_loop_test(linear, linear_kernels_give_the_bits_of_linear_ref, 0, COUNT(linear_cases) * N_ISAS);
	tcase_add_loop_test(linear, threads_that_pack_change_nothing, 0, COUNT(linear_cases));
	tcase_add_loop_test(linear, linear_ref_is_near_double_precision, 0, COUNT(linear_cases));
	tcase_add_loop_test(linear, parts_apart_and_summed_are_the_whole_product, 0, COUNT(linear_cases));
	tcase_add_loop_test(linear, a_row_alone_equals_the_row_in_a_batch, 0, COUNT(linear_cases));
	tcase_add_test(linear, parts_are_the_largest_number_that_fits);
	tcase_add_loop_test(attend, attend_kernels_give_the_bits_of_attend_ref, 0, COUNT(attend_cases) * N_ISAS);
	tcase_add_loop_test(attend, attend_ref_is_near_double_precision, 0, COUNT(attend_cases));
	tcase_add_loop_test(rows, row_kernels_give_the_bits_of_their_twins, 0, COUNT(row_sizes) * N_ISAS);
	tcase_add_loop_test(rows, softmax_takes_minus_infinity_and_keeps_what_is_no_number, 0, N_ISAS);
	tcase_add_test(rows, exp_is_right_to_two_units_in_the_last_place);
	tcase_add_loop_test(logits, logits_report_what_was_asked_of_each_row, 0, N_ISAS);
	tcase_add_loop_test(logits, sampling_follows_the_distribution_and_its_cuts, 0, 5);
	tcase_add_test(linear, a_weight_that_is_not_a_number_is_refused);
	tcase_add_test(linear, the_first_code_that_is_no_weight_is_named);
	tcase_add_test(logits, an_unknown_instruction_set_is_refused);
}
