/* Any text in any format: calls are read or named as broken, and lie inside the text; BFCL's converters of literals
 * make JSON of any text. The first byte chooses. */
#include <stdint.h>

#include "engine/text/tool_call.h"
#include "evals/bfcl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz_tool_call: %s\n", what);
	abort();
}

static const char tools_text[] = "[{\"type\": \"function\", \"function\": {\"name\": \"set\", \"parameters\": "
				 "{\"type\": \"object\", \"properties\": "
				 "{\"n\": {\"type\": \"integer\"}, \"s\": {\"type\": \"string\"}}}}}]";

static bool is_inside(struct str part, struct str text)
{
	return part.length == 0 || (part.data >= text.data && part.data + part.length <= text.data + text.length);
}

static void try_format(enum tool_format format, struct str text)
{
	struct json_document *tools;
	struct tool_calls calls;
	struct error e = {0};
	struct buf again = {0};
	require(json_parse(str_of(tools_text), NULL, 0, &tools, &e) == 0, e.message);
	require(tool_calls_parse(format, text, json_root(tools), &calls, &e) == 0, e.message);
	require(is_inside(calls.content, text) && is_inside(calls.reasoning, text), "content outside of the text");
	for (size_t i = 0; i < calls.count; i++) {
		const struct tool_call *call = &calls.items[i];
		require(is_inside(call->raw, text) && call->raw.length > 0, "a call outside of the text");
		require(call->error || json_is(call->arguments, JSON_OBJECT), "a call without arguments");
		if (call->arguments)
			json_dump_python(call->arguments, -1, false, &again);
	}
	buf_free(&again);
	tool_calls_free(&calls);
	json_free(tools);
}

static void try_literal(uint8_t choice, struct str text)
{
	static const char *const types[] = {"integer", "float", "double", "long", "boolean", "char", "String", "any",
		"Array", "ArrayList", "HashMap", "Bigint", "Boolean", "dict", "array"};
	struct bfcl_checker *checker;
	struct json_document *document = NULL;
	struct buf json = {0};
	struct error e = {0};
	require(bfcl_checker_new(&checker, &e) == 0, e.message);
	int status = bfcl_convert(checker, choice & 1 ? BFCL_JAVA : BFCL_JAVASCRIPT, text,
		str_of(types[choice % (sizeof(types) / sizeof(types[0]))]),
		choice & 2 ? str_of("float") : (struct str){0}, &json, &e);
	/* Texts of a JSON document are UTF-8; here they may be anything, which a pattern may refuse. */
	if (status == 0)
		require(json_parse(buf_str(&json), NULL, JSON_PYTHON_CONSTANTS, &document, &e) == 0, e.message);
	json_free(document);
	buf_free(&json);
	bfcl_checker_delete(checker);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct str text = {(const char *)data + 1, size - 1};
	if (data[0] >= 128)
		try_literal(data[0], text);
	else
		try_format((enum tool_format)(data[0] % 6), text);
	return 0;
}
