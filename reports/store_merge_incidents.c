#include <stdlib.h>

#include "reports/store_merge_internal.h"

/* Columns that are copied as they are. */
#define TRIAL_COLUMNS                                                                                        \
	"trial, mode, level, variant, seed, workload, site, model, occurrence, target, outcome, check_name," \
	" late_tokens, collateral, replay, detail"
#define INCIDENT_COLUMNS                                                                             \
	"variant, time, check_name, phase, request, page, logical_position, expected, actual, step," \
	" tokens_emitted, detail"
enum { TRIAL_COLUMN_COUNT = 16, INCIDENT_COLUMN_COUNT = 12 };

/* A trial's id in its shard, and in the joined run. */
struct trial_id {
	int64_t from, to;
};

struct trial_ids {
	struct trial_id *items; /* [n], from ascending */
	size_t n;
};

static int add_id(struct trial_ids *ids, int64_t from, int64_t to, struct error *e)
{
	struct trial_id *grown = ids->items;
	if ((ids->n & (ids->n - 1)) == 0) /* room doubles whenever n is a power of two */
		grown = reallocarray(ids->items, ids->n ? 2 * ids->n : 1, sizeof(*grown));
	if (!grown)
		return error_set(e, ERR_MEMORY, "no memory for the trials of a shard");
	ids->items = grown;
	ids->items[ids->n++] = (struct trial_id){from, to};
	return 0;
}

static int by_from(const void *key, const void *item)
{
	int64_t from = *(const int64_t *)key, other = ((const struct trial_id *)item)->from;
	return (from > other) - (from < other);
}

/* Runs the insertion with ?1 the joined run and the row's columns [first, first + n) from ?2 on. */
static int insert_row(
	struct merge *m, sqlite3_stmt *row, int first, int n, sqlite3_stmt *insert, const char *doing, struct error *e)
{
	int code = sqlite3_bind_int64(insert, 1, m->run_id);
	for (int i = 0; i < n && code == SQLITE_OK; i++)
		code = sqlite3_bind_value(insert, 2 + i, sqlite3_column_value(row, first + i));
	struct store_binder binder = {insert, 0, code};
	int status = store_step(m->target, insert, &binder, doing, e);
	sqlite3_reset(insert);
	return status < 0 ? status : 0;
}

static int copy_trials(struct merge *m, const struct part *p, struct trial_ids *ids, struct error *e)
{
	struct store_binder b = {0};
	sqlite3_stmt *insert = NULL;
	int status = 0;
	TRY_CLEANUP(status,
		store_prepare(p->store,
			"SELECT fault_trial_id, " TRIAL_COLUMNS " FROM fault_trial WHERE run_id = ?1 ORDER BY 1",
			&b.statement, e));
	TRY_CLEANUP(status,
		store_prepare(m->target,
			"INSERT INTO fault_trial (run_id, " TRIAL_COLUMNS ")"
			" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
			&insert, e));
	bind_int(&b, p->run_id);
	while ((status = store_step(p->store, b.statement, &b, "read the trials", e)) == 1) {
		TRY_CLEANUP(status, insert_row(m, b.statement, 1, TRIAL_COLUMN_COUNT, insert, "add a trial", e));
		TRY_CLEANUP(status,
			add_id(ids, sqlite3_column_int64(b.statement, 0), sqlite3_last_insert_rowid(m->target->db), e));
	}
cleanup:
	sqlite3_finalize(b.statement);
	sqlite3_finalize(insert);
	return status;
}

/* The last parameter is the trial of a planned fault, NULL where there was none. */
static int bind_trial(sqlite3_stmt *insert, sqlite3_stmt *row, const struct trial_ids *ids)
{
	int64_t from = sqlite3_column_int64(row, 0);
	const struct trial_id *id = ids->n ? bsearch(&from, ids->items, ids->n, sizeof(*ids->items), by_from) : NULL;
	return id ? sqlite3_bind_int64(insert, 2 + INCIDENT_COLUMN_COUNT, id->to)
		  : sqlite3_bind_null(insert, 2 + INCIDENT_COLUMN_COUNT);
}

static int copy_incidents(struct merge *m, const struct part *p, const struct trial_ids *ids, struct error *e)
{
	struct store_binder b = {0};
	sqlite3_stmt *insert = NULL;
	int status = 0;
	TRY_CLEANUP(status,
		store_prepare(p->store,
			"SELECT fault_trial_id, " INCIDENT_COLUMNS " FROM incident WHERE run_id = ?1 ORDER BY "
			"incident_id",
			&b.statement, e));
	TRY_CLEANUP(status,
		store_prepare(m->target,
			"INSERT INTO incident (run_id, " INCIDENT_COLUMNS ", fault_trial_id)"
			" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
			&insert, e));
	bind_int(&b, p->run_id);
	while ((status = store_step(p->store, b.statement, &b, "read the incidents", e)) == 1) {
		if (bind_trial(insert, b.statement, ids) != SQLITE_OK)
			TRY_CLEANUP(status, store_fail(m->target, "add an incident", e));
		TRY_CLEANUP(status, insert_row(m, b.statement, 1, INCIDENT_COLUMN_COUNT, insert, "add an incident", e));
	}
cleanup:
	sqlite3_finalize(b.statement);
	sqlite3_finalize(insert);
	return status;
}

int merge_incidents(struct merge *m, const struct part *p, struct error *e)
{
	struct trial_ids ids = {0};
	int status = copy_trials(m, p, &ids, e);
	if (status == 0)
		status = copy_incidents(m, p, &ids, e);
	free(ids.items);
	return status;
}
