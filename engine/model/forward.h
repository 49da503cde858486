/* The forward pass: a ragged batch of tokens through the model, and what is wanted of its logits. */
#ifndef ASSAY_ENGINE_MODEL_FORWARD_H
#define ASSAY_ENGINE_MODEL_FORWARD_H

#include "engine/backend.h"
#include "engine/comm.h"
#include "engine/kv/kv_pool.h"
#include "engine/model/model_config.h"
#include "engine/model/weights.h"

/* One step's tokens. All host memory. */
struct forward_batch {
	int n_tokens, n_sequences;
	const int32_t *ids;            /* [T] */
	const int32_t *positions;      /* [T] */
	const int64_t *slots;          /* [T] where each token's K, V go */
	const int32_t *cu_seqlens;     /* [B + 1] */
	const int32_t *first_position; /* [B] */
	const int32_t *block_tables;   /* [B, table_stride] */
	int table_stride;
	struct logits_row *rows; /* rows to read the logits of */
	int n_rows;
};

/* Activations of the largest batch, planned once. All [device]. N, G, I are a rank's own here. */
struct forward_buffers {
	float *hidden;    /* [T, H] residual stream */
	float *normed;    /* [T, H] */
	float *qkv;       /* [T, (N + 2G) D] */
	float *attention; /* [T, N D] */
	float *gate_up;   /* [T, 2I] */
	float *inner;     /* [T, I] */
	float *rope;      /* [T, R] */
	float *amax;      /* [T] */
	/* ranks only */
	float *parts;  /* [8, T, H] */
	float *logits; /* [ranks on rank 0, else 1][32, head rows] */
};

struct model {
	const struct model_config *config;
	struct backend *backend;
	struct comm *comm;
	int n_heads, n_kv_heads, inner_size; /* this rank's */
	struct model_weights weights;
	float *inverse_frequencies; /* [R / 2] host */
	int max_tokens;
	struct forward_buffers buffers;
};

/* Plans the buffers of comm's rank for batches of up to max_tokens. weights are loaded by the caller. PRECOND:
 * comm's size passed model_ranks_check. */
int model_init(struct model *m, const struct model_config *config, struct backend *backend, struct comm *comm,
	int max_tokens, struct error *e);
void model_free(struct model *m);

/* Writes K and V of the batch's tokens to the pool, each rank those of its heads, and on rank 0 fills batch->rows.
 * saturated: += clipped cache values of this rank. */
int forward(
	struct model *m, struct kv_pool *pool, const struct forward_batch *batch, uint64_t *saturated, struct error *e);

#endif
