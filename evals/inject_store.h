/* Trials of a fault campaign as rows of the store, and back. */
#ifndef ASSAY_EVALS_INJECT_STORE_H
#define ASSAY_EVALS_INJECT_STORE_H

#include "integrity/campaign.h"
#include "reports/store.h"

/* Every run of the trial is a row, with what the guard found in it. */
int inject_store_trial(
	struct store *s, const struct campaign_options *o, const struct campaign_trial *t, struct error *e);

/* Takes over the trials that an interrupted run has stored. *known: how many. */
int inject_store_load(struct store *s, int64_t run_id, struct campaign *c, int64_t *known, struct error *e);

#endif
