/* What differs between two configurations: every member of what the runs say of themselves, by its path. */
#ifndef ASSAY_REPORTS_DIFFERENCES_H
#define ASSAY_REPORTS_DIFFERENCES_H

#include "reports/verdict.h"

/* *out is to be freed on failure, too. Sample files say nothing of themselves: no differences. */
int differences_find(
	const struct answers *a, const struct answers *b, struct difference **out, size_t *n, struct error *e);
void differences_free(struct difference *differences, size_t n);

#endif
