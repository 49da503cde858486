/* From the command line's options to an engine. */
#ifndef ASSAY_EVALS_ENGINE_OPTIONS_H
#define ASSAY_EVALS_ENGINE_OPTIONS_H

#include "engine/engine.h"
#include "evals/cli.h"

/* Fills the configuration of one variant ("W/K" or "W/K>W/K"; NULL: bf16/bf16). model is borrowed. ERR_USAGE for a
 * format that this version does not have. The guard is the caller's (run_guard.h). */
int engine_options(
	const struct options *o, const char *model, const char *variant, struct engine_config *out, struct error *e);

/* ERR_USAGE where an option says something of CUDA without --backend cuda. engine_options asks, too. */
int engine_backend_check(const struct options *o, struct error *e);

/* Opens the engine on the backend that --backend names (a split variant's two instances share it). ERR_USAGE says what is
 * missing: in this build, or on this machine. */
int engine_options_open(
	const struct options *o, const struct engine_config *config, struct engine **out, struct error *e);

/* What a plan says of where its engines will run, as lines or as members behind others: nothing for one rank on the CPU. */
void engine_options_print(const struct options *o, struct buf *out);
void engine_options_members(const struct options *o, struct buf *out);

/* Appends the JSON object of the engine's options as in use: what a run's provenance says of it. */
void engine_options_json(const struct options *o, const struct engine_facts *facts, struct buf *out);

#endif
