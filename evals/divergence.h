/* How far one variant's next-token distributions are from the baseline's, read over the same tokens (teacher-forced):
 * KL divergence, flips of the most probable token, what the token that stands there lost. Natural logarithms: nat. */
#ifndef ASSAY_EVALS_DIVERGENCE_H
#define ASSAY_EVALS_DIVERGENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "reports/store.h"

/* The suite's name in --suite and in the store. */
extern const char divergence_suite[];
/* For `list --suites`: its metrics, NULL-terminated, and a line for people. */
extern const char *const divergence_metrics[];
extern const char divergence_definition[];

struct token_divergence {
	double kl;                        /* sum of p ln(p / q) over the vocabulary: p the baseline, q the other */
	double baseline_logprob, logprob; /* of the token that stands there */
	bool flip;                        /* the most probable token differs (lowest id among equals) */
};

/* baseline, other: [vocab] log-probabilities of what follows the same tokens. Each row is made to sum to one again in
 * double precision, so that the rounding of its normaliser does not pass for a divergence. A token that the baseline
 * cannot have adds nothing; one that only the other cannot have makes kl infinite; NaN in a row makes it NaN. */
void divergence_of_rows(
	const float *baseline, const float *other, int vocab, int32_t token, struct token_divergence *out);

/* Results of the suite under one variant from all its stored samples, per task (where there are several) and whole:
 * kl, its quantiles and largest value, flips, delta_logprob, perplexity and perplexity_ratio for a variant that was
 * measured against the baseline, perplexity alone for the baseline; n counts documents, and tokens are a result of their own. Means are over tokens; their standard error is
 * naive or, where that is more, clustered by document (CR1). That of a perplexity is its own times the error of the mean
 * log-probability. PRECOND: the run was begun. */
int divergence_results_put(struct store *store, int64_t run_id, int64_t variant_id, struct error *e);

/* The same results to visit, whatever run s writes: 1 where the wanted suite is this one, else 0. A store_own_results.
 */
int divergence_own_results(struct store *s, int64_t run_id, const struct store_result *wanted,
	store_visit_result *visit, void *context, struct error *e);

#endif
