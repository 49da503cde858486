/* The command line: every option's values, who takes what, suggestions, help. */
#include <locale.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "evals/cli.h"
#include "evals/option_table.h"
#include "evals/option_values.h"
#include "tests/support.h"

const char *const test_program_name = "options";

enum { MAX_WORDS = 80 };

/* Splits line at blanks (a '_' stands for one inside a word) and parses "assay LINE". */
static int parse_line(const char *line, struct options *o, struct error *e)
{
	static char storage[8192];
	static char *words[MAX_WORDS + 1];
	int n = 0;
	ck_assert_uint_lt(strlen(line), sizeof(storage));
	memcpy(storage, line, strlen(line) + 1);
	words[n++] = (char *)(uintptr_t) "assay";
	for (char *c = storage; *c;) {
		ck_assert_int_lt(n, MAX_WORDS);
		words[n++] = c;
		c += strcspn(c, " ");
		if (*c)
			*c++ = '\0';
	}
	words[n] = NULL;
	return options_parse(n, words, o, e);
}

/* ---- Refusals ---- */

static const struct refusal {
	const char *line;
	const char *says; /* a part of the message */
} refusals[] = {
	{"", "expected a command"},
	{"--json list", "expected a command before '--json'"},
	{"lst", "did you mean 'list'"},
	{"rnu", "did you mean 'run'"},
	{"frobnicate", "'assay --help' lists them"},
	{"help lst", "did you mean 'list'"},
	{"run --limt 5", "did you mean --limit"},
	{"run --LIMIT 5", "did you mean --limit"},
	{"run --kvmemory 5", "did you mean --kv-memory"},
	{"run --frobnicate", "'assay run --help' lists them"},
	{"run -x", "no option '-x'"},
	{"run -qv", "no option '-qv'"},
	{"run --", NULL},
	{"run surprise", "unexpected argument 'surprise'"},
	{"run -- --json", "unexpected argument '--json'"},
	{"list --limit 5", "does not take --limit, it belongs to: run, prompts"},
	{"tokenize --db x", "belongs to: run, list, show"},
	{"show --suite gsm8k 1", "does not take --suite"},
	{"show", "expected RUN"},
	{"show 1 2", "unexpected argument '2'"},
	{"rescore --suite gsm8k", "expected FILE"},
	{"run --model", "--model: no value, expected PATH"},
	{"run --model --json", "--model=--json"},
	{"run --model --", "--model=--"},
	{"run --model=", "not empty"},
	{"run --json=yes", "takes no value"},
	{"run --db=", "not empty"},
	{"run --limit 0", "'0', expected a number of items"},
	{"run --limit 0.0", "expected a number of items"},
	{"run --limit -1", "expected a number of items"},
	{"run --limit=-0.5", "expected a number of items"},
	{"run --limit nan", "expected a number of items"},
	{"run --limit NaN", "expected a number of items"},
	{"run --limit inf", "expected a number of items"},
	{"run --limit 1e999", "expected a number of items"},
	{"run --limit 0,5", "expected a number of items"},
	{"run --limit 5x", "expected a number of items"},
	{"run --limit 0x10", "expected a number of items"},
	{"run --limit +5", "expected a number of items"},
	{"run --limit .", "expected a number of items"},
	{"run --limit 1e", "expected a number of items"},
	{"run --limit=", "expected a number of items"},
	{"run --fewshot -1", "a whole number from 0 to 1000"},
	{"run --fewshot 1001", "a whole number from 0 to 1000"},
	{"run --fewshot 5.0", "a whole number"},
	{"run --threads 0", "a whole number from 1 to 1024"},
	{"run --threads 4x", "'4x'"},
	{"run --threads 18446744073709551617", "a whole number"},
	{"run --chunk 2147483648", "to 2147483647"},
	{"run --page-size 0", "from 1"},
	{"run --max-requests 0", "from 1"},
	{"run --max-batch-tokens 0", "from 1"},
	{"run --seed -1", "64 bits"},
	{"run --seed 18446744073709551616", "64 bits"},
	{"run --seed 1.5", "64 bits"},
	{"run --seed=", "64 bits"},
	{"run --kv-memory 0", "MiB"},
	{"run --kv-memory 1MB", "MiB"},
	{"run --kv-memory 1mib", "MiB"},
	{"run --guard tagz", "one of none, tags, pages, chain, digest"},
	{"run --color sometimes", "one of auto, always, never"},
	{"run --suite gsm8k,,recall", "separated by commas"},
	{"run --suite ,", "separated by commas"},
	{"run --suite=", "separated by commas"},
	{"run --suite gsm8k,recall --suite GSM8K", "'gsm8k' is given twice"},
	{"run --variant int4/fp8 --variant int4/fp8", "'int4/fp8' is given twice"},
	{"run --variant=", "not empty"},
	{"generate --max-tokens 0", "from 1"},
	{"generate --temperature -1", "from 0"},
	{"generate --temperature nan", "a number from 0"},
	{"generate --top-p 1.5", "from 0 to 1"},
	{"generate --top-k -1", "from 0"},
	{"generate --prompt", "expected TEXT"},
	{"generate --prompt --stop", "no value before '--stop'"},
};

START_TEST(refused)
{
	const struct refusal *r = &refusals[_i];
	struct options o;
	struct error e = {0};
	int status = parse_line(r->line, &o, &e);
	if (r->says) {
		ck_assert_msg(status == ERR_USAGE, "'%s': status %d", r->line, status);
		ck_assert_int_eq(error_exit_code(status), 2);
		ck_assert_msg(strstr(e.message, r->says) != NULL, "'%s': '%s' lacks '%s'", r->line, e.message, r->says);
	} else {
		ck_assert_msg(status == 0, "'%s': %s", r->line, e.message);
	}
	options_free(&o);
}
END_TEST

START_TEST(too_many_values)
{
	struct buf line = {0};
	buf_append_text(&line, "run --suite s");
	for (int i = 1; i < CLI_MAX_LIST; i++)
		buf_printf(&line, ",s%d", i);
	struct options o;
	CHECK_OK(parse_line(buf_text(&line), &o, &test_error));
	ck_assert_int_eq(o.n_suites, CLI_MAX_LIST);
	ck_assert_str_eq(o.suites[CLI_MAX_LIST - 1], "s63");
	options_free(&o);
	buf_append_text(&line, ",s64");
	struct error e = {0};
	ck_assert_int_eq(parse_line(buf_text(&line), &o, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.message, "more than 64"));
	options_free(&o);
	buf_free(&line);
}
END_TEST

/* ---- What is accepted ---- */

START_TEST(defaults)
{
	struct options o;
	CHECK_OK(parse_line("run", &o, &test_error));
	ck_assert_str_eq(o.command, "run");
	ck_assert_int_eq(o.fewshot, -1);
	ck_assert_double_eq(o.limit, 0);
	ck_assert_double_eq(o.temperature, 0);
	ck_assert_double_eq(o.top_p, 1);
	ck_assert_int_eq(o.threads, 0);
	ck_assert_uint_eq(o.kv_memory, 0);
	ck_assert(!o.has_seed && !o.json && !o.quiet && !o.verbose && !o.dry_run && !o.help && !o.version);
	ck_assert_ptr_null(o.model);
	ck_assert_ptr_null(o.db);
	ck_assert_ptr_null(o.guard);
	ck_assert_int_eq(o.n_variants + o.n_suites + o.n_stops + o.n_arguments, 0);
	ck_assert_int_eq(o.color, COLOR_AUTO);
	ck_assert_str_eq(o.note, "");
	options_free(&o);
}
END_TEST

START_TEST(every_option_of_run)
{
	struct options o;
	CHECK_OK(parse_line(
		"run --model m --variant bf16/bf16 --variant=fp8/bf16>int4/fp8 --data d --suite GSM8K,Arc_Easy"
		" --suite ./Exam,My.Jsonl --fewshot 0 --limit 0.5 --seed 18446744073709551615 --guard none --threads 3"
		" --page-size 16 --kv-memory 1.5GiB --max-batch-tokens 512 --chunk 64 --max-requests 8 --db f --json"
		" --no-prefix-cache --pad-decode --deadline 2.5"
		" --dry-run --color never -q -v",
		&o, &test_error));
	ck_assert_str_eq(o.model, "m");
	ck_assert_int_eq(o.n_variants, 2);
	ck_assert_str_eq(o.variants[0], "bf16/bf16");
	ck_assert_str_eq(o.variants[1], "fp8/bf16>int4/fp8");
	ck_assert_str_eq(o.data, "d");
	ck_assert_int_eq(o.n_suites, 4);
	ck_assert_str_eq(o.suites[0], "gsm8k");
	ck_assert_str_eq(o.suites[1], "arc_easy");
	ck_assert_str_eq(o.suites[2], "./Exam");
	ck_assert_str_eq(o.suites[3], "My.Jsonl");
	ck_assert_int_eq(o.fewshot, 0);
	ck_assert_double_eq(o.limit, 0.5);
	ck_assert(o.has_seed && o.seed == UINT64_MAX);
	ck_assert_str_eq(o.guard, "none");
	ck_assert_int_eq(o.threads, 3);
	ck_assert_int_eq(o.page_size, 16);
	ck_assert_uint_eq(o.kv_memory, 3u << 29);
	ck_assert_int_eq(o.max_batch_tokens, 512);
	ck_assert_int_eq(o.chunk, 64);
	ck_assert_int_eq(o.max_requests, 8);
	ck_assert(o.no_prefix_cache && o.pad_decode);
	ck_assert_double_eq(o.deadline, 2.5);
	ck_assert_str_eq(o.db, "f");
	ck_assert(o.json && o.dry_run && o.quiet && o.verbose);
	ck_assert_int_eq(o.color, COLOR_NEVER);
	options_free(&o);
}
END_TEST

START_TEST(options_of_other_commands)
{
	struct options o;
	CHECK_OK(parse_line(
		"generate --prompt -5 --prompts p --stop a --stop=--json --max-tokens 7 --temperature 1e-1 --top-p .9"
		" --top-k 40",
		&o, &test_error));
	ck_assert_str_eq(o.prompt, "-5");
	ck_assert_str_eq(o.prompts, "p");
	ck_assert_int_eq(o.n_stops, 2);
	ck_assert_str_eq(o.stops[1], "--json");
	ck_assert_int_eq(o.max_tokens, 7);
	ck_assert_double_eq(o.temperature, 0.1);
	ck_assert_double_eq(o.top_p, 0.9);
	ck_assert_int_eq(o.top_k, 40);
	options_free(&o);

	CHECK_OK(parse_line(
		"bench --concurrency 1,8 --input 9 --output 7 --repeat 2 --shared-prefix 5 --residents --seed 3", &o,
		&test_error));
	ck_assert_int_eq(o.n_concurrency, 2);
	ck_assert_str_eq(o.concurrency[1], "8");
	ck_assert(o.input == 9 && o.output == 7 && o.repeat == 2 && o.shared_prefix == 5 && o.residents);
	ck_assert(o.has_seed && o.seed == 3);
	options_free(&o);

	CHECK_OK(parse_line("generate --prompt=", &o, &test_error));
	ck_assert_str_eq(o.prompt, "");
	options_free(&o);

	CHECK_OK(parse_line("tokenize --model m --ids --json-lines -- -file", &o, &test_error));
	ck_assert(o.ids && o.json_lines && o.n_arguments == 1);
	ck_assert_str_eq(o.arguments[0], "-file");
	options_free(&o);

	CHECK_OK(parse_line("prompts --data d --suite s --hashes --samples", &o, &test_error));
	ck_assert(o.hashes && o.samples);
	ck_assert_ptr_null(o.show_samples);
	options_free(&o);

	CHECK_OK(parse_line("show --samples gsm8k latest --json", &o, &test_error));
	ck_assert_str_eq(o.show_samples, "gsm8k");
	ck_assert_str_eq(o.arguments[0], "latest");
	ck_assert(!o.samples);
	options_free(&o);

	CHECK_OK(parse_line("list --suites --color always", &o, &test_error));
	ck_assert(o.list_suites && o.color == COLOR_ALWAYS);
	options_free(&o);

	CHECK_OK(parse_line("rescore --suite filters -", &o, &test_error));
	ck_assert_str_eq(o.arguments[0], "-");
	options_free(&o);
}
END_TEST

START_TEST(last_one_counts)
{
	struct options o;
	CHECK_OK(parse_line("run --limit 1.0 --limit 3 --db a --db b", &o, &test_error));
	ck_assert_double_eq(o.limit, 3);
	ck_assert_str_eq(o.note, "");
	ck_assert_str_eq(o.db, "b");
	options_free(&o);
}
END_TEST

static const struct limit_case {
	const char *text;
	double limit;
	const char *note; /* a part of it; NULL: none */
} limits[] = {
	{"0.5", 0.5, NULL},
	{"0.999", 0.999, NULL},
	{".1", 0.1, NULL},
	{"1", 1, NULL},
	{"1.0", 1, "first 1 item of each"},
	{"1.", 1, "first 1 item of each"},
	{"2.9", 2.9, "first 2 items of each"},
	{"100", 100, NULL},
	{"1e2", 100, NULL},
	{"1e300", 1e300, NULL},
};

START_TEST(limit_values)
{
	const struct limit_case *c = &limits[_i];
	char line[64];
	snprintf(line, sizeof(line), "run --limit %s", c->text);
	struct options o;
	CHECK_OK(parse_line(line, &o, &test_error));
	ck_assert_double_eq(o.limit, c->limit);
	if (c->note)
		ck_assert_msg(strstr(o.note, c->note) != NULL, "%s: '%s'", c->text, o.note);
	else
		ck_assert_str_eq(o.note, "");
	options_free(&o);
}
END_TEST

/* ---- Values ---- */

static const struct size_case {
	const char *text;
	bool good;
	uint64_t bytes;
} sizes[] = {
	{"0", true, 0},
	{"1", true, 1},
	{"4096", true, 4096},
	{"0001", true, 1},
	{"1KiB", true, 1024},
	{"512MiB", true, 536870912},
	{"1GiB", true, 1073741824},
	{"1.5GiB", true, 1610612736},
	{"0.1KiB", true, 102},
	{"0.000000001GiB", true, 1},
	{"18446744073709551615", true, UINT64_MAX},
	{"17179869183GiB", true, 17179869183u * (uint64_t)1073741824},
	{"17179869183.999999999GiB", true, 17179869183u * (uint64_t)1073741824 + 1073741822},
	{"17179869184GiB", false, 0},
	{"18446744073709551616", false, 0},
	{"99999999999999999999999999", false, 0},
	{"", false, 0},
	{"KiB", false, 0},
	{".5GiB", false, 0},
	{"1.GiB", false, 0},
	{"1.5", false, 0},
	{"1.0000000001GiB", false, 0},
	{"1,5GiB", false, 0},
	{"-1", false, 0},
	{"+1", false, 0},
	{" 1", false, 0},
	{"1 KiB", false, 0},
	{"1kib", false, 0},
	{"1K", false, 0},
	{"1TiB", false, 0},
	{"1KiBx", false, 0},
	{"0x10", false, 0},
};

START_TEST(size_values)
{
	const struct size_case *c = &sizes[_i];
	uint64_t bytes = 0;
	int status = parse_size(c->text, &bytes);
	ck_assert_msg((status == 0) == c->good, "'%s': status %d", c->text, status);
	if (c->good)
		ck_assert_msg(bytes == c->bytes, "'%s': %llu", c->text, (unsigned long long)bytes);
	else
		ck_assert_int_eq(status, ERR_USAGE);
}
END_TEST

START_TEST(distances)
{
	/* optimal string alignment: worked out by hand */
	ck_assert_int_eq(option_distance("limit", "limit", 3), 0);
	ck_assert_int_eq(option_distance("LIMIT", "limit", 3), 0);
	ck_assert_int_eq(option_distance("limt", "limit", 3), 1);
	ck_assert_int_eq(option_distance("lmiit", "limit", 3), 1);
	ck_assert_int_eq(option_distance("", "abc", 5), 3);
	ck_assert_int_eq(option_distance("abc", "", 5), 3);
	ck_assert_int_eq(option_distance("kitten", "sitting", 5), 3);
	ck_assert_int_eq(option_distance("abcdefgh", "ijklmnop", 3), 4);
	char longest[100];
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	ck_assert_int_eq(option_distance(longest, "a", 2), 3);
	const char *const none[] = {NULL};
	ck_assert_ptr_null(option_nearest("run", none));
	const char *const both[] = {"runs", "run", NULL};
	ck_assert_str_eq(option_nearest("rnu", both), "run");
}
END_TEST

/* The program stays in the C locale; should a library change it, values are still read the same. */
START_TEST(any_locale)
{
	static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "tr_TR.UTF-8"};
	if (!setlocale(LC_ALL, locales[_i]))
		SKIP("locale %s is not installed", locales[_i]);
	struct options o;
	struct error e = {0};
	CHECK_OK(parse_line("run --limit 0.5 --suite ARC_EASY,IİI", &o, &test_error));
	ck_assert(o.limit > 0.4 && o.limit < 0.6);
	ck_assert_str_eq(o.suites[0], "arc_easy");
	ck_assert_str_eq(o.suites[1], "iİi");
	options_free(&o);
	ck_assert_int_eq(parse_line("run --limit 0,5", &o, &e), ERR_USAGE);
	options_free(&o);
	ck_assert(option_same_name("ARC_EASY", "arc_easy"));
	setlocale(LC_ALL, "C");
}
END_TEST

/* ---- Help ---- */

START_TEST(help_asked_for)
{
	static const struct {
		const char *line, *command;
	} cases[] = {{"--help", NULL}, {"-h", NULL}, {"help", NULL}, {"help run", "run"}, {"--help show", "show"},
		{"show --help", "show"}, {"run --json -h --bogus", "run"}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct options o;
		CHECK_OK(parse_line(cases[i].line, &o, &test_error));
		ck_assert_msg(o.help, "%s", cases[i].line);
		if (cases[i].command)
			ck_assert_str_eq(o.command, cases[i].command);
		else
			ck_assert_ptr_null(o.command);
		options_free(&o);
	}
	struct options o;
	CHECK_OK(parse_line("--version", &o, &test_error));
	ck_assert(o.version && !o.help);
	options_free(&o);
}
END_TEST

/* Every command's help names each of its options, and none of the others; lines fit a wide terminal. */
START_TEST(help_texts)
{
	struct buf overview = {0};
	options_help(NULL, &overview);
	for (const struct command_row *c = command_table; c->name; c++) {
		ck_assert_ptr_nonnull(strstr(buf_text(&overview), c->summary));
		struct buf text = {0};
		options_help(c->name, &text);
		ck_assert_ptr_nonnull(strstr(buf_text(&text), c->name));
		for (const struct option_row *row = option_table; row->name; row++) {
			char wanted[80];
			snprintf(wanted, sizeof(wanted), "--%s%s%s ", row->name, row->value ? " " : "",
				row->value ? row->value : "");
			bool there =
				strstr(buf_text(&text), wanted) != NULL && strstr(buf_text(&text), row->help) != NULL;
			ck_assert_msg(there == ((row->commands & c->bit) != 0), "%s %s", c->name, row->name);
		}
		for (const char *line = buf_text(&text); *line; line += strcspn(line, "\n") + 1)
			ck_assert_msg(strcspn(line, "\n") <= 130, "%s: %.*s", c->name, (int)strcspn(line, "\n"), line);
		buf_free(&text);
	}
	buf_free(&overview);
}
END_TEST

/* ---- Where the database is ---- */

START_TEST(database_path)
{
	static const struct {
		const char *db, *xdg, *home, *path;
	} cases[] = {
		{"x.db", "/xdg", "/home/u", "x.db"},
		{NULL, "/xdg", "/home/u", "/xdg/assay/assay.db"},
		{NULL, "/xdg/", "/home/u", "/xdg/assay/assay.db"},
		{NULL, "relative", "/home/u", "/home/u/.local/share/assay/assay.db"},
		{NULL, "", "/home/u", "/home/u/.local/share/assay/assay.db"},
		{NULL, NULL, "/home/u", "/home/u/.local/share/assay/assay.db"},
		{NULL, NULL, "", NULL},
		{NULL, NULL, NULL, NULL},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct options o = {.db = cases[i].db};
		struct error e = {0};
		unsetenv("XDG_DATA_HOME");
		unsetenv("HOME");
		if (cases[i].xdg)
			setenv("XDG_DATA_HOME", cases[i].xdg, 1);
		if (cases[i].home)
			setenv("HOME", cases[i].home, 1);
		char *path = db_path(&o, &e);
		if (cases[i].path) {
			ck_assert_str_eq(path, cases[i].path);
		} else {
			ck_assert_ptr_null(path);
			ck_assert_int_eq(e.code, ERR_USAGE);
		}
		free(path);
	}
}
END_TEST

START_TEST(pocket_set)
{
	struct error e = {0};
	char *folder = pocket_folder(&e);
	if (!folder) {
		ck_assert_int_eq(e.code, ERR_MISSING);
		ck_assert_ptr_nonnull(strstr(e.message, "datasets/pocket"));
		SKIP("%s", e.message);
	}
	struct stat info;
	ck_assert_int_eq(stat(folder, &info), 0);
	ck_assert(S_ISDIR(info.st_mode));
	free(folder);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *refusing = test_case(suite, "refusals", 0);
	tcase_add_loop_test(refusing, refused, 0, (int)(sizeof(refusals) / sizeof(refusals[0])));
	tcase_add_test(refusing, too_many_values);

	TCase *accepting = test_case(suite, "accepted", 0);
	tcase_add_test(accepting, defaults);
	tcase_add_test(accepting, every_option_of_run);
	tcase_add_test(accepting, options_of_other_commands);
	tcase_add_test(accepting, last_one_counts);
	tcase_add_loop_test(accepting, limit_values, 0, (int)(sizeof(limits) / sizeof(limits[0])));

	TCase *values = test_case(suite, "values", 0);
	tcase_add_loop_test(values, size_values, 0, (int)(sizeof(sizes) / sizeof(sizes[0])));
	tcase_add_test(values, distances);
	tcase_add_loop_test(values, any_locale, 0, 3);

	TCase *help = test_case(suite, "help", 0);
	tcase_add_test(help, help_asked_for);
	tcase_add_test(help, help_texts);

	TCase *places = test_case(suite, "places", 0);
	tcase_add_test(places, database_path);
	tcase_add_test(places, pocket_set);
}
