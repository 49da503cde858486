/* The result store with several processes: killed, resumed, at once. */
#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/store_fixture.h"

const char *const test_program_name = "store_writers";

enum { DOCUMENTS = 800 };

/* ---- Children ---- */

/* In a child: what failed goes to stderr, for Check's macros would end the child as if it were the test. */
static void child_fail(const char *what, const struct error *e)
{
	fprintf(stderr, "child: %s: %s\n", what, e->message);
	_exit(90);
}

static struct store *child_open(const char *path)
{
	struct store *s = NULL;
	struct error e = {0};
	if (store_open(path, &s, &e) < 0)
		child_fail("open", &e);
	return s;
}

/* Answers what is not answered yet, as a run does. Rows with an even id are about as long as a page of the file. */
static void answer_documents(struct store *s, int64_t variant, int first, int end, struct error *e)
{
	static char said[3000];
	memset(said, 'x', sizeof(said));
	said[0] = said[sizeof(said) - 1] = '"';
	for (int i = first; i < end; i++) {
		struct store_sample x = fixture_sample(variant, i);
		enum store_answered answered = STORE_CHANGED;
		if (i % 2 == 0)
			x.response = (struct str){said, sizeof(said)};
		if (store_sample_answered(s, variant, x.suite, x.task, i, x.doc_hash, x.prompt_hash, &answered, e) < 0)
			child_fail("answered", e);
		if (answered == STORE_NEW && store_sample_insert(s, &x, e) < 0)
			child_fail("insert", e);
	}
}

/* A whole run of one configuration; returns the child's exit status. */
static int run_to_the_end(const char *path, const char *config, int documents)
{
	struct error e = {0};
	struct store *s = child_open(path);
	struct store_run run = fixture_run(config);
	int64_t run_id = 0;
	bool resumed = false;
	if (store_run_begin(s, &run, &run_id, &resumed, &e) < 0) {
		store_close(s);
		return strstr(e.message, "is being written by process") ? 91 : 92;
	}
	struct store_variant variant = fixture_variant("bf16/bf16");
	int64_t variant_id = 0;
	if (store_variant_add(s, &variant, &variant_id, &e) < 0)
		child_fail("variant", &e);
	answer_documents(s, variant_id, 0, documents, &e);
	if (store_run_finish(s, RUN_COMPLETE, &e) < 0)
		child_fail("finish", &e);
	store_close(s);
	return 0;
}

static pid_t start_run(const char *path, const char *config, int documents)
{
	pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0)
		_exit(run_to_the_end(path, config, documents));
	return child;
}

static int wait_for(pid_t child)
{
	int status = 0;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int64_t count_rows(const char *path, const char *table)
{
	sqlite3 *db = NULL;
	sqlite3_stmt *statement = NULL;
	char sql[200];
	snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table);
	ck_assert_int_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
	ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
	int64_t n = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	ck_assert_int_eq(sqlite3_exec(db, "PRAGMA integrity_check", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	return n;
}

/* ---- Killed ---- */

static struct buf undisturbed_rows(void)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s", fixture_path("undisturbed.db"));
	ck_assert_int_eq(wait_for(start_run(path, "c", DOCUMENTS)), 0);
	struct store *s = fixture_open(path);
	struct buf rows = fixture_samples(s, 1);
	store_close(s);
	return rows;
}

START_TEST(killed_and_resumed)
{
	struct buf expected = undisturbed_rows();
	char path[4096];
	snprintf(path, sizeof(path), "%s", fixture_path("killed.db"));
	unsigned seed = 20240817;
	int kills = 0;
	/* From the moment the file is made to the end, again and again until a child comes to the end. */
	for (;;) {
		pid_t child = start_run(path, "c", DOCUMENTS);
		struct timespec pause = {0, (long)(1000 + rand_r(&seed) % (kills < 30 ? 15000 : 400000)) * 1000};
		nanosleep(&pause, NULL);
		kill(child, SIGKILL);
		int status = wait_for(child);
		if (status == 0)
			break;
		ck_assert_int_eq(status, 128 + SIGKILL);
		kills++;
		if (access(path, F_OK) != 0)
			continue;
		struct store *s = fixture_open(path); /* it opens after every kill, and shows what it is */
		store_close(s);
		struct fixture_run_facts facts = fixture_facts(path, 0);
		ck_assert_int_le(facts.n, 1);
		if (facts.n && facts.status == RUN_COMPLETE)
			break; /* killed between its last write and its exit */
		if (facts.n)
			ck_assert_int_eq(facts.status, RUN_INTERRUPTED);
		ck_assert_int_lt(kills, 3000);
	}
	ck_assert_int_ge(kills, 5);
	ck_assert_int_eq(fixture_facts(path, 0).status, RUN_COMPLETE);
	ck_assert_int_eq(count_rows(path, "sample"), DOCUMENTS);
	struct store *s = fixture_open(path);
	struct buf rows = fixture_samples(s, 1);
	store_close(s);
	ck_assert_str_eq(buf_text(&rows), buf_text(&expected));
	buf_free(&rows);
	buf_free(&expected);
}
END_TEST

/* Nothing that was reported as stored is lost by a kill. */
START_TEST(acknowledged_rows_stay)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s", fixture_path("x.db"));
	int pipe_ends[2];
	ck_assert_int_eq(pipe(pipe_ends), 0);
	pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		struct error e = {0};
		struct store *s = child_open(path);
		struct store_run run = fixture_run("c");
		struct store_variant variant = fixture_variant("v");
		int64_t run_id = 0;
		int64_t variant_id = 0;
		bool resumed = false;
		if (store_run_begin(s, &run, &run_id, &resumed, &e) < 0 ||
			store_variant_add(s, &variant, &variant_id, &e) < 0)
			child_fail("begin", &e);
		for (int i = 0;; i++) {
			answer_documents(s, variant_id, i, i + 1, &e);
			if (write(pipe_ends[1], "x", 1) != 1)
				_exit(1);
		}
	}
	close(pipe_ends[1]);
	int64_t acknowledged = 0;
	char byte;
	for (; acknowledged < 50; acknowledged++)
		ck_assert_int_eq(read(pipe_ends[0], &byte, 1), 1);
	ck_assert_int_eq(fixture_facts(path, 1).status, RUN_RUNNING);
	ck_assert_int_eq(fixture_facts(path, 1).pid, child);
	kill(child, SIGKILL);
	ck_assert_int_eq(wait_for(child), 128 + SIGKILL);
	while (read(pipe_ends[0], &byte, 1) == 1)
		acknowledged++;
	close(pipe_ends[0]);
	ck_assert_int_eq(fixture_facts(path, 1).status, RUN_INTERRUPTED);
	int64_t stored = count_rows(path, "sample");
	ck_assert_int_ge(stored, acknowledged);
	ck_assert_int_le(stored, acknowledged + 1);
}
END_TEST

/* ---- At once ---- */

/* A run that another process writes cannot be begun, whatever the file is called; one of another configuration can. */
START_TEST(second_writer_refused)
{
	char path[4096];
	char link[4096];
	snprintf(path, sizeof(path), "%s", fixture_path("x.db"));
	snprintf(link, sizeof(link), "%s", fixture_path("link.db"));
	ck_assert_int_eq(symlink(path, link), 0);
	struct store *s = fixture_open(path);
	int64_t mine = fixture_begin(s, "c", false);
	int64_t variant = fixture_add_variant(s, "bf16/bf16");

	struct store *other = fixture_open(link);
	struct store_run run = fixture_run("c");
	struct error e = {0};
	int64_t run_id = 0;
	bool resumed = false;
	ck_assert_int_eq(store_run_begin(other, &run, &run_id, &resumed, &e), ERR_STORE);
	char wanted[100];
	snprintf(wanted, sizeof(wanted), "run %" PRId64 " of this configuration is being written by process %d", mine,
		(int)getpid());
	ck_assert_msg(strstr(e.message, wanted) != NULL, "%s", e.message);
	ck_assert_int_eq(run_id, 0);
	ck_assert_int_eq(wait_for(start_run(path, "c", 1)), 91);
	ck_assert_int_eq(wait_for(start_run(link, "c", 1)), 91);
	ck_assert_int_eq(wait_for(start_run(path, "d", 1)), 0);

	/* The refused one may begin another, and this one when it is given back. */
	fixture_begin(other, "e", false);
	CHECK_OK(store_run_finish(other, RUN_COMPLETE, &test_error));
	struct store_sample x = fixture_sample(variant, 0);
	CHECK_OK(store_sample_insert(s, &x, &test_error));
	store_close(s);
	ck_assert_int_eq(fixture_begin(other, "c", true), mine);
	store_close(other);
	ck_assert_int_eq(count_rows(path, "run"), 3);
}
END_TEST

/* Many processes make the file and begin the same run at once: one gets it. */
START_TEST(all_begin_at_once)
{
	enum { CHILDREN = 6 };
	char path[4096];
	snprintf(path, sizeof(path), "%s", fixture_path("new/x.db"));
	pid_t children[CHILDREN];
	int done = 0;
	for (int i = 0; i < CHILDREN; i++)
		children[i] = start_run(path, "c", 300);
	for (int i = 0; i < CHILDREN; i++) {
		int status = wait_for(children[i]);
		ck_assert_msg(status == 0 || status == 91, "child %d: %d", i, status);
		done += status == 0;
	}
	ck_assert_int_ge(done, 1);
	/* One that came when the first had finished has begun a run of its own. */
	ck_assert_int_eq(count_rows(path, "run"), done);
	ck_assert_int_eq(count_rows(path, "sample"), 300 * done);
}
END_TEST

/* Runs of several configurations write one file at once, and readers look on. */
START_TEST(runs_side_by_side)
{
	static const char *const configs[] = {"a", "b", "c", "d"};
	enum { CHILDREN = 4 };
	char path[4096];
	snprintf(path, sizeof(path), "%s", fixture_path("x.db"));
	pid_t children[CHILDREN];
	for (int i = 0; i < CHILDREN; i++)
		children[i] = start_run(path, configs[i], DOCUMENTS);
	for (int i = 0; i < 20; i++) {
		struct store *s = NULL;
		struct error e = {0};
		int status = store_open_reading(path, &s, &e);
		if (status == 0) {
			struct fixture_run_facts facts = {0};
			CHECK_OK(store_runs_each(s, 0, fixture_take_run, &facts, &test_error));
			struct buf rows = fixture_samples(s, 1);
			struct buf again = fixture_samples(s, 1);
			ck_assert_str_eq(buf_text(&rows), buf_text(&again)); /* a reader sees one moment */
			buf_free(&rows);
			buf_free(&again);
		} else {
			ck_assert_msg(status == ERR_MISSING || status == ERR_INPUT, "%s", e.message); /* not made yet */
		}
		store_close(s);
		usleep(2000);
	}
	for (int i = 0; i < CHILDREN; i++)
		ck_assert_int_eq(wait_for(children[i]), 0);
	ck_assert_int_eq(count_rows(path, "run"), CHILDREN);
	ck_assert_int_eq(count_rows(path, "sample"), CHILDREN * DOCUMENTS);
	ck_assert_int_eq(count_rows(path, "run WHERE status = 'complete'"), CHILDREN);
}
END_TEST

/* Another program holds the file's write lock: an error that says so, after a while. */
START_TEST(locked_by_another)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s", fixture_path("x.db"));
	struct store *s = fixture_open(path);
	sqlite3 *db = NULL;
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	struct store_run run = fixture_run("c");
	struct error e = {0};
	int64_t run_id = 0;
	bool resumed = false;
	ck_assert_int_eq(store_run_begin(s, &run, &run_id, &resumed, &e), ERR_STORE);
	ck_assert_msg(strstr(e.message, "locked by another process for 5 seconds") != NULL, "%s", e.message);
	ck_assert_int_eq(fixture_facts(path, 0).n, 0); /* readers are not kept out */
	sqlite3_close(db);
	fixture_begin(s, "c", false);
	store_close(s);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *killed = test_case(suite, "killed", 300);
	tcase_add_test(killed, killed_and_resumed);
	tcase_add_test(killed, acknowledged_rows_stay);

	TCase *at_once = test_case(suite, "at once", 120);
	tcase_add_test(at_once, second_writer_refused);
	tcase_add_loop_test(at_once, all_begin_at_once, 0, 5);
	tcase_add_test(at_once, runs_side_by_side);
	tcase_add_test(at_once, locked_by_another);
}
