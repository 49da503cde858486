/* The tasks of a suite, as lm-evaluation-harness calls them: each has documents, prompts and results of its own, and
 * may belong to a group whose results are pooled ("mmlu_anatomy" of "mmlu_stem" of "mmlu"). */
#ifndef ASSAY_EVALS_SUITE_TASK_H
#define ASSAY_EVALS_SUITE_TASK_H

#include "engine/base/buf.h"
#include "engine/base/error.h"

struct suite_task {        /* strings are owned */
	char *name;        /* "mmlu_anatomy" */
	char *alias;       /* as a table of the suite's tasks writes it: "anatomy" */
	char *group;       /* "mmlu_stem"; NULL: none besides the suite */
	char *topic;       /* "high school biology"; NULL: none */
	char *description; /* what a prompt begins with; NULL: nothing */
	char *test_path;   /* NULL: the documents are made, not read */
	char *shots_path;  /* NULL: no file of shots */
	char *truth_path;  /* the right answers, line by line; NULL: the documents hold them */
};

void suite_task_free(struct suite_task *t); /* zeroes *t */

struct suite_task_list {
	char *suite; /* owned: what the tasks are together: "mmlu", "mmlu_stem" */
	struct suite_task *items;
	int count;
};
void suite_task_list_free(struct suite_task_list *l); /* zeroes *l */

/* Appends a task, zeroed, or returns NULL. */
struct suite_task *suite_task_add(struct suite_task_list *l, struct error *e);

/* *out = the printed text, owned. */
int task_text(char **out, struct error *e, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Names of the files FOLDER/NAME.jsonl, sorted by bytes; the caller frees them with file_stems_free. ERR_MISSING
 * without the folder, ERR_EMPTY without such a file. */
struct file_stems {
	char **names;
	size_t count;
};
int file_stems_read(const char *folder, struct file_stems *out, struct error *e);
void file_stems_free(struct file_stems *s);

#endif
