/* Two sets of answers to the same items, side by side. Pairs are keyed by (suite, task, doc_id), and their document and
 * prompt must be the same by their hashes; whatever finds no partner is counted. */
#ifndef ASSAY_REPORTS_PAIRING_H
#define ASSAY_REPORTS_PAIRING_H

#include "reports/answers.h"
#include "reports/policy.h"
#include "reports/stats.h"

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
	bool multiple_choice;                       /* a side answered with choices, and the gold one is known */
	double baseline_logprob, candidate_logprob; /* of the gold choice; NaN: not finite, or no multiple choice */
	/* index of the first of the pairing's pairs of the same suite and source document (by its hash) */
	uint32_t cluster;
};

/* The pairs of one suite. */
struct suite_pairs {
	const char *suite;    /* borrowed from the answers */
	const char *metric;   /* "acc,none": what is right or wrong; NULL: none was found */
	bool binary;          /* every value is 0 or 1: else there is no table */
	bool multiple_choice; /* of any of its pairs */
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
	int64_t unverified; /* complete pairs of which a hash is not known */
	/* a pair whose item two of the suites hold, once for each: they cannot be pooled; NULL: none */
	const struct pair *overlap[2];
};

/* Takes over both, also on failure. suites: only those (n_suites 0: all); a name that neither side holds is ERR_USAGE.
 * policy (NULL: none) names the metrics that suites are judged by; otherwise it is the first one whose values are all 0
 * or 1. ERR_INPUT, naming the item and both hashes, where the two answered other documents or prompts. */
int pairing_make(struct answers *baseline, struct answers *candidate, const char *const *suites, size_t n_suites,
	const struct policy *policy, struct pairing *out, struct error *e);
void pairing_free(struct pairing *p);

/* ERR_USAGE, naming two suites that hold one item. */
int pairing_check_overlap(const struct pairing *p, struct error *e);

/* Whether a side holds answers to that suite, chosen or not. */
bool pairing_holds_suite(const struct pairing *p, const char *suite);

/* ERR_USAGE, naming the suites that the two sides hold. */
int pairing_unknown_suite(const struct pairing *p, const char *suite, struct error *e);

/* Puts the file, the run and the item before an error in what that side stored of it; returns its code. */
int pairing_name_sample(const struct answers *side, const struct store_sample *sample, struct error *e);

/* A flip: a scored pair of which one answer is right and the other wrong. */
bool pair_is_flip(const struct pair *p);
bool pair_is_regression(const struct pair *p);

/* The text of an answer: a generated one without its JSON quotes, else the choices' log-probabilities as JSON; empty
 * for one that was not kept. */
void pair_response(const struct store_sample *sample, struct buf *out);
/* The filtered answer of the suite's metric; for choices the index that was chosen; calls of tools on one line. Empty
 * where there is none. */
void pair_extracted(const struct store_sample *sample, const char *metric, struct buf *out);

#endif
