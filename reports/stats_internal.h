/* What the files of the statistics share. */
#ifndef ASSAY_REPORTS_STATS_INTERNAL_H
#define ASSAY_REPORTS_STATS_INTERNAL_H

double normal_density(double z);
double beta_tail(double x, double a, double b); /* 1 - beta_cdf, without cancellation */

#endif
