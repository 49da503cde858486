/* What GitHub Actions shows of a verdict. */
#ifndef ASSAY_REPORTS_GITHUB_H
#define ASSAY_REPORTS_GITHUB_H

#include "engine/base/buf.h"

/* A summary beyond 1 MiB would be lost as a whole. */
enum { GITHUB_SUMMARY_MAX = 900 * 1024 };

/* Appends Markdown to the file of GITHUB_STEP_SUMMARY; what is too much for it is cut at a line's end, and that is
 * said. */
int github_summary_append(const char *path, struct str markdown, struct error *e);

/* Appends a workflow command "::LEVEL title=TITLE::MESSAGE", escaped. level: "error", "warning" or "notice". */
void github_annotation(const char *level, const char *title, const char *message, struct buf *out);

#endif
