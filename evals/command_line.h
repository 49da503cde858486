#ifndef ASSAY_EVALS_COMMAND_LINE_H
#define ASSAY_EVALS_COMMAND_LINE_H

#include "engine/base/buf.h"

/* Appends the command line of this process as it was typed, near enough to be typed again: what a run's record says. */
void command_line_append(struct buf *out);

#endif
