#include <inttypes.h>
#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/base/json_strict.h"
#include "evals/cli.h"
#include "evals/console.h"
#include "evals/run_report.h"
#include "evals/suite.h"
#include "reports/store.h"

struct listing {
	struct store *store;
	struct table table;
	struct buf *out; /* JSON */
	bool first;
	int64_t samples;
};

static int add_count(void *context, const struct store_count *count, struct error *e)
{
	struct listing *l = context;
	(void)e;
	l->samples += count->n;
	return 0;
}

struct names {
	struct buf text;
	bool json;
};

static int add_name(void *context, const struct store_variant *variant, struct error *e)
{
	struct names *names = context;
	buf_append_text(&names->text, names->text.length ? (names->json ? ", " : " ") : "");
	if (names->json)
		json_write_string(str_of(variant->name), false, &names->text);
	else
		buf_append_text(&names->text, variant->name);
	return buf_check(&names->text, e);
}

/* The last two parts of a model's path: folders are often called "model". */
static const char *short_name(const char *model)
{
	int slashes = 0;
	for (const char *c = model + strlen(model); c > model; c--)
		if (c[-1] == '/' && *c && ++slashes == 2)
			return c;
	return model;
}

static int add_row(void *context, const struct store_run *run, struct error *e)
{
	struct listing *l = context;
	struct names names = {.json = false};
	struct buf started = {0};
	l->samples = 0;
	TRY(store_counts_each(l->store, run->run_id, add_count, l, e));
	int status = store_variants_each(l->store, run->run_id, add_name, &names, e);
	append_local_time(&started, run->started);
	table_printf(&l->table, "%" PRId64, run->run_id);
	table_add(&l->table, buf_str(&started));
	table_printf(&l->table, "%s%s", run_status_name(run->status), run->for_gating ? "" : " (limited)");
	table_add(&l->table, str_of(short_name(run->model)));
	table_printf(&l->table, "%" PRId64, l->samples);
	table_add(&l->table, buf_str(&names.text));
	buf_free(&names.text);
	buf_free(&started);
	return status;
}

static int add_json(void *context, const struct store_run *run, struct error *e)
{
	struct listing *l = context;
	struct names names = {.json = true};
	l->samples = 0;
	TRY(store_counts_each(l->store, run->run_id, add_count, l, e));
	int status = store_variants_each(l->store, run->run_id, add_name, &names, e);
	buf_append_text(l->out, l->first ? "{" : ", {");
	l->first = false;
	run_report_json_head(run, l->out);
	buf_append_text(l->out, ", ");
	json_member_int(l->out, "samples", l->samples);
	buf_append_text(l->out, ", \"variants\": [");
	buf_append_str(l->out, buf_str(&names.text));
	buf_append_text(l->out, "]}");
	buf_free(&names.text);
	return status;
}

static int append_table(struct listing *l, bool color, struct buf *out, struct error *e)
{
	static const char *const headers[] = {"run", "started", "status", "model", "samples", "variants"};
	table_init(&l->table, "rlllrl");
	for (int i = 0; i < l->table.columns; i++)
		table_add(&l->table, str_of(headers[i]));
	int status = l->store ? store_runs_each(l->store, 0, add_row, l, e) : 0;
	if (status == 0)
		status = table_write(&l->table, color, out, e);
	table_free(&l->table);
	return status;
}

static int append_json(struct listing *l, struct buf *out, struct error *e)
{
	l->out = out;
	l->first = true;
	buf_append_text(out, "{\"schema_version\": 1, \"runs\": [");
	TRY(l->store ? store_runs_each(l->store, 0, add_json, l, e) : 0);
	buf_append_text(out, "]}\n");
	return buf_check(out, e);
}

static int list_suites(bool json, struct buf *out, struct error *e)
{
	buf_append_text(out, json ? "{\"schema_version\": 1, \"suites\": [" : "");
	for (const char *const *name = suite_names(); *name; name++) {
		if (!json) {
			buf_printf(out, "%s\n", *name);
			continue;
		}
		buf_append_text(out, name == suite_names() ? "" : ", ");
		json_write_string(str_of(*name), false, out);
	}
	buf_append_text(out, json ? "]}\n" : "");
	return buf_check(out, e);
}

/* A default store that is not there yet holds no runs; one that was named must be there. */
static int list_runs(const struct options *o, struct console *c, struct buf *out, struct error *e)
{
	struct listing l = {0};
	char *path = db_path(o, e);
	if (!path)
		return e->code;
	int status = 0;
	if (o->db || file_exists(path) || file_is_folder(path))
		status = store_open_reading(path, &l.store, e);
	else
		console_note(c, "no runs yet in %s", path);
	if (status == 0)
		status = o->json ? append_json(&l, out, e) : append_table(&l, c->color_output, out, e);
	store_close(l.store);
	free(path);
	return status;
}

int cmd_list(const struct options *o, struct error *e)
{
	struct console c;
	struct buf out = {0};
	console_init(&c, o, stdout, stderr);
	int status = o->list_suites ? list_suites(o->json, &out, e) : list_runs(o, &c, &out, e);
	if (status == 0)
		fwrite(buf_text(&out), 1, out.length, stdout);
	buf_free(&out);
	return error_exit_code(status);
}
