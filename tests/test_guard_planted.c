/* Bugs planted in the guard itself: each is noticed, by the rule of the stamp or by attacks that escape. */
#include "tests/hostile_guard.h"

const char *const test_program_name = "guard_planted";

enum bug { NONE, TAG_NOT_BUMPED, EXPECTATION_REFRESHED, CHECK_SKIPPED, SECOND_DROPPED, STAMPED_UNCHECKED };

static const struct {
	const char *name;
	enum bug bug;
	bool by_stamp; /* the engine itself withholds what was not checked */
	bool escapes;  /* some attacks are not noticed any more */
} bugs[] = {
	{"none", NONE, false, false},
	{"the tag is not bumped", TAG_NOT_BUMPED, false, true},
	{"the expectation is refreshed from the table", EXPECTATION_REFRESHED, false, true},
	{"the first check is skipped", CHECK_SKIPPED, true, false},
	{"the second check is dropped", SECOND_DROPPED, true, false},
	{"stamped without a check", STAMPED_UNCHECKED, false, true},
};

static void bug_plant(struct hostile *h, enum bug bug)
{
	h->frozen_tags = bug == TAG_NOT_BUMPED;
	h->refresh = bug == EXPECTATION_REFRESHED;
	h->unstamped_read = bug == CHECK_SKIPPED;
	h->unstamped_publish = bug == SECOND_DROPPED;
	h->blind = bug == STAMPED_UNCHECKED;
}

/* Of the attacks that the level of tags must notice and that the engine survives: how many reach the caller with other
 * bits. */
static int escapes(enum bug bug, const struct answers *clean, int *noticed)
{
	int n = 0;

	for (int i = 0; i < COUNT(attacks); i++) {
		struct hostile h;
		struct answers got;
		if (attacks[i].level != GUARD_TAGS || attacks[i].deadly)
			continue;
		hostile_init(&h, &attacks[i], GUARD_TAGS, false);
		bug_plant(&h, bug);
		struct engine *engine = guarded_engine(&h.table, attacks[i].padded);
		answers_take(engine, &got);
		for (int r = 0; r < REQUESTS; r++)
			n += !got.failed[r] && got.bits[r] != clean->bits[r];
		*noticed += h.guard.fired[GUARD_EPOCH] > 0;
		engine_close(engine);
	}
	return n;
}

START_TEST(a_planted_bug_is_noticed)
{
	struct answers clean = clean_answers();
	int unchecked = 0, n = escapes(bugs[_i].bug, &clean, &unchecked);

	printf("%s: %d escapes, %d runs with sequences that were not checked\n", bugs[_i].name, n, unchecked);
	ck_assert_int_eq(n > 0, bugs[_i].escapes);
	ck_assert_int_eq(unchecked > 0, bugs[_i].by_stamp);
}
END_TEST

/* Without any attack: what was not checked is not published, and says so. */
START_TEST(what_was_not_checked_is_not_published)
{
	struct hostile h;
	struct answers got;

	hostile_init(&h, NULL, GUARD_PAGES, false);
	bug_plant(&h, _i == 0 ? CHECK_SKIPPED : SECOND_DROPPED);
	struct engine *engine = guarded_engine(&h.table, false);
	answers_take(engine, &got);
	for (int r = 0; r < REQUESTS; r++) {
		ck_assert(got.failed[r]);
		ck_assert_int_lt(got.generated[r], GENERATED);
	}
	ck_assert_uint_eq(h.guard.fired[GUARD_EPOCH], REQUESTS);
	ck_assert_int_eq(h.seen[0].moment, _i == 0 ? GUARD_AT_READ : GUARD_AT_PUBLISH);
	engine_close(engine);
}
END_TEST

START_TEST(a_guard_whose_checks_never_ran_is_an_error)
{
	struct guard guard;
	struct error e = {0};

	guard_init(&guard, &(struct guard_options){.level = GUARD_CHAIN});
	CHECK_OK(guard_proved(&guard, &test_error)); /* nothing to check yet */
	guard.verified_steps = 3;
	ck_assert_int_eq(guard_proved(&guard, &e), ERR_DEVICE);
	for (int i = 0; i < GUARD_CHECK_COUNT; i++)
		guard.ran[i] = i != GUARD_WRITE;
	ck_assert_int_eq(guard_proved(&guard, &e), ERR_DEVICE);
	ck_assert_ptr_nonnull(strstr(e.message, "write"));
	guard.ran[GUARD_WRITE] = 1;
	CHECK_OK(guard_proved(&guard, &test_error));
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *planted = test_case(suite, "planted", 0);

	tcase_add_loop_test(planted, a_planted_bug_is_noticed, 0, COUNT(bugs));
	tcase_add_loop_test(planted, what_was_not_checked_is_not_published, 0, 2);
	tcase_add_test(planted, a_guard_whose_checks_never_ran_is_an_error);
}
