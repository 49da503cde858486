#include <math.h>

#include "cuda/kernels.cuh"
#include "engine/base/number.h"
#include "tests/cuda_cases/case_support.cuh"

extern "C" {
#include "engine/cpu/ref.h"
}

/* Embedding, SwiGLU and the largest magnitude, each for rows of that width. */
static const struct rows_case {
	const char *name;
	int width;
} cases[] = {
	{"width 1", 1},
	{"width 7", 7},
	{"width 64", 64},
	{"width 255", 255},
	{"width 256", 256},
	{"width 576", 576},
	{"width 1025", 1025},
};

enum { TOKENS = 9, VOCAB = 11 };

static int check_embed(size_t hidden, enum weight_format format, struct error *e)
{
	generator g(2);
	const std::vector<float> values = random_values(g, VOCAB * hidden);
	std::vector<uint16_t> codes(values.size());
	for (size_t i = 0; i < values.size(); i++)
		codes[i] = float_to_bf16(values[i]);
	const std::vector<int32_t> ids = {0, VOCAB - 1, 3, 3, 7, 1, 0, 9, 5};
	const device_array<float> table(values);
	const device_array<uint16_t> table_bf16(codes);
	const device_array<int32_t> device_ids(ids);
	device_array<float> out(TOKENS * hidden), some(2 * hidden);
	std::vector<float> expected(TOKENS * hidden);
	const bool bf16 = format == WEIGHT_BF16;

	struct embed_args a = {bf16 ? (const void *)codes.data() : values.data(), format, ids.data(), TOKENS,
		(int)hidden, expected.data()};
	embed_ref(&a);
	a.table = bf16 ? (const void *)table_bf16.data : table.data;
	a.ids = device_ids.data;
	a.out = out.data;
	TRY(embed_launch(&a, 0, e));
	a.n_tokens = 1;
	a.out = some.data;
	TRY(embed_launch(&a, 0, e));
	a.n_tokens = 0;
	TRY(embed_launch(&a, 0, e));
	TRY(device_finish("embed", e));
	TRY(compare_bits("embed", out.download().data(), expected.data(), expected.size(), hidden, e));
	expected.resize(hidden);
	TRY(compare_bits("embed of one", some.download().data(), expected.data(), hidden, hidden, e));
	if (!isnan(some.download()[hidden]))
		return error_set(e, ERR_INPUT, "embed of one: a second row was written");
	return 0;
}

static int check_embed_refused(struct error *e)
{
	struct embed_args a = {};
	struct error expected;
	a.format = WEIGHT_INT4;
	if (embed_launch(&a, 0, &expected) != ERR_INPUT)
		return error_set(e, ERR_INPUT, "embed: an int4 table was not refused");
	return 0;
}

/* Gates from far below to far above the range of exp. */
static int check_swiglu(size_t inner, struct error *e)
{
	generator g(3);
	std::vector<float> gate_up = random_values(g, TOKENS * 2 * inner);
	for (size_t i = 0; i < gate_up.size(); i++)
		gate_up[i] *= i / (2 * inner) % 2 == 0 ? 4.0f : 200.0f;
	gate_up[0] = -0.0f;
	const device_array<float> device_gate_up(gate_up);
	device_array<float> y(TOKENS * inner), alone(TOKENS * inner);
	std::vector<float> expected(TOKENS * inner);

	struct swiglu_args a = {gate_up.data(), TOKENS, (int)inner, expected.data()};
	swiglu_ref(&a);
	a.gate_up = device_gate_up.data;
	a.y = y.data;
	TRY(swiglu_launch(&a, 0, e));
	for (size_t t = 0; t < TOKENS; t++) {
		a = {device_gate_up.data + t * 2 * inner, 1, (int)inner, alone.data + t * inner};
		TRY(swiglu_launch(&a, 0, e));
	}
	a.n_tokens = 0;
	TRY(swiglu_launch(&a, 0, e));
	TRY(device_finish("swiglu", e));
	TRY(compare_bits("swiglu", y.download().data(), expected.data(), expected.size(), inner, e));
	return compare_bits(
		"swiglu, each row alone", alone.download().data(), expected.data(), expected.size(), inner, e);
}

/* Rows of numbers, of zeros, with infinity, with NaN. */
static int check_amax(size_t columns, struct error *e)
{
	generator g(4);
	std::vector<float> x = random_values(g, TOKENS * columns), expected(TOKENS);
	x[0] = -3.0f;
	x[2 * columns - 1] = -5.0f;
	for (size_t i = 0; i < columns; i++)
		x[2 * columns + i] = -0.0f;
	x[4 * columns + columns / 2] = -INFINITY;
	x[5 * columns + columns / 2] = NAN;
	x[6 * columns + columns - 1] = 1e-42f;
	const device_array<float> device_x(x);
	device_array<float> amax(TOKENS);

	struct row_amax_args a = {x.data(), TOKENS, (int)columns, expected.data()};
	row_amax_ref(&a);
	a.x = device_x.data;
	a.amax = amax.data;
	TRY(row_amax_launch(&a, 0, e));
	a.n_tokens = 0;
	TRY(row_amax_launch(&a, 0, e));
	TRY(device_finish("row_amax", e));
	return compare_bits("row_amax", amax.download().data(), expected.data(), TOKENS, 1, e);
}

static const char *case_name(int i)
{
	return cases[i].name;
}

/* The bits of the CPU's, of a GPU too. */
static int case_run(int i, bool exact, struct error *e)
{
	(void)exact;
	const size_t width = (size_t)cases[i].width;
	TRY(check_embed(width, WEIGHT_F32, e));
	TRY(check_embed(width, WEIGHT_BF16, e));
	TRY(check_embed_refused(e));
	TRY(check_swiglu(width, e));
	return check_amax(width, e);
}

extern "C" const struct cuda_case_group rows_cases = {"rows", sizeof(cases) / sizeof(cases[0]), case_name, case_run};
