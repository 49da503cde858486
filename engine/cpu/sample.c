#include "engine/cpu/sample.h"

#include <stdlib.h>

#include "engine/base/rng.h"
#include "engine/cpu/ref.h"

/* Order by logit descending, index ascending. */
static int order_compare(const void *left, const void *right, void *row)
{
	int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
	const float *logits = row;
	if (logits[a] != logits[b])
		return logits[a] > logits[b] ? -1 : 1;
	return (a > b) - (a < b);
}

static int index_compare(const void *left, const void *right)
{
	int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
	return (a > b) - (a < b);
}

/* Fills order with the candidates in ascending index; returns their number. */
static int candidates(const float *logits, int vocab, const struct sampling *s, float max, int32_t *order)
{
	int count = vocab;

	for (int i = 0; i < vocab; i++)
		order[i] = i;
	if (s->top_k <= 0 && s->top_p >= 1.0f)
		return count;
	qsort_r(order, (size_t)vocab, sizeof *order, order_compare, (void *)(uintptr_t)logits);
	if (s->top_k > 0 && s->top_k < count)
		count = s->top_k;
	if (s->top_p < 1.0f) {
		double total = 0.0, reached = 0.0;
		for (int i = 0; i < count; i++)
			total += (double)exp_ref((logits[order[i]] - max) / s->temperature);
		for (int i = 0; i < count; i++) {
			reached += (double)exp_ref((logits[order[i]] - max) / s->temperature);
			if (reached >= (double)s->top_p * total) {
				count = i + 1;
				break;
			}
		}
	}
	qsort(order, (size_t)count, sizeof *order, index_compare);
	return count;
}

int32_t sample_token(const float *logits, int vocab, const struct sampling *s, uint64_t position, int32_t *order)
{
	int32_t best = 0;
	for (int i = 1; i < vocab; i++)
		best = logits[i] > logits[best] ? i : best;
	if (s->temperature <= 0.0f)
		return best;

	float max = logits[best];
	int count = candidates(logits, vocab, s, max, order);
	double total = 0.0, reached = 0.0, u = (double)philox_uniform(s->seed, position);
	for (int i = 0; i < count; i++)
		total += (double)exp_ref((logits[order[i]] - max) / s->temperature);
	for (int i = 0; i < count; i++) {
		reached += (double)exp_ref((logits[order[i]] - max) / s->temperature);
		if (reached > u * total)
			return order[i];
	}
	return best; /* only where rounding kept the walk just below its total */
}

void top_tokens(const float *logits, int vocab, int count, int32_t *ids)
{
	int found = 0;
	for (int i = 0; i < vocab; i++) {
		if (found == count && !(logits[i] > logits[ids[found - 1]]))
			continue;
		int at = found < count ? found++ : count - 1;
		for (; at > 0 && logits[i] > logits[ids[at - 1]]; at--)
			ids[at] = ids[at - 1];
		ids[at] = i;
	}
}
