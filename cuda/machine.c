#include <limits.h>
#include <stdio.h>

#include "cuda/cuda_backend.h"
#include "cuda/device.h"
#include "cuda/machine.cuh"
#include "cuda/status.h"

enum { ROUNDS = 5, BURST_LEAST = 16, BLOCKS_PER_MULTIPROCESSOR = 4 };
static const double BURST_SECONDS = 0.01;        /* long beside the start of a kernel */
static const size_t COPY_MOST = (size_t)1 << 30; /* many times the L2 cache */

struct measuring {
	cudaStream_t stream;
	cudaEvent_t start, end;
	char *from, *to; /* [bytes] */
	size_t bytes;
	int blocks, rounds;
};

static int work_start(const struct measuring *m, bool copies, struct error *e)
{
	if (!copies)
		return machine_burst_launch(m->blocks, m->rounds, (float *)(void *)m->to, m->stream, e);
	return cuda_status(cudaMemcpyAsync(m->to, m->from, m->bytes, cudaMemcpyDeviceToDevice, m->stream), "copy", e);
}

/* Seconds of the fastest round; the first one warms up. */
static int best_seconds(const struct measuring *m, bool copies, double *seconds, struct error *e)
{
	for (int i = 0; i <= ROUNDS; i++) {
		float milliseconds = 0;
		TRY(cuda_status(cudaEventRecord(m->start, m->stream), "event", e));
		TRY(work_start(m, copies, e));
		TRY(cuda_status(cudaEventRecord(m->end, m->stream), "event", e));
		TRY(cuda_status(cudaEventSynchronize(m->end), "event", e));
		TRY(cuda_status(cudaEventElapsedTime(&milliseconds, m->start, m->end), "event", e));
		double s = (double)milliseconds * 1e-3;
		if (i == 1 || (i > 1 && s < *seconds))
			*seconds = s;
	}
	return 0;
}

static int measure(struct measuring *m, struct cuda_machine *out, struct error *e)
{
	double seconds = 0;

	TRY(cuda_status(cudaStreamCreateWithFlags(&m->stream, cudaStreamNonBlocking), "stream", e));
	TRY(cuda_status(cudaEventCreateWithFlags(&m->start, cudaEventDefault), "event", e));
	TRY(cuda_status(cudaEventCreateWithFlags(&m->end, cudaEventDefault), "event", e));
	TRY(cuda_status(cudaMalloc((void **)&m->from, m->bytes), "memory to copy", e));
	TRY(cuda_status(cudaMalloc((void **)&m->to, m->bytes), "memory to copy", e));
	TRY(cuda_status(cudaMemsetAsync(m->from, 1, m->bytes, m->stream), "memory to copy", e));
	TRY(best_seconds(m, true, &seconds, e));
	out->copy = 2.0 * (double)m->bytes / seconds;
	for (;; m->rounds *= 4) {
		TRY(best_seconds(m, false, &seconds, e));
		out->tensor_flops = machine_burst_flops(m->blocks, m->rounds) / seconds;
		if (seconds >= BURST_SECONDS || m->rounds > INT_MAX / 4)
			return 0;
	}
}

int cuda_machine_measure(int device, struct cuda_machine *out, struct error *e)
{
	struct cudaDeviceProp p;

	*out = (struct cuda_machine){0};
	TRY(device_open(device, &p, e));
	snprintf(out->name, sizeof out->name, "%s", p.name);
	out->major = p.major;
	out->minor = p.minor;
	out->multiprocessors = p.multiProcessorCount;
	out->memory = p.totalGlobalMem;
	size_t available = 0, total = 0;
	TRY(cuda_status(cudaMemGetInfo(&available, &total), "device", e));
	struct measuring m = {.bytes = available / 8 < COPY_MOST ? available / 8 : COPY_MOST,
		.blocks = BLOCKS_PER_MULTIPROCESSOR * p.multiProcessorCount,
		.rounds = BURST_LEAST};
	int status = measure(&m, out, e);
	cudaFree(m.from);
	cudaFree(m.to);
	if (m.start)
		cudaEventDestroy(m.start);
	if (m.end)
		cudaEventDestroy(m.end);
	if (m.stream)
		cudaStreamDestroy(m.stream);
	return status;
}
