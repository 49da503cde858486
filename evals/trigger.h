/* Whether a variant calls a tool where the baseline does: K2VV's tool_call_f1 with the baseline for the reference. */
#ifndef ASSAY_EVALS_TRIGGER_H
#define ASSAY_EVALS_TRIGGER_H

#include "evals/suite.h"
#include "reports/store.h"

struct trigger_counts {
	int both, candidate_only, baseline_only, neither; /* items in which that one called a tool */
};

/* 2 both / (2 both + candidate_only + baseline_only); NaN where neither ever calls. */
double trigger_f1(const struct trigger_counts *c);

/* Puts "trigger_f1,none" of a variant, for the suite as a whole and each of its tasks, from the stored samples that
 * both variants have an answer to. Nothing for a suite without tools. */
int trigger_put(struct store *store, int64_t run_id, int64_t baseline_id, int64_t variant_id, const struct suite *suite,
	struct error *e);

extern const char trigger_result[]; /* "trigger_f1,none" */

/* Visits that result of one part of a suite (task: the suite's name for the whole), where it has a value. metric: the
 * one that says whether a tool was called. */
int trigger_visit(struct store *store, int64_t run_id, int64_t baseline_id, const struct store_result *wanted,
	const char *metric, store_visit_result *visit, void *context, struct error *e);

#endif
