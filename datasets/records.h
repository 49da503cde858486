/* Records of a data set: a file of JSON lines, one object a line, hashed as lm-evaluation-harness hashes documents. */
#ifndef ASSAY_DATASETS_RECORDS_H
#define ASSAY_DATASETS_RECORDS_H

#include "engine/base/error.h"
#include "engine/base/hash.h"
#include "engine/base/json_strict.h"
#include "engine/base/str.h"

/* Walks the lines of a text that are not blank. Starts as {text, 0, 0}. */
struct line_cursor {
	struct str text;
	size_t position; /* of the next line's first byte */
	size_t line;     /* number of the line last given, from 1 */
};

/* The next line that holds more than JSON's white space, without its line feed; false at the end. */
bool line_next(struct line_cursor *c, struct str *line);

/* What errors call a file: its path, or "standard input" for "-". */
const char *input_name(const char *path);

struct record {
	struct json_document *document; /* owned */
	const struct json *doc;         /* its root: an object */
	size_t line;                    /* in the file, from 1 */
	char hash[SHA256_HEX_SIZE];     /* doc_hash */
};

struct records {
	char *path;                      /* owned */
	char file_hash[SHA256_HEX_SIZE]; /* of the content (unpacked, where the file is a gzip file) */
	struct record *items;            /* [count] in the file's order */
	size_t count;
};

/* Reads the whole file. Blank lines are skipped; anything else that is not one JSON object a line is ERR_INPUT naming
 * path:line; a file without records gives count 0. On failure *r is empty. */
int records_load(struct records *r, const char *path, struct error *e);
/* The same from a text in memory; name stands for its path. */
int records_from_text(struct records *r, const char *name, struct str text, struct error *e);
void records_free(struct records *r); /* zeroes *r */

/* sha256 of json.dumps(doc, indent=2, ensure_ascii=False): the harness's doc_hash. scratch is overwritten. */
int doc_hash(const struct json *doc, struct buf *scratch, char out[SHA256_HEX_SIZE], struct error *e);

/* A column that must be a string; a missing or other value is ERR_INPUT naming the column. */
int column_string(const struct json *doc, const char *column, struct str *out, struct error *e);
/* A column of the given type. */
int column_node(
	const struct json *doc, const char *column, enum json_type type, const struct json **out, struct error *e);

#endif
