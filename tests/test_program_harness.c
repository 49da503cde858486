/* Files of lm-evaluation-harness, in and out: what the harness itself wrote of the bundled model lies item by item beside
 * our own run of it. */
#include <dirent.h>
#include <math.h>

#include "tests/program_store.h"

const char *const test_program_name = "program_harness";

#define TIME "2026-11-29T21-23-44.800746"
#define RESULTS "results_" TIME ".json"
#define GSM8K "samples_gsm8k_" TIME ".jsonl"
#define ARC "samples_arc_easy_" TIME ".jsonl"

/* A fresh folder with the harness's files, which a test may spoil. */
static const char *harness_copy(void)
{
	static const char *const names[] = {RESULTS, GSM8K, ARC};
	const char *folder = scratch_folder();
	for (int i = 0; i < COUNT(names); i++)
		file_copy(path_in(golden_path("harness/pocket"), names[i]), path_in(folder, names[i]));
	return folder;
}

static void expect_done(struct outcome o)
{
	expect_exit(&o, 0);
	outcome_free(&o);
}

/* ---- In ---- */

START_TEST(an_imported_run_pairs_with_ours_item_by_item)
{
	const char *db = path_in(scratch_folder(), "a.db"), *folder = harness_copy();
	struct outcome o = RUN("import", "--lm-eval", folder, "--db", db, "--json");
	expect_exit(&o, 0);
	struct json_document *document = parse(buf_str(&o.out));
	const struct json *root = json_root(document);
	ck_assert_int_eq(json_path_int(root, "runs/0/run"), 1);
	ck_assert_int_eq(json_path_int(root, "runs/0/tasks"), 2);
	ck_assert_int_eq(json_path_int(root, "runs/0/documents"), 6);
	json_free(document);
	outcome_free(&o);
	expect_done(RUN("run", "--suite", "gsm8k,arc_easy", "--limit", "3", "--variant", "bf16/f32", "--db", db));

	static const char pairs[] = " FROM sample a JOIN sample b USING (suite, task, doc_id, doc_hash, prompt_hash, "
				    "target_hash) WHERE a.run_id = 1 AND b.run_id = 2";
	char query[1024];
	snprintf(query, sizeof(query), "SELECT count(*), sum(a.metrics = b.metrics), sum(a.filtered = b.filtered)%s",
		pairs);
	expect_sql(db, query, "6|6|6\n");
	snprintf(query, sizeof(query), "SELECT count(*)%s AND suite = 'gsm8k' AND a.response = b.response", pairs);
	expect_sql(db, query, "3\n");
	/* every choice's log-probability within 5e-4, and the greedy ones the same */
	snprintf(query, sizeof(query),
		"SELECT count(*), sum(abs(json_extract(a.response, p || '[0]') - json_extract(b.response, p || '[0]')) "
		"< "
		"5e-4),"
		" sum(json_extract(a.response, p || '[1]') = json_extract(b.response, p || '[1]'))"
		" FROM (SELECT '$[' || value || ']' AS p FROM json_each('[0, 1, 2, 3]')),"
		" sample a JOIN sample b USING (suite, task, doc_id) WHERE a.run_id = 1 AND b.run_id = 2 AND suite = "
		"'arc_easy'");
	expect_sql(db, query, "12|12|12\n");
	expect_sql(db,
		"SELECT count(*), sum(a.value = b.value AND a.n = b.n) FROM suite_result a JOIN suite_result b USING "
		"(suite, "
		"task, metric)"
		" WHERE a.run_id = 1 AND b.run_id = 2",
		"4|4\n");
	expect_sql(db, "SELECT kind, status, for_gating, name FROM run JOIN variant USING (run_id) WHERE run_id = 1",
		"run|complete|0|lm-eval\n");
}
END_TEST

START_TEST(the_same_files_are_imported_once)
{
	const char *db = path_in(scratch_folder(), "a.db"), *folder = harness_copy();
	expect_done(RUN("import", "--lm-eval", folder, "--db", db));
	struct outcome o = RUN("import", "--lm-eval", path_in(folder, RESULTS), "--db", db);
	/* found by its own name, its path differs */
	expect_exit(&o, 0);
	ck_assert_msg(strstr(buf_text(&o.out), "run 1") && strstr(buf_text(&o.out), "before"), "%s", buf_text(&o.out));
	outcome_free(&o);
	expect_sql(db, "SELECT count(*) FROM run", "1\n");
	/* under other names it is another run */
	o = RUN("import", "--lm-eval", folder, "--db", db, "--rename", "gsm*=my_*", "--rename",
		"arc_easy=arc_challenge");
	expect_exit(&o, 0);
	ck_assert_msg(strstr(buf_text(&o.err), "my_8k"), "%s", buf_text(&o.err));
	ck_assert_ptr_null(strstr(buf_text(&o.err), "arc"));
	outcome_free(&o);
	expect_sql(db, "SELECT DISTINCT suite, task FROM sample WHERE run_id = 2 ORDER BY suite",
		"arc_challenge|arc_challenge\nmy_8k|my_8k\n");
}
END_TEST

START_TEST(tasks_of_groups_are_tasks_of_the_topmost_one)
{
	const char *db = path_in(scratch_folder(), "a.db"), *folder = harness_copy();
	file_change(path_in(folder, RESULTS), "\"group_subtasks\": {}",
		"\"group_subtasks\": {\"all\": [\"part\"], \"part\": [\"arc_easy\"], \"x\": [\"y\", \"x\"], \"y\": "
		"[\"x\"]}");
	file_change(path_in(folder, RESULTS), "\"results\": {",
		"\"results\": {\"all\": {\"acc,none\": 0.5, \"acc_stderr,none\": \"N/A\", \"sample_len\": 3}, "
		"\"x\": {\"alias\": \"x\"}, ");
	EXPECT_FAILURE(RUN("import", "--lm-eval", folder, "--db", db), 2, RESULTS ": group all",
		"\"acc,none\" is 0.5, expected the mean of its tasks, 1.0 of 3 documents");
	file_change(path_in(folder, RESULTS), "\"acc,none\": 0.5, \"acc_stderr,none\": \"N/A\"",
		"\"acc,none\": 1.0, \"acc_stderr,none\": 0.5");
	struct outcome o = RUN("import", "--lm-eval", folder, "--db", db);
	expect_exit(&o, 0);
	ck_assert_msg(strstr(buf_text(&o.err), "groups: all: \"acc_stderr,none\" 0.5 is 0 here"), "stderr: %s",
		buf_text(&o.err));
	outcome_free(&o);
	expect_sql(db, "SELECT DISTINCT suite, task FROM sample ORDER BY suite", "all|arc_easy\ngsm8k|gsm8k\n");
	expect_sql(db,
		"SELECT suite, task, metric, n, value, stderr FROM suite_result WHERE metric = 'acc,none' AND suite = "
		"'all'"
		" ORDER BY task",
		"all|all|acc,none|3|1.0|0.0\nall|arc_easy|acc,none|3|1.0|0.0\n");
}
END_TEST

#define MANY_BRACKETS "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["

static const struct {
	const char *name, *file, *from, *to, *pieces[3];
} hostile[] = {
	{"no JSON", RESULTS, "", "{\"results\": ", {RESULTS}},
	{"another kind", RESULTS, "", "[1, 2]", {RESULTS, "n-samples", "missing"}},
	{"no tasks", RESULTS, "", "{\"results\": {}, \"n-samples\": {}}", {"n-samples", "empty"}},
	{"no results", RESULTS, "\"results\"", "\"result\"", {RESULTS, "results", "missing"}},
	{"a path as a task", RESULTS, "\"n-samples\": {", "\"n-samples\": {\"../../x\": {\"effective\": 1},",
		{"../../x"}},
	{"a task without samples", RESULTS, "\"n-samples\": {", "\"n-samples\": {\"boolq\": {\"effective\": 1},",
		{"samples_boolq_" TIME, "--log_samples"}},
	{"another count", RESULTS, "\"effective\": 3", "\"effective\": 4", {"3 documents", "4"}},
	{"a count that is none", RESULTS, "\"effective\": 3", "\"effective\": \"3\"", {"3 documents"}},
	{"a version that is no text", RESULTS, "\"lm_eval_version\": \"0.4.13\"", "\"lm_eval_version\": 4",
		{"lm_eval_version", "number"}},
	{"an empty file", ARC, "", "", {"0 documents"}},
	{"a line cut short", ARC, "", "{\"doc_id\": 0, \"doc", {ARC ":1"}},
	{"no UTF-8", ARC, "\"target\": \"1\"", "\"target\": \"\xff\"", {ARC ":1", "UTF-8"}},
	{"no number as doc_id", ARC, "{\"doc_id\": 0", "{\"doc_id\": \"0\"", {ARC ":1", "doc_id", "string"}},
	{"a doc_id below 0", ARC, "{\"doc_id\": 0", "{\"doc_id\": -1", {ARC ":1", "doc_id", "-1"}},
	{"a doc_id that is not whole", ARC, "{\"doc_id\": 0", "{\"doc_id\": 0.5", {ARC ":1", "doc_id", "0.5"}},
	{"a document twice", ARC, "{\"doc_id\": 1", "{\"doc_id\": 0", {ARC, "document 0"}},
	{"a short hash", ARC, "\"doc_hash\": \"6574", "\"doc_hash\": \"", {ARC ":1", "doc_hash", "64"}},
	{"a hash in capitals", ARC, "\"doc_hash\": \"6574a", "\"doc_hash\": \"6574A", {ARC ":1", "doc_hash"}},
	{"no hash", ARC, "\"prompt_hash\"", "\"prompt\"", {ARC ":1", "prompt_hash", "missing"}},
	{"no answer", ARC, "\"resps\": [", "\"resps\": [], \"r\": [", {ARC ":1", "resps"}},
	{"two answers", ARC, "\"resps\": [[", "\"resps\": [[1, ", {ARC ":1", "resps", "2"}},
	{"an answer that is none", ARC, "\"resps\": [[[\"-8", "\"resps\": [[[\"minus 8", {ARC ":1", "resps"}},
	{"greed that is none", ARC, "\"False\"", "\"Maybe\"", {ARC ":1", "resps"}},
	{"a metric that is not there", ARC, "\"metrics\": [", "\"metrics\": [\"f1\", ", {ARC ":1", "f1"}},
	{"metrics that are none", ARC, "\"metrics\": [", "\"metrics\": [1, ", {ARC ":1", "metrics"}},
	{"no filter", ARC, "\"filter\": \"none\"", "\"filter\": 1", {ARC ":1", "filter"}},
	{"filters that disagree", GSM8K, "\"doc_hash\": \"3f58", "\"doc_hash\": \"0f58", {GSM8K ":4", "doc_hash"}},
	{"a mean that is another", RESULTS, "\"acc,none\": 1.0", "\"acc,none\": 0.5",
		{RESULTS ": arc_easy", ARC, "\"acc,none\" is 0.5, expected the mean of the samples, 1.0"}},
	{"a standard error that is another", RESULTS, "\"acc_stderr,none\": 0.0", "\"acc_stderr,none\": 0.25",
		{RESULTS ": arc_easy", ARC,
			"\"acc_stderr,none\" is 0.25, expected the standard error of the samples, 0.0 of 3 documents"}},
	{"another count of a task's results", RESULTS, "\"sample_len\": 3", "\"sample_len\": 4",
		{RESULTS, "\"sample_len\" is 4", "3 documents"}},
	{"a result without samples", RESULTS, "\"acc,none\": 1.0", "\"acc,other\": 0.5, \"acc,none\": 1.0",
		{RESULTS ": arc_easy", "\"acc,other\"", "no sample"}},
	{"a value that is null", ARC, "\"acc\": 1.0", "\"acc\": null",
		{ARC ":1", "document 0: \"acc\" is null, expected a number"}},
	{"a value that is a text", ARC, "\"acc\": 1.0", "\"acc\": \"1.0\"", {ARC ":1", "\"acc\" is string 1.0"}},
	{"a value that is a list", ARC, "\"acc\": 1.0", "\"acc\": [1.0]", {ARC ":1", "\"acc\" is array"}},
	{"a value beyond all numbers", ARC, "\"acc\": 1.0", "\"acc\": 1e999", {ARC ":1", "\"acc\" is number 1e999"}},
	{"a result that is null", RESULTS, "\"acc,none\": 1.0", "\"acc,none\": null",
		{RESULTS ": arc_easy", "\"acc,none\" is null in the results, expected a number"}},
	{"a result that is a text", RESULTS, "\"acc,none\": 1.0", "\"acc,none\": \"N/A\"",
		{RESULTS ": arc_easy", "\"acc,none\" is N/A in the results"}},
	{"a result beyond all numbers", RESULTS, "\"acc,none\": 1.0", "\"acc,none\": 1e999",
		{RESULTS ": arc_easy", "\"acc,none\" is 1e999 in the results"}},
	{"a standard error beyond all numbers", RESULTS, "\"acc_stderr,none\": 0.0", "\"acc_stderr,none\": 1e999",
		{RESULTS ": arc_easy", "\"acc_stderr,none\" is Infinity, expected the standard error"}},
	{"a result that is left out", RESULTS, "\"acc,none\": 1.0,", "",
		{RESULTS ": arc_easy", "\"acc,none\" is missing in the results"}},
	{"a task of no samples", RESULTS, "\"results\": {", "\"results\": {\"ghost\": {\"acc,none\": 0.99}, ",
		{RESULTS ": ", "\"acc,none\" of ghost, which is no task of \"n-samples\" and no group"}},
	{"a value that is another", ARC, "\"acc\": 1.0", "\"acc\": 0.0",
		{RESULTS ": arc_easy", ARC, "\"acc,none\" is 1.0, expected the mean of the samples, 0.6666"}},
	{"another prompt", ARC, "\"arg_0\": \"Question", "\"arg_0\": \"Guess",
		{ARC ":1", "\"prompt_hash\" is a4cf9c167dd9af55, expected "}},
	{"a document without a filter", GSM8K, "{\"doc_id\": 0", "{\"doc_id\": 7",
		{GSM8K, "document 0 stands on 1 lines and document 1 on 2"}},
	{"a filter without a document", GSM8K, "\"filter\": \"flexible-extract\"", "\"filter\": \"other\"",
		{RESULTS ": gsm8k", GSM8K, "\"exact_match,other\" of 1 documents, expected all 3"}},
	{"an abyss", ARC, "",
		MANY_BRACKETS MANY_BRACKETS MANY_BRACKETS MANY_BRACKETS MANY_BRACKETS MANY_BRACKETS MANY_BRACKETS
			MANY_BRACKETS MANY_BRACKETS,
		{ARC ":1"}},
};

START_TEST(hostile_files_are_refused_by_name)
{
	const char *db = path_in(scratch_folder(), "a.db"), *folder = harness_copy();
	file_change(path_in(folder, hostile[_i].file), hostile[_i].from, hostile[_i].to);
	struct outcome o = RUN("import", "--lm-eval", folder, "--db", db, "--json");
	ck_assert_msg(o.exit_code == 2, "%s: exit %d: %s", hostile[_i].name, o.exit_code, buf_text(&o.err));
	const char *pieces[4] = {NULL};
	memcpy(pieces, hostile[_i].pieces, sizeof(hostile[_i].pieces));
	expect_failure(o, 2, pieces);
	/* a store that was made for it is not left behind */
	ck_assert_int_ne(access(db, F_OK), 0);
	/* what is whole again can be imported */
	file_copy(path_in(golden_path("harness/pocket"), hostile[_i].file), path_in(folder, hostile[_i].file));
	expect_done(RUN("import", "--lm-eval", folder, "--db", db));
	expect_sql(db, "SELECT count(*) FROM sample JOIN run USING (run_id) WHERE run.status = 'complete'", "6\n");
}
END_TEST

/* What the configuration says is no mean is not taken for one; what assay knows to be one is, whatever it says. */
START_TEST(only_means_are_computed_again)
{
	const char *db = path_in(scratch_folder(), "a.db"), *folder = harness_copy();
	file_change(path_in(folder, RESULTS), "\"acc,none\": 1.0", "\"acc,none\": 0.5");
	EXPECT_FAILURE(RUN("import", "--lm-eval", folder, "--db", db, "--rename", "arc_easy=my_arc"), 2, "acc,none");
	file_change(path_in(folder, RESULTS), "\"aggregation\": \"mean\"", "\"aggregation\": \"median\"");
	EXPECT_FAILURE(RUN("import", "--lm-eval", folder, "--db", db), 2, "acc,none");
	file_change(path_in(folder, ARC), "\"acc\": 1.0", "\"acc\": null");
	expect_done(RUN("import", "--lm-eval", folder, "--db", db, "--rename", "arc_easy=my_arc"));
	expect_sql(db, "SELECT value FROM suite_result WHERE metric = 'acc,none'", "0.5\n");
}
END_TEST

START_TEST(a_task_without_documents_is_refused)
{
	const char *db = path_in(scratch_folder(), "a.db"), *folder = harness_copy();
	file_change(path_in(folder, GSM8K), "", "");
	file_change(path_in(folder, RESULTS), "\"effective\": 3", "\"effective\": 0");
	file_change(path_in(folder, RESULTS), "\"sample_len\": 3", "\"sample_len\": 0");
	EXPECT_FAILURE(RUN("import", "--lm-eval", folder, "--db", db), 2, GSM8K, "0 documents", RESULTS);
}
END_TEST

/* Task a has three documents (0, 1, 1), b the first two of them; group is a result of "g". */
static const char *group_copy(const char *subtasks, const char *group)
{
	const char *folder = scratch_folder(), *a = path_in(folder, "samples_a_" TIME ".jsonl");
	file_copy(path_in(golden_path("harness/pocket"), ARC), a);
	file_change(a, "\"acc\": 1.0", "\"acc\": 0.0");
	struct buf lines = test_read_file(a), results = {0};
	size_t first = str_find(buf_str(&lines), str_of("\n"), 0);
	size_t second = str_find(buf_str(&lines), str_of("\n"), first + 1);
	overwrite(path_in(folder, "samples_b_" TIME ".jsonl"), lines.data, second + 1);
	buf_append_text(&results,
		"{\"results\": {\"a\": {\"acc,none\": 0.6666666666666666, \"acc_norm,none\": 1.0},"
		" \"b\": {\"acc,none\": 0.5, \"acc_norm,none\": 1.0}, ");
	buf_append_text(&results, group);
	buf_append_text(&results,
		"}, \"n-samples\": {\"a\": {\"effective\": 3}, \"b\": {\"effective\": 2}}, \"group_subtasks\": ");
	buf_append_text(&results, subtasks);
	buf_append_char(&results, '}');
	overwrite(path_in(folder, RESULTS), results.data, results.length);
	buf_free(&lines);
	buf_free(&results);
	return folder;
}

#define BY_SIZE "\"g\": {\"acc,none\": 0.6"
#define PLAIN "\"g\": {\"acc,none\": 0.5833333333333334"

/* By Python's statistics: se(a) = 1/3, se(b) = 1/2; pooled sqrt(7/6 / 3 / 5), of the plain mean sqrt(1/9 + 1/4) / 2. */
#define POOLED "0.27888667551135854"
#define UNWEIGHTED "0.30046260628866576"

static const struct {
	const char *name, *subtasks, *group;
	const char *refused; /* NULL: it is imported */
	const char *noted;   /* NULL: nothing is */
	const char *error;   /* what is stored as its standard error */
} groups[] = {
	{"by size", "{\"g\": [\"a\", \"b\"]}", BY_SIZE ", \"acc_stderr,none\": " POOLED ", \"sample_len\": 5}", NULL,
		NULL, POOLED},
	{"plain", "{\"g\": [\"a\", \"b\"]}", PLAIN ", \"acc_stderr,none\": " UNWEIGHTED "}", NULL, NULL, UNWEIGHTED},
	{"plain, pooled", "{\"g\": [\"a\", \"b\"]}", PLAIN ", \"acc_stderr,none\": " POOLED "}", NULL, NULL, POOLED},
	{"plain, untold", "{\"g\": [\"a\", \"b\"]}", PLAIN ", \"acc_stderr,none\": \"N/A\"}", NULL, NULL, UNWEIGHTED},
	{"plain, another", "{\"g\": [\"a\", \"b\"]}", PLAIN ", \"acc_stderr,none\": 0.1}", NULL,
		"groups: g: \"acc_stderr,none\" 0.1 is 0.300463 here", UNWEIGHTED},
	{"by size, the plain one's", "{\"g\": [\"a\", \"b\"]}", BY_SIZE ", \"acc_stderr,none\": " UNWEIGHTED "}", NULL,
		"groups: g: \"acc_stderr,none\" 0.300463 is 0.278887 here", POOLED},
	{"groups in groups", "{\"g\": [\"h\", \"a\"], \"h\": [\"b\", \"g\", \"a\", \"x\"]}",
		BY_SIZE ", \"sample_len\": 5}", NULL, NULL, POOLED},
	{"tasks as groups", "{\"a\": [], \"g\": [\"a\", \"b\"], \"b\": []}", BY_SIZE "}", NULL, NULL, POOLED},
	{"neither mean", "{\"g\": [\"a\", \"b\"]}", "\"g\": {\"acc,none\": 0.61}",
		"group g: \"acc,none\" is 0.61, expected the mean of its tasks, 0.6", NULL, NULL},
	{"beyond all numbers", "{\"g\": [\"a\", \"b\"]}", "\"g\": {\"acc,none\": 1e999}",
		"group g: \"acc,none\" is Infinity, expected the mean of its tasks, 0.6", NULL, NULL},
	{"no members", "{\"g\": []}", BY_SIZE "}", "group g: the results hold \"acc,none\", and no task below", NULL,
		NULL},
	{"members that are none", "{\"g\": [\"c\", \"g\", 1, null, [\"a\"]]}", BY_SIZE "}", "group g: the results hold",
		NULL, NULL},
	{"no list", "{\"g\": \"a\"}", BY_SIZE "}", "group g: the results hold", NULL, NULL},
	{"no entry", "{\"h\": [\"a\", \"b\"]}", BY_SIZE "}", "of g, which is no task", NULL, NULL},
	{"no groups at all", "null", BY_SIZE "}", "of g, which is no task", NULL, NULL},
	{"groups that are none", "[\"g\"]", BY_SIZE "}", "of g, which is no task", NULL, NULL},
	{"a metric of no task", "{\"g\": [\"a\", \"b\"]}", BY_SIZE ", \"acc,foo\": 0.9}",
		"group g: the results hold \"acc,foo\", and no task below", NULL, NULL},
	{"another number of documents", "{\"g\": [\"a\", \"b\"]}", BY_SIZE ", \"sample_len\": 6}",
		"group g: \"sample_len\" is 6, expected 5, the documents of its tasks", NULL, NULL},
	{"a number of documents that is none", "{\"g\": [\"a\", \"b\"]}", BY_SIZE ", \"sample_len\": null}",
		"group g: \"sample_len\" is null, expected 5", NULL, NULL},
};

START_TEST(groups_say_what_their_tasks_say)
{
	const char *db = path_in(scratch_folder(), "a.db"), *refused = groups[_i].refused;
	const char *folder = group_copy(groups[_i].subtasks, groups[_i].group);
	struct outcome o = RUN("import", "--lm-eval", folder, "--db", db);
	if (refused) {
		ck_assert_msg(o.exit_code == 2, "%s: exit %d: %s", groups[_i].name, o.exit_code, buf_text(&o.err));
		expect_failure(o, 2, (const char *const[]){RESULTS, refused, NULL});
		ck_assert_int_ne(access(db, F_OK), 0);
		return;
	}
	ck_assert_msg(o.exit_code == 0, "%s: exit %d: %s", groups[_i].name, o.exit_code, buf_text(&o.err));
	const char *noted = groups[_i].noted ? groups[_i].noted : "groups: ";
	ck_assert_msg((strstr(buf_text(&o.err), noted) != NULL) == (groups[_i].noted != NULL), "%s: %s",
		groups[_i].name, buf_text(&o.err));
	outcome_free(&o);
	char query[256];
	snprintf(query, sizeof(query),
		"SELECT count(*), abs(stderr - %s) < 1e-15 FROM suite_result WHERE task = 'g' AND metric = 'acc,none'",
		groups[_i].error);
	expect_sql(db, query, "1|1\n");
}
END_TEST

/* LAYERS times two groups, each of both below it: 2^LAYERS ways lead down. */
START_TEST(many_ways_lead_to_a_task)
{
	enum { LAYERS = 40, CHAIN = 5000 };
	struct buf subtasks = {0}, results = {0};
	buf_append_text(&subtasks, "{\"g\": [\"l0_0\", \"l0_1\"]");
	for (int i = 0; i < 2 * LAYERS; i++)
		if (i / 2 < LAYERS - 1)
			buf_printf(
				&subtasks, ", \"l%d_%d\": [\"l%d_0\", \"l%d_1\"]", i / 2, i % 2, i / 2 + 1, i / 2 + 1);
		else
			buf_printf(&subtasks, ", \"l%d_%d\": [\"a\", \"b\"]", i / 2, i % 2);
	buf_append_char(&subtasks, '}');
	const char *db = path_in(scratch_folder(), "a.db");
	expect_done(RUN("import", "--lm-eval", group_copy(buf_text(&subtasks), BY_SIZE "}"), "--db", db));
	expect_sql(db, "SELECT DISTINCT suite FROM suite_result", "g\n");

	/* each below the one before, with a result of its own: more than any harness wrote */
	buf_clear(&subtasks);
	for (int i = 0; i < CHAIN; i++) {
		buf_printf(&subtasks, "%s\"c%d\": [\"c%d\", \"a\", \"b\"]", i ? ", " : "{", i, i + 1);
		buf_printf(&results, "%s\"c%d\": {\"acc,none\": 0.6}", i ? ", " : "", i);
	}
	buf_append_char(&subtasks, '}');
	EXPECT_FAILURE(RUN("import", "--lm-eval", group_copy(buf_text(&subtasks), buf_text(&results)), "--db", db), 2,
		RESULTS, "leads through more than");
	buf_free(&subtasks);
	buf_free(&results);
}
END_TEST

/* With --bootstrap_iters 0 the harness writes no standard error. */
START_TEST(standard_errors_come_from_the_samples)
{
	const char *db = path_in(scratch_folder(), "a.db"), *folder = harness_copy();
	file_change(path_in(folder, ARC), "\"acc\": 1.0", "\"acc\": 0.0");
	file_change(path_in(folder, RESULTS), "\"acc,none\": 1.0,\n   \"acc_stderr,none\": 0.0",
		"\"acc,none\": 0.6666666666666666, \"acc_stderr,none\": \"N/A\"");
	expect_done(RUN("import", "--lm-eval", folder, "--db", db));
	expect_sql(db,
		"SELECT abs(stderr - 1.0 / 3) < 1e-15 FROM suite_result WHERE metric = 'acc,none' AND task = "
		"'arc_easy'",
		"1\n");
}
END_TEST

START_TEST(what_is_typed_wrongly_is_said)
{
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db");
	EXPECT_FAILURE(RUN("import", "--db", db), 2, "--lm-eval");
	EXPECT_FAILURE(RUN("export", "1", "--db", db), 2, "--lm-eval");
	EXPECT_FAILURE(RUN("import", "--lm-eval", path_in(folder, "none"), "--db", db), 2, "none", "no such");
	EXPECT_FAILURE(RUN("import", "--lm-eval", folder, "--db", db), 5, folder, "results_<time>.json");
	EXPECT_FAILURE(
		RUN("import", "--lm-eval", harness_copy(), "--db", db, "--rename", "gsm8k"), 2, "OLD=NEW", "gsm8k");
	EXPECT_FAILURE(RUN("import", "--lm-eval", harness_copy(), "--db", db, "--rename", "=x"), 2, "OLD=NEW");
	EXPECT_FAILURE(RUN("import", "--lm-eval", path_in(golden_path("harness"), "SOURCE.txt"), "--db", db), 2,
		"results_<time>.json");
	expect_done(RUN("import", "--lm-eval", harness_copy(), "--db", db));
	EXPECT_FAILURE(RUN("export", "latest", "--lm-eval", folder, "--db", db), 2, "imported");
	EXPECT_FAILURE(RUN("export", "9", "--lm-eval", folder, "--db", db), 2, "9");
}
END_TEST

/* ---- Out ---- */

/* The one folder in a folder, then the file of that beginning in it. */
static const char *find_in(const char *folder, const char *beginning)
{
	DIR *d = opendir(folder);
	const char *found = NULL;
	ck_assert_msg(d != NULL, "%s", folder);
	for (struct dirent *f; (f = readdir(d));)
		if (f->d_name[0] != '.' && strncmp(f->d_name, beginning, strlen(beginning)) == 0)
			found = path_in(folder, f->d_name);
	closedir(d);
	ck_assert_msg(found != NULL, "%s holds no %s", folder, beginning);
	return found;
}

/* Equal, but for log-probabilities written as texts, which may differ by 5e-4. */
static void expect_same_json(const struct json *ours, const struct json *theirs, const char *path)
{
	ck_assert_msg(
		ours->type == theirs->type, "%s: %s, expected %s", path, json_type_name(ours), json_type_name(theirs));
	if (json_is(ours, JSON_NUMBER))
		ck_assert_msg(json_double(ours) == json_double(theirs), "%s: %.*s, expected %.*s", path,
			STR_ARG(ours->text), STR_ARG(theirs->text));
	if (json_is(ours, JSON_STRING) && !str_equal(ours->text, theirs->text)) {
		double a = strtod(ours->text.data, NULL), b = strtod(theirs->text.data, NULL);
		ck_assert_msg(strstr(path, "resps") && b != 0 && fabs(a - b) < 5e-4, "%s: '%.*s', expected '%.*s'",
			path, STR_ARG(ours->text), STR_ARG(theirs->text));
	}
	const struct json *a = ours->child, *b = theirs->child;
	for (; a && b; a = a->next, b = b->next) {
		char below[512];
		ck_assert_msg(
			str_equal(a->key, b->key), "%s: %.*s, expected %.*s", path, STR_ARG(a->key), STR_ARG(b->key));
		snprintf(below, sizeof(below), "%.400s/%.*s", path, (int)(a->key.length < 100 ? a->key.length : 100),
			a->key.data ? a->key.data : "");
		expect_same_json(a, b, below);
	}
	ck_assert_msg(!a && !b, "%s: %s", path, a ? "more than expected" : "less than expected");
}

static void expect_same_lines(const char *ours, const char *theirs)
{
	struct buf a = test_read_file(ours), b = test_read_file(theirs);
	struct str x = buf_str(&a), y = buf_str(&b);
	int lines = 0;
	for (struct json_document *line; (line = parse_line(&y)); lines++) {
		struct json_document *own = parse_line(&x);
		ck_assert_msg(own != NULL, "%s has %d lines", ours, lines);
		expect_same_json(json_root(own), json_root(line), "");
		json_free(own);
		json_free(line);
	}
	ck_assert_uint_eq(x.length, 0);
	ck_assert_int_gt(lines, 2);
	buf_free(&a);
	buf_free(&b);
}

START_TEST(an_exported_run_is_what_the_harness_wrote)
{
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db"), *out = path_in(folder, "deep/out");
	expect_done(RUN("run", "--suite", "gsm8k,arc_easy", "--limit", "3", "--variant", "bf16/f32", "--variant",
		"int4/fp8", "--db", db));
	struct outcome o = RUN("export", "--lm-eval", out, "latest:bf16/f32", "--db", db);
	expect_exit(&o, 0);
	const char *model = find_in(out, "");
	ck_assert_msg(strncmp(buf_text(&o.out), model, strlen(model)) == 0, "%s", buf_text(&o.out));
	outcome_free(&o);
	const char *theirs = golden_path("harness/pocket");
	expect_same_lines(find_in(model, "samples_gsm8k_"), path_in(theirs, GSM8K));
	expect_same_lines(find_in(model, "samples_arc_easy_"), path_in(theirs, ARC));

	struct buf a = test_read_file(find_in(model, "results_")), b = test_read_file(path_in(theirs, RESULTS));
	struct json_document *own = parse(buf_str(&a)), *harness = parse(buf_str(&b));
	static const char *const same[] = {"group_subtasks", "versions", "n-shot", "higher_is_better", "n-samples",
		"task_hashes", "results/gsm8k", "results/arc_easy", "config/limit", "config/fewshot_seed"};
	for (int i = 0; i < COUNT(same); i++) {
		const struct json *x = json_path(json_root(own), same[i]), *y = json_path(json_root(harness), same[i]);
		JSON_EACH (member, y)
			expect_same_json(json_get_str(x, member->key), member, same[i]);
		ck_assert_uint_eq(x->count, y->count);
	}
	json_free(own);
	json_free(harness);
	buf_free(&a);
	buf_free(&b);
	/* and both variants, into folders of their own */
	o = RUN("export", "--lm-eval", out, "1", "--db", db);
	expect_exit(&o, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "int4__fp8\n"));
	outcome_free(&o);
	EXPECT_FAILURE(RUN("export", "--lm-eval", out, "1:int8/fp8", "--db", db), 2, "int8/fp8");
}
END_TEST

START_TEST(groups_come_back_as_they_went)
{
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db"), *out = path_in(folder, "out");
	expect_done(RUN("run", "--suite", "mmlu,recall", "--limit", "2", "--db", db));
	expect_done(RUN("export", "--lm-eval", out, "1", "--db", db));
	struct outcome o = RUN("import", "--lm-eval", out, "--db", db);
	expect_exit(&o, 0);
	ck_assert_ptr_null(strstr(buf_text(&o.err), "--rename"));
	outcome_free(&o);
	expect_sql(db,
		"SELECT count(*), sum(a.response = b.response), sum(a.metrics = b.metrics), sum(a.filtered = "
		"b.filtered)"
		" FROM sample a JOIN sample b USING (suite, task, doc_id, doc_hash, prompt_hash, target_hash)"
		" WHERE a.run_id = 1 AND b.run_id = 2",
		"26|26|26|26\n");
	expect_sql(db,
		"SELECT count(*), sum(a.value = b.value AND a.n = b.n AND a.stderr IS b.stderr)"
		" FROM suite_result a JOIN suite_result b USING (suite, task, metric) WHERE a.run_id = 1 AND b.run_id "
		"= 2",
		"14|14\n");
}
END_TEST

/* A sample may leave one document of a task, which has no standard error; its group has one. */
START_TEST(groups_of_a_sample_come_back)
{
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db"), *out = path_in(folder, "out");
	expect_done(RUN("run", "--suite", "mmlu", "--sample", "5", "--db", db));
	expect_done(RUN("export", "--lm-eval", out, "1", "--db", db));
	expect_done(RUN("import", "--lm-eval", out, "--db", db));
	expect_sql(db,
		"SELECT sum(task = 'mmlu' AND a.stderr IS NOT NULL), sum(a.n = 1) > 0,"
		" sum(NOT (a.stderr IS b.stderr OR abs(a.stderr - b.stderr) < 1e-12))"
		" FROM suite_result a JOIN suite_result b USING (suite, task, metric) WHERE a.run_id = 1 AND b.run_id "
		"= 2",
		"1|1|0\n");
}
END_TEST

START_TEST(other_data_than_the_run_had_are_refused)
{
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db");
	const char *test = test_write_file("recall/test.jsonl", "", 0), *data;
	char copy[4096];
	snprintf(copy, sizeof(copy), "%.*s", (int)(strlen(test) - strlen("/recall/test.jsonl")), test);
	data = copy;
	file_copy(POCKET_DATA "/recall/test.jsonl", test);
	expect_done(RUN("run", "--suite", "recall", "--limit", "3", "--data", data, "--db", db));
	file_change(test, "Codes: ", "Codes:  ");
	EXPECT_FAILURE(
		RUN("export", "--lm-eval", folder, "1", "--db", db), 2, "recall document 0", "document", "--data");
	expect_done(RUN("export", "--lm-eval", folder, "1", "--db", db, "--data", POCKET_DATA));
	ck_assert_int_eq(unlink(test), 0);
	EXPECT_FAILURE(RUN("export", "--lm-eval", folder, "1", "--db", db), 2, "recall/test.jsonl");
}
END_TEST

#define SAME_PROMPTS                                                                                                   \
	"SELECT count(*), sum(a.response = b.response), sum(a.metrics = b.metrics) FROM sample a JOIN sample b USING " \
	"(suite, task, doc_id, doc_hash, prompt_hash, target_hash) WHERE a.run_id = 1 AND b.run_id = 2"

START_TEST(made_documents_come_back_as_they_went)
{
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db"), *out = path_in(folder, "out");
	expect_done(RUN("run", "--suite", "recall:400", "--limit", "2", "--db", db));
	expect_done(RUN("export", "--lm-eval", out, "1", "--db", db));
	/* the harness puts a task's name into a file's as it is */
	find_in(find_in(out, ""), "samples_recall:400_2");
	expect_done(RUN("import", "--lm-eval", out, "--db", db));
	expect_sql(db, SAME_PROMPTS, "2|2|2\n");
}
END_TEST

static const char chat_template[] = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
				    "{{ strftime_now('%d %B %Y') }}{% if add_generation_prompt %} [assistant] {% endif "
				    "%}";

/* What --template, --date and --system-instruction made of the prompts is made again. */
START_TEST(chat_runs_are_exported_as_they_were_asked)
{
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db"), *out = path_in(folder, "out");
	const char *template = test_write_file("t.jinja", chat_template, strlen(chat_template));
	expect_done(RUN("run", "--suite", "gsm8k,arc_easy", "--limit", "2", "--fewshot", "2", "--db", db,
		"--apply-chat-template", "--fewshot-as-multiturn", "false", "--system-instruction", "Be brief.",
		"--template", template, "--date", "2025-02-01"));
	expect_done(RUN("export", "--lm-eval", out, "1", "--db", db));
	expect_done(RUN("import", "--lm-eval", out, "--db", db));
	expect_sql(db, SAME_PROMPTS, "4|4|4\n");

	const char *model = find_in(out, "");
	struct buf lines = test_read_file(find_in(model, "samples_arc_easy_"));
	struct str rest = buf_str(&lines);
	struct json_document *line = parse_line(&rest);
	const struct json *prompt = json_path(json_root(line), "arguments/gen_args_1/arg_0");
	const struct json *choice = json_path(json_root(line), "arguments/gen_args_1/arg_1");
	ck_assert(str_starts_with(prompt->text, str_of("[system] Be brief.\n[user] Question: ")));
	ck_assert(str_find(prompt->text, str_of("\n01 February 2025 [assistant] "), 0) != SIZE_MAX);
	/* in a conversation nothing stands between prompt and choice */
	ck_assert_msg(str_is(choice->text, "a pen"), "%.*s", STR_ARG(choice->text));
	json_free(line);
	buf_free(&lines);

	struct buf text = test_read_file(find_in(model, "results_"));
	struct json_document *results = parse(buf_str(&text));
	ck_assert(str_is(json_path(json_root(results), "system_instruction")->text, "Be brief."));
	ck_assert(str_is(json_path(json_root(results), "chat_template")->text, chat_template));
	/* printf '%s' 'Be brief.' | sha256sum */
	ck_assert(str_is(json_path(json_root(results), "system_instruction_sha")->text,
		"213c22ed7234eb11116e1e88f314c73cb3a019b5c87fe224b6ce5665bd9ec50e"));
	ck_assert(json_is(json_path(json_root(results), "fewshot_as_multiturn"), JSON_FALSE));
	json_free(results);
	buf_free(&text);
}
END_TEST

START_TEST(a_system_instruction_needs_no_template)
{
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db"), *out = path_in(folder, "out");
	expect_done(RUN("run", "--suite", "arc_easy", "--limit", "2", "--system-instruction", "Be brief.", "--db", db));
	expect_done(RUN("export", "--lm-eval", out, "1", "--db", db));
	expect_done(RUN("import", "--lm-eval", out, "--db", db));
	expect_sql(db, SAME_PROMPTS, "2|2|2\n");
}
END_TEST

START_TEST(the_model_of_the_prompts_must_be_there)
{
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db"), *model = pocket_copy();
	const char *tokenizer = path_in(model, "tokenizer_config.json");
	expect_done(
		RUN("run", "--model", model, "--suite", "gsm8k", "--limit", "1", "--apply-chat-template", "--db", db));
	expect_done(RUN("run", "--model", model, "--suite", "gsm8k", "--limit", "1", "--db", db));
	file_change(tokenizer, "<|im_start|>assistant", "<|im_start|>model");
	EXPECT_FAILURE(RUN("export", "--lm-eval", folder, "1", "--db", db), 2, model, "chat template", "run 1");
	char gone[4096];
	snprintf(gone, sizeof(gone), "%s-gone", model);
	ck_assert_int_eq(rename(model, gone), 0);
	EXPECT_FAILURE(RUN("export", "--lm-eval", folder, "1", "--db", db), 2, model, "not there any more");
	/* plain prompts need no model */
	expect_done(RUN("export", "--lm-eval", folder, "2", "--db", db));
	ck_assert_int_eq(rename(gone, model), 0);
}
END_TEST

static const char exam[] = "{\"id\": 1, \"prompt\": \"Question: What is the capital of France?\\nAnswer:\", \"check\": "
			   "\"exact\", \"expected\": \"Paris\", \"stop\": \"\\n\", \"max_tokens\": 8}\n";

START_TEST(suites_of_no_harness_task_are_left_out)
{
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db"), *out = path_in(folder, "out");
	char suites[4096];
	snprintf(suites, sizeof(suites), "toolcall_multiple,gsm8k,%s",
		test_write_file("Capitals.jsonl", exam, strlen(exam)));
	expect_done(RUN("run", "--suite", suites, "--limit", "1", "--db", db));
	struct outcome o = RUN("export", "--lm-eval", out, "1", "--db", db);
	expect_exit(&o, 0);
	ck_assert_msg(strstr(buf_text(&o.err), "1 answers written") &&
			strstr(buf_text(&o.err), ": toolcall_multiple, Capitals\n"),
		"%s", buf_text(&o.err));
	outcome_free(&o);
	find_in(find_in(out, ""), "samples_gsm8k_");
	expect_done(RUN("run", "--suite", strrchr(suites, ',') + 1, "--db", db));
	EXPECT_FAILURE(RUN("export", "--lm-eval", out, "2", "--db", db), 5, "run 2", "holds: Capitals");
}
END_TEST

/* The harness's files have no word for them: read in again they would be whole runs. */
START_TEST(parts_of_runs_are_not_exported)
{
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db"), *out = path_in(folder, "out");
	static const char *const states[] = {"interrupted", "failed", "running"};
	expect_done(RUN("run", "--suite", "arc_easy", "--shard", "1/100", "--db", db));
	EXPECT_FAILURE(RUN("export", "--lm-eval", out, "1", "--db", db), 2, "run 1 is a shard", "db merge");
	expect_done(RUN("run", "--suite", "arc_easy", "--limit", "1", "--db", db));
	for (int i = 0; i < COUNT(states); i++) {
		char statement[256];
		snprintf(statement, sizeof(statement), "UPDATE run SET status = '%s' WHERE run_id = 2", states[i]);
		sql_change(db, statement);
		/* the process that was running it is no more */
		EXPECT_FAILURE(RUN("export", "--lm-eval", out, "2", "--db", db), 2, "run 2 is",
			i == 2 ? "interrupted" : states[i], "expected a complete one");
	}
	ck_assert_int_ne(access(out, F_OK), 0);
	sql_change(db, "UPDATE run SET status = 'complete'");
	expect_done(RUN("export", "--lm-eval", out, "2", "--db", db));
}
END_TEST

/* The second suite of the run cannot be written: nothing is, and what stood there stands there still. */
START_TEST(nothing_is_written_by_half)
{
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db"), *out = path_in(folder, "out");
	expect_done(RUN("run", "--suite", "arc_easy,gsm8k", "--limit", "1", "--db", db));
	sql_change(db, "UPDATE sample SET prompt_hash = 'x' || substr(prompt_hash, 2) WHERE suite = 'gsm8k'");
	EXPECT_FAILURE(RUN("export", "--lm-eval", out, "1", "--db", db), 2, "gsm8k");
	ck_assert_int_ne(access(out, F_OK), 0);
	sql_change(db, "UPDATE run SET config_hash = 'x'");
	expect_done(RUN("run", "--suite", "arc_easy,gsm8k", "--limit", "1", "--db", db));
	expect_done(RUN("export", "--lm-eval", out, "2", "--db", db));
	struct buf before = test_read_file(find_in(find_in(out, ""), "samples_arc_easy_"));
	sql_change(db, "UPDATE sample SET prompt_hash = 'x' || substr(prompt_hash, 2) WHERE suite = 'gsm8k'");
	EXPECT_FAILURE(RUN("export", "--lm-eval", out, "2", "--db", db), 2, "gsm8k");
	struct buf after = test_read_file(find_in(find_in(out, ""), "samples_arc_easy_"));
	ck_assert(str_equal(buf_str(&before), buf_str(&after)));
	buf_free(&before);
	buf_free(&after);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *in = test_case(suite, "import", 120), *out = test_case(suite, "export", 120);
	tcase_add_test(in, an_imported_run_pairs_with_ours_item_by_item);
	tcase_add_test(in, the_same_files_are_imported_once);
	tcase_add_test(in, standard_errors_come_from_the_samples);
	tcase_add_test(in, tasks_of_groups_are_tasks_of_the_topmost_one);
	tcase_add_loop_test(in, hostile_files_are_refused_by_name, 0, COUNT(hostile));
	tcase_add_test(in, only_means_are_computed_again);
	tcase_add_test(in, a_task_without_documents_is_refused);
	tcase_add_loop_test(in, groups_say_what_their_tasks_say, 0, COUNT(groups));
	tcase_add_test(in, many_ways_lead_to_a_task);
	tcase_add_test(in, what_is_typed_wrongly_is_said);
	tcase_add_test(out, an_exported_run_is_what_the_harness_wrote);
	tcase_add_test(out, groups_come_back_as_they_went);
	tcase_add_test(out, made_documents_come_back_as_they_went);
	tcase_add_test(out, chat_runs_are_exported_as_they_were_asked);
	tcase_add_test(out, a_system_instruction_needs_no_template);
	tcase_add_test(out, the_model_of_the_prompts_must_be_there);
	tcase_add_test(out, suites_of_no_harness_task_are_left_out);
	tcase_add_test(out, parts_of_runs_are_not_exported);
	tcase_add_test(out, nothing_is_written_by_half);
	tcase_add_test(out, groups_of_a_sample_come_back);
	tcase_add_test(out, other_data_than_the_run_had_are_refused);
}
