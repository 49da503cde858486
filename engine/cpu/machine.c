#include "engine/cpu/machine.h"

#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/base/large_memory.h"
#include "engine/base/thread_pool.h"
#include "engine/cpu/cpu_backend.h"
#include "engine/cpu/kernels.h"
#include "engine/sched/request.h"

enum { ROUNDS = 5 };
static const size_t buffer_bytes = (size_t)512 << 20; /* several times the largest last-level cache */
static const long fma_iterations = 20L * 1000 * 1000;

struct burst {
	const struct cpu_kernels *kernels;
	const char *buffer; /* NULL: arithmetic */
	size_t bytes;       /* of each task */
	float *sinks;       /* [threads] results, so that nothing is optimised away */
};

static void burst_task(void *argument, int i, int thread)
{
	const struct burst *b = argument;
	(void)thread;
	b->sinks[i] = b->buffer ? b->kernels->read_burst(b->buffer + (size_t)i * b->bytes, b->bytes)
				: b->kernels->fma_burst(fma_iterations);
}

/* Seconds of the fastest round. */
static double burst_time(struct thread_pool *pool, const struct burst *b)
{
	double best = 0.0;
	for (int round = 0; round < ROUNDS; round++) {
		double start = clock_seconds();
		thread_pool_run(pool, thread_pool_size(pool), burst_task, (void *)(uintptr_t)b);
		double seconds = clock_seconds() - start;
		best = round == 0 || seconds < best ? seconds : best;
	}
	return best;
}

static int measure(const struct cpu_kernels *k, int threads, const char *buffer, double *bytes_per_s, double *flops,
	struct error *e)
{
	struct thread_pool *pool = thread_pool_new(threads, e);
	float *sinks = mem_calloc((size_t)threads, sizeof *sinks, e);
	int status = pool && sinks ? 0 : ERR_MEMORY;

	if (status == 0) {
		struct burst reading = {k, buffer, (buffer_bytes / (size_t)threads) & ~(size_t)4095, sinks};
		struct burst arithmetic = {k, NULL, 0, sinks};
		*bytes_per_s = (double)reading.bytes * threads / burst_time(pool, &reading);
		*flops = (double)fma_iterations * k->fma_flops * threads / burst_time(pool, &arithmetic);
	}
	free(sinks);
	thread_pool_delete(pool);
	return status;
}

/* "model name : …" of /proc/cpuinfo. */
static void cpu_name(char *out, size_t size)
{
	struct buf text = {0};
	struct error ignored;

	snprintf(out, size, "unknown");
	if (file_read("/proc/cpuinfo", &text, &ignored) == 0) {
		const char *line = strstr(buf_text(&text), "model name"), *colon = line ? strchr(line, ':') : NULL;
		if (colon)
			snprintf(out, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
	}
	buf_free(&text);
}

int machine_measure(int threads, struct engine_machine *out, struct error *e)
{
	struct backend *backend;
	const struct cpu_kernels *kernels;

	*out = (struct engine_machine){.threads = threads > 0 ? threads : thread_count_default()};
	TRY(cpu_backend_new(1, NULL, &backend, e));
	kernels = cpu_backend_kernels(backend);
	out->isa = kernels->isa;
	cpu_name(out->cpu, sizeof out->cpu);
	char *buffer = slab_take(NULL, buffer_bytes, e); /* as weights are */
	int status = buffer ? 0 : ERR_MEMORY;
	if (status == 0) {
		memset(buffer, 1, buffer_bytes); /* zero pages would all be one page in the cache */
		status = measure(kernels, 1, buffer, &out->read_one, &out->flops_one, e);
	}
	if (status == 0)
		status = measure(kernels, out->threads, buffer, &out->read_all, &out->flops_all, e);
	/* a neighbour on the machine can make all threads slower than one: a ceiling is what was reached at all */
	out->read_all = out->read_all > out->read_one ? out->read_all : out->read_one;
	out->flops_all = out->flops_all > out->flops_one ? out->flops_all : out->flops_one;
	slab_give(buffer);
	backend->ops->destroy(backend);
	return status;
}
