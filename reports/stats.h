/* Statistics of the verdict: pure functions over counts and samples. A level is a confidence such as 0.95, two-sided
 * unless said otherwise; the one-sided bound at alpha is that of the two-sided level 1 - 2 alpha. Where a value does
 * not exist (no items, a variance of one value) the result is NaN. */
#ifndef ASSAY_REPORTS_STATS_H
#define ASSAY_REPORTS_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"

struct interval {
	double low, high;
};

/* ---- Distributions (stats.c) ---- */

double normal_cdf(double z);
double normal_quantile(double p);
double t_cdf(double t, double df);
double t_quantile(double p, double df);
double chi_square_tail(double x, int df); /* P(X >= x) */
double beta_cdf(double x, double a, double b);
double beta_quantile(double p, double a, double b);
/* P(X <= k) and P(X = k) for X ~ Bin(n, p); real arguments are taken as the beta and gamma functions extend them. */
double binomial_cdf(double k, double n, double p);
double binomial_pmf(double k, double n, double p);

/* ---- One proportion, k of n (stats_interval.c) ---- */

struct interval wilson_interval(double k, double n, double level);
/* Clopper and Pearson 1934. Real k and n (effective counts) are fine. */
struct interval exact_interval(double k, double n, double level);
struct interval agresti_coull_interval(double k, double n, double level);
struct interval jeffreys_interval(double k, double n, double level);

/* ---- Paired tables (stats_paired.c) ---- */

/* Items by who answered them rightly: a both, b the baseline alone, c the candidate alone, d neither. The drop is the
 * baseline's score minus the candidate's, (b - c) / n. */
struct paired_table {
	int64_t a, b, c, d;
};

int64_t paired_n(struct paired_table t);
double paired_drop(struct paired_table t);

struct mcnemar {
	double two_sided, mid_p;
	double regression;  /* one-sided: that many or more of the discordant are regressions */
	double larger_side; /* one-sided, for the larger of b and c */
	double chi2_p;      /* asymptotic */
	double chi2_cc_p;   /* with continuity correction */
};
struct mcnemar mcnemar_test(int64_t b, int64_t c);

/* Tango's 1998 score statistic of H0: drop = t, its variance multiplied by design_effect. Zero where the data say
 * exactly t without variance. */
double tango_z(struct paired_table table, double t, double design_effect);
struct interval tango_interval(struct paired_table table, double level, double design_effect);
struct interval wald_interval(struct paired_table table, double level); /* normal quantile, n - 1 */
struct interval paired_t_interval(struct paired_table table, double level);
double paired_standard_error(struct paired_table table); /* n - 1 */
/* Newcombe 1998, method 10 with continuity-corrected phi. */
struct interval newcombe_interval(struct paired_table table, double level);

/* Items for Connor's 1987 test of a drop delta at discordance psi; sides is 1 or 2. Round up. */
double connor_size(double psi, double delta, double alpha, int sides, double power);
/* Items to show a drop below margin where the true drop is drop (0 as a rule). Round up. */
double noninferiority_size(double psi, double drop, double margin, double alpha, double power);
double noninferiority_power(double psi, double margin, double n, double alpha); /* of a true drop of 0 */
/* The drop that n items detect with that power, one-sided. */
double smallest_detectable_drop(double psi, double n, double alpha, double power);
/* Power of the exact McNemar test of that many items; exact over the number of discordant pairs. */
double mcnemar_power(double psi, double delta, int64_t n, double alpha, int sides);

/* ---- Bounds that decide (stats_bounds.c) ---- */

enum { EXACT_BELOW_DISCORDANT = 10 };

/* The one-sided bounds of the drop at alpha. With fewer than EXACT_BELOW_DISCORDANT discordant pairs: above,
 * Clopper-Pearson's upper bound of b/n (improvements not credited); below, the lower bound of b/n at alpha/2 minus the
 * upper bound of c/n at alpha/2, both of n / design_effect items. Else Tango's score bounds. */
struct drop_bounds {
	double lower, upper;
	bool exact; /* by Clopper and Pearson */
};
struct drop_bounds drop_bounds(struct paired_table table, double alpha, double design_effect);
/* The smallest alpha at which the upper bound is below margin (p of H0: drop >= margin), and the lower one above it
 * (p of H0: drop <= margin). */
double noninferiority_p(struct paired_table table, double margin, double design_effect);
double inferiority_p(struct paired_table table, double margin, double design_effect);
/* Items that would decide at that power where the discordance stays as seen: to pass if the true drop is 0 (where there
 * are not as many already), or at the drop that was seen, whichever is less. NaN where no number decides: the drop lies
 * at the margin. */
double deciding_size(struct paired_table table, double margin, double design_effect, double alpha, double power);

/* ---- Samples (stats_sample.c) ---- */

double sample_mean(const double *x, size_t n);
double sample_deviation(const double *x, size_t n); /* n - 1 */
struct interval t_interval(double mean, double standard_error, double df, double level);

/* Standard errors of a mean with clusters. cluster[i] < n names the cluster of x[i]. */
struct clustered {
	size_t clusters;
	double mean, naive, cr0, cr1; /* naive: Miller's SE_CLT; CR1 is CR0 times G / (G - 1) in the variance */
	double design_effect;         /* CR1 over naive variance; exactly 1 where each value is its own cluster */
};
int clustered_mean(const double *x, const uint32_t *cluster, size_t n, struct clustered *out, struct error *e);
/* Miller's Bernoulli error sqrt(s (1 - s) / n). */
double bernoulli_error(double score, double n);
/* Items for a paired comparison: variance of the difference of conditional means, within-item variances over
 * resamples; two-sided. */
double miller_size(double omega2, double within_a, double resamples_a, double within_b, double resamples_b,
	double delta, double alpha, double power);

void sample_sort(double *x, size_t n); /* ascending; n may be 0 */
/* Quantile of type 7 of sorted values. */
double sample_quantile(const double *sorted, size_t n, double q);
/* Distribution-free interval of a quantile: 1-based ranks; high is 0 where no finite bound exists, low is 0
 * likewise. */
struct quantile_ranks {
	int64_t low, high;
	double coverage;
};
struct quantile_ranks quantile_ranks(int64_t n, double q, double level);

/* BCa and percentile intervals from the sorted replicates of a statistic, its value, and its jackknife values. */
struct bca {
	double z0, acceleration;
	double level_low, level_high; /* of the replicates */
	struct interval bca, percentile;
};
struct bca bca_interval(
	const double *sorted, size_t n_replicates, double value, const double *jackknife, size_t n, double level);

/* Ratio of interleaved pairs: exp(mean of ln(on / off)) with a t interval. PRECOND: n >= 2, all positive. */
struct paired_ratio {
	double ratio, log_deviation;
	struct interval interval;
};
struct paired_ratio paired_ratio(const double *off, const double *on, size_t n, double level);

/* Sum of p ln(p / q) in nat; infinite where q is 0 and p is not. */
double kl_divergence(const double *p, const double *q, size_t n);

/* ---- Several tests (stats_multiple.c) ---- */

/* Adjusted p values in the order of p. PRECOND: n <= STATS_MAX_TESTS. */
enum { STATS_MAX_TESTS = 256 };
void holm_adjust(const double *p, size_t n, double *adjusted);
void benjamini_hochberg_adjust(const double *p, size_t n, double *adjusted);
void bonferroni_adjust(const double *p, size_t n, double *adjusted);
struct combined_p {
	double statistic, p;
};
struct combined_p fisher_combine(const double *p, size_t n);   /* chi-square of 2n degrees */
struct combined_p stouffer_combine(const double *p, size_t n); /* z */

/* ---- Looking more than once (stats_sequential.c) ---- */

/* Mixture SPRT of a mean: xbar over n values of variance V, prior variance tau2. The always valid p is 1 / max. */
double msprt_ratio(double xbar, double n, double variance, double tau2);
/* e-values of H0 "as many regressions as improvements", uniform prior; the one-sided one against more regressions.
 * They say nothing of a margin. */
double discordant_e_value(int64_t b, int64_t c);
double discordant_e_value_regression(int64_t regressions, int64_t improvements);
/* Wald's bounds of the log likelihood ratio: high accepts H1. */
struct interval wald_bounds(double alpha, double beta);
/* Lan and DeMets: alpha spent at information t in (0, 1]. */
double spent_obrien_fleming(double t, double alpha); /* two-sided */
double spent_pocock(double t, double alpha);
/* The constant of a two-sided group sequential test of K equal looks: critical values C (Pocock) or
 * C sqrt(K / k) (O'Brien and Fleming). */
double pocock_constant(int looks, double alpha);
double obrien_fleming_constant(int looks, double alpha);

#endif
