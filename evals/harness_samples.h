/* Sample lines of lm-evaluation-harness (samples_<task>_<time>.jsonl) as rows of the store. */
#ifndef ASSAY_EVALS_HARNESS_SAMPLES_H
#define ASSAY_EVALS_HARNESS_SAMPLES_H

#include "evals/harness_check.h"
#include "reports/store.h"

/* Calls visit for every document of the task's file, in the order of doc_id, with variant_id as given. The harness writes
 * a line per filter: they become one row. ERR_INPUT names file, line, member, value and what was expected: a document twice
 * under one filter, filters that disagree about the document, an item with several answers (repeats), a hash that is none
 * or not that of the prompt, a document that some filter leaves out, a value that is no number where a mean is made of it.
 * *documents counts the documents. */
int harness_samples_each(const char *path, const struct harness_task *task, int64_t variant_id,
	store_visit_sample *visit, void *context, int64_t *documents, struct error *e);

#endif
