/* Evaluating one suite under one variant, into the store. */
#ifndef ASSAY_EVALS_RUN_SUITE_H
#define ASSAY_EVALS_RUN_SUITE_H

#include "evals/console.h"
#include "evals/shard.h"
#include "evals/suite.h"
#include "evals/target.h"
#include "reports/store.h"

struct suite_outcome {
	int items;
	int answered_before; /* in the store already: resumed */
	int tried_again;     /* items of which the store holds an error: answered anew */
	int errors;          /* items without an answer */
	int contexts_cut;
	struct error first_error;
};

/* Answers every item that the store's run does not hold yet, or holds an error of, and stores each answer as it comes;
 * then puts the suite's results. ERR_INTERRUPTED after a signal: what was answered is stored. */
int run_suite(struct store *store, int64_t run_id, int64_t variant_id, struct suite *suite, struct shard shard,
	struct target *target, struct console *console, const char *label, struct suite_outcome *outcome,
	struct error *e);

#endif
