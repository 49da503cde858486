#include <inttypes.h>
#include <stdlib.h>

#include "reports/store_merge_internal.h"

/* ---- Reading what the shards say ---- */

static const struct json *shard_member(const struct json_document *provenance)
{
	const struct json *shard = json_get(json_root(provenance), "shard");
	return json_is(shard, JSON_OBJECT) ? shard : NULL;
}

bool store_run_is_shard(const struct store_run *run)
{
	struct json_document *provenance = NULL;
	bool is = json_parse(run->provenance, NULL, JSON_LAST_KEY_WINS, &provenance, NULL) == 0 &&
		shard_member(provenance);
	json_free(provenance);
	return is;
}

static int copy_text(const char *text, char **out, struct error *e)
{
	*out = text ? strdup(text) : NULL;
	return text && !*out ? error_set(e, ERR_MEMORY, "no memory for the facts of a run") : 0;
}

static int keep_texts(struct part *p, const struct store_run *run, struct error *e)
{
	TRY(copy_text(run->uid, &p->uid, e));
	TRY(copy_text(run->host, &p->host, e));
	TRY(copy_text(run->version, &p->version, e));
	TRY(copy_text(run->command, &p->command, e));
	TRY(copy_text(run->model, &p->model, e));
	TRY(copy_text(run->model_fingerprint, &p->model_fingerprint, e));
	TRY(copy_text(run->tokenizer_hash, &p->tokenizer_hash, e));
	TRY(copy_text(run->template_hash, &p->template_hash, e));
	return copy_text(run->numerics_id, &p->numerics_id, e);
}

static int keep_part(void *context, const struct store_run *run, struct error *e)
{
	struct part *p = context;
	p->status = run->status;
	p->started = run->started;
	p->finished = run->finished;
	p->seconds = run->seconds;
	p->resumptions = run->resumptions;
	TRY(keep_texts(p, run, e));
	return json_parse(run->provenance, "provenance", JSON_LAST_KEY_WINS, &p->provenance, e);
}

static int part_read(struct part *p, const struct store_shard *shard, struct error *e)
{
	*p = (struct part){.store = shard->store, .run_id = shard->run_id};
	snprintf(p->label, sizeof(p->label), "run %" PRId64 " of %.400s", p->run_id, store_path(p->store));
	TRY(store_runs_each(p->store, p->run_id, keep_part, p, e));
	const struct json *member = p->provenance ? shard_member(p->provenance) : NULL;
	if (!member)
		return error_set(e, ERR_INPUT, "%s is no shard: it was not run with --shard", p->label);
	const struct json *whole = json_get(member, "whole");
	if (!json_int64(json_get(member, "index"), &p->index) || !json_int64(json_get(member, "count"), &p->count) ||
		p->index < 1 || p->index > p->count || !json_is(whole, JSON_STRING))
		return error_set(e, ERR_INPUT,
			"%s: its provenance does not tell its shard, expected index, count and whole", p->label);
	TRY(copy_text(whole->text.data, &p->whole, e));
	p->whole_for_gating = json_bool(json_get(member, "whole_for_gating"), false);
	size_t used = strlen(p->label);
	snprintf(p->label + used, sizeof(p->label) - used, " (shard %" PRId64 "/%" PRId64 ")", p->index, p->count);
	if (p->status != RUN_COMPLETE)
		return error_set(e, ERR_INPUT, "%s is %s: the command that began it goes on with it", p->label,
			run_status_name(p->status));
	return 0;
}

static void part_free(struct part *p)
{
	char *texts[] = {p->whole, p->uid, p->host, p->version, p->command, p->model, p->model_fingerprint,
		p->tokenizer_hash, p->template_hash, p->numerics_id};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		free(texts[i]);
	json_free(p->provenance);
}

/* ---- Do they make one run? ---- */

static int different(const struct part *a, const struct part *b, struct error *e)
{
	const struct {
		const char *name, *a, *b;
	} facts[] = {{"program version", a->version, b->version},
		{"model fingerprint", a->model_fingerprint, b->model_fingerprint},
		{"tokenizer", a->tokenizer_hash, b->tokenizer_hash},
		{"chat template", a->template_hash, b->template_hash}, {"numerics", a->numerics_id, b->numerics_id}};
	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		const char *x = facts[i].a ? facts[i].a : "none", *y = facts[i].b ? facts[i].b : "none";
		if (strcmp(x, y) != 0)
			return error_set(e, ERR_INPUT, "%s and %s are of different configurations: %s %s and %s",
				a->label, b->label, facts[i].name, x, y);
	}
	return error_set(e, ERR_INPUT,
		"%s and %s are of different configurations: variants, suites, items or model files differ", a->label,
		b->label);
}

static int by_index(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	return (x->index > y->index) - (x->index < y->index);
}

static int check_parts(const struct merge *m, struct error *e)
{
	const struct part *first = &m->parts[0];
	for (size_t i = 1; i < m->n; i++) {
		const struct part *p = &m->parts[i];
		if (p->count != first->count)
			return error_set(
				e, ERR_INPUT, "%s and %s are parts of different splits", first->label, p->label);
		if (strcmp(p->whole, first->whole) != 0)
			return different(first, p, e);
	}
	return 0;
}

/* PRECOND: sorted by index. */
static int check_set(const struct merge *m, struct error *e)
{
	struct buf missing = {0};
	int64_t expected = 1;
	for (size_t i = 0; i <= m->n; i++) {
		int64_t index = i < m->n ? m->parts[i].index : m->parts[0].count + 1;
		if (i > 0 && i < m->n && index == m->parts[i - 1].index) {
			buf_free(&missing);
			return error_set(e, ERR_INPUT, "the same shard is there twice: %s and %s",
				m->parts[i - 1].label, m->parts[i].label);
		}
		for (; expected < index; expected++)
			if (missing.length < 200)
				buf_printf(&missing, "%s%" PRId64 "/%" PRId64, missing.length ? ", " : "", expected,
					m->parts[0].count);
		expected = index + 1;
	}
	int status = buf_check(&missing, e);
	if (status == 0 && missing.length)
		status = error_set(
			e, ERR_INPUT, "shards are missing: %s; a part of a run is not for gating", buf_text(&missing));
	buf_free(&missing);
	return status;
}

struct previous {
	const struct merge *merge;
	int64_t run_id;
};

static int see_previous(void *context, const struct store_run *run, struct error *e)
{
	struct previous *p = context;
	struct json_document *provenance = NULL;
	(void)e;
	if (run->status == RUN_COMPLETE && strcmp(run->config_hash, p->merge->parts[0].whole) == 0 &&
		json_parse(run->provenance, NULL, JSON_LAST_KEY_WINS, &provenance, NULL) == 0) {
		const struct json *merged = json_at(json_get(json_root(provenance), "merged"), 0);
		const struct json *uid = json_get(merged, "uid");
		if (json_is(uid, JSON_STRING) && str_is(uid->text, p->merge->parts[0].uid))
			p->run_id = run->run_id;
	}
	json_free(provenance);
	return 0;
}

static int check_target(const struct merge *m, struct error *e)
{
	struct previous previous = {.merge = m};
	TRY(store_runs_each(m->target, 0, see_previous, &previous, e));
	if (previous.run_id)
		return error_set(e, ERR_INPUT, "%s holds these shards joined already, as run %" PRId64,
			store_path(m->target), previous.run_id);
	return 0;
}

/* ---- The run and its variants ---- */

static void append_provenance(const struct merge *m, struct buf *out)
{
	buf_append_char(out, '{');
	JSON_EACH (member, json_root(m->parts[0].provenance)) {
		if (str_is(member->key, "shard"))
			continue;
		json_write_string(member->key, false, out);
		buf_append_text(out, ": ");
		json_dump_python(member, -1, false, out);
		buf_append_text(out, ", ");
	}
	buf_append_text(out, "\"merged\": [");
	for (size_t i = 0; i < m->n; i++) {
		const struct part *p = &m->parts[i];
		buf_append_text(out, i ? ", {\"uid\": " : "{\"uid\": ");
		json_write_string(str_of(p->uid), false, out);
		buf_append_text(out, ", \"host\": ");
		json_write_string(str_of(p->host), false, out);
		buf_printf(out, ", \"shard\": \"%" PRId64 "/%" PRId64 "\", \"seconds\": ", p->index, p->count);
		json_write_double_or_null(p->seconds, out);
		buf_append_text(out, ", \"command\": ");
		json_write_string(str_of(p->command), false, out);
		buf_append_char(out, '}');
	}
	buf_append_text(out, "]}");
}

static void append_hosts(const struct merge *m, struct buf *out)
{
	for (size_t i = 0; i < m->n; i++) {
		bool seen = false;
		for (size_t j = 0; j < i; j++)
			seen = seen || strcmp(m->parts[j].host, m->parts[i].host) == 0;
		if (!seen)
			buf_printf(out, "%s%s", out->length ? ", " : "", m->parts[i].host);
	}
}

static int bind_run(struct merge *m, const struct buf *provenance, const struct buf *hosts, struct error *e)
{
	const struct part *first = &m->parts[0];
	struct store_binder b = {0};
	int64_t started = first->started, finished = first->finished, resumptions = 0;
	double seconds = 0;
	for (size_t i = 0; i < m->n; i++) {
		started = m->parts[i].started < started ? m->parts[i].started : started;
		finished = m->parts[i].finished > finished ? m->parts[i].finished : finished;
		resumptions += m->parts[i].resumptions;
		seconds += m->parts[i].seconds;
	}
	TRY(store_prepare(m->target,
		"INSERT INTO run (uid, kind, started, finished, status, seconds, resumptions, config_hash, version, "
		"command,"
		" host, pid, model, model_fingerprint, tokenizer_hash, template_hash, numerics_id, for_gating, "
		"provenance)"
		" VALUES ('r' || substr(lower(hex(randomblob(8))), 1, 15), 'run', ?1, ?2, 'complete', ?3, ?4, ?5, ?6, "
		"?7, ?8,"
		" 0, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
		&b.statement, e));
	bind_int(&b, started);
	bind_int(&b, finished);
	bind_double(&b, seconds);
	bind_int(&b, resumptions);
	bind_text(&b, first->whole);
	bind_text(&b, first->version);
	bind_text(&b, first->command);
	bind_str(&b, buf_str(hosts));
	bind_text(&b, first->model);
	bind_text(&b, first->model_fingerprint);
	bind_text(&b, first->tokenizer_hash);
	bind_text(&b, first->template_hash);
	bind_text(&b, first->numerics_id);
	bind_int(&b, first->whole_for_gating);
	bind_str(&b, buf_str(provenance));
	TRY(store_run_statement(m->target, &b, "add the joined run", e));
	m->run_id = sqlite3_last_insert_rowid(m->target->db);
	return 0;
}

static int add_run(struct merge *m, struct error *e)
{
	struct buf provenance = {0}, hosts = {0};
	append_provenance(m, &provenance);
	append_hosts(m, &hosts);
	int status = buf_check(&provenance, e);
	if (status == 0)
		status = buf_check(&hosts, e);
	if (status == 0)
		status = bind_run(m, &provenance, &hosts, e);
	buf_free(&provenance);
	buf_free(&hosts);
	return status;
}

/* A variant of a shard, on its way into the joined run. */
struct variant_copy {
	struct merge *merge;
	const struct part *part;
	int64_t count;
};

int merge_find_variant(struct merge *m, const char *name, int64_t *id, struct error *e)
{
	struct store_binder b = {0};
	TRY(store_prepare(
		m->target, "SELECT variant_id FROM variant WHERE run_id = ?1 AND name = ?2", &b.statement, e));
	bind_int(&b, m->run_id);
	bind_text(&b, name);
	return store_query_int(m->target, &b, id, "find a variant", e);
}

/* Shard 1 gives the facts: sizes are the same everywhere, counters are each machine's own. */
static int add_variant(void *context, const struct store_variant *v, struct error *e)
{
	struct variant_copy *c = context;
	struct store *s = c->merge->target;
	struct store_binder b = {0};
	c->count++;
	if (c->part != &c->merge->parts[0]) {
		int64_t id = 0;
		TRY(merge_find_variant(c->merge, v->name, &id, e));
		return id ? 0
			  : error_set(e, ERR_INPUT, "%s has a variant %s that %s has not", c->part->label, v->name,
				    c->merge->parts[0].label);
	}
	TRY(store_prepare(s,
		"INSERT INTO variant (run_id, name, weights_bytes, kv_bytes_per_token, kv_tokens, facts)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
		&b.statement, e));
	bind_int(&b, c->merge->run_id);
	bind_text(&b, v->name);
	bind_int(&b, v->weights_bytes);
	bind_int(&b, v->kv_bytes_per_token);
	bind_int(&b, v->kv_tokens);
	bind_str(&b, v->facts);
	return store_run_statement(s, &b, "add a variant", e);
}

static int add_variants(struct merge *m, struct error *e)
{
	int64_t expected = 0;
	for (size_t i = 0; i < m->n; i++) {
		struct variant_copy c = {.merge = m, .part = &m->parts[i]};
		TRY(store_variants_each(m->parts[i].store, m->parts[i].run_id, add_variant, &c, e));
		if (i == 0)
			expected = c.count;
		else if (c.count != expected)
			return error_set(e, ERR_INPUT, "%s has %" PRId64 " variants, %s has %" PRId64,
				m->parts[0].label, expected, m->parts[i].label, c.count);
	}
	return 0;
}

/* ---- Answers ---- */

/* Columns that are copied as they are. doc_id is the third. */
#define SAMPLE_COLUMNS                                                                                            \
	"suite, task, doc_id, doc_hash, prompt_hash, target_hash, response, filtered, metrics, tokens,"           \
	" token_logprobs, status, finish_reason, error, prompt_tokens, cached_tokens, generated_tokens, seconds," \
	" finished, context_cut"
enum { SAMPLE_COLUMN_COUNT = 20, SAMPLE_DOC_ID = 2 };

static int insert_copy(struct merge *m, sqlite3_stmt *row, sqlite3_stmt *insert, int64_t variant_id, struct error *e)
{
	int code = sqlite3_bind_int64(insert, 1, m->run_id);
	if (code == SQLITE_OK)
		code = sqlite3_bind_int64(insert, 2, variant_id);
	for (int i = 0; i < SAMPLE_COLUMN_COUNT && code == SQLITE_OK; i++)
		code = sqlite3_bind_value(insert, 3 + i, sqlite3_column_value(row, i));
	struct store_binder binder = {insert, 0, code};
	int status = store_step(m->target, insert, &binder, "add a sample", e);
	sqlite3_reset(insert);
	return status < 0 ? status : 0;
}

static int copy_rows(struct merge *m, const struct part *p, sqlite3_stmt *read, sqlite3_stmt *insert, struct error *e)
{
	struct store_binder b = {.statement = read};
	int64_t from = 0, to = 0;
	int status;
	bind_int(&b, p->run_id);
	while ((status = store_step(p->store, read, &b, "read the samples", e)) == 1) {
		int64_t doc_id = sqlite3_column_int64(read, SAMPLE_DOC_ID);
		int64_t variant_id = sqlite3_column_int64(read, SAMPLE_COLUMN_COUNT);
		if (doc_id % p->count != p->index - 1)
			return error_set(e, ERR_INPUT, "%s holds %s document %" PRId64 ", which is another shard's",
				p->label, column_text(read, 1), doc_id);
		if (variant_id != from)
			TRY(merge_find_variant(m, column_text(read, SAMPLE_COLUMN_COUNT + 1), &to, e));
		from = variant_id;
		TRY(insert_copy(m, read, insert, to, e));
	}
	return status;
}

static int copy_samples(struct merge *m, const struct part *p, struct error *e)
{
	sqlite3_stmt *read = NULL, *insert = NULL;
	int status = store_prepare(p->store,
		"SELECT " SAMPLE_COLUMNS ", variant_id, name FROM sample JOIN variant USING (run_id, variant_id)"
		" WHERE run_id = ?1 ORDER BY variant_id, sample_id",
		&read, e);
	if (status == 0)
		status = store_prepare(m->target,
			"INSERT INTO sample (run_id, variant_id, " SAMPLE_COLUMNS ")"
			" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, "
			"?19, ?20,"
			" ?21, ?22)",
			&insert, e);
	if (status == 0)
		status = copy_rows(m, p, read, insert, e);
	sqlite3_finalize(read);
	sqlite3_finalize(insert);
	return status;
}

struct coverage {
	struct merge *merge;
	const struct json *suites; /* of the provenance */
};

static int check_variant(void *context, const struct store_variant *v, struct error *e)
{
	const struct coverage *c = context;
	JSON_EACH (suite, c->suites) {
		const struct json *name = json_get(suite, "name");
		int64_t items = 0, answered = 0;
		struct store_binder b = {0};
		if (!json_is(name, JSON_STRING) || !json_int64(json_get(suite, "items"), &items))
			return error_set(e, ERR_INPUT, "%s: its provenance does not tell the items of its suites",
				c->merge->parts[0].label);
		TRY(store_prepare(c->merge->target, "SELECT count(*) FROM sample WHERE variant_id = ?1 AND suite = ?2",
			&b.statement, e));
		bind_int(&b, v->variant_id);
		bind_str(&b, name->text);
		TRY(store_query_int(c->merge->target, &b, &answered, "count the samples", e));
		if (answered != items)
			return error_set(e, ERR_INPUT,
				"the shards hold %" PRId64 " answers to %.*s under %s, expected %" PRId64, answered,
				STR_ARG(name->text), v->name, items);
	}
	return 0;
}

static int check_coverage(struct merge *m, struct error *e)
{
	struct coverage c = {m, json_get(json_root(m->parts[0].provenance), "suites")};
	return store_variants_each(m->target, m->run_id, check_variant, &c, e);
}

/* ---- All of it ---- */

static int merge_all(struct merge *m, struct error *e)
{
	TRY(check_target(m, e));
	TRY(add_run(m, e));
	TRY(add_variants(m, e));
	for (size_t i = 0; i < m->n; i++) {
		TRY(copy_samples(m, &m->parts[i], e));
		TRY(merge_incidents(m, &m->parts[i], e));
	}
	TRY(check_coverage(m, e));
	return merge_results(m, e);
}

int store_merge(struct store *s, const struct store_shard *shards, size_t n, const struct store_math *math,
	int64_t *run_id, struct error *e)
{
	struct merge m = {.target = s, .math = math, .parts = mem_calloc(n, sizeof(*m.parts), e)};
	int status = m.parts ? 0 : ERR_MEMORY;
	for (; m.parts && m.n < n && status == 0; m.n++)
		status = part_read(&m.parts[m.n], &shards[m.n], e);
	if (status == 0)
		status = check_parts(&m, e);
	if (status == 0) {
		qsort(m.parts, m.n, sizeof(*m.parts), by_index);
		status = check_set(&m, e);
	}
	if (status == 0)
		status = store_begin(s, "join the shards", e);
	if (status == 0)
		status = store_end(s, merge_all(&m, e), "join the shards", e);
	*run_id = status == 0 ? m.run_id : 0;
	for (size_t i = 0; m.parts && i < m.n; i++)
		part_free(&m.parts[i]);
	free(m.parts);
	return status;
}
