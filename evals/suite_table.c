/* The one table of suites, and finding a row by what --suite says. */
#include <stdlib.h>

#include "datasets/records.h"
#include "engine/base/file.h"
#include "evals/suite_type.h"

extern const struct suite_type suite_type_gsm8k, suite_type_gsm8k_cot, suite_type_arc_easy, suite_type_arc_challenge,
	suite_type_arc_challenge_chat,
	suite_type_mmlu, suite_type_mmlu_pro, suite_type_recall, suite_type_recall_made, suite_type_exam, suite_type_toolcall;

/* A name goes to the first row that takes it. */
static const struct suite_type *const types[] = {
	&suite_type_gsm8k,
	&suite_type_gsm8k_cot,
	&suite_type_arc_easy,
	&suite_type_arc_challenge,
	&suite_type_arc_challenge_chat,
	&suite_type_mmlu_pro,
	&suite_type_mmlu,
	&suite_type_recall,
	&suite_type_recall_made,
	&suite_type_toolcall,
	&suite_type_exam,
	NULL,
};

enum { TYPE_COUNT = sizeof(types) / sizeof(types[0]) - 1 };

const struct suite_type *const *suite_types(void)
{
	return types;
}

/* ASCII only: a Turkish locale must find ARC_EASY. */
static char lower_ascii(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

const char *suite_name_after(const char *name, const char *prefix)
{
	for (; *prefix; prefix++, name++)
		if (lower_ascii(*name) != lower_ascii(*prefix))
			return NULL;
	return name;
}

bool suite_name_is_path(const char *name)
{
	return strpbrk(name, "/.") != NULL;
}

static bool takes(const struct suite_type *type, const char *name)
{
	if (type->takes)
		return type->takes(name);
	const char *rest = suite_name_after(name, type->name);
	return rest && !*rest;
}

const struct suite_type *suite_type_find(const char *name)
{
	for (int i = 0; i < TYPE_COUNT; i++)
		if (takes(types[i], name))
			return types[i];
	return NULL;
}

bool suite_needs_model(const char *name)
{
	const struct suite_type *type = suite_type_find(name);
	return type && (type->make_documents || type->append_conversation);
}

static void append_name(struct buf *out, const char *name)
{
	if (name)
		buf_printf(out, "%s%s", out->length ? ", " : "", name);
}

int suite_unknown(const char *name, const char *extra, struct error *e)
{
	struct buf known = {0};
	for (int i = 0; i < TYPE_COUNT; i++) {
		append_name(&known, takes(types[i], types[i]->name) ? types[i]->name : NULL);
		append_name(&known, types[i]->also);
	}
	append_name(&known, extra);
	int status = error_set(e, ERR_USAGE, "unknown suite \"%s\" (known: %s)", name, buf_text(&known));
	buf_free(&known);
	return status;
}

/* ---- Tasks ---- */

/* The one task of a type without find_tasks. */
static int add_own_task(const struct suite_type *type, const char *folder, struct suite_task_list *out, struct error *e)
{
	struct suite_task *task = suite_task_add(out, e);
	if (!task)
		return ERR_MEMORY;
	TRY(task_text(&out->suite, e, "%s", type->name));
	TRY(task_text(&task->name, e, "%s", type->name));
	TRY(task_text(&task->alias, e, "%s", type->name));
	task->test_path = path_join(folder, type->test_file, e);
	if (!task->test_path)
		return ERR_MEMORY;
	task->shots_path = type->shots_file ? path_join(folder, type->shots_file, e) : NULL;
	return type->shots_file && !task->shots_path ? ERR_MEMORY : 0;
}

int suite_tasks_find(const struct suite_type *type, const char *name, const struct suite_options *options,
	struct suite_task_list *out, struct error *e)
{
	*out = (struct suite_task_list){0};
	return type->find_tasks ? type->find_tasks(name, options, out, e)
				: add_own_task(type, options->data_folder, out, e);
}

/* ---- What a listing says ---- */

/* Lines of the tasks' files that hold something. */
static int count_documents(const struct suite_task_list *tasks, int *documents, struct error *e)
{
	for (int t = 0; t < tasks->count; t++) {
		struct buf text = {0};
		struct str line;
		TRY(file_read(tasks->items[t].test_path, &text, e));
		struct line_cursor cursor = {.text = buf_str(&text)};
		while (line_next(&cursor, &line))
			++*documents;
		buf_free(&text);
	}
	return 0;
}

bool suite_facts(int i, const char *data_folder, struct suite_facts *out)
{
	if (i >= TYPE_COUNT)
		return false;
	const struct suite_type *type = types[i];
	const struct suite_options options = {.data_folder = data_folder, .fewshot = -1};
	struct suite_task_list tasks = {0};
	struct error ignored = {0};
	*out = (struct suite_facts){.name = type->name,
		.also = type->also,
		.definition = type->definition,
		.fewshot = type->fewshot,
		.kind = type->kind,
		.metrics = type->metrics,
		.n_metrics = type->n_metrics};
	/* a suite without its data is listed all the same */
	bool has_files = takes(type, type->name) && !type->make_documents;
	if (has_files && suite_tasks_find(type, type->name, &options, &tasks, &ignored) == 0 &&
		count_documents(&tasks, &out->documents, &ignored) == 0) {
		out->has_data = true;
		out->tasks = tasks.count;
	}
	if (!out->has_data)
		out->documents = 0;
	suite_task_list_free(&tasks);
	return true;
}
