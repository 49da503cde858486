/* The lines that the small tools read: a file or standard input, whole, then one line after the other. */
#ifndef ASSAY_EVALS_LINES_H
#define ASSAY_EVALS_LINES_H

#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/json_strict.h"
#include "engine/engine.h"

struct lines {
	struct buf text;
	const char *name; /* file, "standard input" */
	size_t at;        /* where the next line begins */
	int number;       /* of the last line returned, from 1 */
};

/* path NULL or "-": standard input. */
int lines_open(struct lines *l, const char *path, struct error *e);
void lines_close(struct lines *l);

/* False after the last line. A final line feed ends the last line and begins none. */
bool lines_next(struct lines *l, struct str *line);

/* The same for lines of one JSON document each; blank lines are passed over. *out is NULL after the last; the caller
 * frees it. */
int lines_next_json(struct lines *l, struct json_document **out, struct error *e);

/* "FILE:LINE: message" with code ERR_INPUT. */
int lines_error(const struct lines *l, struct error *e, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A text member, ERR_INPUT unless it is there and a string. */
int lines_member_text(
	const struct lines *l, const struct json *object, const char *key, struct str *out, struct error *e);

/* An array of token ids, each in 0 .. INT32_MAX. */
int lines_ids(
	const struct lines *l, const struct json *array, const char *key, struct engine_ids *out, struct error *e);

#endif
