/* The CPU packing of a matrix: panels of 16 output rows, so that vector lanes are outputs and each lane owns one
 * running sum over K. F32, BF16, E4M3: [panels][K][16] INT4: [panels][ceil(K / 8)][16] words of 32 bits: nibble j of
 * word r is column 8 i + j of row r and holds q + 8 scales: E4M3 [panels * 16] f32; INT4 [panels][groups][16] bf16 Rows
 * past the last are zero. */
#ifndef ASSAY_ENGINE_CPU_PACK_H
#define ASSAY_ENGINE_CPU_PACK_H

#include "engine/backend.h"
#include "engine/base/large_memory.h"

enum { PANEL_ROWS = 16 };

static inline int panel_count(int rows)
{
	return (rows + PANEL_ROWS - 1) / PANEL_ROWS;
}

static inline int group_count(const struct weight *w)
{
	return (w->columns + w->group - 1) / w->group;
}

/* Input columns that lie together: one, or the eight nibbles of a word. */
static inline int pack_columns(enum weight_format format)
{
	return format == WEIGHT_INT4 ? 8 : 1;
}

/* Bytes of pack_columns() columns of a panel. */
static inline size_t panel_step_bytes(enum weight_format format)
{
	return format == WEIGHT_F32 || format == WEIGHT_INT4 ? 64 : format == WEIGHT_BF16 ? 32 : 16;
}

static inline size_t panel_bytes(enum weight_format format, int columns)
{
	int step = pack_columns(format);
	return (size_t)((columns + step - 1) / step) * panel_step_bytes(format);
}

/* out->data and out->scales are pieces of slabs (NULL: each has its own) for weight_free_cpu. ERR_INPUT:
 * host_matrix_check. */
int weight_pack_cpu(const struct host_matrix *m, int parts, struct slabs *slabs, struct weight *out, struct error *e);
void weight_free_cpu(struct weight *w);

/* The stored value at (row, column): exact, without its scale. */
float weight_code_value(const struct weight *w, int row, int column);
/* The scale of that value: 1 for F32 and BF16. */
float weight_scale_value(const struct weight *w, int row, int column);

#endif
