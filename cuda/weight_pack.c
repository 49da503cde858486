#include "cuda/weight_pack.h"

#include <string.h>

#include "cuda/weight_layout.h"
#include "engine/base/thread_pool.h"

/* Bytes of a tile; a row's share of it lies together but in F32. */
static size_t tile_bytes(enum weight_format format)
{
	static const size_t bytes[] = {
		[WEIGHT_F32] = 1024, [WEIGHT_BF16] = 512, [WEIGHT_E4M3] = 256, [WEIGHT_INT4] = 128};
	return bytes[format];
}

int weight_pack_sizes(const struct host_matrix *m, int parts, struct weight_sizes *out, struct error *e)
{
	size_t panels = (size_t)weight_panels(m->rows), tiles = (size_t)weight_tiles(m->columns);
	int unit = WEIGHT_K_TILE;

	if (m->format == WEIGHT_INT4) {
		if (m->group <= 0 || (m->group % WEIGHT_K_TILE != 0 && m->group < m->columns))
			return error_set(e, ERR_INPUT,
				"int4 groups of %d inputs: a multiple of %d expected, or the whole row of %d", m->group,
				(int)WEIGHT_K_TILE, m->columns);
		unit = m->group;
	}
	if (parts > 1 && m->columns % (parts * unit) != 0)
		return error_set(
			e, ERR_INPUT, "%d columns in %d parts: each must be a multiple of %d", m->columns, parts, unit);
	TRY(host_matrix_check(m, e));
	if (tiles && panels > SIZE_MAX / tiles / tile_bytes(m->format))
		return error_set(e, ERR_MEMORY, "a matrix of %d x %d is too large", m->rows, m->columns);
	out->data = panels * tiles * tile_bytes(m->format);
	out->scales = 0;
	if (m->format == WEIGHT_E4M3)
		out->scales = panels * WEIGHT_PANEL * sizeof(float);
	if (m->format == WEIGHT_INT4)
		out->scales = panels * (size_t)weight_groups(m->columns, m->group) * WEIGHT_PANEL * sizeof(uint16_t);
	return 0;
}

/* Inputs [0, count) of a row to its share of a tile of values of `size` bytes in lane order. in may be unaligned. */
static void pack_lanes(const uint8_t *in, int count, size_t size, uint8_t *out)
{
	for (int k = 0; k < count; k++)
		memcpy(out + (size_t)WEIGHT_LANE_ORDER(k) * size, in + (size_t)k * size, size);
}

static void pack_nibbles(const uint8_t *in, int count, uint32_t *out /* [4] */)
{
	for (int k = 0; k < count; k++) {
		int at = WEIGHT_LANE_ORDER(k), i = at % 8;
		uint32_t q8 = (uint32_t)in[k] ^ 8; /* the word holds 8 where q is 0 */
		out[at / 8] ^= q8 << (i / 2 * 4 + i % 2 * 16);
	}
}

static void pack_quads(const uint8_t *in, int count, int row, uint8_t *out)
{
	for (int k = 0; k < count; k++)
		memcpy(out + sizeof(float) * (size_t)((k / 4 * WEIGHT_PANEL + row) * 4 + k % 4),
			in + sizeof(float) * (size_t)k, sizeof(float));
}

static void pack_row(const struct host_matrix *m, int row, uint8_t *data)
{
	const size_t size = m->format == WEIGHT_F32 ? 4 : m->format == WEIGHT_BF16 ? 2 : 1;
	const uint8_t *in = (const uint8_t *)m->data + (size_t)row * (size_t)m->columns * size;
	size_t bytes = tile_bytes(m->format), tiles = (size_t)weight_tiles(m->columns);
	uint8_t *out = data + (size_t)(row / WEIGHT_PANEL) * tiles * bytes;
	int r = row % WEIGHT_PANEL;

	for (int k = 0; k < m->columns; k += WEIGHT_K_TILE, out += bytes) {
		int count = m->columns - k < WEIGHT_K_TILE ? m->columns - k : WEIGHT_K_TILE;
		const uint8_t *values = in + (size_t)k * size;
		if (m->format == WEIGHT_F32)
			pack_quads(values, count, r, out);
		else if (m->format == WEIGHT_INT4)
			pack_nibbles(values, count, (uint32_t *)(void *)(out + (size_t)r * 16));
		else
			pack_lanes(values, count, size, out + (size_t)r * WEIGHT_K_TILE * size);
	}
}

struct packing {
	const struct host_matrix *m;
	uint8_t *data;
};

static void pack_panel(void *argument, int panel, int thread)
{
	const struct packing *p = argument;
	const struct host_matrix *m = p->m;
	size_t bytes = (size_t)weight_tiles(m->columns) * tile_bytes(m->format);
	int first = panel * WEIGHT_PANEL, end = m->rows - first < WEIGHT_PANEL ? m->rows : first + WEIGHT_PANEL;

	(void)thread;
	memset(p->data + (size_t)panel * bytes, m->format == WEIGHT_INT4 ? 0x88 : 0, bytes);
	for (int row = first; row < end; row++)
		pack_row(m, row, p->data);
}

static void pack_group_scales(const struct host_matrix *m, uint16_t *scales)
{
	size_t groups = (size_t)weight_groups(m->columns, m->group);

	for (size_t row = 0; row < (size_t)m->rows; row++)
		for (size_t g = 0; g < groups; g++)
			scales[(row / WEIGHT_PANEL * groups + g) * WEIGHT_PANEL + row % WEIGHT_PANEL] =
				m->group_scales[row * groups + g];
}

void weight_pack_write(const struct host_matrix *m, void *data, void *scales)
{
	size_t panels = (size_t)weight_panels(m->rows);
	struct packing p = {m, data};

	thread_pool_run(m->threads, weight_panels(m->rows), pack_panel, &p);
	if (m->format == WEIGHT_E4M3) {
		memset(scales, 0, panels * WEIGHT_PANEL * sizeof(float));
		memcpy(scales, m->scales, (size_t)m->rows * sizeof(float));
	}
	if (m->format == WEIGHT_INT4) {
		memset(scales, 0,
			panels * (size_t)weight_groups(m->columns, m->group) * WEIGHT_PANEL * sizeof(uint16_t));
		pack_group_scales(m, scales);
	}
}
