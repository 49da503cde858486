/* Python's str methods that change letters' case, on UTF-8. */
#ifndef ASSAY_EVALS_PYTHON_TEXT_H
#define ASSAY_EVALS_PYTHON_TEXT_H

#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/str.h"

/* Appends str.lower(): the full mapping, so U+0130 gives two code points, and a capital sigma at the end of a word the
 * final form. The characters that utf8proc knows decide; a Python built on another version of Unicode may differ in
 * the newest scripts. Invalid UTF-8 becomes U+FFFD. */
void python_lower(struct str text, struct buf *out);
/* The same for str.upper(), capitalize(), title(), swapcase(). */
void python_upper(struct str text, struct buf *out);
void python_capitalize(struct str text, struct buf *out);
void python_title(struct str text, struct buf *out);
void python_swapcase(struct str text, struct buf *out);

enum python_case { PYTHON_UNCASED, PYTHON_LOWER, PYTHON_UPPER, PYTHON_TITLE };
/* What str.islower() and isupper() look at. */
enum python_case python_case_of(int32_t code_point);

#endif
