/* Verdicts as JUnit XML, by the rules that Jenkins' schema and GitLab share. One test case per variant, suite and
 * check: a failure is a gate that failed, an error what could not run, skipped what is inconclusive or only
 * reported. */
#ifndef ASSAY_REPORTS_JUNIT_H
#define ASSAY_REPORTS_JUNIT_H

#include "engine/base/buf.h"
#include "reports/verdict.h"

/* Appends the document of several verdicts that were judged. Each pair of classname and name comes once, and is the
 * same in the next run. Characters that XML forbids become U+FFFD. */
int junit_write(const struct verdict *const *verdicts, size_t n, struct buf *out, struct error *e);

/* Appends a document whose one test case is an error: nothing was judged. */
int junit_write_error(const char *message, struct buf *out, struct error *e);

#endif
