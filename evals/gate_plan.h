/* What a gate could decide, before any run: `assay gate --plan`. */
#ifndef ASSAY_EVALS_GATE_PLAN_H
#define ASSAY_EVALS_GATE_PLAN_H

#include "evals/cli.h"
#include "reports/policy.h"

/* Appends, per endpoint, the items, the power at the margin and the smallest drop that is found, for several shares of
 * items that may change. The items are those of --baseline, or of the suites that --suite names in --data. */
int gate_plan(const struct options *o, const struct policy *policy, bool color, struct buf *out, struct error *e);

#endif
