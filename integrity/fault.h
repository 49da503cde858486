/* Faults: ways in which page bookkeeping is known to break, planted on the engine's real paths through its fault_hook.
 * Each is one line of a table: the model of failure it stands for (M1 to M13 of the survey of public bugs), the site where
 * it acts, a public bug that it re-introduces in this engine's terms, and the lowest guard level that must catch it.
 *
 * A plan is reproducible from (fault, occurrence, seed): the fault fires once, at that occurrence of a point where it can
 * act, with a target drawn by the seed. */
#ifndef ASSAY_INTEGRITY_FAULT_H
#define ASSAY_INTEGRITY_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/kv/fault_hook.h"
#include "integrity/guard.h"

enum { FAULT_MODELS = 13 };

struct fault_injector;

struct fault_type {
	const char *name;       /* "pool.free.early" */
	int model;              /* 1 .. FAULT_MODELS */
	enum fault_site site;   /* where it acts */
	enum guard_level level; /* the lowest that must catch it; GUARD_LEVEL_COUNT: none does */
	const char *does;       /* what it does, for people */
	const char *bug;        /* public bug of that kind: "vllm#47021" */
	const char *reason;     /* why that level catches it and no lower one */
	/* The wrong value for a point where the fault can act; false where it cannot. */
	bool (*act)(struct fault_injector *f, const struct fault_point *point, int64_t *value);
};

int fault_type_count(void);
const struct fault_type *fault_type(int i);
const struct fault_type *fault_type_find(const char *name); /* NULL: not known */

const char *fault_model_name(int model); /* "page freed while mapped" */

/* A writer that comes late: the values of a page, which land in it once it was handed out to another request and has been
 * written. */
struct fault_late_writer {
	const struct kv_pool *pool; /* NULL: none */
	uint64_t request;           /* that it wrote for */
	int32_t page;
	int logical;
	bool tags;         /* it says that the page is whole, as every sender of a hand-over does */
	void *values;      /* [n_layers, 2, page]; NULL: to be kept at the next step */
	int steps_to_land; /* of the pool, once the page is another's; less than 0: it is not yet */
};

/* What the fault concerns. */
struct fault_mark {
	const struct kv_pool *pool;
	int32_t pages[2]; /* whose books it falsified, or where it wrote; 0: none */
	uint64_t indexer; /* the pages that this request gives to the prefix cache from now on; 0: none */
	bool next;        /* the next request that is taken in */
	bool everyone;    /* who is not answered yet */
};

struct fault_injector {
	const struct fault_type *type; /* NULL: no fault, the hook does nothing */
	int occurrence;                /* from 0 */
	struct py_random rng;
	struct fault_hook hook; /* for engine_config.faults */

	int seen;         /* points where it could act */
	bool fired;       /* it did */
	uint64_t request; /* at the point where it did, 0: none */
	int64_t target;   /* the wrong value */
	struct fault_mark mark;
	struct fault_late_writer late; /* between firing and taking effect */
};

/* PRECOND: f does not move afterwards. */
void fault_injector_init(struct fault_injector *f, const struct fault_type *type, int occurrence, uint64_t seed);
void fault_injector_free(struct fault_injector *f);

/* Counts, in a run without a fault, the points where each type could act: occurrences are drawn from them. */
struct fault_counter {
	struct fault_injector *injectors; /* [fault_type_count()] */
	struct fault_hook hook;
};

/* PRECOND: c does not move afterwards. */
int fault_counter_init(struct fault_counter *c, struct error *e);
void fault_counter_free(struct fault_counter *c);

/* The late writer at a point that the engine passes: keeps, waits, lands. */
void fault_late_writer_at(struct fault_injector *f, const struct fault_point *point);

#endif
