#include "evals/harness_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "engine/base/buf.h"
#include "evals/suite_type.h"

enum { MOST_METRICS = 256 }; /* with their filters */

struct harness_sum {
	char *name;           /* "acc,none"; owned */
	double sum;           /* NaN: of one document it is no number */
	double mean, squares; /* of the documents so far, and the sum of squared deviations from it (Welford) */
	int64_t documents;
};

struct harness_stderr {
	const struct json *result; /* in the results file */
	double value;
};

void harness_sums_free(struct harness_sums *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->items[i].name);
	free(s->items);
	*s = (struct harness_sums){0};
}

static struct harness_sum *find(struct harness_sums *s, struct str name, struct error *e)
{
	for (size_t i = 0; i < s->count; i++)
		if (str_is(name, s->items[i].name))
			return &s->items[i];
	if (s->count == MOST_METRICS) {
		error_set(e, ERR_INPUT, "more than %d metrics of one task", MOST_METRICS);
		return NULL;
	}
	if (s->count == s->capacity) {
		size_t capacity = s->capacity ? 2 * s->capacity : 8;
		struct harness_sum *grown = reallocarray(s->items, capacity, sizeof(*grown));
		if (!grown) {
			error_set(e, ERR_MEMORY, "no memory for %zu metrics", capacity);
			return NULL;
		}
		s->items = grown;
		s->capacity = capacity;
	}
	char *copy = strndup(name.data, name.length);
	if (!copy) {
		error_set(e, ERR_MEMORY, "no memory for the name of a metric");
		return NULL;
	}
	s->items[s->count] = (struct harness_sum){.name = copy};
	return &s->items[s->count++];
}

static void sum_add(struct harness_sum *s, double value)
{
	double deviation = value - s->mean;
	s->sum += value;
	s->mean += deviation / (double)++s->documents;
	s->squares += deviation * (value - s->mean);
}

int harness_sums_add(struct harness_sums *s, const struct store_sample *sample, struct error *e)
{
	struct json_document *metrics = NULL;
	int status = json_parse(sample->metrics, "metrics", JSON_LAST_KEY_WINS, &metrics, e);
	JSON_EACH (value, status == 0 ? json_root(metrics) : NULL) {
		if (value->shadowed)
			continue;
		struct harness_sum *sum = find(s, value->key, e);
		if (!sum) {
			status = e->code;
			break;
		}
		sum_add(sum, json_is(value, JSON_NUMBER) ? json_double(value) : (double)NAN);
	}
	json_free(metrics);
	return status;
}

bool harness_key_is_metric(struct str key, struct str *metric, struct str *filter)
{
	static const char end[] = "_stderr";
	size_t comma = str_find(key, str_of(","), 0), n = sizeof(end) - 1;
	if (comma == (size_t)-1 || comma == 0)
		return false;
	*metric = (struct str){key.data, comma};
	*filter = (struct str){key.data + comma + 1, key.length - comma - 1};
	return metric->length < n || memcmp(metric->data + metric->length - n, end, n) != 0;
}

/* What the harness averages where a task's configuration does not say. */
static bool is_mean_by_default(struct str metric)
{
	static const char *const means[] = {"acc", "acc_norm", "exact_match"};
	for (size_t i = 0; i < sizeof(means) / sizeof(means[0]); i++)
		if (str_is(metric, means[i]))
			return true;
	return false;
}

static bool is_ours(const char *name)
{
	return !suite_name_is_path(name) && suite_type_find(name);
}

enum harness_aggregation harness_aggregation_of(const struct harness_task *task, struct str metric)
{
	bool by_default = is_mean_by_default(metric);
	if (by_default && (is_ours(task->suite) || is_ours(task->name)))
		return HARNESS_MEAN;
	JSON_EACH (entry, json_get(task->config, "metric_list")) {
		const struct json *name = json_get(entry, "metric"), *how = json_get(entry, "aggregation");
		if (json_is(name, JSON_STRING) && str_equal(name->text, metric) && how)
			return json_is(how, JSON_STRING) && str_is(how->text, "mean") ? HARNESS_MEAN : HARNESS_OTHER;
	}
	return by_default ? HARNESS_MEAN_OF_NUMBERS : HARNESS_OTHER;
}

static void append_value(struct buf *out, const char *before, double value)
{
	buf_append_text(out, before);
	if (isnan(value))
		buf_append_text(out, "N/A");
	else
		json_write_double(value, out);
}

/* "KEY" is REPORTED, expected WHAT, VALUE of N documents. */
static int fail_value(
	struct str key, double reported, const char *what, double value, int64_t documents, struct error *e)
{
	struct buf text = {0};
	append_value(&text, "is ", reported);
	append_value(&text, what, value);
	int status = error_set(e, ERR_INPUT, "\"%.*s\" %s of %" PRId64 " documents",
		(int)(key.length < 200 ? key.length : 200), key.data, buf_text(&text), documents);
	buf_free(&text);
	return status;
}

static bool is_close(double value, double reported)
{
	return isfinite(reported) && fabs(value - reported) <= 1e-9 * fabs(reported);
}

static int check_mean(const struct harness_sum *sum, double reported, struct error *e)
{
	double mean = sum->sum / (double)sum->documents;
	if (isnan(mean) || is_close(mean, reported))
		return 0;
	return fail_value(str_of(sum->name), reported, ", expected the mean of the samples, ", mean, sum->documents, e);
}

/* ---- Standard errors ---- */

void harness_stderrs_free(struct harness_stderrs *s)
{
	free(s->items);
	buf_free(&s->others);
	*s = (struct harness_stderrs){0};
}

static int stderrs_add(struct harness_stderrs *s, const struct json *result, double value, struct error *e)
{
	if (s->count == s->capacity) {
		size_t capacity = s->capacity ? 2 * s->capacity : 64;
		struct harness_stderr *grown = reallocarray(s->items, capacity, sizeof(*grown));
		if (!grown)
			return error_set(e, ERR_MEMORY, "no memory for %zu standard errors", capacity);
		s->items = grown;
		s->capacity = capacity;
	}
	s->items[s->count++] = (struct harness_stderr){result, value};
	return 0;
}

static int by_result(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)((const struct harness_stderr *)a)->result,
		  y = (uintptr_t)((const struct harness_stderr *)b)->result;
	return (x > y) - (x < y);
}

static void stderrs_sort(struct harness_stderrs *s)
{
	if (s->count > 0)
		qsort(s->items, s->count, sizeof(*s->items), by_result);
}

/* What the results say: their member "acc_stderr,none" for "acc,none"; NULL, or no number ("N/A"): nothing. */
static int reported_stderr(
	const struct json *results, struct str key, struct buf *name, const struct json **out, struct error *e)
{
	struct str metric, filter;
	*out = NULL;
	if (!harness_key_is_metric(key, &metric, &filter))
		return 0;
	buf_clear(name);
	buf_append_str(name, metric);
	buf_append_text(name, "_stderr,");
	buf_append_str(name, filter);
	TRY(buf_check(name, e));
	*out = json_get_str(results, buf_str(name));
	return 0;
}

/* PRECOND: the first n are sorted. False where the result is not among them. */
static bool stderrs_find(const struct harness_stderrs *s, size_t n, const struct json *result, double *out)
{
	const struct harness_stderr key = {.result = result}, *found = NULL;
	if (n > 0)
		found = bsearch(&key, s->items, n, sizeof(*s->items), by_result);
	*out = found ? found->value : (double)NAN;
	return found != NULL;
}

int harness_stderr_of(const struct harness_stderrs *s, const struct json *results, const struct json *value,
	double *out, struct error *e)
{
	struct buf name = {0};
	const struct json *reported = NULL;
	if (stderrs_find(s, s->count, value, out))
		return 0;
	int status = reported_stderr(results, value->key, &name, &reported, e);
	*out = json_double(reported);
	buf_free(&name);
	return status;
}

/* Versions of the harness pool the standard errors of a group's tasks by formulas of their own. */
static void note_other(struct harness_stderrs *s, struct str group, struct str key, double told, double value)
{
	buf_printf(&s->others, "%s%.*s: \"%.*s\" %g is %g here", s->others.length ? ", " : "", STR_ARG(group),
		STR_ARG(key), told, value);
}

/* What a standard error may be. */
struct expectation {
	double values[2]; /* the first where nothing is told; NaN: unknown */
	int n;
	double scale; /* of what it is the error of */
	int64_t documents;
};

/* Of a result, against what the file says of it where that is a number. group: empty for a task, whose samples leave no
 * choice. */
static int check_stderr(const struct json *results, const struct json *result, struct str group,
	const struct expectation *expected, struct harness_stderrs *found, struct error *e)
{
	struct buf name = {0};
	const struct json *reported = NULL;
	int status = reported_stderr(results, result->key, &name, &reported, e), i = 0;
	/* values that are all the same have one of 0 but for the roundings of their mean */
	double told = json_double(reported), near = 1e-9 * (fabs(told) + fabs(expected->scale));
	while (i < expected->n && !(isfinite(told) && fabs(expected->values[i] - told) <= near))
		i++;
	bool other = status == 0 && json_is(reported, JSON_NUMBER) && i == expected->n;
	double value = expected->values[i < expected->n ? i : 0];
	if (other && group.length)
		note_other(found, group, buf_str(&name), told, value);
	else if (other)
		status = fail_value(buf_str(&name), told, ", expected the standard error of the samples, ", value,
			expected->documents, e);
	buf_free(&name);
	return status < 0 ? status : stderrs_add(found, result, value, e);
}

static int check_sum(const struct harness_sum *sum, const struct json *results, const struct json *reported,
	struct harness_stderrs *found, struct error *e)
{
	double n = (double)sum->documents, value = n < 2 ? (double)NAN : sqrt(sum->squares / (n - 1) / n);
	const struct expectation expected = {
		.values = {value}, .n = 1, .scale = sum->mean, .documents = sum->documents};
	TRY(check_mean(sum, json_double(reported), e));
	return isnan(sum->sum) ? 0 : check_stderr(results, reported, (struct str){0}, &expected, found, e);
}

/* The samples of a filter may be gone as a whole; what is said of it would be stored unseen. */
static int check_reported(const struct harness_sums *s, const struct json *results, struct error *e)
{
	struct str metric, filter;
	JSON_EACH (value, results) {
		size_t i = 0;
		if (value->shadowed || !harness_key_is_metric(value->key, &metric, &filter))
			continue;
		while (i < s->count && !str_is(value->key, s->items[i].name))
			i++;
		if (i == s->count)
			return error_set(e, ERR_INPUT, "the results hold \"%.*s\", and no sample does",
				(int)(value->key.length < 200 ? value->key.length : 200), value->key.data);
	}
	return 0;
}

/* For messages: as the file has it, or of what kind it is. */
static struct str text_of(const struct json *value)
{
	return value && value->text.length ? value->text : str_of(json_type_name(value));
}

int harness_sums_check(const struct harness_sums *s, int64_t documents, const struct json *results,
	const struct harness_task *task, struct harness_stderrs *found, struct error *e)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct harness_sum *sum = &s->items[i];
		const struct json *reported = json_get(results, sum->name);
		struct str metric = {sum->name, strcspn(sum->name, ",")};
		if (sum->documents != documents)
			return error_set(e, ERR_INPUT,
				"the samples hold \"%.200s\" of %" PRId64 " documents, expected all %" PRId64,
				sum->name, sum->documents, documents);
		if (!json_is(reported, JSON_NUMBER) || !isfinite(json_double(reported)))
			return error_set(e, ERR_INPUT,
				"\"%.200s\" is %.*s in the results, expected a number: every sample holds it",
				sum->name, STR_ARG(text_of(reported)));
		if (harness_aggregation_of(task, metric) != HARNESS_OTHER)
			TRY(check_sum(sum, results, reported, found, e));
	}
	return check_reported(s, results, e);
}

/* ---- Groups ---- */

struct groups {
	struct harness_graph *graph;
	struct harness_stderrs *found;
	size_t n_tasks; /* of found: the tasks' own, sorted */
};

/* The tasks below a group, and those of them that have a metric. */
struct below {
	int64_t all; /* documents of all of them */
	double weighted, plain;
	double pooled;    /* sum of (n - 1) n se^2; NaN where a task has none */
	double variances; /* sum of se^2 */
	double spread;    /* sum of all documents' squared values */
	int64_t documents, tasks;
};

static int add_below(const struct groups *g, const struct json *results, const struct json *value, int64_t n,
	struct below *b, struct error *e)
{
	double own;
	if (!stderrs_find(g->found, g->n_tasks, value, &own))
		TRY(harness_stderr_of(&(struct harness_stderrs){0}, results, value, &own, e));
	b->weighted += json_double(value) * (double)n;
	b->plain += json_double(value);
	double squares = (double)(n - 1) * (double)n * own * own;
	b->pooled += squares;
	b->variances += own * own;
	b->spread += (n > 1 ? squares : 0) + (double)n * json_double(value) * json_double(value);
	b->documents += n;
	b->tasks++;
	return 0;
}

/* A task that has no such metric does not count, as in the harness. */
static int find_below(
	const struct groups *g, const struct harness_node *group, struct str key, struct below *b, struct error *e)
{
	*b = (struct below){0};
	TRY(harness_graph_walk(g->graph, group, e));
	for (size_t i = 0; i < g->graph->n_below; i++) {
		const struct harness_node *task = &g->graph->nodes[g->graph->below[i]];
		if (!task->counts)
			continue;
		const struct json *value = json_get_str(task->results, key);
		b->all += task->documents;
		if (json_is(value, JSON_NUMBER))
			TRY(add_below(g, task->results, value, task->documents, b, e));
	}
	return 0;
}

/* Where a group's value is the mean by size, its standard error is the pooled one of the tasks; a sample over a group's
 * tasks, which may leave one document of a task, is one of all its documents. Of a plain mean it is that of a sum of
 * independent values; versions of the harness pool there, too. */
static struct expectation expect_stderr(const struct below *b, bool by_size)
{
	double n = (double)b->documents, tasks = (double)b->tasks, mean = b->weighted / n;
	double pooled = sqrt(b->pooled / (n - tasks) / n);
	double plain = n < 2 ? (double)NAN : sqrt(fmax(b->spread - n * mean * mean, 0) / (n - 1) / n);
	struct expectation x = {.n = 2, .scale = mean, .documents = b->documents};
	x.values[0] = by_size ? pooled : sqrt(b->variances) / tasks;
	x.values[1] = by_size ? plain : pooled;
	return x;
}

static int check_length(const struct json *group, const struct below *b, struct error *e)
{
	const struct json *length = json_get(group, "sample_len");
	int64_t n = -1;
	if (!length || (json_int64(length, &n) && n == b->all))
		return 0;
	return error_set(e, ERR_INPUT, "\"sample_len\" is %.*s, expected %" PRId64 ", the documents of its tasks",
		STR_ARG(text_of(length)), b->all);
}

/* The group's value of one metric. */
static int check_metric(
	const struct groups *g, const struct harness_node *group, const struct json *reported, struct error *e)
{
	struct below b;
	double told = json_double(reported);
	TRY(find_below(g, group, reported->key, &b, e));
	if (b.tasks == 0)
		return error_set(e, ERR_INPUT,
			"the results hold \"%.*s\", and no task below the group in \"group_subtasks\" does",
			STR_ARG(reported->key));
	double mean = b.weighted / (double)b.documents;
	bool by_size = is_close(mean, told);
	if (!by_size && !is_close(b.plain / (double)b.tasks, told))
		return fail_value(reported->key, told, ", expected the mean of its tasks, ", mean, b.documents, e);
	TRY(check_length(group->results, &b, e));
	const struct expectation expected = expect_stderr(&b, by_size);
	return check_stderr(group->results, reported, group->name, &expected, g->found, e);
}

static int check_group(const struct groups *g, const struct harness_node *group, struct error *e)
{
	struct str metric, filter;
	JSON_EACH (value, group->results) {
		if (value->shadowed || !json_is(value, JSON_NUMBER) ||
			!harness_key_is_metric(value->key, &metric, &filter))
			continue;
		if (!group->members)
			return error_set(e, ERR_INPUT,
				"\"results\" holds \"%.*s\" of %.*s, which is no task of \"n-samples\" and no group of "
				"\"group_subtasks\"",
				STR_ARG(value->key), STR_ARG(group->name));
		if (check_metric(g, group, value, e) < 0)
			return error_prefix(e, "group %.*s", STR_ARG(group->name));
	}
	return 0;
}

int harness_groups_check(struct harness_graph *graph, struct harness_stderrs *found, struct error *e)
{
	const struct groups g = {graph, found, found->count};
	stderrs_sort(found);
	for (size_t i = 0; i < graph->n_nodes; i++)
		/* versions of the harness list tasks among the groups, too, with nothing below them */
		if (!graph->nodes[i].counts)
			TRY(check_group(&g, &graph->nodes[i], e));
	stderrs_sort(found);
	return 0;
}
