/* Looking after a store: is it sound, is it small, a copy of it. */
#ifndef ASSAY_REPORTS_STORE_CARE_H
#define ASSAY_REPORTS_STORE_CARE_H

#include "reports/store.h"

typedef int store_visit_problem(void *context, const char *problem, struct error *e);

/* Checks that the file is undamaged, that its tables are those of its schema version, that rows point at rows, and what
 * the program relies on: JSON that is JSON, results that are no more than their answers, shards that hold their own
 * items, runs that end after they began. visit is called once per problem, at most STORE_PROBLEMS times a check. */
enum { STORE_PROBLEMS = 20 };
int store_check(struct store *s, store_visit_problem *visit, void *context, struct error *e);

/* Gives free pages back to the file system. ERR_STORE, naming it, while a run is being written. */
int store_vacuum(struct store *s, struct error *e);

/* Writes a copy as of now to FILE, which must not exist: one file without free pages or a log beside it, also while
 * another process writes the store. ERR_USAGE: FILE exists. ERR_IO. */
int store_export(struct store *s, const char *file, struct error *e);

/* Rows of a table of the store. PRECOND: table is a literal. */
int store_rows(struct store *s, const char *table, int64_t *rows, struct error *e);

#endif
