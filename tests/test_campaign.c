/* Campaigns in child processes, and whether one notices a guard that is itself broken. */
#include <stdlib.h>
#include <string.h>

#include "integrity/campaign.h"
#include "integrity/guard_state.h"
#include "tests/engine_support.h"

const char *const test_program_name = "campaign";

/* ---- bugs of a guard: the table as it was, and what is planted in it ---- */

static struct kv_guard real;

static void plant_nothing(struct guard *guard)
{
	(void)guard;
}

/* A page keeps its tag when it is allocated again. */
static void tag_not_bumped(void *state, int32_t page, uint64_t request)
{
	struct guard_state *s = state;
	uint64_t *tags = s->tags, before = tags[page];

	real.page_allocated(state, page, request);
	if (before == 0)
		return;
	tags[page] = before;
	struct guard_row *row = row_find(s, request);
	if (row)
		row->issued_tag = before;
}

static void page_freed_never(void *state, int32_t page, uint64_t request)
{
	(void)state;
	(void)page;
	(void)request;
}

static void plant_tag_not_bumped(struct guard *guard)
{
	real = guard->table;
	guard->table.page_allocated = tag_not_bumped;
	guard->table.page_freed = page_freed_never;
}

static void all_stamp(const struct kv_guard_batch *batch)
{
	for (int b = 0; b < batch->n_sequences; b++)
		batch->validated[b] = batch->epoch;
}

/* Nothing is checked, and everything is stamped as checked. */
static int check_skipped(
	void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad, struct error *e)
{
	(void)state;
	(void)phase;
	(void)bad;
	(void)e;
	all_stamp(batch);
	return 0;
}

static void plant_check_skipped(struct guard *guard)
{
	real = guard->table;
	guard->table.verify = check_skipped;
}

/* Nothing is checked, and nothing is stamped. */
static int check_forgotten(
	void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad, struct error *e)
{
	(void)state;
	(void)phase;
	(void)batch;
	(void)bad;
	(void)e;
	return 0;
}

static void plant_check_forgotten(struct guard *guard)
{
	real = guard->table;
	guard->table.verify = check_forgotten;
}

/* What is expected is taken from what is there. */
static int refreshed(
	void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad, struct error *e)
{
	struct guard_state *s = state;

	for (int b = 0; b < batch->n_sequences; b++) {
		struct guard_row *row = row_find(s, batch->request[b]);
		const int32_t *table = batch->block_tables + (size_t)b * (size_t)batch->table_stride;
		for (int i = 0; row && i < row->n_mapped; i++) {
			if (!page_inside(s, table[i]))
				continue;
			row_pages(s, row)[i] = table[i];
			row_tags(s, row)[i] = s->tags[table[i]];
		}
	}
	return real.verify(state, phase, batch, bad, e);
}

static void plant_refreshed(struct guard *guard)
{
	real = guard->table;
	guard->table.verify = refreshed;
}

static int second_check_dropped(
	void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad, struct error *e)
{
	if (phase == KV_GUARD_BEFORE_READ)
		return real.verify(state, phase, batch, bad, e);
	all_stamp(batch);
	return 0;
}

static void plant_second_check_dropped(struct guard *guard)
{
	real = guard->table;
	guard->table.verify = second_check_dropped;
}

static const struct {
	const char *name;
	enum guard_level level;
	const char *sites[3];
	void (*plant)(struct guard *guard);
	bool escapes; /* wrong answers leave; else all requests fall, or findings come before the fault */
	bool noticed;
} bugs[] = {
	{"none", GUARD_PAGES, {"pool.free.early", "table.row.swap", "slot.not_written"}, plant_nothing, false, false},
	{"tag not bumped", GUARD_TAGS, {"pool.free.early", "radix.evict.in_use", "refcount.lost"}, plant_tag_not_bumped,
		true, true},
	{"check skipped", GUARD_PAGES, {"table.row.swap", "slot.not_written", "table.entry.swap"}, plant_check_skipped,
		true, true},
	{"check forgotten", GUARD_PAGES, {"table.row.swap", "slot.not_written", "table.entry.swap"},
		plant_check_forgotten, false, true},
	{"expectation refreshed", GUARD_TAGS, {"table.row.swap", "table.entry.swap", "metadata.previous_step"},
		plant_refreshed, true, true},
	{"second check dropped", GUARD_PAGES, {"table.row.swap", "slot.not_written", "table.entry.swap"},
		plant_second_check_dropped, false, true},
};

struct counts {
	int escapes, early, collateral, unproved, trials;
};

static struct counts campaign_count(const struct campaign_options *o)
{
	struct counts n = {0};
	struct campaign c;

	CHECK_OK(campaign_open(&c, o, &test_error));
	CHECK_OK(campaign_run(&c, &test_error));
	for (int64_t i = 0; i < c.n_trials; i++) {
		const struct campaign_trial *t = &c.trials[i];
		ck_assert(t->done);
		n.trials++;
		n.escapes += trial_outcome_escaped(campaign_enforced(t, 0));
		n.early += t->enforced[0].early_incidents;
		n.collateral += trial_collateral(&t->enforced[0], &t->observed);
		n.unproved += t->enforced[0].unproved;
	}
	campaign_free(&c);
	return n;
}

static struct campaign_options options_of(const struct trial_model *model, int64_t trials)
{
	return (struct campaign_options){.model = model, .trials = trials, .seed = 7, .workers = 2, .n_levels = 1};
}

START_TEST(a_broken_guard_is_noticed)
{
	struct trial_model model;

	CHECK_OK(trial_model_open(&model, POCKET, &test_error));
	struct campaign_options o = options_of(&model, test_build_is_slow() ? 6 : 24);
	o.levels[0] = bugs[_i].level;
	o.plant = bugs[_i].plant;
	for (int i = 0; i < 3; i++)
		o.types[o.n_types++] = fault_type_find(bugs[_i].sites[i]);
	struct counts n = campaign_count(&o);
	printf("%s: %d trials, %d escapes, %d early findings, %d collateral, %d unproved\n", bugs[_i].name, n.trials,
		n.escapes, n.early, n.collateral, n.unproved);
	ck_assert_msg((n.escapes > 0) == bugs[_i].escapes, "%s", bugs[_i].name);
	ck_assert_msg((n.escapes + n.early + n.collateral + n.unproved > 0) == bugs[_i].noticed, "%s", bugs[_i].name);
	trial_model_free(&model);
}
END_TEST

/* ---- what a fault may do to its process ---- */

static void *no_memory;

static int dies(
	void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad, struct error *e)
{
	(void)state;
	(void)phase;
	(void)bad;
	(void)e;
	if (batch->step > 3)
		abort();
	all_stamp(batch);
	return 0;
}

static int stays(
	void *state, enum kv_guard_phase phase, const struct kv_guard_batch *batch, uint8_t *bad, struct error *e)
{
	(void)state;
	(void)phase;
	(void)bad;
	(void)e;
	while (batch->step > 3 && !*(void *volatile *)&no_memory)
		;
	all_stamp(batch);
	return 0;
}

static void plant_death(struct guard *guard)
{
	guard->table.verify = dies;
}

static void plant_hang(struct guard *guard)
{
	guard->table.verify = stays;
}

static const struct {
	const char *name;
	void (*plant)(struct guard *guard);
	enum trial_outcome outcome;
} ends[] = {{"a process that dies", plant_death, TRIAL_CRASH}, {"a process that hangs", plant_hang, TRIAL_HANG}};

START_TEST(a_campaign_outlives_its_processes)
{
	struct trial_model model;
	struct campaign c;

	CHECK_OK(trial_model_open(&model, POCKET, &test_error));
	struct campaign_options o = options_of(&model, 3);
	o.levels[o.n_levels++] = GUARD_PAGES;
	o.levels[0] = GUARD_TAGS;
	o.types[o.n_types++] = fault_type_find("slot.not_written");
	o.plant = ends[_i].plant;
	CHECK_OK(campaign_open(&c, &o, &test_error));
	CHECK_OK(campaign_run(&c, &test_error));
	ck_assert_int_eq(c.n_trials, 3);
	for (int64_t i = 0; i < c.n_trials; i++) {
		ck_assert(c.trials[i].done);
		ck_assert_int_eq(campaign_observed(&c.trials[i]), ends[_i].outcome);
		for (int level = 0; level < 2; level++)
			ck_assert_int_eq(campaign_enforced(&c.trials[i], level), ends[_i].outcome);
	}
	campaign_free(&c);
	trial_model_free(&model);
}
END_TEST

/* Without a fault a death is an error of the program, not an outcome. */
START_TEST(a_death_without_a_fault_ends_the_campaign)
{
	struct trial_model model;
	struct campaign c;

	CHECK_OK(trial_model_open(&model, POCKET, &test_error));
	struct campaign_options o = options_of(&model, 2);
	o.levels[0] = GUARD_TAGS;
	o.plant = plant_death;
	CHECK_OK(campaign_open(&c, &o, &test_error));
	ck_assert_int_eq(campaign_run(&c, &test_error), ERR_DEVICE);
	ck_assert_ptr_nonnull(strstr(test_error.message, "where there was no fault"));
	campaign_free(&c);
	trial_model_free(&model);
}
END_TEST

/* ---- plans ---- */

START_TEST(exhaustive_means_every_occurrence_and_one_more)
{
	static struct trial_clean clean;
	struct trial_model model;
	struct campaign c;
	int next = 0;

	CHECK_OK(trial_model_open(&model, POCKET, &test_error));
	struct campaign_options o = options_of(&model, 1);
	o.exhaustive = true;
	o.levels[0] = GUARD_PAGES;
	o.types[o.n_types++] = fault_type_find("admission.counts_more");
	CHECK_OK(campaign_open(&c, &o, &test_error));
	CHECK_OK(campaign_run(&c, &test_error));
	CHECK_OK(trial_clean_make(&model, c.trials[0].plan.workload, &clean, &test_error));
	for (int i = 0; fault_type(i) != o.types[0]; i++)
		next = i + 1;
	ck_assert_int_eq(c.n_trials, clean.points[next] + 1);
	for (int64_t i = 0; i < c.n_trials; i++) {
		ck_assert_int_eq(c.trials[i].plan.occurrence, i);
		ck_assert_int_eq(campaign_observed(&c.trials[i]) == TRIAL_NOT_ACTIVATED, i == c.n_trials - 1);
	}
	campaign_free(&c);
	trial_model_free(&model);
}
END_TEST

static bool at_once(void)
{
	return true;
}

START_TEST(a_campaign_that_is_stopped_says_so)
{
	struct trial_model model;
	struct campaign c;

	CHECK_OK(trial_model_open(&model, POCKET, &test_error));
	struct campaign_options o = options_of(&model, 4);
	o.levels[0] = GUARD_TAGS;
	CHECK_OK(campaign_open(&c, &o, &test_error));
	c.options.stop = at_once;
	ck_assert_int_eq(campaign_run(&c, &test_error), ERR_INTERRUPTED);
	ck_assert(!c.trials[0].done);
	campaign_free(&c);
	trial_model_free(&model);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *broken = test_case(suite, "broken guards", 240);
	TCase *processes = test_case(suite, "processes", 240);

	tcase_add_loop_test(broken, a_broken_guard_is_noticed, 0, COUNT(bugs));
	tcase_add_loop_test(processes, a_campaign_outlives_its_processes, 0, COUNT(ends));
	tcase_add_test(processes, a_death_without_a_fault_ends_the_campaign);
	tcase_add_test(processes, exhaustive_means_every_occurrence_and_one_more);
	tcase_add_test(processes, a_campaign_that_is_stopped_says_so);
}
