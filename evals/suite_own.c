#include "evals/suite_own.h"

#include <math.h>
#include <stdlib.h>

#include "evals/divergence.h"
#include "evals/suite_type.h"
#include "evals/trigger.h"

/* ---- What a type adds ---- */

/* The values of one metric, by task. */
struct parts {
	const char *metric;
	char **names;                 /* [n] owned */
	struct metric_summary *tasks; /* [n] */
	int n;
	double *values; /* [n_values] of the last task */
	int n_values, capacity;
};

static void parts_free(struct parts *p)
{
	for (int i = 0; i < p->n; i++)
		free(p->names[i]);
	free(p->names);
	free(p->tasks);
	free(p->values);
}

static int no_memory(struct error *e)
{
	return error_set(e, ERR_MEMORY, "no memory for the results of a suite");
}

static void finish_task(struct parts *p)
{
	if (p->n)
		metric_mean(p->metric, p->values, p->n_values, &p->tasks[p->n - 1]);
	p->n_values = 0;
}

static int begin_task(struct parts *p, const char *name, struct error *e)
{
	finish_task(p);
	char **names = reallocarray(p->names, (size_t)p->n + 1, sizeof(*names));
	if (!names)
		return no_memory(e);
	p->names = names;
	struct metric_summary *tasks = reallocarray(p->tasks, (size_t)p->n + 1, sizeof(*tasks));
	if (!tasks)
		return no_memory(e);
	p->tasks = tasks;
	names[p->n] = strdup(name);
	return names[p->n++] ? 0 : no_memory(e);
}

static int add_value(struct parts *p, double value, struct error *e)
{
	if (p->n_values == p->capacity) {
		int capacity = p->capacity ? 2 * p->capacity : 64;
		double *grown = reallocarray(p->values, (size_t)capacity, sizeof(*grown));
		if (!grown)
			return no_memory(e);
		p->values = grown;
		p->capacity = capacity;
	}
	p->values[p->n_values++] = value;
	return 0;
}

/* Samples come by task. */
static int take_sample(void *context, const struct store_sample *sample, struct error *e)
{
	struct parts *p = context;
	struct json_document *document = NULL;
	if (sample->status == SAMPLE_ERROR)
		return 0;
	if (p->n == 0 || strcmp(p->names[p->n - 1], sample->task) != 0)
		TRY(begin_task(p, sample->task, e));
	TRY(json_parse(sample->metrics, "sample.metrics", JSON_LAST_KEY_WINS, &document, e));
	double value = json_double(json_get(json_root(document), p->metric));
	json_free(document);
	return isnan(value) ? 0 : add_value(p, value, e);
}

struct added {
	const struct store_result *wanted;
	store_visit_result *visit;
	void *context;
};

static int visit_added(void *context, const char *task, const struct metric_summary *summary, struct error *e)
{
	const struct added *a = context;
	struct store_result result = *a->wanted;
	if (result.task && strcmp(result.task, task) != 0)
		return 0;
	result.task = task;
	result.n = summary->n;
	result.value = summary->value;
	result.stderr_value = summary->stderr_value;
	return a->visit(a->context, &result, e);
}

static int visit_all_added(struct store *s, int64_t run_id, const struct suite_type *type,
	const struct store_result *wanted, store_visit_result *visit, void *context, struct error *e)
{
	struct parts p = {.metric = wanted->metric};
	struct added added = {wanted, visit, context};
	int status = store_samples_each(s, run_id, wanted->variant_id, wanted->suite, take_sample, &p, e);
	finish_task(&p);
	if (status == 0 && p.n > 1)
		status = type->add_results((const char *const *)p.names, p.tasks, p.n, visit_added, &added, e);
	parts_free(&p);
	return status;
}

/* ---- Which ---- */

static int take_first(void *context, const struct store_variant *variant, struct error *e)
{
	int64_t *first = context;
	(void)e;
	*first = *first ? *first : variant->variant_id;
	return 0;
}

static int visit_trigger(struct store *s, int64_t run_id, const struct suite_type *type,
	const struct store_result *wanted, store_visit_result *visit, void *context, struct error *e)
{
	int64_t baseline_id = 0;
	TRY(store_variants_each(s, run_id, take_first, &baseline_id, e));
	return trigger_visit(s, run_id, baseline_id, wanted, type->trigger_metric, visit, context, e);
}

int suite_own_results(struct store *s, int64_t run_id, const struct store_result *wanted, store_visit_result *visit,
	void *context, struct error *e)
{
	int status = divergence_own_results(s, run_id, wanted, visit, context, e);
	const struct suite_type *type = status == 0 ? suite_type_find(wanted->suite) : NULL;
	if (!type)
		return status;
	if (type->trigger_metric && strcmp(wanted->metric, trigger_result) == 0) {
		/* where no part has a value neither has the whole */
		status = wanted->task ? visit_trigger(s, run_id, type, wanted, visit, context, e) : 0;
		return status < 0 ? status : 1;
	}
	if (!type->add_results || (wanted->task && !suite_name_after(wanted->task, type->added_prefix)))
		return 0;
	status = visit_all_added(s, run_id, type, wanted, visit, context, e);
	return status < 0 ? status : 1;
}
