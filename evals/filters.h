/* Answer filters of lm-evaluation-harness (its RegexFilter): which part of a response is the answer. One row of a
 * table each. */
#ifndef ASSAY_EVALS_FILTERS_H
#define ASSAY_EVALS_FILTERS_H

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/str.h"

struct filter; /* a compiled row: used by one thread at a time */

/* name is "suite:filter" as in "gsm8k:strict-match"; an unknown one is ERR_INPUT naming it and the known ones. */
int filter_new(struct str name, struct filter **out, struct error *e);
void filter_delete(struct filter *f);

/* The name as --suite filters takes it, and its part after the colon, as the harness writes it in results. */
const char *filter_name(const struct filter *f);
const char *filter_short_name(const char *name);

/* Appends what the filter takes from the response: stripped as by Python's strip(), "[invalid]" where nothing matches.
 * */
int filter_apply(const struct filter *f, struct str response, struct buf *out, struct error *e);

#endif
