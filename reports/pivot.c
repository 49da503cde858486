#include "reports/pivot.h"

#include <math.h>
#include <stdlib.h>

static bool same_row(const struct pivot *p, const struct pivot_point *a, const struct pivot_point *b)
{
	for (int i = 0; i < p->n_keys; i++)
		if (strcmp(a->key[i], b->key[i]) != 0)
			return false;
	return true;
}

static bool same_column(const struct pivot_point *a, const struct pivot_point *b)
{
	return strcmp(a->column, b->column) == 0;
}

static void point_free(struct pivot_point *x)
{
	for (int i = 0; i < PIVOT_KEYS; i++)
		free(x->key[i]);
	free(x->column);
}

void pivot_free(struct pivot *p)
{
	for (size_t i = 0; i < p->n; i++)
		point_free(&p->points[i]);
	free(p->points);
	*p = (struct pivot){0};
}

static bool make_room(struct pivot *p)
{
	if (p->n < p->capacity)
		return true;
	size_t capacity = p->capacity ? 2 * p->capacity : 64;
	struct pivot_point *grown = reallocarray(p->points, capacity, sizeof(*grown));
	if (!grown)
		return false;
	p->points = grown;
	p->capacity = capacity;
	return true;
}

void pivot_add(struct pivot *p, const char *const *keys, const char *column, double value)
{
	struct pivot_point x = {.column = strdup(column), .value = value};
	bool kept = x.column && make_room(p);
	for (int i = 0; i < p->n_keys; i++)
		kept = (x.key[i] = strdup(keys[i])) && kept;
	for (size_t i = 0; i < p->n && kept; i++)
		if (same_column(&p->points[i], &x) && same_row(p, &p->points[i], &x)) {
			p->points[i].value = value;
			point_free(&x);
			return;
		}
	p->failed = p->failed || !kept;
	if (kept)
		p->points[p->n++] = x;
	else
		point_free(&x);
}

/* Whether point i is the first of its column, or of its row. */
static bool first_of_column(const struct pivot *p, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (same_column(&p->points[i], &p->points[j]))
			return false;
	return true;
}

static bool first_of_row(const struct pivot *p, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (same_row(p, &p->points[i], &p->points[j]))
			return false;
	return true;
}

size_t pivot_columns(const struct pivot *p)
{
	size_t columns = 0;
	for (size_t i = 0; i < p->n; i++)
		columns += first_of_column(p, i);
	return columns;
}

static bool is_number(const char *text)
{
	return *text && strspn(text, "0123456789") == strlen(text) && strlen(text) < 16;
}

static double find(const struct pivot *p, const struct pivot_point *row, const struct pivot_point *column)
{
	for (size_t i = 0; i < p->n; i++)
		if (same_row(p, &p->points[i], row) && same_column(&p->points[i], column))
			return p->points[i].value;
	return NAN;
}

static void add_row(
	const struct pivot *p, size_t row, const size_t *columns, int n_columns, int digits, struct report_table *t)
{
	for (int i = 0; i < p->n_keys; i++) {
		const char *key = p->points[row].key[i];
		if (is_number(key))
			table_int(t, strtoll(key, NULL, 10));
		else
			table_text(t, key);
	}
	for (int i = 0; i < n_columns; i++)
		table_number(t, find(p, &p->points[row], &p->points[columns[i]]), digits);
}

int pivot_table(
	const struct pivot *p, const char *const *key_names, int digits, struct report_table *t, struct error *e)
{
	size_t columns[TABLE_MAX_COLUMNS];
	int n = 0;
	if (p->failed)
		return error_set(e, ERR_MEMORY, "no memory for the table %s", t->id);
	for (int i = 0; i < p->n_keys; i++)
		table_text_column(t, key_names[i]);
	for (size_t i = 0; i < p->n; i++) {
		if (!first_of_column(p, i))
			continue;
		if (n + p->n_keys < TABLE_MAX_COLUMNS) {
			table_number_column(t, p->points[i].column);
			columns[n++] = i;
		}
	}
	if (pivot_columns(p) > (size_t)n)
		buf_printf(&t->note, "Columns that are left out for room: %zu. ", pivot_columns(p) - (size_t)n);
	for (size_t i = 0; i < p->n; i++)
		if (first_of_row(p, i))
			add_row(p, i, columns, n, digits, t);
	return 0;
}
