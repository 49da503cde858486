/* Means and quantiles of latencies. */
#include <math.h>

#include "evals/distribution.h"
#include "tests/support.h"

const char *const test_program_name = "distribution";

/* NumPy 2.4: mean, and quantile(…, method='linear') at 0.5, 0.95 and 0.99. */
static const struct {
	int n;
	double values[20], mean, median, p95, p99;
} cases[] = {
	{20,
		{60.2, 12.4, 12.6, 13.0, 13.3, 13.9, 14.2, 14.8, 15.5, 16.1, 16.9, 17.4, 18.8, 19.9, 21.5, 24.0, 27.7, 33.1,
			41.6, 12.1},
		20.95, 16.5, 42.53, 56.666},
	{1, {7.5}, 7.5, 7.5, 7.5, 7.5},
	{2, {4.0, 1.0}, 2.5, 2.5, 3.85, 3.97},
	{3, {-1.0, 0.0, 5.0}, 4.0 / 3.0, 0.0, 4.5, 4.9},
};

START_TEST(quantiles_are_those_of_numpy)
{
	struct distribution d = {0};
	for (int i = 0; i < cases[_i].n; i++)
		CHECK_OK(distribution_add(&d, cases[_i].values[i], &test_error));
	ck_assert_double_eq_tol(distribution_mean(&d), cases[_i].mean, 1e-12);
	ck_assert_double_eq_tol(distribution_quantile(&d, 0.5), cases[_i].median, 1e-12);
	ck_assert_double_eq_tol(distribution_quantile(&d, 0.95), cases[_i].p95, 1e-12);
	ck_assert_double_eq_tol(distribution_quantile(&d, 0.99), cases[_i].p99, 1e-12);
	distribution_free(&d);
}
END_TEST

START_TEST(many_values_are_kept_and_none_is_null)
{
	struct distribution d = {0};
	struct buf out = {0};

	ck_assert(isnan(distribution_mean(&d)) && isnan(distribution_quantile(&d, 0.5)));
	distribution_write(&d, &out);
	ck_assert_str_eq(buf_text(&out), "null");
	for (int i = 0; i <= 1000; i++)
		CHECK_OK(distribution_add(&d, 1000 - i, &test_error));
	buf_clear(&out);
	distribution_write(&d, &out);
	ck_assert_str_eq(buf_text(&out), "{\"mean\": 500.0, \"median\": 500.0, \"p95\": 950.0, \"p99\": 990.0}");
	buf_free(&out);
	distribution_free(&d);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *all = test_case(suite, "distribution", 0);
	tcase_add_loop_test(all, quantiles_are_those_of_numpy, 0, sizeof cases / sizeof *cases);
	tcase_add_test(all, many_values_are_kept_and_none_is_null);
}
