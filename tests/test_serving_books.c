/* A seeded random workload on a small pool: shared prefixes, withdrawals, preemption, evictions, hand-over, padding. After
 * every step all books of the pages are held against each other (engine_audit); every answer has the bits that the same
 * request had alone; at the end no page is missing. ASSAY_TEST_STEPS=N for more steps, ASSAY_TEST_SEED=N for another
 * workload. */
#include "tests/serving_workload.h"

const char *const test_program_name = "serving_books";

START_TEST(the_books_agree_after_every_step)
{
	static struct workload w;
	int steps = number_of("ASSAY_TEST_STEPS", 4000) / COUNT(workload_cases), seed = number_of("ASSAY_TEST_SEED", 1);
	const struct workload_case *c = &workload_cases[_i];
	struct engine_stats stats;

	w = (struct workload){0};
	workload_open(&w, c, (uint64_t)seed, NULL, NULL);
	workload_run(&w, steps);
	engine_stats(w.engine, &stats);
	printf("%s, seed %d: %llu steps, %d answered, %d withdrawn; %llu tokens computed, %llu cached, %llu replayed "
	       "in %llu "
	       "preemptions; %llu pages evicted, %llu copied, %llu handed over\n",
		c->name, seed, (unsigned long long)stats.steps, w.answered, w.aborted,
		(unsigned long long)stats.prompt_tokens, (unsigned long long)stats.cached_tokens,
		(unsigned long long)stats.replayed_tokens, (unsigned long long)stats.preemptions,
		(unsigned long long)stats.pages_evicted, (unsigned long long)stats.pages_copied,
		(unsigned long long)stats.pages_transferred);
	ck_assert_int_gt(w.answered, 0);
	ck_assert_int_gt(w.aborted, 0);
	ck_assert_int_eq(stats.preemptions > 0, c->preempts);
	ck_assert_int_eq(stats.cached_tokens > 0, !c->config.no_prefix_cache);
	ck_assert_int_eq(stats.pages_transferred > 0, strchr(c->variant, '>') != NULL);
	ck_assert_int_eq(stats.pages_used, 0);
	engine_cache_clear(w.engine);
	CHECK_OK(engine_audit(w.engine, &test_error));
	engine_stats(w.engine, &stats);
	ck_assert_int_eq(stats.pages_cached, 0);
	engine_close(w.engine);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *books = test_case(suite, "books", getenv("ASSAY_TEST_STEPS") ? 7200 : 120);

	tcase_add_loop_test(books, the_books_agree_after_every_step, 0, COUNT(workload_cases));
}
