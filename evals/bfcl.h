/* The Berkeley function-calling leaderboard, version 4: its categories, and its AST checker, whose verdicts and error
 * types are the same for every call. Checked against its own program (commit 6ea57973). */
#ifndef ASSAY_EVALS_BFCL_H
#define ASSAY_EVALS_BFCL_H

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/json_strict.h"

enum bfcl_language {
	BFCL_PYTHON,
	BFCL_JAVA,
	BFCL_JAVASCRIPT,
	BFCL_OWN, /* no language of BFCL: tools with the types of JSON Schema; what those do not tell the answers do */
};

enum bfcl_kind {
	BFCL_SIMPLE,      /* one call of the one function */
	BFCL_MULTIPLE,    /* one call of one of several functions */
	BFCL_PARALLEL,    /* several calls in any order */
	BFCL_IRRELEVANCE, /* no call is right */
	BFCL_RELEVANCE,   /* any call is right */
};

struct bfcl_category {
	const char *name; /* "simple_python": BFCL_v4_NAME.json holds it, and NAME_0 is the id of an item */
	enum bfcl_kind kind;
	enum bfcl_language language;
	bool is_live;
};

/* The categories of single turns, in the order of the leaderboard. */
int bfcl_category_count(void);
const struct bfcl_category *bfcl_category_at(int i);
/* Of an id ("live_simple_3-2-0"), or NULL. */
const struct bfcl_category *bfcl_category_of(struct str id);

/* One call that a model made. */
struct bfcl_call {
	struct str name;
	const struct json *arguments; /* an object; else the output is of the wrong format */
};

struct bfcl_checker; /* compiled patterns: used by one thread at a time */
int bfcl_checker_new(struct bfcl_checker **out, struct error *e);
void bfcl_checker_delete(struct bfcl_checker *c);

struct bfcl_item {
	const struct bfcl_category *category;
	const struct json *functions; /* array of {"name", "parameters": {"properties", "required"}}, maybe as tools */
	const struct json *ground_truth; /* array of {function: {parameter: [values]}}; NULL for (ir)relevance */
	bool underscore_to_dot;          /* "." in a function's name was sent as "_" */
};

/* Why a call is wrong; type is "" when it is right. */
struct bfcl_verdict {
	char type[64];    /* "value_error:string" */
	struct buf about; /* the parameter or function it is about, for people; owned */
};
void bfcl_verdict_free(struct bfcl_verdict *v);

/* ERR_INPUT where the item's functions or answers are such that BFCL's program fails on them, too. */
int bfcl_check(struct bfcl_checker *c, const struct bfcl_item *item, const struct bfcl_call *calls, int n_calls,
	struct bfcl_verdict *out, struct error *e);

/* A literal of Java or JavaScript as BFCL reads it, as JSON with Python's constants. nested: the type of a collection's
 * elements, or empty. ERR_INPUT for a type that BFCL does not convert. */
int bfcl_convert(struct bfcl_checker *c, enum bfcl_language language, struct str value, struct str type,
	struct str nested, struct buf *json, struct error *e);

/* The functions of an item as BFCL's function-calling mode offers them: an array of {"type": "function", "function":
 * ..}, as JSON text. Names with "_" for ".", types of JSON Schema, a hint at the language in each description. */
int bfcl_tools_append(const struct json *functions, enum bfcl_language language, struct buf *out, struct error *e);

/* `assay rescore --suite bfcl`: lines {"id", "underscore_to_dot", "model_output"} to {"id", "valid", "error_type"}.
 * Functions and answers come from data_folder/bfcl, or stand in the line as "function" and "ground_truth". */
int bfcl_rescore(const char *data_folder, const char *path, struct buf *out, struct error *e);

#endif
