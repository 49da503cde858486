#include <math.h>

#include "reports/stats.h"
#include "reports/stats_internal.h"

double msprt_ratio(double xbar, double n, double variance, double tau2)
{
	double total = variance + n * tau2;
	return sqrt(variance / total) * exp(n * n * tau2 * xbar * xbar / (2 * variance * total));
}

/* 2^(b+c) B(b+1, c+1): B is 1 / ((b + c + 1) binomial(b + c, b)). */
double discordant_e_value(int64_t b, int64_t c)
{
	double n = (double)(b + c);
	return 1 / ((n + 1) * binomial_pmf((double)b, n, 0.5));
}

double discordant_e_value_regression(int64_t regressions, int64_t improvements)
{
	double tail = beta_tail(0.5, (double)regressions + 1, (double)improvements + 1);
	return 2 * discordant_e_value(regressions, improvements) * tail;
}

struct interval wald_bounds(double alpha, double beta)
{
	return (struct interval){log(beta / (1 - alpha)), log((1 - beta) / alpha)};
}

double spent_obrien_fleming(double t, double alpha)
{
	return 4 * normal_cdf(-normal_quantile(1 - 0.25 * alpha) / sqrt(t));
}

double spent_pocock(double t, double alpha)
{
	return alpha * log(1 + (M_E - 1) * t);
}

/* ---- Group sequential constants (Armitage, McPherson and Rowe 1969) ---- */

enum { GRID = 200, MOST_LOOKS = 16 };

/* Simpson's weights of GRID intervals. */
static double simpson_weight(int i)
{
	return i == 0 || i == GRID ? 1.0 / 3 : i % 2 ? 4.0 / 3 : 2.0 / 3;
}

/* Probability that no partial sum of standard normal steps leaves its bound [looks], by integrating the density of the
 * sums that stayed inside from look to look. */
static double stay_inside(const double *bounds, int looks)
{
	double density[GRID + 1], next[GRID + 1], total = 0;
	for (int k = 0; k < looks; k++) {
		double step = 2 * bounds[k] / GRID;
		total = 0;
		for (int i = 0; i <= GRID; i++) {
			double s = -bounds[k] + i * step;
			next[i] = k == 0 ? normal_density(s) : 0;
			for (int j = 0; k > 0 && j <= GRID; j++) {
				double before = 2 * bounds[k - 1] / GRID;
				double u = -bounds[k - 1] + j * before;
				next[i] += simpson_weight(j) * before * density[j] * normal_density(s - u);
			}
			total += simpson_weight(i) * step * next[i];
		}
		for (int i = 0; i <= GRID; i++)
			density[i] = next[i];
	}
	return total;
}

/* The constant at which a true H0 is rejected with probability alpha. shape 0.5: Pocock, 0: O'Brien and Fleming. */
static double group_constant(int looks, double alpha, double shape)
{
	double low = 1, high = 6, bounds[MOST_LOOKS];
	if (looks < 1 || looks > MOST_LOOKS)
		return NAN;
	for (int i = 0; i < 40; i++) {
		double c = 0.5 * (low + high);
		/* the sum after k looks has variance k: |z| < C is |sum| < C sqrt(k); C sqrt(K / k) gives C sqrt(K) */
		for (int k = 0; k < looks; k++)
			bounds[k] = c * pow(k + 1, shape) * pow(looks, 0.5 - shape);
		if (1 - stay_inside(bounds, looks) > alpha)
			low = c;
		else
			high = c;
	}
	return 0.5 * (low + high);
}

double pocock_constant(int looks, double alpha)
{
	return group_constant(looks, alpha, 0.5);
}

double obrien_fleming_constant(int looks, double alpha)
{
	return group_constant(looks, alpha, 0);
}
