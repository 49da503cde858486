/* Python's str methods on text, for filters and methods. */
#ifndef ASSAY_ENGINE_TEXT_JINJA_TEXT_H
#define ASSAY_ENGINE_TEXT_JINJA_TEXT_H

#include "engine/text/jinja_value.h"

enum jinja_strip { JINJA_STRIP_LEFT = 1, JINJA_STRIP_RIGHT = 2 };

/* chars NULL: white space. ends: of enum jinja_strip. */
struct str jinja_strip_text(struct str s, const struct str *chars, int ends);
/* The lines of a text, with what ends them or without, added to a list. */
int jinja_split_lines(struct jinja_run *r, struct str s, bool keep_ends, struct jinja_list *out);
/* At most count times (negative: always). */
int jinja_replace_text(
	struct jinja_run *r, struct str s, struct str old, struct str new, int64_t count, struct jinja_value *out);
int jinja_join(struct jinja_run *r, struct str between, const struct jinja_list *items, struct jinja_value *out);
/* Filled up with a character on both sides of left and right: widths in characters. */
int jinja_pad(struct jinja_run *r, struct str s, int64_t left, int64_t right, int32_t fill, struct jinja_value *out);
int jinja_center(struct jinja_run *r, struct str s, int64_t width, int32_t fill, struct jinja_value *out);
/* Through one of base/python_text.h. */
int jinja_change_case(
	struct jinja_run *r, void (*change)(struct str, struct buf *), struct str s, struct jinja_value *out);

#endif
