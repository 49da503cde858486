#include "engine/text/jinja_lexer.h"

#include <stdlib.h>

#include "engine/base/utf8.h"

enum { BRACKETS_MAX = 200 };

struct lexer {
	struct str source;
	const char *name;
	size_t at;
	int line;
	bool line_starting;          /* the tag before ended with a line feed, or there was none */
	char brackets[BRACKETS_MAX]; /* that are open, as they close */
	int n_brackets;
	struct jinja_tokens *out;
	struct error *e;
};

void jinja_tokens_free(struct jinja_tokens *t)
{
	free(t->items);
	*t = (struct jinja_tokens){0};
}

static int add(struct lexer *l, enum jinja_token_type type, size_t start, size_t end)
{
	struct jinja_tokens *t = l->out;
	if (t->count == t->capacity) {
		size_t capacity = t->capacity ? 2 * t->capacity : 64;
		struct jinja_token *items = realloc(t->items, capacity * sizeof *items);
		if (!items)
			return error_set(l->e, ERR_MEMORY, "out of memory for %zu tokens", capacity);
		t->items = items;
		t->capacity = capacity;
	}
	t->items[t->count++] = (struct jinja_token){type, l->line, {l->source.data + start, end - start}};
	return 0;
}

/* Goes on to a later place and counts the lines on the way. */
static void move_to(struct lexer *l, size_t place)
{
	for (; l->at < place; l->at++)
		l->line += l->source.data[l->at] == '\n';
}

static char char_at(const struct lexer *l, size_t place)
{
	return place < l->source.length ? l->source.data[place] : '\0';
}

static bool text_at(const struct lexer *l, size_t place, const char *text)
{
	struct str rest = {l->source.data + place, l->source.length - place};
	return place < l->source.length && str_starts_with(rest, str_of(text));
}

/* The first place from there on that holds no white space. */
static size_t skip_space(const struct lexer *l, size_t place)
{
	for (size_t next = place; next < l->source.length; place = next)
		if (!utf8_is_python_space(utf8_next(l->source, &next)))
			break;
	return place;
}

/* ---- Text between tags ---- */

/* Text before a tag with that sign ('-', '+' or another): its end after trimming. */
static size_t data_end(const struct lexer *l, size_t start, size_t end, char sign, bool variable)
{
	struct str text = {l->source.data + start, end - start};
	if (sign == '-')
		return start + utf8_rstrip(text).length;
	if (sign == '+' || variable)
		return end;
	size_t line = end;
	while (line > start && l->source.data[line - 1] != '\n')
		line--;
	if (line == start && !l->line_starting)
		return end;
	return skip_space(l, line) >= end ? line : end;
}

/* The end of a tag's closing mark at that place, with the white space that it takes; SIZE_MAX: it is none. */
static size_t close_end(const struct lexer *l, size_t place, const char *mark, bool trims)
{
	if (text_at(l, place, mark)) {
		size_t end = place + 2;
		return trims && char_at(l, end) == '\n' ? end + 1 : end;
	}
	char sign = char_at(l, place);
	if ((sign != '-' && (sign != '+' || !trims)) || !text_at(l, place + 1, mark))
		return SIZE_MAX;
	return sign == '-' ? skip_space(l, place + 3) : place + 3;
}

static void close_tag(struct lexer *l, size_t end)
{
	move_to(l, end);
	l->line_starting = end > 0 && l->source.data[end - 1] == '\n';
}

static int lex_error(struct lexer *l, const char *message)
{
	return error_set(l->e, ERR_INPUT, "%s:%d: %s", l->name, l->line, message);
}

static int lex_comment(struct lexer *l, size_t start)
{
	size_t mark = str_find(l->source, str_of("#}"), start);
	if (mark == SIZE_MAX)
		return lex_error(l, "a comment has no end: expected #}");
	bool has_sign = mark > start && (l->source.data[mark - 1] == '-' || l->source.data[mark - 1] == '+');
	close_tag(l, close_end(l, has_sign ? mark - 1 : mark, "#}", true));
	return 0;
}

/* The end of "{% WORD %}" at that place, SIZE_MAX where something else stands; *sign: the one at its beginning. */
static size_t word_tag_end(const struct lexer *l, size_t place, const char *word, bool trims, char *sign)
{
	if (!text_at(l, place, "{%"))
		return SIZE_MAX;
	*sign = char_at(l, place + 2);
	place = skip_space(l, place + 2 + (*sign == '-' || *sign == '+'));
	if (!text_at(l, place, word))
		return SIZE_MAX;
	place = skip_space(l, place + strlen(word));
	if (!trims && char_at(l, place) == '+')
		return SIZE_MAX;
	return close_end(l, place, "%}", trims);
}

/* What stands in {% raw %} is text, whatever it looks like. */
static int lex_raw(struct lexer *l, size_t start)
{
	close_tag(l, start);
	for (size_t tag = start; (tag = str_find(l->source, str_of("{%"), tag)) != SIZE_MAX; tag++) {
		char sign = '\0';
		size_t end = word_tag_end(l, tag, "endraw", true, &sign);
		if (end == SIZE_MAX)
			continue;
		size_t trimmed = data_end(l, start, tag, sign, false);
		if (trimmed > start && add(l, JINJA_DATA, start, trimmed) < 0)
			return ERR_MEMORY;
		close_tag(l, end);
		return 0;
	}
	return lex_error(l, "{% raw %} has no end: expected {% endraw %}");
}

/* ---- Inside of tags ---- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name_byte(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

/* The end of digits, which may have single underscores between them; start where there is none. */
static size_t digits_end(const struct lexer *l, size_t place, const char *digits)
{
	size_t end = place;
	for (;;) {
		size_t next = end + (end > place && char_at(l, end) == '_');
		char c = char_at(l, next);
		if (!c || !strchr(digits, c))
			return end;
		end = next + 1;
	}
}

static const char decimal[] = "0123456789";

static size_t exponent_end(const struct lexer *l, size_t place)
{
	if (char_at(l, place) != 'e' && char_at(l, place) != 'E')
		return place;
	size_t digits = place + 1 + (char_at(l, place + 1) == '+' || char_at(l, place + 1) == '-');
	size_t end = digits_end(l, digits, decimal);
	return end > digits ? end : place;
}

static int lex_number(struct lexer *l)
{
	size_t start = l->at, end = digits_end(l, start, decimal);
	bool follows_dot = start > 0 && l->source.data[start - 1] == '.';
	size_t whole = end;
	if (!follows_dot) {
		size_t fraction = char_at(l, end) == '.' ? digits_end(l, end + 1, decimal) : end;
		if (fraction > end + 1)
			end = fraction;
		end = exponent_end(l, end);
	}
	enum jinja_token_type type = end > whole ? JINJA_FLOAT : JINJA_INTEGER;
	if (type == JINJA_INTEGER && l->source.data[start] == '0') {
		static const struct {
			char letter;
			const char *digits;
		} bases[] = {{'x', "0123456789abcdefABCDEF"}, {'o', "01234567"}, {'b', "01"}};
		char letter = (char)(char_at(l, start + 1) | 0x20);
		end = digits_end(l, start, "0"); /* no other digit follows a zero */
		for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
			size_t based = start + 2 + (char_at(l, start + 2) == '_');
			size_t based_end = digits_end(l, based, bases[i].digits);
			if (letter == bases[i].letter && based_end > based)
				end = based_end;
		}
	}
	TRY(add(l, type, start, end));
	move_to(l, end);
	return 0;
}

static int lex_string(struct lexer *l)
{
	size_t start = l->at, end = start + 1;
	char quote = l->source.data[start];
	while (end < l->source.length && l->source.data[end] != quote)
		end += l->source.data[end] == '\\' ? 2 : 1;
	if (end >= l->source.length)
		return lex_error(l, "a string has no end");
	TRY(add(l, JINJA_STRING, start + 1, end));
	move_to(l, end + 1);
	return 0;
}

/* Counts the brackets: a mark that closes the tag is none inside of them. */
static int note_bracket(struct lexer *l, char c)
{
	static const char opening[] = "([{", closing[] = ")]}";
	const char *opens = strchr(opening, c), *closes = strchr(closing, c);
	if (opens) {
		if (l->n_brackets == BRACKETS_MAX)
			return lex_error(l, "brackets are nested too deeply");
		l->brackets[l->n_brackets++] = closing[opens - opening];
	} else if (closes && (l->n_brackets == 0 || l->brackets[--l->n_brackets] != c)) {
		return error_set(l->e, ERR_INPUT, "%s:%d: unexpected '%c'", l->name, l->line, c);
	}
	return 0;
}

static int lex_operator(struct lexer *l)
{
	static const char *const pairs[] = {"//", "**", "==", "!=", ">=", "<="};
	static const char singles[] = "+-/*%~[](){}><=.:|,;";
	size_t length = 0;
	char c = l->source.data[l->at];
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		if (text_at(l, l->at, pairs[i]))
			length = 2;
	if (length == 0 && c && strchr(singles, c))
		length = 1;
	if (length == 0)
		return error_set(l->e, ERR_INPUT, "%s:%d: unexpected character '%c'", l->name, l->line,
			c >= ' ' && c <= '~' ? c : '?');
	if (length == 1)
		TRY(note_bracket(l, c));
	TRY(add(l, JINJA_OPERATOR, l->at, l->at + length));
	move_to(l, l->at + length);
	return 0;
}

static int lex_word(struct lexer *l)
{
	size_t end = l->at;
	while (end < l->source.length && is_name_byte(l->source.data[end]))
		end++;
	TRY(add(l, JINJA_NAME, l->at, end));
	move_to(l, end);
	return 0;
}

/* From behind the opening mark to behind the closing one. */
static int lex_tag(struct lexer *l, bool variable)
{
	const char *mark = variable ? "}}" : "%}";
	l->n_brackets = 0;
	for (;;) {
		move_to(l, skip_space(l, l->at));
		if (l->at >= l->source.length)
			return error_set(
				l->e, ERR_INPUT, "%s:%d: a tag has no end: expected %s", l->name, l->line, mark);
		size_t end = l->n_brackets ? SIZE_MAX : close_end(l, l->at, mark, !variable);
		char c = l->source.data[l->at];
		if (end != SIZE_MAX) {
			TRY(add(l, variable ? JINJA_VARIABLE_END : JINJA_BLOCK_END, l->at, end));
			close_tag(l, end);
			return 0;
		}
		if (is_digit(c))
			TRY(lex_number(l));
		else if (is_name_byte(c))
			TRY(lex_word(l));
		else if (c == '"' || c == '\'')
			TRY(lex_string(l));
		else
			TRY(lex_operator(l));
	}
}

/* The next place where a tag of any kind begins. */
static size_t find_tag(const struct lexer *l)
{
	size_t place = l->at;
	while ((place = str_find(l->source, str_of("{"), place)) != SIZE_MAX) {
		char second = char_at(l, place + 1);
		if (second == '%' || second == '{' || second == '#')
			return place;
		place++;
	}
	return SIZE_MAX;
}

static int lex_next(struct lexer *l, size_t tag)
{
	char kind = l->source.data[tag + 1], sign = char_at(l, tag + 2);
	size_t end = data_end(l, l->at, tag, sign, kind == '{');
	if (end > l->at)
		TRY(add(l, JINJA_DATA, l->at, end));
	move_to(l, tag);
	size_t inside = tag + 2 + (sign == '-' || sign == '+');
	if (kind == '#')
		return lex_comment(l, inside);
	size_t raw = kind == '%' ? word_tag_end(l, tag, "raw", false, &sign) : SIZE_MAX;
	if (raw != SIZE_MAX)
		return lex_raw(l, raw);
	TRY(add(l, kind == '{' ? JINJA_VARIABLE_BEGIN : JINJA_BLOCK_BEGIN, tag, inside));
	move_to(l, inside);
	return lex_tag(l, kind == '{');
}

int jinja_lex(struct str source, const char *name, struct jinja_tokens *out, struct error *e)
{
	struct lexer l = {.source = source, .name = name, .line = 1, .line_starting = true, .out = out, .e = e};
	int status = 0;
	while (status == 0 && l.at < source.length) {
		size_t tag = find_tag(&l);
		if (tag == SIZE_MAX) {
			status = add(&l, JINJA_DATA, l.at, source.length);
			move_to(&l, source.length);
		} else {
			status = lex_next(&l, tag);
		}
	}
	return status == 0 ? add(&l, JINJA_END, source.length, source.length) : status;
}
