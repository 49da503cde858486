/* What is said of interleaved arms. */
#include <math.h>

#include "reports/overhead.h"
#include "tests/support.h"

const char *const test_program_name = "overhead";

enum { BLOCKS = 8 };

/* The example of the statistics' own notes: ratio .9911576572558158, 95% (.9897311389181989, .9925862316614774); made with
 * scipy 1.10's t distribution. */
static const double off[BLOCKS] = {1012, 998, 1005, 1010, 995, 1003, 1008, 999};
static const double on[BLOCKS] = {1001, 990, 996, 1004, 985, 995, 997, 991};

START_TEST(a_ratio_has_the_interval_of_its_logarithms)
{
	struct overhead_sample a[BLOCKS] = {0}, b[BLOCKS] = {0};
	struct overhead_change throughput, cpu;

	for (int i = 0; i < BLOCKS; i++) {
		a[i] = (struct overhead_sample){.tokens_per_s = off[i], .cpu_us = on[i]};
		b[i] = (struct overhead_sample){.tokens_per_s = on[i], .cpu_us = off[i]};
	}
	CHECK_OK(overhead_ratio(a, b, BLOCKS, OVERHEAD_THROUGHPUT, &throughput, &test_error));
	ck_assert_double_eq_tol(throughput.value, .9911576572558158 - 1, 1e-12);
	ck_assert_double_eq_tol(throughput.low, .9897311389181989 - 1, 1e-12);
	ck_assert_double_eq_tol(throughput.high, .9925862316614774 - 1, 1e-12);
	CHECK_OK(overhead_ratio(a, b, BLOCKS, OVERHEAD_CPU, &cpu, &test_error));
	ck_assert_double_eq_tol(cpu.value, 1 / .9911576572558158 - 1, 1e-12);
	CHECK_OK(overhead_ratio(a, a, BLOCKS, OVERHEAD_THROUGHPUT, &throughput, &test_error));
	ck_assert_double_eq(throughput.low, 0);
	ck_assert_double_eq(throughput.high, 0);
}
END_TEST

/* By scipy 1.17: the fewest n with t.ppf(.975, n - 1) * sd / sqrt(n) <= half, sd from the interval. */
START_TEST(blocks_for_an_interval_are_the_fewest)
{
	static const struct {
		double low, high;
		int n_blocks;
		double half;
		int expected;
	} cases[] = {{-0.01, 0.01, 10, 0.01, 11}, {-0.01, 0.01, 10, 0.005, 33}, {-0.0063, 0.0045, 150, 0.005, 175},
		{-0.9999, 3636.5, 2, 0.005, 0}, {0, 0, 5, 0.005, 2}, {-0.03, 0.03, 2, 0.005, 5},
		{-0.0985, 0.0525, 200, 0.005, 0}};
	struct overhead_change change = {0, cases[_i].low, cases[_i].high};

	ck_assert_int_eq(overhead_blocks_for(&change, cases[_i].n_blocks, cases[_i].half), cases[_i].expected);
}
END_TEST

START_TEST(a_median_forgets_the_block_that_waited)
{
	struct overhead_sample s[5] = {0};
	static const double guard[5] = {2, 900, 1, 3, 4};
	double median;

	for (int i = 0; i < 5; i++) {
		s[i].guard_us = guard[i];
		s[i].step_us = 10 * guard[i];
	}
	CHECK_OK(overhead_median(s, 5, OVERHEAD_GUARD, &median, &test_error));
	ck_assert_double_eq(median, 3);
	CHECK_OK(overhead_median(s, 4, OVERHEAD_STEP, &median, &test_error));
	ck_assert_double_eq(median, 25);
}
END_TEST

/* 20 latencies a block, 1 .. 20 times a factor. */
static void latencies_fill(double *latencies, struct overhead_sample *s, double factor)
{
	for (int i = 0; i < 20; i++)
		latencies[i] = factor * (i + 1);
	*s = (struct overhead_sample){.latencies = latencies, .n_latencies = 20};
}

START_TEST(the_tail_is_compared_over_all_blocks)
{
	static double values[2][4][20];
	static const double factors[4] = {1, 1.01, 1.02, 1.03};
	struct overhead_sample a[4], b[4];
	struct overhead_change change, again;

	for (int i = 0; i < 4; i++) {
		latencies_fill(values[0][i], &a[i], factors[i]);
		latencies_fill(values[1][i], &b[i], 1.1 * factors[i]);
	}
	CHECK_OK(overhead_p95(a, b, 4, 1, &change, &test_error));
	ck_assert_double_eq_tol(change.value, 0.1, 1e-12);
	/* the same blocks are drawn for both arms, so a constant factor has no spread */
	ck_assert_double_eq_tol(change.low, 0.1, 1e-12);
	ck_assert_double_eq_tol(change.high, 0.1, 1e-12);
	latencies_fill(values[1][0], &b[0], 3);
	CHECK_OK(overhead_p95(a, b, 4, 1, &change, &test_error));
	ck_assert_double_gt(change.high - change.low, 0.1);
	ck_assert_double_le(change.low, change.value);
	ck_assert_double_ge(change.high, change.value);
	CHECK_OK(overhead_p95(a, b, 4, 1, &again, &test_error));
	ck_assert_double_eq(again.low, change.low);
	ck_assert_double_eq(again.high, change.high);
}
END_TEST

START_TEST(an_order_is_a_permutation_and_each_is_about_as_frequent)
{
	struct py_random rng;
	int seen[6] = {0};

	py_random_seed(&rng, 7);
	for (int i = 0; i < 6000; i++) {
		int order[3];
		overhead_shuffle(&rng, order, 3);
		ck_assert_int_eq(1 << order[0] | 1 << order[1] | 1 << order[2], 7);
		seen[2 * order[0] + (order[1] > order[2])]++;
	}
	for (int i = 0; i < 6; i++) {
		ck_assert_int_gt(seen[i], 850);
		ck_assert_int_lt(seen[i], 1150);
	}
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *overhead = test_case(suite, "overhead", 0);

	tcase_add_test(overhead, a_ratio_has_the_interval_of_its_logarithms);
	tcase_add_test(overhead, a_median_forgets_the_block_that_waited);
	tcase_add_loop_test(overhead, blocks_for_an_interval_are_the_fewest, 0, 7);
	tcase_add_test(overhead, the_tail_is_compared_over_all_blocks);
	tcase_add_test(overhead, an_order_is_a_permutation_and_each_is_about_as_frequent);
}
