/* The verdict: may the candidate replace the baseline? Everything that is printed (text, JSON, JUnit, Markdown,
 * HTML, the exit code) comes from one struct verdict. */
#ifndef ASSAY_REPORTS_VERDICT_H
#define ASSAY_REPORTS_VERDICT_H

#include "reports/comparison.h"
#include "reports/policy.h"
#include "reports/tool_results.h"

enum outcome { OUTCOME_PASS, OUTCOME_FAIL, OUTCOME_INCONCLUSIVE };
const char *outcome_name(enum outcome outcome); /* "pass", "fail", "inconclusive" */

/* One question with a margin. Numbers are in the endpoint's own unit: a fraction of items, or nat. */
struct endpoint {
	const char *name; /* "pooled", "delta_logprob", or the suite's name */
	const char *unit; /* "points" or "nat" */
	enum tier tier;
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
	struct tool_suite tools; /* n 0: its answers call no tools */
};

/* What differs between the two configurations. */
struct difference {
	char *name;                 /* "variant", "engine.threads" */
	char *baseline, *candidate; /* "-": not there */
};

struct verdict {
	enum outcome outcome;
	int exit_code;                 /* 0, 1 or 3 */
	char reason[640];              /* one sentence */
	char caveat[320];              /* why these runs cannot pass (limited, not complete); empty: they can */
	const struct policy *policy;   /* borrowed */
	const struct pairing *pairing; /* borrowed: the items, for lists of flips */
	struct comparison pooled;      /* means nothing where the pairing has an overlap */
	/* pooled, then delta_logprob where there are multiple-choice items, or where the policy names it */
	struct endpoint endpoints[2];
	size_t n_endpoints;
	struct suite_verdict *suites;
	size_t n_suites;
	struct difference *differences;
	size_t n_differences;
	bool aa_wanted; /* a side is not deterministic: the A/A flip rate belongs beside the flips */
};

/* Compares alone: suites, pooled, differences; every endpoint is left out. ERR_EMPTY when there is no pair, saying what
 * was missing. *out is to be freed on failure, too. */
int verdict_compare(const struct pairing *pairing, struct verdict *out, struct error *e);

/* Compares and judges by the policy. ERR_USAGE when two suites hold the same items, when the policy names a suite that
 * neither side holds (one that was not chosen is left out), or lets nothing decide. */
int verdict_make(const struct pairing *pairing, const struct policy *policy, struct verdict *out, struct error *e);

/* Puts the A/A flip rates in: pairs of the baseline with another run of the same configuration. */
int verdict_add_aa(struct verdict *v, const struct pairing *aa, struct error *e);

void verdict_free(struct verdict *v);

#endif
