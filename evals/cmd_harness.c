/* `assay export` and `assay import`: runs in the files of lm-evaluation-harness. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/base/json_strict.h"
#include "evals/cli.h"
#include "evals/console.h"
#include "evals/harness_export.h"
#include "evals/harness_import.h"
#include "evals/run_report.h"
#include "reports/store.h"

/* ---- export ---- */

/* "RUN" or "RUN:VARIANT". */
static int export_to(struct store *s, const struct options *o, struct harness_files *files, struct error *e)
{
	char run[128];
	const char *colon = strchr(o->arguments[0], ':');
	int64_t run_id;
	size_t length = strcspn(o->arguments[0], ":");
	if (length >= sizeof(run))
		return error_set(e, ERR_USAGE, "no run '%.100s...': expected an id, the beginning of a uid, or latest",
			o->arguments[0]);
	memcpy(run, o->arguments[0], length);
	run[length] = '\0';
	TRY(store_run_find(s, run, &run_id, e));
	return harness_export(s, run_id, colon ? colon + 1 : NULL, o->data, o->lm_eval, files, e);
}

int cmd_export(const struct options *o, struct error *e)
{
	struct console c;
	struct store *store = NULL;
	struct harness_files files = {0};
	char *path = NULL;
	int status = 0;

	console_init(&c, o, stdout, stderr);
	if (!o->lm_eval)
		TRY_CLEANUP(status,
			error_set(e, ERR_USAGE, "'assay export': expected --lm-eval DIR, the folder to write to"));
	path = db_path(o, e);
	if (!path)
		TRY_CLEANUP(status, e->code);
	TRY_CLEANUP(status, store_open_reading(path, &store, e));
	TRY_CLEANUP(status, export_to(store, o, &files, e));
	fputs(buf_text(&files.folders), stdout);
	console_note(&c, "%" PRId64 " answers written", files.samples);
	if (files.foreign.length)
		console_note(&c, "suites left out, as lm-evaluation-harness has no tasks of their kind: %s",
			buf_text(&files.foreign));
cleanup:
	harness_files_free(&files);
	store_close(store);
	free(path);
	return error_exit_code(status);
}

/* ---- import ---- */

struct paths {
	char **items; /* owned */
	size_t count;
};

static void paths_free(struct paths *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->items[i]);
	free(p->items);
}

static int path_add(struct paths *p, char *path, struct error *e)
{
	char **grown = path ? reallocarray(p->items, p->count + 1, sizeof(*grown)) : NULL;
	if (!grown) {
		free(path);
		return path ? error_set(e, ERR_MEMORY, "out of memory") : ERR_MEMORY;
	}
	p->items = grown;
	p->items[p->count++] = path;
	return 0;
}

static bool is_results_file(const char *name)
{
	static const char begin[] = "results_", end[] = ".json";
	size_t length = strlen(name);
	return length > sizeof(begin) + sizeof(end) && strncmp(name, begin, sizeof(begin) - 1) == 0 &&
		strcmp(name + length - (sizeof(end) - 1), end) == 0;
}

/* Folders in folders: the harness makes one for each model, people keep some of their output. */
enum { DEEPEST = 3 };

/* Results files of the folder and of those in it. */
static int find_results(const char *folder, int depth, struct paths *out, struct error *e)
{
	DIR *d = opendir(folder);
	int status = 0;
	if (!d)
		return error_set(e, ERR_MISSING, "%s: %s", folder, strerror(errno));
	for (struct dirent *f; status == 0 && (f = readdir(d));) {
		if (f->d_name[0] == '.')
			continue;
		char *path = path_join(folder, f->d_name, e);
		if (path && is_results_file(f->d_name)) {
			status = path_add(out, path, e);
			continue;
		}
		if (path && depth < DEEPEST && file_is_folder(path))
			status = find_results(path, depth + 1, out, e);
		status = path ? status : ERR_MEMORY;
		free(path);
	}
	closedir(d);
	return status;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void print_run(const struct harness_run *run, const char *path, bool json, struct buf *out)
{
	if (json) {
		buf_append_text(out, "{\"run\": ");
		buf_printf(out, "%" PRId64 ", \"file\": ", run->run_id);
		json_write_string(str_of(path), false, out);
		buf_printf(out, ", \"new\": %s, \"tasks\": %d, \"documents\": %" PRId64 "}",
			run->known ? "false" : "true", run->tasks, run->documents);
		return;
	}
	buf_printf(out, "run %" PRId64 ": ", run->run_id);
	text_append_printable(out, str_of(path));
	if (run->known)
		buf_append_text(out, ", imported before\n");
	else
		buf_printf(out, ", tasks: %d, documents: %" PRId64 "\n", run->tasks, run->documents);
}

static int import_all(struct store *s, const struct options *o, struct console *c, const struct paths *paths,
	struct buf *out, struct error *e)
{
	buf_append_text(out, o->json ? "{\"schema_version\": 1, \"runs\": [" : "");
	for (size_t i = 0; i < paths->count; i++) {
		struct harness_run run;
		struct buf command = {0};
		buf_printf(&command, "assay import --lm-eval %s", o->lm_eval);
		int status = buf_check(&command, e);
		if (status == 0)
			status = harness_import(
				s, paths->items[i], o->renames, o->n_renames, buf_text(&command), &run, e);
		buf_free(&command);
		if (status == 0) {
			buf_append_text(out, o->json && i ? ", " : "");
			print_run(&run, paths->items[i], o->json, out);
			if (run.foreign.length)
				console_note(c,
					"none of assay's suites: %s; --rename OLD=NEW gives a task the name to compare "
					"by",
					buf_text(&run.foreign));
			if (run.stderrs.length)
				console_note(c, "standard errors of groups: %s", buf_text(&run.stderrs));
		}
		harness_run_free(&run);
		TRY(status);
	}
	buf_append_text(out, o->json ? "]}\n" : "");
	return buf_check(out, e);
}

static int import_from(struct store *s, const struct options *o, struct console *c, struct error *e)
{
	struct paths paths = {0};
	struct buf out = {0};
	int status = 0;
	if (file_is_folder(o->lm_eval)) {
		TRY_CLEANUP(status, find_results(o->lm_eval, 1, &paths, e));
	} else {
		char *copy = strdup(o->lm_eval);
		if (!copy)
			TRY_CLEANUP(status, error_set(e, ERR_MEMORY, "out of memory"));
		TRY_CLEANUP(status, path_add(&paths, copy, e));
	}
	if (paths.count == 0)
		TRY_CLEANUP(status,
			error_set(
				e, ERR_EMPTY, "%s holds no results_<time>.json, nor does a folder in it", o->lm_eval));
	qsort(paths.items, paths.count, sizeof(*paths.items), by_name);
	status = import_all(s, o, c, &paths, &out, e);
	if (status == 0 || !o->json)
		fwrite(buf_text(&out), 1, out.length, stdout);
cleanup:
	buf_free(&out);
	paths_free(&paths);
	return status;
}

int cmd_import(const struct options *o, struct error *e)
{
	struct console c;
	struct store *store = NULL;
	char *path = NULL;
	int status = 0;

	console_init(&c, o, stdout, stderr);
	if (!o->lm_eval)
		TRY_CLEANUP(status,
			error_set(e, ERR_USAGE,
				"'assay import': expected --lm-eval DIR, the folder with results_<time>.json"));
	path = db_path(o, e);
	if (!path)
		TRY_CLEANUP(status, e->code);
	if (!file_exists(o->lm_eval) && !file_is_folder(o->lm_eval))
		TRY_CLEANUP(status, error_set(e, ERR_MISSING, "--lm-eval %s: no such folder or file", o->lm_eval));
	TRY_CLEANUP(status, store_open(path, &store, e));
	status = import_from(store, o, &c, e);
	if (status < 0) {
		store_discard(store);
		store = NULL;
	}
cleanup:
	store_close(store);
	free(path);
	return error_exit_code(status);
}
