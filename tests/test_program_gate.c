/* `assay gate`, `compare` and `diff` as a user and as CI call them: streams, files, exit codes, surroundings. */
#include "tests/program.h"
#include "tests/table_files.h"

const char *const test_program_name = "program_gate";

/* ---- Two files of answers that fail, pass, or neither ---- */

static const struct paired_table fails = {150, 16, 4, 50}, passes = {1800, 3, 2, 195};

static struct outcome gate(struct table_files f, const char *const *more)
{
	struct call c = {.arguments = {"gate", "--baseline", f.baseline, "--candidate", f.candidate}};
	for (int i = 0; more && more[i]; i++)
		c.arguments[5 + i] = more[i];
	return program_run(&c);
}

#define GATE(files, ...) gate((files), (const char *const[]){__VA_ARGS__, NULL})

static void expect_in(const struct buf *text, const char *piece)
{
	ck_assert_msg(strstr(buf_text(text), piece), "no '%s' in: %.3000s", piece, buf_text(text));
}

START_TEST(verdicts_are_printed_and_are_the_exit_code)
{
	struct outcome o = GATE(write_table(fails), "--quiet");
	expect_exit(&o, 1);
	expect_in(&o.out, "fail: the pooled drop of 5.45 points over 220 items is above the margin of 1 point");
	expect_in(&o.out, "0.0118");
	ck_assert(!strchr(buf_text(&o.out), '\x1b'));
	outcome_free(&o);
	o = GATE(write_table(fails), "--margin", "5.45");
	expect_exit(&o, 3);
	expect_in(&o.out, "inconclusive: the pooled drop");
	outcome_free(&o);
	o = GATE(write_table(passes), "--color=always");
	expect_exit(&o, 0);
	expect_in(&o.out, "\x1b[1;32mpass\x1b[0m: the pooled drop");
	ck_assert_uint_eq(o.err.length, 0);
	outcome_free(&o);
}
END_TEST

START_TEST(files_are_written)
{
	const char *folder = scratch_folder();
	const char *junit = path_in(folder, "o.xml"), *markdown = path_in(folder, "o.md"),
		   *html = path_in(folder, "o.html");
	struct outcome o = GATE(write_table(fails), "--junit", junit, "--markdown", markdown, "--html", html, "--json");
	expect_exit(&o, 1);
	struct json_document *d = parse(buf_str(&o.out));
	ck_assert_str_eq(json_path(json_root(d), "verdict")->text.data, "fail");
	ck_assert_int_eq(json_path_int(json_root(d), "exit_code"), 1);
	json_free(d);
	const struct {
		const char *path, *piece;
	} files[] = {{junit, "<failure type=\"gate\""}, {markdown, "**FAIL** (exit code 1)"}, {html, "</html>"}};
	for (int i = 0; i < COUNT(files); i++) {
		struct buf content = test_read_file(files[i].path);
		expect_in(&content, files[i].piece);
		buf_free(&content);
	}
	outcome_free(&o);
	EXPECT_FAILURE(GATE(write_table(fails), "--junit", "/nowhere/o.xml"), 4, "/nowhere/o.xml");
}
END_TEST

/* Nothing measured is no pass, and last week's report does not stay. */
START_TEST(nothing_measured)
{
	static const char *const candidates[] = {"", "\n\n", "{\"doc_id\": 100, \"acc\": 1.0}\n"};
	for (int i = 0; i < COUNT(candidates); i++) {
		struct table_files f = write_table((struct paired_table){3, 0, 0, 1});
		const char *junit = test_write_file("o.xml", "<testsuites tests=\"1\" failures=\"0\"/>", 36);
		f.candidate = test_write_file("none.jsonl", candidates[i], strlen(candidates[i]));
		EXPECT_FAILURE(GATE(f, "--junit", junit), 5, "nothing to compare", "none.jsonl");
		struct buf content = test_read_file(junit);
		expect_in(&content, "errors=\"1\"");
		expect_in(&content, "<error type=\"error\" message=\"nothing to compare");
		buf_free(&content);
	}
}
END_TEST

/* ---- What stays of a gate that could not judge ---- */

static const struct {
	const char *arguments[6]; /* beyond the two sides and the files */
	const char *candidate;    /* NULL: one that can be judged */
	int exit_code;
	const char *message;
} unjudged[] = {
	{{NULL}, "", 5, "holds no answers"},
	{{"--suite", "gms8k"}, NULL, 2, "'gms8k'"},
	{{"--policy", "/nowhere.json"}, NULL, 2, "/nowhere.json"},
	{{"--margin", "0,8"}, NULL, 2, "--margin: '0,8'"},
	{{"--no-such-option"}, NULL, 2, "--no-such-option"},
};

/* Files of before say the error, whatever it is and wherever on the command line they are named. */
START_TEST(nothing_of_before_stays)
{
	static const char *const options[] = {"--junit", "--markdown", "--html"};
	static const char *const pieces[] = {"<error type=\"error\"", "**ERROR**, nothing was judged", "✗ ERROR"};
	struct table_files f = write_table(passes);
	if (unjudged[_i].candidate)
		f.candidate = test_write_file("none.jsonl", unjudged[_i].candidate, strlen(unjudged[_i].candidate));
	char variable[4200];
	const char *folder = scratch_folder(), *summary = path_in(folder, "summary.md"), *files[COUNT(options)];
	snprintf(variable, sizeof(variable), "GITHUB_STEP_SUMMARY=%s", summary);
	struct call c = {.arguments = {"gate"}, .environment = {variable}};
	int n = 1;
	for (int i = 0; unjudged[_i].arguments[i]; i++)
		c.arguments[n++] = unjudged[_i].arguments[i];
	for (int i = 0; i < COUNT(options); i++) {
		files[i] = path_in(folder, options[i] + 2);
		overwrite(files[i], "PASS", 4);
		c.arguments[n++] = options[i];
		c.arguments[n++] = files[i];
	}
	const char *const sides[] = {"--baseline", f.baseline, "--candidate", f.candidate};
	for (int i = 0; i < COUNT(sides); i++)
		c.arguments[n++] = sides[i];
	EXPECT_FAILURE(program_run(&c), unjudged[_i].exit_code, unjudged[_i].message);
	for (int i = 0; i <= COUNT(options); i++) {
		struct buf content = test_read_file(i < COUNT(options) ? files[i] : summary);
		expect_in(&content, pieces[i < COUNT(options) ? i : 1]);
		ck_assert_ptr_null(strstr(buf_text(&content), "PASS"));
		buf_free(&content);
	}
}
END_TEST

/* ---- Policies ---- */

START_TEST(suites_that_are_left_out_are_said)
{
	static const char text[] = "{\"suites\": {\"a\": {\"margin\": 2}, \"b\": {}}, \"delta_logprob\": {}}";
	const char *policy = test_write_file("policy.json", text, sizeof(text) - 1);
	struct buf baseline = {0}, candidate = {0};
	append_table(&baseline, &candidate, "a", passes);
	append_table(&baseline, &candidate, "b", fails);
	struct outcome o = GATE(write_files(&baseline, &candidate), "--policy", policy, "--suite", "A");
	expect_exit(&o, 3);
	expect_in(&o.err, "left out by --suite, not judged: b\n");
	expect_in(&o.out, "delta_logprob  critical     0");
	expect_in(&o.out, "inconclusive: delta_logprob, which the policy names, cannot be measured");
	outcome_free(&o);
}
END_TEST

static const struct {
	const char *arguments[8];
	int exit_code;
	const char *message;
} usages[] = {
	{{"gate"}, 2, "--baseline is missing"},
	{{"gate", "--baseline", "BASE"}, 2, "--candidate is missing"},
	{{"gate", "--baseline", "BASE", "--candidate", "/nowhere/x.jsonl"}, 2, "/nowhere/x.jsonl"},
	{{"gate", "--baseline", "BASE", "--candidate", "BASE", "--margin", "0,8"}, 2, "--margin: '0,8'"},
	{{"gate", "--baseline", "BASE", "--candidate", "BASE", "--margin", "0"}, 2, "from 0.001 to 100"},
	{{"gate", "--baseline", "BASE", "--candidate", "BASE", "--suite", "gms8k"}, 2, "'gms8k'; they have: samples"},
	{{"gate", "--baseline", "BASE", "--candidate", "BASE", "--policy", "/nowhere.json"}, 2, "/nowhere.json"},
	{{"gate", "--plan"}, 2, "--plan: no items"},
	{{"compare", "BASE"}, 2, "expected A B"},
	{{"diff", "BASE", "BASE"}, 2, "--item is missing"},
	{{"diff", "BASE", "BASE", "--item", "x"}, 2, "--item: 'x'"},
	{{"diff", "BASE", "BASE", "--item", "9999"}, 2, "no document 9999"},
};

START_TEST(what_is_wrong_with_a_call)
{
	struct table_files f = write_table(fails);
	struct call c = {0};
	for (int i = 0; usages[_i].arguments[i]; i++) {
		bool base = strcmp(usages[_i].arguments[i], "BASE") == 0;
		c.arguments[i] = base ? f.baseline : usages[_i].arguments[i];
	}
	EXPECT_FAILURE(program_run(&c), usages[_i].exit_code, usages[_i].message);
}
END_TEST

/* ---- Other surroundings ---- */

/* A comma as decimal sign, a Turkish i: every byte is that of the C locale. */
START_TEST(locales_change_nothing)
{
	static const char *const locales[] = {
		"LC_ALL=C", "LC_ALL=de_DE.UTF-8", "LC_ALL=fr_FR.UTF-8", "LC_ALL=tr_TR.UTF-8"};
	struct table_files f = write_table(fails);
	struct buf first[3] = {{0}};
	for (int i = 0; i < COUNT(locales); i++) {
		const char *junit = path_in(scratch_folder(), "o.xml");
		struct call calls[] = {{.arguments = {"gate", "--baseline", f.baseline, "--candidate", f.candidate,
						"--json", "--margin", "0.8", "--suite", "SAMPLES", "--junit", junit},
					       .environment = {locales[i]}},
			{.arguments = {"gate", "--plan", "--margin", "0.8", "--suite", "ARC_EASY"},
				.environment = {locales[i]}}};
		struct outcome judged = program_run(&calls[0]), plan = program_run(&calls[1]);
		expect_exit(&judged, 1);
		expect_exit(&plan, 0);
		expect_in(&plan.out, "0.8 points");
		struct buf all[3] = {judged.out, plan.out, test_read_file(junit)};
		for (int k = 0; k < 3; k++) {
			if (i == 0)
				buf_append_str(&first[k], buf_str(&all[k]));
			ck_assert_str_eq(buf_text(&all[k]), buf_text(&first[k]));
		}
		buf_free(&all[2]);
		outcome_free(&judged);
		outcome_free(&plan);
	}
	for (int k = 0; k < 3; k++)
		buf_free(&first[k]);
}
END_TEST

START_TEST(github_actions)
{
	const char *summary = path_in(scratch_folder(), "summary.md");
	char variable[4200];
	snprintf(variable, sizeof(variable), "GITHUB_STEP_SUMMARY=%s", summary);
	static const struct {
		struct paired_table table;
		const char *margin, *annotation, *banner;
	} cases[] = {{{150, 16, 4, 50}, "1", "::error title=assay gate::the pooled drop of 5.45 points", "**FAIL**"},
		{{150, 16, 4, 50}, "5.45", "::warning title=assay gate::", "**INCONCLUSIVE**"},
		{{1800, 3, 2, 195}, "1", NULL, "**PASS**"}};
	for (int i = 0; i < COUNT(cases); i++) {
		struct table_files f = write_table(cases[i].table);
		struct call c = {.arguments = {"gate", "--baseline", f.baseline, "--candidate", f.candidate, "--margin",
					 cases[i].margin, "--json"},
			.environment = {"GITHUB_ACTIONS=true", variable}};
		struct outcome o = program_run(&c);
		if (cases[i].annotation)
			expect_in(&o.err, cases[i].annotation);
		else
			ck_assert_uint_eq(o.err.length, 0);
		json_free(parse(buf_str(&o.out))); /* standard output is the document alone */
		outcome_free(&o);
		struct buf content = test_read_file(summary);
		expect_in(&content, cases[i].banner);
		buf_free(&content);
	}
}
END_TEST

/* ---- compare and diff ---- */

START_TEST(comparisons_as_json)
{
	struct table_files f = write_table(fails);
	struct outcome o = RUN("compare", f.baseline, f.candidate, "--json", "--flips");
	expect_exit(&o, 0);
	struct json_document *d = parse(buf_str(&o.out));
	const struct json *root = json_root(d);
	ck_assert_int_eq(json_path_int(root, "suites/samples/n"), 220);
	ck_assert_int_eq(json_path_int(root, "suites/samples/b"), 16);
	ck_assert_int_eq(json_path_int(root, "suites/samples/unmatched"), 0);
	ck_assert_uint_eq(json_path(root, "flips")->count, 20);
	ck_assert_ptr_null(json_get(root, "verdict"));
	json_free(d);
	outcome_free(&o);
	o = RUN("compare", f.baseline, f.candidate);
	expect_exit(&o, 0);
	expect_in(&o.out, "1.63 .. 9.93");
	outcome_free(&o);
}
END_TEST

START_TEST(one_item_word_by_word)
{
	static const char before[] = "{\"doc_id\": 1, \"acc\": 1, \"resps\": [[\"the answer\\nis \\u001b18\"]]}\n";
	static const char after[] = "{\"doc_id\": 1, \"acc\": 0, \"resps\": [[\"the answer\\nis 19\"]]}\n";
	const char *a = test_write_file("a.jsonl", before, sizeof(before) - 1);
	const char *b = test_write_file("b.jsonl", after, sizeof(after) - 1);
	struct outcome o = RUN("diff", a, b, "--item", "1");
	expect_exit(&o, 0);
	expect_in(&o.out, "the answer\nis [-\\x1b18-]{+19+}\n");
	outcome_free(&o);
	o = RUN("diff", a, b, "--item", "samples/1", "--json");
	expect_exit(&o, 0);
	expect_in(&o.out, "[\"same\", \"the answer\\nis \"], [\"removed\", \"\\u001b18\"], [\"added\", \"19\"]");
	outcome_free(&o);
}
END_TEST

/* A subject alone and within its group, twice: each is shown, none is pooled, and either can be chosen. */
START_TEST(suites_that_overlap)
{
	const char *db = path_in(scratch_folder(), "a.db");
	for (int i = 0; i < 2; i++) {
		struct outcome o = RUN("run", "--suite", "mmlu,mmlu_animal_classes", "--db", db, "--quiet");
		expect_exit(&o, 0);
		outcome_free(&o);
	}
	struct outcome o = RUN("compare", "1", "2", "--db", db);
	expect_exit(&o, 0);
	expect_in(&o.out, "\nmmlu_animal_classes   40");
	expect_in(&o.out, "No pooled row: suites mmlu and mmlu_animal_classes hold the same items");
	ck_assert_ptr_null(strstr(buf_text(&o.out), "\npooled"));
	outcome_free(&o);
	EXPECT_FAILURE(RUN("gate", "--baseline", "1", "--candidate", "2", "--db", db), 2,
		"suites mmlu and mmlu_animal_classes hold the same items", "--suite");
	EXPECT_FAILURE(RUN("gate", "--plan", "--baseline", "1", "--db", db), 2, "hold the same items");
	o = RUN("gate", "--baseline", "1", "--candidate", "2", "--db", db, "--suite", "mmlu");
	expect_exit(&o, 0);
	/* what stands beside the flips is of the same items */
	expect_in(&o.out, "A/A: the baseline against another run of itself flips 0.00% of 480 items.");
	outcome_free(&o);
}
END_TEST

START_TEST(plans)
{
	struct outcome o = RUN("gate", "--plan", "--suite", "gsm8k,arc_easy", "--json");
	expect_exit(&o, 0);
	struct json_document *d = parse(buf_str(&o.out));
	const struct json *root = json_root(d);
	int64_t n = json_path_int(root, "endpoints/pooled/n");
	ck_assert_int_eq(n, json_path_int(root, "suites/gsm8k/n") + json_path_int(root, "suites/arc_easy/n"));
	ck_assert_int_eq(json_path_int(root, "endpoints/delta_logprob/n"), json_path_int(root, "suites/arc_easy/n"));
	const struct json *at =
		json_path(root, "endpoints/pooled/if/1"); /* 5% discordance: 3,092 items decide 1 point */
	ck_assert_int_eq(json_path_int(at, "n_needed"), 3092);
	ck_assert_double_eq_tol(
		json_double(json_get(at, "power")), noninferiority_power(0.05, 0.01, (double)n, 0.05), 1e-12);
	json_free(d);
	outcome_free(&o);
	struct table_files f = write_table(passes);
	EXPECT_FAILURE(RUN("gate", "--plan", "--suite", "mmlu,mmlu_animal_classes"), 2,
		"suites mmlu and mmlu_animal_classes hold the same items");
	o = RUN("gate", "--plan", "--baseline", f.baseline);
	expect_exit(&o, 0);
	expect_in(&o.out, "pooled    critical  2000");
	ck_assert_ptr_null(strstr(buf_text(&o.out), "delta_logprob"));
	outcome_free(&o);
	/* what the policy names and these items cannot tell has a row of its own */
	static const char policy[] = "{\"delta_logprob\": {\"margin\": 0.05}}";
	const char *file = test_write_file("policy.json", policy, sizeof(policy) - 1);
	o = RUN("gate", "--plan", "--suite", "gsm8k", "--policy", file);
	expect_exit(&o, 0);
	expect_in(&o.out, "delta_logprob  critical    0  0.05 nat  no multiple choice");
	outcome_free(&o);
	o = RUN("gate", "--plan", "--suite", "gsm8k", "--policy", file, "--json");
	expect_exit(&o, 0);
	expect_in(&o.out, "\"delta_logprob\": {\"n\": 0, \"tier\": \"critical\", \"margin\": 0.05, \"if\": []}");
	outcome_free(&o);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *t = test_case(suite, "gate", 240);
	tcase_add_test(t, verdicts_are_printed_and_are_the_exit_code);
	tcase_add_test(t, files_are_written);
	tcase_add_test(t, nothing_measured);
	tcase_add_loop_test(t, nothing_of_before_stays, 0, COUNT(unjudged));
	tcase_add_test(t, suites_that_are_left_out_are_said);
	tcase_add_loop_test(t, what_is_wrong_with_a_call, 0, COUNT(usages));
	t = test_case(suite, "surroundings", 240);
	tcase_add_test(t, locales_change_nothing);
	tcase_add_test(t, github_actions);
	t = test_case(suite, "others", 240);
	tcase_add_test(t, comparisons_as_json);
	tcase_add_test(t, one_item_word_by_word);
	tcase_add_test(t, plans);
	tcase_add_test(t, suites_that_overlap);
}
