/* Continuous batching. A step admits what fits, runs each instance's model once over decode tokens and prefill chunks,
 * and publishes what came out.
 *
 * Requests are served in order of submission; one whose pages are not there holds back those behind it, so none
 * starves. A request that shares a long prefix with one that is being computed waits for it, to find it in the cache.
 * Pages for what is known of a request are taken when it is admitted, further ones as it grows; when none is left the
 * youngest running request gives its pages up and waits to be computed again. The oldest is never preempted, and each fits
 * the pool alone, so every request ends. */
#ifndef ASSAY_ENGINE_SCHED_SCHEDULER_H
#define ASSAY_ENGINE_SCHED_SCHEDULER_H

#include "engine/sched/batch.h"
#include "engine/sched/inbox.h"
#include "engine/sched/instance.h"
#include "engine/sched/ranks.h"

struct scheduler_limits {
	int max_batch_tokens, chunk, max_requests, max_positions;
	bool no_prefix_cache, pad_decode;
};

/* One or two instances: what computes prompts, and what goes on from there. */
struct scheduler_part {
	struct model *models; /* [ranks] */
	struct kv_pool *pool;
	const char *writer; /* variant of the values in its pages */
};

struct scheduler {
	struct ranks *ranks;
	struct instance instances[2];
	int n_instances;
	const struct tokenizer *tokenizer; /* NULL: none */
	struct scheduler_limits limits;
	struct inbox inbox;
	struct request_list waiting, done;
	struct batch batch; /* of the instance that runs */
	uint64_t ticks;     /* calls of scheduler_step */
	uint64_t epoch;     /* calls of the guards' verify */
	struct engine_stats stats;
};

/* The scheduler must not move in memory afterwards. */
int scheduler_init(struct scheduler *s, struct ranks *ranks, const struct scheduler_part *parts, int n_parts,
	const struct tokenizer *tokenizer, const struct scheduler_limits *limits, struct error *e);
void scheduler_free(struct scheduler *s);

/* The faces of engine_submit, engine_abort, engine_step, engine_poll. */
int scheduler_submit(struct scheduler *s, const struct engine_request *r, uint64_t *id, struct error *e);
void scheduler_abort(struct scheduler *s, uint64_t id);
int scheduler_step(struct scheduler *s, bool *idle, struct error *e);
struct request *scheduler_take_done(struct scheduler *s);

void scheduler_cache_clear(struct scheduler *s);

/* The face of engine_audit (audit.c). */
int scheduler_audit(const struct scheduler *s, struct error *e);

#endif
