/* What happens to queries, keys and values between their product and attention: bias, norm, rotation, the cache. Every
 * sum and product is the reference's, in its order. */
#include "cuda/kernels.cuh"
#include "cuda/kv_format.cuh"
#include "cuda/launch.cuh"

/* ---- rope table ---- */

enum { TABLE_THREADS = 128 };

/* The CPU's det_sincos, operation by operation: reduction by pi/2 in three parts, then Taylor. |x| < 1.6e6. */
static __device__ void sincos_device(double x, double *sine, double *cosine)
{
	const double half_pi_1 = 0x1.921fb544p+0, half_pi_2 = 0x1.0b4611a6p-34, half_pi_3 = 0x1.3198a2e037073p-69;
	const double q = rint(x * 0x1.45f306dc9c883p-1);
	const double r = ((x - q * half_pi_1) - q * half_pi_2) - q * half_pi_3, z = r * r;
	double s = 1.0, c = 1.0;

	for (int n = 18; n >= 2; n -= 2) {
		s = 1.0 - s * z / (double)(n * (n + 1));
		c = 1.0 - c * z / (double)((n - 1) * n);
	}
	s *= r;
	const int quarter = (int)((int64_t)q & 3);
	const double first = quarter % 2 == 0 ? s : c, second = quarter % 2 == 0 ? c : s;
	*sine = quarter < 2 ? first : -first;
	*cosine = quarter == 0 || quarter == 3 ? second : -second;
}

/* A thread per angle. */
static __global__ void __launch_bounds__(TABLE_THREADS) rope_table_kernel(const int32_t *positions /* [T] */,
	const float *inverse_frequencies /* [half] */, int n_tokens, int half, float *table /* [T, 2 half] */)
{
	const size_t i = (size_t)blockIdx.x * TABLE_THREADS + threadIdx.x;
	if (i >= (size_t)n_tokens * (size_t)half)
		return;
	const size_t t = i / (size_t)half, k = i % (size_t)half;
	double sine, cosine;
	sincos_device((double)((float)positions[t] * inverse_frequencies[k]), &sine, &cosine);
	float *const row = table + 2 * t * (size_t)half;
	row[k] = (float)cosine;
	row[(size_t)half + k] = (float)sine;
}

int rope_table_launch(const struct rope_table_args *a, cudaStream_t stream, struct error *e)
{
	const int half = a->rotary_dim / 2;
	const size_t angles = (size_t)a->n_tokens * (size_t)half;
	if (angles == 0)
		return 0;
	LAUNCH(rope_table_kernel, (unsigned)((angles + TABLE_THREADS - 1) / TABLE_THREADS), TABLE_THREADS, 0, stream,
		a->positions, a->inverse_frequencies, a->n_tokens, half, a->table);
	return launch_status(cudaGetLastError(), "rope table", e);
}

/* ---- qkv finish ---- */

enum { QKV_WARPS = 4, QKV_THREADS = QKV_WARPS * WARP };

/* x = weight * (x / rms), the sum of squares in eight lanes and their tree, which four groups of lanes each make. A
 * whole warp calls; x is shared memory that it sees. */
static __device__ __forceinline__ void head_norm(float *x /* [D] */, const float *weight, int head_dim, float eps)
{
	const int lane = (int)threadIdx.x % WARP;
	float sum = 0.0f;
	for (int i = lane % 8; i < head_dim; i += 8)
		sum = fmaf(x[i], x[i], sum);
	for (int step = 4; step > 0; step /= 2) /* all lanes come here, so all have read x */
		sum += __shfl_xor_sync(WHOLE_WARP, sum, step);
	const float r = 1.0f / sqrtf(sum / (float)head_dim + eps);
	for (int i = lane; i < head_dim; i += WARP)
		x[i] = weight[i] * (x[i] * r);
	__syncwarp();
}

static __device__ __forceinline__ void head_rotate(
	float *x /* [D] */, const float *table /* [R] */, int rotary_dim, bool interleaved)
{
	const int half = rotary_dim / 2;
	for (int i = (int)threadIdx.x % WARP; i < half; i += WARP) {
		const int first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + half;
		const float a = x[first], b = x[second], c = table[i], s = table[half + i];
		x[first] = a * c - b * s;
		x[second] = b * c + a * s;
	}
	__syncwarp();
}

/* A head of K or V to its slot. */
template <class Cache>
static __device__ __forceinline__ void head_store(
	const struct qkv_finish_args &p, const float *x /* [D] */, int token, int kv_head, bool is_key)
{
	const struct kv_geometry &g = p.geometry;
	const int64_t page = p.slots[token] / g.page_size, offset = p.slots[token] % g.page_size;
	const size_t row =
		((size_t)page * (size_t)g.n_kv_heads + (size_t)kv_head) * (size_t)g.page_size + (size_t)offset;
	typename Cache::value *const to =
		static_cast<typename Cache::value *>(is_key ? p.layer.k : p.layer.v) + row * (size_t)g.head_dim;
	const float scale = is_key ? p.layer.k_scale : p.layer.v_scale;
	unsigned clipped = 0;
	for (int i = (int)threadIdx.x % WARP; i < g.head_dim; i += WARP)
		clipped += cache_store<Cache>(to + i, x[i], scale);
	saturated_add(p.saturated, clipped);
}

/* A warp per head of a token. PRECOND: QKV_THREADS threads; grid = T, ceil((N + 2G) / QKV_WARPS); QKV_WARPS * D floats
 * of dynamic shared memory. */
template <class Cache>
static __global__ void __launch_bounds__(QKV_THREADS) qkv_finish_kernel(const struct qkv_finish_args p)
{
	DYNAMIC_SHARED(shared);
	const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
	const int n_kv = p.geometry.n_kv_heads, dim = p.geometry.head_dim, n_all = p.n_heads + 2 * n_kv;
	const int head = (int)blockIdx.y * QKV_WARPS + warp, token = (int)blockIdx.x;
	if (head >= n_all)
		return;
	float *const x = reinterpret_cast<float *>(shared) + warp * dim;
	float *const row = p.qkv + ((size_t)token * (size_t)n_all + (size_t)head) * (size_t)dim;

	for (int i = lane; i < dim; i += WARP)
		x[i] = p.bias ? row[i] + p.bias[head * dim + i] : row[i];
	__syncwarp();
	if (head < p.n_heads + n_kv) {
		const float *const norm = head < p.n_heads ? p.q_norm : p.k_norm;
		if (norm)
			head_norm(x, norm, dim, p.norm_eps);
		head_rotate(x, p.rope + (size_t)token * (size_t)p.rotary_dim, p.rotary_dim, p.rope_interleaved);
	}
	for (int i = lane; i < dim; i += WARP)
		row[i] = x[i];
	if (head >= p.n_heads) {
		const int kv_head = head - p.n_heads;
		head_store<Cache>(p, x, token, kv_head % n_kv, kv_head < n_kv);
	}
}

template <class Cache>
static int qkv_cache_launch(const struct qkv_finish_args *a, cudaStream_t stream, struct error *e)
{
	const int n_all = a->n_heads + 2 * a->geometry.n_kv_heads;
	const size_t bytes = QKV_WARPS * (size_t)a->geometry.head_dim * sizeof(float);
	const dim3 grid((unsigned)a->n_tokens, (unsigned)((n_all + QKV_WARPS - 1) / QKV_WARPS));
	auto *const kernel = qkv_finish_kernel<Cache>;

	TRY(launch_allow_shared(kernel, bytes, "qkv finish", e));
	LAUNCH(kernel, grid, QKV_THREADS, bytes, stream, *a);
	return launch_status(cudaGetLastError(), "qkv finish", e);
}

int qkv_finish_launch(const struct qkv_finish_args *a, cudaStream_t stream, struct error *e)
{
	if (a->n_tokens == 0)
		return 0;
	switch (a->layer.format) {
	case KV_F32:
		return qkv_cache_launch<cache_f32>(a, stream, e);
	case KV_BF16:
		return qkv_cache_launch<cache_bf16>(a, stream, e);
	case KV_E4M3:
		return qkv_cache_launch<cache_e4m3>(a, stream, e);
	}
	return error_set(e, ERR_INPUT, "qkv finish: cache format %d is unknown", (int)a->layer.format);
}
