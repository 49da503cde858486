/* Few-shot examples as lm-evaluation-harness's samplers choose them. The default one has one generator per task, seeded
 * once, and draws once per document in the documents' order: so the shots of document i depend on all draws before it,
 * and a prefix of the documents gets the same. The other takes the first shots for every document. */
#ifndef ASSAY_EVALS_FEWSHOT_H
#define ASSAY_EVALS_FEWSHOT_H

#include "datasets/records.h"
#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "evals/suite_type.h"

struct fewshot {
	struct buf text; /* every example of the pool as a shot: question, " ", answer, "\n\n" */
	size_t *start;   /* [n_pool + 1] of each shot in text */
	size_t *answer;  /* [n_pool] of each shot's answer in text */
	uint32_t n_pool;
	uint32_t *chosen; /* [k] shots of the document at hand */
	uint32_t k;
	bool drawn; /* at random, not the first */
	struct py_random random;
};

/* k >= 1 shots a document for a task of that type, out of pool (NULL: the type's fixed shots), which may be freed
 * afterwards. More shots than there are is ERR_USAGE, a document that lacks a column ERR_INPUT with path:line. On
 * failure *f is empty. */
int fewshot_init(struct fewshot *f, const struct suite_type *type, const struct suite_task *task,
	const struct records *pool, int k, uint64_t seed, struct error *e);
void fewshot_free(struct fewshot *f); /* zeroes *f */

/* Chooses the next document's shots. To be called for every document in order, also for one that is left out. */
int fewshot_next(struct fewshot *f, struct error *e);

/* Appends the shots of the document at hand to its prompt. */
void fewshot_append(const struct fewshot *f, struct buf *prompt);

/* Question and answer alone of the i-th of the k shots of the document at hand. */
struct str fewshot_question(const struct fewshot *f, uint32_t i);
struct str fewshot_answer(const struct fewshot *f, uint32_t i);

#endif
