#include "reports/store_care.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "reports/store_internal.h"

/* ---- Check ---- */

/* Each query gives a text per problem. */
static const char *const checks[] = {
	"SELECT integrity_check FROM pragma_integrity_check(20) WHERE integrity_check <> 'ok'",
	"SELECT 'a row of ' || \"table\" || ' (rowid ' || coalesce(rowid, '?') || ') points at a missing row of ' || "
	"parent"
	" FROM pragma_foreign_key_check",
	"SELECT 'run ' || run_id || ': its uid is ' || quote(uid) || ', expected r and 15 hex digits' FROM run"
	" WHERE length(uid) <> 16 OR substr(uid, 1, 1) <> 'r' OR substr(uid, 2) GLOB '*[^0-9a-f]*'",
	"SELECT 'run ' || run_id || ': its provenance is no JSON object' FROM run"
	" WHERE NOT json_valid(provenance) OR json_type(provenance) <> 'object'",
	"SELECT 'run ' || run_id || ' is ' || status || ' and has no end' FROM run"
	" WHERE status = 'complete' AND finished IS NULL",
	"SELECT 'run ' || run_id || ' ended before it began' FROM run WHERE finished < started",
	"SELECT 'variant ' || variant_id || ' (' || name || '): its facts are no JSON object' FROM variant"
	" WHERE NOT json_valid(facts) OR json_type(facts) <> 'object'",
	"SELECT 'run ' || run_id || ', ' || task || ' document ' || doc_id || ': ' ||"
	" CASE WHEN NOT json_valid(response) THEN 'response' WHEN NOT json_valid(filtered) THEN 'filtered'"
	" WHEN NOT json_valid(metrics) THEN 'metrics' WHEN NOT json_valid(tokens) THEN 'tokens'"
	" ELSE 'token_logprobs' END || ' is no JSON' FROM sample"
	" WHERE NOT (json_valid(response) AND json_valid(filtered) AND json_valid(metrics)"
	" AND (tokens IS NULL OR json_valid(tokens)) AND (token_logprobs IS NULL OR json_valid(token_logprobs)))",
	"SELECT 'run ' || run_id || ', ' || task || ' document ' || doc_id || ' is an error and does not say which'"
	" FROM sample WHERE status = 'error' AND error IS NULL",
	"SELECT 'run ' || r.run_id || ': the result ' || r.suite || ' ' || r.metric || ' is of ' || r.n || ' items, "
	"but '"
	" || count(sample_id) || ' answers are there'"
	" FROM suite_result r LEFT JOIN sample x ON x.run_id = r.run_id AND x.variant_id = r.variant_id AND"
	" x.suite = r.suite AND x.status <> 'error' WHERE r.task = r.suite"
	" GROUP BY suite_result_id HAVING r.n > count(sample_id)",
	"SELECT 'run ' || run_id || ' is shard ' || json_extract(provenance, '$.shard.index') || '/' ||"
	" json_extract(provenance, '$.shard.count') || ' and holds ' || task || ' document ' || doc_id"
	" FROM sample JOIN run USING (run_id) WHERE json_valid(provenance) AND json_type(provenance, '$.shard.count') ="
	" 'integer' AND doc_id % json_extract(provenance, '$.shard.count') <> json_extract(provenance, "
	"'$.shard.index') - 1",
	"SELECT 'measurement ' || measurement_id || ': a latency is no JSON object' FROM measurement"
	" WHERE NOT (json_valid(coalesce(ttft_ms, '{}')) AND json_valid(coalesce(itl_ms, '{}'))"
	" AND json_valid(coalesce(tpot_ms, '{}')) AND json_valid(coalesce(e2e_ms, '{}')) AND json_valid(detail))",
};

static int run_check(struct store *s, const char *sql, store_visit_problem *visit, void *context, struct error *e)
{
	sqlite3_stmt *rows = NULL;
	int status = 0;
	TRY(store_prepare(s, sql, &rows, e));
	for (int i = 0; i < STORE_PROBLEMS && (status = store_step(s, rows, NULL, "check it", e)) == 1; i++) {
		const char *problem = column_text(rows, 0);
		TRY_CLEANUP(status, visit(context, problem ? problem : "a row that cannot be named", e));
	}
cleanup:
	sqlite3_finalize(rows);
	return status < 0 ? status : 0;
}

int store_check(struct store *s, store_visit_problem *visit, void *context, struct error *e)
{
	TRY(store_check_tables(s, visit, context, e));
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
		TRY(run_check(s, checks[i], visit, context, e));
	return 0;
}

int store_rows(struct store *s, const char *table, int64_t *rows, struct error *e)
{
	char sql[64];
	struct store_binder b = {0};
	snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table);
	TRY(store_prepare(s, sql, &b.statement, e));
	return store_query_int(s, &b, rows, "count its rows", e);
}

/* ---- Vacuum and export ---- */

static int refuse_writer(void *context, const struct store_run *run, struct error *e)
{
	const struct store *s = context;
	if (run->status != RUN_RUNNING)
		return 0;
	return error_set(e, ERR_STORE,
		"%s: run %" PRId64 " is being written by process %" PRId64 " on %s: wait until it has ended", s->path,
		run->run_id, run->pid, run->host);
}

int store_vacuum(struct store *s, struct error *e)
{
	TRY(store_runs_each(s, 0, refuse_writer, s, e));
	TRY(store_exec(s, "PRAGMA optimize", "gather its statistics", e));
	TRY(store_exec(s, "VACUUM", "give its free pages back", e));
	return store_exec(s, "PRAGMA wal_checkpoint(TRUNCATE)", "empty its log", e);
}

int store_export(struct store *s, const char *file, struct error *e)
{
	if (access(file, F_OK) == 0)
		return error_set(e, ERR_USAGE, "%s: exists already, expected the name of a new file", file);
	/* The transaction that made everything that is read be of one moment would be in its way; it has its own. */
	if (!sqlite3_get_autocommit(s->db))
		TRY(store_exec(s, "COMMIT", "copy it", e));
	/* SQLite takes some names without a folder for something else than a file. */
	char *name = path_join(file[0] == '/' ? "" : ".", file, e);
	if (!name)
		return ERR_MEMORY;
	struct store_binder b = {0};
	int status = store_prepare(s, "VACUUM INTO ?1", &b.statement, e);
	if (status == 0) {
		bind_text(&b, name);
		status = store_step(s, b.statement, &b, "copy it", e);
	}
	if (status < 0 && (sqlite3_extended_errcode(s->db) & 0xff) == SQLITE_CANTOPEN) {
		int number = sqlite3_system_errno(s->db);
		status = error_set(e, ERR_IO, "%s: cannot be written: %s", file,
			number ? strerror(number) : sqlite3_errmsg(s->db));
	}
	sqlite3_finalize(b.statement);
	free(name);
	return status < 0 ? status : 0;
}
