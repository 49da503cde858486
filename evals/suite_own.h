/* Results of suites that are more than means of their answers' metrics, from stored answers. */
#ifndef ASSAY_EVALS_SUITE_OWN_H
#define ASSAY_EVALS_SUITE_OWN_H

#include "reports/store_merge.h"

/* A store_own_results for all suites: divergence, agreement on calls, and what a suite's type adds. */
int suite_own_results(struct store *s, int64_t run_id, const struct store_result *wanted, store_visit_result *visit,
	void *context, struct error *e);

#endif
