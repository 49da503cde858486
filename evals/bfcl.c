/* Categories of BFCL, and `assay rescore --suite bfcl`. */
#include "evals/bfcl.h"

#include <stdlib.h>

#include "datasets/records.h"
#include "engine/base/file.h"

static const struct bfcl_category categories[] = {
	{"simple_python", BFCL_SIMPLE, BFCL_PYTHON, false},
	{"simple_java", BFCL_SIMPLE, BFCL_JAVA, false},
	{"simple_javascript", BFCL_SIMPLE, BFCL_JAVASCRIPT, false},
	{"multiple", BFCL_MULTIPLE, BFCL_PYTHON, false},
	{"parallel", BFCL_PARALLEL, BFCL_PYTHON, false},
	{"parallel_multiple", BFCL_PARALLEL, BFCL_PYTHON, false},
	{"irrelevance", BFCL_IRRELEVANCE, BFCL_PYTHON, false},
	{"live_simple", BFCL_SIMPLE, BFCL_PYTHON, true},
	{"live_multiple", BFCL_MULTIPLE, BFCL_PYTHON, true},
	{"live_parallel", BFCL_PARALLEL, BFCL_PYTHON, true},
	{"live_parallel_multiple", BFCL_PARALLEL, BFCL_PYTHON, true},
	{"live_irrelevance", BFCL_IRRELEVANCE, BFCL_PYTHON, true},
	{"live_relevance", BFCL_RELEVANCE, BFCL_PYTHON, true},
};

enum { CATEGORY_COUNT = sizeof(categories) / sizeof(categories[0]) };

int bfcl_category_count(void)
{
	return CATEGORY_COUNT;
}

const struct bfcl_category *bfcl_category_at(int i)
{
	return &categories[i];
}

static const struct bfcl_category *category_named(struct str name)
{
	for (int i = 0; i < CATEGORY_COUNT; i++) {
		if (str_is(name, categories[i].name))
			return &categories[i];
	}
	return NULL;
}

/* What stands before the last "_". */
const struct bfcl_category *bfcl_category_of(struct str id)
{
	size_t end = id.length;
	while (end > 0 && id.data[end - 1] != '_')
		end--;
	return end > 0 ? category_named((struct str){id.data, end - 1}) : NULL;
}

/* ---- The data ---- */

struct category_data {
	struct records items, answers; /* loaded at the first line that needs them; items.count 0 before */
};

struct rescore {
	struct bfcl_checker *checker;
	const char *data_folder;
	struct category_data data[CATEGORY_COUNT];
	struct buf *out;
};

static int load(const struct rescore *r, const char *format, const struct bfcl_category *category, struct records *out,
	struct error *e)
{
	char name[128];
	snprintf(name, sizeof(name), format, category->name);
	char *path = path_join(r->data_folder, name, e);
	if (!path)
		return ERR_MEMORY;
	int status = records_load(out, path, e);
	free(path);
	return status;
}

static bool has_answers(const struct bfcl_category *category)
{
	return category->kind != BFCL_IRRELEVANCE && category->kind != BFCL_RELEVANCE;
}

static int load_category(struct rescore *r, const struct bfcl_category *category, struct error *e)
{
	struct category_data *data = &r->data[category - categories];
	if (data->items.count > 0)
		return 0;
	if (!r->data_folder)
		return error_set(e, ERR_INPUT, "the line holds no \"function\": expected --data with bfcl/ below it");
	TRY(load(r, "bfcl/BFCL_v4_%s.json", category, &data->items, e));
	if (has_answers(category))
		TRY(load(r, "bfcl/possible_answer/BFCL_v4_%s.json", category, &data->answers, e));
	return 0;
}

static const struct json *find_id(const struct records *records, struct str id)
{
	for (size_t i = 0; i < records->count; i++) {
		const struct json *value = json_get(records->items[i].doc, "id");
		if (json_is(value, JSON_STRING) && str_equal(value->text, id))
			return records->items[i].doc;
	}
	return NULL;
}

static int find_item(struct rescore *r, struct str id, struct bfcl_item *item, struct error *e)
{
	TRY(load_category(r, item->category, e));
	const struct category_data *data = &r->data[item->category - categories];
	const struct json *doc = find_id(&data->items, id), *answer = find_id(&data->answers, id);
	if (!doc || (has_answers(item->category) && !answer))
		return error_set(e, ERR_INPUT, "id \"%.*s\" is not in %s", STR_ARG(id),
			(doc ? &data->answers : &data->items)->path);
	item->functions = json_get(doc, "function");
	item->ground_truth = json_get(answer, "ground_truth");
	return 0;
}

/* ---- One line ---- */

static int read_item(struct rescore *r, const struct json *line, struct str id, struct bfcl_item *item, struct error *e)
{
	const struct json *category = json_get(line, "category");
	*item = (struct bfcl_item){.underscore_to_dot = json_bool(json_get(line, "underscore_to_dot"), false)};
	item->category = json_is(category, JSON_STRING) ? category_named(category->text) : bfcl_category_of(id);
	if (!item->category)
		return error_set(e, ERR_INPUT, "id \"%.*s\" is of no category of single turns", STR_ARG(id));
	item->functions = json_get(line, "function");
	item->ground_truth = json_get(line, "ground_truth");
	return item->functions ? 0 : find_item(r, id, item, e);
}

/* The calls of a decoded output, [{name: {argument: value}}]. Anything else is one call without arguments, which is of
 * the wrong format. */
static int read_calls(const struct json *output, struct bfcl_call **calls, int *n_calls, struct error *e)
{
	const bool is_list = json_is(output, JSON_ARRAY);
	size_t count = is_list ? output->count : 1;
	*n_calls = 0;
	*calls = mem_calloc(count, sizeof(**calls), e);
	if (!*calls)
		return ERR_MEMORY;
	if (!is_list) {
		(*calls)[(*n_calls)++] = (struct bfcl_call){0};
		return 0;
	}
	JSON_EACH (call, output) {
		struct bfcl_call *c = &(*calls)[(*n_calls)++];
		if (json_is(call, JSON_OBJECT) && call->count == 1)
			*c = (struct bfcl_call){call->child->key, call->child};
	}
	return 0;
}

static void write_verdict(const struct rescore *r, struct str id, bool valid, const struct bfcl_verdict *verdict)
{
	buf_append_text(r->out, "{\"id\": ");
	json_write_string(id, false, r->out);
	buf_printf(r->out, ", \"valid\": %s, \"error_type\": ", valid ? "true" : "false");
	if (valid)
		buf_append_text(r->out, "null");
	else
		json_write_string(str_of(verdict->type), false, r->out);
	buf_append_text(r->out, "}\n");
}

static int rescore_line(struct rescore *r, const struct json *line, struct error *e)
{
	struct str id;
	struct bfcl_item item;
	struct bfcl_call *calls = NULL;
	struct bfcl_verdict verdict = {0};
	const struct json *output = json_get(line, "model_output");
	int n_calls;
	TRY(column_string(line, "id", &id, e));
	if (!output)
		return error_set(e, ERR_INPUT, "the line has no \"model_output\"");
	TRY(read_item(r, line, id, &item, e));
	TRY(read_calls(output, &calls, &n_calls, e));
	int valid = bfcl_check(r->checker, &item, calls, n_calls, &verdict, e);
	if (valid >= 0)
		write_verdict(r, id, valid, &verdict);
	bfcl_verdict_free(&verdict);
	free(calls);
	return valid < 0 ? valid : 0;
}

int bfcl_rescore(const char *data_folder, const char *path, struct buf *out, struct error *e)
{
	struct rescore r = {.data_folder = data_folder, .out = out};
	struct buf text = {0};
	struct str line;
	int status = 0;
	TRY_CLEANUP(status, bfcl_checker_new(&r.checker, e));
	TRY_CLEANUP(status, file_read(path, &text, e));
	struct line_cursor cursor = {.text = buf_str(&text)};
	while (line_next(&cursor, &line)) {
		struct json_document *document = NULL;
		status = json_parse(line, NULL, JSON_LINE | JSON_PYTHON_CONSTANTS, &document, e);
		if (status == 0)
			status = rescore_line(&r, json_root(document), e);
		json_free(document);
		if (status < 0)
			TRY_CLEANUP(status, error_prefix(e, "%s:%zu", input_name(path), cursor.line));
	}
	TRY_CLEANUP(status, buf_check(out, e));
cleanup:
	for (int i = 0; i < CATEGORY_COUNT; i++) {
		records_free(&r.data[i].items);
		records_free(&r.data[i].answers);
	}
	bfcl_checker_delete(r.checker);
	buf_free(&text);
	return status;
}
