#include "reports/answers.h"

#include <inttypes.h>
#include <stdlib.h>

#include "engine/base/file.h"
#include "reports/answers_file.h"

/* ---- Memory ---- */

enum { BLOCK_SIZE = 1 << 16 };

struct answers_block {
	struct answers_block *next;
	size_t used, size;
	char data[];
};

static char *no_memory(struct error *e)
{
	error_set(e, ERR_MEMORY, "no memory for the answers of a run");
	return NULL;
}

char *answers_keep(struct answers *a, struct str text, struct error *e)
{
	struct answers_block *block = a->blocks;
	if (!block || block->size - block->used <= text.length) {
		size_t size = text.length >= BLOCK_SIZE ? text.length + 1 : BLOCK_SIZE;
		block = malloc(sizeof(*block) + size);
		if (!block)
			return no_memory(e);
		*block = (struct answers_block){.next = a->blocks, .size = size};
		a->blocks = block;
	}
	char *kept = block->data + block->used;
	if (text.length)
		memcpy(kept, text.data, text.length);
	kept[text.length] = '\0';
	block->used += text.length + 1;
	return kept;
}

struct store_sample *answers_add(struct answers *a, struct error *e)
{
	if (a->n == a->capacity) {
		size_t capacity = a->capacity ? 2 * a->capacity : 256;
		struct store_sample *rows = reallocarray(a->rows, capacity, sizeof(*rows));
		if (!rows) {
			no_memory(e);
			return NULL;
		}
		a->rows = rows;
		a->capacity = capacity;
	}
	a->rows[a->n] = (struct store_sample){0};
	return &a->rows[a->n++];
}

void answers_free(struct answers *a)
{
	while (a->blocks) {
		struct answers_block *next = a->blocks->next;
		free(a->blocks);
		a->blocks = next;
	}
	free(a->rows);
	free(a->label);
	free(a->file);
	*a = (struct answers){0};
}

/* ---- From a store ---- */

static int keep_text(struct answers *a, const char **text, struct error *e)
{
	if (*text && !(*text = answers_keep(a, str_of(*text), e)))
		return ERR_MEMORY;
	return 0;
}

static int keep_str(struct answers *a, struct str *text, struct error *e)
{
	if (text->length && !(text->data = answers_keep(a, *text, e)))
		return ERR_MEMORY;
	return 0;
}

static int take_run(void *context, const struct store_run *run, struct error *e)
{
	struct answers *a = context;
	a->run = *run;
	const char **texts[] = {&a->run.uid, &a->run.host, &a->run.kind, &a->run.config_hash, &a->run.version,
		&a->run.command, &a->run.model, &a->run.model_fingerprint, &a->run.tokenizer_hash,
		&a->run.template_hash, &a->run.numerics_id};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		TRY(keep_text(a, texts[i], e));
	/* runs of the engine say by which rules of arithmetic they were made; a server gives no such promise */
	a->deterministic = a->run.numerics_id != NULL;
	return keep_str(a, &a->run.provenance, e);
}

static int take_sample(void *context, const struct store_sample *sample, struct error *e)
{
	struct answers *a = context;
	struct store_sample *row = answers_add(a, e);
	if (!row)
		return ERR_MEMORY;
	*row = *sample;
	const struct store_sample *last = a->n > 1 ? row - 1 : NULL;
	/* rows come sorted: names repeat */
	if (last && strcmp(last->suite, row->suite) == 0)
		row->suite = last->suite;
	else
		TRY(keep_text(a, &row->suite, e));
	if (last && strcmp(last->task, row->task) == 0)
		row->task = last->task;
	else
		TRY(keep_text(a, &row->task, e));
	const char **texts[] = {&row->doc_hash, &row->prompt_hash, &row->target_hash, &row->finish_reason, &row->error};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		TRY(keep_text(a, texts[i], e));
	struct str *strings[] = {&row->response, &row->filtered, &row->metrics, &row->tokens, &row->token_logprobs};
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
		TRY(keep_str(a, strings[i], e));
	return 0;
}

struct variant_search {
	struct answers *answers;
	struct str wanted; /* data NULL: any */
	int found;
	struct buf names;
};

static int see_variant(void *context, const struct store_variant *variant, struct error *e)
{
	struct variant_search *search = context;
	buf_printf(&search->names, " %s", variant->name);
	TRY(buf_check(&search->names, e));
	if (search->wanted.data && !str_is(search->wanted, variant->name))
		return 0;
	struct answers *a = search->answers;
	search->found++;
	a->about = *variant;
	TRY(keep_text(a, &a->about.name, e));
	return keep_str(a, &a->about.facts, e);
}

static int find_variant(struct answers *a, struct store *s, struct str wanted, struct error *e)
{
	struct variant_search search = {.answers = a, .wanted = wanted};
	int64_t run_id = a->run.run_id;
	int status = store_variants_each(s, run_id, see_variant, &search, e);
	if (status == 0 && wanted.data && search.found == 0)
		status = error_set(e, ERR_USAGE, "%s: run %" PRId64 " has no variant '%.*s'; it has:%s", a->file,
			run_id, STR_ARG(wanted), search.names.length ? buf_text(&search.names) : " none");
	else if (status == 0 && search.found > 1)
		status = error_set(e, ERR_USAGE,
			"%s: run %" PRId64 " has several variants, expected %" PRId64 ":VARIANT with one of%s", a->file,
			run_id, run_id, buf_text(&search.names));
	a->variant_id = a->about.variant_id;
	a->variant = a->about.name;
	buf_free(&search.names);
	return status;
}

static int set_label(struct answers *a, bool with_file, struct error *e)
{
	struct buf label = {0};
	if (with_file)
		buf_printf(&label, "%s: ", a->file);
	buf_printf(&label, "run %" PRId64 " %s", a->run.run_id, a->variant ? a->variant : "without a variant");
	a->label = label.data;
	return buf_check(&label, e);
}

/* variant.data NULL: the only one. A run without variants has no answers. */
static int load_run(
	struct answers *a, struct store *s, int64_t run_id, struct str variant, bool with_file, struct error *e)
{
	TRY(store_runs_each(s, run_id, take_run, a, e));
	TRY(find_variant(a, s, variant, e));
	TRY(set_label(a, with_file, e));
	if (!a->variant)
		return 0;
	return store_samples_each(s, run_id, a->variant_id, NULL, take_sample, a, e);
}

static int load_from_store(struct answers *a, const char *address, bool with_file, struct error *e)
{
	const char *colon = strchr(address, ':');
	struct str variant = colon ? str_of(colon + 1) : (struct str){NULL, 0};
	char run[128];
	struct store *s = NULL;
	int64_t run_id = 0;
	snprintf(run, sizeof(run), "%.*s", colon ? (int)(colon - address) : (int)strlen(address), address);
	int status = store_open_reading(a->file, &s, e);
	if (status == 0)
		status = store_run_find(s, run, &run_id, e);
	if (status == 0)
		status = load_run(a, s, run_id, variant, with_file, e);
	store_close(s);
	return status;
}

/* ---- Addresses ---- */

static bool is_database(const char *path)
{
	static const char magic[16] = "SQLite format 3";
	char start[sizeof(magic)] = "";
	FILE *file = fopen(path, "rbe");
	if (!file)
		return false;
	bool same = fread(start, 1, sizeof(start), file) == sizeof(start) && memcmp(start, magic, sizeof(magic)) == 0;
	fclose(file);
	return same;
}

/* The length of the database's path before ":RUN", 0 where none is named: what stands before a colon and is no run's
 * name. */
static size_t database_length(const char *address)
{
	for (const char *colon = strchr(address, ':'); colon; colon = strchr(colon + 1, ':')) {
		char *path = strndup(address, (size_t)(colon - address));
		bool is_file = path && file_exists(path);
		free(path);
		if (is_file)
			return (size_t)(colon - address);
	}
	size_t first = strcspn(address, ":");
	bool looks_like_path = memchr(address, '/', first) || memchr(address, '.', first);
	return looks_like_path ? first : 0;
}

int answers_load(const char *address, const char *default_db, struct answers *out, struct error *e)
{
	*out = (struct answers){0};
	if (file_exists(address) && is_database(address))
		return error_set(e, ERR_USAGE, "%s: is a database, expected a run of it: %s:RUN", address, address);
	size_t length = file_exists(address) ? strlen(address) : database_length(address);
	if (length == 0 && !default_db)
		return error_set(e, ERR_USAGE, "'%s': no database, expected --db FILE", address);
	out->file = length ? strndup(address, length) : strdup(default_db);
	if (!out->file)
		return error_set(e, ERR_MEMORY, "no memory for a path");
	bool has_run = length == 0 || address[length] == ':';
	if (!has_run)
		return answers_read_file(out, e);
	return load_from_store(out, address + (length ? length + 1 : 0), length > 0, e);
}

/* ---- Twins ---- */

struct twin_search {
	const struct answers *of;
	int64_t run_id;
};

static int see_twin(void *context, const struct store_run *run, struct error *e)
{
	struct twin_search *search = context;
	(void)e;
	if (run->run_id != search->of->run.run_id && run->status == RUN_COMPLETE &&
		strcmp(run->config_hash, search->of->run.config_hash) == 0)
		search->run_id = run->run_id;
	return 0;
}

static int load_variant(const struct answers *of, struct store *s, int64_t run_id, struct answers *out, struct error *e)
{
	out->file = strdup(of->file);
	if (!out->file)
		return error_set(e, ERR_MEMORY, "no memory for a path");
	return load_run(out, s, run_id, str_of(of->variant), false, e);
}

int answers_load_twin(const struct answers *of, struct answers *out, struct error *e)
{
	struct twin_search search = {.of = of};
	struct store *s = NULL;
	*out = (struct answers){0};
	int status = store_open_reading(of->file, &s, e);
	if (status == 0)
		status = store_runs_each(s, 0, see_twin, &search, e);
	if (status == 0 && search.run_id)
		status = load_variant(of, s, search.run_id, out, e);
	store_close(s);
	return status;
}

int answers_load_again(const struct answers *of, struct answers *out, struct error *e)
{
	struct store *s = NULL;
	*out = (struct answers){0};
	int status = store_open_reading(of->file, &s, e);
	if (status == 0)
		status = load_variant(of, s, of->run.run_id, out, e);
	store_close(s);
	return status;
}
