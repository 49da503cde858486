#include "reports/tool_answer.h"

#include <stdio.h>

#include "engine/base/utf8.h"

/* ---- Reading ---- */

static struct str text_of(const struct json *object, const char *key)
{
	const struct json *value = json_get(object, key);
	return json_is(value, JSON_STRING) ? value->text : (struct str){0};
}

/* What is no JSON holds no calls: only memory may fail. */
static int parse(struct str text, struct json_document **out, struct error *e)
{
	struct error ignored = {0};
	int status = json_parse(text, NULL, JSON_LAST_KEY_WINS, out, &ignored);
	return status == ERR_MEMORY ? error_set(e, ERR_MEMORY, "%s", ignored.message) : status == 0;
}

/* "value_error:string: location" */
static struct str type_of(struct str error_type)
{
	size_t end = str_find(error_type, str_of(": "), 0);
	size_t length = end == SIZE_MAX ? error_type.length : end;
	return (struct str){error_type.data, length ? strnlen(error_type.data, length) : 0};
}

int tool_answer_read(const struct store_sample *sample, struct tool_answer *out, struct error *e)
{
	*out = (struct tool_answer){0};
	/* most samples hold none: they are not parsed */
	if (str_find(sample->filtered, str_of("\"calls\""), 0) == SIZE_MAX)
		return 0;
	int status = parse(sample->filtered, &out->documents[0], e);
	const struct json *root = status == 1 ? json_root(out->documents[0]) : NULL;
	bool is = json_is(json_get(root, "calls"), JSON_STRING) && json_is(json_get(root, "error_type"), JSON_STRING);
	if (is)
		status = parse(text_of(root, "calls"), &out->documents[1], e);
	if (is && status == 1 && json_is(json_root(out->documents[1]), JSON_ARRAY)) {
		out->calls = json_root(out->documents[1]);
		out->error_type = text_of(root, "error_type");
		out->type = type_of(out->error_type);
		out->invalid = text_of(root, "invalid");
		out->leniencies = text_of(root, "leniencies");
		return 1;
	}
	tool_answer_free(out);
	return status < 0 ? status : 0;
}

void tool_answer_free(struct tool_answer *a)
{
	json_free(a->documents[0]);
	json_free(a->documents[1]);
	*a = (struct tool_answer){0};
}

/* ---- One line, JSON ---- */

static void append_value(const struct json *value, struct buf *out)
{
	json_dump_python(value, -1, false, out);
}

/* Arguments are an object; those that JSON cannot write are a text, and some models call with something else. */
static void append_call(const struct json *call, struct buf *out)
{
	const struct json *arguments = json_get(call, "arguments");
	buf_append_str(out, text_of(call, "name"));
	if (json_get(call, "error")) {
		buf_append_text(out, " broken: ");
		buf_append_str(out, text_of(call, "raw"));
		return;
	}
	buf_append_char(out, '(');
	if (!json_is(arguments, JSON_OBJECT) && arguments)
		append_value(arguments, out);
	for (const struct json *a = json_is(arguments, JSON_OBJECT) ? arguments->child : NULL; a; a = a->next) {
		if (a != arguments->child)
			buf_append_text(out, ", ");
		buf_append_str(out, a->key);
		buf_append_char(out, '=');
		append_value(a, out);
	}
	buf_append_char(out, ')');
}

void tool_answer_line(const struct tool_answer *a, struct buf *out)
{
	JSON_EACH (call, a->calls) {
		if (call != a->calls->child)
			buf_append_text(out, "; ");
		append_call(call, out);
	}
}

void tool_answer_json(const struct tool_answer *a, struct buf *out)
{
	const struct {
		const char *name;
		struct str text;
	} rows[] = {{"error_type", a->error_type}, {"invalid", a->invalid}, {"leniencies", a->leniencies}};
	buf_append_text(out, "\"calls\": ");
	append_value(a->calls, out);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		buf_printf(out, ", \"%s\": ", rows[i].name);
		json_write_string(rows[i].text, false, out);
	}
}

/* ---- Beside each other ---- */

struct beside {
	struct report_table *table;
	bool cut;
};

/* An answer may hold more calls than anyone reads: none of them is looked at once the table is full. */
static bool is_full(struct beside *b)
{
	b->cut = b->cut || table_rows(b->table) >= TOOL_ROWS;
	return b->cut;
}

static void add_cut(struct report_table *t, struct str text)
{
	struct buf cell = {0};
	struct str shown = text;
	if (text.length > TOOL_CELL_BYTES) {
		shown.length = TOOL_CELL_BYTES;
		shown.length = utf8_complete(shown);
	}
	buf_append_str(&cell, shown);
	if (shown.length < text.length)
		buf_printf(&cell, "… (%zu bytes in all)", text.length);
	t->failed |= cell.failed;
	table_str(t, buf_str(&cell));
	buf_free(&cell);
}

/* A side that has nothing there is NULL. */
static void add_row(
	struct beside *b, struct str what, const struct str *baseline, const struct str *candidate, const char *lacking)
{
	add_cut(b->table, what);
	add_cut(b->table, baseline ? *baseline : (struct str){0});
	add_cut(b->table, candidate ? *candidate : (struct str){0});
	table_text(b->table,
		!baseline                                  ? "added"
			: !candidate                       ? lacking
			: str_equal(*baseline, *candidate) ? ""
							   : "changed");
}

static const struct str *append_if_there(const struct json *value, struct buf *text, struct str *out)
{
	if (!value)
		return NULL;
	append_value(value, text);
	*out = buf_str(text);
	return out;
}

static void add_values(struct beside *b, struct str what, const struct json *baseline, const struct json *candidate)
{
	struct buf x = {0}, y = {0};
	struct str left, right;
	const struct str *a = append_if_there(baseline, &x, &left), *c = append_if_there(candidate, &y, &right);
	if (a || c)
		add_row(b, what, a, c, "missing");
	b->table->failed |= x.failed || y.failed;
	buf_free(&x);
	buf_free(&y);
}

static void add_texts(struct beside *b, const char *what, const struct json *baseline, const struct json *candidate)
{
	const struct str *a = json_is(baseline, JSON_STRING) ? &baseline->text : NULL,
			 *c = json_is(candidate, JSON_STRING) ? &candidate->text : NULL;
	if (a || c)
		add_row(b, str_of(what), a, c, "missing");
}

static void add_argument(struct beside *b, struct str key, const struct json *baseline, const struct json *candidate)
{
	struct buf what = {0};
	buf_append_text(&what, "  ");
	buf_append_str(&what, key);
	b->table->failed |= what.failed;
	add_values(b, buf_str(&what), baseline, candidate);
	buf_free(&what);
}

static void add_arguments(struct beside *b, const struct json *baseline, const struct json *candidate)
{
	bool objects = (!baseline || json_is(baseline, JSON_OBJECT)) && (!candidate || json_is(candidate, JSON_OBJECT));
	if (!objects) {
		add_values(b, str_of("  arguments"), baseline, candidate);
		return;
	}
	JSON_EACH (a, baseline)
		if (!is_full(b) && !a->shadowed)
			add_argument(b, a->key, a, json_get_str(candidate, a->key));
	JSON_EACH (a, candidate)
		if (!is_full(b) && !a->shadowed && !json_get_str(baseline, a->key))
			add_argument(b, a->key, NULL, a);
}

static void add_call(struct beside *b, size_t number, const struct json *baseline, const struct json *candidate)
{
	char what[32];
	snprintf(what, sizeof(what), "call %zu", number);
	add_texts(b, what, json_get(baseline, "name"), json_get(candidate, "name"));
	add_arguments(b, json_get(baseline, "arguments"), json_get(candidate, "arguments"));
	add_texts(b, "  broken", json_get(baseline, "error"), json_get(candidate, "error"));
	add_texts(b, "  as written", json_get(baseline, "raw"), json_get(candidate, "raw"));
}

static void add_finding(struct beside *b, const char *what, struct str baseline, struct str candidate)
{
	if (baseline.length || candidate.length)
		add_row(b, str_of(what), baseline.length ? &baseline : NULL, candidate.length ? &candidate : NULL,
			"gone");
}

int tool_answers_table(const struct tool_answer *baseline, const struct tool_answer *candidate, struct table_list *out,
	struct error *e)
{
	static const char *const names[] = {"call", "baseline", "candidate", "change"};
	struct beside b = {.table = table_list_add(out, "calls", "Calls", e)};
	if (!b.table)
		return ERR_MEMORY;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		table_text_column(b.table, names[i]);
	const struct json *x = baseline->calls->child, *y = candidate->calls->child;
	for (size_t number = 1; (x || y) && !is_full(&b); number++) {
		add_call(&b, number, x, y);
		x = x ? x->next : NULL;
		y = y ? y->next : NULL;
	}
	add_finding(&b, "wrong by", baseline->error_type, candidate->error_type);
	add_finding(&b, "invalid by", baseline->invalid, candidate->invalid);
	add_finding(&b, "let pass", baseline->leniencies, candidate->leniencies);
	if (b.cut)
		buf_printf(&b.table->note, "More than %d rows: the rest is left out.", TOOL_ROWS);
	return table_list_check(out, e);
}
