/* Tool calls: BFCL's categories of single turns, asked in the model's own format through its chat template. Three
 * metrics an item: ast, BFCL's verdict; valid, whether its calls could be carried out (none without a call); called,
 * whether there was one. */
#include <math.h>
#include <stdlib.h>

#include "datasets/records.h"
#include "engine/base/file.h"
#include "evals/bfcl.h"
#include "evals/suite_type.h"
#include "evals/tool_verdict.h"

enum { MAX_TOKENS = 512, METRIC_AST = 0, METRIC_VALID = 1, METRIC_CALLED = 2 };

static const char *const metrics[] = {"ast,none", "valid,none", "called,none"};
static const char prefix[] = "toolcall_";

/* The category of a task or suite ("toolcall_simple_python"), or NULL. */
static const struct bfcl_category *category_named(const char *name)
{
	const char *rest = suite_name_after(name, prefix);
	for (int i = 0; rest && i < bfcl_category_count(); i++) {
		const struct bfcl_category *category = bfcl_category_at(i);
		const char *end = suite_name_after(rest, category->name);
		if (end && !*end)
			return category;
	}
	return NULL;
}

/* ---- Items ---- */

static int append_conversation(struct conversation *c, const struct json *doc, struct error *e)
{
	const struct json *question, *functions;
	struct buf tools = {0};
	TRY(column_node(doc, "question", JSON_ARRAY, &question, e));
	TRY(column_node(doc, "function", JSON_ARRAY, &functions, e));
	int status = bfcl_tools_append(functions, category_named(c->task->name)->language, &tools, e);
	if (status == 0)
		status = json_parse(buf_str(&tools), "tools", JSON_LAST_KEY_WINS, &c->tools, e);
	buf_free(&tools);
	TRY(status);
	const struct json *turn = json_at(question, 0);
	if (!json_is(turn, JSON_ARRAY) || question->count != 1)
		return error_set(
			e, ERR_INPUT, "column \"question\" holds %zu turns, expected one of messages", question->count);
	TRY(conversation_append(c, turn, e));
	return 1;
}

/* The right answer is in a file of its own. */
static int read_content(const struct json *doc, struct doc_content *out, struct error *e)
{
	struct str id;
	(void)out;
	return column_string(doc, "id", &id, e);
}

/* ---- Verdicts ---- */

/* The calls as BFCL's checker takes them: decoded JSON. A text in which a call is broken has none. */
static int bfcl_calls(const struct tool_calls *calls, struct bfcl_call **out, struct error *e)
{
	*out = mem_calloc(calls->count, sizeof(**out), e);
	if (!*out)
		return ERR_MEMORY;
	for (size_t i = 0; i < calls->count; i++) {
		const struct tool_call *call = &calls->items[i];
		if (call->error && !call->arguments)
			return 0;
		(*out)[i] = (struct bfcl_call){call->name, call->arguments};
	}
	return (int)calls->count;
}

/* Appends "type: about". A text without a call that can be decoded is BFCL's decoder_failed, where one is wanted. */
static int judge_calls(const struct bfcl_item *item, const struct bfcl_call *calls, int n_calls, struct buf *error_type,
	struct error *e)
{
	struct bfcl_checker *checker = NULL;
	struct bfcl_verdict verdict = {0};
	const bool wants_call = item->category->kind != BFCL_IRRELEVANCE && item->category->kind != BFCL_RELEVANCE;
	if (wants_call && n_calls == 0) {
		buf_append_text(error_type, "ast_decoder:decoder_failed");
		return 0;
	}
	if (item->category->language != BFCL_PYTHON)
		TRY(bfcl_checker_new(&checker, e));
	int valid = bfcl_check(checker, item, calls, n_calls, &verdict, e);
	if (valid == 0)
		buf_printf(error_type, "%s%s%.*s", verdict.type, verdict.about.length ? ": " : "",
			STR_ARG(buf_str(&verdict.about)));
	bfcl_verdict_free(&verdict);
	bfcl_checker_delete(checker);
	return valid;
}

static int judge_ast(
	const struct suite_item *item, const struct tool_calls *calls, struct buf *error_type, struct error *e)
{
	const struct bfcl_item b = {.category = category_named(item->task),
		.functions = json_get(item->doc, "function"),
		.ground_truth = json_get(item->truth, "ground_truth"),
		.underscore_to_dot = true};
	struct bfcl_call *decoded = NULL;
	int n_calls = bfcl_calls(calls, &decoded, e);
	int valid = n_calls < 0 ? n_calls : judge_calls(&b, decoded, n_calls, error_type, e);
	free(decoded);
	return valid;
}

static int judge_parsed(
	const struct suite_item *item, const struct tool_calls *calls, struct item_score *out, struct error *e)
{
	struct buf error_type = {0}, invalid = {0};
	int ast = judge_ast(item, calls, &error_type, e);
	int valid = ast < 0 ? ast : tool_calls_valid(calls, item->tools, &invalid, e);
	int status = valid < 0 ? valid : tool_calls_keep(calls, &error_type, &invalid, out, e);
	out->value[METRIC_AST] = ast;
	out->value[METRIC_VALID] = calls->count > 0 ? (double)valid : (double)NAN;
	out->value[METRIC_CALLED] = calls->count > 0;
	buf_free(&error_type);
	buf_free(&invalid);
	return status;
}

static int judge(const struct suite_item *item, const struct answer *answer, struct item_score *out, struct error *e)
{
	struct tool_calls calls;
	TRY(tool_calls_parse(item->tool_format, answer->text, item->tools, &calls, e));
	int status = judge_parsed(item, &calls, out, e);
	tool_calls_free(&calls);
	return status;
}

/* ---- BFCL's aggregation ---- */

struct aggregation {
	const char *const *names; /* [n_tasks] */
	const struct metric_summary *tasks;
	int n_tasks;
	suite_visit_result *visit;
	void *context;
};

/* The result of a category, or NULL without one. */
static const struct metric_summary *result_of(const struct aggregation *a, const char *category)
{
	for (int t = 0; t < a->n_tasks; t++) {
		const char *alias = suite_name_after(a->names[t], prefix);
		if (alias && strcmp(alias, category) == 0 && a->tasks[t].n > 0)
			return &a->tasks[t];
	}
	return NULL;
}

/* Each of n results weighs the same. *out has n 0 where one is missing. */
static void mean_of(const struct metric_summary *const *results, int n, struct metric_summary *out)
{
	double variance = 0;
	*out = (struct metric_summary){.stderr_value = NAN};
	for (int i = 0; i < n; i++) {
		if (!results[i] || results[i]->n == 0) {
			out->n = 0;
			return;
		}
		out->name = results[i]->name;
		out->n += results[i]->n;
		out->value += results[i]->value / n;
		variance += results[i]->stderr_value * results[i]->stderr_value;
	}
	out->stderr_value = sqrt(variance) / n;
}

static int show(const struct aggregation *a, const char *name, const struct metric_summary *result, struct error *e)
{
	return result->n > 0 ? a->visit(a->context, name, result, e) : 0;
}

/* The live categories weigh by their items. */
static void pool_live(const struct aggregation *a, struct metric_summary *out)
{
	static const char *const names[] = {"live_simple", "live_multiple", "live_parallel", "live_parallel_multiple"};
	struct metric_summary results[4];
	*out = (struct metric_summary){0};
	for (int i = 0; i < 4; i++) {
		const struct metric_summary *result = result_of(a, names[i]);
		if (!result)
			return;
		results[i] = *result;
	}
	metric_pool(results[0].name, results, 4, out);
}

static int add_results(const char *const *task_names, const struct metric_summary *tasks, int n_tasks,
	suite_visit_result *visit, void *context, struct error *e)
{
	const struct aggregation a = {task_names, tasks, n_tasks, visit, context};
	struct metric_summary simple, plain, live, irrelevance, all;
	const struct metric_summary *const languages[] = {
		result_of(&a, "simple_python"), result_of(&a, "simple_java"), result_of(&a, "simple_javascript")};
	mean_of(languages, 3, &simple);
	const struct metric_summary *const kinds[] = {
		&simple, result_of(&a, "multiple"), result_of(&a, "parallel"), result_of(&a, "parallel_multiple")};
	mean_of(kinds, 4, &plain);
	pool_live(&a, &live);
	const struct metric_summary *const silences[] = {
		result_of(&a, "irrelevance"), result_of(&a, "live_irrelevance")};
	mean_of(silences, 2, &irrelevance);
	const struct metric_summary *const parts[] = {&plain, &live, &irrelevance};
	mean_of(parts, 3, &all);
	TRY(show(&a, "toolcall_mean_simple", &simple, e));
	TRY(show(&a, "toolcall_mean_non_live", &plain, e));
	TRY(show(&a, "toolcall_mean_live", &live, e));
	TRY(show(&a, "toolcall_mean_irrelevance", &irrelevance, e));
	return show(&a, "toolcall_mean", &all, e);
}

/* ---- Tasks ---- */

static bool takes(const char *name)
{
	const char *rest = suite_name_after(name, "toolcall");
	return (rest && !*rest) || category_named(name);
}

static int file_of(const char *folder, const char *format, const char *category, char **out, struct error *e)
{
	char relative[128];
	snprintf(relative, sizeof(relative), format, category);
	*out = path_join(folder, relative, e);
	return *out ? 0 : ERR_MEMORY;
}

static int add_task(
	const struct bfcl_category *category, const char *folder, struct suite_task_list *out, struct error *e)
{
	struct suite_task *task = suite_task_add(out, e);
	if (!task)
		return ERR_MEMORY;
	TRY(task_text(&task->name, e, "%s%s", prefix, category->name));
	TRY(task_text(&task->alias, e, "%s", category->name));
	TRY(file_of(folder, "bfcl/BFCL_v4_%s.json", category->name, &task->test_path, e));
	if (category->kind == BFCL_IRRELEVANCE || category->kind == BFCL_RELEVANCE)
		return 0;
	return file_of(folder, "bfcl/possible_answer/BFCL_v4_%s.json", category->name, &task->truth_path, e);
}

/* 1 when the data hold the category. */
static int has_data(const struct bfcl_category *category, const char *folder, struct error *e)
{
	char *path;
	TRY(file_of(folder, "bfcl/BFCL_v4_%s.json", category->name, &path, e));
	bool there = file_exists(path);
	free(path);
	return there;
}

static int find_tasks(
	const char *name, const struct suite_options *options, struct suite_task_list *out, struct error *e)
{
	const struct bfcl_category *only = category_named(name);
	TRY(task_text(&out->suite, e, "toolcall%s%s", only ? "_" : "", only ? only->name : ""));
	if (only)
		return add_task(only, options->data_folder, out, e);
	for (int i = 0; i < bfcl_category_count(); i++) {
		int there = has_data(bfcl_category_at(i), options->data_folder, e);
		TRY(there);
		if (there)
			TRY(add_task(bfcl_category_at(i), options->data_folder, out, e));
	}
	if (out->count > 0)
		return 0;
	return error_set(e, ERR_MISSING, "%s/bfcl: expected files of BFCL (BFCL_v4_simple_python.json ...)",
		options->data_folder);
}

const struct suite_type suite_type_toolcall = {
	.name = "toolcall",
	.also = "toolcall_<category>",
	.definition = "BFCL v4, single turns, in the model's own tool format: AST match, validity, trigger agreement",
	.kind = REQUEST_GENERATE,
	.metrics = metrics,
	.n_metrics = 3,
	.takes = takes,
	.find_tasks = find_tasks,
	.max_tokens = MAX_TOKENS,
	.append_conversation = append_conversation,
	.read_content = read_content,
	.judge = judge,
	.add_results = add_results,
	.added_prefix = "toolcall_mean",
	.trigger_metric = "called,none",
};
