/* Multi-head latent attention: one cache row per token, [c (C) | kpe (Dr)], serves all heads as key, and its first C
 * values as value. */
#include "cuda/attend.cuh"

enum { LATENT_WARPS = 4, LATENT_THREADS = LATENT_WARPS * WARP, VALUE_WIDTH_MAX = 16 * WARP, SHARED_MAX = 227 * 1024 };

/* ---- write ---- */

/* A block per token. PRECOND: LATENT_THREADS threads; grid = T. */
template <class Cache>
static __global__ void __launch_bounds__(LATENT_THREADS) latent_write_kernel(const struct latent_write_args p)
{
	const size_t token = (size_t)blockIdx.x, width = (size_t)p.width;
	/* one head: slots follow each other without a gap */
	typename Cache::value *const to =
		static_cast<typename Cache::value *>(p.layer.k) + (size_t)p.slots[token] * width;
	const float *const from = p.latent + token * width;
	unsigned clipped = 0;
	for (int i = (int)threadIdx.x; i < p.width; i += LATENT_THREADS)
		clipped += cache_store<Cache>(to + i, from[i], p.layer.k_scale);
	saturated_add(p.saturated, clipped);
}

template <class Cache> static int write_launch(const struct latent_write_args *a, cudaStream_t stream, struct error *e)
{
	LAUNCH(latent_write_kernel<Cache>, (unsigned)a->n_tokens, LATENT_THREADS, 0, stream, *a);
	return launch_status(cudaGetLastError(), "latent write", e);
}

int latent_write_launch(const struct latent_write_args *a, cudaStream_t stream, struct error *e)
{
	if (a->n_tokens == 0)
		return 0;
	switch (a->layer.format) {
	case KV_F32:
		return write_launch<cache_f32>(a, stream, e);
	case KV_BF16:
		return write_launch<cache_bf16>(a, stream, e);
	case KV_E4M3:
		return write_launch<cache_e4m3>(a, stream, e);
	}
	return error_set(e, ERR_INPUT, "latent write: cache format %d is unknown", (int)a->layer.format);
}

/* ---- attend ---- */

static attend_operands latent_operands_of(const struct latent_attend_args *a)
{
	attend_operands p = {};
	p.q = a->q;
	p.out = a->out;
	p.k = p.v = static_cast<const unsigned char *>(a->layer.k);
	p.cu_seqlens = a->cu_seqlens;
	p.first_position = a->first_position;
	p.block_tables = a->block_tables;
	p.q_stride = a->n_heads * a->width;
	p.table_stride = a->table_stride;
	p.n_tokens = a->n_tokens;
	p.n_sequences = a->n_sequences;
	p.n_heads = a->n_heads;
	p.n_kv_heads = 1;
	p.key_dim = a->width;
	p.value_dim = a->value_width;
	p.page_size = a->geometry.page_size;
	p.scale = a->scale;
	p.k_scale = p.v_scale = a->layer.k_scale;
	return p;
}

template <class Cache>
static int latent_cache_launch(const attend_operands *p, int n_sharing, cudaStream_t stream, struct error *e)
{
	const size_t bytes = attend_shared_bytes<Cache>(2 * ATTEND_WARPS, p->key_dim, true);
	if (p->value_dim < 1 || p->value_dim > p->key_dim || p->value_dim > VALUE_WIDTH_MAX || bytes > SHARED_MAX)
		return error_set(e, ERR_INPUT,
			"latent attend: rows of %d values, %d of them the latent: 1 to %d, in rows of which a block "
			"takes at "
			"most %d bytes (%zu) expected",
			p->key_dim, p->value_dim, (int)VALUE_WIDTH_MAX, (int)SHARED_MAX, bytes);
	if (p->n_tokens == 0)
		return 0;
	if (p->value_dim <= 4 * WARP)
		return attend_dims_launch<Cache, 4, true>(p, n_sharing, stream, e);
	return attend_dims_launch<Cache, 16, true>(p, n_sharing, stream, e);
}

static int latent_format_launch(
	const attend_operands *p, enum kv_format format, int n_sharing, cudaStream_t stream, struct error *e)
{
	switch (format) {
	case KV_F32:
		return latent_cache_launch<cache_f32>(p, n_sharing, stream, e);
	case KV_BF16:
		return latent_cache_launch<cache_bf16>(p, n_sharing, stream, e);
	case KV_E4M3:
		return latent_cache_launch<cache_e4m3>(p, n_sharing, stream, e);
	}
	return error_set(e, ERR_INPUT, "latent attend: cache format %d is unknown", (int)format);
}

int latent_attend_launch(const struct latent_attend_args *a, cudaStream_t stream, struct error *e)
{
	const attend_operands p = latent_operands_of(a);
	return latent_format_launch(&p, a->layer.format, 1, stream, e);
}

size_t latent_attend_split_bytes(const struct latent_attend_args *a)
{
	const attend_operands p = latent_operands_of(a);
	return attend_split_scratch(&p);
}

int latent_attend_split_launch(const struct latent_attend_args *a, void *scratch, cudaStream_t stream, struct error *e)
{
	attend_operands p = latent_operands_of(a);
	attend_split_place(&p, scratch);
	return latent_format_launch(&p, a->layer.format, attend_sharing(&p), stream, e);
}
