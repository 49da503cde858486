#include "evals/trigger.h"

#include <math.h>
#include <stdlib.h>

#include "evals/suite_task.h"

const char trigger_result[] = "trigger_f1,none";

double trigger_f1(const struct trigger_counts *c)
{
	int sum = 2 * c->both + c->candidate_only + c->baseline_only;
	return sum > 0 ? 2.0 * c->both / sum : (double)NAN;
}

/* ---- Reading ---- */

struct called {
	size_t task; /* index into the reading's tasks */
	int64_t doc_id;
	bool called;
};

/* The answers of one variant, by task and doc_id. */
struct reading {
	const char *metric;
	char **tasks; /* [n_tasks], ascending; owned */
	size_t n_tasks;
	struct called *items; /* [n] */
	size_t n;
};

static void reading_free(struct reading *r)
{
	for (size_t i = 0; i < r->n_tasks; i++)
		free(r->tasks[i]);
	free(r->tasks);
	free(r->items);
}

static int no_memory(struct error *e)
{
	return error_set(e, ERR_MEMORY, "no memory for the calls of a suite");
}

/* Samples come by task: it is the last one, or new. */
static int add_task(struct reading *r, const char *task, struct error *e)
{
	if (r->n_tasks && strcmp(r->tasks[r->n_tasks - 1], task) == 0)
		return 0;
	char **grown = reallocarray(r->tasks, r->n_tasks + 1, sizeof(*grown));
	if (!grown)
		return no_memory(e);
	r->tasks = grown;
	r->tasks[r->n_tasks] = strdup(task);
	return r->tasks[r->n_tasks++] ? 0 : no_memory(e);
}

static int add_item(struct reading *r, const struct store_sample *sample, bool called, struct error *e)
{
	TRY(add_task(r, sample->task, e));
	if ((r->n & (r->n - 1)) == 0) { /* room doubles whenever n is a power of two */
		struct called *grown = reallocarray(r->items, r->n ? 2 * r->n : 1, sizeof(*grown));
		if (!grown)
			return no_memory(e);
		r->items = grown;
	}
	r->items[r->n++] = (struct called){r->n_tasks - 1, sample->doc_id, called};
	return 0;
}

static int sample_visit(void *context, const struct store_sample *sample, struct error *e)
{
	struct reading *r = context;
	struct json_document *document = NULL;
	int status = 0;
	if (sample->status == SAMPLE_ERROR)
		return 0;
	TRY(json_parse(sample->metrics, "sample.metrics", JSON_LAST_KEY_WINS, &document, e));
	const struct json *value = json_get(json_root(document), r->metric);
	if (json_is(value, JSON_NUMBER))
		status = add_item(r, sample, json_double(value) > 0, e);
	json_free(document);
	return status;
}

struct readings {
	struct reading baseline, candidate;
};

static void readings_free(struct readings *r)
{
	reading_free(&r->baseline);
	reading_free(&r->candidate);
}

static int readings_make(struct store *store, int64_t run_id, int64_t baseline_id, int64_t variant_id,
	const char *suite, const char *metric, struct readings *out, struct error *e)
{
	*out = (struct readings){{.metric = metric}, {.metric = metric}};
	TRY(store_samples_each(store, run_id, baseline_id, suite, sample_visit, &out->baseline, e));
	return store_samples_each(store, run_id, variant_id, suite, sample_visit, &out->candidate, e);
}

/* ---- Counting ---- */

static void count_pair(struct trigger_counts *c, bool baseline, bool candidate)
{
	c->both += baseline && candidate;
	c->baseline_only += baseline && !candidate;
	c->candidate_only += !baseline && candidate;
	c->neither += !baseline && !candidate;
}

/* Of the items of that task; task NULL: of all. */
static struct trigger_counts count(const struct readings *r, const char *task)
{
	const struct reading *a = &r->baseline, *b = &r->candidate;
	struct trigger_counts c = {0};
	for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
		const struct called *x = &a->items[i], *y = &b->items[j];
		int order = strcmp(a->tasks[x->task], b->tasks[y->task]);
		if (order == 0)
			order = (x->doc_id > y->doc_id) - (x->doc_id < y->doc_id);
		if (order == 0 && (!task || strcmp(a->tasks[x->task], task) == 0))
			count_pair(&c, x->called, y->called);
		i += order <= 0;
		j += order >= 0;
	}
	return c;
}

static int visit_count(const struct trigger_counts *c, const struct store_result *of, store_visit_result *visit,
	void *context, struct error *e)
{
	struct store_result result = *of;
	result.metric = trigger_result;
	result.n = c->both + c->baseline_only + c->candidate_only + c->neither;
	result.value = trigger_f1(c);
	result.stderr_value = (double)NAN;
	return result.n > 0 && !isnan(result.value) ? visit(context, &result, e) : 0;
}

int trigger_visit(struct store *store, int64_t run_id, int64_t baseline_id, const struct store_result *wanted,
	const char *metric, store_visit_result *visit, void *context, struct error *e)
{
	struct readings r;
	bool whole = strcmp(wanted->task, wanted->suite) == 0;
	int status = readings_make(store, run_id, baseline_id, wanted->variant_id, wanted->suite, metric, &r, e);
	if (status == 0) {
		struct trigger_counts c = count(&r, whole ? NULL : wanted->task);
		status = visit_count(&c, wanted, visit, context, e);
	}
	readings_free(&r);
	return status;
}

static int put(void *context, const struct store_result *result, struct error *e)
{
	return store_suite_result_put(context, result, e);
}

int trigger_put(struct store *store, int64_t run_id, int64_t baseline_id, int64_t variant_id, const struct suite *suite,
	struct error *e)
{
	const char *metric = suite_trigger_metric(suite);
	struct store_result part = {.variant_id = variant_id, .suite = suite_name(suite)};
	struct readings r;
	if (!metric)
		return 0;
	int status = readings_make(store, run_id, baseline_id, variant_id, part.suite, metric, &r, e);
	if (status == 0) {
		struct trigger_counts c = count(&r, NULL);
		status = visit_count(&c, &part, put, store, e);
	}
	for (int t = 0; suite_task_count(suite) > 1 && t < suite_task_count(suite) && status == 0; t++) {
		part.task = suite_task(suite, t)->name;
		struct trigger_counts c = count(&r, part.task);
		status = visit_count(&c, &part, put, store, e);
	}
	readings_free(&r);
	return status;
}
