#include "evals/harness_import.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/json_strict.h"
#include "evals/harness_check.h"
#include "evals/harness_graph.h"
#include "evals/harness_samples.h"
#include "evals/suite_type.h"

const char harness_variant[] = "lm-eval";

struct import {
	struct store *store;
	const char *path;  /* of the results file */
	struct str folder; /* with its slash; empty: here */
	struct str time;   /* of the file names */
	const char *const *renames;
	int n_renames;
	struct json_document *document;
	const struct json *root;
	struct harness_graph graph; /* owned */
	char results_hash[SHA256_HEX_SIZE];
	struct harness_stderrs stderrs; /* owned */
	int64_t variant_id;
	struct harness_run *out;
};

/* ---- Names ---- */

/* The task's or group's name in the store; out is overwritten. */
static int renamed(const struct import *m, struct str name, struct buf *out, struct error *e)
{
	buf_clear(out);
	for (int i = 0; i < m->n_renames; i++) {
		const char *equals = strchr(m->renames[i], '=');
		struct str old = {m->renames[i], (size_t)(equals - m->renames[i])}, new = str_of(equals + 1);
		bool rest = old.data[old.length - 1] == '*' && new.length > 0 && new.data[new.length - 1] == '*';
		if (rest && str_starts_with(name, (struct str){old.data, old.length - 1})) {
			buf_append(out, new.data, new.length - 1);
			buf_append(out, name.data + old.length - 1, name.length - old.length + 1);
			return buf_check(out, e);
		}
		if (!rest && str_equal(name, old)) {
			buf_append_str(out, new);
			return buf_check(out, e);
		}
	}
	buf_append_str(out, name);
	return buf_check(out, e);
}

static int check_renames(const struct import *m, struct error *e)
{
	for (int i = 0; i < m->n_renames; i++) {
		const char *equals = strchr(m->renames[i], '=');
		if (!equals || equals == m->renames[i] || !equals[1])
			return error_set(e, ERR_USAGE,
				"--rename: '%.80s', expected OLD=NEW, where both may end with * for the same rest",
				m->renames[i]);
	}
	return 0;
}

/* ---- The run ---- */

static int text_member(const struct import *m, const char *name, struct str fallback, struct str *out, struct error *e)
{
	const struct json *value = json_get(m->root, name);
	*out = json_is(value, JSON_STRING) ? value->text : fallback;
	if (value && !json_is(value, JSON_NULL) && !json_is(value, JSON_STRING))
		return error_set(
			e, ERR_INPUT, "%s: \"%s\" is %s, expected a string", m->path, name, json_type_name(value));
	return 0;
}

/* The files' identity: what was imported once is not imported again. */
static int config_hash(struct import *m, char out[SHA256_HEX_SIZE], struct error *e)
{
	struct buf line = {0};
	buf_printf(&line, "lm-evaluation-harness %s\n", m->results_hash);
	for (int i = 0; i < m->n_renames; i++)
		buf_printf(&line, "rename %s\n", m->renames[i]);
	sha256_hex(line.data, line.length, out);
	int status = buf_check(&line, e);
	buf_free(&line);
	return status;
}

struct known {
	const char *config_hash;
	int64_t run_id;
};

static int see_known(void *context, const struct store_run *run, struct error *e)
{
	struct known *k = context;
	(void)e;
	if (run->status == RUN_COMPLETE && strcmp(run->config_hash, k->config_hash) == 0)
		k->run_id = run->run_id;
	return 0;
}

/* What else the harness says of its run. */
static void append_provenance(const struct import *m, struct buf *out)
{
	static const char *const kept[] = {"lm_eval_version", "git_hash", "date", "config", "n-shot", "versions",
		"transformers_version", "model_source", "chat_template_sha", "system_instruction_sha",
		"fewshot_as_multiturn", "max_length", "total_evaluation_time_seconds"};
	buf_append_text(out, "{\"imported_from\": ");
	json_write_string(str_of(m->path), false, out);
	buf_printf(out, ", \"sha256\": \"%s\", \"lm_eval\": {", m->results_hash);
	const char *between = "";
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		const struct json *value = json_get(m->root, kept[i]);
		if (!value)
			continue;
		buf_printf(out, "%s\"%s\": ", between, kept[i]);
		json_dump_python(value, -1, false, out);
		between = ", ";
	}
	buf_append_text(out, "}}");
}

static int run_begin(struct import *m, const char *command, const char *hash, struct error *e)
{
	struct buf provenance = {0};
	struct str model, version;
	bool resumed;
	const struct json *limit = json_get(json_get(m->root, "config"), "limit");

	TRY(text_member(m, "model_name", str_of("unknown"), &model, e));
	TRY(text_member(m, "lm_eval_version", str_of("unknown"), &version, e));
	append_provenance(m, &provenance);
	struct store_run run = {.kind = "run",
		.config_hash = hash,
		.version = version.data,
		.command = command,
		.model = model.data,
		.for_gating = !limit || json_is(limit, JSON_NULL),
		.provenance = buf_str(&provenance)};
	int status = buf_check(&provenance, e);
	if (status == 0)
		status = store_run_begin(m->store, &run, &m->out->run_id, &resumed, e);
	buf_free(&provenance);
	struct store_variant variant = {.name = harness_variant, .facts = str_of("{}")};
	return status < 0 ? status : store_variant_add(m->store, &variant, &m->variant_id, e);
}

/* ---- Tasks ---- */

static int sample_put(void *context, const struct store_sample *sample, struct error *e)
{
	struct store *store = context;
	enum store_answered answered;
	TRY(store_sample_answered(store, sample->variant_id, sample->suite, sample->task, sample->doc_id,
		sample->doc_hash, sample->prompt_hash, &answered, e));
	if (answered == STORE_CHANGED)
		return error_set(e, ERR_INPUT, "%s document %" PRId64 " was stored with another document or prompt",
			sample->task, sample->doc_id);
	return answered == STORE_NEW ? store_sample_insert(store, sample, e) : 0;
}

static int check_task_name(const struct import *m, struct str name, struct error *e)
{
	if (name.length == 0 || name.length > 200 || memchr(name.data, '/', name.length) ||
		memchr(name.data, '\0', name.length))
		return error_set(e, ERR_INPUT,
			"%s: \"n-samples\" names the task \"%.*s\", expected a name that a file can have", m->path,
			STR_ARG(name));
	return 0;
}

/* Appends the name to the list of those that assay has no suite for. */
static void note_foreign(struct import *m, const char *suite)
{
	struct buf *list = &m->out->foreign;
	if (suite_type_find(suite) || str_find(buf_str(list), str_of(suite), 0) != (size_t)-1)
		return;
	buf_printf(list, "%s%s", list->length ? ", " : "", suite);
}

/* A task's file, and what it is called in the store. */
struct task_names {
	struct buf path, suite, task;
};

static void names_free(struct task_names *t)
{
	buf_free(&t->path);
	buf_free(&t->suite);
	buf_free(&t->task);
}

static int names_make(const struct import *m, struct str task, struct task_names *out, struct error *e)
{
	TRY(check_task_name(m, task, e));
	buf_append_str(&out->path, m->folder);
	buf_printf(&out->path, "samples_%.*s_%.*s.jsonl", STR_ARG(task), STR_ARG(m->time));
	TRY(buf_check(&out->path, e));
	TRY(renamed(m, harness_graph_top(&m->graph, task), &out->suite, e));
	return renamed(m, task, &out->task, e);
}

/* As the checks have it. Borrowed from the names and the results file. */
static struct harness_task task_of(const struct import *m, const struct json *counts, const struct task_names *names)
{
	return (struct harness_task){.suite = buf_text(&names->suite),
		.name = buf_text(&names->task),
		.config = json_get_str(json_get(m->root, "configs"), counts->key)};
}

static int sample_check(void *context, const struct store_sample *sample, struct error *e)
{
	return harness_sums_add(context, sample, e);
}

/* Whether the task's file is whole and says what the results say. */
static int task_check(struct import *m, const struct json *counts, const struct task_names *names, struct error *e)
{
	const char *path = buf_text(&names->path);
	const struct json *results = json_get_str(json_get(m->root, "results"), counts->key);
	const struct harness_task task = task_of(m, counts, names);
	struct harness_sums sums = {0};
	int64_t documents = 0, expected = 0;
	int status = 0;

	if (!file_exists(path))
		return error_set(e, ERR_MISSING, "%s is missing: the harness writes samples with --log_samples", path);
	TRY_CLEANUP(status, harness_samples_each(path, &task, 0, sample_check, &sums, &documents, e));
	if (!json_int64(json_get(counts, "effective"), &expected) || expected != documents)
		TRY_CLEANUP(status,
			error_set(e, ERR_INPUT, "%s holds %" PRId64 " documents, and %s says %" PRId64, path, documents,
				m->path, expected));
	if (documents == 0)
		TRY_CLEANUP(status,
			error_set(e, ERR_INPUT, "%s holds 0 documents, expected those of the results in %s", path,
				m->path));
	if (json_int64(json_get(results, "sample_len"), &expected) && expected != documents)
		TRY_CLEANUP(status,
			error_set(e, ERR_INPUT,
				"%s: %.*s: \"sample_len\" is %" PRId64 ", and %s holds %" PRId64 " documents", m->path,
				STR_ARG(counts->key), expected, path, documents));
	status = harness_sums_check(&sums, documents, results, &task, &m->stderrs, e);
	if (status < 0)
		error_prefix(e, "%s: %.*s (samples: %s)", m->path, STR_ARG(counts->key), path);
cleanup:
	harness_sums_free(&sums);
	return status;
}

static int task_store(struct import *m, const struct json *counts, const struct task_names *names, struct error *e)
{
	int64_t documents = 0;
	const struct harness_task task = task_of(m, counts, names);
	TRY(harness_samples_each(buf_text(&names->path), &task, m->variant_id, sample_put, m->store, &documents, e));
	note_foreign(m, buf_text(&names->suite));
	m->out->documents += documents;
	m->out->tasks++;
	return 0;
}

typedef int visit_task(struct import *m, const struct json *counts, const struct task_names *names, struct error *e);

static int tasks_each(struct import *m, visit_task *visit, struct error *e)
{
	const struct json *counts = json_get(m->root, "n-samples");
	if (!json_is(counts, JSON_OBJECT) || counts->count == 0)
		return error_set(e, ERR_INPUT, "%s: \"n-samples\" is %s, expected an object with the tasks", m->path,
			json_is(counts, JSON_OBJECT) ? "empty" : json_type_name(counts));
	JSON_EACH (task, counts) {
		struct task_names names = {0};
		if (task->shadowed)
			continue;
		int status = names_make(m, task->key, &names, e);
		if (status == 0)
			status = visit(m, task, &names, e);
		names_free(&names);
		TRY(status);
	}
	return 0;
}

/* ---- Results ---- */

static int result_put(struct import *m, const struct json *task, const struct json *value, struct error *e)
{
	struct str metric, filter;
	struct buf name = {0}, suite = {0};
	double error;
	int64_t n = 0;
	int status = 0;

	if (!harness_key_is_metric(value->key, &metric, &filter) || !json_is(value, JSON_NUMBER))
		return 0;
	TRY_CLEANUP(status, harness_stderr_of(&m->stderrs, task, value, &error, e));
	TRY_CLEANUP(status, renamed(m, task->key, &name, e));
	TRY_CLEANUP(status, renamed(m, harness_graph_top(&m->graph, task->key), &suite, e));
	if (!json_int64(json_get(task, "sample_len"), &n))
		json_int64(json_get(json_get_str(json_get(m->root, "n-samples"), task->key), "effective"), &n);
	struct store_result result = {.variant_id = m->variant_id,
		.suite = buf_text(&suite),
		.task = buf_text(&name),
		.metric = value->key.data,
		.n = n,
		.value = json_double(value),
		.stderr_value = error};
	status = store_suite_result_put(m->store, &result, e);
cleanup:
	buf_free(&name);
	buf_free(&suite);
	return status;
}

static int results_import(struct import *m, struct error *e)
{
	JSON_EACH (task, json_get(m->root, "results"))
		JSON_EACH (value, task)
			if (!task->shadowed && !value->shadowed)
				TRY(result_put(m, task, value, e));
	return 0;
}

/* ---- All of it ---- */

/* Everything that the files can be refused for, before anything is stored. */
static int check_files(struct import *m, struct error *e)
{
	const struct json *results = json_get(m->root, "results");
	struct str text;
	TRY(text_member(m, "model_name", str_of(""), &text, e));
	TRY(text_member(m, "lm_eval_version", str_of(""), &text, e));
	TRY(tasks_each(m, task_check, e));
	if (!json_is(results, JSON_OBJECT))
		return error_set(
			e, ERR_INPUT, "%s: \"results\" is %s, expected an object", m->path, json_type_name(results));
	if (harness_groups_check(&m->graph, &m->stderrs, e) < 0)
		return error_prefix(e, "%s", m->path);
	return 0;
}

static int read_results(struct import *m, struct error *e)
{
	struct buf text = {0};
	int status = file_read(m->path, &text, e);
	if (status == 0)
		status = json_parse(buf_str(&text), m->path, JSON_LAST_KEY_WINS, &m->document, e);
	if (status == 0)
		sha256_hex(text.data, text.length, m->results_hash);
	buf_free(&text);
	TRY(status);
	m->root = json_root(m->document);
	return harness_graph_make(m->root, &m->graph, e);
}

/* "FOLDER/results_TIME.json" */
static int split_path(struct import *m, struct error *e)
{
	static const char begin[] = "results_", end[] = ".json";
	const char *slash = strrchr(m->path, '/'), *name = slash ? slash + 1 : m->path;
	size_t length = strlen(name), affixes = sizeof(begin) - 1 + sizeof(end) - 1;
	m->folder = (struct str){m->path, (size_t)(name - m->path)};
	if (length <= affixes || strncmp(name, begin, sizeof(begin) - 1) != 0 ||
		strcmp(name + length - (sizeof(end) - 1), end) != 0)
		return error_set(e, ERR_USAGE, "%s: expected a file of the name results_<time>.json", m->path);
	m->time = (struct str){name + sizeof(begin) - 1, length - affixes};
	return 0;
}

static int import_run(struct import *m, const char *command, struct error *e)
{
	char hash[SHA256_HEX_SIZE];
	struct known known = {hash, 0};
	TRY(check_renames(m, e));
	TRY(split_path(m, e));
	TRY(read_results(m, e));
	TRY(config_hash(m, hash, e));
	TRY(store_runs_each(m->store, 0, see_known, &known, e));
	m->out->known = known.run_id != 0;
	m->out->run_id = known.run_id;
	if (m->out->known)
		return 0;
	TRY(check_files(m, e));
	TRY(run_begin(m, command, hash, e));
	int status = tasks_each(m, task_store, e);
	if (status == 0)
		status = results_import(m, e);
	struct error finish = {0};
	int finished = store_run_finish(m->store, status == 0 ? RUN_COMPLETE : RUN_FAILED, &finish);
	if (status == 0 && finished < 0)
		*e = finish;
	return status < 0 ? status : finished;
}

int harness_import(struct store *store, const char *path, const char *const *renames, int n_renames,
	const char *command, struct harness_run *out, struct error *e)
{
	*out = (struct harness_run){0};
	struct import m = {.store = store, .path = path, .renames = renames, .n_renames = n_renames, .out = out};
	int status = import_run(&m, command, e);
	out->stderrs = m.stderrs.others;
	m.stderrs.others = (struct buf){0};
	harness_stderrs_free(&m.stderrs);
	harness_graph_free(&m.graph);
	json_free(m.document);
	return status;
}

void harness_run_free(struct harness_run *r)
{
	buf_free(&r->foreign);
	buf_free(&r->stderrs);
	*r = (struct harness_run){0};
}
