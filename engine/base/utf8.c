#include "engine/base/utf8.h"

#include <assert.h>

static bool is_continuation(unsigned char byte)
{
	return (byte & 0xc0) == 0x80;
}

/* Bytes of the character that a lead byte begins; 0 for a byte that begins none. */
static size_t lead_length(unsigned char lead)
{
	if (lead < 0x80)
		return 1;
	if (lead < 0xc2)
		return 0;
	return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
}

/* Whether byte may stand second: the table 3-7 of the Unicode standard (no overlong forms, no surrogates). */
static bool is_second_byte(unsigned char lead, unsigned char byte)
{
	unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
	unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
	return byte >= low && byte <= high;
}

int32_t utf8_next(struct str s, size_t *position)
{
	const unsigned char *bytes = (const unsigned char *)s.data + *position;
	size_t left = s.length - *position;
	unsigned char lead = bytes[0];
	if (lead < 0x80) {
		*position += 1;
		return lead;
	}
	size_t length = lead_length(lead);
	if (length == 0 || left < 2 || !is_second_byte(lead, bytes[1])) {
		*position += 1;
		return -1;
	}
	int32_t code_point = (lead & (0x7f >> length)) << 6 | (bytes[1] & 0x3f);
	for (size_t i = 2; i < length; i++) {
		if (i >= left || !is_continuation(bytes[i])) {
			*position += i;
			return -1;
		}
		code_point = code_point << 6 | (bytes[i] & 0x3f);
	}
	*position += length;
	return code_point;
}

bool utf8_valid(struct str s)
{
	for (size_t position = 0; position < s.length;) {
		if (utf8_next(s, &position) < 0)
			return false;
	}
	return true;
}

size_t utf8_count(struct str s)
{
	size_t count = 0;
	for (size_t position = 0; position < s.length; count++)
		utf8_next(s, &position);
	return count;
}

size_t utf8_encode(int32_t code_point, char out[4])
{
	assert(code_point >= 0 && code_point <= 0x10ffff && (code_point < 0xd800 || code_point > 0xdfff));
	uint32_t c = (uint32_t)code_point;
	size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = length; i-- > 1; c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	static const unsigned char lead_bits[] = {0, 0x00, 0xc0, 0xe0, 0xf0};
	out[0] = (char)(lead_bits[length] | c);
	return length;
}

void utf8_append(struct buf *out, int32_t code_point)
{
	char bytes[4];
	buf_append(out, bytes, utf8_encode(code_point, bytes));
}

void utf8_append_lossy(struct buf *out, struct str s)
{
	size_t run = 0; /* start of the valid bytes not yet copied */
	for (size_t position = 0; position < s.length;) {
		size_t start = position;
		if (utf8_next(s, &position) >= 0)
			continue;
		if (start > run)
			buf_append(out, s.data + run, start - run);
		utf8_append(out, 0xfffd);
		run = position;
	}
	if (s.length > run)
		buf_append(out, s.data + run, s.length - run);
}

size_t utf8_complete(struct str s)
{
	for (size_t tail = 1; tail <= 3 && tail <= s.length; tail++) {
		size_t start = s.length - tail;
		unsigned char byte = (unsigned char)s.data[start];
		if (is_continuation(byte))
			continue;
		size_t position = start;
		bool waits = lead_length(byte) > tail && utf8_next(s, &position) < 0 && position == s.length;
		return waits ? start : s.length;
	}
	return s.length;
}

bool utf8_is_python_space(int32_t c)
{
	return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
		(c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

struct str utf8_rstrip(struct str s)
{
	while (s.length > 0) {
		size_t start = s.length - 1;
		while (start > 0 && s.length - start < 4 && is_continuation((unsigned char)s.data[start]))
			start--;
		size_t position = start;
		if (!utf8_is_python_space(utf8_next(s, &position)) || position != s.length)
			break;
		s.length = start;
	}
	return s;
}

struct str utf8_strip(struct str s)
{
	size_t start = 0;
	for (size_t position = 0; position < s.length; start = position) {
		if (!utf8_is_python_space(utf8_next(s, &position)))
			break;
	}
	if (start > 0)
		s = (struct str){s.data + start, s.length - start};
	return utf8_rstrip(s);
}
