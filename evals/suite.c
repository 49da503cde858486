#include "evals/suite.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "datasets/records.h"
#include "evals/fewshot.h"
#include "evals/scoring.h"
#include "evals/suite_type.h"

/* What an item borrows that its record does not hold. */
struct item_memory {
	struct buf text;             /* the context, then the digits of the target where that is an index */
	struct str *choices, *until; /* owned */
	struct json_document *tools; /* owned */
};

struct data_file {
	char *path; /* owned */
	char hash[SHA256_HEX_SIZE];
};

struct suite {
	const struct suite_type *type;
	struct suite_task_list tasks;
	struct records *documents; /* [tasks.count] */
	struct records *truths;    /* [tasks.count] of right answers; count 0: the documents hold them */
	int fewshot;
	struct suite_item *items;   /* [count] */
	struct item_memory *memory; /* [count] */
	int count, total;
	bool is_sample;
	struct suite_chat chat;
	struct scorer scorer;
	struct data_file *files; /* [n_files] */
	int n_files;
};

/* ---- Documents ---- */

int limit_apply(double limit, int n)
{
	if (limit <= 0)
		return n;
	double wanted = limit < 1 ? ceil(n * limit) : trunc(limit);
	return wanted < n ? (int)wanted : n;
}

void doc_content_free(struct doc_content *c)
{
	free(c->choices);
	free(c->until);
	*c = (struct doc_content){0};
}

/* Notes a file for the run's provenance, once. */
static int note_file(struct suite *s, const struct records *r, struct error *e)
{
	for (int i = 0; i < s->n_files; i++)
		if (strcmp(s->files[i].path, r->path) == 0)
			return 0;
	struct data_file *files = reallocarray(s->files, (size_t)s->n_files + 1, sizeof(*files));
	if (!files)
		return error_set(e, ERR_MEMORY, "out of memory for the files of a suite");
	s->files = files;
	TRY(task_text(&files[s->n_files].path, e, "%s", r->path));
	memcpy(files[s->n_files++].hash, r->file_hash, SHA256_HEX_SIZE);
	return 0;
}

static int load_file(struct suite *s, const char *path, struct records *out, struct error *e)
{
	TRY(records_load(out, path, e));
	TRY(note_file(s, out, e));
	if (out->count == 0)
		return error_set(e, ERR_EMPTY, "%s holds no records", path);
	return 0;
}

static int make_documents(struct suite *s, const struct suite_options *options, struct records *out, struct error *e)
{
	struct buf lines = {0};
	int status = s->type->make_documents(s->tasks.suite, options, &lines, e);
	if (status == 0)
		status = records_from_text(out, s->tasks.suite, buf_str(&lines), e);
	if (status == 0)
		status = note_file(s, out, e);
	buf_free(&lines);
	return status;
}

/* The two files of a task tell of the same items in the same order. */
static int load_truths(struct suite *s, int t, struct error *e)
{
	const struct records *documents = &s->documents[t];
	struct records *truths = &s->truths[t];
	TRY(load_file(s, s->tasks.items[t].truth_path, truths, e));
	if (truths->count != documents->count)
		return error_set(e, ERR_INPUT, "%s holds %zu records, expected %zu as in %s", truths->path,
			truths->count, documents->count, documents->path);
	for (size_t i = 0; i < truths->count; i++) {
		const struct json *a = json_get(documents->items[i].doc, "id"),
				  *b = json_get(truths->items[i].doc, "id");
		if (!json_is(a, JSON_STRING) || !json_is(b, JSON_STRING) || !str_equal(a->text, b->text))
			return error_set(e, ERR_INPUT, "%s:%zu: \"id\" is not that of %s:%zu", truths->path,
				truths->items[i].line, documents->path, documents->items[i].line);
	}
	return 0;
}

static int load_documents(struct suite *s, const struct suite_options *options, struct error *e)
{
	s->documents = mem_calloc((size_t)s->tasks.count, sizeof(*s->documents), e);
	s->truths = mem_calloc((size_t)s->tasks.count, sizeof(*s->truths), e);
	if (!s->documents || !s->truths)
		return ERR_MEMORY;
	for (int t = 0; t < s->tasks.count; t++) {
		struct records *documents = &s->documents[t];
		const char *path = s->tasks.items[t].test_path;
		TRY(path ? load_file(s, path, documents, e) : make_documents(s, options, documents, e));
		if (s->type->check_records)
			TRY(s->type->check_records(documents, e));
		if (s->tasks.items[t].truth_path)
			TRY(load_truths(s, t, e));
		if (documents->count > (size_t)(INT_MAX - s->total))
			return error_set(e, ERR_INPUT, "%s holds %zu records, expected at most %d in all",
				documents->path, documents->count, INT_MAX);
		s->total += (int)documents->count;
	}
	return 0;
}

/* ---- Which documents ---- */

static void select_first(const struct suite *s, double limit, bool *selected)
{
	for (int t = 0; t < s->tasks.count; t++) {
		int n = (int)s->documents[t].count;
		memset(selected, true, (size_t)limit_apply(limit, n));
		selected += n;
	}
}

struct ticket {
	char hash[SHA256_HEX_SIZE];
	int place; /* decides between equal documents */
};

static int compare_tickets(const void *a, const void *b)
{
	const struct ticket *x = a, *y = b;
	int order = memcmp(x->hash, y->hash, sizeof(x->hash));
	return order ? order : x->place < y->place ? -1 : x->place > y->place;
}

/* The order of the documents' hashes has nothing to do with their order in a file or their difficulty. */
static int select_sample(const struct suite *s, int sample, uint64_t seed, bool *selected, struct error *e)
{
	struct ticket *tickets = mem_calloc((size_t)s->total, sizeof(*tickets), e);
	if (!tickets)
		return ERR_MEMORY;
	int n = 0;
	for (int t = 0; t < s->tasks.count; t++) {
		for (size_t i = 0; i < s->documents[t].count; i++) {
			char text[32 + SHA256_HEX_SIZE];
			int length = snprintf(
				text, sizeof(text), "%llu:%s", (unsigned long long)seed, s->documents[t].items[i].hash);
			sha256_hex(text, (size_t)length, tickets[n].hash);
			tickets[n].place = n;
			n++;
		}
	}
	qsort(tickets, (size_t)n, sizeof(*tickets), compare_tickets);
	for (int i = 0; i < n && i < sample; i++)
		selected[tickets[i].place] = true;
	free(tickets);
	return 0;
}

static int select_documents(struct suite *s, const struct suite_options *options, bool *selected, struct error *e)
{
	s->is_sample = options->sample > 0;
	if (s->is_sample)
		TRY(select_sample(s, options->sample, options->seed, selected, e));
	else
		select_first(s, options->limit, selected);
	for (int i = 0; i < s->total; i++)
		s->count += selected[i];
	return 0;
}

/* ---- Items ---- */

static int open_shots(struct suite *s, const struct suite_options *options, const struct suite_task *task,
	struct fewshot *shots, struct error *e)
{
	if (!task->shots_path && s->type->n_fixed_shots == 0)
		return 0;
	s->fewshot = options->fewshot < 0 ? s->type->fewshot : options->fewshot;
	if (s->fewshot == 0)
		return 0;
	if (!task->shots_path)
		return fewshot_init(shots, s->type, task, NULL, s->fewshot, options->seed, e);
	struct records pool = {0};
	int status = load_file(s, task->shots_path, &pool, e);
	if (status == 0)
		status = fewshot_init(shots, s->type, task, &pool, s->fewshot, options->seed, e);
	records_free(&pool);
	return status;
}

/* What the type leaves to the document, the document to the type. Context and target are set when their buffer no
 * longer moves. */
static void place_content(const struct suite_type *type, struct doc_content *content, size_t context_length,
	struct item_memory *memory, struct suite_item *item)
{
	const struct buf *text = &memory->text;
	item->context = (struct str){text->data, context_length};
	item->target = content->target;
	if (type->kind == REQUEST_LOGLIKELIHOOD || text->length > context_length)
		item->target = (struct str){text->data + context_length, text->length - context_length};
	item->choices = memory->choices = content->choices;
	item->n_choices = content->n_choices;
	item->gold = content->gold;
	item->group = content->group;
	memory->until = content->until;
	item->until = content->until ? content->until : type->until;
	item->n_until = content->until ? content->n_until : type->n_until;
	item->max_tokens = content->max_tokens ? content->max_tokens : type->max_tokens;
	*content = (struct doc_content){0};
}

/* The prompt of an item: a conversation, or plain text with description and shots. */
static int append_prompt(const struct suite_type *type, struct conversation *c, const struct record *record,
	const struct fewshot *shots, struct error *e)
{
	int is_conversation = type->append_conversation ? type->append_conversation(c, record->doc, e) : 0;
	if (is_conversation != 0)
		return is_conversation < 0 ? is_conversation : 0;
	return conversation_append_plain(c, type, shots, record->doc, e);
}

static int fill_item(const struct suite_type *type, struct conversation *c, const struct record *record,
	const struct fewshot *shots, struct item_memory *memory, struct suite_item *item, struct error *e)
{
	struct buf *text = &memory->text;
	struct doc_content content = {0};
	c->out = text;
	int status = append_prompt(type, c, record, shots, e);
	memory->tools = c->tools;
	TRY_CLEANUP(status, status);
	TRY_CLEANUP(status, type->read_content(record->doc, &content, e));
	size_t context_length = text->length;
	if (type->kind == REQUEST_LOGLIKELIHOOD)
		buf_printf(text, "%d", content.gold);
	const struct json *right = item->truth ? json_get(item->truth, "ground_truth") : content.target_json;
	if (right)
		json_dump_python(right, -1, false, text);
	TRY_CLEANUP(status, buf_check(text, e));
	item->kind = type->kind;
	item->doc = record->doc;
	item->tools = memory->tools ? json_root(memory->tools) : NULL;
	item->tool_format = c->options->tool_format;
	item->delimiter = str_of(c->options->apply_chat_template ? "" : " ");
	place_content(type, &content, context_length, memory, item);
cleanup:
	doc_content_free(&content);
	return status;
}

static int build_item(struct suite *s, int t, const struct suite_options *options, size_t doc_id,
	const struct fewshot *shots, int place, struct error *e)
{
	const struct record *record = &s->documents[t].items[doc_id];
	struct suite_item *item = &s->items[place];
	struct conversation c = {.task = &s->tasks.items[t], .options = options, .chat = &s->chat};
	item->truth = s->truths[t].count > 0 ? s->truths[t].items[doc_id].doc : NULL;
	if (fill_item(s->type, &c, record, shots, &s->memory[place], item, e) < 0)
		return error_prefix(e, "%s:%zu", s->documents[t].path, record->line);
	item->task = s->tasks.items[t].name;
	item->doc_id = (int)doc_id;
	memcpy(item->doc_hash, record->hash, SHA256_HEX_SIZE);
	sha256_hex(item->context.data, item->context.length, item->prompt_hash);
	sha256_hex(item->target.data, item->target.length, item->target_hash);
	return 0;
}

/* The items of task t among its documents; *place is the number of the next item. Shots are drawn also for the documents
 * that are left out, so that each prompt is that of the full run. */
static int build_task(
	struct suite *s, int t, const struct suite_options *options, const bool *selected, int *place, struct error *e)
{
	struct fewshot shots = {0};
	int status = 0;
	TRY_CLEANUP(status, open_shots(s, options, &s->tasks.items[t], &shots, e));
	for (size_t i = 0; i < s->documents[t].count && *place < s->count; i++) {
		if (shots.k > 0)
			TRY_CLEANUP(status, fewshot_next(&shots, e));
		if (selected[i])
			TRY_CLEANUP(status, build_item(s, t, options, i, &shots, (*place)++, e));
	}
cleanup:
	fewshot_free(&shots);
	return status;
}

static int build_items(struct suite *s, const struct suite_options *options, struct error *e)
{
	bool *selected = NULL;
	int status = 0, place = 0, first = 0;
	TRY_CLEANUP(status, load_documents(s, options, e));
	selected = mem_calloc((size_t)s->total + 1, sizeof(*selected), e);
	if (!selected)
		TRY_CLEANUP(status, ERR_MEMORY);
	TRY_CLEANUP(status, select_documents(s, options, selected, e));
	s->items = mem_calloc((size_t)s->count + 1, sizeof(*s->items), e);
	s->memory = mem_calloc((size_t)s->count + 1, sizeof(*s->memory), e);
	if (!s->items || !s->memory)
		TRY_CLEANUP(status, ERR_MEMORY);
	for (int t = 0; t < s->tasks.count; t++) {
		TRY_CLEANUP(status, build_task(s, t, options, selected + first, &place, e));
		first += (int)s->documents[t].count;
	}
cleanup:
	free(selected);
	return status;
}

int suite_open(const char *name, const struct suite_options *options, struct suite **out, struct error *e)
{
	const struct suite_type *type = suite_type_find(name);
	if (!type)
		return suite_unknown(name, NULL, e);
	if (!(options->limit >= 0))
		return error_set(e, ERR_USAGE, "limit %g: expected a number above 0", options->limit);
	if (options->limit > 0 && options->sample > 0)
		return error_set(e, ERR_USAGE, "--limit and --sample: expected one of them");
	struct suite *s = mem_calloc(1, sizeof(*s), e);
	if (!s)
		return ERR_MEMORY;
	s->type = type;
	int status = scorer_init(&s->scorer, type, e);
	if (status == 0)
		status = suite_tasks_find(type, name, options, &s->tasks, e);
	if (status == 0)
		status = build_items(s, options, e);
	if (status < 0) {
		suite_close(s);
		return status;
	}
	*out = s;
	return 0;
}

void suite_close(struct suite *s)
{
	if (!s)
		return;
	for (int i = 0; s->memory && i < s->count; i++) {
		buf_free(&s->memory[i].text);
		free(s->memory[i].choices);
		free(s->memory[i].until);
		json_free(s->memory[i].tools);
	}
	free(s->items);
	free(s->memory);
	for (int i = 0; i < s->n_files; i++)
		free(s->files[i].path);
	free(s->files);
	for (int t = 0; s->documents && t < s->tasks.count; t++)
		records_free(&s->documents[t]);
	for (int t = 0; s->truths && t < s->tasks.count; t++)
		records_free(&s->truths[t]);
	free(s->documents);
	free(s->truths);
	suite_task_list_free(&s->tasks);
	scorer_free(&s->scorer);
	free(s);
}

/* ---- What an open suite tells ---- */

const char *suite_name(const struct suite *s)
{
	return s->tasks.suite;
}

int suite_count(const struct suite *s)
{
	return s->count;
}

int suite_total(const struct suite *s)
{
	return s->total;
}

bool suite_is_sample(const struct suite *s)
{
	return s->is_sample;
}

int suite_fewshot(const struct suite *s)
{
	return s->fewshot;
}

const char *suite_group_column(const struct suite *s)
{
	return s->type->group_column;
}

const struct suite_item *suite_item(const struct suite *s, int i)
{
	return &s->items[i];
}

double suite_version(const struct suite *s, bool group)
{
	return group ? s->type->group_version : s->type->version;
}

int suite_find(const struct suite *s, const char *task, int64_t doc_id)
{
	for (int t = 0, low = 0; t < s->tasks.count; t++) {
		int high = low;
		while (high < s->count && s->items[high].task == s->tasks.items[t].name)
			high++;
		if (strcmp(s->tasks.items[t].name, task) != 0) {
			low = high;
			continue;
		}
		while (low < high) {
			int middle = low + (high - low) / 2;
			if (s->items[middle].doc_id == doc_id)
				return middle;
			if (s->items[middle].doc_id < doc_id)
				low = middle + 1;
			else
				high = middle;
		}
		return -1;
	}
	return -1;
}

const struct suite_chat *suite_chat(const struct suite *s)
{
	return &s->chat;
}

int suite_task_count(const struct suite *s)
{
	return s->tasks.count;
}

const struct suite_task *suite_task(const struct suite *s, int i)
{
	return &s->tasks.items[i];
}

int suite_file_count(const struct suite *s)
{
	return s->n_files;
}

const char *suite_file_path(const struct suite *s, int i)
{
	return s->files[i].path;
}

const char *suite_file_hash(const struct suite *s, int i)
{
	return s->files[i].hash;
}

int suite_metric_count(const struct suite *s)
{
	return s->type->n_metrics;
}

const char *suite_trigger_metric(const struct suite *s)
{
	return s->type->trigger_metric;
}

int suite_add_results(const struct suite *s, const struct metric_summary *tasks, suite_visit_result *visit,
	void *context, struct error *e)
{
	if (!s->type->add_results)
		return 0;
	int n = suite_task_count(s);
	const char **names = mem_calloc((size_t)n, sizeof(*names), e);
	if (!names)
		return ERR_MEMORY;
	for (int t = 0; t < n; t++)
		names[t] = suite_task(s, t)->name;
	int status = s->type->add_results(names, tasks, n, visit, context, e);
	free(names);
	return status;
}

const char *suite_metric_name(const struct suite *s, int i)
{
	return s->type->metrics[i];
}

int suite_score(const struct suite *s, const struct suite_item *item, const struct answer *answer,
	struct item_score *out, struct error *e)
{
	return scorer_score(&s->scorer, item, answer, out, e);
}
