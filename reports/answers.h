/* All answers of one variant of one run, or of a file of sample lines, in memory. */
#ifndef ASSAY_REPORTS_ANSWERS_H
#define ASSAY_REPORTS_ANSWERS_H

#include "engine/base/buf.h"
#include "reports/store.h"

struct answers {
	char *label;          /* as people read it: "run 3 bf16/bf16", "other.db: run 3 bf16/bf16", "base.jsonl" */
	char *file;           /* the database or the sample file */
	const char *variant;  /* NULL: a sample file */
	int64_t variant_id;   /* 0: a sample file */
	struct store_run run; /* zero for a sample file */
	struct store_variant about; /* zero for a sample file */
	bool deterministic;         /* the target gives the same answer again: the engine does, a server need not */
	struct store_sample *rows;  /* [n], by suite, task, doc_id; hashes that are not known are "" */
	size_t n;
	size_t capacity;
	struct answers_block *blocks; /* own all texts above but label and file */
};

/* ADDRESS is `[DATABASE:]RUN[:VARIANT]` (RUN as store_run_find takes it, default_db where no database is named;
 * VARIANT may be left out where the run has one), or a file of sample lines as lm-evaluation-harness writes them
 * (gzip is fine): {"doc_id", metric: number, …} with "task", "doc_hash", "prompt_hash", "target_hash", "resps",
 * "filtered_resps" where they are known. default_db may be NULL. ERR_USAGE: no such run or variant; ERR_INPUT,
 * ERR_MISSING as for files. An address without any answer is no error here. *out is to be freed on failure, too. */
int answers_load(const char *address, const char *default_db, struct answers *out, struct error *e);
void answers_free(struct answers *a);

/* Loads another run of the same configuration and variant from the same database, the newest complete one; a->n stays 0
 * where there is none. PRECOND: of is no sample file. */
int answers_load_twin(const struct answers *of, struct answers *out, struct error *e);

/* The same answers once more. PRECOND: of is no sample file. */
int answers_load_again(const struct answers *of, struct answers *out, struct error *e);

/* ---- For the files that fill answers ---- */

/* A copy that lives as long as the answers, with a NUL behind it; NULL: no memory. */
char *answers_keep(struct answers *a, struct str text, struct error *e);
/* Room for one more row, zeroed. */
struct store_sample *answers_add(struct answers *a, struct error *e);

#endif
