/* What follows the product with the head. The softmax of a row is cut in the CPU's chunks and has the bits of
 * row_softmax_ref. Sums of the drawing are sums of integers, which have no order: histograms and atomics may then find
 * the candidates without sorting, and the draw is the same whatever thread came first. */
#include "cuda/device_math.cuh"
#include "cuda/kernels.cuh"
#include "cuda/launch.cuh"

enum {
	CHUNK_THREADS = 128,
	CHUNK_LANES = 8, /* virtual lanes of a chunk's sum, a thread each */
	CHUNKS_PER_BLOCK = CHUNK_THREADS / CHUNK_LANES,
	TAIL_THREADS = 512,
	TAIL_WARPS = TAIL_THREADS / WARP,
	BIN_BITS = 11,
	BINS = 1 << BIN_BITS,
	BINS_PER_THREAD = BINS / TAIL_THREADS,
	KEY_BITS = 32,
	ALL_PER_BLOCK = 4 * TAIL_THREADS,
};

/* A number of tokens, or a probability at the temperature in question relative to the likeliest token's, in units of
 * 2^-44: the sum over 2^18 tokens fits. */
typedef unsigned long long amount;
#define AMOUNT_OF_ONE 0x1p44f

static __device__ __forceinline__ float minus_infinity(void)
{
	return __uint_as_float(0xff800000u);
}

/* ---- chunks of the softmax ---- */

struct softmax_chunk {
	float max, sum; /* sum of exp(x - max); max minus infinity: relative to 0 */
	int32_t argmax; /* lowest index of max */
};

static inline int softmax_chunk_count(int vocab)
{
	return (vocab + SOFTMAX_CHUNK - 1) / SOFTMAX_CHUNK;
}

size_t logits_tail_scratch_bytes(int n_rows, int vocab)
{
	return (size_t)n_rows * (size_t)softmax_chunk_count(vocab) * sizeof(struct softmax_chunk);
}

/* Eight threads per chunk, one for each running sum. PRECOND: CHUNK_THREADS threads; grid = n_rows, chunks /
 * CHUNKS_PER_BLOCK rounded up. */
static __global__ void __launch_bounds__(CHUNK_THREADS) softmax_chunk_kernel(
	const float *logits /* [n_rows, V] */, int vocab, int n_chunks, softmax_chunk *chunks /* [n_rows, n_chunks] */)
{
	const int number = (int)blockIdx.y * CHUNKS_PER_BLOCK + (int)threadIdx.x / CHUNK_LANES;
	const int start = number * SOFTMAX_CHUNK, lane = (int)threadIdx.x % CHUNK_LANES;
	const int count = vocab - start < SOFTMAX_CHUNK ? vocab - start : SOFTMAX_CHUNK;
	const float *const x = logits + (size_t)blockIdx.x * (size_t)vocab + start;
	softmax_chunk own = {minus_infinity(), 0.0f, 0};

#pragma unroll 8
	for (int i = lane; i < count; i += CHUNK_LANES) {
		if (x[i] > own.max) {
			own.max = x[i];
			own.argmax = start + i;
		}
	}
	for (int step = CHUNK_LANES / 2; step > 0; step /= 2) {
		const float max = __shfl_xor_sync(WHOLE_WARP, own.max, step);
		const int32_t argmax = __shfl_xor_sync(WHOLE_WARP, own.argmax, step);
		if (max > own.max || (max == own.max && argmax < own.argmax)) {
			own.max = max;
			own.argmax = argmax;
		}
	}
	const float shift = own.max > minus_infinity() ? own.max : 0.0f;
#pragma unroll 8
	for (int i = lane; i < count; i += CHUNK_LANES)
		own.sum += exp_device(x[i] - shift);
	for (int step = CHUNK_LANES / 2; step > 0; step /= 2)
		own.sum += __shfl_xor_sync(WHOLE_WARP, own.sum, step);
	if (lane == 0 && number < n_chunks)
		chunks[(size_t)blockIdx.x * (size_t)n_chunks + (size_t)number] = own;
}

/* ---- a block per row: what its threads share ---- */

struct softmax_row {
	float max, sum, log_sum;
	int32_t argmax;
};

struct tail_memory {
	union {
		amount bins[BINS];
		struct { /* of one round of chunks */
			float factor[TAIL_THREADS], sum[TAIL_THREADS];
			bool leads[TAIL_THREADS];
		} chunks;
	};
	amount warp_amount[TAIL_WARPS];
	float warp_max[TAIL_WARPS];
	struct softmax_row softmax;
	int found_bin, found_index;
	amount found_before;
	int n_listed;
	uint32_t listed_keys[LOGITS_TOP_MAX];
	int32_t listed_ids[LOGITS_TOP_MAX];
};

static __device__ __forceinline__ int warp_of(void)
{
	return (int)threadIdx.x / WARP;
}

static __device__ __forceinline__ int lane_of(void)
{
	return (int)threadIdx.x % WARP;
}

/* The sum over this lane and those below. */
static __device__ __forceinline__ amount warp_sum_through(amount own)
{
	for (unsigned step = 1; step < WARP; step *= 2) {
		const amount other = __shfl_up_sync(WHOLE_WARP, own, step);
		own += lane_of() >= (int)step ? other : 0;
	}
	return own;
}

/* The sum over the threads below this one; *all: over the block. */
static __device__ amount block_sum_before(amount own, tail_memory &m, amount *all)
{
	const amount through = warp_sum_through(own);
	amount before = 0, sum = 0;

	__syncthreads(); /* nobody reads the sums of a call before */
	if (lane_of() == WARP - 1)
		m.warp_amount[warp_of()] = through;
	__syncthreads();
	for (int warp = 0; warp < TAIL_WARPS; warp++) {
		before += warp < warp_of() ? m.warp_amount[warp] : 0;
		sum += m.warp_amount[warp];
	}
	*all = sum;
	return before + through - own;
}

/* The largest value of the threads below this one; *all: of the block. PRECOND: a barrier since the last call. */
static __device__ float block_max_before(float own, tail_memory &m, float *all)
{
	float before = minus_infinity(), most = minus_infinity(), through = own;

	for (unsigned step = 1; step < WARP; step *= 2)
		through = fmaxf(through, __shfl_up_sync(WHOLE_WARP, through, step)); /* a lane without one: itself */
	const float left = __shfl_up_sync(WHOLE_WARP, through, 1u);
	if (lane_of() == WARP - 1)
		m.warp_max[warp_of()] = through;
	__syncthreads();
	for (int warp = 0; warp < TAIL_WARPS; warp++) {
		before = warp < warp_of() ? fmaxf(before, m.warp_max[warp]) : before;
		most = fmaxf(most, m.warp_max[warp]);
	}
	*all = most;
	return lane_of() > 0 ? fmaxf(before, left) : before;
}

/* ---- softmax of a row ---- */

/* log x for x > 0, the CPU's det_log operation by operation. */
static __device__ double log_device(double x)
{
	int exponent;
	double m = frexp(x, &exponent);

	if (m < 0x1.6a09e667f3bcdp-1) {
		m *= 2.0;
		exponent--;
	}
	const double s = (m - 1.0) / (m + 1.0), z = s * s, e = exponent;
	double series = 0.0;
#pragma unroll
	for (int k = 23; k >= 3; k -= 2)
		series = (series + 1.0 / k) * z;
	return e * 0x1.62e42feep-1 + (e * 0x1.a39ef35793c76p-33 + 2.0 * s * series + 2.0 * s);
}

/* Adds up to TAIL_THREADS chunks to the running softmax, in order. Maxima and factors are found side by side, so the one
 * thread that adds has a multiplication per chunk. */
static __device__ void softmax_add_chunks(const softmax_chunk *chunks, int count, tail_memory &m)
{
	const int i = (int)threadIdx.x;
	const softmax_chunk own = i < count ? chunks[i] : softmax_chunk{minus_infinity(), 0.0f, 0};
	float all;
	float before = block_max_before(own.max, m, &all); /* its barriers: the softmax so far is there */
	before = fmaxf(m.softmax.max, before);
	const bool leads = own.max > before;

	m.chunks.leads[i] = leads;
	m.chunks.sum[i] = own.sum;
	/* a chunk of nothing but minus infinity adds 0 and must not bring NaN */
	m.chunks.factor[i] = leads ? exp_device(before - own.max)
		: own.sum == 0.0f  ? 0.0f
				   : exp_device(own.max - before);
	__syncthreads(); /* all have read the maximum so far, and the factors are there */
	if (leads && own.max == all)
		m.softmax.argmax = own.argmax;
	if (i > 0)
		return;
	m.softmax.max = fmaxf(m.softmax.max, all);
	float sum = m.softmax.sum;
	for (int k = 0; k < count; k++)
		sum = m.chunks.leads[k] ? fmaf(sum, m.chunks.factor[k], m.chunks.sum[k])
					: fmaf(m.chunks.sum[k], m.chunks.factor[k], sum);
	m.softmax.sum = sum;
}

static __device__ void row_softmax(const softmax_chunk *chunks, int n_chunks, tail_memory &m)
{
	if (threadIdx.x == 0)
		m.softmax = {minus_infinity(), 0.0f, 0.0f, 0};
	for (int first = 0; first < n_chunks; first += TAIL_THREADS)
		softmax_add_chunks(
			chunks + first, n_chunks - first < TAIL_THREADS ? n_chunks - first : TAIL_THREADS, m);
	if (threadIdx.x == 0)
		m.softmax.log_sum = (float)log_device((double)m.softmax.sum);
	__syncthreads();
}

/* ---- the likeliest tokens ---- */

/* Keys order as logits do; -0 is 0, NaN below all. */
static __device__ __forceinline__ uint32_t key_of(float logit)
{
	const uint32_t bits = __float_as_uint(logit + 0.0f);
	if (logit != logit)
		return 0;
	return bits >> 31 ? ~bits : bits | 0x80000000u;
}

static __device__ __forceinline__ float key_logit(uint32_t key)
{
	return __uint_as_float(key >> 31 ? key & 0x7fffffffu : ~key);
}

/* Where a list of tokens by descending logit, lowest id first among equals, ends: with this key and id. */
struct list_end {
	uint32_t key;
	int32_t id;
};

static __device__ __forceinline__ bool listed(list_end end, uint32_t key, int id)
{
	return key > end.key || (key == end.key && id <= end.id);
}

/* The first index of [0, n) where the sum of amount_at over the indices so far reaches need. Each warp adds a part of
 * them; the one whose part it is walks. PRECOND: 1 <= need <= sum over all. */
template <class Amount> static __device__ int index_find(int n, amount need, tail_memory &m, Amount amount_at)
{
	const int per_warp = (n + TAIL_THREADS - 1) / TAIL_THREADS * WARP, first = warp_of() * per_warp;
	const int end = n - first < per_warp ? n : first + per_warp;
	amount own = 0, all;

	for (int i = first + lane_of(); i < end; i += WARP)
		own += amount_at(i);
	amount before = block_sum_before(own, m, &all);
	const amount through = __shfl_sync(WHOLE_WARP, before + own, WARP - 1);
	before = __shfl_sync(WHOLE_WARP, before, 0);
	if (before < need && need <= through) {
		for (int start = first; start < end; start += WARP) {
			const int i = start + lane_of();
			const amount here = i < end ? amount_at(i) : 0, reached = before + warp_sum_through(here);
			if (reached >= need && reached - here < need)
				m.found_index = i;
			before = __shfl_sync(WHOLE_WARP, reached, WARP - 1);
			if (before >= need)
				break;
		}
	}
	__syncthreads();
	return m.found_index;
}

/* One digit of the key at which the sum reaches need: the amounts of keys that begin with prefix are added up by their
 * next bits, and bins are walked from the highest. PRECOND: a barrier since the bins were used. */
template <class Amount>
static __device__ void digit_find(const float *x, int n, list_end within, uint32_t prefix, int shift, int bits,
	amount need, tail_memory &m, Amount amount_of)
{
	const uint32_t mask = (1u << bits) - 1;
	for (int bin = (int)threadIdx.x; bin < BINS; bin += TAIL_THREADS)
		m.bins[bin] = 0;
	__syncthreads();
	for (int i = (int)threadIdx.x; i < n; i += TAIL_THREADS) {
		const uint32_t key = key_of(x[i]);
		if ((uint64_t)key >> (shift + bits) != prefix || !listed(within, key, i))
			continue;
		const amount own = amount_of(x[i]);
		if (own > 0)
			atomicAdd(&m.bins[key >> shift & mask], own);
	}
	__syncthreads();

	const int highest = BINS - 1 - (int)threadIdx.x * BINS_PER_THREAD;
	amount own = 0, all;
	for (int k = 0; k < BINS_PER_THREAD; k++)
		own += m.bins[highest - k];
	amount before = block_sum_before(own, m, &all);
	if (before < need && need <= before + own) {
		int bin = highest;
		for (; before + m.bins[bin] < need; bin--)
			before += m.bins[bin];
		m.found_bin = bin;
		m.found_before = before;
	}
	__syncthreads();
}

/* The shortest list, of tokens that `within` lists, whose amounts reach need. amount_of a logit. PRECOND: 1 <= need <=
 * sum over all of them. */
template <class Amount>
static __device__ list_end list_find(
	const float *x, int n, list_end within, amount need, tail_memory &m, Amount amount_of)
{
	uint32_t key = 0;
	for (int left = KEY_BITS; left > 0;) {
		const int bits = left < BIN_BITS ? left : BIN_BITS;
		left -= bits;
		digit_find(x, n, within, key, left, bits, need, m, amount_of);
		key = key << bits | (uint32_t)m.found_bin;
		need -= m.found_before;
	}
	const amount each = amount_of(key_logit(key));
	const int id = index_find(n, (need + each - 1) / each, m, [&](int i) -> amount {
		const uint32_t own = key_of(x[i]);
		return own == key && listed(within, own, i);
	});
	return {key, id};
}

static __device__ __forceinline__ float log_probability(float logit, const softmax_row &s)
{
	return (logit - s.max) - s.log_sum;
}

/* The count likeliest tokens to ids and log_probabilities. PRECOND: count <= n, LOGITS_TOP_MAX. */
static __device__ void top_store(
	const float *x, int n, int count, tail_memory &m, int32_t *ids, float *log_probabilities)
{
	const list_end end = list_find(x, n, {0, n}, (amount)count, m, [](float) -> amount { return 1; });
	if (threadIdx.x == 0)
		m.n_listed = 0;
	__syncthreads();
	for (int i = (int)threadIdx.x; i < n; i += TAIL_THREADS) {
		const uint32_t key = key_of(x[i]);
		if (!listed(end, key, i))
			continue;
		const int at = atomicAdd(&m.n_listed, 1);
		m.listed_keys[at] = key;
		m.listed_ids[at] = i;
	}
	__syncthreads();
	for (int i = (int)threadIdx.x; i < count; i += TAIL_THREADS) {
		int rank = 0;
		for (int other = 0; other < count; other++)
			rank += other != i &&
				listed({m.listed_keys[i], m.listed_ids[i]}, m.listed_keys[other], m.listed_ids[other]);
		ids[rank] = m.listed_ids[i];
		log_probabilities[rank] = log_probability(x[m.listed_ids[i]], m.softmax);
	}
}

/* ---- drawing ---- */

/* The first word of Philox4x32-10 of (position, 0) and the seed, its 24 highest bits: philox_uniform in units of
 * 2^-24. */
static __device__ uint32_t philox_uniform_bits(uint64_t seed, uint64_t position)
{
	uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), 0, 0};
	uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};

	for (int round = 0; round < 10; round++) {
		const uint64_t a = (uint64_t)counter[0] * 0xd2511f53u, b = (uint64_t)counter[2] * 0xcd9e8d57u;
		counter[0] = (uint32_t)(b >> 32) ^ counter[1] ^ key[0];
		counter[1] = (uint32_t)b;
		counter[2] = (uint32_t)(a >> 32) ^ counter[3] ^ key[1];
		counter[3] = (uint32_t)a;
		key[0] += 0x9e3779b9u;
		key[1] += 0xbb67ae85u;
	}
	return counter[0] >> 8;
}

/* Relative to the likeliest token; NaN weighs nothing. */
static __device__ __forceinline__ amount probability(float logit, float max, float temperature)
{
	const float p = exp_device((logit - max) / temperature);
	return p > 0.0f ? (amount)(p * AMOUNT_OF_ONE) : 0;
}

/* A token by sample.h's rules. One that is likeliest where the logits are not numbers: sampled_logprob tells. */
static __device__ int32_t token_draw(const float *x, int n, const struct sampling &s, uint64_t position, tail_memory &m)
{
	list_end end = {0, n};
	const float max = m.softmax.max;
	amount own = 0, total;

	if (s.temperature <= 0.0f)
		return m.softmax.argmax;
	if (s.top_k > 0 && s.top_k < n)
		end = list_find(x, n, end, (amount)s.top_k, m, [](float) -> amount { return 1; });
	const auto amount_of = [&](float logit) { return probability(logit, max, s.temperature); };
	const auto amount_at = [&](int i) { return listed(end, key_of(x[i]), i) ? amount_of(x[i]) : 0; };
	for (int i = (int)threadIdx.x; i < n; i += TAIL_THREADS)
		own += amount_at(i);
	block_sum_before(own, m, &total);
	if (total == 0)
		return m.softmax.argmax;
	if (s.top_p < 1.0f) {
		const double need = ceil((double)s.top_p * (double)total);
		end = list_find(x, n, end, need < 1.0 ? 1 : (amount)need, m, amount_of);
		own = 0;
		for (int i = (int)threadIdx.x; i < n; i += TAIL_THREADS)
			own += amount_at(i);
		block_sum_before(own, m, &total);
	}
	/* the first token with which the sum exceeds u * total, rounded down in two steps that cannot overflow */
	const amount u = philox_uniform_bits(s.seed, position), mask = (1u << 24) - 1;
	return index_find(n, u * (total >> 24) + (u * (total & mask) >> 24) + 1, m, amount_at);
}

/* ---- rows ---- */

/* PRECOND: TAIL_THREADS threads; grid.x = n_rows. */
static __global__ void __launch_bounds__(TAIL_THREADS, 1)
	tail_kernel(const struct logits_tail_args a, const softmax_chunk *chunks /* [n_rows, n_chunks] */, int n_chunks)
{
	__shared__ tail_memory m;
	const size_t row = blockIdx.x, top = row * (size_t)a.top_stride;
	const float *const x = a.logits + row * (size_t)a.vocab;
	const struct logits_request request = a.requests[row];
	struct logits_result result = {};

	row_softmax(chunks + row * (size_t)n_chunks, n_chunks, m);
	result.max = m.softmax.max;
	result.log_sum = m.softmax.log_sum;
	result.argmax = m.softmax.argmax;
	if (request.target >= 0)
		result.target_logprob = log_probability(x[request.target], m.softmax);
	if (request.sample) {
		result.sampled = token_draw(x, a.vocab, request.sampling, request.position, m);
		result.sampled_logprob = log_probability(x[result.sampled], m.softmax);
	}
	if (request.top_count > 0)
		top_store(x, a.vocab, request.top_count, m, a.top_ids + top, a.top_logprobs + top);
	if (threadIdx.x == 0)
		a.results[row] = result;
}

/* PRECOND: TAIL_THREADS threads; grid = n_rows, V / ALL_PER_BLOCK rounded up. */
static __global__ void __launch_bounds__(TAIL_THREADS) log_softmax_kernel(const struct logits_tail_args a)
{
	const size_t row = blockIdx.x;
	if (!a.requests[row].all)
		return;
	float *const x = a.logits + row * (size_t)a.vocab;
	const softmax_row s = {a.results[row].max, 0.0f, a.results[row].log_sum, 0};
#pragma unroll
	for (int k = 0; k < ALL_PER_BLOCK / TAIL_THREADS; k++) {
		const int i = (int)blockIdx.y * ALL_PER_BLOCK + k * TAIL_THREADS + (int)threadIdx.x;
		if (i < a.vocab)
			x[i] = log_probability(x[i], s);
	}
}

int logits_tail_launch(const struct logits_tail_args *a, cudaStream_t stream, struct error *e)
{
	const unsigned n_rows = (unsigned)a->n_rows;
	const int n_chunks = softmax_chunk_count(a->vocab);
	softmax_chunk *const chunks = static_cast<softmax_chunk *>(a->scratch);

	if (a->top_stride > LOGITS_TOP_MAX)
		return error_set(e, ERR_INPUT, "logits: %d likeliest tokens of a row: at most %d expected",
			a->top_stride, (int)LOGITS_TOP_MAX);
	if (a->n_rows == 0)
		return 0;
	const dim3 chunk_grid(n_rows, (unsigned)((n_chunks + CHUNKS_PER_BLOCK - 1) / CHUNKS_PER_BLOCK));
	LAUNCH(softmax_chunk_kernel, chunk_grid, CHUNK_THREADS, 0, stream, a->logits, a->vocab, n_chunks, chunks);
	TRY(launch_status(cudaGetLastError(), "logits, chunks", e));
	LAUNCH(tail_kernel, n_rows, TAIL_THREADS, 0, stream, *a, chunks, n_chunks);
	TRY(launch_status(cudaGetLastError(), "logits, rows", e));
	if (!a->any_all)
		return 0;
	const dim3 all_grid(n_rows, (unsigned)((a->vocab + ALL_PER_BLOCK - 1) / ALL_PER_BLOCK));
	LAUNCH(log_softmax_kernel, all_grid, TAIL_THREADS, 0, stream, *a);
	return launch_status(cudaGetLastError(), "logits, whole rows", e);
}
