/* The Jinja of chat templates, as Hugging Face's transformers renders it: its sandbox, trim_blocks and lstrip_blocks on,
 * break and continue, {% generation %}, plain undefined values, tojson without HTML escapes, raise_exception,
 * strftime_now. A template that fails says so with its name, line and cause; one that runs on, nests without end or
 * writes without end fails too (jinja_value.h has the bounds). */
#ifndef ASSAY_ENGINE_TEXT_JINJA_H
#define ASSAY_ENGINE_TEXT_JINJA_H

#include <stdbool.h>
#include <time.h>

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/json_strict.h"
#include "engine/base/str.h"

struct jinja; /* a template, parsed; immutable */

/* source is copied and may be freed. name stands in messages. */
int jinja_new(struct str source, const char *name, struct jinja **out, struct error *e);
void jinja_delete(struct jinja *j);

/* A variable: JSON, or text where json is NULL. Both must live while the template is rendered. */
struct jinja_variable {
	const char *name;
	const struct json *json;
	struct str text;
};

struct jinja_context {
	const struct jinja_variable *variables; /* [n_variables] */
	int n_variables;
	const struct json *more;     /* an object whose members are variables, too, and win; or NULL */
	const struct json *messages; /* the variable of that name, as transformers hands it over; NULL: None */
	struct tm now;               /* what strftime_now tells */
};

/* Appends the text. *asked_for_date: whether strftime_now was called. */
int jinja_render(const struct jinja *j, const struct jinja_context *context, bool *asked_for_date, struct buf *out,
	struct error *e);

#endif
