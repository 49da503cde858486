/* `assay run`, `list` and `show` as a user meets them: what stands on which stream, and what the exit code is. */
#include <sys/ioctl.h>

#include "tests/program_store.h"

const char *const test_program_name = "program";

static const char *database(void)
{
	return path_in(scratch_folder(), "a.db");
}

/* ---- Streams ---- */

static const char results_table[] = "suite     metric                        variant    n   value ± stderr\n"
				    "gsm8k     exact_match,strict-match      bf16/bf16  4  1.0000 ± 0.0000\n"
				    "gsm8k     exact_match,flexible-extract  bf16/bf16  4  1.0000 ± 0.0000\n"
				    "arc_easy  acc,none                      bf16/bf16  4  1.0000 ± 0.0000\n"
				    "arc_easy  acc_norm,none                 bf16/bf16  4  1.0000 ± 0.0000\n"
				    "recall    exact_match,none              bf16/bf16  4  1.0000 ± 0.0000\n"
				    "recall filler=0 exact_match,none        bf16/bf16  4  1.0000 ± 0.0000\n"
				    "\n"
				    "variant    weights  KV bytes/token  KV tokens\n"
				    "bf16/bf16  1.8 MiB            1024       1008\n";

/* The table's cells, whatever blanks lie between them. */
static void expect_table(const char *output, const char *expected)
{
	while (*expected) {
		size_t blanks = strspn(output, " "), expected_blanks = strspn(expected, " ");
		ck_assert_msg((blanks > 0) == (expected_blanks > 0), "at '%.60s', expected '%.60s'", output, expected);
		output += blanks;
		expected += expected_blanks;
		ck_assert_msg(*output == *expected, "at '%.60s', expected '%.60s'", output, expected);
		output += *output != '\0';
		expected += *expected != '\0';
	}
}

#define SMALL_RUN(...)                                                            \
	{                                                                         \
		"run", "--limit", "4", "--kv-memory", "1MiB", "--db", __VA_ARGS__ \
	}

START_TEST(table_on_stdout)
{
	const char *db = database();
	char next[8192];
	struct outcome o = program_run(&(struct call){.arguments = SMALL_RUN(db)});
	expect_exit(&o, 0);
	expect_table(buf_text(&o.out), results_table);
	snprintf(next, sizeof(next),
		"\nEvery answer is in %s (run 1). Next:\n  %s show 1 --samples gsm8k --db %s\n"
		"--limit was given: this run is not for gating.\n",
		db, ASSAY_PROGRAM, db);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), next));
	ck_assert_uint_eq(strlen(strstr(buf_text(&o.out), next)), strlen(next));
	outcome_free(&o);
}
END_TEST

/* Every line is one of the program's: a note, or plain progress. */
static void expect_plain(const struct buf *err)
{
	ck_assert_msg(
		err->length > 0 && !memchr(err->data, '\r', err->length) && !memchr(err->data, '\033', err->length),
		"stderr: %s", buf_text(err));
	int lines = 0;
	for (const char *line = err->data; *line; line += strcspn(line, "\n") + 1, lines++)
		ck_assert_msg(strncmp(line, "assay: run 1 starts in ", 23) == 0 || strstr(line, "/4, "), "stderr: %s",
			err->data);
	ck_assert_int_le(lines, 1 + PROGRAM_SECONDS / 5);
}

static const struct {
	const char *name, *environment[2];
} plain_cases[] = {
	{"no terminal", {0}},
	{"CI", {"CI=true"}},
	{"dumb terminal", {"TERM=dumb"}},
	{"no colour", {"NO_COLOR=1"}},
	{"colour, and none", {"NO_COLOR=1", "FORCE_COLOR=1"}},
};

START_TEST(messages_are_plain)
{
	struct outcome o = program_run(&(struct call){.arguments = SMALL_RUN(database(), "--suite", "gsm8k"),
		.environment = {plain_cases[_i].environment[0], plain_cases[_i].environment[1]}});
	expect_exit(&o, 0);
	expect_plain(&o.err);
	ck_assert_ptr_null(strchr(buf_text(&o.out), '\033'));
	ck_assert_ptr_null(strchr(buf_text(&o.out), '\r'));
	outcome_free(&o);
}
END_TEST

START_TEST(colours_when_asked_for)
{
	const char *db = database();
	struct outcome o = RUN("run", "--limit", "1", "--suite", "recall", "--db", db, "--color", "always");
	expect_exit(&o, 0);
	ck_assert_msg(strncmp(buf_text(&o.out), "\033[1msuite", 9) == 0, "%s", buf_text(&o.out));
	outcome_free(&o);
	o = program_run(&(struct call){
		.arguments = {"list", "--db", db, "--color", "never"}, .environment = {"FORCE_COLOR=1"}});
	expect_exit(&o, 0);
	ck_assert_ptr_null(strchr(buf_text(&o.out), '\033'));
	outcome_free(&o);
}
END_TEST

START_TEST(quiet)
{
	struct outcome o =
		program_run(&(struct call){.arguments = SMALL_RUN(database(), "--suite", "recall", "--quiet")});
	expect_exit(&o, 0);
	ck_assert_str_eq(buf_text(&o.err), "");
	expect_table(buf_text(&o.out),
		"suite metric variant n value ± stderr\nrecall exact_match,none bf16/bf16 4 1.0000 ± 0.0000\n"
		"recall filler=0 exact_match,none bf16/bf16 4 1.0000 ± 0.0000\n\n"
		"variant weights KV bytes/token KV tokens\nbf16/bf16 1.8 MiB 1024 1008\n");
	ck_assert_ptr_null(strstr(buf_text(&o.out), "Next"));
	outcome_free(&o);
}
END_TEST

/* ---- A terminal ---- */

struct terminal {
	int master, slave;
};

static struct terminal terminal_open(void)
{
	struct terminal t = {.master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
	if (t.master < 0 || grantpt(t.master) != 0 || unlockpt(t.master) != 0)
		return (struct terminal){-1, -1};
	t.slave = open(ptsname(t.master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct winsize size = {.ws_row = 24, .ws_col = 72};
	ck_assert_int_eq(ioctl(t.slave, TIOCSWINSZ, &size), 0);
	return t;
}

/* What the program writes to a terminal as its standard error, until it ends. */
static struct buf run_on_terminal(struct terminal t, const struct call *c, int exit_code)
{
	struct call with = *c;
	struct buf seen = {0};
	char block[4096];
	ssize_t n;
	with.messages = t.slave;
	struct program p = program_start(&with);
	close(t.slave);
	while ((n = read(t.master, block, sizeof(block))) > 0)
		buf_append(&seen, block, (size_t)n);
	close(t.master);
	struct outcome o = program_wait(p);
	expect_exit(&o, exit_code);
	ck_assert_ptr_null(strchr(buf_text(&o.out), '\033')); /* that one is no terminal */
	outcome_free(&o);
	return seen;
}

START_TEST(bar_on_a_terminal)
{
	struct terminal t = terminal_open();
	if (t.slave < 0)
		SKIP("no pseudo-terminal: %s", strerror(errno));
	struct buf seen = run_on_terminal(t, &(struct call){.arguments = SMALL_RUN(database(), "--suite", "gsm8k")}, 0);
	const char *text = buf_text(&seen), *bar = strstr(text, "\rgsm8k bf16/bf16 [------------------------] 0/4");
	ck_assert_msg(bar != NULL, "%s", text);
	/* The bar is taken away: blanks and a return are the last that is written. */
	const char *last = strrchr(text, ']');
	ck_assert_msg(seen.data[seen.length - 1] == '\r' && strstr(last, "  \r"), "%s", text);
	for (const char *part = text; *part; part += strcspn(part, "\r\n") + 1)
		ck_assert_msg(strcspn(part, "\r\n") < 72 || strstr(part, "starts in"), "%s", part);
	buf_free(&seen);
}
END_TEST

static const struct {
	const char *name, *environment;
} no_bar_cases[] = {{"CI", "CI=1"}, {"dumb terminal", "TERM=dumb"}, {"no terminal type", "TERM="}};

START_TEST(no_bar_on_a_terminal)
{
	struct terminal t = terminal_open();
	if (t.slave < 0)
		SKIP("no pseudo-terminal: %s", strerror(errno));
	struct buf seen = run_on_terminal(t,
		&(struct call){.arguments = SMALL_RUN(database(), "--suite", "gsm8k"),
			.environment = {no_bar_cases[_i].environment}},
		0);
	for (size_t i = 0; i < seen.length; i++) /* the terminal itself puts a return before each line feed */
		ck_assert_msg(seen.data[i] != '\r' || seen.data[i + 1] == '\n', "%s", seen.data);
	ck_assert_ptr_null(strchr(buf_text(&seen), '\033'));
	ck_assert_ptr_null(strchr(seen.data, '['));
	buf_free(&seen);
}
END_TEST

START_TEST(colour_of_messages_on_a_terminal)
{
	static const char *const environments[] = {"NO_COLOR=", "NO_COLOR=1"};
	for (int i = 0; i < 2; i++) {
		struct terminal t = terminal_open();
		if (t.slave < 0)
			SKIP("no pseudo-terminal: %s", strerror(errno));
		struct buf seen = run_on_terminal(
			t, &(struct call){.arguments = {"run", "--suite", "x"}, .environment = {environments[i]}}, 2);
		ck_assert_msg((strchr(buf_text(&seen), '\033') != NULL) == (i == 0), "%s", buf_text(&seen));
		ck_assert_ptr_nonnull(strstr(seen.data, "unknown suite"));
		buf_free(&seen);
	}
}
END_TEST

/* ---- JSON ---- */

static const struct json *suite_of(const struct json *variant, const char *suite, int64_t n)
{
	const struct json *value = json_path(json_path(variant, "suites"), suite);
	ck_assert_int_eq(json_path_int(value, "n"), n);
	return value;
}

/* Metrics agree with what the rows say. */
static void check_metric(const char *db, const struct json *root, int variant, const char *suite, const char *metric)
{
	char query[512];
	char place[32];
	snprintf(place, sizeof(place), "variants/%d", variant);
	const struct json *v = json_path(root, place), *value = json_get(suite_of(v, suite, 8), metric);
	double mean = json_double(json_path(value, "value"));
	struct str name = json_path(v, "name")->text;
	snprintf(query, sizeof(query),
		"SELECT count(*), abs(avg(json_extract(metrics, '$.\"%s\"')) - %.17g) < 1e-12, "
		"abs(sqrt((avg(pow(json_extract(metrics, "
		"'$.\"%s\"'), 2)) - %.17g) / 7) - %.17g) < 1e-12 FROM sample JOIN variant USING (variant_id) WHERE "
		"suite = '%s' AND name = "
		"'%.*s'",
		metric, mean, metric, mean * mean, json_double(json_path(value, "stderr")), suite, STR_ARG(name));
	expect_sql(db, query, "8|1|1\n");
}

static void check_tokens(const char *db, const struct json *root)
{
	char expected[128];
	snprintf(expected, sizeof(expected), "%" PRId64 "|%" PRId64 "|%" PRId64 "\n",
		json_path_int(root, "tokens/prompt"), json_path_int(root, "tokens/cached"),
		json_path_int(root, "tokens/generated"));
	expect_sql(db, "SELECT sum(prompt_tokens), sum(cached_tokens), sum(generated_tokens) FROM sample", expected);
}

START_TEST(run_json)
{
	static const char *const names[] = {"bf16/bf16", "int4/fp8"};
	const char *db = database();
	struct outcome o = RUN("run", "--limit", "8", "--variant", names[0], "--variant", names[1], "--kv-memory",
		"1MiB", "--db", db, "--suite", "gsm8k,ARC_Easy", "--json");
	expect_exit(&o, 0);
	struct json_document *document = parse(buf_str(&o.out));
	const struct json *root = json_root(document);
	ck_assert(str_is(root->child->key, "schema_version") && json_path_int(root, "schema_version") == 1);
	ck_assert_int_eq(json_path_int(root, "run"), 1);
	ck_assert_uint_eq(json_path(root, "variants")->count, 2);
	ck_assert(json_double(json_path(root, "seconds")) > 0);
	ck_assert(!json_bool(json_path(root, "for_gating"), true));
	ck_assert(str_is(json_path(root, "status")->text, "complete"));
	for (int i = 0; i < 2; i++) {
		ck_assert(str_is(json_path(json_at(json_path(root, "variants"), (size_t)i), "name")->text, names[i]));
		check_metric(db, root, i, "gsm8k", "exact_match,strict-match");
		check_metric(db, root, i, "gsm8k", "exact_match,flexible-extract");
		check_metric(db, root, i, "arc_easy", "acc,none");
		check_metric(db, root, i, "arc_easy", "acc_norm,none");
	}
	check_tokens(db, root);
	/* A cache of bytes holds twice the tokens of one of 16 bits, but for the page that is nobody's. */
	int64_t n = json_path_int(root, "variants/0/kv_tokens"), twice = json_path_int(root, "variants/1/kv_tokens");
	ck_assert_int_eq(json_path_int(root, "variants/0/kv_bytes_per_token"),
		2 * json_path_int(root, "variants/1/kv_bytes_per_token"));
	ck_assert(twice >= 2 * n && twice <= 2 * n + 2 * 16);
	ck_assert(
		json_path_int(root, "variants/1/weights_bytes") * 2 < json_path_int(root, "variants/0/weights_bytes"));
	json_free(document);
	outcome_free(&o);
}
END_TEST

/* ---- list and show ---- */

START_TEST(list_and_show)
{
	const char *db = database();
	struct outcome run = program_run(&(struct call){.arguments = SMALL_RUN(db, "--json")});
	expect_exit(&run, 0);
	struct outcome o = RUN("show", "latest", "--json", "--db", db);
	expect_exit(&o, 0);
	ck_assert_str_eq(buf_text(&o.out), buf_text(&run.out)); /* one report, whoever prints it */
	outcome_free(&o);
	o = RUN("show", "1", "--samples", "recall", "--db", db, "--json");
	expect_exit(&o, 0);
	struct json_document *document = parse(buf_str(&o.out));
	ck_assert_uint_eq(json_path(json_root(document), "samples")->count, 4);
	ck_assert(str_is(json_path(json_root(document), "samples/3/status")->text, "ok"));
	json_free(document);
	outcome_free(&o);
	o = RUN("show", "1", "--samples", "RECALL", "--db", db);
	expect_exit(&o, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "not for gating"));
	outcome_free(&o);
	o = RUN("list", "--db", db, "--json");
	expect_exit(&o, 0);
	document = parse(buf_str(&o.out));
	ck_assert(str_is(json_root(document)->child->key, "schema_version"));
	ck_assert_int_eq(json_path_int(json_root(document), "runs/0/samples"), 12);
	json_free(document);
	outcome_free(&o);
	outcome_free(&run);
	EXPECT_FAILURE(RUN("show", "2", "--db", db), 2, "no run '2'", db);
	EXPECT_FAILURE(RUN("show", "1", "--samples", "arc_challenge", "--db", db), 2, "arc_challenge",
		"gsm8k arc_easy recall");
}
END_TEST

START_TEST(default_database)
{
	char data_home[4200];
	const char *folder = scratch_folder();
	snprintf(data_home, sizeof(data_home), "XDG_DATA_HOME=%s", folder);
	struct outcome o = program_run(&(struct call){.arguments = {"list", "--json"}, .environment = {data_home}});
	ck_assert_ptr_nonnull(strstr(buf_text(&o.err), "no runs yet"));
	expect_output(o, "{\"schema_version\": 1, \"runs\": []}\n");
	o = program_run(
		&(struct call){.arguments = {"run", "--limit", "1", "--suite", "recall"}, .environment = {data_home}});
	expect_exit(&o, 0);
	outcome_free(&o);
	expect_sql(path_in(folder, "assay/assay.db"), "SELECT run_id, status, for_gating FROM run", "1|complete|0\n");
}
END_TEST

/* ---- Dry runs, limits, exit codes ---- */

START_TEST(dry_run_does_nothing)
{
	const char *db = database();
	struct outcome o =
		RUN("run", "--dry-run", "--db", db, "--limit", "0.01", "--variant", "fp8/fp8", "--variant", "bf16/f32");
	expect_exit(&o, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "suite     gsm8k: 5 of 500 items, 5-shot\n"));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "suite     recall: 3 of 300 items, 0-shot\n"));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "variants  fp8/fp8 bf16/f32\n"));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), "answers   26\n"));
	ck_assert_ptr_nonnull(strstr(buf_text(&o.out), db));
	ck_assert_str_eq(buf_text(&o.err), "");
	ck_assert_int_ne(access(db, F_OK), 0);
	outcome_free(&o);
	o = RUN("run", "--dry-run", "--db", "a \"b\"", "--limit", "2", "--suite", "gsm8k", "--json");
	expect_output(o,
		"{\"schema_version\": 1, \"model\": \"" POCKET "\", \"database\": \"a \\\"b\\\"\", \"variants\": "
		"[\"bf16/bf16\"], \"suites\": {\"gsm8k\": {\"items\": 2, \"of\": 500, \"fewshot\": 5}}, \"answers\": "
		"2}\n");
	o = RUN("run", "--dry-run", "--db", "x", "--suite", "recall", "--limit", "2", "--backend", "cuda", "--device",
		"3", "--tp", "2");
	expect_output(o,
		"model     " POCKET "\ndatabase  x\nvariants  bf16/bf16\nbackend   cuda, devices 3 to 4\nranks     2\n"
		"suite     recall: 2 of 300 items, 0-shot\nanswers   2\n");
	o = RUN("run", "--dry-run", "--db", "x", "--suite", "recall", "--limit", "2", "--backend", "cuda", "--json");
	expect_output(o,
		"{\"schema_version\": 1, \"model\": \"" POCKET
		"\", \"database\": \"x\", \"variants\": [\"bf16/bf16\"], "
		"\"backend\": \"cuda\", \"device\": 0, \"suites\": {\"recall\": {\"items\": 2, \"of\": 300, "
		"\"fewshot\": "
		"0}}, \"answers\": 2}\n");
	EXPECT_FAILURE(RUN("run", "--dry-run", "--suite", "gsm8k,gsm9k"), 2, "gsm9k", "arc_easy");
	o = RUN("run", "--dry-run", "--db", db, "--suite", "recall,gsm8k", "--fewshot", "2");
	expect_exit(&o, 0);
	ck_assert_str_eq(
		buf_text(&o.err), "assay: --fewshot 2: recall has no solved examples, its prompts go without\n");
	outcome_free(&o);
}
END_TEST

/* A folder of data with a suite of three items and one of seven. */
static const char *three_and_seven(void)
{
	static const struct {
		const char *name;
		int lines;
	} files[] = {{"recall/test.jsonl", 3}, {"gsm8k/test.jsonl", 7}, {"gsm8k/train.jsonl", 50}};
	const char *folder = scratch_folder();
	for (int i = 0; i < COUNT(files); i++) {
		struct buf text = test_read_file(path_in(POCKET_DATA, files[i].name));
		size_t length = 0;
		for (int line = 0; line < files[i].lines; line++)
			length += strcspn(text.data + length, "\n") + 1;
		test_write_file(files[i].name, text.data, length);
		buf_free(&text);
	}
	return folder;
}

static const struct {
	const char *limit;
	int three, seven;
} limit_cases[] = {{"0.5", 2, 4}, {"0.1", 1, 1}, {"0.999", 3, 7}, {"1", 1, 1}, {"1.0", 1, 1}, {"2.9", 2, 2},
	{"100", 3, 7}, {"1e2", 3, 7}};

START_TEST(limits)
{
	char plan[256];
	const char *limit = limit_cases[_i].limit;
	struct outcome o = RUN("run", "--data", three_and_seven(), "--suite", "recall,gsm8k", "--limit", limit,
		"--dry-run", "--db", "x");
	expect_exit(&o, 0);
	snprintf(plan, sizeof(plan),
		"suite     recall: %d of 3 items, 0-shot\nsuite     gsm8k: %d of 7 items, 5-shot\nanswers   %d\n",
		limit_cases[_i].three, limit_cases[_i].seven, limit_cases[_i].three + limit_cases[_i].seven);
	ck_assert_msg(strstr(buf_text(&o.out), plan), "%s, expected %s", buf_text(&o.out), plan);
	/* A count with a point deserves a remark. */
	ck_assert_int_eq(o.err.length > 0, limit[1] == '.' && limit[0] != '0');
	outcome_free(&o);
}
END_TEST

START_TEST(a_limit_is_run)
{
	const char *folder = three_and_seven(), *db = path_in(folder, "a.db");
	struct outcome o = RUN("run", "--data", folder, "--suite", "recall,gsm8k", "--limit", "0.5", "--db", db);
	expect_exit(&o, 0);
	outcome_free(&o);
	expect_sql(db, "SELECT suite, count(*), max(doc_id) FROM sample GROUP BY suite", "gsm8k|4|3\nrecall|2|1\n");
	expect_sql(db, "SELECT for_gating FROM run", "0\n");
	o = RUN("run", "--data", folder, "--suite", "recall", "--db", db);
	expect_exit(&o, 0);
	outcome_free(&o);
	expect_sql(db, "SELECT for_gating, count(*) FROM run JOIN sample USING (run_id) GROUP BY run_id", "0|6\n1|3\n");
}
END_TEST

START_TEST(nothing_evaluated)
{
	const char *folder = scratch_folder(), *db = path_in(folder, "a.db");
	const char *data = test_write_file("gsm8k/test.jsonl", "\n", 1);
	test_write_file("gsm8k/train.jsonl", "", 0);
	EXPECT_FAILURE(
		RUN("run", "--data", folder, "--suite", "gsm8k", "--fewshot", "0", "--db", db), 5, data, "no records");
	ck_assert_int_ne(access(db, F_OK), 0);
}
END_TEST

START_TEST(no_item_can_be_answered)
{
	const char *db = database();
	struct outcome o = RUN("run", "--suite", "recall", "--limit", "2", "--kv-memory", "32KiB", "--db", db);
	expect_exit(&o, 5); /* the cache holds one page: no prompt fits */
	ck_assert_ptr_nonnull(strstr(buf_text(&o.err), "no item was answered: "));
	outcome_free(&o);
	expect_sql(db, "SELECT status, response, error LIKE '%KV pages%' FROM sample", "error|null|1\nerror|null|1\n");
}
END_TEST

START_TEST(some_items_cannot_be_answered)
{
	const char *db = database();
	struct outcome o = RUN("run", "--suite", "gsm8k,arc_easy", "--limit", "2", "--kv-memory", "256KiB", "--db", db);
	expect_exit(&o, 4); /* five shots do not fit into fifteen pages, a lone question does */
	ck_assert_ptr_nonnull(strstr(buf_text(&o.err), "items without an answer: 2; the first: "));
	expect_table(buf_text(&o.out),
		"suite metric variant n value ± stderr not ok\narc_easy acc,none bf16/bf16 2 1.0000 ± 0.0000 \n");
	outcome_free(&o);
	expect_sql(db, "SELECT suite, status, count(*) FROM sample GROUP BY 1, 2", "arc_easy|ok|2\ngsm8k|error|2\n");
}
END_TEST

START_TEST(help_and_version)
{
	static const char *const commands[] = {
		"run", "list", "show", "tokenize", "generate", "logprobs", "prompts", "rescore"};
	struct outcome o = RUN("--help");
	expect_exit(&o, 0);
	for (int i = 0; i < COUNT(commands); i++) {
		struct outcome one = RUN(commands[i], "--help");
		expect_exit(&one, 0);
		ck_assert_ptr_nonnull(strstr(buf_text(&o.out), commands[i]));
		ck_assert_ptr_nonnull(strstr(buf_text(&one.out), commands[i]));
		ck_assert_uint_eq(one.err.length, 0);
		outcome_free(&one);
	}
	outcome_free(&o);
	o = RUN("--version");
	expect_exit(&o, 0);
	ck_assert_int_eq(strncmp(buf_text(&o.out), "assay ", 6), 0);
	outcome_free(&o);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *streams = test_case(suite, "streams", 60);
	tcase_add_test(streams, table_on_stdout);
	tcase_add_loop_test(streams, messages_are_plain, 0, COUNT(plain_cases));
	tcase_add_test(streams, colours_when_asked_for);
	tcase_add_test(streams, quiet);
	tcase_add_test(streams, bar_on_a_terminal);
	tcase_add_loop_test(streams, no_bar_on_a_terminal, 0, COUNT(no_bar_cases));
	tcase_add_test(streams, colour_of_messages_on_a_terminal);

	TCase *results = test_case(suite, "results", 60);
	tcase_add_test(results, run_json);
	tcase_add_test(results, list_and_show);
	tcase_add_test(results, default_database);

	TCase *plan = test_case(suite, "plan", 60);
	tcase_add_test(plan, dry_run_does_nothing);
	tcase_add_loop_test(plan, limits, 0, COUNT(limit_cases));
	tcase_add_test(plan, a_limit_is_run);
	tcase_add_test(plan, nothing_evaluated);
	tcase_add_test(plan, no_item_can_be_answered);
	tcase_add_test(plan, some_items_cannot_be_answered);
	tcase_add_test(plan, help_and_version);
}
