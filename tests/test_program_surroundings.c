/* Streams that are closed or full, missing permission, other locales, options out of range: an exit code and a message
 * that names what was wrong, and the same bytes wherever the program runs. */
#include <locale.h>
#include <sys/resource.h>

#include "tests/program_store.h"
#include "tests/tiny_model.h"

const char *const test_program_name = "program_surroundings";

#define ONE_PAIR "{\"context\": [1], \"continuation\": [2]}\n"

/* ---- Streams ---- */

static const struct {
	const char *name, *arguments[8];
} printing_commands[] = {
	{"run", {"run", "--limit", "1", "--suite", "recall", "--db", "@"}},
	{"run --json", {"run", "--limit", "1", "--suite", "recall", "--json", "--db", "@"}},
	{"run --dry-run", {"run", "--dry-run", "--db", "@"}},
	{"list", {"list", "--suites"}},
	{"tokenize", {"tokenize", POCKET_DATA "/gsm8k/test.jsonl"}},
	{"logprobs", {"logprobs"}},
	{"generate", {"generate", "--prompt", "a", "--max-tokens", "2"}},
	{"prompts", {"prompts", "--suite", "gsm8k", "--hashes"}},
	{"rescore", {"rescore", "--suite", "filters", SOURCE_DIR "/tests/golden/suites/filters.jsonl"}},
	{"help", {"--help"}},
	{"version", {"--version"}},
};

static struct call printing_call(int i, const char *db)
{
	struct call c = {.input = str_of(ONE_PAIR)};
	for (int a = 0; a < COUNT(printing_commands[i].arguments) && printing_commands[i].arguments[a]; a++)
		c.arguments[a] =
			strcmp(printing_commands[i].arguments[a], "@") == 0 ? db : printing_commands[i].arguments[a];
	return c;
}

/* A result that nobody got is no success. */
START_TEST(nowhere_to_write)
{
	const char *folder = scratch_folder();
	struct call c = printing_call(_i, path_in(folder, "a.db"));
	c.results = open("/dev/full", O_WRONLY | O_CLOEXEC);
	EXPECT_FAILURE(program_run(&c), 4, "standard output");
	close(c.results);
	c = printing_call(_i, path_in(folder, "b.db"));
	c.closed = 1u << STDOUT_FILENO;
	EXPECT_FAILURE(program_run(&c), 4, "standard output");
}
END_TEST

/* Messages that nobody reads change no result, and go to no file that is opened later. */
START_TEST(no_stderr)
{
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db");
	struct call c = printing_call(_i, db);
	struct outcome with = program_run(&c);
	c = printing_call(_i, path_in(folder, "b.db"));
	c.closed = 1u << STDERR_FILENO;
	struct outcome without = program_run(&c);
	expect_exit(&with, 0);
	expect_exit(&without, 0);
	ck_assert_uint_eq(without.err.length, 0);
	ck_assert_uint_gt(without.out.length, 0);
	if (strcmp(printing_commands[_i].name, "run") == 0)
		expect_sql(path_in(folder, "b.db"), "PRAGMA integrity_check", "ok\n");
	else if (!strstr(printing_commands[_i].name, "run"))
		ck_assert_str_eq(buf_text(&without.out), buf_text(&with.out));
	outcome_free(&with);
	outcome_free(&without);
}
END_TEST

START_TEST(no_stdin)
{
	static const char *const commands[][4] = {
		{"tokenize"}, {"logprobs"}, {"generate", "--prompts", "-"}, {"rescore", "--suite", "filters", "-"}};
	for (int i = 0; i < COUNT(commands); i++)
		EXPECT_FAILURE(program_run(&(struct call){
				       .arguments = {commands[i][0], commands[i][1], commands[i][2], commands[i][3]},
				       .closed = 1u << STDIN_FILENO}),
			4, "standard input: ");
	struct outcome o = program_run(&(struct call){
		.arguments = {"run", "--limit", "1", "--suite", "recall", "--db", path_in(scratch_folder(), "a.db")},
		.closed = 1u << STDIN_FILENO});
	expect_exit(&o, 0);
	outcome_free(&o);
	o = program_run(&(struct call){.arguments = {"list", "--suites"}, .closed = 7});
	expect_exit(&o, 4);
	outcome_free(&o);
}
END_TEST

/* The writing end of a pipe whose reader has gone. */
static int broken_pipe(void)
{
	int ends[2];
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	close(ends[0]);
	return ends[1];
}

/* `| head`: the reader went away, which is its right. A run is complete nevertheless. */
START_TEST(reader_goes_away)
{
	const char *db = path_in(scratch_folder(), "a.db");
	int nobody = broken_pipe();
	struct call c = printing_call(_i, db);
	c.results = nobody;
	struct outcome o = program_run(&c);
	expect_exit(&o, 0);
	outcome_free(&o);
	c.results = 0;
	c.messages = nobody;
	o = program_run(&c);
	expect_exit(&o, 0);
	outcome_free(&o);
	close(nobody);
	if (access(db, F_OK) == 0)
		expect_sql(db, "SELECT status FROM run", "complete\ncomplete\n");
}
END_TEST

/* Input that comes in pieces through a pipe. */
START_TEST(input_from_a_pipe)
{
	const char *folder = scratch_folder(), *pipe_name = path_in(folder, "pipe");
	ck_assert_int_eq(mkfifo(pipe_name, 0600), 0);
	struct program p = program_start(&(struct call){.arguments = {"tokenize", "--ids", pipe_name}});
	int pipe = open(pipe_name, O_WRONLY | O_CLOEXEC);
	static const char *const pieces[] = {"To", "m h", "as\nT", "om"};
	for (int i = 0; i < COUNT(pieces); i++) {
		ck_assert_int_eq(write(pipe, pieces[i], strlen(pieces[i])), (ssize_t)strlen(pieces[i]));
		usleep(2000);
	}
	close(pipe);
	expect_output(program_wait(p), "87 393 285\n87 393\n");
}
END_TEST

/* ---- Permissions ---- */

/* Somebody else may pass through the scratch folders. */
static const char *open_folder(void)
{
	const char *folder = scratch_folder();
	char parent[4096];
	snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(folder, '/') - folder), folder);
	chmod(parent, 0711);
	chmod(folder, 0777);
	return folder;
}

#define AS_NOBODY(...) program_run(&(struct call){.arguments = {__VA_ARGS__}, .nobody = true})

START_TEST(no_permission)
{
	const char *folder = open_folder(), *file = test_write_file("lines.jsonl", ONE_PAIR, strlen(ONE_PAIR)),
		   *db = path_in(folder, "a.db");
	struct outcome o = AS_NOBODY("run", "--limit", "1", "--suite", "recall", "--db", db);
	if (o.exit_code == PROGRAM_NOT_FOUND)
		SKIP("another user cannot reach the program");
	expect_exit(&o, 0);
	outcome_free(&o);
	chmod(file, 0);
	EXPECT_FAILURE(AS_NOBODY("logprobs", file), 2, file, "Permission denied");
	EXPECT_FAILURE(AS_NOBODY("rescore", "--suite", "filters", file), 2, file, "Permission denied");
	chmod(db, 0);
	EXPECT_FAILURE(AS_NOBODY("list", "--db", db), 2, db, "Permission denied");
	EXPECT_FAILURE(AS_NOBODY("run", "--limit", "1", "--suite", "recall", "--db", db), 4, db, "Permission denied");
	chmod(db, 0644);
	chown(db, geteuid(), (gid_t)-1);
	chmod(folder, 0555);
	chown(folder, geteuid(), (gid_t)-1);
	o = AS_NOBODY("list", "--db", db); /* reading needs no more than that */
	expect_exit(&o, 0);
	outcome_free(&o);
	EXPECT_FAILURE(AS_NOBODY("run", "--limit", "1", "--suite", "recall", "--db", path_in(folder, "b.db")), 4,
		"b.db", "Permission denied");
	EXPECT_FAILURE(AS_NOBODY("run", "--limit", "1", "--suite", "recall", "--db", path_in(folder, "c/d.db")), 4,
		"d.db", "Permission denied");
}
END_TEST

static void limit_files(rlim_t bytes)
{
	struct rlimit limit;
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A write beyond ulimit -f is an error that is told, no death by signal; what was stored before is gone on with. */
START_TEST(files_may_not_grow)
{
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db"), *out = path_in(folder, "out");
	struct call run = {.arguments = {"run", "--suite", "gsm8k", "--limit", "12", "--db", db}};
	limit_files(150 << 10);
	EXPECT_FAILURE(program_run(&run), 4, db, "could not");
	limit_files(RLIM_INFINITY);
	struct outcome o = program_run(&run);
	expect_exit(&o, 0);
	outcome_free(&o);
	expect_sql(db, "SELECT count(*), (SELECT count(*) FROM run) FROM sample", "12|1\n");
	limit_files(36 << 10); /* room for the store's shared memory */
	EXPECT_FAILURE(RUN("export", "--lm-eval", out, "--db", db, "1"), 4, out);
	limit_files(RLIM_INFINITY);
	o = RUN("export", "--lm-eval", out, "--db", db, "1");
	expect_exit(&o, 0);
	outcome_free(&o);
}
END_TEST

START_TEST(no_permission_for_a_model)
{
	static const char *const names[] = {"config.json", "model.safetensors", "tokenizer.json"};
	const char *folder = pocket_copy();
	char parent[4096];
	snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(folder, '/') - folder), folder);
	chmod(parent, 0711);
	chmod(folder, 0755);
	for (int i = 0; i < COUNT(names); i++) {
		chmod(path_in(folder, names[i]), 0);
		struct outcome o = AS_NOBODY("generate", "--prompt", "a", "--model", folder);
		if (o.exit_code == PROGRAM_NOT_FOUND)
			SKIP("another user cannot reach the program");
		EXPECT_FAILURE(o, 2, names[i], "Permission denied");
		chmod(path_in(folder, names[i]), 0644);
	}
}
END_TEST

START_TEST(no_home)
{
	static const char *const homes[] = {"HOME=", "HOME=relative"};
	for (int i = 0; i < 2; i++)
		EXPECT_FAILURE(program_run(&(struct call){.arguments = {"list"}, .environment = {homes[i]}}), 2,
			"XDG_DATA_HOME", "--db");
}
END_TEST

/* ---- The hub's cache ---- */

static const struct {
	const char *name, *format; /* of the variable that leads there, from the scratch folder */
	const char *hub;
} caches[] = {
	{"HF_HUB_CACHE", "HF_HUB_CACHE=%s/cache", "cache"},
	{"HF_HOME", "HF_HOME=%s", "hub"},
	{"XDG_CACHE_HOME", "XDG_CACHE_HOME=%s", "huggingface/hub"},
	{"HOME", "HOME=%s", ".cache/huggingface/hub"},
};

START_TEST(model_in_the_hub_cache)
{
	char variable[4200], name[300];
	const char *folder = scratch_folder(), *hub = caches[_i].hub;
	struct buf tokenizer = test_read_file(POCKET "/tokenizer.json");
	snprintf(name, sizeof(name), "%s/models--org--pocket/snapshots/0123abc/tokenizer.json", hub);
	test_write_file(name, tokenizer.data, tokenizer.length);
	snprintf(name, sizeof(name), "%s/models--org--pocket/refs/main", hub);
	const char *ref = test_write_file(name, "0123abc\n", 8);
	snprintf(variable, sizeof(variable), caches[_i].format, folder);
	struct call c = {.arguments = {"tokenize", "--ids", "--model", "org/pocket"},
		.input = str_of("Tom has"),
		.environment = {variable}};
	expect_output(program_run(&c), "87 393 285\n");
	overwrite(ref, "4567", 4);
	EXPECT_FAILURE(program_run(&c), 2, "org/pocket", "snapshots/4567");
	unlink(ref);
	EXPECT_FAILURE(program_run(&c), 2, "org/pocket", ref);
	buf_free(&tokenizer);
}
END_TEST

/* ---- Options ---- */

static const struct {
	const char *arguments[8];
	int exit_code;
	const char *message, *more;
} option_cases[] = {
	{{NULL}, 2, "expected a command", "--help"},
	{{"rum"}, 2, "'rum'", "did you mean 'run'"},
	{{"exterminate"}, 2, "'exterminate'", "--help"},
	{{"--suite", "gsm8k"}, 2, "--suite", "expected a command"},
	{{"run", "--suit", "gsm8k"}, 2, "--suit", "did you mean --suite"},
	{{"run", "--limt=5"}, 2, "--limt", "did you mean --limit"},
	{{"run", "--hashes"}, 2, "--hashes", "prompts"},
	{{"run", "-x"}, 2, "-x", "--help"},
	{{"run", "gsm8k"}, 2, "'gsm8k'", "unexpected argument"},
	{{"run", "--limit"}, 2, "--limit", "no value"},
	{{"run", "--suite", "--json"}, 2, "--suite", "no value"},
	{{"run", "--quiet=yes"}, 2, "--quiet", "'yes'"},
	{{"run", "--suite", "gsm9k"}, 2, "gsm9k", "gsm8k"},
	{{"run", "--suite", "gsm8k,,recall"}, 2, "--suite", "'gsm8k,,recall'"},
	{{"run", "--suite", "gsm8k,GSM8K"}, 2, "--suite", "twice"},
	{{"run", "--limit", "0"}, 2, "--limit", "'0'"},
	{{"run", "--limit", "-5"}, 2, "--limit", "'-5'"},
	{{"run", "--limit", "nan"}, 2, "--limit", "'nan'"},
	{{"run", "--limit", "inf"}, 2, "--limit", "'inf'"},
	{{"run", "--limit", "1e999"}, 2, "--limit", "'1e999'"},
	{{"run", "--limit", "0x10"}, 2, "--limit", "'0x10'"},
	{{"run", "--limit", "0,5"}, 2, "--limit", "'0,5'"},
	{{"run", "--fewshot", "-1"}, 2, "--fewshot", "'-1'"},
	{{"run", "--fewshot", "99999999999"}, 2, "--fewshot", "'99999999999'"},
	{{"run", "--fewshot", "900", "--suite", "gsm8k"}, 2, "--fewshot 900", "200"},
	{{"run", "--seed", "18446744073709551616"}, 2, "--seed", "18446744073709551616"},
	{{"run", "--threads", "0"}, 2, "--threads", "'0'"},
	{{"run", "--threads", "99999999999999999999"}, 2, "--threads", "'99999999999999999999'"},
	{{"run", "--variant", "bf17/bf16"}, 2, "bf17", "bf16"},
	{{"run", "--variant", "bf16"}, 2, "bf16", "weights/KV"},
	{{"run", "--variant", "bf16/int4"}, 2, "int4", "fp8"},
	{{"run", "--variant", "fp8/fp8", "--variant", "fp8/fp8"}, 2, "fp8/fp8", "twice"},
	{{"run", "--variant", "bf16/bf16>fp8/int4"}, 2, "bf16/bf16>fp8/int4", "fp8"},
	{{"run", "--deadline", "-1"}, 2, "--deadline", "'-1'"},
	{{"run", "--deadline", "soon"}, 2, "--deadline", "'soon'"},
	{{"run", "--guard", "most"}, 2, "--guard", "'most'"},
	{{"run", "--guard-mode", "soft"}, 2, "--guard-mode", "'soft'"},
	{{"run", "--color", "blue"}, 2, "--color", "'blue'"},
	{{"run", "--data", "/nonexistent/d", "--suite", "gsm8k"}, 2, "/nonexistent/d", "no such folder"},
	{{"run", "--data", SOURCE_DIR}, 2, "--suite", SOURCE_DIR},
	{{"run", "--data", SOURCE_DIR, "--suite", "gsm8k"}, 2, "gsm8k/test.jsonl", "No such file"},
	{{"run", "--kv-memory", "0"}, 2, "--kv-memory", "'0'"},
	{{"run", "--kv-memory", "1GB"}, 2, "--kv-memory", "'1GB'"},
	{{"run", "--kv-memory", "99999999999GiB"}, 2, "--kv-memory", "'99999999999GiB'"},
	{{"show"}, 2, "'assay show'", "RUN"},
	{{"rescore", "--suite", "gsm8k"}, 2, "'assay rescore'", "FILE"},
	{{"list", "--db", "/nonexistent/a.db"}, 2, "/nonexistent/a.db", "No such file"},
};

START_TEST(bad_options)
{
	struct call c = {0};
	memcpy(c.arguments, option_cases[_i].arguments, sizeof(option_cases[_i].arguments));
	EXPECT_FAILURE(program_run(&c), option_cases[_i].exit_code, option_cases[_i].message, option_cases[_i].more);
}
END_TEST

/* Values that the option takes and the engine does not. */
static const struct {
	const char *option, *value, *message;
	int exit_code; /* 0: it is as good as another */
} engine_cases[] = {
	{"--kv-memory", "1", "KV memory of 1 bytes", 2},
	{"--kv-memory", "18446744073709551615", "18446744073709551615", 2},
	{"--page-size", "7", "page size 7", 2},
	{"--page-size", "2147483647", "page size 2147483647", 2},
	{"--max-batch-tokens", "2147483647", "2147483647", 2},
	{"--max-batch-tokens", "1", NULL, 0},
	{"--chunk", "2147483647", NULL, 0},
	{"--max-requests", "2147483647", NULL, 0},
	{"--threads", "1024", NULL, 0},
};

START_TEST(engine_options)
{
	const char *model = tiny_model(32, -1), *option = engine_cases[_i].option, *value = engine_cases[_i].value;
	struct outcome o = RUN_WITH(ONE_PAIR, "logprobs", "--model", model, option, value);
	if (engine_cases[_i].exit_code) {
		EXPECT_FAILURE(o, engine_cases[_i].exit_code, engine_cases[_i].message);
		return;
	}
	struct outcome plain = RUN_WITH(ONE_PAIR, "logprobs", "--model", model);
	expect_exit(&plain, 0);
	expect_output(o, buf_text(&plain.out));
	outcome_free(&plain);
}
END_TEST

/* ---- Locales ---- */

static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "tr_TR.UTF-8"};

static void expect_same_output(const struct call *call, const char *locale)
{
	char variable[64];
	struct call c = *call;
	struct outcome plain = program_run(&c);
	snprintf(variable, sizeof(variable), "LC_ALL=%s", locale);
	c.environment[0] = variable;
	struct outcome o = program_run(&c);
	expect_exit(&o, plain.exit_code);
	ck_assert_str_eq(buf_text(&o.out), buf_text(&plain.out));
	ck_assert_str_eq(buf_text(&o.err), buf_text(&plain.err));
	outcome_free(&o);
	outcome_free(&plain);
}

START_TEST(locale_changes_nothing)
{
	locale_t there = newlocale(LC_ALL_MASK, locales[_i], (locale_t)0);
	if (!there)
		SKIP("no locale %s", locales[_i]);
	freelocale(there);
	const char *db = path_in(scratch_folder(), "a.db");
	struct outcome o =
		program_run(&(struct call){.arguments = {"run", "--limit", "0.006", "--suite", "ARC_EASY,Recall,GSM8K",
						   "--variant", "fp8/fp8", "--quiet", "--db", db},
			.environment = {"LC_ALL=tr_TR.UTF-8"}});
	expect_exit(&o, 0);
	outcome_free(&o);
	expect_sql(db, "SELECT suite, count(*) FROM sample GROUP BY 1", "arc_easy|3\ngsm8k|3\nrecall|2\n");
	const struct call calls[] = {
		{.arguments = {"show", "1", "--db", db, "--samples", "GSM8K"}},
		{.arguments = {"show", "1", "--db", db, "--samples", "arc_easy", "--json"}},
		{.arguments = {"list", "--db", db, "--json"}},
		{.arguments = {"run", "--dry-run", "--limit", "0.5", "--suite", "RECALL", "--db", db}},
		{.arguments = {"run", "--limit", "0,5"}},
		{.arguments = {"logprobs"},
			.input = str_of(ONE_PAIR "{\"context\": \"Tom\", \"continuation\": \" has\"}\n")},
		{.arguments = {"generate", "--json", "--prompt", "I", "--temperature", "0.8", "--top-p", "0.9",
			 "--max-tokens", "20"}},
		{.arguments = {"rescore", "--suite", "filters", golden_path("suites/filters.jsonl")}},
		{.arguments = {"prompts", "--suite", "RECALL", "--limit", "1.0", "--samples"}},
	};
	for (int i = 0; i < COUNT(calls); i++)
		expect_same_output(&calls[i], locales[_i]);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *streams = test_case(suite, "streams", 60);
	tcase_add_loop_test(streams, nowhere_to_write, 0, COUNT(printing_commands));
	tcase_add_loop_test(streams, no_stderr, 0, COUNT(printing_commands));
	tcase_add_test(streams, no_stdin);
	tcase_add_loop_test(streams, reader_goes_away, 0, COUNT(printing_commands));
	tcase_add_test(streams, input_from_a_pipe);

	TCase *surroundings = test_case(suite, "surroundings", 60);
	tcase_add_test(surroundings, no_permission);
	tcase_add_test(surroundings, files_may_not_grow);
	tcase_add_test(surroundings, no_permission_for_a_model);
	tcase_add_test(surroundings, no_home);
	tcase_add_loop_test(surroundings, model_in_the_hub_cache, 0, COUNT(caches));
	tcase_add_loop_test(surroundings, locale_changes_nothing, 0, COUNT(locales));

	TCase *options = test_case(suite, "options", 60);
	tcase_add_loop_test(options, bad_options, 0, COUNT(option_cases));
	tcase_add_loop_test(options, engine_options, 0, COUNT(engine_cases));
}
