/* An answer that calls tools, as the suites of tool calls and the exams keep it in a sample's "filtered":
 * {"calls": JSON of [{"name", "arguments"} or {"name", "error", "raw"}], "error_type": "TYPE: ABOUT", "" for a right
 * one, "invalid": why its calls could not be carried out, "leniencies"}. */
#ifndef ASSAY_REPORTS_TOOL_ANSWER_H
#define ASSAY_REPORTS_TOOL_ANSWER_H

#include "engine/base/json_strict.h"
#include "reports/store.h"
#include "reports/table.h"

struct tool_answer {
	const struct json *calls;                         /* an array */
	struct str error_type, type, invalid, leniencies; /* type: what error_type begins with */
	struct json_document *documents[2];               /* own all of it */
};

/* 1: *out is filled, and to be freed; 0: the sample holds no tool calls; negative: no memory. */
int tool_answer_read(const struct store_sample *sample, struct tool_answer *out, struct error *e);
void tool_answer_free(struct tool_answer *a); /* zeroes *a */

/* Appends the calls on one line: "add(a=1, b="x"); now()". Nothing for an answer without one. */
void tool_answer_line(const struct tool_answer *a, struct buf *out);

/* Appends the members "calls", "error_type", "invalid" and "leniencies" of a JSON object, without braces. */
void tool_answer_json(const struct tool_answer *a, struct buf *out);

/* Adds both answers' calls beside each other: a row per call with its function, and one per argument; then why they are
 * wrong or invalid. Columns: what, baseline, candidate, change. About TOOL_ROWS rows with at most TOOL_CELL_BYTES of
 * each text; the table's note says that something is left out. */
enum { TOOL_ROWS = 200, TOOL_CELL_BYTES = 1000 };
int tool_answers_table(const struct tool_answer *baseline, const struct tool_answer *candidate, struct table_list *out,
	struct error *e);

#endif
