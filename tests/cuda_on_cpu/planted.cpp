/* The matrix products with one fault each: would the cases notice? Operands with a wrong stride, and kernels without a
 * barrier or a wait. */
#include "cuda/device_math.cuh"
#include "cuda/kernels.cuh"
#include "cuda/launch.cuh"
#include "cuda/linear.cuh"
#include "tests/cuda_cases/matrix_data.cuh"
#include "tests/cuda_on_cpu/cuda_on_cpu.h"

namespace without_barrier
{
static inline void __syncthreads()
{
}
#include "cuda/linear_bf16.cu"
} // namespace without_barrier

#undef ASSAY_CUDA_LINEAR_TILE_CUH
#undef ASSAY_CUDA_LINEAR_MMA_CUH
namespace wait_too_short
{
template <int PENDING> static inline void copy_wait()
{
	::copy_wait<PENDING + 1>();
}
#include "cuda/linear_bf16.cu"
} // namespace wait_too_short

enum { TOKENS = 20, MATRICES = 2, SLACK = 2 /* of every buffer: a wrong stride stays inside */ };

typedef int bf16_launcher(const linear_operands *p, bool direct, cudaStream_t stream, struct error *e);

/* Two matrices, and rows for both. */
struct planted_data {
	generator g;
	matrix_data first, second;
	std::vector<float> x;
	device_array<float> device_x;
	device_array<uint8_t> rows;
	device_array<int32_t> row_first;

	explicit planted_data(const matrix_shape &s)
	    : g(5), first(s, g), second(s, g), x(random_values(g, (size_t)(SLACK * MATRICES * TOKENS * s.columns))),
	      device_x(x), rows(SLACK * input_rows_bytes(INPUT_BF16, MATRICES * TOKENS, s.columns)),
	      row_first(std::vector<int32_t>{0, 3, MATRICES * TOKENS, MATRICES * TOKENS})
	{
	}
};

struct planted {
	const char *name;
	bool wrong; /* else sound */
	bool direct;
	void (*plant)(linear_operands *p);
	void (*plant_rows)(input_rows *in);
	bf16_launcher *kernel;
};

static int planted_rows(planted_data *d, const struct planted *c, struct error *e)
{
	input_rows in = {};
	in.x = d->device_x.data;
	in.row_stride = (size_t)d->first.shape.columns;
	in.group_stride = (size_t)TOKENS * in.row_stride;
	in.rows_per_group = TOKENS;
	in.n_rows = MATRICES * TOKENS;
	in.columns = d->first.shape.columns;
	if (c->plant_rows)
		c->plant_rows(&in);
	return input_rows_launch(&in, INPUT_BF16, d->rows.data, 0, e);
}

/* Direct: 3 rows for each matrix as they are in memory. Else 3 and 37 of the rows that are made. */
static int planted_launch(planted_data *d, const struct planted *c, std::vector<float> *y, struct error *e)
{
	const struct weight weights[MATRICES] = {d->first.weight, d->second.weight};
	device_array<float> device_y(SLACK * (size_t)(MATRICES * TOKENS * weights[0].rows));
	linear_operands p;

	TRY(linear_operands_init(&p, weights, MATRICES, c->direct ? 3 : MATRICES * TOKENS, e));
	p.x = d->rows.data;
	p.y = device_y.data;
	p.row_first = d->row_first.data;
	if (c->direct) {
		p.x = d->device_x.data;
		p.x_stride = weights[0].columns;
		p.y_matrix_stride = (size_t)TOKENS * p.y_stride;
		p.row_first = NULL;
	} else {
		TRY(planted_rows(d, c, e));
	}
	if (c->plant)
		c->plant(&p);
	TRY(c->kernel ? c->kernel(&p, c->direct, 0, e) : linear_operands_launch(&p, weights, c->direct, 0, e));
	TRY(device_finish("planted", e));
	*y = device_y.download();
	return 0;
}

static const struct planted planted[] = {
	{"the rows of x, direct", false, true, NULL, NULL, NULL},
	{"the rows of x", false, false, NULL, NULL, NULL},
	{"the kernel by itself", false, true, NULL, NULL, linear_bf16_launch},
	{"no barrier, small tiles", true, true, NULL, NULL, without_barrier::linear_bf16_launch},
	{"no barrier, medium tiles", true, false, NULL, NULL, without_barrier::linear_bf16_launch},
	{"a wait for one copy less, small tiles", true, true, NULL, NULL, wait_too_short::linear_bf16_launch},
	{"a wait for one copy less, medium tiles", true, false, NULL, NULL, wait_too_short::linear_bf16_launch},
	{"tiles of a row", true, false, [](linear_operands *p) { p->n_tiles--; }, NULL, NULL},
	{"panels of a matrix", true, false, [](linear_operands *p) { p->n_panels--; }, NULL, NULL},
	{"rows of a matrix", true, false, [](linear_operands *p) { p->rows--; }, NULL, NULL},
	{"groups of a row", true, false, [](linear_operands *p) { p->n_groups--; }, NULL, NULL},
	{"tiles of a group", true, false, [](linear_operands *p) { p->tiles_per_block++; }, NULL, NULL},
	{"tiles of a part", true, false, [](linear_operands *p) { p->tiles_per_part--; }, NULL, NULL},
	{"number of parts", true, false, [](linear_operands *p) { p->n_parts--; }, NULL, NULL},
	{"first tile", true, false, [](linear_operands *p) { p->first_tile = --p->n_parts; }, NULL, NULL},
	{"row of y, longer", true, false, [](linear_operands *p) { p->y_stride++; }, NULL, NULL},
	{"row of y, shorter", true, false, [](linear_operands *p) { p->y_stride--; }, NULL, NULL},
	{"matrix of y", true, true, [](linear_operands *p) { p->y_matrix_stride++; }, NULL, NULL},
	{"first rows of x", true, false, [](linear_operands *p) { p->row_first++; }, NULL, NULL},
	{"tokens of a matrix", true, true, [](linear_operands *p) { p->n_tokens--; }, NULL, NULL},
	{"row of x, direct", true, true, [](linear_operands *p) { p->x_stride -= 4; }, NULL, NULL},
	{"row of x", true, false, NULL, [](input_rows *in) { in->row_stride++; }, NULL},
	{"group of rows of x", true, false, NULL, [](input_rows *in) { in->group_stride--; }, NULL},
	{"rows of a group of x", true, false, NULL, [](input_rows *in) { in->rows_per_group++; }, NULL},
	{"columns of x", true, false, NULL, [](input_rows *in) { in->columns -= WEIGHT_K_TILE; }, NULL},
};

static const char *planted_name(int i)
{
	return planted[i].name;
}

static bool planted_wrong(int i)
{
	return planted[i].wrong;
}

static int planted_run(int i, struct error *e)
{
	static const struct matrix_shape int4 = {WEIGHT_INT4, 64, false, 40, 256, 2},
					 bf16 = {WEIGHT_BF16, 0, false, 40, 256, 2};
	const struct planted *c = &planted[i], sound = {"sound", false, c->direct, NULL, NULL, NULL};
	planted_data d(c->direct || c->kernel ? bf16 : int4);
	std::vector<float> expected, y;

	TRY(planted_launch(&d, &sound, &expected, e));
	TRY(planted_launch(&d, c, &y, e));
	return compare_bits("planted", y.data(), expected.data(), y.size(), (size_t)bf16.rows, e);
}

extern "C" const struct planted_faults planted_faults = {
	sizeof(planted) / sizeof(planted[0]), planted_name, planted_wrong, planted_run};
