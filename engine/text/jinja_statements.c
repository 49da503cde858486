/* Statements: scopes, loops, macros, blocks of text. */
#include "engine/text/jinja_eval.h"

/* ---- Scopes ---- */

int jinja_scope_set(struct jinja_run *r, struct jinja_scope *scope, struct str name, struct jinja_value value)
{
	return jinja_dict_set(r, &scope->names, jinja_text(name), value);
}

static struct jinja_scope *scope_new(struct jinja_run *r, struct jinja_scope *parent)
{
	struct jinja_scope *scope = jinja_alloc(r, sizeof *scope);
	if (scope)
		scope->parent = parent;
	return scope;
}

/* Executes a body in that scope; a negative status, or its flow. */
static int execute_in(struct jinja_run *r, struct jinja_scope *scope, const struct jinja_node *body)
{
	struct jinja_scope *outer = r->scope;
	r->scope = scope;
	int status = jinja_execute(r, body);
	r->scope = outer;
	return status;
}

/* What a body writes, as a value. */
static int capture(
	struct jinja_run *r, struct jinja_scope *scope, const struct jinja_node *body, struct jinja_value *out)
{
	struct buf text = {0}, *outer = r->out;
	if (!scope)
		return ERR_INPUT;
	r->out = &text;
	int status = execute_in(r, scope, body);
	r->out = outer;
	return jinja_buf_keep(r, status < 0 ? status : 0, &text, out);
}

/* ---- Assignment ---- */

static int assign(struct jinja_run *r, const struct jinja_node *target, struct jinja_value value);

static int assign_member(struct jinja_run *r, const struct jinja_node *target, struct jinja_value value)
{
	struct jinja_node name = {.type = JINJA_N_NAME, .line = target->line, .name = target->name};
	struct jinja_value object;
	TRY(jinja_eval(r, &name, &object));
	if (object.type != JINJA_NAMESPACE)
		return jinja_fail(r, "cannot assign attribute on non-namespace object");
	if (target->value.text.data[0] == '_')
		return jinja_fail(r, "a namespace cannot have the attribute '%.*s': it begins with an underscore",
			STR_ARG(target->value.text));
	return jinja_dict_set(r, object.dict, target->value, value);
}

static int assign_tuple(struct jinja_run *r, const struct jinja_node *target, struct jinja_value value)
{
	struct jinja_list items;
	size_t wanted = 0;
	for (const struct jinja_node *n = target->items; n; n = n->next)
		wanted++;
	if (!jinja_is_iterable(&value))
		return jinja_fail(r, "cannot unpack non-iterable %s object", jinja_type_name(&value));
	TRY(jinja_iterate(r, &value, &items));
	if (items.count < wanted)
		return jinja_fail(r, "not enough values to unpack (expected %zu, got %zu)", wanted, items.count);
	if (items.count > wanted)
		return jinja_fail(r, "too many values to unpack (expected %zu)", wanted);
	size_t i = 0;
	for (const struct jinja_node *n = target->items; n; n = n->next)
		TRY(assign(r, n, items.items[i++]));
	return 0;
}

static int assign(struct jinja_run *r, const struct jinja_node *target, struct jinja_value value)
{
	r->line = target->line;
	if (target->type == JINJA_N_NAME)
		return jinja_scope_set(r, r->scope, target->name, value);
	return target->type == JINJA_N_MEMBER ? assign_member(r, target, value) : assign_tuple(r, target, value);
}

/* Sends a block's text through its filters. */
static int filter_block(struct jinja_run *r, const struct jinja_node *filters, struct jinja_value *text)
{
	struct jinja_value outer = r->block;
	r->block = *text;
	int status = jinja_eval(r, filters, text);
	r->block = outer;
	return status;
}

/* ---- Loops ---- */

/* The items for which the loop's `if` holds. */
static int filter_items(struct jinja_run *r, const struct jinja_node *n, struct jinja_list *items)
{
	struct jinja_scope *outer = r->scope, *scope = scope_new(r, outer);
	struct jinja_list kept = {0};
	int status = scope ? 0 : ERR_INPUT;
	r->scope = scope ? scope : outer;
	for (size_t i = 0; i < items->count && status == 0; i++) {
		struct jinja_value holds;
		scope->names.count = 0;
		status = assign(r, n->a, items->items[i]);
		if (status == 0)
			status = jinja_eval(r, n->c, &holds);
		if (status == 0 && jinja_truth(&holds))
			status = jinja_list_add(r, &kept, items->items[i]);
	}
	r->scope = outer;
	*items = kept;
	return status;
}

static int loop_body(struct jinja_run *r, struct jinja_loop *loop, struct jinja_scope *scope)
{
	struct jinja_value self = {.type = JINJA_LOOP, .loop = loop};
	TRY(jinja_work(r, 1));
	scope->names.count = 0; /* what the last round set is gone */
	TRY(jinja_scope_set(r, scope, str_of("loop"), self));
	struct jinja_scope *outer = r->scope;
	r->scope = scope;
	int status = assign(r, loop->node->a, loop->items.items[loop->index]);
	r->scope = outer;
	return status == 0 ? execute_in(r, scope, loop->node->body) : status;
}

static int loop_run(struct jinja_run *r, const struct jinja_node *n, const struct jinja_value *over, int64_t depth,
	struct jinja_scope *outer)
{
	struct jinja_loop *loop = jinja_alloc(r, sizeof *loop);
	struct jinja_scope *scope = loop ? scope_new(r, outer) : NULL;
	if (!scope)
		return ERR_INPUT;
	loop->node = n;
	loop->depth = depth;
	loop->scope = outer;
	if (over->type == JINJA_LOOP)
		return jinja_fail(r, "a loop cannot be gone through");
	TRY(jinja_iterate(r, over, &loop->items));
	if (n->c)
		TRY(filter_items(r, n, &loop->items));
	int flow = JINJA_FLOW_ON;
	for (; loop->index < loop->items.count && flow != JINJA_FLOW_BREAK; loop->index++) {
		flow = loop_body(r, loop, scope);
		if (flow < 0)
			return flow;
	}
	if (loop->items.count > 0 || !n->other)
		return 0;
	scope->names.count = 0;
	return execute_in(r, scope, n->other);
}

int jinja_loop_call(struct jinja_run *r, const struct jinja_loop *loop, const struct jinja_arguments *arguments,
	struct jinja_value *out)
{
	if (loop->node->op != 'r')
		return jinja_fail(r, "the loop must have the 'recursive' marker to be called");
	if (arguments->values.count != 1 || arguments->keywords.count)
		return jinja_fail(r, "loop() takes one argument");
	struct buf text = {0}, *outer = r->out;
	struct jinja_scope *scope = r->scope;
	r->out = &text;
	r->scope = loop->scope;
	int status = loop_run(r, loop->node, &arguments->values.items[0], loop->depth + 1, loop->scope);
	r->out = outer;
	r->scope = scope;
	return jinja_buf_keep(r, status < 0 ? status : 0, &text, out);
}

/* loop.previtem and loop.nextitem */
static int neighbour(struct jinja_run *r, const struct jinja_loop *loop, bool next, struct jinja_value *out)
{
	if (next ? loop->index + 1 >= loop->items.count : loop->index == 0)
		return jinja_undefined(r, out, "there is no %s item", next ? "next" : "previous");
	*out = loop->items.items[next ? loop->index + 1 : loop->index - 1];
	return 0;
}

static int loop_method(struct jinja_run *r, const struct jinja_value *loop, struct str name, struct jinja_value *out)
{
	const struct jinja_builtin *function = jinja_method_find(JINJA_LOOP, name);
	if (!function)
		return 0;
	struct jinja_method *method = jinja_alloc(r, sizeof *method);
	if (!method)
		return ERR_INPUT;
	*method = (struct jinja_method){*loop, function};
	*out = (struct jinja_value){.type = JINJA_METHOD, .method = method};
	return 0;
}

int jinja_loop_attribute(struct jinja_run *r, const struct jinja_value *v, struct str name, struct jinja_value *out)
{
	const struct jinja_loop *loop = v->loop;
	int64_t index = (int64_t)loop->index, count = (int64_t)loop->items.count;
	const struct {
		const char *name;
		int64_t value;
	} numbers[] = {{"index", index + 1}, {"index0", index}, {"revindex", count - index},
		{"revindex0", count - index - 1}, {"length", count}, {"depth", loop->depth + 1},
		{"depth0", loop->depth}};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		if (str_is(name, numbers[i].name)) {
			*out = jinja_int(numbers[i].value);
			return 0;
		}
	}
	if (str_is(name, "first") || str_is(name, "last")) {
		*out = jinja_bool(str_is(name, "first") ? index == 0 : index + 1 == count);
		return 0;
	}
	if (str_is(name, "previtem") || str_is(name, "nextitem"))
		return neighbour(r, loop, str_is(name, "nextitem"), out);
	return loop_method(r, v, name, out);
}

static int for_execute(struct jinja_run *r, const struct jinja_node *n)
{
	struct jinja_value over;
	TRY(jinja_eval(r, n->b, &over));
	r->line = n->line;
	return loop_run(r, n, &over, 0, r->scope);
}

/* ---- Macros ---- */

struct str jinja_macro_name(const struct jinja_macro *macro)
{
	return macro->name;
}

/* The value of one parameter: by position, by name, its default, or undefined. */
static int parameter_bind(struct jinja_run *r, const struct jinja_node *parameter, size_t place,
	const struct jinja_arguments *arguments, size_t *keywords_taken, struct jinja_value *out)
{
	struct jinja_pair *keyword;
	TRY(jinja_dict_find_text(r, &arguments->keywords, parameter->name, &keyword));
	if (place < arguments->values.count) {
		if (keyword)
			return jinja_fail(r, "the argument '%.*s' is given twice", STR_ARG(parameter->name));
		*out = arguments->values.items[place];
		return 0;
	}
	if (keyword) {
		++*keywords_taken;
		*out = keyword->value;
		return 0;
	}
	if (parameter->a)
		return jinja_eval(r, parameter->a, out);
	return jinja_undefined(r, out, "parameter '%.*s' was not provided", STR_ARG(parameter->name));
}

static bool is_parameter(const struct jinja_macro *macro, struct str name)
{
	for (const struct jinja_node *n = macro->parameters; n; n = n->next)
		if (str_equal(n->name, name))
			return true;
	return false;
}

/* Arguments that no parameter took: varargs and kwargs, or an error. */
static int extras_bind(struct jinja_run *r, const struct jinja_macro *macro, size_t n_parameters,
	const struct jinja_arguments *arguments, struct jinja_scope *scope)
{
	struct jinja_value rest, keywords;
	TRY(jinja_list_new(r, JINJA_TUPLE, 0, &rest));
	TRY(jinja_dict_new(r, JINJA_DICT, 0, &keywords));
	for (size_t i = n_parameters; i < arguments->values.count; i++)
		TRY(jinja_list_add(r, rest.list, arguments->values.items[i]));
	for (size_t i = 0; i < arguments->keywords.count; i++) {
		const struct jinja_pair *pair = &arguments->keywords.pairs[i];
		bool caller = str_is(pair->key.text, "caller") && (macro->specials & JINJA_CALLER);
		if (caller)
			TRY(jinja_scope_set(r, scope, pair->key.text, pair->value));
		else if (!is_parameter(macro, pair->key.text))
			TRY(jinja_dict_set(r, keywords.dict, pair->key, pair->value));
	}
	if (rest.list->count && !(macro->specials & JINJA_VARARGS))
		return jinja_fail(
			r, "macro '%.*s' takes not more than %zu argument(s)", STR_ARG(macro->name), n_parameters);
	if (keywords.dict->count && !(macro->specials & JINJA_KWARGS))
		return jinja_fail(r, "macro '%.*s' takes no keyword argument '%.*s'", STR_ARG(macro->name),
			STR_ARG(keywords.dict->pairs[0].key.text));
	if (macro->specials & JINJA_VARARGS)
		TRY(jinja_scope_set(r, scope, str_of("varargs"), rest));
	return macro->specials & JINJA_KWARGS ? jinja_scope_set(r, scope, str_of("kwargs"), keywords) : 0;
}

/* Defaults see the parameters before them. */
static int parameters_bind(struct jinja_run *r, const struct jinja_macro *macro,
	const struct jinja_arguments *arguments, struct jinja_scope *scope)
{
	size_t place = 0, keywords_taken = 0;
	struct jinja_scope *outer = r->scope;
	int status = 0;
	r->scope = scope;
	for (const struct jinja_node *n = macro->parameters; n && status == 0; n = n->next, place++) {
		struct jinja_value value;
		status = parameter_bind(r, n, place, arguments, &keywords_taken, &value);
		if (status == 0)
			status = jinja_scope_set(r, scope, n->name, value);
	}
	r->scope = outer;
	TRY(status);
	bool all = place >= arguments->values.count && keywords_taken == arguments->keywords.count;
	return all && !macro->specials ? 0 : extras_bind(r, macro, place, arguments, scope);
}

int jinja_macro_call(struct jinja_run *r, const struct jinja_macro *macro, const struct jinja_arguments *arguments,
	struct jinja_value *out)
{
	struct jinja_scope *scope = scope_new(r, macro->scope);
	if (!scope)
		return ERR_INPUT;
	TRY(parameters_bind(r, macro, arguments, scope));
	return capture(r, scope, macro->body, out);
}

static int macro_new(struct jinja_run *r, const struct jinja_node *n, struct str name, struct jinja_value *out)
{
	struct jinja_macro *macro = jinja_alloc(r, sizeof *macro);
	if (!macro)
		return ERR_INPUT;
	*macro = (struct jinja_macro){name, n->items, n->body, r->scope, n->op};
	*out = (struct jinja_value){.type = JINJA_MACRO, .macro = macro};
	return 0;
}

static int macro_execute(struct jinja_run *r, const struct jinja_node *n)
{
	struct jinja_value macro;
	TRY(macro_new(r, n, n->name, &macro));
	return jinja_scope_set(r, r->scope, n->name, macro);
}

/* {% call macro(...) %}: the body is what the macro calls as caller(). */
static int call_block_execute(struct jinja_run *r, const struct jinja_node *n)
{
	struct jinja_value callee, caller, text;
	struct jinja_arguments arguments;
	TRY(macro_new(r, n, str_of("caller"), &caller));
	TRY(jinja_eval(r, n->a->a, &callee));
	TRY(jinja_arguments_eval(r, n->a->items, &arguments));
	TRY(jinja_dict_set(r, &arguments.keywords, jinja_text(str_of("caller")), caller));
	r->line = n->line;
	TRY(jinja_call_value(r, &callee, &arguments, &text));
	return jinja_print(r, &text, r->out);
}

/* ---- The others ---- */

static int if_execute(struct jinja_run *r, const struct jinja_node *n)
{
	for (;; n = n->other) {
		struct jinja_value holds;
		TRY(jinja_eval(r, n->a, &holds));
		if (jinja_truth(&holds))
			return jinja_execute(r, n->body);
		if (n->op != 'e')
			return jinja_execute(r, n->other);
	}
}

static int set_execute(struct jinja_run *r, const struct jinja_node *n)
{
	struct jinja_value value;
	if (n->type == JINJA_N_SET) {
		TRY(jinja_eval(r, n->b, &value));
	} else {
		TRY(capture(r, scope_new(r, r->scope), n->body, &value));
		TRY(filter_block(r, n->b, &value));
	}
	return assign(r, n->a, value);
}

static int filtered_execute(struct jinja_run *r, const struct jinja_node *n)
{
	struct jinja_value text;
	TRY(capture(r, scope_new(r, r->scope), n->body, &text));
	TRY(filter_block(r, n->b, &text));
	return jinja_print(r, &text, r->out);
}

static int with_execute(struct jinja_run *r, const struct jinja_node *n)
{
	struct jinja_scope *scope = scope_new(r, r->scope);
	if (!scope)
		return ERR_INPUT;
	for (const struct jinja_node *set = n->items; set; set = set->next) {
		struct jinja_value value;
		TRY(jinja_eval(r, set->b, &value));
		TRY(jinja_scope_set(r, scope, set->a->name, value));
	}
	return execute_in(r, scope, n->body);
}

static int print_execute(struct jinja_run *r, const struct jinja_node *n)
{
	struct jinja_value value;
	TRY(jinja_eval(r, n->a, &value));
	r->line = n->line;
	return jinja_print(r, &value, r->out);
}

static int statement_execute(struct jinja_run *r, const struct jinja_node *n)
{
	struct jinja_scope *scope;
	switch (n->type) {
	case JINJA_N_DATA:
		return jinja_append(r, r->out, n->value.text);
	case JINJA_N_PRINT:
		return print_execute(r, n);
	case JINJA_N_FOR:
		return for_execute(r, n);
	case JINJA_N_IF:
		return if_execute(r, n);
	case JINJA_N_SET:
	case JINJA_N_SET_BLOCK:
		return set_execute(r, n);
	case JINJA_N_MACRO:
		return macro_execute(r, n);
	case JINJA_N_CALL_BLOCK:
		return call_block_execute(r, n);
	case JINJA_N_FILTERED:
		return filtered_execute(r, n);
	case JINJA_N_WITH:
		return with_execute(r, n);
	case JINJA_N_SCOPE:
		scope = scope_new(r, r->scope);
		return scope ? execute_in(r, scope, n->body) : ERR_INPUT;
	case JINJA_N_BREAK:
		return JINJA_FLOW_BREAK;
	default:
		return JINJA_FLOW_CONTINUE;
	}
}

int jinja_execute(struct jinja_run *r, const struct jinja_node *list)
{
	int flow = JINJA_FLOW_ON;
	if (r->depth >= JINJA_DEPTH_MAX)
		return jinja_fail(
			r, "calls and statements are nested too deeply: more than %d levels", JINJA_DEPTH_MAX);
	r->depth++;
	for (const struct jinja_node *n = list; n && flow == JINJA_FLOW_ON; n = n->next) {
		r->line = n->line;
		flow = jinja_work(r, 1);
		if (flow == 0)
			flow = statement_execute(r, n);
	}
	r->depth--;
	return flow;
}
