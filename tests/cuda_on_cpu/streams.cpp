/* The host side of the stand-in: streams, events, graphs, memory. */
#include <iterator>
#include <map>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <vector>

#include "tests/cuda_on_cpu/cuda_on_cpu.h"
#include "tests/cuda_on_cpu/cuda_runtime.h"

typedef std::function<void()> work;

struct cuda_on_cpu_graph {
	std::vector<work> nodes;
};

struct cuda_on_cpu_stream {
	std::vector<work> waiting;          /* oldest first */
	struct cuda_on_cpu_graph *captured; /* NULL: not captured */
	bool capture_failed;
};

struct cuda_on_cpu_event {
	struct cuda_on_cpu_stream *stream;
	bool reached; /* what was recorded */
	double time;
};

static struct {
	std::vector<struct cuda_on_cpu_stream *> streams;
	std::map<void *, size_t> device, pinned; /* bytes of each piece of memory */
	size_t allocated;                        /* of the device's */
	int n_devices;
	size_t memory;
	cudaError_t failed; /* of work that was done later; the next wait tells */
	int graph_launches, waits;
} host = {{}, {}, {}, 0, 1, SIZE_MAX, cudaSuccess, 0, 0};

void cuda_on_cpu_device(int devices, size_t memory)
{
	host.n_devices = devices;
	host.memory = memory;
}

int cuda_on_cpu_graph_launches(void)
{
	return host.graph_launches;
}

int cuda_on_cpu_waits(void)
{
	return host.waits;
}

/* ---- streams ---- */

static void stream_work(struct cuda_on_cpu_stream *stream)
{
	std::vector<work> todo;
	todo.swap(stream->waiting);
	for (const work &w : todo) {
		w();
		const cudaError_t error = cudaGetLastError();
		if (host.failed == cudaSuccess)
			host.failed = error;
	}
}

static cudaError_t failure_tell(void)
{
	const cudaError_t error = host.failed;
	host.failed = cudaSuccess;
	return error;
}

static cudaError_t all_work(void)
{
	host.waits++;
	for (struct cuda_on_cpu_stream *stream : host.streams)
		stream_work(stream);
	return failure_tell();
}

/* Calls that wait, or that other streams would see, cannot be part of a graph. */
static bool capture_breaks(void)
{
	bool broken = false;
	for (struct cuda_on_cpu_stream *stream : host.streams) {
		stream->capture_failed |= stream->captured != NULL;
		broken |= stream->captured != NULL;
	}
	return broken;
}

void cuda_on_cpu_stream_add(cudaStream_t stream, const work &w)
{
	if (!stream) {
		w();
		return;
	}
	if (stream->captured) {
		stream->captured->nodes.push_back(w);
		return;
	}
	stream->waiting.push_back(w);
	if (cuda_on_cpu_at_once())
		stream_work(stream);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
	*stream = new cuda_on_cpu_stream();
	host.streams.push_back(*stream);
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	if (!stream)
		return cudaDeviceSynchronize();
	if (capture_breaks())
		return cudaErrorStreamCaptureUnsupported;
	host.waits++;
	stream_work(stream);
	return failure_tell();
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	stream_work(stream);
	for (size_t i = 0; i < host.streams.size(); i++)
		if (host.streams[i] == stream)
			host.streams.erase(host.streams.begin() + (ptrdiff_t)i);
	delete stream->captured;
	delete stream;
	return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
	return capture_breaks() ? cudaErrorStreamCaptureUnsupported : all_work();
}

/* ---- events ---- */

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
	*event = new cuda_on_cpu_event();
	(*event)->reached = true;
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	event->stream = stream;
	event->reached = false;
	cuda_on_cpu_stream_add(stream, [=] {
		event->reached = true;
		event->time = now();
	});
	return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	if (event->reached)
		return cudaSuccess;
	return cudaStreamSynchronize(event->stream);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
	if (!start->reached || !end->reached)
		return cudaErrorInvalidValue;
	*milliseconds = (float)((end->time - start->time) * 1e3);
	return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	if (!event->reached)
		stream_work(event->stream);
	delete event;
	return cudaSuccess;
}

/* ---- graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode)
{
	if (!stream || stream->captured)
		return cudaErrorInvalidValue;
	stream->captured = new cuda_on_cpu_graph();
	stream->capture_failed = false;
	return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	if (!stream->captured)
		return cudaErrorInvalidValue;
	*graph = stream->captured;
	stream->captured = NULL;
	if (!stream->capture_failed)
		return cudaSuccess;
	delete *graph;
	*graph = NULL;
	return cudaErrorStreamCaptureUnsupported;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
	*exec = new cuda_on_cpu_graph(*graph);
	return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	host.graph_launches++;
	for (const work &node : exec->nodes)
		cuda_on_cpu_stream_add(stream, node);
	return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	delete graph;
	return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	delete exec;
	return cudaSuccess;
}

/* ---- devices ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
	*count = host.n_devices > 0 ? host.n_devices : 0;
	if (host.n_devices < 0)
		return cudaErrorInsufficientDriver;
	return host.n_devices > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device)
{
	return device >= 0 && device < host.n_devices ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
	static const char name[] = "no GPU: the CPU stands in";
	if (cudaSetDevice(device) != cudaSuccess)
		return cudaErrorInvalidDevice;
	*properties = {};
	memcpy(properties->name, name, sizeof(name));
	properties->totalGlobalMem = (size_t)64 << 20;
	properties->multiProcessorCount = 1;
	return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
	*total = (size_t)64 << 20;
	*available = *total;
	return cudaSuccess;
}

/* ---- memory ---- */

static cudaError_t memory_new(std::map<void *, size_t> *pieces, void **memory, size_t bytes)
{
	if (capture_breaks())
		return cudaErrorStreamCaptureUnsupported;
	const bool of_device = pieces == &host.device;
	if (of_device && (bytes > host.memory || host.allocated > host.memory - bytes))
		return cudaErrorMemoryAllocation;
	if (posix_memalign(memory, 256, bytes + !bytes) != 0)
		return cudaErrorMemoryAllocation;
	memset(*memory, 0xff, bytes);
	(*pieces)[*memory] = bytes;
	host.allocated += of_device ? bytes : 0;
	return cudaSuccess;
}

/* Giving memory back waits for all work. */
static cudaError_t memory_delete(std::map<void *, size_t> *pieces, void *memory)
{
	if (!memory)
		return cudaSuccess;
	const auto piece = pieces->find(memory);
	if (piece == pieces->end())
		return cudaErrorInvalidValue;
	for (struct cuda_on_cpu_stream *stream : host.streams)
		stream_work(stream);
	host.allocated -= pieces == &host.device ? piece->second : 0;
	pieces->erase(piece);
	free(memory);
	return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
	return memory_new(&host.device, memory, bytes);
}

cudaError_t cudaFree(void *memory)
{
	return memory_delete(&host.device, memory);
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
	return memory_new(&host.pinned, memory, bytes);
}

cudaError_t cudaFreeHost(void *memory)
{
	return memory_delete(&host.pinned, memory);
}

static bool is_pinned(const void *at)
{
	const auto behind = host.pinned.upper_bound(const_cast<void *>(at));
	if (behind == host.pinned.begin())
		return false;
	const auto piece = std::prev(behind);
	return static_cast<const char *>(at) < static_cast<const char *>(piece->first) + piece->second;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind)
{
	const cudaError_t error = cudaDeviceSynchronize();
	if (error == cudaSuccess && bytes > 0)
		memcpy(to, from, bytes);
	return error;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	const void *const on_host = kind == cudaMemcpyHostToDevice ? from : to;
	if (bytes == 0)
		return cudaSuccess;
	cuda_on_cpu_stream_add(stream, [=] { memcpy(to, from, bytes); });
	if (stream && kind != cudaMemcpyDeviceToDevice && !is_pinned(on_host)) {
		if (stream->captured)
			stream->capture_failed = true;
		else
			stream_work(stream);
	}
	return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_stride, const void *from, size_t from_stride, size_t width,
	size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	if (kind != cudaMemcpyDeviceToDevice || width > to_stride || width > from_stride)
		return cudaErrorInvalidValue;
	cuda_on_cpu_stream_add(stream, [=] {
		for (size_t row = 0; row < height; row++)
			memcpy(static_cast<char *>(to) + row * to_stride,
				static_cast<const char *>(from) + row * from_stride, width);
	});
	return cudaSuccess;
}

cudaError_t cudaMemset(void *memory, int value, size_t bytes)
{
	const cudaError_t error = cudaDeviceSynchronize();
	memset(memory, value, bytes);
	return error;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
	cuda_on_cpu_stream_add(stream, [=] { memset(memory, value, bytes); });
	return cudaSuccess;
}
