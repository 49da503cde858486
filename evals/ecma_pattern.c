#include "evals/ecma_pattern.h"

#include <stdint.h>
#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/base/utf8.h"

enum { MAX_PATTERN = 64 * 1024, MATCH_LIMIT = 1000000, HEAP_LIMIT_KIB = 64 * 1024 }; /* MATCH_LIMIT: from each place */

/* WhiteSpace and LineTerminator of ECMA-262, and what they leave, as ranges of a class. Each ends with a range, behind
 * which a hyphen means itself. */
#define SPACES "\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{feff} \\t-\\r"
#define NO_SPACES                                                                                                   \
	"\\x00-\\x08\\x0e-\\x1f!-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}" \
	"\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{fefe}\\x{ff00}-\\x{10ffff}"

struct ecma_pattern {
	pcre2_code *code;
	pcre2_match_context *context;
};

/* ---- Translation ---- */

struct translator {
	struct str source;
	size_t at;
	bool in_class;
	struct buf *out;
	struct error *e;
};

static int refuse(const struct translator *t, size_t from, const char *what)
{
	struct str rest = {t->source.data + from, t->at > from ? t->at - from : 1};
	return error_set(t->e, ERR_INPUT, "pattern \"%.*s\": '%.*s' %s", STR_ARG(t->source), STR_ARG(rest), what);
}

static char peek(const struct translator *t, size_t ahead)
{
	return t->at + ahead < t->source.length ? t->source.data[t->at + ahead] : '\0';
}

static int hex_value(char c)
{
	return c >= '0' && c <= '9'    ? c - '0'
		: c >= 'a' && c <= 'f' ? c - 'a' + 10
		: c >= 'A' && c <= 'F' ? c - 'A' + 10
				       : -1;
}

/* Reads exactly n hexadecimal digits at the place, or -1. */
static int32_t take_hex(struct translator *t, int n)
{
	int32_t value = 0;
	for (int i = 0; i < n; i++) {
		int digit = hex_value(peek(t, (size_t)i));
		if (digit < 0)
			return -1;
		value = value << 4 | digit;
	}
	t->at += (size_t)n;
	return value;
}

/* The digits of \u{...}, behind the brace. */
static int32_t take_braced(struct translator *t)
{
	int32_t value = 0;
	size_t first = t->at;
	for (int digit; (digit = hex_value(peek(t, 0))) >= 0; t->at++) {
		value = value << 4 | digit;
		if (value > 0x10ffff)
			return -1;
	}
	return t->at > first && peek(t, 0) == '}' ? (t->at++, value) : -1;
}

/* \uXXXX, a pair of them for a character beyond the first plane, \u{X}; the place is behind the u. */
static int translate_unicode(struct translator *t, size_t from)
{
	int32_t value;
	if (peek(t, 0) == '{') {
		t->at++;
		value = take_braced(t);
	} else {
		value = take_hex(t, 4);
		if (value >= 0xd800 && value <= 0xdbff && peek(t, 0) == '\\' && peek(t, 1) == 'u') {
			t->at += 2;
			int32_t low = take_hex(t, 4);
			value = low >= 0xdc00 && low <= 0xdfff ? 0x10000 + (value - 0xd800) * 0x400 + (low - 0xdc00)
							       : -1;
		}
	}
	if (value < 0 || (value >= 0xd800 && value <= 0xdfff))
		return refuse(t, from, "is no code point that a text can hold");
	buf_printf(t->out, "\\x{%x}", (unsigned)value);
	return 0;
}

static int translate_hex(struct translator *t, size_t from)
{
	int32_t value = take_hex(t, 2);
	if (value < 0)
		return refuse(t, from, "needs two hexadecimal digits");
	buf_printf(t->out, "\\x{%x}", (unsigned)value);
	return 0;
}

static int translate_property(struct translator *t, size_t from)
{
	size_t end = str_find(t->source, str_of("}"), t->at);
	if (peek(t, 0) != '{' || end == SIZE_MAX)
		return refuse(t, from, "needs a property in braces");
	buf_append(t->out, t->source.data + from, end + 1 - from);
	t->at = end + 1;
	return 0;
}

static int translate_control(struct translator *t, size_t from)
{
	char c = peek(t, 0);
	if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
		return refuse(t, from, "needs a letter");
	t->at++;
	buf_printf(t->out, "\\x%02x", (unsigned)(c & 31));
	return 0;
}

static int translate_named_group(struct translator *t, size_t from)
{
	size_t end = str_find(t->source, str_of(">"), t->at);
	if (t->in_class || peek(t, 0) != '<' || end == SIZE_MAX)
		return refuse(t, from, "needs the name of a group");
	buf_append(t->out, t->source.data + from, end + 1 - from);
	t->at = end + 1;
	return 0;
}

static void append_spaces(struct translator *t, const char *ranges)
{
	buf_printf(t->out, t->in_class ? "%s" : "[%s]", ranges);
}

/* The place is behind "\" and the letter c. */
static int translate_letter(struct translator *t, size_t from, char c)
{
	switch (c) {
	case 's':
		append_spaces(t, SPACES);
		return 0;
	case 'S':
		append_spaces(t, NO_SPACES);
		return 0;
	case 'v':
		buf_append_text(t->out, "\\x0b");
		return 0;
	case 'u':
		return translate_unicode(t, from);
	case 'x':
		return translate_hex(t, from);
	case 'p':
	case 'P':
		return translate_property(t, from);
	case 'c':
		return translate_control(t, from);
	case 'k':
		return translate_named_group(t, from);
	case 'B':
		if (t->in_class)
			return refuse(t, from, "stands in a class");
		break;
	default:
		break;
	}
	if (!strchr("dDwWbBtnfr", c))
		return refuse(t, from, "is no escape of ECMA-262");
	buf_append(t->out, t->source.data + from, 2);
	return 0;
}

static int translate_escape(struct translator *t)
{
	size_t from = t->at++;
	char c = peek(t, 0);
	if (t->at == t->source.length)
		return refuse(t, from, "ends the pattern");
	t->at++;
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
		return translate_letter(t, from, c);
	if (c == '0') {
		if (peek(t, 0) >= '0' && peek(t, 0) <= '9')
			return refuse(t, from, "begins an octal number");
		buf_append_text(t->out, "\\x00");
		return 0;
	}
	if (c >= '1' && c <= '9' && t->in_class)
		return refuse(t, from, "refers to a group in a class");
	if ((unsigned char)c >= 0x80)
		return refuse(t, from, "is no escape of ECMA-262");
	if (c >= '1' && c <= '9') { /* \g{N}: no digit behind it belongs to the number */
		buf_printf(t->out, "\\g{%c", c);
		for (; peek(t, 0) >= '0' && peek(t, 0) <= '9'; t->at++)
			buf_append_char(t->out, peek(t, 0));
		buf_append_char(t->out, '}');
		return 0;
	}
	buf_append(t->out, t->source.data + from, 2);
	return 0;
}

/* "(" and what says which kind of group it is. */
static int translate_group(struct translator *t)
{
	static const char *const kinds[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?<"};
	struct str rest = {t->source.data + t->at, t->source.length - t->at};
	size_t from = t->at;
	if (peek(t, 1) == '*') {
		t->at += 2;
		return refuse(t, from, "has nothing to repeat");
	}
	size_t length = 1;
	if (peek(t, 1) == '?') {
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && length == 1; i++) {
			if (str_starts_with(rest, str_of(kinds[i])))
				length = strlen(kinds[i]);
		}
		if (length == 1) {
			t->at += rest.length < 3 ? rest.length : 3;
			return refuse(t, from, "begins no group of ECMA-262");
		}
	}
	buf_append(t->out, rest.data, length);
	t->at += length;
	return 0;
}

/* The length of {n}, {n,} or {n,m} at the place, 0 when it is none. */
static size_t braces_length(const struct translator *t)
{
	size_t i = 1, first = i;
	while (peek(t, i) >= '0' && peek(t, i) <= '9')
		i++;
	if (i == first)
		return 0;
	if (peek(t, i) == ',') {
		i++;
		while (peek(t, i) >= '0' && peek(t, i) <= '9')
			i++;
	}
	return peek(t, i) == '}' ? i + 1 : 0;
}

/* A quantifier with its lazy mark; a second plus would make it possessive. */
static int translate_quantifier(struct translator *t)
{
	size_t from = t->at;
	size_t length = peek(t, 0) == '{' ? braces_length(t) : 1;
	if (length == 0) {
		t->at++;
		buf_append_text(t->out, "\\{");
		return 0;
	}
	if (peek(t, length) == '?')
		length++;
	t->at += length;
	char next = peek(t, 0);
	if (next == '+' || next == '*' || next == '?') {
		t->at++;
		return refuse(t, from, "repeats a repetition");
	}
	buf_append(t->out, t->source.data + from, length);
	return 0;
}

static int translate_in_class(struct translator *t, char c)
{
	if (c == '\\')
		return translate_escape(t);
	if (c == ']')
		t->in_class = false;
	if (c == '[') /* else [:alpha:] would be a class within */
		buf_append_char(t->out, '\\');
	buf_append_char(t->out, c);
	t->at++;
	return 0;
}

static int translate_next(struct translator *t)
{
	char c = peek(t, 0);
	if (t->in_class)
		return translate_in_class(t, c);
	switch (c) {
	case '\\':
		return translate_escape(t);
	case '(':
		return translate_group(t);
	case '*':
	case '+':
	case '?':
	case '{':
		return translate_quantifier(t);
	case '[':
		t->in_class = true;
		if (peek(t, 1) == '^') {
			buf_append_text(t->out, "[^");
			t->at += 2;
			return 0;
		}
		break;
	case '.':
		buf_append_text(t->out, "[^\\n\\r\\x{2028}\\x{2029}]");
		t->at++;
		return 0;
	default:
		break;
	}
	buf_append_char(t->out, c);
	t->at++;
	return 0;
}

int ecma_to_pcre2(struct str source, struct buf *out, struct error *e)
{
	struct translator t = {.source = source, .out = out, .e = e};
	if (source.length > MAX_PATTERN)
		return error_set(
			e, ERR_INPUT, "a pattern of %zu bytes, expected at most %d", source.length, MAX_PATTERN);
	while (t.at < source.length)
		TRY(translate_next(&t));
	return buf_check(out, e);
}

/* ---- Matching ---- */

/* What a search may cost. PCRE2 itself bounds its work from one place of the text only, and says nothing of what it was:
 * it calls back before each part of the pattern. */
struct effort {
	uint64_t *work;
	size_t at;
};

static int count_effort(pcre2_callout_block *block, void *data)
{
	struct effort *effort = data;
	size_t at = block->current_position, moved = at > effort->at ? at - effort->at : effort->at - at;
	effort->at = at;
	*effort->work = *effort->work > moved + 1 ? *effort->work - moved - 1 : 0;
	return *effort->work > 0 ? 0 : PCRE2_ERROR_CALLOUT;
}

static int compile(struct ecma_pattern *p, struct str source, struct str translated, struct error *e)
{
	const uint32_t options = PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALLOW_EMPTY_CLASS |
		PCRE2_MATCH_UNSET_BACKREF | PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT;
	int number = 0;
	PCRE2_SIZE offset = 0;
	p->code = pcre2_compile((PCRE2_SPTR)(translated.data ? translated.data : ""), translated.length, options,
		&number, &offset, NULL);
	if (!p->code) {
		PCRE2_UCHAR reason[256];
		pcre2_get_error_message(number, reason, sizeof(reason));
		return error_set(e, ERR_INPUT, "pattern \"%.*s\": %s", STR_ARG(source), (const char *)reason);
	}
	p->context = pcre2_match_context_create(NULL);
	if (!p->context)
		return error_set(e, ERR_MEMORY, "out of memory: pattern \"%.*s\"", STR_ARG(source));
	pcre2_set_match_limit(p->context, MATCH_LIMIT);
	pcre2_set_heap_limit(p->context, HEAP_LIMIT_KIB);
	return 0;
}

int ecma_pattern_new(struct str source, struct ecma_pattern **out, struct error *e)
{
	struct ecma_pattern *p = mem_calloc(1, sizeof(*p), e);
	struct buf translated = {0};
	int status = p ? ecma_to_pcre2(source, &translated, e) : ERR_MEMORY;
	if (status == 0)
		status = compile(p, source, buf_str(&translated), e);
	buf_free(&translated);
	if (status < 0) {
		ecma_pattern_delete(p);
		return status;
	}
	*out = p;
	return 0;
}

void ecma_pattern_delete(struct ecma_pattern *p)
{
	if (!p)
		return;
	pcre2_match_context_free(p->context);
	pcre2_code_free(p->code);
	free(p);
}

int ecma_pattern_found(const struct ecma_pattern *p, struct str text, uint64_t *work, struct error *e)
{
	PCRE2_SPTR subject = (PCRE2_SPTR)(text.data ? text.data : "");
	struct effort effort = {.work = work};
	/* it keeps what a search has needed: one for each search, so that many patterns do not add up */
	pcre2_match_data *data = pcre2_match_data_create(1, NULL);
	if (!data)
		return error_set(e, ERR_MEMORY, "out of memory for a pattern on a text of %zu bytes", text.length);
	pcre2_set_callout(p->context, count_effort, &effort);
	int found = pcre2_match(p->code, subject, text.length, 0, 0, data, p->context);
	pcre2_match_data_free(data);
	if (found >= 0)
		return 1;
	if (found == PCRE2_ERROR_NOMATCH)
		return 0;
	if (found == PCRE2_ERROR_CALLOUT)
		return error_set(
			e, ERR_LIMIT, "a pattern on a text of %zu bytes takes more work than is bounded", text.length);
	PCRE2_UCHAR reason[256];
	pcre2_get_error_message(found, reason, sizeof(reason));
	return error_set(e, ERR_LIMIT, "a pattern on a text of %zu bytes: %s", text.length, (const char *)reason);
}
