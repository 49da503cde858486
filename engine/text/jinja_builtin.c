#include "engine/text/jinja_builtin.h"

#include "engine/text/jinja_eval.h"

static const struct jinja_builtin *find(const struct jinja_builtin *rows, struct str name)
{
	for (; rows->name; rows++)
		if (str_is(name, rows->name))
			return rows;
	return NULL;
}

const struct jinja_builtin *jinja_filter_find(struct str name)
{
	const struct jinja_builtin *b = find(jinja_text_filters, name);
	return b ? b : find(jinja_list_filters, name);
}

const struct jinja_builtin *jinja_test_find(struct str name)
{
	return find(jinja_tests, name);
}

const struct jinja_builtin *jinja_function_find(struct str name)
{
	return find(jinja_functions, name);
}

/* ---- Binding ---- */

static size_t parameter_count(const char *parameters)
{
	size_t n = *parameters != '\0';
	for (; *parameters; parameters++)
		n += *parameters == ' ';
	return n;
}

/* Takes the next name of a list of parameters; *optional when it ends with '?'. */
static struct str next_parameter(const char **parameters, bool *optional)
{
	struct str name = {*parameters, strcspn(*parameters, " ")};
	*parameters += name.length + ((*parameters)[name.length] == ' ');
	*optional = name.length && name.data[name.length - 1] == '?';
	name.length -= *optional;
	return name;
}

static int bind(struct jinja_run *r, const struct jinja_builtin *b, struct jinja_call *c)
{
	const struct jinja_arguments *given = c->arguments;
	size_t count = parameter_count(b->parameters), taken = 0;
	const char *rest = b->parameters;
	if (given->values.count > count)
		return jinja_fail(
			r, "%s() takes at most %zu argument(s), %zu were given", b->name, count, given->values.count);
	for (size_t i = 0; i < count; i++) {
		bool optional;
		struct jinja_pair *keyword;
		struct str name = next_parameter(&rest, &optional);
		TRY(jinja_dict_find_text(r, &given->keywords, name, &keyword));
		if (keyword && i < given->values.count)
			return jinja_fail(r, "%s(): the argument '%.*s' is given twice", b->name, STR_ARG(name));
		if (!keyword && i >= given->values.count && !optional)
			return jinja_fail(r, "%s(): the argument '%.*s' is missing", b->name, STR_ARG(name));
		if (keyword || i < given->values.count)
			c->p[i] = keyword ? keyword->value : given->values.items[i];
		taken += keyword != NULL;
	}
	if (taken < given->keywords.count)
		return jinja_fail(r, "%s() takes no such keyword argument among: %s", b->name,
			*b->parameters ? b->parameters : "none");
	return 0;
}

int jinja_builtin_call(struct jinja_run *r, const struct jinja_builtin *b, struct jinja_value self,
	const struct jinja_arguments *arguments, struct jinja_value *out)
{
	struct jinja_call c = {.self = self, .arguments = arguments, .name = b->name};
	TRY(jinja_work(r, 1));
	if (strcmp(b->parameters, "*") != 0)
		TRY(bind(r, b, &c));
	return b->function(r, &c, out);
}

/* ---- Parameters by kind ---- */

bool jinja_given(const struct jinja_value *v)
{
	return v->type != JINJA_MISSING && v->type != JINJA_NONE;
}

int jinja_need_text(struct jinja_run *r, const struct jinja_call *c, int parameter, struct str *out)
{
	const struct jinja_value *v = &c->p[parameter];
	if (v->type == JINJA_UNDEFINED)
		return jinja_fail_undefined(r, v);
	if (v->type != JINJA_TEXT)
		return jinja_fail(
			r, "%s(): argument %d must be str, not %s", c->name, parameter + 1, jinja_type_name(v));
	*out = v->text;
	return 0;
}

int jinja_need_int(struct jinja_run *r, const struct jinja_call *c, int parameter, int64_t fallback, int64_t *out)
{
	const struct jinja_value *v = &c->p[parameter];
	*out = fallback;
	if (!jinja_given(v))
		return 0;
	if (v->type == JINJA_UNDEFINED)
		return jinja_fail_undefined(r, v);
	if (!jinja_as_int(v, out))
		return jinja_fail(
			r, "%s(): argument %d must be an integer, not %s", c->name, parameter + 1, jinja_type_name(v));
	return 0;
}

bool jinja_flag(const struct jinja_call *c, int parameter, bool fallback)
{
	return c->p[parameter].type == JINJA_MISSING ? fallback : jinja_truth(&c->p[parameter]);
}

/* One step of a path: an index where it is all digits. */
static int follow_part(struct jinja_run *r, struct str part, struct jinja_value *v)
{
	struct jinja_value key = jinja_text(part), from = *v;
	int64_t index = 0;
	bool digits = part.length > 0 && part.length < 10;
	for (size_t i = 0; i < part.length && digits; i++) {
		digits = part.data[i] >= '0' && part.data[i] <= '9';
		index = index * 10 + (part.data[i] - '0');
	}
	if (digits)
		key = jinja_int(index);
	return jinja_item(r, &from, &key, v);
}

int jinja_follow(struct jinja_run *r, const struct jinja_value *v, const struct jinja_value *path,
	const struct jinja_value *fallback, struct jinja_value *out)
{
	struct jinja_value from = *v;
	*out = from;
	if (path->type != JINJA_TEXT) {
		TRY(jinja_item(r, &from, path, out));
		if (fallback && out->type == JINJA_UNDEFINED)
			*out = *fallback;
		return 0;
	}
	for (size_t at = 0; at <= path->text.length;) {
		size_t dot = str_find(path->text, str_of("."), at);
		size_t end = dot == SIZE_MAX ? path->text.length : dot;
		TRY(follow_part(r, (struct str){path->text.data + at, end - at}, out));
		if (fallback && out->type == JINJA_UNDEFINED)
			*out = *fallback;
		at = end + 1;
	}
	return 0;
}
