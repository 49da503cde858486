#include "engine/text/jinja.h"

#include <stdlib.h>

#include "engine/base/utf8.h"
#include "engine/text/chat_messages.h"
#include "engine/text/jinja_eval.h"
#include "engine/text/jinja_tree.h"

enum { SOURCE_MAX = 1 << 20, TREE_MAX = 64 << 20 };

struct jinja {
	char *name;
	struct arena arena;
	struct jinja_node *root;
};

/* Line feeds alone end lines, and the one at the end of the file is none of the template's. */
static int source_copy(struct jinja *j, struct str source, struct str *out, struct error *e)
{
	char *copy = arena_alloc(&j->arena, source.length + 1);
	size_t length = 0;
	if (!copy)
		return error_set(e, ERR_MEMORY, "%s: out of memory", j->name);
	for (size_t i = 0; i < source.length; i++) {
		bool pair = source.data[i] == '\r' && i + 1 < source.length && source.data[i + 1] == '\n';
		if (!pair)
			copy[length++] = source.data[i] == '\r' ? '\n' : source.data[i];
	}
	*out = (struct str){copy, length - (length > 0 && copy[length - 1] == '\n')};
	return 0;
}

int jinja_new(struct str source, const char *name, struct jinja **out, struct error *e)
{
	struct str text;
	*out = NULL;
	if (source.length > SOURCE_MAX)
		return error_set(e, ERR_INPUT, "%s: a template of %zu bytes, expected at most %d", name, source.length,
			SOURCE_MAX);
	if (!utf8_valid(source))
		return error_set(e, ERR_INPUT, "%s: the template is not UTF-8", name);
	struct jinja *j = mem_calloc(1, sizeof *j, e);
	if (!j)
		return ERR_MEMORY;
	j->arena.limit = TREE_MAX;
	j->name = strdup(name);
	int status = j->name ? source_copy(j, source, &text, e) : error_set(e, ERR_MEMORY, "%s: out of memory", name);
	if (status == 0)
		status = jinja_parse_tree(text, j->name, &j->arena, &j->root, e);
	if (status < 0) {
		jinja_delete(j);
		return status;
	}
	*out = j;
	return 0;
}

void jinja_delete(struct jinja *j)
{
	if (!j)
		return;
	arena_free(&j->arena);
	free(j->name);
	free(j);
}

static int variables_set(struct jinja_run *r, const struct jinja_context *context, struct jinja_scope *scope)
{
	struct jinja_value v, messages = jinja_none();
	for (int i = 0; i < context->n_variables; i++) {
		const struct jinja_variable *variable = &context->variables[i];
		v = jinja_text(variable->text);
		if (variable->json)
			TRY(jinja_from_json(r, variable->json, &v));
		TRY(jinja_scope_set(r, scope, str_of(variable->name), v));
	}
	JSON_EACH (member, context->more) {
		if (str_is(member->key, "messages"))
			continue;
		TRY(jinja_from_json(r, member, &v));
		TRY(jinja_scope_set(r, scope, member->key, v));
	}
	if (context->messages)
		TRY(chat_messages_read(r, context->messages, &messages));
	return jinja_scope_set(r, scope, str_of("messages"), messages);
}

int jinja_render(const struct jinja *j, const struct jinja_context *context, bool *asked_for_date, struct buf *out,
	struct error *e)
{
	struct jinja_scope variables = {0}, top = {.parent = &variables};
	struct buf text = {0};
	struct jinja_run r = {.name = j->name,
		.line = 1,
		.arena = {.limit = JINJA_MEMORY_MAX},
		.steps_left = JINJA_STEPS,
		.scope = &top,
		.out = &text,
		.now = context->now,
		.e = e};
	int status = variables_set(&r, context, &variables);
	if (status == 0)
		status = jinja_execute(&r, j->root);
	if (status == 0) {
		buf_append_str(out, buf_str(&text));
		status = buf_check(out, e);
	}
	*asked_for_date = r.asked_for_date;
	buf_free(&text);
	arena_free(&r.arena);
	return status;
}
