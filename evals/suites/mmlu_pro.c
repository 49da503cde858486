/* MMLU-Pro: questions of 14 categories with up to ten choices, answered step by step; mmlu_pro (version 3.1 of its
 * tasks) of lm-evaluation-harness. The categories are the files of DIR/mmlu_pro/test; the shots of all are in
 * DIR/mmlu_pro/validation.jsonl. */
#include <stdlib.h>

#include "datasets/records.h"
#include "engine/base/utf8.h"
#include "evals/suite_type.h"

static const char *const metrics[] = {"exact_match,custom-extract"};
static const char *const filters[] = {"mmlu_pro:custom-extract"};

static const struct str until[] = {{"Question:", 9}};

enum { MOST_OPTIONS = 10 };

static int append_question(const struct json *doc, struct buf *out, struct error *e)
{
	struct str question;
	const struct json *options;
	TRY(column_string(doc, "question", &question, e));
	TRY(column_node(doc, "options", JSON_ARRAY, &options, e));
	if (options->count == 0 || options->count > MOST_OPTIONS)
		return error_set(e, ERR_INPUT, "column \"options\" holds %zu texts, expected 1 to %d", options->count,
			MOST_OPTIONS);
	buf_append_text(out, "Question:\n");
	buf_append_str(out, question);
	buf_append_text(out, "\nOptions:\n");
	int i = 0;
	JSON_EACH (option, options) {
		if (!json_is(option, JSON_STRING))
			return error_set(e, ERR_INPUT, "column \"options\": text %d is %s, expected string", i,
				json_type_name(option));
		buf_printf(out, "%c. ", 'A' + i++);
		buf_append_str(out, utf8_strip(option->text));
		buf_append_char(out, '\n');
	}
	buf_append_text(out, "Answer: Let's think step by step.");
	return buf_check(out, e);
}

/* cot_content.replace("A: Let's think step by step. ", "") */
static int append_answer(const struct json *doc, struct buf *out, struct error *e)
{
	struct str content, repeated = str_of("A: Let's think step by step. ");
	TRY(column_string(doc, "cot_content", &content, e));
	size_t kept = 0, found;
	while ((found = str_find(content, repeated, kept)) != (size_t)-1) {
		buf_append(out, content.data + kept, found - kept);
		kept = found + repeated.length;
	}
	buf_append(out, content.data + kept, content.length - kept);
	return buf_check(out, e);
}

static int read_content(const struct json *doc, struct doc_content *out, struct error *e)
{
	return column_string(doc, "answer", &out->target, e);
}

static bool is_shot(const struct suite_task *task, const struct json *doc)
{
	const struct json *category = json_get(doc, "category");
	return json_is(category, JSON_STRING) && str_is(category->text, task->topic);
}

/* ---- Tasks ---- */

static int add_category(const char *folder, const char *category, struct suite_task_list *out, struct error *e)
{
	struct suite_task *task = suite_task_add(out, e);
	if (!task)
		return ERR_MEMORY;
	TRY(task_text(&task->name, e, "mmlu_pro_%s", category));
	TRY(task_text(&task->alias, e, "%s", category));
	TRY(task_text(&task->topic, e, "%s", category));
	for (char *c = task->topic; *c; c++)
		*c = *c == '_' ? ' ' : *c;
	TRY(task_text(&task->description, e,
		"The following are multiple choice questions (with answers) about %s. Think step by step and then "
		"finish your answer with \"the answer is (X)\" where X is the correct letter choice.\n",
		task->topic));
	TRY(task_text(&task->test_path, e, "%s/mmlu_pro/test/%s.jsonl", folder, category));
	return task_text(&task->shots_path, e, "%s/mmlu_pro/validation.jsonl", folder);
}

static int find_tasks(
	const char *name, const struct suite_options *options, struct suite_task_list *out, struct error *e)
{
	struct file_stems categories = {0};
	const char *folder = options->data_folder, *wanted = suite_name_after(name, "mmlu_pro");
	char *tests = NULL;
	int status = 0;
	TRY_CLEANUP(status, task_text(&tests, e, "%s/mmlu_pro/test", folder));
	TRY_CLEANUP(status, file_stems_read(tests, &categories, e));
	for (size_t i = 0; i < categories.count; i++) {
		const char *rest = *wanted ? suite_name_after(wanted + 1, categories.names[i]) : "";
		if (rest && !*rest)
			TRY_CLEANUP(status, add_category(folder, categories.names[i], out, e));
	}
	if (out->count == 0)
		TRY_CLEANUP(status,
			error_set(e, ERR_USAGE, "unknown suite \"%s\": not a category (a file of %s)", name, tests));
	TRY_CLEANUP(status, task_text(&out->suite, e, "%s", *wanted ? out->items[0].name : "mmlu_pro"));
cleanup:
	file_stems_free(&categories);
	free(tests);
	return status;
}

static bool takes(const char *name)
{
	const char *rest = suite_name_after(name, "mmlu_pro");
	return rest && (!*rest || *rest == '_');
}

const struct suite_type suite_type_mmlu_pro = {
	.name = "mmlu_pro",
	.also = "mmlu_pro_<category>",
	.definition = "ten-choice questions of 14 categories, 5 shots that reason aloud; exact match of the letter",
	.version = 3.1,
	.group_version = 2.0,
	.takes = takes,
	.find_tasks = find_tasks,
	.fewshot = 5,
	.shots = SHOTS_FIRST,
	.is_shot = is_shot,
	.kind = REQUEST_GENERATE,
	.metrics = metrics,
	.n_metrics = 1,
	.until = until,
	.n_until = 1,
	.max_tokens = 2048,
	.filters = filters,
	.exact_match = "mmlu_pro",
	.append_question = append_question,
	.append_answer = append_answer,
	.read_content = read_content,
};
