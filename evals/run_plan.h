/* What a run is going to do, settled before anything is computed: model, variants, suites with all their items, and the identity that
 * decides whether an interrupted run may be gone on with. */
#ifndef ASSAY_EVALS_RUN_PLAN_H
#define ASSAY_EVALS_RUN_PLAN_H

#include "engine/engine.h"
#include "evals/calibration.h"
#include "evals/chat_setup.h"
#include "evals/cli.h"
#include "evals/divergence_plan.h"
#include "evals/shard.h"
#include "evals/suite.h"

struct run_plan {
	const struct options *options;
	char *model, *data, *db; /* paths, owned */
	struct engine_config engines[CLI_MAX_LIST];
	int n_variants;
	struct suite *suites[CLI_MAX_LIST];
	int n_suites;
	struct divergence_plan divergence;
	struct calibration calibration;
	struct shard shard; /* the suites hold all items; the run answers those of its shard */
	struct engine_text *text;
	struct chat_setup chat;
	char model_files[2][SHA256_HEX_SIZE]; /* of config.json and generation_config.json; "" where there is none */
};

/* Everything that can be refused without the weights is refused here. Free it also after a failure. */
int run_plan_make(struct run_plan *p, const struct options *o, struct error *e);
void run_plan_free(struct run_plan *p);

/* Items of all suites that are this run's. */
int run_plan_items(const struct run_plan *p);

/* Whether a run of it may gate: neither a limit nor a shard leaves items out. */
bool run_plan_for_gating(const struct run_plan *p);

/* sha256 over what decides the answers: program, model with its configuration, tokenizer, variants, items of the suites, numerics, a
 * deadline. Not over threads, batch or chunk sizes, prefix cache or padding: they change no bit. Shards of one run have hashes of their own. */
int run_plan_hash(const struct run_plan *p, const char *fingerprint, const char *numerics, char out[SHA256_HEX_SIZE],
	struct error *e);

/* The same for the whole of which this run is a shard. */
int run_plan_hash_whole(const struct run_plan *p, const char *fingerprint, const char *numerics,
	char out[SHA256_HEX_SIZE], struct error *e);

/* The JSON object of provenance that has no column of its own: engine options as in use, data files, suites, seeds, the shard of which whole. */
void run_plan_provenance(
	const struct run_plan *p, const struct engine_facts *facts, const char *whole_hash, struct buf *out);

/* What --dry-run prints, as text or as JSON. */
void run_plan_print(const struct run_plan *p, struct buf *out);
void run_plan_json(const struct run_plan *p, struct buf *out);

#endif
