/* A fixed set of threads that split index ranges. Work is split over outputs, never over a sum, so the number of
 * threads changes no bit. The caller works too: a pool of 1 has no thread of its own. Idle threads sleep. */
#ifndef ASSAY_ENGINE_BASE_THREAD_POOL_H
#define ASSAY_ENGINE_BASE_THREAD_POOL_H

#include "engine/base/error.h"

struct thread_pool;

/* threads >= 1. */
struct thread_pool *thread_pool_new(int threads, struct error *e);
void thread_pool_delete(struct thread_pool *pool);
int thread_pool_size(const struct thread_pool *pool);

/* Of all these a NULL pool is the caller's thread alone.
 *
 * Calls task(argument, i, thread) for every i in [0, count), each once, and returns when all are done.
 * thread is in [0, size): an index of scratch memory. Not reentrant; one thread owns the pool. */
typedef void thread_task(void *argument, int i, int thread);
void thread_pool_run(struct thread_pool *pool, int count, thread_task *task, void *argument);

/* In a loop that looks for what another thread does. */
static inline void thread_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

/* Number of processors this process may use. */
int thread_count_default(void);

#endif
