/* Runs the program as a user does: a process of its own, with its streams, environment and exit code. */
#ifndef ASSAY_TESTS_PROGRAM_H
#define ASSAY_TESTS_PROGRAM_H

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/json_strict.h"
#include "tests/support.h"

#define POCKET SOURCE_DIR "/datasets/pocket/model"
#define POCKET_DATA SOURCE_DIR "/datasets/pocket/data"
#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

enum {
	PROGRAM_SECONDS = 240,  /* then it hangs */
	PROGRAM_NOBODY = 65534, /* a user who may do little */
	PROGRAM_NOT_FOUND = 77, /* that user cannot reach the program */
	PROGRAM_MIB_MAX = 1024, /* more memory than any of these calls needs, sanitizers included */
};

struct call {
	const char *arguments[40];  /* behind the program's name */
	const char *environment[8]; /* NAME=VALUE beyond the fixed ones, and in their place */
	struct str input;           /* standard input; data NULL: /dev/null */
	int results, messages;      /* descriptors that standard output and error go to; 0: they are kept */
	unsigned closed;            /* bit N: descriptor N is closed */
	bool nobody;                /* root becomes somebody who may do little */
};

struct program {
	pid_t pid;
	int out, err; /* files in memory */
};

struct outcome {
	int exit_code; /* -N: ended by signal N */
	struct buf out, err;
};

/* ---- In the child ---- */

static inline void program_die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	_exit(76);
}

static inline void program_redirect(int from, int to)
{
	if (from < 0 || dup2(from, to) < 0)
		program_die("cannot redirect");
}

static inline void program_environment(const struct call *c)
{
	/* Sanitizers are to end with a code that the program has no other use for, and to let big allocations fail. */
	const char *asan = getenv("ASAN_OPTIONS");
	char options[1024];
	snprintf(options, sizeof(options), "%s:exitcode=99:allocator_may_return_null=1", asan ? asan : "");
	clearenv();
	setenv("ASAN_OPTIONS", options, 1);
	setenv("PATH", "/usr/bin:/bin", 1);
	setenv("TERM", "xterm", 1);
	setenv("HOME", "/nonexistent/home", 1);
	for (int i = 0; i < COUNT(c->environment) && c->environment[i]; i++)
		if (putenv((char *)(uintptr_t)c->environment[i]) != 0)
			program_die("putenv");
}

static inline void program_become_nobody(void)
{
	if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(PROGRAM_NOBODY) != 0 || setuid(PROGRAM_NOBODY) != 0))
		program_die("cannot become nobody");
	if (access(ASSAY_PROGRAM, X_OK) != 0 || access(POCKET "/config.json", R_OK) != 0)
		_exit(PROGRAM_NOT_FOUND);
}

static inline void program_exec(const struct call *c, int input, int out, int err)
{
	const char *arguments[COUNT(c->arguments) + 2] = {ASSAY_PROGRAM};
	memcpy(arguments + 1, c->arguments, sizeof(c->arguments));
	program_redirect(input, STDIN_FILENO);
	program_redirect(c->results ? c->results : out, STDOUT_FILENO);
	program_redirect(c->messages ? c->messages : err, STDERR_FILENO);
	program_environment(c);
	if (c->nobody)
		program_become_nobody();
	alarm(PROGRAM_SECONDS);
	for (int fd = 0; fd < 3; fd++)
		if (c->closed & 1u << fd)
			close(fd);
	execv(ASSAY_PROGRAM, (char **)(uintptr_t)arguments);
	program_die(ASSAY_PROGRAM);
}

/* ---- In the test ---- */

static inline int program_file(struct str content)
{
	int file = memfd_create("stream", MFD_CLOEXEC);
	ck_assert_int_ge(file, 0);
	ck_assert_int_eq(write(file, content.data, content.length), (ssize_t)content.length);
	ck_assert_int_eq(lseek(file, 0, SEEK_SET), 0);
	return file;
}

static inline struct program program_start(const struct call *c)
{
	struct program p = {.out = program_file((struct str){"", 0}), .err = program_file((struct str){"", 0})};
	int input = c->input.data ? program_file(c->input) : open("/dev/null", O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(input, 0);
	fflush(NULL);
	p.pid = fork();
	ck_assert_int_ge(p.pid, 0);
	if (p.pid == 0)
		program_exec(c, input, p.out, p.err);
	close(input);
	return p;
}

static inline struct buf program_stream(int file)
{
	struct buf content = {0};
	char block[65536];
	ssize_t n;
	ck_assert_int_eq(lseek(file, 0, SEEK_SET), 0);
	while ((n = read(file, block, sizeof(block))) > 0)
		buf_append(&content, block, (size_t)n);
	ck_assert_int_eq(n, 0);
	close(file);
	return content;
}

/* Waits for its end. Whatever was asked: no report of a sanitizer, no memory beyond measure. */
static inline struct outcome program_wait(struct program p)
{
	struct outcome o = {0};
	struct rusage usage;
	int status;
	ck_assert_int_eq(wait4(p.pid, &status, 0, &usage), p.pid);
	o.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
	o.out = program_stream(p.out);
	o.err = program_stream(p.err);
	ck_assert_msg(!strstr(buf_text(&o.err), "Sanitizer") && !strstr(buf_text(&o.err), "runtime error"), "%s",
		buf_text(&o.err));
	ck_assert_msg(usage.ru_maxrss / 1024 < PROGRAM_MIB_MAX, "%ld MiB", usage.ru_maxrss / 1024);
	return o;
}

static inline struct outcome program_run(const struct call *c)
{
	return program_wait(program_start(c));
}

static inline void outcome_free(struct outcome *o)
{
	buf_free(&o->out);
	buf_free(&o->err);
}

/* RUN("list", "--suites") */
#define RUN(...) program_run(&(struct call){.arguments = {__VA_ARGS__}})

/* RUN_WITH(text, "tokenize", "--ids"): with that text on standard input. */
#define RUN_WITH(text, ...) program_run(&(struct call){.arguments = {__VA_ARGS__}, .input = str_of(text)})

static inline void expect_exit(const struct outcome *o, int exit_code)
{
	ck_assert_msg(o->exit_code == exit_code, "exit %d, expected %d\nstdout: %.2000s\nstderr: %.2000s", o->exit_code,
		exit_code, buf_text(&o->out), buf_text(&o->err));
}

/* Exit 0, and exactly that on standard output. Frees the outcome. */
static inline void expect_output(struct outcome o, const char *output)
{
	expect_exit(&o, 0);
	ck_assert_str_eq(buf_text(&o.out), output);
	outcome_free(&o);
}

/* A failure that nobody takes for a result: that exit code, nothing on standard output, a last message that begins with
 * the program's name and holds all those pieces. Frees the outcome. */
static inline void expect_failure(struct outcome o, int exit_code, const char *const *pieces)
{
	const char *err = buf_text(&o.err);
	expect_exit(&o, exit_code);
	ck_assert_msg(o.out.length == 0, "stdout: %.500s", buf_text(&o.out));
	ck_assert_msg(o.err.length > 1 && o.err.data[o.err.length - 1] == '\n', "stderr: '%s'", err);
	const char *last = o.err.data + o.err.length - 1;
	while (last > err && last[-1] != '\n')
		last--;
	ck_assert_msg(strncmp(last, "assay: ", 7) == 0, "stderr: %s", err);
	for (; *pieces; pieces++)
		ck_assert_msg(strstr(last, *pieces), "no '%s' in: %s", *pieces, err);
	outcome_free(&o);
}

#define EXPECT_FAILURE(outcome, exit_code, ...) \
	expect_failure((outcome), (exit_code), (const char *const[]){__VA_ARGS__, NULL})

/* ---- Files ---- */

/* FOLDER/NAME; the last 32 stay. */
static inline const char *path_in(const char *folder, const char *name)
{
	static char paths[32][4096];
	static int next;
	char *path = paths[next++ % COUNT(paths)];
	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static inline void overwrite(const char *path, const void *bytes, size_t length)
{
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	ck_assert_msg(file >= 0, "%s: %s", path, strerror(errno));
	ck_assert_int_eq(write(file, bytes, length), (ssize_t)length);
	close(file);
}

/* Puts `to` where the file holds `from` first; an empty one stands for all that it holds. */
static inline void file_change(const char *path, const char *from, const char *to)
{
	struct buf text = test_read_file(path), changed = {0};
	size_t at = str_find(buf_str(&text), str_of(from), 0), end = *from ? at + strlen(from) : text.length;
	ck_assert_msg(at != SIZE_MAX, "%s holds no %s", path, from);
	buf_append(&changed, text.data, at);
	buf_append_text(&changed, to);
	buf_append(&changed, text.data + end, text.length - end);
	overwrite(path, buf_text(&changed), changed.length);
	buf_free(&text);
	buf_free(&changed);
}

static inline void file_copy(const char *from, const char *to)
{
	struct buf content = test_read_file(from);
	overwrite(to, buf_text(&content), content.length);
	buf_free(&content);
}

/* A fresh folder with the files of the pocket model. */
static inline const char *pocket_copy(void)
{
	static const char *const names[] = {"config.json", "generation_config.json", "model.safetensors",
		"tokenizer.json", "tokenizer_config.json"};
	const char *folder = scratch_folder();
	for (int i = 0; i < COUNT(names); i++)
		file_copy(path_in(POCKET, names[i]), path_in(folder, names[i]));
	return folder;
}

/* ---- JSON ---- */

/* One document; the caller frees it. */
static inline struct json_document *parse(struct str text)
{
	struct json_document *document = NULL;
	CHECK_OK(json_parse(text, "output", JSON_REFUSE_DOUBLED_KEYS, &document, &test_error));
	return document;
}

/* Takes the next line off *rest: one document, NULL behind the last. */
static inline struct json_document *parse_line(struct str *rest)
{
	if (rest->length == 0)
		return NULL;
	const char *end = memchr(rest->data, '\n', rest->length);
	ck_assert_msg(end != NULL, "the last line has no end: %.*s", STR_ARG(*rest));
	struct str line = {rest->data, (size_t)(end - rest->data)};
	*rest = (struct str){end + 1, rest->length - line.length - 1};
	return parse(line);
}

/* The member that "variants/0/name" leads to, which must be there. */
static inline const struct json *json_path(const struct json *value, const char *path)
{
	for (const char *at = path; *at;) {
		struct str name = {at, strcspn(at, "/")};
		value = json_is(value, JSON_ARRAY) ? json_at(value, (size_t)strtoul(at, NULL, 10))
						   : json_get_str(value, name);
		ck_assert_msg(value != NULL, "no %s", path);
		at += name.length + (at[name.length] == '/');
	}
	return value;
}

static inline int64_t json_path_int(const struct json *value, const char *path)
{
	int64_t n = 0;
	ck_assert_msg(json_int64(json_path(value, path), &n), "%s is no integer", path);
	return n;
}

#endif
