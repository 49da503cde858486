/* Ops that are made of products: a matrix per head, and experts. */
#include <algorithm>
#include <math.h>
#include <memory>
#include <stdio.h>
#include <stdlib.h>

#include "cuda/kernels.cuh"
#include "tests/cuda_cases/matrix_data.cuh"

extern "C" {
#include "engine/cpu/ops_latent.h"
#include "engine/cpu/ops_moe.h"
#include "engine/cpu/pack.h"
}

/* Matrices of one shape, on the device and for the CPU. */
struct matrix_bank {
	std::vector<std::unique_ptr<matrix_data>> data;
	std::vector<struct weight> device, cpu;

	matrix_bank(const matrix_shape &shape, int n, generator &g)
	{
		for (int i = 0; i < n; i++) {
			data.emplace_back(new matrix_data(shape, g));
			device.push_back(data.back()->weight);
			cpu.push_back(data.back()->pack_cpu());
		}
	}
	~matrix_bank()
	{
		for (struct weight &w : cpu)
			weight_free_cpu(&w);
	}
};

static void linear_reference(void *, const struct linear_args *a)
{
	reference_product(a);
}

static void swiglu_reference(void *, const struct swiglu_args *a)
{
	swiglu_ref(a);
}

/* What the CPU's ops want to work in. */
static std::unique_ptr<float, void (*)(void *)> scratch_new(size_t floats)
{
	struct error e;
	float *memory = static_cast<float *>(mem_aligned(floats * sizeof(float), &e));
	if (!memory) {
		fprintf(stderr, "%s\n", e.message);
		exit(1);
	}
	return {memory, free};
}

static const struct product_kernels reference_kernels = {NULL, linear_reference, swiglu_reference};

/* ---- a matrix per head ---- */

static const struct head_case {
	const char *name;
	matrix_shape matrix;
	int n_heads, n_tokens;
} head_shapes[] = {
	{"bf16 33 heads of 5 x 12, 2 tokens", {WEIGHT_BF16, 0, false, 5, 12, 1}, 33, 2},
	{"f32 3 heads of 9 x 33, 17 tokens", {WEIGHT_F32, 0, false, 9, 33, 1}, 3, 17},
	{"int4 2 heads of 16 x 96, 65 tokens", {WEIGHT_INT4, 32, false, 16, 96, 1}, 2, 65},
	{"w8a8 3 heads of 9 x 64, 3 tokens", {WEIGHT_E4M3, 0, true, 9, 64, 1}, 3, 3},
};

static const char *head_name(int i)
{
	return head_shapes[i].name;
}

static int head_run(int i, bool exact, struct error *e)
{
	const struct head_case *c = &head_shapes[i];
	generator g(11);
	matrix_bank bank(c->matrix, c->n_heads, g);
	struct head_linear_args a = {};
	a.x_head_stride = c->matrix.columns + 3;
	a.x_stride = c->n_heads * a.x_head_stride + 1;
	a.y_head_stride = c->matrix.rows + 2;
	a.y_stride = c->n_heads * a.y_head_stride + 5;
	a.n_tokens = c->n_tokens;
	a.n_heads = c->n_heads;
	const std::vector<float> x = random_values(g, (size_t)(c->n_tokens * a.x_stride));
	const std::vector<float> untouched((size_t)(c->n_tokens * a.y_stride), 7.0f);
	std::vector<float> expected(untouched);
	const device_array<float> device_x(x);
	device_array<float> device_y(untouched);
	device_array<uint8_t> workspace(head_linear_workspace(&bank.device[0], c->n_heads, c->n_tokens));

	a.weights = bank.cpu.data();
	a.x = x.data();
	a.y = expected.data();
	head_linear_cpu(&a, &reference_kernels, scratch_new(head_linear_scratch_floats(&a)).get());
	a.weights = bank.device.data();
	a.x = device_x.data;
	a.y = device_y.data;
	TRY(head_linear_launch(&a, workspace.data, 0, e));
	TRY(device_finish("head_linear", e));
	return compare_products("against head_linear_cpu", device_y.download(), expected, (size_t)a.y_stride,
		exact && !c->matrix.quantize_input, e);
}

extern "C" const struct cuda_case_group head_linear_cases = {
	"head_linear", sizeof(head_shapes) / sizeof(head_shapes[0]), head_name, head_run};

/* ---- experts ---- */

static const struct expert_case {
	const char *name;
	enum weight_format format;
	int group;
	bool quantize_input, residual;
	int n_experts, n_chosen, n_tokens, hidden, inner;
} expert_shapes[] = {
	{"bf16, 2 of 5, 17 tokens", WEIGHT_BF16, 0, false, true, 5, 2, 17, 40, 24},
	{"bf16, 3 of 40, 9 tokens", WEIGHT_BF16, 0, false, false, 40, 3, 9, 33, 7},
	{"f32, 1 of 2, 1030 tokens", WEIGHT_F32, 0, false, true, 2, 1, 1030, 4, 3},
	{"int4, 2 of 4, 7 tokens", WEIGHT_INT4, 32, false, true, 4, 2, 7, 64, 40},
	{"w8a8, 2 of 3, 8 tokens", WEIGHT_E4M3, 0, true, false, 3, 2, 8, 36, 48},
	{"w8a16, 1 of 1, 1 token", WEIGHT_E4M3, 0, false, false, 1, 1, 1, 32, 32},
};

/* Ascending experts of each token, by chance. */
static std::vector<int32_t> random_choice(const struct expert_case *c, generator &g)
{
	std::vector<int32_t> all((size_t)c->n_experts), chosen;
	for (int i = 0; i < c->n_experts; i++)
		all[(size_t)i] = i;
	for (int t = 0; t < c->n_tokens; t++) {
		for (size_t k = 0; k < (size_t)c->n_chosen; k++)
			std::swap(all[k], all[k + g() % (all.size() - k)]);
		std::sort(all.begin(), all.begin() + c->n_chosen);
		chosen.insert(chosen.end(), all.begin(), all.begin() + c->n_chosen);
	}
	return chosen;
}

struct expert_data {
	matrix_bank gate_up, down;
	std::vector<float> x, weights, residual;
	std::vector<int32_t> experts;
	device_array<float> device_x, device_weights, device_residual;
	device_array<int32_t> device_experts;

	expert_data(const struct expert_case *c, generator &g)
	    : gate_up({c->format, c->group, c->quantize_input, 2 * c->inner, c->hidden, 1}, c->n_experts, g),
	      down({c->format, c->group, c->quantize_input, c->hidden, c->inner, 1}, c->n_experts, g),
	      x(random_values(g, (size_t)(c->n_tokens * c->hidden))),
	      weights(random_values(g, (size_t)(c->n_tokens * c->n_chosen))), residual(random_values(g, x.size())),
	      experts(random_choice(c, g)), device_x(x), device_weights(weights), device_residual(residual),
	      device_experts(experts)
	{
	}
};

static struct experts_args expert_args(const struct expert_case *c)
{
	struct experts_args a = {};
	a.n_tokens = c->n_tokens;
	a.hidden = c->hidden;
	a.inner = c->inner;
	a.n_chosen = c->n_chosen;
	a.n_experts = c->n_experts;
	return a;
}

static std::vector<float> experts_reference(const struct expert_case *c, const expert_data &d)
{
	struct experts_args a = expert_args(c);
	std::vector<float> y(d.x.size());
	a.x = d.x.data();
	a.experts = d.experts.data();
	a.weights = d.weights.data();
	a.gate_up = d.gate_up.cpu.data();
	a.down = d.down.cpu.data();
	a.residual = c->residual ? d.residual.data() : NULL;
	a.y = y.data();
	experts_cpu(&a, &reference_kernels, scratch_new(experts_scratch_floats(&a)).get());
	return y;
}

/* The first n_tokens rows; the residual in place. */
static int experts_device(
	const struct expert_case *c, const expert_data &d, int n_tokens, std::vector<float> *y, struct error *e)
{
	struct experts_args a = expert_args(c);
	device_array<float> device_y(d.residual);
	a.n_tokens = n_tokens;
	a.x = d.device_x.data;
	a.experts = d.device_experts.data;
	a.weights = d.device_weights.data;
	a.gate_up = d.gate_up.device.data();
	a.down = d.down.device.data();
	a.residual = c->residual ? device_y.data : NULL;
	a.y = device_y.data;
	device_array<uint8_t> workspace(experts_workspace(&a));
	TRY(experts_launch(&a, workspace.data, 0, e));
	TRY(device_finish("experts", e));
	*y = device_y.download();
	y->resize((size_t)n_tokens * (size_t)c->hidden);
	return 0;
}

static const char *expert_name(int i)
{
	return expert_shapes[i].name;
}

static int expert_run(int i, bool exact, struct error *e)
{
	const struct expert_case *c = &expert_shapes[i];
	generator g(13);
	const expert_data d(c, g);
	std::vector<float> y, prefix;

	TRY(experts_device(c, d, c->n_tokens, &y, e));
	TRY(compare_products(
		"against experts_cpu", y, experts_reference(c, d), (size_t)c->hidden, exact && !c->quantize_input, e));
	for (int n_tokens : {1, 2, 7}) {
		if (n_tokens > c->n_tokens)
			break;
		TRY(experts_device(c, d, n_tokens, &prefix, e));
		TRY(compare_bits("rows of fewer tokens", prefix.data(), y.data(), prefix.size(), (size_t)c->hidden, e));
	}
	return 0;
}

extern "C" const struct cuda_case_group experts_cases = {
	"experts", sizeof(expert_shapes) / sizeof(expert_shapes[0]), expert_name, expert_run};
