/* The result store: one SQLite file that keeps every run, its variants, every answer and what was measured.
 *
 * Each write is a transaction of its own, so that a process that is killed loses nothing that it was told is stored. A
 * run is written by one process at a time: it holds a lock on a byte of FILE-lock, which the system gives back when the
 * process ends in whatever way; so a run that says 'running' without its lock was left by a dead process and counts as
 * interrupted.
 * A store belongs to one thread. Errors name the file. */
#ifndef ASSAY_REPORTS_STORE_H
#define ASSAY_REPORTS_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/str.h"

enum { STORE_SCHEMA_VERSION = 2 };

struct store;

/* Opens FILE for writing, and makes it and its folders where they are missing; an older schema is migrated, after a
 * copy of the file as it was is kept beside it: FILE-v1 for schema version 1.
 * ERR_INPUT: not a database, not one of Assay's, of a newer version. ERR_MISSING: a folder. ERR_IO: no permission.
 * ERR_STORE: locked for longer than STORE_PATIENCE, full disk, damaged. */
int store_open(const char *path, struct store **out, struct error *e);

/* Opens FILE for reading, also while another process writes it, and from a folder that cannot be written.
 * ERR_MISSING when there is none. */
int store_open_reading(const char *path, struct store **out, struct error *e);

/* Gives a run that was not finished back (it stays resumable). NULL is fine. */
void store_close(struct store *s);

/* Closes a store and, where opening it had made the file and it holds no run, removes that file again: after a failure
 * nothing is left behind. NULL is fine. */
void store_discard(struct store *s);

const char *store_path(const struct store *s);

/* Milliseconds that a write waits for another process's write. */
enum { STORE_PATIENCE = 5000 };

/* ---- Runs ---- */

enum run_status { RUN_RUNNING, RUN_COMPLETE, RUN_INTERRUPTED, RUN_FAILED };
const char *run_status_name(enum run_status status);

enum { STORE_UID_SIZE = 17 };

/* Everything that says how a run came about. Strings are borrowed; NULL is unknown unless marked "needed". */
struct store_run {
	/* given by the store */
	int64_t run_id;         /* 1, 2, 3, …: never used twice in one file */
	const char *uid;        /* 'r' and 15 hex digits: the run's name in any file */
	enum run_status status; /* as seen now: a dead process's run is RUN_INTERRUPTED */
	int64_t started;        /* nanoseconds since 1970, UTC */
	int64_t finished;       /* 0: not yet */
	double seconds;         /* at work, over all resumptions */
	int resumptions;
	const char *host; /* of the last process that wrote it */
	int64_t pid;

	/* given by the caller */
	const char *kind;        /* needed: "run", "bench", "overhead", "inject" */
	const char *config_hash; /* needed: equal for runs that may go on with each other */
	const char *version;     /* needed: of the program */
	const char *command;     /* needed: the command line */
	const char *model;       /* needed: path or name */
	const char *model_fingerprint, *tokenizer_hash, *template_hash;
	const char *numerics_id;
	bool for_gating;       /* false: --limit was given */
	struct str provenance; /* needed: JSON object of the rest: engine options, data files with hashes, seeds */
};

/* The newest run of that configuration that is not complete; 0 in *run_id when there is none. Changes nothing. */
int store_run_find_resumable(struct store *s, const char *config_hash, int64_t *run_id, struct error *e);

/* Goes on with that run, or starts a new one when there is none, and takes its lock: in one step, so that two processes
 * never write one run. ERR_STORE, naming the other process, when that run is being written. *run_id is 0 after a failure.
 * PRECOND: no other run was begun by this store and not finished. */
int store_run_begin(struct store *s, const struct store_run *run, int64_t *run_id, bool *resumed, struct error *e);

/* Ends the run that was begun and gives its lock back. PRECOND: status is not RUN_RUNNING. */
int store_run_finish(struct store *s, enum run_status status, struct error *e);

/* Finds RUN as a user writes it: an id, `latest`, or the beginning of one uid. ERR_USAGE otherwise. */
int store_run_find(struct store *s, const char *text, int64_t *run_id, struct error *e);

/* ---- Variants ---- */

struct store_variant {
	int64_t variant_id; /* given by the store; unique in the file */
	const char *name;   /* "int4/fp8" */
	int64_t weights_bytes, kv_bytes_per_token, kv_tokens;
	struct str facts; /* JSON object of the rest: KV scales and their origin, saturated values */
};

/* Adds a variant to the run that was begun, or renews its facts when the run has that name already. */
int store_variant_add(struct store *s, const struct store_variant *variant, int64_t *variant_id, struct error *e);

/* ---- Samples ---- */

enum sample_status {
	SAMPLE_OK,
	SAMPLE_TRUNCATED, /* ended by the length limit */
	SAMPLE_EMPTY,     /* no text */
	SAMPLE_ERROR,     /* no answer; `error` says why */
	SAMPLE_STATUS_COUNT
};
const char *sample_status_name(enum sample_status status);

struct store_sample {
	int64_t variant_id;
	const char *suite, *task;
	int64_t doc_id;
	const char *doc_hash, *prompt_hash, *target_hash; /* sha256, hex */
	/* JSON texts (json_write_string keeps U+0000 and every character; NaN and Infinity are no JSON: write null) */
	struct str response;               /* a string, or one [log-probability, is_greedy] per choice */
	struct str filtered;               /* object: filter → text */
	struct str metrics;                /* object: "metric,filter" → number */
	struct str tokens, token_logprobs; /* arrays over the generated tokens; length 0: not kept */
	enum sample_status status;
	const char *finish_reason; /* NULL: none */
	const char *error;         /* NULL: none */
	int64_t prompt_tokens, cached_tokens, generated_tokens;
	int64_t context_cut; /* prompt tokens dropped from the beginning: longer than the model's context */
	double seconds;
};

/* Stores one answer. (variant, suite, task, doc_id) is answered once in a run: a second one is ERR_STORE. */
int store_sample_insert(struct store *s, const struct store_sample *sample, struct error *e);

/* Stores an answer in place of the error that the run that was begun holds for that item. ERR_STORE when it holds none.
 */
int store_sample_retry(struct store *s, const struct store_sample *sample, struct error *e);

enum store_answered {
	STORE_NEW, /* not answered yet */
	STORE_ANSWERED,
	STORE_FAILED,  /* the same, but the answer is an error: store_sample_retry may put another in its place */
	STORE_CHANGED, /* answered, but for another document or prompt: the data changed under the run */
};

/* Whether the run that was begun holds an answer to that item. A few microseconds: meant to be asked for every item. */
int store_sample_answered(struct store *s, int64_t variant_id, const char *suite, const char *task, int64_t doc_id,
	const char *doc_hash, const char *prompt_hash, enum store_answered *answered, struct error *e);

/* ---- Results of suites ---- */

struct store_result {
	int64_t variant_id;
	const char *suite;
	const char *task;   /* NULL: the suite as a whole */
	const char *metric; /* "exact_match,strict-match" */
	int64_t n;
	double value;
	double stderr_value; /* NaN: none */
};

/* Stores a result of the run that was begun, in place of an earlier one of the same name. */
int store_suite_result_put(struct store *s, const struct store_result *result, struct error *e);

/* ---- Measurements ---- */

/* Arms of an overhead measurement: what all are compared with, and the same once more (the A/A null), whose difference is
 * what the measurement can resolve. */
#define STORE_ARM_NONE "none"
#define STORE_ARM_NULL "none (A/A)"
/* Members of the detail of an arm in a block: processor time for a token of the answers, each request's latency. */
#define STORE_CPU_US "cpu_us_per_token"
#define STORE_LATENCIES "latencies_ms"

/* One point of a benchmark, or one arm in one block of an overhead measurement. Numbers are NaN where they were not
 * measured; latencies are JSON objects of milliseconds (mean, median, p95, p99), length 0 where not measured. */
struct store_measurement {
	int64_t variant_id;
	const char *arm;   /* guard level */
	int64_t block;     /* of interleaved arms; 0 in a benchmark */
	const char *phase; /* "prefill", "decode", "mixed" */
	int64_t concurrency, input_tokens, output_tokens;
	int64_t started; /* nanoseconds since 1970, UTC */
	double seconds;
	double tokens_per_s;
	struct str ttft_ms, itl_ms, tpot_ms, e2e_ms;
	double share_of_floor, guard_us_per_step, step_us;
	struct str detail; /* JSON object of the rest */
};

/* Stores a measurement of the run that was begun, in place of an earlier one of the same point (variant, arm, block,
 * phase, concurrency, input and output tokens). */
int store_measurement_put(struct store *s, const struct store_measurement *m, struct error *e);

/* ---- Incidents ---- */

/* One firing of a check of a guard. */
struct store_incident {
	int64_t fault_trial_id; /* 0: of no planned fault */
	const char *variant;
	int64_t time; /* nanoseconds since 1970, UTC */
	const char *check, *phase;
	uint64_t request;      /* of the engine; 0: none is named */
	int64_t page, logical; /* -1: none */
	uint64_t expected, actual;
	uint64_t step;
	int64_t tokens_emitted;
	struct str detail; /* JSON object */
};

/* Adds an incident to the run that was begun. */
int store_incident_insert(struct store *s, const struct store_incident *incident, struct error *e);

/* ---- Trials of fault campaigns ---- */

struct store_fault_trial {
	int64_t fault_trial_id; /* given by the store */
	int64_t trial;
	const char *mode;  /* "observed", "enforced" */
	const char *level; /* of the guard */
	const char *variant;
	uint64_t seed, workload;
	const char *site, *model; /* "pool.free.early", "M1" */
	int64_t occurrence, target;
	const char *outcome; /* "detected", "silent", … */
	const char *check;   /* the first that fired, NULL: none */
	int64_t late_tokens, collateral;
	const char *replay; /* the line that does it again */
	struct str detail;  /* JSON object of the rest */
};

/* Trials of one site that are alike. */
struct store_fault_count {
	const char *level, *model, *site; /* level NULL: the observed run */
	const char *key;                  /* outcome; of an observed run: a check that fired */
	int64_t n;
};

/* Stores all runs of one trial and what guards found in them, in one transaction. fault_trial_id of an incident is here
 * the number of its row, from 1 on. */
int store_fault_trials_insert(struct store *s, const struct store_fault_trial *rows, int n,
	const struct store_incident *incidents, int n_incidents, struct error *e);

/* ---- Reading ----
 * Each calls visit once per row; what it is given is borrowed and gone after the call. A negative status of visit ends
 * the reading and is returned. */

typedef int store_visit_run(void *context, const struct store_run *run, struct error *e);
typedef int store_visit_variant(void *context, const struct store_variant *variant, struct error *e);
typedef int store_visit_result(void *context, const struct store_result *result, struct error *e);
typedef int store_visit_measurement(void *context, const struct store_measurement *m, struct error *e);
typedef int store_visit_incident(void *context, const struct store_incident *incident, struct error *e);
typedef int store_visit_fault_count(void *context, const struct store_fault_count *count, struct error *e);
typedef int store_visit_fault_trial(void *context, const struct store_fault_trial *t, struct error *e);
typedef int store_visit_sample(void *context, const struct store_sample *sample, struct error *e);

/* All runs, oldest first, or (run_id > 0) that one. */
int store_runs_each(struct store *s, int64_t run_id, store_visit_run *visit, void *context, struct error *e);
/* In the order in which they were added. */
int store_variants_each(struct store *s, int64_t run_id, store_visit_variant *visit, void *context, struct error *e);
/* By suite and metric as they were first put, then by variant. A suite as a whole is its own task. */
int store_results_each(struct store *s, int64_t run_id, store_visit_result *visit, void *context, struct error *e);
/* By variant, arm, phase, input, output, concurrency and block. */
int store_measurements_each(
	struct store *s, int64_t run_id, store_visit_measurement *visit, void *context, struct error *e);
/* In the order in which they were found. */
int store_incidents_each(struct store *s, int64_t run_id, store_visit_incident *visit, void *context, struct error *e);
/* By trial, then as they were added. */
int store_fault_trials_each(
	struct store *s, int64_t run_id, store_visit_fault_trial *visit, void *context, struct error *e);
/* How many trials of each site ended how at each level, by level, model and site. */
int store_fault_outcomes_each(
	struct store *s, int64_t run_id, store_visit_fault_count *visit, void *context, struct error *e);
/* In how many trials that the fault did not leave masked each check fired in the observed run, by model and site. */
int store_fault_checks_each(
	struct store *s, int64_t run_id, store_visit_fault_count *visit, void *context, struct error *e);
/* By variant, suite, task and doc_id; variant_id 0: of every variant; suite NULL: of every suite. Before an ERR_INPUT of
 * the visitor stand the file, the run and the item. */
int store_samples_each(struct store *s, int64_t run_id, int64_t variant_id, const char *suite,
	store_visit_sample *visit, void *context, struct error *e);

/* What a run's samples add up to, per variant and suite. */
struct store_count {
	int64_t variant_id;
	const char *suite;
	int64_t n;
	int64_t by_status[SAMPLE_STATUS_COUNT];
	int64_t contexts_cut; /* samples whose context lost its beginning */
	int64_t prompt_tokens, cached_tokens, generated_tokens;
};
typedef int store_visit_count(void *context, const struct store_count *count, struct error *e);
int store_counts_each(struct store *s, int64_t run_id, store_visit_count *visit, void *context, struct error *e);

#endif
