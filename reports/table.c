#include "reports/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/decimal.h"
#include "engine/base/utf8.h"

struct report_table *table_list_add(struct table_list *list, const char *id, const char *title, struct error *e)
{
	struct report_table **grown = reallocarray(list->tables, list->n + 1, sizeof(*grown));
	struct report_table *t = grown ? mem_calloc(1, sizeof(*t), e) : NULL;
	if (grown)
		list->tables = grown;
	else
		error_set(e, ERR_MEMORY, "no memory for a table");
	if (!t)
		return NULL;
	t->id = id;
	t->title = title;
	return list->tables[list->n++] = t;
}

void table_list_free(struct table_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		buf_free(&list->tables[i]->note);
		buf_free(&list->tables[i]->text);
		free(list->tables[i]->cells);
		free(list->tables[i]);
	}
	free(list->tables);
	*list = (struct table_list){0};
}

int table_list_check(const struct table_list *list, struct error *e)
{
	for (size_t i = 0; i < list->n; i++) {
		if (list->tables[i]->failed)
			return error_set(e, ERR_MEMORY, "no memory for the table %s", list->tables[i]->id);
		TRY(buf_check(&list->tables[i]->text, e));
		TRY(buf_check(&list->tables[i]->note, e));
	}
	return 0;
}

/* ---- Filling ---- */

static struct table_cell text_cell(struct report_table *t, struct str text)
{
	struct table_cell cell = {.begin = t->text.length, .length = text.length, .digits = -1};
	buf_append_str(&t->text, text);
	return cell;
}

static void add_column(struct report_table *t, const char *name, bool numeric)
{
	if (t->n_columns == TABLE_MAX_COLUMNS) {
		t->failed = true;
		return;
	}
	t->numeric[t->n_columns] = numeric;
	t->columns[t->n_columns++] = text_cell(t, str_of(name));
}

void table_text_column(struct report_table *t, const char *name)
{
	add_column(t, name, false);
}

void table_number_column(struct report_table *t, const char *name)
{
	add_column(t, name, true);
}

static void add_cell(struct report_table *t, struct table_cell cell)
{
	if (t->n_cells == t->capacity) {
		size_t capacity = t->capacity ? 2 * t->capacity : 64;
		struct table_cell *grown = reallocarray(t->cells, capacity, sizeof(*grown));
		if (!grown) {
			t->failed = true;
			return;
		}
		t->cells = grown;
		t->capacity = capacity;
	}
	t->cells[t->n_cells++] = cell;
}

void table_str(struct report_table *t, struct str text)
{
	add_cell(t, text_cell(t, text));
}

void table_text(struct report_table *t, const char *text)
{
	table_str(t, str_of(text));
}

void table_textf(struct report_table *t, const char *format, ...)
{
	char text[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	table_text(t, text);
}

void table_int(struct report_table *t, int64_t value)
{
	add_cell(t, (struct table_cell){.value = (double)value, .is_whole = true, .display = 1});
}

void table_number(struct report_table *t, double value, int digits)
{
	add_cell(t, (struct table_cell){.value = value, .digits = digits, .display = 1});
}

void table_p(struct report_table *t, double p)
{
	add_cell(t, (struct table_cell){.value = p, .digits = 4, .display = 1, .is_p = true});
}

void table_percent(struct report_table *t, double value, int digits)
{
	add_cell(t, (struct table_cell){.value = value, .digits = digits, .display = 100});
}

size_t table_rows(const struct report_table *t)
{
	return t->n_columns ? t->n_cells / (size_t)t->n_columns : 0;
}

/* ---- Writing ---- */

struct str table_cell_text(const struct report_table *t, const struct table_cell *cell)
{
	return (struct str){t->text.data + cell->begin, cell->length};
}

void table_cell_show(const struct report_table *t, const struct table_cell *cell, struct buf *out)
{
	double value = cell->value * cell->display;
	if (cell->digits < 0)
		buf_append_str(out, table_cell_text(t, cell));
	else if (isnan(value))
		buf_append_text(out, "–");
	else if (cell->is_whole)
		buf_printf(out, "%" PRId64, (int64_t)cell->value);
	else if (cell->is_p && value < 0.00005)
		buf_append_text(out, "<0.0001");
	else if (isinf(value))
		buf_append_text(out, value > 0 ? "∞" : "−∞");
	else
		/* What rounds to nothing has no sign. */
		buf_printf(out, "%.*f", cell->digits, fabs(value) < 0.5 * pow(10, -cell->digits) ? 0 : value);
}

static bool is_markdown_mark(int32_t c)
{
	return c > 0 && c < 128 && strchr("\\`*_[]<>#|~&@", c) != NULL;
}

void markdown_text(struct buf *out, struct str s)
{
	for (size_t at = 0; at < s.length;) {
		int32_t c = utf8_next(s, &at);
		if (c < 0)
			c = 0xfffd;
		if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029)
			c = ' ';
		if (is_markdown_mark(c))
			buf_printf(out, "&#%d;", (int)c);
		else
			utf8_append(out, c);
	}
}

static void markdown_cell(const struct report_table *t, const struct table_cell *cell, struct buf *out)
{
	struct buf text = {0};
	table_cell_show(t, cell, &text);
	buf_append_text(out, " ");
	markdown_text(out, buf_str(&text));
	buf_append_text(out, " |");
	buf_free(&text);
}

void table_markdown(const struct report_table *t, struct buf *out)
{
	buf_printf(out, "### %s\n\n|", t->title);
	for (int i = 0; i < t->n_columns; i++)
		markdown_cell(t, &t->columns[i], out);
	buf_append_text(out, "\n|");
	for (int i = 0; i < t->n_columns; i++)
		buf_append_text(out, t->numeric[i] ? " ---: |" : " --- |");
	buf_append_char(out, '\n');
	for (size_t i = 0; i < t->n_cells; i++) {
		bool first = i % (size_t)t->n_columns == 0, last = (i + 1) % (size_t)t->n_columns == 0;
		buf_append_text(out, first ? "|" : "");
		markdown_cell(t, &t->cells[i], out);
		buf_append_text(out, last ? "\n" : "");
	}
	buf_append_char(out, '\n');
	if (t->note.length) {
		markdown_text(out, buf_str(&t->note));
		buf_append_text(out, "\n\n");
	}
}

static void csv_text(struct buf *out, struct str s)
{
	buf_append_char(out, '"');
	for (size_t i = 0; i < s.length; i++) {
		if (s.data[i] == '"')
			buf_append_char(out, '"');
		/* No reader of CSV takes a NUL for text. */
		if (s.data[i])
			buf_append_char(out, s.data[i]);
		else
			buf_append_text(out, "\xef\xbf\xbd");
	}
	buf_append_char(out, '"');
}

static void csv_cell(const struct report_table *t, const struct table_cell *cell, struct buf *out)
{
	if (cell->digits < 0)
		csv_text(out, table_cell_text(t, cell));
	else if (cell->is_whole)
		buf_printf(out, "%" PRId64, (int64_t)cell->value);
	else if (isfinite(cell->value))
		decimal_write_double(cell->value, out);
	else
		buf_append_text(out, isnan(cell->value) ? "" : cell->value > 0 ? "inf" : "-inf");
}

void table_csv_header(struct buf *out)
{
	buf_append_text(out, "table,subject,row,column,value\r\n");
}

/* "overhead, %" without the unit: the cells below it keep the fraction. */
static struct str csv_column(const struct report_table *t, const struct table_cell *column)
{
	static const char unit[] = ", %";
	struct str name = table_cell_text(t, column);
	size_t length = sizeof unit - 1;

	if (name.length > length && memcmp(name.data + name.length - length, unit, length) == 0)
		name.length -= length;
	return name;
}

void table_csv(const struct report_table *t, const char *subject, struct buf *out)
{
	for (size_t i = 0; i < t->n_cells; i++) {
		const struct table_cell *column = &t->columns[i % (size_t)t->n_columns];
		buf_printf(out, "%s,", t->id);
		csv_text(out, str_of(subject));
		buf_printf(out, ",%zu,", i / (size_t)t->n_columns + 1);
		csv_text(out, csv_column(t, column));
		buf_append_char(out, ',');
		csv_cell(t, &t->cells[i], out);
		buf_append_text(out, "\r\n");
	}
}
