/* The guard of a command: its level and mode from the options, its incidents on stderr and in the store. */
#ifndef ASSAY_EVALS_RUN_GUARD_H
#define ASSAY_EVALS_RUN_GUARD_H

#include "evals/cli.h"
#include "integrity/guard.h"
#include "reports/store.h"

struct run_guard {
	struct guard guard; /* its table goes to engine_config.guard; it must not move meanwhile */
	bool log_json, quiet;
	struct store *store; /* NULL: incidents are not stored. Set once a run was begun. */
	const char *variant; /* of the incidents */
	struct error failed; /* the first incident that could not be stored */
};

/* By --guard, --guard-mode, --audit-every, --log-json, --quiet. ERR_USAGE: a mode or an interval without a guard. */
int run_guard_init(struct run_guard *g, const struct options *o, struct error *e);

/* ERR_DEVICE: a check of the level never ran; or the error of storing an incident. */
int run_guard_check(const struct run_guard *g, struct error *e);

/* One line for people: level, mode, steps, checks that ran, incidents of each. Nothing without a guard. */
void run_guard_print(const struct run_guard *g, struct buf *out);

/* The JSON of an incident: a line of --log-json, without its line feed. */
void incident_json(const struct guard_incident *i, const char *variant, struct buf *out);

#endif
