#include <assert.h>
#include <stdlib.h>

#include "reports/store_internal.h"

/* 64 bits without a sign, which SQLite's integers do not hold. text must live until the step. */
static void bind_unsigned(struct store_binder *b, uint64_t value, char text[24])
{
	snprintf(text, 24, "%llu", (unsigned long long)value);
	bind_text(b, text);
}

static uint64_t column_unsigned(sqlite3_stmt *statement, int column)
{
	const char *text = column_text(statement, column);
	return text ? strtoull(text, NULL, 10) : 0;
}

static int row_insert(struct store *s, const struct store_fault_trial *t, int64_t *id, struct error *e)
{
	struct store_binder b = {0};
	char seed[24], workload[24], target[24];

	TRY(store_check_json(s, t->detail, "detail", "store a trial", e));
	TRY(store_prepare(s,
		"INSERT INTO fault_trial (run_id, trial, mode, level, variant, seed, workload, site, model, occurrence,"
		" target, outcome, check_name, late_tokens, collateral, replay, detail)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
		&b.statement, e));
	snprintf(target, sizeof target, "%lld", (long long)t->target);
	bind_int(&b, s->run_id);
	bind_int(&b, t->trial);
	bind_text(&b, t->mode);
	bind_text(&b, t->level);
	bind_text(&b, t->variant);
	bind_unsigned(&b, t->seed, seed);
	bind_unsigned(&b, t->workload, workload);
	bind_text(&b, t->site);
	bind_text(&b, t->model);
	bind_int(&b, t->occurrence);
	bind_text(&b, target);
	bind_text(&b, t->outcome);
	bind_text(&b, t->check);
	bind_int(&b, t->late_tokens);
	bind_int(&b, t->collateral);
	bind_text(&b, t->replay);
	bind_str(&b, t->detail);
	TRY(store_run_statement(s, &b, "store a trial", e));
	*id = sqlite3_last_insert_rowid(s->db);
	return 0;
}

enum { MOST_ROWS = 16 };

static int rows_insert(struct store *s, const struct store_fault_trial *rows, int n,
	const struct store_incident *incidents, int n_incidents, struct error *e)
{
	int64_t ids[MOST_ROWS];

	for (int i = 0; i < n; i++)
		TRY(row_insert(s, &rows[i], &ids[i], e));
	for (int i = 0; i < n_incidents; i++) {
		struct store_incident incident = incidents[i];
		incident.fault_trial_id = ids[incident.fault_trial_id - 1];
		TRY(store_incident_insert(s, &incident, e));
	}
	return 0;
}

int store_fault_trials_insert(struct store *s, const struct store_fault_trial *rows, int n,
	const struct store_incident *incidents, int n_incidents, struct error *e)
{
	assert(s->run_id && n <= MOST_ROWS);
	TRY(store_begin(s, "store a trial", e));
	TRY(store_end(s, rows_insert(s, rows, n, incidents, n_incidents, e), "store a trial", e));
	return store_run_beat(s, e);
}

int store_fault_trials_each(
	struct store *s, int64_t run_id, store_visit_fault_trial *visit, void *context, struct error *e)
{
	struct store_binder b = {0};
	TRY(store_prepare(s,
		"SELECT fault_trial_id, trial, mode, level, variant, seed, workload, site, model, occurrence, target,"
		" outcome, check_name, late_tokens, collateral, replay, detail"
		" FROM fault_trial WHERE run_id = ?1 ORDER BY trial, fault_trial_id",
		&b.statement, e));
	bind_int(&b, run_id);
	int status;
	while ((status = store_step(s, b.statement, &b, "read the trials", e)) == 1) {
		const char *target = column_text(b.statement, 10);
		struct store_fault_trial t = {
			.fault_trial_id = sqlite3_column_int64(b.statement, 0),
			.trial = sqlite3_column_int64(b.statement, 1),
			.mode = column_text(b.statement, 2),
			.level = column_text(b.statement, 3),
			.variant = column_text(b.statement, 4),
			.seed = column_unsigned(b.statement, 5),
			.workload = column_unsigned(b.statement, 6),
			.site = column_text(b.statement, 7),
			.model = column_text(b.statement, 8),
			.occurrence = sqlite3_column_int64(b.statement, 9),
			.target = target ? strtoll(target, NULL, 10) : 0,
			.outcome = column_text(b.statement, 11),
			.check = column_text(b.statement, 12),
			.late_tokens = sqlite3_column_int64(b.statement, 13),
			.collateral = sqlite3_column_int64(b.statement, 14),
			.replay = column_text(b.statement, 15),
			.detail = column_str(b.statement, 16),
		};
		TRY_CLEANUP(status, visit(context, &t, e));
	}
cleanup:
	sqlite3_finalize(b.statement);
	return status;
}

static int counts_each(struct store *s, int64_t run_id, const char *sql, store_visit_fault_count *visit, void *context,
	struct error *e)
{
	struct store_binder b = {0};
	int status;

	TRY(store_prepare(s, sql, &b.statement, e));
	bind_int(&b, run_id);
	while ((status = store_step(s, b.statement, &b, "count the trials", e)) == 1) {
		struct store_fault_count count = {.level = column_text(b.statement, 0),
			.model = column_text(b.statement, 1),
			.site = column_text(b.statement, 2),
			.key = column_text(b.statement, 3),
			.n = sqlite3_column_int64(b.statement, 4)};
		TRY_CLEANUP(status, visit(context, &count, e));
	}
cleanup:
	sqlite3_finalize(b.statement);
	return status < 0 ? status : 0;
}

/* M2 before M10. */
#define BY_MODEL "CAST(substr(model, 2) AS INTEGER), site"

int store_fault_outcomes_each(
	struct store *s, int64_t run_id, store_visit_fault_count *visit, void *context, struct error *e)
{
	return counts_each(s, run_id,
		"SELECT CASE mode WHEN 'enforced' THEN level END, model, site, outcome, count(*) FROM fault_trial"
		" WHERE run_id = ?1 GROUP BY mode, level, model, site, outcome"
		" ORDER BY mode DESC, level, " BY_MODEL ", outcome",
		visit, context, e);
}

int store_fault_checks_each(
	struct store *s, int64_t run_id, store_visit_fault_count *visit, void *context, struct error *e)
{
	return counts_each(s, run_id,
		"SELECT NULL, model, site, incident.check_name, count(DISTINCT trial) FROM fault_trial JOIN incident"
		" USING (fault_trial_id) WHERE fault_trial.run_id = ?1 AND mode = 'observed'"
		" AND outcome NOT IN ('not_activated', 'masked', 'benign')"
		" GROUP BY model, site, incident.check_name ORDER BY " BY_MODEL ", 4",
		visit, context, e);
}
