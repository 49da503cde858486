#include "engine/base/buf.h"

#include <stdint.h>

enum { BUF_FIRST_CAPACITY = 64 };

/* Makes room for extra bytes and a NUL behind them; sets b->failed where there is none. */
static bool buf_reserve(struct buf *b, size_t extra)
{
	if (b->failed)
		return false;
	if (extra < b->capacity - b->length)
		return true;
	if (extra >= PTRDIFF_MAX - b->length) {
		b->failed = true;
		return false;
	}
	size_t wanted = b->length + extra + 1;
	size_t capacity = b->capacity < BUF_FIRST_CAPACITY ? BUF_FIRST_CAPACITY : b->capacity;
	while (capacity < wanted)
		capacity = capacity > PTRDIFF_MAX / 2 ? wanted : capacity * 2;
	char *data = realloc(b->data, capacity);
	if (!data) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->capacity = capacity;
	return true;
}

void buf_append(struct buf *b, const void *bytes, size_t length)
{
	if (!buf_reserve(b, length))
		return;
	if (length > 0)
		memcpy(b->data + b->length, bytes, length);
	b->length += length;
	b->data[b->length] = '\0';
}

void buf_append_str(struct buf *b, struct str s)
{
	buf_append(b, s.data, s.length);
}

void buf_append_text(struct buf *b, const char *text)
{
	buf_append(b, text, strlen(text));
}

void buf_append_char(struct buf *b, char c)
{
	buf_append(b, &c, 1);
}

void buf_printf(struct buf *b, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(NULL, 0, format, arguments);
	va_end(arguments);
	if (length < 0) {
		b->failed = true;
		return;
	}
	if (!buf_reserve(b, (size_t)length))
		return;
	va_start(arguments, format);
	vsnprintf(b->data + b->length, (size_t)length + 1, format, arguments);
	va_end(arguments);
	b->length += (size_t)length;
}

void buf_clear(struct buf *b)
{
	b->length = 0;
	if (b->data)
		b->data[0] = '\0';
}

void buf_free(struct buf *b)
{
	free(b->data);
	*b = (struct buf){0};
}

int buf_check(const struct buf *b, struct error *e)
{
	if (b->failed)
		return error_set(e, ERR_MEMORY, "no memory to grow a buffer of %zu bytes", b->length);
	return 0;
}

struct str buf_str(const struct buf *b)
{
	return (struct str){b->data, b->length};
}

const char *buf_text(const struct buf *b)
{
	return b->data ? b->data : "";
}

size_t str_find(struct str haystack, struct str needle, size_t from)
{
	if (from > haystack.length)
		return SIZE_MAX;
	if (needle.length == 0)
		return from;
	if (needle.length > haystack.length - from)
		return SIZE_MAX;
	const char *found = memmem(haystack.data + from, haystack.length - from, needle.data, needle.length);
	return found ? (size_t)(found - haystack.data) : SIZE_MAX;
}
