#include "reports/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/json_strict.h"

/* ---- SQLite with our errors ---- */

static int fail_code(int sqlite_code)
{
	switch (sqlite_code) {
	case SQLITE_NOMEM:
		return ERR_MEMORY;
	case SQLITE_NOTADB:
		return ERR_INPUT;
	case SQLITE_READONLY:
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
	case SQLITE_IOERR:
		return ERR_IO;
	default:
		return ERR_STORE;
	}
}

/* Why the file cannot be opened or written, where permissions are the reason (else NULL): SQLite tells of its last
 * attempt only. The file is not opened to find out: closing it would drop the locks that this process has on it. */
static const char *permission_reason(const char *path)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');
	size_t length = slash ? (size_t)(slash - path) + 1 : 1;
	bool exists = access(path, F_OK) == 0;
	if (exists && faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) != 0)
		return strerror(errno);
	if (length >= sizeof(folder))
		return NULL;
	memcpy(folder, slash ? path : ".", length);
	folder[length] = '\0';
	if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0)
		return NULL;
	return errno == EROFS ? "its folder is on a read-only file system" : "Permission denied to write its folder";
}

int store_fail(struct store *s, const char *doing, struct error *e)
{
	int code = sqlite3_extended_errcode(s->db) & 0xff;
	int system = sqlite3_system_errno(s->db);
	const char *reason = sqlite3_errmsg(s->db);
	if (code == SQLITE_IOERR && (system == ENOSPC || system == EDQUOT))
		code = SQLITE_FULL;
	switch (code) {
	case SQLITE_FULL:
		return error_set(e, fail_code(code), "%s: could not %s: the disk is full", s->path, doing);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return error_set(e, fail_code(code), "%s: could not %s: locked by another process for %d seconds",
			s->path, doing, STORE_PATIENCE / 1000);
	case SQLITE_NOTADB:
		return error_set(e, fail_code(code), "%s: is not a database, expected one that assay made", s->path);
	case SQLITE_CORRUPT:
		return error_set(
			e, fail_code(code), "%s: could not %s: the database is damaged (%s)", s->path, doing, reason);
	case SQLITE_READONLY:
	case SQLITE_CANTOPEN:
		if (permission_reason(s->path))
			reason = permission_reason(s->path);
		return error_set(e, fail_code(code), "%s: could not %s: %s", s->path, doing, reason);
	case SQLITE_IOERR:
		return error_set(e, fail_code(code), "%s: could not %s: %s (%s)", s->path, doing, reason,
			system ? strerror(system) : "no reason given");
	default:
		return error_set(e, fail_code(code), "%s: could not %s: %s", s->path, doing, reason);
	}
}

int store_exec(struct store *s, const char *sql, const char *doing, struct error *e)
{
	return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : store_fail(s, doing, e);
}

int store_begin(struct store *s, const char *doing, struct error *e)
{
	return store_exec(s, "BEGIN IMMEDIATE", doing, e);
}

int store_end(struct store *s, int status, const char *doing, struct error *e)
{
	if (status == 0)
		status = store_exec(s, "COMMIT", doing, e);
	/* Some failures have undone the transaction already. */
	if (status < 0 && !sqlite3_get_autocommit(s->db))
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return status;
}

int store_prepare(struct store *s, const char *sql, sqlite3_stmt **out, struct error *e)
{
	if (sqlite3_prepare_v2(s->db, sql, -1, out, NULL) == SQLITE_OK)
		return 0;
	return store_fail(s, "read its schema", e);
}

static void bind_result(struct store_binder *b, int result)
{
	if (result != SQLITE_OK && b->failure == SQLITE_OK)
		b->failure = result;
}

void bind_text(struct store_binder *b, const char *text)
{
	bind_result(b, sqlite3_bind_text(b->statement, ++b->index, text, -1, SQLITE_STATIC));
}

void bind_str(struct store_binder *b, struct str s)
{
	const char *data = s.length ? s.data : NULL;
	bind_result(b, sqlite3_bind_text64(b->statement, ++b->index, data, s.length, SQLITE_STATIC, SQLITE_UTF8));
}

void bind_int(struct store_binder *b, int64_t value)
{
	bind_result(b, sqlite3_bind_int64(b->statement, ++b->index, value));
}

void bind_double(struct store_binder *b, double value)
{
	bind_result(b, sqlite3_bind_double(b->statement, ++b->index, value));
}

int store_step(
	struct store *s, sqlite3_stmt *statement, const struct store_binder *binder, const char *doing, struct error *e)
{
	if (binder && binder->failure != SQLITE_OK)
		return error_set(e, fail_code(binder->failure), "%s: could not %s: %s", s->path, doing,
			sqlite3_errstr(binder->failure));
	int result = sqlite3_step(statement);
	if (result == SQLITE_ROW)
		return 1;
	return result == SQLITE_DONE ? 0 : store_fail(s, doing, e);
}

int store_run_statement(struct store *s, const struct store_binder *binder, const char *doing, struct error *e)
{
	int status = store_step(s, binder->statement, binder, doing, e);
	sqlite3_finalize(binder->statement);
	return status < 0 ? status : 0;
}

int store_query_int(
	struct store *s, const struct store_binder *binder, int64_t *out, const char *doing, struct error *e)
{
	int status = store_step(s, binder->statement, binder, doing, e);
	if (status >= 0)
		*out = status == 1 ? sqlite3_column_int64(binder->statement, 0) : 0;
	sqlite3_finalize(binder->statement);
	return status < 0 ? status : 0;
}

int store_check_json(struct store *s, struct str text, const char *name, const char *doing, struct error *e)
{
	struct json_document *document = NULL;
	int status = json_parse(text, name, JSON_LAST_KEY_WINS, &document, e);
	json_free(document);
	if (status == ERR_INPUT)
		return error_set(e, ERR_STORE, "%s: could not %s: %s", s->path, doing, e ? e->message : name);
	return status;
}

int64_t store_clock(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

const char *column_text(sqlite3_stmt *statement, int column)
{
	return (const char *)sqlite3_column_text(statement, column);
}

struct str column_str(sqlite3_stmt *statement, int column)
{
	const char *data = column_text(statement, column);
	return (struct str){data, data ? (size_t)sqlite3_column_bytes(statement, column) : 0};
}

double column_double(sqlite3_stmt *row, int column)
{
	return sqlite3_column_type(row, column) == SQLITE_NULL ? __builtin_nan("") : sqlite3_column_double(row, column);
}

/* ---- Opening ---- */

enum { SMALLEST_DATABASE = 512 };

static int check_file(const char *path, bool must_exist, struct error *e)
{
	if (!*path)
		return error_set(e, ERR_USAGE, "the name of the database is empty, expected a file");
	struct stat info;
	if (stat(path, &info) != 0) {
		if (errno != ENOENT || must_exist)
			return error_set(e, must_exist ? ERR_MISSING : ERR_IO, "%s: cannot open the database: %s", path,
				strerror(errno));
		return 0;
	}
	if (S_ISDIR(info.st_mode))
		return error_set(e, ERR_MISSING, "%s: is a folder, expected a database file", path);
	if (!S_ISREG(info.st_mode))
		return error_set(e, ERR_MISSING, "%s: is not a regular file, expected a database", path);
	if (must_exist && faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0)
		return error_set(e, ERR_MISSING, "%s: cannot open the database: %s", path, strerror(errno));
	/* SQLite takes a file of one byte for an empty one, and writes it. */
	if (info.st_size > 0 && info.st_size < SMALLEST_DATABASE)
		return error_set(e, ERR_INPUT, "%s: is not a database, expected one that assay made", path);
	return 0;
}

static int make_folders(const char *path, struct error *e)
{
	char *folder = strdup(path);
	if (!folder)
		return error_set(e, ERR_MEMORY, "%s: no memory", path);
	int status = 0;
	for (char *slash = strchr(folder + 1, '/'); status == 0 && slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(folder, 0777) != 0 && errno != EEXIST)
			status = error_set(
				e, ERR_IO, "%s: cannot make the folder %s: %s", path, folder, strerror(errno));
		*slash = '/';
	}
	free(folder);
	return status;
}

/* A name that SQLite takes for nothing but a file: ":memory:" and "file:..." mean something else to it. */
static void append_file_name(struct buf *out, const char *path)
{
	if (path[0] != '/')
		buf_append_text(out, "./");
	buf_append_text(out, path);
}

/* The same as a URI that says that nobody writes the file: the only way to read a WAL database from a folder that
 * cannot be written, where no -shm file can be made. */
static void append_immutable_uri(struct buf *out, const char *path)
{
	buf_append_text(out, "file:");
	if (path[0] != '/')
		buf_append_text(out, "./");
	for (const char *c = path; *c; c++)
		if (*c == '%' || *c == '?' || *c == '#')
			buf_printf(out, "%%%02X", (unsigned)(unsigned char)*c);
		else
			buf_append_char(out, *c);
	buf_append_text(out, "?immutable=1");
}

static int connect_name(struct store *s, const struct buf *name, int flags, struct error *e)
{
	TRY(buf_check(name, e));
	if (sqlite3_open_v2(buf_text(name), &s->db, flags | SQLITE_OPEN_EXRESCODE, NULL) != SQLITE_OK) {
		if (!s->db)
			return error_set(e, ERR_MEMORY, "%s: no memory", s->path);
		return store_fail(s, "open it", e);
	}
	sqlite3_busy_timeout(s->db, STORE_PATIENCE);
	/* The file may come from somebody else: its schema must not make this program run anything. */
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
	return store_exec(s, "PRAGMA foreign_keys = ON; PRAGMA cell_size_check = ON", "set it up", e);
}

static int name_lock(struct store *s, struct error *e)
{
	const char *file = sqlite3_db_filename(s->db, "main");
	struct buf name = {0};
	buf_append_text(&name, file ? file : s->path);
	buf_append_text(&name, "-lock");
	s->lock_path = name.data; /* owned from here on, also when it is cut short */
	return buf_check(&name, e);
}

static int connect_to(struct store *s, int flags, struct error *e)
{
	struct buf name = {0};
	append_file_name(&name, s->path);
	int status = connect_name(s, &name, flags, e);
	buf_free(&name);
	return status < 0 ? status : name_lock(s, e);
}

static struct store *store_new(const char *path, struct error *e)
{
	struct store *s = mem_calloc(1, sizeof(*s), e);
	if (!s)
		return NULL;
	s->lock_file = -1;
	s->path = strdup(path);
	if (s->path)
		return s;
	error_set(e, ERR_MEMORY, "%s: no memory", path);
	free(s);
	return NULL;
}

/* The journal's mode after the switch to write-ahead logging was tried once. SQLite may report at once that the file is
 * busy: where two connections wait for each other here, its own waiting would never end. */
static int try_wal(struct store *s, bool *switched, struct error *e)
{
	sqlite3_stmt *statement = NULL;
	TRY(store_prepare(s, "PRAGMA journal_mode = WAL", &statement, e));
	int status = store_step(s, statement, NULL, "switch it to write-ahead logging", e);
	const char *mode = status == 1 ? column_text(statement, 0) : NULL;
	*switched = mode && strcmp(mode, "wal") == 0;
	sqlite3_finalize(statement);
	return status < 0 ? status : 0;
}

static int use_wal(struct store *s, struct error *e)
{
	int64_t end = store_clock(CLOCK_MONOTONIC) + (int64_t)STORE_PATIENCE * 1000000;
	bool switched = false;
	int status;
	while ((status = try_wal(s, &switched, e)) < 0 && (sqlite3_errcode(s->db) & 0xff) == SQLITE_BUSY &&
		store_clock(CLOCK_MONOTONIC) < end)
		sqlite3_sleep(10);
	TRY(status);
	if (switched)
		return 0;
	return error_set(e, ERR_STORE,
		"%s: its file system has no shared memory for write-ahead logging (a network folder?), expected a "
		"local one",
		s->path);
}

static int open_writing(struct store *s, struct error *e)
{
	TRY(connect_to(s, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, e));
	if (sqlite3_db_readonly(s->db, "main") == 1)
		return error_set(e, ERR_IO, "%s: is read-only, expected a file that may be written", s->path);
	int version = 0;
	TRY(store_identify(s, &version, e));
	TRY(use_wal(s, e));
	TRY(store_exec(s, "PRAGMA synchronous = NORMAL", "set it up", e));
	return version < STORE_SCHEMA_VERSION ? store_migrate(s, e) : 0;
}

int store_open(const char *path, struct store **out, struct error *e)
{
	*out = NULL;
	TRY(check_file(path, false, e));
	TRY(make_folders(path, e));
	struct store *s = store_new(path, e);
	if (!s)
		return ERR_MEMORY;
	s->made = access(path, F_OK) != 0 && errno == ENOENT;
	int status = open_writing(s, e);
	if (status < 0) {
		store_close(s);
		return status;
	}
	*out = s;
	return 0;
}

/* True when no process has FILE open for writing: its log is gone. */
static bool has_no_log(const char *path)
{
	struct buf name = {0};
	buf_append_text(&name, path);
	buf_append_text(&name, "-wal");
	bool absent = !name.failed && access(buf_text(&name), F_OK) != 0 && errno == ENOENT;
	buf_free(&name);
	return absent;
}

static int open_reading(struct store *s, struct error *e)
{
	TRY(connect_to(s, SQLITE_OPEN_READONLY, e));
	int version = 0;
	int status = store_identify(s, &version, e);
	int code = sqlite3_extended_errcode(s->db) & 0xff;
	if (status < 0 && (code == SQLITE_READONLY || code == SQLITE_CANTOPEN) && has_no_log(s->path)) {
		sqlite3_close(s->db);
		s->db = NULL;
		struct buf name = {0};
		append_immutable_uri(&name, s->path);
		status = connect_name(s, &name, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, e);
		buf_free(&name);
		if (status == 0)
			status = store_identify(s, &version, e);
	}
	TRY(status);
	if (version < STORE_SCHEMA_VERSION)
		return error_set(e, ERR_INPUT,
			"%s: is of schema version %d, expected %d: a command that writes it brings it there", s->path,
			version, STORE_SCHEMA_VERSION);
	/* All that is read is of one moment, though another process may be writing. */
	return store_exec(s, "BEGIN", "read it", e);
}

int store_open_reading(const char *path, struct store **out, struct error *e)
{
	*out = NULL;
	TRY(check_file(path, true, e));
	struct store *s = store_new(path, e);
	if (!s)
		return ERR_MEMORY;
	int status = open_reading(s, e);
	if (status < 0) {
		store_close(s);
		return status;
	}
	*out = s;
	return 0;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	sqlite3_finalize(s->insert_sample);
	sqlite3_finalize(s->find_sample);
	sqlite3_close(s->db);
	if (s->lock_file >= 0)
		close(s->lock_file);
	free(s->lock_path);
	free(s->path);
	free(s);
}

static bool is_made_in_vain(struct store *s)
{
	struct store_binder b = {0};
	int64_t runs = 0;
	return s && s->made && store_prepare(s, "SELECT count(*) FROM run", &b.statement, NULL) == 0 &&
		store_query_int(s, &b, &runs, "count the runs", NULL) == 0 && runs == 0;
}

void store_discard(struct store *s)
{
	const char *file = is_made_in_vain(s) ? sqlite3_db_filename(s->db, "main") : NULL;
	char *path = file ? strdup(file) : NULL, *lock = path ? strdup(s->lock_path) : NULL;
	store_close(s);
	if (path && lock) {
		unlink(path);
		unlink(lock);
	}
	free(path);
	free(lock);
}

const char *store_path(const struct store *s)
{
	return s->path;
}
