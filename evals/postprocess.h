/* What lm-evaluation-harness does to a generated text before any filter sees it. */
#ifndef ASSAY_EVALS_POSTPROCESS_H
#define ASSAY_EVALS_POSTPROCESS_H

#include <stdbool.h>

#include "engine/base/str.h"

/* The answer within text: what follows the last think_end (empty: no reasoning is expected), without white space at
 * its start, then cut at the first occurrence of each stop string, in the order given; empty stops are ignored. *out
 * points into text. False when think_end never comes: the reasoning was cut off, and the whole text stands as the
 * answer, as in the harness. */
bool answer_postprocess(struct str text, const struct str *until, int n_until, struct str think_end, struct str *out);

#endif
