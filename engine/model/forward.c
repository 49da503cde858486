#include "engine/model/forward.h"

#include <math.h>
#include <stdlib.h>

/* Rows whose logits ranks exchange at a time. */
enum { LOGITS_ROWS = 32 };

/* Rows of the head that each rank has; the last one's are filled up. */
static int head_rows(const struct model *m)
{
	return (m->config->vocab_size + m->comm->size - 1) / m->comm->size;
}

static int logits_plan(struct model *m, struct error *e)
{
	size_t parts = m->comm->rank == 0 ? (size_t)m->comm->size : 1;
	size_t bytes = parts * LOGITS_ROWS * (size_t)head_rows(m) * sizeof(float);

	m->buffers.logits = m->backend->ops->alloc(m->backend, bytes, e);
	return m->buffers.logits ? 0 : error_prefix(e, "logits of %d rows", LOGITS_ROWS);
}

int model_init(struct model *m, const struct model_config *config, struct backend *backend, struct comm *comm,
	int max_tokens, struct error *e)
{
	struct forward_buffers *b = &m->buffers;
	size_t hidden = (size_t)config->hidden_size, dim = (size_t)config->head_dim, ranks = (size_t)comm->size;
	size_t q = (size_t)config->n_heads / ranks * dim, kv = (size_t)config->n_kv_heads / ranks * dim,
	       inner = (size_t)config->inner_size / ranks;
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
	m->n_heads = config->n_heads / comm->size;
	m->n_kv_heads = config->n_kv_heads / comm->size;
	m->inner_size = config->inner_size / comm->size;
	m->max_tokens = max_tokens;
	for (size_t i = 0; i < sizeof plan / sizeof *plan; i++) {
		if (plan[i].per_token == 0)
			continue;
		*plan[i].buffer =
			backend->ops->alloc(backend, plan[i].per_token * (size_t)max_tokens * sizeof(float), e);
		if (!*plan[i].buffer)
			return error_prefix(e, "activations of %d tokens", max_tokens);
	}
	if (comm->size > 1)
		TRY(logits_plan(m, e));
	m->inverse_frequencies = mem_calloc((size_t)config->rope.rotary_dim / 2, sizeof(float), e);
	if (!m->inverse_frequencies)
		return ERR_MEMORY;
	rope_inverse_frequencies(&config->rope, m->inverse_frequencies);
	return 0;
}

void model_free(struct model *m)
{
	struct forward_buffers *b = &m->buffers;
	float *all[] = {b->hidden, b->normed, b->qkv, b->attention, b->gate_up, b->inner, b->rope, b->amax, b->parts,
		b->logits};

	model_weights_free(&m->weights);
	for (size_t i = 0; m->backend && i < sizeof all / sizeof *all; i++)
		m->backend->ops->free(m->backend, all[i]);
	free(m->inverse_frequencies);
	*m = (struct model){0};
}

/* Largest input per token where the weights want their input in E4M3; NULL elsewhere. */
static const float *input_amax(struct model *m, const struct weight *w, const float *x, int n_tokens)
{
	if (!w->quantize_input)
		return NULL;
	m->backend->ops->row_amax(m->backend, &(struct row_amax_args){x, n_tokens, w->columns, m->buffers.amax});
	return m->buffers.amax;
}

/* y = x W^T (+ bias): a product whose outputs ranks split; every rank has the whole input. */
static void column_linear(
	struct model *m, const struct weight *w, const float *x, int n_tokens, const float *bias, float *y)
{
	m->backend->ops->linear(m->backend,
		&(struct linear_args){.weight = w,
			.x = x,
			.n_tokens = n_tokens,
			.amax = input_amax(m, w, x, n_tokens),
			.bias = bias,
			.y = y});
}

/* hidden += x W^T (+ bias): a product whose inputs ranks split. Its sum has fixed parts; with ranks each computes its
 * own parts, all gather them, and the same tree adds them, so the number of ranks changes no bit. */
static int row_linear(
	struct model *m, const struct weight *w, const float *x, int n_tokens, const float *bias, struct error *e)
{
	struct backend *b = m->backend;
	float *hidden = m->buffers.hidden;
	struct comm *comm = m->comm;
	const float *amax = input_amax(m, w, x, n_tokens);

	if (comm->size == 1) {
		b->ops->linear(b,
			&(struct linear_args){.weight = w,
				.x = x,
				.n_tokens = n_tokens,
				.amax = amax,
				.bias = bias,
				.residual = hidden,
				.y = hidden});
		return 0;
	}
	if (amax)
		TRY(comm->ops->all_reduce_max(comm, m->buffers.amax, (size_t)n_tokens, e));
	size_t own = (size_t)w->parts * (size_t)n_tokens * (size_t)w->rows;
	struct linear_args a = {.weight = w,
		.x = x,
		.n_tokens = n_tokens,
		.amax = amax,
		.part_count = w->parts,
		.parts_out = m->buffers.parts + (size_t)comm->rank * own};
	b->ops->linear(b, &a);
	TRY(comm->ops->all_gather(comm, a.parts_out, own * sizeof(float), m->buffers.parts, e));
	b->ops->parts_sum(b,
		&(struct parts_sum_args){
			m->buffers.parts, w->parts * comm->size, n_tokens, w->rows, bias, hidden, hidden});
	return 0;
}

/* normed[to ..] = the norm of hidden[from .. from + n). */
static void rows_norm(struct model *m, const float *weight, int from, int n, int to)
{
	size_t hidden = (size_t)m->config->hidden_size;

	m->backend->ops->rmsnorm(m->backend,
		&(struct rmsnorm_args){.x = m->buffers.hidden + (size_t)from * hidden,
			.weight = weight,
			.n_tokens = n,
			.hidden = m->config->hidden_size,
			.eps = m->config->norm_eps,
			.y = m->buffers.normed + (size_t)to * hidden});
}

static void norm(struct model *m, const float *weight, int n_tokens)
{
	rows_norm(m, weight, 0, n_tokens, 0);
}

/* hidden += o(attend(rope(qkv(norm(hidden))))) */
static int attention_layer(struct model *m, struct kv_pool *pool, int layer, const struct forward_batch *batch,
	uint64_t *saturated, struct error *e)
{
	const struct model_config *c = m->config;
	const struct layer_weights *w = &m->weights.layers[layer];
	struct forward_buffers *buf = &m->buffers;
	struct backend *b = m->backend;
	const struct kv_layer *cache = kv_pool_layer(pool, m->comm->rank, layer);
	int width = (m->n_heads + 2 * m->n_kv_heads) * c->head_dim;

	norm(m, w->attention_norm, batch->n_tokens);
	column_linear(m, &w->qkv, buf->normed, batch->n_tokens, NULL, buf->qkv);
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
			.n_heads = m->n_heads,
			.geometry = pool->geometry,
			.layer = *cache,
			.slots = batch->slots,
			.saturated = saturated});
	b->ops->attend(b,
		&(struct attend_args){.q = buf->qkv,
			.q_stride = width,
			.n_tokens = batch->n_tokens,
			.n_sequences = batch->n_sequences,
			.n_heads = m->n_heads,
			.scale = 1.0f / sqrtf((float)c->head_dim),
			.geometry = pool->geometry,
			.layer = *cache,
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
	column_linear(m, &w->gate_up, buf->normed, n_tokens, w->gate_up_bias, buf->gate_up);
	m->backend->ops->swiglu(m->backend, &(struct swiglu_args){buf->gate_up, n_tokens, m->inner_size, buf->inner});
	return row_linear(m, &w->down, buf->inner, n_tokens, w->down_bias, e);
}

/* The logits of a few rows: each rank computes its part of the vocabulary, rank 0 takes them all and reads them. */
static int logits_of_ranks(struct model *m, struct logits_row *rows, int n, struct error *e)
{
	struct backend *b = m->backend;
	struct comm *comm = m->comm;
	float *own = m->buffers.logits;
	size_t part = (size_t)n * (size_t)m->weights.head.rows;

	for (int i = 0, run; i < n; i += run) {
		for (run = 1; i + run < n && rows[i + run].token == rows[i].token + run; run++)
			;
		rows_norm(m, m->weights.final_norm, rows[i].token, run, i);
	}
	b->ops->linear(
		b, &(struct linear_args){.weight = &m->weights.head, .x = m->buffers.normed, .n_tokens = n, .y = own});
	if (comm->rank > 0)
		return comm->ops->send(comm, 0, own, part * sizeof(float), e);
	for (int r = 1; r < comm->size; r++)
		TRY(comm->ops->receive(comm, r, own + (size_t)r * part, part * sizeof(float), e));
	b->ops->logits(b,
		&(struct logits_args){.hidden = m->config->hidden_size,
			.vocab = m->config->vocab_size,
			.logits = own,
			.logits_parts = comm->size,
			.rows = rows,
			.n_rows = n});
	return 0;
}

static int logits(struct model *m, const struct forward_batch *batch, struct error *e)
{
	if (m->comm->size == 1) {
		norm(m, m->weights.final_norm, batch->n_tokens);
		m->backend->ops->logits(m->backend,
			&(struct logits_args){.x = m->buffers.normed,
				.head = &m->weights.head,
				.hidden = m->config->hidden_size,
				.vocab = m->config->vocab_size,
				.rows = batch->rows,
				.n_rows = batch->n_rows});
		return 0;
	}
	for (int first = 0; first < batch->n_rows; first += LOGITS_ROWS) {
		int n = batch->n_rows - first < LOGITS_ROWS ? batch->n_rows - first : LOGITS_ROWS;
		TRY(logits_of_ranks(m, batch->rows + first, n, e));
	}
	return 0;
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
	TRY(logits(m, batch, e));
	return b->ops->finish(b, e);
}
