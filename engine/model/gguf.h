/* One GGUF file (versions 2 and 3, little endian), mapped and bounds-checked: keys with values, and tensors. All
 * borrow from the mapping. */
#ifndef ASSAY_ENGINE_MODEL_GGUF_H
#define ASSAY_ENGINE_MODEL_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/str.h"
#include "engine/model/tensor.h"

struct gguf;

/* Refuses: other versions, counts and lengths beyond the file, doubled keys and tensor names, arrays of arrays, an
 * alignment that is no power of two, more than four dimensions, sizes that overflow, rows that are no whole number of
 * blocks, types that are not built, data that begin off the alignment, overlap or reach past the end of the file.
 * Bytes that no tensor covers are accepted. Messages name the file and the key or tensor. */
int gguf_open(const char *path, struct gguf **out, struct error *e);
void gguf_close(struct gguf *g);

/* The same on bytes in memory (fuzzing, tests); data must outlive the result. */
int gguf_parse(const uint8_t *data, size_t size, const char *name, struct gguf **out, struct error *e);

const char *gguf_name(const struct gguf *g); /* the path: stands in errors */

/* ---- Keys ---- */

enum gguf_type {
	GGUF_U8,
	GGUF_I8,
	GGUF_U16,
	GGUF_I16,
	GGUF_U32,
	GGUF_I32,
	GGUF_F32,
	GGUF_BOOL,
	GGUF_STRING,
	GGUF_ARRAY,
	GGUF_U64,
	GGUF_I64,
	GGUF_F64,
	GGUF_TYPE_COUNT
};

struct gguf_value {
	enum gguf_type type; /* of the value; of each item where it is an array */
	bool is_array;
	uint64_t count;      /* items; 1 when it is no array */
	const uint8_t *data; /* of the first item; not aligned */
	size_t size;         /* bytes of all items */
};

struct gguf_key {
	struct str name;
	struct gguf_value value;
};

size_t gguf_key_count(const struct gguf *g);
const struct gguf_key *gguf_key_at(const struct gguf *g, size_t i);        /* in order of name */
const struct gguf_value *gguf_find(const struct gguf *g, const char *key); /* NULL: not there */

/* The readers below return 1 when the key is there, and 0, leaving *value alone, when it is not. Ranges include both
 * ends. Any integer type is an integer, any float type a number. */
int gguf_int(const struct gguf *g, const char *key, int low, int high, int *value, struct error *e);
int gguf_double(const struct gguf *g, const char *key, double low, double high, double *value, struct error *e);
int gguf_bool(const struct gguf *g, const char *key, bool *value, struct error *e);
int gguf_text(const struct gguf *g, const char *key, struct str *value, struct error *e);
/* An array of strings, of integers. */
int gguf_texts(const struct gguf *g, const char *key, struct gguf_value *value, struct error *e);
int gguf_ints(const struct gguf *g, const char *key, struct gguf_value *value, struct error *e);

/* Turns "not there" (status 0) into an error. */
int gguf_required(int status, const struct gguf *g, const char *key, struct error *e);

/* The next of an array's strings. *at starts as value->data. PRECOND: it was called fewer than value->count times. */
struct str gguf_next_text(const uint8_t **at);
/* Item i of an array of integers; those beyond 2^63 - 1 are 2^63 - 1. */
int64_t gguf_int_at(const struct gguf_value *value, uint64_t i);

/* ---- Tensors ---- */

size_t gguf_tensor_count(const struct gguf *g);
const struct tensor *gguf_tensor_at(const struct gguf *g, size_t i);           /* in order of name */
const struct tensor *gguf_tensor_find(const struct gguf *g, const char *name); /* NULL: not there */

#endif
