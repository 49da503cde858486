#include "evals/scoring.h"

#include <assert.h>

int scorer_init(struct scorer *s, const struct suite_type *type, struct error *e)
{
	*s = (struct scorer){.type = type};
	if (type->kind != REQUEST_GENERATE || type->judge)
		return 0;
	int status = 0;
	for (int i = 0; i < type->n_metrics; i++)
		TRY_CLEANUP(status, filter_new(str_of(type->filters[i]), &s->filters[i], e));
	TRY_CLEANUP(status, exact_match_new(str_of(type->exact_match), &s->exact_match, e));
cleanup:
	if (status < 0)
		scorer_free(s);
	return status;
}

void scorer_free(struct scorer *s)
{
	for (int i = 0; i < SUITE_MAX_METRICS; i++)
		filter_delete(s->filters[i]);
	exact_match_delete(s->exact_match);
	*s = (struct scorer){0};
}

static int score_text(
	const struct scorer *s, const struct suite_item *item, struct str text, struct item_score *out, struct error *e)
{
	for (int i = 0; i < s->type->n_metrics; i++) {
		out->filter[i] = filter_short_name(filter_name(s->filters[i]));
		out->n_filters = i + 1;
		TRY(filter_apply(s->filters[i], text, &out->filtered[i], e));
		TRY(exact_match_score(s->exact_match, buf_str(&out->filtered[i]), item->target, &out->value[i], e));
	}
	return 0;
}

static void score_choices(
	const struct scorer *s, const struct suite_item *item, const double *logprobs, struct item_score *out)
{
	for (int i = 0; i < s->type->n_metrics; i++) {
		int choice = strcmp(s->type->metrics[i], "acc_norm,none") == 0
			? argmax_norm(logprobs, item->choices, item->n_choices)
			: argmax(logprobs, item->n_choices);
		out->value[i] = choice == item->gold ? 1.0 : 0.0;
	}
}

int scorer_score(const struct scorer *s, const struct suite_item *item, const struct answer *answer,
	struct item_score *out, struct error *e)
{
	assert(item->kind == s->type->kind);
	*out = (struct item_score){.n_metrics = s->type->n_metrics};
	for (int i = 0; i < s->type->n_metrics; i++)
		out->metric[i] = s->type->metrics[i];
	if (item->kind == REQUEST_LOGLIKELIHOOD) {
		score_choices(s, item, answer->logprobs, out);
		return 0;
	}
	int status = s->type->judge ? s->type->judge(item, answer, out, e) : score_text(s, item, answer->text, out, e);
	if (status < 0)
		item_score_free(out);
	return status;
}

void item_score_free(struct item_score *s)
{
	for (int i = 0; i < s->n_filters; i++)
		buf_free(&s->filtered[i]);
	*s = (struct item_score){0};
}
