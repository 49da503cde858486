/* Latencies of a measurement: mean and quantiles. */
#ifndef ASSAY_EVALS_DISTRIBUTION_H
#define ASSAY_EVALS_DISTRIBUTION_H

#include "engine/base/buf.h"
#include "engine/base/error.h"

struct distribution {
	double *values; /* owned */
	size_t count, capacity;
};

int distribution_add(struct distribution *d, double value, struct error *e);
void distribution_free(struct distribution *d); /* zeroes *d */

/* NaN without any value. */
double distribution_mean(const struct distribution *d);
/* Type 7 (linear between order statistics), as NumPy's default; sorts the values. q in [0, 1]. */
double distribution_quantile(struct distribution *d, double q);

/* {"mean": …, "median": …, "p95": …, "p99": …}; null without any value. */
void distribution_write(struct distribution *d, struct buf *out);

#endif
