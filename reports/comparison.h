/* Two sets of answers beside each other: how often both are right, who lost what, and how sure that is. */
#ifndef ASSAY_REPORTS_COMPARISON_H
#define ASSAY_REPORTS_COMPARISON_H

#include "reports/pairing.h"

/* One suite, or all: the pooled table. */
struct comparison {
	const char *suite;  /* NULL: pooled over the suites */
	const char *metric; /* NULL: pooled, or none */
	bool has_table;     /* false: its answers are not right or wrong; what stands below `coverage` may be known */
	struct paired_table table;
	int64_t n;                        /* pairs in the table */
	double baseline, candidate, drop; /* fractions; NaN where n is 0 */
	struct interval interval;         /* of the drop: two-sided 95%, Tango's score with the design effect */
	struct mcnemar mcnemar;
	double flips; /* (b + c) / n */
	int64_t clusters;
	double design_effect; /* at least 1 */
	double worst_drop;    /* if every item without a pair were a regression */
	int64_t errors;       /* items that one or both did not answer */
	int64_t truncated;    /* items whose answer was cut by the length limit in one or both */
	int64_t unmatched;    /* items that one side has and the other has not */
	int64_t only_baseline, only_candidate;
	double coverage; /* pairs over all items that either side has */

	int64_t logprob_n;                /* pairs with the log-probability of the gold choice on both sides */
	int64_t logprob_items;            /* items of suites with multiple choice */
	double delta_logprob;             /* candidate minus baseline, mean, nat; NaN: none */
	double logprob_error;             /* its standard error, clustered; NaN below two items */
	double logprob_df;                /* clusters less one */
	struct interval logprob_interval; /* 95% */

	int64_t kl_n; /* tokens */
	double kl;    /* per token, nat, from a suite of divergence; NaN: not stored */

	double length_ratio; /* generated tokens, candidate over baseline, over the pairs; NaN: none */
	bool length_unusual; /* outside 90% to 110% */

	int64_t aa_n;    /* pairs of the baseline with another run of its configuration; 0: none in the store */
	double aa_flips; /* their share of flips; NaN: not measured */
};

int comparison_of_suite(
	const struct pairing *p, const struct suite_pairs *suite, struct comparison *out, struct error *e);
/* The sum of the suites' tables. */
int comparison_pooled(const struct pairing *p, struct comparison *out, struct error *e);

#endif
