/* What splits and replacements look for: a regular expression of tokenizer.json, or a plain text. */
#ifndef ASSAY_ENGINE_TEXT_PATTERN_H
#define ASSAY_ENGINE_TEXT_PATTERN_H

#include "engine/base/error.h"
#include "engine/base/str.h"

struct pattern;

/* A regular expression in Oniguruma's syntax (onig_syntax.h); name stands in errors. */
int pattern_new_regex(struct str source, const char *name, struct pattern **out, struct error *e);

/* A text that is found where it stands; the empty text is found between all characters. */
int pattern_new_literal(struct str text, struct pattern **out, struct error *e);

void pattern_delete(struct pattern *p);

/* Working memory of a search, one for each thread; it serves any pattern. */
struct pattern_scratch;
struct pattern_scratch *pattern_scratch_new(struct error *e);
void pattern_scratch_delete(struct pattern_scratch *scratch);

/* The matches in a text one after the other, as Oniguruma's find_iter gives them: an empty match right behind the
 * last match does not count. */
struct pattern_search {
	struct str text; /* valid UTF-8 */
	size_t from;
	size_t last_end; /* of the last match; SIZE_MAX before the first */
};

struct pattern_match {
	size_t start, end;
};

static inline struct pattern_search pattern_search_begin(struct str text)
{
	return (struct pattern_search){text, 0, (size_t)-1};
}

/* 1 and the next match, 0 when there is none left, ERR_LIMIT when the expression needs too much work on this text. */
int pattern_next(const struct pattern *p, struct pattern_scratch *scratch, struct pattern_search *search,
	struct pattern_match *match, struct error *e);

#endif
