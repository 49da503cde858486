#include "engine/base/det_math.h"
#include "engine/base/quant.h"
#include "engine/cpu/kernels_isa.h"
#include "engine/cpu/simd.h"

/* dot_ref: whole vectors, then the rest in the lanes where it belongs. */
static float dot(const float *a, const float *b, int n)
{
	f32x8 sum = v8_set(0.0f);
	float lane[8];
	int i = 0;

	for (; i + 8 <= n; i += 8)
		sum = v8_fma(v8_load(a + i), v8_load(b + i), sum);
	v8_store(lane, sum);
	for (int l = 0; i + l < n; l++)
		lane[l] = fmaf(a[i + l], b[i + l], lane[l]);
	return lane_tree(lane);
}

static void rmsnorm_row(const float *x, const float *weight, int hidden, float eps, float *y)
{
	float r = 1.0f / sqrtf(dot(x, x, hidden) / (float)hidden + eps);
	for (int i = 0; i < hidden; i++)
		y[i] = weight[i] * (x[i] * r);
}

static void swiglu_row(const float *gate, const float *up, int inner, float *y)
{
	const f32x8 one = v8_set(1.0f), zero = v8_set(0.0f);
	int i = 0;

	for (; i + 8 <= inner; i += 8) {
		f32x8 g = v8_load(gate + i);
		/* -g as in the scalar twin; 0 - g differs only in the sign of zero, which exp does not see */
		f32x8 silu = v8_div(g, v8_add(one, v8_exp(v8_sub(zero, g))));
		v8_store(y + i, v8_mul(silu, v8_load(up + i)));
	}
	for (; i < inner; i++)
		y[i] = gate[i] / (1.0f + exp_ref(-gate[i])) * up[i];
}

static void round_row(const float *x, int columns, float scale, float *codes)
{
	for (int k = 0; k < columns; k++)
		codes[k] = e4m3_round(x[k] / scale);
}

static float row_max(const float *x, int n)
{
	f32x8 max = v8_set(-INFINITY);
	float lane[8], result = -INFINITY;
	int i = 0;

	for (; i + 8 <= n; i += 8)
		max = v8_max(v8_load(x + i), max);
	v8_store(lane, max);
	for (int l = 0; l < 8; l++)
		result = lane[l] > result ? lane[l] : result;
	for (; i < n; i++)
		result = x[i] > result ? x[i] : result;
	return result;
}

/* chunk_sum of ref.c. */
static float chunk_sum(const float *x, int n, float max)
{
	const f32x8 shift = v8_set(max);
	f32x8 sum = v8_set(0.0f);
	float lane[8];
	int i = 0;

	for (; i + 8 <= n; i += 8)
		sum = v8_add(sum, v8_exp(v8_sub(v8_load(x + i), shift)));
	v8_store(lane, sum);
	for (int l = 0; i + l < n; l++)
		lane[l] += exp_ref(x[i + l] - max);
	return lane_tree(lane);
}

static void row_softmax(const float *x, int n, float *max, int *argmax, float *log_sum)
{
	struct softmax_state s = {-INFINITY, 0.0f};

	*argmax = 0;
	for (int start = 0; start < n; start += SOFTMAX_CHUNK) {
		int count = n - start < SOFTMAX_CHUNK ? n - start : SOFTMAX_CHUNK;
		float top = row_max(x + start, count);
		if (top > s.max) {
			*argmax = start;
			while (x[*argmax] != top)
				++*argmax;
		}
		softmax_add(&s, top, chunk_sum(x + start, count, top > -INFINITY ? top : 0.0f));
	}
	*max = s.max;
	*log_sum = (float)det_log((double)s.sum);
}

/* Independent chains that hide the latency of an FMA, as many vectors as registers leave room for. */
#if defined(__AVX512F__)
enum { CHAINS = 12 };
#else
enum { CHAINS = 6 };
#endif

static float fma_burst(long iterations)
{
	f32x16 chain[CHAINS];
	const f32x16 factor = v16_set(0.999f), term = v16_set(0.001f);
	volatile float first[16]; /* not known to the compiler, or it would see lanes that are alike */
	float out[16];

	for (int l = 0; l < 16; l++)
		first[l] = (float)l;
	for (int c = 0; c < CHAINS; c++) {
		for (int l = 0; l < 16; l++)
			out[l] = first[l] + (float)c;
		chain[c] = v16_load(out);
	}
	for (long i = 0; i < iterations / CHAINS; i++) {
#pragma GCC unroll 12
		for (int c = 0; c < CHAINS; c++)
			chain[c] = v16_fma(chain[c], factor, term);
	}
	for (int c = 1; c < CHAINS; c++)
		chain[0] = v16_fma(chain[c], term, chain[0]);
	v16_store(out, chain[0]);
	return out[0] + out[8];
}

static float read_burst(const void *data, size_t bytes)
{
	const float *x = data;
	f32x16 a = v16_set(0.0f), b = a, c = a, d = a;
	const f32x16 one = v16_set(1.0f);
	float out[16];

	for (size_t i = 0; i + 64 <= bytes / sizeof *x; i += 64) {
		a = v16_fma(v16_load(x + i), one, a);
		b = v16_fma(v16_load(x + i + 16), one, b);
		c = v16_fma(v16_load(x + i + 32), one, c);
		d = v16_fma(v16_load(x + i + 48), one, d);
	}
	v16_store(out, v16_fma(a, one, v16_fma(b, one, v16_fma(c, one, d))));
	return out[0];
}

const struct cpu_kernels KERNEL(cpu_kernels) = {
	.isa = KERNEL_TEXT(KERNEL_ISA),
	.linear_panels = KERNEL(linear_panels),
	.rmsnorm_row = rmsnorm_row,
	.swiglu_row = swiglu_row,
	.round_row = round_row,
	.attend_tile = KERNEL(attend_tile),
	.row_softmax = row_softmax,
	.fma_burst = fma_burst,
	.fma_flops = 2 * 16,
	.read_burst = read_burst,
};
