/* Expressions of templates: from `or` down to names, with Jinja's precedence (** binds to the left). */
#include <stdlib.h>

#include "engine/base/decimal.h"
#include "engine/base/utf8.h"
#include "engine/text/jinja_builtin.h"
#include "engine/text/jinja_parser.h"

static struct jinja_node *parse_unary(struct jinja_parser *p, bool filters);

static struct jinja_node *node_of(
	struct jinja_parser *p, enum jinja_node_type type, char op, struct jinja_node *a, struct jinja_node *b)
{
	struct jinja_node *n = jinja_node_new(p, type);
	if (!n)
		return NULL;
	n->line = a->line;
	n->op = op;
	n->a = a;
	n->b = b;
	return jinja_node_done(p, n);
}

/* ---- Constants ---- */

/* The code point of digits behind a backslash; *at moves behind them. Negative: they are no code point. */
static int32_t escaped_code(struct str s, size_t *at, int digits, int base)
{
	int32_t code = 0;
	int n = 0;
	for (; n < digits && *at < s.length; n++, ++*at) {
		char c = s.data[*at];
		int digit = c >= '0' && c <= '9'                 ? c - '0'
			: (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
								 : 99;
		if (digit >= base)
			break;
		code = code > 0x10ffff ? code : code * base + digit;
	}
	if (base == 16 && n < digits)
		return -1;
	return code > 0x10ffff ? -1 : code;
}

/* One escape of Python's; *at stands behind the backslash. */
static bool decode_escape(struct jinja_parser *p, struct str s, size_t *at, struct buf *out)
{
	static const char letters[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
	char c = s.data[*at];
	const char *letter = c ? strchr(letters, c) : NULL;
	int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
	int32_t code;
	if (letter) {
		buf_append_char(out, values[letter - letters]);
		++*at;
		return true;
	}
	if (c == '\n') {
		++*at;
		return true;
	}
	if (digits) {
		++*at;
		code = escaped_code(s, at, digits, 16);
	} else if (c >= '0' && c <= '7') {
		code = escaped_code(s, at, 3, 8);
	} else {
		if (c == 'N')
			return jinja_parse_fail(p, "\\N{...} in a string is not known here");
		buf_append_char(out, '\\');
		return true;
	}
	if (code < 0)
		return jinja_parse_fail(p, "a string holds an escape that is no character");
	/* a lone surrogate could not be written anyway */
	utf8_append(out, code >= 0xd800 && code <= 0xdfff ? 0xfffd : code);
	return true;
}

static bool decode_string(struct jinja_parser *p, struct str s, struct buf *out)
{
	for (size_t at = 0; at < s.length;) {
		if (s.data[at] != '\\') {
			buf_append_char(out, s.data[at++]);
			continue;
		}
		at++;
		if (!decode_escape(p, s, &at, out))
			return false;
	}
	return true;
}

/* Strings side by side are one. */
static struct jinja_node *parse_string(struct jinja_parser *p)
{
	struct jinja_node *n = jinja_node_new(p, JINJA_N_CONSTANT);
	struct buf text = {0};
	bool good = n != NULL;
	for (; good && p->at->type == JINJA_STRING; p->at++)
		good = decode_string(p, p->at->text, &text);
	char *copy = good && !text.failed ? arena_alloc(p->arena, text.length + 1) : NULL;
	if (copy && text.length)
		memcpy(copy, text.data, text.length);
	if (copy)
		n->value = jinja_text((struct str){copy, text.length});
	buf_free(&text);
	if (good && !copy)
		return jinja_parse_fail(p, "the template is too large");
	return copy ? jinja_node_done(p, n) : NULL;
}

static char *digits_copy(struct jinja_parser *p)
{
	char *digits = arena_alloc(p->arena, p->at->text.length + 1);
	size_t n = 0;
	for (size_t i = 0; digits && i < p->at->text.length; i++)
		if (p->at->text.data[i] != '_')
			digits[n++] = p->at->text.data[i];
	return digits;
}

static struct jinja_node *parse_number(struct jinja_parser *p)
{
	struct jinja_node *n = jinja_node_new(p, JINJA_N_CONSTANT);
	char *digits = n ? digits_copy(p) : NULL;
	if (!digits)
		return n ? jinja_parse_fail(p, "the template is too large") : NULL;
	struct json number = {.type = JSON_NUMBER, .text = str_of(digits)};
	int64_t integer;
	char letter = digits[0] == '0' ? (char)(digits[1] | 0x20) : '\0';
	int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
	if (p->at->type == JINJA_FLOAT) {
		n->value = jinja_real(decimal_to_double(digits));
	} else if (base != 10) {
		if (strlen(digits) > 17)
			return jinja_parse_fail(p, "the number %.40s is too large", digits);
		n->value = jinja_int(strtoll(digits + 2, NULL, base));
	} else if (digits[0] == '0' || json_int64(&number, &integer)) {
		n->value = jinja_int(digits[0] == '0' ? 0 : integer);
	} else {
		n->value = jinja_text(str_of(digits));
		n->value.type = JINJA_BIG;
	}
	p->at++;
	return jinja_node_done(p, n);
}

static struct jinja_node *parse_word(struct jinja_parser *p)
{
	static const struct {
		const char *word;
		struct jinja_value value;
	} constants[] = {
		{"true", {.type = JINJA_BOOL, .boolean = true}},
		{"True", {.type = JINJA_BOOL, .boolean = true}},
		{"false", {.type = JINJA_BOOL}},
		{"False", {.type = JINJA_BOOL}},
		{"none", {.type = JINJA_NONE}},
		{"None", {.type = JINJA_NONE}},
	};
	struct jinja_node *n = jinja_node_new(p, JINJA_N_NAME);
	if (!n)
		return NULL;
	n->name = p->at->text;
	static const char *const specials[] = {"varargs", "kwargs", "caller"};
	for (int i = 0; i < 3; i++)
		if (str_is(n->name, specials[i]))
			p->specials |= (char)(1 << i);
	for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
		if (!str_is(n->name, constants[i].word))
			continue;
		n->type = JINJA_N_CONSTANT;
		n->value = constants[i].value;
	}
	p->at++;
	return jinja_node_done(p, n);
}

/* ---- Brackets ---- */

static struct jinja_node *parse_list(struct jinja_parser *p)
{
	struct jinja_node *n = jinja_node_new(p, JINJA_N_LIST);
	if (!n || !jinja_expect_operator(p, "["))
		return NULL;
	struct jinja_list_end end = {&n->items};
	while (!jinja_at_operator(p, "]")) {
		if (n->items && !jinja_expect_operator(p, ","))
			return NULL;
		if (jinja_at_operator(p, "]"))
			break;
		struct jinja_node *item = jinja_parse_expression(p, true);
		if (!item)
			return NULL;
		jinja_list_push(&end, item);
	}
	return jinja_expect_operator(p, "]") ? jinja_node_done(p, n) : NULL;
}

static struct jinja_node *parse_dict(struct jinja_parser *p)
{
	struct jinja_node *n = jinja_node_new(p, JINJA_N_DICT);
	if (!n || !jinja_expect_operator(p, "{"))
		return NULL;
	struct jinja_list_end end = {&n->items};
	while (!jinja_at_operator(p, "}")) {
		if (n->items && !jinja_expect_operator(p, ","))
			return NULL;
		if (jinja_at_operator(p, "}"))
			break;
		struct jinja_node *key = jinja_parse_expression(p, true);
		if (!key || !jinja_expect_operator(p, ":"))
			return NULL;
		struct jinja_node *value = jinja_parse_expression(p, true);
		struct jinja_node *pair = value ? node_of(p, JINJA_N_PAIR, 0, key, value) : NULL;
		if (!pair)
			return NULL;
		jinja_list_push(&end, pair);
	}
	return jinja_expect_operator(p, "}") ? jinja_node_done(p, n) : NULL;
}

static bool at_tuple_end(const struct jinja_parser *p, const char *stop)
{
	return p->at->type == JINJA_VARIABLE_END || p->at->type == JINJA_BLOCK_END || jinja_at_operator(p, ")") ||
		(stop && jinja_at_name(p, stop));
}

static struct jinja_node *parse_primary(struct jinja_parser *p);

enum items { ITEMS_EXPRESSIONS, ITEMS_CONDITIONS, ITEMS_TARGETS, ITEMS_MEMBERS };

static struct jinja_node *parse_item(struct jinja_parser *p, enum items kind)
{
	if (kind == ITEMS_EXPRESSIONS || kind == ITEMS_CONDITIONS)
		return jinja_parse_expression(p, kind == ITEMS_CONDITIONS);
	bool dotted = p->at->type == JINJA_NAME && p->at[1].type == JINJA_OPERATOR && str_is(p->at[1].text, ".");
	if (kind == ITEMS_TARGETS || !dotted)
		return parse_primary(p);
	struct jinja_node *n = jinja_node_new(p, JINJA_N_MEMBER);
	if (!n)
		return NULL;
	n->name = p->at->text;
	p->at += 2;
	if (p->at->type != JINJA_NAME)
		return jinja_parse_expected(p, "the name of an attribute");
	n->value = jinja_text(p->at++->text);
	return jinja_node_done(p, n);
}

/* In parentheses, no item at all is an empty tuple. */
static struct jinja_node *parse_items(struct jinja_parser *p, enum items kind, const char *stop, bool parentheses)
{
	struct jinja_node *n = jinja_node_new(p, JINJA_N_TUPLE);
	if (!n)
		return NULL;
	struct jinja_list_end end = {&n->items};
	bool tuple = false;
	while (!at_tuple_end(p, stop)) {
		struct jinja_node *item = parse_item(p, kind);
		if (!item)
			return NULL;
		jinja_list_push(&end, item);
		if (!jinja_take_operator(p, ","))
			break;
		tuple = true;
	}
	if (!tuple && n->items)
		return n->items;
	if (!tuple && !parentheses)
		return jinja_parse_expected(p, "an expression");
	return jinja_node_done(p, n);
}

struct jinja_node *jinja_parse_tuple(struct jinja_parser *p, bool conditions, const char *stop)
{
	return parse_items(p, conditions ? ITEMS_CONDITIONS : ITEMS_EXPRESSIONS, stop, false);
}

static struct jinja_node *parse_primary(struct jinja_parser *p)
{
	struct jinja_node *n;
	switch (p->at->type) {
	case JINJA_NAME:
		return parse_word(p);
	case JINJA_STRING:
		return parse_string(p);
	case JINJA_INTEGER:
	case JINJA_FLOAT:
		return parse_number(p);
	default:
		break;
	}
	if (!jinja_parse_enter(p))
		return NULL;
	if (jinja_at_operator(p, "[")) {
		n = parse_list(p);
	} else if (jinja_at_operator(p, "{")) {
		n = parse_dict(p);
	} else if (jinja_take_operator(p, "(")) {
		n = parse_items(p, ITEMS_CONDITIONS, NULL, true);
		n = n && jinja_expect_operator(p, ")") ? n : NULL;
	} else {
		n = jinja_parse_expected(p, "an expression");
	}
	p->depth--;
	return n;
}

/* ---- Targets ---- */

static bool is_target(struct jinja_parser *p, const struct jinja_node *n)
{
	if (n->type == JINJA_N_NAME || n->type == JINJA_N_MEMBER)
		return true;
	if (n->type != JINJA_N_TUPLE)
		return jinja_parse_expected(p, "a name to assign to");
	for (const struct jinja_node *item = n->items; item; item = item->next)
		if (!is_target(p, item))
			return false;
	return true;
}

struct jinja_node *jinja_parse_name_target(struct jinja_parser *p)
{
	if (p->at->type != JINJA_NAME)
		return jinja_parse_expected(p, "a name");
	struct jinja_node *n = parse_word(p);
	return n && is_target(p, n) ? n : NULL;
}

struct jinja_node *jinja_parse_target(struct jinja_parser *p, bool members, const char *stop)
{
	struct jinja_node *n = parse_items(p, members ? ITEMS_MEMBERS : ITEMS_TARGETS, stop, false);
	return n && is_target(p, n) ? n : NULL;
}

/* ---- Behind a value: attributes, items, calls, filters, tests ---- */

/* Between the parentheses of a call, which are taken. */
static bool parse_arguments(struct jinja_parser *p, struct jinja_node *call)
{
	struct jinja_list_end end = {&call->items};
	if (!jinja_expect_operator(p, "("))
		return false;
	while (!jinja_at_operator(p, ")")) {
		if (call->items && !jinja_expect_operator(p, ","))
			return false;
		if (jinja_at_operator(p, ")"))
			break;
		struct jinja_node *argument = jinja_node_new(p, JINJA_N_ARGUMENT);
		if (!argument)
			return false;
		bool keyword =
			p->at->type == JINJA_NAME && p->at[1].type == JINJA_OPERATOR && str_is(p->at[1].text, "=");
		if (keyword) {
			argument->name = p->at->text;
			p->at += 2;
		} else if (jinja_take_operator(p, "**")) {
			argument->op = 'p';
		} else if (jinja_take_operator(p, "*")) {
			argument->op = '*';
		}
		argument->a = jinja_parse_expression(p, true);
		if (!argument->a || !jinja_node_done(p, argument))
			return false;
		jinja_list_push(&end, argument);
	}
	return jinja_expect_operator(p, ")");
}

static struct jinja_node *parse_call(struct jinja_parser *p, struct jinja_node *callee)
{
	struct jinja_node *n = jinja_node_new(p, JINJA_N_CALL);
	if (!n)
		return NULL;
	n->a = callee;
	return parse_arguments(p, n) ? jinja_node_done(p, n) : NULL;
}

/* What stands between the brackets of a[...]: NULL with *slice for b:c:d. */
static bool parse_subscript(struct jinja_parser *p, struct jinja_node *n)
{
	struct jinja_node **parts[] = {&n->b, &n->c, &n->d};
	for (int i = 0; i < 3; i++) {
		if (!jinja_at_operator(p, ":") && !jinja_at_operator(p, "]")) {
			*parts[i] = jinja_parse_expression(p, true);
			if (!*parts[i])
				return false;
		}
		if (i == 2 || !jinja_take_operator(p, ":"))
			break;
		n->type = JINJA_N_SLICE;
	}
	if (n->type == JINJA_N_ITEM && !n->b)
		return jinja_parse_expected(p, "an index");
	if (n->type == JINJA_N_ITEM && jinja_at_operator(p, ",")) {
		struct jinja_node *tuple = jinja_node_new(p, JINJA_N_TUPLE);
		if (!tuple)
			return false;
		struct jinja_list_end end = {&tuple->items};
		jinja_list_push(&end, n->b);
		while (jinja_take_operator(p, ",")) {
			struct jinja_node *item = jinja_parse_expression(p, true);
			if (!item)
				return false;
			jinja_list_push(&end, item);
		}
		n->b = jinja_node_done(p, tuple);
		if (!n->b)
			return false;
	}
	return jinja_expect_operator(p, "]");
}

static struct jinja_node *parse_dot(struct jinja_parser *p, struct jinja_node *object)
{
	struct jinja_node *n = jinja_node_new(p, JINJA_N_ATTRIBUTE);
	if (!n)
		return NULL;
	n->a = object;
	if (p->at->type == JINJA_NAME) {
		n->name = p->at++->text;
	} else if (p->at->type == JINJA_INTEGER) {
		n->type = JINJA_N_ITEM;
		n->b = parse_number(p);
		if (!n->b)
			return NULL;
	} else {
		return jinja_parse_expected(p, "the name of an attribute");
	}
	return jinja_node_done(p, n);
}

static struct jinja_node *parse_postfix(struct jinja_parser *p, struct jinja_node *n)
{
	while (n) {
		if (jinja_take_operator(p, ".")) {
			n = parse_dot(p, n);
		} else if (jinja_take_operator(p, "[")) {
			struct jinja_node *item = jinja_node_new(p, JINJA_N_ITEM);
			if (!item)
				return NULL;
			item->a = n;
			n = parse_subscript(p, item) ? jinja_node_done(p, item) : NULL;
		} else if (jinja_at_operator(p, "(")) {
			n = parse_call(p, n);
		} else {
			return n;
		}
	}
	return NULL;
}

static bool parse_dotted_name(struct jinja_parser *p, struct str *out)
{
	if (p->at->type != JINJA_NAME)
		return jinja_parse_expected(p, "a name");
	*out = p->at++->text;
	while (jinja_at_operator(p, ".") && p->at[1].type == JINJA_NAME) {
		p->at += 2;
		out->length = (size_t)(p->at[-1].text.data + p->at[-1].text.length - out->data);
	}
	return true;
}

static void note_unknown(struct jinja_parser *p, const struct jinja_node *n)
{
	if (!n->builtin && !p->soft && !p->unknown)
		p->unknown = n;
}

static struct jinja_node *parse_filter(struct jinja_parser *p, struct jinja_node *subject)
{
	struct jinja_node *n = jinja_node_new(p, JINJA_N_FILTER);
	if (!n || !parse_dotted_name(p, &n->name))
		return NULL;
	n->a = subject;
	n->builtin = jinja_filter_find(n->name);
	note_unknown(p, n);
	if (jinja_at_operator(p, "(") && !parse_arguments(p, n))
		return NULL;
	return jinja_node_done(p, n);
}

struct jinja_node *jinja_parse_filters(struct jinja_parser *p, struct jinja_node *n, bool begun)
{
	while (n && (begun || jinja_take_operator(p, "|"))) {
		begun = false;
		n = parse_filter(p, n);
	}
	return n;
}

/* A test may take one argument without parentheses: `x is divisibleby 3`. */
static bool at_bare_argument(const struct jinja_parser *p)
{
	switch (p->at->type) {
	case JINJA_NAME:
		return !jinja_at_name(p, "else") && !jinja_at_name(p, "or") && !jinja_at_name(p, "and");
	case JINJA_STRING:
	case JINJA_INTEGER:
	case JINJA_FLOAT:
		return true;
	default:
		return jinja_at_operator(p, "[") || jinja_at_operator(p, "{");
	}
}

static bool parse_bare_argument(struct jinja_parser *p, struct jinja_node *test)
{
	if (jinja_at_name(p, "is"))
		return jinja_parse_fail(p, "tests cannot be chained with 'is'");
	struct jinja_node *argument = jinja_node_new(p, JINJA_N_ARGUMENT);
	if (!argument)
		return false;
	struct jinja_node *value = parse_primary(p);
	argument->a = value ? parse_postfix(p, value) : NULL;
	test->items = argument;
	return argument->a && jinja_node_done(p, argument);
}

static struct jinja_node *parse_test(struct jinja_parser *p, struct jinja_node *subject)
{
	bool negated = jinja_take_name(p, "not");
	struct jinja_node *n = jinja_node_new(p, JINJA_N_TEST);
	if (!n || !parse_dotted_name(p, &n->name))
		return NULL;
	n->a = subject;
	n->builtin = jinja_test_find(n->name);
	note_unknown(p, n);
	if (jinja_at_operator(p, "(") ? !parse_arguments(p, n) : at_bare_argument(p) && !parse_bare_argument(p, n))
		return NULL;
	if (!jinja_node_done(p, n))
		return NULL;
	return negated ? node_of(p, JINJA_N_UNARY, '!', n, NULL) : n;
}

static struct jinja_node *parse_filters_and_tests(struct jinja_parser *p, struct jinja_node *n)
{
	while (n) {
		if (jinja_take_operator(p, "|"))
			n = parse_filter(p, n);
		else if (jinja_take_name(p, "is"))
			n = parse_test(p, n);
		else if (jinja_at_operator(p, "("))
			n = parse_call(p, n);
		else
			return n;
	}
	return NULL;
}

/* ---- Operators ---- */

static struct jinja_node *parse_unary(struct jinja_parser *p, bool filters)
{
	struct jinja_node *n;
	char op = jinja_at_operator(p, "-") ? '-' : jinja_at_operator(p, "+") ? '+' : '\0';
	if (!jinja_parse_enter(p))
		return NULL;
	if (op) {
		p->at++;
		n = parse_unary(p, false);
		n = n ? node_of(p, JINJA_N_UNARY, op, n, NULL) : NULL;
	} else {
		n = parse_primary(p);
	}
	n = n ? parse_postfix(p, n) : NULL;
	if (n && filters)
		n = parse_filters_and_tests(p, n);
	p->depth--;
	return n;
}

/* Levels of operators that bind to the left, tightest first. */
static struct jinja_node *parse_binary(struct jinja_parser *p, int level);

static struct jinja_node *parse_concat(struct jinja_parser *p)
{
	struct jinja_node *first = parse_binary(p, 1);
	if (!first || !jinja_at_operator(p, "~"))
		return first;
	struct jinja_node *n = jinja_node_new(p, JINJA_N_CONCAT);
	if (!n)
		return NULL;
	struct jinja_list_end end = {&n->items};
	jinja_list_push(&end, first);
	while (jinja_take_operator(p, "~")) {
		struct jinja_node *item = parse_binary(p, 1);
		if (!item)
			return NULL;
		jinja_list_push(&end, item);
	}
	return jinja_node_done(p, n);
}

static struct jinja_node *parse_binary(struct jinja_parser *p, int level)
{
	static const struct {
		const char *text;
		char op;
	} operators[3][5] = {
		{{"**", 'p'}},
		{{"*", '*'}, {"/", '/'}, {"//", 'f'}, {"%", '%'}},
		{{"+", '+'}, {"-", '-'}},
	};
	struct jinja_node *left = level == 0 ? parse_unary(p, true) : level == 1 ? parse_binary(p, 0) : parse_concat(p);
	while (left) {
		int i = 0;
		while (operators[level][i].text && !jinja_at_operator(p, operators[level][i].text))
			i++;
		if (!operators[level][i].text)
			return left;
		p->at++;
		struct jinja_node *right = level == 0 ? parse_unary(p, true)
			: level == 1                  ? parse_binary(p, 0)
						      : parse_concat(p);
		left = right ? node_of(p, JINJA_N_BINARY, operators[level][i].op, left, right) : NULL;
	}
	return NULL;
}

/* The comparison that begins here, taken; 0: none. */
static char take_comparison(struct jinja_parser *p)
{
	static const struct {
		const char *text;
		char op;
	} operators[] = {{"==", '='}, {"!=", '!'}, {"<", '<'}, {">", '>'}, {"<=", 'l'}, {">=", 'g'}};
	for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
		if (jinja_take_operator(p, operators[i].text))
			return operators[i].op;
	if (jinja_take_name(p, "in"))
		return 'i';
	bool not_in = jinja_at_name(p, "not") && p->at[1].type == JINJA_NAME && str_is(p->at[1].text, "in");
	p->at += not_in ? 2 : 0;
	return not_in ? 'n' : '\0';
}

static struct jinja_node *parse_compare(struct jinja_parser *p)
{
	struct jinja_node *first = parse_binary(p, 2);
	if (!first)
		return NULL;
	char op = take_comparison(p);
	if (!op)
		return first;
	struct jinja_node *n = jinja_node_new(p, JINJA_N_COMPARE);
	if (!n)
		return NULL;
	n->a = first;
	struct jinja_list_end end = {&n->items};
	for (; op; op = take_comparison(p)) {
		struct jinja_node *right = parse_binary(p, 2);
		struct jinja_node *operand = right ? node_of(p, JINJA_N_OPERAND, op, right, NULL) : NULL;
		if (!operand)
			return NULL;
		jinja_list_push(&end, operand);
	}
	return jinja_node_done(p, n);
}

static struct jinja_node *parse_not(struct jinja_parser *p)
{
	if (!jinja_take_name(p, "not"))
		return parse_compare(p);
	if (!jinja_parse_enter(p))
		return NULL;
	struct jinja_node *n = parse_not(p);
	p->depth--;
	return n ? node_of(p, JINJA_N_UNARY, '!', n, NULL) : NULL;
}

static struct jinja_node *parse_and(struct jinja_parser *p)
{
	struct jinja_node *left = parse_not(p);
	while (left && jinja_take_name(p, "and")) {
		struct jinja_node *right = parse_not(p);
		left = right ? node_of(p, JINJA_N_AND, 0, left, right) : NULL;
	}
	return left;
}

static struct jinja_node *parse_or(struct jinja_parser *p)
{
	struct jinja_node *left = parse_and(p);
	while (left && jinja_take_name(p, "or")) {
		struct jinja_node *right = parse_and(p);
		left = right ? node_of(p, JINJA_N_OR, 0, left, right) : NULL;
	}
	return left;
}

struct jinja_node *jinja_parse_expression(struct jinja_parser *p, bool conditions)
{
	if (!jinja_parse_enter(p))
		return NULL;
	bool soft = p->soft;
	const struct jinja_node *unknown = p->unknown;
	struct jinja_node *value = parse_or(p);
	while (value && conditions && jinja_take_name(p, "if")) {
		p->unknown = unknown; /* what stands before its `if` is under a condition, too */
		p->soft = true;
		struct jinja_node *test = parse_or(p);
		struct jinja_node *n = test ? node_of(p, JINJA_N_CONDITION, 0, value, test) : NULL;
		if (n && jinja_take_name(p, "else")) {
			n->c = jinja_parse_expression(p, true);
			n = n->c ? jinja_node_done(p, n) : NULL;
		}
		value = n;
	}
	p->soft = soft;
	p->depth--;
	return value;
}
