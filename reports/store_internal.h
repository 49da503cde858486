/* What the files of the store share. */
#ifndef ASSAY_REPORTS_STORE_INTERNAL_H
#define ASSAY_REPORTS_STORE_INTERNAL_H

#include <sqlite3.h>
#include <time.h>

#include "reports/store.h"

struct store {
	sqlite3 *db;
	char *path;      /* as the user wrote it: stands in every message */
	char *lock_path; /* beside the file that path leads to, whatever links lie between */
	int lock_file;   /* descriptor, -1: not opened */
	bool made;       /* by this opening */

	int64_t run_id;        /* the run that this store writes, 0: none */
	double seconds_before; /* that run's seconds when it was begun here */
	int64_t begun, beat;   /* monotonic nanoseconds: of its begin, of the last write of its seconds */

	sqlite3_stmt *insert_sample, *find_sample; /* asked for every item: prepared once */
};

/* ---- store.c: SQLite with our errors ---- */

/* Turns SQLite's last error into ours. doing completes "could not": "add a sample". Returns the code. */
int store_fail(struct store *s, const char *doing, struct error *e);

/* Runs statements that give no rows. */
int store_exec(struct store *s, const char *sql, const char *doing, struct error *e);

/* A transaction that holds the write lock from its start, so that what it reads stays true until it commits. */
int store_begin(struct store *s, const char *doing, struct error *e);
/* Commits when status is 0, else (also when the commit fails) undoes everything. Returns the first failure. */
int store_end(struct store *s, int status, const char *doing, struct error *e);

int store_prepare(struct store *s, const char *sql, sqlite3_stmt **out, struct error *e);

/* Binds values to ?1, ?2, … one after the other; a failure is kept until the statement is stepped. */
struct store_binder {
	sqlite3_stmt *statement;
	int index;
	int failure; /* SQLite's code */
};
void bind_text(struct store_binder *b, const char *text); /* NULL binds NULL */
void bind_str(struct store_binder *b, struct str s);      /* length 0 binds NULL */
void bind_int(struct store_binder *b, int64_t value);
void bind_double(struct store_binder *b, double value); /* NaN binds NULL */

/* 1: a row is there; 0: done; negative: failed. binder NULL: nothing was bound. */
int store_step(struct store *s, sqlite3_stmt *statement, const struct store_binder *binder, const char *doing,
	struct error *e);
/* Steps a statement that gives no row, and finalizes it. */
int store_run_statement(struct store *s, const struct store_binder *binder, const char *doing, struct error *e);
/* The one integer of a query of one row (0 when there is no row); finalizes it. */
int store_query_int(
	struct store *s, const struct store_binder *binder, int64_t *out, const char *doing, struct error *e);

/* Refuses a text that is no JSON. */
int store_check_json(struct store *s, struct str text, const char *name, const char *doing, struct error *e);

/* Nanoseconds of CLOCK_REALTIME or CLOCK_MONOTONIC. */
int64_t store_clock(clockid_t id);

const char *column_text(sqlite3_stmt *statement, int column); /* NULL for NULL */
struct str column_str(sqlite3_stmt *statement, int column);
double column_double(sqlite3_stmt *statement, int column); /* NaN for NULL */

/* ---- store_schema.c ---- */

/* Refuses what is no Assay database of a version that this program knows. *version: 0 for an empty file. */
int store_identify(struct store *s, int *version, struct error *e);
/* Brings the file to STORE_SCHEMA_VERSION in one transaction, after keeping a copy of an older one. */
int store_migrate(struct store *s, struct error *e);

/* Whether the tables and their columns are those that the migrations make; visit is called when they are not. */
int store_check_tables(struct store *s, int (*visit)(void *context, const char *problem, struct error *e),
	void *context, struct error *e);

/* ---- store_run.c ---- */

/* Whether some process writes that run now. */
bool store_run_is_locked(struct store *s, int64_t run_id);
/* Records the time at work, at most once a second. PRECOND: a run was begun. */
int store_run_beat(struct store *s, struct error *e);

#endif
