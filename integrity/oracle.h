/* The oracle: what every slot of the KV cache truly holds, and whether what is read is what the reader's own tokens
 * demand. It believes no table, list, count or cache: it stands between the engine and its backend, where it sees the
 * slots that are really written, the tables, lengths, scales and memory that attention is really given, copies and
 * uploads; and between the engine and its guard, which tell it whose tokens a sequence stands for.
 *
 * Of each slot it keeps the hash of (token, position, all that was really read before). A read of another hash than the
 * reader's tokens have is contaminated, and so is what is then written; it is a leak when the values came from another
 * request's tokens.
 *
 * It only watches, with one exception: an access outside of the cache is not carried out. The step fails instead, as it
 * would on a device. */
#ifndef ASSAY_INTEGRITY_ORACLE_H
#define ASSAY_INTEGRITY_ORACLE_H

#include "engine/kv/kv_pool.h"
#include "integrity/fault.h"

enum { ORACLE_REQUESTS = 64, ORACLE_SEQUENCES = 64, ORACLE_TOKENS = 1024, ORACLE_WRITTEN = 1 << 13 };

/* By request id, which counts from 1. */
struct oracle_request {
	int stands;         /* tokens that are computed */
	bool contaminated;  /* it read what is not its own */
	bool leaked;        /* and that came from another request's tokens */
	uint64_t leak_from; /* which was the first such request */
	bool touched;       /* it mapped, read or wrote a marked page */
};

struct oracle_slot {
	uint64_t chain;  /* what is really there; 0: nothing */
	uint64_t text;   /* what the writer's own tokens are, up to this one */
	uint64_t writer; /* request; 0: nobody's */
	bool foreign;    /* it depends on values of other tokens than the writer's */
};

struct oracle;

struct oracle_pool {
	struct oracle *oracle;
	const struct kv_pool *pool;
	void *guard_state;         /* of the guard behind it */
	struct kv_layer *layers;   /* [n_layers] as they were at the start */
	struct oracle_slot *slots; /* [P * page_size] */
	uint8_t *marked;           /* [P] given to the prefix cache by the request that is marked */
};

/* One sequence of the step. */
struct oracle_sequence {
	uint64_t request; /* 0: padding */
	const int32_t *own;
	int begin, count, stands;
	bool parked; /* the guard named it: it reads and writes page 0 */
	bool contaminated, foreign;
};

struct oracle {
	struct backend_ops ops; /* first: a backend's ops lead back here */
	const struct backend_ops *inner;
	struct kv_guard table; /* for engine_config.guard */
	const struct kv_guard *guard;
	const struct fault_mark *mark; /* NULL: none */
	struct oracle_pool pools[2];
	int n_pools;
	struct oracle_request requests[ORACLE_REQUESTS];
	bool next_taken_in; /* the request that the mark calls the next one */

	/* the step */
	struct oracle_pool *pool;
	struct oracle_sequence sequences[ORACLE_SEQUENCES];
	int n_sequences, layer;
	const int32_t *ids, *positions;
	int64_t slots[ORACLE_TOKENS];
	uint64_t poison;  /* the last hash that stands for nothing */
	const char *trap; /* an access outside of the cache, in words; NULL: none */

	struct {
		uint64_t values, writer;
	} written[ORACLE_WRITTEN]; /* of the first layer's K, by hash */

	uint64_t reads, bad_reads; /* slots */
};

/* The backend is from now on watched, and must be the engine's that is given oracle->table as its guard. The oracle must
 * not move, and must outlive the engine. */
void oracle_init(
	struct oracle *o, struct backend *backend, const struct kv_guard *guard, const struct fault_mark *mark);

/* Hash of (token, position) after what comes before; 0 before the first. */
uint64_t oracle_chain(uint64_t before, int32_t token, int32_t position);

#endif
