#include <inttypes.h>
#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/base/json_strict.h"
#include "evals/cli.h"
#include "evals/console.h"
#include "evals/divergence.h"
#include "evals/model_path.h"
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

static void suite_json(const struct suite_facts *f, struct buf *out)
{
	buf_append_char(out, '{');
	json_member_text(out, "name", f->name);
	buf_append_text(out, ", ");
	json_member_text(out, "also", f->also);
	buf_printf(out, ", \"kind\": \"%s\", \"fewshot\": %d, ",
		f->kind == REQUEST_GENERATE ? "generate" : "loglikelihood", f->fewshot);
	if (f->has_data)
		buf_printf(out, "\"tasks\": %d, \"items\": %d", f->tasks, f->documents);
	else
		buf_append_text(out, "\"tasks\": null, \"items\": null");
	buf_append_text(out, ", \"metrics\": [");
	for (int m = 0; m < f->n_metrics; m++)
		buf_printf(out, "%s\"%s\"", m ? ", " : "", f->metrics[m]);
	buf_append_text(out, "], ");
	json_member_text(out, "definition", f->definition);
	buf_append_char(out, '}');
}

static void suite_row(const struct suite_facts *f, struct table *t)
{
	struct buf name = {0};
	buf_append_text(&name, f->name);
	if (f->also)
		buf_printf(&name, ", %s", f->also);
	table_add(t, buf_str(&name));
	buf_free(&name);
	if (f->has_data)
		table_printf(t, "%d", f->documents);
	else
		table_add(t, str_of("-"));
	if (f->has_data && f->tasks > 1)
		table_printf(t, "%d", f->tasks);
	else
		table_add(t, str_of(""));
	table_add(t, str_of(f->definition));
}

/* Divergence has no items of its own: it reads what the others leave. */
static struct suite_facts divergence_facts(void)
{
	struct suite_facts f = {.name = divergence_suite,
		.definition = divergence_definition,
		.kind = REQUEST_LOGLIKELIHOOD,
		.metrics = divergence_metrics};
	while (divergence_metrics[f.n_metrics])
		f.n_metrics++;
	return f;
}

/* Sizes are those of the data sets at hand: "-" where they lack the suite's files. */
static int list_suites(const char *data_folder, bool json, bool color, struct buf *out, struct error *e)
{
	static const char *const headers[] = {"suite", "items", "tasks", "definition"};
	struct suite_facts f;
	struct table t;
	table_init(&t, "lrrl");
	for (int i = 0; i < t.columns; i++)
		table_add(&t, str_of(headers[i]));
	buf_append_text(out, json ? "{\"schema_version\": 1, \"suites\": [" : "");
	for (int i = 0; suite_facts(i, data_folder, &f); i++) {
		suite_row(&f, &t);
		if (json) {
			buf_append_text(out, i ? ", " : "");
			suite_json(&f, out);
		}
	}
	f = divergence_facts();
	suite_row(&f, &t);
	int status = 0;
	if (json) {
		buf_append_text(out, ", ");
		suite_json(&f, out);
		buf_append_text(out, "]}\n");
	} else {
		status = table_write(&t, color, out, e);
	}
	table_free(&t);
	return status < 0 ? status : buf_check(out, e);
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
	char *data = NULL;
	int status = o->list_suites ? data_path(o, &data, e) : 0;
	if (status == 0)
		status = o->list_suites ? list_suites(data, o->json, c.color_output, &out, e)
					: list_runs(o, &c, &out, e);
	free(data);
	if (status == 0)
		fwrite(buf_text(&out), 1, out.length, stdout);
	buf_free(&out);
	return error_exit_code(status);
}
