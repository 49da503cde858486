/* The result store on files and disks that are not as they should be: a clear error, and nothing stored is lost. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/store_fixture.h"

const char *const test_program_name = "store_faults";

/* ---- A disk that fails when it is told to ---- */

struct faulty_file {
	sqlite3_file base;
	sqlite3_file *real; /* lies behind this struct */
};

static sqlite3_vfs *real_vfs;
static int writes_allowed = -1; /* then every write fails; -1: none does */
static int write_failure;       /* SQLite's code */
static bool no_shared_memory;

static sqlite3_file *real_of(sqlite3_file *file)
{
	return ((struct faulty_file *)file)->real;
}

static bool write_fails(void)
{
	if (writes_allowed < 0)
		return false;
	if (writes_allowed == 0)
		return true;
	writes_allowed--;
	return false;
}

static int faulty_close(sqlite3_file *f)
{
	return real_of(f)->pMethods->xClose(real_of(f));
}

static int faulty_read(sqlite3_file *f, void *out, int n, sqlite3_int64 offset)
{
	return real_of(f)->pMethods->xRead(real_of(f), out, n, offset);
}

static int faulty_write(sqlite3_file *f, const void *bytes, int n, sqlite3_int64 offset)
{
	return write_fails() ? write_failure : real_of(f)->pMethods->xWrite(real_of(f), bytes, n, offset);
}

static int faulty_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	return real_of(f)->pMethods->xTruncate(real_of(f), size);
}

static int faulty_sync(sqlite3_file *f, int flags)
{
	(void)f;
	(void)flags; /* no power is lost here */
	return SQLITE_OK;
}

static int faulty_size(sqlite3_file *f, sqlite3_int64 *size)
{
	return real_of(f)->pMethods->xFileSize(real_of(f), size);
}

static int faulty_lock(sqlite3_file *f, int level)
{
	return real_of(f)->pMethods->xLock(real_of(f), level);
}

static int faulty_unlock(sqlite3_file *f, int level)
{
	return real_of(f)->pMethods->xUnlock(real_of(f), level);
}

static int faulty_check_lock(sqlite3_file *f, int *out)
{
	return real_of(f)->pMethods->xCheckReservedLock(real_of(f), out);
}

static int faulty_control(sqlite3_file *f, int operation, void *argument)
{
	return real_of(f)->pMethods->xFileControl(real_of(f), operation, argument);
}

static int faulty_sector(sqlite3_file *f)
{
	return real_of(f)->pMethods->xSectorSize(real_of(f));
}

static int faulty_device(sqlite3_file *f)
{
	return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f));
}

static int faulty_map(sqlite3_file *f, int page, int size, int extend, void volatile **out)
{
	return real_of(f)->pMethods->xShmMap(real_of(f), page, size, extend, out);
}

static int faulty_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
	return real_of(f)->pMethods->xShmLock(real_of(f), offset, n, flags);
}

static void faulty_barrier(sqlite3_file *f)
{
	real_of(f)->pMethods->xShmBarrier(real_of(f));
}

static int faulty_unmap(sqlite3_file *f, int delete_it)
{
	return real_of(f)->pMethods->xShmUnmap(real_of(f), delete_it);
}

static const sqlite3_io_methods faulty_methods = {
	.iVersion = 2,
	.xClose = faulty_close,
	.xRead = faulty_read,
	.xWrite = faulty_write,
	.xTruncate = faulty_truncate,
	.xSync = faulty_sync,
	.xFileSize = faulty_size,
	.xLock = faulty_lock,
	.xUnlock = faulty_unlock,
	.xCheckReservedLock = faulty_check_lock,
	.xFileControl = faulty_control,
	.xSectorSize = faulty_sector,
	.xDeviceCharacteristics = faulty_device,
	.xShmMap = faulty_map,
	.xShmLock = faulty_shm_lock,
	.xShmBarrier = faulty_barrier,
	.xShmUnmap = faulty_unmap,
};

static int faulty_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags)
{
	static sqlite3_io_methods without_shm;
	struct faulty_file *f = (struct faulty_file *)file;
	(void)vfs;
	f->real = (sqlite3_file *)(f + 1);
	int result = real_vfs->xOpen(real_vfs, name, f->real, flags, out_flags);
	without_shm = faulty_methods;
	without_shm.iVersion = 1;
	f->base.pMethods = f->real->pMethods ? (no_shared_memory ? &without_shm : &faulty_methods) : NULL;
	return result;
}

/* From now on every database of this process lies on that disk. */
static void use_faulty_disk(void)
{
	static sqlite3_vfs faulty;
	if (real_vfs)
		return;
	real_vfs = sqlite3_vfs_find(NULL);
	faulty = *real_vfs;
	faulty.zName = "faulty";
	faulty.szOsFile = real_vfs->szOsFile + (int)sizeof(struct faulty_file);
	faulty.xOpen = faulty_open;
	ck_assert_int_eq(sqlite3_vfs_register(&faulty, 1), SQLITE_OK);
}

/* ---- Full disk ---- */

enum { DOCUMENTS = 12 };

/* A run that stops at its first error; *stored counts the samples that were reported as stored. */
static int small_run(const char *path, int *stored, struct error *e)
{
	static char said[6000]; /* longer than a page */
	memset(said, 'x', sizeof(said));
	said[0] = said[sizeof(said) - 1] = '"';
	struct store_run run = fixture_run("c");
	struct store_variant variant = fixture_variant("bf16/bf16");
	struct store *s = NULL;
	int64_t run_id = 0;
	int64_t variant_id = 0;
	bool resumed = false;
	int status = 0;
	*stored = 0;
	TRY_CLEANUP(status, store_open(path, &s, e));
	TRY_CLEANUP(status, store_run_begin(s, &run, &run_id, &resumed, e));
	TRY_CLEANUP(status, store_variant_add(s, &variant, &variant_id, e));
	for (int i = 0; i < DOCUMENTS; i++) {
		struct store_sample x = fixture_sample(variant_id, i);
		enum store_answered answered = STORE_CHANGED;
		x.response = (struct str){said, sizeof(said)};
		TRY_CLEANUP(status, store_sample_answered(s, variant_id, x.suite, x.task, i, "d0", "p0", &answered, e));
		if (answered == STORE_NEW)
			TRY_CLEANUP(status, store_sample_insert(s, &x, e));
		++*stored;
	}
	struct store_result result = {variant_id, "gsm8k", NULL, "exact_match,strict-match", DOCUMENTS, 1, 0};
	TRY_CLEANUP(status, store_suite_result_put(s, &result, e));
	TRY_CLEANUP(status, store_run_finish(s, RUN_COMPLETE, e));
cleanup:
	store_close(s);
	return status;
}

static int64_t stored_samples(const char *path)
{
	sqlite3 *db = NULL;
	sqlite3_stmt *statement = NULL;
	int64_t n = 0;
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_prepare_v2(db, "SELECT count(*) FROM sample", -1, &statement, NULL) == SQLITE_OK &&
		sqlite3_step(statement) == SQLITE_ROW)
		n = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	ck_assert_int_eq(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &statement, NULL), SQLITE_OK);
	ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
	ck_assert_str_eq((const char *)sqlite3_column_text(statement, 0), "ok");
	sqlite3_finalize(statement);
	sqlite3_close(db);
	return n;
}

/* The disk fails at the first write, then at the second, … until a run comes to its end without a failure. */
static void fail_at_every_write(int failure, int code, const char *says)
{
	use_faulty_disk();
	write_failure = failure;
	int failed = 0;
	for (int allowed = 0;; allowed++) {
		char path[4096];
		snprintf(path, sizeof(path), "%s", fixture_path("x.db"));
		int stored = 0;
		struct error e = {0};
		writes_allowed = allowed;
		int status = small_run(path, &stored, &e);
		writes_allowed = -1;
		if (status < 0) {
			failed++;
			ck_assert_msg(status == code && strstr(e.message, says) && strstr(e.message, path),
				"write %d: %d: %s", allowed, status, e.message);
			ck_assert_msg(stored_samples(path) == stored, "write %d: %d reported", allowed, stored);
			int again = 0;
			CHECK_OK(small_run(path, &again, &test_error)); /* there is room again: it goes on */
		}
		ck_assert_int_eq(stored_samples(path), DOCUMENTS);
		ck_assert_int_eq(fixture_facts(path, 0).n, 1);
		ck_assert_int_eq(fixture_facts(path, 0).status, RUN_COMPLETE);
		if (status == 0 && writes_allowed < 0 && allowed > failed + 20)
			break; /* later ones fall into the clean-up when the file is closed */
		ck_assert_int_lt(allowed, 2000);
	}
	ck_assert_int_ge(failed, 40);
}

START_TEST(disk_full_at_every_write)
{
	fail_at_every_write(SQLITE_FULL, ERR_STORE, "the disk is full");
}
END_TEST

START_TEST(disk_broken_at_every_write)
{
	fail_at_every_write(SQLITE_IOERR_WRITE, ERR_IO, "disk I/O error");
}
END_TEST

START_TEST(no_write_ahead_log)
{
	use_faulty_disk();
	no_shared_memory = true;
	struct store *s = NULL;
	struct error e = {0};
	ck_assert_int_eq(store_open(fixture_path("x.db"), &s, &e), ERR_STORE);
	ck_assert_ptr_null(s);
	ck_assert_msg(strstr(e.message, "write-ahead logging") != NULL, "%s", e.message);
	no_shared_memory = false;
}
END_TEST

/* The system's own answers, on a file system of 300 KiB. */
START_TEST(small_file_system)
{
	char folder[4096];
	char path[4200];
	snprintf(folder, sizeof(folder), "%s", scratch_folder());
	snprintf(path, sizeof(path), "%s/x.db", folder);
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		SKIP("no mount namespace: %s", strerror(errno));
	if (mount("tmpfs", folder, "tmpfs", 0, "size=300k") != 0)
		SKIP("no tmpfs: %s", strerror(errno));
	struct error e = {0};
	int64_t stored = 0;
	struct store *s = fixture_open(path);
	fixture_begin(s, "c", false);
	int64_t variant = fixture_add_variant(s, "bf16/bf16");
	int status = 0;
	for (; status == 0; stored += status == 0) {
		struct store_sample x = fixture_sample(variant, stored);
		status = store_sample_insert(s, &x, &e);
		ck_assert_int_lt(stored, 10000);
	}
	ck_assert_int_eq(status, ERR_STORE);
	ck_assert_msg(strstr(e.message, "the disk is full") != NULL, "%s", e.message);
	store_close(s);
	ck_assert_int_eq(stored_samples(path), stored);

	/* No room at all, not even for the shared memory of the log. */
	char other[4200];
	snprintf(other, sizeof(other), "%s/y.db", folder);
	int fill = open(other, O_WRONLY | O_CREAT, 0600);
	static const char zeros[4096];
	while (write(fill, zeros, sizeof(zeros)) > 0)
		continue;
	close(fill);
	snprintf(other, sizeof(other), "%s/z.db", folder);
	ck_assert_int_eq(store_open(other, &s, &e), ERR_STORE);
	ck_assert_msg(strstr(e.message, "the disk is full") != NULL, "%s", e.message);
	umount2(folder, MNT_DETACH);
}
END_TEST

/* ---- Files that are no store of ours ---- */

static void run_sql(const char *path, const char *sql)
{
	sqlite3 *db = NULL;
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	ck_assert_msg(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
	sqlite3_close(db);
}

/* Neither way of opening accepts the file, and it stays as it is. */
static void check_refused(const char *path, int code, const char *says)
{
	struct buf before = test_read_file(path);
	struct store *s = NULL;
	struct error e = {0};
	ck_assert_msg(store_open(path, &s, &e) == code, "%s: %d: %s", path, e.code, e.message);
	ck_assert_msg(strstr(e.message, says) && strstr(e.message, path), "'%s' lacks '%s'", e.message, says);
	ck_assert_ptr_null(s);
	ck_assert_msg(store_open_reading(path, &s, &e) == code, "%s: %d: %s", path, e.code, e.message);
	ck_assert_msg(strstr(e.message, says) != NULL, "'%s' lacks '%s'", e.message, says);
	ck_assert_ptr_null(s);
	struct buf after = test_read_file(path);
	ck_assert(str_equal(buf_str(&before), buf_str(&after)));
	buf_free(&before);
	buf_free(&after);
}

START_TEST(newer_version)
{
	const char *path = fixture_path("x.db");
	store_close(fixture_open(path));
	run_sql(path, "PRAGMA user_version = 7");
	check_refused(path, ERR_INPUT, "schema version 7, newer than version 2 of this program");
	run_sql(path, "PRAGMA user_version = -1");
	check_refused(path, ERR_INPUT, "schema version -1");
}
END_TEST

START_TEST(another_programs_database)
{
	const char *path = fixture_path("x.db");
	run_sql(path, "CREATE TABLE run (x)");
	check_refused(path, ERR_INPUT, "database of another program (application id 0, expected 1098085241)");
	run_sql(path, "PRAGMA application_id = 42");
	check_refused(path, ERR_INPUT, "application id 42");
	const char *second = fixture_path("y.db");
	run_sql(second, "PRAGMA user_version = 1");
	check_refused(second, ERR_INPUT, "database of another program");
}
END_TEST

START_TEST(not_a_database)
{
	char noise[8192];
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (char)(i * 7919 >> 3);
	static const char text[] = "{\"question\": \"What is this?\"}\n";
	static const char almost[] = "SQLite format 3";
	scratch_folder();
	check_refused(test_write_file("noise.db", noise, sizeof(noise)), ERR_INPUT, "is not a database");
	check_refused(test_write_file("text.db", text, sizeof(text) - 1), ERR_INPUT, "is not a database");
	check_refused(test_write_file("byte.db", "x", 1), ERR_INPUT, "is not a database");
	check_refused(test_write_file("almost.db", almost, sizeof(almost)), ERR_INPUT, "is not a database");
}
END_TEST

START_TEST(not_a_file)
{
	struct store *s = NULL;
	struct error e = {0};
	char path[4096];
	snprintf(path, sizeof(path), "%s", scratch_folder());
	ck_assert_int_eq(store_open(path, &s, &e), ERR_MISSING);
	ck_assert_ptr_nonnull(strstr(e.message, "is a folder, expected a database file"));
	ck_assert_int_eq(store_open_reading(path, &s, &e), ERR_MISSING);
	ck_assert_int_eq(store_open("", &s, &e), ERR_USAGE);
	ck_assert_int_eq(store_open("/dev/null", &s, &e), ERR_MISSING);
	snprintf(path, sizeof(path), "%s", fixture_path("fifo"));
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(store_open(path, &s, &e), ERR_MISSING);
	ck_assert_ptr_nonnull(strstr(e.message, "not a regular file"));
	snprintf(path, sizeof(path), "%s", fixture_path("absent.db"));
	ck_assert_int_eq(store_open_reading(path, &s, &e), ERR_MISSING);
	ck_assert_ptr_nonnull(strstr(e.message, "No such file"));
	ck_assert_int_ne(access(path, F_OK), 0);
	snprintf(path, sizeof(path), "%s/x.db", test_write_file("plain", "x", 1));
	ck_assert_int_eq(store_open(path, &s, &e), ERR_IO);
	ck_assert_ptr_nonnull(strstr(e.message, "Not a directory"));
}
END_TEST

/* An empty file is nothing to read yet. */
START_TEST(empty_file_has_nothing)
{
	scratch_folder();
	const char *path = test_write_file("empty.db", "", 0);
	struct store *s = NULL;
	struct error e = {0};
	ck_assert_int_eq(store_open_reading(path, &s, &e), ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(e.message, "schema version 0, expected 2"));
	ck_assert_ptr_null(s);
}
END_TEST

static int read_everything(const char *path, struct error *e)
{
	struct store *s = NULL;
	struct buf out = {0};
	struct fixture_run_facts facts = {0};
	int status = store_open_reading(path, &s, e);
	if (status == 0)
		status = store_runs_each(s, 0, fixture_take_run, &facts, e);
	if (status == 0)
		status = store_samples_each(s, 1, 0, NULL, fixture_append_sample, &out, e);
	buf_free(&out);
	store_close(s);
	return status;
}

/* Damage in every page, and a file cut anywhere: an error or the right rows, never a crash. */
START_TEST(damaged)
{
	const char *good = fixture_path("x.db");
	struct store *s = fixture_open(good);
	fixture_begin(s, "c", false);
	int64_t variant = fixture_add_variant(s, "bf16/bf16");
	for (int i = 0; i < 200; i++) {
		struct store_sample x = fixture_sample(variant, i);
		CHECK_OK(store_sample_insert(s, &x, &test_error));
	}
	store_close(s);
	struct buf file = test_read_file(good);
	int refused = 0;
	for (size_t at = 4096; at < file.length; at += 1024) {
		struct buf bad = {0};
		struct error e = {0};
		buf_append_str(&bad, buf_str(&file));
		memset(bad.data + at, 0xff, 256);
		const char *path = test_write_file("damaged.db", bad.data, bad.length);
		int status = read_everything(path, &e);
		ck_assert_msg(status == 0 || status == ERR_STORE || status == ERR_INPUT, "at %zu: %s", at, e.message);
		refused += status < 0;
		if (status == 0) {
			int64_t run_id = 0;
			bool resumed = false;
			struct store_run run = fixture_run("d");
			if (store_open(path, &s, &e) == 0)
				store_run_begin(s, &run, &run_id, &resumed, &e);
			store_close(s);
		}
		buf_free(&bad);
	}
	ck_assert_int_ge(refused, 10);
	for (size_t length = 1; length < file.length; length += 1531) {
		struct error e = {0};
		const char *path = test_write_file("cut.db", file.data, length);
		ck_assert_msg(read_everything(path, &e) < 0, "cut at %zu", length);
	}
	buf_free(&file);
}
END_TEST

START_TEST(damage_is_named)
{
	const char *path = fixture_path("x.db");
	store_close(fixture_open(path));
	struct buf file = test_read_file(path);
	memset(file.data + 100, 0xff, 50); /* the schema's own page */
	struct error e = {0};
	ck_assert_int_eq(read_everything(test_write_file("bad.db", file.data, file.length), &e), ERR_STORE);
	ck_assert_msg(strstr(e.message, "the database is damaged") != NULL, "%s", e.message);
	buf_free(&file);
}
END_TEST

/* A file that says it is ours and holds other tables. */
START_TEST(missing_tables)
{
	const char *path = fixture_path("x.db");
	run_sql(path, "PRAGMA application_id = 1098085241; PRAGMA user_version = 2; CREATE TABLE run (x)");
	struct error e = {0};
	ck_assert_int_eq(read_everything(path, &e), ERR_STORE);
	ck_assert_msg(strstr(e.message, "could not read its schema: no such column") != NULL, "%s", e.message);
}
END_TEST

/* ---- Permissions ---- */

enum { NOBODY = 65534 };

/* Runs check in a child without root's rights; it returns what is wrong, or NULL. */
static void as_nobody(const char *(*check)(const char *), const char *argument)
{
	pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
			_exit(77);
		const char *wrong = check(argument);
		if (wrong)
			fprintf(stderr, "%s\n", wrong);
		_exit(wrong ? 1 : 0);
	}
	int status = 0;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		SKIP("cannot become another user");
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
}

/* A folder that everybody may enter, whatever lies above it: the scratch folder is private. */
static const char *open_folder(void)
{
	const char *folder = scratch_folder();
	for (char *path = strdup(folder); path;) {
		if (strstr(path, "assay-test-") == NULL) {
			free(path);
			break;
		}
		ck_assert_int_eq(chmod(path, 0755), 0);
		*strrchr(path, '/') = '\0';
	}
	return folder;
}

static const char *expect_failure(const char *path, bool reading, int code, const char *says)
{
	static char wrong[8192];
	struct store *s = NULL;
	struct error e = {0};
	int status = reading ? store_open_reading(path, &s, &e) : store_open(path, &s, &e);
	store_close(s);
	if (status == code && strstr(e.message, says))
		return NULL;
	snprintf(wrong, sizeof(wrong), "%s: status %d '%s', expected %d '%s'", path, status, e.message, code, says);
	return wrong;
}

static const char *check_new_file(const char *path)
{
	return expect_failure(path, false, ERR_IO, "Permission denied");
}

static const char *check_read_only_file(const char *path)
{
	return expect_failure(path, false, ERR_IO, "read-only");
}

static const char *check_secret_file(const char *path)
{
	const char *wrong = expect_failure(path, false, ERR_IO, "Permission denied");
	return wrong ? wrong : expect_failure(path, true, ERR_MISSING, "Permission denied");
}

static const char *check_readable(const char *path)
{
	static struct error e;
	return read_everything(path, &e) == 0 ? NULL : e.message;
}

START_TEST(no_permission)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/x.db", open_folder());
	as_nobody(check_new_file, path); /* the folder is another's */
	char below[4200];
	snprintf(below, sizeof(below), "%s.d/new/x.db", path);
	as_nobody(check_new_file, below);

	store_close(fixture_open(path));
	ck_assert_int_eq(chmod(path, 0444), 0);
	as_nobody(check_read_only_file, path);
	/* It can be read where neither it nor its folder can be written. */
	as_nobody(check_readable, path);
	ck_assert_int_eq(chmod(path, 0), 0);
	as_nobody(check_secret_file, path);
}
END_TEST

/* A process that writes the file until it is killed: this one has no connection that its children would inherit. */
static pid_t start_writer(const char *path)
{
	int ends[2];
	char byte;
	ck_assert_int_eq(pipe(ends), 0);
	pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		struct store *s = NULL;
		struct store_run run = fixture_run("c");
		int64_t run_id = 0;
		bool resumed = false;
		if (store_open(path, &s, NULL) < 0 || store_run_begin(s, &run, &run_id, &resumed, NULL) < 0 ||
			write(ends[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	ck_assert_int_eq(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	close(ends[1]);
	return child;
}

static const char *check_running(const char *path)
{
	return fixture_facts(path, 0).status == RUN_RUNNING ? NULL : "not running";
}

static const char *check_interrupted(const char *path)
{
	return fixture_facts(path, 0).status == RUN_INTERRUPTED ? NULL : "not interrupted";
}

/* The same beside a writer at work, and beside what a killed one leaves: its log and shared memory can be read. */
START_TEST(no_permission_beside_a_writer)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/100%%?#.db", open_folder());
	pid_t writer = start_writer(path);
	as_nobody(check_running, path);
	ck_assert_int_eq(kill(writer, SIGKILL), 0);
	ck_assert_int_eq(waitpid(writer, NULL, 0), writer);
	as_nobody(check_interrupted, path);
	store_close(fixture_open(path));
	as_nobody(check_interrupted, path);
}
END_TEST

/* The file may be written, its folder not: no log can be made. */
START_TEST(folder_without_permission)
{
	const char *folder = open_folder();
	char path[4096];
	snprintf(path, sizeof(path), "%s/x.db", folder);
	store_close(fixture_open(path));
	ck_assert_int_eq(chmod(path, 0666), 0);
	ck_assert_int_eq(chmod(folder, 0555), 0);
	as_nobody(check_new_file, path);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *disk = test_case(suite, "disk", 300);
	tcase_add_test(disk, disk_full_at_every_write);
	tcase_add_test(disk, disk_broken_at_every_write);
	tcase_add_test(disk, no_write_ahead_log);
	tcase_add_test(disk, small_file_system);

	TCase *refused = test_case(suite, "refused", 60);
	tcase_add_test(refused, newer_version);
	tcase_add_test(refused, another_programs_database);
	tcase_add_test(refused, not_a_database);
	tcase_add_test(refused, not_a_file);
	tcase_add_test(refused, empty_file_has_nothing);
	tcase_add_test(refused, damaged);
	tcase_add_test(refused, damage_is_named);
	tcase_add_test(refused, missing_tables);

	TCase *permission = test_case(suite, "permission", 0);
	tcase_add_test(permission, no_permission);
	tcase_add_test(permission, no_permission_beside_a_writer);
	tcase_add_test(permission, folder_without_permission);
}
