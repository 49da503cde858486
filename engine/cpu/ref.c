#include "engine/cpu/ref.h"

#include <math.h>
#include <string.h>

#include "engine/base/det_math.h"
#include "engine/base/exp_constants.h"
#include "engine/base/number.h"
#include "engine/base/quant.h"
#include "engine/cpu/pack.h"

float exp_ref(float x)
{
	if (x < EXP_LOWEST)
		return 0.0f;
	if (x > EXP_HIGHEST)
		return INFINITY;
	float n = rintf(x * EXP_LOG2E);
	float r = fmaf(n, -EXP_LN2_LOW, fmaf(n, -EXP_LN2_HIGH, x));
	float p = EXP_C0;
	p = fmaf(p, r, EXP_C1);
	p = fmaf(p, r, EXP_C2);
	p = fmaf(p, r, EXP_C3);
	p = fmaf(p, r, EXP_C4);
	p = fmaf(p, r, EXP_C5);
	p = fmaf(p, r * r, r) + 1.0f;
	if (isnan(x))
		return x;
	/* 2^n in two factors: n reaches 128, where one exponent field ends */
	int half = (int)n / 2, rest = (int)n - half;
	return p * float_from_bits((uint32_t)(half + 127) << 23) * float_from_bits((uint32_t)(rest + 127) << 23);
}

float dot_ref(const float *a, const float *b, int n)
{
	float lane[8] = {0};
	for (int i = 0; i < n; i++)
		lane[i % 8] = fmaf(a[i], b[i], lane[i % 8]);
	return lane_tree(lane);
}

/* The sum of one chunk, relative to its own maximum. */
static float chunk_sum(const float *x, int n, float max)
{
	float lane[8] = {0};
	for (int i = 0; i < n; i++)
		lane[i % 8] += exp_ref(x[i] - max);
	return lane_tree(lane);
}

void softmax_add(struct softmax_state *s, float max, float sum)
{
	if (sum == 0.0f) /* nothing but minus infinity */
		return;
	if (max > s->max) {
		s->sum = fmaf(s->sum, exp_ref(s->max - max), sum);
		s->max = max;
	} else {
		s->sum = fmaf(sum, exp_ref(max - s->max), s->sum);
	}
}

void row_softmax_ref(const float *x, int n, float *max, int *argmax, float *log_sum)
{
	struct softmax_state s = {-INFINITY, 0.0f};

	*argmax = 0;
	for (int start = 0; start < n; start += SOFTMAX_CHUNK) {
		int count = n - start < SOFTMAX_CHUNK ? n - start : SOFTMAX_CHUNK;
		float top = -INFINITY;
		for (int i = start; i < start + count; i++)
			top = x[i] > top ? x[i] : top;
		if (top > s.max) {
			*argmax = start;
			while (x[*argmax] != top)
				++*argmax;
		}
		softmax_add(&s, top, chunk_sum(x + start, count, top > -INFINITY ? top : 0.0f));
	}
	*max = s.max;
	*log_sum = (float)det_log((double)s.sum);
}

void embed_ref(const struct embed_args *a)
{
	size_t hidden = (size_t)a->hidden;
	for (int t = 0; t < a->n_tokens; t++) {
		float *out = a->out + (size_t)t * hidden;
		size_t row = (size_t)a->ids[t] * hidden;
		if (a->format == WEIGHT_F32) {
			memcpy(out, (const char *)a->table + row * sizeof(float), hidden * sizeof(float));
			continue;
		}
		for (size_t i = 0; i < hidden; i++) {
			uint16_t code; /* the table is borrowed from a file and may be unaligned */
			memcpy(&code, (const char *)a->table + (row + i) * sizeof code, sizeof code);
			out[i] = bf16_to_float(code);
		}
	}
}

void rmsnorm_ref(const struct rmsnorm_args *a)
{
	size_t hidden = (size_t)a->hidden;
	for (int t = 0; t < a->n_tokens; t++) {
		const float *x = a->x + (size_t)t * hidden;
		float *y = a->y + (size_t)t * hidden;
		float r = 1.0f / sqrtf(dot_ref(x, x, a->hidden) / (float)a->hidden + a->eps);
		for (size_t i = 0; i < hidden; i++)
			y[i] = a->weight[i] * (x[i] * r);
	}
}

/* One part of one output: the running sum over its columns, scaled. */
static float linear_part(const struct weight *w, const float *x, int row, int first, int end)
{
	float sum = 0.0f;
	if (w->format == WEIGHT_INT4) {
		for (int k = first; k < end;) {
			int group_end = k - k % w->group + w->group;
			float inner = 0.0f, scale = weight_scale_value(w, row, k);
			for (; k < group_end && k < end; k++)
				inner = fmaf(weight_code_value(w, row, k), x[k], inner);
			sum = fmaf(scale, inner, sum);
		}
		return sum;
	}
	for (int k = first; k < end; k++)
		sum = fmaf(weight_code_value(w, row, k), x[k], sum);
	return w->format == WEIGHT_E4M3 ? sum * weight_scale_value(w, row, 0) : sum;
}

/* W8A8: the token's input as its E4M3 codes, widened; returns its scale. */
static float quantize_input(const struct linear_args *a, int t, float *codes)
{
	float scale = e4m3_scale(a->amax[t]);
	const float *x = a->x + (size_t)t * (size_t)a->weight->columns;
	for (int k = 0; k < a->weight->columns; k++)
		codes[k] = e4m3_to_float(float_to_e4m3(x[k] / scale));
	return scale;
}

void linear_ref(const struct linear_args *a)
{
	const struct weight *w = a->weight;
	size_t rows = (size_t)w->rows;
	int part_columns = w->columns / w->parts;
	int first = a->part_count ? a->part_first : 0, count = a->part_count ? a->part_count : w->parts;
	float codes[w->quantize_input ? w->columns : 1];

	for (int t = 0; t < a->n_tokens; t++) {
		const float *x = a->x + (size_t)t * (size_t)w->columns;
		float x_scale = 1.0f;
		if (w->quantize_input) {
			x_scale = quantize_input(a, t, codes);
			x = codes;
		}
		for (int n = 0; n < w->rows; n++) {
			float part[8];
			for (int p = 0; p < count; p++) {
				part[p] = linear_part(
					w, x, n, (first + p) * part_columns, (first + p + 1) * part_columns);
				if (w->quantize_input)
					part[p] *= x_scale;
				if (a->part_count)
					a->parts_out[((size_t)p * (size_t)a->n_tokens + (size_t)t) * rows + (size_t)n] =
						part[p];
			}
			if (a->part_count)
				continue;
			size_t at = (size_t)t * rows + (size_t)n;
			float y = parts_tree(part, count);
			if (a->bias)
				y += a->bias[n];
			if (a->residual)
				y += a->residual[at];
			a->y[at] = y;
		}
	}
}

void parts_sum_ref(const struct parts_sum_args *a)
{
	size_t count = (size_t)a->n_tokens * (size_t)a->rows;
	for (size_t i = 0; i < count; i++) {
		float part[8];
		for (int p = 0; p < a->n_parts; p++)
			part[p] = a->parts[(size_t)p * count + i];
		float y = parts_tree(part, a->n_parts);
		if (a->bias)
			y += a->bias[i % (size_t)a->rows];
		if (a->residual)
			y += a->residual[i];
		a->y[i] = y;
	}
}

void row_amax_ref(const struct row_amax_args *a)
{
	for (int t = 0; t < a->n_tokens; t++)
		a->amax[t] = row_amax(a->x + (size_t)t * (size_t)a->columns, a->columns);
}

void rope_table_ref(const struct rope_table_args *a)
{
	int half = a->rotary_dim / 2;
	for (int t = 0; t < a->n_tokens; t++) {
		float *row = a->table + (size_t)t * (size_t)a->rotary_dim;
		for (int i = 0; i < half; i++) {
			float angle = (float)a->positions[t] * a->inverse_frequencies[i];
			double sine, cosine;
			det_sincos((double)angle, &sine, &cosine);
			row[i] = (float)cosine;
			row[half + i] = (float)sine;
		}
	}
}

static void head_norm(float *x, const float *weight, int head_dim, float eps)
{
	struct rmsnorm_args norm = {.x = x, .weight = weight, .n_tokens = 1, .hidden = head_dim, .eps = eps, .y = x};
	rmsnorm_ref(&norm);
}

static void head_rope(float *x, const float *table, int rotary_dim, bool interleaved)
{
	int half = rotary_dim / 2;
	for (int i = 0; i < half; i++) {
		int first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + half;
		float a = x[first], b = x[second], c = table[i], s = table[half + i];
		x[first] = a * c - b * s;
		x[second] = b * c + a * s;
	}
}

uint64_t kv_store_ref(enum kv_format format, void *values, size_t first, const float *in, int n, float scale)
{
	uint64_t saturated = 0;
	for (int i = 0; i < n; i++) {
		float value = in[i] / scale;
		size_t at = first + (size_t)i;
		if (format == KV_F32)
			((float *)values)[at] = value;
		else if (format == KV_BF16)
			((uint16_t *)values)[at] = float_to_bf16(value);
		else {
			((uint8_t *)values)[at] = float_to_e4m3(value);
			saturated += fabsf(value) > 448.0f;
		}
	}
	return saturated;
}

static size_t kv_offset(const struct kv_geometry *g, int64_t page, int head, int64_t offset)
{
	return (((size_t)page * (size_t)g->n_kv_heads + (size_t)head) * (size_t)g->page_size + (size_t)offset) *
		(size_t)g->head_dim;
}

void kv_read_ref(const struct kv_layer *layer, const struct kv_geometry *g, const void *values, float scale, int page,
	int head, int offset, float *out)
{
	size_t at = kv_offset(g, page, head, offset);
	for (int d = 0; d < g->head_dim; d++) {
		float value = layer->format == KV_F32 ? ((const float *)values)[at + (size_t)d]
			: layer->format == KV_BF16    ? bf16_to_float(((const uint16_t *)values)[at + (size_t)d])
						      : e4m3_to_float(((const uint8_t *)values)[at + (size_t)d]);
		out[d] = value * scale;
	}
}

void qkv_finish_ref(const struct qkv_finish_args *a)
{
	const struct kv_geometry *g = &a->geometry;
	int n_kv = g->n_kv_heads, dim = g->head_dim, heads = a->n_heads + 2 * n_kv;
	uint64_t saturated = 0;

	for (int t = 0; t < a->n_tokens; t++) {
		float *row = a->qkv + (size_t)t * (size_t)(heads * dim);
		for (int i = 0; a->bias && i < heads * dim; i++)
			row[i] += a->bias[i];
		for (int h = 0; h < a->n_heads + n_kv; h++) {
			const float *norm = h < a->n_heads ? a->q_norm : a->k_norm;
			if (norm)
				head_norm(row + h * dim, norm, dim, a->norm_eps);
			head_rope(row + h * dim, a->rope + (size_t)t * (size_t)a->rotary_dim, a->rotary_dim,
				a->rope_interleaved);
		}
		int64_t page = a->slots[t] / g->page_size, offset = a->slots[t] % g->page_size;
		for (int h = 0; h < n_kv; h++) {
			size_t at = kv_offset(g, page, h, offset);
			const float *k = row + (a->n_heads + h) * dim, *v = k + n_kv * dim;
			saturated += kv_store_ref(a->layer.format, a->layer.k, at, k, dim, a->layer.k_scale);
			saturated += kv_store_ref(a->layer.format, a->layer.v, at, v, dim, a->layer.v_scale);
		}
	}
	if (a->saturated)
		*a->saturated += saturated;
}

/* One query head over positions 0..position, in blocks of ATTENTION_BLOCK with a running maximum. */
static void attend_head(
	const struct attend_args *a, const float *q, const int32_t *table, int position, int kv_head, float *out)
{
	const struct kv_geometry *g = &a->geometry;
	float max = -INFINITY, sum = 0.0f, row[g->head_dim];

	memset(out, 0, (size_t)g->head_dim * sizeof *out);
	for (int start = 0; start <= position; start += ATTENTION_BLOCK) {
		int count = position + 1 - start < ATTENTION_BLOCK ? position + 1 - start : ATTENTION_BLOCK;
		float score[ATTENTION_BLOCK], block_max = -INFINITY, lane[8] = {0};
		for (int j = 0; j < count; j++) {
			int at = start + j;
			kv_read_ref(&a->layer, g, a->layer.k, a->layer.k_scale, table[at / g->page_size], kv_head,
				at % g->page_size, row);
			score[j] = dot_ref(q, row, g->head_dim) * a->scale;
			block_max = score[j] > block_max ? score[j] : block_max;
		}
		float new_max = block_max > max ? block_max : max, keep = exp_ref(max - new_max);
		for (int j = 0; j < count; j++) {
			score[j] = exp_ref(score[j] - new_max);
			lane[j % 8] += score[j];
		}
		sum = fmaf(sum, keep, lane_tree(lane));
		for (int d = 0; d < g->head_dim; d++)
			out[d] *= keep;
		for (int j = 0; j < count; j++) {
			int at = start + j;
			kv_read_ref(&a->layer, g, a->layer.v, a->layer.v_scale, table[at / g->page_size], kv_head,
				at % g->page_size, row);
			for (int d = 0; d < g->head_dim; d++)
				out[d] = fmaf(score[j], row[d], out[d]);
		}
		max = new_max;
	}
	for (int d = 0; d < g->head_dim; d++)
		out[d] /= sum;
}

void attend_ref(const struct attend_args *a)
{
	int dim = a->geometry.head_dim, group = a->n_heads / a->geometry.n_kv_heads;
	for (int b = 0; b < a->n_sequences; b++) {
		for (int t = a->cu_seqlens[b]; t < a->cu_seqlens[b + 1]; t++) {
			int position = a->first_position[b] + t - a->cu_seqlens[b];
			for (int h = 0; h < a->n_heads; h++)
				attend_head(a, a->q + (size_t)t * (size_t)a->q_stride + h * dim,
					a->block_tables + (size_t)b * (size_t)a->table_stride, position, h / group,
					a->out + ((size_t)t * (size_t)a->n_heads + (size_t)h) * (size_t)dim);
		}
	}
}

void swiglu_ref(const struct swiglu_args *a)
{
	size_t inner = (size_t)a->inner;
	for (int t = 0; t < a->n_tokens; t++) {
		const float *gate = a->gate_up + (size_t)t * 2 * inner, *up = gate + inner;
		float *y = a->y + (size_t)t * inner;
		for (size_t i = 0; i < inner; i++)
			y[i] = gate[i] / (1.0f + exp_ref(-gate[i])) * up[i];
	}
}
