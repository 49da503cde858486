/* Python's str methods that the harness's metrics use, on UTF-8. */
#ifndef ASSAY_EVALS_PYTHON_TEXT_H
#define ASSAY_EVALS_PYTHON_TEXT_H

#include "engine/base/buf.h"
#include "engine/base/str.h"

/* Appends str.lower(): the full mapping, so U+0130 gives two code points, and a capital sigma at the end of a word the
 * final form. The characters that utf8proc knows decide; a Python built on another version of Unicode may differ in
 * the newest scripts. Invalid UTF-8 becomes U+FFFD. */
void python_lower(struct str text, struct buf *out);

#endif
