/* What a person sees: progress on a terminal and elsewhere, colours, text that is safe to print, tables. */
#include <math.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "evals/console.h"
#include "tests/support.h"

const char *const test_program_name = "console";

static int64_t fake_now_ns = 1;

static int64_t fake_now(void)
{
	return fake_now_ns;
}

static void plain_environment(void)
{
	unsetenv("NO_COLOR");
	unsetenv("FORCE_COLOR");
	unsetenv("CLICOLOR_FORCE");
	unsetenv("CI");
	setenv("TERM", "xterm", 1);
}

/* ---- Colours ---- */

START_TEST(colors)
{
	static const struct {
		enum color_mode mode;
		bool terminal;
		const char *name, *value;
		bool wanted;
	} cases[] = {
		{COLOR_AUTO, true, "X_UNUSED", "", true},
		{COLOR_AUTO, false, "X_UNUSED", "", false},
		{COLOR_AUTO, true, "NO_COLOR", "1", false},
		{COLOR_AUTO, true, "NO_COLOR", "0", false},
		{COLOR_AUTO, true, "NO_COLOR", "", true},
		{COLOR_AUTO, false, "FORCE_COLOR", "1", true},
		{COLOR_AUTO, false, "FORCE_COLOR", "0", false},
		{COLOR_AUTO, false, "FORCE_COLOR", "", false},
		{COLOR_AUTO, false, "CLICOLOR_FORCE", "1", true},
		{COLOR_AUTO, true, "TERM", "dumb", false},
		{COLOR_AUTO, true, "TERM", "", false},
		{COLOR_ALWAYS, false, "NO_COLOR", "1", true},
		{COLOR_NEVER, true, "FORCE_COLOR", "1", false},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		plain_environment();
		setenv(cases[i].name, cases[i].value, 1);
		ck_assert_msg(console_wants_color(cases[i].mode, cases[i].terminal) == cases[i].wanted,
			"case %zu: %s='%s'", i, cases[i].name, cases[i].value);
	}
	plain_environment();
	setenv("NO_COLOR", "1", 1);
	setenv("FORCE_COLOR", "1", 1);
	ck_assert(!console_wants_color(COLOR_AUTO, true));
}
END_TEST

/* ---- Progress without a terminal ---- */

/* All that was written to file, as a string that the caller frees. */
static char *content_of(FILE *file)
{
	fflush(file);
	long size = ftell(file);
	ck_assert_int_ge(size, 0);
	char *text = calloc(1, (size_t)size + 1);
	ck_assert_ptr_nonnull(text);
	rewind(file);
	ck_assert_uint_eq(fread(text, 1, (size_t)size, file), (size_t)size);
	return text;
}

static int count_lines(const char *text)
{
	int lines = 0;
	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

START_TEST(plain_progress)
{
	plain_environment();
	FILE *file = tmpfile();
	struct options o = {.color = COLOR_AUTO};
	struct console c;
	console_init(&c, &o, file, file);
	ck_assert(!c.bar && !c.color_output && !c.color_messages);
	c.now = fake_now;

	/* 1000 updates over 16 seconds, in two tasks: lines at 5, 10 and 15 seconds. */
	struct progress p;
	progress_begin(&p, &c, "gsm8k bf16/fp8", 1000, 0);
	for (int i = 1; i <= 500; i++) {
		fake_now_ns += 16000000;
		progress_update(&p, i);
	}
	progress_end(&p);
	progress_begin(&p, &c, "re\x1b[31mcall\n", 600, 100);
	for (int i = 1; i <= 500; i++) {
		fake_now_ns += 16000000;
		progress_update(&p, 100 + i);
	}
	progress_end(&p);
	console_note(&c, "a note");
	console_detail(&c, "a detail");
	console_error(&c, "an error");

	char *text = content_of(file);
	ck_assert_ptr_null(strchr(text, '\r'));
	ck_assert_ptr_null(strchr(text, '\033'));
	ck_assert_str_eq(text,
		"gsm8k bf16/fp8: 313/1000, 62.5/s, 0:10 left\n"
		"re\\x1b[31mcall\\n: 226/600, 62.5/s, 0:05 left\n"
		"re\\x1b[31mcall\\n: 539/600, 62.5/s, 0:00 left\n"
		"assay: a note\n"
		"assay: an error\n");
	free(text);
	fclose(file);
}
END_TEST

START_TEST(quiet_progress)
{
	plain_environment();
	FILE *file = tmpfile();
	struct options o = {.quiet = true, .verbose = true};
	struct console c;
	console_init(&c, &o, file, file);
	c.now = fake_now;
	struct progress p;
	progress_begin(&p, &c, "x", 10, 0);
	fake_now_ns += 100 * (int64_t)1000000000;
	progress_update(&p, 5);
	progress_end(&p);
	console_note(&c, "a note");
	console_detail(&c, "a detail");
	console_error(&c, "an error");
	char *text = content_of(file);
	ck_assert_str_eq(text, "assay: an error\n");
	free(text);
	fclose(file);
}
END_TEST

/* Nothing, one and more than there is: no division by zero, no bar past its end. */
START_TEST(odd_progress)
{
	plain_environment();
	FILE *file = tmpfile();
	struct options o = {.verbose = true};
	struct console c;
	console_init(&c, &o, file, file);
	c.now = fake_now;
	struct progress p;
	progress_begin(&p, &c, "", 0, 0);
	fake_now_ns += 6 * (int64_t)1000000000;
	progress_update(&p, 0);
	progress_end(&p);
	progress_begin(&p, &c, "long", 1000000, 0);
	fake_now_ns += 20 * (int64_t)1000000000;
	progress_update(&p, 1);
	progress_end(&p);
	console_detail(&c, "%s", "a detail");
	char *text = content_of(file);
	ck_assert_str_eq(text, ": 0/0\nlong: 1/1000000, 0.1/s, 5555:33:00 left\nassay: a detail\n");
	free(text);
	fclose(file);
}
END_TEST

/* ---- Progress on a terminal ---- */

struct terminal {
	int master;
	FILE *slave;
};

/* A system without /dev/pts has no pseudo-terminals. */
static bool terminal_possible(void)
{
	int master, slave;
	if (openpty(&master, &slave, NULL, NULL, NULL) != 0)
		return false;
	close(master);
	close(slave);
	return true;
}

static struct terminal terminal_open(int columns)
{
	struct terminal t;
	int slave;
	struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
	struct termios raw;
	ck_assert_int_eq(openpty(&t.master, &slave, NULL, NULL, &size), 0);
	ck_assert_int_eq(tcgetattr(slave, &raw), 0);
	cfmakeraw(&raw); /* a line feed stays one */
	ck_assert_int_eq(tcsetattr(slave, TCSANOW, &raw), 0);
	t.slave = fdopen(slave, "w");
	ck_assert_ptr_nonnull(t.slave);
	return t;
}

/* What arrived at the screen; closes the terminal. */
static struct buf terminal_close(struct terminal *t)
{
	struct buf text = {0};
	char block[4096];
	ssize_t n;
	fflush(t->slave);
	/* The end of output is marked by a byte: reading past it would wait. */
	ck_assert_int_eq(write(fileno(t->slave), "\004", 1), 1);
	while ((n = read(t->master, block, sizeof(block))) > 0) {
		buf_append(&text, block, (size_t)n);
		if (block[n - 1] == '\004')
			break;
	}
	text.length--;
	text.data[text.length] = '\0';
	fclose(t->slave);
	close(t->master);
	return text;
}

static struct buf bar_output(int columns)
{
	struct terminal t = terminal_open(columns);
	struct options o = {.color = COLOR_AUTO};
	struct console c;
	console_init(&c, &o, t.slave, t.slave);
	c.now = fake_now;
	struct progress p;
	progress_begin(&p, &c, "gsm8k", 200, 0);
	for (int i = 1; i <= 100; i++) {
		fake_now_ns += 10000000;
		progress_update(&p, i);
	}
	console_note(&c, "a note");
	progress_update(&p, 101); /* too soon after the last bar: nothing */
	progress_end(&p);
	return terminal_close(&t);
}

START_TEST(bar_on_terminal)
{
	if (!terminal_possible())
		SKIP("no pseudo-terminals here");
	plain_environment();
	setenv("NO_COLOR", "1", 1);
	struct buf text = bar_output(100);
	const char *start = "\rgsm8k [------------------------] 0/200";
	const char *last = "\rgsm8k [############------------] 100/200, 100.0/s, 0:01 left";
	ck_assert_msg(strncmp(buf_text(&text), start, strlen(start)) == 0, "%s", buf_text(&text));
	ck_assert_ptr_nonnull(strstr(buf_text(&text), last));
	ck_assert_ptr_null(strchr(buf_text(&text), '\033')); /* NO_COLOR: no escape at all, but still a bar */
	/* The bar is blanked before the note and is not there at the end. */
	const char *end = "\rassay: a note\n";
	ck_assert_str_eq(buf_text(&text) + text.length - strlen(end), end);
	ck_assert_int_eq(count_lines(buf_text(&text)), 1);
	/* One second at ten bars a second, and the first. */
	int bars = 0;
	for (const char *at = buf_text(&text); (at = strstr(at, "\rgsm8k")); at++)
		bars++;
	ck_assert_int_ge(bars, 10);
	ck_assert_int_le(bars, 12);
	buf_free(&text);
}
END_TEST

START_TEST(bar_on_narrow_terminal)
{
	if (!terminal_possible())
		SKIP("no pseudo-terminals here");
	plain_environment();
	struct buf text = bar_output(20);
	/* No line between carriage returns is longer than 19 columns. */
	for (const char *at = buf_text(&text); *at;) {
		size_t length = strcspn(at, "\r\n");
		ck_assert_int_le(text_width((struct str){at, length}), 19);
		at += length + (at[length] != '\0');
	}
	ck_assert_ptr_nonnull(strstr(buf_text(&text), "…"));
	buf_free(&text);
}
END_TEST

START_TEST(no_bar_in_ci)
{
	if (!terminal_possible())
		SKIP("no pseudo-terminals here");
	static const struct {
		const char *name, *value;
		bool bar;
	} cases[] = {{"CI", "1", false}, {"CI", "true", false}, {"CI", "", true}, {"CI", "false", true},
		{"TERM", "dumb", false}, {"X_UNUSED", "", true}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		plain_environment();
		setenv(cases[i].name, cases[i].value, 1);
		struct terminal t = terminal_open(80);
		struct options o = {.color = COLOR_AUTO};
		struct console c;
		console_init(&c, &o, t.slave, t.slave);
		ck_assert_msg(c.bar == cases[i].bar, "%s=%s", cases[i].name, cases[i].value);
		struct buf text = terminal_close(&t);
		ck_assert_uint_eq(text.length, 0);
		buf_free(&text);
	}
}
END_TEST

/* ---- Text ---- */

static const struct text_case {
	const char *name;
	struct str in;
	const char *printable;
	int width;
	const char *clipped; /* to 6 columns */
} texts[] = {
	{"empty", {"", 0}, "", 0, ""},
	{"ascii", {"hello", 5}, "hello", 5, "hello"},
	{"as wide as allowed", {"hello!", 6}, "hello!", 6, "hello!"},
	{"one too many", {"hello!!", 7}, "hello!!", 7, "hello…"},
	{"accents", {"Việt", 6}, "Việt", 4, "Việt"},
	{"combining", {"e\xcc\x81t\xcc\x81", 6}, "e\xcc\x81t\xcc\x81", 2, "e\xcc\x81t\xcc\x81"},
	{"wide", {"日本語", 9}, "日本語", 6, "日本語"},
	{"wide, too many", {"日本語x", 10}, "日本語x", 7, "日本…"},
	{"plus minus", {"±", 2}, "±", 1, "±"},
	{"controls", {"a\nb\t", 4}, "a\\nb\\t", 6, "a\\nb\\t"},
	{"escape", {"\x1b[", 2}, "\\x1b[", 5, "\\x1b["},
	{"nul", {"a\0b", 3}, "a\\x00b", 6, "a\\x00b"},
	{"c1 csi", {"\xc2\x9b", 2}, "\\x9b", 4, "\\x9b"},
	{"delete", {"\x7f", 1}, "\\x7f", 4, "\\x7f"},
	{"right-to-left override", {"\xe2\x80\xae", 3}, "\\u202e", 6, "\\u202e"},
	{"invalid", {"a\xff\xfe", 3}, "a\xef\xbf\xbd\xef\xbf\xbd", 3, "a\xef\xbf\xbd\xef\xbf\xbd"},
	{"cut", {"\xe2\x82", 2}, "\xef\xbf\xbd", 1, "\xef\xbf\xbd"},
};

START_TEST(safe_text)
{
	const struct text_case *c = &texts[_i];
	struct buf printable = {0};
	struct buf clipped = {0};
	text_append_printable(&printable, c->in);
	ck_assert_msg(str_is(buf_str(&printable), c->printable), "%s: '%s'", c->name, buf_text(&printable));
	ck_assert_msg(text_width(buf_str(&printable)) == c->width, "%s: %d", c->name, text_width(buf_str(&printable)));
	text_append_clipped(&clipped, buf_str(&printable), 6);
	ck_assert_msg(str_is(buf_str(&clipped), c->clipped), "%s: '%s'", c->name, buf_text(&clipped));
	buf_free(&printable);
	buf_free(&clipped);
}
END_TEST

START_TEST(clipped_to_nothing)
{
	struct buf out = {0};
	text_append_clipped(&out, str_of("abc"), 0);
	ck_assert_uint_eq(out.length, 0);
	text_append_clipped(&out, str_of("abc"), -3);
	ck_assert_uint_eq(out.length, 0);
	text_append_clipped(&out, str_of("abc"), 1);
	ck_assert_str_eq(buf_text(&out), "…");
	buf_free(&out);
}
END_TEST

static void check_bytes(int64_t bytes, const char *expected)
{
	struct buf out = {0};
	text_append_bytes(&out, bytes);
	ck_assert_str_eq(buf_text(&out), expected);
	buf_free(&out);
}

static void check_estimate(double value, double stderr_value, const char *expected)
{
	struct buf out = {0};
	text_append_estimate(&out, value, stderr_value);
	ck_assert_str_eq(buf_text(&out), expected);
	buf_free(&out);
}

START_TEST(numbers)
{
	check_bytes(0, "0 B");
	check_bytes(1023, "1023 B");
	check_bytes(1024, "1.0 KiB");
	check_bytes(1835008, "1.8 MiB");
	check_bytes(1048575, "1.0 MiB"); /* never "1024.0 KiB" */
	check_bytes((int64_t)16 << 30, "16.0 GiB");
	check_bytes(INT64_MAX, "8192.0 PiB");
	check_bytes(-1, "-1 B");
	check_estimate(0.651, 0.0131, "0.6510 ± 0.0131");
	check_estimate(0.5, (double)NAN, "0.5000 ± n/a");
	check_estimate((double)NAN, (double)NAN, "n/a ± n/a");
	check_estimate(0, 0, "0.0000 ± 0.0000");
}
END_TEST

/* ---- Tables ---- */

START_TEST(aligned_table)
{
	struct table t;
	struct buf out = {0};
	table_init(&t, "lrrl");
	const char *const cells[] = {"suite", "n", "value ± stderr", "not ok", "arc", "5", "0.5000 ± 0.0100", "",
		"日本", "12345", "1.0000 ± n/a", "1\nerror"};
	for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++)
		table_add(&t, str_of(cells[i]));
	CHECK_OK(table_write(&t, false, &out, &test_error));
	ck_assert_str_eq(buf_text(&out),
		"suite      n   value ± stderr  not ok\n"
		"arc        5  0.5000 ± 0.0100  \n"
		"日本   12345     1.0000 ± n/a  1\\nerror\n");
	buf_clear(&out);
	CHECK_OK(table_write(&t, true, &out, &test_error));
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "\033[1msuite"));
	ck_assert_ptr_nonnull(strstr(buf_text(&out), "not ok\033[0m\narc"));
	table_free(&t);
	buf_free(&out);
}
END_TEST

START_TEST(small_and_large_tables)
{
	struct table t;
	struct buf out = {0};
	table_init(&t, "l");
	CHECK_OK(table_write(&t, true, &out, &test_error));
	ck_assert_uint_eq(out.length, 0);
	for (int i = 0; i < 1000; i++)
		table_printf(&t, "%d", i);
	CHECK_OK(table_write(&t, false, &out, &test_error));
	ck_assert_int_eq(count_lines(buf_text(&out)), 1000);
	ck_assert_str_eq(buf_text(&out) + out.length - 4, "999\n");
	table_free(&t);
	table_free(&t);
	buf_free(&out);
}
END_TEST

/* ---- Signals ---- */

/* The exit status of a child that gets n signals and then waits for more. */
static int child_with_signals(int n, int number)
{
	pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		signal(SIGINT, SIG_IGN); /* as a script starts its background jobs */
		interrupt_handlers_install();
		if (interrupted())
			_exit(90);
		for (int i = 0; i < n; i++)
			raise(number);
		_exit(interrupted() ? 91 : 92);
	}
	int status = 0;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

START_TEST(signals)
{
	ck_assert_int_eq(child_with_signals(0, SIGINT), 92);
	ck_assert_int_eq(child_with_signals(1, SIGINT), 91);
	ck_assert_int_eq(child_with_signals(1, SIGTERM), 91);
	ck_assert_int_eq(child_with_signals(2, SIGINT), 130);
	ck_assert_int_eq(child_with_signals(2, SIGTERM), 130);
}
END_TEST

void test_program_cases(Suite *suite)
{
	tcase_add_test(test_case(suite, "colors", 0), colors);

	TCase *progress = test_case(suite, "progress", 0);
	tcase_add_test(progress, plain_progress);
	tcase_add_test(progress, quiet_progress);
	tcase_add_test(progress, odd_progress);
	tcase_add_test(progress, bar_on_terminal);
	tcase_add_test(progress, bar_on_narrow_terminal);
	tcase_add_test(progress, no_bar_in_ci);

	TCase *text = test_case(suite, "text", 0);
	tcase_add_loop_test(text, safe_text, 0, (int)(sizeof(texts) / sizeof(texts[0])));
	tcase_add_test(text, clipped_to_nothing);
	tcase_add_test(text, numbers);

	TCase *tables = test_case(suite, "tables", 0);
	tcase_add_test(tables, aligned_table);
	tcase_add_test(tables, small_and_large_tables);

	tcase_add_test(test_case(suite, "signals", 0), signals);
}
