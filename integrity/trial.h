/* One trial: a workload on a fresh engine, at most one fault, watched by the oracle. What came out is compared with the
 * same workload without a fault, bit by bit. */
#ifndef ASSAY_INTEGRITY_TRIAL_H
#define ASSAY_INTEGRITY_TRIAL_H

#include "engine/engine.h"
#include "integrity/fault.h"
#include "integrity/guard.h"
#include "integrity/workload.h"

/* What all trials of a model share. */
struct trial_model {
	const char *path; /* borrowed */
	int vocab, n_layers;
	uint64_t f32_bytes_per_token; /* of K and V in f32 */
	float *kv_scales;             /* [n_layers, 2] for fp8 caches, calibrated: not 1 */
	struct workload_secrets secrets;
};

/* Reads the model and calibrates the scales of an fp8 cache on workloads' tokens. */
int trial_model_open(struct trial_model *m, const char *path, struct error *e);
void trial_model_free(struct trial_model *m);

/* What a user got of one request. */
struct trial_answer {
	uint64_t id;
	enum engine_finish finish;
	int error; /* ENGINE_FAILED: its code */
	int n_generated;
	int32_t tokens[WORKLOAD_GENERATED];
	uint32_t logprobs[WORKLOAD_GENERATED]; /* their bits */
	uint32_t prompt_logprobs[WORKLOAD_PROMPT];
	int n_prompt_logprobs;
};

/* A workload without a fault and without a guard: what is right, and where faults can act. */
struct trial_clean {
	struct workload workload;
	struct trial_answer answers[WORKLOAD_REQUESTS];
	int steps;
	int points[64]; /* by fault type: points where it can act */
};

int trial_clean_make(const struct trial_model *m, uint64_t workload, struct trial_clean *out, struct error *e);

/* Exactly one fault, or none. */
struct trial_plan {
	const struct fault_type *type; /* NULL: none */
	int occurrence;                /* from 0 */
	uint64_t seed;                 /* draws the target */
};

/* What a run showed. Sets of requests have bit i for request i of the workload. */
struct trial_facts {
	bool fired;
	int64_t target;    /* the wrong value */
	int step;          /* of the engine in which it fired, from 1; 0: in none */
	bool crashed;      /* the process died of it: nothing else is known */
	bool hang;         /* it went on for far more steps than without the fault, or its process for far too long */
	bool stopped;      /* a step failed: nothing went on from there */
	uint32_t wrong;    /* something that was published differs from the clean run */
	uint32_t failed;   /* ended by the guard */
	uint32_t loud;     /* ended by an error of the engine's own */
	uint32_t finished; /* answered, or withdrawn by plan */
	uint32_t contaminated, leaked, touched; /* the oracle's word */
	uint32_t told;                          /* the answer holds the code of another request */
	int late_tokens;        /* wrong tokens and log-probabilities of requests in `failed` that left before */
	int early_incidents;    /* of the guard, before the fault fired: false alarms */
	int incidents;          /* since */
	uint32_t checks;        /* bit per check that fired since */
	int first_check;        /* -1: none */
	uint64_t checked_steps; /* batches that the guard checked */
	bool unproved;          /* a check that runs in every step never ran */
	char message[100];      /* of the error that stopped it */
};

struct trial_run {
	const struct trial_model *model;
	const struct trial_clean *clean;
	struct trial_plan plan;
	enum guard_level level;
	bool observe;
	void (*sink)(void *context, const struct guard_incident *incident); /* NULL, or told every incident */
	void *sink_context;
	void (*plant)(struct guard *guard); /* NULL, or breaks the guard, for those who try whether that is noticed */
};

/* ERR_… only where the trial could not be made; whatever the fault brings about is a fact. A crash ends the process. */
int trial_run(const struct trial_run *run, struct trial_facts *out, struct error *e);

/* ---- outcomes (INTEGRITY section 6) ---- */

enum trial_outcome {
	TRIAL_NOT_ACTIVATED,
	TRIAL_MASKED,
	TRIAL_BENIGN, /* a finding where the observed run is masked */
	TRIAL_DETECTED,
	TRIAL_DETECTED_LATE,
	TRIAL_SILENT,
	TRIAL_LEAK,
	TRIAL_CRASH,
	TRIAL_HANG,
	TRIAL_OUTCOME_COUNT
};

const char *trial_outcome_name(enum trial_outcome outcome); /* "not_activated", "masked", … */
bool trial_outcome_find(const char *name, enum trial_outcome *out);

/* A wrong token was not withheld, or nothing came: neither detected nor harmless. */
bool trial_outcome_escaped(enum trial_outcome outcome);

enum trial_outcome trial_observed_outcome(const struct trial_facts *observed);
/* PRECOND: observed is the same plan's. */
enum trial_outcome trial_enforced_outcome(const struct trial_facts *enforced, const struct trial_facts *observed);

/* Requests that have nothing to do with the fault and were changed or ended all the same. */
int trial_collateral(const struct trial_facts *enforced, const struct trial_facts *observed);

#endif
