/* Values of a template, as Python has them, and the state of one rendering that owns them all: they live in its arena
 * and are freed with it. Work, memory and depth are bounded here, so that no template runs on or fills the machine. */
#ifndef ASSAY_ENGINE_TEXT_JINJA_VALUE_H
#define ASSAY_ENGINE_TEXT_JINJA_VALUE_H

#include <stdint.h>
#include <time.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/json_strict.h"
#include "engine/base/str.h"

enum {
	JINJA_STEPS = 8000000,        /* nodes evaluated, values compared, pieces of text written */
	JINJA_TEXT_MAX = 32 << 20,    /* bytes of one string, and of the output */
	JINJA_MEMORY_MAX = 256 << 20, /* bytes of all values of a rendering */
	JINJA_DEPTH_MAX = 1500,       /* expressions and statements inside each other, macros' calls included */
	JINJA_NESTING_MAX = 500,      /* lists in lists */
	JINJA_RANGE_MAX = 100000,     /* as Jinja's sandbox */
};

enum jinja_type {
	JINJA_MISSING, /* an argument that was not given; no template sees it */
	JINJA_UNDEFINED,
	JINJA_NONE,
	JINJA_BOOL,
	JINJA_INT,
	JINJA_BIG, /* an integer beyond 64 bits: to be shown and compared, not to be computed with */
	JINJA_REAL,
	JINJA_TEXT,
	JINJA_LIST,
	JINJA_TUPLE,
	JINJA_DICT,
	JINJA_VIEW, /* of a dict */
	JINJA_RANGE,
	JINJA_ITERATOR, /* can be gone through once, as Python's generators */
	JINJA_NAMESPACE,
	JINJA_MACRO,
	JINJA_FUNCTION,
	JINJA_METHOD,
	JINJA_LOOP,
	JINJA_CYCLER,
	JINJA_JOINER,
};

enum jinja_view { JINJA_KEYS, JINJA_VALUES, JINJA_ITEMS };

struct jinja_value {
	enum jinja_type type;
	bool safe;            /* TEXT: went through `safe` or `escape`; + escapes what is not */
	enum jinja_view view; /* VIEW */
	union {
		bool boolean;
		int64_t integer;
		double real;
		struct str text;         /* TEXT; BIG: its digits; UNDEFINED: what to say when it is used */
		struct jinja_list *list; /* LIST, TUPLE, ITERATOR: what is left of it */
		struct jinja_dict *dict; /* DICT, VIEW, NAMESPACE */
		struct jinja_range *range;
		const struct jinja_macro *macro;
		const struct jinja_builtin *function;
		struct jinja_method *method;
		struct jinja_loop *loop;
		struct jinja_cycler *cycler; /* CYCLER, JOINER */
	};
};

struct jinja_list {
	struct jinja_value *items;
	size_t count, capacity;
};

struct jinja_pair {
	struct jinja_value key, value;
};

struct jinja_dict { /* in the order of insertion */
	struct jinja_pair *pairs;
	size_t count, capacity;
};

struct jinja_range {
	int64_t start, stop, step, count;
};

struct jinja_method { /* bound to its object */
	struct jinja_value self;
	const struct jinja_builtin *function;
};

struct jinja_cycler {
	struct jinja_list items; /* of a joiner: what it writes between */
	size_t at;
};

/* ---- One rendering ---- */

struct jinja_scope;

struct jinja_run {
	const char *name; /* of the template */
	int line;         /* where it is now */
	struct arena arena;
	uint64_t steps_left;
	int depth;
	struct jinja_scope *scope;
	struct buf *out;
	struct jinja_value block; /* the text of the block whose filters are at work */
	struct tm now;
	bool asked_for_date;
	struct error *e;
};

/* "NAME:LINE: message", ERR_INPUT. */
int jinja_fail(struct jinja_run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Takes that much of the rendering's steps. */
int jinja_work(struct jinja_run *r, size_t steps);
/* The same for bytes copied or searched, and for text gone through character by character. */
int jinja_work_bytes(struct jinja_run *r, size_t bytes);
int jinja_work_text(struct jinja_run *r, size_t bytes);
/* NULL after jinja_fail. */
void *jinja_alloc(struct jinja_run *r, size_t bytes);
/* Appends to a text that grows; ERR_INPUT beyond JINJA_TEXT_MAX. */
int jinja_append(struct jinja_run *r, struct buf *out, struct str s);
int jinja_append_text(struct jinja_run *r, struct buf *out, const char *text);
/* Copies a text into the rendering's memory. */
int jinja_text_keep(struct jinja_run *r, struct str s, struct jinja_value *out);
/* The same, and frees the buffer; with a negative status only that. */
int jinja_buf_keep(struct jinja_run *r, int status, struct buf *text, struct jinja_value *out);

/* ---- Making values ---- */

static inline struct jinja_value jinja_none(void)
{
	return (struct jinja_value){.type = JINJA_NONE};
}

static inline struct jinja_value jinja_bool(bool b)
{
	return (struct jinja_value){.type = JINJA_BOOL, .boolean = b};
}

static inline struct jinja_value jinja_int(int64_t i)
{
	return (struct jinja_value){.type = JINJA_INT, .integer = i};
}

static inline struct jinja_value jinja_real(double d)
{
	return (struct jinja_value){.type = JINJA_REAL, .real = d};
}

/* Borrowed: s lives as long as the rendering. */
static inline struct jinja_value jinja_text(struct str s)
{
	return (struct jinja_value){.type = JINJA_TEXT, .text = s};
}

/* An undefined value and what to say when it is used (printf form). */
int jinja_undefined(struct jinja_run *r, struct jinja_value *out, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* type: LIST, TUPLE or ITERATOR. */
int jinja_list_new(struct jinja_run *r, enum jinja_type type, size_t capacity, struct jinja_value *out);
int jinja_list_add(struct jinja_run *r, struct jinja_list *list, struct jinja_value item);
int jinja_pair_new(struct jinja_run *r, struct jinja_value first, struct jinja_value second, struct jinja_value *out);
/* type: DICT or NAMESPACE. */
int jinja_dict_new(struct jinja_run *r, enum jinja_type type, size_t capacity, struct jinja_value *out);
/* Sets or replaces; a key that cannot be hashed is an error. */
int jinja_dict_set(struct jinja_run *r, struct jinja_dict *dict, struct jinja_value key, struct jinja_value value);
/* *out: NULL where there is none of that key. Valid until the dict grows. */
int jinja_dict_find(
	struct jinja_run *r, const struct jinja_dict *dict, struct jinja_value key, struct jinja_pair **out);
int jinja_dict_find_text(struct jinja_run *r, const struct jinja_dict *dict, struct str key, struct jinja_pair **out);

int jinja_from_json(struct jinja_run *r, const struct json *json, struct jinja_value *out);

/* ---- What Python says of them ---- */

const char *jinja_type_name(const struct jinja_value *v); /* "str", "NoneType", "dict" */
bool jinja_is_number(const struct jinja_value *v);        /* booleans are */
bool jinja_is_text(const struct jinja_value *v);
bool jinja_is_iterable(const struct jinja_value *v);
bool jinja_truth(const struct jinja_value *v);
/* The value of a number (a big integer: the nearest). PRECOND: jinja_is_number. */
double jinja_as_real(const struct jinja_value *v);
/* An int or boolean. */
bool jinja_as_int(const struct jinja_value *v, int64_t *out);
/* Python's len(). */
int jinja_length(struct jinja_run *r, const struct jinja_value *v, int64_t *out);
/* Everything that iteration gives, in a list of its own (an iterator is empty then). *out is not to be changed. */
int jinja_iterate(struct jinja_run *r, const struct jinja_value *v, struct jinja_list *out);
int jinja_equal(struct jinja_run *r, const struct jinja_value *a, const struct jinja_value *b, bool *out);
/* *order: -1, 0, 1, or JINJA_UNORDERED (NaN); what cannot be ordered is an error that names operator. */
enum { JINJA_UNORDERED = 2 };
int jinja_compare(struct jinja_run *r, const struct jinja_value *a, const struct jinja_value *b, const char *operator,
	int * order);
/* item in container */
int jinja_contains(struct jinja_run *r, const struct jinja_value *container, const struct jinja_value *item, bool *out);
/* One level deeper into values in values, bounded; r->depth-- leads back. */
int jinja_nest(struct jinja_run *r);
/* The error of using an undefined value. */
int jinja_fail_undefined(struct jinja_run *r, const struct jinja_value *v);

/* ---- Text ---- */

/* str(v) and repr(v), appended. */
int jinja_print(struct jinja_run *r, const struct jinja_value *v, struct buf *out);
int jinja_repr(struct jinja_run *r, const struct jinja_value *v, struct buf *out);
/* str(v): *out borrows from v where v is text. */
int jinja_string(struct jinja_run *r, const struct jinja_value *v, struct str *out);

struct jinja_json_style {
	bool ensure_ascii, sort_keys;
	bool has_indent;
	struct str indent; /* of one level */
	struct str item_separator, key_separator;
};
/* Python's json.dumps(v). */
int jinja_to_json(
	struct jinja_run *r, const struct jinja_value *v, const struct jinja_json_style *style, struct buf *out);

/* HTML's five characters as entities. */
int jinja_escape(struct jinja_run *r, struct str s, struct buf *out);

/* Characters [first, last) of a text as its bytes; both at most the text's length in characters. */
struct str jinja_characters(struct str s, size_t first, size_t last);

#endif
