#include <algorithm>
#include <functional>
#include <math.h>
#include <stdio.h>

#include "cuda/cuda_backend.h"
#include "cuda/kernels.cuh"
#include "engine/base/number.h"
#include "tests/cuda_cases/case_support.cuh"
#include "tests/cuda_on_gpu/gpu_support.h"

enum { WARM_UP = 5, SAMPLES = 15, LAUNCHES = 8 };

/* Inputs are taken in turn from so many bytes, so that the L2 cache does not hold them from the launch before. */
static const double ROTATION_BYTES = 512e6;

/* What the device can do. */
struct gpu_peaks {
	double bytes_per_s, tensor_flops_per_s;
};

/* ---- random memory ---- */

enum value_format { VALUES_F32, VALUES_BF16, VALUES_E4M3 };

static size_t value_size(enum value_format format)
{
	return format == VALUES_F32 ? 4 : format == VALUES_BF16 ? 2 : 1;
}

/* Fills with random values in [-1, 1) that repeat after a number that is no power of two. */
static void fill_random(void *memory, size_t count, enum value_format format)
{
	generator g(5);
	const std::vector<float> values = random_values(g, 1000003);
	const size_t size = value_size(format);
	std::vector<uint8_t> block(values.size() * size);
	for (size_t i = 0; i < values.size(); i++) {
		if (format == VALUES_F32)
			memcpy(&block[i * size], &values[i], size);
		else if (format == VALUES_E4M3)
			block[i] = float_to_e4m3(values[i]);
		else {
			const uint16_t code = float_to_bf16(values[i]);
			memcpy(&block[i * size], &code, size);
		}
	}
	for (size_t at = 0; at < count; at += values.size()) {
		const size_t n = std::min(values.size(), count - at);
		device_require(cudaMemcpy(static_cast<uint8_t *>(memory) + at * size, block.data(), n * size,
				       cudaMemcpyHostToDevice),
			"upload");
	}
}

/* Copies of an input, enough for ROTATION_BYTES; one memory. */
struct rotation {
	device_array<uint8_t> memory;
	size_t bytes;
	int n;

	rotation(size_t count, enum value_format format) : rotation(count, format, count * value_size(format))
	{
	}
	void *of(int launch) const
	{
		return memory.data + (size_t)(launch % n) * bytes;
	}

      private:
	rotation(size_t count, enum value_format format, size_t one)
	    : memory(copies(one) * round_up(one)), bytes(round_up(one)), n((int)copies(one))
	{
		for (int i = 0; i < n; i++)
			fill_random(of(i), count, format);
	}
	static size_t round_up(size_t bytes_)
	{
		return (bytes_ + 255) / 256 * 256;
	}
	static size_t copies(size_t one)
	{
		return (size_t)std::min(64.0, std::max(1.0, ceil(ROTATION_BYTES / (double)one)));
	}
};

/* ---- time ---- */

typedef std::function<int(int launch, struct error *e)> launcher;

/* Median seconds of one launch. */
static int measure_seconds(const launcher &launch, double *seconds, struct error *e)
{
	cudaEvent_t start, end;
	std::vector<double> samples;
	int count = 0;
	device_require(cudaEventCreate(&start), "event");
	device_require(cudaEventCreate(&end), "event");
	for (int i = 0; i < WARM_UP; i++)
		TRY(launch(count++, e));
	for (int i = 0; i < SAMPLES; i++) {
		float milliseconds = 0.0f;
		device_require(cudaEventRecord(start, 0), "event");
		for (int k = 0; k < LAUNCHES; k++)
			TRY(launch(count++, e));
		device_require(cudaEventRecord(end, 0), "event");
		device_require(cudaEventSynchronize(end), "event");
		device_require(cudaEventElapsedTime(&milliseconds, start, end), "event");
		samples.push_back((double)milliseconds * 1e-3 / LAUNCHES);
	}
	device_require(cudaEventDestroy(start), "event");
	device_require(cudaEventDestroy(end), "event");
	std::sort(samples.begin(), samples.end());
	*seconds = samples[samples.size() / 2];
	return device_finish("measurement", e);
}

static void print_share(double value, double peak)
{
	if (peak > 0.0)
		printf(" (%5.1f%%)", 100.0 * value / peak);
	else
		printf(" (     -)");
}

static void print_line(
	const char *what, double seconds, double bytes, double peak_bytes, double flops, double peak_flops)
{
	printf("%-58s %10.2f us %8.1f GB/s", what, seconds * 1e6, bytes / seconds * 1e-9);
	print_share(bytes / seconds, peak_bytes);
	printf(" %8.2f TFLOP/s", flops / seconds * 1e-12);
	print_share(flops / seconds, peak_flops);
	printf("\n");
}

/* ---- kernels ---- */

static int measure_rmsnorm(const struct gpu_peaks *peaks, int n_tokens, int hidden, struct error *e)
{
	const size_t n = (size_t)n_tokens * (size_t)hidden;
	const rotation x(n, VALUES_F32), weight((size_t)hidden, VALUES_F32);
	device_array<float> y(n);
	double seconds;
	TRY(measure_seconds(
		[&](int launch, struct error *error) {
			const struct rmsnorm_args a = {static_cast<float *>(x.of(launch)),
				static_cast<float *>(weight.of(0)), n_tokens, hidden, 1e-5f, y.data};
			return rmsnorm_launch(&a, 0, error);
		},
		&seconds, e));
	char what[128];
	snprintf(what, sizeof(what), "rmsnorm T %d, H %d", n_tokens, hidden);
	print_line(what, seconds, 8.0 * (double)n + 4.0 * hidden, peaks->bytes_per_s, 4.0 * (double)n, 0.0);
	return 0;
}

static int measure_linear(
	const struct gpu_peaks *peaks, const rotation &w, const struct weight *shape, int n_tokens, struct error *e)
{
	const double m = n_tokens, n = shape->rows, k = shape->columns;
	const rotation x((size_t)n_tokens * (size_t)shape->columns, VALUES_F32);
	const device_array<float> amax(std::vector<float>((size_t)n_tokens, 1.0f));
	const device_array<float> scales(std::vector<float>((size_t)shape->rows + 8, 0.01f));
	device_array<float> y((size_t)n_tokens * (size_t)shape->rows);
	device_array<uint8_t> workspace(linear_workspace(shape, n_tokens) + 1);
	double seconds;
	TRY(measure_seconds(
		[&](int launch, struct error *error) {
			struct weight weight = *shape;
			weight.data = w.of(launch);
			weight.scales = scales.data;
			struct linear_args a = {};
			a.weight = &weight;
			a.x = static_cast<float *>(x.of(launch));
			a.n_tokens = n_tokens;
			a.amax = weight.quantize_input ? amax.data : NULL;
			a.y = y.data;
			return linear_launch(&a, workspace.data, 0, error);
		},
		&seconds, e));
	char what[128];
	snprintf(what, sizeof(what), "linear %s%s M %d, N %d, K %d, %d parts", weight_format_name(shape->format),
		shape->quantize_input ? " W8A8" : "", n_tokens, shape->rows, shape->columns, shape->parts);
	print_line(what, seconds, (double)shape->bytes + 4.0 * m * (n + k), peaks->bytes_per_s, 2.0 * m * n * k,
		peaks->tensor_flops_per_s);
	return 0;
}

static int measure_linears(const struct gpu_peaks *peaks, struct error *e)
{
	static const struct {
		enum weight_format format;
		bool quantize_input;
	} formats[] = {{WEIGHT_BF16, false}, {WEIGHT_E4M3, true}, {WEIGHT_E4M3, false}};
	static const struct {
		int rows, columns, parts;
	} shapes[] = {{4096, 4096, 8}, {28672, 4096, 1}, {4096, 14336, 8}};
	for (const auto &f : formats) {
		const bool wide = f.format == WEIGHT_BF16;
		for (const auto &s : shapes) {
			const size_t values = (size_t)s.rows * (size_t)s.columns; /* whole panels and tiles */
			const rotation w(values, wide ? VALUES_BF16 : VALUES_E4M3);
			struct weight shape = {};
			shape.format = f.format;
			shape.quantize_input = f.quantize_input;
			shape.rows = s.rows;
			shape.columns = s.columns;
			shape.parts = s.parts;
			shape.bytes = values * (wide ? 2 : 1);
			for (int n_tokens : {1, 16, 64, 256, 4096})
				TRY(measure_linear(peaks, w, &shape, n_tokens, e));
		}
	}
	return 0;
}

struct attend_shape {
	int n_sequences, n_new, length; /* each sequence's last n_new of length tokens are computed */
	int n_heads, n_kv_heads, head_dim, page_size;
};

static int measure_attend(const struct gpu_peaks *peaks, const struct attend_shape *s, enum kv_format format,
	const char *name, struct error *e)
{
	const int pages = (s->length + s->page_size - 1) / s->page_size, n_pages = s->n_sequences * pages + 1;
	const int n_tokens = s->n_sequences * s->n_new, row = s->n_heads * s->head_dim;
	const size_t values = (size_t)n_pages * (size_t)(s->n_kv_heads * s->page_size * s->head_dim);
	const enum value_format stored = format == KV_BF16 ? VALUES_BF16 : VALUES_E4M3;
	std::vector<int32_t> cu_seqlens(1, 0), first_position, tables;
	for (int b = 0; b < s->n_sequences; b++) {
		cu_seqlens.push_back(cu_seqlens.back() + s->n_new);
		first_position.push_back(s->length - s->n_new);
	}
	for (int page = 1; page < n_pages; page++)
		tables.push_back(page);
	std::shuffle(tables.begin(), tables.end(), generator(9));

	const rotation q((size_t)n_tokens * (size_t)row, VALUES_F32), k(values, stored), v(values, stored);
	const device_array<int32_t> device_cu(cu_seqlens), device_first(first_position), device_tables(tables);
	device_array<float> out((size_t)n_tokens * (size_t)row);
	double seconds;
	TRY(measure_seconds(
		[&](int launch, struct error *error) {
			struct attend_args a = {};
			a.q = static_cast<float *>(q.of(launch));
			a.q_stride = row;
			a.n_tokens = n_tokens;
			a.n_sequences = s->n_sequences;
			a.n_heads = s->n_heads;
			a.scale = 1.0f / sqrtf((float)s->head_dim);
			a.geometry = {s->page_size, n_pages, s->n_kv_heads, s->head_dim};
			a.layer = {format, k.of(launch), v.of(launch), 1.0f, 1.0f};
			a.cu_seqlens = device_cu.data;
			a.first_position = device_first.data;
			a.block_tables = device_tables.data;
			a.table_stride = pages;
			a.out = out.data;
			return attend_launch(&a, 0, error);
		},
		&seconds, e));
	const double cache =
		2.0 * s->n_sequences * s->length * s->n_kv_heads * s->head_dim * (double)value_size(stored);
	const double seen =
		(double)s->n_new * (s->length - 0.5 * (s->n_new - 1)); /* (query, key) pairs of a sequence */
	char what[128];
	snprintf(what, sizeof(what), "attend %s B %d, %d of %d tokens, %d/%d heads of %d", name, s->n_sequences,
		s->n_new, s->length, s->n_heads, s->n_kv_heads, s->head_dim);
	print_line(what, seconds, cache + 8.0 * n_tokens * row, peaks->bytes_per_s, 4.0 * s->n_sequences * seen * row,
		0.0);
	return 0;
}

int gpu_measure(struct error *e)
{
	struct cuda_machine machine;
	TRY(cuda_machine_measure(0, &machine, e));
	const struct gpu_peaks own = {machine.copy, machine.tensor_flops}, *peaks = &own;
	static const struct attend_shape shapes[] = {
		/* decode, prefill, chunks */
		{64, 1, 4096, 32, 8, 128, 16},
		{1, 1, 4096, 32, 8, 128, 16},
		{1, 4096, 4096, 32, 8, 128, 16},
		{4, 256, 4096, 9, 3, 64, 16},
	};
	printf("time, bytes moved at least and arithmetic; in brackets the share of what the device was measured to "
	       "do\n");
	for (int n_tokens : {1, 64, 4096})
		TRY(measure_rmsnorm(peaks, n_tokens, 4096, e));
	TRY(measure_linears(peaks, e));
	for (const struct attend_shape &shape : shapes) {
		TRY(measure_attend(peaks, &shape, KV_BF16, "bf16", e));
		TRY(measure_attend(peaks, &shape, KV_E4M3, "fp8", e));
	}
	return 0;
}
