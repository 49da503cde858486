/* Few-shot examples as lm-evaluation-harness's default sampler draws them: one generator per task, seeded once, one
 * draw per document in the documents' order. So the shots of document i depend on all draws before it, and a prefix of
 * the documents gets the same. */
#ifndef ASSAY_EVALS_FEWSHOT_H
#define ASSAY_EVALS_FEWSHOT_H

#include "datasets/records.h"
#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "evals/suite_type.h"

struct fewshot {
	struct buf text; /* every pool document as a shot: question, " ", answer, "\n\n" */
	size_t *start;   /* [n_pool + 1] of each shot in text */
	uint32_t n_pool;
	uint32_t *drawn; /* [k] */
	uint32_t k;
	struct py_random random;
};

/* k >= 1 shots a document out of pool, which may be freed afterwards. More shots than the pool holds is ERR_USAGE, a
 * document that lacks a column ERR_INPUT with path:line. On failure *f is empty. */
int fewshot_init(struct fewshot *f, const struct suite_type *type, const struct records *pool, int k, uint64_t seed,
	struct error *e);
void fewshot_free(struct fewshot *f); /* zeroes *f */

/* Draws the next document's shots and appends them to its prompt. */
int fewshot_append(struct fewshot *f, struct buf *prompt, struct error *e);

#endif
