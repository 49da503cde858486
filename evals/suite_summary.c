/* Results of a suite: of the whole, of groups of its tasks, of each task, and by a column of its documents. */
#include <math.h>
#include <stdlib.h>

#include "evals/suite.h"
#include "evals/suite_task.h"

struct summarizing {
	const struct suite *suite;
	const double *values; /* of the metric at hand: [items] */
	const bool *scored;   /* [items] */
	const char *metric;
	double *chosen;                /* [items] scratch */
	struct metric_summary *tasks;  /* [tasks] of the metric at hand; n 0: no item of it is scored */
	struct metric_summary *pooled; /* [tasks] scratch */
	bool *in_part;                 /* [tasks] scratch, false */
	suite_visit_result *visit;
	void *context;
};

/* Of the scored items of the tasks for which in_part holds. */
static void mean_of(struct summarizing *z, const bool *in_part, struct metric_summary *out)
{
	int n = 0, t = 0;
	for (int i = 0; i < suite_count(z->suite); i++) {
		while (suite_task(z->suite, t)->name != suite_item(z->suite, i)->task)
			t++;
		if (z->scored[i] && !isnan(z->values[i]) && in_part[t])
			z->chosen[n++] = z->values[i];
	}
	metric_mean(z->metric, z->chosen, n, out);
}

static void summarize_tasks(struct summarizing *z)
{
	for (int t = 0; t < suite_task_count(z->suite); t++) {
		z->in_part[t] = true;
		mean_of(z, z->in_part, &z->tasks[t]);
		z->in_part[t] = false;
	}
}

/* Of the tasks of that group; group NULL: of all. False when none has a scored item. */
static bool pool(struct summarizing *z, const char *group, struct metric_summary *out)
{
	int n = 0, n_tasks = suite_task_count(z->suite);
	for (int t = 0; t < n_tasks; t++) {
		const char *of = suite_task(z->suite, t)->group;
		z->in_part[t] = !group || (of && strcmp(of, group) == 0);
		if (z->tasks[t].n > 0 && z->in_part[t])
			z->pooled[n++] = z->tasks[t];
	}
	if (n > 0 && (n_tasks == 1 || suite_is_sample(z->suite)))
		mean_of(z, z->in_part, out);
	else if (n > 0)
		metric_pool(z->metric, z->pooled, n, out);
	memset(z->in_part, 0, (size_t)n_tasks * sizeof(*z->in_part));
	return n > 0;
}

static bool group_came_before(const struct suite *s, int t)
{
	for (int before = 0; before < t; before++)
		if (suite_task(s, before)->group && strcmp(suite_task(s, before)->group, suite_task(s, t)->group) == 0)
			return true;
	return false;
}

static int visit_tasks(struct summarizing *z, struct error *e)
{
	struct metric_summary group;
	for (int t = 0; t < suite_task_count(z->suite); t++) {
		const char *name = suite_task(z->suite, t)->group;
		bool shown = name && strcmp(name, suite_name(z->suite)) != 0 && !group_came_before(z->suite, t);
		if (shown && pool(z, name, &group))
			TRY(z->visit(z->context, name, &group, e));
	}
	for (int t = 0; t < suite_task_count(z->suite); t++)
		if (z->tasks[t].n > 0)
			TRY(z->visit(z->context, suite_task(z->suite, t)->name, &z->tasks[t], e));
	return 0;
}

static int visit_value(struct summarizing *z, struct str value, struct error *e)
{
	struct buf name = {0};
	struct metric_summary summary;
	int n = 0;
	for (int i = 0; i < suite_count(z->suite); i++)
		if (z->scored[i] && !isnan(z->values[i]) && str_equal(suite_item(z->suite, i)->group, value))
			z->chosen[n++] = z->values[i];
	if (n == 0)
		return 0;
	metric_mean(z->metric, z->chosen, n, &summary);
	buf_printf(&name, "%s=%.*s", suite_group_column(z->suite), STR_ARG(value));
	int status = buf_check(&name, e);
	if (status == 0)
		status = z->visit(z->context, buf_text(&name), &summary, e);
	buf_free(&name);
	return status;
}

/* In the order in which the values first come. */
static int visit_values(struct summarizing *z, struct error *e)
{
	for (int i = 0; i < suite_count(z->suite); i++) {
		struct str value = suite_item(z->suite, i)->group;
		int before = 0;
		while (before < i && !str_equal(suite_item(z->suite, before)->group, value))
			before++;
		if (before == i)
			TRY(visit_value(z, value, e));
	}
	return 0;
}

static int summarize_metric(struct summarizing *z, struct error *e)
{
	struct metric_summary whole;
	summarize_tasks(z);
	if (!pool(z, NULL, &whole))
		return 0;
	TRY(z->visit(z->context, NULL, &whole, e));
	if (suite_task_count(z->suite) > 1) {
		TRY(visit_tasks(z, e));
		TRY(suite_add_results(z->suite, z->tasks, z->visit, z->context, e));
	}
	return suite_group_column(z->suite) ? visit_values(z, e) : 0;
}

int suite_summarize(const struct suite *s, const double *values, const bool *scored, suite_visit_result *visit,
	void *context, struct error *e)
{
	size_t items = (size_t)suite_count(s), tasks = (size_t)suite_task_count(s);
	struct summarizing z = {.suite = s, .scored = scored, .visit = visit, .context = context};
	int status = 0;
	z.chosen = mem_calloc(items + 1, sizeof(*z.chosen), e);
	z.tasks = mem_calloc(tasks, sizeof(*z.tasks), e);
	z.pooled = mem_calloc(tasks, sizeof(*z.pooled), e);
	z.in_part = mem_calloc(tasks, sizeof(*z.in_part), e);
	if (!z.chosen || !z.tasks || !z.pooled || !z.in_part)
		status = ERR_MEMORY;
	for (int m = 0; m < suite_metric_count(s) && status == 0; m++) {
		z.metric = suite_metric_name(s, m);
		z.values = values + (size_t)m * items;
		status = summarize_metric(&z, e);
	}
	free(z.chosen);
	free(z.tasks);
	free(z.pooled);
	free(z.in_part);
	return status;
}
