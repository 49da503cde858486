/* The host side of the stand-in: devices, streams, events, graphs, memory. */
#include <condition_variable>
#include <deque>
#include <iterator>
#include <map>
#include <stdint.h>
#include <stdlib.h>
#include <thread>
#include <time.h>
#include <vector>

#include "tests/cuda_on_cpu/cuda_on_cpu.h"
#include "tests/cuda_on_cpu/cuda_runtime.h"

typedef std::function<void()> work;
typedef std::function<bool()> attempt; /* work that may have to wait: false, and nothing done, until it can */
typedef std::unique_lock<std::mutex> lock_held;

enum { QUEUE = 1024 /* work that a stream holds: who adds more waits for the device */ };

struct cuda_on_cpu_graph {
	std::vector<work> nodes;
};

struct cuda_on_cpu_stream {
	int device;
	std::deque<attempt> waiting;        /* oldest first */
	struct cuda_on_cpu_graph *captured; /* NULL: not captured */
	std::thread::id capturer;
	bool capture_failed;
	cudaError_t failed; /* of work that was done later; the next wait tells */
};

struct cuda_on_cpu_event {
	struct cuda_on_cpu_stream *stream;
	uint64_t
		records; /* so far: the last one is meant, also where the device comes to an earlier one after it was made */
	bool reached; /* it */
	double time;
};

struct piece {
	size_t bytes;
	int device;
};

std::mutex cuda_on_cpu_lock;

static struct {
	std::vector<struct cuda_on_cpu_stream *> streams;
	std::map<void *, piece> device, pinned;
	size_t allocated; /* of all devices */
	int n_devices;
	size_t memory;
	int graph_launches, waits;
	std::condition_variable changed; /* what may let work go on that waits */
	uint64_t done;                   /* pieces of work */
} host = {{}, {}, {}, 0, 1, SIZE_MAX, 0, 0, {}, 0};

static thread_local int current_device;

void cuda_on_cpu_device(int devices, size_t memory)
{
	const lock_held lock(cuda_on_cpu_lock);
	host.n_devices = devices;
	host.memory = memory;
}

int cuda_on_cpu_graph_launches(void)
{
	const lock_held lock(cuda_on_cpu_lock);
	return host.graph_launches;
}

int cuda_on_cpu_waits(void)
{
	const lock_held lock(cuda_on_cpu_lock);
	return host.waits;
}

/* ---- streams ---- */

/* Does what can be done of a stream by now. Whether that was all. */
static bool stream_advance(struct cuda_on_cpu_stream *stream)
{
	while (!stream->waiting.empty()) {
		if (!stream->waiting.front()())
			return false;
		stream->waiting.pop_front();
		host.done++;
		const cudaError_t error = cudaGetLastError();
		if (stream->failed == cudaSuccess)
			stream->failed = error;
	}
	return true;
}

/* Waits until all of a stream is done. What stands in front of what another stream waits for is done, too, as devices
 * work by themselves. */
static void stream_finish(struct cuda_on_cpu_stream *stream, lock_held *lock)
{
	while (!stream_advance(stream)) {
		const uint64_t before = host.done;
		for (struct cuda_on_cpu_stream *other : host.streams)
			if (!other->captured)
				stream_advance(other);
		if (host.done == before)
			host.changed.wait(*lock);
	}
	host.changed.notify_all();
}

static cudaError_t failure_tell(struct cuda_on_cpu_stream *stream)
{
	const cudaError_t error = stream->failed;
	stream->failed = cudaSuccess;
	return error;
}

/* Of the device in use. */
static cudaError_t all_work(lock_held *lock)
{
	const std::vector<struct cuda_on_cpu_stream *> streams = host.streams;
	cudaError_t first = cudaSuccess;
	host.waits++;
	for (struct cuda_on_cpu_stream *stream : streams) {
		if (stream->device != current_device)
			continue;
		stream_finish(stream, lock);
		const cudaError_t error = failure_tell(stream);
		first = first == cudaSuccess ? error : first;
	}
	return first;
}

/* Calls that wait, or that other streams would see, cannot be part of a graph; those of other threads can be made
 * beside it. */
static bool capture_breaks(void)
{
	bool broken = false;
	for (struct cuda_on_cpu_stream *stream : host.streams) {
		const bool own = stream->captured && stream->capturer == std::this_thread::get_id();
		stream->capture_failed |= own;
		broken |= own;
	}
	return broken;
}

static void stream_add(struct cuda_on_cpu_stream *stream, const attempt &a, lock_held *lock)
{
	if (stream->waiting.size() >= QUEUE)
		stream_finish(stream, lock);
	stream->waiting.push_back(a);
	if (cuda_on_cpu_at_once())
		stream_advance(stream);
	host.changed.notify_all();
}

static attempt always(const work &w)
{
	return [=] {
		w();
		return true;
	};
}

static void work_add(struct cuda_on_cpu_stream *stream, const work &w, lock_held *lock)
{
	if (!stream)
		w();
	else if (stream->captured)
		stream->captured->nodes.push_back(w);
	else
		stream_add(stream, always(w), lock);
}

void cuda_on_cpu_stream_add(cudaStream_t stream, const work &w)
{
	lock_held lock(cuda_on_cpu_lock);
	work_add(stream, w, &lock);
}

void cuda_on_cpu_stream_do(cudaStream_t stream, void (*done)(const void *about), const void *about, size_t bytes)
{
	const unsigned char *const first = static_cast<const unsigned char *>(about);
	const std::vector<unsigned char> copy(first, first + bytes);
	cuda_on_cpu_stream_add(stream, [=] { done(copy.data()); });
}

void cuda_on_cpu_stream_await(cudaStream_t stream, bool (*try_it)(void *argument), void *argument)
{
	lock_held lock(cuda_on_cpu_lock);
	stream_add(
		stream, [=] { return try_it(argument); }, &lock);
}

void cuda_on_cpu_streams_wake(void)
{
	const lock_held lock(cuda_on_cpu_lock);
	host.changed.notify_all();
}

bool cuda_on_cpu_stream_is_here(cudaStream_t stream)
{
	return !stream || stream->device == current_device;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
	const lock_held lock(cuda_on_cpu_lock);
	*stream = new cuda_on_cpu_stream();
	(*stream)->device = current_device;
	host.streams.push_back(*stream);
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	if (!stream)
		return cudaDeviceSynchronize();
	lock_held lock(cuda_on_cpu_lock);
	if (stream->captured || capture_breaks()) {
		stream->capture_failed = true;
		return cudaErrorStreamCaptureUnsupported;
	}
	host.waits++;
	stream_finish(stream, &lock);
	return failure_tell(stream);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	lock_held lock(cuda_on_cpu_lock);
	stream_finish(stream, &lock);
	for (size_t i = 0; i < host.streams.size(); i++)
		if (host.streams[i] == stream)
			host.streams.erase(host.streams.begin() + (ptrdiff_t)i);
	delete stream->captured;
	delete stream;
	return cudaSuccess;
}

static cudaError_t device_finish(lock_held *lock)
{
	return capture_breaks() ? cudaErrorStreamCaptureUnsupported : all_work(lock);
}

cudaError_t cudaDeviceSynchronize(void)
{
	lock_held lock(cuda_on_cpu_lock);
	return device_finish(&lock);
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
	lock_held lock(cuda_on_cpu_lock);
	event->stream = stream;
	event->reached = false;
	const uint64_t record = ++event->records;
	work_add(
		stream,
		[=] {
			event->reached = event->records == record;
			event->time = now();
		},
		&lock);
	return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	{
		const lock_held lock(cuda_on_cpu_lock);
		if (event->reached)
			return cudaSuccess;
	}
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
	lock_held lock(cuda_on_cpu_lock);
	if (!event->reached)
		stream_finish(event->stream, &lock);
	delete event;
	return cudaSuccess;
}

/* ---- graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode)
{
	const lock_held lock(cuda_on_cpu_lock);
	if (!stream || stream->captured)
		return cudaErrorInvalidValue;
	stream->captured = new cuda_on_cpu_graph();
	stream->capturer = std::this_thread::get_id();
	stream->capture_failed = false;
	return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	const lock_held lock(cuda_on_cpu_lock);
	if (!stream->captured || stream->capturer != std::this_thread::get_id())
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
	lock_held lock(cuda_on_cpu_lock);
	host.graph_launches++;
	const std::vector<work> nodes = exec->nodes;
	work_add(
		stream,
		[=] {
			for (const work &node : nodes)
				node();
		},
		&lock);
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
	const lock_held lock(cuda_on_cpu_lock);
	*count = host.n_devices > 0 ? host.n_devices : 0;
	if (host.n_devices < 0)
		return cudaErrorInsufficientDriver;
	return host.n_devices > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device)
{
	const lock_held lock(cuda_on_cpu_lock);
	if (device < 0 || device >= host.n_devices)
		return cudaErrorInvalidDevice;
	current_device = device;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
	static const char name[] = "no GPU: the CPU stands in";
	const lock_held lock(cuda_on_cpu_lock);
	if (device < 0 || device >= host.n_devices)
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

static cudaError_t memory_new(std::map<void *, piece> *pieces, void **memory, size_t bytes)
{
	const lock_held lock(cuda_on_cpu_lock);
	if (capture_breaks())
		return cudaErrorStreamCaptureUnsupported;
	const bool of_device = pieces == &host.device;
	if (of_device && (bytes > host.memory || host.allocated > host.memory - bytes))
		return cudaErrorMemoryAllocation;
	if (posix_memalign(memory, 256, bytes + !bytes) != 0)
		return cudaErrorMemoryAllocation;
	memset(*memory, 0xff, bytes);
	(*pieces)[*memory] = {bytes, current_device};
	host.allocated += of_device ? bytes : 0;
	return cudaSuccess;
}

/* Giving memory back waits for all work of its device. */
static cudaError_t memory_delete(std::map<void *, piece> *pieces, void *memory)
{
	lock_held lock(cuda_on_cpu_lock);
	if (!memory)
		return cudaSuccess;
	const auto found = pieces->find(memory);
	if (found == pieces->end())
		return cudaErrorInvalidValue;
	const std::vector<struct cuda_on_cpu_stream *> streams = host.streams;
	for (struct cuda_on_cpu_stream *stream : streams)
		if (stream->device == found->second.device)
			stream_finish(stream, &lock);
	host.allocated -= pieces == &host.device ? found->second.bytes : 0;
	pieces->erase(found);
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
	const auto found = std::prev(behind);
	return static_cast<const char *>(at) < static_cast<const char *>(found->first) + found->second.bytes;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind)
{
	lock_held lock(cuda_on_cpu_lock);
	const cudaError_t error = device_finish(&lock);
	if (error == cudaSuccess && bytes > 0)
		memcpy(to, from, bytes);
	return error;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	const void *const on_host = kind == cudaMemcpyHostToDevice ? from : to;
	if (bytes == 0)
		return cudaSuccess;
	lock_held lock(cuda_on_cpu_lock);
	work_add(
		stream, [=] { memcpy(to, from, bytes); }, &lock);
	if (stream && kind != cudaMemcpyDeviceToDevice && !is_pinned(on_host)) {
		if (stream->captured)
			stream->capture_failed = true;
		else
			stream_finish(stream, &lock);
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
	lock_held lock(cuda_on_cpu_lock);
	const cudaError_t error = device_finish(&lock);
	memset(memory, value, bytes);
	return error;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
	cuda_on_cpu_stream_add(stream, [=] { memset(memory, value, bytes); });
	return cudaSuccess;
}
