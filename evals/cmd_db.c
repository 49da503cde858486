#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "engine/base/file.h"
#include "engine/base/json_strict.h"
#include "evals/cli.h"
#include "evals/console.h"
#include "evals/suite.h"
#include "evals/suite_own.h"
#include "reports/store_care.h"
#include "reports/store_merge.h"

struct db {
	const struct options *options;
	struct console console;
	char *path;
	struct store *store;
	struct buf out;
};

static const struct {
	const char *name, *table;
} tables[] = {{"runs", "run"}, {"variants", "variant"}, {"answers", "sample"}, {"results", "suite_result"},
	{"measurements", "measurement"}, {"fault trials", "fault_trial"}, {"incidents", "incident"}};
enum { TABLE_COUNT = sizeof(tables) / sizeof(tables[0]) };

/* ---- check ---- */

struct problems {
	struct buf text;
	bool json;
	int count;
};

static int take_problem(void *context, const char *problem, struct error *e)
{
	struct problems *p = context;
	p->count++;
	if (p->json) {
		buf_append_text(&p->text, p->count > 1 ? ", " : "");
		json_write_string(str_of(problem), false, &p->text);
	} else {
		text_append_printable(&p->text, str_of(problem));
		buf_append_char(&p->text, '\n');
	}
	return buf_check(&p->text, e);
}

static int append_rows(struct db *d, struct error *e)
{
	for (int i = 0; i < TABLE_COUNT; i++) {
		int64_t rows = 0;
		TRY(store_rows(d->store, tables[i].table, &rows, e));
		if (d->options->json)
			buf_printf(&d->out, "%s\"%s\": %" PRId64, i ? ", " : "", tables[i].table, rows);
		else if (rows || i == 0)
			buf_printf(&d->out, "%s%" PRId64 " %s", i ? ", " : "", rows, tables[i].name);
	}
	return buf_check(&d->out, e);
}

static int check(struct db *d, struct error *e)
{
	struct problems p = {.json = d->options->json};
	TRY(store_open_reading(d->path, &d->store, e));
	int status = store_check(d->store, take_problem, &p, e);
	if (status == 0 && d->options->json) {
		buf_printf(&d->out, "{\"schema_version\": 1, \"sound\": %s, \"problems\": [%s], \"rows\": {",
			p.count ? "false" : "true", buf_text(&p.text));
		status = append_rows(d, e);
		buf_append_text(&d->out, "}}\n");
	} else if (status == 0 && p.count == 0) {
		buf_printf(&d->out, "%s: sound, schema version %d: ", d->path, STORE_SCHEMA_VERSION);
		status = append_rows(d, e);
		buf_append_char(&d->out, '\n');
	} else {
		buf_append_str(&d->out, buf_str(&p.text));
	}
	buf_free(&p.text);
	if (status == 0 && p.count)
		status = error_set(e, ERR_STORE, "%s: problems found: %d", d->path, p.count);
	return status;
}

/* ---- vacuum and export ---- */

static int64_t file_size(const char *path)
{
	struct stat info;
	return stat(path, &info) == 0 ? (int64_t)info.st_size : 0;
}

static void append_size(struct db *d, const char *json, const char *text, int64_t bytes)
{
	if (d->options->json) {
		buf_printf(&d->out, ", \"%s\": %" PRId64, json, bytes);
	} else {
		buf_append_text(&d->out, text);
		text_append_bytes(&d->out, bytes);
	}
}

static void append_file(struct db *d, const char *file)
{
	buf_append_text(&d->out, d->options->json ? "{\"schema_version\": 1, \"file\": " : "");
	if (d->options->json)
		json_write_string(str_of(file), false, &d->out);
	else
		text_append_printable(&d->out, str_of(file));
}

static int must_exist(const struct db *d, struct error *e)
{
	if (file_exists(d->path))
		return 0;
	return error_set(e, ERR_MISSING, "%s: no such database", d->path);
}

static int vacuum(struct db *d, struct error *e)
{
	TRY(must_exist(d, e));
	int64_t before = file_size(d->path);
	TRY(store_open(d->path, &d->store, e));
	TRY(store_vacuum(d->store, e));
	append_file(d, d->path);
	append_size(d, "bytes_before", ": ", before);
	append_size(d, "bytes", " before, ", file_size(d->path));
	buf_append_text(&d->out, d->options->json ? "}\n" : " now\n");
	return 0;
}

static int export_copy(struct db *d, struct error *e)
{
	const char *file = d->options->arguments[1];
	TRY(store_open_reading(d->path, &d->store, e));
	TRY(store_export(d->store, file, e));
	append_file(d, file);
	append_size(d, "bytes", ": ", file_size(file));
	buf_append_text(&d->out, d->options->json ? "}\n" : "\n");
	return 0;
}

/* ---- merge ---- */

struct sources {
	struct store *stores[CLI_MAX_LIST + 1];
	int n_stores;
	struct store_shard *shards;
	size_t n_shards;
};

static void sources_free(struct sources *s)
{
	for (int i = 0; i < s->n_stores; i++)
		store_close(s->stores[i]);
	free(s->shards);
}

static int add_shard(struct sources *s, int64_t run_id, struct error *e)
{
	struct store_shard *grown = reallocarray(s->shards, s->n_shards + 1, sizeof(*grown));
	if (!grown)
		return error_set(e, ERR_MEMORY, "no memory for the list of shards");
	s->shards = grown;
	s->shards[s->n_shards++] = (struct store_shard){s->stores[s->n_stores - 1], run_id};
	return 0;
}

static int add_if_shard(void *context, const struct store_run *run, struct error *e)
{
	return store_run_is_shard(run) ? add_shard(context, run->run_id, e) : 0;
}

/* FILE (all its shards) or FILE:RUN. */
static int open_source(struct sources *s, const char *address, struct error *e)
{
	const char *colon = strrchr(address, ':');
	char *file = colon && !file_exists(address) ? strndup(address, (size_t)(colon - address)) : strdup(address);
	if (!file)
		return error_set(e, ERR_MEMORY, "no memory for the name of a file");
	bool named = strlen(file) < strlen(address);
	int64_t run_id = 0;
	int status = store_open_reading(file, &s->stores[s->n_stores], e);
	free(file);
	TRY(status);
	s->n_stores++;
	size_t before = s->n_shards;
	if (named) {
		TRY(store_run_find(s->stores[s->n_stores - 1], colon + 1, &run_id, e));
		return add_shard(s, run_id, e);
	}
	TRY(store_runs_each(s->stores[s->n_stores - 1], 0, add_if_shard, s, e));
	if (s->n_shards == before)
		return error_set(e, ERR_INPUT, "%s: holds no shards: no run of it was run with --shard", address);
	return 0;
}

static struct store_mean mean(const double *values, int n)
{
	struct metric_summary summary;
	metric_mean("", values, n, &summary);
	return (struct store_mean){summary.n, summary.value, summary.stderr_value};
}

static struct store_mean pool(const struct store_mean *tasks, int n)
{
	struct metric_summary parts[STORE_TASKS_MAX], summary;
	for (int i = 0; i < n; i++)
		parts[i] = (struct metric_summary){
			.n = tasks[i].n, .value = tasks[i].value, .stderr_value = tasks[i].stderr_value};
	metric_pool("", parts, n, &summary);
	return (struct store_mean){summary.n, summary.value, summary.stderr_value};
}

static int merge_sources(struct db *d, struct sources *s, struct error *e)
{
	const struct options *o = d->options;
	static const struct store_math math = {mean, pool, suite_own_results};
	int64_t run_id = 0;
	for (int i = 1; i < o->n_arguments; i++)
		TRY(open_source(s, o->arguments[i], e));
	if (o->n_arguments == 1)
		TRY(open_source(s, d->path, e));
	TRY(store_open(d->path, &d->store, e));
	TRY(store_merge(d->store, s->shards, s->n_shards, &math, &run_id, e));
	if (o->json)
		buf_printf(&d->out, "{\"schema_version\": 1, \"run\": %" PRId64 ", \"shards\": %zu}\n", run_id,
			s->n_shards);
	else
		buf_printf(&d->out, "%zu shards are run %" PRId64 " of %s\n", s->n_shards, run_id, d->path);
	return 0;
}

static int merge(struct db *d, struct error *e)
{
	struct sources s = {0};
	int status = merge_sources(d, &s, e);
	sources_free(&s);
	if (status < 0) {
		store_discard(d->store);
		d->store = NULL;
	}
	return status;
}

/* ---- Which ---- */

static int run_action(struct db *d, struct error *e)
{
	static const struct {
		const char *name;
		int most_arguments, arguments;
		int (*run)(struct db *d, struct error *e);
	} actions[] = {{"check", 0, 0, check}, {"vacuum", 0, 0, vacuum}, {"merge", CLI_MAX_LIST, 0, merge},
		{"export", 1, 1, export_copy}};
	const struct options *o = d->options;
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (strcmp(o->arguments[0], actions[i].name) != 0)
			continue;
		int given = o->n_arguments - 1;
		if (given < actions[i].arguments)
			return error_set(e, ERR_USAGE, "db %s: FILE is missing", actions[i].name);
		if (given > actions[i].most_arguments)
			return error_set(e, ERR_USAGE, "db %s takes no '%s'", actions[i].name,
				o->arguments[1 + actions[i].most_arguments]);
		return actions[i].run(d, e);
	}
	return error_set(e, ERR_USAGE, "db '%s': expected check, vacuum, merge or export", o->arguments[0]);
}

int cmd_db(const struct options *o, struct error *e)
{
	struct db d = {.options = o};
	console_init(&d.console, o, stdout, stderr);
	d.path = db_path(o, e);
	int status = d.path ? run_action(&d, e) : e->code;
	/* What a check found is a result, though it fails. */
	if (buf_check(&d.out, e) == 0)
		fwrite(buf_text(&d.out), 1, d.out.length, stdout);
	store_close(d.store);
	free(d.path);
	buf_free(&d.out);
	return error_exit_code(status);
}
