/* Numbers by two keys, turned into a table: a line per row key, a column per column key, in the order of appearance. */
#ifndef ASSAY_REPORTS_PIVOT_H
#define ASSAY_REPORTS_PIVOT_H

#include "reports/table.h"

enum { PIVOT_KEYS = 4 };

struct pivot {
	struct pivot_point *points;
	size_t n, capacity;
	int n_keys;
	bool failed;
};

struct pivot_point {
	char *key[PIVOT_KEYS], *column; /* owned */
	double value;
};

/* A point of the same keys and column as an earlier one takes its place. */
void pivot_add(struct pivot *p, const char *const *keys, const char *column, double value);
void pivot_free(struct pivot *p);

/* Distinct columns. */
size_t pivot_columns(const struct pivot *p);

/* Fills a fresh table. Keys that are decimal numbers are written as numbers. digits: of the values. Columns beyond
 * TABLE_MAX_COLUMNS are left out, and the note says so. */
int pivot_table(
	const struct pivot *p, const char *const *key_names, int digits, struct report_table *t, struct error *e);

#endif
