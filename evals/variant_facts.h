/* What a run keeps of a variant: sizes, scales, and what the engine counted. */
#ifndef ASSAY_EVALS_VARIANT_FACTS_H
#define ASSAY_EVALS_VARIANT_FACTS_H

#include "engine/engine.h"
#include "integrity/guard.h"
#include "reports/store.h"

/* Counters of the engines that worked at a variant of a run: each process of an interrupted one has its own,
 * and one that is killed takes its own along. */
struct variant_counts {
	uint64_t steps, kv_saturated;
	uint64_t computed, cached, generated, replayed; /* tokens */
	uint64_t preemptions;
	uint64_t pages_used_peak, evicted, copied, transferred; /* pages */
};

/* What the run holds of the variant of that name from earlier; zeroes when it has none. */
int variant_counts_stored(
	struct store *s, int64_t run_id, const char *name, struct variant_counts *out, struct error *e);

/* Adds the variant to the run that was begun, or renews its facts: `before` and what the engine counted since; and what
 * the guard counted in this process (NULL: none). */
int variant_facts_put(struct store *s, struct engine *engine, const char *name, const struct variant_counts *before,
	const struct guard *guard, int64_t *variant_id, struct error *e);

#endif
