/* Evaluating divergence from the baseline under one variant, into the store. */
#ifndef ASSAY_EVALS_RUN_DIVERGENCE_H
#define ASSAY_EVALS_RUN_DIVERGENCE_H

#include "evals/console.h"
#include "evals/divergence_source.h"
#include "evals/run_suite.h"

/* Measures every document of the source and the shard that the store's run does not hold yet, stores it as it comes, then puts the
 * suite's results. baseline NULL: the engine is the baseline itself, of which log-probabilities alone are kept.
 * rows_bytes: most bytes of whole rows of log-probabilities that are held of each engine (at least one row is); a longer
 * document is read in pieces, each behind all that stands before. ERR_INTERRUPTED after a signal: what was measured is
 * stored. */
enum { DIVERGENCE_ROWS_BYTES = 64 << 20 };
int run_divergence(struct store *store, int64_t run_id, int64_t variant_id, const struct divergence_source *source,
	struct shard shard, struct engine *baseline, struct engine *engine, size_t rows_bytes, struct console *console,
	const char *label, struct suite_outcome *outcome, struct error *e);

#endif
