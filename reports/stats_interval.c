#include <math.h>

#include "reports/stats.h"

static double two_sided_z(double level)
{
	return normal_quantile(0.5 + 0.5 * level);
}

/* Ends that the data reach are ends of the interval, whatever rounding says. */
static struct interval closed(double low, double high, double k, double n)
{
	return (struct interval){k <= 0 ? 0 : low, k >= n ? 1 : high};
}

struct interval wilson_interval(double k, double n, double level)
{
	double z = two_sided_z(level);
	double p = k / n;
	double middle = p + z * z / (2 * n);
	double half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n));
	double scale = 1 + z * z / n;
	return closed((middle - half) / scale, (middle + half) / scale, k, n);
}

struct interval exact_interval(double k, double n, double level)
{
	double tail = 0.5 - 0.5 * level;
	double low = k <= 0 ? 0 : beta_quantile(tail, k, n - k + 1);
	double high = k >= n ? 1 : beta_quantile(1 - tail, k + 1, n - k);
	return closed(low, high, k, n);
}

struct interval agresti_coull_interval(double k, double n, double level)
{
	double z = two_sided_z(level);
	double m = n + z * z;
	double p = (k + 0.5 * z * z) / m;
	double half = z * sqrt(p * (1 - p) / m);
	return (struct interval){fmax(0, p - half), fmin(1, p + half)};
}

struct interval jeffreys_interval(double k, double n, double level)
{
	double tail = 0.5 - 0.5 * level;
	double low = k <= 0 ? 0 : beta_quantile(tail, k + 0.5, n - k + 0.5);
	double high = k >= n ? 1 : beta_quantile(1 - tail, k + 0.5, n - k + 0.5);
	return closed(low, high, k, n);
}
