#include "engine/model/weight_share.h"

#include <stdlib.h>
#include <string.h>

size_t host_value_size(enum weight_format format)
{
	return format == WEIGHT_F32 ? sizeof(float) : format == WEIGHT_BF16 ? sizeof(uint16_t) : 1;
}

static size_t row_groups(const struct host_matrix *m)
{
	return m->format == WEIGHT_INT4 ? ((size_t)m->columns + (size_t)m->group - 1) / (size_t)m->group : 0;
}

static int share_alloc(struct weight_share *s, const struct host_matrix *whole, int rows, int columns, struct error *e)
{
	s->m = (struct host_matrix){.format = whole->format,
		.rows = rows,
		.columns = columns,
		.group = whole->group,
		.threads = whole->threads};
	s->data = mem_calloc((size_t)rows, (size_t)columns * host_value_size(whole->format), e);
	s->scales = whole->format == WEIGHT_E4M3 ? mem_calloc((size_t)rows, sizeof *s->scales, e) : NULL;
	s->group_scales = whole->format == WEIGHT_INT4
		? mem_calloc((size_t)rows, row_groups(&s->m) * sizeof *s->group_scales, e)
		: NULL;
	s->m.data = s->data;
	s->m.scales = s->scales;
	s->m.group_scales = s->group_scales;
	if (!s->data || (whole->format == WEIGHT_E4M3 && !s->scales) ||
		(whole->format == WEIGHT_INT4 && !s->group_scales))
		return ERR_MEMORY;
	return 0;
}

/* n rows of the whole from `from` on, their columns from `column` on, to the share's rows from `to` on. */
static void share_copy(struct weight_share *s, const struct host_matrix *whole, int from, int n, int column, int to)
{
	size_t size = host_value_size(whole->format), groups = row_groups(whole), own_groups = row_groups(&s->m);
	size_t row_bytes = (size_t)whole->columns * size, own_bytes = (size_t)s->m.columns * size;

	for (size_t i = 0; i < (size_t)n; i++) {
		size_t source = (size_t)from + i, target = (size_t)to + i;
		memcpy(s->data + target * own_bytes,
			(const char *)whole->data + source * row_bytes + (size_t)column * size, own_bytes);
		if (s->scales)
			s->scales[target] = whole->scales[source];
		if (s->group_scales)
			memcpy(s->group_scales + target * own_groups,
				whole->group_scales + source * groups + (size_t)(column / whole->group),
				own_groups * sizeof *s->group_scales);
	}
}

static int rank_rows(int rows, int n_ranks)
{
	return (rows + n_ranks - 1) / n_ranks;
}

int weight_share_rows(struct weight_share *s, const struct host_matrix *whole, const int *rows, int count, int rank,
	int n_ranks, struct error *e)
{
	int sum = 0;

	*s = (struct weight_share){.m = *whole};
	if (n_ranks == 1)
		return 0;
	for (int i = 0; i < count; i++)
		sum += rank_rows(rows[i], n_ranks);
	TRY(share_alloc(s, whole, sum, whole->columns, e));
	for (int i = 0, from = 0, to = 0; i < count; i++) {
		int own = rank_rows(rows[i], n_ranks), first = rank * own, left = rows[i] - first;
		if (left > 0)
			share_copy(s, whole, from + first, left < own ? left : own, 0, to);
		from += rows[i];
		to += own;
	}
	return 0;
}

int weight_share_columns(
	struct weight_share *s, const struct host_matrix *whole, int rank, int n_ranks, struct error *e)
{
	*s = (struct weight_share){.m = *whole};
	if (n_ranks == 1)
		return 0;
	TRY(share_alloc(s, whole, whole->rows, whole->columns / n_ranks, e));
	share_copy(s, whole, 0, whole->rows, rank * s->m.columns, 0);
	return 0;
}

void weight_share_free(struct weight_share *s)
{
	free(s->data);
	free(s->scales);
	free(s->group_scales);
}
