/* Two sets of answers to the same items, side by side. Pairs are keyed by (suite, task, doc_id), and their document and
 * prompt must be the same by their hashes; whatever finds no partner is counted. */
#ifndef ASSAY_REPORTS_PAIRING_H
#define ASSAY_REPORTS_PAIRING_H

#include "reports/stats.h"
#include "reports/store.h"

/* The answers of one variant of one run, or of a file of sample lines, in memory. */
struct answers {
	char *label;                /* as people read it: "run 3 bf16/bf16", "other.db: run 3 …", "base.jsonl" */
	char *address;              /* as it was asked for */
	char *file;                 /* the database or the sample file */
	char *variant;              /* NULL: a sample file */
	int64_t run_id, variant_id; /* 0: a sample file */
	struct store_run run;       /* all NULL and zero for a sample file */
	struct str facts;           /* the variant's, JSON; length 0: none */
	bool deterministic;         /* the target gives the same answer again: the engine does, a server need not */
	struct store_sample *rows;  /* [n], sorted by suite, task, doc_id; every text is owned by blocks */
	size_t n;
	struct answer_block *blocks; /* where all texts live */
};

/* ADDRESS is `[DATABASE:]RUN[:VARIANT]` (RUN as store_run_find takes it, the default database where none is named), or
 * a file of sample lines as lm-evaluation-harness writes them (gzip is fine): {"doc_id", metric: number, …} with
 * "task", "doc_hash", "prompt_hash", "target_hash", "resps", "filtered_resps" where they are known. VARIANT may be left
 * out where the run has one. ERR_USAGE: no such run or variant (the known ones are named); ERR_INPUT, ERR_MISSING. An
 * address without any answer is no error here. *out is to be freed on failure, too. */
int answers_load(const char *address, const char *default_db, struct answers *out, struct error *e);
void answers_free(struct answers *a);

enum pair_state {
	PAIR_COMPLETE,  /* both answered */
	PAIR_ERROR,     /* one or both without an answer */
	PAIR_TRUNCATED, /* one or both ended by the length limit */
	PAIR_UNMATCHED, /* one of the two is missing */
	PAIR_STATE_COUNT
};

struct pair {
	const struct store_sample *baseline, *candidate; /* one of them NULL: unmatched */
	enum pair_state state;
	bool scored;                                /* complete, and both values of the suite's metric are there */
	double baseline_value, candidate_value;     /* of the suite's metric */
	double baseline_logprob, candidate_logprob; /* of the gold choice; NaN: generated, or not known */
	uint32_t cluster; /* pairs of one source document (by its hash) share it; below the pairing's n_pairs */
};

/* The pairs of one suite. */
struct suite_pairs {
	const char *suite;  /* borrowed from the answers */
	const char *metric; /* "acc,none": what is right or wrong; owned by the pairing; NULL: none was found */
	bool binary;        /* every value is 0 or 1: else there is no table */
	const struct pair *pairs;
	size_t n;
	int64_t by_state[PAIR_STATE_COUNT];
	int64_t only_baseline, only_candidate; /* of the unmatched */
};

struct pairing {
	struct answers baseline, candidate; /* owned */
	struct pair *pairs;                 /* by suite, task and doc_id */
	size_t n_pairs;
	struct suite_pairs *suites;
	size_t n_suites;
	char *metrics; /* names of metrics, one after the other */
};

/* What a suite is judged by; NULL lets the pairing choose: the first metric of the answers whose values are 0 or 1. */
typedef const char *pairing_metric(const void *context, const char *suite);

/* Takes over both. suites: only those (n_suites 0: all); a name that neither side holds is ERR_USAGE. ERR_INPUT, naming
 * the item and both hashes, where the two answered other documents or prompts. */
int pairing_make(struct answers *baseline, struct answers *candidate, const char *const *suites, size_t n_suites,
	pairing_metric *metric, const void *context, struct pairing *out, struct error *e);
void pairing_free(struct pairing *p);

/* A flip: a scored pair of which one answer is right and the other wrong. */
bool pair_is_flip(const struct pair *p);
bool pair_is_regression(const struct pair *p);

/* The text of an answer: a generated one without its JSON quotes, else the choices' log-probabilities as JSON. */
void pair_response(const struct store_sample *sample, struct buf *out);
/* The filtered answer of the suite's metric; for choices the index that was chosen. Empty where there is none. */
void pair_extracted(const struct store_sample *sample, const char *metric, struct buf *out);

#endif
