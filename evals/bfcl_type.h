/* Shared by the parts of the BFCL checker. */
#ifndef ASSAY_EVALS_BFCL_TYPE_H
#define ASSAY_EVALS_BFCL_TYPE_H

#include "evals/bfcl.h"
#include "evals/regex.h"

/* What Python calls the type of a value that json.loads made. */
enum python_type { PY_NONE, PY_BOOL, PY_INT, PY_FLOAT, PY_STR, PY_LIST, PY_DICT };
enum python_type python_type_of(const struct json *value);

/* A language's word for a type; false for one that BFCL's table of that language does not have. */
bool bfcl_type_of(enum bfcl_language language, struct str name, enum python_type *out);

enum bfcl_pattern {
	JAVA_WHOLE,
	JAVA_FLOAT,
	JAVA_DOUBLE,
	JAVA_LONG,
	JAVA_AS_LIST,
	JAVA_ADDS,
	JAVA_ADD,
	JAVA_EMPTY_LIST,
	JAVA_ARRAY,
	JAVA_PUTS,
	JAVA_PUT,
	JAVA_EMPTY_MAP,
	JS_FLOAT,
	JS_BIGINT,
	JS_ARRAYS,
	JS_BRACKETS,
	JS_ARRAY,
	JS_OBJECT,
	JS_PAIR,
	BFCL_PATTERNS,
};

struct bfcl_checker {
	struct regex *patterns[BFCL_PATTERNS]; /* owned */
};

/* Appends re.sub(r"[ \,\.\/\-\_\*\^]", "", text).lower().replace("'", '"'). */
void bfcl_standardize(struct str text, struct buf *out);

#endif
