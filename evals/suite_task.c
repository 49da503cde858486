#include "evals/suite_task.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void suite_task_free(struct suite_task *t)
{
	char *texts[] = {t->name, t->alias, t->group, t->topic, t->description, t->test_path, t->shots_path,
		t->truth_path};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		free(texts[i]);
	*t = (struct suite_task){0};
}

void suite_task_list_free(struct suite_task_list *l)
{
	for (int i = 0; i < l->count; i++)
		suite_task_free(&l->items[i]);
	free(l->items);
	free(l->suite);
	*l = (struct suite_task_list){0};
}

struct suite_task *suite_task_add(struct suite_task_list *l, struct error *e)
{
	struct suite_task *items = reallocarray(l->items, (size_t)l->count + 1, sizeof(*items));
	if (!items) {
		error_set(e, ERR_MEMORY, "out of memory for %d tasks", l->count + 1);
		return NULL;
	}
	l->items = items;
	items[l->count] = (struct suite_task){0};
	return &items[l->count++];
}

int task_text(char **out, struct error *e, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int length = vasprintf(out, format, arguments);
	va_end(arguments);
	if (length >= 0)
		return 0;
	*out = NULL;
	return error_set(e, ERR_MEMORY, "out of memory for the name of a task");
}

/* ---- Files of a folder ---- */

static int is_jsonl(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);
	return length > 6 && strcmp(entry->d_name + length - 6, ".jsonl") == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

int file_stems_read(const char *folder, struct file_stems *out, struct error *e)
{
	struct dirent **entries = NULL;
	*out = (struct file_stems){0};
	int n = scandir(folder, &entries, is_jsonl, by_bytes);
	if (n < 0)
		return error_set(e, ERR_MISSING, "%s: %s, expected a folder of .jsonl files", folder, strerror(errno));
	int status = n > 0 ? 0 : error_set(e, ERR_EMPTY, "%s holds no .jsonl file", folder);
	out->names = status == 0 ? mem_calloc((size_t)n, sizeof(*out->names), e) : NULL;
	if (status == 0 && !out->names)
		status = ERR_MEMORY;
	for (int i = 0; i < n; i++) {
		if (status == 0)
			status = task_text(&out->names[out->count], e, "%.*s", (int)strlen(entries[i]->d_name) - 6,
				entries[i]->d_name);
		out->count += status == 0;
		free(entries[i]);
	}
	free(entries);
	if (status < 0)
		file_stems_free(out);
	return status;
}

void file_stems_free(struct file_stems *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->names[i]);
	free(s->names);
	*s = (struct file_stems){0};
}
