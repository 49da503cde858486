/* What a guard knows of one pool. Internal to the guard's files. */
#ifndef ASSAY_INTEGRITY_GUARD_STATE_H
#define ASSAY_INTEGRITY_GUARD_STATE_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "engine/kv/kv_pool.h"
#include "integrity/guard.h"
#include "integrity/guard_memory.h"

/* Tags that no page ever has: of a logical page that is not mapped, of an entry of the cache that is not to be used. */
#define TAG_UNMAPPED UINT64_MAX
#define TAG_DISTRUSTED (UINT64_MAX - 1)

enum {
	SOILED_WRITTEN = 1, /* somebody wrote there who should not */
	SOILED_CONTENT = 2, /* the digest is another */
};

/* What is expected of one request: one line of the caches. */
struct guard_row {
	uint64_t request;    /* 0: the row is free */
	uint64_t issued_tag; /* of the page allocated for it and not mapped yet; 0: none */
	uint64_t chain;      /* that the last ready token should have */
	uint64_t written;    /* that was written with it */
	int32_t issued_page;
	int n_mapped;        /* logical pages */
	int n_ready;         /* tokens whose K, V are in them */
	int n_full;          /* leading pages that were seen full */
	int emitted;         /* tokens generated, as of the last batch */
	uint32_t fired;      /* bit per check that has named it */
	int distrusted_from; /* logical page from which on the cache's pages are not what they should be */
	bool condemned;
};

enum { GUARD_RANGES = 7 };

struct guard_range {
	const void *from;
	size_t bytes;
};

/* What a check of a batch reads of it comes first, so that it lies in few lines of the caches: nothing of a guard is in
 * them any more when a step has read its weights. */
struct guard_state {
	struct guard *guard;
	struct kv_guard_layout layout;
	uint64_t step; /* of the last batch */
	uint64_t tick;

	/* by page */
	uint64_t *tags;    /* [P] 0: not allocated */
	uint16_t *holders; /* [P] requests that should map it */
	uint16_t *fill;    /* [P] slots written, from the first on; from pages on */
	int32_t *tokens;   /* [P, page_size] last written to each slot; from pages on */
	uint64_t *chain;   /* [P, page_size] from chain on */
	uint8_t *sealed;   /* [P] digests holds; digest */
	/* by request: rows as the block tables */
	struct guard_row *rows;
	uint64_t *expected_tags; /* [n_rows, stride] */
	int32_t *expected_pages; /* [n_rows, stride] */
	int n_rows, stride, most_sequences;
	int lookup_size; /* a power of two */
	int32_t *lookup; /* [lookup_size] row + 1 by hash of the request, 0: empty */
	/* of one verify */
	struct guard_row **row_of;                 /* [most_sequences] NULL: padding, or unknown */
	int32_t *row_numbers, *n_used, *first_bad; /* [most_sequences] */
	bool deferred;                             /* first_bad of the check before the reads comes with the step */
	uint8_t *parked;         /* [most_sequences] by the device: nothing of the sequence was read or written */
	struct kv_layer *layers; /* [n_ranks, n_layers] as they should be; from pages on */
	struct kv_geometry geometry;
	bool layout_broken;

	struct guard_range ahead[GUARD_RANGES]; /* what every check reads besides (guard_ahead.c) */

	struct guard_memory memory; /* all of it, but for what digest adds */
	int pool_number;
	uint64_t last_tag;
	uint64_t *index_tags; /* [P] tag that the prefix cache's entry stands for, 0: no entry */
	uint8_t *reported;    /* [P] an audit or a sweep has named it */
	uint8_t *listed;      /* [P] scratch of an audit: times on the free list; 0 between audits */
	int32_t audit_next;   /* page that the last audit of a part ended with */
	bool idle_reported;   /* by an observing guard, which does not mend the count */
	bool list_broken;     /* an entry of the free list is no page */
	uint8_t *soiled;      /* [P] SOILED_…: its values are known to be wrong */
	/* from pages on */
	uint64_t *parent_tags; /* [P] of the cache's page before it */
	uint64_t *writers;     /* [P] of the cache's entry */
	uint64_t *sent_tags;   /* [P] tag that the page had when a hand-over was complete */
	/* digest */
	uint64_t *digests; /* [P] */
	void *scratch;     /* values of one head of a page; [device] target of a conversion */
	struct kv_layer staged[COMM_MAX_RANKS];
	int sweep_next;
};

/* What a check found. */
struct finding {
	enum guard_check check;
	enum guard_moment moment;
	int32_t page, logical;
	uint64_t expected, actual;
	const char *what;
};

static inline enum guard_level state_level(const struct guard_state *s)
{
	return s->guard->options.level;
}

/* Layers of all ranks, one rank after the other. */
static inline int layers_count(const struct guard_state *s)
{
	return s->layout.pool->n_ranks * s->layout.n_layers;
}

static inline bool page_inside(const struct guard_state *s, int64_t page)
{
	return page >= 1 && page < s->layout.n_pages;
}

static inline uint64_t *row_tags(const struct guard_state *s, const struct guard_row *row)
{
	return s->expected_tags + (size_t)(row - s->rows) * (size_t)s->stride;
}

static inline int32_t *row_pages(const struct guard_state *s, const struct guard_row *row)
{
	return s->expected_pages + (size_t)(row - s->rows) * (size_t)s->stride;
}

static inline size_t slot_of(const struct guard_state *s, int32_t page, int offset)
{
	return (size_t)page * (size_t)s->layout.page_size + (size_t)offset;
}

static inline void check_ran(struct guard_state *s, enum guard_check check)
{
	s->guard->ran[check]++;
}

/* What hardly ever runs: kept away from the code of the checks. */
#define RARE __attribute__((cold, noinline))
/* What runs in every step: side by side, for its pages of code too are forgotten between two checks. */
#define EVERY_STEP __attribute__((hot))

/* Records the finding, once per request and check, and condemns the request when the guard enforces. row NULL: it names
 * no request. */
RARE void guard_fire(struct guard_state *s, struct guard_row *row, const struct finding *f);

/* guard_rows.c */
struct guard_row *row_find(const struct guard_state *s, uint64_t request);
/* The same, where it probably is the row of that number. */
static inline struct guard_row *row_again(const struct guard_state *s, uint64_t request, int32_t number)
{
	struct guard_row *row = &s->rows[number];
	return request != 0 && row->request == request ? row : row_find(s, request);
}
struct guard_row *row_take(struct guard_state *s, uint64_t request); /* adds it; NULL: none is free */
int guard_reserve(void *state, int max_requests, int table_stride, struct error *e);
void guard_page_allocated(void *state, int32_t page, uint64_t request);
void guard_page_freed(void *state, int32_t page, uint64_t request);
void guard_page_mapped(void *state, uint64_t request, int logical, int32_t page);
int guard_page_standing(void *state, uint64_t request, int logical, int32_t page);
void guard_request_released(void *state, uint64_t request);
/* The finding for every request that should map its page, or for none when nobody does. */
void mappers_fire(struct guard_state *s, const struct finding *f);

/* guard_prefix.c */
void guard_page_indexed(void *state, const struct kv_guard_key *key);
void guard_page_unindexed(void *state, int32_t page);
int guard_copy_begin(void *state, const struct kv_guard_copy *copy, struct error *e);
void guard_copy_end(void *state, const struct kv_guard_copy *copy);
int guard_request_admitted(void *state, const struct kv_guard_admission *admission, struct error *e);
/* The slots of a page that was copied or handed over, as far as the guard follows them. */
void slots_carry(struct guard_state *to, const struct guard_state *from, int32_t target, int32_t source, int n_tokens);

/* guard_verify.c */
EVERY_STEP int guard_verify(
	void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad, struct error *e);
void guard_not_validated(void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, int b);
uint64_t chain_next(uint64_t before, int32_t token, int32_t position);

/* guard_transfer.c */
int guard_transfer_read(
	void *state, enum kv_guard_phase phase, uint64_t request, const int32_t *pages, int n_tokens, struct error *e);
void guard_transfer_sent(void *state, const struct kv_guard_transfer *transfer);
int guard_transfer_received(void *state, const struct kv_guard_transfer *transfer, struct error *e);

/* guard_ahead.c: what every check reads, and then what it reads for the sequences of this batch, is on its way into the
 * caches. PRECOND of the second: the sequences are parts of the batch. */
void ahead_plan(struct guard_state *s);
EVERY_STEP void check_ahead(const struct guard_state *s, const struct kv_guard_batch *batch);
EVERY_STEP void batch_ahead(const struct guard_state *s, const struct kv_guard_batch *batch);

/* guard_audit.c */
EVERY_STEP void guard_step_begin(void *state, uint64_t tick);
void guard_audit(void *state);

/* guard_layout.c */
void guard_scales_set(void *state, int layer, float k_scale, float v_scale);
EVERY_STEP bool layout_holds(struct guard_state *s, enum guard_moment moment); /* false: fired */

/* guard_digest.c */
int digest_open(struct guard_state *s, struct error *e);
void digest_close(struct guard_state *s);
void page_seal(struct guard_state *s, int32_t page);
/* False when the page is sealed and its values are others by now: it is soiled then. */
bool page_content_holds(struct guard_state *s, int32_t page);
bool pages_alike(struct guard_state *s, int32_t a, int32_t b, int n_tokens);
/* The target page holds what copying the source's first n_tokens slots from the other pool gives. */
bool transfer_alike(struct guard_state *s, const struct kv_pool *from, const struct kv_guard_transfer *t);
void pages_sweep(struct guard_state *s);

/* ERR_DEVICE with the message of a refusal. */
int guard_refuse(const struct guard_state *s, uint64_t request, struct error *e);

#endif
