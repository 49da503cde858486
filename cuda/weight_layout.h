/* How the CUDA backend packs a matrix (struct weight), [rows, columns] = [outputs, inputs].
 *
 * data: [panels of 8 rows][tiles of 32 inputs][tile], so that a tile is one piece of memory; what lies behind the last
 * row or column is 0 (INT4: q = 0). A tile is
 *   BF16: [8 rows][32] bf16, E4M3: [8 rows][32] codes, both in lane order: the lane 4 g + t of a warp holds what the
 *         tensor core wants of it (row g) as one piece of 16 or 8 bytes;
 *   INT4: [8 rows][4 lanes] words of 32 bits: of the lane's 8 values pair p has q + 8 in the bits 4 p and 16 + 4 p;
 *   F32:  [8 quads of inputs][8 rows][4].
 * scales: E4M3 [panels * 8] f32; INT4 [panels][groups][8 rows] bf16; others none. Both are aligned to 16 bytes. */
#ifndef ASSAY_CUDA_WEIGHT_LAYOUT_H
#define ASSAY_CUDA_WEIGHT_LAYOUT_H

enum {
	WEIGHT_K_TILE = 32, /* inputs per step of a matrix product; a part of the sum is a whole number of them */
	WEIGHT_PANEL = 8,   /* rows */
};

static inline int weight_panels(int rows)
{
	return (rows + WEIGHT_PANEL - 1) / WEIGHT_PANEL;
}

static inline int weight_tiles(int columns)
{
	return (columns + WEIGHT_K_TILE - 1) / WEIGHT_K_TILE;
}

/* Groups of a row of INT4. */
static inline int weight_groups(int columns, int group)
{
	return (columns + group - 1) / group;
}

/* Where input k of a tile stands in lane order: step s of 16 inputs gives lane t its values 16 s + 2 t + {0, 1, 8, 9};
 * those of both steps lie together. */
#define WEIGHT_LANE_ORDER(k) ((k) % 8 / 2 * 8 + (k) / 16 * 4 + (k) % 16 / 8 * 2 + (k) % 2)

#endif
