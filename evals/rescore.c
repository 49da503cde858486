/* Scores harness sample lines again, from the responses they hold: a check of our filters and metrics against another
 * program's, and of another program's results against ours. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "datasets/records.h"
#include "engine/base/file.h"
#include "evals/scoring.h"
#include "evals/suite.h"
#include "evals/suite_type.h"

struct score {
	int64_t doc_id;
	size_t line;
	double value;
};

struct score_list {
	struct score *items;
	size_t count, capacity;
};

struct task {
	const struct suite_type *type;
	struct suite_task facts;
	struct scorer scorer;
	struct records data; /* loaded when the first line without a document comes; count 0 before */
	struct score_list scores[SUITE_MAX_METRICS];      /* by metric */
	struct metric_summary results[SUITE_MAX_METRICS]; /* n 0: no line of that metric */
	size_t documents;
};

/* A suite as the command line names it. */
struct asked {
	const struct suite_type *type;
	char *suite;       /* owned */
	bool tasks_listed; /* else, without data, the tasks are those that the lines name */
};

struct rescore {
	struct asked *asked; /* [n_asked] */
	int n_asked;
	struct task **tasks; /* [n_tasks] owned; in the order of the suites */
	int n_tasks;
	struct task **shown; /* [n_shown] those that have lines, in the order of the file */
	int n_shown;
	const char *data_folder;
	const char *samples_name;
	char *file_task; /* owned: what lines are that name no task; NULL: unknown */
	struct rescore_report *report;
};

/* ---- Which tasks ---- */

static struct task *task_named(const struct rescore *r, struct str name)
{
	for (int i = 0; i < r->n_tasks; i++)
		if (str_is(name, r->tasks[i]->facts.name))
			return r->tasks[i];
	return NULL;
}

/* Takes *facts over, also when it fails. A task that is known already stays as it is. */
static int add_task(struct rescore *r, const struct suite_type *type, struct suite_task *facts, struct error *e)
{
	if (task_named(r, str_of(facts->name))) {
		suite_task_free(facts);
		return 0;
	}
	struct task *t = mem_calloc(1, sizeof(*t), e);
	struct task **tasks = reallocarray(r->tasks, (size_t)r->n_tasks + 1, sizeof(struct task *));
	if (tasks)
		r->tasks = tasks;
	if (!t || !tasks) {
		free(t);
		suite_task_free(facts);
		return error_set(e, ERR_MEMORY, "out of memory for %d tasks", r->n_tasks + 1);
	}
	*t = (struct task){.type = type, .facts = *facts};
	*facts = (struct suite_task){0};
	r->tasks[r->n_tasks++] = t;
	return scorer_init(&t->scorer, type, e);
}

static int add_named_task(struct rescore *r, const struct suite_type *type, struct str name, struct error *e)
{
	struct suite_task facts = {0};
	int status = task_text(&facts.name, e, "%.*s", STR_ARG(name));
	if (status == 0)
		status = task_text(&facts.alias, e, "%s", facts.name);
	if (status == 0)
		return add_task(r, type, &facts, e);
	suite_task_free(&facts);
	return status;
}

static int list_tasks(struct rescore *r, struct asked *a, const char *name, struct error *e)
{
	const struct suite_options options = {.data_folder = r->data_folder ? r->data_folder : "."};
	struct suite_task_list list;
	int status = suite_tasks_find(a->type, name, &options, &list, e);
	for (int i = 0; i < list.count && status == 0; i++)
		status = add_task(r, a->type, &list.items[i], e);
	a->tasks_listed = true;
	a->suite = list.suite;
	list.suite = NULL;
	suite_task_list_free(&list);
	return status;
}

static int add_suite(struct rescore *r, const char *name, struct error *e)
{
	const struct suite_type *type = suite_type_find(name);
	if (!type)
		return suite_unknown(name, "arc, filters", e);
	if (type->judge || type->make_documents)
		return error_set(e, ERR_USAGE, "rescore: \"%s\" is no suite of lm-evaluation-harness", name);
	struct asked *asked = reallocarray(r->asked, (size_t)r->n_asked + 1, sizeof(*asked));
	if (!asked)
		return error_set(e, ERR_MEMORY, "out of memory for %d suites", r->n_asked + 1);
	r->asked = asked;
	struct asked *a = &asked[r->n_asked++];
	*a = (struct asked){.type = type};
	return type->find_tasks && !r->data_folder ? task_text(&a->suite, e, "%s", name) : list_tasks(r, a, name, e);
}

static int add_name(struct rescore *r, const char *name, struct error *e)
{
	if (strcmp(name, "arc") != 0)
		return add_suite(r, name, e);
	TRY(add_suite(r, "arc_easy", e));
	return add_suite(r, "arc_challenge", e);
}

/* The harness's own sample lines name no task, their file does: samples_<task>_<time>.jsonl. */
static int name_file_task(struct rescore *r, const char *file_name, struct error *e)
{
	const char *slash = strrchr(file_name, '/'), *base = slash ? slash + 1 : file_name;
	const char *task = suite_name_after(base, "samples_"), *end = task ? strrchr(task, '_') : NULL;
	if (r->n_tasks == 1 && r->n_asked == 1)
		return task_text(&r->file_task, e, "%s", r->tasks[0]->facts.name);
	return end ? task_text(&r->file_task, e, "%.*s", (int)(end - task), task) : 0;
}

static void rescore_free(struct rescore *r)
{
	for (int i = 0; i < r->n_tasks; i++) {
		struct task *t = r->tasks[i];
		suite_task_free(&t->facts);
		scorer_free(&t->scorer);
		records_free(&t->data);
		for (int m = 0; m < SUITE_MAX_METRICS; m++)
			free(t->scores[m].items);
		free(t);
	}
	for (int i = 0; i < r->n_asked; i++)
		free(r->asked[i].suite);
	free(r->tasks);
	free(r->asked);
	free(r->shown);
	free(r->file_task);
}

/* A line's task of a suite whose tasks are not listed. */
static int find_unlisted(struct rescore *r, struct str name, struct error *e)
{
	char text[256];
	int length = snprintf(text, sizeof(text), "%.*s", STR_ARG(name));
	const struct suite_type *type = (size_t)length == name.length ? suite_type_find(text) : NULL;
	for (int i = 0; i < r->n_asked && type; i++) {
		const struct asked *a = &r->asked[i];
		bool is_meant = strcmp(a->suite, a->type->name) == 0 || strcmp(a->suite, text) == 0;
		if (!a->tasks_listed && a->type == type && is_meant)
			return add_named_task(r, type, name, e);
	}
	return 0;
}

/* *out is NULL for a line of a task that was not asked for. */
static int find_task(struct rescore *r, const struct json *line, struct task **out, struct error *e)
{
	struct str name = {0};
	if (json_get(line, "task"))
		TRY(column_string(line, "task", &name, e));
	else if (r->file_task)
		name = str_of(r->file_task);
	else
		return error_set(e, ERR_INPUT,
			"the line names no \"task\": expected --suite with the one suite that the file holds");
	if (!(*out = task_named(r, name))) {
		TRY(find_unlisted(r, name, e));
		*out = task_named(r, name);
	}
	return 0;
}

static int show_task(struct rescore *r, struct task *t, struct error *e)
{
	if (t->documents++ > 0)
		return 0;
	struct task **shown = reallocarray(r->shown, (size_t)r->n_shown + 1, sizeof(struct task *));
	if (!shown)
		return error_set(e, ERR_MEMORY, "out of memory for %d tasks", r->n_shown + 1);
	r->shown = shown;
	shown[r->n_shown++] = t;
	return 0;
}

/* ---- One line ---- */

static int find_record(struct rescore *r, struct task *t, const struct json *line, int64_t doc_id,
	const struct json **doc, struct error *e)
{
	if (!r->data_folder)
		return error_set(
			e, ERR_INPUT, "the line holds no \"doc\": expected --data with the data sets it was made from");
	if (t->data.count == 0)
		TRY(records_load(&t->data, t->facts.test_path, e));
	if (doc_id >= (int64_t)t->data.count)
		return error_set(e, ERR_INPUT, "doc_id %" PRId64 ", but %s holds %zu records", doc_id, t->data.path,
			t->data.count);
	const struct record *record = &t->data.items[doc_id];
	const struct json *hash = json_get(line, "doc_hash");
	if (json_is(hash, JSON_STRING) && !str_is(hash->text, record->hash))
		return error_set(e, ERR_INPUT,
			"doc_hash %.*s is not that of %s:%zu (%s): expected --data with the data sets it was made from",
			STR_ARG(hash->text), t->data.path, record->line, record->hash);
	*doc = record->doc;
	return 0;
}

static int find_doc(struct rescore *r, struct task *t, const struct json *line, int64_t doc_id, const struct json **doc,
	struct error *e)
{
	if (!json_get(line, "doc"))
		return find_record(r, t, line, doc_id, doc, e);
	return column_node(line, "doc", JSON_OBJECT, doc, e);
}

/* A log-probability as a number, or as the text that the harness writes ("-74.60325", "-inf"). */
static bool read_logprob(const struct json *value, double *out)
{
	if (json_is(value, JSON_NUMBER)) {
		*out = json_double(value);
		return true;
	}
	if (!json_is(value, JSON_STRING))
		return false;
	if (str_is(value->text, "-inf") || str_is(value->text, "inf") || str_is(value->text, "nan")) {
		*out = str_is(value->text, "nan") ? NAN : str_is(value->text, "inf") ? INFINITY : -INFINITY;
		return true;
	}
	struct json_document *document;
	if (json_parse(value->text, NULL, JSON_LAST_KEY_WINS, &document, NULL) < 0)
		return false;
	bool is_number = json_is(json_root(document), JSON_NUMBER);
	if (is_number)
		*out = json_double(json_root(document));
	json_free(document);
	return is_number;
}

/* resps of a multiple-choice line: per choice, per repeat, [log-probability, is greedy]; the first repeat counts. */
static int read_logprobs(const struct json *resps, int n_choices, double *logprobs, struct error *e)
{
	if (resps->count != (size_t)n_choices)
		return error_set(e, ERR_INPUT, "\"resps\" holds %zu responses, expected one for each of %d choices",
			resps->count, n_choices);
	int i = 0;
	JSON_EACH (response, resps) {
		if (!read_logprob(json_at(json_at(response, 0), 0), &logprobs[i]))
			return error_set(
				e, ERR_INPUT, "\"resps\": response %d is not [[log-probability, is_greedy]]", i);
		i++;
	}
	return 0;
}

static int read_text(const struct json *resps, struct str *text, struct error *e)
{
	const struct json *first = json_at(json_at(resps, 0), 0);
	if (!json_is(first, JSON_STRING))
		return error_set(e, ERR_INPUT, "\"resps\" is not [[text]]");
	*text = first->text;
	return 0;
}

/* What the line records of metric i is what was computed, as far as it records it. */
static bool agrees(
	const struct json *line, const struct item_score *score, int i, const double *logprobs, int n_choices)
{
	const char *metric = score->metric[i];
	const struct json *value = json_get_str(line, (struct str){metric, (size_t)(strchr(metric, ',') - metric)});
	if (value && !(json_is(value, JSON_NUMBER) && json_double(value) == score->value[i]))
		return false;
	const struct json *filtered = json_get(line, "filtered_resps");
	if (!filtered)
		return true;
	if (score->n_filters > 0)
		return json_is(json_at(filtered, 0), JSON_STRING) &&
			str_equal(json_at(filtered, 0)->text, buf_str(&score->filtered[i]));
	for (int c = 0; c < n_choices; c++) {
		double recorded;
		if (!read_logprob(json_at(json_at(filtered, (size_t)c), 0), &recorded))
			return false;
		if (recorded != logprobs[c] && !(isnan(recorded) && isnan(logprobs[c])))
			return false;
	}
	return true;
}

static int add_score(struct score_list *list, struct score score, struct error *e)
{
	if (list->count == list->capacity) {
		size_t grown = list->capacity ? list->capacity * 2 : 256;
		struct score *items = grown <= INT_MAX ? realloc(list->items, grown * sizeof(*items)) : NULL;
		if (!items)
			return error_set(e, ERR_MEMORY, "out of memory for %zu scores", grown);
		list->items = items;
		list->capacity = grown;
	}
	list->items[list->count++] = score;
	return 0;
}

/* Files the values of the metrics that belong to the line's filter. */
static int file_scores(struct rescore *r, struct task *t, const struct json *line, const struct item_score *score,
	const double *logprobs, int n_choices, struct score entry, struct error *e)
{
	struct str filter = str_of("none");
	if (json_get(line, "filter"))
		TRY(column_string(line, "filter", &filter, e));
	bool known = false, differs = false;
	for (int i = 0; i < score->n_metrics; i++) {
		if (!str_is(filter, strchr(score->metric[i], ',') + 1))
			continue;
		known = true;
		differs = differs || !agrees(line, score, i, logprobs, n_choices);
		entry.value = score->value[i];
		TRY(add_score(&t->scores[i], entry, e));
	}
	if (!known) {
		struct buf names = {0};
		for (int i = 0; i < score->n_metrics; i++)
			buf_printf(&names, "%s%s", i ? ", " : "", strchr(score->metric[i], ',') + 1);
		int status = error_set(e, ERR_INPUT, "filter \"%.*s\" is none of %s's (%s)", STR_ARG(filter),
			t->facts.name, buf_text(&names));
		buf_free(&names);
		return status;
	}
	r->report->scored++;
	r->report->differing += differs;
	return 0;
}

static int score_doc(struct rescore *r, struct task *t, const struct json *line, const struct json *doc,
	struct score entry, struct error *e)
{
	struct doc_content content = {0};
	struct item_score score = {0};
	double logprobs[SUITE_MAX_CHOICES];
	struct answer answer = {.logprobs = logprobs};
	const struct json *resps;
	int status = 0;
	TRY_CLEANUP(status, t->type->read_content(doc, &content, e));
	TRY_CLEANUP(status, column_node(line, "resps", JSON_ARRAY, &resps, e));
	if (t->type->kind == REQUEST_LOGLIKELIHOOD)
		TRY_CLEANUP(status, read_logprobs(resps, content.n_choices, logprobs, e));
	else
		TRY_CLEANUP(status, read_text(resps, &answer.text, e));
	const struct suite_item item = {.kind = t->type->kind,
		.choices = content.choices,
		.n_choices = content.n_choices,
		.gold = content.gold,
		.target = content.target};
	TRY_CLEANUP(status, scorer_score(&t->scorer, &item, &answer, &score, e));
	TRY_CLEANUP(status, file_scores(r, t, line, &score, logprobs, content.n_choices, entry, e));
cleanup:
	item_score_free(&score);
	doc_content_free(&content);
	return status;
}

static int rescore_line(struct rescore *r, const struct json *line, size_t number, struct error *e)
{
	if (!json_is(line, JSON_OBJECT))
		return error_set(e, ERR_INPUT, "expected a JSON object, found %s", json_type_name(line));
	struct task *t = NULL;
	TRY(find_task(r, line, &t, e));
	if (!t) {
		r->report->skipped++;
		return 0;
	}
	struct score entry = {.line = number};
	const struct json *id = json_get(line, "doc_id");
	if (!json_is(id, JSON_NUMBER) || !json_int64(id, &entry.doc_id) || entry.doc_id < 0)
		return error_set(
			e, ERR_INPUT, "\"doc_id\" is %s, expected an integer of 0 or more", json_type_name(id));
	const struct json *doc;
	TRY(find_doc(r, t, line, entry.doc_id, &doc, e));
	TRY(show_task(r, t, e));
	return score_doc(r, t, line, doc, entry, e);
}

static int rescore_lines(struct rescore *r, struct str samples, struct error *e)
{
	struct line_cursor cursor = {.text = samples};
	struct str line;
	while (line_next(&cursor, &line)) {
		struct json_document *document = NULL;
		int status = json_parse(line, NULL, JSON_LINE | JSON_LAST_KEY_WINS, &document, e);
		if (status == 0)
			status = rescore_line(r, json_root(document), cursor.line, e);
		json_free(document);
		if (status < 0)
			return error_prefix(e, "%s:%zu", r->samples_name, cursor.line);
	}
	return 0;
}

/* ---- Results ---- */

static int compare_scores(const void *a, const void *b)
{
	const struct score *x = a, *y = b;
	if (x->doc_id != y->doc_id)
		return x->doc_id < y->doc_id ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

/* In the order of the documents, so that the lines' order changes no bit. */
static int summarize(struct task *t, int metric, const char *samples_name, struct error *e)
{
	const struct score_list *list = &t->scores[metric];
	if (list->count == 0)
		return 0;
	qsort(list->items, list->count, sizeof(*list->items), compare_scores);
	for (size_t i = 1; i < list->count; i++)
		if (list->items[i].doc_id == list->items[i - 1].doc_id)
			return error_set(e, ERR_INPUT, "%s:%zu: doc_id %" PRId64 " of %s (%s) is already in line %zu",
				samples_name, list->items[i].line, list->items[i].doc_id, t->facts.name,
				t->type->metrics[metric], list->items[i - 1].line);
	double *values = mem_calloc(list->count, sizeof(*values), e);
	if (!values)
		return ERR_MEMORY;
	for (size_t i = 0; i < list->count; i++)
		values[i] = list->items[i].value;
	metric_mean(t->type->metrics[metric], values, (int)list->count, &t->results[metric]);
	if (list->count > t->documents)
		t->documents = list->count;
	free(values);
	return 0;
}

static int summarize_all(struct rescore *r, struct error *e)
{
	for (int i = 0; i < r->n_shown; i++) {
		r->shown[i]->documents = 0;
		for (int m = 0; m < r->shown[i]->type->n_metrics; m++)
			TRY(summarize(r->shown[i], m, r->samples_name, e));
	}
	return 0;
}

static void write_summary(const struct metric_summary *m, struct buf *out)
{
	const char *comma = strchr(m->name, ',');
	buf_printf(out, ",\n      \"%s\": ", m->name);
	json_write_double(m->value, out);
	buf_printf(out, ",\n      \"%.*s_stderr%s\": ", (int)(comma - m->name), m->name, comma);
	if (isnan(m->stderr_value))
		buf_append_text(out, "\"N/A\"");
	else
		json_write_double(m->stderr_value, out);
}

static bool is_member(const struct task *t, const struct suite_type *type, const char *group)
{
	bool in_group = !group || (t->facts.group && strcmp(t->facts.group, group) == 0);
	return t->type == type && t->documents > 0 && in_group;
}

static bool group_came_before(const struct rescore *r, int t)
{
	for (int i = 0; i < t; i++)
		if (r->tasks[i]->facts.group && strcmp(r->tasks[i]->facts.group, r->tasks[t]->facts.group) == 0)
			return true;
	return false;
}

static void write_text(const char *key, const char *text, const char *end, struct buf *out)
{
	buf_printf(out, "\n      \"%s\": ", key);
	json_write_string(str_of(text), false, out);
	buf_append_text(out, end);
}

/* A group has its alias first, as in the harness. */
static void write_head(const char *name, const char *alias, bool is_group, size_t documents, struct buf *out)
{
	buf_append_text(out, out->data[out->length - 1] == '}' ? ",\n    " : "\n    ");
	json_write_string(str_of(name), false, out);
	buf_append_text(out, ": {");
	if (is_group)
		write_text("alias", alias, ",", out);
	write_text("name", name, ",", out);
	if (!is_group)
		write_text("alias", alias, ",", out);
	buf_printf(out, "\n      \"sample_len\": %zu", documents);
}

static void write_task(const struct task *t, struct buf *out)
{
	write_head(t->facts.name, t->facts.alias, false, t->documents, out);
	for (int i = 0; i < t->type->n_metrics; i++)
		if (t->results[i].n > 0)
			write_summary(&t->results[i], out);
	buf_append_text(out, "\n    }");
}

/* "mmlu_social_sciences" is "social sciences" in the harness's tables. */
static void group_alias(const struct suite_type *type, const char *name, char *out, size_t size)
{
	const char *rest = suite_name_after(name, type->name);
	snprintf(out, size, "%s", rest && *rest == '_' ? rest + 1 : name);
	for (char *c = out; *c && rest && *rest == '_'; c++)
		*c = *c == '_' ? ' ' : *c;
}

/* The tasks with lines of that type, and of that group (NULL: of any), as one. Nothing when there are none. */
static int write_group(const struct rescore *r, const struct suite_type *type, const char *group, const char *name,
	struct buf *out, struct error *e)
{
	struct metric_summary *members = mem_calloc((size_t)r->n_tasks + 1, sizeof(*members), e);
	struct buf counts = {0};
	size_t documents = 0;
	if (!members)
		return ERR_MEMORY;
	for (int t = 0; t < r->n_tasks; t++)
		if (is_member(r->tasks[t], type, group))
			documents += r->tasks[t]->documents;
	if (documents > 0) {
		char alias[128];
		group_alias(type, name, alias, sizeof(alias));
		write_head(name, alias, true, documents, out);
	}
	for (int m = 0; m < type->n_metrics && documents > 0; m++) {
		struct metric_summary whole;
		int n = 0;
		for (int t = 0; t < r->n_tasks; t++)
			if (is_member(r->tasks[t], type, group) && r->tasks[t]->results[m].n > 0)
				members[n++] = r->tasks[t]->results[m];
		if (n == 0)
			continue;
		metric_pool(type->metrics[m], members, n, &whole);
		write_summary(&whole, out);
		buf_printf(&counts, "%s\n        \"%s\": %d", counts.length ? "," : "", whole.name, whole.n);
	}
	if (documents > 0)
		buf_printf(out, ",\n      \"sample_count\": {%s\n      }\n    }", buf_text(&counts));
	free(members);
	int status = buf_check(&counts, e);
	buf_free(&counts);
	return status;
}

/* The groups of tasks of each suite that was asked for, then the suite itself, where it has several tasks. */
static int write_groups(const struct rescore *r, struct buf *out, struct error *e)
{
	for (int i = 0; i < r->n_asked; i++) {
		const struct asked *a = &r->asked[i];
		bool whole = strcmp(a->suite, a->type->name) == 0;
		for (int t = 0; t < r->n_tasks && a->type->find_tasks; t++) {
			const char *group = r->tasks[t]->facts.group;
			bool wanted = r->tasks[t]->type == a->type && group && (whole || strcmp(group, a->suite) == 0);
			if (wanted && !group_came_before(r, t))
				TRY(write_group(r, a->type, group, group, out, e));
		}
		if (whole && a->type->find_tasks)
			TRY(write_group(r, a->type, NULL, a->suite, out, e));
	}
	return 0;
}

static int write_results(const struct rescore *r, struct buf *out, struct error *e)
{
	struct buf groups = {0};
	buf_append_char(&groups, '{');
	int status = write_groups(r, &groups, e);
	buf_append_text(out, "{\n  \"schema_version\": 1,\n  \"results\": {");
	for (int i = 0; i < r->n_shown; i++)
		write_task(r->shown[i], out);
	if (groups.length > 1) /* the harness's results hold the groups, too */
		buf_printf(out, ",%s", buf_text(&groups) + 1);
	buf_append_text(out, "\n  },\n  \"groups\": ");
	buf_append_str(out, buf_str(&groups));
	buf_append_text(out, groups.length > 1 ? "\n  }\n}\n" : "}\n}\n");
	buf_free(&groups);
	return status < 0 ? status : buf_check(out, e);
}

int suite_rescore(const char *const *names, int n_names, const char *data_folder, const char *path, struct buf *out,
	struct rescore_report *report, struct error *e)
{
	*report = (struct rescore_report){0};
	struct rescore r = {.data_folder = data_folder, .samples_name = input_name(path), .report = report};
	struct buf text = {0};
	int status = 0;
	for (int i = 0; i < n_names; i++)
		TRY_CLEANUP(status, add_name(&r, names[i], e));
	TRY_CLEANUP(status, name_file_task(&r, path, e));
	TRY_CLEANUP(status, file_read(path, &text, e));
	TRY_CLEANUP(status, rescore_lines(&r, buf_str(&text), e));
	if (r.n_shown == 0)
		TRY_CLEANUP(status,
			error_set(e, ERR_EMPTY, "%s: no line of the suites asked for (%zu lines of others)",
				r.samples_name, report->skipped));
	TRY_CLEANUP(status, summarize_all(&r, e));
	TRY_CLEANUP(status, write_results(&r, out, e));
cleanup:
	rescore_free(&r);
	buf_free(&text);
	return status;
}
