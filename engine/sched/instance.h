/* An instance: one copy of the model with its own page pool, prefix cache and running requests. An engine has one, or for
 * a split variant two: one that computes prompts, one that goes on from there. What is here is the bookkeeping of
 * pages: which a request maps, shares, copies and gives up. */
#ifndef ASSAY_ENGINE_SCHED_INSTANCE_H
#define ASSAY_ENGINE_SCHED_INSTANCE_H

#include "engine/kv/radix_cache.h"
#include "engine/model/forward.h"
#include "engine/sched/request_list.h"

struct instance {
	struct model *models; /* [ranks] */
	struct kv_pool *pool;
	struct radix_cache cache;
	bool caching;
	uint64_t writer;     /* the variant whose values the pages hold */
	bool prompts_only;   /* another instance goes on where the prompt ends */
	bool prompts_arrive; /* from that other instance, by hand-over */
	int max_requests;    /* that run at a time */
	struct request_list running;
	struct engine_stats *stats; /* the engine's */
};

/* writer: the variant as text. */
int instance_init(struct instance *in, struct model *models, struct kv_pool *pool, const char *writer,
	struct engine_stats *stats, struct error *e);
void instance_free(struct instance *in); /* and its running requests */

int instance_pages(const struct instance *in, int tokens); /* that hold so many */

/* Tokens of the request that go through this instance's model, and how many of them are still to go. */
int instance_read_end(const struct instance *in, const struct request *r);
int instance_pending(const struct instance *in, const struct request *r);

/* Takes a request in: pages of the cache as far as they reach, fresh ones for the rest of what is known of it. False, and
 * nothing changed, when there is no place or are no pages for it. PRECOND: it maps nothing. */
bool instance_admit(struct instance *in, struct request *r);

/* The same by hand-over from an instance where the prompt was computed. A request that the guard refuses is taken in too,
 * ended. */
bool instance_receive(struct instance *in, struct instance *from, struct request *r);

/* A page for what the request computes next, where it has none: false when no page is free or idle. */
bool instance_grow(struct instance *in, struct request *r);

/* Puts what is whole of the request's pages, after its tokens were published, in the cache. */
void instance_index(struct instance *in, struct request *r);

/* The request leaves: its pages are given up. keep: what it computed stays in the cache; otherwise whatever it added is
 * taken out of it. */
void instance_release(struct instance *in, struct request *r, bool keep);

#endif
