#include "reports/differences.h"

#include <stdlib.h>

#include "engine/base/json_strict.h"

/* Members of a configuration, flat. */
struct facts {
	struct fact {
		char *name, *value;
	} * items;
	size_t n;
};

static int facts_add(struct facts *f, struct str name, struct str value, struct error *e)
{
	struct fact *grown = reallocarray(f->items, f->n + 1, sizeof(*grown));
	if (!grown)
		return error_set(e, ERR_MEMORY, "no memory for a configuration");
	f->items = grown;
	struct fact *fact = &f->items[f->n++];
	*fact = (struct fact){
		strndup(name.data ? name.data : "", name.length), strndup(value.data ? value.data : "", value.length)};
	return fact->name && fact->value ? 0 : error_set(e, ERR_MEMORY, "no memory for a configuration");
}

static void facts_free(struct facts *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->items[i].name);
		free(f->items[i].value);
	}
	free(f->items);
}

/* Elements of an array go by their name, where they have one ("suites.gsm8k.fewshot"), else by their number. */
static void append_step(struct buf *path, const struct json *parent, const struct json *item, size_t index)
{
	const struct json *name = json_get(item, "name");
	buf_append_text(path, path->length ? "." : "");
	if (parent->type == JSON_OBJECT)
		buf_append_str(path, item->key);
	else if (json_is(name, JSON_STRING))
		buf_append_str(path, name->text);
	else
		buf_printf(path, "%zu", index);
}

static int flatten(struct facts *f, const struct json *value, struct buf *path, struct error *e)
{
	if (!json_is(value, JSON_OBJECT) && !json_is(value, JSON_ARRAY)) {
		struct buf text = {0};
		if (json_is(value, JSON_STRING) || json_is(value, JSON_NUMBER))
			buf_append_str(&text, value->text);
		else
			json_dump_python(value, -1, false, &text);
		int status = facts_add(f, buf_str(path), buf_str(&text), e);
		buf_free(&text);
		return status;
	}
	size_t length = path->length, index = 0;
	JSON_EACH (item, value) {
		append_step(path, value, item, index++);
		TRY(buf_check(path, e));
		TRY(flatten(f, item, path, e));
		path->length = length;
		path->data[length] = '\0';
	}
	return 0;
}

static int facts_of(const struct answers *a, struct facts *f, struct error *e)
{
	const struct {
		const char *name, *text;
	} members[] = {{"variant", a->variant}, {"model", a->run.model},
		{"model_fingerprint", a->run.model_fingerprint}, {"tokenizer_hash", a->run.tokenizer_hash},
		{"template_hash", a->run.template_hash}, {"numerics_id", a->run.numerics_id},
		{"version", a->run.version}, {"host", a->run.host}};
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		if (members[i].text)
			TRY(facts_add(f, str_of(members[i].name), str_of(members[i].text), e));
	if (a->run.provenance.length == 0)
		return 0;
	struct json_document *document = NULL;
	struct buf path = {0};
	TRY(json_parse(a->run.provenance, "provenance", JSON_LAST_KEY_WINS, &document, e));
	buf_append_text(&path, "");
	int status = flatten(f, json_root(document), &path, e);
	buf_free(&path);
	json_free(document);
	return status;
}

static const char *find(const struct facts *f, const char *name)
{
	for (size_t i = 0; i < f->n; i++)
		if (strcmp(f->items[i].name, name) == 0)
			return f->items[i].value;
	return NULL;
}

static int add_difference(struct difference **out, size_t *n, const char *name, const char *baseline,
	const char *candidate, struct error *e)
{
	struct difference *grown = reallocarray(*out, *n + 1, sizeof(*grown));
	if (!grown)
		return error_set(e, ERR_MEMORY, "no memory for a configuration");
	*out = grown;
	struct difference *d = &grown[(*n)++];
	*d = (struct difference){strdup(name), strdup(baseline ? baseline : "-"), strdup(candidate ? candidate : "-")};
	return d->name && d->baseline && d->candidate ? 0 : error_set(e, ERR_MEMORY, "no memory for a configuration");
}

static int compare_facts(
	const struct facts *a, const struct facts *b, struct difference **out, size_t *n, struct error *e)
{
	for (size_t i = 0; i < a->n; i++) {
		const char *other = find(b, a->items[i].name);
		if (!other || strcmp(a->items[i].value, other) != 0)
			TRY(add_difference(out, n, a->items[i].name, a->items[i].value, other, e));
	}
	for (size_t i = 0; i < b->n; i++)
		if (!find(a, b->items[i].name))
			TRY(add_difference(out, n, b->items[i].name, NULL, b->items[i].value, e));
	return 0;
}

int differences_find(
	const struct answers *a, const struct answers *b, struct difference **out, size_t *n, struct error *e)
{
	struct facts left = {0}, right = {0};
	int status = 0;
	*out = NULL;
	*n = 0;
	if (a->variant_id && b->variant_id) {
		status = facts_of(a, &left, e);
		if (status == 0)
			status = facts_of(b, &right, e);
		if (status == 0)
			status = compare_facts(&left, &right, out, n, e);
	}
	facts_free(&left);
	facts_free(&right);
	return status;
}

void differences_free(struct difference *differences, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(differences[i].name);
		free(differences[i].baseline);
		free(differences[i].candidate);
	}
	free(differences);
}
