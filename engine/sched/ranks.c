#include "engine/sched/ranks.h"

#include <string.h>

#include "engine/base/thread_pool.h"
#include "engine/comm_threads.h"
#include "engine/cpu/cpu_backend.h"

static int backends_open(struct ranks *g, int threads, struct error *e)
{
	int each = threads > g->size ? threads / g->size : 1;

	for (int r = 0; r < g->size; r++)
		if (!g->backends[r])
			TRY(cpu_backend_new(each, NULL, &g->backends[r], e));
	return 0;
}

int ranks_open(struct ranks *g, int size, int threads, struct backend *const *backends, struct comm *const *comms,
	struct error *e)
{
	*g = (struct ranks){.size = size};
	for (int r = 0; r < size; r++) {
		g->backends[r] = backends ? backends[r] : NULL;
		g->comms[r] = comms ? comms[r] : NULL;
	}
	TRY(backends_open(g, threads, e));
	if (!comms && size == 1)
		g->comms[0] = comm_self();
	else if (!comms)
		TRY(comm_threads_new(size, g->comms, e));
	g->threads = thread_pool_new(size, e);
	return g->threads ? 0 : e->code;
}

void ranks_close(struct ranks *g)
{
	thread_pool_delete(g->threads);
	for (int r = 0; r < g->size; r++)
		if (g->comms[r])
			g->comms[r]->ops->destroy(g->comms[r]);
	for (int r = 0; r < g->size; r++) /* after the comms, which may work in a backend's stream */
		if (g->backends[r])
			g->backends[r]->ops->destroy(g->backends[r]);
	*g = (struct ranks){0};
}

struct step {
	struct ranks *group;
	struct model *models;
	struct kv_pool *pool;
	const struct forward_batch *batch;
	uint64_t saturated[COMM_MAX_RANKS];
	struct error errors[COMM_MAX_RANKS];
};

/* As many ranks as threads, and none is done before all have met: each thread has one. */
static void rank_step(void *argument, int rank, int thread)
{
	struct step *s = argument;
	struct comm *c = s->group->comms[rank];
	struct error *e = &s->errors[rank];

	(void)thread;
	if (forward(&s->models[rank], s->pool, s->batch, &s->saturated[rank], e) < 0)
		c->ops->give_up(c, e);
	c->ops->barrier(c, e); /* where a rank failed, this says which */
}

int ranks_forward(struct ranks *g, struct model *models, struct kv_pool *pool, const struct forward_batch *batch,
	uint64_t *saturated, struct error *e)
{
	struct step s = {.group = g, .models = models, .pool = pool, .batch = batch};

	if (g->size == 1)
		return forward(models, pool, batch, saturated, e);
	thread_pool_run(g->threads, g->size, rank_step, &s);
	for (int r = 0; r < g->size; r++)
		*saturated += s.saturated[r];
	if (s.errors[0].code)
		*e = s.errors[0];
	return s.errors[0].code;
}
