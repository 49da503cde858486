#include "datasets/records.h"

#include <stdint.h>
#include <stdlib.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"

static bool is_blank(struct str line)
{
	for (size_t i = 0; i < line.length; i++) {
		char c = line.data[i];
		if (c != ' ' && c != '\t' && c != '\r')
			return false;
	}
	return true;
}

bool line_next(struct line_cursor *c, struct str *line)
{
	while (c->position < c->text.length) {
		const char *start = c->text.data + c->position;
		size_t left = c->text.length - c->position;
		const char *feed = memchr(start, '\n', left);
		*line = (struct str){start, feed ? (size_t)(feed - start) : left};
		c->position += line->length + (feed ? 1 : 0);
		c->line++;
		if (!is_blank(*line))
			return true;
	}
	return false;
}

const char *input_name(const char *path)
{
	return strcmp(path, "-") == 0 ? "standard input" : path;
}

int doc_hash(const struct json *doc, struct buf *scratch, char out[SHA256_HEX_SIZE], struct error *e)
{
	buf_clear(scratch);
	json_dump_python(doc, 2, false, scratch);
	TRY(buf_check(scratch, e));
	sha256_hex(scratch->data, scratch->length, out);
	return 0;
}

static int record_parse(struct record *r, struct str line, struct buf *scratch, struct error *e)
{
	TRY(json_parse(line, NULL, JSON_LINE | JSON_LAST_KEY_WINS, &r->document, e));
	r->doc = json_root(r->document);
	if (!json_is(r->doc, JSON_OBJECT))
		return error_set(e, ERR_INPUT, "expected a JSON object, found %s", json_type_name(r->doc));
	return doc_hash(r->doc, scratch, r->hash, e);
}

/* Makes room for one more record, zeroed. */
static struct record *records_grow(struct records *r, size_t *capacity, struct error *e)
{
	if (r->count == *capacity) {
		size_t grown = *capacity ? *capacity * 2 : 64;
		struct record *items =
			grown <= SIZE_MAX / sizeof(*items) ? realloc(r->items, grown * sizeof(*items)) : NULL;
		if (!items) {
			error_set(e, ERR_MEMORY, "%s: out of memory for %zu records", r->path, grown);
			return NULL;
		}
		r->items = items;
		*capacity = grown;
	}
	struct record *record = &r->items[r->count++];
	*record = (struct record){0};
	return record;
}

static int records_parse(struct records *r, struct str text, struct error *e)
{
	size_t capacity = 0;
	struct line_cursor cursor = {.text = text};
	struct str line;
	struct buf scratch = {0};
	int status = 0;
	while (line_next(&cursor, &line)) {
		struct record *record = records_grow(r, &capacity, e);
		if (!record) {
			status = ERR_MEMORY;
			break;
		}
		record->line = cursor.line;
		status = record_parse(record, line, &scratch, e);
		if (status < 0) {
			status = error_prefix(e, "%s:%zu", r->path, cursor.line);
			break;
		}
	}
	buf_free(&scratch);
	return status;
}

int records_from_text(struct records *r, const char *name, struct str text, struct error *e)
{
	*r = (struct records){.path = strdup(name)};
	if (!r->path)
		return error_set(e, ERR_MEMORY, "%s: out of memory", name);
	sha256_hex(text.data, text.length, r->file_hash);
	int status = records_parse(r, text, e);
	if (status < 0)
		records_free(r);
	return status;
}

int records_load(struct records *r, const char *path, struct error *e)
{
	*r = (struct records){0};
	struct buf text = {0};
	int status = file_read(path, &text, e);
	if (status == 0)
		status = records_from_text(r, path, buf_str(&text), e);
	buf_free(&text);
	return status;
}

void records_free(struct records *r)
{
	for (size_t i = 0; i < r->count; i++)
		json_free(r->items[i].document);
	free(r->items);
	free(r->path);
	*r = (struct records){0};
}

int column_node(
	const struct json *doc, const char *column, enum json_type type, const struct json **out, struct error *e)
{
	const struct json *value = json_get(doc, column);
	if (!json_is(value, type)) {
		const struct json wanted = {.type = type};
		return error_set(e, ERR_INPUT, "column \"%s\" is %s, expected %s", column, json_type_name(value),
			json_type_name(&wanted));
	}
	*out = value;
	return 0;
}

int column_string(const struct json *doc, const char *column, struct str *out, struct error *e)
{
	const struct json *value = NULL;
	TRY(column_node(doc, column, JSON_STRING, &value, e));
	*out = value->text;
	return 0;
}
