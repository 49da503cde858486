/* Causal attention over the paged cache: one kernel for prefill, chunk and decode, and for every cache format.
 * Blocks of 64 positions counted from 0 are combined in order with a running maximum, as attend_ref does and with
 * its order of every sum, so a row's bits depend on neither the batch, the chunk nor the page size (NUMERICS section
 * 3, rule 2). */
#include "cuda/device_math.cuh"
#include "cuda/kernels.cuh"
#include "cuda/launch.cuh"

enum {
	ATTEND_WARPS = 4,
	ATTEND_THREADS = ATTEND_WARPS * WARP,
	BLOCK = ATTENTION_BLOCK,
	KEYS_PER_LANE = BLOCK / WARP,
	/* Bytes behind a cached row in shared memory: lanes that read one column of many rows meet other banks. */
	ROW_PAD = 16,
	HEAD_DIM_MAX = 128,
};

/* ---- cache formats: a pair of neighbouring values as stored, and widened ---- */

struct cache_f32 {
	enum { SIZE = 4 };
	typedef float2 pair;
	static __device__ __forceinline__ float2 widen(float2 stored)
	{
		return stored;
	}
};

struct cache_bf16 {
	enum { SIZE = 2 };
	typedef uint32_t pair;
	static __device__ __forceinline__ float2 widen(uint32_t stored)
	{
		return bf16_pair_widen(stored);
	}
};

struct cache_e4m3 {
	enum { SIZE = 1 };
	typedef uint16_t pair;
	static __device__ __forceinline__ float2 widen(uint16_t stored)
	{
		return e4m3_pair_widen(stored);
	}
};

/* COUNT neighbouring values of a cached row, widened and scaled. PRECOND: at is aligned to their bytes, or to 16. */
template <class Cache, int COUNT>
static __device__ __forceinline__ void values_read(const unsigned char *at, float scale, float out[COUNT])
{
	struct alignas(COUNT * Cache::SIZE < 16 ? COUNT * Cache::SIZE : 16) values {
		typename Cache::pair pair[COUNT / 2];
	};
	const values stored = *reinterpret_cast<const values *>(at);
#pragma unroll
	for (int i = 0; i < COUNT / 2; i++) {
		const float2 value = Cache::widen(stored.pair[i]);
		out[2 * i] = value.x * scale;
		out[2 * i + 1] = value.y * scale;
	}
}

/* ---- what a block works on ---- */

struct attend_operands {
	const float *q;                                            /* row t at q + t * q_stride: N heads of D */
	float *out;                                                /* [T, N * D] */
	const unsigned char *k, *v;                                /* [P, G, page_size, D] */
	const int32_t *cu_seqlens, *first_position, *block_tables; /* [B + 1], [B], [B, table_stride] */
	int q_stride, table_stride, n_sequences, n_heads, n_kv_heads, head_dim, page_size;
	float scale, k_scale, v_scale;
};

/* The query rows of a sequence for one kv head are its (token, head of the group) pairs, group heads of a token
 * together. A block takes TILE of them in turn. */
struct attend_tile {
	int sequence;
	int first_row, n_rows; /* of the sequence; n_rows may be <= 0: nothing to do */
};

/* Which rows the tile of that number is. Sequence b has the numbers from floor(first row of b / TILE) + b on, which
 * leaves room for a last tile that is not full; so no list of tiles is needed, and the grid depends on T and B
 * alone. */
static __device__ attend_tile tile_find(const attend_operands &p, int number, int tile_rows)
{
	const int group = p.n_heads / p.n_kv_heads;
	int low = 0, high = p.n_sequences - 1;
	while (low < high) {
		const int middle = (low + high + 1) / 2;
		if (p.cu_seqlens[middle] * group / tile_rows + middle <= number)
			low = middle;
		else
			high = middle - 1;
	}
	attend_tile tile;
	tile.sequence = low;
	const int start = p.cu_seqlens[low] * group;
	tile.first_row = (number - (start / tile_rows + low)) * tile_rows;
	const int left = p.cu_seqlens[low + 1] * group - start - tile.first_row;
	tile.n_rows = left < tile_rows ? left : tile_rows;
	return tile;
}

/* Starts the copies of one block of K or V: positions start .. start + 63 of a kv head, zeros from limit on. */
template <class Cache>
static __device__ __forceinline__ void block_load(const attend_operands &p, const unsigned char *cache,
	const int32_t *table, int start, int limit, unsigned char *to /* [BLOCK, D * SIZE + ROW_PAD] */)
{
	const int row_bytes = p.head_dim * Cache::SIZE, pieces = row_bytes / 16, head = (int)blockIdx.y;
	for (int i = (int)threadIdx.x; i < BLOCK * pieces; i += ATTEND_THREADS) {
		const int j = i / pieces, byte = i % pieces * 16, position = start + j;
		const bool valid = position < limit;
		const unsigned char *from = cache;
		if (valid) {
			const int page = table[position / p.page_size], slot = position % p.page_size;
			const size_t row = ((size_t)page * (size_t)p.n_kv_heads + (size_t)head) * (size_t)p.page_size +
				(size_t)slot;
			from += row * (size_t)row_bytes + (size_t)byte;
		}
		copy_async(to + j * (row_bytes + ROW_PAD) + byte, from, valid);
	}
}

/* Rows of a warp are row, row + ATTEND_WARPS, ... of the tile: a decode step with few rows still keeps every warp
 * busy. */
static __device__ __forceinline__ int tile_row(int i)
{
	return (int)threadIdx.x / WARP + i * ATTEND_WARPS;
}

/* score[i][h] = scale * (q of the warp's row i . key lane + 32 h): eight running sums over D, then their tree. */
template <class Cache, int ROWS>
static __device__ __forceinline__ void block_score(const attend_operands &p, const float *q_rows /* [TILE, D] */,
	const unsigned char *keys /* [BLOCK, D * SIZE + ROW_PAD] */, float score[ROWS][KEYS_PER_LANE])
{
	const int stride = p.head_dim * Cache::SIZE + ROW_PAD, lane = (int)threadIdx.x % WARP;
	float sum[ROWS][KEYS_PER_LANE][8] = {};

	for (int d = 0; d < p.head_dim; d += 8) {
		float key[KEYS_PER_LANE][8];
#pragma unroll
		for (int h = 0; h < KEYS_PER_LANE; h++)
			values_read<Cache, 8>(keys + (lane + WARP * h) * stride + d * Cache::SIZE, p.k_scale, key[h]);
#pragma unroll
		for (int i = 0; i < ROWS; i++) {
			const float4 *q = reinterpret_cast<const float4 *>(q_rows + tile_row(i) * p.head_dim + d);
			const float4 low = q[0], high = q[1];
#pragma unroll
			for (int h = 0; h < KEYS_PER_LANE; h++) {
				float *s = sum[i][h];
				const float *k = key[h];
				s[0] = fmaf(low.x, k[0], s[0]);
				s[1] = fmaf(low.y, k[1], s[1]);
				s[2] = fmaf(low.z, k[2], s[2]);
				s[3] = fmaf(low.w, k[3], s[3]);
				s[4] = fmaf(high.x, k[4], s[4]);
				s[5] = fmaf(high.y, k[5], s[5]);
				s[6] = fmaf(high.z, k[6], s[6]);
				s[7] = fmaf(high.w, k[7], s[7]);
			}
		}
	}
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
#pragma unroll
		for (int h = 0; h < KEYS_PER_LANE; h++) {
			const float *s = sum[i][h];
			score[i][h] = (((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))) * p.scale;
		}
	}
}

/* The running softmax of a warp's rows, DIMS outputs per lane. */
template <int ROWS, int DIMS> struct attend_state {
	float max[ROWS], sum[ROWS], out[ROWS][DIMS];
};

/* The scores of a block become weights in shared memory; maximum, sum and outputs move to the new maximum. Keys from
 * count[i] on do not exist for row i: a later token must not change it, whatever it holds. */
template <int ROWS, int DIMS>
static __device__ __forceinline__ void block_softmax(const float score[ROWS][KEYS_PER_LANE], const int count[ROWS],
	float *weights /* [TILE, BLOCK] */, attend_state<ROWS, DIMS> &state)
{
	const int lane = (int)threadIdx.x % WARP;
	float keep[ROWS];

#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		float new_max = state.max[i];
#pragma unroll
		for (int h = 0; h < KEYS_PER_LANE; h++)
			if (lane + WARP * h < count[i] && score[i][h] > new_max)
				new_max = score[i][h];
#pragma unroll
		for (int step = WARP / 2; step > 0; step /= 2)
			new_max = fmaxf(new_max, __shfl_xor_sync(WHOLE_WARP, new_max, step));
#pragma unroll
		for (int h = 0; h < KEYS_PER_LANE; h++) {
			const int j = lane + WARP * h;
			weights[tile_row(i) * BLOCK + j] = j < count[i] ? exp_device(score[i][h] - new_max) : 0.0f;
		}
		keep[i] = exp_device(state.max[i] - new_max);
		state.max[i] = new_max;
	}
	__syncwarp();

	/* lane 8 i + l adds the weights of keys l, l + 8, ... of row i; a tree over l follows */
	const float *const row = weights + tile_row(lane / 8 % ROWS) * BLOCK + lane % 8;
	float block_sum = 0.0f;
#pragma unroll
	for (int j = 0; j < BLOCK; j += 8)
		block_sum += row[j];
#pragma unroll
	for (int step = 4; step > 0; step /= 2)
		block_sum += __shfl_xor_sync(WHOLE_WARP, block_sum, step);
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		state.sum[i] = fmaf(state.sum[i], keep[i], __shfl_sync(WHOLE_WARP, block_sum, 8 * i));
#pragma unroll
		for (int d = 0; d < DIMS; d++)
			state.out[i][d] *= keep[i];
	}
}

/* out[i] += weight of key j * value j, keys in order. Lanes past the head do nothing. */
template <class Cache, int ROWS, int DIMS>
static __device__ __forceinline__ void block_accumulate(const attend_operands &p, const unsigned char *values,
	const float *weights /* [TILE, BLOCK] */, const int count[ROWS], int n_keys, attend_state<ROWS, DIMS> &state)
{
	const int stride = p.head_dim * Cache::SIZE + ROW_PAD, first = (int)threadIdx.x % WARP * DIMS;
	if (first >= p.head_dim)
		return;
	for (int j = 0; j < n_keys; j++) {
		float value[DIMS];
		values_read<Cache, DIMS>(values + j * stride + first * Cache::SIZE, p.v_scale, value);
#pragma unroll
		for (int i = 0; i < ROWS; i++) {
			if (j >= count[i])
				continue;
			const float weight = weights[tile_row(i) * BLOCK + j];
#pragma unroll
			for (int d = 0; d < DIMS; d++)
				state.out[i][d] = fmaf(weight, value[d], state.out[i][d]);
		}
	}
}

/* Token and head of a row of the tile, as an index of [T, N]. */
static __device__ __forceinline__ int row_index(const attend_operands &p, const attend_tile &tile, int row)
{
	const int group = p.n_heads / p.n_kv_heads, in_sequence = tile.first_row + row;
	const int token = p.cu_seqlens[tile.sequence] + in_sequence / group;
	return token * p.n_heads + (int)blockIdx.y * group + in_sequence % group;
}

static __device__ __forceinline__ int row_position(const attend_operands &p, const attend_tile &tile, int row)
{
	return p.first_position[tile.sequence] + (tile.first_row + row) / (p.n_heads / p.n_kv_heads);
}

/* The queries of a tile, zeros where it has no row. */
template <int TILE>
static __device__ __forceinline__ void rows_load(
	const attend_operands &p, const attend_tile &tile, float *q_rows /* [TILE, D] */)
{
	for (int i = (int)threadIdx.x; i < TILE * p.head_dim; i += ATTEND_THREADS) {
		const int row = i / p.head_dim, index = row < tile.n_rows ? row_index(p, tile, row) : 0;
		const size_t at = (size_t)(index / p.n_heads) * (size_t)p.q_stride +
			(size_t)(index % p.n_heads * p.head_dim + i % p.head_dim);
		q_rows[i] = row < tile.n_rows ? p.q[at] : 0.0f;
	}
}

template <int ROWS, int DIMS>
static __device__ __forceinline__ void rows_store(
	const attend_operands &p, const attend_tile &tile, const attend_state<ROWS, DIMS> &state)
{
	const int first = (int)threadIdx.x % WARP * DIMS;
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		if (tile_row(i) >= tile.n_rows || first >= p.head_dim)
			continue;
		float *const out = p.out + (size_t)row_index(p, tile, tile_row(i)) * (size_t)p.head_dim + first;
#pragma unroll
		for (int d = 0; d < DIMS; d++)
			out[d] = state.out[i][d] / state.sum[i];
	}
}

/* Bytes: q [TILE, D] f32 | weights [TILE, BLOCK] f32 | keys, values [BLOCK, D * SIZE + ROW_PAD] each. */
static inline size_t attend_shared_bytes(int tile_rows, int head_dim, int value_size)
{
	return (size_t)tile_rows * (size_t)(head_dim + BLOCK) * sizeof(float) +
		2 * (size_t)BLOCK * (size_t)(head_dim * value_size + ROW_PAD);
}

/* Keys of the next block travel while this block's values are used, values while the scores are made: one buffer of
 * each will do. PRECOND: ATTEND_THREADS threads; grid = T * group / TILE + B, G; attend_shared_bytes of dynamic
 * shared memory; D % 16 == 0, D <= 32 DIMS. TILE = ATTEND_WARPS * ROWS. */
template <class Cache, int ROWS, int DIMS>
static __global__ void __launch_bounds__(ATTEND_THREADS) attend_kernel(const attend_operands p)
{
	enum { TILE = ATTEND_WARPS * ROWS };
	DYNAMIC_SHARED(shared);
	float *const q_rows = reinterpret_cast<float *>(shared), *const weights = q_rows + TILE * p.head_dim;
	unsigned char *const keys = reinterpret_cast<unsigned char *>(weights + TILE * BLOCK);
	unsigned char *const values = keys + BLOCK * (p.head_dim * Cache::SIZE + ROW_PAD);

	const attend_tile tile = tile_find(p, (int)blockIdx.x, TILE);
	if (tile.n_rows <= 0)
		return;
	const int32_t *const table = p.block_tables + (size_t)tile.sequence * (size_t)p.table_stride;
	const int limit = row_position(p, tile, tile.n_rows - 1) + 1; /* positions that some row sees */

	block_load<Cache>(p, p.k, table, 0, limit, keys);
	copy_commit();
	block_load<Cache>(p, p.v, table, 0, limit, values);
	copy_commit();
	rows_load<TILE>(p, tile, q_rows);

	attend_state<ROWS, DIMS> state = {};
#pragma unroll
	for (int i = 0; i < ROWS; i++)
		state.max[i] = __uint_as_float(0xff800000u); /* -infinity */
	for (int start = 0; start < limit; start += BLOCK) {
		float score[ROWS][KEYS_PER_LANE];
		int count[ROWS]; /* keys of this block that row i sees; <= 0: none, nothing changes */
#pragma unroll
		for (int i = 0; i < ROWS; i++)
			count[i] = row_position(p, tile, tile_row(i)) + 1 - start;

		copy_wait<1>();
		__syncthreads(); /* keys, and q the first time, are there for all */
		block_score<Cache, ROWS>(p, q_rows, keys, score);
		__syncthreads(); /* all are done with the keys */
		block_load<Cache>(p, p.k, table, start + BLOCK, limit, keys);
		copy_commit();

		block_softmax<ROWS, DIMS>(score, count, weights, state);
		copy_wait<1>();
		__syncthreads(); /* values are there for all */
		block_accumulate<Cache, ROWS, DIMS>(
			p, values, weights, count, limit - start < BLOCK ? limit - start : BLOCK, state);
		__syncthreads(); /* all are done with the values */
		block_load<Cache>(p, p.v, table, start + BLOCK, limit, values);
		copy_commit();
	}
	rows_store<ROWS, DIMS>(p, tile, state);
}

/* ---- launch ---- */

template <class Cache, int ROWS, int DIMS>
static int rows_launch(const attend_operands *p, int n_tokens, cudaStream_t stream, struct error *e)
{
	const int tile_rows = ATTEND_WARPS * ROWS, group = p->n_heads / p->n_kv_heads;
	const size_t bytes = attend_shared_bytes(tile_rows, p->head_dim, Cache::SIZE);
	const dim3 grid((unsigned)(n_tokens * group / tile_rows + p->n_sequences), (unsigned)p->n_kv_heads);
	auto *const kernel = attend_kernel<Cache, ROWS, DIMS>;

	TRY(launch_allow_shared(kernel, bytes, "attend", e));
	LAUNCH(kernel, grid, ATTEND_THREADS, bytes, stream, *p);
	return launch_status(cudaGetLastError(), "attend", e);
}

/* As many rows per warp as a sequence has on average, so that a decode step does no work for rows that do not exist. */
template <class Cache, int DIMS>
static int dims_launch(const attend_operands *p, int n_tokens, cudaStream_t stream, struct error *e)
{
	const int n_rows = n_tokens * (p->n_heads / p->n_kv_heads), per_step = ATTEND_WARPS * p->n_sequences;
	if (n_rows <= per_step)
		return rows_launch<Cache, 1, DIMS>(p, n_tokens, stream, e);
	if (n_rows <= 2 * per_step)
		return rows_launch<Cache, 2, DIMS>(p, n_tokens, stream, e);
	return rows_launch<Cache, 4, DIMS>(p, n_tokens, stream, e);
}

template <class Cache>
static int cache_launch(const attend_operands *p, int n_tokens, cudaStream_t stream, struct error *e)
{
	return p->head_dim <= 2 * WARP ? dims_launch<Cache, 2>(p, n_tokens, stream, e)
				       : dims_launch<Cache, 4>(p, n_tokens, stream, e);
}

int attend_launch(const struct attend_args *a, cudaStream_t stream, struct error *e)
{
	const struct kv_geometry *g = &a->geometry;
	attend_operands p = {};

	if (g->head_dim % 16 != 0 || g->head_dim < 16 || g->head_dim > HEAD_DIM_MAX)
		return error_set(e, ERR_INPUT, "attend: head size %d: a multiple of 16 up to %d expected", g->head_dim,
			(int)HEAD_DIM_MAX);
	if (a->n_tokens == 0)
		return 0;
	p.q = a->q;
	p.out = a->out;
	p.k = static_cast<const unsigned char *>(a->layer.k);
	p.v = static_cast<const unsigned char *>(a->layer.v);
	p.cu_seqlens = a->cu_seqlens;
	p.first_position = a->first_position;
	p.block_tables = a->block_tables;
	p.q_stride = a->q_stride;
	p.table_stride = a->table_stride;
	p.n_sequences = a->n_sequences;
	p.n_heads = a->n_heads;
	p.n_kv_heads = g->n_kv_heads;
	p.head_dim = g->head_dim;
	p.page_size = g->page_size;
	p.scale = a->scale;
	p.k_scale = a->layer.k_scale;
	p.v_scale = a->layer.v_scale;
	switch (a->layer.format) {
	case KV_F32:
		return cache_launch<cache_f32>(&p, a->n_tokens, stream, e);
	case KV_BF16:
		return cache_launch<cache_bf16>(&p, a->n_tokens, stream, e);
	case KV_E4M3:
		return cache_launch<cache_e4m3>(&p, a->n_tokens, stream, e);
	}
	return error_set(e, ERR_INPUT, "attend: cache format %d is unknown", (int)a->layer.format);
}
