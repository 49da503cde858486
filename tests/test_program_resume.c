/* A run that was killed, interrupted or out of room goes on where it stopped; nothing is served from the answers of
 * another model or variant. */
#include <sched.h>
#include <sys/mount.h>
#include <time.h>

#include "engine/base/rng.h"
#include "tests/program_store.h"

const char *const test_program_name = "program_resume";

enum { ANSWERS = 2 * (6 + 6 + 6) };

#define TWO_VARIANTS(...)                                                                                        \
	{                                                                                                        \
		"run", "--limit", "6", "--variant", "bf16/bf16", "--variant", "int4/fp8", "--kv-memory", "8MiB", \
			"--db", __VA_ARGS__                                                                      \
	}

static void pause_ms(double ms)
{
	struct timespec t = {(time_t)(ms / 1000), (long)(ms * 1e6) % 1000000000};
	nanosleep(&t, NULL);
}

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void run_complete(const struct call *c)
{
	struct outcome o = program_run(c);
	expect_exit(&o, 0);
	outcome_free(&o);
}

/* The run that nothing disturbs, in a database of its own. */
static struct buf undisturbed(const char *folder)
{
	const char *db = path_in(folder, "calm.db");
	run_complete(&(struct call){.arguments = TWO_VARIANTS(db)});
	ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM sample"), ANSWERS);
	return answers(db, 1);
}

/* Answers in a database that may not be there yet. */
static int64_t answers_so_far(const char *db)
{
	sqlite3 *handle = NULL;
	sqlite3_stmt *count = NULL;
	int64_t n = 0;
	if (sqlite3_open_v2(db, &handle, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
		sqlite3_prepare_v2(handle, "SELECT count(*) FROM sample", -1, &count, NULL) == SQLITE_OK &&
		sqlite3_step(count) == SQLITE_ROW)
		n = sqlite3_column_int64(count, 0);
	sqlite3_finalize(count);
	sqlite3_close(handle);
	return n;
}

static bool has_ended(pid_t pid)
{
	siginfo_t info = {0};
	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* Waits until that many answers are stored, or the program has ended. */
static void wait_for_answers(const struct program *p, const char *db, int64_t n)
{
	double end = now_ms() + PROGRAM_SECONDS * 1e3;
	while (answers_so_far(db) < n && !has_ended(p->pid)) {
		ck_assert(now_ms() < end);
		pause_ms(3);
	}
}

static void expect_status(const char *db, const char *status)
{
	struct outcome o = RUN("list", "--db", db, "--json");
	expect_exit(&o, 0);
	struct json_document *document = parse(buf_str(&o.out));
	ck_assert_msg(str_is(json_path(json_root(document), "runs/0/status")->text, status), "%s", buf_text(&o.out));
	json_free(document);
	outcome_free(&o);
}

/* ---- Kill ---- */

enum { KILLS = 10, IN_THE_MIDDLE = 4, MOST_ROUNDS = 40 };

/* One start that is killed at a random moment: soon after the start, or with a random number of further answers. False
 * when it ended by itself before. */
static bool run_and_kill(const char *db, struct py_random *random)
{
	struct program p = program_start(&(struct call){.arguments = TWO_VARIANTS(db)});
	if (py_random_below(random, 4) > 0)
		wait_for_answers(&p, db, answers_so_far(db) + 1 + (int64_t)py_random_below(random, 6));
	pause_ms((double)py_random_below(random, 30000) * 1e-3);
	kill(p.pid, SIGKILL);
	struct outcome o = program_wait(p);
	bool killed = o.exit_code == -SIGKILL;
	if (!killed)
		expect_exit(&o, 0);
	outcome_free(&o);
	return killed;
}

/* With all answers a killed run may have been complete. */
static bool is_complete(const char *db)
{
	return answers_so_far(db) == ANSWERS && sql_int(db, "SELECT count(*) FROM run WHERE status = 'complete'") == 1;
}

/* Kills and restarts until the run is complete or there were kills enough, and enough of them between answers. */
static void kill_often(const char *db, struct py_random *random, int *kills, int *in_the_middle)
{
	while ((*kills < KILLS || *in_the_middle < IN_THE_MIDDLE) && !is_complete(db)) {
		*kills += run_and_kill(db, random);
		int64_t n = answers_so_far(db);
		if (n == 0 || n == ANSWERS)
			continue;
		expect_status(db, "interrupted");
		(*in_the_middle)++;
	}
}

START_TEST(killed_at_ten_moments)
{
	char name[16];
	const char *folder = scratch_folder();
	struct buf calm = undisturbed(folder);
	struct py_random random;
	int kills = 0, in_the_middle = 0;
	py_random_seed(&random, 20240601);
	for (int round = 0; (kills < KILLS || in_the_middle < IN_THE_MIDDLE) && round < MOST_ROUNDS; round++) {
		snprintf(name, sizeof(name), "%d.db", round);
		const char *db = path_in(folder, name);
		kill_often(db, &random, &kills, &in_the_middle);
		if (!is_complete(db))
			run_complete(&(struct call){.arguments = TWO_VARIANTS(db)});
		struct buf rows = answers(db, 1);
		expect_same(&rows, &calm); /* none lost, none doubled, none changed */
		expect_sql(db, "SELECT count(*), min(status), max(status) FROM run", "1|complete|complete\n");
		expect_sql(db, "PRAGMA integrity_check", "ok\n");
		buf_free(&rows);
	}
	ck_assert_int_ge(kills, KILLS);
	ck_assert_int_ge(in_the_middle, IN_THE_MIDDLE);
	buf_free(&calm);
}
END_TEST

/* ---- Ctrl-C ---- */

/* Starts the run and stops it after its first answers. One that was past its middle before it was looked at, on a
 * machine busy with something else, is started anew in an empty database. */
static struct program start_and_catch(const char *db, int64_t n)
{
	static const char *const suffixes[] = {"", "-wal", "-shm", "-lock"};
	for (int attempt = 0; attempt < 20; attempt++) {
		struct program p = program_start(&(struct call){.arguments = TWO_VARIANTS(db)});
		wait_for_answers(&p, db, n);
		kill(p.pid, SIGSTOP);
		if (!has_ended(p.pid) && answers_so_far(db) <= ANSWERS / 2)
			return p;
		kill(p.pid, SIGKILL);
		struct outcome o = program_wait(p);
		outcome_free(&o);
		for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
			char path[4096];
			snprintf(path, sizeof(path), "%s%s", db, suffixes[i]);
			unlink(path);
		}
	}
	ck_abort_msg("the run always ends before it can be stopped");
}

static void interrupt(const char *db, int signal_number)
{
	struct program p = start_and_catch(db, 3);
	kill(p.pid, signal_number);
	kill(p.pid, SIGCONT);
	struct outcome o = program_wait(p);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.err), "goes on where it stopped"));
	expect_exit(&o, 130);
	ck_assert_uint_eq(o.out.length, 0);
	outcome_free(&o);
}

START_TEST(interrupted)
{
	const int signals[] = {SIGINT, SIGTERM};
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db");
	struct buf calm = undisturbed(folder);
	interrupt(db, signals[_i]);
	int64_t before = answers_so_far(db);
	ck_assert_int_lt(before, ANSWERS);
	expect_status(db, "interrupted");
	/* "no result" stands where a suite has answers and was not finished: between two suites there is none */
	int64_t unfinished = sql_int(db,
		"SELECT count(*) FROM (SELECT variant_id, suite FROM sample EXCEPT "
		"SELECT variant_id, suite FROM suite_result)");
	struct outcome o = RUN("show", "latest", "--db", db);
	expect_exit(&o, 0);
	ck_assert_int_eq(strstr(buf_text(&o.out), "no result") != NULL, unfinished > 0);
	outcome_free(&o);
	o = program_run(&(struct call){.arguments = TWO_VARIANTS(db)});
	expect_exit(&o, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.err), "run 1 goes on in "));
	outcome_free(&o);
	struct buf rows = answers(db, 1);
	expect_same(&rows, &calm);
	expect_sql(db, "SELECT status, resumptions FROM run", "complete|1\n");
	/* the counters of both processes, and what was in flight when the first one stopped */
	expect_sql(db,
		"SELECT count(*), sum(json_extract(facts, '$.kv.computed') + json_extract(facts, '$.kv.cached') > 0), "
		"sum(json_extract(facts, '$.kv.generated') >= (SELECT sum(generated_tokens) FROM sample WHERE "
		"sample.variant_id = variant.variant_id)) FROM variant",
		"2|2|2\n");
	buf_free(&rows);
	buf_free(&calm);
}
END_TEST

/* A job that a shell starts in the background ignores SIGINT; Ctrl-C is to reach it nevertheless. */
START_TEST(interrupted_though_ignored)
{
	const char *db = path_in(scratch_folder(), "a.db");
	signal(SIGINT, SIG_IGN);
	interrupt(db, SIGINT);
	signal(SIGINT, SIG_DFL);
}
END_TEST

/* ---- Two at once ---- */

/* Whether somebody holds the right to write. */
static bool is_locked(const char *db)
{
	sqlite3 *handle = NULL;
	ck_assert_int_eq(sqlite3_open_v2(db, &handle, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	bool locked = sqlite3_exec(handle, "BEGIN IMMEDIATE; ROLLBACK", NULL, NULL, NULL) != SQLITE_OK;
	sqlite3_close(handle);
	return locked;
}

/* Stops it, however slow the machine is, where it does not write just now. */
static void stop_between_answers(const struct program *p, const char *db)
{
	for (;;) {
		ck_assert_int_eq(kill(p->pid, SIGSTOP), 0);
		pause_ms(10);
		if (!is_locked(db))
			return;
		kill(p->pid, SIGCONT);
		pause_ms(1);
	}
}

START_TEST(two_at_once)
{
	char writer[64];
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db");
	struct buf calm = undisturbed(folder);
	struct program first = start_and_catch(db, 1);
	kill(first.pid, SIGCONT);
	stop_between_answers(&first, db);
	snprintf(writer, sizeof(writer), "process %d", (int)first.pid);
	EXPECT_FAILURE(program_run(&(struct call){.arguments = TWO_VARIANTS(db)}), 4, db, writer);
	expect_status(db, "running");
	/* Another configuration has a run of its own beside it. */
	struct outcome o = RUN("run", "--limit", "1", "--suite", "recall", "--db", db);
	expect_exit(&o, 0);
	outcome_free(&o);
	kill(first.pid, SIGCONT);
	o = program_wait(first);
	expect_exit(&o, 0);
	outcome_free(&o);
	struct buf rows = answers(db, 1);
	expect_same(&rows, &calm);
	expect_sql(db, "SELECT run_id, status FROM run", "1|complete\n2|complete\n");
	buf_free(&rows);
	buf_free(&calm);
}
END_TEST

/* Two configurations write one database at the same time. */
START_TEST(two_configurations_at_once)
{
	const char *db = path_in(scratch_folder(), "a.db");
	const char *const variants[] = {"bf16/bf16", "fp8/fp8"};
	struct program p[2];
	for (int i = 0; i < 2; i++)
		p[i] = program_start(&(struct call){.arguments = {"run", "--limit", "8", "--suite", "recall,arc_easy",
							    "--threads", "1", "--variant", variants[i], "--db", db}});
	for (int i = 0; i < 2; i++) {
		struct outcome o = program_wait(p[i]);
		expect_exit(&o, 0);
		outcome_free(&o);
	}
	expect_sql(db,
		"SELECT name, run.status, count(*) FROM run JOIN variant USING (run_id) JOIN sample USING (variant_id) "
		"GROUP BY name",
		"bf16/bf16|complete|16\nfp8/fp8|complete|16\n");
}
END_TEST

/* ---- What goes on with what ---- */

START_TEST(complete_runs_are_not_gone_on_with)
{
	const char *db = path_in(scratch_folder(), "a.db");
	run_complete(&(struct call){.arguments = TWO_VARIANTS(db)});
	run_complete(&(struct call){.arguments = TWO_VARIANTS(db)});
	expect_sql(db,
		"SELECT run_id, run.status, resumptions, count(*) FROM run JOIN sample USING (run_id) GROUP BY run_id",
		"1|complete|0|36\n2|complete|0|36\n");
	struct buf first = answers(db, 1), second = answers(db, 2);
	expect_same(&second, &first); /* computed again, and no bit differs */
	buf_free(&first);
	buf_free(&second);
}
END_TEST

#define ONE_SHOT(model, db, ...)                                                                            \
	{                                                                                                   \
		"run", "--suite", "gsm8k", "--fewshot", "1", "--limit", "12", "--model", model, "--db", db, \
			__VA_ARGS__                                                                         \
	}

/* Leaves a run with some of its twelve answers. */
static void interrupt_one_shot(const char *db)
{
	struct program p = program_start(&(struct call){.arguments = ONE_SHOT(POCKET, db, "--max-requests", "1")});
	wait_for_answers(&p, db, 3);
	kill(p.pid, SIGKILL);
	struct outcome o = program_wait(p);
	expect_exit(&o, -SIGKILL);
	outcome_free(&o);
}

/* What is changed between two calls, and whether the second may go on with the first. */
static const struct {
	const char *name;
	const char *options[4];
	bool resumes;
} other_cases[] = {
	{"threads", {"--threads", "1"}, true},
	{"ranks", {"--tp", "2"}, true},
	{"batch", {"--max-batch-tokens", "64", "--chunk", "8"}, true},
	{"page size", {"--page-size", "32", "--kv-memory", "4MiB"}, true},
	{"variant", {"--variant", "bf16/fp8"}, false},
	{"one more variant", {"--variant", "bf16/bf16", "--variant", "fp8/fp8"}, false},
	{"seed of the shots", {"--seed", "7"}, false},
	{"shots", {"--fewshot", "0"}, false},
	{"limit", {"--limit", "11"}, false},
	{"one more suite", {"--suite", "arc_easy"}, false},
};

START_TEST(another_configuration)
{
	const char *db = path_in(scratch_folder(), "a.db"), *const *more = other_cases[_i].options;
	interrupt_one_shot(db);
	int64_t before = answers_so_far(db);
	run_complete(&(struct call){.arguments = ONE_SHOT(POCKET, db, more[0], more[1], more[2], more[3])});
	ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM run"), other_cases[_i].resumes ? 1 : 2);
	if (!other_cases[_i].resumes)
		ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM sample WHERE run_id = 1"), before);
}
END_TEST

/* ---- Another model is another run ---- */

static void flip_last_byte(const char *folder)
{
	const char *path = path_in(folder, "model.safetensors");
	struct buf text = test_read_file(path);
	text.data[text.length - 1] = (char)(text.data[text.length - 1] ^ 1);
	overwrite(path, text.data, text.length);
	buf_free(&text);
}

static void change_rope(const char *folder)
{
	file_change(path_in(folder, "config.json"), "10000.0", "20000.0");
}

static void change_end_tokens(const char *folder)
{
	file_change(path_in(folder, "generation_config.json"), "\"eos_token_id\"",
		"\"temperature\": 1.0, \"eos_token_id\"");
}

static void change_tokenizer(const char *folder)
{
	file_change(path_in(folder, "tokenizer.json"), "{", "{ ");
}

static const struct {
	const char *name;
	void (*change)(const char *folder);
	bool resumes;
} model_cases[] = {
	{"the same model elsewhere", NULL, true},
	{"one byte of a weight", flip_last_byte, false},
	{"config.json", change_rope, false},
	{"generation_config.json", change_end_tokens, false},
	{"tokenizer.json", change_tokenizer, false},
};

START_TEST(another_model)
{
	const char *copy = pocket_copy(), *db = path_in(scratch_folder(), "a.db");
	interrupt_one_shot(db);
	if (model_cases[_i].change)
		model_cases[_i].change(copy);
	run_complete(&(struct call){.arguments = ONE_SHOT(copy, db, NULL)});
	ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM run"), model_cases[_i].resumes ? 1 : 2);
	ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM sample WHERE run_id = (SELECT max(run_id) FROM run)"), 12);
}
END_TEST

/* Answers of one variant or model never stand for those of another: each is computed, and agrees with a fresh
 * database. */
START_TEST(nothing_is_served_from_other_rows)
{
	const char *copy = pocket_copy(), *folder = scratch_folder();
	const char *shared = path_in(folder, "shared.db"), *fresh = path_in(folder, "fresh.db");
	run_complete(&(struct call){.arguments = {"run", "--suite", "arc_easy", "--limit", "20", "--db", shared}});
	change_rope(copy);
	for (int i = 0; i < 2; i++)
		run_complete(&(struct call){
			.arguments = {"run", "--suite", "arc_easy", "--limit", "20", "--model", copy, "--variant",
				"bf16/bf16", "--variant", "bf16/fp8", "--db", i ? fresh : shared}});
	struct buf first = answers(shared, 1), second = answers(shared, 2), alone = answers(fresh, 1);
	expect_same(&second, &alone);
	expect_sql(
		shared, "SELECT count(DISTINCT response) > 40 FROM sample", "1\n"); /* three sets of answers, not one */
	ck_assert(!str_starts_with(buf_str(&second), buf_str(&first)));
	buf_free(&first);
	buf_free(&second);
	buf_free(&alone);
}
END_TEST

/* The data changed under an interrupted run: another document means another run, never a mixture. */
START_TEST(changed_data)
{
	const char *data = scratch_folder(), *db = path_in(data, "a.db");
	struct buf items = test_read_file(path_in(POCKET_DATA, "recall/test.jsonl"));
	const char *path = test_write_file("recall/test.jsonl", items.data, items.length);
	for (int i = 0; i < 2; i++) {
		struct program p =
			program_start(&(struct call){.arguments = {"run", "--data", data, "--suite", "recall",
							     "--limit", "40", "--db", db, "--max-requests", "1"}});
		wait_for_answers(&p, db, i ? 1000 : 3);
		kill(p.pid, SIGKILL);
		struct outcome o = program_wait(p);
		expect_exit(&o, i ? 0 : -SIGKILL);
		outcome_free(&o);
		file_change(path, "Codes: Ida glass lion", "Codes: Ida paper lion");
	}
	expect_sql(db, "SELECT count(*) FROM run", "2\n");
	expect_sql(db, "SELECT count(*) FROM sample WHERE run_id = 2", "40\n");
	buf_free(&items);
}
END_TEST

/* ---- A full disk ---- */

/* A file system of that size for this process alone; NULL: the system does not allow it. */
static const char *small_disk(const char *size)
{
	char options[64];
	const char *folder = scratch_folder();
	snprintf(options, sizeof(options), "size=%s", size);
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
		mount("none", folder, "tmpfs", 0, options) != 0)
		return NULL;
	return folder;
}

START_TEST(full_disk)
{
	const char *folder = small_disk("128k");
	if (!folder)
		SKIP("no small file system may be mounted: %s", strerror(errno));
	struct buf calm = undisturbed(scratch_folder());
	const char *db = path_in(folder, "a.db");
	EXPECT_FAILURE(program_run(&(struct call){.arguments = TWO_VARIANTS(db)}), 4, db, "disk is full");
	int64_t before = answers_so_far(db);
	ck_assert_int_lt(before, ANSWERS);
	ck_assert_int_eq(mount("none", folder, "tmpfs", MS_REMOUNT, "size=16m"), 0);
	run_complete(&(struct call){.arguments = TWO_VARIANTS(db)});
	struct buf rows = answers(db, 1);
	expect_same(&rows, &calm);
	expect_sql(db, "SELECT count(*), min(status) FROM run", "1|complete\n");
	umount2(folder, MNT_DETACH);
	buf_free(&rows);
	buf_free(&calm);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *stopped = test_case(suite, "stopped", 120);
	tcase_add_test(stopped, killed_at_ten_moments);
	tcase_add_loop_test(stopped, interrupted, 0, 2);
	tcase_add_test(stopped, interrupted_though_ignored);
	tcase_add_test(stopped, two_at_once);
	tcase_add_test(stopped, two_configurations_at_once);
	tcase_add_test(stopped, full_disk);

	TCase *identity = test_case(suite, "identity", 60);
	tcase_add_test(identity, complete_runs_are_not_gone_on_with);
	tcase_add_loop_test(identity, another_configuration, 0, COUNT(other_cases));
	tcase_add_loop_test(identity, another_model, 0, COUNT(model_cases));
	tcase_add_test(identity, nothing_is_served_from_other_rows);
	tcase_add_test(identity, changed_data);
}
