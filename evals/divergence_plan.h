/* What `--suite divergence` is going to read, settled before the run. */
#ifndef ASSAY_EVALS_DIVERGENCE_PLAN_H
#define ASSAY_EVALS_DIVERGENCE_PLAN_H

#include "evals/cli.h"
#include "evals/divergence_source.h"

struct divergence_plan {
	bool wanted;
	struct reading reading; /* --text; count 0: the baseline's answers */
	struct suite *answered; /* the run's suites generate nothing: the baseline alone answers this one; owned */
};

/* ERR_USAGE for --text without divergence, and for divergence with fewer than two variants. Without a text, the answers
 * to the run's own suites are read; where none of them generates, those to gsm8k or recall, whichever the data folder
 * holds. To be freed on failure, too. */
int divergence_plan_make(struct divergence_plan *d, const struct options *o, bool wanted, int n_variants,
	struct suite *const *suites, int n_suites, const struct suite_options *suite_options,
	const struct engine_text *text, struct error *e);
void divergence_plan_free(struct divergence_plan *d);

/* What it adds to the run's identity; to its provenance (JSON members, a comma before each); to what --dry-run says. */
void divergence_plan_identity(const struct divergence_plan *d, double limit, struct buf *out);
void divergence_plan_provenance(const struct divergence_plan *d, struct buf *out);
void divergence_plan_print(const struct divergence_plan *d, const char *baseline, struct buf *out);

#endif
