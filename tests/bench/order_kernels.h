/* Products and attention in other orders of sums than the product's, as fast as they were made to be: what the fixed
 * order is measured against. BF16 weights, packed in panels or as stored; a BF16 cache of head size 64. */
#ifndef ASSAY_TESTS_BENCH_ORDER_KERNELS_H
#define ASSAY_TESTS_BENCH_ORDER_KERNELS_H

#include "engine/backend.h"
#include "engine/cpu/pack.h"
#include "engine/cpu/simd.h"

enum { HEAD_DIM = 64, MOST_GROUP = 3, K_BLOCK = 192, MOST_POSITIONS = 4096 };

struct product {
	const struct weight *weight; /* packed in panels */
	const uint16_t *stored;      /* [rows, columns] the same matrix */
	const float *x;              /* [tokens, columns] */
	float *y;                    /* [tokens, rows] */
	int tokens;
};

SIMD_INLINE float v16_sum(f32x16 x)
{
	float lane[16];
	v16_store(lane, x);
	return v8_tree(v8_add(v8_load(lane), v8_load(lane + 8)));
}

/* ---- panels: lanes are outputs, `chains` sums over K side by side ---- */

/* y (+)= columns [first, end) of n_panels panels for n_tokens tokens. PRECOND: chains divides end - first. */
SIMD_INLINE void panel_tile(const struct product *a, int panel, int token, int first, int end, const int n_panels,
	const int n_tokens, const int chains, const bool add)
{
	const size_t columns = (size_t)a->weight->columns, rows = (size_t)a->weight->rows;
	const uint16_t *w = (const uint16_t *)a->weight->data + (size_t)panel * columns * PANEL_ROWS;
	const float *x = a->x + (size_t)token * columns;
	f32x16 sum[24];

#pragma GCC unroll 24
	for (int i = 0; i < n_panels * n_tokens * chains; i++)
		sum[i] = v16_set(0.0f);
	for (int k = first; k < end; k += chains) {
#pragma GCC unroll 4
		for (int c = 0; c < chains; c++) {
			f32x16 value[8];
#pragma GCC unroll 8
			for (int p = 0; p < n_panels; p++)
				value[p] = v16_from_bf16(w + ((size_t)p * columns + (size_t)(k + c)) * PANEL_ROWS);
#pragma GCC unroll 8
			for (int m = 0; m < n_tokens; m++) {
				f32x16 input = v16_set(x[(size_t)m * columns + (size_t)(k + c)]);
#pragma GCC unroll 8
				for (int p = 0; p < n_panels; p++) {
					int i = (p * n_tokens + m) * chains + c;
					sum[i] = v16_fma(value[p], input, sum[i]);
				}
			}
		}
	}
	for (int p = 0; p < n_panels; p++) {
		for (int m = 0; m < n_tokens; m++) {
			float *y = a->y + (size_t)(token + m) * rows + (size_t)((panel + p) * PANEL_ROWS);
			f32x16 total = sum[(p * n_tokens + m) * chains];
			for (int c = 1; c < chains; c++)
				total = v16_add(total, sum[(p * n_tokens + m) * chains + c]);
			v16_store(y, add ? v16_add(v16_load(y), total) : total);
		}
	}
}

/* Panels [first, end) of the whole product. PRECOND: n_panels divides end - first, n_tokens the tokens. */
#define PANELS(name, n_panels, n_tokens, chains)                                                                       \
	static void name(const struct product *a, int first, int end)                                                  \
	{                                                                                                              \
		for (int token = 0; token < a->tokens; token += (n_tokens))                                            \
			for (int panel = first; panel < end; panel += (n_panels))                                      \
				panel_tile(a, panel, token, 0, a->weight->columns, n_panels, n_tokens, chains, false); \
	}

PANELS(panels_4x1_1, 4, 1, 1)
PANELS(panels_4x1_2, 4, 1, 2)
PANELS(panels_4x1_4, 4, 1, 4)
PANELS(panels_2x1_8, 2, 1, 8)
PANELS(panels_1x8_2, 1, 8, 2)
PANELS(panels_2x4_2, 2, 4, 2)
PANELS(panels_1x4_4, 1, 4, 4)
PANELS(panels_1x8_1, 1, 8, 1)
PANELS(panels_2x8_1, 2, 8, 1)

/* K in blocks, so that a block of two panels stays in the nearest cache while all tokens pass. */
static void panels_blocked(const struct product *a, int first, int end)
{
	for (int panel = first; panel < end; panel += 2)
		for (int k = 0; k < a->weight->columns; k += K_BLOCK)
			for (int token = 0; token < a->tokens; token += 8)
				panel_tile(a, panel, token, k, k + K_BLOCK, 2, 8, 1, k > 0);
}

/* Columns [first, end) of all outputs of one token: what a thread does when threads split K. */
static void panels_columns(const struct product *a, int first, int end)
{
	for (int panel = 0; panel < a->weight->rows / PANEL_ROWS; panel += 4)
		panel_tile(a, panel, 0, first, end, 4, 1, 2, false);
}

/* ---- rows as stored: lanes lie along K, added up at the end ---- */

SIMD_INLINE void row_tile(const struct product *a, int row, int token, const int n_rows, const int n_tokens)
{
	const size_t columns = (size_t)a->weight->columns, rows = (size_t)a->weight->rows;
	const uint16_t *w = a->stored + (size_t)row * columns;
	const float *x = a->x + (size_t)token * columns;
	f32x16 sum[16];

#pragma GCC unroll 16
	for (int i = 0; i < n_rows * n_tokens; i++)
		sum[i] = v16_set(0.0f);
	for (size_t k = 0; k < columns; k += 16) {
		f32x16 value[8];
#pragma GCC unroll 8
		for (int r = 0; r < n_rows; r++)
			value[r] = v16_from_bf16(w + (size_t)r * columns + k);
#pragma GCC unroll 4
		for (int m = 0; m < n_tokens; m++) {
			f32x16 input = v16_load(x + (size_t)m * columns + k);
#pragma GCC unroll 8
			for (int r = 0; r < n_rows; r++)
				sum[r * n_tokens + m] = v16_fma(value[r], input, sum[r * n_tokens + m]);
		}
	}
	for (int r = 0; r < n_rows; r++)
		for (int m = 0; m < n_tokens; m++)
			a->y[(size_t)(token + m) * rows + (size_t)(row + r)] = v16_sum(sum[r * n_tokens + m]);
}

/* Of the rows of panels [first, end). */
static void rows_8x1(const struct product *a, int first, int end)
{
	for (int token = 0; token < a->tokens; token++)
		for (int row = first * PANEL_ROWS; row < end * PANEL_ROWS; row += 8)
			row_tile(a, row, token, 8, 1);
}

static void rows_4x4(const struct product *a, int first, int end)
{
	for (int token = 0; token < a->tokens; token += 4)
		for (int row = first * PANEL_ROWS; row < end * PANEL_ROWS; row += 4)
			row_tile(a, row, token, 4, 4);
}

/* ---- attention of one token: 16 lanes, one pass for the scores of a range, one for the values ---- */

struct partial { /* of a range of positions: a softmax that can be merged with others */
	float out[MOST_GROUP][HEAD_DIM], max[MOST_GROUP], sum[MOST_GROUP];
};

SIMD_INLINE const uint16_t *cache_row(const struct attend_args *a, const void *cache, int b, int kv_head, int position)
{
	const struct kv_geometry *g = &a->geometry;
	size_t page = (size_t)a->block_tables[(size_t)b * (size_t)a->table_stride + (size_t)(position / g->page_size)];
	size_t row = (page * (size_t)g->n_kv_heads + (size_t)kv_head) * (size_t)g->page_size +
		(size_t)(position % g->page_size);
	return (const uint16_t *)cache + row * HEAD_DIM;
}

static void range_weights(const float *restrict q, const struct attend_args *a, int b, int kv_head, int first,
	int count, float score[MOST_GROUP][MOST_POSITIONS], struct partial *out)
{
	const int n = (count + 7) & ~7;

	for (int j = 0; j < count; j++) {
		const uint16_t *k = cache_row(a, a->layer.k, b, kv_head, first + j);
		for (int h = 0; h < MOST_GROUP; h++) {
			f32x16 sum = v16_set(0.0f);
			for (int d = 0; d < HEAD_DIM; d += 16)
				sum = v16_fma(v16_from_bf16(k + d), v16_load(q + h * HEAD_DIM + d), sum);
			score[h][j] = v16_sum(sum) * a->scale;
		}
	}
	for (int h = 0; h < MOST_GROUP; h++) {
		float max = -INFINITY;
		f32x8 sum = v8_set(0.0f);
		for (int j = 0; j < count; j++)
			max = score[h][j] > max ? score[h][j] : max;
		for (int j = count; j < n; j++)
			score[h][j] = -INFINITY;
		for (int j = 0; j < n; j += 8) {
			f32x8 weight = v8_exp(v8_sub(v8_load(score[h] + j), v8_set(max)));
			v8_store(score[h] + j, weight);
			sum = v8_add(sum, weight);
		}
		out->max[h] = max;
		out->sum[h] = v8_tree(sum);
	}
}

/* Positions [first, first + count) for the query heads of one kv head of sequence b, which has one token. */
static void attend_range(const struct attend_args *a, int b, int kv_head, int first, int count,
	float score[MOST_GROUP][MOST_POSITIONS], struct partial *out)
{
	const float *q = a->q + (size_t)b * (size_t)a->q_stride + (size_t)(kv_head * MOST_GROUP * HEAD_DIM);
	f32x16 sum[MOST_GROUP][HEAD_DIM / 16];

	range_weights(q, a, b, kv_head, first, count, score, out);
#pragma GCC unroll 3
	for (int h = 0; h < MOST_GROUP; h++)
#pragma GCC unroll 4
		for (int d = 0; d < HEAD_DIM / 16; d++)
			sum[h][d] = v16_set(0.0f);
	for (int j = 0; j < count; j++) {
		const uint16_t *v = cache_row(a, a->layer.v, b, kv_head, first + j);
#pragma GCC unroll 4
		for (int d = 0; d < HEAD_DIM / 16; d++) {
			f32x16 value = v16_from_bf16(v + 16 * d);
#pragma GCC unroll 3
			for (int h = 0; h < MOST_GROUP; h++)
				sum[h][d] = v16_fma(v16_set(score[h][j]), value, sum[h][d]);
		}
	}
	for (int h = 0; h < MOST_GROUP; h++)
		for (int d = 0; d < HEAD_DIM / 16; d++)
			v16_store(out->out[h] + 16 * d, sum[h][d]);
}

/* The merged softmax of n ranges, to the output of sequence b. */
static void partials_merge(const struct attend_args *a, int b, int kv_head, const struct partial *parts, int n)
{
	for (int h = 0; h < MOST_GROUP; h++) {
		float *out = a->out + ((size_t)b * (size_t)a->n_heads + (size_t)(kv_head * MOST_GROUP + h)) * HEAD_DIM;
		float max = parts[0].max[h], sum = 0.0f, keep[2];
		for (int i = 1; i < n; i++)
			max = parts[i].max[h] > max ? parts[i].max[h] : max;
		for (int i = 0; i < n; i++) {
			keep[i] = exp_ref(parts[i].max[h] - max);
			sum += keep[i] * parts[i].sum[h];
		}
		for (int d = 0; d < HEAD_DIM; d++) {
			float value = 0.0f;
			for (int i = 0; i < n; i++)
				value += keep[i] * parts[i].out[h][d];
			out[d] = value / sum;
		}
	}
}

/* ---- attention of a prompt: keys transposed, lanes are positions, no horizontal sums ---- */

enum { TILE = 16 };

struct block {
	float k[HEAD_DIM][ATTENTION_BLOCK]; /* transposed */
	float v[ATTENTION_BLOCK][HEAD_DIM];
};

static void block_load(const struct attend_args *a, int b, int kv_head, int start, int count, struct block *block)
{
	for (int j = 0; j < count; j++) {
		const uint16_t *k = cache_row(a, a->layer.k, b, kv_head, start + j);
		const uint16_t *v = cache_row(a, a->layer.v, b, kv_head, start + j);
		float row[HEAD_DIM];
		for (int d = 0; d < HEAD_DIM; d += 16) {
			v16_store(row + d, v16_from_bf16(k + d));
			v16_store(block->v[j] + d, v16_from_bf16(v + d));
		}
		for (int d = 0; d < HEAD_DIM; d++)
			block->k[d][j] = row[d];
	}
}

/* One query row over one block: score, running softmax, values. */
static void row_over_block(
	const struct block *block, const float *q, int count, float scale, float *max, float *sum, float *out)
{
	float weight[ATTENTION_BLOCK];
	f32x16 s[4], acc[4];
	float top = *max;
	f32x8 total = v8_set(0.0f);

#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
		s[i] = v16_set(0.0f);
	for (int d = 0; d < HEAD_DIM; d++) {
		f32x16 x = v16_set(q[d]);
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
			s[i] = v16_fma(x, v16_load(block->k[d] + 16 * i), s[i]);
	}
	for (int i = 0; i < 4; i++)
		v16_store(weight + 16 * i, v16_mul(s[i], v16_set(scale)));
	for (int j = count; j < ATTENTION_BLOCK; j++)
		weight[j] = -INFINITY;
	f32x8 tops = v8_set(top);
	for (int j = 0; j < ATTENTION_BLOCK; j += 8)
		tops = v8_max(v8_load(weight + j), tops);
	float lane[8];
	v8_store(lane, tops);
	for (int l = 0; l < 8; l++)
		top = lane[l] > top ? lane[l] : top;
	for (int j = 0; j < ATTENTION_BLOCK; j += 8) {
		f32x8 w = v8_exp(v8_sub(v8_load(weight + j), v8_set(top)));
		v8_store(weight + j, w);
		total = v8_add(total, w);
	}
	float keep = exp_ref(*max - top);
	*sum = fmaf(*sum, keep, v8_tree(total));
	*max = top;
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
		acc[i] = v16_mul(v16_load(out + 16 * i), v16_set(keep));
	for (int j = 0; j < count; j++) {
		f32x16 w = v16_set(weight[j]);
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
			acc[i] = v16_fma(w, v16_load(block->v[j] + 16 * i), acc[i]);
	}
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
		v16_store(out + 16 * i, acc[i]);
}

/* Tokens [first, first + TILE) of sequence 0, which begins at position 0, for the query heads of one kv head. */
static void attend_transposed(const struct attend_args *a, int kv_head, int first, struct block *block)
{
	float out[TILE * MOST_GROUP][HEAD_DIM] = {0}, max[TILE * MOST_GROUP], sum[TILE * MOST_GROUP] = {0};

	for (int r = 0; r < TILE * MOST_GROUP; r++)
		max[r] = -INFINITY;
	for (int start = 0; start < first + TILE; start += ATTENTION_BLOCK) {
		int there = first + TILE - start < ATTENTION_BLOCK ? first + TILE - start : ATTENTION_BLOCK;
		block_load(a, 0, kv_head, start, there, block);
		for (int r = 0; r < TILE * MOST_GROUP; r++) {
			int token = first + r / MOST_GROUP, seen = token + 1 - start,
			    h = kv_head * MOST_GROUP + r % MOST_GROUP;
			const float *q = a->q + (size_t)token * (size_t)a->q_stride + (size_t)h * HEAD_DIM;
			if (seen > 0)
				row_over_block(
					block, q, seen < there ? seen : there, a->scale, &max[r], &sum[r], out[r]);
		}
	}
	for (int r = 0; r < TILE * MOST_GROUP; r++) {
		int token = first + r / MOST_GROUP, h = kv_head * MOST_GROUP + r % MOST_GROUP;
		float *to = a->out + ((size_t)token * (size_t)a->n_heads + (size_t)h) * HEAD_DIM;
		for (int d = 0; d < HEAD_DIM; d++)
			to[d] = out[r][d] / sum[r];
	}
}

#endif
