/* The loader of JSON lines: records, their hashes and lines, and what it refuses. */
#include "datasets/records.h"
#include "tests/support.h"

const char *const test_program_name = "records";

static const char *write_text(const char *name, const char *text)
{
	return test_write_file(name, text, strlen(text));
}

/* hashlib.sha256(json.dumps(json.loads(text), indent=2, ensure_ascii=False).encode()), CPython 3.11.7. */
static const struct {
	const char *text, *hash;
} hash_cases[] = {
	{"{}", "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"},
	{"{\"a\": 1.50, \"b\": [1, {\"c\": \"\\u00e9\\ud83d\\ude00\"}], \"a\": 1e2}",
		"a658f083c9e3c5f2efeff67d2ed472067bc9945c8be5018a61538eef83eca796"},
	{"{\"q\":\"line\\u2028 tab\\t \\u007f\"}", "b2e8dd27084bed1a17b4c31cc5f1651c7f013522fc0064da4195a92a15b59fd9"},
};

START_TEST(a_document_hashes_as_in_python)
{
	struct records r;
	CHECK_OK(records_load(&r, write_text("one.jsonl", hash_cases[_i].text), &test_error));
	ck_assert_uint_eq(r.count, 1);
	ck_assert_str_eq(r.items[0].hash, hash_cases[_i].hash);
	records_free(&r);
}
END_TEST

START_TEST(blank_lines_are_skipped_and_counted)
{
	struct records r;
	CHECK_OK(records_load(
		&r, write_text("blank.jsonl", "\n{\"i\": 0}\r\n \t\r\n\n  {\"i\": 1}\n{\"i\": 2}"), &test_error));
	static const size_t lines[] = {2, 5, 6};
	ck_assert_uint_eq(r.count, 3);
	for (size_t i = 0; i < 3; i++) {
		int64_t value;
		ck_assert(json_int64(json_get(r.items[i].doc, "i"), &value));
		ck_assert_int_eq(value, (int64_t)i);
		ck_assert_uint_eq(r.items[i].line, lines[i]);
	}
	records_free(&r);
}
END_TEST

START_TEST(a_file_without_records_is_empty)
{
	static const char *const texts[] = {"", "\n", "\n\n \t\r\n"};
	struct records r;
	CHECK_OK(records_load(&r, write_text("empty.jsonl", texts[_i]), &test_error));
	ck_assert_uint_eq(r.count, 0);
	char hash[SHA256_HEX_SIZE];
	sha256_hex(texts[_i], strlen(texts[_i]), hash);
	ck_assert_str_eq(r.file_hash, hash);
	records_free(&r);
}
END_TEST

START_TEST(many_records_keep_their_order)
{
	enum { COUNT = 1000 };
	struct buf text = {0};
	for (int i = 0; i < COUNT; i++)
		buf_printf(&text, "{\"i\": %d}\n", i);
	struct records r;
	CHECK_OK(records_load(&r, test_write_file("many.jsonl", text.data, text.length), &test_error));
	ck_assert_uint_eq(r.count, COUNT);
	for (int i = 0; i < COUNT; i++) {
		int64_t value;
		ck_assert(json_int64(json_get(r.items[i].doc, "i"), &value));
		ck_assert_int_eq(value, i);
		ck_assert_uint_eq(r.items[i].line, (size_t)i + 1);
	}
	records_free(&r);
	buf_free(&text);
}
END_TEST

#define BYTES(text) text, sizeof(text) - 1

static const struct {
	const char *name, *bytes;
	size_t length;
	const char *place; /* what the message must hold */
} bad_cases[] = {
	{"truncated", BYTES("{\"a\": 1}\n{\"a\": "), "bad.jsonl:2: column 7: "},
	{"an array", BYTES("{}\n\n[1]\n"), "bad.jsonl:3"},
	{"a number", BYTES("5"), "found number"},
	{"two values", BYTES("{} {}\n"), "bad.jsonl:1"},
	{"not UTF-8", BYTES("{}\n{\"a\": \"\xff\"}\n"), "bad.jsonl:2"},
	{"a surrogate as UTF-8", BYTES("{\"a\": \"\xed\xa0\x80\"}\n"), "bad.jsonl:1"},
	{"a NUL", BYTES("{}\n{\"a\": \0 1}\n"), "bad.jsonl:2"},
	{"a byte order mark", BYTES("\xef\xbb\xbf{}\n"), "bad.jsonl:1"},
	{"a record over two lines", BYTES("{}\n{\"a\":\n1}\n"), "bad.jsonl:2"},
	{"NaN", BYTES("{\"a\": NaN}"), "bad.jsonl:1: column 7: "},
};

START_TEST(bad_lines_are_named)
{
	struct records r;
	const char *path = test_write_file("bad.jsonl", bad_cases[_i].bytes, bad_cases[_i].length);
	ck_assert_int_eq(records_load(&r, path, &test_error), ERR_INPUT);
	ck_assert_msg(strstr(test_error.message, bad_cases[_i].place) != NULL, "%s: %s", bad_cases[_i].name,
		test_error.message);
	ck_assert_uint_eq(r.count, 0);
	ck_assert_ptr_null(r.items);
}
END_TEST

START_TEST(a_deep_record_is_refused)
{
	struct buf text = {0};
	buf_append_text(&text, "{\"a\": ");
	for (int i = 0; i < 100000; i++)
		buf_append_char(&text, '[');
	struct records r;
	ck_assert_int_eq(
		records_load(&r, test_write_file("deep.jsonl", text.data, text.length), &test_error), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "deep.jsonl:1"));
	buf_free(&text);
}
END_TEST

START_TEST(a_missing_file_is_named)
{
	struct records r;
	ck_assert_int_eq(records_load(&r, "/nowhere/test.jsonl", &test_error), ERR_MISSING);
	ck_assert_ptr_nonnull(strstr(test_error.message, "/nowhere/test.jsonl"));
	ck_assert_int_eq(records_load(&r, scratch_folder(), &test_error), ERR_MISSING);
}
END_TEST

START_TEST(columns_have_types)
{
	struct records r;
	CHECK_OK(records_load(
		&r, write_text("c.jsonl", "{\"s\": \"x\", \"n\": 1, \"a\": [], \"z\": null}"), &test_error));
	const struct json *doc = r.items[0].doc, *node;
	struct str s;
	CHECK_OK(column_string(doc, "s", &s, &test_error));
	ck_assert(str_is(s, "x"));
	CHECK_OK(column_node(doc, "a", JSON_ARRAY, &node, &test_error));
	static const struct {
		const char *column, *message;
	} cases[] = {
		{"n", "column \"n\" is number, expected string"},
		{"z", "column \"z\" is null, expected string"},
		{"S", "column \"S\" is missing, expected string"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ck_assert_int_eq(column_string(doc, cases[i].column, &s, &test_error), ERR_INPUT);
		ck_assert_str_eq(test_error.message, cases[i].message);
	}
	ck_assert_int_eq(column_node(doc, "a", JSON_OBJECT, &node, &test_error), ERR_INPUT);
	records_free(&r);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *load = test_case(suite, "load", 0);
	tcase_add_loop_test(load, a_document_hashes_as_in_python, 0, sizeof(hash_cases) / sizeof(hash_cases[0]));
	tcase_add_test(load, blank_lines_are_skipped_and_counted);
	tcase_add_loop_test(load, a_file_without_records_is_empty, 0, 3);
	tcase_add_test(load, many_records_keep_their_order);
	TCase *refuse = test_case(suite, "refuse", 0);
	tcase_add_loop_test(refuse, bad_lines_are_named, 0, sizeof(bad_cases) / sizeof(bad_cases[0]));
	tcase_add_test(refuse, a_deep_record_is_refused);
	tcase_add_test(refuse, a_missing_file_is_named);
	tcase_add_test(refuse, columns_have_types);
}
