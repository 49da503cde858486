#include "engine/base/error.h"

#include <stdint.h>

#include "engine/base/utf8.h"

/* Messages quote hostile input and end up on terminals and in XML: what is no UTF-8 or a control character (line feed
 * and tab apart) becomes '?'. A character that the message's end cut in two is dropped. */
static void message_clean(char *message)
{
	struct str s = str_of(message);
	if (s.length == sizeof(((struct error *)0)->message) - 1) {
		s.length = utf8_complete(s);
		message[s.length] = '\0';
	}
	for (size_t position = 0; position < s.length;) {
		size_t start = position;
		int32_t c = utf8_next(s, &position);
		bool control = c >= 0 && (c < 0x20 || (c >= 0x7f && c < 0xa0)) && c != '\n' && c != '\t';
		if (c < 0 || control)
			memset(message + start, '?', position - start);
	}
}

int error_set(struct error *e, int code, const char *format, ...)
{
	if (!e)
		return code;
	/* The arguments may point into e->message. */
	char message[sizeof(e->message)] = "";
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	message_clean(message);
	memcpy(e->message, message, sizeof(message));
	e->code = code;
	return code;
}

int error_prefix(struct error *e, const char *format, ...)
{
	if (!e)
		return ERR_INPUT;
	char prefix[sizeof(e->message)] = "";
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(prefix, sizeof(prefix), format, arguments);
	va_end(arguments);
	return error_set(e, e->code, "%s: %s", prefix, e->message);
}

int error_exit_code(int code)
{
	switch (code) {
	case 0:
		return 0;
	case ERR_USAGE:
	case ERR_INPUT:
	case ERR_MISSING:
		return 2;
	case ERR_EMPTY:
		return 5;
	case ERR_INTERRUPTED:
		return 130;
	default:
		return 4;
	}
}

void *mem_calloc(size_t count, size_t size, struct error *e)
{
	void *memory = NULL;
	if (size == 0 || count <= PTRDIFF_MAX / size)
		memory = count == 0 || size == 0 ? calloc(1, 1) : calloc(count, size);
	if (!memory)
		error_set(e, ERR_MEMORY, "no memory for %zu x %zu bytes", count, size);
	return memory;
}

void *mem_aligned(size_t bytes, struct error *e)
{
	enum { ALIGNMENT = 64 };
	void *memory = NULL;
	if (bytes <= PTRDIFF_MAX - ALIGNMENT) {
		size_t rounded = bytes == 0 ? ALIGNMENT : (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
		memory = aligned_alloc(ALIGNMENT, rounded);
		if (memory)
			memset(memory, 0, rounded);
	}
	if (!memory)
		error_set(e, ERR_MEMORY, "no memory for %zu bytes", bytes);
	return memory;
}
