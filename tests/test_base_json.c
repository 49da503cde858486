/* JSON: what RFC 8259 allows and forbids, how a tree reads, and what Python would write. */
#include <locale.h>
#include <math.h>

#include "engine/base/decimal.h"
#include "engine/base/json_strict.h"
#include "engine/base/utf8.h"
#include "tests/support.h"
#include "tests/tsv.h"

const char *const test_program_name = "base_json";

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define STR(literal) ((struct str){literal, sizeof(literal) - 1})

/* Parses from memory of exactly that length, so that the sanitizer sees a read past it. */
static int parse_exact(struct str text, int flags, struct json_document **document)
{
	char *copy = mem_calloc(text.length, 1, NULL);
	ck_assert_ptr_nonnull(copy);
	if (text.length)
		memcpy(copy, text.data, text.length);
	int status = json_parse((struct str){copy, text.length}, "doc", flags, document, &test_error);
	memset(copy, '#', text.length); /* the tree must not borrow from the text */
	free(copy);
	return status;
}

static struct json_document *parse(const char *text)
{
	struct json_document *document;
	CHECK_OK(parse_exact(str_of(text), JSON_LAST_KEY_WINS, &document));
	return document;
}

/* Checks json.dumps of the text. */
static void check_dump(struct str text, int indent, bool ensure_ascii, const char *expected)
{
	struct json_document *document;
	CHECK_OK(parse_exact(text, JSON_LAST_KEY_WINS, &document));
	struct buf out = {0};
	json_dump_python(json_root(document), indent, ensure_ascii, &out);
	CHECK_OK(buf_check(&out, &test_error));
	ck_assert_msg(strcmp(buf_text(&out), expected) == 0, "dumped %s, expected %s", buf_text(&out), expected);
	buf_free(&out);
	json_free(document);
}

/* ---- What is JSON and what is not ---- */

static const struct {
	struct str text;
	const char *dumped; /* one line, ASCII only */
} accepted[] = {
	{STR("null"), "null"},
	{STR(" \t\r\n true \t\r\n "), "true"},
	{STR("0"), "0"},
	{STR("-0"), "0"},
	{STR("-0.0"), "-0.0"},
	{STR("10"), "10"},
	{STR("0.5e+2"), "50.0"},
	{STR("1E-2"), "0.01"},
	{STR("123456789012345678901234567890"), "123456789012345678901234567890"},
	{STR("[]"), "[]"},
	{STR("[ ]"), "[]"},
	{STR("{}"), "{}"},
	{STR("{ \n }"), "{}"},
	{STR("[1,\"\",[],{},null,true,false]"), "[1, \"\", [], {}, null, true, false]"},
	{STR("[ 1 , 2 ]"), "[1, 2]"},
	{STR("{\"a\":1 , \"\" : {\"b\" : []}}"), "{\"a\": 1, \"\": {\"b\": []}}"},
	{STR("\"\""), "\"\""},
	{STR("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), "\"\\\"\\\\/\\b\\f\\n\\r\\t\""},
	{STR("\"\\u0041\\u00e9\\u4E2d\\u4e2D\""), "\"A\\u00e9\\u4e2d\\u4e2d\""},
	{STR("\"\\u0000\\u001f\""), "\"\\u0000\\u001f\""},
	{STR("\"\x7f\""), "\"\\u007f\""},
	{STR("\"\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80\""), "\"\\u00e9\\u4e2d\\ud83d\\ude00\""},
	{STR("\"\\ud83d\\ude00\""), "\"\\ud83d\\ude00\""},
	{STR("\"\\uDBFF\\uDFFF\""), "\"\\udbff\\udfff\""},
	{STR("\"\\ufeff\\uffff\""), "\"\\ufeff\\uffff\""},
	/* lone surrogates */
	{STR("\"\\ud800\""), "\"\\ufffd\""},
	{STR("\"\\udc00x\""), "\"\\ufffdx\""},
	{STR("\"\\ud800\\u0041\""), "\"\\ufffdA\""},
	{STR("\"\\ud800\\n\""), "\"\\ufffd\\n\""},
	{STR("\"\\ud800\\ud83d\\ude00\""), "\"\\ufffd\\ud83d\\ude00\""},
	{STR("\"\\ude00\\ud83d\""), "\"\\ufffd\\ufffd\""},
};

START_TEST(accepts)
{
	check_dump(accepted[_i].text, -1, true, accepted[_i].dumped);
}
END_TEST

static const struct {
	struct str text;
	const char *place, *reason;
} refused[] = {
	{STR(""), "doc: line 1, column 1: ", "expected a JSON value, found the end of the text"},
	{STR(" \n "), "line 2, column 2: ", "found the end of the text"},
	{STR("\0"), "line 1, column 1: ", "found U+0000"},
	{STR("\xef\xbb\xbf[]"), "line 1, column 1: ", "byte order mark"},
	{STR("[]\xef\xbb\xbf"), "line 1, column 3: ", "byte order mark"},
	{STR("nul"), "line 1, column 1: ", "found 'n'"},
	{STR("nulll"), "line 1, column 5: ", "expected the end of the text after the JSON value, found 'l'"},
	{STR("True"), "column 1: ", "found 'T'"},
	{STR("NaN"), "column 1: ", "found 'N'"},
	{STR("[NaN]"), "column 2: ", "found 'N'"},
	{STR("Infinity"), "column 1: ", "found 'I'"},
	{STR("-Infinity"), "column 2: ", "expected a digit after '-', found 'I'"},
	{STR("undefined"), "column 1: ", "found 'u'"},
	{STR("1 2"), "column 3: ", "expected the end of the text"},
	{STR("{} {}"), "column 4: ", "expected the end of the text"},
	{STR("[]\0"), "column 3: ", "found U+0000"},
	/* numbers */
	{STR("-"), "column 2: ", "a digit after '-'"},
	{STR("+1"), "column 1: ", "found '+'"},
	{STR(".5"), "column 1: ", "found '.'"},
	{STR("1."), "column 3: ", "a digit after the decimal point"},
	{STR("1.e5"), "column 3: ", "a digit after the decimal point"},
	{STR("01"), "column 1: ", "a leading zero"},
	{STR("[-01]"), "column 2: ", "a leading zero"},
	{STR("00"), "column 1: ", "a leading zero"},
	{STR("0x10"), "column 2: ", "found 'x'"},
	{STR("1e"), "column 3: ", "a digit in the exponent"},
	{STR("1e+"), "column 4: ", "a digit in the exponent"},
	{STR("1e1.5"), "column 4: ", "found '.'"},
	{STR("--1"), "column 2: ", "a digit after '-'"},
	{STR("1_000"), "column 2: ", "found '_'"},
	{STR("[1,000.5]"), "column 4: ", "a leading zero"},
	/* strings */
	{STR("'a'"), "column 1: ", "found '''"},
	{STR("\"abc"), "column 1: ", "no closing quote"},
	{STR("[\"a\\\"]"), "column 2: ", "no closing quote"},
	{STR("\"a\nb\""), "line 1, column 3: ", "control character U+000A"},
	{STR("\"\t\""), "column 2: ", "control character U+0009"},
	{STR("\"\0\""), "column 2: ", "control character U+0000"},
	{STR("\"\\x41\""), "column 3: ", "found 'x'"},
	{STR("\"\\\0\""), "column 3: ", "found U+0000"},
	{STR("\"\\'\""), "column 3: ", "found '''"},
	{STR("\"\\U0041\""), "column 3: ", "found 'U'"},
	{STR("\"\\"), "column 3: ", "the end of the text"},
	{STR("\"\\u"), "column 2: ", "four hexadecimal digits"},
	{STR("\"\\u12\""), "column 2: ", "four hexadecimal digits"},
	{STR("\"\\u12g4\""), "column 2: ", "four hexadecimal digits"},
	{STR("\"\\ud800\\u12\""), "column 8: ", "four hexadecimal digits"},
	{STR("\"\xff\""), "column 2: ", "invalid UTF-8 (byte 0xff)"},
	{STR("\"\xc3\xa9\xc3\""), "column 3: ", "invalid UTF-8 (byte 0xc3)"},
	{STR("\"\xc0\x80\""), "column 2: ", "invalid UTF-8"},
	{STR("\"\xed\xa0\x80\""), "column 2: ", "invalid UTF-8"},
	{STR("\"\xf4\x90\x80\x80\""), "column 2: ", "invalid UTF-8"},
	{STR("[\xff]"), "column 2: ", "found the byte 0xff"},
	{STR("[\xc3\xa9]"), "column 2: ", "found '\xc3\xa9'"},
	{STR("[\x01]"), "column 2: ", "found U+0001"},
	/* arrays and objects */
	{STR("["), "column 2: ", "expected a JSON value, found the end"},
	{STR("[1"), "column 3: ", "expected ',' or ']', found the end"},
	{STR("[1,"), "column 4: ", "expected a JSON value"},
	{STR("[1,]"), "column 4: ", "expected a JSON value, found ']'"},
	{STR("[,1]"), "column 2: ", "found ','"},
	{STR("[1 2]"), "column 4: ", "expected ',' or ']', found '2'"},
	{STR("[1}"), "column 3: ", "found '}'"},
	{STR("]"), "column 1: ", "found ']'"},
	{STR("[]]"), "column 3: ", "found ']'"},
	{STR("{"), "column 2: ", "a key in double quotes"},
	{STR("{a:1}"), "column 2: ", "expected a key in double quotes, found 'a'"},
	{STR("{1:1}"), "column 2: ", "a key in double quotes"},
	{STR("{\"a\"}"), "column 5: ", "expected ':' after a key, found '}'"},
	{STR("{\"a\" 1}"), "column 6: ", "expected ':'"},
	{STR("{\"a\":}"), "column 6: ", "expected a JSON value"},
	{STR("{\"a\":1,}"), "column 8: ", "a key in double quotes, found '}'"},
	{STR("{\"a\":1 \"b\":2}"), "column 8: ", "expected ',' or '}', found '\"'"},
	{STR("{\"a\":1]"), "column 7: ", "found ']'"},
	{STR("{\"a\":1,\n\n  \"b\":tru}"), "line 3, column 7: ", "found 't'"},
	/* what other dialects allow */
	{STR("// x\n1"), "column 1: ", "found '/'"},
	{STR("[1 /* x */]"), "column 4: ", "found '/'"},
	{STR("\xc2\xa0[]"), "column 1: ", "found '\xc2\xa0'"},
	{STR("\f[]"), "column 1: ", "found U+000C"},
};

START_TEST(refuses)
{
	struct json_document *document;
	int status = parse_exact(refused[_i].text, JSON_LAST_KEY_WINS, &document);
	ck_assert_int_eq(status, ERR_INPUT);
	ck_assert_int_eq(test_error.code, ERR_INPUT);
	ck_assert_ptr_null(document);
	ck_assert_msg(strstr(test_error.message, refused[_i].place) != NULL &&
			strstr(test_error.message, refused[_i].reason) != NULL,
		"'%s' lacks '%s' or '%s'", test_error.message, refused[_i].place, refused[_i].reason);
	/* The same without a name and without an error. */
	ck_assert_int_eq(json_parse(refused[_i].text, NULL, 0, &document, NULL), ERR_INPUT);
	ck_assert_int_eq(json_parse(refused[_i].text, NULL, 0, &document, &test_error), ERR_INPUT);
	ck_assert_msg(strncmp(test_error.message, "line ", 5) == 0, "'%s'", test_error.message);
}
END_TEST

START_TEST(refuses_every_prefix)
{
	struct str text =
		STR("{\"key \\u00e9\\ud83d\\ude00\": [1, -2.5e-3, \"a\\n\xc3\xa9\xf0\x9f\x98\x80\", null, true, "
		    "false, {\"\": {}, \"x\": [[], {}]}], \"b\": 12}");
	struct json_document *document;
	CHECK_OK(parse_exact(text, JSON_REFUSE_DOUBLED_KEYS, &document));
	json_free(document);
	for (size_t length = 0; length < text.length; length++) {
		int status = parse_exact((struct str){text.data, length}, 0, &document);
		ck_assert_msg(status == ERR_INPUT, "a prefix of %zu bytes gave %d", length, status);
	}
}
END_TEST

/* depth brackets and their closing ones; a run of only opening ones when it is too deep. */
static struct buf nested(size_t depth, const char *open, const char *close)
{
	struct buf text = {0};
	for (size_t i = 0; i < depth; i++)
		buf_append_text(&text, open);
	for (size_t i = 0; i < depth; i++)
		buf_append_text(&text, close);
	return text;
}

START_TEST(bounds_depth)
{
	static const struct {
		size_t depth;
		const char *open, *close;
		bool allowed;
	} cases[] = {{512, "[", "]", true}, {513, "[", "]", false}, {511, "{\"a\":", "}", false},
		{1000000, "[", "", false}, {1000000, "{\"a\":[", "", false}, {256, "[{\"a\":[", "]}]", false},
		{170, "[{\"a\":[", "]}]", true}};
	struct buf text = nested(cases[_i].depth, cases[_i].open, cases[_i].close);
	struct json_document *document;
	int status = json_parse(buf_str(&text), "deep", 0, &document, &test_error);
	ck_assert_msg((status == 0) == cases[_i].allowed, "status %d: %s", status, test_error.message);
	if (status < 0 && cases[_i].depth > 512)
		ck_assert_ptr_nonnull(strstr(test_error.message, "deeper than 512"));
	if (status == 0) {
		struct buf dumped = {0};
		json_dump_python(json_root(document), 2, false, &dumped);
		ck_assert_uint_gt(dumped.length, text.length);
		buf_free(&dumped);
		json_free(document);
	}
	buf_free(&text);
}
END_TEST

/* Depth counts what is open, not what was. */
START_TEST(siblings_are_not_deep)
{
	struct buf text = {0};
	buf_append_char(&text, '[');
	for (int i = 0; i < 600; i++)
		buf_append_text(&text, "[],{},");
	buf_append_text(&text, "0]");
	struct json_document *document;
	CHECK_OK(json_parse(buf_str(&text), "wide", 0, &document, &test_error));
	ck_assert_uint_eq(json_root(document)->count, 1201);
	json_free(document);
	buf_free(&text);
}
END_TEST

/* ---- Keys ---- */

START_TEST(the_last_of_doubled_keys_counts)
{
	struct json_document *document = parse("{\"a\":1,\"b\":2,\"a\":3,\"A\":4,\"a\":{\"b\":5}}");
	const struct json *root = json_root(document);
	ck_assert_uint_eq(root->count, 5);
	ck_assert(json_is(json_get(root, "a"), JSON_OBJECT));
	ck_assert_double_eq(json_double(json_get(json_get(root, "a"), "b")), 5);
	ck_assert_double_eq(json_double(json_get(root, "A")), 4);
	ck_assert_ptr_null(json_get(root, "B"));
	static const bool shadowed[] = {true, false, true, false, false};
	size_t i = 0;
	JSON_EACH (member, root)
		ck_assert_int_eq(member->shadowed, shadowed[i++]);
	ck_assert_uint_eq(i, 5);
	json_free(document);
}
END_TEST

/* {"k0": 0, ...} of count keys, then k<again> once more. */
static struct buf many_keys(unsigned count, unsigned again)
{
	struct buf text = {0};
	buf_append_char(&text, '{');
	for (unsigned i = 0; i < count; i++)
		buf_printf(&text, "\"k%u\": %u,\n", i, i);
	buf_printf(&text, "\"k%u\": -1}", again);
	return text;
}

/* Objects on both sides of the bound where a table takes over. */
START_TEST(refuses_doubled_keys)
{
	static const unsigned counts[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 1000};
	unsigned count = counts[_i];
	struct json_document *document;
	for (unsigned again = 0; again <= count; again += count < 40 ? 1 : 100) {
		struct buf text = many_keys(count, again);
		int status = parse_exact(buf_str(&text), JSON_REFUSE_DOUBLED_KEYS, &document);
		char key[32];
		snprintf(key, sizeof(key), "the key \"k%u\" twice", again);
		ck_assert_int_eq(status, again < count ? ERR_INPUT : 0);
		if (status < 0)
			ck_assert_msg(
				strstr(test_error.message, key) != NULL, "'%s' lacks '%s'", test_error.message, key);
		else
			json_free(document);
		CHECK_OK(parse_exact(buf_str(&text), JSON_LAST_KEY_WINS, &document));
		char name[16];
		snprintf(name, sizeof(name), "k%u", again);
		ck_assert_double_eq(json_double(json_get(json_root(document), name)), -1);
		json_free(document);
		buf_free(&text);
	}
}
END_TEST

START_TEST(keys_are_compared_decoded)
{
	struct json_document *document;
	int status = parse_exact(STR("[0,\n {\"a\\u0000b\":1,\"a\\u0000c\":2,\"\\u00e9\":3,\"\xc3\xa9\":4}]"),
		JSON_REFUSE_DOUBLED_KEYS, &document);
	ck_assert_int_eq(status, ERR_INPUT);
	ck_assert_str_eq(test_error.message,
		"doc: line 2, column 2: the object that begins here has the key \"\xc3\xa9\" twice");
	/* Different objects may use the same key. */
	CHECK_OK(parse_exact(STR("{\"a\":{\"a\":1},\"b\":{\"a\":1}}"), JSON_REFUSE_DOUBLED_KEYS, &document));
	json_free(document);
}
END_TEST

/* Quadratic work on any of these would take minutes. */
START_TEST(big_objects_take_linear_time)
{
	enum { MEMBERS = 300000 };
	struct buf text = {0};
	buf_append_char(&text, '{');
	for (unsigned i = 0; i < MEMBERS; i++) {
		/* distinct keys; one key over and over; each key twice, far apart */
		unsigned key = _i == 0 ? i : _i == 1 ? 0 : i % (MEMBERS / 2);
		buf_printf(&text, i ? ",\"%u\":%u" : "\"%u\":%u", key, i);
	}
	buf_append_char(&text, '}');
	struct json_document *document;
	CHECK_OK(parse_exact(buf_str(&text), JSON_LAST_KEY_WINS, &document));
	struct buf dumped = {0};
	json_dump_python(json_root(document), -1, false, &dumped);
	json_free(document);
	CHECK_OK(parse_exact(buf_str(&dumped), JSON_REFUSE_DOUBLED_KEYS, &document));
	ck_assert_uint_eq(json_root(document)->count, _i == 0 ? MEMBERS : _i == 1 ? 1 : MEMBERS / 2);
	unsigned first = _i == 0 ? 0 : _i == 1 ? MEMBERS - 1 : MEMBERS / 2;
	ck_assert_double_eq(json_double(json_root(document)->child), first);
	json_free(document);
	buf_free(&dumped);
	buf_free(&text);
}
END_TEST

/* ---- Reading a tree ---- */

START_TEST(strings_keep_their_length)
{
	struct json_document *document = parse("{\"k\\u0000\": \"a\\u0000b\", \"n\": -1.50}");
	const struct json *root = json_root(document);
	const struct json *value = json_get_str(root, STR("k\0"));
	ck_assert(json_is(value, JSON_STRING));
	ck_assert(str_equal(value->text, STR("a\0b")));
	ck_assert_int_eq(value->text.data[3], '\0');
	ck_assert(str_equal(value->key, STR("k\0")));
	ck_assert_ptr_null(json_get(root, "k"));
	const struct json *number = json_get(root, "n");
	ck_assert_str_eq(number->text.data, "-1.50");
	ck_assert_uint_eq(number->text.length, 5);
	json_free(document);
	json_free(NULL);
}
END_TEST

START_TEST(walks_arrays)
{
	struct json_document *document = parse("[10, \"x\", null, true, false, {\"a\": 1}, [7, 8]]");
	const struct json *root = json_root(document);
	static const char *const names[] = {"number", "string", "null", "boolean", "boolean", "object", "array"};
	size_t i = 0;
	JSON_EACH (item, root) {
		ck_assert_ptr_eq(json_at(root, i), item);
		ck_assert_str_eq(json_type_name(item), names[i]);
		ck_assert_uint_eq(item->key.length, 0);
		i++;
	}
	ck_assert_uint_eq(i, 7);
	ck_assert_uint_eq(root->count, 7);
	ck_assert_ptr_null(json_at(root, 7));
	ck_assert_ptr_null(json_at(root, SIZE_MAX));
	ck_assert_ptr_null(json_at(json_at(root, 5), 0));
	ck_assert_ptr_null(json_get(root, "a"));
	ck_assert_uint_eq(json_at(root, 6)->count, 2);
	ck_assert(json_bool(json_at(root, 3), false) && !json_bool(json_at(root, 4), true));
	ck_assert(json_bool(json_at(root, 2), true) && !json_bool(json_at(root, 0), false));
	json_free(document);
}
END_TEST

START_TEST(nothing_is_missing)
{
	int64_t integer;
	ck_assert_str_eq(json_type_name(NULL), "missing");
	ck_assert(!json_is(NULL, JSON_NULL) && json_bool(NULL, true) && !json_int64(NULL, &integer));
	ck_assert_ptr_null(json_get(NULL, "a"));
	ck_assert_ptr_null(json_at(NULL, 0));
	ck_assert(isnan(json_double(NULL)));
	const struct json *absent = json_get(NULL, "a");
	JSON_EACH (item, absent)
		ck_abort_msg("%s in nothing", json_type_name(item));
	struct json_document *document = parse("\"12\"");
	ck_assert(!json_int64(json_root(document), &integer) && isnan(json_double(json_root(document))));
	json_free(document);
}
END_TEST

static const struct {
	const char *text;
	bool is_integer;
	int64_t integer;
	double value;
} numbers[] = {
	{"0", true, 0, 0.0},
	{"-0", true, 0, -0.0},
	{"7", true, 7, 7.0},
	{"-12", true, -12, -12.0},
	{"9007199254740993", true, 9007199254740993, 9007199254740992.0},
	{"9223372036854775807", true, INT64_MAX, 0x1p63},
	{"9223372036854775808", false, 0, 0x1p63},
	{"-9223372036854775808", true, INT64_MIN, -0x1p63},
	{"-9223372036854775809", false, 0, -0x1p63},
	{"92233720368547758070", false, 0, 9.223372036854775807e19},
	{"1.0", false, 0, 1.0},
	{"1e3", false, 0, 1000.0},
	{"1E3", false, 0, 1000.0},
	{"0.1", false, 0, 0.1},
	{"2.5", false, 0, 2.5},
	{"1e400", false, 0, INFINITY},
	{"-1e400", false, 0, -INFINITY},
	{"1e-400", false, 0, 0.0},
	{"5e-324", false, 0, 0x1p-1074},
	{"2.2250738585072012e-308", false, 0, 0x1p-1022},
	{"1.7976931348623157e308", false, 0, 0x1.fffffffffffffp1023},
	/* halfway between two doubles, and just above */
	{"1.00000000000000011102230246251565404236316680908203125", false, 0, 1.0},
	{"1.00000000000000011102230246251565404236316680908203126", false, 0, 0x1.0000000000001p0},
};

START_TEST(reads_numbers)
{
	struct json_document *document = parse(numbers[_i].text);
	const struct json *root = json_root(document);
	int64_t integer = 0;
	ck_assert_int_eq(json_int64(root, &integer), numbers[_i].is_integer);
	ck_assert_int_eq(integer, numbers[_i].integer);
	double value = json_double(root);
	ck_assert_mem_eq(&value, &numbers[_i].value, sizeof(value));
	ck_assert_str_eq(root->text.data, numbers[_i].text);
	json_free(document);
}
END_TEST

START_TEST(reads_a_long_number)
{
	struct buf text = {0};
	for (int i = 0; i < 1000000; i++)
		buf_append_char(&text, '1');
	struct json_document *document;
	CHECK_OK(json_parse(buf_str(&text), "long", 0, &document, &test_error));
	int64_t integer;
	ck_assert(!json_int64(json_root(document), &integer));
	ck_assert(isinf(json_double(json_root(document))));
	json_free(document);
	buf_free(&text);
}
END_TEST

/* ---- Writing ---- */

START_TEST(dumps_as_python)
{
	struct tsv t = tsv_open("python_json_dumps.tsv");
	size_t lines = 0;
	for (; tsv_next(&t); lines++) {
		ck_assert_uint_eq(t.count, 4);
		char *indent = tsv_text(&t, 0);
		char *folded = tsv_text(&t, 3);
		/* U+2424 stands for a line feed. */
		struct buf expected = {0};
		for (const char *at = folded; *at; at++) {
			bool line_feed = strncmp(at, "\xe2\x90\xa4", 3) == 0;
			buf_append_char(&expected, line_feed ? '\n' : *at);
			at += line_feed ? 2 : 0;
		}
		check_dump(t.fields[2], (int)strtol(indent, NULL, 10), tsv_u64(&t, 1, 10) == 1, buf_text(&expected));
		buf_free(&expected);
		free(indent);
		free(folded);
	}
	ck_assert_uint_ge(lines, 150);
}
END_TEST

static void write_bits(uint64_t bits, bool is_float, struct buf *out)
{
	if (is_float) {
		uint32_t half = (uint32_t)bits;
		float value;
		memcpy(&value, &half, sizeof(value));
		json_write_float(value, out);
	} else {
		double value;
		memcpy(&value, &bits, sizeof(value));
		json_write_double(value, out);
	}
}

/* The golden tables of doubles (round 0) and floats (round 1). */
static void check_shortest(bool is_float)
{
	struct tsv t = tsv_open(is_float ? "numpy_float32_shortest.tsv" : "python_float_repr.tsv");
	size_t lines = 0;
	for (; tsv_next(&t); lines++) {
		char *expected = tsv_text(&t, 1);
		struct buf written = {0};
		write_bits(tsv_u64(&t, 0, 16), is_float, &written);
		ck_assert_msg(strcmp(buf_text(&written), expected) == 0, "line %zu: wrote %s, expected %s", t.line,
			buf_text(&written), expected);
		buf_free(&written);
		free(expected);
	}
	ck_assert_uint_ge(lines, 400);
}

START_TEST(writes_the_shortest_decimal)
{
	check_shortest(_i == 1);
}
END_TEST

START_TEST(decimals_read_back)
{
	struct buf text = {0};
	uint64_t bits = 88172645463325252;
	for (int i = 0; i < 20000; i++) {
		bits ^= bits << 13;
		bits ^= bits >> 7;
		bits ^= bits << 17;
		double value;
		memcpy(&value, &bits, sizeof(value));
		if (!isfinite(value))
			continue;
		buf_clear(&text);
		json_write_double(value, &text);
		double back = decimal_to_double(buf_text(&text));
		ck_assert_msg(memcmp(&back, &value, sizeof(back)) == 0, "%a came back as %a from %s", value, back,
			buf_text(&text));
		struct json_document *document = parse(buf_text(&text));
		json_free(document);
	}
	buf_free(&text);
}
END_TEST

START_TEST(writes_what_is_not_finite)
{
	struct buf text = {0};
	json_write_double(NAN, &text);
	json_write_double(-NAN, &text);
	json_write_double(INFINITY, &text);
	json_write_double(-INFINITY, &text);
	json_write_float(NAN, &text);
	json_write_float(-INFINITY, &text);
	ck_assert_str_eq(buf_text(&text), "NaNNaNInfinity-InfinityNaN-Infinity");
	buf_free(&text);
}
END_TEST

/* A locale whose decimal point is a comma changes nothing. */
START_TEST(numbers_know_no_locale)
{
	static const char *const names[] = {
		"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE", "fr_FR", "ru_RU.UTF-8"};
	const char *found = NULL;
	for (int i = 0; i < COUNT(names) && !found; i++)
		found = setlocale(LC_ALL, names[i]);
	if (!found)
		SKIP("no locale with a decimal comma is installed");
	char comma[16];
	snprintf(comma, sizeof(comma), "%.1f", 0.5);
	ck_assert_str_eq(comma, "0,5");
	check_dump(STR("[1.5,-2.5e-3,1e100]"), -1, false, "[1.5, -0.0025, 1e+100]");
	check_shortest(false);
	check_shortest(true);
}
END_TEST

static const struct {
	struct str text;
	bool ensure_ascii;
	const char *written;
} string_cases[] = {
	{{NULL, 0}, false, "\"\""},
	{STR("a\"b\\c/"), false, "\"a\\\"b\\\\c/\""},
	{STR("\0\x01\b\t\n\v\f\r\x1f\x20\x7f"), false, "\"\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f \x7f\""},
	{STR("\0\x01\b\t\n\v\f\r\x1f\x20\x7f"), true, "\"\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f \\u007f\""},
	{STR("\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbf"), false, "\"\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbf\""},
	{STR("\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbf"), true, "\"\\u00e9\\ud83d\\ude00\\uffff\""},
	{STR("x\xffy\xe4\xb8"), false, "\"x\xef\xbf\xbdy\xef\xbf\xbd\""},
	{STR("x\xffy\xed\xa0\x80"), true, "\"x\\ufffdy\\ufffd\\ufffd\\ufffd\""},
};

START_TEST(writes_strings)
{
	struct buf out = {0};
	json_write_string(string_cases[_i].text, string_cases[_i].ensure_ascii, &out);
	ck_assert_str_eq(buf_text(&out), string_cases[_i].written);
	struct json_document *document = parse(buf_text(&out));
	struct buf lossy = {0};
	utf8_append_lossy(&lossy, string_cases[_i].text);
	ck_assert(str_equal(json_root(document)->text, buf_str(&lossy)));
	json_free(document);
	buf_free(&lossy);
	buf_free(&out);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *grammar = test_case(suite, "grammar", 0);
	tcase_add_loop_test(grammar, accepts, 0, COUNT(accepted));
	tcase_add_loop_test(grammar, refuses, 0, COUNT(refused));
	tcase_add_test(grammar, refuses_every_prefix);
	tcase_add_loop_test(grammar, bounds_depth, 0, 7);
	tcase_add_test(grammar, siblings_are_not_deep);

	TCase *keys = test_case(suite, "keys", 0);
	tcase_add_test(keys, the_last_of_doubled_keys_counts);
	tcase_add_loop_test(keys, refuses_doubled_keys, 0, 12);
	tcase_add_test(keys, keys_are_compared_decoded);
	tcase_add_loop_test(keys, big_objects_take_linear_time, 0, 3);

	TCase *tree = test_case(suite, "tree", 0);
	tcase_add_test(tree, strings_keep_their_length);
	tcase_add_test(tree, walks_arrays);
	tcase_add_test(tree, nothing_is_missing);
	tcase_add_loop_test(tree, reads_numbers, 0, COUNT(numbers));
	tcase_add_test(tree, reads_a_long_number);

	TCase *write = test_case(suite, "write", 0);
	tcase_add_test(write, dumps_as_python);
	tcase_add_loop_test(write, writes_the_shortest_decimal, 0, 2);
	tcase_add_test(write, decimals_read_back);
	tcase_add_test(write, writes_what_is_not_finite);
	tcase_add_test(write, numbers_know_no_locale);
	tcase_add_loop_test(write, writes_strings, 0, COUNT(string_cases));
}
