/* A task's stored answers as sample lines of lm-evaluation-harness. */
#ifndef ASSAY_EVALS_HARNESS_LINES_H
#define ASSAY_EVALS_HARNESS_LINES_H

#include "engine/base/hash.h"
#include "evals/suite.h"
#include "reports/store.h"

struct harness_lines {
	struct buf
		text; /* a line per document and filter: all documents of the first filter, then of the next; owned */
	int64_t documents;
	char task_hash[SHA256_HEX_SIZE];
};

/* ERR_INPUT where an answer's document, prompt or target is not the suite's, or an item has no answer. *out is to be freed on failure, too. */
int harness_lines_make(struct store *store, int64_t run_id, int64_t variant_id, const struct suite *suite,
	const char *task, struct harness_lines *out, struct error *e);
void harness_lines_free(struct harness_lines *l);

/* "exact_match" of "exact_match,strict-match". Borrowed. */
struct str harness_metric(const char *name);

/* The generation arguments of an item: {"until": [...], "do_sample": false, ...}. */
void harness_generation(const struct suite_item *item, struct buf *out);

#endif
