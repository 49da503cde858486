#include "engine/cpu/pack.h"

#include <string.h>

#include "engine/base/number.h"
#include "engine/base/thread_pool.h"

/* data may be unaligned: values are copied byte-wise. */
static void pack_panel(const struct host_matrix *m, int panel, uint8_t *out)
{
	const uint8_t *in = m->data;
	size_t k_count = (size_t)m->columns;
	size_t size = m->format == WEIGHT_F32 ? 4 : m->format == WEIGHT_BF16 ? 2 : 1;
	int first = panel * PANEL_ROWS;

	for (int r = 0; r < PANEL_ROWS && first + r < m->rows; r++) {
		const uint8_t *row = in + (size_t)(first + r) * k_count * size;
		if (m->format == WEIGHT_INT4) {
			uint32_t *words = (uint32_t *)(void *)out;
			for (size_t k = 0; k < k_count; k++)
				words[k / 8 * PANEL_ROWS + (size_t)r] |= (uint32_t)row[k] << (k % 8 * 4);
			continue;
		}
		for (size_t k = 0; k < k_count; k++)
			memcpy(out + (k * PANEL_ROWS + (size_t)r) * size, row + k * size, size);
	}
}

static void pack_scales(const struct host_matrix *m, const struct weight *w)
{
	if (m->format == WEIGHT_E4M3) {
		memcpy(w->scales, m->scales, (size_t)m->rows * sizeof *m->scales);
		return;
	}
	int groups = group_count(w);
	uint16_t *out = w->scales;
	for (int row = 0; row < m->rows; row++)
		for (int g = 0; g < groups; g++)
			out[((size_t)(row / PANEL_ROWS) * (size_t)groups + (size_t)g) * PANEL_ROWS +
				(size_t)(row % PANEL_ROWS)] = m->group_scales[(size_t)row * (size_t)groups + (size_t)g];
}

struct packing {
	const struct host_matrix *m;
	uint8_t *data;
	size_t panel_bytes;
};

static void panel_task(void *argument, int panel, int thread)
{
	const struct packing *p = argument;

	(void)thread;
	pack_panel(p->m, panel, p->data + (size_t)panel * p->panel_bytes);
}

int weight_pack_cpu(const struct host_matrix *m, int parts, struct slabs *slabs, struct weight *out, struct error *e)
{
	size_t panels = (size_t)panel_count(m->rows), bytes = panel_bytes(m->format, m->columns), scale_bytes = 0;

	*out = (struct weight){
		.format = m->format, .rows = m->rows, .columns = m->columns, .group = m->group, .parts = parts};
	TRY(host_matrix_check(m, e)); /* the kernels do not look for the NaN code */
	if (m->format == WEIGHT_E4M3)
		scale_bytes = panels * PANEL_ROWS * sizeof(float);
	else if (m->format == WEIGHT_INT4)
		scale_bytes = panels * (size_t)group_count(out) * PANEL_ROWS * sizeof(uint16_t);
	out->data = slab_take(slabs, panels * bytes, e);
	out->scales = scale_bytes ? slab_take(slabs, scale_bytes, e) : NULL;
	out->bytes = panels * bytes + scale_bytes;
	if (!out->data || (scale_bytes && !out->scales)) {
		weight_free_cpu(out);
		return ERR_MEMORY;
	}
	struct packing packing = {m, out->data, bytes};
	thread_pool_run(m->threads, (int)panels, panel_task, &packing);
	if (scale_bytes)
		pack_scales(m, out);
	return 0;
}

void weight_free_cpu(struct weight *w)
{
	slab_give(w->data);
	slab_give(w->scales);
	*w = (struct weight){0};
}

float weight_code_value(const struct weight *w, int row, int column)
{
	size_t panel = (size_t)(row / PANEL_ROWS), lane = (size_t)(row % PANEL_ROWS);
	const uint8_t *at = (const uint8_t *)w->data + panel * panel_bytes(w->format, w->columns) +
		(size_t)(column / pack_columns(w->format)) * panel_step_bytes(w->format);

	switch (w->format) {
	case WEIGHT_F32:
		return ((const float *)(const void *)at)[lane];
	case WEIGHT_BF16:
		return bf16_to_float(((const uint16_t *)(const void *)at)[lane]);
	case WEIGHT_E4M3:
		return e4m3_to_float(at[lane]);
	case WEIGHT_INT4:
		return (float)((int)(((const uint32_t *)(const void *)at)[lane] >> (column % 8 * 4) & 15) - 8);
	}
	return 0.0f;
}

float weight_scale_value(const struct weight *w, int row, int column)
{
	if (w->format == WEIGHT_E4M3)
		return ((const float *)w->scales)[row];
	if (w->format != WEIGHT_INT4)
		return 1.0f;
	size_t at = ((size_t)(row / PANEL_ROWS) * (size_t)group_count(w) + (size_t)(column / w->group)) * PANEL_ROWS;
	return bf16_to_float(((const uint16_t *)w->scales)[at + (size_t)(row % PANEL_ROWS)]);
}
