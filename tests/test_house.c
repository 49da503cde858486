/* The rules of the house that no compiler knows: who may include whom, functions that hide errors, headers that compile
 * alone, files that stay readable. Each detector is first shown text that it must refuse. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/str.h"
#include "tests/support.h"

const char *const test_program_name = "house";

enum { LINES_MAX = 800 };

/* ---- Source text ---- */

/* Appends text with its comments blanked, and the insides of strings and character constants too unless keep_strings.
 * Line feeds stay, so that line numbers hold. */
static void source_strip(struct str text, bool keep_strings, struct buf *out)
{
	enum { CODE, LINE_COMMENT, BLOCK_COMMENT, LITERAL } state = CODE;
	char quote = 0;
	for (size_t i = 0; i < text.length; i++) {
		char c = text.data[i];
		char next = i + 1 < text.length ? text.data[i + 1] : '\0';
		bool kept = state == CODE || (state == LITERAL && (keep_strings || c == quote));
		switch (state) {
		case CODE:
			if (c == '/' && (next == '/' || next == '*')) {
				state = next == '/' ? LINE_COMMENT : BLOCK_COMMENT;
				buf_append_text(out, "  ");
				i++;
				continue;
			}
			if (c == '"' || c == '\'') {
				state = LITERAL;
				quote = c;
			}
			break;
		case LINE_COMMENT:
			if (c == '\n')
				state = CODE;
			break;
		case BLOCK_COMMENT:
			if (c == '*' && next == '/') {
				state = CODE;
				buf_append_text(out, "  ");
				i++;
				continue;
			}
			break;
		case LITERAL:
			/* A literal ends with its line, so that 1'000 of C++ opens none for long. */
			if (c == quote || c == '\n')
				state = CODE;
			break;
		}
		buf_append_char(out, kept || c == '\n' ? c : ' ');
		/* An escaped character ends nothing; an escaped line feed goes on with a // comment or a literal. */
		if (c == '\\' && (state == LITERAL || state == LINE_COMMENT) && next != '\0') {
			buf_append_char(out, next == '\n' ? '\n' : kept ? next : ' ');
			i++;
		}
	}
}

static struct str line_at(struct str text, size_t start)
{
	size_t end = start;
	while (end < text.length && text.data[end] != '\n')
		end++;
	return (struct str){text.data + start, end - start};
}

static struct str skip_blanks(struct str s)
{
	while (s.length && (*s.data == ' ' || *s.data == '\t'))
		s = (struct str){s.data + 1, s.length - 1};
	return s;
}

static bool take(struct str *s, const char *prefix)
{
	struct str p = str_of(prefix);
	if (!str_starts_with(*s, p))
		return false;
	*s = (struct str){s->data + p.length, s->length - p.length};
	return true;
}

/* ---- Arrows (who may include whom) ---- */

static const struct arrows {
	const char *room;
	const char *targets[8]; /* a folder ends in '/'; else one header */
} arrows[] = {
	{"cuda/", {"cuda/", "engine/backend.h", "engine/comm.h", "engine/base/"}},
	{"datasets/", {"datasets/", "engine/base/"}},
	{"engine/", {"engine/"}},
	{"evals/",
		{"evals/", "datasets/", "integrity/", "reports/", "engine/engine.h", "engine/base/",
			"cuda/cuda_backend.h"}},
	{"integrity/", {"integrity/", "engine/engine.h", "engine/kv/", "engine/base/"}},
	{"reports/", {"reports/", "engine/base/"}},
	{"tests/", {"tests/", "cuda/", "datasets/", "engine/", "evals/", "integrity/", "reports/"}},
};

static const struct arrows *room_of(struct str path)
{
	for (size_t i = 0; i < sizeof(arrows) / sizeof(arrows[0]); i++)
		if (str_starts_with(path, str_of(arrows[i].room)))
			return &arrows[i];
	return NULL;
}

static bool arrow_allowed(const struct arrows *from, struct str target)
{
	for (size_t i = 0; i < sizeof(from->targets) / sizeof(from->targets[0]) && from->targets[i]; i++) {
		struct str allowed = str_of(from->targets[i]);
		bool folder = allowed.data[allowed.length - 1] == '/';
		if (folder ? str_starts_with(target, allowed) : str_equal(target, allowed))
			return str_find(target, str_of("../"), 0) == SIZE_MAX;
	}
	return false;
}

/* The complaint about one #include directive, or NULL. rest is what stands after the word include. */
static const char *include_complaint(const struct arrows *from, struct str rest)
{
	rest = skip_blanks(rest);
	bool quoted = take(&rest, "\"");
	if (!quoted && !take(&rest, "<"))
		return "include names no file: an arrow must be readable";
	size_t end = str_find(rest, str_of(quoted ? "\"" : ">"), 0);
	if (end == SIZE_MAX)
		return "include without an end";
	struct str target = {rest.data, end};
	if (!quoted && !room_of(target)) /* the system's, unless it climbs back in */
		return str_find(target, str_of("../"), 0) == SIZE_MAX ? NULL : "include with ..";
	if (!room_of(target))
		return "include \"...\" must spell the path from the root of the source tree";
	return arrow_allowed(from, target) ? NULL : "forbidden arrow";
}

/* Reports each forbidden #include of a file of that path. */
static void check_arrows(const char *path, struct str text, struct buf *report)
{
	const struct arrows *from = room_of(str_of(path));
	if (!from) {
		buf_printf(report, "%s: source outside the rooms of the house\n", path);
		return;
	}
	struct buf stripped = {0};
	source_strip(text, true, &stripped);
	int number = 1;
	for (size_t start = 0; start < stripped.length; number++) {
		struct str line = line_at(buf_str(&stripped), start);
		start += line.length + 1;
		struct str rest = skip_blanks(line);
		if (!take(&rest, "#"))
			continue;
		rest = skip_blanks(rest);
		if (!take(&rest, "include_next") && !take(&rest, "include"))
			continue;
		const char *complaint = include_complaint(from, rest);
		if (complaint)
			buf_printf(report, "%s:%d: %s: %.*s\n", path, number, complaint, STR_ARG(line));
	}
	buf_free(&stripped);
}

/* ---- Banned functions ---- */

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_banned(struct str word)
{
	static const char *const banned[] = {
		"alloca", "atof", "atoi", "atol", "gets", "sprintf", "strcat", "strcpy", "strtok", "vsprintf"};
	for (size_t i = 0; i < sizeof(banned) / sizeof(banned[0]); i++)
		if (str_is(word, banned[i]))
			return true;
	return false;
}

/* Reports each banned function outside comments and strings. */
static void check_banned(const char *path, struct str text, struct buf *report)
{
	if (strcmp(path, "engine/base/banned.h") == 0)
		return;
	struct buf stripped = {0};
	source_strip(text, false, &stripped);
	int line = 1;
	for (size_t i = 0; i < stripped.length;) {
		size_t start = i;
		while (i < stripped.length && is_word(stripped.data[i]))
			i++;
		struct str word = {stripped.data + start, i - start};
		if (is_banned(word))
			buf_printf(report, "%s:%d: banned function %.*s\n", path, line, STR_ARG(word));
		if (i == start)
			line += stripped.data[i++] == '\n';
	}
	buf_free(&stripped);
}

/* ---- Length ---- */

static void check_length(const char *path, struct str text, struct buf *report)
{
	int lines = 0;
	for (size_t i = 0; i < text.length; i++)
		lines += text.data[i] == '\n';
	if (lines > LINES_MAX)
		buf_printf(report, "%s: %d lines, at most %d are readable\n", path, lines, LINES_MAX);
}

/* ---- Headers ---- */

static void become_compiler(const int input[2], const int output[2])
{
	dup2(input[0], STDIN_FILENO);
	dup2(output[1], STDOUT_FILENO);
	dup2(output[1], STDERR_FILENO);
	close(input[0]);
	close(input[1]);
	close(output[0]);
	close(output[1]);
	execlp(TEST_COMPILER, TEST_COMPILER, "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
		"-fsyntax-only", "-DSOURCE_DIR=\".\"", "-DASSAY_PROGRAM=\".\"", "-I", SOURCE_DIR, "-I",
		SOURCE_DIR "/tests/cuda_on_cpu" /* in place of CUDA's headers */, "-x", "c", "-", (char *)NULL);
	_exit(127);
}

/* Runs the compiler on a short text, appends what it says to said. Returns its exit code, 127 when there is none. */
static int compile(struct str source, struct buf *said)
{
	int input[2];
	int output[2];
	ck_assert_int_eq(pipe(input), 0);
	ck_assert_int_eq(pipe(output), 0);
	/* Written before the start: it fits the pipe, and a compiler that is not there breaks none. */
	ck_assert_uint_lt(source.length, 4096);
	ck_assert_int_eq(write(input[1], source.data, source.length), (ssize_t)source.length);
	pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0)
		become_compiler(input, output);
	close(input[0]);
	close(input[1]);
	close(output[1]);
	char block[4096];
	ssize_t n;
	while ((n = read(output[0], block, sizeof(block))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			buf_append(said, block, (size_t)n);
	close(output[0]);
	int status = 0;
	while (waitpid(child, &status, 0) < 0)
		ck_assert_int_eq(errno, EINTR);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static bool have_compiler(void)
{
	struct buf said = {0};
	int code = compile(str_of("int x;\n"), &said);
	buf_free(&said);
	return code == 0;
}

/* Reports a header that needs another before it, or that cannot be included twice. */
static void check_header(const char *path, struct buf *report)
{
	struct buf source = {0};
	buf_printf(&source, "#include \"%s\"\n#include \"%s\"\n", path, path);
	struct buf said = {0};
	if (compile(buf_str(&source), &said) != 0)
		buf_printf(report, "%s: does not compile alone:\n%s", path, buf_text(&said));
	buf_free(&source);
	buf_free(&said);
}

/* ---- The source tree ---- */

typedef void visit(const char *path, struct buf *report);

static bool has_suffix(const char *path, const char *suffix)
{
	size_t length = strlen(path);
	size_t n = strlen(suffix);
	return length >= n && strcmp(path + length - n, suffix) == 0;
}

static bool is_source(const char *path)
{
	return has_suffix(path, ".c") || has_suffix(path, ".h") || has_suffix(path, ".cu") ||
		has_suffix(path, ".cuh") || has_suffix(path, ".cpp");
}

/* Hidden folders and meson's build folders hold nothing of ours. */
static bool is_foreign(const char *full, const char *name)
{
	struct buf marker = {0};
	buf_printf(&marker, "%s/meson-private", full);
	bool foreign = name[0] == '.' || access(buf_text(&marker), F_OK) == 0;
	buf_free(&marker);
	return foreign;
}

/* Calls visit_file with each source file below folder (relative to the root, "" for the root). Returns their number. */
static int tree_visit(const char *root, const char *folder, visit *visit_file, struct buf *report)
{
	struct buf full = {0};
	buf_printf(&full, "%s/%s", root, folder);
	struct dirent **entries = NULL;
	int count = scandir(buf_text(&full), &entries, NULL, alphasort);
	ck_assert_msg(count >= 0, "%s: cannot list: %s", buf_text(&full), strerror(errno));
	int files = 0;
	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;
		struct buf path = {0};
		buf_printf(&path, "%s%s%s", folder, *folder ? "/" : "", name);
		buf_clear(&full);
		buf_printf(&full, "%s/%s", root, buf_text(&path));
		struct stat status;
		if (lstat(buf_text(&full), &status) == 0) {
			if (S_ISDIR(status.st_mode) && !is_foreign(buf_text(&full), name)) {
				files += tree_visit(root, buf_text(&path), visit_file, report);
			} else if (S_ISREG(status.st_mode) && is_source(name)) {
				files++;
				visit_file(buf_text(&path), report);
			}
		}
		buf_free(&path);
		free(entries[i]);
	}
	free(entries);
	buf_free(&full);
	return files;
}

/* Every source file of the project, and at least those of the ground floor, through one detector. */
static void house_visit(visit *visit_file)
{
	struct buf report = {0};
	int files = tree_visit(SOURCE_DIR, "", visit_file, &report);
	ck_assert_msg(files > 20, "%s: only %d source files found", SOURCE_DIR, files);
	ck_assert_msg(report.length == 0, "\n%s", buf_text(&report));
	buf_free(&report);
}

static struct buf house_read(const char *path)
{
	struct buf full = {0};
	buf_printf(&full, "%s/%s", SOURCE_DIR, path);
	struct buf text = test_read_file(buf_text(&full));
	buf_free(&full);
	return text;
}

static void visit_arrows(const char *path, struct buf *report)
{
	struct buf text = house_read(path);
	check_arrows(path, buf_str(&text), report);
	buf_free(&text);
}

static void visit_banned(const char *path, struct buf *report)
{
	struct buf text = house_read(path);
	check_banned(path, buf_str(&text), report);
	buf_free(&text);
}

static void visit_length(const char *path, struct buf *report)
{
	struct buf text = house_read(path);
	check_length(path, buf_str(&text), report);
	buf_free(&text);
}

static void visit_header(const char *path, struct buf *report)
{
	/* cuda_on_cpu stands in for headers of CUDA, which are C++. */
	if (has_suffix(path, ".h") && strncmp(path, "tests/cuda_on_cpu/", 18) != 0)
		check_header(path, report);
}

/* ---- Tests of the detectors ---- */

static const struct {
	const char *path;
	const char *text;
	int complaints;
} arrow_cases[] = {
	{"evals/a.c", "", 0},
	{"evals/a.c", "#include \"engine/engine.h\"\n#include <stdio.h>\n#include \"cuda/cuda_backend.h\"", 0},
	{"evals/a.c", "#include \"evals/b.h\"\n#include \"datasets/b.h\"\n#include \"reports/store.h\"\n", 0},
	{"evals/a.c", "#include \"engine/base/buf.h\"\n#include \"integrity/guard.h\"\n", 0},
	{"evals/a.c", "#include \"engine/model/forward.h\"\n", 1},
	{"evals/a.c", "#include \"engine/engine.hh\"\n", 1},
	{"evals/a.c", "#include \"cuda/cuda_ops.h\"\n", 1},
	{"evals/a.c", "#include \"tests/support.h\"\n", 1},
	{"evals/a.c", "#include \"engine/base/../model/forward.h\"\n", 1},
	{"evals/a.c", "#include \"../engine/model/forward.h\"\n", 1},
	{"evals/a.c", "#include <../engine/model/forward.h>\n", 1},
	{"evals/a.c", "#include \"b.h\"\n", 1},
	{"evals/a.c", "#include FORWARD\n", 1},
	{"evals/a.c", "#include \"engine/model/forward.h\n", 1},
	{"evals/a.c", "  #  include   <engine/model/forward.h>\n", 1},
	{"evals/a.c", "/* x */ #include \"engine/sched/request.h\"\n#include_next \"engine/kv/kv_pool.h\"", 2},
	{"evals/a.c", "// #include \"engine/sched/request.h\"\n/*\n#include \"engine/kv/kv_pool.h\"\n*/\n", 0},
	{"evals/a.c", "char *s = \"/*\";\n#include \"engine/kv/kv_pool.h\"\n", 1},
	{"evals/a.c", "char s = '\"';\n#include \"engine/kv/kv_pool.h\"\n", 1},
	{"evals/a.c", "// goes on \\\n#include \"engine/kv/kv_pool.h\"\n", 0},
	{"engine/kv/a.c", "#include \"engine/model/forward.h\"\n#include \"engine/backend.h\"\n", 0},
	{"engine/kv/a.c", "#include \"integrity/guard.h\"\n", 1},
	{"engine/kv/a.c", "#include \"evals/suite.h\"\n#include \"cuda/cuda_backend.h\"\n", 2},
	{"integrity/a.c", "#include \"engine/engine.h\"\n#include \"engine/kv/kv_pool.h\"\n", 0},
	{"integrity/a.c", "#include \"engine/backend.h\"\n#include \"reports/store.h\"\n#include \"evals/cli.h\"\n", 3},
	{"cuda/a.cu", "#include \"engine/backend.h\"\n#include \"engine/comm.h\"\n#include \"cuda/a.cuh\"\n", 0},
	{"cuda/a.cuh", "#include \"engine/engine.h\"\n#include \"engine/cpu/ops.h\"\n", 2},
	{"datasets/a.c", "#include \"engine/base/file.h\"\n#include \"datasets/registry.h\"\n", 0},
	{"datasets/a.c", "#include \"engine/engine.h\"\n#include \"evals/suite.h\"\n", 2},
	{"reports/a.h", "#include \"engine/base/file.h\"\n", 0},
	{"reports/a.h", "#include \"datasets/registry.h\"\n", 1},
	{"tests/test_a.c", "#include \"engine/model/forward.h\"\n#include \"evals/cli.h\"\n", 0},
	{"attic/a.c", "", 1},
	{"a.c", "", 1},
};

static int count_lines(const struct buf *report)
{
	int lines = 0;
	for (size_t i = 0; i < report->length; i++)
		lines += report->data[i] == '\n';
	return lines;
}

START_TEST(detects_arrows)
{
	struct buf report = {0};
	check_arrows(arrow_cases[_i].path, str_of(arrow_cases[_i].text), &report);
	ck_assert_msg(count_lines(&report) == arrow_cases[_i].complaints,
		"%s with\n%s\nexpected %d complaints, got:\n%s", arrow_cases[_i].path, arrow_cases[_i].text,
		arrow_cases[_i].complaints, buf_text(&report));
	buf_free(&report);
}
END_TEST

static const struct {
	const char *text;
	int complaints;
} banned_cases[] = {
	{"", 0},
	{"strcpy", 1},
	{"x = atoi(s);\ny = atol(s) + atof(s);\n", 3},
	{"strcat(a, b); sprintf(a, \"x\"); vsprintf(a, b, c); strtok(a, b); gets(a); alloca(1);", 6},
	{"my_strcpy(a); strcpy_s(a); snprintf(a); vsnprintf(a); fgets(a); strtok_r(a); atoi2(b);", 0},
	{"/* strcpy */ // gets\n\"strcat\" 'g' \"\\\"strcpy\"", 0},
	{"/* \" */ gets(a); /* \" */", 1},
	{"'\"' + gets(a) + '\"'", 1},
	{"// the end \\\ngets(a)\ngets(b)", 1},
	{"\"\\\\\" gets \"\\\\\"", 1},
	{"1'000; gets(a);\n gets(b)", 1},
	{"a /gets/ b */ c", 1},
	{"/*/ gets */ strcpy", 1},
};

START_TEST(detects_banned)
{
	struct buf report = {0};
	check_banned("evals/a.c", str_of(banned_cases[_i].text), &report);
	ck_assert_msg(count_lines(&report) == banned_cases[_i].complaints, "text\n%s\nexpected %d complaints, got:\n%s",
		banned_cases[_i].text, banned_cases[_i].complaints, buf_text(&report));
	buf_free(&report);
}
END_TEST

START_TEST(names_the_line)
{
	struct buf report = {0};
	check_banned("evals/a.c", str_of("\n/*\n*/ \"\\\n\"\n  gets(a);\n"), &report);
	ck_assert_str_eq(buf_text(&report), "evals/a.c:5: banned function gets\n");
	buf_clear(&report);
	check_arrows("evals/a.c", str_of("\n/*\n*/\n#include \"engine/backend.h\" /* x */\n"), &report);
	ck_assert_str_eq(buf_text(&report), "evals/a.c:4: forbidden arrow: #include \"engine/backend.h\"        \n");
	buf_free(&report);
}
END_TEST

START_TEST(detects_length)
{
	struct buf text = {0};
	struct buf report = {0};
	for (int i = 0; i < LINES_MAX; i++)
		buf_append_char(&text, '\n');
	check_length("evals/a.c", buf_str(&text), &report);
	ck_assert_uint_eq(report.length, 0);
	buf_append_char(&text, '\n');
	check_length("evals/a.c", buf_str(&text), &report);
	ck_assert_str_eq(buf_text(&report), "evals/a.c: 801 lines, at most 800 are readable\n");
	buf_free(&text);
	buf_free(&report);
}
END_TEST

START_TEST(detects_dependent_header)
{
	static const struct {
		const char *text;
		bool alone;
	} cases[] = {
		{"#ifndef A\n#define A\n#include <stddef.h>\nsize_t a(void);\n#endif\n", true},
		{"#ifndef A\n#define A\nsize_t a(void);\n#endif\n", false},
		{"struct a {\n\tint b;\n};\n", false}, /* no guard */
	};
	if (!have_compiler())
		SKIP("no compiler %s", TEST_COMPILER);
	struct buf report = {0};
	check_header(test_write_file("a.h", cases[_i].text, strlen(cases[_i].text)), &report);
	ck_assert_msg((report.length == 0) == cases[_i].alone, "%s\n%s", cases[_i].text, buf_text(&report));
	buf_free(&report);
}
END_TEST

static void visit_name(const char *path, struct buf *report)
{
	buf_printf(report, "%s\n", path);
}

START_TEST(walks_sources_only)
{
	const char *root = scratch_folder();
	static const char *const names[] = {"evals/b.c", "evals/a.h", "evals/deep/x.cu", "evals/x.cuh", "evals/x.py",
		"root.c", ".git/x.c", "out/x.c", "out/meson-private/y.c", "tests/t.cpp"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		test_write_file(names[i], "", 0);
	struct buf report = {0};
	ck_assert_int_eq(tree_visit(root, "", visit_name, &report), 6);
	ck_assert_str_eq(
		buf_text(&report), "evals/a.h\nevals/b.c\nevals/deep/x.cu\nevals/x.cuh\nroot.c\ntests/t.cpp\n");
	buf_free(&report);
}
END_TEST

/* ---- Tests of the house ---- */

START_TEST(arrows_hold)
{
	house_visit(visit_arrows);
}
END_TEST

START_TEST(no_banned_function)
{
	house_visit(visit_banned);
}
END_TEST

START_TEST(no_long_file)
{
	house_visit(visit_length);
}
END_TEST

START_TEST(headers_compile_alone)
{
	if (!have_compiler())
		SKIP("no compiler %s", TEST_COMPILER);
	house_visit(visit_header);
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *detectors = test_case(suite, "detectors", 0);
	tcase_add_loop_test(detectors, detects_arrows, 0, sizeof(arrow_cases) / sizeof(arrow_cases[0]));
	tcase_add_loop_test(detectors, detects_banned, 0, sizeof(banned_cases) / sizeof(banned_cases[0]));
	tcase_add_test(detectors, names_the_line);
	tcase_add_test(detectors, detects_length);
	tcase_add_loop_test(detectors, detects_dependent_header, 0, 3);
	tcase_add_test(detectors, walks_sources_only);

	TCase *house = test_case(suite, "house", 120);
	tcase_add_test(house, arrows_hold);
	tcase_add_test(house, no_banned_function);
	tcase_add_test(house, no_long_file);
	tcase_add_test(house, headers_compile_alone);
}
