/* What a suite is: one row of the table in suite_table.c, defined in evals/suites/NAME.c and read by suite.c,
 * fewshot.c, scoring.c and rescore.c. A prompt is, as in lm-evaluation-harness, the task's description; for each shot:
 * question, " ", answer, blank line; then the question. */
#ifndef ASSAY_EVALS_SUITE_TYPE_H
#define ASSAY_EVALS_SUITE_TYPE_H

#include "datasets/records.h"
#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/json_strict.h"
#include "engine/base/str.h"
#include "evals/suite.h"
#include "evals/suite_task.h"

/* What a document holds besides its question. Texts are borrowed from the document. */
struct doc_content {
	struct str target;              /* GENERATE: the right answer as it is scored */
	const struct json *target_json; /* instead of it, where it is no text; NULL: it is */
	struct str *choices;            /* [n_choices] LOGLIKELIHOOD; owned */
	int n_choices;
	int gold;
	struct str group;  /* value of the type's group_column, empty without one */
	struct str *until; /* [n_until] stop strings of its own; owned; NULL: the type's */
	int n_until;
	int max_tokens; /* 0: the type's */
};

/* A question that is a conversation, maybe with tools, written as the model's template has it. */
struct conversation {
	const struct suite_task *task;
	const struct suite_options *options;
	struct json_document *tools; /* an array; owned by whoever made the conversation; NULL: none */
	struct suite_chat *chat;     /* what is met is noted there */
	struct buf *out;
};
/* Appends the conversation {messages, tools}, with the system instruction before or in its system message; ERR_USAGE
 * without a template, or without a known format of calls where there are tools. */
int conversation_append(struct conversation *c, const struct json *messages, struct error *e);
/* Appends the prompt of a plain question: description, shots and question as text, or, with apply_chat_template, as a
 * conversation. */
struct suite_type;
struct fewshot;
int conversation_append_plain(struct conversation *c, const struct suite_type *type, const struct fewshot *shots,
	const struct json *doc, struct error *e);
void doc_content_free(struct doc_content *c);

enum shot_choice {
	SHOTS_DRAWN, /* at random, anew for each document */
	SHOTS_FIRST, /* the first of the pool, the same for all */
};

struct suite_type {
	const char *name;              /* as --suite takes it */
	const char *also;              /* what else --suite takes for it, for people: "mmlu_<subject>"; NULL: nothing */
	const char *definition;        /* one line for people */
	double version, group_version; /* of lm-evaluation-harness's tasks and their groups; 0: assay's own */
	enum request_kind kind;
	const char *const *metrics; /* [n_metrics] "metric,filter" */
	int n_metrics;
	const char *group_column; /* a column to report by as well, or NULL */

	/* Whether name (lower case unless it is a path) is one of this type's. NULL: the type's own name alone. */
	bool (*takes)(const char *name);
	/* Appends the tasks of that name. NULL: one task, called like the type, of test_file and shots_file. */
	int (*find_tasks)(
		const char *name, const struct suite_options *options, struct suite_task_list *out, struct error *e);
	const char *test_file;  /* below the data folder; NULL with find_tasks */
	const char *shots_file; /* below the data folder; NULL: no shots, or fixed ones */
	/* Writes the documents of a task that has no file, as JSON lines. */
	int (*make_documents)(const char *name, const struct suite_options *options, struct buf *out, struct error *e);

	int fewshot; /* default number of shots */
	enum shot_choice shots;
	const char *const *fixed_shots; /* [n_fixed_shots] instead of a file: question, " ", answer */
	int n_fixed_shots;
	const char *question_end; /* what a fixed shot's question ends with, where it stands first */
	/* Whether a document of the shots' file belongs to the task. NULL: each does. */
	bool (*is_shot)(const struct suite_task *task, const struct json *doc);

	/* GENERATE: one exact_match per filter, in the order of metrics */
	const struct str *until;
	int n_until;
	int max_tokens;
	const char
		*answer_begin; /* what each answer is made to begin with, part of the prompt; NULL: nothing. Only for a
				   * type without shots. */
	const char *const *filters; /* [n_metrics] rows of filters.c */
	const char *exact_match;    /* a row of metrics.c */

	/* Appends the question as the model reads it (doc_to_text). Errors name the column. */
	int (*append_question)(const struct json *doc, struct buf *out, struct error *e);
	/* Appends what stands behind the question when the document is a shot. NULL: it never is one. */
	int (*append_answer)(const struct json *doc, struct buf *out, struct error *e);
	/* What must hold among the records of a task's file. Errors name file and line. NULL: nothing. */
	int (*check_records)(const struct records *r, struct error *e);
	/* Fills *out, zeroed before; the caller frees it also after an error. Errors name the column. */
	int (*read_content)(const struct json *doc, struct doc_content *out, struct error *e);
	/* The values of the metrics (out->value[0] ..) and what is kept of the answer, where filters and exact_match are not
	 * the way. */
	int (*judge)(
		const struct suite_item *item, const struct answer *answer, struct item_score *out, struct error *e);
	/* Appends the question as a conversation instead, and sets what is offered: 1; 0: it is none, append_question is to
	 * be used. NULL: it never is one. */
	int (*append_conversation)(struct conversation *c, const struct json *doc, struct error *e);
	/* Adds results made of those of the tasks of these names ([n_tasks]; n 0: none) of one metric, all of whose names
	 * begin with added_prefix. NULL: none. */
	int (*add_results)(const char *const *names, const struct metric_summary *tasks, int n_tasks,
		suite_visit_result *visit, void *context, struct error *e);
	const char *added_prefix;
	/* The metric that says whether a tool was called, whose agreement with the baseline variant is reported; or NULL. */
	const char *trigger_metric;
};

/* ERR_USAGE for a name that is none of what the command takes; extra: names that it takes besides the suites ("arc,
 * filters"), or NULL. */
int suite_unknown(const char *name, const char *extra, struct error *e);

/* The type that takes the name (ASCII case-insensitive), or NULL. */
const struct suite_type *suite_type_find(const char *name);

/* All types, in the order in which they are listed: NULL-terminated. */
const struct suite_type *const *suite_types(void);

/* The tasks of a name of that type, at least one; *out is to be freed on failure, too. */
int suite_tasks_find(const struct suite_type *type, const char *name, const struct suite_options *options,
	struct suite_task_list *out, struct error *e);

/* Whether name is a path to a file rather than a suite's name: it has a '/' or a '.'. */
bool suite_name_is_path(const char *name);

/* Whether name begins with that prefix, ASCII case apart: what follows, or NULL. */
const char *suite_name_after(const char *name, const char *prefix);

#endif
