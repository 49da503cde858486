/* The verdict: may the candidate replace the baseline? Everything that is printed (text, JSON, JUnit, Markdown, HTML, the
 * exit code) comes from one struct verdict. */
#ifndef ASSAY_REPORTS_VERDICT_H
#define ASSAY_REPORTS_VERDICT_H

#include "reports/pairing.h"
#include "reports/policy.h"

enum outcome { OUTCOME_PASS, OUTCOME_FAIL, OUTCOME_INCONCLUSIVE };
const char *outcome_name(enum outcome outcome); /* "pass", "fail", "inconclusive" */

/* What two sets of answers to one suite (or to all: the pooled table) look like beside each other. */
struct comparison {
	const char *suite;  /* NULL: pooled over the suites */
	const char *metric; /* NULL: pooled, or none */
	bool has_table;     /* false: its answers are not right or wrong, only what is below `kl` is known */
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
	int64_t logprob_items;            /* multiple-choice items */
	double delta_logprob;             /* candidate minus baseline, mean, nat; NaN: none */
	struct interval logprob_interval; /* 95% */

	int64_t kl_n;
	double kl; /* mean of the candidate's "kl" metric, nat; NaN: not stored */

	double length_ratio; /* generated tokens, candidate over baseline, over the pairs; NaN: none */
	bool length_unusual; /* outside 90% to 110% */

	int64_t aa_n;    /* pairs of the baseline with another run of its configuration; 0: none in the store */
	double aa_flips; /* their share of flips; NaN: not measured */
};

/* One question with a margin. Numbers are in the endpoint's own unit: a fraction of items, or nat. */
struct endpoint {
	const char *name; /* "pooled", "delta_logprob", or the suite's name */
	const char *unit; /* "points" or "nat" */
	enum tier tier;
	bool decides; /* whether the policy lets it decide (a suite may only be reported) */
	int64_t n;
	double drop;              /* positive is worse, also for delta_logprob */
	struct interval interval; /* two-sided 95% */
	double lower, upper;      /* one-sided bounds at alpha: what decides */
	const char *method;       /* "score", "exact", "t" or "none": where the bounds come from */
	double margin, alpha;
	double p_pass;      /* of H0: drop >= margin */
	double p_fail;      /* of H0: drop <= margin */
	double p_holm;      /* p_pass, adjusted over all suites (a suite), or over the deciding endpoints */
	double p_fail_holm; /* p_fail, adjusted over the deciding critical endpoints; NaN for others */
	double coverage;
	enum outcome outcome;
	int64_t n_needed; /* items that would decide; 0: decided, or no number does */
	char reason[256]; /* one clause */
};

struct suite_verdict {
	struct comparison comparison;
	struct endpoint endpoint;
};

/* What differs between the two configurations. */
struct difference {
	char *name; /* "variant", "engine.threads" */
	char *baseline, *candidate;
};

struct verdict {
	enum outcome outcome;
	int exit_code;                 /* 0, 1 or 3 */
	char reason[640];              /* one sentence */
	bool for_gating;               /* false: a run was limited */
	const struct policy *policy;   /* borrowed */
	const struct pairing *pairing; /* borrowed: the items, for lists of flips */
	struct comparison pooled;
	struct endpoint endpoints[2]; /* pooled, then delta_logprob where there are multiple-choice items */
	size_t n_endpoints;
	struct suite_verdict *suites;
	size_t n_suites;
	struct difference *differences;
	size_t n_differences;
	bool aa_wanted; /* a side is not deterministic: its A/A flip rate belongs beside the flips */
};

/* Compares alone: suites, pooled, differences; every endpoint is left out. ERR_EMPTY when there is no pair, saying what
 * was missing. *out is to be freed on failure, too. */
int verdict_compare(const struct pairing *pairing, double alpha, struct verdict *out, struct error *e);

/* Compares and judges by the policy. ERR_USAGE when the policy names a suite that is not there. */
int verdict_make(const struct pairing *pairing, const struct policy *policy, struct verdict *out, struct error *e);

/* Puts the A/A flip rates in: pairs of the baseline with another run of the same configuration. */
void verdict_add_aa(struct verdict *v, const struct pairing *aa);

void verdict_free(struct verdict *v);

#endif
