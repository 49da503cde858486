#include <assert.h>

#include "reports/store_internal.h"

/* Tags and digests are unsigned, 64 bits, which SQLite's integers do not hold. text must live until the step. */
static void bind_unsigned(struct store_binder *b, uint64_t value, char text[24])
{
	snprintf(text, 24, "%llu", (unsigned long long)value);
	bind_text(b, text);
}

static void bind_int_or_null(struct store_binder *b, int64_t value)
{
	if (value < 0)
		bind_text(b, NULL);
	else
		bind_int(b, value);
}

int store_incident_insert(struct store *s, const struct store_incident *i, struct error *e)
{
	struct store_binder b = {0};
	char expected[24], actual[24];

	assert(s->run_id);
	TRY(store_check_json(s, i->detail, "detail", "store an incident", e));
	TRY(store_prepare(s,
		"INSERT INTO incident (run_id, fault_trial_id, variant, time, check_name, phase, request, page,"
		" logical_position, expected, actual, step, tokens_emitted, detail)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
		&b.statement, e));
	bind_int(&b, s->run_id);
	if (i->fault_trial_id)
		bind_int(&b, i->fault_trial_id);
	else
		bind_text(&b, NULL);
	bind_text(&b, i->variant);
	bind_int(&b, i->time);
	bind_text(&b, i->check);
	bind_text(&b, i->phase);
	bind_int(&b, (int64_t)i->request);
	bind_int_or_null(&b, i->page);
	bind_int_or_null(&b, i->logical);
	bind_unsigned(&b, i->expected, expected);
	bind_unsigned(&b, i->actual, actual);
	bind_int(&b, (int64_t)i->step);
	bind_int(&b, i->tokens_emitted);
	bind_str(&b, i->detail);
	return store_run_statement(s, &b, "store an incident", e);
}

static uint64_t column_unsigned(sqlite3_stmt *statement, int column)
{
	const char *text = column_text(statement, column);
	uint64_t value = 0;

	for (; text && *text >= '0' && *text <= '9'; text++)
		value = value * 10 + (uint64_t)(*text - '0');
	return value;
}

static int64_t column_int_or(sqlite3_stmt *statement, int column, int64_t otherwise)
{
	return sqlite3_column_type(statement, column) == SQLITE_NULL ? otherwise
								     : sqlite3_column_int64(statement, column);
}

int store_incidents_each(struct store *s, int64_t run_id, store_visit_incident *visit, void *context, struct error *e)
{
	struct store_binder b = {0};
	int status;

	TRY(store_prepare(s,
		"SELECT fault_trial_id, variant, time, check_name, phase, request, page, logical_position, expected,"
		" actual, step, tokens_emitted, detail FROM incident WHERE run_id = ?1 ORDER BY incident_id",
		&b.statement, e));
	bind_int(&b, run_id);
	while ((status = store_step(s, b.statement, &b, "read the incidents", e)) == 1) {
		struct store_incident i = {
			.fault_trial_id = column_int_or(b.statement, 0, 0),
			.variant = column_text(b.statement, 1),
			.time = sqlite3_column_int64(b.statement, 2),
			.check = column_text(b.statement, 3),
			.phase = column_text(b.statement, 4),
			.request = (uint64_t)sqlite3_column_int64(b.statement, 5),
			.page = column_int_or(b.statement, 6, -1),
			.logical = column_int_or(b.statement, 7, -1),
			.expected = column_unsigned(b.statement, 8),
			.actual = column_unsigned(b.statement, 9),
			.step = (uint64_t)sqlite3_column_int64(b.statement, 10),
			.tokens_emitted = sqlite3_column_int64(b.statement, 11),
			.detail = column_str(b.statement, 12),
		};
		TRY_CLEANUP(status, visit(context, &i, e));
	}
cleanup:
	sqlite3_finalize(b.statement);
	return status;
}
