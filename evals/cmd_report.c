#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "engine/base/file.h"
#include "evals/cli.h"
#include "evals/console.h"
#include "evals/report_items.h"
#include "reports/html.h"
#include "reports/report_faults.h"
#include "reports/report_html.h"
#include "reports/report_overhead.h"
#include "reports/report_tables.h"
#include "reports/report_verdict.h"

/* One candidate against the baseline. */
struct judged {
	struct pairing pairing;
	struct verdict verdict;
};

struct report {
	const struct options *options;
	struct console console;
	char *path;
	struct store *store;
	int64_t *runs; /* [n_runs], each once */
	size_t n_runs;
	struct report_data data;
	struct policy policy;
	struct judged **judged; /* [n_judged] */
	const struct verdict **verdicts;
	size_t n_judged;
	char **notes; /* [n_notes] */
	size_t n_notes;
	struct buf title;
};

static void report_free(struct report *r)
{
	for (size_t i = 0; i < r->n_judged; i++) {
		verdict_free(&r->judged[i]->verdict);
		pairing_free(&r->judged[i]->pairing);
		free(r->judged[i]);
	}
	for (size_t i = 0; i < r->n_notes; i++)
		free(r->notes[i]);
	free(r->judged);
	free(r->verdicts);
	free(r->notes);
	free(r->runs);
	free(r->path);
	buf_free(&r->title);
	policy_free(&r->policy);
	report_data_free(&r->data);
	store_close(r->store);
}

static int no_memory(struct error *e)
{
	return error_set(e, ERR_MEMORY, "no memory for a report");
}

/* ---- Which runs ---- */

static int add_run(struct report *r, int64_t run_id, struct error *e)
{
	for (size_t i = 0; i < r->n_runs; i++)
		if (r->runs[i] == run_id)
			return 0;
	int64_t *grown = reallocarray(r->runs, r->n_runs + 1, sizeof(*grown));
	if (!grown)
		return no_memory(e);
	r->runs = grown;
	r->runs[r->n_runs++] = run_id;
	return 0;
}

/* The newest run of each kind that has come to its end. */
struct newest {
	int64_t run, bench, overhead, inject;
};

static int see_run(void *context, const struct store_run *run, struct error *e)
{
	struct newest *newest = context;
	int64_t *place = strcmp(run->kind, "run") == 0 ? &newest->run
		: strcmp(run->kind, "bench") == 0      ? &newest->bench
		: strcmp(run->kind, "overhead") == 0   ? &newest->overhead
						       : &newest->inject;
	(void)e;
	if (run->status == RUN_COMPLETE)
		*place = run->run_id;
	return 0;
}

static int choose_runs(struct report *r, struct error *e)
{
	for (int i = 0; i < r->options->n_arguments; i++) {
		int64_t run_id = 0;
		TRY(store_run_find(r->store, r->options->arguments[i], &run_id, e));
		TRY(add_run(r, run_id, e));
	}
	if (r->n_runs)
		return 0;
	struct newest newest = {0};
	TRY(store_runs_each(r->store, 0, see_run, &newest, e));
	const int64_t ids[] = {newest.run, newest.bench, newest.overhead, newest.inject};
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		if (ids[i])
			TRY(add_run(r, ids[i], e));
	if (r->n_runs)
		return 0;
	return error_set(e, ERR_EMPTY, "%s holds no complete run: name a RUN to report on one that is not", r->path);
}

/* ---- Comparing ---- */

static int add_note(struct report *r, const struct answers *candidate, const char *reason, struct error *e)
{
	struct buf note = {0};
	char **grown = reallocarray(r->notes, r->n_notes + 1, sizeof(*grown));
	if (!grown)
		return no_memory(e);
	r->notes = grown;
	buf_printf(&note, "%s is not compared: %s.", candidate->label, reason);
	if (buf_check(&note, e) < 0) {
		buf_free(&note);
		return ERR_MEMORY;
	}
	console_note(&r->console, "%s", buf_text(&note));
	r->notes[r->n_notes++] = note.data;
	return 0;
}

static int load(struct report *r, const struct report_run *run, size_t variant, struct answers *out, struct error *e)
{
	struct buf address = {0};
	buf_printf(&address, "%" PRId64 ":%s", run->run.run_id, run->variants[variant].name);
	int status = buf_check(&address, e);
	if (status == 0)
		status = answers_load(buf_text(&address), r->path, out, e);
	buf_free(&address);
	return status;
}

/* What cannot be compared (other prompts, nothing in common) is a note, not a failure of the report. */
static int judge(
	struct report *r, struct judged *j, struct answers *baseline, struct answers *candidate, struct error *e)
{
	struct error reason = {0};
	char *label = strdup(candidate->label);
	const struct answers named = {.label = label};
	int status =
		label ? pairing_make(baseline, candidate, NULL, 0, &r->policy, &j->pairing, &reason) : no_memory(e);
	if (label && status == 0)
		status = verdict_make(&j->pairing, &r->policy, &j->verdict, &reason);
	if (status == ERR_INPUT || status == ERR_EMPTY) {
		status = add_note(r, &named, reason.message, e);
		status = status < 0 ? status : 1;
	} else if (status < 0 && reason.code) {
		status = error_set(e, reason.code, "%s", reason.message);
	}
	free(label);
	return status;
}

/* PRECOND: there is room in r->judged and r->verdicts. */
static int compare(struct report *r, const struct report_run *base_run, size_t base, const struct report_run *run,
	size_t variant, struct error *e)
{
	struct judged *j = mem_calloc(1, sizeof(*j), e);
	struct answers baseline = {0}, candidate = {0};
	if (!j)
		return ERR_MEMORY;
	int status = load(r, base_run, base, &baseline, e);
	if (status == 0)
		status = load(r, run, variant, &candidate, e);
	if (status < 0) {
		answers_free(&baseline);
		answers_free(&candidate);
		free(j);
		return status;
	}
	status = judge(r, j, &baseline, &candidate, e);
	if (status == 0) {
		r->verdicts[r->n_judged] = &j->verdict;
		r->judged[r->n_judged++] = j;
		return 0;
	}
	verdict_free(&j->verdict);
	pairing_free(&j->pairing);
	free(j);
	return status < 0 ? status : 0;
}

static const struct report_run *first_with_answers(const struct report *r)
{
	for (size_t i = 0; i < r->data.n_runs; i++)
		if (r->data.runs[i].n_counts)
			return &r->data.runs[i];
	return NULL;
}

/* The first variant of the first run is the baseline of all others. */
static int compare_all(struct report *r, struct error *e)
{
	const struct report_run *base = first_with_answers(r);
	size_t variants = 0;
	for (size_t i = 0; i < r->data.n_runs; i++)
		variants += r->data.runs[i].n_variants;
	r->judged = mem_calloc(variants + 1, sizeof(*r->judged), e);
	r->verdicts = mem_calloc(variants + 1, sizeof(*r->verdicts), e);
	if (!r->judged || !r->verdicts)
		return ERR_MEMORY;
	for (size_t i = 0; base && i < r->data.n_runs; i++) {
		const struct report_run *run = &r->data.runs[i];
		for (size_t v = 0; v < run->n_variants && run->n_counts; v++)
			if (run != base || v > 0)
				TRY(compare(r, base, 0, run, v, e));
	}
	return 0;
}

/* ---- Writing ---- */

/* "-" is standard output. */
static int write_file(const char *path, const struct buf *text, struct error *e)
{
	TRY(buf_check(text, e));
	if (strcmp(path, "-") == 0) {
		fwrite(buf_text(text), 1, text->length, stdout);
		return 0;
	}
	FILE *file = fopen(path, "we");
	if (!file)
		return error_set(e, ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
	bool written = fwrite(buf_text(text), 1, text->length, file) == text->length;
	int number = errno;
	if (fclose(file) != 0 || !written)
		return error_set(e, ERR_IO, "%s: cannot be written: %s", path, strerror(written ? errno : number));
	return 0;
}

static int write_html(struct report *r, const char *path, struct error *e)
{
	struct buf out = {0};
	struct report_items items;
	int status = report_items_init(&items, r->options, e);
	const struct report_page page = {.title = buf_text(&r->title),
		.verdicts = r->verdicts,
		.n_verdicts = r->n_judged,
		.data = &r->data,
		.notes = (const char *const *)r->notes,
		.n_notes = r->n_notes,
		.find_item = report_items_find,
		.find_context = &items};
	if (status == 0)
		status = report_html_write(&page, &out, e);
	if (items.first_error.code)
		console_note(&r->console, "flips are shown without their prompts: %s", items.first_error.message);
	report_items_free(&items);
	if (status == 0)
		status = write_file(path, &out, e);
	buf_free(&out);
	return status;
}

static int run_tables(const struct report *r, struct table_list *out, struct error *e)
{
	TRY(report_accuracy_tables(&r->data, out, e));
	TRY(report_capacity_table(&r->data, out, e));
	TRY(report_speed_tables(&r->data, out, e));
	TRY(report_overhead_table(&r->data, out, e));
	TRY(report_fault_outcomes_table(&r->data, out, e));
	for (size_t i = 0; i < r->data.n_runs; i++)
		TRY(report_fault_checks_table(&r->data.runs[i], out, e));
	TRY(report_latency_table(&r->data, out, e));
	return report_errors_table(&r->data, out, e);
}

/* subject: NULL for Markdown. */
static int append_tables(struct table_list *list, int status, const char *subject, struct buf *out, struct error *e)
{
	if (status == 0)
		status = table_list_check(list, e);
	for (size_t i = 0; i < list->n && status == 0; i++)
		if (list->tables[i]->n_cells && subject)
			table_csv(list->tables[i], subject, out);
		else if (list->tables[i]->n_cells)
			table_markdown(list->tables[i], out);
	table_list_free(list);
	return status;
}

static int append_verdict(const struct verdict *v, bool csv, struct buf *out, struct error *e)
{
	struct table_list tables = {0};
	struct buf subject = {0};
	buf_printf(&subject, "%s against %s", v->pairing->candidate.label, v->pairing->baseline.label);
	int status = buf_check(&subject, e);
	if (!csv) {
		buf_append_text(out, "## ");
		markdown_text(out, buf_str(&subject));
		buf_append_text(out, "\n\n");
		report_banner_markdown(v, out);
	}
	if (status == 0)
		status = report_verdict_tables(v, &tables, e);
	status = append_tables(&tables, status, csv ? buf_text(&subject) : NULL, out, e);
	buf_free(&subject);
	return status;
}

static int append_provenance(const struct report *r, bool csv, struct buf *out, struct error *e)
{
	for (size_t i = 0; i < r->data.n_runs; i++) {
		struct table_list tables = {0};
		char subject[32];
		snprintf(subject, sizeof(subject), "run %" PRId64, r->data.runs[i].run.run_id);
		int status = report_provenance_table(&r->data.runs[i], &tables, e);
		TRY(append_tables(&tables, status, csv ? subject : NULL, out, e));
	}
	return 0;
}

static void append_heading(const struct report *r, struct buf *out)
{
	buf_append_text(out, "# ");
	markdown_text(out, buf_str(&r->title));
	buf_append_text(out, "\n\n");
	for (size_t i = 0; i < r->n_notes; i++) {
		markdown_text(out, str_of(r->notes[i]));
		buf_append_text(out, "\n\n");
	}
}

static int write_text(struct report *r, const char *path, bool csv, struct error *e)
{
	struct buf out = {0};
	struct table_list tables = {0};
	int status = 0;
	if (csv)
		table_csv_header(&out);
	else
		append_heading(r, &out);
	for (size_t i = 0; i < r->n_judged && status == 0; i++)
		status = append_verdict(r->verdicts[i], csv, &out, e);
	if (status == 0)
		status = append_tables(&tables, run_tables(r, &tables, e), csv ? "" : NULL, &out, e);
	if (status == 0)
		status = append_provenance(r, csv, &out, e);
	if (status == 0)
		status = write_file(path, &out, e);
	buf_free(&out);
	return status;
}

static int report(struct report *r, struct error *e)
{
	const struct options *o = r->options;
	if (!o->html && !o->markdown && !o->csv)
		return error_set(e, ERR_USAGE, "report: where to? Expected --html FILE, --markdown FILE or --csv FILE");
	r->path = db_path(o, e);
	if (!r->path)
		return e->code;
	TRY(store_open_reading(r->path, &r->store, e));
	TRY(choose_runs(r, e));
	for (size_t i = 0; i < r->n_runs; i++)
		TRY(report_data_add(&r->data, r->store, r->runs[i], e));
	policy_init(&r->policy);
	TRY(compare_all(r, e));
	buf_printf(&r->title, "Assay report: %s", r->data.runs[0].run.model);
	TRY(buf_check(&r->title, e));
	if (o->html)
		TRY(write_html(r, o->html, e));
	if (o->markdown)
		TRY(write_text(r, o->markdown, false, e));
	if (o->csv)
		TRY(write_text(r, o->csv, true, e));
	return 0;
}

int cmd_report(const struct options *o, struct error *e)
{
	struct report r = {.options = o};
	console_init(&r.console, o, stdout, stderr);
	int status = report(&r, e);
	report_free(&r);
	return error_exit_code(status);
}
