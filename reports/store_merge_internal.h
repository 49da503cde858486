/* What the two halves of joining shards share. */
#ifndef ASSAY_REPORTS_STORE_MERGE_INTERNAL_H
#define ASSAY_REPORTS_STORE_MERGE_INTERNAL_H

#include "engine/base/json_strict.h"
#include "reports/store_internal.h"
#include "reports/store_merge.h"

/* What a shard says of itself. */
struct part {
	struct store *store;
	int64_t run_id;
	char label[512]; /* "run 3 of b.db (shard 2/8)" */
	enum run_status status;
	int64_t index, count;
	char *whole; /* configuration of the run that it is a part of */
	bool whole_for_gating;
	int64_t started, finished;
	double seconds;
	int resumptions;
	char *uid, *host, *version, *command, *model;
	char *model_fingerprint, *tokenizer_hash, *template_hash, *numerics_id; /* NULL: unknown */
	struct json_document *provenance;
};

struct merge {
	struct store *target;
	struct part *parts; /* by index, once they are checked */
	size_t n;
	const struct store_math *math;
	int64_t run_id;
};

/* Id of that variant in the joined run; 0: it has none of that name. */
int merge_find_variant(struct merge *m, const char *name, int64_t *id, struct error *e);

/* ---- store_merge_incidents.c ---- */

/* Copies what guards found in a shard, and the trials of its planned faults. */
int merge_incidents(struct merge *m, const struct part *p, struct error *e);

/* ---- store_join.c ---- */

/* Computes every result that some shard has, over the answers of all. */
int merge_results(struct merge *m, struct error *e);

#endif
