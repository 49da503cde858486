#include "engine/model/weights.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "engine/base/thread_pool.h"
#include "engine/model/weight_read.h"
#include "engine/model/weight_share.h"

enum { NAME_SIZE = 160, ROW_UNIT = 32, ROWS_AT_ONCE = 512 /* of the embedding, for each thread */ };

static const struct weight_scheme schemes[] = {
	{"bf16", false, WEIGHT_BF16, 0, false},
	{"fp8", true, WEIGHT_E4M3, 0, true},
	{"fp8w", true, WEIGHT_E4M3, 0, false},
	{"int4", true, WEIGHT_INT4, 128, false},
	{"int4g32", true, WEIGHT_INT4, 32, false},
	{"int4g64", true, WEIGHT_INT4, 64, false},
};

const struct weight_scheme *weight_scheme_find(const char *name)
{
	for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
		if (strcmp(schemes[i].name, name) == 0)
			return &schemes[i];
	return NULL;
}

const char *weight_scheme_names(void)
{
	return "bf16 fp8 fp8w int4 int4g32 int4g64";
}

/* ---- matrices ---- */

/* Bytes of the format itself: what a checkpoint of that format would hold. */
static uint64_t matrix_bytes(const struct host_matrix *m)
{
	uint64_t values = (uint64_t)m->rows * (uint64_t)m->columns;
	switch (m->format) {
	case WEIGHT_F32:
		return values * 4;
	case WEIGHT_BF16:
		return values * 2;
	case WEIGHT_E4M3:
		return values + (uint64_t)m->rows * sizeof(float);
	case WEIGHT_INT4:
		return (values + 1) / 2 +
			(uint64_t)m->rows * (uint64_t)((m->columns + m->group - 1) / m->group) * sizeof(uint16_t);
	}
	return 0;
}

/* ---- reading a checkpoint ---- */

struct reader {
	const struct weights_ranks *ranks;
	struct model_weights *weights; /* rank 0's */
	struct checkpoint *checkpoint;
	const struct weight_scheme *scheme;
	char name[NAME_SIZE];
	int layer;
};

/* Where each rank keeps what is to be loaded. */
struct places {
	void *of[COMM_MAX_RANKS];
};

static struct places in_layer(const struct reader *r, size_t member)
{
	struct places p = {{0}};
	for (int i = 0; i < r->ranks->n; i++)
		p.of[i] = (char *)&r->ranks->weights[i]->layers[r->layer] + member;
	return p;
}

static struct places in_model(const struct reader *r, size_t member)
{
	struct places p = {{0}};
	for (int i = 0; i < r->ranks->n; i++)
		p.of[i] = (char *)r->ranks->weights[i] + member;
	return p;
}

#define LAYER(member) in_layer(r, offsetof(struct layer_weights, member))
#define MODEL(member) in_model(r, offsetof(struct model_weights, member))

/* Outputs go to the ranks in turn, or inputs: then the product has parts, by linear_parts(columns, heads, unit). */
enum split { SPLIT_ROWS, SPLIT_COLUMNS };

struct division {
	enum split split;
	int heads;
};

static int division_parts(const struct division *d, const struct host_matrix *m)
{
	return d->split == SPLIT_ROWS
		? 1
		: linear_parts(m->columns, d->heads, m->format == WEIGHT_INT4 ? m->group : ROW_UNIT);
}

static int matrix_share(struct reader *r, const struct fused *f, const struct host_matrix *m, const struct division *d,
	const struct places *out, struct error *e)
{
	const struct weights_ranks *ranks = r->ranks;
	int parts = division_parts(d, m), rows[MAX_FUSED], status = 0;

	for (int i = 0; i < f->count; i++)
		rows[i] = (int)f->tensors[i]->shape[0];
	for (int rank = 0; rank < ranks->n && status == 0; rank++) {
		struct backend *b = ranks->backends[rank];
		struct weight_share s;
		status = d->split == SPLIT_ROWS ? weight_share_rows(&s, m, rows, f->count, rank, ranks->n, e)
						: weight_share_columns(&s, m, rank, ranks->n, e);
		if (status == 0)
			status = b->ops->weight_pack(
				b, &s.m, d->split == SPLIT_ROWS ? 1 : parts / ranks->n, out->of[rank], e);
		weight_share_free(&s);
	}
	return status;
}

static int matrix_load(struct reader *r, const struct fused *f, const struct weight_scheme *scheme,
	const struct division *d, struct places out, struct error *e)
{
	struct weight_matrix w;
	int status = weight_read(f, scheme, r->ranks->threads, &w, e);

	if (status == 0) {
		status = matrix_share(r, f, &w.m, d, &out, e);
		for (int rank = 0; rank < r->ranks->n; rank++)
			((struct weight *)out.of[rank])->quantize_input = scheme->quantize_input;
		r->weights->bytes += matrix_bytes(&w.m);
		r->weights->parameters += (uint64_t)w.m.rows * (uint64_t)w.m.columns;
	}
	weight_matrix_free(&w);
	return status;
}

/* "model.layers.L.<suffix>" into r->name. */
static const char *layer_name(struct reader *r, const char *suffix)
{
	snprintf(r->name, sizeof r->name, "model.layers.%d.%s", r->layer, suffix);
	return r->name;
}

static int add_matrix(struct reader *r, struct fused *f, const char *suffix, int rows, int columns, struct error *e)
{
	assert(f->count < MAX_FUSED);
	TRY(checkpoint_require(r->checkpoint, layer_name(r, suffix), rows, columns, &f->tensors[f->count], e));
	f->count++;
	f->rows += rows;
	f->columns = columns;
	return 0;
}

/* Appends one vector's values to out, which has room. */
static int read_vector(struct reader *r, const char *name, int n, float *out, struct error *e)
{
	const struct tensor *t;
	TRY(checkpoint_require(r->checkpoint, name, n, 0, &t, e));
	if (tensor_rows_to_float(t, 0, n, out) < 0)
		return error_set(
			e, ERR_INPUT, "tensor %s: type %s holds no weights", t->name, tensor_type_name(t->type));
	r->weights->bytes += t->size;
	r->weights->parameters += t->count;
	return 0;
}

/* To every rank: values[i] for all, or the rank's share of each of `count` vectors in a row. */
static int upload_vectors(struct reader *r, const float *values, const int *sizes, int count, bool split,
	struct places out, struct error *e)
{
	int n_ranks = r->ranks->n, shares = split ? n_ranks : 1;

	for (int rank = 0; rank < n_ranks; rank++) {
		struct backend *b = r->ranks->backends[rank];
		size_t total = 0, from = 0, to = 0;
		for (int i = 0; i < count; i++)
			total += (size_t)(sizes[i] / shares);
		float *place = b->ops->alloc(b, total * sizeof(float), e);
		if (!place)
			return ERR_MEMORY;
		*(float **)out.of[rank] = place;
		for (int i = 0; i < count; i++) {
			size_t n = (size_t)(sizes[i] / shares), first = split ? (size_t)rank * n : 0;
			b->ops->upload(b, place + to, values + from + first, n * sizeof(float));
			from += (size_t)sizes[i];
			to += n;
		}
	}
	return 0;
}

/* One vector, or several (a fused bias) in order; split: their values go to the ranks in turn. */
static int load_vectors(struct reader *r, const char *const *suffixes, const int *sizes, int count, bool split,
	struct places out, struct error *e)
{
	int total = 0, at = 0, status = 0;
	for (int i = 0; i < count; i++)
		total += sizes[i];
	float *values = mem_calloc((size_t)total, sizeof *values, e);
	if (!values)
		return ERR_MEMORY;
	for (int i = 0; i < count && status == 0; at += sizes[i++])
		status = read_vector(r, layer_name(r, suffixes[i]), sizes[i], values + at, e);
	if (status == 0)
		status = upload_vectors(r, values, sizes, count, split, out, e);
	free(values);
	return status;
}

static int load_vector(struct reader *r, const char *suffix, int n, struct places out, struct error *e)
{
	return load_vectors(r, &suffix, &n, 1, false, out, e);
}

/* A scalar under one of the names that exporters use; 1 where there is none. */
static int load_kv_scale(struct reader *r, const char *const names[2], float *out, struct error *e)
{
	*out = 1.0f;
	for (int i = 0; i < 2; i++) {
		const struct tensor *t = checkpoint_use(r->checkpoint, layer_name(r, names[i]));
		if (!t)
			continue;
		if (t->count != 1 || tensor_to_float(t, 0, 1, out) < 0 || !isfinite(*out) || *out <= 0.0f)
			return error_set(e, ERR_INPUT, "tensor %s: expected one positive number as KV scale", r->name);
		r->weights->has_kv_scales = true;
		return 0;
	}
	return 0;
}

static int load_attention(struct reader *r, const struct model_config *c, struct layer_weights *l, struct error *e)
{
	static const char *const k_scales[] = {"self_attn.k_scale", "self_attn.k_proj.k_scale"};
	static const char *const v_scales[] = {"self_attn.v_scale", "self_attn.v_proj.v_scale"};
	static const char *const biases[] = {"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"};
	int q_rows = c->n_heads * c->head_dim, kv_rows = c->n_kv_heads * c->head_dim,
	    sizes[] = {q_rows, kv_rows, kv_rows};
	const struct division rows = {SPLIT_ROWS, 0}, columns = {SPLIT_COLUMNS, c->n_kv_heads};
	struct fused qkv = {0}, o = {0};

	TRY(load_vector(r, "input_layernorm.weight", c->hidden_size, LAYER(attention_norm), e));
	TRY(add_matrix(r, &qkv, "self_attn.q_proj.weight", q_rows, c->hidden_size, e));
	TRY(add_matrix(r, &qkv, "self_attn.k_proj.weight", kv_rows, c->hidden_size, e));
	TRY(add_matrix(r, &qkv, "self_attn.v_proj.weight", kv_rows, c->hidden_size, e));
	TRY(matrix_load(r, &qkv, r->scheme, &rows, LAYER(qkv), e));
	if (c->qkv_bias)
		TRY(load_vectors(r, biases, sizes, 3, true, LAYER(qkv_bias), e));
	if (c->qk_norm) {
		TRY(load_vector(r, "self_attn.q_norm.weight", c->head_dim, LAYER(q_norm), e));
		TRY(load_vector(r, "self_attn.k_norm.weight", c->head_dim, LAYER(k_norm), e));
	}
	TRY(add_matrix(r, &o, "self_attn.o_proj.weight", c->hidden_size, q_rows, e));
	TRY(matrix_load(r, &o, r->scheme, &columns, LAYER(o), e));
	if (c->o_bias)
		TRY(load_vector(r, "self_attn.o_proj.bias", c->hidden_size, LAYER(o_bias), e));
	TRY(load_kv_scale(r, k_scales, &l->k_scale, e));
	return load_kv_scale(r, v_scales, &l->v_scale, e);
}

static int load_ffn(struct reader *r, const struct model_config *c, struct error *e)
{
	static const char *const biases[] = {"mlp.gate_proj.bias", "mlp.up_proj.bias"};
	int sizes[] = {c->inner_size, c->inner_size};
	const struct division rows = {SPLIT_ROWS, 0}, columns = {SPLIT_COLUMNS, 0};
	struct fused gate_up = {0}, down = {0};

	TRY(load_vector(r, "post_attention_layernorm.weight", c->hidden_size, LAYER(ffn_norm), e));
	TRY(add_matrix(r, &gate_up, "mlp.gate_proj.weight", c->inner_size, c->hidden_size, e));
	TRY(add_matrix(r, &gate_up, "mlp.up_proj.weight", c->inner_size, c->hidden_size, e));
	TRY(matrix_load(r, &gate_up, r->scheme, &rows, LAYER(gate_up), e));
	TRY(add_matrix(r, &down, "mlp.down_proj.weight", c->hidden_size, c->inner_size, e));
	TRY(matrix_load(r, &down, r->scheme, &columns, LAYER(down), e));
	if (c->mlp_bias) {
		TRY(load_vectors(r, biases, sizes, 2, true, LAYER(gate_up_bias), e));
		TRY(load_vector(r, "mlp.down_proj.bias", c->hidden_size, LAYER(down_bias), e));
	}
	return 0;
}

/* The embedding as the backends' embed op reads it, in pieces, so that no second copy of it is ever held. */
static int upload_embedding(struct reader *r, const struct fused *f, struct error *e)
{
	const struct weights_ranks *ranks = r->ranks;
	enum weight_format format = fused_format(f);
	size_t row_bytes = (size_t)f->columns * host_value_size(format);
	int at_once = ROWS_AT_ONCE * thread_pool_size(ranks->threads);
	char *piece = mem_calloc((size_t)(at_once < f->rows ? at_once : f->rows), row_bytes, e);
	int status = piece ? 0 : ERR_MEMORY;

	for (int rank = 0; rank < ranks->n && status == 0; rank++) {
		struct backend *b = ranks->backends[rank];
		ranks->weights[rank]->embedding_format = format;
		ranks->weights[rank]->embedding = b->ops->alloc(b, (size_t)f->rows * row_bytes, e);
		status = ranks->weights[rank]->embedding ? 0 : ERR_MEMORY;
	}
	for (int first = 0; first < f->rows && status == 0; first += at_once) {
		int n = f->rows - first < at_once ? f->rows - first : at_once;
		status = weight_read_rows(f, first, n, ranks->threads, piece, e);
		for (int rank = 0; rank < ranks->n && status == 0; rank++)
			ranks->backends[rank]->ops->upload(ranks->backends[rank],
				(char *)ranks->weights[rank]->embedding + (size_t)first * row_bytes, piece,
				(size_t)n * row_bytes);
	}
	fused_release(f);
	free(piece);
	return status;
}

/* Whether the head is the embedding: the configuration says so, and no head of another content lies in the checkpoint
 * (then transformers does not tie them either). */
static bool head_is_tied(struct reader *r, const struct model_config *c, const struct tensor *embedding)
{
	const struct tensor *head = checkpoint_find(r->checkpoint, "lm_head.weight");
	if (!c->tied_embeddings || !head)
		return c->tied_embeddings;
	r->weights->head_untied = head->type != embedding->type || head->size != embedding->size ||
		memcmp(head->data, embedding->data, head->size) != 0;
	return !r->weights->head_untied;
}

/* The embedding, and the head (the same matrix where tied). The head comes first: it is packed from a copy. */
static int load_embedding(struct reader *r, const struct model_config *c, struct error *e)
{
	static const struct weight_scheme as_stored = {"bf16", false, WEIGHT_BF16, 0, false};
	const struct division rows = {SPLIT_ROWS, 0};
	struct model_weights *w = r->weights;
	struct fused embedding = {.count = 1, .rows = c->vocab_size, .columns = c->hidden_size}, head = embedding;

	TRY(checkpoint_require(
		r->checkpoint, "model.embed_tokens.weight", c->vocab_size, c->hidden_size, &embedding.tensors[0], e));
	bool tied = head_is_tied(r, c, embedding.tensors[0]);
	const char *head_name = tied ? "model.embed_tokens.weight" : "lm_head.weight";
	TRY(checkpoint_require(r->checkpoint, head_name, c->vocab_size, c->hidden_size, &head.tensors[0], e));
	TRY(matrix_load(r, &head, &as_stored, &rows, MODEL(head), e));
	if (!tied) {
		uint64_t values = (uint64_t)c->vocab_size * (uint64_t)c->hidden_size;
		w->bytes += values * host_value_size(fused_format(&embedding));
		w->parameters += values;
	}
	return upload_embedding(r, &embedding, e);
}

static int load_all(
	struct reader *r, const struct model_config *c, load_progress *progress, void *context, struct error *e)
{
	struct model_weights *w = r->weights;
	float *norm = mem_calloc((size_t)c->hidden_size, sizeof *norm, e);
	int status = norm ? read_vector(r, "model.norm.weight", c->hidden_size, norm, e) : ERR_MEMORY;

	if (status == 0)
		status = upload_vectors(r, norm, &c->hidden_size, 1, false, MODEL(final_norm), e);
	free(norm);
	TRY(status);
	TRY(load_embedding(r, c, e));
	for (r->layer = 0; r->layer < c->n_layers; r->layer++) {
		TRY(load_attention(r, c, &w->layers[r->layer], e));
		TRY(load_ffn(r, c, e));
		if (progress)
			progress(context, r->layer + 1, c->n_layers);
	}
	return 0;
}

int model_ranks_check(
	const struct model_config *config, const struct weight_scheme *scheme, int n_ranks, struct error *e)
{
	static const char *const divisors[] = {[1] = "1", [2] = "1 or 2", [4] = "1, 2 or 4", [8] = "1, 2, 4 or 8"};
	int unit = scheme->quantized && scheme->format == WEIGHT_INT4 ? scheme->group : ROW_UNIT;
	int o_inputs = config->n_heads * config->head_dim;
	int o = linear_parts(o_inputs, config->n_kv_heads, unit), down = linear_parts(config->inner_size, 0, unit);
	int most = o < down ? o : down; /* both are powers of two */

	if (n_ranks >= 1 && most % n_ranks == 0)
		return 0;
	return error_set(e, ERR_USAGE,
		"%d ranks with %s weights: expected %s. Sums have fixed parts, cut at multiples of %d inputs, for "
		"ranks to "
		"divide: o_proj %d (%d inputs, %d kv heads), down_proj %d (%d inputs)",
		n_ranks, scheme->name, divisors[most], unit, o, o_inputs, config->n_kv_heads, down, config->inner_size);
}

int model_weights_load(const struct weights_ranks *ranks, struct checkpoint *checkpoint,
	const struct weight_scheme *scheme, load_progress *progress, void *context, struct error *e)
{
	const struct model_config *c = checkpoint_config(checkpoint);
	struct reader r = {.ranks = ranks, .weights = ranks->weights[0], .checkpoint = checkpoint, .scheme = scheme};
	int status = 0;

	for (int rank = 0; rank < ranks->n; rank++) {
		struct model_weights *w = ranks->weights[rank];
		*w = (struct model_weights){.backend = ranks->backends[rank], .n_layers = c->n_layers};
		w->layers = mem_calloc((size_t)c->n_layers, sizeof *w->layers, e);
		status = w->layers ? status : ERR_MEMORY;
	}
	if (status == 0)
		status = load_all(&r, c, progress, context, e);
	for (int rank = 0; rank < ranks->n && status < 0; rank++)
		model_weights_free(ranks->weights[rank]);
	return status;
}

static void layer_free(struct backend *b, struct layer_weights *l)
{
	float *vectors[] = {l->attention_norm, l->ffn_norm, l->q_norm, l->k_norm, l->qkv_bias, l->o_bias,
		l->gate_up_bias, l->down_bias};
	struct weight *matrices[] = {&l->qkv, &l->o, &l->gate_up, &l->down};

	for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
		b->ops->free(b, vectors[i]);
	for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
		b->ops->weight_free(b, matrices[i]);
}

void model_weights_free(struct model_weights *w)
{
	struct backend *b = w->backend;
	if (!b)
		return;
	for (int l = 0; w->layers && l < w->n_layers; l++)
		layer_free(b, &w->layers[l]);
	free(w->layers);
	b->ops->free(b, w->embedding);
	b->ops->free(b, w->final_norm);
	b->ops->weight_free(b, &w->head);
	*w = (struct model_weights){0};
}
