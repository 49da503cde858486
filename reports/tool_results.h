/* Tool calls of two runs beside each other: what they do to each category, and by which errors. */
#ifndef ASSAY_REPORTS_TOOL_RESULTS_H
#define ASSAY_REPORTS_TOOL_RESULTS_H

#include "reports/pairing.h"

/* Items whose calls are wrong in one way. */
struct tool_error {
	char *type;                  /* as BFCL names it: "value_error:string"; owned */
	int64_t baseline, candidate; /* items that fail so on that side */
	int64_t appeared, vanished;  /* of these, items that do not fail so on the other side */
};

/* Items of which a side calls a tool, and of these the ones whose calls all could be carried out. */
struct tool_validity {
	int64_t called, valid;
};

struct tool_category {
	const char *name; /* "simple_python"; NULL: the whole suite */
	struct paired_table table;
	int64_t n;
	double baseline, candidate, drop; /* fractions; NaN where n is 0 */
	struct interval interval;         /* of the drop: two-sided 95%, Tango's score */
	struct tool_validity baseline_calls, candidate_calls;
	int64_t both_call; /* items in which both sides call a tool */
	double trigger_f1; /* agreement on whether to call, the baseline for reference; NaN: neither ever calls */
	struct tool_error *errors; /* [n_errors], the candidate's most frequent first */
	size_t n_errors;
};

struct tool_suite {
	struct tool_category whole;
	struct tool_category *categories; /* [n], in the order of the tasks' names */
	size_t n;
};

/* Counts the complete pairs of a suite in which both answers hold tool calls; n stays 0 where it has none. *out is to
 * be freed on failure, too. */
int tool_suite_make(const struct suite_pairs *suite, struct tool_suite *out, struct error *e);
void tool_suite_free(struct tool_suite *s); /* zeroes *s */

/* Share of the items with a call whose calls are valid; NaN without one. */
double tool_validity_share(struct tool_validity v);

#endif
