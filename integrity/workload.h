/* A small workload drawn from a seed, made to come by every place where bookkeeping can break: families of shared
 * prefixes, pages that are alike after different ones, repeated prompts, lengths around page edges, chunks, aborts, pools
 * small enough for evictions and preemption, padding, hand-over, two tenants. */
#ifndef ASSAY_INTEGRITY_WORKLOAD_H
#define ASSAY_INTEGRITY_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

enum {
	WORKLOAD_REQUESTS = 16,  /* at most */
	WORKLOAD_PROMPT = 48,    /* tokens, at most */
	WORKLOAD_GENERATED = 12, /* at most */
	WORKLOAD_FAMILIES = 3,
};

struct workload_request {
	int32_t tokens[WORKLOAD_PROMPT];
	int n_tokens, max_tokens;
	int logprobs_from; /* -1: none */
	float temperature;
	uint64_t seed;   /* of sampling */
	int submit_step; /* before which step of the engine it arrives */
	int abort_step;  /* before which it is withdrawn; -1: never */
	int tenant;
};

struct workload {
	uint64_t seed;
	const char *variant;
	int page_size, pages; /* pages: of the smaller pool, page 0 among them */
	int max_requests, max_batch_tokens, chunk;
	bool pad_decode;
	int n;
	struct workload_request requests[WORKLOAD_REQUESTS]; /* in order of submission */
};

/* Token ids are below vocab. */
void workload_make(struct workload *w, uint64_t seed, int vocab);

/* The variants that workloads are drawn from; NULL after the last. */
const char *workload_variant(int i);

#endif
