/* What changed from one text to another, word by word. A word is a run of characters that are no white space, or a
 * run of white space: the pieces put together again are the texts, byte for byte. */
#ifndef ASSAY_REPORTS_WORD_DIFF_H
#define ASSAY_REPORTS_WORD_DIFF_H

#include "engine/base/error.h"
#include "engine/base/str.h"

enum word_change { WORD_SAME, WORD_REMOVED, WORD_ADDED };

struct word_run {
	enum word_change change;
	struct str text; /* borrowed from the old text, of WORD_ADDED from the new one */
};

struct word_diff {
	struct word_run *runs; /* [n] neighbours differ in their change; what is removed stands before what is added */
	size_t n;
};

/* The fewest words removed and added (Myers 1986). Texts that differ in more than a few hundred words are told as one
 * removal and one addition between their common beginning and end. */
int word_diff_make(struct str old_text, struct str new_text, struct word_diff *out, struct error *e);
void word_diff_free(struct word_diff *d);

#endif
