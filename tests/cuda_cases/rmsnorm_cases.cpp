#include <math.h>

#include "cuda/kernels.cuh"
#include "tests/cuda_cases/case_support.cuh"

extern "C" {
#include "engine/cpu/ref.h"
}

static const struct rmsnorm_case {
	const char *name;
	int hidden;
	float eps;
} cases[] = {
	{"hidden 1", 1, 1e-5f},
	{"hidden 3", 3, 1e-5f},
	{"hidden 64", 64, 1e-5f},
	{"hidden 576", 576, 1e-5f},
	{"hidden 1000", 1000, 1e-6f},
	{"hidden 1023", 1023, 1e-6f},
	{"hidden 4100", 4100, 1e-6f},
};

enum { TOKENS = 5, ROW_ZERO = 3, ROW_LARGE = 4 };

/* Random rows, one of zeros, one of large values. */
static std::vector<float> make_rows(generator &g, int hidden)
{
	std::vector<float> x = random_values(g, (size_t)TOKENS * (size_t)hidden);
	for (int i = 0; i < hidden; i++) {
		x[(size_t)(ROW_ZERO * hidden + i)] = 0.0f;
		x[(size_t)(ROW_LARGE * hidden + i)] *= 1e15f;
	}
	return x;
}

static const char *case_name(int i)
{
	return cases[i].name;
}

static int case_run(int i, bool exact, struct error *e)
{
	(void)exact; /* the kernel has an order of its own */
	const struct rmsnorm_case *c = &cases[i];
	const size_t hidden = (size_t)c->hidden, n = TOKENS * hidden;
	generator g(1);
	const std::vector<float> x = make_rows(g, c->hidden), weight = random_values(g, hidden);
	const device_array<float> device_x(x), device_weight(weight);
	device_array<float> device_y(n), in_place(x), alone(n), none(hidden);
	std::vector<float> expected(n);

	struct rmsnorm_args a = {x.data(), weight.data(), TOKENS, c->hidden, c->eps, expected.data()};
	rmsnorm_ref(&a);

	a = {device_x.data, device_weight.data, TOKENS, c->hidden, c->eps, device_y.data};
	TRY(rmsnorm_launch(&a, 0, e));
	a.x = a.y = in_place.data;
	TRY(rmsnorm_launch(&a, 0, e));
	for (size_t t = 0; t < TOKENS; t++) {
		a = {device_x.data + t * hidden, device_weight.data, 1, c->hidden, c->eps, alone.data + t * hidden};
		TRY(rmsnorm_launch(&a, 0, e));
	}
	a = {device_x.data, device_weight.data, 0, c->hidden, c->eps, none.data};
	TRY(rmsnorm_launch(&a, 0, e));
	TRY(device_finish("rmsnorm", e));

	const std::vector<float> y = device_y.download();
	for (size_t t = 0; t < TOKENS; t++)
		TRY(compare_nmse("against rmsnorm_ref", &y[t * hidden], &expected[t * hidden], hidden, 1e-10, e));
	TRY(compare_bits("in place", in_place.download().data(), y.data(), n, hidden, e));
	TRY(compare_bits("each row alone", alone.download().data(), y.data(), n, hidden, e));
	for (float value : none.download())
		if (!isnan(value))
			return error_set(e, ERR_INPUT, "no tokens: something was written");
	return 0;
}

extern "C" const struct cuda_case_group rmsnorm_cases = {
	"rmsnorm", sizeof(cases) / sizeof(cases[0]), case_name, case_run};
