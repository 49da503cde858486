/* Methods of text, as Python's str has them. Places count characters. */
#include <utf8proc.h>

#include "engine/base/python_text.h"
#include "engine/base/utf8.h"
#include "engine/text/jinja_builtin.h"
#include "engine/text/jinja_text.h"

/* Gives a text that is safe where the one that has the method is. */
static int keep_safe(int status, const struct jinja_call *c, struct jinja_value *out)
{
	if (status == 0 && out->type == JINJA_TEXT)
		out->safe = c->self.safe;
	return status;
}

static int text_out(struct str s, const struct jinja_call *c, struct jinja_value *out)
{
	*out = jinja_text(s);
	out->safe = c->self.safe;
	return 0;
}

/* ---- Case ---- */

#define CASE_METHOD(method, change)                                                                 \
	static int method(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out) \
	{                                                                                           \
		return keep_safe(jinja_change_case(r, change, c->self.text, out), c, out);          \
	}

CASE_METHOD(text_upper, python_upper)
CASE_METHOD(text_lower, python_lower)
CASE_METHOD(text_title, python_title)
CASE_METHOD(text_capitalize, python_capitalize)
CASE_METHOD(text_swapcase, python_swapcase)

/* ---- Ends ---- */

static int strip_ends(struct jinja_run *r, const struct jinja_call *c, int ends, struct jinja_value *out)
{
	struct str chars;
	bool given = jinja_given(&c->p[0]);
	if (given)
		TRY(jinja_need_text(r, c, 0, &chars));
	TRY(jinja_work_text(r, c->self.text.length * (given ? 1 + chars.length / 8 : 1)));
	return text_out(jinja_strip_text(c->self.text, given ? &chars : NULL, ends), c, out);
}

static int text_strip(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return strip_ends(r, c, JINJA_STRIP_LEFT | JINJA_STRIP_RIGHT, out);
}

static int text_lstrip(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return strip_ends(r, c, JINJA_STRIP_LEFT, out);
}

static int text_rstrip(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return strip_ends(r, c, JINJA_STRIP_RIGHT, out);
}

static bool has_end(struct str s, struct str part, bool at_start)
{
	if (part.length > s.length)
		return false;
	return at_start ? str_starts_with(s, part)
			: str_equal((struct str){s.data ? s.data + s.length - part.length : NULL, part.length}, part);
}

/* The part between two places, as in s[start:end]; false where start lies behind the end of the text. */
static int part_between(
	struct jinja_run *r, const struct jinja_call *c, int first, struct str *out, int64_t *start, bool *inside)
{
	int64_t length = (int64_t)utf8_count(c->self.text), end;
	TRY(jinja_work_text(r, 2 * c->self.text.length));
	TRY(jinja_need_int(r, c, first, 0, start));
	TRY(jinja_need_int(r, c, first + 1, length, &end));
	*start = *start < 0 ? (*start + length < 0 ? 0 : *start + length) : *start;
	end = end < 0 ? (end + length < 0 ? 0 : end + length) : end > length ? length : end;
	*inside = *start <= length && *start <= end;
	*out = *inside ? jinja_characters(c->self.text, (size_t)*start, (size_t)end) : (struct str){"", 0};
	return 0;
}

static int test_end(struct jinja_run *r, const struct jinja_call *c, bool at_start, struct jinja_value *out)
{
	struct jinja_list parts = {(struct jinja_value *)&c->p[0], 1, 1};
	struct str s = c->self.text;
	bool holds = false, inside = true;
	int64_t start;
	if (c->p[0].type == JINJA_TUPLE)
		parts = *c->p[0].list;
	if (jinja_given(&c->p[1]) || jinja_given(&c->p[2]))
		TRY(part_between(r, c, 1, &s, &start, &inside));
	for (size_t i = 0; i < parts.count; i++) {
		if (parts.items[i].type == JINJA_UNDEFINED)
			return jinja_fail_undefined(r, &parts.items[i]);
		if (parts.items[i].type != JINJA_TEXT)
			return jinja_fail(r, "%s first arg must be str or a tuple of str, not %s", c->name,
				jinja_type_name(&parts.items[i]));
		TRY(jinja_work_bytes(r, parts.items[i].text.length));
		holds |= inside && has_end(s, parts.items[i].text, at_start);
	}
	*out = jinja_bool(holds);
	return 0;
}

static int text_startswith(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return test_end(r, c, true, out);
}

static int text_endswith(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return test_end(r, c, false, out);
}

static int text_removeprefix(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct str s = c->self.text, part;
	TRY(jinja_need_text(r, c, 0, &part));
	if (has_end(s, part, true) && part.length)
		s = (struct str){s.data + part.length, s.length - part.length};
	return text_out(s, c, out);
}

static int text_removesuffix(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct str s = c->self.text, part;
	TRY(jinja_need_text(r, c, 0, &part));
	if (has_end(s, part, false))
		s.length -= part.length;
	return text_out(s, c, out);
}

/* ---- Finding ---- */

/* The last occurrence; SIZE_MAX: none. */
static int find_last(struct jinja_run *r, struct str s, struct str part, size_t *out)
{
	*out = SIZE_MAX;
	if (part.length > s.length)
		return 0;
	for (size_t at = s.length - part.length + 1; at-- > 0;) {
		if (part.length == 0 ||
			(s.data[at] == part.data[0] && memcmp(s.data + at, part.data, part.length) == 0)) {
			*out = at;
			return 0;
		}
		if (s.data[at] == part.data[0])
			TRY(jinja_work(r, 1 + part.length / 32));
	}
	return 0;
}

static int find_first_or_last(struct jinja_run *r, struct str s, struct str part, bool last, size_t *out)
{
	if (last)
		return find_last(r, s, part, out);
	*out = str_find(s, part, 0);
	return 0;
}

/* The place in characters, -1 where there is none. */
static int find_place(struct jinja_run *r, const struct jinja_call *c, bool last, int64_t *out)
{
	struct str s, part;
	int64_t start;
	bool inside;
	TRY(jinja_need_text(r, c, 0, &part));
	TRY(part_between(r, c, 1, &s, &start, &inside));
	size_t found;
	TRY(find_first_or_last(r, s, part, last, &found));
	*out = !inside || found == SIZE_MAX ? -1 : start + (int64_t)utf8_count((struct str){s.data, found});
	return 0;
}

static int place_out(struct jinja_run *r, const struct jinja_call *c, bool last, bool needed, struct jinja_value *out)
{
	int64_t place;
	TRY(find_place(r, c, last, &place));
	if (place < 0 && needed)
		return jinja_fail(r, "substring not found");
	*out = jinja_int(place);
	return 0;
}

static int text_find(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return place_out(r, c, false, false, out);
}

static int text_rfind(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return place_out(r, c, true, false, out);
}

static int text_index(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return place_out(r, c, false, true, out);
}

static int text_rindex(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return place_out(r, c, true, true, out);
}

static int text_count(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct str s, part;
	int64_t start, n = 0;
	bool inside;
	TRY(jinja_need_text(r, c, 0, &part));
	TRY(part_between(r, c, 1, &s, &start, &inside));
	if (inside && part.length == 0)
		n = (int64_t)utf8_count(s) + 1;
	for (size_t at = 0; part.length && (at = str_find(s, part, at)) != SIZE_MAX; at += part.length) {
		TRY(jinja_work(r, 1));
		n++;
	}
	*out = jinja_int(n);
	return 0;
}

/* ---- Splitting ---- */

static int add_part(struct jinja_run *r, const char *start, const char *end, struct jinja_list *out)
{
	return jinja_list_add(r, out, jinja_text((struct str){start, (size_t)(end - start)}));
}

/* At runs of white space; what is left after `most` splits keeps its inner white space. */
static int split_words(struct jinja_run *r, struct str s, int64_t most, struct jinja_list *out)
{
	s = jinja_strip_text(s, NULL, JINJA_STRIP_LEFT);
	while (s.length > 0) {
		size_t end = 0;
		for (size_t next = 0; next < s.length; end = next)
			if (utf8_is_python_space(utf8_next(s, &next)))
				break;
		if (most-- == 0)
			return add_part(r, s.data, s.data + s.length, out);
		TRY(add_part(r, s.data, s.data + end, out));
		s = jinja_strip_text((struct str){s.data + end, s.length - end}, NULL, JINJA_STRIP_LEFT);
	}
	return 0;
}

static int split_at(struct jinja_run *r, struct str s, struct str sep, int64_t most, struct jinja_list *out)
{
	size_t start = 0;
	for (; most != 0; most--) {
		size_t found = str_find(s, sep, start);
		if (found == SIZE_MAX)
			break;
		TRY(add_part(r, s.data + start, s.data + found, out));
		start = found + sep.length;
	}
	return jinja_list_add(r, out, jinja_text((struct str){s.data ? s.data + start : "", s.length - start}));
}

/* From the right: all parts, then the first ones together again. */
static int rejoin_first(struct jinja_run *r, struct str s, int64_t most, struct jinja_list *parts)
{
	if (most < 0 || parts->count <= (size_t)most + 1)
		return 0;
	size_t joined = parts->count - (size_t)most;
	struct str last = parts->items[joined - 1].text;
	struct jinja_list kept = {0};
	TRY(add_part(r, s.data, last.data + last.length, &kept));
	for (size_t i = joined; i < parts->count; i++)
		TRY(jinja_list_add(r, &kept, parts->items[i]));
	*parts = kept;
	return 0;
}

static int split(struct jinja_run *r, const struct jinja_call *c, bool right, struct jinja_value *out)
{
	struct str s = c->self.text, sep = {0};
	int64_t most;
	TRY(jinja_need_int(r, c, 1, -1, &most));
	TRY(jinja_list_new(r, JINJA_LIST, 0, out));
	TRY(jinja_work_text(r, s.length));
	int64_t forward = right ? -1 : most;
	if (!jinja_given(&c->p[0])) {
		TRY(split_words(r, s, forward, out->list));
	} else {
		TRY(jinja_need_text(r, c, 0, &sep));
		if (sep.length == 0)
			return jinja_fail(r, "empty separator");
		TRY(split_at(r, s, sep, forward, out->list));
	}
	return right ? rejoin_first(r, s, most, out->list) : 0;
}

static int text_split(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return split(r, c, false, out);
}

static int text_rsplit(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return split(r, c, true, out);
}

static int text_splitlines(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	TRY(jinja_list_new(r, JINJA_LIST, 0, out));
	return jinja_split_lines(r, c->self.text, jinja_flag(c, 0, false), out->list);
}

static int partition(struct jinja_run *r, const struct jinja_call *c, bool last, struct jinja_value *out)
{
	struct str s = c->self.text, sep, parts[3] = {{"", 0}, {"", 0}, {"", 0}};
	TRY(jinja_need_text(r, c, 0, &sep));
	if (sep.length == 0)
		return jinja_fail(r, "empty separator");
	TRY(jinja_work_bytes(r, s.length));
	size_t found;
	TRY(find_first_or_last(r, s, sep, last, &found));
	parts[last ? 2 : 0] = s;
	if (found != SIZE_MAX) {
		parts[0] = (struct str){s.data, found};
		parts[1] = sep;
		parts[2] = (struct str){s.data + found + sep.length, s.length - found - sep.length};
	}
	TRY(jinja_list_new(r, JINJA_TUPLE, 3, out));
	for (int i = 0; i < 3; i++)
		TRY(jinja_list_add(r, out->list, jinja_text(parts[i])));
	return 0;
}

static int text_partition(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return partition(r, c, false, out);
}

static int text_rpartition(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return partition(r, c, true, out);
}

/* ---- New texts ---- */

static int text_replace(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct str old, new;
	int64_t count;
	TRY(jinja_need_text(r, c, 0, &old));
	TRY(jinja_need_text(r, c, 1, &new));
	TRY(jinja_need_int(r, c, 2, -1, &count));
	return keep_safe(jinja_replace_text(r, c->self.text, old, new, count, out), c, out);
}

static int text_join(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct jinja_list items;
	if (!jinja_is_iterable(&c->p[0]))
		return jinja_fail(r, "can only join an iterable");
	TRY(jinja_iterate(r, &c->p[0], &items));
	for (size_t i = 0; i < items.count; i++)
		if (items.items[i].type != JINJA_TEXT)
			return jinja_fail(r, "sequence item %zu: expected str instance, %s found", i,
				jinja_type_name(&items.items[i]));
	return keep_safe(jinja_join(r, c->self.text, &items, out), c, out);
}

static int fill_of(struct jinja_run *r, const struct jinja_call *c, int parameter, int32_t *out)
{
	struct str fill;
	size_t position = 0;
	*out = ' ';
	if (c->p[parameter].type == JINJA_MISSING)
		return 0;
	TRY(jinja_need_text(r, c, parameter, &fill));
	if (utf8_count(fill) != 1)
		return jinja_fail(r, "the fill character must be exactly one character long");
	*out = utf8_next(fill, &position);
	return 0;
}

enum side { SIDE_LEFT, SIDE_RIGHT, SIDE_BOTH };

static int justify(struct jinja_run *r, const struct jinja_call *c, enum side filled, struct jinja_value *out)
{
	int64_t width, length = (int64_t)utf8_count(c->self.text);
	int32_t fill;
	TRY(jinja_need_int(r, c, 0, 0, &width));
	TRY(fill_of(r, c, 1, &fill));
	if (filled == SIDE_BOTH)
		return keep_safe(jinja_center(r, c->self.text, width, fill, out), c, out);
	int64_t missing = width > length ? width - length : 0;
	return keep_safe(jinja_pad(r, c->self.text, filled == SIDE_LEFT ? missing : 0,
				 filled == SIDE_LEFT ? 0 : missing, fill, out),
		c, out);
}

static int text_center(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return justify(r, c, SIDE_BOTH, out);
}

static int text_ljust(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return justify(r, c, SIDE_RIGHT, out);
}

static int text_rjust(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return justify(r, c, SIDE_LEFT, out);
}

static int text_zfill(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	struct str s = c->self.text;
	int64_t width, length = (int64_t)utf8_count(s);
	TRY(jinja_need_int(r, c, 0, 0, &width));
	int64_t missing = width > length ? width - length : 0;
	bool sign = s.length && (s.data[0] == '+' || s.data[0] == '-');
	TRY(jinja_pad(r, (struct str){s.data ? s.data + sign : NULL, s.length - sign}, missing, 0, '0', out));
	if (!sign)
		return 0;
	struct jinja_list both = {(struct jinja_value[]){jinja_text((struct str){s.data, 1}), *out}, 2, 2};
	return jinja_join(r, (struct str){"", 0}, &both, out);
}

static int text_format(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return keep_safe(jinja_format_braces(r, c->self.text, c->arguments, out), c, out);
}

/* ---- What a text consists of ---- */

static bool is_alpha(int32_t c)
{
	utf8proc_category_t category = utf8proc_category(c);
	return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

static bool is_decimal(int32_t c)
{
	return utf8proc_category(c) == UTF8PROC_CATEGORY_ND;
}

/* Superscripts and circled digits are digits, too. */
static bool is_digit(int32_t c)
{
	return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
		(c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2776 && c <= 0x277e);
}

static bool is_numeric(int32_t c)
{
	utf8proc_category_t category = utf8proc_category(c);
	return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

static bool is_alnum(int32_t c)
{
	return is_alpha(c) || is_numeric(c);
}

static bool is_ascii(int32_t c)
{
	return c < 0x80;
}

static int all_characters(
	struct jinja_run *r, struct str s, bool (*holds)(int32_t), bool empty, struct jinja_value *out)
{
	bool all = s.length > 0 || empty;
	TRY(jinja_work_text(r, s.length));
	for (size_t position = 0; position < s.length && all;) {
		int32_t c = utf8_next(s, &position);
		all = holds(c < 0 ? 0xfffd : c);
	}
	*out = jinja_bool(all);
	return 0;
}

#define CHARACTERS_METHOD(method, holds, empty)                                                     \
	static int method(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out) \
	{                                                                                           \
		return all_characters(r, c->self.text, holds, empty, out);                          \
	}

CHARACTERS_METHOD(text_isalpha, is_alpha, false)
CHARACTERS_METHOD(text_isdecimal, is_decimal, false)
CHARACTERS_METHOD(text_isdigit, is_digit, false)
CHARACTERS_METHOD(text_isnumeric, is_numeric, false)
CHARACTERS_METHOD(text_isalnum, is_alnum, false)
CHARACTERS_METHOD(text_isspace, utf8_is_python_space, false)
CHARACTERS_METHOD(text_isascii, is_ascii, true)

/* At least one letter with a case, and all of that one. */
static int all_cased(struct jinja_run *r, struct str s, enum python_case wanted, struct jinja_value *out)
{
	bool all = true, any = false;
	TRY(jinja_work_text(r, s.length));
	for (size_t position = 0; position < s.length;) {
		int32_t c = utf8_next(s, &position);
		enum python_case is = c < 0 ? PYTHON_UNCASED : python_case_of(c);
		any |= is == wanted;
		all &= is == wanted || is == PYTHON_UNCASED;
	}
	*out = jinja_bool(all && any);
	return 0;
}

static int text_isupper(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return all_cased(r, c->self.text, PYTHON_UPPER, out);
}

static int text_islower(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	return all_cased(r, c->self.text, PYTHON_LOWER, out);
}

/* Capitals at the beginning of words only, small letters only inside of them. */
static int text_istitle(struct jinja_run *r, const struct jinja_call *c, struct jinja_value *out)
{
	bool all = true, any = false, inside = false;
	TRY(jinja_work_text(r, c->self.text.length));
	for (size_t position = 0; position < c->self.text.length;) {
		int32_t code = utf8_next(c->self.text, &position);
		enum python_case is = code < 0 ? PYTHON_UNCASED : python_case_of(code);
		all &= is == PYTHON_UNCASED || (is == PYTHON_LOWER) == inside;
		any |= is != PYTHON_UNCASED;
		inside = is != PYTHON_UNCASED;
	}
	*out = jinja_bool(all && any);
	return 0;
}

const struct jinja_builtin jinja_text_methods[] = {
	{"upper", "", text_upper},
	{"lower", "", text_lower},
	{"title", "", text_title},
	{"capitalize", "", text_capitalize},
	{"swapcase", "", text_swapcase},
	{"strip", "chars?", text_strip},
	{"lstrip", "chars?", text_lstrip},
	{"rstrip", "chars?", text_rstrip},
	{"startswith", "prefix start? end?", text_startswith},
	{"endswith", "suffix start? end?", text_endswith},
	{"removeprefix", "prefix", text_removeprefix},
	{"removesuffix", "suffix", text_removesuffix},
	{"find", "sub start? end?", text_find},
	{"rfind", "sub start? end?", text_rfind},
	{"index", "sub start? end?", text_index},
	{"rindex", "sub start? end?", text_rindex},
	{"count", "sub start? end?", text_count},
	{"split", "sep? maxsplit?", text_split},
	{"rsplit", "sep? maxsplit?", text_rsplit},
	{"splitlines", "keepends?", text_splitlines},
	{"partition", "sep", text_partition},
	{"rpartition", "sep", text_rpartition},
	{"replace", "old new count?", text_replace},
	{"join", "iterable", text_join},
	{"center", "width fillchar?", text_center},
	{"ljust", "width fillchar?", text_ljust},
	{"rjust", "width fillchar?", text_rjust},
	{"zfill", "width", text_zfill},
	{"format", "*", text_format},
	{"isalpha", "", text_isalpha},
	{"isdecimal", "", text_isdecimal},
	{"isdigit", "", text_isdigit},
	{"isnumeric", "", text_isnumeric},
	{"isalnum", "", text_isalnum},
	{"isspace", "", text_isspace},
	{"isascii", "", text_isascii},
	{"isupper", "", text_isupper},
	{"islower", "", text_islower},
	{"istitle", "", text_istitle},
	{NULL, NULL, NULL},
};
