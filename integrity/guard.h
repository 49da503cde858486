/* Guards: what is checked of the page bookkeeping, behind the engine's kv_guard. A level holds the checks of those before
 * it:
 *
 *   tags    a tag per physical page, the next value of one counter at each allocation, and what each request expects;
 *           bounds come before any read
 *   pages   owner, logical position, lengths, fill counts, writes, full keys of the prefix cache, free list, reference
 *           counts, hand-over, layout and scales
 *   chain   per slot a hash of (token, position, all before): tokens and positions of every step, the tail of every
 *           sequence, the whole of what a request finds when it is taken in
 *   digest  of the values of whole pages: at prefix hit, copy, hand-over, and by a sweep of bounded work in every step
 *
 * An expectation is made of what the bookkeeping intends (an allocation, an entry of the prefix cache), never of the table
 * that it is compared with. An enforcing guard condemns the request that a finding names: its output is withheld, its pages
 * go to quarantine until no request and no cache holds them. An observing one only records. */
#ifndef ASSAY_INTEGRITY_GUARD_H
#define ASSAY_INTEGRITY_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/kv/kv_guard.h"

enum guard_level { GUARD_NONE, GUARD_TAGS, GUARD_PAGES, GUARD_CHAIN, GUARD_DIGEST, GUARD_LEVEL_COUNT };

const char *guard_level_name(enum guard_level level);
int guard_level_parse(const char *text, enum guard_level *out, struct error *e); /* ERR_USAGE names the levels */

enum guard_check {
	GUARD_BOUNDS,     /* a table or a length points outside of what is there */
	GUARD_TAG,        /* the page was allocated again, or freed, since the request mapped it */
	GUARD_EPOCH,      /* the check of a sequence did not run (found by the engine) */
	GUARD_OWNER,      /* the page is another request's, or nobody's */
	GUARD_POSITION,   /* the page is the request's, at another logical position */
	GUARD_LENGTH,     /* the sequence begins elsewhere than where the request stands */
	GUARD_FILL,       /* slots are read that were never written */
	GUARD_WRITE,      /* K, V would go to another slot than the next one of a page that only this request holds */
	GUARD_PADDING,    /* a row of padding touches more than page 0 */
	GUARD_KEY,        /* a page of the prefix cache holds other tokens than its key says */
	GUARD_FREE_LIST,  /* a page is there twice, or in use, or neither free nor in use */
	GUARD_REFERENCES, /* a reference count is not the number of holders */
	GUARD_TRANSFER,   /* a page was handed over by a sender that no longer had it, or not at all */
	GUARD_LAYOUT,     /* scales, format or memory of a layer are not those of the start */
	GUARD_CHAIN_LINK, /* a slot holds another token, position or past */
	GUARD_CONTENT,    /* the values of a whole page changed */
	GUARD_CHECK_COUNT
};

const char *guard_check_name(enum guard_check check);       /* "bounds", "tag", … */
enum guard_level guard_check_level(enum guard_check check); /* the lowest that makes it */

enum guard_moment {
	GUARD_AT_READ,
	GUARD_AT_PUBLISH,
	GUARD_AT_ADMISSION,
	GUARD_AT_MAPPING,
	GUARD_AT_INDEX,
	GUARD_AT_COPY,
	GUARD_AT_TRANSFER,
	GUARD_AT_AUDIT,
	GUARD_AT_SWEEP,
	GUARD_MOMENT_COUNT
};

const char *guard_moment_name(enum guard_moment moment); /* "before_read", "before_publish", "admission", … */

struct guard_incident {
	int64_t time; /* nanoseconds since 1970 */
	enum guard_check check;
	enum guard_moment moment;
	int pool;                  /* 0, or 1 for where a split variant decodes */
	uint64_t request;          /* 0: none is named */
	int32_t page, logical;     /* -1: none */
	uint64_t expected, actual; /* as the check counts them */
	uint64_t step;             /* of the engine, from 0 */
	int emitted;               /* tokens generated for the request before */
	const char *what;          /* says it in words, without quotes or line feeds */
};

struct guard_options {
	enum guard_level level;
	bool observe;                                                       /* record, abort nothing */
	int audit_every;                                                    /* steps; 0: 64 */
	void (*sink)(void *context, const struct guard_incident *incident); /* NULL: counted only */
	void *sink_context;
};

struct guard {
	struct kv_guard table; /* for engine_config.guard */
	struct guard_options options;
	int n_pools;
	uint64_t ran[GUARD_CHECK_COUNT]; /* times that each check ran */
	uint64_t incidents;
	uint64_t verified_steps;           /* batches that were checked before they were published */
	uint64_t fired[GUARD_CHECK_COUNT]; /* incidents of each */
};

/* The guard must not move until the engines that it is handed to are closed, or renewed with another. */
void guard_init(struct guard *guard, const struct guard_options *options);

/* Whether every check that runs in any step did so after verified_steps of them: ERR_DEVICE names the first that did not.
 * Checks that need an occasion (padding, a prefix hit, a copy, a hand-over) are not asked for. */
int guard_proved(const struct guard *guard, struct error *e);

/* {"level","mode","steps","incidents","checks":{name:{"ran","fired"}}} */
struct buf;
void guard_summary(const struct guard *guard, struct buf *out);

#endif
