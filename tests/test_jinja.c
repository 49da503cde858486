/* Jinja as chat templates use it: against transformers' own renderings, its errors, its bounds, dates, letters' case. */
#include <stdlib.h>

#include "datasets/records.h"
#include "engine/base/arena.h"
#include "engine/base/python_text.h"
#include "engine/base/utf8.h"
#include "engine/engine.h"
#include "engine/text/jinja.h"
#include "engine/text/jinja_date.h"
#include "tests/support.h"

const char *const test_program_name = "jinja";

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

/* A Saturday. */
static struct tm the_date(void)
{
	struct tm t = {.tm_year = 125, .tm_mon = 1, .tm_mday = 1, .tm_hour = 14, .tm_min = 5, .tm_sec = 9};
	(void)timegm(&t);
	return t;
}

/* Renders with an object's members as variables (and its messages); a negative status and test_error on failure. */
static int render_with(struct str template, const struct json *variables, struct buf *out)
{
	struct jinja *jinja;
	struct jinja_context context = {
		.more = variables, .messages = json_get(variables, "messages"), .now = the_date()};
	bool asked;
	test_error = (struct error){0};
	int status = jinja_new(template, "t", &jinja, &test_error);
	if (status == 0)
		status = jinja_render(jinja, &context, &asked, out, &test_error);
	jinja_delete(jinja);
	return status;
}

static int render(const char *template, struct buf *out)
{
	buf_clear(out);
	return render_with(str_of(template), NULL, out);
}

static void expect_text(const char *template, const char *text)
{
	struct buf out = {0};
	ck_assert_msg(render(template, &out) == 0, "%s: %s", template, test_error.message);
	ck_assert_msg(
		strcmp(buf_text(&out), text) == 0, "%s gives '%s', expected '%s'", template, buf_text(&out), text);
	buf_free(&out);
}

/* Refused, with that piece in the message. */
static void expect_refusal(const char *template, const char *piece)
{
	struct buf out = {0};
	int status = render(template, &out);
	ck_assert_msg(status == ERR_INPUT, "%.80s: status %d, '%.200s'", template, status, buf_text(&out));
	ck_assert_msg(strstr(test_error.message, piece) != NULL, "%.80s: '%s' is not in: %s", template, piece,
		test_error.message);
	ck_assert_msg(strncmp(test_error.message, "t", 1) == 0, "%s", test_error.message);
	ck_assert_uint_eq(out.length, 0);
	buf_free(&out);
}

/* ---- The reference ---- */

static void check_case(const struct json *record, const struct json *variables, size_t line)
{
	const struct json *text = json_get(record, "text");
	struct buf out = {0};
	struct str template = json_get(record, "template")->text;
	int status = render_with(template, variables, &out);
	if (text)
		ck_assert_msg(status == 0, "line %zu: %.300s: %s", line, template.data, test_error.message);
	else
		ck_assert_msg(status == ERR_INPUT, "line %zu: %.300s gives '%s', expected an error: %s", line,
			template.data, buf_text(&out), json_get(record, "why")->text.data);
	if (text)
		ck_assert_msg(str_equal(text->text, buf_str(&out)), "line %zu: %.300s gives\n'%s', expected\n'%s'",
			line, template.data, buf_text(&out), text->text.data);
	buf_free(&out);
}

START_TEST(templates_render_as_in_the_reference)
{
	struct records cases;
	CHECK_OK(records_load(&cases, golden_path("jinja/cases.jsonl"), &test_error));
	ck_assert_uint_gt(cases.count, 900);
	const struct json *context = json_get(cases.items[0].doc, "context");
	for (size_t i = 1; i < cases.count; i++)
		check_case(cases.items[i].doc, context, cases.items[i].line);
	records_free(&cases);
}
END_TEST

/* chats.jsonl and the shared renders are read through the engine's face. */
static int render_chat(struct engine_template *template, const struct json *line, struct buf *out)
{
	struct tm now = the_date();
	const struct engine_chat chat = {.messages = json_get(line, "messages"),
		.tools = json_get(line, "tools"),
		.variables = line,
		.now = &now};
	return engine_template_render(template, &chat, NULL, out, &test_error);
}

static const char token_config[] =
	"{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}, \"pad_token\": null}";

START_TEST(conversations_render_as_in_the_reference)
{
	struct records chats;
	CHECK_OK(records_load(&chats, golden_path("jinja/chats.jsonl"), &test_error));
	ck_assert_uint_eq(chats.count, 19);
	test_write_file("model/tokenizer_config.json", token_config, sizeof token_config - 1);
	for (size_t i = 1; i < chats.count; i++) {
		const struct json *chat = chats.items[i].doc, *text = json_get(chat, "text");
		struct str source = json_get(chat, "template")->text;
		const char *path = test_write_file("model/chat_template.jinja", source.data, source.length);
		char *folder = strndup(path, strlen(path) - strlen("/chat_template.jinja"));
		struct engine_template *template;
		struct buf out = {0};
		CHECK_OK(engine_template_open(folder, NULL, &template, &test_error));
		int status = render_chat(template, chat, &out);
		ck_assert_msg((status == 0) == (text != NULL), "line %zu: %s%s", chats.items[i].line, buf_text(&out),
			status < 0 ? test_error.message : "");
		ck_assert_msg(!text || str_equal(text->text, buf_str(&out)), "line %zu gives\n'%s', expected\n'%s'",
			chats.items[i].line, buf_text(&out), text ? text->text.data : "");
		buf_free(&out);
		engine_template_close(template);
		free(folder);
	}
	records_free(&chats);
}
END_TEST

START_TEST(published_templates_render_as_in_transformers)
{
	const char *renders = shared_path("golden/templates/renders.jsonl");
	if (!renders)
		SKIP("no shared renders");
	struct records r;
	CHECK_OK(records_load(&r, renders, &test_error));
	ck_assert_uint_ge(r.count, 64);
	for (size_t i = 0; i < r.count; i++) {
		char name[256];
		struct engine_template *template;
		struct buf out = {0};
		struct str file = json_get(r.items[i].doc, "template")->text;
		snprintf(name, sizeof name, "golden/templates/%s", file.data);
		CHECK_OK(engine_template_open(NULL, shared_path(name), &template, &test_error));
		CHECK_OK(render_chat(template, r.items[i].doc, &out));
		ck_assert_msg(str_equal(json_get(r.items[i].doc, "text")->text, buf_str(&out)), "line %zu: %s",
			r.items[i].line, buf_text(&out));
		buf_free(&out);
		engine_template_close(template);
	}
	records_free(&r);
}
END_TEST

static const struct {
	const char *trial, *name;
} trials[] = {{"T12", "slice"}, {"T13", "loopctl"}, {"T15", "raise"}, {"T18", "date"}};

START_TEST(cases_from_the_field)
{
	char path[3][64];
	static const char *const ends[] = {".jinja", ".ctx.json"};
	for (int i = 0; i < 2; i++)
		snprintf(path[i], sizeof path[i], "trials/%s/%s%s", trials[_i].trial, trials[_i].name, ends[i]);
	snprintf(path[2], sizeof path[2], "trials/%s/expected.json", trials[_i].trial);
	if (!shared_path(path[0]) || !shared_path(path[2]))
		SKIP("no %s", path[0]);
	struct buf template = test_read_file(shared_path(path[0])), context = test_read_file(shared_path(path[1]));
	struct buf expected = test_read_file(shared_path(path[2])), out = {0};
	struct json_document *variables, *right;
	CHECK_OK(json_parse(buf_str(&context), path[1], 0, &variables, &test_error));
	CHECK_OK(json_parse(buf_str(&expected), path[2], 0, &right, &test_error));
	int status = render_with(buf_str(&template), json_root(variables), &out);
	const struct json *one = json_get(json_root(right), trials[_i].name), *text = json_get(one, "text");
	ck_assert_int_eq(status == 0, text != NULL);
	if (text)
		ck_assert(str_equal(text->text, buf_str(&out)));
	else
		ck_assert_ptr_nonnull(strstr(test_error.message, strchr(json_get(one, "error")->text.data, ' ') + 1));
	json_free(variables);
	json_free(right);
	buf_free(&template);
	buf_free(&context);
	buf_free(&expected);
	buf_free(&out);
}
END_TEST

/* ---- Where it goes its own way ---- */

static const struct {
	const char *template, *text;
} own_cases[] = {
	/* the four methods that change their object: the reference's sandbox refuses them, published templates need them */
	{"{% set l = [] %}{% set _ = l.append(1) %}{% set _ = l.insert(0, 2) %}{{ l }}{{ l.pop(0) }}{{ l }}",
		"[2, 1]2[1]"},
	{"{% set d = {'a': 1} %}{% set _ = d.update({'b': 2}, c=3) %}{{ d }}{{ d.pop('a') }}{{ d.pop('z', 9) }}{{ d }}",
		"{'a': 1, 'b': 2, 'c': 3}19{'b': 2, 'c': 3}"},
	{"{% set ns = namespace(l=[]) %}{% for i in range(20) %}{% set _ = ns.l.append(i) %}{% endfor %}{{ ns.l|sum }}",
		"190"},
	{"{{ -9223372036854775808 }} {{ 9223372036854775808 }} {{ -9223372036854775809 }}",
		"-9223372036854775808 9223372036854775808 -9223372036854775809"},
	{"{{ '%s' % x }}{{ x|string }}{{ '[%s]' % none }}", "[None]"},
	{"{% for x in [3, 1] recursive %}{{ x }}{% if loop.depth < 3 %}{{ loop([x]) }}{% endif %}{% endfor %}",
		"333111"},
};

START_TEST(own_ways)
{
	expect_text(own_cases[_i].template, own_cases[_i].text);
}
END_TEST

/* ---- Errors ---- */

static const struct {
	const char *template, *message;
} error_cases[] = {
	{"a\nb\n{{ x.y.z }}", "t:3: 'x' is undefined"},
	{"{% for m in [1,2] %}\n{{ m.a.b }}{% endfor %}", "t:2: 'int object' has no attribute 'a'"},
	{"{{ none.x.y }}", "t:1: None has no attribute 'x'"},
	{"\n\n{{ raise_exception('Roles\nmust alternate') }}", "t:3: Roles\nmust alternate"},
	{"\n{{ 1 +\n }}", "t:3: expected an expression, found '}}'"},
	{"\n{% if x %}\n\n", "t:3: the template ends, expected {% elif %}"},
	{"\n{% endfor %}", "t:2: the tag 'endfor' is not known here"},
	{"\n{{ 'a\n", "t:2: a string has no end"},
	{"\n{{ a\n", "t:2: a tag has no end: expected }}"},
	{"\n{# a", "t:2: a comment has no end"},
	{"{{ (1] }}", "t:1: unexpected ']'"},
	{"{{ 1 $ }}", "t:1: unexpected character '$'"},
	{"\n{{ 1|nosuch }}", "t:2: no filter is named 'nosuch'"},
	{"\n{{ 1 is nosuch }}", "t:2: no test is named 'nosuch'"},
	{"{% if true %}\n{{ 1|nosuch }}{% endif %}", "t:2: no filter is named 'nosuch'"},
	{"{% break %}", "t:1: 'break' outside of a loop"},
	{"{% for x in [1] %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}",
		"t:1: 'continue' outside of a loop"},
	{"{% macro m(a) %}{% endmacro %}\n{{ m(1, 2) }}", "t:2: macro 'm' takes not more than 1 argument(s)"},
	{"{{ 'a'.replace('b') }}", "t:1: replace(): the argument 'new' is missing"},
	{"{{ 'a'|replace('a', 'b', 1, 2) }}", "t:1: replace() takes at most 3 argument(s), 4 were given"},
	{"{{ 'a'.split(separator=' ') }}", "t:1: split() takes no such keyword argument"},
	{"{{ [1].sort() }}", "t:1: sort() of a list changes it: not allowed"},
	{"{{ 1 + 'a' }}", "t:1: unsupported operand type(s) for +: 'int' and 'str'"},
	{"{{ 9223372036854775807 + 1 }}", "t:1: the result of + does not fit in 64 bits"},
	{"{{ '\\xzz' }}", "t:1: a string holds an escape that is no character"},
	{"{% include 'other' %}", "t:1: the tag 'include' is not known here"},
	{"\xff", "t: the template is not UTF-8"},
};

START_TEST(errors_name_line_and_cause)
{
	expect_refusal(error_cases[_i].template, error_cases[_i].message);
}
END_TEST

/* ---- Bounds ---- */

static const struct {
	const char *template, *message;
} bound_cases[] = {
	{"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", "works for too long"},
	{"{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
		"works for too long"},
	{"{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(0) }}", "nested too deeply"},
	{"{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}", "nested too deeply"},
	{"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "nested too deeply"},
	{"{{ 'a' * 100000000 }}", "longer than 32 MiB"},
	{"{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"longer than 32 MiB"},
	{"{% for i in range(100) %}{{ 'a' * 1000000 }}{% endfor %}", "longer than 32 MiB"},
	{"{{ [0] * 1000000000 }}", "too long"},
	{"{{ 'a'.center(1000000000) }}", "longer than 32 MiB"},
	{"{{ '%1000000000d' % 5 }}", "width"},
	{"{{ '{:1000000000}'.format('a') }}", "width"},
	{"{{ ('a' * 1000000)|replace('a', 'b' * 1000000) }}", "longer than 32 MiB"},
	{"{{ range(1000000)|list }}", "range too big"},
	{"{{ 10 ** 1000000 }}", "64 bits"},
	{"{% set s = 'a' * 10000000 %}{% for i in range(100000) %}{% set x = s.startswith(s) %}{% endfor %}",
		"too long"},
	{"{% set s = 'a' * 10000000 %}{% for i in range(100000) %}{% set x = s[9999999] %}{% endfor %}", "too long"},
	{"{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "nested too deeply"},
	{"{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}", "nested too deeply"},
	{"{% set d = {} %}{% set _ = d.update({'d': d}) %}{{ d == d.copy() }}{{ d|string }}", "nested too deeply"},
	{"{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
		"too long"},
};

START_TEST(what_runs_on_is_ended)
{
	expect_refusal(bound_cases[_i].template, bound_cases[_i].message);
}
END_TEST

static const struct {
	const char *opening, *inside, *closing;
	int times;
	const char *message; /* NULL: it renders */
} nested_sources[] = {
	{"(", "1", ")", 150, NULL},
	{"(", "1", ")", 100000, "nested too deeply"},
	{"[", "", "]", 100000, "nested too deeply"},
	{"not ", "1", "", 100000, "nested too deeply"},
	{"-", "1", "", 100000, "nested too deeply"},
	{"1+", "1", "", 500, NULL},
	{"1+", "1", "", 100000, "nested too deeply"},
	{"1~", "1", "", 100000, NULL},
	{"1 if 0 else ", "2", "", 20000, "nested too deeply"},
	{"", "a", ".a", 100000, "nested too deeply"},
	{"", "1", "|string", 100000, "nested too deeply"},
	{"1,", "1", "", 100000, NULL},
};

START_TEST(deep_sources_are_refused)
{
	struct buf template = {0}, out = {0};
	buf_append_text(&template, "{{ ");
	for (int i = 0; i < nested_sources[_i].times; i++)
		buf_append_text(&template, nested_sources[_i].opening);
	buf_append_text(&template, nested_sources[_i].inside);
	for (int i = 0; i < nested_sources[_i].times; i++)
		buf_append_text(&template, nested_sources[_i].closing);
	buf_append_text(&template, " }}");
	if (nested_sources[_i].message)
		expect_refusal(buf_text(&template), nested_sources[_i].message);
	else
		ck_assert_msg(render(buf_text(&template), &out) == 0, "%s", test_error.message);
	buf_free(&template);
	buf_free(&out);
}
END_TEST

START_TEST(long_sources_are_refused)
{
	struct buf template = {0};
	for (int i = 0; i < (1 << 20) + 1; i++)
		buf_append_char(&template, 'a');
	expect_refusal(buf_text(&template), "expected at most 1048576");
	buf_clear(&template);
	for (int i = 0; i < 20000; i++)
		buf_append_text(&template, "{% if 1 %}");
	expect_refusal(buf_text(&template), "nested too deeply");
	buf_free(&template);
}
END_TEST

/* ---- Dates ---- */

/* datetime(2025, 2, 1, 14, 5, 9).strftime(format), CPython 3.11.7 with glibc. */
static const struct {
	const char *format, *text;
} date_cases[] = {
	{"%d %b %Y", "01 Feb 2025"},
	{"%A, %B %d, %y", "Saturday, February 01, 25"},
	{"%a %e %-d %-m/%m %j", "Sat  1 1 2/02 032"},
	{"%H:%M:%S %I %p %-I %l", "14:05:09 02 PM 2  2"},
	{"%F %T %R %D %x %X", "2025-02-01 14:05:09 14:05 02/01/25 02/01/25 14:05:09"},
	{"%c", "Sat Feb  1 14:05:09 2025"},
	{"%U %W %V %G %g %u %w %C", "04 04 05 2025 25 6 6 20"},
	{"%f|%z|%Z|%%|%n|%t|", "000000|||%|\n|\t|"},
	{"100%", "100%"},
	{"%Q %_d %0e", "%Q  1 01"},
	{"", ""},
};

START_TEST(dates_are_english)
{
	struct tm t = the_date();
	struct buf out = {0};
	jinja_strftime(&t, str_of(date_cases[_i].format), &out);
	ck_assert_str_eq(buf_text(&out), date_cases[_i].text);
	buf_free(&out);
}
END_TEST

/* date.isocalendar() and strftime("%U %W") at the ends of years, CPython 3.11.7. */
static const struct {
	int year, month, day;
	const char *text;
} week_cases[] = {
	{2024, 12, 30, "2025-01-1 52 53"},
	{2021, 1, 3, "2020-53-7 01 00"},
	{2020, 12, 31, "2020-53-4 52 52"},
	{2023, 1, 1, "2022-52-7 01 00"},
	{2024, 2, 29, "2024-09-4 08 09"},
};

START_TEST(weeks_at_the_ends_of_years)
{
	struct tm t = {.tm_year = week_cases[_i].year - 1900,
		.tm_mon = week_cases[_i].month - 1,
		.tm_mday = week_cases[_i].day};
	struct buf out = {0};
	(void)timegm(&t);
	jinja_strftime(&t, str_of("%G-%V-%u %U %W"), &out);
	ck_assert_str_eq(buf_text(&out), week_cases[_i].text);
	buf_free(&out);
}
END_TEST

START_TEST(asking_for_the_date_is_noted)
{
	static const char *const templates[] = {
		"{{ strftime_now('%Y') }}", "{% if strftime_now is defined %}y{% endif %}"};
	for (int i = 0; i < 2; i++) {
		struct jinja *jinja;
		struct jinja_context context = {.now = the_date()};
		struct buf out = {0};
		bool asked = i == 1;
		CHECK_OK(jinja_new(str_of(templates[i]), "t", &jinja, &test_error));
		CHECK_OK(jinja_render(jinja, &context, &asked, &out, &test_error));
		ck_assert_str_eq(buf_text(&out), i == 0 ? "2025" : "y");
		ck_assert_int_eq(asked, i == 0);
		buf_free(&out);
		jinja_delete(jinja);
	}
}
END_TEST

/* ---- Case, arena ---- */

typedef void change_case(struct str, struct buf *);

START_TEST(letters_change_as_in_python)
{
	static const struct {
		const char *name;
		change_case *change;
	} methods[] = {{"upper", python_upper}, {"lower", python_lower}, {"title", python_title},
		{"capitalize", python_capitalize}, {"swapcase", python_swapcase}};
	struct records cases;
	CHECK_OK(records_load(&cases, golden_path("jinja/case.jsonl"), &test_error));
	ck_assert_uint_gt(cases.count, 10);
	for (size_t i = 1; i < cases.count; i++) {
		struct str input = json_get(cases.items[i].doc, "input")->text;
		for (int m = 0; m < COUNT(methods); m++) {
			struct buf out = {0};
			methods[m].change(input, &out);
			ck_assert_msg(str_equal(json_get(cases.items[i].doc, methods[m].name)->text, buf_str(&out)),
				"%s of '%s': '%s'", methods[m].name, input.data, buf_text(&out));
			buf_free(&out);
		}
		for (int m = 0; m < 3; m++) {
			static const char *const tests[] = {"isupper", "islower", "istitle"};
			char template[64];
			struct buf out = {0};
			snprintf(template, sizeof template, "{{ input.%s() }}", tests[m]);
			ck_assert_int_eq(render_with(str_of(template), cases.items[i].doc, &out), 0);
			bool holds = json_bool(json_get(cases.items[i].doc, tests[m]), false);
			ck_assert_msg(strcmp(buf_text(&out), holds ? "True" : "False") == 0, "'%s'.%s()", input.data,
				tests[m]);
			buf_free(&out);
		}
	}
	records_free(&cases);
}
END_TEST

START_TEST(an_arena_is_bounded)
{
	struct arena a = {.limit = 100000};
	ck_assert_ptr_null(arena_alloc(&a, 100001));
	ck_assert_ptr_null(arena_alloc(&a, SIZE_MAX));
	char *last = NULL;
	size_t got = 0;
	for (char *memory; (memory = arena_alloc(&a, 1000)) != NULL; last = memory, got += 1000) {
		ck_assert_uint_eq((uintptr_t)memory % 16, 0);
		ck_assert_int_eq(memory[0] + memory[999], 0);
		memset(memory, 1, 1000);
		ck_assert_ptr_ne(memory, last);
	}
	ck_assert_uint_gt(got, 90000);
	ck_assert_uint_le(got, 100000);
	arena_free(&a);
	ck_assert_ptr_nonnull(arena_alloc(&a, 0));
	arena_free(&a);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *reference = test_case(suite, "reference", 60);
	tcase_add_test(reference, templates_render_as_in_the_reference);
	tcase_add_test(reference, conversations_render_as_in_the_reference);
	tcase_add_test(reference, published_templates_render_as_in_transformers);
	tcase_add_loop_test(reference, cases_from_the_field, 0, COUNT(trials));
	tcase_add_loop_test(reference, own_ways, 0, COUNT(own_cases));
	TCase *refusals = test_case(suite, "refusals", 60);
	tcase_add_loop_test(refusals, errors_name_line_and_cause, 0, COUNT(error_cases));
	tcase_add_loop_test(refusals, what_runs_on_is_ended, 0, COUNT(bound_cases));
	tcase_add_loop_test(refusals, deep_sources_are_refused, 0, COUNT(nested_sources));
	tcase_add_test(refusals, long_sources_are_refused);
	TCase *parts = test_case(suite, "parts", 0);
	tcase_add_loop_test(parts, dates_are_english, 0, COUNT(date_cases));
	tcase_add_loop_test(parts, weeks_at_the_ends_of_years, 0, COUNT(week_cases));
	tcase_add_test(parts, asking_for_the_date_is_noted);
	tcase_add_test(parts, letters_change_as_in_python);
	tcase_add_test(parts, an_arena_is_bounded);
}
