/* What the CUDA backend asks of rows of logits and gets back: struct logits_row of engine/backend.h, flat, so that an
 * array of them crosses to the device and back in one copy each. */
#ifndef ASSAY_CUDA_LOGITS_H
#define ASSAY_CUDA_LOGITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/backend.h"

/* All zero but target = -1: nothing is wanted beside the argmax (rows that pad a batch). */
struct logits_request {
	int32_t target;    /* -1: none */
	int32_t top_count; /* 0: none; at most logits_tail_args.top_stride and V */
	bool sample;
	bool all; /* the row of logits becomes its log-probabilities, after all else is done */
	struct sampling sampling;
	uint64_t position; /* of the token that is drawn */
};

struct logits_result {
	int32_t argmax;        /* lowest id among equals; 0 where no logit is above minus infinity */
	int32_t sampled;       /* where sample is set */
	float sampled_logprob; /* of sampled by the plain distribution */
	float target_logprob;  /* where target >= 0 */
	float max, log_sum;    /* log p = (logit - max) - log_sum; NaN in a row makes log_sum NaN */
};

enum { LOGITS_TOP_MAX = 128 }; /* most tokens that a row may list: the engine's limit is 20 */

/* PRECOND: logits aligned to 4 bytes, scratch to 16. */
struct logits_tail_args {
	float *logits; /* [device] [n_rows, V] */
	int n_rows, vocab;
	const struct logits_request *requests; /* [device] [n_rows] */
	struct logits_result *results;         /* [device] [n_rows] */
	int top_stride;                        /* 0..LOGITS_TOP_MAX: room of a row in top_ids and top_logprobs */
	int32_t *top_ids;                      /* [device] [n_rows, top_stride] descending, lowest id among equals */
	float *top_logprobs;                   /* [device] [n_rows, top_stride] */
	bool any_all;                          /* whether a request has all set */
	void *scratch;                         /* [device] logits_tail_scratch_bytes */
};

size_t logits_tail_scratch_bytes(int n_rows, int vocab);

#endif
