#include "reports/junit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "engine/base/json_strict.h"
#include "engine/base/utf8.h"

enum { SHOWN_REGRESSIONS = 20, SHOWN_BYTES = 300 };

/* ---- XML ---- */

/* XML 1.0 has no way to write other characters, not even as references. */
static bool is_xml_character(int32_t c)
{
	return c == '\t' || c == '\n' || c == '\r' || (c >= 0x20 && c < 0xd800) || (c > 0xdfff && c < 0xfffe) ||
		(c > 0xffff && c <= 0x10ffff);
}

/* Escaped for an element's text; in an attribute line feeds and tabs are references, or they would become blanks. */
static void xml_text(struct buf *out, struct str s, bool attribute)
{
	for (size_t at = 0; at < s.length;) {
		int32_t c = utf8_next(s, &at);
		if (!is_xml_character(c))
			utf8_append(out, 0xfffd);
		else if (c == '<')
			buf_append_text(out, "&lt;");
		else if (c == '>')
			buf_append_text(out, "&gt;");
		else if (c == '&')
			buf_append_text(out, "&amp;");
		else if (c == '"')
			buf_append_text(out, "&quot;");
		else if (c == '\r' || (attribute && (c == '\n' || c == '\t')))
			buf_printf(out, "&#%d;", (int)c);
		else
			utf8_append(out, c);
	}
}

static void attribute(struct buf *out, const char *name, struct str value)
{
	buf_printf(out, " %s=\"", name);
	xml_text(out, value, true);
	buf_append_char(out, '"');
}

/* At most SHOWN_BYTES of a model's text, cut at a character's end. */
static void append_cut(struct buf *out, struct str text)
{
	struct str shown = {text.data, text.length > SHOWN_BYTES ? SHOWN_BYTES : text.length};
	shown.length = text.length > SHOWN_BYTES ? utf8_complete(shown) : shown.length;
	xml_text(out, shown, false);
	if (shown.length < text.length)
		buf_printf(out, " … (%zu bytes)", text.length);
}

/* ---- Cases ---- */

enum result { CASE_PASSED, CASE_FAILED, CASE_ERROR, CASE_SKIPPED, CASE_RESULTS };

struct test_case {
	struct buf classname, name;
	enum result result;
	struct buf message;
	const struct verdict *verdict;
	const struct comparison *comparison;
	size_t first_suite, n_suites; /* whose regressions a failure lists */
};

struct case_list {
	struct test_case *cases;
	size_t n;
	int64_t results[CASE_RESULTS];
};

/* A part of a classname: a dot would begin a new package. What XML cannot hold is replaced here already, so that names
 * are compared as they will stand there. */
static void append_part(struct buf *out, const char *text)
{
	struct str part = str_of(text);
	for (size_t at = 0; at < part.length;) {
		int32_t c = utf8_next(part, &at);
		utf8_append(out, c == '.' ? '_' : is_xml_character(c) ? c : 0xfffd);
	}
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* The shots of a suite, from what the run says of itself; -1: not known. */
static int64_t shots_of(const struct answers *a, const char *suite)
{
	struct json_document *document = NULL;
	int64_t shots = -1;
	if (a->run.provenance.length == 0 ||
		json_parse(a->run.provenance, NULL, JSON_LAST_KEY_WINS, &document, NULL) < 0)
		return -1;
	JSON_EACH (entry, json_get(json_root(document), "suites")) {
		const struct json *name = json_get(entry, "name");
		if (json_is(name, JSON_STRING) && str_is(name->text, suite))
			json_int64(json_get(entry, "fewshot"), &shots);
	}
	json_free(document);
	return shots;
}

static bool same_case(const struct test_case *a, const struct test_case *b)
{
	return str_equal(buf_str(&a->classname), buf_str(&b->classname)) &&
		str_equal(buf_str(&a->name), buf_str(&b->name));
}

/* A name that is there already gets a number: servers drop the second of two. */
static void make_unique(struct case_list *list, struct test_case *added)
{
	size_t length = added->name.length;
	for (int number = 2;; number++) {
		bool taken = false;
		for (const struct test_case *c = list->cases; c < added; c++)
			taken = taken || same_case(c, added);
		if (!taken || added->name.failed)
			return;
		added->name.length = length;
		buf_printf(&added->name, " (%d)", number);
	}
}

static struct test_case *add_case(struct case_list *list, const struct verdict *v, const char *part, const char *name)
{
	const struct answers *candidate = &v->pairing->candidate;
	struct test_case *c = &list->cases[list->n++];
	*c = (struct test_case){.verdict = v, .n_suites = v->n_suites};
	buf_append_text(&c->classname, "assay.");
	append_part(&c->classname, candidate->variant ? candidate->variant : base_name(candidate->file));
	buf_append_char(&c->classname, '.');
	append_part(&c->classname, part);
	buf_append_text(&c->name, name);
	return c;
}

/* Only what made the gate fail is a failure: the cases must not say more than the exit code. */
static enum result result_of(const struct verdict *v, const struct endpoint *x)
{
	if (x->outcome == OUTCOME_PASS)
		return CASE_PASSED;
	bool failed = x->outcome == OUTCOME_FAIL && x->tier == TIER_CRITICAL && v->outcome == OUTCOME_FAIL;
	return failed ? CASE_FAILED : CASE_SKIPPED;
}

static void finish_case(
	struct case_list *list, struct test_case *c, enum result result, const char *prefix, const char *message)
{
	c->result = result;
	buf_printf(&c->message, "%s%s", prefix, message);
	make_unique(list, c);
	list->results[result]++;
}

static void finish_endpoint(struct case_list *list, struct test_case *c, const struct endpoint *x)
{
	enum result result = result_of(c->verdict, x);
	const char *prefix = result == CASE_PASSED ? ""
		: result == CASE_FAILED            ? "fail: "
		: x->tier == TIER_ADVISORY         ? "reported only: "
		: x->outcome == OUTCOME_FAIL       ? "not decisive: "
						   : "inconclusive: ";
	finish_case(list, c, result, prefix, x->reason);
}

static void add_suite_case(struct case_list *list, const struct verdict *v, size_t i)
{
	const struct suite_verdict *suite = &v->suites[i];
	int64_t shots = shots_of(&v->pairing->candidate, suite->comparison.suite);
	struct test_case *c = add_case(list, v, suite->comparison.suite, "drop");
	if (shots >= 0)
		buf_printf(&c->name, " (%" PRId64 "-shot)", shots);
	c->comparison = &suite->comparison;
	c->first_suite = i;
	c->n_suites = 1;
	finish_endpoint(list, c, &suite->endpoint);
}

static void add_verdict(struct case_list *list, const struct verdict *v)
{
	static const enum result results[] = {CASE_PASSED, CASE_FAILED, CASE_SKIPPED};
	static const char *const prefixes[] = {"", "fail: ", "inconclusive: "};
	struct test_case *c = add_case(list, v, "gate", "verdict");
	c->comparison = &v->pooled;
	c->n_suites = 0; /* the pooled endpoint lists its regressions */
	finish_case(list, c, results[v->outcome], prefixes[v->outcome], v->reason);
	for (size_t i = 0; i < v->n_endpoints; i++) {
		const struct endpoint *x = &v->endpoints[i];
		c = add_case(list, v, "gate", x->name);
		c->comparison = i == 0 ? &v->pooled : NULL;
		finish_endpoint(list, c, x);
	}
	for (size_t i = 0; i < v->n_suites; i++)
		add_suite_case(list, v, i);
}

static void case_list_free(struct case_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		buf_free(&list->cases[i].classname);
		buf_free(&list->cases[i].name);
		buf_free(&list->cases[i].message);
	}
	free(list->cases);
}

/* ---- Writing ---- */

static void append_regression(struct buf *out, const struct pair *pair, const char *metric)
{
	struct buf before = {0}, after = {0};
	buf_append_char(out, '\n');
	xml_text(out, str_of(pair->baseline->task), false);
	buf_printf(out, " document %" PRId64, pair->baseline->doc_id);
	pair_extracted(pair->baseline, metric, &before);
	pair_extracted(pair->candidate, metric, &after);
	if (before.length + after.length > 0) {
		buf_append_text(out, ": ");
		append_cut(out, buf_str(&before));
		buf_append_text(out, " became ");
		append_cut(out, buf_str(&after));
	}
	buf_free(&before);
	buf_free(&after);
}

static void append_regressions(struct buf *out, const struct test_case *c)
{
	const struct pairing *p = c->verdict->pairing;
	int64_t found = 0;
	for (size_t i = c->first_suite; i < c->first_suite + c->n_suites; i++)
		for (const struct pair *pair = p->suites[i].pairs; pair < p->suites[i].pairs + p->suites[i].n; pair++)
			if (p->suites[i].binary && pair_is_regression(pair) && found++ < SHOWN_REGRESSIONS)
				append_regression(out, pair, p->suites[i].metric);
	if (found > SHOWN_REGRESSIONS)
		buf_printf(out, "\n… and %" PRId64 " more regressions", found - SHOWN_REGRESSIONS);
}

/* The verdict first: servers show the beginning. */
static void append_body(struct buf *out, const struct test_case *c)
{
	xml_text(out, buf_str(&c->message), false);
	if (c->comparison && c->comparison->n > 0) {
		const struct comparison *x = c->comparison;
		buf_printf(out,
			"\nn %" PRId64 ", both right %" PRId64 ", baseline alone %" PRId64 ", candidate alone %" PRId64
			", neither %" PRId64 "; drop %.6f, 95%% interval %.6f to %.6f; McNemar p %.6g",
			x->n, x->table.a, x->table.b, x->table.c, x->table.d, x->drop, x->interval.low,
			x->interval.high, x->mcnemar.two_sided);
		append_regressions(out, c);
	}
}

static void append_case(struct buf *out, const struct test_case *c)
{
	buf_append_text(out, "    <testcase");
	attribute(out, "classname", buf_str(&c->classname));
	attribute(out, "name", buf_str(&c->name));
	buf_append_text(out, " time=\"0.000\""); /* a check takes none; the suite's element has that of the run */
	if (c->result == CASE_PASSED) {
		buf_append_text(out, "/>\n");
		return;
	}
	buf_append_text(out, ">\n      ");
	if (c->result == CASE_FAILED) {
		buf_append_text(out, "<failure type=\"gate\"");
		attribute(out, "message", buf_str(&c->message));
		buf_append_char(out, '>');
		append_body(out, c);
		buf_append_text(out, "</failure>\n");
	} else {
		buf_append_text(out, "<skipped");
		attribute(out, "message", buf_str(&c->message));
		buf_append_text(out, "/>\n");
	}
	buf_append_text(out, "    </testcase>\n");
}

/* Jenkins' schema knows no count of skipped cases on the outer element. */
static void append_counts(struct buf *out, const char *element, const struct case_list *list, double seconds)
{
	buf_printf(out, "<%s", element);
	attribute(out, "name", str_of(strcmp(element, "testsuites") == 0 ? "assay" : "assay gate"));
	buf_printf(out, " tests=\"%zu\" failures=\"%" PRId64 "\" errors=\"%" PRId64 "\" time=\"%.3f\"", list->n,
		list->results[CASE_FAILED], list->results[CASE_ERROR], seconds);
}

/* Begins the document, up to what the suite's element has beyond its counts. */
static void append_header(struct buf *out, const struct case_list *list, double seconds)
{
	buf_append_text(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
	append_counts(out, "testsuites", list, seconds);
	buf_append_text(out, ">\n  ");
	append_counts(out, "testsuite", list, seconds);
	buf_printf(out, " skipped=\"%" PRId64 "\"", list->results[CASE_SKIPPED]);
}

static void property(struct buf *out, const char *name, const char *value)
{
	buf_append_text(out, "      <property");
	attribute(out, "name", str_of(name));
	attribute(out, "value", str_of(value));
	buf_append_text(out, "/>\n");
}

/* When and where the candidate's answers were made. */
static void append_origin(struct buf *out, const struct answers *candidate)
{
	time_t seconds = (time_t)(candidate->run.started / 1000000000);
	struct tm t;
	if (!candidate->variant_id || !gmtime_r(&seconds, &t))
		return;
	buf_printf(out, " timestamp=\"%04d-%02d-%02dT%02d:%02d:%02d\"", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday,
		t.tm_hour, t.tm_min, t.tm_sec);
	attribute(out, "hostname", str_of(candidate->run.host));
}

static void append_properties(struct buf *out, const struct verdict *v)
{
	buf_append_text(out, "    <properties>\n");
	property(out, "baseline", v->pairing->baseline.label);
	property(out, "candidate", v->pairing->candidate.label);
	property(out, "verdict", outcome_name(v->outcome));
	buf_append_text(out, "    </properties>\n");
}

int junit_write(const struct verdict *const *verdicts, size_t n, struct buf *out, struct error *e)
{
	struct case_list list = {0};
	size_t most = 0;
	double seconds = 0;
	for (size_t i = 0; i < n; i++) {
		most += 1 + verdicts[i]->n_endpoints + verdicts[i]->n_suites;
		seconds += verdicts[i]->pairing->candidate.run.seconds;
	}
	list.cases = mem_calloc(most, sizeof(*list.cases), e);
	if (!list.cases)
		return ERR_MEMORY;
	for (size_t i = 0; i < n; i++)
		add_verdict(&list, verdicts[i]);
	append_header(out, &list, seconds);
	if (n > 0)
		append_origin(out, &verdicts[0]->pairing->candidate);
	buf_append_text(out, ">\n");
	if (n == 1)
		append_properties(out, verdicts[0]);
	int status = 0;
	for (size_t i = 0; i < list.n && status == 0; i++) {
		append_case(out, &list.cases[i]);
		status = buf_check(&list.cases[i].classname, e);
		if (status == 0)
			status = buf_check(&list.cases[i].name, e);
		if (status == 0)
			status = buf_check(&list.cases[i].message, e);
	}
	buf_append_text(out, "  </testsuite>\n</testsuites>\n");
	case_list_free(&list);
	return status < 0 ? status : buf_check(out, e);
}

int junit_write_error(const char *message, struct buf *out, struct error *e)
{
	struct case_list list = {.n = 1, .results = {[CASE_ERROR] = 1}};
	append_header(out, &list, 0);
	buf_append_text(out,
		">\n    <testcase classname=\"assay.gate\" name=\"verdict\" time=\"0.000\">\n      <error "
		"type=\"error\"");
	attribute(out, "message", str_of(message));
	buf_append_char(out, '>');
	xml_text(out, str_of(message), false);
	buf_append_text(out, "</error>\n    </testcase>\n  </testsuite>\n</testsuites>\n");
	return buf_check(out, e);
}
