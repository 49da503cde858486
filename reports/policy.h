/* The policy of a gate, fixed before the run: margins, tiers, alpha. */
#ifndef ASSAY_REPORTS_POLICY_H
#define ASSAY_REPORTS_POLICY_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/error.h"

enum tier {
	TIER_CRITICAL,   /* a pass needs its pass, and its failure fails */
	TIER_SUPPORTING, /* a pass needs that it does not fail */
	TIER_ADVISORY,   /* reported, decides nothing */
};
const char *tier_name(enum tier tier);

struct policy_endpoint {
	double margin; /* a fraction of items (pooled, suites), or nat (delta_logprob) */
	enum tier tier;
};

struct policy_suite {
	char *suite;
	struct policy_endpoint endpoint; /* margin NaN: that of all suites */
	char *metric;                    /* NULL: the first of its answers that is right or wrong */
};

struct policy {
	char *file; /* NULL: the defaults and the options */
	double alpha, power, min_coverage;
	struct policy_endpoint pooled, delta_logprob, suite; /* suite: of those that are not named */
	bool names_delta_logprob; /* the file does: it is judged also where nothing can be measured */
	struct policy_suite *suites;
	size_t n_suites;
};

/* alpha 0.05, power 0.8, coverage 0.99; pooled at 1 point, delta_logprob at 0.02 nat, both critical; suites at 1 point,
 * advisory. */
void policy_init(struct policy *p);

/* Reads a JSON file over what p holds. Margins of tables are points:
 * {"alpha", "power", "min_coverage", "pooled": {"margin", "tier"}, "delta_logprob": {"margin", "tier"},
 *  "suite": {"margin", "tier"}, "suites": {name: {"margin", "tier", "metric"}}}
 * A suite that is named is critical unless its tier says otherwise. ERR_INPUT names the file, the member, its value and
 * what was expected. */
int policy_read(struct policy *p, const char *path, struct error *e);
/* --margin: of the pooled drop and of every suite that has none of its own. In points, above 0. */
void policy_set_margin(struct policy *p, double points);
void policy_free(struct policy *p);

/* The suite's own entry, or NULL. */
const struct policy_suite *policy_find(const struct policy *p, const char *suite);
/* What holds for a suite. */
struct policy_endpoint policy_of_suite(const struct policy *p, const char *suite);

#endif
