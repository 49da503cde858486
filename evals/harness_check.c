#include "evals/harness_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "engine/base/buf.h"

enum { MOST_METRICS = 256 }; /* with their filters */

struct harness_sum {
	char *name; /* "acc,none"; owned */
	double sum; /* NaN: of one document it is no number */
	int64_t documents;
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
		sum->sum += json_is(value, JSON_NUMBER) ? json_double(value) : (double)NAN;
		sum->documents++;
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
	json_write_double_or_null(value, out);
}

static int check_mean(const struct harness_sum *sum, double reported, struct error *e)
{
	double mean = sum->sum / (double)sum->documents;
	struct buf text = {0};
	if (isnan(mean) || fabs(mean - reported) <= 1e-9 * fabs(reported))
		return 0;
	append_value(&text, "is ", reported);
	append_value(&text, ", expected the mean of the samples, ", mean);
	int status = error_set(
		e, ERR_INPUT, "\"%.200s\" %s of %" PRId64 " documents", sum->name, buf_text(&text), sum->documents);
	buf_free(&text);
	return status;
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
	const struct json *config, struct error *e)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct harness_sum *sum = &s->items[i];
		const struct json *reported = json_get(results, sum->name);
		if (sum->documents != documents)
			return error_set(e, ERR_INPUT,
				"the samples hold \"%.200s\" of %" PRId64 " documents, expected all %" PRId64,
				sum->name, sum->documents, documents);
		if (json_is(reported, JSON_NUMBER) && is_mean((struct str){sum->name, strcspn(sum->name, ",")}, config))
			TRY(check_mean(sum, json_double(reported), e));
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

static bool is_close(double mean, double reported)
{
	return fabs(mean - reported) <= 1e-9 * fabs(reported);
}

/* The group's value of one metric. A task that has no such metric does not count, as in the harness. */
static int check_group(
	const struct json *root, struct str group, const struct json *reported, int *steps, struct error *e)
{
	const struct json *groups = json_get(root, "group_subtasks"), *results = json_get(root, "results");
	const struct json *members = json_get_str(groups, group);
	double weighted = 0, plain = 0;
	int64_t documents = 0, tasks = 0, n;
	JSON_EACH (task, json_get(root, "n-samples")) {
		const struct json *value = json_get_str(json_get_str(results, task->key), reported->key);
		if (task->shadowed || !json_is(value, JSON_NUMBER) || !json_int64(json_get(task, "effective"), &n) ||
			!is_below(groups, members, task->key, 8, steps))
			continue;
		weighted += json_double(value) * (double)n;
		plain += json_double(value);
		documents += n;
		tasks++;
	}
	if (*steps < 0)
		return error_set(e, ERR_INPUT, "\"group_subtasks\" leads through more than %d members", MOST_STEPS);
	double mean = weighted / (double)documents, told = json_double(reported);
	if (tasks == 0 || is_close(mean, told) || is_close(plain / (double)tasks, told))
		return 0;
	struct buf text = {0};
	append_value(&text, "is ", told);
	append_value(&text, ", expected the mean of its tasks, ", mean);
	int status = error_set(e, ERR_INPUT, "group %.*s: \"%.*s\" %s of %" PRId64 " documents", STR_ARG(group),
		STR_ARG(reported->key), buf_text(&text), documents);
	buf_free(&text);
	return status;
}

int harness_groups_check(const struct json *root, struct error *e)
{
	const struct json *groups = json_get(root, "group_subtasks");
	struct str metric, filter;
	int steps = MOST_STEPS;
	JSON_EACH (group, json_get(root, "results")) {
		/* a task is listed there, too, with nothing below it */
		if (group->shadowed || !json_get_str(groups, group->key))
			continue;
		JSON_EACH (value, group)
			if (!value->shadowed && json_is(value, JSON_NUMBER) &&
				harness_key_is_metric(value->key, &metric, &filter))
				TRY(check_group(root, group->key, value, &steps, e));
	}
	return 0;
}
