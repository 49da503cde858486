#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "tests/cuda_cases/case_support.cuh"

void device_require(cudaError_t status, const char *what)
{
	if (status == cudaSuccess)
		return;
	fprintf(stderr, "%s: CUDA error %d: %s\n", what, (int)status, cudaGetErrorString(status));
	exit(1);
}

int device_finish(const char *what, struct error *e)
{
	const cudaError_t status = cudaDeviceSynchronize();
	if (status == cudaSuccess)
		return 0;
	return error_set(e, ERR_DEVICE, "%s: CUDA error %d: %s", what, (int)status, cudaGetErrorString(status));
}

std::vector<float> random_values(generator &g, size_t n)
{
	std::vector<float> values(n);
	for (float &value : values)
		value = (float)(int32_t)(uint32_t)g() * 0x1p-31f;
	return values;
}

int compare_bits(const char *what, const float *values, const float *expected, size_t n, size_t row, struct error *e)
{
	for (size_t i = 0; i < n; i++)
		if (memcmp(&values[i], &expected[i], sizeof(float)) != 0)
			return error_set(e, ERR_INPUT, "%s: [%zu][%zu] is %a (%.9g), expected the bits of %a (%.9g)",
				what, i / row, i % row, (double)values[i], (double)values[i], (double)expected[i],
				(double)expected[i]);
	return 0;
}

static float stored_value(enum kv_format format, const void *values, size_t i)
{
	switch (format) {
	case KV_F32:
		return static_cast<const float *>(values)[i];
	case KV_BF16:
		return bf16_to_float(static_cast<const uint16_t *>(values)[i]);
	case KV_E4M3:
		break;
	}
	return e4m3_to_float(static_cast<const uint8_t *>(values)[i]);
}

int compare_stored(
	const char *what, enum kv_format format, const void *values, const void *expected, size_t n, struct error *e)
{
	for (size_t i = 0; i < n; i++) {
		const float value = stored_value(format, values, i), other = stored_value(format, expected, i);
		if (float_bits(value) != float_bits(other) && !(isnan(value) && isnan(other)))
			return error_set(e, ERR_INPUT, "%s: [%zu] is %a (%.9g), expected %a (%.9g)", what, i,
				(double)value, (double)value, (double)other, (double)other);
	}
	return 0;
}

int compare_nmse(const char *what, const float *values, const float *expected, size_t n, double most, struct error *e)
{
	double error = 0.0, power = 0.0;
	for (size_t i = 0; i < n; i++) {
		if (!isfinite(values[i]) || !isfinite(expected[i]))
			return error_set(e, ERR_INPUT, "%s: [%zu] is %g, expected %g", what, i, (double)values[i],
				(double)expected[i]);
		const double difference = (double)values[i] - (double)expected[i];
		error += difference * difference;
		power += (double)expected[i] * (double)expected[i];
	}
	if (error <= most * power)
		return 0;
	return error_set(
		e, ERR_INPUT, "%s: normalised mean squared error %g, at most %g expected", what, error / power, most);
}
