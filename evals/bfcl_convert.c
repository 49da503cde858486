/* Literals of Java and JavaScript as BFCL's converters read them: a handful of patterns, not parsers of the languages.
 * What does not look like the type stays a string. The result is JSON text. */
#include <math.h>
#include <stdlib.h>

#include "engine/base/decimal.h"
#include "engine/base/utf8.h"
#include "evals/bfcl_type.h"

/* One row or more, in brackets or in new Array(). */
#define JS_ROWS "\\s*\\[.*?\\]\\s*(?:,\\s*\\[.*?\\]\\s*)*"
#define JS_ARRAYS_PATTERN ("(*UCP)\\A(?:\\[" JS_ROWS "\\]|new\\s+Array\\(" JS_ROWS "\\))")

/* Python's re on str: \s, \w and \d are Unicode's, which (*UCP) gives. */
static const char *const pattern_texts[BFCL_PATTERNS] = {
	[JAVA_WHOLE] = "(*UCP)\\A-?\\d+$",
	[JAVA_FLOAT] = "(*UCP)\\A-?\\d+(?:\\.\\d+)?(?:[eE][+-]?\\d+)?[fF]$",
	[JAVA_DOUBLE] = "(*UCP)\\A-?\\d+(?:\\.\\d+)?(?:[eE][+-]?\\d+)?$",
	[JAVA_LONG] = "(*UCP)\\A-?\\d+[lL]$",
	[JAVA_AS_LIST] = "(*UCP)new\\s+ArrayList<\\w*>\\(Arrays\\.asList\\((.+?)\\)\\)",
	[JAVA_ADDS] = "(*UCP)(?s)new\\s+ArrayList<\\w*>\\(\\)\\s*\\{\\{\\s*(.+?)\\s*\\}\\}",
	[JAVA_ADD] = "add\\((.+?)\\)",
	[JAVA_EMPTY_LIST] = "(*UCP)new\\s+ArrayList<\\w*>\\(\\)",
	[JAVA_ARRAY] = "(*UCP)new\\s+\\w+\\[\\]\\s*\\{(.*?)\\}",
	[JAVA_PUTS] = "(*UCP)(?s)new\\s+HashMap<.*?>\\s*\\(\\)\\s*\\{\\s*\\{?\\s*(.*?)\\s*\\}?\\s*\\}",
	[JAVA_PUT] = "(*UCP)put\\(\"(.*?)\",\\s*(.*?)\\)",
	[JAVA_EMPTY_MAP] = "(*UCP)new\\s+HashMap<.*?>\\s*\\(\\)",
	[JS_FLOAT] = "(*UCP)\\A-?\\d+(?:\\.\\d+)?$",
	[JS_BIGINT] = "(*UCP)\\A-?\\d+n$",
	[JS_ARRAYS] = JS_ARRAYS_PATTERN,
	[JS_BRACKETS] = "\\[(.*?)\\]",
	[JS_ARRAY] = "(*UCP)\\A(?:\\[(.*?)\\]|new\\s+Array\\((.*?)\\))",
	[JS_OBJECT] = "\\A\\{(.*?)\\}",
	[JS_PAIR] = "(*UCP)([^:]+):\\s*(.*?)(?:,\\s*(?=[^,]+:)|$)",
};

struct converter {
	struct bfcl_checker *checker;
	struct buf *out;
	struct error *e;
};

int bfcl_checker_new(struct bfcl_checker **out, struct error *e)
{
	struct bfcl_checker *c = mem_calloc(1, sizeof(*c), e);
	if (!c)
		return ERR_MEMORY;
	for (int i = 0; i < BFCL_PATTERNS; i++) {
		int status = regex_new(pattern_texts[i], &c->patterns[i], e);
		if (status < 0) {
			bfcl_checker_delete(c);
			return status;
		}
	}
	*out = c;
	return 0;
}

void bfcl_checker_delete(struct bfcl_checker *c)
{
	if (!c)
		return;
	for (int i = 0; i < BFCL_PATTERNS; i++)
		regex_delete(c->patterns[i]);
	free(c);
}

/* ---- Python's int() and float() of a text ---- */

/* Copies digits, between which single underscores may stand. Returns how many; -1 for a stray underscore. */
static int copy_digits(struct str text, size_t *at, struct buf *out)
{
	int count = 0;
	bool after_digit = false;
	for (; *at < text.length; (*at)++) {
		char c = text.data[*at];
		bool digit = c >= '0' && c <= '9';
		if (!digit && !(c == '_' && after_digit))
			break;
		after_digit = digit;
		if (!digit)
			continue;
		buf_append_char(out, c);
		count++;
	}
	return count > 0 && !after_digit ? -1 : count;
}

static void copy_sign(struct str text, size_t *at, struct buf *out)
{
	if (*at < text.length && (text.data[*at] == '-' || text.data[*at] == '+')) {
		if (text.data[*at] == '-')
			buf_append_char(out, '-');
		(*at)++;
	}
}

/* Appends the integer in JSON's form; false, with out as it was, when int() refuses the text. */
static bool append_int(struct str text, struct buf *out)
{
	struct buf digits = {0};
	size_t at = 0, start = out->length;
	text = utf8_strip(text);
	copy_sign(text, &at, out);
	bool good = copy_digits(text, &at, &digits) > 0 && at == text.length;
	size_t zeros = 0;
	while (good && zeros + 1 < digits.length && digits.data[zeros] == '0')
		zeros++;
	if (good && digits.length == zeros + 1 && digits.data[zeros] == '0')
		out->length = start; /* -0 is 0 */
	if (good)
		buf_append(out, digits.data + zeros, digits.length - zeros);
	else if (out->length > start)
		out->length = start;
	buf_free(&digits);
	return good;
}

static bool is_word(struct str text, const char *word)
{
	size_t i = 0;
	for (; i < text.length && word[i]; i++) {
		char c = text.data[i];
		if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != word[i])
			return false;
	}
	return i == text.length && !word[i];
}

/* What float() makes of inf, infinity and nan, in any case. */
static bool read_constant(struct str text, size_t at, bool negative, double *out)
{
	struct str rest = {text.data + at, text.length - at};
	if (is_word(rest, "inf") || is_word(rest, "infinity"))
		*out = negative ? -INFINITY : INFINITY;
	else if (is_word(rest, "nan"))
		*out = NAN;
	else
		return false;
	return true;
}

/* Copies a decimal number into plain form; false when it is none. */
static bool copy_decimal(struct str text, size_t *at, struct buf *out)
{
	int whole = copy_digits(text, at, out), part = 0;
	if (whole == 0)
		buf_append_char(out, '0');
	if (*at < text.length && text.data[*at] == '.') {
		(*at)++;
		buf_append_char(out, '.');
		part = copy_digits(text, at, out);
		if (part == 0)
			buf_append_char(out, '0');
	}
	if (whole < 0 || part < 0 || whole + part == 0)
		return false;
	if (*at < text.length && (text.data[*at] == 'e' || text.data[*at] == 'E')) {
		(*at)++;
		buf_append_char(out, 'e');
		copy_sign(text, at, out);
		return copy_digits(text, at, out) > 0;
	}
	return true;
}

/* Appends the double in JSON's form; false when float() refuses the text. */
static bool append_float(struct str text, struct buf *out)
{
	struct buf plain = {0};
	size_t at = 0;
	double value = 0;
	text = utf8_strip(text);
	copy_sign(text, &at, &plain);
	bool good = read_constant(text, at, plain.length > 0, &value);
	if (!good && copy_decimal(text, &at, &plain) && at == text.length && !plain.failed) {
		value = decimal_to_double(plain.data);
		good = true;
	}
	if (good)
		json_write_double(value, out);
	buf_free(&plain);
	return good;
}

/* ---- Texts ---- */

/* Without the letter at the end, and a line feed behind it, before which Python's $ stands, too. */
static struct str without_suffix(struct str s)
{
	s.length -= s.data[s.length - 1] == '\n';
	return (struct str){s.data, s.length - 1};
}

/* text[1:-1] */
static struct str inner(struct str s)
{
	size_t first = 0, last = s.length;
	if (s.length > 0)
		utf8_next(s, &first);
	while (last > 0 && ((unsigned char)s.data[last - 1] & 0xc0) == 0x80)
		last--;
	last -= last > 0;
	return last > first ? (struct str){s.data + first, last - first} : (struct str){"", 0};
}

static bool has_ends(struct str s, char quote)
{
	return s.length > 0 && s.data[0] == quote && s.data[s.length - 1] == quote;
}

/* strip("'\"") */
static struct str strip_quotes(struct str s)
{
	while (s.length > 0 && (s.data[0] == '\'' || s.data[0] == '"'))
		s = (struct str){s.data + 1, s.length - 1};
	while (s.length > 0 && (s.data[s.length - 1] == '\'' || s.data[s.length - 1] == '"'))
		s.length--;
	return s;
}

/* The next piece of text.split(","); false at the end. *at starts at 0. */
static bool next_piece(struct str text, size_t *at, struct str *piece)
{
	if (*at > text.length)
		return false;
	size_t comma = str_find(text, str_of(","), *at);
	size_t end = comma == SIZE_MAX ? text.length : comma;
	*piece = (struct str){text.data + *at, end - *at};
	*at = end + 1;
	return true;
}

static void append_string(const struct converter *c, struct str text)
{
	json_write_string(text, false, c->out);
}

static void append_bool(const struct converter *c, bool value)
{
	buf_append_text(c->out, value ? "true" : "false");
}

/* What stands between two elements or members. */
static void append_comma(const struct converter *c, size_t start)
{
	if (c->out->length > start)
		buf_append_text(c->out, ", ");
}

/* The first match, 1, 0 or a negative status. */
static int search(const struct converter *c, enum bfcl_pattern pattern, struct str text)
{
	struct regex_cursor cursor = {0};
	return regex_next(c->checker->patterns[pattern], text, &cursor, c->e);
}

static struct str group(const struct converter *c, enum bfcl_pattern pattern, struct str text, int i)
{
	return regex_group(c->checker->patterns[pattern], text, i);
}

/* ---- Java ---- */

static int java_convert(const struct converter *c, struct str value, struct str type, struct str nested);

/* A number by its pattern, without its suffix; else the string. */
static int java_number(
	const struct converter *c, struct str value, enum bfcl_pattern pattern, bool is_float, bool has_suffix)
{
	int found = search(c, pattern, value);
	TRY(found);
	struct str number = found && has_suffix ? without_suffix(value) : value;
	if (!found || !(is_float ? append_float(number, c->out) : append_int(number, c->out)))
		append_string(c, value);
	return 0;
}

/* An element whose type is not known. */
static int java_value(const struct converter *c, struct str text)
{
	if (str_is(text, "true") || str_is(text, "false")) {
		append_bool(c, str_is(text, "true"));
		return 0;
	}
	if (has_ends(text, '"')) {
		append_string(c, inner(text));
		return 0;
	}
	int is_long = search(c, JAVA_LONG, text);
	TRY(is_long);
	if (is_long)
		return java_number(c, text, JAVA_LONG, false, true);
	int is_float = search(c, JAVA_FLOAT, text);
	TRY(is_float);
	if (is_float)
		return java_number(c, text, JAVA_FLOAT, true, true);
	if (!append_int(text, c->out) && !append_float(text, c->out))
		append_string(c, text);
	return 0;
}

/* An element of an ArrayList: characters and strings lose their quotes, whatever those are. */
static int java_element(const struct converter *c, struct str text, struct str nested)
{
	if (str_is(nested, "char") || str_is(nested, "String")) {
		append_string(c, inner(text));
		return 0;
	}
	return nested.length > 0 ? java_convert(c, text, nested, (struct str){0}) : java_value(c, text);
}

static int java_list_pieces(const struct converter *c, struct str pieces, struct str nested)
{
	struct str piece;
	buf_append_char(c->out, '[');
	size_t start = c->out->length;
	for (size_t at = 0; next_piece(pieces, &at, &piece);) {
		append_comma(c, start);
		TRY(java_element(c, utf8_strip(piece), nested));
	}
	buf_append_char(c->out, ']');
	return 0;
}

static int java_list_adds(const struct converter *c, struct str adds, struct str nested)
{
	struct regex_cursor cursor = {0};
	int found;
	buf_append_char(c->out, '[');
	size_t start = c->out->length;
	while ((found = regex_next(c->checker->patterns[JAVA_ADD], adds, &cursor, c->e)) > 0) {
		append_comma(c, start);
		TRY(java_element(c, utf8_strip(group(c, JAVA_ADD, adds, 1)), nested));
	}
	buf_append_char(c->out, ']');
	return found;
}

static int java_list(const struct converter *c, struct str value, struct str nested)
{
	int found = search(c, JAVA_AS_LIST, value);
	if (found > 0)
		return java_list_pieces(c, group(c, JAVA_AS_LIST, value, 1), nested);
	if (found == 0)
		found = search(c, JAVA_ADDS, value);
	if (found > 0)
		return java_list_adds(c, group(c, JAVA_ADDS, value, 1), nested);
	if (found == 0)
		found = search(c, JAVA_EMPTY_LIST, value);
	TRY(found);
	if (found)
		buf_append_text(c->out, "[]");
	else
		append_string(c, value);
	return 0;
}

/* In an array strings keep their quotes. */
static int java_array(const struct converter *c, struct str value, struct str nested)
{
	int found = search(c, JAVA_ARRAY, value);
	TRY(found);
	if (!found) {
		append_string(c, value);
		return 0;
	}
	struct str pieces = group(c, JAVA_ARRAY, value, 1), piece;
	buf_append_char(c->out, '[');
	size_t start = c->out->length;
	for (size_t at = 0; next_piece(pieces, &at, &piece);) {
		piece = utf8_strip(piece);
		if (piece.length == 0)
			continue;
		append_comma(c, start);
		TRY(nested.length > 0 ? java_convert(c, piece, nested, (struct str){0}) : java_value(c, piece));
	}
	buf_append_char(c->out, ']');
	return 0;
}

static int java_map_puts(const struct converter *c, struct str puts)
{
	struct regex_cursor cursor = {0};
	int found;
	buf_append_char(c->out, '{');
	size_t start = c->out->length;
	while ((found = regex_next(c->checker->patterns[JAVA_PUT], puts, &cursor, c->e)) > 0) {
		struct str value = group(c, JAVA_PUT, puts, 2);
		append_comma(c, start);
		append_string(c, group(c, JAVA_PUT, puts, 1));
		buf_append_text(c->out, ": ");
		TRY(java_value(c, utf8_strip(value)));
	}
	buf_append_char(c->out, '}');
	return found;
}

static int java_map(const struct converter *c, struct str value)
{
	int found = search(c, JAVA_PUTS, value);
	if (found > 0)
		return java_map_puts(c, group(c, JAVA_PUTS, value, 1));
	if (found == 0)
		found = search(c, JAVA_EMPTY_MAP, value);
	TRY(found);
	if (found)
		buf_append_text(c->out, "{}");
	else
		append_string(c, value);
	return 0;
}

static int fail_type(const struct converter *c, const char *language, struct str type)
{
	return error_set(c->e, ERR_INPUT, "type \"%.*s\": BFCL converts no such %s value", STR_ARG(type), language);
}

static int java_convert(const struct converter *c, struct str value, struct str type, struct str nested)
{
	if (str_is(type, "byte") || str_is(type, "short") || str_is(type, "integer"))
		return java_number(c, value, JAVA_WHOLE, false, false);
	if (str_is(type, "float"))
		return java_number(c, value, JAVA_FLOAT, true, true);
	if (str_is(type, "double"))
		return java_number(c, value, JAVA_DOUBLE, true, false);
	if (str_is(type, "long"))
		return java_number(c, value, JAVA_LONG, false, true);
	if (str_is(type, "ArrayList"))
		return java_list(c, value, nested);
	if (str_is(type, "Array"))
		return java_array(c, value, nested);
	if (str_is(type, "HashMap"))
		return java_map(c, value);
	if (str_is(type, "boolean") && (str_is(value, "true") || str_is(value, "false")))
		append_bool(c, str_is(value, "true"));
	else if (str_is(type, "boolean") || str_is(type, "char") || str_is(type, "String") || str_is(type, "any"))
		append_string(c, value);
	else
		return fail_type(c, "Java", type);
	return 0;
}

/* ---- JavaScript ---- */

static int js_convert(const struct converter *c, struct str value, struct str type, struct str nested);
static int js_array(const struct converter *c, struct str code, struct str nested);

static bool is_quoted(struct str text)
{
	return has_ends(text, '"') || has_ends(text, '\'');
}

/* An element whose type is not known. */
static void js_value(const struct converter *c, struct str text)
{
	text = utf8_strip(text);
	if (str_is(text, "true") || str_is(text, "false"))
		append_bool(c, str_is(text, "true"));
	else if (is_quoted(text))
		append_string(c, inner(text));
	else if (!append_int(text, c->out) && !append_float(text, c->out))
		append_string(c, text);
}

static void js_row(const struct converter *c, struct str row)
{
	struct str piece;
	buf_append_char(c->out, '[');
	size_t start = c->out->length;
	for (size_t at = 0; next_piece(row, &at, &piece);) {
		append_comma(c, start);
		js_value(c, piece);
	}
	buf_append_char(c->out, ']');
}

static int js_arrays(const struct converter *c, struct str text)
{
	struct regex_cursor cursor = {0};
	int found;
	buf_append_char(c->out, '[');
	size_t start = c->out->length;
	while ((found = regex_next(c->checker->patterns[JS_BRACKETS], text, &cursor, c->e)) > 0) {
		struct str row = utf8_strip(group(c, JS_BRACKETS, text, 1));
		if (c->out->length == start && row.length > 0 && row.data[0] == '[')
			row = (struct str){row.data + 1, row.length - 1};
		append_comma(c, start);
		js_row(c, row);
	}
	buf_append_char(c->out, ']');
	return found;
}

static int js_elements(const struct converter *c, struct str pieces, struct str nested)
{
	struct str piece;
	buf_append_char(c->out, '[');
	size_t start = c->out->length;
	for (size_t at = 0; pieces.length > 0 && next_piece(pieces, &at, &piece);) {
		piece = utf8_strip(piece);
		append_comma(c, start);
		bool quoted = piece.length > 0 && (piece.data[0] == '"' || piece.data[0] == '\'');
		if (nested.length == 0)
			js_value(c, piece);
		else
			TRY(js_convert(c, piece, nested, quoted ? str_of("String") : (struct str){0}));
	}
	buf_append_char(c->out, ']');
	return 0;
}

static int js_array(const struct converter *c, struct str code, struct str nested)
{
	int found = search(c, JS_ARRAYS, code);
	if (found > 0)
		return js_arrays(c, group(c, JS_ARRAYS, code, 0));
	if (found == 0)
		found = search(c, JS_ARRAY, code);
	TRY(found);
	if (!found) {
		append_string(c, code);
		return 0;
	}
	struct str first = group(c, JS_ARRAY, code, 1);
	struct str pieces = first.data ? first : group(c, JS_ARRAY, code, 2);
	return js_elements(c, utf8_strip(pieces), nested);
}

static int js_object(const struct converter *c, struct str code);

static int js_member(const struct converter *c, struct str key, struct str value)
{
	append_string(c, strip_quotes(utf8_strip(key)));
	buf_append_text(c->out, ": ");
	value = utf8_strip(value);
	if (value.length > 0 && value.data[0] == '[' && value.data[value.length - 1] == ']')
		return js_array(c, value, (struct str){0});
	if (value.length > 0 && value.data[0] == '{' && value.data[value.length - 1] == '}')
		return js_object(c, value);
	js_value(c, strip_quotes(value));
	return 0;
}

static int js_object(const struct converter *c, struct str code)
{
	if (str_is(code, "{}")) {
		buf_append_text(c->out, "{}");
		return 0;
	}
	int found = search(c, JS_OBJECT, code);
	TRY(found);
	if (!found) {
		append_string(c, code);
		return 0;
	}
	struct str content = group(c, JS_OBJECT, code, 1);
	struct regex_cursor cursor = {0};
	buf_append_char(c->out, '{');
	size_t start = c->out->length;
	while ((found = regex_next(c->checker->patterns[JS_PAIR], content, &cursor, c->e)) > 0) {
		struct str key = group(c, JS_PAIR, content, 1), value = group(c, JS_PAIR, content, 2);
		append_comma(c, start);
		TRY(js_member(c, key, value));
	}
	buf_append_char(c->out, '}');
	return found;
}

/* A number by its pattern; else the string. */
static int js_number(const struct converter *c, struct str value, enum bfcl_pattern pattern)
{
	int found = search(c, pattern, value);
	TRY(found);
	struct str number = found && pattern == JS_BIGINT ? without_suffix(value) : value;
	if (!found || !(pattern == JS_FLOAT ? append_float(number, c->out) : append_int(number, c->out)))
		append_string(c, value);
	return 0;
}

static int js_convert(const struct converter *c, struct str value, struct str type, struct str nested)
{
	if (str_is(type, "integer"))
		return js_number(c, value, JAVA_WHOLE);
	if (str_is(type, "float"))
		return js_number(c, value, JS_FLOAT);
	if (str_is(type, "Bigint"))
		return js_number(c, value, JS_BIGINT);
	if (str_is(type, "array"))
		return js_array(c, utf8_strip(value), nested);
	if (str_is(type, "dict"))
		return js_object(c, utf8_strip(value));
	if (str_is(type, "Boolean") && (str_is(value, "true") || str_is(value, "false")))
		append_bool(c, str_is(value, "true"));
	else if (str_is(type, "String"))
		append_string(c, is_quoted(value) ? inner(value) : value);
	else if (str_is(type, "Boolean") || str_is(type, "any"))
		append_string(c, value);
	else
		return fail_type(c, "JavaScript", type);
	return 0;
}

int bfcl_convert(struct bfcl_checker *checker, enum bfcl_language language, struct str value, struct str type,
	struct str nested, struct buf *json, struct error *e)
{
	const struct converter c = {checker, json, e};
	TRY(language == BFCL_JAVA ? java_convert(&c, value, type, nested) : js_convert(&c, value, type, nested));
	return buf_check(json, e);
}
