/* The prefix cache: a tree over the pages of one pool, in which the way from the root to a page spells the tokens whose
 * K, V it holds. One node is one page, named by its number; inner nodes are full pages, a leaf may be filled in part. A
 * hit counts in tokens: whole pages are shared, and of the page that follows the best match's first tokens may be copied.
 *
 * The key is the whole token sequence, compared token by token, and the writer: the variant whose weights and cache
 * format made the values. Siblings differ in at least one token that both have.
 *
 * The cache is one holder of each of its pages (kv_pool_cache). Pages that it holds alone are idle and are given up by
 * least recent use, leaves first: a page is always as recently used as its descendants, so the oldest is a leaf. Nothing
 * is allocated after radix_cache_init. */
#ifndef ASSAY_ENGINE_KV_RADIX_CACHE_H
#define ASSAY_ENGINE_KV_RADIX_CACHE_H

#include "engine/kv/kv_pool.h"

struct radix_node {
	int32_t parent; /* page before it, 0: it holds a sequence's first tokens */
	int32_t n_tokens, n_children;
	int32_t older, newer;     /* neighbours in the order of use, 0: none */
	uint64_t writer, request; /* who made the values: variant, and the request that added the page */
};

struct radix_cache {
	struct kv_pool *pool;
	struct radix_node *nodes; /* [P] by page */
	int32_t *tokens;          /* [P, page_size] */
	int32_t *index;           /* [n_nodes] pages in order of (parent, writer, tokens): siblings are neighbours */
	int n_nodes;
	int32_t oldest, newest;
	uint64_t evicted; /* pages given up to make room */
};

int radix_cache_init(struct radix_cache *c, struct kv_pool *pool, struct error *e);
void radix_cache_free(struct radix_cache *c);

struct radix_match {
	int n_tokens; /* all in all */
	int n_pages;  /* whole pages: page_size * n_pages <= n_tokens */
	int32_t tail; /* the page that holds the tokens beyond them, 0: none */
};

/* The longest prefix of tokens[0, n) that is there. pages: [n / page_size] takes the whole pages. What is found counts as
 * used. Nothing is retained: that is the caller's next act. */
struct radix_match radix_cache_match(
	struct radix_cache *c, uint64_t writer, const int32_t *tokens, int n, int32_t *pages);

/* A page that a request maps, to be added. */
struct radix_page {
	uint64_t writer, request;
	int32_t parent;        /* a full page of the cache, 0: none */
	const int32_t *tokens; /* [n_tokens] that it holds after those of parent: 1 .. page_size */
	int n_tokens;
	int32_t page;
};

/* The page of the cache that holds these tokens from now on: the one given, or another that did before. */
int32_t radix_cache_insert(struct radix_cache *c, const struct radix_page *add);

/* The page is in the tree. */
bool radix_cache_holds(const struct radix_cache *c, int32_t page);

/* Takes a page and all below it out of the cache; those that requests map stay theirs. */
void radix_cache_forget(struct radix_cache *c, int32_t page);

/* Gives up idle pages until n pages are free, or none is left to give up. */
void radix_cache_make_room(struct radix_cache *c, int n);

/* ERR_DEVICE, naming the page, when the tree, its order or its order of use is broken. */
int radix_cache_audit(const struct radix_cache *c, struct error *e);

#endif
