/* Whether tool calls could be carried out, whatever they were asked for: declared name, strict JSON, JSON Schema
 * (K2VV's schema_accuracy); and the command that reads calls from text. */
#ifndef ASSAY_EVALS_TOOL_VERDICT_H
#define ASSAY_EVALS_TOOL_VERDICT_H

#include "engine/engine.h"
#include "evals/suite.h"

/* ERR_INPUT, naming the tool, for one that no call can name or that offers no schema: expected {"name", "parameters"?},
 * maybe within {"function"}. PRECOND: an array. */
int tools_check(const struct json *tools, struct error *e);

/* 1: each call names a declared tool, is strict JSON (Python's constants are not) and satisfies that tool's schema;
 * 0: one does not, and *why is appended which and what; a negative status where a schema cannot be judged.
 * PRECOND: there are calls. */
int tool_calls_valid(const struct tool_calls *calls, const struct json *tools, struct buf *why, struct error *e);

/* Appends the calls as a JSON array of {"name", "arguments"} or, for a broken one, {"name", "error", "raw"}. Arguments
 * that JSON cannot hold (NaN) are a text. */
void tool_calls_append(const struct tool_calls *calls, struct buf *out);

/* Appends the names of all leniencies, joined by ", ". */
void tool_calls_leniencies(const struct tool_calls *calls, struct buf *out);

/* Keeps the calls in the score's "filtered", where reports find them (reports/tool_answer.h). error_type: why they are
 * wrong, invalid: why they could not be carried out; both are taken over and zeroed. ERR_MEMORY. */
int tool_calls_keep(const struct tool_calls *calls, struct buf *error_type, struct buf *invalid, struct item_score *out,
	struct error *e);

/* `assay rescore --suite toolcall`: lines {"text", "tools", "format"} to {"calls", "content", "leniencies", "valid",
 * "why"} ("valid" null without a call, {"error"} for a schema that cannot be judged). format: of lines that have none,
 * TOOL_FORMAT_NONE: they must. */
int tool_calls_rescore(const char *path, enum tool_format format, struct buf *out, struct error *e);

#endif
