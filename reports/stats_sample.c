#include <math.h>
#include <stdlib.h>

#include "reports/stats.h"

double sample_mean(const double *x, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += x[i];
	return sum / (double)n;
}

static double sum_of_squares(const double *x, size_t n, double mean)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += (x[i] - mean) * (x[i] - mean);
	return sum;
}

double sample_deviation(const double *x, size_t n)
{
	return n < 2 ? NAN : sqrt(sum_of_squares(x, n, sample_mean(x, n)) / (double)(n - 1));
}

struct interval t_interval(double mean, double standard_error, double df, double level)
{
	double half = standard_error == 0 ? 0 : t_quantile(0.5 + 0.5 * level, df) * standard_error;
	return (struct interval){mean - half, mean + half};
}

/* Residuals summed by cluster into sums [n]; returns how many clusters there are. members [n] starts zeroed. */
static size_t cluster_sums(
	const double *x, const uint32_t *cluster, size_t n, double mean, double *sums, size_t *members)
{
	size_t clusters = 0;
	for (size_t i = 0; i < n; i++) {
		clusters += members[cluster[i]]++ == 0;
		sums[cluster[i]] += x[i] - mean;
	}
	return clusters;
}

int clustered_mean(const double *x, const uint32_t *cluster, size_t n, struct clustered *out, struct error *e)
{
	double *sums = mem_calloc(n, sizeof(*sums), e);
	size_t *members = mem_calloc(n, sizeof(*members), e);
	*out = (struct clustered){.mean = NAN, .naive = NAN, .cr0 = NAN, .cr1 = NAN, .design_effect = 1};
	if (sums && members && n > 0) {
		double count = (double)n;
		out->mean = sample_mean(x, n);
		out->clusters = cluster_sums(x, cluster, n, out->mean, sums, members);
		double g = (double)out->clusters;
		double squares = sum_of_squares(sums, n, 0);
		double naive = sum_of_squares(x, n, out->mean) / (count * (count - 1));
		double cr1 = squares / (count * count) * g / (g - 1);
		out->cr0 = sqrt(squares) / count;
		if (n > 1)
			out->naive = sqrt(naive);
		if (out->clusters > 1)
			out->cr1 = sqrt(cr1);
		if (out->clusters > 1 && out->clusters < n && naive > 0)
			out->design_effect = cr1 / naive;
	}
	int status = sums && members ? 0 : ERR_MEMORY;
	free(sums);
	free(members);
	return status;
}

double bernoulli_error(double score, double n)
{
	return sqrt(score * (1 - score) / n);
}

double miller_size(double omega2, double within_a, double resamples_a, double within_b, double resamples_b,
	double delta, double alpha, double power)
{
	double z = normal_quantile(1 - 0.5 * alpha) + normal_quantile(power);
	return z * z * (omega2 + within_a / resamples_a + within_b / resamples_b) / (delta * delta);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

void sample_sort(double *x, size_t n)
{
	if (n > 0)
		qsort(x, n, sizeof *x, by_value);
}

double sample_quantile(const double *sorted, size_t n, double q)
{
	if (n == 0)
		return NAN;
	double place = q * (double)(n - 1);
	size_t below = (size_t)place;
	if (below + 1 >= n)
		return sorted[n - 1];
	return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

/* The smallest k with P(X <= k) >= p. */
static int64_t binomial_quantile(double p, int64_t n, double q)
{
	int64_t low = 0, high = n;
	while (low < high) {
		int64_t middle = low + (high - low) / 2;
		if (binomial_cdf((double)middle, (double)n, q) >= p)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

struct quantile_ranks quantile_ranks(int64_t n, double q, double level)
{
	double tail = 0.5 - 0.5 * level;
	int64_t low = binomial_quantile(tail, n, q);
	/* the largest rank whose P(X <= rank - 1) is at most the tail */
	if (binomial_cdf((double)low, (double)n, q) <= tail)
		low++;
	int64_t high = binomial_quantile(1 - tail, n, q) + 1;
	if (high > n)
		high = 0;
	double above = high ? binomial_cdf((double)(high - 1), (double)n, q) : 1;
	double below = low ? binomial_cdf((double)(low - 1), (double)n, q) : 0;
	return (struct quantile_ranks){low, high, above - below};
}

static double jackknife_acceleration(const double *values, size_t n)
{
	double mean = sample_mean(values, n);
	double squares = 0, cubes = 0;
	for (size_t i = 0; i < n; i++) {
		double d = mean - values[i];
		squares += d * d;
		cubes += d * d * d;
	}
	return squares > 0 ? cubes / (6 * pow(squares, 1.5)) : 0;
}

static double bca_level(double z0, double acceleration, double z)
{
	return normal_cdf(z0 + (z0 + z) / (1 - acceleration * (z0 + z)));
}

struct bca bca_interval(
	const double *sorted, size_t n_replicates, double value, const double *jackknife, size_t n, double level)
{
	size_t less = 0, ties = 0;
	for (size_t i = 0; i < n_replicates; i++) {
		less += sorted[i] < value;
		ties += sorted[i] == value;
	}
	struct bca out = {
		.z0 = normal_quantile(((double)less + 0.5 * (double)ties) / (double)n_replicates),
		.acceleration = jackknife_acceleration(jackknife, n),
	};
	double z = normal_quantile(0.5 + 0.5 * level);
	out.level_low = bca_level(out.z0, out.acceleration, -z);
	out.level_high = bca_level(out.z0, out.acceleration, z);
	out.bca.low = sample_quantile(sorted, n_replicates, out.level_low);
	out.bca.high = sample_quantile(sorted, n_replicates, out.level_high);
	out.percentile.low = sample_quantile(sorted, n_replicates, 0.5 - 0.5 * level);
	out.percentile.high = sample_quantile(sorted, n_replicates, 0.5 + 0.5 * level);
	return out;
}

struct paired_ratio paired_ratio(const double *off, const double *on, size_t n, double level)
{
	double mean = 0, squares = 0, count = (double)n;
	for (size_t i = 0; i < n; i++)
		mean += log(on[i] / off[i]) / count;
	for (size_t i = 0; i < n; i++) {
		double d = log(on[i] / off[i]) - mean;
		squares += d * d;
	}
	struct paired_ratio out = {.ratio = exp(mean), .log_deviation = sqrt(squares / (count - 1))};
	struct interval logs = t_interval(mean, out.log_deviation / sqrt(count), count - 1, level);
	out.interval = (struct interval){exp(logs.low), exp(logs.high)};
	return out;
}

double kl_divergence(const double *p, const double *q, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		if (p[i] > 0)
			sum += p[i] * log(p[i] / q[i]);
	return sum;
}
