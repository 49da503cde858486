#include "evals/harness_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "engine/base/buf.h"

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

static bool is_mean(struct str metric, const struct json *config)
{
	JSON_EACH (entry, json_get(config, "metric_list")) {
		const struct json *name = json_get(entry, "metric"), *how = json_get(entry, "aggregation");
		if (json_is(name, JSON_STRING) && str_equal(name->text, metric) && how)
			return json_is(how, JSON_STRING) && str_is(how->text, "mean");
	}
	return is_mean_by_default(metric);
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
	return fabs(value - reported) <= 1e-9 * fabs(reported);
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

/* Of a result, against what the file says of it where that is a number; plain: what it may be, too, or NaN. group: empty
 * for a task, whose samples leave no choice. */
static int check_stderr(const struct json *results, const struct json *result, struct str group, double value,
	double plain, double scale, int64_t documents, struct harness_stderrs *found, struct error *e)
{
	struct buf name = {0};
	const struct json *reported = NULL;
	int status = reported_stderr(results, result->key, &name, &reported, e);
	/* values that are all the same have one of 0 but for the roundings of their mean */
	double told = json_double(reported), near = 1e-9 * (fabs(told) + fabs(scale));
	if (fabs(plain - told) <= near)
		value = plain;
	bool other = status == 0 && json_is(reported, JSON_NUMBER) && !(fabs(value - told) <= near);
	if (other && group.length)
		note_other(found, group, buf_str(&name), told, value);
	else if (other)
		status = fail_value(
			buf_str(&name), told, ", expected the standard error of the samples, ", value, documents, e);
	buf_free(&name);
	return status < 0 ? status : stderrs_add(found, result, value, e);
}

static int check_sum(const struct harness_sum *sum, const struct json *results, const struct json *reported,
	struct harness_stderrs *found, struct error *e)
{
	double n = (double)sum->documents, value = n < 2 ? (double)NAN : sqrt(sum->squares / (n - 1) / n);
	TRY(check_mean(sum, json_double(reported), e));
	if (isnan(sum->sum))
		return 0;
	return check_stderr(results, reported, (struct str){0}, value, NAN, sum->mean, sum->documents, found, e);
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

int harness_sums_check(const struct harness_sums *s, int64_t documents, const struct json *results,
	const struct json *config, struct harness_stderrs *found, struct error *e)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct harness_sum *sum = &s->items[i];
		const struct json *reported = json_get(results, sum->name);
		if (sum->documents != documents)
			return error_set(e, ERR_INPUT,
				"the samples hold \"%.200s\" of %" PRId64 " documents, expected all %" PRId64,
				sum->name, sum->documents, documents);
		if (json_is(reported, JSON_NUMBER) && is_mean((struct str){sum->name, strcspn(sum->name, ",")}, config))
			TRY(check_sum(sum, results, reported, found, e));
	}
	return check_reported(s, results, e);
}

/* ---- Groups ---- */

enum { MOST_STEPS = 1000000 }; /* of following "group_subtasks", where a group may be below many */

/* Whether the task is among members or below one of them; depth ends circles. */
static bool is_below(const struct json *groups, const struct json *members, struct str task, int depth, int *steps)
{
	JSON_EACH (member, members) {
		if (!json_is(member, JSON_STRING) || --*steps < 0)
			continue;
		if (str_equal(member->text, task) ||
			(depth > 0 && is_below(groups, json_get_str(groups, member->text), task, depth - 1, steps)))
			return true;
	}
	return false;
}

struct groups {
	const struct json *root, *subtasks;
	struct harness_stderrs *found;
	size_t n_tasks; /* of found: the tasks' own, sorted */
	int steps;
};

/* The tasks below a group that have a metric. */
struct below {
	double weighted, plain;
	double squares; /* sum of (n - 1) n se^2; NaN where a task has none */
	double spread;  /* sum of all documents' squared values */
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
	b->squares += squares;
	b->spread += (n > 1 ? squares : 0) + (double)n * json_double(value) * json_double(value);
	b->documents += n;
	b->tasks++;
	return 0;
}

/* A task that has no such metric does not count, as in the harness. */
static int find_below(struct groups *g, struct str group, struct str key, struct below *b, struct error *e)
{
	const struct json *members = json_get_str(g->subtasks, group), *all = json_get(g->root, "results");
	int64_t n;
	*b = (struct below){0};
	JSON_EACH (task, json_get(g->root, "n-samples")) {
		const struct json *results = json_get_str(all, task->key), *value = json_get_str(results, key);
		if (task->shadowed || !json_is(value, JSON_NUMBER) || !json_int64(json_get(task, "effective"), &n) ||
			!is_below(g->subtasks, members, task->key, 8, &g->steps))
			continue;
		TRY(add_below(g, results, value, n, b, e));
	}
	if (g->steps < 0)
		return error_set(e, ERR_INPUT, "\"group_subtasks\" leads through more than %d members", MOST_STEPS);
	return 0;
}

/* The group's value of one metric. Its standard error is the pooled one of the tasks; a sample over a group's tasks, which
 * may leave one document of a task, is one of all its documents. */
static int check_group(struct groups *g, const struct json *group, const struct json *reported, struct error *e)
{
	struct below b;
	TRY(find_below(g, group->key, reported->key, &b, e));
	if (b.tasks == 0)
		return 0;
	double n = (double)b.documents, mean = b.weighted / n, told = json_double(reported);
	double pooled = sqrt(b.squares / (n - (double)b.tasks) / n);
	double plain = n < 2 ? (double)NAN : sqrt(fmax(b.spread - n * mean * mean, 0) / (n - 1) / n);
	int status = 0;
	if (!is_close(mean, told) && !is_close(b.plain / (double)b.tasks, told))
		status = fail_value(reported->key, told, ", expected the mean of its tasks, ", mean, b.documents, e);
	if (status == 0)
		status = check_stderr(group, reported, group->key, pooled, plain, mean, b.documents, g->found, e);
	return status < 0 ? error_prefix(e, "group %.*s", STR_ARG(group->key)) : 0;
}

int harness_groups_check(const struct json *root, struct harness_stderrs *found, struct error *e)
{
	struct groups g = {root, json_get(root, "group_subtasks"), found, found->count, MOST_STEPS};
	struct str metric, filter;
	stderrs_sort(found);
	JSON_EACH (group, json_get(root, "results")) {
		/* a task is listed there, too, with nothing below it */
		if (group->shadowed || !json_get_str(g.subtasks, group->key))
			continue;
		JSON_EACH (value, group)
			if (!value->shadowed && json_is(value, JSON_NUMBER) &&
				harness_key_is_metric(value->key, &metric, &filter))
				TRY(check_group(&g, group, value, e));
	}
	stderrs_sort(found);
	return 0;
}
