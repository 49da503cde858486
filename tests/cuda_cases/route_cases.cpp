#include <math.h>
#include <string.h>

#include "cuda/kernels.cuh"
#include "tests/cuda_cases/case_support.cuh"

extern "C" {
#include "engine/cpu/ops_moe.h"
}

static const struct route_case {
	const char *name;
	int n_experts, n_chosen, n_group, topk_group;
	bool sigmoid, bias, normalize;
	float scaling;
} cases[] = {
	{"1 of 1", 1, 1, 1, 1, false, false, true, 1.0f},
	{"softmax, 2 of 8", 8, 2, 1, 1, false, false, true, 1.0f},
	{"softmax, 8 of 60, not normalised", 60, 8, 1, 1, false, false, false, 2.5f},
	{"softmax, 8 of 128", 128, 8, 1, 1, false, false, true, 1.0f},
	{"softmax, all of 33", 33, 33, 1, 1, false, false, true, 1.0f},
	{"sigmoid, 6 of 64", 64, 6, 1, 1, true, false, true, 1.0f},
	{"sigmoid, bias, 8 of 256 in 4 of 8 groups", 256, 8, 8, 4, true, true, true, 2.5f},
	{"sigmoid, bias, 2 of 35 in 1 of 35 groups", 35, 1, 35, 1, true, true, false, 1.0f},
	{"sigmoid, bias, 10 of 1024 in 2 of 32 groups", 1024, 10, 32, 2, true, true, true, 1.0f},
};

enum { TOKENS = 12 };

/* Random rows; with ties; all alike; with NaN; with infinities; so small that every sigmoid is 0. */
static std::vector<float> make_logits(generator &g, size_t n_experts)
{
	std::vector<float> x = random_values(g, TOKENS * n_experts);
	for (size_t i = 0; i < x.size(); i++) {
		const size_t row = i / n_experts, expert = i % n_experts;
		x[i] *= 6.0f;
		if (row % 6 == 1)
			x[i] = rintf(x[i] / 3.0f);
		else if (row % 6 == 2)
			x[i] = 0.25f;
		else if (row % 6 == 3 && expert % 7 == 5)
			x[i] = row > 6 ? -INFINITY : NAN;
		else if (row == 4)
			x[i] = -100.0f;
	}
	return x;
}

static struct route_args make_args(const struct route_case *c, int n_tokens)
{
	struct route_args a = {};
	a.n_tokens = n_tokens;
	a.n_experts = c->n_experts;
	a.n_chosen = c->n_chosen;
	a.sigmoid = c->sigmoid;
	a.n_group = c->n_group;
	a.topk_group = c->topk_group;
	a.normalize = c->normalize;
	a.scaling = c->scaling;
	return a;
}

/* Experts and weights of n_tokens rows, the first of them at logits. */
static int run_tokens(const struct route_case *c, const float *logits, const float *bias, int n_tokens,
	std::vector<int32_t> *experts, std::vector<float> *weights, struct error *e)
{
	const size_t n = (size_t)n_tokens * (size_t)c->n_chosen;
	device_array<int32_t> device_experts(n);
	device_array<float> device_weights(n);
	struct route_args a = make_args(c, n_tokens);
	a.logits = logits;
	a.bias = c->bias ? bias : NULL;
	a.experts = device_experts.data;
	a.weights = device_weights.data;
	TRY(route_launch(&a, 0, e));
	TRY(device_finish("route", e));
	*experts = device_experts.download();
	*weights = device_weights.download();
	return 0;
}

static int compare_rows(const char *what, const struct route_case *c, size_t first, const std::vector<int32_t> &experts,
	std::vector<float> weights, const std::vector<int32_t> &expected_experts,
	const std::vector<float> &expected_weights, struct error *e)
{
	const size_t k = (size_t)c->n_chosen;
	for (size_t i = 0; i < experts.size(); i++) {
		const int32_t expected = expected_experts[first * k + i];
		if (experts[i] != expected)
			return error_set(e, ERR_INPUT, "%s: expert [%zu][%zu] is %d, expected %d", what, first + i / k,
				i % k, experts[i], expected);
		if (isnan(weights[i]) && isnan(expected_weights[first * k + i])) /* whichever NaN */
			weights[i] = expected_weights[first * k + i];
	}
	return compare_bits(what, weights.data(), &expected_weights[first * k], weights.size(), k, e);
}

static const char *case_name(int i)
{
	return cases[i].name;
}

/* The bits of the CPU's, of a GPU too. */
static int case_run(int i, bool exact, struct error *e)
{
	(void)exact;
	const struct route_case *c = &cases[i];
	const size_t n_experts = (size_t)c->n_experts, n = TOKENS * (size_t)c->n_chosen;
	generator g(3);
	const std::vector<float> x = make_logits(g, n_experts), bias = random_values(g, n_experts);
	const device_array<float> device_x(x), device_bias(bias);
	std::vector<int32_t> experts, expected_experts(n);
	std::vector<float> weights, expected_weights(n);

	struct route_args a = make_args(c, TOKENS);
	a.logits = x.data();
	a.bias = c->bias ? bias.data() : NULL;
	a.experts = expected_experts.data();
	a.weights = expected_weights.data();
	route_cpu(&a);

	TRY(run_tokens(c, device_x.data, device_bias.data, TOKENS, &experts, &weights, e));
	TRY(compare_rows("against route_cpu", c, 0, experts, weights, expected_experts, expected_weights, e));
	for (size_t t = 0; t < TOKENS; t += 5) {
		TRY(run_tokens(c, device_x.data + t * n_experts, device_bias.data, 1, &experts, &weights, e));
		TRY(compare_rows("a row alone", c, t, experts, weights, expected_experts, expected_weights, e));
	}
	struct error expected;
	a.n_experts = ROUTE_EXPERTS_MAX + 1;
	if (route_launch(&a, 0, &expected) != ERR_INPUT)
		return error_set(e, ERR_INPUT, "%d experts were not refused", a.n_experts);
	a = make_args(c, 0);
	return route_launch(&a, 0, e);
}

extern "C" const struct cuda_case_group route_cases = {"route", sizeof(cases) / sizeof(cases[0]), case_name, case_run};
