/* What the program left in its database, read with SQL as anybody would. */
#ifndef ASSAY_TESTS_PROGRAM_STORE_H
#define ASSAY_TESTS_PROGRAM_STORE_H

#include <sqlite3.h>

#include "tests/program.h"

/* All rows, a line each, columns between bars; the caller frees it. */
static inline struct buf sql(const char *db, const char *query)
{
	sqlite3 *handle = NULL;
	sqlite3_stmt *rows = NULL;
	struct buf out = {0};
	ck_assert_msg(sqlite3_open_v2(db, &handle, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK, "%s: %s", db,
		sqlite3_errmsg(handle));
	sqlite3_busy_timeout(handle, 5000);
	ck_assert_msg(sqlite3_prepare_v2(handle, query, -1, &rows, NULL) == SQLITE_OK, "%s: %s", query,
		sqlite3_errmsg(handle));
	int status;
	while ((status = sqlite3_step(rows)) == SQLITE_ROW) {
		for (int i = 0; i < sqlite3_column_count(rows); i++) {
			const char *text = (const char *)sqlite3_column_text(rows, i);
			buf_printf(&out, "%s%s", i ? "|" : "", text ? text : "-");
		}
		buf_append_char(&out, '\n');
	}
	ck_assert_msg(status == SQLITE_DONE, "%s: %s", query, sqlite3_errmsg(handle));
	sqlite3_finalize(rows);
	sqlite3_close(handle);
	return out;
}

static inline void sql_change(const char *db, const char *statement)
{
	sqlite3 *handle = NULL;
	ck_assert_int_eq(sqlite3_open(db, &handle), SQLITE_OK);
	ck_assert_msg(sqlite3_exec(handle, statement, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(handle));
	sqlite3_close(handle);
}

static inline int64_t sql_int(const char *db, const char *query)
{
	struct buf out = sql(db, query);
	int64_t value = strtoll(buf_text(&out), NULL, 10);
	buf_free(&out);
	return value;
}

static inline void expect_sql(const char *db, const char *query, const char *expected)
{
	struct buf out = sql(db, query);
	ck_assert_msg(
		strcmp(buf_text(&out), expected) == 0, "%s gives\n%s, expected\n%s", query, buf_text(&out), expected);
	buf_free(&out);
}

/* All that answers say, without ids and times: two runs of one configuration must agree in every byte. How much of a
 * prompt was in the cache is no part of it: that depends on what was asked before, and changes no answer. */
static inline struct buf answers(const char *db, int run_id)
{
	char query[1024];
	snprintf(query, sizeof(query),
		"SELECT name, suite, task, doc_id, doc_hash, prompt_hash, target_hash, response, filtered, metrics, "
		"tokens, token_logprobs,"
		" sample.status, finish_reason, error, prompt_tokens, generated_tokens"
		" FROM sample JOIN variant USING (variant_id) WHERE sample.run_id = %d ORDER BY name, suite, task, "
		"doc_id, sample_id",
		run_id);
	struct buf samples = sql(db, query);
	snprintf(query, sizeof(query),
		"SELECT name, suite, task, metric, n, value, stderr FROM suite_result JOIN variant USING (variant_id)"
		" WHERE suite_result.run_id = %d ORDER BY name, suite, task, metric",
		run_id);
	struct buf results = sql(db, query);
	buf_append_str(&samples, buf_str(&results));
	buf_free(&results);
	return samples;
}

static inline void expect_same(const struct buf *actual, const struct buf *expected)
{
	size_t line = 0;
	ck_assert_uint_gt(expected->length, 0);
	for (size_t i = 0; i < actual->length && i < expected->length && actual->data[i] == expected->data[i]; i++)
		line = actual->data[i] == '\n' ? i + 1 : line;
	if (!str_equal(buf_str(actual), buf_str(expected)))
		ck_abort_msg("%.600s\nexpected\n%.600s", actual->length > line ? actual->data + line : "nothing",
			expected->length > line ? expected->data + line : "nothing");
}

#endif
