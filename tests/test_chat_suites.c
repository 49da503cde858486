/* Suites as conversations (--apply-chat-template): prompts against lm-evaluation-harness and transformers, the templates of
 * a model, what is noted for a run's provenance. */
#include <stdlib.h>

#include "datasets/records.h"
#include "engine/engine.h"
#include "evals/chat_date.h"
#include "evals/suite.h"
#include "tests/support.h"

const char *const test_program_name = "chat_suites";

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

static const char token_config[] = "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}}";

static struct tm now;

/* The folder of a file's path, without the file; the caller frees it. */
static char *folder_of(const char *path)
{
	return strndup(path, (size_t)(strrchr(path, '/') - path));
}

/* A model folder with that template; the caller closes it. */
static struct engine_template *opened(struct str source)
{
	struct engine_template *template;
	test_write_file("model/tokenizer_config.json", token_config, sizeof token_config - 1);
	char *folder = folder_of(test_write_file("model/chat_template.jinja", source.data, source.length));
	CHECK_OK(engine_template_open(folder, NULL, &template, &test_error));
	free(folder);
	return template;
}

static struct suite_options chat_options(const struct engine_template *template, const char *data, int fewshot)
{
	return (struct suite_options){.data_folder = data,
		.fewshot = fewshot,
		.seed = 1234,
		.conversations = template,
		.now = &now,
		.apply_chat_template = true,
		.multiturn = true};
}

/* ---- Prompts ---- */

static void check_prompts(const struct json *one)
{
	const struct json *system = json_get(one, "system");
	struct engine_template *template = opened(json_get(one, "template")->text);
	struct suite_options options = chat_options(template, golden_path("suites/data"), -1);
	int64_t fewshot;
	struct suite *suite;
	int dropped = 0, place = 0;
	ck_assert(json_int64(json_get(one, "fewshot"), &fewshot));
	options.fewshot = (int)fewshot;
	options.multiturn = json_bool(json_get(one, "multiturn"), true);
	options.system_instruction = json_is(system, JSON_STRING) ? system->text.data : NULL;
	CHECK_OK(suite_open(json_get(one, "suite")->text.data, &options, &suite, &test_error));
	JSON_EACH (expected, json_get(one, "items")) {
		const struct suite_item *item = suite_item(suite, place++);
		struct str prompt = json_get(expected, "prompt")->text;
		dropped += json_bool(json_get(expected, "dropped"), false);
		ck_assert_msg(str_equal(item->context, prompt), "%s %d:\n'%.*s', expected\n'%s'", item->task,
			item->doc_id, (int)item->context.length, item->context.data, prompt.data);
		ck_assert_uint_eq(item->delimiter.length, 0);
	}
	ck_assert_int_eq(place, suite_count(suite));
	ck_assert_int_eq(suite_chat(suite)->systems_dropped, dropped);
	ck_assert(!suite_chat(suite)->asked_for_date);
	suite_close(suite);
	engine_template_close(template);
}

START_TEST(golden_prompts_agree)
{
	struct records cases;
	CHECK_OK(records_load(&cases, golden_path("chat/prompts.jsonl"), &test_error));
	ck_assert_uint_eq(cases.count, 13);
	for (size_t i = 1; i < cases.count; i++)
		check_prompts(cases.items[i].doc);
	records_free(&cases);
}
END_TEST

static const struct {
	const char *name;
	int fewshot;
	bool multiturn;
	const char *system;
} shared_files[] = {
	{"chat_multiturn_arc_5shot_l2", 5, true, NULL},
	{"chat_multiturn_gsm8k_l2", -1, true, NULL},
	{"chat_multiturn_mmlu_5shot_l1", 5, true, NULL},
	{"chat_multiturn_mmlu_pro_l1", -1, true, NULL},
	{"chat_multiturn_sys_gsm8k_l1", -1, true, "You are a careful solver."},
	{"chat_singleturn_arc_5shot_l2", 5, false, NULL},
	{"chat_singleturn_gsm8k_l2", -1, false, NULL},
	{"chat_singleturn_mmlu_5shot_l1", 5, false, NULL},
	{"chat_singleturn_mmlu_pro_l1", -1, false, NULL},
	{"chat_singleturn_sys_gsm8k_l1", -1, false, "You are a careful solver."},
};

/* arguments: [[prompt, choice], ...], or [[prompt, {"until": [...], ...}]]. */
static void check_sample(const struct json *sample, const struct suite_options *options)
{
	struct suite *suite;
	int64_t doc_id;
	const struct json *arguments = json_get(sample, "arguments");
	CHECK_OK(suite_open(json_get(sample, "task")->text.data, options, &suite, &test_error));
	ck_assert(json_int64(json_get(sample, "doc_id"), &doc_id));
	const struct suite_item *item = suite_item(suite, (int)doc_id);
	struct str prompt = json_at(json_at(arguments, 0), 0)->text;
	ck_assert_msg(str_equal(item->context, prompt), "%s %d: another prompt:\n%.*s", item->task, item->doc_id,
		(int)item->context.length, item->context.data);
	ck_assert(str_is(json_get(sample, "prompt_hash")->text, item->prompt_hash));
	ck_assert(str_is(json_get(sample, "target_hash")->text, item->target_hash));
	for (int i = 0; i < item->n_choices; i++) {
		struct buf continuation = {0};
		buf_append_str(&continuation, item->delimiter);
		buf_append_str(&continuation, item->choices[i]);
		ck_assert(str_equal(json_at(json_at(arguments, (size_t)i), 1)->text, buf_str(&continuation)));
		buf_free(&continuation);
	}
	const struct json *until = json_get(json_at(json_at(arguments, 0), 1), "until");
	for (int i = 0; until && i < item->n_until; i++)
		ck_assert(str_equal(json_at(until, (size_t)i)->text, item->until[i]));
	ck_assert(!until || (int)until->count == item->n_until);
	suite_close(suite);
}

START_TEST(shared_samples_agree)
{
	char name[128];
	snprintf(name, sizeof name, "golden/%s.samples.jsonl", shared_files[_i].name);
	const char *path = shared_path(name), *data = shared_path("data");
	if (!path || !data)
		SKIP("no %s", name);
	struct records samples;
	struct engine_template *template;
	CHECK_OK(engine_template_open(SOURCE_DIR "/datasets/pocket/model", NULL, &template, &test_error));
	struct suite_options options = chat_options(template, data, shared_files[_i].fewshot);
	options.limit = 2;
	options.multiturn = shared_files[_i].multiturn;
	options.system_instruction = shared_files[_i].system;
	CHECK_OK(records_load(&samples, path, &test_error));
	ck_assert_uint_gt(samples.count, 0);
	for (size_t i = 0; i < samples.count; i++)
		check_sample(samples.items[i].doc, &options);
	records_free(&samples);
	engine_template_close(template);
}
END_TEST

/* An instruction also goes before a prompt of plain text: as it is, since gsm8k has no description. */
START_TEST(an_instruction_without_a_template)
{
	struct suite_options plain = {.data_folder = golden_path("suites/data"), .fewshot = 0, .seed = 1234};
	struct suite_options instructed = plain;
	struct suite *a, *b;
	instructed.system_instruction = "Think.";
	CHECK_OK(suite_open("gsm8k", &plain, &a, &test_error));
	CHECK_OK(suite_open("gsm8k", &instructed, &b, &test_error));
	struct str without = suite_item(a, 0)->context, with = suite_item(b, 0)->context;
	ck_assert_uint_eq(with.length, without.length + 6);
	ck_assert_mem_eq(with.data, "Think.", 6);
	ck_assert_mem_eq(with.data + 6, without.data, without.length);
	suite_close(a);
	suite_close(b);
}
END_TEST

/* ---- What goes wrong, what is noted ---- */

static const struct {
	const char *template; /* NULL: the model has none */
	const char *system, *message;
	int status;
} refusals[] = {
	{NULL, NULL, "chat template", ERR_USAGE},
	{"{{ raise_exception('never') }}", NULL, ":1: never", ERR_INPUT},
	/* refused with the system message and without: the first refusal is told */
	{"{{ raise_exception('first ' ~ messages|length) }}", "Think.", "first 2", ERR_INPUT},
	{"{{ messages[0].content.no.such }}", "Think.", "has no attribute 'no'", ERR_INPUT},
};

/* A suite of conversations is instructed as any other: before its messages, or in the system message they begin with. */
static const struct {
	const char *messages, *template, *prompt;
	int dropped;
} instructions[] = {
	{"[{\"role\": \"user\", \"content\": \"Hi\"}]", NULL, "system:Think.|user:Hi|", 0},
	{"[{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", \"content\": \"Hi\"}]", NULL,
		"system:Think.\n\nBe brief.|user:Hi|", 0},
	{"[{\"role\": \"user\", \"content\": \"Hi\"}]", "{{ raise_exception('no') if m.role == 'system' }}", "user:Hi|",
		1},
};

START_TEST(conversations_are_instructed)
{
	struct buf source = {0}, text = {0};
	const char *refusal = instructions[_i].template ? instructions[_i].template : "";
	buf_printf(&source, "{%% for m in messages %%}%s{{ m.role }}:{{ m.content }}|{%% endfor %%}", refusal);
	buf_printf(&text, "{\"id\": 1, \"messages\": %s, \"check\": \"exact\", \"expected\": \"x\"}\n",
		instructions[_i].messages);
	struct engine_template *template = opened(buf_str(&source));
	struct suite_options options = chat_options(template, golden_path("suites/data"), 0);
	struct suite *suite;
	options.system_instruction = "Think.";
	CHECK_OK(suite_open(test_write_file("e.jsonl", text.data, text.length), &options, &suite, &test_error));
	ck_assert_msg(str_is(suite_item(suite, 0)->context, instructions[_i].prompt), "%s",
		suite_item(suite, 0)->context.data);
	ck_assert_int_eq(suite_chat(suite)->systems_dropped, instructions[_i].dropped);
	suite_close(suite);
	engine_template_close(template);
	buf_free(&source);
	buf_free(&text);
}
END_TEST

START_TEST(refusals_name_the_record)
{
	struct engine_template *template = refusals[_i].template ? opened(str_of(refusals[_i].template)) : NULL;
	struct suite_options options = chat_options(template, golden_path("suites/data"), 0);
	struct suite *suite;
	options.system_instruction = refusals[_i].system;
	ck_assert_int_eq(suite_open("gsm8k", &options, &suite, &test_error), refusals[_i].status);
	ck_assert_msg(strstr(test_error.message, refusals[_i].message) != NULL, "%s", test_error.message);
	ck_assert_msg(strstr(test_error.message, "gsm8k/test.jsonl:1") != NULL, "%s", test_error.message);
	engine_template_close(template);
}
END_TEST

START_TEST(a_date_in_prompts_is_noted)
{
	struct engine_template *template = opened(str_of("{{ strftime_now('%d %b %Y') }}: {{ messages[-1].content }}"));
	struct suite_options options = chat_options(template, golden_path("suites/data"), 0);
	struct suite *suite;
	CHECK_OK(chat_date_parse("2025-02-01", &now, &test_error));
	CHECK_OK(suite_open("gsm8k", &options, &suite, &test_error));
	ck_assert(suite_chat(suite)->asked_for_date);
	ck_assert(str_starts_with(suite_item(suite, 0)->context, str_of("01 Feb 2025: Question: ")));
	suite_close(suite);
	engine_template_close(template);
}
END_TEST

static const struct {
	const char *text, *printed; /* printed NULL: refused */
} dates[] = {
	{"2025-02-01", "2025-02-01T00:00:00"},
	{"2024-02-29T23:59:58", "2024-02-29T23:59:58"},
	{"2025-02-29", NULL},
	{"2025-13-01", NULL},
	{"2025-00-10", NULL},
	{"2025-02-01T24:00:00", NULL},
	{"2025-02-01T10:00", NULL},
	{"2025-2-1", NULL},
	{"01 Feb 2025", NULL},
	{"2025-02-01 ", NULL},
	{"", NULL},
};

START_TEST(dates_read_back)
{
	struct tm t;
	char text[CHAT_DATE_SIZE];
	int status = chat_date_parse(dates[_i].text, &t, &test_error);
	ck_assert_int_eq(status, dates[_i].printed ? 0 : ERR_USAGE);
	if (!dates[_i].printed)
		return;
	chat_date_print(&t, text);
	ck_assert_str_eq(text, dates[_i].printed);
}
END_TEST

/* ---- A model's templates ---- */

static void expect_render(const struct engine_template *t, const char *line, const char *text)
{
	struct json_document *document;
	struct buf out = {0};
	CHECK_OK(json_parse(str_of(line), "line", 0, &document, &test_error));
	const struct json *root = json_root(document);
	const struct engine_chat chat = {.messages = json_get(root, "messages"),
		.tools = json_get(root, "tools"),
		.variables = root,
		.now = &now};
	CHECK_OK(engine_template_render(t, &chat, NULL, &out, &test_error));
	ck_assert_str_eq(buf_text(&out), text);
	buf_free(&out);
	json_free(document);
}

static const char several[] =
	"{\"bos_token\": \"<s>\", \"chat_template\": [{\"name\": \"default\", \"template\": "
	"\"plain {{ bos_token }}\"}, {\"name\": \"tool_use\", \"template\": \"tools {{ tools|length }}\"}, "
	"{\"name\": \"rag\", \"template\": \"rag\"}]}";

START_TEST(a_model_may_have_several)
{
	struct engine_template *t;
	char *folder = folder_of(test_write_file("several/tokenizer_config.json", several, sizeof several - 1));
	CHECK_OK(engine_template_open(folder, NULL, &t, &test_error));
	expect_render(t, "{}", "plain <s>");
	expect_render(t, "{\"tools\": [{}]}", "tools 1");
	ck_assert(str_is(engine_template_source(t, false), "plain {{ bos_token }}"));
	ck_assert(str_is(engine_template_source(t, true), "tools {{ tools|length }}"));
	ck_assert_str_ne(engine_template_hash(t, false), engine_template_hash(t, true));
	engine_template_close(t);
	CHECK_OK(engine_template_open(folder, "rag", &t, &test_error));
	expect_render(t, "{\"tools\": [{}]}", "rag");
	engine_template_close(t);
	ck_assert_int_eq(engine_template_open(folder, "nosuch", &t, &test_error), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(test_error.message, "\"nosuch\", there are: default, tool_use, rag"));
	/* files are the newer way, and win */
	test_write_file("several/chat_template.jinja", "file {{ bos_token }}", 20);
	test_write_file("several/additional_chat_templates/rag.jinja", "file rag", 8);
	CHECK_OK(engine_template_open(folder, NULL, &t, &test_error));
	expect_render(t, "{}", "file <s>");
	engine_template_close(t);
	CHECK_OK(engine_template_open(folder, "rag", &t, &test_error));
	expect_render(t, "{}", "file rag");
	engine_template_close(t);
	free(folder);
}
END_TEST

START_TEST(a_file_borrows_the_tokens)
{
	struct engine_template *t;
	char *folder = folder_of(test_write_file("tokens/tokenizer_config.json", several, sizeof several - 1));
	char *file = strdup(test_write_file("own.jinja", "{{ bos_token }}|{{ x }}", 23));
	CHECK_OK(engine_template_open(folder, file, &t, &test_error));
	expect_render(t, "{\"x\": 1}", "<s>|1");
	expect_render(t, "{\"bos_token\": \"B\"}", "B|");
	engine_template_close(t);
	CHECK_OK(engine_template_open(NULL, file, &t, &test_error));
	expect_render(t, "{}", "|");
	engine_template_close(t);
	free(folder);
	free(file);
}
END_TEST

static const struct {
	const char *config, *message;
} broken_models[] = {
	{"{}", "the model has no chat template"},
	{"{\"chat_template\": null}", "the model has no chat template"},
	{"{\"chat_template\": [5]}", "\"chat_template\" holds number, expected {\"name\", \"template\"}"},
	{"{\"chat_template\": [{\"name\": \"rag\", \"template\": \"\"}]}",
		"no chat template is named \"default\", there are: rag"},
	{"{\"chat_template\": \"\\n{% if %}\"}", "tokenizer_config.json:2: expected an expression"},
	{"{\"chat_template\": \"x\"", "line 1, column"},
};

START_TEST(broken_models_are_named)
{
	struct engine_template *t;
	char *folder = folder_of(test_write_file(
		"broken/tokenizer_config.json", broken_models[_i].config, strlen(broken_models[_i].config)));
	ck_assert_int_eq(engine_template_open(folder, NULL, &t, &test_error), ERR_INPUT);
	ck_assert_ptr_null(t);
	ck_assert_msg(strstr(test_error.message, broken_models[_i].message) != NULL, "%s", test_error.message);
	ck_assert_msg(strstr(test_error.message, folder) != NULL, "%s", test_error.message);
	free(folder);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *prompts = test_case(suite, "prompts", 60);
	tcase_add_test(prompts, golden_prompts_agree);
	tcase_add_loop_test(prompts, shared_samples_agree, 0, COUNT(shared_files));
	tcase_add_test(prompts, an_instruction_without_a_template);
	tcase_add_loop_test(prompts, conversations_are_instructed, 0, COUNT(instructions));
	TCase *notes = test_case(suite, "notes", 0);
	tcase_add_loop_test(notes, refusals_name_the_record, 0, COUNT(refusals));
	tcase_add_test(notes, a_date_in_prompts_is_noted);
	tcase_add_loop_test(notes, dates_read_back, 0, COUNT(dates));
	TCase *models = test_case(suite, "models", 0);
	tcase_add_test(models, a_model_may_have_several);
	tcase_add_test(models, a_file_borrows_the_tokens);
	tcase_add_loop_test(models, broken_models_are_named, 0, COUNT(broken_models));
}
