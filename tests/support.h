/* What every test program shares: a main, the folder of the shared goldens, skipping, small comparisons. */
#ifndef ASSAY_TESTS_SUPPORT_H
#define ASSAY_TESTS_SUPPORT_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/error.h"

/* Each test program defines this: it adds its cases to the suite. support.c has main. */
extern const char *const test_program_name;
void test_program_cases(Suite *suite);

/* Whether this is a build with sanitizers, which is up to ten times as slow: tests of many like cases take fewer of them. */
bool test_build_is_slow(void);

/* One Check test case (TCase) with its name; timeout in seconds, 0 for 30; 8 times as long in a build with sanitizers. */
TCase *test_case(Suite *suite, const char *name, double timeout);

/* The path of a file below the shared folder (-Dshared_dir=), NULL when that file is absent: then SKIP. Strings that
 * this file hands out live until the program ends. */
const char *shared_path(const char *relative);

/* The path of a file below tests/golden/ in the source tree: always there. */
const char *golden_path(const char *relative);

/* A fresh empty folder at each call, removed with all in it when the test program ends. */
const char *scratch_folder(void);

/* Ends the running test as skipped, with a reason. A loop test (tcase_add_loop_test) skips that one round. */
#define SKIP(...)                       \
	do {                            \
		test_skip(__VA_ARGS__); \
		return;                 \
	} while (0)
void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The call succeeds; else the test fails and shows the message of test_error. */
#define CHECK_OK(call)                                                                                            \
	do {                                                                                                      \
		int check_status_ = (call);                                                                       \
		ck_assert_msg(check_status_ >= 0, "%s: status %d: %s", #call, check_status_, test_error.message); \
	} while (0)
/* The error object that tests hand to calls under CHECK_OK: `CHECK_OK(file_read(path, &b, &test_error))`. */
extern struct error test_error;

/* Reads a whole file or fails the test. The buffer is freed by the caller. */
struct buf test_read_file(const char *path);

/* Writes bytes to a file below the newest scratch folder of this test (the first call makes one) and returns its path.
 * name may hold folders: they are made. */
const char *test_write_file(const char *name, const void *bytes, size_t length);

#endif
