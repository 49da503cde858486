#include "tests/support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SLOW_BUILD 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || __has_feature(thread_sanitizer)
#define SLOW_BUILD 1
#endif
#endif
#ifndef SLOW_BUILD
#define SLOW_BUILD 0
#endif

struct error test_error;

/* Check runs each test in a process of its own, so a skip is written to a file that parent and children share. */
static int skip_file = -1;
static bool test_was_skipped; /* of the running test */

static char scratch_root[4096];
static const char *scratch_newest; /* of the running test */

/* Every string handed out by this file; kept until the program ends, so that fixtures may hold them too. */
static char **kept_strings;
static size_t kept_count;

static void die(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", test_program_name, what, strerror(errno));
	exit(1);
}

static const char *keep_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *keep_printf(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	char *text = NULL;
	if (vasprintf(&text, format, arguments) < 0)
		die("vasprintf");
	va_end(arguments);
	char **grown = realloc(kept_strings, (kept_count + 1) * sizeof(*grown));
	if (!grown)
		die("realloc");
	kept_strings = grown;
	kept_strings[kept_count++] = text;
	return text;
}

static void keep_free(void)
{
	for (size_t i = 0; i < kept_count; i++)
		free(kept_strings[i]);
	free(kept_strings);
}

static void test_begin(void)
{
	test_was_skipped = false;
	scratch_newest = NULL;
	memset(&test_error, 0, sizeof(test_error));
}

TCase *test_case(Suite *suite, const char *name, double timeout)
{
	TCase *tcase = tcase_create(name);
	if (timeout > 0)
		tcase_set_timeout(tcase, timeout);
	tcase_add_checked_fixture(tcase, test_begin, NULL);
	suite_add_tcase(suite, tcase);
	return tcase;
}

const char *shared_path(const char *relative)
{
	const char *path = keep_printf("%s/%s", SHARED_DIR, relative);
	return access(path, F_OK) == 0 ? path : NULL;
}

const char *golden_path(const char *relative)
{
	return keep_printf("%s/tests/golden/%s", SOURCE_DIR, relative);
}

void test_skip(const char *format, ...)
{
	if (test_was_skipped)
		return;
	test_was_skipped = true;

	char line[512];
	int used = snprintf(line, sizeof(line), "skipped: %s: ", tcase_name());
	va_list arguments;
	va_start(arguments, format);
	if (used > 0 && (size_t)used < sizeof(line))
		vsnprintf(line + used, sizeof(line) - (size_t)used, format, arguments);
	va_end(arguments);

	for (char *c = line; *c; c++)
		if (*c == '\n')
			*c = ' ';
	size_t length = strnlen(line, sizeof(line) - 1);
	line[length++] = '\n';
	/* One write to a file opened for appending: lines of children never mix. */
	if (write(skip_file, line, length) != (ssize_t)length)
		die("the record of skipped tests");
}

const char *scratch_folder(void)
{
	char *path = (char *)(uintptr_t)keep_printf("%s/XXXXXX", scratch_root);
	if (!mkdtemp(path))
		ck_abort_msg("%s: cannot make a folder: %s", path, strerror(errno));
	scratch_newest = path;
	return path;
}

struct buf test_read_file(const char *path)
{
	struct buf content = {0};
	FILE *file = fopen(path, "rb");
	ck_assert_msg(file != NULL, "%s: cannot open: %s", path, strerror(errno));
	char block[65536];
	size_t n;
	while ((n = fread(block, 1, sizeof(block), file)) > 0)
		buf_append(&content, block, n);
	ck_assert_msg(!ferror(file), "%s: cannot read: %s", path, strerror(errno));
	fclose(file);
	ck_assert_msg(!content.failed, "%s: out of memory", path);
	return content;
}

/* Makes the folders between the scratch folder and the file. */
static void make_parents(const char *path, size_t from)
{
	char *copy = strdup(path);
	ck_assert_ptr_nonnull(copy);
	for (char *slash = strchr(copy + from, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		ck_assert_msg(mkdir(copy, 0700) == 0 || errno == EEXIST, "%s: cannot make a folder: %s", copy,
			strerror(errno));
		*slash = '/';
	}
	free(copy);
}

const char *test_write_file(const char *name, const void *bytes, size_t length)
{
	const char *folder = scratch_newest ? scratch_newest : scratch_folder();
	const char *path = keep_printf("%s/%s", folder, name);
	make_parents(path, strlen(folder) + 1);
	FILE *file = fopen(path, "wb");
	ck_assert_msg(file != NULL, "%s: cannot open: %s", path, strerror(errno));
	size_t written = length ? fwrite(bytes, 1, length, file) : 0;
	ck_assert_msg(fclose(file) == 0 && written == length, "%s: cannot write: %s", path, strerror(errno));
	return path;
}

/* Tests may leave folders without permission behind: it is given back on the way. */
static void remove_tree(const char *path)
{
	struct stat status;
	if (lstat(path, &status) != 0)
		return;
	if (!S_ISDIR(status.st_mode)) {
		unlink(path);
		return;
	}
	chmod(path, 0700);
	DIR *folder = opendir(path);
	for (struct dirent *entry; folder && (entry = readdir(folder));) {
		char *child = NULL;
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (asprintf(&child, "%s/%s", path, entry->d_name) < 0)
			die("asprintf");
		remove_tree(child);
		free(child);
	}
	if (folder)
		closedir(folder);
	rmdir(path);
}

static void open_scratch(void)
{
	const char *parent = getenv("TMPDIR");
	if (!parent || !*parent)
		parent = "/tmp";
	int length = snprintf(scratch_root, sizeof(scratch_root), "%s/assay-test-XXXXXX", parent);
	if (length < 0 || (size_t)length >= sizeof(scratch_root) || !mkdtemp(scratch_root))
		die(scratch_root);

	const char *path = keep_printf("%s/skips", scratch_root);
	skip_file = open(path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	if (skip_file < 0)
		die(path);
	unlink(path);
}

/* Prints each reason once with its count of rounds, returns the number of skips. */
static int report_skips(void)
{
	FILE *file = lseek(skip_file, 0, SEEK_SET) == 0 ? fdopen(skip_file, "r") : NULL;
	if (!file)
		die("the record of skipped tests");
	char line[512];
	char last[512] = "";
	int count = 0;
	int repeated = 0;
	bool more = true;
	while (more) {
		more = fgets(line, sizeof(line), file) != NULL;
		if (more) {
			count++;
			line[strcspn(line, "\n")] = '\0';
			if (repeated && strcmp(line, last) == 0) {
				repeated++;
				continue;
			}
		}
		if (repeated > 1)
			printf("%s (%d times)\n", last, repeated);
		else if (repeated == 1)
			printf("%s\n", last);
		memcpy(last, line, sizeof(last));
		repeated = 1;
	}
	fclose(file);
	return count;
}

/* For a summary over many programs: "passed failed skipped" in one line. */
static void append_results(int passed, int failed, int skipped)
{
	const char *path = getenv("ASSAY_TEST_RESULTS");
	if (!path || !*path)
		return;
	int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (file < 0 || dprintf(file, "%d %d %d\n", passed, failed, skipped) < 0)
		die(path);
	close(file);
}

bool test_build_is_slow(void)
{
	return SLOW_BUILD;
}

int main(void)
{
	/* Check's 4 seconds are too few on a loaded machine; sanitizers cost up to this factor. */
	setenv("CK_DEFAULT_TIMEOUT", "30", 0);
	if (SLOW_BUILD)
		setenv("CK_TIMEOUT_MULTIPLIER", "8", 0);
	open_scratch();

	Suite *suite = suite_create(test_program_name);
	test_program_cases(suite);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int run = srunner_ntests_run(runner);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);

	int skipped = report_skips();
	/* A test that failed after its skip (a leak found at exit) is a failure only. */
	if (skipped > run - failed)
		skipped = run - failed;
	int passed = run - failed - skipped;
	printf("%s: %d passed, %d failed, %d skipped\n", test_program_name, passed, failed, skipped);
	append_results(passed, failed, skipped);
	remove_tree(scratch_root);
	keep_free();
	return failed > 0;
}
