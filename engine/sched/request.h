/* One request inside the engine: its tokens, its pages, what it wants and what it has so far. All its memory is
 * allocated when it is submitted, so that the token path allocates nothing. */
#ifndef ASSAY_ENGINE_SCHED_REQUEST_H
#define ASSAY_ENGINE_SCHED_REQUEST_H

#include "engine/backend.h"
#include "engine/engine.h"
#include "engine/text/tokenizer.h"

/* What a request maps in one pool: its block table. */
struct mapping {
	int32_t *pages; /* [capacity of the whole request] */
	int n_pages;    /* in use */
	int n_indexed;  /* first pages that are pages of the prefix cache too */
};

struct request {
	struct request *next; /* in the one list that holds it */
	uint64_t id;
	bool aborted; /* withdrawn, to be ended */
	bool ended;   /* finish is set */
	bool stuck;   /* it could not be taken in although nothing ran */
	bool suspect; /* the guard found it bad: its pages go to quarantine */

	int32_t *tokens; /* [n_prompt + max_tokens] prompt, then generated */
	int n_prompt, n_tokens, max_tokens;
	int n_computed; /* tokens whose K, V are in the pages it maps */
	int n_seen;     /* tokens that ever were: beyond them nothing is computed again */
	int rows_next;  /* rows of logits before this position were taken */
	struct mapping map;
	int32_t *spare_pages; /* a second table of that capacity, for the hand-over; NULL where there is none */

	/* held back while that request computes the prefix that both share */
	uint64_t held_for;
	int held_until; /* tokens of it */

	int logprobs_from; /* -1: none */
	int top_logprobs;
	int vocab;
	float *rows; /* the caller's */
	struct sampling sampling;
	bool ignore_eos;
	char *stop_bytes;  /* the stop strings, one after the other */
	struct str *stops; /* [n_stops] into stop_bytes */
	int n_stops;
	size_t longest_stop;
	struct buf bytes; /* generated text so far, raw */

	/* becomes the result */
	float *logprobs;        /* [max_tokens] */
	float *prompt_logprobs; /* [n_prompt - logprobs_from] */
	bool *prompt_greedy;
	int32_t *top_ids; /* [prompt logprobs + max_tokens, top_logprobs] */
	float *top_values;
	enum engine_finish finish;
	bool ended_by_eos;
	struct error error;
	int cached_tokens, preemptions;
	double *token_seconds;               /* [max_tokens] since submission */
	double submitted, started, deadline; /* seconds of the monotonic clock; 0: not yet, none */
};

double clock_seconds(void);

struct request *request_new(const struct engine_request *r, uint64_t id, int vocab, struct error *e);
void request_delete(struct request *r);

/* Number of prompt tokens whose log-probability is wanted. */
int request_prompt_logprobs(const struct request *r);

/* Tokens, of those known, that go through the model. The last token of a prompt that is only scored is never read:
 * nothing is asked of what follows it. */
int request_read_end(const struct request *r);

/* The first position whose row of logits is wanted and was not taken; request_read_end when there is none. The pages
 * of another request can stand in for all tokens before it. */
int request_first_row(const struct request *r);

/* Ends the request; a failure keeps its first error. */
void request_end(struct request *r, enum engine_finish finish);

/* What is wanted of the logits that follow token `position` (which is computed in this step as row `token`): fills *row
 * and returns true, or returns false when nothing is, or it was taken before. */
bool request_wants_row(struct request *r, int position, int token, struct logits_row *row);

/* Takes the row's values, which may end the request. tokenizer may be NULL. */
void request_take_row(struct request *r, int position, const struct logits_row *row, const struct tokenizer *tokenizer,
	const int32_t *eos, int n_eos);

/* The result that the caller sees; the request's arrays move into it and r is deleted. NULL and *e without memory. */
struct engine_result *request_finish(struct request *r, const struct tokenizer *tokenizer, struct error *e);

#endif
