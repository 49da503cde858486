/* From answers to the verdict: pairs and what has none, tables made to order, policies, caveats. */
#include <math.h>

#include "reports/verdict_json.h"
#include "reports/word_diff.h"
#include "tests/verdict_fixture.h"

const char *const test_program_name = "verdict";

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void expect_message(const char *piece)
{
	ck_assert_msg(strstr(test_error.message, piece), "no '%s' in: %s", piece, test_error.message);
}

/* ---- Tables made to order ---- */

static const struct {
	const char *name;
	struct paired_table table;
	double margin;
	enum outcome outcome;
	int64_t n_needed;
} orders[] = {
	{"a drop of 3 points", {9000, 561, 141, 4340}, 1, OUTCOME_FAIL, 0},
	{"of 0.1 points", {9000, 358, 344, 4340}, 1, OUTCOME_PASS, 0},
	{"of 1 point", {9000, 421, 281, 4340}, 1, OUTCOME_INCONCLUSIVE, -1},
	{"GSM8K at 1 point", {1200, 25, 10, 84}, 1, OUTCOME_INCONCLUSIVE, -1},
	{"at 2 points", {1200, 25, 10, 84}, 2, OUTCOME_PASS, 0},
	{"at a quarter", {1200, 25, 10, 84}, 0.25, OUTCOME_FAIL, 0},
	{"no flip in 299", {200, 0, 0, 99}, 1, OUTCOME_PASS, 0},
	{"no flip in 298", {200, 0, 0, 98}, 1, OUTCOME_INCONCLUSIVE, 299},
	{"one item, right twice", {1, 0, 0, 0}, 1, OUTCOME_INCONCLUSIVE, 299},
	{"all lost", {0, 50, 0, 0}, 1, OUTCOME_FAIL, 0},
	{"all lost of five", {0, 5, 0, 0}, 1, OUTCOME_INCONCLUSIVE, 6},
	{"all lost of six", {0, 6, 0, 0}, 1, OUTCOME_FAIL, 0},
	{"all won", {0, 0, 50, 0}, 1, OUTCOME_PASS, 0},
	{"an improvement of few is not credited", {90, 1, 8, 1}, 1, OUTCOME_INCONCLUSIVE, -1},
};

START_TEST(tables_to_order)
{
	static const int exit_codes[] = {0, 1, 3};
	struct judged j;
	judge_table(&j, orders[_i].table, orders[_i].margin);
	const struct verdict *v = &j.verdict;
	ck_assert_msg(v->outcome == orders[_i].outcome, "%s: %s", orders[_i].name, v->reason);
	ck_assert_int_eq(v->exit_code, exit_codes[v->outcome]);
	ck_assert_uint_eq(v->n_endpoints, 1);
	ck_assert_int_eq(v->endpoints[0].outcome, v->outcome);
	ck_assert_mem_eq(&v->pooled.table, &orders[_i].table, sizeof(orders[_i].table));
	ck_assert_mem_eq(&v->suites[0].comparison.table, &orders[_i].table, sizeof(orders[_i].table));
	if (orders[_i].n_needed >= 0)
		ck_assert_int_eq(v->endpoints[0].n_needed, orders[_i].n_needed);
	else if (v->endpoints[0].n_needed)
		ck_assert_int_gt(v->endpoints[0].n_needed, v->endpoints[0].n);
	ck_assert_uint_gt(strlen(v->reason), 20);
	judged_free(&j);
}
END_TEST

/* 16 lost and 4 won of 220: McNemar's p by SciPy; the order of lines is nothing. */
START_TEST(pairs_are_keyed_by_id)
{
	const char *base = shared_path("trials/T43/base.jsonl"), *cand = shared_path("trials/T43/cand.jsonl");
	if (!base || !cand)
		SKIP("the trials are not here");
	struct buf lines = test_read_file(cand), turned = {0};
	struct str text = buf_str(&lines);
	for (size_t end = text.length; end > 0;) {
		size_t begin = end - 1;
		while (begin > 0 && text.data[begin - 1] != '\n')
			begin--;
		buf_append(&turned, text.data + begin, end - begin);
		end = begin;
	}
	const char *shuffled = test_write_file("turned.jsonl", turned.data, turned.length);
	for (int round = 0; round < 2; round++) {
		struct judged j;
		judge_files(&j, (struct table_files){base, round ? shuffled : cand}, 1);
		const struct comparison *c = &j.verdict.pooled;
		ck_assert_int_eq(c->n, 220);
		ck_assert_double_eq_tol(c->drop, 0.0545454545454545, 1e-15);
		ck_assert_double_eq_tol(c->mcnemar.two_sided, 0.01181793212890625, 1e-15);
		ck_assert_double_eq_tol(c->mcnemar.regression, 0.005908966064453125, 1e-15);
		ck_assert_double_eq_tol(c->mcnemar.mid_p, 0.007197380065917967, 1e-15);
		judged_free(&j);
	}
	buf_free(&lines);
	buf_free(&turned);
}
END_TEST

/* ---- Nothing, and what has no pair ---- */

static const struct {
	const char *name, *baseline, *candidate;
	int code;
	const char *message;
} refusals[] = {
	{"empty candidate", "{\"doc_id\": 0, \"acc\": 1}\n", "", ERR_EMPTY, "cand.jsonl holds no answers"},
	{"blank lines", "{\"doc_id\": 0, \"acc\": 1}\n", "\n \n\t\r\n", ERR_EMPTY, "cand.jsonl holds no answers"},
	{"both empty", "", "", ERR_EMPTY, "neither does the other side"},
	{"no common id", "{\"doc_id\": 0, \"acc\": 1}\n", "{\"doc_id\": 100, \"acc\": 1}\n", ERR_EMPTY,
		"no item of the same"},
	{"no common suite", "{\"task\": \"a\", \"doc_id\": 0, \"acc\": 1}\n",
		"{\"task\": \"b\", \"doc_id\": 0, \"acc\": 1}\n", ERR_EMPTY, "no item of the same suite"},
	{"no score", "{\"doc_id\": 0, \"acc\": 1}\n", "{\"doc_id\": 0}\n", ERR_EMPTY, "1 errors"},
	{"a score between", "{\"doc_id\": 0, \"f1\": 0.5}\n", "{\"doc_id\": 0, \"f1\": 1}\n", ERR_EMPTY,
		"f1,none of suite samples is not 0 or 1"},
	{"no JSON", "{\"doc_id\": 0, \"acc\": 1}\n\n{\"doc_id\": 1, \"acc\": NaN}\n", "{\"doc_id\": 0, \"acc\": 1}\n",
		ERR_INPUT, "base.jsonl:3"},
	{"an array", "[]\n", "{\"doc_id\": 0, \"acc\": 1}\n", ERR_INPUT, "base.jsonl:1: expected an object"},
	{"no doc_id", "{\"acc\": 1}\n", "{\"doc_id\": 0, \"acc\": 1}\n", ERR_INPUT, "integer \"doc_id\""},
	{"doc_id of a fraction", "{\"doc_id\": 0.5, \"acc\": 1}\n", "{\"doc_id\": 0, \"acc\": 1}\n", ERR_INPUT,
		"integer"},
	{"answered twice", "{\"doc_id\": 7, \"acc\": 1}\n{\"doc_id\": 7, \"acc\": 0}\n",
		"{\"doc_id\": 7, \"acc\": 1}\n", ERR_INPUT, "document 7 of samples is answered twice"},
	{"other prompts", "{\"doc_id\": 3, \"acc\": 1, \"prompt_hash\": \"aa\"}\n",
		"{\"doc_id\": 3, \"acc\": 1, \"prompt_hash\": \"bb\"}\n", ERR_INPUT,
		"document 3 has prompt_hash aa in the one and bb"},
	{"other documents", "{\"doc_id\": 3, \"acc\": 1, \"doc_hash\": \"aa\"}\n",
		"{\"doc_id\": 3, \"acc\": 1, \"doc_hash\": \"bb\"}\n", ERR_INPUT, "the data set changed"},
	{"other targets", "{\"doc_id\": 3, \"acc\": 1, \"target\": \"4\"}\n",
		"{\"doc_id\": 3, \"acc\": 1, \"target\": \"5\"}\n", ERR_INPUT, "target_hash"},
};

START_TEST(what_cannot_be_compared_is_said)
{
	const char *base = test_write_file("base.jsonl", refusals[_i].baseline, strlen(refusals[_i].baseline));
	const char *cand = test_write_file("cand.jsonl", refusals[_i].candidate, strlen(refusals[_i].candidate));
	struct judged j = {0};
	policy_init(&j.policy);
	ck_assert_msg(judge(&j, base, cand) == refusals[_i].code, "%s: %s", refusals[_i].name, test_error.message);
	expect_message(refusals[_i].message);
	judged_free(&j);
}
END_TEST

START_TEST(a_missing_file_is_named)
{
	struct answers a;
	ck_assert_int_eq(answers_load("/nowhere/base.jsonl", NULL, &a, &test_error), ERR_MISSING);
	expect_message("/nowhere/base.jsonl");
	answers_free(&a);
	ck_assert_int_eq(answers_load("/nowhere/x.db:3", "other.db", &a, &test_error), ERR_MISSING);
	expect_message("/nowhere/x.db");
	answers_free(&a);
	ck_assert_int_eq(answers_load("latest", NULL, &a, &test_error), ERR_USAGE);
	expect_message("--db");
	answers_free(&a);
}
END_TEST

/* Suites of 100, 100 and 2 items, of which the candidate lacks two. */
START_TEST(what_has_no_pair_is_counted)
{
	struct buf baseline = {0}, candidate = {0};
	append_table(&baseline, &candidate, "a", (struct paired_table){90, 5, 5, 0});
	append_table(&baseline, &candidate, "b", (struct paired_table){90, 5, 5, 0});
	append_value(&baseline, "b", 1000, true);
	append_value(&baseline, "b", 1001, true);
	append_value(&candidate, "b", 2000, true);
	struct judged j;
	judge_files(&j, write_files(&baseline, &candidate), 5);
	const struct comparison *pooled = &j.verdict.pooled;
	ck_assert_int_eq(pooled->n, 200);
	ck_assert_int_eq(pooled->unmatched, 3);
	ck_assert_int_eq(pooled->only_baseline, 2);
	ck_assert_int_eq(pooled->only_candidate, 1);
	ck_assert_double_eq_tol(pooled->coverage, 200.0 / 203, 1e-15);
	ck_assert_double_eq_tol(pooled->worst_drop, 3.0 / 203, 1e-15);
	ck_assert_int_eq(j.verdict.suites[0].comparison.unmatched, 0);
	ck_assert_int_eq(j.verdict.suites[1].comparison.unmatched, 3);
	/* 98.5% of the items are too few, whatever the table says */
	ck_assert_int_eq(j.verdict.outcome, OUTCOME_INCONCLUSIVE);
	ck_assert_msg(
		strstr(j.verdict.reason, "98.5%") && strstr(j.verdict.reason, "3 unmatched"), "%s", j.verdict.reason);
	judged_free(&j);
}
END_TEST

/* A group's score is by size (3 members of 10, 1 and 20): 10 of 31. */
START_TEST(a_pooled_score_is_by_size)
{
	struct buf baseline = {0}, candidate = {0};
	append_table(&baseline, &candidate, "a", (struct paired_table){5, 0, 0, 5});
	append_table(&baseline, &candidate, "b", (struct paired_table){1, 0, 0, 0});
	append_table(&baseline, &candidate, "c", (struct paired_table){4, 0, 0, 16});
	struct judged j;
	judge_files(&j, write_files(&baseline, &candidate), 1);
	ck_assert_double_eq_tol(j.verdict.pooled.baseline, 0.3225806451612903, 1e-15);
	ck_assert_uint_eq(j.verdict.n_suites, 3);
	judged_free(&j);
}
END_TEST

/* ---- Harness lines ---- */

START_TEST(filters_of_one_document_are_one_answer)
{
	static const char lines[] =
		"{\"doc_id\": 0, \"filter\": \"strict-match\", \"metrics\": [\"exact_match\"], \"exact_match\": 0.0, "
		"\"x\": 5,"
		" \"resps\": [[\" 18\\u0000\"]], \"filtered_resps\": [\"[invalid]\"], \"target\": \"18\"}\n"
		"{\"doc_id\": 0, \"filter\": \"flexible-extract\", \"metrics\": [\"exact_match\"], \"exact_match\": "
		"1.0,"
		" \"resps\": [[\" 18\\u0000\"]], \"filtered_resps\": [\"18\"], \"target\": \"18\"}\n";
	const char *path = test_write_file("samples_gsm8k_2026-01-01T00-00-00.jsonl", lines, sizeof(lines) - 1);
	struct answers a;
	CHECK_OK(answers_load(path, NULL, &a, &test_error));
	ck_assert_uint_eq(a.n, 1);
	ck_assert_str_eq(a.rows[0].suite, "gsm8k");
	ck_assert_str_eq(
		a.rows[0].metrics.data, "{\"exact_match,strict-match\": 0.0, \"exact_match,flexible-extract\": 1.0}");
	struct buf text = {0};
	pair_response(&a.rows[0], &text);
	ck_assert_msg(str_equal(buf_str(&text), STR(" 18\0")), "%s", buf_text(&text));
	buf_clear(&text);
	pair_extracted(&a.rows[0], "exact_match,flexible-extract", &text);
	ck_assert_str_eq(buf_text(&text), "18");
	buf_free(&text);
	answers_free(&a);
}
END_TEST

/* Multiple choice: the gold choice's log-probability falls by a tenth of a nat for every item, and one item flips. */
static void append_choices(struct buf *out, int id, double first, double second, int gold, int right)
{
	buf_printf(out,
		"{\"task\": \"arc\", \"doc_id\": %d, \"acc\": %d, \"target\": %d, \"resps\": [[[%g, true]], [[\"%g\", "
		"\"False\"]]]}\n",
		id, right, gold, first, second);
}

START_TEST(log_probabilities_of_the_gold_choice)
{
	struct buf baseline = {0}, candidate = {0};
	for (int i = 0; i < 400; i++) {
		append_choices(&baseline, i, -1, -2, i % 2, !(i % 2));
		append_choices(&candidate, i, -1.01, -2.01, i % 2, !(i % 2));
	}
	struct judged j;
	judge_files(&j, write_files(&baseline, &candidate), 1);
	const struct endpoint *x = &j.verdict.endpoints[1];
	ck_assert_uint_eq(j.verdict.n_endpoints, 2);
	ck_assert_int_eq(x->n, 400);
	ck_assert_double_eq_tol(x->drop, 0.01, 1e-12);
	ck_assert_double_eq_tol(j.verdict.pooled.delta_logprob, -0.01, 1e-12);
	ck_assert_double_eq_tol(x->interval.low, 0.01, 1e-6); /* no variance: the mean itself */
	ck_assert_double_eq_tol(x->interval.high, 0.01, 1e-6);
	ck_assert_int_eq(x->outcome, OUTCOME_PASS);
	ck_assert_int_eq(j.verdict.outcome, OUTCOME_PASS);
	judged_free(&j);

	/* the same answers, all less sure by 0.03: right as often, and a failure */
	struct buf surer = {0}, less = {0};
	for (int i = 0; i < 400; i++) {
		append_choices(&surer, i, -1, -2, 0, 1);
		append_choices(&less, i, -1.03, -2, 0, 1);
	}
	judge_files(&j, write_files(&surer, &less), 1);
	ck_assert_int_eq(j.verdict.endpoints[0].outcome, OUTCOME_PASS);
	ck_assert_int_eq(j.verdict.endpoints[1].outcome, OUTCOME_FAIL);
	ck_assert_int_eq(j.verdict.outcome, OUTCOME_FAIL);
	ck_assert_int_eq(j.verdict.exit_code, 1);
	judged_free(&j);
}
END_TEST

/* ---- Clusters ---- */

/* Four answers to each document, which flip together, are worth a quarter of the items. */
START_TEST(answers_to_one_document_count_as_a_cluster)
{
	struct buf baseline = {0}, candidate = {0};
	for (int i = 0; i < 4000; i++) {
		int document = i / 4, lost = document % 20 == 0, won = document % 20 == 1;
		buf_printf(&baseline, "{\"doc_id\": %d, \"doc_hash\": \"d%d\", \"acc\": %d}\n", i, document, !won);
		buf_printf(&candidate, "{\"doc_id\": %d, \"doc_hash\": \"d%d\", \"acc\": %d}\n", i, document, !lost);
	}
	struct judged j;
	judge_files(&j, write_files(&baseline, &candidate), 1);
	const struct comparison *c = &j.verdict.pooled;
	ck_assert_int_eq(c->clusters, 1000);
	ck_assert_double_eq_tol(c->design_effect, 4 * (3999.0 / 4000) * (1000.0 / 999), 1e-9);
	struct interval alone = tango_interval((struct paired_table){900, 50, 50, 0}, 0.95, 1);
	ck_assert_double_eq_tol(c->interval.high, alone.high, 1e-4);
	judged_free(&j);
}
END_TEST

/* ---- Policies ---- */

static void read_policy(struct policy *p, const char *text)
{
	policy_init(p);
	CHECK_OK(policy_read(p, test_write_file("policy.json", text, strlen(text)), &test_error));
}

START_TEST(policies)
{
	struct policy p;
	read_policy(&p,
		"{\"alpha\": 0.025, \"power\": 0.9, \"min_coverage\": 1, \"pooled\": {\"margin\": 0.8, \"tier\": "
		"\"supporting\"},"
		" \"delta_logprob\": {\"margin\": 0.05}, \"suite\": {\"margin\": 2},"
		" \"suites\": {\"gsm8k\": {\"margin\": 3, \"metric\": \"exact_match,flexible-extract\"}, \"arc\": "
		"{}}}");
	ck_assert_double_eq(p.alpha, 0.025);
	ck_assert_double_eq(p.min_coverage, 1);
	ck_assert_double_eq_tol(p.pooled.margin, 0.008, 1e-15);
	ck_assert_int_eq(p.pooled.tier, TIER_SUPPORTING);
	ck_assert_double_eq(p.delta_logprob.margin, 0.05);
	ck_assert_int_eq(p.delta_logprob.tier, TIER_CRITICAL);
	ck_assert_double_eq_tol(policy_of_suite(&p, "gsm8k").margin, 0.03, 1e-15);
	ck_assert_int_eq(policy_of_suite(&p, "gsm8k").tier, TIER_CRITICAL);
	ck_assert_str_eq(policy_find(&p, "gsm8k")->metric, "exact_match,flexible-extract");
	ck_assert_double_eq_tol(policy_of_suite(&p, "arc").margin, 0.02, 1e-15);
	ck_assert_double_eq_tol(policy_of_suite(&p, "mmlu").margin, 0.02, 1e-15);
	ck_assert_int_eq(policy_of_suite(&p, "mmlu").tier, TIER_ADVISORY);
	policy_set_margin(&p, 0.5);
	ck_assert_double_eq_tol(policy_of_suite(&p, "arc").margin, 0.005, 1e-15);
	ck_assert_double_eq_tol(policy_of_suite(&p, "gsm8k").margin, 0.03, 1e-15);
	policy_free(&p);
}
END_TEST

static const struct {
	const char *text, *message;
} bad_policies[] = {
	{"", "policy.json"},
	{"[]", "policy.json: is array"},
	{"{\"alpha\": 0}", "alpha: number 0, expected a number above 0 and at most 0.49"},
	{"{\"alpha\": \"0.05\"}", "alpha: string 0.05"},
	{"{\"pooled\": {\"margin\": -1}}", "pooled.margin: number -1"},
	{"{\"pooled\": {\"margin\": 101}}", "pooled.margin: number 101"},
	{"{\"pooled\": {\"margn\": 1}}", "pooled.margn: unknown member"},
	{"{\"pooled\": 1}", "pooled: number 1, expected an object"},
	{"{\"pooled\": {\"metric\": \"acc\"}}", "pooled.metric: unknown member"},
	{"{\"suites\": {\"a\": {\"tier\": \"vital\"}}}", "suites.a.tier: string vital, expected \"critical\""},
	{"{\"suites\": {\"a\": {\"metric\": 1}}}", "suites.a.metric: number 1"},
	{"{\"suites\": []}", "suites: array"},
	{"{\"maargin\": 1}", "maargin: unknown member"},
	{"{\"alpha\": 0.05, \"alpha\": 0.5}", "alpha"},
};

START_TEST(bad_policies_are_refused)
{
	struct policy p;
	policy_init(&p);
	const char *path = test_write_file("policy.json", bad_policies[_i].text, strlen(bad_policies[_i].text));
	ck_assert_msg(policy_read(&p, path, &test_error) == ERR_INPUT, "%s", bad_policies[_i].text);
	expect_message(bad_policies[_i].message);
	policy_free(&p);
}
END_TEST

/* Suite a loses 3 points, suite b gains as much: pooled nothing is lost. */
static void judge_opposites(struct judged *j, const char *policy)
{
	struct buf baseline = {0}, candidate = {0};
	append_table(&baseline, &candidate, "a", (struct paired_table){2000, 150, 50, 800});
	append_table(&baseline, &candidate, "b", (struct paired_table){2000, 50, 150, 800});
	struct table_files files = write_files(&baseline, &candidate);
	*j = (struct judged){0};
	read_policy(&j->policy, policy);
	CHECK_OK(judge(j, files.baseline, files.candidate));
}

static const struct {
	const char *policy;
	enum outcome outcome;
	const char *reason;
} tiers[] = {
	{"{}", OUTCOME_PASS, "pooled drop of 0.00 points"},
	{"{\"suites\": {\"a\": {}}}", OUTCOME_FAIL, "the drop on a of 3.33 points"},
	{"{\"suites\": {\"b\": {}}}", OUTCOME_PASS, "the drop on b of -3.33 points"},
	{"{\"suites\": {\"a\": {\"tier\": \"supporting\"}}}", OUTCOME_INCONCLUSIVE, "the drop on a"},
	{"{\"suites\": {\"a\": {\"tier\": \"advisory\"}}}", OUTCOME_PASS, "pooled"},
	{"{\"suites\": {\"a\": {\"margin\": 5}}}", OUTCOME_PASS, "the margin of 5 points"},
	{"{\"suite\": {\"tier\": \"critical\"}}", OUTCOME_FAIL, "the drop on a"},
	{"{\"pooled\": {\"tier\": \"advisory\"}, \"suites\": {\"b\": {}}}", OUTCOME_PASS, "the drop on b"},
};

START_TEST(tiers_decide)
{
	struct judged j;
	judge_opposites(&j, tiers[_i].policy);
	ck_assert_msg(j.verdict.outcome == tiers[_i].outcome && strstr(j.verdict.reason, tiers[_i].reason), "%s: %s",
		tiers[_i].policy, j.verdict.reason);
	/* each suite's own verdict and its adjusted p stand whatever its tier */
	ck_assert_double_ge(j.verdict.suites[0].endpoint.p_holm, j.verdict.suites[0].endpoint.p_pass);
	ck_assert_double_eq_tol(j.verdict.suites[1].endpoint.p_holm, 2 * j.verdict.suites[1].endpoint.p_pass, 1e-15);
	judged_free(&j);
}
END_TEST

/* A failure that is one only while nobody else is looked at. */
START_TEST(failures_are_adjusted_for_their_number)
{
	struct judged j = {0};
	struct buf baseline = {0}, candidate = {0};
	struct paired_table close = {900, 52, 24, 524};
	append_table(&baseline, &candidate, "a", close);
	append_table(&baseline, &candidate, "b", (struct paired_table){900, 10, 10, 580});
	struct table_files files = write_files(&baseline, &candidate);
	double p = inferiority_p(close, 0.0075, 1);
	ck_assert_msg(p > 0.025 && p < 0.05, "%g", p);
	read_policy(&j.policy,
		"{\"pooled\": {\"tier\": \"advisory\"}, \"suites\": {\"a\": {\"margin\": 0.75}, \"b\": {\"margin\": "
		"5}}}");
	CHECK_OK(judge(&j, files.baseline, files.candidate));
	ck_assert_int_eq(j.verdict.suites[0].endpoint.outcome, OUTCOME_FAIL);
	ck_assert_double_eq_tol(j.verdict.suites[0].endpoint.p_fail_holm, 2 * p, 1e-12);
	ck_assert_int_eq(j.verdict.outcome, OUTCOME_INCONCLUSIVE);
	ck_assert_msg(strstr(j.verdict.reason, "not for sure"), "%s", j.verdict.reason);
	judged_free(&j);
}
END_TEST

START_TEST(a_policy_must_fit_the_runs)
{
	struct table_files files = write_table((struct paired_table){10, 0, 0, 10});
	static const struct {
		const char *policy, *message;
	} cases[] = {{"{\"suites\": {\"gsm9k\": {}}}", "holds suite 'gsm9k'; they have: samples"},
		{"{\"pooled\": {\"tier\": \"advisory\"}}", "no endpoint of these runs is critical"},
		{"{\"suites\": {\"samples\": {\"metric\": \"f1,none\"}}}",
			"metric 'f1,none' of suite samples, which has: acc,none"}};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct judged j = {0};
		read_policy(&j.policy, cases[i].policy);
		ck_assert_int_eq(judge(&j, files.baseline, files.candidate), ERR_USAGE);
		expect_message(cases[i].message);
		judged_free(&j);
	}
}
END_TEST

/* ---- Runs of a store ---- */

static const char *make_store(bool limited, enum run_status status)
{
	const char *path = fixture_path("runs.db");
	struct store *s = fixture_open(path);
	for (int run = 0; run < 2; run++) {
		struct store_run row = fixture_run("c1");
		int64_t run_id;
		bool resumed;
		row.for_gating = !limited;
		CHECK_OK(store_run_begin(s, &row, &run_id, &resumed, &test_error));
		static const char *const names[] = {"bf16/bf16", "int4/fp8"};
		for (int v = 0; v < 2; v++) {
			int64_t variant = fixture_add_variant(s, names[v]);
			for (int i = 0; i < 400; i++) {
				struct store_sample x = fixture_sample(variant, i);
				bool right = v == 0 || i != 7;
				x.metrics = right ? STR("{\"exact_match,strict-match\": 1.0}")
						  : STR("{\"exact_match,strict-match\": 0.0}");
				if (v == 1 && i == 8)
					x.status = SAMPLE_TRUNCATED;
				if (v == 1 && i == 9) {
					x.status = SAMPLE_ERROR;
					x.metrics = STR("{}");
				}
				CHECK_OK(store_sample_insert(s, &x, &test_error));
			}
		}
		CHECK_OK(store_run_finish(s, run == 0 ? RUN_COMPLETE : status, &test_error));
	}
	store_close(s);
	return path;
}

static const char *address(const char *path, const char *run)
{
	static char addresses[4][4200];
	static int next;
	char *out = addresses[next++ % 4];
	snprintf(out, sizeof(addresses[0]), "%s:%s", path, run);
	return out;
}

START_TEST(runs_and_variants_have_addresses)
{
	const char *path = make_store(false, RUN_COMPLETE);
	struct judged j = {0};
	policy_init(&j.policy);
	policy_set_margin(&j.policy, 2);
	CHECK_OK(judge(&j, address(path, "1:bf16/bf16"), address(path, "latest:int4/fp8")));
	ck_assert_int_eq(j.verdict.pooled.n, 398);
	ck_assert_int_eq(j.verdict.pooled.table.b, 1);
	ck_assert_int_eq(j.verdict.pooled.truncated, 1);
	ck_assert_int_eq(j.verdict.pooled.errors, 1);
	ck_assert_int_eq(j.verdict.outcome, OUTCOME_PASS);
	ck_assert_uint_eq(j.verdict.n_differences, 1);
	ck_assert_str_eq(j.verdict.differences[0].name, "variant");
	ck_assert_str_eq(j.verdict.differences[0].candidate, "int4/fp8");
	judged_free(&j);

	struct answers a;
	ck_assert_int_eq(answers_load("1", path, &a, &test_error), ERR_USAGE);
	expect_message("has several variants, expected 1:VARIANT with one of bf16/bf16 int4/fp8");
	answers_free(&a);
	ck_assert_int_eq(answers_load("1:int8/fp8", path, &a, &test_error), ERR_USAGE);
	expect_message("no variant 'int8/fp8'; it has: bf16/bf16 int4/fp8");
	answers_free(&a);
	ck_assert_int_eq(answers_load("9:int4/fp8", path, &a, &test_error), ERR_USAGE);
	answers_free(&a);
	ck_assert_int_eq(answers_load(path, NULL, &a, &test_error), ERR_USAGE);
	expect_message("is a database, expected a run of it");
	answers_free(&a);
}
END_TEST

START_TEST(a_run_against_itself_has_no_flips)
{
	const char *path = make_store(false, RUN_COMPLETE);
	struct judged j = {0};
	struct answers twin;
	policy_init(&j.policy);
	CHECK_OK(judge(&j, address(path, "1:bf16/bf16"), address(path, "2:bf16/bf16")));
	ck_assert_double_eq(j.verdict.pooled.flips, 0);
	ck_assert_int_eq(j.verdict.outcome, OUTCOME_PASS);
	ck_assert_double_nan(j.verdict.pooled.aa_flips);
	/* the other run of that configuration is its A/A */
	CHECK_OK(answers_load_twin(&j.pairing.baseline, &twin, &test_error));
	ck_assert_int_eq(twin.run.run_id, 2);
	ck_assert_str_eq(twin.variant, "bf16/bf16");
	struct answers again;
	struct pairing aa;
	CHECK_OK(answers_load_again(&j.pairing.baseline, &again, &test_error));
	CHECK_OK(pairing_make(&again, &twin, NULL, 0, NULL, &aa, &test_error));
	CHECK_OK(verdict_add_aa(&j.verdict, &aa, &test_error));
	ck_assert_double_eq(j.verdict.pooled.aa_flips, 0);
	ck_assert_int_eq(j.verdict.pooled.aa_n, 400);
	pairing_free(&aa);
	judged_free(&j);
}
END_TEST

/* A server need not answer the same twice: run 2 of its configuration flips one item of 400 against run 1. */
START_TEST(a_target_that_is_not_deterministic_has_its_own_flips)
{
	const char *path = fixture_path("server.db");
	struct store *s = fixture_open(path);
	for (int run = 0; run < 2; run++) {
		struct store_run row = fixture_run("server");
		int64_t run_id;
		bool resumed;
		row.numerics_id = NULL;
		CHECK_OK(store_run_begin(s, &row, &run_id, &resumed, &test_error));
		int64_t variant = fixture_add_variant(s, "http");
		for (int i = 0; i < 400; i++) {
			struct store_sample x = fixture_sample(variant, i);
			if (run == 1 && i == 5)
				x.metrics = STR("{\"exact_match,strict-match\": 0.0}");
			CHECK_OK(store_sample_insert(s, &x, &test_error));
		}
		CHECK_OK(store_run_finish(s, RUN_COMPLETE, &test_error));
	}
	store_close(s);
	struct judged j = {0};
	struct answers again, twin;
	struct pairing aa;
	policy_init(&j.policy);
	CHECK_OK(judge(&j, address(path, "1"), address(path, "1:http")));
	ck_assert(j.verdict.aa_wanted);
	CHECK_OK(answers_load_twin(&j.pairing.baseline, &twin, &test_error));
	CHECK_OK(answers_load_again(&j.pairing.baseline, &again, &test_error));
	CHECK_OK(pairing_make(&again, &twin, NULL, 0, NULL, &aa, &test_error));
	CHECK_OK(verdict_add_aa(&j.verdict, &aa, &test_error));
	ck_assert_double_eq(j.verdict.pooled.aa_flips, 1.0 / 400);
	ck_assert_double_eq(j.verdict.suites[0].comparison.aa_flips, 1.0 / 400);
	ck_assert_double_eq(j.verdict.pooled.flips, 0);
	pairing_free(&aa);
	judged_free(&j);
}
END_TEST

START_TEST(runs_that_are_not_for_gating_do_not_pass)
{
	static const struct {
		bool limited;
		enum run_status status;
		const char *reason;
	} cases[] = {
		{true, RUN_COMPLETE, "only a part of the items"}, {false, RUN_INTERRUPTED, "run 2) is not complete"}};
	for (size_t i = 0; i < COUNT(cases); i++) {
		const char *path = make_store(cases[i].limited, cases[i].status);
		struct judged j = {0};
		policy_init(&j.policy);
		CHECK_OK(judge(&j, address(path, "1:bf16/bf16"), address(path, "2:bf16/bf16")));
		ck_assert_int_eq(j.verdict.outcome, OUTCOME_INCONCLUSIVE);
		ck_assert_int_eq(j.verdict.exit_code, 3);
		ck_assert_msg(strstr(j.verdict.reason, cases[i].reason), "%s", j.verdict.reason);
		judged_free(&j);
	}
}
END_TEST

/* ---- Word differences ---- */

static const struct {
	const char *before, *after, *diff;
} word_cases[] = {
	{"", "", ""},
	{"a b", "a b", "a b"},
	{"", "a", "+a+"},
	{"a", "", "-a-"},
	{"the answer is 18", "the answer is 19", "the answer is -18-+19+"},
	{"a b c d", "a c d e", "a -b -c d+ e+"},
	{"x", "y", "-x-+y+"},
	{"one two", "one  two", "one- -+  +two"},
	{"a b c", "c b a", NULL},
};

/* Removed words between minus signs, added ones between plus signs. */
static void spell(const struct word_diff *d, struct buf *all, struct buf *before, struct buf *after)
{
	static const char *const marks[] = {"", "-", "+"};
	for (size_t i = 0; i < d->n; i++) {
		buf_append_text(all, marks[d->runs[i].change]);
		buf_append_str(all, d->runs[i].text);
		buf_append_text(all, marks[d->runs[i].change]);
		if (d->runs[i].change != WORD_ADDED)
			buf_append_str(before, d->runs[i].text);
		if (d->runs[i].change != WORD_REMOVED)
			buf_append_str(after, d->runs[i].text);
	}
}

static void check_words(struct str before, struct str after, const char *wanted)
{
	struct word_diff d;
	struct buf all = {0}, old_text = {0}, new_text = {0};
	CHECK_OK(word_diff_make(before, after, &d, &test_error));
	spell(&d, &all, &old_text, &new_text);
	ck_assert(str_equal(buf_str(&old_text), before));
	ck_assert(str_equal(buf_str(&new_text), after));
	if (wanted)
		ck_assert_str_eq(buf_text(&all), wanted);
	word_diff_free(&d);
	buf_free(&all);
	buf_free(&old_text);
	buf_free(&new_text);
}

START_TEST(words_that_changed)
{
	for (size_t i = 0; i < COUNT(word_cases); i++)
		check_words(str_of(word_cases[i].before), str_of(word_cases[i].after), word_cases[i].diff);
	/* a megabyte each, nothing in common: in reasonable time and memory */
	struct buf a = {0}, b = {0};
	for (int i = 0; i < 150000; i++) {
		buf_printf(&a, "a%d ", i);
		buf_printf(&b, "b%d\n", i);
	}
	check_words(buf_str(&a), buf_str(&b), NULL);
	buf_free(&a);
	buf_free(&b);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *t = test_case(suite, "tables", 60);
	tcase_add_loop_test(t, tables_to_order, 0, (int)COUNT(orders));
	tcase_add_test(t, pairs_are_keyed_by_id);
	t = test_case(suite, "pairs", 0);
	tcase_add_loop_test(t, what_cannot_be_compared_is_said, 0, (int)COUNT(refusals));
	tcase_add_test(t, a_missing_file_is_named);
	tcase_add_test(t, what_has_no_pair_is_counted);
	tcase_add_test(t, a_pooled_score_is_by_size);
	tcase_add_test(t, filters_of_one_document_are_one_answer);
	tcase_add_test(t, log_probabilities_of_the_gold_choice);
	tcase_add_test(t, answers_to_one_document_count_as_a_cluster);
	t = test_case(suite, "policies", 0);
	tcase_add_test(t, policies);
	tcase_add_loop_test(t, bad_policies_are_refused, 0, (int)COUNT(bad_policies));
	tcase_add_loop_test(t, tiers_decide, 0, (int)COUNT(tiers));
	tcase_add_test(t, failures_are_adjusted_for_their_number);
	tcase_add_test(t, a_policy_must_fit_the_runs);
	t = test_case(suite, "stores", 0);
	tcase_add_test(t, runs_and_variants_have_addresses);
	tcase_add_test(t, a_run_against_itself_has_no_flips);
	tcase_add_test(t, a_target_that_is_not_deterministic_has_its_own_flips);
	tcase_add_test(t, runs_that_are_not_for_gating_do_not_pass);
	t = test_case(suite, "words", 0);
	tcase_add_test(t, words_that_changed);
}
