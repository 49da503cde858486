/* Memory of a guard's books: zeros, side by side, at the start of lines of the caches. */
#include <stdint.h>

#include "integrity/guard_memory.h"
#include "tests/support.h"

const char *const test_program_name = "guard_memory";

static const struct {
	const char *name;
	size_t first, second; /* elements of 8 bytes */
	int blocks;           /* after both were taken */
} takes[] = {
	{"nothing", 0, 0, 0},
	{"one, and room for one", 1, 1, 1},
	{"a block that is full", 512, 1, 2},
	{"a block that nearly is", 504, 8, 1},
	{"more than the rest", 504, 9, 2},
	{"a large page, and room in it", 20000, 20000, 1},
	{"more than a large page", 300000, 1, 1},
	{"a small block, then large ones", 10, 600000, 2},
};

START_TEST(arrays_are_zeros_and_apart)
{
	struct guard_memory m = {0};
	uint64_t *a, *b, *c;
	const struct guard_array first[] = {{(void **)&a, takes[_i].first, 8}};
	const struct guard_array second[] = {{(void **)&b, takes[_i].second, 8}, {(void **)&c, 0, 8}};

	CHECK_OK(guard_memory_take(&m, first, 1, &test_error));
	for (size_t i = 0; i < takes[_i].first; i++) {
		ck_assert_uint_eq(a[i], 0);
		a[i] = UINT64_MAX;
	}
	CHECK_OK(guard_memory_take(&m, second, 2, &test_error));
	for (size_t i = 0; i < takes[_i].second; i++) {
		ck_assert_uint_eq(b[i], 0);
		b[i] = 1;
	}
	for (size_t i = 0; i < takes[_i].first; i++)
		ck_assert_uint_eq(a[i], UINT64_MAX);
	ck_assert_uint_eq((uintptr_t)a % 64, 0);
	ck_assert_uint_eq((uintptr_t)b % 64, 0);
#ifndef __SANITIZE_ADDRESS__ /* which has gaps between the arrays */
	ck_assert_int_eq(m.n_blocks, takes[_i].blocks);
#endif
	guard_memory_free(&m);
	ck_assert_int_eq(m.n_blocks, 0);
}
END_TEST

START_TEST(too_much_is_refused)
{
	static const struct {
		size_t count, size;
	} cases[] = {{SIZE_MAX, 8}, {SIZE_MAX / 8, 8}, {(size_t)1 << 60, 1}, {1, SIZE_MAX}};
	struct guard_memory m = {0};
	struct error e = {0};
	void *memory;

	ck_assert_int_eq(guard_memory_take(&m, &(struct guard_array){&memory, cases[_i].count, cases[_i].size}, 1, &e),
		ERR_MEMORY);
	ck_assert_int_eq(m.n_blocks, 0);
	guard_memory_free(&m);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *memory = test_case(suite, "memory", 0);

	tcase_add_loop_test(memory, arrays_are_zeros_and_apart, 0, sizeof takes / sizeof *takes);
	tcase_add_loop_test(memory, too_much_is_refused, 0, 4);
}
