/* Suites: prompts, hashes and shots against lm-evaluation-harness, the items' other parts, scoring, and `assay
 * prompts`. */
#include <math.h>

#include "datasets/records.h"
#include "evals/suite.h"
#include "tests/command.h"
#include "tests/support.h"
#include "tests/tsv.h"

const char *const test_program_name = "suites";

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct suite *opened(const char *name, const char *data, int fewshot, double limit, uint64_t seed)
{
	const struct suite_options options = {.data_folder = data, .fewshot = fewshot, .limit = limit, .seed = seed};
	struct suite *suite;
	CHECK_OK(suite_open(name, &options, &suite, &test_error));
	return suite;
}

static const char *golden_data(void)
{
	return golden_path("suites/data");
}

/* ---- Prompts ---- */

static void check_hash(const struct tsv *t, size_t field, const char *hash, const char *what)
{
	struct str prefix = {hash, t->fields[field].length};
	ck_assert_msg(prefix.length == 16 && str_equal(prefix, t->fields[field]), "line %zu: %s hash", t->line, what);
}

START_TEST(golden_prompts_agree)
{
	struct tsv t = tsv_open("suites/prompt_hashes.tsv");
	size_t rows = 0;
	for (; tsv_next(&t); rows++) {
		char *task = tsv_text(&t, 0);
		struct suite *suite = opened(task, golden_data(), (int)tsv_u64(&t, 1, 10), 0, tsv_u64(&t, 2, 10));
		const struct suite_item *item = suite_item(suite, (int)tsv_u64(&t, 3, 10));
		ck_assert_str_eq(item->task, task);
		ck_assert_int_eq(item->doc_id, (int)tsv_u64(&t, 3, 10));
		check_hash(&t, 4, item->doc_hash, "document");
		check_hash(&t, 5, item->prompt_hash, "prompt");
		check_hash(&t, 6, item->target_hash, "target");
		suite_close(suite);
		free(task);
	}
	ck_assert_uint_eq(rows, 5 * 6 + 6 * 3 + 3 * 2 + 3);
}
END_TEST

static const struct {
	const char *table;
	const char *suites[2];
	int fewshot;
} shared_tables[] = {
	{"golden/prompt_hashes/gsm8k_5shot.tsv", {"gsm8k"}, -1},
	{"golden/prompt_hashes/arc_0shot.tsv", {"arc_easy", "arc_challenge"}, -1},
	{"golden/prompt_hashes/arc_25shot.tsv", {"arc_easy", "arc_challenge"}, 25},
	{"golden/prompt_hashes/mmlu_5shot.tsv", {"mmlu"}, 5},
};

START_TEST(shared_prompts_agree)
{
	const char *table = shared_path(shared_tables[_i].table), *data = shared_path("data");
	if (!table || !data)
		SKIP("no %s", shared_tables[_i].table);
	struct options o = {.data = data, .fewshot = shared_tables[_i].fewshot, .hashes = true};
	for (; o.n_suites < 2 && shared_tables[_i].suites[o.n_suites]; o.n_suites++)
		o.suites[o.n_suites] = shared_tables[_i].suites[o.n_suites];
	struct buf want = test_read_file(table), got = command_output(cmd_prompts, &o, 0);
	ck_assert_uint_gt(want.length, 1000);
	struct line_cursor a = {.text = buf_str(&want)}, b = {.text = buf_str(&got)};
	struct str expected, actual;
	while (line_next(&a, &expected)) {
		ck_assert_msg(line_next(&b, &actual), "ends before line %zu", a.line);
		ck_assert_msg(str_equal(expected, actual), "line %zu: %.*s, expected %.*s", a.line, STR_ARG(actual),
			STR_ARG(expected));
	}
	ck_assert_uint_eq(want.length, got.length);
	buf_free(&want);
	buf_free(&got);
}
END_TEST

static const struct {
	const char *samples;
	int fewshot;
} shared_samples[] = {
	{"golden/gsm8k_5shot_l4.samples.jsonl", 5},
	{"golden/arc_0shot_l4.samples.jsonl", 0},
	{"golden/arc_25shot_l3.samples.jsonl", 25},
	{"golden/gsm8k_cot_l4.samples.jsonl", 8},
	{"golden/mmlu_5shot_l1.samples.jsonl", 5},
	{"golden/mmlu_pro_l2.samples.jsonl", 5},
};

/* arguments: [[prompt, " choice"], ...], or [[prompt, {"until": [...], ...}]]. */
static void check_arguments(const struct suite_item *item, const struct json *arguments)
{
	struct str context = json_at(json_at(arguments, 0), 0)->text;
	ck_assert_msg(str_equal(item->context, context), "%s %d: another prompt", item->task, item->doc_id);
	if (item->kind == REQUEST_GENERATE) {
		const struct json *until = json_get(json_at(json_at(arguments, 0), 1), "until");
		ck_assert_int_eq(item->n_until, (int)until->count);
		for (int i = 0; i < item->n_until; i++)
			ck_assert(str_equal(item->until[i], json_at(until, (size_t)i)->text));
		return;
	}
	ck_assert_int_eq(item->n_choices, (int)arguments->count);
	for (int i = 0; i < item->n_choices; i++) {
		struct str continuation = json_at(json_at(arguments, (size_t)i), 1)->text;
		ck_assert_uint_eq(continuation.length, item->choices[i].length + 1);
		ck_assert_mem_eq(continuation.data + 1, item->choices[i].data, item->choices[i].length);
	}
}

START_TEST(shared_samples_agree)
{
	const char *path = shared_path(shared_samples[_i].samples), *data = shared_path("data");
	if (!path || !data)
		SKIP("no %s", shared_samples[_i].samples);
	struct records samples;
	CHECK_OK(records_load(&samples, path, &test_error));
	for (size_t i = 0; i < samples.count; i++) {
		const struct json *sample = samples.items[i].doc;
		int64_t doc_id;
		ck_assert(json_int64(json_get(sample, "doc_id"), &doc_id));
		struct suite *suite =
			opened(json_get(sample, "task")->text.data, data, shared_samples[_i].fewshot, 5, 1234);
		const struct suite_item *item = suite_item(suite, (int)doc_id);
		check_arguments(item, json_get(sample, "arguments"));
		ck_assert(str_is(json_get(sample, "doc_hash")->text, item->doc_hash));
		ck_assert(str_is(json_get(sample, "prompt_hash")->text, item->prompt_hash));
		ck_assert(str_is(json_get(sample, "target_hash")->text, item->target_hash));
		suite_close(suite);
	}
	records_free(&samples);
}
END_TEST

/* ---- Items ---- */

START_TEST(gsm8k_generates)
{
	struct suite *suite = opened("gsm8k", golden_data(), -1, 0, 1234);
	ck_assert_str_eq(suite_name(suite), "gsm8k");
	ck_assert_int_eq(suite_count(suite), 5);
	ck_assert_int_eq(suite_total(suite), 5);
	ck_assert_int_eq(suite_fewshot(suite), 5);
	ck_assert_ptr_null(suite_group_column(suite));
	const struct suite_item *item = suite_item(suite, 3);
	ck_assert_int_eq(item->kind, REQUEST_GENERATE);
	ck_assert_int_eq(item->max_tokens, 256);
	ck_assert_int_eq(item->n_until, 3);
	ck_assert(str_is(item->until[2], "<|im_end|>"));
	ck_assert(str_is(item->target, "Order of columns kept.\n#### -7"));
	ck_assert_ptr_nonnull(json_get(item->doc, "extra"));
	ck_assert_uint_eq(item->group.length, 0);
	suite_close(suite);
}
END_TEST

START_TEST(arc_chooses)
{
	struct suite *suite = opened("arc_easy", golden_data(), -1, 0, 1234);
	ck_assert_int_eq(suite_fewshot(suite), 0);
	const struct suite_item *item = suite_item(suite, 2);
	ck_assert_int_eq(item->kind, REQUEST_LOGLIKELIHOOD);
	ck_assert(str_is(item->context, "Question: What do plants take in?\nAnswer:"));
	ck_assert_int_eq(item->n_choices, 3);
	ck_assert(str_is(item->choices[1], "sound"));
	ck_assert_int_eq(item->gold, 0);
	ck_assert(str_is(item->target, "0"));
	item = suite_item(suite, 0); /* its labels are digits */
	ck_assert_int_eq(item->gold, 0);
	item = suite_item(suite, 5);
	ck_assert_int_eq(item->gold, 1);
	ck_assert(str_is(item->target, "1"));
	suite_close(suite);
}
END_TEST

START_TEST(recall_takes_no_shots)
{
	struct suite *suite = opened("recall", golden_data(), 5, 0, 1234);
	ck_assert_int_eq(suite_fewshot(suite), 0);
	ck_assert_str_eq(suite_group_column(suite), "filler");
	const struct suite_item *item = suite_item(suite, 1);
	ck_assert(str_is(item->context,
		"Codes: \xc3\x89va wax owl, Bo clay ant. It rained. The road was long.\n\n"
		"Question: What is the code of \xc3\x89va?\nAnswer:"));
	ck_assert_int_eq(item->max_tokens, 12);
	ck_assert_int_eq(item->n_until, 1);
	ck_assert(str_is(item->until[0], "\n"));
	ck_assert(str_is(item->group, "8"));
	ck_assert(str_is(suite_item(suite, 0)->group, "0"));
	ck_assert_int_eq(suite_file_count(suite), 1);
	suite_close(suite);
}
END_TEST

START_TEST(a_limit_keeps_the_prefix)
{
	struct suite *whole = opened("gsm8k", golden_data(), 5, 0, 1234),
		     *part = opened("gsm8k", golden_data(), 5, 2.9, 1234),
		     *fraction = opened("gsm8k", golden_data(), 5, 0.5, 1234);
	ck_assert_int_eq(suite_count(part), 2);
	ck_assert_int_eq(suite_total(part), 5);
	ck_assert_int_eq(suite_count(fraction), 3);
	for (int i = 0; i < 3; i++) {
		const char *hash = suite_item(whole, i)->prompt_hash;
		ck_assert_str_eq(suite_item(fraction, i)->prompt_hash, hash);
		if (i < 2)
			ck_assert_str_eq(suite_item(part, i)->prompt_hash, hash);
	}
	suite_close(whole);
	suite_close(part);
	suite_close(fraction);
}
END_TEST

START_TEST(files_are_noted_with_their_hashes)
{
	static const char *const files[] = {"gsm8k/test.jsonl", "gsm8k/train.jsonl"};
	struct suite *suite = opened("gsm8k", golden_data(), 5, 1, 1234);
	ck_assert_int_eq(suite_file_count(suite), 2);
	for (int i = 0; i < 2; i++) {
		char hash[SHA256_HEX_SIZE];
		const char *path = suite_file_path(suite, i);
		ck_assert_ptr_nonnull(strstr(path, files[i]));
		CHECK_OK(sha256_file(path, hash, &test_error));
		ck_assert_str_eq(suite_file_hash(suite, i), hash);
	}
	suite_close(suite);
	suite = opened("gsm8k", golden_data(), 0, 1, 1234); /* the shots' file is not read */
	ck_assert_int_eq(suite_file_count(suite), 1);
	suite_close(suite);
}
END_TEST

START_TEST(names_are_found_in_any_case)
{
	static const char *const spelled[] = {"ARC_EASY", "Arc_Easy", "arc_easy"};
	for (size_t i = 0; i < COUNT(spelled); i++) {
		struct suite *suite = opened(spelled[i], golden_data(), 0, 1, 1234);
		ck_assert_str_eq(suite_name(suite), "arc_easy");
		suite_close(suite);
	}
}
END_TEST

/* ---- Scores ---- */

START_TEST(a_generated_answer_is_scored_by_every_filter)
{
	struct suite *suite = opened("gsm8k", golden_data(), 0, 0, 1234);
	struct item_score score;
	struct answer answer = {.text = str_of(" It costs $1,000.\n#### 999")};
	CHECK_OK(suite_score(suite, suite_item(suite, 2), &answer, &score, &test_error)); /* gold: $1,000. */
	ck_assert_int_eq(score.n_metrics, 2);
	ck_assert_int_eq(suite_metric_count(suite), 2);
	ck_assert_str_eq(score.metric[0], suite_metric_name(suite, 0));
	ck_assert_str_eq(score.metric[0], "exact_match,strict-match");
	ck_assert_str_eq(score.metric[1], "exact_match,flexible-extract");
	ck_assert_str_eq(score.filter[0], "strict-match");
	ck_assert_str_eq(buf_text(&score.filtered[0]), "999");
	ck_assert_double_eq(score.value[0], 0.0);
	item_score_free(&score);
	answer.text = str_of("so 1000.");
	CHECK_OK(suite_score(suite, suite_item(suite, 2), &answer, &score, &test_error));
	ck_assert_str_eq(buf_text(&score.filtered[0]), "[invalid]");
	ck_assert_str_eq(buf_text(&score.filtered[1]), "1000.");
	ck_assert_double_eq(score.value[1], 1.0);
	item_score_free(&score);
	suite_close(suite);
}
END_TEST

START_TEST(a_choice_is_scored_twice)
{
	struct suite *suite = opened("arc_easy", golden_data(), 0, 0, 1234);
	struct item_score score;
	const struct suite_item *item = suite_item(suite, 5); /* gold 1: the longest choice */
	struct answer answer = {.logprobs = (const double[]){-9, -10, -11, -12}};
	CHECK_OK(suite_score(suite, item, &answer, &score, &test_error));
	ck_assert_int_eq(score.n_metrics, 2);
	ck_assert_int_eq(score.n_filters, 0);
	ck_assert_str_eq(score.metric[1], "acc_norm,none");
	ck_assert_double_eq(score.value[0], 0.0);
	ck_assert_double_eq(score.value[1], 1.0);
	item_score_free(&score);
	suite_close(suite);
}
END_TEST

START_TEST(recall_is_exact_after_trimming)
{
	static const struct {
		const char *text;
		double right;
	} cases[] = {{" Dan rubber bear", 1}, {"Dan rubber bear \t", 1},
		{"\xc2\xa0"
		 "Dan rubber bear",
			1},
		{"dan rubber bear", 0}, {"Dan rubber bear.", 0}, {"Dan  rubber bear", 0}, {"", 0}};
	struct suite *suite = opened("recall", golden_data(), 0, 0, 1234);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct item_score score;
		struct answer answer = {.text = str_of(cases[i].text)};
		CHECK_OK(suite_score(suite, suite_item(suite, 0), &answer, &score, &test_error));
		ck_assert_str_eq(score.metric[0], "exact_match,none");
		ck_assert_str_eq(score.filter[0], "none");
		ck_assert_msg(score.value[0] == cases[i].right, "'%s'", cases[i].text);
		item_score_free(&score);
	}
	suite_close(suite);
}
END_TEST

/* ---- What is refused ---- */

static const struct {
	const char *name;
	int fewshot;
	double limit;
	int code;
	const char *message;
} usage_cases[] = {
	{"mmluu", -1, 0, ERR_USAGE,
		"unknown suite \"mmluu\" (known: gsm8k, gsm8k_cot, arc_easy, arc_challenge, arc_challenge_chat, mmlu_pro, "
		"mmlu_pro_<category>, mmlu, mmlu_<subject>, recall, recall:N, toolcall, toolcall_<category>, FILE.jsonl)"},
	{"mmlu", -1, 0, ERR_MISSING, "/mmlu/test: "},
	{"exam", -1, 0, ERR_USAGE, "unknown suite \"exam\""},
	{"gsm8k_cot", 9, 0, ERR_USAGE, "--fewshot 9: gsm8k_cot holds only 8 records"},
	{"gsm8", -1, 0, ERR_USAGE, "unknown suite \"gsm8\""},
	{"gsm8kk", -1, 0, ERR_USAGE, "unknown suite \"gsm8kk\""},
	{"", -1, 0, ERR_USAGE, "unknown suite \"\""},
	{"gsm8k", -1, -1, ERR_USAGE, "limit -1"},
	{"gsm8k", -1, NAN, ERR_USAGE, "limit "},
	{"gsm8k", 31, 0, ERR_USAGE, "gsm8k/train.jsonl holds only 30 records"},
	{"arc_challenge", 5, 0, ERR_USAGE, "--fewshot 5: "},
};

START_TEST(wrong_options_are_named)
{
	const struct suite_options options = {.data_folder = golden_data(),
		.fewshot = usage_cases[_i].fewshot,
		.limit = usage_cases[_i].limit,
		.seed = 1234};
	struct suite *suite;
	ck_assert_int_eq(suite_open(usage_cases[_i].name, &options, &suite, &test_error), usage_cases[_i].code);
	ck_assert_msg(strstr(test_error.message, usage_cases[_i].message) != NULL, "%s", test_error.message);
}
END_TEST

#define CHOICES "\"choices\": {\"text\": [\"a\", \"b\"], \"label\": [\"A\", \"B\"]}"

static const struct {
	const char *suite, *folder, *test, *shots; /* NULL: no such file */
	int code;
	const char *message;
} data_cases[] = {
	{"gsm8k", "gsm8k", NULL, "{}", ERR_MISSING, "gsm8k/test.jsonl"},
	{"gsm8k", "gsm8k", "{}", NULL, ERR_MISSING, "gsm8k/train.jsonl"},
	{"gsm8k", "gsm8k", "\n", "{}", ERR_EMPTY, "gsm8k/test.jsonl holds no records"},
	{"gsm8k", "gsm8k", "{}", "", ERR_EMPTY, "gsm8k/train.jsonl holds no records"},
	{"gsm8k", "gsm8k", "{\"question\": \"q\", \"answer\": \"a\"}", "\n{\"question\": \"q\"}", ERR_INPUT,
		"gsm8k/train.jsonl:2: column \"answer\" is missing"},
	{"gsm8k", "gsm8k", "\n\n{\"answer\": \"a\"}", "{\"question\": \"q\", \"answer\": \"a\"}", ERR_INPUT,
		"gsm8k/test.jsonl:3: column \"question\" is missing"},
	{"gsm8k", "gsm8k", "{\"question\": \"q\", \"answer\": 4}", "{\"question\": \"q\", \"answer\": \"a\"}",
		ERR_INPUT, "gsm8k/test.jsonl:1: column \"answer\" is number, expected string"},
	{"arc_easy", "arc/ARC-Easy", "{\"question\": \"q\", \"answerKey\": \"A\"}",
		"{\"question\": \"q\", " CHOICES ", \"answerKey\": \"B\"}", ERR_INPUT,
		"ARC-Easy/test.jsonl:1: column \"choices\" is missing"},
	{"arc_easy", "arc/ARC-Easy", "{\"question\": \"q\", " CHOICES ", \"answerKey\": \"B\"}",
		"{\"question\": \"q\", " CHOICES ", \"answerKey\": \"b\"}", ERR_INPUT,
		"ARC-Easy/train.jsonl:1: column \"answerKey\" is \"b\""},
	{"recall", "recall", "{\"context\": \"c\", \"question\": \"q\", \"answer\": \"a\"}", NULL, ERR_INPUT,
		"recall/test.jsonl:1: column \"filler\" is missing"},
};

static void write_data(const char *folder, const char *name, const char *text)
{
	if (!text)
		return;
	char relative[256];
	snprintf(relative, sizeof(relative), "%s/%s", folder, name);
	test_write_file(relative, text, strlen(text));
}

START_TEST(bad_data_is_named)
{
	const char *folder = scratch_folder(); /* the files below go there */
	write_data(data_cases[_i].folder, "test.jsonl", data_cases[_i].test);
	write_data(data_cases[_i].folder, "train.jsonl", data_cases[_i].shots);
	const struct suite_options options = {.data_folder = folder, .fewshot = 1, .seed = 1234};
	struct suite *suite;
	ck_assert_int_eq(suite_open(data_cases[_i].suite, &options, &suite, &test_error), data_cases[_i].code);
	ck_assert_msg(strstr(test_error.message, data_cases[_i].message) != NULL, "%s", test_error.message);
}
END_TEST

/* ---- assay prompts ---- */

START_TEST(prompts_prints_samples)
{
	static const char *const want[] = {
		"{\"task\": \"recall\", \"doc_id\": 0, \"prompt\": \"Codes: Ida glass lion, Dan rubber "
		"bear.\\n\\nQuestion: What is the "
		"code of Dan?\\nAnswer:\", \"until\": [\"\\n\"], \"target\": \"Dan rubber bear\"}",
		"{\"task\": \"arc_easy\", \"doc_id\": 0, \"prompt\": \"Question: What melts at 0 \xc2\xb0"
		"C?\\nAnswer:\", \"choices\": "
		"[\"ice\", \"iron\", \"salt\", \"glass\"], \"target\": \"0\"}",
	};
	struct options o = {.data = golden_data(),
		.fewshot = -1,
		.limit = 1,
		.samples = true,
		.suites = {"recall", "arc_easy"},
		.n_suites = 2};
	struct buf got = command_output(cmd_prompts, &o, 0);
	struct line_cursor cursor = {.text = buf_str(&got)};
	struct str line;
	for (size_t i = 0; i < COUNT(want); i++) {
		ck_assert(line_next(&cursor, &line));
		ck_assert_msg(str_is(line, want[i]), "%.*s", STR_ARG(line));
	}
	ck_assert(!line_next(&cursor, &line));
	buf_free(&got);
}
END_TEST

START_TEST(prompts_takes_the_seed)
{
	struct options o = {.data = golden_data(), .fewshot = 5, .hashes = true, .suites = {"gsm8k"}, .n_suites = 1};
	struct buf by_default = command_output(cmd_prompts, &o, 0);
	o.has_seed = true;
	o.seed = 1234;
	struct buf same = command_output(cmd_prompts, &o, 0);
	o.seed = 0;
	struct buf other = command_output(cmd_prompts, &o, 0);
	ck_assert_str_eq(buf_text(&by_default), buf_text(&same));
	ck_assert_str_ne(buf_text(&by_default), buf_text(&other));
	buf_free(&by_default);
	buf_free(&same);
	buf_free(&other);
}
END_TEST

static const struct {
	struct options options;
	const char *message;
} prompts_cases[] = {
	{{.hashes = true}, "expected --suite"},
	{{.suites = {"gsm8k"}, .n_suites = 1}, "either --hashes or --samples"},
	{{.suites = {"gsm8k"}, .n_suites = 1, .hashes = true, .samples = true}, "either --hashes or --samples"},
	{{.suites = {"gsm8k"}, .n_suites = 1, .hashes = true, .arguments = {"x"}, .n_arguments = 1},
		"unexpected argument \"x\""},
	{{.suites = {"gsm8k", "mmlu"}, .n_suites = 2, .hashes = true}, "/mmlu/test: "},
	{{.suites = {"gsm8k", "mmul"}, .n_suites = 2, .hashes = true}, "unknown suite \"mmul\""},
};

START_TEST(prompts_refuses_with_an_empty_output)
{
	struct options o = prompts_cases[_i].options;
	o.data = golden_data();
	struct buf got = command_output(cmd_prompts, &o, 2);
	ck_assert_msg(strstr(test_error.message, prompts_cases[_i].message) != NULL, "%s", test_error.message);
	ck_assert_uint_eq(got.length, 0);
	buf_free(&got);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *prompts = test_case(suite, "prompts", 120);
	tcase_add_test(prompts, golden_prompts_agree);
	tcase_add_loop_test(prompts, shared_prompts_agree, 0, COUNT(shared_tables));
	tcase_add_loop_test(prompts, shared_samples_agree, 0, COUNT(shared_samples));
	TCase *items = test_case(suite, "items", 0);
	tcase_add_test(items, gsm8k_generates);
	tcase_add_test(items, arc_chooses);
	tcase_add_test(items, recall_takes_no_shots);
	tcase_add_test(items, a_limit_keeps_the_prefix);
	tcase_add_test(items, files_are_noted_with_their_hashes);
	tcase_add_test(items, names_are_found_in_any_case);
	TCase *scores = test_case(suite, "scores", 0);
	tcase_add_test(scores, a_generated_answer_is_scored_by_every_filter);
	tcase_add_test(scores, a_choice_is_scored_twice);
	tcase_add_test(scores, recall_is_exact_after_trimming);
	TCase *refuse = test_case(suite, "refuse", 0);
	tcase_add_loop_test(refuse, wrong_options_are_named, 0, COUNT(usage_cases));
	tcase_add_loop_test(refuse, bad_data_is_named, 0, COUNT(data_cases));
	TCase *command = test_case(suite, "command", 0);
	tcase_add_test(command, prompts_prints_samples);
	tcase_add_test(command, prompts_takes_the_seed);
	tcase_add_loop_test(command, prompts_refuses_with_an_empty_output, 0, COUNT(prompts_cases));
}
