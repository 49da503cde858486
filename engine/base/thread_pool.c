#include "engine/base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* A forward pass starts hundreds of short jobs; a worker that went to sleep between two of them would cost more than
 * the job. So it looks for about 20 microseconds before it sleeps, and an idle engine burns nothing. */
enum { SPINS_BEFORE_SLEEP = 2000 };

struct thread_pool {
	int size;
	pthread_t *threads; /* size - 1 of them */
	pthread_mutex_t mutex;
	pthread_cond_t wake, done;
	int n_started;
	bool stop;

	/* The job. generation changes last, under the mutex; a worker reads the rest after it saw the change. */
	atomic_uint generation;
	atomic_int next, n_working;
	int count;
	thread_task *task;
	void *argument;
};

struct worker_start {
	struct thread_pool *pool;
	int index;
};

static void job_work(struct thread_pool *pool, int thread)
{
	for (;;) {
		int i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
		if (i >= pool->count)
			return;
		pool->task(pool->argument, i, thread);
	}
}

/* Waits until generation differs from seen; spins first, then sleeps. Returns the new one. */
static unsigned job_wait(struct thread_pool *pool, unsigned seen)
{
	for (int spin = 0; spin < SPINS_BEFORE_SLEEP; spin++) {
		unsigned now = atomic_load_explicit(&pool->generation, memory_order_acquire);
		if (now != seen)
			return now;
		thread_relax();
	}
	pthread_mutex_lock(&pool->mutex);
	while (atomic_load_explicit(&pool->generation, memory_order_acquire) == seen)
		pthread_cond_wait(&pool->wake, &pool->mutex);
	pthread_mutex_unlock(&pool->mutex);
	return atomic_load_explicit(&pool->generation, memory_order_acquire);
}

static void *worker_main(void *argument)
{
	struct worker_start start = *(struct worker_start *)argument;
	struct thread_pool *pool = start.pool;
	unsigned seen = 0;

	free(argument);
	for (;;) {
		seen = job_wait(pool, seen);
		if (pool->stop)
			return NULL;
		job_work(pool, start.index);
		if (atomic_fetch_sub_explicit(&pool->n_working, 1, memory_order_acq_rel) == 1) {
			pthread_mutex_lock(&pool->mutex);
			pthread_cond_signal(&pool->done);
			pthread_mutex_unlock(&pool->mutex);
		}
	}
}

static void job_publish(struct thread_pool *pool)
{
	pthread_mutex_lock(&pool->mutex);
	atomic_fetch_add_explicit(&pool->generation, 1, memory_order_release);
	pthread_cond_broadcast(&pool->wake);
	pthread_mutex_unlock(&pool->mutex);
}

void thread_pool_run(struct thread_pool *pool, int count, thread_task *task, void *argument)
{
	if (thread_pool_size(pool) == 1 || count <= 1) {
		for (int i = 0; i < count; i++)
			task(argument, i, 0);
		return;
	}
	pool->count = count;
	pool->task = task;
	pool->argument = argument;
	atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
	atomic_store_explicit(&pool->n_working, pool->size - 1, memory_order_relaxed);
	job_publish(pool);
	job_work(pool, 0);
	for (int spin = 0; spin < SPINS_BEFORE_SLEEP; spin++) {
		if (atomic_load_explicit(&pool->n_working, memory_order_acquire) == 0)
			return;
		thread_relax();
	}
	pthread_mutex_lock(&pool->mutex);
	while (atomic_load_explicit(&pool->n_working, memory_order_acquire) != 0)
		pthread_cond_wait(&pool->done, &pool->mutex);
	pthread_mutex_unlock(&pool->mutex);
}

static int worker_start(struct thread_pool *pool, int index, struct error *e)
{
	struct worker_start *start = mem_calloc(1, sizeof *start, e);
	if (!start)
		return ERR_MEMORY;
	*start = (struct worker_start){pool, index};
	if (pthread_create(&pool->threads[index - 1], NULL, worker_main, start) != 0) {
		free(start);
		return error_set(e, ERR_IO, "cannot start thread %d of %d", index + 1, pool->size);
	}
	pool->n_started++;
	return 0;
}

struct thread_pool *thread_pool_new(int threads, struct error *e)
{
	struct thread_pool *pool = mem_calloc(1, sizeof *pool, e);
	if (!pool)
		return NULL;
	pool->size = threads;
	pthread_mutex_init(&pool->mutex, NULL);
	pthread_cond_init(&pool->wake, NULL);
	pthread_cond_init(&pool->done, NULL);
	pool->threads = mem_calloc((size_t)threads, sizeof *pool->threads, e);
	for (int i = 1; pool->threads && i < threads; i++)
		if (worker_start(pool, i, e) < 0)
			break;
	if (!pool->threads || pool->n_started != threads - 1) {
		thread_pool_delete(pool);
		return NULL;
	}
	return pool;
}

void thread_pool_delete(struct thread_pool *pool)
{
	if (!pool)
		return;
	pool->stop = true;
	job_publish(pool);
	for (int i = 0; i < pool->n_started; i++)
		pthread_join(pool->threads[i], NULL);
	pthread_mutex_destroy(&pool->mutex);
	pthread_cond_destroy(&pool->wake);
	pthread_cond_destroy(&pool->done);
	free(pool->threads);
	free(pool);
}

int thread_pool_size(const struct thread_pool *pool)
{
	return pool ? pool->size : 1;
}

int thread_count_default(void)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof set, &set) != 0)
		return 1;
	int count = CPU_COUNT(&set);
	return count < 1 ? 1 : count;
}
