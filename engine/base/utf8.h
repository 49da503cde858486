/* UTF-8, strictly (no overlong forms, no surrogates, at most U+10FFFF). */
#ifndef ASSAY_ENGINE_BASE_UTF8_H
#define ASSAY_ENGINE_BASE_UTF8_H

#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/str.h"

/* Decodes the code point at *position and advances past it. An invalid sequence gives -1 and advances past its maximal
 * subpart (as Unicode 3.9 D93b and Python's errors="replace" do), at least one byte. PRECOND: *position < s.length. */
int32_t utf8_next(struct str s, size_t *position);

bool utf8_valid(struct str s);

/* Number of code points (Python's len); an invalid subpart counts one. */
size_t utf8_count(struct str s);

/* Writes one code point (0..0x10FFFF, not a surrogate); returns its length in bytes. */
size_t utf8_encode(int32_t code_point, char out[4]);

/* The same into a buffer. */
void utf8_append(struct buf *out, int32_t code_point);

/* Appends s with each invalid subpart replaced by U+FFFD, as Python's and Rust's lossy decoders do. */
void utf8_append_lossy(struct buf *out, struct str s);

/* Length of the longest prefix that ends on a complete character: what a stream may print now. Bytes that can never
 * become valid count as complete. */
size_t utf8_complete(struct str s);

/* Python's str.isspace for one code point: what strip() removes without arguments. */
bool utf8_is_python_space(int32_t code_point);

/* Python's str.strip() / rstrip(). */
struct str utf8_strip(struct str s);
struct str utf8_rstrip(struct str s);

#endif
