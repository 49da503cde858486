/* Suites of several tasks: MMLU and MMLU-Pro, samples by hash, results of groups, recall made for a model. */
#include <math.h>

#include "engine/engine.h"
#include "evals/suite.h"
#include "evals/suite_task.h"
#include "tests/support.h"
#include "tests/tsv.h"

const char *const test_program_name = "suite_tasks";

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct suite *opened_with(const char *name, const struct suite_options *options)
{
	struct suite *suite;
	CHECK_OK(suite_open(name, options, &suite, &test_error));
	return suite;
}

static struct suite *opened(const char *name, int fewshot)
{
	return opened_with(name,
		&(struct suite_options){.data_folder = golden_path("harness/data"), .fewshot = fewshot, .seed = 1234});
}

/* ---- Prompts ---- */

static void check_hash(const struct tsv *t, size_t field, const char *hash, const char *what)
{
	struct str prefix = {hash, t->fields[field].length};
	ck_assert_msg(prefix.length == 16 && str_equal(prefix, t->fields[field]), "line %zu: %s hash", t->line, what);
}

START_TEST(golden_prompts_agree)
{
	struct tsv t = tsv_open("harness/prompt_hashes.tsv");
	size_t rows = 0;
	for (; tsv_next(&t); rows++) {
		char *task = tsv_text(&t, 0);
		struct suite *suite = opened(task, (int)tsv_u64(&t, 1, 10));
		int at = suite_find(suite, task, (int64_t)tsv_u64(&t, 2, 10));
		ck_assert_msg(at >= 0, "%s has no document of line %zu", task, t.line);
		const struct suite_item *item = suite_item(suite, at);
		check_hash(&t, 3, item->doc_hash, "document");
		check_hash(&t, 4, item->prompt_hash, "prompt");
		check_hash(&t, 5, item->target_hash, "target");
		suite_close(suite);
		free(task);
	}
	ck_assert_uint_eq(rows, 10 + 4 + 4);
}
END_TEST

/* ---- Tasks ---- */

static const struct {
	const char *name, *suite, *tasks[4];
	int count;
} task_cases[] = {
	/* by group as subjects.tsv first names it, then by name */
	{"mmlu", "mmlu", {"mmlu_abstract_algebra", "mmlu_anatomy", "mmlu_business_ethics", "mmlu_formal_logic"}, 10},
	{"MMLU_Stem", "mmlu_stem", {"mmlu_abstract_algebra", "mmlu_anatomy"}, 5},
	{"mmlu_anatomy", "mmlu_anatomy", {"mmlu_anatomy"}, 2},
	{"mmlu_pro", "mmlu_pro", {"mmlu_pro_biology", "mmlu_pro_computer_science"}, 4},
	{"mmlu_pro_Biology", "mmlu_pro_biology", {"mmlu_pro_biology"}, 2},
	{"gsm8k_cot", "gsm8k_cot", {"gsm8k_cot"}, 4},
};

START_TEST(tasks_of_a_name)
{
	struct suite *suite = opened(task_cases[_i].name, -1);
	int n = 0;
	ck_assert_str_eq(suite_name(suite), task_cases[_i].suite);
	for (; n < 4 && task_cases[_i].tasks[n]; n++)
		ck_assert_str_eq(suite_task(suite, n)->name, task_cases[_i].tasks[n]);
	ck_assert_int_eq(suite_task_count(suite), n);
	ck_assert_int_eq(suite_count(suite), task_cases[_i].count);
	suite_close(suite);
}
END_TEST

START_TEST(defaults)
{
	static const struct {
		const char *name;
		int fewshot, max_tokens;
	} cases[] = {{"mmlu", 0, 0}, {"mmlu_pro", 5, 2048}, {"gsm8k_cot", 8, 256}};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct suite *suite = opened(cases[i].name, -1);
		ck_assert_int_eq(suite_fewshot(suite), cases[i].fewshot);
		ck_assert_int_eq(suite_item(suite, 0)->max_tokens, cases[i].max_tokens);
		suite_close(suite);
	}
	struct suite *suite = opened("mmlu", 5);
	const struct suite_item *item = suite_item(suite, 3);
	ck_assert_int_eq(item->n_choices, 4);
	ck_assert(str_is(item->choices[3], "D"));
	ck_assert_int_eq(suite_metric_count(suite), 1);
	ck_assert_int_eq(suite_file_count(suite), 4 + 4);
	suite_close(suite);
	suite = opened("mmlu_pro", 5); /* both categories' shots are in one file */
	ck_assert_int_eq(suite_file_count(suite), 2 + 1);
	suite_close(suite);
}
END_TEST

START_TEST(limits_are_of_each_task)
{
	struct suite *suite = opened_with(
		"mmlu", &(struct suite_options){.data_folder = golden_path("harness/data"), .fewshot = 0, .limit = 2});
	ck_assert_int_eq(suite_count(suite), 2 + 2 + 1 + 2);
	ck_assert_int_eq(suite_total(suite), 10);
	suite_close(suite);
	suite = opened_with("mmlu",
		&(struct suite_options){.data_folder = golden_path("harness/data"), .fewshot = 0, .limit = 0.5});
	ck_assert_int_eq(suite_count(suite), 2 + 1 + 1 + 2);
	suite_close(suite);
}
END_TEST

static const struct {
	const char *name;
	int fewshot, sample;
	double limit;
	const char *message;
} usage_cases[] = {
	{"mmlu_x", 0, 0, 0, "unknown suite \"mmlu_x\": neither a subject"},
	{"mmlu_", 0, 0, 0, "unknown suite \"mmlu_\""},
	{"mmlu_pro_x", 0, 0, 0, "unknown suite \"mmlu_pro_x\": not a category"},
	{"mmlu", 6, 0, 0, "--fewshot 6: "},
	{"mmlu_pro", 6, 0, 0, "validation.jsonl holds only 5 records for biology"},
	{"mmlu", 0, 3, 3, "--limit and --sample: expected one of them"},
	{"recall:", 0, 0, 0, "expected recall:N"},
	{"recall:0", 0, 0, 0, "expected recall:N"},
	{"recall:-5", 0, 0, 0, "expected recall:N"},
	{"recall:1k", 0, 0, 0, "expected recall:N"},
	{"recall:99999999999999999999", 0, 0, 0, "expected recall:N"},
	{"recall:99999999", 0, 0, 0, "1 to 16777216"},
	{"recall:500", 0, 0, 0, "expected --model"},
};

START_TEST(wrong_names_and_options)
{
	const struct suite_options options = {.data_folder = golden_path("harness/data"),
		.fewshot = usage_cases[_i].fewshot,
		.limit = usage_cases[_i].limit,
		.sample = usage_cases[_i].sample};
	struct suite *suite;
	ck_assert_int_eq(suite_open(usage_cases[_i].name, &options, &suite, &test_error), ERR_USAGE);
	ck_assert_msg(strstr(test_error.message, usage_cases[_i].message) != NULL, "%s", test_error.message);
}
END_TEST

#define MMLU_LINE "{\"question\": \"q\", \"choices\": [\"a\", \"b\", \"c\", \"d\"], \"answer\": 0}\n"

/* The subjects of subjects.tsv and the files of mmlu/test are the same: a score over fewer is not that of the suite. */
static const struct {
	const char *name, *table, *message; /* NULL: it opens, with one document */
} table_cases[] = {
	{"mmlu", "subject\tgroup\nbirds\tmmlu_stem\n", NULL},
	{"mmlu", "subject\tgroup\nbirds\tmmlu_stem", NULL},
	{"mmlu", "subject\tgroup\nbirds\tmmlu_stem\nfish\tmmlu_stem\n", "mmlu/test/fish.jsonl is missing"},
	{"mmlu_stem", "subject\tgroup\nbirds\tmmlu_stem\nfish\tmmlu_stem\n", "mmlu/test/fish.jsonl is missing"},
	{"mmlu_fish", "subject\tgroup\nbirds\tmmlu_stem\nfish\tmmlu_stem\n", "mmlu/test/fish.jsonl is missing"},
	{"mmlu_stem", "subject\tgroup\nbirds\tmmlu_stem\nfish\tmmlu_other\n", NULL},
	{"mmlu_birds", "subject\tgroup\nbirds\tmmlu_stem\nfish\tmmlu_stem\n", NULL},
	{"mmlu", "subject\tgroup\nfish\tmmlu_stem\n", "mmlu/subjects.tsv has no line \"birds<tab>GROUP\""},
	{"mmlu", "", "mmlu/subjects.tsv has no line \"birds<tab>GROUP\""},
	{"mmlu", "subject,group\nbirds,mmlu_stem\n", "mmlu/subjects.tsv has no line \"birds<tab>GROUP\""},
};

START_TEST(subjects_are_those_of_the_table)
{
	const struct suite_options options = {.data_folder = scratch_folder()};
	const char *name = table_cases[_i].name, *message = table_cases[_i].message;
	struct suite *suite = NULL;
	test_write_file("mmlu/test/birds.jsonl", MMLU_LINE, strlen(MMLU_LINE));
	test_write_file("mmlu/subjects.tsv", table_cases[_i].table, strlen(table_cases[_i].table));
	int status = suite_open(name, &options, &suite, &test_error);
	if (!message) {
		CHECK_OK(status);
		ck_assert_int_eq(suite_count(suite), 1);
		ck_assert_str_eq(suite_name(suite), name);
	} else {
		ck_assert_int_eq(error_exit_code(status), 2);
		ck_assert_msg(strstr(test_error.message, message) != NULL, "%s", test_error.message);
	}
	suite_close(suite);
}
END_TEST

static const struct {
	const char *question, *message;
} bad_cases[] = {
	{"{\"question\": \"q\", \"choices\": [\"a\", \"b\", \"c\"], \"answer\": 0}", "holds 3 texts, expected 4"},
	{"{\"question\": \"q\", \"choices\": [\"a\", \"b\", \"c\", 4], \"answer\": 0}", "text 3 is number"},
	{"{\"question\": \"q\", \"choices\": [\"a\", \"b\", \"c\", \"d\"], \"answer\": 4}", "is 4, expected 0 to 3"},
	{"{\"question\": \"q\", \"choices\": [\"a\", \"b\", \"c\", \"d\"], \"answer\": -1}", "is -1, expected 0 to 3"},
	{"{\"question\": \"q\", \"choices\": [\"a\", \"b\", \"c\", \"d\"], \"answer\": \"A\"}", "is string, expected"},
	{"{\"question\": \"q\", \"choices\": [\"a\", \"b\", \"c\", \"d\"]}", "\"answer\" is missing"},
};

START_TEST(bad_documents_are_named)
{
	const char *folder = scratch_folder();
	test_write_file("mmlu/test/s.jsonl", bad_cases[_i].question, strlen(bad_cases[_i].question));
	struct suite *suite;
	ck_assert_int_eq(
		suite_open("mmlu", &(struct suite_options){.data_folder = folder}, &suite, &test_error), ERR_INPUT);
	ck_assert_msg(strstr(test_error.message, "mmlu/test/s.jsonl:1: ") != NULL, "%s", test_error.message);
	ck_assert_msg(strstr(test_error.message, bad_cases[_i].message) != NULL, "%s", test_error.message);
}
END_TEST

/* ---- Samples by hash ---- */

/* sorted(range(10), key=lambda i: sha256(f"{seed}:{doc_hash[i]}"))[:4] of the ten MMLU documents, by CPython's hashlib.
 */
static const struct {
	uint64_t seed;
	int items[4];
} sample_cases[] = {
	{0U, {0, 2, 4, 8}},
	{1234U, {1, 5, 8, 9}},
	{18446744073709551615U, {0, 1, 2, 8}},
};

START_TEST(a_sample_is_the_smallest_hashes)
{
	struct suite *whole = opened("mmlu", 5);
	struct suite *part = opened_with("mmlu",
		&(struct suite_options){.data_folder = golden_path("harness/data"),
			.fewshot = 5,
			.sample = 4,
			.seed = sample_cases[_i].seed});
	ck_assert_int_eq(suite_count(part), 4);
	ck_assert_int_eq(suite_total(part), 10);
	for (int i = 0; i < 4; i++) {
		const struct suite_item *want = suite_item(whole, sample_cases[_i].items[i]),
					*got = suite_item(part, i);
		ck_assert_str_eq(got->task, want->task);
		ck_assert_int_eq(got->doc_id, want->doc_id);
		ck_assert_str_eq(got->prompt_hash, want->prompt_hash);
	}
	suite_close(part);
	part = opened_with("mmlu",
		&(struct suite_options){.data_folder = golden_path("harness/data"), .fewshot = 0, .sample = 11});
	ck_assert_int_eq(suite_count(part), 10);
	suite_close(part);
	suite_close(whole);
}
END_TEST

/* Shots that are drawn are drawn for the documents that are left out, too. */
START_TEST(a_sample_keeps_the_prompts)
{
	struct suite_options options = {.data_folder = golden_path("suites/data"), .fewshot = 5, .seed = 1234};
	struct suite *whole = opened_with("gsm8k", &options);
	options.sample = 2;
	struct suite *part = opened_with("gsm8k", &options);
	ck_assert_int_eq(suite_count(part), 2);
	int later = 0;
	for (int i = 0; i < 2; i++) {
		const struct suite_item *item = suite_item(part, i);
		ck_assert_str_eq(item->prompt_hash, suite_item(whole, item->doc_id)->prompt_hash);
		later += item->doc_id > i;
		ck_assert_int_eq(suite_find(part, "gsm8k", item->doc_id), i);
	}
	ck_assert_int_gt(later, 0);
	ck_assert_int_eq(suite_find(part, "gsm8k", 99), -1);
	ck_assert_int_eq(suite_find(part, "mmlu", 0), -1);
	suite_close(part);
	suite_close(whole);
}
END_TEST

/* ---- Results ---- */

struct seen {
	struct buf text;
};

static int see(void *context, const char *task, const struct metric_summary *m, struct error *e)
{
	struct seen *seen = context;
	(void)e;
	buf_printf(&seen->text, "%s %s %d %.4f %.4f\n", task ? task : "-", m->name, m->n, m->value, m->stderr_value);
	return 0;
}

static void expect_results(const struct suite *suite, const double *values, const bool *scored, const char *expected)
{
	struct seen seen = {0};
	CHECK_OK(suite_summarize(suite, values, scored, see, &seen, &test_error));
	ck_assert_str_eq(buf_text(&seen.text), expected);
	buf_free(&seen.text);
}

START_TEST(results_of_groups_and_tasks)
{
	struct suite *suite = opened("mmlu", 0);
	const double values[10] = {1, 0, 1, 1, 1, 0, 0, 0, 1, 1};
	bool scored[10] = {true, true, true, true, true, true, true, true, true, true};
	expect_results(suite, values, scored,
		"- acc,none 10 0.6000 nan\n"
		"mmlu_stem acc,none 5 0.8000 0.2108\n"
		"mmlu_other acc,none 1 0.0000 nan\n"
		"mmlu_humanities acc,none 4 0.5000 0.2887\n"
		"mmlu_abstract_algebra acc,none 3 0.6667 0.3333\n"
		"mmlu_anatomy acc,none 2 1.0000 0.0000\n"
		"mmlu_business_ethics acc,none 1 0.0000 nan\n"
		"mmlu_formal_logic acc,none 4 0.5000 0.2887\n");
	scored[5] = scored[3] = false; /* errors: the one document of a task, and one of two */
	expect_results(suite, values, scored,
		"- acc,none 8 0.6250 nan\n"
		"mmlu_stem acc,none 4 0.7500 nan\n"
		"mmlu_humanities acc,none 4 0.5000 0.2887\n"
		"mmlu_abstract_algebra acc,none 3 0.6667 0.3333\n"
		"mmlu_anatomy acc,none 1 1.0000 nan\n"
		"mmlu_formal_logic acc,none 4 0.5000 0.2887\n");
	memset(scored, 0, sizeof(scored));
	expect_results(suite, values, scored, "");
	suite_close(suite);
}
END_TEST

/* A sample is drawn from the suite as one: one mean, and its error. */
START_TEST(results_of_a_sample)
{
	struct suite *suite = opened_with(
		"mmlu", &(struct suite_options){.data_folder = golden_path("harness/data"), .sample = 4, .seed = 1234});
	expect_results(suite, (const double[]){1, 0, 1, 1}, (const bool[]){true, true, true, true},
		"- acc,none 4 0.7500 0.2500\n"
		"mmlu_stem acc,none 1 1.0000 nan\n"
		"mmlu_other acc,none 1 0.0000 nan\n"
		"mmlu_humanities acc,none 2 1.0000 0.0000\n"
		"mmlu_abstract_algebra acc,none 1 1.0000 nan\n"
		"mmlu_business_ethics acc,none 1 0.0000 nan\n"
		"mmlu_formal_logic acc,none 2 1.0000 0.0000\n");
	suite_close(suite);
}
END_TEST

/* Three members of 10, 1 and 20 documents: the group's accuracy by size, and no standard error (one member has none). */
START_TEST(a_member_of_one_document)
{
	struct metric_summary members[3], group;
	double values[20] = {1, 1, 1, 1, 1};
	metric_mean("acc,none", values, 10, &members[0]);
	metric_mean("acc,none", values, 1, &members[1]);
	metric_mean("acc,none", (const double[20]){1, 1, 1, 1}, 20, &members[2]);
	metric_pool("acc,none", members, 3, &group);
	ck_assert_double_eq_tol(members[0].stderr_value, 0.16666666666666666, 1e-15);
	ck_assert_double_eq_tol(members[2].stderr_value, 0.09176629354822471, 1e-15);
	ck_assert_int_eq(group.n, 31);
	ck_assert_double_eq_tol(group.value, 0.3225806451612903, 1e-15);
	ck_assert(isnan(group.stderr_value));
	metric_pool("acc,none", (const struct metric_summary[]){members[0], members[2]}, 2, &group);
	ck_assert_double_eq_tol(group.stderr_value, 0.0824, 2e-3);
	metric_pool("acc,none", &members[1], 1, &group);
	ck_assert_double_eq(group.value, 1);
	ck_assert(isnan(group.stderr_value));
}
END_TEST

/* ---- Recall made for a model ---- */

START_TEST(recall_is_as_long_as_asked)
{
	struct engine_text *text;
	CHECK_OK(engine_text_open(SOURCE_DIR "/datasets/pocket/model", &text, &test_error));
	struct suite_options options = {.fewshot = -1, .seed = 1234, .text = text, .max_positions = 600};
	struct suite *suite = opened_with("recall:600", &options), *same = opened_with("Recall:0600", &options);
	ck_assert_str_eq(suite_name(suite), "recall:600");
	ck_assert_str_eq(suite_file_hash(suite, 0), suite_file_hash(same, 0));
	ck_assert_int_eq(suite_count(suite), 3 * 4 * 4); /* 150, 300 and 600 tokens; 4 contexts of 4 questions */
	ck_assert_str_eq(suite_group_column(suite), "tokens");
	for (int i = 0; i < suite_count(suite); i++) {
		const struct suite_item *item = suite_item(suite, i);
		const char *length = i < 16 ? "150" : i < 32 ? "300" : "600";
		struct engine_ids ids;
		ck_assert(str_is(item->group, length));
		ck_assert_str_eq(item->prompt_hash, suite_item(same, i)->prompt_hash);
		CHECK_OK(engine_text_encode_prompt(text, item->context, &ids, &test_error));
		size_t tokens = ids.count + (size_t)item->max_tokens, most = (size_t)strtol(length, NULL, 10);
		ck_assert_msg(tokens <= most && tokens + 40 > most, "item %d: %zu of %zu", i, tokens, most);
		ck_assert_msg(str_find(item->context, item->target, 0) != SIZE_MAX, "item %d: its code is not told", i);
		ck_assert_uint_eq(str_find(item->context, str_of("Codes: "), 0), 0);
		engine_ids_free(&ids);
	}
	suite_close(same);
	options.seed = 5;
	same = opened_with("recall:600", &options);
	ck_assert_str_ne(suite_file_hash(suite, 0), suite_file_hash(same, 0));
	suite_close(same);
	suite_close(suite);
	ck_assert_int_eq(suite_open("recall:601", &options, &suite, &test_error), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(test_error.message, "the model's context holds 600 tokens"));
	ck_assert_int_eq(suite_open("recall:20", &options, &suite, &test_error), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(test_error.message, "without filler takes "));
	engine_text_close(text);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *prompts = test_case(suite, "prompts", 0);
	tcase_add_test(prompts, golden_prompts_agree);
	TCase *tasks = test_case(suite, "tasks", 0);
	tcase_add_loop_test(tasks, tasks_of_a_name, 0, COUNT(task_cases));
	tcase_add_test(tasks, defaults);
	tcase_add_test(tasks, limits_are_of_each_task);
	tcase_add_loop_test(tasks, wrong_names_and_options, 0, COUNT(usage_cases));
	tcase_add_loop_test(tasks, subjects_are_those_of_the_table, 0, COUNT(table_cases));
	tcase_add_loop_test(tasks, bad_documents_are_named, 0, COUNT(bad_cases));
	TCase *samples = test_case(suite, "samples", 0);
	tcase_add_loop_test(samples, a_sample_is_the_smallest_hashes, 0, COUNT(sample_cases));
	tcase_add_test(samples, a_sample_keeps_the_prompts);
	TCase *results = test_case(suite, "results", 0);
	tcase_add_test(results, results_of_groups_and_tasks);
	tcase_add_test(results, results_of_a_sample);
	tcase_add_test(results, a_member_of_one_document);
	TCase *recall = test_case(suite, "recall", 60);
	tcase_add_test(recall, recall_is_as_long_as_asked);
}
