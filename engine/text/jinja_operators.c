/* Arithmetic and comparison as Python does them. Integers have 64 bits: what does not fit is an error. */
#include <math.h>

#include "engine/text/jinja_eval.h"

static int fail_operands(struct jinja_run *r, const char *op, const struct jinja_value *a, const struct jinja_value *b)
{
	return jinja_fail(
		r, "unsupported operand type(s) for %s: '%s' and '%s'", op, jinja_type_name(a), jinja_type_name(b));
}

static const char *operator_name(char op)
{
	static const char *const names[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
	static const char codes[] = "+-*/f%p";
	return names[strchr(codes, op) - codes];
}

/* ---- Numbers ---- */

static int64_t floor_divide(int64_t a, int64_t b)
{
	int64_t quotient = a / b;
	return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

static bool int_power(int64_t base, int64_t exponent, int64_t *out)
{
	*out = 1;
	for (; exponent > 0; exponent >>= 1) {
		if ((exponent & 1) && __builtin_mul_overflow(*out, base, out))
			return false;
		if (exponent > 1 && __builtin_mul_overflow(base, base, &base))
			return false;
	}
	return true;
}

static int int_binary(struct jinja_run *r, char op, int64_t a, int64_t b, struct jinja_value *out)
{
	bool fits = true;
	int64_t result = 0;
	if ((op == '/' || op == 'f' || op == '%') && b == 0)
		return jinja_fail(r, "division by zero");
	switch (op) {
	case '+':
		fits = !__builtin_add_overflow(a, b, &result);
		break;
	case '-':
		fits = !__builtin_sub_overflow(a, b, &result);
		break;
	case '*':
		fits = !__builtin_mul_overflow(a, b, &result);
		break;
	case 'f':
	case '%':
		fits = !(a == INT64_MIN && b == -1);
		result = !fits ? 0 : op == 'f' ? floor_divide(a, b) : a - floor_divide(a, b) * b;
		break;
	case 'p':
		fits = int_power(a, b, &result);
		break;
	default:
		*out = jinja_real((double)a / (double)b);
		return 0;
	}
	if (!fits)
		return jinja_fail(r, "the result of %s does not fit in 64 bits", operator_name(op));
	*out = jinja_int(result);
	return 0;
}

static double real_modulo(double a, double b)
{
	double rest = fmod(a, b);
	if (rest != 0)
		return (rest < 0) != (b < 0) ? rest + b : rest;
	return copysign(0.0, b);
}

static int real_binary(struct jinja_run *r, char op, double a, double b, struct jinja_value *out)
{
	if ((op == '/' || op == 'f' || op == '%') && b == 0)
		return jinja_fail(r, op == '/' ? "float division by zero" : "float floor division or modulo by zero");
	if (op == 'p' && ((a == 0 && b < 0) || (a < 0 && b != floor(b))))
		return jinja_fail(r, "the power has no real value");
	double result = op == '+' ? a + b
		: op == '-'       ? a - b
		: op == '*'       ? a * b
		: op == '/'       ? a / b
		: op == 'f'       ? floor((a - real_modulo(a, b)) / b + 0.5)
		: op == '%'       ? real_modulo(a, b)
				  : pow(a, b);
	*out = jinja_real(result);
	return 0;
}

static int number_binary(
	struct jinja_run *r, char op, const struct jinja_value *a, const struct jinja_value *b, struct jinja_value *out)
{
	int64_t i, j;
	bool ints = jinja_as_int(a, &i) && jinja_as_int(b, &j);
	if (ints && !(op == 'p' && j < 0))
		return int_binary(r, op, i, j, out);
	if ((a->type == JINJA_BIG && b->type != JINJA_REAL) || (b->type == JINJA_BIG && a->type != JINJA_REAL))
		return jinja_fail(r, "an integer of more than 64 bits cannot be computed with");
	return real_binary(r, op, jinja_as_real(a), jinja_as_real(b), out);
}

/* ---- Text and lists ---- */

/* A safe text stays safe: the other is escaped. */
static int add_texts(
	struct jinja_run *r, const struct jinja_value *a, const struct jinja_value *b, struct jinja_value *out)
{
	bool safe = a->safe || b->safe;
	const struct jinja_value *both[] = {a, b};
	struct buf text = {0};
	int status = 0;
	for (int i = 0; i < 2 && status == 0; i++)
		status = safe && !both[i]->safe ? jinja_escape(r, both[i]->text, &text)
						: jinja_append(r, &text, both[i]->text);
	TRY(jinja_buf_keep(r, status, &text, out));
	out->safe = safe;
	return 0;
}

static int add_lists(
	struct jinja_run *r, const struct jinja_value *a, const struct jinja_value *b, struct jinja_value *out)
{
	struct jinja_value sum;
	TRY(jinja_list_new(r, a->type, a->list->count + b->list->count, &sum));
	for (size_t i = 0; i < a->list->count; i++)
		TRY(jinja_list_add(r, sum.list, a->list->items[i]));
	for (size_t i = 0; i < b->list->count; i++)
		TRY(jinja_list_add(r, sum.list, b->list->items[i]));
	*out = sum;
	return 0;
}

/* Many copies of a short text are written in blocks. */
static int repeat_text(struct jinja_run *r, struct str s, int64_t times, struct jinja_value *out)
{
	enum { BLOCK = 4096 };
	struct buf text = {0}, block = {0};
	int status = 0;
	if (s.length && times > (int64_t)(JINJA_TEXT_MAX / s.length))
		return jinja_fail(r, "a text is longer than %d MiB", JINJA_TEXT_MAX >> 20);
	int64_t in_block = 1;
	for (buf_append_str(&block, s); s.length && block.length < BLOCK && in_block < times; in_block++)
		buf_append_str(&block, s);
	for (; times >= in_block && s.length && status == 0; times -= in_block)
		status = jinja_append(r, &text, buf_str(&block));
	for (; times > 0 && s.length && status == 0; times--)
		status = jinja_append(r, &text, s);
	buf_free(&block);
	return jinja_buf_keep(r, status, &text, out);
}

static int repeat(struct jinja_run *r, const struct jinja_value *v, int64_t times, struct jinja_value *out)
{
	struct jinja_value copy = *v;
	int64_t n = times < 0 ? 0 : times;
	if (v->type == JINJA_TEXT) {
		TRY(repeat_text(r, v->text, n, out));
		out->safe = copy.safe;
		return 0;
	}
	TRY(jinja_list_new(r, v->type, 0, out));
	for (int64_t i = 0; i < n && copy.list->count; i++)
		for (size_t j = 0; j < copy.list->count; j++)
			TRY(jinja_list_add(r, out->list, copy.list->items[j]));
	return 0;
}

static bool is_sequence(const struct jinja_value *v)
{
	return v->type == JINJA_TEXT || v->type == JINJA_LIST || v->type == JINJA_TUPLE;
}

int jinja_binary(
	struct jinja_run *r, char op, const struct jinja_value *a, const struct jinja_value *b, struct jinja_value *out)
{
	int64_t times;
	/* text % undefined writes the undefined one as nothing */
	if (a->type == JINJA_UNDEFINED || (b->type == JINJA_UNDEFINED && !(op == '%' && a->type == JINJA_TEXT)))
		return jinja_fail_undefined(r, a->type == JINJA_UNDEFINED ? a : b);
	if (jinja_is_number(a) && jinja_is_number(b))
		return number_binary(r, op, a, b, out);
	if (op == '+' && a->type == b->type && a->type == JINJA_TEXT)
		return add_texts(r, a, b, out);
	if (op == '+' && a->type == b->type && (a->type == JINJA_LIST || a->type == JINJA_TUPLE))
		return add_lists(r, a, b, out);
	if (op == '+' && is_sequence(a))
		return jinja_fail(r, "can only concatenate %s (not \"%s\") to %s", jinja_type_name(a),
			jinja_type_name(b), jinja_type_name(a));
	if (op == '*' && is_sequence(a) && jinja_as_int(b, &times))
		return repeat(r, a, times, out);
	if (op == '*' && is_sequence(b) && jinja_as_int(a, &times))
		return repeat(r, b, times, out);
	if (op == '%' && a->type == JINJA_TEXT)
		return jinja_format_percent(r, a->text, b, out);
	return fail_operands(r, operator_name(op), a, b);
}

int jinja_relation(struct jinja_run *r, char op, const struct jinja_value *a, const struct jinja_value *b, bool *out)
{
	static const char *const names[] = {"<", ">", "<=", ">="};
	static const char codes[] = "<>lg";
	int order;
	if (op == '=' || op == '!') {
		TRY(jinja_equal(r, a, b, out));
		*out = *out == (op == '=');
		return 0;
	}
	if (op == 'i' || op == 'n') {
		TRY(jinja_contains(r, b, a, out));
		*out = *out == (op == 'i');
		return 0;
	}
	TRY(jinja_compare(r, a, b, names[strchr(codes, op) - codes], &order));
	if (op == '<' || op == 'l')
		*out = order == -1 || (op == 'l' && order == 0);
	else
		*out = order == 1 || (op == 'g' && order == 0);
	return 0;
}
