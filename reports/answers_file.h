/* Sample lines of lm-evaluation-harness, or of anything that writes {"doc_id", metric: number} a line. */
#ifndef ASSAY_REPORTS_ANSWERS_FILE_H
#define ASSAY_REPORTS_ANSWERS_FILE_H

#include "reports/answers.h"

/* Reads the file that a->file names. Lines of one document under several filters are one answer. ERR_INPUT names file
 * and line. */
int answers_read_file(struct answers *a, struct error *e);

#endif
