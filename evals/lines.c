#include "evals/lines.h"

#include <stdlib.h>

#include "engine/base/file.h"

int lines_open(struct lines *l, const char *path, struct error *e)
{
	*l = (struct lines){.name = path && strcmp(path, "-") != 0 ? path : "standard input"};
	return file_read(path ? path : "-", &l->text, e);
}

void lines_close(struct lines *l)
{
	buf_free(&l->text);
	*l = (struct lines){0};
}

bool lines_next(struct lines *l, struct str *line)
{
	if (l->at >= l->text.length)
		return false;
	const char *start = l->text.data + l->at, *end = memchr(start, '\n', l->text.length - l->at);
	size_t length = end ? (size_t)(end - start) : l->text.length - l->at;
	l->at += length + (end != NULL);
	l->number++;
	*line = (struct str){start, length};
	return true;
}

int lines_next_json(struct lines *l, struct json_document **out, struct error *e)
{
	struct str line;

	*out = NULL;
	while (lines_next(l, &line)) {
		if (strspn(line.length ? line.data : "", " \t\r") >= line.length)
			continue;
		int status = json_parse(line, NULL, JSON_LINE | JSON_LAST_KEY_WINS, out, e);
		return status < 0 ? error_prefix(e, "%s:%d", l->name, l->number) : 0;
	}
	return 0;
}

int lines_error(const struct lines *l, struct error *e, const char *format, ...)
{
	char message[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(message, sizeof message, format, arguments);
	va_end(arguments);
	return error_set(e, ERR_INPUT, "%s:%d: %s", l->name, l->number, message);
}

int lines_member_text(
	const struct lines *l, const struct json *object, const char *key, struct str *out, struct error *e)
{
	const struct json *value = json_get(object, key);
	if (!json_is(value, JSON_STRING))
		return lines_error(l, e, "\"%s\" is %s: expected a string", key, json_type_name(value));
	*out = value->text;
	return 0;
}

int lines_ids(const struct lines *l, const struct json *array, const char *key, struct engine_ids *out, struct error *e)
{
	size_t at = 0;

	*out = (struct engine_ids){mem_calloc(array->count + 1, sizeof *out->data, e), 0};
	if (!out->data)
		return ERR_MEMORY;
	JSON_EACH (item, array) {
		int64_t id;
		if (!json_is(item, JSON_NUMBER) || !json_int64(item, &id) || id < 0 || id > INT32_MAX) {
			engine_ids_free(out);
			return lines_error(
				l, e, "\"%s\"[%zu] is not a token id: expected an integer from 0 up", key, at);
		}
		out->data[at++] = (int32_t)id;
	}
	out->count = at;
	return 0;
}
