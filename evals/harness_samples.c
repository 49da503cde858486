#include "evals/harness_samples.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "datasets/records.h"
#include "engine/base/file.h"

/* Where a line lies in the file; lines of one document are brought together by sorting. */
struct place {
	int64_t doc_id;
	struct str text;
	size_t line;
};

struct places {
	struct place *items;
	size_t count, capacity;
};

/* The row in the making. */
struct row {
	struct store_sample sample;
	const struct harness_task *task;
	char hashes[3][SHA256_HEX_SIZE]; /* document, prompt, target */
	struct buf response, filtered, metrics;
};

static const char *const hash_names[3] = {"doc_hash", "prompt_hash", "target_hash"};

/* ---- Members of a line ---- */

static int member(
	const struct json *line, const char *name, enum json_type type, const struct json **out, struct error *e)
{
	static const char *const names[] = {"null", "boolean", "boolean", "number", "string", "array", "object"};
	*out = json_get(line, name);
	if (json_is(*out, type))
		return 0;
	return error_set(e, ERR_INPUT, "\"%s\" is %s, expected %s", name, json_type_name(*out), names[type]);
}

static int read_doc_id(const struct json *line, int64_t *out, struct error *e)
{
	const struct json *id = json_get(line, "doc_id");
	if (json_is(id, JSON_NUMBER) && json_int64(id, out) && *out >= 0)
		return 0;
	return error_set(e, ERR_INPUT, "\"doc_id\" is %s%s%.*s, expected a whole number from 0", json_type_name(id),
		id && id->text.length ? " " : "", STR_ARG(id ? id->text : (struct str){0}));
}

static int read_hash(const struct json *line, const char *name, char out[SHA256_HEX_SIZE], struct error *e)
{
	const struct json *hash;
	TRY(member(line, name, JSON_STRING, &hash, e));
	bool hex = hash->text.length == SHA256_HEX_SIZE - 1;
	for (size_t i = 0; hex && i < hash->text.length; i++)
		hex = strchr("0123456789abcdef", hash->text.data[i]) && hash->text.data[i];
	if (!hex)
		return error_set(e, ERR_INPUT, "\"%s\" is \"%.*s\", expected the 64 hex digits of a sha256", name,
			STR_ARG(hash->text));
	memcpy(out, hash->text.data, SHA256_HEX_SIZE);
	return 0;
}

/* The harness writes numbers inside answers as texts ("-74.6", "nan"), earlier versions as numbers. Whether it is one. */
static bool read_logprob(const struct json *value, double *out)
{
	struct json_document *document = NULL;
	struct error ignored;
	*out = NAN;
	if (json_is(value, JSON_NUMBER)) {
		*out = json_double(value);
		return true;
	}
	if (!json_is(value, JSON_STRING))
		return false;
	if (str_is(value->text, "nan") || str_is(value->text, "-inf") || str_is(value->text, "inf"))
		return true;
	bool number =
		json_parse(value->text, NULL, 0, &document, &ignored) == 0 && json_is(json_root(document), JSON_NUMBER);
	*out = number ? json_double(json_root(document)) : NAN;
	json_free(document);
	return number;
}

static bool read_greedy(const struct json *value, bool *out)
{
	bool text = json_is(value, JSON_STRING);
	*out = json_is(value, JSON_TRUE) || (text && str_is(value->text, "True"));
	return *out || json_is(value, JSON_FALSE) || (text && str_is(value->text, "False"));
}

/* One [[log-probability, is_greedy]] per choice. */
static int append_choice(const struct json *answers, struct buf *out, struct error *e)
{
	const struct json *answer = json_at(answers, 0);
	double logprob;
	bool greedy;
	if (!json_is(answer, JSON_ARRAY) || answer->count != 2 || !read_logprob(json_at(answer, 0), &logprob) ||
		!read_greedy(json_at(answer, 1), &greedy))
		return error_set(e, ERR_INPUT,
			"\"resps\" holds an answer that is neither a text nor a pair of a log-probability and whether "
			"it is "
			"greedy");
	buf_append_text(out, out->length > 1 ? ", [" : "[");
	json_write_double_or_null(logprob, out);
	buf_append_text(out, greedy ? ", true]" : ", false]");
	return 0;
}

/* "resps": a list of answers for each request of the document. */
static int read_response(const struct json *line, struct row *r, struct error *e)
{
	const struct json *resps;
	TRY(member(line, "resps", JSON_ARRAY, &resps, e));
	JSON_EACH (answers, resps)
		if (!json_is(answers, JSON_ARRAY) || answers->count != 1)
			return error_set(e, ERR_INPUT,
				"\"resps\" holds %zu answers to one request, expected 1: a run with repeats has no one "
				"answer",
				json_is(answers, JSON_ARRAY) ? answers->count : 0);
	const struct json *first = json_at(json_at(resps, 0), 0);
	buf_clear(&r->response);
	if (json_is(first, JSON_STRING) && resps->count == 1) {
		json_write_string(first->text, false, &r->response);
		r->sample.status = first->text.length ? SAMPLE_OK : SAMPLE_EMPTY;
		return 0;
	}
	if (resps->count == 0)
		return error_set(e, ERR_INPUT, "\"resps\" is empty, expected an answer");
	buf_append_char(&r->response, '[');
	JSON_EACH (answers, resps)
		TRY(append_choice(answers, &r->response, e));
	buf_append_char(&r->response, ']');
	r->sample.status = SAMPLE_OK;
	return 0;
}

static void append_key(struct buf *out, struct str name, struct str filter)
{
	struct buf key = {0};
	buf_append_text(out, out->length > 1 ? ", " : "");
	buf_append_str(&key, name);
	if (filter.length) {
		buf_append_char(&key, ',');
		buf_append_str(&key, filter);
	}
	json_write_string(buf_str(&key), false, out);
	out->failed |= key.failed;
	buf_free(&key);
	buf_append_text(out, ": ");
}

/* What is no number would make a mean none that can be computed again. */
static int check_value(const struct row *r, struct str metric, const struct json *value, struct error *e)
{
	enum harness_aggregation how = harness_aggregation_of(r->task, metric);
	if (how == HARNESS_OTHER || json_is(value, JSON_TRUE) || json_is(value, JSON_FALSE) ||
		(json_is(value, JSON_NUMBER) && isfinite(json_double(value))) ||
		(how == HARNESS_MEAN_OF_NUMBERS && json_is(value, JSON_ARRAY)))
		return 0;
	return error_set(e, ERR_INPUT,
		"document %" PRId64 ": \"%.*s\" is %s%s%.*s, expected a number, as its mean is taken", r->sample.doc_id,
		STR_ARG(metric), json_type_name(value), value->text.length ? " " : "", STR_ARG(value->text));
}

static void append_value(struct buf *out, const struct json *value)
{
	if (json_is(value, JSON_TRUE) || json_is(value, JSON_FALSE))
		buf_append_text(out, json_is(value, JSON_TRUE) ? "1.0" : "0.0");
	else
		json_write_double_or_null(json_is(value, JSON_NUMBER) ? json_double(value) : NAN, out);
}

/* The values of the line's metrics under its filter, and the text that the filter left where it left one. */
static int read_scores(const struct json *line, struct row *r, struct error *e)
{
	const struct json *filter, *metrics, *left = json_get(line, "filtered_resps");
	TRY(member(line, "filter", JSON_STRING, &filter, e));
	TRY(member(line, "metrics", JSON_ARRAY, &metrics, e));
	JSON_EACH (name, metrics) {
		if (!json_is(name, JSON_STRING))
			return error_set(e, ERR_INPUT, "\"metrics\" holds %s, expected strings", json_type_name(name));
		const struct json *value = json_get_str(line, name->text);
		if (!value)
			return error_set(e, ERR_INPUT, "\"metrics\" names \"%.*s\", which the line does not hold",
				STR_ARG(name->text));
		TRY(check_value(r, name->text, value, e));
		append_key(&r->metrics, name->text, filter->text);
		append_value(&r->metrics, value);
	}
	const struct json *text = json_is(left, JSON_ARRAY) ? json_at(left, 0) : NULL;
	if (json_is(text, JSON_STRING)) {
		append_key(&r->filtered, filter->text, (struct str){0});
		json_write_string(text->text, false, &r->filtered);
	}
	return 0;
}

/* ---- Documents ---- */

static int find_places(struct str text, const char *path, struct places *out, struct error *e)
{
	struct line_cursor cursor = {.text = text};
	struct str line;
	while (line_next(&cursor, &line)) {
		struct json_document *document = NULL;
		if (out->count == out->capacity) {
			size_t capacity = out->capacity ? 2 * out->capacity : 256;
			struct place *grown = reallocarray(out->items, capacity, sizeof(*grown));
			if (!grown)
				return error_set(e, ERR_MEMORY, "no memory for %zu lines", capacity);
			out->items = grown;
			out->capacity = capacity;
		}
		struct place *p = &out->items[out->count++];
		*p = (struct place){.text = line, .line = cursor.line};
		int status = json_parse(line, NULL, JSON_LINE | JSON_LAST_KEY_WINS, &document, e);
		if (status == 0)
			status = read_doc_id(json_root(document), &p->doc_id, e);
		json_free(document);
		if (status < 0)
			return error_prefix(e, "%s:%zu", path, cursor.line);
	}
	return 0;
}

static int by_document(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->doc_id != y->doc_id)
		return x->doc_id < y->doc_id ? -1 : 1;
	return (x->line > y->line) - (x->line < y->line);
}

static bool same_filter(const struct json *line, const struct json *other)
{
	const struct json *a = json_get(line, "filter"), *b = json_get(other, "filter");
	return json_is(a, JSON_STRING) && json_is(b, JSON_STRING) && str_equal(a->text, b->text);
}

/* A further line of the document says the same of it under another filter. */
static int check_same(const struct json *line, const struct json *first, const struct row *r, struct error *e)
{
	for (int i = 0; i < 3; i++) {
		char hash[SHA256_HEX_SIZE];
		TRY(read_hash(line, hash_names[i], hash, e));
		if (strcmp(hash, r->hashes[i]) != 0)
			return error_set(e, ERR_INPUT,
				"document %" PRId64 " has the %s %.16s, and %.16s on another line", r->sample.doc_id,
				hash_names[i], hash, r->hashes[i]);
	}
	if (same_filter(line, first))
		return error_set(e, ERR_INPUT, "document %" PRId64 " stands twice under the filter \"%.*s\"",
			r->sample.doc_id, STR_ARG(json_get(line, "filter")->text));
	return 0;
}

/* The harness hashes the context of a document's first request. */
static int check_prompt(const struct json *line, const char *hash, struct error *e)
{
	const struct json *request = json_get(json_get(line, "arguments"), "gen_args_0");
	const struct json *prompt = json_get(request, "arg_0");
	char own[SHA256_HEX_SIZE];
	if (!json_is(prompt, JSON_STRING))
		return 0;
	sha256_hex(prompt->text.data, prompt->text.length, own);
	if (strcmp(own, hash) == 0)
		return 0;
	return error_set(e, ERR_INPUT,
		"\"prompt_hash\" is %.16s, expected %.16s, the hash of the prompt in \"arguments\"", hash, own);
}

static int read_line(struct row *r, const struct json *line, const struct json *first, struct error *e)
{
	if (line == first) {
		for (int i = 0; i < 3; i++)
			TRY(read_hash(line, hash_names[i], r->hashes[i], e));
		TRY(read_response(line, r, e));
	} else {
		TRY(check_same(line, first, r, e));
	}
	TRY(check_prompt(line, r->hashes[1], e));
	return read_scores(line, r, e);
}

enum { MOST_LINES = 16 };

/* The lines of one document as one row. */
static int read_document(struct row *r, const char *path, const struct place *places, size_t n, struct error *e)
{
	struct json_document *lines[MOST_LINES] = {0};
	int status = 0;
	if (n > MOST_LINES)
		return error_set(e, ERR_INPUT, "%s: document %" PRId64 " stands on %zu lines, expected at most %d",
			path, places->doc_id, n, MOST_LINES);
	buf_clear(&r->metrics);
	buf_clear(&r->filtered);
	buf_append_char(&r->metrics, '{');
	buf_append_char(&r->filtered, '{');
	r->sample.doc_id = places->doc_id;
	for (size_t i = 0; i < n && status == 0; i++) {
		status = json_parse(places[i].text, NULL, JSON_LINE | JSON_LAST_KEY_WINS, &lines[i], e);
		for (size_t j = 1; j < i && status == 0; j++)
			if (same_filter(json_root(lines[i]), json_root(lines[j])))
				status = check_same(json_root(lines[i]), json_root(lines[j]), r, e);
		if (status == 0)
			status = read_line(r, json_root(lines[i]), json_root(lines[0]), e);
		if (status < 0)
			error_prefix(e, "%s:%zu", path, places[i].line);
	}
	for (size_t i = 0; i < n; i++)
		json_free(lines[i]);
	TRY(status);
	buf_append_char(&r->metrics, '}');
	buf_append_char(&r->filtered, '}');
	r->sample.doc_hash = r->hashes[0], r->sample.prompt_hash = r->hashes[1], r->sample.target_hash = r->hashes[2];
	r->sample.response = buf_str(&r->response);
	r->sample.metrics = buf_str(&r->metrics);
	r->sample.filtered = buf_str(&r->filtered);
	TRY(buf_check(&r->response, e));
	TRY(buf_check(&r->metrics, e));
	return buf_check(&r->filtered, e);
}

/* Every filter has a line for every document. PRECOND: both are in the file. */
static int check_lines(const char *path, const struct place *first, size_t n_first, const struct place *next, size_t n,
	struct error *e)
{
	if (n == n_first)
		return 0;
	return error_set(e, ERR_INPUT,
		"%s: document %" PRId64 " stands on %zu lines and document %" PRId64
		" on %zu, expected one for each filter",
		path, first->doc_id, n_first, next->doc_id, n);
}

int harness_samples_each(const char *path, const struct harness_task *task, int64_t variant_id,
	store_visit_sample *visit, void *context, int64_t *documents, struct error *e)
{
	struct buf text = {0};
	struct places places = {0};
	struct row row = {.task = task, .sample = {.variant_id = variant_id, .suite = task->suite, .task = task->name}};
	int status = file_read(path, &text, e);

	*documents = 0;
	if (status == 0)
		status = find_places(buf_str(&text), path, &places, e);
	if (status == 0 && places.count > 0)
		qsort(places.items, places.count, sizeof(*places.items), by_document);
	for (size_t i = 0, next, lines = 0; i < places.count && status == 0; i = next) {
		for (next = i + 1; next < places.count && places.items[next].doc_id == places.items[i].doc_id;)
			next++;
		lines = i == 0 ? next : lines;
		status = check_lines(path, places.items, lines, places.items + i, next - i, e);
		if (status == 0)
			status = read_document(&row, path, places.items + i, next - i, e);
		if (status == 0)
			status = visit(context, &row.sample, e);
		++*documents;
	}
	buf_free(&row.response);
	buf_free(&row.metrics);
	buf_free(&row.filtered);
	free(places.items);
	buf_free(&text);
	return status;
}
