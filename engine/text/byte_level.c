#include "engine/text/byte_level.h"

#include "engine/base/utf8.h"

/* Bytes that print stand for themselves; the others, in their order, get the characters from U+0100 on:
 * 0..32, then 127..160, then 173. */
int32_t byte_level_character(uint8_t byte)
{
	if (byte <= 32)
		return 256 + byte;
	if (byte >= 127 && byte <= 160)
		return 256 + 33 + (byte - 127);
	return byte == 173 ? 256 + 67 : byte;
}

/* -1 for a character outside the alphabet. */
static int byte_of(int32_t c)
{
	if (c >= 256)
		return c <= 288 ? c - 256 : c <= 322 ? c - 289 + 127 : c == 323 ? 173 : -1;
	return c > 32 && (c < 127 || c > 160) && c != 173 ? c : -1;
}

void byte_level_encode(struct str bytes, struct buf *out)
{
	char chunk[512];
	size_t used = 0;
	for (size_t i = 0; i < bytes.length; i++) {
		int32_t c = byte_level_character((uint8_t)bytes.data[i]);
		if (used > sizeof(chunk) - 2) {
			buf_append(out, chunk, used);
			used = 0;
		}
		if (c >= 0x80)
			chunk[used++] = (char)(0xc0 | c >> 6);
		chunk[used++] = (char)(c >= 0x80 ? 0x80 | (c & 0x3f) : c);
	}
	buf_append(out, chunk, used);
}

void byte_level_decode(struct str token, struct buf *out)
{
	for (size_t position = 0; position < token.length;) {
		if (byte_of(utf8_next(token, &position)) < 0) {
			buf_append_str(out, token);
			return;
		}
	}
	for (size_t position = 0; position < token.length;)
		buf_append_char(out, (char)byte_of(utf8_next(token, &position)));
}
