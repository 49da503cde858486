#include <math.h>
#include <stdlib.h>

#include "reports/store_merge_internal.h"

/* A result on its way: of which part of which suite. */
struct wanted {
	struct merge *merge;
	int64_t variant_id;       /* of the joined run */
	const char *variant;      /* its name */
	const char *suite, *task; /* task: the suite's own name, a group, a task, or another part */
	const char *metric;
	const struct json *tasks; /* of the suite, in its order; NULL: it has one */
	bool is_sample;           /* its tasks are no strata: one mean over all */
};

struct values {
	double *values;
	int n, capacity;
};

static int add_value(struct values *v, double value, struct error *e)
{
	if (v->n == v->capacity) {
		int capacity = v->capacity ? 2 * v->capacity : 1024;
		double *grown = reallocarray(v->values, (size_t)capacity, sizeof(*grown));
		if (!grown)
			return error_set(e, ERR_MEMORY, "no memory for the values of a metric");
		v->values = grown;
		v->capacity = capacity;
	}
	v->values[v->n++] = value;
	return 0;
}

/* Adds the values of the answers to one task; task NULL: to the suite. */
static int read_values(const struct wanted *w, const char *task, struct values *out, struct error *e)
{
	struct store *s = w->merge->target;
	struct store_binder b = {0};
	int status;
	TRY(store_prepare(s,
		"SELECT metrics FROM sample WHERE run_id = ?1 AND variant_id = ?2 AND suite = ?3 AND (?4 IS NULL OR "
		"task = ?4)"
		" AND status <> 'error' ORDER BY task, doc_id",
		&b.statement, e));
	bind_int(&b, w->merge->run_id);
	bind_int(&b, w->variant_id);
	bind_text(&b, w->suite);
	bind_text(&b, task);
	while ((status = store_step(s, b.statement, &b, "read the samples", e)) == 1) {
		struct json_document *metrics = NULL;
		TRY_CLEANUP(status,
			json_parse(column_str(b.statement, 0), "sample.metrics", JSON_LAST_KEY_WINS, &metrics, e));
		double value = json_double(json_get(json_root(metrics), w->metric));
		json_free(metrics);
		if (!isnan(value)) /* null: the item does not count for that metric */
			TRY_CLEANUP(status, add_value(out, value, e));
	}
cleanup:
	sqlite3_finalize(b.statement);
	return status;
}

static int mean_of_task(const struct wanted *w, const char *task, struct store_mean *out, struct error *e)
{
	struct values v = {0};
	int status = read_values(w, task, &v, e);
	*out = (struct store_mean){0};
	if (status == 0 && v.n > 0)
		*out = w->merge->math->mean(v.values, v.n);
	free(v.values);
	return status;
}

static bool is_in(const struct json *task, const char *group)
{
	const struct json *of = json_get(task, "group");
	return !group || (json_is(of, JSON_STRING) && str_is(of->text, group));
}

/* Of the tasks of that group, NULL: of all; n stays 0 where none has an answer. */
static int pool_tasks(const struct wanted *w, const char *group, struct store_mean *out, struct error *e)
{
	if (w->tasks->count > STORE_TASKS_MAX)
		return error_set(e, ERR_INPUT, "%s: its provenance names %zu tasks of %s, expected at most %d",
			w->merge->parts[0].label, w->tasks->count, w->suite, STORE_TASKS_MAX);
	struct store_mean *means = mem_calloc(w->tasks->count + 1, sizeof(*means), e);
	struct values all = {0};
	int n = 0, status = means ? 0 : ERR_MEMORY;
	*out = (struct store_mean){0};
	for (const struct json *task = w->tasks->child; task && status == 0; task = task->next) {
		const struct json *name = json_get(task, "name");
		if (!is_in(task, group) || !json_is(name, JSON_STRING))
			continue;
		if (w->is_sample)
			status = read_values(w, name->text.data, &all, e);
		else
			status = mean_of_task(w, name->text.data, &means[n], e);
		n += means[n].n > 0;
	}
	if (status == 0 && n > 0)
		*out = w->merge->math->pool(means, n);
	else if (status == 0 && all.n > 0)
		*out = w->merge->math->mean(all.values, all.n);
	free(all.values);
	free(means);
	return status;
}

/* The shard's own result of that part; n 0: none. */
static int read_result(const struct wanted *w, const struct part *p, struct store_mean *out, struct error *e)
{
	struct store_binder b = {0};
	*out = (struct store_mean){0};
	TRY(store_prepare(p->store,
		"SELECT n, value, stderr FROM suite_result JOIN variant USING (run_id, variant_id)"
		" WHERE run_id = ?1 AND name = ?2 AND suite = ?3 AND task = ?4 AND metric = ?5",
		&b.statement, e));
	bind_int(&b, p->run_id);
	bind_text(&b, w->variant);
	bind_text(&b, w->suite);
	bind_text(&b, w->task);
	bind_text(&b, w->metric);
	int status = store_step(p->store, b.statement, &b, "read the results", e);
	if (status == 1)
		*out = (struct store_mean){sqlite3_column_int(b.statement, 0), column_double(b.statement, 1),
			column_double(b.statement, 2)};
	sqlite3_finalize(b.statement);
	return status < 0 ? status : 0;
}

/* Mean and error of the union of disjoint parts (Chan, Golub and LeVeque 1983). */
static int combine_results(const struct wanted *w, struct store_mean *out, struct error *e)
{
	double n = 0, sum = 0, squares = 0;
	for (size_t i = 0; i < w->merge->n; i++) {
		struct store_mean x;
		TRY(read_result(w, &w->merge->parts[i], &x, e));
		if (x.n < 1)
			continue;
		double mean = n > 0 ? sum / n : x.value,
		       within = x.n > 1 ? x.stderr_value * x.stderr_value * x.n * (x.n - 1) : 0;
		squares += within + (x.value - mean) * (x.value - mean) * n * x.n / (n + x.n);
		sum += x.value * x.n;
		n += x.n;
	}
	*out = (struct store_mean){
		(int)n, n > 0 ? sum / n : (double)NAN, n > 1 ? sqrt(squares / (n - 1) / n) : (double)NAN};
	return 0;
}

static int compute(const struct wanted *w, struct store_mean *out, struct error *e)
{
	if (strcmp(w->task, w->suite) == 0)
		return w->tasks ? pool_tasks(w, NULL, out, e) : mean_of_task(w, NULL, out, e);
	for (const struct json *task = w->tasks ? w->tasks->child : NULL; task; task = task->next) {
		const struct json *name = json_get(task, "name");
		if (json_is(name, JSON_STRING) && str_is(name->text, w->task))
			return mean_of_task(w, w->task, out, e);
	}
	for (const struct json *task = w->tasks ? w->tasks->child : NULL; task; task = task->next)
		if (is_in(task, w->task))
			return pool_tasks(w, w->task, out, e);
	return combine_results(w, out, e);
}

/* ---- Into the store ---- */

static void bind_key(struct store_binder *b, const struct wanted *w)
{
	bind_int(b, w->merge->run_id);
	bind_int(b, w->variant_id);
	bind_text(b, w->suite);
	bind_text(b, w->task);
	bind_text(b, w->metric);
}

static int is_there(const struct wanted *w, int64_t *count, struct error *e)
{
	struct store_binder b = {0};
	TRY(store_prepare(w->merge->target,
		"SELECT count(*) FROM suite_result WHERE run_id = ?1 AND variant_id = ?2 AND suite = ?3 AND task = ?4"
		" AND metric = ?5",
		&b.statement, e));
	bind_key(&b, w);
	return store_query_int(w->merge->target, &b, count, "look for a result", e);
}

static int put(const struct wanted *w, const struct store_mean *x, struct error *e)
{
	struct store_binder b = {0};
	TRY(store_prepare(w->merge->target,
		"INSERT INTO suite_result (run_id, variant_id, suite, task, metric, n, value, stderr)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
		&b.statement, e));
	bind_key(&b, w);
	bind_int(&b, x->n);
	bind_double(&b, x->value);
	bind_double(&b, x->stderr_value);
	return store_run_statement(w->merge->target, &b, "store a result", e);
}

static int put_own(void *context, const struct store_result *r, struct error *e)
{
	struct wanted w = *(const struct wanted *)context;
	int64_t count = 0;
	w.task = r->task ? r->task : r->suite;
	w.metric = r->metric;
	TRY(is_there(&w, &count, e));
	return count ? 0 : put(&w, &(struct store_mean){(int)r->n, r->value, r->stderr_value}, e);
}

/* 1: it is no mean, and put where it has a value; 0: it is one. */
static int put_if_own(struct wanted *w, struct error *e)
{
	const struct store_result result = {
		.variant_id = w->variant_id, .suite = w->suite, .task = w->task, .metric = w->metric};
	if (!w->merge->math->own)
		return 0;
	return w->merge->math->own(w->merge->target, w->merge->run_id, &result, put_own, w, e);
}

/* The tasks that the provenance of the run names for a suite of several; NULL: it has one. */
static const struct json *suite_tasks(const struct json *provenance, const char *suite)
{
	JSON_EACH (entry, json_get(provenance, "suites")) {
		const struct json *name = json_get(entry, "name"), *tasks = json_get(entry, "tasks");
		if (json_is(name, JSON_STRING) && str_is(name->text, suite) && json_is(tasks, JSON_ARRAY))
			return tasks;
	}
	return NULL;
}

static int variant_name(struct store *s, int64_t variant_id, char *out, size_t size, struct error *e)
{
	struct store_binder b = {0};
	TRY(store_prepare(s, "SELECT name FROM variant WHERE variant_id = ?1", &b.statement, e));
	bind_int(&b, variant_id);
	int status = store_step(s, b.statement, &b, "find a variant", e);
	if (status == 1)
		snprintf(out, size, "%s", column_text(b.statement, 0));
	sqlite3_finalize(b.statement);
	return status < 0 ? status : 0;
}

struct visit {
	struct merge *merge;
	const struct part *part;
};

/* A result that some shard has is computed once. */
static int join_result(void *context, const struct store_result *r, struct error *e)
{
	const struct visit *v = context;
	const struct json *provenance = json_root(v->merge->parts[0].provenance);
	char name[256] = "";
	int64_t count = 0;
	struct store_mean joined;
	TRY(variant_name(v->part->store, r->variant_id, name, sizeof(name), e));
	struct wanted w = {.merge = v->merge,
		.variant = name,
		.suite = r->suite,
		.task = r->task,
		.metric = r->metric,
		.tasks = suite_tasks(provenance, r->suite),
		.is_sample = json_is(json_get(provenance, "sample"), JSON_NUMBER)};
	TRY(merge_find_variant(v->merge, name, &w.variant_id, e));
	TRY(is_there(&w, &count, e));
	if (count)
		return 0;
	int own = put_if_own(&w, e);
	if (own != 0)
		return own < 0 ? own : 0;
	TRY(compute(&w, &joined, e));
	return joined.n > 0 ? put(&w, &joined, e) : 0;
}

/* What no shard has: a result made of parts of which each shard lacks another. */
static int join_missing(void *context, const struct store_result *r, struct error *e)
{
	const struct visit *v = context;
	struct wanted w = {.merge = v->merge, .suite = r->suite, .metric = r->metric};
	char name[256] = "";
	if (strcmp(r->suite, r->task) != 0)
		return 0;
	TRY(variant_name(v->part->store, r->variant_id, name, sizeof(name), e));
	TRY(merge_find_variant(v->merge, name, &w.variant_id, e));
	int own = put_if_own(&w, e);
	return own < 0 ? own : 0;
}

int merge_results(struct merge *m, struct error *e)
{
	static store_visit_result *const rounds[] = {join_result, join_missing};
	for (size_t round = 0; round < 2; round++)
		for (size_t i = 0; i < m->n; i++) {
			struct visit v = {m, &m->parts[i]};
			TRY(store_results_each(m->parts[i].store, m->parts[i].run_id, rounds[round], &v, e));
		}
	return 0;
}
