#include "engine/text/onig_syntax.h"

#include <limits.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/base/utf8.h"

/* \w of Oniguruma, without its brackets: besides the letters of Unicode also the superscripts and fractions of
 * Latin-1. */
static const char word_class[] = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";

enum { DEPTH_MAX = 64 }; /* of groups and of classes */

struct translation {
	struct str source;
	size_t position; /* the next byte of source */
	struct buf *out;
	bool has_atom;     /* a quantifier may follow */
	size_t atom_start; /* where in *out that atom begins */
	size_t groups[DEPTH_MAX];
	int depth;
	const char *name;
	struct error *e;
};

static int refuse(struct translation *t, const char *what)
{
	return error_set(t->e, ERR_INPUT, "%s: pattern \"%.*s\": %s at byte %zu is not supported", t->name,
		STR_ARG(t->source), what, t->position);
}

static int peek(const struct translation *t, size_t ahead)
{
	return t->position + ahead < t->source.length ? (unsigned char)t->source.data[t->position + ahead] : -1;
}

static bool take(struct translation *t, const char *text)
{
	struct str rest = {t->source.data + t->position, t->source.length - t->position};
	if (!str_starts_with(rest, str_of(text)))
		return false;
	t->position += strlen(text);
	return true;
}

static bool is_digit(int c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int hex_value(int c)
{
	return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Appends one character as itself, whatever it would mean to PCRE2. */
static void emit_literal(struct buf *out, int32_t code_point)
{
	if (code_point < 0x80 && !is_digit(code_point) && !is_letter(code_point) && code_point >= 0x20)
		buf_append_char(out, '\\');
	if (code_point < 0x20 || code_point == 0x7f)
		buf_printf(out, "\\x{%x}", (unsigned)code_point);
	else
		utf8_append(out, code_point);
}

/* ---- Escapes ---- */

static bool pcre2_knows(const char *pattern)
{
	int code;
	PCRE2_SIZE offset;
	pcre2_code *compiled =
		pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
	pcre2_code_free(compiled);
	return compiled != NULL;
}

/* \p{Name}, after the p: a script is the property Script, where PCRE2 alone would take Script_Extensions. */
static int escape_property(struct translation *t, bool negated, struct buf *out)
{
	if (!take(t, "{"))
		return refuse(t, "\\p without braces");
	if (take(t, "^"))
		negated = !negated;
	char property[64];
	size_t length = 0;
	while (peek(t, 0) >= 0 && peek(t, 0) != '}' && length < sizeof(property) - 1) {
		int c = peek(t, 0);
		if (!is_letter(c) && !is_digit(c) && c != '_' && c != '-' && c != ' ')
			return refuse(t, "a property name with other characters than letters, digits, '_', '-', ' '");
		property[length++] = (char)c;
		t->position++;
	}
	property[length] = '\0';
	if (!take(t, "}"))
		return refuse(t, "a property name that does not end");

	char script[80];
	snprintf(script, sizeof(script), "\\p{sc:%s}", property);
	bool is_script = length > 2 && pcre2_knows(script);
	buf_printf(out, "\\%c{%s%s}", negated ? 'P' : 'p', is_script ? "sc:" : "", property);
	return 0;
}

/* \xHH, \x{H...}, \uHHHH, after the letter. */
static int escape_code_point(struct translation *t, bool is_u, struct buf *out)
{
	bool braces = !is_u && take(t, "{");
	int digits_max = is_u ? 4 : braces ? 8 : 2;
	int32_t value = 0;
	int digits = 0;
	for (; digits < digits_max && hex_value(peek(t, 0)) >= 0 && value <= 0x10ffff; digits++, t->position++)
		value = value << 4 | hex_value(peek(t, 0));
	if (digits == 0 || (is_u && digits < 4) || (braces && !take(t, "}")))
		return refuse(t, "a character code without its digits");
	if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
		return refuse(t, "a code that is no Unicode character");
	if (!is_u && !braces && value >= 0x80)
		return refuse(t, "\\x with a single byte of UTF-8");
	emit_literal(out, value);
	return 0;
}

/* The escapes that stand for a set of characters. *known: c is one of them. */
static int escape_set(struct translation *t, int c, bool in_class, struct buf *out, bool *known)
{
	*known = true;
	switch (c) {
	case 's':
		buf_append_text(out, "\\p{White_Space}");
		return 0;
	case 'S':
		buf_append_text(out, "\\P{White_Space}");
		return 0;
	case 'd':
		buf_append_text(out, "\\p{Nd}");
		return 0;
	case 'D':
		buf_append_text(out, "\\P{Nd}");
		return 0;
	case 'h':
		buf_append_text(out, in_class ? "0-9a-fA-F" : "[0-9a-fA-F]");
		return 0;
	case 'w':
		buf_printf(out, in_class ? "%s" : "[%s]", word_class);
		return 0;
	case 'W':
		if (in_class)
			return refuse(t, "\\W in a class");
		buf_printf(out, "[^%s]", word_class);
		return 0;
	case 'p':
	case 'P':
		return escape_property(t, c == 'P', out);
	default:
		*known = false;
		return 0;
	}
}

/* The escapes that stand for a place. */
static bool escape_anchor(int c, struct buf *out)
{
	switch (c) {
	case 'b':
		buf_printf(
			out, "(?:(?<=[%s])(?![%s])|(?<![%s])(?=[%s]))", word_class, word_class, word_class, word_class);
		return true;
	case 'B':
		buf_printf(
			out, "(?:(?<=[%s])(?=[%s])|(?<![%s])(?![%s]))", word_class, word_class, word_class, word_class);
		return true;
	case 'A':
	case 'Z':
	case 'z':
		buf_printf(out, "\\%c", c);
		return true;
	default:
		return false;
	}
}

/* One escape, after the backslash. */
static int translate_escape(struct translation *t, bool in_class, struct buf *out)
{
	static const char letters[] = "nrtfvae", values[] = "\n\r\t\f\v\a\x1b";
	size_t start = t->position;
	if (start == t->source.length)
		return refuse(t, "a backslash at the end");
	int32_t c = utf8_next(t->source, &t->position);
	const char *control = c > 0 && c < 0x80 ? strchr(letters, (int)c) : NULL;
	if (control) {
		emit_literal(out, values[control - letters]);
		return 0;
	}
	bool known;
	TRY(escape_set(t, (int)c, in_class, out, &known));
	if (known)
		return 0;
	if (c == 'x' || c == 'u')
		return escape_code_point(t, c == 'u', out);
	if (!in_class && escape_anchor((int)c, out))
		return 0;
	if (is_letter((int)c) || is_digit((int)c)) {
		t->position = start;
		return refuse(t, "this escape");
	}
	emit_literal(out, c);
	return 0;
}

/* ---- Character classes ---- */

static int translate_class(struct translation *t, int depth, struct buf *out, bool *plain);

/* A class inside a class: alone between && it stands for itself; in a union it must be plain, and its content joins. */
static int nested_class(struct translation *t, int depth, struct buf *content, struct buf *whole)
{
	if (depth == DEPTH_MAX)
		return refuse(t, "a class nested so deeply");
	struct buf inner = {0};
	bool plain;
	int status = translate_class(t, depth + 1, &inner, &plain);
	if (status == 0 && content->length == 0 && (peek(t, 0) == ']' || (peek(t, 0) == '&' && peek(t, 1) == '&')))
		buf_append_str(whole, buf_str(&inner));
	else if (status == 0 && plain)
		buf_append(content, inner.data + 1, inner.length - 2);
	else if (status == 0)
		status = refuse(t, "a union with a negated or cut class");
	buf_free(&inner);
	return status;
}

/* What stands between "[" or "&&" and the next "&&" or "]", as one PCRE2 class. */
static int class_part(struct translation *t, int depth, bool first, struct buf *part)
{
	struct buf content = {0};
	int status = 0;
	bool at_start = first; /* "]" is itself here */
	for (int c; status == 0 && part->length == 0; at_start = false) {
		c = peek(t, 0);
		if (c < 0)
			status = refuse(t, "a class that does not end");
		else if ((c == ']' && !at_start) || (c == '&' && peek(t, 1) == '&'))
			break;
		else if (c == '[' && peek(t, 1) == ':')
			status = refuse(t, "a POSIX bracket");
		else if (take(t, "["))
			status = nested_class(t, depth, &content, part);
		else if (take(t, "\\"))
			status = translate_escape(t, true, &content);
		else if (take(t, "-"))
			buf_append_char(&content, '-');
		else
			emit_literal(&content, utf8_next(t->source, &t->position));
	}
	if (status == 0 && part->length == 0 && content.length == 0)
		status = refuse(t, "an empty class");
	if (status == 0 && part->length == 0)
		buf_printf(part, "[%s]", buf_text(&content));
	buf_free(&content);
	return status;
}

/* After the "[". One part becomes one PCRE2 class; an intersection becomes look-aheads before its last part.
 * *plain: *out is "[" content "]", not negated. */
static int translate_class(struct translation *t, int depth, struct buf *out, bool *plain)
{
	bool negated = take(t, "^");
	struct buf parts = {0}, part = {0};
	int status = class_part(t, depth, true, &part);
	int count = 1;
	for (; status == 0 && take(t, "&&"); count++) {
		buf_printf(&parts, "(?=%s)", buf_text(&part));
		buf_clear(&part);
		status = class_part(t, depth, false, &part);
	}
	if (status == 0 && !take(t, "]"))
		status = refuse(t, "a class that does not end");
	if (status == 0)
		status = buf_check(&part, t->e);
	*plain = status == 0 && count == 1 && !negated && part.data[0] == '[' && part.data[1] != '^';
	bool simple = count == 1 && status == 0 && part.data[0] == '[' && part.data[1] != '^';
	if (simple && negated)
		buf_printf(out, "[^%s", part.data + 1);
	else if (negated)
		buf_printf(out, "(?:(?!%s%s)(?s:.))", buf_text(&parts), buf_text(&part));
	else
		buf_printf(out, count == 1 ? "%s%s" : "(?:%s%s)", buf_text(&parts), buf_text(&part));
	buf_free(&parts);
	buf_free(&part);
	return status;
}

/* ---- Groups and quantifiers ---- */

/* (?imx-imx) and (?imx-imx: ...), after "(?": Ruby's m lets the dot match line feeds, which is s to PCRE2. */
static int group_options(struct translation *t)
{
	bool at_start = t->position == 2;
	buf_append_text(t->out, "(?");
	for (;; t->position++) {
		int c = peek(t, 0);
		if (c == 'i' || c == '-')
			buf_append_char(t->out, (char)c);
		else if (c == 'm')
			buf_append_char(t->out, 's');
		else
			break;
	}
	if (take(t, ":")) {
		buf_append_char(t->out, ':');
		return 0;
	}
	/* Elsewhere it would hold to the end of the group in Ruby, to the next "|" in PCRE2. */
	if (!at_start || peek(t, 0) != ')')
		return refuse(t, "this kind of group");
	take(t, ")");
	buf_append_char(t->out, ')');
	return 0;
}

/* After the "(". Groups capture nothing: nothing can refer to them. */
static int group_open(struct translation *t)
{
	static const char *const kinds[] = {"?:", "?=", "?!", "?>", "?<=", "?<!"};
	size_t start = t->out->length;
	bool opened = false;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && !opened; i++) {
		opened = take(t, kinds[i]);
		if (opened)
			buf_printf(t->out, "(%s", kinds[i]);
	}
	if (!opened && take(t, "?")) {
		TRY(group_options(t));
		if (t->out->length > start && t->out->data[t->out->length - 1] == ')')
			return 0;
	} else if (!opened) {
		buf_append_text(t->out, "(?:");
	}
	if (t->depth == DEPTH_MAX)
		return refuse(t, "a group nested so deeply");
	t->groups[t->depth++] = start;
	t->has_atom = false;
	return 0;
}

static int group_close(struct translation *t)
{
	if (t->depth == 0)
		return refuse(t, "a \")\" without its \"(\"");
	t->atom_start = t->groups[--t->depth];
	t->has_atom = true;
	buf_append_char(t->out, ')');
	return 0;
}

/* Puts the last atom with what follows it up to now into a group of its own. */
static void wrap_atom(struct translation *t)
{
	static const char open[] = "(?:";
	size_t length = t->out->length - t->atom_start, shift = sizeof(open) - 1;
	buf_append_text(t->out, open);
	if (t->out->failed)
		return;
	char *atom = t->out->data + t->atom_start;
	memmove(atom + shift, atom, length);
	memcpy(atom, open, shift);
	buf_append_char(t->out, ')');
}

static int read_number(struct translation *t)
{
	int value = -1;
	for (; is_digit(peek(t, 0)) && value < 100000; t->position++)
		value = (value < 0 ? 0 : value * 10) + peek(t, 0) - '0';
	return value;
}

/* {n}, {n,}, {,m}, {n,m}, after the "{"; anything else begins with a literal brace. A "+" after it repeats the whole
 * (it is not possessive in Ruby), and a "?" after {n} makes the whole optional. */
static int translate_interval(struct translation *t)
{
	size_t start = t->position;
	int low = read_number(t), high = low;
	bool comma = take(t, ",");
	if (comma)
		high = read_number(t);
	if ((low < 0 && high < 0) || !take(t, "}")) {
		t->position = start;
		t->atom_start = t->out->length;
		t->has_atom = true;
		buf_append_text(t->out, "\\{");
		return 0;
	}
	if (!t->has_atom)
		return refuse(t, "a quantifier after nothing or after another");
	buf_printf(t->out, "{%d", low < 0 ? 0 : low);
	if (comma)
		buf_append_char(t->out, ',');
	if (comma && high >= 0)
		buf_printf(t->out, "%d", high);
	buf_append_char(t->out, '}');

	if (take(t, "+")) {
		wrap_atom(t);
		buf_append_char(t->out, '+');
	} else if (take(t, "?")) {
		if (!comma)
			wrap_atom(t);
		buf_append_char(t->out, '?');
	}
	t->has_atom = false;
	return 0;
}

static void translate_quantifier(struct translation *t, char c)
{
	buf_append_char(t->out, c);
	if (peek(t, 0) == '?' || peek(t, 0) == '+')
		buf_append_char(t->out, t->source.data[t->position++]);
	t->has_atom = false;
}

static int translate_next(struct translation *t)
{
	int c = peek(t, 0);
	if (c == '*' || c == '+' || c == '?') {
		if (!t->has_atom)
			return refuse(t, "a quantifier after nothing or after another");
		t->position++;
		translate_quantifier(t, (char)c);
		return 0;
	}
	if (take(t, "{"))
		return translate_interval(t);
	if (take(t, "("))
		return group_open(t);
	if (take(t, ")"))
		return group_close(t);
	if (c == '|' || c == '^' || c == '$') {
		buf_append_char(t->out, (char)c);
		t->position++;
		t->has_atom = false;
		return 0;
	}
	t->atom_start = t->out->length;
	t->has_atom = true;
	bool plain;
	if (take(t, "["))
		return translate_class(t, 1, t->out, &plain);
	if (take(t, "\\"))
		return translate_escape(t, false, t->out);
	if (take(t, "."))
		buf_append_char(t->out, '.');
	else
		emit_literal(t->out, utf8_next(t->source, &t->position));
	return 0;
}

int onig_to_pcre2(struct str source, const char *name, struct buf *out, struct error *e)
{
	struct translation t = {.source = source, .out = out, .name = name, .e = e};
	if (source.length > INT_MAX / 256 || !utf8_valid(source))
		return error_set(
			e, ERR_INPUT, "%s: a pattern of %zu bytes is too long or not UTF-8", name, source.length);
	while (t.position < source.length)
		TRY(translate_next(&t));
	if (t.depth > 0)
		return refuse(&t, "a \"(\" without its \")\"");
	return buf_check(out, e);
}
