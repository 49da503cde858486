#include <assert.h>
#include <math.h>

#include "reports/stats.h"

/* Indices of p from the smallest on; equal ones in their order. */
static void sort_indices(const double *p, size_t n, size_t *order)
{
	assert(n <= STATS_MAX_TESTS);
	for (size_t i = 0; i < n; i++) {
		size_t at = i;
		for (; at > 0 && p[order[at - 1]] > p[i]; at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
}

void holm_adjust(const double *p, size_t n, double *adjusted)
{
	size_t order[STATS_MAX_TESTS];
	double largest = 0;
	sort_indices(p, n, order);
	for (size_t j = 0; j < n; j++) {
		largest = fmax(largest, fmin(1, (double)(n - j) * p[order[j]]));
		adjusted[order[j]] = largest;
	}
}

void benjamini_hochberg_adjust(const double *p, size_t n, double *adjusted)
{
	size_t order[STATS_MAX_TESTS];
	double smallest = 1;
	sort_indices(p, n, order);
	for (size_t j = n; j-- > 0;) {
		smallest = fmin(smallest, (double)n / (double)(j + 1) * p[order[j]]);
		adjusted[order[j]] = smallest;
	}
}

void bonferroni_adjust(const double *p, size_t n, double *adjusted)
{
	for (size_t i = 0; i < n; i++)
		adjusted[i] = fmin(1, (double)n * p[i]);
}

struct combined_p fisher_combine(const double *p, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum -= 2 * log(p[i]);
	return (struct combined_p){sum, chi_square_tail(sum, (int)(2 * n))};
}

struct combined_p stouffer_combine(const double *p, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum -= normal_quantile(p[i]);
	double z = sum / sqrt((double)n);
	return (struct combined_p){z, normal_cdf(-z)};
}
