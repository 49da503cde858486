/* What a suite is: one row of the table in suite.c, defined in evals/suites/NAME.c and read by suite.c, fewshot.c,
 * scoring.c and rescore.c. A prompt is, as in lm-evaluation-harness, for each shot: question, " ", answer, blank line;
 * then the question. */
#ifndef ASSAY_EVALS_SUITE_TYPE_H
#define ASSAY_EVALS_SUITE_TYPE_H

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/json_strict.h"
#include "engine/base/str.h"
#include "evals/suite.h"

/* What a document holds besides its question. Texts are borrowed from the document. */
struct doc_content {
	struct str answer;   /* as written after the question when the document is a shot; GENERATE: also the target */
	struct str *choices; /* [n_choices] LOGLIKELIHOOD; owned */
	int n_choices;
	int gold;
	struct str group; /* value of the type's group_column, empty without one */
};
void doc_content_free(struct doc_content *c);

struct suite_type {
	const char *name;       /* as --suite takes it; also the task's name in the harness */
	const char *test_file;  /* below the data folder */
	const char *shots_file; /* below the data folder; NULL: the suite takes no shots */
	int fewshot;            /* default number of shots, drawn at random per document */
	enum request_kind kind;
	const char *const *metrics; /* [n_metrics] "metric,filter" */
	int n_metrics;
	const char *group_column; /* a column to report by as well, or NULL */

	/* GENERATE: one exact_match per filter, in the order of metrics */
	const struct str *until;
	int n_until;
	int max_tokens;
	const char *const *filters; /* [n_metrics] rows of filters.c */
	const char *exact_match;    /* a row of metrics.c */

	/* Appends the question as the model reads it (doc_to_text). Errors name the column. */
	int (*append_question)(const struct json *doc, struct buf *out, struct error *e);
	/* Fills *out, zeroed before; the caller frees it also after an error. Errors name the column. */
	int (*read_content)(const struct json *doc, struct doc_content *out, struct error *e);
};

extern const struct suite_type suite_type_gsm8k, suite_type_arc_easy, suite_type_arc_challenge, suite_type_recall;

/* The row of that name (ASCII case-insensitive), or NULL. */
const struct suite_type *suite_type_find(const char *name);

/* ERR_USAGE for a name that is none of what the command takes; extra: names that it takes besides the suites ("arc,
 * filters"), or NULL. */
int suite_unknown(const char *name, const char *extra, struct error *e);

#endif
