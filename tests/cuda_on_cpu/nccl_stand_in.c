/* Stands in for libnccl.so.2, for the ranks of one process on devices that are stood in for, too. As there, a call puts
 * work into a stream and returns; the work waits for that of the other ranks, unless its communicator is aborted; and
 * the first call of a kind connects the ranks, for which it waits itself until all have made it. In a group of calls
 * (ncclGroupStart) all that stand in it are connected together at its end, or none is made where one of them failed. */
#include "tests/cuda_on_cpu/nccl_stand_in.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda_on_cpu/cuda_on_cpu.h"
#include "tests/cuda_on_cpu/nccl.h"

enum { RANKS = 8, GROUP_CALLS = 2 * RANKS * RANKS };
enum kind { GATHER, MAX_U32, MAX_I32, SEND, RECEIVE, COLLECTIVES = SEND };

struct call {
	struct ncclComm *comm;
	enum kind kind;
	const void *own;
	void *all;
	size_t bytes;
	int peer; /* of a message */
	cudaStream_t stream;
	struct call *next; /* of its group, in its stream */
	bool over;
	bool posted;      /* the device has come to it */
	unsigned meeting; /* then: which of the group's it is */
};

struct ncclComm {
	struct clique *clique;
	int rank;
	bool aborted;
	int inside; /* calls that have not returned */
};

/* The communicators of one ncclCommInitAll. They stay until the program ends, so that none is used after it is gone. */
struct clique {
	struct clique *next;
	int size;
	struct ncclComm comms[RANKS];
	unsigned connected[COLLECTIVES];     /* ranks that have made a first call, a bit each */
	unsigned paired[RANKS][RANKS];       /* [from, to]: 1 the sender, 2 the receiver */
	struct call *meeting[RANKS];         /* the collective at hand: calls that devices have come to */
	unsigned n_meetings;                 /* that are over */
	struct call *messages[RANKS][RANKS]; /* [from, to]: of the side that came first */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows; taken after the devices' */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct clique *cliques;
static const char *misuse;
static int fail_rank = -1, fail_calls;

static _Thread_local int group_depth, group_calls;
static _Thread_local struct call *group[GROUP_CALLS];
static _Thread_local ncclResult_t group_result; /* of the first call that failed: then none is made */

static void misused(const char *how)
{
	if (!misuse)
		misuse = how;
}

nccl_stand_in_misuse_function nccl_stand_in_misuse;
nccl_stand_in_fail_function nccl_stand_in_fail;

const char *nccl_stand_in_misuse(void)
{
	pthread_mutex_lock(&lock);
	const char *how = misuse;
	pthread_mutex_unlock(&lock);
	return how;
}

void nccl_stand_in_fail(int rank, int calls)
{
	pthread_mutex_lock(&lock);
	fail_rank = rank;
	fail_calls = calls;
	pthread_mutex_unlock(&lock);
}

/* ---- on the device: under the lock ---- */

static void gather(const struct clique *q)
{
	for (int to = 0; to < q->size; to++)
		for (int from = 0; from < q->size; from++) {
			const struct call *c = q->meeting[from];
			char *place = (char *)q->meeting[to]->all + (size_t)from * c->bytes;
			if (place != c->own)
				memcpy(place, c->own, c->bytes);
		}
}

static void maximum(const struct clique *q, bool is_signed)
{
	for (size_t i = 0; i < q->meeting[0]->bytes / sizeof(uint32_t); i++) {
		uint32_t most = ((const uint32_t *)q->meeting[0]->own)[i];
		for (int r = 1; r < q->size; r++) {
			uint32_t value = ((const uint32_t *)q->meeting[r]->own)[i];
			if (is_signed ? (int32_t)value > (int32_t)most : value > most)
				most = value;
		}
		for (int r = 0; r < q->size; r++)
			((uint32_t *)q->meeting[r]->all)[i] = most;
	}
}

static void meeting_hold(struct clique *q)
{
	for (int r = 1; r < q->size; r++)
		if (q->meeting[r]->kind != q->meeting[0]->kind || q->meeting[r]->bytes != q->meeting[0]->bytes)
			misused("ranks are not in the same collective");
	if (!misuse && q->meeting[0]->kind == GATHER)
		gather(q);
	else if (!misuse)
		maximum(q, q->meeting[0]->kind == MAX_I32);
	memset(q->meeting, 0, sizeof q->meeting);
	q->n_meetings++;
}

/* Whether the collective is over. */
static bool meet(struct call *c)
{
	struct clique *q = c->comm->clique;

	if (!c->posted) {
		c->posted = true;
		c->meeting = q->n_meetings;
		q->meeting[c->comm->rank] = c;
		int n = 0;
		for (int r = 0; r < q->size; r++)
			n += q->meeting[r] != NULL;
		if (n == q->size)
			meeting_hold(q);
	}
	return q->n_meetings != c->meeting;
}

/* Whether the message has been taken over: by the side that comes second. */
static bool message(struct call *c)
{
	int rank = c->comm->rank, from = c->kind == SEND ? rank : c->peer, to = c->kind == SEND ? c->peer : rank;
	struct call **place = &c->comm->clique->messages[from][to], *other = *place;

	if (c->posted)
		return *place != c;
	c->posted = true;
	if (!other) {
		*place = c;
		return false;
	}
	if (other->kind == c->kind || other->bytes != c->bytes)
		misused("the two ends of a message do not agree");
	else
		memcpy(c->kind == SEND ? other->all : c->all, c->kind == SEND ? c->own : other->own, c->bytes);
	*place = NULL;
	return true;
}

/* The device lets go of what it had come to. */
static void call_forget(struct call *c)
{
	struct clique *q = c->comm->clique;

	for (int r = 0; r < RANKS; r++) {
		if (q->meeting[r] == c)
			q->meeting[r] = NULL;
		for (int to = 0; to < RANKS; to++)
			if (q->messages[r][to] == c)
				q->messages[r][to] = NULL;
	}
}

static bool call_try(struct call *c)
{
	pthread_mutex_lock(&lock);
	bool over = c->comm->aborted;
	if (over)
		call_forget(c);
	else
		over = c->kind < COLLECTIVES ? meet(c) : message(c);
	pthread_mutex_unlock(&lock);
	return over;
}

/* Calls of one group in one stream go on side by side. */
static bool calls_try(void *argument)
{
	struct call *first = argument;

	for (struct call **place = &first->next; *place;) {
		struct call *c = *place;
		if (!call_try(c)) {
			place = &c->next;
			continue;
		}
		*place = c->next;
		free(c);
	}
	if (!first->over)
		first->over = call_try(first);
	if (!first->over || first->next)
		return false;
	free(first);
	return true;
}

/* ---- on the host ---- */

static ncclResult_t comm_enter(struct ncclComm *comm)
{
	pthread_mutex_lock(&lock);
	bool gone = comm->aborted, planted = comm->rank == fail_rank && --fail_calls == 0;
	if (gone)
		misused("a communicator is used that was aborted");
	if (comm->inside++ > 0)
		misused("two calls of a communicator at a time");
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < 3; i++) /* others may do meanwhile what they must not */
		sched_yield();
	return gone ? ncclInvalidArgument : planted ? ncclSystemError : ncclSuccess;
}

static void comm_leave(struct ncclComm *comm)
{
	pthread_mutex_lock(&lock);
	comm->inside--;
	pthread_mutex_unlock(&lock);
}

/* The bits that all who are to be connected set, and this call's. */
static unsigned *connection(const struct call *c, unsigned *all, unsigned *own)
{
	struct clique *q = c->comm->clique;

	if (c->kind < COLLECTIVES) {
		*all = (1u << q->size) - 1;
		*own = 1u << c->comm->rank;
		return &q->connected[c->kind == MAX_I32 ? MAX_U32 : c->kind];
	}
	*all = 3;
	*own = c->kind == SEND ? 1 : 2;
	return c->kind == SEND ? &q->paired[c->comm->rank][c->peer] : &q->paired[c->peer][c->comm->rank];
}

static ncclResult_t call_connect(const struct call *c)
{
	unsigned all, own, *bits = connection(c, &all, &own);

	pthread_mutex_lock(&lock);
	while (*bits != all && !c->comm->aborted)
		pthread_cond_wait(&changed, &lock);
	bool aborted = c->comm->aborted;
	pthread_mutex_unlock(&lock);
	return aborted ? ncclInternalError : ncclSuccess;
}

/* Each stream gets those that are its own, as one piece of work. */
static void calls_await(struct call *const *calls, int n)
{
	struct call *heads[GROUP_CALLS];
	int n_heads = 0;

	for (int i = 0; i < n; i++) {
		int h = 0;
		while (h < n_heads && heads[h]->stream != calls[i]->stream)
			h++;
		if (h == n_heads)
			heads[n_heads++] = calls[i];
		else {
			calls[i]->next = heads[h]->next;
			heads[h]->next = calls[i];
		}
	}
	for (int h = 0; h < n_heads; h++)
		cuda_on_cpu_stream_await(heads[h]->stream, calls_try, heads[h]);
}

/* Connects all of the calls, then puts them into their streams. */
static ncclResult_t calls_start(struct call *const *calls, int n)
{
	ncclResult_t result = ncclSuccess;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < n; i++) {
		unsigned all, own, *bits = connection(calls[i], &all, &own);
		*bits |= own;
	}
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < n && result == ncclSuccess; i++)
		result = call_connect(calls[i]);
	for (int i = 0; i < n && result != ncclSuccess; i++)
		free(calls[i]);
	if (result == ncclSuccess)
		calls_await(calls, n);
	return result;
}

ncclResult_t ncclGroupStart(void)
{
	group_depth++;
	return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
	if (--group_depth > 0)
		return ncclSuccess;
	int n = group_calls;
	ncclResult_t result = group_result;
	group_calls = 0;
	group_result = ncclSuccess;
	for (int i = 0; i < n && result != ncclSuccess; i++)
		free(group[i]);
	return result == ncclSuccess ? calls_start(group, n) : result;
}

static ncclResult_t call_make(const struct call *what)
{
	ncclResult_t result = comm_enter(what->comm);
	struct call *c = result == ncclSuccess && what->bytes > 0 ? malloc(sizeof *c) : NULL;

	if (c)
		*c = *what;
	if (c && group_depth == 0)
		result = calls_start(&c, 1);
	else if (c && group_calls < GROUP_CALLS)
		group[group_calls++] = c;
	if (group_depth > 0 && group_result == ncclSuccess)
		group_result = result;
	comm_leave(what->comm);
	return result;
}

ncclResult_t ncclAllGather(
	const void *own, void *all, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
{
	if (type != ncclUint8)
		return ncclInvalidArgument;
	return call_make(&(struct call){comm, GATHER, own, all, count, 0, stream, NULL, false, false, 0});
}

ncclResult_t ncclAllReduce(const void *own, void *all, size_t count, ncclDataType_t type, ncclRedOp_t op,
	ncclComm_t comm, cudaStream_t stream)
{
	if (op != ncclMax || (type != ncclUint32 && type != ncclInt32))
		return ncclInvalidArgument;
	return call_make(&(struct call){comm, type == ncclInt32 ? MAX_I32 : MAX_U32, own, all, count * sizeof(uint32_t),
		0, stream, NULL, false, false, 0});
}

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int to, ncclComm_t comm, cudaStream_t stream)
{
	if (type != ncclUint8 || to < 0 || to >= comm->clique->size)
		return ncclInvalidArgument;
	return call_make(&(struct call){comm, SEND, data, NULL, count, to, stream, NULL, false, false, 0});
}

ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int from, ncclComm_t comm, cudaStream_t stream)
{
	if (type != ncclUint8 || from < 0 || from >= comm->clique->size)
		return ncclInvalidArgument;
	return call_make(&(struct call){comm, RECEIVE, NULL, data, count, from, stream, NULL, false, false, 0});
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int n, const int *devices)
{
	if (n < 1 || n > RANKS)
		return ncclInvalidArgument;
	for (int r = 0; r < n; r++)
		for (int other = 0; other < r; other++)
			if (devices[r] == devices[other])
				return ncclInvalidUsage;
	struct clique *q = calloc(1, sizeof *q);
	if (!q)
		return ncclSystemError;
	q->size = n;
	for (int r = 0; r < n; r++) {
		q->comms[r] = (struct ncclComm){q, r, false, 0};
		comms[r] = &q->comms[r];
	}
	pthread_mutex_lock(&lock);
	q->next = cliques;
	cliques = q;
	pthread_mutex_unlock(&lock);
	return ncclSuccess;
}

#ifndef WITHOUT_ABORT
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	comm_enter(comm);
	pthread_mutex_lock(&lock);
	comm->aborted = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	comm_leave(comm);
	cuda_on_cpu_streams_wake();
	return ncclSuccess;
}
#endif

const char *ncclGetErrorString(ncclResult_t result)
{
	static const char *const names[] = {"no error", "unhandled cuda error", "unhandled system error",
		"internal error", "invalid argument", "invalid usage"};
	return names[result];
}
