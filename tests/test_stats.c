/* Statistics against SciPy 1.10 and statsmodels 0.13 (and R where they have no such function), to the digits that were
 * written down. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "reports/stats.h"
#include "tests/support.h"
#include "tests/tsv.h"

const char *const test_program_name = "stats";

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The value, rounded to as many digits as expected has, is expected; the last digit of what a double holds may
 * differ by a few units. */
static void expect_digits(const char *name, double value, const char *expected)
{
	double wanted = strtod(expected, NULL);
	const char *point = strchr(expected, '.');
	const char *exponent = strchr(expected, 'e');
	size_t decimals = point ? strspn(point + 1, "0123456789") : 0;
	double unit = pow(10, -(double)decimals + (exponent ? strtod(exponent + 1, NULL) : 0));
	double tolerance = 0.5001 * unit + 2e-14 * fabs(wanted);
	ck_assert_msg(fabs(value - wanted) <= tolerance, "%s: %.17g, expected %s", name, value, expected);
}

static void expect_interval(const char *name, struct interval interval, const char *low, const char *high)
{
	expect_digits(name, interval.low, low);
	expect_digits(name, interval.high, high);
}

/* ---- Distributions ---- */

START_TEST(quantiles)
{
	expect_digits("z .95", normal_quantile(0.95), "1.6448536269514715");
	expect_digits("z .975", normal_quantile(0.975), "1.9599639845400536");
	expect_digits("z .8", normal_quantile(0.8), "0.8416212335729144");
	expect_digits("z .9", normal_quantile(0.9), "1.2815515655446008");
	expect_digits("z .05", normal_quantile(0.05), "-1.6448536269514715");
	ck_assert_double_eq_tol(normal_quantile(0.5), 0, 1e-15);
	ck_assert_double_eq(normal_quantile(0), -INFINITY);
	ck_assert_double_eq(normal_quantile(1), INFINITY);
	ck_assert_double_nan(normal_quantile(NAN));
	static const struct {
		double df;
		const char *t;
	} cases[] = {{1, "12.706204736174659"}, {2, "4.302652729749456"}, {4, "2.7764451051977908"},
		{7, "2.364624251592784"}, {9, "2.2621571627982"}, {19, "2.093024054408307"},
		{1318, "1.9617655127673"}}; /* mpmath; SciPy has ...7486 */
	for (size_t i = 0; i < COUNT(cases); i++) {
		expect_digits("t .975", t_quantile(0.975, cases[i].df), cases[i].t);
		expect_digits("its cdf", t_cdf(t_quantile(0.975, cases[i].df), cases[i].df), "0.97500000000000");
	}
	expect_digits("t two-sided", 2 * t_cdf(-2.540700474852722, 1318), "0.01117696838821355");
}
END_TEST

/* Each quantile is undone by its distribution, in both tails, for small and large shapes. */
START_TEST(beta_quantile_inverts_the_distribution)
{
	static const double shapes[] = {0.5, 1, 2, 9.5, 100, 1319, 14042};
	static const double ps[] = {1e-12, 0.001, 0.025, 0.5, 0.975, 0.999};
	for (size_t i = 0; i < COUNT(shapes); i++)
		for (size_t j = 0; j < COUNT(shapes); j++)
			for (size_t k = 0; k < COUNT(ps); k++) {
				double x = beta_quantile(ps[k], shapes[i], shapes[j]);
				double back = beta_cdf(x, shapes[i], shapes[j]);
				/* near 1 the steps of x themselves are coarse */
				ck_assert_msg(fabs(back - ps[k]) < 1e-9 * ps[k] || x > 1 - 1e-6,
					"beta(%g, %g) at %g: x %.17g, back %.17g", shapes[i], shapes[j], ps[k], x,
					back);
			}
}
END_TEST

/* ---- McNemar ---- */

static const struct {
	int64_t b, c;
	const char *two_sided, *larger_side, *mid_p, *chi2_cc;
} mcnemar_cases[] = {
	{10, 25, "0.01667384780012071", "0.008336923900060356", "0.011330984183587134", "0.017960477526078766"},
	{0, 5, "0.0625", "0.03125", "0.03125", "0.0736382701203"},
	{0, 6, "0.03125", "0.015625", "0.015625", "0.0412268333372"},
	{1, 9, "0.021484375", "0.0107421875", "0.01171875", "0.0268566955"},
	{3, 12, "0.03515625", "0.017578125", "0.021270751953125", "0.0388671038"},
	{5, 5, "1", "0.623046875", "1", "0.7518296340"},
	{40, 60, "0.05688793364098079", "0.028443966820490395", "0.046044066929342806", "0.0574331196"},
	{120, 180, "0.0006342200069283569", "0.00031711000346417844", "0.0005224207099608617", "0.000658337169557"},
	{16, 4, "0.01181793212890625", "0.005908966064453125", "0.007197380065917967", "0.0139"},
	{0, 0, "1", "1", "1", "1"},
};

START_TEST(mcnemar)
{
	char name[64];
	snprintf(name, sizeof(name), "b %" PRId64 ", c %" PRId64, mcnemar_cases[_i].b, mcnemar_cases[_i].c);
	struct mcnemar m = mcnemar_test(mcnemar_cases[_i].b, mcnemar_cases[_i].c);
	struct mcnemar mirror = mcnemar_test(mcnemar_cases[_i].c, mcnemar_cases[_i].b);
	expect_digits(name, m.two_sided, mcnemar_cases[_i].two_sided);
	expect_digits(name, m.larger_side, mcnemar_cases[_i].larger_side);
	expect_digits(name, m.mid_p, mcnemar_cases[_i].mid_p);
	expect_digits(name, m.chi2_cc_p, mcnemar_cases[_i].chi2_cc);
	ck_assert_double_eq(m.two_sided, mirror.two_sided);
	if (mcnemar_cases[_i].b > mcnemar_cases[_i].c)
		ck_assert_double_eq(m.regression, m.larger_side);
	/* the sides overlap in the count that was seen */
	double n = (double)(mcnemar_cases[_i].b + mcnemar_cases[_i].c);
	double seen = n > 0 ? binomial_pmf((double)mcnemar_cases[_i].b, n, 0.5) : 1;
	ck_assert_double_eq_tol(m.regression + mirror.regression, 1 + seen, 1e-13);
}
END_TEST

START_TEST(mcnemar_without_correction)
{
	expect_digits("chi2 p", mcnemar_test(10, 25).chi2_p, "0.011229886652916679");
}
END_TEST

/* ---- One proportion ---- */

static const struct {
	double k, n;
	const char *wilson[2], *exact[2];
} proportions[] = {
	{1243, 1319, {"0.9284732316107984", "0.9537186533036448"}, {"0.9284084755245721", "0.9543372426689736"}},
	{0, 10, {"0", "0.27753279986288915"}, {"0", "0.3084971078187607"}},
	{10, 10, {"0.7224672001371109", "1"}, {"0.6915028921812392", "1"}},
	{1, 10, {"0.017876213095072924", "0.40415002679523837"}, {"0.0025285785444617848", "0.4450161170281952"}},
	{187, 200, {"0.8919809207009312", "0.961623645350847"}, {"0.891412763496185", "0.9649392913430206"}},
	{977, 1319, {"0.7163871175216885", "0.7636401720418688"}, {"0.7161633088880637", "0.7641845245249281"}},
	{0, 1000, {"0", "0.0038267584855551217"}, {"0", "0.0036820838968657545"}},
};

START_TEST(proportion_intervals)
{
	char name[64];
	snprintf(name, sizeof(name), "%g of %g", proportions[_i].k, proportions[_i].n);
	expect_interval(name, wilson_interval(proportions[_i].k, proportions[_i].n, 0.95), proportions[_i].wilson[0],
		proportions[_i].wilson[1]);
	expect_interval(name, exact_interval(proportions[_i].k, proportions[_i].n, 0.95), proportions[_i].exact[0],
		proportions[_i].exact[1]);
}
END_TEST

START_TEST(other_proportion_intervals)
{
	expect_digits("one-sided Wilson", wilson_interval(1243, 1319, 0.9).low, "0.9308933787345415");
	expect_digits("one-sided Wilson", wilson_interval(750, 1000, 0.9).low, "0.7268226473690124");
	expect_interval("Agresti-Coull", agresti_coull_interval(1243, 1319, 0.95), ".9284082177", ".9537836672");
	expect_interval("Jeffreys", jeffreys_interval(1243, 1319, 0.95), ".9288253428", ".9539977649");
	expect_digits("no miss in 100", exact_interval(0, 100, 0.9).high, ".0295130496");
	expect_digits("no miss in 300", exact_interval(0, 300, 0.9).high, ".0099360819");
	expect_digits("no miss in 1000", exact_interval(0, 1000, 0.9).high, ".0029912495");
	expect_digits("no miss in 3000", exact_interval(0, 3000, 0.9).high, ".0009980790");
	expect_interval("one item, missed", exact_interval(0, 1, 0.95), "0", "0.975");
}
END_TEST

/* ---- The paired table ---- */

static const struct paired_table gsm8k = {1200, 25, 10, 84};

START_TEST(paired_table_intervals)
{
	expect_digits("drop", paired_drop(gsm8k), "0.011372251705837756");
	expect_digits("SE", paired_standard_error(gsm8k), "0.004476030062731805");
	expect_digits("t", paired_drop(gsm8k) / paired_standard_error(gsm8k), "2.540700474852722");
	expect_interval("Wald", wald_interval(gsm8k, 0.95), ".0025993940", ".0201451094");
	expect_interval("t", paired_t_interval(gsm8k, 0.95), ".0025913303", ".0201531731");
	expect_interval("Tango 95", tango_interval(gsm8k, 0.95, 1), ".0027324735", ".0210587297");
	expect_interval("Tango 90", tango_interval(gsm8k, 0.9, 1), ".0041591111", ".0193441525");
	expect_interval("Newcombe", newcombe_interval(gsm8k, 0.95), ".0023840506", ".0208079506");
	expect_interval("b 0, c 1, n 44", tango_interval((struct paired_table){0, 0, 1, 43}, 0.95, 1), "-0.1180770970",
		"0.0593932311");
	expect_interval("b 0, c 0, n 100", tango_interval((struct paired_table){50, 0, 0, 50}, 0.95, 1),
		"-0.0369934982", "0.0369934982");
}
END_TEST

START_TEST(noninferiority)
{
	expect_digits("M .5", noninferiority_p(gsm8k, 0.005, 1), ".9272337175");
	expect_digits("M 1", noninferiority_p(gsm8k, 0.01, 1), ".6215514422");
	expect_digits("M 1.5", noninferiority_p(gsm8k, 0.015, 1), ".2162940475");
	expect_digits("M 2", noninferiority_p(gsm8k, 0.02, 1), ".0386176051");
	expect_digits("z", tango_z(gsm8k, 0.02, 1), "-1.7669583114");
	expect_digits("M 3", noninferiority_p(gsm8k, 0.03, 1), ".0003210924");
	double wald = normal_cdf((paired_drop(gsm8k) - 0.02) / paired_standard_error(gsm8k));
	expect_digits("Wald's p at 2 points", wald, ".0269558877");
	struct drop_bounds bounds = drop_bounds(gsm8k, 0.05, 1);
	ck_assert(!bounds.exact);
	ck_assert(bounds.lower < 0.01 && bounds.upper > 0.01); /* 1 point: inconclusive */
	ck_assert(bounds.upper < 0.02);                        /* 2 points: pass */
	ck_assert(bounds.lower > 0.0025);                      /* .25 points: fail */
	expect_digits("lower bound", bounds.lower, ".0041591111");
}
END_TEST

/* A design effect of 4 is a quarter of the items. */
START_TEST(design_effect_widens)
{
	struct paired_table quarter = {300, 25, 10, 21}, whole = {1200, 100, 40, 84};
	struct interval less = tango_interval(quarter, 0.95, 1), more = tango_interval(whole, 0.95, 4);
	ck_assert_double_eq_tol(less.low, more.low, 1e-12);
	ck_assert_double_eq_tol(less.high, more.high, 1e-12);
	struct paired_table few = {90, 2, 1, 7}, sparse = {180, 4, 2, 14};
	ck_assert_double_eq_tol(drop_bounds(few, 0.05, 1).upper, drop_bounds(sparse, 0.05, 2).upper, 1e-12);
	ck_assert_double_eq_tol(drop_bounds(few, 0.05, 1).lower, drop_bounds(sparse, 0.05, 2).lower, 1e-12);
}
END_TEST

/* Each p is where its bound meets the margin. */
START_TEST(p_values_are_where_the_bounds_meet_the_margin)
{
	static const struct paired_table tables[] = {
		{1200, 25, 10, 84}, {40, 6, 3, 1}, {80, 9, 0, 11}, {0, 0, 0, 50}, {900, 1, 8, 91}, {3, 5, 0, 2}};
	static const double margins[] = {0.002, 0.01, 0.05, 0.2};
	for (size_t i = 0; i < COUNT(tables); i++)
		for (size_t j = 0; j < COUNT(margins); j++) {
			double pass = noninferiority_p(tables[i], margins[j], 1);
			double fail = inferiority_p(tables[i], margins[j], 1);
			if (pass > 1e-9 && pass < 0.49)
				ck_assert_double_eq_tol(drop_bounds(tables[i], pass, 1).upper, margins[j], 1e-9);
			if (fail > 1e-9 && fail < 0.49)
				ck_assert_double_eq_tol(drop_bounds(tables[i], fail, 1).lower, margins[j], 1e-9);
			ck_assert_msg(pass >= 0 && pass <= 1 && fail >= 0 && fail <= 1 && pass + fail > 0.99,
				"table %zu, margin %g: %g, %g", i, margins[j], pass, fail);
		}
}
END_TEST

START_TEST(few_discordant_pairs_are_bounded_exactly)
{
	struct drop_bounds none = drop_bounds((struct paired_table){50, 0, 0, 250}, 0.05, 1);
	ck_assert(none.exact);
	expect_digits("no flip in 300", none.upper, ".0099360819");
	/* improvements are not credited: only b counts above */
	struct drop_bounds b3 = drop_bounds((struct paired_table){90, 3, 0, 7}, 0.05, 1);
	struct drop_bounds b3c6 = drop_bounds((struct paired_table){84, 3, 6, 7}, 0.05, 1);
	ck_assert_double_eq(b3.upper, b3c6.upper);
	expect_digits(
		"Clopper-Pearson of 3 of 100", b3.upper, "0.0757107937498"); /* scipy.stats.beta.ppf(.95, 4, 97) */
	ck_assert(b3c6.lower < b3.lower);
	ck_assert(!drop_bounds((struct paired_table){84, 4, 6, 6}, 0.05, 1).exact);
	ck_assert_double_nan(drop_bounds((struct paired_table){0, 0, 0, 0}, 0.05, 1).upper);
	struct drop_bounds all = drop_bounds((struct paired_table){0, 5, 0, 0}, 0.05, 1);
	ck_assert_double_eq(all.upper, 1);
}
END_TEST

static double field(const struct tsv *t, size_t i)
{
	char *text = tsv_text(t, i);
	double value = strtod(text, NULL);
	free(text);
	return value;
}

static void expect_near(const struct tsv *t, size_t i, double value)
{
	double wanted = field(t, i);
	ck_assert_msg(
		fabs(value - wanted) <= 1e-9, "line %zu, field %zu: %.17g, expected %.17g", t->line, i, value, wanted);
}

/* Tables of all sizes, with and without clusters, against SciPy and statsmodels. */
START_TEST(tables_agree_with_scipy)
{
	struct tsv t = tsv_open("stats/paired.tsv");
	int tables = 0;
	for (; tsv_next(&t); tables++) {
		struct paired_table x = {(int64_t)tsv_u64(&t, 0, 10), (int64_t)tsv_u64(&t, 1, 10),
			(int64_t)tsv_u64(&t, 2, 10), (int64_t)tsv_u64(&t, 3, 10)};
		double effect = field(&t, 4), margin = field(&t, 5);
		struct interval interval = tango_interval(x, 0.95, effect);
		struct drop_bounds bounds = drop_bounds(x, 0.05, effect);
		struct mcnemar m = mcnemar_test(x.b, x.c);
		struct interval wilson = wilson_interval((double)(x.a + x.b), (double)paired_n(x), 0.95);
		ck_assert_int_eq(bounds.exact, str_is(t.fields[6], "exact"));
		const double values[] = {interval.low, interval.high, bounds.lower, bounds.upper,
			noninferiority_p(x, margin, effect), m.two_sided, m.regression, m.mid_p, wilson.low,
			wilson.high};
		for (size_t i = 0; i < COUNT(values) && 7 + i < t.count; i++)
			expect_near(&t, 7 + i, values[i]);
	}
	ck_assert_int_eq(tables, 120);
}
END_TEST

/* ---- Sizes ---- */

START_TEST(sample_sizes)
{
	expect_digits("Connor", connor_size(0.05, 0.008, 0.05, 2, 0.8), "6129.5789");
	expect_digits("Connor one-sided", connor_size(0.05, 0.008, 0.05, 1, 0.8), "4828.0297");
	expect_digits("Connor .9", connor_size(0.05, 0.008, 0.05, 2, 0.9), "8204.7693");
	static const struct {
		double psi, delta;
		int two_sided, one_sided, ninety;
	} connor[] = {{0.05, 0.01, 3923, 3090, 5250}, {0.1, 0.01, 7847, 6181, 10504}, {0.05, 0.02, 979, 771, 1310},
		{0.03, 0.005, 9417, 7417, 12605}};
	for (size_t i = 0; i < COUNT(connor); i++) {
		ck_assert_double_eq(
			ceil(connor_size(connor[i].psi, connor[i].delta, 0.05, 2, 0.8)), connor[i].two_sided);
		ck_assert_double_eq(
			ceil(connor_size(connor[i].psi, connor[i].delta, 0.05, 1, 0.8)), connor[i].one_sided);
		ck_assert_double_eq(ceil(connor_size(connor[i].psi, connor[i].delta, 0.05, 2, 0.9)), connor[i].ninety);
	}
	static const struct {
		double psi, margin;
		int eighty, ninety;
	} ni[] = {{0.05, 0.01, 3092, 4282}, {0.05, 0.02, 773, 1071}, {0.05, 0.015, 1374, 1904}, {0.1, 0.01, 6183, 8564},
		{0.02, 0.005, 4947, 6852}};
	for (size_t i = 0; i < COUNT(ni); i++) {
		ck_assert_double_eq(ceil(noninferiority_size(ni[i].psi, 0, ni[i].margin, 0.05, 0.8)), ni[i].eighty);
		ck_assert_double_eq(ceil(noninferiority_size(ni[i].psi, 0, ni[i].margin, 0.05, 0.9)), ni[i].ninety);
		/* and the power of that many is what was asked for */
		double n = noninferiority_size(ni[i].psi, 0, ni[i].margin, 0.05, 0.8);
		ck_assert_double_eq_tol(noninferiority_power(ni[i].psi, ni[i].margin, n, 0.05), 0.8, 1e-12);
	}
}
END_TEST

START_TEST(smallest_detectable_drops)
{
	static const struct {
		int n;
		const char *points[3]; /* at 2%, 5% and 10% discordance */
	} cases[] = {{1319, {".968", "1.531", "2.165"}}, {1172, {"1.027", "1.624", "2.297"}},
		{2376, {".721", "1.141", "1.613"}}, {14042, {".297", ".469", ".664"}},
		{12032, {".321", ".507", ".717"}}, {198, {"2.50", "3.95", "5.59"}}};
	static const double psi[] = {0.02, 0.05, 0.1};
	for (size_t i = 0; i < COUNT(cases); i++)
		for (int j = 0; j < 3; j++)
			expect_digits("drop", 100 * smallest_detectable_drop(psi[j], cases[i].n, 0.05, 0.8),
				cases[i].points[j]);
}
END_TEST

START_TEST(power_of_the_exact_test)
{
	expect_digits("6130, two-sided", mcnemar_power(0.05, 0.008, 6130, 0.05, 2), ".7860");
	expect_digits("4828, one-sided", mcnemar_power(0.05, 0.008, 4828, 0.05, 1), ".7835");
	expect_digits("size at 1319", mcnemar_power(0.05, 0, 1319, 0.05, 1), ".0387");
	expect_digits("GSM8K, .8 points", mcnemar_power(0.05, 0.008, 1319, 0.05, 1), ".320");
	expect_digits("GSM8K, 2 points", mcnemar_power(0.05, 0.02, 1319, 0.05, 1), ".939");
}
END_TEST

START_TEST(sizes_that_would_decide)
{
	/* GSM8K at 5% discordance: 66 discordant of 1,319 */
	struct paired_table even = {1200, 33, 33, 53};
	double psi = 66.0 / 1319;
	ck_assert_double_eq(
		deciding_size(even, 0.01, 1, 0.05, 0.8), ceil(noninferiority_size(psi, 0, 0.01, 0.05, 0.8)));
	/* no flips: only more items help, 299 of them without a miss */
	ck_assert_double_eq(deciding_size((struct paired_table){20, 0, 0, 80}, 0.01, 1, 0.05, 0.8), 299);
	ck_assert(exact_interval(0, 299, 0.9).high < 0.01 && exact_interval(0, 298, 0.9).high > 0.01);
	/* a drop at the margin is decided by no number of items */
	ck_assert_double_nan(deciding_size((struct paired_table){9000, 200, 100, 700}, 0.01, 1, 0.05, 0.8));
	/* enough items for a true drop of 0: then those for the drop that was seen */
	struct paired_table near = {9000, 210, 120, 670};
	double needed = deciding_size(near, 0.01, 1, 0.05, 0.8);
	ck_assert_double_eq(needed, ceil(noninferiority_size(0.033, 0.009, 0.01, 0.05, 0.8)));
	ck_assert(needed > 10000);
}
END_TEST

/* ---- Samples ---- */

START_TEST(clusters)
{
	static const double x[] = {1, 1, 0, 0, 0, 1, 0, 1, 1, 1};
	static const uint32_t cluster[] = {0, 0, 0, 1, 1, 1, 1, 2, 2, 2};
	struct clustered s;
	CHECK_OK(clustered_mean(x, cluster, 10, &s, &test_error));
	ck_assert_uint_eq(s.clusters, 3);
	expect_digits("mean", s.mean, ".6");
	expect_digits("naive", s.naive, "0.16329931618554522");
	expect_digits("CR0", s.cr0, "0.1854723699099141");
	expect_digits("CR1", s.cr1, "0.22715633383201092");
	expect_interval("t with 2", t_interval(s.mean, s.cr1, 2, 0.95), "-.3773748198", "1.5773748198");
	ck_assert_double_eq_tol(s.design_effect, pow(0.22715633383201092 / 0.16329931618554522, 2), 1e-12);
	/* each its own cluster: CR1 is the naive error, and the design effect is 1 without rounding */
	static const uint32_t own[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
	CHECK_OK(clustered_mean(x, own, 10, &s, &test_error));
	ck_assert_double_eq_tol(s.cr1, s.naive, 1e-15);
	ck_assert_double_eq(s.design_effect, 1);
	CHECK_OK(clustered_mean(x, own, 1, &s, &test_error));
	ck_assert_double_nan(s.cr1);
	CHECK_OK(clustered_mean(x, own, 0, &s, &test_error));
	ck_assert_double_nan(s.mean);
}
END_TEST

START_TEST(millers_errors)
{
	expect_digits("Bernoulli", bernoulli_error(0.6, 10), "0.15491933384829668");
	/* without resampling the paired formula is Connor's at small drops: (z + z)^2 psi / delta^2 */
	ck_assert_double_eq_tol(miller_size(0.05, 0, 1, 0, 1, 0.01, 0.05, 0.8), 3924.4398, 1e-3);
	ck_assert_double_eq_tol(miller_size(0.03, 0.02, 4, 0.03, 2, 0.01, 0.05, 0.8), 3924.4398, 1e-3);
}
END_TEST

START_TEST(adjustments)
{
	static const double p[] = {0.01, 0.04, 0.03, 0.005};
	static const char *const holm[] = {".03", ".06", ".06", ".02"}, *const bh[] = {".02", ".04", ".04", ".02"},
				 *const bonferroni[] = {".04", ".16", ".12", ".02"};
	double adjusted[4];
	holm_adjust(p, 4, adjusted);
	for (int i = 0; i < 4; i++)
		ck_assert_double_eq_tol(adjusted[i], strtod(holm[i], NULL), 1e-15);
	benjamini_hochberg_adjust(p, 4, adjusted);
	for (int i = 0; i < 4; i++)
		ck_assert_double_eq_tol(adjusted[i], strtod(bh[i], NULL), 1e-15);
	bonferroni_adjust(p, 4, adjusted);
	for (int i = 0; i < 4; i++)
		ck_assert_double_eq_tol(adjusted[i], strtod(bonferroni[i], NULL), 1e-15);
	struct combined_p fisher = fisher_combine((const double[]){0.04, 0.2, 0.1}, 3);
	expect_digits("Fisher", fisher.statistic, "14.261797660592691");
	expect_digits("Fisher p", fisher.p, ".026844606315405823");
	expect_digits("Stouffer p", stouffer_combine((const double[]){0.04, 0.2, 0.1}, 3).p, ".012657115513504458");
}
END_TEST

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

START_TEST(bca_by_enumeration)
{
	static const double x[] = {2, 3, 5, 8, 13};
	static double means[3125];
	double jackknife[5];
	for (int i = 0; i < 3125; i++) {
		double sum = 0;
		for (int j = 0, code = i; j < 5; j++, code /= 5)
			sum += x[code % 5];
		means[i] = sum / 5;
	}
	for (int i = 0; i < 5; i++)
		jackknife[i] = (31 - x[i]) / 4;
	qsort(means, 3125, sizeof(means[0]), compare_doubles);
	struct bca b = bca_interval(means, 3125, 31.0 / 5, jackknife, 5, 0.95);
	expect_digits("z0", b.z0, ".056579707141646084");
	expect_digits("a", b.acceleration, ".05043583905968679");
	expect_digits("level", b.level_low, ".0464702233465");
	expect_digits("level", b.level_high, ".9893165921718");
	expect_interval("BCa", b.bca, "3.4", "10.4");
	expect_interval("percentile", b.percentile, "3.0", "10.0");
}
END_TEST

static const double latencies[] = {12.1, 12.4, 12.6, 13.0, 13.3, 13.9, 14.2, 14.8, 15.5, 16.1, 16.9, 17.4, 18.8, 19.9,
	21.5, 24.0, 27.7, 33.1, 41.6, 60.2};

START_TEST(quantiles_of_latency)
{
	expect_digits("mean", sample_mean(latencies, 20), "20.95");
	expect_digits("median", sample_quantile(latencies, 20, 0.5), "16.5");
	expect_digits("p95", sample_quantile(latencies, 20, 0.95), "42.53");
	expect_digits("p99", sample_quantile(latencies, 20, 0.99), "56.666");
	ck_assert_double_nan(sample_quantile(latencies, 0, 0.5));
	ck_assert_double_eq(sample_quantile(latencies, 1, 0.95), 12.1);
}
END_TEST

START_TEST(bca_of_the_mean_latency)
{
	enum { REPLICATES = 50000 };
	double *means = calloc(REPLICATES, sizeof(*means)), jackknife[20];
	uint64_t state = 88172645463325252u;
	for (int i = 0; i < REPLICATES; i++) {
		double sum = 0;
		for (int j = 0; j < 20; j++) {
			state ^= state << 13;
			state ^= state >> 7;
			state ^= state << 17;
			sum += latencies[(state >> 33) % 20];
		}
		means[i] = sum / 20;
	}
	for (int i = 0; i < 20; i++)
		jackknife[i] = (20 * 20.95 - latencies[i]) / 19;
	qsort(means, REPLICATES, sizeof(means[0]), compare_doubles);
	struct bca b = bca_interval(means, REPLICATES, 20.95, jackknife, 20, 0.95);
	/* two hundred thousand replicates give 17.185 and 28.515, within 0.05 */
	ck_assert_double_eq_tol(b.bca.low, 17.185, 0.1);
	ck_assert_double_eq_tol(b.bca.high, 28.515, 0.2);
	free(means);
}
END_TEST

static const struct {
	int n;
	double q;
	int low, high;
	const char *coverage;
} rank_cases[] = {{100, 0.5, 40, 61, ".9648"}, {1000, 0.5, 469, 532, NULL}, {72, 0.95, 64, 72, NULL},
	{71, 0.95, 64, 0, NULL}, {100, 0.95, 90, 100, ".9826"}, {200, 0.95, 184, 197, ".9672"},
	{500, 0.95, 465, 485, ".9605"}, {1000, 0.95, 936, 964, ".9581"}, {5000, 0.95, 4719, 4781, ".9558"},
	{500, 0.99, 490, 500, ".9802"}, {1000, 0.99, 983, 997, ".9761"}, {367, 0.99, 359, 0, NULL},
	{368, 0.99, 360, 368, NULL}, {1, 0.5, 0, 0, "1"}};

START_TEST(ranks_of_quantile_intervals)
{
	struct quantile_ranks r = quantile_ranks(rank_cases[_i].n, rank_cases[_i].q, 0.95);
	ck_assert_msg(r.high == rank_cases[_i].high, "n %d: high %" PRId64, rank_cases[_i].n, r.high);
	if (rank_cases[_i].high)
		ck_assert_msg(r.low == rank_cases[_i].low, "n %d: low %" PRId64, rank_cases[_i].n, r.low);
	if (rank_cases[_i].coverage)
		expect_digits("coverage", r.coverage, rank_cases[_i].coverage);
}
END_TEST

START_TEST(overhead_ratio)
{
	static const double off[] = {1012, 998, 1005, 1010, 995, 1003, 1008, 999};
	static const double on[] = {1001, 990, 996, 1004, 985, 995, 997, 991};
	struct paired_ratio r = paired_ratio(off, on, 8, 0.95);
	expect_digits("ratio", r.ratio, ".9911576572558158");
	expect_interval("interval", r.interval, ".9897311389181989", ".9925862316614774");
	expect_digits("sd", r.log_deviation, ".0017227814544753894");
}
END_TEST

START_TEST(divergence)
{
	static const double p[] = {0.7, 0.2, 0.1}, q[] = {0.6, 0.25, 0.15}, point[] = {1, 0, 0};
	expect_digits("KL", kl_divergence(p, q, 3), ".022730254805422512");
	ck_assert_double_eq(kl_divergence(p, p, 3), 0);
	ck_assert_double_eq(kl_divergence(p, point, 3), INFINITY);
	ck_assert_double_eq_tol(kl_divergence(point, p, 3), -log(0.7), 1e-15);
}
END_TEST

/* ---- Looking more than once ---- */

START_TEST(sequential)
{
	expect_digits("e 10,25", discordant_e_value(10, 25), "5.1990430172723965");
	expect_digits("e 0,6", discordant_e_value(0, 6), "9.142857142857146");
	expect_digits("e 0,8", discordant_e_value(0, 8), "28.4444444444");
	expect_digits("e 120,180", discordant_e_value(120, 180), "29.716279317736202"); /* 2^300 / (301 C(300, 120)) */
	expect_digits("one-sided 25,10", discordant_e_value_regression(25, 10), "10.33917576034631");
	expect_digits("one-sided 10,25", discordant_e_value_regression(10, 25), ".05891027419850392");
	expect_digits("one-sided 6,0", discordant_e_value_regression(6, 0), "18.142857142857153");
	expect_digits("one-sided 180,120", discordant_e_value_regression(180, 120), "59.41703423573383"); /* mpmath */
	ck_assert_double_eq(discordant_e_value(0, 0), 1);
	expect_interval("SPRT", wald_bounds(0.05, 0.2), "-1.5581446180465497", "2.772588722239781");
	expect_digits("mSPRT", msprt_ratio(-15.0 / 1319, 1319, 35.0 / 1319, 1e-4), "5.944763369834701");
	static const struct {
		double t;
		const char *obrien_fleming, *pocock;
	} spent[] = {{0.25, "1.4733616872e-5", ".017868700975"}, {0.5, ".003050645516", ".031005725348"},
		{0.75, ".019298649907", ".041399446962"}, {1, ".05", ".05"}};
	for (size_t i = 0; i < COUNT(spent); i++) {
		expect_digits("O'Brien-Fleming", spent_obrien_fleming(spent[i].t, 0.05), spent[i].obrien_fleming);
		expect_digits("Pocock", spent_pocock(spent[i].t, 0.05), spent[i].pocock);
	}
	static const char *const pocock[] = {"2.1783", "2.2895", "2.3613", "2.4132"};
	static const char *const obrien_fleming[] = {"1.9774", "2.0040", "2.0243", "2.0401"};
	for (int k = 2; k <= 5; k++) {
		expect_digits("Pocock's constant", pocock_constant(k, 0.05), pocock[k - 2]);
		expect_digits("O'Brien and Fleming's", obrien_fleming_constant(k, 0.05), obrien_fleming[k - 2]);
	}
	expect_digits("one look", pocock_constant(1, 0.05), "1.95996");
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *t = test_case(suite, "distributions", 0);
	tcase_add_test(t, quantiles);
	tcase_add_test(t, beta_quantile_inverts_the_distribution);
	t = test_case(suite, "proportions", 0);
	tcase_add_loop_test(t, proportion_intervals, 0, (int)COUNT(proportions));
	tcase_add_test(t, other_proportion_intervals);
	t = test_case(suite, "paired", 0);
	tcase_add_loop_test(t, mcnemar, 0, (int)COUNT(mcnemar_cases));
	tcase_add_test(t, mcnemar_without_correction);
	tcase_add_test(t, paired_table_intervals);
	tcase_add_test(t, noninferiority);
	tcase_add_test(t, design_effect_widens);
	tcase_add_test(t, p_values_are_where_the_bounds_meet_the_margin);
	tcase_add_test(t, few_discordant_pairs_are_bounded_exactly);
	tcase_add_test(t, tables_agree_with_scipy);
	t = test_case(suite, "sizes", 0);
	tcase_add_test(t, sample_sizes);
	tcase_add_test(t, smallest_detectable_drops);
	tcase_add_test(t, power_of_the_exact_test);
	tcase_add_test(t, sizes_that_would_decide);
	t = test_case(suite, "samples", 0);
	tcase_add_test(t, clusters);
	tcase_add_test(t, millers_errors);
	tcase_add_test(t, bca_by_enumeration);
	tcase_add_test(t, quantiles_of_latency);
	tcase_add_test(t, bca_of_the_mean_latency);
	tcase_add_loop_test(t, ranks_of_quantile_intervals, 0, (int)COUNT(rank_cases));
	tcase_add_test(t, overhead_ratio);
	tcase_add_test(t, divergence);
	t = test_case(suite, "several", 0);
	tcase_add_test(t, adjustments);
	tcase_add_test(t, sequential);
}
