#include <math.h>
#include <string>

#include "cuda/kernels.cuh"
#include "cuda/weight_layout.h"
#include "engine/base/number.h"
#include "tests/cuda_cases/case_support.cuh"

extern "C" {
#include "engine/cpu/pack.h"
#include "engine/cpu/ref.h"
}

static const struct linear_case {
	const char *name;
	int rows, columns, parts;
	bool bias, residual;
} cases[] = {
	{"1 x 4", 1, 4, 1, false, false},
	{"3 x 100, bias", 3, 100, 1, true, false},
	{"40 x 64, residual", 40, 64, 1, false, true},
	{"64 x 40, bias, residual", 64, 40, 1, true, true},
	{"96 x 96", 96, 96, 1, false, false},
	{"140 x 576, bias", 140, 576, 1, true, false},
	{"576 x 64, 2 parts, residual", 576, 64, 2, false, true},
	{"33 x 192, 2 parts", 33, 192, 2, false, false},
	{"130 x 256, 8 parts, bias, residual", 130, 256, 8, true, true},
	{"129 x 128, 4 parts", 129, 128, 4, false, false},
	{"40 x 1536, 8 parts, residual", 40, 1536, 8, false, true},
	{"1536 x 96", 1536, 96, 1, false, false},
};

/* Numbers of tokens on both sides of every edge between tiles. */
static const int token_counts[] = {1, 16, 17, 64, 65, 128, 129};
enum { TOKENS = 130, ROW_NAN = 70 };

/* One case's data, in host memory and on the device. */
struct linear_data {
	const struct linear_case *shape;
	std::vector<float> x, bias, residual; /* [TOKENS, columns], [rows], [TOKENS, rows] */
	std::vector<uint16_t> w;              /* [rows, columns] bf16 */
	struct weight weight;
	device_array<uint16_t> *device_w;
	device_array<float> *device_x, *device_bias, *device_residual;
};

static std::vector<uint16_t> pack_rows(const struct linear_case *c, const std::vector<uint16_t> &w)
{
	const size_t stride = (size_t)weight_stride_bf16(c->columns), columns = (size_t)c->columns;
	std::vector<uint16_t> packed((size_t)c->rows * stride, 0);
	for (size_t row = 0; row < (size_t)c->rows; row++)
		for (size_t k = 0; k < columns; k++)
			packed[row * stride + k] = w[row * columns + k];
	return packed;
}

static void data_init(linear_data *d, const struct linear_case *c)
{
	generator g(7);
	d->shape = c;
	d->x = random_values(g, (size_t)TOKENS * (size_t)c->columns);
	d->bias = random_values(g, (size_t)c->rows);
	d->residual = random_values(g, (size_t)TOKENS * (size_t)c->rows);
	d->w.resize((size_t)c->rows * (size_t)c->columns);
	for (uint16_t &code : d->w)
		code = float_to_bf16((float)(int32_t)(uint32_t)g() * 0x1p-31f);
	d->device_w = new device_array<uint16_t>(pack_rows(c, d->w));
	d->device_x = new device_array<float>(d->x);
	d->device_bias = new device_array<float>(d->bias);
	d->device_residual = new device_array<float>(d->residual);
	d->weight = {};
	d->weight.format = WEIGHT_BF16;
	d->weight.rows = c->rows;
	d->weight.columns = c->columns;
	d->weight.parts = c->parts;
	d->weight.data = d->device_w->data;
}

static void data_free(linear_data *d)
{
	delete d->device_w;
	delete d->device_x;
	delete d->device_bias;
	delete d->device_residual;
}

static struct linear_args device_args(const linear_data *d, int n_tokens)
{
	struct linear_args a = {};
	a.weight = &d->weight;
	a.x = d->device_x->data;
	a.n_tokens = n_tokens;
	a.bias = d->shape->bias ? d->device_bias->data : NULL;
	a.residual = d->shape->residual ? d->device_residual->data : NULL;
	return a;
}

/* y of the first n_tokens rows. */
static int run_tokens(const linear_data *d, int n_tokens, std::vector<float> *y, struct error *e)
{
	device_array<float> device_y((size_t)n_tokens * (size_t)d->shape->rows);
	struct linear_args a = device_args(d, n_tokens);
	a.y = device_y.data;
	TRY(linear_bf16_launch(&a, 0, e));
	TRY(device_finish("linear_bf16", e));
	*y = device_y.download();
	return 0;
}

/* |error| <= 1e-5 of the sum of the magnitudes of all that is added, on the same rounded operands, in double. */
static int check_double(const linear_data *d, const std::vector<float> &y, struct error *e)
{
	const struct linear_case *c = d->shape;
	const size_t rows = (size_t)c->rows, columns = (size_t)c->columns;
	for (size_t t = 0; t < TOKENS; t++) {
		for (size_t row = 0; row < rows; row++) {
			double sum = 0.0, magnitude = 0.0;
			for (size_t k = 0; k < columns; k++) {
				const double product = (double)bf16_to_float(d->w[row * columns + k]) *
					(double)bf16_to_float(float_to_bf16(d->x[t * columns + k]));
				sum += product;
				magnitude += fabs(product);
			}
			const double more[] = {c->bias ? (double)d->bias[row] : 0.0,
				c->residual ? (double)d->residual[t * rows + row] : 0.0};
			sum += more[0] + more[1];
			magnitude += fabs(more[0]) + fabs(more[1]);
			const double error = fabs((double)y[t * rows + row] - sum);
			if (!(error <= 1e-5 * magnitude))
				return error_set(e, ERR_INPUT,
					"y[%zu][%zu] is %.9g, expected %.9g: off by %g, at most %g", t, row,
					(double)y[t * rows + row], sum, error, 1e-5 * magnitude);
		}
	}
	return 0;
}

/* The reference on rounded x adds in the order of the CPU's mma step. */
static int check_reference(const linear_data *d, const std::vector<float> &y, struct error *e)
{
	const struct linear_case *c = d->shape;
	std::vector<float> rounded(d->x.size()), expected(y.size());
	for (size_t i = 0; i < rounded.size(); i++)
		rounded[i] = bf16_to_float(float_to_bf16(d->x[i]));
	struct host_matrix matrix = {};
	matrix.format = WEIGHT_BF16;
	matrix.rows = c->rows;
	matrix.columns = c->columns;
	matrix.data = d->w.data();
	struct weight weight;
	TRY(weight_pack_cpu(&matrix, c->parts, &weight, e));
	struct linear_args a = {};
	a.weight = &weight;
	a.x = rounded.data();
	a.n_tokens = TOKENS;
	a.bias = c->bias ? d->bias.data() : NULL;
	a.residual = c->residual ? d->residual.data() : NULL;
	a.y = expected.data();
	linear_ref(&a);
	weight_free_cpu(&weight);
	return compare_bits("against linear_ref", y.data(), expected.data(), y.size(), (size_t)c->rows, e);
}

/* Parts [first, first + count) apart. Rows of the buffer that are not written stay NaN. */
static int run_parts(
	const linear_data *d, int n_tokens, int first, int count, std::vector<float> *parts, struct error *e)
{
	device_array<float> out((size_t)count * (size_t)n_tokens * (size_t)d->shape->rows);
	struct linear_args a = device_args(d, n_tokens);
	a.bias = a.residual = NULL;
	a.part_first = first;
	a.part_count = count;
	a.parts_out = out.data;
	TRY(linear_bf16_launch(&a, 0, e));
	TRY(device_finish("linear_bf16 in parts", e));
	*parts = out.download();
	return 0;
}

/* All parts, for many tokens and for one; and each range of up to three parts. */
static int check_parts(const linear_data *d, int n_tokens, const std::vector<float> &y, struct error *e)
{
	const struct linear_case *c = d->shape;
	const size_t rows = (size_t)c->rows, size = (size_t)n_tokens * rows;
	std::vector<float> all, some, sum(size);

	TRY(run_parts(d, n_tokens, 0, c->parts, &all, e));
	struct parts_sum_args a = {all.data(), c->parts, n_tokens, c->rows, c->bias ? d->bias.data() : NULL,
		c->residual ? d->residual.data() : NULL, sum.data()};
	parts_sum_ref(&a);
	TRY(compare_bits("tree of the parts", sum.data(), y.data(), size, rows, e));
	for (int first = 0; n_tokens == 1 && first < c->parts; first++) {
		const int count = c->parts - first < 3 ? c->parts - first : 3;
		TRY(run_parts(d, n_tokens, first, count, &some, e));
		TRY(compare_bits("a range of parts", some.data(), &all[(size_t)first * size], some.size(), rows, e));
	}
	return 0;
}

/* residual may be y. */
static int check_in_place(const linear_data *d, const std::vector<float> &y, struct error *e)
{
	device_array<float> in_place(d->residual);
	struct linear_args a = device_args(d, TOKENS);
	a.residual = a.y = in_place.data;
	TRY(linear_bf16_launch(&a, 0, e));
	TRY(device_finish("linear_bf16 in place", e));
	return compare_bits(
		"residual in place", in_place.download().data(), y.data(), y.size(), (size_t)d->shape->rows, e);
}

/* A NaN in one token's input spoils its row, all of it, and no other. */
static int check_nan(const linear_data *d, const std::vector<float> &y, struct error *e)
{
	const size_t rows = (size_t)d->shape->rows, columns = (size_t)d->shape->columns;
	std::vector<float> x = d->x, expected = y;
	x[ROW_NAN * columns + columns / 2] = NAN;
	device_array<float> device_x(x), device_y(y.size());
	struct linear_args a = device_args(d, TOKENS);
	a.x = device_x.data;
	a.y = device_y.data;
	TRY(linear_bf16_launch(&a, 0, e));
	TRY(device_finish("linear_bf16 with NaN", e));
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
	TRY(run_tokens(d, TOKENS, &y, e));
	TRY(check_double(d, y, e));
	if (exact)
		TRY(check_reference(d, y, e));
	for (int n_tokens : token_counts) {
		const std::string what = "rows of M = " + std::to_string(n_tokens);
		TRY(run_tokens(d, n_tokens, &prefix, e));
		TRY(compare_bits(what.c_str(), prefix.data(), y.data(), prefix.size(), (size_t)d->shape->rows, e));
	}
	TRY(check_nan(d, y, e));
	if (d->shape->residual)
		TRY(check_in_place(d, y, e));
	if (d->shape->parts > 1) {
		TRY(check_parts(d, TOKENS, y, e));
		TRY(check_parts(d, 1, y, e));
	}
	return 0;
}

/* What the kernel does not take is refused before it runs. */
static int check_refused(struct error *e)
{
	const struct weight refused[] = {
		{WEIGHT_BF16, 8, 30, 0, 1, false, NULL, NULL, 0},
		{WEIGHT_BF16, 8, 64, 0, 4, false, NULL, NULL, 0},
		{WEIGHT_E4M3, 8, 64, 0, 1, false, NULL, NULL, 0},
	};
	for (const struct weight &weight : refused) {
		struct error expected;
		struct linear_args a = {};
		a.weight = &weight;
		a.n_tokens = 1;
		if (linear_bf16_launch(&a, 0, &expected) != ERR_INPUT)
			return error_set(
				e, ERR_INPUT, "%d columns in %d parts were not refused", weight.columns, weight.parts);
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
	const int status = check_all(&d, exact, e);
	data_free(&d);
	return status < 0 ? status : check_refused(e);
}

extern "C" const struct cuda_case_group linear_cases = {
	"linear_bf16", sizeof(cases) / sizeof(cases[0]), case_name, case_run};
