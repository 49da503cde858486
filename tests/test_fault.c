/* The table of faults, workloads, replay lines, and what is made of the facts of a trial. */
#include <string.h>

#include "integrity/campaign.h"
#include "integrity/workload.h"
#include "tests/engine_support.h"

const char *const test_program_name = "fault";

enum { VOCAB = 1024, SEEDS = 200 };

/* ---- the table ---- */

START_TEST(every_model_has_two_faults_and_a_public_bug)
{
	int of_model[FAULT_MODELS + 1] = {0};

	for (int i = 0; i < fault_type_count(); i++) {
		const struct fault_type *t = fault_type(i);
		ck_assert_msg(t->model >= 1 && t->model <= FAULT_MODELS, "%s: model %d", t->name, t->model);
		of_model[t->model]++;
		ck_assert_msg(strchr(t->bug, '#') || strncmp(t->bug, "CVE-", 4) == 0, "%s: bug '%s'", t->name, t->bug);
		ck_assert_msg(t->level >= GUARD_TAGS && t->level <= GUARD_LEVEL_COUNT, "%s: level", t->name);
		ck_assert_ptr_eq(fault_type_find(t->name), t); /* no name twice */
		ck_assert_msg(*t->does && *t->reason, "%s says nothing", t->name);
	}
	for (int model = 1; model <= FAULT_MODELS; model++) {
		ck_assert_msg(of_model[model] >= 2, "M%d has %d faults", model, of_model[model]);
		ck_assert(*fault_model_name(model));
	}
	ck_assert_ptr_null(fault_type_find("pool.free.earl"));
	ck_assert_int_le(fault_type_count(), CAMPAIGN_TYPES);
}
END_TEST

/* ---- workloads ---- */

START_TEST(a_workload_is_a_function_of_its_seed_and_keeps_its_bounds)
{
	static const struct workload_secrets secrets; /* none */
	static struct workload a, b;
	int aborts = 0, edges = 0, repeated = 0, variants = 0, paddings = 0;

	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		workload_make(&a, seed, VOCAB, &secrets);
		workload_make(&b, seed, VOCAB, &secrets);
		ck_assert_mem_eq(&a, &b, sizeof a);
		ck_assert(a.n >= 8 && a.n <= WORKLOAD_REQUESTS);
		variants |= 1 << (strlen(a.variant) % 8);
		paddings += a.pad_decode;
		for (int i = 0; i < a.n; i++) {
			const struct workload_request *r = &a.requests[i];
			ck_assert(r->n_tokens >= 1 && r->n_tokens <= WORKLOAD_PROMPT);
			ck_assert(r->max_tokens >= 0 && r->max_tokens <= WORKLOAD_GENERATED);
			ck_assert(r->max_tokens > 0 || r->logprobs_from > 0);
			ck_assert(r->logprobs_from < r->n_tokens);
			ck_assert(i == 0 || r->submit_step >= a.requests[i - 1].submit_step);
			for (int t = 0; t < r->n_tokens; t++)
				ck_assert(r->tokens[t] >= 0 && r->tokens[t] < VOCAB);
			aborts += r->abort_step >= 0;
			edges += r->n_tokens % a.page_size <= 1;
			for (int j = 0; j < i; j++)
				repeated += r->n_tokens == a.requests[j].n_tokens &&
					memcmp(r->tokens, a.requests[j].tokens, sizeof r->tokens) == 0;
		}
	}
	ck_assert_int_gt(aborts, SEEDS / 2);
	ck_assert_int_gt(edges, 2 * SEEDS);
	ck_assert_int_gt(repeated, SEEDS / 2);
	ck_assert_int_eq(__builtin_popcount((unsigned)variants), 3);
	ck_assert(paddings > 0 && paddings < SEEDS);
}
END_TEST

/* ---- replay lines ---- */

static const struct {
	const char *line, *says;
} lines[] = {
	{"seed=1 workload=2 site=pool.free.early occurrence=3", NULL},
	{"  site=none\toccurrence=0 seed=18446744073709551615 workload=0 guard=digest ", NULL},
	{"", "no seed="},
	{"seed=1 workload=2 site=pool.free.early", "no occurrence="},
	{"seed=1 workload=2 site=pool.free occurrence=0", "site 'pool.free': not known"},
	{"seed=-1 workload=2 site=none occurrence=0", "seed '-1': expected a number"},
	{"seed=1x workload=2 site=none occurrence=0", "seed '1x'"},
	{"seed=18446744073709551616 workload=2 site=none occurrence=0", "seed '18446744073709551616'"},
	{"seed= workload=2 site=none occurrence=0", "seed ''"},
	{"seed=1 workload=2 site=none occurrence=2147483648", "occurrence=2147483648"},
	{"seed=1 workload=2 site=none occurrence=0 guard=all", "guard level 'all'"},
	{"seed=1 workload=2 site=none occurrence=0 page=7", "'page=7'"},
	{"seed=1 workload=2 site=none occurrence=0 seed=2", "seed= stands there twice"},
	{"seed=1 workload=2 site=none occurrence=0 guard=tags guard=tags", "guard= stands there twice"},
	{"seed=1 workload=2 site=none occurrence=0 digest", "'digest': expected NAME=VALUE"},
};

START_TEST(a_replay_line_is_read_or_refused)
{
	struct campaign_plan plan;
	enum guard_level level;
	int status = campaign_replay_parse(lines[_i].line, &plan, &level, &test_error);

	if (!lines[_i].says) {
		CHECK_OK(status);
		return;
	}
	ck_assert_int_eq(status, ERR_USAGE);
	ck_assert_msg(strstr(test_error.message, lines[_i].says), "'%s': %s", lines[_i].line, test_error.message);
}
END_TEST

START_TEST(a_replay_line_reads_back)
{
	for (int i = -1; i < fault_type_count(); i++)
		for (int level = GUARD_NONE; level <= GUARD_LEVEL_COUNT; level++) {
			struct campaign_plan plan = {i < 0 ? NULL : fault_type(i), UINT64_MAX, INT32_MAX, UINT64_MAX},
					     read;
			enum guard_level named;
			char line[CAMPAIGN_REPLAY_SIZE];
			bool none = level == GUARD_LEVEL_COUNT;
			campaign_replay_line(&plan, none ? NULL : guard_level_name((enum guard_level)level), line);
			CHECK_OK(campaign_replay_parse(line, &read, &named, &test_error));
			ck_assert(read.type == plan.type && read.seed == plan.seed && read.workload == plan.workload &&
				read.occurrence == plan.occurrence && (int)named == level);
		}
}
END_TEST

/* ---- outcomes ---- */

#define MASKED                               \
	{                                    \
		.fired = true, .finished = 3 \
	}
#define WRONG                                                               \
	{                                                                   \
		.fired = true, .finished = 3, .wrong = 1, .contaminated = 1 \
	}

static const struct {
	const char *name;
	struct trial_facts observed, enforced;
	enum trial_outcome seen, outcome;
	int collateral;
} outcomes[] = {
	{"it never fired", {.finished = 3}, {.finished = 3}, TRIAL_NOT_ACTIVATED, TRIAL_NOT_ACTIVATED, 0},
	{"nothing came of it", MASKED, MASKED, TRIAL_MASKED, TRIAL_MASKED, 0},
	{"found, and harmless", MASKED, {.fired = true, .finished = 2, .failed = 1, .touched = 1, .incidents = 1},
		TRIAL_MASKED, TRIAL_BENIGN, 0},
	{"withheld", WRONG, {.fired = true, .finished = 2, .failed = 1, .incidents = 1}, TRIAL_SILENT, TRIAL_DETECTED,
		0},
	{"withheld after two tokens", WRONG,
		{.fired = true, .finished = 2, .failed = 1, .wrong = 1, .incidents = 1, .late_tokens = 2}, TRIAL_SILENT,
		TRIAL_DETECTED_LATE, 0},
	{"nobody saw it", WRONG, WRONG, TRIAL_SILENT, TRIAL_SILENT, 0},
	{"seen, and not withheld", WRONG, {.fired = true, .finished = 3, .wrong = 1, .contaminated = 1, .incidents = 4},
		TRIAL_SILENT, TRIAL_SILENT, 0},
	{"another's text", {.fired = true, .finished = 3, .wrong = 2, .leaked = 2, .contaminated = 2},
		{.fired = true, .finished = 3, .wrong = 2, .leaked = 2, .contaminated = 2}, TRIAL_LEAK, TRIAL_LEAK, 0},
	{"another's text, read by one that was withheld",
		{.fired = true, .finished = 3, .wrong = 3, .leaked = 2, .contaminated = 3},
		{.fired = true, .finished = 1, .failed = 2, .wrong = 1, .leaked = 2, .contaminated = 3, .incidents = 1},
		TRIAL_LEAK, TRIAL_SILENT, 0},
	{"a step failed", {.fired = true, .stopped = true}, {.fired = true, .stopped = true}, TRIAL_CRASH, TRIAL_CRASH,
		0},
	{"a request failed of itself", {.fired = true, .loud = 1, .finished = 2},
		{.fired = true, .loud = 1, .finished = 2}, TRIAL_CRASH, TRIAL_CRASH, 1},
	{"the process died", {.crashed = true}, {.fired = true, .failed = 1, .finished = 2, .incidents = 1},
		TRIAL_CRASH, TRIAL_DETECTED, 0},
	{"the process died under the guard", WRONG, {.crashed = true}, TRIAL_SILENT, TRIAL_CRASH, 0},
	{"it went on for ever", {.fired = true, .hang = true}, {.fired = true, .hang = true}, TRIAL_HANG, TRIAL_HANG,
		0},
	{"wrong, then for ever", {.fired = true, .hang = true, .wrong = 1}, {.hang = true}, TRIAL_SILENT, TRIAL_HANG,
		0},
	{"an innocent fell too", WRONG, {.fired = true, .failed = 3, .incidents = 2}, TRIAL_SILENT, TRIAL_DETECTED, 1},
	{"a finding without a fault", {0}, {.early_incidents = 1, .failed = 4}, TRIAL_NOT_ACTIVATED,
		TRIAL_NOT_ACTIVATED, 1},
};

START_TEST(facts_make_outcomes)
{
	const struct trial_facts *observed = &outcomes[_i].observed, *enforced = &outcomes[_i].enforced;

	ck_assert_msg(trial_observed_outcome(observed) == outcomes[_i].seen, "%s: seen as %s", outcomes[_i].name,
		trial_outcome_name(trial_observed_outcome(observed)));
	ck_assert_msg(trial_enforced_outcome(enforced, observed) == outcomes[_i].outcome, "%s: %s", outcomes[_i].name,
		trial_outcome_name(trial_enforced_outcome(enforced, observed)));
	ck_assert_msg(trial_collateral(enforced, observed) == outcomes[_i].collateral, "%s: collateral %d",
		outcomes[_i].name, trial_collateral(enforced, observed));
}
END_TEST

/* ---- reach ---- */

START_TEST(some_workload_comes_by_every_site)
{
	static struct trial_clean clean;
	struct trial_model model;
	int reached[CAMPAIGN_TYPES] = {0};

	CHECK_OK(trial_model_open(&model, POCKET, &test_error));
	for (int i = 0; i < 2 * model.n_layers; i++)
		ck_assert_msg(model.kv_scales[i] > 0.0f && model.kv_scales[i] < 1.0f, "scale %d is %g", i,
			(double)model.kv_scales[i]);
	for (uint64_t seed = 0; seed < 12; seed++) {
		CHECK_OK(trial_clean_make(&model, seed, &clean, &test_error));
		for (int i = 0; i < fault_type_count(); i++)
			reached[i] += clean.points[i] > 0;
	}
	for (int i = 0; i < fault_type_count(); i++)
		ck_assert_msg(reached[i] > 0, "%s is reached by none", fault_type(i)->name);
	trial_model_free(&model);
}
END_TEST

/* Without a fault the oracle calls nothing contaminated, and no guard says or changes anything. */
START_TEST(a_trial_without_a_fault_is_clean)
{
	static struct trial_clean clean;
	struct trial_model model;
	struct trial_facts facts;

	CHECK_OK(trial_model_open(&model, POCKET, &test_error));
	for (uint64_t seed = 100; seed < 106; seed++) {
		CHECK_OK(trial_clean_make(&model, seed, &clean, &test_error));
		for (int level = GUARD_NONE; level < GUARD_LEVEL_COUNT; level++) {
			struct trial_run run = {.model = &model, .clean = &clean, .level = (enum guard_level)level};
			CHECK_OK(trial_run(&run, &facts, &test_error));
			ck_assert(!facts.fired && !facts.stopped && !facts.hang && !facts.unproved);
			ck_assert_uint_eq(facts.wrong | facts.failed | facts.loud | facts.contaminated, 0);
			ck_assert_int_eq(facts.early_incidents + facts.incidents, 0);
			ck_assert_uint_eq(facts.finished, (1u << clean.workload.n) - 1);
		}
	}
	trial_model_free(&model);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *table = test_case(suite, "table", 0);
	TCase *trials = test_case(suite, "trials", 120);

	tcase_add_test(table, every_model_has_two_faults_and_a_public_bug);
	tcase_add_test(table, a_workload_is_a_function_of_its_seed_and_keeps_its_bounds);
	tcase_add_loop_test(table, a_replay_line_is_read_or_refused, 0, COUNT(lines));
	tcase_add_test(table, a_replay_line_reads_back);
	tcase_add_loop_test(table, facts_make_outcomes, 0, COUNT(outcomes));
	tcase_add_test(trials, some_workload_comes_by_every_site);
	tcase_add_test(trials, a_trial_without_a_fault_is_clean);
}
