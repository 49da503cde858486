/* Runs a command of the program in the test's own process. */
#ifndef ASSAY_TESTS_COMMAND_H
#define ASSAY_TESTS_COMMAND_H

#include <stdio.h>
#include <unistd.h>

#include "evals/cli.h"
#include "tests/support.h"

/* What the command prints on standard output; the caller frees it. Its exit code must be exit_code; *test_error holds
 * its message. */
static inline struct buf command_output(command_function *command, const struct options *o, int exit_code)
{
	const char *path = test_write_file("stdout", "", 0);
	fflush(stdout);
	int kept = dup(STDOUT_FILENO);
	ck_assert_ptr_nonnull(freopen(path, "w", stdout));
	int status = command(o, &test_error);
	fflush(stdout);
	dup2(kept, STDOUT_FILENO);
	close(kept);
	ck_assert_msg(status == exit_code, "exit code %d: %s", status, test_error.message);
	return test_read_file(path);
}

#endif
