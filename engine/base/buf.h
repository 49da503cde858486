/* A growable byte buffer. Appending never fails loudly: an allocation failure sets `failed`, later appends do
 * nothing, and buf_check reports it once. data is always NUL-terminated after the first append (the NUL is not
 * counted). */
#ifndef ASSAY_ENGINE_BASE_BUF_H
#define ASSAY_ENGINE_BASE_BUF_H

#include "engine/base/error.h"
#include "engine/base/str.h"

struct buf {
	char *data; /* owned */
	size_t length;
	size_t capacity;
	bool failed;
};

void buf_append(struct buf *b, const void *bytes, size_t length);
void buf_append_str(struct buf *b, struct str s);
void buf_append_text(struct buf *b, const char *text);
void buf_append_char(struct buf *b, char c);
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_clear(struct buf *b); /* keeps the memory, and `failed` */
void buf_free(struct buf *b);  /* zeroes *b */
int buf_check(const struct buf *b, struct error *e);

/* The content as a borrowed string; as a C string, "" when nothing was appended. */
struct str buf_str(const struct buf *b);
const char *buf_text(const struct buf *b);

#endif
