/* Tool calls read from text: each format as models write it, each leniency, broken and hostile texts. The formats are
 * those of the models' own chat templates; T-numbers of cases from public threads stand beside them. */
#include "engine/text/tool_call.h"
#include "tests/support.h"

const char *const test_program_name = "tool_call";

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static const char tools_text[] =
	"[{\"type\": \"function\", \"function\": {\"name\": \"set\", \"parameters\": {\"type\": \"object\", "
	"\"properties\": "
	"{\"n\": {\"type\": \"integer\"}, \"s\": {\"type\": \"string\"}}}}}, {\"name\": \"bare\", \"parameters\": {}}]";

/* What was read, in one line: each call as name(arguments), or name!error; then the leniencies; then the content. */
static void describe(const struct tool_calls *calls, struct buf *out)
{
	unsigned leniencies = 0;
	for (size_t i = 0; i < calls->count; i++) {
		const struct tool_call *call = &calls->items[i];
		buf_append_text(out, i ? " " : "");
		buf_append_str(out, call->name);
		if (call->error) {
			buf_printf(out, "!%s", call->error);
		} else {
			buf_append_char(out, '(');
			json_dump_python(call->arguments, -1, true, out);
			buf_append_char(out, ')');
		}
		leniencies |= call->leniencies;
	}
	buf_append_text(out, " | ");
	tool_leniency_append(leniencies, out);
	buf_append_text(out, " | ");
	buf_append_str(out, calls->content);
}

#define BEGIN "<|tool_calls_section_begin|>"
#define END "<|tool_calls_section_end|>"
#define CALL(id, json) "<|tool_call_begin|>" id "<|tool_call_argument_begin|>" json "<|tool_call_end|>"

static const struct {
	enum tool_format format;
	const char *text, *read;
} cases[] = {
	/* Hermes, Qwen */
	{TOOL_FORMAT_HERMES, "<tool_call>\n{\"name\": \"set\", \"arguments\": {\"n\": 1}}\n</tool_call>",
		"set({\"n\": 1}) |  | "},
	{TOOL_FORMAT_HERMES,
		"I will. <tool_call>{\"name\":\"set\",\"arguments\":{}}</tool_call>\n<tool_call>\n{\"arguments\": "
		"{\"s\": "
		"\"x\"}, \"name\": \"b.c\"}\n</tool_call>",
		"set({}) b.c({\"s\": \"x\"}) |  | I will."},
	{TOOL_FORMAT_HERMES, "<think>\n<tool_call>{}</tool_call>\n</think>\n\nNo.", " |  | No."},
	{TOOL_FORMAT_HERMES, "<think>\n<tool_call>{}", " |  | "},
	{TOOL_FORMAT_HERMES, "Just text { \"name\": 1 }", " |  | Just text { \"name\": 1 }"},
	{TOOL_FORMAT_HERMES, "", " |  | "},
	{TOOL_FORMAT_HERMES, "<tool_call>\n{\"name\": \"set\", \"arguments\": {\"n\": 1}}",
		"set({\"n\": 1}) | unclosed | "},
	{TOOL_FORMAT_HERMES, "<tool_call>\n{\"name\": \"set\", \"argum",
		"!no JSON: line 1, column 17: the string that begins "
		"here has no closing quote | unclosed | "},
	{TOOL_FORMAT_HERMES, "<tool_call></tool_call>",
		"!no JSON: line 1, column 1: expected a JSON value, found the end of "
		"the text |  | "},
	{TOOL_FORMAT_HERMES, "<tool_call>[1]</tool_call>", "!array, expected an object |  | "},
	{TOOL_FORMAT_HERMES, "<tool_call>{\"name\": 5, \"arguments\": {}}</tool_call>",
		"!\"name\" is number, expected a string |  | "},
	{TOOL_FORMAT_HERMES, "<tool_call>{\"name\": \"set\", \"arguments\": [1]}</tool_call>",
		"set!the arguments are array, expected an object |  | "},
	/* one line of JSON, fourteen ways (T39; decoding by Python's json) */
	{TOOL_FORMAT_HERMES, "<tool_call>{\"name\": \"set\", \"arguments\": {\"n\": 1, \"n\": 2}}</tool_call>",
		"set({\"n\": 2}) |  | "},
	{TOOL_FORMAT_HERMES, "<tool_call>{\"name\": \"set\", \"arguments\": {\"n\": 1}}}</tool_call>",
		"!no JSON: line 1, column 39: expected the end of the text after the JSON value, found '}' |  | "},
	{TOOL_FORMAT_HERMES, "<tool_call>{\"name\": \"set\"}</tool_call>", "set!no \"arguments\" |  | "},
	{TOOL_FORMAT_HERMES, "<tool_call>{\"name\": \"set\", \"parameters\": {\"n\": 1}}</tool_call>",
		"set!no \"arguments\" |  | "},
	{TOOL_FORMAT_HERMES, "<tool_call>{\"name\": \"set\", \"arguments\": {\"n\": 9007199254740993}}</tool_call>",
		"set({\"n\": 9007199254740993}) |  | "},
	{TOOL_FORMAT_HERMES, "<tool_call>{\"name\": \"set\", \"arguments\": {\"s\": \"a\\u0000b\"}}</tool_call>",
		"set({\"s\": \"a\\u0000b\"}) |  | "},
	{TOOL_FORMAT_HERMES, "<tool_call>{\"name\": \"set\", \"arguments\": {\"n\": NaN}}</tool_call>",
		"set({\"n\": NaN}) | python-constants | "},
	{TOOL_FORMAT_HERMES, "<tool_call>{\"name\": \"set\", \"arguments\": {\"s\": \"a\nb\"}}</tool_call>",
		"!no JSON: line 1, column 38: control character U+000A in a string, expected it as an escape |  | "},
	{TOOL_FORMAT_HERMES, "<tool_call>{\"name\": \"set\", \"arguments\": \"{\\\"n\\\": 3}\"}</tool_call>",
		"set({\"n\": 3}) | arguments-as-text | "},
	{TOOL_FORMAT_HERMES, "<tool_call>{\"name\": \"set\", \"arguments\": {\"s\": \"\\ud83d\"}}</tool_call>",
		"set({\"s\": \"\\ufffd\"}) |  | "},
	{TOOL_FORMAT_HERMES, "<tool_call>{\"name\": \"set\", \"arguments\": {\"n\": 1e2}}</tool_call>",
		"set({\"n\": 100.0}) |  | "},
	{TOOL_FORMAT_HERMES, "<tool_call>{\"Name\": \"set\", \"Arguments\": {\"n\": 1}}</tool_call>",
		"!\"name\" is missing, expected a string |  | "},
	{TOOL_FORMAT_HERMES,
		"<tool_call>{\"name\": \"set\", \"arguments\": {\"n\": 1}}\n{\"name\": \"set\", \"arguments\": {\"n\": "
		"2}}</tool_call>",
		"!no JSON: line 2, column 1: expected the end of the text after the JSON value, found '{' |  | "},
	{TOOL_FORMAT_HERMES, "<tool_call>{\"name\": \"set\", \"arguments\": {\"s\": \"\\d+\"}}</tool_call>",
		"!no JSON: line 1, column 38: expected one of \"\\/bfnrtu after '\\', found 'd' |  | "},
	{TOOL_FORMAT_HERMES, "<tool_call>{\"name\": \"set\", \"arguments\": \"{\"}</tool_call>",
		"set!no JSON: line 1, column 2: expected a key in double quotes, found the end of the text | "
		"arguments-as-text | "},
	/* Llama 3 */
	{TOOL_FORMAT_LLAMA3, "{\"name\": \"set\", \"parameters\": {\"n\": 1}}", "set({\"n\": 1}) |  | "},
	{TOOL_FORMAT_LLAMA3, "<|python_tag|>{\"name\": \"set\", \"parameters\": {\"n\": 1}}", "set({\"n\": 1}) |  | "},
	{TOOL_FORMAT_LLAMA3,
		"{\"name\": \"set\", \"parameters\": {\"s\": \"a;}\\\"{\"}}; {\"name\": \"bare\", \"parameters\": {}}",
		"set({\"s\": \"a;}\\\"{\"}) bare({}) |  | "},
	{TOOL_FORMAT_LLAMA3, "{\"name\": \"set\", \"arguments\": {\"n\": 1}}",
		"set({\"n\": 1}) | other-arguments-key | "},
	{TOOL_FORMAT_LLAMA3, "{\"name\": \"set\", \"parameters\": {\"n\": 1}}\nThat is all.",
		"set({\"n\": 1}) | text-behind | "},
	{TOOL_FORMAT_LLAMA3, "{\"name\": \"set\", \"parameters\": {\"n\": 1}",
		"!no JSON: line 1, column 39: expected ',' or '}', "
		"found the end of the text |  | "},
	{TOOL_FORMAT_LLAMA3, "{\"answer\": 5}", " |  | {\"answer\": 5}"},
	{TOOL_FORMAT_LLAMA3, "The answer: {\"name\": \"set\", \"parameters\": {}}",
		" |  | The answer: {\"name\": \"set\", \"parameters\": {}}"},
	{TOOL_FORMAT_LLAMA3, "<|python_tag|>brave_search.call(query=\"x\")",
		"!no JSON object behind <|python_tag|> |  | "},
	/* GLM */
	{TOOL_FORMAT_GLM,
		"<tool_call>set\n<arg_key>n</arg_key>\n<arg_value>5</arg_value>\n<arg_key>s</arg_key>\n<arg_value>5</"
		"arg_value>\n"
		"</tool_call>",
		"set({\"n\": 5, \"s\": \"5\"}) |  | "},
	{TOOL_FORMAT_GLM, "<tool_call>set<arg_key>s</arg_key><arg_value> a \"b\" </arg_value></tool_call>",
		"set({\"s\": \" a \\\"b\\\" \"}) |  | "},
	{TOOL_FORMAT_GLM,
		"<tool_call>other\n<arg_key>l</arg_key>\n<arg_value>[1, {\"a\": null}]</arg_value>\n</tool_call>",
		"other({\"l\": [1, {\"a\": null}]}) |  | "},
	{TOOL_FORMAT_GLM, "<think>x</think>\nOk.\n<tool_call>bare\n</tool_call>", "bare({}) |  | Ok."},
	{TOOL_FORMAT_GLM, "<tool_call>set\n<arg_key>n</arg_key>\n<arg_value>five</arg_value>\n</tool_call>",
		"set({\"n\": \"five\"}) | value-as-text | "},
	{TOOL_FORMAT_GLM, "<tool_call>set\n<arg_key>n</arg_key>\n<arg_value>True</arg_value>\n</tool_call>",
		"set({\"n\": true}) | python-literal | "},
	{TOOL_FORMAT_GLM,
		"<tool_call>set\n<arg_key>n</arg_key>\n<arg_value>1</arg_value>\n<arg_key>n</arg_key>\n"
		"<arg_value>2</arg_value></tool_call>",
		"set({\"n\": 2}) |  | "},
	{TOOL_FORMAT_GLM, "<tool_call>set\n<arg_key>n</arg_key>\n<arg_value>5", "set({\"n\": 5}) | unclosed | "},
	{TOOL_FORMAT_GLM, "<tool_call>set\n<arg_key>n", "set!<arg_key> is not closed | unclosed | "},
	{TOOL_FORMAT_GLM,
		"<tool_call>set\n<arg_key>n</arg_key>\n<arg_key>s</arg_key><arg_value>x</arg_value></tool_call>",
		"set!argument \"n\" has no <arg_value> |  | "},
	{TOOL_FORMAT_GLM, "<tool_call>\n</tool_call>", "!no name |  | "},
	/* Kimi */
	{TOOL_FORMAT_KIMI, "Sure." BEGIN CALL("functions.set:0", "{\"n\": 1}") CALL("functions.b.c-d:12", "{}") END,
		"set({\"n\": 1}) b.c-d({}) |  | Sure."},
	{TOOL_FORMAT_KIMI, BEGIN CALL("set:0", "{\"n\": 1}") END, "set({\"n\": 1}) | id-without-prefix | "},
	{TOOL_FORMAT_KIMI, BEGIN CALL("functions.set", "{\"n\": 1}") END, "set({\"n\": 1}) | id-without-index | "},
	{TOOL_FORMAT_KIMI, CALL("functions.set:0", "{\"n\": 1}"), "set({\"n\": 1}) | no-section | "},
	{TOOL_FORMAT_KIMI, BEGIN "<|tool_call_begin|>functions.set:0<|tool_call_argument_begin|>{\"n\": 1}" END,
		"set({\"n\": 1}) | unclosed | "},
	{TOOL_FORMAT_KIMI, BEGIN "<|tool_call_begin|>functions.set:0" END,
		"set!no <|tool_call_argument_begin|> | unclosed | "},
	{TOOL_FORMAT_KIMI, BEGIN CALL("functions.:0", "{}") END, "!no name |  | "},
	{TOOL_FORMAT_KIMI, BEGIN CALL("functions.set:0", "{\"n\": }") END,
		"set!no JSON: line 1, column 7: expected a JSON value, found '}' |  | "},
	{TOOL_FORMAT_KIMI, BEGIN CALL("functions.set:0", "5") END,
		"set!the arguments are number, expected an object |  | "},
	{TOOL_FORMAT_KIMI, BEGIN END, " |  | " BEGIN END},
	/* plain JSON, as Qwen2.5-Coder-0.5B writes it */
	{TOOL_FORMAT_JSON, "```json\n{\"name\": \"set\", \"arguments\": {\"n\": 1}}\n```",
		"set({\"n\": 1}) | unmarked | "},
	{TOOL_FORMAT_JSON,
		"Two:\n```\n[{\"name\": \"set\", \"arguments\": {}}, {\"name\": \"b\", \"parameters\": "
		"{}}]\n```\n```\n{\"name\": "
		"\"c\", \"arguments\": {}}",
		"set({}) b({}) c({}) | other-arguments-key, unmarked | Two:"},
	{TOOL_FORMAT_JSON, " {\"name\": \"set\", \"arguments\": {}}", "set({}) | unmarked | "},
	{TOOL_FORMAT_JSON, "<tool_call>{\"name\": \"set\", \"arguments\": {}}</tool_call>", "set({}) |  | "},
	{TOOL_FORMAT_JSON, "{\"name\": \"set\", \"arguments\": {}",
		"!no JSON: line 1, column 32: expected ',' or '}', found the end of the text | unmarked | "},
	{TOOL_FORMAT_JSON, "```json\n{\"answer\": 5}\n```", " |  | ```json\n{\"answer\": 5}\n```"},
	{TOOL_FORMAT_JSON, "It is {\"name\": 1}", " |  | It is {\"name\": 1}"},
	{TOOL_FORMAT_JSON, "```", " |  | ```"},
	{TOOL_FORMAT_NONE, "<tool_call>{}</tool_call>", " |  | <tool_call>{}</tool_call>"},
};

START_TEST(reads)
{
	struct json_document *tools;
	struct tool_calls calls;
	struct buf read = {0};
	CHECK_OK(json_parse(str_of(tools_text), NULL, JSON_LAST_KEY_WINS, &tools, &test_error));
	CHECK_OK(tool_calls_parse(cases[_i].format, str_of(cases[_i].text), json_root(tools), &calls, &test_error));
	describe(&calls, &read);
	ck_assert_msg(strcmp(buf_text(&read), cases[_i].read) == 0, "%s:\n%s\nexpected\n%s", cases[_i].text,
		buf_text(&read), cases[_i].read);
	tool_calls_free(&calls);
	json_free(tools);
	buf_free(&read);
}
END_TEST

/* Raw texts and ids are where they stand. */
START_TEST(keeps_the_text)
{
	static const char text[] = "a" BEGIN CALL("functions.set:0", "{}") END "b";
	struct tool_calls calls;
	CHECK_OK(tool_calls_parse(TOOL_FORMAT_KIMI, str_of(text), NULL, &calls, &test_error));
	ck_assert_uint_eq(calls.count, 1);
	ck_assert(str_is(calls.items[0].raw, CALL("functions.set:0", "{}")));
	ck_assert(str_is(calls.items[0].id, "functions.set:0"));
	tool_calls_free(&calls);
	CHECK_OK(tool_calls_parse(
		TOOL_FORMAT_HERMES, str_of("<think>t</think> x<tool_call>{}</tool_call>y"), NULL, &calls, &test_error));
	ck_assert(str_is(calls.items[0].raw, "<tool_call>{}</tool_call>"));
	ck_assert(str_is(calls.reasoning, "<think>t</think>"));
	tool_calls_free(&calls);
}
END_TEST

static const struct {
	const char *template;
	enum tool_format format;
} templates[] = {
	{"Qwen2.5-Coder-0.5B-Instruct.jinja", TOOL_FORMAT_HERMES},
	{"Qwen-Qwen3-0.6B.jinja", TOOL_FORMAT_HERMES},
	{"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja", TOOL_FORMAT_HERMES},
	{"meta-llama-Llama-3.1-8B-Instruct.jinja", TOOL_FORMAT_LLAMA3},
	{"GLM-4.6.jinja", TOOL_FORMAT_GLM},
	{"Kimi-K2-Instruct.jinja", TOOL_FORMAT_KIMI},
	{"SmolLM2-135M-Instruct.jinja", TOOL_FORMAT_NONE},
	{"deepseek-ai-DeepSeek-V3.1.jinja", TOOL_FORMAT_NONE},
};

START_TEST(knows_templates)
{
	char relative[160];
	snprintf(relative, sizeof(relative), "golden/templates/%s", templates[_i].template);
	const char *path = shared_path(relative);
	if (!path)
		SKIP("no %s", relative);
	struct buf text = test_read_file(path);
	ck_assert_str_eq(
		tool_format_name(tool_format_of_template(buf_str(&text))), tool_format_name(templates[_i].format));
	buf_free(&text);
}
END_TEST

START_TEST(names_formats)
{
	static const char *const names[] = {"hermes", "llama3", "glm", "kimi", "json"};
	enum tool_format format;
	for (int i = 0; i < COUNT(names); i++) {
		CHECK_OK(tool_format_parse(names[i], &format, &test_error));
		ck_assert_str_eq(tool_format_name(format), names[i]);
	}
	ck_assert_int_eq(tool_format_parse("Hermes", &format, &test_error), ERR_USAGE);
	ck_assert_str_eq(test_error.message, "tool format \"Hermes\": expected hermes, llama3, glm, kimi or json");
	ck_assert_int_eq(tool_format_of_template(str_of("<function=x> in <tool_call>")), TOOL_FORMAT_NONE);
}
END_TEST

START_TEST(finds_functions)
{
	struct json_document *tools;
	CHECK_OK(json_parse(str_of(tools_text), NULL, JSON_LAST_KEY_WINS, &tools, &test_error));
	ck_assert_ptr_nonnull(tool_function_find(json_root(tools), str_of("set")));
	ck_assert_ptr_nonnull(tool_function_find(json_root(tools), str_of("bare")));
	ck_assert_ptr_null(tool_function_find(json_root(tools), str_of("Set")));
	ck_assert_ptr_null(tool_function_find(NULL, str_of("set")));
	json_free(tools);
}
END_TEST

/* A megabyte of marks takes linear time and memory: this ends, or the test's limit ends it. */
START_TEST(long_texts_end)
{
	static const struct {
		enum tool_format format;
		const char *piece;
	} pieces[] = {{TOOL_FORMAT_HERMES, "<tool_call>"}, {TOOL_FORMAT_HERMES, "<tool_call></tool_call>"},
		{TOOL_FORMAT_LLAMA3, "{"}, {TOOL_FORMAT_LLAMA3, "{};"}, {TOOL_FORMAT_LLAMA3, "{\"name\"}"},
		{TOOL_FORMAT_GLM, "<tool_call>a<arg_key>"},
		{TOOL_FORMAT_GLM, "<arg_key></arg_key><arg_value></arg_value>"},
		{TOOL_FORMAT_KIMI, "<|tool_call_begin|>"}, {TOOL_FORMAT_KIMI, "<|tool_call_end|><|tool_call_begin|>"},
		{TOOL_FORMAT_HERMES, "</think>"}, {TOOL_FORMAT_JSON, "```\n"}, {TOOL_FORMAT_JSON, "{\"name\"},"}};
	struct buf text = {0};
	struct tool_calls calls;
	buf_append_text(&text, pieces[_i].format == TOOL_FORMAT_GLM ? "<tool_call>f" : "");
	while (text.length < 1000000)
		buf_append_text(&text, pieces[_i].piece);
	CHECK_OK(tool_calls_parse(pieces[_i].format, buf_str(&text), NULL, &calls, &test_error));
	ck_assert_uint_lt(calls.count, text.length);
	tool_calls_free(&calls);
	buf_free(&text);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *formats = test_case(suite, "formats", 0);
	tcase_add_loop_test(formats, reads, 0, COUNT(cases));
	tcase_add_test(formats, keeps_the_text);
	tcase_add_loop_test(formats, knows_templates, 0, COUNT(templates));
	tcase_add_test(formats, names_formats);
	tcase_add_test(formats, finds_functions);
	TCase *limits = test_case(suite, "limits", 0);
	tcase_add_loop_test(limits, long_texts_end, 0, 12);
}
