/* MMLU: four-choice questions of 57 subjects; mmlu (version 2 of its groups, 1.0 of its tasks) of
 * lm-evaluation-harness. The subjects are the files of DIR/mmlu/test, the groups the second column of
 * DIR/mmlu/subjects.tsv where that is there. */
#include <stdlib.h>

#include "datasets/records.h"
#include "engine/base/file.h"
#include "engine/base/utf8.h"
#include "evals/suite_type.h"

static const char *const metrics[] = {"acc,none"};
static const struct str letters[] = {{"A", 1}, {"B", 1}, {"C", 1}, {"D", 1}};
enum { N_LETTERS = 4 };

/* ---- Documents ---- */

static int append_question(const struct json *doc, struct buf *out, struct error *e)
{
	struct str question;
	const struct json *choices;
	TRY(column_string(doc, "question", &question, e));
	TRY(column_node(doc, "choices", JSON_ARRAY, &choices, e));
	if (choices->count != N_LETTERS)
		return error_set(
			e, ERR_INPUT, "column \"choices\" holds %zu texts, expected %d", choices->count, N_LETTERS);
	buf_append_str(out, utf8_strip(question));
	int i = 0;
	JSON_EACH (choice, choices) {
		if (!json_is(choice, JSON_STRING))
			return error_set(e, ERR_INPUT, "column \"choices\": text %d is %s, expected string", i,
				json_type_name(choice));
		buf_printf(out, "\n%s. ", letters[i++].data);
		buf_append_str(out, choice->text);
	}
	buf_append_text(out, "\nAnswer:");
	return buf_check(out, e);
}

static int read_gold(const struct json *doc, int *gold, struct error *e)
{
	const struct json *answer;
	int64_t value = 0;
	TRY(column_node(doc, "answer", JSON_NUMBER, &answer, e));
	if (!json_int64(answer, &value) || value < 0 || value >= N_LETTERS)
		return error_set(e, ERR_INPUT, "column \"answer\" is %.*s, expected 0 to %d", STR_ARG(answer->text),
			N_LETTERS - 1);
	*gold = (int)value;
	return 0;
}

static int read_content(const struct json *doc, struct doc_content *out, struct error *e)
{
	TRY(read_gold(doc, &out->gold, e));
	out->choices = mem_calloc(N_LETTERS, sizeof(*out->choices), e);
	if (!out->choices)
		return ERR_MEMORY;
	memcpy(out->choices, letters, sizeof(letters));
	out->n_choices = N_LETTERS;
	return 0;
}

static int append_answer(const struct json *doc, struct buf *out, struct error *e)
{
	int gold = 0;
	TRY(read_gold(doc, &gold, e));
	buf_append_str(out, letters[gold]);
	return buf_check(out, e);
}

/* ---- Tasks ---- */

/* The second field of the subject's line in subjects.tsv; NULL when it has none there. */
static int find_group(struct str table, const char *subject, char **group, struct error *e)
{
	struct line_cursor cursor = {.text = table};
	struct str line;
	while (line_next(&cursor, &line)) {
		size_t first = str_find(line, str_of("\t"), 0);
		if (first == (size_t)-1 || !str_is((struct str){line.data, first}, subject))
			continue;
		struct str rest = {line.data + first + 1, line.length - first - 1};
		size_t end = str_find(rest, str_of("\t"), 0);
		if (end != (size_t)-1)
			rest.length = end;
		return task_text(group, e, "%.*s", STR_ARG(rest));
	}
	return 0;
}

static int add_subject(
	const char *folder, const char *subject, struct str groups, struct suite_task_list *out, struct error *e)
{
	struct suite_task *task = suite_task_add(out, e);
	if (!task)
		return ERR_MEMORY;
	TRY(task_text(&task->name, e, "mmlu_%s", subject));
	TRY(task_text(&task->alias, e, "%s", subject));
	TRY(task_text(&task->topic, e, "%s", subject));
	for (char *c = task->topic; *c; c++)
		*c = *c == '_' ? ' ' : *c;
	TRY(task_text(&task->description, e, "The following are multiple choice questions (with answers) about %s.\n\n",
		task->topic));
	TRY(task_text(&task->test_path, e, "%s/mmlu/test/%s.jsonl", folder, subject));
	TRY(task_text(&task->shots_path, e, "%s/mmlu/dev/%s.jsonl", folder, subject));
	return find_group(groups, subject, &task->group, e);
}

/* A group stands where its first subject stands, so that the tasks come in the harness's order. */
static int first_of_group(const struct suite_task_list *l, int i)
{
	for (int first = 0; first < i && l->items[i].group; first++)
		if (l->items[first].group && strcmp(l->items[first].group, l->items[i].group) == 0)
			return first;
	return l->items[i].group ? i : l->count;
}

static int sort_by_group(struct suite_task_list *l, struct error *e)
{
	struct suite_task *sorted = mem_calloc((size_t)l->count, sizeof(*sorted), e);
	if (!sorted)
		return ERR_MEMORY;
	int n = 0;
	for (int place = 0; place <= l->count; place++)
		for (int i = 0; i < l->count; i++)
			if (first_of_group(l, i) == place)
				sorted[n++] = l->items[i];
	memcpy(l->items, sorted, (size_t)l->count * sizeof(*sorted));
	free(sorted);
	return 0;
}

/* The suite is what the table says: a subject whose file is gone is not left out in silence, nor is one added. */
static int check_table(const char *path, struct str table, const struct file_stems *subjects,
	struct suite_task_list *out, const char *folder, struct error *e)
{
	struct line_cursor cursor = {.text = table};
	struct str line;
	for (int t = 0; t < out->count; t++)
		if (!out->items[t].group)
			return error_set(e, ERR_INPUT, "%s has no line \"%s<tab>GROUP\" for %s", path,
				out->items[t].alias, out->items[t].test_path);
	for (bool header = true; line_next(&cursor, &line); header = false) {
		size_t end = str_find(line, str_of("\t"), 0), i = 0;
		struct str name = {line.data, end == (size_t)-1 ? line.length : end};
		while (i < subjects->count && !str_is(name, subjects->names[i]))
			i++;
		if (header || i < subjects->count)
			continue;
		char *subject = NULL;
		int status = task_text(&subject, e, "%.*s", STR_ARG(name));
		if (status == 0)
			status = add_subject(folder, subject, table, out, e);
		free(subject);
		TRY(status);
	}
	return 0;
}

static int add_subjects(const char *folder, struct suite_task_list *out, struct error *e)
{
	struct file_stems subjects = {0};
	struct buf groups = {0};
	char *tests = path_join(folder, "mmlu/test", e), *table = path_join(folder, "mmlu/subjects.tsv", e);
	int status = tests && table ? file_stems_read(tests, &subjects, e) : ERR_MEMORY;
	if (status == 0 && file_exists(table))
		status = file_read(table, &groups, e);
	for (size_t i = 0; i < subjects.count && status == 0; i++)
		status = add_subject(folder, subjects.names[i], buf_str(&groups), out, e);
	if (status == 0 && file_exists(table))
		status = check_table(table, buf_str(&groups), &subjects, out, folder, e);
	if (status == 0)
		status = sort_by_group(out, e);
	file_stems_free(&subjects);
	buf_free(&groups);
	free(tests);
	free(table);
	return status;
}

/* Leaves the tasks whose name or group is name. */
static int choose(const char *name, const char *folder, struct suite_task_list *l, struct error *e)
{
	struct suite_task_list chosen = {0};
	int status = 0;
	for (int i = 0; i < l->count; i++) {
		struct suite_task *task = &l->items[i];
		const char *of[] = {task->name, task->group};
		for (int k = 0; k < 2 && task->name; k++) {
			const char *rest = of[k] ? suite_name_after(name, of[k]) : NULL;
			if (!rest || *rest)
				continue;
			struct suite_task *kept = suite_task_add(&chosen, e);
			if (!kept)
				TRY_CLEANUP(status, ERR_MEMORY);
			if (!chosen.suite)
				TRY_CLEANUP(status, task_text(&chosen.suite, e, "%s", of[k]));
			*kept = *task;
			*task = (struct suite_task){0};
		}
	}
	if (chosen.count == 0)
		TRY_CLEANUP(status,
			error_set(e, ERR_USAGE,
				"unknown suite \"%s\": neither a subject (a file of %s/mmlu/test) nor a group of "
				"%s/mmlu/subjects.tsv",
				name, folder, folder));
cleanup:
	suite_task_list_free(l);
	*l = chosen;
	return status;
}

static int find_tasks(
	const char *name, const struct suite_options *options, struct suite_task_list *out, struct error *e)
{
	TRY(add_subjects(options->data_folder, out, e));
	TRY(*suite_name_after(name, "mmlu") ? choose(name, options->data_folder, out, e)
					    : task_text(&out->suite, e, "mmlu"));
	for (int t = 0; t < out->count; t++)
		if (!file_exists(out->items[t].test_path))
			return error_set(e, ERR_MISSING, "%s is missing, and %s/mmlu/subjects.tsv names %s",
				out->items[t].test_path, options->data_folder, out->items[t].alias);
	return 0;
}

static bool takes(const char *name)
{
	const char *rest = suite_name_after(name, "mmlu");
	return rest && (!*rest || *rest == '_');
}

const struct suite_type suite_type_mmlu = {
	.name = "mmlu",
	.also = "mmlu_<subject>",
	.definition = "four-choice questions of many subjects, 0 shots; the likeliest of A, B, C, D",
	.version = 1.0,
	.group_version = 2.0,
	.takes = takes,
	.find_tasks = find_tasks,
	.shots = SHOTS_FIRST,
	.kind = REQUEST_LOGLIKELIHOOD,
	.metrics = metrics,
	.n_metrics = 1,
	.append_question = append_question,
	.append_answer = append_answer,
	.read_content = read_content,
};
