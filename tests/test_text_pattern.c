/* Patterns of tokenizer.json: the rewritten expressions find what Oniguruma finds, and what is not rewritten is
 * refused. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/json_strict.h"
#include "engine/text/pattern.h"
#include "tests/support.h"

const char *const test_program_name = "text_pattern";

/* Appends the parts that the matches cut the text into, without empty ones, each in brackets. */
static void cut_text(const struct pattern *p, struct str text, struct buf *out)
{
	struct pattern_scratch *scratch = pattern_scratch_new(&test_error);
	struct pattern_search search = pattern_search_begin(text);
	struct pattern_match match = {0, 0};
	size_t done = 0;
	ck_assert_ptr_nonnull(scratch);
	for (int found = 1; found > 0;) {
		found = pattern_next(p, scratch, &search, &match, &test_error);
		ck_assert_msg(found >= 0, "%s", test_error.message);
		size_t ends[2] = {found ? match.start : text.length, found ? match.end : text.length};
		for (int i = 0; i < 2; i++) {
			if (done < ends[i])
				buf_printf(out, "[%.*s]", (int)(ends[i] - done), text.data + done);
			done = ends[i];
		}
	}
	pattern_scratch_delete(scratch);
}

START_TEST(golden_patterns)
{
	struct buf file = test_read_file(golden_path("tokenizer/patterns.json"));
	struct json_document *document;
	CHECK_OK(json_parse(buf_str(&file), "patterns.json", JSON_LAST_KEY_WINS, &document, &test_error));
	buf_free(&file);
	size_t cases = 0;
	JSON_EACH (c, json_get(json_root(document), "pieces")) {
		struct str source = json_at(c, 0)->text, text = json_at(c, 1)->text;
		struct pattern *p;
		struct buf got = {0}, wanted = {0};
		CHECK_OK(pattern_new_regex(source, "case", &p, &test_error));
		cut_text(p, text, &got);
		JSON_EACH (piece, json_at(c, 2))
			buf_printf(&wanted, "[%.*s]", (int)piece->text.length, piece->text.data);
		ck_assert_msg(str_equal(buf_str(&got), buf_str(&wanted)), "%.*s on \"%.*s\" gives %s, expected %s",
			STR_ARG(source), STR_ARG(text), buf_text(&got), buf_text(&wanted));
		buf_free(&got);
		buf_free(&wanted);
		pattern_delete(p);
		cases++;
	}
	ck_assert_uint_gt(cases, 300);
	json_free(document);
}
END_TEST

static const char *const refused_patterns[] = {
	"[[:alpha:]]",
	"\\1",
	"(?<year>\\d+)",
	"(?<year>\\d+)\\k<year>",
	"\\X",
	"\\R",
	"\\G",
	"\\K",
	"\\Qa\\E",
	"\\pL",
	"\\p{",
	"\\p{L",
	"\\p{(*}",
	"\\p{Nonsense}",
	"[",
	"[]",
	"[a",
	"[a&&]",
	"[a[^b]]",
	"[\\W]",
	"(",
	")",
	"(?",
	"(?x) a",
	"a(?i)b",
	"(?~ab)",
	"(?#note)",
	"*a",
	"a**",
	"a{2}{3}",
	"{2}",
	"|+",
	"\\",
	"\\x",
	"\\xe9",
	"\\x{110000}",
	"\\x{d800}",
	"\\u12",
	"(*UTF8)",
	"(?<=a+)b",
	"[z-a]",
	"\xff",
	"a\xc3",
};

START_TEST(pattern_refused)
{
	struct pattern *p = NULL;
	int status = pattern_new_regex(str_of(refused_patterns[_i]), "the file", &p, &test_error);
	ck_assert_msg(status == ERR_INPUT, "%s: status %d", refused_patterns[_i], status);
	ck_assert_msg(strstr(test_error.message, "the file: "), "%s", test_error.message);
	ck_assert_ptr_null(p);
}
END_TEST

/* Nesting and repetition that grow with the pattern end in an error, not in a full stack. */
START_TEST(pattern_hostile)
{
	static const char *const parts[] = {"(", "[", "[a&&", "(?=", "a{99999}", "(a{1000}", "\\p{", "[^", "(?i", "|"};
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		struct buf source = {0};
		struct pattern *p = NULL;
		for (int n = 0; n < 5000; n++)
			buf_append_text(&source, parts[i]);
		int status = pattern_new_regex(buf_str(&source), "case", &p, &test_error);
		ck_assert_msg(status == (parts[i][0] == '|' ? 0 : ERR_INPUT), "%s: status %d", parts[i], status);
		pattern_delete(p);
		buf_free(&source);
	}
}
END_TEST

START_TEST(pattern_limit)
{
	struct buf text = {0};
	struct pattern *p;
	for (int i = 0; i < 100; i++)
		buf_append_text(&text, "aaaaaaaaaa");
	CHECK_OK(pattern_new_regex(str_of("(?:a|aa|aaa)*[bc]"), "case", &p, &test_error));
	struct pattern_scratch *scratch = pattern_scratch_new(&test_error);
	struct pattern_search search = pattern_search_begin(buf_str(&text));
	struct pattern_match match;
	ck_assert_int_eq(pattern_next(p, scratch, &search, &match, &test_error), ERR_LIMIT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "(?:a|aa|aaa)*[bc]"));
	pattern_scratch_delete(scratch);
	pattern_delete(p);
	buf_free(&text);
}
END_TEST

START_TEST(literal)
{
	static const struct {
		const char *pattern, *text, *pieces;
	} cases[] = {
		{"ab", "xababy", "[x][ab][ab][y]"},
		{"aa", "aaa", "[aa][a]"},
		{".", "a.b", "[a][.][b]"},
		{"x", "", ""},
		{"", "", ""},
		{"", "a\xc3\xa9z", "[a][\xc3\xa9][z]"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pattern *p;
		struct buf got = {0};
		CHECK_OK(pattern_new_literal(str_of(cases[i].pattern), &p, &test_error));
		cut_text(p, str_of(cases[i].text), &got);
		ck_assert_str_eq(buf_text(&got), cases[i].pieces);
		buf_free(&got);
		pattern_delete(p);
	}
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *pattern = test_case(suite, "pattern", 60);
	tcase_add_test(pattern, golden_patterns);
	tcase_add_loop_test(pattern, pattern_refused, 0, sizeof(refused_patterns) / sizeof(refused_patterns[0]));
	tcase_add_test(pattern, pattern_hostile);
	tcase_add_test(pattern, pattern_limit);
	tcase_add_test(pattern, literal);
}
