/* What may be pooled, and what a policy asks that cannot be measured: neither may end in a pass. */
#include <sqlite3.h>

#include "engine/base/json_strict.h"
#include "reports/junit.h"
#include "reports/verdict_json.h"
#include "tests/verdict_fixture.h"

const char *const test_program_name = "verdict_pooled";

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void expect_in(const char *text, const char *piece)
{
	ck_assert_msg(strstr(text, piece), "no '%s' in: %s", piece, text);
}

/* As judge, with the suites that were chosen. */
static int judge_suites(struct judged *j, const char *baseline, const char *candidate, const char *suite)
{
	struct answers a, b;
	CHECK_OK(answers_load(baseline, NULL, &a, &test_error));
	CHECK_OK(answers_load(candidate, NULL, &b, &test_error));
	int status = pairing_make(&a, &b, &suite, suite ? 1 : 0, &j->policy, &j->pairing, &test_error);
	return status < 0 ? status : verdict_make(&j->pairing, &j->policy, &j->verdict, &test_error);
}

static void read_policy(struct policy *p, const char *text)
{
	policy_init(p);
	CHECK_OK(policy_read(p, test_write_file("policy.json", text, strlen(text)), &test_error));
}

/* ---- Items of two suites ---- */

static void insert(struct store *s, int64_t variant, const char *suite, const char *task, struct str response)
{
	for (int i = 0; i < 400; i++) {
		struct store_sample x = fixture_sample(variant, i);
		x.suite = suite;
		x.task = task;
		x.response = response;
		x.metrics = STR("{\"acc,none\": 1.0}");
		CHECK_OK(store_sample_insert(s, &x, &test_error));
	}
}

/* A subject alone and within its group; divergence has its tasks' names, too, and is not pooled with them. */
static const char *make_store(bool overlap)
{
	const char *path = fixture_path("runs.db");
	struct store *s = fixture_open(path);
	fixture_begin(s, "c1", false);
	int64_t variant = fixture_add_variant(s, "bf16/bf16");
	insert(s, variant, "mmlu", "mmlu_anatomy", STR("\"A\""));
	insert(s, variant, "mmlu", "mmlu_virology", STR("\"A\""));
	insert(s, variant, "divergence", "mmlu_anatomy", STR("{\"kl\": [0.5]}"));
	if (overlap)
		insert(s, variant, "mmlu_anatomy", "mmlu_anatomy", STR("\"A\""));
	CHECK_OK(store_run_finish(s, RUN_COMPLETE, &test_error));
	store_close(s);
	return path;
}

static const char *address(const char *path)
{
	static char text[4200];
	snprintf(text, sizeof(text), "%s:1:bf16/bf16", path);
	return text;
}

START_TEST(one_item_is_pooled_once)
{
	const char *run = address(make_store(true));
	struct judged j = {0};
	policy_init(&j.policy);
	ck_assert_int_eq(judge_suites(&j, run, run, NULL), ERR_USAGE);
	expect_in(test_error.message, "suites mmlu and mmlu_anatomy hold the same items (mmlu_anatomy document 0");
	expect_in(test_error.message, "--suite");
	judged_free(&j);
	/* one of the two is fine, and so is divergence beside it */
	j = (struct judged){0};
	policy_init(&j.policy);
	CHECK_OK(judge_suites(&j, run, run, "mmlu"));
	ck_assert_int_eq(j.verdict.outcome, OUTCOME_PASS);
	ck_assert_int_eq(j.verdict.pooled.n, 800);
	judged_free(&j);
	run = address(make_store(false));
	j = (struct judged){0};
	policy_init(&j.policy);
	CHECK_OK(judge_suites(&j, run, run, NULL));
	ck_assert_ptr_null(j.pairing.overlap[0]);
	ck_assert_int_eq(j.verdict.pooled.n, 800); /* divergence counts for nothing, though its values are 0 or 1 */
	judged_free(&j);
}
END_TEST

START_TEST(a_comparison_shows_both_and_pools_neither)
{
	const char *run = address(make_store(true));
	struct judged j = {0};
	struct answers a, b;
	struct buf out = {0};
	CHECK_OK(answers_load(run, NULL, &a, &test_error));
	CHECK_OK(answers_load(run, NULL, &b, &test_error));
	CHECK_OK(pairing_make(&a, &b, NULL, 0, NULL, &j.pairing, &test_error));
	CHECK_OK(verdict_compare(&j.pairing, &j.verdict, &test_error));
	CHECK_OK(verdict_json(&j.verdict, false, &out, &test_error));
	struct json_document *d = NULL;
	CHECK_OK(json_parse(buf_str(&out), "json", JSON_REFUSE_DOUBLED_KEYS, &d, &test_error));
	ck_assert(json_is(json_get(json_root(d), "pooled"), JSON_NULL));
	ck_assert_uint_eq(json_get(json_root(d), "suites")->count, 3);
	json_free(d);
	buf_free(&out);
	judged_free(&j);
}
END_TEST

/* ---- delta_logprob ---- */

static void append_choices(struct buf *out, const char *task, int id, bool with_choices)
{
	buf_printf(out, "{\"task\": \"%s\", \"doc_id\": %d, \"acc\": 1, \"target\": 0", task, id);
	buf_append_text(out, with_choices ? ", \"resps\": [[[-1, true]], [[-2, false]]]}\n" : "}\n");
}

static struct table_files choice_files(bool in_baseline, bool in_candidate)
{
	struct buf baseline = {0}, candidate = {0};
	for (int i = 0; i < 400; i++) {
		append_choices(&baseline, "arc", i, in_baseline);
		append_choices(&candidate, "arc", i, in_candidate);
		append_choices(&baseline, "gsm8k", i, false);
		append_choices(&candidate, "gsm8k", i, false);
	}
	return write_files(&baseline, &candidate);
}

static const struct {
	bool in_baseline, in_candidate;
	const char *policy, *suite;
	enum outcome outcome;
	size_t n_endpoints;
	const char *reason; /* of the last endpoint */
} measured[] = {
	{true, true, "{\"delta_logprob\": {}}", NULL, OUTCOME_PASS, 2, "over 400 items is below"},
	{true, true, "{}", "gsm8k", OUTCOME_PASS, 1, "the pooled drop"},
	{true, true, "{\"delta_logprob\": {\"margin\": 0.02}}", "gsm8k", OUTCOME_INCONCLUSIVE, 2, "cannot be measured"},
	{false, false, "{\"delta_logprob\": {\"margin\": 0.02}}", NULL, OUTCOME_INCONCLUSIVE, 2, "cannot be measured"},
	{false, false, "{\"delta_logprob\": {\"tier\": \"critical\"}}", NULL, OUTCOME_INCONCLUSIVE, 2,
		"delta_logprob, which the policy names, cannot be measured"},
	{false, false, "{\"delta_logprob\": {\"tier\": \"advisory\"}}", NULL, OUTCOME_PASS, 2, "cannot be measured"},
	{false, false, "{\"delta_logprob\": {}, \"pooled\": {\"tier\": \"advisory\"}}", NULL, OUTCOME_INCONCLUSIVE, 2,
		"cannot be measured"},
	{false, false, "{}", NULL, OUTCOME_PASS, 1, "the pooled drop"},
	{true, false, "{}", NULL, OUTCOME_INCONCLUSIVE, 2, "delta_logprob has the right choice's log-probability"},
	{false, true, "{}", NULL, OUTCOME_INCONCLUSIVE, 2, "for 0.0% of the multiple-choice items (0 of 400)"},
};

START_TEST(a_named_endpoint_is_judged)
{
	struct table_files files = choice_files(measured[_i].in_baseline, measured[_i].in_candidate);
	struct judged j = {0};
	struct buf json = {0}, junit = {0};
	read_policy(&j.policy, measured[_i].policy);
	CHECK_OK(judge_suites(&j, files.baseline, files.candidate, measured[_i].suite));
	const struct verdict *v = &j.verdict;
	ck_assert_msg(v->outcome == measured[_i].outcome, "%s", v->reason);
	ck_assert_uint_eq(v->n_endpoints, measured[_i].n_endpoints);
	const struct endpoint *last = &v->endpoints[v->n_endpoints - 1];
	expect_in(last->reason, measured[_i].reason);
	if (v->outcome == OUTCOME_INCONCLUSIVE)
		expect_in(v->reason, measured[_i].reason);
	CHECK_OK(verdict_json(v, false, &json, &test_error));
	CHECK_OK(junit_write(&v, 1, &junit, &test_error));
	if (v->n_endpoints == 2) {
		expect_in(buf_text(&json), "\"delta_logprob\": {\"n\": ");
		expect_in(buf_text(&json), last->reason);
		expect_in(buf_text(&junit), "name=\"delta_logprob\"");
	}
	buf_free(&json);
	buf_free(&junit);
	judged_free(&j);
}
END_TEST

/* ---- Policies for more than was chosen ---- */

START_TEST(a_policy_may_name_more_than_was_chosen)
{
	struct table_files files = choice_files(true, true);
	struct judged j = {0};
	read_policy(&j.policy, "{\"suites\": {\"gsm8k\": {}, \"arc\": {}}}");
	CHECK_OK(judge_suites(&j, files.baseline, files.candidate, "arc"));
	ck_assert_int_eq(j.verdict.outcome, OUTCOME_PASS);
	ck_assert_uint_eq(j.verdict.n_suites, 1);
	judged_free(&j);
	j = (struct judged){0};
	read_policy(&j.policy, "{\"suites\": {\"gsm9k\": {}, \"arc\": {}}}");
	ck_assert_int_eq(judge_suites(&j, files.baseline, files.candidate, "arc"), ERR_USAGE);
	expect_in(test_error.message, "'gsm9k'");
	judged_free(&j);
}
END_TEST

/* ---- Damage ---- */

static void damage(const char *path, const char *change)
{
	sqlite3 *db = NULL;
	char *message = NULL;
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	sqlite3_exec(db, "PRAGMA ignore_check_constraints = ON", NULL, NULL, NULL);
	ck_assert_msg(sqlite3_exec(db, change, NULL, NULL, &message) == SQLITE_OK, "%s", message);
	ck_assert_int_gt(sqlite3_changes(db), 0);
	sqlite3_close(db);
}

static const struct {
	const char *change, *item, *member;
} damages[] = {
	{"UPDATE sample SET metrics = '{\"acc,none\": ' WHERE suite = 'mmlu' AND task = 'mmlu_anatomy' AND doc_id = 7",
		"suite mmlu: mmlu_anatomy document 7", "metrics: line 1"},
	{"UPDATE sample SET metrics = '}' WHERE suite = 'mmlu' AND task = 'mmlu_anatomy' AND doc_id = 0",
		"suite mmlu: mmlu_anatomy document 0", "metrics: line 1"},
	{"UPDATE sample SET response = '{\"kl\": [' WHERE suite = 'divergence' AND doc_id = 9",
		"suite divergence: mmlu_anatomy document 9", "response: line 1"},
	{"UPDATE sample SET response = '[[-1', target_hash = "
	 "'5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9'"
	 " WHERE suite = 'mmlu' AND task = 'mmlu_virology' AND doc_id = 3",
		"suite mmlu: mmlu_virology document 3", "response: line 1"},
};

START_TEST(damage_is_named_by_its_item)
{
	const char *path = make_store(false), *run = address(path);
	struct judged j = {0};
	damage(path, damages[_i].change);
	policy_init(&j.policy);
	ck_assert_int_eq(judge_suites(&j, run, run, NULL), ERR_INPUT);
	expect_in(test_error.message, path);
	expect_in(test_error.message, ": run 1 bf16/bf16: ");
	expect_in(test_error.message, damages[_i].item);
	expect_in(test_error.message, damages[_i].member);
	judged_free(&j);
}
END_TEST

static int find_damage(void *context, const struct store_sample *x, struct error *e)
{
	(void)context;
	return x->doc_id == 2 ? error_set(e, ERR_INPUT, "metrics: line 1") : 0;
}

/* Who finds that a text of a row is damaged need not know where it stands. */
START_TEST(damage_has_an_address)
{
	const char *path = make_store(false);
	struct store *s = NULL;
	char expected[4200];
	CHECK_OK(store_open_reading(path, &s, &test_error));
	ck_assert_int_eq(store_samples_each(s, 1, 0, "mmlu", find_damage, NULL, &test_error), ERR_INPUT);
	snprintf(expected, sizeof(expected), "%s: run 1: suite mmlu: mmlu_anatomy document 2: metrics: line 1", path);
	ck_assert_str_eq(test_error.message, expected);
	store_close(s);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *t = test_case(suite, "overlap", 0);
	tcase_add_test(t, one_item_is_pooled_once);
	tcase_add_test(t, a_comparison_shows_both_and_pools_neither);
	t = test_case(suite, "endpoints", 0);
	tcase_add_loop_test(t, a_named_endpoint_is_judged, 0, (int)COUNT(measured));
	tcase_add_test(t, a_policy_may_name_more_than_was_chosen);
	t = test_case(suite, "damage", 0);
	tcase_add_test(t, damage_has_an_address);
	tcase_add_loop_test(t, damage_is_named_by_its_item, 0, (int)COUNT(damages));
}
