/* What is said of a stored run: the tables that `assay run` and `assay show` print, and the JSON of both. */
#ifndef ASSAY_EVALS_RUN_REPORT_H
#define ASSAY_EVALS_RUN_REPORT_H

#include <stdbool.h>

#include "engine/base/buf.h"
#include "reports/store.h"

/* Whether a table has a line for that part of a suite. */
struct report_filter {
	bool (*shows)(void *context, const char *suite, const char *task);
	void *context;
};

/* Appends two tables: a line per suite, metric and variant with n and value ± standard error (a suite without a result
 * yet with the answers it has; an exam with passed / total), and a line per variant with bytes of weights, KV bytes per
 * token and KV tokens; then how many of the prompts' tokens were in the cache, and the
 * incidents of guards by check. filter: NULL shows every part of a suite. */
int run_report_tables(struct store *s, int64_t run_id, const struct report_filter *filter, bool color, struct buf *out,
	struct error *e);

/* Appends the members of a run's JSON object, without its braces: "schema_version", those of run_report_json_head,
 * "variants" and "tokens". A suite that is reported by parts has them in "tasks"; "states" counts its answers that are ok,
 * truncated, empty, errors, and those whose context was cut. */
int run_report_json(struct store *s, int64_t run_id, struct buf *out, struct error *e);

/* Appends the members that describe a run: "run", "uid", "kind", "status", … "seconds", "provenance". */
void run_report_json_head(const struct store_run *run, struct buf *out);

/* Append "name": VALUE. A NULL text and a number that is not finite become null. */
void json_member_text(struct buf *out, const char *name, const char *text);
void json_member_double(struct buf *out, const char *name, double value);
void json_member_int(struct buf *out, const char *name, int64_t value);

/* Appends a time of the store: for people in local time, "2026-08-21 14:03"; for programs in UTC,
 * "2026-08-21T14:03:11.123Z". */
void append_local_time(struct buf *out, int64_t ns);
void append_utc_time(struct buf *out, int64_t ns);

#endif
