#include "evals/ecma_pattern.h"

#include <stdint.h>
#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/base/utf8.h"

enum { MAX_PATTERN = 64 * 1024, HEAP_LIMIT_KIB = 64 * 1024 };

/* MATCH_LIMIT: the steps back and forth from one place. SCAN_BYTES: as many of them are passed in the time of a step. */
enum { MATCH_LIMIT = 1000000, FIRST_LIMIT = 4, SCAN_BYTES = 8 };

/* What . means. */
#define NO_LINE_END "[^\\n\\r\\x{2028}\\x{2029}]"

/* WhiteSpace and LineTerminator of ECMA-262, and what they leave, as ranges of a class. Each ends with a range, behind
 * which a hyphen means itself. */
#define SPACES "\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{feff} \\t-\\r"
#define NO_SPACES                                                                                                   \
	"\\x00-\\x08\\x0e-\\x1f!-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}" \
	"\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{fefe}\\x{ff00}-\\x{10ffff}"

struct ecma_pattern {
	pcre2_code *code;
	pcre2_match_context *context;
	bool calls_back; /* else it was too large for that */
	size_t reach;    /* the bytes that one step may pass */
};

/* ---- Translation ---- */

struct translator {
	struct str source;
	size_t at;
	bool in_class;
	bool repeats;   /* a part of it may pass any length of text */
	size_t branch;  /* where the alternative began */
	size_t longest; /* alternative so far */
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

/* The General_Category values of ECMA-262 by their long names and aliases, and the short names that PCRE2 knows. */
static const struct category {
	const char *name, *text;
} categories[] = {
	{"Cased_Letter", "LC"},
	{"Close_Punctuation", "Pe"},
	{"Combining_Mark", "M"},
	{"Connector_Punctuation", "Pc"},
	{"Control", "Cc"},
	{"cntrl", "Cc"},
	{"Currency_Symbol", "Sc"},
	{"Dash_Punctuation", "Pd"},
	{"Decimal_Number", "Nd"},
	{"digit", "Nd"},
	{"Enclosing_Mark", "Me"},
	{"Final_Punctuation", "Pf"},
	{"Format", "Cf"},
	{"Initial_Punctuation", "Pi"},
	{"Letter", "L"},
	{"Letter_Number", "Nl"},
	{"Line_Separator", "Zl"},
	{"Lowercase_Letter", "Ll"},
	{"Mark", "M"},
	{"Math_Symbol", "Sm"},
	{"Modifier_Letter", "Lm"},
	{"Modifier_Symbol", "Sk"},
	{"Nonspacing_Mark", "Mn"},
	{"Number", "N"},
	{"Open_Punctuation", "Ps"},
	{"Other", "C"},
	{"Other_Letter", "Lo"},
	{"Other_Number", "No"},
	{"Other_Punctuation", "Po"},
	{"Other_Symbol", "So"},
	{"Paragraph_Separator", "Zp"},
	{"Private_Use", "Co"},
	{"Punctuation", "P"},
	{"punct", "P"},
	{"Separator", "Z"},
	{"Space_Separator", "Zs"},
	{"Spacing_Mark", "Mc"},
	{"Surrogate", "Cs"},
	{"Symbol", "S"},
	{"Titlecase_Letter", "Lt"},
	{"Unassigned", "Cn"},
	{"Uppercase_Letter", "Lu"},
};

/* A category by one of its names, or NULL. */
static const struct category *category_of(struct str name, bool also_short)
{
	for (size_t i = 0; i < sizeof(categories) / sizeof(categories[0]); i++) {
		if (str_is(name, categories[i].name) || (also_short && str_is(name, categories[i].text)))
			return &categories[i];
	}
	return NULL;
}

static int translate_property(struct translator *t, size_t from)
{
	static const char *const prefixes[] = {"gc=", "General_Category="};
	size_t end = str_find(t->source, str_of("}"), t->at), skipped = 0;
	if (peek(t, 0) != '{' || end == SIZE_MAX)
		return refuse(t, from, "needs a property in braces");
	struct str name = {t->source.data + t->at + 1, end - t->at - 1};
	const char letter = t->source.data[from + 1];
	t->at = end + 1;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]) && skipped == 0; i++)
		skipped = str_starts_with(name, str_of(prefixes[i])) ? strlen(prefixes[i]) : 0;
	const struct str value = {name.data + skipped, name.length - skipped};
	const struct category *category = category_of(value, skipped > 0);
	if (!category && skipped > 0)
		return refuse(t, from, "names no General_Category");
	if (category)
		buf_printf(t->out, "\\%c{%s}", letter, category->text);
	else if (str_is(name, "Assigned"))
		buf_append_text(t->out, letter == 'p' ? "\\P{Cn}" : "\\p{Cn}");
	else
		buf_append(t->out, t->source.data + from, end + 1 - from);
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
	t->repeats = true;
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
		t->repeats = true;
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
	t->repeats |= t->source.data[from] != '?';
	buf_append(t->out, t->source.data + from, length);
	return 0;
}

static void branch_end(struct translator *t)
{
	t->longest = t->at - t->branch > t->longest ? t->at - t->branch : t->longest;
	t->branch = t->at;
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
	case '|':
		branch_end(t);
		break;
	case '.':
		buf_append_text(t->out, NO_LINE_END);
		t->at++;
		return 0;
	default:
		break;
	}
	buf_append_char(t->out, c);
	t->at++;
	return 0;
}

/* ---- Runs of any character at the ends of a pattern ---- */

/* A pattern is searched for: of X* at its beginning or end nothing is needed, and of X+ one X. Left in, each of its lengths
 * would be tried from each place of the text. Where it belongs to one of several alternatives this holds for that one.
 * Here: the length of such a run at the place, 0 when there is none; *one: what is needed of it. */
static size_t any_run_length(const struct translator *t, const char **one)
{
	static const struct {
		const char *source, *one;
	} runs[] = {{".", NO_LINE_END}, {"[\\s\\S]", "(?s:.)"}, {"[\\S\\s]", "(?s:.)"}, {"[^]", "(?s:.)"}};
	const struct str rest = {t->source.data + t->at, t->source.length - t->at};
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		size_t length = strlen(runs[i].source);
		char mark = peek(t, length);
		if (!str_starts_with(rest, str_of(runs[i].source)) || (mark != '*' && mark != '+'))
			continue;
		*one = mark == '*' ? "" : runs[i].one;
		length += peek(t, length + 1) == '?' ? 2 : 1;
		char next = peek(t, length);
		return next == '*' || next == '+' || next == '?' || next == '{' ? 0 : length;
	}
	return 0;
}

static void translate_leading_runs(struct translator *t)
{
	const char *one = "";
	for (size_t length; !one[0] && (length = any_run_length(t, &one)) > 0; t->at += length)
		buf_append_text(t->out, one);
}

/* True when the pattern ended with a run: then the place is in no class, and in no group that is closed. */
static bool translate_trailing_run(struct translator *t)
{
	const char *one = "";
	size_t length = t->in_class ? 0 : any_run_length(t, &one);
	if (length == 0 || t->at + length < t->source.length)
		return false;
	buf_append_text(t->out, one);
	t->at += length;
	return true;
}

static int translate(struct translator *t)
{
	if (t->source.length > MAX_PATTERN)
		return error_set(
			t->e, ERR_INPUT, "a pattern of %zu bytes, expected at most %d", t->source.length, MAX_PATTERN);
	translate_leading_runs(t);
	while (t->at < t->source.length) {
		if (!translate_trailing_run(t))
			TRY(translate_next(t));
	}
	branch_end(t);
	return buf_check(t->out, t->e);
}

/* ---- Compiling ---- */

static pcre2_code *code_new(const struct buf *translated, uint32_t more_options, int *number)
{
	const uint32_t options = PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALLOW_EMPTY_CLASS |
		PCRE2_MATCH_UNSET_BACKREF | PCRE2_NEVER_BACKSLASH_C | more_options;
	PCRE2_SIZE offset = 0;
	return pcre2_compile((PCRE2_SPTR)buf_text(translated), translated->length, options, number, &offset, NULL);
}

static int compile(struct ecma_pattern *p, const struct translator *t)
{
	int number = 0;
	p->reach = t->repeats ? SIZE_MAX : t->longest;
	p->code = code_new(t->out, PCRE2_AUTO_CALLOUT, &number);
	p->calls_back = p->code != NULL;
	if (!p->code && number == PCRE2_ERROR_PATTERN_TOO_LARGE)
		p->code = code_new(t->out, 0, &number);
	if (!p->code) {
		PCRE2_UCHAR reason[256];
		pcre2_get_error_message(number, reason, sizeof(reason));
		return error_set(t->e, ERR_INPUT, "pattern \"%.*s\": %s", STR_ARG(t->source), (const char *)reason);
	}
	p->context = pcre2_match_context_create(NULL);
	if (!p->context)
		return error_set(t->e, ERR_MEMORY, "out of memory: pattern \"%.*s\"", STR_ARG(t->source));
	pcre2_set_match_limit(p->context, MATCH_LIMIT);
	pcre2_set_heap_limit(p->context, HEAP_LIMIT_KIB);
	return 0;
}

int ecma_pattern_new(struct str source, struct ecma_pattern **out, struct error *e)
{
	struct ecma_pattern *p = mem_calloc(1, sizeof(*p), e);
	struct buf translated = {0};
	struct translator t = {.source = source, .out = &translated, .e = e};
	int status = p ? translate(&t) : ERR_MEMORY;
	if (status == 0)
		status = compile(p, &t);
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

static int search_counted(const struct ecma_pattern *p, struct str text, pcre2_match_data *data, uint64_t *work)
{
	struct effort effort = {.work = work};
	PCRE2_SPTR subject = (PCRE2_SPTR)(text.data ? text.data : "");
	pcre2_set_callout(p->context, count_effort, &effort);
	return pcre2_match(p->code, subject, text.length, 0, 0, data, p->context);
}

/* What a step from each place where a match may start costs at most. */
static uint64_t step_cost(const struct ecma_pattern *p, size_t length)
{
	uint32_t options = 0, shortest = 0;
	pcre2_pattern_info(p->code, PCRE2_INFO_ALLOPTIONS, &options);
	pcre2_pattern_info(p->code, PCRE2_INFO_MINLENGTH, &shortest);
	uint64_t places = (options & PCRE2_ANCHORED) || length < shortest ? 1 : length - shortest + 1;
	return places * ((p->reach < length ? p->reach : length) / SCAN_BYTES + 1);
}

/* Without callbacks nobody counts: a few steps from each place are paid beforehand, then twice as many until they do. */
static int search_paid(const struct ecma_pattern *p, struct str text, pcre2_match_data *data, uint64_t *work)
{
	const uint64_t cost = step_cost(p, text.length);
	PCRE2_SPTR subject = (PCRE2_SPTR)(text.data ? text.data : "");
	int found = PCRE2_ERROR_MATCHLIMIT;
	for (uint32_t limit = FIRST_LIMIT; found == PCRE2_ERROR_MATCHLIMIT && limit <= MATCH_LIMIT; limit *= 2) {
		if (*work / limit <= cost) {
			*work = 0;
			return PCRE2_ERROR_CALLOUT;
		}
		*work -= cost * limit;
		pcre2_set_match_limit(p->context, limit);
		found = pcre2_match(p->code, subject, text.length, 0, 0, data, p->context);
	}
	return found;
}

int ecma_pattern_found(const struct ecma_pattern *p, struct str text, uint64_t *work, struct error *e)
{
	/* it keeps what a search has needed: one for each search, so that many patterns do not add up */
	pcre2_match_data *data = pcre2_match_data_create(1, NULL);
	if (!data)
		return error_set(e, ERR_MEMORY, "out of memory for a pattern on a text of %zu bytes", text.length);
	int found = p->calls_back ? search_counted(p, text, data, work) : search_paid(p, text, data, work);
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
