/* What a fault campaign showed: counts by level, model and site, intervals, which check noticed what, escapes. */
#ifndef ASSAY_EVALS_INJECT_REPORT_H
#define ASSAY_EVALS_INJECT_REPORT_H

#include "engine/base/buf.h"
#include "integrity/campaign.h"

/* As text, or as the JSON document of `assay inject --json`: of all trials that are done. */
int inject_report_text(const struct campaign *c, bool color, struct buf *out, struct error *e);
void inject_report_json(const struct campaign *c, struct buf *out);

/* Whether the guards held what they declare: no escape but of sites that declare a higher level, no false alarm, no
 * request changed that has nothing to do with the fault. */
bool inject_report_holds(const struct campaign *c);

/* One trial, as --replay shows it. */
int inject_trial_text(const struct campaign *c, bool color, struct buf *out, struct error *e);
void inject_trial_json(const struct campaign *c, struct buf *out);

/* The faults that there are. */
int inject_list_text(bool color, struct buf *out, struct error *e);
void inject_list_json(struct buf *out);

#endif
