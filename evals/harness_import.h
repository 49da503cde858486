/* Runs of lm-evaluation-harness in the store: one run for each results file, with every document's answer. */
#ifndef ASSAY_EVALS_HARNESS_IMPORT_H
#define ASSAY_EVALS_HARNESS_IMPORT_H

#include "engine/base/buf.h"
#include "reports/store.h"

/* Name of the one variant of an imported run: what ran it is in the provenance. */
extern const char harness_variant[];

struct harness_run {
	int64_t run_id;
	bool known; /* it was in the store already, from these very files */
	int tasks;
	int64_t documents;
	struct buf foreign; /* tasks that are none of assay's suites, "a, b"; owned */
	struct buf stderrs; /* standard errors of groups that the file gives another value; owned */
};

/* Imports results_<time>.json with the samples_<task>_<time>.jsonl beside it. Tasks of a group become tasks of the suite
 * that its topmost group is called. renames: "OLD=NEW" for names of tasks and groups, where both may end with '*' for the
 * same rest. ERR_INPUT where a file is damaged or does not say what the results say (number of documents, means of the
 * metrics, their standard errors), ERR_MISSING for samples that were not logged; then nothing is stored. Standard errors
 * of means are stored as the samples give them, also where the results hold none ("N/A"). *out is to be freed on failure,
 * too. */
int harness_import(struct store *store, const char *path, const char *const *renames, int n_renames,
	const char *command, struct harness_run *out, struct error *e);
void harness_run_free(struct harness_run *r);

#endif
