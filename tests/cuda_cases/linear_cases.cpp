#include <math.h>
#include <string>

#include "cuda/kernels.cuh"
#include "tests/cuda_cases/matrix_data.cuh"

extern "C" {
#include "cuda/weight_pack.h"
#include "engine/base/quant.h"
#include "engine/cpu/pack.h"
#include "engine/cpu/ref.h"
}

/* Sizes round the tiles of 16, 64 and 128 tokens, 32, 64 and 128 outputs, 32 inputs; groups and parts of every size. */
static const struct linear_case {
	const char *name;
	matrix_shape matrix;
	int n_tokens;
	bool bias, residual;
} cases[] = {
	{"bf16 1 x 4", {WEIGHT_BF16, 0, false, 1, 4, 1}, 65, false, false},
	{"bf16 3 x 99, bias", {WEIGHT_BF16, 0, false, 3, 99, 1}, 65, true, false},
	{"bf16 40 x 576, residual", {WEIGHT_BF16, 0, false, 40, 576, 1}, 65, false, true},
	{"bf16 66 x 256, 8 parts, bias, residual", {WEIGHT_BF16, 0, false, 66, 256, 8}, 65, true, true},
	{"bf16 130 x 192, 2 parts", {WEIGHT_BF16, 0, false, 130, 192, 2}, 129, false, false},
	{"f32 1 x 1", {WEIGHT_F32, 0, false, 1, 1, 1}, 65, false, false},
	{"f32 9 x 37, bias", {WEIGHT_F32, 0, false, 9, 37, 1}, 65, true, false},
	{"f32 65 x 100", {WEIGHT_F32, 0, false, 65, 100, 1}, 129, false, false},
	{"f32 33 x 256, 4 parts, residual", {WEIGHT_F32, 0, false, 33, 256, 4}, 65, false, true},
	{"w8a16 7 x 31", {WEIGHT_E4M3, 0, false, 7, 31, 1}, 65, false, false},
	{"w8a16 65 x 288, bias, residual", {WEIGHT_E4M3, 0, false, 65, 288, 1}, 65, true, true},
	{"w8a16 33 x 256, 8 parts, residual", {WEIGHT_E4M3, 0, false, 33, 256, 8}, 129, false, true},
	{"w8a8 7 x 31", {WEIGHT_E4M3, 0, true, 7, 31, 1}, 65, false, false},
	{"w8a8 33 x 576, bias, residual", {WEIGHT_E4M3, 0, true, 33, 576, 1}, 65, true, true},
	{"w8a8 33 x 320, 2 parts, residual", {WEIGHT_E4M3, 0, true, 33, 320, 2}, 129, false, true},
	{"int4 7 x 31 in one group", {WEIGHT_INT4, 31, false, 7, 31, 1}, 65, false, false},
	{"int4 40 x 160, groups of 32, bias", {WEIGHT_INT4, 32, false, 40, 160, 1}, 65, true, false},
	{"int4 65 x 100, groups of 64", {WEIGHT_INT4, 64, false, 65, 100, 1}, 65, false, false},
	{"int4 33 x 576, groups of 128", {WEIGHT_INT4, 128, false, 33, 576, 1}, 65, false, false},
	{"int4 33 x 256, groups of 32, 8 parts", {WEIGHT_INT4, 32, false, 33, 256, 8}, 129, true, true},
	{"int4 17 x 256, groups of 128, 2 parts", {WEIGHT_INT4, 128, false, 17, 256, 2}, 65, false, true},
};

/* Numbers of tokens on both sides of every edge between tiles. */
static const int token_counts[] = {1, 2, 7, 8, 9, 16, 17, 33, 64};
enum { ROW_NAN = 50, ROW_ZERO = 3 };

/* One case's data, in host memory and on the device. */
struct linear_data {
	const struct linear_case *shape;
	matrix_data *matrix;
	std::vector<float> x, amax, bias, residual; /* [T, columns], [T], [rows], [T, rows] */
	device_array<float> *device_x, *device_amax, *device_bias, *device_residual;
	device_array<uint8_t> *workspace;
};

static void data_init(linear_data *d, const struct linear_case *c)
{
	generator g(7);
	const size_t columns = (size_t)c->matrix.columns, tokens = (size_t)c->n_tokens;

	d->shape = c;
	d->matrix = new matrix_data(c->matrix, g);
	d->x = random_values(g, tokens * columns);
	for (size_t k = 0; k < columns; k++)
		d->x[ROW_ZERO * columns + k] = 0.0f;
	for (size_t t = 0; t < tokens; t++)
		d->amax.push_back(row_amax(&d->x[t * columns], c->matrix.columns));
	d->bias = random_values(g, (size_t)c->matrix.rows);
	d->residual = random_values(g, tokens * (size_t)c->matrix.rows);
	d->device_x = new device_array<float>(d->x);
	d->device_amax = new device_array<float>(d->amax);
	d->device_bias = new device_array<float>(d->bias);
	d->device_residual = new device_array<float>(d->residual);
	d->workspace = new device_array<uint8_t>(linear_workspace(&d->matrix->weight, c->n_tokens) + 1);
}

static void data_free(linear_data *d)
{
	delete d->matrix;
	delete d->device_x;
	delete d->device_amax;
	delete d->device_bias;
	delete d->device_residual;
	delete d->workspace;
}

static struct linear_args device_args(const linear_data *d, int n_tokens)
{
	struct linear_args a = {};
	a.weight = &d->matrix->weight;
	a.x = d->device_x->data;
	a.n_tokens = n_tokens;
	a.amax = d->shape->matrix.quantize_input ? d->device_amax->data : NULL;
	a.bias = d->shape->bias ? d->device_bias->data : NULL;
	a.residual = d->shape->residual ? d->device_residual->data : NULL;
	return a;
}

static int run(const linear_data *d, const struct linear_args *a, struct error *e)
{
	TRY(linear_launch(a, d->workspace->data, 0, e));
	return device_finish("linear", e);
}

/* y of the first n_tokens rows. */
static int run_tokens(const linear_data *d, int n_tokens, std::vector<float> *y, struct error *e)
{
	device_array<float> device_y((size_t)n_tokens * (size_t)d->shape->matrix.rows);
	struct linear_args a = device_args(d, n_tokens);
	a.y = device_y.data;
	TRY(run(d, &a, e));
	*y = device_y.download();
	return 0;
}

/* |error| <= 1e-5 of the sum of the magnitudes of all that is added, on the same rounded operands, in double. */
static int check_double(const linear_data *d, const std::vector<float> &y, struct error *e)
{
	const struct linear_case *c = d->shape;
	const size_t rows = (size_t)c->matrix.rows, columns = (size_t)c->matrix.columns;
	const std::vector<float> x = operand_values(c->matrix, d->x);
	std::vector<double> w(columns);

	for (size_t row = 0; row < rows; row++) {
		for (size_t k = 0; k < columns; k++)
			w[k] = d->matrix->value(row, k);
		for (size_t t = 0; t < (size_t)c->n_tokens; t++) {
			const size_t at = t * rows + row;
			double sum = c->bias ? (double)d->bias[row] : 0.0, magnitude = fabs(sum);
			for (size_t k = 0; k < columns; k++) {
				const double product = w[k] * (double)x[t * columns + k];
				sum += product;
				magnitude += fabs(product);
			}
			if (c->residual) {
				sum += (double)d->residual[at];
				magnitude += fabs((double)d->residual[at]);
			}
			const double error = fabs((double)y[at] - sum);
			if (!(error <= 1e-5 * magnitude))
				return error_set(e, ERR_INPUT,
					"y[%zu][%zu] is %.9g, expected %.9g: off by %g, at most %g", t, row,
					(double)y[at], sum, error, 1e-5 * magnitude);
		}
	}
	return 0;
}

/* The reference on rounded x adds in the order of the CPU's mma step. */
static int check_reference(const linear_data *d, const std::vector<float> &y, struct error *e)
{
	std::vector<float> expected(y.size());
	struct weight weight = d->matrix->pack_cpu();
	struct linear_args a = {};
	a.weight = &weight;
	a.x = d->x.data();
	a.n_tokens = d->shape->n_tokens;
	a.amax = d->amax.data();
	a.bias = d->shape->bias ? d->bias.data() : NULL;
	a.residual = d->shape->residual ? d->residual.data() : NULL;
	a.y = expected.data();
	reference_product(&a);
	weight_free_cpu(&weight);
	return compare_bits(
		"against linear_ref", y.data(), expected.data(), y.size(), (size_t)d->shape->matrix.rows, e);
}

/* Parts [first, first + count) apart. */
static int run_parts(
	const linear_data *d, int n_tokens, int first, int count, std::vector<float> *parts, struct error *e)
{
	device_array<float> out((size_t)count * (size_t)n_tokens * (size_t)d->shape->matrix.rows);
	struct linear_args a = device_args(d, n_tokens);
	a.part_first = first;
	a.part_count = count;
	a.parts_out = out.data;
	TRY(run(d, &a, e));
	*parts = out.download();
	return 0;
}

/* parts_sum of all parts is the whole product, on the device and by the reference. */
static int check_tree(const linear_data *d, int n_tokens, const std::vector<float> &parts, const std::vector<float> &y,
	struct error *e)
{
	const struct linear_case *c = d->shape;
	const size_t rows = (size_t)c->matrix.rows, size = (size_t)n_tokens * rows;
	std::vector<float> sum(size);
	device_array<float> device_parts(parts), device_sum(d->residual);
	struct parts_sum_args a = {parts.data(), c->matrix.parts, n_tokens, c->matrix.rows,
		c->bias ? d->bias.data() : NULL, c->residual ? d->residual.data() : NULL, sum.data()};
	parts_sum_ref(&a);
	TRY(compare_bits("tree of the parts", sum.data(), y.data(), size, rows, e));
	a.parts = device_parts.data;
	a.bias = c->bias ? d->device_bias->data : NULL;
	a.residual = c->residual ? device_sum.data : NULL;
	a.y = device_sum.data;
	TRY(parts_sum_launch(&a, 0, e));
	TRY(device_finish("parts_sum", e));
	return compare_bits("parts_sum", device_sum.download().data(), sum.data(), size, rows, e);
}

/* All parts, for many tokens and for one; and each range of up to three parts. */
static int check_parts(const linear_data *d, int n_tokens, const std::vector<float> &y, struct error *e)
{
	const struct linear_case *c = d->shape;
	const size_t rows = (size_t)c->matrix.rows, size = (size_t)n_tokens * rows;
	std::vector<float> all, some;

	TRY(run_parts(d, n_tokens, 0, c->matrix.parts, &all, e));
	TRY(check_tree(d, n_tokens, all, y, e));
	for (int first = 0; n_tokens == 1 && first < c->matrix.parts; first++) {
		const int count = c->matrix.parts - first < 3 ? c->matrix.parts - first : 3;
		TRY(run_parts(d, n_tokens, first, count, &some, e));
		TRY(compare_bits("a range of parts", some.data(), &all[(size_t)first * size], some.size(), rows, e));
	}
	return 0;
}

/* residual may be y. */
static int check_in_place(const linear_data *d, const std::vector<float> &y, struct error *e)
{
	device_array<float> in_place(d->residual);
	struct linear_args a = device_args(d, d->shape->n_tokens);
	a.residual = a.y = in_place.data;
	TRY(run(d, &a, e));
	return compare_bits(
		"residual in place", in_place.download().data(), y.data(), y.size(), (size_t)d->shape->matrix.rows, e);
}

/* A NaN in one token's input spoils its row, all of it, and no other. */
static int check_nan(const linear_data *d, const std::vector<float> &y, struct error *e)
{
	const size_t rows = (size_t)d->shape->matrix.rows, columns = (size_t)d->shape->matrix.columns;
	std::vector<float> x = d->x, amax = d->amax, expected = y;
	x[ROW_NAN * columns + columns / 2] = amax[ROW_NAN] = NAN;
	device_array<float> device_x(x), device_amax(amax), device_y(y.size());
	struct linear_args a = device_args(d, d->shape->n_tokens);
	a.x = device_x.data;
	a.amax = a.amax ? device_amax.data : NULL;
	a.y = device_y.data;
	TRY(run(d, &a, e));
	std::vector<float> spoilt = device_y.download();
	for (size_t row = 0; row < rows; row++) {
		if (!isnan(spoilt[ROW_NAN * rows + row]))
			return error_set(
				e, ERR_INPUT, "NaN in x[%d] is lost in y[%d][%zu]", (int)ROW_NAN, (int)ROW_NAN, row);
		spoilt[ROW_NAN * rows + row] = expected[ROW_NAN * rows + row] = 0.0f;
	}
	return compare_bits("beside a row of NaN", spoilt.data(), expected.data(), y.size(), rows, e);
}

static int check_all(const linear_data *d, bool exact, struct error *e)
{
	std::vector<float> y, prefix;
	TRY(run_tokens(d, d->shape->n_tokens, &y, e));
	TRY(check_double(d, y, e));
	if (exact && !d->shape->matrix.quantize_input) /* where sums are promoted the order is another */
		TRY(check_reference(d, y, e));
	for (int n_tokens : token_counts) {
		const std::string what = "rows of M = " + std::to_string(n_tokens);
		TRY(run_tokens(d, n_tokens, &prefix, e));
		TRY(compare_bits(
			what.c_str(), prefix.data(), y.data(), prefix.size(), (size_t)d->shape->matrix.rows, e));
	}
	TRY(check_nan(d, y, e));
	if (d->shape->residual)
		TRY(check_in_place(d, y, e));
	if (d->shape->matrix.parts > 1) {
		TRY(check_parts(d, d->shape->n_tokens, y, e));
		TRY(check_parts(d, 1, y, e));
	}
	return 0;
}

/* What the kernels do not take is refused before they run, and no tokens are no work. */
static int check_refused(struct error *e)
{
	const struct weight refused[] = {
		{WEIGHT_BF16, 8, 64, 0, 4, false, NULL, NULL, 0}, {WEIGHT_BF16, 8, 96, 0, 3, false, NULL, NULL, 0},
		{WEIGHT_BF16, 8, 64, 0, 1, true, NULL, NULL, 0}, {WEIGHT_INT4, 8, 64, 48, 1, false, NULL, NULL, 0},
		{WEIGHT_INT4, 8, 128, 128, 2, false, NULL, NULL, 0},
		{WEIGHT_E4M3, 8, 64, 0, 1, true, NULL, NULL, 0}, /* without amax */
	};
	for (const struct weight &weight : refused) {
		struct error expected;
		struct linear_args a = {};
		a.weight = &weight;
		a.n_tokens = 1;
		if (linear_launch(&a, NULL, 0, &expected) != ERR_INPUT)
			return error_set(e, ERR_INPUT, "%d columns in %d parts, group %d, were not refused",
				weight.columns, weight.parts, weight.group);
	}
	const struct weight weight = {WEIGHT_BF16, 8, 64, 0, 1, false, NULL, NULL, 0};
	struct linear_args a = {};
	a.weight = &weight;
	return linear_launch(&a, NULL, 0, e);
}

/* What the packing refuses. */
static int check_pack_refused(struct error *e)
{
	static const uint8_t int4[64] = {8, 16}, e4m3[64] = {1, 0xff};
	const struct {
		struct host_matrix matrix;
		int parts;
	} refused[] = {
		{{WEIGHT_INT4, 1, 64, 48, e4m3, NULL, NULL, NULL}, 1},
		{{WEIGHT_INT4, 1, 64, 0, e4m3, NULL, NULL, NULL}, 1},
		{{WEIGHT_INT4, 1, 64, 64, int4, NULL, NULL, NULL}, 1},
		{{WEIGHT_INT4, 1, 64, 64, e4m3 + 2, NULL, NULL, NULL}, 2},
		{{WEIGHT_E4M3, 1, 64, 0, e4m3, NULL, NULL, NULL}, 1},
		{{WEIGHT_BF16, 1, 32, 0, e4m3, NULL, NULL, NULL}, 2},
	};
	for (const auto &r : refused) {
		struct error expected;
		struct weight_sizes sizes;
		if (weight_pack_sizes(&r.matrix, r.parts, &sizes, &expected) != ERR_INPUT)
			return error_set(e, ERR_INPUT, "%s, group %d, %d parts: packed, a refusal expected",
				weight_format_name(r.matrix.format), r.matrix.group, r.parts);
	}
	return 0;
}

static const char *case_name(int i)
{
	return cases[i].name;
}

static int case_run(int i, bool exact, struct error *e)
{
	linear_data d;
	data_init(&d, &cases[i]);
	int status = check_all(&d, exact, e);
	data_free(&d);
	if (status == 0 && i == 0)
		status = check_refused(e);
	return status < 0 || i > 0 ? status : check_pack_refused(e);
}

extern "C" const struct cuda_case_group linear_cases = {
	"linear", sizeof(cases) / sizeof(cases[0]), case_name, case_run};
