/* Scoring of one answer by a suite's filters and metrics. */
#ifndef ASSAY_EVALS_SCORING_H
#define ASSAY_EVALS_SCORING_H

#include "engine/base/error.h"
#include "evals/filters.h"
#include "evals/metrics.h"
#include "evals/suite.h"
#include "evals/suite_type.h"

struct scorer {
	const struct suite_type *type;
	struct filter *filters[SUITE_MAX_METRICS]; /* owned; GENERATE */
	struct exact_match *exact_match;           /* owned; GENERATE */
};

/* On failure *s is empty. */
int scorer_init(struct scorer *s, const struct suite_type *type, struct error *e);
void scorer_free(struct scorer *s); /* zeroes *s */

/* As suite_score in suite.h. On failure *out is empty. */
int scorer_score(const struct scorer *s, const struct suite_item *item, const struct answer *answer,
	struct item_score *out, struct error *e);

#endif
