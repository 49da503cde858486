/* `assay rescore`: filters and metrics on responses that another program, or an earlier run, recorded. */
#include "evals/bfcl.h"
#include "evals/cli.h"
#include "evals/console.h"
#include "evals/json_schema.h"
#include "evals/suite.h"
#include "evals/tool_verdict.h"

static int rescore(const struct options *o, struct buf *out, struct error *e)
{
	if (o->n_suites == 1 && strcmp(o->suites[0], "filters") == 0)
		return suite_rescore_filters(o->arguments[0], out, e);
	if (o->n_suites == 1 && strcmp(o->suites[0], "bfcl") == 0)
		return bfcl_rescore(o->data, o->arguments[0], out, e);
	if (o->n_suites == 1 && strcmp(o->suites[0], "schema") == 0)
		return json_schema_rescore(o->arguments[0], out, e);
	if (o->n_suites == 1 && strcmp(o->suites[0], "toolcall") == 0) {
		enum tool_format format = TOOL_FORMAT_NONE;
		if (o->tool_format)
			TRY(tool_format_parse(o->tool_format, &format, e));
		return tool_calls_rescore(o->arguments[0], format, out, e);
	}
	struct rescore_report report;
	TRY(suite_rescore(o->suites, o->n_suites, o->data, o->arguments[0], out, &report, e));
	struct console console;
	console_init(&console, o, stdout, stderr);
	console_note(&console, "%zu lines rescored, %zu of them record another filtered response or metric",
		report.scored, report.differing);
	if (report.skipped > 0)
		console_note(&console, "%zu lines of other tasks left out", report.skipped);
	return 0;
}

int cmd_rescore(const struct options *o, struct error *e)
{
	if (o->n_suites == 0)
		return error_exit_code(
			error_set(e, ERR_USAGE, "rescore: expected --suite with the suite of the samples, or filters"));
	if (o->n_arguments != 1)
		return error_exit_code(error_set(e, ERR_USAGE,
			"rescore: expected one file of sample lines (- for standard input), found %d", o->n_arguments));
	struct buf out = {0};
	int status = rescore(o, &out, e);
	if (status == 0)
		fwrite(buf_text(&out), 1, out.length, stdout);
	buf_free(&out);
	return error_exit_code(status);
}
