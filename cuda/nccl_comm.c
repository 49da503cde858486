#include "cuda/nccl_comm.h"

#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/internal.h"
#include "cuda/status.h"

/* The library is looked for when ranks are asked for, so that the program starts without it. */
struct nccl_library {
	void *handle;
	ncclResult_t (*init_all)(ncclComm_t *comms, int n, const int *devices);
	ncclResult_t (*destroy)(ncclComm_t comm);
	ncclResult_t (*abort)(ncclComm_t comm);
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

struct group {
	struct nccl_library library;
	pthread_mutex_t lock;
	int ends; /* that were not destroyed */
	bool aborted;
	struct error failure; /* the first; names its rank */
	ncclComm_t comms[COMM_MAX_RANKS];
	int size;
};

struct nccl_comm {
	struct comm base; /* first: the handle that callers hold */
	struct group *group;
	struct cuda_backend *backend;
	int32_t *token; /* [device] what a barrier exchanges */
};

static struct nccl_comm *end_of(struct comm *c)
{
	return (struct nccl_comm *)c;
}

/* ---- the library ---- */

static int nccl_library_open(struct nccl_library *l, struct error *e)
{
	static const char name[] = "libnccl.so.2";
	const struct {
		const char *symbol;
		void *function; /* where its address goes */
	} table[] = {
		{"ncclCommInitAll", &l->init_all},
		{"ncclCommDestroy", &l->destroy},
		{"ncclCommAbort", &l->abort},
		{"ncclAllGather", &l->all_gather},
		{"ncclAllReduce", &l->all_reduce},
		{"ncclSend", &l->send},
		{"ncclRecv", &l->receive},
		{"ncclGetErrorString", &l->error_string},
	};

	l->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!l->handle)
		return error_set(e, ERR_USAGE, "ranks on CUDA need NCCL: %s", dlerror());
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		void *function = dlsym(l->handle, table[i].symbol);
		if (!function)
			return error_set(
				e, ERR_USAGE, "%s has no %s: another version of NCCL is needed", name, table[i].symbol);
		memcpy(table[i].function, &function, sizeof function);
	}
	return 0;
}

/* ---- failures ---- */

/* All ends are aborted: what waits on a device for another rank ends. */
static void group_fail(struct group *g, int rank, const struct error *cause)
{
	pthread_mutex_lock(&g->lock);
	if (g->failure.code == 0)
		error_set(&g->failure, cause->code, "rank %d of %d: %s", rank, g->size, cause->message);
	if (!g->aborted) {
		g->aborted = true;
		for (int i = 0; i < g->size; i++)
			g->library.abort(g->comms[i]);
	}
	pthread_mutex_unlock(&g->lock);
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

static int result_check(struct nccl_comm *c, ncclResult_t result, const char *what, struct error *e)
{
	if (result == ncclSuccess)
		return 0;
	struct error cause = {0};
	error_set(
		&cause, ERR_DEVICE, "%s: NCCL error %d: %s", what, (int)result, c->group->library.error_string(result));
	group_fail(c->group, c->base.rank, &cause);
	return group_check(c->group, e);
}

/* The group is whole, and what the collective reads is in the stream. */
static int op_begin(struct nccl_comm *c, struct error *e)
{
	TRY(group_check(c->group, e));
	device_use(c->backend->device);
	if (ops_flush(c->backend) == 0)
		return 0;
	group_fail(c->group, c->base.rank, &c->backend->failure);
	return group_check(c->group, e);
}

/* ---- the ops ---- */

static int nccl_all_gather(struct comm *base, const void *own, size_t bytes, void *all, struct error *e)
{
	struct nccl_comm *c = end_of(base);
	struct group *g = c->group;

	TRY(op_begin(c, e));
	return result_check(c,
		g->library.all_gather(own, all, bytes, ncclUint8, g->comms[base->rank], c->backend->stream),
		"all-gather", e);
}

/* Magnitudes compare as their bits do, and a NaN is above everything. */
static int nccl_all_reduce_max(struct comm *base, float *values, size_t count, struct error *e)
{
	struct nccl_comm *c = end_of(base);
	struct group *g = c->group;

	TRY(op_begin(c, e));
	return result_check(c,
		g->library.all_reduce(
			values, values, count, ncclUint32, ncclMax, g->comms[base->rank], c->backend->stream),
		"largest of all ranks", e);
}

static int nccl_send(struct comm *base, int to, const void *data, size_t bytes, struct error *e)
{
	struct nccl_comm *c = end_of(base);
	struct group *g = c->group;

	TRY(op_begin(c, e));
	return result_check(
		c, g->library.send(data, bytes, ncclUint8, to, g->comms[base->rank], c->backend->stream), "send", e);
}

static int nccl_receive(struct comm *base, int from, void *data, size_t bytes, struct error *e)
{
	struct nccl_comm *c = end_of(base);
	struct group *g = c->group;

	TRY(op_begin(c, e));
	return result_check(c,
		g->library.receive(data, bytes, ncclUint8, from, g->comms[base->rank], c->backend->stream), "receive",
		e);
}

static int nccl_barrier(struct comm *base, struct error *e)
{
	struct nccl_comm *c = end_of(base);
	struct group *g = c->group;

	TRY(op_begin(c, e));
	TRY(result_check(c,
		g->library.all_reduce(
			c->token, c->token, 1, ncclInt32, ncclMax, g->comms[base->rank], c->backend->stream),
		"barrier", e));
	TRY(cuda_status(cudaStreamSynchronize(c->backend->stream), "barrier", e));
	return group_check(g, e);
}

static void nccl_give_up(struct comm *base, const struct error *cause)
{
	group_fail(end_of(base)->group, base->rank, cause);
}

static void group_free(struct group *g)
{
	for (int i = 0; i < g->size && !g->aborted; i++)
		if (g->comms[i])
			g->library.destroy(g->comms[i]);
	if (g->library.handle)
		dlclose(g->library.handle);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

static void nccl_destroy(struct comm *base)
{
	struct nccl_comm *c = end_of(base);
	struct group *g = c->group;

	device_use(c->backend->device);
	cudaStreamSynchronize(c->backend->stream);
	cudaFree(c->token);
	pthread_mutex_lock(&g->lock);
	int left = --g->ends;
	pthread_mutex_unlock(&g->lock);
	if (left == 0)
		group_free(g);
	free(c);
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

/* ---- opening ---- */

static int end_new(struct group *g, struct backend *b, int rank, struct comm **out, struct error *e)
{
	struct nccl_comm *c = mem_calloc(1, sizeof *c, e);

	if (!c)
		return ERR_MEMORY;
	c->base = (struct comm){&nccl_ops, rank, g->size};
	c->group = g;
	c->backend = self(b);
	g->ends++;
	*out = &c->base;
	TRY(cuda_status(cudaMalloc((void **)&c->token, sizeof *c->token), "barrier", e));
	return cuda_status(cudaMemsetAsync(c->token, 0, sizeof *c->token, c->backend->stream), "barrier", e);
}

static int group_open(struct group *g, struct backend *const *backends, struct comm **out, struct error *e)
{
	int devices[COMM_MAX_RANKS];

	TRY(nccl_library_open(&g->library, e));
	for (int i = 0; i < g->size; i++)
		devices[i] = self(backends[i])->device;
	ncclResult_t result = g->library.init_all(g->comms, g->size, devices);
	if (result != ncclSuccess)
		return error_set(e, ERR_DEVICE, "NCCL cannot join %d devices: error %d: %s", g->size, (int)result,
			g->library.error_string(result));
	for (int i = 0; i < g->size; i++)
		TRY(end_new(g, backends[i], i, &out[i], e));
	return 0;
}

int nccl_comms_new(struct backend *const *backends, int size, struct comm **out, struct error *e)
{
	struct group *g = mem_calloc(1, sizeof *g, e);

	memset(out, 0, (size_t)size * sizeof(struct comm *));
	if (!g)
		return ERR_MEMORY;
	g->size = size;
	pthread_mutex_init(&g->lock, NULL);
	int status = group_open(g, backends, out, e);
	if (status == 0)
		return 0;
	bool any = out[0] != NULL; /* the last end to go takes the group along */
	for (int i = 0; i < size && out[i]; i++)
		nccl_destroy(out[i]);
	if (!any)
		group_free(g);
	memset(out, 0, (size_t)size * sizeof(struct comm *));
	return status;
}
