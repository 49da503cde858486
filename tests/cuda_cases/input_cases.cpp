/* The rows of x as the matrix products read them, against the CPU's rounding. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "cuda/linear.cuh"
#include "engine/base/number.h"
#include "tests/cuda_cases/case_support.cuh"

extern "C" {
#include "engine/base/quant.h"
}

static const struct input_case {
	const char *name;
	enum input_format format;
	int columns;
} cases[] = {
	{"f32, 37 columns", INPUT_F32, 37}, {"bf16, 1 column", INPUT_BF16, 1}, {"bf16, 99 columns", INPUT_BF16, 99},
	{"e4m3, 31 columns", INPUT_E4M3, 31}, {"e4m3, 2081 columns", INPUT_E4M3, 2081}, /* two blocks of lanes */
};

enum { ROWS = 8, ROW_ZERO = 1, ROW_TINY, ROW_LARGE, ROW_NAN, ROW_INFINITE, ROW_TIES };

static std::vector<float> make_rows(size_t columns)
{
	generator g(3);
	std::vector<float> x = random_values(g, ROWS * columns);

	for (size_t k = 0; k < columns; k++) {
		x[ROW_ZERO * columns + k] = k % 2 ? -0.0f : 0.0f;
		x[ROW_TINY * columns + k] *= FLT_TRUE_MIN * 1000.0f;
		x[ROW_LARGE * columns + k] *= FLT_MAX;
		x[ROW_TIES * columns + k] = (float)(k % 60) * 0.5f + 8.0f; /* of e4m3, once the last is 448 */
	}
	x[ROW_NAN * columns + columns / 2] = -NAN;
	x[ROW_INFINITE * columns + columns / 2] = -INFINITY;
	x[(ROW_TIES + 1) * columns - 1] = 448.0f;
	return x;
}

/* What stands at value k of a row of a tile, and whether the two may be taken for the same. */
static bool same_value(enum input_format format, const uint8_t *out, int k, float x, float scale)
{
	const int at = format == INPUT_F32 ? k : WEIGHT_LANE_ORDER(k);
	uint16_t rounded;

	if (format == INPUT_F32)
		return memcmp(out + at * 4, &x, sizeof(x)) == 0;
	if (format == INPUT_BF16) {
		memcpy(&rounded, out + at * 2, sizeof(rounded));
		return rounded == float_to_bf16(x) || (isnan(x) && isnan(bf16_to_float(rounded)));
	}
	const uint8_t expected = float_to_e4m3(x / scale);
	return out[at] == expected || ((expected & 0x7f) == 0x7f && (out[at] & 0x7f) == 0x7f);
}

static int check_row(const struct input_case *c, const std::vector<float> &x, size_t row,
	const std::vector<uint8_t> &out, float amax, struct error *e)
{
	const size_t columns = (size_t)c->columns, bytes = out.size() / ROWS,
		     tile = bytes / (size_t)weight_tiles(c->columns);
	const float most = row_amax(&x[row * columns], c->columns), scale = e4m3_scale(most);

	if (c->format == INPUT_E4M3 && !(amax == most || (isnan(amax) && isnan(most))))
		return error_set(e, ERR_INPUT, "amax of row %zu is %a, expected %a", row, (double)amax, (double)most);
	for (size_t k = 0; k < (size_t)weight_tiles(c->columns) * WEIGHT_K_TILE; k++) {
		const float value = k < columns ? x[row * columns + k] : 0.0f;
		if (!same_value(c->format, &out[row * bytes + k / WEIGHT_K_TILE * tile], (int)(k % WEIGHT_K_TILE),
			    value, k < columns ? scale : 1.0f))
			return error_set(e, ERR_INPUT, "[%zu][%zu] is not the rounding of %a", row, k, (double)value);
	}
	return 0;
}

static const char *case_name(int i)
{
	return cases[i].name;
}

static int case_run(int i, bool exact, struct error *e)
{
	(void)exact; /* nothing is added */
	const struct input_case *c = &cases[i];
	const std::vector<float> x = make_rows((size_t)c->columns);
	const device_array<float> device_x(x);
	device_array<float> device_amax(ROWS);
	device_array<uint8_t> out(input_rows_bytes(c->format, ROWS, c->columns));
	struct input_rows in = {};

	in.x = device_x.data;
	in.row_stride = (size_t)c->columns;
	in.rows_per_group = in.n_rows = ROWS;
	in.columns = c->columns;
	in.amax = device_amax.data;
	in.find_amax = true;
	TRY(input_rows_launch(&in, c->format, out.data, 0, e));
	TRY(device_finish("input rows", e));
	const std::vector<uint8_t> bytes = out.download();
	const std::vector<float> amax = device_amax.download();
	for (size_t row = 0; row < ROWS; row++)
		TRY(check_row(c, x, row, bytes, amax[row], e));
	return 0;
}

extern "C" const struct cuda_case_group input_cases = {
	"input of products", sizeof(cases) / sizeof(cases[0]), case_name, case_run};
