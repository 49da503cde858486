/* The ops of a step, kept until a result is wanted, then launched together.
 *
 * The same ops with the same arguments come again and again: every decode step of one padded batch size. The second
 * time they are captured in a CUDA graph, from then on the graph is launched. That is decided by comparing all
 * arguments with those of the graph, so nothing that changes can be missed; what changes without (ids, positions,
 * tables) lies at the same place of the device (staging.h), and no launch's size depends on it. */
#ifndef ASSAY_CUDA_STEPS_H
#define ASSAY_CUDA_STEPS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/library.h"
#include "cuda/logits.h"
#include "cuda/page_gate.h"
#include "engine/backend.h"

enum op_kind {
	OP_EMBED,
	OP_RMSNORM,
	OP_LINEAR,
	OP_PARTS_SUM,
	OP_ROW_AMAX,
	OP_ROPE_TABLE,
	OP_QKV_FINISH,
	OP_ATTEND,
	OP_LATENT_WRITE,
	OP_LATENT_ATTEND,
	OP_HEAD_LINEAR,
	OP_SWIGLU,
	OP_ROUTE,
	OP_EXPERTS,
	OP_ROWS_COPY,
	OP_LOGITS_TAIL,
	OP_VERIFY_PAGES,
	OP_PAGE_GATE,
	OP_COPY_PAGES,
};

/* Rows of bytes from one place of the device to another. */
struct rows_copy_args {
	void *to;
	const void *from;
	size_t to_stride, from_stride, bytes; /* of a row */
	size_t n_rows;
};

/* All array pointers are device memory. */
struct op {
	enum op_kind kind;
	union {
		struct embed_args embed;
		struct rmsnorm_args rmsnorm;
		struct linear_args linear;
		struct parts_sum_args parts_sum;
		struct row_amax_args row_amax;
		struct rope_table_args rope_table;
		struct qkv_finish_args qkv_finish;
		struct attend_args attend;
		struct latent_write_args latent_write;
		struct latent_attend_args latent_attend;
		struct head_linear_args head_linear;
		struct swiglu_args swiglu;
		struct route_args route;
		struct experts_args experts;
		struct rows_copy_args rows_copy;
		struct logits_tail_args logits_tail;
		struct verify_pages_args verify_pages;
		struct page_gate_args page_gate;
		struct copy_pages_args copy_pages;
	};
};

enum { STEPS_GRAPHS = 64, STEPS_SEEN = 256 };

struct step_graph {
	struct op *ops;
	int n;
	cudaGraphExec_t exec;
	uint64_t used;
};

struct steps {
	cudaStream_t stream;
	bool no_graphs;
	struct library *library; /* owned by the backend: makes the products of bf16 weights; NULL: our own do */
	struct op *ops;          /* waiting */
	int n, capacity;
	void *workspace; /* of products; the largest that was wanted so far */
	size_t workspace_bytes;
	struct step_graph graphs[STEPS_GRAPHS];
	int n_graphs;
	uint64_t seen[STEPS_SEEN]; /* hashes of lists that were launched once */
	uint64_t n_seen;
	uint64_t clock;
};

void steps_init(struct steps *s, cudaStream_t stream);
void steps_free(struct steps *s); /* PRECOND: the stream is idle */

/* A place for the next op, zeroed but for its kind; NULL without memory. */
struct op *steps_add(struct steps *s, enum op_kind kind, struct error *e);

/* Ends all graphs: memory that they name is about to go. */
void steps_forget(struct steps *s);

/* Launches what waits, and forgets it. */
int steps_launch(struct steps *s, struct error *e);

#endif
