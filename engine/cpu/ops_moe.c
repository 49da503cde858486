#include "engine/cpu/ops_moe.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- route ---- */

/* NaN is above every number: a broken router must show in the output, not lose its vote. */
static bool score_above(float a, float b)
{
	return a > b || (isnan(a) && !isnan(b));
}

/* Marks the k largest of score[n] in taken; the lowest index among equals. */
static void top_mark(const float *score, int n, int k, bool *taken)
{
	memset(taken, 0, (size_t)n * sizeof *taken);
	for (int round = 0; round < k; round++) {
		int best = -1;
		for (int i = 0; i < n; i++)
			if (!taken[i] && (best < 0 || score_above(score[i], score[best])))
				best = i;
		taken[best] = true;
	}
}

/* The sum of the two largest scores; of a lone one, itself. */
static float group_score(const float *score, int n)
{
	bool taken[n];
	float sum = 0.0f;

	top_mark(score, n, n < 2 ? n : 2, taken);
	for (int i = 0; i < n; i++)
		if (taken[i])
			sum += score[i];
	return sum;
}

/* Sets the scores outside of the topk_group best groups to -inf. */
static void groups_drop(const struct route_args *a, float *score)
{
	int size = a->n_experts / a->n_group;
	float best_two[a->n_group];
	bool kept[a->n_group];

	for (int g = 0; g < a->n_group; g++)
		best_two[g] = group_score(score + g * size, size);
	top_mark(best_two, a->n_group, a->topk_group, kept);
	for (int i = 0; i < a->n_experts; i++)
		if (!kept[i / size])
			score[i] = -INFINITY;
}

/* weight[i]: what an expert weighs if it is chosen; score[i]: what it is chosen by. */
static void scores_softmax(const float *logits, int n, float *weight, float *score)
{
	float max = logits[0], lane[8] = {0};

	for (int i = 1; i < n; i++)
		max = score_above(logits[i], max) ? logits[i] : max;
	for (int i = 0; i < n; i++) {
		weight[i] = exp_ref(logits[i] - max);
		lane[i % 8] += weight[i];
		score[i] =
			logits[i]; /* the order of the logits is that of their softmax, without ties made by rounding */
	}
	float sum = lane_tree(lane);
	for (int i = 0; i < n; i++)
		weight[i] /= sum;
}

static void scores_sigmoid(const float *logits, const float *bias, int n, float *weight, float *score)
{
	for (int i = 0; i < n; i++) {
		weight[i] = 1.0f / (1.0f + exp_ref(-logits[i]));
		score[i] = bias ? weight[i] + bias[i] : weight[i];
	}
}

static void route_token(const struct route_args *a, const float *logits, int32_t *experts, float *weights)
{
	int n = a->n_experts, chosen = 0;
	float weight[n], score[n], sum = 0.0f;
	bool taken[n];

	if (a->sigmoid)
		scores_sigmoid(logits, a->bias, n, weight, score);
	else
		scores_softmax(logits, n, weight, score);
	if (a->n_group > 1)
		groups_drop(a, score);
	top_mark(score, n, a->n_chosen, taken);
	for (int i = 0; i < n; i++) {
		if (!taken[i])
			continue;
		experts[chosen] = i;
		weights[chosen++] = weight[i];
		sum += weight[i];
	}
	if (a->sigmoid)
		sum += 1e-20f; /* all chosen may be 0 */
	for (int k = 0; k < a->n_chosen; k++)
		weights[k] = (a->normalize ? weights[k] / sum : weights[k]) * a->scaling;
}

void route_cpu(const struct route_args *a)
{
	assert(a->sigmoid || a->n_group == 1);
	assert(a->n_group >= 1 && a->n_experts % a->n_group == 0 && a->topk_group <= a->n_group);
	assert(a->n_chosen <= a->n_experts / a->n_group * a->topk_group);
	for (int t = 0; t < a->n_tokens; t++) {
		size_t out = (size_t)t * (size_t)a->n_chosen;
		route_token(a, a->logits + (size_t)t * (size_t)a->n_experts, a->experts + out, a->weights + out);
	}
}

/* ---- experts ---- */

/* Tokens that pass one expert together: bounds the scratch, changes no bit. */
enum { EXPERT_TILE = 64 };

struct experts_scratch {
	float *sum;     /* [T, H] */
	float *x;       /* [tile, H] input of an expert, then its output */
	float *gate_up; /* [tile, 2 I] */
	float *inner;   /* [tile, I] */
	float *amax;    /* [tile] */
	int32_t *first; /* [E + 1] where each expert's pairs begin */
	int32_t *pairs; /* [T * K] t * K + k, by expert, then by token */
};

/* 64-byte aligned piece of count 4-byte values at *end of base, which may be NULL while sizes are counted. */
static void *piece(float *base, size_t *end, size_t count)
{
	size_t at = *end;
	*end += (count + 15) / 16 * 16;
	return base ? base + at : NULL;
}

/* Cuts scratch in pieces; returns its size in floats. */
static size_t scratch_cut(struct experts_scratch *s, const struct experts_args *a, float *base)
{
	size_t t = (size_t)a->n_tokens, tile = t < EXPERT_TILE ? t : EXPERT_TILE, end = 0;

	s->sum = piece(base, &end, t * (size_t)a->hidden);
	s->x = piece(base, &end, tile * (size_t)a->hidden);
	s->gate_up = piece(base, &end, tile * 2 * (size_t)a->inner);
	s->inner = piece(base, &end, tile * (size_t)a->inner);
	s->amax = piece(base, &end, tile);
	s->first = piece(base, &end, (size_t)a->n_experts + 1);
	s->pairs = piece(base, &end, t * (size_t)a->n_chosen);
	return end;
}

size_t experts_scratch_floats(const struct experts_args *a)
{
	struct experts_scratch s;
	return scratch_cut(&s, a, NULL);
}

/* Counting sort of all (token, choice) pairs by expert. */
static void pairs_sort(const struct experts_args *a, struct experts_scratch *s)
{
	int n = a->n_tokens * a->n_chosen;

	memset(s->first, 0, ((size_t)a->n_experts + 1) * sizeof *s->first);
	for (int i = 0; i < n; i++) {
		assert(a->experts[i] >= 0 && a->experts[i] < a->n_experts);
		s->first[a->experts[i] + 1]++;
	}
	for (int e = 0; e < a->n_experts; e++)
		s->first[e + 1] += s->first[e];
	for (int i = 0; i < n; i++)
		s->pairs[s->first[a->experts[i]]++] = i;
	/* each start has moved to its end, the start of the next */
	memmove(s->first + 1, s->first, (size_t)a->n_experts * sizeof *s->first);
	s->first[0] = 0;
}

static void expert_run(const struct experts_args *a, const struct product_kernels *kernels,
	const struct experts_scratch *s, int expert, const int32_t *pairs, int count)
{
	size_t hidden = (size_t)a->hidden;

	for (int i = 0; i < count; i++)
		memcpy(s->x + (size_t)i * hidden, a->x + (size_t)(pairs[i] / a->n_chosen) * hidden,
			hidden * sizeof *s->x);
	product_run(kernels, &a->gate_up[expert], s->x, count, s->amax, s->gate_up);
	struct swiglu_args swiglu = {.gate_up = s->gate_up, .n_tokens = count, .inner = a->inner, .y = s->inner};
	kernels->swiglu(kernels->context, &swiglu);
	product_run(kernels, &a->down[expert], s->inner, count, s->amax, s->x);
	for (int i = 0; i < count; i++) {
		const float *out = s->x + (size_t)i * hidden;
		float *sum = s->sum + (size_t)(pairs[i] / a->n_chosen) * hidden, weight = a->weights[pairs[i]];
		for (size_t h = 0; h < hidden; h++)
			sum[h] = fmaf(weight, out[h], sum[h]);
	}
}

void experts_cpu(const struct experts_args *a, const struct product_kernels *kernels, float *scratch)
{
	struct experts_scratch s;
	size_t count = (size_t)a->n_tokens * (size_t)a->hidden;

	scratch_cut(&s, a, scratch);
	pairs_sort(a, &s);
	memset(s.sum, 0, count * sizeof *s.sum);
	for (int e = 0; e < a->n_experts; e++)
		for (int at = s.first[e]; at < s.first[e + 1]; at += EXPERT_TILE) {
			int left = s.first[e + 1] - at;
			expert_run(a, kernels, &s, e, s.pairs + at, left < EXPERT_TILE ? left : EXPERT_TILE);
		}
	for (size_t i = 0; i < count; i++)
		a->y[i] = a->residual ? s.sum[i] + a->residual[i] : s.sum[i];
}
