/* What is printed of a verdict: XML that every parser takes, Markdown and JSON that no answer can break out of. */
#include <math.h>

#include "engine/base/json_strict.h"
#include "engine/base/utf8.h"
#include "reports/github.h"
#include "reports/junit.h"
#include "reports/markdown.h"
#include "reports/report_html.h"
#include "reports/verdict_json.h"
#include "tests/verdict_fixture.h"

const char *const test_program_name = "verdict_output";

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Strict XML, as far as these documents use it ---- */

struct xml {
	struct str text;
	size_t at;
	const char *path[16]; /* names of open elements, not ended by NUL */
	size_t lengths[16];
	int depth;
	int elements[8]; /* counts: tests, by name below */
};

enum { TESTCASE, FAILURE, ERROR, SKIPPED, TESTSUITE };
static const char *const element_names[] = {"testcase", "failure", "error", "skipped", "testsuite"};

static bool at(const struct xml *x, const char *piece)
{
	struct str rest = {x->text.data + x->at, x->text.length - x->at};
	return str_starts_with(rest, str_of(piece));
}

/* One character of content or of a value: no markup, a known reference, or a character that XML 1.0 allows. */
static void xml_character(struct xml *x)
{
	static const char *const references[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&#10;", "&#13;", "&#9;"};
	if (x->text.data[x->at] == '&') {
		for (size_t i = 0; i < COUNT(references); i++)
			if (at(x, references[i])) {
				x->at += strlen(references[i]);
				return;
			}
		ck_abort_msg("reference: %.20s", x->text.data + x->at);
	}
	ck_assert_msg(!at(x, "]]>"), "]]> in content");
	int32_t c = utf8_next(x->text, &x->at);
	bool allowed = c == 9 || c == 10 || c == 13 || (c >= 0x20 && c < 0xd800) || (c >= 0xe000 && c <= 0xfffd) ||
		c >= 0x10000;
	ck_assert_msg(allowed && c != '<', "character U+%04X", (unsigned)c);
}

static void xml_attributes(struct xml *x)
{
	while (at(x, " ")) {
		x->at++;
		while (x->text.data[x->at] != '=')
			ck_assert(x->text.data[x->at] >= 'a' && x->text.data[x->at++] <= 'z');
		ck_assert(at(x, "=\""));
		for (x->at += 2; !at(x, "\"");) {
			ck_assert(!at(x, "\n") && !at(x, "\t"));
			xml_character(x);
		}
		x->at++;
	}
}

static void xml_tag(struct xml *x)
{
	bool closes = at(x, "</");
	x->at += closes ? 2 : 1;
	const char *name = x->text.data + x->at;
	size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz");
	ck_assert_uint_gt(length, 0);
	x->at += length;
	if (closes) {
		x->depth--;
		ck_assert(x->depth >= 0 && x->lengths[x->depth] == length &&
			memcmp(x->path[x->depth], name, length) == 0);
	} else {
		for (size_t i = 0; i < COUNT(element_names); i++)
			x->elements[i] +=
				strlen(element_names[i]) == length && memcmp(element_names[i], name, length) == 0;
		xml_attributes(x);
		x->path[x->depth] = name;
		x->lengths[x->depth++] = length;
		if (at(x, "/>")) {
			x->depth--;
			x->at++;
		}
	}
	ck_assert_msg(at(x, ">"), "tag ends with %.20s", x->text.data + x->at);
	x->at++;
}

static struct xml xml_parse(const struct buf *text)
{
	struct xml x = {.text = buf_str(text)};
	ck_assert(at(&x, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites "));
	x.at = strlen("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
	while (x.at < x.text.length)
		if (at(&x, "<"))
			xml_tag(&x);
		else
			xml_character(&x);
	ck_assert_int_eq(x.depth, 0);
	return x;
}

static void expect_count(const struct buf *text, const char *name, int count)
{
	char attribute[64];
	snprintf(attribute, sizeof(attribute), " %s=\"%d\"", name, count);
	/* on testsuites and on testsuite; of skipped cases only on the latter, as Jenkins' schema has it */
	const char *outer = strstr(buf_text(text), "<testsuites "), *inner = strstr(buf_text(text), "<testsuite ");
	const char *in_outer = strstr(outer, attribute), *in_inner = strstr(inner, attribute);
	bool on_outer = in_outer && in_outer < strchr(outer, '>');
	ck_assert_msg(in_inner && in_inner < strchr(inner, '>') && on_outer == (strcmp(name, "skipped") != 0),
		"no %s in %.300s", attribute, buf_text(text));
}

static struct buf junit_of(const struct verdict *const *verdicts, size_t n)
{
	struct buf out = {0};
	CHECK_OK(junit_write(verdicts, n, &out, &test_error));
	struct xml x = xml_parse(&out);
	expect_count(&out, "tests", x.elements[TESTCASE]);
	expect_count(&out, "failures", x.elements[FAILURE]);
	expect_count(&out, "errors", x.elements[ERROR]);
	expect_count(&out, "skipped", x.elements[SKIPPED]);
	return out;
}

/* ---- Answers that want to break out ---- */

static const char hostile[] =
	"ok \x1b[0;31mred\x1b[0m \\u0000\\b \xef\xbf\xbe\xef\xbf\xbf ]]> <b>&amp;\\\"' "
	"\xe2\x80\xa8 \xf0\x9f\x98\x80 \\r\\n\\ttab \x7f\xc2\x85 `$(id)` ```\\n|x|**[l](javascript:x) &#27; #";

/* 300 items, of which one tenth is lost; every answer is hostile, one is a megabyte. */
static struct table_files hostile_files(const char *task)
{
	struct buf baseline = {0}, candidate = {0}, text = {0};
	for (const char *c = hostile; *c; c++) /* JSON allows no raw control characters */
		if ((unsigned char)*c < 0x20)
			buf_printf(&text, "\\u%04x", *c);
		else
			buf_append_char(&text, *c);
	for (int i = 0; i < 300; i++) {
		for (int side = 0; side < 2; side++) {
			struct buf *out = side ? &candidate : &baseline;
			buf_printf(out,
				"{\"task\": \"%s\", \"doc_id\": %d, \"acc\": %d, \"filter\": \"none\", \"resps\": [[\"",
				task, i, !(side && i % 10 == 0));
			buf_append_str(out, buf_str(&text));
			for (int k = 0; i == 10 && k < 150000; k++)
				buf_append_text(out, side ? "<x>\\u0000 |`" : "]]> & \\\" ' %");
			buf_append_text(out, "\"]], \"filtered_resps\": [\"");
			buf_append_str(out, buf_str(&text));
			buf_append_text(out, "\"]}\n");
		}
	}
	buf_free(&text);
	return write_files(&baseline, &candidate);
}

START_TEST(no_answer_breaks_the_xml)
{
	struct judged j;
	judge_files(&j, hostile_files("gsm8k<\\\"&.\\u0001\\u001f"), 1);
	ck_assert_int_eq(j.verdict.outcome, OUTCOME_FAIL);
	struct buf out = junit_of((const struct verdict *[]){&j.verdict}, 1);
	ck_assert_msg(strstr(buf_text(&out), "\xef\xbf\xbd[0;31mred"), "%.2000s", buf_text(&out));
	ck_assert_uint_lt(out.length, 200000);
	buf_free(&out);
	judged_free(&j);
}
END_TEST

START_TEST(no_answer_breaks_the_markdown)
{
	struct judged j;
	struct buf out = {0};
	judge_files(&j, hostile_files("gsm8k|`\\n# x"), 1);
	CHECK_OK(verdict_markdown(&j.verdict, &out, &test_error));
	const char *text = buf_text(&out);
	ck_assert(utf8_valid(buf_str(&out)));
	ck_assert_msg(!strpbrk(text, "`<\x1b\x7f"), "%.3000s", text);
	ck_assert(!strstr(text, "](") && !strstr(text, "\n# "));
	ck_assert_uint_lt(out.length, 200000);
	/* each row of the flips has its five cells: no bar of an answer counts */
	const char *flips = strstr(text, "### Flips");
	ck_assert_ptr_nonnull(flips);
	int rows = 0;
	for (const char *row = strstr(flips, "\n|"); row; row = strstr(row + 1, "\n|"), rows++) {
		size_t length = strcspn(row + 1, "\n"), bars = 0;
		for (size_t i = 1; i <= length; i++)
			bars += row[i] == '|';
		ck_assert_msg(bars == 6, "%.*s", (int)length, row + 1);
	}
	ck_assert_int_eq(rows, 2 + 30);
	buf_free(&out);
	judged_free(&j);
}
END_TEST

/* A p that four digits cannot tell from nothing, and a number of items that is none. */
START_TEST(small_and_missing_numbers)
{
	struct judged j;
	struct buf out = {0};
	judge_table(&j, (struct paired_table){9000, 0, 0, 4340}, 1);
	CHECK_OK(verdict_markdown(&j.verdict, &out, &test_error));
	ck_assert_int_eq(j.verdict.outcome, OUTCOME_PASS);
	const char *row = strstr(buf_text(&out), "| pooled | points | ✓ pass |");
	ck_assert_ptr_nonnull(row);
	char line[400];
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(row, "\n"), row);
	ck_assert_msg(strstr(line, "| 1.00 | &#60;0.0001 | &#60;0.0001 | – |") != NULL, "%s", line);
	buf_free(&out);
	judged_free(&j);
}
END_TEST

START_TEST(json_keeps_every_character)
{
	struct judged j;
	struct buf out = {0};
	judge_files(&j, hostile_files("gsm8k\\u0001\\\""), 1);
	CHECK_OK(verdict_json(&j.verdict, true, &out, &test_error));
	struct json_document *document;
	CHECK_OK(json_parse(buf_str(&out), "json", JSON_REFUSE_DOUBLED_KEYS, &document, &test_error));
	const struct json *flips = json_get(json_root(document), "flips");
	ck_assert_uint_eq(flips->count, 30);
	struct str response = json_get(json_get(json_at(flips, 0), "candidate"), "response")->text;
	ck_assert(str_starts_with(
		response, STR("ok \x1b[0;31mred\x1b[0m \0\b \xef\xbf\xbe\xef\xbf\xbf ]]> <b>&amp;\"' ")));
	ck_assert_str_eq(json_get(json_at(flips, 0), "change")->text.data, "regression");
	ck_assert_uint_gt(json_get(json_get(json_at(flips, 1), "candidate"), "response")->text.length, 1000000);
	json_free(document);
	buf_free(&out);
	judged_free(&j);
}
END_TEST

/* ---- JUnit's names ---- */

/* "classname|name" of every case, each once. */
static void expect_distinct(const struct buf *out, int count)
{
	const char *names[32];
	int n = 0;
	for (const char *c = strstr(buf_text(out), "<testcase "); c; c = strstr(c + 1, "<testcase ")) {
		ck_assert_int_lt(n, 32);
		names[n++] = c;
	}
	ck_assert_int_eq(n, count);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < i; k++) {
			size_t length = (size_t)(strstr(names[i], " time=") - names[i]);
			ck_assert_msg(strncmp(names[i], names[k], length + 6) != 0, "%.100s", names[i]);
		}
}

/* Two variants, the same suite with 0 and 5 shots. */
START_TEST(cases_have_names_of_their_own)
{
	static const char *const shots[] = {"{\"suites\": [{\"name\": \"gsm8k\", \"fewshot\": 0}]}",
		"{\"suites\": [{\"name\": \"gsm8k\", \"fewshot\": 5}]}"};
	static const char *const names[] = {"bf16/bf16", "fp8/fp8"};
	const char *path = fixture_path("shots.db");
	struct store *s = fixture_open(path);
	for (int run = 0; run < 2; run++) {
		struct store_run row = fixture_run(run ? "five" : "none");
		int64_t run_id;
		bool resumed;
		row.provenance = str_of(shots[run]);
		CHECK_OK(store_run_begin(s, &row, &run_id, &resumed, &test_error));
		for (int v = 0; v < 2; v++) {
			int64_t variant = fixture_add_variant(s, names[v]);
			for (int i = 0; i < 3; i++) {
				struct store_sample x = fixture_sample(variant, i);
				CHECK_OK(store_sample_insert(s, &x, &test_error));
			}
		}
		CHECK_OK(store_run_finish(s, RUN_COMPLETE, &test_error));
	}
	store_close(s);
	struct judged judged[4];
	const struct verdict *verdicts[8];
	struct buf again = {0};
	for (int i = 0; i < 4; i++) {
		char address[4200];
		snprintf(address, sizeof(address), "%s:%d:%s", path, 1 + i / 2, names[i % 2]);
		judged[i] = (struct judged){0};
		policy_init(&judged[i].policy);
		CHECK_OK(judge(&judged[i], address, address));
		verdicts[i] = verdicts[4 + i] = &judged[i].verdict;
	}
	struct buf out = junit_of(verdicts, 4);
	expect_distinct(&out, 4 * 3);
	static const char *const expected[] = {"classname=\"assay.bf16/bf16.gsm8k\" name=\"drop (0-shot)\"",
		"classname=\"assay.fp8/fp8.gsm8k\" name=\"drop (0-shot)\"",
		"classname=\"assay.bf16/bf16.gsm8k\" name=\"drop (5-shot)\"",
		"classname=\"assay.fp8/fp8.gsm8k\" name=\"drop (5-shot)\""};
	for (size_t i = 0; i < COUNT(expected); i++)
		ck_assert_msg(strstr(buf_text(&out), expected[i]), "no %s in %s", expected[i], buf_text(&out));
	CHECK_OK(junit_write(verdicts, 4, &again, &test_error));
	ck_assert_str_eq(buf_text(&again), buf_text(&out));
	buf_free(&out);
	/* the very same verdicts twice */
	out = junit_of(verdicts, 8);
	expect_distinct(&out, 8 * 3);
	buf_free(&out);
	buf_free(&again);
	for (int i = 0; i < 4; i++)
		judged_free(&judged[i]);
}
END_TEST

/* A case says no more than the exit code: what was advisory or held back is skipped. */
START_TEST(results_of_cases)
{
	static const struct {
		struct paired_table table;
		int failures, skipped;
	} cases[] = {{{9000, 561, 141, 4340}, 2, 1}, {{9000, 358, 344, 4340}, 0, 0}, {{9000, 421, 281, 4340}, 0, 3}};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct judged j;
		judge_table(&j, cases[i].table, 1);
		struct buf out = junit_of((const struct verdict *[]){&j.verdict}, 1);
		expect_count(&out, "tests", 3);
		expect_count(&out, "failures", cases[i].failures);
		expect_count(&out, "skipped", cases[i].skipped);
		buf_free(&out);
		judged_free(&j);
	}
}
END_TEST

START_TEST(what_could_not_run_is_an_error)
{
	struct buf out = {0};
	CHECK_OK(report_html_write_error("gate", "no <run> & |that|", &out, &test_error));
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "no &lt;run&gt; &amp; |that|"));
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "</html>"));
	buf_clear(&out);
	CHECK_OK(markdown_write_error("gate", "no <run> & |that|", &out, &test_error));
	ck_assert_str_eq(
		buf_text(&out), "## gate\n\n**ERROR**, nothing was judged: no &#60;run&#62; &#38; &#124;that&#124;\n");
	buf_clear(&out);
	CHECK_OK(junit_write_error("no <run> '\x1b' & \"that\"\nhere", &out, &test_error));
	struct xml x = xml_parse(&out);
	ck_assert_int_eq(x.elements[ERROR], 1);
	expect_count(&out, "errors", 1);
	expect_count(&out, "failures", 0);
	buf_free(&out);
}
END_TEST

/* ---- JSON ---- */

static const struct json *path(const struct json *value, const char *members)
{
	for (const char *at_member = members; *at_member;) {
		struct str name = {at_member, strcspn(at_member, "/")};
		value = json_get_str(value, name);
		ck_assert_msg(value != NULL, "no %s", members);
		at_member += name.length + (at_member[name.length] == '/');
	}
	return value;
}

START_TEST(json_of_a_gate)
{
	struct judged j;
	struct buf out = {0};
	judge_table(&j, (struct paired_table){1200, 25, 10, 84}, 1);
	CHECK_OK(verdict_json(&j.verdict, false, &out, &test_error));
	struct json_document *document;
	CHECK_OK(json_parse(buf_str(&out), "json", JSON_REFUSE_DOUBLED_KEYS, &document, &test_error));
	const struct json *root = json_root(document);
	ck_assert_str_eq(root->child->key.data, "schema_version");
	ck_assert_str_eq(path(root, "verdict")->text.data, "inconclusive");
	ck_assert_str_eq(path(root, "suites/samples/verdict")->text.data, "inconclusive");
	static const struct {
		const char *path;
		double value;
	} numbers[] = {{"n", 1319}, {"a", 1200}, {"b", 25}, {"c", 10}, {"d", 84}, {"drop", 0.011372251705837756},
		{"low", 0.0027324735}, {"high", 0.0210587297}, {"mcnemar_p", 0.01667384780012071}, {"unmatched", 0},
		{"errors", 0}, {"baseline", 1225.0 / 1319}, {"candidate", 1210.0 / 1319}};
	for (size_t i = 0; i < COUNT(numbers); i++) {
		ck_assert_double_eq_tol(
			json_double(path(path(root, "suites/samples"), numbers[i].path)), numbers[i].value, 1e-9);
		ck_assert_double_eq_tol(
			json_double(path(path(root, "endpoints/pooled"), numbers[i].path)), numbers[i].value, 1e-9);
	}
	ck_assert_double_eq_tol(json_double(path(root, "endpoints/pooled/p")), 0.6215514422, 1e-9);
	ck_assert_double_eq_tol(json_double(path(root, "suites/samples/p_holm")), 0.6215514422, 1e-9);
	ck_assert_double_eq(json_double(path(root, "endpoints/pooled/n_needed")),
		ceil(noninferiority_size(35.0 / 1319, 0, 0.01, 0.05, 0.8)));
	ck_assert_ptr_null(json_get(root, "flips"));
	json_free(document);
	buf_free(&out);
	judged_free(&j);
}
END_TEST

/* ---- GitHub ---- */

START_TEST(github)
{
	struct buf line = {0};
	github_annotation("error", "a:b,c%", "100%\r\nlost: a, b", &line);
	ck_assert_str_eq(buf_text(&line), "::error title=a%3Ab%2Cc%25::100%25%0D%0Alost: a, b\n");
	buf_free(&line);

	/* a summary that holds something already is appended to; what is too long ends with a whole line and says so */
	const char *summary = test_write_file("summary.md", "before\n", 7);
	CHECK_OK(github_summary_append(summary, STR("after\n"), &test_error));
	struct buf content = test_read_file(summary), text = {0};
	ck_assert_str_eq(buf_text(&content), "before\nafter\n");
	buf_free(&content);
	while (text.length < 2 * GITHUB_SUMMARY_MAX)
		buf_append_text(&text, "a line of text\n");
	CHECK_OK(github_summary_append(summary, buf_str(&text), &test_error));
	content = test_read_file(summary);
	ck_assert_uint_le(content.length, GITHUB_SUMMARY_MAX);
	ck_assert_uint_gt(content.length, GITHUB_SUMMARY_MAX - 100);
	ck_assert(strstr(buf_text(&content), "a line of text\n\nThe rest is too long for a summary.\n"));
	size_t full = content.length;
	buf_free(&content);
	CHECK_OK(github_summary_append(summary, buf_str(&text), &test_error));
	content = test_read_file(summary);
	ck_assert_uint_le(content.length, GITHUB_SUMMARY_MAX);
	ck_assert_uint_ge(content.length, full);
	buf_free(&content);
	buf_free(&text);
	ck_assert_int_eq(github_summary_append("/nowhere/summary", STR("x"), &test_error), ERR_IO);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *t = test_case(suite, "hostile", 60);
	tcase_add_test(t, no_answer_breaks_the_xml);
	tcase_add_test(t, no_answer_breaks_the_markdown);
	tcase_add_test(t, json_keeps_every_character);
	tcase_add_test(t, small_and_missing_numbers);
	t = test_case(suite, "junit", 0);
	tcase_add_test(t, cases_have_names_of_their_own);
	tcase_add_test(t, results_of_cases);
	tcase_add_test(t, what_could_not_run_is_an_error);
	t = test_case(suite, "json", 0);
	tcase_add_test(t, json_of_a_gate);
	t = test_case(suite, "github", 0);
	tcase_add_test(t, github);
}
