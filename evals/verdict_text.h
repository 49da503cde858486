/* A verdict as a person reads it on a terminal. */
#ifndef ASSAY_EVALS_VERDICT_TEXT_H
#define ASSAY_EVALS_VERDICT_TEXT_H

#include <stdbool.h>

#include "engine/base/buf.h"
#include "reports/verdict.h"

/* Appends the verdict (where the policy judged), a line per suite, and what is remarkable. */
int verdict_text(const struct verdict *v, bool color, struct buf *out, struct error *e);

/* Appends the items that changed, regressions first, with both answers. */
int verdict_flips_text(const struct verdict *v, bool color, struct buf *out, struct error *e);

#endif
