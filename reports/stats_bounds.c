/* The bounds that decide, and the items that would. */
#include <math.h>

#include "reports/stats.h"

static bool is_sparse(struct paired_table t)
{
	return t.b + t.c < EXACT_BELOW_DISCORDANT;
}

static double exact_lower(struct paired_table table, double alpha, double design_effect)
{
	double n = (double)paired_n(table) / design_effect;
	/* alpha / 2 on one side each is the two-sided level 1 - alpha */
	return exact_interval((double)table.b / design_effect, n, 1 - alpha).low -
		exact_interval((double)table.c / design_effect, n, 1 - alpha).high;
}

struct drop_bounds drop_bounds(struct paired_table table, double alpha, double design_effect)
{
	if (paired_n(table) == 0)
		return (struct drop_bounds){NAN, NAN, true};
	if (!is_sparse(table)) {
		struct interval score = tango_interval(table, 1 - 2 * alpha, design_effect);
		return (struct drop_bounds){score.low, score.high, false};
	}
	double n = (double)paired_n(table) / design_effect;
	return (struct drop_bounds){
		.lower = exact_lower(table, alpha, design_effect),
		.upper = exact_interval((double)table.b / design_effect, n, 1 - 2 * alpha).high,
		.exact = true,
	};
}

double noninferiority_p(struct paired_table table, double margin, double design_effect)
{
	if (paired_n(table) == 0)
		return NAN;
	if (!is_sparse(table))
		return normal_cdf(tango_z(table, margin, design_effect));
	return binomial_cdf((double)table.b / design_effect, (double)paired_n(table) / design_effect, margin);
}

double inferiority_p(struct paired_table table, double margin, double design_effect)
{
	if (paired_n(table) == 0)
		return NAN;
	if (!is_sparse(table))
		return normal_cdf(-tango_z(table, margin, design_effect));
	double low = 0, high = 1;
	for (int i = 0; i < 60; i++) {
		double middle = 0.5 * (low + high);
		if (exact_lower(table, middle, design_effect) > margin)
			high = middle;
		else
			low = middle;
	}
	return high;
}

/* Items at which the upper bound falls below the margin if no more regressions come. */
static double exact_size(struct paired_table table, double margin, double design_effect, double alpha)
{
	double b = (double)table.b / design_effect;
	double low = b, high = b + 1;
	while (binomial_cdf(b, high, margin) >= alpha && high < 1e12)
		high *= 2;
	for (int i = 0; i < 100; i++) {
		double middle = 0.5 * (low + high);
		if (binomial_cdf(b, middle, margin) >= alpha)
			low = middle;
		else
			high = middle;
	}
	return high * design_effect;
}

double deciding_size(struct paired_table table, double margin, double design_effect, double alpha, double power)
{
	double n = (double)paired_n(table);
	double psi = (double)(table.b + table.c) / n;
	double drop = paired_drop(table);
	double as_planned = noninferiority_size(psi, 0, margin, alpha, power) * design_effect;
	double as_seen = noninferiority_size(psi, drop, margin, alpha, power) * design_effect;
	if (is_sparse(table))
		as_planned = fmax(as_planned, exact_size(table, margin, design_effect, alpha));
	as_seen = fabs(margin - drop) < 1e-9 || !(as_seen < 1e12) ? INFINITY : fmax(as_seen, n + 1);
	/* few improvements are not credited, so that what was seen below the margin promises nothing */
	if (is_sparse(table) && drop < margin && as_planned > n)
		as_seen = INFINITY;
	double needed = as_planned > n ? fmin(as_planned, as_seen) : as_seen;
	return isinf(needed) ? NAN : ceil(needed);
}
