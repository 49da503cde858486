/* Filters on single values: text, numbers, defaults, JSON. */
#include <math.h>
#include <strings.h>

#include "engine/base/decimal.h"
#include "engine/base/python_text.h"
#include "engine/base/utf8.h"
#include "engine/text/jinja_builtin.h"
#include "engine/text/jinja_eval.h"
#include "engine/text/jinja_text.h"

/* ---- Text ---- */

/* str(value) | change */
static int change_case(struct jinja_run *r, const struct jinja_call *c, void (*change)(struct str, struct buf *),
	struct jinja_value *out)
{
	struct str s;
	TRY(jinja_string(r, &c->self, &s));
	TRY(jinja_change_case(r, change, s, out));
	out->safe = c->self.safe;
	return 0;
}

static int filter_upper(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return change_case(r, c, python_upper, out);
}

static int filter_lower(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return change_case(r, c, python_lower, out);
}

static int filter_capitalize(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return change_case(r, c, python_capitalize, out);
}

static bool begins_word(int32_t c)
{
	return utf8_is_python_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

/* From start on, the characters of which begins_word says `marks`. */
static size_t run_end(struct str s, size_t start, bool marks)
{
	size_t end = start;
	for (size_t next = start; next < s.length; end = next)
		if (begins_word(utf8_next(s, &next)) != marks)
			break;
	return end;
}

/* Words begin behind white space, a hyphen or an opening bracket: a filter's own rule, not that of str.title(). */
static void title_words(struct str s, struct buf *out)
{
	for (size_t at = 0; at < s.length;) {
		size_t word = run_end(s, at, true), first = word, end = run_end(s, word, false);
		buf_append(out, s.data + at, word - at);
		if (end > word) {
			utf8_next(s, &first);
			python_upper((struct str){s.data + word, first - word}, out);
			python_lower((struct str){s.data + first, end - first}, out);
		}
		at = end;
	}
}

static int filter_title(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return change_case(r, c, title_words, out);
}

static int filter_string(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct str s;
	TRY(jinja_string(r, &c->self, &s));
	bool safe = c->self.type == JINJA_TEXT && c->self.safe;
	*out = jinja_text(s);
	out->safe = safe;
	return 0;
}

static int filter_safe(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	TRY(filter_string(r, c, out));
	out->safe = true;
	return 0;
}

static int filter_escape(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct buf text = {0};
	TRY(filter_string(r, c, out));
	if (out->safe)
		return 0;
	int status = jinja_escape(r, out->text, &text);
	TRY(jinja_buf_keep(r, status, &text, out));
	out->safe = true;
	return 0;
}

static int filter_trim(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct str chars;
	bool given = jinja_given(&c->p[0]);
	TRY(filter_string(r, c, out));
	if (given)
		TRY(jinja_need_text(r, c, 0, &chars));
	TRY(jinja_work_text(r, out->text.length * (given ? 1 + chars.length / 8 : 1)));
	out->text = jinja_strip_text(out->text, given ? &chars : NULL, JINJA_STRIP_LEFT | JINJA_STRIP_RIGHT);
	return 0;
}

static int filter_replace(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct str s, old, new;
	int64_t count;
	TRY(jinja_string(r, &c->self, &s));
	TRY(jinja_string(r, &c->p[0], &old));
	TRY(jinja_string(r, &c->p[1], &new));
	TRY(jinja_need_int(r, c, 2, -1, &count));
	return jinja_replace_text(r, s, old, new, count, out);
}

static int filter_center(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct str s;
	int64_t width;
	TRY(jinja_string(r, &c->self, &s));
	TRY(jinja_need_int(r, c, 0, 80, &width));
	return jinja_center(r, s, width, ' ', out);
}

static int filter_format(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	const struct jinja_arguments *a = c->arguments;
	struct jinja_value values = {.type = JINJA_TUPLE, .list = (struct jinja_list *)&a->values};
	struct str s;
	if (a->values.count && a->keywords.count)
		return jinja_fail(r, "can't handle positional and keyword arguments at the same time");
	if (a->keywords.count)
		values = (struct jinja_value){.type = JINJA_DICT, .dict = (struct jinja_dict *)&a->keywords};
	TRY(jinja_string(r, &c->self, &s));
	return jinja_format_percent(r, s, &values, out);
}

/* What stands before each line: that many blanks, or a text of its own. */
static int indentation(struct jinja_run *r, const struct jinja_call *c, struct str *out)
{
	struct jinja_value blanks;
	int64_t width;
	if (c->p[0].type == JINJA_TEXT) {
		*out = c->p[0].text;
		return 0;
	}
	TRY(jinja_need_int(r, c, 0, 4, &width));
	TRY(jinja_pad(r, (struct str){"", 0}, width < 0 ? 0 : width, 0, ' ', &blanks));
	*out = blanks.text;
	return 0;
}

static int indent_lines(struct jinja_run *r, const struct jinja_call *c, struct str with, struct buf *out)
{
	struct jinja_list lines = {0};
	struct jinja_value whole;
	struct buf text = {0};
	bool first = jinja_flag(c, 1, false), blank = jinja_flag(c, 2, false);
	/* the line feed at the end makes an empty last line count, as in the reference */
	int status = jinja_append(r, &text, c->self.text);
	if (status == 0)
		status = jinja_append_text(r, &text, "\n");
	TRY(jinja_buf_keep(r, status, &text, &whole));
	TRY(jinja_split_lines(r, whole.text, false, &lines));
	for (size_t i = 0; i < lines.count; i++) {
		struct str line = lines.items[i].text;
		TRY(i ? jinja_append_text(r, out, "\n") : 0);
		if (i == 0 ? first : blank || line.length)
			TRY(jinja_append(r, out, with));
		TRY(jinja_append(r, out, line));
	}
	return 0;
}

static int filter_indent(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct str with;
	struct buf text = {0};
	if (c->self.type == JINJA_UNDEFINED)
		return jinja_fail_undefined(r, &c->self);
	if (c->self.type != JINJA_TEXT)
		return jinja_fail(r, "indent: expected str, found %s", jinja_type_name(&c->self));
	TRY(indentation(r, c, &with));
	int status = indent_lines(r, c, with, &text);
	return jinja_buf_keep(r, status, &text, out);
}

static int filter_truncate(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	int64_t length, leeway, count;
	struct str end = str_of("...");
	TRY(jinja_need_int(r, c, 0, 255, &length));
	TRY(jinja_need_int(r, c, 3, 5, &leeway));
	if (c->p[2].type != JINJA_MISSING)
		TRY(jinja_need_text(r, c, 2, &end));
	TRY(jinja_length(r, &c->self, &count));
	int64_t ending = (int64_t)utf8_count(end);
	if (length < ending || leeway < 0)
		return jinja_fail(r, "truncate: expected length >= %lld and leeway >= 0", (long long)ending);
	*out = c->self;
	if (count <= length || count - length <= leeway)
		return 0;
	if (c->self.type != JINJA_TEXT)
		return jinja_fail(r, "truncate: expected str, found %s", jinja_type_name(&c->self));
	struct str kept = jinja_characters(c->self.text, 0, (size_t)(length - ending));
	size_t blank = kept.length;
	while (blank > 0 && kept.data[blank - 1] != ' ')
		blank--;
	if (!jinja_flag(c, 1, false) && blank > 0)
		kept.length = blank - 1;
	struct jinja_list both = {(struct jinja_value[]){jinja_text(kept), jinja_text(end)}, 2, 2};
	return jinja_join(r, (struct str){"", 0}, &both, out);
}

/* ---- Defaults ---- */

static int filter_default(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	(void)r;
	bool replaced = c->self.type == JINJA_UNDEFINED || (jinja_flag(c, 1, false) && !jinja_truth(&c->self));
	*out = !replaced ? c->self : c->p[0].type == JINJA_MISSING ? jinja_text((struct str){"", 0}) : c->p[0];
	return 0;
}

static int filter_attr(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct str name;
	TRY(jinja_string(r, &c->p[0], &name));
	if (c->self.type == JINJA_DICT) {
		struct jinja_value bare = c->self;
		static struct jinja_dict nothing;
		bare.dict = &nothing; /* attributes alone, no keys */
		TRY(jinja_attribute(r, &bare, name, out));
		if (out->type == JINJA_METHOD)
			out->method->self = c->self;
		return 0;
	}
	return jinja_attribute(r, &c->self, name, out);
}

/* ---- Numbers ---- */

/* A number's text without the underscores between its digits; false where they stand elsewhere. */
static bool plain_digits(struct str s, struct buf *out)
{
	for (size_t i = 0; i < s.length; i++) {
		bool between = i > 0 && i + 1 < s.length && s.data[i - 1] >= '0' && s.data[i - 1] <= '9' &&
			s.data[i + 1] >= '0' && s.data[i + 1] <= '9';
		if (s.data[i] == '_' && !between)
			return false;
		if (s.data[i] != '_')
			buf_append_char(out, s.data[i]);
	}
	return true;
}

static bool parse_int(struct str s, int64_t base, int64_t *out)
{
	struct buf digits = {0};
	bool good = plain_digits(utf8_strip(s), &digits) && digits.length > 0 && digits.length < 70;
	const char *text = buf_text(&digits);
	bool sign = *text == '-' || *text == '+';
	uint64_t value = 0, most = (uint64_t)INT64_MAX + (*text == '-');
	size_t at = sign;
	if (good && text[at] == '0' && (base == 16 || base == 8 || base == 2) && text[at + 1]) {
		char letter = (char)(text[at + 1] | 0x20);
		at += letter == (base == 16 ? 'x' : base == 8 ? 'o' : 'b') ? 2 : 0;
	}
	good &= at < digits.length;
	for (; good && at < digits.length; at++) {
		char c = text[at], letter = (char)(c | 0x20);
		int digit = c >= '0' && c <= '9' ? c - '0' : letter >= 'a' && letter <= 'z' ? letter - 'a' + 10 : 99;
		good = digit < base && value <= (most - (uint64_t)digit) / (uint64_t)base;
		value = value * (uint64_t)base + (uint64_t)digit;
	}
	*out = *text == '-' ? (int64_t)(0 - value) : (int64_t)value;
	buf_free(&digits);
	return good;
}

static size_t digit_run(const char *text)
{
	return strspn(text, "0123456789");
}

/* Python's float(text): a decimal number, or a word for infinity and NaN. */
static bool parse_real(struct str s, double *out)
{
	struct buf plain = {0};
	bool good = plain_digits(utf8_strip(s), &plain) && plain.length > 0 && plain.length < 2000 &&
		!memchr(plain.data, '\0', plain.length);
	const char *text = buf_text(&plain), *at = text + (*text == '-' || *text == '+');
	size_t whole = digit_run(at), fraction = at[whole] == '.' ? digit_run(at + whole + 1) : 0;
	bool number = whole + fraction > 0;
	const char *end = at + whole + (at[whole] == '.' ? 1 + fraction : 0);
	if (number && (*end == 'e' || *end == 'E')) {
		const char *digits = end + 1 + (end[1] == '-' || end[1] == '+');
		number = digit_run(digits) > 0;
		end = digits + digit_run(digits);
	}
	static const char *const words[] = {"inf", "infinity", "nan"};
	bool word = false;
	for (int i = 0; i < 3; i++)
		word |= strcasecmp(at, words[i]) == 0;
	good = good && (word || (number && !*end));
	if (good)
		*out = decimal_to_double(text);
	buf_free(&plain);
	return good;
}

static int filter_int(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	int64_t base, integer;
	double real = NAN;
	TRY(jinja_need_int(r, c, 1, 10, &base));
	if (base < 2 || base > 36)
		return jinja_fail(r, "int: base must be 2 to 36, not %lld", (long long)base);
	if (c->self.type == JINJA_UNDEFINED)
		return jinja_fail_undefined(r, &c->self);
	if (c->self.type == JINJA_BIG) {
		*out = c->self;
		return 0;
	}
	if (jinja_as_int(&c->self, &integer) ||
		(c->self.type == JINJA_TEXT && parse_int(c->self.text, base, &integer))) {
		*out = jinja_int(integer);
		return 0;
	}
	if (c->self.type == JINJA_REAL)
		real = c->self.real;
	else if (c->self.type == JINJA_TEXT)
		(void)parse_real(c->self.text, &real);
	if (isfinite(real) && fabs(real) < 9e18)
		*out = jinja_int((int64_t)real);
	else if (isfinite(real))
		return jinja_fail(r, "int: the value does not fit in 64 bits");
	else
		*out = c->p[0].type == JINJA_MISSING ? jinja_int(0) : c->p[0];
	return 0;
}

static int filter_float(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	double real;
	if (c->self.type == JINJA_UNDEFINED)
		return jinja_fail_undefined(r, &c->self);
	if (jinja_is_number(&c->self))
		*out = jinja_real(jinja_as_real(&c->self));
	else if (c->self.type == JINJA_TEXT && parse_real(c->self.text, &real))
		*out = jinja_real(real);
	else
		*out = c->p[0].type == JINJA_MISSING ? jinja_real(0) : c->p[0];
	return 0;
}

static int filter_abs(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	int64_t integer;
	struct jinja_value zero = jinja_int(0);
	if (c->self.type == JINJA_UNDEFINED)
		return jinja_fail_undefined(r, &c->self);
	if (!jinja_is_number(&c->self))
		return jinja_fail(r, "bad operand type for abs(): '%s'", jinja_type_name(&c->self));
	if (jinja_as_int(&c->self, &integer))
		return integer < 0 ? jinja_binary(r, '-', &zero, &c->self, out)
				   : jinja_binary(r, '+', &zero, &c->self, out);
	*out = c->self.type == JINJA_BIG ? c->self : jinja_real(fabs(c->self.real));
	return 0;
}

/* To the nearest decimal of that many places, halves of the exact value to even. */
static double round_real(double value, int64_t places)
{
	char text[400];
	if (!isfinite(value) || places > 300)
		return value;
	if (places >= 0) {
		snprintf(text, sizeof text, "%.*f", (int)places, value);
		return decimal_to_double(text);
	}
	double scale = pow(10, (double)-places);
	return isfinite(scale) ? nearbyint(value / scale) * scale : 0.0;
}

static int filter_round(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	int64_t places;
	struct str method = str_of("common");
	TRY(jinja_need_int(r, c, 0, 0, &places));
	if (c->p[1].type != JINJA_MISSING)
		TRY(jinja_need_text(r, c, 1, &method));
	if (c->self.type == JINJA_UNDEFINED)
		return jinja_fail_undefined(r, &c->self);
	if (!jinja_is_number(&c->self))
		return jinja_fail(r, "type %s doesn't define __round__ method", jinja_type_name(&c->self));
	double value = jinja_as_real(&c->self), scale = pow(10, (double)places);
	if (str_is(method, "common") && c->self.type != JINJA_REAL && places >= 0) {
		*out = c->self;
		out->type = c->self.type == JINJA_BOOL ? JINJA_INT : c->self.type;
		if (c->self.type == JINJA_BOOL)
			out->integer = c->self.boolean;
		return 0;
	}
	if (str_is(method, "common"))
		*out = c->self.type == JINJA_REAL ? jinja_real(round_real(value, places))
						  : jinja_int((int64_t)round_real(value, places));
	else if (str_is(method, "ceil") || str_is(method, "floor"))
		*out = jinja_real((str_is(method, "ceil") ? ceil(value * scale) : floor(value * scale)) / scale);
	else
		return jinja_fail(r, "method must be common, ceil or floor");
	return 0;
}

/* ---- JSON ---- */

static int json_indent(struct jinja_run *r, const struct jinja_value *given, struct jinja_json_style *style)
{
	struct jinja_value blanks;
	int64_t width;
	if (!jinja_given(given))
		return 0;
	style->has_indent = true;
	style->item_separator = str_of(",");
	if (given->type == JINJA_TEXT) {
		style->indent = given->text;
		return 0;
	}
	if (!jinja_as_int(given, &width))
		return jinja_fail(r, "tojson: indent must be an integer or a str, not %s", jinja_type_name(given));
	TRY(jinja_pad(r, (struct str){"", 0}, width < 0 ? 0 : width, 0, ' ', &blanks));
	style->indent = blanks.text;
	return 0;
}

static int filter_tojson(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_json_style style = {.ensure_ascii = jinja_flag(c, 0, false),
		.sort_keys = jinja_flag(c, 3, false),
		.item_separator = str_of(", "),
		.key_separator = str_of(": ")};
	struct buf text = {0};
	TRY(json_indent(r, &c->p[1], &style));
	if (jinja_given(&c->p[2])) {
		struct jinja_list pair;
		TRY(jinja_iterate(r, &c->p[2], &pair));
		if (pair.count != 2 || pair.items[0].type != JINJA_TEXT || pair.items[1].type != JINJA_TEXT)
			return jinja_fail(r, "tojson: separators must be a pair of str");
		style.item_separator = pair.items[0].text;
		style.key_separator = pair.items[1].text;
	}
	int status = jinja_to_json(r, &c->self, &style, &text);
	return jinja_buf_keep(r, status, &text, out);
}

const struct jinja_builtin jinja_text_filters[] = {
	{"upper", "", filter_upper},
	{"lower", "", filter_lower},
	{"capitalize", "", filter_capitalize},
	{"title", "", filter_title},
	{"string", "", filter_string},
	{"safe", "", filter_safe},
	{"escape", "", filter_escape},
	{"e", "", filter_escape},
	{"trim", "chars?", filter_trim},
	{"replace", "old new count?", filter_replace},
	{"center", "width?", filter_center},
	{"format", "*", filter_format},
	{"indent", "width? first? blank?", filter_indent},
	{"truncate", "length? killwords? end? leeway?", filter_truncate},
	{"default", "default_value? boolean?", filter_default},
	{"d", "default_value? boolean?", filter_default},
	{"attr", "name", filter_attr},
	{"int", "default? base?", filter_int},
	{"float", "default?", filter_float},
	{"abs", "", filter_abs},
	{"round", "precision? method?", filter_round},
	{"tojson", "ensure_ascii? indent? separators? sort_keys?", filter_tojson},
	{NULL, NULL, NULL},
};
