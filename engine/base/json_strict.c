#include "engine/base/json_strict.h"

#include <math.h>

#include "engine/base/decimal.h"
#include "engine/base/json_keys.h"
#include "engine/base/utf8.h"

enum {
	DEPTH_LIMIT = 512,
	FIRST_BLOCK_NODES = 32, /* at most: a tiny text has few values */
	LAST_BLOCK_NODES = 8192,
	PAIRWISE_MEMBERS = 8, /* up to here comparing each with each beats a table */
};

struct node_block {
	struct node_block *next;
	size_t used;
	size_t capacity;
	struct json nodes[];
};

struct json_document {
	struct node_block *blocks; /* newest first */
	char *strings;             /* decoded strings, keys and numbers, each with its NUL */
	const struct json *root;
};

struct parser {
	const char *start;
	const char *at;
	const char *end;
	const char *name;
	int flags;
	int depth;
	struct json_document *document;
	char *out; /* free part of document->strings, which never runs out: see json_parse */
	struct json_keys keys;
	struct error *e;
};

/* ---- Errors ---- */

/* "name: line L, column C: " of a place in the text, without the line in JSON_LINE's; columns count characters. */
static void write_place(const struct parser *p, const char *place, struct buf *out)
{
	size_t line = 1;
	const char *line_start = p->start;
	for (const char *at = p->start; at < place; at++) {
		if (*at == '\n') {
			line++;
			line_start = at + 1;
		}
	}
	size_t column = 1 + utf8_count((struct str){line_start, (size_t)(place - line_start)});
	if (p->name)
		buf_printf(out, "%s: ", p->name);
	if (!(p->flags & JSON_LINE))
		buf_printf(out, "line %zu, ", line);
	buf_printf(out, "column %zu: ", column);
}

static int fail(const struct parser *p, const char *place, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int fail(const struct parser *p, const char *place, const char *format, ...)
{
	char message[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	struct buf text = {0};
	write_place(p, place, &text);
	error_set(p->e, ERR_INPUT, "%s%s", buf_text(&text), message);
	buf_free(&text);
	return ERR_INPUT;
}

/* "expected X, found ..." at the parser's place. */
static int fail_expected(const struct parser *p, const char *expected)
{
	if (p->at == p->end)
		return fail(p, p->at, "expected %s, found the end of the text", expected);
	struct str rest = {p->at, (size_t)(p->end - p->at)};
	size_t length = 0;
	int32_t c = utf8_next(rest, &length);
	if (c < 0)
		return fail(p, p->at, "expected %s, found the byte 0x%02x", expected, (unsigned char)*p->at);
	if (c < 0x20 || c == 0x7f || c == 0xfeff)
		return fail(p, p->at, "expected %s, found U+%04X%s", expected, (unsigned)c,
			c == 0xfeff ? " (a byte order mark)" : "");
	return fail(p, p->at, "expected %s, found '%.*s'", expected, (int)length, p->at);
}

static int fail_memory(const struct parser *p)
{
	return error_set(p->e, ERR_MEMORY, "%s%sno memory for JSON of %zu bytes", p->name ? p->name : "",
		p->name ? ": " : "", (size_t)(p->end - p->start));
}

/* ---- Nodes ---- */

/* A zeroed node, which is a null without key; NULL when memory is out. */
static struct json *node_new(struct parser *p)
{
	struct node_block *block = p->document->blocks;
	if (!block || block->used == block->capacity) {
		size_t most = (size_t)(p->end - p->start) / 2 + 1; /* values that the text can hold: a comma apart */
		size_t capacity = !block                     ? (most < FIRST_BLOCK_NODES ? most : FIRST_BLOCK_NODES)
			: block->capacity < LAST_BLOCK_NODES ? block->capacity * 2
							     : LAST_BLOCK_NODES;
		block = mem_calloc(1, sizeof(*block) + capacity * sizeof(block->nodes[0]), NULL);
		if (!block)
			return NULL;
		block->capacity = capacity;
		block->next = p->document->blocks;
		p->document->blocks = block;
	}
	return &block->nodes[block->used++];
}

/* ---- Scalars ---- */

static void skip_space(struct parser *p)
{
	while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r'))
		p->at++;
}

/* The value of "uXXXX" at place, or -1. */
static int32_t unit_at(const struct parser *p, const char *place)
{
	if (p->end - place < 5 || place[0] != 'u')
		return -1;
	int32_t value = 0;
	for (int i = 1; i <= 4; i++) {
		char c = place[i];
		int digit = c >= '0' && c <= '9' ? c - '0'
			: c >= 'a' && c <= 'f'   ? c - 'a' + 10
			: c >= 'A' && c <= 'F'   ? c - 'A' + 10
						 : -1;
		if (digit < 0)
			return -1;
		value = value << 4 | digit;
	}
	return value;
}

/* p->at is at the 'u' of an escape. A surrogate without its partner becomes U+FFFD. */
static int parse_unicode_escape(struct parser *p)
{
	int32_t unit = unit_at(p, p->at);
	if (unit < 0)
		return fail(p, p->at - 1, "expected four hexadecimal digits after \\u");
	p->at += 5;
	if (unit < 0xd800 || unit > 0xdfff) {
		p->out += utf8_encode(unit, p->out);
		return 0;
	}
	int32_t low = unit <= 0xdbff && p->at < p->end && *p->at == '\\' ? unit_at(p, p->at + 1) : -1;
	if (low < 0xdc00 || low > 0xdfff) {
		p->out += utf8_encode(0xfffd, p->out);
		return 0;
	}
	p->at += 6;
	p->out += utf8_encode(0x10000 + (unit - 0xd800) * 0x400 + (low - 0xdc00), p->out);
	return 0;
}

/* p->at is at a backslash. */
static int parse_escape(struct parser *p)
{
	p->at++;
	if (p->at == p->end)
		return fail(p, p->at, "expected an escape after '\\', found the end of the text");
	char c = *p->at;
	if (c == 'u')
		return parse_unicode_escape(p);
	static const char letters[] = "\"\\/bfnrt";
	static const char meanings[] = "\"\\/\b\f\n\r\t";
	const char *letter = c ? strchr(letters, c) : NULL;
	if (!letter)
		return fail_expected(p, "one of \"\\/bfnrtu after '\\'");
	*p->out++ = meanings[letter - letters];
	p->at++;
	return 0;
}

/* Copies one character of more than a byte. */
static int parse_multibyte(struct parser *p)
{
	struct str rest = {p->at, (size_t)(p->end - p->at)};
	size_t length = 0;
	if (utf8_next(rest, &length) < 0)
		return fail(p, p->at, "invalid UTF-8 (byte 0x%02x)", (unsigned char)*p->at);
	memcpy(p->out, p->at, length);
	p->out += length;
	p->at += length;
	return 0;
}

static inline bool is_plain(char c)
{
	return (unsigned char)c >= 0x20 && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

/* Copies ASCII that means itself. In locals: a store of char would make the compiler reload *p. */
static void copy_plain(struct parser *p)
{
	const char *at = p->at;
	const char *end = p->end;
	char *out = p->out;
	while (at < end && is_plain(*at))
		*out++ = *at++;
	p->at = at;
	p->out = out;
}

/* p->at is at the opening quote. */
static int parse_string(struct parser *p, struct str *string)
{
	const char *open = p->at++;
	string->data = p->out;
	for (;;) {
		copy_plain(p);
		if (p->at == p->end)
			return fail(p, open, "the string that begins here has no closing quote");
		unsigned char c = (unsigned char)*p->at;
		if (c == '"')
			break;
		if (c == '\\')
			TRY(parse_escape(p));
		else if (c >= 0x80)
			TRY(parse_multibyte(p));
		else
			return fail(p, p->at, "control character U+%04X in a string, expected it as an escape", c);
	}
	p->at++;
	string->length = (size_t)(p->out - string->data);
	*p->out++ = '\0';
	return 0;
}

/* Passes digits; false when there is none. */
static bool skip_digits(struct parser *p)
{
	const char *first = p->at;
	while (p->at < p->end && *p->at >= '0' && *p->at <= '9')
		p->at++;
	return p->at > first;
}

static bool skip_char(struct parser *p, char c)
{
	bool there = p->at < p->end && *p->at == c;
	p->at += there;
	return there;
}

/* Gives a number the text from first to the parser's place. */
static void keep_number(struct parser *p, const char *first, struct json *node)
{
	node->type = JSON_NUMBER;
	node->text = (struct str){p->out, (size_t)(p->at - first)};
	memcpy(p->out, first, node->text.length);
	p->out += node->text.length;
	*p->out++ = '\0';
}

/* NaN, Infinity or -Infinity at the parser's place: its length, else 0. */
static size_t python_constant(const struct parser *p)
{
	static const char *const constants[] = {"NaN", "Infinity", "-Infinity"};
	struct str rest = {p->at, (size_t)(p->end - p->at)};
	for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
		if (str_starts_with(rest, str_of(constants[i])))
			return strlen(constants[i]);
	}
	return 0;
}

static int parse_python_constant(struct parser *p, size_t length, struct json *node)
{
	const char *first = p->at;
	const bool negative = *first == '-';
	if (!(p->flags & JSON_PYTHON_CONSTANTS))
		return fail(p, first + negative,
			"expected %s, found '%c' of %.*s, which Python's json.loads takes and JSON does not have",
			negative ? "a digit after '-'" : "a JSON value", first[negative], (int)length, first);
	p->at += length;
	keep_number(p, first, node);
	return 0;
}

/* p->at is at '-' or a digit. */
static int parse_number(struct parser *p, struct json *node)
{
	const char *first = p->at;
	skip_char(p, '-');
	const char *whole = p->at;
	if (!skip_digits(p))
		return fail_expected(p, "a digit after '-'");
	if (*whole == '0' && p->at - whole > 1)
		return fail(p, first, "a number with a leading zero");
	if (skip_char(p, '.') && !skip_digits(p))
		return fail_expected(p, "a digit after the decimal point");
	if (skip_char(p, 'e') || skip_char(p, 'E')) {
		if (!skip_char(p, '+'))
			skip_char(p, '-');
		if (!skip_digits(p))
			return fail_expected(p, "a digit in the exponent");
	}
	keep_number(p, first, node);
	return 0;
}

static int parse_literal(struct parser *p, struct json *node)
{
	static const struct {
		const char *text;
		enum json_type type;
	} literals[] = {{"null", JSON_NULL}, {"true", JSON_TRUE}, {"false", JSON_FALSE}};
	struct str rest = {p->at, (size_t)(p->end - p->at)};
	for (size_t i = 0; i < sizeof(literals) / sizeof(literals[0]); i++) {
		struct str text = str_of(literals[i].text);
		if (!str_starts_with(rest, text))
			continue;
		p->at += text.length;
		node->type = literals[i].type;
		return 0;
	}
	return fail_expected(p, "a JSON value");
}

/* ---- Containers ---- */

static int parse_value(struct parser *p, struct json *node);

/* Marks each member that a later one of the same key shadows. open is where the object begins. The members are still
 * the parser's to change; child and next are const for readers. */
static int check_keys(struct parser *p, const struct json *object, const char *open)
{
	const bool pairwise = object->count <= PAIRWISE_MEMBERS;
	if (!pairwise && json_keys_reset(&p->keys, object->count) < 0)
		return fail_memory(p);
	JSON_EACH (member, object) {
		const struct json *earlier = NULL;
		if (pairwise) {
			for (const struct json *m = object->child; m != member; m = m->next) {
				if (str_equal(m->key, member->key))
					earlier = m;
			}
		} else {
			struct json_keys_slot *slot = json_keys_slot(&p->keys, member->key);
			earlier = slot->last;
			slot->first = member;
			slot->last = member;
		}
		if (!earlier)
			continue;
		if (p->flags & JSON_REFUSE_DOUBLED_KEYS)
			return fail(p, open, "the object that begins here has the key \"%.*s\" twice",
				STR_ARG(member->key));
		((struct json *)earlier)->shadowed = true;
	}
	return 0;
}

/* One element of an array, or one member with its key. */
static int parse_item(struct parser *p, bool is_object, struct json *item)
{
	skip_space(p);
	if (!is_object)
		return parse_value(p, item);
	if (p->at == p->end || *p->at != '"')
		return fail_expected(p, "a key in double quotes");
	TRY(parse_string(p, &item->key));
	skip_space(p);
	if (!skip_char(p, ':'))
		return fail_expected(p, "':' after a key");
	skip_space(p);
	return parse_value(p, item);
}

/* p->at is at the opening bracket. */
static int parse_container(struct parser *p, struct json *node)
{
	const char *open = p->at++;
	const bool is_object = *open == '{';
	const char close = is_object ? '}' : ']';
	node->type = is_object ? JSON_OBJECT : JSON_ARRAY;
	if (++p->depth > DEPTH_LIMIT)
		return fail(p, open, "arrays and objects are nested deeper than %d", DEPTH_LIMIT);
	skip_space(p);
	struct json *last = NULL;
	for (bool more = !skip_char(p, close); more;) {
		struct json *item = node_new(p);
		if (!item)
			return fail_memory(p);
		if (last)
			last->next = item;
		else
			node->child = item;
		last = item;
		node->count++;
		TRY(parse_item(p, is_object, item));
		skip_space(p);
		more = skip_char(p, ',');
		if (!more && !skip_char(p, close))
			return fail_expected(p, is_object ? "',' or '}'" : "',' or ']'");
	}
	p->depth--;
	return is_object ? check_keys(p, node, open) : 0;
}

static int parse_value(struct parser *p, struct json *node)
{
	char c = p->at < p->end ? *p->at : '\0';
	if (c == '"') {
		node->type = JSON_STRING;
		return parse_string(p, &node->text);
	}
	if (c == '{' || c == '[')
		return parse_container(p, node);
	size_t constant = python_constant(p);
	if (constant > 0)
		return parse_python_constant(p, constant, node);
	if (c == '-' || (c >= '0' && c <= '9'))
		return parse_number(p, node);
	return parse_literal(p, node);
}

static int parse_text(struct parser *p)
{
	struct json *root = node_new(p);
	if (!root)
		return fail_memory(p);
	p->document->root = root;
	skip_space(p);
	TRY(parse_value(p, root));
	skip_space(p);
	return p->at == p->end ? 0 : fail_expected(p, "the end of the text after the JSON value");
}

int json_parse(struct str text, const char *name, int flags, struct json_document **out, struct error *e)
{
	*out = NULL;
	const char *start = text.data ? text.data : "";
	struct parser p = {
		.start = start, .at = start, .end = start + text.length, .name = name, .flags = flags, .e = e};
	p.document = mem_calloc(1, sizeof(*p.document), NULL);
	if (!p.document)
		return fail_memory(&p);
	/* No string outgrows its source: an escape has at least as many bytes as what it means, and the NUL has the place of
	 * a closing quote, or of what follows a number, which is nothing only at the end of the text. */
	p.document->strings = text.length < SIZE_MAX ? malloc(text.length + 1) : NULL;
	int status = p.document->strings ? 0 : fail_memory(&p);
	if (status == 0) {
		p.out = p.document->strings;
		status = parse_text(&p);
	}
	json_keys_free(&p.keys);
	if (status < 0) {
		json_free(p.document);
		return status;
	}
	*out = p.document;
	return 0;
}

void json_free(struct json_document *document)
{
	if (!document)
		return;
	while (document->blocks) {
		struct node_block *next = document->blocks->next;
		free(document->blocks);
		document->blocks = next;
	}
	free(document->strings);
	free(document);
}

/* ---- Reading a tree ---- */

const struct json *json_root(const struct json_document *document)
{
	return document->root;
}

const struct json *json_get_str(const struct json *object, struct str key)
{
	if (!json_is(object, JSON_OBJECT))
		return NULL;
	JSON_EACH (member, object) {
		if (!member->shadowed && str_equal(member->key, key))
			return member;
	}
	return NULL;
}

const struct json *json_get(const struct json *object, const char *key)
{
	return json_get_str(object, str_of(key));
}

const struct json *json_at(const struct json *array, size_t i)
{
	if (!json_is(array, JSON_ARRAY) || i >= array->count)
		return NULL;
	const struct json *item = array->child;
	while (i-- > 0)
		item = item->next;
	return item;
}

bool json_is(const struct json *value, enum json_type type)
{
	return value && value->type == type;
}

bool json_bool(const struct json *value, bool fallback)
{
	if (json_is(value, JSON_TRUE))
		return true;
	return json_is(value, JSON_FALSE) ? false : fallback;
}

bool json_is_python_constant(const struct json *value)
{
	if (!json_is(value, JSON_NUMBER))
		return false;
	char first = value->text.data[value->text.data[0] == '-'];
	return first == 'N' || first == 'I';
}

double json_double(const struct json *number)
{
	return json_is(number, JSON_NUMBER) ? decimal_to_double(number->text.data) : NAN;
}

bool json_int64(const struct json *number, int64_t *out)
{
	if (!json_is(number, JSON_NUMBER))
		return false;
	const bool negative = number->text.data[0] == '-';
	int64_t value = 0;
	for (size_t i = negative; i < number->text.length; i++) {
		int digit = number->text.data[i] - '0';
		if (digit < 0 || digit > 9)
			return false;
		/* Summed with its sign, so that the least integer fits too. */
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, negative ? -digit : digit, &value))
			return false;
	}
	*out = value;
	return true;
}

const char *json_type_name(const struct json *value)
{
	static const char *const names[] = {"null", "boolean", "boolean", "number", "string", "array", "object"};
	return value ? names[value->type] : "missing";
}
