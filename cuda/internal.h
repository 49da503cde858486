/* The backend's object and what its files share. */
#ifndef ASSAY_CUDA_INTERNAL_H
#define ASSAY_CUDA_INTERNAL_H

#include "cuda/cuda_backend.h"
#include "cuda/device.h"
#include "cuda/staging.h"
#include "cuda/steps.h"
#include "cuda/transfer.h"

/* Rows of logits in tiles. A tile's results are on the device until rows_collect. */
struct cuda_rows {
	struct logits_row *rows; /* of the tile in hand */
	int n, vocab, top_stride;
	int room, most_hidden, most_vocab;  /* of the memory below: tokens of a tile, sizes of a row */
	int32_t *tokens;                    /* [room] host: rows of x */
	struct logits_request *requests;    /* [room] host */
	float *x, *logits;                  /* [device] [room, H], [room, V] */
	struct logits_result *results;      /* [device] [room] */
	int32_t *top_ids;                   /* [device] [room, LOGITS_TOP_MAX] */
	float *top_logprobs;                /* [device] likewise */
	void *scratch;                      /* [device] of the tail */
	struct logits_result *host_results; /* pinned, likewise */
	int32_t *host_top_ids;
	float *host_top_logprobs;
};

enum { VERIFY_ARRAYS = 6, GATE_ARRAYS = 3 };

/* The last check of pages, made again behind the step. */
struct cuda_verify {
	struct verify_pages_args args;    /* on the device; first_bad too */
	uint64_t versions[VERIFY_ARRAYS]; /* of its arrays */
	const int32_t *tables_read; /* [device] what the step reads: args.block_tables, or what the gate let through */
	bool asked;                 /* no step has run since */
	bool answered;              /* behind a step: host_first_bad holds what the next call would find */
	bool in_step;               /* its answer comes with the step's results */
	int32_t *first_bad;         /* [device] [room] */
	int32_t *host_first_bad;    /* pinned */
	int room;
};

/* A check whose answer is deferred (page_gate.h). Asked for, it waits for the first op that names one of its arrays; or
 * for finish, where no op does. */
struct cuda_gate {
	enum { GATE_NONE, GATE_ASKED, GATE_KEPT } state;
	struct verify_pages_args asked; /* the caller's */
	struct verify_deferral batch;   /* the caller's */
	char *memory;                   /* [device] of the arrays below */
	size_t bytes;
	int64_t *slots; /* [device] what is let through */
	int32_t *block_tables, *first_position;
	int32_t *first_bad;      /* [device] the answer */
	int32_t *host_first_bad; /* pinned, [room] */
	int room;
};

struct cuda_backend {
	struct backend base;    /* first: the handle that callers hold */
	struct backend_ops ops; /* the table, with the device's numerics id */
	char numerics[32];
	int device;
	cudaStream_t stream;
	struct staging staging;
	struct steps steps;
	struct transfer transfer;
	struct library *library; /* NULL: none */
	struct cuda_rows rows;
	struct cuda_verify verify;
	struct cuda_gate gate;
	uint64_t *clipped, *host_clipped; /* [device] and pinned: values of K, V that were clipped so far */
	uint64_t clipped_told;            /* of them */
	uint64_t *clipped_to;             /* the caller's counter of those that were not told; NULL: none */
	struct error failure;             /* the first one, reported by finish */
};

/* Each rank of a group has a thread of its own, which is not always the same. */
static inline struct cuda_backend *self(struct backend *b)
{
	struct cuda_backend *c = (struct cuda_backend *)b;
	device_use(c->device);
	return c;
}

/* Keeps the first failure. Returns status. */
int failure_keep(struct cuda_backend *c, int status, const struct error *e);

/* The next op, or NULL after a failure: then nothing is to be done. */
struct op *op_new(struct cuda_backend *c, enum op_kind kind);

/* A host array (or table, staging.h) that an op reads: *(const void **)pointer is its address, and becomes the
 * device's. NULL stays NULL. */
struct op_array {
	void *pointer;
	size_t bytes;
	int rows;
	size_t stride;
	bool changes;
};

/* Brings an op's arrays to the device, those that a gate covers as it lets them through. False after a failure. */
bool op_arrays(struct cuda_backend *c, const struct op_array *arrays, int n);

/* The same, where a check that is still to be made may wait on. */
bool arrays_bring(struct cuda_backend *c, const struct op_array *arrays, int n);

/* Launches all ops that wait. */
int ops_flush(struct cuda_backend *c);

/* Launches what waits, waits for it and hands out the results that are due. */
int results_collect(struct cuda_backend *c);

/* ---- ops (backend_ops.c) ---- */

/* Pages that the longest sequence reaches, and no more than a table has: what of its rows attention reads. */
int batch_pages(const int32_t *first_position, const int32_t *cu_seqlens, int n_sequences, int page_size, int stride);

void cuda_embed(struct backend *b, const struct embed_args *a);
void cuda_rmsnorm(struct backend *b, const struct rmsnorm_args *a);
void cuda_linear(struct backend *b, const struct linear_args *a);
void cuda_parts_sum(struct backend *b, const struct parts_sum_args *a);
void cuda_row_amax(struct backend *b, const struct row_amax_args *a);
void cuda_rope_table(struct backend *b, const struct rope_table_args *a);
void cuda_qkv_finish(struct backend *b, const struct qkv_finish_args *a);
void cuda_attend(struct backend *b, const struct attend_args *a);
void cuda_latent_write(struct backend *b, const struct latent_write_args *a);
void cuda_latent_attend(struct backend *b, const struct latent_attend_args *a);
void cuda_head_linear(struct backend *b, const struct head_linear_args *a);
void cuda_swiglu(struct backend *b, const struct swiglu_args *a);
void cuda_route(struct backend *b, const struct route_args *a);
void cuda_experts(struct backend *b, const struct experts_args *a);
void cuda_copy_pages(struct backend *b, const struct copy_pages_args *a);

/* ---- rows of logits (backend_rows.c) ---- */

void cuda_logits(struct backend *b, const struct logits_args *a);
int rows_fetch(struct cuda_backend *c);     /* starts the copies of the tile's results */
void rows_hand_out(struct cuda_backend *c); /* after them */
void rows_free(struct cuda_backend *c);

/* ---- the check of pages (backend_pages.c) ---- */

void cuda_verify_pages(struct backend *b, const struct verify_pages_args *a);
void verify_again(struct cuda_backend *c); /* behind the step's reads, where a check came before them */
int verify_fetch(struct cuda_backend *c);
void verify_hand_out(struct cuda_backend *c);
void verify_free(struct cuda_backend *c);

/* Whether the array is one of a deferred check that is still to be made; makes that check (false after a failure); the
 * array as a gate lets it through (NULL: none covers it); the answer goes to its caller, at the end of finish. */
bool gate_waits_for(const struct cuda_gate *g, const void *host);
bool gate_keep(struct cuda_backend *c);
const void *gate_copy(const struct cuda_gate *g, const void *host);
void gate_end(struct cuda_backend *c);
void gate_free(struct cuda_backend *c);

/* A counter of clipped values for an op: the caller's is added to when results are collected. */
uint64_t *clipped_counter(struct cuda_backend *c, uint64_t *counter);

#endif
