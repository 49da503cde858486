/* What may stand behind `is`. */
#include "engine/text/jinja_builtin.h"
#include "engine/text/jinja_eval.h"

#define TYPE_TEST(test_name, condition)                                                                \
	static int test_name(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out) \
	{                                                                                              \
		(void)r;                                                                               \
		const struct jinja_value *v = &c->self;                                                \
		*out = jinja_bool(condition);                                                          \
		return 0;                                                                              \
	}

TYPE_TEST(is_defined, v->type != JINJA_UNDEFINED)
TYPE_TEST(is_undefined, v->type == JINJA_UNDEFINED)
TYPE_TEST(is_none, v->type == JINJA_NONE)
TYPE_TEST(is_boolean, v->type == JINJA_BOOL)
TYPE_TEST(is_true, v->type == JINJA_BOOL && v->boolean)
TYPE_TEST(is_false, v->type == JINJA_BOOL && !v->boolean)
TYPE_TEST(is_integer, v->type == JINJA_INT || v->type == JINJA_BIG)
TYPE_TEST(is_float, v->type == JINJA_REAL)
TYPE_TEST(is_number, jinja_is_number(v))
TYPE_TEST(is_string, v->type == JINJA_TEXT)
TYPE_TEST(is_mapping, v->type == JINJA_DICT)
TYPE_TEST(is_iterable, jinja_is_iterable(v))
TYPE_TEST(is_sequence,
	v->type == JINJA_TEXT || v->type == JINJA_LIST || v->type == JINJA_TUPLE || v->type == JINJA_DICT ||
		v->type == JINJA_RANGE || v->type == JINJA_UNDEFINED)
TYPE_TEST(is_callable,
	v->type == JINJA_MACRO || v->type == JINJA_FUNCTION || v->type == JINJA_METHOD || v->type == JINJA_JOINER ||
		v->type == JINJA_LOOP || v->type == JINJA_UNDEFINED)
TYPE_TEST(is_escaped, v->type == JINJA_TEXT && v->safe)

static int test_relation(struct jinja_run *r, const struct jinja_call *c, char op, struct jinja_value *out)
{
	bool holds;
	TRY(jinja_relation(r, op, &c->self, &c->p[0], &holds));
	*out = jinja_bool(holds);
	return 0;
}

#define RELATION_TEST(test_name, op)                                                                   \
	static int test_name(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out) \
	{                                                                                              \
		return test_relation(r, c, op, out);                                                   \
	}

RELATION_TEST(is_equal, '=')
RELATION_TEST(is_unequal, '!')
RELATION_TEST(is_less, '<')
RELATION_TEST(is_greater, '>')
RELATION_TEST(is_less_equal, 'l')
RELATION_TEST(is_greater_equal, 'g')
RELATION_TEST(is_in, 'i')

/* self % divisor == wanted */
static int test_remainder(
	struct jinja_run *r, const struct jinja_value *self, int64_t divisor, int64_t wanted, struct jinja_value *out)
{
	struct jinja_value by = jinja_int(divisor), rest, expected = jinja_int(wanted);
	bool same;
	if (self->type == JINJA_TEXT)
		return jinja_fail(r, "a str has no remainder");
	TRY(jinja_binary(r, '%', self, &by, &rest));
	TRY(jinja_equal(r, &rest, &expected, &same));
	*out = jinja_bool(same);
	return 0;
}

static int is_even(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return test_remainder(r, &c->self, 2, 0, out);
}

static int is_odd(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return test_remainder(r, &c->self, 2, 1, out);
}

static int is_divisible(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	int64_t divisor;
	TRY(jinja_need_int(r, c, 0, 0, &divisor));
	return test_remainder(r, &c->self, divisor, 0, out);
}

/* Python's `is`: the same object, which for constants is the same value. */
static int is_same(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	bool same = c->self.type == c->p[0].type;
	bool shared = c->self.type >= JINJA_LIST;
	if (same && shared)
		same = c->self.list == c->p[0].list;
	else if (same)
		TRY(jinja_equal(r, &c->self, &c->p[0], &same));
	*out = jinja_bool(same);
	return 0;
}

static int has_case(struct jinja_run *r, const struct jinja_call *c, const char *method, struct jinja_value *out)
{
	struct jinja_value text;
	struct jinja_arguments none = {0};
	struct str s;
	TRY(jinja_string(r, &c->self, &s));
	text = jinja_text(s);
	return jinja_builtin_call(r, jinja_method_find(JINJA_TEXT, str_of(method)), text, &none, out);
}

static int is_lower(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return has_case(r, c, "islower", out);
}

static int is_upper(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return has_case(r, c, "isupper", out);
}

static int is_filter(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	(void)r;
	*out = jinja_bool(c->self.type == JINJA_TEXT && jinja_filter_find(c->self.text));
	return 0;
}

static int is_test(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	(void)r;
	*out = jinja_bool(c->self.type == JINJA_TEXT && jinja_test_find(c->self.text));
	return 0;
}

const struct jinja_builtin jinja_tests[] = {
	{"defined", "", is_defined},
	{"undefined", "", is_undefined},
	{"none", "", is_none},
	{"boolean", "", is_boolean},
	{"true", "", is_true},
	{"false", "", is_false},
	{"integer", "", is_integer},
	{"float", "", is_float},
	{"number", "", is_number},
	{"string", "", is_string},
	{"mapping", "", is_mapping},
	{"iterable", "", is_iterable},
	{"sequence", "", is_sequence},
	{"callable", "", is_callable},
	{"escaped", "", is_escaped},
	{"eq", "other", is_equal},
	{"equalto", "other", is_equal},
	{"==", "other", is_equal},
	{"ne", "other", is_unequal},
	{"!=", "other", is_unequal},
	{"lt", "other", is_less},
	{"lessthan", "other", is_less},
	{"<", "other", is_less},
	{"gt", "other", is_greater},
	{"greaterthan", "other", is_greater},
	{">", "other", is_greater},
	{"le", "other", is_less_equal},
	{"<=", "other", is_less_equal},
	{"ge", "other", is_greater_equal},
	{">=", "other", is_greater_equal},
	{"in", "seq", is_in},
	{"even", "", is_even},
	{"odd", "", is_odd},
	{"divisibleby", "num", is_divisible},
	{"sameas", "other", is_same},
	{"lower", "", is_lower},
	{"upper", "", is_upper},
	{"filter", "", is_filter},
	{"test", "", is_test},
	{NULL, NULL, NULL},
};
