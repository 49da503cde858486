/* Kernels with one known fault each, and sound ones: does the stand-in notice what a GPU would punish? */
#include "cuda/device_math.cuh"
#include "cuda/launch.cuh"
#include "tests/cuda_on_cpu/cuda_on_cpu.h"

enum { N = SHIM_CASE_VALUES };

static void sound_reverse(float *out)
{
	__shared__ float values[N];
	const int t = (int)threadIdx.x;
	values[t] = (float)t;
	__syncthreads();
	out[t] = values[N - 1 - t];
}

static void no_barrier_before_read(float *out)
{
	__shared__ float values[N];
	const int t = (int)threadIdx.x;
	values[t] = (float)t;
	out[t] = values[N - 1 - t];
}

/* The second round overwrites what slower threads still read. */
static void no_barrier_before_write(float *out)
{
	__shared__ float values[N];
	const int t = (int)threadIdx.x;
	float sum = 0.0f;
	for (int round = 0; round < 2; round++) {
		values[t] = (float)(t + 1000 * round);
		__syncthreads();
		sum += values[N - 1 - t];
	}
	out[t] = sum;
}

static void sound_two_rounds(float *out)
{
	__shared__ float values[N];
	const int t = (int)threadIdx.x;
	float sum = 0.0f;
	for (int round = 0; round < 2; round++) {
		__syncthreads();
		values[t] = (float)(t + 1000 * round);
		__syncthreads();
		sum += values[N - 1 - t];
	}
	out[t] = sum;
}

static void warp_instead_of_block(float *out)
{
	__shared__ float values[N];
	const int t = (int)threadIdx.x;
	values[t] = (float)t;
	__syncwarp();
	out[t] = values[N - 1 - t];
}

static void some_end_early(float *out)
{
	out[threadIdx.x] = 0.0f;
	if (threadIdx.x >= N / 2)
		return;
	__syncthreads();
}

static void two_lines(float *out)
{
	out[threadIdx.x] = 0.0f;
	if (threadIdx.x < N / 2)
		__syncthreads();
	else
		__syncthreads();
}

static void lane_stays_away(float *out)
{
	float value = 1.0f;
	if (threadIdx.x % WARP != 5)
		value = __shfl_xor_sync(WHOLE_WARP, value, 1);
	out[threadIdx.x] = value;
}

static void lanes_on_two_lines(float *out)
{
	float value = 1.0f;
	if (threadIdx.x % WARP < 16)
		value = __shfl_xor_sync(WHOLE_WARP, value, 1);
	else
		value = __shfl_xor_sync(WHOLE_WARP, value, 2);
	out[threadIdx.x] = value;
}

static void half_a_mask(float *out)
{
	out[threadIdx.x] = __shfl_xor_sync(0xffffu, 1.0f, 1);
}

/* ---- copies: 16 bytes for every fourth thread ---- */

static const float *source_values(void)
{
	alignas(16) static float values[N];
	for (int i = 0; i < N; i++)
		values[i] = (float)i;
	return values;
}

static void copy_start(float *shared)
{
	const int t = (int)threadIdx.x;
	if (t % 4 == 0)
		copy_async(shared + t, source_values() + t, true);
	copy_commit();
}

static void sound_copy(float *out)
{
	DYNAMIC_SHARED(memory);
	float *shared = reinterpret_cast<float *>(memory);
	copy_start(shared);
	copy_wait<0>();
	__syncthreads();
	out[threadIdx.x] = shared[N - 1 - threadIdx.x];
}

static void copy_without_wait(float *out)
{
	DYNAMIC_SHARED(memory);
	float *shared = reinterpret_cast<float *>(memory);
	copy_start(shared);
	__syncthreads();
	out[threadIdx.x] = shared[N - 1 - threadIdx.x];
}

static void copy_waits_for_the_older(float *out)
{
	DYNAMIC_SHARED(memory);
	float *shared = reinterpret_cast<float *>(memory);
	copy_commit();
	copy_start(shared);
	copy_wait<1>();
	__syncthreads();
	out[threadIdx.x] = shared[N - 1 - threadIdx.x];
}

static void copy_without_barrier(float *out)
{
	DYNAMIC_SHARED(memory);
	float *shared = reinterpret_cast<float *>(memory);
	copy_start(shared);
	copy_wait<0>();
	out[threadIdx.x] = shared[N - 1 - threadIdx.x];
}

static void sound_copy_of_zeros(float *out)
{
	DYNAMIC_SHARED(memory);
	float *shared = reinterpret_cast<float *>(memory);
	const int t = (int)threadIdx.x;
	if (t % 4 == 0)
		copy_async(shared + t, source_values(), false);
	copy_commit();
	copy_wait<0>();
	__syncthreads();
	out[t] = shared[N - 1 - t];
}

static void copy_not_aligned(float *out)
{
	DYNAMIC_SHARED(memory);
	copy_async(memory, source_values() + 1, true);
	out[threadIdx.x] = 0.0f;
}

static void copy_outside(float *out)
{
	DYNAMIC_SHARED(memory);
	copy_async(memory + N * sizeof(float), source_values(), true);
	out[threadIdx.x] = 0.0f;
}

static void reads_what_nobody_wrote(float *out)
{
	DYNAMIC_SHARED(memory);
	out[threadIdx.x] = reinterpret_cast<float *>(memory)[threadIdx.x];
}

/* ---- exchanges ---- */

static void sound_shuffles(float *out)
{
	const int lane = (int)threadIdx.x % WARP;
	const int from = __shfl_sync(WHOLE_WARP, lane, (lane + 5) % WARP);
	const int across = __shfl_xor_sync(WHOLE_WARP, lane, 9);
	const int down = __shfl_down_sync(WHOLE_WARP, lane, 3u), up = __shfl_up_sync(WHOLE_WARP, lane, 3u);
	const bool right = from == (lane + 5) % WARP && across == (lane ^ 9) &&
		down == (lane + 3 < WARP ? lane + 3 : lane) && up == (lane >= 3 ? lane - 3 : lane);
	out[threadIdx.x] = right ? 1.0f : 0.0f;
}

static void sound_atomics(float *out)
{
	__shared__ int sum, most, first;
	if (threadIdx.x == 0)
		sum = most = first = 0;
	__syncthreads();
	atomicAdd(&sum, (int)threadIdx.x);
	atomicMax(&most, (int)threadIdx.x);
	atomicCAS(&first, 0, 7);
	__syncthreads();
	out[threadIdx.x] = (float)(sum + most + first);
}

/* a[row][k] = row + 2 k, b[k][column] = 3 k - column, both exact in bf16. Thread 4 g + t of the first warp writes
 * row g, column t. */
static void sound_mma(float *out)
{
	const int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
	uint32_t a[4], b[2];
	float c[4] = {100.0f, 100.0f, 100.0f, 100.0f};
	for (int i = 0; i < 4; i++) {
		const int row = g + i % 2 * 8, k = 2 * t + i / 2 * 8;
		a[i] = bf16_pair((float)(row + 2 * k), (float)(row + 2 * (k + 1)));
	}
	for (int i = 0; i < 2; i++) {
		const int k = 2 * t + i * 8;
		b[i] = bf16_pair((float)(3 * k - g), (float)(3 * (k + 1) - g));
	}
	mma_bf16(c, a, b);
	float wrong = 0.0f;
	for (int i = 0; i < 4; i++) {
		const int row = g + i / 2 * 8, column = 2 * t + i % 2;
		int sum = 100;
		for (int k = 0; k < 16; k++)
			sum += (row + 2 * k) * (3 * k - column);
		wrong += c[i] == (float)sum ? 0.0f : 1.0f;
	}
	out[threadIdx.x] = wrong;
}

/* a[row][k] = row mod 5 + k mod 7, b[k][column] = k mod 4 - column mod 3, by both ways that there are. */
template <void (*multiply)(float[4], const uint32_t[4], const uint32_t[2])> static void sound_mma_e4m3(float *out)
{
	const int lane = (int)threadIdx.x % WARP, g = lane / 4, t = lane % 4;
	uint32_t a[4] = {}, b[2] = {};
	float c[4] = {100.0f, 100.0f, 100.0f, 100.0f};
	for (int byte = 0; byte < 4; byte++) {
		for (int i = 0; i < 4; i++) {
			const int row = g + i % 2 * 8, k = 4 * t + i / 2 * 16 + byte;
			a[i] |= e4m3_narrow((float)(row % 5 + k % 7)) << 8 * byte;
		}
		for (int i = 0; i < 2; i++)
			b[i] |= e4m3_narrow((float)((4 * t + byte) % 4 - g % 3)) << 8 * byte;
	}
	multiply(c, a, b);
	float wrong = 0.0f;
	for (int i = 0; i < 4; i++) {
		const int row = g + i / 2 * 8, column = 2 * t + i % 2;
		int sum = 100;
		for (int k = 0; k < 32; k++)
			sum += (row % 5 + k % 7) * (k % 4 - column % 3);
		wrong += c[i] == (float)sum ? 0.0f : 1.0f;
	}
	out[threadIdx.x] = wrong;
}

/* Codes t and t + 128, and what is round the middle between a code and the next. */
static void sound_e4m3(float *out)
{
	int wrong = 0;
	for (uint32_t code = threadIdx.x; code < 256; code += N) {
		const float value = e4m3_to_float((uint8_t)code), next = e4m3_to_float((uint8_t)(code + 1));
		const float middle = (value + next) / 2.0f;
		wrong += float_bits(e4m3_widen(code)) != float_bits(value);
		for (float x : {value, middle, nextafterf(middle, 0.0f), nextafterf(middle, 1e3f), value * 1e30f})
			wrong += e4m3_narrow(x) != float_to_e4m3(x);
	}
	out[threadIdx.x] = (float)wrong;
}

/* Every code but NaN, and every value of 4 bits, as pairs of bf16. */
static void sound_widening(float *out)
{
	const uint32_t t = threadIdx.x, codes = t | (t ^ 0x80u) << 8 | (t / 2) << 16 | 0x81u << 24;
	uint32_t pair[4];
	int wrong = 0;
	if (t == 0x7f) {
		out[t] = 0.0f;
		return;
	}
	e4m3_quad_widen(codes, pair);
	for (int i = 0; i < 4; i++) {
		const float2 both = bf16_pair_widen(pair[i / 2]);
		wrong += float_bits(i % 2 ? both.y : both.x) != float_bits(e4m3_to_float((uint8_t)(codes >> 8 * i)));
	}
	const uint32_t word = t * 0x01234567u ^ 0x89abcdefu;
	int4_octet_widen(word, pair);
	for (int i = 0; i < 4; i++) {
		const float2 both = bf16_pair_widen(pair[i]);
		wrong += both.x != (float)((int)(word >> 4 * i & 15u) - 8);
		wrong += both.y != (float)((int)(word >> (16 + 4 * i) & 15u) - 8);
	}
	out[t] = (float)wrong;
}

/* ---- the table ---- */

static float reversed(int i)
{
	return (float)(N - 1 - i);
}

static float reversed_twice(int i)
{
	return (float)(2 * (N - 1 - i) + 1000);
}

static float zero(int)
{
	return 0.0f;
}

static float one(int)
{
	return 1.0f;
}

static float sum_most_first(int)
{
	return (float)(N * (N - 1) / 2 + N - 1 + 7);
}

template <void (*kernel)(float *), size_t shared_bytes = N * sizeof(float)> static const char *run(float *out, int n)
{
	LAUNCH(kernel, 1, (unsigned)n, shared_bytes, 0, out);
	const cudaError_t status = cudaGetLastError();
	return status == cudaSuccess ? NULL : cudaGetErrorString(status);
}

extern "C" const struct shim_case shim_cases[] = {
	{"barrier", NULL, run<sound_reverse>, reversed},
	{"two rounds", NULL, run<sound_two_rounds>, reversed_twice},
	{"copy", NULL, run<sound_copy>, reversed},
	{"copy of zeros", NULL, run<sound_copy_of_zeros>, zero},
	{"shuffles", NULL, run<sound_shuffles>, one},
	{"atomics", NULL, run<sound_atomics>, sum_most_first},
	{"mma", NULL, run<sound_mma>, zero},
	{"mma of e4m3", NULL, run<sound_mma_e4m3<mma_e4m3>>, zero},
	{"mma of e4m3 in steps of bf16", NULL, run<sound_mma_e4m3<mma_e4m3_widened>>, zero},
	{"e4m3", NULL, run<sound_e4m3>, zero},
	{"e4m3 and int4 to bf16", NULL, run<sound_widening>, zero},
	{"no barrier before a read", "", run<no_barrier_before_read>, reversed},
	{"no barrier before a write", "", run<no_barrier_before_write>, reversed_twice},
	{"barrier of a warp for that of a block", "", run<warp_instead_of_block>, reversed},
	{"copy without a wait", "", run<copy_without_wait>, reversed},
	{"wait for an older copy", "", run<copy_waits_for_the_older>, reversed},
	{"copy without a barrier", "", run<copy_without_barrier>, reversed},
	{"memory that nobody wrote", "", run<reads_what_nobody_wrote>, zero},
	{"threads that end early", "has ended", run<some_end_early>, zero},
	{"barriers on two lines", "divergent barrier", run<two_lines>, zero},
	{"a lane that stays away", "deadlock", run<lane_stays_away>, one},
	{"lanes on two lines", "divergent barrier", run<lanes_on_two_lines>, one},
	{"half a mask", "only whole warps", run<half_a_mask>, one},
	{"copy that is not aligned", "not aligned", run<copy_not_aligned>, zero},
	{"copy to outside", "outside shared memory", run<copy_outside>, zero},
	{"more shared memory than allowed", "shared memory", run<sound_reverse, 64 * 1024>, reversed},
};
extern "C" const int shim_case_count = sizeof(shim_cases) / sizeof(shim_cases[0]);
