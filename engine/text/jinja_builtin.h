/* Filters, tests, methods and global functions: tables of what a template may call, and how arguments reach them. */
#ifndef ASSAY_ENGINE_TEXT_JINJA_BUILTIN_H
#define ASSAY_ENGINE_TEXT_JINJA_BUILTIN_H

#include "engine/text/jinja_value.h"

enum { JINJA_PARAMETERS_MAX = 5 };

struct jinja_arguments {
	struct jinja_list values;   /* by position */
	struct jinja_dict keywords; /* by name */
};

struct jinja_call {
	struct jinja_value self;                    /* what is filtered, tested, or has the method */
	struct jinja_value p[JINJA_PARAMETERS_MAX]; /* by parameter; MISSING where none was given */
	const struct jinja_arguments *arguments;    /* as given; for those that take any: parameters is "*" */
	const char *name;
};

typedef int jinja_function(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out);

struct jinja_builtin {
	const char *name;
	const char *parameters; /* "old new count?": those that may be left out end with '?'; "*": any */
	jinja_function *function;
};

/* Rows end with a NULL name. */
extern const struct jinja_builtin jinja_text_filters[], jinja_list_filters[], jinja_tests[], jinja_functions[],
	jinja_text_methods[];

const struct jinja_builtin *jinja_filter_find(struct str name); /* NULL: not known */
const struct jinja_builtin *jinja_test_find(struct str name);
const struct jinja_builtin *jinja_function_find(struct str name);
/* The method of a value of that type. */
const struct jinja_builtin *jinja_method_find(enum jinja_type type, struct str name);

/* Binds the arguments to the parameters and calls. */
int jinja_builtin_call(struct jinja_run *r, const struct jinja_builtin *b, struct jinja_value self,
	const struct jinja_arguments *arguments, struct jinja_value *out);

/* ---- For those that are called: parameters by kind ---- */

bool jinja_given(const struct jinja_value *v); /* neither MISSING nor None */
int jinja_need_text(struct jinja_run *r, const struct jinja_call *c, int parameter, struct str *out);
int jinja_need_int(struct jinja_run *r, const struct jinja_call *c, int parameter, int64_t fallback, int64_t *out);
bool jinja_flag(const struct jinja_call *c, int parameter, bool fallback);
/* An attribute's path ("function.name", "0", or an integer) followed from a value. fallback: for what is undefined, or NULL. */
int jinja_follow(struct jinja_run *r, const struct jinja_value *v, const struct jinja_value *path,
	const struct jinja_value *fallback, struct jinja_value *out);

/* Python's text % values and text.format(...). */
int jinja_format_percent(
	struct jinja_run *r, struct str format, const struct jinja_value *values, struct jinja_value *out);
int jinja_format_braces(
	struct jinja_run *r, struct str format, const struct jinja_arguments *arguments, struct jinja_value *out);

#endif
