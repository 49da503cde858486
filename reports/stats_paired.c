#include <math.h>

#include "reports/stats.h"

int64_t paired_n(struct paired_table t)
{
	return t.a + t.b + t.c + t.d;
}

double paired_drop(struct paired_table t)
{
	return (double)(t.b - t.c) / (double)paired_n(t);
}

struct mcnemar mcnemar_test(int64_t b, int64_t c)
{
	double n = (double)(b + c);
	if (n == 0)
		return (struct mcnemar){1, 1, 1, 1, 1, 1};
	double least = (double)(b < c ? b : c);
	double tail = binomial_cdf(least, n, 0.5);
	double difference = fabs((double)(b - c));
	return (struct mcnemar){
		.two_sided = fmin(1, 2 * tail),
		.mid_p = fmin(1, 2 * tail - binomial_pmf(least, n, 0.5)),
		.regression = binomial_cdf((double)c, n, 0.5), /* P(X >= b) mirrored */
		.larger_side = tail,
		.chi2_p = chi_square_tail(difference * difference / n, 1),
		.chi2_cc_p = chi_square_tail((difference - 1) * (difference - 1) / n, 1),
	};
}

/* ---- Intervals of the drop ---- */

/* The probability of an improvement under H0: drop = t, by maximum likelihood: the larger root of
 * 2n q^2 + B q + C, in the form that does not cancel. */
static double constrained_improvement(struct paired_table table, double t)
{
	double n = (double)paired_n(table), b = (double)table.b, c = (double)table.c;
	double linear = -b - c + (2 * n - b + c) * t;
	double constant = -c * t * (1 - t);
	double root = sqrt(fmax(0, linear * linear - 8 * n * constant));
	if (linear > 0)
		return -2 * constant / (root + linear);
	return (root - linear) / (4 * n);
}

double tango_z(struct paired_table table, double t, double design_effect)
{
	double n = (double)paired_n(table);
	double distance = (double)(table.b - table.c) - n * t;
	double variance = n * (2 * constrained_improvement(table, t) + t * (1 - t)) * design_effect;
	if (variance > 0)
		return distance / sqrt(variance);
	return distance == 0 ? 0 : copysign(INFINITY, distance);
}

/* Where z falls to target between two drops. */
static double tango_solve(struct paired_table table, double target, double design_effect, double low, double high)
{
	for (int i = 0; i < 200; i++) {
		double middle = 0.5 * (low + high);
		if (middle <= low || middle >= high)
			break;
		if (tango_z(table, middle, design_effect) > target)
			low = middle;
		else
			high = middle;
	}
	return 0.5 * (low + high);
}

struct interval tango_interval(struct paired_table table, double level, double design_effect)
{
	if (paired_n(table) == 0)
		return (struct interval){NAN, NAN};
	double z = normal_quantile(0.5 + 0.5 * level);
	double drop = paired_drop(table);
	return (struct interval){
		tango_solve(table, z, design_effect, -1, drop), tango_solve(table, -z, design_effect, drop, 1)};
}

double paired_standard_error(struct paired_table table)
{
	double n = (double)paired_n(table), b = (double)table.b, c = (double)table.c;
	return sqrt((b + c - (b - c) * (b - c) / n) / (n * (n - 1)));
}

struct interval wald_interval(struct paired_table table, double level)
{
	double drop = paired_drop(table);
	double half = normal_quantile(0.5 + 0.5 * level) * paired_standard_error(table);
	return (struct interval){drop - half, drop + half};
}

struct interval paired_t_interval(struct paired_table table, double level)
{
	return t_interval(paired_drop(table), paired_standard_error(table), (double)paired_n(table) - 1, level);
}

/* Correlation of right answers, the continuity correction taken where it is positive. */
static double corrected_phi(struct paired_table t)
{
	double a = (double)t.a, b = (double)t.b, c = (double)t.c, d = (double)t.d;
	double margins = (a + b) * (c + d) * (a + c) * (b + d);
	double numerator = a * d - b * c;
	if (numerator > 0)
		numerator = fmax(0, numerator - 0.5 * (a + b + c + d));
	return margins > 0 ? numerator / sqrt(margins) : 0;
}

struct interval newcombe_interval(struct paired_table table, double level)
{
	double n = (double)paired_n(table), right_1 = (double)(table.a + table.b),
	       right_2 = (double)(table.a + table.c);
	struct interval w1 = wilson_interval(right_1, n, level), w2 = wilson_interval(right_2, n, level);
	double phi = corrected_phi(table), drop = paired_drop(table);
	double down_1 = right_1 / n - w1.low, up_1 = w1.high - right_1 / n;
	double down_2 = right_2 / n - w2.low, up_2 = w2.high - right_2 / n;
	return (struct interval){
		drop - sqrt(down_1 * down_1 - 2 * phi * down_1 * up_2 + up_2 * up_2),
		drop + sqrt(up_1 * up_1 - 2 * phi * up_1 * down_2 + down_2 * down_2),
	};
}

/* ---- Sizes and power ---- */

double connor_size(double psi, double delta, double alpha, int sides, double power)
{
	double z_alpha = normal_quantile(1 - alpha / sides), z_beta = normal_quantile(power);
	double sum = z_alpha * sqrt(psi) + z_beta * sqrt(psi - delta * delta);
	return sum * sum / (delta * delta);
}

double noninferiority_size(double psi, double drop, double margin, double alpha, double power)
{
	double z = normal_quantile(1 - alpha) + normal_quantile(power);
	double gap = margin - drop;
	return z * z * (psi - drop * drop) / (gap * gap);
}

double noninferiority_power(double psi, double margin, double n, double alpha)
{
	return normal_cdf(margin * sqrt(n / psi) - normal_quantile(1 - alpha));
}

double smallest_detectable_drop(double psi, double n, double alpha, double power)
{
	return (normal_quantile(1 - alpha) + normal_quantile(power)) * sqrt(psi / n);
}

/* The smallest count of regressions among m discordant pairs that the exact test calls significant on that side; m + 1
 * where none is. */
static int64_t critical_count(int64_t m, double alpha)
{
	double tail = 0;
	int64_t k = m + 1;
	while (k > 0) {
		tail += binomial_pmf((double)(k - 1), (double)m, 0.5);
		if (tail > alpha)
			break;
		k--;
	}
	return k;
}

double mcnemar_power(double psi, double delta, int64_t n, double alpha, int sides)
{
	double share = 0.5 * (psi + delta) / psi;
	double power = 0;
	for (int64_t m = 1; m <= n; m++) {
		double weight = binomial_pmf((double)m, (double)n, psi);
		if (weight < 1e-16)
			continue;
		int64_t k = critical_count(m, alpha / sides);
		double rejected = k > m ? 0 : 1 - binomial_cdf((double)(k - 1), (double)m, share);
		if (sides == 2 && k <= m)
			rejected += binomial_cdf((double)(m - k), (double)m, share);
		power += weight * rejected;
	}
	return power;
}
