/* Tables of a report, made once and written as HTML, Markdown or CSV. */
#ifndef ASSAY_REPORTS_TABLE_H
#define ASSAY_REPORTS_TABLE_H

#include <stdint.h>

#include "engine/base/buf.h"

enum { TABLE_MAX_COLUMNS = 40 };

struct table_cell {
	size_t begin, length; /* its text in the table's text */
	double value;
	int digits;     /* behind the point; -1: a text, not a number */
	bool is_whole;  /* an integer: value is exact below 2^53 */
	double display; /* what a shown number is multiplied by: 100 for points */
	bool is_p;      /* what rounds to nothing is shown as small */
};

struct report_table {
	const char *id;    /* "suites": names it in CSV, and its place in the page */
	const char *title; /* a literal */
	struct buf note;   /* one sentence or more below it; may be empty */
	struct buf text;   /* column names, then cells */
	struct table_cell columns[TABLE_MAX_COLUMNS];
	bool numeric[TABLE_MAX_COLUMNS]; /* aligned to the right */
	int n_columns;
	struct table_cell *cells; /* [n_cells], row by row */
	size_t n_cells, capacity;
	bool failed;
};

/* Starts zeroed. */
struct table_list {
	struct report_table **tables;
	size_t n;
};

/* Adds a table; NULL and ERR_MEMORY on failure. id and title are literals. */
struct report_table *table_list_add(struct table_list *list, const char *id, const char *title, struct error *e);
void table_list_free(struct table_list *list);
/* ERR_MEMORY when anything could not be kept. */
int table_list_check(const struct table_list *list, struct error *e);

/* Columns first, then cells in the order of rows. */
void table_text_column(struct report_table *t, const char *name);
void table_number_column(struct report_table *t, const char *name);
void table_text(struct report_table *t, const char *text); /* NULL: an empty cell */
void table_str(struct report_table *t, struct str text);
void table_textf(struct report_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_int(struct report_table *t, int64_t value);
void table_number(struct report_table *t, double value, int digits); /* NaN: an empty cell */
/* A p value, shown with four digits or as "<0.0001". */
void table_p(struct report_table *t, double p);
/* A fraction that is shown as percent or points; CSV keeps the fraction, and leaves ", %" out of the column's name. */
void table_percent(struct report_table *t, double value, int digits);

size_t table_rows(const struct report_table *t);
/* Appends a number as people read it ("–" for NaN), or the text as it is. */
void table_cell_show(const struct report_table *t, const struct table_cell *cell, struct buf *out);
struct str table_cell_text(const struct report_table *t, const struct table_cell *cell);

/* Markdown (GitHub's tables): what a text holds of its markup is escaped, a line feed becomes a blank. */
void table_markdown(const struct report_table *t, struct buf *out);
void markdown_text(struct buf *out, struct str s);

/* CSV (RFC 4180), one line a cell: table,subject,row,column,value; numbers in full. subject: what the table is about,
 * where several of one name are written. The header line stands alone. */
void table_csv_header(struct buf *out);
void table_csv(const struct report_table *t, const char *subject, struct buf *out);

#endif
