/* The verdict for programs: one JSON document. */
#ifndef ASSAY_REPORTS_VERDICT_JSON_H
#define ASSAY_REPORTS_VERDICT_JSON_H

#include "engine/base/buf.h"
#include "reports/verdict.h"

/* Appends the document of `assay gate`, or (v->policy NULL) that of `assay compare`. with_flips: the items whose
 * correctness differs, too, with both answers. */
int verdict_json(const struct verdict *v, bool with_flips, struct buf *out, struct error *e);

#endif
