#include "engine/model/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"

enum { MAX_DIMENSIONS = 4, DEFAULT_ALIGNMENT = 32, LENGTH_SIZE = 8 };

/* Bytes of an empty key and of a tensor without dimensions: what bounds the counts of the header. */
enum { SMALLEST_KEY = LENGTH_SIZE + 4 + 1, SMALLEST_TENSOR = LENGTH_SIZE + 4 + 4 + 8 };

static const struct {
	const char *name;
	size_t size; /* 0: each item has its own */
} value_types[GGUF_TYPE_COUNT] = {
	[GGUF_U8] = {"u8", 1},
	[GGUF_I8] = {"i8", 1},
	[GGUF_U16] = {"u16", 2},
	[GGUF_I16] = {"i16", 2},
	[GGUF_U32] = {"u32", 4},
	[GGUF_I32] = {"i32", 4},
	[GGUF_F32] = {"f32", 4},
	[GGUF_BOOL] = {"bool", 1},
	[GGUF_STRING] = {"string", 0},
	[GGUF_ARRAY] = {"array", 0},
	[GGUF_U64] = {"u64", 8},
	[GGUF_I64] = {"i64", 8},
	[GGUF_F64] = {"f64", 8},
};

struct gguf {
	struct file_map map; /* empty when the bytes are the caller's */
	char *name;
	struct gguf_key *keys; /* [key_count], in order of name */
	size_t key_count;
	struct tensor *tensors; /* [tensor_count], in order of name */
	size_t tensor_count;
	char *names; /* of the tensors, NUL-terminated, one after another */
};

/* ---- Reading from front to back ---- */

struct cursor {
	const char *name; /* of the file */
	const uint8_t *data;
	size_t size, at;
};

static size_t rest(const struct cursor *c)
{
	return c->size - c->at;
}

/* The next bytes, or NULL and ERR_INPUT past the end; what is being read stands in the error. */
static const uint8_t *take(struct cursor *c, size_t size, const char *what, struct error *e)
{
	const uint8_t *at = c->data + c->at;

	if (size > rest(c)) {
		error_set(e, ERR_INPUT,
			"%s: %s needs %zu bytes at offset %zu, but the file ends at %zu: it is cut short or damaged",
			c->name, what, size, c->at, c->size);
		return NULL;
	}
	c->at += size;
	return at;
}

static int take_u32(struct cursor *c, uint32_t *out, const char *what, struct error *e)
{
	const uint8_t *at = take(c, sizeof(*out), what, e);
	if (!at)
		return ERR_INPUT;
	memcpy(out, at, sizeof(*out));
	return 0;
}

static int take_u64(struct cursor *c, uint64_t *out, const char *what, struct error *e)
{
	const uint8_t *at = take(c, sizeof(*out), what, e);
	if (!at)
		return ERR_INPUT;
	memcpy(out, at, sizeof(*out));
	return 0;
}

static int take_text(struct cursor *c, struct str *out, const char *what, struct error *e)
{
	uint64_t length;
	TRY(take_u64(c, &length, what, e));
	const uint8_t *at = take(c, length, what, e);
	if (!at)
		return ERR_INPUT;
	*out = (struct str){(const char *)at, length};
	return 0;
}

/* ---- Keys ---- */

static int take_type(struct cursor *c, const struct gguf_key *key, enum gguf_type *out, struct error *e)
{
	uint32_t type;
	TRY(take_u32(c, &type, "the type of a key", e));
	if (type >= GGUF_TYPE_COUNT)
		return error_set(e, ERR_INPUT,
			"%s: key \"%.*s\": value type %" PRIu32 " is not known, expected 0 to %d", c->name,
			STR_ARG(key->name), type, GGUF_TYPE_COUNT - 1);
	*out = (enum gguf_type)type;
	return 0;
}

/* The items of a value; strings are walked, so that later reading needs no checks. */
static int take_items(struct cursor *c, const struct gguf_key *key, struct gguf_value *v, struct error *e)
{
	size_t size = value_types[v->type].size, start = c->at;
	struct str text;

	v->data = c->data + c->at;
	if (v->type == GGUF_STRING) {
		/* Each takes its length's bytes at least, so a false count ends soon. */
		for (uint64_t i = 0; i < v->count; i++)
			TRY(take_text(c, &text, "a string of a key", e));
	} else {
		if (v->count > rest(c) / size)
			return error_set(e, ERR_INPUT,
				"%s: key \"%.*s\" has %" PRIu64
				" items of type %s, more than the file has room for: it is cut short or damaged",
				c->name, STR_ARG(key->name), v->count, value_types[v->type].name);
		c->at += v->count * size;
	}
	v->size = c->at - start;
	return 0;
}

static int take_key(struct cursor *c, struct gguf_key *key, struct error *e)
{
	struct gguf_value *v = &key->value;

	TRY(take_text(c, &key->name, "a key", e));
	TRY(take_type(c, key, &v->type, e));
	v->count = 1;
	v->is_array = v->type == GGUF_ARRAY;
	if (v->is_array) {
		TRY(take_type(c, key, &v->type, e));
		if (v->type == GGUF_ARRAY)
			return error_set(e, ERR_INPUT, "%s: key \"%.*s\" is an array of arrays, which is not built",
				c->name, STR_ARG(key->name));
		TRY(take_u64(c, &v->count, "the count of an array", e));
	}
	return take_items(c, key, v, e);
}

static int compare_texts(struct str a, struct str b)
{
	size_t common = a.length < b.length ? a.length : b.length;
	int order = common ? memcmp(a.data, b.data, common) : 0;

	return order ? order : (a.length > b.length) - (a.length < b.length);
}

static int compare_keys(const void *left, const void *right)
{
	return compare_texts(((const struct gguf_key *)left)->name, ((const struct gguf_key *)right)->name);
}

static int read_keys(struct gguf *g, struct cursor *c, uint64_t count, struct error *e)
{
	if (count > rest(c) / SMALLEST_KEY)
		return error_set(e, ERR_INPUT,
			"%s: the header says %" PRIu64
			" keys, but %zu bytes are left: the file is cut short or damaged",
			c->name, count, rest(c));
	g->keys = mem_calloc(count, sizeof(*g->keys), e);
	if (!g->keys)
		return ERR_MEMORY;
	for (; g->key_count < count; g->key_count++)
		TRY(take_key(c, &g->keys[g->key_count], e));
	if (count > 0)
		qsort(g->keys, count, sizeof(*g->keys), compare_keys);
	for (size_t i = 1; i < count; i++)
		if (str_equal(g->keys[i - 1].name, g->keys[i].name))
			return error_set(
				e, ERR_INPUT, "%s: key \"%.*s\" is there twice", c->name, STR_ARG(g->keys[i].name));
	return 0;
}

/* ---- Tensors ---- */

/* The numbers of the format's types; those without a tensor_type are not built. */
static const struct {
	const char *name;
	bool built;
	enum tensor_type type;
} data_types[] = {
	[0] = {"F32", true, TENSOR_F32},
	[1] = {"F16", true, TENSOR_F16},
	[2] = {"Q4_0", true, TENSOR_Q4_0},
	[3] = {"Q4_1", true, TENSOR_Q4_1},
	[4] = {"Q4_2", false, 0},
	[5] = {"Q4_3", false, 0},
	[6] = {"Q5_0", true, TENSOR_Q5_0},
	[7] = {"Q5_1", true, TENSOR_Q5_1},
	[8] = {"Q8_0", true, TENSOR_Q8_0},
	[9] = {"Q8_1", false, 0},
	[10] = {"Q2_K", false, 0},
	[11] = {"Q3_K", false, 0},
	[12] = {"Q4_K", true, TENSOR_Q4_K},
	[13] = {"Q5_K", true, TENSOR_Q5_K},
	[14] = {"Q6_K", true, TENSOR_Q6_K},
	[15] = {"Q8_K", false, 0},
	[16] = {"IQ2_XXS", false, 0},
	[17] = {"IQ2_XS", false, 0},
	[18] = {"IQ3_XXS", false, 0},
	[19] = {"IQ1_S", false, 0},
	[20] = {"IQ4_NL", false, 0},
	[21] = {"IQ3_S", false, 0},
	[22] = {"IQ2_S", false, 0},
	[23] = {"IQ4_XS", false, 0},
	[24] = {"I8", true, TENSOR_I8},
	[25] = {"I16", true, TENSOR_I16},
	[26] = {"I32", true, TENSOR_I32},
	[27] = {"I64", true, TENSOR_I64},
	[28] = {"F64", true, TENSOR_F64},
	[29] = {"IQ1_M", false, 0},
	[30] = {"BF16", true, TENSOR_BF16},
	[31] = {"Q4_0_4_4", false, 0},
	[32] = {"Q4_0_4_8", false, 0},
	[33] = {"Q4_0_8_8", false, 0},
	[34] = {"TQ1_0", false, 0},
	[35] = {"TQ2_0", false, 0},
	[36] = {"IQ4_NL_4_4", false, 0},
	[37] = {"IQ4_NL_4_8", false, 0},
	[38] = {"IQ4_NL_8_8", false, 0},
	[39] = {"MXFP4", false, 0},
};

enum { DATA_TYPES = sizeof(data_types) / sizeof(data_types[0]) };

/* What stands in a tensor's entry besides the tensor itself. */
struct entry {
	struct str name;
	uint64_t offset;
};

static int take_data_type(struct cursor *c, const struct entry *entry, struct tensor *t, struct error *e)
{
	uint32_t type;
	TRY(take_u32(c, &type, "the type of a tensor", e));
	if (type >= DATA_TYPES || !data_types[type].built)
		return error_set(e, ERR_INPUT,
			"%s: tensor \"%.*s\": type %s (%" PRIu32
			") is not built; built: F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K",
			c->name, STR_ARG(entry->name), type < DATA_TYPES ? data_types[type].name : "unknown", type);
	t->type = data_types[type].type;
	return 0;
}

/* The file writes the fastest dimension first. */
static int take_shape(struct cursor *c, const struct entry *entry, struct tensor *t, struct error *e)
{
	uint32_t rank;
	TRY(take_u32(c, &rank, "the dimensions of a tensor", e));
	if (rank > MAX_DIMENSIONS)
		return error_set(e, ERR_INPUT,
			"%s: tensor \"%.*s\" has %" PRIu32 " dimensions, at most %d are supported", c->name,
			STR_ARG(entry->name), rank, MAX_DIMENSIONS);
	t->rank = (int)rank;
	t->count = 1;
	for (int i = t->rank - 1; i >= 0; i--) {
		uint64_t dimension;
		TRY(take_u64(c, &dimension, "the dimensions of a tensor", e));
		if (dimension > INT64_MAX || __builtin_mul_overflow(t->count, dimension, &t->count))
			return error_set(e, ERR_INPUT,
				"%s: tensor \"%.*s\": with dimension %" PRIu64
				" the number of elements overflows 64 bits",
				c->name, STR_ARG(entry->name), dimension);
		t->shape[i] = (int64_t)dimension;
	}
	return 0;
}

static int check_size(const struct cursor *c, const struct entry *entry, struct tensor *t, struct error *e)
{
	uint64_t block = tensor_type_block(t->type), row = t->rank ? (uint64_t)t->shape[t->rank - 1] : 1;

	if (row % block != 0)
		return error_set(e, ERR_INPUT,
			"%s: tensor \"%.*s\" has rows of %" PRIu64 " values, expected a multiple of %" PRIu64
			", the block of %s",
			c->name, STR_ARG(entry->name), row, block, tensor_type_name(t->type));
	if (__builtin_mul_overflow(t->count / block, tensor_type_size(t->type), &t->size))
		return error_set(e, ERR_INPUT, "%s: tensor \"%.*s\": the number of bytes overflows 64 bits", c->name,
			STR_ARG(entry->name));
	return 0;
}

static int take_tensor(struct cursor *c, struct entry *entry, struct tensor *t, struct error *e)
{
	TRY(take_text(c, &entry->name, "the name of a tensor", e));
	if (entry->name.length == 0 || memchr(entry->name.data, 0, entry->name.length))
		return error_set(e, ERR_INPUT, "%s: the tensor's name at offset %zu is empty or holds a zero byte",
			c->name, c->at - entry->name.length);
	TRY(take_shape(c, entry, t, e));
	TRY(take_data_type(c, entry, t, e));
	TRY(check_size(c, entry, t, e));
	return take_u64(c, &entry->offset, "the offset of a tensor", e);
}

/* The tensors get their names, NUL-terminated. */
static int name_tensors(struct gguf *g, const struct entry *entries, struct error *e)
{
	size_t size = 0;

	for (size_t i = 0; i < g->tensor_count; i++)
		size += entries[i].name.length + 1;
	char *next = g->names = mem_calloc(size, 1, e);
	if (!next)
		return ERR_MEMORY;
	for (size_t i = 0; i < g->tensor_count; i++) {
		g->tensors[i].name = memcpy(next, entries[i].name.data, entries[i].name.length);
		next += entries[i].name.length + 1;
	}
	return 0;
}

static int read_alignment(const struct gguf *g, size_t *out, struct error *e)
{
	int alignment = (int)*out;

	TRY(gguf_int(g, "general.alignment", 0, INT32_MAX, &alignment, e));
	if (alignment == 0 || (alignment & (alignment - 1)) != 0)
		return error_set(
			e, ERR_INPUT, "%s: general.alignment is %d, which is not a power of two", g->name, alignment);
	*out = (size_t)alignment;
	return 0;
}

/* Offsets count from the first multiple of the alignment behind the last tensor's entry. */
static int place_tensors(struct gguf *g, const struct cursor *c, const struct entry *entries, struct error *e)
{
	size_t alignment = DEFAULT_ALIGNMENT;

	TRY(read_alignment(g, &alignment, e));
	size_t start = (c->at + alignment - 1) & ~(alignment - 1);
	size_t available = c->size > start ? c->size - start : 0;
	for (size_t i = 0; i < g->tensor_count; i++) {
		struct tensor *t = &g->tensors[i];
		uint64_t offset = entries[i].offset;
		if (offset % alignment != 0)
			return error_set(e, ERR_INPUT,
				"%s: tensor \"%s\" begins at offset %" PRIu64
				", expected a multiple of the alignment %zu",
				c->name, t->name, offset, alignment);
		if (offset > available || t->size > available - offset)
			return error_set(e, ERR_INPUT,
				"%s: tensor \"%s\" has %zu bytes at offset %" PRIu64
				" of the data, but %zu are there: the file is cut short or damaged",
				c->name, t->name, t->size, offset, available);
		t->data = t->size > 0 ? c->data + start + offset : c->data;
	}
	return 0;
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
	const struct tensor *a = left, *b = right;

	return strcmp(a->name, b->name);
}

static int check_tensors(struct gguf *g, struct error *e)
{
	size_t n = g->tensor_count;

	if (n == 0)
		return 0;
	qsort(g->tensors, n, sizeof(*g->tensors), compare_places);
	for (size_t i = 1; i < n; i++) {
		const struct tensor *before = &g->tensors[i - 1], *t = &g->tensors[i];
		if (before->size > 0 && t->size > 0 && t->data < before->data + before->size)
			return error_set(
				e, ERR_INPUT, "%s: tensors \"%s\" and \"%s\" overlap", g->name, before->name, t->name);
	}
	qsort(g->tensors, n, sizeof(*g->tensors), compare_names);
	for (size_t i = 1; i < n; i++)
		if (strcmp(g->tensors[i - 1].name, g->tensors[i].name) == 0)
			return error_set(e, ERR_INPUT, "%s: tensor \"%s\" is there twice", g->name, g->tensors[i].name);
	return 0;
}

static int read_tensors(struct gguf *g, struct cursor *c, uint64_t count, struct error *e)
{
	struct entry *entries = NULL;
	int status = 0;

	if (count > rest(c) / SMALLEST_TENSOR)
		return error_set(e, ERR_INPUT,
			"%s: the header says %" PRIu64
			" tensors, but %zu bytes are left: the file is cut short or damaged",
			c->name, count, rest(c));
	g->tensors = mem_calloc(count, sizeof(*g->tensors), e);
	entries = mem_calloc(count, sizeof(*entries), e);
	if (!g->tensors || !entries) {
		status = ERR_MEMORY;
		goto cleanup;
	}
	for (; g->tensor_count < count; g->tensor_count++)
		TRY_CLEANUP(status, take_tensor(c, &entries[g->tensor_count], &g->tensors[g->tensor_count], e));
	TRY_CLEANUP(status, name_tensors(g, entries, e));
	TRY_CLEANUP(status, place_tensors(g, c, entries, e));
	status = check_tensors(g, e);
cleanup:
	free(entries);
	return status;
}

/* ---- Files ---- */

static int read_header(struct cursor *c, uint64_t *tensors, uint64_t *keys, struct error *e)
{
	const uint8_t *magic = take(c, 4, "the head of a GGUF file", e);
	uint32_t version;

	if (!magic)
		return ERR_INPUT;
	if (memcmp(magic, "GGUF", 4) != 0)
		return error_set(e, ERR_INPUT, "%s: does not begin with GGUF: not a GGUF file?", c->name);
	TRY(take_u32(c, &version, "the version", e));
	if (version != 2 && version != 3)
		return error_set(e, ERR_INPUT, "%s: GGUF version %" PRIu32 "%s is not built; built: 2, 3", c->name,
			version, version == 2U << 24 || version == 3U << 24 ? " (a big-endian file)" : "");
	TRY(take_u64(c, tensors, "the number of tensors", e));
	return take_u64(c, keys, "the number of keys", e);
}

int gguf_parse(const uint8_t *data, size_t size, const char *name, struct gguf **out, struct error *e)
{
	struct cursor c = {.name = name, .data = data ? data : (const uint8_t *)"", .size = size};
	struct gguf *g = mem_calloc(1, sizeof(*g), e);
	uint64_t tensors = 0, keys = 0;
	int status = 0;

	*out = NULL;
	if (!g)
		return ERR_MEMORY;
	g->name = strdup(name);
	if (!g->name) {
		status = error_set(e, ERR_MEMORY, "%s: no memory to open it", name);
		goto cleanup;
	}
	TRY_CLEANUP(status, read_header(&c, &tensors, &keys, e));
	TRY_CLEANUP(status, read_keys(g, &c, keys, e));
	TRY_CLEANUP(status, read_tensors(g, &c, tensors, e));
	*out = g;
	g = NULL;
cleanup:
	gguf_close(g);
	return status;
}

int gguf_open(const char *path, struct gguf **out, struct error *e)
{
	struct file_map map;
	int status;

	*out = NULL;
	TRY(file_map_open(&map, path, e));
	status = gguf_parse(map.data, map.size, path, out, e);
	if (status < 0)
		file_map_close(&map);
	else
		(*out)->map = map;
	return status;
}

void gguf_close(struct gguf *g)
{
	if (!g)
		return;
	file_map_close(&g->map);
	free(g->name);
	free(g->keys);
	free(g->tensors);
	free(g->names);
	free(g);
}

const char *gguf_name(const struct gguf *g)
{
	return g->name;
}

/* ---- Looking up ---- */

size_t gguf_key_count(const struct gguf *g)
{
	return g->key_count;
}

const struct gguf_key *gguf_key_at(const struct gguf *g, size_t i)
{
	return &g->keys[i];
}

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
	struct gguf_key wanted = {.name = str_of(key)};

	if (g->key_count == 0)
		return NULL;
	const struct gguf_key *found = bsearch(&wanted, g->keys, g->key_count, sizeof(*g->keys), compare_keys);
	return found ? &found->value : NULL;
}

size_t gguf_tensor_count(const struct gguf *g)
{
	return g->tensor_count;
}

const struct tensor *gguf_tensor_at(const struct gguf *g, size_t i)
{
	return &g->tensors[i];
}

const struct tensor *gguf_tensor_find(const struct gguf *g, const char *name)
{
	struct tensor wanted = {.name = name};

	if (g->tensor_count == 0)
		return NULL;
	return bsearch(&wanted, g->tensors, g->tensor_count, sizeof(*g->tensors), compare_names);
}
