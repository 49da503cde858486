/* Guards on a working engine: no finding and the same bits in clean workloads. ASSAY_TEST_STEPS=N for more steps,
 * ASSAY_TEST_SEED=N for another workload. */
#include "engine/base/buf.h"
#include "tests/hostile_guard.h"

const char *const test_program_name = "guard";

static void incident_print(void *context, const struct guard_incident *i)
{
	(void)context;
	printf("incident: %s %s pool %d request %llu page %d logical %d expected %llu actual %llu step %llu emitted "
	       "%d: %s\n",
		guard_check_name(i->check), guard_moment_name(i->moment), i->pool, (unsigned long long)i->request,
		i->page, i->logical, (unsigned long long)i->expected, (unsigned long long)i->actual,
		(unsigned long long)i->step, i->emitted, i->what);
}

START_TEST(a_clean_workload_has_no_finding_and_the_same_bits)
{
	static struct workload w;
	const struct workload_case *c = &workload_cases[_i % COUNT(workload_cases)];
	enum guard_level level = (enum guard_level)(GUARD_TAGS + _i / COUNT(workload_cases));
	int steps = number_of("ASSAY_TEST_STEPS", test_build_is_slow() ? 1200 : 8000) /
		(COUNT(workload_cases) * GUARD_DIGEST);
	struct guard guard;
	struct buf summary = {0};

	guard_init(&guard, &(struct guard_options){.level = level, .sink = incident_print});
	w = (struct workload){0};
	workload_open(&w, c, (uint64_t)number_of("ASSAY_TEST_SEED", 1), &guard.table, NULL);
	workload_run(&w, steps);
	engine_close(w.engine);
	guard_summary(&guard, &summary);
	printf("%s: %s\n", c->name, buf_text(&summary));
	buf_free(&summary);
	ck_assert_uint_eq(guard.incidents, 0);
	ck_assert_uint_gt(guard.verified_steps, 0);
	CHECK_OK(guard_proved(&guard, &test_error));
}
END_TEST

/* ---- attacks ---- */

START_TEST(each_check_fires_where_it_says_and_only_its_request_falls)
{
	const struct attack *attack = &attacks[_i];
	struct answers clean = clean_answers(), got;

	for (int level = attack->level; level < GUARD_LEVEL_COUNT; level++) {
		struct hostile h;
		hostile_init(&h, attack, (enum guard_level)level, false);
		struct engine *engine = guarded_engine(&h.table, attack->padded);
		answers_take(engine, &got);
		const struct guard_incident *i = incident_of(&h, attack->check);
		ck_assert_msg(h.done, "%s: the moment never came", attack->name);
		ck_assert_msg(i, "%s: level %d did not notice", attack->name, level);
		ck_assert_msg(
			i->moment == attack->moment, "%s: noticed at %s", attack->name, guard_moment_name(i->moment));
		for (int r = 0; r < REQUESTS; r++) {
			bool falls = attack->all_fail || (!attack->none_fails && r == VICTIM - 1) ||
				(attack->peer_falls && r == PEER - 1);
			ck_assert_msg(got.failed[r] == falls, "%s, level %d: request %d %s", attack->name, level, r + 1,
				falls ? "goes on" : "falls");
			if (!falls)
				ck_assert_msg(got.bits[r] == clean.bits[r], "%s, level %d: request %d has other bits",
					attack->name, level, r + 1);
		}
		if (!attack->none_fails && !attack->all_fail && i->request != 0) {
			ck_assert_uint_eq(i->request, VICTIM);
			ck_assert_int_eq(i->emitted, got.generated[VICTIM - 1]);
		}
		ck_assert_uint_le(i->step, h.done_step + 1);
		engine_close(engine);
	}
}
END_TEST

START_TEST(no_check_fires_below_its_level)
{
	const struct attack *attack = &attacks[_i];
	struct answers got;
	struct hostile h;

	if (attack->level == GUARD_TAGS || attack->deadly)
		return;
	hostile_init(&h, attack, attack->level - 1, false);
	struct engine *engine = guarded_engine(&h.table, attack->padded);
	answers_take(engine, &got);
	ck_assert(h.done);
	ck_assert_msg(!incident_of(&h, attack->check), "%s: noticed below its level", attack->name);
	engine_close(engine);
}
END_TEST

START_TEST(an_observing_guard_records_and_aborts_nothing)
{
	const struct attack *attack = &attacks[_i];
	struct answers got;
	struct hostile h;

	if (attack->deadly)
		return;
	hostile_init(&h, attack, GUARD_DIGEST, true);
	struct engine *engine = guarded_engine(&h.table, attack->padded);
	answers_take(engine, &got);
	ck_assert(h.done);
	ck_assert_msg(attack->check == GUARD_TAG || incident_of(&h, attack->check), "%s: not recorded", attack->name);
	ck_assert_int_gt(h.n_seen, 0);
	for (int r = 0; r < REQUESTS; r++)
		ck_assert_msg(
			!got.failed[r] && got.generated[r] == GENERATED, "%s: request %d falls", attack->name, r + 1);
	ck_assert_int_eq(h.pool->n_quarantined, 0);
	engine_close(engine);
}
END_TEST

START_TEST(what_was_in_quarantine_comes_back)
{
	const struct attack *attack = &attacks[_i];
	struct answers got;
	struct hostile h;
	bool idle;

	hostile_init(&h, attack, GUARD_DIGEST, false);
	struct engine *engine = guarded_engine(&h.table, attack->padded);
	answers_take(engine, &got);
	CHECK_OK(engine_step(engine, &idle, &test_error));
	CHECK_OK(engine_step(engine, &idle, &test_error));
	ck_assert_msg(
		h.pool->n_quarantined == 0, "%s: %d pages stay in quarantine", attack->name, h.pool->n_quarantined);
	if (!attack->all_fail && attack->act != page_given_away) {
		engine_cache_clear(engine);
		ck_assert_msg(h.pool->n_free == kv_pool_usable(h.pool), "%s: %d of %d pages are free", attack->name,
			h.pool->n_free, kv_pool_usable(h.pool));
		CHECK_OK(engine_audit(engine, &test_error));
	}
	engine_close(engine);
}
END_TEST

static void list_end_twice(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)batch;
	(void)b;
	h->pool->free_pages[h->pool->n_free - 50] = h->pool->free_pages[h->pool->n_free - 60];
}

/* In a pool too large to be looked at as a whole each time: what is handed out next is looked at when a request ends, the
 * rest of the pages part by part. */
START_TEST(a_large_pool_is_audited_in_parts)
{
	static const struct attack large[] = {
		{"a page twice among those that are handed out next", GUARD_PAGES, GUARD_FREE_LIST, GUARD_AT_AUDIT,
			.act = list_end_twice},
		{"a reference too many", GUARD_PAGES, GUARD_REFERENCES, GUARD_AT_AUDIT, .act = reference_extra},
	};
	struct answers clean = clean_answers(), got;
	struct hostile h;

	hostile_init(&h, &large[_i], GUARD_PAGES, false);
	h.guard.options.audit_every = INT32_MAX;
	struct engine *engine = open_with(
		POCKET, "bf16/bf16", (struct engine_config){.threads = 1, .kv_memory = 192 << 20, .guard = &h.table});
	ck_assert_int_gt(h.pool->geometry.n_pages, 8192);
	answers_take(engine, &got);
	ck_assert(h.done);
	ck_assert_int_eq(h.n_seen, 1);
	ck_assert_int_eq(h.seen[0].check, large[_i].check);
	for (int r = 0; r < REQUESTS; r++)
		ck_assert(!got.failed[r] && got.bits[r] == clean.bits[r]);
	engine_close(engine);
}
END_TEST

static void parts_overlap(struct hostile *h, const struct kv_guard_batch *batch, int b)
{
	(void)h;
	((int32_t *)batch->cu_seqlens)[b + 1] = ((int32_t *)batch->cu_seqlens)[b];
}

START_TEST(a_batch_whose_sequences_are_no_parts_of_it_stops_the_step)
{
	static const struct attack broken = {"parts", GUARD_TAGS, GUARD_BOUNDS, GUARD_AT_READ, .act = parts_overlap};
	struct hostile h;
	struct error e = {0};
	bool idle;
	int status = 0;

	hostile_init(&h, &broken, GUARD_TAGS, false);
	struct engine *engine = guarded_engine(&h.table, false);
	requests_submit(engine);
	while (!h.done && status == 0)
		status = engine_step(engine, &idle, &e);
	ck_assert(h.done);
	ck_assert_int_eq(status, ERR_DEVICE);
	ck_assert_ptr_nonnull(strstr(e.message, "tags guard"));
	ck_assert_ptr_nonnull(incident_of(&h, GUARD_BOUNDS));
	engine_close(engine);
}
END_TEST

/* ---- faults in a busy engine ---- */

/* Now and then a wrong value at one of the engine's fault sites: never again before some time has passed. */
struct saboteur {
	struct py_random rng;
	int until_next, fired[FAULT_SITE_COUNT];
	int n_pages, page_size;
};

static int64_t sabotage(void *context, const struct fault_point *point)
{
	struct saboteur *s = context;
	int page = (int)py_random_below(&s->rng, (uint64_t)s->n_pages);
	int64_t value = point->value, wrong;

	switch (point->site) {
	case FAULT_POOL_ALLOC:
	case FAULT_TABLE_ENTRY:
		wrong = page;
		break;
	case FAULT_POOL_FREE:
		wrong = 2;
		break;
	case FAULT_SLOT:
		wrong = (int64_t)page * s->page_size + value % s->page_size;
		break;
	case FAULT_LENGTH:
		wrong = value + 1 - 2 * (value > 0);
		break;
	default:
		return value;
	}
	if (s->until_next-- > 0)
		return value;
	s->until_next = 300 + (int)py_random_below(&s->rng, 600);
	s->fired[point->site]++;
	return wrong;
}

/* Whoever gets an answer gets the right bits, nothing hangs, and every page comes back. */
START_TEST(no_wrong_answer_leaves_a_sabotaged_engine)
{
	static struct workload w;
	const struct workload_case *c = &workload_cases[_i % COUNT(workload_cases)];
	enum guard_level level = (enum guard_level)(GUARD_PAGES + _i / COUNT(workload_cases));
	int steps = number_of("ASSAY_TEST_STEPS", test_build_is_slow() ? 2700 : 9000) / (COUNT(workload_cases) * 3);
	struct saboteur s = {
		.until_next = 500, .n_pages = 10, .page_size = c->config.page_size ? c->config.page_size : 16};
	struct fault_hook hook = {&s, sabotage};
	struct engine_stats stats;
	struct guard guard;
	int fired = 0;

	py_random_seed(&s.rng, 99);
	guard_init(&guard, &(struct guard_options){.level = level});
	w = (struct workload){.may_fail = true};
	workload_open(&w, c, (uint64_t)number_of("ASSAY_TEST_SEED", 1), &guard.table, &hook);
	workload_run(&w, steps);
	for (int i = 0; i < 65; i++) /* up to the next audit, and the step in which pages come back */
		workload_step(&w);
	for (int i = 0; i < FAULT_SITE_COUNT; i++)
		fired += s.fired[i];
	engine_stats(w.engine, &stats);
	printf("%s, %s: %d faults, %llu incidents, %d answered, %d failed\n", c->name, guard_level_name(level), fired,
		(unsigned long long)guard.incidents, w.answered, w.failed);
	ck_assert_int_gt(fired, steps / 60);
	ck_assert_int_gt(w.answered, w.failed);
	ck_assert_int_gt(w.failed, 0);
	ck_assert_int_le(w.failed, fired);
	ck_assert_int_eq(stats.pages_used, 0);
	engine_close(w.engine);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *clean = test_case(suite, "clean", getenv("ASSAY_TEST_STEPS") ? 14400 : 120);
	TCase *attacked = test_case(suite, "attacked", 0);
	TCase *sabotaged = test_case(suite, "sabotaged", getenv("ASSAY_TEST_STEPS") ? 14400 : 120);

	tcase_add_loop_test(
		clean, a_clean_workload_has_no_finding_and_the_same_bits, 0, COUNT(workload_cases) * GUARD_DIGEST);
	tcase_add_loop_test(sabotaged, no_wrong_answer_leaves_a_sabotaged_engine, 0, COUNT(workload_cases) * 3);
	tcase_add_loop_test(attacked, each_check_fires_where_it_says_and_only_its_request_falls, 0, COUNT(attacks));
	tcase_add_loop_test(attacked, a_large_pool_is_audited_in_parts, 0, 2);
	tcase_add_test(attacked, a_batch_whose_sequences_are_no_parts_of_it_stops_the_step);
	tcase_add_loop_test(attacked, no_check_fires_below_its_level, 0, COUNT(attacks));
	tcase_add_loop_test(attacked, an_observing_guard_records_and_aborts_nothing, 0, COUNT(attacks));
	tcase_add_loop_test(attacked, what_was_in_quarantine_comes_back, 0, COUNT(attacks));
}
