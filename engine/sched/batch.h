/* One step's batch of an instance: the ragged arrays that the kernels read, planned once for the largest batch. */
#ifndef ASSAY_ENGINE_SCHED_BATCH_H
#define ASSAY_ENGINE_SCHED_BATCH_H

#include "engine/sched/instance.h"

struct batch {
	int max_tokens, max_sequences, table_stride;
	int32_t *ids, *positions;             /* [max_tokens] */
	int64_t *slots;                       /* [max_tokens] */
	int32_t *cu_seqlens, *first_position; /* [max_sequences + 1] */
	int32_t *block_tables;                /* [max_sequences, table_stride] */
	struct request **scheduled;           /* [max_sequences]; NULL: padding */
	uint64_t *request_ids;                /* [max_sequences]; 0: padding */
	const int32_t **own;                  /* [max_sequences] the request's tokens; NULL: padding */
	int32_t *emitted;                     /* [max_sequences] tokens generated before */
	uint64_t *validated;                  /* [max_sequences] epoch of the last check */
	uint8_t *bad;                         /* [max_sequences] set by the guard */
	struct logits_row *rows;              /* [max_tokens] */
	int *row_sequence, *row_position;     /* [max_tokens] */
	struct forward_batch forward;         /* the step's, over these arrays */
};

/* table_stride: logical pages of the longest request. */
int batch_init(struct batch *b, int max_tokens, int max_requests, int table_stride, struct error *e);
void batch_free(struct batch *b);

void batch_clear(struct batch *b);

/* The next `count` tokens of a request of the instance. */
void batch_add(struct batch *b, const struct instance *in, struct request *r, int count);

/* Fills a batch of single tokens up to the next power of two (at most max_tokens) with rows that read and write page 0,
 * which is nobody's. Other batches stay as they are. */
void batch_pad(struct batch *b, const struct kv_pool *pool);

/* Sequences that the guard named go on as if they began, on page 0: nothing of them must be used, read or written. */
void batch_park_bad(struct batch *b, int page_size);

#endif
