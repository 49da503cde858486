#include "evals/trigger.h"

#include <math.h>
#include <stdlib.h>

#include "evals/suite_task.h"

enum called { CALLED_UNKNOWN, CALLED_NO, CALLED_YES };

struct reading {
	const struct suite *suite;
	unsigned char *called; /* [items] enum called */
};

double trigger_f1(const struct trigger_counts *c)
{
	int sum = 2 * c->both + c->candidate_only + c->baseline_only;
	return sum > 0 ? 2.0 * c->both / sum : (double)NAN;
}

static int sample_visit(void *context, const struct store_sample *sample, struct error *e)
{
	struct reading *r = context;
	struct json_document *document = NULL;
	int item = suite_find(r->suite, sample->task, sample->doc_id);
	if (sample->status == SAMPLE_ERROR || item < 0)
		return 0;
	TRY(json_parse(sample->metrics, "sample.metrics", JSON_LAST_KEY_WINS, &document, e));
	const struct json *value = json_get(json_root(document), suite_trigger_metric(r->suite));
	if (json_is(value, JSON_NUMBER))
		r->called[item] = json_double(value) > 0 ? CALLED_YES : CALLED_NO;
	json_free(document);
	return 0;
}

static int read_variant(struct store *store, int64_t run_id, int64_t variant_id, struct reading *r, struct error *e)
{
	r->called = mem_calloc((size_t)suite_count(r->suite), sizeof(*r->called), e);
	if (!r->called)
		return ERR_MEMORY;
	return store_samples_each(store, run_id, variant_id, suite_name(r->suite), sample_visit, r, e);
}

/* Of the items of that task; task NULL: of all. */
static struct trigger_counts count(const struct reading *baseline, const struct reading *candidate, const char *task)
{
	struct trigger_counts c = {0};
	for (int i = 0; i < suite_count(baseline->suite); i++) {
		int b = baseline->called[i], a = candidate->called[i];
		if (b == CALLED_UNKNOWN || a == CALLED_UNKNOWN)
			continue;
		if (task && strcmp(suite_item(baseline->suite, i)->task, task) != 0)
			continue;
		c.both += b == CALLED_YES && a == CALLED_YES;
		c.baseline_only += b == CALLED_YES && a == CALLED_NO;
		c.candidate_only += b == CALLED_NO && a == CALLED_YES;
		c.neither += b == CALLED_NO && a == CALLED_NO;
	}
	return c;
}

static int put(struct store *store, int64_t variant_id, const struct suite *suite, const char *task,
	const struct trigger_counts *c, struct error *e)
{
	const struct store_result result = {.variant_id = variant_id,
		.suite = suite_name(suite),
		.task = task,
		.metric = "trigger_f1,none",
		.n = c->both + c->baseline_only + c->candidate_only + c->neither,
		.value = trigger_f1(c),
		.stderr_value = (double)NAN};
	return result.n > 0 && !isnan(result.value) ? store_suite_result_put(store, &result, e) : 0;
}

int trigger_put(struct store *store, int64_t run_id, int64_t baseline_id, int64_t variant_id, const struct suite *suite,
	struct error *e)
{
	struct reading baseline = {.suite = suite}, candidate = {.suite = suite};
	int status = 0;
	if (!suite_trigger_metric(suite))
		return 0;
	TRY_CLEANUP(status, read_variant(store, run_id, baseline_id, &baseline, e));
	TRY_CLEANUP(status, read_variant(store, run_id, variant_id, &candidate, e));
	struct trigger_counts c = count(&baseline, &candidate, NULL);
	TRY_CLEANUP(status, put(store, variant_id, suite, NULL, &c, e));
	for (int t = 0; suite_task_count(suite) > 1 && t < suite_task_count(suite); t++) {
		const char *task = suite_task(suite, t)->name;
		c = count(&baseline, &candidate, task);
		TRY_CLEANUP(status, put(store, variant_id, suite, task, &c, e));
	}
cleanup:
	free(baseline.called);
	free(candidate.called);
	return status;
}
