/* The runtime of the stand-in: fibers, their turns, barriers, copies. Streams and memory: streams.cpp. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <vector>

#include "tests/cuda_on_cpu/cuda_on_cpu.h"
#include "tests/cuda_on_cpu/cuda_runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#define FIBERS_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBERS_SANITIZED
#endif
#endif

#ifdef FIBERS_SANITIZED
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
/* Of fibers that an error left in the middle of their functions. */
#define STACK_FORGET(stack, size) __asan_unpoison_memory_region((stack), (size))
#define FIBER_LEAVE(saved, stack, size) __sanitizer_start_switch_fiber((saved), (stack), (size))
#define FIBER_ENTER(saved, stack, size) __sanitizer_finish_switch_fiber((saved), (stack), (size))
#else
#define STACK_FORGET(stack, size) ((void)(stack), (void)(size))
#define FIBER_LEAVE(saved, stack, size) ((void)(saved), (void)(stack), (void)(size))
#define FIBER_ENTER(saved, stack, size) ((void)(saved), (void)(stack), (void)(size))
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

/* ---- switching between stacks ---- */

static void fiber_main(void);

#if defined(__x86_64__)
/* swapcontext asks the kernel for the signal mask each time, which takes 50 times as long; there are millions of
 * switches. */
struct context {
	void *stack_pointer;
};

extern "C" void cuda_on_cpu_switch(void **save, void *load);
asm(".text\n"
    ".type cuda_on_cpu_switch, @function\n"
    "cuda_on_cpu_switch:\n"
    "	pushq %rbp\n"
    "	pushq %rbx\n"
    "	pushq %r12\n"
    "	pushq %r13\n"
    "	pushq %r14\n"
    "	pushq %r15\n"
    "	movq %rsp, (%rdi)\n"
    "	movq %rsi, %rsp\n"
    "	popq %r15\n"
    "	popq %r14\n"
    "	popq %r13\n"
    "	popq %r12\n"
    "	popq %rbx\n"
    "	popq %rbp\n"
    "	ret\n"
    ".size cuda_on_cpu_switch, . - cuda_on_cpu_switch\n");

static void context_switch(context *from, context *to)
{
	cuda_on_cpu_switch(&from->stack_pointer, to->stack_pointer);
}

static void context_start(context *c, const void *stack, size_t bytes)
{
	/* what a first switch takes off: six registers, then fiber_main's address, on whose entry the stack is as
	 * after a call */
	void **top = reinterpret_cast<void **>(reinterpret_cast<uintptr_t>(stack) + bytes) - 2;
	*top = reinterpret_cast<void *>(fiber_main);
	c->stack_pointer = top - 6;
}
#else
#include <ucontext.h>

typedef ucontext_t context;

static void context_switch(context *from, context *to)
{
	swapcontext(from, to);
}

static void context_start(context *c, const void *stack, size_t bytes)
{
	getcontext(c);
	c->uc_stack.ss_sp = const_cast<void *>(stack);
	c->uc_stack.ss_size = bytes;
	c->uc_link = NULL;
	makecontext(c, fiber_main, 0);
}
#endif

/* ---- state ---- */

enum { LANES = 32, THREADS_MAX = 1024, PAGE = 4096, STACK_BYTES = 256 * 1024, SCHEDULER = THREADS_MAX };

struct site {
	const char *file;
	int line;
};

struct copy {
	unsigned char *to;
	const unsigned char *from;
	size_t size, bytes;
};

enum fiber_state { RUNNABLE, IN_WARP, IN_BLOCK, DONE };

struct barrier {
	int arrived;
	int first; /* thread that came first */
};

struct fiber {
	context registers;
	const void *stack; /* lowest byte */
	size_t stack_bytes;
	void *shadow; /* the sanitizer's */
	uint3 index;
	fiber_state state;
	site where; /* it waits */
	unsigned exchanges;
	std::vector<std::vector<copy>> groups; /* committed, oldest first */
	std::vector<copy> open;
};

struct warp {
	struct barrier barrier;
	alignas(16) unsigned char deposits[2][LANES][CUDA_ON_CPU_EXCHANGE];
};

static struct {
	uint64_t seed, random;
	fiber fibers[THREADS_MAX + 1]; /* the last is the caller of the launch */
	warp warps[THREADS_MAX / LANES];
	int n_threads, n_done, running;
	int before;    /* the fiber that ran before this one */
	int last_done; /* thread that ended last, -1: none */
	struct barrier barrier;
	bool watching; /* barriers */
	int passed;    /* barrier that lets threads pass, -1: none */
	std::vector<site> barriers;
	uint64_t runnable[THREADS_MAX / 64]; /* one bit a thread */
	const std::function<void()> *kernel;
	unsigned char *shared;
	size_t shared_bytes;
	bool failed;
	char message[512];
	std::vector<std::pair<const void *, int>> allowed; /* dynamic shared memory above 48 KB */
	int launches;
} gpu;

static thread_local cudaError_t last_error;

static uint64_t random_next(void)
{
	/* xorshift64*: any sequence that a seed fixes will do */
	gpu.random ^= gpu.random >> 12;
	gpu.random ^= gpu.random << 25;
	gpu.random ^= gpu.random >> 27;
	return gpu.random * 0x2545f4914f6cdd1dull;
}

void cuda_on_cpu_seed(uint64_t seed)
{
	gpu.seed = seed;
	gpu.random = seed * 0x9e3779b97f4a7c15ull + 1;
}

static void fail(cudaError_t error, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(cudaError_t error, const char *format, ...)
{
	if (gpu.failed)
		return;
	gpu.failed = true;
	last_error = error;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(gpu.message, sizeof(gpu.message), format, arguments);
	va_end(arguments);
}

/* ---- turns ---- */

static void make_runnable(int first, int n)
{
	for (int i = first; i < first + n; i++) {
		gpu.fibers[i].state = RUNNABLE;
		gpu.runnable[i / 64] |= (uint64_t)1 << i % 64;
	}
}

/* The first runnable thread from `first` on, upward or downward, round the corner; -1: none. */
static int runnable_from(int first, bool upward)
{
	for (int i = 0; i <= THREADS_MAX / 64; i++) {
		const int w = (first / 64 + (upward ? i : THREADS_MAX / 64 - i)) % (THREADS_MAX / 64);
		uint64_t bits = gpu.runnable[w];
		if (i == 0) /* the bits behind first come last */
			bits &= upward ? ~(uint64_t)0 << first % 64 : ~(uint64_t)0 >> (63 - first % 64);
		if (bits)
			return w * 64 + (upward ? __builtin_ctzll(bits) : 63 - __builtin_clzll(bits));
	}
	return -1;
}

/* The next thread to run, -1: none can. */
static int choose(void)
{
	int first = gpu.seed == 0 ? 0 : THREADS_MAX - 1;
	bool upward = gpu.seed == 0;
	if (gpu.seed > 1) {
		const uint64_t chance = random_next();
		first = (int)((chance >> 32) * (uint64_t)gpu.n_threads >> 32);
		upward = chance % 2 == 0;
	}
	const int thread = runnable_from(first, upward);
	if (thread >= 0)
		gpu.runnable[thread / 64] &= ~((uint64_t)1 << thread % 64);
	return thread;
}

/* After a switch: the fiber's stack is in use, and what is known of the one before it may be kept. */
static void fiber_entered(void)
{
	const fiber *f = &gpu.fibers[gpu.running];
	fiber *before = &gpu.fibers[gpu.before];
	FIBER_ENTER(f->shadow, &before->stack, &before->stack_bytes);
	threadIdx = f->index;
}

static void fiber_switch(int to)
{
	fiber *from = &gpu.fibers[gpu.running];
	gpu.before = gpu.running;
	gpu.running = to;
	void **saved = from->state == DONE ? NULL : &from->shadow;
	FIBER_LEAVE(saved, gpu.fibers[to].stack, gpu.fibers[to].stack_bytes);
	context_switch(&from->registers, &gpu.fibers[to].registers);
	fiber_entered();
}

/* The running fiber waits, or has ended: the next one's turn. */
static void fiber_leave(void)
{
	int next = gpu.failed ? -1 : choose();
	if (next < 0)
		next = SCHEDULER;
	if (next != gpu.running)
		fiber_switch(next);
}

/* A thread that has ended can never come to a barrier where another waits. */
static void fail_ended(int waiting, int ended)
{
	const site *where = &gpu.fibers[waiting].where;
	fail(cudaErrorLaunchFailure, "divergent barrier: thread %d waits at %s:%d, thread %d has ended", waiting,
		where->file, where->line, ended);
}

static void fiber_main(void)
{
	fiber_entered();
	(*gpu.kernel)();
	gpu.fibers[gpu.running].state = DONE;
	gpu.n_done++;
	gpu.last_done = gpu.running;
	if (gpu.barrier.arrived > 0)
		fail_ended(gpu.barrier.first, gpu.running);
	fiber_leave();
	abort(); /* nobody runs a fiber that is done */
}

/* Waits until n threads from first on have come. Each is compared with the one that came first. */
static void barrier_wait(struct barrier *b, int first, int n, fiber_state state, const char *file, int line)
{
	fiber *f = &gpu.fibers[gpu.running];
	f->where = {file, line};
	f->state = state;
	if (b->arrived++ == 0)
		b->first = gpu.running;
	const site *other = &gpu.fibers[b->first].where;
	if (other->line != line || (other->file != file && strcmp(other->file, file) != 0))
		fail(cudaErrorLaunchFailure, "divergent barrier: thread %d waits at %s:%d, thread %d at %s:%d",
			b->first, other->file, other->line, gpu.running, file, line);
	if (b->arrived == n) {
		b->arrived = 0;
		make_runnable(first, n);
	}
	fiber_leave();
}

void cuda_on_cpu_watch_barriers(int passed)
{
	gpu.watching = true;
	gpu.passed = passed;
}

int cuda_on_cpu_barrier_count(void)
{
	return (int)gpu.barriers.size();
}

const char *cuda_on_cpu_barrier_file(int i)
{
	return gpu.barriers[(size_t)i].file;
}

int cuda_on_cpu_barrier_line(int i)
{
	return gpu.barriers[(size_t)i].line;
}

/* Whether the barrier at that place lets its threads pass. */
static bool barrier_passed(const char *file, int line)
{
	int i = 0;
	if (!gpu.watching)
		return false;
	for (const site &known : gpu.barriers) {
		if (known.line == line && strcmp(known.file, file) == 0)
			return i == gpu.passed;
		i++;
	}
	gpu.barriers.push_back({file, line});
	return i == gpu.passed;
}

void cuda_on_cpu_block_barrier(const char *file, int line)
{
	if (barrier_passed(file, line))
		return;
	if (gpu.last_done >= 0) {
		gpu.fibers[gpu.running].where = {file, line};
		fail_ended(gpu.running, gpu.last_done);
	}
	barrier_wait(&gpu.barrier, 0, gpu.n_threads, IN_BLOCK, file, line);
}

const void *cuda_on_cpu_warp_exchange(const void *own, size_t bytes, unsigned mask, const char *file, int line)
{
	if (bytes == 0 && barrier_passed(file, line))
		return NULL;
	fiber *f = &gpu.fibers[gpu.running];
	warp *w = &gpu.warps[gpu.running / LANES];
	/* Two sets of deposits: a lane that is early for the next exchange leaves alone what others still read. */
	unsigned char(*deposits)[CUDA_ON_CPU_EXCHANGE] = w->deposits[f->exchanges++ % 2];

	if (mask != 0xffffffffu)
		fail(cudaErrorLaunchFailure, "mask %#x at %s:%d: only whole warps are known here", mask, file, line);
	if (bytes > 0)
		memcpy(deposits[gpu.running % LANES], own, bytes);
	barrier_wait(&w->barrier, gpu.running / LANES * LANES, LANES, IN_WARP, file, line);
	return deposits;
}

/* ---- copies ---- */

static void copy_do(const copy &c)
{
	memcpy(c.to, c.from, c.bytes);
	memset(c.to + c.bytes, 0, c.size - c.bytes);
}

/* A copy may arrive at any time between its start and the wait: at either end here. Until then its target holds NaN. */
void cuda_on_cpu_copy_async(void *to, const void *from, size_t size, size_t bytes)
{
	const copy c = {static_cast<unsigned char *>(to), static_cast<const unsigned char *>(from), size, bytes};
	const uintptr_t misaligned = (reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % size;
	if (misaligned || c.to < gpu.shared || c.to + size > gpu.shared + gpu.shared_bytes) {
		fail(cudaErrorLaunchFailure, "thread %d: copy of %zu bytes %s", gpu.running, size,
			misaligned ? "is not aligned" : "to outside shared memory");
		fiber_leave();
	}
	if (cuda_on_cpu_at_once()) {
		copy_do(c);
		return;
	}
	memset(to, 0xff, size);
	gpu.fibers[gpu.running].open.push_back(c);
}

void cuda_on_cpu_copy_commit(void)
{
	fiber *f = &gpu.fibers[gpu.running];
	f->groups.push_back(std::vector<copy>());
	f->groups.back().swap(f->open);
}

void cuda_on_cpu_copy_wait(int pending)
{
	fiber *f = &gpu.fibers[gpu.running];
	while (f->groups.size() > (size_t)pending) {
		for (const copy &c : f->groups.front())
			copy_do(c);
		f->groups.erase(f->groups.begin());
	}
}

/* ---- launches ---- */

extern "C" unsigned char __start_cuda_on_cpu_shared[] __attribute__((weak));
extern "C" unsigned char __stop_cuda_on_cpu_shared[] __attribute__((weak));

static void fiber_start(int thread)
{
	fiber *f = &gpu.fibers[thread];
	const unsigned t = (unsigned)thread;
	if (!f->stack) { /* with a page below it that must not be touched */
		void *memory =
			mmap(NULL, PAGE + STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED || mprotect(memory, PAGE, PROT_NONE) != 0) {
			perror("stack of a fiber");
			abort();
		}
		f->stack = static_cast<unsigned char *>(memory) + PAGE;
		f->stack_bytes = STACK_BYTES;
	}
	context_start(&f->registers, f->stack, f->stack_bytes);
	f->shadow = NULL;
	f->index = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
	f->exchanges = 0;
	f->groups.clear();
	f->open.clear();
}

/* No thread can run, and not all have ended. */
static void fail_deadlock(void)
{
	int waiting = 0;
	while (gpu.fibers[waiting].state == DONE)
		waiting++;
	const site *where = &gpu.fibers[waiting].where;
	fail(cudaErrorLaunchFailure, "deadlock: thread %d waits at %s:%d for threads that never come", waiting,
		where->file, where->line);
}

static void block_run(void)
{
	memset(gpu.shared, 0xff, gpu.shared_bytes);
	memset(__start_cuda_on_cpu_shared, 0xff, (size_t)(__stop_cuda_on_cpu_shared - __start_cuda_on_cpu_shared));
	gpu.n_done = gpu.barrier.arrived = 0;
	gpu.last_done = -1;
	memset(gpu.runnable, 0, sizeof(gpu.runnable));
	for (int i = 0; i < gpu.n_threads; i++) {
		fiber_start(i);
		gpu.warps[i / LANES].barrier.arrived = 0;
	}
	make_runnable(0, gpu.n_threads);
	gpu.running = SCHEDULER;
	gpu.fibers[SCHEDULER].state = RUNNABLE;
	fiber_leave(); /* back here when no thread can run */
	if (!gpu.failed && gpu.n_done < gpu.n_threads)
		fail_deadlock();
}

/* Block numbers in the order in which they run. */
static std::vector<unsigned> block_order(unsigned n)
{
	std::vector<unsigned> order(n);
	for (unsigned i = 0; i < n; i++)
		order[i] = gpu.seed == 1 ? n - 1 - i : i;
	for (unsigned i = n; gpu.seed > 1 && i > 1; i--) {
		const unsigned j = (unsigned)(random_next() % i), last = order[i - 1];
		order[i - 1] = order[j];
		order[j] = last;
	}
	return order;
}

static bool configuration_allowed(
	const void *kernel, const dim3 &grid, const dim3 &block, size_t shared_bytes, cudaStream_t stream)
{
	size_t most = 48 * 1024;
	for (const auto &a : gpu.allowed)
		if (a.first == kernel)
			most = (size_t)a.second;
	const unsigned threads = block.x * block.y * block.z;
	gpu.failed = false;
	if (!cuda_on_cpu_stream_is_here(stream)) {
		fail(cudaErrorInvalidResourceHandle, "a kernel for the stream of a device that is not in use");
		return false;
	}
	if (threads > 0 && threads <= THREADS_MAX && threads % LANES == 0 && grid.x && grid.y && grid.y < 65536 &&
		grid.z && grid.z < 65536 && shared_bytes <= most)
		return true;
	fail(cudaErrorInvalidConfiguration, "grid %u x %u x %u of %u threads with %zu bytes of shared memory", grid.x,
		grid.y, grid.z, threads, shared_bytes);
	return false;
}

static void grid_run(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &thread)
{
	gridDim = grid;
	blockDim = block;
	for (int i = 0; gpu.failed && i < THREADS_MAX && gpu.fibers[i].stack; i++)
		STACK_FORGET(gpu.fibers[i].stack, gpu.fibers[i].stack_bytes);
	gpu.failed = false;
	gpu.kernel = &thread;
	gpu.n_threads = (int)(block.x * block.y * block.z);
	gpu.shared_bytes = shared_bytes;
	void *memory;
	if (posix_memalign(&memory, 128, shared_bytes + !shared_bytes) != 0)
		abort();
	gpu.shared = static_cast<unsigned char *>(memory);
	for (unsigned b : block_order(grid.x * grid.y * grid.z)) {
		blockIdx = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
		block_run();
		if (gpu.failed)
			break;
	}
	free(gpu.shared);
}

void cuda_on_cpu_launch(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
	const std::function<void()> &thread)
{
	{
		const std::lock_guard<std::mutex> lock(cuda_on_cpu_lock);
		if (!configuration_allowed(kernel, grid, block, shared_bytes, stream))
			return;
		gpu.launches++;
	}
	cuda_on_cpu_stream_add(stream, [=] { grid_run(grid, block, shared_bytes, thread); });
}

int cuda_on_cpu_kernel_launches(void)
{
	const std::lock_guard<std::mutex> lock(cuda_on_cpu_lock);
	return gpu.launches;
}

bool cuda_on_cpu_at_once(void)
{
	return gpu.seed == 1 || (gpu.seed > 1 && random_next() % 2 == 0);
}

unsigned char *cuda_on_cpu_dynamic_shared(void)
{
	return gpu.shared;
}

cudaError_t cuda_on_cpu_allow_shared(const void *kernel, int bytes)
{
	if (bytes > 227 * 1024)
		return cudaErrorInvalidValue;
	const std::lock_guard<std::mutex> lock(cuda_on_cpu_lock);
	for (auto &a : gpu.allowed) {
		if (a.first == kernel) {
			a.second = bytes;
			return cudaSuccess;
		}
	}
	gpu.allowed.push_back({kernel, bytes});
	return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
	const cudaError_t error = last_error;
	last_error = cudaSuccess;
	return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
	switch (error) {
	case cudaSuccess:
		return "no error";
	case cudaErrorInvalidValue:
		return "invalid value";
	case cudaErrorMemoryAllocation:
		return "out of memory";
	case cudaErrorInsufficientDriver:
		return "CUDA driver version is insufficient for CUDA runtime version";
	case cudaErrorNoDevice:
		return "no CUDA-capable device is detected";
	case cudaErrorInvalidDevice:
		return "invalid device ordinal";
	case cudaErrorStreamCaptureUnsupported:
		return "operation not permitted when stream is capturing";
	case cudaErrorInvalidConfiguration:
	case cudaErrorInvalidResourceHandle:
	case cudaErrorLaunchFailure:
		break;
	}
	return gpu.message;
}
