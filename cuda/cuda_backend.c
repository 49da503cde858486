#include "cuda/cuda_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/device.h"
#include "cuda/internal.h"
#include "cuda/kernels.cuh"
#include "cuda/status.h"
#include "cuda/weight_pack.h"

/* ---- steps ---- */

int failure_keep(struct cuda_backend *c, int status, const struct error *e)
{
	if (status < 0 && c->failure.code == 0)
		c->failure = *e;
	return status;
}

int ops_flush(struct cuda_backend *c)
{
	struct error e = {0};
	int status = staging_send(&c->staging, &e);

	if (status == 0 && c->failure.code == 0)
		status = steps_launch(&c->steps, &e);
	else
		c->steps.n = 0; /* after a failure nothing of the step counts */
	staging_launched(&c->staging);
	return failure_keep(c, status, &e);
}

struct op *op_new(struct cuda_backend *c, enum op_kind kind)
{
	struct error e = {0};
	struct op *op = c->failure.code ? NULL : steps_add(&c->steps, kind, &e);

	failure_keep(c, e.code, &e);
	return op;
}

/* 0, STAGING_BUSY or a failure. */
static int arrays_put(
	struct cuda_backend *c, const struct op_array *arrays, const void **device, int n, struct error *e)
{
	for (int i = 0; i < n; i++) {
		struct staging_array a = {NULL, arrays[i].bytes, arrays[i].rows ? arrays[i].rows : 1, arrays[i].stride,
			arrays[i].changes};
		memcpy(&a.host, arrays[i].pointer, sizeof a.host);
		device[i] = a.host ? gate_copy(&c->gate, a.host) : NULL;
		if (!a.host || device[i])
			continue;
		int status = staging_put(&c->staging, &a, &device[i], e);
		if (status != 0)
			return status;
	}
	return 0;
}

bool arrays_bring(struct cuda_backend *c, const struct op_array *arrays, int n)
{
	const void *device[VERIFY_ARRAYS + GATE_ARRAYS];
	struct error e = {0};

	if (c->failure.code)
		return false;
	int status = arrays_put(c, arrays, device, n, &e);
	if (status == STAGING_BUSY) {
		if (ops_flush(c) < 0)
			return false;
		status = arrays_put(c, arrays, device, n, &e); /* all of them: the flush let go of the first */
	}
	if (failure_keep(c, status, &e) < 0)
		return false;
	for (int i = 0; i < n; i++)
		memcpy(arrays[i].pointer, &device[i], sizeof device[i]);
	return true;
}

bool op_arrays(struct cuda_backend *c, const struct op_array *arrays, int n)
{
	for (int i = 0; i < n; i++) {
		const void *host;
		memcpy(&host, arrays[i].pointer, sizeof host);
		if (gate_waits_for(&c->gate, host) && !gate_keep(c))
			return false;
	}
	return arrays_bring(c, arrays, n);
}

/* ---- results ---- */

static int clipped_fetch(struct cuda_backend *c, struct error *e)
{
	if (!c->clipped_to)
		return 0;
	return cuda_status(
		cudaMemcpyAsync(c->host_clipped, c->clipped, sizeof *c->clipped, cudaMemcpyDeviceToHost, c->stream),
		"results", e);
}

static void clipped_hand_out(struct cuda_backend *c)
{
	if (!c->clipped_to)
		return;
	*c->clipped_to += *c->host_clipped - c->clipped_told;
	c->clipped_told = *c->host_clipped;
	c->clipped_to = NULL;
}

uint64_t *clipped_counter(struct cuda_backend *c, uint64_t *counter)
{
	if (!counter)
		return NULL;
	if (c->clipped_to && c->clipped_to != counter)
		results_collect(c);
	c->clipped_to = counter;
	return c->clipped;
}

/* Results that were due are forgotten: the step failed. */
static void results_drop(struct cuda_backend *c)
{
	c->rows.n = 0;
	c->verify.in_step = c->verify.answered = false;
	c->clipped_to = NULL;
}

int results_collect(struct cuda_backend *c)
{
	struct error e = {0};
	int status = ops_flush(c);

	if (status == 0)
		status = rows_fetch(c);
	if (status == 0)
		status = verify_fetch(c);
	if (status == 0)
		status = failure_keep(c, clipped_fetch(c, &e), &e);
	int waited = cuda_status(cudaStreamSynchronize(c->stream), "a step", &e);
	failure_keep(c, waited, &e);
	if (c->failure.code) {
		results_drop(c);
		return c->failure.code;
	}
	rows_hand_out(c);
	verify_hand_out(c);
	clipped_hand_out(c);
	return 0;
}

static int cuda_finish(struct backend *b, struct error *e)
{
	struct cuda_backend *c = self(b);

	staging_batch(&c->staging, false);
	if (c->gate.state == GATE_ASKED)
		gate_keep(c);
	results_collect(c);
	gate_end(c);
	if (!c->failure.code)
		return 0;
	*e = c->failure;
	c->failure.code = 0;
	return e->code;
}

static void cuda_batch_begin(struct backend *b)
{
	staging_batch(&self(b)->staging, true);
}

/* ---- memory ---- */

static void *cuda_alloc(struct backend *b, size_t bytes, struct error *e)
{
	struct cuda_backend *c = self(b);
	struct error why = {0};
	void *memory = NULL;
	int status = cuda_status(cudaMalloc(&memory, bytes ? bytes : 1), "allocation", &why);

	if (status == 0)
		status = cuda_status(cudaMemsetAsync(memory, 0, bytes, c->stream), "allocation", &why);
	if (status == 0)
		return memory;
	size_t available = 0, total = 0;
	cudaFree(memory);
	cudaMemGetInfo(&available, &total);
	error_set(e, status, "cannot allocate %zu bytes on the device (%zu of %zu are free): %s", bytes, available,
		total, why.message);
	return NULL;
}

/* Graphs may name the memory. */
static void cuda_free(struct backend *b, void *memory)
{
	struct cuda_backend *c = self(b);

	if (!memory)
		return;
	ops_flush(c);
	steps_forget(&c->steps);
	cudaFree(memory);
}

static void cuda_upload(struct backend *b, void *device, const void *host, size_t bytes)
{
	struct cuda_backend *c = self(b);
	struct error e = {0};

	if (ops_flush(c) == 0)
		failure_keep(c, transfer_up(&c->transfer, device, host, bytes, &e), &e);
}

/* After a failure the bytes are zero, and finish tells why. */
static void cuda_download(struct backend *b, void *host, const void *device, size_t bytes)
{
	struct cuda_backend *c = self(b);
	struct error e = {0};

	if (ops_flush(c) == 0 && failure_keep(c, transfer_down(&c->transfer, host, device, bytes, &e), &e) == 0)
		return;
	memset(host, 0, bytes);
}

/* A piece of a packed matrix, from host memory. */
static int packed_upload(struct backend *b, const void *packed, size_t bytes, void **out, struct error *e)
{
	struct cuda_backend *c = self(b);

	*out = NULL;
	if (bytes == 0)
		return 0;
	*out = cuda_alloc(b, bytes, e);
	return *out ? transfer_up(&c->transfer, *out, packed, bytes, e) : e->code;
}

static void cuda_weight_free(struct backend *b, struct weight *w)
{
	cuda_free(b, w->data);
	cuda_free(b, w->scales);
	*w = (struct weight){0};
}

/* Memory whose every byte will be written: its pages are touched first by the threads that do. */
static void *packed_new(size_t bytes, struct error *e)
{
	void *memory = malloc(bytes ? bytes : 1);
	if (!memory)
		error_set(e, ERR_MEMORY, "no memory for %zu bytes", bytes);
	return memory;
}

/* The library takes bf16 weights in another order. */
static int packed_reorder(
	struct cuda_backend *c, const struct host_matrix *m, size_t bytes, void **data, struct error *e)
{
	if (!c->library || m->format != WEIGHT_BF16)
		return 0;
	void *ordered = packed_new(bytes, e);
	if (!ordered)
		return ERR_MEMORY;
	library_pack(m, *data, ordered);
	free(*data);
	*data = ordered;
	return 0;
}

static int cuda_weight_pack(
	struct backend *b, const struct host_matrix *m, int parts, struct weight *out, struct error *e)
{
	struct weight_sizes sizes;
	struct error why = {0};

	*out = (struct weight){
		.format = m->format, .rows = m->rows, .columns = m->columns, .group = m->group, .parts = parts};
	TRY(weight_pack_sizes(m, parts, &sizes, e));
	void *data = packed_new(sizes.data, &why), *scales = data ? packed_new(sizes.scales, &why) : NULL;
	int status = scales ? 0 : ERR_MEMORY;
	if (status == 0) {
		weight_pack_write(m, data, scales);
		status = packed_reorder(self(b), m, sizes.data, &data, &why);
	}
	if (status == 0)
		status = packed_upload(b, data, sizes.data, &out->data, &why);
	if (status == 0)
		status = packed_upload(b, scales, sizes.scales, &out->scales, &why);
	out->bytes = sizes.data + sizes.scales;
	free(data);
	free(scales);
	if (status == 0)
		return 0;
	cuda_weight_free(b, out);
	return error_set(e, status, "a matrix of %d x %d: %s", m->rows, m->columns, why.message);
}

/* ---- opening ---- */

static void cuda_destroy(struct backend *b)
{
	struct cuda_backend *c = self(b);

	if (c->stream)
		cudaStreamSynchronize(c->stream);
	rows_free(c);
	verify_free(c);
	gate_free(c);
	steps_free(&c->steps);
	staging_free(&c->staging);
	transfer_free(&c->transfer);
	library_close(c->library);
	cudaFree(c->clipped);
	cudaFreeHost(c->host_clipped);
	if (c->stream)
		cudaStreamDestroy(c->stream);
	free(c);
}

static const struct backend_ops cuda_ops = {
	.name = "cuda",
	.destroy = cuda_destroy,
	.finish = cuda_finish,
	.batch_begin = cuda_batch_begin,
	.alloc = cuda_alloc,
	.free = cuda_free,
	.upload = cuda_upload,
	.download = cuda_download,
	.weight_pack = cuda_weight_pack,
	.weight_free = cuda_weight_free,
	.embed = cuda_embed,
	.rmsnorm = cuda_rmsnorm,
	.linear = cuda_linear,
	.parts_sum = cuda_parts_sum,
	.row_amax = cuda_row_amax,
	.rope_table = cuda_rope_table,
	.qkv_finish = cuda_qkv_finish,
	.attend = cuda_attend,
	.latent_write = cuda_latent_write,
	.latent_attend = cuda_latent_attend,
	.head_linear = cuda_head_linear,
	.swiglu = cuda_swiglu,
	.route = cuda_route,
	.experts = cuda_experts,
	.logits = cuda_logits,
	.verify_pages = cuda_verify_pages,
	.copy_pages = cuda_copy_pages,
};

static int memory_open(struct cuda_backend *c, struct error *e)
{
	TRY(cuda_status(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking), "stream", e));
	steps_init(&c->steps, c->stream);
	TRY(staging_init(&c->staging, c->stream, e));
	TRY(transfer_init(&c->transfer, c->stream, e));
	c->clipped = cuda_alloc(&c->base, sizeof *c->clipped, e);
	if (!c->clipped)
		return e->code;
	TRY(cuda_status(cudaMallocHost((void **)&c->host_clipped, sizeof *c->host_clipped), "pinned memory", e));
	*c->host_clipped = 0;
	return 0;
}

/* A first launch: does the build have code for this device? */
static int kernels_try(struct cuda_backend *c, const struct cudaDeviceProp *p, struct error *e)
{
	struct error why = {0};
	struct row_amax_args a = {(const float *)c->clipped, 1, 1, (float *)c->staging.near_device};
	int status = row_amax_launch(&a, c->stream, &why);

	if (status == 0)
		status = cuda_status(cudaStreamSynchronize(c->stream), "a first kernel", &why);
	if (status == 0)
		return 0;
	return error_set(e, ERR_USAGE,
		"CUDA device %d, %s (compute capability %d.%d): %s: this build has no kernels for it "
		"(-Dcuda-arch=sm_%d%d when it is configured)",
		c->device, p->name, p->major, p->minor, why.message, p->major, p->minor);
}

static int backend_open(struct cuda_backend *c, const struct cuda_options *o, struct error *e)
{
	struct cudaDeviceProp p;

	TRY(device_open(o->device, &p, e));
	if (o->library)
		TRY(library_open(&c->library, e));
	c->device = o->device;
	snprintf(c->numerics, sizeof c->numerics, "cuda-sm%d%d-%s", p.major, p.minor, o->library ? "library" : "1");
	TRY(memory_open(c, e));
	c->steps.no_graphs = o->no_graphs;
	c->steps.library = c->library;
	return kernels_try(c, &p, e);
}

int cuda_backend_new(const struct cuda_options *o, struct backend **out, struct error *e)
{
	struct cuda_backend *c = mem_calloc(1, sizeof *c, e);

	*out = NULL;
	if (!c)
		return ERR_MEMORY;
	c->ops = cuda_ops;
	c->ops.numerics = c->numerics;
	c->base.ops = &c->ops;
	int status = backend_open(c, o, e);
	if (status < 0) {
		cuda_destroy(&c->base);
		return status;
	}
	*out = &c->base;
	return 0;
}
