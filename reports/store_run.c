#include "reports/store_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/random.h>
#include <unistd.h>

static const char *const run_status_names[] = {"running", "complete", "interrupted", "failed"};

const char *run_status_name(enum run_status status)
{
	return run_status_names[status];
}

/* An unknown name cannot be in the table: a CHECK refuses it. */
static enum run_status run_status_of(const char *name)
{
	for (size_t i = 0; i < sizeof(run_status_names) / sizeof(run_status_names[0]); i++)
		if (name && strcmp(name, run_status_names[i]) == 0)
			return (enum run_status)i;
	return RUN_FAILED;
}

/* ---- The lock: byte RUN_ID of FILE-lock ---- */

static struct flock run_byte(int64_t run_id)
{
	return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = run_id, .l_len = 1};
}

/* 1: taken; 0: another process has it. */
static int run_lock(struct store *s, int64_t run_id, struct error *e)
{
	if (s->lock_file < 0)
		s->lock_file = open(s->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (s->lock_file < 0)
		return error_set(e, ERR_IO, "%s: cannot open: %s", s->lock_path, strerror(errno));
	struct flock byte = run_byte(run_id);
	if (fcntl(s->lock_file, F_OFD_SETLK, &byte) == 0)
		return 1;
	if (errno == EAGAIN || errno == EACCES)
		return 0;
	return error_set(e, ERR_IO, "%s: cannot lock: %s", s->lock_path, strerror(errno));
}

static void run_unlock(struct store *s)
{
	struct flock byte = run_byte(s->run_id);
	byte.l_type = F_UNLCK;
	fcntl(s->lock_file, F_OFD_SETLK, &byte);
	s->run_id = 0;
}

bool store_run_is_locked(struct store *s, int64_t run_id)
{
	if (run_id == s->run_id)
		return true;
	if (s->lock_file < 0)
		s->lock_file = open(s->lock_path, O_RDONLY | O_CLOEXEC);
	struct flock byte = run_byte(run_id);
	return s->lock_file >= 0 && fcntl(s->lock_file, F_OFD_GETLK, &byte) == 0 && byte.l_type != F_UNLCK;
}

/* ---- Begin and finish ---- */

int store_run_find_resumable(struct store *s, const char *config_hash, int64_t *run_id, struct error *e)
{
	struct store_binder b = {0};
	TRY(store_prepare(
		s, "SELECT max(run_id) FROM run WHERE config_hash = ?1 AND status <> 'complete'", &b.statement, e));
	bind_text(&b, config_hash);
	return store_query_int(s, &b, run_id, "look for a run to go on with", e);
}

static int describe_writer(void *context, const struct store_run *run, struct error *e)
{
	const struct store *s = context;
	return error_set(e, ERR_STORE,
		"%s: run %" PRId64 " of this configuration is being written by process %" PRId64
		" on %s: wait for it, stop it, or use another database (--db)",
		s->path, run->run_id, run->pid, run->host);
}

static void host_name(char *out, size_t size)
{
	if (gethostname(out, size) != 0)
		snprintf(out, size, "unknown");
	out[size - 1] = '\0';
}

static int resume_run(struct store *s, int64_t run_id, struct error *e)
{
	char host[256];
	host_name(host, sizeof(host));
	struct store_binder b = {0};
	TRY(store_prepare(s,
		"UPDATE run SET status = 'running', finished = NULL, resumptions = resumptions + 1, host = ?1, pid = ?2"
		" WHERE run_id = ?3",
		&b.statement, e));
	bind_text(&b, host);
	bind_int(&b, getpid());
	bind_int(&b, run_id);
	TRY(store_run_statement(s, &b, "go on with a run", e));

	struct store_binder seconds = {0};
	TRY(store_prepare(s, "SELECT seconds FROM run WHERE run_id = ?1", &seconds.statement, e));
	bind_int(&seconds, run_id);
	int status = store_step(s, seconds.statement, &seconds, "go on with a run", e);
	s->seconds_before = status == 1 ? sqlite3_column_double(seconds.statement, 0) : 0;
	sqlite3_finalize(seconds.statement);
	return status < 0 ? status : 0;
}

static int insert_run(struct store *s, const struct store_run *run, int64_t *run_id, struct error *e)
{
	uint64_t random = 0;
	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return error_set(e, ERR_IO, "%s: cannot draw a name for the run: %s", s->path, strerror(errno));
	char uid[STORE_UID_SIZE];
	snprintf(uid, sizeof(uid), "r%015" PRIx64, random >> 4);
	char host[256];
	host_name(host, sizeof(host));

	struct store_binder b = {0};
	TRY(store_prepare(s,
		"INSERT INTO run (uid, kind, started, status, config_hash, version, command, host, pid, model,"
		" model_fingerprint, tokenizer_hash, template_hash, numerics_id, for_gating, provenance)"
		" VALUES (?1, ?2, ?3, 'running', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
		&b.statement, e));
	bind_text(&b, uid);
	bind_text(&b, run->kind);
	bind_int(&b, store_clock(CLOCK_REALTIME));
	bind_text(&b, run->config_hash);
	bind_text(&b, run->version);
	bind_text(&b, run->command);
	bind_text(&b, host);
	bind_int(&b, getpid());
	bind_text(&b, run->model);
	bind_text(&b, run->model_fingerprint);
	bind_text(&b, run->tokenizer_hash);
	bind_text(&b, run->template_hash);
	bind_text(&b, run->numerics_id);
	bind_int(&b, run->for_gating);
	bind_str(&b, run->provenance);
	TRY(store_run_statement(s, &b, "add a run", e));
	*run_id = sqlite3_last_insert_rowid(s->db);
	s->seconds_before = 0;
	return 0;
}

/* Inside a transaction. On failure no lock is held. */
static int begin_run(struct store *s, const struct store_run *run, int64_t *run_id, bool *resumed, struct error *e)
{
	TRY(store_run_find_resumable(s, run->config_hash, run_id, e));
	*resumed = *run_id != 0;
	if (!*resumed)
		TRY(insert_run(s, run, run_id, e));
	int locked = run_lock(s, *run_id, e);
	if (locked == 0)
		return store_runs_each(s, *run_id, describe_writer, s, e);
	TRY(locked);
	s->run_id = *run_id;
	int status = *resumed ? resume_run(s, *run_id, e) : 0;
	if (status < 0)
		run_unlock(s);
	return status;
}

int store_run_begin(struct store *s, const struct store_run *run, int64_t *run_id, bool *resumed, struct error *e)
{
	assert(!s->run_id);
	TRY(store_check_json(s, run->provenance, "provenance", "begin a run", e));
	TRY(store_begin(s, "begin a run", e));
	int status = store_end(s, begin_run(s, run, run_id, resumed, e), "begin a run", e);
	if (status < 0) {
		if (s->run_id) /* the commit failed */
			run_unlock(s);
		*run_id = 0;
		return status;
	}
	s->begun = s->beat = store_clock(CLOCK_MONOTONIC);
	return 0;
}

static double run_seconds(const struct store *s, int64_t now)
{
	return s->seconds_before + (double)(now - s->begun) * 1e-9;
}

int store_run_beat(struct store *s, struct error *e)
{
	int64_t now = store_clock(CLOCK_MONOTONIC);
	if (now - s->beat < 1000000000)
		return 0;
	s->beat = now;
	struct store_binder b = {0};
	TRY(store_prepare(s, "UPDATE run SET seconds = ?1 WHERE run_id = ?2", &b.statement, e));
	bind_double(&b, run_seconds(s, now));
	bind_int(&b, s->run_id);
	return store_run_statement(s, &b, "record the time", e);
}

int store_run_finish(struct store *s, enum run_status run_status, struct error *e)
{
	assert(s->run_id && run_status != RUN_RUNNING);
	struct store_binder b = {0};
	TRY(store_prepare(
		s, "UPDATE run SET status = ?1, finished = ?2, seconds = ?3 WHERE run_id = ?4", &b.statement, e));
	bind_text(&b, run_status_name(run_status));
	bind_int(&b, store_clock(CLOCK_REALTIME));
	bind_double(&b, run_seconds(s, store_clock(CLOCK_MONOTONIC)));
	bind_int(&b, s->run_id);
	TRY(store_run_statement(s, &b, "finish the run", e));
	run_unlock(s);
	return 0;
}

/* ---- Reading runs ---- */

static void read_run(struct store *s, sqlite3_stmt *row, struct store_run *run)
{
	*run = (struct store_run){
		.run_id = sqlite3_column_int64(row, 0),
		.uid = column_text(row, 1),
		.kind = column_text(row, 2),
		.started = sqlite3_column_int64(row, 3),
		.finished = sqlite3_column_int64(row, 4),
		.status = run_status_of(column_text(row, 5)),
		.seconds = sqlite3_column_double(row, 6),
		.resumptions = sqlite3_column_int(row, 7),
		.config_hash = column_text(row, 8),
		.version = column_text(row, 9),
		.command = column_text(row, 10),
		.host = column_text(row, 11),
		.pid = sqlite3_column_int64(row, 12),
		.model = column_text(row, 13),
		.model_fingerprint = column_text(row, 14),
		.tokenizer_hash = column_text(row, 15),
		.template_hash = column_text(row, 16),
		.numerics_id = column_text(row, 17),
		.for_gating = sqlite3_column_int(row, 18) != 0,
		.provenance = column_str(row, 19),
	};
	if (run->status == RUN_RUNNING && !store_run_is_locked(s, run->run_id))
		run->status = RUN_INTERRUPTED;
}

int store_runs_each(struct store *s, int64_t run_id, store_visit_run *visit, void *context, struct error *e)
{
	struct store_binder b = {0};
	TRY(store_prepare(s,
		"SELECT run_id, uid, kind, started, finished, status, seconds, resumptions, config_hash, version, "
		"command,"
		" host, pid, model, model_fingerprint, tokenizer_hash, template_hash, numerics_id, for_gating, "
		"provenance"
		" FROM run WHERE ?1 = 0 OR run_id = ?1 ORDER BY started, run_id",
		&b.statement, e));
	bind_int(&b, run_id);
	int status;
	while ((status = store_step(s, b.statement, &b, "read the runs", e)) == 1) {
		struct store_run run;
		read_run(s, b.statement, &run);
		TRY_CLEANUP(status, visit(context, &run, e));
	}
cleanup:
	sqlite3_finalize(b.statement);
	return status;
}

/* ---- Finding a run by what a user wrote ---- */

/* The id that text spells in decimal digits; false when it spells none. */
static bool parse_id(const char *text, int64_t *out)
{
	int64_t id = 0;
	for (const char *c = text; *c; c++) {
		if (*c < '0' || *c > '9' || id > (INT64_MAX - 9) / 10)
			return false;
		id = id * 10 + (*c - '0');
	}
	*out = id;
	return *text != '\0';
}

/* The SQL that finds what text means: its one parameter is text, or an id. */
static const char *find_sql(const char *text, int64_t *id)
{
	if (parse_id(text, id))
		return "SELECT run_id, uid FROM run WHERE run_id = ?1";
	if (strcmp(text, "latest") == 0)
		return "SELECT run_id, uid FROM run WHERE ?1 = 'latest' ORDER BY started DESC, run_id DESC LIMIT 1";
	return "SELECT run_id, uid FROM run WHERE ?1 <> '' AND substr(uid, 1, length(?1)) = ?1 ORDER BY run_id LIMIT 2";
}

static int no_such_run(struct store *s, const char *text, struct error *e)
{
	struct store_binder b = {0};
	int64_t count = 0;
	TRY(store_prepare(s, "SELECT count(*) FROM run", &b.statement, e));
	TRY(store_query_int(s, &b, &count, "count the runs", e));
	if (count == 0)
		return error_set(e, ERR_USAGE, "no run '%.100s': %s holds no runs yet", text, s->path);
	return error_set(e, ERR_USAGE,
		"no run '%.100s' among the %" PRId64
		" of %s; expected an id, the beginning of a uid, or latest (assay list)",
		text, count, s->path);
}

int store_run_find(struct store *s, const char *text, int64_t *run_id, struct error *e)
{
	int64_t id = 0;
	struct store_binder b = {0};
	TRY(store_prepare(s, find_sql(text, &id), &b.statement, e));
	if (id)
		bind_int(&b, id);
	else
		bind_text(&b, text);
	int status = store_step(s, b.statement, &b, "look for a run", e);
	if (status == 1) {
		*run_id = sqlite3_column_int64(b.statement, 0);
		char first[STORE_UID_SIZE];
		snprintf(first, sizeof(first), "%s", column_text(b.statement, 1));
		status = store_step(s, b.statement, NULL, "look for a run", e);
		if (status == 1)
			status = error_set(e, ERR_USAGE, "run '%s' is ambiguous: %s and %s begin so", text, first,
				column_text(b.statement, 1));
	} else if (status == 0) {
		status = no_such_run(s, text, e);
	}
	sqlite3_finalize(b.statement);
	return status;
}
