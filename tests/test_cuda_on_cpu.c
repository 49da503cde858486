/* The CUDA kernels on the CPU: the cases that a GPU runs too, under several orders of threads; and whether the
 * stand-in notices faults. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/weight_pack.h"
#include "engine/base/thread_pool.h"
#include "tests/cuda_cases/cuda_cases.h"
#include "tests/cuda_on_cpu/cuda_on_cpu.h"
#include "tests/support.h"

const char *const test_program_name = "cuda_on_cpu";

enum { SEEDS = 3, SHIM_SEEDS = 12 };

static void run_case(const struct cuda_case_group *group, int i)
{
	const uint64_t seeds = test_build_is_slow() ? 2 : SEEDS;
	for (uint64_t seed = 0; seed < seeds; seed++) {
		cuda_on_cpu_seed(seed);
		struct error e = {0};
		int status = group->run(i, true, &e);
		ck_assert_msg(status == 0, "%s, %s, seed %d: %s", group->op, group->name(i), (int)seed, e.message);
	}
}

START_TEST(rmsnorm_against_reference)
{
	run_case(&rmsnorm_cases, _i);
}
END_TEST

START_TEST(linear_against_reference)
{
	run_case(&linear_cases, _i);
}
END_TEST

START_TEST(input_against_reference)
{
	run_case(&input_cases, _i);
}
END_TEST

START_TEST(head_linear_against_reference)
{
	run_case(&head_linear_cases, _i);
}
END_TEST

START_TEST(experts_against_reference)
{
	run_case(&experts_cases, _i);
}
END_TEST

START_TEST(attend_against_reference)
{
	run_case(&attend_cases, _i);
}
END_TEST

START_TEST(rows_against_reference)
{
	run_case(&rows_cases, _i);
}
END_TEST

START_TEST(route_against_reference)
{
	run_case(&route_cases, _i);
}
END_TEST

START_TEST(logits_against_reference)
{
	run_case(&logits_cases, _i);
}
END_TEST

START_TEST(qkv_against_reference)
{
	run_case(&qkv_cases, _i);
}
END_TEST

START_TEST(pages_against_reference)
{
	run_case(&page_cases, _i);
}
END_TEST

START_TEST(latent_against_reference)
{
	run_case(&latent_cases, _i);
}
END_TEST

/* ---- planted races ---- */

/* Cases in which each barrier of a kernel has something to keep apart. */
static const struct barrier_case {
	const struct cuda_case_group *group;
	int cases[2];
} barrier_cases[] = {
	{&rmsnorm_cases, {3, 3}},
	{&linear_cases, {2, 2}},
	{&input_cases, {4, 4}},
	{&experts_cases, {0, 1}},
	{&attend_cases, {7, 18}},
	{&latent_cases, {0, 5}},
	{&qkv_cases, {6, 9}},
	{&page_cases, {2, 3}},
	{&rows_cases, {5, 5}},
	{&route_cases, {3, 6}},
	{&logits_cases, {4, 4}},
};
enum { BARRIER_CASES = sizeof(barrier_cases) / sizeof(barrier_cases[0]) };

/* Whether a case fails under that seed without a barrier, in a process of its own: a race may as well crash it, or keep
 * it busy for ever. */
static bool race_shows(const struct cuda_case_group *group, int i, int barrier, uint64_t seed)
{
	pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		alarm(30);
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
		cuda_on_cpu_watch_barriers(barrier);
		cuda_on_cpu_seed(seed);
		_exit(group->run(i, true, NULL) < 0);
	}
	int status;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* Whether one of the cases fails without that barrier under some seed. */
static bool barrier_needed(const struct barrier_case *c, int barrier)
{
	for (int i = 0; i < 2; i++)
		for (uint64_t seed = 0; seed < SEEDS; seed++)
			if (race_shows(c->group, c->cases[i], barrier, seed))
				return true;
	return false;
}

/* Without any one of its barriers a kernel gives something else under some order of threads. */
START_TEST(notices_missing_barriers)
{
	const struct barrier_case *c = &barrier_cases[_i];
	int missed = 0;
	if (test_build_is_slow() && c->group != &rmsnorm_cases) /* a race is one in every build */
		return;
	cuda_on_cpu_seed(0);
	cuda_on_cpu_watch_barriers(-1);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(c->group->run(c->cases[i], true, NULL), 0);
	ck_assert_int_gt(cuda_on_cpu_barrier_count(), 0);
	for (int barrier = 0; barrier < cuda_on_cpu_barrier_count(); barrier++) {
		if (barrier_needed(c, barrier))
			continue;
		fprintf(stderr, "%s: nothing shows that the barrier %s:%d is missing\n", c->group->op,
			cuda_on_cpu_barrier_file(barrier), cuda_on_cpu_barrier_line(barrier));
		missed++;
	}
	ck_assert_int_eq(missed, 0);
}
END_TEST

/* ---- known faults ---- */

static bool as_expected(const struct shim_case *c, const float *out)
{
	for (int i = 0; i < SHIM_CASE_VALUES; i++)
		if (!(fabsf(out[i] - c->expected(i)) <= 0.0f))
			return false;
	return true;
}

/* A fault that only the order of threads shows must show under some seed; all else under each. */
START_TEST(notices_faults)
{
	const struct shim_case *c = &shim_cases[_i];
	int wrong = 0;
	for (uint64_t seed = 0; seed < SHIM_SEEDS; seed++) {
		float out[SHIM_CASE_VALUES];
		cuda_on_cpu_seed(seed);
		const char *message = c->run(out, SHIM_CASE_VALUES);
		if (c->error && *c->error) {
			ck_assert_msg(message && strstr(message, c->error),
				"%s, seed %d: %s, expected an error with '%s'", c->name, (int)seed,
				message ? message : "no error", c->error);
			continue;
		}
		ck_assert_msg(!message, "%s, seed %d: %s", c->name, (int)seed, message);
		wrong += !as_expected(c, out);
	}
	if (!c->error)
		ck_assert_msg(wrong == 0, "%s: another result under %d of %d seeds", c->name, wrong, SHIM_SEEDS);
	else if (!*c->error)
		ck_assert_msg(wrong > 0, "%s: no seed of %d shows it", c->name, SHIM_SEEDS);
}
END_TEST

/* The matrix products with a fault: some order of threads must show it, and none may where there is no fault. */
START_TEST(notices_planted)
{
	int shown = 0;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct error e = {0};
		cuda_on_cpu_seed(seed);
		shown += planted_faults.run(_i, &e) != 0;
		if (!planted_faults.wrong(_i))
			ck_assert_msg(shown == 0, "%s, seed %d: %s", planted_faults.name(_i), (int)seed, e.message);
	}
	if (planted_faults.wrong(_i))
		ck_assert_msg(shown > 0, "%s: no seed of %d shows it", planted_faults.name(_i), SEEDS);
}
END_TEST

/* ---- packing ---- */

/* Rows and columns about a panel and a tile, groups of 32. */
START_TEST(threads_that_pack_change_nothing)
{
	static const int sizes[][2] = {{1, 1}, {7, 33}, {8, 32}, {9, 64}, {70, 576}};
	static uint8_t values[70 * 576 * 4], data[2][80 * 576 * 4], scales[2][80 * 18 * 4];
	static uint16_t group_scales[70 * 18];
	static float row_scales[70];

	for (int i = 0; i < (int)sizeof values; i++)
		values[i] = (uint8_t)(i % 16);
	for (int i = 0; i < 70 * 18; i++)
		group_scales[i] = (uint16_t)i;
	for (int i = 0; i < 70; i++)
		row_scales[i] = (float)i;
	for (int i = 0; i < 5; i++) {
		struct host_matrix m = {
			(enum weight_format)_i, sizes[i][0], sizes[i][1], 32, values, row_scales, group_scales, NULL};
		struct weight_sizes s;
		CHECK_OK(weight_pack_sizes(&m, 1, &s, &test_error));
		ck_assert(s.data <= sizeof data[0] && s.scales <= sizeof scales[0]);
		for (int shared = 0; shared < 2; shared++) {
			memset(data[shared], 0xee, s.data);
			memset(scales[shared], 0xee, s.scales);
			m.threads = shared ? thread_pool_new(3, &test_error) : NULL;
			weight_pack_write(&m, data[shared], scales[shared]);
			thread_pool_delete(m.threads);
		}
		ck_assert_mem_eq(data[0], data[1], s.data);
		ck_assert_int_eq(memcmp(scales[0], scales[1], s.scales), 0);
	}
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *packing = test_case(suite, "packing", 0);
	tcase_add_loop_test(packing, threads_that_pack_change_nothing, WEIGHT_F32, WEIGHT_INT4 + 1);

	TCase *shim = test_case(suite, "shim", 0);
	tcase_add_loop_test(shim, notices_faults, 0, shim_case_count);
	tcase_add_loop_test(shim, notices_missing_barriers, 0, BARRIER_CASES);

	TCase *kernels = test_case(suite, "kernels", 120);
	tcase_add_loop_test(kernels, rmsnorm_against_reference, 0, rmsnorm_cases.count);
	tcase_add_loop_test(kernels, linear_against_reference, 0, linear_cases.count);
	tcase_add_loop_test(kernels, input_against_reference, 0, input_cases.count);
	tcase_add_loop_test(kernels, head_linear_against_reference, 0, head_linear_cases.count);
	tcase_add_loop_test(kernels, experts_against_reference, 0, experts_cases.count);
	tcase_add_loop_test(kernels, notices_planted, 0, planted_faults.count);
	tcase_add_loop_test(kernels, attend_against_reference, 0, attend_cases.count);
	tcase_add_loop_test(kernels, rows_against_reference, 0, rows_cases.count);
	tcase_add_loop_test(kernels, route_against_reference, 0, route_cases.count);
	tcase_add_loop_test(kernels, logits_against_reference, 0, logits_cases.count);
	tcase_add_loop_test(kernels, qkv_against_reference, 0, qkv_cases.count);
	tcase_add_loop_test(kernels, pages_against_reference, 0, page_cases.count);
	tcase_add_loop_test(kernels, latent_against_reference, 0, latent_cases.count);
}
