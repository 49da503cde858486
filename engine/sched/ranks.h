/* The ranks of an engine: each has a backend, an end of the group's comm, its share of the weights and of the KV
 * memory, and a thread while a step runs. One scheduler drives them all: it hands each the same batch. */
#ifndef ASSAY_ENGINE_SCHED_RANKS_H
#define ASSAY_ENGINE_SCHED_RANKS_H

#include "engine/comm.h"
#include "engine/model/forward.h"

struct thread_pool;

struct ranks {
	int size;
	struct backend *backends[COMM_MAX_RANKS];
	struct comm *comms[COMM_MAX_RANKS];
	struct thread_pool *threads; /* one for each rank: the caller's is one of them */
};

/* backends, comms: [size], which the group owns from then on, also when this fails; NULL: CPU backends that share
 * `threads` threads, and threads in this process. */
int ranks_open(struct ranks *g, int size, int threads, struct backend *const *backends, struct comm *const *comms,
	struct error *e);
void ranks_close(struct ranks *g); /* zeroes *g */

/* forward() on every rank, of models [size]. When one fails all end, and the error names it; no further step works
 * then. */
int ranks_forward(struct ranks *g, struct model *models, struct kv_pool *pool, const struct forward_batch *batch,
	uint64_t *saturated, struct error *e);

#endif
