#include "engine/comm_threads.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/thread_pool.h"

/* A forward pass meets several times in each layer; a rank that slept each time would cost more than the exchange.
 * Where there are fewer processors than ranks it sleeps at once. */
enum { SPINS_BEFORE_SLEEP = 2000 };

enum call { CALL_GATHER, CALL_MAX, CALL_BARRIER, CALL_SEND, CALL_RECEIVE };

static const char *const call_names[] = {"all_gather", "all_reduce_max", "barrier", "send", "receive"};

struct group;

struct end {
	struct comm base; /* first: the handle that callers hold */
	struct group *group;
	pthread_cond_t wake;
	atomic_bool released; /* what the rank waits for has happened */

	/* What the rank is in, under the group's mutex; once all have met, everybody's to read until they meet
	 * again. */
	bool waiting;
	enum call call;
	int peer; /* of a message */
	const void *own;
	void *target;
	size_t bytes;
};

struct group {
	pthread_mutex_t mutex;
	int size, spins, users; /* users: ends that are not destroyed */
	int met;                /* ranks that wait in the collective at hand */
	int n_waiting;          /* ranks in any wait whose end has not come */
	atomic_bool failed;
	struct error failure; /* what every op returns from then on */
	struct end ends[COMM_MAX_RANKS];
};

static struct end *self(struct comm *c)
{
	return (struct end *)c;
}

/* ---- failure ---- */

/* PRECOND of all here: the mutex is held. */
static int failure_get(const struct group *g, struct error *e)
{
	return error_set(e, g->failure.code, "%s", g->failure.message);
}

/* g->failure is set: everybody that waits is to see it. */
static void failure_spread(struct group *g)
{
	atomic_store_explicit(&g->failed, true, memory_order_release);
	for (int r = 0; r < g->size; r++)
		pthread_cond_signal(&g->ends[r].wake);
}

static void call_describe(const struct end *end, char *out, size_t size)
{
	int rank = end->base.rank;

	if (end->call >= CALL_SEND)
		snprintf(out, size, "rank %d: %s of %zu bytes %s rank %d", rank, call_names[end->call], end->bytes,
			end->call == CALL_SEND ? "to" : "from", end->peer);
	else
		snprintf(out, size, "rank %d: %s of %zu bytes", rank, call_names[end->call], end->bytes);
}

/* what: printf form of one end's description and another's. */
static void disagreement(struct group *g, const struct end *a, const struct end *b, const char *what)
{
	char first[96], second[96];

	call_describe(a, first, sizeof first);
	call_describe(b, second, sizeof second);
	error_set(&g->failure, ERR_DEVICE, "%s: %s, %s", what, first, second);
	failure_spread(g);
}

static void threads_give_up(struct comm *c, const struct error *cause)
{
	struct group *g = self(c)->group;

	pthread_mutex_lock(&g->mutex);
	if (!g->failure.code) {
		error_set(&g->failure, cause->code, "rank %d failed: %s", c->rank, cause->message);
		failure_spread(g);
	}
	pthread_mutex_unlock(&g->mutex);
}

/* ---- waiting ---- */

static bool wait_is_over(const struct end *end)
{
	return atomic_load_explicit(&end->released, memory_order_acquire) ||
		atomic_load_explicit(&end->group->failed, memory_order_acquire);
}

/* Nobody is left who could release another. */
static void stalemate_check(struct group *g)
{
	const struct end *first = &g->ends[0], *other = &g->ends[1];

	if (g->n_waiting < g->size || g->failure.code)
		return;
	for (int r = 1; r < g->size; r++)
		if (g->ends[r].call != first->call)
			other = &g->ends[r];
	disagreement(g, first, other, "every rank waits for another");
}

/* With the mutex held, which it gives up in between: until another rank releases this one. */
static int wait_release(struct end *end, struct error *e)
{
	struct group *g = end->group;

	end->waiting = true;
	g->n_waiting++;
	stalemate_check(g);
	pthread_mutex_unlock(&g->mutex);
	for (int spin = 0; spin < g->spins && !wait_is_over(end); spin++)
		thread_relax();
	pthread_mutex_lock(&g->mutex);
	while (!wait_is_over(end))
		pthread_cond_wait(&end->wake, &g->mutex);
	if (!atomic_load_explicit(&end->released, memory_order_relaxed)) {
		end->waiting = false;
		g->n_waiting--;
		return failure_get(g, e);
	}
	return 0;
}

static void release(struct end *end)
{
	end->waiting = false;
	end->group->n_waiting--;
	atomic_store_explicit(&end->released, true, memory_order_release);
	pthread_cond_signal(&end->wake);
}

/* ---- collectives ---- */

/* All ranks are there: are they in the same call? */
static bool calls_agree(struct group *g)
{
	for (int r = 1; r < g->size; r++) {
		const struct end *first = &g->ends[0], *other = &g->ends[r];
		if (other->call == first->call && other->bytes == first->bytes)
			continue;
		disagreement(g, first, other, "the ranks are not in the same call");
		return false;
	}
	return true;
}

/* Returns when every rank has come here. PRECOND: the mutex is held. */
static int meet(struct end *end, struct error *e)
{
	struct group *g = end->group;

	if (g->failure.code)
		return failure_get(g, e);
	atomic_store_explicit(&end->released, false, memory_order_relaxed);
	if (++g->met < g->size)
		return wait_release(end, e);
	if (!calls_agree(g))
		return failure_get(g, e);
	g->met = 0;
	for (int r = 0; r < g->size; r++)
		if (&g->ends[r] != end)
			release(&g->ends[r]);
	return 0;
}

static int call_begin(struct end *end, enum call call, const void *own, void *target, size_t bytes, struct error *e)
{
	pthread_mutex_lock(&end->group->mutex);
	end->call = call;
	end->own = own;
	end->target = target;
	end->bytes = bytes;
	int status = meet(end, e);
	pthread_mutex_unlock(&end->group->mutex);
	return status;
}

/* After it nobody reads or writes this rank's buffers. */
static int call_end(struct end *end, struct error *e)
{
	pthread_mutex_lock(&end->group->mutex);
	int status = meet(end, e);
	pthread_mutex_unlock(&end->group->mutex);
	return status;
}

static int threads_all_gather(struct comm *c, const void *own, size_t bytes, void *all, struct error *e)
{
	struct end *end = self(c);

	TRY(call_begin(end, CALL_GATHER, own, all, bytes, e));
	for (int r = 0; r < c->size && bytes > 0; r++) {
		char *place = (char *)all + (size_t)r * bytes;
		if (end->group->ends[r].own != place)
			memcpy(place, end->group->ends[r].own, bytes);
	}
	return call_end(end, e);
}

/* Each rank finds the largest for a share of the indices, and writes it to everybody's. */
static int threads_all_reduce_max(struct comm *c, float *values, size_t count, struct error *e)
{
	struct end *end = self(c);
	const struct end *ends = end->group->ends;
	size_t first = count * (size_t)c->rank / (size_t)c->size,
	       last = count * ((size_t)c->rank + 1) / (size_t)c->size;

	TRY(call_begin(end, CALL_MAX, NULL, values, count * sizeof *values, e));
	for (size_t i = first; i < last; i++) {
		float max = ((const float *)ends[0].target)[i];
		for (int r = 1; r < c->size; r++) {
			float value = ((const float *)ends[r].target)[i];
			max = value > max || isnan(value) ? value : max;
		}
		for (int r = 0; r < c->size; r++)
			((float *)ends[r].target)[i] = max;
	}
	return call_end(end, e);
}

static int threads_barrier(struct comm *c, struct error *e)
{
	return call_begin(self(c), CALL_BARRIER, NULL, NULL, 0, e);
}

/* ---- messages ---- */

/* The one that comes second copies, while the first waits. */
static int message(
	struct end *end, enum call call, int peer, const void *own, void *target, size_t bytes, struct error *e)
{
	struct group *g = end->group;
	struct end *other = &g->ends[peer];

	if (g->failure.code)
		return failure_get(g, e);
	atomic_store_explicit(&end->released, false, memory_order_relaxed);
	end->call = call;
	end->peer = peer;
	end->own = own;
	end->target = target;
	end->bytes = bytes;
	if (!other->waiting || other->call < CALL_SEND || other->call == call || other->peer != end->base.rank)
		return wait_release(end, e);
	if (other->bytes != bytes) {
		disagreement(g, end, other, "the two ends of a message differ");
		return failure_get(g, e);
	}
	if (bytes > 0)
		memcpy(call == CALL_SEND ? other->target : target, call == CALL_SEND ? own : other->own, bytes);
	release(other);
	return 0;
}

static int message_exchange(
	struct comm *c, enum call call, int peer, const void *own, void *target, size_t bytes, struct error *e)
{
	struct end *end = self(c);

	if (peer < 0 || peer >= c->size || peer == c->rank)
		return error_set(e, ERR_USAGE, "%s of %zu bytes with rank %d by rank %d of %d: expected another rank",
			call_names[call], bytes, peer, c->rank, c->size);
	pthread_mutex_lock(&end->group->mutex);
	int status = message(end, call, peer, own, target, bytes, e);
	pthread_mutex_unlock(&end->group->mutex);
	return status;
}

static int threads_send(struct comm *c, int to, const void *data, size_t bytes, struct error *e)
{
	return message_exchange(c, CALL_SEND, to, data, NULL, bytes, e);
}

static int threads_receive(struct comm *c, int from, void *data, size_t bytes, struct error *e)
{
	return message_exchange(c, CALL_RECEIVE, from, NULL, data, bytes, e);
}

/* ---- life ---- */

static void threads_destroy(struct comm *c)
{
	static const struct error left = {ERR_DEVICE, "it left the group"};
	struct group *g = self(c)->group;

	threads_give_up(c, &left);
	pthread_mutex_lock(&g->mutex);
	int users = --g->users;
	pthread_mutex_unlock(&g->mutex);
	if (users > 0)
		return;
	for (int r = 0; r < g->size; r++)
		pthread_cond_destroy(&g->ends[r].wake);
	pthread_mutex_destroy(&g->mutex);
	free(g);
}

static const struct comm_ops threads_ops = {
	.name = "threads",
	.all_gather = threads_all_gather,
	.all_reduce_max = threads_all_reduce_max,
	.send = threads_send,
	.receive = threads_receive,
	.barrier = threads_barrier,
	.give_up = threads_give_up,
	.destroy = threads_destroy,
};

int comm_threads_new(int size, struct comm **out, struct error *e)
{
	if (size < 1 || size > COMM_MAX_RANKS)
		return error_set(e, ERR_USAGE, "%d ranks: expected 1 to %d", size, COMM_MAX_RANKS);
	struct group *g = mem_calloc(1, sizeof *g, e);
	if (!g)
		return ERR_MEMORY;
	pthread_mutex_init(&g->mutex, NULL);
	g->size = g->users = size;
	g->spins = size <= thread_count_default() ? SPINS_BEFORE_SLEEP : 0;
	for (int r = 0; r < size; r++) {
		struct end *end = &g->ends[r];
		end->base = (struct comm){&threads_ops, r, size};
		end->group = g;
		pthread_cond_init(&end->wake, NULL);
		out[r] = &end->base;
	}
	return 0;
}
