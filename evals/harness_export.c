#include "evals/harness_export.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/json_strict.h"
#include "engine/engine.h"
#include "evals/chat_setup.h"
#include "evals/cli.h"
#include "evals/divergence.h"
#include "evals/harness_lines.h"
#include "evals/pending_files.h"
#include "evals/suite.h"
#include "evals/suite_task.h"
#include "evals/suite_type.h"
#include "reports/store_merge.h"

/* The members of a results file that have one entry a task. */
enum member { RESULTS, GROUPS, SUBTASKS, CONFIGS, VERSIONS, N_SHOT, HIGHER, N_SAMPLES, TASK_HASHES, MEMBERS };

static const char *const member_names[MEMBERS] = {"results", "groups", "group_subtasks", "configs", "versions",
	"n-shot", "higher_is_better", "n-samples", "task_hashes"};

struct export
{
	struct store *store;
	int64_t run_id;
	const char *only; /* a variant's name, or NULL */
	const char *folder;
	char *model; /* owned */
	struct json_document *provenance;
	int64_t started;
	double seconds;
	struct engine_text *text; /* owned; NULL: the prompts need no model */
	struct chat_setup chat;
	struct suite *suites[CLI_MAX_LIST];
	int n_suites;
	bool found;
	struct pending_files files;
	struct harness_files *out;
};

/* One variant's files. */
struct output {
	struct export *x;
	const struct store_variant *variant;
	struct buf folder, time, model_name;
	struct buf members[MEMBERS]; /* entries, "a": 1, "b": 2 */
};

/* ---- Names ---- */

/* lm_eval.utils.sanitize_model_name: runs of what a file name had better not hold become "__". */
static void append_sanitized(struct buf *out, const char *name)
{
	bool inside = false;
	for (; *name; name++) {
		bool bad = strchr("\"<>:/|\\?*[]", *name) != NULL;
		if (!bad)
			buf_append_char(out, *name);
		else if (!inside)
			buf_append_text(out, "__");
		inside = bad;
	}
}

/* datetime.isoformat() with '-' for ':'. */
static void append_time(struct buf *out, int64_t ns)
{
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm t = {0};
	gmtime_r(&seconds, &t);
	buf_printf(out, "%04d-%02d-%02dT%02d-%02d-%02d.%06d", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour,
		t.tm_min, t.tm_sec, (int)(ns % 1000000000 / 1000));
}

/* The next entry of a member: its key. */
static struct buf *entry(struct output *o, enum member member, const char *key)
{
	struct buf *out = &o->members[member];
	buf_append_text(out, out->length ? ",\n    " : "\n    ");
	json_write_string(str_of(key), false, out);
	buf_append_text(out, ": ");
	return out;
}

/* ---- What is said of a task ---- */

/* Whether no metric before it has its name under another filter. */
static bool is_first_of_name(const struct suite *s, int i)
{
	for (int j = 0; j < i; j++)
		if (str_equal(harness_metric(suite_metric_name(s, j)), harness_metric(suite_metric_name(s, i))))
			return false;
	return true;
}

static void append_metric_list(const struct suite *s, struct buf *out)
{
	buf_append_char(out, '[');
	for (int i = 0; i < suite_metric_count(s); i++) {
		if (!is_first_of_name(s, i))
			continue;
		buf_append_text(out, i ? ", {\"metric\": " : "{\"metric\": ");
		json_write_string(harness_metric(suite_metric_name(s, i)), false, out);
		buf_append_text(out, ", \"aggregation\": \"mean\", \"higher_is_better\": true}");
	}
	buf_append_char(out, ']');
}

static void append_version(struct buf *out, double version)
{
	if (version > 0)
		json_write_double(version, out);
	else
		buf_append_text(out, "null");
}

static void append_config(
	const struct suite *s, const struct suite_task *task, const struct suite_item *first, struct buf *out)
{
	bool choices = first->kind == REQUEST_LOGLIKELIHOOD;
	buf_append_text(out, "{\"task\": ");
	json_write_string(str_of(task->name), false, out);
	buf_printf(out, ", \"output_type\": \"%s\", \"description\": ", choices ? "multiple_choice" : "generate_until");
	json_write_string(str_of(task->description), false, out);
	buf_printf(out, ", \"target_delimiter\": \" \", \"fewshot_delimiter\": \"\\n\\n\", \"num_fewshot\": %d, ",
		suite_fewshot(s));
	buf_append_text(out, "\"metric_list\": ");
	append_metric_list(s, out);
	if (!choices) {
		buf_append_text(out, ", \"generation_kwargs\": ");
		harness_generation(first, out);
	}
	buf_append_text(out, ", \"repeats\": 1, \"metadata\": {\"version\": ");
	append_version(out, suite_version(s, false));
	buf_append_text(out, "}}");
}

static void append_higher(const struct suite *s, struct buf *out)
{
	buf_append_char(out, '{');
	for (int i = 0; i < suite_metric_count(s); i++) {
		if (!is_first_of_name(s, i))
			continue;
		buf_append_text(out, i ? ", " : "");
		json_write_string(harness_metric(suite_metric_name(s, i)), false, out);
		buf_append_text(out, ": true");
	}
	buf_append_char(out, '}');
}

/* ---- Results ---- */

struct result_entry {
	struct output *output;
	const char *suite, *task;
	struct buf *out;
	int64_t n; /* of the first; 0: none yet */
};

static int add_result(void *context, const struct store_result *r, struct error *e)
{
	struct result_entry *t = context;
	struct buf *out = t->out;
	if (r->variant_id != t->output->variant->variant_id || strcmp(r->suite, t->suite) != 0 ||
		strcmp(r->task, t->task) != 0)
		return 0;
	if (t->n == 0)
		buf_printf(out, ", \"sample_len\": %" PRId64, t->n = r->n);
	struct str metric = harness_metric(r->metric);
	buf_append_text(out, ", ");
	json_write_string(str_of(r->metric), false, out);
	buf_append_text(out, ": ");
	json_write_double_or_null(r->value, out);
	buf_printf(out, ", \"%.*s_stderr%s\": ", (int)metric.length, metric.data, r->metric + metric.length);
	if (isnan(r->stderr_value))
		buf_append_text(out, "\"N/A\"");
	else
		json_write_double(r->stderr_value, out);
	return buf_check(out, e);
}

static int append_results(
	struct output *o, const char *suite, const char *task, const char *alias, struct buf *out, struct error *e)
{
	struct result_entry t = {o, suite, task, out, 0};
	buf_append_text(out, "{\"name\": ");
	json_write_string(str_of(task), false, out);
	buf_append_text(out, ", \"alias\": ");
	json_write_string(str_of(alias), false, out);
	TRY(store_results_each(o->x->store, o->x->run_id, add_result, &t, e));
	buf_append_char(out, '}');
	return 0;
}

/* A group and what belongs to it; name: the suite, or a group of its tasks. */
static int write_group(struct output *o, const struct suite *s, const char *name, struct error *e)
{
	struct buf *members = entry(o, SUBTASKS, name);
	bool whole = strcmp(name, suite_name(s)) == 0;
	const char *between = "", *last = NULL;
	buf_append_char(members, '[');
	for (int i = 0; i < suite_task_count(s); i++) {
		const struct suite_task *t = suite_task(s, i);
		bool grouped = t->group && strcmp(t->group, suite_name(s)) != 0;
		const char *member = whole && grouped ? t->group : t->name;
		if ((whole && last && strcmp(last, member) == 0) ||
			(!whole && !(grouped && strcmp(t->group, name) == 0)))
			continue;
		buf_append_text(members, between);
		json_write_string(str_of(last = member), false, members);
		between = ", ";
	}
	buf_append_char(members, ']');
	append_version(entry(o, VERSIONS, name), suite_version(s, true));
	buf_printf(entry(o, N_SHOT, name), "%d", suite_fewshot(s));
	append_higher(s, entry(o, HIGHER, name));
	TRY(append_results(o, suite_name(s), name, name, entry(o, GROUPS, name), e));
	return append_results(o, suite_name(s), name, name, entry(o, RESULTS, name), e);
}

static bool begins_group(const struct suite *s, int i)
{
	const char *group = suite_task(s, i)->group;
	if (!group || strcmp(group, suite_name(s)) == 0)
		return false;
	for (int j = 0; j < i; j++)
		if (suite_task(s, j)->group && strcmp(suite_task(s, j)->group, group) == 0)
			return false;
	return true;
}

static int write_groups(struct output *o, const struct suite *s, struct error *e)
{
	if (suite_task_count(s) < 2)
		return 0;
	for (int i = 0; i < suite_task_count(s); i++)
		if (begins_group(s, i))
			TRY(write_group(o, s, suite_task(s, i)->group, e));
	return write_group(o, s, suite_name(s), e);
}

/* ---- Tasks ---- */

static int file_write(const struct output *o, const char *name, const struct buf *text, struct error *e)
{
	struct buf path = {0};
	buf_printf(&path, "%s/%s", buf_text(&o->folder), name);
	int status = buf_check(&path, e);
	if (status == 0)
		status = pending_write(&o->x->files, buf_text(&path), text, e);
	buf_free(&path);
	return status;
}

static const struct suite_item *first_item(const struct suite *s, const char *task, int *count)
{
	const struct suite_item *first = NULL;
	*count = 0;
	for (int i = 0; i < suite_count(s); i++) {
		if (strcmp(suite_item(s, i)->task, task) != 0)
			continue;
		first = first ? first : suite_item(s, i);
		++*count;
	}
	return first;
}

/* All that is said of a task whose answers are in lines. */
static int write_task(struct output *o, const struct suite *s, const struct suite_task *task,
	const struct harness_lines *lines, struct error *e)
{
	struct buf name = {0};
	int count;
	const struct suite_item *first = first_item(s, task->name, &count);

	buf_printf(&name, "samples_%s_%s.jsonl", task->name, buf_text(&o->time));
	int status = buf_check(&name, e);
	if (status == 0)
		status = file_write(o, buf_text(&name), &lines->text, e);
	buf_free(&name);
	TRY(status);
	append_config(s, task, first, entry(o, CONFIGS, task->name));
	append_version(entry(o, VERSIONS, task->name), suite_version(s, false));
	buf_printf(entry(o, N_SHOT, task->name), "%d", suite_fewshot(s));
	append_higher(s, entry(o, HIGHER, task->name));
	buf_printf(entry(o, N_SAMPLES, task->name), "{\"original\": %d, \"effective\": %" PRId64 "}", count,
		lines->documents);
	buf_printf(entry(o, TASK_HASHES, task->name), "\"%s\"", lines->task_hash);
	return append_results(
		o, suite_name(s), task->name, task->alias ? task->alias : task->name, entry(o, RESULTS, task->name), e);
}

static int write_suite(struct output *o, const struct suite *s, struct error *e)
{
	bool any = false;
	for (int i = 0; i < suite_task_count(s); i++) {
		struct harness_lines lines;
		int status = harness_lines_make(
			o->x->store, o->x->run_id, o->variant->variant_id, s, suite_task(s, i)->name, &lines, e);
		if (status == 0 && lines.documents > 0)
			status = write_task(o, s, suite_task(s, i), &lines, e);
		any |= lines.documents > 0;
		o->x->out->samples += lines.documents;
		harness_lines_free(&lines);
		TRY(status);
	}
	return any ? write_groups(o, s, e) : 0;
}

/* ---- The results file ---- */

static void append_text_member(struct buf *out, const char *name, const char *text)
{
	buf_printf(out, "  \"%s\": ", name);
	json_write_string(str_of(text), false, out);
	buf_append_text(out, ",\n");
}

static void append_provenance_member(struct buf *out, const struct export *x, const char *name, const char *member)
{
	const struct json *value = json_get(json_root(x->provenance), member);
	buf_printf(out, ", \"%s\": ", name);
	if (value)
		json_dump_python(value, -1, false, out);
	else
		buf_append_text(out, "null");
}

/* What the prompts were wrapped in, with the harness's hashes of it. */
static void append_chat(struct buf *out, const struct export *x)
{
	const struct json *chat = json_get(json_root(x->provenance), "chat");
	const struct json *system = json_get(chat, "system_instruction");
	bool applied = json_bool(json_get(chat, "applied"), false);
	const struct {
		const char *name;
		bool given;
		struct str text;
	} texts[] = {{"system_instruction", json_is(system, JSON_STRING),
			     json_is(system, JSON_STRING) ? system->text : (struct str){0}},
		{"chat_template", applied,
			applied ? engine_template_source(x->chat.conversations, false) : (struct str){0}}};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char hash[SHA256_HEX_SIZE];
		if (!texts[i].given) {
			buf_printf(out, "  \"%s\": null,\n  \"%s_sha\": null,\n", texts[i].name, texts[i].name);
			continue;
		}
		sha256_hex(texts[i].text.data, texts[i].text.length, hash);
		buf_printf(out, "  \"%s\": ", texts[i].name);
		json_write_string(texts[i].text, false, out);
		buf_printf(out, ",\n  \"%s_sha\": \"%s\",\n", texts[i].name, hash);
	}
	buf_printf(out, "  \"fewshot_as_multiturn\": %s,\n",
		applied && json_bool(json_get(chat, "fewshot_as_multiturn"), false) ? "true" : "false");
}

static int write_results(struct output *o, struct error *e)
{
	struct buf text = {0}, name = {0};
	const struct export *x = o->x;
	buf_append_text(&text, "{\n");
	for (int i = 0; i < MEMBERS; i++) {
		buf_printf(&text, "  \"%s\": {", member_names[i]);
		buf_append_str(&text, buf_str(&o->members[i]));
		buf_append_text(&text, o->members[i].length ? "\n  },\n" : "},\n");
		text.failed |= o->members[i].failed;
	}
	buf_append_text(&text, "  \"config\": {\"model\": \"assay\", \"model_args\": {\"pretrained\": ");
	json_write_string(str_of(x->model), false, &text);
	buf_append_text(&text, ", \"variant\": ");
	json_write_string(str_of(o->variant->name), false, &text);
	buf_append_text(
		&text, "}, \"batch_size\": null, \"batch_sizes\": [], \"device\": \"cpu\", \"use_cache\": null");
	append_provenance_member(&text, x, "limit", "limit");
	buf_append_text(&text,
		", \"bootstrap_iters\": 0, \"gen_kwargs\": {}, \"random_seed\": 0, \"numpy_seed\": 1234, "
		"\"torch_seed\": 1234");
	append_provenance_member(&text, x, "fewshot_seed", "fewshot_seed");
	buf_append_text(&text, "},\n  \"git_hash\": null,\n  \"date\": ");
	json_write_double((double)x->started * 1e-9, &text);
	buf_append_text(&text, ",\n");
	append_text_member(&text, "lm_eval_version", "assay " ASSAY_VERSION);
	append_text_member(&text, "model_source", "assay");
	append_text_member(&text, "model_name", buf_text(&o->model_name));
	const char *slash = strrchr(buf_text(&o->folder), '/');
	append_text_member(&text, "model_name_sanitized", slash ? slash + 1 : buf_text(&o->folder));
	append_chat(&text, x);
	buf_printf(&text, "  \"total_evaluation_time_seconds\": \"%.3f\"\n}\n", x->seconds);
	buf_printf(&name, "results_%s.json", buf_text(&o->time));
	int status = buf_check(&text, e);
	if (status == 0)
		status = file_write(o, buf_text(&name), &text, e);
	buf_free(&text);
	buf_free(&name);
	return status;
}

static int variant_export(void *context, const struct store_variant *v, struct error *e)
{
	struct export *x = context;
	struct output o = {.x = x, .variant = v};
	int status = 0;

	if (x->only && strcmp(x->only, v->name) != 0)
		return 0;
	x->found = true;
	buf_printf(&o.model_name, "%s:%s", x->model, v->name);
	buf_printf(&o.folder, "%s/", x->folder);
	append_sanitized(&o.folder, buf_text(&o.model_name));
	append_time(&o.time, x->started);
	TRY_CLEANUP(status, buf_check(&o.folder, e));
	TRY_CLEANUP(status, buf_check(&o.time, e));
	TRY_CLEANUP(status, pending_folder(&x->files, buf_text(&o.folder), e));
	for (int i = 0; i < x->n_suites; i++)
		TRY_CLEANUP(status, write_suite(&o, x->suites[i], e));
	TRY_CLEANUP(status, write_results(&o, e));
	buf_printf(&x->out->folders, "%s\n", buf_text(&o.folder));
cleanup:
	buf_free(&o.folder);
	buf_free(&o.time);
	buf_free(&o.model_name);
	for (int i = 0; i < MEMBERS; i++)
		buf_free(&o.members[i]);
	return status;
}

/* ---- The run ---- */

/* The harness's files cannot say that a run is a part of one: what is no whole run would be taken for one. */
static int check_run(const struct store_run *run, struct error *e)
{
	if (run->status != RUN_COMPLETE)
		return error_set(e, ERR_INPUT,
			"run %" PRId64 " is %s, expected a complete one: the command that began it goes on with it",
			run->run_id, run_status_name(run->status));
	if (store_run_is_shard(run))
		return error_set(e, ERR_INPUT,
			"run %" PRId64 " is a shard, expected a whole run: `assay db merge` joins it with the others",
			run->run_id);
	return 0;
}

static int take_run(void *context, const struct store_run *run, struct error *e)
{
	struct export *x = context;
	TRY(check_run(run, e));
	x->started = run->started;
	x->seconds = run->seconds;
	x->model = strdup(run->model);
	if (!x->model)
		return error_set(e, ERR_MEMORY, "out of memory");
	return json_parse(run->provenance, "run.provenance", JSON_LAST_KEY_WINS, &x->provenance, e);
}

static struct str name_of(const struct json *suite)
{
	const struct json *name = json_get(suite, "name");
	return json_is(name, JSON_STRING) ? name->text : str_of("");
}

/* An exam, whose name no suite has, or tool calls. */
static bool is_foreign(const struct json *suite)
{
	const struct suite_type *type = suite_type_find(name_of(suite).data);
	return !type || type->append_conversation;
}

static void note_foreign(struct export *x, struct str name)
{
	buf_printf(&x->out->foreign, "%s%.*s", x->out->foreign.length ? ", " : "", STR_ARG(name));
}

static bool is_in_conversation(const struct export *x)
{
	return json_bool(json_get(json_get(json_root(x->provenance), "chat"), "applied"), false);
}

/* Whether the prompts are made with the model: in its template, or counted in its tokens. */
static bool needs_model(const struct export *x)
{
	bool needed = is_in_conversation(x);
	JSON_EACH (suite, json_get(json_root(x->provenance), "suites"))
		needed = needed || (!is_foreign(suite) && suite_needs_model(name_of(suite).data));
	return needed;
}

static int check_template(const struct export *x, const struct json *chat, struct error *e)
{
	const struct json *stored = json_get(chat, "template_hash");
	const char *now = x->chat.conversations ? engine_template_hash(x->chat.conversations, false) : "";
	if (!is_in_conversation(x) || (json_is(stored, JSON_STRING) && str_is(stored->text, now)))
		return 0;
	return error_set(e, ERR_INPUT,
		"%s: its chat template has the hash %.16s, and run %" PRId64 " was made with %.16s", x->model,
		*now ? now : "none (there is no template)", x->run_id,
		json_is(stored, JSON_STRING) ? stored->text.data : "none");
}

/* What the run's prompts need of its model. */
static int open_model(struct export *x, struct suite_options *options, struct error *e)
{
	const struct json *chat = json_get(json_root(x->provenance), "chat");
	const struct json *date = json_get(chat, "date"), *which = json_get(chat, "template");
	const struct json *system = json_get(chat, "system_instruction");
	struct options given = {.date = json_is(date, JSON_STRING) ? date->text.data : NULL};

	options->apply_chat_template = is_in_conversation(x);
	options->multiturn = json_bool(json_get(chat, "fewshot_as_multiturn"), false);
	options->system_instruction = json_is(system, JSON_STRING) ? system->text.data : NULL;
	if (!needs_model(x))
		return 0;
	if (!file_exists(x->model) && !file_is_folder(x->model))
		return error_set(e, ERR_MISSING,
			"%s: the model of run %" PRId64 " is not there any more, and its prompts cannot be made "
			"without it",
			x->model, x->run_id);
	if (json_is(which, JSON_STRING) && !str_is(which->text, "default"))
		given.template = which->text.data;
	TRY(engine_text_open(x->model, &x->text, e));
	TRY(engine_context_length(x->model, &options->max_positions, e));
	TRY(chat_setup_open(&x->chat, &given, x->model, e));
	TRY(check_template(x, chat, e));
	options->text = x->text;
	options->conversations = x->chat.conversations;
	options->no_conversations = &x->chat.why;
	options->now = &x->chat.now;
	return 0;
}

static int open_suite(struct export *x, const struct json *suite, const struct suite_options *common, struct error *e)
{
	int64_t shots = 0;
	struct suite_options options = *common;
	if (name_of(suite).length == 0 || x->n_suites == CLI_MAX_LIST)
		return error_set(e, ERR_STORE, "run %" PRId64 ": its provenance does not name its suites", x->run_id);
	json_int64(json_get(suite, "fewshot"), &shots);
	options.fewshot = (int)shots;
	TRY(suite_open(name_of(suite).data, &options, &x->suites[x->n_suites], e));
	x->n_suites++;
	return 0;
}

/* Notes the suites that are left out; ERR_EMPTY where that leaves none. */
static int check_suites(struct export *x, struct error *e)
{
	const struct json *root = json_root(x->provenance), *suites = json_get(root, "suites");
	int left = 0;
	JSON_EACH (suite, suites) {
		if (is_foreign(suite))
			note_foreign(x, name_of(suite));
		else
			left++;
	}
	if (json_get(root, "divergence"))
		note_foreign(x, str_of(divergence_suite));
	TRY(buf_check(&x->out->foreign, e));
	if (left > 0)
		return 0;
	return error_set(e, ERR_EMPTY,
		"run %" PRId64 " holds no suite that lm-evaluation-harness could have run (it holds: %.200s)",
		x->run_id, x->out->foreign.length ? buf_text(&x->out->foreign) : "none");
}

static int open_suites(struct export *x, const char *data, struct error *e)
{
	const struct json *root = json_root(x->provenance), *found = json_get(root, "data");
	struct suite_options options = {0};
	int64_t seed = 1234;
	if (json_get(root, "imported_from"))
		return error_set(e, ERR_USAGE,
			"run %" PRId64 " was imported from lm-evaluation-harness: its files are at %.*s", x->run_id,
			STR_ARG(json_get(root, "imported_from")->text));
	TRY(check_suites(x, e));
	if (!data && !json_is(found, JSON_STRING))
		return error_set(e, ERR_USAGE,
			"run %" PRId64 " does not tell where its data sets lie: expected --data DIR", x->run_id);
	json_int64(json_get(root, "fewshot_seed"), &seed);
	options.data_folder = data ? data : found->text.data;
	options.seed = (uint64_t)seed;
	TRY(open_model(x, &options, e));
	JSON_EACH (suite, json_get(root, "suites"))
		if (!is_foreign(suite))
			TRY(open_suite(x, suite, &options, e));
	return 0;
}

static int export_run(struct export *x, const char *data, struct error *e)
{
	TRY(store_runs_each(x->store, x->run_id, take_run, x, e));
	TRY(open_suites(x, data, e));
	TRY(store_variants_each(x->store, x->run_id, variant_export, x, e));
	if (!x->found)
		return error_set(e, ERR_USAGE, "run %" PRId64 " has no variant '%.60s'", x->run_id, x->only);
	if (x->out->samples == 0)
		return error_set(e, ERR_EMPTY, "run %" PRId64 " holds no answers to write", x->run_id);
	return pending_finish(&x->files, e);
}

int harness_export(struct store *store, int64_t run_id, const char *variant, const char *data, const char *folder,
	struct harness_files *out, struct error *e)
{
	*out = (struct harness_files){0};
	struct export x = {.store = store, .run_id = run_id, .only = variant, .folder = folder, .out = out};
	int status = export_run(&x, data, e);
	pending_free(&x.files);
	for (int i = 0; i < x.n_suites; i++)
		suite_close(x.suites[i]);
	engine_text_close(x.text);
	chat_setup_close(&x.chat);
	json_free(x.provenance);
	free(x.model);
	return status;
}

void harness_files_free(struct harness_files *f)
{
	buf_free(&f->folders);
	buf_free(&f->foreign);
	*f = (struct harness_files){0};
}
