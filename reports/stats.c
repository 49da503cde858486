/* Distributions. Accurate to a few units in the last place, in either tail. */
#include "reports/stats.h"

#include <math.h>

#include "reports/stats_internal.h"

static const double LN_SQRT_2PI = 0.91893853320467274178;

double normal_density(double z)
{
	return exp(-0.5 * z * z - LN_SQRT_2PI);
}

double normal_cdf(double z)
{
	return 0.5 * erfc(-z * M_SQRT1_2);
}

/* Abramowitz and Stegun 26.2.23 (within 4.5e-4), then Halley's steps on the tail. */
double normal_quantile(double p)
{
	if (!(p > 0 && p < 1))
		return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
	double tail = p < 0.5 ? p : 1 - p;
	double t = sqrt(-2 * log(tail));
	double z =
		t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
	for (int i = 0; i < 4; i++) {
		double step = (tail - normal_cdf(-z)) / normal_density(z);
		z -= step / (1 + 0.5 * step * z);
	}
	return p < 0.5 ? -z : z;
}

/* ---- The binomial density after Loader (2000): no cancellation for large n ---- */

/* ln n! less Stirling's formula. */
static double stirling_error(double n)
{
	double error = 0;
	for (; n < 16; n++)
		error += (n + 0.5) * log1p(1 / n) - 1;
	double n2 = n * n;
	return error + (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - (1.0 / 1680 - 1.0 / 1188 / n2) / n2) / n2) / n2) / n;
}

/* x ln(x / m) + m - x, also where x is near m. */
static double deviance(double x, double m)
{
	if (fabs(x - m) >= 0.1 * (x + m))
		return x * log(x / m) + m - x;
	double v = (x - m) / (x + m);
	double sum = (x - m) * v;
	double term = 2 * x * v;
	for (int j = 1; j < 1000; j++) {
		term *= v * v;
		double next = sum + term / (2 * j + 1);
		if (next == sum)
			break;
		sum = next;
	}
	return sum;
}

/* n ln(q), where p = 1 - q is known, too. */
static double log_power(double n, double p, double q)
{
	return n * (p < q ? log1p(-p) : log(q));
}

/* The density of real x out of n at p, q = 1 - p. */
static double binomial_density(double x, double n, double p, double q)
{
	if (p <= 0 || q <= 0)
		return (p <= 0 ? x : n - x) == 0 ? 1 : 0;
	if (x == 0)
		return exp(log_power(n, p, q));
	if (x == n)
		return exp(log_power(n, q, p));
	double exponent = stirling_error(n) - stirling_error(x) - stirling_error(n - x) - deviance(x, n * p) -
		deviance(n - x, n * q);
	return exp(exponent) * sqrt(n / (2 * M_PI * x * (n - x)));
}

double binomial_pmf(double k, double n, double p)
{
	return k < 0 || k > n ? 0 : binomial_density(k, n, p, 1 - p);
}

/* ---- The beta distribution ---- */

/* The continued fraction of the incomplete beta function (DLMF 8.17.22) by Lentz's method. */
static double beta_fraction(double x, double a, double b)
{
	const double tiny = 1e-300;
	double c = 1;
	double d = 1 - (a + b) * x / (a + 1);
	d = 1 / (fabs(d) < tiny ? tiny : d);
	double h = d;
	for (int m = 1; m < 100000; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
		d = 1 + even * d;
		c = 1 + even / c;
		d = 1 / (fabs(d) < tiny ? tiny : d);
		c = fabs(c) < tiny ? tiny : c;
		h *= d * c;
		d = 1 + odd * d;
		c = 1 + odd / c;
		d = 1 / (fabs(d) < tiny ? tiny : d);
		c = fabs(c) < tiny ? tiny : c;
		double step = d * c;
		h *= step;
		if (fabs(step - 1) < 2e-16)
			break;
	}
	return h;
}

/* Both sides of x, y = 1 - x, each without cancellation where it is the smaller one. PRECOND: a, b > 0. */
struct tails {
	double lower, upper;
};

static struct tails beta_tails(double x, double y, double a, double b)
{
	if (x <= 0 || y <= 0)
		return x <= 0 ? (struct tails){0, 1} : (struct tails){1, 0};
	double density = binomial_density(a, a + b, x, y) / (a + b);
	if (x < (a + 1) / (a + b + 2)) {
		double lower = density * b * beta_fraction(x, a, b);
		return (struct tails){lower, 1 - lower};
	}
	double upper = density * a * beta_fraction(y, b, a);
	return (struct tails){1 - upper, upper};
}

double beta_cdf(double x, double a, double b)
{
	return beta_tails(x, 1 - x, a, b).lower;
}

double beta_tail(double x, double a, double b)
{
	return beta_tails(x, 1 - x, a, b).upper;
}

/* Newton's method, held in a bracket. */
double beta_quantile(double p, double a, double b)
{
	double low = 0, high = 1;
	double x = a / (a + b);
	for (int i = 0; i < 400; i++) {
		struct tails t = beta_tails(x, 1 - x, a, b);
		double excess = p < 0.5 ? t.lower - p : (1 - p) - t.upper;
		if (excess > 0)
			high = x;
		else
			low = x;
		double slope = binomial_density(a, a + b, x, 1 - x) * a * b / (a + b) / (x * (1 - x));
		double next = x - excess / slope;
		if (excess == 0 || fabs(next - x) <= 1e-16 * x)
			break;
		if (!(next > low && next < high))
			next = 0.5 * (low + high);
		if (next == low || next == high)
			break;
		x = next;
	}
	return x;
}

double binomial_cdf(double k, double n, double p)
{
	if (k < 0 || k >= n)
		return k < 0 ? 0 : 1;
	return beta_tails(p, 1 - p, k + 1, n - k).upper;
}

/* ---- Student's t and chi-square ---- */

/* P(T >= t) for t >= 0. */
static double t_tail(double t, double df)
{
	double t2 = t * t;
	return 0.5 * beta_tails(df / (df + t2), t2 / (df + t2), 0.5 * df, 0.5).lower;
}

double t_cdf(double t, double df)
{
	return t < 0 ? t_tail(-t, df) : 1 - t_tail(t, df);
}

/* Newton's method from the normal quantile: the tail is convex and t's quantile is larger, so it comes from below. */
double t_quantile(double p, double df)
{
	double tail = p < 0.5 ? p : 1 - p;
	double t = fabs(normal_quantile(tail));
	double log_scale = lgamma(0.5 * (df + 1)) - lgamma(0.5 * df) - 0.5 * log(df * M_PI);
	for (int i = 0; i < 200; i++) {
		double density = exp(log_scale - 0.5 * (df + 1) * log1p(t * t / df));
		double next = t + (t_tail(t, df) - tail) / density;
		if (!(fabs(next - t) > 1e-16 * t))
			break;
		t = next;
	}
	return p < 0.5 ? -t : t;
}

/* Two degrees more add one term. */
double chi_square_tail(double x, int df)
{
	double half = 0.5 * x;
	double tail = df % 2 ? erfc(sqrt(half)) : exp(-half);
	double term = df % 2 ? exp(-half) * sqrt(half / M_PI) * 2 : exp(-half) * half;
	for (int have = df % 2 ? 1 : 2; have < df; have += 2) {
		tail += term;
		term *= half / (0.5 * have + 1);
	}
	return tail;
}
