#include "reports/answers_file.h"

#include <inttypes.h>
#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/json_strict.h"

/* Members of a line that are no metrics, where the line does not list its metrics itself. */
static const char *const known_members[] = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter",
	"metrics", "doc_hash", "prompt_hash", "target_hash", "task", "suite", "response", "status"};

struct reading {
	struct answers *answers;
	struct str file_task; /* of lines that name none */
	struct buf metrics, filtered, response;
};

/* "samples_<task>_<time>.jsonl", as the harness names its files; "samples" for other names. */
static struct str task_of_file(const char *path)
{
	static const char prefix[] = "samples_";
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	const char *end = strrchr(name, '_');
	if (strncmp(name, prefix, sizeof(prefix) - 1) != 0 || !end || end < name + sizeof(prefix))
		return str_of("samples");
	return (struct str){name + sizeof(prefix) - 1, (size_t)(end - name) - (sizeof(prefix) - 1)};
}

/* ---- One line ---- */

static bool is_metric(const struct json *line, const struct json *member)
{
	const struct json *listed = json_get(line, "metrics");
	bool is_value = json_is(member, JSON_NUMBER) || json_is(member, JSON_TRUE) || json_is(member, JSON_FALSE);
	if (!is_value)
		return false;
	if (json_is(listed, JSON_ARRAY)) {
		JSON_EACH (name, listed)
			if (json_is(name, JSON_STRING) && str_equal(name->text, member->key))
				return true;
		return false;
	}
	for (size_t i = 0; i < sizeof(known_members) / sizeof(known_members[0]); i++)
		if (str_is(member->key, known_members[i]))
			return false;
	return true;
}

/* {"acc,none": 1.0}; a name that has its filter already keeps it. */
static void write_metrics(const struct json *line, struct str filter, struct buf *out)
{
	struct buf name = {0};
	const char *between = "";
	JSON_EACH (member, line) {
		if (!is_metric(line, member) || member->shadowed)
			continue;
		buf_clear(&name);
		buf_append_str(&name, member->key);
		if (str_find(member->key, str_of(","), 0) == SIZE_MAX) {
			buf_append_char(&name, ',');
			buf_append_str(&name, filter);
		}
		buf_append_text(out, between);
		json_write_string(buf_str(&name), false, out);
		buf_append_text(out, ": ");
		if (json_is(member, JSON_NUMBER))
			json_write_double_or_null(json_double(member), out);
		else
			buf_append_text(out, json_is(member, JSON_TRUE) ? "1.0" : "0.0");
		between = ", ";
	}
	buf_free(&name);
}

/* A log-probability as a number, or as the text that the harness writes. */
static void write_logprob(const struct json *value, struct buf *out)
{
	struct json_document *document = NULL;
	if (json_is(value, JSON_STRING) && json_parse(value->text, NULL, JSON_LAST_KEY_WINS, &document, NULL) == 0)
		value = json_root(document);
	if (json_is(value, JSON_NUMBER))
		json_write_double_or_null(json_double(value), out);
	else
		buf_append_text(out, "null");
	json_free(document);
}

/* "resps" is, per request, a list of repeats: texts, or [log-probability, is greedy] per choice. */
static void write_response(const struct json *line, struct buf *out)
{
	const struct json *resps = json_get(line, "resps"), *text = json_get(line, "response");
	const struct json *first = json_at(json_at(resps, 0), 0);
	if (json_is(first, JSON_STRING))
		text = first;
	if (json_is(text, JSON_STRING)) {
		json_write_string(text->text, false, out);
		return;
	}
	if (!json_is(first, JSON_ARRAY)) {
		buf_append_text(out, "null");
		return;
	}
	const char *between = "[";
	JSON_EACH (choice, resps) {
		const struct json *pair = json_at(choice, 0), *greedy = json_at(pair, 1);
		bool is_greedy =
			json_is(greedy, JSON_TRUE) || (json_is(greedy, JSON_STRING) && str_is(greedy->text, "True"));
		buf_printf(out, "%s[", between);
		write_logprob(json_at(pair, 0), out);
		buf_append_text(out, is_greedy ? ", true]" : ", false]");
		between = ", ";
	}
	buf_append_char(out, ']');
}

static void write_filtered(const struct json *line, struct str filter, struct buf *out)
{
	const struct json *first = json_at(json_get(line, "filtered_resps"), 0);
	if (!json_is(first, JSON_STRING))
		return;
	json_write_string(filter, false, out);
	buf_append_text(out, ": ");
	json_write_string(first->text, false, out);
}

static int keep_hash(struct reading *r, const struct json *line, const char *name, const char **out, struct error *e)
{
	const struct json *value = json_get(line, name);
	*out = answers_keep(r->answers, json_is(value, JSON_STRING) ? value->text : str_of(""), e);
	return *out ? 0 : ERR_MEMORY;
}

/* A target that is known by its text alone is hashed as the harness hashes it. */
static int keep_target(struct reading *r, const struct json *line, const char **out, struct error *e)
{
	const struct json *target = json_get(line, "target");
	TRY(keep_hash(r, line, "target_hash", out, e));
	if (**out || !(json_is(target, JSON_STRING) || json_is(target, JSON_NUMBER)))
		return 0;
	char hash[SHA256_HEX_SIZE];
	sha256_hex(target->text.data, target->text.length, hash);
	*out = answers_keep(r->answers, str_of(hash), e);
	return *out ? 0 : ERR_MEMORY;
}

static int keep_json(struct reading *r, struct buf *json, struct str *out, struct error *e)
{
	TRY(buf_check(json, e));
	out->length = json->length;
	out->data = answers_keep(r->answers, buf_str(json), e);
	return out->data ? 0 : ERR_MEMORY;
}

static int add_line(struct reading *r, const struct json *line, struct error *e)
{
	const struct json *filter_member = json_get(line, "filter"), *task = json_get(line, "task");
	struct str filter = json_is(filter_member, JSON_STRING) ? filter_member->text : str_of("none");
	struct store_sample *row = answers_add(r->answers, e);
	if (!row)
		return ERR_MEMORY;
	if (!json_is(line, JSON_OBJECT) || !json_int64(json_get(line, "doc_id"), &row->doc_id))
		return error_set(e, ERR_INPUT, "expected an object with an integer \"doc_id\"");
	row->suite = row->task = answers_keep(r->answers, json_is(task, JSON_STRING) ? task->text : r->file_task, e);
	if (!row->task)
		return ERR_MEMORY;
	TRY(keep_hash(r, line, "doc_hash", &row->doc_hash, e));
	TRY(keep_hash(r, line, "prompt_hash", &row->prompt_hash, e));
	TRY(keep_target(r, line, &row->target_hash, e));
	buf_clear(&r->metrics);
	buf_clear(&r->filtered);
	buf_clear(&r->response);
	write_metrics(line, filter, &r->metrics);
	write_filtered(line, filter, &r->filtered);
	write_response(line, &r->response);
	TRY(keep_json(r, &r->metrics, &row->metrics, e));
	TRY(keep_json(r, &r->filtered, &row->filtered, e));
	return keep_json(r, &r->response, &row->response, e);
}

static bool is_blank(struct str line)
{
	for (size_t i = 0; i < line.length; i++)
		if (line.data[i] != ' ' && line.data[i] != '\t' && line.data[i] != '\r')
			return false;
	return true;
}

static int read_lines(struct reading *r, struct str text, struct error *e)
{
	int64_t number = 1;
	for (size_t at = 0; at < text.length; number++) {
		size_t end = str_find(text, str_of("\n"), at);
		end = end == SIZE_MAX ? text.length : end;
		struct str line = {text.data + at, end - at};
		at = end + 1;
		if (is_blank(line))
			continue;
		struct json_document *document = NULL;
		int status = json_parse(line, NULL, JSON_LINE | JSON_LAST_KEY_WINS, &document, e);
		if (status == 0)
			status = add_line(r, json_root(document), e);
		json_free(document);
		if (status < 0)
			return error_prefix(e, "%s:%" PRId64, r->answers->file, number);
	}
	return 0;
}

/* ---- Rows of one document ---- */

static int compare_rows(const void *left, const void *right)
{
	const struct store_sample *a = left, *b = right;
	int order = strcmp(a->suite, b->suite);
	if (order == 0)
		order = strcmp(a->task, b->task);
	return order ? order : (a->doc_id > b->doc_id) - (a->doc_id < b->doc_id);
}

static void append_members(struct buf *out, struct str members)
{
	if (members.length == 0)
		return;
	buf_append_text(out, out->length > 1 ? ", " : "");
	buf_append_str(out, members);
}

/* Puts the members of rows first … last - 1 into one row, inside braces. A name that comes twice means that the
 * document was answered twice. */
static int join_rows(struct reading *r, const struct store_sample *first, const struct store_sample *last,
	struct store_sample *out, struct error *e)
{
	struct store_sample joined = *first;
	buf_clear(&r->metrics);
	buf_clear(&r->filtered);
	buf_append_char(&r->metrics, '{');
	buf_append_char(&r->filtered, '{');
	for (const struct store_sample *row = first; row < last; row++) {
		append_members(&r->metrics, row->metrics);
		append_members(&r->filtered, row->filtered);
	}
	buf_append_char(&r->metrics, '}');
	buf_append_char(&r->filtered, '}');
	struct json_document *document = NULL;
	if (last > first + 1 && json_parse(buf_str(&r->metrics), NULL, JSON_REFUSE_DOUBLED_KEYS, &document, NULL) < 0)
		return error_set(e, ERR_INPUT, "%s: document %" PRId64 " of %s is answered twice", r->answers->file,
			first->doc_id, first->task);
	json_free(document);
	TRY(keep_json(r, &r->metrics, &joined.metrics, e));
	TRY(keep_json(r, &r->filtered, &joined.filtered, e));
	*out = joined;
	return 0;
}

static int join_documents(struct reading *r, struct error *e)
{
	struct answers *a = r->answers;
	size_t kept = 0;
	if (a->n)
		qsort(a->rows, a->n, sizeof(*a->rows), compare_rows);
	for (size_t i = 0, end; i < a->n; i = end) {
		for (end = i + 1; end < a->n && compare_rows(&a->rows[i], &a->rows[end]) == 0;)
			end++;
		TRY(join_rows(r, &a->rows[i], &a->rows[end], &a->rows[kept++], e));
	}
	a->n = kept;
	return 0;
}

int answers_read_file(struct answers *a, struct error *e)
{
	struct reading r = {.answers = a, .file_task = task_of_file(a->file)};
	struct buf text = {0};
	a->label = strdup(a->file);
	int status = a->label ? file_read(a->file, &text, e) : error_set(e, ERR_MEMORY, "no memory for a path");
	if (status == 0)
		status = read_lines(&r, buf_str(&text), e);
	if (status == 0)
		status = join_documents(&r, e);
	buf_free(&text);
	buf_free(&r.metrics);
	buf_free(&r.filtered);
	buf_free(&r.response);
	return status;
}
