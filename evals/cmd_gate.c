#include <errno.h>
#include <stdlib.h>

#include "evals/cli.h"
#include "evals/console.h"
#include "evals/gate_plan.h"
#include "evals/sides.h"
#include "evals/verdict_text.h"
#include "reports/github.h"
#include "reports/junit.h"
#include "reports/markdown.h"
#include "reports/report_html.h"
#include "reports/verdict_json.h"

struct gate {
	const struct options *options;
	struct console console;
	struct policy policy;
	struct pairing pairing;
	struct verdict verdict;
};

static const char gate_title[] = "assay gate";

static int write_file(const char *path, const struct buf *content, struct error *e)
{
	TRY(buf_check(content, e));
	FILE *file = fopen(path, "wbe");
	if (!file)
		return error_set(e, ERR_IO, "%s: cannot write: %s", path, strerror(errno));
	bool written = fwrite(buf_text(content), 1, content->length, file) == content->length;
	int number = errno;
	if (fclose(file) != 0 || !written)
		return error_set(e, ERR_IO, "%s: cannot write: %s", path, strerror(written ? errno : number));
	return 0;
}

/* ---- Forms of the verdict ---- */

static int write_page(const struct gate *g, struct buf *out, struct error *e)
{
	struct report_data data = {0};
	const struct verdict *verdicts[] = {&g->verdict};
	struct report_page page = {.title = gate_title, .verdicts = verdicts, .n_verdicts = 1, .data = &data};
	int status = report_data_add_answers(&data, &g->pairing.baseline, e);
	if (status == 0)
		status = report_data_add_answers(&data, &g->pairing.candidate, e);
	if (status == 0)
		status = report_html_write(&page, out, e);
	report_data_free(&data);
	return status;
}

static int write_junit(const struct gate *g, struct buf *out, struct error *e)
{
	const struct verdict *verdicts[] = {&g->verdict};
	return junit_write(verdicts, 1, out, e);
}

static int write_markdown(const struct gate *g, struct buf *out, struct error *e)
{
	return verdict_markdown(&g->verdict, out, e);
}

static int write_text(const struct gate *g, struct buf *out, struct error *e)
{
	if (g->options->json)
		return verdict_json(&g->verdict, false, out, e);
	return verdict_text(&g->verdict, g->console.color_output, out, e);
}

static int write_files(const struct gate *g, struct error *e)
{
	const struct {
		const char *path;
		int (*write)(const struct gate *g, struct buf *out, struct error *e);
	} files[] = {{g->options->junit, write_junit}, {g->options->markdown, write_markdown},
		{g->options->html, write_page}};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct buf content = {0};
		int status = files[i].path ? files[i].write(g, &content, e) : 0;
		if (status == 0 && files[i].path)
			status = write_file(files[i].path, &content, e);
		buf_free(&content);
		TRY(status);
	}
	return 0;
}

/* ---- GitHub ---- */

static bool in_github_actions(void)
{
	const char *value = getenv("GITHUB_ACTIONS");
	return value && strcmp(value, "true") == 0;
}

/* On standard error, which GitHub reads, too: standard output holds the result alone. */
static void annotate(const char *level, const char *message)
{
	struct buf line = {0};
	github_annotation(level, gate_title, message, &line);
	fputs(buf_text(&line), stderr);
	buf_free(&line);
}

static int tell_github(const struct gate *g, struct error *e)
{
	const char *summary = getenv("GITHUB_STEP_SUMMARY");
	struct buf markdown = {0};
	int status = 0;
	if (summary && *summary) {
		status = verdict_markdown(&g->verdict, &markdown, e);
		if (status == 0)
			status = github_summary_append(summary, buf_str(&markdown), e);
	}
	buf_free(&markdown);
	if (in_github_actions() && g->verdict.outcome != OUTCOME_PASS)
		annotate(g->verdict.outcome == OUTCOME_FAIL ? "error" : "warning", g->verdict.reason);
	return status;
}

/* ---- What could not be judged ---- */

static int junit_error(const char *title, const char *message, struct buf *out, struct error *e)
{
	(void)title;
	return junit_write_error(message, out, e);
}

static int append_summary(const char *path, const struct buf *content, struct error *e)
{
	return github_summary_append(path, buf_str(content), e);
}

/* Whoever finds last week's report takes it for today's: what could not be judged is written as an error. */
static void tell_failure(struct gate *g, const struct error *failure)
{
	const struct {
		const char *path;
		int (*make)(const char *title, const char *message, struct buf *out, struct error *e);
		int (*put)(const char *path, const struct buf *content, struct error *e);
	} files[] = {{g->options->junit, junit_error, write_file},
		{g->options->markdown, markdown_write_error, write_file},
		{g->options->html, report_html_write_error, write_file},
		{getenv("GITHUB_STEP_SUMMARY"), markdown_write_error, append_summary}};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct buf content = {0};
		struct error own = {0};
		if (files[i].path && *files[i].path &&
			(files[i].make(gate_title, failure->message, &content, &own) < 0 ||
				files[i].put(files[i].path, &content, &own) < 0))
			console_note(&g->console, "%s", own.message);
		buf_free(&content);
	}
	if (in_github_actions())
		annotate("error", failure->message);
}

/* ---- The command ---- */

static int read_policy(struct gate *g, struct error *e)
{
	policy_init(&g->policy);
	if (g->options->policy)
		TRY(policy_read(&g->policy, g->options->policy, e));
	if (g->options->margin > 0)
		policy_set_margin(&g->policy, g->options->margin);
	return 0;
}

static int judge(struct gate *g, struct error *e)
{
	const struct options *o = g->options;
	if (!o->baseline || !o->candidate)
		return error_set(e, ERR_USAGE,
			"--%s is missing, expected a run, run:variant, database:run or a file of sample lines",
			o->baseline ? "candidate" : "baseline");
	TRY(sides_pair(o, o->baseline, o->candidate, &g->policy, &g->pairing, e));
	TRY(verdict_make(&g->pairing, &g->policy, &g->verdict, e));
	return sides_measure_aa(&g->verdict, e);
}

static int print(const struct gate *g, struct error *e)
{
	struct buf out = {0};
	int status = g->options->plan ? gate_plan(g->options, &g->policy, g->console.color_output, &out, e)
				      : write_text(g, &out, e);
	if (status == 0)
		fwrite(buf_text(&out), 1, out.length, stdout);
	buf_free(&out);
	return status;
}

/* A policy is for all suites: of one that --suite leaves out nothing is asked, and that is said. */
static void note_left_out(struct gate *g)
{
	struct buf names = {0};
	for (size_t i = 0; i < g->policy.n_suites; i++) {
		bool judged = false;
		for (size_t k = 0; k < g->verdict.n_suites; k++)
			judged =
				judged || strcmp(g->policy.suites[i].suite, g->verdict.suites[k].comparison.suite) == 0;
		if (!judged)
			buf_printf(&names, "%s%s", names.length ? ", " : "", g->policy.suites[i].suite);
	}
	if (names.length)
		console_note(&g->console, "%s: left out by --suite, not judged: %s", g->policy.file, buf_text(&names));
	buf_free(&names);
}

static int judge_and_tell(struct gate *g, struct error *e)
{
	TRY(read_policy(g, e));
	TRY(judge(g, e));
	note_left_out(g);
	TRY(write_files(g, e));
	TRY(tell_github(g, e));
	return print(g, e);
}

static int run_gate(struct gate *g, struct error *e)
{
	if (g->options->plan) {
		TRY(read_policy(g, e));
		return print(g, e);
	}
	int status = judge_and_tell(g, e);
	if (status < 0)
		tell_failure(g, e);
	return status;
}

void cmd_gate_refused(const struct options *o, const struct error *e)
{
	struct gate g = {.options = o};
	console_init(&g.console, o, stdout, stderr);
	if (!o->help && !o->plan)
		tell_failure(&g, e);
}

int cmd_gate(const struct options *o, struct error *e)
{
	struct gate g = {.options = o};
	console_init(&g.console, o, stdout, stderr);
	int status = run_gate(&g, e);
	int exit_code = status < 0 ? error_exit_code(status) : o->plan ? 0 : g.verdict.exit_code;
	verdict_free(&g.verdict);
	pairing_free(&g.pairing);
	policy_free(&g.policy);
	return exit_code;
}
