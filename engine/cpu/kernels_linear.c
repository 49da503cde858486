#include "engine/cpu/kernels_isa.h"
#include "engine/cpu/pack.h"
#include "engine/cpu/simd.h"

/* A tile is n_panels panels of 16 outputs times n_tokens tokens; all its running sums live in registers. Sizes are
 * compile-time constants of each caller, so the loops below unroll. */
enum { TILE_MAX = 16 };

struct tile {
	const struct weight *weight;
	const float *x; /* first token of the tile */
	size_t x_stride;
	int panel; /* first panel */
};

SIMD_INLINE f32x16 panel_load(const enum weight_format format, const uint8_t *at)
{
	if (format == WEIGHT_F32)
		return v16_load((const float *)(const void *)at);
	if (format == WEIGHT_BF16)
		return v16_from_bf16((const uint16_t *)(const void *)at);
	return v16_from_e4m3(at);
}

/* acc += w * x of column k for every token of the tile. */
SIMD_INLINE void tile_column(
	const struct tile *t, const int n_panels, const int n_tokens, int k, const f32x16 *w, f32x16 *acc)
{
#pragma GCC unroll 8
	for (int m = 0; m < n_tokens; m++) {
		f32x16 x = v16_set(t->x[(size_t)m * t->x_stride + (size_t)k]);
#pragma GCC unroll 4
		for (int p = 0; p < n_panels; p++)
			acc[p * n_tokens + m] = v16_fma(w[p], x, acc[p * n_tokens + m]);
	}
}

SIMD_INLINE void sums_move(const int n, const f32x16 *from, f32x16 *to)
{
#pragma GCC unroll 16
	for (int i = 0; i < n; i++)
		to[i] = from ? from[i] : v16_set(0.0f);
}

/* sum[p * n_tokens + m] = the running sum over columns [first, end), from zero. */
SIMD_INLINE void tile_run(const struct tile *t, const enum weight_format format, const int n_panels, const int n_tokens,
	int first, int end, f32x16 *restrict sum)
{
	const size_t step = panel_step_bytes(format), bytes = panel_bytes(format, t->weight->columns);
	const uint8_t *data = (const uint8_t *)t->weight->data + (size_t)t->panel * bytes;
	f32x16 acc[TILE_MAX];

	sums_move(n_panels * n_tokens, NULL, acc);
#pragma GCC unroll 4
	for (int k = first; k < end; k++) {
		f32x16 w[4];
#pragma GCC unroll 4
		for (int p = 0; p < n_panels; p++)
			w[p] = panel_load(format, data + (size_t)p * bytes + (size_t)k * step);
		tile_column(t, n_panels, n_tokens, k, w, acc);
	}
	sums_move(n_panels * n_tokens, acc, sum);
}

/* The same over words of eight columns. PRECOND: first is a multiple of 8; only the row's last word may be cut short.
 */
SIMD_INLINE void tile_run_int4(
	const struct tile *t, const int n_panels, const int n_tokens, int first, int end, f32x16 *restrict sum)
{
	const size_t step = panel_step_bytes(WEIGHT_INT4), bytes = panel_bytes(WEIGHT_INT4, t->weight->columns);
	const uint8_t *data = (const uint8_t *)t->weight->data + (size_t)t->panel * bytes;
	f32x16 acc[TILE_MAX];

	sums_move(n_panels * n_tokens, NULL, acc);
	for (int k = first; k < end; k += 8) {
		u32x16 words[4];
#pragma GCC unroll 4
		for (int p = 0; p < n_panels; p++)
			words[p] = v16_words(data + (size_t)p * bytes + (size_t)(k / 8) * step);
#pragma GCC unroll 8
		for (int j = 0; j < 8; j++) {
			f32x16 w[4];
			if (k + j >= end)
				break;
#pragma GCC unroll 4
			for (int p = 0; p < n_panels; p++)
				w[p] = v16_nibble(words[p], j);
			tile_column(t, n_panels, n_tokens, k + j, w, acc);
		}
	}
	sums_move(n_panels * n_tokens, acc, sum);
}

/* INT4: the sums of each group times its scale, added in order of the groups. */
SIMD_INLINE void tile_run_groups(
	const struct tile *t, const int n_panels, const int n_tokens, int first, int end, f32x16 *restrict sum)
{
	const struct weight *w = t->weight;
	const size_t groups = (size_t)group_count(w);

	for (int i = 0; i < n_panels * n_tokens; i++)
		sum[i] = v16_set(0.0f);
	for (int k = first; k < end;) {
		int group = k / w->group, group_end = (group + 1) * w->group;
		f32x16 inner[TILE_MAX];
		group_end = group_end < end ? group_end : end;
		tile_run_int4(t, n_panels, n_tokens, k, group_end, inner);
		for (int p = 0; p < n_panels; p++) {
			const uint16_t *scales = (const uint16_t *)w->scales +
				((size_t)(t->panel + p) * groups + (size_t)group) * PANEL_ROWS;
			f32x16 scale = v16_from_bf16(scales);
			for (int m = 0; m < n_tokens; m++)
				sum[p * n_tokens + m] = v16_fma(scale, inner[p * n_tokens + m], sum[p * n_tokens + m]);
		}
		k = group_end;
	}
}

/* The first `count` lanes: a matrix may end within its last panel. */
SIMD_INLINE f32x16 lanes_load(const float *from, int count)
{
	float lane[PANEL_ROWS] = {0};

	if (count == PANEL_ROWS)
		return v16_load(from);
	memcpy(lane, from, (size_t)count * sizeof *lane);
	return v16_load(lane);
}

SIMD_INLINE void lanes_store(f32x16 x, float *to, int count)
{
	float lane[PANEL_ROWS];

	if (count == PANEL_ROWS) {
		v16_store(to, x);
		return;
	}
	v16_store(lane, x);
	memcpy(to, lane, (size_t)count * sizeof *lane);
}

/* Adds the parts of one output row of 16 and stores those that exist. */
SIMD_INLINE void output_store(const struct linear_args *a, f32x16 *part, int n_parts, int token, int panel)
{
	size_t rows = (size_t)a->weight->rows;
	int first = panel * PANEL_ROWS, count = a->weight->rows - first;

	count = count < PANEL_ROWS ? count : PANEL_ROWS;
	if (a->part_count) {
		for (int p = 0; p < n_parts; p++)
			lanes_store(part[p],
				a->parts_out + ((size_t)p * (size_t)a->n_tokens + (size_t)token) * rows + first, count);
		return;
	}
	for (int n = n_parts; n > 1; n /= 2)
		for (int i = 0; i < n / 2; i++)
			part[i] = v16_add(part[2 * i], part[2 * i + 1]);
	size_t at = (size_t)token * rows + (size_t)first;
	f32x16 y = part[0];
	if (a->bias)
		y = v16_add(y, lanes_load(a->bias + first, count));
	if (a->residual)
		y = v16_add(y, lanes_load(a->residual + at, count));
	lanes_store(y, a->y + at, count);
}

SIMD_INLINE void tile_product(const struct linear_args *a, const float *x, const float *x_scale, int panel, int token,
	const enum weight_format format, const int n_panels, const int n_tokens)
{
	const struct weight *w = a->weight;
	struct tile t = {w, x + (size_t)token * (size_t)w->columns, (size_t)w->columns, panel};
	int part_columns = w->columns / w->parts;
	int first_part = a->part_count ? a->part_first : 0, n_parts = a->part_count ? a->part_count : w->parts;
	f32x16 part[TILE_MAX][8];

	for (int i = 0; i < n_parts; i++) {
		int first = (first_part + i) * part_columns, end = first + part_columns;
		f32x16 sum[TILE_MAX];
		if (format == WEIGHT_INT4)
			tile_run_groups(&t, n_panels, n_tokens, first, end, sum);
		else
			tile_run(&t, format, n_panels, n_tokens, first, end, sum);
		for (int p = 0; p < n_panels; p++) {
			for (int m = 0; m < n_tokens; m++) {
				f32x16 value = sum[p * n_tokens + m];
				if (format == WEIGHT_E4M3) {
					value = v16_mul(
						value, v16_load((const float *)w->scales + (panel + p) * PANEL_ROWS));
					if (x_scale)
						value = v16_mul(value, v16_set(x_scale[token + m]));
				}
				part[p * n_tokens + m][i] = value;
			}
		}
	}
	for (int p = 0; p < n_panels; p++)
		for (int m = 0; m < n_tokens; m++)
			output_store(a, part[p * n_tokens + m], n_parts, token + m, panel + p);
}

/* Tiles of `count` tokens up to token `last`, `wide` panels at a time, then one. */
#define TOKENS(last, count, wide)                                                       \
	for (; token + (count) <= (last); token += (count)) {                           \
		int panel = first;                                                      \
		for (; panel + (wide) <= end; panel += (wide))                          \
			tile_product(a, x, x_scale, panel, token, format, wide, count); \
		for (; panel < end; panel++)                                            \
			tile_product(a, x, x_scale, panel, token, format, 1, count);    \
	}

#define FORMAT_PANELS(name, value)                                                                     \
	static void panels_##name(                                                                     \
		const struct linear_args *a, const float *x, const float *x_scale, int first, int end) \
	{                                                                                              \
		const enum weight_format format = value;                                               \
		int token = 0;                                                                         \
		TILES                                                                                  \
	}

/* What fits the registers: 32 of 16 lanes with AVX-512, 16 of 8 lanes with AVX2. Plain C has nothing to gain from
 * tiles. */
#if defined(__AVX512F__)
/* The first tile brings the panels from memory, which two streams do faster than one; later ones find them in the cache,
 * where a tile of half the size leaves room for the tokens. */
#define TILES                                           \
	TOKENS(a->n_tokens < 8 ? a->n_tokens : 8, 8, 2) \
	TOKENS(a->n_tokens, 8, 1) TOKENS(a->n_tokens, 4, 1) TOKENS(a->n_tokens, 1, 4)
#elif defined(__AVX2__)
#define TILES TOKENS(a->n_tokens, 4, 1) TOKENS(a->n_tokens, 1, 2)
#else
#define TILES TOKENS(a->n_tokens, 1, 1)
#endif

FORMAT_PANELS(f32, WEIGHT_F32)
FORMAT_PANELS(bf16, WEIGHT_BF16)
FORMAT_PANELS(e4m3, WEIGHT_E4M3)
FORMAT_PANELS(int4, WEIGHT_INT4)

void KERNEL(linear_panels)(const struct linear_args *a, const float *x, const float *x_scale, int first, int end)
{
	switch (a->weight->format) {
	case WEIGHT_F32:
		panels_f32(a, x, x_scale, first, end);
		break;
	case WEIGHT_BF16:
		panels_bf16(a, x, x_scale, first, end);
		break;
	case WEIGHT_E4M3:
		panels_e4m3(a, x, x_scale, first, end);
		break;
	case WEIGHT_INT4:
		panels_int4(a, x, x_scale, first, end);
		break;
	}
}
