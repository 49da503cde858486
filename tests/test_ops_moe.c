/* The router and the experts, against float64 by NumPy and against their own definition. */
#include <math.h>

#include "engine/base/number.h"
#include "engine/cpu/cpu_backend.h"
#include "engine/cpu/ops_moe.h"
#include "engine/cpu/pack.h"
#include "tests/ops_golden.h"

const char *const test_program_name = "ops_moe";

/* ---- route ---- */

static void route_row(char **field)
{
	int n = golden_int(field[1]), k = golden_int(field[2]), bias_kind = golden_int(field[4]);
	int token = golden_int(field[11]);
	float levels = (float)golden_int(field[10]);
	uint64_t seed = (uint64_t)golden_int(field[9]);
	float logits[512], bias[512], weights[16];
	int32_t experts[16];
	double want_experts[16], want_weights[16];

	for (int e = 0; e < n; e++) {
		logits[e] = hash_value(seed, (uint64_t)(token * n + e)) * 4.0f;
		if (levels > 0)
			logits[e] = rintf(logits[e] * levels) / levels;
		bias[e] = hash_value(seed + 1000, (uint64_t)e) * 0.5f - (bias_kind == 2 ? 2.0f : 0.0f);
	}
	struct route_args args = {
		.logits = logits,
		.bias = bias_kind ? bias : NULL,
		.n_tokens = 1,
		.n_experts = n,
		.n_chosen = k,
		.sigmoid = golden_int(field[3]),
		.n_group = golden_int(field[5]),
		.topk_group = golden_int(field[6]),
		.normalize = golden_int(field[7]),
		.scaling = (float)golden_double(field[8]),
		.experts = experts,
		.weights = weights,
	};
	route_cpu(&args);
	golden_list(field[12], want_experts, k);
	golden_list(field[13], want_weights, k);
	for (int i = 0; i < k; i++)
		ck_assert_msg(experts[i] == (int)want_experts[i], "%s token %d: expert %d is %d, not %s", field[0],
			token, i, experts[i], field[12]);
	for (int i = 0; i < k; i++)
		check_close(&weights[i], &want_weights[i], 1, 2e-6, field[0]);
}

START_TEST(route_golden)
{
	ck_assert_int_eq(golden_each("route.tsv", 14, route_row), 56);
}
END_TEST

/* Expert 3 is worst by its logit and best by its bias: it is chosen, and weighs what its logit says. */
START_TEST(route_bias_chooses_only)
{
	const float logits[] = {1.0f, 0.5f, 0.25f, -2.0f}, bias[] = {0.0f, 0.0f, 0.0f, 5.0f};
	int32_t experts[2];
	float weights[2];
	struct route_args args = {.logits = logits,
		.n_tokens = 1,
		.n_experts = 4,
		.n_chosen = 2,
		.sigmoid = true,
		.n_group = 1,
		.topk_group = 1,
		.scaling = 1.0f,
		.experts = experts,
		.weights = weights};

	route_cpu(&args);
	ck_assert_int_eq(experts[0], 0);
	ck_assert_int_eq(experts[1], 1);
	args.bias = bias;
	route_cpu(&args);
	ck_assert_int_eq(experts[0], 0);
	ck_assert_int_eq(experts[1], 3);
	ck_assert_double_eq_tol((double)weights[0], 1.0 / (1.0 + exp(-1.0)), 1e-6);
	ck_assert_double_eq_tol((double)weights[1], 1.0 / (1.0 + exp(2.0)), 1e-6);
}
END_TEST

/* All logits equal: the lowest K indices, in the lowest groups. */
START_TEST(route_all_equal)
{
	static const int counts[] = {8, 60, 128, 256, 384};
	int n = counts[_i % 5];
	bool sigmoid = _i >= 5;
	float logits[384] = {0}, weights[8];
	int32_t experts[8];

	for (int groups = 1; groups <= (sigmoid ? 4 : 1); groups *= 2)
		for (int k = 1; k <= 8 && k <= n / groups; k++) {
			struct route_args args = {.logits = logits,
				.n_tokens = 1,
				.n_experts = n,
				.n_chosen = k,
				.sigmoid = sigmoid,
				.n_group = groups,
				.topk_group = 1,
				.normalize = true,
				.scaling = 3.0f,
				.experts = experts,
				.weights = weights};
			route_cpu(&args);
			for (int i = 0; i < k; i++) {
				ck_assert_int_eq(experts[i], i);
				ck_assert_double_eq_tol((double)weights[i], 3.0 / k, 1e-6);
			}
		}
}
END_TEST

/* A tie between the first and a later group goes to the first; the dropped ones never come back. */
START_TEST(route_group_tie)
{
	const float logits[] = {0.0f, 1.0f, /**/ 2.0f, -1.0f, /**/ 2.0f, -1.0f, /**/ 0.5f, 0.5f};
	int32_t experts[2];
	float weights[2];
	struct route_args args = {.logits = logits,
		.n_tokens = 1,
		.n_experts = 8,
		.n_chosen = 2,
		.sigmoid = true,
		.n_group = 4,
		.topk_group = 1,
		.scaling = 1.0f,
		.experts = experts,
		.weights = weights};

	/* groups score sigmoid sums 1.231, 1.150, 1.150, 1.245 */
	route_cpu(&args);
	ck_assert_int_eq(experts[0], 6);
	ck_assert_int_eq(experts[1], 7);
	const float tied[] = {-9.0f, -9.0f, /**/ 2.0f, -1.0f, /**/ 2.0f, -1.0f, /**/ -9.0f, 1.0f};
	args.logits = tied;
	route_cpu(&args);
	ck_assert_int_eq(experts[0], 2);
	ck_assert_int_eq(experts[1], 3);
}
END_TEST

START_TEST(route_batch_is_rows)
{
	enum { T = 33, E = 160, K = 8 };
	float *logits = hash_values(20, T * E), *bias = hash_values(21, E);
	int32_t experts[T * K], alone[K];
	float weights[T * K], weights_alone[K];
	struct route_args args = {.logits = logits,
		.bias = bias,
		.n_tokens = T,
		.n_experts = E,
		.n_chosen = K,
		.sigmoid = _i,
		.n_group = _i ? 4 : 1,
		.topk_group = _i ? 2 : 1,
		.normalize = true,
		.scaling = 2.5f,
		.experts = experts,
		.weights = weights};

	route_cpu(&args);
	args.n_tokens = 1;
	args.experts = alone;
	args.weights = weights_alone;
	for (int t = 0; t < T; t++) {
		args.logits = logits + t * E;
		route_cpu(&args);
		ck_assert_mem_eq(alone, experts + t * K, sizeof alone);
		check_same_bits(weights_alone, weights + t * K, K, "weights");
		for (int k = 1; k < K; k++)
			ck_assert_int_lt(alone[k - 1], alone[k]);
	}
	args.n_tokens = 0;
	route_cpu(&args);
	free(logits);
	free(bias);
}
END_TEST

/* A NaN wins its place and shows in the weights; the indices stay valid. */
START_TEST(route_nan)
{
	float logits[] = {0.0f, 1.0f, 2.0f, 3.0f, NAN, 5.0f, 6.0f, 7.0f};
	int32_t experts[2];
	float weights[2];
	struct route_args args = {.logits = logits,
		.n_tokens = 1,
		.n_experts = 8,
		.n_chosen = 2,
		.sigmoid = _i,
		.n_group = 1,
		.topk_group = 1,
		.scaling = 1.0f,
		.experts = experts,
		.weights = weights};

	route_cpu(&args);
	ck_assert_int_eq(experts[0], 4);
	ck_assert_int_eq(experts[1], 7);
	ck_assert_float_nan(weights[0]);
	for (int i = 0; i < 8; i++)
		logits[i] = NAN;
	route_cpu(&args);
	ck_assert_int_eq(experts[0], 0);
	ck_assert_int_eq(experts[1], 1);
	ck_assert_float_nan(weights[1]);
}
END_TEST

/* Sigmoids that are all 0 are normalised to 0, not to NaN. */
START_TEST(route_all_zero)
{
	const float logits[] = {-200.0f, -300.0f, -100.0f};
	int32_t experts[2];
	float weights[2];
	struct route_args args = {.logits = logits,
		.n_tokens = 1,
		.n_experts = 3,
		.n_chosen = 2,
		.sigmoid = true,
		.n_group = 1,
		.topk_group = 1,
		.normalize = true,
		.scaling = 1.0f,
		.experts = experts,
		.weights = weights};

	route_cpu(&args);
	ck_assert(weights[0] == 0.0f && weights[1] == 0.0f);
}
END_TEST

/* ---- experts ---- */

/* The matrix that make_ops.py knows by this seed. */
static struct weight hash_weight(enum weight_format format, uint64_t seed, int rows, int columns, int group, bool w8a8)
{
	size_t count = (size_t)rows * (size_t)columns;
	int n_scales = format == WEIGHT_INT4 ? rows * ((columns + group - 1) / group) : rows;
	float *values = malloc(count * sizeof *values), *scales = malloc((size_t)n_scales * sizeof *scales);
	uint16_t *halves = malloc(count * sizeof *halves),
		 *group_scales = malloc((size_t)n_scales * sizeof *group_scales);
	uint8_t *codes = malloc(count);

	ck_assert(values && scales && halves && group_scales && codes);
	for (int i = 0; i < n_scales; i++) {
		scales[i] = (1.5f + 0.5f * hash_value(seed + 500, (uint64_t)i)) * 0.03125f;
		group_scales[i] = (uint16_t)(float_bits(scales[i]) >> 16);
	}
	for (size_t i = 0; i < count; i++) {
		uint64_t z = hash_at(seed, i);
		values[i] = hash_value(seed, i);
		halves[i] = (uint16_t)(float_bits(values[i]) >> 16);
		codes[i] = (uint8_t)(format == WEIGHT_INT4 ? z & 15 : (z & 0x87) | (3 + (z >> 8) % 6) << 3);
	}
	struct host_matrix m = {
		.format = format,
		.rows = rows,
		.columns = columns,
		.group = group,
		.data = format == WEIGHT_F32    ? (void *)values
			: format == WEIGHT_BF16 ? (void *)halves
						: (void *)codes,
		.scales = scales,
		.group_scales = group_scales,
	};
	struct weight w;
	CHECK_OK(weight_pack_cpu(&m, 1, NULL, &w, &test_error));
	w.quantize_input = w8a8;
	free(values);
	free(scales);
	free(halves);
	free(group_scales);
	free(codes);
	return w;
}

struct moe {
	int n_experts, hidden, inner;
	struct weight gate_up[16], down[16];
};

static void moe_init(
	struct moe *m, enum weight_format format, int n_experts, int hidden, int inner, int group, bool w8a8, int seed)
{
	*m = (struct moe){.n_experts = n_experts, .hidden = hidden, .inner = inner};
	for (int e = 0; e < n_experts; e++) {
		uint64_t at = (uint64_t)(10000 + seed * 100 + 2 * e);
		m->gate_up[e] = hash_weight(format, at, 2 * inner, hidden, group, w8a8);
		m->down[e] = hash_weight(format, at + 1, hidden, inner, group, w8a8);
	}
}

static void moe_free(struct moe *m)
{
	for (int e = 0; e < m->n_experts; e++) {
		weight_free_cpu(&m->gate_up[e]);
		weight_free_cpu(&m->down[e]);
	}
}

static void counted_linear(void *context, const struct linear_args *a)
{
	++*(int *)context;
	linear_ref(a);
}

static void counted_swiglu(void *context, const struct swiglu_args *a)
{
	++*(int *)context;
	swiglu_ref(a);
}

/* Runs the op with scratch of exactly the size it asks for; returns how many kernels it called. */
static int moe_run(const struct moe *m, struct experts_args *a)
{
	int calls = 0;
	struct product_kernels kernels = {.context = &calls, .linear = counted_linear, .swiglu = counted_swiglu};

	a->hidden = m->hidden;
	a->inner = m->inner;
	a->n_experts = m->n_experts;
	a->gate_up = m->gate_up;
	a->down = m->down;
	size_t size = experts_scratch_floats(a) * sizeof(float);
	float *scratch = mem_aligned(size, &test_error);
	ck_assert_ptr_nonnull(scratch);
	memset(scratch, 0xff, size); /* NaN: nothing may lean on zeroes */
	experts_cpu(a, &kernels, scratch);
	free(scratch);
	return calls;
}

static enum weight_format format_of(const char *name)
{
	return strcmp(name, "f32") == 0     ? WEIGHT_F32
		: strcmp(name, "bf16") == 0 ? WEIGHT_BF16
		: strcmp(name, "e4m3") == 0 ? WEIGHT_E4M3
					    : WEIGHT_INT4;
}

static void experts_row(char **field)
{
	int hidden = golden_int(field[5]), n_chosen = golden_int(field[8]), seed = golden_int(field[10]);
	int token = golden_int(field[11]);
	bool w8a8 = golden_int(field[3]);
	double chosen[8], want[64];
	int32_t experts[8];
	float weights[8], x[64], residual[64], y[64];
	struct moe m;

	moe_init(&m, format_of(field[1]), golden_int(field[7]), hidden, golden_int(field[6]), golden_int(field[2]),
		w8a8, seed);
	golden_list(field[12], chosen, n_chosen);
	golden_list(field[13], want, hidden);
	for (int k = 0; k < n_chosen; k++) {
		experts[k] = (int32_t)chosen[k];
		weights[k] = 0.75f + 0.25f * hash_value((uint64_t)seed + 1, (uint64_t)(token * n_chosen + k));
	}
	for (int h = 0; h < hidden; h++) {
		x[h] = hash_value((uint64_t)seed, (uint64_t)(token * hidden + h));
		residual[h] = hash_value((uint64_t)seed + 2, (uint64_t)(token * hidden + h));
	}
	struct experts_args args = {.x = x,
		.n_tokens = 1,
		.n_chosen = n_chosen,
		.experts = experts,
		.weights = weights,
		.residual = golden_int(field[9]) ? residual : NULL,
		.y = y};
	ck_assert_int_eq(moe_run(&m, &args), 3 * n_chosen);
	/* The rounding of an input to E4M3 may go the other way in f32: one step of 2^-4 of one input. */
	check_close(y, want, hidden, w8a8 ? 1e-2 : 1e-5, field[0]);
	moe_free(&m);
}

START_TEST(experts_golden)
{
	ck_assert_int_eq(golden_each("experts.tsv", 14, experts_row), 24);
}
END_TEST

/* The definition, one token and one expert at a time. */
static void experts_plain(const struct moe *m, const struct experts_args *a, int t, float *y)
{
	float gate_up[128], inner[64], out[64], amax;

	memset(y, 0, (size_t)m->hidden * sizeof *y);
	for (int k = 0; k < a->n_chosen; k++) {
		int e = a->experts[t * a->n_chosen + k];
		const float *x = a->x + t * m->hidden;
		row_amax_ref(&(struct row_amax_args){.x = x, .n_tokens = 1, .columns = m->hidden, .amax = &amax});
		linear_ref(&(struct linear_args){
			.weight = &m->gate_up[e], .x = x, .n_tokens = 1, .amax = &amax, .y = gate_up});
		swiglu_ref(&(struct swiglu_args){.gate_up = gate_up, .n_tokens = 1, .inner = m->inner, .y = inner});
		row_amax_ref(&(struct row_amax_args){.x = inner, .n_tokens = 1, .columns = m->inner, .amax = &amax});
		linear_ref(&(struct linear_args){
			.weight = &m->down[e], .x = inner, .n_tokens = 1, .amax = &amax, .y = out});
		for (int h = 0; h < m->hidden; h++)
			y[h] = fmaf(a->weights[t * a->n_chosen + k], out[h], y[h]);
	}
	for (int h = 0; a->residual && h < m->hidden; h++)
		y[h] += a->residual[t * m->hidden + h];
}

static const struct {
	enum weight_format format;
	int group;
	bool w8a8;
} formats[] = {{WEIGHT_F32, 0, false}, {WEIGHT_BF16, 0, false}, {WEIGHT_E4M3, 0, false}, {WEIGHT_E4M3, 0, true},
	{WEIGHT_INT4, 32, false}};

/* Batches of 1 to 150 tokens, so that experts run over more tokens than one tile holds: every row as if alone. */
START_TEST(experts_batch_is_rows)
{
	enum { T = 150, H = 33, I = 17, E = 5, K = 2 };
	struct moe m;
	float *x = hash_values(30, T * H), *weights = hash_values(31, T * K), *residual = hash_values(32, T * H),
	      *y = hash_values(0, T * H);
	int32_t experts[T * K];

	moe_init(&m, formats[_i].format, E, H, I, formats[_i].group, formats[_i].w8a8, 7);
	for (int t = 0; t < T; t++) {
		experts[t * K] = (int32_t)(hash_at(33, (uint64_t)t) % 2); /* experts 0 and 1 get most tokens, 3 none */
		experts[t * K + 1] = t % 7 ? 2 : 4;
	}
	static const int counts[] = {1, 64, 65, T};
	for (int i = 0; i < 4; i++) {
		int count = counts[i];
		struct experts_args args = {.x = x,
			.n_tokens = count,
			.n_chosen = K,
			.experts = experts,
			.weights = weights,
			.residual = residual,
			.y = y};
		moe_run(&m, &args);
		for (int t = 0; t < count; t++) {
			float want[H];
			experts_plain(&m, &args, t, want);
			check_same_bits(y + t * H, want, H, "row");
		}
	}
	/* in place on the residual stream */
	struct experts_args args = {.x = x,
		.n_tokens = T,
		.n_chosen = K,
		.experts = experts,
		.weights = weights,
		.residual = residual,
		.y = residual};
	moe_run(&m, &args);
	check_same_bits(residual, y, T * H, "in place");
	args.n_tokens = 0;
	ck_assert_int_eq(moe_run(&m, &args), 0);
	moe_free(&m);
	free(x);
	free(weights);
	free(residual);
	free(y);
}
END_TEST

/* The backend's own product and swiglu on two threads, twice for its scratch to grow: the same bits. */
START_TEST(experts_by_backend)
{
	enum { T = 70, H = 48, I = 40, E = 4, K = 2 };
	struct moe m;
	struct backend *b;
	float *x = hash_values(40, T * H), *weights = hash_values(41, T * K), *y = hash_values(0, T * H);
	int32_t experts[T * K];

	CHECK_OK(cpu_backend_new(2, NULL, &b, &test_error));
	moe_init(&m, formats[_i].format, E, H, I, formats[_i].group, formats[_i].w8a8, 8);
	for (int t = 0; t < T; t++) {
		experts[t * K] = t % 3;
		experts[t * K + 1] = 3;
	}
	for (int count = 2; count <= T; count += T - 2) {
		struct experts_args args = {.x = x,
			.n_tokens = count,
			.hidden = H,
			.inner = I,
			.n_chosen = K,
			.n_experts = E,
			.experts = experts,
			.weights = weights,
			.gate_up = m.gate_up,
			.down = m.down,
			.y = y};
		b->ops->experts(b, &args);
		for (int t = 0; t < count; t++) {
			float want[H];
			experts_plain(&m, &args, t, want);
			check_same_bits(y + t * H, want, H, "row");
		}
	}
	CHECK_OK(b->ops->finish(b, &test_error));
	b->ops->destroy(b);
	moe_free(&m);
	free(x);
	free(weights);
	free(y);
}
END_TEST

/* Experts 0, 1, 2 give 1e8, 1, -1e8: ascending (1e8 + 1) - 1e8 is 0 in float, an order that adds 1 last gives 1. */
START_TEST(experts_ascending)
{
	static const float outputs[] = {1e8f, 1.0f, -1e8f};
	const float gate_up[] = {32.0f, 1.0f}; /* silu(32) is 32 in float */
	const float x = 1.0f, weights[] = {1.0f, 1.0f, 1.0f}, ten = 10.0f;
	const int32_t experts[] = {0, 1, 2};
	struct moe m = {.n_experts = 3, .hidden = 1, .inner = 1};
	float y;

	for (int e = 0; e < 3; e++) {
		float down = outputs[e] / 32.0f;
		struct host_matrix first = {.format = WEIGHT_F32, .rows = 2, .columns = 1, .data = gate_up};
		struct host_matrix second = {.format = WEIGHT_F32, .rows = 1, .columns = 1, .data = &down};
		CHECK_OK(weight_pack_cpu(&first, 1, NULL, &m.gate_up[e], &test_error));
		CHECK_OK(weight_pack_cpu(&second, 1, NULL, &m.down[e], &test_error));
	}
	struct experts_args args = {
		.x = &x, .n_tokens = 1, .n_chosen = 3, .experts = experts, .weights = weights, .y = &y};
	moe_run(&m, &args);
	ck_assert_float_eq(y, 0.0f);
	args.residual = &ten; /* after the sum, not before */
	moe_run(&m, &args);
	ck_assert_float_eq(y, 10.0f);
	moe_free(&m);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *route = test_case(suite, "route", 0);
	tcase_add_test(route, route_golden);
	tcase_add_test(route, route_bias_chooses_only);
	tcase_add_loop_test(route, route_all_equal, 0, 10);
	tcase_add_test(route, route_group_tie);
	tcase_add_loop_test(route, route_batch_is_rows, 0, 2);
	tcase_add_loop_test(route, route_nan, 0, 2);
	tcase_add_test(route, route_all_zero);

	TCase *experts = test_case(suite, "experts", 0);
	tcase_add_test(experts, experts_golden);
	tcase_add_loop_test(experts, experts_batch_is_rows, 0, 5);
	tcase_add_loop_test(experts, experts_by_backend, 0, 5);
	tcase_add_test(experts, experts_ascending);
}
