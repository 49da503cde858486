/* A closed-loop load: a number of equal requests is in flight, and a new one is submitted as one ends. */
#ifndef ASSAY_EVALS_LOAD_H
#define ASSAY_EVALS_LOAD_H

#include "engine/engine.h"
#include "evals/distribution.h"

struct load {
	int concurrency;   /* requests in flight */
	int requests;      /* all of them, at least concurrency */
	int input, output; /* tokens of each prompt and answer */
	int shared_prefix; /* prompt tokens that are the same in all */
	uint64_t seed;     /* of the prompts: ids that are no text */
	uint64_t
		first_request; /* number of the first: requests of one seed and different numbers share only the prefix */
};

/* Steps that have something in common, added up. */
struct load_steps {
	int64_t steps;
	uint64_t prompt_tokens, generated_tokens; /* computed in them */
	double seconds;
};

struct load_result {
	struct load_steps prefill; /* steps that computed prompt tokens; answers may go on in them */
	struct load_steps decode;  /* steps without */
	double seconds;            /* from the first submission to the last end */
	uint64_t cached_tokens, replayed_tokens, preemptions;
	int running_peak;
	double queued_longest; /* seconds that a request waited to run */
	double latency;        /* seconds of all requests added up */
	/* Milliseconds, as SGLang's bench_serving defines them. ttft: from submission to the first token. itl: between a
	 * token and the next of its request. tpot: (e2e - ttft) / (output - 1), of answers of two tokens and more.
	 * e2e: from submission to the last token. */
	struct distribution ttft, itl, tpot, e2e;
};

/* Prompt number `number` of a load, of load->input ids below vocab. */
void load_prompt(const struct load *load, uint64_t number, int vocab, int32_t *tokens);

/* Requests that can never run are refused before anything is measured: ERR_USAGE. */
int load_check(const struct load *load, const struct engine_facts *f, struct error *e);

/* Runs a load on an engine that does nothing else. ERR_INTERRUPTED after a signal. *out is to be freed also after a
 * failure. */
int load_run(struct engine *engine, const struct load *load, struct load_result *out, struct error *e);
void load_result_free(struct load_result *r);

/* Submits the load's first `concurrency` requests at once and runs them to their end without replacing one. *fits:
 * all ran from the first step on, none waited and none gave its pages up. It is known to be false, and the rest is
 * given up, as soon as one does. */
int load_fits(struct engine *engine, const struct load *load, bool *fits, struct error *e);

#endif
