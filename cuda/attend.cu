/* Attention over K and V: which of the kernels of attend.cuh takes it. */
#include "cuda/attend.cuh"

enum { HEAD_DIM_MAX = 256 }; /* eight outputs per lane; keys and values of a block in shared memory */

static attend_operands attend_operands_of(const struct attend_args *a)
{
	const struct kv_geometry *g = &a->geometry;
	attend_operands p = {};
	p.q = a->q;
	p.out = a->out;
	p.k = static_cast<const unsigned char *>(a->layer.k);
	p.v = static_cast<const unsigned char *>(a->layer.v);
	p.cu_seqlens = a->cu_seqlens;
	p.first_position = a->first_position;
	p.block_tables = a->block_tables;
	p.q_stride = a->q_stride;
	p.table_stride = a->table_stride;
	p.n_tokens = a->n_tokens;
	p.n_sequences = a->n_sequences;
	p.n_heads = a->n_heads;
	p.n_kv_heads = g->n_kv_heads;
	p.key_dim = p.value_dim = g->head_dim;
	p.page_size = g->page_size;
	p.scale = a->scale;
	p.k_scale = a->layer.k_scale;
	p.v_scale = a->layer.v_scale;
	return p;
}

template <class Cache>
static int cache_launch(const attend_operands *p, int n_sharing, cudaStream_t stream, struct error *e)
{
	if (p->value_dim <= 2 * WARP)
		return attend_dims_launch<Cache, 2, false>(p, n_sharing, stream, e);
	if (p->value_dim <= 4 * WARP)
		return attend_dims_launch<Cache, 4, false>(p, n_sharing, stream, e);
	return attend_dims_launch<Cache, 8, false>(p, n_sharing, stream, e);
}

static int format_launch(
	const attend_operands *p, enum kv_format format, int n_sharing, cudaStream_t stream, struct error *e)
{
	if (p->key_dim < 1 || p->key_dim > HEAD_DIM_MAX)
		return error_set(e, ERR_INPUT, "attend: head size %d: 1 to %d expected", p->key_dim, (int)HEAD_DIM_MAX);
	if (p->n_tokens == 0)
		return 0;
	switch (format) {
	case KV_F32:
		return cache_launch<cache_f32>(p, n_sharing, stream, e);
	case KV_BF16:
		return cache_launch<cache_bf16>(p, n_sharing, stream, e);
	case KV_E4M3:
		return cache_launch<cache_e4m3>(p, n_sharing, stream, e);
	}
	return error_set(e, ERR_INPUT, "attend: cache format %d is unknown", (int)format);
}

int attend_launch(const struct attend_args *a, cudaStream_t stream, struct error *e)
{
	const attend_operands p = attend_operands_of(a);
	return format_launch(&p, a->layer.format, 1, stream, e);
}

size_t attend_split_bytes(const struct attend_args *a)
{
	const attend_operands p = attend_operands_of(a);
	return attend_split_scratch(&p);
}

int attend_split_launch(const struct attend_args *a, void *scratch, cudaStream_t stream, struct error *e)
{
	attend_operands p = attend_operands_of(a);
	attend_split_place(&p, scratch);
	return format_launch(&p, a->layer.format, attend_sharing(&p), stream, e);
}
