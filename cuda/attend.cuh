/* Causal attention over the paged cache: one kernel for prefill, chunk and decode, for every cache format, and for
 * latent rows, whose values are the first part of their keys.
 *
 * Blocks of 64 positions counted from 0 are combined in order with a running maximum, as attend_ref does and with its
 * order of every sum. Each ATTEND_SPLIT positions counted from 0 have a running softmax of their own, and these are
 * combined in order: so several blocks may share the positions of a row without another result. A row's bits depend
 * on neither the batch, the chunk, the page size nor the grid (NUMERICS section 3, rule 2). */
#ifndef ASSAY_CUDA_ATTEND_CUH
#define ASSAY_CUDA_ATTEND_CUH

#include "cuda/kernels.cuh"
#include "cuda/kv_format.cuh"
#include "cuda/launch.cuh"

enum {
	ATTEND_WARPS = 4,
	ATTEND_THREADS = ATTEND_WARPS * WARP,
	ATTEND_SPLIT = 256,  /* positions of one running softmax */
	ATTEND_RESIDENT = 2, /* blocks of a multiprocessor at least: registers enough for each of its threads */
	KEYS_PER_LANE = ATTENTION_BLOCK / WARP,
	/* Bytes behind a cached row in shared memory: lanes that read one column of many rows meet other banks. */
	ROW_PAD = 16,
};

/* ---- what a block works on ---- */

struct attend_operands {
	const float *q;                                            /* row t at q + t * q_stride: N heads of key_dim */
	float *out;                                                /* [T, N * value_dim] */
	const unsigned char *k, *v;                                /* [P, G, page_size, key_dim] */
	const int32_t *cu_seqlens, *first_position, *block_tables; /* [B + 1], [B], [B, table_stride] */
	int q_stride, table_stride, n_tokens, n_sequences, n_heads, n_kv_heads, key_dim, value_dim, page_size;
	float scale, k_scale, v_scale;
	/* Where blocks share positions, what each split found goes here; else NULL. */
	float *split_out;    /* [splits, T * N, value_dim] */
	float2 *split_state; /* [splits, T * N] maximum, sum */
	int32_t *split_used; /* [T * N] splits that the row sees */
};

/* Values of a row in shared memory: whole groups of eight, zeros behind its end, which change no sum. */
static __host__ __device__ __forceinline__ int padded_dim(int dim)
{
	return (dim + 7) / 8 * 8;
}

/* Bytes of a cached row in shared memory. */
template <class Cache> static __host__ __device__ __forceinline__ int row_stride(int dim)
{
	return padded_dim(dim) * Cache::SIZE + ROW_PAD;
}

/* The query rows of a sequence for one kv head are its (token, head of the group) pairs, group heads of a token
 * together. A block takes TILE of them in turn. */
struct attend_tile {
	int sequence;
	int first_row, n_rows; /* of the sequence; n_rows may be <= 0: nothing to do */
};

/* Which rows the tile of that number is. Sequence b has the numbers from floor(first row of b / TILE) + b on, which
 * leaves room for a last tile that is not full; so no list of tiles is needed, and the grid depends on T and B
 * alone. */
static __device__ __forceinline__ attend_tile tile_find(const attend_operands &p, int number, int tile_rows)
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

/* Rows of a warp are row, row + ATTEND_WARPS, ... of the tile: a decode step with few rows still keeps every warp
 * busy. */
static __device__ __forceinline__ int tile_row(int i)
{
	return (int)threadIdx.x / WARP + i * ATTEND_WARPS;
}

/* ---- loads ---- */

/* The queries of a tile, zeros where it has no row and behind a row's end. */
template <int TILE>
static __device__ __forceinline__ void queries_load(
	const attend_operands &p, const attend_tile &tile, float *queries /* [TILE, padded] */)
{
	const int padded = padded_dim(p.key_dim);
	for (int i = (int)threadIdx.x; i < TILE * padded; i += ATTEND_THREADS) {
		const int row = i / padded, d = i % padded;
		const bool valid = row < tile.n_rows && d < p.key_dim;
		const int index = valid ? row_index(p, tile, row) : 0;
		const size_t at =
			(size_t)(index / p.n_heads) * (size_t)p.q_stride + (size_t)(index % p.n_heads * p.key_dim + d);
		queries[i] = valid ? p.q[at] : 0.0f;
	}
}

/* Where a position's row of the kv head of this block lies in the cache. */
template <class Cache>
static __device__ __forceinline__ size_t cached_row(const attend_operands &p, const int32_t *table, int position)
{
	const int page = table[position / p.page_size], slot = position % p.page_size;
	const size_t row =
		((size_t)page * (size_t)p.n_kv_heads + (size_t)blockIdx.y) * (size_t)p.page_size + (size_t)slot;
	return row * (size_t)(p.key_dim * Cache::SIZE);
}

/* One block of K or V: positions start .. start + 63 of a kv head, zeros from limit on. Copies are only started where
 * rows are whole pieces of 16 bytes. */
template <class Cache>
static __device__ __forceinline__ void block_load(const attend_operands &p, const unsigned char *cache,
	const int32_t *table, int start, int limit, unsigned char *to /* [64, row_stride] */)
{
	const int stride = row_stride<Cache>(p.key_dim), row_bytes = p.key_dim * Cache::SIZE;
	if (row_bytes % 16 == 0 && p.key_dim % 8 == 0) {
		const int pieces = row_bytes / 16;
		for (int i = (int)threadIdx.x; i < ATTENTION_BLOCK * pieces; i += ATTEND_THREADS) {
			const int j = i / pieces, byte = i % pieces * 16;
			const bool valid = start + j < limit;
			const unsigned char *from = cache;
			if (valid)
				from += cached_row<Cache>(p, table, start + j) + (size_t)byte;
			copy_async(to + j * stride + byte, from, valid);
		}
		return;
	}
	typedef typename Cache::value value;
	const int padded = padded_dim(p.key_dim);
	for (int i = (int)threadIdx.x; i < ATTENTION_BLOCK * padded; i += ATTEND_THREADS) {
		const int j = i / padded, d = i % padded;
		value stored = 0;
		if (start + j < limit && d < p.key_dim)
			stored = reinterpret_cast<const value *>(cache + cached_row<Cache>(p, table, start + j))[d];
		reinterpret_cast<value *>(to + j * stride)[d] = stored;
	}
}

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

/* ---- a block of positions ---- */

/* score[i][h] = scale * (q of the warp's row i . key lane + 32 h): eight running sums over D, then their tree. */
template <class Cache, int ROWS>
static __device__ __forceinline__ void block_score(const attend_operands &p, const float *queries /* [TILE, padded] */,
	const unsigned char *keys /* [64, row_stride] */, float score[ROWS][KEYS_PER_LANE])
{
	const int padded = padded_dim(p.key_dim), stride = row_stride<Cache>(p.key_dim), lane = (int)threadIdx.x % WARP;
	float sum[ROWS][KEYS_PER_LANE][8] = {};

	for (int d = 0; d < padded; d += 8) {
		float key[KEYS_PER_LANE][8];
#pragma unroll
		for (int h = 0; h < KEYS_PER_LANE; h++)
			values_read<Cache, 8>(keys + (lane + WARP * h) * stride + d * Cache::SIZE, p.k_scale, key[h]);
#pragma unroll
		for (int i = 0; i < ROWS; i++) {
			const float4 *q = reinterpret_cast<const float4 *>(queries + tile_row(i) * padded + d);
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

template <int ROWS, int DIMS> static __device__ __forceinline__ void state_reset(attend_state<ROWS, DIMS> &state)
{
	state = {};
#pragma unroll
	for (int i = 0; i < ROWS; i++)
		state.max[i] = __uint_as_float(0xff800000u); /* -infinity */
}

/* A lane's outputs are DIMS / VECTOR runs of VECTOR values: lanes that read them together meet other banks. */
template <int DIMS> struct lane_outputs {
	enum { VECTOR = DIMS < 4 ? DIMS : 4, RUNS = DIMS / VECTOR };
	static __device__ __forceinline__ int first(int run)
	{
		return (run * WARP + (int)threadIdx.x % WARP) * VECTOR;
	}
};

/* The scores of a block become weights in shared memory; maximum, sum and outputs move to the new maximum. Keys from
 * count[i] on do not exist for row i: a later token must not change it, whatever it holds. */
template <int ROWS, int DIMS>
static __device__ __forceinline__ void block_softmax(const float score[ROWS][KEYS_PER_LANE], const int count[ROWS],
	float *weights /* [TILE, 64] */, attend_state<ROWS, DIMS> &state)
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
			weights[tile_row(i) * ATTENTION_BLOCK + j] =
				j < count[i] ? exp_device(score[i][h] - new_max) : 0.0f;
		}
		keep[i] = count[i] > 0 ? exp_device(state.max[i] - new_max) : 1.0f;
		state.max[i] = new_max;
	}
	__syncwarp();

	/* lane 8 i + l adds the weights of keys l, l + 8, ... of row i; a tree over l follows */
	const float *const row = weights + tile_row(lane / 8 % ROWS) * ATTENTION_BLOCK + lane % 8;
	float block_sum = 0.0f;
#pragma unroll
	for (int j = 0; j < ATTENTION_BLOCK; j += 8)
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

/* out[i] += weight of key j * value j, keys in order. Lanes past the row's end do nothing. */
template <class Cache, int ROWS, int DIMS>
static __device__ __forceinline__ void block_accumulate(const attend_operands &p,
	const unsigned char *values /* [64, row_stride] */, const float *weights /* [TILE, 64] */,
	const int count[ROWS], int n_keys, attend_state<ROWS, DIMS> &state)
{
	typedef lane_outputs<DIMS> lanes;
	const int stride = row_stride<Cache>(p.key_dim);
	for (int j = 0; j < n_keys; j++) {
		float value[DIMS] = {};
#pragma unroll
		for (int run = 0; run < lanes::RUNS; run++)
			if (lanes::first(run) < p.value_dim)
				values_read<Cache, lanes::VECTOR>(values + j * stride + lanes::first(run) * Cache::SIZE,
					p.v_scale, value + run * lanes::VECTOR);
#pragma unroll
		for (int i = 0; i < ROWS; i++) {
			if (j >= count[i])
				continue;
			const float weight = weights[tile_row(i) * ATTENTION_BLOCK + j];
#pragma unroll
			for (int d = 0; d < DIMS; d++)
				state.out[i][d] = fmaf(weight, value[d], state.out[i][d]);
		}
	}
}

/* ---- splits ---- */

/* What a split found joins what those before it found. */
struct split_weights {
	float max, keep, add;
};

static __device__ __forceinline__ split_weights split_join(float total_max, float max)
{
	split_weights w;
	w.max = max > total_max ? max : total_max;
	w.keep = exp_device(total_max - w.max);
	w.add = exp_device(max - w.max);
	return w;
}

/* total becomes that of the splits up to and with the one of `start`. Rows that see none of it stay as they are. */
template <int ROWS, int DIMS>
static __device__ __forceinline__ void split_end(const attend_operands &p, const attend_tile &tile, int start,
	bool first, const attend_state<ROWS, DIMS> &state, attend_state<ROWS, DIMS> &total)
{
	if (first) {
		total = state;
		return;
	}
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		if (row_position(p, tile, tile_row(i)) < start / ATTEND_SPLIT * ATTEND_SPLIT)
			continue;
		const split_weights w = split_join(total.max[i], state.max[i]);
		total.max[i] = w.max;
		total.sum[i] = fmaf(state.sum[i], w.add, total.sum[i] * w.keep);
#pragma unroll
		for (int d = 0; d < DIMS; d++)
			total.out[i][d] = fmaf(state.out[i][d], w.add, total.out[i][d] * w.keep);
	}
}

/* The rows of a tile to out, or what a split found to what split_combine_kernel reads. */
template <int ROWS, int DIMS>
static __device__ __forceinline__ void rows_store(
	const attend_operands &p, const attend_tile &tile, int split, const attend_state<ROWS, DIMS> &state)
{
	typedef lane_outputs<DIMS> lanes;
	const size_t n_rows = (size_t)p.n_tokens * (size_t)p.n_heads;
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		if (tile_row(i) >= tile.n_rows)
			continue;
		const size_t row = (size_t)row_index(p, tile, tile_row(i)), at_split = (size_t)split * n_rows + row;
		float *out = p.out + row * (size_t)p.value_dim;
		float divisor = state.sum[i];
		if (p.split_out) {
			const int used = row_position(p, tile, tile_row(i)) / ATTEND_SPLIT + 1;
			if (split >= used)
				continue;
			if (threadIdx.x % WARP == 0) {
				p.split_state[at_split] = make_float2(state.max[i], state.sum[i]);
				if (split == 0)
					p.split_used[row] = used;
			}
			out = p.split_out + at_split * (size_t)p.value_dim;
			divisor = 1.0f;
		}
#pragma unroll
		for (int d = 0; d < DIMS; d++) {
			const int at = lanes::first(d / lanes::VECTOR) + d % lanes::VECTOR;
			if (at < p.value_dim)
				out[at] = state.out[i][d] / divisor;
		}
	}
}

/* A block per row of [T, N]: its splits in order. PRECOND: ATTEND_THREADS threads; grid = T * N. */
static __global__ void __launch_bounds__(ATTEND_THREADS) split_combine_kernel(const attend_operands p)
{
	const size_t row = (size_t)blockIdx.x, n_rows = (size_t)p.n_tokens * (size_t)p.n_heads;
	const int n_splits = p.split_used[row];
	for (int d = (int)threadIdx.x; d < p.value_dim; d += ATTEND_THREADS) {
		float2 total = p.split_state[row];
		float out = p.split_out[row * (size_t)p.value_dim + (size_t)d];
		for (int i = 1; i < n_splits; i++) {
			const size_t at = (size_t)i * n_rows + row;
			const float2 state = p.split_state[at];
			const split_weights w = split_join(total.x, state.x);
			total = make_float2(w.max, fmaf(state.y, w.add, total.y * w.keep));
			out = fmaf(p.split_out[at * (size_t)p.value_dim + (size_t)d], w.add, out * w.keep);
		}
		p.out[row * (size_t)p.value_dim + (size_t)d] = out / total.y;
	}
}

/* ---- the kernel ---- */

/* Bytes: queries [TILE, padded] f32 | weights [TILE, 64] f32 | keys, and values but for latent rows, [64, row_stride]
 * each. */
template <class Cache> static inline size_t attend_shared_bytes(int tile_rows, int key_dim, bool latent)
{
	return (size_t)tile_rows * (size_t)(padded_dim(key_dim) + ATTENTION_BLOCK) * sizeof(float) +
		(latent ? 1 : 2) * (size_t)ATTENTION_BLOCK * (size_t)row_stride<Cache>(key_dim);
}

/* What a block holds in shared memory. For latent rows values are the keys. */
struct attend_buffers {
	float *queries, *weights;
	unsigned char *keys, *values;
};

/* Positions first .. limit - 1 for the rows of a tile. Keys of the next block travel while this block's values are
 * used, values while the scores are made: one buffer of each will do; latent rows are both, and wait. */
template <class Cache, int ROWS, int DIMS, bool LATENT>
static __device__ __forceinline__ void positions_attend(const attend_operands &p, const attend_tile &tile,
	const attend_buffers &buffers, int first, int limit, attend_state<ROWS, DIMS> &total)
{
	enum { PENDING = LATENT ? 0 : 1 };
	const int32_t *const table = p.block_tables + (size_t)tile.sequence * (size_t)p.table_stride;
	attend_state<ROWS, DIMS> state;
	state_reset(state);
	state_reset(total);

	if (!LATENT) {
		block_load<Cache>(p, p.k, table, first, limit, buffers.keys);
		copy_commit();
	}
	block_load<Cache>(p, p.v, table, first, limit, buffers.values);
	copy_commit();
	for (int start = first; start < limit; start += ATTENTION_BLOCK) {
		const int next = start + ATTENTION_BLOCK;
		float score[ROWS][KEYS_PER_LANE];
		int count[ROWS]; /* keys of this block that row i sees; <= 0: none, nothing changes */
#pragma unroll
		for (int i = 0; i < ROWS; i++)
			count[i] = row_position(p, tile, tile_row(i)) + 1 - start;

		copy_wait<PENDING>();
		__syncthreads(); /* keys, and q the first time, are there for all */
		block_score<Cache, ROWS>(p, buffers.queries, buffers.keys, score);
		if (!LATENT) {
			__syncthreads(); /* all are done with the keys */
			block_load<Cache>(p, p.k, table, next, limit, buffers.keys);
			copy_commit();
		}
		block_softmax<ROWS, DIMS>(score, count, buffers.weights, state);
		if (!LATENT) {
			copy_wait<PENDING>();
			__syncthreads(); /* values are there for all */
		}
		block_accumulate<Cache, ROWS, DIMS>(p, buffers.values, buffers.weights, count,
			limit - start < ATTENTION_BLOCK ? limit - start : ATTENTION_BLOCK, state);
		__syncthreads(); /* all are done with the values */
		block_load<Cache>(p, p.v, table, next, limit, buffers.values);
		copy_commit();

		if (next % ATTEND_SPLIT == 0 || next >= limit) {
			split_end(p, tile, start, start - first < ATTEND_SPLIT, state, total);
			state_reset(state);
		}
	}
	copy_wait<0>(); /* before the buffers are loaded anew */
}

/* A block takes all positions of its tile, or, where blocks share them, each gridDim.z-th split. PRECOND:
 * ATTEND_THREADS threads; grid = T * group / TILE + B, G, blocks that share; attend_shared_bytes of dynamic shared
 * memory; value_dim <= 32 DIMS. TILE = ATTEND_WARPS * ROWS. */
template <class Cache, int ROWS, int DIMS, bool LATENT>
static __global__ void __launch_bounds__(ATTEND_THREADS, ATTEND_RESIDENT) attend_kernel(const attend_operands p)
{
	enum { TILE = ATTEND_WARPS * ROWS };
	DYNAMIC_SHARED(shared);
	attend_buffers buffers;
	buffers.queries = reinterpret_cast<float *>(shared);
	buffers.weights = buffers.queries + TILE * padded_dim(p.key_dim);
	buffers.keys = reinterpret_cast<unsigned char *>(buffers.weights + TILE * ATTENTION_BLOCK);
	buffers.values = LATENT ? buffers.keys : buffers.keys + ATTENTION_BLOCK * row_stride<Cache>(p.key_dim);

	const attend_tile tile = tile_find(p, (int)blockIdx.x, TILE);
	if (tile.n_rows <= 0)
		return;
	const int seen = row_position(p, tile, tile.n_rows - 1) + 1; /* positions that some row sees */
	const int length = p.split_out ? ATTEND_SPLIT : seen, step = p.split_out ? (int)gridDim.z * length : length;

	queries_load<TILE>(p, tile, buffers.queries);
	for (int first = (int)blockIdx.z * length; first < seen; first += step) {
		attend_state<ROWS, DIMS> total;
		positions_attend<Cache, ROWS, DIMS, LATENT>(
			p, tile, buffers, first, first + length < seen ? first + length : seen, total);
		rows_store(p, tile, first / ATTEND_SPLIT, total);
	}
}

/* ---- launch ---- */

template <class Cache, int ROWS, int DIMS, bool LATENT>
static int attend_rows_launch(const attend_operands *p, int n_sharing, cudaStream_t stream, struct error *e)
{
	const char *const what = LATENT ? "latent attend" : "attend";
	const int tile_rows = ATTEND_WARPS * ROWS, group = p->n_heads / p->n_kv_heads;
	const size_t bytes = attend_shared_bytes<Cache>(tile_rows, p->key_dim, LATENT);
	const dim3 grid((unsigned)(p->n_tokens * group / tile_rows + p->n_sequences), (unsigned)p->n_kv_heads,
		(unsigned)n_sharing);
	auto *const kernel = attend_kernel<Cache, ROWS, DIMS, LATENT>;

	TRY(launch_allow_shared(kernel, bytes, what, e));
	LAUNCH(kernel, grid, ATTEND_THREADS, bytes, stream, *p);
	if (p->split_out)
		LAUNCH(split_combine_kernel, (unsigned)(p->n_tokens * p->n_heads), ATTEND_THREADS, 0, stream, *p);
	return launch_status(cudaGetLastError(), what, e);
}

/* As many rows per warp as a sequence has on average, so that a decode step does no work for rows that do not exist.
 * Wide rows leave registers for two. */
template <class Cache, int DIMS, bool LATENT>
static int attend_dims_launch(const attend_operands *p, int n_sharing, cudaStream_t stream, struct error *e)
{
	enum { ROWS_MOST = DIMS > 4 || LATENT ? 2 : 4 };
	const int n_rows = p->n_tokens * (p->n_heads / p->n_kv_heads), per_step = ATTEND_WARPS * p->n_sequences;
	if (n_rows <= per_step)
		return attend_rows_launch<Cache, 1, DIMS, LATENT>(p, n_sharing, stream, e);
	if (n_rows <= 2 * per_step)
		return attend_rows_launch<Cache, 2, DIMS, LATENT>(p, n_sharing, stream, e);
	return attend_rows_launch<Cache, ROWS_MOST, DIMS, LATENT>(p, n_sharing, stream, e);
}

/* ---- scratch of splits ---- */

/* Two blocks for each multiprocessor of the largest GPUs: with so many there is no use in more that share. */
enum { ATTEND_BUSY_BLOCKS = 2 * 148, ATTEND_MOST_BLOCKS = 2 * ATTEND_BUSY_BLOCKS };

/* Of a step that is not split, at most. */
static inline int64_t attend_block_count(const attend_operands *p)
{
	const int group = p->n_heads / p->n_kv_heads;
	return ((int64_t)p->n_tokens * group / ATTEND_WARPS + p->n_sequences) * p->n_kv_heads;
}

/* How many splits a row's positions are; 1: blocks are not to share them. The tables bound what a sequence holds. */
static inline int attend_split_count(const attend_operands *p)
{
	const int64_t positions = (int64_t)p->table_stride * p->page_size;
	if (attend_block_count(p) >= ATTEND_BUSY_BLOCKS || p->n_tokens == 0)
		return 1;
	return (int)((positions + ATTEND_SPLIT - 1) / ATTEND_SPLIT);
}

/* How many blocks share a row's positions: more than there are splits, or than keep a GPU busy, would be in vain. */
static inline int attend_sharing(const attend_operands *p)
{
	const int64_t splits = attend_split_count(p), room = ATTEND_MOST_BLOCKS / (attend_block_count(p) + 1);
	return (int)(splits < room ? splits : room > 1 ? room : 1);
}

/* Bytes: out [splits, T * N, value_dim] f32 | state [splits, T * N] | used [T * N]. */
static inline size_t attend_split_scratch(const attend_operands *p)
{
	const size_t n_rows = (size_t)p->n_tokens * (size_t)p->n_heads, n_splits = (size_t)attend_split_count(p);
	const size_t out = (n_splits * n_rows * (size_t)p->value_dim * sizeof(float) + 15) / 16 * 16;
	return n_splits == 1 ? 0 : out + n_rows * (n_splits * sizeof(float2) + sizeof(int32_t));
}

static inline void attend_split_place(attend_operands *p, void *scratch)
{
	const size_t n_rows = (size_t)p->n_tokens * (size_t)p->n_heads, n_splits = (size_t)attend_split_count(p);
	const size_t out = (n_splits * n_rows * (size_t)p->value_dim * sizeof(float) + 15) / 16 * 16;
	if (n_splits == 1)
		return;
	p->split_out = static_cast<float *>(scratch);
	p->split_state = reinterpret_cast<float2 *>(static_cast<unsigned char *>(scratch) + out);
	p->split_used = reinterpret_cast<int32_t *>(p->split_state + n_splits * n_rows);
}

#endif
