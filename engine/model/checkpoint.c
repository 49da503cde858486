#include "engine/model/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/json_strict.h"
#include "engine/model/config_object.h"
#include "engine/model/gguf_model.h"
#include "engine/model/random_weights.h"
#include "engine/model/safetensors.h"

#define SINGLE_NAME "model.safetensors"
#define INDEX_NAME "model.safetensors.index.json"

struct shard {
	char *path;
	struct safetensors *file; /* NULL: a GGUF file */
};

struct entry {
	const struct tensor *tensor;
	const struct shard *shard;
	bool used;
};

struct checkpoint {
	char *path; /* of the folder or the GGUF file */
	struct model_config config;
	struct shard *shards;
	size_t n_shards;
	struct entry *entries; /* in order of name */
	size_t n_entries;
	struct gguf *gguf; /* NULL: a folder */
	struct gguf_model gguf_model;
	struct random_weights *random; /* NULL: the tensors are in files */
	struct thread_pool *threads;   /* that draw them */
};

/* One line of the index: a tensor and the file that holds it. */
struct index_line {
	struct str tensor, file;
};

static int compare_entries(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	return strcmp(a->tensor->name, b->tensor->name);
}

static int compare_files(const void *left, const void *right)
{
	struct str a = ((const struct index_line *)left)->file, b = ((const struct index_line *)right)->file;
	int order = memcmp(a.data, b.data, a.length < b.length ? a.length : b.length);

	return order ? order : (a.length > b.length) - (a.length < b.length);
}

static bool is_plain_file_name(struct str name)
{
	if (name.length == 0 || memchr(name.data, '/', name.length) || memchr(name.data, '\0', name.length))
		return false;
	return !str_is(name, ".") && !str_is(name, "..");
}

/* Fills the lines [map->count] of a weight_map, in order of file. */
static int read_weight_map(const struct config_object *map, struct index_line *lines, struct error *e)
{
	size_t n = 0;

	JSON_EACH (item, map->json) {
		if (!json_is(item, JSON_STRING) || !is_plain_file_name(item->text))
			return error_set(e, ERR_INPUT,
				"%s: %s%.*s is %s \"%.*s\", expected the name of a file in the same folder", map->file,
				map->path, STR_ARG(item->key), json_type_name(item), STR_ARG(item->text));
		lines[n++] = (struct index_line){.tensor = item->key, .file = item->text};
	}
	if (n > 0)
		qsort(lines, n, sizeof(*lines), compare_files);
	return 0;
}

/* One shard per file that the lines name. All must be there before the first is opened. */
static int open_shards(struct checkpoint *c, const struct index_line *lines, size_t n, struct error *e)
{
	struct buf name = {0};
	int status = 0;

	for (size_t i = 0; i < n; i++) {
		if (i > 0 && str_equal(lines[i].file, lines[i - 1].file))
			continue;
		buf_clear(&name);
		buf_append_str(&name, lines[i].file);
		TRY_CLEANUP(status, buf_check(&name, e));
		char *path = path_join(c->path, buf_text(&name), e);
		if (!path) {
			status = ERR_MEMORY;
			goto cleanup;
		}
		c->shards[c->n_shards++].path = path;
		if (!file_exists(path)) {
			status = error_set(e, ERR_MISSING, "%s: is missing, but %s names it", path, INDEX_NAME);
			goto cleanup;
		}
	}
	for (size_t i = 0; i < c->n_shards; i++)
		TRY_CLEANUP(status, safetensors_open(c->shards[i].path, &c->shards[i].file, e));
cleanup:
	buf_free(&name);
	return status;
}

/* The tensors of the lines, each in its shard. What a shard holds beyond the index is not taken. */
static int collect_indexed(struct checkpoint *c, const struct index_line *lines, size_t n, struct error *e)
{
	struct shard *shard = c->shards;
	struct buf name = {0};
	int status = 0;

	for (size_t i = 0; i < n; i++) {
		const struct tensor *tensor;
		if (i > 0 && !str_equal(lines[i].file, lines[i - 1].file))
			shard++;
		buf_clear(&name);
		buf_append_str(&name, lines[i].tensor);
		TRY_CLEANUP(status, buf_check(&name, e));
		tensor = safetensors_find(shard->file, buf_text(&name));
		if (!tensor || strlen(tensor->name) != name.length) { /* U+0000 in the index cuts no name short */
			status = error_set(e, ERR_INPUT, "%s: lacks tensor \"%.*s\", which %s puts there", shard->path,
				STR_ARG(lines[i].tensor), INDEX_NAME);
			goto cleanup;
		}
		c->entries[c->n_entries++] = (struct entry){.tensor = tensor, .shard = shard};
	}
cleanup:
	buf_free(&name);
	return status;
}

static int open_indexed(struct checkpoint *c, const char *index_path, struct error *e)
{
	struct json_document *document = NULL;
	struct index_line *lines = NULL;
	struct config_object index, map;
	int status;

	TRY(config_read_json(index_path, JSON_REFUSE_DOUBLED_KEYS, &document, e));
	TRY_CLEANUP(status, config_object_root(json_root(document), index_path, &index, e));
	TRY_CLEANUP(status, config_required(config_child(&index, "weight_map", &map, e), &index, "weight_map", e));
	size_t n = map.json->count;
	lines = mem_calloc(n, sizeof(*lines), e);
	c->shards = mem_calloc(n, sizeof(*c->shards), e);
	c->entries = mem_calloc(n, sizeof(*c->entries), e);
	if (!lines || !c->shards || !c->entries) {
		status = ERR_MEMORY;
		goto cleanup;
	}
	TRY_CLEANUP(status, read_weight_map(&map, lines, e));
	TRY_CLEANUP(status, open_shards(c, lines, n, e));
	status = collect_indexed(c, lines, n, e);
cleanup:
	free(lines);
	json_free(document);
	return status;
}

static int open_single(struct checkpoint *c, char **path, struct error *e)
{
	c->shards = mem_calloc(1, sizeof(*c->shards), e);
	if (!c->shards)
		return ERR_MEMORY;
	c->n_shards = 1;
	struct shard *shard = &c->shards[0];
	shard->path = *path;
	*path = NULL;
	TRY(safetensors_open(shard->path, &shard->file, e));
	int n = safetensors_count(shard->file);
	c->entries = mem_calloc((size_t)n, sizeof(*c->entries), e);
	if (!c->entries)
		return ERR_MEMORY;
	for (int i = 0; i < n; i++)
		c->entries[c->n_entries++] = (struct entry){.tensor = safetensors_at(shard->file, i), .shard = shard};
	return 0;
}

static int open_weights(struct checkpoint *c, struct error *e)
{
	char *single = path_join(c->path, SINGLE_NAME, e);
	char *index = path_join(c->path, INDEX_NAME, e);
	int status;

	if (!single || !index)
		status = ERR_MEMORY;
	else if (file_exists(single))
		status = open_single(c, &single, e);
	else if (file_exists(index))
		status = open_indexed(c, index, e);
	else
		status = error_set(e, ERR_MISSING, "%s: holds neither %s nor %s", c->path, SINGLE_NAME, INDEX_NAME);
	free(single);
	free(index);
	return status;
}

static int open_gguf(struct checkpoint *c, struct error *e)
{
	struct gguf_model *m = &c->gguf_model;

	TRY(gguf_open(c->path, &c->gguf, e));
	TRY(gguf_model_read(c->gguf, m, e));
	c->config = m->config;
	c->shards = mem_calloc(1, sizeof(*c->shards), e);
	c->entries = mem_calloc(m->count, sizeof(*c->entries), e);
	if (!c->shards || !c->entries)
		return ERR_MEMORY;
	c->shards[0].path = strdup(c->path);
	if (!c->shards[0].path)
		return error_set(e, ERR_MEMORY, "%s: no memory to open it", c->path);
	c->n_shards = 1;
	for (size_t i = 0; i < m->count; i++) {
		const struct tensor *t = &m->tensors[i];
		/* The divisors of the rope are taken with the description. */
		c->entries[c->n_entries++] =
			(struct entry){.tensor = t, .shard = c->shards, .used = t->data == c->config.rope.divisors};
	}
	return 0;
}

static int open_folder(struct checkpoint *c, struct error *e)
{
	TRY(model_config_read(c->path, &c->config, e));
	return open_weights(c, e);
}

int checkpoint_open(const char *path, struct checkpoint **out, struct error *e)
{
	struct checkpoint *c = mem_calloc(1, sizeof(*c), e);
	int status = 0;

	*out = NULL;
	if (!c)
		return ERR_MEMORY;
	c->path = strdup(path);
	if (!c->path) {
		status = error_set(e, ERR_MEMORY, "%s: no memory to open it", path);
		goto cleanup;
	}
	TRY_CLEANUP(status, file_exists(path) ? open_gguf(c, e) : open_folder(c, e));
	if (c->n_entries > 0)
		qsort(c->entries, c->n_entries, sizeof(*c->entries), compare_entries);
	*out = c;
	c = NULL;
cleanup:
	checkpoint_close(c);
	return status;
}

static int open_random(struct checkpoint *c, uint64_t seed, struct error *e)
{
	struct json_document *document = NULL;

	TRY(config_read_json(c->path, JSON_LAST_KEY_WINS, &document, e));
	int status = model_config_parse(json_root(document), c->path, NULL, &c->config, e);
	json_free(document);
	TRY(status);
	c->random = random_weights_new(seed, e);
	return c->random ? 0 : e->code;
}

int checkpoint_random(const char *config_path, uint64_t seed, struct checkpoint **out, struct error *e)
{
	struct checkpoint *c = mem_calloc(1, sizeof(*c), e);

	*out = NULL;
	if (!c)
		return ERR_MEMORY;
	c->path = strdup(config_path);
	int status =
		c->path ? open_random(c, seed, e) : error_set(e, ERR_MEMORY, "%s: no memory to open it", config_path);
	if (status < 0) {
		checkpoint_close(c);
		return status;
	}
	*out = c;
	return 0;
}

void checkpoint_close(struct checkpoint *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n_shards; i++) {
		safetensors_close(c->shards[i].file);
		free(c->shards[i].path);
	}
	free(c->shards);
	free(c->entries);
	gguf_model_free(&c->gguf_model);
	gguf_close(c->gguf);
	random_weights_delete(c->random);
	free(c->path);
	free(c);
}

void checkpoint_use_threads(struct checkpoint *c, struct thread_pool *threads)
{
	c->threads = threads;
}

const struct model_config *checkpoint_config(const struct checkpoint *c)
{
	return &c->config;
}

static struct entry *find_entry(const struct checkpoint *c, const char *name)
{
	struct tensor wanted = {.name = name};
	struct entry key = {.tensor = &wanted};

	if (c->n_entries == 0)
		return NULL;
	return bsearch(&key, c->entries, c->n_entries, sizeof(*c->entries), compare_entries);
}

const struct tensor *checkpoint_find(const struct checkpoint *c, const char *name)
{
	const struct entry *entry = find_entry(c, name);

	return entry ? entry->tensor : NULL;
}

const struct tensor *checkpoint_use(struct checkpoint *c, const char *name)
{
	struct entry *entry = find_entry(c, name);

	if (entry)
		entry->used = true;
	return entry ? entry->tensor : NULL;
}

/* "[2, 3]" */
static void print_shape(const int64_t *shape, int rank, char *out, size_t size)
{
	size_t used = (size_t)snprintf(out, size, "[");

	for (int i = 0; i < rank; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%" PRId64, i ? ", " : "", shape[i]);
	snprintf(out + used, size - used, "]");
}

/* A name as errors show it: as the reader finds it in the file. */
static const char *shown_name(const struct checkpoint *c, const char *name, char buffer[GGUF_MODEL_NAME_SIZE])
{
	if (!c->gguf)
		return name;
	gguf_model_name_in_file(name, buffer);
	return buffer;
}

int checkpoint_require(struct checkpoint *c, const char *name, int64_t rows, int64_t columns, const struct tensor **out,
	struct error *e)
{
	char expected[64], actual[TENSOR_MAX_RANK * 24], buffer[GGUF_MODEL_NAME_SIZE];
	const int64_t shape[2] = {rows, columns};
	int rank = columns ? 2 : 1;
	struct entry *entry = find_entry(c, name);

	if (c->random)
		return random_weights_draw(c->random, c->threads, name, rows, columns, out, e);
	print_shape(shape, rank, expected, sizeof(expected));
	if (!entry)
		return error_set(e, ERR_INPUT, "%s: tensor \"%s\" %s is missing",
			c->n_shards == 1 ? c->shards[0].path : c->path, shown_name(c, name, buffer), expected);
	const struct tensor *t = entry->tensor;
	if (t->rank != rank || memcmp(t->shape, shape, (size_t)rank * sizeof(shape[0])) != 0) {
		print_shape(t->shape, t->rank, actual, sizeof(actual));
		return error_set(e, ERR_INPUT, "%s: tensor \"%s\" has shape %s, expected %s", entry->shard->path,
			shown_name(c, name, buffer), actual, expected);
	}
	entry->used = true;
	*out = t;
	return 0;
}

/* A run of bytes of a file, without keeping them all in memory. */
static void hash_data(struct sha256 *digest, const uint8_t *data, size_t size)
{
	enum { PIECE = 4 << 20 };

	for (size_t done = 0, piece; done < size; done += piece) {
		piece = size - done < PIECE ? size - done : PIECE;
		sha256_update(digest, data + done, piece);
		file_map_release(data + done, piece);
	}
}

/* Lengths are part of the digest, so that no two sets of tensors give the same bytes. */
static void hash_tensor(struct sha256 *digest, const struct tensor *t)
{
	const char *type = tensor_type_name(t->type);
	uint64_t name_length = strlen(t->name), type_length = strlen(type), rank = (uint64_t)t->rank;

	sha256_update(digest, &name_length, sizeof(name_length));
	sha256_update(digest, t->name, name_length);
	sha256_update(digest, &type_length, sizeof(type_length));
	sha256_update(digest, type, type_length);
	sha256_update(digest, &rank, sizeof(rank));
	sha256_update(digest, t->shape, rank * sizeof(t->shape[0]));
	hash_data(digest, t->data, t->size);
}

static void hash_description(struct sha256 *digest, const struct checkpoint *c)
{
	for (size_t i = 0; i < gguf_key_count(c->gguf); i++) {
		const struct gguf_key *key = gguf_key_at(c->gguf, i);
		uint64_t lengths[2] = {key->name.length, key->value.size};
		if (!gguf_model_is_described_by(&c->gguf_model, key))
			continue;
		sha256_update(digest, lengths, sizeof(lengths));
		sha256_update(digest, key->name.data, key->name.length);
		sha256_update(digest, key->value.data, key->value.size);
	}
}

int checkpoint_fingerprint(const struct checkpoint *c, char out[SHA256_HEX_SIZE], struct error *e)
{
	struct sha256 *digest = sha256_new(e);

	if (!digest)
		return ERR_MEMORY;
	if (c->gguf)
		hash_description(digest, c);
	for (size_t i = 0; i < c->n_entries; i++) {
		if (c->entries[i].used)
			hash_tensor(digest, c->entries[i].tensor);
	}
	for (size_t i = 0; c->random && i < random_weights_count(c->random); i++)
		hash_tensor(digest, random_weights_at(c->random, i));
	sha256_finish(digest, out);
	sha256_delete(digest);
	return 0;
}
