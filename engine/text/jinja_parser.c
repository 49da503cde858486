/* Statements of templates: tags with a beginning and an end, and text between them. */
#include "engine/text/jinja_parser.h"

#include "engine/text/jinja_builtin.h"

enum { PARSER_DEPTH_MAX = 600, EXPRESSION_DEPTH_MAX = 1000 };

/* ---- What both halves share ---- */

void *jinja_parse_fail(struct jinja_parser *p, const char *format, ...)
{
	char message[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(message, sizeof message, format, arguments);
	va_end(arguments);
	error_set(p->e, ERR_INPUT, "%s:%d: %s", p->name, p->at->line, message);
	return NULL;
}

void *jinja_parse_expected(struct jinja_parser *p, const char *what)
{
	if (p->at->type == JINJA_END)
		return jinja_parse_fail(p, "expected %s, found the end of the template", what);
	return jinja_parse_fail(p, "expected %s, found '%.*s'", what, STR_ARG(p->at->text));
}

struct jinja_node *jinja_node_new(struct jinja_parser *p, enum jinja_node_type type)
{
	struct jinja_node *n = arena_alloc(p->arena, sizeof *n);
	if (!n)
		return jinja_parse_fail(p, "the template is too large");
	n->type = type;
	n->line = p->at->line;
	return n;
}

struct jinja_node *jinja_node_done(struct jinja_parser *p, struct jinja_node *n)
{
	const struct jinja_node *operands[] = {n->a, n->b, n->c, n->d};
	for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
		if (operands[i] && operands[i]->depth > n->depth)
			n->depth = operands[i]->depth;
	for (const struct jinja_node *item = n->items; item; item = item->next)
		if (item->depth > n->depth)
			n->depth = item->depth;
	if (++n->depth > EXPRESSION_DEPTH_MAX)
		return jinja_parse_fail(p, "an expression is nested too deeply");
	return n;
}

bool jinja_parse_enter(struct jinja_parser *p)
{
	if (p->depth == PARSER_DEPTH_MAX)
		return jinja_parse_fail(p, "the template is nested too deeply");
	p->depth++;
	return true;
}

bool jinja_at_operator(const struct jinja_parser *p, const char *text)
{
	return p->at->type == JINJA_OPERATOR && str_is(p->at->text, text);
}

bool jinja_at_name(const struct jinja_parser *p, const char *name)
{
	return p->at->type == JINJA_NAME && str_is(p->at->text, name);
}

bool jinja_take_operator(struct jinja_parser *p, const char *text)
{
	bool there = jinja_at_operator(p, text);
	p->at += there;
	return there;
}

bool jinja_take_name(struct jinja_parser *p, const char *name)
{
	bool there = jinja_at_name(p, name);
	p->at += there;
	return there;
}

bool jinja_expect_operator(struct jinja_parser *p, const char *text)
{
	char what[8];
	snprintf(what, sizeof what, "'%s'", text);
	return jinja_take_operator(p, text) || jinja_parse_expected(p, what);
}

/* ---- Bodies ---- */

static bool parse_statements(struct jinja_parser *p, const char *const *ends, struct jinja_node **out);

static bool expect_block_end(struct jinja_parser *p)
{
	if (p->at->type != JINJA_BLOCK_END)
		return jinja_parse_expected(p, "the end of the tag");
	p->at++;
	return true;
}

/* From the end of the opening tag to the name in the tag that ends the body, which stays. */
static bool parse_body(struct jinja_parser *p, const char *const *ends, struct jinja_node **out)
{
	jinja_take_operator(p, ":");
	if (!expect_block_end(p) || !jinja_parse_enter(p))
		return false;
	bool good = parse_statements(p, ends, out);
	p->depth--;
	return good;
}

/* The body of a tag with a scope of its own: what is said of `if` around it does not reach in. */
static bool parse_inner(struct jinja_parser *p, const char *const *ends, struct jinja_node **out)
{
	bool soft = p->soft;
	p->soft = false;
	bool good = parse_body(p, ends, out);
	p->soft = soft;
	return good;
}

/* The same up to one end, which is taken. */
static bool parse_until(struct jinja_parser *p, const char *end, struct jinja_node **out)
{
	if (!parse_inner(p, (const char *const[]){end, NULL}, out))
		return false;
	p->at++;
	return true;
}

/* A body whose code is not that of the loop around it. */
static bool parse_callable(struct jinja_parser *p, const char *end, struct jinja_node *n)
{
	int loops = p->loops;
	char specials = p->specials;
	p->loops = 0;
	p->specials = 0;
	bool good = parse_until(p, end, &n->body);
	p->loops = loops;
	n->op = p->specials;
	p->specials = specials;
	return good;
}

/* ---- Statements ---- */

static struct jinja_node *parse_for(struct jinja_parser *p)
{
	struct jinja_node *n = jinja_node_new(p, JINJA_N_FOR);
	if (!n || !(n->a = jinja_parse_target(p, false, "in")))
		return NULL;
	if (!jinja_take_name(p, "in"))
		return jinja_parse_expected(p, "'in'");
	n->b = jinja_parse_tuple(p, false, "recursive");
	if (!n->b)
		return NULL;
	if (jinja_take_name(p, "if") && !(n->c = jinja_parse_expression(p, true)))
		return NULL;
	if (jinja_take_name(p, "recursive"))
		n->op = 'r';
	p->loops++;
	bool good = parse_inner(p, (const char *const[]){"endfor", "else", NULL}, &n->body);
	p->loops--;
	if (!good)
		return NULL;
	if (jinja_take_name(p, "endfor"))
		return n;
	p->at++;
	return parse_until(p, "endfor", &n->other) ? n : NULL;
}

static struct jinja_node *parse_if(struct jinja_parser *p)
{
	static const char *const ends[] = {"elif", "else", "endif", NULL};
	struct jinja_node *first = jinja_node_new(p, JINJA_N_IF), *n = first;
	bool soft = p->soft;
	p->soft = true;
	while (n) {
		n->a = jinja_parse_tuple(p, false, NULL);
		if (!n->a || !parse_body(p, ends, &n->body))
			return NULL;
		if (!jinja_take_name(p, "elif"))
			break;
		n->op = 'e';
		n->other = jinja_node_new(p, JINJA_N_IF);
		n = n->other;
	}
	if (!n)
		return NULL;
	if (jinja_take_name(p, "else") && !parse_body(p, ends + 2, &n->other))
		return NULL;
	p->soft = soft;
	p->at++;
	return first;
}

static struct jinja_node *parse_set(struct jinja_parser *p)
{
	struct jinja_node *n = jinja_node_new(p, JINJA_N_SET);
	if (!n || !(n->a = jinja_parse_target(p, true, NULL)))
		return NULL;
	if (jinja_take_operator(p, "=")) {
		n->b = jinja_parse_tuple(p, true, NULL);
		return n->b ? n : NULL;
	}
	n->type = JINJA_N_SET_BLOCK;
	struct jinja_node *body = jinja_node_new(p, JINJA_N_BODY);
	n->b = body ? jinja_parse_filters(p, body, false) : NULL;
	return n->b && parse_until(p, "endset", &n->body) ? n : NULL;
}

/* (a, b=1), the parentheses included. */
static bool parse_signature(struct jinja_parser *p, struct jinja_node **out)
{
	struct jinja_list_end end = {out};
	bool defaults = false;
	if (!jinja_expect_operator(p, "("))
		return false;
	while (!jinja_at_operator(p, ")")) {
		if (*out && !jinja_expect_operator(p, ","))
			return false;
		struct jinja_node *parameter = jinja_node_new(p, JINJA_N_PARAMETER);
		struct jinja_node *target = parameter ? jinja_parse_name_target(p) : NULL;
		if (!target)
			return false;
		parameter->name = target->name;
		if (jinja_take_operator(p, "=")) {
			parameter->a = jinja_parse_expression(p, true);
			if (!parameter->a)
				return false;
			defaults = true;
		} else if (defaults) {
			return jinja_parse_fail(p, "a parameter without a default follows one that has a default");
		}
		jinja_list_push(&end, parameter);
	}
	return jinja_expect_operator(p, ")");
}

static struct jinja_node *parse_macro(struct jinja_parser *p)
{
	struct jinja_node *n = jinja_node_new(p, JINJA_N_MACRO);
	struct jinja_node *target = n ? jinja_parse_name_target(p) : NULL;
	if (!target)
		return NULL;
	n->name = target->name;
	return parse_signature(p, &n->items) && parse_callable(p, "endmacro", n) ? n : NULL;
}

static struct jinja_node *parse_call_block(struct jinja_parser *p)
{
	struct jinja_node *n = jinja_node_new(p, JINJA_N_CALL_BLOCK);
	if (!n || (jinja_at_operator(p, "(") && !parse_signature(p, &n->items)))
		return NULL;
	n->a = jinja_parse_expression(p, true);
	if (n->a && n->a->type != JINJA_N_CALL)
		return jinja_parse_fail(p, "expected a call in {%% call %%}");
	return n->a && parse_callable(p, "endcall", n) ? n : NULL;
}

static struct jinja_node *parse_filtered(struct jinja_parser *p)
{
	struct jinja_node *n = jinja_node_new(p, JINJA_N_FILTERED);
	struct jinja_node *body = n ? jinja_node_new(p, JINJA_N_BODY) : NULL;
	n = body && (n->b = jinja_parse_filters(p, body, true)) ? n : NULL;
	return n && parse_until(p, "endfilter", &n->body) ? n : NULL;
}

static struct jinja_node *parse_with(struct jinja_parser *p)
{
	struct jinja_node *n = jinja_node_new(p, JINJA_N_WITH);
	if (!n)
		return NULL;
	struct jinja_list_end end = {&n->items};
	while (p->at->type != JINJA_BLOCK_END) {
		if (n->items && !jinja_expect_operator(p, ","))
			return NULL;
		struct jinja_node *set = jinja_node_new(p, JINJA_N_SET);
		if (!set || !(set->a = jinja_parse_name_target(p)) || !jinja_expect_operator(p, "=") ||
			!(set->b = jinja_parse_expression(p, true)))
			return NULL;
		jinja_list_push(&end, set);
	}
	return parse_until(p, "endwith", &n->body) ? n : NULL;
}

static struct jinja_node *parse_generation(struct jinja_parser *p)
{
	struct jinja_node *n = jinja_node_new(p, JINJA_N_SCOPE);
	return n && parse_callable(p, "endgeneration", n) ? n : NULL;
}

static struct jinja_node *parse_jump(struct jinja_parser *p)
{
	bool breaks = str_is(p->at[-1].text, "break");
	if (p->loops == 0)
		return jinja_parse_fail(p, "'%s' outside of a loop", breaks ? "break" : "continue");
	return jinja_node_new(p, breaks ? JINJA_N_BREAK : JINJA_N_CONTINUE);
}

static struct jinja_node *parse_print(struct jinja_parser *p)
{
	struct jinja_node *n = NULL;
	struct jinja_list_end end = {&n};
	do {
		struct jinja_node *one = jinja_node_new(p, JINJA_N_PRINT);
		if (!one || !(one->a = jinja_parse_expression(p, true)))
			return NULL;
		jinja_list_push(&end, one);
	} while (jinja_take_operator(p, ","));
	return n;
}

static const struct {
	const char *name;
	struct jinja_node *(*parse)(struct jinja_parser *p);
} tags[] = {
	{"for", parse_for},
	{"if", parse_if},
	{"set", parse_set},
	{"macro", parse_macro},
	{"call", parse_call_block},
	{"filter", parse_filtered},
	{"with", parse_with},
	{"generation", parse_generation},
	{"break", parse_jump},
	{"continue", parse_jump},
	{"print", parse_print},
};

/* Behind "{%": one statement or more. */
static struct jinja_node *parse_tag(struct jinja_parser *p)
{
	if (p->at->type != JINJA_NAME)
		return jinja_parse_expected(p, "the name of a tag");
	for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
		if (jinja_take_name(p, tags[i].name))
			return tags[i].parse(p);
	}
	return jinja_parse_fail(p, "the tag '%.*s' is not known here", STR_ARG(p->at->text));
}

static struct jinja_node *parse_variable(struct jinja_parser *p)
{
	p->at++;
	struct jinja_node *n = jinja_node_new(p, JINJA_N_PRINT);
	if (!n || !(n->a = jinja_parse_tuple(p, true, NULL)))
		return NULL;
	if (p->at->type != JINJA_VARIABLE_END)
		return jinja_parse_expected(p, "the end of the expression");
	p->at++;
	return n;
}

static struct jinja_node *parse_data(struct jinja_parser *p)
{
	struct jinja_node *n = jinja_node_new(p, JINJA_N_DATA);
	if (n)
		n->value = jinja_text(p->at->text);
	p->at++;
	return n;
}

static bool at_end_tag(const struct jinja_parser *p, const char *const *ends)
{
	for (; *ends; ends++)
		if (jinja_at_name(p, *ends))
			return true;
	return false;
}

/* Up to a tag with one of the names, whose name is then the next token. ends NULL: up to the template's end. */
static bool parse_statements(struct jinja_parser *p, const char *const *ends, struct jinja_node **out)
{
	struct jinja_node **last = out;
	while (p->at->type != JINJA_END) {
		if (p->at->type == JINJA_DATA) {
			*last = parse_data(p);
		} else if (p->at->type == JINJA_VARIABLE_BEGIN) {
			*last = parse_variable(p);
		} else {
			p->at++;
			if (ends && at_end_tag(p, ends))
				return true;
			*last = parse_tag(p);
			if (*last && !expect_block_end(p))
				return false;
		}
		if (!*last)
			return false;
		while (*last)
			last = &(*last)->next;
	}
	return !ends || jinja_parse_fail(p, "the template ends, expected {%% %s %%}", ends[0]);
}

int jinja_parse_tree(
	struct str source, const char *name, struct arena *arena, struct jinja_node **root, struct error *e)
{
	struct jinja_tokens tokens = {0};
	*root = NULL;
	int status = jinja_lex(source, name, &tokens, e);
	struct jinja_parser p = {.at = tokens.items, .name = name, .arena = arena, .e = e};
	if (status == 0 && !parse_statements(&p, NULL, root))
		status = ERR_INPUT;
	if (status == 0 && p.unknown)
		status = error_set(e, ERR_INPUT, "%s:%d: no %s is named '%.*s'", name, p.unknown->line,
			p.unknown->type == JINJA_N_FILTER ? "filter" : "test", STR_ARG(p.unknown->name));
	jinja_tokens_free(&tokens);
	return status;
}
