/* What a report is made of: escaping, tables, pivots, plots, and the page over answers that try to break it. */
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/json_strict.h"
#include "reports/html.h"
#include "reports/pivot.h"
#include "reports/plot.h"
#include "reports/report_faults.h"
#include "reports/report_html.h"
#include "reports/report_overhead.h"
#include "reports/report_tables.h"
#include "tests/store_fixture.h"

const char *const test_program_name = "report";

/* ---- Text ---- */

#define S(literal)                           \
	{                                    \
		literal, sizeof(literal) - 1 \
	}

static const struct {
	struct str text;
	const char *html, *markdown;
} texts[] = {
	{S(""), "", ""},
	{S("plain Việt 😀"), "plain Việt 😀", "plain Việt 😀"},
	{S("<b>&\"'`"), "&lt;b&gt;&amp;&quot;&#39;&#96;", "&#60;b&#62;&#38;\"'&#96;"},
	{S("a|b*_[x](y)~#@\\"), "a|b*_[x](y)~#@\\", "a&#124;b&#42;&#95;&#91;x&#93;(y)&#126;&#35;&#64;&#92;"},
	{S("a\nb\tc\r\x01\x1b[m\x7f\0z"), "a\nb\tc\\x0d\\x01\\x1b[m\\x7f\\x00z", "a b c   &#91;m  z"},
	{S("\xc2\x85\xe2\x80\xae\xe2\x81\xa6\xef\xbb\xbf\xef\xbf\xbe\xe2\x80\xa8"),
		"\\x85\\u202e\\u2066\\ufeff\\ufffe\\u2028", " \xe2\x80\xae\xe2\x81\xa6\xef\xbb\xbf\xef\xbf\xbe "},
	{S("\xff\xc3(\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
		"\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
	{S("]]></script><!--"), "]]&gt;&lt;/script&gt;&lt;!--", "&#93;&#93;&#62;&#60;/script&#62;&#60;!--"},
};

START_TEST(texts_are_escaped)
{
	struct buf html = {0}, markdown = {0};
	html_text(&html, texts[_i].text);
	markdown_text(&markdown, texts[_i].text);
	ck_assert_str_eq(buf_text(&html), texts[_i].html);
	ck_assert_str_eq(buf_text(&markdown), texts[_i].markdown);
	buf_free(&html);
	buf_free(&markdown);
}
END_TEST

START_TEST(long_texts_are_cut)
{
	struct buf out = {0};
	html_text_cut(&out, STR("äöü"), 3);
	ck_assert_str_eq(buf_text(&out), "äö<span class=\"cut\"> … 2 bytes more</span>");
	buf_clear(&out);
	html_text_cut(&out, STR("abc"), 3);
	ck_assert_str_eq(buf_text(&out), "abc");
	buf_free(&out);
}
END_TEST

/* ---- Tables ---- */

static struct report_table *small_table(struct table_list *list)
{
	struct report_table *t = table_list_add(list, "small", "A small table", &test_error);
	ck_assert_ptr_nonnull(t);
	table_text_column(t, "name");
	table_number_column(t, "n");
	table_number_column(t, "value");
	table_number_column(t, "share");
	table_text(t, "a|\"<\n");
	table_int(t, INT64_C(9007199254740991));
	table_number(t, 0.1, 2);
	table_percent(t, 0.125, 1);
	table_text(t, NULL);
	table_int(t, -1);
	table_number(t, (double)NAN, 2);
	table_percent(t, -0.00001, 1);
	table_str(t, (struct str){"\0", 1});
	table_int(t, 0);
	table_number(t, (double)INFINITY, 2);
	table_percent(t, 1, 0);
	buf_append_text(&t->note, "A note.");
	return t;
}

START_TEST(tables_are_written)
{
	struct table_list list = {0};
	struct buf out = {0};
	struct report_table *t = small_table(&list);
	CHECK_OK(table_list_check(&list, &test_error));
	ck_assert_uint_eq(table_rows(t), 3);
	table_markdown(t, &out);
	ck_assert_str_eq(buf_text(&out),
		"### A small table\n\n| name | n | value | share |\n| --- | ---: | ---: | ---: |\n"
		"| a&#124;\"&#60;  | 9007199254740991 | 0.10 | 12.5 |\n|  | -1 | – | 0.0 |\n|   | 0 | ∞ | 100 |\n\nA "
		"note.\n\n");
	buf_clear(&out);
	table_csv_header(&out);
	table_csv(t, "x,y", &out);
	ck_assert_str_eq(buf_text(&out),
		"table,subject,row,column,value\r\n"
		"small,\"x,y\",1,\"name\",\"a|\"\"<\n\"\r\nsmall,\"x,y\",1,\"n\",9007199254740991\r\n"
		"small,\"x,y\",1,\"value\",0.1\r\nsmall,\"x,y\",1,\"share\",0.125\r\n"
		"small,\"x,y\",2,\"name\",\"\"\r\nsmall,\"x,y\",2,\"n\",-1\r\n"
		"small,\"x,y\",2,\"value\",\r\nsmall,\"x,y\",2,\"share\",-1e-05\r\n"
		"small,\"x,y\",3,\"name\",\"\xef\xbf\xbd\"\r\nsmall,\"x,y\",3,\"n\",0\r\n"
		"small,\"x,y\",3,\"value\",inf\r\nsmall,\"x,y\",3,\"share\",1.0\r\n");
	buf_clear(&out);
	html_table(&out, t);
	ck_assert_ptr_nonnull(
		strstr(buf_text(&out), "<th scope=\"row\">a|&quot;&lt;\n</th><td class=\"n\">9007199254740991</td>"));
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "<div class=\"scroll\" tabindex=\"0\" role=\"region\""));
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "<p class=\"note\">A note.</p>"));
	table_list_free(&list);
	buf_free(&out);
}
END_TEST

START_TEST(empty_tables_are_left_out)
{
	struct table_list list = {0};
	struct buf out = {0};
	struct report_table *t = table_list_add(&list, "none", "None", &test_error);
	table_text_column(t, "name");
	html_table(&out, t);
	ck_assert_uint_eq(out.length, 0);
	table_list_free(&list);
}
END_TEST

START_TEST(pivots)
{
	static const char *const names[] = {"concurrency", "weights"};
	struct pivot p = {.n_keys = 2};
	struct table_list list = {0};
	struct buf out = {0};
	pivot_add(&p, (const char *const[]){"8", "int4"}, "bf16", 1);
	pivot_add(&p, (const char *const[]){"8", "int4"}, "fp8", 2);
	pivot_add(&p, (const char *const[]){"16", "int4"}, "fp8", 3);
	pivot_add(&p, (const char *const[]){"8", "int4"}, "bf16", 4); /* in place of the first */
	ck_assert_uint_eq(pivot_columns(&p), 2);
	struct report_table *t = table_list_add(&list, "p", "P", &test_error);
	CHECK_OK(pivot_table(&p, names, 1, t, &test_error));
	table_markdown(t, &out);
	ck_assert_str_eq(buf_text(&out),
		"### P\n\n| concurrency | weights | bf16 | fp8 |\n| --- | --- | ---: | ---: |\n"
		"| 8 | int4 | 4.0 | 2.0 |\n| 16 | int4 | – | 3.0 |\n\n");
	pivot_free(&p);
	table_list_free(&list);
	buf_free(&out);
}
END_TEST

START_TEST(pivots_with_too_many_columns)
{
	static const char *const names[] = {"k"};
	struct pivot p = {.n_keys = 1};
	struct table_list list = {0};
	for (int i = 0; i < 60; i++) {
		char column[16];
		snprintf(column, sizeof(column), "c%d", i);
		pivot_add(&p, (const char *const[]){"x"}, column, i);
	}
	struct report_table *t = table_list_add(&list, "p", "P", &test_error);
	CHECK_OK(pivot_table(&p, names, 0, t, &test_error));
	ck_assert_int_eq(t->n_columns, TABLE_MAX_COLUMNS);
	ck_assert_ptr_nonnull(strstr(buf_text(&t->note), "left out for room: 21"));
	CHECK_OK(table_list_check(&list, &test_error));
	pivot_free(&p);
	table_list_free(&list);
}
END_TEST

/* ---- Runs that try to break things ---- */

#define EVIL_NAME "e'`touch x`\"<script>\nEOD\nsystem \"touch x\"\n|"

/* Every way of writing that some format gives a meaning. */
static const char *const evil[] = {
	"</pre></details></section></main><script>alert(1)</script><img src=x onerror=alert(2)>",
	"\"'`$(touch x)`touch x`\\\n| a | b |\n]]>-->&amp;&lt;<!--",
	"\x01\x02\x08\x0b\x1b[31m\x7f\xc2\x85\xe2\x80\xae",
	"",
};
enum { EVILS = 4, EVIL_ITEMS = 24, LONG_ITEM = 20, LONG_BYTES = 1 << 20 };

static void evil_answer(struct store *s, int64_t variant, int i, bool right)
{
	struct store_sample x = fixture_sample(variant, i);
	struct buf said = {0}, response = {0}, filtered = {0}, metrics = {0};
	if (i == LONG_ITEM)
		for (int j = 0; j < LONG_BYTES / 4; j++)
			buf_append_text(&said, right ? "<i>\n" : "<b>\n");
	else
		buf_append_text(&said, evil[i % EVILS]);
	buf_append_text(&said, right ? "1" : "2");
	json_write_string(buf_str(&said), false, &response);
	buf_append_text(&filtered, "{\"none\": ");
	json_write_string(buf_str(&said), false, &filtered);
	buf_append_char(&filtered, '}');
	buf_printf(&metrics, "{\"exact_match,none\": %d.0}", right);
	x.suite = x.task = EVIL_NAME;
	x.response = buf_str(&response);
	x.filtered = buf_str(&filtered);
	x.metrics = buf_str(&metrics);
	x.finish_reason = "</p><script>`x`";
	x.tokens = right ? STR("[1, 2, 3]") : STR("[1, 4]");
	x.token_logprobs = right ? STR("[-0.5, -0.25, -1.0]") : STR("[-0.5, -0.75]");
	CHECK_OK(store_sample_insert(s, &x, &test_error));
	buf_free(&said);
	buf_free(&response);
	buf_free(&filtered);
	buf_free(&metrics);
}

static int64_t evil_variant(struct store *s, const char *name)
{
	struct store_variant v = fixture_variant(name);
	int64_t id = 0;
	v.facts = STR("{\"<script>\": \"</td>\"}");
	CHECK_OK(store_variant_add(s, &v, &id, &test_error));
	return id;
}

static void evil_measurement(struct store *s, int64_t variant, int concurrency, double speed)
{
	struct store_measurement m = {.variant_id = variant,
		.arm = "<none>`",
		.phase = "decode",
		.concurrency = concurrency,
		.input_tokens = 512,
		.output_tokens = 512,
		.tokens_per_s = speed,
		.ttft_ms = STR("{\"mean\": 1, \"median\": 2, \"p95\": 3, \"p99\": 4}"),
		.share_of_floor = 0.5,
		.guard_us_per_step = (double)NAN,
		.step_us = (double)NAN,
		.detail = STR("{}")};
	CHECK_OK(store_measurement_put(s, &m, &test_error));
}

static const char *evil_store(void)
{
	static char path[4096];
	snprintf(path, sizeof(path), "%s", fixture_path("evil.db"));
	struct store *s = fixture_open(path);
	struct store_run run = fixture_run("c");
	int64_t run_id = 0;
	bool resumed = false;
	run.model = "/m/<script>alert(4)</script>\x1b[m";
	run.command = "run </td></tr></table><script>";
	run.provenance = STR("{\"</th><script>\": {\"a\": [\"<b>\", null, true, 5]}}");
	CHECK_OK(store_run_begin(s, &run, &run_id, &resumed, &test_error));
	int64_t base = evil_variant(s, "bf16/bf16"), other = evil_variant(s, EVIL_NAME "/fp8");
	for (int i = 0; i < EVIL_ITEMS; i++) {
		evil_answer(s, base, i, true);
		evil_answer(s, other, i, i % 5 != 0);
	}
	for (int i = 1; i <= 4; i *= 2) {
		evil_measurement(s, base, i, 100 * i);
		evil_measurement(s, other, i, 90 * i);
	}
	CHECK_OK(store_run_finish(s, RUN_COMPLETE, &test_error));
	store_close(s);
	return path;
}

struct evil_report {
	struct report_data data;
	struct pairing pairing;
	struct policy policy;
	struct verdict verdict;
};

static void evil_load(struct evil_report *r)
{
	struct answers baseline = {0}, candidate = {0};
	const char *path = evil_store();
	struct store *s = NULL;
	*r = (struct evil_report){0};
	CHECK_OK(store_open_reading(path, &s, &test_error));
	CHECK_OK(report_data_add(&r->data, s, 1, &test_error));
	store_close(s);
	CHECK_OK(answers_load("1:bf16/bf16", path, &baseline, &test_error));
	CHECK_OK(answers_load("1:" EVIL_NAME "/fp8", path, &candidate, &test_error));
	CHECK_OK(report_data_add_answers(&r->data, &baseline, &test_error));
	ck_assert_uint_eq(r->data.n_runs, 1); /* it is there already */
	CHECK_OK(pairing_make(&baseline, &candidate, NULL, 0, NULL, &r->pairing, &test_error));
	policy_init(&r->policy);
	CHECK_OK(verdict_make(&r->pairing, &r->policy, &r->verdict, &test_error));
}

static void evil_free(struct evil_report *r)
{
	verdict_free(&r->verdict);
	policy_free(&r->policy);
	pairing_free(&r->pairing);
	report_data_free(&r->data);
}

/* ---- The page ---- */

/* Reads the tags of a page: every one that is opened is closed in order, none has a name that is not ours. */
static void check_tags(struct str page)
{
	static const char *const empty[] = {"meta", "img", "!DOCTYPE", NULL};
	static const char *const known[] = {"html", "head", "title", "style", "body", "header", "h1", "h2", "h3", "nav",
		"ul", "li", "a", "main", "section", "div", "p", "span", "strong", "code", "table", "caption", "thead",
		"tbody", "tr", "th", "td", "figure", "figcaption", "details", "summary", "pre", "ins", "del", NULL};
	char stack[64][16];
	int depth = 0;
	for (size_t at = 0; (at = str_find(page, STR("<"), at)) != SIZE_MAX;) {
		bool closing = page.data[++at] == '/';
		char name[16] = "";
		size_t length = 0;
		at += closing;
		while (length < sizeof(name) - 1 && at + length < page.length &&
			!strchr(" >\n", page.data[at + length]))
			length++;
		memcpy(name, page.data + at, length);
		bool is_empty = false, is_known = false;
		for (int i = 0; empty[i]; i++)
			is_empty = is_empty || strcmp(empty[i], name) == 0;
		for (int i = 0; known[i]; i++)
			is_known = is_known || strcmp(known[i], name) == 0;
		ck_assert_msg(is_empty || is_known, "a tag '%s' at %zu", name, at);
		if (is_empty)
			continue;
		if (closing)
			ck_assert_msg(depth > 0 && strcmp(stack[--depth], name) == 0,
				"</%s> at %zu does not close <%s>", name, at, stack[depth > 0 ? depth : 0]);
		else
			snprintf(stack[depth++], sizeof(stack[0]), "%s", name);
		ck_assert_int_lt(depth, 63);
	}
	ck_assert_int_eq(depth, 0);
}

static bool find_nothing(
	void *context, const struct answers *side, const struct store_sample *sample, struct report_item *out)
{
	(void)side;
	++*(int *)context;
	out->prompt = STR("Is <b> `x`?");
	out->gold = STR("<i>");
	return sample->doc_id != 0;
}

START_TEST(page_holds)
{
	struct evil_report r;
	struct buf out = {0};
	int found = 0;
	evil_load(&r);
	const struct verdict *verdicts[] = {&r.verdict};
	static const char *const notes[] = {"</p><script>"};
	const struct report_page page = {.title = "<title> & \"more\"",
		.verdicts = verdicts,
		.n_verdicts = 1,
		.data = &r.data,
		.notes = notes,
		.n_notes = 1,
		.find_item = find_nothing,
		.find_context = &found};
	CHECK_OK(report_html_write(&page, &out, &test_error));
	check_tags(buf_str(&out));
	for (size_t i = 0; i < out.length; i++)
		ck_assert_msg((unsigned char)out.data[i] >= 0x20 || strchr("\n\t", out.data[i]), "byte %d at %zu",
			out.data[i], i);
	ck_assert_ptr_null(strstr(buf_text(&out), "http://"));
	ck_assert_ptr_null(strstr(buf_text(&out), "https://"));
	ck_assert_int_eq(found, 5);
	const char *const says[] = {
		"▼ lost:", "First different token: number 2 (2 and 4), log-probabilities -0.250 and -0.750.",
		"<strong>Right answer</strong>: &lt;i&gt;", "Is &lt;b&gt; &#96;x&#96;?", "(cut: 1048577 bytes in all)",
		"alert(1)", "run &lt;/td&gt;&lt;/tr&gt;&lt;/table&gt;&lt;script&gt;"};
	for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++)
		ck_assert_msg(strstr(buf_text(&out), says[i]) != NULL, "the page lacks '%s'", says[i]);
	ck_assert_msg(out.length < 1 << 20, "%zu bytes: answers are not cut", out.length);
	buf_free(&out);
	evil_free(&r);
}
END_TEST

/* ---- Plots ---- */

/* Only numbers and harmless labels, and each block of data ends where it should. */
static void check_script(const struct plot *p)
{
	const char *script = buf_text(&p->script);
	ck_assert_uint_gt(p->script.length, 0);
	ck_assert_uint_gt(p->alternative.length, 0);
	ck_assert_ptr_null(strchr(script, '`'));
	ck_assert_ptr_null(strchr(script, '!'));
	ck_assert_ptr_null(strchr(script, '|'));
	int begins = 0, ends = 0;
	for (const char *at = script; (at = strstr(at, "EOD\n")); at++)
		(at > script && at[-1] == '\n') ? ends++ : begins++;
	ck_assert_int_eq(begins, ends);
	ck_assert_int_gt(begins, 0);
}

START_TEST(scripts_hold)
{
	struct evil_report r;
	struct plot p = {0};
	evil_load(&r);
	CHECK_OK(plot_forest(&r.verdict, &p, &test_error));
	check_script(&p);
	plot_free(&p);
	CHECK_OK(plot_throughput(&r.data, "decode", &p, &test_error));
	check_script(&p);
	/* 4096 tokens of cache hold four requests of 1024. */
	ck_assert_ptr_nonnull(strstr(buf_text(&p.script), "set label 'cache full' at 4,"));
	plot_free(&p);
	CHECK_OK(plot_throughput(&r.data, "prefill", &p, &test_error));
	ck_assert_uint_eq(p.script.length, 0);
	CHECK_OK(plot_latency(&r.data.runs[0], &p, &test_error));
	check_script(&p);
	plot_free(&p);
	CHECK_OK(plot_margins(&r.verdict, &p, &test_error)); /* no multiple choice */
	ck_assert_uint_eq(p.script.length, 0);
	evil_free(&r);
}
END_TEST

START_TEST(labels)
{
	static const char *const cases[][2] = {{"int4/fp8>bf16/bf16", "int4/fp8>bf16/bf16"},
		{"a'b\"c`d\\e\nf$g(h)", "a?b?c?d?e?f?g(h)"}, {"é", "??"}, {"", ""},
		{"0123456789012345678901234567890123456789abc", "0123456789012345678901234567890123456789"}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf out = {0};
		plot_label(&out, cases[i][0]);
		ck_assert_str_eq(buf_text(&out), cases[i][1]);
		buf_free(&out);
	}
}
END_TEST

static void small_plot(struct plot *p, const char *script)
{
	*p = (struct plot){0};
	buf_append_text(&p->script, script);
}

START_TEST(without_gnuplot)
{
	struct plot p;
	struct buf out = {0};
	small_plot(&p, "set terminal svg\nplot x\n");
	setenv("PATH", scratch_folder(), 1);
	CHECK_OK(plot_draw(&p, &out, &test_error));
	ck_assert_uint_eq(out.length, 0);
	plot_free(&p);
}
END_TEST

START_TEST(with_gnuplot)
{
	struct plot p;
	struct buf out = {0};
	signal(SIGPIPE, SIG_IGN);
	if (access("/usr/bin/gnuplot", X_OK) != 0)
		SKIP("gnuplot is not installed");
	small_plot(&p, "set terminal svg\nplot x\n");
	CHECK_OK(plot_draw(&p, &out, &test_error));
	ck_assert_msg(out.length > 100 && strncmp(buf_text(&out), "<svg", 4) == 0 &&
			strcmp(buf_text(&out) + out.length - 6, "</svg>") == 0,
		"%.200s", buf_text(&out));
	plot_free(&p);
	buf_free(&out);

	/* What it cannot draw, or what ends early, is no picture and no failure. */
	small_plot(&p, "set terminal svg\nplot nonsense(\n");
	CHECK_OK(plot_draw(&p, &out, &test_error));
	ck_assert_uint_eq(out.length, 0);
	for (int i = 0; i < 200000; i++)
		buf_append_text(&p.script, "# a script that is longer than a pipe holds\n");
	CHECK_OK(plot_draw(&p, &out, &test_error));
	ck_assert_uint_eq(out.length, 0);
	plot_free(&p);
}
END_TEST

/* ---- Overhead ---- */

/* Eight blocks of three arms. */
static void overhead_put(struct store *s, int64_t variant)
{
	static const double off[] = {1012, 998, 1005, 1010, 995, 1003, 1008, 999};
	static const double on[] = {1001, 990, 996, 1004, 985, 995, 997, 991};
	static const double again[] = {1011, 999, 1004, 1011, 994, 1004, 1007, 1000};
	static const struct {
		const char *arm;
		const double *tokens_per_s;
		double guard_us;
		const char *detail;
	} arms[] = {{"pages", on, 2.5, "{\"cpu_us_per_token\": 204, \"latencies_ms\": [103, 1.03]}"},
		{STORE_ARM_NONE, off, 0.5, "{\"cpu_us_per_token\": 200, \"latencies_ms\": [100, 1]}"},
		{STORE_ARM_NULL, again, 0.5, "{}"}};

	for (int i = 0; i < 24; i++) {
		struct store_measurement m = {.variant_id = variant,
			.arm = arms[i % 3].arm,
			.block = i / 3 + 1,
			.phase = "decode",
			.concurrency = 8,
			.tokens_per_s = arms[i % 3].tokens_per_s[i / 3],
			.share_of_floor = (double)NAN,
			.guard_us_per_step = i < 3 ? 99 : arms[i % 3].guard_us, /* a block that had to wait */
			.step_us = 1000,
			.detail = str_of(arms[i % 3].detail)};
		CHECK_OK(store_measurement_put(s, &m, &test_error));
	}
}

START_TEST(overhead)
{
	const char *path = fixture_path("x.db");
	struct store *s = fixture_open(path);
	int64_t run_id = fixture_begin(s, "c", false), variant = fixture_add_variant(s, "bf16/bf16");
	overhead_put(s, variant);
	struct report_data data = {0};
	struct table_list list = {0};
	struct buf out = {0};
	CHECK_OK(report_data_add(&data, s, run_id, &test_error));
	CHECK_OK(report_overhead_table(&data, &list, &test_error));
	table_csv(list.tables[0], "", &out);
	/* By Assay's own test vectors of STATISTICS: ratio .9911576572558158 (.9897311389181989, .9925862316614774). */
	ck_assert_uint_eq(table_rows(list.tables[0]), 2);
	ck_assert_msg(strstr(buf_text(&out), "\"overhead\",0.00884234274418") != NULL, "%s", buf_text(&out));
	ck_assert_msg(strstr(buf_text(&out), "\"low\",0.0074137683385") != NULL, "%s", buf_text(&out));
	ck_assert_msg(strstr(buf_text(&out), "\"high\",0.0102688610818") != NULL, "%s", buf_text(&out));
	ck_assert_msg(strstr(buf_text(&out), "\"budget\",\"open\"") != NULL, "%s", buf_text(&out));
	/* The A/A arm first, then its interval (SciPy 1.10's t) beside the arm that it belongs to. */
	const char *null = strstr(buf_text(&out), "\"guard\",\"none (A/A)\""),
		   *arm = strstr(buf_text(&out), "\"guard\",\"pages\"");
	ck_assert(null && arm && null < arm);
	ck_assert_msg(strstr(arm, "\"A/A low\",-0.0008915795442") != NULL, "%s", arm);
	ck_assert_msg(strstr(arm, "\"A/A high\",0.0008893149824") != NULL, "%s", arm);
	ck_assert_msg(strstr(arm, "\"CPU time\",0.02") != NULL, "%s", arm);
	ck_assert_msg(strstr(arm, "\"p95 latency\",0.03") != NULL, "%s", arm);
	ck_assert_msg(strstr(arm, "\"guard µs per step\",2.5") != NULL, "%s", arm);
	ck_assert_msg(strstr(arm, "\"guard\",0.0025") != NULL, "%s", arm);
	struct plot p = {0};
	CHECK_OK(plot_overhead(&data, &p, &test_error));
	ck_assert_msg(strstr(buf_text(&p.script), "\n1 0.88423427441") != NULL, "%s", buf_text(&p.script));
	ck_assert_msg(strstr(buf_text(&p.script), " -0.08915795442") != NULL, "%s", buf_text(&p.script));
	ck_assert_ptr_nonnull(strstr(buf_text(&p.script), "\"bf16/bf16 none (A/A) decode x8\"\n"));
	ck_assert_ptr_nonnull(strstr(buf_text(&p.alternative), ", A/A -0.09 to 0.09"));
	ck_assert_ptr_nonnull(strstr(buf_text(&p.script), "\"bf16/bf16 pages decode x8\"\nEOD\n"));
	plot_free(&p);
	table_list_free(&list);
	report_data_free(&data);
	buf_free(&out);
	store_close(s);
}
END_TEST

/* ---- Faults ---- */

/* One trial: what happened with nothing stopped, and at the level "pages". */
struct trial_rows {
	const char *site, *model, *observed, *enforced, *check;
};

static void trial_put(struct store *s, int64_t number, const struct trial_rows *t)
{
	struct store_fault_trial rows[2];
	for (int i = 0; i < 2; i++)
		rows[i] = (struct store_fault_trial){.trial = number,
			.mode = i ? "enforced" : "observed",
			.level = i ? "pages" : "digest",
			.variant = "bf16/bf16",
			.site = t->site,
			.model = t->model,
			.outcome = i ? t->enforced : t->observed,
			.replay = "x",
			.detail = STR("{}")};
	/* the same check fires twice: one trial */
	struct store_incident incidents[2];
	for (int i = 0; i < 2; i++)
		incidents[i] = (struct store_incident){.fault_trial_id = 1,
			.variant = "bf16/bf16",
			.time = 1,
			.check = t->check,
			.phase = "before_read",
			.page = -1,
			.logical = -1,
			.detail = STR("{}")};
	CHECK_OK(store_fault_trials_insert(s, rows, 2, incidents, t->check ? 2 : 0, &test_error));
}

START_TEST(faults)
{
	static const struct trial_rows trials[] = {
		{"slot.wrong_page", "M8", "leak", "detected", "write"},
		{"slot.wrong_page", "M8", "silent", "detected_late", "write"},
		{"slot.wrong_page", "M8", "masked", "benign", "tag"}, /* harmless: no evidence */
		{"pool.free.early", "M1", "silent", "detected", "tag"},
		{"table.row.swap", "M12", "not_activated", "not_activated", NULL},
		{"payload.bitflip", "M13", "silent", "silent", "digest"},
	};
	struct store *s = fixture_open(fixture_path("f.db"));
	int64_t run_id = fixture_begin(s, "c", false);
	struct report_data data = {0};
	struct table_list list = {0};
	struct buf out = {0};
	for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++)
		trial_put(s, (int64_t)i, &trials[i]);
	CHECK_OK(report_data_add(&data, s, run_id, &test_error));
	ck_assert(report_has_faults(&data));
	CHECK_OK(report_fault_outcomes_table(&data, &list, &test_error));
	CHECK_OK(report_fault_checks_table(&data.runs[0], &list, &test_error));
	/* M1, M8, M12, M13: in the order of numbers */
	ck_assert_uint_eq(table_rows(list.tables[0]), 4);
	table_csv(list.tables[0], "", &out);
	static const char *const says[] = {"1,\"model\",\"M1\"", "2,\"trials\",2", "2,\"detected\",1", "2,\"late\",1",
		"2,\"detected\",0.5", "2,\"low\",0.01257911709342", "3,\"trials\",0", "4,\"silent\",1"};
	for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++)
		ck_assert_msg(strstr(buf_text(&out), says[i]) != NULL, "%s is not in\n%s", says[i], buf_text(&out));
	buf_clear(&out);
	ck_assert_uint_eq(table_rows(list.tables[1]), 3);
	table_csv(list.tables[1], "", &out);
	ck_assert_msg(strstr(buf_text(&out), "2,\"write\",2") != NULL, "%s", buf_text(&out));
	ck_assert_msg(strstr(buf_text(&out), "2,\"tag\",0") != NULL, "%s", buf_text(&out));
	struct plot p = {0};
	CHECK_OK(plot_faults(&data.runs[0], &p, &test_error));
	ck_assert_msg(strstr(buf_text(&p.script), "$faults << EOD\n0 0 100.0\n1 1 100.0\n2 2 100.0\nEOD\n") != NULL,
		"%s", buf_text(&p.script));
	plot_free(&p);
	table_list_free(&list);
	report_data_free(&data);
	buf_free(&out);
	store_close(s);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *text = test_case(suite, "text", 0);
	tcase_add_loop_test(text, texts_are_escaped, 0, (int)(sizeof(texts) / sizeof(texts[0])));
	tcase_add_test(text, long_texts_are_cut);

	TCase *tables = test_case(suite, "tables", 0);
	tcase_add_test(tables, tables_are_written);
	tcase_add_test(tables, empty_tables_are_left_out);
	tcase_add_test(tables, pivots);
	tcase_add_test(tables, pivots_with_too_many_columns);
	tcase_add_test(tables, overhead);
	tcase_add_test(tables, faults);

	TCase *page = test_case(suite, "page", 120);
	tcase_add_test(page, page_holds);

	TCase *plots = test_case(suite, "plots", 60);
	tcase_add_test(plots, scripts_hold);
	tcase_add_test(plots, labels);
	tcase_add_test(plots, without_gnuplot);
	tcase_add_test(plots, with_gnuplot);
}
