/* Exams: a user's own pass/fail questions in one file of JSON lines
 *   {"id", "prompt" or "messages", "check", "expected", "max_tokens"?, "stop"?, "value"?, "tolerance"?, "tools"?}
 * A prompt goes to the model as it is; messages, and a prompt with tools, go through its chat template. The answer is
 * judged by exam_check.c; one cut by the length limit fails. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "datasets/records.h"
#include "engine/base/file.h"
#include "engine/base/json_number.h"
#include "evals/exam_check.h"
#include "evals/suite_type.h"
#include "evals/tool_verdict.h"

enum { DEFAULT_MAX_TOKENS = 256 };

static const char *const metrics[] = {"passed,none"};

/* ---- Documents ---- */

static int append_question(const struct json *doc, struct buf *out, struct error *e)
{
	struct str prompt;
	TRY(column_string(doc, "prompt", &prompt, e));
	if (prompt.length == 0)
		return error_set(e, ERR_INPUT, "column \"prompt\" is empty");
	buf_append_str(out, prompt);
	return buf_check(out, e);
}

/* JSON of a part of the record, as a document of its own. */
static int parse_part(struct buf *text, struct json_document **out, struct error *e)
{
	int status = buf_check(text, e);
	if (status == 0)
		status = json_parse(buf_str(text), NULL, JSON_LAST_KEY_WINS, out, e);
	buf_free(text);
	return status;
}

static int read_tools(const struct json *doc, struct json_document **out, struct error *e)
{
	struct buf text = {0};
	const struct json *tools = json_get(doc, "tools");
	if (!tools)
		return 0;
	if (!json_is(tools, JSON_ARRAY))
		return error_set(e, ERR_INPUT, "column \"tools\" is %s, expected array", json_type_name(tools));
	TRY(tools_check(tools, e));
	json_dump_python(tools, -1, false, &text);
	return parse_part(&text, out, e);
}

/* A prompt as the one message of a user. */
static int append_user(struct conversation *c, const struct json *doc, struct error *e)
{
	struct buf prompt = {0}, text = {0};
	struct json_document *messages = NULL;
	int status = append_question(doc, &prompt, e);
	if (status == 0) {
		buf_append_text(&text, "[{\"role\": \"user\", \"content\": ");
		json_write_string(buf_str(&prompt), false, &text);
		buf_append_text(&text, "}]");
		status = parse_part(&text, &messages, e);
	}
	if (status == 0)
		status = conversation_append(c, json_root(messages), e);
	json_free(messages);
	buf_free(&prompt);
	return status;
}

static int append_conversation(struct conversation *c, const struct json *doc, struct error *e)
{
	const struct json *messages = json_get(doc, "messages");
	TRY(read_tools(doc, &c->tools, e));
	if (messages && json_get(doc, "prompt"))
		return error_set(e, ERR_INPUT, "a \"prompt\" and \"messages\": expected one of them");
	if (messages) {
		if (!json_is(messages, JSON_ARRAY))
			return error_set(
				e, ERR_INPUT, "column \"messages\" is %s, expected array", json_type_name(messages));
		TRY(conversation_append(c, messages, e));
		return 1;
	}
	if (!c->tools)
		return 0;
	TRY(append_user(c, doc, e));
	return 1;
}

/* A key that is spelled otherwise would be a check that is not carried out, as would the first of two. */
static int check_keys(const struct json *doc, struct error *e)
{
	static const char *const keys[] = {
		"id", "prompt", "messages", "check", "expected", "max_tokens", "stop", "value", "tolerance", "tools"};
	enum { KEYS = sizeof(keys) / sizeof(keys[0]) };
	JSON_EACH (member, doc) {
		int k = 0;
		if (member->shadowed)
			return error_set(e, ERR_INPUT, "key \"%.*s\" stands there twice",
				(int)(member->key.length < 80 ? member->key.length : 80), member->key.data);
		while (k < KEYS && !str_is(member->key, keys[k]))
			k++;
		if (k < KEYS)
			continue;
		struct buf known = {0};
		for (k = 0; k < KEYS; k++)
			buf_printf(&known, "%s%s", k ? ", " : "", keys[k]);
		error_set(e, ERR_INPUT, "unknown key \"%.*s\", expected of %s",
			(int)(member->key.length < 80 ? member->key.length : 80), member->key.data, buf_text(&known));
		buf_free(&known);
		return ERR_INPUT;
	}
	return 0;
}

static int check_id(const struct json *doc, struct error *e)
{
	const struct json *id = json_get(doc, "id");
	if (json_is(id, JSON_STRING) && id->text.length == 0)
		return error_set(e, ERR_INPUT, "column \"id\" is empty");
	if (json_is(id, JSON_STRING) || json_is(id, JSON_NUMBER))
		return 0;
	return error_set(e, ERR_INPUT, "column \"id\" is %s, expected string or number", json_type_name(id));
}

static int read_max_tokens(const struct json *doc, int *out, struct error *e)
{
	const struct json *node = json_get(doc, "max_tokens");
	if (!node)
		return 0;
	double value = json_is(node, JSON_NUMBER) && json_is_integral(node) ? json_double(node) : 0;
	if (!(value >= 1 && value <= INT_MAX))
		return error_set(e, ERR_INPUT, "column \"max_tokens\": expected a whole number from 1 to %d", INT_MAX);
	*out = (int)value;
	return 0;
}

static int add_stop(const struct json *stop, struct doc_content *out, struct error *e)
{
	if (!json_is(stop, JSON_STRING) || stop->text.length == 0)
		return error_set(e, ERR_INPUT, "column \"stop\": expected a text that is not empty, or a list of such");
	out->until[out->n_until++] = stop->text;
	return 0;
}

static int read_stops(const struct json *doc, struct doc_content *out, struct error *e)
{
	const struct json *stop = json_get(doc, "stop");
	if (!stop)
		return 0;
	out->until = mem_calloc(json_is(stop, JSON_ARRAY) ? stop->count + 1 : 1, sizeof(*out->until), e);
	if (!out->until)
		return ERR_MEMORY;
	if (!json_is(stop, JSON_ARRAY))
		return add_stop(stop, out, e);
	JSON_EACH (text, stop)
		TRY(add_stop(text, out, e));
	return 0;
}

static int read_content(const struct json *doc, struct doc_content *out, struct error *e)
{
	TRY(check_id(doc, e));
	TRY(read_max_tokens(doc, &out->max_tokens, e));
	TRY(read_stops(doc, out, e));
	const struct json *expected;
	TRY(exam_check_read(doc, &expected, e));
	if (json_is(expected, JSON_STRING) || json_is(expected, JSON_NUMBER))
		out->target = expected->text;
	else
		out->target_json = expected;
	return 0;
}

static int judge(const struct suite_item *item, const struct answer *answer, struct item_score *out, struct error *e)
{
	return exam_check_apply(item->doc, item->tool_format, answer, out, e);
}

/* ---- The file ---- */

static int compare_ids(const struct json *a, const struct json *b)
{
	if (a->type != b->type)
		return a->type < b->type ? -1 : 1;
	if (a->type == JSON_NUMBER)
		return (int)json_number_compare(a, b);
	size_t common = a->text.length < b->text.length ? a->text.length : b->text.length;
	int order = common ? memcmp(a->text.data, b->text.data, common) : 0;
	return order ? order : (a->text.length > b->text.length) - (a->text.length < b->text.length);
}

static int compare_records(const void *left, const void *right)
{
	const struct record *a = *(const struct record *const *)left, *b = *(const struct record *const *)right;
	int order = compare_ids(json_get(a->doc, "id"), json_get(b->doc, "id"));
	return order ? order : (a->line > b->line) - (a->line < b->line);
}

/* Known keys, and one question for each id. Records without an id, or with one of another type, are left to
 * check_id. */
static int check_records(const struct records *r, struct error *e)
{
	const struct record **order = mem_calloc(r->count, sizeof(*order), e);
	size_t n = 0;
	if (!order)
		return ERR_MEMORY;
	int status = 0;
	for (size_t i = 0; i < r->count && status == 0; i++) {
		const struct json *id = json_get(r->items[i].doc, "id");
		if (check_keys(r->items[i].doc, e) < 0)
			status = error_prefix(e, "%s:%zu", r->path, r->items[i].line);
		if (json_is(id, JSON_STRING) || json_is(id, JSON_NUMBER))
			order[n++] = &r->items[i];
	}
	if (n)
		qsort(order, n, sizeof(*order), compare_records);
	for (size_t i = 1; i < n && status == 0; i++) {
		const struct json *id = json_get(order[i]->doc, "id");
		if (compare_ids(json_get(order[i - 1]->doc, "id"), id) == 0)
			status = error_set(e, ERR_INPUT, "%s:%zu: \"id\" %.*s is that of line %zu, expected another",
				r->path, order[i]->line, (int)(id->text.length < 80 ? id->text.length : 80),
				id->text.data, order[i - 1]->line);
	}
	free(order);
	return status;
}

/* The path as it is, or below the data folder. */
static int find_file(const char *path, const char *folder, char **out, struct error *e)
{
	char *below = NULL;
	if (!file_exists(path) && path[0] != '/' && folder)
		below = path_join(folder, path, e);
	bool found = below && file_exists(below);
	int status = task_text(out, e, "%s", found ? below : path);
	if (status == 0 && !found && !file_exists(path) && access(path, F_OK) == 0)
		status = error_set(e, ERR_USAGE, "exam %s: is no plain file, expected a file of JSON lines", path);
	else if (status == 0 && !found && !file_exists(path))
		status = error_set(e, ERR_MISSING, "exam %s: no such file%s%s", path, below ? ", neither is " : "",
			below ? below : "");
	free(below);
	return status;
}

struct str suite_exam_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	struct str base = str_of(slash ? slash + 1 : path), end = str_of(".jsonl");
	if (base.length > end.length && memcmp(base.data + base.length - end.length, end.data, end.length) == 0)
		base.length -= end.length;
	return base;
}

static int find_tasks(
	const char *name, const struct suite_options *options, struct suite_task_list *out, struct error *e)
{
	struct str base = suite_exam_name(name);
	struct suite_task *task = suite_task_add(out, e);
	if (!task)
		return ERR_MEMORY;
	TRY(task_text(&out->suite, e, "%.*s", STR_ARG(base)));
	TRY(task_text(&task->name, e, "%s", out->suite));
	TRY(task_text(&task->alias, e, "%s", out->suite));
	const struct suite_type *other = suite_name_is_path(out->suite) ? NULL : suite_type_find(out->suite);
	if (other)
		return error_set(e, ERR_USAGE,
			"exam %s: \"%s\" is the name of a suite, expected a file of another name", name, out->suite);
	return find_file(name, options->data_folder, &task->test_path, e);
}

const struct suite_type suite_type_exam = {
	.name = "exam",
	.also = "FILE.jsonl",
	.definition = "questions of your own with a check each, from a file; passed of all",
	.takes = suite_name_is_path,
	.find_tasks = find_tasks,
	.kind = REQUEST_GENERATE,
	.metrics = metrics,
	.n_metrics = 1,
	.max_tokens = DEFAULT_MAX_TOKENS,
	.append_question = append_question,
	.append_conversation = append_conversation,
	.check_records = check_records,
	.read_content = read_content,
	.judge = judge,
};
