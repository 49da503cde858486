/* Python's two ways to write values into a text: text % values and text.format(...). */
#include <math.h>
#include <stdlib.h>

#include "engine/base/utf8.h"
#include "engine/text/jinja_builtin.h"
#include "engine/text/jinja_eval.h"
#include "engine/text/jinja_text.h"

enum { WIDTH_MAX = 100000 };

/* How one value is written. */
struct spec {
	int32_t fill;
	char align; /* '<', '>', '^', '=', or 0: as is usual for the type */
	char sign;  /* '+', ' ', or 0 */
	bool alternate, zero, comma;
	int width, precision; /* precision -1: none */
	char type;            /* 0: none */
};

static bool is_one_of(char c, const char *set)
{
	return c && strchr(set, c);
}

/* ---- Numbers ---- */

/* A comma before each group of three digits of the whole part. */
static void group_digits(const char *digits, struct buf *out)
{
	size_t whole = strspn(digits, "0123456789");
	for (size_t i = 0; i < whole; i++) {
		if (i > 0 && (whole - i) % 3 == 0)
			buf_append_char(out, ',');
		buf_append_char(out, digits[i]);
	}
	buf_append_text(out, digits + whole);
}

static void append_binary(uint64_t value, struct buf *out)
{
	int bit = 63;
	while (bit > 0 && !(value >> bit & 1))
		bit--;
	for (; bit >= 0; bit--)
		buf_append_char(out, value >> bit & 1 ? '1' : '0');
}

static int int_digits(struct jinja_run *r, const struct spec *s, uint64_t magnitude, struct buf *out)
{
	const char *prefix = s->type == 'x' ? "0x"
		: s->type == 'X'            ? "0X"
		: s->type == 'o'            ? "0o"
		: s->type == 'b'            ? "0b"
					    : "";
	if (s->alternate)
		buf_append_text(out, prefix);
	switch (s->type) {
	case 'x':
		buf_printf(out, "%llx", (unsigned long long)magnitude);
		return 0;
	case 'X':
		buf_printf(out, "%llX", (unsigned long long)magnitude);
		return 0;
	case 'o':
		buf_printf(out, "%llo", (unsigned long long)magnitude);
		return 0;
	case 'b':
		append_binary(magnitude, out);
		return 0;
	case 0:
	case 'd':
	case 'i':
	case 'u':
		buf_printf(out, "%llu", (unsigned long long)magnitude);
		return 0;
	default:
		return jinja_fail(r, "unknown format code '%c' for object of type 'int'", s->type);
	}
}

static int real_digits(struct jinja_run *r, const struct spec *s, double magnitude, struct buf *out)
{
	int precision = s->precision < 0 ? 6 : s->precision > 300 ? 300 : s->precision;
	switch (s->type) {
	case 'f':
	case 'F':
		buf_printf(out, "%.*f", precision, magnitude);
		return 0;
	case 'e':
		buf_printf(out, "%.*e", precision, magnitude);
		return 0;
	case 'E':
		buf_printf(out, "%.*E", precision, magnitude);
		return 0;
	case 'g':
		buf_printf(out, "%.*g", precision, magnitude);
		return 0;
	case 'G':
		buf_printf(out, "%.*G", precision, magnitude);
		return 0;
	case '%':
		buf_printf(out, "%.*f%%", precision, magnitude * 100);
		return 0;
	default:
		return jinja_fail(r, "the format code '%c' of a float is not known here", s->type ? s->type : '.');
	}
}

/* Sign and digits, filled up to the width: zeros go between the two. */
static int append_number(struct jinja_run *r, const struct spec *s, bool negative, const char *digits, struct buf *out)
{
	struct buf text = {0};
	const char *sign = negative ? "-" : s->sign == '+' ? "+" : s->sign == ' ' ? " " : "";
	if (s->comma)
		group_digits(digits, &text);
	else
		buf_append_text(&text, digits);
	int64_t missing = s->width - (int64_t)(text.length + strlen(sign));
	bool inside = s->align == '=' || (s->zero && !s->align);
	int32_t fill = s->zero && !s->align ? '0' : s->fill;
	int64_t left = missing <= 0 ? 0 : s->align == '<' ? 0 : s->align == '^' ? missing / 2 : missing;
	struct jinja_value padded;
	int status = buf_check(&text, r->e);
	if (status == 0 && inside)
		status = jinja_append_text(r, out, sign);
	struct buf whole = {0};
	if (!inside)
		buf_append_text(&whole, sign);
	buf_append_str(&whole, buf_str(&text));
	if (status == 0)
		status = jinja_pad(r, buf_str(&whole), left, missing > left ? missing - left : 0, fill, &padded);
	if (status == 0)
		status = jinja_append(r, out, padded.text);
	buf_free(&whole);
	buf_free(&text);
	return status;
}

static int format_number(struct jinja_run *r, const struct spec *s, const struct jinja_value *v, struct buf *out)
{
	struct buf digits = {0};
	int64_t integer;
	bool is_int = jinja_as_int(v, &integer), negative;
	int status;
	if (is_int && !is_one_of(s->type, "eEfFgG%")) {
		negative = integer < 0;
		status = int_digits(r, s, negative ? 0 - (uint64_t)integer : (uint64_t)integer, &digits);
	} else if (v->type == JINJA_BIG) {
		return jinja_fail(r, "an integer of more than 64 bits cannot be formatted");
	} else {
		double real = jinja_as_real(v);
		struct jinja_value magnitude = jinja_real(fabs(real));
		negative = signbit(real) && !isnan(real);
		if (!isfinite(real) || (!s->type && s->precision < 0))
			status = jinja_repr(r, &magnitude, &digits);
		else
			status = real_digits(r, s, fabs(real), &digits);
	}
	if (status == 0)
		status = append_number(r, s, negative, buf_text(&digits), out);
	buf_free(&digits);
	return status;
}

static int format_text(struct jinja_run *r, const struct spec *s, struct str text, struct buf *out)
{
	struct jinja_value padded;
	TRY(jinja_work_text(r, text.length));
	if (s->precision >= 0)
		text = jinja_characters(text, 0, (size_t)s->precision);
	int64_t length = (int64_t)utf8_count(text), missing = s->width > length ? s->width - length : 0;
	int64_t left = s->align == '>' ? missing : s->align == '^' ? missing / 2 : 0;
	TRY(jinja_pad(r, text, left, missing - left, s->fill, &padded));
	return jinja_append(r, out, padded.text);
}

/* ---- text % values ---- */

struct percent {
	struct jinja_run *r;
	struct str format;
	size_t at;
	const struct jinja_value *values;
	size_t used;
};

static int percent_value(struct percent *p, struct jinja_value *out)
{
	const struct jinja_value *v = p->values;
	if (v->type != JINJA_TUPLE) {
		if (p->used++ > 0)
			return jinja_fail(p->r, "not enough arguments for format string");
		*out = *v;
		return 0;
	}
	if (p->used >= v->list->count)
		return jinja_fail(p->r, "not enough arguments for format string");
	*out = v->list->items[p->used++];
	return 0;
}

/* The value that %(name) names. */
static int percent_named(struct percent *p, struct jinja_value *out)
{
	size_t close = str_find(p->format, str_of(")"), p->at);
	struct jinja_pair *pair;
	if (close == SIZE_MAX)
		return jinja_fail(p->r, "incomplete format key");
	if (p->values->type != JINJA_DICT)
		return jinja_fail(p->r, "format requires a mapping");
	struct str name = {p->format.data + p->at, close - p->at};
	TRY(jinja_dict_find_text(p->r, p->values->dict, name, &pair));
	if (!pair)
		return jinja_fail(p->r, "the mapping has no key '%.*s'", STR_ARG(name));
	*out = pair->value;
	p->at = close + 1;
	return 0;
}

static char percent_char(const struct percent *p)
{
	return p->at < p->format.length ? p->format.data[p->at] : '\0';
}

static int parse_width(struct jinja_run *r, struct str s, size_t *at, int *out)
{
	*out = 0;
	for (; *at < s.length && s.data[*at] >= '0' && s.data[*at] <= '9'; ++*at) {
		*out = *out * 10 + (s.data[*at] - '0');
		if (*out > WIDTH_MAX)
			return jinja_fail(r, "a width or precision of more than %d", WIDTH_MAX);
	}
	return 0;
}

static int percent_spec(struct percent *p, struct spec *s)
{
	*s = (struct spec){.fill = ' ', .align = '>', .precision = -1};
	for (; is_one_of(percent_char(p), "-+ 0#"); p->at++) {
		char flag = percent_char(p);
		s->align = flag == '-' ? '<' : s->align;
		s->sign = flag == '+' ? '+' : flag == ' ' && !s->sign ? ' ' : s->sign;
		s->zero |= flag == '0';
		s->alternate |= flag == '#';
	}
	TRY(parse_width(p->r, p->format, &p->at, &s->width));
	if (percent_char(p) == '.') {
		p->at++;
		TRY(parse_width(p->r, p->format, &p->at, &s->precision));
	}
	s->type = percent_char(p);
	p->at += s->type != '\0';
	if (s->zero && s->align != '<')
		s->align = 0;
	return 0;
}

static int percent_write(struct percent *p, struct spec *s, const struct jinja_value *v, struct buf *out)
{
	struct buf text = {0};
	struct jinja_value whole;
	if (s->type == 's' || s->type == 'r' || (s->type == 'c' && v->type == JINJA_TEXT)) {
		int status = s->type == 'r' ? jinja_repr(p->r, v, &text) : jinja_print(p->r, v, &text);
		TRY(jinja_buf_keep(p->r, status, &text, &whole));
		s->align = s->align ? s->align : '>';
		return format_text(p->r, s, whole.text, out);
	}
	if (!is_one_of(s->type, "diufFeEgGxXo"))
		return jinja_fail(p->r, "unsupported format character '%c'", s->type ? s->type : ' ');
	if (v->type == JINJA_UNDEFINED)
		return jinja_fail_undefined(p->r, v);
	if (!jinja_is_number(v))
		return jinja_fail(p->r, "%%%c format: a real number is required, not %s", s->type, jinja_type_name(v));
	whole = *v;
	bool truncates = v->type == JINJA_REAL && is_one_of(s->type, "diu");
	if (truncates && !(fabs(v->real) < 9e18))
		return jinja_fail(p->r, "%%%c format: the value does not fit in 64 bits", s->type);
	if (truncates)
		whole = jinja_int((int64_t)v->real);
	return format_number(p->r, s, &whole, out);
}

static int percent_one(struct percent *p, struct buf *out)
{
	struct jinja_value v = {.type = JINJA_MISSING};
	struct spec s;
	if (percent_char(p) == '(') {
		p->at++;
		TRY(percent_named(p, &v));
	}
	TRY(percent_spec(p, &s));
	if (s.type == '%')
		return jinja_append_text(p->r, out, "%");
	if (v.type == JINJA_MISSING)
		TRY(percent_value(p, &v));
	return percent_write(p, &s, &v, out);
}

static int percent_all(struct percent *p, struct buf *out)
{
	while (p->at < p->format.length) {
		size_t mark = str_find(p->format, str_of("%"), p->at);
		size_t end = mark == SIZE_MAX ? p->format.length : mark;
		TRY(jinja_append(p->r, out, (struct str){p->format.data + p->at, end - p->at}));
		p->at = end + (mark != SIZE_MAX);
		if (mark != SIZE_MAX)
			TRY(percent_one(p, out));
	}
	bool tuple = p->values->type == JINJA_TUPLE;
	bool mapping = p->values->type == JINJA_DICT || p->values->type == JINJA_LIST;
	if (tuple ? p->used < p->values->list->count : p->used == 0 && !mapping)
		return jinja_fail(p->r, "not all arguments converted during string formatting");
	return 0;
}

int jinja_format_percent(
	struct jinja_run *r, struct str format, const struct jinja_value *values, struct jinja_value *out)
{
	struct percent p = {.r = r, .format = format, .values = values};
	struct buf text = {0};
	return jinja_buf_keep(r, percent_all(&p, &text), &text, out);
}

/* ---- text.format(...) ---- */

struct braces {
	struct jinja_run *r;
	const struct jinja_arguments *arguments;
	size_t next; /* of {} without a number */
};

static int parse_spec(struct jinja_run *r, struct str text, struct spec *s)
{
	size_t at = 0, second = 0;
	*s = (struct spec){.fill = ' ', .precision = -1};
	if (text.length)
		(void)utf8_next(text, &second);
	if (second && second < text.length && is_one_of(text.data[second], "<>^=")) {
		s->fill = utf8_next(text, &at);
		s->align = text.data[at++];
	} else if (text.length && is_one_of(text.data[0], "<>^=")) {
		s->align = text.data[at++];
	}
	if (at < text.length && is_one_of(text.data[at], "+- "))
		s->sign = text.data[at] == '-' ? '\0' : text.data[at];
	at += at < text.length && is_one_of(text.data[at], "+- ");
	if (at < text.length && text.data[at] == '#')
		s->alternate = at++ < text.length;
	if (at < text.length && text.data[at] == '0')
		s->zero = at++ < text.length;
	TRY(parse_width(r, text, &at, &s->width));
	if (at < text.length && text.data[at] == ',')
		s->comma = at++ < text.length;
	if (at < text.length && text.data[at] == '.') {
		at++;
		TRY(parse_width(r, text, &at, &s->precision));
	}
	if (at < text.length)
		s->type = text.data[at++];
	if (at < text.length || s->fill < 0)
		return jinja_fail(r, "invalid format specifier '%.*s'", STR_ARG(text));
	return 0;
}

/* The value of a field's name: a number or a name, then attributes and items. */
static int field_value(struct braces *b, struct str name, struct jinja_value *out)
{
	size_t end = 0;
	while (end < name.length && name.data[end] != '.' && name.data[end] != '[')
		end++;
	struct str first = {name.data, end};
	size_t index = 0;
	bool digits = true;
	for (size_t i = 0; i < first.length && i < 6; i++) {
		digits &= first.data[i] >= '0' && first.data[i] <= '9';
		index = index * 10 + (size_t)(first.data[i] - '0');
	}
	if (first.length == 0)
		index = b->next++;
	if (digits) {
		if (index >= b->arguments->values.count)
			return jinja_fail(b->r, "Replacement index %zu out of range for positional args tuple", index);
		*out = b->arguments->values.items[index];
	} else {
		struct jinja_pair *pair;
		TRY(jinja_dict_find_text(b->r, &b->arguments->keywords, first, &pair));
		if (!pair)
			return jinja_fail(b->r, "format(): no argument is named '%.*s'", STR_ARG(first));
		*out = pair->value;
	}
	if (end < name.length)
		return jinja_fail(b->r, "format(): the field '%.*s' is not known here", STR_ARG(name));
	return 0;
}

static int field_write(struct braces *b, struct str field, struct buf *out)
{
	size_t colon = str_find(field, str_of(":"), 0);
	size_t end = colon == SIZE_MAX ? field.length : colon;
	bool repr = end >= 2 && field.data[end - 2] == '!' && field.data[end - 1] == 'r';
	bool string = end >= 2 && field.data[end - 2] == '!' && field.data[end - 1] == 's';
	struct str name = {field.data, end - (repr || string ? 2 : 0)};
	struct str format = {"", 0};
	struct jinja_value v, whole;
	struct spec s;
	struct buf text = {0};
	if (colon != SIZE_MAX)
		format = (struct str){field.data + colon + 1, field.length - colon - 1};
	TRY(field_value(b, name, &v));
	TRY(parse_spec(b->r, format, &s));
	bool number = jinja_is_number(&v) && v.type != JINJA_BOOL && !repr && !string;
	if (number && format.length)
		return format_number(b->r, &s, &v, out);
	int status = repr ? jinja_repr(b->r, &v, &text) : jinja_print(b->r, &v, &text);
	TRY(jinja_buf_keep(b->r, status, &text, &whole));
	if (format.length && v.type != JINJA_TEXT && !repr && !string)
		return jinja_fail(b->r, "unsupported format string passed to %s.__format__", jinja_type_name(&v));
	if (s.type && s.type != 's')
		return jinja_fail(b->r, "unknown format code '%c' for object of type 'str'", s.type);
	return format_text(b->r, &s, whole.text, out);
}

static int braces_all(struct braces *b, struct str format, struct buf *out)
{
	for (size_t at = 0; at < format.length;) {
		char c = format.data[at];
		bool doubled = at + 1 < format.length && format.data[at + 1] == c;
		if ((c != '{' && c != '}') || doubled) {
			size_t start = at;
			at += c == '{' || c == '}' ? 2 : 1;
			while (at < format.length && format.data[at] != '{' && format.data[at] != '}' && c != '{' &&
				c != '}')
				at++;
			size_t length = c == '{' || c == '}' ? 1 : at - start;
			TRY(jinja_append(b->r, out, (struct str){format.data + start, length}));
			continue;
		}
		size_t close = c == '{' ? str_find(format, str_of("}"), at) : SIZE_MAX;
		if (close == SIZE_MAX)
			return jinja_fail(b->r, "Single '%c' encountered in format string", c);
		TRY(field_write(b, (struct str){format.data + at + 1, close - at - 1}, out));
		at = close + 1;
	}
	return 0;
}

int jinja_format_braces(
	struct jinja_run *r, struct str format, const struct jinja_arguments *arguments, struct jinja_value *out)
{
	struct braces b = {r, arguments, 0};
	struct buf text = {0};
	return jinja_buf_keep(r, braces_all(&b, format, &text), &text, out);
}
