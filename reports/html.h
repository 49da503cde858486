/* Pieces of an HTML page. Whatever is not a literal goes through html_text. */
#ifndef ASSAY_REPORTS_HTML_H
#define ASSAY_REPORTS_HTML_H

#include "reports/table.h"

/* Escapes markup and quotes; control characters, those that reorder text and invalid bytes are shown as \x1b or \u202e.
 * Line feeds and tabs stay. */
void html_text(struct buf *out, struct str s);

/* The same, cut behind limit bytes at a character's end; what was cut is counted. */
void html_text_cut(struct buf *out, struct str s, size_t limit);

/* Everything up to <main>, with the styles: light, dark, print. title is escaped. */
void html_begin(struct buf *out, const char *title);
void html_end(struct buf *out);

/* A table with its title as caption, in a box that scrolls by itself; nothing for one without rows. */
void html_table(struct buf *out, const struct report_table *t);

/* An SVG drawing as an image with its text alternative and caption. */
void html_image(struct buf *out, struct str svg, const char *alternative);

#endif
