#include "engine/backend.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "engine/base/thread_pool.h"

const char *weight_format_name(enum weight_format format)
{
	static const char *const names[] = {"f32", "bf16", "e4m3", "int4"};
	return names[format];
}

const char *kv_format_name(enum kv_format format)
{
	static const char *const names[] = {"f32", "bf16", "fp8"};
	return names[format];
}

size_t kv_format_size(enum kv_format format)
{
	static const size_t sizes[] = {4, 2, 1};
	return sizes[format];
}

int linear_parts(int columns, int heads, int unit)
{
	for (int parts = 8; parts > 1; parts /= 2)
		if (columns % (parts * unit) == 0 && heads % parts == 0)
			return parts;
	return 1;
}

enum { ROWS_CHECKED = 64 /* that a thread takes at a time */ };

struct codes_check {
	const struct host_matrix *m;
	atomic_int bad; /* the first row with a bad code; rows: none */
};

static bool code_is_bad(enum weight_format format, uint8_t code)
{
	return format == WEIGHT_E4M3 ? (code & 0x7f) == 0x7f : code > 15;
}

/* Whether any of n codes is bad; without a branch for each. */
static bool codes_are_bad(enum weight_format format, const uint8_t *codes, size_t n)
{
	uint8_t bad = 0;

	if (format == WEIGHT_E4M3)
		for (size_t i = 0; i < n; i++)
			bad |= (codes[i] & 0x7f) == 0x7f;
	else
		for (size_t i = 0; i < n; i++)
			bad |= codes[i] > 15;
	return bad;
}

static void rows_check(void *argument, int block, int thread)
{
	struct codes_check *c = argument;
	const struct host_matrix *m = c->m;
	int first = block * ROWS_CHECKED, end = m->rows - first < ROWS_CHECKED ? m->rows : first + ROWS_CHECKED;

	(void)thread;
	for (int row = first; row < end; row++) {
		size_t columns = (size_t)m->columns;
		if (!codes_are_bad(m->format, (const uint8_t *)m->data + (size_t)row * columns, columns))
			continue;
		int known = atomic_load(&c->bad);
		while (row < known && !atomic_compare_exchange_weak(&c->bad, &known, row))
			;
		return;
	}
}

int host_matrix_check(const struct host_matrix *m, struct error *e)
{
	struct codes_check c = {.m = m};

	if (m->format != WEIGHT_E4M3 && m->format != WEIGHT_INT4)
		return 0;
	atomic_init(&c.bad, m->rows);
	thread_pool_run(m->threads, m->rows / ROWS_CHECKED + 1, rows_check, &c);
	int row = atomic_load(&c.bad), column = 0;
	if (row == m->rows)
		return 0;
	const uint8_t *codes = (const uint8_t *)m->data + (size_t)row * (size_t)m->columns;
	while (!code_is_bad(m->format, codes[column]))
		column++;
	if (m->format == WEIGHT_E4M3)
		return error_set(e, ERR_INPUT, "weight [%d, %d] is NaN in E4M3", row, column);
	return error_set(e, ERR_INPUT, "weight [%d, %d] is %d, expected q + 8 in 0..15", row, column, codes[column]);
}
