/* Continuous batching: requests wait, are admitted when their pages fit, run in mixed steps of decode tokens and
 * prefill chunks, and leave. A request's pages are reserved for its whole length at admission, so a running request
 * never waits for memory. */
#ifndef ASSAY_ENGINE_SCHED_SCHEDULER_H
#define ASSAY_ENGINE_SCHED_SCHEDULER_H

#include <pthread.h>

#include "engine/model/forward.h"
#include "engine/sched/request.h"

struct scheduler_limits {
	int max_batch_tokens, chunk, max_requests, max_positions;
};

struct request_list {
	struct request *first, **last; /* last: where the next one is hung */
};

struct scheduler {
	struct model *model;
	struct kv_pool *pool;
	const struct tokenizer *tokenizer; /* NULL: none */
	const struct kv_guard *guard;
	const struct fault_hook *faults;
	struct scheduler_limits limits;

	pthread_mutex_t mutex; /* over what other threads touch */
	struct request_list incoming;
	uint64_t *aborts; /* [n_aborts] ids */
	int n_aborts, aborts_capacity;
	uint64_t next_id;

	struct request_list waiting, running, done;
	int n_waiting, n_running;

	/* the step's batch, planned once */
	int32_t *ids, *positions;                      /* [max_batch_tokens] */
	int64_t *slots;                                /* [max_batch_tokens] */
	int32_t *cu_seqlens, *first_position, *counts; /* [max_requests + 1] */
	struct request **scheduled;                    /* [max_requests] */
	uint64_t *request_ids;                         /* [max_requests] */
	uint8_t *bad;                                  /* [max_requests] set by the guard */
	int32_t *block_tables;                         /* [max_requests, table_stride] */
	int table_stride;
	struct logits_row *rows;          /* [max_batch_tokens] */
	int *row_sequence, *row_position; /* [max_batch_tokens] */

	struct engine_stats stats;
};

int scheduler_init(struct scheduler *s, struct model *model, struct kv_pool *pool, const struct tokenizer *tokenizer,
	const struct scheduler_limits *limits, struct error *e);
void scheduler_free(struct scheduler *s);

/* The faces of engine_submit, engine_abort, engine_step, engine_poll. */
int scheduler_submit(struct scheduler *s, const struct engine_request *r, uint64_t *id, struct error *e);
void scheduler_abort(struct scheduler *s, uint64_t id);
int scheduler_step(struct scheduler *s, bool *idle, struct error *e);
struct request *scheduler_take_done(struct scheduler *s);

#endif
