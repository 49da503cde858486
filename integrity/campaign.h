/* A campaign: many trials, in child processes, because a fault may crash or hang what it is planted in. What it prints
 * depends on its seed alone: trials are numbered before they run, and a trial is a function of its plan.
 *
 *   sampled      trial t takes the next type in turn, a workload of its round, an occurrence and a target, drawn by seed
 *   exhaustive   in so many workloads every occurrence of every type, and one more, where nothing must happen
 *   false alarms no fault at all: whatever fires, or changes, is an error of the guard */
#ifndef ASSAY_INTEGRITY_CAMPAIGN_H
#define ASSAY_INTEGRITY_CAMPAIGN_H

#include "integrity/trial.h"

enum {
	CAMPAIGN_LEVELS = GUARD_LEVEL_COUNT,
	CAMPAIGN_TYPES = 64,
	CAMPAIGN_WORKERS = 64,
	CAMPAIGN_TRIALS = 1000000, /* at most: they are held in memory */
	CAMPAIGN_REPLAY_SIZE = 160,
};

struct campaign_plan {
	const struct fault_type *type; /* NULL: none */
	uint64_t workload;
	int occurrence;
	uint64_t seed; /* of the target */
};

struct campaign_incident {
	int phase; /* -1: of the observed run, else index of the level */
	struct guard_incident incident;
};

struct campaign_trial {
	int64_t number;
	struct campaign_plan plan;
	bool done;
	struct trial_facts observed; /* without a fault: not run */
	struct trial_facts enforced[CAMPAIGN_LEVELS];
	struct campaign_incident *incidents; /* [n_incidents] while the sink has it */
	int n_incidents;
};

struct campaign_options {
	const struct trial_model *model;
	const struct fault_type *types[CAMPAIGN_TYPES];
	int n_types; /* 0: false alarms */
	enum guard_level levels[CAMPAIGN_LEVELS];
	int n_levels;
	int64_t trials; /* exhaustive: workloads */
	uint64_t seed;
	bool exhaustive;
	const struct campaign_plan *replay; /* NULL, or the only trial */
	int workers;                        /* 0: a process per processor */
	void *context;
	/* Called in this process with every trial that is done, in the order in which they end. */
	int (*sink)(void *context, const struct campaign_trial *trial, struct error *e);
	bool (*stop)(void); /* asked now and then: trials in hand are finished, then ERR_INTERRUPTED */
	void (*progress)(void *context, int64_t done, int64_t total);
	void (*plant)(struct guard *guard); /* NULL; see trial_run */
};

struct campaign {
	struct campaign_options options;
	struct campaign_trial *trials; /* [n_trials] by number */
	int64_t n_trials;
};

/* Plans the trials: counts, in child processes, where each type can act. PRECOND: this process has no other thread. */
int campaign_open(struct campaign *c, const struct campaign_options *options, struct error *e);

/* Runs the trials that are not done. */
int campaign_run(struct campaign *c, struct error *e);
void campaign_free(struct campaign *c);

enum trial_outcome campaign_observed(const struct campaign_trial *t);
/* Without a fault: benign where something fired, silent where something changed without a word, else masked. */
enum trial_outcome campaign_enforced(const struct campaign_trial *t, int level);

/* "seed=17 workload=3 site=pool.free.early occurrence=4", and " guard=LEVEL" where one is named (NULL: none). */
void campaign_replay_line(const struct campaign_plan *plan, const char *level, char out[CAMPAIGN_REPLAY_SIZE]);
/* Reads such a line. *level is GUARD_LEVEL_COUNT where it names none. */
int campaign_replay_parse(const char *line, struct campaign_plan *out, enum guard_level *level, struct error *e);

#endif
