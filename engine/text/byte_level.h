/* GPT-2's alphabet: each of the 256 bytes has a printable character that stands for it ("Ġ" is the space). */
#ifndef ASSAY_ENGINE_TEXT_BYTE_LEVEL_H
#define ASSAY_ENGINE_TEXT_BYTE_LEVEL_H

#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/str.h"

/* The character of a byte. */
int32_t byte_level_character(uint8_t byte);

/* Appends the characters of the bytes. */
void byte_level_encode(struct str bytes, struct buf *out);

/* Appends the bytes that a token's characters stand for; a token with a character outside the alphabet as it is. */
void byte_level_decode(struct str token, struct buf *out);

#endif
