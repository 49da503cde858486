/* The part of a run that one machine does, written I/N: a run may be split over N machines and joined again by
 * `assay db merge`. */
#ifndef ASSAY_EVALS_SHARD_H
#define ASSAY_EVALS_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"

struct shard {
	int index, count; /* index from 1 to count; count 0: the run is not split */
};

/* "2/8". NULL: not split. ERR_USAGE for anything else. */
int shard_parse(const char *text, struct shard *out, struct error *e);

/* Shard I of N holds the documents whose id leaves I - 1 when it is divided by N: a rule of the item alone. */
bool shard_holds(struct shard shard, int64_t doc_id);

#endif
