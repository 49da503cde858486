#include "engine/text/chat_sources.h"

#include <dirent.h>
#include <stdlib.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/json_strict.h"
#include "engine/text/tokenizer_gguf.h"

void chat_sources_free(struct chat_sources *s)
{
	for (size_t i = 0; i < s->count; i++) {
		free(s->items[i].name);
		free(s->items[i].place);
		free(s->items[i].text);
	}
	for (size_t i = 0; i < s->token_count; i++)
		free(s->tokens[i].text);
	free(s->items);
	*s = (struct chat_sources){0};
}

const struct chat_source *chat_sources_find(const struct chat_sources *s, const char *name)
{
	for (size_t i = 0; i < s->count; i++)
		if (strcmp(s->items[i].name, name) == 0)
			return &s->items[i];
	return NULL;
}

static char *copy_text(struct str s)
{
	char *copy = calloc(1, s.length + 1);
	if (copy && s.length)
		memcpy(copy, s.data, s.length);
	return copy;
}

/* A later one of a name that is there already is left out. */
static int add_source(struct chat_sources *s, struct str name, const char *place, struct str text, struct error *e)
{
	struct chat_source source = {copy_text(name), strdup(place), copy_text(text), text.length};
	struct chat_source *items = realloc(s->items, (s->count + 1) * sizeof *items);
	if (items)
		s->items = items;
	bool good = items && source.name && source.place && source.text;
	if (good && !chat_sources_find(s, source.name)) {
		s->items[s->count++] = source;
		return 0;
	}
	free(source.name);
	free(source.place);
	free(source.text);
	return good ? 0 : error_set(e, ERR_MEMORY, "out of memory for a chat template of %zu bytes", text.length);
}

static int add_token(struct chat_sources *s, const char *role, struct str text, struct error *e)
{
	for (size_t i = 0; i < s->token_count; i++)
		if (strcmp(s->tokens[i].role, role) == 0)
			return 0;
	char *copy = copy_text(text);
	if (!copy)
		return error_set(e, ERR_MEMORY, "out of memory for a token of %zu bytes", text.length);
	s->tokens[s->token_count++] = (struct chat_token){role, copy};
	return 0;
}

/* ---- Folders ---- */

/* A token is a text, or an object with its content. */
static int read_tokens(const struct json *root, struct chat_sources *s, struct error *e)
{
	static const char *const roles[CHAT_TOKENS_MAX] = {
		"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
	for (int i = 0; i < CHAT_TOKENS_MAX; i++) {
		const struct json *token = json_get(root, roles[i]);
		if (json_is(token, JSON_OBJECT))
			token = json_get(token, "content");
		if (json_is(token, JSON_STRING))
			TRY(add_token(s, roles[i], token->text, e));
	}
	return 0;
}

static int read_named(const struct json *list, const char *path, struct chat_sources *s, struct error *e)
{
	JSON_EACH (item, list) {
		const struct json *name = json_get(item, "name"), *text = json_get(item, "template");
		if (!json_is(name, JSON_STRING) || !json_is(text, JSON_STRING))
			return error_set(e, ERR_INPUT,
				"%s: \"chat_template\" holds %s, expected {\"name\", \"template\"}", path,
				json_type_name(item));
		TRY(add_source(s, name->text, path, text->text, e));
	}
	return 0;
}

static int read_config(const char *path, struct chat_sources *s, struct error *e)
{
	struct buf text = {0};
	struct json_document *document = NULL;
	int status = file_read(path, &text, e);
	if (status == 0)
		status = json_parse(buf_str(&text), path, JSON_LAST_KEY_WINS, &document, e);
	const struct json *root = document ? json_root(document) : NULL;
	const struct json *chat = json_get(root, "chat_template");
	if (status == 0)
		status = read_tokens(root, s, e);
	if (status == 0 && json_is(chat, JSON_STRING))
		status = add_source(s, str_of("default"), path, chat->text, e);
	else if (status == 0 && json_is(chat, JSON_ARRAY))
		status = read_named(chat, path, s, e);
	json_free(document);
	buf_free(&text);
	return status;
}

static int read_template_file(const char *path, struct str name, struct chat_sources *s, struct error *e)
{
	struct buf text = {0};
	int status = file_read(path, &text, e);
	if (status == 0)
		status = add_source(s, name, path, buf_str(&text), e);
	buf_free(&text);
	return status;
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int read_more_files(const char *folder, struct chat_sources *s, struct error *e)
{
	static const char ending[] = ".jinja";
	struct dirent **entries = NULL;
	int n = scandir(folder, &entries, NULL, compare_names), status = 0;
	for (int i = 0; i < n; i++) {
		struct str name = str_of(entries[i]->d_name);
		bool fits = name.length > sizeof ending - 1 &&
			strcmp(name.data + name.length - (sizeof ending - 1), ending) == 0;
		char *path = fits && status == 0 ? path_join(folder, name.data, e) : NULL;
		if (fits && status == 0)
			status = path ? read_template_file(
						path, (struct str){name.data, name.length - (sizeof ending - 1)}, s, e)
				      : ERR_MEMORY;
		free(path);
		free(entries[i]);
	}
	free(entries);
	return status;
}

/* Files of templates come first: they are the newer way, and win. */
static int read_folder(const char *model, struct chat_sources *s, struct error *e)
{
	static const char *const names[] = {
		"chat_template.jinja", "additional_chat_templates", "tokenizer_config.json", "special_tokens_map.json"};
	int status = 0;
	for (int i = 0; i < 4 && status == 0; i++) {
		char *path = path_join(model, names[i], e);
		if (!path)
			return ERR_MEMORY;
		if (i == 0 && file_exists(path))
			status = read_template_file(path, str_of("default"), s, e);
		else if (i == 1 && file_is_folder(path))
			status = read_more_files(path, s, e);
		else if (i > 1 && file_exists(path))
			status = read_config(path, s, e);
		free(path);
	}
	return status;
}

/* ---- GGUF ---- */

static int read_gguf_tokens(const struct gguf *file, struct chat_sources *s, struct error *e)
{
	struct error ignored;
	struct tokenizer *tokenizer;
	if (tokenizer_gguf_check(file, &ignored) < 0)
		return 0;
	TRY(tokenizer_open_gguf(file, &tokenizer, e));
	const struct {
		const char *role;
		int32_t id;
	} tokens[] = {{"bos_token", tokenizer_bos(tokenizer)}, {"eos_token", tokenizer_eos(tokenizer)}};
	int status = 0;
	for (int i = 0; i < 2 && status == 0; i++)
		if (tokens[i].id >= 0)
			status = add_token(s, tokens[i].role, tokenizer_piece(tokenizer, tokens[i].id), e);
	tokenizer_free(tokenizer);
	return status;
}

/* tokenizer.chat_template, and tokenizer.chat_template.NAME for others. */
static int read_gguf_keys(const struct gguf *file, struct chat_sources *s, struct error *e)
{
	static const char prefix[] = "tokenizer.chat_template";
	for (size_t i = 0; i < gguf_key_count(file); i++) {
		const struct gguf_key *key = gguf_key_at(file, i);
		size_t length = sizeof prefix - 1;
		bool named = key->name.length > length + 1 && key->name.data[length] == '.';
		if (!str_starts_with(key->name, str_of(prefix)) || (key->name.length > length && !named) ||
			key->value.type != GGUF_STRING || key->value.is_array)
			continue;
		const uint8_t *at = key->value.data;
		struct str name = str_of("default");
		if (named)
			name = (struct str){key->name.data + length + 1, key->name.length - length - 1};
		TRY(add_source(s, name, gguf_name(file), gguf_next_text(&at), e));
	}
	return 0;
}

static int read_gguf(const char *path, struct chat_sources *s, struct error *e)
{
	struct gguf *file;
	TRY(gguf_open(path, &file, e));
	int status = read_gguf_keys(file, s, e);
	if (status == 0)
		status = read_gguf_tokens(file, s, e);
	gguf_close(file);
	return status;
}

int chat_sources_read(const char *model, struct chat_sources *out, struct error *e)
{
	*out = (struct chat_sources){0};
	int status = file_exists(model) ? read_gguf(model, out, e) : read_folder(model, out, e);
	if (status < 0)
		chat_sources_free(out);
	return status;
}

int chat_sources_file(const char *path, struct chat_sources *out, struct error *e)
{
	*out = (struct chat_sources){0};
	return read_template_file(path, str_of("default"), out, e);
}
