/* Every index once, on a thread within the pool, all done when run returns; many short jobs; pools that come and go. */
#include <stdatomic.h>
#include <unistd.h>

#include "engine/base/thread_pool.h"
#include "tests/support.h"

const char *const test_program_name = "thread_pool";

enum { COUNT_MAX = 5000, THREADS_MAX = 4 };

struct job {
	int threads, count;
	atomic_int calls[COUNT_MAX];
	atomic_int wrong;               /* indices or threads out of range */
	atomic_int busy[THREADS_MAX];   /* a thread number is scratch memory: never two at once */
	unsigned own[THREADS_MAX * 64]; /* not atomic: each belongs to the thread with that number */
};

static void count_task(void *argument, int i, int thread)
{
	struct job *job = argument;
	if (i < 0 || i >= job->count || thread < 0 || thread >= job->threads) {
		atomic_fetch_add(&job->wrong, 1);
		return;
	}
	if (atomic_exchange(&job->busy[thread], 1))
		atomic_fetch_add(&job->wrong, 1);
	atomic_fetch_add(&job->calls[i], 1);
	job->own[thread * 64]++;
	atomic_store(&job->busy[thread], 0);
}

static void check_job(struct thread_pool *pool, struct job *job, int count)
{
	job->threads = thread_pool_size(pool);
	job->count = count;
	for (int i = 0; i < count; i++)
		atomic_store(&job->calls[i], 0);
	for (int t = 0; t < THREADS_MAX; t++)
		job->own[t * 64] = 0;
	thread_pool_run(pool, count, count_task, job);
	unsigned total = 0;
	for (int i = 0; i < count; i++)
		ck_assert_int_eq(atomic_load(&job->calls[i]), 1);
	for (int t = 0; t < THREADS_MAX; t++)
		total += job->own[t * 64];
	ck_assert_uint_eq(total, (unsigned)count);
	ck_assert_int_eq(atomic_load(&job->wrong), 0);
}

static struct thread_pool *pool_of(int threads)
{
	struct thread_pool *pool = thread_pool_new(threads, &test_error);
	ck_assert_msg(pool != NULL, "%s", test_error.message);
	ck_assert_int_eq(thread_pool_size(pool), threads);
	return pool;
}

static struct job job;

START_TEST(every_index_once)
{
	static const int counts[] = {0, 1, 2, 3, 4, 5, 7, 63, 64, 65, 1000, COUNT_MAX};
	struct thread_pool *pool = pool_of(_i);

	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		check_job(pool, &job, counts[i]);
	thread_pool_delete(pool);
}
END_TEST

START_TEST(ten_thousand_jobs)
{
	struct thread_pool *pool = pool_of(_i);

	for (int round = 0; round < 10000; round++)
		check_job(pool, &job, round % 9);
	thread_pool_delete(pool);
}
END_TEST

/* Between these jobs the workers have gone to sleep. */
START_TEST(jobs_after_sleep)
{
	struct thread_pool *pool = pool_of(_i);

	for (int round = 0; round < 20; round++) {
		usleep(3000);
		check_job(pool, &job, 100);
	}
	thread_pool_delete(pool);
}
END_TEST

START_TEST(pools_come_and_go)
{
	for (int round = 0; round < 200; round++) {
		struct thread_pool *pool = pool_of(1 + round % THREADS_MAX);
		if (round % 3)
			check_job(pool, &job, round % 3 * 10);
		thread_pool_delete(pool);
	}
	thread_pool_delete(NULL);
}
END_TEST

static void slow_task(void *argument, int i, int thread)
{
	(void)thread;
	if (i == 0)
		usleep(20000);
	atomic_fetch_add((atomic_int *)argument, 1);
}

/* run waits for a straggler, whoever has it. */
START_TEST(waits_for_the_last)
{
	struct thread_pool *pool = pool_of(_i);

	for (int round = 0; round < 10; round++) {
		atomic_int done = 0;
		thread_pool_run(pool, 50, slow_task, &done);
		ck_assert_int_eq(atomic_load(&done), 50);
	}
	thread_pool_delete(pool);
}
END_TEST

static void rows_task(void *argument, int i, int thread)
{
	(void)thread;
	if (i == 1) /* long enough for the others to take the rest */
		usleep(200);
	((int *)argument)[i] = i * i;
}

/* What the tasks wrote is seen by the caller without more ado. */
START_TEST(results_are_visible)
{
	struct thread_pool *pool = pool_of(_i);

	for (int round = 0; round < 100; round++) {
		int out[40] = {0};
		thread_pool_run(pool, 40, rows_task, out);
		for (int i = 0; i < 40; i++)
			ck_assert_int_eq(out[i], i * i);
	}
	thread_pool_delete(pool);
}
END_TEST

START_TEST(default_count)
{
	ck_assert_int_ge(thread_count_default(), 1);
	ck_assert_int_le(thread_count_default(), (int)sysconf(_SC_NPROCESSORS_CONF));
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *tcase = test_case(suite, "thread_pool", 60);
	tcase_add_loop_test(tcase, every_index_once, 1, THREADS_MAX + 1);
	tcase_add_loop_test(tcase, ten_thousand_jobs, 1, THREADS_MAX + 1);
	tcase_add_loop_test(tcase, jobs_after_sleep, 1, THREADS_MAX + 1);
	tcase_add_test(tcase, pools_come_and_go);
	tcase_add_loop_test(tcase, waits_for_the_last, 1, THREADS_MAX + 1);
	tcase_add_loop_test(tcase, results_are_visible, 1, THREADS_MAX + 1);
	tcase_add_test(tcase, default_count);
}
