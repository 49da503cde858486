#include "reports/store_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/buf.h"

/* "Assy": says in the file's header whose database it is. */
enum { APPLICATION_ID = 0x41737379 };

/* Times are nanoseconds since 1970 in UTC; columns that hold JSON are text (checked before it is
 * stored: a CHECK could not call json_valid in an untrusted schema). Names of the tables run, variant and
 * sample are relied on by scripts of users. */
static const char schema_1[] =
	"CREATE TABLE run ("
	"  run_id INTEGER PRIMARY KEY AUTOINCREMENT," /* an id is never used twice, whatever was deleted */
	"  uid TEXT NOT NULL UNIQUE,"
	"  kind TEXT NOT NULL CHECK (kind IN ('run', 'bench', 'overhead', 'inject')),"
	"  started INTEGER NOT NULL,"
	"  finished INTEGER,"
	"  status TEXT NOT NULL CHECK (status IN ('running', 'complete', 'interrupted', 'failed')),"
	"  seconds REAL NOT NULL DEFAULT 0,"
	"  resumptions INTEGER NOT NULL DEFAULT 0,"
	"  config_hash TEXT NOT NULL,"
	"  version TEXT NOT NULL,"
	"  command TEXT NOT NULL,"
	"  host TEXT NOT NULL,"
	"  pid INTEGER NOT NULL,"
	"  model TEXT NOT NULL,"
	"  model_fingerprint TEXT,"
	"  tokenizer_hash TEXT,"
	"  template_hash TEXT,"
	"  numerics_id TEXT,"
	"  for_gating INTEGER NOT NULL CHECK (for_gating IN (0, 1)),"
	"  provenance TEXT NOT NULL"
	") STRICT;"
	"CREATE INDEX run_by_config ON run (config_hash, run_id);"

	"CREATE TABLE variant ("
	"  variant_id INTEGER PRIMARY KEY,"
	"  run_id INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,"
	"  name TEXT NOT NULL,"
	"  weights_bytes INTEGER NOT NULL,"
	"  kv_bytes_per_token INTEGER NOT NULL,"
	"  kv_tokens INTEGER NOT NULL,"
	"  facts TEXT NOT NULL,"
	"  UNIQUE (run_id, name),"
	"  UNIQUE (run_id, variant_id)"
	") STRICT;"

	"CREATE TABLE suite_result ("
	"  suite_result_id INTEGER PRIMARY KEY,"
	"  run_id INTEGER NOT NULL,"
	"  variant_id INTEGER NOT NULL,"
	"  suite TEXT NOT NULL,"
	"  task TEXT NOT NULL," /* the suite's own name: the suite as a whole */
	"  metric TEXT NOT NULL,"
	"  n INTEGER NOT NULL,"
	"  value REAL,"
	"  stderr REAL,"
	"  UNIQUE (run_id, variant_id, suite, task, metric),"
	"  FOREIGN KEY (run_id, variant_id) REFERENCES variant (run_id, variant_id) ON DELETE CASCADE"
	") STRICT;"

	"CREATE TABLE sample ("
	"  sample_id INTEGER PRIMARY KEY,"
	"  run_id INTEGER NOT NULL,"
	"  variant_id INTEGER NOT NULL,"
	"  suite TEXT NOT NULL,"
	"  task TEXT NOT NULL,"
	"  doc_id INTEGER NOT NULL,"
	"  doc_hash TEXT NOT NULL,"
	"  prompt_hash TEXT NOT NULL,"
	"  target_hash TEXT NOT NULL,"
	"  response TEXT NOT NULL,"
	"  filtered TEXT NOT NULL,"
	"  metrics TEXT NOT NULL,"
	"  tokens TEXT," /* ids that were generated */
	"  token_logprobs TEXT,"
	"  status TEXT NOT NULL CHECK (status IN ('ok', 'truncated', 'empty', 'error')),"
	"  finish_reason TEXT,"
	"  error TEXT,"
	"  prompt_tokens INTEGER NOT NULL,"
	"  cached_tokens INTEGER NOT NULL,"
	"  generated_tokens INTEGER NOT NULL,"
	"  seconds REAL NOT NULL,"
	"  finished INTEGER NOT NULL,"
	"  FOREIGN KEY (run_id, variant_id) REFERENCES variant (run_id, variant_id) ON DELETE CASCADE"
	") STRICT;"
	"CREATE UNIQUE INDEX sample_key ON sample (run_id, variant_id, suite, task, doc_id);"

	/* Throughput and latency: one row per point of a benchmark, or per arm and block of an overhead measurement.
	 * Latencies are JSON objects of milliseconds: mean, median, p95, p99. */
	"CREATE TABLE measurement ("
	"  measurement_id INTEGER PRIMARY KEY,"
	"  run_id INTEGER NOT NULL,"
	"  variant_id INTEGER NOT NULL,"
	"  arm TEXT NOT NULL,"      /* guard level */
	"  block INTEGER NOT NULL," /* of interleaved arms; 0 in a benchmark */
	"  phase TEXT NOT NULL,"    /* prefill, decode, mixed */
	"  concurrency INTEGER NOT NULL,"
	"  input_tokens INTEGER NOT NULL,"
	"  output_tokens INTEGER NOT NULL,"
	"  started INTEGER NOT NULL,"
	"  seconds REAL NOT NULL,"
	"  tokens_per_s REAL,"
	"  ttft_ms TEXT,"
	"  itl_ms TEXT,"
	"  tpot_ms TEXT,"
	"  e2e_ms TEXT,"
	"  share_of_floor REAL,"
	"  guard_us_per_step REAL,"
	"  step_us REAL,"
	"  detail TEXT NOT NULL,"
	"  UNIQUE (run_id, variant_id, arm, block, phase, concurrency, input_tokens, output_tokens),"
	"  FOREIGN KEY (run_id, variant_id) REFERENCES variant (run_id, variant_id) ON DELETE CASCADE"
	") STRICT;"

	/* One row per trial of a fault campaign, observed or enforced at a level. */
	"CREATE TABLE fault_trial ("
	"  fault_trial_id INTEGER PRIMARY KEY,"
	"  run_id INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,"
	"  trial INTEGER NOT NULL,"
	"  mode TEXT NOT NULL CHECK (mode IN ('observed', 'enforced')),"
	"  level TEXT NOT NULL,"
	"  variant TEXT NOT NULL,"
	"  seed TEXT NOT NULL," /* unsigned, 64 bits */
	"  workload TEXT NOT NULL,"
	"  site TEXT NOT NULL,"
	"  model TEXT NOT NULL," /* fault model, M1 to M13 */
	"  occurrence INTEGER NOT NULL,"
	"  target TEXT NOT NULL,"
	"  outcome TEXT NOT NULL CHECK (outcome IN ('not_activated', 'masked', 'benign', 'detected', 'detected_late',"
	"    'silent', 'leak', 'crash', 'hang')),"
	"  check_name TEXT," /* the first that fired */
	"  late_tokens INTEGER NOT NULL DEFAULT 0,"
	"  collateral INTEGER NOT NULL DEFAULT 0," /* innocent requests changed or aborted */
	"  replay TEXT NOT NULL,"
	"  detail TEXT NOT NULL,"
	"  UNIQUE (run_id, trial, mode, level)"
	") STRICT;"

	/* One row per firing of a check of a guard. */
	"CREATE TABLE incident ("
	"  incident_id INTEGER PRIMARY KEY,"
	"  run_id INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,"
	"  fault_trial_id INTEGER REFERENCES fault_trial ON DELETE CASCADE,"
	"  variant TEXT NOT NULL,"
	"  time INTEGER NOT NULL,"
	"  check_name TEXT NOT NULL,"
	"  phase TEXT NOT NULL,"
	"  request INTEGER NOT NULL,"
	"  page INTEGER,"
	"  logical_position INTEGER,"
	"  expected TEXT," /* tags and digests are unsigned, 64 bits */
	"  actual TEXT,"
	"  step INTEGER NOT NULL,"
	"  tokens_emitted INTEGER NOT NULL,"
	"  detail TEXT NOT NULL"
	") STRICT;"
	"CREATE INDEX incident_by_run ON incident (run_id, time);";

static const char schema_2[] = "ALTER TABLE sample ADD COLUMN context_cut INTEGER NOT NULL DEFAULT 0;";

/* Element v brings a file of version v to version v + 1. */
static const char *const migrations[STORE_SCHEMA_VERSION] = {schema_1, schema_2};

/* The three numbers come from one statement, so that they are of one moment: another process may make the tables. */
static int read_header(struct store *s, int64_t *application, int64_t *user_version, int64_t *objects, struct error *e)
{
	static const char sql[] = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)"
				  " FROM pragma_application_id, pragma_user_version";
	sqlite3_stmt *statement = NULL;
	if (sqlite3_prepare_v2(s->db, sql, -1, &statement, NULL) != SQLITE_OK)
		return store_fail(s, "read its header", e);
	int status = store_step(s, statement, NULL, "read its header", e);
	if (status == 1) {
		*application = sqlite3_column_int64(statement, 0);
		*user_version = sqlite3_column_int64(statement, 1);
		*objects = sqlite3_column_int64(statement, 2);
	}
	sqlite3_finalize(statement);
	return status < 0 ? status : 0;
}

int store_identify(struct store *s, int *version, struct error *e)
{
	int64_t application = 0;
	int64_t user_version = 0;
	int64_t objects = 0;
	TRY(read_header(s, &application, &user_version, &objects, e));
	bool empty = application == 0 && user_version == 0 && objects == 0;
	if (application != APPLICATION_ID && !empty)
		return error_set(e, ERR_INPUT,
			"%s: is a database of another program (application id %lld, expected %d), it is left as it is",
			s->path, (long long)application, APPLICATION_ID);
	if (user_version > STORE_SCHEMA_VERSION)
		return error_set(e, ERR_INPUT,
			"%s: is of schema version %lld, newer than version %d of this program: use a newer assay",
			s->path, (long long)user_version, STORE_SCHEMA_VERSION);
	if (user_version < 0)
		return error_set(e, ERR_INPUT, "%s: is of schema version %lld, expected 0 to %d", s->path,
			(long long)user_version, STORE_SCHEMA_VERSION);
	*version = (int)user_version;
	return 0;
}

/* ---- Migration ---- */

/* By a connection of its own: one that writes cannot be copied from. */
static int copy_pages(struct store *s, const char *file, struct error *e)
{
	sqlite3 *from = NULL, *to = NULL;
	sqlite3_backup *backup = NULL;
	int code = sqlite3_open_v2(sqlite3_db_filename(s->db, "main"), &from, SQLITE_OPEN_READONLY, NULL);
	if (code == SQLITE_OK)
		code = sqlite3_open_v2(file, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
	if (code == SQLITE_OK) {
		backup = sqlite3_backup_init(to, "main", from, "main");
		if (backup)
			sqlite3_backup_step(backup, -1);
		code = backup ? sqlite3_backup_finish(backup) : sqlite3_errcode(to);
	}
	sqlite3_close(from);
	sqlite3_close(to);
	if (code == SQLITE_OK)
		return 0;
	return error_set(e, ERR_IO, "%s: could not keep a copy of it as %s before its schema changes: %s", s->path,
		file, sqlite3_errstr(code));
}

/* Keeps the file as it was before its schema changes as FILE-vN. Written under another name, so that no half of a copy
 * is ever taken for one. The write lock is held: no other process is at it. */
static int keep_copy(struct store *s, int version, struct error *e)
{
	struct buf name = {0}, written = {0};
	buf_printf(&name, "%s-v%d", sqlite3_db_filename(s->db, "main"), version);
	buf_printf(&written, "%s.part", buf_text(&name));
	int status = buf_check(&written, e);
	if (status == 0 && access(buf_text(&name), F_OK) != 0) {
		unlink(buf_text(&written));
		status = copy_pages(s, buf_text(&written), e);
		if (status == 0 && rename(buf_text(&written), buf_text(&name)) != 0)
			status = error_set(e, ERR_IO, "%s: could not be named %s: %s", buf_text(&written),
				buf_text(&name), strerror(errno));
		unlink(buf_text(&written));
	}
	buf_free(&name);
	buf_free(&written);
	return status;
}

static int migrate_steps(struct store *s, struct error *e)
{
	int version = 0;
	/* Another process may have migrated it since this one looked. */
	TRY(store_identify(s, &version, e));
	if (version > 0 && version < STORE_SCHEMA_VERSION)
		TRY(keep_copy(s, version, e));
	for (; version < STORE_SCHEMA_VERSION; version++)
		TRY(store_exec(s, migrations[version], "make its tables", e));
	char header[128];
	snprintf(header, sizeof(header), "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION_ID,
		STORE_SCHEMA_VERSION);
	return store_exec(s, header, "write its header", e);
}

int store_migrate(struct store *s, struct error *e)
{
	TRY(store_begin(s, "make its tables", e));
	return store_end(s, migrate_steps(s, e), "make its tables", e);
}

/* ---- Are they the tables that they should be? ---- */

/* A line per column, sorted. */
static int append_columns(sqlite3 *db, struct buf *out)
{
	static const char sql[] =
		"SELECT t.name || '.' || c.name || ' ' || c.type || ' ' || c.\"notnull\" || c.pk || t.strict"
		" FROM pragma_table_list t, pragma_table_info(t.name) c"
		" WHERE t.schema = 'main' AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY t.name, c.name";
	sqlite3_stmt *rows = NULL;
	int code = sqlite3_prepare_v2(db, sql, -1, &rows, NULL);
	while (code == SQLITE_OK || code == SQLITE_ROW) {
		code = sqlite3_step(rows);
		if (code == SQLITE_ROW)
			buf_printf(out, "%s\n", column_text(rows, 0));
	}
	sqlite3_finalize(rows);
	return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int expected_columns(struct buf *out)
{
	sqlite3 *db = NULL;
	int code = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
	for (int i = 0; i < STORE_SCHEMA_VERSION && code == SQLITE_OK; i++)
		code = sqlite3_exec(db, migrations[i], NULL, NULL, NULL);
	if (code == SQLITE_OK)
		code = append_columns(db, out);
	sqlite3_close(db);
	return code;
}

int store_check_tables(struct store *s, int (*visit)(void *context, const char *problem, struct error *e),
	void *context, struct error *e)
{
	struct buf expected = {0}, columns = {0};
	int code = expected_columns(&expected);
	int status = code == SQLITE_OK ? 0
				       : error_set(e, ERR_MEMORY, "%s: could not make the tables to compare with: %s",
						 s->path, sqlite3_errstr(code));
	if (status == 0 && append_columns(s->db, &columns) != SQLITE_OK)
		status = store_fail(s, "read its schema", e);
	if (status == 0)
		status = buf_check(&expected, e);
	if (status == 0)
		status = buf_check(&columns, e);
	if (status == 0 && !str_equal(buf_str(&expected), buf_str(&columns)))
		status = visit(context, "its tables and columns are not those of its schema version", e);
	buf_free(&expected);
	buf_free(&columns);
	return status;
}
