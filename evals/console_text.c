#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <utf8proc.h>

#include "engine/base/utf8.h"
#include "evals/console.h"

/* ---- Text ---- */

static int char_width(int32_t c)
{
	return c < 0 ? 1 : utf8proc_charwidth(c);
}

int text_width(struct str s)
{
	int width = 0;
	for (size_t i = 0; i < s.length;)
		width += char_width(utf8_next(s, &i));
	return width;
}

/* Line and paragraph separators, and the marks that make a terminal show text in another order than it stands. */
static bool reorders(int32_t c)
{
	return c == 0x061c || (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
		(c >= 0x2066 && c <= 0x2069);
}

void text_append_printable(struct buf *out, struct str s)
{
	for (size_t i = 0; i < s.length;) {
		int32_t c = utf8_next(s, &i);
		if (c == '\n')
			buf_append_text(out, "\\n");
		else if (c == '\t')
			buf_append_text(out, "\\t");
		else if (c >= 0 && (c < 0x20 || (c >= 0x7f && c < 0xa0)))
			buf_printf(out, "\\x%02x", (unsigned)c);
		else if (reorders(c))
			buf_printf(out, "\\u%04x", (unsigned)c);
		else
			utf8_append(out, c < 0 ? 0xfffd : c);
	}
}

void text_append_clipped(struct buf *out, struct str s, int columns)
{
	int width = text_width(s);
	int room = width <= columns ? columns : columns - 1; /* one for the ellipsis */
	size_t end = 0;
	for (size_t i = 0; i < s.length; end = i) {
		room -= char_width(utf8_next(s, &i));
		if (room < 0)
			break;
	}
	buf_append(out, s.data, end);
	if (width > columns && columns > 0)
		buf_append_text(out, "…");
}

void text_append_bytes(struct buf *out, int64_t bytes)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
	if (bytes > -1024 && bytes < 1024) {
		buf_printf(out, "%" PRId64 " B", bytes);
		return;
	}
	double value = (double)bytes / 1024;
	size_t i = 0;
	while (fabs(value) >= 1023.95 && i + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1024;
		i++;
	}
	buf_printf(out, "%.1f %s", value, units[i]);
}

void text_append_estimate(struct buf *out, double value, double stderr_value)
{
	bool tiny = fabs(value) < 0.001 && value != 0;
	bool sharp = stderr_value > 0 && stderr_value < 0.00005;
	const char *format = tiny ? "%.2e" : sharp ? "%.6f" : "%.4f";
	if (isnan(value))
		buf_append_text(out, "n/a");
	else
		buf_printf(out, format, value);
	if (isnan(stderr_value)) {
		buf_append_text(out, " ± n/a");
		return;
	}
	buf_append_text(out, " ± ");
	buf_printf(out, format, stderr_value);
}

/* ---- Tables ---- */

void table_init(struct table *t, const char *align)
{
	*t = (struct table){.columns = (int)strlen(align), .align = align};
}

void table_free(struct table *t)
{
	buf_free(&t->text);
	free(t->ends);
	*t = (struct table){0};
}

static void end_cell(struct table *t)
{
	if (t->cells == t->capacity) {
		size_t capacity = t->capacity ? 2 * t->capacity : 64;
		size_t *grown = reallocarray(t->ends, capacity, sizeof(*grown));
		if (!grown) {
			t->failed = true;
			return;
		}
		t->ends = grown;
		t->capacity = capacity;
	}
	t->ends[t->cells++] = t->text.length;
}

void table_add(struct table *t, struct str text)
{
	text_append_printable(&t->text, text);
	end_cell(t);
}

void table_printf(struct table *t, const char *format, ...)
{
	char text[512] = "";
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	table_add(t, str_of(text));
}

static struct str cell_at(const struct table *t, size_t i)
{
	size_t start = i ? t->ends[i - 1] : 0;
	return (struct str){t->text.data + start, t->ends[i] - start};
}

static void append_blanks(struct buf *out, int n)
{
	for (; n > 0; n--)
		buf_append_char(out, ' ');
}

/* One line; nothing follows the last column's text. */
static void write_row(const struct table *t, size_t first, const int *widths, struct buf *out)
{
	for (int column = 0; column < t->columns; column++) {
		struct str cell = cell_at(t, first + (size_t)column);
		int blanks = widths[column] - text_width(cell);
		bool last = column + 1 == t->columns;
		if (t->align[column] == 'r')
			append_blanks(out, blanks);
		buf_append_str(out, cell);
		if (t->align[column] != 'r' && !last)
			append_blanks(out, blanks);
		if (!last)
			append_blanks(out, 2);
	}
}

int table_write(const struct table *t, bool color, struct buf *out, struct error *e)
{
	TRY(buf_check(&t->text, e));
	if (t->failed)
		return error_set(e, ERR_MEMORY, "no memory for a table");
	int *widths = mem_calloc((size_t)t->columns, sizeof(*widths), e);
	if (!widths)
		return ERR_MEMORY;
	for (size_t i = 0; i < t->cells; i++) {
		int width = text_width(cell_at(t, i));
		int *column = &widths[i % (size_t)t->columns];
		*column = width > *column ? width : *column;
	}
	for (size_t first = 0; first < t->cells; first += (size_t)t->columns) {
		bool bold = color && first == 0;
		buf_append_text(out, bold ? "\033[1m" : "");
		write_row(t, first, widths, out);
		buf_append_text(out, bold ? "\033[0m\n" : "\n");
	}
	free(widths);
	return buf_check(out, e);
}
