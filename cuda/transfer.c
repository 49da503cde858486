#include "cuda/transfer.h"

#include <string.h>

#include "cuda/status.h"

int transfer_init(struct transfer *t, cudaStream_t stream, struct error *e)
{
	*t = (struct transfer){.stream = stream};
	for (int i = 0; i < 2; i++) {
		TRY(cuda_status(cudaMallocHost((void **)&t->pinned[i], TRANSFER_BYTES), "pinned memory", e));
		TRY(cuda_status(cudaEventCreateWithFlags(&t->idle[i], cudaEventDisableTiming), "transfer", e));
	}
	return 0;
}

void transfer_free(struct transfer *t)
{
	for (int i = 0; i < 2; i++) {
		cudaFreeHost(t->pinned[i]);
		if (t->idle[i])
			cudaEventDestroy(t->idle[i]);
	}
	*t = (struct transfer){0};
}

int transfer_up(struct transfer *t, void *device, const void *host, size_t bytes, struct error *e)
{
	for (size_t at = 0; at < bytes; at += TRANSFER_BYTES) {
		size_t n = bytes - at < TRANSFER_BYTES ? bytes - at : TRANSFER_BYTES;
		int i = t->next;
		TRY(cuda_status(cudaEventSynchronize(t->idle[i]), "upload", e));
		memcpy(t->pinned[i], (const char *)host + at, n);
		TRY(cuda_status(
			cudaMemcpyAsync((char *)device + at, t->pinned[i], n, cudaMemcpyHostToDevice, t->stream),
			"upload", e));
		TRY(cuda_status(cudaEventRecord(t->idle[i], t->stream), "upload", e));
		t->next = 1 - i;
	}
	return 0;
}

int transfer_down(struct transfer *t, void *host, const void *device, size_t bytes, struct error *e)
{
	for (size_t at = 0; at < bytes; at += TRANSFER_BYTES) {
		size_t n = bytes - at < TRANSFER_BYTES ? bytes - at : TRANSFER_BYTES;
		int i = t->next;
		TRY(cuda_status(
			cudaMemcpyAsync(t->pinned[i], (const char *)device + at, n, cudaMemcpyDeviceToHost, t->stream),
			"download", e));
		TRY(cuda_status(cudaEventRecord(t->idle[i], t->stream), "download", e));
		TRY(cuda_status(cudaEventSynchronize(t->idle[i]), "download", e));
		memcpy((char *)host + at, t->pinned[i], n);
	}
	return 0;
}
