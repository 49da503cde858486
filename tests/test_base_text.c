/* Buffers, strings, UTF-8 and error messages. */
#include "engine/base/buf.h"
#include "engine/base/error.h"
#include "engine/base/str.h"
#include "engine/base/utf8.h"
#include "tests/support.h"

const char *const test_program_name = "base_text";

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define STR(literal) ((struct str){literal, sizeof(literal) - 1})

static void check_str(struct str got, struct str expected)
{
	ck_assert_msg(str_equal(got, expected), "got '%.*s', expected '%.*s'", STR_ARG(got), STR_ARG(expected));
}

/* ---- buf ---- */

START_TEST(buf_starts_empty)
{
	struct buf b = {0};
	ck_assert_str_eq(buf_text(&b), "");
	ck_assert_uint_eq(buf_str(&b).length, 0);
	CHECK_OK(buf_check(&b, &test_error));
	buf_clear(&b);
	buf_append(&b, NULL, 0);
	ck_assert_ptr_nonnull(b.data);
	ck_assert_int_eq(b.data[0], '\0');
	buf_free(&b);
	ck_assert_ptr_null(b.data);
	buf_free(&b);
}
END_TEST

START_TEST(buf_appends_every_way)
{
	struct buf b = {0};
	buf_append_text(&b, "a");
	buf_append_str(&b, STR("b\0c"));
	buf_append_char(&b, '\0');
	buf_printf(&b, "%d-%s", 12, "x");
	buf_printf(&b, "%s", "");
	check_str(buf_str(&b), STR("ab\0c\00012-x"));
	ck_assert_int_eq(b.data[b.length], '\0');
	buf_clear(&b);
	ck_assert_uint_eq(b.length, 0);
	ck_assert_str_eq(buf_text(&b), "");
	buf_free(&b);
}
END_TEST

/* Each length once, so that each fill level meets the end of the memory. */
START_TEST(buf_grows)
{
	struct buf b = {0};
	char digits[512];
	memset(digits, 'z', sizeof(digits));
	size_t total = 0;
	for (size_t length = 0; length < sizeof(digits); length++) {
		buf_append(&b, digits, length);
		buf_printf(&b, "%.*s", (int)length, digits);
		total += 2 * length;
		ck_assert_uint_eq(b.length, total);
		ck_assert_int_eq(b.data[total], '\0');
	}
	ck_assert_uint_eq(strlen(b.data), total);
	CHECK_OK(buf_check(&b, &test_error));
	buf_free(&b);
}
END_TEST

START_TEST(buf_reports_a_failure_late)
{
	struct buf b = {0};
	buf_append_text(&b, "kept");
	buf_append(&b, "x", SIZE_MAX);
	ck_assert(b.failed);
	buf_append_text(&b, "not appended");
	buf_printf(&b, "%d", 1);
	ck_assert_str_eq(buf_text(&b), "kept");
	ck_assert_int_eq(buf_check(&b, &test_error), ERR_MEMORY);
	ck_assert_int_eq(test_error.code, ERR_MEMORY);
	buf_clear(&b);
	ck_assert_int_eq(buf_check(&b, NULL), ERR_MEMORY);
	buf_free(&b);
	CHECK_OK(buf_check(&b, &test_error));
}
END_TEST

/* ---- str ---- */

static const struct {
	struct str haystack, needle;
	size_t from, found;
} find_cases[] = {
	{STR("abcabc"), STR("abc"), 0, 0},
	{STR("abcabc"), STR("abc"), 1, 3},
	{STR("abcabc"), STR("abc"), 4, SIZE_MAX},
	{STR("abc"), STR("abcd"), 0, SIZE_MAX},
	{STR("abc"), STR("c"), 2, 2},
	{STR("abc"), STR("c"), 3, SIZE_MAX},
	{STR("abc"), STR("c"), 4, SIZE_MAX},
	{STR("abc"), STR("a"), SIZE_MAX, SIZE_MAX},
	{STR("abc"), STR(""), 0, 0},
	{STR("abc"), STR(""), 3, 3},
	{STR("abc"), STR(""), 4, SIZE_MAX},
	{STR(""), STR(""), 0, 0},
	{STR(""), STR("a"), 0, SIZE_MAX},
	{{NULL, 0}, {NULL, 0}, 0, 0},
	{STR("a\0b\0c"), STR("\0c"), 0, 3},
	{STR("aaaaab"), STR("aab"), 0, 3},
};

START_TEST(str_finds)
{
	ck_assert_uint_eq(
		str_find(find_cases[_i].haystack, find_cases[_i].needle, find_cases[_i].from), find_cases[_i].found);
}
END_TEST

START_TEST(str_compares)
{
	ck_assert(str_equal((struct str){NULL, 0}, STR("")));
	ck_assert(str_is((struct str){NULL, 0}, ""));
	ck_assert(!str_equal(STR("a\0b"), STR("a\0c")));
	ck_assert(!str_is(STR("a\0"), "a"));
	ck_assert(str_starts_with(STR("ab"), STR("")));
	ck_assert(str_starts_with(STR("ab"), STR("ab")));
	ck_assert(!str_starts_with(STR("ab"), STR("abc")));
	ck_assert_uint_eq(str_of(NULL).length, 0);
}
END_TEST

/* ---- utf8 ---- */

/* replaced: CPython's bytes.decode("utf-8", errors="replace"). complete: what its incremental decoder takes in (but for
 * ED A0 at the end, where that waits in vain). */
static const struct {
	struct str bytes, replaced;
	size_t complete;
	bool valid;
} utf8_cases[] = {
	{STR(""), STR(""), 0, true},
	{STR("plain"), STR("plain"), 5, true},
	{STR("a\0b"), STR("a\0b"), 3, true},
	{STR("\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80"), STR("\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80"), 9, true},
	{STR("\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"),
		STR("\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"), 19, true},
	{STR("\xed\x9f\xbf\xee\x80\x80"), STR("\xed\x9f\xbf\xee\x80\x80"), 6, true},
	/* stray continuations, impossible bytes */
	{STR("\x80"), STR("\xef\xbf\xbd"), 1, false},
	{STR("a\xbf\xbf\xbf\xbf"), STR("a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"), 5, false},
	{STR("\xfe\xff"), STR("\xef\xbf\xbd\xef\xbf\xbd"), 2, false},
	{STR("\xf5\x80\x80\x80"), STR("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"), 4, false},
	/* overlong forms, surrogates, beyond U+10FFFF */
	{STR("\xc0\x80"), STR("\xef\xbf\xbd\xef\xbf\xbd"), 2, false},
	{STR("\xc1\xbf"), STR("\xef\xbf\xbd\xef\xbf\xbd"), 2, false},
	{STR("\xe0\x80\x80"), STR("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"), 3, false},
	{STR("\xe0\x9f\xbf"), STR("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"), 3, false},
	{STR("\xed\xa0\x80"), STR("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"), 3, false},
	{STR("\xf0\x8f\xbf\xbf"), STR("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"), 4, false},
	{STR("\xf4\x90\x80\x80"), STR("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"), 4, false},
	/* cut within the text: the maximal subpart is one character */
	{STR("\xc3(x"), STR("\xef\xbf\xbd(x"), 3, false},
	{STR("\xe4\xb8(x"), STR("\xef\xbf\xbd(x"), 4, false},
	{STR("\xf0\x9f\x98(x"), STR("\xef\xbf\xbd(x"), 5, false},
	{STR("\xf0\x9f\xc3\xa9"), STR("\xef\xbf\xbd\xc3\xa9"), 4, false},
	/* cut at the end: a stream waits for the rest */
	{STR("a\xc3"), STR("a\xef\xbf\xbd"), 1, false},
	{STR("a\xe4"), STR("a\xef\xbf\xbd"), 1, false},
	{STR("a\xe4\xb8"), STR("a\xef\xbf\xbd"), 1, false},
	{STR("a\xf0"), STR("a\xef\xbf\xbd"), 1, false},
	{STR("a\xf0\x9f"), STR("a\xef\xbf\xbd"), 1, false},
	{STR("a\xf0\x9f\x98"), STR("a\xef\xbf\xbd"), 1, false},
	{STR("\xf0\x9f\x98"), STR("\xef\xbf\xbd"), 0, false},
	/* cut at the end, but no rest could mend it */
	{STR("a\xe0\x80"), STR("a\xef\xbf\xbd\xef\xbf\xbd"), 3, false},
	{STR("a\xed\xa0"), STR("a\xef\xbf\xbd\xef\xbf\xbd"), 3, false},
	{STR("a\xf4\x90\x80"), STR("a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"), 4, false},
	{STR("a\xf0\x9f\x98\x80\x80"), STR("a\xf0\x9f\x98\x80\xef\xbf\xbd"), 6, false},
};

START_TEST(utf8_replaces_as_python)
{
	struct str bytes = utf8_cases[_i].bytes;
	/* A copy of exactly that length, so that the sanitizer sees a read past it. */
	char *copy = mem_calloc(bytes.length, 1, NULL);
	ck_assert_ptr_nonnull(copy);
	memcpy(copy, bytes.data, bytes.length);
	bytes.data = copy;
	struct buf replaced = {0};
	utf8_append_lossy(&replaced, bytes);
	check_str(buf_str(&replaced), utf8_cases[_i].replaced);
	ck_assert_int_eq(utf8_valid(bytes), utf8_cases[_i].valid);
	ck_assert_uint_eq(utf8_complete(bytes), utf8_cases[_i].complete);
	ck_assert_uint_eq(utf8_count(bytes), utf8_count(utf8_cases[_i].replaced));
	buf_free(&replaced);
	free(copy);
}
END_TEST

START_TEST(utf8_round_trips_every_code_point)
{
	struct buf b = {0};
	for (int32_t c = 0; c <= 0x10ffff; c++) {
		if (c == 0xd800)
			c = 0xe000;
		buf_clear(&b);
		utf8_append(&b, c);
		size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
		size_t position = 0;
		int32_t back = utf8_next(buf_str(&b), &position);
		/* Check's own comparisons are slow a million times. */
		if (back != c || position != length || b.length != length)
			ck_abort_msg(
				"U+%04X: %zu bytes, came back as %d from %zu", (unsigned)c, b.length, back, position);
	}
	buf_free(&b);
}
END_TEST

/* Any two bytes: valid exactly where encoding a code point below U+0800 gives them. */
START_TEST(utf8_judges_all_pairs)
{
	static bool expected[65536];
	for (unsigned c = 0; c < 0x80; c++)
		for (unsigned d = 0; d < 0x80; d++)
			expected[c << 8 | d] = true;
	for (unsigned c = 0x80; c < 0x800; c++)
		expected[(0xc0 | c >> 6) << 8 | (0x80 | (c & 0x3f))] = true;
	for (unsigned pair = 0; pair < 65536; pair++) {
		char bytes[2] = {(char)(pair >> 8), (char)pair};
		ck_assert_msg(utf8_valid((struct str){bytes, 2}) == expected[pair], "0x%04x", pair);
	}
}
END_TEST

/* CPython 3.11: [c for c in range(0x110000) if chr(c).isspace()] */
static const int32_t python_spaces[] = {9, 10, 11, 12, 13, 28, 29, 30, 31, 32, 133, 160, 5760, 8192, 8193, 8194, 8195,
	8196, 8197, 8198, 8199, 8200, 8201, 8202, 8232, 8233, 8239, 8287, 12288};

START_TEST(spaces_as_python)
{
	int next = 0;
	ck_assert(!utf8_is_python_space(-1));
	for (int32_t c = 0; c <= 0x10ffff; c++) {
		bool expected = next < COUNT(python_spaces) && c == python_spaces[next];
		if (utf8_is_python_space(c) != expected)
			ck_abort_msg("U+%04X", (unsigned)c);
		next += expected;
	}
	ck_assert_int_eq(next, COUNT(python_spaces));
}
END_TEST

/* Python's str.strip() and str.rstrip(). */
static const struct {
	struct str text, stripped, rstripped;
} strip_cases[] = {
	{STR(""), STR(""), STR("")},
	{{NULL, 0}, STR(""), STR("")},
	{STR(" "), STR(""), STR("")},
	{STR("a"), STR("a"), STR("a")},
	{STR("  a b \n\t"), STR("a b"), STR("  a b")},
	{STR("\xc2\xa0\xe3\x80\x80x\xe2\x80\x83\xc2\x85"), STR("x"), STR("\xc2\xa0\xe3\x80\x80x")},
	{STR("\xe3\x80\x80\xe3\x80\x80"), STR(""), STR("")},
	{STR("\xe2\x80\x8bx\xe2\x80\x8b"), STR("\xe2\x80\x8bx\xe2\x80\x8b"), STR("\xe2\x80\x8bx\xe2\x80\x8b")},
	{STR(" \xc3\xa9 "), STR("\xc3\xa9"), STR(" \xc3\xa9")},
	{STR(" \xf0\x9f\x98\x80 "), STR("\xf0\x9f\x98\x80"), STR(" \xf0\x9f\x98\x80")},
	{STR(" \0 "), STR("\0"), STR(" \0")},
	/* bytes that look like the end of a space (U+00A0) but follow another character */
	{STR("x\xa0"), STR("x\xa0"), STR("x\xa0")},
	{STR("x \xa0"), STR("x \xa0"), STR("x \xa0")},
	{STR("\xe4\xb8\xa0"), STR("\xe4\xb8\xa0"), STR("\xe4\xb8\xa0")},
	{STR("\x80\x80\x80\x80\x80 "), STR("\x80\x80\x80\x80\x80"), STR("\x80\x80\x80\x80\x80")},
};

START_TEST(strips_as_python)
{
	check_str(utf8_strip(strip_cases[_i].text), strip_cases[_i].stripped);
	check_str(utf8_rstrip(strip_cases[_i].text), strip_cases[_i].rstripped);
}
END_TEST

/* ---- error ---- */

START_TEST(error_carries_code_and_message)
{
	struct error e = {0};
	ck_assert_int_eq(error_set(&e, ERR_INPUT, "%s: value %d", "file", 7), ERR_INPUT);
	ck_assert_int_eq(e.code, ERR_INPUT);
	ck_assert_str_eq(e.message, "file: value 7");
	ck_assert_int_eq(error_prefix(&e, "%s %d", "shard", 2), ERR_INPUT);
	ck_assert_str_eq(e.message, "shard 2: file: value 7");
	ck_assert_int_eq(error_set(&e, ERR_IO, "again: %s", e.message), ERR_IO);
	ck_assert_str_eq(e.message, "again: shard 2: file: value 7");
	ck_assert_int_eq(error_set(NULL, ERR_LIMIT, "nobody listens"), ERR_LIMIT);
	ck_assert_int_lt(error_prefix(NULL, "nobody"), 0);
}
END_TEST

/* The message is cut where a character ends, whatever the shift. */
START_TEST(error_cuts_long_messages)
{
	char text[2048] = {0};
	for (size_t i = 0; i + 4 < sizeof(text); i += 4)
		memcpy(text + i, "\xf0\x9f\x98\x80", 4);
	struct error e;
	error_set(&e, ERR_INPUT, "%.*s%s", _i, "xxxx", text);
	struct str message = str_of(e.message);
	ck_assert_uint_gt(message.length, sizeof(e.message) - 5);
	ck_assert_uint_lt(message.length, sizeof(e.message));
	ck_assert(utf8_valid(message));
	ck_assert_ptr_null(strchr(e.message, '?'));
	error_prefix(&e, "%s", text);
	ck_assert(utf8_valid(str_of(e.message)));
}
END_TEST

START_TEST(error_messages_are_harmless)
{
	struct error e;
	error_set(&e, ERR_INPUT, "key \x1b[2J\x07\x7f|\xc2\x9b|\xff|\xc3|\xc3\xa9\n\tend");
	ck_assert_str_eq(e.message, "key ?[2J??|\?\?|?|?|\xc3\xa9\n\tend");
}
END_TEST

START_TEST(error_exit_codes)
{
	static const struct {
		int code, exit_code;
	} cases[] = {{0, 0}, {ERR_USAGE, 2}, {ERR_INPUT, 2}, {ERR_MISSING, 2}, {ERR_IO, 4}, {ERR_MEMORY, 4},
		{ERR_DEVICE, 4}, {ERR_LIMIT, 4}, {ERR_STORE, 4}, {ERR_EMPTY, 5}, {ERR_INTERRUPTED, 130}};
	for (int i = 0; i < COUNT(cases); i++)
		ck_assert_int_eq(error_exit_code(cases[i].code), cases[i].exit_code);
}
END_TEST

START_TEST(memory_is_zeroed_or_refused)
{
	ck_assert_ptr_null(mem_calloc(SIZE_MAX / 2, 3, &test_error));
	ck_assert_int_eq(test_error.code, ERR_MEMORY);
	ck_assert_ptr_null(mem_calloc(3, SIZE_MAX / 2, NULL));
	ck_assert_ptr_null(mem_aligned(SIZE_MAX, &test_error));
	ck_assert_ptr_null(mem_aligned(SIZE_MAX - 70, NULL));
	static const size_t sizes[] = {0, 1, 63, 64, 65, 100000};
	for (int i = 0; i < COUNT(sizes); i++) {
		unsigned char *plain = mem_calloc(sizes[i], 1, &test_error);
		unsigned char *aligned = mem_aligned(sizes[i], &test_error);
		ck_assert(plain && aligned && plain != aligned);
		ck_assert_uint_eq((uintptr_t)aligned % 64, 0);
		for (size_t j = 0; j < sizes[i]; j++)
			ck_assert(plain[j] == 0 && aligned[j] == 0);
		free(plain);
		free(aligned);
	}
	free(mem_calloc(0, 8, &test_error));
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *buf = test_case(suite, "buf", 0);
	tcase_add_test(buf, buf_starts_empty);
	tcase_add_test(buf, buf_appends_every_way);
	tcase_add_test(buf, buf_grows);
	tcase_add_test(buf, buf_reports_a_failure_late);

	TCase *str = test_case(suite, "str", 0);
	tcase_add_loop_test(str, str_finds, 0, COUNT(find_cases));
	tcase_add_test(str, str_compares);

	TCase *utf8 = test_case(suite, "utf8", 0);
	tcase_add_loop_test(utf8, utf8_replaces_as_python, 0, COUNT(utf8_cases));
	tcase_add_test(utf8, utf8_round_trips_every_code_point);
	tcase_add_test(utf8, utf8_judges_all_pairs);
	tcase_add_test(utf8, spaces_as_python);
	tcase_add_loop_test(utf8, strips_as_python, 0, COUNT(strip_cases));

	TCase *error = test_case(suite, "error", 0);
	tcase_add_test(error, error_carries_code_and_message);
	tcase_add_loop_test(error, error_cuts_long_messages, 0, 4);
	tcase_add_test(error, error_messages_are_harmless);
	tcase_add_test(error, error_exit_codes);
	tcase_add_test(error, memory_is_zeroed_or_refused);
}
