/* One request inside the engine: its tokens, its pages, what it wants and what it has so far. All its memory is
 * allocated when it is submitted, so that the token path allocates nothing. */
#ifndef ASSAY_ENGINE_SCHED_REQUEST_H
#define ASSAY_ENGINE_SCHED_REQUEST_H

#include "engine/backend.h"
#include "engine/engine.h"
#include "engine/text/tokenizer.h"

struct request {
	struct request *next; /* in the one list that holds it */
	uint64_t id;
	bool aborted;

	int32_t *tokens; /* [n_prompt + max_tokens] prompt, then generated */
	int n_prompt, n_tokens, max_tokens;
	int n_computed; /* tokens whose K, V are in the cache */
	int32_t *pages; /* [n_pages] block table, while it runs */
	int n_pages;    /* reserved for its whole length */

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
	double submitted, first; /* seconds of the monotonic clock; first 0: no token yet */
};

double clock_seconds(void);

struct request *request_new(const struct engine_request *r, uint64_t id, int vocab, struct error *e);
void request_delete(struct request *r);

/* Number of prompt tokens whose log-probability is wanted. */
int request_prompt_logprobs(const struct request *r);

/* Tokens that still have to go through the model. The last token of a prompt that is only scored is never read: nothing
 * is asked of what follows it. */
int request_pending(const struct request *r);

/* What is wanted of the logits that follow token `position` (which is computed in this step as row `token`): fills *row
 * and returns true, or returns false when nothing is. */
bool request_wants_row(struct request *r, int position, int token, struct logits_row *row);

/* Takes the row's values. Returns true when the request has ended (finish is set). tokenizer may be NULL. */
bool request_take_row(struct request *r, int position, const struct logits_row *row, const struct tokenizer *tokenizer,
	const int32_t *eos, int n_eos);

/* The result that the caller sees; the request's arrays move into it and r is deleted. NULL and *e without memory. */
struct engine_result *request_finish(struct request *r, const struct tokenizer *tokenizer, struct error *e);

#endif
