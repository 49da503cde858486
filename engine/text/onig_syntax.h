/* Regular expressions of tokenizer.json are written for Oniguruma (Ruby syntax) with Unicode properties; here they are
 * rewritten for PCRE2 so that they find the same. */
#ifndef ASSAY_ENGINE_TEXT_ONIG_SYNTAX_H
#define ASSAY_ENGINE_TEXT_ONIG_SYNTAX_H

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/str.h"

/* Appends the PCRE2 form of source, to be compiled with UTF, UCP and MULTILINE. What would mean something else
 * there and is not rewritten here (POSIX brackets, back references, \X, unions with negated classes ...) is
 * refused by name. */
int onig_to_pcre2(struct str source, const char *name, struct buf *out, struct error *e);

#endif
