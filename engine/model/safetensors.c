#include "engine/model/safetensors.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json_strict.h"

enum { LENGTH_SIZE = 8, MAX_HEADER_SIZE = 100 * 1000 * 1000 };

struct safetensors {
	struct file_map map;           /* empty when the bytes are the caller's */
	struct tensor *tensors;        /* [count], in order of data offset */
	const struct tensor **by_name; /* [count] */
	size_t count;
	char *names; /* all names, NUL-terminated, one after another */
};

/* What is being read, for the functions that check one entry each. */
struct header {
	const char *name;    /* of the file, for errors */
	const uint8_t *data; /* the bytes behind the header */
	uint64_t data_size;
	struct safetensors *file;
	char *next_name; /* free room in file->names */
};

/* The length of the JSON text, checked against the file. */
static int header_length(const uint8_t *data, size_t size, const char *name, size_t *length, struct error *e)
{
	uint64_t n;

	if (size < LENGTH_SIZE)
		return error_set(e, ERR_INPUT, "%s: %zu bytes, too short for a safetensors file (at least %d)", name,
			size, LENGTH_SIZE);
	memcpy(&n, data, sizeof(n));
	if (n > MAX_HEADER_SIZE)
		return error_set(e, ERR_INPUT,
			"%s: header of %" PRIu64 " bytes, at most %d are accepted: not a safetensors file?", name, n,
			MAX_HEADER_SIZE);
	if (n > size - LENGTH_SIZE)
		return error_set(e, ERR_INPUT,
			"%s: header of %" PRIu64 " bytes in a file of %zu: the file is cut short", name, n, size);
	*length = (size_t)n;
	return 0;
}

static int check_metadata(const struct json *metadata, const char *name, struct error *e)
{
	if (json_is(metadata, JSON_NULL))
		return 0;
	if (!json_is(metadata, JSON_OBJECT))
		return error_set(e, ERR_INPUT, "%s: __metadata__ is %s, expected an object of strings", name,
			json_type_name(metadata));
	JSON_EACH (item, metadata) {
		if (!json_is(item, JSON_STRING))
			return error_set(e, ERR_INPUT, "%s: __metadata__ value of \"%.*s\" is %s, expected a string",
				name, STR_ARG(item->key), json_type_name(item));
	}
	return 0;
}

/* A value as an error shows it. */
static struct str shown(const struct json *value)
{
	return json_is(value, JSON_NUMBER) ? value->text : str_of(json_type_name(value));
}

/* An error of one tensor's entry. */
static int entry_error(const struct header *h, const struct tensor *t, struct error *e, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static int entry_error(const struct header *h, const struct tensor *t, struct error *e, const char *format, ...)
{
	char what[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	return error_set(e, ERR_INPUT, "%s: tensor \"%s\": %s", h->name, t->name, what);
}

static int parse_type(const struct header *h, const struct json *entry, struct tensor *t, struct error *e)
{
	const struct json *dtype = json_get(entry, "dtype");

	if (!json_is(dtype, JSON_STRING))
		return entry_error(h, t, e, "dtype is %s, expected a string", json_type_name(dtype));
	for (enum tensor_type type = 0; type < TENSOR_PLAIN_COUNT; type++) {
		if (str_is(dtype->text, tensor_type_name(type))) {
			t->type = type;
			return 0;
		}
	}
	return entry_error(h, t, e, "dtype \"%.*s\" is not supported", STR_ARG(dtype->text));
}

/* Fills rank, shape, count and size. */
static int parse_shape(const struct header *h, const struct json *entry, struct tensor *t, struct error *e)
{
	const struct json *shape = json_get(entry, "shape");

	if (!json_is(shape, JSON_ARRAY))
		return entry_error(h, t, e, "shape is %s, expected an array", json_type_name(shape));
	if (shape->count > TENSOR_MAX_RANK)
		return entry_error(h, t, e, "%zu dimensions, at most %d are supported", shape->count, TENSOR_MAX_RANK);
	t->count = 1;
	JSON_EACH (item, shape) {
		int64_t dimension;
		if (!json_int64(item, &dimension) || dimension < 0)
			return entry_error(h, t, e, "dimension %d is %.*s, expected an integer, 0 <= n < 2^63", t->rank,
				STR_ARG(shown(item)));
		if (__builtin_mul_overflow(t->count, (uint64_t)dimension, &t->count))
			return entry_error(h, t, e, "the number of elements overflows 64 bits");
		t->shape[t->rank++] = dimension;
	}
	if (__builtin_mul_overflow(t->count, tensor_type_size(t->type), &t->size))
		return entry_error(h, t, e, "the number of bytes overflows 64 bits");
	return 0;
}

static int parse_offsets(const struct header *h, const struct json *entry, struct tensor *t, struct error *e)
{
	const struct json *offsets = json_get(entry, "data_offsets");
	int64_t begin, end;

	if (!json_is(offsets, JSON_ARRAY) || offsets->count != 2)
		return entry_error(h, t, e, "data_offsets is %s%s, expected an array of two integers",
			json_type_name(offsets), json_is(offsets, JSON_ARRAY) ? " of another length" : "");
	if (!json_int64(json_at(offsets, 0), &begin) || !json_int64(json_at(offsets, 1), &end) || begin < 0 ||
		end < begin)
		return entry_error(h, t, e,
			"data_offsets are [%.*s, %.*s], expected two integers, 0 <= begin <= end < 2^63",
			STR_ARG(shown(json_at(offsets, 0))), STR_ARG(shown(json_at(offsets, 1))));
	if ((uint64_t)end > h->data_size)
		return entry_error(h, t, e,
			"data_offsets [%" PRId64 ", %" PRId64 "] reach past the %" PRIu64
			" bytes of data: the file is cut short or damaged",
			begin, end, h->data_size);
	if ((uint64_t)(end - begin) != t->size)
		return entry_error(h, t, e,
			"data_offsets [%" PRId64 ", %" PRId64 "] hold %" PRId64
			" bytes, its shape and dtype %s need %zu",
			begin, end, end - begin, tensor_type_name(t->type), t->size);
	t->data = h->data + begin;
	return 0;
}

static int parse_entry(struct header *h, const struct json *entry, struct tensor *t, struct error *e)
{
	struct str name = entry->key;

	if (name.length > 0) {
		if (memchr(name.data, 0, name.length))
			return error_set(e, ERR_INPUT, "%s: tensor name \"%.*s\" holds U+0000", h->name, STR_ARG(name));
		memcpy(h->next_name, name.data, name.length);
	}
	t->name = h->next_name;
	h->next_name += name.length + 1;
	if (!json_is(entry, JSON_OBJECT))
		return entry_error(h, t, e, "its entry is %s, expected an object", json_type_name(entry));
	TRY(parse_type(h, entry, t, e));
	TRY(parse_shape(h, entry, t, e));
	return parse_offsets(h, entry, t, e);
}

/* Empty tensors come before the one that starts at the same place. */
static int compare_places(const void *left, const void *right)
{
	const struct tensor *a = left, *b = right;

	if (a->data != b->data)
		return a->data < b->data ? -1 : 1;
	return (a->size > b->size) - (a->size < b->size);
}

static int compare_names(const void *left, const void *right)
{
	const struct tensor *const *a = left, *const *b = right;

	return strcmp((*a)->name, (*b)->name);
}

/* The tensors, in order, must cover the data exactly. */
static int check_cover(const struct header *h, struct error *e)
{
	const struct safetensors *s = h->file;
	const uint8_t *covered = h->data;

	for (size_t i = 0; i < s->count; i++) {
		const struct tensor *t = &s->tensors[i];
		if (t->data > covered)
			return error_set(e, ERR_INPUT,
				"%s: tensor \"%s\" begins at offset %td, but the data before it ends at %td: a hole",
				h->name, t->name, t->data - h->data, covered - h->data);
		if (t->data < covered)
			return error_set(e, ERR_INPUT, "%s: tensors \"%s\" and \"%s\" overlap", h->name,
				s->tensors[i - 1].name, t->name);
		covered += t->size;
	}
	if ((uint64_t)(covered - h->data) != h->data_size)
		return error_set(e, ERR_INPUT,
			"%s: the tensors end at offset %td, but %" PRIu64 " bytes of data are there", h->name,
			covered - h->data, h->data_size);
	return 0;
}

/* Room for all entries of the header and their names. */
static int allocate(struct safetensors *s, const struct json *root, struct error *e)
{
	size_t name_bytes = 0;

	JSON_EACH (item, root)
		name_bytes += item->key.length + 1;
	s->names = mem_calloc(name_bytes, 1, e);
	s->tensors = mem_calloc(root->count, sizeof(*s->tensors), e);
	s->by_name = mem_calloc(root->count, sizeof(const struct tensor *), e);
	return s->names && s->tensors && s->by_name ? 0 : ERR_MEMORY;
}

static int parse_header(struct header *h, const struct json *root, struct error *e)
{
	struct safetensors *s = h->file;

	if (!json_is(root, JSON_OBJECT))
		return error_set(
			e, ERR_INPUT, "%s: the header is %s, expected an object", h->name, json_type_name(root));
	TRY(allocate(s, root, e));
	h->next_name = s->names;
	JSON_EACH (item, root) {
		if (str_is(item->key, "__metadata__"))
			TRY(check_metadata(item, h->name, e));
		else
			TRY(parse_entry(h, item, &s->tensors[s->count++], e));
	}
	if (s->count == 0)
		return check_cover(h, e);
	qsort(s->tensors, s->count, sizeof(*s->tensors), compare_places);
	TRY(check_cover(h, e));
	for (size_t i = 0; i < s->count; i++)
		s->by_name[i] = &s->tensors[i];
	qsort(s->by_name, s->count, sizeof(const struct tensor *), compare_names);
	return 0;
}

int safetensors_parse(const uint8_t *data, size_t size, const char *name, struct safetensors **out, struct error *e)
{
	struct json_document *document = NULL;
	struct safetensors *s = NULL;
	size_t length = 0;
	int status;

	*out = NULL;
	TRY(header_length(data, size, name, &length, e));
	s = mem_calloc(1, sizeof(*s), e);
	if (!s)
		return ERR_MEMORY;
	status = json_parse(
		(struct str){(const char *)data + LENGTH_SIZE, length}, NULL, JSON_REFUSE_DOUBLED_KEYS, &document, e);
	if (status < 0) {
		error_prefix(e, "%s: header", name);
		goto cleanup;
	}
	struct header h = {
		.name = name,
		.data = data + LENGTH_SIZE + length,
		.data_size = size - LENGTH_SIZE - length,
		.file = s,
	};
	TRY_CLEANUP(status, parse_header(&h, json_root(document), e));
	*out = s;
	s = NULL;
cleanup:
	json_free(document);
	safetensors_close(s);
	return status;
}

int safetensors_open(const char *path, struct safetensors **out, struct error *e)
{
	struct file_map map;
	int status;

	*out = NULL;
	TRY(file_map_open(&map, path, e));
	status = safetensors_parse(map.data, map.size, path, out, e);
	if (status < 0)
		file_map_close(&map);
	else
		(*out)->map = map;
	return status;
}

void safetensors_close(struct safetensors *s)
{
	if (!s)
		return;
	file_map_close(&s->map);
	free(s->tensors);
	free(s->by_name);
	free(s->names);
	free(s);
}

int safetensors_count(const struct safetensors *s)
{
	return (int)s->count; /* a header of 100 MB has room for less than 2^31 entries */
}

const struct tensor *safetensors_at(const struct safetensors *s, int i)
{
	return &s->tensors[i];
}

const struct tensor *safetensors_find(const struct safetensors *s, const char *name)
{
	struct tensor wanted = {.name = name};
	const struct tensor *key = &wanted;
	const struct tensor **found;

	if (s->count == 0)
		return NULL;
	found = bsearch(&key, s->by_name, s->count, sizeof(const struct tensor *), compare_names);
	return found ? *found : NULL;
}
