/* Regular expressions as JSON Schema means them (ECMA-262 with its u flag), on PCRE2. */
#ifndef ASSAY_EVALS_ECMA_PATTERN_H
#define ASSAY_EVALS_ECMA_PATTERN_H

#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/str.h"

struct ecma_pattern; /* used by one thread at a time */

/* What ECMA-262 does not have (possessive quantifiers, (?i), \A, verbs) is ERR_INPUT naming it, as is what does not
 * compile: PCRE2 would give it a meaning of its own. */
int ecma_pattern_new(struct str source, struct ecma_pattern **out, struct error *e);
void ecma_pattern_delete(struct ecma_pattern *p);

/* 1 when the pattern is found anywhere in text (valid UTF-8), else 0. *work goes down by the steps of the search, about one
 * for each part of the pattern tried and each byte passed (by a bound of them where the pattern is large); ERR_LIMIT when it
 * is used up. */
int ecma_pattern_found(const struct ecma_pattern *p, struct str text, uint64_t *work, struct error *e);

#endif
