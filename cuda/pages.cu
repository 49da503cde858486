/* Pages of the cache: tables checked against tags, before the reads and behind them, and pages copied between pools. */
#include "cuda/kernels.cuh"
#include "cuda/kv_format.cuh"
#include "cuda/launch.cuh"

/* ---- verify ---- */

enum { VERIFY_THREADS = 128, VERIFY_WARPS = VERIFY_THREADS / WARP, NO_PAGE = INT32_MAX };

/* Out of bounds, which is known before its tag is read, another page than expected, or with another tag. */
static __device__ __forceinline__ bool page_bad(const struct verify_pages_args &p, int32_t page, size_t expected)
{
	if (page < 1 || page >= p.n_pages)
		return true;
	return p.page_tags[page] != p.expected[expected] || (p.pages && p.pages[expected] != page);
}

/* The answer for a sequence, for all threads of its block. Entries that are checked, and the first `most` of the row, go
 * to `copy` as they were read; NULL: nowhere. PRECOND: VERIFY_THREADS threads, all of them; most <= table_stride. */
static __device__ __forceinline__ int32_t first_bad_page(
	const struct verify_pages_args &p, int sequence, int most, int32_t *copy)
{
	__shared__ int32_t warp_first[VERIFY_WARPS];
	const int expected_stride = p.expected_stride ? p.expected_stride : p.table_stride;
	const int room = p.table_stride < expected_stride ? p.table_stride : expected_stride;
	const int used = p.n_used[sequence], n = used < room ? used : room;
	const int32_t *const table = p.block_tables + (size_t)sequence * (size_t)p.table_stride;
	const size_t row = (size_t)(p.rows ? p.rows[sequence] : sequence) * (size_t)expected_stride;
	int32_t first = NO_PAGE;

	for (int i = (int)threadIdx.x; i < n || i < most; i += VERIFY_THREADS) {
		const int32_t page = table[i];
		if (copy)
			copy[i] = page;
		if (i < n && first == NO_PAGE && page_bad(p, page, row + (size_t)i))
			first = i;
	}
	for (int step = WARP / 2; step > 0; step /= 2) {
		const int32_t other = __shfl_xor_sync(WHOLE_WARP, first, step);
		first = other < first ? other : first;
	}
	if (threadIdx.x % WARP == 0)
		warp_first[threadIdx.x / WARP] = first;
	__syncthreads();
	for (int w = 0; w < VERIFY_WARPS; w++)
		first = warp_first[w] < first ? warp_first[w] : first;
	if (used < 0)
		return 0;
	return first != NO_PAGE ? first : used > room ? room : -1;
}

/* A block per sequence; its threads take logical pages in turn. PRECOND: VERIFY_THREADS threads; grid = B. */
static __global__ void __launch_bounds__(VERIFY_THREADS) verify_pages_kernel(const struct verify_pages_args p)
{
	const int32_t first = first_bad_page(p, (int)blockIdx.x, 0, NULL);

	if (threadIdx.x == 0)
		p.first_bad[blockIdx.x] = first;
}

int verify_pages_launch(const struct verify_pages_args *a, cudaStream_t stream, struct error *e)
{
	if (a->n_sequences == 0)
		return 0;
	LAUNCH(verify_pages_kernel, (unsigned)a->n_sequences, VERIFY_THREADS, 0, stream, *a);
	return launch_status(cudaGetLastError(), "verify pages", e);
}

/* Logical pages that attention reads of a sequence, and no more than a row has. */
static __device__ __forceinline__ int pages_read(const struct page_gate_args &p, int first_position, int n_tokens)
{
	const int64_t end = (int64_t)first_position + n_tokens, pages = (end + p.page_size - 1) / p.page_size;

	return pages < 0 ? 0 : pages < p.check.table_stride ? (int)pages : p.check.table_stride;
}

/* PRECOND: VERIFY_THREADS threads; grid = B. */
static __global__ void __launch_bounds__(VERIFY_THREADS) page_gate_kernel(const struct page_gate_args p)
{
	const int sequence = (int)blockIdx.x, thread = (int)threadIdx.x;
	const int from = p.cu_seqlens[sequence], n_tokens = p.cu_seqlens[sequence + 1] - from;
	const int position = p.first_position[sequence];
	int32_t *const table = p.block_tables_out + (size_t)sequence * (size_t)p.check.table_stride;
	const int32_t first = first_bad_page(p.check, sequence, pages_read(p, position, n_tokens), table);
	const bool parked = first >= 0;

	if (thread == 0) {
		p.check.first_bad[sequence] = first;
		p.first_position_out[sequence] = parked ? 0 : position;
	}
	for (int i = thread; i < n_tokens; i += VERIFY_THREADS)
		p.slots_out[from + i] = parked ? i % p.page_size : p.slots[from + i];
	if (!parked)
		return;
	for (int i = thread; i < pages_read(p, 0, n_tokens); i += VERIFY_THREADS)
		table[i] = 0; /* each thread over entries of its own */
}

int page_gate_launch(const struct page_gate_args *a, cudaStream_t stream, struct error *e)
{
	if (a->check.n_sequences == 0)
		return 0;
	LAUNCH(page_gate_kernel, (unsigned)a->check.n_sequences, VERIFY_THREADS, 0, stream, *a);
	return launch_status(cudaGetLastError(), "check before the reads", e);
}

/* ---- copy ---- */

enum { COPY_THREADS = 128, GRID_Y_MAX = 65535 };

/* K or V of a copy. What is copied of a page is n_heads runs of run_units units, stride_units apart. */
struct copy_operands {
	const unsigned char *from;
	unsigned char *to;
	const int32_t *source, *target; /* [n] */
	int n;
	size_t n_heads, run_units, stride_units;
	float from_scale, to_scale;
	bool in_order;
	uint64_t *saturated;
};

struct alignas(16) sixteen_bytes {
	uint32_t word[4];
};

/* Bytes as they are. */
template <class Piece> struct unit_copy {
	enum { FROM_BYTES = sizeof(Piece), TO_BYTES = sizeof(Piece) };
	static __device__ __forceinline__ unsigned run(
		const copy_operands &, const unsigned char *from, unsigned char *to, bool store)
	{
		if (store)
			*reinterpret_cast<Piece *>(to) = *reinterpret_cast<const Piece *>(from);
		return 0;
	}
};

/* COUNT values, each read as attention would and stored as a new token would be. */
template <class From, class To, int COUNT> struct unit_convert {
	enum { FROM_BYTES = COUNT * From::SIZE, TO_BYTES = COUNT * To::SIZE };
	static __device__ __forceinline__ unsigned run(
		const copy_operands &p, const unsigned char *from, unsigned char *to, bool store)
	{
		struct alignas(FROM_BYTES) stored_from {
			typename From::value value[COUNT];
		};
		struct alignas(TO_BYTES) stored_to {
			typename To::value value[COUNT];
		};
		const stored_from in = *reinterpret_cast<const stored_from *>(from);
		stored_to out;
		unsigned clipped = 0;
#pragma unroll
		for (int i = 0; i < COUNT; i++)
			clipped +=
				cache_store<To>(&out.value[i], From::widen_one(in.value[i]) * p.from_scale, p.to_scale);
		if (store)
			*reinterpret_cast<stored_to *>(to) = out;
		return clipped;
	}
};

/* Does a later entry write to the same page? A whole warp calls. */
static __device__ __forceinline__ bool overwritten_later(const copy_operands &p, int entry)
{
	int later = 0;
	for (int i = entry + 1 + (int)threadIdx.x % WARP; i < p.n; i += WARP)
		later |= p.target[i] == p.target[entry];
	for (int step = WARP / 2; step > 0; step /= 2)
		later |= __shfl_xor_sync(WHOLE_WARP, later, step);
	return later != 0;
}

/* A thread takes the same unit of every entry of its blockIdx.y. Within one pool an entry may read what an earlier one
 * wrote, so there the grid has one row and the thread goes through all entries in order; between two pools only the
 * last of several writers of a page writes. PRECOND: COPY_THREADS threads; grid.x = units of a page / COPY_THREADS. */
template <class Unit> static __global__ void __launch_bounds__(COPY_THREADS) copy_kernel(const copy_operands p)
{
	const size_t unit = (size_t)blockIdx.x * COPY_THREADS + threadIdx.x, page_units = p.n_heads * p.stride_units;
	const bool valid = unit < p.n_heads * p.run_units;
	const size_t at = unit / p.run_units * p.stride_units + unit % p.run_units;
	unsigned clipped = 0;

	for (int i = (int)blockIdx.y; i < p.n; i += (int)gridDim.y) {
		const bool store = p.in_order || !overwritten_later(p, i);
		if (!valid)
			continue;
		const size_t from = (size_t)p.source[i] * page_units + at, to = (size_t)p.target[i] * page_units + at;
		clipped += Unit::run(p, p.from + from * Unit::FROM_BYTES, p.to + to * Unit::TO_BYTES, store);
	}
	saturated_add(p.saturated, clipped);
}

template <class Unit> static int unit_launch(const copy_operands *p, cudaStream_t stream, struct error *e)
{
	const size_t units = p->n_heads * p->run_units;
	const int rows = p->in_order ? 1 : p->n < GRID_Y_MAX ? p->n : GRID_Y_MAX;
	const dim3 grid((unsigned)((units + COPY_THREADS - 1) / COPY_THREADS), (unsigned)rows);

	LAUNCH(copy_kernel<Unit>, grid, COPY_THREADS, 0, stream, *p);
	return launch_status(cudaGetLastError(), "copy pages", e);
}

static int bytes_copy(copy_operands p, size_t value_bytes, cudaStream_t stream, struct error *e)
{
	p.run_units *= value_bytes;
	p.stride_units *= value_bytes;
	if (p.run_units % 16 != 0 || p.stride_units % 16 != 0)
		return unit_launch<unit_copy<uint8_t>>(&p, stream, e);
	p.run_units /= 16;
	p.stride_units /= 16;
	return unit_launch<unit_copy<sixteen_bytes>>(&p, stream, e);
}

template <class From, class To> static int values_convert(copy_operands p, cudaStream_t stream, struct error *e)
{
	if (p.run_units % 4 != 0 || p.stride_units % 4 != 0)
		return unit_launch<unit_convert<From, To, 1>>(&p, stream, e);
	p.run_units /= 4;
	p.stride_units /= 4;
	return unit_launch<unit_convert<From, To, 4>>(&p, stream, e);
}

template <class From>
static int values_convert_to(const copy_operands *p, enum kv_format to, cudaStream_t stream, struct error *e)
{
	switch (to) {
	case KV_F32:
		return values_convert<From, cache_f32>(*p, stream, e);
	case KV_BF16:
		return values_convert<From, cache_bf16>(*p, stream, e);
	case KV_E4M3:
		return values_convert<From, cache_e4m3>(*p, stream, e);
	}
	return error_set(e, ERR_INPUT, "copy pages: cache format %d is unknown", (int)to);
}

/* K or V. */
static int side_launch(
	const copy_operands *p, enum kv_format from, enum kv_format to, cudaStream_t stream, struct error *e)
{
	if (from == to && p->from_scale == p->to_scale)
		return bytes_copy(*p, from == KV_F32 ? 4 : from == KV_BF16 ? 2 : 1, stream, e);
	switch (from) {
	case KV_F32:
		return values_convert_to<cache_f32>(p, to, stream, e);
	case KV_BF16:
		return values_convert_to<cache_bf16>(p, to, stream, e);
	case KV_E4M3:
		return values_convert_to<cache_e4m3>(p, to, stream, e);
	}
	return error_set(e, ERR_INPUT, "copy pages: cache format %d is unknown", (int)from);
}

int copy_pages_launch(const struct copy_pages_args *a, cudaStream_t stream, struct error *e)
{
	const struct kv_geometry *from = &a->from_geometry, *to = &a->to_geometry;
	copy_operands p = {};

	if (from->page_size != to->page_size || from->n_kv_heads != to->n_kv_heads || from->head_dim != to->head_dim)
		return error_set(e, ERR_INPUT, "copy pages: pages of %d slots, %d heads of %d to pages of %d, %d of %d",
			from->page_size, from->n_kv_heads, from->head_dim, to->page_size, to->n_kv_heads, to->head_dim);
	if (a->n_tokens < 0 || a->n_tokens > from->page_size)
		return error_set(e, ERR_INPUT, "copy pages: %d slots of a page of %d", a->n_tokens, from->page_size);
	if (a->n == 0 || a->n_tokens == 0)
		return 0;
	p.source = a->source;
	p.target = a->target;
	p.n = a->n;
	p.n_heads = (size_t)from->n_kv_heads;
	p.run_units = (size_t)a->n_tokens * (size_t)from->head_dim;
	p.stride_units = (size_t)from->page_size * (size_t)from->head_dim;
	p.in_order = a->from.k == a->to.k;
	p.saturated = a->saturated;
	p.from = static_cast<const unsigned char *>(a->from.k);
	p.to = static_cast<unsigned char *>(a->to.k);
	p.from_scale = a->from.k_scale;
	p.to_scale = a->to.k_scale;
	TRY(side_launch(&p, a->from.format, a->to.format, stream, e));
	if (!a->from.v)
		return 0;
	p.from = static_cast<const unsigned char *>(a->from.v);
	p.to = static_cast<unsigned char *>(a->to.v);
	p.from_scale = a->from.v_scale;
	p.to_scale = a->to.v_scale;
	return side_launch(&p, a->from.format, a->to.format, stream, e);
}
