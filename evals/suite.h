/* A suite: items made from data-set records exactly as lm-evaluation-harness makes them, and the scoring of answers.
 * A suite is one file (evals/suites/NAME.c) and one row of the table in suite.c; adding one touches nothing else. */
#ifndef ASSAY_EVALS_SUITE_H
#define ASSAY_EVALS_SUITE_H

#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/hash.h"
#include "engine/base/json_strict.h"
#include "engine/base/str.h"
#include "engine/engine.h"

enum request_kind {
	REQUEST_LOGLIKELIHOOD, /* context + each continuation */
	REQUEST_GENERATE,      /* context, stops, a limit of tokens */
};

enum { SUITE_MAX_METRICS = 8, SUITE_MAX_CHOICES = 64 };

struct suite_options {
	const char *data_folder; /* laid out as the shared data folder: gsm8k/, arc/, recall/ ... */
	int fewshot;             /* -1: the suite's default */
	double limit; /* 0: none; below 1 a fraction of each task's documents (rounded up), else their number (truncated) */
	int sample;    /* 0: all; else that many items of the suite, by the smallest sha256 of "SEED:doc_hash" */
	uint64_t seed; /* of few-shot choice and sample, 1234 in the harness */
	const struct engine_text *text; /* what recall:N counts tokens with; NULL: such a suite is refused */
	int max_positions;              /* longest context of the model, for recall:N */
	const struct engine_template *conversations; /* writes conversations and tools as the model reads them; NULL: a
						      * suite that has such is refused */
	const struct error *no_conversations;        /* why it is NULL; NULL: nobody looked */
	enum tool_format tool_format;                /* how the model writes calls; TOOL_FORMAT_NONE: not known */
	const struct tm *now;                        /* what a template is told of the time; NULL: nothing */
	bool apply_chat_template;                    /* plain questions become conversations, too */
	bool multiturn;                 /* then shots are turns of their own, else part of the question's */
	const char *system_instruction; /* before a task's description; NULL: nothing */
};

/* What the making of conversations met. */
struct suite_chat {
	int systems_dropped; /* items whose system message the template refuses: they go without, as in the harness */
	bool asked_for_date; /* the template writes the date, or something else of the time, into prompts */
};

struct suite_item {
	const char *task; /* "gsm8k", "arc_easy", "mmlu_anatomy" */
	int doc_id;       /* index in the split */
	char doc_hash[SHA256_HEX_SIZE], prompt_hash[SHA256_HEX_SIZE], target_hash[SHA256_HEX_SIZE];
	enum request_kind kind;
	struct str context;
	const struct str *choices; /* LOGLIKELIHOOD: choices without the delimiter before them */
	struct str
		delimiter; /* LOGLIKELIHOOD: the continuation is delimiter + choice; " ", in a conversation nothing */
	int n_choices;
	int gold;                /* LOGLIKELIHOOD: index of the right choice */
	struct str target;       /* as the harness writes it in its samples: text, or the gold index in digits */
	const struct str *until; /* GENERATE: stop strings, in order */
	int n_until;
	int max_tokens;               /* GENERATE: max_gen_toks */
	struct str group;             /* what to report by besides the whole (recall: "24", its filler); often empty */
	const struct json *doc;       /* the record */
	const struct json *truth;     /* the record of the right answer, where it stands in a file of its own; NULL */
	const struct json *tools;     /* what the model is offered: an array; NULL: nothing */
	enum tool_format tool_format; /* how its calls are written, where there are tools */
};

/* What a target answered: one of the two forms by the item's kind. */
struct answer {
	const double *logprobs; /* [n_choices] summed log-probability of each continuation */
	const bool *is_greedy;  /* [n_choices] */
	struct str text;        /* GENERATE: after stop strings were cut; with tools its special tokens are kept */
	bool truncated;         /* GENERATE: ended by the length limit */
};

/* The score of one item: the values of the suite's metrics ("exact_match,strict-match", "acc,none"), in the suite's
 * order, and the filtered response of each filter. */
struct item_score {
	int n_metrics;
	const char *metric[SUITE_MAX_METRICS]; /* "metric,filter" */
	double value[SUITE_MAX_METRICS];
	int n_filters;
	const char *filter[SUITE_MAX_METRICS];
	struct buf filtered[SUITE_MAX_METRICS]; /* [n_filters] extracted text per filter; owned */
};
void item_score_free(struct item_score *s);

/* Mean and standard error of one metric over the items of a task or group, as the harness computes them. */
struct metric_summary {
	const char *name; /* "exact_match,strict-match" */
	int n;
	double value;
	double stderr_value; /* NaN where the harness says "N/A" */
};

struct suite; /* an opened suite with all its items */

/* name as in --suite (case-insensitive in ASCII, whatever the locale), or the path of an exam file; an unknown name is
 * ERR_USAGE with the known ones, a limit that is no number above 0 or more shots than there are ERR_USAGE, a data file
 * that is missing ERR_MISSING with its path, one without records ERR_EMPTY, a record that lacks a column ERR_INPUT with
 * file, line and column name. */
int suite_open(const char *name, const struct suite_options *options, struct suite **out, struct error *e);
void suite_close(struct suite *s);

/* Whether a suite of that name is made for a model: then options->text is needed, or its conversations are. */
bool suite_needs_model(const char *name);

const char *suite_name(const struct suite *s);
int suite_count(const struct suite *s);                /* items, after limit or sample */
int suite_total(const struct suite *s);                /* documents before */
bool suite_is_sample(const struct suite *s);           /* items were chosen by hash from the suite as one */
int suite_fewshot(const struct suite *s);              /* shots in use */
/* Version of lm-evaluation-harness's tasks, or of the groups of them; 0: assay's own. */
double suite_version(const struct suite *s, bool group);
const char *suite_group_column(const struct suite *s); /* the column that items' groups come from ("filler"), or NULL */
/* Items are ordered by task and doc_id. */
const struct suite_item *suite_item(const struct suite *s, int i);
/* Index of the item of that task and document, or -1. */
int suite_find(const struct suite *s, const char *task, int64_t doc_id);

const struct suite_chat *suite_chat(const struct suite *s);

/* The tasks of the suite, in the order of their items. */
struct suite_task;
int suite_task_count(const struct suite *s);
const struct suite_task *suite_task(const struct suite *s, int i);

/* Data files that were read, with their sha256, for the run's provenance. */
int suite_file_count(const struct suite *s);
const char *suite_file_path(const struct suite *s, int i);
const char *suite_file_hash(const struct suite *s, int i);

/* Filters and scores one answer. */
int suite_score(const struct suite *s, const struct suite_item *item, const struct answer *answer,
	struct item_score *out, struct error *e);

/* Names of the metrics of a suite, "metric,filter". */
int suite_metric_count(const struct suite *s);
const char *suite_metric_name(const struct suite *s, int i);

/* Mean and standard error (sample deviation, n - 1, over root n) of n values; stderr_value NaN for n < 2. */
void metric_mean(const char *name, const double *values, int n, struct metric_summary *out);

/* Mean of the tasks' means weighted by their sizes, and lm-evaluation-harness's pooled standard error: the root of
 * sum((n_i - 1) n_i se_i^2) / (sum(n_i) - K) / sum(n_i), NaN where one of the K tasks has none. PRECOND: n_tasks >= 1,
 * each with n >= 1. */
void metric_pool(const char *name, const struct metric_summary *tasks, int n_tasks, struct metric_summary *out);

/* Results of a suite whose items have those values ([metrics, items]; scored: whether an item has any): calls visit with
 * task NULL for the suite as a whole (a sample's tasks are no strata: it is one mean with its error), then, where there
 * are several, for each group of tasks ("mmlu_stem") and each task, and for each value of the group column ("filler=24"),
 * and what the suite's type adds; for every metric. A value of NaN is none: the item does not count for that metric. */
typedef int suite_visit_result(void *context, const char *task, const struct metric_summary *summary, struct error *e);
int suite_add_results(const struct suite *s, const struct metric_summary *tasks, suite_visit_result *visit,
	void *context, struct error *e);
/* The metric that says whether a tool was called, or NULL. */
const char *suite_trigger_metric(const struct suite *s);
int suite_summarize(const struct suite *s, const double *values, const bool *scored, suite_visit_result *visit,
	void *context, struct error *e);

/* Documents used of n: ceil(n * limit) for a limit below 1, else the limit without its fraction, at most n; n for 0
 * (no limit). PRECOND: limit >= 0. */
int limit_apply(double limit, int n);

/* What an exam is called: the name of its file without folder and ".jsonl". A name that is no path stays as it is. */
struct str suite_exam_name(const char *path);

/* What `list --suites` says of a suite. */
struct suite_facts {
	const char *name, *also, *definition; /* also: other names of its kind, or NULL */
	bool has_data;                        /* its files are in the data folder */
	int tasks, documents;                 /* 0 without data */
	int fewshot;                          /* default shots */
	enum request_kind kind;
	const char *const *metrics;
	int n_metrics;
};
/* Facts of the suite of that number, from 0; false after the last. */
bool suite_facts(int i, const char *data_folder, struct suite_facts *out);

/* What a rescoring met besides its results. */
struct rescore_report {
	size_t scored;    /* lines */
	size_t differing; /* of them, with a recorded filtered response or metric value that is not the one computed */
	size_t skipped;   /* lines of tasks that were not asked for */
};

/* `assay rescore --suite S`: filters and scores the responses of a file of harness sample lines again (path: "-" is
 * standard input, a gzip file is unpacked). names: as --suite takes them, and "arc" for both ARC tasks; data_folder:
 * where the documents are that the lines do not hold (NULL: they hold them all). The results go to out as one JSON
 * document. No line of the suites asked for is ERR_EMPTY. */
int suite_rescore(const char *const *names, int n_names, const char *data_folder, const char *path, struct buf *out,
	struct rescore_report *report, struct error *e);

/* `assay rescore --suite filters`: lines {"filter", "input"} to {"output"}, lines {"metric", "pred", "ref"} to
 * {"exact_match"}. */
int suite_rescore_filters(const char *path, struct buf *out, struct error *e);

#endif
