/* `assay inject` as a user runs it. */
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/program_store.h"

const char *const test_program_name = "program_inject";

static const char *database(void)
{
	return path_in(scratch_folder(), "inject.db");
}

static struct outcome inject(const char *db, const char *trials, const char *seed, const char *threads)
{
	return RUN("inject", "--db", db, "--trials", trials, "--seed", seed, "--threads", threads, "--guard",
		"tags,pages", "--json", "--quiet");
}

static int64_t tally(const struct json *level, const char *member)
{
	int64_t sum = 0;

	JSON_EACH (model, level) {
		int64_t n = 0;
		ck_assert(json_int64(json_get(model, member), &n));
		sum += n;
	}
	return sum;
}

static int rank_of(struct str level)
{
	static const char *const levels[] = {"tags", "pages", "chain", "digest"};
	int i = 0;

	while (i < 4 && !str_is(level, levels[i]))
		i++;
	return i; /* "none": no level */
}

/* The sites that declare a higher level, and did not escape where they did harm, are those of the table. */
static void declared_not_seen_check(const struct json *root)
{
	static const char *const escapes[] = {"detected_late", "silent", "leak", "crash", "hang"};
	const struct json *named = json_get(root, "declared_not_seen");
	size_t n = 0;
	char name[128];

	JSON_EACH (site, json_get(root, "sites"))
		JSON_EACH (guard, json_get(site, "guards")) {
			int64_t escaped = 0;
			for (int i = 0; i < 5; i++)
				escaped += json_path_int(guard, escapes[i]);
			bool harmful = json_path_int(guard, "activated") > json_path_int(guard, "masked");
			bool above = rank_of(json_get(site, "level")->text) > rank_of(guard->key);
			bool there = false;
			snprintf(name, sizeof name, "%s %s", guard->key.data, site->key.data);
			JSON_EACH (line, named)
				there |= str_is(line->text, name);
			ck_assert_msg(there == (above && harmful && escaped == 0), "%s", name);
			n += there;
		}
	ck_assert_uint_eq(n, named->count);
}

START_TEST(a_seed_decides_every_byte)
{
	const char *db = database(), *other = database();
	struct outcome a = inject(db, "40", "12", "1"), b = inject(other, "40", "12", "2"), c;

	ck_assert(a.exit_code == 0 || a.exit_code == 1);
	ck_assert_int_eq(a.exit_code, b.exit_code);
	ck_assert_str_eq(buf_text(&a.out), buf_text(&b.out));
	c = inject(other, "40", "13", "2");
	ck_assert_str_ne(buf_text(&a.out), buf_text(&c.out));

	struct json_document *document = parse(buf_str(&a.out));
	const struct json *root = json_root(document), *levels = json_get(root, "levels");
	ck_assert_int_eq(json_path_int(root, "schema_version"), 1);
	ck_assert_int_eq(json_path_int(root, "trials"), 40);
	ck_assert_int_eq(json_path_int(root, "seed"), 12);
	ck_assert_int_eq(json_path_int(root, "false_alarms"), 0);
	ck_assert_uint_eq(levels->count, 2);
	JSON_EACH (level, levels) {
		ck_assert_int_eq(tally(level, "activated"), 40);
		ck_assert_int_eq(tally(level, "activated") - tally(level, "masked"),
			tally(level, "detected") + tally(level, "detected_late") + tally(level, "silent") +
				tally(level, "leak") + tally(level, "crash") + tally(level, "hang"));
	}
	declared_not_seen_check(root);
	/* a level notices no less than those below it */
	ck_assert_int_gt(tally(json_get(levels, "pages"), "detected"), tally(json_get(levels, "tags"), "detected"));
	/* rows: one observed and two enforced of each trial; what the table counts is what is stored */
	ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM fault_trial"), 3 * 40);
	ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM fault_trial WHERE level = 'tags' AND outcome = 'detected'"),
		tally(json_get(levels, "tags"), "detected"));
	ck_assert_int_gt(sql_int(db, "SELECT count(*) FROM incident JOIN fault_trial USING (fault_trial_id)"), 40);
	expect_sql(db, "SELECT kind, status FROM run", "inject|complete\n");
	json_free(document);
	outcome_free(&a);
	outcome_free(&b);
	outcome_free(&c);
}
END_TEST

START_TEST(a_replay_line_reproduces_its_outcome)
{
	const char *db = database();
	struct outcome a = inject(db, "68", "5", "2");

	expect_exit(&a, 0); /* every escape is declared */
	struct buf rows = sql(db,
		"SELECT level, outcome, replay FROM fault_trial WHERE mode = 'enforced' ORDER BY (trial * 7) % 68, "
		"level LIMIT 20");
	struct str rest = buf_str(&rows);

	for (int i = 0; i < 20; i++) {
		char level[16], outcome[32], line[200], member[64];
		const char *end = memchr(rest.data, '\n', rest.length);
		ck_assert_ptr_nonnull(end);
		ck_assert_int_eq(sscanf(rest.data, "%15[^|]|%31[^|]|%199[^\n]", level, outcome, line), 3);
		rest = (struct str){end + 1, rest.length - (size_t)(end + 1 - rest.data)};
		struct outcome o = RUN("inject", "--replay", line, "--json", "--quiet");
		expect_exit(&o, 0);
		struct json_document *document = parse(buf_str(&o.out));
		snprintf(member, sizeof member, "enforced/%s/outcome", level);
		const struct json *again = json_path(json_root(document), member);
		ck_assert_msg(
			strcmp(again->text.data, outcome) == 0, "%s: %s, then %s", line, outcome, again->text.data);
		json_free(document);
		outcome_free(&o);
	}
	buf_free(&rows);
	outcome_free(&a);
}
END_TEST

START_TEST(without_a_seed_the_chosen_one_is_told)
{
	struct outcome a = RUN("inject", "--db", database(), "--trials", "3", "--sites", "m10", "--json", "--quiet"), b;
	struct json_document *document = parse(buf_str(&a.out));
	char seed[32];

	expect_exit(&a, 0);
	snprintf(seed, sizeof seed, "%" PRId64, json_path_int(json_root(document), "seed"));
	b = RUN("inject", "--db", database(), "--trials", "3", "--sites", "M10", "--json", "--seed", seed, "--quiet");
	expect_exit(&b, 0);
	ck_assert_str_eq(buf_text(&a.out), buf_text(&b.out));
	json_free(document);
	outcome_free(&a);
	outcome_free(&b);
}
END_TEST

START_TEST(a_replay_tells_what_a_trial_was)
{
	static const struct {
		const char *line, *says[3];
	} lines[] = {
		{"seed=1 workload=2 site=none occurrence=0 guard=digest", {"\"digest\": {\"outcome\": \"masked\""}},
		{"seed=1 workload=2 site=table.row.swap occurrence=3",
			{"\"step\": 3", "\"observed\": \"leak\"", "\"outcome\": \"detected\""}},
		/* the request that was stopped leaves no reference behind that keeps a page from the next one */
		{"seed=3005004906 workload=3144681406 site=radix.hit.stale occurrence=18 guard=tags",
			{"\"observed\": \"leak\"", "\"outcome\": \"detected\"", "\"collateral\": 0"}},
		{"seed=1 workload=2 site=table.row.swap occurrence=2147483647",
			{"\"step\": 0", "\"observed\": \"not_activated\""}},
	};

	for (int i = 0; i < COUNT(lines); i++) {
		struct outcome o = RUN("inject", "--replay", lines[i].line, "--json", "--quiet");
		expect_exit(&o, 0);
		for (int k = 0; k < 3 && lines[i].says[k]; k++)
			ck_assert_msg(
				strstr(buf_text(&o.out), lines[i].says[k]), "%s: %s", lines[i].line, buf_text(&o.out));
		outcome_free(&o);
	}
}
END_TEST

START_TEST(without_a_fault_nothing_fires)
{
	const char *db = database();
	struct outcome o = RUN("inject", "--db", db, "--sites", "none", "--trials", "10", "--seed", "1", "--guard",
		"tags,pages,chain,digest", "--json", "--quiet");
	expect_exit(&o, 0);
	struct json_document *document = parse(buf_str(&o.out));
	ck_assert_int_eq(json_path_int(json_root(document), "false_alarms"), 0);
	ck_assert_int_eq(json_path_int(json_root(document), "collateral"), 0);
	ck_assert_int_gt(json_path_int(json_root(document), "checked_steps"), 10 * 4 * 10);
	ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM fault_trial WHERE outcome = 'masked'"), 40);
	ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM incident"), 0);
	json_free(document);
	outcome_free(&o);
}
END_TEST

/* Waits until so many trials are stored. */
static void rows_await(const char *db, int64_t n)
{
	for (int i = 0; i < 3000; i++) {
		if (access(db, F_OK) == 0 &&
			sql_int(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'fault_trial'") &&
			sql_int(db, "SELECT count(*) FROM fault_trial") >= n)
			return;
		usleep(20000);
	}
	ck_abort_msg("%s: no %" PRId64 " trials", db, n);
}

/* Long enough to be interrupted after its first ten trials. */
static const char *long_trials(void)
{
	return test_build_is_slow() ? "80" : "400";
}

static struct call long_campaign(const char *db)
{
	return (struct call){.arguments = {"inject", "--db", db, "--trials", long_trials(), "--seed", "3", "--json"}};
}

START_TEST(an_interrupted_campaign_is_gone_on_with)
{
	const char *db = database();
	struct call here = long_campaign(db), there = long_campaign(database());
	struct program p = program_start(&here);

	rows_await(db, 20);
	kill(p.pid, SIGINT);
	struct outcome first = program_wait(p);
	expect_exit(&first, 130);
	ck_assert_uint_eq(first.out.length, 0);
	int64_t stored = sql_int(db, "SELECT count(*) FROM fault_trial");
	ck_assert(stored >= 20 && stored < 2 * strtoll(long_trials(), NULL, 10));
	expect_sql(db, "SELECT status FROM run", "interrupted\n");

	struct outcome second = program_run(&here), third = program_run(&there);
	ck_assert_str_eq(buf_text(&second.out), buf_text(&third.out));
	expect_sql(db, "SELECT count(*), status FROM run", "1|complete\n");
	ck_assert_int_eq(sql_int(db, "SELECT count(*) FROM fault_trial"), 2 * strtoll(long_trials(), NULL, 10));
	outcome_free(&first);
	outcome_free(&second);
	outcome_free(&third);
}
END_TEST

START_TEST(two_processes_do_not_write_one_campaign)
{
	static const char *const pieces[] = {"run 1 of this configuration is being written by process", NULL};
	const char *db = database();
	struct call call = {.arguments = {"inject", "--db", db, "--sites", "none", "--trials", "20000", "--seed", "3",
				    "--threads", "1"}};
	struct program p = program_start(&call);

	rows_await(db, 1);
	expect_failure(program_run(&call), 4, pieces);
	kill(p.pid, SIGINT);
	struct outcome first = program_wait(p);
	expect_exit(&first, 130);
	outcome_free(&first);
}
END_TEST

START_TEST(the_list_names_every_site)
{
	struct outcome text = RUN("inject", "--list"), o = RUN("inject", "--list", "--json");

	expect_exit(&text, 0);
	expect_exit(&o, 0);
	struct json_document *document = parse(buf_str(&o.out));
	const struct json *sites = json_get(json_root(document), "sites");
	ck_assert_uint_gt(sites->count, 26);
	JSON_EACH (site, sites) {
		static const char *const members[] = {"site", "model", "where", "level", "bug", "does", "reason"};
		for (size_t i = 0; i < sizeof members / sizeof *members; i++)
			ck_assert_uint_gt(json_path(site, members[i])->text.length, 0);
		ck_assert_ptr_nonnull(strstr(buf_text(&text.out), json_path(site, "site")->text.data));
	}
	json_free(document);
	outcome_free(&text);
	outcome_free(&o);
}
END_TEST

static const struct {
	struct call call;
	const char *pieces[4];
} refusals[] = {
	{{.arguments = {"inject", "--sites", "M14"}}, {"--sites 'm14'", "M1 to M13"}},
	{{.arguments = {"inject", "--sites", "all,pool.free"}}, {"--sites 'pool.free'", "--list"}},
	{{.arguments = {"inject", "--sites", "none", "--exhaustive"}}, {"--exhaustive needs sites"}},
	{{.arguments = {"inject", "--sites", "none", "--guard", "none"}}, {"--guard none checks nothing"}},
	{{.arguments = {"inject", "--guard", "pages,strict"}}, {"'strict'", "tags"}},
	{{.arguments = {"inject", "--trials", "0"}}, {"--trials", "1"}},
	{{.arguments = {"inject", "--replay", "seed=1"}}, {"--replay", "workload="}},
	{{.arguments = {"inject", "--replay", "seed=1 workload=1 site=x occurrence=0"}}, {"--replay", "site 'x'"}},
	{{.arguments = {"inject", "--replay", "seed=1 workload=1 site=none occurrence=0", "--seed", "2"}},
		{"--replay takes all from its line", "--seed"}},
	{{.arguments = {"inject", "--seed", "-1"}}, {"--seed"}},
	{{.arguments = {"inject", "--model", "/no/such/model"}}, {"/no/such/model"}},
	{{.arguments = {"inject", "--limit", "3"}}, {"does not take --limit"}},
};

START_TEST(what_makes_no_campaign_is_refused)
{
	expect_failure(program_run(&refusals[_i].call), 2, refusals[_i].pieces);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *cases = test_case(suite, "campaigns", 300);
	TCase *words = test_case(suite, "words", 30);

	tcase_add_test(cases, a_seed_decides_every_byte);
	tcase_add_test(cases, a_replay_line_reproduces_its_outcome);
	tcase_add_test(cases, a_replay_tells_what_a_trial_was);
	tcase_add_test(cases, without_a_seed_the_chosen_one_is_told);
	tcase_add_test(cases, without_a_fault_nothing_fires);
	tcase_add_test(cases, an_interrupted_campaign_is_gone_on_with);
	tcase_add_test(cases, two_processes_do_not_write_one_campaign);
	tcase_add_test(words, the_list_names_every_site);
	tcase_add_loop_test(words, what_makes_no_campaign_is_refused, 0, (int)(sizeof refusals / sizeof *refusals));
}
