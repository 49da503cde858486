#include "engine/cpu/kernels_isa.h"
#include "engine/cpu/simd.h"

/* One task: a tile of query tokens times the query heads that share a kv head. Each block of 64 positions is widened
 * once and used by every row. Head vectors are padded with zeros to whole vectors: fma(0, 0, sum) is sum. */
struct tile {
	const struct attend_args *args;
	int padded;       /* head size rounded up to 8 */
	float *k, *v;     /* [64, padded] the block, widened */
	float *q;         /* [rows, padded] */
	float *out;       /* [rows, padded] running sums */
	float *max, *sum; /* [rows] */
};

static void widen_row(enum kv_format format, const void *values, size_t at, int n, float scale, float *out)
{
	int d = 0;
	const f32x8 factor = v8_set(scale);

	for (; d + 8 <= n; d += 8) {
		size_t i = at + (size_t)d;
		f32x8 value = format == KV_F32 ? v8_load((const float *)values + i)
			: format == KV_BF16    ? v8_from_bf16((const uint16_t *)values + i)
					       : v8_from_e4m3((const uint8_t *)values + i);
		v8_store(out + d, v8_mul(value, factor));
	}
	for (; d < n; d++) {
		size_t i = at + (size_t)d;
		float value = format == KV_F32 ? ((const float *)values)[i]
			: format == KV_BF16    ? bf16_to_float(((const uint16_t *)values)[i])
					       : e4m3_to_float(((const uint8_t *)values)[i]);
		out[d] = value * scale;
	}
}

/* Positions [start, start + count) of one kv head. */
static void block_widen(const struct tile *t, const int32_t *table, int kv_head, int start, int count)
{
	const struct kv_geometry *g = &t->args->geometry;
	const struct kv_layer *layer = &t->args->layer;

	for (int j = 0; j < count; j++) {
		int position = start + j;
		size_t page = (size_t)table[position / g->page_size];
		size_t row = (page * (size_t)g->n_kv_heads + (size_t)kv_head) * (size_t)g->page_size +
			(size_t)(position % g->page_size);
		size_t at = row * (size_t)g->head_dim, to = (size_t)j * (size_t)t->padded;
		widen_row(layer->format, layer->k, at, g->head_dim, layer->k_scale, t->k + to);
		widen_row(layer->format, layer->v, at, g->head_dim, layer->v_scale, t->v + to);
	}
}

static void block_scores(const struct tile *t, const float *q, int count, float *score)
{
	const size_t padded = (size_t)t->padded;
	int j = 0;

	for (; j + 4 <= count; j += 4) {
		f32x8 a = v8_set(0.0f), b = a, c = a, d = a;
		const float *k = t->k + (size_t)j * padded;
		for (size_t i = 0; i < padded; i += 8) {
			f32x8 x = v8_load(q + i);
			a = v8_fma(x, v8_load(k + i), a);
			b = v8_fma(x, v8_load(k + padded + i), b);
			c = v8_fma(x, v8_load(k + 2 * padded + i), c);
			d = v8_fma(x, v8_load(k + 3 * padded + i), d);
		}
		v8_tree4(a, b, c, d, score + j);
	}
	for (; j < count; j++) {
		f32x8 a = v8_set(0.0f);
		for (size_t i = 0; i < padded; i += 8)
			a = v8_fma(v8_load(q + i), v8_load(t->k + (size_t)j * padded + i), a);
		score[j] = v8_tree(a);
	}
}

/* score: [64]; becomes exp(score * scale - max) and zero past count. Returns the sum; *max is the block's own and the
 * old one. */
static float block_weights(float *score, int count, float scale, float *max)
{
	float lane[8];
	int padded = (count + 7) & ~7;
	f32x8 top = v8_set(*max), sum = v8_set(0.0f);

	for (int j = count; j < padded; j++)
		score[j] = -INFINITY;
	for (int j = 0; j < padded; j += 8) {
		f32x8 s = v8_mul(v8_load(score + j), v8_set(scale));
		v8_store(score + j, s);
		top = v8_max(s, top);
	}
	v8_store(lane, top);
	for (int l = 0; l < 8; l++)
		*max = lane[l] > *max ? lane[l] : *max;
	const f32x8 shift = v8_set(*max);
	for (int j = 0; j < padded; j += 8)
		v8_store(score + j, v8_exp(v8_sub(v8_load(score + j), shift)));
	for (int j = count; j < padded; j++)
		score[j] = 0.0f;
	for (int j = 0; j < padded; j += 8)
		sum = v8_add(sum, v8_load(score + j));
	return v8_tree(sum);
}

/* out = out * keep + sum of weight[j] * v[j], four vectors of the head at a time. */
static void block_values(const struct tile *t, const float *weight, int count, float keep, float *out)
{
	const size_t padded = (size_t)t->padded;
	const f32x8 factor = v8_set(keep);
	size_t i = 0;

	for (; i + 32 <= padded; i += 32) {
		f32x8 a = v8_mul(v8_load(out + i), factor), b = v8_mul(v8_load(out + i + 8), factor);
		f32x8 c = v8_mul(v8_load(out + i + 16), factor), d = v8_mul(v8_load(out + i + 24), factor);
		for (int j = 0; j < count; j++) {
			const float *v = t->v + (size_t)j * padded + i;
			f32x8 w = v8_set(weight[j]);
			a = v8_fma(w, v8_load(v), a);
			b = v8_fma(w, v8_load(v + 8), b);
			c = v8_fma(w, v8_load(v + 16), c);
			d = v8_fma(w, v8_load(v + 24), d);
		}
		v8_store(out + i, a);
		v8_store(out + i + 8, b);
		v8_store(out + i + 16, c);
		v8_store(out + i + 24, d);
	}
	for (; i < padded; i += 8) {
		f32x8 a = v8_mul(v8_load(out + i), factor);
		for (int j = 0; j < count; j++)
			a = v8_fma(v8_set(weight[j]), v8_load(t->v + (size_t)j * padded + i), a);
		v8_store(out + i, a);
	}
}

static void row_block(const struct tile *t, int row, int count)
{
	float score[ATTENTION_BLOCK], max = t->max[row];
	float *out = t->out + (size_t)row * (size_t)t->padded;

	block_scores(t, t->q + (size_t)row * (size_t)t->padded, count, score);
	float sum = block_weights(score, count, t->args->scale, &max), keep = exp_ref(t->max[row] - max);
	t->sum[row] = fmaf(t->sum[row], keep, sum);
	block_values(t, score, count, keep, out);
	t->max[row] = max;
}

static struct tile tile_begin(const struct attend_args *a, float *scratch, int rows)
{
	struct tile t = {.args = a, .padded = (int)attend_padded_dim(a->geometry.head_dim)};
	size_t padded = (size_t)t.padded;

	t.k = scratch;
	t.v = t.k + ATTENTION_BLOCK * padded;
	t.q = t.v + ATTENTION_BLOCK * padded;
	t.out = t.q + (size_t)rows * padded;
	t.max = t.out + (size_t)rows * padded;
	t.sum = t.max + rows;
	/* blocks are written before they are read, but for what pads their rows */
	float *zeros = padded == (size_t)a->geometry.head_dim ? t.q : t.k;
	memset(zeros, 0, (size_t)(t.sum + rows - zeros) * sizeof *zeros);
	for (int r = 0; r < rows; r++)
		t.max[r] = -INFINITY;
	return t;
}

void KERNEL(attend_tile)(const struct attend_args *a, int b, int kv_head, int first, int end, float *scratch)
{
	int dim = a->geometry.head_dim, group = a->n_heads / a->geometry.n_kv_heads, rows = (end - first) * group;
	const int32_t *table = a->block_tables + (size_t)b * (size_t)a->table_stride;
	int first_row = a->cu_seqlens[b] + first, first_position = a->first_position[b] + first;
	int last_position = first_position + (end - first) - 1;
	struct tile t = tile_begin(a, scratch, rows);
	size_t bytes = (size_t)dim * sizeof(float);

	for (int r = 0; r < rows; r++)
		memcpy(t.q + (size_t)r * (size_t)t.padded,
			a->q + (size_t)(first_row + r / group) * (size_t)a->q_stride +
				(kv_head * group + r % group) * dim,
			bytes);
	for (int start = 0; start <= last_position; start += ATTENTION_BLOCK) {
		int whole = last_position + 1 - start < ATTENTION_BLOCK ? last_position + 1 - start : ATTENTION_BLOCK;
		block_widen(&t, table, kv_head, start, whole);
		for (int r = 0; r < rows; r++) {
			int seen = first_position + r / group + 1 - start;
			if (seen > 0)
				row_block(&t, r, seen < whole ? seen : whole);
		}
	}
	for (int r = 0; r < rows; r++) {
		float *out = a->out +
			((size_t)(first_row + r / group) * (size_t)a->n_heads + (size_t)(kv_head * group + r % group)) *
				(size_t)dim;
		const float *in = t.out + (size_t)r * (size_t)t.padded;
		for (int d = 0; d < dim; d++)
			out[d] = in[d] / t.sum[r];
	}
}
