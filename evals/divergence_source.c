#include "evals/divergence_source.h"

#include <limits.h>
#include <stdlib.h>

#include "engine/base/file.h"

/* One answer of the baseline. */
struct stored_answer {
	const struct suite_item *item;
	int32_t *tokens; /* [n] as generated; owned */
	int n;
};

struct divergence_source {
	const struct engine_text *text;
	int max_positions;
	int count;
	const struct reading *reading; /* NULL: answers */
	int window, stride;            /* tokens of the text; BOS not counted */
	struct stored_answer *answers; /* [count] */
	struct suite *const *suites;
	int n_suites;
};

/* ---- A text ---- */

int reading_open(struct reading *r, const char *path, const struct engine_text *text, struct error *e)
{
	struct buf content = {0};
	struct engine_ids ids = {0};
	const char *slash = strrchr(path, '/');

	*r = (struct reading){.path = strdup(path), .name = strdup(slash ? slash + 1 : path)};
	int status = r->path && r->name ? file_read(path, &content, e) : error_set(e, ERR_MEMORY, "out of memory");
	if (status == 0)
		status = engine_text_encode(text, buf_str(&content), false, &ids, e) < 0 ? error_prefix(e, "%s", path)
											 : 0;
	if (status == 0 && (ids.count < 2 || ids.count > INT_MAX))
		status = error_set(e, ids.count < 2 ? ERR_EMPTY : ERR_INPUT,
			"%s holds %zu tokens, expected at least 2 and at most %d", path, ids.count, INT_MAX);
	sha256_hex(content.data, content.length, r->file_hash);
	buf_free(&content);
	r->tokens = ids.data;
	r->count = ids.count;
	if (status < 0)
		reading_close(r);
	return status;
}

void reading_close(struct reading *r)
{
	free(r->path);
	free(r->name);
	free(r->tokens);
	*r = (struct reading){0};
}

/* BOS where the tokenizer puts it before a text by itself, else -1. */
static int32_t text_bos(const struct engine_text *text, struct error *e)
{
	struct engine_ids ids = {0};
	int32_t bos = -1;
	if (engine_text_encode(text, (struct str){"", 0}, true, &ids, e) == 0 && ids.count > 0 &&
		ids.data[0] == engine_text_bos(text))
		bos = ids.data[0];
	engine_ids_free(&ids);
	return bos;
}

static struct divergence_source *source_new(const struct engine_text *text, int max_positions, struct error *e)
{
	struct divergence_source *s = mem_calloc(1, sizeof(*s), e);
	if (s) {
		s->text = text;
		s->max_positions = max_positions;
	}
	return s;
}

int divergence_source_text(const struct reading *r, const struct engine_text *text, int max_positions, double limit,
	struct divergence_source **out, struct error *e)
{
	struct divergence_source *s = source_new(text, max_positions, e);
	*out = s;
	if (!s)
		return ERR_MEMORY;
	s->reading = r;
	s->window = max_positions < READING_WINDOW ? max_positions : READING_WINDOW;
	s->window -= text_bos(text, e) >= 0;
	if (s->window < 2) {
		divergence_source_free(s);
		*out = NULL;
		return error_set(
			e, ERR_LIMIT, "the model's context of %d tokens is too short to read a text in", max_positions);
	}
	s->stride = s->window / 2;
	size_t behind_first = r->count > (size_t)s->window ? r->count - (size_t)s->window : 0;
	size_t windows = 1 + (behind_first + (size_t)s->stride - 1) / (size_t)s->stride;
	s->count = limit_apply(limit, (int)windows);
	return 0;
}

static int window_make(const struct divergence_source *s, int i, struct divergence_document *d, struct error *e)
{
	const struct reading *r = s->reading;
	size_t start = (size_t)i * (size_t)s->stride, left = r->count - start;
	int n = left < (size_t)s->window ? (int)left : s->window;
	int32_t bos = text_bos(s->text, e);
	int lead = bos >= 0;
	struct buf place = {0};

	d->tokens = mem_calloc((size_t)(n + lead), sizeof(*d->tokens), e);
	if (!d->tokens)
		return ERR_MEMORY;
	d->tokens[0] = bos;
	memcpy(d->tokens + lead, r->tokens + start, (size_t)n * sizeof(*d->tokens));
	d->n_tokens = n + lead;
	/* what the window before has scored is only read; the very first token has nothing before it but BOS */
	d->from = lead + (i > 0 ? s->window - s->stride : 0);
	d->from = d->from > 0 ? d->from : 1;
	d->task = r->name;
	d->doc_id = i;
	memcpy(d->doc_hash, r->file_hash, sizeof(d->doc_hash));
	buf_printf(&place, "window %d of %d tokens, %d further each, of %s", i, s->window, s->stride, r->file_hash);
	sha256_hex(place.data, place.length, d->prompt_hash);
	int status = buf_check(&place, e);
	buf_free(&place);
	return status;
}

/* ---- Stored answers ---- */

static int read_tokens(const struct store_sample *sample, struct stored_answer *a, struct error *e)
{
	struct json_document *document = NULL;
	TRY(json_parse(sample->tokens, "sample.tokens", JSON_LAST_KEY_WINS, &document, e));
	const struct json *array = json_root(document);
	int status = 0;
	a->tokens = mem_calloc(array->count + 1, sizeof(*a->tokens), e);
	if (!a->tokens)
		status = ERR_MEMORY;
	JSON_EACH (id, array) {
		int64_t value = -1;
		if (status == 0 && (!json_int64(id, &value) || value < 0 || value > INT32_MAX))
			status = error_set(e, ERR_STORE, "the stored tokens of %s document %lld are damaged",
				sample->task, (long long)sample->doc_id);
		if (status == 0)
			a->tokens[a->n++] = (int32_t)value;
	}
	json_free(document);
	return status;
}

struct answer_loader {
	struct divergence_source *source;
	const struct suite *suite;
	int capacity;
};

static int answer_load(void *context, const struct store_sample *sample, struct error *e)
{
	struct answer_loader *l = context;
	struct divergence_source *s = l->source;
	int i = suite_find(l->suite, sample->task, sample->doc_id);

	if (sample->status == SAMPLE_ERROR || sample->tokens.length == 0 || i < 0)
		return 0;
	if (s->count == l->capacity) {
		int capacity = l->capacity ? 2 * l->capacity : 64;
		struct stored_answer *grown = reallocarray(s->answers, (size_t)capacity, sizeof(*grown));
		if (!grown)
			return error_set(e, ERR_MEMORY, "no memory for %d answers", capacity);
		s->answers = grown;
		l->capacity = capacity;
	}
	struct stored_answer *a = &s->answers[s->count++];
	*a = (struct stored_answer){.item = suite_item(l->suite, i)};
	TRY(read_tokens(sample, a, e));
	if (a->n == 0) { /* nothing was said: nothing to read */
		free(a->tokens);
		s->count--;
	}
	return 0;
}

int divergence_source_answers(struct store *store, int64_t run_id, int64_t variant_id, struct suite *const *suites,
	int n_suites, const struct engine_text *text, int max_positions, struct divergence_source **out,
	struct error *e)
{
	struct divergence_source *s = source_new(text, max_positions, e);
	*out = s;
	if (!s)
		return ERR_MEMORY;
	struct answer_loader loader = {.source = s};
	int status = 0;
	for (int i = 0; i < n_suites && status == 0; i++) {
		loader.suite = suites[i];
		if (suite_count(suites[i]) > 0 && suite_item(suites[i], 0)->kind == REQUEST_GENERATE)
			status = store_samples_each(
				store, run_id, variant_id, suite_name(suites[i]), answer_load, &loader, e);
	}
	if (status < 0) {
		divergence_source_free(s);
		*out = NULL;
	}
	return status;
}

static int answer_make(const struct divergence_source *s, int i, struct divergence_document *d, struct error *e)
{
	const struct stored_answer *a = &s->answers[i];
	struct engine_ids prompt = {0};

	TRY(engine_text_encode_prompt(s->text, a->item->context, &prompt, e));
	int most = s->max_positions - a->item->max_tokens;
	size_t cut = most > 0 && prompt.count > (size_t)most ? prompt.count - (size_t)most : 0;
	d->from = (int)(prompt.count - cut);
	d->n_tokens = d->from + a->n;
	d->tokens = mem_calloc((size_t)d->n_tokens, sizeof(*d->tokens), e);
	if (d->tokens) {
		memcpy(d->tokens, prompt.data + cut, (size_t)d->from * sizeof(*d->tokens));
		memcpy(d->tokens + d->from, a->tokens, (size_t)a->n * sizeof(*d->tokens));
	}
	engine_ids_free(&prompt);
	d->task = a->item->task;
	d->doc_id = a->item->doc_id;
	memcpy(d->doc_hash, a->item->doc_hash, sizeof(d->doc_hash));
	memcpy(d->prompt_hash, a->item->prompt_hash, sizeof(d->prompt_hash));
	return d->tokens ? 0 : ERR_MEMORY;
}

/* ---- Both ---- */

void divergence_source_free(struct divergence_source *s)
{
	if (!s)
		return;
	for (int i = 0; s->answers && i < s->count; i++)
		free(s->answers[i].tokens);
	free(s->answers);
	free(s);
}

int divergence_source_count(const struct divergence_source *s)
{
	return s->count;
}

/* The target is the tokens that are scored, as text: "12 7 990". */
static int target_hash(struct divergence_document *d, struct error *e)
{
	struct buf ids = {0};
	for (int i = d->from; i < d->n_tokens; i++)
		buf_printf(&ids, i == d->from ? "%d" : " %d", d->tokens[i]);
	sha256_hex(ids.data, ids.length, d->target_hash);
	int status = buf_check(&ids, e);
	buf_free(&ids);
	return status;
}

int divergence_document_make(const struct divergence_source *s, int i, struct divergence_document *out, struct error *e)
{
	*out = (struct divergence_document){0};
	int status = s->reading ? window_make(s, i, out, e) : answer_make(s, i, out, e);
	if (status == 0)
		status = target_hash(out, e);
	if (status < 0)
		divergence_document_free(out);
	return status;
}

void divergence_document_free(struct divergence_document *d)
{
	free(d->tokens);
	*d = (struct divergence_document){0};
}
