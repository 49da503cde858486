#include "cuda/nccl_comm.h"

#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/internal.h"
#include "cuda/status.h"

/* A call that finds a device's queue of about a thousand launches full waits for the device, while it holds the lock of
 * its end; a rank that fails then could not abort that end, for which the device may be waiting. So the stream is waited
 * for, without the lock, before that many calls with the ops between them fill the queue. */
enum { CALLS_AHEAD = 64 };

/* The library is looked for when ranks are asked for, so that the program starts without it. */
struct nccl_library {
	ncclResult_t (*init_all)(ncclComm_t *comms, int n, const int *devices);
	ncclResult_t (*abort)(ncclComm_t comm);
	ncclResult_t (*group_start)(void);
	ncclResult_t (*group_end)(void);
	ncclResult_t (*all_gather)(
		const void *own, void *all, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream);
	ncclResult_t (*all_reduce)(const void *own, void *all, size_t count, ncclDataType_t type, ncclRedOp_t op,
		ncclComm_t comm, cudaStream_t stream);
	ncclResult_t (*send)(
		const void *data, size_t count, ncclDataType_t type, int to, ncclComm_t comm, cudaStream_t stream);
	ncclResult_t (*receive)(
		void *data, size_t count, ncclDataType_t type, int from, ncclComm_t comm, cudaStream_t stream);
	const char *(*error_string)(ncclResult_t result);
};

struct group;

struct end {
	struct comm base; /* first: the handle that callers hold */
	struct group *group;
	struct cuda_backend *backend;
	int32_t *tokens; /* [device] [1 + size] what a barrier exchanges, and the first calls */
	int calls;       /* since the stream was waited for */

	pthread_mutex_t lock; /* the library takes one call of a communicator at a time, and abort is one */
	ncclComm_t comm;      /* NULL: aborted */
};

struct group {
	struct nccl_library library;
	pthread_mutex_t lock;
	int size, users;      /* users: ends that are not destroyed */
	struct error failure; /* the first; names its rank. Set before any end is aborted. */
	struct end ends[COMM_MAX_RANKS];
};

static struct end *end_of(struct comm *c)
{
	return (struct end *)c;
}

/* ---- the library ---- */

static int library_find(struct nccl_library *l, struct error *e)
{
	static const char name[] = "libnccl.so.2";
	const struct {
		const char *symbol;
		void *function; /* where its address goes */
	} table[] = {
		{"ncclCommInitAll", &l->init_all},
		{"ncclCommAbort", &l->abort},
		{"ncclGroupStart", &l->group_start},
		{"ncclGroupEnd", &l->group_end},
		{"ncclAllGather", &l->all_gather},
		{"ncclAllReduce", &l->all_reduce},
		{"ncclSend", &l->send},
		{"ncclRecv", &l->receive},
		{"ncclGetErrorString", &l->error_string},
	};

	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL); /* stays: the library may have threads of its own */
	if (!handle)
		return error_set(e, ERR_USAGE, "ranks on CUDA need NCCL: %s", dlerror());
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		void *function = dlsym(handle, table[i].symbol);
		if (!function)
			return error_set(
				e, ERR_USAGE, "%s has no %s: another version of NCCL is needed", name, table[i].symbol);
		memcpy(table[i].function, &function, sizeof function);
	}
	return 0;
}

/* ---- failures ---- */

static void end_abort(struct end *end)
{
	pthread_mutex_lock(&end->lock);
	if (end->comm)
		end->group->library.abort(end->comm);
	end->comm = NULL;
	pthread_mutex_unlock(&end->lock);
}

/* All ends are aborted: what waits on a device for another rank ends. */
static void group_fail(struct group *g, int rank, const struct error *cause)
{
	pthread_mutex_lock(&g->lock);
	bool first = g->failure.code == 0;
	if (first)
		error_set(&g->failure, cause->code, "rank %d failed: %s", rank, cause->message);
	pthread_mutex_unlock(&g->lock);
	for (int r = 0; first && r < g->size; r++)
		end_abort(&g->ends[r]);
}

static int group_check(struct group *g, struct error *e)
{
	pthread_mutex_lock(&g->lock);
	int code = g->failure.code;
	if (code && e)
		*e = g->failure;
	pthread_mutex_unlock(&g->lock);
	return code;
}

/* status: of something on this end's device; why: its error. */
static int end_check(struct end *end, int status, const struct error *why, struct error *e)
{
	if (status < 0)
		group_fail(end->group, end->base.rank, why);
	return group_check(end->group, e);
}

/* ---- calls ---- */

static int stream_wait(struct end *end, struct error *e)
{
	struct error why = {0};
	int status = cuda_status(cudaStreamSynchronize(end->backend->stream), "what ranks exchange", &why);

	end->calls = 0;
	return end_check(end, status, &why, e);
}

/* The group is whole, and what the call reads is in the stream. After 0 the end is locked, until call_end. */
static int call_begin(struct end *end, struct error *e)
{
	struct cuda_backend *b = end->backend;

	TRY(group_check(end->group, e));
	device_use(b->device);
	ops_flush(b);
	TRY(end_check(end, b->failure.code, &b->failure, e));
	if (++end->calls >= CALLS_AHEAD)
		TRY(stream_wait(end, e));
	pthread_mutex_lock(&end->lock);
	if (end->comm)
		return 0;
	pthread_mutex_unlock(&end->lock);
	return group_check(end->group, e);
}

static int call_end(struct end *end, ncclResult_t result, const char *what, struct error *e)
{
	struct error why = {0};

	pthread_mutex_unlock(&end->lock);
	if (result == ncclSuccess)
		return 0;
	int status = error_set(
		&why, ERR_DEVICE, "%s: NCCL error %d: %s", what, (int)result, end->group->library.error_string(result));
	return end_check(end, status, &why, e);
}

static int nccl_all_gather(struct comm *base, const void *own, size_t bytes, void *all, struct error *e)
{
	struct end *end = end_of(base);
	const struct nccl_library *l = &end->group->library;

	TRY(call_begin(end, e));
	ncclResult_t result = l->all_gather(own, all, bytes, ncclUint8, end->comm, end->backend->stream);
	return call_end(end, result, "all-gather", e);
}

/* Numbers that are not negative compare as their bits do, and a NaN is above everything. */
static int nccl_all_reduce_max(struct comm *base, float *values, size_t count, struct error *e)
{
	struct end *end = end_of(base);
	const struct nccl_library *l = &end->group->library;

	TRY(call_begin(end, e));
	ncclResult_t result =
		l->all_reduce(values, values, count, ncclUint32, ncclMax, end->comm, end->backend->stream);
	return call_end(end, result, "largest of all ranks", e);
}

static int peer_check(const struct comm *base, int peer, const char *what, size_t bytes, struct error *e)
{
	if (peer >= 0 && peer < base->size && peer != base->rank)
		return 0;
	return error_set(e, ERR_USAGE, "%s of %zu bytes with rank %d by rank %d of %d: expected another rank", what,
		bytes, peer, base->rank, base->size);
}

static int nccl_send(struct comm *base, int to, const void *data, size_t bytes, struct error *e)
{
	struct end *end = end_of(base);
	const struct nccl_library *l = &end->group->library;

	TRY(peer_check(base, to, "send", bytes, e));
	TRY(call_begin(end, e));
	ncclResult_t result = l->send(data, bytes, ncclUint8, to, end->comm, end->backend->stream);
	return call_end(end, result, "send", e);
}

static int nccl_receive(struct comm *base, int from, void *data, size_t bytes, struct error *e)
{
	struct end *end = end_of(base);
	const struct nccl_library *l = &end->group->library;

	TRY(peer_check(base, from, "receive", bytes, e));
	TRY(call_begin(end, e));
	ncclResult_t result = l->receive(data, bytes, ncclUint8, from, end->comm, end->backend->stream);
	return call_end(end, result, "receive", e);
}

static int nccl_barrier(struct comm *base, struct error *e)
{
	struct end *end = end_of(base);
	const struct nccl_library *l = &end->group->library;

	TRY(call_begin(end, e));
	ncclResult_t result =
		l->all_reduce(end->tokens, end->tokens, 1, ncclInt32, ncclMax, end->comm, end->backend->stream);
	TRY(call_end(end, result, "barrier", e));
	return stream_wait(end, e);
}

static void nccl_give_up(struct comm *base, const struct error *cause)
{
	group_fail(end_of(base)->group, base->rank, cause);
}

/* ---- life ---- */

static void group_free(struct group *g)
{
	for (int r = 0; r < g->size; r++)
		pthread_mutex_destroy(&g->ends[r].lock);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

/* Whoever leaves ends the group: an end of it that waited for this one would wait for ever. */
static void nccl_destroy(struct comm *base)
{
	static const struct error left = {ERR_DEVICE, "it left the group"};
	struct end *end = end_of(base);
	struct group *g = end->group;

	group_fail(g, base->rank, &left);
	end_abort(end); /* whoever failed first may not have come to this end yet */
	device_use(end->backend->device);
	cudaStreamSynchronize(end->backend->stream);
	cudaFree(end->tokens);
	pthread_mutex_lock(&g->lock);
	int users = --g->users;
	pthread_mutex_unlock(&g->lock);
	if (users == 0)
		group_free(g);
}

static const struct comm_ops nccl_ops = {
	.name = "nccl",
	.all_gather = nccl_all_gather,
	.all_reduce_max = nccl_all_reduce_max,
	.send = nccl_send,
	.receive = nccl_receive,
	.barrier = nccl_barrier,
	.give_up = nccl_give_up,
	.destroy = nccl_destroy,
};

static int tokens_new(struct end *end, struct error *e)
{
	size_t bytes = (1 + (size_t)end->base.size) * sizeof *end->tokens;

	device_use(end->backend->device);
	TRY(cuda_status(cudaMalloc((void **)&end->tokens, bytes), "barrier", e));
	return cuda_status(cudaMemsetAsync(end->tokens, 0, bytes, end->backend->stream), "barrier", e);
}

enum first_call { FIRST_GATHER, FIRST_MAX, FIRST_MESSAGE, FIRST_CALLS };

/* What every end does in a first call; messages go to all others. */
static ncclResult_t first_call(const struct end *end, enum first_call call)
{
	const struct nccl_library *l = &end->group->library;
	cudaStream_t stream = end->backend->stream;
	int32_t *own = end->tokens, *all = end->tokens + 1;
	ncclResult_t result = ncclSuccess;

	if (call == FIRST_GATHER)
		return l->all_gather(own, all, sizeof *own, ncclUint8, end->comm, stream);
	if (call == FIRST_MAX)
		return l->all_reduce(own, own, 1, ncclInt32, ncclMax, end->comm, stream);
	for (int r = 0; r < end->base.size && result == ncclSuccess; r++) {
		if (r == end->base.rank)
			continue;
		result = l->send(own, sizeof *own, ncclUint8, r, end->comm, stream);
		if (result == ncclSuccess)
			result = l->receive(all + r, sizeof *all, ncclUint8, r, end->comm, stream);
	}
	return result;
}

/* Ranks are connected by their first calls, each of which waits for all others, with its end locked. So all make them
 * here, in one thread: later calls wait for nobody who may have failed. */
static int group_connect(struct group *g, struct error *e)
{
	const struct nccl_library *l = &g->library;

	for (int call = 0; call < FIRST_CALLS; call++) {
		ncclResult_t result = l->group_start();
		for (int r = 0; r < g->size && result == ncclSuccess; r++) {
			device_use(g->ends[r].backend->device);
			result = first_call(&g->ends[r], (enum first_call)call);
		}
		ncclResult_t ended = l->group_end();
		if (result == ncclSuccess)
			result = ended;
		if (result != ncclSuccess)
			return error_set(e, ERR_DEVICE, "NCCL cannot connect %d devices: error %d: %s", g->size,
				(int)result, l->error_string(result));
	}
	for (int r = 0; r < g->size; r++)
		TRY(stream_wait(&g->ends[r], e));
	return 0;
}

static int group_open(struct group *g, struct error *e)
{
	ncclComm_t comms[COMM_MAX_RANKS];
	int devices[COMM_MAX_RANKS];

	/* all ways of a collective, not only those that the small first calls take; read by the library's start */
	setenv("NCCL_RUNTIME_CONNECT", "0", 0);
	TRY(library_find(&g->library, e));
	for (int r = 0; r < g->size; r++)
		devices[r] = g->ends[r].backend->device;
	ncclResult_t result = g->library.init_all(comms, g->size, devices);
	if (result != ncclSuccess)
		return error_set(e, ERR_DEVICE, "NCCL cannot join %d devices: error %d: %s", g->size, (int)result,
			g->library.error_string(result));
	for (int r = 0; r < g->size; r++)
		g->ends[r].comm = comms[r];
	for (int r = 0; r < g->size; r++)
		TRY(tokens_new(&g->ends[r], e));
	return group_connect(g, e);
}

int nccl_comms_new(struct backend *const *backends, int size, struct comm **out, struct error *e)
{
	memset(out, 0, (size_t)size * sizeof(struct comm *));
	struct group *g = mem_calloc(1, sizeof *g, e);
	if (!g)
		return ERR_MEMORY;
	g->size = g->users = size;
	pthread_mutex_init(&g->lock, NULL);
	for (int r = 0; r < size; r++) {
		g->ends[r].base = (struct comm){&nccl_ops, r, size};
		g->ends[r].group = g;
		g->ends[r].backend = self(backends[r]);
		pthread_mutex_init(&g->ends[r].lock, NULL);
	}
	int status = group_open(g, e);
	for (int r = 0; r < size; r++)
		if (status == 0)
			out[r] = &g->ends[r].base;
		else
			nccl_destroy(&g->ends[r].base);
	return status;
}
