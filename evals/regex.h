/* Python's re.findall and re.sub(pattern, "", text) for the patterns of filters and metrics, on PCRE2. The patterns in
 * use mean the same to both: no \d, \w or \s (Unicode to Python), "." excludes only the line feed, "$" also matches
 * before a final one. */
#ifndef ASSAY_EVALS_REGEX_H
#define ASSAY_EVALS_REGEX_H

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/str.h"

struct regex; /* a compiled pattern with the room for one match: used by one thread at a time */

/* A pattern that does not compile is ERR_INPUT with PCRE2's message and the place. */
int regex_new(const char *pattern, struct regex **out, struct error *e);
void regex_delete(struct regex *r);

/* Where a walk over the matches of one subject stands; starts zeroed. */
struct regex_cursor {
	size_t start, end; /* of the match last found */
	bool empty_match;  /* it was empty: the next one may not be empty at the same place */
};

/* Finds the next match as re.finditer does: 1 when found, 0 at the end, or a negative status. Bytes that are not UTF-8
 * match nothing. */
int regex_next(struct regex *r, struct str subject, struct regex_cursor *c, struct error *e);

/* Number of groups of the pattern, and group i (0: the whole) of the last match in subject; empty where it took no
 * part. */
int regex_group_count(const struct regex *r);
struct str regex_group(const struct regex *r, struct str subject, int i);

/* Appends subject without the parts that match. */
int regex_remove(struct regex *r, struct str subject, struct buf *out, struct error *e);

#endif
