/* Collectives of a rank group, in a fixed order: what tensor-parallel ranks exchange. A sum is never reduced by a
 * library: parts are gathered and added in the tree of NUMERICS section 3. Buffers are [device] memory of the rank's
 * backend. Every rank calls the same collectives in the same order; an error of one rank reaches all. */
#ifndef ASSAY_ENGINE_COMM_H
#define ASSAY_ENGINE_COMM_H

#include <stddef.h>

#include "engine/base/error.h"

struct comm;

enum { COMM_MAX_RANKS = 8 }; /* the most parts that a product has */

struct comm_ops {
	const char *name; /* "self", "threads", "nccl" */
	/* Rank r's `bytes` at `own` land at `all` + r * bytes on every rank. own may lie in its place inside all. */
	int (*all_gather)(struct comm *c, const void *own, size_t bytes, void *all, struct error *e);
	/* values[i] = max over ranks, exact in any order; a NaN is above everything. PRECOND: no value is negative. */
	int (*all_reduce_max)(struct comm *c, float *values, size_t count, struct error *e);
	/* A message: each of the two may wait for the other. */
	int (*send)(struct comm *c, int to, const void *data, size_t bytes, struct error *e);
	int (*receive)(struct comm *c, int from, void *data, size_t bytes, struct error *e);
	int (*barrier)(struct comm *c, struct error *e);
	/* This rank cannot go on: every op of the group that waits, or comes later, on this rank too, returns an error
	 * that names the rank and the cause. Of several such calls the first counts. */
	void (*give_up)(struct comm *c, const struct error *cause);
	void (*destroy)(struct comm *c);
};

struct comm {
	const struct comm_ops *ops;
	int rank, size;
};

/* A group of one: nothing to exchange, nobody to tell. Static; destroy does nothing. */
struct comm *comm_self(void);

#endif
