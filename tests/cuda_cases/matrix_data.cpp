#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "tests/cuda_cases/matrix_data.cuh"

extern "C" {
#include "cuda/weight_layout.h"
#include "cuda/weight_pack.h"
#include "engine/base/quant.h"
#include "engine/cpu/pack.h"
#include "engine/cpu/ref.h"
}

static size_t value_size(enum weight_format format)
{
	return format == WEIGHT_F32 ? 4 : format == WEIGHT_BF16 ? 2 : 1;
}

static void random_value(enum weight_format format, generator &g, uint8_t *out)
{
	const float value = (float)(int32_t)(uint32_t)g() * 0x1p-31f;
	const uint16_t rounded = float_to_bf16(value);

	if (format == WEIGHT_F32)
		memcpy(out, &value, sizeof(value));
	else if (format == WEIGHT_BF16)
		memcpy(out, &rounded, sizeof(rounded));
	else if (format == WEIGHT_INT4)
		*out = (uint8_t)(g() % 16);
	else {
		*out = (uint8_t)g(); /* every code, subnormals too, but NaN */
		if ((*out & 0x7f) == 0x7f)
			*out ^= 1;
	}
}

static void packed_or_exit(int status, const struct error *e)
{
	if (status == 0)
		return;
	fprintf(stderr, "packing: %s\n", e->message);
	exit(1);
}

matrix_data::matrix_data(const matrix_shape &s, generator &g) : shape(s), weight()
{
	const size_t size = value_size(s.format), rows = (size_t)s.rows, count = rows * (size_t)s.columns;

	bytes.resize(count * size);
	for (size_t i = 0; i < count; i++)
		random_value(s.format, g, &bytes[i * size]);
	for (size_t row = 0; s.format == WEIGHT_E4M3 && row < rows; row++)
		scales.push_back(0.01f + (float)(g() % 1000) * 0x1p-10f);
	if (s.format == WEIGHT_INT4)
		group_scales.resize(rows * (size_t)weight_groups(s.columns, s.group));
	for (uint16_t &scale : group_scales) /* one in eight is zero */
		scale = g() % 8 == 0 ? 0 : float_to_bf16(0.01f + (float)(g() % 1000) * 0x1p-10f);

	const struct host_matrix m = host();
	struct weight_sizes sizes;
	struct error e;
	packed_or_exit(weight_pack_sizes(&m, s.parts, &sizes, &e), &e);
	std::vector<uint8_t> packed(sizes.data, 0xff), packed_scales(sizes.scales, 0xff);
	weight_pack_write(&m, packed.data(), packed_scales.data());
	data = new device_array<uint8_t>(packed);
	device_scales = sizes.scales ? new device_array<uint8_t>(packed_scales) : NULL;
	weight.format = s.format;
	weight.rows = s.rows;
	weight.columns = s.columns;
	weight.group = s.group;
	weight.parts = s.parts;
	weight.quantize_input = s.quantize_input;
	weight.data = data->data;
	weight.scales = device_scales ? device_scales->data : NULL;
}

matrix_data::~matrix_data()
{
	delete data;
	delete device_scales;
}

struct host_matrix matrix_data::host() const
{
	struct host_matrix m = {};
	m.format = shape.format;
	m.rows = shape.rows;
	m.columns = shape.columns;
	m.group = shape.group;
	m.data = bytes.data();
	m.scales = scales.data();
	m.group_scales = group_scales.data();
	return m;
}

struct weight matrix_data::pack_cpu() const
{
	const struct host_matrix m = host();
	struct weight cpu;
	struct error e;
	packed_or_exit(weight_pack_cpu(&m, shape.parts, nullptr, &cpu, &e), &e);
	cpu.quantize_input = shape.quantize_input;
	return cpu;
}

double matrix_data::value(size_t row, size_t column) const
{
	const size_t at = row * (size_t)shape.columns + column;
	float number;
	uint16_t code;

	switch (shape.format) {
	case WEIGHT_F32:
		memcpy(&number, &bytes[at * sizeof(number)], sizeof(number));
		return (double)number;
	case WEIGHT_BF16:
		memcpy(&code, &bytes[at * sizeof(code)], sizeof(code));
		return (double)bf16_to_float(code);
	case WEIGHT_E4M3:
		return (double)e4m3_to_float(bytes[at]) * (double)scales[row];
	case WEIGHT_INT4: {
		const size_t groups = (size_t)weight_groups(shape.columns, shape.group);
		const uint16_t scale = group_scales[row * groups + column / (size_t)shape.group];
		return (double)(bytes[at] - 8) * (double)bf16_to_float(scale);
	}
	}
	return NAN;
}

std::vector<float> operand_values(const matrix_shape &s, const std::vector<float> &x)
{
	const size_t columns = (size_t)s.columns;
	std::vector<float> values(x);

	for (size_t start = 0; s.quantize_input && start < x.size(); start += columns) {
		const float scale = e4m3_scale(row_amax(&x[start], s.columns));
		for (size_t k = start; k < start + columns; k++)
			values[k] = e4m3_to_float(float_to_e4m3(x[k] / scale)) * scale;
	}
	for (size_t i = 0; !s.quantize_input && s.format != WEIGHT_F32 && i < x.size(); i++)
		values[i] = bf16_to_float(float_to_bf16(x[i]));
	return values;
}

void reference_product(const struct linear_args *a)
{
	const struct weight *w = a->weight;
	const size_t count = (size_t)a->n_tokens * (size_t)w->columns;
	const matrix_shape shape = {w->format, w->group, false, w->rows, w->columns, w->parts};
	const std::vector<float> x(a->x, a->x + count), rounded = w->quantize_input ? x : operand_values(shape, x);
	struct linear_args own = *a;

	own.x = rounded.data();
	linear_ref(&own);
}

int compare_products(const char *what, const std::vector<float> &y, const std::vector<float> &expected, size_t row,
	bool exact, struct error *e)
{
	if (exact)
		return compare_bits(what, y.data(), expected.data(), y.size(), row, e);
	return compare_nmse(what, y.data(), expected.data(), y.size(), 1e-8, e);
}
