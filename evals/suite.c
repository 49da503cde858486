#include "evals/suite.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "datasets/records.h"
#include "engine/base/file.h"
#include "evals/fewshot.h"
#include "evals/scoring.h"
#include "evals/suite_type.h"

static const struct suite_type *const types[] = {
	&suite_type_gsm8k,
	&suite_type_arc_easy,
	&suite_type_arc_challenge,
	&suite_type_recall,
};

enum { TYPE_COUNT = sizeof(types) / sizeof(types[0]), MAX_FILES = 2 };

/* What an item borrows that its record does not hold. */
struct item_memory {
	struct buf text;     /* the context, then the digits of the target where that is an index */
	struct str *choices; /* owned */
};

struct suite {
	const struct suite_type *type;
	int fewshot;
	struct records test;
	struct suite_item *items;   /* [count] */
	struct item_memory *memory; /* [count] */
	int count, total;
	struct scorer scorer;
	int n_files;
	char *file_path[MAX_FILES]; /* owned */
	char file_hash[MAX_FILES][SHA256_HEX_SIZE];
};

/* ---- Names ---- */

/* ASCII only: a Turkish locale must find ARC_EASY. */
static char lower_ascii(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

const struct suite_type *suite_type_find(const char *name)
{
	for (int i = 0; i < TYPE_COUNT; i++) {
		const char *known = types[i]->name;
		size_t at = 0;
		while (known[at] && lower_ascii(name[at]) == known[at])
			at++;
		if (!known[at] && !name[at])
			return types[i];
	}
	return NULL;
}

const char *const *suite_names(void)
{
	static const char *names[TYPE_COUNT + 1];
	for (int i = 0; i < TYPE_COUNT; i++)
		names[i] = types[i]->name;
	return names;
}

int suite_unknown(const char *name, const char *extra, struct error *e)
{
	struct buf known = {0};
	for (int i = 0; i < TYPE_COUNT; i++)
		buf_printf(&known, "%s%s", i ? ", " : "", types[i]->name);
	if (extra)
		buf_printf(&known, ", %s", extra);
	int status = error_set(e, ERR_USAGE, "unknown suite \"%s\" (known: %s)", name, buf_text(&known));
	buf_free(&known);
	return status;
}

/* ---- Opening ---- */

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
	*c = (struct doc_content){0};
}

/* Loads a file of the suite and notes it for the run's provenance. */
static int load_file(struct suite *s, const char *folder, const char *file, struct records *out, struct error *e)
{
	char *path = path_join(folder, file, e);
	if (!path)
		return ERR_MEMORY;
	s->file_path[s->n_files] = path;
	TRY(records_load(out, path, e));
	memcpy(s->file_hash[s->n_files++], out->file_hash, SHA256_HEX_SIZE);
	if (out->count == 0)
		return error_set(e, ERR_EMPTY, "%s holds no records", path);
	if (out->count > INT_MAX)
		return error_set(e, ERR_INPUT, "%s holds %zu records, expected at most %d", path, out->count, INT_MAX);
	return 0;
}

static int open_shots(struct suite *s, const struct suite_options *options, struct fewshot *shots, struct error *e)
{
	if (s->type->shots_file)
		s->fewshot = options->fewshot < 0 ? s->type->fewshot : options->fewshot;
	if (s->fewshot == 0)
		return 0;
	struct records pool = {0};
	int status = load_file(s, options->data_folder, s->type->shots_file, &pool, e);
	if (status == 0)
		status = fewshot_init(shots, s->type, &pool, s->fewshot, options->seed, e);
	records_free(&pool);
	return status;
}

/* Context and target are set when their buffer no longer moves. */
static int fill_item(const struct suite_type *type, const struct record *record, struct fewshot *shots,
	struct item_memory *memory, struct suite_item *item, struct error *e)
{
	struct buf *text = &memory->text;
	struct doc_content content = {0};
	int status = 0;
	if (shots->k > 0)
		TRY_CLEANUP(status, fewshot_append(shots, text, e));
	TRY_CLEANUP(status, type->append_question(record->doc, text, e));
	TRY_CLEANUP(status, type->read_content(record->doc, &content, e));
	size_t context_length = text->length;
	if (type->kind == REQUEST_LOGLIKELIHOOD)
		buf_printf(text, "%d", content.gold);
	TRY_CLEANUP(status, buf_check(text, e));

	item->kind = type->kind;
	item->doc = record->doc;
	item->context = (struct str){text->data, context_length};
	item->target = content.answer;
	if (type->kind == REQUEST_LOGLIKELIHOOD)
		item->target = (struct str){text->data + context_length, text->length - context_length};
	item->choices = memory->choices = content.choices;
	content.choices = NULL;
	item->n_choices = content.n_choices;
	item->gold = content.gold;
	item->group = content.group;
cleanup:
	doc_content_free(&content);
	return status;
}

static int build_item(struct suite *s, int i, struct fewshot *shots, struct error *e)
{
	const struct suite_type *type = s->type;
	const struct record *record = &s->test.items[i];
	struct suite_item *item = &s->items[i];
	if (fill_item(type, record, shots, &s->memory[i], item, e) < 0)
		return error_prefix(e, "%s:%zu", s->test.path, record->line);
	item->task = type->name;
	item->doc_id = i;
	item->until = type->until;
	item->n_until = type->n_until;
	item->max_tokens = type->max_tokens;
	memcpy(item->doc_hash, record->hash, SHA256_HEX_SIZE);
	sha256_hex(item->context.data, item->context.length, item->prompt_hash);
	sha256_hex(item->target.data, item->target.length, item->target_hash);
	return 0;
}

static int build_items(struct suite *s, const struct suite_options *options, struct error *e)
{
	struct fewshot shots = {0};
	int status = 0;
	TRY_CLEANUP(status, load_file(s, options->data_folder, s->type->test_file, &s->test, e));
	s->total = (int)s->test.count;
	s->count = limit_apply(options->limit, s->total);
	TRY_CLEANUP(status, open_shots(s, options, &shots, e));
	s->items = mem_calloc((size_t)s->count, sizeof(*s->items), e);
	s->memory = mem_calloc((size_t)s->count, sizeof(*s->memory), e);
	if (!s->items || !s->memory)
		TRY_CLEANUP(status, ERR_MEMORY);
	for (int i = 0; i < s->count; i++)
		TRY_CLEANUP(status, build_item(s, i, &shots, e));
cleanup:
	fewshot_free(&shots);
	return status;
}

int suite_open(const char *name, const struct suite_options *options, struct suite **out, struct error *e)
{
	const struct suite_type *type = suite_type_find(name);
	if (!type)
		return suite_unknown(name, NULL, e);
	if (!(options->limit >= 0))
		return error_set(e, ERR_USAGE, "limit %g: expected a number above 0", options->limit);
	struct suite *s = mem_calloc(1, sizeof(*s), e);
	if (!s)
		return ERR_MEMORY;
	s->type = type;
	int status = scorer_init(&s->scorer, type, e);
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
	}
	free(s->items);
	free(s->memory);
	for (int i = 0; i < MAX_FILES; i++)
		free(s->file_path[i]);
	records_free(&s->test);
	scorer_free(&s->scorer);
	free(s);
}

/* ---- What an open suite tells ---- */

const char *suite_name(const struct suite *s)
{
	return s->type->name;
}

int suite_count(const struct suite *s)
{
	return s->count;
}

int suite_total(const struct suite *s)
{
	return s->total;
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

int suite_find(const struct suite *s, const char *task, int64_t doc_id)
{
	bool found = strcmp(task, s->type->name) == 0 && doc_id >= 0 && doc_id < s->count;
	return found ? (int)doc_id : -1;
}

int suite_file_count(const struct suite *s)
{
	return s->n_files;
}

const char *suite_file_path(const struct suite *s, int i)
{
	return s->file_path[i];
}

const char *suite_file_hash(const struct suite *s, int i)
{
	return s->file_hash[i];
}

int suite_metric_count(const struct suite *s)
{
	return s->type->n_metrics;
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
