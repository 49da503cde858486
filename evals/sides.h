/* The two sides of a comparison, as a command line names them. */
#ifndef ASSAY_EVALS_SIDES_H
#define ASSAY_EVALS_SIDES_H

#include "evals/cli.h"
#include "reports/verdict.h"

/* Loads both and pairs them, of the suites that --suite names. policy may be NULL. *out is to be freed on failure,
 * too. */
int sides_pair(const struct options *o, const char *baseline, const char *candidate, const struct policy *policy,
	struct pairing *out, struct error *e);

/* Adds the A/A flip rates to a verdict, where the baseline's database holds another run of its configuration. */
int sides_measure_aa(struct verdict *v, struct error *e);

#endif
