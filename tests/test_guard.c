/* Guards on a working engine: no finding and the same bits in clean workloads. ASSAY_TEST_STEPS=N for more steps,
 * ASSAY_TEST_SEED=N for another workload. */
#include "engine/base/buf.h"
#include "integrity/guard.h"
#include "tests/serving_workload.h"

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
	int steps = number_of("ASSAY_TEST_STEPS", 8000) / (COUNT(workload_cases) * GUARD_DIGEST);
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

void test_program_cases(Suite *suite)
{
	TCase *clean = test_case(suite, "clean", getenv("ASSAY_TEST_STEPS") ? 14400 : 120);

	tcase_add_loop_test(
		clean, a_clean_workload_has_no_finding_and_the_same_bits, 0, COUNT(workload_cases) * GUARD_DIGEST);
}
