#include "engine/model/forward.h"

#include <math.h>
#include <stdlib.h>

int model_init(struct model *m, const struct model_config *config, struct backend *backend, struct comm *comm,
	int max_tokens, struct error *e)
{
	struct forward_buffers *b = &m->buffers;
	size_t hidden = (size_t)config->hidden_size, dim = (size_t)config->head_dim;
	size_t q = (size_t)config->n_heads * dim, kv = (size_t)config->n_kv_heads * dim,
	       inner = (size_t)config->inner_size;
	struct {
		float **buffer;
		size_t per_token;
	} plan[] = {
		{&b->hidden, hidden},
		{&b->normed, hidden},
		{&b->qkv, q + 2 * kv},
		{&b->attention, q},
		{&b->gate_up, 2 * inner},
		{&b->inner, inner},
		{&b->rope, (size_t)config->rope.rotary_dim},
		{&b->amax, 1},
		{&b->parts, comm->size > 1 ? 8 * hidden : 0},
	};

	m->config = config;
	m->backend = backend;
	m->comm = comm;
	m->max_tokens = max_tokens;
	for (size_t i = 0; i < sizeof plan / sizeof *plan; i++) {
		if (plan[i].per_token == 0)
			continue;
		*plan[i].buffer =
			backend->ops->alloc(backend, plan[i].per_token * (size_t)max_tokens * sizeof(float), e);
		if (!*plan[i].buffer)
			return error_prefix(e, "activations of %d tokens", max_tokens);
	}
	m->inverse_frequencies = mem_calloc((size_t)config->rope.rotary_dim / 2, sizeof(float), e);
	if (!m->inverse_frequencies)
		return ERR_MEMORY;
	rope_inverse_frequencies(&config->rope, m->inverse_frequencies);
	return 0;
}

void model_free(struct model *m)
{
	struct forward_buffers *b = &m->buffers;
	float *all[] = {b->hidden, b->normed, b->qkv, b->attention, b->gate_up, b->inner, b->rope, b->amax, b->parts};

	model_weights_free(&m->weights);
	for (size_t i = 0; m->backend && i < sizeof all / sizeof *all; i++)
		m->backend->ops->free(m->backend, all[i]);
	free(m->inverse_frequencies);
	*m = (struct model){0};
}

/* Largest input per token, over all ranks, where the weights want their input in E4M3; NULL elsewhere. */
static int input_amax(
	struct model *m, const struct weight *w, const float *x, int n_tokens, const float **amax, struct error *e)
{
	*amax = NULL;
	if (!w->quantize_input)
		return 0;
	m->backend->ops->row_amax(m->backend, &(struct row_amax_args){x, n_tokens, w->columns, m->buffers.amax});
	*amax = m->buffers.amax;
	return m->comm->ops->all_reduce_max(m->comm, m->buffers.amax, (size_t)n_tokens, e);
}

/* y = x W^T (+ bias): a product whose outputs ranks would split. */
static int column_linear(struct model *m, const struct weight *w, const float *x, int n_tokens, const float *bias,
	float *y, struct error *e)
{
	struct linear_args a = {.weight = w, .x = x, .n_tokens = n_tokens, .bias = bias, .y = y};
	TRY(input_amax(m, w, x, n_tokens, &a.amax, e));
	m->backend->ops->linear(m->backend, &a);
	return 0;
}

/* hidden += x W^T (+ bias): a product whose inputs ranks split. Its sum has fixed parts; with ranks each computes its
 * own parts, all gather them, and the same tree adds them, so the number of ranks changes no bit. */
static int row_linear(
	struct model *m, const struct weight *w, const float *x, int n_tokens, const float *bias, struct error *e)
{
	struct backend *b = m->backend;
	float *hidden = m->buffers.hidden;
	struct linear_args a = {
		.weight = w, .x = x, .n_tokens = n_tokens, .bias = bias, .residual = hidden, .y = hidden};

	TRY(input_amax(m, w, x, n_tokens, &a.amax, e));
	if (m->comm->size == 1) {
		b->ops->linear(b, &a);
		return 0;
	}
	if (w->parts % m->comm->size != 0)
		return error_set(
			e, ERR_USAGE, "%d ranks do not divide the %d parts of a product", m->comm->size, w->parts);
	a.part_count = w->parts / m->comm->size;
	a.part_first = a.part_count * m->comm->rank;
	size_t part = (size_t)n_tokens * (size_t)w->rows;
	a.parts_out = m->buffers.parts + (size_t)a.part_first * part;
	b->ops->linear(b, &a);
	TRY(m->comm->ops->all_gather(
		m->comm, a.parts_out, (size_t)a.part_count * part * sizeof(float), m->buffers.parts, e));
	b->ops->parts_sum(
		b, &(struct parts_sum_args){m->buffers.parts, w->parts, n_tokens, w->rows, bias, hidden, hidden});
	return 0;
}

static void norm(struct model *m, const float *weight, int n_tokens)
{
	m->backend->ops->rmsnorm(m->backend,
		&(struct rmsnorm_args){.x = m->buffers.hidden,
			.weight = weight,
			.n_tokens = n_tokens,
			.hidden = m->config->hidden_size,
			.eps = m->config->norm_eps,
			.y = m->buffers.normed});
}

/* hidden += o(attend(rope(qkv(norm(hidden))))) */
static int attention_layer(struct model *m, struct kv_pool *pool, int layer, const struct forward_batch *batch,
	uint64_t *saturated, struct error *e)
{
	const struct model_config *c = m->config;
	const struct layer_weights *w = &m->weights.layers[layer];
	struct forward_buffers *buf = &m->buffers;
	struct backend *b = m->backend;
	int width = (c->n_heads + 2 * c->n_kv_heads) * c->head_dim;

	norm(m, w->attention_norm, batch->n_tokens);
	TRY(column_linear(m, &w->qkv, buf->normed, batch->n_tokens, NULL, buf->qkv, e));
	b->ops->qkv_finish(b,
		&(struct qkv_finish_args){.qkv = buf->qkv,
			.bias = w->qkv_bias,
			.q_norm = w->q_norm,
			.k_norm = w->k_norm,
			.norm_eps = c->norm_eps,
			.rope = buf->rope,
			.rotary_dim = c->rope.rotary_dim,
			.rope_interleaved = c->rope.kind == ROPE_INTERLEAVED,
			.n_tokens = batch->n_tokens,
			.n_heads = c->n_heads,
			.geometry = pool->geometry,
			.layer = pool->layers[layer],
			.slots = batch->slots,
			.saturated = saturated});
	b->ops->attend(b,
		&(struct attend_args){.q = buf->qkv,
			.q_stride = width,
			.n_tokens = batch->n_tokens,
			.n_sequences = batch->n_sequences,
			.n_heads = c->n_heads,
			.scale = 1.0f / sqrtf((float)c->head_dim),
			.geometry = pool->geometry,
			.layer = pool->layers[layer],
			.cu_seqlens = batch->cu_seqlens,
			.first_position = batch->first_position,
			.block_tables = batch->block_tables,
			.table_stride = batch->table_stride,
			.out = buf->attention});
	return row_linear(m, &w->o, buf->attention, batch->n_tokens, w->o_bias, e);
}

/* hidden += down(swiglu(gate_up(norm(hidden)))) */
static int ffn_layer(struct model *m, int layer, int n_tokens, struct error *e)
{
	const struct layer_weights *w = &m->weights.layers[layer];
	struct forward_buffers *buf = &m->buffers;

	norm(m, w->ffn_norm, n_tokens);
	TRY(column_linear(m, &w->gate_up, buf->normed, n_tokens, w->gate_up_bias, buf->gate_up, e));
	m->backend->ops->swiglu(
		m->backend, &(struct swiglu_args){buf->gate_up, n_tokens, m->config->inner_size, buf->inner});
	return row_linear(m, &w->down, buf->inner, n_tokens, w->down_bias, e);
}

int forward(
	struct model *m, struct kv_pool *pool, const struct forward_batch *batch, uint64_t *saturated, struct error *e)
{
	const struct model_config *c = m->config;
	struct forward_buffers *buf = &m->buffers;
	struct backend *b = m->backend;

	b->ops->batch_begin(b);
	b->ops->embed(b,
		&(struct embed_args){.table = m->weights.embedding,
			.format = m->weights.embedding_format,
			.ids = batch->ids,
			.n_tokens = batch->n_tokens,
			.hidden = c->hidden_size,
			.out = buf->hidden});
	b->ops->rope_table(b,
		&(struct rope_table_args){.positions = batch->positions,
			.inverse_frequencies = m->inverse_frequencies,
			.n_tokens = batch->n_tokens,
			.rotary_dim = c->rope.rotary_dim,
			.table = buf->rope});
	for (int layer = 0; layer < c->n_layers; layer++) {
		TRY(attention_layer(m, pool, layer, batch, saturated, e));
		TRY(ffn_layer(m, layer, batch->n_tokens, e));
	}
	norm(m, m->weights.final_norm, batch->n_tokens);
	b->ops->logits(b,
		&(struct logits_args){.x = buf->normed,
			.head = &m->weights.head,
			.hidden = c->hidden_size,
			.vocab = c->vocab_size,
			.rows = batch->rows,
			.n_rows = batch->n_rows});
	return b->ops->finish(b, e);
}
