#include "evals/exam_calls.h"

#include <stdint.h>
#include <stdlib.h>

#include "engine/base/utf8.h"
#include "evals/bfcl.h"
#include "evals/json_schema.h"
#include "evals/tool_verdict.h"

/* ---- json-schema ---- */

int exam_schema_read(const struct json *doc, const struct json *expected, struct error *e)
{
	struct json_schema *schema = NULL;
	(void)doc;
	if (!expected)
		return error_set(e, ERR_INPUT, "\"expected\" is missing, expected a JSON Schema");
	if (json_schema_new(expected, &schema, e) < 0)
		return error_prefix(e, "\"expected\"");
	json_schema_delete(schema);
	return 0;
}

/* What stands between the first fence (with its word for the language) and the next; false without such a block. */
static bool fenced_block(struct str text, struct str *block)
{
	size_t open = str_find(text, str_of("```"), 0);
	size_t line = open == SIZE_MAX ? open : str_find(text, str_of("\n"), open);
	size_t close = line == SIZE_MAX ? line : str_find(text, str_of("```"), line);
	if (close == SIZE_MAX)
		return false;
	*block = (struct str){text.data + line + 1, close - line - 1};
	return true;
}

int exam_schema_apply(
	const struct json *doc, const struct json *expected, struct str answer, bool *passed, struct error *e)
{
	struct json_document *document = NULL;
	struct json_schema *schema = NULL;
	struct str block;
	(void)doc;
	*passed = false;
	bool is_json = json_parse(answer, NULL, JSON_LAST_KEY_WINS, &document, NULL) == 0;
	if (!is_json && fenced_block(answer, &block))
		is_json = json_parse(block, NULL, JSON_LAST_KEY_WINS, &document, NULL) == 0;
	if (!is_json)
		return 0;
	int result = json_schema_new(expected, &schema, e);
	if (result == 0)
		result = json_schema_check(schema, json_root(document), NULL, e);
	*passed = result == 1;
	json_schema_delete(schema);
	json_free(document);
	return result < 0 ? result : 0;
}

/* ---- tool-call ---- */

static int fail_expected(const struct json *value, struct error *e)
{
	return error_set(e, ERR_INPUT,
		"\"expected\" holds %s, expected [{\"function\": {\"argument\": [accepted values]}}]",
		json_type_name(value));
}

/* {function: {argument: [values]}} of a function that the tools have. */
static int read_truth(const struct json *tools, const struct json *truth, struct error *e)
{
	if (!json_is(truth, JSON_OBJECT) || truth->count != 1 || !json_is(truth->child, JSON_OBJECT))
		return fail_expected(truth, e);
	JSON_EACH (values, truth->child) {
		if (!json_is(values, JSON_ARRAY))
			return fail_expected(values, e);
	}
	const struct json *function = tool_function_find(tools, truth->child->key);
	if (!function)
		return error_set(e, ERR_INPUT, "\"expected\": no tool is called \"%.*s\"", STR_ARG(truth->child->key));
	if (!json_is(json_get(function, "parameters"), JSON_OBJECT))
		return error_set(e, ERR_INPUT, "tool \"%.*s\" has no \"parameters\"", STR_ARG(truth->child->key));
	return 0;
}

int exam_tool_call_read(const struct json *doc, const struct json *expected, struct error *e)
{
	const struct json *tools = json_get(doc, "tools");
	if (!json_is(tools, JSON_ARRAY) || tools->count == 0)
		return error_set(e, ERR_INPUT, "check \"tool-call\": \"tools\" is %s, expected an array of tools",
			json_is(tools, JSON_ARRAY) ? "empty" : json_type_name(tools));
	if (!json_is(expected, JSON_ARRAY))
		return fail_expected(expected, e);
	JSON_EACH (truth, expected)
		TRY(read_truth(tools, truth, e));
	return 0;
}

/* 1 when they match. A call that cannot be decoded is none that does. */
static int match_calls(
	const struct bfcl_item *item, const struct tool_calls *calls, struct buf *error_type, struct error *e)
{
	struct bfcl_verdict verdict = {.type = "ast_decoder:decoder_failed"};
	struct bfcl_call *decoded = mem_calloc(calls->count, sizeof(*decoded), e);
	if (!decoded)
		return ERR_MEMORY;
	bool broken = calls->count == 0 && item->ground_truth->count > 0;
	for (size_t i = 0; i < calls->count; i++) {
		decoded[i] = (struct bfcl_call){calls->items[i].name, calls->items[i].arguments};
		broken = broken || calls->items[i].error;
	}
	int result = broken ? 0 : bfcl_check(NULL, item, decoded, (int)calls->count, &verdict, e);
	if (result == 0)
		buf_printf(error_type, "%s%s%.*s", verdict.type, verdict.about.length ? ": " : "",
			STR_ARG(buf_str(&verdict.about)));
	bfcl_verdict_free(&verdict);
	free(decoded);
	return result;
}

/* What the check does not ask for, but who reads the calls does. */
static int judge_validity(
	const struct tool_calls *calls, const struct json *tools, struct buf *invalid, struct error *e)
{
	struct error why = {0};
	int valid = calls->count > 0 ? tool_calls_valid(calls, tools, invalid, &why) : 1;
	if (valid == ERR_MEMORY)
		return error_set(e, ERR_MEMORY, "%s", why.message);
	if (valid < 0)
		buf_printf(invalid, "not judged: %s", why.message);
	return 0;
}

int exam_tool_call_apply(const struct json *doc, const struct json *expected, enum tool_format format,
	const struct answer *answer, struct item_score *out, struct error *e)
{
	static const struct bfcl_category one = {"exam", BFCL_MULTIPLE, BFCL_OWN, false},
					  several = {"exam", BFCL_PARALLEL, BFCL_OWN, false};
	const struct json *tools = json_get(doc, "tools");
	const struct bfcl_item item = {
		.category = expected->count == 1 ? &one : &several, .functions = tools, .ground_truth = expected};
	struct tool_calls calls;
	struct buf error_type = {0}, invalid = {0};
	TRY(tool_calls_parse(format, answer->text, tools, &calls, e));
	int passed = 0;
	if (answer->truncated)
		buf_append_text(&error_type, "truncated");
	else
		passed = match_calls(&item, &calls, &error_type, e);
	int status = passed < 0 ? passed : judge_validity(&calls, tools, &invalid, e);
	if (status == 0)
		status = tool_calls_keep(&calls, &error_type, &invalid, out, e);
	out->value[0] = passed == 1;
	buf_free(&error_type);
	buf_free(&invalid);
	tool_calls_free(&calls);
	return status;
}
