#include "engine/text/tokenizer_json.h"

#include <stdlib.h>

#include "engine/text/field.h"
#include "engine/text/vocab.h"

/* A token as the configuration writes it: its text, or an object with flags. *found is false for null. */
static int read_token(const struct json *value, const char *key, struct spec_added *out, bool *found, struct error *e)
{
	*out = (struct spec_added){.special = true};
	*found = value && !json_is(value, JSON_NULL);
	if (!*found)
		return 0;
	if (json_is(value, JSON_STRING)) {
		out->content = value->text;
	} else if (json_is(value, JSON_OBJECT)) {
		TRY(field_text(value, "content", key, &out->content, e));
		TRY(field_bool_or(value, "special", key, false, &out->special, e));
		TRY(field_bool_or(value, "normalized", key, !out->special, &out->normalized, e));
		TRY(field_bool_or(value, "lstrip", key, false, &out->lstrip, e));
		TRY(field_bool_or(value, "rstrip", key, false, &out->rstrip, e));
		TRY(field_bool_or(value, "single_word", key, false, &out->single_word, e));
	} else {
		return error_set(e, ERR_INPUT, "\"%s\" is %s, expected a token", key, json_type_name(value));
	}
	*found = out->content.length > 0;
	return 0;
}

/* A token with a role: it becomes special, and keeps the flags that it has. *content: empty where there is none. */
static int put_named(
	struct tokenizer_spec *spec, const struct json *value, const char *key, struct str *content, struct error *e)
{
	struct spec_added added;
	bool found;
	TRY(read_token(value, key, &added, &found, e));
	*content = found ? added.content : (struct str){"", 0};
	if (!found)
		return 0;
	const struct spec_added *known = spec_find_added(spec, added.content);
	if (known)
		added = *known;
	added.special = true;
	return spec_add(spec, added, e);
}

struct numbered_token {
	int64_t id;
	const struct json *value;
};

static int compare_numbers(const void *a, const void *b)
{
	const struct numbered_token *left = a, *right = b;
	return (left->id > right->id) - (left->id < right->id);
}

/* {"ID": {"content": ..., flags}}: by their numbers, though the numbers do not become the ids. */
static int put_decoder(struct tokenizer_spec *spec, const struct json *decoder, struct error *e)
{
	static const char key[] = "added_tokens_decoder";
	if (!decoder || json_is(decoder, JSON_NULL))
		return 0;
	if (!json_is(decoder, JSON_OBJECT))
		return error_set(e, ERR_INPUT, "\"%s\" is %s, expected an object", key, json_type_name(decoder));
	struct numbered_token *tokens = mem_calloc(decoder->count, sizeof(*tokens), e);
	if (!tokens)
		return ERR_MEMORY;
	int status = 0;
	size_t count = 0;
	JSON_EACH (token, decoder) {
		struct json number = {.type = JSON_NUMBER, .text = token->key};
		int64_t id;
		if (token->shadowed)
			continue;
		if (!json_is(token, JSON_OBJECT) || !json_int64(&number, &id) || id < 0 || id >= VOCAB_ID_END) {
			status = error_set(e, ERR_INPUT, "%s: \"%.*s\" is %s, expected ids from 0 to %d with objects",
				key, STR_ARG(token->key), json_type_name(token), VOCAB_ID_END - 1);
			goto cleanup;
		}
		tokens[count++] = (struct numbered_token){id, token};
	}
	qsort(tokens, count, sizeof(*tokens), compare_numbers);
	for (size_t i = 0; i < count; i++) {
		struct spec_added added;
		bool found;
		TRY_CLEANUP(status, read_token(tokens[i].value, key, &added, &found, e));
		if (found)
			TRY_CLEANUP(status, spec_add(spec, added, e));
	}

cleanup:
	free(tokens);
	return status;
}

static const char *const roles[] = {
	"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
enum { ROLES = sizeof(roles) / sizeof(roles[0]) };

static bool is_role(struct str key)
{
	for (size_t i = 0; i < ROLES; i++) {
		if (str_is(key, roles[i]))
			return true;
	}
	return false;
}

static int put_roles(struct tokenizer_spec *spec, const struct json *root, struct error *e)
{
	struct str content[ROLES];
	for (size_t i = 0; i < ROLES; i++)
		TRY(put_named(spec, json_get(root, roles[i]), roles[i], &content[i], e));
	spec->bos = content[0];
	spec->eos = content[1];

	/* Tokens of a model's own, such as "image_token". */
	static const char suffix[] = "_token";
	JSON_EACH (member, root) {
		struct str key = member->key;
		struct str own;
		if (member->shadowed || is_role(key) || !json_is(member, JSON_STRING) || key.length < sizeof(suffix) ||
			!str_equal((struct str){key.data + key.length - (sizeof(suffix) - 1), sizeof(suffix) - 1},
				str_of(suffix)))
			continue;
		TRY(put_named(spec, member, "a token of the model's own", &own, e));
	}
	return 0;
}

/* The list, or names with tokens; the old name counts where the new one is missing or empty. */
static int put_extras(struct tokenizer_spec *spec, const struct json *root, struct error *e)
{
	const struct json *extras = json_get(root, "extra_special_tokens");
	if (!extras || json_is(extras, JSON_NULL) || (extras->count == 0 && !json_is(extras, JSON_STRING)))
		extras = json_get(root, "additional_special_tokens");
	if (!extras || json_is(extras, JSON_NULL))
		return 0;
	if (!json_is(extras, JSON_ARRAY) && !json_is(extras, JSON_OBJECT))
		return error_set(e, ERR_INPUT, "\"extra_special_tokens\" is %s, expected an array of tokens",
			json_type_name(extras));
	JSON_EACH (token, extras) {
		struct str content;
		TRY(put_named(spec, token, "extra_special_tokens", &content, e));
	}
	return 0;
}

int tokenizer_config_read(const struct json *root, struct tokenizer_spec *spec, struct error *e)
{
	if (!json_is(root, JSON_OBJECT))
		return error_set(e, ERR_INPUT, "the file holds %s, expected an object", json_type_name(root));
	TRY(field_bool_or(root, "split_special_tokens", "the file", false, &spec->split_special, e));
	TRY(put_decoder(spec, json_get(root, "added_tokens_decoder"), e));
	TRY(put_roles(spec, root, e));
	return put_extras(spec, root, e);
}
