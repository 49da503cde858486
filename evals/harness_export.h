/* A run of the store as lm-evaluation-harness would have written it. */
#ifndef ASSAY_EVALS_HARNESS_EXPORT_H
#define ASSAY_EVALS_HARNESS_EXPORT_H

#include "engine/base/buf.h"
#include "reports/store.h"

struct harness_files {
	struct buf folders; /* one a line; owned */
	int64_t samples;
	struct buf foreign; /* suites that the harness could not have run, "divergence, my_exam"; owned */
};

/* Writes FOLDER/<model and variant>/results_<time>.json and samples_<task>_<time>.jsonl for each variant of the run
 * (variant NULL) or the one of that name. Prompts and documents are made again as the run made them: from the data sets
 * (data NULL: where the run found them) and, where they are conversations or counted in tokens, with the run's model.
 * Exams and tool calls are left out, as the harness has no such tasks; ERR_EMPTY where nothing is left. ERR_INPUT for a
 * run that is no whole one, for data or a chat template that are not those of the answers; ERR_MISSING for a model that
 * is gone; ERR_USAGE for a run or variant that cannot be written so. After a failure no file was written or changed.
 * *out is to be freed on failure, too. */
int harness_export(struct store *store, int64_t run_id, const char *variant, const char *data, const char *folder,
	struct harness_files *out, struct error *e);
void harness_files_free(struct harness_files *f);

#endif
