/* A verdict as Markdown, for a pull request or a step summary. Whatever a model said is escaped. */
#ifndef ASSAY_REPORTS_MARKDOWN_H
#define ASSAY_REPORTS_MARKDOWN_H

#include "engine/base/buf.h"
#include "reports/verdict.h"

/* Appends the verdict, its tables and the first flips, regressions first. */
int verdict_markdown(const struct verdict *v, struct buf *out, struct error *e);

/* Appends what could not be judged: the title and why. */
int markdown_write_error(const char *title, const char *message, struct buf *out, struct error *e);

#endif
