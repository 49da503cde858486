/* Whether intervals cover what they say they cover, and gates pass no more than they may: by enumeration of all
 * outcomes where there are few, by simulation, and the one against the other. */
#include <math.h>
#include <stdlib.h>

#include "reports/stats.h"
#include "tests/support.h"

const char *const test_program_name = "coverage";

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { DRAWS = 10000 };

/* ---- Random numbers: xorshift64*, seeded, the same everywhere ---- */

static uint64_t state;

static double uniform(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (double)((state * 2685821657736338717u) >> 11) * 0x1p-53;
}

/* Cumulative probabilities of a binomial, to draw from by bisection. */
static double *binomial_table(int n, double p)
{
	double *table = calloc((size_t)n + 1, sizeof(*table)), sum = 0;
	for (int k = 0; k <= n; k++)
		table[k] = sum += binomial_pmf(k, n, p);
	return table;
}

static int draw_from(const double *table, int n)
{
	double u = uniform();
	int low = 0, high = n;
	while (low < high) {
		int middle = (low + high) / 2;
		if (table[middle] > u)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static double three_errors(double p, int n)
{
	return 3 * sqrt(p * (1 - p) / n);
}

/* ---- One proportion ---- */

static const struct {
	const char *name;
	struct interval (*make)(double k, double n, double level);
	double least; /* exact coverage never falls below this for the cases below */
} proportion_intervals[] = {
	{"Wilson", wilson_interval, 0.92},
	{"Clopper-Pearson", exact_interval, 0.95},
	{"Agresti-Coull", agresti_coull_interval, 0.93},
	{"Jeffreys", jeffreys_interval, 0.89},
};

START_TEST(proportions_cover_what_enumeration_says)
{
	static const struct {
		int n;
		double p;
	} cases[] = {{10, 0.5}, {50, 0.1}, {50, 0.02}, {300, 0.01}, {300, 0.74}, {1319, 0.942}};
	state = 1;
	for (size_t i = 0; i < COUNT(cases); i++) {
		int n = cases[i].n;
		double p = cases[i].p, exact = 0;
		bool *covers = calloc((size_t)n + 1, sizeof(*covers));
		for (int k = 0; k <= n; k++) {
			struct interval x = proportion_intervals[_i].make(k, n, 0.95);
			covers[k] = x.low <= p && p <= x.high;
			exact += covers[k] ? binomial_pmf(k, n, p) : 0;
		}
		double *table = binomial_table(n, p);
		int seen = 0;
		for (int draw = 0; draw < DRAWS; draw++)
			seen += covers[draw_from(table, n)];
		double simulated = (double)seen / DRAWS;
		ck_assert_msg(fabs(simulated - exact) <= three_errors(exact, DRAWS) + 1e-12,
			"%s, n %d, p %g: simulated %g, enumerated %g", proportion_intervals[_i].name, n, p, simulated,
			exact);
		ck_assert_msg(exact >= proportion_intervals[_i].least, "%s, n %d, p %g: %g",
			proportion_intervals[_i].name, n, p, exact);
		free(table);
		free(covers);
	}
}
END_TEST

/* ---- Paired tables ---- */

static struct interval tango(struct paired_table t, double level)
{
	return tango_interval(t, level, 1);
}

static const struct {
	const char *name;
	struct interval (*make)(struct paired_table t, double level);
	double least;
} paired_intervals[] = {
	{"Tango", tango, 0.935},
	{"Newcombe", newcombe_interval, 0.94},
	{"Wald", wald_interval, 0.7}, /* known to be too narrow: why it does not decide */
	{"t", paired_t_interval, 0.7},
};

/* A table of n items, half of the rest right on both sides. */
static struct paired_table table_of(int n, int b, int c)
{
	int both = (n - b - c) / 2;
	return (struct paired_table){both, b, c, n - b - c - both};
}

/* P(b, c) of a trinomial. */
static double table_probability(int n, int b, int c, double psi, double share)
{
	return binomial_pmf(b + c, n, psi) * binomial_pmf(b, b + c, share);
}

START_TEST(paired_intervals_cover_what_enumeration_says)
{
	enum { N = 50 };
	static const struct {
		double psi, drop;
	} cases[] = {{0.1, 0}, {0.1, 0.04}, {0.2, 0.1}, {0.3, -0.05}};
	static bool covers[N + 1][N + 1];
	state = 2;
	for (size_t i = 0; i < COUNT(cases); i++) {
		double psi = cases[i].psi, drop = cases[i].drop, share = 0.5 * (psi + drop) / psi, exact = 0;
		for (int b = 0; b <= N; b++)
			for (int c = 0; b + c <= N; c++) {
				struct interval x = paired_intervals[_i].make(table_of(N, b, c), 0.95);
				covers[b][c] = x.low <= drop && drop <= x.high;
				exact += covers[b][c] ? table_probability(N, b, c, psi, share) : 0;
			}
		int seen = 0;
		for (int draw = 0; draw < DRAWS; draw++) {
			int b = 0, c = 0;
			for (int item = 0; item < N; item++) {
				double u = uniform();
				b += u < psi * share;
				c += u >= psi * share && u < psi;
			}
			seen += covers[b][c];
		}
		double simulated = (double)seen / DRAWS;
		ck_assert_msg(fabs(simulated - exact) <= three_errors(exact, DRAWS) + 1e-12,
			"%s, psi %g, drop %g: simulated %g, enumerated %g", paired_intervals[_i].name, psi, drop,
			simulated, exact);
		ck_assert_msg(exact >= paired_intervals[_i].least, "%s, psi %g, drop %g: %g", paired_intervals[_i].name,
			psi, drop, exact);
	}
}
END_TEST

/* ---- The gate at its margin ---- */

static const struct {
	int n;
	double psi;
} gates[] = {{50, 0.01}, {50, 0.05}, {50, 0.1}, {300, 0.01}, {300, 0.05}, {300, 0.1}, {1319, 0.01}, {1319, 0.05},
	{1319, 0.1}, {14042, 0.01}, {14042, 0.05}, {14042, 0.1}};

/* A true drop of exactly the margin is one that must not pass: it may, with probability alpha. The same for a
 * failure. */
START_TEST(the_gate_is_wrong_no_more_often_than_alpha)
{
	const double margin = 0.01, alpha = 0.05;
	int n = gates[_i].n;
	double psi = gates[_i].psi, share = 0.5 * (psi + margin) / psi;
	double *table = binomial_table(n, psi);
	int passed = 0, failed = 0;
	state = 3 + (uint64_t)_i;
	for (int draw = 0; draw < DRAWS; draw++) {
		int m = draw_from(table, n), b = 0;
		for (int item = 0; item < m; item++)
			b += uniform() < share;
		struct drop_bounds bounds = drop_bounds(table_of(n, b, m - b), alpha, 1);
		passed += bounds.upper < margin;
		failed += bounds.lower > margin;
	}
	free(table);
	double most = alpha + three_errors(alpha, DRAWS);
	ck_assert_msg((double)passed / DRAWS <= most, "n %d, discordance %g: passes %d of %d", n, psi, passed, DRAWS);
	ck_assert_msg((double)failed / DRAWS <= most, "n %d, discordance %g: fails %d of %d", n, psi, failed, DRAWS);
}
END_TEST

/* What simulation shows for a few tables, exactly. */
START_TEST(false_passes_by_enumeration)
{
	static const int sizes[] = {50, 300};
	const double margin = 0.01, alpha = 0.05;
	for (size_t i = 0; i < COUNT(sizes); i++)
		for (double psi = 0.01; psi < 0.11; psi += 0.045) {
			double wrong = 0, share = 0.5 * (psi + margin) / psi;
			for (int m = 0; m <= sizes[i]; m++) {
				double weight = binomial_pmf(m, sizes[i], psi);
				for (int b = 0; b <= m && weight > 1e-9; b++)
					if (drop_bounds(table_of(sizes[i], b, m - b), alpha, 1).upper < margin)
						wrong += weight * binomial_pmf(b, m, share);
			}
			ck_assert_msg(wrong <= 0.0565, "n %d, discordance %g: %g", sizes[i], psi, wrong);
		}
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *t = test_case(suite, "intervals", 60);
	tcase_add_loop_test(t, proportions_cover_what_enumeration_says, 0, (int)COUNT(proportion_intervals));
	tcase_add_loop_test(t, paired_intervals_cover_what_enumeration_says, 0, (int)COUNT(paired_intervals));
	t = test_case(suite, "gate", 60);
	tcase_add_loop_test(t, the_gate_is_wrong_no_more_often_than_alpha, 0, (int)COUNT(gates));
	tcase_add_test(t, false_passes_by_enumeration);
}
