#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/engine.h"
#include "engine/text/chat_sources.h"
#include "engine/text/jinja.h"

/* One of a model's templates, parsed. */
struct parsed {
	const struct chat_source *source;
	struct jinja *jinja;
	char hash[SHA256_HEX_SIZE];
};

struct engine_template {
	struct chat_sources sources;
	struct parsed plain, tools; /* tools.jinja NULL: the plain one serves both */
};

static int parse(const struct chat_source *source, struct parsed *out, struct error *e)
{
	out->source = source;
	sha256_hex(source->text, source->length, out->hash);
	return jinja_new((struct str){source->text, source->length}, source->place, &out->jinja, e);
}

static int no_template(const struct engine_template *t, const char *model, const char *which, struct error *e)
{
	struct buf names = {0};
	if (t->sources.count == 0)
		return error_set(e, ERR_INPUT, "%s: the model has no chat template", model);
	for (size_t i = 0; i < t->sources.count; i++)
		buf_printf(&names, "%s%s", i ? ", " : "", t->sources.items[i].name);
	int status = error_set(
		e, ERR_INPUT, "%s: no chat template is named \"%s\", there are: %s", model, which, buf_text(&names));
	buf_free(&names);
	return status;
}

/* A name with a slash or a dot is a file's. */
static bool is_path(const char *which)
{
	return strpbrk(which, "/.") || file_exists(which);
}

/* A file of its own, with the special tokens of the model where there is one. */
static int read_file(struct engine_template *t, const char *model, const char *path, struct error *e)
{
	struct chat_sources file;
	if (model)
		TRY(chat_sources_read(model, &t->sources, e));
	TRY(chat_sources_file(path, &file, e));
	struct chat_sources of_model = t->sources;
	memcpy(file.tokens, of_model.tokens, sizeof file.tokens);
	file.token_count = of_model.token_count;
	t->sources = file;
	of_model.token_count = 0;
	chat_sources_free(&of_model);
	return 0;
}

static int open_all(struct engine_template *t, const char *model, const char *which, struct error *e)
{
	bool file = which && (!model || is_path(which));
	if (file)
		TRY(read_file(t, model, which, e));
	else
		TRY(chat_sources_read(model, &t->sources, e));
	const char *name = which && !file ? which : "default";
	const struct chat_source *plain = chat_sources_find(&t->sources, name);
	const struct chat_source *tools = which ? NULL : chat_sources_find(&t->sources, "tool_use");
	if (!plain)
		return no_template(t, model, name, e);
	TRY(parse(plain, &t->plain, e));
	return tools ? parse(tools, &t->tools, e) : 0;
}

int engine_template_open(const char *model, const char *which, struct engine_template **out, struct error *e)
{
	struct engine_template *t = mem_calloc(1, sizeof *t, e);
	*out = NULL;
	if (!t)
		return ERR_MEMORY;
	int status = open_all(t, model, which, e);
	if (status < 0) {
		engine_template_close(t);
		return status;
	}
	*out = t;
	return 0;
}

void engine_template_close(struct engine_template *t)
{
	if (!t)
		return;
	jinja_delete(t->plain.jinja);
	jinja_delete(t->tools.jinja);
	chat_sources_free(&t->sources);
	free(t);
}

static const struct parsed *choose(const struct engine_template *t, bool tools)
{
	return tools && t->tools.jinja ? &t->tools : &t->plain;
}

static int check_objects(const struct json *list, const char *name, struct error *e)
{
	if (!list || json_is(list, JSON_NULL))
		return 0;
	if (!json_is(list, JSON_ARRAY))
		return error_set(
			e, ERR_INPUT, "\"%s\" is %s, expected an array of objects", name, json_type_name(list));
	JSON_EACH (item, list)
		if (!json_is(item, JSON_OBJECT))
			return error_set(e, ERR_INPUT, "\"%s\" holds %s, expected objects", name, json_type_name(item));
	return 0;
}

int engine_template_render(const struct engine_template *t, const struct engine_chat *chat, bool *asked_for_date,
	struct buf *out, struct error *e)
{
	static const struct json none = {.type = JSON_NULL}, yes = {.type = JSON_TRUE}, no = {.type = JSON_FALSE};
	const struct json *tools = chat->tools ? chat->tools : &none;
	struct jinja_variable variables[CHAT_TOKENS_MAX + 3] = {
		{"documents", &none, {0}},
		{"tools", tools, {0}},
		{"add_generation_prompt", chat->add_generation_prompt ? &yes : &no, {0}},
	};
	struct jinja_context context = {.variables = variables,
		.n_variables = 3,
		.more = chat->variables,
		.messages = chat->messages,
		.now = *chat->now};
	bool asked = false;
	for (size_t i = 0; i < t->sources.token_count; i++)
		variables[context.n_variables++] =
			(struct jinja_variable){t->sources.tokens[i].role, NULL, str_of(t->sources.tokens[i].text)};
	TRY(check_objects(tools, "tools", e));
	TRY(check_objects(json_get(chat->variables, "documents"), "documents", e));
	bool with_tools = !json_is(tools, JSON_NULL);
	int status = jinja_render(choose(t, with_tools)->jinja, &context, &asked, out, e);
	if (asked_for_date)
		*asked_for_date = asked;
	return status;
}

struct str engine_template_source(const struct engine_template *t, bool tools)
{
	const struct chat_source *source = choose(t, tools)->source;
	return (struct str){source->text, source->length};
}

const char *engine_template_hash(const struct engine_template *t, bool tools)
{
	return choose(t, tools)->hash;
}
