#include "reports/github.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/* Bytes of the longest beginning of whole lines that is at most limit long. */
static size_t whole_lines(struct str text, size_t limit)
{
	size_t length = limit < text.length ? limit : text.length;
	while (length > 0 && length < text.length && text.data[length - 1] != '\n')
		length--;
	return length;
}

int github_summary_append(const char *path, struct str markdown, struct error *e)
{
	static const char note[] = "\nThe rest is too long for a summary.\n";
	FILE *file = fopen(path, "abe");
	if (!file)
		return error_set(e, ERR_IO, "%s: cannot append the summary: %s", path, strerror(errno));
	struct stat info;
	size_t used = fstat(fileno(file), &info) == 0 && info.st_size > 0 ? (size_t)info.st_size : 0;
	size_t room = used < GITHUB_SUMMARY_MAX ? GITHUB_SUMMARY_MAX - used : 0;
	size_t length = markdown.length <= room ? markdown.length
						: whole_lines(markdown, room > sizeof(note) ? room - sizeof(note) : 0);
	bool written = fwrite(markdown.data, 1, length, file) == length;
	if (length < markdown.length && room > sizeof(note))
		written = fputs(note, file) >= 0 && written;
	if (fclose(file) != 0 || !written)
		return error_set(e, ERR_IO, "%s: cannot append the summary: %s", path, strerror(errno));
	return 0;
}

static void append_escaped(struct buf *out, const char *text, bool property)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		if (c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ',')))
			buf_printf(out, "%%%02X", c);
		else
			buf_append_char(out, *text);
	}
}

void github_annotation(const char *level, const char *title, const char *message, struct buf *out)
{
	buf_printf(out, "::%s title=", level);
	append_escaped(out, title, true);
	buf_append_text(out, "::");
	append_escaped(out, message, false);
	buf_append_char(out, '\n');
}
